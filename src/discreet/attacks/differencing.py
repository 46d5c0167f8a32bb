"""Everybody, and everybody but one: the difference of two counts is one person's secret.

Known as the tracker (Schlörer 1975; Denning, Denning, Schwartz 1979). One pair of questions is enough against exact
counts. Against rounded counts and against noise without a ledger the attacker puts the same person into many random
groups and takes the mean of the differences: rounding hides no mean.

>>> import numpy as np
>>> from discreet.attacks.answers import Raw, Rounded
>>> from discreet.attacks.differencing import Differencing, pairs_about
>>> ill = np.random.default_rng(7).random(60) < 0.4
>>> one = pairs_about(range(60), of=60, groups=1, seed=1)
>>> Differencing(pairs=one, truth=ill, answerer=Raw(ill)).run().success.value
1.0
>>> many = pairs_about(range(60), of=60, groups=100, seed=1)
>>> Differencing(pairs=many, truth=ill, answerer=Rounded(Raw(ill), base=5)).run().verdict
'falls'
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.attacks.answers import Answerer, Fresh, bits, one, words
from discreet.attacks.report import AttackReport, Share
from discreet.errors import InvalidData
from discreet.exact import Number, integer, rational, text_up
from discreet.mechanisms.inference import guess_bound

Pair = tuple[Any, Any]

_EXACT = 1e-9  # a variance below this is rounding


@dataclass(frozen=True, slots=True, kw_only=True)
class Differencing:
    """For each person attacked, pairs of questions that differ by that person; `truth` are the secret bits.

    `answerer` serves everybody, or is a `Fresh`, which gives each person an answerer of their own. `epsilon`, if
    given, is what all answers about one person cost together: the report then states the best that any attack can do
    on a secret that is as probable as not.
    """

    pairs: Sequence[Sequence[Pair]] = field(repr=False)
    truth: ArrayLike = field(repr=False)
    answerer: Answerer | Fresh
    epsilon: Number | None = None
    confidence: float = 0.95

    def run(self) -> AttackReport:
        """Ask, take differences, and guess what is likeliest by them and by how common the secret is."""
        truth = self._checked()
        found = [difference(self._for(person), pairs) for person, pairs in enumerate(self.pairs)]
        share = float(truth.mean())
        means = np.array([math.nan if d is None else d for d in found])
        guessed = likeliest(means, [0, 1], [1 - share, share]) == 1
        return AttackReport(
            attack="differencing",
            against=words(self.answerer, None if isinstance(self.answerer, Fresh) else self.epsilon),
            goal="learn a person's secret bit",
            people=len(truth),
            success=Share.counted(int((guessed == truth).sum()), len(truth), confidence=self.confidence),
            baseline=Share.known(max(share, 1 - share)),
            confidence=self.confidence,
            facts={
                "pairs of questions a person": f"{np.mean([len(p) for p in self.pairs]):.4g}",
                "people about whom everything was refused": sum(d is None for d in found),
                **ceiling(self.epsilon),
            },
        )

    def _for(self, person: int) -> Answerer:
        return self.answerer.make(person) if isinstance(self.answerer, Fresh) else self.answerer

    def _checked(self) -> NDArray[np.bool_]:
        truth = bits(self.truth, "truth")
        if len(self.pairs) != len(truth):
            raise InvalidData(f"pairs: got those of {len(self.pairs)} people, expected {len(truth)}, as in truth")
        for person, pairs in enumerate(self.pairs):
            if not len(pairs) or any(len(pair) != 2 for pair in pairs):
                raise InvalidData(f"pairs: person {person} needs a list of pairs (with the person, without)")
        return truth


def difference(answerer: Answerer, pairs: Iterable[Pair]) -> float | None:
    """The mean of "with the person" minus "without", over the pairs that were answered; None if none was.

    >>> difference(len, [("abc", "ab"), ("xy", "x")])
    1.0
    """
    found = []
    for larger, smaller in pairs:
        first, second = one(answerer, larger), one(answerer, smaller)
        if first is not None and second is not None:
            found.append(first - second)
    return math.fsum(found) / len(found) if found else None


def likeliest(means: NDArray[np.float64], values: Sequence[float], shares: Sequence[float]) -> NDArray[np.float64]:
    """The likeliest of the possible values by each mean and by their shares; NaN means that nothing was answered.

    The error of the means is taken for normal. Its variance is what the means vary by beyond the values themselves;
    where that is nothing, the nearest value is taken. So under much noise the commonest value is guessed, which no
    attacker falls short of.

    >>> likeliest(np.array([0.9, 0.2, -2.0, math.nan]), [0, 1], [0.9, 0.1]).tolist()
    [0.0, 0.0, 0.0, 0.0]
    >>> likeliest(np.array([1.0, 0.0]), [0, 1], [0.5, 0.5]).tolist()
    [1.0, 0.0]
    """
    possible, prior = np.asarray(values, np.float64), np.asarray(shares, np.float64)
    known = means[~np.isnan(means)]
    spread = prior @ possible**2 - (prior @ possible) ** 2
    variance = max(0.0, float(known.var()) - float(spread)) if len(known) else 0.0
    distance = (np.nan_to_num(means)[:, None] - possible) ** 2
    with np.errstate(divide="ignore"):
        weight = np.log(prior)
    scores = -distance if variance < _EXACT else weight - distance / (2 * variance)
    return np.asarray(possible[np.where(np.isnan(means)[:, None], prior, scores).argmax(axis=1)])


def pairs_about(people: Iterable[int], *, of: int, groups: int, seed: int) -> list[list[Pair]]:
    """For each person, random halves of the `of` people (as boolean masks), with the person and without.

    >>> [(larger, smaller)] = pairs_about([2], of=5, groups=1, seed=0)[0]
    >>> np.flatnonzero(larger != smaller).tolist()
    [2]
    """
    integer(of, "of", at_least=1)
    integer(groups, "groups", at_least=1)
    rng = np.random.default_rng(integer(seed, "seed", at_least=0))
    return [_pairs(integer(person, "people", at_least=0, at_most=of - 1), of, groups, rng) for person in people]


def ceiling(epsilon: Number | None) -> dict[str, str]:
    """The fact for a report: e^ε/(1+e^ε) bounds every guess of a bit with even odds.

    >>> ceiling(1)
    {'no attack on an even bit can beat, on average': '73.1 % (ε 1 in all)'}
    """
    if epsilon is None:
        return {}
    bound, total = guess_bound(epsilon) / 2, text_up(rational(epsilon, "epsilon"), 4)
    return {"no attack on an even bit can beat, on average": f"{100 * bound:.1f} % (ε {total} in all)"}


def _pairs(person: int, of: int, groups: int, rng: np.random.Generator) -> list[Pair]:
    with_person = rng.random((groups, of)) < 0.5
    without = with_person.copy()
    with_person[:, person], without[:, person] = True, False
    return list(zip(with_person, without, strict=True))
