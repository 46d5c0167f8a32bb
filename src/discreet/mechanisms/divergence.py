"""How far apart the rows of a stochastic matrix are: likelihood ratios and hockey-stick divergences.

The functions take a matrix that is float64, or exact (Fractions in an object array), and a neighbor graph by
position. The same NumPy code serves both: exact matrices are first brought to integers over one denominator,
which leaves ratios alone.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from discreet.exact import log_up, plain, printed_up
from discreet.mechanisms.neighbor_graph import Graph
from discreet.mechanisms.stochastic import Label, Matrix

Place = tuple[int, int, int]
"""Positions (x, x', z): an input, its neighbor and an output."""

BITS = 192
"""Precision of e^ε and ln here: twice that of `exp_down`, so that a ratio made by it is seen to be within its ε."""

_MOST_DENOMINATOR_BITS = 1 << 15
_BLOCK = 1 << 16  # floats: half a megabyte, so that a block of differences stays in the cache


@dataclass(frozen=True, slots=True)
class Witness:
    """Why a channel is not more private: the output that best tells an input from its neighbor."""

    input: Label
    neighbor: Label
    output: Label
    probability: Fraction | float
    neighbor_probability: Fraction | float

    def __str__(self) -> str:
        p, q = (_short(value) for value in (self.probability, self.neighbor_probability))
        return (
            f"output {self.output!r} has probability {p} for input {self.input!r} "
            f"and {q} for its neighbor {self.neighbor!r}"
        )

    def log_ratio(self) -> Fraction | float:
        """ln(p/p') rounded up; inf where the neighbor never gives this output.

        >>> float(Witness("a", "b", 0, Fraction(3, 4), Fraction(1, 4)).log_ratio())
        1.0986122886681098
        """
        if not self.neighbor_probability:
            return math.inf
        return log_ratio_up(Fraction(self.probability) / Fraction(self.neighbor_probability))


def log_ratio_up(ratio: Fraction) -> Fraction:
    """ln of a ratio ≥ 1, rounded up, to `BITS` bits relatively: ln(1 + x) ≥ x/2 for x ≤ 1.

    >>> float(log_ratio_up(1 + Fraction(1, 10**100)))
    1e-100
    """
    excess = ratio - 1
    return log_up(ratio, BITS + max(0, excess.denominator.bit_length() - excess.numerator.bit_length()))


def worst(matrix: Matrix, graph: Graph) -> Place | None:
    """Where p(z|x)/p(z|x') is largest over neighbors x, x' and outputs z; None where all ratios are 1.

    For each x and z only the neighbor with the least p(z|x') matters, and where all inputs are neighbors
    only the largest and the least entry of each column do.

    >>> from discreet.mechanisms.neighbor_graph import graph
    >>> worst(np.array([[0.5, 0.5], [0.25, 0.75]]), graph("all", ("a", "b")))
    (0, 1, 0)
    """
    scaled, _ = integers(matrix)
    if graph.adjacent is None:
        low = scaled.argmin(axis=0)
        high = scaled.argmax(axis=0)
        return _largest(scaled, [(high, low)])
    near = ((x, graph.of(x)) for x in range(graph.size))
    rows = [(np.full(scaled.shape[1], x), ys[scaled[ys].argmin(axis=0)]) for x, ys in near if len(ys)]
    return _largest(scaled, rows)


def worst_by_distance(matrix: Matrix, distances: Matrix) -> list[Place]:
    """Places among which ln(p(z|x)/p(z|x'))/d(x,x') is largest: one per distance, or one in all for floats.

    >>> from discreet.mechanisms.neighbor_graph import distances
    >>> worst_by_distance(np.array([[0.5, 0.5], [0.25, 0.75]]), distances("discrete", ("a", "b")))
    [(0, 1, 0)]
    """
    if matrix.dtype != object:
        return _worst_float_by_distance(matrix, distances.astype(np.float64))
    scaled, _ = integers(matrix)
    results: dict[Any, Place] = {}
    for x in range(len(scaled)):
        for d in set(distances[x].tolist()) - {math.inf}:
            ys = np.flatnonzero((distances[x] == d) & (np.arange(len(scaled)) != x))
            here = _largest(scaled, [(np.full(scaled.shape[1], x), ys[scaled[ys].argmin(axis=0)])]) if len(ys) else None
            if here and (d not in results or _exceeds(scaled, here, results[d])):
                results[d] = here
    return list(results.values())


def rounded_up(x: Fraction | float) -> float:
    """A float not below x; see `exact.printed_up`.

    >>> rounded_up(Fraction(0)), rounded_up(math.inf)
    (0.0, inf)
    """
    return printed_up(x) if isinstance(x, Fraction) else x


def hockey_stick(matrix: Matrix, growth: Fraction | float, graph: Graph) -> Any:
    """max over neighbors x, x' of Σ_z max(0, p(z|x) − growth·p(z|x')), for growth ≥ 1.

    With growth = e^ε this is the least δ of (ε,δ)-DP (Barthe, Olmedo 2013; Balle, Barthe, Gaboardi 2018, Thm 1):
    the set S = {z : p(z|x) > e^ε·p(z|x')} is the worst one.

    >>> from discreet.mechanisms.neighbor_graph import graph
    >>> C = np.array([[Fraction(3, 4), Fraction(1, 4)], [Fraction(1, 4), Fraction(3, 4)]])
    >>> hockey_stick(C, Fraction(1), graph("all", ("a", "b"))), hockey_stick(C, Fraction(3), graph("all", ("a", "b")))
    (Fraction(1, 2), Fraction(0, 1))
    """
    scaled, unit = integers(matrix)
    over, under, scale = _sides(scaled, growth)
    blocks = (part.max() for x in range(graph.size) for _, part in _row_excess(over, under, x, graph))
    return max(blocks, default=0) / (Fraction(unit * scale) if matrix.dtype == object else 1.0)


def growth_for_delta(matrix: Matrix, delta: Fraction, graph: Graph) -> Any:
    """The least e^ε ≥ 1 for which the channel is (ε,δ)-DP; inf where there is none (or, in floats, none below e^709).

    Proof. For a pair let the outputs be in decreasing order of p/q, with sums P_k and Q_k of the first k. By
    Neyman and Pearson these prefixes contain a worst set for every growth g, so the pair needs
    P_k − g·Q_k ≤ δ for all k, that is g ≥ (P_k − δ)/Q_k. Pairs that are within δ at the growth found so
    far need nothing more.

    >>> from discreet.mechanisms.neighbor_graph import graph
    >>> C = np.array([[Fraction(3, 4), Fraction(1, 4)], [Fraction(1, 4), Fraction(3, 4)]])
    >>> growth_for_delta(C, Fraction(1, 4), graph("all", ("a", "b")))
    Fraction(2, 1)
    """
    exact = matrix.dtype == object
    slack: Any = delta if exact else float(delta)
    growth: Any = Fraction(1) if exact else 1.0
    scaled, unit = integers(matrix)
    for x in range(graph.size):
        over, under, scale = _sides(scaled, growth)
        for ys, excess in _row_excess(over, under, x, graph):
            for y in ys[excess > slack * unit * scale]:
                growth = max(growth, _pair_growth(matrix[x], matrix[y], slack))
                if growth == math.inf:
                    return growth
    return growth


def integers(matrix: Matrix) -> tuple[Matrix, int]:
    """An exact matrix as integers over one denominator; itself (over 1) if float, or if that would be huge.

    >>> integers(np.array([[Fraction(1, 2), Fraction(1, 3)]]))
    (array([[3, 2]], dtype=object), 6)
    """
    if matrix.dtype != object:
        return matrix, 1
    unit = 1
    for denominator in {entry.denominator for entry in matrix.flat}:
        unit = math.lcm(unit, denominator)
        if unit.bit_length() > _MOST_DENOMINATOR_BITS:
            return matrix, 1
    scaled = [[entry.numerator * (unit // entry.denominator) for entry in row] for row in matrix]
    return np.array(scaled, dtype=object), unit


def least_of_neighbors(matrix: Matrix, graph: Graph) -> Matrix:
    """For each input x and output z the least p(z|x') over the neighbors x' of x (over x too).

    >>> least_of_neighbors(np.array([[3, 1], [2, 5]]), Graph(2, None))
    array([[2, 1],
           [2, 1]])
    """
    if graph.adjacent is None:
        return np.broadcast_to(matrix.min(axis=0), matrix.shape)
    most = matrix.max()
    near = ((matrix[x], matrix[graph.of(x)]) for x in range(graph.size))
    return np.array([np.minimum(own, others.min(axis=0, initial=most)) for own, others in near])


def _largest(matrix: Matrix, rows: list[tuple[Matrix, Matrix]]) -> Place | None:
    """The candidate with the largest ratio among pairs (x, x') given for each column; None if none exceeds 1."""
    if not rows:
        return None
    columns = np.tile(np.arange(matrix.shape[1]), len(rows))
    x = np.concatenate([high for high, _ in rows])
    y = np.concatenate([low for _, low in rows])
    p, q = matrix[x, columns], matrix[y, columns]
    k = _argmax_ratio(p, q) if matrix.dtype != object else _argmax_exact_ratio(p.tolist(), q.tolist())
    return (int(x[k]), int(y[k]), int(columns[k])) if p[k] > q[k] else None


def _argmax_ratio(p: Matrix, q: Matrix) -> int:
    impossible = np.flatnonzero((q == 0) & (p > 0))
    if len(impossible):
        return int(impossible[0])
    return int(_log_ratios(p, np.where(p > 0, q, 1.0)).argmax())


def _log_ratios(p: Matrix, q: Matrix) -> Matrix:
    """ln(p/q), accurate where p and q nearly agree (p − q is exact there); NaN for 0/0, inf for a q of 0."""
    with np.errstate(all="ignore"):
        result: Matrix = np.log1p((p - q) / q)
        return np.where(np.isinf(result), np.log(p) - np.log(q), result)  # 1/5e-324 overflows, its logarithm does not


def _log_gaps(p: Matrix, rows: Matrix) -> Matrix:
    """For each row q the largest `_log_ratios` of p and q; one logarithm a row where nothing overflows."""
    with np.errstate(all="ignore"):
        excess = p - rows
        excess /= rows
        gaps: Matrix = np.log1p(np.fmax.reduce(excess, axis=1))
    overflowed = np.flatnonzero(np.isinf(gaps))
    impossible = ((rows[overflowed] == 0) & (p > 0)).any(axis=1)
    for y in overflowed[~impossible]:
        gaps[y] = np.fmax.reduce(_log_ratios(p, rows[y]))
    return gaps


def _argmax_exact_ratio(p: list[Any], q: list[Any]) -> int:
    possible = [k for k in range(len(p)) if p[k] > 0]
    best = possible[0] if possible else 0
    for k in possible:
        if q[k] == 0:
            return k
        if p[k] * q[best] > p[best] * q[k]:
            best = k
    return best


def _exceeds(matrix: Matrix, a: Place, b: Place) -> bool:
    p, q = ([matrix[at[i], at[2]] for at in (a, b)] for i in (0, 1))
    return bool(p[0] * q[1] > p[1] * q[0])


def _worst_float_by_distance(matrix: Matrix, distances: Matrix) -> list[Place]:
    best, place = 0.0, None
    with np.errstate(divide="ignore", invalid="ignore"):
        for x in range(len(matrix)):
            gap = _log_gaps(matrix[x], matrix)
            score = np.where((gap > 0) & np.isfinite(distances[x]), gap / distances[x], 0.0)
            y = int(score.argmax())
            if score[y] > best:
                best, place = float(score[y]), (x, y)
    if place is None:
        return []
    x, y = place
    return [(x, y, _argmax_ratio(matrix[x], matrix[y]))]


def _sides(scaled: Matrix, growth: Fraction | float) -> tuple[Matrix, Matrix, int]:
    """Matrices over, under and a scale with p(z|x) − growth·p(z|x') = (over[x,z] − under[x',z])/scale."""
    if scaled.dtype != object:
        return scaled, scaled * float(growth), 1
    growth = Fraction(growth)
    return scaled * growth.denominator, scaled * growth.numerator, growth.denominator


def _row_excess(over: Matrix, under: Matrix, x: int, graph: Graph) -> Iterator[tuple[Matrix, Matrix]]:
    """Blocks of (neighbors x' of x, Σ_z max(0, over[x,z] − under[x',z])). An input never exceeds itself."""
    ys = np.arange(graph.size) if graph.adjacent is None else graph.of(x)
    step = max(1, _BLOCK // over.shape[1])
    for start in range(0, len(ys), step):
        block = ys[start : start + step]
        rows = under[start : start + step] if graph.adjacent is None else under[block]
        excess = over[x] - rows
        np.maximum(excess, 0, out=excess)
        yield block, excess.sum(axis=1)


def _pair_growth(p: Matrix, q: Matrix, delta: Any) -> Any:
    some = p > 0
    p, q = p[some], q[some]
    if p.dtype == object:
        order = sorted(range(len(p)), key=lambda z: q[z] / p[z])
    else:
        with np.errstate(over="ignore"):
            order = np.argsort(q / p, kind="stable").tolist()
    above, below = np.cumsum(p[order]), np.cumsum(q[order])
    need = above > delta
    above, below = above[need], below[need]
    if not len(above):
        return 1
    if (below == 0).any():
        return math.inf
    with np.errstate(over="ignore"):
        return ((above - delta) / below).max()


def _short(value: Fraction | float) -> str:
    text = plain(value) if isinstance(value, Fraction) else f"{value:.6g}"
    return text if len(text) <= 24 else f"{float(value):.6g}"
