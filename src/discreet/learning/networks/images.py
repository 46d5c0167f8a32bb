"""Layers for images, convolutions and pooling over windows; and changed copies of images.

>>> from discreet.learning.networks.images import Windows
>>> windows = Windows.over((28, 28, 1), size=(8, 8), stride=(2, 2), padding="same")
>>> windows.places, windows.before, windows.after
((14, 14), (3, 3), (3, 3))

In a convolution each window of an image, written as a row, is multiplied by one matrix. The gradient of an example is
the product of its windows and of the gradients at the output, (windows)ᵀ·dy, summed over the places. It is formed, as
one small product for each example. Norms alone can be had from the products of windows with windows ("ghost" norms),
which costs places²·(inputs + outputs) instead of places·inputs·outputs: measured 29 times slower on the first layer of
the usual small network for MNIST (196 places) and 8 times on the second (25). Only with a single place the layer is a
dense one.

Copies (`Shifts`) are for gradients that are the mean over several of them (`Recipe.copies`).
De, Berrada, Hayes, Smith, Balle 2022 ("Unlocking high-accuracy differentially private image classification"): an
example's gradients for its copies are averaged before they are clipped, so copies cost time and no privacy.

Guarantee: a copy depends on the image, on the public settings and on the copy's number alone. Nothing is drawn at
random while training: a draw for each place in a lot would let one example more or less change the copies of others,
and no bound on one example's influence would hold.

>>> import numpy as np
>>> from discreet.learning.networks.images import Shifts
>>> image = np.arange(4, dtype=np.float32).reshape(1, 2, 2, 1)
>>> shifts = Shifts(1)
>>> shifts.copies
9
>>> [shifts(image, copy)[0, :, :, 0].tolist() for copy in (0, 1)]
[[[0.0, 1.0], [2.0, 3.0]], [[2.0, 3.0], [0.0, 0.0]]]
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import integer, rational
from discreet.learning.networks.layers import Draw, Plain, starting
from discreet.learning.sgd.clipping import product
from discreet.learning.sgd.gradients import Array, Gradient, Outer, Rows, Shape

Pair = tuple[int, int]
Padding = Literal["valid", "same"]


def pair(value: int | Pair, name: str) -> Pair:
    """One whole number for both axes, or one for each.

    >>> pair(3, "size"), pair((2, 1), "size")
    ((3, 3), (2, 1))
    """
    both = value if isinstance(value, tuple) else (value, value)
    if len(both) != 2:
        raise InvalidParameter(name, value, "a whole number ≥ 1, or a pair of them (rows, columns)")
    return integer(both[0], name, at_least=1), integer(both[1], name, at_least=1)


def padded(padding: str) -> Padding:
    """Check the name of a padding.

    >>> padded("same")
    'same'
    """
    if padding == "valid":
        return "valid"
    if padding == "same":
        return "same"
    raise InvalidParameter("padding", padding, '"valid" (windows inside the image) or "same" (zeros around it)')


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows of one size over images of one shape: how many along each axis, and the zeros around the image.

    "same" has ⌈length/stride⌉ windows along an axis, the odd zero goes after; "valid" those that fit in.
    """

    size: Pair
    stride: Pair
    image: tuple[int, int, int]
    places: Pair
    before: Pair
    after: Pair

    @classmethod
    def over(cls, shape: tuple[int, ...], *, size: Pair, stride: Pair, padding: Padding) -> "Windows":
        """The windows over images of this shape."""
        if len(shape) != 3 or min(shape) < 1:
            raise InvalidParameter("shape", shape, "images of (height, width, channels)", "reshape the examples")
        if padding == "valid" and (shape[0] < size[0] or shape[1] < size[1]):
            raise InvalidParameter(
                "size", size, f"windows that fit in images of {shape[0]} × {shape[1]}", 'or use padding="same"'
            )
        rows, above, below = _along(shape[0], size[0], stride[0], padding)
        columns, left, right = _along(shape[1], size[1], stride[1], padding)
        return cls(size, stride, (shape[0], shape[1], shape[2]), (rows, columns), (above, left), (below, right))

    def surrounded(self, x: Array, value: float = 0.0) -> Array:
        """Images with the padding around them."""
        if self.before == (0, 0) and self.after == (0, 0):
            return x
        height, width, channels = self.image
        rows, columns = self._room()
        room = np.full((len(x), rows, columns, channels), value, np.float32)
        room[:, self.before[0] : self.before[0] + height, self.before[1] : self.before[1] + width] = x
        return room

    def empty(self, count: int) -> Array:
        """Zeros in the shape of images with the padding around them."""
        return np.zeros((count, *self._room(), self.image[2]), np.float32)

    def inside(self, room: Array) -> Array:
        """The images without the padding."""
        height, width, _ = self.image
        return room[:, self.before[0] : self.before[0] + height, self.before[1] : self.before[1] + width]

    def offsets(self) -> Iterator[Pair]:
        """Every place in a window."""
        for i in range(self.size[0]):
            for j in range(self.size[1]):
                yield i, j

    def slice(self, room: NDArray[np.float32], i: int, j: int) -> NDArray[np.float32]:
        """What stands at place (i, j) of every window, as a view."""
        rows = slice(i, i + (self.places[0] - 1) * self.stride[0] + 1, self.stride[0])
        columns = slice(j, j + (self.places[1] - 1) * self.stride[1] + 1, self.stride[1])
        return room[:, rows, columns]

    def _room(self) -> Pair:
        height, width, _ = self.image
        return self.before[0] + height + self.after[0], self.before[1] + width + self.after[1]


