"""Rates and gaps: worked by hand, and against fairlearn on random data to 1e-12."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.errors import InvalidParameter
from discreet.fairness.cells import CONDITIONAL, CRITERIA, METRICS, Cells, metric, rates
from discreet.fairness.gaps import Estimate, Rates, Sampling, adjusted, family, gap, plain_gap, square_and_add
from discreet.intervals import newcombe

# 100 people of group f: 50 true negatives, 10 false positives, 5 false negatives, 35 true positives.
# 50 people of group m: 20, 20, 5, 5.
F, M = [[50, 10], [5, 35]], [[20, 20], [5, 5]]
TABLES = np.array([F, M])


@pytest.mark.parametrize(
    ("name", "f", "m"),
    [
        ("selection rate", Fraction(45, 100), Fraction(25, 50)),
        ("base rate", Fraction(40, 100), Fraction(10, 50)),
        ("accuracy", Fraction(85, 100), Fraction(25, 50)),
        ("error rate", Fraction(15, 100), Fraction(25, 50)),
        ("true positive rate", Fraction(35, 40), Fraction(5, 10)),
        ("false positive rate", Fraction(10, 60), Fraction(20, 40)),
        ("true negative rate", Fraction(50, 60), Fraction(20, 40)),
        ("false negative rate", Fraction(5, 40), Fraction(5, 10)),
        ("precision", Fraction(35, 45), Fraction(5, 25)),
        ("negative precision", Fraction(50, 55), Fraction(20, 25)),
    ],
)
def test_rates_worked_by_hand(name, f, m):
    assert rates(TABLES, metric(name)).tolist() == pytest.approx([float(f), float(m)], abs=1e-15)


@pytest.mark.parametrize(
    ("name", "difference", "ratio", "highest", "lowest"),
    [
        ("statistical parity", Fraction(5, 100), Fraction(45, 50), "m", "f"),
        ("equal opportunity", Fraction(375, 1000), Fraction(4, 7), "f", "m"),
        ("equalized odds", Fraction(375, 1000), Fraction(1, 3), "f", "m"),
        ("predictive parity", Fraction(26, 45), Fraction(9, 35), "f", "m"),
        ("equal accuracy", Fraction(35, 100), Fraction(50, 85), "f", "m"),
    ],
)
def test_gaps_worked_by_hand(name, difference, ratio, highest, lowest):
    found = plain_gap(TABLES, CRITERIA[name], ["f", "m"], Sampling(), 0.05)
    assert found.difference.value == pytest.approx(float(difference), abs=1e-15)
    assert found.ratio.value == pytest.approx(float(ratio), abs=1e-15)
    assert (found.highest, found.lowest) == (highest, lowest)
    assert found.difference.low < found.difference.value < found.difference.high
    assert found.ratio.low < found.ratio.value <= found.ratio.high


def test_a_gap_of_two_groups_is_newcombes():
    from discreet.intervals import clopper_pearson

    f, m = (
        (h / n, *(float(side) for side in clopper_pearson(h, n, confidence=0.95))) for h, n in ((45, 100), (25, 50))
    )
    low, high = newcombe(f, m)
    found = plain_gap(TABLES, CRITERIA["statistical parity"], ["f", "m"], Sampling(), 0.05)
    assert (found.difference.low, found.difference.high) == pytest.approx((max(0, low, -high), max(-low, high)))


@given(st.lists(st.floats(0, 1), min_size=6, max_size=6))
def test_square_and_add_of_arrays_is_newcombe(numbers):
    one, two = sorted(numbers[:3]), sorted(numbers[3:])
    first, second = (one[1], one[0], one[2]), (two[1], two[0], two[2])
    found = square_and_add(*(tuple(np.array([x]) for x in side) for side in (first, second)))
    assert (found[0][0], found[1][0]) == pytest.approx(newcombe(first, second))


# --- where nobody is in a denominator --------------------------------------------------------------------------------


def test_nobody_in_a_denominator_is_nothing_not_zero():
    single = np.array([[[5, 5], [0, 0]], [[7, 3], [0, 0]]])  # no positive label
    assert np.isnan(rates(single, metric("true positive rate"))).all()
    found = plain_gap(single, CRITERIA["equal opportunity"], ["f", "m"], Sampling(), 0.05)
    assert np.isnan(found.difference.value)
    assert found.left_out == ("f", "m")
    odds = plain_gap(single, CRITERIA["equalized odds"], ["f", "m"], Sampling(), 0.05)
    assert odds.difference.value == pytest.approx(0.2)  # of the false positive rates, which are known
    assert odds.where == "false positive rate"
    assert odds.as_dict()["difference"]["value"] == pytest.approx(0.2)
    assert found.as_dict()["difference"] == {"value": None, "low": None, "high": None}


def test_an_empty_group_is_left_out_and_named():
    tables = np.array([F, M, np.zeros((2, 2), int)])
    found = plain_gap(tables, CRITERIA["statistical parity"], ["f", "m", "x"], Sampling(), 0.05)
    assert found.difference.value == pytest.approx(0.05)
    assert found.left_out == ("x",)


def test_one_group_alone_has_no_gap():
    found = plain_gap(TABLES[:1], CRITERIA["statistical parity"], ["f"], Sampling(), 0.05)
    assert np.isnan(found.difference.value)
    assert str(found.difference) == "–"


def test_rates_of_zero_everywhere_have_a_gap_of_zero_and_no_ratio():
    zero = np.array([[[10, 0], [0, 0]], [[20, 0], [0, 0]]])
    found = plain_gap(zero, CRITERIA["statistical parity"], ["f", "m"], Sampling(), 0.05)
    assert found.difference.value == 0
    assert np.isnan(found.ratio.value)
    assert found.ratio.high == 1
    assert 0.1 < found.difference.high < 0.5  # of 10 and 20 rows


def test_small_groups_are_not_compared():
    tables = np.array([F, M, [[1, 0], [0, 0]]])
    assert plain_gap(tables, CRITERIA["statistical parity"], list("fmx"), Sampling(), 0.05).difference.value == 0.5
    found = plain_gap(tables, CRITERIA["statistical parity"], list("fmx"), Sampling(2), 0.05)
    assert found.difference.value == pytest.approx(0.05)
    assert found.left_out == ("x",)


# --- conditional parity -----------------------------------------------------------------------------------------------


def test_parity_within_strata_worked_by_hand():
    """Simpson's case: within each faculty the rates are equal, over all they are far apart."""
    strata = np.array([[[[20, 80], [0, 0]], [[4, 16], [0, 0]]], [[[18, 2], [0, 0]], [[90, 10], [0, 0]]]])
    whole = plain_gap(strata.sum(axis=0), CRITERIA["statistical parity"], ["f", "m"], Sampling(), 0.05)
    assert whole.difference.value == pytest.approx(82 / 120 - 26 / 120)
    one = family(strata, metric("selection rate"), names=["arts", "law"])
    inside = gap(CONDITIONAL, [one], ["f", "m"], Sampling(), 0.05)
    assert inside.difference.value == pytest.approx(0, abs=1e-12)
    spread = adjusted(one, np.array([True, True]), ["f", "m"], Sampling(), 0.05)
    assert spread.difference.value == pytest.approx(0, abs=1e-12)
    assert [rate.value for rate in spread.rates] == pytest.approx([0.5 * 0.8 + 0.5 * 0.1] * 2)
    assert spread.covered == 1


