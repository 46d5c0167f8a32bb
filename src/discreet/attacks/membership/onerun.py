r"""A lower bound on ε from one training run with many canaries, each put in or left out by its own fair coin.

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

Theorem 4 stands in `curves`; it is the strongest where δ times the number of canaries is not small, and the only one
for Gaussian curves. All of them bound the same probability, so whichever refutes, refutes.

How many to guess is fixed beforehand by a short list, tried in full at α over its length (Boole).

>>> from discreet.attacks.membership.onerun import epsilon_of_guesses
>>> round(epsilon_of_guesses(canaries=1000, guesses=100, right=100, delta=0, confidence="0.95"), 2)
3.49
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import exp

import numpy as np

from discreet.attacks.membership.bound import SPARE, EpsilonBound, Family, doubt_of, family_of
from discreet.attacks.membership.curves import Gaussian, Plain, refuted
from discreet.attacks.membership.scores import Floats, Scores
from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import Number, integer, rational

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
    spare, doubt = rational(delta, "delta", at_least=0, below=1), doubt_of(confidence)
    check_coins(scores)
    family_of(curve, spare)
    tried = _choices_of(len(scores), guesses)
    order = _order(scores.values, integer(seed, "seed", at_least=0))
    found = []
    for called_in, called_out in tried:
        right = int(scores.members[order[len(order) - called_in :]].sum() + (~scores.members[order[:called_out]]).sum())
        made = called_in + called_out
        found.append((_invert(len(scores), made, right, spare, doubt / len(tried), curve), made, right))
    epsilon, made, right = max(found)
    return EpsilonBound(
        epsilon=epsilon,
        delta=spare,
        confidence=1 - doubt,
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
    return _invert(canaries, guesses, right, spare, doubt_of(confidence), family_of(curve, spare))


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
            f"members: {int(scores.members.sum())} of {len(scores)} targets are in, which fair coins do not give; "
            "draw who is in with `coins`, or say design='unknown'"
        )


def _invert(canaries: int, guesses: int, right: int, delta: Fraction, doubt: Fraction, curve: Family) -> float:
    """The largest ε, nearly, that so many right guesses refute; theorem 3 allows any."""
    level, spare = float(doubt * SPARE), float(delta)
    counts = {"canaries": canaries, "guesses": guesses, "right": right}

    def plain(epsilon: float) -> bool:
        if _tail(right, guesses, epsilon) > level:
            return False
        early = any(one(**counts, epsilon=epsilon, delta=spare) <= level for one in (p_value_late, p_value))
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
