"""The query that remains after release: SQL over released tables, with numbers and intervals from noisy measures.

All of it is post-processing. An interval covers the number that the same bounded aggregate would have without noise:
what bounding changed is told in the notes of the answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sqlglot import ErrorLevel, exp
from sqlglot.errors import UnsupportedError

from discreet.curator.catalog import Catalog, ColumnType
from discreet.errors import InternalError, InvalidParameter, InvalidQuery
from discreet.mechanisms.mechanism import Grid, add
from discreet.sql.after import sandbox
from discreet.sql.after.interval_rules import Lineage, Pair, interval_ends
from discreet.sql.algebra.relations import Frequencies, Sum
from discreet.sql.algebra.rules import Bin, Direct, Mean, Named, Rank, Spread, Total
from discreet.sql.release.release import (
    Release,
    arrow_column,
    arrow_type,
    group_names,
    in_one_piece,
    numbers_of,
    shown_keys,
    value_names,
)
from discreet.sql.text.blocks import Parts
from discreet.sql.text.statement import DIALECT, start_of

if TYPE_CHECKING:
    import pyarrow

Numbers = NDArray[np.int64] | NDArray[np.float64]
Steps = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Source:
    """Where a released table comes from: a release, and which of its derived numbers are its columns.

    With `sets` of keys, the table has totals over the other keys, one set after the other. `keys` are those that it
    has, in its order, where not all of the release's.
    """

    name: str
    release: int
    columns: tuple[int, ...]
    sets: tuple[tuple[int, ...], ...] = ()
    keys: tuple[int, ...] | None = None

    def keys_of(self, count: int) -> list[tuple[int, str]]:
        """Which of the release's keys the table has, and what number each has in its columns."""
        return [(key, str(place)) for place, key in enumerate(range(count) if self.keys is None else self.keys)]


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

    named = {
        (block.name, i) for block in parts.blocks for i, call in enumerate(block.aggregates) if call.function == "mode"
    }

    def bounds_of(source: str, index: int, share: int) -> Pair | None:
        if (source, index) in named:  # a name has no interval: its note says how frequent it is
            return None
        end = BoundColumn(source, index, share)
        columns[end] = None
        low, high = (exp.column(end.name(side), table=source, quoted=True) for side in ("low", "high"))
        return low, high

    released = {source.name for source in sources}
    for node in interval_ends(tree):
        inside = node.find_ancestor(exp.Select)
        end = None if inside is None else Lineage(inside, released, catalog, bounds_of).end_of(node)
        if end is None:
            hint = "ask for the ends of an aggregate, or of sums, differences, products and quotients of them"
            unknown = f"no interval is known for {node.name.upper()} here"
            raise InvalidQuery(unknown, hint, text=parts.text, start=start_of(node))
        node.replace(exp.Paren(this=end))
    intervals: list[tuple[str, str, str]] = []
    _require_visible(tree, parts.text)
    if isinstance(tree, exp.Select) and sources:
        lineage = Lineage(tree, {source.name for source in sources}, catalog, bounds_of)
        lineage.add(sources[0].name)
        intervals = lineage.intervals
    sql = _written(tree, parts.text)
    chosen = tree.find(exp.Where, exp.Limit, exp.Qualify, exp.Having) is not None
    plain = _plain(tree, sources)
    return PostQuery(parts.text, sql, sources, parts.publics, tuple(intervals), tuple(columns), plain, chosen)


def _require_visible(tree: Any, text: str) -> None:
    """Refuse ORDER BY a number beyond what is selected: the hidden columns of intervals come after it."""
    clause = tree.args.get("order")
    if clause is None or not isinstance(tree, exp.Select) or any(part.is_star for part in tree.expressions):
        return
    for part in clause.expressions:
        place = part.this if isinstance(part, exp.Ordered) else part
        numbered = isinstance(place, exp.Literal) and not place.is_string and place.name.isdecimal()
        if numbered and not 1 <= int(place.name) <= len(tree.expressions):
            hint = f"a number from 1 to {len(tree.expressions)}"
            raise InvalidQuery(f"ORDER BY {place.name}", hint, text=text, start=start_of(place))


