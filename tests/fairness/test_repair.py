"""Repairs: thresholds against brute force and fairlearn, reweighing by hand, reductions of any estimator."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.errors import InvalidData, InvalidParameter
from discreet.fairness.cells import Cells
from discreet.fairness.disparity_report import fairness_report
from discreet.fairness.repair import Rule, equalize, reduction, reweigh
from discreet.fairness.repair.reduction import repaired
from discreet.fairness.tradeoff import expected_rates, generated_loans, tradeoff
from discreet.noise import DeterministicEntropy


def people(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    a = rng.choice(["f", "m"], n, p=[0.3, 0.7])
    x = rng.normal(size=(n, 3)) + np.where(a == "m", 0.7, 0)[:, None]
    y = (x.sum(axis=1) + rng.normal(size=n) * 1.5 > 1.2).astype(int)
    return x, y, a, 1 / (1 + np.exp(-x.sum(axis=1)))


def rates(chance, y, a):
    return {
        name: [chance[(a == g) & mask].mean() for g in np.unique(a)]
        for name, mask in (("all", y >= 0), ("positive", y == 1), ("negative", y == 0))
    }


# --- thresholds -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("criterion", "parts"), [("statistical parity", ["all"]), ("equal opportunity", ["positive"]), ("equalized odds", ["positive", "negative"])])  # fmt: skip
@pytest.mark.parametrize("tolerance", [0, "0.03"])
def test_expected_gaps_and_accuracy_are_those_stated(criterion, parts, tolerance):
    _, y, a, score = people()
    fitted = equalize(score, y, a, criterion=criterion, tolerance=tolerance)
    chance = fitted.probabilities(score, a)
    found = rates(chance, y, a)
    assert max(np.ptp(found[part]) for part in parts) == pytest.approx(fitted.gap, abs=1e-7)
    assert fitted.gap <= float(tolerance) + 1e-7
    assert np.mean(np.where(y == 1, chance, 1 - chance)) == pytest.approx(fitted.accuracy, abs=1e-9)
    drawn = fitted.predict(score, a, entropy=DeterministicEntropy(1))
    assert set(drawn) <= {0, 1}
    assert abs(drawn.mean() - chance.mean()) < 6 * np.sqrt(0.25 / len(y))
    assert criterion in fitted.text()
    assert "e-" not in fitted.text()  # dust of floats: a closed gap is 0


rows = st.lists(
    st.tuples(st.sampled_from([0.1, 0.4, 0.6, 0.9]), st.integers(0, 1), st.sampled_from("fm")), min_size=4, max_size=14
)


@given(rows.filter(lambda found: {a for _, _, a in found} == {"f", "m"}))
@settings(max_examples=40)
def test_no_pair_of_plain_thresholds_with_a_smaller_gap_is_more_accurate(found):
    score, y, a = (np.array(side) for side in zip(*found, strict=True))
    cuts = [-np.inf, 0.3, 0.5, 0.7, np.inf]
    for tolerance in (0, 0.25):
        best = equalize(score, y, a, criterion="statistical parity", tolerance=tolerance).accuracy
        for f, m in product(cuts, cuts):
            said = score >= np.where(a == "f", f, m)
            if abs(said[a == "f"].mean() - said[a == "m"].mean()) <= tolerance:
                assert (said == y).mean() <= best + 1e-7


def test_without_a_constraint_the_best_threshold_of_each_group_is_found():
    score, y = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6]), np.array([0, 0, 1, 0, 1, 1])
    fitted = equalize(score, y, np.array(["f"] * 6), criterion="statistical parity", tolerance=1)
    assert fitted.accuracy == pytest.approx(5 / 6)
    assert fitted.gap == 0


def test_a_perfect_score_loses_nothing_to_equalized_odds_but_much_to_parity():
    """Hardt, Price, Srebro 2016: base rates differ, so parity forbids even the perfect predictor."""
    y, a = np.array([1] * 80 + [0] * 20 + [1] * 20 + [0] * 80), np.array(["f"] * 100 + ["m"] * 100)
    assert equalize(y, y, a, criterion="equalized odds").accuracy == pytest.approx(1)
    assert equalize(y, y, a, criterion="statistical parity").accuracy == pytest.approx(0.7)


@pytest.mark.parametrize("criterion", ["statistical parity", "equalized odds", "equal opportunity"])
def test_never_less_accurate_than_fairlearn(criterion):
    pytest.importorskip("fairlearn")
    from sklearn.linear_model import LogisticRegression

    x, y, a, _ = people()
    model = LogisticRegression().fit(x, y)
    score = model.predict_proba(x)[:, 1]
    theirs = repaired(LogisticRegression(), x, y, a, criterion=criterion, method="threshold optimizer")
    chance = theirs.probabilities(x, a)
    ours = equalize(score, y, a, criterion=criterion)
    assert ours.accuracy >= np.mean(np.where(y == 1, chance, 1 - chance)) - 1e-6
    assert ours.gap < 1e-6


def test_a_rule_is_a_lottery_of_thresholds():
    rule = Rule((np.inf, 0.5, -np.inf), (0.2, 0.5, 0.3))
    assert rule.probabilities(np.array([0.4, 0.5])).tolist() == pytest.approx([0.3, 0.8])


def test_groups_without_one_of_the_labels_are_borne():
    score, y, a = [0.1, 0.9, 0.2, 0.8, 0.5], [0, 1, 0, 1, 1], ["f", "f", "m", "m", "x"]
    fitted = equalize(score, y, a, criterion="equalized odds")
    assert fitted.accuracy == pytest.approx(1)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"criterion": "predictive parity"}, "statistical parity"),
        ({"tolerance": -1}, "tolerance"),
        ({"score": [0.1, np.nan]}, "scores"),
        ({"score": [0.1]}, "scores"),
        ({"label": [0, 0.5]}, "numbers between 0 and 1"),
        ({"label": [0, None]}, "missing"),
        ({"group": ["f", None]}, "missing"),
        ({"group": ["f"]}, "different lengths"),
    ],
)
def test_what_thresholds_refuse(changes, words):
    given_ = {"score": [0.1, 0.9], "label": [0, 1], "group": ["f", "m"], "criterion": "equalized odds", **changes}
    with pytest.raises((InvalidParameter, InvalidData), match=words):
        equalize(given_.pop("score"), given_.pop("label"), given_.pop("group"), **given_)


def test_a_group_that_was_not_fitted_is_named():
    fitted = equalize([0.1, 0.9], [0, 1], ["f", "m"], criterion="equalized odds")
    with pytest.raises(InvalidParameter, match="group: got 'x', expected one of f, m"):
        fitted.predict([0.5], ["x"])


# --- reweighing -------------------------------------------------------------------------------------------------------


def test_weights_worked_by_hand():
    """8 of 10 f and 2 of 10 m are positive: (½·½)/(0.4) = 0.625 and (½·½)/(0.1) = 2.5."""
    y, a = [1] * 8 + [0] * 2 + [1] * 2 + [0] * 8, ["f"] * 10 + ["m"] * 10
    assert reweigh(y, a).tolist() == pytest.approx([0.625] * 8 + [2.5] * 2 + [2.5] * 2 + [0.625] * 8)


@given(st.lists(st.tuples(st.integers(0, 1), st.sampled_from("abc")), min_size=1, max_size=60))
def test_weighted_labels_are_independent_of_groups(rows_):
    y, a = (np.array(side) for side in zip(*rows_, strict=True))
    weights = reweigh(y, a)
    complete = all(((a == g) & (y == k)).any() for g in np.unique(a) for k in np.unique(y))
    if complete:
        assert weights.sum() == pytest.approx(len(y))
        for g in np.unique(a):
            assert np.average(y[a == g], weights=weights[a == g]) == pytest.approx(y.mean())


def test_reweighing_narrows_the_gap_of_a_model():
    from sklearn.linear_model import LogisticRegression

    x, y, a, _ = people()
    spread = [
        np.ptp(rates(LogisticRegression().fit(x, y, sample_weight=w).predict(x), y, a)["all"])
        for w in (None, reweigh(y, a))
    ]
    assert spread[1] < spread[0]


# --- reduction --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("criterion", "parts"), [("statistical parity", ["all"]), ("equalized odds", ["positive", "negative"])]
)
def test_a_reduction_keeps_its_tolerance_on_its_rows(criterion, parts):
    from sklearn.linear_model import LogisticRegression

    x, y, a, _ = people(800)
    plain = LogisticRegression().fit(x, y).predict(x)
    fitted = reduction(LogisticRegression(), x, y, a, criterion=criterion, tolerance="0.02", rounds=30)
    chance = fitted.probabilities(x)
    assert fitted.violation <= 0.02 + 1e-6
    found = rates(chance, y, a)
    assert max(np.ptp(found[part]) for part in parts) <= 0.04 + 1e-6
    assert max(np.ptp(rates(plain, y, a)[part]) for part in parts) > 0.1
    assert np.mean(np.where(y == 1, 1 - chance, chance)) == pytest.approx(fitted.error)
    assert fitted.error < min(y.mean(), 1 - y.mean())
    assert sum(fitted.chances) == pytest.approx(1)
    assert set(fitted.predict(x, entropy=DeterministicEntropy(2))) <= {0, 1}


def shifted(n, groups, features, shift, seed):
    """Several groups of different sizes, some features of which are higher in some groups."""
    rng = np.random.default_rng(seed)
    a = rng.choice(groups, n, p=np.arange(1, groups + 1) / sum(range(1, groups + 1)))
    x = rng.normal(size=(n, features))
    x[:, : max(1, features // 2)] += shift * (a / groups)[:, None]
    return x, (x.sum(axis=1) + rng.normal(size=n) * 1.5 > x.sum(axis=1).mean()).astype(int), a.astype(str)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Setting a")  # fairlearn 0.15 with pandas 3.1
@pytest.mark.filterwarnings("ignore:Setting an")
@pytest.mark.parametrize("shape", [(1000, 3, 3, 1.0), (4000, 5, 4, 1.0), (2000, 2, 5, 0.5), (1500, 4, 6, 2.0)], ids=str)
@pytest.mark.parametrize("criterion", ["statistical parity", "equalized odds"])
def test_a_reduction_is_as_accurate_as_fairlearns(shape, criterion):
    """At the same tolerance, which both keep; 1.5 points lower at most, whatever the shape of the data."""
    pytest.importorskip("fairlearn")
    from sklearn.linear_model import LogisticRegression

    x, y, a = shifted(*shape, seed=3)
    ours = reduction(LogisticRegression(), x, y, a, criterion=criterion, tolerance="0.02")
    theirs = repaired(
        LogisticRegression(), x, y, a, criterion=criterion, method="exponentiated gradient", tolerance="0.02"
    )
    chance = theirs.probabilities(x, a)
    assert ours.violation <= 0.02 + 1e-6
    assert 1 - ours.error >= np.mean(np.where(y == 1, chance, 1 - chance)) - 0.015


def test_a_reduction_works_with_any_estimator_and_pipelines():
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.tree import DecisionTreeClassifier

    x, y, a, _ = people(600)
    tree = make_pipeline(StandardScaler(), DecisionTreeClassifier(max_depth=3, random_state=0))
    fitted = reduction(
        tree,
        x,
        y,
        a,
        criterion="statistical parity",
        tolerance="0.05",
        rounds=10,
        weight="decisiontreeclassifier__sample_weight",
    )
    assert fitted.violation <= 0.05 + 1e-6
    assert not hasattr(tree[-1], "tree_")  # it was copied


def test_what_a_reduction_refuses():
    for changes in ({"criterion": "equal accuracy"}, {"criterion": "x"}, {"tolerance": 0}, {"rounds": 0}):
        wish = {"criterion": "statistical parity", "tolerance": "0.1", **changes}
        with pytest.raises(InvalidParameter):
            reduction(object(), [[0], [1]], [0, 1], ["f", "m"], **wish)


@pytest.mark.filterwarnings("ignore:Setting a")  # fairlearn 0.15 with pandas 3.1
@pytest.mark.filterwarnings("ignore:Setting an")
@pytest.mark.parametrize("method", ["exponentiated gradient", "grid search"])
def test_fairlearns_reductions_behind_one_adapter(method):
    pytest.importorskip("fairlearn")
    from sklearn.linear_model import LogisticRegression

    x, y, a, _ = people(250)
    found = repaired(LogisticRegression(), x, y, a, criterion="statistical parity", method=method, tolerance="0.05")
    chance = found.probabilities(x, a)
    assert chance.min() >= 0
    assert chance.max() <= 1
    if method == "exponentiated gradient":
        assert np.ptp(rates(chance, y, a)["all"]) < 0.2
    with pytest.raises(InvalidParameter, match="method"):
        repaired(LogisticRegression(), x, y, a, criterion="statistical parity", method="magic")
    with pytest.raises(InvalidParameter, match="criterion"):
        repaired(LogisticRegression(), x, y, a, criterion="predictive parity", method=method)


def test_a_missing_fairlearn_is_named(monkeypatch):
    import sys

    from discreet.errors import MissingExtra

    monkeypatch.setitem(sys.modules, "fairlearn.postprocessing", None)
    with pytest.raises(MissingExtra, match="discreet\\[fairness\\]"):
        repaired(None, [], [], [], criterion="statistical parity", method="threshold optimizer")


# --- curves and the loan example --------------------------------------------------------------------------------------


def test_the_curve_rises_with_the_gap_allowed():
    _, y, a, score = people(800)
    found = tradeoff(score, y, a, steps=6)
    for points in found.curves.values():
        accuracy = [one.accuracy for one in points]
        assert accuracy == sorted(accuracy) or np.diff(accuracy).min() > -1e-7
        assert points[0].gap < 1e-6
        assert points[-1].accuracy == pytest.approx(found.unconstrained)
    assert found.chart().svg().startswith("<svg")
    assert "What fairness costs" in found._repr_html_()
    with pytest.raises(InvalidParameter):
        found.cost("x")


def test_small_groups_are_left_out_of_the_curve_and_named():
    """Three rows whose labels go against their scores would cost everybody accuracy."""
    _, y, a, score = people(400)
    a, y, score = np.append(a, ["x"] * 3), np.append(y, [0, 0, 0]), np.append(score, [1.0, 1.0, 1.0])
    every = tradeoff(score, y, a, ["equalized odds"], steps=2)
    large = tradeoff(score, y, a, ["equalized odds"], steps=2, least=20)
    alone = tradeoff(score[:-3], y[:-3], a[:-3], ["equalized odds"], steps=2)
    assert large.curves["equalized odds"][0].accuracy == alone.curves["equalized odds"][0].accuracy
    assert "x" in every.curves["equalized odds"][0].rules
    assert set(large.curves["equalized odds"][0].rules) == {"f", "m"}
    assert (every.left_out, large.left_out) == ({}, {"x": 3})
    assert "left out, too few rows: x (3)" in large.text()
    assert "left out, too few rows: x (3)" in large.page().html()
    with pytest.raises(InvalidData, match="every group has fewer than 999 rows"):
        tradeoff(score, y, a, least=999)


def test_the_generated_bank_is_what_it_says():
    loans = generated_loans(40_000)
    report = fairness_report(loans, label="repays", prediction="granted", group="group", given="income")
    for name, share in expected_rates().items():
        found = report.views[0].rate("selection rate", name)
        assert found.value == pytest.approx(share, abs=0.02)
    assert report.views[0].gap("conditional parity").difference.value == 0
    again = generated_loans(40_000)
    assert (again["repays"] == loans["repays"]).all()
    assert Cells.of(loans, prediction="granted", group="group").rows == 40_000
