"""IBU: monotone, the known maximum, the same by every model, fast, and stopped without looking at the truth."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.errors import InvalidData, InvalidInput, InvalidParameter
from discreet.local.collection.collector import estimate
from discreet.local.collection.survey import Survey
from discreet.local.estimation.ibu import binomial, ibu, ibu_batch, inverse_binomial, thin
from discreet.local.estimation.linear_maps import ConvolutionModel, DenseModel, KRRModel, dense
from discreet.local.oracles.hashing import HashingModel, OptimizedHashing
from discreet.local.oracles.responses import HadamardModel, HadamardResponse
from discreet.mechanisms import KRR
from discreet.noise import DeterministicEntropy

COIN = DenseModel([[0.75, 0.25], [0.25, 0.75]])
WAYS = [{"accelerate": False}, {"memory": 0}, {"memory": 2}, {"memory": 5}]


def laplace_kernel(scale, reach):
    steps = np.arange(-reach, reach + 1)
    kernel = np.exp(-np.hypot(steps[:, None], steps) / scale)
    return kernel / kernel.sum()


def hills(side, seed=0):
    """A population on a square: a few towns of different sizes."""
    rng = np.random.default_rng(seed)
    i, j = np.indices((side, side)) / side
    land = sum(w * np.exp(-((i - a) ** 2 + (j - b) ** 2) / 2 / s**2) for a, b, s, w in rng.random((6, 4)) * 0.5 + 0.05)
    return (land / land.sum()).ravel()


def grid_case(side, *, scale=5.0, people=20_000, border="clamp", seed=0):
    margin = side // 2 if border == "outside" else None
    model = ConvolutionModel(laplace_kernel(scale, int(14 * scale)), shape=(side, side), border=border, margin=margin)
    truth = hills(side, seed)
    chance = np.maximum(model.forward(truth), 0)
    return model, truth, np.random.default_rng(seed).multinomial(people, chance / chance.sum())


@st.composite
def channels(draw):
    rows, columns = draw(st.integers(1, 5)), draw(st.integers(1, 6))
    matrix = np.array([[draw(st.integers(0, 9)) for _ in range(columns)] for _ in range(rows)], float) + 1e-3
    counts = [draw(st.integers(0, 50)) for _ in range(columns)]
    return DenseModel(matrix / matrix.sum(axis=1, keepdims=True)), np.array(counts) + (np.arange(columns) == 0)


@given(channels(), st.sampled_from(WAYS))
def test_the_likelihood_never_falls_whatever_the_channel(case, way):
    model, counts = case
    result = ibu(model, counts, iterations=40, stop=None, **way)
    assert (np.diff(result.likelihoods) >= 0).all()
    assert result.shares.sum() == pytest.approx(1)
    assert result.shares.min() >= 0
    seen = result.shares @ model.matrix
    assert result.likelihoods[-1] == pytest.approx((counts * np.log(np.where(counts, seen, 1))).sum(), abs=1e-6)


@given(channels())
@settings(max_examples=40)
def test_a_plain_iteration_is_the_formula(case):
    model, counts = case
    q, p = counts / counts.sum(), np.full(model.size, 1 / model.size)
    expected = np.array(
        [
            sum(q[y] * p[x] * model.matrix[x, y] / (p @ model.matrix[:, y]) for y in range(model.outputs))
            for x in range(model.size)
        ]
    )
    result = ibu(model, counts, iterations=1, stop=None, accelerate=False)
    assert np.abs(result.shares - expected).max() < 1e-10


@pytest.mark.slow
@given(channels())
@settings(max_examples=25)
def test_acceleration_is_never_behind_and_ends_at_the_maximum(case):
    """At a maximum Σ_y C_xy·q_y/seen_y ≤ 1 for all x (Karush–Kuhn–Tucker); n times the excess bounds what is missing."""
    model, counts = case
    result = ibu(model, counts, iterations=1000, stop="gain", tolerance="1e-13")
    plain = ibu(model, counts, iterations=300, stop=None, accelerate=False)
    assert result.likelihoods[-1] >= plain.likelihoods[-1] - 1e-6 * abs(plain.likelihoods[-1])
    excess = model.backward(counts / counts.sum() / (result.shares @ model.matrix)).max() - 1
    assert counts.sum() * excess < 0.5


@pytest.mark.parametrize("way", WAYS)
def test_dense_closed_and_fft_forms_agree(way):
    response = KRR(epsilon=1, size=12)
    counts = np.array([50, 3, 8, 90, 20, 0, 31, 4, 7, 60, 2, 25])
    flat = KRRModel(truth=response.truth, other=response.other, size=12)
    for a, b in ((flat, DenseModel(response.channel())),):
        first, second = (ibu(m, counts, iterations=6, stop=None, **way) for m in (a, b))
        assert np.abs(first.shares - second.shares).max() < 1e-10
    for border in ("outside", "clamp"):
        model, _, counts = grid_case(8, scale=2.0, border=border)
        first, second = (ibu(m, counts, iterations=6, stop=None, **way) for m in (model, DenseModel(dense(model))))
        assert np.abs(first.shares - second.shares).max() < 1e-10


def test_an_asymmetric_channel_is_undone_the_right_way():
    """Wind from the west: with C instead of its transpose the estimate would move further east."""
    wind = np.zeros((1, 9))
    wind[0, 4:] = [0.2, 0.2, 0.2, 0.2, 0.2]
    model = ConvolutionModel(wind, shape=(1, 20), border="outside")
    truth = np.zeros(20)
    truth[3], truth[11] = 0.7, 0.3
    counts = np.round(np.maximum(model.forward(truth), 0) * 1e6).astype(int)
    found = ibu(model, counts, iterations=400, stop=None).shares
    assert np.abs(found - truth).max() < 0.01


@pytest.mark.parametrize(("scale", "maps"), [(1.5, 37), (4.0, 25), (14.4, 25)])
@pytest.mark.parametrize("border", ["outside", "clamp"])
def test_the_likelihood_of_500_plain_iterations_after_few_maps(border, scale, maps):
    model, _, counts = grid_case(30, scale=scale, border=border)
    plain = ibu(model, counts, iterations=500, stop=None, accelerate=False)
    fast = ibu(model, counts, iterations=(2 * maps - 1) // 3, stop=None)
    assert plain.evaluations == pytest.approx(500.5)
    assert fast.evaluations <= maps
    assert fast.likelihoods[-1] >= plain.likelihoods[-1]


def test_stopping_by_gain_and_by_number():
    result = ibu(COIN, [60, 40], stop="gain", tolerance="1e-12")
    assert result.stopped_by == "gain"
    assert result.iterations < 500
    assert ibu(COIN, [60, 40], stop=None, iterations=7).iterations == 7
    assert ibu(COIN, [60, 40], stop="gain", iterations=1, tolerance=0).stopped_by == "iterations"
    nothing = ibu(COIN, [60, 40], stop=None, iterations=0)
    assert nothing.shares.tolist() == [0.5, 0.5]


def test_held_out_reports_stop_before_overfitting():
    """The estimate is nearer to the truth than that of many iterations, and the rule never saw the truth."""
    model, truth, counts = grid_case(20, scale=1.5, people=3000)
    for way in ({"accelerate": False}, {"memory": 0}):
        chosen = ibu(model, counts, iterations=2000, entropy=DeterministicEntropy(1), **way)
        many = ibu(model, counts, iterations=2000, stop=None, **way)
        assert chosen.stopped_by == "held-out"
        assert 1 < chosen.iterations < 500
        assert np.abs(chosen.shares - truth).sum() < 0.7 * np.abs(many.shares - truth).sum()
    again = ibu(model, counts, iterations=2000, entropy=DeterministicEntropy(1), memory=0)
    assert np.array_equal(again.shares, chosen.shares)


def test_held_out_goes_on_where_there_is_nothing_to_overfit():
    result = ibu(COIN, [600_000, 400_000], iterations=60, entropy=DeterministicEntropy(2))
    assert result.shares == pytest.approx([0.7, 0.3], abs=5e-3)
    with pytest.raises(InvalidData, match="too few to hold some out"):
        ibu(COIN, [5, 4])


def test_progress_is_told():
    told = []
    result = ibu(COIN, [60, 40], stop=None, iterations=3, progress=lambda k, value: told.append((k, value)))
    assert told == list(enumerate(result.likelihoods.tolist()))[1:]


def test_impossible_reports_are_left_out_and_counted():
    model = DenseModel([[0.8, 0.2, 0.0], [0.2, 0.8, 0.0]])
    clean, dirty = (ibu(model, counts, stop=None, iterations=50) for counts in ([50, 50, 0], [50, 50, 9]))
    assert (clean.impossible, dirty.impossible) == (0, 9)
    assert np.array_equal(clean.shares, dirty.shares)
    with pytest.raises(InvalidData, match="every report is impossible"):
        ibu(model, [0, 0, 4])


def test_far_outliers_do_not_break_an_fft_estimate():
    """Reports whose probability is below the rounding of an FFT are treated as impossible, not as evidence."""
    model = ConvolutionModel(laplace_kernel(1.0, 60), shape=(20, 20), border="outside")
    truth = hills(20)
    seen = np.maximum(model.forward(truth), 0)
    counts = np.random.default_rng(0).multinomial(10_000, seen / seen.sum())
    clean = ibu(model, counts, iterations=30, stop=None)
    spoiled = counts.copy()
    spoiled[0] += 3  # the corner of the window, 60 steps away on each axis
    dirty = ibu(model, spoiled, iterations=30, stop=None)
    assert dirty.impossible == 3
    assert np.abs(dirty.shares - clean.shares).max() < 1e-9


def test_start():
    fixed = ibu(COIN, [60, 40], start=[3, 0], stop=None, iterations=5)
    assert fixed.shares.tolist() == [1, 0]  # zeros stay
    assert ibu(COIN, [60, 40], start=[9, 1], stop="gain", tolerance="1e-14").shares == pytest.approx(
        [0.7, 0.3], abs=1e-5
    )
    for start in ([1, 2, 3], [0, 0], [1, float("nan")], [2, -1]):
        with pytest.raises(InvalidData, match="start"):
            ibu(COIN, [60, 40], start=start)


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ([0, 0], "all are zero"),
        ([1, -1], "negative"),
        ([1, float("nan")], "NaN"),
        ([1, float("inf")], "infinite"),
        ([1, 0.5], "fractional"),
        ([1, 2, 3], "shape"),
        ([[1, 2]], "shape"),
        (3, "shape"),
        ([1, [2]], "regular"),
        (["a", "b"], "expected numbers"),
        ([True, False], "bool"),
        ([1e300, 1], "2\\^53"),
    ],
)
def test_bad_counts(counts, message):
    with pytest.raises(InvalidData, match=message):
        ibu(COIN, counts)


@pytest.mark.parametrize(
    "setting",
    [
        {"iterations": -1},
        {"iterations": 2.5},
        {"stop": "soon"},
        {"tolerance": -1},
        {"accelerate": "yes"},
        {"memory": -1},
        {"memory": 17},
    ],
)
def test_bad_settings(setting):
    with pytest.raises(InvalidParameter):
        ibu(COIN, [60, 40], **setting)


def test_one_cell_and_one_report():
    assert ibu(DenseModel([[0.3, 0.7]]), [1, 0], stop=None).shares.tolist() == [1.0]
    one = ConvolutionModel([[1.0]], shape=(1, 1), border="clamp")
    assert ibu(one, [[7]], stop=None).shares.tolist() == [1.0]
    assert ibu(COIN, [1, 0], stop=None).shares == pytest.approx([1, 0], abs=1e-6)


def test_counts_may_have_the_shape_of_the_window():
    model, _, counts = grid_case(6, scale=1.0, border="outside")
    kernel = np.array(model.kernel)
    whole = ConvolutionModel(kernel, shape=(6, 6), border="outside")
    grid = np.zeros(whole.window, int)
    grid[14:20, 14:20] = 5
    assert np.array_equal(
        ibu(whole, grid, stop=None, iterations=3).shares, ibu(whole, grid.ravel(), stop=None, iterations=3).shares
    )
    with pytest.raises(InvalidData, match="shape"):
        ibu(whole, grid[:-1])


def test_batches_are_many_single_runs():
    rng = np.random.default_rng(5)
    model = DenseModel(rng.dirichlet(np.ones(6), size=4))
    rows = rng.integers(0, 30, (5, 6))
    rows[:, 2] = [0, 3, 0, 1, 0]
    for way in WAYS:
        together = ibu_batch(model, rows, iterations=20, **way)
        for row, shares in zip(rows, together, strict=True):
            alone = ibu(model, row, iterations=20, stop=None, **way)
            seen = shares @ model.matrix
            assert (row * np.log(seen)).sum() == pytest.approx(alone.likelihoods[-1], abs=1e-2)
            if way == {"accelerate": False}:
                assert np.abs(alone.shares - shares).max() < 1e-10
    for bad in ([[1, 2]], [[0] * 6], [[-1, 1, 1, 1, 1, 1]], [1] * 6):
        with pytest.raises(InvalidInput):
            ibu_batch(model, bad, iterations=1)


# Thinning


def test_thinning_splits_every_report_once():
    counts = np.array([0, 1, 50, 100_000])
    parts = thin(counts, 5, entropy=DeterministicEntropy(3))
    assert parts.sum(axis=0).tolist() == counts.tolist()
    assert parts.min() >= 0
    assert np.abs(parts[:, 3] - 20_000).max() < 5 * np.sqrt(16_000)
    assert len(set(parts[:, 3].tolist())) > 1


@pytest.mark.parametrize("p", [0.02, 0.2, 0.5])
@pytest.mark.parametrize("trials", [40, 200_000])
def test_inverted_binomial_numbers_have_the_right_distribution(p, trials):
    """Mean and variance of 20,000 draws within 5.5 standard errors: false alarms below 1e-6; 30 % is far outside."""
    n = 20_000
    for drawn in (
        inverse_binomial(np.full(n, trials), np.full(n, p), entropy=DeterministicEntropy(trials)),
        binomial(np.full(n, 40), p, entropy=DeterministicEntropy(4)),
    ):
        size = trials if drawn.max() > 40 else 40
        variance = size * p * (1 - p)
        assert abs(drawn.mean() - size * p) < 5.5 * np.sqrt(variance / n)
        assert abs(drawn.var() / variance - 1) < 5.5 * np.sqrt((2 + 1 / variance) / n)


def test_what_is_not_counts_or_shares_is_refused_by_name():
    coin = KRRModel(truth="3/4", other="1/4", size=2)
    for start in (["a", 1], [[1], [2, 3]], {}):
        with pytest.raises(InvalidData, match="start"):
            ibu(coin, [10, 10], start=start, stop=None)
    for rows in ([["a", "b"]], [[1.5, 2.5]], [[-1, 3]], [[1], [2, 3]], [[float("nan"), 1]]):
        with pytest.raises(InvalidData, match="counts"):
            ibu_batch(coin, rows, iterations=1)
    for counts in ([-1, 3], [[1, 2]], ["a"], [0.5]):
        with pytest.raises(InvalidData, match="counts"):
            thin(counts, 3)


@pytest.mark.parametrize(("size", "hashes"), [(7, 3), (10, 2), (20, 4), (9, 5)])
def test_the_model_of_hashing_is_its_channel(size, hashes):
    oracle = OptimizedHashing(epsilon=1, size=size, hashes=hashes)
    matrix = np.asarray(oracle.channel().as_float().matrix)
    chance = np.random.default_rng(1)
    shares, weights = chance.dirichlet(np.ones(size), 3), chance.normal(size=(2, matrix.shape[1]))
    model = HashingModel(oracle)
    assert model.forward(shares) == pytest.approx(shares @ matrix, rel=1e-9)
    assert model.backward(weights) == pytest.approx(weights @ matrix.T, rel=1e-9)


@pytest.mark.parametrize(("size", "blocks"), [(2, 1), (7, 1), (10, 2), (20, 4), (8, 8)])
def test_the_model_of_hadamard_is_its_channel(size, blocks):
    oracle = HadamardResponse(epsilon=2, size=size, blocks=blocks)
    matrix = np.asarray(oracle.channel().as_float().matrix)
    chance = np.random.default_rng(1)
    shares, weights = chance.dirichlet(np.ones(size), 3), chance.normal(size=(2, matrix.shape[1]))
    model = HadamardModel(oracle)
    assert model.forward(shares) == pytest.approx(shares @ matrix, rel=1e-9)
    assert model.backward(weights) == pytest.approx(weights @ matrix.T, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(("randomizer", "size"), [("optimized hashing", 300), ("hadamard", 1500)])
def test_ibu_of_many_answers(randomizer, size):
    """The channel has more than a million entries, which was refused; the likeliest shares are close to the true ones."""
    asked = Survey(name="words", version=1, question="Which?", domain=[f"w{n}" for n in range(size)],
                   randomizer=randomizer, epsilon=3, times=1)  # fmt: skip
    oracle = asked.oracle()
    values = np.repeat([0, 1, 2], [10_000, 6_000, 4_000])
    tally = oracle.tally(oracle.randomize(values, entropy=DeterministicEntropy(3)))
    found = estimate(asked, tally, reports=20_000, confidence=None, method="ibu")
    assert found.shares.sum() == pytest.approx(1)
    assert found.shares[:3] == pytest.approx([0.5, 0.3, 0.2], abs=0.04)
