"""The algebra as SQL for DuckDB. The only place where SQL for private rows is written; no analyst text gets here.

Guarantee: the SQL computes exactly what `algebra` says, in integers that do not overflow, and cannot fail on any row.
How: columns are clamped as they are read; every operation is total (`operations`); products, sums and the scaling of
long contributions run in 128 bits; totals are clamped to ±2^61.
"""

from math import isfinite

from discreet.curator.catalog import Column, ColumnType
from discreet.curator.engines.columns import literal, quoted
from discreet.errors import InternalError
from discreet.query.algebra import (
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
from discreet.query.expression import Call, Constant, Expression, Field, fields_of
from discreet.query.kinds import Day, Fixed, Moment, Real

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
    "ilike": "ILIKE",
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

    Columns of measures are BIGINT and never null. Rows come in no particular order.
    """
    bound, group = aggregate.source, aggregate.source.source
    rows = _rows(group, aggregate.measures)
    keys = [f"k{i}" for i in range(len(group.keys))]
    if scan_of(group.source).unit.key is None:
        measures = [f"{_of_rows(i, measure)} AS m{i}" for i, measure in enumerate(aggregate.measures)]
        return _grouped([*keys, "count(*) AS units", *measures], rows, keys)
    measures = [f"{_held(f'sum(t{i})')} AS m{i}" for i in range(len(aggregate.measures))]
    return _grouped([*keys, "count(*) AS units", *measures], _chosen(bound, aggregate.measures, rows), keys)


def _rows(group: Group, measures: tuple[Measure, ...]) -> str:
    """The rows that count, with the unit u, the keys k0, … and the values v0, … of the measures.

    Rows that are null in a column that the policy declares never null are left out, so that it never is.
    """
    scan, conditions = scan_of(group.source), conditions_of(group.source)
    columns = [f"{expression(key.value)} AS k{i}" for i, key in enumerate(group.keys)]
    columns += [f"{expression(m.value)} AS v{i}" for i, m in enumerate(measures) if m.value is not None]
    parts = [*conditions, *(key.value for key in group.keys), *(m.value for m in measures if m.value is not None)]
    read = {field.column: None for part in parts for field in fields_of(part)}
    tests = [f"{_name(column)} IS NOT NULL" for column in read if not column.nullable]
    tests += [expression(condition) for condition in conditions]
    if scan.unit.key is not None:
        columns.insert(0, "u")
        tests.insert(0, "u IS NOT NULL")
    where = f" WHERE {' AND '.join(tests)}" if tests else ""
    return f"SELECT {', '.join(columns or ['1 AS one'])} FROM ({_read(scan, list(read))}){where}"


def _read(scan: Scan, columns: list[Column]) -> str:
    """The columns that are used, each as it is treated, under names that no other column of these queries has."""
    parts = [f"{treated(column)} AS {_name(column)}" for column in columns]
    if scan.unit.key is not None:
        parts.insert(0, f"{quoted(scan.table.column(scan.unit.key).name)} AS u")
    return f"SELECT {', '.join(parts or ['1 AS one'])} FROM {quoted(scan.table.name)}"


def _chosen(bound: Bound, measures: tuple[Measure, ...], rows: str) -> str:
    """One row for each unit and group that counts, with what the unit adds there to each measure: t0, t1, …"""
    keys = [f"k{i}" for i in range(len(bound.source.keys))]
    parts = [f"{_of_cell(i, measure)} AS t{i}" for i, measure in enumerate(measures)]
    cells = (
        f"SELECT {', '.join(['u', *keys, 'count(*) AS n', *parts])} FROM ({rows}) GROUP BY {', '.join(['u', *keys])}"
    )
    order = f"hash({', '.join(['u', *keys])})"
    if bound.source.size is None or bound.groups < bound.source.size:
        names = [*keys, "n", *(f"t{i}" for i in range(len(measures)))]
        packed = ", ".join(f"{name} := {name}" for name in names)
        best = (
            f"SELECT u, unnest(min_by(struct_pack({packed}), {order}, {bound.groups})) AS c FROM ({cells}) GROUP BY u"
        )
        cells = f"SELECT u, {', '.join(f'c.{name} AS {name}' for name in names)} FROM ({best})"
    weighed = [f"{_weighed(i, measure, bound, order)} AS t{i}" for i, measure in enumerate(measures)]
    return f"SELECT {', '.join([*keys, *weighed]) or '1 AS one'} FROM ({cells})"


def _grouped(columns: list[str], source: str, keys: list[str]) -> str:
    return f"SELECT {', '.join(columns)} FROM ({source})" + (f" GROUP BY {', '.join(keys)}" if keys else "")


def _of_rows(place: int, measure: Measure) -> str:
    """A measure over rows that are units of their own."""
    match measure:
        case Count():
            return "count(*)" if measure.value is None else f"count(v{place})"
        case Sum():
            return _held(f"sum(v{place} - {_int(measure.offset)})")
        case People():
            raise InternalError("people cannot be counted where the unit is a row")


def _of_cell(place: int, measure: Measure) -> str:
    """What the rows of one unit in one group add up to."""
    match measure:
        case Count() | People():
            return "count(*)" if measure.value is None else f"count(v{place})"
        case Sum():
            return f"coalesce(sum(v{place} - {_int(measure.offset)}), 0)::HUGEINT"


def _weighed(place: int, measure: Measure, bound: Bound, order: str) -> str:
    """⌊t·rows/n + h⌋ where n > rows, h in steps of 2^−16: floored by a shift that keeps the dividend ≥ 0."""
    t = f"t{place}"
    if isinstance(measure, People):
        return f"least({t}, 1)"
    share = f"{bound.rows}::HUGEINT * 65536 + n * ({order} & 65535)::HUGEINT) // (n * 65536::HUGEINT)"
    if not isinstance(measure, Sum) or not measure.reach:
        return f"CASE WHEN n <= {bound.rows} THEN {t} ELSE ({t} * {share} END"
    back = measure.reach * bound.rows
    return f"CASE WHEN n <= {bound.rows} THEN {t} ELSE (({t} + {measure.reach}::HUGEINT * n) * {share} - {back} END"


def _held(total: str) -> str:
    return f"CAST(greatest(least(coalesce({total}, 0), {TOTAL}), -{TOTAL}) AS BIGINT)"


def treated(column: Column) -> str:
    """A column clamped to its bounds and, where it is real, as whole steps of its grid; NaN is null."""
    name = quoted(column.name)
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


def expression(one: Expression) -> str:
    """An expression as SQL; numbers as whole steps."""
    match one:
        case Field():
            return _name(one.column)
        case Constant():
            return _constant(one)
        case Call():
            return _call(one)


def _call(one: Call) -> str:
    arguments = [_beside(argument, one.arguments[0]) for argument in one.arguments]
    match one.operation:
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
        case "case":
            pairs = zip(arguments[:-1:2], arguments[1:-1:2], strict=True)
            return "CASE " + " ".join(f"WHEN {when} THEN {then}" for when, then in pairs) + f" ELSE {arguments[-1]} END"
        case "floor":
            return _floor(one, *arguments)
        case "truncate":
            kind = "TIMESTAMP" if isinstance(one.kind, Moment) else "DATE"
            return f"TRY(CAST(date_trunc({arguments[1]}, {arguments[0]}) AS {kind}))"
        case "to_day":
            return f"TRY(CAST({arguments[0]} AS DATE))"
        case name if isinstance(one.kind, Fixed) and one.kind.bounded:  # a part of a date
            found = f"TRY(CAST(date_part('{name}', {arguments[0]}) AS BIGINT))"
            return f"CASE WHEN {found} BETWEEN {one.kind.lower} AND {one.kind.upper} THEN {found} END"
        case name:
            raise InternalError(f"no SQL is known for {name!r}")


def _floor(one: Call, value: str, divisor: str) -> str:
    """⌊value/divisor⌋: shifted by whole divisors so that nothing is negative when it is cut."""
    inner, by = one.arguments
    least = inner.kind.lower if isinstance(inner.kind, Fixed) and inner.kind.lower is not None else 0
    size = by.value if isinstance(by, Constant) and isinstance(by.value, int) else 1
    shift = max(0, -(least // size))
    if not shift:
        return f"({value} // {divisor})"
    return f"CAST(({value}::HUGEINT + {shift * size}) // {divisor} - {shift} AS BIGINT)"


def _beside(argument: Expression, first: Expression) -> str:
    """An argument; a number compared with a column of reals is written as a float."""
    if isinstance(argument, Constant) and isinstance(first.kind, Real) and argument.number is not None:
        return _float(float(argument.number))
    return expression(argument)


def _constant(one: Constant) -> str:
    match one.value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if one.value else "FALSE"
        case int():
            return _int(one.value)
        case str():
            return literal(one.value)
        case _:
            kind = "DATE" if isinstance(one.kind, Day) else "TIMESTAMP"
            return f"{kind} '{one.value}'"


def _int(value: int | None) -> str:
    return f"({value})::BIGINT" if value is not None and value < 0 else f"{value}::BIGINT"


def _float(value: float) -> str:
    if not isfinite(value):
        raise InternalError("a bound beyond all floats was planned")
    return f"CAST('{value!r}' AS DOUBLE)"


def _name(column: Column) -> str:
    """What a column is called once it is treated: never u, n, k0, v0, t0, … whatever the owner calls it."""
    return quoted(f"c_{column.name}")
