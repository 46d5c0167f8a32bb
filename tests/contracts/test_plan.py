"""What every plan promises, and what the gate does with one: charge first, then look. To add a plan, add it to `PLANS`
if it is a query, and to `OTHERS` if it is not.

A spy engine writes down every SQL it is given, and a spy store every charge that became durable, both in one list, so
that their order can be read off it. "Nothing happened" is the empty list.
"""

import logging
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest

from discreet.curator.catalog import Catalog, Column, Table
from discreet.curator.curator import OWNER, Curator
from discreet.curator.engines.duckdb import DuckDBEngine
from discreet.curator.ledger import Ledger
from discreet.curator.stores.memory import MemoryStore
from discreet.errors import BudgetExceeded, InternalError, ReleaseFailed
from discreet.mechanisms.additive import Geometric
from discreet.mechanisms.gaussian import RoundedGaussian
from discreet.mechanisms.partitions import OptimalSelection
from discreet.noise import DeterministicEntropy
from discreet.privacy.budget import Budget
from discreet.privacy.loss import Pure, Together
from discreet.privacy.unit import Neighbors, Unit
from discreet.sql.algebra.kinds import Fixed
from discreet.sql.algebra.relations import Aggregate, Bound, Count, Group, Sum
from discreet.sql.algebra.rows import Filter, Scan, main_scan
from discreet.sql.plan.planner import Terms, plan
from discreet.sql.plan.query_plan import QueryPlan
from discreet.sql.release.release import Release

ADD, CHANGE = Neighbors.ADD_OR_REMOVE_ONE, Neighbors.CHANGE_ONE
VISITS = Table(
    "visits",
    [
        Column("patient", "integer"),
        Column("ward", "text", values=["north", "south"]),
        Column("city", "text"),
        Column("days", "integer", lower=0, upper=30),
    ],
    unit=Unit("patient"),
    groups=2,
    rows=3,
)
PATIENTS = Table(
    "patients",
    [Column("patient", "integer"), Column("sex", "text", values=["f", "m"]), Column("ill", "boolean")],
    unit=Unit("patient"),
)
STAFF = Table("staff", [Column("age", "integer", lower=18, upper=70)], unit=Unit())
WARDS = Table("wards", [Column("ward", "text"), Column("beds", "integer")], unit=None)
ROWS = {
    "visits": pa.table({"patient": [1, 1, 2, 3], "ward": ["north", "south", None, "west"], "city": ["Oslo"] * 4, "days": [3, 99, 0, 7]}),
    "patients": pa.table({"patient": [1, 2, 4], "sex": ["f", None, "x"], "ill": [True, False, None]}),
    "staff": pa.table({"age": [30, 17, 64]}),
    "wards": pa.table({"ward": ["north", "south"], "beds": [12, 9]}),
}  # fmt: skip


def catalog(neighbors: Neighbors = ADD, *, visits: Table = VISITS, name: str = "clinic") -> Catalog:
    return Catalog(name, [visits, PATIENTS, STAFF, WARDS], neighbors=neighbors)


# --- spies ----------------------------------------------------------------------------------------------------------

Events = list[tuple[str, str]]


@dataclass
class SpyEngine:
    """The real engine, whose every fetch is written down first; `instead` is called in its place, if given."""

    events: Events
    engine: DuckDBEngine
    instead: Callable[[str], Any] | None = None
    stamp: str = ""

    dialect = "duckdb"

    @property
    def version(self) -> str:
        return self.engine.version + self.stamp

    def fetch(self, sql: str, *, salt: str = "") -> Any:
        self.events.append(("fetch", sql))
        return self.engine.fetch(sql, salt=salt) if self.instead is None else self.instead(sql)


@dataclass
class SpyStore:
    """A store in memory that writes down each charge, and each kept answer, after it is durable."""

    events: Events
    store: MemoryStore = field(default_factory=MemoryStore)

    def transact(self, work: Callable[[Any], Any]) -> Any:
        before = self.store.transact(lambda rows: (rows.last(), len(rows.answers)))
        result = self.store.transact(work)
        charged, kept = self.store.transact(lambda rows: (rows.after(before[0], limit=9), len(rows.answers)))
        self.events += [("charge", row.loss or "") for row in charged if row.kind == "charge"]
        self.events += [("keep", "")] * (kept - before[1])
        return result


@dataclass
class Clinic:
    """A curator over spies, and what they saw."""

    events: Events
    curator: Curator
    engine: SpyEngine

    @property
    def ledger(self) -> Ledger:
        return self.curator.ledger

    def seen(self) -> list[str]:
        return [what for what, _ in self.events]

    def charges(self) -> int:
        return len(self.ledger.charges(self.curator.catalog.name))


