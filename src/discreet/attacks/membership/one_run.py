r"""How well may one tell "in" from "out" under a claim? Two families of curves, and what right guesses refute of them.

A claim bounds true positives by false ones: TPR ≤ F(FPR) for every test, F concave and increasing (Dong, Roth, Su 2022,
"Gaussian differential privacy": F = 1 − f for the trade-off function f). `Plain` is (ε,δ)-DP; `Gaussian` is the curve
of one Gaussian release of sensitivity μ standard deviations, which is what many of them amount to as well.

Theorem 4 (in the manner of Mahloujifar, Melis, Chaudhuri 2024, "Auditing f-differential privacy in one run"; proved
here in the form that is used). In the setting below, with exactly r guesses on m coins of which W are right, let
p_j = P[W = j], R_w = Σ_{j ≥ w} j·p_j and H_w = Σ_{j ≥ w} (r − j)·p_j. Then for all w ≥ 1

    R_w/m ≤ F(H_{w−1}/m),  that is,  H_{w−1} ≥ m·F⁻¹(R_w/m).

Proof. Fix a place i, the other coins and a side s. The event {guess i is s, and W ≥ w if coin i is s} has at most F(x)
probability when coin i is s, if x is its probability when it is not; there the guess is wrong and W, one less, is at
least w − 1. Take means over s and the other coins, then over i; F is concave (Jensen):
P[guess i right, W ≥ w] and P[guess i wrong, W ≥ w − 1] average to R_w/m and H_{w−1}/m.  ∎

Corollary (what `refuted` computes). Suppose P[W ≥ v] ≥ α. With κ_j = j/(r − j), R_w = R_{w+1} + κ_w·(H_w − H_{w+1}), so
for w < v, summing by parts, R_w = (R_v − κ_{v−1}·H_v) + κ_w·H_w + Σ_{w < j < v} (κ_j − κ_{j−1})·H_j. The bracket is at
least α·r/(r − v + 1), since j − κ_{v−1}·(r − j) grows with j and is r/(r − v + 1) at j = v. All coefficients are
positive, so lower bounds go down step by step: R_v ≥ α·v; H_w ≥ max(H_{w+1}, m·F⁻¹(R_{w+1}/m)); then R_w from them. But
R_0 + H_0 = r: if the bounds exceed r at any step, P[W ≥ v] < α under every training within the curve.  ∎

>>> from discreet.attacks.membership.one_run import Gaussian, Plain, refuted
>>> refuted(Plain(1.0, 0.0), canaries=1000, guesses=1000, right=800, level=0.05)  # ε = 1 allows 731 of 1,000
True
>>> refuted(Plain(1.0, 0.0), canaries=1000, guesses=1000, right=740, level=0.05)
False

A lower bound on ε from one training run with many canaries, each put in or left out by its own fair coin.

Setting. S ∈ {in, out}^m are independent fair coins; y is what the training gives away, (ε,δ)-DP when one coin flips;
from y (never from S) the auditor guesses some coins and abstains from the others, r guesses at most. W of them are
right. Write q = e^ε/(1 + e^ε) and f(v) = P[Bin(r, q) ≥ v].

Theorem 1 (Steinke, Nasr, Jagielski 2023, "Privacy auditing with one (1) training run", main theorem: 5.2 and
corollary 5.4 in arXiv 2305.08846v1). For every v,

    P[W ≥ v] ≤ f(v) + 2mδ · max over i = 1 … m of (f(v − i) − f(v))/i.

Theorem 2 (proved here; it pays less where ε is large). For every v, P[W ≥ v] ≤ f(v) + mδ/(1 + e^ε).

Proof. Count the auditor's own randomness to y, and reveal the coins one by one. Let p₁, p₀ be the densities of y given
the earlier coins s and the i-th coin in or out, the later coins being fair. As mixtures of neighbors they are
(ε,δ)-close both ways (joint convexity of the hockey-stick divergence). Given y and s, the coin is "in" with probability
p₁/(p₀ + p₁),
which exceeds q by (p₁ − e^ε·p₀)/((1 + e^ε)(p₀ + p₁)) where that is positive, and likewise for "out"; both are never
positive at once. So the larger excess F_i, averaged over y of density (p₀ + p₁)/2, is at most
(δ + δ)/(2(1 + e^ε)) = δ/(1 + e^ε). Now let h(k, w) = P[Bin(k, q) ≥ v − w]. Given y the guesses are fixed; if k are
still to be judged and w were right so far, the next is right with probability at most q + F_i, and
h(k − 1, ·) grows by at most 1 per right guess, so the mean of h after it is at most h(k, w) + F_i. Start with
h(r, 0) = f(v), end with 1[W ≥ v], and take means.  ∎  With δ = 0 both theorems are P[W ≥ v] ≤ f(v).

Theorem 3 (any inversion is sound). Let a training with parameter ε be within a family of claims that grows with ε, and
let "(v, ε) is refuted" imply P[W ≥ v] ≤ α for all trainings within the claim ε, r being fixed. Let ℓ be any function
such that (v, ℓ(v)) is refuted wherever ℓ(v) > 0. If the training is within the claim ε then P[ℓ(W) > ε] ≤ α.
Proof. Let v₀ be the least v with ℓ(v) > ε. The training is within the claim ℓ(v₀) too, so
P[ℓ(W) > ε] ≤ P[W ≥ v₀] ≤ α.  ∎

Theorem 4 stands above; it is the strongest where δ times the number of canaries is not small, and the only one
for Gaussian curves. All of them bound the same probability, so whichever refutes, refutes.

How many to guess is fixed beforehand by a short list, tried in full at α over its length (Boole).

>>> from discreet.attacks.membership.one_run import epsilon_of_guesses
>>> round(epsilon_of_guesses(canaries=1000, guesses=100, right=100, delta=0, confidence="0.95"), 2)
3.49
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import erfc, exp, inf, sqrt
from statistics import NormalDist

import numpy as np

from discreet.attacks.audit.finding import SPARE, failure_probability_of
from discreet.attacks.membership.scores import EpsilonBound, Family, Floats, Scores, family_of
from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import Number, integer, rational

_NORMAL = NormalDist()
_TINY = 1e-300
_SLACK = 1e-9  # of the inverse, towards not refuting: more than its rounding


@dataclass(frozen=True, slots=True)
class Plain:
    """(ε,δ)-DP: TPR ≤ e^ε·FPR + δ, and the same of the complements with the sides exchanged."""

    epsilon: float
    delta: float

    def inverse(self, true: float) -> float:
        """The least false-positive rate that allows this true-positive rate.

        >>> Plain(0.0, 0.25).inverse(0.75)
        0.5
        """
        grown = exp(min(self.epsilon, 700.0))
        return max(0.0, (true - self.delta) / grown, 1 - self.delta - (1 - true) * grown)


@dataclass(frozen=True, slots=True)
class Gaussian:
    """One Gaussian release: N(0, 1) against N(μ, 1)."""

    mu: float

    def inverse(self, true: float) -> float:
        """The least false-positive rate that allows this true-positive rate: Φ(Φ⁻¹(t) − μ).

        >>> round(Gaussian(1.0).inverse(0.5), 4)
        0.1587
        """
        if true < _TINY:
            return 0.0
        return _cdf(_NORMAL.inv_cdf(true) - self.mu) if true < 1 else 1.0

    def epsilon(self, delta: float) -> float:
        """ε at δ, rounded down (Dong, Roth, Su 2022, corollary 2.13; Balle, Wang 2018, theorem 8).

        >>> round(Gaussian(1.0).epsilon(1e-5), 3), Gaussian(0.0).epsilon(0.0)
        (4.377, 0.0)
        """
        if self.mu <= 0:
            return 0.0
        if delta <= 0:
            return inf
        low, high = 0.0, self.mu**2 / 2 + 40 * self.mu
        for _ in range(80):
            middle = (low + high) / 2
            low, high = (middle, high) if self.delta(middle) > delta else (low, middle)
        return low * (1 - _SLACK)

    def delta(self, epsilon: float) -> float:
        """δ at ε: Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ)."""
        from scipy.special import log_ndtr

        return _cdf(self.mu / 2 - epsilon / self.mu) - exp(epsilon + float(log_ndtr(-self.mu / 2 - epsilon / self.mu)))


Curve = Plain | Gaussian


def refuted(curve: Curve, *, canaries: int, guesses: int, right: int, level: float) -> bool:
    """Whether so many right guesses, of a number that was fixed beforehand, have a probability below `level`.

    Guarantee: True only if P[W ≥ right] < level for every training within the curve, by theorem 4. Steps that could
    still show it are left out far below `right`: that only loses power.
    """
    m, r, v = canaries, guesses, right
    if not 0 < v <= r:
        return False
    bound_r, bound_h, sums = level * v, 0.0, level * r / (r - v + 1)
    before, last = _odds(v - 1, r), 0.0
    for w in range(v - 1, max(-1, v - 50 - int(12 * sqrt(r))), -1):
        bound_h = max(bound_h, m * curve.inverse(min(1.0, bound_r / m)) * (1 - _SLACK) - _TINY)
        kappa = _odds(w, r)
        sums += (before - kappa) * last
        bound_r = max(bound_r, sums + kappa * bound_h)
        before, last = kappa, bound_h
        if bound_r + bound_h > r * (1 + _SLACK):
            return True
    return False


def normal_shift(true: float, false: float) -> float:
    """The least μ whose curve allows these rates: Φ⁻¹(TPR) − Φ⁻¹(FPR).

    >>> round(normal_shift(0.8413447, 0.5), 4)
    1.0
    """
    if true <= 0 or false >= 1:
        return -inf
    if true >= 1 or false <= 0:
        return inf
    return _NORMAL.inv_cdf(true) - _NORMAL.inv_cdf(false)


def _odds(right: int, guesses: int) -> float:
    return right / (guesses - right)


def _cdf(value: float) -> float:
    return erfc(-value / sqrt(2)) / 2


Guesses = tuple[int, int]  # how many of the highest are called in, how many of the lowest are called out

_GRID = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
_HALVINGS = 36
_FEW = 60  # guesses: fewer prove little
_UNFAIR = 1e-9  # coins that fall so unevenly are not believed


def one_run(
    scores: Scores,
    *,
    delta: Number,
    confidence: Number,
    curve: Family = "any",
    seed: int = 0,
    guesses: Sequence[Guesses] | None = None,
) -> EpsilonBound:
    """The bound that the scores of one run prove.

    The highest scores are called in, the lowest out, the rest is passed over: `guesses` says how many of each, as one
    or several choices that are made before the scores are seen (by default see `choices`). Equal scores are ordered
    by lot.

    Guarantee: if each target was put in or left out by a fair coin of its own, the scores depend on the coins through
    the training's output only, and the training is (ε,δ)-DP when one target is added or removed, the bound exceeds ε
    with probability at most 1 − confidence. With `curve="gaussian"` the training must be within a Gaussian curve
    instead, and ε is that curve's at δ. Proof. Theorems 1 to 4, and Boole over the choices.  ∎

    >>> rng = np.random.default_rng(1)
    >>> coins = rng.random(4000) < 0.5
    >>> scores = Scores.of(coins + 0.5 * rng.laplace(size=4000), coins)  # ε = 2
    >>> 1.2 < one_run(scores, delta=0, confidence="0.95").epsilon < 2
    True
    """
    spare, failure_probability = rational(delta, "delta", at_least=0, below=1), failure_probability_of(confidence)
    check_coins(scores)
    family_of(curve, spare)
    tried = _choices_of(len(scores), guesses)
    order = _order(scores.values, integer(seed, "seed", at_least=0))
    result = []
    for called_in, called_out in tried:
        right = int(scores.members[order[len(order) - called_in :]].sum() + (~scores.members[order[:called_out]]).sum())
        made = called_in + called_out
        result.append((_invert(len(scores), made, right, spare, failure_probability / len(tried), curve), made, right))
    epsilon, made, right = max(result)
    return EpsilonBound(
        epsilon=epsilon,
        delta=spare,
        confidence=1 - failure_probability,
        theorem="one run, a fair coin for each target (Steinke, Nasr, Jagielski 2023; Mahloujifar et al. 2024)"
        + (", for a Gaussian curve" if curve == "gaussian" else ""),
        counted=f"{right:,} of {made:,} guesses right, {len(scores):,} targets, best of {len(tried)} choices",
    )


def choices(targets: int) -> tuple[Guesses, ...]:
    """How many to guess, where nobody says: all, and shrinking shares from both ends, and some from the top alone.

    >>> choices(1000), choices(40)
    (((500, 500), (125, 125), (31, 31), (62, 0)), ((20, 20), (20, 0)))
    """
    made: list[Guesses] = [(targets - targets // 2, targets // 2)]
    size = targets
    while (size := size // 4) >= _FEW:
        made.append((size - size // 2, size // 2))
    return (*made, (min(max(targets // 16, _FEW), targets // 2), 0))


def epsilon_of_guesses(
    *, canaries: int, guesses: int, right: int, delta: Number, confidence: Number, curve: Family = "any"
) -> float:
    """The largest ε that so many right guesses refute; 0 where they refute none.

    Guarantee: see `one_run`; the number of guesses must be fixed beforehand.
    """
    integer(canaries, "canaries", at_least=1)
    integer(guesses, "guesses", at_least=0, at_most=canaries)
    integer(right, "right", at_least=0, at_most=guesses)
    spare = rational(delta, "delta", at_least=0, below=1)
    return _invert(canaries, guesses, right, spare, failure_probability_of(confidence), family_of(curve, spare))


def p_value(*, canaries: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """Theorem 1, exactly as in the paper: the most probable that so many right guesses can be under (ε,δ)-DP.

    >>> round(p_value(canaries=10, guesses=10, right=10, epsilon=0.0, delta=0.0) * 1024, 6)
    1.0
    """
    tail = _tail(right, guesses, epsilon)
    if delta == 0:
        return tail
    return min(1.0, tail + 2 * canaries * delta * _steepest(right, guesses, epsilon))


def p_value_late(*, canaries: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """Theorem 2.

    >>> p_value_late(canaries=100, guesses=10, right=0, epsilon=0.0, delta=0.0)
    1.0
    """
    return min(1.0, _tail(right, guesses, epsilon) + canaries * delta / (1 + exp(epsilon)))


def check_coins(scores: Scores) -> None:
    """Refuse flags that fair coins give in fewer than one of a billion runs."""
    from scipy.special import bdtr

    fewer = min(int(scores.members.sum()), int((~scores.members).sum()))
    if 2 * bdtr(fewer, len(scores), 0.5) < _UNFAIR:
        raise InvalidData(
            f"members: {int(scores.members.sum())} of {len(scores)} targets are in, which fair coins do not produce; "
            "choose the members with `coins`, or state design='unknown'"
        )


def _invert(
    canaries: int, guesses: int, right: int, delta: Fraction, failure_probability: Fraction, curve: Family
) -> float:
    """The largest ε, nearly, that so many right guesses refute; theorem 3 allows any."""
    level, spare = float(failure_probability * SPARE), float(delta)
    counts = {"canaries": canaries, "guesses": guesses, "right": right}

    def plain(epsilon: float) -> bool:
        if _tail(right, guesses, epsilon) > level:
            return False
        early = any(bound(**counts, epsilon=epsilon, delta=spare) <= level for bound in (p_value_late, p_value))
        return early or refuted(Plain(epsilon, spare), **counts, level=level)

    def gaussian(mu: float) -> bool:
        return refuted(Gaussian(mu), **counts, level=level)

    return _largest(plain) if curve == "any" else Gaussian(_largest(gaussian)).epsilon(spare)


def _largest(holds: Callable[[float], bool]) -> float:
    """A number where it holds, near the largest: a coarse grid, then halving; 0 where none is found."""
    place = next((at for at in reversed(range(len(_GRID))) if holds(_GRID[at])), None)
    if place is None:
        return 0.0
    low, high = _GRID[place], _GRID[min(place + 1, len(_GRID) - 1)]
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _tail(right: int, guesses: int, epsilon: float) -> float:
    """f(v) = P[Bin(r, q) ≥ v], as an incomplete beta function."""
    from scipy.special import betainc

    if right <= 0:
        return 1.0
    return float(betainc(right, guesses - right + 1, 1 / (1 + exp(-epsilon))))


def _steepest(right: int, guesses: int, epsilon: float) -> float:
    """max over i of (f(v − i) − f(v))/i; beyond i = v the numerator stays and the quotient falls."""
    if right <= 0:
        return 0.0
    sums = np.cumsum(_masses(guesses, epsilon, right)[::-1])
    return float((sums / np.arange(1, right + 1)).max())


def _masses(guesses: int, epsilon: float, count: int) -> Floats:
    """P[Bin(r, q) = k] for k below `count`."""
    from scipy.special import gammaln

    k = np.arange(count, dtype=np.float64)
    ways = gammaln(guesses + 1) - gammaln(k + 1) - gammaln(guesses - k + 1)
    rightly, wrongly = -np.log1p(np.exp(-epsilon)), -epsilon - np.log1p(np.exp(-epsilon))
    return np.asarray(np.exp(ways + k * rightly + (guesses - k) * wrongly))


def _order(values: Floats, seed: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Positions from the lowest score to the highest; equal ones by lot, since their places may tell who is in."""
    lots = np.random.default_rng([seed, 1]).permutation(len(values))
    return np.lexsort((lots, values)).astype(np.int64)


def _choices_of(targets: int, given: Sequence[Guesses] | None) -> tuple[Guesses, ...]:
    if given is None:
        return choices(targets)
    expected = "pairs (called in, called out) of whole numbers with a sum between 1 and the number of targets"
    try:
        pairs = tuple((integer(a, "guesses", at_least=0), integer(b, "guesses", at_least=0)) for a, b in given)
    except (TypeError, ValueError):
        raise InvalidParameter("guesses", given, expected) from None
    if not pairs or any(not 1 <= a + b <= targets for a, b in pairs):
        raise InvalidParameter("guesses", given, expected)
    return pairs
