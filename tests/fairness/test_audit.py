"""The private audit through the gate: charged before a row is read, one cell for each unit, gaps from noisy counts."""

from dataclasses import replace
from fractions import Fraction
from itertools import product

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import discreet
from discreet.curator.catalog import Catalog, Column, Table
from discreet.curator.curator import Curator
from discreet.curator.engines.duckdb import DuckDBEngine
from discreet.curator.ledger import Ledger
from discreet.curator.stores.memory import MemoryStore
from discreet.errors import BudgetExceeded, InternalError, InvalidData, InvalidParameter, ReleaseFailed
from discreet.fairness.audit import plan_audit
from discreet.fairness.audit_plan import FairnessPlan, sensitivity
from discreet.fairness.column_codes import Predictions
from discreet.fairness.disparity_report import fairness_report
from discreet.mechanisms.additive import Geometric
from discreet.mechanisms.gaussian import RoundedGaussian
from discreet.noise import DeterministicEntropy
from discreet.privacy.accounting import guarantee
from discreet.privacy.budget import Budget
from discreet.privacy.unit import Neighbors, Unit
from discreet.requests import FairnessAudit

COLUMNS = [
    Column("id", "integer"),
    Column("race", "text", values=["a", "b", "c"]),
    Column("sex", "text", values=["f", "m"]),
    Column("age", "integer", lower=0, upper=100),
    Column("y", "integer", values=[0, 1]),
    Column("note", "text"),
]
PEOPLE = Table("people", COLUMNS, unit=Unit("id"))
ROWS = Table("people", COLUMNS, unit=Unit())
CONNECTION = duckdb.connect()
REQUEST = {"table": "people", "label": "y", "group": ["race", "sex"], "epsilon": 1, "prediction": "yhat"}


def catalog(table=PEOPLE, neighbors="add or remove one"):
    return Catalog("bank", [table, Table("public", [Column("x", "integer")], unit=None)], neighbors=neighbors)


def people(n=4000, seed=0):
    rng = np.random.default_rng(seed)
    race = rng.choice(["a", "b", "c"], n, p=[0.55, 0.43, 0.02])
    y = (rng.random(n) < np.where(race == "a", 0.5, 0.3)).astype(int)
    yhat = np.where(rng.random(n) < np.where(race == "a", 0.85, 0.75), y, 1 - y)
    table = pa.table(
        {
            "id": np.arange(n),
            "race": race,
            "sex": rng.choice(["f", "m"], n),
            "age": rng.integers(0, 100, n),
            "y": y,
            "note": ["-"] * n,
        }
    )
    return table, pa.table({"id": np.arange(n), "yhat": yhat})


TABLE, SAID = people()


def made(known=None, **changes) -> FairnessPlan:
    return plan_audit(FairnessAudit(**{"predictions": SAID, **REQUEST, **changes}), known or catalog())


def opened(table=TABLE, known=None, budget=None, seed=1):
    known = known or catalog()
    engine = DuckDBEngine(known, {"people": table, "public": pa.table({"x": [1]})})
    ledger = Ledger(MemoryStore())
    ledger.open(known.name, budget or Budget(epsilon=100, delta="1e-3"))
    return Curator(known, engine, ledger, DeterministicEntropy(seed))


