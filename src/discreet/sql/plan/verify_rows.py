"""The rows that a plan reads, derived again from the owner's catalog: tables, chains of keys, columns, every step."""

from collections import Counter

from discreet.curator.catalog import Catalog
from discreet.curator.plan import to_document
from discreet.errors import InternalError
from discreet.sql.algebra.expression import Expression, leaves_of
from discreet.sql.algebra.kinds import Nothing, Truth
from discreet.sql.algebra.rows import (
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
    is_public,
    leaves_here,
    lookup_columns,
    nodes_of,
    number_of,
    scans_of,
    unit_type,
)
from discreet.sql.algebra.verification import verify_expression


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
