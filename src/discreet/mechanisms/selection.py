"""Mechanisms that choose: exponential, permute-and-flip, report noisy max, and above-threshold.

Scores and answers are whole numbers (or, where only their softmax matters, rationals): their sensitivity is then exact.
`sensitivity` is the most that one unit can change any one score. `monotone` promises more: one unit moves all scores in
the same direction (counts under "add or remove one"), which halves the noise.

The most frequent values of declared ones, in many groups at once: the exponential mechanism, again and again.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import Number, float_up, integer, log_up
from discreet.fields import Converted, DisplayMixin, Integer, Rational
from discreet.mechanisms.additive import laplace_tail
from discreet.mechanisms.channel import Channel
from discreet.mechanisms.mechanism import add, countable, drawable, failure_probability, whole
from discreet.mechanisms.quantile import Multisets
from discreet.mechanisms.stochastic import Label
from discreet.noise import Entropy, accept_each, discrete_laplace, softmax, softmax_each, uniform_below, uniform_each
from discreet.noise.categorical import exponents
from discreet.privacy.loss import BoundedRange, Loss, Pure, Repeated


class Truth(Converted[bool, bool]):
    """True or False, and nothing like it; False unless it is said."""

    def __init__(self) -> None:
        def convert(value: bool, name: str) -> bool:
            if not isinstance(value, bool):
                raise InvalidParameter(name, value, "True or False")
            return value

        super().__init__(convert, default=False)


@dataclass(frozen=True, kw_only=True)
class _Chooser(DisplayMixin):
    """Settings and error bound shared by the mechanisms that choose one candidate by its score."""

    epsilon: Rational = Rational(above=0)
    sensitivity: Rational = Rational(above=0)
    monotone: Truth = Truth()

    @property
    def _settings(self) -> dict[str, Fraction]:
        return {"epsilon": self.epsilon, "sensitivity": self.sensitivity}

    @property
    def scale(self) -> Fraction:
        """What scores are divided by: 2Δ/ε, or Δ/ε where scores are monotone."""
        return (1 if self.monotone else 2) * self.sensitivity / self.epsilon

    def interval(self, confidence: Number, *, candidates: int) -> float:
        """How far the chosen score can be below the best one, with at least this probability.

        scale·(ln|O| + ln 1/β) (McSherry, Talwar 2007; Dwork, Roth 2014, Corollary 3.12); permute-and-flip is never
        worse (McKenna, Sheldon 2020, Theorem 4).
        """
        count = integer(candidates, "candidates", at_least=1)
        return float_up(self.scale * log_up(count / failure_probability(confidence)))

    def probabilities(self, scores: ArrayLike) -> NDArray[np.float64]:
        """The probability of each candidate, to float precision."""
        raise NotImplementedError

    def channel(self, scores: Mapping[Label, ArrayLike]) -> Channel:
        """The channel from inputs (each with the scores it gives) to the chosen position."""
        return Channel(np.array([self.probabilities(row) for row in scores.values()]), inputs=scores.keys())


@dataclass(frozen=True, kw_only=True)
class Exponential(_Chooser):
    """The exponential mechanism: candidate o with probability ∝ exp(ε·score(o)/2Δ) (McSherry, Talwar 2007).

    Guarantee: ε-bounded range, hence ε-DP. Proof. Between neighbors the scores move within [−Δ, Δ] (monotone: within
    an interval of length Δ), so ln P(o)/P'(o) = (score − score')/scale + constant lies in an interval of length ε
    (Durfee, Rogers 2019, Lemma 3.2).

    >>> Exponential(epsilon=1, sensitivity=1).release([3, 2000, 5])
    1
    """

    @property
    def loss(self) -> Loss:
        """Bounded range ε."""
        return BoundedRange(self.epsilon)

    def release(self, value: ArrayLike, /, *, entropy: Entropy | None = None) -> int:
        """The position of the chosen candidate, given all scores."""
        return int(softmax(value, self.scale, entropy=entropy))

    def probabilities(self, scores: ArrayLike) -> NDArray[np.float64]:
        """The probability of each candidate, to float precision: a row of the mechanism's channel."""
        weights = np.exp(-exponents(scores, self.scale))
        return np.asarray(weights / weights.sum())


