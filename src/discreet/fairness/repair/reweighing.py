"""Weights under which label and group are independent (Kamiran, Calders 2012), for training of any kind.

>>> from discreet.fairness.repair import reweigh
>>> reweigh([1, 1, 0, 1, 0, 0], ["f", "f", "f", "m", "m", "m"]).round(3).tolist()
[0.75, 0.75, 1.5, 1.5, 0.75, 0.75]
"""

import numpy as np
from numpy.typing import ArrayLike

from discreet.fairness.repair.people import Floats, People


def reweigh(label: ArrayLike, group: ArrayLike) -> Floats:
    """P(A = a)·P(Y = y)/P(A = a, Y = y) for each row; give them as `sample_weight`.

    Weighted, each group has the same share of positive labels. A label that does not occur in a group gets no weight,
    since no row has it: then the shares stay apart.
    """
    people = People.of(label, group)
    counts = np.zeros((len(people.groups), 2))
    np.add.at(counts, (people.group, people.label), 1)
    expected = counts.sum(axis=1, keepdims=True) * counts.sum(axis=0) / counts.sum()
    weights = np.divide(expected, counts, out=np.zeros_like(counts), where=counts > 0)
    found: Floats = weights[people.group, people.label]
    return found
