"""Quantiles, minimum and maximum: every neighbor of every tiny dataset, under both relations."""

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import combinations_with_replacement, permutations
from math import ceil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import stable

from discreet.errors import InvalidData, InvalidParameter
from discreet.mechanisms import Extreme, Quantile, Range
from discreet.mechanisms.quantile import GroupedQuantile, Multisets
from discreet.noise import DeterministicEntropy
from discreet.privacy.loss import BoundedRange
from discreet.privacy.unit import Neighbors

F = Fraction
ADD, CHANGE = Neighbors.ADD_OR_REMOVE_ONE, Neighbors.CHANGE_ONE
FOUR = Range(lower=0, upper=3, granularity=1)
SLACK = 1e-9

relations = pytest.mark.parametrize("relation", list(Neighbors), ids=str)
sides = pytest.mark.parametrize("side", ["min", "max"])


def datasets(most: int, values=range(4)):
    return [data for size in range(most + 1) for data in combinations_with_replacement(values, size)]


def neighbors(relation: Neighbors, most: int, values=range(4)):
    """All neighboring pairs of multisets with at most so many values."""
    for data in datasets(most - (relation is ADD), values):
        if relation is ADD:
            for value in values:
                yield data, tuple(sorted((*data, value)))
        else:
            for i in range(len(data)):
                for value in values:
                    yield data, tuple(sorted((*data[:i], value, *data[i + 1 :])))


def spread(mechanism, relation: Neighbors, most: int) -> tuple[float, float]:
    """(the largest |ln p/p'|, the longest interval of ln p/p') over all neighbors."""
    rows = {data: np.log(mechanism.probabilities(list(data))) for data in datasets(most)}
    ratios = np.array([rows[a] - rows[b] for a, b in neighbors(relation, most)])
    return float(np.abs(ratios).max()), float((ratios.max(axis=1) - ratios.min(axis=1)).max())


# --- privacy, by brute force ---------------------------------------------------------------------------------------


@relations
@pytest.mark.parametrize("probability", ["0", "1/4", "1/3", "1/2", "0.9", "1"])
def test_a_quantile_has_the_bounded_range_it_states(relation, probability):
    mechanism = Quantile(epsilon="0.7", probability=probability, within=FOUR, neighbors=relation)
    largest, longest = spread(mechanism, relation, 5)
    assert largest <= 0.7 + SLACK
    assert longest <= 0.7 + SLACK
    assert longest > 0.7 * 0.45  # no more noise than the proof needs, to a factor of two
    assert mechanism.loss == BoundedRange("0.7")


@relations
def test_the_median_uses_all_of_its_epsilon(relation):
    mechanism = Quantile(epsilon="0.7", probability="1/2", within=FOUR, neighbors=relation)
    assert spread(mechanism, relation, 5)[1] == pytest.approx(0.7, abs=SLACK)


def test_the_two_relations_are_not_the_same():
    """Power: the noise for "add or remove one" is too little for "change one" in the same brute force."""
    mechanism = Quantile(epsilon="0.7", probability="1/2", within=FOUR, neighbors=ADD)
    assert spread(mechanism, CHANGE, 5)[1] > 0.7 * 1.5


@relations
@sides
@pytest.mark.parametrize("rank", [0, 1, 3])
def test_an_extreme_has_the_bounded_range_it_states_under_both_relations(relation, side, rank):
    mechanism = Extreme(epsilon="0.7", side=side, within=FOUR, rank=rank)
    largest, longest = spread(mechanism, relation, 5)
    assert largest <= 0.7 + SLACK
    assert 0.7 * 0.45 < longest <= 0.7 + SLACK
    assert mechanism.loss == BoundedRange("0.7")


# --- the probabilities, from the definition --------------------------------------------------------------------------


def defined(mechanism, data, score) -> np.ndarray:
    weights = np.exp([score(o, data) / mechanism for o in range(4)])
    return weights / weights.sum()


