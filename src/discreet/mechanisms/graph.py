"""Which inputs must look alike: neighbor graphs, and distances between inputs.

A neighbor graph is given as

- ``"all"``: any two inputs are neighbors (the local model: an input is one person's secret);
- ``"line"``: each input and the next one, in the order of the rows (counts 0, 1, 2, …);
- a list of pairs of inputs;
- a function of two inputs that says whether they are neighbors;
- a `Graph` that was read before.

The relation is symmetric: a pair (a, b) also means (b, a).
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidChannel, InvalidParameter
from discreet.exact import Number, rational
from discreet.mechanisms.stochastic import Label, Matrix, Rows, positions

Metric = str | Rows | Callable[[Any, Any], Number]

_LEAST, _MOST = 1e-300, 1e300  # distances that floats can divide by


@dataclass(frozen=True, slots=True)
class Graph:
    """The neighbors of each input, by position; `adjacent` is None where all inputs are neighbors."""

    size: int
    adjacent: tuple[NDArray[np.intp], ...] | None

    def of(self, i: int) -> NDArray[np.intp]:
        """The neighbors of input i.

        >>> Graph(3, None).of(1)
        array([0, 2])
        """
        if self.adjacent is not None:
            return self.adjacent[i]
        return np.delete(np.arange(self.size), i)

    def restrict(self, kept: NDArray[np.intp]) -> "Graph":
        """The graph of some of the inputs, renumbered in the order given.

        >>> graph("line", (0, 1, 2)).restrict(np.array([1, 2])).of(0)
        array([1])
        """
        if self.adjacent is None:
            return Graph(len(kept), None)
        new = {int(old): i for i, old in enumerate(kept)}
        near = ([new[j] for j in self.adjacent[old].tolist() if j in new] for old in kept)
        return Graph(len(kept), tuple(np.array(js, dtype=np.intp) for js in near))

    def pairs(self) -> Iterable[tuple[int, int]]:
        """Every ordered pair of neighbors.

        >>> list(Graph(2, None).pairs())
        [(0, 1), (1, 0)]
        """
        return ((i, int(j)) for i in range(self.size) for j in self.of(i))


Neighborhood = str | Graph | Iterable[tuple[Any, Any]] | Callable[[Any, Any], bool]


def graph(neighbors: Neighborhood, inputs: tuple[Label, ...]) -> Graph:
    """Read a neighbor graph over these inputs.

    >>> graph("line", ("a", "b", "c")).of(1)
    array([0, 2])
    >>> graph([("a", "c")], ("a", "b", "c")).of(2)
    array([0])
    >>> graph([("a", "a")], ("a", "b"))
    Traceback (most recent call last):
    discreet.errors.InvalidChannel: neighbors: 'a' is paired with itself; name two different inputs
    """
    size = len(inputs)
    if isinstance(neighbors, Graph):
        if neighbors.size != size:
            raise InvalidChannel(f"neighbors: got a graph of {neighbors.size} inputs, expected {size}")
        return neighbors
    if isinstance(neighbors, str):
        if neighbors == "all":
            return Graph(size, None)
        if neighbors == "line":
            return _from_edges(size, [(i, i + 1) for i in range(size - 1)])
        raise InvalidChannel(
            f"neighbors: got {neighbors!r}, expected 'all', 'line', a list of pairs of inputs, or a function of two"
        )
    if callable(neighbors):
        edges = [
            (i, j)
            for i in range(size)
            for j in range(i)
            if neighbors(inputs[i], inputs[j]) or neighbors(inputs[j], inputs[i])
        ]
    else:
        edges = _named_edges(neighbors, inputs)
    if not edges and size > 1:
        raise InvalidChannel("neighbors: there are none, so every channel would be private; give at least one pair")
    return _from_edges(size, edges)


def distances(metric: Metric, inputs: tuple[Label, ...]) -> Matrix:
    """The distance between any two inputs as a square array; `math.inf` where there is no constraint.

    `metric` is "discrete" (1 between different inputs), "line" (how many rows apart), a function of two
    inputs, or a matrix. It must be symmetric, 0 from an input to itself, and never negative; the triangle
    inequality is not needed. Plain numbers give float64, Fractions, texts and large integers stay exact. Distances
    are 0 or between 1e-300 and 1e300.

    >>> distances("line", ("a", "b", "c"))[0].tolist(), distances([[0, "1/3"], ["1/3", 0]], ("a", "b"))[0, 1]
    ([0.0, 1.0, 2.0], Fraction(1, 3))
    """
    table = _distance_table(metric, inputs)
    plain = all(type(value) is float or (type(value) is int and abs(value) < 2**53) for row in table for value in row)
    result: Matrix = np.array(table, dtype=np.float64) if plain else _exact_distances(table, inputs)
    for i, j in np.argwhere(~(result >= 0)):
        raise InvalidChannel(f"metric: got {result[i, j]} from {inputs[i]!r} to {inputs[j]!r}, expected a number ≥ 0")
    for i, j in np.argwhere((result != 0) & (result != math.inf) & ((result < _LEAST) | (result > _MOST))):
        raise InvalidChannel(
            f"metric: the distance from {inputs[i]!r} to {inputs[j]!r} is not between 1e-300 and 1e300"
        )
    for i, j in np.argwhere(result != result.T):
        raise InvalidChannel(f"metric: the distance from {inputs[i]!r} to {inputs[j]!r} differs from the way back")
    for i in np.flatnonzero(result.diagonal() != 0):
        raise InvalidChannel(f"metric: {inputs[i]!r} is at a distance from itself, expected 0")
    return result


def hamming(a: Any, b: Any) -> int:
    """How many records differ between two datasets of one size: the metric of central differential privacy.

    >>> hamming((0, 1, 1), (0, 0, 1))
    1
    """
    if len(a) != len(b):
        raise InvalidChannel(f"metric: got datasets of {len(a)} and {len(b)} records, expected one size")
    return sum(x != y for x, y in zip(a, b, strict=True))


def _from_edges(size: int, edges: Iterable[tuple[int, int]]) -> Graph:
    adjacent: list[set[int]] = [set() for _ in range(size)]
    for i, j in edges:
        adjacent[i].add(j)
        adjacent[j].add(i)
    return Graph(size, tuple(np.array(sorted(near), dtype=np.intp) for near in adjacent))


def _named_edges(pairs: object, inputs: tuple[Label, ...]) -> list[tuple[int, int]]:
    if not isinstance(pairs, Iterable):
        raise InvalidChannel(f"neighbors: got a {type(pairs).__name__}, expected 'all', 'line', pairs or a function")
    flat: list[object] = []
    for pair in pairs:
        if not isinstance(pair, tuple | list | np.ndarray) or len(pair) != 2:
            raise InvalidChannel(f"neighbors: got {pair!r:.80}, expected a pair of inputs")
        flat += pair.tolist() if isinstance(pair, np.ndarray) else pair
    found = positions(flat, inputs, "input in the neighbors")
    edges = list(zip(found[::2], found[1::2], strict=True))
    for i, j in edges:
        if i == j:
            raise InvalidChannel(f"neighbors: {inputs[i]!r} is paired with itself; name two different inputs")
    return edges


def _distance_table(metric: Metric, inputs: tuple[Label, ...]) -> Any:
    size = len(inputs)
    if isinstance(metric, str):
        if metric == "discrete":
            return [[int(i != j) for j in range(size)] for i in range(size)]
        if metric == "line":
            return [[abs(i - j) for j in range(size)] for i in range(size)]
        raise InvalidChannel(
            f"metric: got {metric!r}, expected 'discrete', 'line', a function of two inputs or a matrix"
        )
    if callable(metric):
        return [[metric(a, b) for b in inputs] for a in inputs]
    rows = metric.tolist() if isinstance(metric, np.ndarray) else metric
    shaped = isinstance(rows, Sequence) and all(
        isinstance(r, Sequence | np.ndarray) and not isinstance(r, str) and len(r) == size for r in rows
    )
    if not shaped or len(rows) != size:
        raise InvalidChannel(f"metric: got a matrix of another shape, expected {size}×{size}, a distance for each pair")
    return rows


def _exact_distances(table: Any, inputs: tuple[Label, ...]) -> Matrix:
    result = np.empty((len(inputs), len(inputs)), dtype=object)
    for i, j in np.ndindex(result.shape):
        result[i, j] = _distance(table[i][j], inputs[i], inputs[j])
    return result


def _distance(value: Any, a: Label, b: Label) -> Fraction | float:
    if isinstance(value, float) and value == math.inf:
        return math.inf
    try:
        return rational(value, f"distance from {a!r} to {b!r}")
    except InvalidParameter as error:
        raise InvalidChannel(f"metric: {error}") from None
