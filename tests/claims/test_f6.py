"""F6: fairness of a private model, and an audit through the curator: the sensitive attribute never leaves it."""

import numpy as np
import pyarrow as pa
import pytest

from discreet.curator.catalog import Catalog, Column, Table
from discreet.curator.curator import Curator
from discreet.curator.engines.duckdb import DuckDBEngine
from discreet.curator.ledger import Ledger
from discreet.curator.stores.memory import MemoryStore
from discreet.fairness import fairness_report
from discreet.fairness.audit import plan_audit
from discreet.fairness.tradeoff import effect
from discreet.noise import DeterministicEntropy
from discreet.privacy.budget import Budget
from discreet.privacy.unit import Unit
from discreet.requests import FairnessAudit

pytestmark = pytest.mark.claim("F6")
RNG = np.random.default_rng(8)
N = 20_000
A = np.where(RNG.random(N) < 0.1, "few", "many")
X = RNG.normal(size=(N, 2))
Y = (np.where(A == "few", X[:, 1], X[:, 0]) > 0).astype(int)  # what tells for the many says nothing of the few


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_less_epsilon_costs_and_is_drawn_for_each_group():
    """A model that sees the group learns the few only where noise allows."""
    from discreet.learning import LogisticRegression

    few = (A == "few").astype(float)
    features = np.column_stack([X * (1 - few)[:, None], X * few[:, None]])
    train, test = slice(0, N // 2), slice(N // 2, N)
    outcomes = {}
    for epsilon in ("0.01", "5"):
        runs = []
        for k in range(3):
            model = LogisticRegression(
                epsilon=epsilon, delta=0, bounds=(-3, 3), classes=[0, 1], entropy=DeterministicEntropy(k)
            ).fit(features[train], Y[train])
            runs.append((Y[test], model.predict(features[test]), A[test]))
        outcomes[epsilon] = runs
    found = effect(outcomes)
    assert found.rates["many"][1].value > 0.95
    assert found.rates["few"][1].value > 0.9
    assert found.lost("few") > found.lost("many") > -0.05
    assert "few (" in found.chart().svg()


def test_an_audit_whose_attribute_stays_with_the_owner():
    said = np.where(RNG.random(N) < np.where(A == "few", 0.7, 0.9), Y, 1 - Y)
    columns = [
        Column("id", "integer"),
        Column("a", "text", values=["few", "many"]),
        Column("y", "integer", values=[0, 1]),
    ]
    catalog = Catalog("bank", [Table("people", columns, unit=Unit("id"))], neighbors="add or remove one")
    table = pa.table({"id": np.arange(N), "a": A, "y": Y})
    ledger = Ledger(MemoryStore())
    ledger.open("bank", Budget(epsilon=1))
    curator = Curator(catalog, DuckDBEngine(catalog, {"people": table}), ledger, DeterministicEntropy(5))
    predictions = {"id": np.arange(N), "prediction": said}
    request = FairnessAudit(table="people", predictions=predictions, label="y", group="a", epsilon="0.5")
    plan = plan_audit(request, catalog)
    answer = curator.release(plan, analyst="model owner")
    truth = fairness_report({"y": Y, "p": said, "a": A}, label="y", prediction="p", group="a").views[0]
    for name in ("statistical parity", "equal opportunity", "equalized odds", "equal accuracy"):
        own, wide = (answer.gap(name, covers).difference for covers in ("table", "population"))
        exact = truth.gap(name).difference.value
        assert own.low <= exact <= own.high
        assert own.high - own.low < 0.03  # noise alone
        assert wide.high - wide.low < 0.12  # and sampling
    assert answer.gap("equal accuracy").difference.low > 0.1  # 0.2 in truth
    assert answer.receipt.remaining == 0.5
