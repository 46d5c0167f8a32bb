"""DP-SGD: Poisson lots, clipped gradients summed exactly, Gaussian noise rounded to the same grid, a step.

Abadi, Chu, Goodfellow, McMahan, Mironov, Talwar, Zhang 2016 ("Deep learning with differential privacy"), Algorithm 1.

>>> import numpy as np
>>> from discreet.learning.networks.layers import Dense
>>> from discreet.learning.networks.network import Network, Softmax
>>> from discreet.learning.sgd.recipe import Recipe, Sgd
>>> from discreet.learning.sgd.training import finished, train
>>> network = Network([Dense(2)], Softmax(), inputs=(3,))
>>> recipe = Recipe(rate="0.5", lot=2, steps=3, multiplier=1, clip=1, optimizer=Sgd("0.1"))
>>> state = train(network, np.eye(4, 3), np.array([0, 1, 0, 1]), recipe)
>>> state.step, len(state.losses), finished(state, recipe)[0].shape
(3, 3, (4, 2))
"""

import math
from collections.abc import Callable
from contextlib import nullcontext
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidData
from discreet.exact import integer
from discreet.learning.sgd.clipping import MOST, UNITS, Clip, Clipping, require_batch_invariance, shaped
from discreet.learning.sgd.gradients import Array, Augment, Floats, Ints, Parameters, Trainable
from discreet.learning.sgd.preprocessing import PrivatePca
from discreet.learning.sgd.recipe import Optimizer, Recipe
from discreet.learning.sgd.run_state import Checkpoint, Run, State, finished
from discreet.noise import DeterministicEntropy, Entropy, poisson_sample, uniform_below
from discreet.noise.normal import add_rounded_gaussian
from discreet.threads import blas_threads

__all__ = ["Augment", "Checkpoint", "State", "contributions", "finished", "step", "train"]

RIDERS = 2
"""Numbers that are released beside the gradients: the loss, and how many examples are within the clipping norm."""

_HEAP = 31 << 20
"""After a block of this size was freed, glibc keeps smaller ones on its heap instead of giving them back: without it,
every step would touch its arrays' pages anew, which can take longer than the arithmetic."""

_SMALLEST, _LARGEST = 1e-6, 1e6  # of an adaptive clipping norm


def train(
    network: Trainable,
    x: NDArray[Any],
    y: NDArray[Any],
    recipe: Recipe,
    *,
    entropy: Entropy | None = None,
    state: State | None = None,
    augment: Augment | None = None,
    each: Callable[[State], None] | None = None,
    pca: PrivatePca | None = None,
    checkpoint: Checkpoint | None = None,
    threads: int | None = 1,
) -> State:
    """Run a recipe to its end, from its start, from a state or from the checkpoint; `each` is called after each step.

    With a checkpoint, `each` is called after a step has been saved, not before: what nobody saw and nothing kept was
    not released, so a run that was killed goes on from its checkpoint at no cost. See `Checkpoint`.

    pca: train on private components of the examples, released first and kept in `State.projection`. threads: how many
    matrix products use; None leaves that to BLAS.

    Guarantee: all that `each` and the caller see costs `recipe.loss`, and `pca.loss` beside it. See `Recipe`.
    """
    x, y = _inputs(network, x, y, pca)
    holding = nullcontext() if checkpoint is None else checkpoint.open(network, recipe, x, y, pca=pca)
    with blas_threads(threads), holding as run:
        require_batch_invariance(network)
        np.empty(_HEAP, np.uint8)  # freed at once
        if state is None:
            state = run.state if run is not None and run.state is not None else State.start(network, recipe)
        if pca is not None:
            x = _projected(network, state, x, pca, entropy, run)
        while state.step < recipe.steps:
            _advance(network, state, x, y, recipe, entropy, augment)
            saved = run is None or run.save(state)
            if each is not None and saved:
                each(state)
    return state


