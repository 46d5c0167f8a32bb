"""Public rules that every synthetic row obeys: A ≤ B, what never occurs, when … then …, and A decides B."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from discreet.curator.catalog import NUMERIC
from discreet.errors import InvalidParameter
from discreet.synthetic.columns.schema import Attribute, Drawn, Schema
from discreet.synthetic.columns.units import Codes, key
from discreet.synthetic.fit.row_sampling import possible
from discreet.synthetic.measure.noisy_marginals import Allowed, Measurement


@dataclass(frozen=True, slots=True)
class AtMost:
    """The value of one column is at most that of another, in every row where both are known."""

    first: str
    second: str

    @classmethod
    def read(cls, text: str) -> "AtMost":
        """From words.

        >>> AtMost.read("married <= died")
        AtMost(first='married', second='died')
        """
        first, sign, second = text.partition("<=") if isinstance(text, str) else ("", "", "")
        if not sign or not first.strip() or not second.strip() or "<=" in second:
            raise InvalidParameter("at_most", text, "two columns: 'first <= second'", "write a chain as several rules")
        return cls(first.strip(), second.strip())

    def __str__(self) -> str:
        return f"{self.first} <= {self.second}"

    def check(self, schema: Schema, found: Collection[str]) -> None:
        """Refuse what cannot be compared; `found` names columns whose values are not known yet."""
        places = self._places(schema)
        first, second = (schema.attributes[place] for place in places)
        if places[0] == places[1]:
            raise InvalidParameter("at_most", str(self), "two different columns")
        if not _comparable(first, second):
            expected = "two columns of numbers, of dates or of times, in the same steps"
            hint = "give both the same granularity in the policy" if first.ordered and second.ordered else ""
            raise InvalidParameter("at_most", str(self), expected, hint)

    def allowed(self, schema: Schema) -> Allowed:
        """Which pairs of codes may occur: those where some value of the one is at most some value of the other."""
        places = self._places(schema)
        first, second = (schema.attributes[place] for place in places)
        table = np.ones((first.size, second.size), np.bool_)
        table[: first.known, : second.known] = first.limits[0][:, None] <= second.limits[1][None, :]
        return Allowed(sorted(places), table if places[0] < places[1] else table.T, schema.sizes)

    def _places(self, schema: Schema) -> tuple[int, int]:
        return schema.place(self.first), schema.place(self.second)


@dataclass(frozen=True, slots=True)
class Never:
    """Values of several columns that never occur together.

    A value is one that was declared or that stands alone in its bin, or the label of a bin ("18 to 24", "missing").
    """

    values: tuple[tuple[str, Any], ...]

    @classmethod
    def read(cls, text: str) -> "Never":
        """From words.

        >>> Never.read("sex=M, pregnant=yes").values
        (('sex', 'M'), ('pregnant', 'yes'))
        """
        pairs = [part.partition("=") for part in text.split(",")]
        if len(pairs) < 2 or any(not sign or not name.strip() for name, sign, _ in pairs):
            raise InvalidParameter("never", text, "values of two columns or more: 'sex=M, pregnant=yes'")
        return cls(tuple((name.strip(), value.strip()) for name, _, value in pairs))

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "Never":
        """From a mapping of columns to values."""
        if not isinstance(values, Mapping) or len(values) < 2:
            raise InvalidParameter("never", values, "values of two columns or more: {'sex': 'M', 'pregnant': True}")
        return cls(tuple(values.items()))

    def __str__(self) -> str:
        return "never " + ", ".join(f"{name}={value}" for name, value in self.values)

    def check(self, schema: Schema, found: Collection[str]) -> None:
        """Refuse values that no code stands for; those of columns in `found` are not known yet."""
        named = [schema.place(name) for name, _ in self.values]
        if len(set(named)) < max(2, len(named)):
            raise InvalidParameter("never", dict(self.values), "values of two columns or more, one of each")
        for place, (name, value) in zip(named, self.values, strict=True):
            attribute = schema.attributes[place]
            if attribute.column.name not in found and _code(attribute, value) is None:
                raise _unknown("never", attribute, name, value)

    def allowed(self, schema: Schema) -> Allowed | None:
        """All combinations of codes but this one; None where a value was not found privately, and so never occurs."""
        codes: dict[int, int] = {}
        for name, value in self.values:
            code = _code(schema.attributes[schema.place(name)], value)
            if code is None:
                return None
            codes[schema.place(name)] = code
        named = sorted(codes)
        table = np.ones([schema.sizes[place] for place in named], np.bool_)
        table[tuple(codes[place] for place in named)] = False
        return Allowed(named, table, schema.sizes)


@dataclass(frozen=True, slots=True)
class When:
    """Where some columns have certain values, another has one of certain values.

    Values are written as those of `Never` are; x|y means x or y.
    """

    given: tuple[tuple[str, tuple[str, ...]], ...]
    then: tuple[str, tuple[str, ...]]

    @classmethod
    def read(cls, text: str) -> "When":
        """From words.

        >>> When.read("when age=0|1, sex=m then married=no")
        When(given=(('age', ('0', '1')), ('sex', ('m',))), then=('married', ('no',)))
        """
        given, sign, then = text.strip().removeprefix("when ").partition(" then ")
        pairs = [part.partition("=") for part in (*given.split(","), then)]
        if not sign or any(not equal or not name.strip() or not value.strip() for name, equal, value in pairs):
            raise InvalidParameter("rules", text, "'when age=0|1, sex=m then married=no'")
        *first, last = [(name.strip(), tuple(each.strip() for each in value.split("|"))) for name, _, value in pairs]
        return cls(tuple(first), last)

    def __str__(self) -> str:
        *given, then = (f"{name}={'|'.join(values)}" for name, values in (*self.given, self.then))
        return f"when {', '.join(given)} then {then}"

    def check(self, schema: Schema, found: Collection[str]) -> None:
        """Refuse values that no code stands for; those of columns in `found` are not known yet."""
        named = [schema.place(name) for name, _ in (*self.given, self.then)]
        if len(set(named)) < len(named):
            raise InvalidParameter("rules", str(self), "each column once in a rule")
        for place, (name, values) in zip(named, (*self.given, self.then), strict=True):
            attribute = schema.attributes[place]
            for value in values if attribute.column.name not in found else ():
                if _code(attribute, value) is None:
                    raise _unknown("rules", attribute, name, value)

    def allowed(self, schema: Schema) -> Allowed | None:
        """All combinations but those of the given values with another value; None where none was found privately."""
        columns = (*self.given, self.then)
        places = [schema.place(name) for name, _ in columns]
        masks = []
        for place, (_, values) in zip(places, columns, strict=True):
            codes = [code for value in values if (code := _code(schema.attributes[place], value)) is not None]
            masks.append(np.isin(np.arange(schema.sizes[place]), codes))
        if not all(mask.any() for mask in masks):
            return None
        masks[-1] = ~masks[-1]
        order = np.argsort(places)
        table = masks[order[0]]
        for place in order[1:]:
            table = np.logical_and.outer(table, masks[place])
        return Allowed(sorted(places), ~table, schema.sizes)


@dataclass(frozen=True, slots=True)
class Decides:
    """Rows with the same value of one column have the same value of another. Which one is read off noisy counts."""

    first: str
    second: str

    @classmethod
    def read(cls, text: str) -> "Decides":
        """From words.

        >>> Decides.read("county decides state")
        Decides(first='county', second='state')
        """
        first, sign, second = text.partition(" decides ")
        if not sign or not first.strip() or not second.strip():
            raise InvalidParameter("rules", text, "two columns: 'county decides state'")
        return cls(first.strip(), second.strip())

    def __str__(self) -> str:
        return f"{self.first} decides {self.second}"

    def check(self, schema: Schema, found: Collection[str]) -> None:
        """Refuse one column twice."""
        if schema.place(self.first) == schema.place(self.second):
            raise InvalidParameter("rules", str(self), "two different columns")

    def allowed(self, schema: Schema) -> None:
        """Nothing is known before the noisy counts are: `decided`."""

    def decided(self, schema: Schema, measurements: Sequence[Measurement], known: Sequence[Allowed]) -> Allowed | None:
        """For each value of the first column the likeliest of the second, among those that other rules allow.

        Where the first is missing, anything may be. None where the two were not measured together.
        """
        places = schema.place(self.first), schema.place(self.second)
        pair = tuple(sorted(places))
        measured = [each for each in measurements if each.attributes == pair]
        if not measured:
            return None
        counts: Any = sum(each.counts * each.sigma**-2 for each in measured)
        for each in known:
            if each.attributes == pair:
                counts = np.where(each.table, counts, -np.inf)
        table = counts if places[0] == pair[0] else counts.T
        chosen = table.argmax(axis=1)[:, None] == np.arange(table.shape[1])
        chosen[schema.attributes[places[0]].known :] = True
        return Allowed(pair, chosen if places[0] == pair[0] else chosen.T, schema.sizes)


Rule = AtMost | Never | When | Decides

_FEW = 2.0  # noise deviations: a bin far out, where few rows are expected, counts as empty with fewer
_SHOWN = 12  # rules in an explanation
_MOVED = 0.05  # of a column's spread: a bin is far out where noise moves the mean by more


def named_in(rules: Sequence[Rule]) -> set[str]:
    """The columns of which rules name single values or bins: these must be known when the rules are written.

    >>> sorted(named_in(read_rules(["a <= b"], ["c=1, d=2"], ["when e=1 then f=2"])))
    ['c', 'd', 'e', 'f']
    """
    never = {name for rule in rules if isinstance(rule, Never) for name, _ in rule.values}
    return never | {name for rule in rules if isinstance(rule, When) for name, _ in (*rule.given, rule.then)}


def read_rules(
    at_most: Sequence[str], never: Sequence[str | Mapping[str, Any]], rules: Sequence[str] = ()
) -> tuple[Rule, ...]:
    """Rules from what a user says; a ≤ b and b ≤ c mean that a ≤ c, whether b is known or not.

    `rules` has one of four sentences each: "a <= b", "never a=x, b=y", "when a=x then b=y|z", "a decides b".

    >>> [f"{one.first} <= {one.second}" for one in read_rules(["a <= b"], [], ["b <= c"])]
    ['a <= b', 'b <= c', 'a <= c']
    >>> read_rules([], [{"sex": "M", "pregnant": True}])[0].values
    (('sex', 'M'), ('pregnant', True))
    """
    for name, given in (("at_most", at_most), ("never", never), ("rules", rules)):
        if isinstance(given, str | Mapping):
            raise InvalidParameter(name, given, "a list of rules")
    said = [_read_rule(text) for text in rules]
    order = [AtMost.read(each) for each in at_most] + [each for each in said if isinstance(each, AtMost)]
    impossible = (Never.read(rule) if isinstance(rule, str) else Never.of(rule) for rule in never)
    return (*_closed(order), *impossible, *(each for each in said if not isinstance(each, AtMost)))


def rules_in_words(rules: Sequence[Rule]) -> str:
    """The rules that people wrote, as `read_rules` takes them; of many, the first.

    >>> rules_in_words(read_rules(["a <= b"], ["c=1, d=2"], ["when e=1|2 then f=3", "g decides h"]))
    'a <= b; never c=1, d=2; when e=1|2 then f=3; g decides h'
    """
    told = "; ".join(map(str, rules[:_SHOWN]))
    return f"{told}; and {len(rules) - _SHOWN:,} more" if len(rules) > _SHOWN else told


def rules_in(text: str) -> list[str]:
    """The rules of a file: one a line; empty lines, and those that begin with #, say nothing.

    >>> rules_in("# geography\\ncounty decides state\\n\\nnever sex=M, pregnant=yes\\n")
    ['county decides state', 'never sex=M, pregnant=yes']
    """
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def _read_rule(text: str) -> Rule:
    if isinstance(text, str):
        if text.strip().startswith("never "):
            return Never.read(text.strip().removeprefix("never "))
        for sign, kind in ((" then ", When), (" decides ", Decides), ("<=", AtMost)):
            if sign in text:
                return kind.read(text)
    expected = "'a <= b', 'never a=x, b=y', 'when a=x then b=y|z' or 'a decides b'"
    raise InvalidParameter("rules", text, expected)


def allowed(
    rules: Sequence[Rule], schema: Schema, measurements: Sequence[Measurement] = (), *, given: int = 0
) -> list[Allowed]:
    """The rules as tables of what may occur, one for each set of columns; what decides what follows from noisy counts.

    What was read off noisy counts is left out where no row could obey it with all other rules. The first `given`
    columns are drawn already: what is empty among them was decided then.
    """
    known = _together([table for rule in rules if (table := rule.allowed(schema)) is not None], schema)
    for rule in rules:
        table = rule.decided(schema, measurements, known) if isinstance(rule, Decides) else None
        if table is not None:
            more = _together([*known, table], schema)
            known = more if possible(more, schema.sizes) else known
    more = _together([*known, *_empty(schema, measurements, given)], schema)
    return more if possible(more, schema.sizes) else known


def _empty(schema: Schema, measurements: Sequence[Measurement], given: int) -> list[Allowed]:
    """Bins far out in which fine counts see few rows, and whose own noisy count is no more than noise explains: none.

    What noise is above zero would be rows, and in a wide bin far out a few of them move a mean more than all others.
    """
    results = []
    for place, attribute in enumerate(schema.attributes):
        measured = [each for each in measurements if each.attributes == (place,)]
        if place < given or not attribute.thin or not measured:
            continue
        weight = sum(each.sigma**-2 for each in measured)
        counts: Any = sum(each.counts * each.sigma**-2 for each in measured) / weight
        far = _far(attribute, np.maximum(counts[: attribute.known], 0.0), weight**-0.5)
        few = np.isin(np.arange(attribute.size), far) & (counts < _FEW * weight**-0.5)
        if few.any():
            results.append(Allowed((place,), ~few, schema.sizes))
    return results


def _far(attribute: Attribute, counts: Any, sigma: float) -> Any:
    """Thin bins so far from the others that noise of one deviation there moves the mean by a part of the spread."""
    thin = np.array(attribute.thin, np.int64)
    centers = np.array([float(low + high) / 2 for low, high in pairwise(attribute.edges or ())])
    rest = counts.copy()
    rest[thin] = 0.0
    rows = max(float(rest.sum()), 1.0)
    median = centers[np.searchsorted(np.cumsum(rest), rows / 2).clip(0, len(centers) - 1)]
    spread = float(rest @ np.abs(centers - median)) / rows
    return thin[sigma * np.abs(centers[thin] - median) > _MOVED * rows * spread]


def _together(tables: Sequence[Allowed], schema: Schema) -> list[Allowed]:
    """One table for each set of columns."""
    results: dict[tuple[int, ...], Any] = {}
    for each in tables:
        before = results.get(each.attributes)
        results[each.attributes] = each.table if before is None else before & each.table
    empty = [attributes for attributes, table in results.items() if not table.any()]
    if empty:
        names = " and ".join(schema.names[place] for place in empty[0])
        raise InvalidParameter("rules", f"those about {names}", "rules that a row can obey together")
    return [Allowed(attributes, table, schema.sizes) for attributes, table in results.items()]


def enforce_order(rules: Sequence[Rule], schema: Schema, codes: Codes, drawn: Sequence[Drawn]) -> list[Drawn]:
    """Numbers that were drawn from overlapping bins the wrong way round, moved inside their bins.

    Proof. Let p(x) be the least value of x's bin in a row, q(x) the largest, and let x ≤ y be all pairs that rules tie
    (with those that follow: the relation is transitive), of columns that are known in the row. First x rises to at
    least L(x) = the largest p(w) of w ≤ x or w = x: it stays in its bin, as p(w) ≤ q(x) in every row that is allowed.
    Then x falls to m(x) = the least risen value of any y ≥ x or y = x. All of these are at least L(y) ≥ L(x) ≥ p(x), so
    x stays in its bin; and if x ≤ y, m(x) is a least value over more columns than m(y), so m(x) ≤ m(y).
    """
    pairs = [(schema.place(rule.first), schema.place(rule.second)) for rule in rules if isinstance(rule, AtMost)]
    known = {place: codes[:, place] < schema.attributes[place].known for pair in pairs for place in pair}
    risen = list(drawn)
    for low, high in pairs:
        attribute = schema.attributes[low]
        least = attribute.limits[0][np.minimum(codes[:, low], attribute.known - 1)]
        risen[high] = np.where(known[low], np.maximum(risen[high], least), risen[high])
    results = list(risen)
    for low, high in pairs:
        results[low] = np.where(known[high], np.minimum(results[low], risen[high]), results[low])
    return results


def _closed(rules: Sequence[AtMost]) -> tuple[AtMost, ...]:
    """The rules and all that follow from them, in any case of the names."""
    results = {(rule.first.casefold(), rule.second.casefold()): rule for rule in rules}
    while True:
        more = {
            (a, d): AtMost(results[a, b].first, results[c, d].second)
            for a, b in results
            for c, d in results
            if b == c and a != d and (a, d) not in results
        }
        if not more:
            return tuple(results.values())
        results |= more


def _comparable(first: Attribute, second: Attribute) -> bool:
    kinds = {first.column.kind, second.column.kind}
    return first.ordered and second.ordered and first.step == second.step and (len(kinds) == 1 or kinds <= NUMERIC)


def _unknown(what: str, attribute: Attribute, name: str, value: Any) -> InvalidParameter:
    some = ", ".join(attribute.labels[:8]) + (", …" if attribute.size > 8 else "")
    alone = "to name a single value, state bins in which it is alone: from it to the next (0,1,1000,…)"
    return InvalidParameter(
        what, f"{name}={value}", f"a value or bin of {name}: {some}", alone if attribute.wide else ""
    )


def _code(attribute: Attribute, value: Any) -> int | None:
    """The code of a declared value, or the one with this label: a bin, a value alone in its bin, or "missing"."""
    if attribute.values is not None:
        keys = [key(value, attribute.column.kind) for value in attribute.values]
        if value is not None and key(value, attribute.column.kind) in keys:
            return keys.index(key(value, attribute.column.kind))
    word = str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
    return attribute.labels.index(word) if word in attribute.labels else None
