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

from collections.abc import Collection, Mapping
from datetime import datetime
from functools import reduce

from discreet.curator import contribution_draw as draw
from discreet.curator.catalog import ColumnType
from discreet.curator.engines.dialects import DUCKDB, Dialect
from discreet.errors import InternalError
from discreet.sql.algebra.expression import SWITCHED, Domain, Expression, leaves_of, work_on_a_row
from discreet.sql.algebra.kinds import (
    Calendar,
    Day,
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
    declared_condition,
)
from discreet.sql.algebra.rows import (
    Filter,
    Join,
    Rows,
    at_most_one_row,
    base_of,
    conditions_of,
    conjuncts_of,
    expressions_of,
    is_public,
    leaves_here,
    unit_of,
)
from discreet.sql.release.cells_sql import Cells, bounded, column_type, grouped, is_constant, key_parts, unit_part
from discreet.sql.release.expression_sql import held, leaf_name
from discreet.sql.release.rows_sql import select_rows


def write(aggregate: Aggregate, dialect: Dialect = DUCKDB) -> str:
    """One row for each group that is present: the number of units `units`, measures m0, m1, …

    Where groups are declared, `g` is the number of the group (`group_number`); with no key there is none. Elsewhere the
    keys are k0, k1, … Columns of measures are BIGINT and never null. Rows come in no particular order. The salt of the
    draw is the parameter `draw.SALT`. Where the unit is a person, what stands for a `Distinct` is the number of units:
    `values_sql.write_distinct` counts its values.
    """
    group = aggregate.source.source
    if unit_of(group.source).key is None or at_most_one_row(group.source):
        rows, names = named_rows(aggregate, dialect)
        measures = [f"{_of_rows(i, measure, dialect)} AS m{i}" for i, measure in enumerate(aggregate.measures)]
        return grouped([*names, "count(*) AS units", *measures], rows, names, dialect)
    measures = [f"{_of_cells(i, measure, dialect)} AS m{i}" for i, measure in enumerate(aggregate.measures)]
    cells = _joined_cells(aggregate, dialect) or _cells(aggregate, dialect)
    counting = bounded(aggregate.source, aggregate.measures, cells, dialect)
    return grouped([*cells.names, "count(*) AS units", *measures], counting, cells.names, dialect)


def named_rows(aggregate: Aggregate, dialect: Dialect = DUCKDB) -> tuple[str, list[str]]:
    """The rows that count, with u, values v0, v1, … and what names their group: k0, k1, … or g; and those names."""
    group = aggregate.source.source
    rows, columns = _counting_rows(group), _columns(aggregate)
    return _named(group, rows, columns, _is_switched(rows, columns), dialect)


def _named(
    group: Group, rows: Rows, columns: Mapping[str, Expression], switched: bool, dialect: Dialect
) -> tuple[str, list[str]]:
    """Some rows with the unit u, values v0, v1, … and what those keys say of the group that are among the columns."""
    selected = select_rows(rows, columns, dialect, switched=switched)
    keys = [i for i in range(len(group.keys)) if f"k{i}" in columns]
    if not keys or group.size is None:
        return selected, [f"k{i}" for i in keys]
    unit = [] if unit_of(group.source).key is None else ["u"]
    values = [name for name in columns if name.startswith("v")]
    listed = ", ".join([*unit, f"{group_number(group, dialect, keys)} AS g", *values])
    numbered = f"SELECT {listed} FROM {dialect.sub(selected)}"
    return f"SELECT * FROM {dialect.sub(numbered)} WHERE g IS NOT NULL", ["g"]


def drawn_cells(bound: Bound, cells: str, names: list[str], dialect: Dialect = DUCKDB) -> tuple[str, str, str]:
    """Cells with their place in the draw of a unit's groups; the name of that column, and SQL for their offset."""
    if names == ["g"]:
        placed = draw.with_place(cells, unit_part(bound.source), "g", dialect)
        return placed, "p", draw.place_offset_sql("p", dialect)
    digest = draw.digest_sql([unit_part(bound.source), *key_parts(bound.source)], dialect)
    return f"SELECT *, {digest} AS d FROM {dialect.sub(cells)}", "d", draw.offset_sql("d", dialect)


def group_number(group: Group, dialect: Dialect = DUCKDB, places: Collection[int] | None = None) -> str:
    """Which of the declared groups a row is in, from its keys k0, k1, …; null where it is in none of them.

    Groups are counted like digits: the last key changes fastest; null comes after the values of a key. With `places`,
    what the keys at these places add to the number.
    """
    number = ""
    for i, key in enumerate(group.keys):
        if places is None or i in places:
            digit = _key_number(key, f"k{i}", dialect)
            number = f"({number} * {key.size} + {digit})" if number else digit
        elif number:
            number = f"({number} * {key.size})"
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


