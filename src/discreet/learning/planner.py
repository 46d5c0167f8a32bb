"""From words to a `TrainingPlan`: what a model builder says, and what follows from it and from the policy."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from discreet.curator.catalog import Catalog
from discreet.errors import InvalidParameter
from discreet.exact import Number, integer, rational
from discreet.learning.features import Features, Target
from discreet.learning.model import Shape
from discreet.learning.optimizers import Optimizer, Sgd
from discreet.learning.plan import TrainingPlan
from discreet.learning.recipe import Recipe
from discreet.learning.schedule import Schedule
from discreet.privacy.calibration import sampled_gaussian_multiplier

_LEAST_SIGNAL = Fraction(1, 20)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a model builder says. `examples` is the public, rough number of units: it sets the rate and costs nothing.

    Settings that are not said are fixed here, for every dataset alike, and not tuned on data: lots of a tenth of the
    examples, 20 epochs, clipping at norm 1, a learning rate of 0.5 that falls to a tenth of it, momentum 0.9.
    """

    table: str
    target: str
    features: Sequence[str] | None = None
    epsilon: Number
    delta: Number
    examples: int
    hidden: Sequence[int] = (32,)
    activation: str = "tanh"
    epochs: Number = 20
    lot: int | None = None
    clip: Number = 1
    optimizer: Optimizer = field(
        default_factory=lambda: Sgd("0.5", momentum="0.9", schedule=Schedule("linear", last="0.1"))
    )
    settings: dict[str, Any] = field(default_factory=dict)


def plan(wish: Wish, catalog: Catalog) -> TrainingPlan:
    """The plan of a wish, against the owner's catalog. No row is read.

    >>> from discreet.curator.catalog import Column, Table
    >>> from discreet.privacy.unit import Unit
    >>> columns = [Column("age", "integer", lower=0, upper=100), Column("ill", "boolean")]
    >>> catalog = Catalog("clinic", [Table("people", columns, unit=Unit())], neighbors="add or remove one")
    >>> made = plan(Wish(table="people", target="ill", epsilon=1, delta="1e-6", examples=10_000, epochs=5), catalog)
    >>> made.recipe.steps, float(made.recipe.multiplier) > 1
    (50, True)
    """
    table = catalog.table(wish.table)
    target = Target(table.column(wish.target))
    names = wish.features if wish.features is not None else _all_but(table, wish.target)
    features = Features(tuple(table.column(name) for name in names))
    recipe = _recipe(wish)
    epsilon, delta = rational(wish.epsilon, "epsilon", above=0), rational(wish.delta, "delta", above=0, below=1)
    hidden = tuple(integer(width, "hidden", at_least=1, at_most=100_000) for width in wish.hidden)
    shape = Shape(features, target, hidden, wish.activation)
    return TrainingPlan(table, shape, recipe, catalog.neighbors, epsilon, delta)


def _recipe(wish: Wish) -> Recipe:
    examples = integer(wish.examples, "examples", at_least=1)
    lot = integer(wish.lot if wish.lot is not None else max(1, examples // 10), "lot", at_least=1, at_most=examples)
    rate = Fraction(lot, examples)
    steps = max(1, round(rational(wish.epochs, "epochs", above=0) / rate))
    multiplier = sampled_gaussian_multiplier(epsilon=wish.epsilon, delta=wish.delta, rate=rate, steps=steps)
    if multiplier / lot > _LEAST_SIGNAL:
        noise = f"noise of {float(multiplier / lot):.2g} clipping norms in every coordinate of a mean gradient"
        raise InvalidParameter(
            "epsilon", wish.epsilon, f"more, for {examples} examples ({noise})", "spend more, or train on more examples"
        )
    clip, size = rational(wish.clip, "clip", above=0), Fraction(lot)
    return Recipe(
        rate=rate,
        lot=size,
        steps=steps,
        multiplier=multiplier,
        clip=clip,
        optimizer=wish.optimizer,
        **wish.settings,
    )


def _all_but(table: Any, target: str) -> list[str]:
    """Every column but the target and the one that names the person."""
    key = table.unit.key if table.unit is not None else None
    left = {target.casefold(), (key or "").casefold()}
    return [column.name for column in table.columns if column.name.casefold() not in left]
