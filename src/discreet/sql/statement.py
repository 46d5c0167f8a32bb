"""What remains of a statement after its blocks: SQL over released tables, and which of its columns carry intervals."""

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from sqlglot import ErrorLevel, exp

from discreet.curator.catalog import Catalog, ColumnType
from discreet.errors import InvalidParameter, InvalidQuery
from discreet.sql import derive, domains, sandbox
from discreet.sql.blocks import Parts
from discreet.sql.columns import column, joined, numbers
from discreet.sql.draft import Direct, Total
from discreet.sql.ends import Pair
from discreet.sql.lineage import Lineage
from discreet.sql.release import Release
from discreet.sql.text import DIALECT

if TYPE_CHECKING:
    import pyarrow


@dataclass(frozen=True, slots=True)
class Source:
    """Where a released table comes from: a release, and which of its derived numbers are its columns."""

    name: str
    release: int
    columns: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class End:
    """A column of interval ends: of which aggregate, with which part of the doubt."""

    source: str
    place: int
    parts: int

    def name(self, end: str) -> str:
        """What the released table calls it."""
        return f"{self.source}_{end}{self.place}_{self.parts}"


@dataclass(frozen=True, slots=True)
class Rest:
    """The remaining SQL; `intervals` name columns of the analyst and the hidden ones, at the end, with their ends.

    `plain` lists (released column, name) where nothing but that remains: then no SQL needs to run. `chosen`: rows are
    left out after noise was added.
    """

    text: str
    sql: str
    sources: tuple[Source, ...]
    publics: tuple[str, ...]
    intervals: tuple[tuple[str, str, str], ...]
    ends: tuple[End, ...]
    plain: tuple[tuple[str, str], ...] | None
    chosen: bool


def rest_of(parts: Parts, sources: tuple[Source, ...], catalog: Catalog) -> Rest:
    """Write what remains of a statement, with hidden columns for intervals where they are known."""
    tree: Any = parts.rest.copy()
    wanted: dict[End, None] = {}

    def end_of(source: str, place: int, share: int) -> Pair:
        end = End(source, place, share)
        wanted[end] = None
        low, high = (exp.column(end.name(side), table=source, quoted=True) for side in ("low", "high"))
        return low, high

    intervals: list[tuple[str, str, str]] = []
    if isinstance(tree, exp.Select) and sources:
        lineage = Lineage(tree, {source.name for source in sources}, catalog, end_of)
        lineage.add(sources[0].name)
        intervals = lineage.found
    sql = tree.sql(dialect=DIALECT, comments=False, unsupported_level=ErrorLevel.IGNORE)
    chosen = tree.find(exp.Where, exp.Limit, exp.Qualify, exp.Having) is not None
    plain = _plain(tree, sources)
    return Rest(parts.text, sql, sources, parts.publics, tuple(intervals), tuple(wanted), plain, chosen)


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


def tables(
    rest: Rest, releases: tuple[Release, ...], released: "list[pyarrow.Table]", doubt: Fraction
) -> "dict[str, pyarrow.Table]":
    """The released tables that the remaining SQL reads."""
    return {source.name: _table(source, rest, releases[source.release], released[source.release], doubt)
            for source in rest.sources}  # fmt: skip


def _table(source: Source, rest: Rest, release: Release, noisy: "pyarrow.Table", doubt: Fraction) -> "pyarrow.Table":
    import pyarrow as pa

    measures = [numbers(noisy.column(f"m{i}")) for i in range(len(release.noises))]
    group = release.group
    if release.selection is None:
        keys = domains.names(group)
    else:
        keys = [domains.shown(key, noisy.column(f"k{i}")) for i, key in enumerate(group.keys)]
    columns = {f"{source.name}_k{i}": key for i, key in enumerate(keys)}
    for i, place in enumerate(source.columns):
        found = derive.values(release, release.derived[place], measures)
        columns[f"{source.name}_a{i}"] = column(found.numbers, found.missing)
    for end in rest.ends:
        if end.source == source.name:
            derived = release.derived[source.columns[end.place]]
            low, high = derive.interval(release, derived, measures, doubt / end.parts)
            columns[end.name("low")], columns[end.name("high")] = column(low), column(high)
    if not columns:  # keys alone were asked for, and there are none
        columns["one"] = column(np.array([1]))
    return pa.table(columns)


def empty(rest: Rest, releases: tuple[Release, ...], catalog: Catalog) -> "dict[str, pyarrow.Table]":
    """The same tables without rows: what remains of a statement is tried on them before anything is paid."""
    import pyarrow as pa

    found = {}
    for source in rest.sources:
        release = releases[source.release]
        fields = [
            (f"{source.name}_k{i}", domains.arrow_type(key.value.kind)) for i, key in enumerate(release.group.keys)
        ]
        for i, place in enumerate(source.columns):
            derived = release.derived[place]
            whole = isinstance(derived, Direct | Total) and derived.step == 1
            fields.append((f"{source.name}_a{i}", pa.int64() if whole else pa.float64()))
        fields += [
            (end.name(side), pa.float64()) for end in rest.ends if end.source == source.name for side in ("low", "high")
        ]
        found[source.name] = _without_rows(fields or [("one", pa.int64())])
    return found | {name: _public(catalog, name) for name in rest.publics}


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
    return _without_rows([(one.name, types[one.kind]) for one in catalog.table(name).columns])


def _without_rows(fields: list[tuple[str, Any]]) -> "pyarrow.Table":
    import pyarrow as pa

    return pa.table({name: pa.nulls(0, kind) for name, kind in fields})


def _renamed(rest: Rest, found: "dict[str, pyarrow.Table]") -> "pyarrow.Table":
    import pyarrow as pa

    table = found[rest.sources[0].name]
    columns = [table.column(column) for column, _ in rest.plain or ()]
    return pa.Table.from_arrays(columns, names=[name for _, name in rest.plain or ()])


def run(rest: Rest, found: "dict[str, pyarrow.Table]") -> "tuple[pyarrow.Table, dict[str, Any]]":
    """The analyst's table, and the intervals of its columns."""
    try:
        whole = _renamed(rest, found) if rest.plain is not None else sandbox.run(rest.sql, found)
    except InvalidParameter as error:
        reason = error.hint.strip().splitlines()[0] if error.hint.strip() else f"expected {error.expected}"
        raise InvalidQuery("what is computed from the released values fails", reason) from None
    hidden = {name: (whole.column(low), whole.column(high)) for name, low, high in rest.intervals}
    visible = whole.select(list(range(whole.num_columns - 2 * len(rest.intervals))))
    return visible, {name: tuple(joined(end) for end in pair) for name, pair in hidden.items()}
