"""A8: deterministic answers intersect to singletons as observations accumulate; randomized ones do not."""

import math

import pytest

from discreet.attacks.answers.accumulation import Accumulation

pytestmark = pytest.mark.claim("A8")
CITY = {"people": 1000, "answers": 40, "trials": 60, "seed": 8}


def test_deterministic_answers_leave_one_person():
    """log₂ 1000 ≈ 10 answers leave about two people, forty leave one: P(another is left) < 60·999·2⁻⁴⁰ < 1e-7."""
    curves = Accumulation(**CITY).curves()
    assert 1.5 < curves.mean("candidates")[10] < 2.6
    assert (curves.candidates[:, -1] == 1).all()
    assert Accumulation(**CITY).run().verdict == "falls"


def test_randomized_answers_rule_nobody_out():
    for each in (1, 3):
        curves = Accumulation(**CITY, each=each).curves()
        assert (curves.candidates == 1000).all()


def test_within_a_budget_the_posterior_stays_spread_however_many_answers():
    """ε 1 in all changes odds by at most e: no posterior exceeds e/1000, and little of the doubt goes."""
    for answers in (5, 40, 160):
        curves = Accumulation(**CITY | {"answers": answers}, total=1).curves()
        assert curves.largest.max() <= math.e / 1000 * (1 + 1e-9)
        assert curves.mean("entropy")[-1] > 0.95 * math.log2(1000)
    assert Accumulation(**CITY | {"trials": 200}, total=1).run().verdict == "holds"


def test_noise_without_a_budget_only_delays():
    """ε 2 for each of 40 answers: certainty never, but the best guess is usually right. Hence a ledger."""
    report = Accumulation(**CITY, each=2).run()
    assert report.verdict == "falls"
