"""From declared columns to codes and back: what a synthesizer sees, fixed by the catalog and by public bins alone.

A declared value has its own code. A number has one for each step of its grid, if there are few, else one for each of
equally wide bins, or of the bins that were given; a date or a time has one for each of the bins given. Numbers outside
of all bins count in the nearest. A missing value, or one that was not declared, has a code of its own where the column
may be null; else its row is left out. The inverse draws a value inside its bin, on the column's own grid, so that
encoding it again gives the same code. Nothing is learned from the data here.

>>> from discreet.curator.catalog import Column
>>> from discreet.synthetic.columns.schema import Attribute, Schema
>>> columns = [Column("age", "integer", lower=0, upper=99), Column("sex", "text", values=["F", "M"], nullable=False)]
>>> schema = Schema([Attribute.of(columns[0], bins=10), Attribute.of(columns[1])])
>>> schema.sizes, schema.encode({"age": [35, None], "sex": ["M", "F"]})[0].tolist()
((11, 2), [[3, 1], [10, 0]])
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.curator.catalog import Column, ColumnType
from discreet.errors import InvalidParameter
from discreet.noise import Entropy, uniform_each
from discreet.synthetic.columns.units import MOST_CODES, Bins, Codes, edges_of, named, numbers, places, said, written
from discreet.synthetic.measure.fine_counts import Cells, Density, quantile_starts
from discreet.tables import column, read_table

Drawn = NDArray[Any]
"""Of one column, a number for each row: steps of its grid, or numbers where it has none; the code of a name."""

_PARTS = 1 << 20  # of a bin without a grid


@dataclass(frozen=True, slots=True)
class Attribute:
    """One column as codes 0 … size − 1."""

    column: Column
    values: tuple[Any, ...] | None  # declared, each with a code
    edges: tuple[Fraction, ...] | None  # of bins: a value v with edges[i] ≤ v < edges[i+1] has code i
    step: Fraction | None  # the grid on which the inverse draws; None: any number
    density: Density | None = field(default=None, compare=False, repr=False)  # where inside its bins values lie
    thin: tuple[int, ...] = field(default=(), compare=False, repr=False)  # codes of bins where fine counts see few rows

    @classmethod
    def of(cls, column: Column, *, bins: Bins | None = None, values: Sequence[Any] | None = None) -> "Attribute":
        """As the catalog declares it; `bins` and `values` are public, and stated here instead.

        >>> from discreet.curator.catalog import Column
        >>> Attribute.of(Column("born", "date"), bins=["1900-01-01", "1950-01-01", "2000-01-01"]).size
        3
        """
        declared = column.values if values is None else Column(column.name, column.kind, values=values).values
        if declared is None and column.kind is ColumnType.BOOLEAN:
            declared = (False, True)
        if bins is not None and (declared is not None or column.kind is ColumnType.TEXT):
            expected = "bins for columns of numbers, dates or times without declared values"
            raise InvalidParameter("bins", column.name, expected)
        if declared is not None:
            return cls(column, _few(declared, column), None, _step(column))
        if column.kind is ColumnType.TEXT:
            hint = "declare values in the policy, give them here, find them privately (discover), or leave it out"
            raise InvalidParameter("columns", column.name, "a column with declared values", hint)
        return cls(column, None, *edges_of(column, bins))

    @classmethod
    def found(cls, column: Column, values: Sequence[str]) -> "Attribute":
        """A column of text with values that were found privately, or none; all others count as missing.

        >>> from discreet.curator.catalog import Column
        >>> Attribute.found(Column("town", "text"), []).labels
        ('missing',)
        """
        return cls(Column(column.name, column.kind), tuple(values), None, None)

    @property
    def missing(self) -> bool:
        """Whether a missing value has a code: the last one."""
        return self.column.nullable

    @property
    def known(self) -> int:
        """How many codes stand for values."""
        return len(self.values) if self.values is not None else len(self.edges or ()) - 1

    @property
    def size(self) -> int:
        """How many codes there are."""
        return self.known + self.missing

    @property
    def ordered(self) -> bool:
        """Whether its codes stand for numbers, dates or times that can be compared: bins, or declared numbers."""
        return self.values is None or self.column.kind is ColumnType.INTEGER

    @property
    def wide(self) -> bool:
        """Whether a code stands for several values: inside such a bin they are drawn evenly.

        >>> from discreet.curator.catalog import Column
        >>> [Attribute.of(Column("n", "integer", lower=0, upper=most)).wide for most in (39, 40)]
        [False, True]
        """
        edges = self.edges or ()
        return any(self.step is None or high - low > self.step for low, high in pairwise(edges))

    @property
    def labels(self) -> tuple[str, ...]:
        """Each code in words."""
        if self.values is not None:
            told = [str(value) for value in self.values]
        else:
            pairs = zip(self.edges or (), (self.edges or ())[1:], strict=False)
            told = [said(low, high, self.step, self.column.kind) for low, high in pairs]
        return (*told, "missing") if self.missing else tuple(told)

    def encode(self, values: Any) -> Codes:
        """The code of each value; −1 for what has none. No value makes this fail."""
        other = self.known if self.missing else -1
        kind = self.column.kind
        if self.values is not None:
            return places(values, self.values, kind, other)
        units, known = numbers(values, kind, self.column.name)
        starts = self._starts()
        codes = np.searchsorted(starts, self._snapped(units, known, starts), side="right") - 1
        return np.where(known, np.clip(codes, 0, self.known - 1), other).astype(np.int64)

    def _snapped(self, units: Drawn, known: NDArray[np.bool_], starts: Drawn) -> Drawn:
        """Values as steps of the grid, in the range of the bins."""
        if self.step is not None and units.dtype.kind == "f":
            with np.errstate(over="ignore"):
                units = np.rint(np.where(known, units, 0) * self.step.denominator / self.step.numerator)
        return np.clip(np.where(known, units, starts[0]), starts[0], starts[-1]).astype(starts.dtype)

    def draw(self, codes: Codes, entropy: Entropy) -> Drawn:
        """A number for each code, drawn from its bin; 0 or any other where a value is missing."""
        kept = np.minimum(codes, max(self.known - 1, 0))
        if self.values is not None:
            return np.array(self.values, np.int64)[kept] if self.ordered else codes
        start, wide = self._stretches(kept, entropy)
        if self.step is not None:
            return np.asarray(start + uniform_each(wide, entropy=entropy))
        share = uniform_each(np.full(len(kept), _PARTS, np.int64), entropy=entropy) / _PARTS
        low, high = self.limits
        return np.clip(start + wide * share, low[kept], high[kept])

    def _stretches(self, codes: Codes, entropy: Entropy) -> tuple[Drawn, Drawn]:
        """Where each value is drawn evenly: in its whole bin, or in a part of it that is drawn by the density."""
        starts = self._starts()
        if self.density is None:
            return starts[codes], np.diff(starts)[codes]
        edges = self._position(starts)
        fine = np.union1d(edges, self.density.starts)
        below = self.density.below(fine)
        first, last = np.searchsorted(fine, edges[:-1])[codes], np.searchsorted(fine, edges[1:])[codes]
        share = (entropy.words(len(codes)) >> np.uint64(11)) * 2.0**-53
        wanted = below[first] + share * (below[last] - below[first])
        part = np.clip(np.searchsorted(below, wanted, side="right") - 1, first, last - 1)
        ends = starts[0] + fine if self.step is not None else starts[0] + (starts[-1] - starts[0]) * (fine / _PARTS)
        empty = below[last] <= below[first]  # then anywhere in the bin
        until = np.where(empty, ends[last], ends[part + 1])
        start = np.where(empty, ends[first], ends[part])
        return start, until - start

    @property
    def cells(self) -> Cells | None:
        """The cells in which its values are counted finely; None where each code stands for one value."""
        if not self.wide or (self.edges or (0,))[0] >= (self.edges or (0,))[-1]:
            return None
        starts = self._starts()
        return Cells.over(_PARTS if self.step is None else int(starts[-1] - starts[0]))

    def positions(self, values: Any) -> Codes:
        """Where each known value lies among the points of `cells`. No value makes this fail."""
        units, known = numbers(values, self.column.kind, self.column.name)
        starts = self._starts()
        return self._position(self._snapped(units, known, starts)[known], inside=True)

    def _position(self, units: Drawn, *, inside: bool = False) -> Codes:
        starts = self._starts()
        if self.step is not None:
            result, points = units - starts[0], int(starts[-1] - starts[0])
        else:
            result, points = np.rint((units - starts[0]) / (starts[-1] - starts[0]) * _PARTS), _PARTS
        return np.asarray(np.clip(result, 0, points - inside), np.int64)

    def refined(self, density: Density, *, bins: bool) -> "Attribute":
        """The same column, its values drawn by a density; with `bins`, in bins that hold about equally many rows."""
        if not bins:
            return replace(self, density=density)
        low, high = (self.edges or (Fraction(0),))[0], (self.edges or (Fraction(0),))[-1]
        unit = (high - low) / _PARTS if self.step is None else self.step
        starts = quantile_starts(density, self.known)
        rows = np.diff(density.below(starts))
        thin = tuple(np.flatnonzero(rows < rows.sum() / (2 * self.known)).tolist())
        return replace(self, edges=tuple(low + unit * start for start in starts), density=density, thin=thin)

    def write(self, drawn: Drawn, codes: Codes) -> Any:
        """What was drawn as an Arrow array of the column's type; null where the code says missing."""
        kind = self.column.kind
        if self.values is not None and not self.ordered:
            return named(self.values, codes, kind)
        if self.step is not None and kind is ColumnType.REAL:
            drawn = drawn.astype(np.float64) * self.step.numerator / self.step.denominator
        return written(drawn, codes >= self.known, kind)

    @property
    def limits(self) -> tuple[Drawn, Drawn]:
        """The least and the largest number that can be drawn for each code that stands for a value."""
        if self.values is not None:
            declared = np.array(self.values, np.int64)
            return declared, declared
        starts = self._starts()
        if self.step is not None:
            return starts[:-1], starts[1:] - 1
        return starts[:-1], np.maximum(starts[:-1], np.nextafter(starts[1:], -np.inf))

    def _starts(self) -> Drawn:
        """The edges in steps of the grid, or as floats where there is none."""
        if self.step is None:
            return np.array([float(edge) for edge in self.edges or ()])
        return np.array([int(edge / self.step) for edge in self.edges or ()], np.int64)


