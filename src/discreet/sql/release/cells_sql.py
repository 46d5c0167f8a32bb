"""What each person adds to each group, and which of their groups count, as SQL: the contribution bounds.

A cell is a person in a group. Guarantee: what a person adds depends on their own cells and the salt alone: to at most
`Bound.groups` groups, in each what at most `Bound.rows` rows could add. Proof. Places in the draw, and digests, are
made from the person and the group alone, and so are offsets; the smallest places count, and equal ones go by the group.
A longer contribution is weighed down to what `Bound` says.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from discreet.curator import contribution_draw as draw
from discreet.curator.catalog import ColumnType
from discreet.curator.engines.dialects import DUCKDB, Dialect
from discreet.errors import InternalError
from discreet.sql.algebra.kinds import Day, Fixed, Kind, Moment, Text, Truth
from discreet.sql.algebra.relations import (
    Bound,
    Distinct,
    Group,
    Measure,
    People,
    Sum,
    contribution_range,
)
from discreet.sql.algebra.rows import unit_type

_WORD_BITS = 63
"""How many bits a number that is never negative has in a BIGINT."""


@dataclass(frozen=True, slots=True)
class Cells:
    """SQL with one row for each cell: u, what names the group, the number of rows n, and totals of measures: t0, t1, …

    Where a join was added up on each of its sides first, n0 and n1 are the rows of the sides, and `sides` says on which
    of them a measure is: each of its rows there stands for as many as the other side has. Then n is right up to
    `Bound.rows`, and above that wherever it is.
    """

    sql: str
    names: list[str]
    sides: Mapping[int, int] = field(default_factory=dict)
    counts: tuple[str, ...] = ("n",)


def bounded(bound: Bound, measures: tuple[Measure, ...], cells: Cells, dialect: Dialect) -> str:
    """One row for each cell that counts, with what the person adds there to each measure: t0, t1, …"""
    if cells.names != ["g"]:
        return _chosen_by_digest(bound, measures, cells, dialect)
    placed = cells.sql
    drops = bound.source.size is None or bound.groups < bound.source.size
    if drops or any(_is_rounded(measure) for measure in measures):
        placed = draw.with_place(placed, unit_part(bound.source), "g", dialect)
    added = [(i, measure) for i, measure in enumerate(measures) if not is_constant(measure)]
    weighed = _all_weighed(bound, measures, cells, draw.place_offset_sql("p", dialect), dialect)
    columns = ", ".join(["u", "g", *(["p"] if drops else []), *weighed])
    weighed_cells = f"SELECT {columns} FROM {dialect.sub(placed)}"
    if not drops:
        return weighed_cells
    if not dialect.has_lists:
        return dialect.numbered(weighed_cells, "row_number() OVER (PARTITION BY u ORDER BY p, g)", bound.groups)
    return _smallest_words(bound, added, weighed_cells)


def grouped(columns: list[str], source: str, keys: list[str], dialect: Dialect) -> str:
    """A SELECT over another, grouped by keys, if there are any."""
    by = f" GROUP BY {', '.join(keys)}" if keys else ""
    return f"SELECT {', '.join(columns)} FROM {dialect.sub(source)}{by}"


@dataclass(frozen=True, slots=True)
class _Piece:
    """Some bits of a number that is in a word: those from `shift` on, in the word from `begin` on."""

    name: str
    low: int
    shift: int
    begin: int
    width: int

    def packed(self) -> str:
        """What it adds to its word, of the number alone."""
        value = f"({self.name} - {DUCKDB.integer(self.low)})" if self.low else self.name
        if self.shift or self.width == _PAYLOAD_BITS:
            value = f"(({value} >> {self.shift}) & {2**self.width - 1})"
        return f"{value} * {2**self.begin}" if self.begin else value

    def cut(self, word: str) -> str:
        """What the word says of the number."""
        value = f"(({word} >> {self.begin}) & {2**self.width - 1})"
        return f"({value} << {self.shift})" if self.shift else value


_PAYLOAD_BITS = _WORD_BITS - draw.PLACE_BITS
"""What a word holds beside the place in the draw."""


def _packing(bound: Bound, measures: list[tuple[int, Measure]]) -> list[list[_Piece]]:
    """How a cell fits words whose highest bits are its place in the draw: often one, else as many as are needed."""
    numbers = []
    for index, measure in reversed(measures):
        low, high = contribution_range(measure, bound)
        width = (high - low).bit_length()
        numbers.append((f"t{index}", low, width))
    numbers.append(("g", 0, ((bound.source.size or 1) - 1).bit_length()))
    words: list[list[_Piece]] = [[]]
    begin = 0
    for name, low, width in numbers:
        for shift in range(0, max(1, width), _PAYLOAD_BITS):
            size = max(1, min(width - shift, _PAYLOAD_BITS))
            if begin + size > _PAYLOAD_BITS:
                words.append([])
                begin = 0
            words[-1].append(_Piece(name, low, shift, begin, size))
            begin += size
    return words


def _smallest_words(bound: Bound, measures: list[tuple[int, Measure]], cells: str) -> str:
    """The cells with the smallest places, each as one whole number, or several.

    Guarantee: all numbers in one row are of one cell. Proof. Places of different groups of a person differ (`draw`), so
    of each word the same cells are kept, and they come in the order of their places.
    """
    words = _packing(bound, measures)
    best = []
    for i, pieces in enumerate(words):
        begin = sum(piece.width for piece in pieces)
        word = " + ".join([f"p * {2**begin}", *(piece.packed() for piece in pieces)])
        best.append(f"{_smallest(word, bound.groups)} AS c{i}")
    kept = f"SELECT {', '.join(best)} FROM ({cells}) GROUP BY u"
    cut: dict[tuple[str, int], list[str]] = {}
    for i, pieces in enumerate(words):
        for piece in pieces:
            cut.setdefault((piece.name, piece.low), []).append(piece.cut(f"c{i}"))
    numbers = [(name, [*values, *([DUCKDB.integer(low)] if low else [])]) for (name, low), values in cut.items()]
    columns = ", ".join(f"{' + '.join(values)} AS {name}" for name, values in numbers)
    return f"SELECT {columns} FROM ({kept})"


def _smallest(value: str, count: int) -> str:
    """The smallest values of a group, a row each."""
    return f"min({value})" if count == 1 else f"unnest(min({value}, {count}))"


def _chosen_by_digest(bound: Bound, measures: tuple[Measure, ...], cells: Cells, dialect: Dialect) -> str:
    """The same where groups have no numbers: keys come from the data, or there is one group."""
    keys, rows = cells.names, cells.sql
    digest = draw.digest_sql([unit_part(bound.source), *key_parts(bound.source)], dialect)
    if keys:
        totals = [f"t{i}" for i, measure in enumerate(measures) if measure.value is not None]
        names = [*keys, *cells.counts, *totals]
        if dialect.has_lists:
            packed = ", ".join([f"d := {digest}", *(f"{name} := {name}" for name in names)])
            best = f"SELECT u, {_smallest(f'struct_pack({packed})', bound.groups)} AS c FROM ({rows}) GROUP BY u"
            rows = f"SELECT {', '.join(f'c.{name} AS {name}' for name in ('d', *names))} FROM ({best})"
        else:
            order = ", ".join(["d", *keys])
            rows = f"SELECT *, {digest} AS d FROM {dialect.sub(rows)}"
            rows = dialect.numbered(rows, f"row_number() OVER (PARTITION BY u ORDER BY {order})", bound.groups)
        digest = "d"
    weighed = _all_weighed(bound, measures, cells, draw.offset_sql(digest, dialect), dialect)
    return f"SELECT {', '.join([*keys, *weighed]) or '1 AS one'} FROM {dialect.sub(rows)}"


def unit_part(group: Group) -> draw.Part:
    """What names the unit in the draw."""
    kind = unit_type(group.source)
    if kind is None:
        raise InternalError("groups were to be drawn where the unit is a row")
    return "u", kind, False


def key_parts(group: Group) -> list[draw.Part]:
    """What names a cell in the draw beside the unit, where groups have no numbers."""
    return [(f"k{i}", column_type(key.value.kind), key.value.nullable) for i, key in enumerate(group.keys)]


def column_type(kind: Kind) -> ColumnType:
    """The type that the values of a key have in the engine: numbers are whole steps."""
    match kind:
        case Fixed():
            return ColumnType.INTEGER
        case Text():
            return ColumnType.TEXT
        case Truth():
            return ColumnType.BOOLEAN
        case Day():
            return ColumnType.DATE
        case Moment():
            return ColumnType.TIMESTAMP
        case _:
            raise InternalError(f"a key of kind {kind} was planned")


def is_constant(measure: Measure) -> bool:
    """Whether every unit that counts in a group adds one."""
    return isinstance(measure, Distinct) or (isinstance(measure, People) and measure.value is None)


def _is_rounded(measure: Measure) -> bool:
    """Whether weighing a long contribution down rounds it, so that an offset is needed."""
    return not isinstance(measure, People) and measure.value is not None


def _all_weighed(bound: Bound, measures: tuple[Measure, ...], cells: Cells, offset: str, dialect: Dialect) -> list[str]:
    """What a cell adds to each measure, as columns t0, t1, …"""
    added = [(i, measure) for i, measure in enumerate(measures) if not is_constant(measure)]
    return [f"{_weighed(i, m, bound, cells.sides.get(i), offset, dialect)} AS t{i}" for i, m in added]


def _weighed(index: int, measure: Measure, bound: Bound, side: int | None, offset: str, dialect: Dialect) -> str:
    """⌊t·rows/n + h⌋ where n > rows, h in steps of 2^−16: floored by a shift that keeps the dividend ≥ 0.

    Where t is n, that is `rows`, whatever h is. It lies within `contribution_range`, whose ends are less than 2^62, so
    what was added up in 128 bits is a BIGINT again: no cast fails.

    On a side of a join, t and its n stand for as many rows each as the other side has, which t/n does not show; where
    n ≤ rows, so many times t is what counts, and the other side has no more than `rows`.
    """
    t, n = f"t{index}", "n" if side is None else f"n{side}"
    if isinstance(measure, People):
        return f"least({t}, 1)"
    if measure.value is None:
        return f"least(n, {bound.rows})"
    steps = dialect.wide(str(draw.OFFSETS))
    reach = measure.reach if isinstance(measure, Sum) else 0
    base = f"({t} + {dialect.wide(str(reach))} * {n})" if reach else t
    top = f"{base} * {dialect.wide(str(bound.rows))} * {steps} + {n} * {dialect.wide(offset)}"
    share = dialect.cut(top, f"{n} * {steps}") + (f" - {reach * bound.rows}" if reach else "")
    if side is not None:
        t = f"{dialect.wide(t)} * least(n{1 - side}, {bound.rows})"
    return f"CASE WHEN n <= {bound.rows} THEN CAST({t} AS BIGINT) ELSE CAST({share} AS BIGINT) END"
