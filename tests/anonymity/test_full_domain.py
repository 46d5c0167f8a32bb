"""The optimum over the lattice, against looking at every node."""

from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.anonymity.adult import needs_adult, read

from discreet.anonymity import Classes, Coded, Hierarchy, Recoding
from discreet.anonymity.models import DistinctDiversity, EntropyDiversity, KAnonymity, Target
from discreet.anonymity.recoding import global_recoding
from discreet.errors import InvalidData, InvalidParameter

AGES = Hierarchy.intervals("age", low=0, high=11, widths=(2, 6))
TOWNS = Hierarchy.rows("town", [("Pisa", "Tuscany"), ("Siena", "Tuscany"), ("Rome", "Lazio")])
SEXES = Hierarchy.flat("sex", ["F", "M"])
ALL = (AGES, TOWNS, SEXES)


@dataclass(frozen=True)
class PairsOrTriples:
    """A model that is not monotone: it holds for classes of 2 or 3 people only."""

    name: str = "pairs or triples"
    monotone: bool = False
    least: int = 2
    codes: tuple[Any, ...] = ()
    rows: None = None

    @property
    def model(self) -> "PairsOrTriples":
        return self

    def take(self, rows: Any) -> "PairsOrTriples":
        return self

    def holds(self, classes: Classes) -> Any:
        return (classes.sizes == 2) | (classes.sizes == 3)


@st.composite
def tables(draw: st.DrawFn, most: int = 14) -> dict[str, list[Any]]:
    rows = draw(st.integers(1, most))
    # few different values make classes; a wide range makes rows alone
    reach = draw(st.sampled_from([2, 5, 11]))

    def column(high: int) -> list[int]:
        return draw(st.lists(st.integers(0, high), min_size=rows, max_size=rows))

    towns, sexes = column(2), column(1)
    return {
        "age": column(reach),
        "town": [TOWNS.labels[0][town] for town in towns],
        "sex": ["FM"[sex] for sex in sexes],
        "disease": column(2),
    }


MODELS = st.sampled_from(
    [
        KAnonymity(1),
        KAnonymity(2),
        KAnonymity(3),
        Target.of(KAnonymity(2), DistinctDiversity(2, "disease")),
        DistinctDiversity(2, "disease"),
        EntropyDiversity("1.5", "disease"),
        EntropyDiversity(2, "disease"),
        PairsOrTriples(),
    ]
)
SHARES = st.sampled_from([Fraction(0), Fraction(1, 10), Fraction(1, 4), Fraction(1, 2)])


def bound(model: Any, table: dict[str, list[Any]]) -> Any:
    return model if isinstance(model, PairsOrTriples) else model.bind(table, feasible=False)


def every_node(coded: Coded, aim: Any, limit: int) -> dict[tuple[int, ...], Recoding]:
    """All feasible nodes, judged on whole rows, one by one."""
    found = {}
    for levels in product(*(range(h.height + 1) for h in coded.hierarchies)):
        classes = Classes.of(list(coded.lifted(levels)))
        suppressed = ~aim.holds(classes)[classes.of_row]
        if suppressed.sum() <= limit:
            found[levels] = Recoding.full_domain(coded, levels, suppressed)
    return found


@given(table=tables(), model=MODELS, share=SHARES)
@settings(max_examples=100)
def test_no_node_is_better(table: dict[str, list[Any]], model: Any, share: Fraction) -> None:
    coded, aim = Coded.of(table, ALL), bound(model, table)
    limit = int(share * coded.rows)
    feasible = every_node(coded, aim, limit)
    if not feasible:
        with pytest.raises(InvalidData, match="no full-domain generalization|rows, but"):
            global_recoding.optimal(coded, aim, suppression=share)
        return
    best = global_recoding.optimal(coded, aim, suppression=share)
    assert best.ncp == pytest.approx(min(node.ncp for node in feasible.values()), abs=1e-12)
    chosen = tuple(best.levels[:, 0].tolist())
    equals = [levels for levels, node in feasible.items() if node.ncp <= best.ncp + 1e-12]
    assert sum(chosen) == min(map(sum, equals))  # of equals the finest
    assert best.suppressed.sum() <= limit
    kept = Classes.of(list(best.nodes))
    assert (aim.holds(kept)[kept.of_row] == ~best.suppressed).all()
    assert 0 <= best.ncp <= 1


@given(table=tables(), share=SHARES, seed=st.integers(0, 99))
@settings(max_examples=25)
def test_the_order_of_rows_does_not_matter(table: dict[str, list[Any]], share: Fraction, seed: int) -> None:
    rows = len(table["age"])
    shuffle = np.random.default_rng(seed).permutation(rows)
    mixed = {name: [values[i] for i in shuffle] for name, values in table.items()}
    k = min(2, rows)
    one = global_recoding.optimal(Coded.of(table, ALL), KAnonymity(k).bind(table), suppression=share)
    other = global_recoding.optimal(Coded.of(mixed, ALL), KAnonymity(k).bind(mixed), suppression=share)
    assert (one.levels[:, 0] == other.levels[:, 0]).all()
    assert one.ncp == pytest.approx(other.ncp, abs=1e-12)
    assert (one.suppressed[shuffle] == other.suppressed).all()


