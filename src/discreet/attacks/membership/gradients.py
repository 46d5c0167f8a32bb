"""White box: who sees the weights can compute each target's gradient, and how the weights moved along it.

- `GradientNorm`: at the trained weights, the loss of a member is nearly flat (Nasr, Shokri, Houmansadr 2019,
  "Comprehensive privacy analysis of deep learning").
- `GradientAlignment`: training moved the weights against the gradients of its members; the dot product of that way
  with a target's gradient tells whether it was among them.

>>> import numpy as np
>>> from discreet.attacks.membership import GradientAlignment
>>> rng = np.random.default_rng(1)
>>> inside, gradients = np.arange(200) < 100, rng.normal(size=(200, 500))
>>> update = -0.1 * gradients[inside].sum(axis=0)
>>> GradientAlignment(gradients=gradients, update=update, members=inside).run().verdict
'falls'
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from discreet.attacks.membership.attack import MembershipAttack
from discreet.attacks.membership.scores import Floats, numbers
from discreet.errors import InvalidData

_SEES = "weights (white box)"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GradientNorm(MembershipAttack):
    """`gradients` of the loss at the trained weights: targets × weights, or their norms.

    >>> inside = np.arange(100) < 50
    >>> GradientNorm(gradients=np.where(inside, 0.1, 2.0), members=inside).find().auc().value
    1.0
    """

    gradients: ArrayLike

    attack: ClassVar[str] = "gradient norm"
    sees: ClassVar[str] = _SEES

    def scores(self) -> Floats:
        """Minus the norm."""
        given = np.asarray(self.gradients)
        if given.ndim == 1:
            return np.asarray(-np.abs(numbers(given, "gradients", infinite=True)))
        return np.asarray(-norms(numbers(given, "gradients", dimensions=2)))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GradientAlignment(MembershipAttack):
    """`gradients` of the targets where training began (targets × weights); `update` is the way from there to the end.

    `scaled` divides by each gradient's norm, as clipping would.
    """

    gradients: ArrayLike
    update: ArrayLike
    scaled: bool = True

    attack: ClassVar[str] = "gradient alignment"
    sees: ClassVar[str] = _SEES

    def scores(self) -> Floats:
        """How far the weights moved against each target's gradient."""
        return along(self.gradients, -numbers(self.update, "update"), scaled=self.scaled, name="gradients")


def along(directions: ArrayLike, way: Floats, *, scaled: bool, name: str) -> Floats:
    """The dot product of each direction with a way.

    >>> along([[3.0, 4.0]], np.array([1.0, 1.0]), scaled=True, name="directions").tolist()
    [1.4]
    """
    rows = numbers(directions, name, dimensions=2)
    if rows.shape[1] != len(way):
        raise InvalidData(f"{name}: {rows.shape[1]} weights, but the way has {len(way)}")
    product = rows @ way
    return np.asarray(product / np.maximum(norms(rows), 1e-300) if scaled else product)


def norms(rows: Floats) -> Floats:
    """The Euclidean length of each row.

    >>> norms(np.array([[3.0, 4.0]])).tolist()
    [5.0]
    """
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", rows, rows)))
