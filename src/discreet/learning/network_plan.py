"""How a network is trained privately where nobody says, and when it is refused: from public facts alone.

The gate and the estimators both plan here. The figures were chosen on generated tables
(docs/decisions/0040-one-planner-for-networks.md); no row of the table at hand has a part in them.
"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from discreet.errors import InvalidParameter
from discreet.exact import Number, integer, plain, rational
from discreet.learning.networks.network import Loss as Objective
from discreet.learning.networks.network import Network, Squared, dense_network
from discreet.learning.sgd.recipe import Optimizer, Recipe, Schedule, Sgd
from discreet.privacy.calibration import gaussian_multiplier

_LOT, _WIDTH = 4800, 32
_HIDDEN_FROM = 25  # rows for each feature and deviation: from here on there is a hidden layer
_RATES = ((120, Fraction(1, 4)), (300, Fraction(1)), (math.inf, Fraction(2)))  # learning rates below so many of them
_HOPELESS, _DOUBTFUL = 0.5, 0.1  # norms of noise over that of gradients which all agree


@dataclass(frozen=True, slots=True)
class NetworkDefaults:
    """The settings of a training run that nobody stated."""

    hidden: tuple[int, ...]
    learning_rate: Fraction
    lot: int
    steps: int = 300
    activation: str = "relu"
    clip: int = 1
    momentum: Fraction = Fraction(9, 10)
    average: Fraction = Fraction(19, 20)


def network_defaults(
    *, examples: int, epsilon: Number, delta: Number, features: int, number: bool = False
) -> NetworkDefaults:
    """The settings for so many rows and features (numbers in each row) within (ε, δ).

    What counts is how many rows there are for each feature and for each standard deviation of the noise that one
    release within (ε, δ) needs. Few of them cannot teach a hidden layer, and many allow large steps. A `number` is
    learned with smaller steps than classes are.

    >>> [network_defaults(examples=n, epsilon=1, delta="1e-6", features=20).hidden for n in (2000, 20_000)]
    [(), (32,)]
    >>> [str(network_defaults(examples=n, epsilon=1, delta="1e-6", features=20).learning_rate) for n in (2000, 20_000)]
    ['1/4', '1']
    """
    noise = gaussian_multiplier(epsilon=epsilon, delta=delta, method="analytic")
    signal = examples / (features * float(noise))
    rate = next(rate for below, rate in _RATES if signal < below) / (2 if number else 1)
    return NetworkDefaults(() if signal < _HIDDEN_FROM else (_WIDTH,), rate, min(examples, _LOT))


@dataclass(frozen=True, slots=True, eq=False)
class NetworkPlan:
    """A network, in words and as it is trained, and how it is trained."""

    hidden: tuple[int, ...]
    activation: str
    network: Network
    recipe: Recipe


def plan_network(
    *,
    epsilon: Number,
    delta: Number,
    examples: int,
    features: int,
    outputs: int,
    objective: Objective,
    hidden: Sequence[int] | None = None,
    activation: str | None = None,
    lot: int | None = None,
    steps: int | None = None,
    epochs: Number | None = None,
    optimizer: Optimizer | None = None,
    **settings: Any,
) -> NetworkPlan:
    """The network and its recipe; what is None is set by `network_defaults`. No row is read.

    Where `epochs` are counted and no lot is stated, a lot is a tenth of the examples: 20 epochs are 200 steps then.
    `learning_rate` and `momentum` are for the optimizer where none is given; further settings are those of `Recipe`.
    """
    rows = integer(examples, "examples", at_least=1)
    budget = {"epsilon": rational(epsilon, "epsilon", above=0), "delta": rational(delta, "delta", above=0, below=1)}
    number = isinstance(objective, Squared)
    defaults = network_defaults(examples=rows, features=features, number=number, **budget)
    hidden = defaults.hidden if hidden is None else hidden
    activation = defaults.activation if activation is None else activation
    network = dense_network(features, hidden, activation, outputs, objective)
    stated: dict[str, Any] = {"clip": defaults.clip, "average": defaults.average}
    stated |= budget | {name: value for name, value in settings.items() if value is not None}
    rate = stated.pop("learning_rate", defaults.learning_rate)
    momentum = stated.pop("momentum", defaults.momentum)
    if lot is None:
        lot = defaults.lot if epochs is None else max(1, rows // 10)
    if steps is None and epochs is None and "multiplier" not in stated:
        steps = defaults.steps
    recipe = Recipe.for_budget(
        rate=Fraction(integer(lot, "lot", at_least=1, at_most=rows), rows),
        examples=rows,
        steps=steps,
        epochs=epochs,
        optimizer=Sgd(rate, momentum, Schedule("linear")) if optimizer is None else optimizer,
        **stated,
    )
    return NetworkPlan(tuple(hidden), activation, network, recipe)


def noise_to_signal(recipe: Recipe, parameters: int) -> float:
    """The norm of the noise in the mean of all gradients of a run, in clipping norms; rows that all agree would give 1.

    >>> recipe = Recipe(rate=1, lot=100, steps=100, multiplier=10, clip=1, optimizer=Sgd(1))
    >>> round(noise_to_signal(recipe, 10_000), 6)
    1.0
    """
    return float(recipe.multiplier / recipe.lot) * math.sqrt(parameters / recipe.steps)


def expected_noise(recipe: Recipe, network: Network) -> str:
    """How noisy a run will be, in words."""
    count = _size(network)
    each, whole = float(recipe.multiplier / recipe.lot), noise_to_signal(recipe, count)
    return (
        f"{count:,} parameters; noise in a mean gradient {each:.2g} clipping norms in each, "
        f"over the run {whole:.2g} of the most that all rows together could say"
    )


def require_signal(recipe: Recipe, network: Network, epsilon: Number, *, stacklevel: int) -> None:
    """Refuse a run whose noise drowns what the rows could say; warn where it is of that order."""
    noise = noise_to_signal(recipe, _size(network))
    advice = "take fewer parameters (a smaller `hidden`, fewer columns), more rows, or a larger ε"
    if noise > _HOPELESS:
        hint = f"{expected_noise(recipe, network)}; {advice}"
        examples = plain(recipe.lot / recipe.rate)
        raise InvalidParameter("epsilon", epsilon, f"more, for {examples} examples and so many parameters", hint)
    if noise > _DOUBTFUL:
        warnings.warn(f"expect little: {expected_noise(recipe, network)}; {advice}", stacklevel=stacklevel + 1)


def _size(network: Network) -> int:
    return sum(parameter.size for parameter in network.start(seed=0))
