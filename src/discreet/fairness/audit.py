"""The private fairness audit: a data owner keeps attributes and labels, a model owner submits predictions by unit.

What is released is one noisy table: group × stratum × label × prediction. Every gap is computed from it, and is free.
Whoever submits learns nothing about one person beyond what ε allows, whatever the predictions are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.curator.answer import Receipt
from discreet.curator.catalog import NUMERIC, Catalog, Column, ColumnType, Table
from discreet.curator.contribution_draw import require_same, rows_each
from discreet.curator.engines import Engine
from discreet.curator.engines.dialects import DUCKDB, Dialect, dialect_of
from discreet.curator.plan import PrivatePlan, documented, plan_document
from discreet.errors import InternalError, InvalidParameter
from discreet.exact import Number, integer, printed_up, rational
from discreet.fairness.column_codes import NONE, Bins, Coded, Predictions
from discreet.fairness.noisy_rates import Noise, tail
from discreet.mechanisms.additive import Geometric
from discreet.mechanisms.gaussian import RoundedGaussian
from discreet.mechanisms.mechanism import failure_probability
from discreet.noise import Entropy
from discreet.privacy.loss import GaussianNoise, Loss, Pure
from discreet.privacy.unit import Neighbors
from discreet.requests import FairnessAudit

if TYPE_CHECKING:
    from discreet.fairness.audit_answer import FairnessAnswer

MOST_CELLS = 500_000
LEAST = 20


@dataclass(frozen=True, slots=True)
class Categories:
    """How a declared column tells units apart: by its values, or by edges between its bounds; all of it public."""

    column: Column
    values: tuple[str, ...]
    edges: tuple[float, ...] = ()

    @classmethod
    def of(cls, column: Column, bins: "int | Sequence[float] | None") -> "Categories":
        """From a column of the catalog: declared values, true and false, or bounds and `bins`."""
        if bins is None:
            declared = _declared(column)
            if declared is None:
                hint = "declare its values in the policy, or say bins"
                raise InvalidParameter("group or given", column.name, "a column with declared values", hint)
            return cls(column, tuple(_text(value) for value in declared))
        if column.kind not in NUMERIC:
            raise InvalidParameter("bins", column.name, "a column of numbers")
        edges = _edges(column, bins)
        inner = [f"{low:g} to {high:g}" for low, high in pairwise(edges)]
        return cls(column, (f"< {edges[0]:g}", *inner, f"≥ {edges[-1]:g}"), edges)

    def places(self, values: Any) -> NDArray[np.int64]:
        """The place of each value, −1 where it is missing or not declared. It fails on no value."""
        if self.edges:
            numbers = values.cast("double", safe=False).to_numpy(zero_copy_only=False)
            result = np.searchsorted(self.edges, numbers, side="right")
            return np.where(np.isnan(numbers), -1, result).astype(np.int64)
        return places(values, _declared(self.column) or ())


@dataclass(frozen=True, slots=True)
class FairnessPlan(PrivatePlan):
    """Everything about an audit, decided before a row is seen.

    Guarantee: `run` gives out what `loss` covers. Proof. `sql` yields one row for each unit, the same whatever the
    other units are; each such row is counted in one place, found from the row, the catalog and the predictions alone.
    So one unit more or less changes one count by 1, and changing a unit's data lowers one count and raises another:
    ℓ1 sensitivity 1 or 2, squared ℓ2 sensitivity 1 or 2. The counts are released by `noise`, which is for that.
    """

    table: Table
    key: Column
    groups: tuple[Categories, ...]
    strata: tuple[Categories, ...]
    label: Column
    truth: tuple[int, ...]
    predictions: Predictions
    neighbors: Neighbors
    noise: Noise
    epsilon: Fraction
    delta: Fraction
    confidence: Fraction = Fraction(19, 20)
    least: int = LEAST

    def __post_init__(self) -> None:
        if not self.table.private:
            raise InvalidParameter("table", self.table.name, "a private table", "of public rows make a report")
        if self.predictions.kind is not self.key.kind:
            raise InvalidParameter("predictions", str(self.predictions.kind), f"keys of type {self.key.kind}")
        used = [column.name.casefold() for column in self.columns]
        if len(set(used)) < len(used):
            raise InvalidParameter("columns", ", ".join(used), "key, label, groups and given, each column once")
        if self.cells > MOST_CELLS:
            raise InvalidParameter(
                "group and given", f"{self.cells:,} cells", f"at most {MOST_CELLS:,}", "coarsen them"
            )

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns that are read."""
        return (self.key, *(axis.column for axis in (*self.groups, *self.strata)), self.label)

    @property
    def shape(self) -> tuple[int, ...]:
        """Groups, strata, label, and prediction: 0, 1 or none."""
        return (*(len(axis.values) for axis in self.groups), prod(len(axis.values) for axis in self.strata), 2, 3)

    @property
    def cells(self) -> int:
        """How many counts are released: one more, of units that are in no cell."""
        return prod(self.shape) + 1

    @property
    def text(self) -> str:
        """What was asked."""
        given = f" given {', '.join(axis.column.name for axis in self.strata)}" if self.strata else ""
        by = ", ".join(axis.column.name for axis in self.groups)
        return (
            f"audit {len(self.predictions)} predictions {self.predictions.digest[:16]} of {self.label.name} "
            f"by {by}{given} in {self.table.name}"
        )

    def document(self) -> dict[str, Any]:
        """What is released and how; the predictions by their digest."""
        return plan_document(
            "fairness audit",
            1,
            table=self.table,
            neighbors=self.neighbors,
            key=self.key,
            groups=self.groups,
            strata=self.strata,
            label=self.label,
            positive=self.truth,
            noise=self.noise,
            predictions={"key_type": self.predictions.kind, "digest": self.predictions.digest},
        )

    @property
    def loss(self) -> Loss:
        """What the audit costs."""
        return self.noise.loss

    def verify(self, catalog: Catalog) -> Loss:
        """The loss, from the noise and the sensitivity that the catalog's neighbors imply."""
        require_same(self.table, self.columns, self.neighbors, catalog)
        unit = _person(self.table)
        if unit is not None and unit.casefold() != self.key.name.casefold():
            raise InternalError("a plan joins predictions by another column than the unit's")
        moved = sensitivity(self.neighbors)
        stated = self.noise.sensitivity if isinstance(self.noise, Geometric) else self.noise.squared_sensitivity
        if stated != moved:
            raise InternalError("a plan has noise for another sensitivity than one unit's")
        if isinstance(self.noise, Geometric):
            return Pure(self.noise.epsilon * moved / self.noise.sensitivity)
        loss = self.noise.loss
        if not isinstance(loss, GaussianNoise) or loss.multiplier**2 * moved > self.noise.sigma**2:
            raise InternalError("a plan adds less noise to its counts than its loss says")
        return loss

    @property
    def sql(self) -> str:
        """One row for each unit, the columns that are used."""
        return self._sql(DUCKDB)

    def _sql(self, dialect: Dialect) -> str:
        keyed = _person(self.table) is not None
        return rows_each(self.table, self.columns[1:] if keyed else self.columns, dialect, most=1, keyed=keyed)

    def run(self, engine: Engine, entropy: Entropy | None) -> bytes:
        """Count the units and give out noisy counts."""
        counts = self.counted(engine.fetch(self._sql(dialect_of(engine.dialect))))
        return np.asarray(self.noise.release(counts, entropy=entropy), "<i8").tobytes()

    def counted(self, rows: Any) -> NDArray[np.int64]:
        """How many units are in each cell; the last count is of those in none."""
        named = {column.name: rows.column(place).combine_chunks() for place, column in enumerate(self.columns)}
        axes = [axis.places(named[axis.column.name]) for axis in (*self.groups, *self.strata)]
        label = places(named[self.label.name], _declared(self.label) or ())
        truth = np.append(self.truth, -1)[label]
        predicted = self.predictions.look_up(named[self.key.name])
        sizes = (*(len(axis.values) for axis in (*self.groups, *self.strata)), 2, NONE + 1)
        placed = np.all([codes >= 0 for codes in (*axes, truth)], axis=0)
        chosen = tuple(codes[placed] for codes in (*axes, truth, predicted))
        cell = np.full(len(placed), self.cells - 1)
        cell[placed] = np.ravel_multi_index(chosen, sizes)
        return np.bincount(cell, minlength=self.cells).astype(np.int64)

    def finish(self, released: bytes, receipt: Receipt, engine: Engine) -> "FairnessAnswer":
        """The gaps with their limits, from the noisy counts alone."""
        from discreet.fairness.audit_answer import answer

        return answer(self, np.frombuffer(released, "<i8"), receipt)

    def explain(self) -> str:
        """What the audit would cost and do, in words."""
        once = "" if _person(self.table) is None else "; one of their rows is counted"
        width = tail(self.noise, 4 * prod(self.shape[1:-2]), 0.025)
        lines = {
            "audits": self.text,
            "protects": f"{self.table.unit}{once} ({self.neighbors})",
            "cost": f"ε {printed_up(self.epsilon)}" + (f" at δ {printed_up(self.delta)}" if self.delta else ""),
            "releases": f"{self.cells:,} noisy counts; every gap is computed from them",
            "noise": f"within ±{self.noise.interval('0.95'):,} on each count, at 95 % confidence",
            "in a group's size": f"±{width:,.0f} by {self.groups[0].column.name}; in a rate of 1,000 units about "
            f"±{width / 1000:.2g}",
        }
        margin = max(map(len, lines))
        return "\n".join(f"{name:<{margin}}  {value}" for name, value in lines.items())