def opened(engine: DuckDBEngine, known: Catalog | None = None, budget: Budget | None = None, **caps: Budget) -> Clinic:
    known = known or catalog()
    events: Events = []
    ledger = Ledger(SpyStore(events))
    ledger.open(
        known.name, budget or Budget(epsilon=100, delta="1e-3"), caps=caps, everyone=Budget(epsilon=100, delta="1e-3")
    )
    spy = SpyEngine(events, engine)
    return Clinic(events, Curator(known, spy, ledger, DeterministicEntropy(7), share_answers=True), spy)


@pytest.fixture(scope="module")
def engine() -> Iterator[DuckDBEngine]:
    with DuckDBEngine(catalog(), ROWS) as made:
        yield made


@pytest.fixture
def clinic(engine: DuckDBEngine) -> Clinic:
    return opened(engine)


PLANS: dict[str, tuple[list[str], Terms]] = {
    "count": (["SELECT COUNT(*) FROM staff"], Terms(epsilon=1)),
    "mean": (["SELECT AVG(age), SUM(age) FROM staff WHERE age < 60"], Terms(epsilon="0.3")),
    "people": (["SELECT ward, COUNT(DISTINCT patient), SUM(days) FROM visits GROUP BY ward"], Terms(epsilon=2)),
    "named": (["SELECT city, COUNT(*), SUM(days) FROM visits GROUP BY city"], Terms(epsilon=1, delta="1e-6")),
    "gaussian": (["SELECT ward, city, COUNT(*) FROM visits GROUP BY ALL"], Terms(epsilon="0.1", delta="1e-6", groups=40)),
    "computed": (["SELECT SUM(days + 0) FROM visits"], Terms(epsilon=1)),
    "error": (["SELECT SUM(days) FROM visits"], Terms(error=500)),
    "several": (["SELECT COUNT(*) FROM staff", "SELECT ward, COUNT(*) FROM visits GROUP BY ward"], Terms(epsilon=1)),
    "public": (["SELECT w.beds, i.n FROM wards AS w JOIN (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) AS i ON w.ward = i.ward"], Terms(epsilon=1)),
    "nothing": (["SELECT beds FROM wards"], Terms()),
}  # fmt: skip
PRIVATE = [name for name in PLANS if name != "nothing"]


def made(name: str, neighbors: Neighbors = ADD) -> QueryPlan:
    texts, terms = PLANS[name]
    return plan(texts, catalog(neighbors), terms)


# --- what a plan says of itself -------------------------------------------------------------------------------------


@pytest.mark.parametrize("neighbors", list(Neighbors), ids=str)
@pytest.mark.parametrize("name", PLANS)
def test_the_loss_is_derived_again_from_the_parts(name, neighbors):
    one = made(name, neighbors)
    assert one.verify(catalog(neighbors)) == one.loss


@pytest.mark.parametrize("name", PRIVATE)
def test_the_stated_epsilon_is_what_was_asked_for_and_covers_the_loss(name):
    from discreet.privacy.accounting import guarantee

    one, terms = made(name), PLANS[name][1]
    if terms.epsilon is not None:
        assert float(one.epsilon) == pytest.approx(float(terms.epsilon))
    assert guarantee(one.loss, delta=one.delta).epsilon <= float(one.epsilon) * (1 + 1e-9)
    assert one.delta <= Fraction(terms.delta or 0)


def test_there_is_gaussian_noise_among_the_plans():
    noises = [noise for name in PLANS for release in made(name).releases for noise in release.noises]
    assert {type(noise) for noise in noises} == {Geometric, RoundedGaussian}


@pytest.mark.parametrize("name", PRIVATE)
def test_what_is_given_out_is_keys_and_noisy_measures_and_nothing_else(name, engine, monkeypatch):
    """Each number that leaves `run` went through the mechanism that the loss is for; numbers of units stay inside."""
    one, noisy = made(name), []
    for kind in (Geometric, RoundedGaussian):
        monkeypatch.setattr(
            kind, "release", lambda self, value, *, entropy=None: noisy.append((self, len(value))) or value * 0 + 77
        )
    source = pa.BufferReader(one.run(engine, DeterministicEntropy(1)))
    for release in one.releases:
        table = pa.ipc.open_stream(source).read_all()
        keys = [f"k{i}" for i in range(len(release.group.keys))] if release.selection is not None else []
        assert table.column_names == keys + [f"m{i}" for i in range(len(release.noises))]
        for i, noise in enumerate(release.noises):
            assert set(table.column(f"m{i}").to_pylist()) <= {77}
            assert (noise, table.num_rows) in noisy
    assert len(noisy) == sum(len(release.noises) for release in one.releases)


# --- the name -------------------------------------------------------------------------------------------------------

