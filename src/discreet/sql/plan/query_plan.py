"""QueryPlan: statements, the releases they share, and what remains of each to be computed from released values."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from discreet.curator.answer import Answer, Receipt
from discreet.curator.catalog import Catalog
from discreet.curator.engines import Engine
from discreet.curator.engines.dialects import dialect_of
from discreet.curator.plan import PlanDisplayMixin, digest, documented, plan_document, plan_parts
from discreet.errors import InternalError
from discreet.exact import Number
from discreet.mechanisms.additive import Geometric
from discreet.mechanisms.gaussian import RoundedGaussian
from discreet.mechanisms.mechanism import failure_probability
from discreet.mechanisms.partitions import OptimalSelection
from discreet.mechanisms.quantile import GroupedQuantile
from discreet.mechanisms.selection import GroupedMode
from discreet.noise import Entropy
from discreet.privacy.loss import Loss, Pure, Together
from discreet.privacy.unit import Neighbors
from discreet.sql.after import post_query
from discreet.sql.after.left_out import Measurement, left_out
from discreet.sql.after.post_query import PostQuery
from discreet.sql.algebra.expression import MOST_WORK, SWITCHED, Call, Constant, Field, Slot, work_on_a_row
from discreet.sql.algebra.fan_out import MOST_CROSSINGS, crossings
from discreet.sql.algebra.kinds import MOST, Calendar, Day, Fixed, Moment, Nothing, Real, Text, Truth
from discreet.sql.algebra.relations import (
    LARGEST_DOMAIN,
    Aggregate,
    Bound,
    Count,
    Distinct,
    Distribution,
    Frequencies,
    Group,
    Key,
    People,
    Sum,
    known_groups,
)  # fmt: skip
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
    Scan,
    Step,
    Window,
    WindowCall,
    at_most_one_row,
    is_unit,
    unit_of,
)
from discreet.sql.algebra.rules import Derived
from discreet.sql.algebra.verification import verify_part, verify_rows
from discreet.sql.plan.explain import (
    Explanation,
    Read,
    accuracy_of_names,
    explanation,
    is_bounded,
    notes,
    parts_of,
    warnings,
)
from discreet.sql.plan.price import total
from discreet.sql.release.release import Choice, Release, Tally, Top

_CHOSEN = (
    "rows were left out after noise was added (WHERE, HAVING, QUALIFY or LIMIT over released values): the intervals of "
    "rows that were chosen for their noisy values hold less often than stated"
)


@dataclass(frozen=True, slots=True, repr=False)
class QueryPlan(PlanDisplayMixin):
    """One or more statements, priced together. `epsilon` and `delta` are the total for all of them.

    `measured` pairs what bounding can take from a release with the release that measures it (`left_out`).
    """

    post_queries: tuple[PostQuery, ...]
    releases: tuple[Release, ...]
    neighbors: Neighbors
    loss: Loss
    epsilon: Fraction
    delta: Fraction
    confidence: Number
    measured: tuple[tuple[Measurement, int], ...] = ()
    _digest: list[str] = field(default_factory=list, init=False, repr=False, compare=False)
    _verified: list[tuple[Catalog, Loss]] = field(default_factory=list, init=False, repr=False, compare=False)
    _said: dict[int, tuple[bool, tuple[str, ...]]] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def text(self) -> str:
        """The statements as they were written."""
        return ";\n".join(query.text for query in self.post_queries)

    def document(self) -> dict[str, Any]:
        """What is released and with which noise, as a versioned document; nothing of what is computed from it."""
        return plan_document(*_KIND, neighbors=self.neighbors, releases=self.releases)

    @property
    def digest(self) -> str:
        """The name of the plan: that of its document. A plan never changes, so it is computed once."""
        if not self._digest:
            self._digest.append(digest(self.document()))
        return self._digest[0]

    def explain(self) -> Explanation:
        """What asking would cost and do, in numbers and words."""
        texts, terms = [query.text for query in self.post_queries], {"epsilon": self.epsilon, "delta": self.delta}
        return explanation(texts, self.releases, self.neighbors, loss=self.loss, confidence=self.confidence, **terms)

    @property
    def private(self) -> bool:
        """Whether anything private is read."""
        return bool(self.releases)

    def verify(self, catalog: Catalog) -> Loss:
        """The loss, derived again from the parts of the document and the owner's catalog alone.

        `InternalError` where a part is not what the others and the catalog make it: tables, columns, ranges, nulls and
        values of expressions, values of keys, bounds, sensitivities, keys of a selection, work on one row, total ε.
        Neither a plan nor a catalog ever changes, so each pair is verified once.
        """
        for known, loss in self._verified:
            if known is catalog:
                return loss
        loss = self._derived_loss(catalog)
        self._verified[:] = [(catalog, loss)]
        return loss

    def _derived_loss(self, catalog: Catalog) -> Loss:
        document = self.document()
        if not self._digest:
            self._digest.append(digest(document))
        parts = plan_parts(document, *_KIND, ("neighbors", "releases"))
        if catalog.neighbors is not parts["neighbors"]:
            raise InternalError("a plan was made for other neighbors than the catalog's")
        for release in parts["releases"]:
            _verify_rows(release, catalog)
            _verify_groups(release)
        if sum(release.aggregate.work for release in parts["releases"]) > MOST_WORK:
            raise InternalError("a plan takes more time on one row than the clock may tell")
        if any(crossings(release.group.source) > MOST_CROSSINGS for release in parts["releases"]):
            raise InternalError("a plan pairs a person's rows with each other more often than the clock may tell")
        above = [part for release in parts["releases"] for part in release.aggregate.parts_above_scans]
        if sum(map(work_on_a_row, above)) > SWITCHED:
            raise InternalError("a plan takes more time on rows that were chosen than the clock may tell")
        for name in (name for query in self.post_queries for name in query.publics):
            if catalog.table(name).private:
                raise InternalError(f"a plan reads the private table {name!r} as if it were public")
        if total(parts["releases"], epsilon=self.epsilon, delta=self.delta) != (self.epsilon, self.delta):
            raise InternalError("a plan states another ε or δ than its parts have")
        return together([loss for release in parts["releases"] for loss in release.losses(catalog.neighbors)])

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
        noisy = self.noisy_tables(released)
        return tuple(self._answer(index, noisy, receipt, engine) for index in range(len(self.post_queries)))

    def noisy_tables(self, released: bytes) -> list:  # type: ignore[type-arg]
        """What `run` released, a table for each release."""
        import pyarrow as pa

        source = pa.BufferReader(released)
        return [pa.ipc.open_stream(source).read_all() for _ in self.releases]

    def _answer(self, index: int, noisy: list, receipt: Receipt, engine: Engine) -> Answer:  # type: ignore[type-arg]
        query, failure = self.post_queries[index], failure_probability(self.confidence)
        tables = post_query.released_tables(query, self.releases, noisy, failure)
        for name in query.publics:
            tables[name] = engine.fetch(f"SELECT * FROM {dialect_of(engine.dialect).quoted(name)}")  # noqa: S608 (public)
        table, intervals = post_query.run(query, tables)
        if index not in self._said:
            bounded = any(is_bounded(release, measures) for release, _, measures in self._used(query))
            self._said[index] = bounded, self._notes(query, 1 - failure)
        bounded, notes = self._said[index]
        lost = tuple(self._left_out(query, noisy, 1 - failure))
        return Answer(table, intervals, 1 - failure, receipt, lost + notes, bounded)

    def _left_out(self, query: PostQuery, noisy: list, sure: Fraction) -> Iterator[str]:  # type: ignore[type-arg]
        """What bounding left out of the releases that a statement reads, where that was measured."""
        read = {source.release for source in query.sources}
        for measurement, whole in self.measured:
            index = measurement.release
            if index in read:
                parts = self.releases[index], noisy[index], self.releases[whole], noisy[whole]
                yield left_out(measurement, *parts, sure)

    def _used(self, query: PostQuery) -> Iterator[tuple[Release, list[Derived], list[Read]]]:
        """The releases that a statement reads, with the numbers and measures it uses: a batch may release more."""
        for source in query.sources:
            release = self.releases[source.release]
            numbers = [release.derived[column] for column in source.columns]
            used = {part for number in numbers for part in parts_of(release, number)}
            everything = (*release.aggregate.measures, *release.aggregate.distributions)
            yield release, numbers, [part for part in everything if part in used]

    def _notes(self, query: PostQuery, sure: Fraction) -> tuple[str, ...]:
        """What is to be known of the numbers of a statement, warnings first."""
        used = list(self._used(query))
        remarks = dict.fromkeys(
            f"warning: {words}" for release, numbers, _ in used for words in warnings(release, numbers, sure)
        )
        remarks |= dict.fromkeys(note for release, _, measures in used for note in notes(release, measures))
        remarks |= dict.fromkeys(
            note for release, numbers, _ in used for note in accuracy_of_names(release, numbers, sure)
        )
        for source in (source for source in query.sources if source.sets):
            where = " that were named" if self.releases[source.release].selection is not None else ""
            remarks[f"totals are sums of the released groups{where}, and leave out what these leave out"] = None
        if query.chosen and query.intervals:
            remarks[_CHOSEN] = None
        return tuple(remarks)


def _verify_rows(release: Release, catalog: Catalog) -> None:
    """What is read on each row: the catalog's tables and columns, and operations that are what they say."""
    verify_rows(release.group.source, catalog)
    group = release.group
    read = (*release.aggregate.measures, *release.aggregate.distributions)
    values = [part.value for part in read if part.value is not None]
    for part in (*(key.value for key in group.keys), *values):
        verify_part(part, group.source)


