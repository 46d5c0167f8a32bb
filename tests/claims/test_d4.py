"""D4: the CIFAR-10 network, two convolutions and two dense layers, trains privately and draws its curve.

The sample has 10,000 lossy images, so no published figure is claimed here.
"""

import os
from pathlib import Path

import numpy as np
import pytest

from discreet.learning.convolution import Conv2D
from discreet.learning.curves import curve_noise, learning_chart
from discreet.learning.layers import Dense, Flatten, Relu
from discreet.learning.losses import Softmax
from discreet.learning.network import Network
from discreet.learning.optimisers import Sgd
from discreet.learning.pooling import MaxPool2D
from discreet.learning.recipe import Recipe
from discreet.learning.schedule import Schedule
from discreet.learning.training import finished, train
from discreet.privacy.accounting import guarantee

pytestmark = [pytest.mark.claim("D4"), pytest.mark.slow]

DATA = Path(os.environ.get("DISCREET_DATA", Path(__file__).parents[3] / "shared" / "data")) / "cifar10_sample.npz"
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


def test_it_trains_on_the_sample_and_draws_its_curve(tmp_path):
    if not DATA.exists():
        pytest.skip(f"{DATA} is not there")
    with np.load(DATA) as stored:
        x, y = stored["x_train"].astype(np.float32) / 127.5 - 1, stored["y_train"].ravel().astype(int)
        test_x, test_y = stored["x_test"].astype(np.float32) / 127.5 - 1, stored["y_test"].ravel().astype(int)
    recipe = Recipe.for_budget(
        epsilon=8,
        delta="1e-5",
        rate="1/10",
        examples=len(x),
        steps=80,
        clip=1,
        optimiser=Sgd("0.5", "0.9", Schedule("cosine")),
        average="0.9",
    )
    assert guarantee(recipe.loss, delta="1e-5").epsilon <= 8
    state = train(NETWORK, x, y, recipe)
    right = (NETWORK.predict(finished(state, recipe), test_x).argmax(axis=1) == test_y).mean()
    assert right > 0.2  # guessing gives 0.1, with a deviation of 0.007 on 2,000 images
    assert np.mean(state.losses[-10:]) < np.mean(state.losses[:10])
    chart = learning_chart(state.losses, noise=curve_noise(recipe)).save(tmp_path / "curve.svg")
    assert "mean loss" in chart.read_text()
