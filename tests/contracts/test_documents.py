"""Every plan as a document: the same for years, read back as it was written, and no field of it without consequence.

`tests/golden/documents/` has the document of each plan. A change there voids answers that people have paid for: raise
the version of the plan, and say so in the changelog. DISCREET_GOLDEN=write writes them anew.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from tests.contracts.test_plan import OTHERS, ROWS, catalog

from discreet.curator.curator import Curator
from discreet.curator.engines.duckdb import DuckDBEngine
from discreet.curator.ledger import Ledger
from discreet.curator.ledger import digest as statement_digest
from discreet.curator.plan import canonical, digest, from_document, plan_parts, to_document
from discreet.curator.stores.memory import MemoryStore
from discreet.errors import DiscreetError, InternalError
from discreet.privacy.budget import Budget

GOLDEN = Path(__file__).parents[1] / "golden" / "documents"
NOT_WRITTEN = {
    "SynthesisPlan": {"rules", "people", "rows", "model", "settings", "epsilon", "delta"},
    "LinkedPlan": {"count", "settings", "epsilon", "delta"},
    "Part": {"rules"},
    "TrainingPlan": {"epsilon", "delta"},
    "Recipe": {"memory"},
    "FairnessPlan": {"confidence", "least", "epsilon", "delta"},
    "Predictions": {"keys", "values", "missing", "truth"},
}
"""Fields that change nothing of what is released, or that another field stands for: predictions have a digest."""


def path(name: str) -> Path:
    return GOLDEN / (name.replace(" ", "_").replace(",", "").replace("'", "") + ".json")


@pytest.mark.parametrize("name", list(OTHERS))
def test_the_document_of_a_plan_stays_as_it_is_and_its_digest_is_the_plans_name(name):
    one = OTHERS[name].make()
    text = json.dumps(one.document(), indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    if os.environ.get("DISCREET_GOLDEN") == "write":
        path(name).write_text(text, encoding="utf-8")
    assert text == path(name).read_text(encoding="utf-8")
    assert (one.digest, one.document()["version"]) == (digest(json.loads(text)), json.loads(text)["version"])


@pytest.mark.parametrize("name", list(OTHERS))
def test_every_part_is_read_back_as_it_was_from_the_text(name):
    one = OTHERS[name].make()
    document = json.loads(canonical(one.document()))
    parts = plan_parts(document, document["plan"], document["version"], document.keys() - {"plan", "version"})
    assert {part: to_document(value) for part, value in parts.items()} == {
        part: value for part, value in document.items() if part not in ("plan", "version")
    }
    present = list(values_of(one))
    for value in (from_document(part) for part in parts_of(document)):
        same = [other for other in present if type(other) is type(value)]
        assert type(value).__name__ in ("Schema", "Attribute") or value in same


def values_of(value: Any) -> Iterator[Any]:
    """A value and everything within it."""
    yield value
    items = [getattr(value, field.name) for field in fields(value)] if is_dataclass(value) else []
    for item in (*items, *(value if isinstance(value, tuple) else ())):
        yield from values_of(item)


def parts_of(document: Any) -> Iterator[Any]:
    """Everything in a document that stands for a value of a class."""
    if isinstance(document, dict) and "is" in document:
        yield document
    for item in document.values() if isinstance(document, dict) else document if isinstance(document, list) else ():
        yield from parts_of(item)


# --- answers of older versions --------------------------------------------------------------------------------------


def test_answers_that_an_older_version_named_by_what_python_printed_are_void_and_named_so():
    """Its keys were the digests of catalog, printed plan, data and analyst; nothing of it can be derived any more."""
    ledger, one = Ledger(MemoryStore()), OTHERS["fairness"].make()
    ledger.open("clinic", Budget(epsilon=10), everyone=Budget(epsilon=10))
    paid = ledger.charge("clinic", analyst="ann", statement=statement_digest(one.text), loss=one.loss, text=one.text)
    old_key = statement_digest(json.dumps(["clinic", f"fairness\n{one!r}", "version of the data", "ann"]))
    ledger.remember(old_key, paid.number, b"old")
    with DuckDBEngine(catalog(), ROWS) as engine:
        curator = Curator(catalog(), engine, ledger)
        assert curator.cached(one, analyst="ann") is None
        assert not curator.release(one, analyst="ann").receipt.free
        assert curator.release(one, analyst="ann").receipt.free
    assert ledger.verify().outdated == 1
    assert "1 answers of an older version are void" in str(ledger.verify())
    assert ledger.recall(old_key) == (paid, b"old")  # it is still there, sealed, for the owner


# --- one field at a time --------------------------------------------------------------------------------------------


def near(value: Any) -> Iterator[Any]:
    """Values that differ from a value in one thing."""
    match value:
        case bool():
            yield not value
        case int():
            yield value + 1
        case Fraction():
            yield from (value * Fraction(9, 10) - (value == 0), value * Fraction(11, 10) + (value == 0))
        case float():
            yield value + 0.01
        case str():
            yield value + "x"
        case tuple() if value:
            yield value[:-1]
            for place, item in enumerate(value[:3]):
                for other in near(item):
                    yield (*value[:place], other, *value[place + 1 :])
        case _ if is_dataclass(value):
            yield from changed(value)


def changed(value: Any) -> Iterator[Any]:
    """A value with one field changed, however deep, which no constructor has seen."""
    for name in (field.name for field in fields(value)):
        if name not in NOT_WRITTEN.get(type(value).__name__, ()):
            for other in near(getattr(value, name)):
                yield with_field(value, name, other)


def with_field(value: Any, name: str, other: Any) -> Any:
    copy = object.__new__(type(value))
    for field in fields(value):
        object.__setattr__(copy, field.name, other if field.name == name else getattr(value, field.name))
    return copy


@pytest.mark.parametrize("name", list(OTHERS))
def test_whatever_is_changed_in_a_plan_is_another_plan_or_is_refused(name):
    one, count = OTHERS[name].make(), 0
    for other in changed(one):
        count += 1
        try:
            other_name = other.digest
        except (DiscreetError, ArithmeticError, LookupError, ValueError):
            continue  # a change that its parts do not bear
        if other_name == one.digest:
            with pytest.raises(InternalError):
                other.verify(catalog())
    assert count > 12


# --- the loss, derived a second time --------------------------------------------------------------------------------


def with_recipe(one: Any, **changes: Any) -> Any:
    for name, value in changes.items():
        one = with_field(one, "recipe", with_field(one.recipe, name, value))
    return one


def test_riders_that_take_more_than_the_norm_are_refused():
    with pytest.raises(InternalError, match="moved further"):
        with_recipe(OTHERS["training"].make(), curve=Fraction(5, 4)).verify(catalog())


@pytest.mark.parametrize("name", ["rate", "steps", "multiplier"])
def test_a_run_costs_what_its_noise_and_its_steps_cost_whatever_the_recipe_says(name, monkeypatch):
    from discreet.learning.sgd.recipe import Recipe

    one = OTHERS["training"].make()
    stated = one.loss
    monkeypatch.setattr(Recipe, "loss", property(lambda self: stated))
    other = with_recipe(one, **{name: getattr(one.recipe, name) * 2})
    assert (other.loss, one.verify(catalog())) == (stated, stated)
    assert other.verify(catalog()) != stated


@pytest.mark.parametrize("name", ["synthesis", "synthesis of several rows", "linked"])
def test_marginals_with_too_little_noise_are_refused_though_the_design_calls_them_enough(name, monkeypatch):
    from discreet.privacy.loss import GaussianNoise
    from discreet.synthetic.measure.noisy_marginals import Design

    one = OTHERS[name].make()
    monkeypatch.setattr(Design, "loss", property(lambda self: GaussianNoise(10**6)))
    monkeypatch.setattr(
        "discreet.synthetic.measure.noisy_marginals.squared_sensitivity", lambda neighbors, rows: Fraction(9, 10)
    )
    with pytest.raises(InternalError, match="less noise"):
        one.verify(catalog())


def test_a_recipe_that_counts_too_few_picks_is_refused():
    from discreet.privacy.loss import Repeated

    one = OTHERS["synthesis in rounds"].make()
    loss = one.verify(catalog())
    assert loss == one.loss
    assert [part.count for part in loss.losses if isinstance(part, Repeated)] == [
        turn.picks for turn in one.recipe.rounds for _ in range(2)
    ]
    turn = one.recipe.rounds[0]
    assert with_recipe(one, rounds=(with_field(turn, "sigma", turn.sigma / 2),)).verify(catalog()) != loss


@pytest.mark.parametrize("share", ["totals_epsilon", "flows_epsilon", "moved"])
def test_a_map_whose_parts_cost_more_than_the_whole_is_refused(share, monkeypatch):
    from discreet.synthetic.commuting.flows import Scheme

    one = OTHERS["commuting"].make()
    value = 3 if share == "moved" else one.epsilon
    monkeypatch.setattr(Scheme, share, property(lambda self: value))
    with pytest.raises(InternalError):
        one.verify(catalog())


def test_flows_with_too_little_gaussian_noise_are_refused(monkeypatch):
    one = OTHERS["commuting in bands"].make()
    monkeypatch.setattr("discreet.synthetic.commuting.plan.sigma_of_flows", lambda scheme: Fraction(1, 2))
    with pytest.raises(InternalError, match="less noise"):
        one.verify(catalog())


def test_an_audit_whose_noise_states_less_than_it_costs_is_refused(monkeypatch):
    from discreet.mechanisms.gaussian import RoundedGaussian
    from discreet.privacy.loss import GaussianNoise

    one = OTHERS["fairness with Gaussian noise"].make()
    monkeypatch.setattr(RoundedGaussian, "loss", property(lambda self: GaussianNoise(10**6)))
    with pytest.raises(InternalError, match="less noise"):
        replace(one).verify(catalog())
