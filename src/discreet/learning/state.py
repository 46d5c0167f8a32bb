"""A training run between two steps."""

from dataclasses import dataclass, field
from fractions import Fraction

from discreet.learning.gradients import Array
from discreet.learning.network import Parameters
from discreet.learning.projection import Projection
from discreet.learning.recipe import Recipe
from discreet.learning.trainable import Trainable


@dataclass(slots=True)
class State:
    """A run between two steps: what a checkpoint holds. Nothing in it but noisy values and public settings.

    >>> from discreet.learning import layers, losses, optimizers
    >>> from discreet.learning.network import Network
    >>> network = Network([layers.Dense(2)], losses.Softmax(), inputs=(3,))
    >>> recipe = Recipe(rate="0.1", lot=10, steps=5, multiplier=1, clip=1, optimizer=optimizers.Sgd(1))
    >>> State.start(network, recipe).step
    0
    """

    step: int
    parameters: Parameters
    memory: list[Array]
    average: Parameters
    clip: Fraction
    losses: list[float] = field(default_factory=list)
    clips: list[float] = field(default_factory=list)
    projection: Projection | None = None

    @classmethod
    def start(cls, network: Trainable, recipe: Recipe) -> "State":
        """Before the first step."""
        parameters = network.start(seed=recipe.seed)
        memory = recipe.optimizer.memory(parameters)
        return cls(0, parameters, memory, [p.copy() for p in parameters], recipe.clip)


def finished(state: State, recipe: Recipe) -> Parameters:
    """The parameters to use: the running average if the recipe keeps one."""
    return state.average if recipe.average else state.parameters
