"""Objective perturbation for regressions: ε-DP, on a computer whose numbers are not real numbers.

The weights minimize Σ loss + Λ‖w‖²/2 + b·w, with b drawn once (Chaudhuri, Monteleoni, Sarwate 2011, Algorithm 2;
Kifer, Smith, Thakurta 2012). The papers need a b with a density and the exact minimizer. Neither exists in floats, and
a b on a grid alone would protect nothing: its minimizers lie on a set of points that the data decide. Here both gaps
are closed by a certificate and a little noise on the weights, as for approximate minima in Iyengar et al. 2019.

A logistic loss has scores v·w and a class as its target. A number y is a target, too: scores are v·w − y and the target
is a chance of ½, so the loss is log cosh of half a score: a parabola near 0, of slope at most ½ far from it.

Guarantee: `perturbed` is ε-DP under "add or remove one", ε being the sum of three parts.
Proof. Let v = (1, z) be a row, ‖v‖₁ ≤ L, ‖v‖² ≤ S, and d the number of weights.
(1) Noise. K is discrete Laplace of scale s in each weight, U uniform on [−½, ½]ᵈ, b = (K + U)/GRID. The density h of b
    is constant on cells, and |log h(b) − log h(b′)| ≤ ‖K − K′‖₁/s ≤ (GRID·‖b − b′‖₁ + d)/s. U is never drawn.
(2) Weights. The sum of losses F is convex and smooth, so exactly one W has b = −∇F(W) − ΛW, a smooth bijection: W has
    the density h(−∇F(W) − ΛW)·det(∇²F(W) + Λ). One row more moves ∇F by (chances − target) ⊗ v. It adds to the Hessian,
    which is at least Λ, a matrix with eigenvalues μ: the determinant grows, by at most Π(1 + μ/Λ).
    Two classes: with r = |chance − target|, ∇F moves by r‖v‖₁ in ℓ1 norm, and one μ = r(1 − r)‖v‖². So the density
    changes by at most the exponential of f(r) + d/s, f(r) = r·e + log(1 + r(1 − r)S/Λ), e = GRID·L/s. f is concave and
    has the slope e − S/Λ at r = 1. If Λ ≥ S/e it is therefore at most f(1) = e: the determinant costs nothing, because
    a row that moves the gradient most moves the Hessian least. Else f(r) ≤ e + log(1 + S/4Λ).
    K classes: ∇F moves by at most 2L, and K − 1 eigenvalues have a sum of at most (1 − 1/K)‖v‖², so by the means'
    inequality the determinant grows by at most (1 + S/(KΛ))^(K−1).
    A number as target: ∇F moves by r‖v‖₁ with r = |chance − ½| ≤ ½, and one μ = (¼ − r²)‖v‖². f(r) = r·e +
    log(1 + (¼ − r²)S/Λ) is concave, and has the same slope e − S/Λ at r = ½: for Λ ≥ S/e it is at most f(½) = e/2, and
    else at most e/2 + log(1 + S/4Λ).
    A weight w ≤ 1 of the row multiplies both by w: f(r) becomes w·r·e + log(1 + w·r(1 − r)S/Λ), which for Λ ≥ S/e is at
    most w·e·(2r − r²) ≤ e, and else at most e + log(1 + S/4Λ); for a number r(1 − r) is ¼ − r², and w·e·(r + ¼ − r²) is
    at most e/2. The bound for K classes grows with w. Larger penalties on some weights raise the Hessian, no more.
    So W is (ε₁ + ε₂)-DP: ε₁ = (GRID·c·L + d)/s, c = ½ for a number, 1 for two classes and 2 for more; ε₂ is what the
    determinant costs.
    (That needs ‖v‖², not ‖v‖, and a penalty on every weight, the constant's too.)
(3) What is computed from K is an A with ‖∇F(A) + ΛA + K/GRID‖ ≤ TOLERANCE, certified (`Problem.gradient`). By strong
    convexity ‖A − W‖ ≤ τ = (TOLERANCE + √d/(2·GRID))/Λ. Given W, the same for two neighboring tables, A in steps of q
    rounded to whole numbers differs between them by at most 2√d·τ/q + d in ℓ1 norm; discrete Laplace noise of that
    scale over ε₃ makes W and the released weights together (ε₁ + ε₂ + ε₃)-DP. No distribution of A is used, so neither
    the order of additions nor the number of threads matters.
"""

