"""What any released table (raw, coarsened, synthetic) lets one infer about people, corrected by a control.

Three attacks, named as in Opinion 05/2014 of the Article 29 Working Party: inference of an attribute, linkability of
two parts of a person's data, and singling out (`singling_out`). Each is tried on people whose data the release was made
from and, as the control, on people of the same kind who were not in that data. What works on both is knowledge about
everybody; only the difference is about *your* row. (The scheme is that of Giomi et al. 2023.)

>>> from discreet.attacks.tables.inference import Inference
>>> people = {"age": [20, 30, 40, 50], "zip": ["1", "2", "3", "4"], "sick": ["yes", "no", "yes", "no"]}
>>> others = {"age": [25, 35, 45, 55], "zip": ["1", "2", "3", "4"], "sick": ["no", "no", "yes", "no"]}
>>> report = Inference(released=people, people=people, controls=others, known=["age", "zip"], secret="sick").run()
>>> report.success.value, report.control.value
(1.0, 0.75)
>>> report.verdict  # four people show next to nothing
'undecided'
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.attacks.attack_report import AttackReport, Comparison, Share, setting
from discreet.attacks.tables.columns import Codes, Column, as_texts, coded, columns, distinct, kind, missing, no_control
from discreet.attacks.tables.matching import Join, Near, Space, unread
from discreet.attacks.tables.rules import Exact
from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import Number, integer, rational
from discreet.intervals import lower_limit

Mask = NDArray[np.bool_]
Floats = NDArray[np.float64]

_COMMON = 50  # a secret of at least so many people, and as many controls, is judged on its own
_FEW_SHARE = 0.1  # numbers: the lowest and the highest tenth are judged on their own
_TOLERANCE = 0.1  # the risk that holds for the people of one secret; fewer people, so wider limits than for all


@dataclass(frozen=True, slots=True)
class Secrets:
    """The secrets of people and controls as numbers from 0, the most frequent first (−1: missing); their names.

    >>> Secrets.from_columns(np.array(["a", "b", "b"], object), np.array(["b"], object)).codes[0].tolist()
    [1, 0, 0]
    """

    codes: tuple[Codes, Codes]
    names: tuple[str, ...]
    words: tuple[str, ...]

    @classmethod
    def from_columns(cls, people: Column, controls: Column, reach: float = 0) -> "Secrets":
        """Equal values are one secret; numbers that are right within `reach` are in three bands."""
        if reach and kind(people) == kind(controls) == "number":
            both = np.concatenate([people, controls]).astype(np.float64)
            ends = np.nanquantile(both, [_FEW_SHARE, 1 - _FEW_SHARE])
            bands = np.where(np.isnan(both), -1, (both < ends[0]) + 2 * (both > ends[1]))
            words = ("the middle of the secrets", "the lowest tenth", "the highest tenth")
            return cls((bands[: len(people)], bands[len(people) :]), words, words)
        first, second = coded(people, controls)
        counts = np.bincount(np.append(first, second) + 1)[1:]
        rank = np.append(np.argsort(np.argsort(-counts, kind="stable"), kind="stable"), -1)
        every = distinct(
            np.concatenate([as_texts(people), as_texts(controls)]), np.append(rank[first], rank[second])
        )  # in the order of their ranks
        numbers = tuple(f"secret no. {place + 1} by frequency" for place in range(len(counts)))
        return cls((rank[first], rank[second]), tuple(map(str, every)), numbers)


def chosen_rows(codes: Codes, most: int, seed: int) -> tuple[Codes, int]:
    """Rows to attack: at most so many at random, then at most as many again of the rarest secrets; and how many
    the former are."""
    most = integer(most, "targets", at_least=1)
    order = np.random.default_rng(seed).permutation(len(codes))
    rest = order[most:][codes[order[most:]] >= 0]
    counts = np.bincount(codes[codes >= 0], minlength=1)
    rare = rest[np.argsort(counts[codes[rest]], kind="stable")][:most]
    return np.concatenate([order[:most], rare]), min(most, len(codes))


def by_secret(
    secrets: Secrets, codes: list[Codes], right: list[Mask], plain: Mask, chance: Floats, confidence: float
) -> tuple[tuple[Comparison, ...], tuple[str, ...]]:
    """How often each secret is told to those who have it, and its name for the owner; that of the baseline is left out.

    It is compared with the controls who have the secret, and with `chance`: for each person, how often a guess made
    about somebody else is right about them. An attack that names a secret more often inside than outside, whoever has
    it, tells nothing. Limits by which a secret falls are widened for the number of secrets (Bonferroni); those by which
    it holds need not be, since all of them must (Berger 1982, intersection-union tests). Rare secrets are also judged
    together; one of them that stands out leaves the verdict open where its few controls cannot make it fall.
    """
    counts = [np.bincount(part[part >= 0], minlength=len(secrets.words)) for part in codes]
    there = np.flatnonzero(counts[0] > 0)
    common = there[(counts[0][there] >= _COMMON) & ((counts[1][there] >= _COMMON) | (len(codes[1]) == 0))]
    groups: list[Comparison] = []
    rare: dict[int, Comparison] = {}
    for place in there.tolist():
        recalled = [hits[part == place] for hits, part in zip(right, codes, strict=True)]
        group = _compared(
            secrets.words[place],
            recalled,
            plain[codes[0] == place],
            confidence,
            looks=len(there),
            chance=float(chance[codes[0] == place].mean()),
            controlled=len(codes[1]) > 0,
        )
        if group.reference.low == 1:  # the answer that is the same for everybody is right about all of them
            continue
        if place in common:
            groups.append(group)
        else:
            rare[place] = group
    if rare:
        among = [np.isin(part, list(rare)) for part in codes]
        recalled = [hits[part] for hits, part in zip(right, among, strict=True)]
        name = f"the {len(rare)} rarest secrets" if len(rare) > 1 else "the rarest secret"
        together = _compared(
            name,
            recalled,
            plain[among[0]],
            confidence,
            looks=len(there),
            chance=float(chance[among[0]].mean()),
            controlled=len(codes[1]) > 0,
        )
        alone = _remarkable(rare.values(), together, 1 - (1 - confidence) / len(there)) if len(rare) > 1 else ()
        groups += [*alone, together]
    names = tuple(f"{secrets.words[place]}: {secrets.names[place]}" for place in there[:_COMMON].tolist())
    return tuple(groups), names


def _remarkable(rare: Iterable[Comparison], together: Comparison, confidence: float) -> Iterator[Comparison]:
    """The rare secrets that are told too often for the average over all of them to speak for them.

    Some fall by themselves. Others (three of three, say) have too few controls for that, but are told more often than
    by chance, than to their controls and than rare secrets are to controls altogether: they leave the verdict open.
    """
    for group in rare:
        if group.success.low > group.reference.high:
            yield replace(group, decides=False)
        elif group.risk.value > group.tolerance:
            hits, trials = group.success.hits, group.success.trials
            least = float(lower_limit(hits or 0, trials or 0, confidence=confidence))
            if least > max(group.reference.value, together.reference.value):
                yield group


def _compared(
    name: str, sides: list[Mask], plain: Mask, confidence: float, *, looks: int, chance: float, controlled: bool
) -> Comparison:
    """Success among the people of a secret, beside the controls who have it and the answer that is always the same.

    Where there are controls but none of them has the secret, what would be told to outsiders is unknown: up to 1.
    """
    wide = 1 - (1 - confidence) / looks
    limits = [(Share.among(hits, confidence=confidence), Share.among(hits, confidence=wide)) for hits in sides]
    success = replace(limits[0][0], low=limits[0][1].low)
    control = replace(limits[1][0], high=limits[1][1].high)
    if not controlled:
        control = Share.known(chance)
    elif chance > control.value:
        control = replace(control, value=chance, low=chance, high=max(control.high, chance))
    always = (
        Share.known(float(plain[0])) if plain.all() or not plain.any() else Share.among(plain, confidence=confidence)
    )
    reference = always if always.value >= max(control.value, 1e-12) else control
    return Comparison(name=name, success=success, reference=reference, tolerance=_TOLERANCE)


Table = dict[str, Column]


@dataclass(frozen=True, slots=True, kw_only=True)
class Inference:
    """Infer a secret of people from what is known about them.

    The attacker looks for the released rows nearest to a person in the `known` columns, ties included, and says what
    most of them say in the column `secret` (for numbers: their median). Numbers are right within `tolerance`. The
    baseline is the best answer that is the same for everybody, chosen on the controls.

    Where most people share one answer, guessing it is nearly always right and says nothing about the others. So every
    secret is judged on its own as well: of the people who have it, how many are told it (the recall), beside the
    controls who have it. Secrets of few people are judged together, and each can fall by itself; up to `targets` more
    people, those of the rarest secrets, are attacked for that. The names of secrets are for the owner's eyes.
    """

    released: Any = setting("The released table.", kind="table")
    people: Any = setting("The people whose data it was made from.", kind="table")
    controls: Any = setting("Similar people who were not in it.", kind="table")
    known: Sequence[str] = setting("Columns that the attacker knows of a person.", kind="columns")
    secret: str = setting("The column to infer.")
    against: str = setting("Its name in the report.", default="the released table")
    tolerance: Number = setting("Numbers that differ by at most this count as right.", default=0)
    neighbors: int = setting("How many nearest rows to use.", default=1, least=1)
    targets: int = setting("The most people to attack.", default=5000, least=1)
    seed: int = setting("The seed of all random choices.", default=0, least=0)
    confidence: float = 0.95

    def run(self) -> AttackReport:
        """Infer, and judge."""
        known = names_of(self.known, "known")
        if self.secret in known:
            raise InvalidParameter("secret", self.secret, "a column that is not among the known ones")
        released, people, controls = read_tables(self, [*known, self.secret])
        column = released[self.secret]
        _several(column, self.secret)
        space = Space({name: released[name] for name in known})
        reach = float(rational(self.tolerance, "tolerance", at_least=0))
        secrets = Secrets.from_columns(people[self.secret], controls[self.secret], reach)
        chosen = [chosen_rows(codes, self.targets, self.seed + i) for i, codes in enumerate(secrets.codes)]
        targets = [
            {name: values[rows] for name, values in table.items()}
            for table, (rows, _) in zip((people, controls), chosen, strict=True)
        ]
        guesses = [self._guess(space, column, table) for table in targets]
        right = [_right(guess, table[self.secret], reach) for guess, table in zip(guesses, targets, strict=True)]
        constant = _best_constant(controls[self.secret], reach)
        plain = _right(np.repeat(constant, len(right[0])), targets[0][self.secret], reach)
        sizes = [count for _, count in chosen]
        codes = [of_all[rows] for of_all, (rows, _) in zip(secrets.codes, chosen, strict=True)]
        chance = _right_by_chance(guesses[0][: sizes[0]], targets[0][self.secret], reach)
        groups, names = by_secret(secrets, codes, right, plain, chance, self.confidence)
        return AttackReport(
            attack="attribute inference",
            against=self.against,
            goal=f"tell the {self.secret} of a person from {', '.join(known)}",
            people=sizes[0],
            success=Share.among(right[0][: sizes[0]], confidence=self.confidence),
            baseline=Share.among(plain[: sizes[0]], confidence=self.confidence),
            control=Share.among(right[1][: sizes[1]], confidence=self.confidence),
            confidence=self.confidence,
            facts={"released rows": len(column), "people of the control": sizes[1]},
            worst=names,
            unread=doubts(released, people, controls, exact=(self.secret,)),
            normalized=True,
            groups=groups,
        )

    def _guess(self, space: Space, column: Column, people: Table) -> Column:
        near = space.nearest(people, neighbors=self.neighbors)
        votes = _Votes.of(near, space, column)
        return votes.median() if kind(column) == "number" and self.tolerance else votes.most()


@dataclass(frozen=True, slots=True, kw_only=True)
class Linkability:
    """Join two parts of a person's data, held by two parties, through the release.

    One party holds the columns `left`, the other `right`. For a person, each finds the released rows nearest to what it
    holds, all of them where there are ties; if both find a row, the two parts are said to be one person's.
    The baseline joins at random.
    """

    released: Any = setting("The released table.", kind="table")
    people: Any = setting("The people whose data it was made from.", kind="table")
    controls: Any = setting("Similar people who were not in it.", kind="table")
    left: Sequence[str] = setting("Columns that one party holds.", kind="columns")
    right: Sequence[str] = setting("Columns that the other party holds.", kind="columns")
    against: str = setting("Its name in the report.", default="the released table")
    neighbors: int = setting("How many nearest rows to use.", default=1, least=1)
    targets: int = setting("The most people to attack.", default=5000, least=1)
    seed: int = setting("The seed of all random choices.", default=0, least=0)
    confidence: float = 0.95

    def run(self) -> AttackReport:
        """Join, and judge.

        >>> people = {"a b": [1, 1, 2, 2], "c": ["x", "y", "x", "y"]}
        >>> others = {"a b": [3, 3, 4, 4], "c": ["z", "z", "w", "w"]}
        >>> Linkability(released=people, people=people, controls=others, left=["a b"], right=["c"]).run().success.value
        1.0
        """
        left, right = names_of(self.left, "left"), names_of(self.right, "right")
        both = [name for name in left if name in right]
        if both:
            raise InvalidParameter("right", list(right), "columns that are not on the left", f"{both[0]!r} is on both")
        released, people, controls = read_tables(self, [*left, *right])
        for name in (left, right):
            _telling({column: released[column] for column in name})
        spaces = [Space({name: released[name] for name in side}) for side in (left, right)]
        targets = [sample(table, self.targets, self.seed + i) for i, table in enumerate((people, controls))]
        near = [[space.nearest(table, neighbors=self.neighbors) for space in spaces] for table in targets]
        joined = [_joined(spaces, pair) for pair in near]
        return AttackReport(
            attack="linkability",
            against=self.against,
            goal=f"join a person's {', '.join(left)} with their {', '.join(right)}",
            people=len(joined[0]),
            success=Share.among(joined[0], confidence=self.confidence),
            baseline=Share.known(1 / len(next(iter(people.values())))),
            control=Share.among(joined[1], confidence=self.confidence),
            confidence=self.confidence,
            facts={
                "released rows": len(spaces[0].of_row),
                "people of the control": len(joined[1]),
                "rows found by the left party, on average": _rows_found(spaces[0], near[0][0]),
                "rows found by the right party, on average": _rows_found(spaces[1], near[0][1]),
            },
            unread=doubts(released, people, controls),
            normalized=True,
        )


def read_tables(attack: Any, names: Sequence[str]) -> tuple[Table, Table, Table]:
    """The named columns of the release, of the people in its data and of the others."""
    return (
        columns(attack.released, names, where="released"),
        columns(attack.people, names, where="people"),
        columns(attack.controls, names, where="controls"),
    )


def doubts(released: Table, people: Table, controls: Table, *, exact: Sequence[str] = ()) -> tuple[str, ...]:
    """Why it may mean nothing that the attack fails: labels that were misread, controls who are the people themselves.

    >>> ages = {"age": np.array(["young", "old"], object)}
    >>> len(doubts(ages, {"age": np.array([24, 35])}, {"age": np.array([20, 30])}))
    1
    """
    join = Join(released, people, {name: Exact() for name in exact})
    return (*unread(join.uncovered(), "the people"), *no_control(people, controls))


def sample(table: Table, count: int, seed: int) -> Table:
    """At most so many rows, at random.

    >>> len(sample({"age": np.arange(100)}, 10, 1)["age"])
    10
    """
    size = len(next(iter(table.values())))
    most = integer(count, "targets", at_least=1)
    if size <= most:
        return table
    chosen = np.random.default_rng(seed).choice(size, most, replace=False)
    return {name: column[chosen] for name, column in table.items()}


def names_of(names: Sequence[str], what: str) -> tuple[str, ...]:
    """Names of columns, at least one.

    >>> names_of([], "left")
    Traceback (most recent call last):
    ...
    discreet.errors.InvalidParameter: left: got [], expected at least one column
    """
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise InvalidParameter(what, names, "a list of columns")
    if not names:
        raise InvalidParameter(what, list(names), "at least one column")
    return tuple(names)


@dataclass(frozen=True, slots=True)
class _Votes:
    """For each person (in order), which of the distinct values their nearest rows hold, and how often."""

    person: Codes
    value: Codes
    count: NDArray[np.int64]
    values: Column
    people: int

    @classmethod
    def of(cls, near: Near, space: Space, column: Column) -> "_Votes":
        present = np.flatnonzero(~missing(column))
        values, code = np.unique(column[present], return_inverse=True)
        # classes × values that occur, sorted by class
        pairs, counts = np.unique(space.of_row[present] * len(values) + code, return_counts=True)
        of_class, value = np.divmod(pairs, len(values))
        starts = np.searchsorted(of_class, np.arange(space.classes + 1))
        lengths = np.diff(starts)[near.classes]
        at = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths - starts[near.classes], lengths)
        person = np.repeat(near.person, lengths)
        keys, inverse = np.unique(person * len(values) + value[at], return_inverse=True)
        count = np.bincount(inverse, counts[at], len(keys)).astype(np.int64)
        return cls(*np.divmod(keys, len(values)), count, values, len(near.starts) - 1)

    def most(self) -> Column:
        """The most frequent value of each person's; among several the one that is most frequent overall."""
        overall = np.bincount(self.value, self.count, len(self.values))
        order = np.lexsort((self.value, overall[self.value], self.count, self.person))
        return self._pick(order[np.searchsorted(self.person[order], np.arange(self.people), "right") - 1])

    def median(self) -> Column:
        """The (lower) median of each person's."""
        before = np.cumsum(self.count) - self.count
        first = np.searchsorted(self.person, np.arange(self.people))
        total = np.bincount(self.person, self.count, self.people)
        base = np.append(before, self.count.sum())[first]
        half = base + np.maximum(np.ceil(total / 2), 1)
        return self._pick(np.minimum(np.searchsorted(before + self.count, half), len(self.value) - 1))

    def _pick(self, places: Codes) -> Column:
        guess = self.values[self.value[places]]
        lost = self.person[places] != np.arange(self.people)
        if not lost.any():
            return guess
        guess = guess.astype(np.float64) if kind(guess) == "number" else guess.astype(object)
        guess[lost] = np.nan if guess.dtype == np.float64 else None
        return guess


