"""Inversion: exact where the channel is, unbiased everywhere, and honest where it cannot be done."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.errors import InvalidChannel, InvalidData
from discreet.local.estimation.inversion import clip, invert, invert_batch, project
from discreet.local.estimation.linear_maps import ConvolutionModel, DenseModel, KRRModel, dense
from discreet.mechanisms import KRR
from discreet.mechanisms.channel import Channel

F = Fraction
MANY = 10**12


def reports(model, shares):
    """Counts of so many reports that rounding them does not matter."""
    return np.round(np.maximum(model.forward(shares), 0) * MANY).astype(np.int64)


def shares_of(size, seed=0):
    return np.random.default_rng(seed).dirichlet(np.ones(size))


rows = st.lists(st.integers(0, 20), min_size=3, max_size=3).filter(any)


@given(st.lists(rows, min_size=3, max_size=3), st.lists(st.integers(0, 9), min_size=3, max_size=3).filter(any))
def test_exact_inversion_undoes_the_channel_exactly(matrix, weights):
    channel = Channel([[F(v) for v in row] for row in matrix], normalize=True)
    truth = [F(w, sum(weights)) for w in weights]
    seen = [sum(truth[x] * channel.matrix[x, y] for x in range(3)) for y in range(3)]
    if round(np.linalg.det(np.array(matrix))) == 0:
        with pytest.raises(InvalidChannel, match="cannot be inverted"):
            invert(channel, seen)
    else:
        assert invert(channel, seen).tolist() == truth


def test_more_outputs_than_inputs_exactly_and_in_floats():
    channel = Channel([["1/2", "1/4", "1/4"], ["1/8", "1/8", "3/4"]])
    truth = [F(1, 3), F(2, 3)]
    seen = [sum(truth[x] * channel.matrix[x, y] for x in range(2)) for y in range(3)]
    assert invert(channel, seen).tolist() == truth
    model = DenseModel(channel)
    assert invert(model, reports(model, [1 / 3, 2 / 3])) == pytest.approx([1 / 3, 2 / 3], abs=1e-10)


def test_flat_channels_in_closed_form():
    mechanism = KRR(epsilon=1, size=7)
    counts = np.array([5, 90, 3, 0, 17, 2, 8])
    exact = invert(mechanism.channel(), counts)
    flat = KRRModel(truth=mechanism.truth, other=mechanism.other, size=7)
    assert all(isinstance(share, Fraction) for share in exact)
    assert sum(exact) == 1
    assert np.abs(invert(flat, counts) - exact.astype(float)).max() < 1e-10
    assert np.abs(invert(DenseModel(mechanism.channel()), counts) - exact.astype(float)).max() < 1e-10
    assert np.abs(invert(mechanism.channel().as_float(), counts) - exact.astype(float)).max() < 1e-10


@pytest.mark.parametrize("axes", [1, 2])
@pytest.mark.parametrize("border", ["outside", "clamp", "remap"])
def test_convolutions_and_their_matrices_invert_alike(border, axes):
    kernel = np.random.default_rng(3).random((5, 3)[:axes])
    kernel[(2, 1)[:axes]] += 3  # far from singular
    kernel /= kernel.sum()
    model = ConvolutionModel(kernel, shape=(6, 7)[:axes], border=border)
    truth = shares_of(model.size)
    counts = reports(model, truth)
    assert np.abs(invert(model, counts) - truth).max() < 1e-9
    assert np.abs(invert(DenseModel(dense(model)), counts) - truth).max() < 1e-9
    noisy = np.stack([counts, counts[::-1]])
    assert invert_batch(model, noisy.astype(float)).shape == (2, model.size)


def test_a_window_that_loses_reports_is_inverted_by_least_squares():
    kernel = np.array([0.1, 0.1, 0.5, 0.2, 0.1])
    model = ConvolutionModel(kernel, shape=(6,), border="outside", margin=1)
    assert model.beyond
    truth = shares_of(6)
    assert np.abs(invert(model, reports(model, truth)) - truth).max() < 1e-9


@pytest.mark.parametrize(
    "channel",
    [
        Channel([["1/2", "1/2"], ["1/2", "1/2"]]),
        Channel([["1/3", "2/3", 0], ["1/3", "2/3", 0], [0, 0, 1]]),
        Channel([["1"], ["1"]]),
        DenseModel([[0.5, 0.5], [0.5, 0.5]]),
        DenseModel([[0.5, 0.5], [0.5 + 1e-14, 0.5 - 1e-14]]),
        DenseModel([[1.0], [1.0]]),
        KRRModel(truth="1/3", other="1/3", size=3),
        ConvolutionModel(np.ones((1, 99)) / 99, shape=(1, 3), border="clamp"),
    ],
    ids=range(8),
)
def test_singular_and_ill_conditioned_channels_are_refused(channel):
    outputs = len(channel.outputs) if isinstance(channel, Channel) else channel.outputs
    with pytest.raises(InvalidChannel, match="use `ibu`"):
        invert(channel, [1] * outputs)


def test_a_kernel_whose_transform_has_a_zero():
    """It is 0 at half a turn, so the division fails on an even window; on a line the convolution can be undone."""
    model = ConvolutionModel([0.25, 0.5, 0.25], shape=(8,), border="outside")
    truth = shares_of(8)
    assert np.abs(invert(model, reports(model, truth)) - truth).max() < 1e-9


def test_too_large_to_invert():
    kernel = np.ones((3, 3)) / 9
    with pytest.raises(InvalidChannel, match="too many to invert"):
        invert(ConvolutionModel(kernel, shape=(60, 60), border="clamp"), np.ones((60, 60), int))


COIN = Channel([["3/4", "1/4"], ["1/4", "3/4"]])


@pytest.mark.parametrize("channel", [COIN, COIN.as_float(), KRRModel(truth="3/4", other="1/4", size=2)], ids=range(3))
@pytest.mark.parametrize(
    "counts", [[0, 0], [1, -1], [float("nan"), 1], [1, 2, 3], [[1, 2]], ["a", "b"], [True, False], 5]
)
def test_bad_counts_are_refused(channel, counts):
    with pytest.raises(InvalidData, match="counts"):
        invert(channel, counts)


def test_one_input():
    assert invert(Channel([[1]]), [5]).tolist() == [1]
    assert invert(KRRModel(truth=1, other=0, size=1), [5]).tolist() == [1.0]


# Repairs


@given(st.lists(st.fractions(-3, 3, max_denominator=50), min_size=1, max_size=8))
def test_projection_is_the_nearest_distribution(shares):
    near = project(shares)
    assert sum(near) == 1
    assert min(near) >= 0
    # Optimality: the residual share − near is largest, and equal, where near is positive.
    residuals = [s - n for s, n in zip(shares, near, strict=True)]
    positive = {r for r, n in zip(residuals, near, strict=True) if n > 0}
    assert len(positive) == 1
    assert all(r <= max(positive) for r in residuals)
    in_floats = project([float(s) for s in shares])
    assert np.abs(in_floats - near.astype(float)).max() < 1e-10


@given(st.lists(st.fractions(-3, 3, max_denominator=50), min_size=1, max_size=8))
def test_clipping_keeps_ratios(shares):
    kept = clip(shares)
    assert sum(kept) == 1
    positive = sum(max(s, F(0)) for s in shares)
    if positive:
        assert [k * positive for k in kept] == [max(s, F(0)) for s in shares]
    assert np.abs(clip([float(s) for s in shares]) - kept.astype(float)).max() < 1e-10


@pytest.mark.parametrize("repair", [clip, project])
@pytest.mark.parametrize("shares", [[], [float("nan")], ["a"]])
def test_repairs_refuse_what_is_no_number(repair, shares):
    with pytest.raises(InvalidData, match="shares"):
        repair(shares)
