"""Two k-anonymous releases of overlapping populations, put together (Ganta, Kasiviswanathan, Smith 2008).

The attacker knows the exact quasi-identifiers of a person, and that the person was at both hospitals. Each release
leaves the sensitive values of the rows that may be the person's; only values in both remain.

>>> from discreet.attacks.answers.intersection import Intersection
>>> first = {"age": ["20-29"] * 3 + ["30-39"] * 3, "ill": ["flu", "asthma", "none", "flu", "none", "none"]}
>>> second = {"age": ["2*"] * 3, "ill": ["flu", "measles", "burn"]}
>>> known = {"age": [24], "ill": ["flu"]}
>>> report = Intersection(releases=[first, second], known=known, on=["age"], sensitive="ill").run()
>>> report.success.hits, report.facts["pinned by release 1 alone"].hits
(1, 0)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.attacks.attack_report import AttackReport, Share, setting
from discreet.attacks.tables.columns import Codes, Column, as_texts, coded, columns, distinct, no_control
from discreet.attacks.tables.rules import Covers, Known, covered, understood
from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import integer
from discreet.report import Bars, Chart

Candidates = NDArray[np.bool_]
_BLOCK = 4096
_FEW = 0.05  # of the people may be missing from a release by error


@dataclass(frozen=True, slots=True, kw_only=True)
class Intersection:
    """Releases of overlapping populations against people whose quasi-identifiers are known.

    `known` holds the people's exact quasi-identifiers `on` and, for the judge, their true `sensitive` value; `outside`
    the same for people who are in no release (the control). `covers` explains, column by column, labels that cannot be
    read as they are written (see `coverage`). A person is pinned when exactly one value remains and it is the true one.
    A missing label or a missing known value rules nothing out.
    """

    releases: Sequence[Any] = setting("Tables of the same people.", kind="tables", repr=False)
    known: Any = setting("People who are in every release: exact values, and the truth.", kind="file", repr=False)
    covers: Mapping[str, Covers] | None = setting("What labels stand for.", default=None, kind="covers")
    on: Sequence[str] = setting("Columns that identify people; labels may be coarsened.", kind="columns")
    sensitive: str = setting("The column with the secret.")
    outside: Any = setting("People who are in no release: the control group.", default=None, kind="file", repr=False)
    against: str = setting("Its name in the report.", default="releases together")
    confidence: float = 0.95

    def run(self) -> AttackReport:
        """Intersect for every person, and judge."""
        self._check()
        sets, truth = self.candidates(self.known)
        unfit = self._unfit(sets)
        shares = [
            Share.among(_pinned(candidates, truth), confidence=self.confidence)
            for candidates in (*sets, np.logical_and.reduce(sets))
        ]
        together = np.logical_and.reduce(sets)
        alone = {f"pinned by release {i} alone": share for i, share in enumerate(shares[:-1], 1)}
        sizes = [float(candidates.sum(axis=1).mean()) for candidates in (*sets, together)]
        single = together.sum(axis=1) == 1
        return AttackReport(
            attack="intersection",
            against=self.against,
            goal=f"be left with one value of {self.sensitive!r}, the true one",
            people=len(truth),
            success=shares[-1],
            baseline=Share.known(0.0),
            control=None if self.outside is None else self._control(),
            confidence=self.confidence,
            facts=alone
            | {"values left, mean, by one release": ", ".join(f"{size:.3g}" for size in sizes[:-1])}
            | {"values left, mean, together": f"{sizes[-1]:.3g}"}
            | {"people whom no row of some release fits": unfit}
            | {"left with one value, and it is wrong": int((single & ~_pinned(together, truth)).sum())},
            worst=tuple(f"row {row + 1} of the known people" for row in np.flatnonzero(_pinned(together, truth))[:5]),
            charts=(_chart(shares),),
            remarks=("A guesser who has seen no release is certain of nobody's value.",),
            unread=self._unread(sets),
        )

    def candidates(self, people: Any) -> tuple[list[Candidates], NDArray[np.int64]]:
        """For each release, which values each person may have (people × values); and the number of the true one.

        Two columns follow the named values: a value that nobody names, and "no row fits". A release without a row
        that fits a person says nothing about that person: everything stays possible.
        """
        names = [*self.on, self.sensitive]
        known = columns(people, names, where="known")
        tables = [columns(table, names, where=f"release {i}") for i, table in enumerate(self.releases, 1)]
        truth, *released = coded(known[self.sensitive], *[table[self.sensitive] for table in tables])
        if (truth < 0).any():
            raise InvalidData(f"known: {int((truth < 0).sum())} people have no {self.sensitive!r}; leave them out")
        values = max(int(codes.max()) for codes in (truth, *released)) + 3
        folk = [_Known.of(known[name]) for name in self.on]
        return [self._fitting(t, codes, folk, values) for t, codes in zip(tables, released, strict=True)], truth

    def _fitting(
        self, release: Mapping[str, Column], sensitive: Codes, folk: Sequence["_Known"], values: int
    ) -> Candidates:
        """The sensitive values of the rows whose labels cover each person's values; a missing one may be any."""
        labels = [_labels(release[name]) for name in self.on]
        classes, of_row = np.unique(np.stack([codes for _, codes in labels]), axis=1, return_inverse=True)
        present = np.zeros((classes.shape[1], values), np.float32)
        present[of_row.reshape(-1)[sensitive >= 0], sensitive[sensitive >= 0]] = 1
        present[of_row.reshape(-1)[sensitive < 0], :-1] = 1
        tables = [
            known.covered_by(texts, (self.covers or {}).get(name))
            for name, (texts, _), known in zip(self.on, labels, folk, strict=True)
        ]
        people = len(folk[0].codes)
        result = np.empty((people, values), np.bool_)
        for start in range(0, people, _BLOCK):
            rows = slice(start, start + _BLOCK)
            fits = np.logical_and.reduce(
                [t[c][:, known.codes[rows]] for t, c, known in zip(tables, classes, folk, strict=True)]
            )
            result[rows] = fits.T.astype(np.float32) @ present > 0
        result[~result.any(axis=1)] = True
        return result

    def _unfit(self, sets: Sequence[Candidates]) -> int:
        """How many people some release has no row for; a release that fits nobody is more likely one misread."""
        unfit = np.stack([result[:, -1] for result in sets])
        for number, missed in enumerate(unfit, 1):
            if missed.all():
                raise InvalidData(
                    f"release {number}: no row of it fits any of the {len(missed)} known people; "
                    "if its labels are written in a way of their own, explain them with covers={column: …}"
                )
        return int(unfit.any(axis=0).sum())

    def _unread(self, sets: Sequence[Candidates]) -> tuple[str, ...]:
        """Releases in which many people have no row that fits, and many rows a label that was not understood."""
        said = []
        for number, (result, table) in enumerate(zip(sets, self.releases, strict=True), 1):
            lost, strange = float(result[:, -1].mean()), self._strange(table)
            if lost > _FEW and strange:
                said.append(
                    f"release {number}: no row fits {100 * lost:.0f} % of the known people, and labels of "
                    f"{', '.join(map(repr, strange))} were not understood; explain them with covers={{column: …}}"
                )
        if self.outside is not None:
            names = [*self.on, self.sensitive]
            known, outside = columns(self.known, names, where="known"), columns(self.outside, names, where="outside")
            said += no_control(known, outside)
        return tuple(said)

    def _strange(self, table: Any) -> list[str]:
        """The columns in which many rows have a label that covers nobody known and is not written in a known form."""
        known, rows = columns(self.known, self.on, where="known"), columns(table, self.on, where="release")
        result = []
        for name in self.on:
            labels, codes = _labels(rows[name])
            explained = (self.covers or {}).get(name)
            values = Known(_Known.of(known[name]).values)
            odd = [
                label is not None and not understood(label, explained) and not covered(label, values, explained).any()
                for label in labels
            ]
            result += [name] if np.array(odd)[codes].mean() > _FEW else []
        return result

    def _control(self) -> Share:
        sets, truth = self.candidates(self.outside)
        return Share.among(_pinned(np.logical_and.reduce(sets), truth), confidence=self.confidence)

    def _check(self) -> None:
        if isinstance(self.releases, str | Mapping) or not len(self.releases):
            raise InvalidParameter("releases", type(self.releases).__name__, "a list of at least one table")
        if isinstance(self.on, str) or not self.on:
            raise InvalidParameter("on", self.on, "a list of at least one column")
        if self.sensitive in self.on:
            raise InvalidParameter("sensitive", self.sensitive, "a column that is not among those matched on")