def _right(guess: Column, truth: Column, reach: float) -> Mask:
    if reach and kind(guess) == kind(truth) == "number":
        return np.asarray(np.abs(guess.astype(np.float64) - truth) <= reach)
    a, b = coded(guess, truth)
    return np.asarray((a == b) & (a >= 0))


def _right_by_chance(guesses: Column, truth: Column, reach: float) -> Floats:
    """For each person the share of all guesses, whomever they were made about, that are right about them."""
    if reach and kind(guesses) == kind(truth) == "number":
        values, at = np.sort(guesses.astype(np.float64)), truth.astype(np.float64)
        known = np.searchsorted(values, at + reach, "right") - np.searchsorted(values, at - reach, "left")
        return np.where(np.isnan(at), 0.0, known / len(values))
    first, second = coded(guesses, truth)
    return guess_shares(first, second)


def guess_shares(guesses: Codes, truth: Codes) -> Floats:
    """For each person the share of the guesses (numbered as the truth, −1: none) that name their secret.

    >>> guess_shares(np.array([0, 0, 1, 2]), np.array([0, 1, 3, -1])).tolist()
    [0.5, 0.25, 0.0, 0.0]
    """
    most = max(guesses.max(initial=0), truth.max(initial=0)) + 1
    shares = np.bincount(guesses[guesses >= 0], minlength=most) / max(1, len(guesses))
    return np.where(truth < 0, 0.0, shares[truth])


