"""Reports of attacks: verdicts, limits, and that private examples stay private."""

import json

import numpy as np
import pytest
from scipy.stats import binom

from discreet.attacks import AttackReport, Share
from discreet.drawing import Chart, Line
from discreet.errors import InvalidParameter

SECRET = "row 17 is Ann Example"


def report(hits=90, trials=100, **changes):
    fields = dict(
        attack="linkage", against="the raw table", goal="name the person of a row", people=trials, confidence=0.95,
        success=Share.counted(hits, trials, confidence=0.95), baseline=Share.known(0.01), worst=(SECRET,),
        facts={"matched": 7, "limit": np.float64(0.5)}, charts=(Chart("c", [Line([1, 2], [1, 2])]),), remarks=("a remark",),
    )  # fmt: skip
    return AttackReport(**(fields | changes))


@pytest.mark.parametrize(
    ("hits", "trials", "baseline", "control", "verdict"),
    [
        (90, 100, 0.01, None, "falls"),
        (500, 1000, 0.5, None, "holds"),
        (5, 10, 0.5, None, "undecided"),
        (90, 100, 0.01, 0.9, "undecided"),  # people outside fall as often: no fault of the release
        (900, 1000, 0.01, 0.9, "holds"),
        (90, 100, 0.01, 0.1, "falls"),
        (40, 10_000, 0.0001, None, "leaks"),
        (0, 0, 0.1, None, "undecided"),
    ],
)
def test_verdicts(hits, trials, baseline, control, verdict):
    outside = None if control is None else Share.counted(round(control * 1000), 1000, confidence=0.95)
    assert report(hits, trials, baseline=Share.known(baseline), control=outside).verdict == verdict


def test_risk_is_corrected_by_what_guessing_reaches():
    risk = report(75, 100, baseline=Share.known(0.5)).risk
    assert risk.value == pytest.approx(0.5)
    assert risk.low < 0.5 < risk.high
    assert report(40, 100, baseline=Share.known(0.5)).risk.value == 0
    assert report(100, 100, baseline=Share.known(1.0)).risk.value == 0


def test_limits_of_a_share_cover():
    """Exact: over all counts, the probability that the limits hold the truth is at least the confidence."""
    for truth in (0.03, 0.5, 0.91):
        covered = sum(
            binom.pmf(hits, 60, truth)
            for hits in range(61)
            if (s := Share.counted(hits, 60, confidence=0.9)).low <= truth <= s.high
        )
        assert covered >= 0.9


def test_private_examples_need_the_owner():
    whole = report()
    for shown in (whole.text(), whole.json(), whole.page().html(), repr(whole), whole._repr_html_()):
        assert SECRET not in shown
    for shown in (whole.text(owner=True), whole.json(owner=True), whole.page(owner=True).html()):
        assert SECRET in shown


def test_words_numbers_and_pictures_are_all_there():
    plain = json.loads(report().json())
    assert plain["success"] == {"value": 0.9, "low": plain["success"]["low"], "high": plain["success"]["high"], "hits": 90, "trials": 100}  # fmt: skip
    assert plain["facts"] == {"matched": 7, "limit": 0.5}
    text, page = report().text(), report().page().html()
    for word in ("linkage", "the raw table", "name the person", "90.0 %", "matched", "a remark", "falls"):
        assert word in text
        assert word in page
    assert page.count("<svg") == 2


def test_impossible_shares_are_refused():
    with pytest.raises(InvalidParameter):
        Share.known(1.5)


def test_a_control_of_one_person_makes_nothing_hold():
    """100 % success beside 1 of 1 in the control: the control says next to nothing."""
    found = report(400, 400, baseline=Share.known(0.25), control=Share.counted(1, 1, confidence=0.95))
    assert found.verdict == "undecided"
    assert found.risk.high == 1


def test_what_could_not_be_read_never_holds():
    assert report(0, 1000).verdict == "holds"
    found = report(0, 1000, unread=("labels of 'land'",))
    assert found.verdict == "undecided"
    assert "labels of 'land'" in found.text()
    assert "labels of &#x27;land&#x27;" in found.page().html()
    assert found.as_dict()["unread"] == ["labels of 'land'"]
    assert "could not read" in found.sentence
    assert report(900, 1000, unread=("labels of 'land'",)).verdict == "falls"


def test_json_has_no_infinity():
    facts = {"ε": float("inf"), "both": (np.float64("nan"), 1), "shares": [Share.known(0.5)]}
    found = json.loads(report(facts=facts).json(), parse_constant=lambda _: pytest.fail("not JSON"))["facts"]
    assert found["ε"] == "inf"
    assert found["both"] == ["nan", 1]
    assert found["shares"][0]["value"] == 0.5
