"""Public rules that every synthetic row obeys: A ≤ B, and combinations that never occur."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.curator.catalog import NUMERIC
from discreet.errors import InvalidParameter
from discreet.synthetic.constraints import Allowed
from discreet.synthetic.reading import Codes, key
from discreet.synthetic.schema import Attribute, Drawn, Schema


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

    def check(self, schema: Schema, found: Collection[str]) -> None:
        """Refuse what cannot be compared; `found` names columns whose values are not known yet."""
        places = self._places(schema)
        first, second = (schema.attributes[place] for place in places)
        if places[0] == places[1]:
            raise InvalidParameter("at_most", f"{self.first} <= {self.second}", "two different columns")
        if not _comparable(first, second):
            expected = "two columns of numbers, of dates or of times, in the same steps"
            hint = "give both the same granularity in the policy" if first.ordered and second.ordered else ""
            raise InvalidParameter("at_most", f"{self.first} <= {self.second}", expected, hint)

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

    def check(self, schema: Schema, found: Collection[str]) -> None:
        """Refuse values that no code stands for; those of columns in `found` are not known yet."""
        named = [schema.place(name) for name, _ in self.values]
        if len(set(named)) < max(2, len(named)):
            raise InvalidParameter("never", dict(self.values), "values of two columns or more, one of each")
        for place, (name, value) in zip(named, self.values, strict=True):
            attribute = schema.attributes[place]
            if attribute.column.name not in found and _code(attribute, value) is None:
                some = ", ".join(attribute.labels[:8]) + (", …" if attribute.size > 8 else "")
                raise InvalidParameter("never", f"{name}={value}", f"a value or bin of {name}: {some}")

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


Rule = AtMost | Never


def read_rules(at_most: Sequence[str], never: Sequence[str | Mapping[str, Any]]) -> tuple[Rule, ...]:
    """Rules from what a user says; a ≤ b and b ≤ c mean that a ≤ c, whether b is known or not.

    >>> [f"{one.first} <= {one.second}" for one in read_rules(["a <= b", "b <= c"], [])]
    ['a <= b', 'b <= c', 'a <= c']
    >>> read_rules([], [{"sex": "M", "pregnant": True}])[0].values
    (('sex', 'M'), ('pregnant', True))
    """
    for name, given in (("at_most", at_most), ("never", never)):
        if isinstance(given, str | Mapping):
            raise InvalidParameter(name, given, "a list of rules")
    impossible = (Never.read(one) if isinstance(one, str) else Never.of(one) for one in never)
    return (*_closed([AtMost.read(one) for one in at_most]), *impossible)


def allowed(rules: Sequence[Rule], schema: Schema) -> list[Allowed]:
    """The rules as tables of what may occur."""
    return [table for rule in rules if (table := rule.allowed(schema)) is not None]


def mended(rules: Sequence[Rule], schema: Schema, codes: Codes, drawn: Sequence[Drawn]) -> list[Drawn]:
    """Numbers that were drawn from overlapping bins the wrong way round, moved inside their bins.

    Proof. Let p(x) be the least value of x's bin in a row, q(x) the largest, and let x ≤ y be all pairs that rules tie
    (with those that follow: the relation is transitive), of columns that are known in the row. First x rises to at
    least L(x) = the largest p(w) of w ≤ x or w = x: it stays in its bin, as p(w) ≤ q(x) in every row that is allowed.
    Then x falls to m(x) = the least risen value of any y ≥ x or y = x. All of these are at least L(y) ≥ L(x) ≥ p(x), so
    x stays in its bin; and if x ≤ y, m(x) is a least value over more columns than m(y), so m(x) ≤ m(y).
    """
    pairs = [(schema.place(one.first), schema.place(one.second)) for one in rules if isinstance(one, AtMost)]
    known = {place: codes[:, place] < schema.attributes[place].known for pair in pairs for place in pair}
    risen = list(drawn)
    for low, high in pairs:
        attribute = schema.attributes[low]
        least = attribute.limits[0][np.minimum(codes[:, low], attribute.known - 1)]
        risen[high] = np.where(known[low], np.maximum(risen[high], least), risen[high])
    found = list(risen)
    for low, high in pairs:
        found[low] = np.where(known[high], np.minimum(found[low], risen[high]), found[low])
    return found


def _closed(rules: Sequence[AtMost]) -> tuple[AtMost, ...]:
    """The rules and all that follow from them, in any case of the names."""
    found = {(one.first.casefold(), one.second.casefold()): one for one in rules}
    while True:
        more = {
            (a, d): AtMost(found[a, b].first, found[c, d].second)
            for a, b in found
            for c, d in found
            if b == c and a != d and (a, d) not in found
        }
        if not more:
            return tuple(found.values())
        found |= more


def _comparable(first: Attribute, second: Attribute) -> bool:
    kinds = {first.column.kind, second.column.kind}
    return first.ordered and second.ordered and first.step == second.step and (len(kinds) == 1 or kinds <= NUMERIC)


def _code(attribute: Attribute, value: Any) -> int | None:
    """The code of a declared value, or the one with this label: a bin, a value alone in its bin, or "missing"."""
    if attribute.values is not None:
        keys = [key(one, attribute.column.kind) for one in attribute.values]
        if value is not None and key(value, attribute.column.kind) in keys:
            return keys.index(key(value, attribute.column.kind))
    word = str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
    return attribute.labels.index(word) if word in attribute.labels else None