@dataclass(frozen=True, slots=True, eq=False)
class _Known:
    """One column of known values: the distinct ones, and the number of each person's (-1: missing)."""

    values: Column
    codes: Codes

    @classmethod
    def of(cls, column: Column) -> "_Known":
        (codes,) = coded(column)
        return cls(distinct(column, codes), codes)

    def covered_by(self, labels: Sequence[str | None], covers: Covers | None) -> NDArray[np.bool_]:
        """Labels × values; the last column, where -1 points, is for missing values."""
        table = np.ones((len(labels), len(self.values) + 1), np.bool_)
        known = Known(self.values)
        for row, label in enumerate(labels):
            if label is not None:
                table[row, :-1] = covered(label, known, covers)
        return table


@dataclass(frozen=True, slots=True, kw_only=True)
class Hospitals:
    """Two hospitals' tables, the people who were at both, and people who were at neither."""

    first: dict[str, list[Any]] = field(repr=False)
    second: dict[str, list[Any]] = field(repr=False)
    both: dict[str, list[Any]] = field(repr=False)
    neither: dict[str, list[Any]] = field(repr=False)


def two_hospitals(*, people: int, shared: int, conditions: int = 20, seed: int) -> Hospitals:
    """Generated tables of two hospitals with `people` patients each, `shared` of them the same, in random order.

    Columns: age, zip, sex, condition. A shared patient has the same condition in both.

    >>> hospitals = two_hospitals(people=100, shared=30, seed=1)
    >>> len(hospitals.first["age"]), len(hospitals.both["age"]), sorted(hospitals.first)
    (100, 30, ['age', 'condition', 'sex', 'zip'])
    """
    integer(people, "people", at_least=1)
    integer(shared, "shared", at_least=1, at_most=people)
    integer(conditions, "conditions", at_least=2)
    rng = np.random.default_rng(seed)
    everybody = 2 * people  # (shared + two rests) + shared who were at neither
    made = {
        "age": rng.integers(18, 91, everybody),
        "zip": 13000 + rng.integers(0, 100, everybody),
        "sex": rng.choice(["F", "M"], everybody),
        "condition": np.array([f"condition {c + 1}" for c in rng.integers(0, conditions, everybody)]),
    }

    def part(rows: NDArray[np.int64]) -> dict[str, list[Any]]:
        return {name: values[rows].tolist() for name, values in made.items()}

    both, numbers = np.arange(shared), np.arange(everybody)
    first, second, rest = np.split(numbers[shared:], [people - shared, 2 * (people - shared)])
    return Hospitals(
        first=part(rng.permutation(np.concatenate([both, first]))),
        second=part(rng.permutation(np.concatenate([both, second]))),
        both=part(both),
        neither=part(rest[:shared]),
    )


def _labels(column: Column) -> tuple[list[str | None], Codes]:
    """The distinct labels of a column, None last, and the number of each row's."""
    written = as_texts(column)
    (codes,) = coded(written)
    labels = [*distinct(written, codes).tolist(), None]
    return labels, np.where(codes < 0, len(labels) - 1, codes)


def _pinned(candidates: Candidates, truth: NDArray[np.int64]) -> NDArray[np.bool_]:
    right: NDArray[np.bool_] = (candidates.sum(axis=1) == 1) & candidates[np.arange(len(truth)), truth]
    return right


def _chart(shares: Sequence[Share]) -> Chart:
    names = [*[f"release {i} alone" for i in range(1, len(shares))], "together"]
    bars = Bars(names, [s.value for s in shares], low=[s.low for s in shares], high=[s.high for s in shares])
    return Chart("People whose value is pinned", [bars], y="share of people", y_range=(0, 1))