# --- the plan ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("neighbors", list(Neighbors), ids=str)
@pytest.mark.parametrize("noise", [{}, {"noise": "gaussian", "delta": "1e-6"}], ids=["geometric", "gaussian"])
def test_the_loss_is_derived_again_and_covered_by_what_is_stated(neighbors, noise):
    known = catalog(neighbors=neighbors)
    plan = made(known, **noise)
    assert plan.verify(known) == plan.loss
    assert guarantee(plan.loss, delta=plan.delta).epsilon <= float(plan.epsilon) * (1 + 1e-9)
    assert (plan.epsilon, plan.delta) == (1, Fraction(noise.get("delta", "0")))


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("neighbors", list(Neighbors), ids=str)
@pytest.mark.parametrize("table", [PEOPLE, ROWS], ids=["person", "row"])
def test_one_unit_moves_the_counts_by_the_stated_sensitivity(neighbors, table):
    """Brute force: a person with all kinds of rows added, removed or changed, over small tables."""
    known = catalog(table, neighbors)
    plan = made(known, predictions={"id": [1, 2], "yhat": [1, 0]}, key="id", given="age", bins={"age": [50]})
    options = [(1, "a", "f", 30, 1), (1, "a", "f", 30, 0), (1, "b", "m", 70, 1), (2, None, "f", 10, 0), (2, "zz", "f", None, 0), (3, "c", "m", 99, None), (None, "a", "f", 1, 1)]  # fmt: skip
    worst = 0
    for base, one, two in product([[], options[2:5]], options, options):
        mine = one[0]
        if neighbors is Neighbors.ADD_OR_REMOVE_ONE:
            extra = [one, (mine, *two[1:])] if table is PEOPLE else [one]
            with_, without = [*base, *extra], list(base)
            if table is PEOPLE:
                without = [row for row in without if row[0] != mine]
                with_ = [*without, *extra]
        else:
            rest = [row for row in base if table is ROWS or row[0] != mine]
            with_, without = [*rest, one], [*rest, (mine, *two[1:]) if table is PEOPLE else two]
        worst = max(worst, int(np.abs(counts(plan, with_) - counts(plan, without)).sum()))
    assert worst == sensitivity(neighbors)


def counts(plan, rows):
    names = ["id", "race", "sex", "age", "y"]
    types = [pa.int64(), pa.string(), pa.string(), pa.int64(), pa.int64()]
    columns = list(zip(*rows, strict=True)) if rows else [[]] * 5
    table = pa.table({n: pa.array(c, t) for n, c, t in zip(names, columns, types, strict=True)})
    CONNECTION.register("people", table)
    return plan.counted(CONNECTION.sql(plan.sql, params={"salt": ""} if "$salt" in plan.sql else None).to_arrow_table())


def test_each_unit_is_in_one_cell_and_those_without_prediction_apart():
    plan = made(predictions={"id": [1, 2], "yhat": [1, 0]}, group="sex")
    rows = [
        (1, "a", "f", 1, 1), (1, "a", "f", 1, 1),  # one person, one row
        (2, "a", "m", 1, 1),
        (3, "a", "m", 1, 0),  # nobody predicted
        (4, "a", None, 1, 0), (5, "a", "x", 1, 0), (6, "a", "f", 1, None), (7, "a", "f", 1, 7),  # in no cell
        (None, "a", "f", 1, 1),  # nobody
    ]  # fmt: skip
    found = counts(plan, rows)
    cells = found[:-1].reshape(plan.shape)  # sex × stratum × label × prediction
    assert cells.sum() == 3
    assert cells[0, 0, 1].tolist() == [0, 1, 0]
    assert cells[1, 0, 1].tolist() == [1, 0, 0]
    assert cells[1, 0, 0].tolist() == [0, 0, 1]
    assert found[-1] == 4


def test_no_value_of_a_row_makes_counting_fail():
    plan = made(group=["sex", "age"], bins={"age": [50]}, given="race")
    rows = [(2**62, "a\0", "", 2**63 - 1, -(2**63)), (-5, "é" * 1000, "f", -(2**63), 1)]
    assert counts(plan, rows).sum() == 2
    assert counts(plan, []).sum() == 0


@pytest.mark.parametrize(
    "tamper",
    [
        lambda p: replace(p, noise=Geometric(epsilon=1, sensitivity=2)),
        lambda p: replace(p, neighbors=Neighbors.CHANGE_ONE),
        lambda p: replace(p, table=ROWS),
        lambda p: replace(p, label=Column("y", "integer", values=[0, 1, 2])),
        lambda p: replace(p, key=Column("age", "integer", lower=0, upper=100)),
        lambda p: replace(p, groups=(replace(p.groups[0], column=Column("race", "text", values=["a"])),)),
        lambda p: replace(p, noise=RoundedGaussian(sigma=1, squared_sensitivity=2)),
    ],
)
def test_a_plan_that_was_tampered_with_is_refused_and_nothing_is_charged(tamper):
    curator = opened()
    with pytest.raises(InternalError):
        curator.release(tamper(made()), analyst="ann")
    assert curator.ledger.charges("bank") == []


