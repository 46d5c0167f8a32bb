"""The most frequent values of declared ones, in many groups at once: the exponential mechanism, again and again."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import Number, float_up, log_up
from discreet.fields import Integer, Rational
from discreet.mechanisms.mechanism import countable, failure_probability
from discreet.mechanisms.quantile import Multisets
from discreet.noise import Entropy, softmax_each, uniform_each
from discreet.privacy.loss import BoundedRange, Loss, Repeated

_Numbers = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class GroupedMode:
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
        found = _Counts.of(value, self.points)
        chosen = np.zeros((value.size, self.places), np.int64)
        for place in range(self.places):
            starts, scores, copies = found.candidates()
            drawn = softmax_each(scores, starts, self.scale, multiplicity=copies, entropy=entropy) - starts
            chosen[:, place] = found.value_at(drawn, entropy)
            found = found.without(chosen[:, place])
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
