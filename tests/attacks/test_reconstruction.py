"""Linear reconstruction: what is recovered, from what, and what is not."""

import math
from fractions import Fraction

import numpy as np
import pytest

from discreet.attacks.answers.answerers import Noisy, Raw, Rounded, Suppressed, ask_all
from discreet.attacks.answers.reconstruction import (
    METHODS,
    Hashed,
    Reconstruction,
    least_squares,
    lp_decode,
    population,
    random_subsets,
)
from discreet.errors import InvalidData, InvalidParameter

PEOPLE = 150
SECRET = population(PEOPLE, 0.3, 7)
SUBSETS = random_subsets(4 * PEOPLE, people=PEOPLE, seed=3)


def attack(answerer=None, method="lp", **more):
    given = {"subsets": SUBSETS, "truth": SECRET, "answerer": answerer, "method": method} | more
    return Reconstruction(**given).run()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "defense",
    [Raw(SECRET), Rounded(Raw(SECRET), base=5), Suppressed(Raw(SECRET), below=5)],
    ids=["raw", "rounded", "suppressed"],
)
def test_undefended_answers_give_everything_away(method, defense):
    report = attack(defense, method)
    assert report.success.value > 0.95
    assert report.verdict == "falls"


@pytest.mark.parametrize("method", METHODS)
def test_a_little_noise_does_not_help(method):
    noisy = Noisy(Raw(SECRET), epsilon=1, seed=5)
    assert attack(noisy, method, scale=1).success.value > 0.95


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("rate", [0.3, 0.5])
def test_the_budget_split_among_all_questions_holds(method, rate):
    """ε 1 in all, seeded: no better than guessing, within the binomial error of 150 bits (4.9 σ)."""
    secret = population(PEOPLE, rate, 7)
    split = Noisy(Raw(secret), epsilon=Fraction(1, len(SUBSETS)), seed=5)
    report = attack(split, method, scale=len(SUBSETS), truth=secret)
    assert report.success.value <= report.baseline.value + 4.9 * 0.5 / math.sqrt(PEOPLE)
    assert report.verdict != "falls"


@pytest.mark.parametrize("method", METHODS)
def test_everything_refused_is_guessing(method):
    report = attack(lambda q: None, method)
    assert report.success.value == report.baseline.value
    assert report.facts["refused"] == len(SUBSETS)


def test_suppressed_small_counts_still_tell_that_they_are_small():
    """Cells of two people each, and their pairs: with counts below 2 hidden, the limits 0 and 1 are used by the LP."""
    rng = np.random.default_rng(1)
    subsets = rng.random((1500, PEOPLE)) < 0.03
    hidden = Suppressed(Raw(SECRET), below=2)
    answers = ask_all(hidden, subsets)
    assert 0.3 < np.isnan(answers).mean() < 0.9
    plain, told = (
        attack(None, subsets=subsets, answers=answers, missing=missing).success.value for missing in (None, (0, 1))
    )
    assert told > 0.95
    assert told >= plain


@pytest.mark.parametrize("seed", range(3))
def test_the_dual_program_is_the_primal_one(seed):
    """min Σ distance to [low, high] + c·Σx, solved as it is written, has the same value."""
    from scipy.optimize import linprog

    rng = np.random.default_rng(seed)
    subsets = rng.random((30, 8)) < 0.5
    low = subsets @ (rng.random(8) < 0.5) + rng.integers(-3, 4, 30).astype(float)
    high = low + np.where(rng.random(30) < 0.3, 2.0, 0.0)
    scale, share = 0.7, 0.3
    cost = scale * math.log((1 - share) / share)
    x = lp_decode(subsets, low, high, scale=scale, share=share)
    value = (np.maximum(0, subsets @ x - high) + np.maximum(0, low - subsets @ x)).sum() + cost * x.sum()
    A = subsets.astype(float)
    primal = linprog(
        np.r_[np.full(8, cost), np.ones(30)],
        A_ub=np.block([[A, -np.eye(30)], [-A, -np.eye(30)]]),
        b_ub=np.r_[high, -low],
        bounds=[(0, 1)] * 8 + [(0, None)] * 30,
    )
    assert value == pytest.approx(primal.fun, abs=1e-6)


