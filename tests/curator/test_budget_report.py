"""What a budget report says: spent rounded up, left rounded down and really left, shares that add up, no broken chain."""

import json
from dataclasses import replace
from fractions import Fraction
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.work import growth

from discreet.curator.charges import largest_pure, spent_epsilon
from discreet.curator.ledger import Ledger, digest
from discreet.curator.reports.answer_table import printable
from discreet.curator.reports.budget_report import budget_report, short
from discreet.curator.stores.memory import MemoryStore
from discreet.errors import BudgetExceeded, InvalidParameter, LedgerDamaged
from discreet.exact import printed_down
from discreet.privacy.budget import Budget, Spent
from discreet.privacy.loss import Approximate, GaussianNoise, Pure

F = Fraction
Q = digest("SELECT 1")
PURE = Budget(epsilon=1)
RENYI = Budget(epsilon=1, delta="1e-6")


EVERYONE = Budget(epsilon=10)


def opened(budget=PURE, caps=None, account="clinic"):
    ledger = Ledger(MemoryStore())
    ledger.open(account, budget, caps=caps, everyone=EVERYONE if caps else None)
    return ledger


def charge(ledger, loss, analyst="ann", account="clinic"):
    return ledger.charge(account, analyst=analyst, statement=Q, loss=loss if not isinstance(loss, str) else Pure(loss))


def spent_on(*parts):
    total = Spent()
    for part in parts:
        total = total.plus(part)
    return total


# --- what is left ------------------------------------------------------------------------------------------


def test_what_is_left_of_a_pure_budget_is_exact():
    assert largest_pure(PURE, spent_on(Pure("0.1"), Pure("0.2"))) == F(7, 10)
    assert largest_pure(Budget(epsilon="1/3"), spent_on(Pure("1/7"))) == F(1, 3) - F(1, 7)
    assert largest_pure(PURE, spent_on(Pure(1))) == 0
    assert largest_pure(PURE, Spent()) == 1


def test_what_is_left_of_a_renyi_budget_is_more_than_the_plain_difference_and_is_the_largest():
    spent = spent_on(*[Pure("0.02")] * 60)
    assert spent.epsilon > RENYI.epsilon  # the plain sum has passed the limit, the Rényi totals have not
    left = largest_pure(RENYI, spent)
    assert left > F(1, 100)
    assert RENYI.allows(spent.plus(Pure(left)))
    assert not RENYI.allows(spent.plus(Pure(left * (1 + F(1, 10**9)))))


@settings(max_examples=25)
@given(
    epsilon=st.fractions(min_value=F(1, 20), max_value=20, max_denominator=50),
    delta=st.sampled_from(["0", "1e-9", "1e-6", "1e-3"]),
    costs=st.lists(st.fractions(min_value=0, max_value=F(1, 2), max_denominator=40), max_size=30),
    noise=st.lists(st.integers(min_value=3, max_value=60), max_size=3),
)
def test_what_is_left_can_be_charged_and_a_little_more_cannot(epsilon, delta, costs, noise):
    budget = Budget(epsilon=epsilon, delta=delta)
    spent = Spent()
    for loss in [*map(Pure, costs), *(GaussianNoise(one) for one in noise if delta != "0")]:
        try:
            spent = budget.charge(spent, loss)
        except BudgetExceeded:
            continue
    left = largest_pure(budget, spent)
    assert not left or budget.allows(spent.plus(Pure(left)))
    assert not budget.allows(spent.plus(Pure(left * (1 + F(1, 10**8)) + epsilon / 10**8)))
    if spent.epsilon is not None:
        assert left >= epsilon - spent.epsilon


def test_nothing_is_left_where_nothing_is_allowed():
    assert largest_pure(Budget(epsilon="0.5"), spent_on(Pure("0.7"))) == 0  # lowered below what is spent
    over = spent_on(Approximate("0.1", "1e-3"))
    assert largest_pure(RENYI, over) == 0  # additive δ has passed its part
    assert largest_pure(PURE, spent_on(GaussianNoise(1000))) == 0  # no pure total, no δ


def test_a_sum_of_odd_fractions_that_is_rounded_up_is_still_within():
    spent = spent_on(*(Pure(F(1, 1000 + n)) for n in range(400)))
    left = largest_pure(PURE, spent)
    assert 0 < left <= 1 - spent.epsilon
    assert PURE.allows(spent.plus(Pure(left)))


