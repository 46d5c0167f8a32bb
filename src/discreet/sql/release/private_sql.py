"""The algebra as SQL of an engine. The only place where SQL for private rows is written; no analyst text gets here.

Guarantee: the SQL computes exactly what `relations` says, in integers that do not overflow, and cannot fail on any row.
How: columns are clamped and texts cut as they are read; every operation is total (`functions`); products, sums and the
scaling of long contributions run in 128 bits; totals are clamped to ±2^61.

Guarantee: conditions of the statement decide about at most `SWITCHED` nanoseconds on each row. Proof. Where the
prices of all expressions add up to no more, that is all they could decide about. Elsewhere every operation but the
gates is a column of a projection below WHERE (`_apart`), which DuckDB computes for all rows: the engine moves no filter
below a projection and reads no statistics (`engines.duckdb`). What is left above are gates over columns.

The SQL that reads values: which of a unit's count, and how often each is there, or how many different ones.

Guarantee: what a unit adds depends on its own rows and the salt alone: at most `Bound.rows` values (one, where it keeps
an end) in each of at most `Bound.groups` groups, those of `private_sql.write`. Proof. Cells are ordered by their place
in the draw, then by their names, so no two are equal and `dense_rank` numbers them. Of n > rows values in their order,
the p-th counts as often as ⌊(p·rows + h·n)/n⌋ exceeds that of p − 1, with h in [0, 1) from the cell's place in the
draw: never less than 0, and ⌊rows + h⌋ − ⌊h⌋ = rows times in all. Each counts with probability rows/n over h. Equal
values are counted together, so nothing depends on the order of rows.
"""

from datetime import datetime

from discreet.curator import contribution_draw as draw
from discreet.curator.catalog import ColumnType
from discreet.curator.engines.dialects import DUCKDB, Dialect
from discreet.errors import InternalError
from discreet.sql.algebra.expression import (
    SWITCHED,
    Domain,
    work_on_a_row,
)
from discreet.sql.algebra.kinds import (
    Calendar,
    Day,
    Fixed,
    Kind,
    Moment,
    Real,
    Text,
    Truth,
    day_number,
    microsecond_number,
)
from discreet.sql.algebra.relations import (
    Aggregate,
    Bound,
    Count,
    Distinct,
    Frequencies,
    Group,
    Key,
    Measure,
    People,
    Sum,
    contribution_range,
    declared_condition,
)
from discreet.sql.algebra.rows import (
    Filter,
    at_most_one_row,
    expressions_of,
    unit_of,
    unit_type,
)
from discreet.sql.release.expression_sql import held
from discreet.sql.release.rows_sql import select_rows

_WORD_BITS = 63
"""How many bits a number that is never negative has in a BIGINT."""


def write(aggregate: Aggregate, dialect: Dialect = DUCKDB) -> str:
    """One row for each group that is present: the number of units `units`, measures m0, m1, …

    Where groups are declared, `g` is the number of the group (`group_number`); with no key there is none. Elsewhere the
    keys are k0, k1, … Columns of measures are BIGINT and never null. Rows come in no particular order. The salt of the
    draw is the parameter `draw.SALT`. Where the unit is a person, what stands for a `Distinct` is the number of units:
    `values_sql.write_distinct` counts its values.
    """
    group = aggregate.source.source
    rows, names = named_rows(aggregate, dialect)
    if unit_of(group.source).key is None or at_most_one_row(group.source):
        measures = [f"{_of_rows(i, measure, dialect)} AS m{i}" for i, measure in enumerate(aggregate.measures)]
        return _grouped([*names, "count(*) AS units", *measures], rows, names, dialect)
    measures = [f"{_of_cells(i, measure, dialect)} AS m{i}" for i, measure in enumerate(aggregate.measures)]
    chosen = _chosen(aggregate.source, aggregate.measures, rows, names, dialect)
    return _grouped([*names, "count(*) AS units", *measures], chosen, names, dialect)


