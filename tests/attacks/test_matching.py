"""Rules and the join, against brute force over all pairs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.attacks.tables.matching import Join, keyed
from discreet.attacks.tables.rules import Coarse, Edits, Exact, Relation, Starts, Within, rule_for
from discreet.errors import InvalidParameter


def texts(*values):
    return np.array(values, object)


def edits(a, b):
    """The textbook recursion, row by row."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        last, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (x != y))
    return row[-1]


LABELS = {"[0, 5)": lambda v: v < 5, "[3, 8)": lambda v: 3 <= v < 8, "≥5": lambda v: v >= 5, "*": lambda v: True}


@given(
    released=st.lists(
        st.tuples(st.integers(0, 1), st.integers(0, 9), st.sampled_from(list(LABELS)), st.sampled_from("ab")),
        min_size=1,
        max_size=12,
    ),
    known=st.lists(
        st.tuples(st.integers(0, 1), st.integers(0, 9), st.integers(0, 9), st.sampled_from("ab")),
        min_size=1,
        max_size=12,
    ),
    reach=st.integers(0, 4),
)
def test_the_join_is_that_of_all_pairs(released, known, reach):
    a = {name: np.array([row[i] for row in released], object if i > 1 else int) for i, name in enumerate("efgh")}
    b = {name: np.array([row[i] for row in known], object if i > 2 else int) for i, name in enumerate("efgh")}
    join = Join(a, b, {"f": Within(tolerance=reach)})
    pairs = np.array(
        [
            [r[0] == k[0] and abs(r[1] - k[1]) <= reach and LABELS[r[2]](k[2]) and r[3] == k[3] for k in known]
            for r in released
        ]
    )
    fit = join.fit()
    assert fit.people.tolist() == pairs.sum(axis=1).tolist()
    assert fit.rows.tolist() == pairs.sum(axis=0).tolist()
    for row, person in enumerate(fit.person):
        assert person == (int(pairs[row].argmax()) if pairs[row].sum() == 1 else -1)
    i, j = (m.ravel() for m in np.meshgrid(range(len(released)), range(len(known)), indexing="ij"))
    assert join.fits(i, j).tolist() == pairs.ravel().tolist()


@given(
    st.lists(st.text("abc", max_size=5), min_size=1, max_size=8, unique=True),
    st.lists(st.text("abc", max_size=5), min_size=1, max_size=8, unique=True),
    st.integers(0, 3),
)
def test_edits_are_those_of_the_textbook(a, b, most):
    relation = Edits(most=most).relation(texts(*a), texts(*b))
    found = set(zip(relation.labels.tolist(), relation.values.tolist(), strict=True))
    assert found == {(i, j) for i, x in enumerate(a) for j, y in enumerate(b) if edits(x, y) <= most}


def test_each_row_gets_its_own_person():
    rng = np.random.default_rng(4)
    order = rng.permutation(500)
    join = Join({"x": np.arange(500), "y": np.arange(500) % 7}, {"x": order, "y": order % 7}, {})
    assert order[join.fit().person].tolist() == list(range(500))


def test_missing_values_fit_nobody():
    join = Join({"a": texts("x", None)}, {"a": texts(None, "x")}, {})
    assert join.fit().people.tolist() == [1, 0]
    assert join.fit().rows.tolist() == [0, 1]
    empty = Join({"a": texts(None)}, {"a": texts(None)}, {})
    assert empty.fit().people.tolist() == [0]
    assert not empty.fits(np.array([0]), np.array([0])).any()


def test_some_rows_and_people():
    join = Join({"a": np.array([1, 1])}, {"a": np.array([1, 1])}, {})
    fit = join.fit(rows=np.array([True, False]), people=np.array([False, True]))
    assert fit.person.tolist() == [1, -1]
    assert fit.rows.tolist() == [0, 1]


def test_dates_need_as_many_layers_as_they_reach():
    days = np.datetime64("2000-01-01") + np.arange(100)
    layer, owners = Within(tolerance=3).relation(days, days).layers()
    assert len(owners) == layer.max() + 1
    assert 7 <= len(owners) <= 10


def test_layers_are_disjoint():
    relation = Coarse().relation(texts("[0, 5)", "[3, 8)", "[5, 9)", "*"), np.arange(10))
    layer, owners = relation.layers()
    for label in range(4):
        mine = relation.values[relation.starts[label] : relation.starts[label + 1]]
        assert (owners[layer[label]][mine] == label).all()


def test_keys_never_collide_where_the_product_is_huge():
    rng = np.random.default_rng(0)
    table = [np.append(rng.integers(0, 1 << 20, 50), 1 << 20) for _ in range(6)]
    (keys,) = keyed([table])
    assert len(np.unique(keys)) == 51


def test_first_letters_and_chosen_rules():
    assert Starts(letters=3).relation(texts("Anna"), texts("anne", "an", "Bo")).values.tolist() == [0]
    assert isinstance(rule_for(texts("3*"), np.array([30])), Coarse)
    assert isinstance(rule_for(texts("x"), texts("y")), Exact)
    assert isinstance(rule_for(np.array([1]), np.array([1])), Exact)


def test_the_agreement_of_random_pairs():
    join = Join({"a": texts("x", "x", "y", None)}, {"a": texts("x", "y")}, {})
    assert join.agreement("a") == pytest.approx(3 / 8)
    assert join.unfit("a") == 0


def test_bad_rules():
    with pytest.raises(InvalidParameter, match="numbers or dates on both sides"):
        Within(tolerance=1).relation(texts("a"), texts("b"))
    with pytest.raises(InvalidParameter, match="tolerance: got -1"):
        Within(tolerance=-1).relation(np.array([1]), np.array([1]))
    with pytest.raises(InvalidParameter, match="letters"):
        Starts(letters=0).relation(texts("a"), texts("b"))
    many = np.array([f"{i}" for i in range(8000)], object)
    with pytest.raises(InvalidParameter, match="use Starts"):
        Edits().relation(many, many)
    with pytest.raises(InvalidParameter, match="smaller tolerance"):
        Within(tolerance=10**6).relation(np.arange(20_000), np.arange(20_000))


def test_an_empty_relation_has_one_layer():
    relation = Relation.of_pairs(np.empty(0, np.int64), np.empty(0, np.int64), count=2, size=3)
    layer, owners = relation.layers()
    assert layer.tolist() == [0, 0]
    assert (owners[0] == -1).all()
