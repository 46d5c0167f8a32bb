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

White box, canary gradients: plant gradients of one's own in training, and look for them in what training gives away.

The strongest attack that differentially private training allows: a canary is a gradient in a direction of its own; the
noisy gradients (or the final update) along that direction tell whether it was in (Nasr et al. 2023, "Tight auditing of
differentially private machine learning"; Andrew et al. 2024, "One-shot empirical privacy estimation for federated
learning"; Steinke, Nasr, Jagielski 2023). Each canary is put in by a fair coin, so one run bounds ε.

>>> import numpy as np
>>> from discreet.attacks.membership import CanaryGradients, coins, directions
>>> planted, inside = directions(300, 2000, norm=1, seed=1), coins(300, seed=2)
>>> without_noise = planted[inside].sum(axis=0)
>>> result = CanaryGradients(
...     directions=planted, observed=without_noise, members=inside, design="coins", claimed=(1, "1e-5")
... ).find()
>>> result.broken
True
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from discreet.attacks.membership.attack import MembershipAttack
from discreet.attacks.membership.scores import Bools, Floats, numbers
from discreet.errors import InvalidData
from discreet.exact import Number, integer, rational

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


_MOST = 4_000_000  # numbers that are made orthogonal


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CanaryGradients(MembershipAttack):
    """`directions` of the canaries (canaries × weights); `observed` is what training gives away.

    `observed` is the sum of noisy gradients, or one for each step (steps × weights); a canary that is in adds its
    direction to it. Of a model that was updated by gradient descent, pass minus the update. Without `directions` canary
    i is weight i alone, and adds 1 to it.

    Where each step takes a canary with probability `rate` only, and `noise`, its standard deviation in every weight, is
    known, as both are in public recipes, steps are weighed by their likelihood: no test of them is better (Neyman,
    Pearson 1933). Otherwise they are added up.
    """

    directions: ArrayLike | None
    observed: ArrayLike
    rate: Number = 1
    noise: Number | None = None

    attack: ClassVar[str] = "canary gradients"
    sees: ClassVar[str] = "noisy gradients or the update (white box)"

    def scores(self) -> Floats:
        """For each canary the sum of what was observed along it, or the logarithm of its likelihood ratio."""
        given = np.asarray(self.observed)
        steps = np.atleast_2d(numbers(given, "observed", dimensions=2 if given.ndim == 2 else 1))
        rate = float(rational(self.rate, "rate", above=0, at_most=1))
        if self.noise is None or rate == 1:
            return self._along(steps.sum(axis=0))
        spread = float(rational(self.noise, "noise", above=0))
        length = self._lengths()
        total = np.zeros(len(self._along(steps[0])))
        for step in steps:
            ratio = (self._along(step) * length - length**2 / 2) / spread**2
            total += np.logaddexp(np.log1p(-rate), np.log(rate) + ratio)
        return total

    def _along(self, way: Floats) -> Floats:
        if self.directions is None:
            return way
        return along(self.directions, way, scaled=True, name="directions")

    def _lengths(self) -> Floats:
        return np.ones(1) if self.directions is None else norms(numbers(self.directions, "directions", dimensions=2))


def coins(count: int, *, seed: int) -> Bools:
    """Who is in: a fair coin for each. Keep the seed from whoever trains.

    >>> coins(4, seed=1).tolist()
    [True, False, False, True]
    """
    integer(count, "count", at_least=1)
    return np.asarray(np.random.default_rng([integer(seed, "seed", at_least=0), 7]).random(count) < 0.5)


def directions(count: int, weights: int, *, norm: Number, seed: int) -> Floats:
    """Random directions of this length.

    They stand at right angles to one another where there are no more of them than weights and both are not too many;
    else nearly so, if weights are many more.

    >>> rows = directions(3, 5, norm=2, seed=1)
    >>> np.allclose(rows @ rows.T, 4 * np.eye(3))
    True
    """
    integer(count, "count", at_least=1)
    integer(weights, "weights", at_least=1)
    length = float(rational(norm, "norm", above=0))
    rows = np.random.default_rng([integer(seed, "seed", at_least=0), 4]).normal(size=(count, weights))
    if count <= weights and count * weights <= _MOST:
        rows = np.linalg.qr(rows.T)[0].T
    return np.asarray(length * rows / norms(rows)[:, None])


def check_norms(rows: ArrayLike, *, most: Number) -> None:
    """Refuse canaries that are longer than clipping would leave them: they would overstate the loss of a right build.

    >>> check_norms([[3.0, 4.0]], most=5)
    """
    limit = float(rational(most, "most", above=0))
    longer = int((norms(numbers(rows, "directions", dimensions=2)) > limit * (1 + 1e-9)).sum())
    if longer:
        raise InvalidData(f"directions: {longer} canaries are longer than the clipping norm; shorten them")
