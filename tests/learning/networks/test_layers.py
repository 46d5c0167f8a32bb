"""Every layer, against loops in float64, finite differences, a loop over examples, and other lots bit for bit."""

import math
from fractions import Fraction

import numpy as np
import pytest

from discreet.errors import InvalidParameter
from discreet.learning.networks.images import AvgPool2D, Conv2D, MaxPool2D, Windows
from discreet.learning.networks.layers import Dense, Flatten, GroupNorm, Relu, Tanh, TemperedSigmoid
from discreet.learning.networks.network import normal
from discreet.learning.sgd.clipping import Clip, clipped_sum, product
from discreet.learning.sgd.gradients import Outer, Rows

# --- What the layers should compute, for one example, by loops in float64


def pads(length: int, size: int, stride: int, padding: str) -> tuple[int, int]:
    """The places along an axis, and the zeros before: by trying, not by formula."""
    if padding == "valid":
        return sum(1 for start in range(0, length, stride) if start + size <= length), 0
    places = len(range(0, length, stride))
    return places, max(0, (places - 1) * stride + size - length) // 2


def windows(x, size, stride, padding, outside):
    """(row, column) → the window there, with `outside` beyond the image."""
    (rows, above), (columns, left) = (pads(x.shape[a], size[a], stride[a], padding) for a in (0, 1))
    found = {}
    for r in range(rows):
        for c in range(columns):
            window = np.full((*size, x.shape[2]), outside, np.float64)
            for i in range(size[0]):
                for j in range(size[1]):
                    y, z = r * stride[0] + i - above, c * stride[1] + j - left
                    if 0 <= y < x.shape[0] and 0 <= z < x.shape[1]:
                        window[i, j] = x[y, z]
            found[r, c] = window
    return rows, columns, found


def dense(p, x):
    return x @ p[0][:-1] + p[0][-1]


def convolved(size, stride, padding):
    def run(p, x):
        rows, columns, found = windows(x, size, stride, padding, 0.0)
        y = [[found[r, c].ravel() @ p[0][:-1] + p[0][-1] for c in range(columns)] for r in range(rows)]
        return np.array(y)

    return run


def pooled(size, stride, padding, largest):
    def run(p, x):
        rows, columns, found = windows(x, size, stride, padding, -np.inf if largest else 0.0)
        pick = (lambda w: w.max(axis=(0, 1))) if largest else (lambda w: w.mean(axis=(0, 1)))
        return np.array([[pick(found[r, c]) for c in range(columns)] for r in range(rows)])

    return run


def grouped(groups):
    def run(p, x):
        y = np.empty_like(x)
        for part in np.split(np.arange(x.shape[-1]), groups):
            values = x[..., part]
            y[..., part] = (values - values.mean()) / np.sqrt(values.var() + 1e-5)
        return y * p[0][0] + p[0][1]

    return run


def tempered(s, t, o):
    return lambda p, x: s / (1 + np.exp(-t * x)) - o