def named_rows(aggregate: Aggregate, dialect: Dialect = DUCKDB) -> tuple[str, list[str]]:
    """The rows that count, with u, values v0, v1, … and what names their group: k0, k1, … or g; and those names."""
    group = aggregate.source.source
    rows, names = _rows(aggregate, dialect), [f"k{i}" for i in range(len(group.keys))]
    if not names or group.size is None:
        return rows, names
    values = [f"v{i}" for i, measure in enumerate(aggregate.measures) if measure.value is not None]
    unit = [] if unit_of(group.source).key is None else ["u"]
    columns = ", ".join([*unit, f"{group_number(group, dialect)} AS g", *values])
    numbered = f"SELECT {columns} FROM {dialect.sub(rows)}"
    return f"SELECT * FROM {dialect.sub(numbered)} WHERE g IS NOT NULL", ["g"]


def drawn_cells(bound: Bound, cells: str, names: list[str], dialect: Dialect = DUCKDB) -> tuple[str, str, str]:
    """Cells with their place in the draw of a unit's groups; the name of that column, and SQL for their offset."""
    if names == ["g"]:
        placed = draw.with_place(cells, unit_part(bound.source), "g", dialect)
        return placed, "p", draw.place_offset_sql("p", dialect)
    digest = draw.digest_sql([unit_part(bound.source), *key_parts(bound.source)], dialect)
    return f"SELECT *, {digest} AS d FROM {dialect.sub(cells)}", "d", draw.offset_sql("d", dialect)


def group_number(group: Group, dialect: Dialect = DUCKDB) -> str:
    """Which of the declared groups a row is in, from its keys k0, k1, …; null where it is in none of them.

    Groups are counted like digits: the last key changes fastest; null comes after the values of a key.
    """
    number = ""
    for i, key in enumerate(group.keys):
        digit = _key_number(key, f"k{i}", dialect)
        number = f"({number} * {key.size} + {digit})" if number else digit
    return number


def _key_number(key: Key, name: str, dialect: Dialect) -> str:
    """The place of a value among those of its key, null last."""
    if key.domain is None:
        raise InternalError("a declared domain was expected")
    digit = value_number(key.domain, key.value.kind, name, dialect)
    last = dialect.integer(len(key.domain))
    return f"CASE WHEN {name} IS NULL THEN {last} ELSE {digit} END" if key.value.nullable else digit


def value_number(domain: Domain, kind: Kind, name: str, dialect: Dialect = DUCKDB) -> str:
    """The place of a value among those declared, a BIGINT; null where it has none. Total, like every expression."""
    if isinstance(domain, range):
        first, last = dialect.integer(domain.start), dialect.integer(domain.stop - 1)
        return f"CASE WHEN {name} BETWEEN {first} AND {last} THEN {name} - {first} END"
    if not dialect.has_lists and isinstance(domain, Calendar) and domain.unit in _SPANS:
        return _calendar_number(domain, name, dialect)
    if not dialect.has_lists:
        places = {value: place for place, value in enumerate(domain) if value is not None}
        if isinstance(kind, Truth):
            whens = (f"WHEN {'TRUE' if value else 'FALSE'} THEN {dialect.integer(at)}" for value, at in places.items())
            return f"CASE {name} {' '.join(whens)} END"
        ordered = sorted(places, key=lambda value: value.encode() if isinstance(value, str) else value)
        return _searched([(_value_sql(value, kind, dialect), places[value]) for value in ordered], name, dialect)
    text = {Text: name, Moment: f"CAST(epoch_us({name}) AS VARCHAR)"}.get(type(kind), f"CAST({name} AS VARCHAR)")
    values = ", ".join(dialect.literal(draw.plain_text(value)) for value in domain if value is not None)
    return f"CAST(enum_code(TRY_CAST({text} AS ENUM({values}))) AS BIGINT)"


def _value_sql(value: object, kind: Kind, dialect: Dialect) -> str:
    if isinstance(value, str):
        return dialect.literal(value)
    if isinstance(value, int):
        return dialect.integer(value)
    return dialect.moment(ColumnType.DATE if isinstance(kind, Day) else ColumnType.TIMESTAMP, value)