def _written(tree: exp.Expr, text: str) -> str:
    """The SQL of what remains; a function of another dialect that would lose an argument is refused."""
    try:
        return tree.sql(dialect=DIALECT, comments=False, unsupported_level=ErrorLevel.RAISE)
    except UnsupportedError:
        lost = next((node for node in reversed(list(tree.find_all(exp.Func))) if _is_unsupported(node)), tree)
        name = lost.sql_name() if isinstance(lost, exp.Func) else "this"
        hint = "write dates with STRFTIME(x, '%Y-%m'), and all else with functions of DuckDB"
        raise InvalidQuery(
            f"{name} cannot be computed from released values", hint, text=text, start=start_of(lost)
        ) from None


def _is_unsupported(node: exp.Expr) -> bool:
    try:
        node.sql(dialect=DIALECT, comments=False, unsupported_level=ErrorLevel.RAISE)
    except UnsupportedError:
        return True
    return False


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
    chosen = [numbers_of(noisy.column(f"q{i}")) for i in range(len(release.choices))]
    group = release.group
    if release.selection is None:
        keys = group_names(group)
    else:
        keys = [shown_keys(key, noisy.column(f"k{i}")) for i, key in enumerate(group.keys)]
    if source.sets:
        levels = [_totals(source, query, release, keys, measures, some, failure_probability) for some in source.sets]
        return pa.concat_tables(levels)
    columns = {f"{source.name}_k{i}": key for i, key in enumerate(keys)}
    columns |= _numbers_and_bounds(source, query, release, measures, chosen, failure_probability, _bins(release, noisy))
    columns |= _names(source, release, noisy)
    if not columns:  # keys alone were asked for, and there are none
        columns["one"] = arrow_column(np.array([1]))
    return pa.table(columns)


def _totals(
    source: Source,
    query: PostQuery,
    release: Release,
    keys: list[Any],
    measures: list[Steps],
    some: tuple[int, ...],
    failure_probability: Fraction,
) -> "pyarrow.Table":
    """The totals for one set of keys: the others are null; g0, g1, … say which those are."""
    import pyarrow as pa

    from discreet.sql.after.interval_rules import AddedNoise, level_of

    cells = [in_one_piece(key) for key in keys]
    level = level_of([cells[i] for i in some], len(cells[0]))
    size = level.cells.size
    columns: dict[str, Any] = {}
    for i, place in source.keys_of(len(cells)):
        here = cells[i].take(arrow_column(level.first)) if i in some else pa.nulls(size, cells[i].type)
        columns[f"{source.name}_k{place}"] = here
        columns[f"{source.name}_g{place}"] = arrow_column(np.full(size, int(i not in some)))
    totals = [level.totals(each) for each in measures]
    parts = []
    for times in np.unique(level.cells) if size else (1,):
        places = np.flatnonzero(level.cells == times)
        added = replace(release, noises=tuple(AddedNoise(noise, int(times)) for noise in release.noises))  # type: ignore[misc]
        sums = [total[places] for total in totals]
        parts.append((places, _numbers_and_bounds(source, query, added, sums, [], failure_probability)))
    order = arrow_column(np.argsort(np.concatenate([places for places, _ in parts])))
    for name in parts[0][1]:
        columns[name] = pa.concat_arrays([part[name] for _, part in parts]).take(order)
    return pa.table(columns)


@dataclass(frozen=True, slots=True)
class TotalsOfSize:
    """Totals of so many groups each, of a source: their measures, as the release of the groups has them."""

    source: Source
    times: int
    table: "pyarrow.Table"

    def of(self, releases: Sequence[Release]) -> Release:
        """A release with the noise and the numbers of these totals."""
        from discreet.sql.after.interval_rules import AddedNoise

        release = releases[self.source.release]
        noises = tuple(AddedNoise(noise, self.times) for noise in release.noises)
        derived = tuple(release.derived[index] for index in self.source.columns)
        return replace(release, noises=noises, derived=derived)  # type: ignore[arg-type]


