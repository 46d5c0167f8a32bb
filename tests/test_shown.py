"""What a notebook shows: datasets, catalogs, receipts, plans, mechanisms and losses as good as an answer; few lines of refusals."""

import io
from contextlib import redirect_stdout
from dataclasses import is_dataclass
from fractions import Fraction

import pyarrow as pa
import pytest

import discreet
from discreet import mechanisms
from discreet.errors import DiscreetError, InternalError
from discreet.privacy import loss as losses
from discreet.requests import Question

POLICY = """
[dataset]
name = "people"
neighbors = "add or remove one"
time_floor = 0
[budget]
epsilon = 3
everyone = "all"
[tables.people]
source = "python"
unit = "row"
columns.city = { type = "text", values = ["Oslo", "<b>Rome"] }
"""
SQL = "SELECT city, COUNT(*) AS n FROM people GROUP BY city"


@pytest.fixture
def data(tmp_path):
    policy = tmp_path / "people.toml"
    policy.write_text(POLICY)
    with discreet.open(policy, tables={"people": pa.table({"city": ["Oslo"] * 900})}, analyst="ann") as opened:
        yield opened


def test_a_dataset_shows_its_tables_and_what_is_left(data):
    data.ask(SQL, epsilon=1)
    shown = data._repr_html_()
    assert "ε 1 of 3 spent" in shown
    assert "one of 2 declared values" in shown
    assert repr(data) == "<Dataset people: people>"


def test_a_dataset_for_somebody_does_not_show_what_others_spent(data):
    data.ask(SQL, epsilon=1)
    assert "spent" not in data.acting_as("bob")._repr_html_()


def test_a_catalog_in_a_line_in_full_and_as_a_table(data):
    catalog = data.catalog
    assert repr(catalog) == "<Catalog people: people>"
    assert str(catalog).splitlines()[1] == "people: private, protects one row"
    assert "city</th>" in catalog._repr_html_()


def test_an_answer_and_its_receipt(data):
    answer = data.ask(SQL, epsilon=1)
    assert repr(answer) == str(answer)
    assert repr(answer.receipt) == "<Receipt: ε 1 charged as #2 to people, 2 left>"
    assert "#2" in answer.receipt._repr_html_()
    assert "<b>Rome" not in answer._repr_html_()


def test_a_plan_says_in_a_line_what_it_costs_and_in_a_notebook_what_it_does(data):
    plan = data.plan(Question(SQL, epsilon="0.5"))
    assert repr(plan) == f"<QueryPlan {plan.digest[:12]} at ε 0.5: {SQL}>"
    shown = plan._repr_html_()
    assert "<b>costs ε 0.5</b>" in shown
    assert "&#x27;&lt;b&gt;Rome&#x27;" in shown  # a line of its own for each, which wraps: no block of code
    assert "<pre" not in shown


def test_a_picture_of_an_answer_is_a_value_and_a_file(data, tmp_path):
    answer = data.ask(SQL, epsilon=1)
    shown = answer.plot()
    assert "<svg" in shown._repr_svg_()
    assert answer.plot(tmp_path / "a.svg").svg() == shown.svg()
    assert (tmp_path / "a.svg").read_text().startswith("<svg")


MECHANISMS = [
    mechanisms.Geometric(epsilon="0.5", sensitivity=1),
    mechanisms.Laplace(epsilon="0.5", sensitivity=2),
    mechanisms.Gaussian(sigma=3, sensitivity=1),
    mechanisms.Exponential(epsilon="0.5", sensitivity=1),
    mechanisms.RandomizedResponse.for_epsilon(epsilon="0.5"),
    mechanisms.KRR(epsilon="0.5", size=4),
    mechanisms.PlanarLaplace(epsilon="0.5", unit="km", granularity="0.1"),
]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: type(m).__name__)
def test_a_mechanism_shows_settings_and_cost(mechanism):
    shown = mechanism._repr_html_()
    assert f"<b>{type(mechanism).__name__}</b>" in shown
    assert "one release costs" in shown
    assert "Fraction" not in shown


def test_every_mechanism_and_every_loss_has_a_form_for_notebooks():
    public = [getattr(mechanisms, name) for name in mechanisms.__all__ if name not in ("Channel", "Mechanism")]
    kinds = [kind for kind in vars(losses).values() if isinstance(kind, type) and kind.__module__ == losses.__name__]
    for kind in (*public, *(kind for kind in kinds if is_dataclass(kind))):
        assert callable(getattr(kind, "_repr_html_", None)), kind


def test_a_loss_shows_its_settings_as_one_writes_them():
    shown = losses.Together(losses.Pure("0.5"), losses.Repeated(losses.GaussianNoise(2), 3))._repr_html_()
    assert "Pure(epsilon 0.5), Repeated(loss GaussianNoise(multiplier 2), count 3)" in shown


def test_a_refusal_in_a_notebook_is_a_few_lines(data):
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell()
    shell.user_ns["data"] = data
    printed = io.StringIO()
    with redirect_stdout(printed):
        result = shell.run_cell("data.ask('SELECT city FROM people', epsilon=1)")
    assert isinstance(result.error_in_exec, DiscreetError)
    lines = [line for line in printed.getvalue().splitlines() if line.strip()]
    assert len(lines) <= 8, lines
    assert "data.ask(" in lines[0]
    assert not any("discreet/" in line for line in lines)


def test_a_broken_promise_shows_every_frame():
    with pytest.raises(InternalError) as caught:
        raise InternalError("a test of frames")
    assert any("test_shown" in line for line in caught.value._render_traceback_())


def test_a_fraction_is_shown_as_a_decimal():
    assert "1/3" in losses.Pure(Fraction(1, 3))._repr_html_()


def test_a_value_prints_what_its_constructor_reads():
    laplace = mechanisms.Laplace(epsilon="0.1", sensitivity="1/3")
    assert repr(laplace) == "Laplace(epsilon=0.1, sensitivity='1/3', granularity='1/3072', dimension=1)"
    assert mechanisms.Laplace(epsilon=0.1, sensitivity="1/3", granularity="1/3072", dimension=1) == laplace
    twice = losses.Repeated(losses.Together(losses.Pure(1)), 2)
    assert repr(twice) == "Repeated(loss=Together(Pure(epsilon=1)), count=2)"
    assert losses.Repeated(loss=losses.Together(losses.Pure(epsilon=1)), count=2) == twice


def test_a_policy_in_a_line_and_in_words(data):
    assert repr(data.policy) == "<Policy people: ε 3, δ 0>"
    assert "any name may spend all of it" in data.policy._repr_html_()
