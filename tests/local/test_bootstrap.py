"""The bootstrap: resamples have the right law, intervals cover, estimators of all kinds fit in."""

import numpy as np
import pytest

from discreet.errors import InvalidData, InvalidParameter
from discreet.local.estimation import inversion as module
from discreet.local.estimation.inversion import bootstrap, resample
from discreet.local.estimation.linear_maps import ConvolutionModel, DenseModel, KRRModel
from discreet.noise import DeterministicEntropy

FLAT = KRRModel(truth="1/2", other="1/8", size=5)
TRUTH = np.array([0.45, 0.25, 0.15, 0.1, 0.05])


@pytest.mark.parametrize("most_draws", [10**9, 0], ids=["each", "halving"])
def test_resamples_are_multinomial(monkeypatch, most_draws):
    """Means and (co)variances of 4,000 rows within 5.5 standard errors: false alarms below 1e-6 a cell."""
    monkeypatch.setattr(module, "_MOST_DRAWS", most_draws)
    counts, times = np.array([50, 0, 10, 200, 40, 1]), 4000
    rows = resample(counts, times, entropy=DeterministicEntropy(1))
    n, p = counts.sum(), counts / counts.sum()
    assert (rows.sum(axis=1) == n).all()
    assert not rows[:, 1].any()
    spread = n * (np.diag(p) - np.outer(p, p))
    assert (np.abs(rows.mean(axis=0) - counts) <= 5.5 * np.sqrt(np.diag(spread) / times)).all()
    error = np.sqrt((np.outer(np.diag(spread), np.diag(spread)) + spread**2) / times)
    assert (np.abs(np.cov(rows.T) - spread) <= 5.5 * error + 0.15).all()


def test_the_work_of_halving_does_not_grow_with_reports():
    rows = resample([10**12, 3 * 10**12, 0, 7], 50, entropy=DeterministicEntropy(1))
    assert (rows.sum(axis=1) == 4 * 10**12 + 7).all()
    assert rows[:, 0].std() == pytest.approx(np.sqrt(0.75e12), rel=0.5)


@pytest.mark.parametrize("simultaneous", [True, False])
def test_intervals_cover(simultaneous):
    """60 surveys: the intended 90 % is missed in at most 20 of them (probability of more: below 1e-6 at 90 %)."""
    rng, entropy, missed = np.random.default_rng(2), DeterministicEntropy(3), 0
    for _ in range(60):
        counts = rng.multinomial(4000, FLAT.forward(TRUTH))
        found = bootstrap(
            FLAT,
            counts,
            confidence="0.9",
            method="inversion",
            replicates=60,
            simultaneous=simultaneous,
            entropy=entropy,
        )
        inside = (found.low <= TRUTH) & (found.high >= TRUTH)
        missed += not (inside.all() if simultaneous else inside[0])
    assert missed <= 20


def test_intervals_are_not_wider_than_needed():
    """Against the known standard deviation of one inverted share; 30 % wider or narrower fails."""
    counts = np.round(FLAT.forward(TRUTH) * 100_000).astype(int)
    q = counts / counts.sum()
    sd = np.sqrt(q * (1 - q) / counts.sum()) / 0.375
    apart = bootstrap(
        FLAT,
        counts,
        confidence="0.95",
        method="inversion",
        replicates=400,
        simultaneous=False,
        entropy=DeterministicEntropy(5),
    )
    assert ((apart.high - apart.low) / (2 * 1.96 * sd)) == pytest.approx(1, abs=0.25)
    together = bootstrap(
        FLAT, counts, confidence="0.95", method="inversion", replicates=400, entropy=DeterministicEntropy(5)
    )
    assert (together.high - together.low > apart.high - apart.low).all()
    assert ((together.high - together.low) / (2 * 2.57 * sd)) == pytest.approx(1, abs=0.3)  # five values together


