"""Whose record is this? A few ratings, roughly known, single out a record among very many.

By default a record's score is a likelihood ratio whose errors are learned from the data (see `likelihood`), and the
best record is named if its odds are above a threshold at which a stated share of people outside the release is named.
The threshold is found without the truth: people of the release are attacked while their own record is left out.

The attack of Narayanan and Shmatikov 2008, "Robust De-anonymization of Large Sparse Datasets", section 5, is there too
(similarity "exponential"): a record scores Σ wt(i)·(exp(−|Δrating|/ρ₀) + exp(−|Δdays|/d₀)) over the items i that both
the attacker knows and the record holds, with wt(i) = 1/ln|supp(i)|, so that rare items count more. The lead of the best
record is then its eccentricity: how far it is above the second best, in standard deviations of all scores; the paper
names it above 1.5. An item of one or two people weighs 1/ln 2, since the formula has no value at 1.

Only the records that hold one of the known items are touched: entries are kept by item.

>>> from discreet.attacks.records.ratings import catalog, planted
>>> from discreet.attacks.records.sparse import SparseMatching
>>> case = planted(catalog(people=2000, items=500, mean=60, seed=1), targets=100, absent=100, known=8, seed=2)
>>> report = SparseMatching(released=case.released, auxiliary=case.auxiliary, truth=case.truth).run()
>>> report.verdict, report.success.value > 0.9, report.facts["people outside who are named (false naming)"].value < 0.1
('falls', True, True)
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.attacks.attack_report import AttackReport, Share, setting
from discreet.attacks.records.likelihood import Likelihood
from discreet.attacks.records.ratings import Floats, Ints, Ratings
from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import Number, integer, rational
from discreet.report import Chart, Line

Similarity = Literal["likelihood", "exponential", "within"]

_WORST = 5
_SIMULATED = 400  # people outside the release that a threshold is found with
FALSE_NAMING = "people outside who are named (false naming)"


@dataclass(frozen=True, slots=True, eq=False)
class Matches:
    """The attacker's result. Each array has a row for every number of known ratings and a column for every person.

    `best` is the record of the highest score, `lead` how far it leads, `claims` the record that is named, −1 = none.
    `thresholds` are the leads above which a record is named, one for each number of known ratings.
    """

    steps: tuple[int, ...]
    best: Ints
    lead: Floats
    claims: Ints
    thresholds: Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SparseMatching:
    """Find the records of people of whom a few ratings are known.

    `auxiliary` numbers the attacked people; `truth[i]` is the record of person i in the release, −1 if there is none.
    Whatever is named for people who are not in the release is a false claim; the report says how often it happens.
    `false_naming` is how often it may: the threshold is set by simulation for that, unless `threshold` gives one. The
    similarity "likelihood" learns how wrong ratings and dates are. "exponential" is the paper's (`rating_scale` 1.5,
    `day_scale` 30 days); "within" counts an item fully if rating and date are both within the scales, else not at
    all. The lead of a record is ln of its odds with "likelihood", else its eccentricity. `steps` are the numbers of
    known ratings at which the curve is drawn; the known ratings are taken in an order drawn with `seed`.
    """

    released: Ratings
    auxiliary: Ratings
    truth: ArrayLike
    false_naming: Number = setting("The acceptable rate of naming people outside the release.", default="0.05")
    threshold: Number | None = setting(
        "Match the best record if it leads by this much, whatever the error rate.", default=None
    )
    rating_scale: Number = setting("exponential, within: the scale of errors of ratings.", default="1.5")
    day_scale: Number = setting("exponential, within: the scale of errors of dates, in days.", default="30")
    similarity: Similarity = setting(
        "How records are scored: by learned errors, or by the paper's formula.",
        default="likelihood",
        kind=("likelihood", "exponential", "within"),
    )
    steps: Sequence[int] | None = setting(
        "Draw the curve at these numbers of known ratings.", default=None, kind="numbers"
    )
    seed: int = setting("The seed of all random choices.", default=0, least=0)
    against: str = setting("Its name in the report.", default="the release")
    confidence: float = 0.95

    def __post_init__(self) -> None:
        for name, ratings in (("released", self.released), ("auxiliary", self.auxiliary)):
            if not isinstance(ratings, Ratings):
                raise InvalidParameter(name, f"a {type(ratings).__name__}", "Ratings; make them with Ratings.of(…)")
        if self.auxiliary.items > self.released.items:
            counts = f"{self.auxiliary.items} items, the release {self.released.items}"
            raise InvalidData(f"auxiliary: it has {counts}; number the items of both alike")
        if self.released.people < 2:
            raise InvalidData("released: there is one record; an attack needs at least two")
        _checked_truth(self.truth, self.auxiliary.people, self.released.people)
        _Eccentricity.of(self, dates=True)
        rational(self.false_naming, "false_naming", above=0, below=1)
        if self.threshold is not None:
            rational(self.threshold, "threshold", at_least=0)
        integer(self.seed, "seed", at_least=0)

    def run(self) -> AttackReport:
        """Attack everybody, with dates and without, and judge."""
        result = self.match()
        undated = self.match(dates=False) if self._dated() else result
        judge = _Judge.of(self)
        return AttackReport(
            attack="sparse matching",
            against=self.against,
            goal="match a person with a few known ratings to a released record",
            people=int(judge.inside.sum()),
            success=judge.inside_share(result.claims[-1] == judge.truth),
            baseline=Share.known(1 / self.released.people),
            confidence=self.confidence,
            facts=_facts(self, result, undated, judge),
            worst=_worst(result, judge),
            charts=_charts(self, result, undated, judge),
            remarks=_remarks(self, result, judge),
        )

    def match(self, *, dates: bool = True) -> Matches:
        """What the attacker finds, without looking at the truth.

        >>> from discreet.attacks.records.ratings import Ratings
        >>> released = Ratings.of([0, 1, 2, 2], [0, 0, 1, 0], [5, 1, 4, 5], people=50, items=2)
        >>> known = Ratings.of([0, 0], [0, 1], [5, 4], items=2)
        >>> attack = SparseMatching(released=released, auxiliary=known, truth=[2])
        >>> attack.match().claims[-1].tolist()
        [2]
        """
        score = self._score(dates=dates)
        counts = np.bincount(self.auxiliary.person, minlength=self.auxiliary.people)
        steps = _steps(self.steps, max(1, int(counts.max())))
        best, lead = _leads(score, self.auxiliary, steps, self.released.people, seed=self.seed)
        thresholds = self._thresholds(score, counts, steps)
        return Matches(steps, best, lead, np.where(lead > thresholds[:, None], best, -1), thresholds)

    def _score(self, *, dates: bool) -> "_Score":
        if self.similarity == "likelihood":
            return Likelihood.of(self.released, self.auxiliary, dates=dates and self._dated())
        return _Eccentricity.of(self, dates=dates)

    def _thresholds(self, score: "_Score", counts: Ints, steps: Sequence[int]) -> Floats:
        """The lead above which a record is named, after each step.

        Of people of the release whose own record is left out, the stated share leads by more.
        """
        if self.threshold is not None:
            return np.full(len(steps), float(rational(self.threshold, "threshold")))
        learned = score if isinstance(score, Likelihood) else Likelihood.of(self.released, self.auxiliary, dates=True)
        rng = np.random.default_rng([self.seed, 1])
        known, own = learned.simulated(rng.choice(counts[counts > 0], _SIMULATED).tolist(), rng)
        _, lead = _leads(score, known, steps, self.released.people, seed=self.seed, without=own)
        rate = float(rational(self.false_naming, "false_naming"))
        return np.asarray(np.quantile(lead, 1 - rate, axis=1, method="higher"))

    def _dated(self) -> bool:
        return self.released.day is not None and self.auxiliary.day is not None


# The score


class _Score(Protocol):
    """What known ratings say about each record."""

    def add(self, item: int, rating: float, day: int, scores: Floats) -> None:
        """Add what one known rating says to the scores of the records that hold its item."""

    def peak(self, scores: Floats, known: int, without: int | None = None) -> tuple[int, float]:
        """The best record and its lead, after so many known ratings, one record perhaps left out."""
        ...


@dataclass(frozen=True, slots=True)
class _Eccentricity:
    """How alike two ratings of an item are, times the item's weight."""

    released: Ratings
    weights: Floats
    rating_scale: float
    day_scale: float
    exponential: bool
    dates: bool

    @classmethod
    def of(cls, attack: SparseMatching, *, dates: bool) -> "_Eccentricity":
        if attack.similarity not in ("likelihood", "exponential", "within"):
            raise InvalidParameter("similarity", attack.similarity, '"likelihood", "exponential" or "within"')
        scales = (
            float(rational(attack.rating_scale, "rating_scale", above=0)),
            float(rational(attack.day_scale, "day_scale", above=0)),
        )
        weights = 1 / np.log(np.maximum(attack.released.support, 2))
        return cls(attack.released, weights, *scales, attack.similarity == "exponential", dates and attack._dated())

    def add(self, item: int, rating: float, day: int, scores: Floats) -> None:
        """Add to the score of every record that holds the item."""
        part = slice(self.released.starts[item], self.released.starts[item + 1])
        off = np.abs(self.released.rating[part] - np.float32(rating))
        late = None
        if self.dates and self.released.day is not None:
            late = np.abs(self.released.day[part] - day).astype(np.float32)
        if self.exponential:
            alike = np.exp(off / -self.rating_scale)
            alike = alike if late is None else alike + np.exp(late / -self.day_scale)
        else:
            alike = (off <= self.rating_scale) & (True if late is None else late <= self.day_scale)
        scores[self.released.person[part]] += self.weights[item] * alike  # one entry a person and item: no repetitions

    def peak(self, scores: Floats, known: int, without: int | None = None) -> tuple[int, float]:
        """The highest score's place, and (highest − second)/σ over all records; 0 where all are alike."""
        if without is not None:
            scores[without] = 0
        best = int(scores.argmax())
        top = scores[best]
        scores[best] = -1
        second = scores.max()
        scores[best] = top
        mean = scores.sum() / len(scores)
        variance = float(np.einsum("i,i", scores, scores)) / len(scores) - mean**2  # @ would wake threads
        return best, float((top - second) / np.sqrt(variance)) if variance > 1e-18 else 0.0


