"""Bounds that are chosen privately: what each unit contributes, the loss of it, and what is written into a policy."""

from collections import Counter
from itertools import product
from math import exp
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

import discreet
from discreet.cli import cli
from discreet.curator.catalog import Catalog, Column, Table
from discreet.curator.engines.duckdb import DuckDBEngine
from discreet.curator.policy import read_policy
from discreet.errors import DiscreetError, InternalError, InvalidParameter
from discreet.privacy.unit import Unit
from discreet.requests import ContributionBounds
from discreet.sql.plan.bounds_plan import plan_bounds

COLUMNS = [
    Column("who", "integer"),
    Column("k", "text"),
    Column("j", "boolean"),
    Column("x", "integer"),
    Column("r", "real", granularity="0.5"),
    Column("f", "real"),
]
TYPES = [pa.int64(), pa.string(), pa.bool_(), pa.int64(), pa.float64(), pa.float64()]
BOTH = ("add or remove one", "change one")
ASKED: dict[str, Any] = {"table": "t", "by": ["k", "j"], "columns": {"x": (-5, 5), "r": (0, 3)}, "most_rows": 3}


def catalog(neighbors: str = BOTH[0], unit: str | None = "who") -> Catalog:
    return Catalog("d", [Table("t", COLUMNS, unit=Unit(unit))], neighbors=neighbors)


