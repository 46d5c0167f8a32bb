"""The same again and again."""

import math

import numpy as np
import pytest

from discreet.attacks.answers.answerers import AnswerLimit, CachedAnswers, Fresh, Noisy, Raw
from discreet.attacks.answers.averages import (
    Averaging,
    Differencing,
    RepeatedAnswers,
    gather,
    margin,
    pairs_about,
)
from discreet.attacks.answers.bit_trials import AveragingTrial, DifferencingTrial, ReconstructionTrial
from discreet.errors import InvalidData, InvalidParameter
from discreet.mechanisms import Geometric

PEOPLE = 60
ILL = np.random.default_rng(2).random(PEOPLE) < 0.5
SAME = [[[person]] * 250 for person in range(PEOPLE)]


def attack(answerer, questions=SAME, truth=ILL, **more):
    return Averaging(questions=questions, truth=truth, answerer=answerer, **more).run()


def test_noise_without_a_ledger_falls():
    """ε 0.5 each, 250 times: the mean is within 2.8/√250 = 0.18 of the bit."""
    report = attack(Noisy(Raw(ILL), epsilon="0.5", seed=4))
    assert report.success.value > 0.9
    assert report.verdict == "falls"
    assert float(report.facts["error of the mean, average"]) < 0.25
    assert "<svg" in report.charts[0].svg()


def test_kept_answers_hold():
    """The same answer every time is one answer, and ε 0.05 allows to be right about 51.2 % of even bits."""
    ill = np.random.default_rng(2).random(5000) < 0.5
    again = [[[person]] * 10 for person in range(5000)]
    report = attack(CachedAnswers(Noisy(Raw(ill), epsilon="0.05", seed=4)), again, ill)
    assert report.facts["answers that count, mean"] == "1"
    assert report.success.value < 0.5125 + 4.9 * 0.5 / 5000**0.5
    assert report.verdict == "holds"


def test_equivalent_questions_within_a_budget_hold():
    """Bits, by ten answers of ε 0.01 each: in all ε 0.1, which allows to be right about 52.5 % of them."""
    ill = np.random.default_rng(2).random(5000) < 0.5
    words = [[f"{person} in words {i}" for i in range(25)] for person in range(5000)]

    def make(person):
        count = lambda text: int(ill[person])  # noqa: E731
        return AnswerLimit(Noisy(count, epsilon="0.01", seed=person), answers=10)

    report = attack(Fresh(make, "ε 0.1 in tenths"), words, ill, epsilon="0.1")
    assert report.facts["answers that count, mean"] == "10"
    assert report.facts["refused, mean"] == "15"
    assert report.success.value < 0.525 + 4.9 * 0.5 / 5000**0.5
    assert report.verdict == "holds"


def test_larger_counts_within_a_budget_hold():
    """Ten answers of ε 0.1 each about counts of hundreds: a mean that is off by about four."""
    truth = np.random.default_rng(2).integers(100, 900, PEOPLE)
    words = [[f"{count} in words {i}" for i in range(250)] for count in range(PEOPLE)]

    def make(count):
        return AnswerLimit(Noisy(lambda text: int(truth[count]), epsilon="0.1", seed=count), answers=10)

    report = attack(Fresh(make, "ε 1 in tenths"), words, truth, epsilon=1)
    assert report.success.value < 0.4
    assert report.facts["refused, mean"] == "240"


def test_how_common_a_bit_is_is_used_whether_or_not_the_values_are_stated():
    """One person in ten has it: by rounding, the attack was right about 66 % where guessing is about 90 %, and held."""
    ill = np.random.default_rng(1).random(1000) < 0.1
    again = [[[person]] * 8 for person in range(1000)]
    stated, not_stated = (
        attack(Noisy(Raw(ill), epsilon=1, seed=5), again, ill, **more) for more in ({"possible": (0, 1)}, {})
    )
    assert not_stated.success.hits == stated.success.hits > 930
    assert not_stated.verdict == "falls"


def test_everything_refused_is_guessing():
    report = attack(AnswerLimit(Raw(ILL), answers=0))
    assert report.success.value == report.baseline.value
    assert report.charts == ()