def test_standardized_rates_leave_out_strata_that_lack_a_group():
    rates_ = Rates(("a", "b"), np.array([[5.0, 2.0], [1.0, 0.0]]), np.array([[10.0, 10.0], [10.0, 0.0]]))
    spread = adjusted(rates_, np.array([True, True]), ["f", "m"], Sampling(), 0.05)
    assert spread.covered == pytest.approx(2 / 3)
    assert spread.difference.value == pytest.approx(0.3)
    assert spread.highest == "f"
    apart = Rates(("a", "b"), np.array([[5.0, 0.0], [0.0, 1.0]]), np.array([[10.0, 0.0], [0.0, 10.0]]))
    assert adjusted(apart, np.array([True, True]), ["f", "m"], Sampling(), 0.05) is None


def test_the_worst_stratum_is_named():
    strata = np.array([[[[8, 2], [0, 0]], [[7, 3], [0, 0]]], [[[5, 5], [0, 0]], [[9, 1], [0, 0]]]])
    found = gap(CONDITIONAL, [family(strata, metric("selection rate"), names=["a", "b"])], ["f", "m"], Sampling(), 0.05)
    assert (found.where, found.highest, found.lowest, found.comparisons) == ("b", "f", "m", 2)
    assert found.difference.value == pytest.approx(0.4)


