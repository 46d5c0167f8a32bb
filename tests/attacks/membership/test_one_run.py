"""One-run auditing: the theorems by brute force, the paper's own numbers, no false alarm, and planted leaks found."""

from fractions import Fraction
from itertools import product
from math import exp, log

import numpy as np
import pytest
from scipy.stats import binom, norm

from discreet.attacks.membership import Scores, coins, epsilon_of_guesses, one_run
from discreet.attacks.membership.one_run import Gaussian, Plain, choices, p_value, p_value_late, refuted
from discreet.errors import InvalidData, InvalidParameter

ALARM = 1e-6  # how often a right build may fail a test of this file


def scores_of(m, k, *, noise, spread="normal", size=1.0):
    """Canaries along directions of their own: each score is its coin plus noise."""
    inside = coins(m, seed=k)
    rng = np.random.default_rng([k, 77])
    drawn = rng.normal(size=m) if spread == "normal" else rng.laplace(size=m)
    return Scores.of(size * inside + noise * drawn, inside)


# --- the paper ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("counts", "delta", "printed"),
    [((1000, 100, 75), 1e-4, 0.673), ((100_000, 1510, 1439), 1e-5, 2.675)],
)
def test_the_numbers_of_the_paper_come_out(counts, delta, printed):
    """Steinke, Nasr, Jagielski 2023: the example of the appendix with code, and the one of the experiments."""
    m, r, v = counts
    low, high = 0.0, 20.0
    for _ in range(50):
        middle = (low + high) / 2
        refutes = p_value(canaries=m, guesses=r, right=v, epsilon=middle, delta=delta) < 0.05
        low, high = (middle, high) if refutes else (low, middle)
    assert low == pytest.approx(printed, abs=1e-3)
    ours = epsilon_of_guesses(canaries=m, guesses=r, right=v, delta=delta, confidence="0.95")
    assert ours >= low - 1e-5  # the smaller of several right sides


def test_without_delta_it_is_the_binomial_tail():
    for r, v, epsilon in product((5, 40), (1, 3, 5), (0.0, 1.0, 3.0)):
        tail = binom.sf(v - 1, r, 1 / (1 + exp(-epsilon)))
        assert p_value(canaries=50, guesses=r, right=v, epsilon=epsilon, delta=0.0) == pytest.approx(tail, rel=1e-12)
        assert p_value_late(canaries=50, guesses=r, right=v, epsilon=epsilon, delta=0.0) == pytest.approx(tail)


def test_the_steepest_step_is_taken_over_all_steps():
    r, v, epsilon, m, delta = 30, 20, 0.7, 60, 1e-3
    q = 1 / (1 + exp(-epsilon))
    tail = [binom.sf(w - 1, r, q) for w in range(-m, r + 1)]
    steepest = max((tail[v - i + m] - tail[v + m]) / i for i in range(1, m + 1))
    got = p_value(canaries=m, guesses=r, right=v, epsilon=epsilon, delta=delta)
    assert got == pytest.approx(tail[v + m] + 2 * m * delta * steepest, rel=1e-10)


# --- the theorems, by brute force over small trainings ------------------------------------------------------------


def channels(m, rng, count):
    """Trainings with few outputs: rows are coins, columns outputs."""
    for kind in range(count):
        sharp = rng.choice([0.3, 1.0, 5.0])
        channel = rng.dirichlet(np.full(5, sharp), size=2**m)
        if kind % 3 == 0:  # with some probability the coins are told outright
            told = rng.choice([0.01, 0.1, 0.4])
            channel = np.hstack([(1 - told) * np.repeat(channel[:1], 2**m, axis=0), told * np.eye(2**m)])
        if kind % 3 == 1:  # each coin through a noisy line of its own, told with some probability
            flip, told = rng.choice([0.2, 0.4]), rng.choice([0.0, 0.02, 0.2])
            line = np.array([[(1 - told) * (1 - flip), (1 - told) * flip, told, 0.0]])
            line = np.vstack([line, line[:, [1, 0, 3, 2]]])
            channel = line
            for _ in range(m - 1):
                channel = np.kron(channel, line)
        yield channel


def neighbors(m):
    return [(s, s ^ (1 << i)) for s in range(2**m) for i in range(m)]