def _leads(
    score: _Score, known: Ratings, steps: Sequence[int], records: int, *, seed: int, without: Ints | None = None
) -> tuple[Ints, Floats]:
    """The best record of everybody and its lead: a row for each step, a column for each person."""
    best, lead = np.zeros((len(steps), known.people), np.int64), np.full((len(steps), known.people), -np.inf)
    scores = np.zeros(records)
    for person, entries in enumerate(_by_person(known, seed)):
        own = None if without is None else int(without[person])
        for row, peak in enumerate(_peaks(score, known, entries, steps, scores, own)):
            best[row, person], lead[row, person] = peak
    return best, lead


def _peaks(
    score: _Score, known: Ratings, entries: Ints, steps: Sequence[int], scores: Floats, without: int | None
) -> Iterator[tuple[int, float]]:
    """The best record and its lead, after each of the steps, in `scores`, which it may write over."""
    scores[:] = 0
    peak, done = (0, -np.inf), 0
    for step in steps:
        for entry in entries[done:step]:
            day = 0 if known.day is None else int(known.day[entry])
            score.add(int(known.item[entry]), float(known.rating[entry]), day, scores)
        if len(entries) > done:
            peak = score.peak(scores, min(step, len(entries)), without)
        done = step
        yield peak


def _by_person(known: Ratings, seed: int) -> list[Ints]:
    """The entries of each person, in random order."""
    shuffled = np.random.default_rng(seed).permutation(len(known))
    order = shuffled[np.argsort(known.person[shuffled], kind="stable")]
    return np.split(order, np.searchsorted(known.person[order], np.arange(1, known.people)))


