"""The query that remains after release: SQL over released tables, with numbers and intervals from noisy measures.

All of it is post-processing. An interval covers the number that the same bounded aggregate would have without noise:
what bounding changed is told in the notes of the answer.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sqlglot import ErrorLevel, exp

from discreet.curator.catalog import Catalog, ColumnType
from discreet.errors import InvalidParameter, InvalidQuery
from discreet.mechanisms.grid import Grid, add
from discreet.sql.after import sandbox
from discreet.sql.after.interval_rules import Lineage, Pair
from discreet.sql.algebra.relations import Sum
from discreet.sql.algebra.rules import Derived, Direct, Mean, Total
from discreet.sql.release.release import (
    Release,
    arrow_column,
    arrow_type,
    group_names,
    in_one_piece,
    numbers_of,
    shown_keys,
)
from discreet.sql.text.blocks import Parts
from discreet.sql.text.statement import DIALECT

if TYPE_CHECKING:
    import pyarrow


@dataclass(frozen=True, slots=True)
class Source:
    """Where a released table comes from: a release, and which of its derived numbers are its columns."""

    name: str
    release: int
    columns: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BoundColumn:
    """A column of confidence bounds: of which aggregate, with which share of the failure probability."""

    source: str
    index: int
    parts: int

    def name(self, end: str) -> str:
        """What the released table calls it."""
        return f"{self.source}_{end}{self.index}_{self.parts}"


@dataclass(frozen=True, slots=True)
class PostQuery:
    """The remaining SQL; `intervals` name columns of the analyst and the hidden ones, at the end, with their ends.

    `plain` lists (released column, name) where nothing but that remains: then no SQL needs to run. `chosen`: rows are
    left out after noise was added.
    """

    text: str
    sql: str
    sources: tuple[Source, ...]
    publics: tuple[str, ...]
    intervals: tuple[tuple[str, str, str], ...]
    bounds: tuple[BoundColumn, ...]
    plain: tuple[tuple[str, str], ...] | None
    chosen: bool


def post_query_of(parts: Parts, sources: tuple[Source, ...], catalog: Catalog) -> PostQuery:
    """Write what remains of a statement, with hidden columns for intervals where they are known."""
    tree: Any = parts.post_query.copy()
    columns: dict[BoundColumn, None] = {}

    def bounds_of(source: str, index: int, share: int) -> Pair:
        end = BoundColumn(source, index, share)
        columns[end] = None
        low, high = (exp.column(end.name(side), table=source, quoted=True) for side in ("low", "high"))
        return low, high

    intervals: list[tuple[str, str, str]] = []
    if isinstance(tree, exp.Select) and sources:
        lineage = Lineage(tree, {source.name for source in sources}, catalog, bounds_of)
        lineage.add(sources[0].name)
        intervals = lineage.intervals
    sql = tree.sql(dialect=DIALECT, comments=False, unsupported_level=ErrorLevel.IGNORE)
    chosen = tree.find(exp.Where, exp.Limit, exp.Qualify, exp.Having) is not None
    plain = _plain(tree, sources)
    return PostQuery(parts.text, sql, sources, parts.publics, tuple(intervals), tuple(columns), plain, chosen)


def _plain(tree: Any, sources: tuple[Source, ...]) -> tuple[tuple[str, str], ...] | None:
    """The columns of a SELECT that only names columns of one released table; None for any other."""
    clauses = [name for name, value in tree.args.items() if value and name not in ("expressions", "from_")]
    if not isinstance(tree, exp.Select) or clauses or len(sources) != 1:
        return None
    source = tree.args["from_"].this if tree.args.get("from_") else None
    if not isinstance(source, exp.Table) or source.name != sources[0].name:
        return None
    columns = [part.unalias() for part in tree.expressions]
    if not all(isinstance(column, exp.Column) and column.table == source.name for column in columns):
        return None
    return tuple((part.unalias().name, part.alias_or_name) for part in tree.expressions)


def released_tables(
    query: PostQuery, releases: tuple[Release, ...], released: "list[pyarrow.Table]", failure_probability: Fraction
) -> "dict[str, pyarrow.Table]":
    """The released tables that the remaining SQL reads."""
    return {source.name: _table(source, query, releases[source.release], released[source.release], failure_probability)
            for source in query.sources}  # fmt: skip


def _table(
    source: Source, query: PostQuery, release: Release, noisy: "pyarrow.Table", failure_probability: Fraction
) -> "pyarrow.Table":
    import pyarrow as pa

    measures = [numbers_of(noisy.column(f"m{i}")) for i in range(len(release.noises))]
    group = release.group
    if release.selection is None:
        keys = group_names(group)
    else:
        keys = [shown_keys(key, noisy.column(f"k{i}")) for i, key in enumerate(group.keys)]
    columns = {f"{source.name}_k{i}": key for i, key in enumerate(keys)}
    for i, index in enumerate(source.columns):
        values = derived_values(release, release.derived[index], measures)
        columns[f"{source.name}_a{i}"] = arrow_column(values.numbers, values.missing)
    for end in query.bounds:
        if end.source == source.name:
            derived = release.derived[source.columns[end.index]]
            low, high = derived_interval(release, derived, measures, failure_probability / end.parts)
            columns[end.name("low")], columns[end.name("high")] = arrow_column(low), arrow_column(high)
    if not columns:  # keys alone were asked for, and there are none
        columns["one"] = arrow_column(np.array([1]))
    return pa.table(columns)


def empty_tables(query: PostQuery, releases: tuple[Release, ...], catalog: Catalog) -> "dict[str, pyarrow.Table]":
    """The same tables without rows: what remains of a statement is tried on them before anything is paid."""
    import pyarrow as pa

    tables = {}
    for source in query.sources:
        release = releases[source.release]
        fields = [(f"{source.name}_k{i}", arrow_type(key.value.kind)) for i, key in enumerate(release.group.keys)]
        for i, index in enumerate(source.columns):
            derived = release.derived[index]
            whole = isinstance(derived, Direct | Total) and derived.step == 1
            fields.append((f"{source.name}_a{i}", pa.int64() if whole else pa.float64()))
        fields += [
            (end.name(side), pa.float64())
            for end in query.bounds
            if end.source == source.name
            for side in ("low", "high")
        ]
        tables[source.name] = _without_rows(fields or [("one", pa.int64())])
    return tables | {name: _public(catalog, name) for name in query.publics}


def _public(catalog: Catalog, name: str) -> "pyarrow.Table":
    import pyarrow as pa

    types = {
        ColumnType.INTEGER: pa.int64(),
        ColumnType.REAL: pa.float64(),
        ColumnType.TEXT: pa.string(),
        ColumnType.BOOLEAN: pa.bool_(),
        ColumnType.DATE: pa.date32(),
        ColumnType.TIMESTAMP: pa.timestamp("us"),
    }
    return _without_rows([(column.name, types[column.kind]) for column in catalog.table(name).columns])


def _without_rows(fields: list[tuple[str, Any]]) -> "pyarrow.Table":
    import pyarrow as pa

    return pa.table({name: pa.nulls(0, kind) for name, kind in fields})


def _renamed(query: PostQuery, tables: "dict[str, pyarrow.Table]") -> "pyarrow.Table":
    import pyarrow as pa

    table = tables[query.sources[0].name]
    columns = [table.column(column) for column, _ in query.plain or ()]
    return pa.Table.from_arrays(columns, names=[name for _, name in query.plain or ()])


def run(query: PostQuery, tables: "dict[str, pyarrow.Table]") -> "tuple[pyarrow.Table, dict[str, Any]]":
    """The analyst's table, and the intervals of its columns."""
    try:
        whole = _renamed(query, tables) if query.plain is not None else sandbox.run(query.sql, tables)
    except InvalidParameter as error:
        reason = error.hint.strip().splitlines()[0] if error.hint.strip() else f"expected {error.expected}"
        raise InvalidQuery("what is computed from the released values fails", reason) from None
    hidden = {name: (whole.column(low), whole.column(high)) for name, low, high in query.intervals}
    visible = whole.select(list(range(whole.num_columns - 2 * len(query.intervals))))
    return visible, {name: tuple(in_one_piece(end) for end in pair) for name, pair in hidden.items()}


