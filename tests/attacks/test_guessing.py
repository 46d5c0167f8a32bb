"""The guessing game, exactly and by samples; a mechanism that breaks its promise is caught."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from discreet.attacks.audit.targets import Guessing, curve
from discreet.errors import InvalidChannel, InvalidData, InvalidParameter
from discreet.mechanisms import KRR, Channel, Laplace, RandomizedResponse
from discreet.mechanisms.bayesian import best_test, guess_bound
from discreet.mechanisms.optimal import geometric_channel

SURE = 1 - 1e-6


def response(epsilon):
    return RandomizedResponse.for_epsilon(epsilon=epsilon).channel()


@pytest.mark.parametrize(
    ("channel", "pair"),
    [
        (response("1"), (False, True)),
        (geometric_channel(6, "0.7"), (2, 3)),
        (KRR(epsilon=1, size=5).channel(), (0, 4)),
    ],
)
def test_the_measured_sum_is_the_exact_one(channel, pair):
    report = Guessing(mechanism=channel, first=pair[0], second=pair[1], trials=40_000, seed=5, confidence=SURE).run()
    exact = float(best_test(channel, *pair))
    assert report.facts["best test, exactly"] == exact
    assert report.success.low <= exact / 2 <= report.success.high
    assert not report.success.low <= exact / 2 + 0.02 <= report.success.high  # the power to see 0.02


def test_the_limits_cover():
    """Of 400 games at 90 %, the exact share is within the limits at least so often; that 340 fail has chance < 1e-6."""
    channel = geometric_channel(4, "1")
    exact = float(best_test(channel, 1, 2)) / 2
    games = [
        Guessing(mechanism=channel, first=1, second=2, trials=60, seed=s, confidence=0.9).run().success
        for s in range(400)
    ]
    inside = sum(share.low <= exact <= share.high for share in games)
    assert binom.cdf(inside, 400, 0.9) > 1e-6


def test_a_kept_promise_holds_and_a_broken_one_falls():
    honest = Guessing(mechanism=response("0.5"), first=False, second=True, epsilon="0.5", confidence=SURE).run()
    assert honest.verdict == "holds"
    broken = Guessing(mechanism=response("1"), first=False, second=True, epsilon="0.5", confidence=SURE).run()
    assert broken.verdict == "falls"
    assert broken.baseline.value == pytest.approx(guess_bound("0.5") / 2)
    assert "what ε allows" in broken.remarks[0]


def test_a_large_promise_that_is_broken_falls_too():
    """No difference above what ε 4 allows reaches 5 points."""
    report = Guessing(mechanism=Channel([[1, 0], [0, 1]]), first=0, second=1, epsilon=4, confidence=SURE).run()
    assert (report.verdict, report.success.value) == ("falls", 1)


def test_without_a_promise_the_baseline_is_a_coin():
    report = Guessing(mechanism=Channel([[1, 0], [0, 1]]), first=0, second=1, trials=100).run()
    assert report.baseline.value == 0.5
    assert report.success.value == 1
    assert report.facts["ε of these two inputs"] == math.inf
    nothing = Guessing(mechanism=Channel([[1], [1]]), first=0, second=1, trials=100).run()
    assert nothing.success.value == 0.5


@pytest.mark.parametrize("epsilon", ["0.5", "2"])
def test_a_mechanism_is_measured_by_its_releases(epsilon):
    """Laplace noise: the best test's sum is 2 − e^(−ε/2), and 64 bins learned from a sample come near it."""
    noise = Laplace(epsilon=epsilon, sensitivity=1)
    report = Guessing(mechanism=noise, first=0.0, second=1.0, epsilon=epsilon, trials=4000, confidence=SURE).run()
    exact = 1 - math.exp(-float(Fraction(epsilon)) / 2) / 2
    assert report.verdict == "holds"
    assert report.success.low <= exact
    assert report.success.high >= exact - 0.02
    assert "best test, exactly" not in report.facts


def test_functions_one_at_a_time_and_in_batches():
    rng = np.random.default_rng(0)
    single = Guessing(
        mechanism=lambda x: "yes" if rng.random() < (0.8 if x else 0.2) else "no", first=1, second=0, trials=3000
    )
    batch = Guessing(
        mechanism=lambda x, n: rng.normal(x, 1, n), first=0, second=1, trials=20_000, batch=True, confidence=SURE
    )
    assert single.run().success.value == pytest.approx(0.8, abs=0.03)
    share = batch.run().success  # Φ(1/2) = 0.6915
    assert share.low < 0.6915 < share.high + 0.005


def test_a_test_is_not_judged_on_what_it_learned_from():
    """200 outputs that say nothing, 300 of each input: a test judged on its own sample would seem right in 70 %."""
    rng = np.random.default_rng(8)
    blind = Guessing(mechanism=lambda x, n: rng.integers(0, 200, n), first=0, second=1, trials=300, batch=True)
    assert abs(blind.run().success.value - 0.5) < 0.1


def test_outputs_that_are_missing_are_an_output_too():
    report = Guessing(mechanism=lambda x: None if x else 1.0, first=1, second=0, trials=50).run()
    assert report.success.value == 1


def test_the_curve_is_below_the_bound_and_drawn():
    chart = curve(lambda epsilon: geometric_channel(5, epsilon), 2, 3, epsilons=["0.1", "1", "3"])
    line = chart.marks[1]
    for x, y in zip(line.x, line.y, strict=True):
        assert 1 < y <= guess_bound(float(x))
    assert "<svg" in chart.svg()
    report = Guessing(mechanism=response("1"), first=False, second=True, epsilon=1, family=response, trials=100).run()
    assert len(report.charts[0].marks) == 3
    assert "<svg" in report.page().html()


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"first": "maybe"}, InvalidChannel, "unknown input 'maybe'"),
        ({"trials": 0}, InvalidParameter, "trials"),
        ({"epsilon": -1}, InvalidParameter, "epsilon"),
        ({"seed": -1}, InvalidParameter, "seed"),
        ({"mechanism": 3}, InvalidParameter, "a Channel, a mechanism with release, or a function"),
        ({"mechanism": lambda x, n: [1], "batch": True}, InvalidData, "got 1 outputs"),
        ({"epsilons": []}, InvalidParameter, "at least one ε"),
    ],
)
def test_bad_input(change, error, words):
    with pytest.raises(error, match=words):
        Guessing(**{"mechanism": response(1), "first": False, "second": True, "trials": 10} | change).run()
