"""Networks trained by DP-SGD, with the scikit-learn protocol.

>>> import numpy as np
>>> from discreet.learning.estimators import DPClassifier
>>> x = np.linspace(-1, 1, 4000).reshape(-1, 1)
>>> y = np.where(x[:, 0] > 0, "above", "below")
>>> model = DPClassifier(
...     hidden=(), epsilon=1, delta="1e-5", bounds="unit", classes=["above", "below"], rows=4000, steps=50
... ).fit(x, y)
>>> model.predict([[0.9], [-0.9]]).tolist(), model.epsilon_ <= 1
(['above', 'below'], True)

What must be said, because the rows would tell it otherwise: the bounds of the columns, the classes, and about how many
rows there are (`rows`: it sets the chance to be in a lot; a wrong number costs accuracy, never privacy). Settings that
are not said come from these public facts (`training_plan`), as they do behind a curator.
"""

import copy
import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.exact import Number, integer
from discreet.learning.classical import inputs
from discreet.learning.classical.estimator import Classifier, Estimator, Regressor
from discreet.learning.networks.network import Loss as Objective
from discreet.learning.networks.network import Network, Softmax, Squared, Weighted
from discreet.learning.sgd.gradients import Parameters
from discreet.learning.sgd.preprocessing import PrivatePca
from discreet.learning.sgd.recipe import Adaptive, Recipe
from discreet.learning.sgd.run_state import Bar, State, curve_noise, finished, learning_chart, smoothed
from discreet.learning.sgd.training import Checkpoint, train
from discreet.learning.training_plan import expected_noise, plan_network, require_signal
from discreet.noise import Entropy
from discreet.privacy.accounting import guarantee
from discreet.privacy.loss import Loss, Together
from discreet.report import Chart

Floats = NDArray[np.float64]