Numbers = NDArray[np.int64] | NDArray[np.float64]
Steps = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Values:
    """Released numbers, one a group; `missing` where there is none (a mean of nothing)."""

    numbers: Numbers
    missing: NDArray[np.bool_] | None = None


def derived_values(release: Release, derived: Derived, measures: list[Steps]) -> Values:
    """The numbers that an aggregate has in each group."""
    match derived:
        case Direct():
            return Values(_numbers(measures[derived.measure], derived.step))
        case Total():
            total, count = measures[derived.total], measures[derived.count]
            return Values(_sum(total, count, derived))
        case Mean():
            total, count = measures[derived.total], measures[derived.count]
            mean = (derived.offset + total / np.maximum(count, 1)) * float(derived.kind.step)
            return Values(_held(mean, derived), count < 1)


def derived_interval(
    release: Release, derived: Derived, measures: list[Steps], failure_probability: Fraction
) -> tuple[NDArray[np.float64] | Steps, NDArray[np.float64] | Steps]:
    """Confidence bounds that hold the number without noise, with probability at least 1 − `failure_probability`.

    A number made of two measures uses half of it for each: both lie within their widths with at least the probability
    stated, and the bounds are the extremes over such pairs. Counts are never negative, nor are their bounds.
    """
    if isinstance(derived, Direct):
        width = release.noises[derived.measure].interval(1 - failure_probability)
        bounds = [add(measures[derived.measure], np.int64(sign * width)) for sign in (-1, 1)]  # type: ignore[arg-type]
        if not isinstance(release.aggregate.measures[derived.measure], Sum):
            bounds = [np.maximum(end, 0) for end in bounds]
        return _numbers(bounds[0], derived.step), _numbers(bounds[1], derived.step)
    total, count = measures[derived.total], measures[derived.count]
    wide, far = (
        release.noises[index].interval(1 - failure_probability / 2) for index in (derived.total, derived.count)
    )
    if isinstance(derived, Total):
        slack = float((wide + abs(derived.offset) * far) * derived.step)
        middle = _sum(total, count, derived)
        return _below(middle - slack), _above(middle + slack)
    lows, highs = total.astype(np.float64) - wide, total.astype(np.float64) + wide
    few, many = np.maximum(count - far, 1).astype(np.float64), np.maximum(count + far, 1).astype(np.float64)
    step = float(derived.kind.step)
    low = (derived.offset + np.where(lows >= 0, lows / many, lows / few)) * step
    high = (derived.offset + np.where(highs >= 0, highs / few, highs / many)) * step
    return _held(_below(low), derived), _held(_above(high), derived)


