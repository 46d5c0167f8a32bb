"""One row for each unit: what plans read that use whole rows, not aggregates."""

from collections.abc import Sequence

from discreet.curator.catalog import Catalog, Column, ColumnType, Table
from discreet.curator.draw import digest_sql
from discreet.curator.engines.columns import quoted
from discreet.errors import InternalError, InvalidParameter
from discreet.privacy.unit import Neighbors

_NUMBER = ("i", ColumnType.INTEGER, False)
"""The number of a row among those of its person."""


def one_row_each(table: Table, columns: Sequence[Column]) -> str:
    """SQL for these columns, one row for each unit of a private table: all rows, or one that is drawn of each person.

    >>> from discreet.curator.catalog import Column, Table
    >>> from discreet.privacy.unit import Unit
    >>> who, age = Column("who", "integer"), Column("age", "integer", lower=0, upper=120)
    >>> print(one_row_each(Table("people", [who, age], unit=Unit()), [age]))
    SELECT "age" FROM "people"
    """
    return rows_each(table, columns, most=1)


def rows_each(
    table: Table, columns: Sequence[Column], *, most: int, numbered: bool = False, keyed: bool = False
) -> str:
    """The same, with at most so many rows for each person, drawn fairly from all of theirs.

    `keyed` adds, in front, who the person is, and `numbered`, behind, which of their rows each is, from 1.

    Guarantee: what one unit contributes is at most `most` rows, the same whatever the other units are. Proof. Where a
    row is a unit, its row. Where a person is one, their rows are numbered in the order of the columns, and those whose
    numbers have the smallest digests with the person (`draw`) are taken: equal rows may change places, which changes
    nothing. Rows of nobody are left out.
    """
    names = [one.name.casefold() for one in columns]
    key = table.unit.key if table.unit else None
    if key is not None and key.casefold() in names:
        raise InvalidParameter("columns", key, "columns other than the one that names the person")
    listed, source = ", ".join(quoted(one.name) for one in columns), quoted(table.name)
    if key is None:
        if keyed:
            raise InvalidParameter("table", table.name, "a table whose rows name a person (unit = a column)")
        return f"SELECT {listed}{', 1' if numbered else ''} FROM {source}"  # noqa: S608 (names of the catalog)
    unit = table.column(key)
    person = quoted(unit.name)
    inner = ", ".join(f"{quoted(one.name)} AS c{i}" for i, one in enumerate(columns))
    number = f"row_number() OVER (PARTITION BY {person} ORDER BY {listed})"
    rows = f"SELECT {person} AS u, {inner}, {number} AS i FROM {source} WHERE {person} IS NOT NULL"  # noqa: S608
    place = f"row_number() OVER (PARTITION BY u ORDER BY {digest_sql([('u', unit.kind, False), _NUMBER])}, i)"
    shown = ", ".join(f"c{i} AS {quoted(one.name)}" for i, one in enumerate(columns))
    outer = f"u AS {person}, " * keyed + shown + f", {place}" * numbered
    return f"SELECT {outer} FROM ({rows}) QUALIFY {place} <= {most:d}"  # noqa: S608


def require_same(table: Table, columns: Sequence[Column], neighbors: Neighbors, catalog: Catalog) -> None:
    """Refuse a plan that was made for other neighbors, another table or another column than the catalog's."""
    if catalog.neighbors is not neighbors:
        raise InternalError("a plan was made for other neighbors than the catalog's")
    if catalog.table(table.name) != table:
        raise InternalError(f"a plan was made for another table {table.name!r} than the catalog's")
    for one in columns:
        if table.column(one.name) != one:
            raise InternalError(f"a plan was made for another column {one.name!r} than the catalog's")
