"""A training run through the gate: explained, priced, charged, run. The model is all that leaves.

One example is one unit: where the policy protects a person, one of their rows is used, the first in the order of the
columns used. So one unit more or less is one example more or less, and the run costs what its recipe says.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.curator.answer import Receipt
from discreet.curator.catalog import Catalog, Column, Table
from discreet.curator.documents import digest, documented, plan_document
from discreet.curator.engines import Engine
from discreet.curator.rows import one_row_each, require_same
from discreet.errors import InternalError, InvalidData, InvalidParameter
from discreet.exact import plain, printed_up
from discreet.learning.clipping import UNITS
from discreet.learning.features import Features, Target
from discreet.learning.model import Model, Shape, packed, unpacked
from discreet.learning.network import Parameters
from discreet.learning.optimizers import Adam, Sgd
from discreet.learning.recipe import Adaptive, Recipe
from discreet.learning.schedule import Schedule
from discreet.learning.training import finished, train
from discreet.noise import Entropy
from discreet.privacy.loss import Loss, Repeated, SampledGaussian
from discreet.privacy.unit import Neighbors
from discreet.report import Chart, Facts, Heading, Line, Page, Part, Text


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """Everything about a training run, decided before a row is seen."""

    table: Table
    shape: Shape
    recipe: Recipe
    neighbors: Neighbors
    epsilon: Fraction
    delta: Fraction

    def __post_init__(self) -> None:
        if not self.table.private:
            raise InvalidParameter("table", self.table.name, "a private table", "public rows need no privacy")
        if self.neighbors is not Neighbors.ADD_OR_REMOVE_ONE:
            raise InvalidParameter(
                "neighbors", str(self.neighbors), "'add or remove one'", "sampled lots have no proof here otherwise"
            )
        one_row_each(self.table, self.columns)

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns that are read: the features, then the target."""
        return (*self.shape.features.columns, self.shape.target.column)

    @property
    def text(self) -> str:
        """What was asked."""
        *features, target = [one.name for one in self.columns]
        return f"train {target} from {', '.join(features)} of {self.table.name}"

    def document(self) -> dict[str, Any]:
        """What is released and how."""
        parts = {"table": self.table, "neighbors": self.neighbors, "network": self.shape, "recipe": self.recipe}
        return plan_document("training", 1, **parts)

    @property
    def digest(self) -> str:
        """The name of the plan."""
        return digest(self.document())

    @property
    def loss(self) -> Loss:
        """What the whole run costs."""
        return self.recipe.loss

    @property
    def private(self) -> bool:
        """It reads private rows."""
        return True

    def verify(self, catalog: Catalog) -> Loss:
        """The loss, from the noise and from what one example adds to a sum; the columns must be those of the catalog.

        Guarantee: `run` costs this. Proof. On the grid of `training.contributions` an example's gradients have a
        squared norm of at most (1 − s)·UNITS², where s is the riders' share, and each rider adds a whole number of at
        most √share·UNITS; the Gaussian noise there has a deviation of multiplier·UNITS. So a step is a sampled Gaussian
        release whose multiplier is that deviation over the norm of the whole, at most UNITS.
        """
        require_same(self.table, self.columns, self.neighbors, catalog)
        recipe = self.recipe
        riders = [recipe.curve, *([] if recipe.adaptive is None else [recipe.adaptive.share])]
        moved = (1 - sum(riders)) * UNITS**2 + sum(isqrt(int(share * UNITS**2)) ** 2 for share in riders)
        if self.neighbors is not Neighbors.ADD_OR_REMOVE_ONE or moved > UNITS**2 or not 0 <= sum(riders) < 1:
            raise InternalError("a plan's steps are moved further by one example than their noise is for")
        deviation = recipe.multiplier * UNITS
        return Repeated(SampledGaussian(recipe.rate, deviation / UNITS), recipe.steps)

    @property
    def sql(self) -> str:
        """One row for each unit, the columns that are used."""
        return one_row_each(self.table, self.columns)

    def run(self, engine: Engine, entropy: Entropy | None) -> bytes:
        """Read the rows, train, and give out the noisy parameters.

        Guarantee: costs `loss`. Proof. A unit is one row of the result of `sql`, the same whatever the other units are;
        encoding is row by row; the rest is `train`.
        """
        rows = engine.fetch(self.sql)
        x = self.shape.features.encode(rows)
        y, known = self.shape.target.encode(rows)
        state = train(self.shape.network, x[known], y[known], self.recipe, entropy=entropy)
        return packed(finished(state, self.recipe), {"losses": state.losses})

    def finish(self, released: bytes, receipt: Receipt, engine: Engine) -> "TrainedModel":
        """The model, from its noisy parameters."""
        parameters, facts = unpacked(released)
        return TrainedModel(Model(self.shape, parameters), self, tuple(facts["losses"]), receipt)

    def explain(self) -> str:
        """What training would cost and do, in words."""
        recipe = self.recipe
        unit = self.table.unit
        lines = {
            "trains": self.text,
            "protects": str(unit) + ("" if unit is None or unit.key is None else "; one of their rows is used"),
            "network": self.shape.words,
            "cost": f"ε {printed_up(self.epsilon)} at δ {printed_up(self.delta)}",
            "lots": f"{recipe.steps:,} of about {plain(recipe.lot)}; the chance to be in one is {plain(recipe.rate)}",
            "noise": f"{plain(recipe.multiplier)} clipping norms of {plain(recipe.clip)} on each sum",
            "noise in a mean gradient": f"{float(recipe.multiplier * recipe.clip / recipe.lot):.3g} in each coordinate",
        }
        width = max(map(len, lines))
        return "\n".join(f"{name:<{width}}  {value}" for name, value in lines.items())


@dataclass(frozen=True, slots=True, eq=False)
class TrainedModel:
    """A model that was trained privately, how, and what it cost. Everything done with it is free."""

    model: Model
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
        """Write the model to a file (`Model.load` reads it); the path."""
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
            raise InvalidData("no learning curve was asked for: set curve > 0")
        steps = np.arange(1, len(self.losses) + 1)
        smooth = _smooth(np.array(self.losses))
        return Chart("Loss on the lots, with noise", [Line(steps, smooth)], x="step", y="mean loss")

    def page(self) -> Page:
        """The model's report."""
        parts: list[Part] = [
            Facts({"cost": str(self.receipt)}),
            Heading("How it was trained"),
            Text(self.plan.explain()),
        ]
        return Page(self.plan.text, [*parts, *([self.curve()] if self.losses else [])])

    def _repr_html_(self) -> str:
        return self.page().fragment()


documented("features")(Features)
documented("target")(Target)
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