@given(st.lists(st.integers(0, 3), max_size=8), st.sampled_from(["0", "1/4", "1/2", "2/3", "1"]), st.sampled_from([ADD, CHANGE]))  # fmt: skip
def test_quantile_probabilities_are_the_softmax_of_ranks(data, probability, relation):
    q = float(F(probability))

    def score(o, xs):
        low, high = sum(x < o for x in xs), sum(x <= o for x in xs)
        return -max(0.0, low - q * len(xs), q * len(xs) - high)

    moved = 1 if relation is CHANGE else max(q, 1 - q)
    mechanism = Quantile(epsilon=2, probability=probability, within=FOUR, neighbors=relation)
    assert mechanism.probabilities(data) == pytest.approx(defined(2 * moved / 2, data, score), rel=1e-9)


@given(st.lists(st.integers(0, 3), max_size=8), st.integers(0, 5), st.sampled_from(["min", "max"]))
def test_extreme_probabilities_are_the_softmax_of_ranks(data, rank, side):
    def score(o, xs):
        beyond, upto = (
            (sum(x < o for x in xs), sum(x <= o for x in xs))
            if side == "min"
            else (sum(x > o for x in xs), sum(x >= o for x in xs))
        )
        return -max(0, beyond - rank, rank - upto)

    mechanism = Extreme(epsilon=2, side=side, within=FOUR, rank=rank)
    assert mechanism.probabilities(data) == pytest.approx(defined(1, data, score), rel=1e-9)


def test_minimum_and_maximum_are_mirror_images():
    data = [0, 0, 1, 3, 3, 3]
    low = Extreme(epsilon=1, side="min", within=FOUR, rank=1).probabilities(data)
    high = Extreme(epsilon=1, side="max", within=FOUR, rank=1).probabilities([3 - x for x in data])
    assert low == pytest.approx(high[::-1])


# --- what is released --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mechanism",
    [
        Quantile(epsilon=1, probability="1/2", within=FOUR, neighbors=ADD),
        Extreme(epsilon=1, side="max", within=FOUR, rank=1),
    ],
    ids=["median", "max"],
)
def test_the_order_of_the_data_does_not_matter(mechanism):
    data = [3, 0, 2, 2]
    for seed in range(5):
        released = {mechanism.release(list(p), entropy=DeterministicEntropy(seed)) for p in permutations(data)}
        assert len(released) == 1


def test_answers_are_points_of_the_range():
    within = Range(lower="0.5", upper="2.5", granularity="0.25")
    mechanism = Quantile(epsilon="0.01", probability="1/2", within=within, neighbors=ADD)
    answers = [mechanism.release([0.1, 9.9, 1.3], entropy=DeterministicEntropy(seed)) for seed in range(300)]
    assert {type(a) for a in answers} == {float}
    assert set(answers) == {0.5 + 0.25 * k for k in range(9)}


def test_a_large_epsilon_finds_the_quantile():
    data = list(range(101))
    within = Range(lower=0, upper=1000, granularity=1)
    for share in ("0.1", "0.5", "0.9"):
        mechanism = Quantile(epsilon=200, probability=share, within=within, neighbors=ADD)
        assert mechanism.release(data) == pytest.approx(100 * float(share), abs=1)
    assert Extreme(epsilon=200, side="max", within=within, rank=0).release(data) >= 99
    assert Extreme(epsilon=200, side="min", within=within, rank=10).release(data) == pytest.approx(10, abs=1)


def test_no_data_gives_a_uniform_answer():
    for mechanism in (
        Quantile(epsilon=1, probability="0.9", within=FOUR, neighbors=CHANGE),
        Extreme(epsilon=1, side="min", within=FOUR),
    ):
        for nothing in ([], (), np.array([]), np.array([], np.int64)):
            assert mechanism.probabilities(nothing) == pytest.approx([0.25] * 4)
            assert mechanism.release(nothing) in (0, 1, 2, 3)


def test_each_value_is_clamped_and_snapped_by_itself():
    mechanism = Quantile(epsilon=1, probability="1/2", within=FOUR, neighbors=ADD)
    assert mechanism.probabilities([-1e300, 0.49, 2.5, 1e300]) == pytest.approx(mechanism.probabilities([0, 0, 3, 3]))
    assert mechanism.probabilities([-5, 99]) == pytest.approx(mechanism.probabilities([0, 3]))