def test_unknown_names_are_refused():
    with pytest.raises(InvalidParameter, match="accuracy"):
        metric("goodness")


# --- against fairlearn ------------------------------------------------------------------------------------------------


def random_rows(seed, groups=4):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(200, 2000))
    a = rng.integers(0, groups, n)
    y = (rng.random(n) < 0.2 + 0.15 * a).astype(int)
    p = np.where(rng.random(n) < 0.7, y, rng.integers(0, 2, n))
    return y, p, a.astype(str)


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("seed", range(8))
def test_rates_and_gaps_agree_with_fairlearn(seed):
    fm = pytest.importorskip("fairlearn.metrics")
    from sklearn.metrics import accuracy_score, precision_score

    y, p, a = random_rows(seed)
    view = Cells.of_arrays(y, p, a).by("group")
    tables, groups = view.tables()[0], view.attributes[0].values
    theirs = {
        "selection rate": fm.selection_rate, "true positive rate": fm.true_positive_rate,
        "false positive rate": fm.false_positive_rate, "true negative rate": fm.true_negative_rate,
        "false negative rate": fm.false_negative_rate, "accuracy": accuracy_score, "precision": precision_score,
    }  # fmt: skip
    frame = fm.MetricFrame(metrics=theirs, y_true=y, y_pred=p, sensitive_features=a)
    for name in theirs:
        assert np.abs(rates(tables, METRICS[name]) - frame.by_group[name].loc[list(groups)].to_numpy()).max() < 1e-12
        own = plain_gap(tables, CRITERIA["equal accuracy"].__class__("x", (name,), ""), groups, Sampling(), 0.05)
        assert own.difference.value == pytest.approx(frame.difference()[name], abs=1e-12)
        assert own.ratio.value == pytest.approx(frame.ratio()[name], abs=1e-12)
    gaps = {name: plain_gap(tables, CRITERIA[name], groups, Sampling(), 0.05) for name in CRITERIA}
    for name, difference, ratio in (
        ("statistical parity", fm.demographic_parity_difference, fm.demographic_parity_ratio),
        ("equalized odds", fm.equalized_odds_difference, fm.equalized_odds_ratio),
        ("equal opportunity", fm.equal_opportunity_difference, fm.equal_opportunity_ratio),
    ):
        assert gaps[name].difference.value == pytest.approx(difference(y, p, sensitive_features=a), abs=1e-12)
        assert gaps[name].ratio.value == pytest.approx(ratio(y, p, sensitive_features=a), abs=1e-12)


def test_intersections_and_strata_agree_with_fairlearn():
    fm = pytest.importorskip("fairlearn.metrics")
    import pandas as pd

    y, p, a = random_rows(3)
    rng = np.random.default_rng(5)
    b, x = rng.choice(["u", "v"], len(y)), rng.choice(["r", "s", "t"], len(y))
    cells = Cells.of({"y": y, "p": p, "a": a, "b": b, "x": x}, label="y", prediction="p", group=["a", "b"], given="x")
    frame = fm.MetricFrame(
        metrics=fm.selection_rate, y_true=y, y_pred=p,
        sensitive_features=pd.DataFrame({"a": a, "b": b}), control_features=pd.DataFrame({"x": x}),
    )  # fmt: skip
    both = cells.by("a", "b")
    strata = family(both.strata_tables()[0], metric("selection rate"), names=both.strata.values)
    for k, stratum in enumerate(both.strata.values):
        for g, group in enumerate(both.attributes[0].values):
            assert strata.values[k, g] == pytest.approx(frame.by_group[(stratum, *group.split(", "))], abs=1e-12)
    worst = gap(CONDITIONAL, [strata], both.attributes[0].values, Sampling(), 0.05)
    assert worst.difference.value == pytest.approx(frame.difference().max(), abs=1e-12)


def test_estimates_print_and_convert():
    assert str(Estimate(0.25, 0.1, 0.4)) == "0.250 (0.100 to 0.400)"
    assert Estimate(0.25, 0.1, float("nan")).as_dict() == {"value": 0.25, "low": 0.1, "high": None}
