"""The algebra as SQL for DuckDB. The only place where SQL for private rows is written; no analyst text gets here.

Guarantee: the SQL computes exactly what `relations` says, in integers that do not overflow, and cannot fail on any row.
How: columns are clamped and texts cut as they are read; every operation is total (`functions`); products, sums and the
scaling of long contributions run in 128 bits; totals are clamped to ±2^61.

Guarantee: conditions of the statement decide about at most `SWITCHED` nanoseconds on each row. Proof. Where the
prices of all expressions add up to no more, that is all they could decide about. Elsewhere every operation but the
gates is a column of a projection below WHERE (`_apart`), which DuckDB computes for all rows: the engine moves no filter
below a projection and reads no statistics (`engines.duckdb`). What is left above are gates over columns.
"""

from collections.abc import Mapping
from math import isfinite

from discreet.curator import draw
from discreet.curator.catalog import TEXT, Column, ColumnType
from discreet.curator.engines.columns import literal, quoted
from discreet.errors import InternalError
from discreet.sql.algebra.expression import GATES, SWITCHED, Call, Constant, Expression, Field, fields_of, work_on_a_row
from discreet.sql.algebra.kinds import Day, Fixed, Kind, Moment, Real, Text, Truth
from discreet.sql.algebra.relations import (
    Aggregate,
    Bound,
    Count,
    Group,
    Measure,
    People,
    Scan,
    Sum,
    conditions_of,
    scan_of,
)

TOTAL = 2**61
"""Totals are held within ±TOTAL."""

_BINARY = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "times": "*",
    "modulo": "%",
    "equal": "=",
    "differ": "<>",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
    "like": "LIKE",
    "concatenate": "||",
    "and": "AND",
    "or": "OR",
}
_FUNCTIONS = {
    "lower": "lower",
    "upper": "upper",
    "trim": "trim",
    "length": "length",
    "substring": "substring",
    "absolute": "abs",
    "least": "least",
    "greatest": "greatest",
    "coalesce": "coalesce",
}


def write(aggregate: Aggregate) -> str:
    """One row for each group that is present: keys k0, k1, …, the number of units `units`, measures m0, m1, …

    Columns of measures are BIGINT and never null. Rows come in no particular order. The salt of the draw is the
    parameter `draw.SALT`.
    """
    bound, group = aggregate.source, aggregate.source.source
    rows = _rows(aggregate)
    keys = [f"k{i}" for i in range(len(group.keys))]
    if scan_of(group.source).unit.key is None:
        measures = [f"{_of_rows(i, measure)} AS m{i}" for i, measure in enumerate(aggregate.measures)]
        return _grouped([*keys, "count(*) AS units", *measures], rows, keys)
    measures = [f"{_held(f'sum(t{i})')} AS m{i}" for i in range(len(aggregate.measures))]
    return _grouped([*keys, "count(*) AS units", *measures], _chosen(bound, aggregate.measures, rows), keys)


def _rows(aggregate: Aggregate) -> str:
    """The rows that count, with the unit u, the keys k0, … and the values v0, … of the measures.

    Rows that are null in a column that the policy declares never null are left out, so that it never is.
    """
    group, measures, parts = aggregate.source.source, aggregate.measures, aggregate.parts
    scan, conditions = scan_of(group.source), conditions_of(group.source)
    read = {field.column: None for part in parts for field in fields_of(part)}
    source, apart = _apart(parts, _read(scan, list(read)))
    columns = [f"{expression(key.value, apart)} AS k{i}" for i, key in enumerate(group.keys)]
    columns += [f"{expression(m.value, apart)} AS v{i}" for i, m in enumerate(measures) if m.value is not None]
    tests = [f"{_name(column)} IS NOT NULL" for column in read if not column.nullable]
    tests += [expression(condition, apart) for condition in conditions]
    if scan.unit.key is not None:
        columns.insert(0, "u")
        tests.insert(0, "u IS NOT NULL")
    where = f" WHERE {' AND '.join(tests)}" if tests else ""
    return f"SELECT {', '.join(columns or ['1 AS one'])} FROM ({source}){where}"


def _apart(parts: list[Expression], source: str) -> tuple[str, dict[int, str]]:
    """The source with columns d0, d1, … for operations that no condition may switch; which operation is which column.

    An operation whose arguments hold such columns comes one projection later. Operations are told apart by `id`.
    """
    if sum(map(work_on_a_row, parts)) <= SWITCHED:
        return source, {}
    names: dict[int, str] = {}
    levels: dict[int, int] = {}  # of a column: how many projections lie below the one that it is in, and that one
    layers: list[list[str]] = []

    def set_apart(value: Expression) -> int:
        """Put every operation that stands alone or in gates apart; how many projections are needed below."""
        if not isinstance(value, Call):
            return 0
        if value.operation in GATES:
            return max(map(set_apart, value.arguments))
        if id(value) not in names:
            levels[id(value)] = 1 + max(map(needed, value.arguments))
            layers.extend([] for _ in range(levels[id(value)] - len(layers)))
            sql = _call(value, names)
            names[id(value)] = f"d{len(names)}"
            layers[levels[id(value)] - 1].append(f"{sql} AS {names[id(value)]}")
        return levels[id(value)]

    def needed(value: Expression) -> int:
        """The same for what stands inside an operation: only what is within its gates is put apart."""
        if not isinstance(value, Call):
            return 0
        if value.operation in GATES or id(value) in names:
            return set_apart(value)
        return max(map(needed, value.arguments))

    for part in parts:
        set_apart(part)
    for columns in layers:
        source = f"SELECT *, {', '.join(columns)} FROM ({source})"
    return source, names


