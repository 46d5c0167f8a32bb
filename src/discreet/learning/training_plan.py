"""A training run through the gate: explained, priced, charged, run. The model is all that leaves.

One example is one unit: where the policy protects a person, one of their rows is used, the first in the order of the
columns used. So one unit more or less is one example more or less, and the run costs what its recipe says.

How a network is trained privately where nobody says, and when it is refused: from public facts alone.

The gate and the estimators both plan here. The figures were chosen on generated tables
(docs/decisions/0040-one-planner-for-networks.md); no row of the table at hand has a part in them.
"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.curator.answer import Receipt
from discreet.curator.catalog import Catalog, Column, Table
from discreet.curator.contribution_draw import one_row_each, require_same
from discreet.curator.engines import Engine
from discreet.curator.engines.dialects import dialect_of
from discreet.curator.plan import PrivatePlan, documented, plan_document, require_price
from discreet.errors import InternalError, InvalidData, InvalidParameter, NoiseWarning
from discreet.exact import Number, integer, plain, rational, text_up
from discreet.learning.classical import DecisionTreeClassifier, LinearRegression, LogisticRegression, Ridge
from discreet.learning.column_model import ClassicalShape, ColumnModel, Features, Shape, Target, packed, unpacked
from discreet.learning.networks.network import Loss as Objective
from discreet.learning.networks.network import Network, Squared, dense_network
from discreet.learning.sgd.clipping import UNITS
from discreet.learning.sgd.gradients import Array, Parameters
from discreet.learning.sgd.recipe import Adam, Adaptive, Optimizer, Recipe, Schedule, Sgd
from discreet.learning.sgd.training import finished, noise_deviation, squared_reach, train
from discreet.noise import Entropy
from discreet.privacy.budget import Spent
from discreet.privacy.calibration import gaussian_multiplier
from discreet.privacy.loss import Loss, Repeated, SampledGaussian
from discreet.privacy.unit import Neighbors
from discreet.report import Chart, Facts, Heading, Line, Page, Part
from discreet.requests import Training

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
        f"{count:,} parameters; noise of {each:.2g} clipping norms in each mean gradient; "
        f"over the run, {whole:.2g} of the largest possible signal of all rows"
    )


def require_signal(recipe: Recipe, network: Network, epsilon: Number, *, stacklevel: int) -> None:
    """Refuse a run whose noise drowns what the rows could say; warn where it is of that order."""
    noise = noise_to_signal(recipe, _size(network))
    advice = "take fewer parameters (a smaller `hidden`, fewer columns), more rows, or a larger ε"
    if noise > _HOPELESS:
        hint = f"{expected_noise(recipe, network)}; {advice}"
        examples = plain(recipe.lot / recipe.rate)
        raise InvalidParameter("epsilon", epsilon, f"a larger ε for {examples} examples and this many parameters", hint)
    if noise > _DOUBTFUL:
        words = f"expect little: {expected_noise(recipe, network)}; {advice}"
        warnings.warn(words, NoiseWarning, stacklevel=stacklevel + 1)


def _size(network: Network) -> int:
    return sum(parameter.size for parameter in network.start(seed=0))


@dataclass(frozen=True, slots=True)
class ClassicalRecipe:
    """How a classical model of a `Shape` is learned: its budget, its settings, and what that costs.

    `examples` is the public, rough number of units: a budget that cannot work is refused. `penalty` is ‖w‖²/2C of a
    logistic model's C, `depth` that of a tree.
    """

    epsilon: Fraction
    delta: Fraction
    examples: int
    depth: int = 4
    C: Fraction = Fraction(1)

    def loss(self, shape: ClassicalShape) -> Loss:
        """What `fit` will cost, from the settings and the columns alone."""
        model, sizes = self.estimator(shape, None), self._sizes(shape)
        return model.plan().loss if isinstance(model, DecisionTreeClassifier) else model.loss(*sizes)

    def verify(self, shape: ClassicalShape) -> Loss:
        """The loss, if the noise that `fit` draws and what a row moves cost no more than the budget of the document.

        Guarantee: `fit` costs this. Proof. `moved` reads scales of noise, penalties and steps, and what a row adds,
        and composes them anew; the stated loss takes no less than that from any budget, and is within (ε, δ).
        """
        model, sizes = self.estimator(shape, None), self._sizes(shape)
        moved = model.plan().moved if isinstance(model, DecisionTreeClassifier) else model.moved(*sizes)
        stated = self.loss(shape)
        if not Spent.by(stated).covers(Spent.by(moved)):
            raise InternalError("a row moves a classical model further than its noise is for")
        require_price(stated, self.epsilon, self.delta)
        return stated

    def _sizes(self, shape: ClassicalShape) -> tuple[int, ...]:
        """The columns, and for a logistic model the classes."""
        classes = (len(shape.target.classes or ()),) if shape.model == "logistic" else ()
        return (shape.features.width, *classes)

    def estimator(
        self, shape: ClassicalShape, entropy: Entropy | None
    ) -> "Ridge | LogisticRegression | DecisionTreeClassifier":
        """The model that is fitted. Rows are numbers from −1 to 1, those of one column have norm 1 together."""
        common: dict[str, Any] = {"epsilon": self.epsilon, "bounds": (-1, 1), "rows": self.examples, "entropy": entropy}
        if shape.model == "tree":
            cuts, classes = shape.features.thresholds, range(len(shape.target.classes or ()))
            return DecisionTreeClassifier(**common, classes=list(classes), max_depth=self.depth, thresholds=cuts)
        common |= {"delta": self.delta, "one_hot": shape.features.groups}
        if shape.model == "linear":
            return LinearRegression(**common, target_bounds=(-1, 1))
        return LogisticRegression(**common, classes=list(range(len(shape.target.classes or ()))), C=self.C)

    def fitted(self, shape: ClassicalShape, x: Array, y: NDArray[Any], entropy: Entropy | None) -> list[NDArray[Any]]:
        """The parameters of a `ColumnModel`, with noise. Guarantee: costs `loss`; see the models' own proofs."""
        model = self.estimator(shape, entropy)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they would tell of noisy sums before the model is released
            model.fit(x.astype(np.float64), y)
        if model.cost_ != self.loss(shape):
            raise InternalError("a model was fitted at another cost than was charged")
        if isinstance(model, DecisionTreeClassifier):
            return [model.tree_.feature, model.tree_.threshold, model.tree_.chances]
        weights = np.vstack([np.atleast_2d(model.coef_).T, np.atleast_1d(model.intercept_)[None]])
        if isinstance(model, LogisticRegression) and weights.shape[1] == 1:
            weights = np.hstack([np.zeros_like(weights), weights])
        return [weights.astype(np.float32)]

    def words(self, model: str) -> str:
        """The model in a sentence."""
        more = {"tree": f" of depth {self.depth}", "logistic": f", C = {plain(self.C)}"}.get(model, "")
        names = {"tree": "a decision tree", "logistic": "logistic regression", "linear": "linear regression"}
        return names[model] + more