def test_every_method_and_a_function():
    counts = np.round(FLAT.forward(TRUTH) * 20_000).astype(int)
    for method in ("ibu", "inversion", "clip", "project", lambda rows: rows / rows.sum(axis=1, keepdims=True)):
        found = bootstrap(FLAT, counts, confidence="0.9", method=method, replicates=30, entropy=DeterministicEntropy(1))
        assert (found.low <= found.shares).all()
        assert (found.shares <= found.high).all()
        if not callable(method):
            assert np.abs(found.shares - TRUTH).max() < 0.01
    assert found.confidence == module.Fraction(9, 10)


def test_a_grid_in_parts(monkeypatch):
    monkeypatch.setattr(module, "_MOST_CELLS", 500)
    model = ConvolutionModel(np.ones((3, 3)) / 9, shape=(6, 6), border="outside")
    counts = np.random.default_rng(0).integers(0, 20, model.outputs)
    found = bootstrap(model, counts, confidence="0.9", replicates=40, iterations=5, entropy=DeterministicEntropy(1))
    assert found.low.shape == (36,)
    assert found.replicates == 40


def test_a_value_that_nobody_told_may_yet_be_had_by_some():
    """Without noise, none of 100 tells of at most about 3 in 100; one report alone tells nearly nothing."""
    model = DenseModel([[1.0, 0.0], [0.0, 1.0]])
    found = bootstrap(model, [100, 0], confidence="0.9", method="inversion", replicates=200)
    assert 0.005 < found.high[1] < 0.06
    alone = bootstrap(FLAT, [1, 0, 0, 0, 0], confidence="0.9", iterations=5)
    assert (alone.high - alone.low > 0.5).all()


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("simultaneous", [True, False])
def test_intervals_of_ibu_hold_shares_that_are_zero_and_nearly_zero(simultaneous):
    """60 surveys at 90 %, each value by itself or all together: at most 20 missed (probability of more: below 1e-6).

    Replicates alone miss the zeros in most of them.
    """
    rng, entropy, missed = np.random.default_rng(4), DeterministicEntropy(5), np.zeros(5)
    truth = np.array([0.6, 0.385, 0.015, 0, 0])
    for _ in range(60):
        counts = rng.multinomial(4000, FLAT.forward(truth))
        found = bootstrap(FLAT, counts, confidence="0.9", replicates=60, simultaneous=simultaneous, entropy=entropy)
        assert found.covers == "truth"
        outside = (found.low > truth) | (found.high < truth)
        missed += outside.any() if simultaneous else outside
    assert missed.max() <= 20


def test_what_limits_cover_is_said():
    counts = [400, 250, 150, 120, 80]
    told = {m: bootstrap(FLAT, counts, confidence="0.9", method=m, replicates=20).covers for m in ("clip", "inversion")}
    assert told == {"clip": "noise", "inversion": "truth"}
    blind = DenseModel(np.full((3, 3), 1 / 3))
    assert bootstrap(blind, [5, 5, 5], confidence="0.9", replicates=20).covers == "noise"
    line = ConvolutionModel([0.25, 0.5, 0.25], shape=(4,), border="clamp")
    assert bootstrap(line, [9, 9, 9, 9], confidence="0.9", replicates=20).covers == "noise"


def test_bad_input():
    with pytest.raises(InvalidParameter, match="method"):
        bootstrap(FLAT, [1] * 5, confidence="0.9", method="magic")
    with pytest.raises(InvalidParameter, match="at least 1000"):
        bootstrap(FLAT, [1] * 5, confidence="0.999")
    with pytest.raises(InvalidParameter, match="replicates"):
        bootstrap(FLAT, [1] * 5, confidence="0.9", replicates=3)
    with pytest.raises(InvalidParameter, match="confidence"):
        bootstrap(FLAT, [1] * 5, confidence=1)
    for counts in ([0] * 5, [1, 2], [-1, 1, 1, 1, 1], [float("nan")] * 5):
        with pytest.raises(InvalidData, match="counts"):
            bootstrap(FLAT, counts, confidence="0.9")
    for counts in ([], [0], [-1, 3], [[1]]):
        with pytest.raises(InvalidData, match="counts"):
            resample(counts, 3)