def _read(scan: Scan, columns: list[Column]) -> str:
    """The columns that are used, each as it is treated, under names that no other column of these queries has."""
    parts = [f"{treated(column)} AS {_name(column)}" for column in columns]
    if scan.unit.key is not None:
        parts.insert(0, f"{quoted(scan.table.column(scan.unit.key).name)} AS u")
    return f"SELECT {', '.join(parts or ['1 AS one'])} FROM {quoted(scan.table.name)}"


def _chosen(bound: Bound, measures: tuple[Measure, ...], rows: str) -> str:
    """One row for each unit and group that counts, with what the unit adds there to each measure: t0, t1, …"""
    keys = [f"k{i}" for i in range(len(bound.source.keys))]
    totals = {f"t{i}": _of_cell(i, measure) for i, measure in enumerate(measures) if measure.value is not None}
    parts = ["u", *keys, "count(*) AS n", *(f"{total} AS {name}" for name, total in totals.items())]
    cells = f"SELECT {', '.join(parts)} FROM ({rows}) GROUP BY {', '.join(['u', *keys])}"
    digest = draw.digest_sql(_drawn(bound.source))
    if bound.source.size is None or bound.groups < bound.source.size:
        names = [*keys, "n", *totals]
        packed = ", ".join([f"d := {digest}", *(f"{name} := {name}" for name in names)])
        best = f"SELECT u, unnest(min(struct_pack({packed}), {bound.groups})) AS c FROM ({cells}) GROUP BY u"
        cells = f"SELECT {', '.join(f'c.{name} AS {name}' for name in ('d', *names))} FROM ({best})"
        digest = "d"
    weighed = [f"{_weighed(i, measure, bound, digest)} AS t{i}" for i, measure in enumerate(measures)]
    return f"SELECT {', '.join([*keys, *weighed]) or '1 AS one'} FROM ({cells})"


def _drawn(group: Group) -> list[draw.Part]:
    """What names a cell in the draw: the unit and the keys."""
    table = scan_of(group.source).table
    if table.unit is None or table.unit.key is None:
        raise InternalError("groups were to be drawn where the unit is a row")
    unit = ("u", table.column(table.unit.key).kind, False)
    return [unit, *((f"k{i}", _type(key.value.kind), key.value.nullable) for i, key in enumerate(group.keys))]


def _type(kind: Kind) -> ColumnType:
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


def _grouped(columns: list[str], source: str, keys: list[str]) -> str:
    return f"SELECT {', '.join(columns)} FROM ({source})" + (f" GROUP BY {', '.join(keys)}" if keys else "")


def _of_rows(index: int, measure: Measure) -> str:
    """A measure over rows that are units of their own."""
    match measure:
        case Count():
            return "count(*)" if measure.value is None else f"count(v{index})"
        case Sum():
            return _held(f"sum(v{index} - {_int(measure.offset)})")
        case People():
            raise InternalError("people cannot be counted where the unit is a row")


def _of_cell(index: int, measure: Measure) -> str:
    """What the rows of one unit in one group add up to; where every row counts, that is n."""
    match measure:
        case Count() | People():
            return f"count(v{index})"
        case Sum():
            return f"coalesce(sum(v{index} - {_int(measure.offset)}), 0)::HUGEINT"


def _weighed(index: int, measure: Measure, bound: Bound, digest: str) -> str:
    """⌊t·rows/n + h⌋ where n > rows, h in steps of 2^−16: floored by a shift that keeps the dividend ≥ 0.

    Where t is n, that is `rows`, whatever h is.
    """
    t = f"t{index}"
    if isinstance(measure, People):
        return "1" if measure.value is None else f"least({t}, 1)"
    if measure.value is None:
        return f"least(n, {bound.rows})"
    steps, offset = f"{draw.OFFSETS}::HUGEINT", f"{draw.offset_sql(digest)}::HUGEINT"
    share = f"{bound.rows}::HUGEINT * {steps} + n * {offset}) // (n * {steps})"
    if not isinstance(measure, Sum) or not measure.reach:
        return f"CASE WHEN n <= {bound.rows} THEN {t} ELSE ({t} * {share} END"
    back = measure.reach * bound.rows
    return f"CASE WHEN n <= {bound.rows} THEN {t} ELSE (({t} + {measure.reach}::HUGEINT * n) * {share} - {back} END"


def _held(total: str) -> str:
    return f"CAST(greatest(least(coalesce({total}, 0), {TOTAL}), -{TOTAL}) AS BIGINT)"