def test_spent_is_epsilon_of_as_it_prints():
    assert spent_epsilon(PURE, spent_on(Pure("0.1"), Pure("0.2"))) == 0.3
    gauss = spent_on(GaussianNoise(20))
    assert spent_epsilon(RENYI, gauss) == pytest.approx(RENYI.epsilon_of(gauss), rel=1e-15)
    assert spent_epsilon(RENYI, gauss) >= RENYI.epsilon_of(gauss)
    assert spent_epsilon(PURE, gauss) == float("inf")


@given(st.fractions(min_value=0, max_value=100))
def test_rounding_down_never_prints_more(value):
    assert F(repr(printed_down(value))) <= value
    assert F(short(value, up=False)) <= value <= F(short(value)) or value == 0


def test_numbers_out_of_the_reach_of_floats_are_still_told():
    assert short(F(10**400)) == "1e+400"
    assert short(F(2, 3 * 10**400)) == "6.66667e-401"
    report = budget_report(opened(Budget(epsilon=10**400, delta=F(1, 10**400))), "clinic")
    assert (report.spent, report.used) == (0, 0)
    assert json.dumps(report.to_json(), allow_nan=False)
    assert "δ" in str(report)


# --- the report --------------------------------------------------------------------------------------------


def test_an_account_without_charges():
    report = budget_report(opened(caps={"bob": Budget(epsilon="0.5")}), "clinic")
    assert (report.spent, report.remaining, report.charges, report.delta_spent) == (0, 1, 0, 0)
    assert [(one.analyst, one.charges, one.share, one.left) for one in report.analysts] == [("bob", 0, 0, 0.5)]
    assert "ε 0 of 1 spent, in 0 charges" in str(report)


def test_by_analyst_with_caps_and_shares_that_add_up():
    ledger = opened(caps={"bob": Budget(epsilon="0.5"), "eve": Budget(epsilon="0.25")})
    for who, cost in (("ann", "0.1"), ("bob", "0.3"), ("ann", "0.2")):
        charge(ledger, cost, who)
    report = budget_report(ledger, "clinic")
    assert (report.spent, report.remaining, report.charges) == (0.6, 0.4, 3)
    by = {one.analyst: one for one in report.analysts}
    assert list(by) == ["ann", "bob", "eve"]
    assert (by["ann"].spent, by["ann"].charges, by["ann"].cap, by["ann"].left) == (0.3, 2, EVERYONE, 9.7)
    assert (by["bob"].spent, by["bob"].charges, by["bob"].cap, by["bob"].left) == (0.3, 1, Budget(epsilon="0.5"), 0.2)
    assert [one.share for one in report.analysts] == [0.5, 0.5, 0]
    assert report.head == ledger.head("clinic")


def test_shares_add_up_also_where_renyi_totals_decide():
    ledger = opened(RENYI)
    for turn in range(60):
        charge(ledger, "0.02", ["ann", "bob", "cem"][turn % 3])
    charge(ledger, GaussianNoise(50), "ann")
    report = budget_report(ledger, "clinic")
    assert sum(one.share for one in report.analysts) == pytest.approx(1, abs=1e-9)
    assert report.analysts[0].share > report.analysts[1].share == pytest.approx(report.analysts[2].share)
    assert report.spent < 1 < sum([F("0.02")] * 60)
    assert report.spent >= ledger.budget("clinic").epsilon_of(ledger.spent("clinic"))


def test_additive_delta_is_reported_apart():
    ledger = opened(RENYI)
    charge(ledger, Approximate("0.1", "1e-7"))
    report = budget_report(ledger, "clinic")
    assert (report.delta, report.delta_for_keys, report.delta_spent) == (F(1, 10**6), F(5, 10**7), F(1, 10**7))
    assert "1e-07 of 5e-07 spent" in str(report)


def test_an_amended_budget_is_the_one_in_force():
    ledger = opened()
    charge(ledger, "0.9")
    ledger.amend("clinic", budget=Budget(epsilon=2), by="owner", why="more work")
    assert budget_report(ledger, "clinic").remaining == 1.1
    ledger.amend("clinic", budget=Budget(epsilon="0.5"), by="owner", why="too much")
    report = budget_report(ledger, "clinic")
    assert (report.epsilon, report.spent, report.remaining, report.used) == (F(1, 2), 0.9, 0, 1)
    assert "nothing more" in str(report)


