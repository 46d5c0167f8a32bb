"""Relations of private rows as SQL: scans, joins, steps over one person's rows, each beneath its filters.

Guarantee: the SQL holds, for every relation of `algebra.rows`, the rows that it is defined to have, with the unit u.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from discreet.curator.catalog import Column
from discreet.curator.engines.dialects import DUCKDB, Dialect
from discreet.errors import InternalError
from discreet.sql.algebra.expression import GATES, Call, Expression, Field, Leaf, Slot, leaves_of
from discreet.sql.algebra.kinds import Fixed
from discreet.sql.algebra.rows import (
    MEAN_STEPS,
    Compute,
    Exists,
    Filter,
    Join,
    PersonAggregate,
    Projection,
    PublicScan,
    Rows,
    Scan,
    Step,
    Window,
    WindowCall,
    base_of,
    conditions_of,
    is_public,
    leaves_here,
    unit_of,
)
from discreet.sql.release.expression_sql import call_sql, column_name, expression, held, leaf_name, treated

__all__ = ["select_rows"]


def select_rows(rows: Rows, columns: Mapping[str, Expression], dialect: Dialect = DUCKDB, *, switched: bool) -> str:
    """The rows of a relation with the unit u, where it is a person, and these columns.

    Rows that are null in a column that the policy declares never null are left out, so that it never is. `switched`:
    conditions may decide whether expressions are computed.
    """
    base, conditions = base_of(rows), conditions_of(rows)
    parts = [*conditions, *columns.values()]
    leaves = list(dict.fromkeys(leaf for part in parts for leaf in leaves_of(part)))
    source = _base(base, leaves, switched, dialect)
    apart: dict[int, str] = {}
    if not switched:
        source, apart = _apart(parts, source, dialect)
    listed = [f"{expression(value, apart, dialect)} AS {name}" for name, value in columns.items()]
    tests = [expression(condition, apart, dialect) for condition in conditions]
    if isinstance(base, Scan | PublicScan):
        fields = dict.fromkeys(
            leaf_name(leaf, dialect) for leaf in leaves if isinstance(leaf, Field) and not leaf.column.nullable
        )
        tests = [*(f"{name} IS NOT NULL" for name in fields), *tests]
    if _has_person(rows):
        listed.insert(0, "u")
        if isinstance(base, Scan):
            tests.insert(0, "u IS NOT NULL")
    where = f" WHERE {' AND '.join(tests)}" if tests else ""
    return f"SELECT {', '.join(listed or ['1 AS one'])} FROM {dialect.sub(source)}{where}"


def _has_person(rows: Rows) -> bool:
    return not is_public(rows) and unit_of(rows).key is not None


def _base(base: Rows, leaves: Sequence[Leaf], switched: bool, dialect: Dialect) -> str:
    """What lies beneath all filters, with the unit u and columns for these leaves."""
    match base:
        case Scan() | PublicScan():
            return _read(base, list(dict.fromkeys(leaf.column for leaf in leaves if isinstance(leaf, Field))), dialect)
        case Join():
            return _joined(base, leaves, switched, dialect)
        case Exists():
            return _existing(base, leaves, switched, dialect)
        case Step():
            return _stepped(base, leaves, switched, dialect)
        case Window():
            return _windowed(base, leaves, switched, dialect)
        case Compute():
            made = {f"s{base.index}_{i}": value for i, value in enumerate(base.columns)}
            below = {leaf_name(leaf, dialect): leaf for leaf in leaves if leaf_name(leaf, dialect) not in made}
            return select_rows(base.source, {**below, **made}, dialect, switched=switched)
        case Projection():
            used = [leaf.index for leaf in leaves if isinstance(leaf, Slot)]
            parts = [
                select_rows(
                    part.rows, {f"s{base.index}_{i}": part.columns[i] for i in used}, dialect, switched=switched
                )
                for part in base.parts
            ]
            return " UNION ALL ".join(parts)
        case Filter():
            raise InternalError("a filter was taken for what lies beneath it")


def _side(rows: Rows, leaves: Iterable[Leaf], switched: bool, dialect: Dialect) -> str:
    """A relation with columns for those of these leaves that are its own."""
    names = {leaf_name(leaf) for leaf in leaves_here(rows)}
    own = {leaf_name(leaf, dialect): leaf for leaf in leaves if leaf_name(leaf) in names}
    return select_rows(rows, own, dialect, switched=switched)


def _joined(join: Join, leaves: Sequence[Leaf], switched: bool, dialect: Dialect) -> str:
    wanted = [*leaves, *(leaves_of(join.condition) if join.condition is not None else ())]
    wanted += join.lookup
    left, right = (_side(side, wanted, switched, dialect) for side in (join.left, join.right))
    if join.lookup:
        names = [
            leaf_name(leaf, dialect)
            for leaf in leaves_here(join.right)
            if leaf_name(leaf) in {leaf_name(other) for other in wanted}
        ]
        keys = ", ".join(leaf_name(leaf, dialect) for leaf in join.lookup)
        order = ", ".join(f"{name} ASC NULLS LAST" for name in names)
        right = dialect.numbered(right, f"row_number() OVER (PARTITION BY {keys} ORDER BY {order})", 1, equal=True)
    tests = [] if is_public(join.right) or not _has_person(join.left) else ["l.u = r.u"]
    tests += [] if join.condition is None else [expression(join.condition, {}, dialect)]
    columns = list(dict.fromkeys(leaf_name(leaf, dialect) for leaf in leaves))
    if _has_person(join.left):
        unit = {"right": "r.u", "full": "coalesce(l.u, r.u)"}.get(join.kind, "l.u")
        columns.insert(0, f"{unit} AS u")
    on = f"{join.kind.upper()} JOIN ({right}) AS r ON {' AND '.join(tests) or 'TRUE'}"
    return f"SELECT {', '.join(columns) or '1 AS one'} FROM ({left}) AS l {on}"


def _existing(node: Exists, leaves: Sequence[Leaf], switched: bool, dialect: Dialect) -> str:
    inner = leaves_of(node.condition) if node.condition is not None else []
    source, other = (_side(side, [*leaves, *inner], switched, dialect) for side in (node.source, node.other))
    tests = [] if is_public(node.other) or not _has_person(node.source) else ["l.u = r.u"]
    tests += [] if node.condition is None else [expression(node.condition, {}, dialect)]
    names = dict.fromkeys(leaf_name(leaf, dialect) for leaf in leaves)
    columns = ", ".join([*(["l.u AS u"] if _has_person(node.source) else []), *names]) or "1 AS one"
    return dialect.semi_join(columns, source, other, " AND ".join(tests) or "TRUE", negated=node.negated)


def _stepped(step: Step, leaves: Sequence[Leaf], switched: bool, dialect: Dialect) -> str:
    used = {leaf.index for leaf in leaves if isinstance(leaf, Slot)}
    inner = {f"k{i}": key for i, key in enumerate(step.keys)}
    wanted = [(i, call) for i, call in enumerate(step.aggregates, len(step.keys)) if i in used]
    inner |= {f"v{i}": call.value for i, call in wanted if call.value is not None}
    keys = [f"k{i}" for i in range(len(step.keys))]
    columns = [f"k{i} AS s{step.index}_{i}" for i in range(len(keys)) if i in used]
    columns += [f"{_of_person(call, f'v{i}', dialect)} AS s{step.index}_{i}" for i, call in wanted]
    source = select_rows(step.source, inner, dialect, switched=switched)
    return f"SELECT {', '.join(['u', *columns])} FROM {dialect.sub(source)} GROUP BY {', '.join(['u', *keys])}"


def _of_person(call: PersonAggregate, value: str, dialect: Dialect) -> str:
    """An aggregate of one person's rows: whole numbers, or a value that one of the rows has."""
    match call.function:
        case "count":
            return "count(*)" if call.value is None else f"count({value})"
        case "distinct":
            return f"count(DISTINCT {value})"
        case "sum":
            return f"CASE WHEN count({value}) > 0 THEN {held(dialect.total(value))} END"
        case "mean":
            lower = call.value.kind.lower if call.value is not None and isinstance(call.value.kind, Fixed) else 0
            shift = max(0, -(lower or 0))  # what is cut is never negative
            total = f"({dialect.total(value)} + {dialect.wide(str(shift))} * count({value})) * {MEAN_STEPS}"
            mean = f"{dialect.cut(total, f'count({value})')} - {shift * MEAN_STEPS}"
            return f"CASE WHEN count({value}) > 0 THEN CAST({mean} AS BIGINT) END"
        case "min" | "max" as name:
            return f"{name}({value})"