def test_margins_cover():
    """400 means of 50 answers: about 95 % within the margin; 6 standard errors either way, 30 % too narrow fails."""
    noise = Geometric(epsilon="0.5", sensitivity=1)
    spread = math.sqrt(noise.variance)
    noisy = Noisy(lambda q: 41, epsilon="0.5", seed=1)
    found = [gather(noisy, ["again"] * 50) for _ in range(400)]
    error = 6 * math.sqrt(0.05 * 0.95 / 400)
    share = np.mean([abs(g.mean - 41) <= g.margin(spread) for g in found])
    narrow = np.mean([abs(g.mean - 41) <= 0.6 * g.margin(spread) for g in found])
    assert abs(share - 0.95) < error
    assert narrow < 0.95 - error


def test_gathering():
    numbers = iter([1, 2, None, 4])
    assert gather(lambda q: next(numbers), "abcd") == RepeatedAnswers((1, 2, 4), 3, 1)
    assert gather(lambda q: 5, ["a", "a", "b"]) == RepeatedAnswers((5, 5), 3, 0)
    assert RepeatedAnswers((), 0, 3).mean is None
    assert margin(1, 0) == math.inf


def test_a_prior_may_be_said():
    report = attack(lambda q: 41, [["everybody"]], [41], prior=0.5)
    assert (report.success.value, report.baseline.value) == (1, 0.5)


@pytest.mark.parametrize(
    ("questions", "truth", "error", "words"),
    [
        (SAME[:3], ILL, InvalidData, "those of 3 counts, expected 60"),
        ([[]], [1], InvalidData, "at least one question"),
        (["how many?"], [1], InvalidData, "at least one question"),
        ([["a"]], [0.5], InvalidData, "whole numbers"),
        ([["a"]], [math.nan], InvalidData, "whole numbers"),
        ([], [], InvalidData, "whole numbers"),
    ],
)
def test_bad_input(questions, truth, error, words):
    with pytest.raises(error, match=words):
        Averaging(questions=questions, truth=truth, answerer=Raw(ILL)).run()
    with pytest.raises(InvalidParameter, match="prior"):
        attack(Raw(ILL), [[[0]]], [1], prior=2)


@pytest.mark.parametrize("rate", [0.02, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("epsilon", ["0.01", "1", "50"])
def test_an_attacker_who_knows_how_common_a_secret_is_does_no_worse_than_guessing(rate, epsilon):
    """Under much noise the commonest bit is guessed, under little the answer tells; 400 people, both attacks."""
    secret = np.random.default_rng(3).random(400) < rate
    noisy = Noisy(Raw(secret), epsilon=epsilon, seed=4)
    common = max(secret.mean(), 1 - secret.mean())
    alone = Averaging(questions=[[[p]] for p in range(400)], truth=secret.astype(int), answerer=noisy, possible=(0, 1))
    pairs = pairs_about(range(400), of=400, groups=1, seed=5)
    for attack in (alone, Differencing(pairs=pairs, truth=secret, answerer=noisy)):
        right = attack.run().success.value
        assert right >= common - 5 * np.sqrt(0.25 / 400) * (rate == 0.5) - 0.02
        assert right > 0.99 or epsilon != "50"


def test_answers_within_a_budget_are_not_said_to_lack_a_ledger():
    noisy = Noisy(Raw([True, False]), epsilon=1)
    assert noisy.words.endswith(", no ledger")
    assert AnswerLimit(noisy, answers=3).words == "exact counts, geometric noise at ε 1 each, at most 3 answers"
    assert CachedAnswers(noisy).words == "exact counts, geometric noise at ε 1 each, answers cached"
    paid = Averaging(questions=[[[0]], [[1]]], truth=[1, 0], answerer=noisy, epsilon=2).run()
    pairs = pairs_about(range(2), of=2, groups=1, seed=0)
    halves = Differencing(pairs=pairs, truth=[1, 0], answerer=noisy, epsilon=2).run()
    for report in (paid, halves):
        assert report.against == "exact counts, geometric noise at ε 1 each, ε 2 in all"


@pytest.mark.parametrize("attack", [AveragingTrial, DifferencingTrial, ReconstructionTrial])
def test_a_rare_bit_that_falls_is_not_called_held(attack):
    """Guessing is right about 95 %: all that is left is within 5 points."""
    assert attack(people=400, rate=0.05).run().verdict == "falls"
    assert attack(people=40, rate=0.05).run().verdict != "holds"


def test_an_uneven_bit_within_a_budget_holds():
    assert AveragingTrial(people=4000, rate=0.2, answers="budget", epsilon="0.1", repeats=2).run().verdict == "holds"
