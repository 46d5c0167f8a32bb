"""Which inputs must look alike: neighbor graphs, and distances between inputs.

A neighbor graph is given as

- ``"all"``: any two inputs are neighbors (the local model: an input is one person's secret);
- ``"line"``: each input and the next one, in the order of the rows (counts 0, 1, 2, …);
- a list of pairs of inputs;
- a function of two inputs that says whether they are neighbors;
- a `Graph` that was read before.

The relation is symmetric: a pair (a, b) also means (b, a).

The sensitivity of a query, by exhaustive search over a small domain.

The search tries every pair of neighbors, so what it says about the domain it was given is a fact, and about a
larger domain a lower bound.

>>> from discreet.mechanisms.neighbor_graph import sensitivity
>>> from discreet.privacy.unit import Neighbors
>>> sensitivity(sum, domain=[0, 1, 2], size=3, neighbors=Neighbors.CHANGE_ONE)
Sensitivity(value=Fraction(2, 1), witness=((0, 0, 0), (2, 0, 0)), datasets=27, pairs=81)
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations_with_replacement, islice
from itertools import product as tuples
from typing import Any, assert_never

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidChannel, InvalidParameter
from discreet.exact import Number, float_up, integer, rational, sqrt_bounds
from discreet.mechanisms.stochastic import Label, Matrix, Rows, positions
from discreet.privacy.unit import Neighbors
from discreet.privacy.unit import relation as read_relation

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
    result = positions(flat, inputs, "input in the neighbors")
    edges = list(zip(result[::2], result[1::2], strict=True))
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


Dataset = tuple[Any, ...]
_Positions = tuple[int, ...]  # a dataset, as positions in the domain
_Answer = dict[Any, Fraction]

_MOST_PAIRS = 2_000_000
_MOST_VALUES = 10_000


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """The largest change of a query between neighbors, two datasets that show it, and how many were tried.

    `value` is a Fraction if every answer was exact (ints, Fractions, Decimals), else a float, never below the change.
    """

    value: Fraction | float
    witness: tuple[Dataset, Dataset] | None
    datasets: int
    pairs: int


def sensitivity(
    query: Callable[[Dataset], Any],
    *,
    domain: Iterable[Any],
    size: int,
    neighbors: Neighbors,
    norm: int | str = 1,
    ordered: bool = True,
) -> Sensitivity:
    """The exact sensitivity of a query on datasets of `size` records from a finite domain, by trying all of them.

    What is enumerated. "Change one": every dataset of `size` records, against every dataset got by giving one record
    another value of the domain. "Add or remove one": every dataset of `size` and of `size` + 1 records, against
    every dataset got by removing one record; so each dataset of `size` records meets all its neighbors, smaller
    and larger. A dataset is a tuple of records; with `ordered=False` only one order of each is tried, the domain's,
    which is enough for queries that do not depend on the order.

    The query returns a number, or several as a sequence, array or mapping (absent keys count as 0); `norm` (1, 2 or
    "inf") measures how far two answers are apart. The ℓ2 norm of exact answers is rounded up to a float where it
    is irrational.

    >>> histogram = lambda rows: [rows.count("a"), rows.count("b")]
    >>> for relation in Neighbors:
    ...     print(relation, sensitivity(histogram, domain="ab", size=3, neighbors=relation).value)
    add or remove one 1
    change one 2
    """
    values = _domain(domain)
    relation = read_relation(neighbors)
    n = integer(size, "size", at_least=1 if relation is Neighbors.CHANGE_ONE else 0)
    if norm not in (1, 2, "inf"):
        raise InvalidParameter("norm", norm, "1, 2 or 'inf'")
    _check_work(len(values), n, relation, ordered)
    answers: dict[_Positions, _Answer] = {}
    exact = True

    def answer(dataset: _Positions) -> _Answer:
        nonlocal exact
        if dataset not in answers:
            answered = _answer_of(query, tuple(values[k] for k in dataset))
            exact = exact and not any(isinstance(value, float) for value in answered.values())
            answers[dataset] = {key: Fraction(value) for key, value in answered.items()}
        return answers[dataset]

    best = Fraction(0)
    witness, pairs = None, 0
    for a, b in _neighbor_pairs(len(values), n, relation, ordered):
        pairs += 1
        apart = _points_apart(answer(a), answer(b), norm)
        if apart > best:
            best, witness = apart, (tuple(values[k] for k in a), tuple(values[k] for k in b))
    result = _root(best) if norm == 2 else best
    return Sensitivity(result if exact or isinstance(result, float) else float_up(result), witness, len(answers), pairs)


def _neighbor_pairs(
    values: int, size: int, relation: Neighbors, ordered: bool
) -> Iterator[tuple[_Positions, _Positions]]:
    """Every pair of neighbors that `sensitivity` promises, each once (in one of its two directions)."""
    match relation:
        case Neighbors.CHANGE_ONE:
            for a in _datasets(values, size, ordered):
                for i in _places(a, ordered):
                    for value in range(a[i] + 1, values):
                        b = (*a[:i], value, *a[i + 1 :])
                        yield a, b if ordered else tuple(sorted(b))
        case Neighbors.ADD_OR_REMOVE_ONE:
            for length in (size, size + 1):
                for a in _datasets(values, length, ordered):
                    for i in _places(a, ordered):
                        yield a, (*a[:i], *a[i + 1 :])
        case _:
            assert_never(relation)


def _datasets(values: int, size: int, ordered: bool) -> Iterator[_Positions]:
    return tuples(range(values), repeat=size) if ordered else combinations_with_replacement(range(values), size)


def _places(dataset: _Positions, ordered: bool) -> Iterable[int]:
    """The records to change or remove: all of them, or one of each value where the order does not matter."""
    return range(len(dataset)) if ordered else {value: i for i, value in enumerate(dataset)}.values()


def _check_work(values: int, size: int, relation: Neighbors, ordered: bool) -> None:
    """Count the pairs (at most) before the search, and refuse one that would not end."""

    def datasets(length: int) -> int:
        return values**length if ordered else math.comb(values + length - 1, length)

    if size > 10_000:  # the count itself would be too long to print
        raise InvalidParameter("size", size, "a small dataset", "the search is exhaustive")
    if relation is Neighbors.CHANGE_ONE:
        pairs = datasets(size) * size * (values - 1)
    else:
        pairs = datasets(size) * size + datasets(size + 1) * (size + 1)
    if pairs > _MOST_PAIRS:
        got = f"{values} values, {size} records: {_counted(pairs)} pairs of datasets"
        hint = "take fewer records or values" + (", or ordered=False if the order does not matter" if ordered else "")
        raise InvalidParameter("domain and size", got, f"at most {_MOST_PAIRS:,} pairs", hint)


def _counted(pairs: int) -> str:
    return f"{pairs:,}" if pairs < 10**15 else f"about 10^{len(bin(pairs)) * 3 // 10}"


def _domain(domain: Iterable[Any]) -> list[Any]:
    if not isinstance(domain, Iterable):
        raise InvalidParameter("domain", domain, "a list of the values that a record can take")
    values = list(islice(domain, _MOST_VALUES + 1))
    if not 0 < len(values) <= _MOST_VALUES:
        got = f"{len(values)} values" if not values else f"over {_MOST_VALUES:,} values"
        raise InvalidParameter("domain", got, f"between 1 and {_MOST_VALUES:,} values")
    return values


def _answer_of(query: Callable[[Dataset], Any], dataset: Dataset) -> dict[Any, Fraction | float]:
    try:
        answer = query(dataset)
    except Exception as error:
        got = f"{type(error).__name__} on a dataset of {len(dataset)} records"
        hint = "say what the query answers there (a query of nothing may be 0)"
        raise InvalidParameter("query", got, "an answer for every dataset tried", hint) from error
    if isinstance(answer, np.ndarray):
        answer = answer.ravel().tolist() if answer.ndim else answer.item()
    if isinstance(answer, Mapping):
        return {key: _number(value) for key, value in answer.items()}
    if isinstance(answer, Sequence) and not isinstance(answer, str):
        return {("position", i, len(answer)): _number(value) for i, value in enumerate(answer)}
    return {"": _number(answer)}


def _number(value: Any) -> Fraction | float:
    if isinstance(value, float | np.floating):
        if not math.isfinite(value):
            raise InvalidParameter("query", value, "finite answers", "clamp what it computes")
        return float(value)
    return rational(value, "query")


def _points_apart(a: _Answer, b: _Answer, norm: int | str) -> Fraction:
    """The ℓ1 or ℓ∞ norm of a − b, or the square of its ℓ2 norm."""
    gaps: list[Fraction]
    if a.keys() == b.keys():
        gaps = [abs(value - b[key]) for key, value in a.items()]
    elif any(isinstance(key, tuple) and key[:1] == ("position",) for key in a.keys() ^ b.keys()):
        raise InvalidParameter("query", f"{len(a)} and {len(b)} numbers", "answers of one length for all datasets")
    else:
        gaps = [abs(a.get(key, Fraction(0)) - b.get(key, Fraction(0))) for key in a.keys() | b.keys()]
    match norm:
        case 1:
            return sum(gaps, Fraction(0))
        case 2:
            return sum((gap * gap for gap in gaps), Fraction(0))
        case _:
            return max(gaps, default=Fraction(0))


def _root(square: Fraction) -> Fraction | float:
    """√, exact where it is rational, rounded up otherwise."""
    top, bottom = math.isqrt(square.numerator), math.isqrt(square.denominator)
    if Fraction(top, bottom) ** 2 == square:
        return Fraction(top, bottom)
    return float_up(Fraction(sqrt_bounds(square, 96)[1], 1 << 96))
