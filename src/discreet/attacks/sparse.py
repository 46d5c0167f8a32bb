"""Whose record is this? A few ratings, roughly known, single out a record among very many.

Narayanan, Shmatikov 2008, "Robust De-anonymization of Large Sparse Datasets", the algorithm of its section 5: a record
scores Σ wt(i)·(exp(−|Δrating|/ρ₀) + exp(−|Δdays|/d₀)) over the items i that both the attacker knows and the record
holds, with wt(i) = 1/ln|supp(i)|, so that rare items count more. The best record is named if its eccentricity, its
lead over the second best in standard deviations of all scores, is above a threshold; else the attacker abstains. An
item of one or two people weighs 1/ln 2, since the formula has no value at 1.

Only the records that hold one of the known items are touched: entries are kept by item.

>>> from discreet.attacks.ratings import catalogue, planted
>>> from discreet.attacks.sparse import SparseMatching
>>> case = planted(catalogue(people=2000, items=500, mean=60, seed=1), targets=100, absent=100, known=8, seed=2)
>>> report = SparseMatching(released=case.released, auxiliary=case.auxiliary, truth=case.truth).run()
>>> report.verdict, report.success.value > 0.8, report.facts["people outside named all the same"].value < 0.2
('falls', True, True)
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.attacks.ratings import Floats, Ints, Ratings
from discreet.attacks.report import AttackReport, Share
from discreet.drawing import Chart, Line
from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import Number, integer, rational

Similarity = Literal["exponential", "within"]

_WORST = 5
_FEW = 0.05


@dataclass(frozen=True, slots=True, eq=False)
class Matches:
    """The attacker's result. Each array has a row for every number of known ratings and a column for every person.

    `best` is the record of the highest score, `eccentricity` its lead, `claims` the record that is named, −1 = none.
    """

    steps: tuple[int, ...]
    best: Ints
    eccentricity: Floats
    claims: Ints


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SparseMatching:
    """Find the records of people of whom a few ratings are known.

    `auxiliary` numbers the attacked people; `truth[i]` is the record of person i in the release, −1 if there is none.
    Whatever is named for people who are not in the release is a false claim. They are also the control: for each a
    record is drawn as if it were theirs, and the control is how often just that one is named. `threshold` is the
    eccentricity above which a record is named; 1.5, `rating_scale` 1.5 and `day_scale` 30 days are the paper's. The
    similarity "within" counts an item fully if rating and date are both within the scales, else not at all. `steps` are
    the numbers of known ratings at which the curve is drawn; the known ratings are taken in an order drawn with `seed`.
    """

    released: Ratings
    auxiliary: Ratings
    truth: ArrayLike
    threshold: Number = "1.5"
    rating_scale: Number = "1.5"
    day_scale: Number = 30
    similarity: Similarity = "exponential"
    steps: Sequence[int] | None = None
    seed: int = 0
    against: str = "the release"
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
        _Rule.of(self, dates=True)
        rational(self.threshold, "threshold", at_least=0)
        integer(self.seed, "seed", at_least=0)

    def run(self) -> AttackReport:
        """Attack everybody, with dates and without, and judge."""
        found = self.match()
        undated = self.match(dates=False) if self._dated() else found
        judge = _Judge.of(self)
        return AttackReport(
            attack="sparse matching",
            against=self.against,
            goal="name the released record of a person of whom a few ratings are known",
            people=int(judge.inside.sum()),
            success=judge.inside_share(found.claims[-1] == judge.truth),
            baseline=Share.known(1 / self.released.people),
            control=judge.outside_share(found.claims[-1] == judge.truth) if judge.outside.any() else None,
            confidence=self.confidence,
            facts=_facts(self, found, undated, judge),
            worst=_worst(found, judge),
            charts=_charts(self, found, undated, judge),
            remarks=_remarks(self, found, judge),
        )

    def match(self, *, dates: bool = True) -> Matches:
        """What the attacker finds, without looking at the truth.

        >>> from discreet.attacks.ratings import Ratings
        >>> released = Ratings.of([0, 1, 2, 2], [0, 0, 1, 0], [5, 1, 4, 5], people=50, items=2)
        >>> known = Ratings.of([0, 0], [0, 1], [5, 4], items=2)
        >>> attack = SparseMatching(released=released, auxiliary=known, truth=[2])
        >>> attack.match().claims[-1].tolist()
        [2]
        """
        rule = _Rule.of(self, dates=dates)
        groups = _by_person(self.auxiliary, self.seed)
        most = max(1, int(np.bincount(self.auxiliary.person).max()))
        steps = _steps(self.steps, most)
        best = np.zeros((len(steps), self.auxiliary.people), np.int64)
        lead = np.zeros(best.shape)
        scores = np.zeros(self.released.people)
        for person, entries in enumerate(groups):
            for row, (record, eccentricity) in enumerate(_peaks(rule, self, entries, steps, scores)):
                best[row, person], lead[row, person] = record, eccentricity
        limit = float(rational(self.threshold, "threshold"))
        return Matches(steps, best, lead, np.where(lead > limit, best, -1))

    def _dated(self) -> bool:
        return self.released.day is not None and self.auxiliary.day is not None


# The score


@dataclass(frozen=True, slots=True)
class _Rule:
    """How alike two ratings of an item are, times the item's weight."""

    released: Ratings
    weights: Floats
    rating_scale: float
    day_scale: float
    exponential: bool
    dates: bool

    @classmethod
    def of(cls, attack: SparseMatching, *, dates: bool) -> "_Rule":
        if attack.similarity not in ("exponential", "within"):
            raise InvalidParameter("similarity", attack.similarity, '"exponential" or "within"')
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


