from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2

from discreet.errors import InvalidData
from discreet.noise import DeterministicEntropy, uniform_each
from discreet.synthetic.commuting.urn import draw


def rising(start, steps):
    found = Fraction(1)
    for step in range(steps):
        found *= start + step
    return found


def chances(balls, draws):
    """P(the first cell gets s), for two cells."""
    from math import comb

    a, b = balls
    return [
        float(comb(draws, s) * rising(a, s) * rising(b, draws - s) / rising(a + b, draws)) for s in range(draws + 1)
    ]


def chi_square(observed, expected):
    return float((((observed - expected) ** 2) / expected).sum())


COUNTS, PRIOR, DRAWS, TIMES = np.array([2, 0]), Fraction(2, 3), 6, 20_000
CRITICAL = chi2.isf(1e-7, DRAWS)


@pytest.fixture(scope="module")
def observed():
    entropy = DeterministicEntropy(7)
    seen = [int(draw(COUNTS, PRIOR, DRAWS, entropy=entropy)[0]) for _ in range(TIMES)]
    return np.bincount(seen, minlength=DRAWS + 1)


def test_draws_have_the_law_of_the_urn(observed):
    assert chi_square(observed, TIMES * np.array(chances((2 + PRIOR, PRIOR), DRAWS))) < CRITICAL


@pytest.mark.parametrize("factor", [Fraction(7, 10), Fraction(13, 10)])
def test_another_prior_would_be_noticed(observed, factor):
    wrong = PRIOR * factor
    assert chi_square(observed, TIMES * np.array(chances((2 + wrong, wrong), DRAWS))) > CRITICAL


def test_an_urn_of_one_color():
    assert draw(np.array([0, 5, 0]), Fraction(0), 1000).tolist() == [0, 1000, 0]
    assert draw(np.array([3]), Fraction(1, 7), 10).tolist() == [10]
    assert draw(np.array([3, 3]), Fraction(1), 0).tolist() == [0, 0]


def test_an_empty_urn_is_refused():
    with pytest.raises(InvalidData, match="empty"):
        draw(np.array([0, 0]), Fraction(0), 5)


def test_uniform_each_is_below_its_bounds_and_uniform():
    entropy = DeterministicEntropy(3)
    bounds = np.array([1, 2, 3, 5, 1 << 62])
    seen = np.array([uniform_each(bounds, entropy=entropy) for _ in range(6000)])
    assert (seen >= 0).all()
    assert (seen < bounds).all()
    for place, bound in ((1, 2), (2, 3), (3, 5)):
        counts = np.bincount(seen[:, place], minlength=bound)
        assert chi_square(counts, np.full(bound, 6000 / bound)) < chi2.isf(1e-7, bound - 1)
    assert abs(seen[:, 4].mean() / 2**61 - 1) < 5.4 / np.sqrt(3 * 6000)


@pytest.mark.parametrize("bounds", [[0], [-1], [1.5], [2**63]])
def test_bounds_that_cannot_be(bounds):
    from discreet.errors import InvalidParameter

    with pytest.raises(InvalidParameter):
        uniform_each(np.array(bounds))