def _counting_rows(group: Group) -> Rows:
    """The rows that count. That keys have declared values is not asked: what has none has no number."""
    declared = [] if group.size is None else [declared_condition(key) for key in group.keys]
    rows = group.source
    while isinstance(rows, Filter) and rows.condition in declared:
        rows = rows.source
    return rows


def _columns(aggregate: Aggregate) -> dict[str, Expression]:
    """The keys k0, … and the values v0, … of the measures."""
    columns = {f"k{i}": key.value for i, key in enumerate(aggregate.source.source.keys)}
    return columns | {f"v{i}": m.value for i, m in enumerate(aggregate.measures) if m.value is not None}


def _is_switched(rows: Rows, columns: Mapping[str, Expression]) -> bool:
    """Whether conditions may decide whether expressions are computed."""
    parts = [*expressions_of(rows), *columns.values()]
    return sum(map(work_on_a_row, parts)) <= SWITCHED


def _cells(aggregate: Aggregate, dialect: Dialect) -> Cells:
    """What each unit adds in each group, before bounds."""
    rows, names = named_rows(aggregate, dialect)
    columns = ["u", *names, "count(*) AS n", *_totals(aggregate, dialect)]
    return Cells(grouped(columns, rows, ["u", *names], dialect), names)


def _totals(aggregate: Aggregate, dialect: Dialect, own: Collection[str] | None = None) -> list[str]:
    """What the values add up to in a cell, all of them or those of the names `own`: t0, t1, …"""
    measures = [(i, m) for i, m in enumerate(aggregate.measures) if m.value is not None]
    return [f"{_of_cell(i, m, dialect)} AS t{i}" for i, m in measures if own is None or f"v{i}" in own]


_MOST_ROWS = 2**30
"""The product of two numbers of rows that are cut right above so many is a BIGINT."""


def _joined_cells(aggregate: Aggregate, dialect: Dialect) -> Cells | None:
    """The same of a join on the unit alone: each side is added up before the join. None of any other rows.

    Guarantee: these are the cells of the joined rows. Proof. Every row of a unit on one side meets all rows of the unit
    on the other. So a cell has n0·n1 rows: those of the unit with the cell's keys and conditions on each side; and what
    the values on one side add up to is there once for each row of the other. Both factors of n are cut right above
    `Bound.rows`, so n is exact up to there, and greater where it should be.
    """
    bound = aggregate.source
    rows, columns = _counting_rows(bound.source), _columns(aggregate)
    join = base_of(rows)
    if not isinstance(join, Join) or bound.rows > _MOST_ROWS or not _is_on_unit_alone(join):
        return None
    conditions = [part for condition in conditions_of(rows) for part in conjuncts_of(condition)]
    places = {name: _side_of(value, join) for name, value in columns.items()}
    tests = [_side_of(condition, join) for condition in conditions]
    if None in places.values() or None in tests:
        return None
    switched, names, sides = _is_switched(rows, columns), [], []
    for side, source in enumerate((join.left, join.right)):
        own_tests = [condition for condition, place in zip(conditions, tests, strict=True) if place == side]
        inner = reduce(Filter, own_tests, source)
        own = {name: value for name, value in columns.items() if places[name] == side}
        selected, keys = _named(bound.source, inner, own, switched, dialect)
        listed = ["u", *keys, f"count(*) AS n{side}", *_totals(aggregate, dialect, own)]
        sides.append(grouped(listed, selected, ["u", *keys], dialect))
        names.append(keys)
    most = dialect.integer(bound.rows + 1)
    named = ["l.g + r.g AS g"] if names == [["g"], ["g"]] else sorted({*names[0], *names[1]})
    totals = [f"t{i}" for i, measure in enumerate(aggregate.measures) if measure.value is not None]
    listed = ["l.u AS u", *named, f"least(n0, {most}) * least(n1, {most}) AS n", "n0", "n1", *totals]
    sql = f"SELECT {', '.join(listed)} FROM ({sides[0]}) AS l INNER JOIN ({sides[1]}) AS r ON l.u = r.u"
    of_measures = {int(name[1:]): place or 0 for name, place in places.items() if name.startswith("v")}
    keys = ["g"] if ["g"] in names else [f"k{i}" for i in range(len(bound.source.keys))]
    return Cells(sql, keys, of_measures, ("n", "n0", "n1"))


def _is_on_unit_alone(join: Join) -> bool:
    private = not is_public(join.left) and not is_public(join.right)
    return private and join.kind == "inner" and join.condition is None


def _side_of(value: Expression, join: Join) -> int | None:
    """On which side of a join the columns of an expression are; None if on both."""
    right = {leaf_name(leaf) for leaf in leaves_here(join.right)}
    results = {leaf_name(leaf) in right for leaf in leaves_of(value)}
    return None if len(results) > 1 else int(results == {True})


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


def _of_cells(index: int, measure: Measure, dialect: Dialect) -> str:
    """What the units of a group add up to."""
    return "count(*)" if is_constant(measure) else held(dialect.total(f"t{index}"))


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
