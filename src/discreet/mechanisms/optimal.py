"""The best private mechanism for a prior and a loss, by linear programming, certified in rationals.

An ε-DP channel C for a neighbor graph is a point of the polytope C[x,z] ≤ e^ε·C[x',z], rows summing to 1, and the
expected loss is linear in C (Ghosh, Roughgarden, Sundararajan 2009, sec. 2.3). A solver works in floating point: its
answer has zeros beside non-zeros, for which no ε holds at all. What is returned here has been repaired, rounded to
rationals and checked exactly; how far from the optimum it is at most is proven by the duals (`program.solve`).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidChannel, InvalidParameter
from discreet.exact import Number, exp_up, float_up, integer, rational
from discreet.mechanisms.bayesian import expected_loss
from discreet.mechanisms.channel import Channel
from discreet.mechanisms.graph import Neighborhood, graph
from discreet.mechanisms.linear_program import certified, check_size, solve
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


def optimal(
    *,
    prior: Prior,
    loss: LossFunction,
    epsilon: Number,
    neighbors: Neighborhood,
    inputs: Iterable[Label] | None = None,
    outputs: Iterable[Label] | None = None,
) -> Channel:
    """The ε-DP channel of least expected loss; see `optimum`, which also reports the values.

    >>> best = optimal(prior="uniform", loss=lambda y, z: abs(y - z), epsilon=1, neighbors="line", inputs=range(4))
    >>> best.exact, best.epsilon("line") <= 1
    (True, True)
    """
    return optimum(prior=prior, loss=loss, epsilon=epsilon, neighbors=neighbors, inputs=inputs, outputs=outputs).channel


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
    """Decide whether ONE ε-DP mechanism is optimal, after remapping, for all these users (claim B15).

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
            raise InvalidChannel("inputs: name them, or give a prior that does; 'uniform' does not say over what")
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
