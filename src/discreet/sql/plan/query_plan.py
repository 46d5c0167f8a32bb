"""QueryPlan: statements, the releases they share, and what remains of each to be computed from released values."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from discreet.curator.answer import Answer, Receipt
from discreet.curator.catalog import Catalog
from discreet.curator.documents import digest
from discreet.curator.engines import Engine
from discreet.curator.engines.columns import quoted
from discreet.errors import InternalError
from discreet.exact import Number
from discreet.mechanisms.mechanism import failure_probability
from discreet.noise import Entropy
from discreet.privacy.loss import Loss, Pure, Together
from discreet.privacy.unit import Neighbors
from discreet.sql.after import post_query
from discreet.sql.after.post_query import PostQuery
from discreet.sql.algebra.expression import field, fields_of
from discreet.sql.algebra.functions import verify_ranges
from discreet.sql.algebra.relations import Measure, scan_of
from discreet.sql.algebra.rules import Derived
from discreet.sql.plan.explain import is_bounded, notes, warnings
from discreet.sql.release.release import Release

_CHOSEN = (
    "rows were left out after noise was added (WHERE, HAVING, QUALIFY or LIMIT over released values): the intervals of "
    "rows that were chosen for their noisy values hold less often than stated"
)


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """One or more statements, priced together. `epsilon` and `delta` are the total for all of them."""

    post_queries: tuple[PostQuery, ...]
    releases: tuple[Release, ...]
    neighbors: Neighbors
    loss: Loss
    epsilon: Fraction
    delta: Fraction
    confidence: Number

    @property
    def text(self) -> str:
        """The statements as they were written."""
        return ";\n".join(query.text for query in self.post_queries)

    def document(self) -> dict[str, Any]:
        """What is released and with which noise; what is computed from it afterwards does not matter."""
        return {"plan": "query", "version": 1, "releases": f"{self.neighbors}\n{self.releases!r}"}

    @property
    def digest(self) -> str:
        """The name of the plan."""
        return digest(self.document())

    @property
    def private(self) -> bool:
        """Whether anything private is read."""
        return bool(self.releases)

    def verify(self, catalog: Catalog) -> Loss:
        """The loss of all releases, from their own parts and the owner's catalog."""
        if catalog.neighbors is not self.neighbors:
            raise InternalError("a plan was made for other neighbors than the catalog's")
        for release in self.releases:
            _check_columns(release, catalog)
        for name in (name for query in self.post_queries for name in query.publics):
            if catalog.table(name).private:
                raise InternalError(f"a plan reads the private table {name!r} as if it were public")
        return together([loss for release in self.releases for loss in release.losses(self.neighbors)])

    def run(self, engine: Engine, entropy: Entropy | None) -> bytes:
        """Every release, one after the other, as Arrow tables in one piece."""
        import pyarrow as pa

        sink, packed = pa.BufferOutputStream(), pa.ipc.IpcWriteOptions(compression="zstd")
        for release in self.releases:
            table = release.run(engine, entropy)
            with pa.ipc.new_stream(sink, table.schema, options=packed) as writer:
                writer.write_table(table)
        return bytes(sink.getvalue())

    def finish(self, released: bytes, receipt: Receipt, engine: Engine) -> tuple[Answer, ...]:
        """One answer for each statement, computed from released values and public tables."""
        import pyarrow as pa

        source = pa.BufferReader(released)
        noisy = [pa.ipc.open_stream(source).read_all() for _ in self.releases]
        return tuple(self._answer(query, noisy, receipt, engine) for query in self.post_queries)

    def _answer(self, query: PostQuery, noisy: list, receipt: Receipt, engine: Engine) -> Answer:  # type: ignore[type-arg]
        tables = post_query.released_tables(query, self.releases, noisy, failure_probability(self.confidence))
        for name in query.publics:
            tables[name] = engine.fetch(f"SELECT * FROM {quoted(name)}")  # noqa: S608 (public)
        table, intervals = post_query.run(query, tables)
        sure = 1 - failure_probability(self.confidence)
        bounded = any(is_bounded(release, measures) for release, _, measures in self._used(query))
        return Answer(table, intervals, sure, receipt, self._notes(query, sure), bounded)

    def _used(self, query: PostQuery) -> Iterator[tuple[Release, list[Derived], list[Measure]]]:
        """The releases that a statement reads, with the numbers and measures it uses: a batch may release more."""
        for source in query.sources:
            release = self.releases[source.release]
            numbers = [release.derived[column] for column in source.columns]
            indices = sorted({index for number in numbers for index in number.indices})
            yield release, numbers, [release.aggregate.measures[index] for index in indices]

    def _notes(self, query: PostQuery, sure: Fraction) -> tuple[str, ...]:
        """What is to be known of the numbers of a statement, warnings first."""
        used = list(self._used(query))
        remarks = dict.fromkeys(
            f"warning: {words}" for release, numbers, _ in used for words in warnings(release, numbers, sure)
        )
        remarks |= dict.fromkeys(note for release, _, measures in used for note in notes(release, measures))
        if query.chosen and query.intervals:
            remarks[_CHOSEN] = None
        return tuple(remarks)


def _check_columns(release: Release, catalog: Catalog) -> None:
    """The table and the columns that a release reads are those of the catalog, with its bounds."""
    table = scan_of(release.group.source).table
    if catalog.table(table.name) != table or not table.private:
        raise InternalError(f"a plan was made for another table {table.name!r} than the catalog's")
    for part in release.aggregate.parts:
        verify_ranges(part)
    for column in (column for part in release.aggregate.parts for column in fields_of(part)):
        if column != field(table.column(column.column.name)):
            raise InternalError(f"a plan was made for another column {column.column.name!r} than the catalog's")


def together(losses: list[Loss]) -> Loss:
    """All of these losses; nothing at all costs nothing."""
    match losses:
        case []:
            return Pure(0)
        case [column]:
            return column
        case _:
            return Together(*losses)
