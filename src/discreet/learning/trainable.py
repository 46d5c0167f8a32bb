"""What `training.train` asks of a model: a `Network` of this package, a function of another library, or your own.

>>> from discreet.learning.layers import Dense
>>> from discreet.learning.losses import Softmax
>>> from discreet.learning.network import Network
>>> from discreet.learning.trainable import Trainable
>>> isinstance(Network([Dense(2)], Softmax(), inputs=(3,)), Trainable)
True
"""

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from discreet.learning.gradients import Array, Gradient
from discreet.learning.layers import Shape
from discreet.learning.network import Augment, Parameters


@runtime_checkable
class Trainable(Protocol):
    """A model with a loss. It is a value: what it computes never changes, it can be hashed, its repr says all of it.

    Guarantee: this is what the loss of a run relies on. The losses and gradients of an example depend on it, its
    target, the parameters and the model alone, bit for bit, not on its company. `company` tries it before a run.
    """

    def __hash__(self) -> int: ...

    @property
    def inputs(self) -> Shape:
        """The shape of one example."""
        ...

    @property
    def outputs(self) -> Shape:
        """The shape of what comes out for one example: what targets are checked against."""
        ...

    @property
    def loss(self) -> "Targets":
        """What is to be made small; training asks it for targets only."""
        ...

    @property
    def part(self) -> int | None:
        """How many examples at a time are quickest; None if it does not matter."""
        ...

    def start(self, *, seed: int) -> Parameters:
        """Parameters to start from: public, the same for the same seed, and new arrays each time."""
        ...

    def examples(self, x: Any) -> NDArray[Any]:
        """The examples as `gradients` takes them, checked: one row for each."""
        ...

    def gradients(
        self, parameters: Sequence[Array], x: NDArray[Any], y: NDArray[Any]
    ) -> tuple[NDArray[np.float32], list[Gradient]]:
        """The loss of each example, and each parameter's gradients."""
        ...

    def mean_gradients(
        self, parameters: Sequence[Array], x: NDArray[Any], y: NDArray[Any], augment: Augment | None, copies: int
    ) -> tuple[NDArray[np.float32], list[Gradient]]:
        """The same, averaged over several changed copies of each example, before anything is clipped."""
        ...


class Targets(Protocol):
    """What reads targets."""

    def targets(self, y: NDArray[Any], outputs: Shape) -> NDArray[Any]:
        """The targets as `gradients` takes them, checked: one for each example."""
        ...