def _along(length: int, size: int, stride: int, padding: Padding) -> tuple[int, int, int]:
    """How many windows there are along one axis, and the zeros before and after."""
    if padding == "valid":
        return (length - size) // stride + 1, 0, 0
    places = -(-length // stride)
    zeros = max(0, (places - 1) * stride + size - length)
    return places, zeros // 2, zeros - zeros // 2


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
    result: Array = np.matmul(rows, weights) if places > 1 else product(rows[:, 0], weights)
    return result.reshape(count, places, weights.shape[1])


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


@dataclass(frozen=True, slots=True)
class Shifts:
    """Images moved by up to `reach` pixels up, down, left, right and both; what comes in from beyond is `fill`.

    The first copy is the image itself, nearer moves come before farther ones. With `mirror` every move is made twice,
    the second time with left and right exchanged: right for photographs, wrong for digits.

    >>> Shifts(1).moves[:5]
    ((0, 0), (-1, 0), (0, -1), (0, 1), (1, 0))
    """

    reach: int
    mirror: bool = False
    fill: float = 0.0

    def __post_init__(self) -> None:
        integer(self.reach, "reach", at_least=0, at_most=64)
        rational(self.fill, "fill")

    @property
    def moves(self) -> tuple[tuple[int, int], ...]:
        """Rows down and columns right, nearest first."""
        side = range(-self.reach, self.reach + 1)
        return tuple(sorted(((y, x) for y in side for x in side), key=lambda move: (abs(move[0]) + abs(move[1]), move)))

    @property
    def copies(self) -> int:
        """How many different copies there are; more begin anew.

        >>> Shifts(0, mirror=True).copies
        2
        """
        return (1 + self.mirror) * (2 * self.reach + 1) ** 2

    def __call__(self, images: Array, copy: int) -> Array:
        """The images (n, height, width, channels), all changed in the way of this copy.

        >>> Shifts(0, mirror=True)(np.array([[[[1.0], [2.0]]]], np.float32), 1).ravel().tolist()
        [2.0, 1.0]
        """
        if images.ndim != 4:
            raise InvalidData(f"images of shape {images.shape}, expected (n, height, width, channels)")
        number = integer(copy, "copy", at_least=0) % self.copies
        turned = images[:, :, ::-1] if self.mirror and number % 2 else images
        down, right = self.moves[number // (1 + self.mirror)]
        return _moved(turned, down, right, self.fill)


def _moved(images: Array, down: int, right: int, fill: float) -> Array:
    """Each image moved so many rows and columns; moved farther than it is wide, nothing of it is left."""
    result = np.full(images.shape, fill, np.float32)
    (to_row, from_row), (to_column, from_column) = _overlap(down, images.shape[1]), _overlap(right, images.shape[2])
    result[:, to_row, to_column] = images[:, from_row, from_column]
    return result


def _overlap(move: int, side: int) -> tuple[slice, slice]:
    """Where pixels go to, and where they come from."""
    left = max(0, side - abs(move))
    ahead, behind = slice(side - left, side), slice(0, left)
    return (ahead, behind) if move >= 0 else (behind, ahead)
