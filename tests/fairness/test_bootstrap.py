"""Resampling: multinomial numbers, and limits that hold the truth."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, chi2

from discreet.errors import InvalidData, InvalidParameter
from discreet.fairness.bootstrap import Replicates, checked_replicates, gaps, resampled, uniforms
from discreet.fairness.cells import Cells
from discreet.noise import DeterministicEntropy

ALPHA = 1e-6


@given(st.lists(st.integers(0, 60), min_size=1, max_size=12).filter(any), st.integers(1, 30))
@settings(max_examples=60)
def test_every_replicate_has_as_many_rows_and_only_cells_that_were_seen(counts, times):
    drawn = resampled(counts, times, entropy=DeterministicEntropy(1))
    assert drawn.shape == (times, len(counts))
    assert (drawn.sum(axis=1) == sum(counts)).all()
    assert (drawn >= 0).all()
    assert not drawn[:, np.array(counts) == 0].any()


@pytest.mark.parametrize("total", [3, 40, 1000, 10**5])
def test_single_counts_are_binomial(total):
    """A chi-square test over the values of one cell, which must also tell a share that is wrong by 30 %."""
    share, times = 0.3, 20_000
    counts = np.array([round(total * share), total - round(total * share)])
    first = resampled(counts, times, entropy=DeterministicEntropy(7))[:, 0]
    assert distance(first, total, counts[0] / total) < chi2.isf(ALPHA, 19)
    assert distance(first, total, 1.3 * counts[0] / total) > chi2.isf(ALPHA, 19)


def distance(values, total, p):
    edges = np.unique(binom.ppf(np.arange(1, 20) / 20, total, p))
    probability = np.diff(np.concatenate([[0.0], binom.cdf(edges, total, p), [1.0]]))
    seen = np.bincount(np.searchsorted(edges, values, side="left"), minlength=len(probability))
    kept = probability * len(values) > 5
    return ((seen - probability * len(values))[kept] ** 2 / (probability * len(values))[kept]).sum()


def test_counts_of_two_cells_vary_together_as_they_should():
    counts, times = np.array([200, 300, 500]), 40_000
    drawn = resampled(counts, times, entropy=DeterministicEntropy(3))
    share = counts / 1000
    expected = 1000 * (np.diag(share) - np.outer(share, share))
    assert np.abs(np.cov(drawn.T) / expected - 1).max() < 0.05  # standard error about 0.01
    assert np.abs(drawn.mean(axis=0) - counts).max() < 6 * np.sqrt(expected.max() / times)


def test_uniform_numbers_fill_the_unit_interval():
    found = np.sort(uniforms(10_000, DeterministicEntropy(2)))
    assert np.abs(found - np.arange(10_000) / 10_000).max() < np.sqrt(-np.log(ALPHA / 2) / 2 / 10_000)


@pytest.mark.parametrize("bad", [[], [0, 0], [-1, 2], [0.5, 1], [[1, 2]]])
def test_counts_that_make_no_sense(bad):
    with pytest.raises(InvalidData, match="whole numbers ≥ 0"):
        resampled(np.array(bad), 10)


def test_replicates_have_the_sums_of_every_view():
    rng = np.random.default_rng(0)
    n = 3000
    table = {"y": rng.integers(0, 2, n), "p": rng.integers(0, 2, n), "a": rng.choice(list("abc"), n), "b": rng.choice(list("uv"), n),
             "x": rng.choice(list("rst"), n), "s": rng.random(n)}  # fmt: skip
    cells = Cells.of(table, label="y", prediction="p", group=["a", "b"], given="x", score="s", score_bins=4)
    found = Replicates.of(cells, 100, entropy=DeterministicEntropy(1))
    assert [one.shape for one in found.tables] == [(100, 3, 2, 2), (100, 2, 2, 2), (100, 6, 2, 2)]
    assert [one.shape for one in found.strata] == [(100, 3, 3, 2, 2), (100, 3, 2, 2, 2), (100, 3, 6, 2, 2)]
    assert [one.shape for one in found.bins] == [(100, 4, 3, 2, 2), (100, 4, 2, 2, 2), (100, 4, 6, 2, 2)]
    for tables, strata, bins in zip(found.tables, found.strata, found.bins, strict=True):
        assert (tables.sum(axis=(1, 2, 3)) == n).all()
        assert (strata.sum(axis=1) == tables).all()
        assert (bins.sum(axis=1) == tables).all()
    assert (found.tables[2].reshape(100, 3, 2, 2, 2).sum(axis=2) == found.tables[0]).all()
    assert np.abs(found.tables[0].mean(axis=0) - cells.by("a").tables()[0]).max() < 20


def test_bootstrap_limits_hold_the_truth_and_narrower_ones_do_not():
    """Coverage of the gap of three groups, and its fall where limits are 30 % narrower."""
    rng, held, narrow, times = np.random.default_rng(4), 0, 0, 300
    truth = np.array([0.3, 0.45, 0.4])
    for k in range(times):
        a = rng.integers(0, 3, 1500)
        p = (rng.random(1500) < truth[a]).astype(int)
        cells = Cells.of_arrays(None, p, a.astype(str))
        found = gaps(Replicates.of(cells, 200, entropy=DeterministicEntropy(k)), 0, ["statistical parity"])[
            0
        ].difference
        held += found.low <= 0.15 <= found.high
        center = found.value
        narrow += center - 0.7 * (center - found.low) * 0.7 <= 0.15 <= center + 0.7 * (found.high - center) * 0.7
    assert binom.cdf(held, times, 0.95) > ALPHA
    assert narrow < held


def test_groups_that_do_not_differ_are_not_said_to():
    """The bootstrap of a largest difference would never hold 0; these limits do, nearly always."""
    rng, wrong, times = np.random.default_rng(5), 0, 200
    for k in range(times):
        cells = Cells.of_arrays(None, (rng.random(800) < 0.3).astype(int), rng.integers(0, 4, 800).astype(str))
        wrong += gaps(Replicates.of(cells, 200, entropy=DeterministicEntropy(k)), 0, ["statistical parity"])[0].differs
    assert binom.sf(wrong - 1, times, 0.05) > ALPHA


def test_a_rate_of_zero_is_not_taken_for_sure():
    cells = Cells.of_arrays(None, [0] * 30, ["f"] * 15 + ["m"] * 15)
    found = gaps(Replicates.of(cells, 100), 0, ["statistical parity"])[0]
    assert found.difference.value == 0
    assert 0.05 < found.difference.high < 0.3


def test_too_few_replicates_for_a_confidence():
    assert checked_replicates(1000, 0.05) == 1000
    with pytest.raises(InvalidParameter, match="at least 5000"):
        checked_replicates(1000, 0.001)
    with pytest.raises(InvalidParameter, match="replicates"):
        checked_replicates(10, 0.05)


def test_a_replicate_with_too_many_rows_is_drawn_again(monkeypatch):
    """With a mean total near the number of rows many are: counts are still binomial."""
    monkeypatch.setattr("discreet.fairness.bootstrap._SPARE", 0.5)
    drawn = resampled([300, 700], 20_000, entropy=DeterministicEntropy(5))
    assert (drawn.sum(axis=1) == 1000).all()
    assert (drawn >= 0).all()
    assert distance(drawn[:, 0], 1000, 0.3) < chi2.isf(ALPHA, 19)