def test_names_are_the_same_for_the_same_release_only():
    plan = made()
    backwards = SAID.take(list(range(len(SAID)))[::-1])
    assert made(predictions=backwards, confidence="0.9", least=5).digest == plan.digest
    changed = SAID.set_column(
        1, "yhat", pa.array(np.append(1 - SAID["yhat"].to_numpy()[:1], SAID["yhat"].to_numpy()[1:]))
    )
    others = [
        made(predictions=changed), made(predictions=SAID.slice(1)), made(group="race"), made(group=["sex", "race"]), made(epsilon=2),
        made(given="age", bins={"age": [30]}), made(given="age", bins={"age": [31]}), made(noise="gaussian", delta="1e-6"),
        made(positive="0", predictions=SAID),
    ]  # fmt: skip
    names = [plan.digest, *(one.digest for one in others)]
    assert len(set(names)) == len(names)


def test_explaining_says_what_it_costs_and_how_large_the_noise_is():
    words = made().explain()
    assert "one person, by id; one of their rows is counted (add or remove one)" in words
    assert "cost               ε 1\n" in words
    assert "37 noisy counts" in words
    assert "±3 on each count" in words


# --- through the gate -------------------------------------------------------------------------------------------------


def test_gaps_come_back_charged_kept_and_near_the_truth():
    curator = opened()
    answer = curator.release(made(least=200), analyst="ann")
    assert not answer.receipt.free
    assert answer.receipt.epsilon == 1
    again = curator.release(made(least=200), analyst="ann")
    assert again.receipt.free
    assert (again.cells.counts == answer.cells.counts).all()
    joined = TABLE.append_column("yhat", SAID["yhat"])
    truth = fairness_report(joined, label="y", prediction="yhat", group=["race", "sex"], least=200).view("race")
    for name in ("statistical parity", "equal opportunity", "equalized odds", "equal accuracy"):
        found = answer.view("race").gap(name, "table").difference
        assert abs(found.value - truth.gap(name).difference.value) < 0.03
        assert found.low - 1e-9 <= truth.gap(name).difference.value <= found.high + 1e-9
        wide = answer.view("race").gap(name, "population").difference
        assert wide.high - wide.low >= found.high - found.low
    assert abs(answer.unplaced.value) < 20
    assert any("c:" in sentence for sentence in answer.view("race").small)  # 80 units in all


def test_the_charge_comes_before_the_first_row_and_a_poor_budget_reads_none(monkeypatch):
    seen = []
    curator = opened()
    fetch = DuckDBEngine.fetch
    monkeypatch.setattr(
        DuckDBEngine,
        "fetch",
        lambda self, sql, **more: seen.append(len(curator.ledger.charges("bank"))) or fetch(self, sql, **more),
    )
    curator.release(made(), analyst="ann")
    assert seen == [1]
    poor = opened(budget=Budget(epsilon="0.5"))
    with pytest.raises(BudgetExceeded):
        poor.release(made(), analyst="ann")
    assert seen == [1]


def test_all_that_leaves_went_through_the_mechanism(monkeypatch):
    given = []
    monkeypatch.setattr(
        Geometric, "release", lambda self, value, *, entropy=None: given.append(value.copy()) or value * 0 + 77
    )
    curator = opened()
    plan = made()
    answer = curator.release(plan, analyst="ann")
    assert [len(one) for one in given] == [plan.cells]
    assert given[0].sum() == len(TABLE)
    assert (answer.cells.counts == 77).all()
    assert answer.unplaced.value == 77


def test_a_failure_is_opaque():
    curator = opened()
    plan = made()
    object.__setattr__(plan.predictions, "values", None)
    with pytest.raises(ReleaseFailed) as caught:
        curator.release(plan, analyst="ann")
    assert "None" not in str(caught.value)
    assert len(curator.ledger.charges("bank")) == 1


