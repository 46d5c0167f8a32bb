"""The SQL that reads values: which of a unit's count, and how often each is there, or how many different ones.

Guarantee: what a unit adds depends on its own rows and the salt alone: at most `Bound.rows` values (one, where it keeps
an end) in each of at most `Bound.groups` groups, those of `private_sql.write`. Proof. Cells are ordered by their place
in the draw, then by their names, so no two are equal and `dense_rank` numbers them. Of n > rows values in their order,
the p-th counts as often as ⌊(p·rows + h·n)/n⌋ exceeds that of p − 1, with h in [0, 1) from the cell's place in the
draw: never less than 0, and ⌊rows + h⌋ − ⌊h⌋ = rows times in all. Each counts with probability rows/n over h. Equal
values are counted together, so nothing depends on the order of rows.
"""

from discreet.curator import contribution_draw as draw
from discreet.curator.catalog import ColumnType
from discreet.curator.engines.dialects import DUCKDB, Dialect
from discreet.sql.algebra.kinds import Real
from discreet.sql.algebra.relations import Aggregate, Bound, Count, Frequencies
from discreet.sql.algebra.rows import unit_of
from discreet.sql.release.private_sql import column_type, drawn_cells, key_parts, named_rows, unit_part, value_number


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
