"""Convolutions: each window of an image, written as a row, times one matrix of weights.

The gradient of an example is the product of its windows and of the gradients at the output, (windows)ᵀ·dy, summed over
the places. It is formed, as one small product for each example. Norms alone can be had from the products of
windows with windows ("ghost" norms), which costs places²·(inputs + outputs) instead of places·inputs·outputs: measured
29 times slower on the first layer of the usual small network for MNIST (196 places) and 8 times on the second (25).
Only with a single place the layer is a dense one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.exact import integer
from discreet.learning.gradients import Array, Gradient, Outer, Rows
from discreet.learning.layers import Draw, Shape, starting
from discreet.learning.products import product
from discreet.learning.windows import Padding, Pair, Windows, padded, pair


@dataclass(frozen=True, slots=True)
class Conv2D:
    """A convolution of images (height, width, channels) with `channels` filters of `size`, and biases.

    The parameter is one matrix: a row for each (row, column, channel) of a window, and the biases last.

    >>> layer = Conv2D(16, 8, stride=2, padding="same")
    >>> layer.output((28, 28, 1))
    (14, 14, 16)
    >>> weights = np.ones((3, 1), np.float32)  # x_j + x_(j+1) + 1
    >>> image = np.array([1, 2, 5], np.float32).reshape(1, 1, 3, 1)
    >>> Conv2D(1, (1, 2)).forward([weights], image)[0].ravel().tolist()
    [4.0, 8.0]
    """

    channels: int
    size: Pair
    stride: Pair
    padding: Padding

    def __init__(self, channels: int, size: int | Pair, stride: int | Pair = 1, padding: Padding = "valid") -> None:
        object.__setattr__(self, "channels", integer(channels, "channels", at_least=1))
        object.__setattr__(self, "size", pair(size, "size"))
        object.__setattr__(self, "stride", pair(stride, "stride"))
        object.__setattr__(self, "padding", padded(padding))

    @property
    def count(self) -> int:
        """One matrix."""
        return 1

    def output(self, shape: Shape) -> Shape:
        """(rows, columns, channels)."""
        return (*self._windows(shape).places, self.channels)

    def parameters(self, shape: Shape, normal: Draw) -> list[Array]:
        """He et al. 2015: deviation √(2/inputs of a window); biases start at zero."""
        self.output(shape)
        return [starting(self.size[0] * self.size[1] * shape[2], self.channels, normal)]

    def forward(self, parameters: Sequence[Array], x: Array) -> tuple[Array, Any]:
        """Windows times weights."""
        windows = self._windows(x.shape[1:])
        rows = _unfolded(windows, x)
        y = _products(rows, parameters[0])
        return y.reshape(len(x), *windows.places, self.channels), (windows, rows)

    def backward(
        self, parameters: Sequence[Array], kept: Any, dy: Array, *, first: bool
    ) -> tuple[Array, list[Gradient]]:
        """The gradient of example i is (windows_i, 1)ᵀ·dy_i."""
        windows, rows = kept
        flat = dy.reshape(len(dy), rows.shape[1], self.channels)
        gradient: Gradient
        if rows.shape[1] == 1:
            gradient = Outer(rows[:, 0], flat[:, 0])
        else:
            gradient = Rows(np.matmul(rows.transpose(0, 2, 1), flat))
        return (dy if first else _folded(windows, flat, parameters[0][:-1])), [gradient]

    def _windows(self, shape: Shape) -> Windows:
        return Windows.over(shape, size=self.size, stride=self.stride, padding=self.padding)


def _unfolded(windows: Windows, x: Array) -> Array:
    """Each window as a row that ends with 1: (example, place, row · column · channel + 1)."""
    (height, width), (down, right) = windows.size, windows.stride
    rows, columns = windows.places
    inputs = height * width * windows.image[2]
    views = np.lib.stride_tricks.sliding_window_view(windows.surrounded(x), (height, width), axis=(1, 2))
    views = views[:, ::down, ::right].transpose(0, 1, 2, 4, 5, 3)[:, :rows, :columns]
    room = np.empty((len(x), rows * columns, inputs + 1), np.float32)
    room[:, :, -1] = 1
    inner = room[:, :, :-1].reshape(len(x), rows, columns, height, width, windows.image[2], copy=False)
    inner[...] = views
    return room


def _products(rows: Array, weights: Array) -> Array:
    """One product for each example, so that BLAS sees one shape, and each example at one place; see `products`."""
    count, places, _ = rows.shape
    found: Array = np.matmul(rows, weights) if places > 1 else product(rows[:, 0], weights)
    return found.reshape(count, places, weights.shape[1])


def _folded(windows: Windows, dy: Array, weights: Array) -> Array:
    """The gradient at the input: what each place of each window gives back, added up."""
    shares = _products(dy, np.ascontiguousarray(weights.T)).reshape(
        len(dy), *windows.places, *windows.size, windows.image[2]
    )
    room = windows.empty(len(dy))
    (height, width), (down, right), (rows, columns) = windows.size, windows.stride, windows.places
    for i in range(height):
        for column in range(columns):  # whole rows of windows are contiguous
            place = slice(column * right, column * right + width)
            room[:, i : i + (rows - 1) * down + 1 : down, place] += shares[:, :, column, i]
    return windows.inside(room)
