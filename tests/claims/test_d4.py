"""D4: the CIFAR-10 network, two convolutions and two dense layers, trains privately and draws its curve.

The sample of CIFAR-10 has 10,000 lossy images, so no published figure is claimed here; made-up signs in color stand in
for it where it is absent.
"""

import numpy as np
import pytest
from tests.generated_images import signs
from tests.real_data import FOLDER, needs

from discreet.learning.networks.images import Conv2D, MaxPool2D
from discreet.learning.networks.layers import Dense, Flatten, Relu
from discreet.learning.networks.network import Network, Softmax
from discreet.learning.sgd.recipe import Recipe, Schedule, Sgd
from discreet.learning.sgd.run_state import curve_noise, learning_chart
from discreet.learning.sgd.training import finished, train
from discreet.noise import DeterministicEntropy
from discreet.privacy.accounting import guarantee

pytestmark = pytest.mark.claim("D4")

DATA = "cifar10_sample.npz"
NETWORK = Network(
    [
        Conv2D(32, 5, stride=2, padding="same"),
        Relu(),
        MaxPool2D(2),
        Conv2D(32, 3, padding="same"),
        Relu(),
        MaxPool2D(2),
        Flatten(),
        Dense(64),
        Relu(),
        Dense(10),
    ],
    Softmax(),
    inputs=(32, 32, 3),
)


def scaled(images):
    return images.astype(np.float32) / 127.5 - 1


def trained(x, y, *, epsilon, **settings):
    """The recipe and the state after training, at a guarantee that is met; with known noise, so that it is repeatable."""
    recipe = Recipe.for_budget(epsilon=epsilon, delta="1e-5", examples=len(x), clip=1, average="0.9", **settings)
    assert 0.99 * epsilon < guarantee(recipe.loss, delta="1e-5").epsilon <= epsilon
    return recipe, train(NETWORK, scaled(x), y, recipe, entropy=DeterministicEntropy(2))


def accuracy(recipe, state, x, y):
    return (NETWORK.predict(finished(state, recipe), scaled(x)).argmax(axis=1) == y).mean()


def test_it_learns_signs_in_color_and_less_at_a_smaller_budget(tmp_path):
    (x, y), (test_x, test_y) = (signs(rows, seed=rows, size=32, channels=3) for rows in (2000, 1000))
    scores = []
    for epsilon in (0.25, 8):
        settings = {"rate": "1/5", "steps": 25, "optimizer": Sgd("0.5", "0.9", Schedule("cosine")), "seed": 1}
        recipe, state = trained(x, y, epsilon=epsilon, **settings)
        scores.append(accuracy(recipe, state, test_x, test_y))
    assert scores[1] > 0.8  # guessing gives 0.1, with a deviation of 0.01
    assert scores[0] < scores[1] - 0.1  # noise that one cannot see in the accuracy is not there
    chart = learning_chart(state.losses, noise=curve_noise(recipe)).save(tmp_path / "curve.svg")
    assert "mean loss" in chart.read_text()


@needs(DATA)
@pytest.mark.slow
def test_it_trains_on_the_sample_of_cifar_10():
    with np.load(FOLDER / DATA) as stored:
        data = {name: stored[name] for name in stored.files}
    settings = {"rate": "1/10", "steps": 80, "optimizer": Sgd(1, "0.9", Schedule("cosine")), "seed": 1}
    recipe, state = trained(data["x_train"], data["y_train"].ravel().astype(int), epsilon=8, **settings)
    assert accuracy(recipe, state, data["x_test"], data["y_test"].ravel()) > 0.38
    assert np.mean(state.losses[-10:]) < 0.85 * np.mean(state.losses[:10])