def _verify_groups(release: Release) -> None:
    """What is answered, and what one unit adds to it: values of keys, bounds, the ranges of sums."""
    bound, group, unit = release.aggregate.source, release.group, unit_of(release.group.source)
    for key in group.keys:
        if key.domain != known_groups(key.value, group.source):
            raise InternalError("a plan names other groups than those that are declared")
        if is_unit(key.value, group.source):
            raise InternalError("a plan names people")
    if (group.size or 0) > LARGEST_DOMAIN:
        raise InternalError("a plan answers more groups than are answered")
    weighs = [measure for measure in release.aggregate.measures if not isinstance(measure, People)]
    single = unit.key is None or at_most_one_row(group.source)
    ranked = any(distribution.keep == "even" for distribution in release.aggregate.distributions)
    most = (1, 1) if single else (group.size or bound.groups, bound.rows if weighs or ranked else 1)
    if not (1 <= bound.groups <= most[0] and 1 <= bound.rows <= most[1]):
        raise InternalError("a plan states contribution bounds that its groups and measures do not have")
    if unit.key is None and len(weighs) < len(release.aggregate.measures):
        raise InternalError("a plan counts people where the unit is a row")
    for measure in weighs:
        if isinstance(measure, Sum) and measure.reach * bound.rows >= MOST:
            raise InternalError("a plan adds up more than 64 bits hold")


