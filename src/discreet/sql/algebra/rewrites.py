"""Relations rewritten: other numbers for scans and steps, dear operations computed below joins."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from discreet.sql.algebra.expression import Call, Constant, Expression, Field, Slot, leaves_of, substitute
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
    is_scanned,
    nodes_of,
    number_of,
    optional_leaf,
    own_expressions,
    slots_of,
)
from discreet.sql.algebra.verification import derived_again

__all__ = ["canonical_numbers", "computed_below", "renumbered"]


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
