"""Limits of shares: they cover, by exact enumeration, and bad counts are refused."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from discreet.errors import InvalidData, InvalidParameter
from discreet.intervals import clopper_pearson, lower_limit, newcombe, upper_limit


@pytest.mark.parametrize("trials", [1, 7, 40])
@pytest.mark.parametrize("confidence", [0.9, Fraction(99, 100)])
def test_limits_cover_whatever_the_probability_is(trials, confidence):
    heads = np.arange(trials + 1)
    low, high = clopper_pearson(heads, trials, confidence=confidence)
    one_low = lower_limit(heads, trials, confidence=confidence)
    one_high = upper_limit(heads, trials, confidence=confidence)
    for p in np.linspace(0, 1, 301):
        chances = binom.pmf(heads, trials, p)
        assert chances[(low <= p) & (p <= high)].sum() >= float(confidence) - 1e-12
        assert chances[one_low <= p].sum() >= float(confidence) - 1e-12
        assert chances[p <= one_high].sum() >= float(confidence) - 1e-12


def test_limits_are_not_wider_than_they_must_be():
    """At the limit itself, a count as extreme has exactly the tail's probability."""
    low, high = clopper_pearson(13, 50, confidence=0.95)
    assert binom.sf(12, 50, low) == pytest.approx(0.025)
    assert binom.cdf(13, 50, high) == pytest.approx(0.025)
    assert binom.sf(12, 50, lower_limit(13, 50, confidence=0.95)) == pytest.approx(0.05)
    assert binom.cdf(13, 50, upper_limit(13, 50, confidence=0.95)) == pytest.approx(0.05)


def test_ends():
    assert clopper_pearson(0, 10, confidence=0.5)[0] == 0
    assert clopper_pearson(10, 10, confidence=0.5)[1] == 1
    assert float(lower_limit(0, 0, confidence=0.9)) == 0
    assert float(upper_limit(0, 0, confidence=0.9)) == 1


def test_a_difference_lies_within_newcombes_limits_of_a_worked_example():
    """Newcombe 1998, Table II (a), method 10: 56/70 against 48/80 with Wilson limits gives 0.0524 to 0.3339."""
    low, high = newcombe((56 / 70, 0.6918, 0.8772), (48 / 80, 0.4904, 0.7007))
    assert low == pytest.approx(0.0524, abs=5e-4)
    assert high == pytest.approx(0.3339, abs=5e-4)


@pytest.mark.parametrize(("hits", "trials"), [(-1, 3), (4, 3), (np.nan, 3), (1, np.inf)])
def test_impossible_counts_are_refused(hits, trials):
    with pytest.raises(InvalidData):
        clopper_pearson(hits, trials, confidence=0.95)


@pytest.mark.parametrize("confidence", [0, 1, -1, 1.5, "0.95", True, float("nan")])
def test_impossible_confidence_is_refused(confidence):
    with pytest.raises(InvalidParameter, match="strictly between 0 and 1"):
        lower_limit(1, 2, confidence=confidence)