_SPANS = {
    "week": (7, 604_800_000_000),
    "day": (1, 86_400_000_000),
    "hour": (0, 3_600_000_000),
    "minute": (0, 60_000_000),
}
"""Days and microseconds of the units that are all of one length."""


def _calendar_number(domain: Calendar, name: str, dialect: Dialect) -> str:
    """The place of a date or time in a calendar of equal units: how many of them after the first."""
    if isinstance(domain.first, datetime):
        number, first, span = dialect.microseconds(name), microsecond_number(domain.first), _SPANS[domain.unit][1]
    else:
        number, first, span = dialect.days(name), day_number(domain.first), _SPANS[domain.unit][0]
    since = f"({number} - {dialect.integer(first)})"
    inside = f"{since} BETWEEN 0 AND {(len(domain) - 1) * span} AND {since} % {span} = 0"
    return f"CASE WHEN {inside} THEN {dialect.quotient(since, str(span))} END"


_FEW = 4


def _searched(values: list[tuple[str, int]], name: str, dialect: Dialect) -> str:
    """The place of a value among many, in their order, by halves: as many comparisons as their number has bits."""
    if len(values) <= _FEW:
        return "CASE " + " ".join(f"WHEN {name} = {sql} THEN {dialect.integer(at)}" for sql, at in values) + " END"
    middle = len(values) // 2
    below, above = (_searched(half, name, dialect) for half in (values[:middle], values[middle:]))
    return f"CASE WHEN {name} < {values[middle][0]} THEN {below} ELSE {above} END"


def _rows(aggregate: Aggregate, dialect: Dialect) -> str:
    """The rows that count, with the unit u, the keys k0, … and the values v0, … of the measures.

    That keys have declared values is not asked here: what has none has no number (`group_number`).
    """
    group = aggregate.source.source
    declared = [] if group.size is None else [declared_condition(key) for key in group.keys]
    rows = group.source
    while isinstance(rows, Filter) and rows.condition in declared:
        rows = rows.source
    columns = {f"k{i}": key.value for i, key in enumerate(group.keys)}
    columns |= {f"v{i}": m.value for i, m in enumerate(aggregate.measures) if m.value is not None}
    parts = [*expressions_of(rows), *columns.values()]
    return select_rows(rows, columns, dialect, switched=sum(map(work_on_a_row, parts)) <= SWITCHED)


def _chosen(bound: Bound, measures: tuple[Measure, ...], rows: str, names: list[str], dialect: Dialect) -> str:
    """One row for each unit and group that counts, with what the unit adds there to each measure: t0, t1, …"""
    totals = [f"{_of_cell(i, m, dialect)} AS t{i}" for i, m in enumerate(measures) if m.value is not None]
    cells = _grouped(["u", *names, "count(*) AS n", *totals], rows, ["u", *names], dialect)
    if names != ["g"]:
        return _chosen_by_digest(bound, measures, cells, names, dialect)
    drops = bound.source.size is None or bound.groups < bound.source.size
    if drops or any(_is_rounded(measure) for measure in measures):
        cells = draw.with_place(cells, unit_part(bound.source), "g", dialect)
    offset = draw.place_offset_sql("p", dialect)
    added = [(i, measure) for i, measure in enumerate(measures) if not _is_constant(measure)]
    weighed = [f"{_weighed(i, measure, bound, offset, dialect)} AS t{i}" for i, measure in added]
    columns = ", ".join(["u", "g", *(["p"] if drops else []), *weighed])
    weighed_cells = f"SELECT {columns} FROM {dialect.sub(cells)}"
    if not drops:
        return weighed_cells
    if not dialect.has_lists:
        return dialect.numbered(weighed_cells, "row_number() OVER (PARTITION BY u ORDER BY p, g)", bound.groups)
    packing = _packing(bound, added)
    if packing is None:
        return _smallest_structs(bound, ["g", *(f"t{i}" for i, _ in added)], weighed_cells)
    return _smallest_words(bound, packing, weighed_cells)