def _steps(steps: Sequence[int] | None, most: int) -> tuple[int, ...]:
    """The asked numbers of known ratings below the most, and the most."""
    asked = [2**k for k in range(most.bit_length())] if steps is None else steps
    return (*sorted({integer(step, "steps", at_least=1) for step in asked if step < most}), most)


# The judge


@dataclass(frozen=True, slots=True)
class _Judge:
    """Which record is whose; −2 stands for people outside the release, who have none."""

    truth: Ints
    inside: NDArray[np.bool_]
    confidence: float

    @classmethod
    def of(cls, attack: SparseMatching) -> "_Judge":
        truth = _checked_truth(attack.truth, attack.auxiliary.people, attack.released.people)
        return cls(np.where(truth >= 0, truth, -2), truth >= 0, attack.confidence)

    @property
    def outside(self) -> NDArray[np.bool_]:
        return ~self.inside

    def inside_share(self, event: NDArray[np.bool_]) -> Share:
        return Share.among(event[self.inside], confidence=self.confidence)

    def outside_share(self, event: NDArray[np.bool_]) -> Share:
        return Share.among(event[self.outside], confidence=self.confidence)


def _facts(attack: SparseMatching, matches: Matches, undated: Matches, judge: _Judge) -> dict[str, Any]:
    claims, best = matches.claims[-1], matches.best[-1]
    right = claims == judge.truth
    facts: dict[str, Any] = {
        "released records": attack.released.people,
        "released ratings": len(attack.released),
        "known ratings of a person, at most": matches.steps[-1],
        "named rightly": judge.inside_share(right),
        "named wrongly": judge.inside_share((claims >= 0) & ~right),
        "abstained": judge.inside_share(claims < 0),
        "best guess right, without abstaining": judge.inside_share(best == judge.truth),
    }
    if undated is not matches:
        facts["named rightly without dates"] = judge.inside_share(undated.claims[-1] == judge.truth)
    if attack.threshold is None:
        facts["false naming that the threshold is set for"] = Share.known(float(rational(attack.false_naming, "")))
    if judge.outside.any():
        facts[FALSE_NAMING] = judge.outside_share(claims >= 0)
    return facts


