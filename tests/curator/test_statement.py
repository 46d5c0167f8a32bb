"""The privacy statement: every question is answered, numbers are right and rounded up, nothing is told that was not asked."""

import json
import math
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.curator.ledger import Ledger, digest
from discreet.curator.policy import parse_policy
from discreet.curator.reports.statement_sections import kind_in_words, literal, odds, privacy_statement, win
from discreet.curator.stores.memory import ManualClock, MemoryStore
from discreet.errors import InvalidParameter
from discreet.privacy import loss as losses
from discreet.privacy.budget import Budget
from discreet.privacy.loss import Approximate, GaussianNoise, Parallel, Pure, Repeated, Together

F = Fraction

POLICY = """
[dataset]
name = "hospital"
neighbors = "{neighbors}"

[budget]
everyone = "all"
epsilon = "3"
{delta}

[tables.visits]
source = "visits.parquet"
unit = "{unit}"
{bounds}

[tables.visits.columns]
patient_id = {{type = "integer", nullable = false}}
age = {{type = "integer", lower = 0, upper = 120}}
region = {{type = "text", values = ["north", "south"]}}

[tables.regions]
source = "regions.csv"
unit = "public"
columns.name = {{type = "text"}}
"""


def policy(neighbors="add or remove one", unit="patient_id", bounds="", delta='delta = "1e-6"'):
    return parse_policy(POLICY.format(neighbors=neighbors, unit=unit, bounds=bounds, delta=delta))


@pytest.fixture
def clock():
    return ManualClock(datetime(2026, 11, 1, 12, tzinfo=UTC))


@pytest.fixture
def ledger(clock):
    made = Ledger(MemoryStore(), clock=clock)
    made.open("hospital", policy().budget, caps={"bob": Budget(epsilon=1)}, everyone=Budget(epsilon=9, delta="1e-6"))
    return made


def charge(ledger, loss, analyst="ann", text="SELECT secret_question"):
    return ledger.charge("hospital", analyst=analyst, statement=digest(text), loss=loss, text=text)


def section(statement, question):
    (found,) = [one for one in statement.sections if one.question == question]
    return " ".join([*found.paragraphs, *found.points])


# --- formulas ----------------------------------------------------------------------------------------------


@given(st.fractions(min_value=0, max_value=40), st.sampled_from([F(0), F(1, 10**6), F(1, 100)]))
def test_the_bounds_are_those_of_the_papers_rounded_up(epsilon, delta):
    power = math.exp(epsilon)
    assert float(win(epsilon, delta)) == pytest.approx(min(1, (power + float(delta)) / (1 + power)), rel=1e-12)
    assert float(odds(epsilon)) == pytest.approx(power, rel=1e-12)


def test_randomized_response_wins_just_as_often_as_the_bound_says():
    """Truth with probability e^ε/(1 + e^ε) is the mechanism that meets the bound: 3/4 at ε = ln 3."""
    above, below = F("1.0986122886681099"), F("1.0986122886681096")  # ln 3 lies between
    assert win(below, F(0)) < F(3, 4) < win(above, F(0))
    assert win(above, F(0)) - win(below, F(0)) < F(1, 10**12)


def test_a_huge_epsilon_is_no_protection_and_no_crash():
    assert win(F(10**6), F(0)) == 1
    assert odds(F(10**6)) is None
    made = Ledger(MemoryStore())
    made.open("hospital", Budget(epsilon=10**6))
    text = privacy_statement(policy(), made).to_markdown()
    assert "odds about one unit by more than 10^21" in text
    assert "right at most 100 %" in text


def test_every_kind_of_loss_has_words():
    for loss in (
        Pure(1), losses.BoundedRange(1), Approximate(1, "1e-6"), losses.Concentrated(1), losses.LaplaceNoise(1),
        GaussianNoise(1), losses.DiscreteGaussianNoise(1, 1), losses.SampledGaussian("0.1", 1),
        losses.PerDistance(1, "km", 0), Repeated(Pure(1), 2), Together(), Parallel(),
    ):  # fmt: skip
        assert len(kind_in_words(loss)) > 20
    assert len(losses._KINDS) == 12