@given(st.lists(st.floats(-3, 7), max_size=5), st.sampled_from(["0.5", "-1/3", "0.1", "-2", "1/7"]))
def test_steps_are_the_nearest_points_whatever_the_lower_end(values, lower):
    within = Range(lower=lower, upper=F(lower) + 3, granularity="1/4")
    assume_far = [x for x in values if abs(((F(x) - F(lower)) * 4) % 1 - F(1, 2)) > F(1, 10**6)]
    nearest = [max(0, min(12, round((F(x) - F(lower)) * 4))) for x in assume_far]
    assert within.steps(assume_far).tolist() == sorted(nearest)


def test_a_huge_range_needs_no_huge_memory():
    within = Range(lower=0, upper=2**60, granularity=1)
    mechanism = Quantile(epsilon=1000, probability="1/2", within=within, neighbors=ADD)
    assert mechanism.release([2**59] * 1001) == 2.0**59
    assert within.points == 2**60 + 1


@pytest.mark.parametrize(("lower", "upper"), [(2**63, 2**63 + 10), (2**62 + 2**61, 2**62 + 2**61 + 10), (-(2**70), -(2**70) + 4)])  # fmt: skip
def test_ranges_beyond_64_bits_work_or_are_refused(lower, upper):
    try:
        within = Range(lower=lower, upper=upper, granularity=1)
    except InvalidParameter:
        return
    assert within.steps([float(upper) * (2 if upper > 0 else 0.5)]).tolist() == [upper - lower]


# --- intervals -----------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 30), min_size=1, max_size=40), st.sampled_from(["0.1", "0.5", "0.95"]), st.sampled_from([ADD, CHANGE]))  # fmt: skip
def test_the_rank_of_the_answer_is_seldom_further_off_than_the_interval(data, probability, relation):
    within = Range(lower=0, upper=30, granularity=1)
    mechanism = Quantile(epsilon=1, probability=probability, within=within, neighbors=relation)
    wanted = float(F(probability)) * len(data)
    ranks = [(sum(x < o for x in data), sum(x <= o for x in data)) for o in range(31)]
    error = np.array([max(0, low - wanted, wanted - high) for low, high in ranks])
    for confidence in ("0.5", "0.9"):
        far = error > mechanism.interval(confidence)
        assert mechanism.probabilities(data)[far].sum() <= 1 - float(confidence) + 1e-12


@given(
    st.lists(st.integers(0, 30), max_size=40), st.sampled_from(["min", "max"]), st.sampled_from([None, 0, 3, 20, 1000])
)
def test_the_rank_of_an_extreme_is_seldom_further_off_than_the_interval(data, side, rank):
    """Also of fewer values than the rank: all of them are then as many as can lie beyond the answer."""
    mechanism = Extreme(epsilon=1, side=side, within=Range(lower=0, upper=30, granularity=1), rank=rank)
    wanted = min(mechanism.rank, len(data))
    beyond = [sum(x < o if side == "min" else x > o for x in data) for o in range(31)]
    reaching = [sum(x <= o if side == "min" else x >= o for x in data) for o in range(31)]
    error = np.array([max(0, few - wanted, wanted - many) for few, many in zip(beyond, reaching, strict=True)])
    for confidence in ("0.5", "0.95"):
        far = error > mechanism.interval(confidence)
        assert mechanism.probabilities(data)[far].sum() <= 1 - float(confidence) + 1e-12


@given(st.lists(st.integers(0, 30), min_size=1, max_size=40), st.sampled_from(["min", "max"]))
def test_the_answer_of_an_extreme_is_seldom_outside_the_data(data, side):
    mechanism = Extreme(epsilon=3, side=side, within=Range(lower=0, upper=30, granularity=1))
    assert mechanism.rank == np.ceil(mechanism.interval("0.95"))
    if len(data) <= 2 * mechanism.rank:
        return
    p = mechanism.probabilities(data)
    outside = [o for o in range(31) if (o < min(data) if side == "min" else o > max(data))]
    assert p[outside].sum() <= 0.05


