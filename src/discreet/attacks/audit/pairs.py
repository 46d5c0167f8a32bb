"""Search for neighboring inputs that a mechanism tells apart most.

An audit of one pair says nothing of the others: a mechanism may protect 10 and 11 and betray an empty table. Each
candidate is audited on a few draws; the one with the largest bound is audited in full, on draws of its own.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from discreet.attacks.audit.audit import Audit
from discreet.errors import InvalidParameter
from discreet.exact import integer

_MOST = 24  # neighbors that are tried


def worst_pair(audit: Audit, pairs: Sequence[tuple[Any, Any]], *, pilot: int = 4000) -> Audit:
    """The same audit on the pair that looks worst after `pilot` draws of each side of every pair.

    Guarantee: the confidence of the audit that is returned is that of one audit. Proof. The pair is fixed by the pilot
    draws, which are not used again; seeds of the pilots differ from that of the audit.

    >>> def count(people, n, rng):
    ...     return len(people) + (rng.laplace(size=n) if people else 0 * rng.random(n))  # no noise on empty data
    >>> plain = Audit(mechanism=count, x=[1, 2], neighbor=[1], claimed=1, samples=4000)
    >>> worst_pair(plain, [([1, 2], [1]), ([1], [])], pilot=1000).neighbor
    []
    """
    if not pairs:
        raise InvalidParameter("pairs", "none", "at least one pair of neighbors")
    draws = min(audit.samples, integer(pilot, "pilot", at_least=200))
    seconds = None if audit.seconds is None else audit.seconds / (2 * len(pairs))
    bounds = []
    for number, (x, neighbor) in enumerate(pairs):
        seed = audit.seed + 1_000_003 * (number + 1)
        trial = replace(audit, x=x, neighbor=neighbor, samples=draws, seed=seed, seconds=seconds, progress=None)
        bounds.append(trial.find().epsilon)
    x, neighbor = pairs[max(range(len(pairs)), key=bounds.__getitem__)]
    return replace(audit, x=x, neighbor=neighbor, seconds=None if seconds is None else audit.seconds / 2)  # type: ignore[operator]


def neighbors(data: Any) -> list[Any]:
    """Inputs that differ from `data` by one person: a row taken out or added, a count moved by one, a bit flipped.

    Of a list each of some elements is taken out, and its least, its largest and an absent extreme are added; of a set
    each of some members is taken out; of a mapping some keys are taken out, and numbers moved by one.

    >>> neighbors(10), neighbors(True), neighbors([3, 5])
    ([11, 9], [False], [[5], [3], [3, 5, 3], [3, 5, 5], [3, 5, 0]])
    """
    if isinstance(data, bool):
        return [not data]
    if isinstance(data, int | float):
        return [data + 1, data - 1]
    if isinstance(data, list | tuple):
        step = max(1, -(-len(data) // (_MOST - 3)))
        kind: Callable[[Any], Any] = type(data)
        fewer = [kind([*data[:at], *data[at + 1 :]]) for at in range(0, len(data), step)]
        numeric = bool(data) and all(isinstance(value, int | float) for value in data)
        added = dict.fromkeys([min(data), max(data), 0] if numeric else data[:1])
        return fewer + [kind([*data, value]) for value in added]
    if isinstance(data, set | frozenset) and data:
        return [data - {member} for member in sorted(data, key=repr)[:_MOST]]
    if isinstance(data, dict) and data:
        keys = sorted(data, key=repr)[: _MOST // 3]
        fewer = [{other: data[other] for other in data if other != key} for key in keys]
        return fewer + [
            data | {key: moved}
            for key in keys
            if isinstance(data[key], int | float | bool)
            for moved in neighbors(data[key])
        ]
    expected = "a number, a truth value, a list, a set or a mapping"
    raise InvalidParameter("data", f"a {type(data).__name__}", expected, "name its neighbor")
