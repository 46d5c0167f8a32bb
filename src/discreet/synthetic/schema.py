"""From declared columns to codes and back: what a synthesiser sees, fixed by the catalog and by public bins alone.

A declared value has its own code. A number has one for each step of its grid, if there are few, else one for each of
equally wide bins, or of the bins that were given; a date or a time has one for each of the bins given. A missing
value, or one that was not declared, has a code of its own where the column may be null; else its row is left out.
The inverse draws a value inside its bin, on the column's own grid. Nothing is learned from the data here.

>>> from discreet.curator.catalog import Column
>>> from discreet.synthetic.schema import Attribute, Schema
>>> columns = [Column("age", "integer", lower=0, upper=99), Column("sex", "text", values=["F", "M"], nullable=False)]
>>> schema = Schema([Attribute.of(columns[0], bins=10), Attribute.of(columns[1])])
>>> schema.sizes, schema.encode({"age": [35, None], "sex": ["M", "F"]})[0].tolist()
((11, 2), [[3, 1], [10, 0]])
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.curator.catalog import NUMERIC, Column, ColumnType
from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import Number, plain, rational
from discreet.noise import Entropy, uniform_each
from discreet.tables import as_arrow, column

Codes = NDArray[np.int64]
Bins = int | Sequence[Any]
"""How many equally wide bins, or the edges of bins: numbers, or dates in ISO form. A bin holds its lower edge."""

MOST_CODES = 4096
"""Of one column. More would make its pairs too many to measure."""

FEW = 40  # steps of a grid that each have a code of their own
WIDE = 32  # bins otherwise
_DAY, _SECOND = Fraction(86_400), Fraction(1)


@dataclass(frozen=True, slots=True)
class Attribute:
    """One column as codes 0 … size − 1."""

    column: Column
    values: tuple[Any, ...] | None  # declared, each with a code
    edges: tuple[Fraction, ...] | None  # of bins: a value v with edges[i] ≤ v < edges[i+1] has code i
    step: Fraction  # the grid on which the inverse draws

    @classmethod
    def of(cls, column: Column, *, bins: Bins | None = None, values: Sequence[Any] | None = None) -> "Attribute":
        """As the catalog declares it; `bins` and `values` are public, and stated here instead.

        >>> from discreet.curator.catalog import Column
        >>> Attribute.of(Column("born", "date"), bins=["1900-01-01", "1950-01-01", "2000-01-01"]).size
        3
        """
        declared = column.values if values is None else tuple(dict.fromkeys(values))
        if bins is not None and declared is not None:
            raise InvalidParameter("bins", column.name, "bins or values of a column, not both")
        if declared is None and column.kind is ColumnType.BOOLEAN:
            declared = (False, True)
        if declared is not None:
            return cls(column, _few(declared, column), None, Fraction(1))
        step = _step(column)
        return cls(column, None, _edges(column, bins, step), step)

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
    def labels(self) -> tuple[str, ...]:
        """Each code in words."""
        if self.values is not None:
            said = [str(value) for value in self.values]
        else:
            pairs = zip(self.edges or (), (self.edges or ())[1:], strict=False)
            said = [_span(low, high - self.step, self.column.kind) for low, high in pairs]
        return (*said, "missing") if self.missing else tuple(said)

    def encode(self, values: Any) -> Codes:
        """The code of each value; −1 for what has none."""
        other = self.known if self.missing else -1
        if self.values is not None:
            return _places(values, self.values, self.column.kind, other)
        numbers = _numbers(values, self.column)
        edges = np.array([float(edge) for edge in self.edges or ()])
        inside = np.clip(np.nan_to_num(numbers, nan=edges[0], posinf=edges[-1], neginf=edges[0]), edges[0], edges[-1])
        codes = np.clip(np.searchsorted(edges, inside, side="right") - 1, 0, self.known - 1)
        return np.where(np.isnan(numbers), other, codes).astype(np.int64)

    def decode(self, codes: Codes, entropy: Entropy) -> Any:
        """A value for each code, of the column's type: the value declared, or one drawn evenly from its bin."""
        import pyarrow

        lost = codes >= self.known
        kept = np.where(lost, 0, codes)
        if self.values is not None:
            listed = np.array([*self.values, None], object)[np.where(lost, len(self.values), codes)].tolist()
            return pyarrow.array(_read(listed, self.column.kind), _arrow_types()[self.column.kind])
        starts = np.array([int(edge / self.step) for edge in self.edges or ()], np.int64)
        steps = starts[kept] + uniform_each(np.diff(starts)[kept], entropy=entropy)
        return _written(steps, lost, self.step, self.column.kind)

    def least(self, codes: Codes) -> Any:
        """The least value of each code's bin, of the column's type."""
        lost = codes >= self.known
        starts = np.array([int(edge / self.step) for edge in self.edges or ()], np.int64)
        return _written(starts[np.where(lost, 0, codes)], lost, self.step, self.column.kind)