def treated(column: Column) -> str:
    """A column clamped to its bounds and, where it is real, as whole steps of its grid; NaN is null; texts are cut."""
    name = quoted(column.name)
    if column.kind is ColumnType.TEXT:
        return f"substring({name}, 1, {TEXT})"
    if not column.bounded or column.lower is None or column.upper is None or column.granularity is None:
        return name
    step = column.granularity
    low, high = _int(int(column.lower / step)), _int(int(column.upper / step))
    if column.kind is ColumnType.INTEGER:
        return f"CASE WHEN {name} < {low} THEN {low} WHEN {name} > {high} THEN {high} ELSE {name} END"
    steps = f"{name} * {_float(float(1 / step))}"
    below = f"{name} <= {_float(float(column.lower))} OR {steps} <= {_float(float(column.lower / step))}"
    above = f"{name} >= {_float(float(column.upper))} OR {steps} >= {_float(float(column.upper / step))}"
    return (
        f"CASE WHEN {name} IS NULL OR isnan({name}) THEN NULL WHEN {below} THEN {low} WHEN {above} THEN {high} "
        f"ELSE least({high}, greatest({low}, TRY_CAST(round({steps}) AS BIGINT))) END"
    )


# Expressions


def expression(value: Expression, apart: Mapping[int, str]) -> str:
    """An expression as SQL; numbers as whole steps. `apart` names the operations that are columns already, by id."""
    match value:
        case Field():
            return _name(value.column)
        case Constant():
            return _constant(value)
        case Call():
            return apart[id(value)] if id(value) in apart else _call(value, apart)


def _call(value: Call, apart: Mapping[int, str]) -> str:
    arguments = [_beside(argument, value.arguments[0], apart) for argument in value.arguments]
    match value.operation:
        case name if name in _BINARY:
            return "(" + f" {_BINARY[name]} ".join(arguments) + ")"
        case name if name in _FUNCTIONS:
            return f"{_FUNCTIONS[name]}({', '.join(arguments)})"
        case "same":
            return arguments[0]
        case "negate":
            return f"(-{arguments[0]})"
        case "not":
            return f"(NOT {arguments[0]})"
        case "is_null":
            return f"({arguments[0]} IS NULL)"
        case "in":
            return f"({arguments[0]} IN ({', '.join(arguments[1:])}))"
        case "number":
            return f"CAST({arguments[0]} AS BIGINT)"
        case "ilike":  # as DuckDB defines it, but whole pieces of the pattern are searched for, as in LIKE
            return f"(lower({arguments[0]}) LIKE lower({arguments[1]}))"
        case "case":
            pairs = zip(arguments[:-1:2], arguments[1:-1:2], strict=True)
            return "CASE " + " ".join(f"WHEN {when} THEN {then}" for when, then in pairs) + f" ELSE {arguments[-1]} END"
        case "floor":
            return _floor(value, *arguments)
        case "truncate":
            kind = "TIMESTAMP" if isinstance(value.kind, Moment) else "DATE"
            return f"TRY(CAST(date_trunc({arguments[1]}, {arguments[0]}) AS {kind}))"
        case "to_day":
            return f"TRY(CAST({arguments[0]} AS DATE))"
        case name if isinstance(value.kind, Fixed) and value.kind.bounded:  # a part of a date
            found = f"TRY(CAST(date_part('{name}', {arguments[0]}) AS BIGINT))"
            return f"CASE WHEN {found} BETWEEN {value.kind.lower} AND {value.kind.upper} THEN {found} END"
        case name:
            raise InternalError(f"no SQL is known for {name!r}")


def _floor(node: Call, value: str, divisor: str) -> str:
    """⌊value/divisor⌋: shifted by whole divisors so that nothing is negative when it is cut."""
    inner, by = node.arguments
    least = inner.kind.lower if isinstance(inner.kind, Fixed) and inner.kind.lower is not None else 0
    size = by.value if isinstance(by, Constant) and isinstance(by.value, int) else 1
    shift = max(0, -(least // size))
    if not shift:
        return f"({value} // {divisor})"
    return f"CAST(({value}::HUGEINT + {shift * size}) // {divisor} - {shift} AS BIGINT)"


def _beside(argument: Expression, first: Expression, apart: Mapping[int, str]) -> str:
    """An argument; a number compared with a column of reals is written as a float."""
    if isinstance(argument, Constant) and isinstance(first.kind, Real) and argument.number is not None:
        return _float(float(argument.number))
    return expression(argument, apart)


def _constant(value: Constant) -> str:
    match value.value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value.value else "FALSE"
        case int():
            return _int(value.value)
        case str():
            return literal(value.value)
        case _:
            kind = "DATE" if isinstance(value.kind, Day) else "TIMESTAMP"
            return f"{kind} '{value.value}'"


def _int(value: int | None) -> str:
    return f"({value})::BIGINT" if value is not None and value < 0 else f"{value}::BIGINT"


def _float(value: float) -> str:
    if not isfinite(value):
        raise InternalError("a bound beyond all floats was planned")
    return f"CAST('{value!r}' AS DOUBLE)"


def _name(column: Column) -> str:
    """What a column is called once it is treated: never u, n, k0, v0, t0, … whatever the owner calls it."""
    return quoted(f"c_{column.name}")
