"""Per-example gradients in the form in which they come.

The gradient of a dense layer for one example is an outer product a ⊗ b of its input and of the gradient at its output.
Its norm is ‖a‖·‖b‖ and the weighted sum over a lot is one matrix product: per-example gradients are never formed
(Goodfellow 2015, "Efficient per-example gradient computations"; Li, Tramèr, Liang, Hashimoto 2022, "ghost clipping").
Other layers form theirs (`Rows`), a part of the lot at a time. `clipping` adds them up.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


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
        found: Array = self.left[:, :, None] * self.right[:, None, :]
        return np.concatenate([found, self.right[:, None, :]], axis=1) if self.one else found

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