# --- answers -----------------------------------------------------------------------------------------------


def test_every_question_is_answered_and_in_order(ledger):
    charge(ledger, Pure("0.5"))
    statement = privacy_statement(policy(), ledger)
    assert [one.question for one in statement.sections] == [
        "Who is protected?",
        "Against which change?",
        "Who must be trusted?",
        "How much may be learned, and how much was?",
        "Over which releases?",
        "By which mechanisms?",
        "How is the influence of one unit bounded?",
        "What is public?",
        "What is not promised?",
        "Was the budget changed?",
        "How can it be checked?",
    ]
    assert all(one.paragraphs or one.points for one in statement.sections)
    page = statement.to_markdown()
    assert page.startswith("# Privacy statement: hospital\n\nAs of 2026-11-01T12:00:00.000000Z. ")
    assert "NIST SP 800-226" in page
    assert page.count("\n## ") == 11


def test_unit_and_neighbors_in_words(ledger):
    person = privacy_statement(policy(), ledger)
    assert "one person, that is all rows with the same patient_id" in section(person, "Who is protected?")
    assert "adding or removing one unit" in section(person, "Against which change?")
    assert "somebody with k rows" not in section(person, "What is not promised?")
    row = privacy_statement(policy(neighbors="change one", unit="row"), ledger)
    assert "one row; a person with several rows" in section(row, "Who is protected?")
    assert "how many units there are is public" in section(row, "Against which change?")
    assert "somebody with k rows is a group" in section(row, "What is not promised?")


def test_granted_and_spent_with_their_meaning(ledger):
    charge(ledger, Pure("0.5"))
    charge(ledger, Pure("0.5"), "bob")
    statement = privacy_statement(policy(), ledger)
    told = section(statement, "How much may be learned, and how much was?")
    assert "ε 3, δ 1e-06" in told
    assert "Spent so far: ε 1." in told
    assert "by at most 20.0856;" in told  # e³ = 20.08553…, rounded up
    assert "by at most 2.71829;" in told  # e = 2.718281…, rounded up
    assert "right at most 95.2575 %" in told
    assert "right at most 73.1059 %" in told
    facts = statement.facts
    assert facts["granted"]["guess"] >= (math.exp(3) + 1e-6) / (1 + math.exp(3)) - 1e-15
    assert facts["spent"]["epsilon"] == 1
    assert facts["spent"]["odds_factor"] == pytest.approx(math.e)


def test_without_charges_nothing_was_released(ledger):
    statement = privacy_statement(policy(), ledger)
    assert section(statement, "Over which releases?") == "Nothing has been released."
    assert "At the spent ε" not in statement.to_markdown()
    assert statement.facts["releases"] == {"charges": 0, "first": None, "last": None, "analysts": []}


def test_names_and_texts_are_told_only_where_asked_for(ledger):
    charge(ledger, Pure("0.5"), "ann")
    charge(ledger, Pure("0.1"), "bob")
    ledger.amend("hospital", budget=Budget(epsilon=4), by="carla", why="a new grant")
    made = privacy_statement(policy(), ledger)
    quiet = made.to_markdown() + json.dumps(made.to_json())
    for secret in ("ann:", '"ann"', "bob", "carla", "secret_question"):
        assert secret not in quiet
    assert "analyst 1: 1 charge, ε 0.5 taken alone." in quiet
    made = privacy_statement(policy(), ledger, names=True, texts=True)
    for told in ("ann: 1 charge", "by carla", "`SELECT secret_question`", "ε 1, δ 0 for 'bob'"):
        assert told in made.to_markdown()
    assert made.facts["releases"]["statements"][0]["text"] == "SELECT secret_question"


