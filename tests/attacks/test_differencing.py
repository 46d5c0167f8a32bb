"""Everybody, and everybody but one."""

import math

import numpy as np
import pytest

from discreet.attacks.answers.answerers import AnswerLimit, Fresh, Noisy, Raw, Rounded, Suppressed
from discreet.attacks.answers.averages import Differencing, ceiling, difference, pairs_about
from discreet.errors import InvalidData, InvalidParameter

PEOPLE = 120
ILL = np.random.default_rng(11).random(PEOPLE) < 0.5
ONE = pairs_about(range(PEOPLE), of=PEOPLE, groups=1, seed=2)
MANY = pairs_about(range(PEOPLE), of=PEOPLE, groups=150, seed=2)


def attack(answerer, pairs=ONE, **more):
    return Differencing(pairs=pairs, truth=ILL, answerer=answerer, **more).run()


def test_exact_answers_tell_everything():
    report = attack(Raw(ILL))
    assert (report.success.value, report.verdict) == (1.0, "falls")
    assert report.baseline.value == max(ILL.mean(), 1 - ILL.mean())


def test_suppressing_small_counts_does_not_help():
    assert attack(Suppressed(Raw(ILL), below=10)).success.value == 1


@pytest.mark.parametrize("base", [3, 5, 10])
def test_rounding_hides_one_pair_and_not_many(base):
    """The mean of rounded differences is the bit: random groups dither."""
    one, many = attack(Rounded(Raw(ILL), base=base)), attack(Rounded(Raw(ILL), base=base), MANY)
    assert one.success.value < 0.8
    assert many.success.value > 0.85
    assert many.verdict == "falls"


def test_noise_without_a_ledger_averages_away():
    noisy = Noisy(Raw(ILL), epsilon="0.5", seed=8)
    assert attack(noisy, MANY).success.value > 0.85
    assert attack(Noisy(Raw(ILL), epsilon="0.05", seed=8)).success.value < 0.7


def test_a_budget_for_each_person_holds():
    """ε 0.1 in all for the pairs of one person: refused after the first pair; a coin within 4.9 standard errors."""

    def make(person):
        return AnswerLimit(Noisy(Raw(ILL), epsilon="0.05", seed=person), answers=2)

    report = attack(Fresh(make, "ε 0.1 a person"), MANY, epsilon="0.1")
    assert report.verdict != "falls"
    assert abs(report.success.value - 0.51) < 4.9 * 0.5 / math.sqrt(PEOPLE)
    assert report.facts["no attack on an even bit can beat, on average"] == "52.5 % (ε 0.1 in all)"
    assert report.against == "ε 0.1 a person"


def test_refused_people_are_guessed_from_the_majority():
    report = attack(AnswerLimit(Raw(ILL), answers=0))
    assert report.facts["people about whom everything was refused"] == PEOPLE
    assert report.success.value == report.baseline.value
    assert report.verdict != "falls"


def test_no_attack_beats_the_bound():
    """2000 fair bits at ε 1 in all: the share of right guesses stays below e/(1+e) plus 4.9 standard errors."""
    bits = np.random.default_rng(5).random(2000) < 0.5
    pairs = [[(True, False)]] * 2000
    make = lambda person: Noisy(lambda with_person: int(with_person and bits[person]), epsilon="1/2", seed=person)  # noqa: E731
    report = Differencing(pairs=pairs, truth=bits, answerer=Fresh(make), epsilon=1).run()
    bound = math.e / (1 + math.e)
    assert 0.55 < report.success.value < bound + 4.9 * 0.5 / math.sqrt(2000)


def test_difference_skips_what_was_refused():
    answers = {"a": 5, "b": 4, "c": None, "d": 1, "e": 9, "f": 6}
    assert difference(answers.get, [("a", "b"), ("c", "d"), ("e", "f")]) == 2
    assert difference(answers.get, [("c", "d")]) is None


def test_pairs_differ_by_the_person():
    for person, pairs in enumerate(MANY[:5]):
        for larger, smaller in pairs:
            assert np.flatnonzero(larger != smaller).tolist() == [person]
            assert larger[person]
    with pytest.raises(InvalidParameter, match="people"):
        pairs_about([5], of=5, groups=1, seed=0)


def test_the_ceiling():
    assert ceiling(None) == {}
    assert "73.1 %" in ceiling(1)["no attack on an even bit can beat, on average"]


@pytest.mark.parametrize(
    ("pairs", "truth", "words"),
    [
        (ONE[:5], ILL, "those of 5 people, expected 120"),
        ([[]] * PEOPLE, ILL, "person 0 needs a list of pairs"),
        ([[("a",)]] * PEOPLE, ILL, "person 0"),
        (ONE, np.full(PEOPLE, 7), "neither 0 nor 1"),
        ([], [], "at least 1 bits"),
    ],
)
def test_bad_input(pairs, truth, words):
    with pytest.raises(InvalidData, match=words) as error:
        Differencing(pairs=pairs, truth=truth, answerer=Raw(ILL)).run()
    assert "7" not in str(error.value)
