"""Losses and their gradients, against float64 and finite differences."""

import math

import numpy as np
import pytest

from discreet.learning.networks.network import Logistic, Softmax, Squared


def softmax(z, y):
    return math.log(sum(math.exp(v - z[y]) for v in z))


def logistic(z, y):
    return math.log1p(math.exp(-z[0] if y == 1 else z[0]))


def squared(z, y):
    return sum((a - b) ** 2 for a, b in zip(z, y, strict=True)) / 2


CASES = {
    "softmax": (Softmax(), softmax, [[0.1, -2.0, 3.0], [5.0, 5.0, 5.0], [-9.0, 4.0, 0.0]], np.array([2, 0, 1])),
    "logistic": (Logistic(), logistic, [[0.3], [-4.0], [2.0]], np.array([1, 0, 0])),
    "squared": (Squared(), squared, [[0.3, 1.0], [-4.0, 2.0]], np.array([[1.0, 2.0], [0.0, -3.0]])),
}


@pytest.mark.parametrize("name", CASES)
def test_losses_and_gradients(name):
    loss, true, outputs, y = CASES[name]
    z = np.array(outputs, np.float32)
    before = z.copy()
    losses, gradient = loss.gradient(z, y)
    assert (z == before).all()
    assert losses.dtype == gradient.dtype == np.float32
    assert gradient.shape == z.shape
    for i, row in enumerate(outputs):
        assert losses[i] == pytest.approx(true(row, y[i]), rel=1e-5, abs=1e-5)
        for j in range(len(row)):
            up, down = list(row), list(row)
            up[j] += 1e-5
            down[j] -= 1e-5
            assert gradient[i, j] == pytest.approx((true(up, y[i]) - true(down, y[i])) / 2e-5, abs=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_empty_lots(name):
    loss, _, outputs, y = CASES[name]
    losses, gradient = loss.gradient(np.array(outputs, np.float32)[:0], y[:0])
    assert losses.shape == (0,)
    assert gradient.shape == (0, len(outputs[0]))


@pytest.mark.parametrize("name", CASES)
def test_an_example_does_not_depend_on_the_others(name):
    loss, _, outputs, y = CASES[name]
    z = np.random.default_rng(1).normal(size=(100, len(outputs[0]))).astype(np.float32) * 5
    targets = np.resize(y, (100, *y.shape[1:]))
    losses, gradient = loss.gradient(z, targets)
    for part in (slice(0, 1), slice(3, 20), slice(99, 100)):
        some, dy = loss.gradient(z[part], targets[part])
        assert (some == losses[part]).all()
        assert (dy == gradient[part]).all()


@pytest.mark.parametrize("size", [100.0, 1e30])
def test_large_outputs_do_not_overflow(size):
    losses, gradient = Softmax().gradient(np.array([[size, -size]], np.float32), np.array([1]))
    assert np.isfinite(losses).all()
    assert gradient.tolist() == [[1.0, -1.0]]
    losses, gradient = Logistic().gradient(np.array([[size], [-size]], np.float32), np.array([0, 0]))
    assert losses.tolist() == pytest.approx([size, 0.0])
    assert gradient.tolist() == [[1.0], [0.0]]


def test_shares_are_probabilities():
    z = np.random.default_rng(1).normal(size=(50, 4)).astype(np.float32) * 9
    for p in (Softmax().shares(z), Logistic().shares(z[:, :1])):
        assert (p >= 0).all()
        assert np.abs(p.sum(axis=1) - 1).max() < 1e-6
    assert Logistic().shares(np.array([[2.0]], np.float32))[0, 1] == pytest.approx(1 / (1 + math.exp(-2)), rel=1e-6)


def test_rows_that_are_not_finite_give_nothing_that_is():
    """Where an output is NaN or +∞ so are the shares; all else is clipped or counts as nothing."""
    bad = [np.nan, np.inf, -np.inf, 3e38, 1.0]
    z = np.array([[a, b, c] for a in bad for b in bad for c in bad], np.float32)
    with np.errstate(all="ignore"):
        losses, gradient = Softmax().gradient(z, np.arange(len(z)) % 3)
    lost = np.isnan(z).any(axis=1) | (z.max(axis=1) == np.inf) | (z == -np.inf).all(axis=1)
    assert np.array_equal(np.isnan(gradient).any(axis=1), lost)
    assert np.isfinite(losses[~lost]).all()
    assert (np.abs(gradient[~lost]) <= 1).all()
