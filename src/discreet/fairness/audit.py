"""The private fairness audit: a data owner keeps attributes and labels, a model owner submits predictions by unit.

What is released is one noisy table: group × stratum × label × prediction. Every gap is computed from it, and is free.
Whoever submits learns nothing about one person beyond what ε allows, whatever the predictions are.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from discreet.curator.catalog import Catalog, Column, Table
from discreet.curator.plan import documented
from discreet.errors import InvalidParameter
from discreet.exact import Number, integer, rational
from discreet.fairness.audit_plan import (
    Categories,
    FairnessPlan,
    declared_values,
    person_column,
    sensitivity,
    value_text,
)
from discreet.fairness.column_codes import Bins, CodedColumn, Predictions
from discreet.fairness.noisy_rates import Noise
from discreet.mechanisms.additive import Geometric
from discreet.mechanisms.gaussian import RoundedGaussian
from discreet.mechanisms.mechanism import failure_probability
from discreet.privacy.unit import Neighbors
from discreet.requests import FairnessAudit


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
    (13, Pure(epsilon=1))
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
    person = person_column(table)
    if person is None and said is None:
        raise InvalidParameter("key", None, "the column that predictions are keyed by", "one row is protected here")
    if person is not None and said is not None and said.casefold() != person.casefold():
        raise InvalidParameter("key", said, f"the unit's own column, {person}")
    return table.column(said or person or "")


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
        key=_key_column(predictions, key.name),
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


def _noise(kind: str, epsilon: Fraction, delta: Number | None, neighbors: Neighbors) -> Noise:
    moved = sensitivity(neighbors)
    if kind == "geometric":
        if delta is not None:
            raise InvalidParameter("delta", delta, "none with geometric noise", "state noise='gaussian', or omit it")
        return Geometric(epsilon=epsilon, sensitivity=moved)
    if kind != "gaussian":
        raise InvalidParameter("noise", kind, "'geometric' or 'gaussian'")
    if delta is None:
        raise InvalidParameter("delta", None, "a number above 0 and below 1", "Gaussian noise needs it")
    return RoundedGaussian.for_guarantee(epsilon=epsilon, delta=delta, squared_sensitivity=moved)


def _key_column(predictions: Any, name: str) -> str:
    """The key column as the model owner spells it, in any case."""
    from discreet.tables import read_table

    names = read_table(predictions, "predictions").column_names
    return next((known for known in names if known.casefold() == name.casefold()), name)


def _classes(label: Column) -> CodedColumn:
    """The declared values of a label."""
    declared = declared_values(label)
    if declared is None:
        raise InvalidParameter("label", label.name, "a column with declared values", "declare them in the policy")
    return CodedColumn(label.name, tuple(value_text(value) for value in declared), np.arange(len(declared)))


documented("ways of a column", names={"edges": "bin_edges"})(Categories)
documented("geometric")(Geometric)
documented("rounded gaussian")(RoundedGaussian)