Packing = list[tuple[str, int, int, int]]
"""What a word holds from its lowest bit on: the name of a number, its least value, where it begins, how many bits."""


def _packing(bound: Bound, measures: list[tuple[int, Measure]]) -> Packing | None:
    """How a cell fits a word of 63 bits whose highest are its place in the draw; None where it does not.

    The number of the group comes right below the place, so that equal places, which one unit does not have, would go
    by the group.
    """
    packing: Packing = []
    begin = 0
    for index, measure in reversed(measures):
        low, high = contribution_range(measure, bound)
        width = (high - low).bit_length()
        packing.append((f"t{index}", low, begin, width))
        begin += width
    width = max(1, ((bound.source.size or 1) - 1).bit_length())
    packing.append(("g", 0, begin, width))
    return packing if begin + width + draw.PLACE_BITS <= _WORD_BITS else None


def _smallest_words(bound: Bound, packing: Packing, cells: str) -> str:
    """The cells with the smallest places, each as one whole number."""
    begin = sum(width for _, _, _, width in packing)
    shifted = [(f"({name} - {DUCKDB.integer(low)})" if low else name, at) for name, low, at, _ in packing]
    word = " + ".join([f"p * {2**begin}", *(f"{value} * {2**at}" if at else value for value, at in shifted)])
    best = f"SELECT unnest(min({word}, {bound.groups})) AS c FROM ({cells}) GROUP BY u"
    cut = [(name, low, f"((c >> {at}) & {2**width - 1})") for name, low, at, width in packing]
    parts = [f"{value} + {DUCKDB.integer(low)} AS {name}" if low else f"{value} AS {name}" for name, low, value in cut]
    return f"SELECT {', '.join(parts)} FROM ({best})"


def _smallest_structs(bound: Bound, names: list[str], cells: str) -> str:
    """The same where a cell does not fit one number."""
    packed = ", ".join(f"{name} := {name}" for name in ["p", *names])
    best = f"SELECT unnest(min(struct_pack({packed}), {bound.groups})) AS c FROM ({cells}) GROUP BY u"
    return f"SELECT {', '.join(f'c.{name} AS {name}' for name in names)} FROM ({best})"


def _chosen_by_digest(
    bound: Bound, measures: tuple[Measure, ...], cells: str, keys: list[str], dialect: Dialect
) -> str:
    """The same where groups have no numbers: keys come from the data, or there is one group."""
    digest = draw.digest_sql([unit_part(bound.source), *key_parts(bound.source)], dialect)
    if keys:
        names = [*keys, "n", *(f"t{i}" for i, measure in enumerate(measures) if measure.value is not None)]
        if dialect.has_lists:
            packed = ", ".join([f"d := {digest}", *(f"{name} := {name}" for name in names)])
            best = f"SELECT u, unnest(min(struct_pack({packed}), {bound.groups})) AS c FROM ({cells}) GROUP BY u"
            cells = f"SELECT {', '.join(f'c.{name} AS {name}' for name in ('d', *names))} FROM ({best})"
        else:
            order = ", ".join(["d", *keys])
            cells = f"SELECT *, {digest} AS d FROM {dialect.sub(cells)}"
            cells = dialect.numbered(cells, f"row_number() OVER (PARTITION BY u ORDER BY {order})", bound.groups)
        digest = "d"
    offset = draw.offset_sql(digest, dialect)
    weighed = [
        f"{_weighed(i, m, bound, offset, dialect)} AS t{i}" for i, m in enumerate(measures) if not _is_constant(m)
    ]
    return f"SELECT {', '.join([*keys, *weighed]) or '1 AS one'} FROM {dialect.sub(cells)}"


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


def _grouped(columns: list[str], source: str, keys: list[str], dialect: Dialect) -> str:
    grouped = f" GROUP BY {', '.join(keys)}" if keys else ""
    return f"SELECT {', '.join(columns)} FROM {dialect.sub(source)}{grouped}"