def test_the_answer_is_text_json_and_a_page():
    import json

    answer = opened().release(made(given="age", bins={"age": [30, 60]}, noise="gaussian", delta="1e-6"), analyst="ann")
    told = json.loads(json.dumps(answer.as_dict(), allow_nan=False))
    assert (
        told["views"][0]["gaps"][0]["difference"]["population"]["low"]
        <= told["views"][0]["gaps"][0]["difference"]["value"]
    )
    assert [one["criterion"] for one in told["views"][0]["gaps"]][-1] == "conditional parity"
    text = str(answer)
    assert "conditional parity" in text
    assert "charged as #" in text
    assert "adjusted parity" in text
    page = answer.page().html()
    assert page.count("<svg") >= 5
    assert '<div class="discreet"' in answer._repr_html_()


def test_it_is_the_same_through_a_policy_file(tmp_path):
    (tmp_path / "bank.toml").write_text(
        '[dataset]\nname = "bank"\nneighbors = "change one"\n[budget]\neveryone = "all"\nepsilon = 3\n[tables.people]\nsource = "python"\nunit = "id"\n'
        '[tables.people.columns]\nid = {type = "integer"}\nsex = {type = "text", values = ["f", "m"]}\ny = {type = "integer", values = [0, 1]}\n'
    )
    with discreet.open(tmp_path / "bank.toml", tables={"people": TABLE.select(["id", "sex", "y"])}) as data:
        terms = {"label": "y", "group": "sex", "prediction": "yhat", "epsilon": 2}
        answer = data.release(data.plan(FairnessAudit(table="people", predictions=SAID, **terms)))
    assert answer.gap("statistical parity").difference.value < 0.1
    assert answer.receipt.remaining == 1


def test_a_row_unit_needs_a_key_to_join_by():
    known = catalog(ROWS)
    with pytest.raises(InvalidParameter, match="key: got None.*one row is protected"):
        made(known)
    twice = pa.concat_tables([TABLE, TABLE])
    answer = opened(twice, known).release(made(known, key="id"), analyst="ann")
    assert abs(answer.cells.rows - 2 * len(TABLE)) < 60


def test_texts_are_keys_too():
    columns = [Column("name", "text"), Column("sex", "text", values=["f", "m"]), Column("ok", "boolean")]
    known = Catalog("shop", [Table("people", columns, unit=Unit("name"))], neighbors="add or remove one")
    names = [f"p{k:04}" for k in range(2000)]
    table = pa.table({"name": names, "sex": ["f", "m"] * 1000, "ok": [True, True, False, False] * 500})
    said = {"Name": names[:1000], "prediction": ["true", "false"] * 500}
    plan = plan_audit(FairnessAudit(table="people", predictions=said, label="ok", group="sex", epsilon=5), known)
    engine = DuckDBEngine(known, {"people": table})
    ledger = Ledger(MemoryStore())
    ledger.open("shop", Budget(epsilon=10))
    answer = Curator(known, engine, ledger, DeterministicEntropy(3)).release(plan, analyst="ann")
    assert answer.gap("statistical parity").difference.value == pytest.approx(
        1, abs=0.02
    )  # the f are all predicted true
    assert sum(one.value for one in answer.unpredicted.values()) == pytest.approx(1000, abs=20)