def test_a_budget_that_lost_its_delta_has_no_finite_total():
    ledger = opened(RENYI)
    charge(ledger, GaussianNoise(50))
    ledger.amend("clinic", budget=PURE, by="owner", why="no δ any more")
    report = budget_report(ledger, "clinic")
    assert report.spent == float("inf")
    assert report.to_json()["spent"] == "inf"
    assert "ε without bound of 1 spent" in str(report)
    assert [one.share for one in report.analysts] == [1.0]


def test_the_json_is_json_and_says_the_same():
    ledger = opened(RENYI, caps={"李明": Budget(epsilon="1/3")})
    charge(ledger, "0.1", "李明")
    report = budget_report(ledger, "clinic")
    told = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert told["epsilon"] == 1
    assert told["delta"] == 1e-6
    assert told["spent"] == 0.1
    assert told["remaining"] == report.remaining
    assert told["analysts"][0]["analyst"] == "李明"
    assert told["analysts"][0]["cap"]["epsilon"] == pytest.approx(1 / 3)
    assert told["head"]["hash"] == ledger.head("clinic").hash


class Tags(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.names, self.words = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.names.append(tag)

    def handle_data(self, data):
        self.words.append(data)


def test_names_cannot_break_out_of_the_page_or_the_terminal():
    evil = "<script>alert(1)</script>\x1b[2J\n"
    ledger = opened(account=evil)
    charge(ledger, "0.1", evil, account=evil)
    report = budget_report(ledger, evil)
    page = Tags(report._repr_html_())
    assert set(page.names) <= {"div", "table", "thead", "tbody", "tr", "th", "td", "small", "code"}
    assert any("<script>" in word for word in page.words)  # told as text
    assert "\x1b" not in str(report) + report._repr_html_()
    assert printable(evil) in str(report)


def test_columns_stand_below_each_other_for_wide_and_combining_characters():
    ledger = opened()
    for who in ("ann", "李明", "e\u0301va"):
        charge(ledger, "0.1", who)
    lines = [line for line in str(budget_report(ledger, "clinic")).splitlines() if "33%" in line]

    def place(line):
        before = line.partition("33%")[0]
        return sum(2 if one in "李明" else 0 if one == "\u0301" else 1 for one in before)

    assert len(lines) == 3
    assert len({place(line) for line in lines}) == 1


@pytest.mark.parametrize("account", ["nobody", ""])
def test_an_unknown_account_is_one_clear_error(account):
    with pytest.raises(InvalidParameter):
        budget_report(opened(), account)


def test_nothing_is_reported_from_a_broken_chain():
    store = MemoryStore()
    ledger = Ledger(store)
    ledger.open("clinic", PURE)
    for _ in range(3):
        charge(ledger, "0.1")
    store._rows[2] = replace(store._rows[2], who="eve")
    with pytest.raises(LedgerDamaged, match="row 3: its hash does not fit"):
        budget_report(ledger, "clinic")


def with_charges(count: int) -> Ledger:
    """A ledger with many small charges by 50 analysts, made without charging."""
    store = MemoryStore()
    ledger = Ledger(store)
    ledger.open("clinic", Budget(epsilon=10, delta="1e-6"))
    charge(ledger, "0.001", "a0")
    last = store._rows[-1]
    cost = Spent.by(Pure("0.001"))
    totals, own = Spent.from_json(last.total), {"a0": Spent.from_json(last.own)}
    rows = list(store._rows)
    for n in range(1, count):
        who = f"a{n % 50}"
        totals, own[who] = totals + cost, own.get(who, Spent()) + cost
        draft = replace(last, who=who, total=totals.to_json(), own=own[who].to_json())
        rows.append(draft.sealed(number=n + 2, when=last.when, tail=rows[-1]))
    store._rows = rows
    return ledger


def test_thousands_of_charges():
    report = budget_report(with_charges(5000), "clinic")
    assert (report.charges, len(report.analysts)) == (5000, 50)
    assert report.analysts[0].charges == 100
    assert report.spent < 5


def test_work_grows_in_step_with_charges():
    ledgers = {count: with_charges(count) for count in (200, 400)}  # few enough for what is kept of them in memory
    assert growth(lambda count: budget_report(ledgers[count], "clinic"), 200) < 2.5
