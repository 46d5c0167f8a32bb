"""Scores and curves: counted by hand, ties kept together, bad input refused without a private value."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import mannwhitneyu

from discreet.attacks.membership import Roc, Scores, check_apart, flags
from discreet.attacks.membership.scores import roc_chart
from discreet.errors import InvalidData, InvalidInput
from discreet.intervals import clopper_pearson

some = st.lists(st.integers(0, 8), min_size=20, max_size=60)


@given(some, some)
def test_the_area_is_the_mann_whitney_statistic(inside, outside):
    roc = Roc.of(Scores.pair(inside, outside))
    expected = mannwhitneyu(inside, outside).statistic / (len(inside) * len(outside))
    assert roc.auc(confidence=0.95).value == pytest.approx(expected)


@given(some, some, st.sampled_from([0.001, 0.01, 0.1, 0.5, 1.0]))
def test_the_rate_is_the_largest_that_keeps_false_positives_low(inside, outside, rate):
    point = Roc.of(Scores.pair(inside, outside)).at(rate, confidence=0.95)
    thresholds = [np.inf, *sorted({*inside, *outside}, reverse=True)]
    allowed = [t for t in thresholds if np.mean(np.array(outside) >= t) <= rate + 1e-12]
    best = max(np.mean(np.array(inside) >= t) for t in allowed)
    assert point.true.value == pytest.approx(best)
    assert point.false.value <= rate + 1e-12
    low, high = clopper_pearson(point.true.hits, len(inside), confidence=0.95)
    assert (point.true.low, point.true.high) == (pytest.approx(float(low)), pytest.approx(float(high)))


def test_equal_scores_are_all_or_nothing():
    roc = Roc.of(Scores.pair([1.0] * 30, [1.0] * 30))
    assert roc.hits.tolist() == [0, 30]
    assert roc.at(0.5, confidence=0.95).true.value == 0
    assert roc.auc(confidence=0.95).value == 0.5


def test_the_limits_of_the_area_hold():
    rng, held = np.random.default_rng(3), 0
    for _ in range(200):
        scores = Scores.pair(rng.normal(0.5, 1, 40), rng.normal(0, 1, 60))
        share = Roc.of(scores).auc(confidence=0.9)
        held += share.low <= 0.6382 <= share.high  # Φ(0.5/√2)
    assert held >= 160  # fewer would have probability below 1e-6 at 90 %


def test_the_chart_is_logarithmic_with_the_diagonal_and_many_points_are_thinned():
    rng = np.random.default_rng(1)
    roc = Roc.of(Scores.pair(rng.normal(1, 1, 3000), rng.normal(0, 1, 3000)))
    chart = roc_chart("curve", {"a": roc}, confidence=0.95)
    assert chart.log_x
    assert chart.log_y
    assert chart.marks[0].dashed
    assert list(chart.marks[0].x) == list(chart.marks[0].y)
    assert len(chart.marks[1].x) <= 240
    assert chart.marks[1].x[-1] == 1
    assert (np.diff(chart.marks[1].x) >= 0).all()
    assert "<svg" in chart.svg()


def test_infinite_scores_are_ordered():
    scores = Scores.pair([np.inf] * 20, [-np.inf] * 20)
    assert Roc.of(scores).auc(confidence=0.95).value == 1


SECRET = 91.7283


@pytest.mark.parametrize(
    ("values", "members", "words"),
    [
        ([SECRET] * 39 + [float("nan")], [True, False] * 20, "NaN at position 39"),
        ([SECRET] * 40, [True] * 40, "0 non-members"),
        ([SECRET] * 40, [False] * 40, "0 members"),
        ([SECRET] * 10, [True, False] * 5, "20 of each kind"),
        ([SECRET] * 40, [True] * 39, "one flag for each"),
        ([SECRET] * 40, [1, 0] * 20, "True or False"),
        ([[SECRET] * 40], [True, False] * 20, "2 dimensions"),
        ([], [], "empty"),
        (["secret"] * 40, [True, False] * 20, "numbers"),
        ([[SECRET], [SECRET, 1]], [True, False], "numbers"),
        ([True] * 40, [True, False] * 20, "numbers"),
        (None, [True, False], "numbers"),
    ],
)
def test_bad_scores_are_refused_without_their_values(values, members, words):
    with pytest.raises(InvalidData, match=words) as caught:
        Scores.of(values, members)
    assert "91.7" not in str(caught.value)
    assert "secret" not in str(caught.value)


def test_members_and_others_may_not_overlap():
    with pytest.raises(InvalidData, match="2 targets stand among members"):
        flags([1, 2, 3], [2, 3, 4])
    with pytest.raises(InvalidData, match="twice"):
        flags([1, 1], [2])
    with pytest.raises(InvalidData, match="whole numbers"):
        flags([0.5], [2])
    with pytest.raises(InvalidData, match="1 target stands"):
        check_apart([[0.0, SECRET], [1.0, 2.0]], [[-0.0, SECRET]])


def test_halves_share_nothing_and_keep_the_proportion():
    scores = Scores.of(np.arange(101.0), np.arange(101) < 41)
    first, second = scores.halves(3)
    assert sorted([*first.values, *second.values]) == list(range(101))
    assert (first.members.sum(), second.members.sum()) == (20, 21)
    assert not np.array_equal(first.values, scores.halves(4)[0].values)
    assert issubclass(InvalidData, InvalidInput)
