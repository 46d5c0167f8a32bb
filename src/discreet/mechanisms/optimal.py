"""The best private mechanism for a prior and a loss, by linear programming, certified in rationals.

An ε-DP channel C for a neighbor graph is a point of the polytope C[x,z] ≤ e^ε·C[x',z], rows summing to 1, and the
expected loss is linear in C (Ghosh, Roughgarden, Sundararajan 2009, sec. 2.3). A solver (HiGHS through SciPy) works in
floating point: its answer has zeros beside non-zeros, for which no ε holds at all. What is returned here has been
repaired, rounded to rationals and checked exactly; how far from the optimum it is at most is proven by the duals
(`solve`).

Variables: C[x,z], row by row; then, where all inputs are neighbors, the least entry of each column, which
replaces a quadratic number of pairs; then, for the worst-case program, the largest row loss t.
Constraints: e^−ε·C[x,z] ≤ C[x',z] for neighbors, so that no coefficient exceeds 1; rows sum to 1.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InternalError, InvalidChannel, InvalidParameter
from discreet.exact import Number, exp_down, exp_up, float_down, float_up, integer, rational
from discreet.mechanisms.bayesian import expected_loss
from discreet.mechanisms.channel import Channel
from discreet.mechanisms.divergence import least_of_neighbors, worst
from discreet.mechanisms.neighbor_graph import Graph, Neighborhood, graph
from discreet.mechanisms.stochastic import (
    Label,
    LossFunction,
    Matrix,
    Prior,
    read_labels,
    read_loss,
    read_matrix,
    read_prior,
)

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
    result = linprog(
        cost,
        A_ub=below,
        b_ub=np.zeros(below.shape[0]),
        A_eq=sums,
        b_eq=np.ones(n),
        bounds=[(0, None)] * (len(cost) - worst_row) + [(None, None)] * worst_row,
        method="highs",
        options={"primal_feasibility_tolerance": _TOLERANCE, "dual_feasibility_tolerance": _TOLERANCE},
    )
    if result.status != 0 or result.x is None or result.fun is None:
        raise InternalError(f"the linear program was not solved: {result.message}")
    duals = np.maximum(-result.ineqlin.marginals, 0)
    weights = duals[-n:] if worst_row else np.ones(n)
    pairs = duals[:-n] if worst_row else duals
    bound = _dual_bound(objective / scale, weights, pairs, _private(near, _shrink_down(epsilon), m))
    if worst_row:  # t ≥ each row's loss, so t·Σw ≥ Σw·loss ≥ bound for any weights
        total = math.fsum(weights.tolist())
        bound = _down(bound / total, 4 * abs(bound / total)) if total > 0 else -math.inf
    return Solution(
        result.x[: n * m].reshape(n, m), float(result.fun) * scale, _down(bound * scale, abs(bound * scale))
    )


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


@dataclass(frozen=True, slots=True)
class Optimum:
    """A certified channel, its loss, and how much less any ε-DP channel could lose.

    `value` is exact for the channel if prior and loss are. `bound` is proven: no ε-DP channel loses less. `lp_value` is
    what the solver claims for the optimum, in floats; it proves nothing.
    """

    channel: Channel
    epsilon: Fraction
    lp_value: float
    value: Any
    bound: float

    @property
    def gap(self) -> float:
        """The certified channel's loss minus the proven bound: it is at most this far from the optimum."""
        return max(0.0, float_up(Fraction(self.value) - Fraction(self.bound)))