ASKED = "SELECT ward, COUNT(*) AS n FROM visits WHERE days < 9 GROUP BY ward"


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        (
            "select WARD, count( * ) from visits as v where v.days<9 group by 1 order by 2 desc limit 1",
            Terms(epsilon=1),
        ),
        (
            "SELECT n * 2 FROM (SELECT ward, COUNT(*) AS n FROM visits WHERE days < 9 GROUP BY ward) AS i",
            Terms(epsilon=1),
        ),
        (ASKED, Terms(epsilon="1.0", confidence="0.5")),
        (ASKED, Terms(epsilon=1, groups=2, rows=3)),
    ],
)
def test_plans_that_release_the_same_have_one_name(text, terms):
    assert plan([text], catalog(), terms).digest == plan([ASKED], catalog(), Terms(epsilon=1)).digest


def other_names() -> Iterator[tuple[str, Catalog, Terms]]:
    yield ASKED, catalog(), Terms(epsilon=1)
    yield ASKED, catalog(), Terms(epsilon=2)
    yield ASKED, catalog(), Terms(epsilon=1, groups=1)
    yield ASKED, catalog(), Terms(epsilon=1, rows=2)
    yield ASKED, catalog(), Terms(epsilon="0.01", delta="1e-3", groups=3, rows=9)
    yield ASKED, catalog(CHANGE), Terms(epsilon=1)
    yield ASKED.replace("9", "8"), catalog(), Terms(epsilon=1)
    yield ASKED.replace("COUNT(*)", "COUNT(DISTINCT patient)"), catalog(), Terms(epsilon=1)
    for change in ({"lower": 1}, {"upper": 31}, {"nullable": False}):
        days = Column("days", "integer", **({"lower": 0, "upper": 30} | change))
        yield (
            ASKED,
            catalog(visits=Table("visits", [*VISITS.columns[:3], days], unit=VISITS.unit, groups=2, rows=3)),
            Terms(epsilon=1),
        )
    ward = Column("ward", "text", values=["south", "north"])
    columns = [VISITS.columns[0], ward, *VISITS.columns[2:]]
    yield ASKED, catalog(visits=Table("visits", columns, unit=VISITS.unit, groups=2, rows=3)), Terms(epsilon=1)
    yield ASKED, catalog(visits=Table("visits", VISITS.columns, unit=Unit("days"), groups=2, rows=3)), Terms(epsilon=1)


def test_plans_that_release_something_else_have_other_names():
    names = [plan([text], known, terms).digest for text, known, terms in other_names()]
    assert len(set(names)) == len(names) == 13


def test_another_dataset_and_other_data_have_other_keys(engine):
    one, first = plan([ASKED], catalog(), Terms(epsilon=1)), opened(engine)
    keys = {first.curator._key(one, "ann"), opened(engine, catalog(name="hospital")).curator._key(one, "ann")}
    first.engine.stamp = "changed"
    assert len(keys | {first.curator._key(one, "ann")}) == 3


# --- the gate: a plan that does not add up --------------------------------------------------------------------------


def with_release(one: QueryPlan, **changes: Any) -> QueryPlan:
    return replace(one, releases=(replace(one.releases[0], **changes), *one.releases[1:]))


def with_bound(one: QueryPlan, **changes: Any) -> QueryPlan:
    aggregate = one.releases[0].aggregate
    return with_release(one, aggregate=Aggregate(replace(aggregate.source, **changes), aggregate.measures))


def on_table(one: QueryPlan, table: Table) -> QueryPlan:
    def moved(rows: Any) -> Any:
        return Filter(moved(rows.source), rows.condition) if isinstance(rows, Filter) else Scan(table)

    group = one.releases[0].group
    return with_bound(one, source=Group(moved(group.source), group.keys))


def less_noise(noise: Geometric) -> Geometric:
    return Geometric(epsilon=noise.epsilon, sensitivity=noise.sensitivity - 1)


def wider(table: Table) -> Table:
    return Table(table.name, [replace_column(column) for column in table.columns], unit=table.unit, groups=2, rows=3)


def replace_column(column: Column) -> Column:
    return Column("days", "integer", lower=0, upper=31) if column.name == "days" else column


