"""Our own models and our own training, as the attacks on membership take them: what joins `learning` and `attacks`.

- `attacks_on` a saved model, from rows that it was trained on and rows that it was not;
- `canaries` in a training run, an audit of DP-SGD as it is built: is ε at most what the recipe says?

>>> from discreet.gallery.models import canaries
>>> from discreet.learning.recipe import Recipe, Sgd
>>> recipe = Recipe(rate=1, lot=100, steps=4, multiplier=4, clip=1, optimizer=Sgd(1))
>>> found = canaries(recipe, delta="1e-5", count=400, seed=1).find()
>>> found.broken, round(float(found.claimed), 2)
(False, 1.99)
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, isqrt, sqrt
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from discreet.attacks.membership import (
    CanaryGradients,
    GradientNorm,
    Lira,
    LossThreshold,
    MembershipAttack,
    References,
    Rmia,
    coins,
)
from discreet.attacks.membership.references import Progress
from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import Number, integer
from discreet.learning.gradients import Array, Ints, Outer
from discreet.learning.layers import Dense
from discreet.learning.losses import Squared
from discreet.learning.model import Model, Shape
from discreet.learning.network import Network, Parameters
from discreet.learning.optimizers import Adam, Sgd
from discreet.learning.plain import train_without_privacy
from discreet.learning.recipe import Recipe
from discreet.learning.training import State, train
from discreet.noise import Entropy
from discreet.privacy.accounting import guarantee

Floats = NDArray[np.float64]

_LOUD = 1024.0  # how far a canary's gradient exceeds the clipping norm, and its weight the bias
_STILL = 1e-4  # how far all steps together may move a canary's own output, in parts of what is asked of it
_LOT, _EPOCHS, _FEWEST, _RATE = 64, 30, 400, "0.01"  # of models that are trained to compare with


# --- a training run -----------------------------------------------------------------------------------------------


class Training(Protocol):
    """Anything that is called as `learning.training.train` is: that, or one with a planted leak."""

    def __call__(
        self,
        network: Network,
        x: Array,
        y: NDArray[Any],
        recipe: Recipe,
        *,
        entropy: Entropy | None,
        state: State | None,
        each: Callable[[State], None] | None,
    ) -> State:
        """Run the recipe to its end, from the state; `each` sees every step."""
        ...


def canaries(
    recipe: Recipe,
    *,
    delta: Number,
    count: int = 2048,
    confidence: Number = 0.95,
    seed: int = 0,
    entropy: Entropy | None = None,
    trainer: Training = train,
    against: str = "",
) -> CanaryGradients:
    """Train by the recipe on canaries, each put in by a fair coin; the attack that looks for them in every step.

    A canary is an example whose gradient is far longer than the clipping norm and lies in one weight of its own. So it
    adds one clipping norm to that weight in every lot that it is in, which is all that an example may do: the audit
    uses up what the recipe allows. Steps are kept so small that canaries stay as they are; optimizers are
    post-processing. A recipe without sampling is as private as one Gaussian release, and held to that.

    Guarantee: if the training is as private as the recipe says, the bound that the attack finds exceeds the claim with
    probability at most 1 − confidence. Proof. Each coin decides about one example, so leaving it out gives a neighbor;
    scores are made from parameters that the training shows; then `onerun`. With rate 1 the run is a composition of
    Gaussian releases, so within a Gaussian curve (Dong, Roth, Su 2022, corollary 3.3); what is rounded to the grid
    follows from it.
    """
    integer(count, "count", at_least=64)
    inside = coins(count, seed=seed)
    side = isqrt(count - 1) + 1
    network = Network([Dense(ceil(count / side))], Squared(), (side,))
    x, y = _loud(network, np.flatnonzero(inside), float(recipe.clip))
    seen = _watched(network, x, y, recipe, trainer, entropy)
    claimed = guarantee(recipe.loss, delta=delta).epsilon
    return CanaryGradients(
        directions=None,
        observed=seen[:, :count],
        members=inside,
        against=against or f"{recipe.steps:,} steps of DP-SGD",
        design="coins",
        curve="gaussian" if recipe.rate == 1 else "any",
        claimed=(claimed, delta),
        confidence=confidence,
        rate=recipe.rate,
        noise=float(recipe.multiplier) / sqrt(1 - sum(recipe.riders)),
        seed=seed,
    )


def _loud(network: Network, which: Ints, clip: float) -> tuple[Array, Array]:
    """Example k has the gradient −e_i ⊗ e_j, k = i·width + j, times `_LOUD` clipping norms."""
    (inputs,), (width,) = network.inputs, network.outputs
    x, y = np.zeros((len(which), inputs), np.float32), np.zeros((len(which), width), np.float32)
    x[np.arange(len(which)), which // width] = _LOUD
    y[np.arange(len(which)), which % width] = clip
    return x, y


def _watched(
    network: Network, x: Array, y: Array, recipe: Recipe, trainer: Training, entropy: Entropy | None
) -> Floats:
    """What each step added to each weight, in clipping norms (steps × weights), from zero parameters."""
    lot = float(recipe.lot)
    step = _STILL * lot / (_LOUD * recipe.steps * (1 + float(recipe.multiplier)))
    quiet = replace(recipe, optimizer=Sgd(step), average=Fraction(0))
    state = State.start(network, quiet)
    state.parameters[0][...] = 0
    seen, before = [], np.zeros(state.parameters[0][:-1].size)

    def each(now: State) -> None:
        nonlocal before
        here = now.parameters[0][:-1].ravel().astype(np.float64)
        seen.append((here - before) * lot / (step * now.clips[-1]))
        before = here

    trainer(network, x, y, quiet, entropy=entropy, state=state, each=each)
    return np.array(seen)


# --- a trained model ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Targets:
    """Rows as a model reads them: first those that it was trained on, then the others, then a population."""

    x: Array
    y: NDArray[Any]
    members: NDArray[np.bool_]
    people: int

    @classmethod
    def of(cls, shape: Shape, members: Any, others: Any, population: Any = None) -> "Targets":
        """Encode tables; rows without a target are left out."""
        parts = [_encoded(shape, table) for table in (members, others)]
        inside = np.repeat([True, False], [len(part[1]) for part in parts])
        parts += [] if population is None else [_encoded(shape, population)]
        return cls(np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts]), inside, len(inside))

    @property
    def shared(self) -> int:
        """How many of the others look exactly like a member: twins, or people who are on two sides by mistake."""
        rows = np.column_stack([self.x, self.y])[: self.people] + 0.0
        known = {row.tobytes() for row in rows[self.members]}
        return sum(row.tobytes() in known for row in rows[~self.members])


def attacks_on(
    model: Model,
    targets: Targets,
    *,
    references: References | None = None,
    **settings: Any,
) -> list[MembershipAttack]:
    """Every attack that these rows and references allow, on one model; settings are those of `MembershipAttack`.

    With references (of the same targets, population last) LiRA; with a population RMIA too.
    """
    said = log_confidences(model.shape.network, model.parameters, targets.x, targets.y)
    people = np.arange(targets.people)
    known: dict[str, Any] = {"members": targets.members, **settings}
    mine = said[people]
    slopes = gradient_norms(model.shape.network, model.parameters, targets.x[people], targets.y[people])
    found: list[MembershipAttack] = [LossThreshold(losses=-mine, **known), GradientNorm(gradients=slopes, **known)]
    if references is None:
        return found
    if model.classes is None:
        raise InvalidParameter("references", references.count, "0 for a model that predicts a number")
    of_people = references.of_targets(people)
    found.append(Lira(confidences=mine, references=of_people, **known))
    if len(said) > targets.people:
        others = np.arange(targets.people, len(said))
        world: dict[str, Any] = {"population": said[others], "population_references": references.of_targets(others)}
        found.append(Rmia(confidences=mine, references=of_people, **world, **known))
    return found


def reference_models(
    shape: Shape, targets: Targets, *, count: int, seed: int, progress: Progress | None = None
) -> References:
    """Models of the same shape, trained without privacy, each on an evenly drawn half: who was in plays no part."""

    def trainer(indices: Ints, seed: int, /) -> "_Answering":
        model = without_privacy(shape, targets.x[indices], targets.y[indices], seed=seed)
        return _Answering(shape.network, model.parameters)

    return References.train(trainer, targets.x, targets.y, count=count, seed=seed, progress=progress)


def without_privacy(shape: Shape, x: Array, y: NDArray[Any], *, seed: int) -> Model:
    """A model of this shape, trained on the rows as if nobody cared: to compare with."""
    steps = max(_FEWEST, ceil(_EPOCHS * len(x) / _LOT))
    parameters = train_without_privacy(shape.network, x, y, Adam(_RATE), lot=_LOT, steps=steps, seed=seed)
    return Model(shape, parameters)


def log_confidences(network: Network, parameters: Parameters, x: Array, y: NDArray[Any]) -> Floats:
    """ln p(y | x) of classes; minus the loss of numbers."""
    output = network.predict(parameters, x).astype(np.float64)
    if isinstance(network.loss, Squared):
        return np.asarray(-np.square(output[:, 0] - y) / 2)
    from scipy.special import log_softmax

    return np.asarray(log_softmax(output, axis=1)[np.arange(len(y)), y])


def gradient_norms(network: Network, parameters: Parameters, x: Array, y: NDArray[Any]) -> Floats:
    """The norm of each row's gradient, over all parameters."""
    _, gradients = network.gradients(parameters, network.examples(x), network.loss.targets(y, network.outputs))
    squares = np.zeros(len(x))
    for gradient in gradients:
        sides = [np.square(side.astype(np.float64)).sum(axis=1) for side in gradient.sides]
        if isinstance(gradient, Outer) and gradient.one:
            sides[0] += 1  # the input of the biases
        squares += np.prod(sides, axis=0)
    return np.asarray(np.sqrt(squares))


@dataclass(frozen=True, slots=True, eq=False)
class _Answering:
    network: Network
    parameters: Parameters

    def scores(self, x: Array, y: NDArray[Any], /) -> Floats:
        return log_confidences(self.network, self.parameters, x, y)


def _encoded(shape: Shape, table: Any) -> tuple[Array, NDArray[Any]]:
    x, (y, known) = shape.features.encode(table), shape.target.encode(table)
    if not known.any():
        raise InvalidData(f"no row has a known {shape.target.column.name!r}")
    return x[known], y[known]
