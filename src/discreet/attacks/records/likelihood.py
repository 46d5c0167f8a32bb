"""How much likelier known ratings are if a record is the person's than if it is not, with errors learned from the data.

What is known of a person is a list of (item, rating, day). With probability w an item is a mistake, drawn by
popularity q; else it is drawn from the person's record r of |r| items. So each known rating of an item that the record
holds multiplies the likelihood ratio by

    w + (1 − w) · 1/(|r|·q(item)) · P(rating | released rating)/P(rating | item) · P(day | released day)/P(day),

and one of an item that it does not hold by w. A long record that holds everything is no evidence, a rare item is much.
w, and the distributions of the errors of ratings and dates, are learned without knowing the truth: people whose best
record stands out tell how wrong the rest of what is known about them is (hard EM).

`simulated` draws what would be known of people of the release, with those errors. With their own record left out they
are people outside it, and tell above which score somebody outside is named at a stated rate.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from discreet.attacks.records.ratings import Floats, Ints, Ratings, Rng, recalled

_MOST_LEVELS = 50
_DAYS = np.array([0, 1, 2, 4, 8, 15, 31, 61, 121, 366])  # errors of dates are told apart by these limits
_SPREAD = 30.0  # days: what is expected of errors before any is seen
_MISTAKE = 0.1
_PSEUDO = 20.0  # observations that the expected errors count for
_ROUNDS, _TEACHERS = 3, 200
_SURE = 0.5
_ENOUGH = 50  # records that people outside are drawn from, at least
_REACH = 40.0  # nats below the best record that still count


@dataclass(frozen=True, slots=True, eq=False)
class Errors:
    """How wrong known ratings are: share of mistaken items, steps between ratings, classes of days between dates."""

    mistake: float
    steps: Floats
    days: Floats

    @classmethod
    def expected(cls, levels: int) -> "Errors":
        """What is believed before any data is seen."""
        steps = 0.25 ** np.arange(levels, dtype=np.float64)
        tails = np.append(np.exp(-_DAYS / _SPREAD), 0)
        return cls(_MISTAKE, steps / steps.sum(), -np.diff(tails))

    def updated(self, held: int, mistaken: int, steps: Floats, days: Floats) -> "Errors":
        """Shares after counts were seen; what was expected counts as some observations."""
        prior = Errors.expected(len(self.steps))
        mistake = (mistaken + _PSEUDO * prior.mistake) / (held + mistaken + _PSEUDO)
        return Errors(
            float(np.clip(mistake, 1e-3, 0.9)),
            (steps + _PSEUDO * prior.steps) / (steps.sum() + _PSEUDO),
            (days + _PSEUDO * prior.days) / (days.sum() + _PSEUDO),
        )


@dataclass(frozen=True, eq=False)
class Likelihood:
    """The log-likelihood ratio of each record, summed over known ratings. Make one with `Likelihood.of`."""

    released: Ratings
    levels: Floats
    level: Ints  # of each released rating
    popularity: Floats
    length: Floats
    by_item: Floats  # levels × items: the share of each level, as a rating of the item
    by_day: Floats
    first_day: int
    bin_days: float
    errors: Errors
    dates: bool

    @classmethod
    def of(cls, released: Ratings, auxiliary: Ratings, *, dates: bool) -> "Likelihood":
        """The score for a release, with errors learned from what is known of the people attacked."""
        levels = _levels(released.rating, auxiliary.rating)
        level = _nearest(levels, released.rating)
        counts = np.zeros((len(levels), released.items))
        np.add.at(counts, (level, released.item), 1)
        common = (counts.sum(axis=1) + 1) / (counts.sum() + len(levels))
        day = released.day if released.day is not None else np.zeros(1, np.int32)
        first, width = int(day.min()), max(1.0, (int(day.max()) - int(day.min()) + 1) / 50)
        seen = np.bincount(((day - first) / width).astype(int), minlength=50) + 1.0
        untaught = cls(
            released=released,
            levels=levels,
            level=level,
            popularity=np.maximum(released.support, 1) / len(released),
            length=np.maximum(np.bincount(released.person, minlength=released.people), 1).astype(np.float64),
            by_item=(counts + 5 * common[:, None]) / (counts.sum(axis=0) + 5),
            by_day=seen / seen.sum() / width,
            first_day=first,
            bin_days=width,
            errors=Errors.expected(len(levels)),
            dates=dates,
        )
        return untaught._taught(auxiliary)

    def add(self, item: int, rating: float, day: int, scores: Floats) -> None:
        """Add what a known rating tells to the score of every record that holds the item, over one that does not."""
        part = slice(self.released.starts[item], self.released.starts[item + 1])
        who, known = self.released.person[part], int(_nearest(self.levels, np.array([rating]))[0])
        ratio = (1 - self.errors.mistake) / (self.popularity[item] * self.length[who])
        ratio *= self._of_ratings[known][self.level[part]] / self.by_item[known, item]
        if self.dates and self.released.day is not None:
            late = np.searchsorted(_DAYS, np.abs(self.released.day[part] - day), side="right") - 1
            ratio *= self._of_days[late] / self._usual(day)
        scores[who] += np.log1p(ratio / self.errors.mistake)

    def peak(self, scores: Floats, known: int, without: int | None = None) -> tuple[int, float]:
        """The likeliest record, and ln of its odds against all others and against being outside, before seen as even.

        `without` is a record that is left out.
        """
        if without is not None:
            scores[without] = -np.inf
        best = int(scores.argmax())
        top = float(scores[best])
        near = scores[scores > top - _REACH]
        others = float(np.exp(near - top).sum()) - 1
        outside = np.exp(min(_REACH, np.log(len(scores)) - known * np.log(self.errors.mistake) - top))
        return best, -float(np.log(max(others + outside, np.exp(-_REACH))))

    def simulated(self, counts: Sequence[int], rng: Rng) -> tuple[Ratings, Ints]:
        """What would be known of some people of the release, so many ratings of each; and their records."""
        lengths = np.bincount(self.released.person, minlength=self.released.people)
        most = min(int(max(counts)), max(1, int(np.sort(lengths)[-min(_ENOUGH, len(lengths))])))
        able = np.flatnonzero(lengths >= most)
        who = rng.choice(able, min(len(counts), len(able)), replace=False)
        memories = recalled(rng, self.released, who, most, wrong=self.errors.mistake)
        many = np.minimum(rng.permutation(np.asarray(counts, np.int64))[: len(who)], most)
        return self._mistold(memories.where(_random_rank(memories.person, rng) < many[memories.person]), rng), who

    def _mistold(self, known: Ratings, rng: Rng) -> Ratings:
        """The same with errors of ratings and dates as they were learned."""
        level = _nearest(self.levels, known.rating)
        chances = np.cumsum(self._of_ratings[:, level].T, axis=1)
        drawn = (rng.random(len(level))[:, None] * chances[:, -1:] > chances).sum(axis=1)
        day = known.day
        if day is not None:
            ends = np.append(_DAYS[1:], _DAYS[-1] * 2)
            late = rng.choice(len(_DAYS), len(day), p=self.errors.days / self.errors.days.sum())
            off = _DAYS[late] + rng.random(len(day)) * (ends - _DAYS)[late]
            day = (day + off.astype(np.int64) * rng.choice([-1, 1], len(day))).astype(np.int32)
        return replace(known, rating=self.levels[drawn].astype(np.float32), day=day)

    @cached_property
    def _of_ratings(self) -> Floats:
        """P(known level | released level), a column for each released level."""
        count = len(self.levels)
        apart = np.abs(np.arange(count)[:, None] - np.arange(count))
        both = (np.arange(count) - apart >= 0).astype(int) + (np.arange(count) + apart < count)
        chance = self.errors.steps[apart] / np.where(apart == 0, 1, both)
        return np.asarray(chance / chance.sum(axis=0))

    @cached_property
    def _of_days(self) -> Floats:
        """P(known day | released day) by the class of their distance."""
        longest = max(self.bin_days * len(self.by_day), 2 * _DAYS[-1])
        width = 2 * np.diff(np.append(_DAYS, longest))
        width[0] = 1
        return np.asarray(self.errors.days / width)

    def _usual(self, day: int) -> float:
        place = int(np.clip((day - self.first_day) / self.bin_days, 0, len(self.by_day) - 1))
        return float(self.by_day[place])

    def _taught(self, auxiliary: Ratings) -> "Likelihood":
        """The same with errors learned from people whose best record stands out."""
        order = np.argsort(auxiliary.person, kind="stable")
        people = np.split(order, np.searchsorted(auxiliary.person[order], np.arange(1, auxiliary.people)))
        few = [entries for entries in people if len(entries)][:_TEACHERS]
        score = self
        for _ in range(_ROUNDS):
            held, mistaken = 0, 0
            steps, days = np.zeros(len(self.levels)), np.zeros(len(_DAYS))
            for entries in few:
                record, odds = score._best(auxiliary, entries)
                if odds < np.log(_SURE / (1 - _SURE)):
                    continue
                for entry in entries:
                    at = self._entry(record, int(auxiliary.item[entry]))
                    held, mistaken = held + (at >= 0), mistaken + (at < 0)
                    if at >= 0:
                        known = int(_nearest(self.levels, auxiliary.rating[entry : entry + 1])[0])
                        steps[abs(known - int(self.level[at]))] += 1
                        if self.dates and self.released.day is not None and auxiliary.day is not None:
                            off = abs(int(self.released.day[at]) - int(auxiliary.day[entry]))
                            days[np.searchsorted(_DAYS, off, side="right") - 1] += 1
            score = replace(score, errors=score.errors.updated(held, mistaken, steps, days))
        return score

    def _best(self, auxiliary: Ratings, entries: Ints) -> tuple[int, float]:
        scores = np.zeros(self.released.people)
        for entry in entries:
            day = 0 if auxiliary.day is None else int(auxiliary.day[entry])
            self.add(int(auxiliary.item[entry]), float(auxiliary.rating[entry]), day, scores)
        return self.peak(scores, len(entries))

    def _entry(self, record: int, item: int) -> int:
        """Where a record's rating of an item stands, −1 if it has none."""
        start, stop = self.released.starts[item], self.released.starts[item + 1]
        at = start + int(np.searchsorted(self.released.person[start:stop], record))
        return int(at) if at < stop and self.released.person[at] == record else -1


def _levels(*ratings: Floats) -> Floats:
    """The different ratings, or quantiles where there are many."""
    every = np.concatenate(ratings).astype(np.float64)
    distinct = np.unique(every)
    if len(distinct) <= _MOST_LEVELS:
        return distinct
    return np.unique(np.quantile(every, np.linspace(0, 1, _MOST_LEVELS)))


def _nearest(levels: Floats, ratings: Floats) -> Ints:
    middles = (levels[1:] + levels[:-1]) / 2
    return np.searchsorted(middles, ratings.astype(np.float64))


def _random_rank(person: Ints, rng: Rng) -> Ints:
    """0, 1, 2, … among the entries of each person, in random order."""
    order = np.lexsort((rng.random(len(person)), person))
    rank = np.empty(len(person), np.int64)
    rank[order] = np.arange(len(person)) - np.searchsorted(person[order], person[order])
    return rank
