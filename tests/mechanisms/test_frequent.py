"""Most frequent values: exact laws on tiny groups, the draws themselves, and the error that is stated."""

from collections import Counter
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom
from tests.conftest import stable

from discreet.errors import InvalidData, InvalidParameter
from discreet.mechanisms.quantile import Multisets
from discreet.mechanisms.selection import GroupedMode
from discreet.noise import DeterministicEntropy
from discreet.privacy.loss import BoundedRange, Repeated

SLACK = 1e-9


def same_groups(counts: list[int], size: int) -> Multisets:
    """So many groups with these counts; zeros are left out, as an engine leaves them out."""
    there = np.flatnonzero(counts)
    return Multisets(
        np.repeat(np.arange(size), there.size), np.tile(there, size), np.tile(np.array(counts)[there], size), size
    )


@pytest.mark.parametrize("places", [1, 2, 3])
def test_the_range_of_every_neighbor_is_within_what_is_stated(places: int) -> None:
    """Counts of three values, moved by a vector of size at most 2: log-ratios lie within ±ε, and reach most of it."""
    mechanism = GroupedMode(epsilon=1, points=3, places=places, sensitivity=2)
    worst = 0.0
    for counts in product(range(3), repeat=3):
        base = dict(mechanism.probabilities(np.array(counts)))
        for moved in product(range(-2, 3), repeat=3):
            if sum(map(abs, moved)) > 2 or min(a + b for a, b in zip(counts, moved, strict=True)) < 0:
                continue
            law = dict(mechanism.probabilities(np.array(counts) + moved))
            ratios = [np.log(law[key] / base[key]) for key in law]
            if places == 1:
                assert max(ratios) - min(ratios) <= 1 + SLACK  # bounded range
            worst = max(worst, *map(abs, ratios))
    assert 0.3 < worst <= 1 + SLACK


@pytest.mark.parametrize("counts", [[0, 3, 0, 1, 0], [2, 2, 2, 0, 1], [0, 0, 0, 0, 0]])
@pytest.mark.parametrize("places", [1, 3])
def test_lists_are_drawn_with_their_probabilities(counts: list[int], places: int) -> None:
    """60,000 groups at once; each list occurs as often as its probability says (all together at 1e-6)."""
    mechanism, size = GroupedMode(epsilon=2, points=5, places=places, sensitivity=1), 60_000
    drawn = Counter(map(tuple, mechanism.release(same_groups(counts, size)).tolist()))
    laws = dict(mechanism.probabilities(np.array(counts)))
    assert sum(laws.values()) == pytest.approx(1)
    for key, chance in laws.items():
        tail = min(binom.cdf(drawn[key], size, chance), binom.sf(drawn[key] - 1, size, chance))
        assert tail >= 1e-6 / (2 * len(laws)), (key, drawn[key], size * chance)


@stable
@given(st.data())
def test_every_list_holds_different_declared_values(data: st.DataObject) -> None:
    points = data.draw(st.integers(1, 6))
    places = data.draw(st.integers(1, points))
    cells = data.draw(st.dictionaries(st.tuples(st.integers(0, 3), st.integers(0, points - 1)), st.integers(0, 9)))
    groups, values = (np.array([cell[i] for cell in cells], np.int64) for i in (0, 1))
    counts = np.array(list(cells.values()), np.int64)
    mechanism = GroupedMode(epsilon=1, points=points, places=places, sensitivity=1)
    found = mechanism.release(Multisets(groups, values, counts, 4), entropy=DeterministicEntropy(b"seed"))
    assert found.shape == (4, places)
    assert all(len(set(row)) == places and min(row) >= 0 and max(row) < points for row in found.tolist())


def test_a_value_that_was_named_is_not_named_again() -> None:
    """One value leads by far: it would be chosen again and again."""
    mechanism = GroupedMode(epsilon=50, points=3, places=3, sensitivity=1)
    one, leading, often = (np.array([number], np.int64) for number in (0, 1, 100))
    for seed in range(20):
        found = mechanism.release(Multisets(one, leading, often, 1), entropy=DeterministicEntropy(seed))
        assert found[0, 0] == 1
        assert sorted(found[0].tolist()) == [0, 1, 2]


def test_the_error_holds_as_often_as_stated_and_is_not_idle() -> None:
    """Exactly: of 40 values of which one leads by the error, another is chosen with probability at most 5 %, not 0.05 %."""
    mechanism = GroupedMode(epsilon="0.5", points=40, places=1, sensitivity=3)
    far = int(mechanism.interval("0.95")) + 1
    counts = np.zeros(40, np.int64)
    counts[7] = far
    wrong = 1 - dict(mechanism.probabilities(counts))[(7,)]
    assert 0.0005 < wrong <= 0.05


def test_no_group_has_no_frequent_value() -> None:
    nothing = np.zeros(0, np.int64)
    mechanism = GroupedMode(epsilon=1, points=9, places=2, sensitivity=1)
    assert mechanism.release(Multisets(nothing, nothing, nothing, 0)).shape == (0, 2)


def test_the_loss_is_that_of_all_places() -> None:
    assert GroupedMode(epsilon=1, points=9, places=1, sensitivity=1).loss == BoundedRange(1)
    assert GroupedMode(epsilon=1, points=9, places=4, sensitivity=1).loss == Repeated(BoundedRange("1/4"), 4)


def test_what_is_no_count_is_refused() -> None:
    mechanism = GroupedMode(epsilon=1, points=3, places=1, sensitivity=1)
    one, zero = np.array([1, 1]), np.array([0, 0])
    with pytest.raises(InvalidData, match="twice in a group"):
        mechanism.release(Multisets(zero, one, one, 1))
    with pytest.raises(InvalidData, match="not declared"):
        mechanism.release(Multisets(zero, np.array([1, 3]), one, 1))
    with pytest.raises(InvalidParameter, match="places"):
        GroupedMode(epsilon=1, points=3, places=4, sensitivity=1)