def narrower_kind(one: QueryPlan) -> QueryPlan:
    """The sum is said to lie in 0 … 1, though its column is clamped to 0 … 30 only."""
    aggregate = one.releases[0].aggregate
    measures = tuple(
        Sum(replace(m.value, kind=Fixed(m.kind.step, 0, 1)), m.offset) if isinstance(m, Sum) else m
        for m in aggregate.measures
    )
    noises = tuple(
        Geometric(epsilon=n.epsilon, sensitivity=n.sensitivity // 30) if isinstance(m, Sum) else n
        for n, m in zip(one.releases[0].noises, aggregate.measures, strict=True)
    )
    return with_release(one, aggregate=Aggregate(aggregate.source, measures), noises=noises)


def wider_column(one: QueryPlan) -> QueryPlan:
    """The sum reads its column with other bounds than the catalog's."""
    aggregate = one.releases[0].aggregate
    measures = tuple(
        Sum(replace(m.value, column=Column("days", "integer", lower=0, upper=10**6)), m.offset)
        if isinstance(m, Sum)
        else m
        for m in aggregate.measures
    )
    return with_release(one, aggregate=Aggregate(aggregate.source, measures))


TAMPERED: dict[str, tuple[str, Callable[[QueryPlan], QueryPlan]]] = {
    "noise for a smaller sensitivity": ("people", lambda p: with_release(p, noises=(p.releases[0].noises[0], less_noise(p.releases[0].noises[1])))),
    "noise of a larger ε": ("count", lambda p: with_release(p, noises=(Geometric(epsilon=2, sensitivity=1),))),
    "less Gaussian noise": ("gaussian", lambda p: with_release(p, noises=(RoundedGaussian(sigma=1, squared_sensitivity=10**6),))),
    "Gaussian noise for a smaller sensitivity": ("gaussian", lambda p: with_release(p, noises=tuple(RoundedGaussian(sigma=n.sigma, squared_sensitivity=n.squared_sensitivity - 1) for n in p.releases[0].noises))),
    "a smaller loss": ("people", lambda p: replace(p, loss=Pure("0.001"))),
    "no loss": ("people", lambda p: replace(p, loss=Pure(0))),
    "a part of the loss": ("named", lambda p: replace(p, loss=Together(*p.loss.losses[:-1]))),
    "selection removed": ("named", lambda p: with_release(p, selection=None)),
    "selection added": ("people", lambda p: with_release(p, selection=OptimalSelection(epsilon=1, delta="1e-6", keys=9))),
    "selection for fewer keys": ("named", lambda p: with_release(p, selection=OptimalSelection(epsilon=p.releases[0].selection.epsilon, delta=p.releases[0].selection.delta, keys=1))),
    "selection of a larger δ": ("named", lambda p: with_release(p, selection=OptimalSelection(epsilon=p.releases[0].selection.epsilon, delta="0.1", keys=2))),
    "more groups a person": ("people", lambda p: with_bound(p, groups=3)),
    "more rows a person": ("people", lambda p: with_bound(p, rows=4)),
    "a measure more": ("count", lambda p: with_release(p, aggregate=Aggregate(p.releases[0].aggregate.source, (*p.releases[0].aggregate.measures, Count(None))))),
    "a noise less": ("people", lambda p: with_release(p, noises=p.releases[0].noises[:1])),
    "no noise": ("count", lambda p: with_release(p, noises=())),
    "a release more": ("count", lambda p: replace(p, releases=p.releases * 2)),
    "a table of other bounds": ("people", lambda p: on_table(p, wider(VISITS))),
    "a table of rows": ("people", lambda p: on_table(p, Table("visits", VISITS.columns, unit=Unit()))),
    "a table of another unit": ("people", lambda p: on_table(p, Table("visits", VISITS.columns, unit=Unit("days"), groups=2, rows=3))),
    "a table that is public": ("people", lambda p: on_table(p, WARDS)),
    "other neighbors": ("people", lambda p: replace(p, neighbors=CHANGE)),
    "a value said to be smaller than it is": ("people", narrower_kind),
    "a column of wider bounds": ("people", wider_column),
    "a computed value said to be smaller than it is": ("computed", narrower_kind),
}  # fmt: skip


@pytest.mark.parametrize("what", list(TAMPERED))
def test_a_plan_that_was_tampered_with_is_refused_and_nothing_happens(what, clinic):
    name, tamper = TAMPERED[what]
    with pytest.raises(InternalError):
        clinic.curator.release(tamper(made(name)), analyst="ann")
    assert clinic.events == []
    assert clinic.charges() == 0


@pytest.mark.parametrize("name", PRIVATE)
def test_the_same_plan_untouched_passes(name, clinic):
    clinic.curator.release(made(name), analyst="ann")
    assert clinic.seen()[:2] == ["charge", "fetch"]


def test_a_plan_for_other_neighbors_than_the_catalog_is_refused(engine):
    clinic = opened(engine, catalog(CHANGE))
    with pytest.raises(InternalError):
        clinic.curator.release(made("count", ADD), analyst="ann")
    assert clinic.events == []


def test_a_plan_that_calls_a_private_table_public_is_refused(clinic):
    one = made("nothing")
    rest = replace(one.post_queries[0], publics=("staff",), sql='SELECT age FROM "staff"')
    with pytest.raises(InternalError):
        clinic.curator.release(replace(one, post_queries=(rest,)), analyst="ann")
    assert not [sql for what, sql in clinic.events if what == "fetch"]


def test_it_is_refused_also_where_the_release_is_kept(clinic):
    one = made("count")
    clinic.curator.release(one, analyst="ann")
    clinic.events.clear()
    rest = replace(one.post_queries[0], publics=("staff",), sql='SELECT age FROM "staff"', intervals=(), plain=None)
    with pytest.raises(InternalError):
        clinic.curator.release(replace(one, post_queries=(rest,)), analyst="bob")
    assert clinic.events == []


# --- charge first, then look ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PRIVATE)
def test_the_charge_is_durable_before_the_first_row_is_read(name, clinic):
    one = made(name)
    clinic.curator.release(one, analyst="ann")
    seen = clinic.seen()
    assert seen.count("charge") == 1
    assert seen.index("charge") < seen.index("fetch")
    assert clinic.ledger.charges("clinic")[0].loss == one.loss
    assert seen[1 : 1 + len(one.releases)] == ["fetch"] * len(one.releases)
    assert seen[1 + len(one.releases)] == "keep"


def test_what_the_budget_cannot_pay_is_never_run(engine):
    clinic = opened(engine, budget=Budget(epsilon="0.9"))
    with pytest.raises(BudgetExceeded):
        clinic.curator.release(made("count"), analyst="ann")
    assert clinic.events == []


def test_what_a_cap_cannot_pay_is_never_run(engine):
    clinic = opened(engine, bob=Budget(epsilon="0.9"))
    with pytest.raises(BudgetExceeded):
        clinic.curator.release(made("count"), analyst="bob")
    assert clinic.events == []
    clinic.curator.release(made("count"), analyst="ann")
    assert clinic.seen() == ["charge", "fetch", "keep"]


def test_a_budget_without_delta_pays_for_no_selected_names(engine):
    clinic = opened(engine, budget=Budget(epsilon=100))
    with pytest.raises(BudgetExceeded):
        clinic.curator.release(made("named"), analyst="ann")
    assert clinic.events == []


def test_finish_reads_public_tables_only(clinic):
    clinic.curator.release(made("public"), analyst="ann")
    assert clinic.seen() == ["charge", "fetch", "keep", "fetch"]
    assert clinic.events[-1] == ("fetch", 'SELECT * FROM "wards"')
    clinic.events.clear()
    clinic.curator.release(made("public"), analyst="bob")  # kept
    assert clinic.events == [("fetch", 'SELECT * FROM "wards"')]
    for name in set(PRIVATE) - {"public"}:
        clinic.curator.release(made(name), analyst="ann")
        clinic.events.clear()
        clinic.curator.release(made(name), analyst="ann")
        assert clinic.events == []


# --- kept answers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PLANS)
def test_the_same_again_is_the_same_answer_for_nothing(name, clinic):
    first = clinic.curator.release(made(name), analyst="ann")
    charges = clinic.charges()
    again = clinic.curator.release(made(name), analyst="bob")
    assert clinic.charges() == charges <= 1
    assert [one.table.to_pylist() for one in first] == [one.table.to_pylist() for one in again]
    assert [one.intervals for one in first] == [one.intervals for one in again]
    if name in PRIVATE:
        assert all(one.receipt.free for one in again)
        assert not any(one.receipt.free for one in first)


def test_other_epsilon_data_or_policy_is_charged_again(clinic, engine):
    for epsilon in (1, 2):
        clinic.curator.release(plan([ASKED], catalog(), Terms(epsilon=epsilon)), analyst="ann")
    clinic.engine.stamp = "other data"
    clinic.curator.release(plan([ASKED], catalog(), Terms(epsilon=1)), analyst="ann")
    assert clinic.seen() == ["charge", "fetch", "keep"] * 3


def test_two_who_ask_the_same_at_the_same_time_get_one_answer(clinic):
    """The second release happens while the first reads: both were charged, one answer is kept and given to both."""
    inner: list[Any] = []

    def while_reading(sql: str) -> Any:
        clinic.engine.instead = None
        inner.append(clinic.curator.release(made("people"), analyst="bob"))
        return clinic.engine.engine.fetch(sql)

    clinic.engine.instead = while_reading
    outer = clinic.curator.release(made("people"), analyst="ann")
    assert clinic.charges() == 2
    assert outer[0].table.equals(inner[0][0].table)


# --- failures -------------------------------------------------------------------------------------------------------

SECRET = "patient 4711 has no ward"


def failing(sql: str) -> Any:
    try:
        raise ZeroDivisionError(SECRET)
    except ZeroDivisionError as error:
        raise RuntimeError(f"while reading: {SECRET}") from error


class Log(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(logging.Formatter().format(record))


@pytest.fixture
def owner() -> Iterator[Log]:
    log = Log()
    OWNER.addHandler(log)
    yield log
    OWNER.removeHandler(log)


def broken_engine(clinic: Clinic, monkeypatch: pytest.MonkeyPatch) -> None:
    clinic.engine.instead = failing


def broken_noise(clinic: Clinic, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Geometric, "release", lambda self, value, *, entropy=None: failing(""))


def broken_result(clinic: Clinic, monkeypatch: pytest.MonkeyPatch) -> None:
    clinic.engine.instead = lambda sql: pa.table({"units": [1], "m0": [SECRET]})


@pytest.mark.parametrize("breaking", [broken_engine, broken_noise, broken_result])
def test_a_failure_tells_the_analyst_nothing_and_the_owner_everything(breaking, clinic, owner, monkeypatch, capfd):
    breaking(clinic, monkeypatch)
    with pytest.raises(ReleaseFailed) as caught:
        clinic.curator.release(made("count"), analyst="ann")
    error = caught.value
    shown = "".join(traceback.format_exception(error)) + str(error) + repr(error) + repr(error.args)
    printed = "".join(capfd.readouterr())
    for words in (SECRET, "while reading", "ZeroDivisionError", "RuntimeError", "InternalError"):
        assert words not in shown
        assert words not in printed
    assert error.__cause__ is None
    assert caught.value.__context__ is None
    assert clinic.charges() == 1  # it stays: whether it failed may depend on the rows
    assert f"#{clinic.ledger.charges('clinic')[0].number}" in str(error)
    assert len(owner.lines) == 1
    if breaking is not broken_result:
        assert SECRET in owner.lines[0]
    assert "keep" not in clinic.seen()


def test_what_the_owner_is_told_reaches_no_other_log(clinic, capfd):
    """An application that logs everything, to the screen or to a file, hears nothing of a failed release."""
    clinic.engine.instead = failing
    heard = Log()
    logging.getLogger().addHandler(heard)
    logging.getLogger("discreet").addHandler(heard)
    try:
        with pytest.raises(ReleaseFailed):
            clinic.curator.release(made("count"), analyst="ann")
    finally:
        logging.getLogger().removeHandler(heard)
        logging.getLogger("discreet").removeHandler(heard)
    assert heard.lines == []
    assert SECRET not in "".join(capfd.readouterr())


def test_all_failures_look_alike(clinic, owner):
    """The message differs in the number of the charge alone."""
    messages = []
    for error in (RuntimeError(SECRET), MemoryError(), ValueError("x"), OSError(28, "disk"), InternalError("y")):

        def fail(sql: str, error: BaseException = error) -> Any:
            raise error

        clinic.engine.instead = fail
        with pytest.raises(ReleaseFailed) as caught:
            clinic.curator.release(made("count"), analyst="ann")
        number = clinic.ledger.charges("clinic")[-1].number
        messages.append(str(caught.value).replace(f"#{number}", "#"))
    assert len(set(messages)) == 1
    assert clinic.charges() == 5


def test_after_a_failure_the_same_question_is_charged_again(clinic, owner):
    clinic.engine.instead = failing
    with pytest.raises(ReleaseFailed):
        clinic.curator.release(made("count"), analyst="ann")
    clinic.engine.instead = None
    answer = clinic.curator.release(made("count"), analyst="ann")[0]
    assert not answer.receipt.free
    assert clinic.charges() == 2


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_an_interruption_leaves_the_charge_and_no_answer(kind, clinic):
    def interrupted(sql: str) -> Any:
        raise kind

    clinic.engine.instead = interrupted
    one = made("people")
    with pytest.raises(kind):
        clinic.curator.release(one, analyst="ann")
    assert clinic.seen() == ["charge", "fetch"]
    assert clinic.charges() == 1
    assert clinic.curator.cached(one, analyst="ann") is None


def test_a_dead_ledger_stops_everything(engine):
    clinic = opened(engine)

    def dead(*given: Any, **named: Any) -> Any:
        raise OSError("the ledger is gone")

    store = clinic.ledger._store
    kept = store.transact
    store.transact = dead
    with pytest.raises(OSError, match="gone"):
        clinic.curator.release(made("count"), analyst="ann")
    store.transact = kept
    assert clinic.events == []


def test_the_scan_is_of_the_catalogs_table():
    """What the tampering above changes is really there in an honest plan."""
    release: Release = made("people").releases[0]
    assert main_scan(release.group.source).table == VISITS
    assert isinstance(release.aggregate.source, Bound)
    assert (release.aggregate.source.groups, release.aggregate.source.rows) == (2, 3)


# --- plans that are not queries -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Other:
    """A kind of plan: how one is made, variants of it that release something else, and what its result is made of.

    tables: how many it reads, each once.
    """

    make: Callable[..., Any]
    variants: tuple[dict[str, Any], ...]
    contents: Callable[[Any], list[Any]]
    neighbors: tuple[Neighbors, ...] = tuple(Neighbors)
    tables: int = 1


def synthesis(neighbors: Neighbors = ADD, **more: Any) -> Any:
    from discreet.requests import Synthesis
    from discreet.synthetic.fit.relaxed import Settings
    from discreet.synthetic.planner import plan_synthesis

    terms = {"epsilon": 1, "delta": "1e-6", "exclude": ["city"], "bins": {"days": 3}} | more
    return plan_synthesis(Synthesis(table="visits", settings=Settings(iterations=5), **terms), catalog(neighbors))


def linked(neighbors: Neighbors = ADD, *, rows_per_person: int = 3, bins: int = 3, **more: Any) -> Any:
    from discreet.requests import LinkedSynthesis
    from discreet.synthetic.fit.relaxed import Settings
    from discreet.synthetic.planner import plan_linked

    tables = {
        "patients": {},
        "visits": {"rows_per_person": rows_per_person, "exclude": ["city"], "bins": {"days": bins}},
    }
    terms = {"tables": tables, "epsilon": 1, "delta": "1e-6", "settings": Settings(iterations=5)} | more
    return plan_linked(LinkedSynthesis(**terms), catalog(neighbors))


def fairness(neighbors: Neighbors = ADD, *, said: tuple[int, ...] = (1, 0, 1), **more: Any) -> Any:
    from discreet.fairness.audit import plan_audit
    from discreet.requests import FairnessAudit

    predictions = {"patient": [1, 2, 3], "prediction": list(said)}
    terms = {"label": "ward", "positive": "north", "group": "days", "bins": {"days": [3, 9]}, "epsilon": 1} | more
    return plan_audit(FairnessAudit(table="visits", predictions=predictions, **terms), catalog(neighbors))


def commuting(neighbors: Neighbors = ADD, **more: Any) -> Any:
    from discreet.requests import Commute
    from discreet.synthetic.commuting.plan import plan_commute

    towns = {"name": ["Oslo", "north", "south"], "x_km": [0, 1, 2], "y_km": [0, 0, 3]}
    terms = {"origin": "city", "destination": "ward", "epsilon": 1} | more
    return plan_commute(Commute(table="visits", places=towns, **terms), catalog(neighbors))


def training(neighbors: Neighbors = ADD, **more: Any) -> Any:
    from discreet.learning.sgd.recipe import Schedule, Sgd
    from discreet.learning.training_plan import plan_training
    from discreet.requests import Training

    stated = {"hidden": (32,), "activation": "tanh", "clip": 1, "recipe": {"average": 0}}
    stated |= {"optimizer": Sgd("0.5", "0.9", Schedule("linear", last="0.1"))}
    terms = {"epsilon": 1, "delta": "1e-6", "examples": 2000, "epochs": 1, "features": ["days"]} | stated | more
    return plan_training(Training(table="visits", target="ward", **terms), catalog(neighbors))


def all_rows_of(result: Any) -> list[Any]:
    return [table.to_pylist() for table in result.tables.values()]


def audited(result: Any) -> list[Any]:
    return [repr(part) for part in (result.cells, result.views, result.unpredicted, result.unplaced)]


def rows_of(result: Any) -> list[Any]:
    table = result.table() if callable(result.table) else result.table
    return table.to_pylist()


OTHERS: dict[str, Other] = {
    "synthesis": Other(synthesis, ({"epsilon": 2}, {"bins": {"days": 4}}, {"target": "ward"}, {"rows_per_person": 2}), rows_of),
    "synthesis of several rows": Other(lambda n=ADD, **more: synthesis(n, **({"rows_per_person": 3} | more)), ({"epsilon": 2}, {"rows_per_person": 2}), rows_of),
    "synthesis that finds": Other(lambda n=ADD, **more: synthesis(n, **({"exclude": (), "discover": ["city"]} | more)), ({"epsilon": 2}, {"delta": "1e-7"}), rows_of, (ADD,)),
    "synthesis in rounds": Other(lambda n=ADD, **more: synthesis(n, **({"exclude": (), "values": {"city": ["Oslo", "Bergen"]}, "adaptive": 1} | more)), ({"epsilon": 2}, {"values": {"city": ["Oslo"]}}), rows_of),
    "linked": Other(linked, ({"epsilon": 2}, {"bins": 4}, {"rows_per_person": 2}, {"rows_per_person": 1}, {"delta": "1e-7"}), all_rows_of, tables=2),
    "linked, of nobody's own": Other(lambda n=ADD, **more: linked(n, **({"tables": {"visits": {"rows_per_person": 2, "columns": ["ward"]}}} | more)), ({"epsilon": 2}, {"tables": {"visits": {"rows_per_person": 2, "columns": ["days"]}}}), all_rows_of),
    "fairness": Other(fairness, ({"epsilon": 2}, {"bins": {"days": [4]}}, {"said": (1, 1, 1)}, {"positive": "south"}), audited),
    "fairness with Gaussian noise": Other(lambda n=ADD, **more: fairness(n, **({"noise": "gaussian", "delta": "1e-6"} | more)), ({"epsilon": 2}, {"delta": "1e-7"}), audited),
    "commuting": Other(commuting, ({"epsilon": 2}, {"cap": 2}, {"origin": "ward", "destination": "city"}), rows_of),
    "commuting in bands": Other(lambda n=ADD, **more: commuting(n, **({"bands": [1], "delta": "1e-6", "promise": "approximate"} | more)), ({"bands": [2]}, {"delta": "1e-7"}), rows_of),
    "training": Other(training, ({"epsilon": 2}, {"epochs": 2}, {"hidden": (3,)}), lambda model: [part.tolist() for part in model.parameters], (ADD,)),
}  # fmt: skip
KINDS = [(name, neighbors) for name, other in OTHERS.items() for neighbors in other.neighbors]


@pytest.mark.parametrize(("name", "neighbors"), KINDS)
def test_others_derive_their_loss_and_cover_it(name, neighbors):
    from discreet.privacy.accounting import guarantee

    one = OTHERS[name].make(neighbors)
    assert one.private
    assert one.verify(catalog(neighbors)) == one.loss
    assert guarantee(one.loss, delta=one.delta).epsilon <= float(one.epsilon) * (1 + 1e-9)
    with pytest.raises(InternalError, match="other neighbors"):
        one.verify(catalog(CHANGE if neighbors is ADD else ADD))
    with pytest.raises(InternalError, match="another table"):
        one.verify(catalog(neighbors, visits=Table("visits", VISITS.columns, unit=VISITS.unit, groups=1, rows=1)))


STATED = [name for name in OTHERS if not name.startswith("commuting")]  # a map has the ε and δ of its scheme


@pytest.mark.parametrize("smaller", ["epsilon", "delta"])
@pytest.mark.parametrize("name", [*STATED, "gaussian"])
def test_a_price_that_does_not_cover_the_loss_is_refused_before_anything_is_charged(name, smaller, clinic):
    """The ε and δ that the analyst is shown are held against the loss, which alone is charged."""
    one = OTHERS[name].make() if name in OTHERS else made(name)
    if not getattr(one, smaller):
        pytest.skip("no δ is stated")
    share = 2 if smaller == "epsilon" else 10**4
    with pytest.raises(InternalError, match="smaller ε or δ"):
        clinic.curator.release(replace(one, **{smaller: getattr(one, smaller) / share}), analyst="ann")
    assert clinic.events == []


@pytest.mark.parametrize("name", list(OTHERS))
def test_others_have_one_name_for_one_release(name):
    make, variants = OTHERS[name].make, OTHERS[name].variants
    names = [make().digest, *(make(**more).digest for more in variants)]
    assert make().digest == names[0]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(("name", "neighbors"), KINDS)
def test_others_are_charged_before_the_first_row_is_read_and_kept(name, neighbors, engine):
    clinic, other = opened(engine, catalog(neighbors)), OTHERS[name]
    first = clinic.curator.release(other.make(neighbors), analyst="ann")
    assert clinic.seen() == ["charge", *["fetch"] * other.tables, "keep"]
    assert clinic.ledger.charges("clinic")[0].loss == other.make(neighbors).loss
    clinic.events.clear()
    contents = other.contents(first)
    again = clinic.curator.release(other.make(neighbors), analyst="bob")
    assert other.contents(again) == contents
    assert again.receipt.free
    assert clinic.events == []


@pytest.mark.parametrize("name", list(OTHERS))
def test_others_that_cannot_be_paid_are_never_run(name, engine):
    clinic = opened(engine, budget=Budget(epsilon="0.5", delta="1e-3"))
    with pytest.raises(BudgetExceeded):
        clinic.curator.release(OTHERS[name].make(), analyst="ann")
    assert clinic.events == []


@pytest.mark.parametrize("name", list(OTHERS))
def test_others_fail_without_a_word_and_stay_charged(name, clinic, owner):
    clinic.engine.instead = failing
    with pytest.raises(ReleaseFailed) as caught:
        clinic.curator.release(OTHERS[name].make(), analyst="ann")
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert SECRET in owner.lines[0]
    assert clinic.seen() == ["charge", "fetch"]