def _windowed(window: Window, leaves: Sequence[Leaf], switched: bool, dialect: Dialect) -> str:
    """The rows with further columns. Rows that are equal in an order come in the order of all columns that are used.

    Rows that are equal in all of them may change places in one such order, which changes nothing that is read above. In
    two, each might give them other places: so they are numbered first, and every order ends with that number.
    """
    own = [leaf for leaf in leaves if isinstance(leaf, Slot) and leaf.source == window.index]
    below = {leaf_name(leaf, dialect): leaf for leaf in leaves if leaf not in own}
    calls = [(i, window.calls[i]) for i in dict.fromkeys(leaf.index for leaf in own)]
    inner: dict[str, Expression] = dict(below)
    for i, call in calls:
        inner |= {f"w{i}p{j}": value for j, value in enumerate(call.partition)}
        inner |= {f"w{i}o{j}": order.value for j, order in enumerate(call.order)}
        inner |= {} if call.value is None else {f"w{i}v": call.value}
    source = select_rows(window.source, inner, dialect, switched=switched)
    ties = [f"{name} ASC NULLS LAST" for name in inner]
    if sum(call.function in _PLACED for _, call in calls) > 1:
        number = f"row_number() OVER (PARTITION BY u ORDER BY {', '.join(ties or ['u'])})"
        source, ties = f"SELECT *, {number} AS place FROM {dialect.sub(source)}", ["place"]
    columns = ["u", *below]
    for i, call in calls:
        sorts = [
            f"w{i}o{j} {'DESC' if order.descending else 'ASC'} NULLS {'FIRST' if order.nulls_first else 'LAST'}"
            for j, order in enumerate(call.order)
        ]
        sorts += ties if call.function in _PLACED else []
        over = ", ".join(["PARTITION BY u", *(f"w{i}p{j}" for j in range(len(call.partition)))])
        over += f" ORDER BY {', '.join(sorts)}" if sorts else ""
        columns.append(f"{_of_window(call, i, over, dialect)} AS s{window.index}_{i}")
    return f"SELECT {', '.join(columns)} FROM {dialect.sub(source)}"


