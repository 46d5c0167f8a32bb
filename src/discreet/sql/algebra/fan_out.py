"""How many rows joins make of one, at most: what a row can choose of the work by what it meets.

Two things are bounded, from the relation and the catalog alone. *Matches*: to how many rows public tables make one, by
what is known of them (`Table.repeats`); each is paid for by the row's nanoseconds (`Aggregate.work`). *Crossings*: how
often a person's rows are paired with each other. Two tables of n rows a person make n² pairs, three n³: forty rows, met
by themselves six times, are four thousand million. So one such pairing is accepted, and a second is not.

A table of which the policy says that a person counts in one group with one row has, as its owner knows it, one row a
person; and a key that a chain leads to names one row. Both are the owner's word on the data, as elsewhere: where it is
wrong, a person has more rows than is thought, and takes longer.
"""

from collections.abc import Iterator

from discreet.sql.algebra.expression import Call, Expression, Field, Leaf, Slot
from discreet.sql.algebra.rows import (
    Compute,
    Exists,
    Join,
    Projection,
    PublicScan,
    Rows,
    Scan,
    Step,
    at_most_one_row,
    base_of,
    conjuncts_of,
    is_public,
    is_unit,
    leaves_here,
    lookup_columns,
    nodes_of,
    scans_of,
)

__all__ = ["MOST_CROSSINGS", "crossings", "most_matches"]

MOST_CROSSINGS = 2
"""The most tables of many rows a person that are paired with each other."""

_Keys = set[tuple[str, str]]


def most_matches(rows: Rows) -> int:
    """How many rows of public tables one row is compared with, at most: 1 where each finds one."""
    return _matches(rows)[1]


def _matches(rows: Rows) -> tuple[int, int]:
    """To how many rows one row becomes, and with how many it is compared anywhere below."""
    match rows:
        case Scan() | PublicScan():
            return 1, 1
        case Join(left=left, right=other) | Exists(source=left, other=other):
            made, compared = _matches(left)
            if is_public(other):
                looked_up = isinstance(rows, Join) and rows.lookup
                times, inside = 1 if looked_up else _met(rows.condition, left, other), 1
            else:
                times, inside = _matches(other)
            pairs = made * times
            return pairs if isinstance(rows, Join) else made, max(compared, inside, pairs)
        case Projection():
            parts = [_matches(part.rows) for part in rows.parts]
            made = sum(part for part, _ in parts)
            return made, max(made, *(compared for _, compared in parts))
        case _:
            return _matches(rows.source)


def _met(condition: Expression | None, left: Rows, public: Rows) -> int:
    """How many rows of a public table one row meets at most: those that share a value that is compared, or all."""
    met = 1
    for scan in scans_of(public):
        repeats = scan.table.repeats
        if repeats:
            names = [column.name for column in scan.table.columns]
            results = [_column(leaf, public) for leaf in lookup_columns(condition, left)]
            places = [1 + names.index(leaf.column.name) for leaf in results if leaf and leaf.source == scan.source]
            met *= max(1, min(repeats[place] for place in (0, *places)))
    return met


def _column(leaf: Leaf, rows: Rows) -> Field | None:
    """The column that a leaf is, through projections and computed columns; None where it is computed."""
    if isinstance(leaf, Field):
        return leaf
    for node in nodes_of(rows):
        if isinstance(node, Compute) and node.index == leaf.source:
            value: Expression = node.columns[leaf.index]
        elif isinstance(node, Projection) and node.index == leaf.source and len(node.parts) == 1:
            value = node.parts[0].columns[leaf.index]
        else:
            continue
        return _column(value, rows) if isinstance(value, Field | Slot) else None
    return None


def crossings(rows: Rows) -> int:
    """Of how many tables with many rows a person all combinations are made, at most."""
    links = [table.link for scan in scans_of(rows) if isinstance(scan, Scan) for table in (scan.table, *scan.chain)]
    keys = {(link.table.casefold(), link.key.casefold()) for link in links if link is not None}
    return _crossed(rows, keys)[1]


def _crossed(rows: Rows, keys: _Keys) -> tuple[int, int]:
    """The power of n in the number of a person's rows, where every table has n of them; and the largest one below."""
    match rows:
        case Scan():
            power = worst = int(not rows.table.groups == rows.table.rows == 1)
        case PublicScan():
            power = worst = 0
        case Join(left=left, right=other) | Exists(source=left, other=other):
            (power, worst), (theirs, inside) = _crossed(left, keys), _crossed(other, keys)
            met = power if is_public(other) else _paired(rows.condition, (left, power), (other, theirs), keys)
            pairs = met if isinstance(rows, Join) or rows.condition is not None else power
            power = met if isinstance(rows, Join) else power
            worst = max(worst, inside, pairs)
        case Projection():
            results = [_crossed(part.rows, keys) for part in rows.parts]
            power, worst = (max(each) for each in zip(*results, strict=True))
        case _:
            power, worst = _crossed(rows.source, keys)
    return 0 if at_most_one_row(rows) else power, worst


def _paired(condition: Expression | None, left: tuple[Rows, int], right: tuple[Rows, int], keys: _Keys) -> int:
    """The power of n in the number of pairs of rows of one person."""
    compared = set(_compared(condition))
    (one, n), (other, m) = left, right
    if _is_single(other, compared):
        return n
    if _is_single(one, compared):
        return m
    named = any(
        _is_key(leaf, rows, keys) for rows in (one, other) for leaf in leaves_here(rows) if _id(leaf) in compared
    )
    return max(n, m, n + m - 1) if named else n + m


def _id(leaf: Leaf) -> tuple[int, str]:
    return leaf.source, leaf.column.name if isinstance(leaf, Field) else str(leaf.index)


def _compared(condition: Expression | None) -> Iterator[tuple[int, str]]:
    """The columns that a condition requires to equal another column."""
    for part in () if condition is None else conjuncts_of(condition):
        match part:
            case Call("equal", (Field() | Slot() as one, Field() | Slot() as other)) if one.source != other.source:
                yield _id(one)
                yield _id(other)


def _is_single(rows: Rows, compared: set[tuple[int, str]]) -> bool:
    """Whether a person has at most one row for each combination of the columns that are compared."""
    base = base_of(rows)
    if isinstance(base, Step):
        return all(is_unit(key, base.source) or (base.index, str(i)) in compared for i, key in enumerate(base.keys))
    return at_most_one_row(rows)


def _is_key(leaf: Leaf, rows: Rows, keys: _Keys) -> bool:
    """Whether a column is the key of a table that a chain leads to, which names one row."""
    if not isinstance(leaf, Field):
        return False
    tables = [scan.table.name.casefold() for scan in scans_of(rows) if scan.source == leaf.source]
    return any((table, leaf.column.name.casefold()) in keys for table in tables)