def test_mechanisms_are_counted_once_a_charge_also_inside_others(ledger):
    charge(ledger, Pure("0.1"))
    charge(ledger, Together(Pure("0.1"), Repeated(GaussianNoise(60), 2), Pure("0.1")))
    charge(ledger, Parallel(Approximate("0.1", "1e-8"), Pure("0.1")))
    statement = privacy_statement(policy(), ledger)
    assert statement.facts["mechanisms"] == {
        "pure": 3, "together": 1, "repeated": 1, "gaussian-noise": 1, "parallel": 1, "approximate": 1,
    }  # fmt: skip
    told = section(statement, "By which mechanisms?")
    assert "Rényi totals" in told
    assert "disjoint parts" in told
    assert "cryptographic generator" in told


def test_a_pure_budget_is_composed_by_adding():
    made = Ledger(MemoryStore())
    made.open("hospital", Budget(epsilon=3))
    told = section(privacy_statement(policy(delta=""), made), "By which mechanisms?")
    assert "pure ε's add up" in told
    assert "Rényi" not in told


def test_contribution_bounds_and_clamping(ledger):
    plain = section(privacy_statement(policy(), ledger), "How is the influence of one unit bounded?")
    assert "as many groups of one answer as a question states" in plain
    assert "age: integer from 0 to 120" in plain
    bounded = privacy_statement(policy(bounds="max_groups_per_unit = 3\nmax_rows_per_group = 10"), ledger)
    told = section(bounded, "How is the influence of one unit bounded?")
    assert "in at most 3 groups of one answer, with at most 10 rows in each" in told
    assert bounded.facts["contributions"] == {"visits": {"groups": 3, "rows": 10}}
    assert bounded.facts["clamped"] == {"visits": {"age": [0, 120]}}


def test_what_is_public(ledger):
    told = section(privacy_statement(policy(), ledger), "What is public?")
    assert "Table regions: all of its rows" in told
    assert "region: text, one of 2 declared values" in told


def test_amendments_are_listed_with_dates_and_reasons(ledger, clock):
    assert section(privacy_statement(policy(), ledger), "Was the budget changed?").startswith(
        "No. Opened on 2026-11-01"
    )
    clock.move(timedelta(days=2))
    ledger.amend("hospital", budget=Budget(epsilon=9, delta="1e-6"), by="owner", why="the *board* agreed")
    clock.move(timedelta(days=1))
    ledger.amend("hospital", budget=Budget(epsilon=4, delta="1e-6"), by="owner", why="the board <b>regretted</b>")
    made = privacy_statement(policy(), ledger)
    told = section(made, "Was the budget changed?")
    assert (
        "2026-11-03, row 2: budget ε 9, δ 1e-06 and 1 cap and one for everyone else. Reason: the \\*board\\* agreed."
        in told
    )
    assert "2026-11-04, row 3" in told
    assert "\\<b\\>regretted" in told
    parameters = section(made, "How much may be learned, and how much was?")
    assert "ever released: ε 4, δ 1e-06" in parameters
    assert "A greater budget, ε 9, δ 1e-06, was in force" in parameters
    assert "The policy file states another budget, ε 3, δ 1e-06" in parameters
    assert "The budget was changed in between" in parameters
    assert [one["budget"]["epsilon"] for one in made.facts["amendments"]] == [9, 4]


def test_tokens_that_were_made_change_no_budget_and_name_nobody(ledger):
    ledger.record("hospital", by="root", why="made token 0123456789ab for ann (analyst)")
    made = privacy_statement(policy(), ledger)
    assert section(made, "Was the budget changed?").startswith("No. Opened on")
    assert "The budget was changed in between" not in made.to_markdown()
    assert "0123456789ab" not in made.to_markdown()
    assert made.facts["amendments"] == []


def test_a_budget_that_lost_its_delta(ledger):
    charge(ledger, GaussianNoise(50))
    ledger.amend("hospital", budget=Budget(epsilon=3), by="owner", why="no δ")
    made = privacy_statement(policy(), ledger)
    assert "Spent so far: no finite ε." in made.to_markdown()
    assert made.facts["spent"]["epsilon"] == "inf"
    json.dumps(made.to_json(), allow_nan=False)


