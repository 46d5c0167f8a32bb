"""A map through the gate."""

import numpy as np
import pyarrow as pa
import pytest

import discreet
from discreet.curator.catalog import Catalog
from discreet.errors import BudgetExceeded, InternalError, InvalidData, InvalidParameter
from discreet.requests import Commute
from discreet.synthetic.commuting import Flows, Places
from discreet.synthetic.commuting.plan import plan_commute

PLACES = {"name": ["a", "b", "c"], "x_km": [0, 1, 5], "y_km": [0, 0, 0]}
ROWS = pa.table({"who": np.arange(3000) % 2500, "home": ["a", "b", "c"] * 1000, "work": ["a", "a", "b"] * 1000})
POLICY = """
[dataset]
name = "city"
neighbors = "{neighbors}"
[budget]
everyone = "all"
epsilon = 5
[tables.people]
source = "python"
unit = "{unit}"
columns.who = {{type = "integer"}}
columns.home = {{type = "text"}}
columns.work = {{type = "text"}}
"""


@pytest.fixture(params=[("add or remove one", "who"), ("change one", "who"), ("change one", "row")])
def data(request, tmp_path):
    neighbors, unit = request.param
    path = tmp_path / "city.toml"
    path.write_text(POLICY.format(neighbors=neighbors, unit=unit))
    with discreet.open(path, tables={"people": ROWS}) as opened:
        yield opened


def test_a_map_is_charged_once_and_close(data):
    made = data.commute("people", PLACES, origin="home", destination="work", epsilon=2)
    people = 3000 if data.catalog.table("people").unit.key is None else 2500
    assert abs(made.flows.total - people) < 200
    assert str(made.receipt).startswith("ε 2 charged")
    again = data.commute("people", PLACES, origin="home", destination="work", epsilon=2)
    assert again.table().equals(made.table())
    with pytest.raises(BudgetExceeded):
        data.commute("people", PLACES, origin="home", destination="work", epsilon=4)
    assert (
        "and works"
        in data.plan(Commute(table="people", places=PLACES, origin="home", destination="work", epsilon=1)).explain()
    )


def test_the_plan_is_refused_by_another_catalog(data):
    plan = data.plan(Commute(table="people", places=PLACES, origin="home", destination="work", epsilon=1))
    assert plan.verify(data.catalog) == plan.loss
    changed = "change one" if data.catalog.neighbors == "add or remove one" else "add or remove one"
    with pytest.raises(InternalError, match="other neighbors"):
        plan.verify(Catalog("city", [data.catalog.table("people")], neighbors=changed))


def test_names_differ_where_releases_do(data):
    def name(places=PLACES, **settings):
        terms = {"origin": "home", "destination": "work", "epsilon": 1} | settings
        return plan_commute(Commute(table="people", places=places, **terms), data.catalog).digest

    moved = PLACES | {"x_km": [0, 2, 5]}
    names = [
        name(),
        name(moved),
        name(epsilon=2),
        name(cap=3),
        name(origin="work", destination="home"),
        name(bands=[1]),
    ]
    assert len(set(names)) == len(names)
    assert name() == name()


def test_rows_that_name_no_place_count_nowhere(tmp_path):
    path = tmp_path / "city.toml"
    path.write_text(POLICY.format(neighbors="change one", unit="row"))
    rows = pa.table({"who": [1, 2, 3], "home": ["a", None, "moon"], "work": ["a", "a", "a"]})
    with discreet.open(path, tables={"people": rows}) as data:
        made = data.commute("people", PLACES, origin="home", destination="work", epsilon=5)
    assert isinstance(made.flows, Flows)
    assert made.flows.places.names == Places.read(PLACES).names


@pytest.mark.parametrize("wrong", [{"groups": {"a": "x"}}, {"places": {"name": ["a"], "x_km": [0], "y_km": [0]}}])
def test_what_cannot_be_made_is_refused_before_it_is_charged(data, wrong):
    settings = {"places": PLACES, "origin": "home", "destination": "work", "epsilon": 1} | wrong
    with pytest.raises(InvalidData, match="groups: 2 places have none|at least two"):
        data.commute("people", **settings)
    with pytest.raises(InvalidParameter, match="noise"):
        data.commute("people", **settings | {"places": PLACES, "groups": None, "epsilon": "1e-30"})
    assert not data._curator.ledger.charges("city")


@pytest.mark.parametrize(
    "wrong", [{"origin": "house"}, {"origin": "who"}, {"promise": "probabilistic", "delta": "1e-6"}, {"epsilon": 0}]
)
def test_what_cannot_be_asked(data, wrong):
    settings = {"origin": "home", "destination": "work", "epsilon": 1} | wrong
    if wrong == {"origin": "who"} and data.catalog.table("people").unit.key is None:
        return
    with pytest.raises(InvalidParameter):
        data.commute("people", PLACES, **settings)
    assert not data._curator.ledger.charges("city")
