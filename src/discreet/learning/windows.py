"""Where the windows of convolutions and pooling lie in an image.

>>> from discreet.learning.windows import Windows
>>> windows = Windows.over((28, 28, 1), size=(8, 8), stride=(2, 2), padding="same")
>>> windows.places, windows.before, windows.after
((14, 14), (3, 3), (3, 3))
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.exact import integer
from discreet.learning.gradients import Array

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
