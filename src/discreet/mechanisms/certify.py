"""From a floating-point answer to a channel that is private exactly."""

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InternalError
from discreet.exact import exp_down
from discreet.mechanisms.channel import Channel
from discreet.mechanisms.divergence import least_of_neighbors, worst
from discreet.mechanisms.graph import Graph
from discreet.mechanisms.stochastic import Label, Matrix

_UNITS = 1 << 60  # probabilities are first rounded to whole multiples of 2^-60
_NOISE = 1e-9  # outputs that never get more probability than this are the solver's noise, and dropped


def certified(
    raw: NDArray[np.float64], near: Graph, epsilon: Fraction, inputs: tuple[Label, ...], outputs: tuple[Label, ...]
) -> Channel:
    """The ε-DP channel nearest to a solver's answer, as mixtures with constant channels go, exact and checked.

    Guarantee: C[x,z] ≤ E·C[x',z] for all neighbors and outputs, with a rational E ≤ e^ε.
    Proof. N holds the rounded answer in whole units, rows of equal sum. Let v be the most by which N[x,z] exceeds
    E·N[x',z] in column z. Adding a mass m ≥ v/(E − 1) to every entry of column z gives
    N[x,z] + m ≤ E·N[x',z] + v + m ≤ E·(N[x',z] + m), and no less mass would do. All rows grow by the same total, by
    which they are divided: the result is a mixture with the constant channel of these masses. Where E = 1, connected
    inputs must have equal rows, and get them. The worst ratio is then computed again from the result.

    >>> broken = np.array([[0.75, 0.25, 0.0], [0.25, 0.75, 1e-8]])
    >>> repaired = certified(broken, Graph(2, None), Fraction(1), (0, 1), (0, 1, 2))
    >>> repaired.ratio("all") <= exp_down(Fraction(1)), float(repaired.probability(0, 2))
    (True, 5.3788...e-09)
    """
    growth = exp_down(epsilon)
    units = _whole_units(raw)
    if growth == 1:
        units = units[_components(near)]
        mass = [0] * len(outputs)
    else:
        excess = (units * growth.denominator - least_of_neighbors(units, near) * growth.numerator).max(axis=0)
        mass = [-(-max(v, 0) // (growth.numerator - growth.denominator)) for v in excess.tolist()]
    total = int(units[0].sum()) + sum(mass)
    entries = [[Fraction(n + m, total) for n, m in zip(row, mass, strict=True)] for row in units.tolist()]
    channel = Channel(entries, inputs, outputs)
    x, y, z = worst(channel.matrix, near) or (0, 0, 0)
    if channel.matrix[x, z] > growth * channel.matrix[y, z]:
        raise InternalError("the repaired optimal channel does not satisfy its ε; please report the prior and loss")
    return channel


def _components(near: Graph) -> NDArray[np.intp]:
    """For each input the first input that is connected with it."""
    first = np.arange(near.size)
    while True:
        reached = least_of_neighbors(first[:, None], near)[:, 0]
        if (reached == first).all():
            return first
        first = reached


def _whole_units(raw: NDArray[np.float64]) -> Matrix:
    """Rows of non-negative integers that sum to exactly 2^60, in proportion to the rows given."""
    kept = np.where(raw.max(axis=0) > _NOISE, np.maximum(raw, 0), 0)
    sums = kept.sum(axis=1, keepdims=True)
    if not (np.isfinite(raw).all() and (np.abs(sums - 1) < 1e-3).all()):
        raise InternalError("the solver's answer is not close to a stochastic matrix")
    units = np.array([[round(p * _UNITS) for p in row] for row in (kept / sums).tolist()], dtype=object)
    for row in units:
        row[row.argmax()] += _UNITS - row.sum()
    return units
