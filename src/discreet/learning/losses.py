"""Losses: what each example costs, and its gradient at the output of the network."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidData, InvalidParameter
from discreet.learning.gradients import Array


class Loss(Protocol):
    """What is to be made small."""

    def targets(self, y: NDArray[Any], outputs: tuple[int, ...]) -> NDArray[Any]:
        """The targets as `gradient` takes them, checked against the shape of the outputs."""
        ...

    def gradient(self, output: Array, y: NDArray[Any]) -> tuple[NDArray[np.float32], Array]:
        """The loss of each example, and its gradient at the output: each row from its own row alone."""
        ...


@dataclass(frozen=True, slots=True)
class Softmax:
    """Cross entropy of classes 0 … k − 1, from one number for each class.

    >>> losses, gradient = Softmax().gradient(np.zeros((1, 2), np.float32), np.array([0]))
    >>> round(float(losses[0]), 4), gradient.tolist()
    (0.6931, [[-0.5, 0.5]])
    """

    def targets(self, y: NDArray[Any], outputs: tuple[int, ...]) -> NDArray[np.int64]:
        """Whole numbers from 0 to k − 1."""
        return _classes(y, _width(outputs, "one number for each class", 2))

    def gradient(self, output: Array, y: NDArray[Any]) -> tuple[NDArray[np.float32], Array]:
        """−log p(y), and p − 1 at y."""
        p = self.shares(output)
        rows = np.arange(len(y))
        losses = -np.log(np.maximum(p[rows, y], np.float32(1e-30)))
        p[rows, y] -= 1
        return losses, p

    def shares(self, output: Array) -> Array:
        """The probability of each class."""
        p: Array = np.exp(output - output.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        return p


@dataclass(frozen=True, slots=True)
class Logistic:
    """Cross entropy of two classes, 0 and 1, from one number.

    >>> losses, gradient = Logistic().gradient(np.zeros((1, 1), np.float32), np.array([1]))
    >>> round(float(losses[0]), 4), gradient.tolist()
    (0.6931, [[-0.5]])
    """

    def targets(self, y: NDArray[Any], outputs: tuple[int, ...]) -> NDArray[np.int64]:
        """Zeros and ones."""
        if _width(outputs, "one number", 1) != 1:
            raise InvalidParameter("network", outputs, "one number at the end", "end it with Dense(1)")
        return _classes(y, 2)

    def gradient(self, output: Array, y: NDArray[Any]) -> tuple[NDArray[np.float32], Array]:
        """log(1 + e^(−±z)), and p − y."""
        z = output[:, 0]
        losses = np.logaddexp(np.float32(0), np.where(y == 1, -z, z))
        return losses, (self.shares(output)[:, 1] - y).astype(np.float32)[:, None]

    def shares(self, output: Array) -> Array:
        """The probability of each class."""
        p = np.float32(0.5) * (1 + np.tanh(np.float32(0.5) * output[:, 0]))
        return np.stack([1 - p, p], axis=1)


@dataclass(frozen=True, slots=True)
class Squared:
    """Half the squared distance to the target.

    >>> losses, gradient = Squared().gradient(np.array([[3.0]], np.float32), np.array([1.0]))
    >>> losses.tolist(), gradient.tolist()
    ([2.0], [[2.0]])
    """

    def targets(self, y: NDArray[Any], outputs: tuple[int, ...]) -> NDArray[np.float32]:
        """Finite numbers, as many for each example as come out of the network."""
        width = _width(outputs, "one number for each target", 1)
        numbers = np.asarray(y)
        if numbers.dtype.kind not in "iuf" or numbers.size != len(numbers) * width:
            raise InvalidData(
                f"targets of shape {numbers.shape} and type {numbers.dtype}, expected {width} numbers each"
            )
        flat = numbers.astype(np.float32).reshape(len(numbers), width)
        if not np.isfinite(flat).all():
            raise InvalidData(f"target {int(np.argmin(np.isfinite(flat).all(axis=1)))} is not a finite number")
        return flat

    def gradient(self, output: Array, y: NDArray[Any]) -> tuple[NDArray[np.float32], Array]:
        """½‖z − y‖², and z − y."""
        distance = output - np.asarray(y, np.float32).reshape(output.shape)
        return np.float32(0.5) * np.square(distance).sum(axis=1), distance


def _width(outputs: tuple[int, ...], expected: str, least: int) -> int:
    if len(outputs) != 1 or outputs[0] < least:
        raise InvalidParameter("network", outputs, f"{expected} at the end, at least {least}", "end it with Dense(…)")
    return outputs[0]


def _classes(y: NDArray[Any], count: int) -> NDArray[np.int64]:
    classes = np.asarray(y)
    if classes.ndim != 1 or classes.dtype.kind not in "iub":
        raise InvalidData(f"targets of shape {classes.shape} and type {classes.dtype}, expected whole numbers in a row")
    wrong = (classes < 0) | (classes >= count)
    if wrong.any():
        raise InvalidData(f"target {int(wrong.argmax())} is not a class from 0 to {count - 1}")
    return classes.astype(np.int64)