import decimal
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import cast

import numpy as np
from numpy.typing import NDArray

from discreet.exact import Number, exp_down, float_up, log_up, rational
from discreet.learning.classical.exact_sums import UNIT, Floats, Ints, Noise, Part, planned, root_up
from discreet.noise import Entropy
from discreet.privacy.loss import Pure

GRID = 1 << 20
TOLERANCE = Fraction(1, 1 << 16)
_DETERMINANT, _OUTPUT = Fraction(1, 4), Fraction(1, 64)  # the shares of ε₂, at most, and ε₃
_FACTOR = {1: Fraction(1, 2), 2: Fraction(1)}  # c of the proof by the number of classes, 2 for more
_FLAT = Fraction(8)  # e⁸: beyond it a smaller penalty gains nothing, and weights could outgrow floats
_BLOCK = 1 << 8
_MANY = 1 << 13
_U = 2.0**-53


@dataclass(frozen=True, slots=True)
class Perturbation:
    """The penalty Λ, the noise of both stages, and the step q = 2^−bits of the released weights."""

    penalty: Fraction
    noise: Noise
    bits: int
    square: int

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise on each coordinate of a sum of gradients."""
        return self.noise.deviation(0) / GRID


def perturbation(
    columns: int,
    classes: int,
    *,
    l1: int,
    square: int,
    epsilon: Number,
    least: Number,
    rows: int | None = None,
    stated: Number | None = None,
) -> Perturbation:
    """How to spend ε. `columns`, `l1` (L·UNIT) and `square` (S·UNIT²) are those of v; the penalty is at least `least`.

    One class means that the target is a number. The penalty is also large enough for the determinant to cost nothing,
    or where that asks for twice as much, a quarter of ε. Refusals name `stated`, the ε of which this may be a share.

    >>> plan = perturbation(3, 2, l1=3 * UNIT, square=3 * UNIT**2, epsilon=1, least=1)
    >>> round(float(plan.penalty), 4), plan.noise.loss
    (3.0476, Pure(epsilon=1))
    """
    target = rational(epsilon, "epsilon", above=0)
    factor, outputs = _FACTOR.get(classes, Fraction(2)), classes if classes > 2 else 1
    size, reach, whole = columns * outputs, factor * l1 / UNIT, Fraction(square, UNIT * UNIT)
    moved = math.ceil(reach * GRID) + size
    free = whole * factor * moved / (reach * GRID * (1 - _OUTPUT) * target) if outputs == 1 else None
    penalty, determinant = _penalty(classes, whole, target, free, rational(least, "least"))
    off = (TOLERANCE + root_up(Fraction(size)) / (2 * GRID)) / penalty
    bits = max(0, math.ceil(math.log2(4 * math.sqrt(size) / off)))
    apart = math.ceil(2 * root_up(Fraction(size)) * off * (1 << bits)) + size
    first = Part(moved, 1, GRID, 1 - _OUTPUT - determinant / target)
    noise = planned([first, Part(apart, 1, 1 << bits, _OUTPUT)], epsilon=epsilon, delta=0, rows=rows, stated=stated)
    return Perturbation(penalty, noise, bits, square)


def moved(plan: Perturbation, columns: int, classes: int, l1: int) -> Pure:
    """What a release costs, from its scales, penalty and step: ε₁ + ε₂ + ε₃ of the proof, not what was planned."""
    outputs, reach = classes if classes > 2 else 1, Fraction(l1, UNIT)
    size, square = columns * outputs, Fraction(plan.square, UNIT * UNIT)
    first, last = plan.noise.scales
    slope = GRID * reach / first
    times, over = (1, 4) if outputs == 1 else (classes - 1, classes)
    free = outputs == 1 and plan.penalty >= square / slope
    determinant = Fraction(0) if free else times * log_up(1 + square / (over * plan.penalty))
    root = root_up(Fraction(size))
    apart = 2 * root * (TOLERANCE + root / (2 * GRID)) / plan.penalty * (1 << plan.bits) + size
    return Pure(_FACTOR.get(classes, Fraction(2)) * slope + size / first + determinant + apart / last)


def _penalty(
    classes: int, square: Fraction, epsilon: Fraction, free: Fraction | None, least: Fraction
) -> tuple[Fraction, Fraction]:
    """Λ, and what the determinant costs: nothing from `free` on, S/e of the proof."""
    times, over = (1, 4) if classes <= 2 else (classes - 1, classes)
    paid = square / (over * (exp_down(min(epsilon * _DETERMINANT / times, _FLAT)) - 1))
    penalty = Fraction(float_up(max(least, paid if free is None or free > 2 * paid else free)))
    if free is not None and penalty >= free:
        return penalty, Fraction(0)
    return penalty, times * log_up(1 + square / (over * penalty))


def perturbed(
    v: Ints,
    target: Ints | Floats,
    plan: Perturbation,
    entropy: Entropy | None,
    sample_weight: Floats | None = None,
    more: Floats | float = 0.0,
) -> Floats:
    """The released weights, a column for each output; v and target as in `Problem.of`. Guarantee and proof: above."""
    shape = (v.shape[1], target.shape[1])
    drawn = plan.noise.add(0, np.zeros(shape, np.int64), entropy)
    weights = minimized(Problem.of(v, target, plan, drawn, sample_weight, more))
    steps = np.clip(np.rint(np.ldexp(weights, plan.bits)), -(2.0**62), 2.0**62).astype(np.int64)
    return np.ldexp(plan.noise.add(1, steps, entropy).astype(np.float64), -plan.bits)


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """Σ loss + Λ‖w‖²/2 + b·w: rows x of norm at most `reach`, targets, Λ and b = drawn/GRID, all exact in floats.

    `target` is that of chances, `offset` a number that is taken from scores, `penalty` a column of numbers from Λ on.
    """

    x: Floats
    small: NDArray[np.float32]
    target: Floats
    offset: Floats
    penalty: Floats
    drawn: Ints
    reach: float
    weight: Floats

    @classmethod
    def of(
        cls,
        v: Ints,
        target: Ints | Floats,
        plan: Perturbation,
        drawn: Ints,
        weight: Floats | None = None,
        more: Floats | float = 0.0,
    ) -> "Problem":
        """Indicators of classes as whole numbers, or numbers as floats; `more` penalty on each weight than Λ.

        Entries of v have 16 bits, so v/UNIT is exact, in float32 too. A sum of Λ and what is not negative is no less.
        """
        x, reach = v / UNIT, float_up(root_up(Fraction(plan.square, UNIT * UNIT)))
        weights = np.ones((len(v), 1)) if weight is None else weight[:, None]
        penalty = np.broadcast_to(float(plan.penalty) + np.reshape(np.maximum(more, 0.0), (-1, 1)), (v.shape[1], 1))
        floats, number = target.astype(np.float64), target.dtype.kind == "f"
        goal = np.full(target.shape, 0.5) if number else floats
        offset = floats if number else np.zeros((len(v), 1))
        return cls(x, x.astype(np.float32), goal, offset, penalty, drawn, reach, weights)

    def chances(self, weights: Floats) -> Floats:
        """Of the classes, a column for each output."""
        scores = self.x @ weights - self.offset
        if weights.shape[1] == 1:
            return np.asarray(1 / (1 + np.exp(np.minimum(-scores, 700.0))), np.float64)
        grown = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(grown / grown.sum(axis=1, keepdims=True), np.float64)

    def guess(self) -> Floats:
        """Weights to start from, wherever they are."""
        if len(self.x) < _MANY:
            return np.zeros(self.drawn.shape)
        few = slice(None, None, 8)
        x, small, target = self.x[few].copy(), self.small[few].copy(), self.target[few]
        offset, weight = self.offset[few], self.weight[few]
        part = Problem(x, small, target, offset, self.penalty / 8, self.drawn // 8, self.reach, weight)
        return minimized(part, Fraction(len(x), 1000))

    def slope(self, weights: Floats, *, careful: bool) -> tuple[Floats, float]:
        """The gradient and the bound on its error, in floats or in decimals."""
        return self.careful(weights) if careful else self.gradient(weights)

    def gradient(self, weights: Floats) -> tuple[Floats, float]:
        """The gradient, and a bound on how far from the true one it may be, in ℓ2 norm.

        Proof of the bound, with u = 2⁻⁵³ and γₖ = 2ku > ku/(1 − ku) (Higham 2002, section 3.1). Scores are dot products
        of p terms of size at most reach·‖w‖ together: off by γₚ·reach·‖w‖, and 4u·reach·‖w‖ where the largest is taken
        off, or an offset, whose size then counts with reach·‖w‖. A chance moves by at most half of that, as
        Σ|∂p/∂scores| = 2p(1 − p) ≤ ½; exp (taken to be right to 4 units in the last place), sums, division and the
        row's weight add (outputs + 20)u. Sums run over blocks of `_BLOCK` rows, then in pairs: γ of their number times
        Σ‖residual‖·‖x‖ ≤ √2·rows·reach. The last two additions round three numbers.
        """
        residuals = (self.chances(weights) - self.target) * self.weight
        total = _summed(self.x, residuals)
        pull, noise = self.penalty * weights, self.drawn / GRID
        count, (columns, outputs) = len(self.x), weights.shape
        most = self.reach * float(np.linalg.norm(weights)) + float(np.abs(self.offset).max(initial=0.0))
        each = (columns + 4) * 2 * _U * most / 2 + (outputs + 20) * _U
        sums = (_BLOCK + math.log2(count + 1) + 4) * 2 * _U * math.sqrt(2)
        ends = 8 * _U * (float(np.linalg.norm(pull) + np.linalg.norm(noise)) + 2 * count * self.reach)
        return total + pull + noise, 1.01 * (count * self.reach * (math.sqrt(outputs) * each + sums) + ends)

    def careful(self, weights: Floats) -> tuple[Floats, float]:
        """The same in decimal arithmetic of 80 digits, slowly: for numbers at which floats cannot certify."""
        with decimal.localcontext() as context:
            context.prec, context.Emax, context.Emin = 80, 10**9, -(10**9)
            exact = [[decimal.Decimal(w) for w in column] for column in weights.T.tolist()]
            pulls = [decimal.Decimal(pull) for pull in self.penalty[:, 0].tolist()]
            total = [
                [pull * w + decimal.Decimal(k) / GRID for pull, w, k in zip(pulls, ws, ks, strict=True)]
                for ws, ks in zip(exact, self.drawn.T.tolist(), strict=True)
            ]
            sides = np.hstack([self.offset, self.weight]).tolist()
            for x, t, (offset, weight) in zip(self.x.tolist(), self.target.tolist(), sides, strict=True):
                row = [decimal.Decimal(value) for value in x]
                for index, residual in enumerate(_residuals(row, t, exact, decimal.Decimal(offset))):
                    force = residual * decimal.Decimal(weight)
                    total[index] = [a + force * value for a, value in zip(total[index], row, strict=True)]
            result = np.array([[float(value) for value in column] for column in total]).T
        return result, 2.0**-40 * (1 + float(np.linalg.norm(result)))

    def curvature(self, weights: Floats, *, fine: bool) -> Floats:
        """The Hessian, nearly: it only decides how fast the minimum is found. The weights of an output together."""
        chances, rows = self.chances(weights), cast(Floats, self.x if fine else self.small)
        columns, outputs = weights.shape
        whole = np.diag(np.tile(self.penalty[:, 0], outputs))
        for a in range(outputs):
            for b in range(a, outputs):
                share = (chances[:, a] * (float(a == b) - chances[:, b]))[:, None] * self.weight
                share = share.astype(rows.dtype, copy=False)
                block = ((rows * share).T @ rows).astype(np.float64)
                here, there = (slice(k * columns, (k + 1) * columns) for k in (a, b))
                whole[here, there] += block
                if a != b:
                    whole[there, here] += block.T
        return whole


def minimized(problem: Problem, tolerance: Fraction = TOLERANCE) -> Floats:
    """Weights whose gradient is certainly at most TOLERANCE: there is no other way out.

    Newton's method, from the minimum for one row in eight where there are many; a Hessian is used again while it brings
    the gradient down to a quarter. Where floats are too coarse for a step or for the certificate, decimal arithmetic
    goes on.
    """
    weights, careful = problem.guess(), False
    metric: Floats | None = None
    slope, error = problem.slope(weights, careful=False)
    while not _length(slope) + error <= tolerance:
        fresh = metric is None
        if metric is None:
            metric = np.asarray(np.linalg.inv(problem.curvature(weights, fine=careful)), np.float64)
        coarse = not careful and error > tolerance / 2
        result = None if coarse else _stepped(problem, weights, slope, metric, careful=careful, fresh=fresh)
        if result is None:
            careful, metric = careful or coarse or fresh, None
            slope, error = problem.slope(weights, careful=careful)
            continue
        metric = metric if _length(result[1]) <= 0.25 * _length(slope) else None
        weights, slope, error = result
    return weights


def _stepped(
    problem: Problem, weights: Floats, slope: Floats, metric: Floats, *, careful: bool, fresh: bool
) -> tuple[Floats, Floats, float] | None:
    """A step that shrinks the gradient: to a quarter, or at all if the metric is fresh; None if there is none.

    With the true Hessian there is one: its direction lowers ‖gradient‖² at the rate of 2‖gradient‖².
    """
    move = (metric @ slope.T.ravel()).reshape(slope.T.shape).T
    for halvings in range(40 if fresh else 1):
        size = 0.5**halvings
        there = weights - size * move
        result, error = problem.slope(there, careful=careful)
        if _length(result) <= (1 - size / 4 if fresh else 0.25) * _length(slope):
            return there, result, error
    return None


def _residuals(
    row: list[decimal.Decimal], target: list[float], weights: list[list[decimal.Decimal]], offset: decimal.Decimal
) -> list[decimal.Decimal]:
    scores = [sum((a * w for a, w in zip(row, column, strict=True)), -offset) for column in weights]
    if len(scores) == 1:
        scores.append(decimal.Decimal(0))
    grown = [(score - max(scores)).exp() for score in scores]
    whole = sum(grown, decimal.Decimal(0))
    return [part / whole - decimal.Decimal(goal) for part, goal in zip(grown, target, strict=False)]


def _summed(x: Floats, residuals: Floats) -> Floats:
    """xᵀ·residuals, in blocks and then in pairs: few roundings one after the other."""
    full = len(x) // _BLOCK * _BLOCK
    blocks = residuals[:full].reshape(-1, _BLOCK, residuals.shape[1]), x[:full].reshape(-1, _BLOCK, x.shape[1])
    parts = np.matmul(blocks[1].transpose(0, 2, 1), blocks[0])
    parts = np.concatenate([parts, (x[full:].T @ residuals[full:])[None]])
    while len(parts) > 1:
        odd = parts[len(parts) // 2 * 2 :]
        parts = np.concatenate([parts[0 : len(parts) // 2 * 2 : 2] + parts[1::2], odd])
    return np.asarray(parts[0], np.float64)


def _length(vector: Floats) -> float:
    return float(np.linalg.norm(vector)) * (1 + 2.0**-30)