def _of_rows(index: int, measure: Measure, dialect: Dialect) -> str:
    """A measure over rows of which each unit has one at most."""
    match measure:
        case Count() | People():
            return "count(*)" if measure.value is None else f"count(v{index})"
        case Sum():  # the offset is taken off once for all values, in 128 bits
            back = f" - {dialect.wide(str(measure.offset))} * count(v{index})" if measure.offset else ""
            return held(f"{dialect.total(f'v{index}')}{back}")
        case Distinct():
            return f"count(DISTINCT v{index})"


def _of_cell(index: int, measure: Measure, dialect: Dialect) -> str:
    """What the rows of one unit in one group add up to; where every row counts, that is n."""
    match measure:
        case Count() | People() | Distinct():
            return f"count(v{index})"
        case Sum():
            return f"coalesce({dialect.total(f'v{index} - {dialect.integer(measure.offset)}')}, 0)"


def _is_constant(measure: Measure) -> bool:
    """Whether every unit that counts in a group adds one."""
    return isinstance(measure, Distinct) or (isinstance(measure, People) and measure.value is None)


def _of_cells(index: int, measure: Measure, dialect: Dialect) -> str:
    """What the units of a group add up to."""
    return "count(*)" if _is_constant(measure) else held(dialect.total(f"t{index}"))


def _is_rounded(measure: Measure) -> bool:
    """Whether weighing a long contribution down rounds it, so that an offset is needed."""
    return not isinstance(measure, People) and measure.value is not None


def _weighed(index: int, measure: Measure, bound: Bound, offset: str, dialect: Dialect) -> str:
    """⌊t·rows/n + h⌋ where n > rows, h in steps of 2^−16: floored by a shift that keeps the dividend ≥ 0.

    Where t is n, that is `rows`, whatever h is. It lies within `contribution_range`, whose ends are less than 2^62, so
    what was added up in 128 bits is a BIGINT again: no cast fails.
    """
    t = f"t{index}"
    if isinstance(measure, People):
        return f"least({t}, 1)"
    if measure.value is None:
        return f"least(n, {bound.rows})"
    steps = dialect.wide(str(draw.OFFSETS))
    reach = measure.reach if isinstance(measure, Sum) else 0
    base = f"({t} + {dialect.wide(str(reach))} * n)" if reach else t
    top = f"{base} * {dialect.wide(str(bound.rows))} * {steps} + n * {dialect.wide(offset)}"
    share = dialect.cut(top, f"n * {steps}") + (f" - {reach * bound.rows}" if reach else "")
    return f"CASE WHEN n <= {bound.rows} THEN CAST({t} AS BIGINT) ELSE CAST({share} AS BIGINT) END"


def write_values(aggregate: Aggregate, index: int, dialect: Dialect = DUCKDB) -> str:
    """One row for each group and value: keys as in `private_sql.write`, the value v in steps, and its count c.

    Of `Frequencies`, v is the place of the value among those that are declared; others have none, and do not count.
    """
    bound, distribution = aggregate.source, aggregate.distributions[index]
    rows, names = named_rows(Aggregate(bound, (Count(distribution.value),)), dialect)
    alone = unit_of(bound.source.source).key is None
    if isinstance(distribution, Frequencies):
        number = value_number(distribution.domain, distribution.value.kind, "v0", dialect)
        rows = f"SELECT {', '.join([*([] if alone else ['u']), *names, f'{number} AS v0'])} FROM {dialect.sub(rows)}"
    if alone:
        listed = ", ".join([*names, "v0 AS v", "1 AS c"])
        return _counted(f"SELECT {listed} FROM {dialect.sub(rows)} WHERE v0 IS NOT NULL", names, dialect)
    cell = ", ".join(["u", *names])
    cells = f"SELECT {cell}, v0 AS v, count(*) AS c FROM {dialect.sub(rows)} GROUP BY {cell}, v0"
    cells, place, offset = drawn_cells(bound, cells, names, dialect)
    chosen = _of_chosen_groups(bound, cells, place, names, dialect)
    cells = f"SELECT * FROM {dialect.sub(chosen)} WHERE v IS NOT NULL"
    if distribution.keep != "even":
        end = "min" if distribution.keep == "least" else "max"
        columns = ", ".join([*names, f"{end}(v) AS v", "1 AS c"])
        return _counted(f"SELECT {columns} FROM {dialect.sub(cells)} GROUP BY {cell}", names, dialect)
    window = f"PARTITION BY {cell}"
    sums = f"sum(c) OVER ({window} ORDER BY v) AS upto, sum(c) OVER ({window}) AS n"
    ranked = f"SELECT *, {sums} FROM {dialect.sub(cells)}"
    columns = ", ".join([*names, "v", f"{_even(bound, offset, dialect)} AS c"])
    weighed = f"SELECT {columns} FROM {dialect.sub(ranked)}"
    return _counted(f"SELECT * FROM {dialect.sub(weighed)} WHERE c > 0", names, dialect)