def totals_of(
    queries: Sequence[PostQuery], releases: Sequence[Release], noisy: "Sequence[pyarrow.Table]"
) -> list[TotalsOfSize]:
    """All totals that statements ask for, where the groups are known beforehand."""
    import pyarrow as pa

    from discreet.sql.after.interval_rules import level_of

    results = []
    for source in (source for query in queries for source in query.sources if source.sets):
        release = releases[source.release]
        cells = [in_one_piece(key) for key in group_names(release.group)]
        measures = [numbers_of(noisy[source.release].column(f"m{i}")) for i in range(len(release.noises))]
        for some in source.sets:
            level = level_of([cells[i] for i in some], len(cells[0]))
            totals = [level.totals(each) for each in measures]
            for times in np.unique(level.cells):
                here = np.flatnonzero(level.cells == times)
                table = pa.table({f"m{i}": pa.array(total[here]) for i, total in enumerate(totals)})
                results.append(TotalsOfSize(source, int(times), table))
    return results


def _numbers_and_bounds(
    source: Source,
    query: PostQuery,
    release: Release,
    measures: list[Steps],
    chosen: list[Steps],
    failure_probability: Fraction,
    counted: "Bins | None" = None,
) -> dict[str, Any]:
    """The columns of a released table beside its keys."""
    columns, counted = {}, counted or {}
    for i, index in enumerate(source.columns):
        derived = release.derived[index]
        if isinstance(derived, Named):
            continue
        values = derived_values(derived, measures, chosen, counted)
        columns[f"{source.name}_a{i}"] = arrow_column(values.numbers, values.missing)
    for end in query.bounds:
        if end.source == source.name:
            derived = release.derived[source.columns[end.index]]
            failure = failure_probability / end.parts
            if isinstance(derived, Named):
                raise InternalError("interval ends were requested for a name")
            if isinstance(derived, Bin):
                bounds: Sequence[Numbers] = _bin_interval(release, derived, counted, failure)
            else:
                bounds = derived_interval(release, derived, measures, chosen, failure)
            for side, ends in zip(("low", "high"), bounds, strict=True):
                columns[end.name(side)] = arrow_column(ends, np.isnan(ends))
    return columns


def empty_tables(query: PostQuery, releases: tuple[Release, ...], catalog: Catalog) -> "dict[str, pyarrow.Table]":
    """The same tables without rows: what remains of a statement is tried on them before anything is paid."""
    import pyarrow as pa

    tables = {}
    for source in query.sources:
        release = releases[source.release]
        places = source.keys_of(len(release.group.keys))
        kinds = [key.value.kind for key in release.group.keys]
        fields = [(f"{source.name}_k{place}", arrow_type(kinds[i])) for i, place in places]
        if source.sets:
            fields += [(f"{source.name}_g{place}", pa.int64()) for _, place in places]
        for i, index in enumerate(source.columns):
            derived = release.derived[index]
            if isinstance(derived, Named):
                of = release.aggregate.distributions[derived.distribution]
                fields.append((f"{source.name}_a{i}", arrow_type(of.value.kind)))
                continue
            whole = derived.kind.step == 1 if isinstance(derived, Rank) else isinstance(derived, Bin)
            whole = whole or (isinstance(derived, Direct | Total) and derived.step == 1)
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


@dataclass(frozen=True, slots=True)
class Values:
    """Released numbers, one a group; `missing` where there is none (a mean of nothing)."""

    numbers: Numbers
    missing: NDArray[np.bool_] | None = None


Bins = dict[tuple[int, int], Steps]
"""The noisy counts of histograms, by histogram and bin."""


_Measured = Direct | Mean | Total | Spread | Rank


def _bins(release: Release, noisy: "pyarrow.Table") -> Bins:
    places = [(i, bin_) for i, tally in enumerate(release.tallies) for bin_ in range(len(tally.edges) + 1)]
    return {(i, bin_): numbers_of(noisy.column(f"h{i}_{bin_}")) for i, bin_ in places}