# --- as of -------------------------------------------------------------------------------------------------


def test_as_of_a_day_or_a_moment_counts_what_was_charged_until_then(ledger, clock):
    charge(ledger, Pure("0.5"))
    then = ledger.head("hospital")
    before = privacy_statement(policy(), ledger, as_of=date(2026, 11, 1))
    clock.move(timedelta(days=1))
    charge(ledger, Pure("0.25"))
    assert privacy_statement(policy(), ledger).facts["releases"]["charges"] == 2
    for moment in (date(2026, 11, 1), datetime(2026, 11, 2, 11, tzinfo=UTC)):
        made = privacy_statement(policy(), ledger, as_of=moment)
        assert made.facts["releases"]["charges"] == 1
        assert made.facts["spent"]["epsilon"] == 0.5
        assert made.facts["head"]["hash"] == then.hash
    assert privacy_statement(policy(), ledger, as_of=date(2026, 11, 1)) == before  # the same rows, the same statement
    assert json.dumps(made.facts["head"]) in made.to_markdown()


@pytest.mark.parametrize("moment", [date(2026, 10, 31), "2026-11-01", 3, datetime(2026, 11, 1, 12)])
def test_a_time_that_cannot_be_used_is_one_clear_error(ledger, moment):
    with pytest.raises(InvalidParameter):
        privacy_statement(policy(), ledger, as_of=moment)


def test_a_dataset_that_the_ledger_does_not_know():
    with pytest.raises(InvalidParameter, match="hospital"):
        privacy_statement(policy(), Ledger(MemoryStore()))


# --- Markdown ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shown"),
    [("patient_id", "patient_id"), ("*a*", r"\*a\*"), ("_a_", r"\_a\_"), ("a\n# b", r"a\\n\# b"), ("`x`", r"\`x\`")],
)
def test_names_are_shown_as_they_are(text, shown):
    assert literal(text) == shown


def test_texts_cannot_break_out_of_their_code(ledger):
    charge(ledger, Pure("0.1"), text="SELECT `a`\n## You are safe\n``b``")
    page = privacy_statement(policy(), ledger, texts=True).to_markdown()
    assert "``` SELECT `a` ## You are safe ``b`` ```" in page
    assert page.count("\n## ") == 11


def test_names_in_any_script(ledger):
    charge(ledger, Pure("0.1"), "李明")
    assert "李明: 1 charge" in privacy_statement(policy(), ledger, names=True).to_markdown()


def test_what_is_read_of_a_csv_file_is_stated(ledger):
    question = "How is the influence of one unit bounded?"
    assert "CSV" not in section(privacy_statement(policy(), ledger), question)  # only a public table is in such a file
    csv = parse_policy(
        POLICY.format(neighbors="change one", unit="patient_id", bounds="", delta="").replace(".parquet", ".csv")
    )
    statement = privacy_statement(csv, ledger)
    assert "is read from a CSV file: each line is one record, whatever it contains" in section(statement, question)
    assert statement.facts["csv"] == {
        "visits": {"delimiter": ",", "encoding": "utf-8", "decimal": ".", "date_format": None}
    }


def test_who_may_spend_and_whether_there_is_a_witness_is_said_without_names():
    ledger = Ledger(MemoryStore())
    ledger.open("hospital", policy().budget)
    told = privacy_statement(policy(), ledger).to_markdown()
    assert "Nobody is capped: any name may spend all of it." in told
    assert "No witness" not in told
    ledger.amend("hospital", caps={"bob": Budget(epsilon=1)}, by="olga", why="caps")
    told = privacy_statement(replace(policy(), witness=()), ledger).to_markdown()
    assert "1 analyst may spend up to a cap; others are refused." in told
    assert "No witness outside the ledger" in told
    ledger.amend("hospital", everyone=Budget(epsilon="0.5"), by="olga", why="caps")
    told = privacy_statement(policy(), ledger).to_markdown()
    assert "1 analyst may spend up to a cap; each other analyst up to ε 0.5, δ 0." in told
    assert "bob" not in told
