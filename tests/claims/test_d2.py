"""D2: the cost of DP-SGD grows as q·ε·√T; strong accounting against basic and advanced composition, drawn."""

import math

import pytest

from discreet.learning.sgd.run_state import cost_chart, costs
from discreet.privacy.accounting import pld
from discreet.privacy.loss import Repeated, SampledGaussian

pytestmark = pytest.mark.claim("D2")


def epsilon(rate, steps, multiplier=4):
    return pld.epsilon(Repeated(SampledGaussian(rate, multiplier), steps), delta="1e-5")


def test_four_times_the_steps_cost_about_twice():
    for steps in (1000, 10_000):
        assert 1.9 < epsilon("0.01", 4 * steps) / epsilon("0.01", steps) < 2.4


def test_twice_the_rate_costs_about_twice():
    for rate, twice in (("0.005", "0.01"), ("0.01", "0.02")):
        assert 1.8 < epsilon(twice, 5000) / epsilon(rate, 5000) < 2.4


def test_basic_is_worse_than_advanced_is_worse_than_moments_is_worse_than_numerical():
    found = costs(rate="0.01", multiplier=4, delta="1e-5", steps=[10_000])
    basic, advanced, moments, numerical = (found[name][0] for name in found)
    assert basic > 10 * advanced
    assert advanced > 10 * moments
    assert moments > 1.05 * numerical


def test_basic_composition_grows_as_the_steps_and_strong_as_their_root():
    found = costs(rate="0.01", multiplier=4, delta="1e-5", steps=[1000, 16_000])
    slopes = {name: math.log(values[1] / values[0]) / math.log(16) for name, values in found.items()}
    assert slopes["basic"] > 0.95
    assert 0.45 < slopes["numerical (PLD)"] < 0.65


def test_it_is_drawn(tmp_path):
    chart = cost_chart(rate="0.01", multiplier=4, delta="1e-5", steps=10_000, points=5)
    words = chart.save(tmp_path / "cost.svg").read_text()
    assert all(name in words for name in ("basic", "advanced", "moments (RDP)", "numerical (PLD)", "√steps"))