CASES = {
    "dense": (Dense(4), (5,), dense),
    "dense 1": (Dense(1), (1,), dense),
    "relu": (Relu(), (6,), lambda p, x: np.maximum(x, 0)),
    "tanh": (Tanh(), (2, 3, 1), lambda p, x: np.tanh(x)),
    "tempered": (TemperedSigmoid("1.6", 3, "0.7"), (6,), tempered(1.6, 3, 0.7)),
    "tempered tanh": (TemperedSigmoid(), (6,), lambda p, x: np.tanh(x)),
    "flatten": (Flatten(), (2, 3, 2), lambda p, x: x.reshape(-1)),
    "conv": (Conv2D(3, 2), (4, 5, 2), convolved((2, 2), (1, 1), "valid")),
    "conv stride": (Conv2D(2, (3, 2), (2, 3)), (7, 8, 2), convolved((3, 2), (2, 3), "valid")),
    "conv same": (Conv2D(2, 3, padding="same"), (4, 5, 1), convolved((3, 3), (1, 1), "same")),
    "conv same stride": (Conv2D(2, (4, 3), 2, "same"), (7, 6, 2), convolved((4, 3), (2, 2), "same")),
    "conv same far": (Conv2D(1, 1, 3, "same"), (7, 5, 2), convolved((1, 1), (3, 3), "same")),
    "conv one place": (Conv2D(3, (4, 3)), (4, 3, 2), convolved((4, 3), (1, 1), "valid")),
    "conv rest": (Conv2D(2, 2, 3), (6, 7, 1), convolved((2, 2), (3, 3), "valid")),
    "max": (MaxPool2D(2), (4, 6, 2), pooled((2, 2), (2, 2), "valid", True)),
    "max overlap": (MaxPool2D(2, 1), (4, 4, 2), pooled((2, 2), (1, 1), "valid", True)),
    "max same": (MaxPool2D(3, 2, "same"), (5, 6, 1), pooled((3, 3), (2, 2), "same", True)),
    "max rest": (MaxPool2D((2, 3)), (5, 7, 1), pooled((2, 3), (2, 3), "valid", True)),
    "mean": (AvgPool2D(2), (4, 6, 2), pooled((2, 2), (2, 2), "valid", False)),
    "mean overlap": (AvgPool2D(3, 1), (4, 5, 2), pooled((3, 3), (1, 1), "valid", False)),
    "mean same": (AvgPool2D((3, 2), (2, 2), "same"), (5, 6, 1), pooled((3, 2), (2, 2), "same", False)),
    "group 1": (GroupNorm(1), (3, 2, 4), grouped(1)),
    "group 2": (GroupNorm(2), (3, 2, 4), grouped(2)),
    "group all": (GroupNorm(3), (4, 4, 3), grouped(3)),
    "group flat": (GroupNorm(2), (6,), grouped(2)),
}
each = pytest.mark.parametrize("name", CASES)


def setup(name: str, n: int, seed: int = 1):
    """A layer, parameters that are not those it starts from, n examples and gradients at its output.

    Examples have values at least 0.02 apart and from zero, so that maxima and signs do not change under differences.
    """
    layer, shape, reference = CASES[name]
    rng = np.random.default_rng(seed)
    parameters = [p + rng.normal(size=p.shape).astype(np.float32) / 3 for p in layer.parameters(shape, normal(1))]
    size = math.prod(shape)
    x = np.stack(
        [rng.permutation(size).reshape(shape) * 0.06 - 0.03 * size + 0.03 for _ in range(n)] or [np.empty(shape)]
    )
    x = x[:n].astype(np.float32) + np.float32(0.001)
    dy = rng.normal(size=(n, *layer.output(shape))).astype(np.float32)
    return layer, shape, reference, parameters, x, dy


def backward(layer, parameters, x, dy, first=False):
    y, kept = layer.forward(parameters, x.copy())
    return y, *layer.backward(parameters, kept, dy.copy(), first=first)


@each
def test_forward_is_what_the_words_say(name):
    layer, shape, reference, parameters, x, _ = setup(name, 4)
    before = x.copy()
    y, _ = layer.forward(parameters, x.copy())
    assert y.dtype == np.float32
    assert y.shape == (4, *layer.output(shape))
    wide = [p.astype(np.float64) for p in parameters]
    for i in range(4):
        assert np.abs(y[i] - reference(wide, x[i].astype(np.float64))).max() < 3e-5
    assert (x == before).all(), "the input belongs to the caller"
    assert layer.count == len(parameters)


def difference(f, at, step=1e-6):
    """The gradient of f at an array, by central differences."""
    found = np.zeros_like(at)
    for place in np.ndindex(at.shape):
        up, down = at.copy(), at.copy()
        up[place] += step
        down[place] -= step
        found[place] = (f(up) - f(down)) / (2 * step)
    return found