def _peaks(
    rule: _Rule, attack: SparseMatching, entries: Ints, steps: Sequence[int], scores: Floats
) -> Iterator[tuple[int, float]]:
    """The best record and its eccentricity, after each of the steps, in `scores`, which it may write over."""
    known, days = attack.auxiliary, attack.auxiliary.day
    scores[:] = 0
    peak, done = (0, 0.0), 0
    for step in steps:
        for entry in entries[done:step]:
            rule.add(known.item[entry], known.rating[entry], 0 if days is None else days[entry], scores)
        if len(entries) > done:
            peak = _peak(scores)
        done = step
        yield peak


def _peak(scores: Floats) -> tuple[int, float]:
    """The highest score's place, and (highest − second)/σ over all records; 0 where all are alike."""
    best = int(scores.argmax())
    top = scores[best]
    scores[best] = -1
    second = scores.max()
    scores[best] = top
    mean = scores.sum() / len(scores)
    variance = float(np.einsum("i,i", scores, scores)) / len(scores) - mean**2  # @ would wake threads
    return best, float((top - second) / np.sqrt(variance)) if variance > 1e-18 else 0.0


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
    """Which record is whose; people outside the release have one drawn at random, to see what luck brings."""

    truth: Ints
    inside: NDArray[np.bool_]
    confidence: float

    @classmethod
    def of(cls, attack: SparseMatching) -> "_Judge":
        truth = _checked_truth(attack.truth, attack.auxiliary.people, attack.released.people)
        drawn = np.random.default_rng(attack.seed).integers(attack.released.people, size=len(truth))
        return cls(np.where(truth >= 0, truth, drawn), truth >= 0, attack.confidence)

    @property
    def outside(self) -> NDArray[np.bool_]:
        return ~self.inside

    def inside_share(self, event: NDArray[np.bool_]) -> Share:
        return Share.counted(int(event[self.inside].sum()), int(self.inside.sum()), confidence=self.confidence)

    def outside_share(self, event: NDArray[np.bool_]) -> Share:
        return Share.counted(int(event[self.outside].sum()), int(self.outside.sum()), confidence=self.confidence)


def _facts(attack: SparseMatching, found: Matches, undated: Matches, judge: _Judge) -> dict[str, Any]:
    claims, best, lead = found.claims[-1], found.best[-1], found.eccentricity[-1]
    right = claims == judge.truth
    facts: dict[str, Any] = {
        "released records": attack.released.people,
        "released ratings": len(attack.released),
        "known ratings of a person, at most": found.steps[-1],
        "named rightly": judge.inside_share(right),
        "named wrongly": judge.inside_share((claims >= 0) & ~right),
        "abstained": judge.inside_share(claims < 0),
        "best guess right, without abstaining": judge.inside_share(best == judge.truth),
    }
    if undated is not found:
        facts["named rightly without dates"] = judge.inside_share(undated.claims[-1] == judge.truth)
    if judge.outside.any():
        strict = float(np.quantile(lead[judge.outside], 1 - _FEW, method="higher"))
        facts["people outside named all the same"] = judge.outside_share(claims >= 0)
        name = f"named rightly, if {_FEW:.0%} of people outside may be named"
        facts[name] = judge.inside_share((best == judge.truth) & (lead > strict))
    return facts


def _charts(attack: SparseMatching, found: Matches, undated: Matches, judge: _Judge) -> tuple[Chart, ...]:
    threshold = float(rational(attack.threshold, "threshold"))
    kinds = {"with dates": found, "without dates": undated} if found is not undated else {"": found}
    curve = [_curve(label, kind, judge) for label, kind in kinds.items()]
    leads = [
        _tail(label, found.eccentricity[-1][rows])
        for label, rows in (("in the release", judge.inside), ("not in the release", judge.outside))
        if rows.any()
    ]
    limit = Line([threshold, threshold], [0, 1], "named above this", dashed=True)
    return (
        Chart("Records named rightly", curve, x="known ratings of a person", y="share of people", y_range=(0, 1)),
        Chart(
            "How far the best record leads",
            [*leads, limit],
            x="eccentricity",
            y="share of people above it",
            y_range=(0, 1),
        ),
    )


def _curve(label: str, found: Matches, judge: _Judge) -> Line:
    shares = [judge.inside_share(claims == judge.truth) for claims in found.claims]
    return Line(
        list(found.steps), [s.value for s in shares], label, low=[s.low for s in shares], high=[s.high for s in shares]
    )


def _tail(label: str, values: Floats, points: int = 200) -> Line:
    """The share of values above x."""
    grid = np.linspace(0, max(float(values.max()), 1.0), points)
    above = 1 - np.searchsorted(np.sort(values), grid, side="right") / len(values)
    return Line(grid.tolist(), above.tolist(), label)


def _worst(found: Matches, judge: _Judge) -> tuple[str, ...]:
    right = np.flatnonzero((found.claims[-1] == judge.truth) & judge.inside)
    leads = found.eccentricity[-1]
    first = right[np.argsort(-leads[right], kind="stable")][:_WORST]
    return tuple(f"person {i} is record {judge.truth[i]} (eccentricity {leads[i]:.1f})" for i in first)


def _remarks(attack: SparseMatching, found: Matches, judge: _Judge) -> tuple[str, ...]:
    told = []
    if not judge.outside.any():
        told.append("No person outside the release was given, so false claims were not measured: mark some with −1.")
    named, guessed = (judge.inside_share(kind[-1] == judge.truth) for kind in (found.claims, found.best))
    if named.value < guessed.value / 2 and guessed.low > 1 / attack.released.people:
        told.append(f"Without abstaining the best guess is right for {guessed}: abstaining hides a part of what leaks.")
    return tuple(told)


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
