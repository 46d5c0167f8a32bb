"""Per-example gradients in the form in which they come.

The gradient of a dense layer for one example is an outer product a ⊗ b of its input and of the gradient at its output.
Its norm is ‖a‖·‖b‖ and the weighted sum over a lot is one matrix product: per-example gradients are never formed
(Goodfellow 2015, "Efficient per-example gradient computations"; Li, Tramèr, Liang, Hashimoto 2022, "ghost clipping").
Other layers form theirs (`Rows`), a part of the lot at a time. `clipping` adds them up.

`Trainable` is what `training.train` asks of a model: a `Network`, a function of another library, or your own.

>>> from discreet.learning.networks.layers import Dense
>>> from discreet.learning.networks.network import Network, Softmax
>>> from discreet.learning.sgd.gradients import Trainable
>>> isinstance(Network([Dense(2)], Softmax(), inputs=(3,)), Trainable)
True
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Shape = tuple[int, ...]
Parameters = list[Array]
Augment = Callable[[Array, int], Array]
"""(examples, which copy) → the examples changed in a public way, each on its own."""


@dataclass(frozen=True, slots=True, eq=False)
class Outer:
    """One parameter matrix; the gradient of example i is left[i] ⊗ right[i]; with `one`, (left[i], 1) ⊗ right[i].

    >>> Outer(np.ones((5, 3), np.float32), np.ones((5, 2), np.float32)).formed().shape
    (5, 3, 2)
    >>> Outer(np.ones((5, 3), np.float32), np.ones((5, 2), np.float32), one=True).formed().shape
    (5, 4, 2)
    """

    left: Array
    right: Array
    one: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the parameter."""
        return self.left.shape[1] + self.one, self.right.shape[1]

    @property
    def sides(self) -> tuple[Array, ...]:
        """What is multiplied."""
        return self.left, self.right

    def plain(self) -> "Outer":
        """The same, laid out in memory row by row."""
        return Outer(_plain(self.left), _plain(self.right), self.one)

    def formed(self) -> Array:
        """Each example's gradient, formed."""
        result: Array = self.left[:, :, None] * self.right[:, None, :]
        return np.concatenate([result, self.right[:, None, :]], axis=1) if self.one else result

    def summed(self) -> Array:
        """The plain sum over the lot: without clipping, so never released."""
        total = np.empty(self.shape, np.float32)
        np.matmul(self.left.T, self.right, out=total[: self.left.shape[1]])
        if self.one:
            np.sum(self.right, axis=0, out=total[-1])
        return total


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """One parameter; the gradient of example i is values[i].

    >>> Rows(np.ones((5, 3, 2), np.float32)).sides[0].shape
    (5, 6)
    """

    values: Array

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the parameter."""
        return self.values.shape[1:]

    @property
    def sides(self) -> tuple[Array, ...]:
        """One row of numbers for each example."""
        return (self.values.reshape(len(self.values), math.prod(self.shape)),)

    def plain(self) -> "Rows":
        """The same, laid out in memory row by row."""
        return Rows(_plain(self.values))

    def formed(self) -> Array:
        """Each example's gradient, as it is."""
        return self.values

    def summed(self) -> Array:
        """The plain sum over the lot: without clipping, so never released."""
        total: Array = self.values.sum(axis=0)
        return total


def _plain(array: Array) -> Array:
    return np.require(array, np.float32, ["C", "A", "W"])


Gradient = Outer | Rows


@runtime_checkable
class Trainable(Protocol):
    """A model with a loss. It is a value: what it computes never changes, it can be hashed, its repr says all of it.

    Guarantee: this is what the loss of a run relies on. The losses and gradients of an example depend on it, its
    target, the parameters and the model alone, bit for bit, not on other examples. `batch_invariance` tries it before a
    run.
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
