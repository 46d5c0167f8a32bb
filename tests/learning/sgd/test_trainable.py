"""What training asks of a model: a network and a function in JAX have it, and nothing else is asked for."""

import numpy as np
import pytest

from discreet.learning.networks.layers import Dense
from discreet.learning.networks.network import Network, Softmax
from discreet.learning.sgd.gradients import Trainable
from discreet.learning.sgd.recipe import Recipe, Sgd
from discreet.learning.sgd.run_state import Checkpoint
from discreet.learning.sgd.training import finished, train
from discreet.noise import DeterministicEntropy

NAMES = {name for name in vars(Trainable) if not name.startswith("_")}
RECIPE = Recipe(rate="1/2", lot=100, steps=30, multiplier="1/10", clip=1, optimizer=Sgd(1))
X = np.random.default_rng(3).normal(size=(200, 3)).astype(np.float32)
Y = (X @ np.array([2.0, -1.0, 0.5]) > 0).astype(int)


def network():
    return Network([Dense(2)], Softmax(), inputs=(3,))


def written_in_jax():
    jax = pytest.importorskip("jax", reason="the extra 'jax' is not installed")
    from discreet.learning.networks.jax_model import JaxModel

    def output(matrix, x):
        return x @ matrix[:-1] + matrix[-1]

    def loss(matrix, x, y):
        return -jax.nn.log_softmax(output(matrix, x))[y]

    return JaxModel(loss, network().start(seed=1)[0], example=np.zeros(3), target=0, predict=output)


MODELS = pytest.mark.parametrize("model", [network, written_in_jax])


class Narrow:
    """Of a model, what `Trainable` names, and which of it was asked for."""

    def __init__(self, model):
        self._model, self._asked = model, set()

    def __getattr__(self, name):
        if name not in NAMES:
            raise AttributeError(name)
        self._asked.add(name)
        return getattr(self._model, name)


@MODELS
def test_both_kinds_are_trainable(model):
    assert isinstance(model(), Trainable)


@pytest.mark.parametrize("missing", sorted(NAMES))
def test_a_model_that_lacks_something_is_not(missing):
    assert isinstance(type("Whole", (), dict.fromkeys(NAMES, len))(), Trainable)
    assert not isinstance(type("Less", (), dict.fromkeys(NAMES - {missing}, len))(), Trainable)


@MODELS
def test_training_works_and_asks_for_exactly_what_is_named(model, tmp_path):
    whole, narrow = model(), Narrow(model())
    states = [
        train(whole, X, Y, RECIPE, entropy=DeterministicEntropy(5)),
        train(narrow, X, Y, RECIPE, entropy=DeterministicEntropy(5), checkpoint=Checkpoint(tmp_path / "run", every=9)),
    ]
    assert np.array_equal(*(finished(state, RECIPE)[0] for state in states))
    assert narrow._asked == NAMES
    assert (whole.predict(finished(states[0], RECIPE), X).argmax(axis=1) == Y).mean() > 0.9
