"""A black-box audit: draw from a mechanism on x and on a neighbor, and bound its ε from below.

Half of the draws learn events (see `scores`), the other half bounds ε on them (see the theorem of `finding`): with the
stated confidence no mechanism of a smaller ε gives these outputs. An audit refutes claims; it never proves them.

>>> from discreet.attacks.audit import Audit
>>> def coin(bit, n, rng):
...     return bit ^ (rng.random(n) < 0.1)  # ε = ln 9 = 2.197
>>> result = Audit(mechanism=coin, x=False, neighbor=True, claimed=1, samples=20_000, seed=1).find()
>>> result.broken, 2.0 < result.epsilon < 2.2
(True, True)

Search for neighboring inputs that a mechanism tells apart most.

An audit of one pair says nothing of the others: a mechanism may protect 10 and 11 and betray an empty table. Each
candidate is audited on a few draws; the one with the largest bound is audited in full, on draws of its own.
"""

import inspect
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from statistics import NormalDist
from typing import Any

import numpy as np

from discreet.attacks.attack_report import AttackReport
from discreet.attacks.audit.finding import Counts, Finding, TestedEvent, failure_probability_of, ratio_bound
from discreet.attacks.audit.outputs import ErrorOutput, Outputs, Reader, joined, settled
from discreet.attacks.audit.scores import Event, choose
from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import Number, float_up, integer, rational
from discreet.privacy.loss import Loss

Claim = Number | tuple[Number, Number] | Loss
Progress = Callable[[int, int], None]

