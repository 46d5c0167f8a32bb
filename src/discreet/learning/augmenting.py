"""Changed copies of images, for gradients that are the mean over several of them (`Recipe.copies`).

De, Berrada, Hayes, Smith, Balle 2022 ("Unlocking high-accuracy differentially private image classification"): an
example's gradients for its copies are averaged before they are clipped, so copies cost time and no privacy.

Guarantee: a copy depends on the image, on the public settings and on the copy's number alone. Nothing is drawn at
random while training: a draw for each place in a lot would let one example more or less change the copies of others,
and no bound on one example's influence would hold.

>>> import numpy as np
>>> from discreet.learning.augmenting import Shifts
>>> image = np.arange(4, dtype=np.float32).reshape(1, 2, 2, 1)
>>> shifts = Shifts(1)
>>> shifts.copies
9
>>> [shifts(image, copy)[0, :, :, 0].tolist() for copy in (0, 1)]
[[[0.0, 1.0], [2.0, 3.0]], [[2.0, 3.0], [0.0, 0.0]]]
"""

from dataclasses import dataclass

import numpy as np

from discreet.errors import InvalidData
from discreet.exact import integer, rational
from discreet.learning.gradients import Array


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
    found = np.full(images.shape, fill, np.float32)
    (to_row, from_row), (to_column, from_column) = _kept(down, images.shape[1]), _kept(right, images.shape[2])
    found[:, to_row, to_column] = images[:, from_row, from_column]
    return found


def _kept(move: int, side: int) -> tuple[slice, slice]:
    """Where pixels go to, and where they come from."""
    left = max(0, side - abs(move))
    ahead, behind = slice(side - left, side), slice(0, left)
    return (ahead, behind) if move >= 0 else (behind, ahead)