@each
def test_gradients_are_those_of_finite_differences(name):
    layer, _, reference, parameters, x, dy = setup(name, 2)
    _, dx, gradients = backward(layer, parameters, x, dy)
    wide = [p.astype(np.float64) for p in parameters]
    for i in range(2):
        value = x[i].astype(np.float64)
        expected = difference(lambda v, i=i: float((reference(wide, v) * dy[i]).sum()), value)
        assert dx.dtype == np.float32
        assert np.abs(dx[i] - expected).max() < 1e-4
        for place, gradient in enumerate(gradients):

            def at(p, place=place, value=value, i=i):
                return float((reference([*wide[:place], p, *wide[place + 1 :]], value) * dy[i]).sum())

            assert gradient.shape == parameters[place].shape
            assert np.abs(gradient.formed()[i] - difference(at, wide[place])).max() < 3e-4


@each
def test_gradients_of_a_lot_are_those_of_its_examples(name):
    layer, _, _, parameters, x, dy = setup(name, 7)
    y, dx, gradients = backward(layer, parameters, x, dy)
    for i in range(7):
        y1, dx1, alone = backward(layer, parameters, x[i : i + 1], dy[i : i + 1])
        assert (y1[0] == y[i]).all()
        assert (dx1[0] == dx[i]).all()
        for gradient, one in zip(gradients, alone, strict=True):
            assert (gradient.formed()[i] == one.formed()[0]).all()


BIG = {
    "dense": (Dense(10), (1000,)), "wide": (Dense(1000), (60,)), "narrow": (Dense(3), (5,)), "single": (Dense(1), (1000,)),
    "conv": (Conv2D(16, 8, 2, "same"), (28, 28, 1)), "deep": (Conv2D(32, 4, 2), (13, 13, 16)),
    "one": (Conv2D(8, 5), (5, 5, 6)), "group": (GroupNorm(4), (13, 13, 16)), "tanh": (Tanh(), (61,)),
    "tempered": (TemperedSigmoid(), (61,)), "max": (MaxPool2D(2, 1), (14, 14, 16)), "mean": (AvgPool2D(2), (14, 14, 3)),
}  # fmt: skip


@pytest.mark.parametrize("name", BIG)
@pytest.mark.parametrize("n", [1, 2, 16, 63, 64, 65, 150])
def test_what_an_example_gives_does_not_depend_on_the_others_in_its_lot(name, n):
    """Bit for bit: a lot, the same lot without its first example, and in another order."""
    layer, shape = BIG[name]
    rng = np.random.default_rng(4)
    parameters = layer.parameters(shape, normal(1))
    x = rng.normal(size=(151, *shape)).astype(np.float32)
    dy = rng.normal(size=(151, *layer.output(shape))).astype(np.float32)
    y, dx, gradients = backward(layer, parameters, x, dy)
    for index in (np.arange(1, n + 1), rng.permutation(151)[:n]):
        y1, dx1, some = backward(layer, parameters, x[index], dy[index])
        assert (y1 == y[index]).all()
        assert (dx1 == dx[index]).all()
        for whole, part in zip(gradients, some, strict=True):
            for a, b in zip(whole.sides, part.sides, strict=True):
                assert (a[index] == b).all()


def test_plain_matrix_products_do_depend_on_the_lot():
    """Why `product` exists. Should this fail, BLAS has changed, and `product` may have become superfluous."""
    rng = np.random.default_rng(4)
    x, weights = rng.normal(size=(600, 1000)).astype(np.float32), rng.normal(size=(1000, 10)).astype(np.float32)
    if (np.matmul(x[:1], weights) == np.matmul(x, weights)[:1]).all():
        pytest.skip("this BLAS does not show it")
    assert np.allclose(product(x, weights), x @ weights, atol=1e-3)


