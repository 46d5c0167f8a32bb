"""Expressions, and the rows that a plan reads, derived a second time for the gate.

Relations rewritten: other numbers for scans and steps, dear operations computed below joins.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Any

from discreet.curator.catalog import Catalog
from discreet.curator.plan import to_document
from discreet.errors import InternalError
from discreet.sql.algebra import dates, functions
from discreet.sql.algebra.conditions import WHOLE, case, coalesce
from discreet.sql.algebra.expression import (
    Call,
    Constant,
    Domain,
    Expression,
    Field,
    Slot,
    all_of,
    leaves_of,
    substitute,
)
from discreet.sql.algebra.kinds import Fixed, Kind, Moment, Nothing, Text, Truth, Unsupported
from discreet.sql.algebra.rows import (
    Compute,
    Exists,
    Filter,
    Join,
    Order,
    Part,
    PersonAggregate,
    Projection,
    PublicScan,
    Rows,
    Scan,
    Step,
    Window,
    WindowCall,
    is_public,
    is_scanned,
    leaves_here,
    lookup_columns,
    nodes_of,
    number_of,
    optional_leaf,
    own_expressions,
    scans_of,
    slots_of,
    unit_type,
)

__all__ = ["canonical_numbers", "computed_below", "renumbered"]


def verify_expression(value: Expression) -> None:
    """Raise `InternalError` unless every operation states what follows from its arguments: kind, nulls and values.

    Guarantee: what passes, over columns that the catalog has, evaluates to null, to steps within its stated bounds, or
    to a text of at most its stated length.
    """
    if isinstance(value, Constant) and not _holds(value):
        raise InternalError("a plan states a range for a constant that does not hold it")
    if not isinstance(value, Call):
        return
    for argument in value.arguments:
        verify_expression(argument)
    try:
        kind, nullable, domain = derived_again(value)
    except Unsupported:
        raise InternalError(f"a plan has {value.operation} of what it cannot be of") from None
    if kind != value.kind:
        what = {Fixed: "range", Text: "length"}.get(type(value.kind), "kind")
        raise InternalError(f"a plan states a {what} for {value.operation} that it does not have")
    if nullable != value.nullable or domain != value.domain:
        raise InternalError(f"a plan states values for {value.operation} that it does not have")


def _holds(argument: Constant) -> bool:
    """Whether the kind of a constant holds its value."""
    match argument.kind, argument.value:
        case Fixed(_, lower, upper), int(value):
            return (lower is None or lower <= value) and (upper is None or value <= upper)
        case Text(length), str(value):
            return len(value) <= length
        case ((Fixed() | Text()), value):
            return value is None
        case _:
            return True


def derived_again(value: Call) -> tuple[Kind | None, bool, Domain | None]:
    """Kind, whether it can be null, and all values, from the operation and its arguments alone."""
    parts = value.arguments
    match value.operation:
        case "case":
            node = case(list(zip(parts[:-1:2], parts[1:-1:2], strict=True)), parts[-1])
        case "coalesce":
            node = coalesce(parts)
        case "truncate" if isinstance(parts[1], Constant) and isinstance(parts[1].value, str):
            node = dates.truncate_date(parts[1].value, parts[0])
        case name if name in _REBUILT:
            node = _REBUILT[name](parts)
        case "least" | "greatest":
            node = functions.extreme(value.operation == "greatest", parts)
        case name:
            kind = _kind_again(value)
            nullable = name != "is_null" and any(part.nullable for part in parts)
            return kind, nullable, None if kind is None else all_of(kind)
    if isinstance(node, Call) and node.arguments != parts:
        raise InternalError(f"a plan has {value.operation} of what it cannot be of")
    return node.kind, node.nullable, node.domain


def _kind_again(value: Call) -> Kind | None:  # noqa: PLR0911, PLR0912 (one branch an operation)
    parts, kinds = value.arguments, [argument.kind for argument in value.arguments]
    match value.operation, kinds:
        case name, _ if name in _CONDITIONS:
            return Truth()
        case "absolute", _:
            return functions.absolute(parts[0]).kind
        case (("add" | "subtract" | "multiply"), _):
            rules = {"add": functions.add, "subtract": functions.subtract, "multiply": functions.multiply}
            return rules[value.operation](parts[0], parts[1]).kind
        case "negate", [Fixed(step, int(a), int(b))]:
            return Fixed(step, -b, -a)
        case "same", [Fixed(_, lower, upper)] if isinstance(value.kind, Fixed):
            return Fixed(value.kind.step, lower, upper)
        case "times", [Fixed(step, int(a), int(b)), _] if (by := _whole(parts[1])) > 0:
            return Fixed(step / by, a * by, b * by)
        case "floor", [Fixed(_, int(a), int(b)), _] if (by := _whole(parts[1])) > 0:
            return Fixed(WHOLE, a // by, b // by)
        case "modulo", [Fixed(step, int(a), int(b)), _] if a >= 0 and (by := _whole(parts[1])) > 0:
            return Fixed(step, 0, min(b, by - 1))
        case "number", _:
            return Fixed(WHOLE, 0, 1)
        case "length", [Text(length)]:
            return Fixed(WHOLE, 0, length)
        case name, _ if name in dates.DATE_PARTS:
            return dates.date_part(name, parts[0]).kind
        case "to_day", [Moment()]:
            return dates.day_of(parts[0]).kind
        case (("lower" | "upper" | "trim"), [Text(length)]):
            return Text(functions.LONGER * length)
        case "substring", [Text(length), _, _]:
            return Text(min(_whole(parts[2]), length))
        case "concatenate", _ if all(isinstance(kind, Text) for kind in kinds):
            return Text(sum(kind.length for kind in kinds if isinstance(kind, Text)))
        case _:
            return None


def _text(value: Expression) -> str:
    return value.value if isinstance(value, Constant) and isinstance(value.value, str) else ""


def _curve(name: str, parts: Sequence[Expression]) -> Expression:
    return functions.curve(name, parts[0])


_REBUILT: dict[str, Callable[[Sequence[Expression]], Expression]] = {
    "day_number": lambda parts: dates.number_of_day(parts[0]),
    "microsecond_number": lambda parts: dates.number_of_moment(parts[0]),
    "day_of_number": lambda parts: dates.day_of_number(parts[0]),
    "moment_of_number": lambda parts: dates.moment_of_number(parts[0]),
    "plus_months": lambda parts: dates.shift(parts[0], _whole(parts[1]), "month"),
    "make_date": lambda parts: dates.make_date(parts[0], parts[1], parts[2]),
    "format_date": lambda parts: dates.format_date(parts[0], parts[1]),
    "sign": lambda parts: functions.sign(parts[0]),
    "square_root": lambda parts: functions.square_root(parts[0]),
    "quotient": lambda parts: functions.divide(parts[0], parts[1]),
    **{name: partial(_curve, name) for name in functions.CURVES},
    "matches": lambda parts: functions.matches(parts[0], parts[1]),
    "split_part": lambda parts: functions.split_part(parts[0], parts[1], parts[2]),
    "replace": lambda parts: functions.replace_text(parts[0], parts[1], parts[2]),
    "parsed_number": lambda parts: functions.parsed_number(
        parts[0], _text(parts[1]), _whole(parts[2]), _whole(parts[3])
    ),
    "parsed_date": lambda parts: functions.parsed_date(parts[0]),
    "text_of": lambda parts: functions.text_of(parts[0]),
}
"""Operations whose node is made again from its arguments; all of it must be the same."""

_CONDITIONS = frozenset(
    {"equal", "differ", "less", "less_equal", "greater", "greater_equal", "and", "or", "not", "in", "is_null"}
    | {"like", "ilike"}
)
"""Operations that are true or false."""


def _whole(value: Expression) -> int:
    return value.value if isinstance(value, Constant) and isinstance(value.value, int) else 0


# The rows that a plan reads, from the owner's catalog: tables, chains of keys, columns, every step


def verify_rows(rows: Rows, catalog: Catalog) -> None:
    """Raise `InternalError` unless a relation is made of the catalog's tables, and every step is what it may be.

    Guarantee: what passes holds, of a unit, rows that depend on that unit and on public tables alone (`rows`).
    """
    numbers = Counter(number for node in nodes_of(rows) if (number := number_of(node)) is not None)
    if any(count > 1 for count in numbers.values()):
        raise InternalError("a plan gives two relations the same number")
    for scan in scans_of(rows):
        _verify_scan(scan, catalog)
    if is_public(rows) or len({unit_type(scan) for scan in scans_of(rows) if isinstance(scan, Scan)}) != 1:
        raise InternalError("a plan puts rows of different units together")
    for node in nodes_of(rows):
        _verify_node(node)


def _verify_scan(scan: Scan | PublicScan, catalog: Catalog) -> None:
    table = scan.table
    if to_document(catalog.table(table.name)) != to_document(table) or table.private != isinstance(scan, Scan):
        raise InternalError(f"a plan was made for another table {table.name!r} than the catalog's")
    if isinstance(scan, Scan) and to_document(catalog.chain(table)) != to_document(scan.chain):
        raise InternalError(f"a plan reaches the unit of {table.name!r} by another chain than the catalog's")


def _verify_node(node: Rows) -> None:
    match node:
        case Filter():
            _verify_condition(node.condition, node.source)
        case Join():
            _verify_pair(node.left, node.right, node.condition)
            _verify_lookup(node)
            if is_public(node.right) and node.kind not in ("inner", "left"):
                raise InternalError("a plan keeps public rows that are nobody's")
        case Exists():
            _verify_pair(node.source, node.other, node.condition)
        case Step():
            _verify_step(node)
        case Window():
            _verify_window(node)
        case Compute():
            for value in node.columns:
                verify_part(value, node.source)
        case Projection():
            _verify_projection(node)


def _verify_step(node: Step) -> None:
    _require_person(node.source)
    for value in (*node.keys, *(call.value for call in node.aggregates if call.value is not None)):
        verify_part(value, node.source)
    if not all(map(_fits, node.aggregates)):
        raise InternalError("a plan adds up values of a person without bounds")


def _verify_window(node: Window) -> None:
    _require_person(node.source)
    for call in node.calls:
        values = [*call.partition, *(order.value for order in call.order)]
        for value in (*values, *([] if call.value is None else [call.value])):
            verify_part(value, node.source)
        if call.function == "sum" and not _fits(PersonAggregate("sum", call.value)):
            raise InternalError("a plan adds up values of a person without bounds")


def _verify_projection(node: Projection) -> None:
    for part in node.parts:
        for value in part.columns:
            verify_part(value, part.rows)
    for columns in zip(*(part.columns for part in node.parts), strict=True):
        steps = {(type(column.kind), getattr(column.kind, "step", None)) for column in columns}
        if len(steps - {(Nothing, None)}) > 1:
            raise InternalError("a plan puts columns of different kinds into one")


def _fits(call: PersonAggregate) -> bool:
    try:
        return call.fits
    except InternalError:
        return False


def _require_person(rows: Rows) -> None:
    if unit_type(rows) is None:
        raise InternalError("a plan takes steps over one person's rows where the unit is a row")


def _verify_pair(left: Rows, right: Rows, condition: Expression | None) -> None:
    """Two relations that are joined: rows of people, or the second public."""
    if is_public(left):
        raise InternalError("a plan joins rows to a public table, expected it the other way around")
    if not is_public(right) and unit_type(left) is None:
        raise InternalError("a plan joins private rows that nothing ties to a person")
    if condition is not None:
        _verify_condition(condition, Join(left, right, "inner", None))


def _verify_lookup(join: Join) -> None:
    """Where rows are units of their own, each finds at most one public row: all columns of a lookup are compared."""
    if unit_type(join.left) is not None:
        if join.lookup:
            raise InternalError("a plan looks up single rows where people have several")
        return
    if not join.lookup or not set(join.lookup) <= set(leaves_here(join.right)):
        raise InternalError("a plan joins public rows to rows that are units of their own, and may make several of one")
    compared = set(lookup_columns(join.condition, join.left))
    if not set(join.lookup) <= compared:
        raise InternalError("a plan looks up public rows by columns that it does not compare")


def _verify_condition(value: Expression, rows: Rows) -> None:
    verify_part(value, rows)
    if not isinstance(value.kind, Truth | Nothing):
        raise InternalError("a plan filters rows by something that is neither true nor false")


def verify_part(value: Expression, rows: Rows) -> None:
    """An expression over the rows of a relation: its operations, and its columns as the relation has them."""
    verify_expression(value)
    known = set(leaves_here(rows))
    for leaf in leaves_of(value):
        if leaf not in known:
            raise InternalError(f"a plan was made for another column {str(leaf)!r} than the catalog's")


def renumbered(value: Any, numbers: Mapping[int, int]) -> Any:
    """A relation, an expression or a tuple of them, with other numbers for its scans and steps."""
    match value:
        case tuple():
            return tuple(renumbered(part, numbers) for part in value)
        case Field() | Slot() | Scan() | PublicScan():
            return replace(value, source=numbers.get(value.source, value.source))
        case Call():
            return replace(value, arguments=renumbered(value.arguments, numbers))
        case Step() | Window() | Compute() | Projection():
            inner = {part.name: renumbered(getattr(value, part.name), numbers) for part in fields(value)}
            return replace(value, **(inner | {"index": numbers.get(value.index, value.index)}))
        case Filter() | Join() | Exists() | PersonAggregate() | Order() | WindowCall() | Part():
            return replace(
                value, **{part.name: renumbered(getattr(value, part.name), numbers) for part in fields(value)}
            )
        case _:
            return value


def canonical_numbers(rows: Rows) -> dict[int, int]:
    """From the numbers of a relation to 0, 1, … in the order of its parts: equal relations get equal numbers."""
    numbers = [number for node in nodes_of(rows) if (number := number_of(node)) is not None]
    return {number: i for i, number in enumerate(sorted(numbers, key=_scans_first(rows)))}


def _scans_first(rows: Rows) -> Callable[[int], tuple[bool, int]]:
    order = [node for node in nodes_of(rows) if number_of(node) is not None]
    places = {number_of(node): (not isinstance(node, Scan | PublicScan), i) for i, node in enumerate(order)}
    return lambda number: places[number]


_DEAR = 50
"""Nanoseconds: what takes more on a row is computed below joins."""


def computed_below(rows: Rows, wanted: Sequence[Expression]) -> tuple[Rows, dict[Expression, Expression]]:
    """The relation with dear operations on one table's columns computed where that table is read.

    So they are computed on all its rows, whatever conditions, joins and steps above decide. Also gives what stands for
    each of them above: among `wanted`, what is computed from the relation.
    """
    if is_scanned(rows):
        return rows, {}
    numbers = iter(range(1 + max(filter(None, map(number_of, nodes_of(rows))), default=0), 10**9))
    return _lowered(rows, list(wanted), numbers)


def _lowered(rows: Rows, wanted: list[Expression], numbers: Iterator[int]) -> tuple[Rows, dict[Expression, Expression]]:
    wanted = [*wanted, *own_expressions(rows)]
    match rows:
        case Scan() | PublicScan():
            dear = tuple(dict.fromkeys(part for value in wanted for part in _dear_parts(value, rows.source)))
            if not dear:
                return rows, {}
            made = Compute(rows, tuple(map(_without_options, dear)), next(numbers))
            slots = zip(dear, slots_of(made), strict=True)
            return made, {value: optional_leaf(slot) if _is_optional(value) else slot for value, slot in slots}
        case Projection():  # what stands above knows its slots only
            parts = [_lowered_part(part, numbers) for part in rows.parts]
            return replace(rows, parts=tuple(parts)), {}
        case _:
            names: dict[Expression, Expression] = {}
            changed: dict[str, Any] = {}
            for part in fields(rows):
                inner = getattr(rows, part.name)
                if isinstance(inner, Rows):
                    changed[part.name], more = _lowered(inner, wanted, numbers)
                    names |= more
            for part in fields(rows):
                if part.name not in changed:
                    changed[part.name] = _substituted(getattr(rows, part.name), names)
            made_again: Rows = replace(rows, **changed)
            return made_again, {} if isinstance(rows, Step) else names


def _lowered_part(part: Part, numbers: Iterator[int]) -> Part:
    rows, names = _lowered(part.rows, list(part.columns), numbers)
    return Part(rows, tuple(substitute(value, names) for value in part.columns))


def _substituted(value: Any, names: Mapping[Expression, Expression]) -> Any:
    match value:
        case tuple():
            return tuple(_substituted(part, names) for part in value)
        case Field() | Slot() | Constant() | Call():
            return substitute(value, names)
        case PersonAggregate() | Order() | WindowCall():
            return replace(
                value, **{part.name: _substituted(getattr(value, part.name), names) for part in fields(value)}
            )
        case _:
            return value


def _dear_parts(value: Expression, source: int) -> Iterator[Expression]:
    """The largest parts of an expression that are made of one table's columns, and dear."""
    if not isinstance(value, Call) or value.work <= _DEAR:
        return
    leaves = leaves_of(value)
    own = leaves and all(isinstance(leaf, Field) and leaf.source == source for leaf in leaves)
    options = {leaf.optional for leaf in leaves}
    if own and (options == {False} or (options == {True} and _is_null_where_any_is(value))):
        yield value
        return
    for argument in value.arguments:
        yield from _dear_parts(argument, source)


_TAKES_NULLS = frozenset({"case", "coalesce", "is_null", "and", "or", "least", "greatest"})
"""Operations that may give a value where an argument is null."""


def _is_null_where_any_is(value: Expression) -> bool:
    """Whether an expression is null wherever one of its columns is: so it may be computed below an outer join."""
    if not isinstance(value, Call):
        return True
    return value.operation not in _TAKES_NULLS and all(map(_is_null_where_any_is, value.arguments))


def _is_optional(value: Expression) -> bool:
    return any(leaf.optional for leaf in leaves_of(value))


def _without_options(value: Expression) -> Expression:
    """The same before an outer join: nulls are those of the columns."""
    match value:
        case Field():
            return replace(value, optional=False)
        case Call() if _is_optional(value):
            below = replace(value, arguments=tuple(map(_without_options, value.arguments)))
            return replace(below, nullable=derived_again(below)[1])
        case _:
            return value
