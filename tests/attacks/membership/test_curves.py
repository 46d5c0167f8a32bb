"""Curves: their inverses, ε of a Gaussian beside the library's accountant, and the recursion beside a binomial."""

from math import exp

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, norm

from discreet.attacks.membership.one_run import Gaussian, Plain, normal_shift, refuted


@given(st.floats(0, 5), st.floats(0, 0.5), st.floats(0, 1))
def test_the_inverse_of_a_plain_curve_is_the_least_rate(epsilon, delta, true):
    false = Plain(epsilon, delta).inverse(true)
    assert 0 <= false <= true + 1e-12
    allowed = min(1.0, exp(epsilon) * false + delta, 1 - exp(-epsilon) * (1 - delta - false))
    assert allowed >= true - 1e-9
    if false > 1e-6:
        less = false * (1 - 1e-3)
        assert min(1.0, exp(epsilon) * less + delta, 1 - exp(-epsilon) * (1 - delta - less)) < true


@given(st.floats(0.01, 5), st.floats(1e-6, 1 - 1e-6))
def test_the_inverse_of_a_gaussian_curve(mu, true):
    assert Gaussian(mu).inverse(true) == pytest.approx(norm.cdf(norm.ppf(true) - mu), rel=1e-6)
    assert Gaussian(mu).inverse(0.0) == 0
    assert Gaussian(mu).inverse(1.0) == 1


@pytest.mark.parametrize("mu", [0.05, 0.5, 1.0, 3.0, 8.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-5, 1e-2])
def test_epsilon_of_a_gaussian_agrees_with_google_s_accountant(mu, delta):
    from dp_accounting.pld import common, privacy_loss_mechanism

    loss = privacy_loss_mechanism.GaussianPrivacyLoss(1 / mu, sensitivity=1)
    theirs = loss.get_epsilon_for_delta(delta) if hasattr(loss, "get_epsilon_for_delta") else None
    found = Gaussian(mu).epsilon(delta)
    if found > 0:
        assert loss.get_delta_for_epsilon(found) == pytest.approx(delta, rel=1e-4)
    else:
        assert loss.get_delta_for_epsilon(0.0) <= delta
    assert theirs is None or theirs == pytest.approx(found, abs=1e-4)
    assert common is not None


@settings(max_examples=60, deadline=None)
@given(st.integers(5, 80), st.floats(0.1, 3), st.data())
def test_the_recursion_never_refutes_a_binomial_at_its_own_tail(r, epsilon, data):
    v = data.draw(st.integers(1, r))
    m = data.draw(st.integers(r, 4 * r))
    tail = float(binom.sf(v - 1, r, 1 / (1 + exp(-epsilon))))
    if tail > 0:
        assert not refuted(Plain(epsilon, 0.0), canaries=m, guesses=r, right=v, level=tail * (1 - 1e-6))


def test_the_recursion_is_near_the_binomial_tail():
    tail = float(binom.sf(759, 1000, 1 / (1 + exp(-1))))
    values = {"canaries": 1000, "guesses": 1000, "right": 760}
    assert refuted(Plain(1.0, 0.0), **values, level=1.3 * tail)


def test_nothing_right_refutes_nothing():
    assert not refuted(Plain(0.0, 0.0), canaries=10, guesses=10, right=0, level=0.05)
    assert not refuted(Plain(0.0, 0.0), canaries=10, guesses=0, right=0, level=0.05)


def test_a_larger_delta_is_harder_to_refute():
    values = {"canaries": 1000, "guesses": 200, "right": 150, "level": 0.05}
    assert refuted(Plain(0.5, 0.0), **values)
    assert not refuted(Plain(0.5, 0.05), **values)


def test_shifts_at_the_edges():
    assert normal_shift(0.0, 0.5) < 0 < normal_shift(1.0, 0.5)
    assert normal_shift(0.5, 1.0) == float("-inf")