_EVENTS = 2  # events that the fresh draws are counted on
_FEWEST = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """A mechanism, two neighboring inputs and what was claimed.

    `mechanism` draws in one of three ways, told apart by how many arguments it takes: `f(data)` one output,
    `f(data, n)` n outputs at once, `f(data, n, rng)` the same with a NumPy generator of this seed. Draws must be
    independent. An exception of an `f(data)` counts as an output, since whoever asks would see it.

    `claimed` is ε, (ε, δ) or a loss (with `delta`); without it only the bound is found, at `delta` (0 if left out).
    `samples` are drawn on each side. `events` are further events to try: predicates of one output. `seconds` is about
    how long sampling may take: fewer draws are made then, never a weaker statement. `progress(done, total)` is called
    between batches.
    """

    mechanism: Callable[..., Any]
    x: Any
    neighbor: Any
    claimed: Claim | None = None
    delta: Number | None = None
    samples: int = 100_000
    confidence: Number = 0.99
    seed: int = 0
    name: str = ""
    events: tuple[Callable[[Any], bool], ...] = ()
    seconds: float | None = None
    progress: Progress | None = None

    def __post_init__(self) -> None:
        integer(self.samples, "samples", at_least=2 * _FEWEST)
        integer(self.seed, "seed", at_least=0)
        failure_probability_of(self.confidence)
        claim(self.claimed, self.delta)
        _arguments(self.mechanism)
        if not all(callable(event) for event in self.events):
            raise InvalidParameter("events", self.events, "functions of one output that return True or False")
        if self.seconds is not None:
            rational(self.seconds, "seconds", above=0)

    def run(self) -> AttackReport:
        """Audit, and report: `facts` hold the bound beside the claim, `charts` show the event."""
        return self.find().report()

    def find(self) -> Finding:
        """The bound, with the events that it rests on.

        Guarantee: with at least the stated confidence, the mechanism is not (ε,δ)-DP for any ε below
        `Finding.epsilon`. Proof. The theorem of `finding`, with events and the number of fresh draws fixed by the draws
        that were made before.
        """
        epsilon, delta = claim(self.claimed, self.delta)
        draws = _Draws(self)
        first = [draws.batches(data, self.samples // 2, share=(k + 1) / 4) for k, data in enumerate(self._sides)]
        fresh = draws.affordable_draws()
        _check_answers(first)
        reader = Reader.learn([batch for side in first for batch in side], tuple(self.events))
        learned = [joined([reader.read(batch) for batch in side]) for side in first]
        enough = math.inf if epsilon is None else float_up(epsilon)
        events = choose(
            *learned, delta=float(delta), deviations=self._deviations, trials=fresh, most=_EVENTS, enough=enough
        )
        sides = [joined([reader.read(batch) for batch in draws.batches(data, fresh)]) for data in self._sides]
        failure_probability = failure_probability_of(self.confidence) / (2 * max(1, len(events)))
        tested = tuple(_test(event, sides[0], sides[1], delta, failure_probability) for event in events)
        clear = any(event.clear(epsilon) for event in tested)
        return Finding(
            name=self.name or getattr(self.mechanism, "__name__", "a mechanism").replace("<lambda>", "a mechanism"),
            delta=delta,
            claimed=epsilon,
            confidence=1 - failure_probability_of(self.confidence),
            draws=sum(map(len, (*learned, *sides))),
            tested=tuple(sorted(tested, key=lambda event: (clear and event.event.score.bits, -event.rank))),
            sides=(sides[0], sides[1]),
        )

    @property
    def _sides(self) -> tuple[Any, Any]:
        return self.x, self.neighbor

    @property
    def _deviations(self) -> float:
        """How many standard deviations one limit lies from its count."""
        return NormalDist().inv_cdf(1 - float(failure_probability_of(self.confidence)) / (2 * _EVENTS))


class _Draws:
    """Draws of an audit, in batches, with an eye on the clock."""

    def __init__(self, audit: Audit) -> None:
        self.audit, self.started, self.done = audit, time.monotonic(), 0
        self._generator = np.random.default_rng(audit.seed)
        self._arguments = _arguments(audit.mechanism)

    def batches(self, data: Any, count: int, share: float | None = None) -> list[Any]:
        """`count` draws, or as many as this share of the time allows (a few at least)."""
        drawn: list[Any] = []
        left, size = count, (200, 2000, max(1 << 14, count // 10))[self._arguments - 1]
        while left > 0:
            now = min(size, left)
            drawn.append(self._batch(data, now))
            left -= now
            self.done += now
            if self.audit.progress is not None:
                self.audit.progress(self.done, 2 * self.audit.samples)
            if share is not None and self._spent > share:
                break
        return drawn

    def affordable_draws(self) -> int:
        """How many fresh draws of each side the time allows, by how long the draws before took."""
        wanted = self.audit.samples - self.audit.samples // 2
        if self.audit.seconds is None or self._spent <= 0:
            return wanted
        affordable = int(self.done / 2 * (1 - self._spent) / self._spent)
        return max(_FEWEST, min(wanted, affordable))

    @property
    def _spent(self) -> float:
        """The share of the time that has passed."""
        seconds = self.audit.seconds
        return 0.0 if seconds is None else (time.monotonic() - self.started) / float(seconds)

    def _batch(self, data: Any, count: int) -> Any:
        mechanism = self.audit.mechanism
        if self._arguments == 1:
            return [_once(mechanism, data) for _ in range(count)]
        given = mechanism(data, count) if self._arguments == 2 else mechanism(data, count, self._generator)
        try:
            size = len(given)
        except TypeError:
            size = -1
        if size != count:
            got = "something without a length" if size < 0 else f"{size} outputs"
            raise InvalidData(f"mechanism: got {got} where {count} were asked for; return one output for each draw")
        return settled(given)


def _once(mechanism: Callable[[Any], Any], data: Any) -> Any:
    try:
        return settled([mechanism(data)])[0]
    except Exception as error:  # whoever asks sees that it failed
        return ErrorOutput(type(error).__name__)


def _check_answers(sides: list[list[Any]]) -> None:
    """A mechanism that always fails is not private but broken in another way: say so."""
    kinds = set()
    for output in (output for side in sides for batch in side for output in batch):
        if not isinstance(output, ErrorOutput):
            return
        kinds.add(output.kind)
    raise InvalidParameter("mechanism", ", ".join(sorted(kinds)), "an answer", "it raised this on every single draw")


def _test(event: Event, x: Outputs, other: Outputs, delta: Fraction, failure_probability: Fraction) -> TestedEvent:
    """The better of the two bounds that the theorem gives for one event."""
    inside = event.holds(x), event.holds(other)
    hits, sizes = [int(side.sum()) for side in inside], [len(side) for side in inside]
    likely, other_side = (0, 1) if event.above else (1, 0)
    counts = Counts(
        hits=hits[likely], trials=sizes[likely], other_hits=hits[other_side], other_trials=sizes[other_side]
    )
    low, high = counts.limits(failure_probability)
    direct = TestedEvent(event, counts, low, high, ratio_bound(low, high, float(delta)), event.above, False)
    turned = ratio_bound(1 - high, 1 - low, float(delta))
    if turned <= direct.epsilon + 0.01:
        return direct
    return TestedEvent(event, counts.complement, 1 - high, 1 - low, turned, not event.above, True)


def claim(claimed: Claim | None, delta: Number | None) -> tuple[Fraction | None, Fraction]:
    """(ε, δ) as claimed; ε is None where nothing was.

    >>> claim((1, "1e-6"), None)
    (Fraction(1, 1), Fraction(1, 1000000))
    """
    spare = rational(0 if delta is None else delta, "delta", at_least=0, below=1)
    if claimed is None:
        return None, spare
    if isinstance(claimed, tuple):
        if len(claimed) != 2 or delta is not None:
            raise InvalidParameter("claimed", claimed, "(ε, δ), and no separate delta")
        return rational(claimed[0], "claimed ε", at_least=0), rational(claimed[1], "claimed δ", at_least=0, below=1)
    if isinstance(claimed, Loss):
        from discreet.privacy.accounting import guarantee

        return rational(guarantee(claimed, delta=spare).epsilon, "claimed ε", at_least=0), spare
    return rational(claimed, "claimed", at_least=0), spare


def _arguments(mechanism: Callable[..., Any]) -> int:
    """How many arguments must be given to the mechanism."""
    hint = "wrap it: lambda data: …, lambda data, n: … or lambda data, n, rng: …"
    if not callable(mechanism):
        raise InvalidParameter("mechanism", mechanism, "a function", hint)
    try:
        parameters = inspect.signature(mechanism).parameters.values()
    except (TypeError, ValueError):
        raise InvalidParameter("mechanism", mechanism, "a function with a signature", hint) from None
    given = [p for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    needed = [p for p in given if p.default is p.empty]
    if not 1 <= len(needed) <= 3 or any(p.kind is p.KEYWORD_ONLY for p in needed):
        raise InvalidParameter("mechanism", mechanism, "a function of (data), (data, n) or (data, n, rng)", hint)
    return len(needed)


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
