"""A dataset for one analyst: whom its verbs cannot rename, within an allowance."""

import pyarrow as pa
import pytest

import discreet
from discreet.curator.ledger import Ledger
from discreet.curator.policy import parse_policy
from discreet.curator.settings import Allowance
from discreet.curator.stores.memory import MemoryStore
from discreet.errors import BudgetExceeded, InvalidParameter
from discreet.privacy.budget import Budget
from discreet.requests import Question

POLICY = """
[dataset]
name = "census"
neighbors = "add or remove one"
time_floor = 0
[budget]
epsilon = 5
everyone = "all"
[tables.people]
source = "python"
unit = "row"
columns.age = {type = "integer", lower = 0, upper = 120}
"""
COUNT = "SELECT COUNT(*) AS n FROM people"


@pytest.fixture
def data():
    table = pa.table({"age": [30, 41, 57] * 100})
    with discreet.open(parse_policy(POLICY), tables={"people": table}, ledger=Ledger(MemoryStore())) as opened:
        yield opened


def test_nobody_can_be_somebody_else(data):
    ann = data.acting_as("Ann")
    for call in (
        lambda: ann.ask(COUNT, epsilon=1, analyst="bob"),
        lambda: ann.explain(COUNT, epsilon=1, analyst="bob"),
        lambda: ann.release(ann.plan(Question(COUNT, epsilon=1)), analyst="bob"),
    ):
        with pytest.raises(InvalidParameter, match="who is known here"):
            call()
    assert ann.ask(COUNT, epsilon=1, analyst=" ANN ").receipt.analyst == "ann"
    assert data.ask(COUNT, epsilon=1, analyst="bob").receipt.analyst == "bob"


def test_an_allowance_holds_for_questions_and_is_told_before(data):
    ann = data.acting_as("ann", allowance=Allowance(total=Budget(epsilon=1)))
    ann.ask(COUNT, epsilon=1)
    assert not ann.explain(COUNT, epsilon="0.5").budget["affordable"]
    with pytest.raises(BudgetExceeded, match="token of 'ann'"):
        ann.ask(COUNT, epsilon="0.5")
    assert data.explain(COUNT, epsilon="0.5", analyst="ann").budget["affordable"]


def test_what_the_caller_may_still_spend_is_told_with_the_price(data):
    ann = data.acting_as("ann", allowance=Allowance(total=Budget(epsilon=2), daily=Budget(epsilon=1)))
    assert data.explain(COUNT, epsilon="0.25", analyst="ann").budget["own"] == data.budget().remaining
    assert ann.explain(COUNT, epsilon="0.25").budget["own"] == 1
    ann.ask(COUNT, epsilon="0.25")
    assert ann.explain(COUNT, epsilon="0.5").budget["own_after"] == 0.25
    told = ann.explain(COUNT, epsilon="0.8").budget
    assert (told["own"], told["affordable"]) == (0.75, False)
    with pytest.raises(BudgetExceeded, match="in 24 hours"):
        ann.ask(COUNT, epsilon="0.8")


def test_closing_what_acts_for_somebody_closes_nothing(data):
    with data.acting_as("ann"):
        pass
    assert data.ask(COUNT, epsilon=1).receipt.charge


def test_a_repeated_request_has_the_receipt_of_the_first(data):
    ann = data.acting_as("ann")
    first = ann.answers(Question(COUNT, epsilon=1), key="k")[0]
    data.ask(COUNT, epsilon="0.5", analyst="bob")  # which changes what is left
    assert ann.answers(Question(COUNT, epsilon=1), key="k")[0].receipt == first.receipt
    assert ann.answers(Question(COUNT, epsilon=1), key="other")[0].receipt.free
    assert ann.answers(Question(COUNT, epsilon=1))[0].receipt.free
    assert len(data.ledger.charges("census")) == 2


def test_what_is_free_is_known_before(data):
    ann = data.acting_as("ann")
    plan = ann.plan(Question(COUNT, epsilon=1))
    assert not ann.is_free(plan)
    ann.release(plan)
    assert ann.is_free(plan)
    assert not data.acting_as("bob").is_free(plan)


def test_a_question_that_states_nothing_costs_what_the_owner_says():
    table = {"people": pa.table({"age": [30] * 50})}
    stated = POLICY.replace("epsilon = 5", 'epsilon = 5\ndefault_epsilon = "0.25"')
    with discreet.open(parse_policy(stated), tables=table, ledger=Ledger(MemoryStore())) as data:
        assert data.ask(COUNT).receipt.epsilon == 0.25
        assert data.ask(COUNT, epsilon=1).receipt.epsilon == 1
        options = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5) COUNT(*) AS n FROM people"
        assert data.ask(options).receipt.epsilon == 0.5
    with (
        discreet.open(parse_policy(POLICY), tables=table, ledger=Ledger(MemoryStore())) as data,
        pytest.raises(InvalidParameter, match="neither"),
    ):
        data.ask(COUNT)
    for odd in ("0", "6", "0.0001", "many"):
        with pytest.raises(InvalidParameter, match="default_epsilon"):
            parse_policy(POLICY.replace("epsilon = 5", f'epsilon = 5\ndefault_epsilon = "{odd}"'))