def arrow(rows: list[tuple[Any, ...]]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else [()] * len(COLUMNS)
    pairs = zip(COLUMNS, columns, TYPES, strict=True)
    return pa.table({column.name: pa.array(values, kind) for column, values, kind in pairs})


def numbers(rows: list[tuple[Any, ...]], request: ContributionBounds, known: Catalog) -> list[Counter[Any]]:
    """For each choice, the numbers of the units that have one."""
    plan = plan_bounds(request, known)
    with DuckDBEngine(known, {"t": arrow(rows)}) as engine:
        found = engine.fetch(plan.sql())
    return [Counter(found.column(f"s{i}").drop_null().to_pylist()) for i in range(len(plan.choices))]


ROWS = [
    (1, "a", True, 3, 0.5, 1.0),
    (1, "a", True, -9, 9.0, 1.0),
    (1, "a", None, None, None, 1.0),
    (1, "b", True, 2, 1.0, 1.0),
    *[(2, None, False, 4, float("nan"), 1.0)] * 7,
    (3, "a", True, None, -1.0, 1.0),
    (None, "z", True, 100, 2.0, 1.0),
]


def test_each_unit_has_one_number_of_its_own_rows() -> None:
    groups, rows, low_x, high_x, low_r, high_r = numbers(ROWS, ContributionBounds(epsilon=1, **ASKED), catalog())
    assert groups == Counter([3, 1, 1])
    assert rows == Counter([2, 3, 1])  # at most most_rows
    assert low_x == Counter([-5, 4])  # clamped; a person without a value has none
    assert high_x == Counter([3, 4])
    assert low_r == Counter([1, 0])  # in steps of a half
    assert high_r == Counter([6, 0])


def test_where_a_row_is_protected_each_row_has_its_number() -> None:
    request = ContributionBounds(table="t", epsilon=1, columns={"x": (-5, 5)})
    low, high = numbers(ROWS, request, catalog(unit=None))
    assert low == high == Counter([3, -5, 2, *[4] * 7, 5])
    with pytest.raises(InvalidParameter, match="nothing where one row is protected"):
        plan_bounds(ContributionBounds(table="t", epsilon=1, by=["k"]), catalog(unit=None))


POOL = [[], [("a", 0)], [("a", 0), ("a", 2)], [("a", 1), ("b", None)], [("b", 2), ("b", 1), ("c", 0)]]
"""What one person can have: groups and values of x."""


@pytest.mark.parametrize("neighbors", BOTH)
def test_no_neighbors_tell_more_than_the_loss_says(neighbors: str) -> None:
    """All contents of two people, and all changes of the first: probabilities of each answer within e^ε, exactly."""
    request = ContributionBounds(table="t", epsilon=4, by=["k"], columns={"x": (-1, 3)}, most_groups=3, most_rows=3)
    known = catalog(neighbors)
    plan = plan_bounds(request, known)
    seen = {
        contents: numbers(
            [(who, k, True, x, 0.0, 0.0) for who, rows in enumerate(contents) for k, x in POOL[rows]], request, known
        )
        for contents in product(range(len(POOL)), repeat=2)
    }
    worst = 0.0
    for (mine, other), counted in seen.items():
        for changed in range(len(POOL)):
            if neighbors == BOTH[0] and 0 not in (mine, changed):
                continue
            for choice, one, two in zip(plan.choices, counted, seen[changed, other], strict=True):
                mechanism = choice.mechanism(plan.neighbors)
                left, right = (mechanism.probabilities(np.array(sorted(held.elements()))) for held in (one, two))
                ratio = float((left / right).max())
                worst = max(worst, np.log(ratio) / float(choice.epsilon))
                assert ratio <= exp(float(choice.epsilon)) * (1 + 1e-9)
    assert worst > 0.4  # the check has power: noise for half the sensitivity would fail


def test_the_choice_is_near_the_quantile_and_charged(tmp_path: Any) -> None:
    with opened(tmp_path) as data:
        chosen = data.choose_bounds("visits", epsilon=8, by=["region"], columns={"pay": (-1000, 10**6)})
        assert chosen.contributions["max_groups_per_unit"] == 3
        assert chosen.contributions["max_rows_per_group"] == 2
        low, high = chosen.columns["pay"]
        assert -2 <= low <= 10
        assert 480 <= high <= 520
        (charge,) = data._curator.ledger.charges("clinic")
        assert (
            charge.loss
            == data.plan(
                ContributionBounds(table="visits", epsilon=8, by=["region"], columns={"pay": (-1000, 10**6)})
            ).loss
        )
        assert str(chosen).startswith("[tables.visits]  # chosen privately: charge #")


def test_a_plan_for_another_column_is_refused() -> None:
    from dataclasses import replace

    plan = plan_bounds(ContributionBounds(epsilon=1, **ASKED), catalog())
    assert plan.verify(catalog()) == plan.loss
    other = replace(plan.choices[2], column=Column("x", "integer", lower=-5, upper=5, nullable=False))
    with pytest.raises(InternalError, match="another column"):
        replace(plan, choices=(*plan.choices[:2], other, *plan.choices[3:])).verify(catalog())
    with pytest.raises(InternalError, match="other neighbors"):
        plan.verify(catalog(BOTH[1]))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"table": "none"}, "none"),
        ({"by": ["nothing"]}, "a column of table"),
        ({"by": ["who"]}, "other than the one that names the person"),
        ({"columns": {"k": (0, 1)}}, "a column of numbers"),
        ({"columns": {"f": (0, 1)}}, "with a granularity"),
        ({"columns": {"x": (5, 1)}}, "lower"),
        ({"probability": "0.3"}, "probability"),
        ({"probability": 1}, "probability"),
        ({"epsilon": 0}, "epsilon"),
        ({"most_rows": 0}, "most_rows"),
    ],
)
def test_bad_requests_are_refused(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(DiscreetError, match=words):
        plan_bounds(ContributionBounds(**{"epsilon": 1, **ASKED, **wrong}), catalog())


# --- the command ----------------------------------------------------------------------------------------------------

POLICY = """# the clinic
[dataset]
name = "clinic"
neighbors = "add or remove one"
witness = "witness"
time_floor = 0
[budget]
everyone = "all"
epsilon = 100

[tables.visits]  # one row a visit
source = "visits.parquet"
unit = "who"
max_rows_per_group = 50   # a guess

[tables.visits.columns]
who = {type = "integer", nullable = false}
region = {type = "text", values = ["n", "s", "w"]}
pay = {type = "integer", lower = 0, upper = 9}  # a guess
tip = {type = "integer"}
"""


def opened(folder: Any, policy: str = POLICY) -> Any:
    """Two thousand people with two rows in each of three regions; pay from 0 to 500."""
    import pyarrow.parquet

    who = np.repeat(np.arange(2000), 6)
    rows = {
        "who": who,
        "region": ["n", "n", "s", "s", "w", "w"] * 2000,
        "pay": np.tile([0, 500, 7, 8, 9, 10], 2000),
        "tip": who % 5,
    }
    pyarrow.parquet.write_table(pa.table(rows), folder / "visits.parquet")
    (folder / "clinic.toml").write_text(policy, "utf-8")
    return discreet.open(folder / "clinic.toml", analyst="owner")


COMMAND = ["--epsilon", "8", "--by", "region", "--column", "pay=-1000:100000", "--column", "tip=-100:100"]


def test_the_command_writes_what_it_chose_and_where_it_comes_from(tmp_path: Any) -> None:
    opened(tmp_path).close()
    path = str(tmp_path / "clinic.toml")
    done = CliRunner().invoke(cli, ["bounds", path, "visits", *COMMAND, "--write"])
    assert done.exit_code == 0, done.output
    table = read_policy(path).catalog.table("visits")
    assert (table.groups, table.rows) == (3, 2)
    assert 480 <= (table.column("pay").upper or 0) <= 520
    assert table.column("tip").lower is not None
    text = (tmp_path / "clinic.toml").read_text("utf-8")
    assert text.count("# chosen privately: charge #2, 20") == 4
    assert "# the clinic" in text
    assert "# one row a visit" in text
    assert (tmp_path / "clinic.toml.old").read_text("utf-8") == POLICY
    with discreet.open(path, analyst="owner") as data:
        assert len(data._curator.ledger.charges("clinic")) == 1


def test_without_write_the_policy_stays_and_explaining_is_free(tmp_path: Any) -> None:
    opened(tmp_path).close()
    path = str(tmp_path / "clinic.toml")
    told = CliRunner().invoke(cli, ["bounds", path, "visits", *COMMAND, "--explain"])
    assert "the 0.95 quantile" in told.output
    with discreet.open(path, analyst="owner") as data:
        assert data._curator.ledger.charges("clinic") == []
    done = CliRunner().invoke(cli, ["bounds", path, "visits", *COMMAND, "--json"])
    assert '"max_groups_per_unit": 3' in done.output
    assert (tmp_path / "clinic.toml").read_text("utf-8") == POLICY
    wrong = CliRunner().invoke(cli, ["bounds", path, "visits", "--epsilon", "1", "--column", "pay"])
    assert wrong.exit_code == 2
    assert "amount=0:100000" in wrong.output


def test_a_policy_in_another_form_is_not_touched() -> None:
    from discreet.curator.owner.policy_draft import with_bounds

    inline = POLICY.replace("[tables.visits]  # one row a visit", "[tables.visits.more]")
    with pytest.raises(InvalidParameter, match="by hand"):
        with_bounds(inline, "visits", {"max_rows_per_group": 3}, {}, provenance="chosen privately: charge #9")