@dataclass(frozen=True, slots=True, repr=False)
class TrainingPlan(PrivatePlan):
    """Everything about a training run, decided before a row is seen."""

    table: Table
    shape: Shape | ClassicalShape
    recipe: Recipe | ClassicalRecipe
    neighbors: Neighbors
    epsilon: Fraction
    delta: Fraction

    def __post_init__(self) -> None:
        if not self.table.private:
            raise InvalidParameter("table", self.table.name, "a private table", "public rows need no privacy")
        if self.neighbors is not Neighbors.ADD_OR_REMOVE_ONE:
            raise InvalidParameter(
                "neighbors",
                str(self.neighbors),
                "'add or remove one'",
                "only that relation has a proof for sampled lots",
            )
        one_row_each(self.table, self.columns)

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns that are read: the features, then the target."""
        return (*self.shape.features.columns, self.shape.target.column)

    @property
    def _classical(self) -> ClassicalShape:
        if not isinstance(self.shape, ClassicalShape):
            raise InternalError("a classical recipe for a network")
        return self.shape

    @property
    def text(self) -> str:
        """What was asked."""
        *features, target = [column.name for column in self.columns]
        return f"train {target} from {', '.join(features)} of {self.table.name}"

    def document(self) -> dict[str, Any]:
        """What is released and how."""
        parts = {"table": self.table, "neighbors": self.neighbors, "network": self.shape, "recipe": self.recipe}
        return plan_document("training", 1, **parts)

    @property
    def loss(self) -> Loss:
        """What the whole run costs."""
        return self.recipe.loss(self._classical) if isinstance(self.recipe, ClassicalRecipe) else self.recipe.loss

    def verify(self, catalog: Catalog) -> Loss:
        """The loss, from the noise and from what one example adds to a sum; the columns must be those of the catalog.

        Guarantee: `run` costs this. Proof. A step adds noise of `noise_deviation` to sums that one example moves by a
        vector of a squared norm of at most `squared_reach`: both are computed where the step is made. Since that norm
        is at most UNITS, a step is a sampled Gaussian release whose multiplier is the deviation over UNITS. Classical
        models: `ClassicalRecipe.verify`.
        """
        require_same(self.table, self.columns, self.neighbors, catalog)
        recipe = self.recipe
        if isinstance(recipe, ClassicalRecipe):
            return recipe.verify(self._classical)
        if self.neighbors is not Neighbors.ADD_OR_REMOVE_ONE or not 0 <= sum(recipe.riders) < 1:
            raise InternalError("a plan's steps are moved further by one example than their noise is for")
        if squared_reach(recipe) > UNITS**2:
            raise InternalError("a plan's steps are moved further by one example than their noise is for")
        return Repeated(SampledGaussian(recipe.rate, noise_deviation(recipe) / UNITS), recipe.steps)

    @property
    def sql(self) -> str:
        """One row for each unit, the columns that are used."""
        return one_row_each(self.table, self.columns)

    def run(self, engine: Engine, entropy: Entropy | None) -> bytes:
        """Read the rows, train, and give out the noisy parameters.

        Guarantee: costs `loss`. Proof. A unit is one row of the result of `sql`, the same whatever the other units are;
        encoding is row by row; the rest is `train`.
        """
        rows = engine.fetch(one_row_each(self.table, self.columns, dialect_of(engine.dialect)))
        x = self.shape.features.encode(rows)
        y, known = self.shape.target.encode(rows)
        if isinstance(self.recipe, ClassicalRecipe):
            return packed(self.recipe.fitted(self._classical, x[known], y[known], entropy), {"losses": []})
        state = train(self.shape.network, x[known], y[known], self.recipe, entropy=entropy)
        return packed(finished(state, self.recipe), {"losses": state.losses})

    def finish(self, released: bytes, receipt: Receipt, engine: Engine) -> "TrainedModel":
        """The model, from its noisy parameters."""
        parameters, facts = unpacked(released)
        return TrainedModel(ColumnModel(self.shape, parameters), self, tuple(facts["losses"]), receipt)

    def explain(self) -> str:
        """What training would cost and do, in words."""
        facts = self.facts()
        width = max(map(len, facts))
        return "\n".join(f"{name:<{width}}  {value}" for name, value in facts.items())

    def facts(self) -> dict[str, str]:
        """What training would cost and do, by name."""
        recipe, unit = self.recipe, self.table.unit
        lines = {
            "task": self.text,
            "protects": str(unit) + ("" if unit is None or unit.key is None else "; one of their rows is used"),
            "cost": f"ε {text_up(self.epsilon)} at δ {text_up(self.delta, 3)}",
        }
        if isinstance(recipe, ClassicalRecipe):
            lines |= {"model": recipe.words(self.shape.model), "numbers it reads": str(self.shape.features.width)}
        else:
            network = self.shape.network
            lines |= {
                "network": self.shape.words,
                "lots": f"{recipe.steps:,} of about {plain(recipe.lot)}; "
                f"each row is in one with probability {plain(recipe.rate)}",
                "noise": f"{plain(recipe.multiplier)} clipping norms of {plain(recipe.clip)} on each sum",
                "expect": expected_noise(recipe, network),
            }
        return lines


@dataclass(frozen=True, slots=True, eq=False)
class TrainedModel:
    """A model that was trained privately, how, and what it cost. Everything done with it is free."""

    model: ColumnModel
    plan: TrainingPlan
    losses: tuple[float, ...]
    receipt: Receipt

    def predict(self, table: Any) -> NDArray[Any]:
        """The likeliest class of each row, or the number expected."""
        return self.model.predict(table)

    def predict_proba(self, table: Any) -> NDArray[np.float64]:
        """The probability of each class, in the order of `classes`."""
        return self.model.predict_proba(table)

    def score(self, table: Any) -> float:
        """On rows that you may see: the share of right classes, or R² of numbers."""
        return self.model.score(table)

    def save(self, path: str | Path) -> Path:
        """Write the model to a file (`ColumnModel.load` reads it); the path."""
        return self.model.save(path)

    @property
    def classes(self) -> tuple[Any, ...] | None:
        """The classes, or None for a number."""
        return self.model.classes

    @property
    def parameters(self) -> Parameters:
        """The noisy parameters."""
        return self.model.parameters

    def curve(self) -> Chart:
        """The noisy learning curve: it was paid for with the rest."""
        if not self.losses:
            raise InvalidData("the recipe has no learning curve: set curve > 0")
        steps = np.arange(1, len(self.losses) + 1)
        smooth = _smooth(np.array(self.losses))
        return Chart("Loss on the lots, with noise", [Line(steps, smooth)], x="step", y="mean loss")

    def page(self) -> Page:
        """The model's report."""
        parts: list[Part] = [
            Facts({"cost": str(self.receipt)}),
            Heading("How it was trained"),
            Facts(self.plan.facts()),
        ]
        return Page(self.plan.text, [*parts, *([self.curve()] if self.losses else [])])

    def _repr_html_(self) -> str:
        return self.page().fragment()