def _charts(attack: SparseMatching, matches: Matches, undated: Matches, judge: _Judge) -> tuple[Chart, ...]:
    threshold, odds = float(matches.thresholds[-1]), attack.similarity == "likelihood"
    kinds = {"with dates": matches, "without dates": undated} if matches is not undated else {"": matches}
    curve = [_curve(label, kind, judge) for label, kind in kinds.items()]
    leads = [
        _tail(label, matches.lead[-1][rows])
        for label, rows in (("in the release", judge.inside), ("not in the release", judge.outside))
        if rows.any()
    ]
    limit = Line([threshold, threshold], [0, 1], "named above this", dashed=True)
    return (
        Chart("Records named rightly", curve, x="known ratings of a person", y="share of people", y_range=(0, 1)),
        Chart(
            "How far the best record leads",
            [*leads, limit],
            x="ln of its odds" if odds else "eccentricity",
            y="share of people above it",
            y_range=(0, 1),
        ),
    )


def _curve(label: str, matches: Matches, judge: _Judge) -> Line:
    shares = [judge.inside_share(claims == judge.truth) for claims in matches.claims]
    return Line(
        list(matches.steps),
        [s.value for s in shares],
        label,
        low=[s.low for s in shares],
        high=[s.high for s in shares],
    )


def _tail(label: str, values: Floats, points: int = 200) -> Line:
    """The share of values above x."""
    finite = values[np.isfinite(values)]
    grid = np.linspace(min(finite.min(initial=0.0), 0.0), max(finite.max(initial=1.0), 1.0), points)
    above = 1 - np.searchsorted(np.sort(values), grid, side="right") / len(values)
    return Line(grid.tolist(), above.tolist(), label)


def _worst(matches: Matches, judge: _Judge) -> tuple[str, ...]:
    right = np.flatnonzero((matches.claims[-1] == judge.truth) & judge.inside)
    leads = matches.lead[-1]
    first = right[np.argsort(-leads[right], kind="stable")][:_WORST]
    return tuple(f"person {i} is record {judge.truth[i]} (lead {leads[i]:.1f})" for i in first)


def _remarks(attack: SparseMatching, matches: Matches, judge: _Judge) -> tuple[str, ...]:
    remarks = []
    if not judge.outside.any():
        remarks.append("No person outside the release was given, so false claims were not measured: mark some with −1.")
    named, guessed = (judge.inside_share(kind[-1] == judge.truth) for kind in (matches.claims, matches.best))
    if named.value < guessed.value / 2 and guessed.low > 1 / attack.released.people:
        remarks.append(
            f"Without abstaining the best guess is right for {guessed}: abstaining hides a part of what leaks."
        )
    return tuple(remarks)


def _checked_truth(truth: ArrayLike, people: int, records: int) -> Ints:
    array = np.asarray(truth)
    if array.shape != (people,) or array.dtype.kind not in "iu":
        raise InvalidData(f"truth: expected {people} whole numbers, one for each attacked person; got {array.shape}")
    bad = (array < -1) | (array >= records)
    if bad.any():
        where = f"the first at position {int(np.argmax(bad))}"
        raise InvalidData(f"truth: {int(bad.sum())} numbers lie outside −1 … {records - 1}, {where}")
    taken = np.sort(array[array >= 0])
    if (taken[1:] == taken[:-1]).any():
        raise InvalidData("truth: two people have the same record; each record belongs to one")
    if not len(taken):
        raise InvalidData("truth: nobody is in the release; give at least one person who is")
    return array.astype(np.int64)
