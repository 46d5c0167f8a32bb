"""Public rules that every synthetic row obeys: A ≤ B, and combinations that never occur."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.errors import InvalidParameter
from discreet.synthetic.constraints import Allowed, at_most
from discreet.synthetic.schema import Attribute, Schema


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
        first, sign, second = text.partition("<=")
        if not sign or not first.strip() or not second.strip():
            raise InvalidParameter("at_most", text, "two columns: 'first <= second'")
        return cls(first.strip(), second.strip())

    def allowed(self, schema: Schema) -> Allowed:
        """Which pairs of codes may occur: those where some value of the one is at most some value of the other."""
        places = schema.place(self.first), schema.place(self.second)
        first, second = (_ordered(schema.attributes[place]) for place in places)
        low = [*first[0], *([-np.inf] * schema.attributes[places[0]].missing)]
        high = [*second[1], *([np.inf] * schema.attributes[places[1]].missing)]
        return at_most(*places, schema.sizes, lower=low, upper=high)

    def mended(self, table: Any, schema: Schema) -> Any:
        """Rows whose values were drawn from overlapping bins the wrong way round: moved inside their bins.

        Proof. With a in [p, …] and b in […, q] of allowed bins, p ≤ q: b' = max(b, p) and a' = min(a, b') stay in their
        bins, and a' ≤ b'.
        """
        from pyarrow import compute

        first, second = (schema.names[schema.place(name)] for name in (self.first, self.second))
        attribute = schema.attributes[schema.place(first)]
        if attribute.edges is None:
            return table  # every code is one value
        a, b = table.column(first), table.column(second)
        wrong = compute.fill_null(compute.greater(a, b), False)
        least = attribute.least(attribute.encode(a))
        raised = compute.if_else(wrong, compute.max_element_wise(b, least), b)
        lowered = compute.if_else(wrong, compute.min_element_wise(a, raised), a)
        places = [table.schema.get_field_index(name) for name in (first, second)]
        return table.set_column(places[0], first, lowered).set_column(places[1], second, raised)


@dataclass(frozen=True, slots=True)
class Never:
    """Values of several columns that never occur together."""

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
        return cls(tuple(values.items()))

    def allowed(self, schema: Schema) -> Allowed:
        """All combinations of codes but this one."""
        import pyarrow

        codes = {}
        for name, value in self.values:
            attribute = schema.attributes[schema.place(name)]
            code = int(attribute.encode(pyarrow.array([value]))[0])
            if not 0 <= code < attribute.known:
                raise InvalidParameter("never", f"{name} = {value}", f"a value of {name} that is declared")
            codes[schema.place(name)] = code
        named = sorted(codes)
        if len(named) < 2:
            raise InvalidParameter("never", self.values, "values of two columns or more")
        table = np.ones([schema.sizes[place] for place in named], np.bool_)
        table[tuple(codes[place] for place in named)] = False
        return Allowed(named, table, schema.sizes)

    def mended(self, table: Any, schema: Schema) -> Any:
        """Codes decide: nothing to do."""
        return table


Rule = AtMost | Never


def read_rules(at_most: Sequence[str], never: Sequence[str | Mapping[str, Any]]) -> tuple[Rule, ...]:
    """Rules from what a user says.

    >>> read_rules(["a <= b"], [{"sex": "M", "pregnant": True}])[1].values
    (('sex', 'M'), ('pregnant', True))
    """
    impossible = (Never.read(one) if isinstance(one, str) else Never.of(one) for one in never)
    return (*(AtMost.read(one) for one in at_most), *impossible)


def _ordered(attribute: Attribute) -> tuple[list[float], list[float]]:
    """The least and the greatest value of each code."""
    if attribute.edges is not None:
        edges = [float(edge) for edge in attribute.edges]
        return edges[:-1], [edge - float(attribute.step) for edge in edges[1:]]
    values = attribute.values or ()
    if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        raise InvalidParameter("at_most", attribute.column.name, "columns of numbers, dates or times")
    return [float(value) for value in values], [float(value) for value in values]