@given(table=tables(), model=MODELS)
@settings(max_examples=25)
def test_counts_need_not_be_kept(table: dict[str, list[Any]], model: Any) -> None:
    coded, aim = Coded.of(table, ALL), bound(model, table)
    try:
        best = global_recoding.optimal(coded, aim, suppression="1/4")
    except InvalidData:
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(global_recoding, "_MOST_KEPT", 0)
        assert (global_recoding.optimal(coded, aim, suppression="1/4").levels == best.levels).all()


def test_what_is_anonymous_stays_as_it_is() -> None:
    table = {"age": [3, 3, 7, 7], "town": ["Pisa", "Pisa", "Rome", "Rome"], "sex": ["F", "F", "M", "M"]}
    best = global_recoding.optimal(Coded.of(table, ALL), KAnonymity(2).bind(table), suppression=0)
    assert best.ncp == 0
    assert not best.suppressed.any()


@pytest.mark.parametrize("share", [0, Fraction(1, 10)])
def test_a_level_that_gains_nothing_is_not_used(share: Fraction) -> None:
    """13* covers 130 alone: it costs as little, and tells less."""
    zips = Hierarchy.prefixes("zip", ["130", "140", "150"])
    table = {"zip": ["130"] * 5 + ["140"] * 5 + ["150"] * (2 if share == 0 else 1)}
    best = global_recoding.optimal(Coded.of(table, [zips]), KAnonymity(2).bind(table), suppression=share)
    assert best.table(table).column("zip").to_pylist()[:6] == ["130"] * 5 + ["140"]


def test_one_stranger_is_suppressed_rather_than_everybody_coarsened() -> None:
    table = {"age": [3] * 9 + [7], "town": ["Pisa"] * 9 + ["Rome"], "sex": ["F"] * 9 + ["M"]}
    coded, aim = Coded.of(table, ALL), KAnonymity(2).bind(table)
    best = global_recoding.optimal(coded, aim, suppression="0.1")
    assert best.suppressed.tolist() == [False] * 9 + [True]
    assert best.ncp == pytest.approx(0.1)
    assert best.table(table).to_pylist()[-1] == {"age": "*", "town": "*", "sex": "*"}
    assert best.classes.sizes.tolist() == [9]
    assert global_recoding.optimal(coded, aim, suppression="0.09").suppressed.sum() == 0  # ⌊0.9⌋ = 0 rows


def test_a_union_may_fail_where_a_part_of_it_held() -> None:
    """With suppression an infeasible node does not close finer ones: women hold, all together do not."""
    table = {"sex": ["F", "F", "M", "M"], "disease": ["flu", "cold", "flu", "flu"]}
    aim = EntropyDiversity(2, "disease").bind(table, feasible=False)
    best = global_recoding.optimal(Coded.of(table, [SEXES]), aim, suppression="1/2")
    assert best.suppressed.tolist() == [False, False, True, True]
    with pytest.raises(InvalidData, match="at most 1 of 4 rows suppressed; even all 4 rows"):
        global_recoding.optimal(Coded.of(table, [SEXES]), aim, suppression="1/4")


def test_a_column_of_one_value_costs_nothing() -> None:
    one = Hierarchy.flat("town", ["Pisa"])
    table = {"town": ["Pisa"] * 3, "sex": ["F", "F", "M"]}
    best = global_recoding.optimal(Coded.of(table, [one, SEXES]), KAnonymity(3).bind(table), suppression=0)
    assert best.ncp == pytest.approx(0.5)


@pytest.mark.parametrize("share", [-0.1, 1.5, float("nan"), True, "many"])
def test_a_share_that_is_none_is_refused(share: Any) -> None:
    table = {"sex": ["F", "M"]}
    with pytest.raises(InvalidParameter, match="suppression"):
        global_recoding.optimal(Coded.of(table, [SEXES]), KAnonymity(1).bind(table), suppression=share)


def test_infeasible_targets_say_what_is_at_fault() -> None:
    table = {"sex": ["F", "M", "F"], "disease": ["plague"] * 3}
    coded = Coded.of(table, [SEXES])
    with pytest.raises(InvalidData, match="the table has 3 rows, but 5-anonymity needs classes of 5"):
        global_recoding.optimal(coded, KAnonymity(5).bind(table, feasible=False), suppression=0)
    target = Target.of(KAnonymity(2), DistinctDiversity(2, "disease")).bind(table, feasible=False)
    with pytest.raises(InvalidData, match="all 3 rows as one class do not satisfy distinct 2-diversity") as told:
        global_recoding.optimal(coded, target, suppression=0)
    assert "plague" not in str(told.value)


def test_a_lattice_beyond_reach_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(global_recoding, "MOST_NODES", 10)
    table = {"age": [1, 2], "town": ["Pisa", "Rome"], "sex": ["F", "M"]}
    with pytest.raises(InvalidData, match="has 24 nodes, more than 10"):
        global_recoding.optimal(Coded.of(table, ALL), KAnonymity(1).bind(table), suppression=0)


@needs_adult
@pytest.mark.parametrize(("k", "ncp"), [(5, 0.2902), (10, 0.3430)])
def test_the_optimum_of_adult(k: int, ncp: float) -> None:
    table, coded = read()
    best = global_recoding.optimal(coded, KAnonymity(k).bind(table), suppression="0.04")
    assert round(best.ncp, 4) == ncp
    assert best.suppressed.sum() <= 0.04 * coded.rows
    assert best.classes.sizes.min() >= k
