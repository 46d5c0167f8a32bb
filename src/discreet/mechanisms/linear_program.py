"""The linear program of private channels, its solver (HiGHS through SciPy), and what its duals prove.

Variables: C[x,z], row by row; then, where all inputs are neighbors, the least entry of each column, which
replaces a quadratic number of pairs; then, for the worst-case program, the largest row loss t.
Constraints: e^−ε·C[x,z] ≤ C[x',z] for neighbors, so that no coefficient exceeds 1; rows sum to 1.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InternalError, InvalidParameter
from discreet.exact import exp_down, exp_up, float_down
from discreet.mechanisms.channel import Channel
from discreet.mechanisms.divergence import least_of_neighbors, worst
from discreet.mechanisms.graph import Graph
from discreet.mechanisms.stochastic import Label, Matrix

_MOST_VARIABLES = 250_000
_MOST_CONSTRAINTS = 2_000_000
_TOLERANCE = 1e-10  # the least that HiGHS accepts


@dataclass(frozen=True, slots=True)
class Solution:
    """What the solver says, in floats: a channel and its value; and `bound`, below which no ε-DP channel is."""

    channel: NDArray[np.float64]
    value: float
    bound: float


def solve(objective: NDArray[np.float64], near: Graph, epsilon: Fraction, *, worst_row: bool = False) -> Solution:
    """Minimize Σ objective·C, or the largest row of it, over ε-DP channels C.

    >>> best = solve(np.array([[0, 0.5], [0.5, 0]]), Graph(2, None), Fraction(1))
    >>> round(best.value, 9), 0 <= best.value - best.bound < 1e-9, best.channel.round(3).tolist()
    (0.268941421, True, [[0.731, 0.269], [0.269, 0.731]])
    """
    from scipy.optimize import linprog

    n, m = objective.shape
    check_size(n, m, near)
    scale = float(np.abs(objective).max()) or 1.0
    below, sums = _private(near, float(exp_up(-epsilon)), m), _row_sums(n, m, near)
    cost = np.append((objective / scale).ravel(), np.zeros(below.shape[1] - n * m))
    if worst_row:
        below, sums, cost = _with_worst_row(below, sums, objective / scale)
    found = linprog(
        cost,
        A_ub=below,
        b_ub=np.zeros(below.shape[0]),
        A_eq=sums,
        b_eq=np.ones(n),
        bounds=[(0, None)] * (len(cost) - worst_row) + [(None, None)] * worst_row,
        method="highs",
        options={"primal_feasibility_tolerance": _TOLERANCE, "dual_feasibility_tolerance": _TOLERANCE},
    )
    if found.status != 0 or found.x is None or found.fun is None:
        raise InternalError(f"the linear program was not solved: {found.message}")
    duals = np.maximum(-found.ineqlin.marginals, 0)
    weights = duals[-n:] if worst_row else np.ones(n)
    pairs = duals[:-n] if worst_row else duals
    bound = _dual_bound(objective / scale, weights, pairs, _private(near, _shrink_down(epsilon), m))
    if worst_row:  # t ≥ each row's loss, so t·Σw ≥ Σw·loss ≥ bound for any weights
        total = math.fsum(weights.tolist())
        bound = _down(bound / total, 4 * abs(bound / total)) if total > 0 else -math.inf
    return Solution(found.x[: n * m].reshape(n, m), float(found.fun) * scale, _down(bound * scale, abs(bound * scale)))


def _dual_bound(
    objective: NDArray[np.float64], weights: NDArray[np.float64], pairs: NDArray[np.float64], below: Any
) -> float:
    """A number that is not above Σ w·objective·C for any ε-DP channel C, whatever the multipliers `pairs` ≥ 0 are.

    Proof (weak duality). Let B·(C, least) ≤ 0 be the constraints of privacy and λ ≥ 0 the multipliers. Adding λᵀB can
    only lower the loss: Σ w·objective·C ≥ Σ r·C + Σ s·least with r = w·objective + (Bᵀλ on C), s = Bᵀλ on the column
    minima. Rows of C sum to 1 and 0 ≤ least ≤ 1, so that is at least Σ_x min_z r[x,z] + Σ_z min(0, s[z]). All of it is
    computed in floats: a sum of k products of floats is within (k + 2)·2^−52 of the sum of their sizes, which is taken
    off; objectives are within 2^−50 of their size. `below` has e^−ε rounded down, which allows more channels.
    """
    n, m = objective.shape
    terms = int(np.diff(below.tocsc().indptr).max(initial=0))
    reduced = np.asarray(below.T @ pairs)
    sizes = np.asarray(abs(below).T @ pairs)
    own = (weights[:, None] * objective).ravel()
    error = (terms + 8) * 2.0**-50 * (sizes + np.append(np.abs(own), np.zeros(reduced.size - n * m)))
    rows = (own + reduced[: n * m] - error[: n * m]).reshape(n, m).min(axis=1)
    columns = np.minimum(0, reduced[n * m :] - error[n * m :])
    parts = [*rows.tolist(), *columns.tolist()]
    return _down(math.fsum(parts), math.fsum(abs(part) for part in parts))


def _down(value: float, size: float) -> float:
    """A float below a value that was computed to a few units in the last place of `size`."""
    return math.nextafter(value - 2.0**-50 * size, -math.inf) if size else value


def _shrink_down(epsilon: Fraction) -> float:
    """A float that is not above e^−ε."""
    return float_down(exp_down(-epsilon))


def check_size(n: int, m: int, near: Graph) -> None:
    """Refuse programs that would not be solved in minutes.

    >>> check_size(1000, 1000, Graph(1000, None))
    Traceback (most recent call last):
    discreet.errors.InvalidParameter: inputs × outputs: got '1000 × 1000', expected at most 250,000 variables ...
    """
    constraints = 2 * n * m if near.adjacent is None else m * sum(len(ys) for ys in near.adjacent)
    if n * m > _MOST_VARIABLES or constraints > _MOST_CONSTRAINTS:
        expected = f"at most {_MOST_VARIABLES:,} variables and {_MOST_CONSTRAINTS:,} constraints"
        raise InvalidParameter("inputs × outputs", f"{n} × {m}", expected, "use fewer, coarser labels")


def _private(near: Graph, shrink: float, m: int) -> Any:
    """Rows of e^−ε·C[x,z] − C[x',z] ≤ 0; over column minima: e^−ε·C[x,z] ≤ least[z] ≤ C[x,z]."""
    from scipy.sparse import csr_array, eye_array, hstack, kron, vstack

    n = near.size
    if near.adjacent is None:
        least = kron(np.ones((n, 1)), eye_array(m))
        entries = eye_array(n * m)
        return csr_array(vstack([hstack([shrink * entries, -least]), hstack([-entries, least])]))
    pairs = np.array(list(near.pairs()), dtype=np.intp).reshape(-1, 2)
    at = np.arange(len(pairs))
    values = np.append(np.full(len(pairs), shrink), np.full(len(pairs), -1.0))
    signs = csr_array((values, (np.append(at, at), np.append(pairs[:, 0], pairs[:, 1]))), shape=(len(pairs), n))
    return csr_array(kron(signs, eye_array(m)))


def _row_sums(n: int, m: int, near: Graph) -> Any:
    from scipy.sparse import csr_array, eye_array, hstack, kron

    sums = kron(eye_array(n), np.ones((1, m)))
    return csr_array(hstack([sums, csr_array((n, m))]) if near.adjacent is None else sums)


def _with_worst_row(below: Any, sums: Any, objective: NDArray[np.float64]) -> tuple[Any, Any, NDArray[np.float64]]:
    """One more variable t, to be minimized, and the constraints (loss of row x) − t ≤ 0."""
    from scipy.sparse import block_diag, csr_array, hstack, vstack

    n, extra = len(objective), below.shape[1] - objective.size
    losses = hstack(
        [block_diag([row[None, :] for row in objective]), csr_array((n, extra)), csr_array(-np.ones((n, 1)))]
    )
    below = csr_array(vstack([hstack([below, csr_array((below.shape[0], 1))]), losses]))
    cost = np.append(np.zeros(below.shape[1] - 1), 1.0)
    return below, csr_array(hstack([sums, csr_array((n, 1))])), cost


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