def plan_audit(request: FairnessAudit, catalog: Catalog) -> FairnessPlan:
    """The plan of an audit against the owner's catalog. No row is read.

    >>> from discreet.privacy.unit import Unit
    >>> columns = [Column("id", "integer"), Column("sex", "text", values=["f", "m"]), Column("ill", "boolean")]
    >>> people = Table("people", columns, unit=Unit("id"))
    >>> catalog = Catalog("clinic", [people], neighbors="add or remove one")
    >>> said = {"id": [1, 2], "prediction": [1, 0]}
    >>> request = FairnessAudit(table="people", predictions=said, label="ill", group="sex", epsilon=1)
    >>> plan = plan_audit(request, catalog)
    >>> plan.cells, plan.loss
    (13, Pure(epsilon=Fraction(1, 1)))
    """
    table, delta = catalog.table(request.table), request.delta
    key, label = _key(table, request.key), table.column(request.label)
    predictions = _submitted(request.predictions, key, label, request.prediction, request.positive, request.threshold)
    groups, strata = _categories(table, request.group, request.given, request.bins)
    epsilon = rational(request.epsilon, "epsilon", above=0)
    return FairnessPlan(
        table,
        key,
        groups,
        strata,
        label,
        predictions.truth,
        predictions,
        catalog.neighbors,
        _noise(request.noise, epsilon, delta, catalog.neighbors),
        epsilon,
        Fraction(0) if delta is None else rational(delta, "delta", above=0, below=1),
        1 - failure_probability(request.confidence),
        integer(request.least, "least", at_least=1),
    )