def write_distinct(aggregate: Aggregate, index: int, dialect: Dialect = DUCKDB) -> str:
    """One row for each group: keys as in `private_sql.write`, and how many different values c there are.

    Of a unit's different values in a cell, those with the smallest digests count: `Bound.rows` of them.
    """
    bound, value = aggregate.source, aggregate.measures[index].value
    rows, names = named_rows(Aggregate(bound, (Count(value),)), dialect)
    cell = ", ".join(["u", *names])
    cells = f"SELECT DISTINCT {cell}, v0 AS v FROM {dialect.sub(rows)}"
    cells, place, _ = drawn_cells(bound, cells, names, dialect)
    chosen = _of_chosen_groups(bound, cells, place, names, dialect)
    cells = f"SELECT {cell}, v FROM {dialect.sub(chosen)} WHERE v IS NOT NULL"
    groups = [("g", ColumnType.INTEGER, False)] if names == ["g"] else key_parts(bound.source)
    kind = ColumnType.REAL if value is None or isinstance(value.kind, Real) else column_type(value.kind)
    digest = draw.digest_sql([unit_part(bound.source), *groups, ("v", kind, False)], dialect)
    order = f"PARTITION BY {cell} ORDER BY {digest}, v"
    kept = dialect.numbered(cells, f"row_number() OVER ({order})", bound.rows)
    columns = ", ".join([*names, "count(DISTINCT v) AS c"])
    return f"SELECT {columns} FROM {dialect.sub(kept)}" + (f" GROUP BY {', '.join(names)}" if names else "")


def _of_chosen_groups(bound: Bound, cells: str, place: str, names: list[str], dialect: Dialect) -> str:
    """The cells of the groups that a unit counts in: those with the smallest places in the draw."""
    if bound.source.size is not None and bound.source.size <= bound.groups:
        return cells
    order = f"PARTITION BY u ORDER BY {', '.join([place, *names])}"
    return dialect.numbered(cells, f"dense_rank() OVER ({order})", bound.groups)


def _even(bound: Bound, offset: str, dialect: Dialect) -> str:
    """How often a value counts, of which `upto` − c to `upto` are the places in the unit's order."""
    steps, shift = dialect.wide(str(draw.OFFSETS)), f"n * {dialect.wide(offset)}"
    rows = dialect.wide(str(bound.rows))
    ends = [dialect.cut(f"{place} * {rows} * {steps} + {shift}", f"n * {steps}") for place in ("upto", "(upto - c)")]
    return f"CASE WHEN n <= {bound.rows} THEN c ELSE {ends[0]} - {ends[1]} END"


def _counted(values: str, names: list[str], dialect: Dialect) -> str:
    grouped = ", ".join([*names, "v"])
    return f"SELECT {grouped}, CAST(sum(c) AS BIGINT) AS c FROM {dialect.sub(values)} GROUP BY {grouped}"
