"""Private means and deviations: exact sensitivity, right values, bad inputs."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.errors import InvalidData, InvalidParameter
from discreet.learning.sgd.preprocessing import GRID, PrivateStandard
from discreet.noise import DeterministicEntropy
from discreet.privacy.loss import GaussianNoise

MADE = PrivateStandard(multiplier=2, rows=20_000, norm=2, squares=2)


@settings(max_examples=60)
@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=3, max_size=3))
def test_no_row_weighs_more_than_one(row):
    ((first, second),) = MADE._shares(np.array([row]))
    assert sum(int(v) ** 2 for v in (*first.ravel(), *second.ravel())) <= GRID**2


def test_means_and_deviations_are_found():
    rng = np.random.default_rng(1)
    rows = rng.normal([0.3, -0.2, 0.0], [0.2, 0.1, 0.3], size=(20_000, 3))
    found = MADE.release(rows, entropy=DeterministicEntropy(1))
    np.testing.assert_allclose(found.mean, [0.3, -0.2, 0], atol=0.01)
    np.testing.assert_allclose(found.deviation, [0.2, 0.1, 0.3], rtol=0.1)
    z = found.apply(rows)
    np.testing.assert_allclose(z.std(axis=0), 1, rtol=0.1)
    assert MADE.loss == GaussianNoise(2)


def test_noise_has_the_stated_deviation():
    """No rows: what comes out is noise; false alarms below 1e-6, 30 % are seen."""
    found = MADE.release(np.zeros((0, 3000)), entropy=DeterministicEntropy(2))
    sigma, n = 2 * math.sqrt(2) * 2 / 20_000, 3000
    for factor in (1, 1.3, 1 / 1.3):
        far = abs(np.square(found.mean / (sigma * factor)).sum() - n) / math.sqrt(2 * n) > 5
        assert far == (factor != 1)


@pytest.mark.parametrize("rows", [np.zeros(3), np.zeros((1, 1 << 16)), np.array([["a"]])])
def test_bad_rows(rows):
    with pytest.raises(InvalidData):
        MADE.release(rows)


@pytest.mark.parametrize("wrong", [{"multiplier": 0}, {"rows": 0}, {"norm": 0}, {"squares": -1}, {"least": 2}])
def test_bad_settings(wrong):
    with pytest.raises(InvalidParameter):
        PrivateStandard(**{"multiplier": 1, "rows": 1, "norm": 1, "squares": 1} | wrong)


def test_a_row_counts_the_same_alone_and_in_company_however_it_lies_in_memory():
    rows, made = (
        np.random.default_rng(3).normal(size=(200, 301)),
        PrivateStandard(multiplier=1, rows=200, norm=3, squares=5),
    )
    whole = next(made._shares(rows))
    columns = np.asfortranarray(rows)
    for k in range(200):
        for found, expected in zip(next(made._shares(columns[k : k + 1])), whole, strict=True):
            assert (found == expected[k]).all()
    assert all((a == b).all() for a, b in zip(next(made._shares(columns)), whole, strict=True))