# --- what is refused -----------------------------------------------------------------------------------------------------

QUANTILE = {"epsilon": 1, "probability": "1/2", "within": FOUR, "neighbors": ADD}
NOT_POSITIVE = [0, -1, float("nan"), float("inf"), "x", None, True, [1]]
OFF_GRID = Range(lower="0.5", upper="3.5", granularity=1)


@pytest.mark.parametrize(
    ("name", "bad"),
    [("epsilon", b) for b in NOT_POSITIVE]
    + [("probability", b) for b in [-0.1, 1.1, float("nan"), None, True, "x", F(1, 10**6 + 1)]]
    + [("within", b) for b in [None, (0, 3), "0..3", 5]]
    + [("neighbors", b) for b in ["foo", None, 1, True, ""]],
    ids=stable,
)
def test_bad_parameters_of_a_quantile_are_refused(name, bad):
    with pytest.raises(InvalidParameter, match=name):
        Quantile(**{**QUANTILE, name: bad})


@pytest.mark.parametrize(
    ("name", "bad"),
    [("epsilon", b) for b in NOT_POSITIVE]
    + [("side", b) for b in ["median", "", None, 1, ["max"]]]
    + [("within", b) for b in [None, (0, 3)]]
    + [("rank", b) for b in [-1, 1.5, "1", True, float("nan")]],
    ids=stable,
)
def test_bad_parameters_of_an_extreme_are_refused(name, bad):
    with pytest.raises(InvalidParameter, match=name):
        Extreme(**{"epsilon": 1, "side": "min", "within": FOUR, "rank": 1, name: bad})


@pytest.mark.parametrize(
    ("lower", "upper", "granularity"),
    [(1, 0, 1), (0, 1, 0), (0, 1, -1), (0, 1, "0.3"), (float("nan"), 1, 1), (0, float("inf"), 1), (None, 1, 1), (0, 1, None),
     ("x", 1, 1), (True, 2, 1), (0, 2**62, 1)],
)  # fmt: skip
def test_bad_ranges_are_refused(lower, upper, granularity):
    with pytest.raises(InvalidParameter):
        Range(lower=lower, upper=upper, granularity=granularity)


BAD_VALUES = [[float("nan")], [1, float("inf")], [[1, 2]], [[1], [1, 2]], None, "12", ["a"], [True, False], [1j], [None], {1: 2}, object()]  # fmt: skip


@pytest.mark.parametrize("values", BAD_VALUES, ids=stable)
@pytest.mark.parametrize("within", [FOUR, OFF_GRID], ids=["on the grid", "off the grid"])
def test_bad_values_are_refused(values, within):
    for mechanism in (
        Quantile(**{**QUANTILE, "within": within}),
        Extreme(epsilon=1, side="min", within=within),
    ):
        with pytest.raises(InvalidData):
            mechanism.release(values)


def test_one_point_is_always_the_answer():
    one = Range(lower=5, upper=5, granularity=1)
    assert Quantile(**{**QUANTILE, "within": one}).release([1, 2, 3]) == 5
    assert one.points == 1


def test_the_channel_of_all_small_datasets_has_the_stated_epsilon():
    """All datasets of up to three values, neighbors by adding one: the tightest ε is never above the stated one."""
    datasets = {data: list(data) for size in range(4) for data in combinations_with_replacement(range(4), size)}

    def neighbors(a, b):
        return abs(len(a) - len(b)) == 1 and not (Counter(min(a, b, key=len)) - Counter(max(a, b, key=len)))

    for mechanism in (
        Quantile(epsilon=1, probability="1/2", within=FOUR, neighbors=ADD),
        Quantile(epsilon=1, probability="1/4", within=FOUR, neighbors=ADD),
        Extreme(epsilon=1, side="max", within=FOUR, rank=1),
    ):
        channel = mechanism.channel(datasets)
        assert channel.outputs == (0.0, 1.0, 2.0, 3.0)
        assert 0.1 < channel.epsilon(neighbors) <= 1 + 1e-9


