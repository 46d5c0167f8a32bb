"""Pooling: the largest or the mean value of each window, channel by channel."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.learning.gradients import Array, Gradient
from discreet.learning.layers import Plain, Shape
from discreet.learning.windows import Padding, Pair, Windows, padded, pair


class _Pool(Plain):
    """Windows of `size`, `stride` apart (as far as they are long, if not given)."""

    __slots__ = ()

    size: Pair
    stride: Pair
    padding: Padding

    def __init__(self, size: int | Pair, stride: int | Pair | None = None, padding: Padding = "valid") -> None:
        object.__setattr__(self, "size", pair(size, "size"))
        object.__setattr__(self, "stride", self.size if stride is None else pair(stride, "stride"))
        object.__setattr__(self, "padding", padded(padding))

    def output(self, shape: Shape) -> Shape:
        """(rows, columns, channels)."""
        return (*self._windows(shape).places, shape[2])

    def _windows(self, shape: Shape) -> Windows:
        return Windows.over(shape, size=self.size, stride=self.stride, padding=self.padding)


@dataclass(frozen=True, slots=True, init=False)
class MaxPool2D(_Pool):
    """The largest value of each window; its gradient goes to the first place that has it.

    >>> MaxPool2D(2).output((28, 28, 3)), MaxPool2D(2, stride=1).output((14, 14, 16))
    ((14, 14, 3), (13, 13, 16))
    >>> image = np.array([1, 7, 5, 2], np.float32).reshape(1, 2, 2, 1)
    >>> MaxPool2D(2).forward([], image)[0].ravel().tolist()
    [7.0]
    """

    size: Pair
    stride: Pair
    padding: Padding

    def forward(self, parameters: Sequence[Array], x: Array) -> tuple[Array, Any]:
        """The largest of the places of a window; padding never is."""
        windows = self._windows(x.shape[1:])
        room = windows.surrounded(x, -np.inf)
        y = windows.slice(room, 0, 0).copy()
        for i, j in windows.offsets():
            np.maximum(y, windows.slice(room, i, j), out=y)
        return y, (windows, room, y)

    def backward(
        self, parameters: Sequence[Array], kept: Any, dy: Array, *, first: bool
    ) -> tuple[Array, list[Gradient]]:
        """To the first place of each window that has its largest value."""
        windows, room, y = kept
        dx = windows.empty(len(dy))
        here, part = np.empty(dy.shape, np.bool_), np.empty_like(dy)
        for i, j in windows.offsets():
            np.equal(windows.slice(room, i, j), y, out=here)
            np.multiply(dy, here, out=part)
            windows.slice(dx, i, j)[...] += part
            dy -= part  # what is given is not given again
        return windows.inside(dx), []


@dataclass(frozen=True, slots=True, init=False)
class AvgPool2D(_Pool):
    """The mean of each window; with padding, zeros count.

    >>> image = np.array([1, 7, 5, 3], np.float32).reshape(1, 2, 2, 1)
    >>> AvgPool2D(2).forward([], image)[0].ravel().tolist()
    [4.0]
    """

    size: Pair
    stride: Pair
    padding: Padding

    def forward(self, parameters: Sequence[Array], x: Array) -> tuple[Array, Any]:
        """The sum over the places of a window, divided by their number."""
        windows = self._windows(x.shape[1:])
        room = windows.surrounded(x)
        y = np.zeros((len(x), *windows.places, x.shape[3]), np.float32)
        for i, j in windows.offsets():
            y += windows.slice(room, i, j)
        y *= np.float32(1 / (self.size[0] * self.size[1]))
        return y, windows

    def backward(
        self, parameters: Sequence[Array], kept: Any, dy: Array, *, first: bool
    ) -> tuple[Array, list[Gradient]]:
        """The same to every place of a window."""
        dx = kept.empty(len(dy))
        part = dy * np.float32(1 / (self.size[0] * self.size[1]))
        for i, j in kept.offsets():
            kept.slice(dx, i, j)[...] += part
        return kept.inside(dx), []
