"""Reports: what they say, as text, JSON, page; calibration; small groups; private models."""

import json

import numpy as np
import pytest

from discreet.errors import InvalidData, InvalidParameter
from discreet.fairness.cells import Cells
from discreet.fairness.disparity_report import fairness_report, report_cells
from discreet.fairness.tradeoff import effect

RNG = np.random.default_rng(3)
N = 2000
SEX, RACE, JOB = (
    RNG.choice(["f", "m"], N),
    RNG.choice(["a", "b", "c"], N, p=[0.6, 0.396, 0.004]),
    RNG.choice(["x", "y"], N),
)
SCORE = np.clip(RNG.beta(2, 2, N) + np.where(SEX == "m", 0.1, 0), 0, 1)
Y = (RNG.random(N) < SCORE).astype(int)
TABLE = {"y": Y, "yhat": (SCORE > 0.55).astype(int), "s": SCORE, "sex": SEX, "race": RACE, "job": JOB}
NAMES = {"label": "y", "prediction": "yhat", "group": ["sex", "race"]}


def test_a_report_has_views_rates_gaps_and_words():
    found = fairness_report(TABLE, **NAMES, given="job", score="s", tolerance="0.05")
    assert [view.name for view in found.views] == ["sex", "race", "sex × race"]
    view = found.view("sex")
    assert view.sizes == ((SEX == "f").sum(), (SEX == "m").sum())
    assert view.rate("selection rate", "f").value == pytest.approx(TABLE["yhat"][SEX == "f"].mean())
    assert view.gap("statistical parity").highest == "m"
    assert ("sex", view.gap("statistical parity")) in found.fails
    assert any(sentence.startswith("c: ") and "too few" in sentence for sentence in found.view("race").small)
    text = str(found)
    assert "exceeds: m highest, f lowest" in text
    assert "conditional parity" in text
    assert "too few" in text
    told = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert told["views"][0]["groups"]["f"]["selection_rate"]["of"] == (SEX == "f").sum()
    page = found.page("A model").html()
    assert page.count("<svg") >= 12
    assert "Chouldechova" in page
    assert '<div class="discreet"' in found._repr_html_()


def test_without_labels_only_parity_is_looked_at():
    found = fairness_report(TABLE, prediction="yhat", group="sex", given="job")
    assert [gap.criterion for gap in found.views[0].all_gaps] == ["statistical parity", "conditional parity"]
    assert set(found.views[0].rates) == {"selection rate"}
    with pytest.raises(InvalidParameter, match="criterion"):
        found.views[0].gap("equalized odds")


def test_bootstrap_and_exact_limits_are_near_each_other_for_large_groups():
    exact = fairness_report(TABLE, label="y", prediction="yhat", group="sex", given="job")
    drawn = fairness_report(TABLE, label="y", prediction="yhat", group="sex", given="job", limits="bootstrap")
    for one in exact.views[0].gaps:
        other = drawn.views[0].gap(one.criterion)
        assert other.difference.value == pytest.approx(one.difference.value)
        assert other.difference.low == pytest.approx(one.difference.low, abs=0.02)
        assert other.difference.high == pytest.approx(one.difference.high, abs=0.02)
        assert (other.highest, other.lowest) == (one.highest, one.lowest)
    assert drawn.views[0].conditional.gap.where == exact.views[0].conditional.gap.where


def test_verdicts_say_exceeds_within_open_or_nothing():
    cells = Cells.of_arrays(None, [1] * 300 + [0] * 700 + [1] * 310 + [0] * 690, ["f"] * 1000 + ["m"] * 1000)
    for tolerance, word in (("0.1", "within"), ("0.02", "open"), (None, "not shown")):
        assert f"{word}: " in report_cells(cells, tolerance=tolerance).text()
    far = Cells.of_arrays(None, [1] * 500 + [0] * 500, ["f"] * 500 + ["m"] * 500)
    assert "exceeds: " in report_cells(far, tolerance="0.5").text()
    alone = Cells.of_arrays(None, [1, 0] * 50, ["f"] * 100)
    assert "no statement: fewer than two groups" in report_cells(alone).text()