documented("features")(Features)
documented("target")(Target)
documented("classical model")(ClassicalShape)
documented("classical recipe", names={"depth": "tree_depth"})(ClassicalRecipe)
documented("network", names={"hidden": "hidden_widths"})(Shape)
documented("schedule", names={"form": "shape"})(Schedule)
documented("sgd", names={"rate": "learning_rate"})(Sgd)
documented("adam", names={"rate": "learning_rate", "first": "beta_1", "second": "beta_2"})(Adam)
documented("adaptive clipping")(Adaptive)
documented(
    "dp-sgd",
    names={"rate": "sampling_rate", "lot": "expected_lot", "multiplier": "noise_multiplier", "clip": "clipping_norm",
           "adaptive": "adaptive_clipping", "curve": "curve_share", "average": "averaging_decay"},
    omit={"memory": 1 << 28},
)(Recipe)  # fmt: skip


def _smooth(losses: NDArray[np.float64]) -> NDArray[np.float64]:
    """A running mean over a twentieth of the run."""
    width = max(1, len(losses) // 20)
    sums = np.cumsum(np.concatenate([np.zeros(1), losses]))
    ends = np.arange(1, len(losses) + 1)
    starts = np.maximum(ends - width, 0)
    means: NDArray[np.float64] = (sums[ends] - sums[starts]) / (ends - starts)
    return means


def plan_training(request: Training, catalog: Catalog) -> TrainingPlan:
    """The plan of a model, against the owner's catalog. No row is read.

    >>> from discreet.curator.catalog import Column, Table
    >>> from discreet.privacy.unit import Unit
    >>> columns = [Column("age", "integer", lower=0, upper=100), Column("ill", "boolean")]
    >>> catalog = Catalog("clinic", [Table("people", columns, unit=Unit())], neighbors="add or remove one")
    >>> request = Training(table="people", target="ill", epsilon=1, delta="1e-6", examples=10_000, epochs=5)
    >>> made = plan_training(request, catalog)
    >>> made.recipe.steps, float(made.recipe.multiplier) > 1, made.shape.words
    (50, True, '2 → 32 → 2')
    """
    table = catalog.table(request.table)
    target = Target(table.column(request.target))
    names = request.features if request.features is not None else _all_but(table, request.target)
    features = Features(tuple(table.column(name) for name in names))
    epsilon = rational(request.epsilon, "epsilon", above=0)
    recipe: Recipe | ClassicalRecipe
    shape: Shape | ClassicalShape
    if request.model == "network":
        shape, recipe = _network(request, features, target)
        delta = rational(request.delta, "delta", above=0, below=1)
    else:
        shape = ClassicalShape(features, target, request.model)
        delta = rational(request.delta, "delta", at_least=0, below=1)
        recipe = ClassicalRecipe(
            epsilon=epsilon,
            delta=delta if request.model != "tree" else Fraction(0),
            examples=integer(request.examples, "examples", at_least=1),
            depth=integer(request.depth, "depth", at_least=0, at_most=12),
            C=rational(request.C, "C", above=0),
        )
        recipe.loss(shape)  # a budget that cannot work is refused now
    return TrainingPlan(table, shape, recipe, catalog.neighbors, epsilon, delta)


def _network(request: Training, features: Features, target: Target) -> tuple[Shape, Recipe]:
    """The network's shape and recipe, as the estimators plan them; a budget that cannot work is refused."""
    plan = plan_network(
        epsilon=request.epsilon,
        delta=request.delta,
        examples=request.examples,
        features=features.width,
        outputs=target.outputs,
        objective=target.objective,
        hidden=request.hidden,
        activation=request.activation,
        lot=request.lot,
        epochs=request.epochs,
        clip=request.clip,
        optimizer=request.optimizer,
        **request.recipe,
    )
    require_signal(plan.recipe, plan.network, request.epsilon, stacklevel=4)
    return Shape(features, target, plan.hidden, plan.activation), plan.recipe


def _all_but(table: Any, target: str) -> list[str]:
    """Every column but the target and the one that names the person."""
    key = table.unit.key if table.unit is not None else None
    left = {target.casefold(), (key or "").casefold()}
    return [column.name for column in table.columns if column.name.casefold() not in left]