def _sum(total: Steps, count: Steps, derived: Total) -> NDArray[np.float64] | Steps:
    """total + offset·count, exactly; held at the ends of 64 bits."""
    reach = int(np.abs(count).max(initial=0)) * abs(derived.offset)
    if reach < 2**61 and int(np.abs(total).max(initial=0)) < 2**61:
        return _numbers(total + derived.offset * count, derived.step)
    exact = (int(a) + derived.offset * int(b) for a, b in zip(total, count, strict=True))
    return _numbers(np.array([max(-(2**63), min(2**63 - 1, steps)) for steps in exact], np.int64), derived.step)


def _numbers(steps: Steps, step: Fraction) -> NDArray[np.float64] | Steps:
    return steps if step == 1 else Grid(step).floats(steps)


def _held(numbers: NDArray[np.float64], derived: Mean) -> NDArray[np.float64]:
    """Held within the bounds of the value, where its mean is known to lie."""
    lower, upper = derived.kind.lower or 0, derived.kind.upper or 0
    return np.clip(numbers, float(lower * derived.kind.step), float(upper * derived.kind.step))


def _below(numbers: NDArray[np.floating] | Steps) -> NDArray[np.float64]:
    return np.nextafter(numbers.astype(np.float64), -np.inf)


def _above(numbers: NDArray[np.floating] | Steps) -> NDArray[np.float64]:
    return np.nextafter(numbers.astype(np.float64), np.inf)