def _inputs(
    network: Trainable, x: NDArray[Any], y: NDArray[Any], pca: PrivatePca | None
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Examples, before they are projected, and targets."""
    examples = network.examples(x) if pca is None else np.asarray(x)
    targets = network.loss.targets(np.asarray(y), network.outputs)
    if len(examples) != len(targets):
        raise InvalidData(f"{len(examples)} examples but {len(targets)} targets")
    return examples, targets


def _projected(
    network: Trainable, state: State, x: NDArray[Any], pca: PrivatePca, entropy: Entropy | None, run: Run | None
) -> NDArray[Any]:
    """The examples in private components: those of the state, or new ones, on disk before a step is made with them."""
    if state.projection is None:
        state.projection = pca.release(x, entropy=entropy)
        if run is not None:
            run.write(state)
    return network.examples(state.projection.apply(x))


def _advance(
    network: Trainable,
    state: State,
    x: Array,
    y: NDArray[Any],
    recipe: Recipe,
    entropy: Entropy | None,
    augment: Augment | None,
) -> None:
    """One step: a lot, its noisy sum, and what follows from it."""
    lot = poisson_sample(recipe.rate, len(x), entropy=entropy)
    total = contributions(network, state, x, y, lot, recipe, augment)
    add_rounded_gaussian(noise_deviation(recipe), total, entropy=entropy)
    step(state, total, recipe)


def noise_deviation(recipe: Recipe) -> Fraction:
    """The standard deviation of the noise on each entry of a step's sum, on the grid of `contributions`."""
    return recipe.multiplier * UNITS


def squared_reach(recipe: Recipe) -> Fraction:
    """The largest squared norm of what one example adds to a step's sum, on that grid: gradients, then riders."""
    return _gradient_share(recipe.riders) * UNITS**2 + sum(size**2 for size in _rider_sizes(recipe))


def contributions(
    network: Trainable,
    state: State,
    x: Array,
    y: NDArray[Any],
    lot: Ints,
    recipe: Recipe,
    augment: Augment | None = None,
) -> Ints:
    """What a lot adds up to, on the grid, as one vector: the gradients of each parameter, then the riders.

    Guarantee: one example more or less in the lot changes the whole by a vector of norm at most UNITS. Proof. What an
    example contributes depends on it alone (`layers`, `batch_invariance`), and sums of whole numbers are exact. Its
    gradients have norm at most √(1 − s)·UNITS (`clipped_sum`), its riders at most √s_j·UNITS each (`_riders`), with
    Σs_j = s.
    """
    total = np.zeros(sum(p.size for p in state.parameters) + RIDERS, np.int64)
    sums = shaped(total[:-RIDERS], state.parameters)
    clip = _clip(state.clip, len(sums) if recipe.per_layer else None)
    clipping = Clipping(clip, sums, share=_gradient_share(recipe.riders))
    for part in _parts(lot, state.parameters, recipe, network):
        with np.errstate(all="ignore"):  # a network that diverges gives NaN, which counts as nothing
            losses, gradients = network.mean_gradients(state.parameters, x[part], y[part], augment, recipe.copies)
        total[-RIDERS:] += _riders(losses, clipping.add(gradients), float(state.clip), recipe)
    return total


def _riders(losses: Array, norms: Floats, clip: float, recipe: Recipe) -> Ints:
    """Each example's loss, from 0 to the worst as 0 to 1, and whether its norm is below the clip, 1 or −1, added up.

    Guarantee: an example adds whole numbers of size at most √share·UNITS, exactly. Proof. In float64 a value of size
    at most 1 times ⌊√share·UNITS⌋ is rounded to at most that, because rounding is monotone, and cut towards zero; sums
    of whole numbers below 2⁵³ are exact in every order.
    """
    if not any(recipe.riders):
        return np.zeros(RIDERS, np.int64)
    with np.errstate(all="ignore"):
        level = losses.astype(np.float64) / float(recipe.worst_loss)
        level = np.clip(np.nan_to_num(level, nan=1.0), 0, 1)
    small = np.where(norms <= clip, 1.0, -1.0)
    sizes = _rider_sizes(recipe)
    return np.array([int(np.trunc(v * s).sum()) for v, s in zip((level, small), sizes, strict=True)], np.int64)


def _rider_sizes(recipe: Recipe) -> list[int]:
    """The most that an example adds to each rider."""
    return [math.isqrt(int(share * UNITS**2)) for share in recipe.riders]


def step(state: State, noisy: Ints, recipe: Recipe, units: int = UNITS) -> None:
    """What follows from a noisy sum, a vector as `contributions` has it: the next parameters and norm.

    `units` is the clipping norm on the grid of the sum. Post-processing: it costs nothing.

    >>> from discreet.learning.networks.layers import Dense
    >>> from discreet.learning.networks.network import Network, Softmax
    >>> from discreet.learning.sgd.recipe import Sgd
    >>> network = Network([Dense(2)], Softmax(), inputs=(3,))
    >>> recipe = Recipe(rate=1, lot=4, steps=3, multiplier=1, clip=1, optimizer=Sgd(1))
    >>> state = State.start(network, recipe)
    >>> step(state, np.zeros(10, np.int64), recipe)
    >>> state.step, state.losses
    (1, [0.0])
    """
    lot = float(recipe.lot)
    scale = float(state.clip) / (units * math.sqrt(_gradient_share(recipe.riders)) * lot)
    gradients = shaped(noisy[:-RIDERS].astype(np.float32) * np.float32(scale), state.parameters)
    with np.errstate(all="ignore"):
        recipe.optimizer.step(state.parameters, state.memory, gradients, state.step / recipe.steps)
        state.step += 1
        if recipe.average:
            _follow_parameters(state, recipe)
    _follow_riders(state, noisy[-RIDERS:] / (units * lot), recipe)


def _follow_parameters(state: State, recipe: Recipe) -> None:
    """The running average; in its first steps it forgets its start sooner."""
    decay = min(float(recipe.average), (1 + state.step) / (10 + state.step))
    for place, parameter in enumerate(state.parameters):
        state.average[place] += np.float32(1 - decay) * (parameter - state.average[place])


def _follow_riders(state: State, riders: NDArray[np.float64], recipe: Recipe) -> None:
    """Keep the learning curve, and move the adaptive norm: geometrically (Andrew et al. 2021, Algorithm 1)."""
    state.clips.append(float(state.clip))
    if recipe.curve:
        state.losses.append(float(riders[0]) / math.sqrt(recipe.curve) * float(recipe.worst_loss))
    if recipe.adaptive is not None:
        below = (1 + float(riders[1]) / math.sqrt(recipe.adaptive.share)) / 2
        change = math.exp(-float(recipe.adaptive.speed) * (min(max(below, 0.0), 1.0) - float(recipe.adaptive.quantile)))
        state.clip = Fraction(min(max(float(state.clip) * change, _SMALLEST), _LARGEST))


@lru_cache(maxsize=16)
def _clip(norm: Fraction, layers: int | None) -> Clip:
    return Clip(norm, shares=[Fraction(1, layers)] * layers if layers else None)


@lru_cache(maxsize=16)
def _gradient_share(riders: tuple[Fraction, ...]) -> Fraction:
    """The share of the squared norm that the riders leave to the gradients."""
    return Fraction(1 - sum(riders))


def _parts(lot: Ints, parameters: Parameters, recipe: Recipe, network: Trainable) -> list[Ints]:
    """The lot in parts that fit the memory; sums on the grid do not depend on where it is cut."""
    if recipe.copies == 1 and not getattr(network, "forms_gradients", True):
        each = 16 * sum(sum(p.shape) for p in parameters)  # both sides of outer products, and copies on the way
    else:
        each = 4 * sum(p.size for p in parameters)
    size = max(1, min(recipe.memory // max(each, 1), network.part or len(lot), MOST))
    return [lot[start : start + size] for start in range(0, len(lot), size)]


def train_without_privacy(
    network: Trainable, x: Array, y: NDArray[Any], optimizer: Optimizer, *, lot: int, steps: int, seed: int = 1
) -> Parameters:
    """The same training without privacy, to compare with on public data. **What it returns tells about the rows.**

    >>> from discreet.learning.networks.layers import Dense
    >>> from discreet.learning.networks.network import Network, Softmax
    >>> from discreet.learning.sgd.recipe import Sgd
    >>> network = Network([Dense(2)], Softmax(), inputs=(2,))
    >>> x, y = np.array([[1, 0], [0, 1]] * 50), np.array([0, 1] * 50)
    >>> parameters = train_without_privacy(network, x, y, Sgd(1), lot=10, steps=50)
    >>> bool((network.predict(parameters, x).argmax(axis=1) == y).all())
    True
    """
    x, y = network.examples(x), network.loss.targets(np.asarray(y), network.outputs)
    size, count = integer(lot, "lot", at_least=1), integer(steps, "steps", at_least=1)
    entropy = DeterministicEntropy(seed)
    parameters = network.start(seed=seed)
    memory = optimizer.memory(parameters)
    with blas_threads(1):
        for step in range(count):
            chosen = np.asarray(uniform_below(len(x), size, entropy=entropy))
            _, gradients = network.gradients(parameters, x[chosen], y[chosen])
            means = [gradient.summed() / np.float32(size) for gradient in gradients]
            optimizer.step(parameters, memory, means, step / count)
    return parameters