def together(losses: list[Loss]) -> Loss:
    """All of these losses; nothing at all costs nothing."""
    match losses:
        case []:
            return Pure(0)
        case [loss]:
            return loss
        case _:
            return Together(*losses)


_KIND = ("query", 1)
"""The kind and the version of the document."""

for _name, _class, _names in (
    ("fixed-point", Fixed, {}),
    ("real", Real, {}),
    ("text", Text, {"length": "max_characters"}),
    ("boolean", Truth, {}),
    ("days of a span", Calendar, {}),
    ("null", Nothing, {}),
    ("constant", Constant, {}),
    ("operation", Call, {"operation": "name"}),
    ("public scan", PublicScan, {}),
    ("filter", Filter, {"source": "rows"}),
    ("exists", Exists, {"source": "rows"}),
    ("step", Step, {"source": "rows", "index": "number"}),
    ("aggregate of a person", PersonAggregate, {}),
    ("order", Order, {}),
    ("window", Window, {"source": "rows", "index": "number"}),
    ("window call", WindowCall, {}),
    ("computed columns", Compute, {"source": "rows", "index": "number"}),
    ("part", Part, {}),
    ("projection", Projection, {"index": "number"}),
    ("group", Group, {"source": "rows"}),
    ("bound", Bound, {"source": "groups", "groups": "max_groups_per_unit", "rows": "max_rows_per_group"}),
    ("count of rows", Count, {}),
    ("count of people", People, {}),
    ("count of distinct values", Distinct, {}),
    ("sum", Sum, {}),
    ("distribution", Distribution, {}),
    ("frequencies", Frequencies, {}),
    ("most frequent values", Top, {}),
    ("grouped mode", GroupedMode, {}),
    ("quantile", Choice, {}),
    ("grouped quantile", GroupedQuantile, {}),
    ("histogram", Tally, {}),
    ("geometric", Geometric, {}),
    ("rounded gaussian", RoundedGaussian, {}),
    ("key selection", OptimalSelection, {"keys": "keys_per_unit"}),
):
    documented(_name, names=_names)(_class)
documented("date", defaults={"lower": None, "upper": None})(Day)
documented("timestamp", defaults={"lower": None, "upper": None})(Moment)
documented("column value", defaults={"source": 0, "optional": False})(Field)
documented("scan", defaults={"source": 0, "chain": ()})(Scan)
documented("join", defaults={"lookup": ()})(Join)
documented("slot", omit={"name": "", "clamp": None}, defaults={"optional": False})(Slot)
documented("key", omit={"name": ""})(Key)
documented("aggregate", names={"source": "bounded"}, defaults={"distributions": ()})(Aggregate)
documented("release", omit={"derived": ()}, defaults={"choices": (), "tallies": (), "tops": ()})(Release)
