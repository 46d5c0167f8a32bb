"""Requests: what was explained is what is paid, verbs are sugar for them, and public names are those promised."""

import inspect
from dataclasses import MISSING, FrozenInstanceError, fields
from typing import get_args

import pyarrow as pa
import pytest

import discreet
from discreet.dataset import Dataset
from discreet.errors import InvalidParameter
from discreet.requests import (
    Commute,
    ContributionBounds,
    FairnessAudit,
    LinkedSynthesis,
    Question,
    Request,
    Synthesis,
    Training,
)

POLICY = """
[dataset]
name = "clinic"
neighbors = "add or remove one"
witness = "witness"
[budget]
epsilon = 10
delta = "1e-5"
everyone = "all"
[tables.visits]
source = "python"
unit = "who"
max_groups_per_unit = 1
max_rows_per_group = 1
[tables.visits.columns]
who = {type = "integer"}
ward = {type = "text", values = ["north", "south"]}
ill = {type = "boolean"}
"""
ROWS = pa.table({"who": range(600), "ward": ["north", "south"] * 300, "ill": [True, False, False] * 200})
PLACES = {"name": ["north", "south"], "x_km": [0, 3], "y_km": [0, 4]}
PREDICTIONS = {"who": [1, 2], "prediction": [1, 0]}
COUNT = "SELECT COUNT(*) AS n FROM visits"
VERBS = {
    "ask": Question,
    "batch": Question,
    "explain": Question,
    "train": Training,
    "synthesize": Synthesis,
    "synthesize_linked": LinkedSynthesis,
    "commute": Commute,
    "choose_bounds": ContributionBounds,
    "audit_fairness": FairnessAudit,
}
REQUESTS = {
    "question": Question(COUNT, epsilon=1),
    "questions": Question([COUNT, "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"], epsilon=1),
    "training": Training(table="visits", target="ill", epsilon=2, delta="1e-6", examples=600, epochs=1, hidden=()),
    "synthesis": Synthesis(table="visits", epsilon=1),
    "linked": LinkedSynthesis(tables={"visits": {"rows_per_person": 2}}, epsilon=1),
    "commute": Commute(table="visits", places=PLACES, origin="ward", destination="ill", epsilon=1),
    "bounds": ContributionBounds(table="visits", by=["ward"], epsilon=1),
    "audit": FairnessAudit(table="visits", predictions=PREDICTIONS, label="ill", group="ward", epsilon=1),
}


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "clinic.toml"
    path.write_text(POLICY, encoding="utf-8")
    with discreet.open(path, tables={"visits": ROWS}, analyst="ann") as opened:
        yield opened


@pytest.mark.parametrize("name", list(REQUESTS))
def test_the_plan_that_was_explained_is_the_plan_that_is_paid(name, data):
    plan = data.plan(REQUESTS[name])
    assert str(data.explain(plan))
    assert str(data.explain(REQUESTS[name])) == str(data.explain(plan))
    assert data._curator.ledger.charges("clinic") == []
    data.release(plan)
    (charge,) = data._curator.ledger.charges("clinic")
    assert (charge.loss, charge.analyst, charge.text) == (plan.loss, "ann", plan.text)
    result = data.release(data.plan(REQUESTS[name]))
    assert (result[0] if isinstance(result, tuple) else result).receipt.free
    assert data.plan(REQUESTS[name]).digest == plan.digest


def test_a_release_is_charged_to_whoever_asks(data):
    data.release(data.plan(REQUESTS["question"]), analyst="Bob")
    assert [charge.analyst for charge in data._curator.ledger.charges("clinic")] == ["bob"]


def test_verbs_are_sugar_for_requests(data):
    paid = data.ask(COUNT, epsilon=1)
    assert data.release(data.plan(Question(COUNT, epsilon="1.0")))[0].receipt.free
    assert data.batch([COUNT], epsilon=1)[0].table == paid.table
    made = data.synthesize("visits", epsilon=1, exclude=["ill"])
    assert data.release(data.plan(Synthesis(table="visits", epsilon=1, exclude=["ill"]))).receipt.free
    assert made.plan == data.plan(Synthesis(table="visits", epsilon=1, exclude=["ill"]))


@pytest.mark.parametrize("verb", list(VERBS))
def test_a_verb_has_the_fields_of_its_request_with_their_defaults_and_no_others(verb):
    method = inspect.getattr_static(Dataset, verb)
    if verb == "explain":  # its first overload says them
        return
    given = dict(inspect.signature(method).parameters)
    for name in ("self", "analyst", *(["sql"] if verb == "ask" else ["statements"] if verb == "batch" else [])):
        given.pop(name)
    assert all(parameter.kind is not parameter.VAR_KEYWORD for parameter in given.values())
    stated = {field.name: field for field in fields(VERBS[verb]) if field.name != "sql"}
    assert list(given) == list(stated)
    for name, parameter in given.items():
        default = stated[name].default
        expected = inspect.Parameter.empty if default is MISSING else default
        if stated[name].default_factory is not MISSING:
            expected = None  # a mapping: none is none
        assert parameter.default == expected, name


def test_requests_are_frozen_and_of_a_closed_union(data):
    assert set(get_args(Request)) == set(VERBS.values())
    with pytest.raises(FrozenInstanceError):
        REQUESTS["synthesis"].epsilon = 2
    for wrong in ("SELECT 1", None, REQUESTS["question"].epsilon):
        with pytest.raises(InvalidParameter, match="such as a Question"):
            data.plan(wrong)
    with pytest.raises(InvalidParameter, match="at least one statement"):
        Question([], epsilon=1)


def test_the_public_names_are_those_promised():
    assert sorted(discreet.__all__) == [
        "Answer", "BudgetExceeded", "BudgetReport", "Commute", "ContributionBounds", "Dataset", "DiscreetError",
        "FairnessAudit", "InvalidParameter", "InvalidQuery", "LinkedSynthesis", "Policy", "Question",
        "RemoteDataset", "Synthesis", "Training", "__version__", "connect", "open", "read_policy",
    ]  # fmt: skip
    for name in discreet.__all__:
        assert getattr(discreet, name) is not None
        assert name in dir(discreet)
    with pytest.raises(AttributeError):
        _ = discreet.closed