class _Trained(Estimator):
    """What the classifier and the regressor share: planning, paying, training."""

    hidden: tuple[int, ...] | None
    epsilon: Number
    delta: Number
    bounds: Any
    rows: int
    project: int | None
    project_share: Number
    activation: str | None
    lot: int | None
    steps: int | None
    clip: Number | None
    learning_rate: Number | None
    momentum: Number | None
    average: Number | None
    per_layer: bool
    adaptive: Adaptive | None
    curve: Number
    seed: int
    progress: bool | None
    checkpoint: Checkpoint | None
    threads: int | None
    entropy: Entropy | None

    loss_: float
    curve_: list[float]
    epsilon_: float
    recipe_: Recipe

    def explain(self, columns: int) -> str:
        """What `fit` would do and cost for rows of so many columns. Nothing is read, nothing is spent."""
        pca, network, recipe = self._plan(columns)
        first = "" if pca is None else f"{pca.dimensions} private components: noise {float(pca.multiplier):.4g}\n"
        return f"{first}{recipe.words()}\n{expected_noise(recipe, network)}"

    def learning_curve(self) -> Chart:
        """The noisy loss during the training: paid for with the rest."""
        self._fitted()
        return learning_chart(self.curve_, noise=curve_noise(self.recipe_))

    def __sklearn_clone__(self) -> Self:
        """An unfitted copy without the checkpoint, which holds one run: clones and folds are runs of their own."""
        settings = {name: copy.deepcopy(value) for name, value in self.get_params().items() if name != "checkpoint"}
        clone = type(self)(**settings)
        clone.checkpoint = None
        return clone

    def _train(self, values: Floats, y: NDArray[Any], weights: Floats | None) -> None:
        """Plan, check, spend, train: in this order."""
        pca, network, recipe = self._plan(values.shape[1])
        self._box = inputs.box_of((-1, 1) if self._unit() else self.bounds, self._columns())
        if weights is not None:  # a gradient is clipped after it was multiplied: no bound depends on weights
            network, y = Network(network.layers, Weighted(network.loss), network.inputs), np.column_stack([y, weights])
        require_signal(recipe, network, self.epsilon, stacklevel=4)
        loss: Loss = recipe.loss if pca is None else Together(pca.loss, recipe.loss)
        spent = guarantee(loss, delta=self.delta).epsilon
        bar = Bar(recipe.steps) if self.progress or self.progress is None else None
        state = train(
            network,
            self._box.scaled(values),
            y,
            recipe,
            entropy=self.entropy,
            each=None if bar is None else lambda state: _show(bar, state),
            pca=pca,
            checkpoint=self.checkpoint,
            threads=self.threads,
        )
        self._keep(network, recipe, state)
        self.cost_, self.epsilon_ = loss, spent

    def _keep(self, network: Network, recipe: Recipe, state: State) -> None:
        self.network_, self.recipe_ = network, recipe
        self.parameters_: Parameters = finished(state, recipe)
        self._projection = state.projection
        self.curve_, self.loss_ = state.losses, smoothed(state.losses)
        if not all(np.isfinite(parameter).all() for parameter in self.parameters_):
            warnings.warn(
                "the training ran away: parameters are no longer numbers, and the budget is spent; "
                "take a smaller learning_rate",
                RuntimeWarning,
                stacklevel=4,
            )

    def _plan(self, columns: int) -> tuple[PrivatePca | None, Network, Recipe]:
        """Projection, network and recipe, from settings alone. The budget is split by `project_share`, fixed."""
        rows = integer(self._declared_rows(), "rows", at_least=1)
        pca = None
        if self.project is not None:
            pca = PrivatePca.for_share(
                self.project, epsilon=self.epsilon, delta=self.delta, share=self.project_share, rows=rows
            )
            if pca.dimensions > columns:
                raise InvalidParameter("project", self.project, f"at most the {columns} columns")
        plan = plan_network(
            epsilon=self.epsilon,
            delta=self.delta,
            examples=rows,
            features=columns if pca is None else pca.dimensions,
            outputs=self._width(),
            objective=self._objective(),
            hidden=self.hidden,
            activation=self.activation,
            lot=self.lot,
            steps=self.steps,
            beside=None if pca is None else pca.loss,
            clip=self.clip,
            learning_rate=self.learning_rate,
            momentum=self.momentum,
            average=self.average,
            per_layer=self.per_layer,
            adaptive=self.adaptive,
            curve=self.curve,
            seed=self.seed,
        )
        return pca, plan.network, plan.recipe

    def _declared_rows(self) -> int:
        if self.rows is None:
            hint = "how many there are exactly may be private: say rows=len(X) if it is not, or a round number near it"
            raise InvalidParameter("rows", None, "about how many rows there are", hint)
        return self.rows

    def _unit(self) -> bool:
        if isinstance(self.bounds, str) and self.bounds != "unit":
            raise InvalidParameter("bounds", self.bounds, "(low, high), one pair a column, or 'unit' for −1 to 1")
        return isinstance(self.bounds, str)

    def _prepared(self, scaled: Floats) -> Any:
        return scaled if self._projection is None else self._projection.apply(scaled)

    def _output(self, X: Any) -> Any:
        values = self._later(X)
        return self.network_.predict(self.parameters_, self._prepared(self._box.scaled(values)))

    def _width(self) -> int:
        raise NotImplementedError

    def _objective(self) -> Objective:
        raise NotImplementedError