def test_calibration_within_groups():
    found = fairness_report(TABLE, **{**NAMES, "group": "sex"}, score="s").views[0].calibration
    rows = (SCORE >= 0.4) & (SCORE < 0.5) & (SEX == "m")
    assert found.rates.values[4, 1] == pytest.approx(Y[rows].mean())
    assert found.means[4, 1] == pytest.approx(SCORE[rows].mean())
    mine = SEX == "f"
    assert found.excess[0].value == pytest.approx(SCORE[mine].mean() - Y[mine].mean())
    assert found.excess[0].low < 0 < found.excess[0].high  # scores are the true chances
    assert found.error[0] < 0.1
    lying = fairness_report({**TABLE, "s": SCORE**3}, **{**NAMES, "group": "sex"}, score="s").views[0].calibration
    assert lying.excess[0].high < -0.1
    levels = fairness_report({**TABLE, "s": np.round(SCORE * 9) + 1}, **{**NAMES, "group": "sex"}, score="s")
    assert levels.views[0].calibration.means is None
    assert "calibration" in levels.text()


def test_single_class_labels_and_empty_groups_are_borne():
    table = {"y": [0] * 60, "p": [0, 1] * 30, "a": ["f"] * 30 + ["m"] * 30}
    found = fairness_report(table, label="y", prediction="p", group="a")
    assert np.isnan(found.views[0].rate("true positive rate", "f").value)
    assert "no statement" in found.text()
    json.dumps(found.as_dict(), allow_nan=False)
    found.page().html()
    import pandas as pd

    frame = pd.DataFrame(table)
    frame["a"] = pd.Categorical(frame["a"], categories=["f", "m", "x"])
    assert "No rows: x." in fairness_report(frame, label="y", prediction="p", group="a").text()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"confidence": 1}, "confidence"),
        ({"least": 0}, "least"),
        ({"tolerance": 2}, "tolerance"),
        ({"limits": "magic"}, "'exact' or 'bootstrap'"),
        ({"limits": "bootstrap", "replicates": 5}, "replicates"),
        ({"limits": "bootstrap", "replicates": 100, "confidence": "0.999"}, "at least 5000"),
    ],
)
def test_what_a_report_refuses(changes, words):
    with pytest.raises(InvalidParameter, match=words):
        fairness_report(TABLE, **NAMES, **changes)
    found = fairness_report(TABLE, **NAMES)
    with pytest.raises(InvalidParameter, match="view"):
        found.view("age")
    with pytest.raises(InvalidParameter, match="group"):
        found.views[0].rate("accuracy", "x")
    with pytest.raises(InvalidParameter, match="metric"):
        found.views[0].rate("beauty", "f")


# --- private models ---------------------------------------------------------------------------------------------------


def test_the_effect_of_epsilon_on_each_group():
    y, a = Y[:400], SEX[:400]
    worse = np.where(a == "f", 0, y)
    found = effect({"1": (y, worse, a), "0.1": [(y, 0 * y, a), (y, worse, a)], None: (y, y, a)})
    assert [None if one is None else float(one) for one in found.epsilons] == [0.1, 1, None]
    assert found.rates["m"][1].value == found.rates["m"][2].value == 1
    base = y[a == "m"].mean()
    assert found.rates["m"][0].value == pytest.approx(1 - base / 2)
    assert found.runs["m"][0] == pytest.approx((1 - base, 1))
    assert found.lost("f") == pytest.approx(y[a == "f"].mean())
    assert found.gaps[1].value == pytest.approx(y[a == "f"].mean())
    assert found.chart().svg().count("no privacy") == 2
    assert "trainings" in found.page().html()
    json.dumps(found.as_dict(), allow_nan=False)
    assert '<div class="discreet"' in found._repr_html_()


def test_outcomes_that_cannot_be_compared():
    y, a = Y[:40], SEX[:40]
    with pytest.raises(InvalidData, match="same test rows"):
        effect({1: (y, y, a), 2: (y[:20], y[:20], a[:20])})
    with pytest.raises(InvalidData, match="none"):
        effect({})
    with pytest.raises(InvalidData, match="no training"):
        effect({1: []})
    with pytest.raises(InvalidData, match="no ε to draw"):
        effect({None: (y, y, a)}).chart()
    with pytest.raises(InvalidParameter, match="epsilon"):
        effect({-1: (y, y, a)})