# --- many groups at once ------------------------------------------------------------------------------------


def grouped(*groups):
    """Multisets of lists of whole numbers."""
    rows = [(g, v) for g, values in enumerate(groups) for v in values]
    found, counts = np.unique(np.array(rows, np.int64).reshape(-1, 2), axis=0, return_counts=True)
    return Multisets(found[:, 0], found[:, 1], counts, len(groups))


@pytest.mark.parametrize("probability", ["0", "1/4", "1/2", "0.9", "1"])
def test_each_group_is_answered_as_the_quantile_of_it_alone(probability):
    alone = Quantile(
        epsilon=2, probability=probability, within=Range(lower=0, upper=6, granularity=1), neighbors="add or remove one"
    )
    many = GroupedQuantile(epsilon=2, probability=probability, points=7, shift=0, sensitivity=alone.sensitivity)
    groups = [[], [0], [6, 6, 6], [0, 1, 1, 3, 3, 3, 5], [2, 4]]
    for values, row in zip(groups, many.probabilities(grouped(*groups)), strict=True):
        assert row == pytest.approx(alone.probabilities(values), rel=1e-12)


@pytest.mark.parametrize("shift", [-3, -1, 0, 2])
@pytest.mark.parametrize("probability", ["0", "1/4", "1/2", "1"])
def test_groups_together_have_the_bounded_range_stated(probability, shift):
    """A unit with up to two values in each of two groups, in or out of every small pair of groups: exact ratios."""
    m = max(F(probability), 1 - F(probability))
    mechanism = GroupedQuantile(epsilon=1, probability=probability, points=3, shift=shift, sensitivity=2 * 2 * m)
    mine = [values for n in (0, 1, 2) for values in combinations_with_replacement(range(3), n)]
    worst = 0.0
    for others in [(), (0,), (1, 1), (0, 2, 2), (0, 1, 1, 2)]:
        base = mechanism.probabilities(grouped(others))[0]
        lengths = []
        for values in mine:
            ratios = np.log(mechanism.probabilities(grouped([*others, *values]))[0] / base)
            lengths.append(float(ratios.max() - ratios.min()))
        worst = max(worst, 2 * max(lengths))  # the same in two groups: log-ratios add up
    assert worst <= 1 + 1e-9
    if not shift:
        assert worst >= 0.5


@pytest.mark.parametrize("probability", ["0.1", "1/2", "1"])
def test_a_shifted_target_is_beyond_the_quantile_as_often_as_stated(probability):
    """Groups of no, few and many values: aimed an error and a rank beside it, the answer is not beyond it (exactly)."""
    base = GroupedQuantile(epsilon="0.8", probability=probability, points=12, shift=0, sensitivity=1)
    far = ceil(base.interval("0.95")) + 1
    groups = [
        [5],
        [3, 4],
        list(range(12)) * 3,
        [7] * 40,
        [0] * 30 + [11] * 30,
        [2] * 100 + [9] * 5,
        list(range(12)) * 20,
    ]
    for shift in (-far, far):
        aimed = replace(base, shift=shift).probabilities(grouped(*groups))
        for values, row in zip(groups, aimed, strict=True):
            ends = [np.quantile(values, float(F(probability)), method=method) for method in ("linear", "inverted_cdf")]
            points = np.arange(12)
            fails = row[points > min(ends)].sum() if shift < 0 else row[points < max(ends)].sum()
            assert fails <= 0.05, (values, shift)


def test_no_group_and_no_value_are_answered():
    mechanism = GroupedQuantile(epsilon=1, probability="1/2", points=5, shift=0, sensitivity=1)
    assert mechanism.release(grouped()).size == 0
    assert mechanism.probabilities(grouped([]))[0] == pytest.approx([0.2] * 5)
    assert GroupedQuantile(epsilon=1, probability="1/2", points=1, shift=3, sensitivity=1).release(
        grouped([0])
    ).tolist() == [0]