def _best_constant(column: Column, reach: float) -> Column:
    """The answer, the same for everybody, that is right most often here."""
    present = column[~missing(column)]
    if not len(present):
        raise InvalidData("controls: the secret is missing everywhere; the baseline needs it")
    values, counts = np.unique(present, return_counts=True)
    if reach and kind(column) == "number":
        at = np.sort(present.astype(np.float64))
        counts = np.searchsorted(at, values + reach, "right") - np.searchsorted(at, values - reach, "left")
    return values[[int(np.argmax(counts))]]


def _several(column: Column, name: str) -> None:
    if len(np.unique(column[~missing(column)])) < 2:
        raise InvalidData(f"released, column {name!r}: it holds fewer than two different values; nothing to infer")


def _telling(side: Table) -> None:
    if all(coded(column)[0].max(initial=0) < 1 for column in side.values()):
        names = ", ".join(repr(name) for name in side)
        raise InvalidData(f"released, columns {names}: each holds a single value, which distinguishes nobody")


def _joined(spaces: list[Space], near: list[Near]) -> Mask:
    """Whether a released row is in a class near the left part and in one near the right part of each person."""
    left, right = spaces[0].of_row, spaces[1].of_row
    pairs = np.unique(left * spaces[1].classes + right)
    result = np.zeros(len(near[0].starts) - 1, bool)
    for person in range(len(result)):
        a, b = (side.classes[side.starts[person] : side.starts[person + 1]] for side in near)
        result[person] = _meet(a, b, pairs, spaces[1].classes)
    return result


def _meet(a: Codes, b: Codes, pairs: Codes, width: int) -> bool:
    """Whether one of the pairs (sorted) joins a class of a with one of b."""
    few, swap = (a, False) if len(a) * len(b) < len(pairs) else (a, True)
    if not swap:
        wanted = (few[:, None] * width + b).ravel()
        place = np.minimum(np.searchsorted(pairs, wanted), len(pairs) - 1)
        return bool((pairs[place] == wanted).any())
    left, right = np.divmod(pairs, width)
    return bool((np.isin(left, a) & np.isin(right, b)).any())


def _rows_found(space: Space, near: Near) -> float:
    sizes = np.bincount(space.of_row, minlength=space.classes)
    return float(sizes[near.classes].sum() / (len(near.starts) - 1))