@each
def test_norms_without_forming_are_those_of_the_gradients_formed(name):
    layer, _, _, parameters, x, dy = setup(name, 9)
    _, _, gradients = backward(layer, parameters, x, dy)
    if not gradients:
        assert layer.count == 0
        return
    norms = clipped_sum(gradients, Clip(1)).norms
    formed = np.concatenate([g.formed().reshape(9, -1).astype(np.float64) for g in gradients], axis=1)
    assert np.abs(norms / np.linalg.norm(formed, axis=1) - 1).max() < 1e-6


@each
def test_empty_lots_pass(name):
    layer, shape, _, parameters, x, dy = setup(name, 0)
    y, dx, gradients = backward(layer, parameters, x, dy)
    assert y.shape == (0, *layer.output(shape))
    assert dx.shape == (0, *shape)
    for gradient, parameter in zip(gradients, parameters, strict=True):
        assert gradient.formed().shape == (0, *parameter.shape)
        assert not clipped_sum([gradient], Clip(1)).units[0].any()


@each
def test_the_first_layer_gives_the_same_gradients(name):
    layer, _, _, parameters, x, dy = setup(name, 3)
    inner, outer = (backward(layer, parameters, x, dy, first=first)[2] for first in (False, True))
    for a, b in zip(inner, outer, strict=True):
        assert (a.formed() == b.formed()).all()


@each
def test_gradients_do_not_share_memory_with_what_is_passed_on(name):
    """The layer before may overwrite it."""
    layer, _, _, parameters, x, dy = setup(name, 3)
    _, dx, gradients = backward(layer, parameters, x, dy)
    assert not any(np.shares_memory(dx, side) for gradient in gradients for side in gradient.sides)
    assert not np.shares_memory(dx, x)


@each
def test_layers_are_values(name):
    layer, shape, *_ = setup(name, 1)
    assert hash(layer) == hash(layer)
    assert layer == type(layer)(**{field: getattr(layer, field) for field in layer.__dataclass_fields__})
    assert all((a == b).all() for a, b in zip(*(layer.parameters(shape, normal(3)) for _ in range(2)), strict=True))


def test_ties_give_the_gradient_to_the_first_place_only():
    x, dy = np.zeros((1, 2, 2, 1), np.float32), np.full((1, 1, 1, 1), 5.0, np.float32)
    _, dx, _ = backward(MaxPool2D(2), [], x, dy)
    assert dx.ravel().tolist() == [5.0, 0.0, 0.0, 0.0]


def test_a_maximum_in_overlapping_windows_gets_the_gradient_of_each():
    x = np.array([0, 0, 0, 0, 9, 0, 0, 0, 0], np.float32).reshape(1, 3, 3, 1)
    _, dx, _ = backward(MaxPool2D(2, 1), [], x, np.ones((1, 2, 2, 1), np.float32))
    assert dx.ravel().tolist() == [0, 0, 0, 0, 4, 0, 0, 0, 0]


def test_weights_start_with_the_variance_of_he_and_biases_at_zero():
    for layer, shape, inputs in ((Dense(400), (200,), 200), (Conv2D(400, 5), (9, 9, 8), 200)):
        (start,) = layer.parameters(shape, normal(2))
        assert start.dtype == np.float32
        assert start.shape == (inputs + 1, 400)
        assert not start[-1].any()
        assert abs(start[:-1].std() / math.sqrt(2 / inputs) - 1) < 0.02  # 80,000 draws: 5 deviations are 0.0125
        assert abs(start[:-1].mean()) < 0.01 * math.sqrt(2 / inputs) * 2


def test_the_gradient_of_a_convolution_with_one_place_is_an_outer_product():
    one, more = (backward(*args)[2][0] for args in (
        (Conv2D(2, 3), [np.ones((10, 2), np.float32)], np.ones((4, 3, 3, 1), np.float32), np.ones((4, 1, 1, 2), np.float32)),
        (Conv2D(2, 3), [np.ones((10, 2), np.float32)], np.ones((4, 4, 3, 1), np.float32), np.ones((4, 2, 1, 2), np.float32)),
    ))  # fmt: skip
    assert isinstance(one, Outer)
    assert isinstance(more, Rows)