def _names(source: Source, release: Release, noisy: "pyarrow.Table") -> dict[str, Any]:
    """The columns of a released table that are most frequent values."""
    columns = {}
    for i, index in enumerate(source.columns):
        derived = release.derived[index]
        if isinstance(derived, Named):
            of = release.aggregate.distributions[derived.distribution]
            if not isinstance(of, Frequencies):
                raise InternalError("a name was chosen among values that are not declared")
            codes = numbers_of(noisy.column(f"t{derived.top}_{derived.place}"))
            columns[f"{source.name}_a{i}"] = value_names(of, codes)
    return columns


def _bin_interval(
    release: Release, derived: Bin, counted: Bins, failure_probability: Fraction
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """A count and its noise; never negative."""
    width = release.tallies[derived.tally].noise.interval(1 - failure_probability)
    count = counted[derived.tally, derived.bin].astype(np.float64)
    return np.maximum(count - width, 0), np.maximum(count + width, 0)


def derived_values(derived: _Measured | Bin, measures: list[Steps], chosen: list[Steps], counted: Bins) -> Values:
    """The numbers that an aggregate has in each group, from noisy measures, chosen quantiles and counted bins."""
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
        case Spread():
            from discreet.sql.after.interval_rules import spread_values

            return Values(*spread_values(derived, measures))
        case Bin():
            return Values(counted[derived.tally, derived.bin])
        case Rank():
            return Values(_numbers(_ranked(derived, chosen), derived.kind.step))


def _ranked(rank: Rank, chosen: list[Steps]) -> Steps:
    """Quantiles of the same values in the order of their probabilities."""
    ordered = np.sort([chosen[peer] for peer in rank.peers], axis=0)[rank.peers.index(rank.target)]
    return np.asarray(ordered + (rank.kind.lower or 0))


def _rank_interval(
    release: Release, rank: Rank, chosen: list[Steps], failure_probability: Fraction
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """From the target below to the target above; NaN where they were made for a larger failure probability.

    A target that is aimed w + 1 ranks below q·n, with an error of at most w ranks, has at most q·n − 1 values before it
    (or is the lower bound), so it is not above the quantile, interpolated or not; and so on the other side. Where the
    released value is outside, the interval is made wider.
    """
    value, ends = _ranked(rank, chosen), 1 if None in (rank.low, rank.high) else 2
    lower, upper = rank.kind.lower or 0, rank.kind.upper or 0
    aimed = [release.choices[target].mechanism for target in (rank.low, rank.high) if target is not None]
    if any(each.interval(1 - failure_probability / ends) + 1 > abs(each.shift) for each in aimed):
        return np.full(value.shape, np.nan), np.full(value.shape, np.nan)
    low = np.full_like(value, lower) if rank.low is None else np.minimum(chosen[rank.low] + lower, value)
    high = np.full_like(value, upper) if rank.high is None else np.maximum(chosen[rank.high] + lower, value)
    first, last = (_numbers(end, rank.kind.step).astype(np.float64) for end in (low, high))
    return first, last


def derived_interval(
    release: Release, derived: _Measured, measures: list[Steps], chosen: list[Steps], failure_probability: Fraction
) -> tuple[NDArray[np.float64] | Steps, NDArray[np.float64] | Steps]:
    """Confidence bounds that hold the number without noise, with probability at least 1 − `failure_probability`.

    A number made of two measures uses half of it for each: both lie within their widths with at least the probability
    stated, and the bounds are the extremes over such pairs; of m measures, an m-th. Counts are never negative, nor are
    their bounds. NaN where there is no bound.
    """
    if isinstance(derived, Rank):
        return _rank_interval(release, derived, chosen, failure_probability)
    if isinstance(derived, Spread):
        from discreet.sql.after.interval_rules import spread_interval

        share = failure_probability / len(derived.indices)
        low, high = spread_interval(derived, measures, lambda index: release.noises[index].interval(1 - share))
        least, most = _REACH.get(derived.statistic, (-np.inf, np.inf))
        return np.clip(_below(low), least, most), np.clip(_above(high), least, most)
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


_REACH = {
    "variance": (0.0, np.inf),
    "deviation": (0.0, np.inf),
    "correlation": (-1.0, 1.0),
    "determination": (0.0, 1.0),
}
"""Between which ends a statistic lies by its nature: bounds that were rounded outwards are held there."""


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
