"""Local recoding: what it promises for any table and model, and how little it loses on Adult."""

from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.anonymity.adult import needs_adult, read

from discreet.anonymity import Classes, Coded, Hierarchy, Recoding
from discreet.anonymity.models import Closeness, DistinctDiversity, EntropyDiversity, KAnonymity, Target
from discreet.anonymity.recoding import DistinctRows, global_recoding, local_recoding
from discreet.anonymity.recoding import local_recoding as joining
from discreet.anonymity.recoding.local_recoding import Groups, specialized
from discreet.errors import InvalidData
from discreet.noise.entropy import DeterministicEntropy

AGES = Hierarchy.intervals("age", low=0, high=11, widths=(2, 6))
TOWNS = Hierarchy.rows("town", [("Pisa", "Tuscany"), ("Siena", "Tuscany"), ("Rome", "Lazio")])
SEXES = Hierarchy.flat("sex", ["F", "M"])
ALL = (AGES, TOWNS, SEXES)
MODELS = st.sampled_from(
    [
        KAnonymity(1),
        KAnonymity(2),
        KAnonymity(4),
        Target.of(KAnonymity(2), DistinctDiversity(2, "disease")),
        Target.of(KAnonymity(2), EntropyDiversity("1.5", "disease")),
        Closeness("0.3", "disease"),
    ]
)