def optimum(
    *,
    prior: Prior,
    loss: LossFunction,
    epsilon: Number,
    neighbors: Neighborhood,
    inputs: Iterable[Label] | None = None,
    outputs: Iterable[Label] | None = None,
) -> Optimum:
    """The ε-DP channel of least expected loss Σ π(y)·C(z|y)·ℓ(y,z), certified, with the solver's value beside it.

    Inputs are named by `inputs`, else by the keys of the prior, else 0, 1, 2, …; outputs are the inputs unless given.

    Guarantee: the channel returned is ε-DP for the neighbors given, exactly in rationals (`certified`). Its loss is
    within `gap` of the least that any ε-DP channel has (`program.solve`). The solver works to about 1e-9 of the
    largest loss: where ε is so large that the optimum is below that, the gap is not small beside it, and says so.

    >>> found = optimum(prior=["1/2", "1/2"], loss=lambda y, z: abs(y - z), epsilon=1, neighbors="all")
    >>> round(found.lp_value, 9), found.gap < 1e-8  # 1/(1 + e)
    (0.268941421, True)
    """
    rows, columns = _labels(prior, loss, inputs, outputs)
    near = graph(neighbors, rows)
    check_size(len(rows), len(columns), near)
    cost, weight = read_loss(loss, rows, columns), read_prior(prior, rows)
    level = rational(epsilon, "epsilon", at_least=0, at_most=100)
    objective = _objective(cost, weight)
    best = solve(objective, near, level)
    channel = certified(best.channel, near, level, rows, columns)
    return Optimum(channel, level, best.value, expected_loss(channel, weight, cost), best.bound)


def minimax(
    *,
    loss: LossFunction,
    epsilon: Number,
    neighbors: Neighborhood,
    inputs: Iterable[Label],
    outputs: Iterable[Label] | None = None,
) -> Optimum:
    """The ε-DP channel whose expected loss is least for the worst prior, that is for the worst input.

    Guarantee: as for `optimum`.

    >>> found = minimax(loss=lambda y, z: abs(y - z), epsilon=1, neighbors="line", inputs=range(3))
    >>> found.channel.epsilon("line") <= 1, found.gap < 1e-8
    (True, True)
    """
    rows, columns = _labels("uniform", loss, inputs, outputs)
    near = graph(neighbors, rows)
    check_size(len(rows), len(columns), near)
    cost = read_loss(loss, rows, columns)
    level = rational(epsilon, "epsilon", at_least=0, at_most=100)
    best = solve(_objective(cost), near, level, worst_row=True)
    channel = certified(best.channel, near, level, rows, columns)
    kind: Any = object if cost.dtype == object else np.float64
    return Optimum(channel, level, best.value, (channel.matrix.astype(kind) * cost).sum(axis=1).max(), best.bound)


def geometric_channel(n: int, epsilon: Number, *, bits: int = 64) -> Channel:
    """The truncated geometric mechanism on counts 0..n: two-sided geometric noise of ratio α, then clamped to [0, n].

    Guarantee: ε-DP for counts that differ by at most 1, exactly: α ≥ e^−ε is rational (rounded up), and the ratio of
    two consecutive rows is α or 1/α in every column (Ghosh, Roughgarden, Sundararajan 2009, Def. 2.2).

    >>> geometric_channel(2, "0.6931471805599454").as_float().matrix.round(4)
    array([[0.6667, 0.1667, 0.1667],
           [0.3333, 0.3333, 0.3333],
           [0.1667, 0.1667, 0.6667]])
    """
    n = integer(n, "n", at_least=1, at_most=1000)
    level = rational(epsilon, "epsilon", at_least=0, at_most=100)
    alpha = min(exp_up(-level, integer(bits, "bits", at_least=16, at_most=256)), Fraction(1))
    powers = [alpha**k / (1 + alpha) for k in range(n + 1)]
    inner = [power * (1 - alpha) for power in powers]
    rows = [[powers[y], *(inner[abs(y - z)] for z in range(1, n)), powers[n - y]] for y in range(n + 1)]
    entries = np.empty((n + 1, n + 1), dtype=object)
    entries[:] = rows
    return Channel._of(entries, tuple(range(n + 1)), tuple(range(n + 1)))