def test_least_squares_is_the_best_linear_estimate():
    rng = np.random.default_rng(4)
    subsets, answers = rng.random((40, 6)) < 0.5, rng.normal(2, 3, 40)
    scale, share = 1.5, 0.2
    A, penalty = subsets.astype(float), 2 * scale**2 / (share * (1 - share))
    exact = share + np.linalg.solve(A.T @ A + penalty * np.eye(6), A.T @ (answers - A @ np.full(6, share)))
    np.testing.assert_allclose(
        least_squares(subsets, answers, answers, scale=scale, share=share), np.clip(exact, 0, 1), atol=1e-6
    )


def test_intervals_cover():
    """Of 60 reconstructions with noise, the interval of the success holds the mean success in nearly all."""
    reports = []
    for seed in range(60):
        secret = population(PEOPLE, 0.5, seed)
        noisy = Noisy(Raw(secret), epsilon="1/6", seed=seed)
        answers = ask_all(noisy, SUBSETS[: 2 * PEOPLE])
        reports.append(
            attack(None, "least squares", subsets=SUBSETS[: 2 * PEOPLE], truth=secret, answers=answers, scale=6)
        )
    mean = np.mean([report.success.value for report in reports])
    assert 0.6 < mean < 0.95
    covered = sum(report.success.low <= mean <= report.success.high for report in reports)
    assert covered >= 45  # P[Binomial(60, 0.95) < 45] < 1e-6


def test_hashed_predicates_are_the_masks():
    import duckdb

    people = np.random.default_rng(1).integers(0, 10**6, 200)
    hashed = Hashed.of(people, questions=5, seed=2)
    with duckdb.connect() as database:
        database.execute("CREATE TABLE t AS SELECT unnest(?)::BIGINT AS person", [people.tolist()])
        for mask, predicate in zip(hashed.masks, hashed.predicates("person"), strict=True):
            assert database.sql(f"SELECT count(*) FROM t WHERE {predicate}").fetchall() == [(int(mask.sum()),)]
    assert attack(Raw(SECRET), subsets=Hashed.of(np.arange(PEOPLE), questions=400, seed=1).masks).success.value > 0.95


def test_a_histogram_of_single_people_is_bounded_by_epsilon():
    """4000 people, each alone in a cell, ε 1: rare secrets stay hidden; even ones are guessed with at most 73.1 %."""
    for rate in (0.2, 0.5):
        secret = population(4000, rate, 1)
        alone = np.eye(4000, dtype=bool)
        noise = Noisy(int, epsilon=1, seed=2)
        report = attack(None, "least squares", subsets=alone, truth=secret, answers=ask_all(noise, secret), scale=1)
        best = max(report.baseline.value, math.e / (1 + math.e))
        assert report.success.value <= best + 4.9 * 0.5 / math.sqrt(4000)
        assert report.verdict == ("falls" if rate == 0.5 else "holds")


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"method": "magic"}, InvalidParameter, "method"),
        ({"answers": np.zeros(600)}, InvalidParameter, "answers, answerer"),
        ({"answerer": None}, InvalidParameter, "answers, answerer"),
        ({"answerer": None, "answers": [1.0]}, InvalidData, "one for each of 600 subsets"),
        ({"answerer": None, "answers": np.full(600, np.inf)}, InvalidData, "infinite"),
        ({"subsets": SUBSETS[:, :5]}, InvalidData, "150 people"),
        ({"subsets": np.full(SUBSETS.shape, 2)}, InvalidData, "True and False"),
        ({"subsets": np.zeros((0, PEOPLE), bool)}, InvalidData, "subsets"),
        ({"truth": np.full(PEOPLE, 9)}, InvalidData, "neither 0 nor 1"),
        ({"scale": -1}, InvalidParameter, "scale"),
        ({"missing": (3, 1)}, InvalidParameter, "missing"),
        ({"answerer": lambda q: "x"}, InvalidData, "answerer gave a str"),
    ],
)
def test_bad_input(change, error, words):
    with pytest.raises(error, match=words):
        Reconstruction(**{"subsets": SUBSETS, "truth": SECRET, "answerer": Raw(SECRET)} | change).run()


@pytest.mark.parametrize("numbers", [[], [-1], [10**7], [0.5], [[1]]])
def test_numbers_to_hash(numbers):
    with pytest.raises(InvalidData, match="numbers"):
        Hashed.of(numbers, questions=2, seed=1)


def test_one_value_for_everybody():
    for value in (0, 1):
        secret = np.full(PEOPLE, value)
        assert attack(Raw(secret), truth=secret).success.value == 1
        assert attack(Raw(secret), truth=secret).verdict != "falls"