# --- what is refused before anything is spent -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"table": "nowhere"}, "nowhere"),
        ({"table": "public", "group": "x"}, "key"),
        ({"label": "note"}, "declared values"),
        ({"label": "nothing"}, "nothing"),
        ({"group": "note"}, "declared values"),
        ({"group": []}, "group"),
        ({"group": "age"}, "state bins"),
        ({"group": ["sex", "sex"]}, "each column once"),
        ({"group": "y"}, "each column once"),
        ({"given": "sex"}, "each column once"),
        ({"bins": {"race": 3}, "group": "race"}, "column of numbers"),
        ({"bins": {"age": 3}}, "named as group or given"),
        ({"given": "age", "bins": {"age": []}}, "edge"),
        ({"given": "age", "bins": {"age": 1}}, "bins of age"),
        ({"key": "age"}, "the unit's own column"),
        ({"epsilon": 0}, "epsilon"),
        ({"delta": "1e-6"}, "none with geometric noise"),
        ({"noise": "gaussian"}, "delta"),
        ({"noise": "uniform"}, "geometric"),
        ({"prediction": "nothing"}, "nothing"),
        ({"confidence": 2}, "confidence"),
        ({"least": 0}, "least"),
        ({"predictions": {"yhat": [1]}}, "id"),
        ({"predictions": {"id": [1, 1], "yhat": [1, 0]}}, "occur twice"),
        ({"predictions": {"id": [1, None], "yhat": [1, 0]}}, "no key"),
        ({"predictions": {"id": ["a", "b"], "yhat": [1, 0]}}, "keys of type integer"),
        ({"predictions": {"id": [1, 2], "yhat": [0.3, 0.6]}}, "say a threshold"),
        ({"predictions": {"id": [1, 2, 3], "yhat": ["a", "b", "c"]}}, "3 classes"),
        ({"predictions": {"id": [1], "yhat": [None]}}, "there are none"),
    ],
)
def test_wishes_that_make_no_sense(changes, words):
    with pytest.raises((InvalidParameter, InvalidData), match=words):
        made(**changes)


def test_bins_of_equal_width_and_probabilities_with_a_threshold():
    plan = made(given="age", bins={"age": 4}, predictions={"id": [1, 2, 3], "yhat": [0.2, 0.5, None]}, threshold="0.5")
    assert plan.strata[0].edges == (25, 50, 75)
    assert plan.predictions.look_up([1, 2, 3, 4]).tolist() == [0, 1, 2, 2]
    assert plan.predictions.missing == 1


def test_predictions_are_equal_by_what_they_say():
    one = Predictions.of({"k": ["a", "bc"], "p": [1, 0]}, key="k", prediction="p", kind=Column("k", "text").kind)
    two = Predictions.of({"k": ["bc", "a"], "p": [0, 1]}, key="k", prediction="p", kind=Column("k", "text").kind)
    other = Predictions.of({"k": ["ab", "c"], "p": [1, 0]}, key="k", prediction="p", kind=Column("k", "text").kind)
    assert one == two
    assert hash(one) == hash(two)
    assert one != other
    assert len(one) == 2


# --- coverage, end to end ---------------------------------------------------------------------------------------------


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    "noise", [{"epsilon": "0.5"}, {"epsilon": 1, "noise": "gaussian", "delta": "1e-6"}], ids=["geometric", "gaussian"]
)
def test_the_audits_intervals_cover_the_table_and_the_population(noise):
    from scipy.stats import binom

    from discreet.curator.answer import Receipt
    from discreet.privacy.loss import Pure

    times, held = 40, {"table": 0, "population": 0}
    receipt = Receipt("bank", "ann", 1, "", "", Pure(1), 1.0, 0.0, False, 1.0)
    for seed in range(times):
        table, said = people(1500, seed)
        plan = made(predictions=said, group="race", **{"epsilon": 1, **noise})
        exact = plan.counted(table.select(["id", "race", "y"]))
        released = np.asarray(plan.noise.release(exact, entropy=DeterministicEntropy(seed))).astype("<i8").tobytes()
        view = plan.finish(released, receipt, None).views[0]
        own = exact[:-1].reshape(plan.shape)[..., 0, :, :2]
        right = own[:, [0, 1], [0, 1]].sum(axis=1) / own.sum(axis=(1, 2))
        found = {covers: view.gap("equal accuracy", covers) for covers in held}
        used = [k for k in range(3) if "abc"[k] not in found["table"].left_out]
        assert used[:2] == [0, 1]
        held["table"] += found["table"].difference.low <= np.ptp(right[used]) <= found["table"].difference.high
        held["population"] += found["population"].difference.low <= 0.1 <= found["population"].difference.high
    assert binom.cdf(held["table"], times, 0.95) > 1e-6
    assert binom.cdf(held["population"], times, 0.95) > 1e-6