def _key(table: Table, said: str | None) -> Column:
    """The column that predictions are keyed by: that which names the person, or the one that was said."""
    person = _person(table)
    if person is None and said is None:
        raise InvalidParameter("key", None, "the column that predictions are keyed by", "one row is protected here")
    if person is not None and said is not None and said.casefold() != person.casefold():
        raise InvalidParameter("key", said, f"the unit's own column, {person}")
    return table.column(said or person or "")


def _person(table: Table) -> str | None:
    return table.unit.key if table.unit else None


def _submitted(
    predictions: Any,
    key: Column,
    label: Column,
    prediction: str,
    positive: str | Sequence[str],
    threshold: Number | None,
) -> Predictions:
    """The predictions, with the classes of the label, so that `positive` means the same in both."""
    wanted = (positive,) if isinstance(positive, str) else tuple(str(value) for value in positive)
    return Predictions.of(
        predictions,
        key=_named(predictions, key.name),
        prediction=prediction,
        kind=key.kind,
        positive=wanted,
        threshold=threshold,
        label=_classes(label),
    )


def _categories(
    table: Table, group: str | Sequence[str], given: str | Sequence[str], bins: Bins | None
) -> tuple[tuple[Categories, ...], tuple[Categories, ...]]:
    """How groups and strata are told apart. Bins of any other column are refused."""
    cuts = dict(bins or {})
    groups, strata = (
        tuple(
            Categories.of(table.column(name), cuts.pop(name, None))
            for name in ((names,) if isinstance(names, str) else names)
        )
        for names in (group, given)
    )
    if cuts or not groups:
        raise InvalidParameter("bins" if cuts else "group", list(cuts), "columns named as group or given")
    return groups, strata