class DPClassifier(_Trained, Classifier):
    """A network that says which class, trained by DP-SGD within (ε, δ), under "add or remove one row".

    hidden: widths of the hidden layers; () is a softmax regression. What is None among hidden, activation, lot, steps,
    clip, learning_rate, momentum and average is set by `training_plan` from rows, columns, ε and δ (see `Recipe`).
    bounds: (low, high) for all columns, a pair for each, pairs by name, or "unit" for values from −1 to 1; values
    beyond are clamped. classes: the labels there are, or "public". rows: about how many rows there are. project: train
    on so many private principal components, which get `project_share` of the budget. adaptive, per_layer, curve: see
    `Recipe`. progress: a bar on the terminal; None shows it where there is one. checkpoint: a `Checkpoint`, so that a
    `fit` that was killed goes on; it belongs to these settings and rows, others are refused. Clones and folds have
    none. threads: how many matrix products use; None leaves that to BLAS, which takes all cores.

    After `fit`: `predict`, `predict_proba`, `score`, `learning_curve()`; `loss_` the noisy training loss at the end,
    `curve_` at each step, `cost_` what was spent, as a loss, `epsilon_` the same as ε at δ, `recipe_`,
    `parameters_`. `fit` takes weights of rows, from 0 to 1. Every `fit` spends anew, unless it is the one that the
    checkpoint holds.

    Guarantee: what `fit` keeps costs `cost_`, at most (ε, δ). Proof. Bounds, classes and rows are declared; scaling
    and projecting are done row by row; the components cost `PrivatePca.loss`, the rest `Recipe.loss`. With
    classes="public" the labels that occur are not protected: that is what the word says.
    """

    def __init__(
        self,
        hidden: tuple[int, ...] | None = None,
        *,
        epsilon: Number,
        delta: Number,
        bounds: Any = None,
        classes: Any = None,
        rows: Any = None,
        project: int | None = None,
        project_share: Number = "1/20",
        activation: str | None = None,
        lot: int | None = None,
        steps: int | None = None,
        clip: Number | None = None,
        learning_rate: Number | None = None,
        momentum: Number | None = None,
        average: Number | None = None,
        per_layer: bool = False,
        adaptive: Adaptive | None = None,
        curve: Number = "1/100",
        seed: int = 1,
        progress: bool | None = None,
        checkpoint: Checkpoint | None = None,
        threads: int | None = 1,
        entropy: Entropy | None = None,
    ) -> None:
        _store(self, locals())

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train, and spend `cost_`. Everything that can be refused is refused before anything is spent."""
        values, places = self._begin_classes(X, y)
        self._train(values, places, inputs.weights(sample_weight, len(values)))
        return self

    def predict_proba(self, X: Any) -> Floats:
        """The probability of each class, in the order of `classes_`."""
        return np.asarray(Softmax().shares(self._output(X)), np.float64)

    def _width(self) -> int:
        known = getattr(self, "classes_", None)
        if known is None:
            known = inputs.declared_classes(self.classes)
        if known is None:
            raise InvalidParameter("classes", self.classes, "declared classes, to explain a run before `fit`")
        return len(known)

    def _objective(self) -> Objective:
        return Softmax()


class DPRegressor(_Trained, Regressor):
    """A network that says a number, trained by DP-SGD within (ε, δ), under "add or remove one row".

    target_bounds: the bounds (low, high) of what is predicted, declared; values beyond are clamped. All else as in
    `DPClassifier`, and the same guarantee.

    >>> x = np.linspace(-1, 1, 4000).reshape(-1, 1)
    >>> model = DPRegressor(
    ...     hidden=(), epsilon=2, delta="1e-5", bounds="unit", target_bounds=(0, 10), rows=4000, steps=50,
    ...     learning_rate="0.5",
    ... ).fit(x, 5 + 5 * x[:, 0])
    >>> model.score(x, 5 + 5 * x[:, 0]) > 0.8
    True
    """

    def __init__(
        self,
        hidden: tuple[int, ...] | None = None,
        *,
        epsilon: Number,
        delta: Number,
        bounds: Any = None,
        target_bounds: Any = None,
        rows: Any = None,
        project: int | None = None,
        project_share: Number = "1/20",
        activation: str | None = None,
        lot: int | None = None,
        steps: int | None = None,
        clip: Number | None = None,
        learning_rate: Number | None = None,
        momentum: Number | None = None,
        average: Number | None = None,
        per_layer: bool = False,
        adaptive: Adaptive | None = None,
        curve: Number = "1/100",
        seed: int = 1,
        progress: bool | None = None,
        checkpoint: Checkpoint | None = None,
        threads: int | None = 1,
        entropy: Entropy | None = None,
    ) -> None:
        _store(self, locals())

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train, and spend `cost_`. Everything that can be refused is refused before anything is spent."""
        inputs.target_given(type(self).__name__, y)
        values = self._begin(X)
        numbers = inputs.numbers(y, len(values))
        self._target = inputs.box_of([self.target_bounds], ["y"], "target_bounds").centered()  # type: ignore[attr-defined]
        self._train(values, self._target.scaled(numbers[:, None]), inputs.weights(sample_weight, len(values)))
        return self

    def predict(self, X: Any) -> Floats:
        """A number for each row, within the declared bounds."""
        z = np.clip(np.asarray(self._output(X), np.float64)[:, 0], -1, 1)
        return np.asarray(self._target.center[0] + z * self._target.half[0])

    def _width(self) -> int:
        return 1

    def _objective(self) -> Objective:
        return Squared()


def _store(model: Any, settings: dict[str, Any]) -> None:
    for name, value in settings.items():
        if name not in ("self", "__class__"):
            setattr(model, name, value)


def _show(bar: Bar, state: State) -> None:
    bar.show(state.step, smoothed(state.losses) if state.losses else None)