@st.composite
def tables(draw: st.DrawFn) -> dict[str, list[Any]]:
    rows = draw(st.integers(4, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    reach = draw(st.sampled_from([2, 5, 12]))
    return {
        "age": rng.integers(0, reach, rows).tolist(),
        "town": rng.choice(TOWNS.labels[0], rows).tolist(),
        "sex": rng.choice(["F", "M"], rows, p=[0.8, 0.2]).tolist(),
        "disease": [0, 1, *rng.choice(3, rows - 2, p=[0.6, 0.3, 0.1]).tolist()],
    }


def assert_sound(result: Recoding, aim: Any, limit: int = 0) -> None:
    """Few rows suppressed; the model holds; every class is lifted exactly to its least common ancestors."""
    assert result.suppressed.sum() <= limit
    classes = result.classes
    assert aim.holds(classes).all()
    assert 0 <= result.ncp <= 1
    for number in range(classes.count):
        rows = np.flatnonzero(classes.of_row == number)
        for place, hierarchy in enumerate(result.coded.hierarchies):
            leaves = result.coded.codes[place, rows]
            common = next(level for level, codes in enumerate(hierarchy.codes) if len(set(codes[leaves])) == 1)
            assert (result.levels[place, rows] == common).all()


def feasible(model: Any, table: dict[str, list[Any]]) -> Any:
    aim = model.bind(table, feasible=False)
    whole = Classes(np.zeros(len(table["age"]), np.int64), np.array([len(table["age"])]))
    return aim if aim.holds(whole).all() else None


@given(table=tables(), model=MODELS)
@settings(max_examples=60)
def test_every_class_satisfies_the_model(table: dict[str, list[Any]], model: Any) -> None:
    coded, aim = Coded.of(table, ALL), feasible(model, table)
    if aim is None:
        with pytest.raises(InvalidData, match="not even all"):
            local_recoding.local(coded, model.bind(table, feasible=False))
    else:
        assert_sound(local_recoding.local(coded, aim), aim)


@given(table=tables(), model=MODELS)
@settings(max_examples=25)
def test_also_when_work_is_short(table: dict[str, list[Any]], model: Any) -> None:
    """Few nodes looked at, nothing placed one by one: dearer, never unsound."""
    coded, aim = Coded.of(table, ALL), feasible(model, table)
    if aim is None:
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local_recoding, "_MOST_PLACINGS", 80)
        patch.setattr(joining, "_MOST_PLACINGS", 0)
        assert_sound(local_recoding.local(coded, aim), aim)
        patch.setattr(local_recoding, "MOST_NODES", 1)
        assert_sound(local_recoding.local(coded, aim), aim)


@given(table=tables(), model=MODELS)
@settings(max_examples=40)
def test_from_the_top_down_every_group_satisfies_the_model(table: dict[str, list[Any]], model: Any) -> None:
    coded, aim = Coded.of(table, ALL), feasible(model, table)
    if aim is None:
        return
    tuples = DistinctRows.of(coded, aim)
    groups = specialized(tuples)
    assert aim.holds(Classes.numbered(groups.of_tuple[tuples.of_row])).all()


@given(table=tables())
@settings(max_examples=25)
def test_the_loss_of_groups_is_the_loss_of_the_recoding(table: dict[str, list[Any]]) -> None:
    coded = Coded.of(table, ALL)
    tuples = DistinctRows.of(coded, KAnonymity(2).bind(table))
    groups = specialized(tuples)
    levels = groups.levels[:, groups.of_tuple[tuples.of_row]].astype(np.int8)
    result = Recoding(coded, levels, np.zeros(coded.rows, np.bool_))
    assert groups.ncp == pytest.approx(result.ncp, abs=1e-12)


@given(table=tables(), one=st.integers(0, 3))
@settings(max_examples=30)
def test_what_joining_costs(table: dict[str, list[Any]], one: int) -> None:
    """`with_tuples` says beforehand what grouping again says afterwards."""
    tuples = DistinctRows.of(Coded.of(table, ALL), KAnonymity(1).bind(table))
    if tuples.count < 3:
        return
    one %= tuples.count
    of_tuple = np.delete(np.arange(tuples.count) % 2, one)
    of_tuple = np.insert(of_tuple, one, -1)
    if len(set(of_tuple.tolist())) < 3:
        return
    before = Groups.of(tuples, of_tuple)
    levels, dearer = before.with_tuples(np.array([one]))
    for group in (0, 1):
        after = Groups.of(tuples, np.where(of_tuple < 0, group, of_tuple))
        assert (after.levels[:, group] == levels[:, group]).all()
        grown = after.ncp * after.people.sum() - before.ncp * before.people.sum()
        assert dearer[group] == pytest.approx(grown, abs=1e-9)


@given(table=tables(), seed=st.integers(0, 99))
@settings(max_examples=40)
def test_the_order_of_rows_does_not_matter(table: dict[str, list[Any]], seed: int) -> None:
    shuffle = np.random.default_rng(seed).permutation(len(table["age"]))
    mixed = {name: [values[i] for i in shuffle] for name, values in table.items()}
    one = local_recoding.local(Coded.of(table, ALL), KAnonymity(3).bind(table), suppression="0.1")
    other = local_recoding.local(Coded.of(mixed, ALL), KAnonymity(3).bind(mixed), suppression="0.1")
    assert counted(one) == counted(other)  # which of equal rows goes where is drawn


def counted(result: Recoding) -> Counter[Any]:
    """How many rows of which leaves are lifted to which levels."""
    columns = (*result.coded.codes.tolist(), *result.levels.tolist(), result.suppressed.tolist())
    return Counter(zip(*columns, strict=True))


@given(table=tables(), model=MODELS, share=st.sampled_from(["0.05", "0.2", 1]))
@settings(max_examples=40)
def test_no_more_rows_are_suppressed_than_allowed(table: dict[str, list[Any]], model: Any, share: Any) -> None:
    coded, aim = Coded.of(table, ALL), feasible(model, table)
    if aim is None:
        return
    result = local_recoding.local(coded, aim, suppression=share)
    assert_sound(result, aim, limit=int(Fraction(share) * coded.rows))


@pytest.mark.parametrize(("k", "group"), [(5, 30), (2, 30), (10, 200), (15, 31)])
def test_an_outlier_takes_no_more_rows_along_than_it_needs(k: int, group: int) -> None:
    """Two towns of many equal rows, and a stranger: k rows are lifted, not one of the towns."""
    table = {"zip": ["13053"] * group + ["13068"] * group + ["99999"]}
    coded = Coded.of(table, [Hierarchy.prefixes("zip", sorted(set(table["zip"])))])
    result = local_recoding.local(coded, KAnonymity(k).bind(table))
    counts = Counter(result.table(table).column("zip").to_pylist())
    assert counts["*"] == k
    assert counts["13053"] + counts["13068"] == 2 * group + 1 - k
    assert_sound(result, KAnonymity(k).bind(table))
    hidden = local_recoding.local(coded, KAnonymity(k).bind(table), suppression=Fraction(1, 2 * group + 1))
    assert Counter(hidden.table(table).column("zip").to_pylist()) == {"13053": group, "13068": group, "*": 1}
    assert hidden.suppressed.tolist() == [False] * (2 * group) + [True]


def test_the_limit_is_shared_by_all_outliers() -> None:
    """Three strangers who have nothing in common, of whom two may be suppressed; the third takes rows along."""
    table = {"zip": ["13053"] * 30 + ["23068"] * 30 + ["77777", "88888", "99999"]}
    coded = Coded.of(table, [Hierarchy.prefixes("zip", sorted(set(table["zip"])))])
    result = local_recoding.local(coded, KAnonymity(4).bind(table), suppression=Fraction(2, 63))
    assert result.suppressed.sum() == 2
    assert Counter(result.table(table).column("zip").to_pylist())["*"] == 2 + 4


def test_an_outlier_leaves_diverse_classes_behind() -> None:
    """The rows that it takes along, and those that stay, both have three illnesses."""
    rng = np.random.default_rng(8)
    table = {"zip": ["13053"] * 60 + ["13068"] * 60 + ["99999"], "ill": rng.integers(0, 3, 121).tolist()}
    coded = Coded.of(table, [Hierarchy.prefixes("zip", sorted(set(table["zip"])))])
    aim = Target.of(KAnonymity(5), DistinctDiversity(3, "ill")).bind(table)
    result = local_recoding.local(coded, aim)
    assert_sound(result, aim)
    assert 5 <= Counter(result.table(table).column("zip").to_pylist())["*"] <= 20


def test_which_of_equal_rows_go_with_an_outlier_is_drawn() -> None:
    """Row by row about 4 in 60 chances each; a row that always went, or 40 that never did, would show."""
    table = {"zip": ["13053"] * 60 + ["99999"]}
    coded = Coded.of(table, [Hierarchy.prefixes("zip", ["13053", "99999"])])
    taken = np.zeros(61)
    for seed in range(120):
        entropy = DeterministicEntropy(seed)
        taken += local_recoding.local(coded, KAnonymity(5).bind(table), entropy=entropy).levels[0] > 0
    assert taken[60] == 120
    assert taken[:60].max() <= 29  # binomial, 120 draws at 1/15: above that once in a million tables
    assert (taken[:60] == 0).sum() <= 3


def test_what_is_anonymous_stays_as_it_is() -> None:
    table = {"age": [3, 3, 7, 7], "town": ["Pisa", "Pisa", "Rome", "Rome"], "sex": ["F", "F", "M", "M"]}
    assert local_recoding.local(Coded.of(table, ALL), KAnonymity(2).bind(table)).ncp == 0


def test_a_stranger_joins_the_nearest_class() -> None:
    """Siena with a Pisan class becomes Tuscany; the Romans keep their town."""
    towns = ["Pisa", "Pisa", "Rome", "Rome", "Siena"]
    table = {"town": towns}
    result = local_recoding.local(Coded.of(table, [TOWNS]), KAnonymity(2).bind(table))
    assert result.table(table).column("town").to_pylist() == ["Tuscany", "Tuscany", "Rome", "Rome", "Tuscany"]


def test_one_row_and_one_column() -> None:
    table = {"sex": ["F"]}
    assert local_recoding.local(Coded.of(table, [SEXES]), KAnonymity(1).bind(table)).ncp == 0


def test_infeasible_targets_say_what_is_at_fault() -> None:
    table = {"sex": ["F", "M", "F"], "disease": ["plague"] * 3}
    coded = Coded.of(table, [SEXES])
    with pytest.raises(InvalidData, match="the table has 3 rows, but 5-anonymity needs classes of 5"):
        local_recoding.local(coded, KAnonymity(5).bind(table, feasible=False))
    target = Target.of(KAnonymity(2), DistinctDiversity(2, "disease")).bind(table, feasible=False)
    with pytest.raises(InvalidData, match="all 3 rows as one class satisfy distinct 2-diversity") as told:
        local_recoding.local(coded, target)
    assert "plague" not in str(told.value)
    assert "anonymity" not in str(told.value)  # that part of the target is not at fault


@pytest.mark.quick_cases(1)
@needs_adult
@pytest.mark.parametrize(("k", "arx", "ours"), [(5, 0.1691, 0.049), (10, 0.2069, 0.072)])
def test_less_is_lost_on_adult_than_by_arx(k: int, arx: float, ours: float) -> None:
    table, coded = read()
    aim = KAnonymity(k).bind(table)
    result = local_recoding.local(coded, aim)
    assert_sound_sizes(result, k)
    assert result.ncp <= ours < arx
    assert result.ncp < global_recoding.optimal(coded, aim, suppression=0).ncp


def assert_sound_sizes(result: Recoding, k: int) -> None:
    """Classes counted from the texts of the released table, as whoever reads it would."""
    names = result.coded.names
    released = result.table({name: [""] * result.coded.rows for name in names})
    rows = list(zip(*(released.column(name).to_pylist() for name in names), strict=True))
    counts: dict[tuple[str, ...], int] = {}
    for row in rows:
        counts[row] = counts.get(row, 0) + 1
    assert min(counts.values()) >= k
    assert len(rows) == result.coded.rows