def sensitivity(neighbors: Neighbors) -> int:
    """How far one unit moves the counts, in ℓ1 norm, and in squared ℓ2 norm: it is in one cell.

    >>> sensitivity(Neighbors.CHANGE_ONE)
    2
    """
    return 1 if neighbors is Neighbors.ADD_OR_REMOVE_ONE else 2


def _noise(kind: str, epsilon: Fraction, delta: Number | None, neighbors: Neighbors) -> Noise:
    moved = sensitivity(neighbors)
    if kind == "geometric":
        if delta is not None:
            raise InvalidParameter("delta", delta, "none with geometric noise", "say noise='gaussian', or leave it out")
        return Geometric(epsilon=epsilon, sensitivity=moved)
    if kind != "gaussian":
        raise InvalidParameter("noise", kind, "'geometric' or 'gaussian'")
    if delta is None:
        raise InvalidParameter("delta", None, "a number above 0 and below 1", "Gaussian noise needs it")
    return RoundedGaussian.for_guarantee(epsilon=epsilon, delta=delta, squared_sensitivity=moved)


def _named(predictions: Any, name: str) -> str:
    """The key column as the model owner spells it, in any case."""
    from discreet.tables import read_table

    names = read_table(predictions, "predictions").column_names
    return next((known for known in names if known.casefold() == name.casefold()), name)


def _classes(label: Column) -> Coded:
    """The declared values of a label."""
    declared = _declared(label)
    if declared is None:
        raise InvalidParameter("label", label.name, "a column with declared values", "declare them in the policy")
    return Coded(label.name, tuple(_text(value) for value in declared), np.arange(len(declared)))


def _declared(column: Column) -> tuple[Any, ...] | None:
    if column.values is not None and column.kind is not ColumnType.TIMESTAMP:
        return column.values
    return (False, True) if column.kind is ColumnType.BOOLEAN else None


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _edges(column: Column, bins: "int | Sequence[float]") -> tuple[float, ...]:
    if isinstance(bins, Sequence):
        edges = tuple(sorted({float(edge) for edge in bins}))
        if not edges or not np.isfinite(edges).all():
            raise InvalidParameter(f"bins of {column.name}", bins, "at least one finite edge")
        return edges
    count = integer(bins, f"bins of {column.name}", at_least=2, at_most=100)
    if column.lower is None or column.upper is None:
        raise InvalidParameter(f"bins of {column.name}", bins, "edges", "the column has no declared bounds")
    return tuple(float(column.lower + (column.upper - column.lower) * k / count) for k in range(1, count))


def places(values: Any, declared: Sequence[Any]) -> NDArray[np.int64]:
    """The place of each value among the declared ones, −1 if it is not there. It fails on no value.

    >>> import pyarrow
    >>> places(pyarrow.array([True, None, False]), (False, True)).tolist()
    [1, -1, 0]
    """
    encoded = values.dictionary_encode()
    known = {_text(value): place for place, value in enumerate(declared)}
    of_value = [known.get(_text(value), -1) for value in encoded.dictionary.to_pylist()]
    codes = encoded.indices.fill_null(len(of_value)).to_numpy(zero_copy_only=False)
    result: NDArray[np.int64] = np.array([*of_value, -1], np.int64)[codes]
    return result


documented("ways of a column", names={"edges": "bin_edges"})(Categories)
documented("geometric")(Geometric)
documented("rounded gaussian")(RoundedGaussian)
