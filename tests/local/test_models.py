"""Models: dense, closed and FFT forms are the same channel; backward is the transpose; bad input is refused."""

from fractions import Fraction
from math import ceil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.errors import InvalidChannel, InvalidData, InvalidInput, InvalidParameter
from discreet.local.estimation.linear_maps import ChannelModel, ConvolutionModel, DenseModel, KRRModel, dense
from discreet.mechanisms import KRR, PlanarLaplace
from discreet.mechanisms.channel import Channel

CLOSE = 1e-10


def cell_by_cell(kernel, shape, border, margin):
    """The definition: every displacement of every cell, one at a time; the last column is what fell off the window."""
    rows = []
    reach = [n // 2 for n in kernel.shape]
    window = tuple(n + 2 * m for n, m in zip(shape, margin, strict=True))
    for x in np.ndindex(shape):
        row, lost = np.zeros(window), 1 - kernel.sum()
        for d in np.ndindex(kernel.shape):
            y = [xi + di - r for xi, di, r in zip(x, d, reach, strict=True)]
            if border == "clamp":
                y = [min(max(yi, 0), n - 1) for yi, n in zip(y, shape, strict=True)]
            place = tuple(yi + m for yi, m in zip(y, margin, strict=True))
            if all(0 <= p < w for p, w in zip(place, window, strict=True)):
                row[place] += kernel[d]
            else:
                lost += kernel[d]
        if border == "remap":
            row, lost = row + lost / row.size, 0.0
        rows.append([*row.ravel(), lost])
    return np.array(rows)


def random_kernel(seed, shape, total=1.0):
    kernel = np.random.default_rng(seed).random(shape)
    return kernel / kernel.sum() * total


@st.composite
def convolutions(draw):
    axes = draw(st.integers(1, 2))
    shape = tuple(draw(st.integers(1, 7)) for _ in range(axes))
    kernel = tuple(2 * draw(st.integers(0, 5)) + 1 for _ in range(axes))
    border = draw(st.sampled_from(["outside", "clamp", "remap"]))
    margin = draw(st.one_of(st.none(), st.tuples(*[st.integers(0, 6)] * axes))) if border == "outside" else None
    total = 1.0 if border == "clamp" else draw(st.sampled_from([1.0, 0.8]))
    return random_kernel(draw(st.integers(0, 999)), kernel, total), shape, border, margin


@given(convolutions())
def test_the_fft_is_the_definition_and_backward_its_transpose(case):
    kernel, shape, border, margin = case
    model = ConvolutionModel(kernel, shape=shape, border=border, margin=margin)
    matrix = cell_by_cell(kernel, shape, border, model.margin)
    assert np.abs(matrix[:, model.outputs :]).max(initial=0) < CLOSE  # nothing is lost that has no output
    matrix = matrix[:, : model.outputs]
    assert np.abs(dense(model) - matrix).max() < CLOSE
    assert np.abs(model.backward(np.eye(model.outputs)).T - matrix).max() < CLOSE
    assert np.abs(dense(model).sum(axis=1) - 1).max() < CLOSE


@pytest.mark.parametrize(
    "model",
    [
        DenseModel(np.array([[0.5, 0.5, 0.0], [0.1, 0.2, 0.7]])),
        KRRModel(truth="1/2", other="1/8", size=5),
        ConvolutionModel(random_kernel(1, (5, 9)), shape=(12, 7), border="outside"),
        ConvolutionModel(random_kernel(2, (31, 9)), shape=(12, 7), border="outside", margin=(3, 0)),
        ConvolutionModel(random_kernel(3, (31, 9)), shape=(12, 7), border="clamp"),
        ConvolutionModel(random_kernel(4, (3, 99)), shape=(12, 7), border="remap"),
        ConvolutionModel(random_kernel(5, 41), shape=(16,), border="clamp"),
    ],
    ids=lambda model: type(model).__name__ + getattr(model, "border", ""),
)
def test_adjointness(model):
    """<Ax, y> = <x, Aᵀy>, for vectors of any sign and in batches."""
    rng = np.random.default_rng(7)
    x, y = rng.normal(size=(3, 2, model.size)), rng.normal(size=(3, 2, model.outputs))
    assert isinstance(model, ChannelModel)
    assert model.forward(x).shape == y.shape
    assert np.abs((model.forward(x) * y).sum(-1) - (x * model.backward(y)).sum(-1)).max() < CLOSE
    assert np.abs(model.forward(x)[1, 0] - model.forward(x[1, 0])).max() < CLOSE
    with pytest.raises(InvalidData, match="last axis"):
        model.forward(np.ones(model.size + 1))
    with pytest.raises(InvalidData, match="last axis"):
        model.backward(1.0)


def test_an_asymmetric_channel_goes_back_by_the_transpose():
    wind = ConvolutionModel([0.0, 0.0, 1.0], shape=(4,), border="clamp")  # always one cell to the right
    assert wind.forward([1, 0, 0, 0]).round(12).tolist() == [0, 1, 0, 0]
    assert wind.backward([0, 1, 0, 0]).round(12).tolist() == [1, 0, 0, 0]
    matrix = DenseModel([[0.9, 0.1], [0.4, 0.6]])
    assert np.allclose(matrix.forward([1, 0]), [0.9, 0.1])
    assert np.allclose(matrix.backward([1, 0]), [0.9, 0.4])


def test_planar_laplace_clamped_is_the_mechanisms_channel():
    mechanism = PlanarLaplace(epsilon="0.7", unit="km", granularity="1/2")
    reach = ceil(45 * mechanism.scale) + 8
    steps = np.arange(-reach, reach + 1)
    kernel = np.exp(-np.hypot(steps[:, None], steps) / float(mechanism.scale))
    model = ConvolutionModel(kernel / kernel.sum(), shape=(6, 4), border="clamp")
    assert np.abs(dense(model) - mechanism.channel(6, 4).matrix).max() < CLOSE


@pytest.mark.parametrize("size", [2, 5, 40])
def test_flat_is_kary_response(size):
    mechanism = KRR(epsilon=1, size=size)
    flat = KRRModel(truth=mechanism.truth, other=mechanism.other, size=size)
    matrix = DenseModel(mechanism.channel())
    x = np.random.default_rng(0).random((4, size))
    assert np.abs(flat.forward(x) - matrix.forward(x)).max() < CLOSE
    assert np.abs(flat.backward(x) - matrix.backward(x)).max() < CLOSE
    assert np.abs(dense(flat) - matrix.matrix).max() < CLOSE


def test_one_cell():
    for border in ("clamp", "remap"):
        model = ConvolutionModel(random_kernel(0, (3, 3)), shape=(1, 1), border=border)
        assert model.outputs == 1
        assert model.forward([1.0]) == pytest.approx([1.0])
    assert KRRModel(truth=1, other=0, size=1).forward([1.0]).tolist() == [1.0]
    assert ConvolutionModel([1.0], shape=(1,), border="outside").outputs == 1


def test_what_falls_off_the_window_has_an_output_of_its_own():
    kernel = random_kernel(3, (5, 5), total=0.9)
    whole = ConvolutionModel(kernel, shape=(4, 4), border="outside")
    assert whole.window == (8, 8)
    assert whole.beyond
    assert whole.forward(np.full(16, 1 / 16))[-1] == pytest.approx(0.1)
    near = ConvolutionModel(kernel, shape=(4, 4), border="outside", margin=0)
    assert near.outputs == 17
    assert near.forward(np.full(16, 1 / 16))[-1] > 0.2
    assert not ConvolutionModel(kernel / 0.9, shape=(4, 4), border="outside").beyond


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[0.5, 0.4]], "row 0 sums to 0.9"),
        ([[1.5, -0.5]], "negative"),
        ([[float("nan"), 1.0]], "NaN"),
        ([[1.0], [0.5, 0.5]], "equally long rows"),
        ([1.0, 0.0], "shape"),
        (np.zeros((0, 2)), "shape"),
        ([["a", "b"]], "expected numbers"),
    ],
)
def test_a_matrix_that_is_no_channel(matrix, message):
    with pytest.raises(InvalidChannel, match=message):
        DenseModel(matrix)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kernel": [0.5, 0.5]}, "odd length"),
        ({"kernel": [0.2, float("nan"), 0.2]}, "NaN"),
        ({"kernel": [0.2, -0.1, 0.2]}, "negative"),
        ({"kernel": [0.9, 0.9, 0.9]}, "sums to 2.7"),
        ({"kernel": [0.0, 0.0, 0.0]}, "more than 0"),
        ({"kernel": [[0.1], [0.2, 0.3]]}, "regular array"),
        ({"kernel": [0.1, 0.2, 0.3], "border": "clamp"}, "cannot be clamped"),
        ({"kernel": [[1.0]]}, "as the shape has"),
        ({"border": "reflect"}, "'outside', 'clamp' or 'remap'"),
        ({"shape": (0,)}, "≥ 1"),
        ({"shape": 5}, "one or two numbers"),
        ({"shape": (2, 2, 2)}, "one or two numbers"),
        ({"margin": -1}, "≥ 0"),
        ({"margin": (1, 1)}, "one number"),
        ({"margin": 1, "border": "clamp"}, "keeps no cells"),
    ],
)
def test_a_convolution_that_is_none(arguments, message):
    known = {"kernel": [0.25, 0.5, 0.25], "shape": (5,), "border": "outside"}
    with pytest.raises(InvalidInput, match=message):
        ConvolutionModel(**{**known, **arguments})


def test_a_flat_channel_that_is_none():
    with pytest.raises(InvalidParameter, match="not 1"):
        KRRModel(truth="1/2", other="1/2", size=3)
    with pytest.raises(InvalidParameter, match="truth"):
        KRRModel(truth=2, other=0, size=3)
    with pytest.raises(InvalidParameter, match="size"):
        KRRModel(truth=1, other=0, size=0)


def test_a_matrix_too_large_to_write_down_is_refused():
    model = KRRModel(truth=Fraction(1, 2), other=Fraction(1, 2 * (10**5 - 1)), size=10**5)
    with pytest.raises(InvalidChannel, match="use `ibu`"):
        dense(model)
    assert dense(DenseModel(Channel([["1/2", "1/2"]]))).tolist() == [[0.5, 0.5]]