@dataclass(frozen=True, slots=True)
class Universal:
    """Whether one mechanism can serve several users: the least sum of losses with one, and with one for each."""

    together: float
    separate: float

    @property
    def gap(self) -> float:
        """What the users lose together by sharing one mechanism; 0 (to solver precision) where it serves all."""
        return self.together - self.separate


def universal_gap(
    *,
    epsilon: Number,
    neighbors: Neighborhood,
    users: Sequence[tuple[Prior, LossFunction]],
    inputs: Iterable[Label],
    guesses: Iterable[Label] | None = None,
) -> Universal:
    """Decide whether ONE ε-DP mechanism is optimal, after remapping, for all these users.

    Proof that the program decides it. Let user i remap the outputs of a mechanism by rᵢ, a function without loss of
    generality (`inference.remap`). The tuples (r₁(o), …, r_k(o)) are post-processing: an ε-DP mechanism with outputs
    in Zᵏ, of which user i reads the i-th coordinate, with the same losses. So the least sum of losses over all
    mechanisms is that over channels with outputs in Zᵏ, a linear program. It is at least the sum of the separate
    optima, with equality if and only if some mechanism attains all of them.

    >>> counts = [("uniform", lambda y, z: abs(y - z)), (["1/2", "1/4", "1/4"], lambda y, z: int(y != z))]
    >>> abs(universal_gap(epsilon=1, neighbors="line", users=counts, inputs=range(3)).gap) < 1e-8
    True
    """
    if not users:
        raise InvalidParameter("users", users, "at least one (prior, loss)")
    rows, columns = _labels("uniform", lambda _y, _z: 0, inputs, guesses)
    near = graph(neighbors, rows)
    level = rational(epsilon, "epsilon", at_least=0, at_most=100)
    check_size(len(rows), len(columns) ** len(users), near)
    costs = [_objective(read_loss(loss, rows, columns), read_prior(prior, rows)) for prior, loss in users]
    shared = [sum(cost[:, z] for cost, z in zip(costs, choice, strict=True)) for choice in _choices(costs)]
    separate = math.fsum(solve(cost, near, level).value for cost in costs)
    return Universal(solve(np.stack(shared, axis=1), near, level).value, separate)


def _objective(cost: Matrix, weight: Matrix | None = None) -> NDArray[np.float64]:
    """What the solver minimizes, in floats: π(y)·ℓ(y,z). What is too small for a float cannot matter to it."""
    try:
        floats: NDArray[np.float64] = cost.astype(np.float64)
    except OverflowError:
        raise InvalidChannel("loss: a number is too large for the solver; divide the loss by a constant") from None
    return floats if weight is None else floats * weight.astype(np.float64)[:, None]


def _choices(costs: list[NDArray[np.float64]]) -> Iterable[tuple[int, ...]]:
    return product(*(range(cost.shape[1]) for cost in costs))


def _labels(
    prior: Prior, loss: LossFunction, inputs: Iterable[Label] | None, outputs: Iterable[Label] | None
) -> tuple[tuple[Label, ...], tuple[Label, ...]]:
    """Names of inputs and outputs from what was given; see `optimum`."""
    if inputs is None:
        if isinstance(prior, str):
            raise InvalidChannel("inputs: name them, or give a prior that names them; 'uniform' does not")
        if not isinstance(prior, Mapping | Sequence | np.ndarray):
            raise InvalidChannel("prior: expected a list of probabilities, a mapping from inputs to them, or 'uniform'")
        inputs = prior if isinstance(prior, Mapping) else range(len(prior))
    listed = list(inputs)
    rows = read_labels(listed, len(listed), "input")
    if not rows:
        raise InvalidChannel("inputs: there are none; name at least one")
    if outputs is not None:
        named = list(outputs)
        return rows, read_labels(named, len(named), "output")
    width = len(rows) if callable(loss) else read_matrix(loss, None, None)[0].shape[1]
    return rows, rows if width == len(rows) else tuple(range(width))