def delta_at(channel, m, epsilon):
    return max(np.maximum(channel[s] - exp(epsilon) * channel[t], 0).sum() for s, t in neighbors(m))


def most_right(channel, m, r, v):
    """P[W ≥ v] of the best guesser: for each output the best r guesses."""
    bits = np.array(list(product([0, 1], repeat=m)))
    guesses = [places for places in product([-1, 0, 1], repeat=m) if sum(place != -1 for place in places) == r]
    enough = np.array([(bits == places).sum(axis=1) >= v for places in guesses])  # a guess of −1 is right of nobody
    return float((enough @ channel / 2**m).max(axis=0).sum())


def test_no_training_beats_the_theorems():
    rng = np.random.default_rng(5)
    near = 0.0
    for m in (2, 3):
        pairs = [pair for pair in product(range(1, m + 1), repeat=2) if pair[1] <= pair[0]]
        for channel in channels(m, rng, 45):
            chances = [most_right(channel, m, *pair) for pair in pairs]
            for epsilon in (0.0, 0.5, 1.5):
                delta = min(delta_at(channel, m, epsilon), 1.0)
                for (r, v), chance in zip(pairs, chances, strict=True):
                    values = {"canaries": m, "guesses": r, "right": v}
                    late = p_value_late(**values, epsilon=epsilon, delta=delta)
                    assert chance <= late + 1e-9
                    assert chance <= p_value(**values, epsilon=epsilon, delta=delta) + 1e-9
                    assert not refuted(Plain(epsilon, delta), **values, level=chance * (1 - 1e-6))
                    near = max(near, chance / late if late < 0.9 else 0)
    assert near > 0.9  # some training comes near: the check is not vacuous


@pytest.mark.parametrize("failure_probability", [Fraction(1, 4), Fraction(1, 20)])
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
def test_randomized_response_is_accused_no_more_often_than_it_may_be(epsilon, failure_probability):
    """The exact probability over all outcomes; randomized response is the worst case for δ = 0."""
    m, q = 120, 1 / (1 + exp(-epsilon))
    bounds = [
        epsilon_of_guesses(canaries=m, guesses=m, right=v, delta=0, confidence=1 - failure_probability)
        for v in range(m + 1)
    ]
    wrong = sum(binom.pmf(v, m, q) for v in range(m + 1) if bounds[v] > epsilon)
    assert failure_probability / 8 < wrong <= failure_probability
    assert bounds == sorted(bounds)


@pytest.mark.parametrize("mu", [0.3, 1.0, 2.0])
def test_the_gaussian_curve_is_sound_and_near_the_truth_for_gaussian_lines(mu):
    """All of m coins guessed by the sign: right with probability Φ(μ/2), independently."""
    m = 200
    q = norm.cdf(mu / 2)
    for v in range(int(m * q), m + 1, 7):
        chance = float(binom.sf(v - 1, m, q))
        if chance < 1e-12:
            continue
        values = {"canaries": m, "guesses": m, "right": v}
        assert not refuted(Gaussian(mu), **values, level=chance * (1 - 1e-6))
        if 0.01 < chance < 0.2:
            assert refuted(Gaussian(0.25 * mu), **values, level=chance)


# --- no false alarm, over repeated runs ---------------------------------------------------------------------------


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    ("spread", "noise", "delta", "curve", "truth"),
    [
        ("laplace", 1.0, 0.0, "any", 1.0),
        ("normal", 1.0, 1e-3, "any", Gaussian(1.0).epsilon(1e-3)),
        ("normal", 1.0, 1e-3, "gaussian", Gaussian(1.0).epsilon(1e-3)),
    ],
)
def test_repeated_runs_exceed_the_truth_no_more_often_than_stated(spread, noise, delta, curve, truth):
    """150 runs at 80 %: exceeding is binomial of at most 20 %; so is the alarm of this test fixed."""
    runs, failure_probability = 150, 0.2
    found = [
        one_run(
            scores_of(400, k, noise=noise, spread=spread), delta=delta, confidence=1 - failure_probability, curve=curve
        ).epsilon
        for k in range(runs)
    ]
    exceeded = sum(one > truth + 1e-9 for one in found)
    assert exceeded <= binom.isf(ALARM, runs, failure_probability)
    assert np.mean(found) > 0.1 * truth  # it finds something
    halved = [
        one_run(scores_of(4000, k, noise=noise / 4, spread=spread), delta=delta, confidence="0.95", curve=curve).epsilon
        for k in range(3)
    ]
    assert min(halved) > truth  # and the same test would see a quarter of the noise