def test_the_network_of_the_usual_tutorial_has_its_shapes():
    shape = (28, 28, 1)
    layers = [
        Conv2D(16, 8, 2, "same"),
        MaxPool2D(2, 1),
        Conv2D(32, 4, 2),
        MaxPool2D(2, 1),
        Flatten(),
        Dense(32),
        Dense(10),
    ]
    shapes = []
    for layer in layers:
        shape = layer.output(shape)
        shapes.append(shape)
    assert shapes == [(14, 14, 16), (13, 13, 16), (5, 5, 32), (4, 4, 32), (512,), (32,), (10,)]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Dense(0), r"^width: got 0, expected a whole number ≥ 1"),
        (lambda: Dense(2.5), r"^width: got 2\.5"),
        (lambda: Dense(True), r"^width: got True"),
        (lambda: Conv2D(0, 3), r"^channels: got 0"),
        (lambda: Conv2D(3, 0), r"^size: got 0"),
        (lambda: Conv2D(3, (1, 2, 3)), r"^size: got \(1, 2, 3\), expected a whole number ≥ 1, or a pair"),
        (lambda: Conv2D(3, 3, stride=0), r"^stride: got 0"),
        (lambda: Conv2D(3, 3, padding="full"), r'^padding: got .*full.*, expected "valid"'),
        (lambda: Conv2D(3, 3, padding=None), r"^padding: got None"),
        (lambda: MaxPool2D(-1), r"^size: got -1"),
        (lambda: MaxPool2D(2, "2"), r"^stride: got "),
        (lambda: AvgPool2D(2, padding="x"), r"^padding: got "),
        (lambda: GroupNorm(0), r"^groups: got 0"),
        (lambda: TemperedSigmoid(scale=0), r"^scale: got 0"),
        (lambda: TemperedSigmoid(temperature=-1), r"^temperature: got -1"),
        (lambda: TemperedSigmoid(offset="x"), r"^offset: got "),
        (lambda: TemperedSigmoid(scale=float("nan")), r"^scale: got nan"),
    ],
)  # fmt: skip
def test_bad_settings_are_refused(make, message):
    with pytest.raises(InvalidParameter, match=message):
        make()


@pytest.mark.parametrize(
    ("layer", "shape", "message"),
    [
        (Dense(3), (4, 4, 1), r"^shape: got \(4, 4, 1\), expected examples of one axis .*Flatten"),
        (Dense(3), (), r"^shape: got \(\)"),
        (Dense(3), (0,), r"^shape: got \(0,\)"),
        (Conv2D(3, 2), (4,), r"^shape: got \(4,\), expected images of \(height, width, channels\)"),
        (Conv2D(3, 5), (4, 9, 1), r'^size: got \(5, 5\), expected windows that fit in images of 4 × 9; .*"same"'),
        (Conv2D(3, 2), (4, 4, 0), r"^shape: got "),
        (MaxPool2D(5), (4, 9, 1), r"^size: got \(5, 5\)"),
        (AvgPool2D(2), (16,), r"^shape: got \(16,\)"),
        (GroupNorm(3), (4, 4, 4), r"^groups: got 3, expected a divisor of the number of channels"),
        (GroupNorm(1), (), r"^groups: got 1"),
    ],
    ids=str,
)
def test_shapes_that_do_not_fit_are_refused(layer, shape, message):
    for ask in (lambda: layer.output(shape), lambda: layer.parameters(shape, normal(1))):
        with pytest.raises(InvalidParameter, match=message):
            ask()


def test_settings_are_kept_as_they_are_meant():
    assert Conv2D(3, 2).size == (2, 2)
    assert MaxPool2D(3).stride == (3, 3)
    assert MaxPool2D(3, (1, 2)).stride == (1, 2)
    assert TemperedSigmoid(Fraction(1, 2)).scale == 0.5
    assert Windows.over((5, 5, 1), size=(2, 2), stride=(1, 1), padding="same").after == (1, 1)
