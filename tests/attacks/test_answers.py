"""Answerers: what each lets through, how they stack, what they refuse."""

from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from discreet.attacks.answers.answerers import (
    AnswerLimit,
    CachedAnswers,
    Curator,
    Fresh,
    Noisy,
    Raw,
    Rounded,
    Suppressed,
    ask,
    ask_all,
    bits,
    only,
    words,
)
from discreet.errors import BudgetExceeded, InvalidData, InvalidParameter, InvalidQuery

ILL = np.array([1, 0, 1, 1, 0, 1], bool)


def test_raw_counts_masks_and_positions():
    raw = Raw(ILL)
    assert raw(np.array([True, True, False, False, False, False])) == 1
    assert raw([2, 3, 5]) == 3
    assert raw([]) == 0
    assert raw(np.zeros(6, bool)) == 0


@pytest.mark.parametrize(
    "question", [np.ones(5, bool), np.ones((2, 6), bool), [6], [-1], [1, 1], [0.5], ["a"], np.zeros((1, 2), int)]
)
def test_raw_refuses_what_is_no_subset(question):
    with pytest.raises(InvalidData, match="question"):
        Raw(ILL)(question)


@pytest.mark.parametrize("secret", [[], [[1, 0]], [0, 2], ["yes"], [float("nan")], None])
def test_secrets_are_bits(secret):
    with pytest.raises(InvalidData, match="secret") as error:
        Raw(secret)
    assert "yes" not in str(error.value)


def test_rounding_is_to_the_nearest_multiple():
    rounded = Rounded(lambda q: q, base=10)
    assert [rounded(q) for q in (4, 5, 14, 96, -4)] == [0, 10, 10, 100, 0]
    assert rounded(None) is None


def test_suppression_hides_exactly_the_small():
    hidden = Suppressed(lambda q: q, below=5)
    assert [hidden(q) for q in (0, 4, 5, 6)] == [None, None, 5, 6]


def test_defenses_stack_and_say_so():
    stacked = Suppressed(Rounded(Raw(ILL), base=3), below=3)
    assert words(stacked) == "exact counts, rounded to multiples of 3, counts below 3 suppressed"
    assert stacked([0]) is None
    assert stacked([0, 2, 3, 5]) == 3
    assert words(lambda q: 1) == "an answerer"


@pytest.mark.parametrize("noise", ["geometric", "laplace"])
def test_noise_is_fresh_repeatable_by_seed_and_of_the_right_scale(noise):
    """10,000 draws at scale 2: the mean absolute noise is within 5 standard errors, and 30 % off is far outside."""
    first, again = (Noisy(Raw(ILL), epsilon="0.5", noise=noise, seed=9) for _ in range(2))
    drawn = ask_all(first, [[0]] * 10_000) - 1
    assert (drawn[:100] == ask_all(again, [[0]] * 100) - 1).all()
    assert len(set(drawn[:100])) > 5
    q = np.exp(-0.5)
    expected = 2 * q / (1 - q * q) if noise == "geometric" else 2.0
    error = 5 * 2 / 100
    assert abs(np.abs(drawn).mean() - expected) < error < 0.3 * expected
    assert first.scale == pytest.approx(2)


def test_unseeded_noise_differs():
    assert {Noisy(Raw(ILL), epsilon="0.001")([0]) for _ in range(50)} != {1.0}


def test_limited_refuses_afterwards_and_remembered_repeats():
    limited = AnswerLimit(Raw(ILL), answers=2)
    assert [limited([0]) for _ in range(4)] == [1, 1, None, None]
    kept = CachedAnswers(Noisy(Raw(ILL), epsilon="0.001"))
    assert len({kept(np.array([True] * 6)) for _ in range(20)}) == 1
    assert len({CachedAnswers(Noisy(lambda q: 1, epsilon="0.001"))(text) for text in "abcdefgh"}) > 1


class Fake:
    """A dataset that can pay for so many answers."""

    def __init__(self, table, left=1, error=None):
        self.table, self.left, self.error, self.asked = table, left, error, []

    def ask(self, sql, *, epsilon=None):
        self.asked.append((sql, epsilon))
        if self.error:
            raise self.error
        if not self.left:
            raise BudgetExceeded("the budget cannot pay")
        self.left -= 1
        return SimpleNamespace(table=self.table)


def test_the_curator_is_asked_and_its_refusal_is_none():
    fake = Fake(pa.table({"n": [41]}))
    curator = Curator(dataset=fake, epsilon="0.1", sql=lambda age: f"SELECT COUNT(*) AS n FROM t WHERE age > {age}")
    assert [curator(30), curator(31)] == [41.0, None]
    assert fake.asked[0] == ("SELECT COUNT(*) AS n FROM t WHERE age > 30", "0.1")
    assert words(curator) == "the curator, ε 0.1 a question"


def test_a_wrong_statement_is_not_a_refusal():
    with pytest.raises(InvalidQuery):
        Curator(dataset=Fake(None, error=InvalidQuery("no such column")), epsilon=1)("SELECT x")


def test_only_one_number():
    with pytest.raises(InvalidData, match="2 rows and 1 columns"):
        only(pa.table({"n": [1, 2]}))


@pytest.mark.parametrize("answer", ["12", True, float("nan"), float("inf"), [1]])
def test_answers_that_are_no_numbers(answer):
    with pytest.raises(InvalidData, match="the answerer gave"):
        ask(lambda q: answer, "q")


def test_fractions_and_numpy_numbers_are_answers():
    assert ask_all(lambda q: q, [Fraction(1, 2), np.int64(3), np.float32(2)]).tolist() == [0.5, 3, 2]


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: Rounded(len, base=0), "base"),
        (lambda: Suppressed(len, below=0), "below"),
        (lambda: Noisy(len, epsilon=0), "epsilon"),
        (lambda: Noisy(len, epsilon=1, noise="uniform"), "noise"),
        (lambda: AnswerLimit(len, answers=-1), "answers"),
        (lambda: Curator(dataset=Fake(None), epsilon=float("nan")), "epsilon"),
    ],
)
def test_bad_settings(make, name):
    with pytest.raises(InvalidParameter, match=name):
        make()


def test_fresh_makes_one_for_each():
    assert Fresh(lambda person: Raw(ILL[person : person + 1])).make(1)([0]) == 0
    assert bits([1.0, 0.0], "x").tolist() == [True, False]