# --- planted leaks ------------------------------------------------------------------------------------------------

SIGMA = 1.0812  # (4, 1e-5)-DP


def test_the_scale_of_the_planted_leaks_is_right():
    assert Gaussian(1 / SIGMA).epsilon(1e-5) == pytest.approx(4, abs=2e-3)


@pytest.mark.parametrize(("leak", "noise", "size"), [("no noise", 0.0, 1.0), ("clipping skipped", SIGMA, 5.0)])
@pytest.mark.parametrize("curve", ["any", "gaussian"])
def test_gross_leaks_are_found_by_two_thousand_canaries(leak, noise, size, curve):
    for k in range(4):
        bound = one_run(scores_of(2000, k, noise=noise, size=size), delta=1e-5, confidence="0.999", curve=curve)
        assert bound.breaks(Fraction(4)), leak


def test_noise_of_half_the_scale_is_found_by_ten_thousand_canaries():
    for k in range(4):
        bound = one_run(scores_of(10_000, k, noise=SIGMA / 2), delta=1e-5, confidence="0.95", curve="gaussian")
        assert bound.breaks(Fraction(4))
        right = one_run(scores_of(10_000, k, noise=SIGMA), delta=1e-5, confidence="0.95", curve="gaussian")
        assert 1.5 < right.epsilon < 4


def test_laplace_noise_of_half_the_scale_is_found_without_delta():
    for k in range(4):
        assert one_run(scores_of(10_000, k, noise=0.5, spread="laplace"), delta=0, confidence="0.99").breaks(
            Fraction(1)
        )


# --- ties and bad input -------------------------------------------------------------------------------------------


def test_equal_scores_prove_nothing_even_if_members_come_first():
    inside = np.arange(400) < 200
    assert one_run(Scores.of(np.zeros(400), inside), delta=0, confidence="0.95").epsilon == 0
    assert one_run(Scores.of(np.zeros(400), ~inside), delta=0, confidence="0.95").epsilon == 0


def test_without_noise_the_bound_is_that_of_all_guesses_right():
    inside = coins(500, seed=1)
    bound = one_run(Scores.of(inside * 1.0, inside), delta=0, confidence="0.95", guesses=[(100, 100)])
    assert bound.epsilon == pytest.approx(-log(0.05 ** (-1 / 200) - 1), abs=1e-3)


def test_unfair_coins_are_refused():
    inside = np.arange(1000) < 100
    with pytest.raises(InvalidData, match="fair coins do not produce"):
        one_run(Scores.of(np.arange(1000.0), inside), delta=0, confidence="0.95")


@pytest.mark.parametrize("guesses", [[], [(0, 0)], [(300, 300)], [(-1, 5)], [3], [(1.5, 2)], "no"])
def test_bad_guesses_are_refused(guesses):
    scores = Scores.of(np.arange(400.0), np.arange(400) % 2 == 0)
    with pytest.raises((InvalidParameter, InvalidData)):
        one_run(scores, delta=0, confidence="0.95", guesses=guesses)


@pytest.mark.parametrize(
    "changed", [{"delta": -1}, {"delta": 1}, {"confidence": 1}, {"confidence": 0}, {"curve": "other"}, {"seed": -1}]
)
def test_bad_parameters_are_refused(changed):
    scores = Scores.of(np.arange(400.0), np.arange(400) % 2 == 0)
    with pytest.raises(InvalidParameter):
        one_run(scores, **{"delta": 0, "confidence": "0.95", **changed})


def test_a_gaussian_has_no_epsilon_without_delta():
    scores = Scores.of(np.arange(400.0), np.arange(400) % 2 == 0)
    with pytest.raises(InvalidParameter, match="above 0"):
        one_run(scores, delta=0, confidence="0.95", curve="gaussian")


def test_choices_never_guess_more_than_there_is():
    for targets in (40, 41, 99, 1000, 12345):
        assert all(1 <= a + b <= targets for a, b in choices(targets))
