"""The linear program of private channels, and its solver (HiGHS through SciPy).

Variables: C[x,z], row by row; then, where all inputs are neighbours, the least entry of each column, which
replaces a quadratic number of pairs; then, for the worst-case program, the largest row loss t.
Constraints: e^−ε·C[x,z] ≤ C[x',z] for neighbours, so that no coefficient exceeds 1; rows sum to 1.
"""

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InternalError, InvalidParameter
from discreet.exact import exp_up
from discreet.mechanisms.graph import Graph

_MOST_VARIABLES = 250_000
_MOST_CONSTRAINTS = 2_000_000
_TOLERANCE = 1e-10  # the least that HiGHS accepts


def solve(
    objective: NDArray[np.float64], near: Graph, epsilon: Fraction, *, worst_row: bool = False
) -> tuple[NDArray[np.float64], float]:
    """Minimise Σ objective·C, or the largest row of it, over ε-DP channels C: the solver's C and its value.

    >>> C, value = solve(np.array([[0, 0.5], [0.5, 0]]), Graph(2, None), Fraction(1))
    >>> round(value, 9), C.round(3).tolist()
    (0.268941421, [[0.731, 0.269], [0.269, 0.731]])
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
    return found.x[: n * m].reshape(n, m), float(found.fun) * scale


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
    """One more variable t, to be minimised, and the constraints (loss of row x) − t ≤ 0."""
    from scipy.sparse import block_diag, csr_array, hstack, vstack

    n, extra = len(objective), below.shape[1] - objective.size
    losses = hstack(
        [block_diag([row[None, :] for row in objective]), csr_array((n, extra)), csr_array(-np.ones((n, 1)))]
    )
    below = csr_array(vstack([hstack([below, csr_array((below.shape[0], 1))]), losses]))
    cost = np.append(np.zeros(below.shape[1] - 1), 1.0)
    return below, csr_array(hstack([sums, csr_array((n, 1))])), cost
