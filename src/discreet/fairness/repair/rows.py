"""Rows that a repair is fitted to, and weights for them: labels as 0 and 1, groups by name, perhaps scores."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.errors import InvalidData, InvalidParameter
from discreet.fairness.cells import CRITERIA, Criterion
from discreet.fairness.column_codes import classes, coded
from discreet.fairness.column_codes import numbers as read_numbers
from discreet.tables import read_table

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
LINEAR = ("statistical parity", "equal opportunity", "equalized odds", "equal accuracy")
"""Criteria whose rates are averages over predictions, so that mixing predictors mixes the rates."""


@dataclass(frozen=True, slots=True, eq=False)
class People:
    """Labels 0 and 1, group of each row as a place among `groups`."""

    label: Codes
    group: Codes
    groups: tuple[str, ...]

    @classmethod
    def of(cls, label: ArrayLike, group: ArrayLike) -> "People":
        """From arrays; nothing may be missing.

        >>> People.of([True, False], ["m", "f"]).group.tolist()
        [1, 0]
        """
        arrow = read_table({"label": np.asarray(label), "group": np.asarray(group)})
        truth = classes([coded(arrow, "label")], [])[0][0]
        found = coded(arrow, "group")
        if not len(truth) or (truth < 0).any() or (found.codes < 0).any():
            raise InvalidData("labels and groups: a value is missing, or there are none; leave such rows out")
        return cls(truth, found.codes, found.values)

    def shares(self, criterion: Criterion) -> list[tuple[NDArray[np.bool_], str]]:
        """For each rate of a criterion, which rows are in its denominator; and the rate's name."""
        parts = {"true positive rate": self.label == 1, "false positive rate": self.label == 0}
        everybody = np.ones(len(self.label), bool)
        return [(parts.get(name, everybody), name) for name in criterion.metrics]


def linear(name: str) -> Criterion:
    """A criterion that repairs can close.

    >>> linear("equalized odds").metrics
    ('true positive rate', 'false positive rate')
    """
    if name not in LINEAR:
        raise InvalidParameter("criterion", name, ", ".join(LINEAR))
    return CRITERIA[name]


def scores_of(score: ArrayLike, rows: int) -> Floats:
    """Finite scores, as many as there are rows."""
    found = read_numbers(read_table({"score": np.asarray(score)}), "score")
    if len(found) != rows or np.isnan(found).any():
        raise InvalidData(f"scores: expected {rows} numbers, none missing")
    return found


def places_of(group: ArrayLike, known: tuple[str, ...]) -> Codes:
    """The place of each row's group among known ones."""
    found = coded(read_table({"group": np.asarray(group)}), "group")
    strange = [value for value in found.values if value not in known]
    if strange or (found.codes < 0).any():
        raise InvalidParameter("group", strange[0] if strange else None, f"one of {', '.join(known)}")
    of_value = np.array([known.index(value) for value in found.values], np.int64)
    placed: Codes = of_value[found.codes]
    return placed


def thrown(chances: Floats, entropy: Any = None) -> Codes:
    """Predictions 0 and 1 with the given chances of 1."""
    from discreet.fairness.bootstrap import uniforms

    return (uniforms(len(chances), entropy) < chances).astype(np.int64)


def reweigh(label: ArrayLike, group: ArrayLike) -> Floats:
    """Weights under which label and group are independent (Kamiran, Calders 2012), for training of any kind.

    They are P(A = a)·P(Y = y)/P(A = a, Y = y) for each row; give them as `sample_weight`.

    Weighted, each group has the same share of positive labels. A label that does not occur in a group gets no weight,
    since no row has it: then the shares stay apart.

    >>> reweigh([1, 1, 0, 1, 0, 0], ["f", "f", "f", "m", "m", "m"]).round(3).tolist()
    [0.75, 0.75, 1.5, 1.5, 0.75, 0.75]
    """
    people = People.of(label, group)
    counts = np.zeros((len(people.groups), 2))
    np.add.at(counts, (people.group, people.label), 1)
    expected = counts.sum(axis=1, keepdims=True) * counts.sum(axis=0) / counts.sum()
    weights = np.divide(expected, counts, out=np.zeros_like(counts), where=counts > 0)
    found: Floats = weights[people.group, people.label]
    return found