@dataclass(frozen=True, kw_only=True)
class PermuteAndFlip(_Chooser):
    """Permute-and-flip: try candidates in random order, take one with probability exp(−ε(best − score)/2Δ).

    McKenna, Sheldon 2020; never worse than the exponential mechanism (Theorem 2). The first success in a uniformly
    random order is a uniform one among the successes, so the coins are thrown all at once.

    Guarantee: ε-DP (their Theorem 1). Proof. It is report noisy max with exponential noise of that scale (Ding, Kifer,
    Sayed, Steinke, Wang, Xiao, Zhang 2021), so the argument of `ReportNoisyMax` holds with one-sided noise.

    >>> PermuteAndFlip(epsilon=1, sensitivity=1).release([3, 2000, 5])
    1
    """

    @property
    def loss(self) -> Loss:
        """ε-DP."""
        return Pure(self.epsilon)

    def release(self, value: ArrayLike, /, *, entropy: Entropy | None = None) -> int:
        """The position of the chosen candidate, given all scores (whole numbers)."""
        scores = _scores(value)
        heads = np.flatnonzero(accept_each(scores.max() - scores, self.scale, entropy=entropy))
        return int(heads[int(uniform_below(heads.size, entropy=entropy))])

    def probabilities(self, scores: ArrayLike) -> NDArray[np.float64]:
        """The probability of each candidate: p(o)·E[1/(1 + how many others succeed)]."""
        coins = np.exp(-exponents(scores, self.scale))
        countable(coins.size**2, "probabilities")
        nodes, weights = np.polynomial.legendre.leggauss(coins.size // 2 + 1)
        s = (nodes + 1) / 2  # E[s^N] is a polynomial of degree |O| − 1, and E[1/(1 + N)] its integral over [0, 1]
        factors = np.log1p(-np.outer(1 - s, coins))
        others = np.exp(factors.sum(axis=1, keepdims=True) - factors)
        return np.asarray(coins * (weights / 2 @ others))


@dataclass(frozen=True, kw_only=True)
class ReportNoisyMax(_Chooser):
    """Add discrete Laplace noise of scale 2Δ/ε to each score and report where the largest is; ties go to the first.

    Guarantee: ε-DP. Proof. Fix all noises but that of candidate i. It wins exactly when its noise is at least a whole
    threshold, which moves by at most 2Δ between neighbors (Δ if monotone), and for whole d ≥ 0
    P(noise ≥ k + d) ≥ e^(−d/scale)·P(noise ≥ k) (Dwork, Roth 2014, Claim 3.9, on the integers; a fixed order of ties
    keeps the threshold whole).

    >>> ReportNoisyMax(epsilon=1, sensitivity=1).release([3, 2000, 5])
    1
    """

    def __post_init__(self) -> None:
        drawable(self.scale, **self._settings)

    @property
    def loss(self) -> Loss:
        """ε-DP."""
        return Pure(self.epsilon)

    def release(self, value: ArrayLike, /, *, entropy: Entropy | None = None) -> int:
        """The position of the winner, given all scores (whole numbers)."""
        scores = _scores(value)
        return int(np.argmax(add(scores, np.asarray(discrete_laplace(self.scale, scores.shape, entropy=entropy)))))

    def interval(self, confidence: Number, *, candidates: int) -> float:
        """How far the chosen score can be below the best one, with at least this probability.

        The best candidate's noise is not below −w₁ and no other's above w₂, except with probability β/2 each.
        """
        others, tail = integer(candidates, "candidates", at_least=1) - 1, failure_probability(confidence) / 2
        return float(laplace_tail(self.scale, tail) + laplace_tail(self.scale, tail / others)) if others else 0.0

    def probabilities(self, scores: ArrayLike) -> NDArray[np.float64]:
        """The probability of each candidate, by summing over the winner's noisy score."""
        exact = _scores(scores)
        reach = ceil(60 * self.scale) + 1
        countable((int(exact.max()) - int(exact.min()) + 2 * reach) * exact.size, "probabilities")
        levels = np.arange(int(exact.min()) - reach, int(exact.max()) + reach + 1)
        noise = levels[:, None] - exact
        at, upto = laplace_pmf(noise, float(self.scale)), laplace_cdf(noise, float(self.scale))
        below = upto - at  # strictly below the level
        first = np.cumprod(below, axis=1)[:, :-1]  # all earlier candidates strictly below
        later = np.cumprod(upto[:, ::-1], axis=1)[:, ::-1][:, 1:]  # all later ones not above
        ones = np.ones((len(levels), 1))
        return np.asarray((at * np.hstack((ones, first)) * np.hstack((later, ones))).sum(axis=0))


@dataclass(frozen=True, kw_only=True)
class AboveThreshold(DisplayMixin):
    """Sparse vector: which of a stream of answers are above a threshold, paid for by the positives alone.

    The noisy threshold is drawn once; answers are compared with it, each with its own noise, until `positives` of them
    were above; then the mechanism stops. ε is split 1 : (2c)^(2/3) between threshold and answers (1 : c^(2/3) if
    monotone).

    Guarantee: ε-DP for whole answers, adaptively chosen, each moved by at most Δ by one unit. Proof: Lyu, Su, Li 2017,
    Theorem 2 (their Algorithm 7 without numeric answers), on the integers: shifting the noisy threshold by Δ costs ε₁,
    and shifting each of the c positive answers' noise by 2Δ (monotone: Δ) costs ε₂/c; negatives cost nothing.

    >>> list(AboveThreshold(epsilon=2, sensitivity=1, threshold=0, positives=1).release([-5000, 5000, 7]))
    [False, True]
    """

    epsilon: Rational = Rational(above=0)
    sensitivity: Integer = Integer(at_least=1)
    threshold: Integer = Integer()
    positives: Integer = Integer(at_least=1, at_most=10**9)
    monotone: Truth = Truth()

    def __post_init__(self) -> None:
        drawable(max(self.scales), epsilon=self.epsilon, sensitivity=self.sensitivity, positives=self.positives)

    @property
    def loss(self) -> Loss:
        """ε-DP for the whole run."""
        return Pure(self.epsilon)

    @property
    def scales(self) -> tuple[Fraction, Fraction]:
        """The noise scales of the threshold and of each answer."""
        moved = self.positives * (1 if self.monotone else 2)
        share = Fraction(round(1000 / (1 + moved ** (2 / 3))), 1000) or Fraction(1, 1000)
        first, second = self.epsilon * share, self.epsilon * (1 - share)
        return self.sensitivity / first, moved * self.sensitivity / second

    def release(self, value: Iterable[int], /, *, entropy: Entropy | None = None) -> Iterator[bool]:
        """For each answer in turn, whether it is (noisily) above the threshold, up to the last positive."""
        if not isinstance(value, Iterable):
            raise InvalidData("answers: expected a list or a stream of whole numbers")
        return self._compared(value, entropy)

    def _compared(self, answers: Iterable[int], entropy: Entropy | None) -> Iterator[bool]:
        of_threshold, of_answer = self.scales
        bar = self.threshold + int(discrete_laplace(of_threshold, entropy=entropy))
        left = self.positives
        for answer in answers:
            exact = whole(answer, "answer")
            if exact.ndim:
                raise InvalidData("answer: expected one whole number at a time")
            noisy = int(exact) + int(discrete_laplace(of_answer, entropy=entropy))
            left -= noisy >= bar
            yield noisy >= bar
            if not left:
                return

    def interval(self, confidence: Number, *, answers: int) -> int:
        """A w such that, with at least this probability, all of this many answers further than w from the threshold
        are reported on the right side.
        """
        tail = failure_probability(confidence) / (integer(answers, "answers", at_least=1) + 1)
        return sum(laplace_tail(scale, tail / 2) + 1 for scale in self.scales)

    def probability(self, answers: ArrayLike, outcome: Iterable[bool]) -> float:
        """The probability of one outcome (a list of booleans as `release` yields), to float precision."""
        answers_above = list(outcome)
        if not self._possible(answers_above, len(_scores(answers))):
            return 0.0
        of_threshold, of_answer = (float(scale) for scale in self.scales)
        reach = ceil(60 * of_threshold)
        countable(2 * reach, "probability")
        noise = np.arange(-reach, reach + 1)
        mass = laplace_pmf(noise, of_threshold)
        for answer, above in zip(_scores(answers), answers_above, strict=False):
            gap = max(-(2**60), min(2**60, self.threshold - int(answer) - 1))
            below = laplace_cdf(noise + gap, of_answer)  # P(answer + ν < threshold + noise)
            mass = mass * (1 - below if above else below)
        return float(mass.sum())

    def channel(self, answers: Mapping[Label, Sequence[int]]) -> Channel:
        """The channel from inputs (each with the answers it gives) to outcomes, for a few answers."""
        lengths = {len(row) for row in answers.values()}
        if len(lengths) != 1:
            raise InvalidData("answers: expected as many for each input")
        (length,) = lengths
        countable(2.0**length, "outcomes", most=1 << 16)
        outcomes = list(self._outcomes(length, self.positives))
        rows = [[self.probability(row, outcome) for outcome in outcomes] for row in answers.values()]
        return Channel(rows, inputs=answers.keys(), outputs=outcomes)

    def _possible(self, outcome: list[bool], answers: int) -> bool:
        """It stops at the last positive allowed, and nowhere else before the answers end."""
        complete = len(outcome) == answers or sum(outcome) == self.positives
        return len(outcome) <= answers and complete and sum(outcome[:-1]) < self.positives

    def _outcomes(self, answers: int, left: int) -> Iterator[tuple[bool, ...]]:
        if not answers or not left:
            yield ()
            return
        for above in (False, True):
            yield from ((above, *rest) for rest in self._outcomes(answers - 1, left - above))


def laplace_pmf(noise: NDArray[np.int64], scale: float) -> NDArray[np.float64]:
    """P(K = k) of the discrete Laplace distribution, to float precision.

    >>> round(float(laplace_pmf(np.array(0), 1.0)), 6)
    0.462117
    """
    return np.asarray(np.tanh(0.5 / scale) * np.exp(-np.abs(noise) / scale))


def laplace_cdf(noise: NDArray[np.int64], scale: float) -> NDArray[np.float64]:
    """P(K ≤ k) of the discrete Laplace distribution, to float precision.

    >>> round(float(laplace_cdf(np.array(0), 1.0)), 6)
    0.731059
    """
    q = np.exp(-1 / scale)
    below = np.exp(np.minimum(noise, 0) / scale) / (1 + q)
    above = 1 - np.exp(-(np.maximum(noise, 0) + 1) / scale) / (1 + q)
    return np.asarray(np.where(noise < 0, below, above))


def _scores(scores: ArrayLike) -> NDArray[np.int64]:
    array = whole(scores, "scores")
    if array.ndim != 1 or not array.size:
        raise InvalidData("scores: expected a one-dimensional, non-empty list of whole numbers")
    return array


_Numbers = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class GroupedMode(DisplayMixin):
    """In each of many groups, the `places` most frequent of the values 0 to points − 1, the most frequent first.

    `sensitivity` is the most that one unit moves the counts of all values in all groups, added up.

    Guarantee: ε-DP, as `places` choices of bounded range ε/places. Proof. A choice takes value o of those left in its
    group with probability ∝ exp(count(o)/s), s = places·sensitivity/ε. Where one unit takes at most a from any count of
    a group and adds at most b to any, log-ratios lie in an interval of length (a + b)/s (Durfee, Rogers 2019, Lemma
    3.2). Groups are drawn independently, so these lengths add up, to at most sensitivity/s = ε/places. The next choice
    is made in the same way, whatever was chosen before (their Lemma 4.2: it is the same as Gumbel noise, once).

    >>> numbers = Multisets(np.array([0, 0, 1]), np.array([3, 7, 5]), np.array([500, 900, 400]), size=2)
    >>> GroupedMode(epsilon=50, points=10, places=1, sensitivity=1).release(numbers).tolist()
    [[7], [5]]
    """

    epsilon: Rational = Rational(above=0)
    points: Integer = Integer(at_least=1, at_most=10**7)
    places: Integer = Integer(at_least=1, at_most=100)
    sensitivity: Integer = Integer(at_least=1)

    def __post_init__(self) -> None:
        if self.places > self.points:
            raise InvalidParameter("places", self.places, f"at most {self.points}, of so many values")

    @property
    def loss(self) -> Loss:
        """Bounded range ε, in as many parts as there are places."""
        each = BoundedRange(self.epsilon / self.places)
        return each if self.places == 1 else Repeated(each, self.places)

    @property
    def scale(self) -> Fraction:
        """What counts are divided by."""
        return self.places * self.sensitivity / self.epsilon

    def release(self, value: Multisets, /, *, entropy: Entropy | None = None) -> _Numbers:
        """The chosen values: one row a group, one column a place."""
        result = _Counts.of(value, self.points)
        chosen = np.zeros((value.size, self.places), np.int64)
        for place in range(self.places):
            starts, scores, copies = result.candidates()
            drawn = softmax_each(scores, starts, self.scale, multiplicity=copies, entropy=entropy) - starts
            chosen[:, place] = result.value_at(drawn, entropy)
            result = result.without(chosen[:, place])
        return chosen

    def interval(self, confidence: Number) -> float:
        """How far the count at a place can be below the count due there, in one group, with at least this probability.

        s·ln(points/β) (Dwork, Roth 2014, Corollary 3.12) below the largest count that is left; and of all counts but
        j − 1, the largest is at least the j-th largest.
        """
        return float_up(self.scale * log_up(self.points / failure_probability(confidence)))

    def probabilities(self, counts: _Numbers) -> Iterator[tuple[tuple[int, ...], float]]:
        """Every list of values with its probability, to float precision, given the counts in one group."""
        countable(float(self.points) ** self.places, "probabilities")
        weights = np.exp((counts - counts.max()) / float(self.scale))

        def follow(taken: tuple[int, ...], chance: float) -> Iterator[tuple[tuple[int, ...], float]]:
            if len(taken) == self.places:
                yield taken, chance
                return
            left = [i for i in range(self.points) if i not in taken]
            total = float(weights[left].sum())
            for i in left:
                yield from follow((*taken, i), chance * float(weights[i]) / total)

        return follow((), 1.0)


@dataclass(frozen=True, slots=True)
class _Counts:
    """The values that occur in each group, with their counts, sorted; `left` is 0 where a value was chosen already.

    Values that do not occur, of which a group has `absent`, are one candidate with as many copies.
    """

    groups: _Numbers
    values: _Numbers
    counts: _Numbers
    left: _Numbers
    absent: _Numbers

    @classmethod
    def of(cls, value: Multisets, points: int) -> "_Counts":
        if value.values.size and not (value.values.min() >= 0 and value.values.max() < points):
            raise InvalidData("values: got one that was not declared")
        order = np.lexsort((value.values, value.groups))
        groups, values, counts = value.groups[order], value.values[order], value.counts[order]
        if np.any((np.diff(groups) == 0) & (np.diff(values) == 0)):
            raise InvalidData("values: got one twice in a group, expected its count")
        absent = points - np.bincount(groups, minlength=value.size).astype(np.int64)
        return cls(groups, values, counts, np.ones_like(counts), absent)

    def _firsts(self) -> _Numbers:
        """Where each group begins."""
        return np.searchsorted(self.groups, np.arange(self.absent.size))

    def candidates(self) -> tuple[_Numbers, _Numbers, _Numbers]:
        """Where groups begin, and of each candidate the score and the copies: values in order, then all absent ones."""
        ends = np.searchsorted(self.groups, np.arange(self.absent.size), side="right")
        scores = np.insert(self.counts, ends, 0)
        copies = np.insert(self.left, ends, self.absent)
        return self._firsts() + np.arange(self.absent.size), scores, copies

    def value_at(self, places: _Numbers, entropy: Entropy | None) -> _Numbers:
        """The value of the candidate at a place of its group; of the absent ones, any of them."""
        firsts = self._firsts()
        sizes = np.diff(np.append(firsts, self.groups.size))
        which = uniform_each(np.maximum(self.absent, 1), entropy=entropy)
        # the u-th absent value is u more than the number of values that come before it
        before = self.values - (np.arange(self.groups.size) - firsts[self.groups])
        skipped = np.zeros_like(which)
        np.add.at(skipped, self.groups, before <= which[self.groups])
        chosen = which + skipped
        listed = places < sizes
        chosen[listed] = self.values[(firsts + places)[listed]]
        return chosen

    def without(self, chosen: _Numbers) -> "_Counts":
        """The same when one value of each group was chosen."""
        if not chosen.size:
            return self
        groups = np.concatenate((self.groups, np.arange(chosen.size)))
        values = np.concatenate((self.values, chosen))
        order = np.lexsort((values, groups))
        groups, values = groups[order], values[order]
        counts = np.concatenate((self.counts, np.zeros_like(chosen)))[order]
        left = np.concatenate((self.left, np.zeros_like(chosen)))[order]
        twice = np.append((np.diff(groups) == 0) & (np.diff(values) == 0), False)
        left[twice] = 0  # it was listed, and is chosen now
        once = ~np.append(False, twice[:-1])
        absent = self.absent - 1 + np.bincount(groups[twice], minlength=chosen.size)
        return _Counts(groups[once], values[once], counts[once], left[once], absent.astype(np.int64))