@dataclass(frozen=True, slots=True)
class Schema:
    """The columns that are synthesised, in order."""

    attributes: tuple[Attribute, ...]

    def __init__(self, attributes: Sequence[Attribute]) -> None:
        if not attributes:
            raise InvalidParameter("columns", "none", "at least one column")
        object.__setattr__(self, "attributes", tuple(attributes))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(one.column.name for one in self.attributes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many codes each column has."""
        return tuple(one.size for one in self.attributes)

    def place(self, name: str) -> int:
        """Which column has this name, in any case."""
        for place, known in enumerate(self.names):
            if known.casefold() == name.casefold():
                return place
        raise InvalidParameter("column", name, f"one of the synthetic columns: {', '.join(self.names)}")

    def encode(self, table: Any) -> tuple[Codes, NDArray[np.bool_]]:
        """The codes of the rows in which every column has one, and which rows those are."""
        arrow = as_arrow(table)
        codes = np.column_stack([one.encode(column(arrow, one.column.name)) for one in self.attributes])
        kept = np.asarray((codes >= 0).all(axis=1))
        return codes[kept].astype(np.int64), kept

    def decode(self, codes: Any, entropy: Entropy) -> Any:
        """An Arrow table with a value for each code."""
        import pyarrow

        rows = np.asarray(codes, np.int64)
        parts = {one.column.name: one.decode(rows[:, n], entropy) for n, one in enumerate(self.attributes)}
        return pyarrow.table(parts)


# Bins


def _few(values: tuple[Any, ...], column: Column) -> tuple[Any, ...]:
    if not values:
        raise InvalidParameter("values", column.name, "at least one value")
    if len(values) > MOST_CODES:
        expected = f"at most {MOST_CODES:,} values"
        raise InvalidParameter(column.name, f"{len(values):,} values", expected, "leave it out, or declare fewer")
    return values


def _step(column: Column) -> Fraction:
    match column.kind:
        case ColumnType.DATE:
            return _DAY
        case ColumnType.TIMESTAMP:
            return _SECOND
        case ColumnType.TEXT:
            hint = "declare values in the policy, give them here, find them privately (discover), or leave it out"
            raise InvalidParameter("columns", column.name, "a column with declared values", hint)
    if column.granularity is not None:
        return column.granularity
    if column.lower is None or column.upper is None or column.lower == column.upper:
        return Fraction(1, 1000)
    return (column.upper - column.lower) / 10**6


def _edges(column: Column, bins: Bins | None, step: Fraction) -> tuple[Fraction, ...]:
    """The edges of the bins, each on the grid; the last is one step above the largest value."""
    if bins is None or isinstance(bins, int):
        return _even(column, bins, step)
    given = [_edge(edge, column, step) for edge in bins]
    if len(given) < 2 or given != sorted(set(given)):
        raise InvalidParameter("bins", column.name, "at least two edges, each above the one before")
    if len(given) > MOST_CODES:
        raise InvalidParameter("bins", f"{len(given):,} edges of {column.name}", f"at most {MOST_CODES:,}")
    return (*given[:-1], given[-1] + step)


def _even(column: Column, bins: int | None, step: Fraction) -> tuple[Fraction, ...]:
    """Bins with as many steps of the grid each, or one more."""
    if column.kind not in NUMERIC or column.lower is None or column.upper is None:
        hint = "declare lower and upper in the policy, or give the edges of bins"
        raise InvalidParameter("columns", column.name, "a column with declared bounds or bins", hint)
    if bins is not None and (isinstance(bins, bool) or not 1 <= bins <= MOST_CODES):
        raise InvalidParameter("bins", bins, f"a number from 1 to {MOST_CODES:,} for {column.name}")
    points = int((column.upper - column.lower) / step) + 1
    count = min(points, bins if bins is not None else (points if points <= FEW else WIDE))
    return tuple(column.lower + step * (points * n // count) for n in range(count + 1))


def _edge(edge: Any, column: Column, step: Fraction) -> Fraction:
    try:
        exact = _seconds(edge) if column.kind in (ColumnType.DATE, ColumnType.TIMESTAMP) else rational(edge, "bins")
    except (ValueError, TypeError):
        raise InvalidParameter("bins", edge, f"numbers, or dates in ISO form, as edges for {column.name}") from None
    return round(exact / step) * step


def _seconds(moment: Any) -> Fraction:
    """Seconds since 1970 of a date or time."""
    read = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    if isinstance(read, date) and not isinstance(read, datetime):
        read = datetime(read.year, read.month, read.day)
    zoned = read if read.tzinfo is not None else read.replace(tzinfo=UTC)
    return Fraction(round(zoned.timestamp()))


def _span(low: Fraction, high: Fraction, kind: ColumnType) -> str:
    return _said(low, kind) if low == high else f"{_said(low, kind)} to {_said(high, kind)}"


def _said(edge: Number, kind: ColumnType) -> str:
    if kind in (ColumnType.DATE, ColumnType.TIMESTAMP):
        moment = datetime.fromtimestamp(float(edge), UTC)
        return moment.date().isoformat() if kind is ColumnType.DATE else moment.replace(tzinfo=None).isoformat()
    return plain(rational(edge, "edge"))


# Arrow


def _arrow_types() -> dict[ColumnType, Any]:
    import pyarrow

    return {
        ColumnType.INTEGER: pyarrow.int64(),
        ColumnType.REAL: pyarrow.float64(),
        ColumnType.TEXT: pyarrow.string(),
        ColumnType.BOOLEAN: pyarrow.bool_(),
        ColumnType.DATE: pyarrow.date32(),
        ColumnType.TIMESTAMP: pyarrow.timestamp("s"),
    }


def _numbers(values: Any, one: Column) -> NDArray[np.float64]:
    """Numbers, or seconds since 1970; NaN where there is none."""
    import pyarrow

    array = values.combine_chunks() if isinstance(values, pyarrow.ChunkedArray) else values
    try:
        if one.kind in (ColumnType.DATE, ColumnType.TIMESTAMP):
            seconds = array.cast(pyarrow.timestamp("s"), safe=False).cast(pyarrow.int64())
            return np.asarray(seconds.cast(pyarrow.float64()).to_numpy(zero_copy_only=False), np.float64)
        if not pyarrow.types.is_string(array.type):
            return np.asarray(array.cast(pyarrow.float64(), safe=False).to_numpy(zero_copy_only=False), np.float64)
        return np.asarray(array.cast(pyarrow.float64()).to_numpy(zero_copy_only=False), np.float64)
    except pyarrow.ArrowException:
        raise InvalidData(f"column {one.name!r}: not all its values are {one.kind}s") from None


def _places(values: Any, declared: tuple[Any, ...], kind: ColumnType, other: int) -> Codes:
    """The place of each value among the declared ones."""
    import pyarrow

    array = values.combine_chunks() if isinstance(values, pyarrow.ChunkedArray) else values
    encoded = array.dictionary_encode() if not pyarrow.types.is_dictionary(array.type) else array
    known = {_key(value, kind): place for place, value in enumerate(declared)}
    found = [known.get(_key(value, kind), other) for value in encoded.dictionary.to_pylist()]
    indices = encoded.indices.fill_null(len(found)).to_numpy(zero_copy_only=False)
    return np.asarray(np.array([*found, other], np.int64)[indices])


def _key(value: Any, kind: ColumnType) -> str:
    if kind is ColumnType.BOOLEAN:
        return {"true": "1", "t": "1", "yes": "1", "false": "0", "f": "0", "no": "0"}.get(
            str(value).lower(), str(value)
        )
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return value.isoformat() if isinstance(value, date) else str(value)


def _read(values: list[Any], kind: ColumnType) -> list[Any]:
    """Declared values as what the column holds."""
    reader = {ColumnType.DATE: date.fromisoformat, ColumnType.TIMESTAMP: datetime.fromisoformat}.get(kind)
    return [
        value if value is None or reader is None or not isinstance(value, str) else reader(value) for value in values
    ]


def _written(steps: Codes, lost: NDArray[np.bool_], step: Fraction, kind: ColumnType) -> Any:
    import pyarrow

    match kind:
        case ColumnType.DATE:
            return pyarrow.array(steps.astype(np.int32), pyarrow.int32(), mask=lost).cast(pyarrow.date32())
        case ColumnType.TIMESTAMP:
            return pyarrow.array(steps, pyarrow.int64(), mask=lost).cast(pyarrow.timestamp("s"))
        case ColumnType.INTEGER:
            return pyarrow.array(steps * int(step), pyarrow.int64(), mask=lost)
    return pyarrow.array(steps * step.numerator / step.denominator, pyarrow.float64(), mask=lost)
