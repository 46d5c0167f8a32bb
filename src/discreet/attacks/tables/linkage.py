"""Linkage: a table without names, joined with a list that has them (Sweeney 1998, 2002).

The attacker holds a released table and a list of people with names (a voter list). A person *fits* a released row when
in every column both hold (the quasi-identifiers `on`) the row's value covers theirs: exactly, nearly, or as a coarsened
label does (`rules`). The attacker claims a row for a person when that person is the only one of the list who fits it
and (unless `repeated`) it is the only row that they fit. The judge, who knows whose row each is, counts.

>>> from discreet.attacks.tables.linkage import Linkage
>>> report = Linkage(
...     released={"zip": ["13053", "14850"], "age": [28, 31], "condition": ["flu", "asthma"]},
...     known={"name": ["Ann", "Bo", "Cy"], "zip": ["13053", "14850", "14850"], "age": [28, 40, 31]},
...     on=["zip", "age"], name="name", truth=["Ann", "Cy"], against="the raw table",
... ).run()
>>> report.success
100.0 % (15.8–100.0 %; 2 of 2)
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.attacks.attack_report import AttackReport, Share, setting
from discreet.attacks.tables.columns import Codes, Column, as_texts, coded, columns, missing, positions
from discreet.attacks.tables.inference import Secrets, by_secret, guess_shares
from discreet.attacks.tables.matching import Fit, Join, unread
from discreet.attacks.tables.rules import Exact, Rule
from discreet.errors import InvalidData
from discreet.exact import integer, rational
from discreet.report import Bars, Chart

On = Sequence[str] | Mapping[str, Rule | None]
"""The columns both tables hold; with a mapping, how each is compared (None: found out)."""

_MOST_EXAMPLES = 10
_EDGES = (0, 1, 2, 3, 5, 10, 100)


@dataclass(frozen=True, slots=True, kw_only=True)
class Linkage:
    """Name the people of a released table.

    `name` is a column of the known list, one name each; `truth` gives for each released row the name of its person
    (None where the judge does not know, or where it is not on the list). `repeated` means that a person may have
    several rows, and rows that look the same are taken for one person's. With `slips`, up to so many columns may
    disagree: of the people who disagree with a row in as few and as unimportant columns as possible (weights
    log₂ m/u and log₂ (1−m)/(1−u) of Fellegi, Sunter 1969), the only one is claimed, if the weight outweighs the
    length of the list.

    The success is the share of people, in the release and on the list, for whom rows were claimed, and only their own.
    The baseline takes a row at random. The control are people on the list who are not in the release, claimed wrongly.
    """

    released: Any = setting("The table without names.", kind="table")
    known: Any = setting("The list of people.", kind="table")
    on: On = setting("Columns in both tables that identify people.", kind="rules")
    name: str = setting("The column of KNOWN that names people, one name each.")
    truth: Sequence[Any] | NDArray[Any] = setting(
        "For the judge: the name of each released row's person, in the order of the rows; empty: not on the list.",
        kind="values",
    )
    against: str = setting("Its name in the report.", default="the released table")
    repeated: bool = setting("A person may have several released rows.", default=False)
    slips: int = setting("How many columns may disagree.", default=0, least=0)
    confidence: float = 0.95

    def run(self) -> AttackReport:
        """Link, and judge.

        >>> people = {"id": ["a", "b"], "age": [30, 40]}
        >>> Linkage(released={"age": ["3*", "4*"]}, known=people, on=["age"], name="id", truth="ab").run().success.value
        1.0
        >>> Linkage(released={"age": ["*", "*"]}, known=people, on=["age"], name="id", truth="ab").run().success.value
        0.0
        """
        tables = _Tables.of(self.released, self.known, self.on, self.name)
        owner = self._owners(tables)
        claimed, fit = claims(tables.join, repeated=self.repeated, slips=self.slips)
        inside = np.unique(owner[owner >= 0])
        if not len(inside):
            raise InvalidData("truth: no released row belongs to anybody on the known list; nobody can be named")
        outside = np.setdiff1d(np.arange(tables.people), inside)
        named = _only_correctly_claimed(claimed, owner, tables.people)
        control = Share.counted(
            int(_claimed(claimed, outside, tables.people)), len(outside), confidence=self.confidence
        )
        return AttackReport(
            attack="linkage",
            against=self.against,
            goal="name the person of a released row",
            people=len(inside),
            success=Share.among(named[inside], confidence=self.confidence),
            baseline=Share.known(1 / tables.rows),
            control=control if len(outside) else None,
            confidence=self.confidence,
            facts=self._facts(tables, fit, claimed, owner),
            worst=_examples(tables, claimed, owner),
            charts=(_candidates_chart(fit),),
            remarks=_remarks(tables),
            unread=self._unread(tables, owner),
        )

    def _unread(self, tables: "_Tables", owner: Codes) -> tuple[str, ...]:
        rows = np.flatnonzero(owner >= 0)
        return unread(tables.join.misread(rows, owner[rows]), "those whose row it is")

    def _owners(self, tables: "_Tables") -> Codes:
        """The position on the list of each row's person, -1 for none."""
        given = np.array(list(self.truth), object) if not isinstance(self.truth, np.ndarray) else self.truth
        if len(given) != tables.rows:
            raise InvalidData(f"truth: got {len(given)} names, expected {tables.rows}, one for each released row")
        owner = positions(columns({"truth": given}, where="truth")["truth"], tables.names)
        if not self.repeated and np.bincount(owner[owner >= 0], minlength=1).max() > 1:
            raise InvalidData("truth: somebody has several released rows; if that is intended, state repeated=True")
        return owner

    def _facts(self, tables: "_Tables", fit: Fit, claimed: Codes, owner: Codes) -> dict[str, Any]:
        rows = np.flatnonzero(owner >= 0)
        made = claimed >= 0
        right = int((made & (claimed == owner)).sum())
        fits = tables.join.fits(rows, owner[rows])
        expected = np.where(fits, 1 / np.maximum(fit.people[rows], 1), 0.0)
        return {
            "released rows": tables.rows,
            "people on the list": tables.people,
            "released rows whose person is on the list": len(rows),
            "rows that exactly one person fits": int((fit.people == 1).sum()),
            "rows claimed": int(made.sum()),
            "claims that are right": Share.counted(right, int(made.sum()), confidence=self.confidence),
            "expected share named by guessing among those who fit": float(expected.mean()),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkedSecret:
    """Learn a secret of people through the row that is linked with them: for any release, synthetic ones too.

    In a synthetic table no row is anybody's, so what counts is whether the secret read from the claimed row is right.
    `answers` holds for each person of the list the true secret (None: unknown to the judge; left out: the list's own
    column); `members` says who was in the data that the release was made from (left out: everybody).
    Where no row is claimed the attacker says what most released rows say.
    The baseline says what most people's secret is; the control are the people who were not in the data. Judged are
    the normalized risk and every secret on its own, as in `Inference`.
    """

    released: Any = setting("The table without names.", kind="table")
    known: Any = setting("The list of people.", kind="table")
    on: On = setting("Columns in both tables that identify people.", kind="rules")
    secret: str = setting("The column of RELEASED that tells the secret.")
    answers: Sequence[Any] | NDArray[Any] | None = setting(
        "For the judge: the true secret of each person of KNOWN, in order; by default the column --secret of KNOWN.",
        default=None,
        kind="values",
    )
    members: Sequence[bool] | NDArray[np.bool_] | None = setting(
        "For the judge: who of KNOWN was in the data (yes, or no: the control group). By default everybody.",
        default=None,
        kind="bits",
    )
    against: str = setting("Its name in the report.", default="the released table")
    repeated: bool = setting("A person may have several released rows.", default=False)
    slips: int = setting("How many columns may disagree.", default=0, least=0)
    confidence: float = 0.95

    def run(self) -> AttackReport:
        """Link, read the secret, and judge.

        >>> known = {"age": [30, 40, 50, 60]}
        >>> LinkedSecret(
        ...     released={"age": [30, 40], "sick": ["yes", "no"]}, known=known, on=["age"], secret="sick",
        ...     answers=["yes", "no", "no", "yes"], members=[True, True, False, False],
        ... ).run().success.value
        1.0
        """
        tables = _Tables.of(self.released, self.known, self.on, None)
        member = np.ones(tables.people, bool) if self.members is None else np.asarray(self.members)
        known = columns(self.known, [self.secret], where="known")[self.secret] if self.answers is None else self.answers
        if member.dtype != bool or len(member) != tables.people or len(known) != tables.people:
            raise InvalidData(f"members and answers: expected {tables.people} of each, one for each person of the list")
        secret = columns(self.released, [self.secret], where="released")[self.secret]
        answers = columns({"answers": known}, where="answers")["answers"]
        row_secret, answer = coded(secret, answers)
        claimed, fit = claims(tables.join, repeated=self.repeated, slips=self.slips)
        guesses = _read(claimed, row_secret, tables.people)
        right = (guesses == answer) & (answer >= 0)
        inside, outside = member & (answer >= 0), ~member & (answer >= 0)
        if not inside.any():
            raise InvalidData("members: nobody on the known list was in the data and has a known answer")
        most = np.bincount(answer[inside]).argmax()
        plain = answer[inside] == most
        secrets = Secrets.from_columns(answers[inside], answers[outside])
        own = answer[inside]  # the secret of a random row is right as often as people have it
        chance = np.maximum(guess_shares(guesses[inside], own), guess_shares(own, own))
        groups, names = by_secret(
            secrets, list(secrets.codes), [right[inside], right[outside]], plain, chance, self.confidence
        )
        return AttackReport(
            attack="linkage",
            against=self.against,
            goal=f"learn the {self.secret} of a person through the row linked with them",
            people=int(inside.sum()),
            success=Share.among(right[inside], confidence=self.confidence),
            baseline=Share.among(plain, confidence=self.confidence),
            control=Share.among(right[outside], confidence=self.confidence) if outside.any() else None,
            confidence=self.confidence,
            facts={
                "released rows": tables.rows,
                "people on the list": tables.people,
                "members linked with a row": int(_claimed(claimed, np.flatnonzero(inside), tables.people)),
                "others linked with a row": int(_claimed(claimed, np.flatnonzero(outside), tables.people)),
            },
            worst=names,
            charts=(_candidates_chart(fit),),
            remarks=_remarks(tables),
            normalized=True,
            groups=groups,
            unread=unread(
                tables.join.uncovered(inside) | {self.secret: _unsaid(secret, answers[inside])}, "the members"
            ),
        )


def claims(join: Join, *, repeated: bool = False, slips: int = 0) -> tuple[Codes, Fit]:
    """For each released row the person it is claimed for (-1: none), and who fits whom in all the columns.

    >>> join = Join({"age": np.array([30, 40])}, {"age": np.array([40, 40, 30])}, {})
    >>> claims(join)[0].tolist()
    [2, -1]
    """
    allowed = integer(slips, "slips", at_least=0, at_most=max(0, len(join.names) - 1))
    first = join.fit()
    claimed = np.full(join.shape[0], -1)
    undecided = np.ones(join.shape[0], bool)
    for names in _passes(join, allowed):
        free = np.bincount(claimed[claimed >= 0], minlength=join.shape[1]) == 0
        everybody = None if repeated else free
        fit = first if len(names) == len(join.names) else join.fit(names, rows=undecided, people=everybody)
        sure = undecided & (fit.people == 1)
        if not repeated:
            sure &= fit.rows[fit.person] == 1
        claimed[sure] = fit.person[sure]
        undecided &= fit.people == 0
    return claimed, first


def weights(join: Join) -> dict[str, tuple[float, float]]:
    """For each column the bits that an agreement says for a match, and that a disagreement says against it.

    log₂ m/u and log₂ (1−m)/(1−u), where m is the chance that the two entries of one person fit (1 − the rule's
    `error`) and u the chance that those of two random people do (Fellegi, Sunter 1969).

    >>> join = Join({"sex": np.array(["F", "M"], object)}, {"sex": np.array(["F", "M"], object)}, {})
    >>> [round(bits, 2) for bits in weights(join)["sex"]]
    [0.99, -5.64]
    """
    result = {}
    for name in join.names:
        m = 1 - float(rational(join.rules[name].error, "error", above=0, below=1))
        u = min(max(join.agreement(name), 1e-12), 1 - 1e-12)
        result[name] = math.log2(m / u), math.log2((1 - m) / (1 - u))
    return result


def uniqueness(table: Any, names: Sequence[str] | None = None) -> float:
    """The share of rows that no other row equals in the named columns (all); a missing value equals nothing.

    >>> uniqueness({"zip": ["1", "1", "2"], "sex": ["F", "M", "F"]}, ["zip"])
    0.3333333333333333
    """
    read = columns(table, names)
    exact = Join(read, read, {name: Exact() for name in read})
    return float((exact.fit().people <= 1).mean())


def fingerprint(table: Any, names: Sequence[str]) -> list[tuple[str, float]]:
    """Columns in the order in which they single out most rows, each with the share unique by it and those before.

    >>> fingerprint({"a": [1, 1, 2, 2], "b": [1, 2, 3, 3], "c": [0, 0, 0, 1]}, ["a", "b", "c"])
    [('b', 0.5), ('c', 1.0), ('a', 1.0)]
    """
    read = columns(table, names)
    chosen: list[tuple[str, float]] = []
    left = list(read)
    while left:
        tried = {name: uniqueness({n: read[n] for n in [c for c, _ in chosen] + [name]}) for name in left}
        best = max(left, key=lambda name: tried[name])
        chosen.append((best, tried[best]))
        left.remove(best)
    return chosen


@dataclass(frozen=True, slots=True)
class _Tables:
    """Both tables, read and ready to be joined."""

    join: Join
    names: Column
    rows: int
    people: int

    @classmethod
    def of(cls, released: Any, known: Any, on: On, name: str | None) -> "_Tables":
        rules = {key: rule for key, rule in on.items() if rule is not None} if isinstance(on, Mapping) else {}
        wanted = list(on) if not isinstance(on, str) else on
        a = columns(released, wanted, where="released")
        b = columns(known, wanted, where="known")
        names = np.arange(len(next(iter(b.values())))) if name is None else columns(known, [name], where="known")[name]
        if name is not None:
            _distinct_names(names, name)
        join = Join(a, b, rules)
        return cls(join, names, *join.shape)


def _distinct_names(names: Column, column: str) -> None:
    gone = np.flatnonzero(missing(names))
    if len(gone):
        raise InvalidData(f"known, column {column!r}: row {gone[0] + 1} has no name; each person needs one")
    (codes,) = coded(names)
    first = np.unique(codes, return_index=True)[1]
    if len(first) < len(codes):
        again = np.setdiff1d(np.arange(len(codes)), first)
        raise InvalidData(
            f"known, column {column!r}: {len(again)} names appear again (first in row {again[0] + 1}); "
            "give a column with one name each, such as a number"
        )


def _passes(join: Join, slips: int) -> Iterable[tuple[str, ...]]:
    """The columns that must agree, the most telling agreement first; all of them, then (with slips) fewer."""
    score = weights(join)
    kept = [c for missed in range(1, slips + 1) for c in combinations(join.names, len(join.names) - missed)]
    total = {c: sum(score[n][0] if n in c else score[n][1] for n in join.names) for c in kept}
    telling = [c for c in kept if total[c] >= math.log2(join.shape[1])]
    return [join.names, *sorted(telling, key=lambda c: -total[c])]


def _only_correctly_claimed(claimed: Codes, owner: Codes, people: int) -> NDArray[np.bool_]:
    """Who was claimed for their own rows, and for no others."""
    made = claimed >= 0
    right = np.bincount(claimed[made & (claimed == owner)], minlength=people)
    wrong = np.bincount(claimed[made & (claimed != owner)], minlength=people)
    return np.asarray((right > 0) & (wrong == 0))


def _claimed(claimed: Codes, among: Codes, people: int) -> int:
    return int((np.bincount(claimed[claimed >= 0], minlength=people)[among] > 0).sum())


def _read(claimed: Codes, row_secret: Codes, people: int) -> Codes:
    """The secret read for each person: that of the row claimed for them, else the most common one."""
    guess = np.full(people, np.bincount(row_secret[row_secret >= 0], minlength=1).argmax())
    rows = np.flatnonzero((claimed >= 0) & (row_secret >= 0))
    guess[claimed[rows]] = row_secret[rows]
    return guess


def _unsaid(values: Column, answers: Column) -> float:
    """The share of answers that no row says; numbers need not be said to the digit."""
    return Join({"": values}, {"": answers}, {"": Exact()}).uncovered().get("", 0.0)


def _examples(tables: _Tables, claimed: Codes, owner: Codes) -> tuple[str, ...]:
    rows = np.flatnonzero((claimed >= 0) & (claimed == owner))[:_MOST_EXAMPLES]
    return tuple(
        f"row {row + 1} is {name}" for row, name in zip(rows, as_texts(tables.names[claimed[rows]]), strict=True)
    )


def _candidates_chart(fit: Fit) -> Chart:
    place = np.searchsorted(_EDGES, fit.people, "right") - 1
    ends = [str(a) if b == a + 1 else f"{a}–{b - 1}" for a, b in pairwise(_EDGES)]
    share = np.bincount(place, minlength=len(_EDGES)) / len(place)
    labels = [*ends, f"{_EDGES[-1]}+"]
    return Chart("How many people fit a released row", [Bars(labels, share)], x="people who fit", y="share of rows")


def _remarks(tables: _Tables) -> tuple[str, ...]:
    """Columns in which released values fit nobody, where that may mean that labels were not understood."""
    join = tables.join
    coarse = [name for name in join.names if join.unfit(name)]
    foreign = [name for name in join.names if name not in coarse and not join.agreement(name)]
    said = [f"{join.unfit(name)} different labels of column {name!r} fit nobody on the list" for name in coarse]
    said += [f"no released value of column {name!r} fits anybody on the list" for name in foreign]
    return tuple(f"{sentence}; if they are coarsened, explain them: Coarse(covers=…)" for sentence in said)
