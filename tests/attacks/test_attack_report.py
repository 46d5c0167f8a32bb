"""Reports of attacks: verdicts, limits, and that private examples stay private."""

import json

import numpy as np
import pytest
from scipy.stats import binom

from discreet.attacks import AttackReport, Share
from discreet.attacks.attack_report import Comparison
from discreet.errors import InvalidParameter
from discreet.report import Chart, Line

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


@pytest.mark.parametrize(
    ("hits", "trials", "baseline", "control", "verdict"),
    [
        (5000, 10_000, 0.5, None, "holds"),
        (500, 1000, 0.5, None, "undecided"),  # three points more would be six of a hundred that were left to gain
        (900, 1000, 0.01, 0.9, "undecided"),  # three points more would be three tenths of what was left
        (1000, 1000, 0.995, None, "falls"),  # half a point, and all that there was to gain
        (600, 600, 0.995, None, "undecided"),
        (40, 10_000, 0.0001, None, "leaks"),
    ],
)
def test_verdicts_on_what_guessing_leaves_open(hits, trials, baseline, control, verdict):
    outside = None if control is None else Share.counted(round(control * 1000), 1000, confidence=0.95)
    assert report(hits, trials, baseline=Share.known(baseline), control=outside, normalized=True).verdict == verdict


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
    text, page = report().text(), report().page().html().replace("\N{NO-BREAK SPACE}", " ")
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
    assert "for the reason stated" in found.sentence
    assert report(900, 1000, unread=("labels of 'land'",)).verdict == "falls"


def test_json_has_no_infinity():
    facts = {"ε": float("inf"), "both": (np.float64("nan"), 1), "shares": [Share.known(0.5)]}
    found = json.loads(report(facts=facts).json(), parse_constant=lambda _: pytest.fail("not JSON"))["facts"]
    assert found["ε"] == "inf"
    assert found["both"] == ["nan", 1]
    assert found["shares"][0]["value"] == 0.5


def test_the_limits_of_the_risk_cover():
    """The normalized risk lies within its limits as often as they say, also where guessing is nearly always right.

    2,000 draws; a coverage of 92 % would be seen in all but one of a million runs."""
    rng = np.random.default_rng(18)
    for guessing in (0.1, 0.9, 0.99):
        for truth in (0.0, 0.3):
            hits = rng.binomial(600, guessing + truth * (1 - guessing), 2000)
            outside = rng.binomial(800, guessing, 2000)
            covered = sum(
                (risk := _risk(int(a), 600, int(b), 800)).low <= truth <= risk.high
                for a, b in zip(hits, outside, strict=True)
            )
            assert binom.cdf(covered, 2000, 0.95) > 1e-6


def _risk(hits, trials, outside, others):
    control = Share.counted(outside, others, confidence=0.95)
    return report(hits, trials, baseline=Share.known(0.0), control=control).risk


def test_a_release_holds_only_if_it_holds_for_every_group():
    def group(hits, trials, **changes):
        shares = [Share.counted(count, trials, confidence=0.95) for count in (hits, 0)]
        return Comparison(name="the rarest secret", success=shares[0], reference=shares[1], tolerance=0.1, **changes)

    def verdict(*groups, **changes):
        return report(100, 10_000, groups=groups, **changes).verdict

    assert verdict() == verdict(group(0, 100)) == "holds"
    assert verdict(group(0, 100), group(3, 3)) == "undecided"
    assert verdict(group(50, 100), group(3, 3)) == "falls"
    assert verdict(group(3, 3, decides=False)) == "holds"
    assert verdict(group(20, 20, decides=False)) == "falls"
    assert verdict(group(0, 100), unread=("labels",)) == "undecided"
    found = report(100, 10_000, groups=(group(3, 3),))
    assert "the rarest secret may be 100.0 % (10.0 % would do)" in found.sentence
    assert found.sentence in found.text()
    assert found.as_dict()["groups"][0]["success"]["trials"] == 3
