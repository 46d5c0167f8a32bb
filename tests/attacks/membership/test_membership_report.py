"""One page, before and after: what it says, with what confidence, and what it never shows."""

import json
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from discreet.attacks.membership import LossThreshold, MembershipReport, coins
from discreet.attacks.membership.attack import crowded_ends
from discreet.attacks.membership.scores import Scores
from discreet.errors import InvalidData


def attack(*, leak, claimed=None, design="coins", seed=1, **more):
    rng, inside = np.random.default_rng(seed), coins(600, seed=2)
    losses = rng.exponential(np.where(inside, 1 - leak, 1.0))
    return LossThreshold(losses=losses, members=inside, design=design, claimed=claimed, **more)


def test_before_and_after_stand_side_by_side():
    report = MembershipReport.of(
        before=[attack(leak=0.99, against="plain")], after=[attack(leak=0, claimed=(1, "1e-5"), against="private")]
    )
    html = report.page().html()
    for words in ("before", "after", "ε at least", "ε claimed", "not refuted", "AUC", "plain", "private", "<svg"):
        assert words in html
    assert not report.broken
    assert report.before[0].bound.epsilon > 1.5
    assert report.after[0].bound.epsilon < 1
    assert "Before: the best attack (loss threshold) names" in report.text()
    assert json.loads(report.json())["broken"] is False
    assert html.count("<figure>") >= 4


def test_a_broken_claim_is_said_so():
    report = MembershipReport.of(after=[attack(leak=0.99, claimed=(1, "1e-5"))])
    assert report.broken
    assert "A claim is refuted" in report.page().html()
    assert "- broken: A claim is refuted" in report.text()
    assert report.reports()[0].facts["claim"] == "broken"


def test_all_bounds_of_a_page_hold_together():
    one = attack(leak=0.9)
    alone, four = MembershipReport.of(before=[one]), MembershipReport.of(before=[one, one], after=[one, one])
    assert alone.before[0].confidence == Fraction(19, 20)
    assert {found.confidence for found in (*four.before, *four.after)} == {1 - Fraction(1, 80)}
    assert four.before[0].bound.epsilon < alone.before[0].bound.epsilon
    assert four.confidence == 0.95


def test_an_unknown_design_gives_no_bound_and_tests_no_claim():
    report = MembershipReport.of(after=[attack(leak=0.99, design="unknown", claimed=1)])
    assert not report.broken
    assert report.after[0].bound is None
    assert report.after[0].claim == "not tested"
    html = report.page().html()
    assert "No attack could test a claimed ε" in html
    assert "prove nothing about ε" in html
    assert report.reports()[0].verdict == "falls"


def test_equal_scores_hold_nothing():
    inside = coins(600, seed=2)
    report = LossThreshold(losses=np.ones(600), members=inside, design="coins").run()
    assert report.verdict == "undecided"
    assert "All scores are equal" in report.unread[0]
    assert report.facts["ε is at least"] == 0


def test_a_guesser_of_many_targets_holds():
    rng, inside = np.random.default_rng(5), coins(20_000, seed=2)
    assert LossThreshold(losses=rng.exponential(size=20_000), members=inside).run().verdict == "holds"


def test_a_small_leak_over_many_targets_is_seen_though_no_low_rate_shows_it():
    rng, inside = np.random.default_rng(5), coins(8000, seed=2)
    losses = rng.exponential(np.where(inside, 0.7, 1.0))
    assert LossThreshold(losses=losses, members=inside).run().verdict == "falls"


def test_where_nothing_leads_success_is_judged_where_a_leak_hides_least():
    report = attack(leak=0).run()
    assert report.baseline.value == 0.5
    assert report.verdict == "undecided"  # 600 targets are too few to call five percent nothing


def test_too_few_outsiders_for_a_rate_are_named():
    remarks = " ".join(attack(leak=0.5).run().remarks)
    assert "too few to see 0.1 %" in remarks


def test_two_attacks_of_one_name_have_a_curve_each():
    report = MembershipReport.of(before=[attack(leak=0.9), attack(leak=0.5)], after=[attack(leak=0)])
    labels = [mark.label for mark in report.curves()[0].marks]
    assert labels == ["guessing", "before", "before (2)", "after"]


def test_no_score_appears_on_the_page():
    rng, inside = np.random.default_rng(1), coins(100, seed=2)
    losses = 7000 + rng.random(100)
    page = MembershipReport.of(after=[LossThreshold(losses=losses, members=inside, design="coins")]).page().html()
    assert "700" not in page.replace("#", "")


def test_mixed_confidences_and_nothing_at_all_are_refused():
    with pytest.raises(InvalidData, match="one confidence"):
        MembershipReport.of(before=[attack(leak=0)], after=[attack(leak=0, confidence=0.9)])
    with pytest.raises(InvalidData, match="give attacks"):
        MembershipReport.of()


# --- false safety: what must not be called held


def judged(inside, outside, seed=0):
    values, members = np.concatenate([inside, outside]), np.repeat([True, False], [len(inside), len(outside)])
    return LossThreshold(losses=-values, members=members, seed=seed).run()


def test_an_attack_that_looks_the_wrong_way_round_proves_nothing():
    """Members have the larger losses, beyond doubt: whoever turns the attack round names them all."""
    rng = np.random.default_rng(1)
    report = judged(rng.normal(size=500) - 2, rng.normal(size=500))
    assert report.success.value < report.control.value
    assert report.verdict == "undecided"
    assert "wrong way round" in report.text()


@pytest.mark.parametrize("side", [20, -20])
def test_a_few_members_who_are_exposed_beyond_doubt_are_never_held(side):
    """10 of 500 members stand beyond everybody else, at either end."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        inside = rng.normal(size=500)
        inside[:10] += side
        assert judged(inside, rng.normal(size=500), seed).verdict != "holds"


@pytest.mark.parametrize(("members", "others"), [(20, 20), (300, 40), (40, 300)])
def test_scores_that_say_nothing_crowd_no_more_often_than_the_confidence_allows(members, others):
    """2000 draws at 95 %: a false-alarm rate of the test below 1e-6; ties, as losses of 0 give them, are no crowd."""
    found = 0
    for seed in range(2000):
        rng = np.random.default_rng([seed, members])
        sides = rng.normal(size=members), rng.normal(size=others)
        tied = seed % 2
        found += bool(crowded_ends(Scores.pair(*(np.round(side) if tied else side for side in sides)), confidence=0.95))
    assert found <= binom.isf(1e-6, 2000, 0.05)


def test_people_who_are_all_alike_crowd_nowhere():
    assert crowded_ends(Scores.pair([1.0] * 30, [1.0] * 50), confidence=0.95) == ()


def test_a_claim_that_allows_everything_is_not_shown_as_good():
    """ε = 50 is not refuted by an attack that finds everybody; the page must not say that all is well."""
    report = MembershipReport.of(after=[attack(leak=0.99, claimed=(50, "1e-5"))])
    verdict = report._verdict()
    assert not report.broken
    assert (verdict.word, verdict.good) == ("not refuted", None)
    assert "members are found" in report.text()
    assert MembershipReport.of(after=[attack(leak=0, claimed=(50, "1e-5"))])._verdict().good
