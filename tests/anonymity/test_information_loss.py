"""What coarsening costs, against slow references."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.anonymity import Classes, Coded, Hierarchy, Recoding
from discreet.anonymity.information_loss import (
    association,
    average_class_size,
    discernibility,
    drifts,
    pair_drifts,
    utility,
)
from discreet.errors import InvalidData, InvalidParameter

AGES = Hierarchy.intervals("age", low=0, high=11, widths=(2, 6))
TOWNS = Hierarchy.rows("town", [("Pisa", "Tuscany"), ("Siena", "Tuscany"), ("Rome", "Lazio")])


@st.composite
def recodings(draw: st.DrawFn) -> Recoding:
    rows = draw(st.integers(1, 15))

    def column(low: int, high: int) -> list[int]:
        return draw(st.lists(st.integers(low, high), min_size=rows, max_size=rows))

    codes = np.array([column(0, 11), column(0, 2)], np.int32)
    levels = np.array([column(0, AGES.height), column(0, TOWNS.height)], np.int8)
    suppressed = np.array(draw(st.lists(st.booleans(), min_size=rows, max_size=rows)))
    return Recoding(Coded((AGES, TOWNS), codes), levels, suppressed)


def leaves_below(recoding: Recoding, place: int, row: int) -> list[int]:
    hierarchy = recoding.coded.hierarchies[place]
    level = hierarchy.height if recoding.suppressed[row] else recoding.levels[place, row]
    node = hierarchy.codes[level][recoding.coded.codes[place, row]]
    return [leaf for leaf in range(hierarchy.leaves) if hierarchy.codes[level][leaf] == node]


@given(recoding=recodings())
@settings(max_examples=60)
def test_drifts_equal_the_slow_reference(recoding: Recoding) -> None:
    rows = recoding.coded.rows
    for place, (drift, hierarchy) in enumerate(zip(drifts(recoding), recoding.coded.hierarchies, strict=True)):
        before, after = np.zeros(hierarchy.leaves), np.zeros(hierarchy.leaves)
        cost = 0.0
        for row in range(rows):
            below = leaves_below(recoding, place, row)
            before[recoding.coded.codes[place, row]] += 1 / rows
            after[below] += 1 / rows / len(below)
            cost += (len(below) - 1) / (hierarchy.leaves - 1) / rows
        levels = []
        for level in range(hierarchy.height):
            moved = np.zeros(len(hierarchy.labels[level]))
            np.add.at(moved, hierarchy.codes[level], before - after)
            levels.append(np.abs(moved).sum() / 2)
        assert drift.variation == pytest.approx(levels[0], abs=1e-12)
        assert drift.moved == pytest.approx(np.mean(levels), abs=1e-12)
        assert drift.ncp == pytest.approx(cost)


@given(recoding=recodings())
@settings(max_examples=60)
def test_pairs_equal_the_slow_reference(recoding: Recoding) -> None:
    rows = recoding.coded.rows
    before, after = np.zeros((12, 3)), np.zeros((12, 3))
    for row in range(rows):
        before[tuple(recoding.coded.codes[:, row])] += 1 / rows
        cells = np.ix_(leaves_below(recoding, 0, row), leaves_below(recoding, 1, row))
        after[cells] += 1 / rows / after[cells].size
    (pair,), left_out = pair_drifts(recoding)
    assert not left_out
    assert pair.variation == pytest.approx(np.abs(before - after).sum() / 2, abs=1e-12)
    assert pair.before == pytest.approx(slow_association(before), abs=1e-9)
    assert pair.after == pytest.approx(slow_association(after), abs=1e-9)


def slow_association(joint: Any) -> float:
    rows, columns = [i for i in range(12) if joint[i].sum()], [j for j in range(3) if joint[:, j].sum()]
    total = 0.0
    for i in rows:
        for j in columns:
            expected = joint[i].sum() * joint[:, j].sum()
            total += (joint[i, j] - expected) ** 2 / expected
    smaller = min(len(rows), len(columns)) - 1
    return float((total / smaller) ** 0.5) if smaller else 0.0


@given(recoding=recodings())
@settings(max_examples=60)
def test_class_measures(recoding: Recoding) -> None:
    tuples = [
        None
        if recoding.suppressed[row]
        else tuple((recoding.levels[place, row], tuple(leaves_below(recoding, place, row))) for place in (0, 1))
        for row in range(recoding.coded.rows)
    ]
    sizes = Counter(one for one in tuples if one is not None)
    found = utility(recoding)
    hidden = tuples.count(None)
    assert found.discernibility == sum(n * n for n in sizes.values()) + hidden * recoding.coded.rows
    assert dict(zip(found.sizes, found.times, strict=True)) == dict(Counter(sizes.values()))
    assert found.suppressed_share == pytest.approx(hidden / recoding.coded.rows)
    assert found.ncp == pytest.approx(recoding.ncp)
    assert found.ncp == pytest.approx(np.mean([drift.ncp for drift in found.drifts]))


def test_nothing_changed_costs_nothing() -> None:
    coded = Coded((AGES, TOWNS), np.array([[0, 5, 11], [0, 1, 2]], np.int32))
    found = utility(Recoding.full_domain(coded, [0, 0], np.zeros(3, bool)), k=1)
    assert (found.ncp, found.average, found.discernibility) == (0, 1, 3)
    assert all(drift.variation == drift.moved == 0 for drift in found.drifts)
    assert found.pairs[0].before == found.pairs[0].after == pytest.approx(1)


def test_weights_count_as_people() -> None:
    light = Classes.numbered(np.array([0, 1, -1]), weights=np.array([2, 3, 4]))
    assert discernibility(light) == 4 + 9 + 9 * 4
    assert average_class_size(light, k=2) == pytest.approx(1.25)


def test_association_of_unrelated_columns_is_zero() -> None:
    assert association(np.outer([0.2, 0.3, 0.5], [0.4, 0.6])) == pytest.approx(0, abs=1e-7)
    assert association(np.array([[0.5, 0.5]])) == 0  # one value: nothing to hang together


def test_pairs_that_are_too_large_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("discreet.anonymity.information_loss._LARGEST_PAIR", 10)
    coded = Coded((AGES, TOWNS), np.array([[0], [0]], np.int32))
    pairs, left_out = pair_drifts(Recoding.full_domain(coded, [0, 0], np.zeros(1, bool)))
    assert (pairs, left_out) == ((), (("age", "town"),))


def test_bad_input() -> None:
    with pytest.raises(InvalidData, match="every row is suppressed"):
        average_class_size(Classes.numbered(np.array([-1])), k=2)
    with pytest.raises(InvalidParameter, match="k: got 0"):
        average_class_size(Classes.numbered(np.array([0])), k=0)
