"""Events that tell x from its neighbor, chosen on draws that are never used again."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from discreet.attacks.audit.outputs import Floats, Outputs
from discreet.attacks.audit.scores import Score, learned

_THRESHOLDS = 240
_PLAINER = 0.02


@dataclass(frozen=True, slots=True)
class Event:
    """A set of outputs: {score ≥ threshold}, or ≤ where `above` is False; expected likelier under x, or not."""

    score: Score
    threshold: float
    above: bool
    promise: float  # the bound that it gave on the draws it was chosen on: a guess

    def holds(self, outputs: Outputs) -> NDArray[np.bool_]:
        """Which outputs are in the set."""
        scores = self.score.of(outputs)
        return np.asarray(scores >= self.threshold if self.above else scores <= self.threshold)

    @property
    def words(self) -> str:
        """The set in words."""
        return self.score.told(self.threshold, self.above)


def choose(x: Outputs, other: Outputs, *, delta: float, deviations: float, trials: int, most: int) -> tuple[Event, ...]:
    """The most promising events, each of another score; one half of the draws fits scores, the other judges them.

    `deviations` is how many standard deviations the final limits will lie from the counts, `trials` how many fresh
    draws of each side they will be computed from.

    >>> from discreet.attacks.audit.outputs import Reader
    >>> reader = Reader.learn([["yes", "no"]])
    >>> draws = [reader.read((["yes"] * 3 + ["no"]) * 100), reader.read((["no"] * 3 + ["yes"]) * 100)]
    >>> events = choose(*draws, delta=0, deviations=2, trials=400, most=1)
    >>> [event.words for event in events]
    ["the output is 'yes'"]
    """
    half, rest = len(x) // 2, len(other) // 2
    judge = _Judge(x.part(half, len(x)), other.part(rest, len(other)), delta, deviations, trials)
    fit = x.part(0, half), other.part(0, rest)
    found = [judge.best(score) for score in learned(*fit)]
    ranked = sorted((_weighed(event) for event in found if event.promise > 0), key=lambda event: -event.promise)
    return tuple(ranked[:most])


def _weighed(event: Event) -> Event:
    """An event that takes explaining must promise a little more than one that does not."""
    return event if event.score.plain else replace(event, promise=(1 - _PLAINER) * event.promise)


@dataclass(frozen=True, slots=True)
class _Judge:
    """What an event would prove, by the draws it was not fitted to."""

    x: Outputs
    other: Outputs
    delta: float
    deviations: float
    trials: int

    def best(self, score: Score) -> Event:
        """The best threshold of a score, and its better side."""
        mine, theirs = np.sort(score.of(self.x)), np.sort(score.of(self.other))
        thresholds = _candidates(mine, theirs)
        found = []
        for above in (True, False):
            p, q = (_share(side, thresholds, above=above) for side in (mine, theirs))
            promises = self._promises(p, q) if above else self._promises(q, p)
            at = int(np.argmax(promises))
            found.append(Event(score, float(thresholds[at]), above, float(promises[at])))
        return max(found, key=lambda event: event.promise)

    def _promises(self, likely: Floats, rare: Floats) -> Floats:
        """The bound on ε with Wilson's limits (1927) at as many trials as the real ones will have."""
        low = _wilson(likely, self.trials, -self.deviations)
        high = _wilson(rare, self.trials, self.deviations)
        with np.errstate(divide="ignore", invalid="ignore"):
            direct = np.log(np.maximum(low - self.delta, 0) / high)
            reverse = np.log(np.maximum(1 - high - self.delta, 0) / (1 - low)) - 0.01  # the plainer event is preferred
        return np.asarray(np.fmax(np.fmax(direct, reverse), -np.inf))


def _candidates(mine: Floats, theirs: Floats) -> Floats:
    """Values that a score takes: all if they are few, else quantiles, closer together towards both ends."""
    distinct = np.unique(np.concatenate([mine[_distinct(mine)], theirs[_distinct(theirs)]]))
    if len(distinct) <= _THRESHOLDS:
        return distinct
    parts = []
    for side in (mine, theirs):
        ranks = np.unique(np.geomspace(1, max(1, len(side) // 2), _THRESHOLDS // 4).astype(np.int64)) - 1
        parts += [side[ranks], side[len(side) - 1 - ranks]]
    return np.unique(np.concatenate(parts))


def _distinct(ordered: Floats) -> NDArray[np.bool_]:
    """Where a new value begins."""
    return np.concatenate([[True], ordered[1:] != ordered[:-1]])


def _share(ordered: Floats, thresholds: Floats, *, above: bool) -> Floats:
    if above:
        return np.asarray(1 - np.searchsorted(ordered, thresholds, side="left") / len(ordered))
    return np.asarray(np.searchsorted(ordered, thresholds, side="right") / len(ordered))


def _wilson(share: Floats, trials: int, deviations: float) -> Floats:
    z = abs(deviations)
    center = share + z**2 / (2 * trials)
    reach = z * np.sqrt(share * (1 - share) / trials + z**2 / (4 * trials**2))
    limit = (center + np.sign(deviations) * reach) / (1 + z**2 / trials)
    return np.asarray(np.clip(limit, 0, 1))
