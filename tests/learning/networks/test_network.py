"""Networks: gradients through all layers, example by example, whatever the lot."""

import numpy as np
import pytest

from discreet.errors import InvalidData, InvalidParameter
from discreet.learning.networks.images import AvgPool2D, Conv2D, MaxPool2D
from discreet.learning.networks.layers import Dense, Flatten, GroupNorm, Relu, Tanh, TemperedSigmoid
from discreet.learning.networks.network import Logistic, Network, Softmax, Squared
from discreet.learning.sgd.clipping import UNITS, Clip, clipped_sum

IMAGES = [
    Conv2D(4, 3, 2, "same"), GroupNorm(2), Tanh(), MaxPool2D(2, 1), Conv2D(6, 2), TemperedSigmoid(), AvgPool2D(2, 1),
    Flatten(), Dense(8), Relu(), Dense(3),
]  # fmt: skip
CASES = {
    "images": (Network(IMAGES, Softmax(), (9, 8, 2)), 3),
    "table": (Network([Dense(30), Relu(), Dense(3)], Softmax(), (7,)), 3),
    "one layer": (Network([Dense(1)], Logistic(), (7,)), 2),
    "regression": (Network([Flatten(), Dense(5), Tanh(), Dense(1)], Squared(), (2, 3)), 2),
}
each = pytest.mark.parametrize("name", CASES)


def setup(name: str, n: int, seed: int = 1):
    network, classes = CASES[name]
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, *network.inputs)).astype(np.float32)
    return network, network.start(seed=3), x, rng.integers(0, classes, n)


def away(network: Network, parameters: list, x: np.ndarray, y: np.ndarray) -> float:
    """How far slopes along a direction are from the gradients, of the largest, for the worst parameter and example."""
    rng, found = np.random.default_rng(5), 0.0
    _, gradients = network.gradients(parameters, x, y)
    for place, gradient in enumerate(gradients):
        assert gradient.shape == parameters[place].shape
        direction = gradient.formed().mean(axis=0) + 0.1 * rng.normal(size=gradient.shape).astype(np.float32) / 5
        direction *= np.float32(2.0**-7) / np.linalg.norm(direction)
        moved = []
        for sign in (1, -1):
            changed = [p.copy() for p in parameters]
            changed[place] += np.float32(sign) * direction
            moved.append(network.gradients(changed, x, y)[0].astype(np.float64))
        expected = (gradient.formed().astype(np.float64) * direction).reshape(len(x), -1).sum(axis=1)
        gap = np.abs((moved[0] - moved[1]) / 2 - expected).max() - 2e-6
        found = max(found, float(gap / np.abs(expected).max()))
    return found


@each
def test_gradients_are_those_of_finite_differences(name):
    """Along random directions; float32 allows steps of 2^−7 and errors of a per cent. A step may cross the kink of a
    ReLU or of a maximum, so a quarter of the starts must do; a wrong gradient would show at all of them."""
    network, _, x, y = setup(name, 6)
    found = sorted(away(network, network.start(seed=seed), x, y) for seed in range(1, 13))
    assert found[2] < 0.02


@each
def test_an_example_gives_the_same_in_every_lot(name):
    """Bit for bit, so that what it changes is what it gives: alone, among many, in another place."""
    network, parameters, x, y = setup(name, 130)
    losses, gradients = network.gradients(parameters, x, y)
    for index in ([5], [129, 5], list(range(1, 130)), list(range(129, -1, -2))):
        some, part = network.gradients(parameters, x[index], y[index])
        assert (some == losses[index]).all()
        for a, b in zip(gradients, part, strict=True):
            assert all((one[index] == two).all() for one, two in zip(a.sides, b.sides, strict=True))


@each
def test_one_example_changes_the_sum_by_at_most_units(name):
    network, parameters, x, y = setup(name, 65)
    clip = Clip("0.01")
    with_it, without = (clipped_sum(network.gradients(parameters, x[:n], y[:n])[1], clip) for n in (65, 64))
    pairs = zip(with_it.units, without.units, strict=True)
    change = sum(int(v) ** 2 for a, b in pairs for v in (a - b).ravel().tolist())
    assert 0.99 * UNITS**2 < change <= UNITS**2


@each
@pytest.mark.parametrize("n", [0, 1])
def test_empty_lots_and_single_examples(name, n):
    network, parameters, x, y = setup(name, n)
    losses, gradients = network.gradients(parameters, x, y)
    assert losses.shape == (n,)
    total = clipped_sum(gradients, Clip(1))
    assert [u.shape for u in total.units] == [p.shape for p in parameters]
    assert network.predict(parameters, x).shape == (n, *network.outputs)
    losses, means = network.mean_gradients(parameters, x, y, None, 2)
    assert losses.shape == (n,)
    assert [g.shape for g in means] == [p.shape for p in parameters]


@each
def test_gradients_leave_their_inputs_alone(name):
    network, parameters, x, y = setup(name, 5)
    before = [p.copy() for p in parameters], x.copy()
    network.gradients(parameters, x, y)
    assert (x == before[1]).all()
    assert all((a == b).all() for a, b in zip(parameters, before[0], strict=True))


@each
def test_predictions_are_what_the_loss_sees(name):
    network, parameters, x, y = setup(name, 5)
    losses, _ = network.gradients(parameters, x, y)
    assert (network.loss.gradient(network.predict(parameters, x), y)[0] == losses).all()


def test_means_over_copies_are_means_of_gradients():
    network, parameters, x, y = setup("images", 4)

    def augment(images, copy):
        return images[:, :, ::-1] if copy else images

    losses, means = network.mean_gradients(parameters, x, y, augment, 2)
    runs = [network.gradients(parameters, np.ascontiguousarray(augment(x, c)), y) for c in range(2)]
    assert np.allclose(losses, (runs[0][0] + runs[1][0]) / 2, rtol=1e-5)
    for place, mean in enumerate(means):
        expected = (runs[0][1][place].formed() + runs[1][1][place].formed()) / 2
        assert np.allclose(mean.formed(), expected, atol=1e-6, rtol=1e-5)


def test_the_same_seed_starts_the_same():
    network = CASES["images"][0]
    a, b, c = (network.start(seed=s) for s in (1, 1, 2))
    assert all((p == q).all() for p, q in zip(a, b, strict=True))
    assert not all((p == q).all() for p, q in zip(a, c, strict=True))
    assert all(p.dtype == np.float32 for p in a)


def test_what_does_not_fit_is_refused():
    network, parameters, x, y = setup("table", 3)
    with pytest.raises(InvalidData, match=r"3 parameters for a network of 2"):
        network.gradients([*parameters, parameters[0]], x, y)
    with pytest.raises(InvalidParameter, match=r"put Flatten\(\) before it"):
        Network([Dense(3)], Softmax(), (4, 4, 1)).start(seed=1)