@dataclass(frozen=True, slots=True)
class Schema:
    """The columns that are synthesized, in order."""

    attributes: tuple[Attribute, ...]

    def __init__(self, attributes: Sequence[Attribute]) -> None:
        if not attributes:
            raise InvalidParameter("columns", "none", "at least one column")
        object.__setattr__(self, "attributes", tuple(attributes))
        folded = [name.casefold() for name in self.names]
        twice = [name for name in self.names if folded.count(name.casefold()) > 1]
        if twice:
            raise InvalidParameter("columns", twice, "each column once")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(attribute.column.name for attribute in self.attributes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many codes each column has."""
        return tuple(attribute.size for attribute in self.attributes)

    def place(self, name: str) -> int:
        """Which column has this name, in any case."""
        for place, known in enumerate(self.names):
            if isinstance(name, str) and known.casefold() == name.casefold():
                return place
        raise InvalidParameter("column", name, f"one of the synthetic columns: {', '.join(self.names)}")

    def encode(self, table: Any) -> tuple[Codes, NDArray[np.bool_]]:
        """The codes of the rows in which every column has one, and which rows those are.

        Guarantee: no value of a row makes this fail, and each row's codes depend on that row alone.
        """
        codes = self.codes_of(table)
        kept = np.asarray((codes >= 0).all(axis=1))
        return codes[kept], kept

    def codes_of(self, table: Any) -> Codes:
        """The codes of all rows; −1 where a value has none.

        Guarantee: no value of a row makes this fail, and each row's codes depend on that row alone.
        """
        arrow = read_table(table)
        codes = np.column_stack(
            [attribute.encode(column(arrow, attribute.column.name)) for attribute in self.attributes]
        )
        return codes.astype(np.int64)

    @property
    def strict(self) -> tuple[str, ...]:
        """The columns whose missing or undeclared values have no code: their rows are left out."""
        return tuple(attribute.column.name for attribute in self.attributes if not attribute.missing)

    def reasons(self, codes: Codes) -> Codes:
        """For each row that has no code somewhere, the first of the `strict` columns where that is so.

        >>> from discreet.curator.catalog import Column
        >>> schema = Schema([Attribute.of(Column(name, "boolean", nullable=name == "a")) for name in "abc"])
        >>> schema.strict, schema.reasons(np.array([[0, 0, 0], [0, 0, -1], [2, -1, -1]])).tolist()
        (('b', 'c'), [1, 0])
        """
        places = [place for place, attribute in enumerate(self.attributes) if not attribute.missing]
        lost = codes[:, places] < 0
        return np.asarray(lost[lost.any(axis=1)].argmax(axis=1) if places else np.empty(0), np.int64)

    def draw(self, codes: Codes, entropy: Entropy) -> list[Drawn]:
        """A number for each code, column by column."""
        return [attribute.draw(codes[:, place], entropy) for place, attribute in enumerate(self.attributes)]

    def write(self, drawn: Sequence[Drawn], codes: Codes) -> Any:
        """What was drawn, as an Arrow table."""
        import pyarrow

        parts = zip(self.attributes, drawn, codes.T, strict=True)
        return pyarrow.table(
            {attribute.column.name: attribute.write(each, column) for attribute, each, column in parts}
        )

    def decode(self, codes: Any, entropy: Entropy) -> Any:
        """An Arrow table with a value for each code.

        >>> from discreet.curator.catalog import Column
        >>> from discreet.noise import DeterministicEntropy
        >>> schema = Schema([Attribute.of(Column("age", "integer", lower=0, upper=99), bins=10)])
        >>> schema.decode([[3], [10]], DeterministicEntropy(1)).column("age").to_pylist()[1] is None
        True
        """
        rows = np.asarray(codes, np.int64)
        return self.write(self.draw(rows, entropy), rows)


def _few(values: tuple[Any, ...], column: Column) -> tuple[Any, ...]:
    if len(values) > MOST_CODES:
        expected = f"at most {MOST_CODES:,} values"
        raise InvalidParameter(column.name, f"{len(values):,} values", expected, "leave it out, or declare fewer")
    return values


def _step(column: Column) -> Fraction | None:
    return Fraction(1) if column.kind is ColumnType.INTEGER else None