_PLACED = ("row_number", "lag", "lead")
"""Window functions that tell rows apart which are equal in the order."""


def _of_window(call: WindowCall, index: int, over: str, dialect: Dialect) -> str:
    value = "*" if call.value is None else f"w{index}v"
    match call.function:
        case "row_number" | "rank" | "dense_rank" as name:
            return f"{name}() OVER ({over})"
        case "sum":
            return (
                f"CASE WHEN count({value}) OVER ({over}) > 0 THEN {held(f'{dialect.total(value)} OVER ({over})')} END"
            )
        case name:
            return f"{name}({value}) OVER ({over})"


def _apart(parts: list[Expression], source: str, dialect: Dialect) -> tuple[str, dict[int, str]]:
    """The source with columns d0, d1, … for operations that no condition may switch; which operation is which column.

    An operation whose arguments hold such columns comes one projection later. Operations are told apart by `id`.
    """
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
            sql = call_sql(value, names, dialect)
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
        source = f"SELECT *, {', '.join(columns)} FROM {dialect.sub(source)}"
    return source, names


def _read(scan: Scan | PublicScan, columns: list[Column], dialect: Dialect) -> str:
    """The columns that are used, each as it is treated, under names that no other column of these queries has."""
    quoted = dialect.quoted
    parts = [f"{treated(column, dialect)} AS {column_name(column, scan.source, dialect)}" for column in columns]
    table = scan.table
    if isinstance(scan, Scan) and table.link is not None:
        parts.insert(0, f"{quoted(table.column(table.link.column).name)} AS link")
        rows = f"SELECT {', '.join(parts)} FROM {quoted(table.name)}"
        names = [column_name(column, scan.source, dialect) for column in columns]
        joined = f"({rows}) AS l JOIN ({_people(scan, dialect)}) AS r ON link = person"
        return f"SELECT {', '.join(['u', *names])} FROM {joined}"
    if isinstance(scan, Scan) and scan.unit.key is not None:
        parts.insert(0, f"{quoted(table.column(scan.unit.key).name)} AS u")
    return f"SELECT {', '.join(parts or ['1 AS one'])} FROM {quoted(table.name)}"


def _people(scan: Scan, dialect: Dialect) -> str:
    """For each key that a chain starts with, the person that it leads to: `person`, u."""
    quoted = dialect.quoted
    *between, last = scan.chain
    tables = [scan.table, *scan.chain]
    keys = [quoted(after.column(before.link.key).name) for before, after in pairwise(tables) if before.link is not None]
    if last.unit_column is None or len(keys) != len(scan.chain):
        raise InternalError("a chain of keys does not end at a person")
    people = f"SELECT {keys[-1]} AS person, {quoted(last.unit_column.name)} AS u FROM {quoted(last.name)}"
    for table, key in zip(reversed(between), reversed(keys[:-1]), strict=True):
        onward = quoted(table.column(table.link.column).name) if table.link is not None else ""
        rows = f"SELECT {key} AS link_key, {onward} AS onward FROM {quoted(table.name)}"
        people = f"SELECT link_key AS person, u FROM ({rows}) AS l JOIN ({people}) AS r ON onward = person"
    return people
