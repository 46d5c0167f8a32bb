"""Least noise for a target guarantee. Every result is rounded up and checked again with the accountant.

Group privacy: what a release costs a group of people instead of one.
"""

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import lru_cache
from typing import Literal, assert_never

from discreet.errors import InvalidParameter, NoGuarantee
from discreet.exact import Number, exp_down, exp_up, float_down, integer, log_up, plain, rational, sqrt_bounds
from discreet.privacy.accounting import guarantee, profile, zcdp
from discreet.privacy.accounting.itemization import Item, Normal, known, uncovered
from discreet.privacy.accounting.rounding import crossing, decimal_down, decimal_up, log
from discreet.privacy.loss import (
    Approximate,
    BoundedRange,
    Concentrated,
    DiscreteGaussianNoise,
    GaussianNoise,
    LaplaceNoise,
    Loss,
    Parallel,
    PerDistance,
    Pure,
    Repeated,
    SampledGaussian,
    Together,
)

_HAIR = 1 + Fraction(1, 10**9)
_SMALLEST, _LARGEST = Fraction(1, 10**40), Fraction(10**9)  # ε for which the profiles have all their digits
_NARROW = 4  # below this σ the discrete profile is not monotone in σ


def gaussian_multiplier(
    *, epsilon: Number, delta: Number, method: Literal["analytic", "zcdp", "classical"]
) -> Fraction:
    """The least σ ÷ sensitivity of Gaussian noise for (ε, δ)-DP.

    "analytic" is exact (Balle, Wang 2018, Thm 8) and never worse than the others; "zcdp" also holds for discrete
    Gaussian noise in any dimension; "classical" is √(2 ln(1.25/δ))/ε (Dwork, Roth 2014, Thm A.1), proven for ε ≤ 1
    only (there for ε < 1; at 1 by continuity of δ in σ and ε) and refused above.

    >>> methods = ("analytic", "zcdp", "classical")
    >>> [round(float(gaussian_multiplier(epsilon=1, delta="1e-6", method=m)), 5) for m in methods]
    [4.22468, 4.53088, 5.2988]
    """
    target, at = _epsilon(epsilon), _delta(delta)
    match method:
        case "analytic":
            return _analytic(target, at)
        case "zcdp":
            return decimal_up(_root_up(1 / (2 * rho_for(epsilon=target, delta=at))))
        case "classical":
            if target > 1:
                raise InvalidParameter(
                    "epsilon", epsilon, "a number ≤ 1", "the classical theorem ends there; use 'analytic'"
                )
            return decimal_up(_root_up(2 * log_up(Fraction(5, 4) / at)) / target)
        case _:
            raise InvalidParameter("method", method, "'analytic', 'zcdp' or 'classical'")


def laplace_multiplier(*, epsilon: Number, delta: Number) -> Fraction:
    """The least scale ÷ sensitivity of Laplace noise: 1/ε for δ = 0, and 1/(ε − 2 ln(1−δ)) else.

    From the exact profile δ(ε) = 1 − e^((ε − 1/m)/2) (Balle, Barthe, Gaboardi 2018, Thm 3).

    >>> laplace_multiplier(epsilon="0.1", delta=0)
    Fraction(10, 1)
    """
    target, at = rational(epsilon, "epsilon", at_least=0), rational(delta, "delta", at_least=0, below=1)
    bits = 96 + at.denominator.bit_length() - at.numerator.bit_length()  # digits also where 1 − δ is nearly 1
    room = target - 2 * log_up(1 - at, bits) if at else target
    if not room:
        raise InvalidParameter("epsilon", epsilon, "a number > 0 where delta is 0", "no noise gives ε = δ = 0")
    return decimal_up(1 / room) if at else 1 / room


def discrete_gaussian_sigma(*, epsilon: Number, delta: Number, sensitivity: int) -> Fraction:
    """The least σ of six significant digits at which discrete Gaussian noise on an integer is (ε, δ)-DP, exactly.

    By the exact profile (Canonne, Kamath, Steinke 2020, Thm 7). Below σ ≈ 1 that profile is not monotone in σ: it
    dips where a loss (2sx + s²)/2σ² equals ε, so there the dips are tried from below. A smaller σ found in a dip
    holds for this ε and δ, not for other ones.

    >>> discrete_gaussian_sigma(epsilon=1, delta="1e-6", sensitivity=1)
    Fraction(211539, 50000)
    """
    target, at = _epsilon(epsilon), _delta(delta)
    shift = integer(sensitivity, "sensitivity", at_least=1)

    def holds(sigma: Fraction) -> bool:
        return _holds(DiscreteGaussianNoise(sigma, shift), target, at)

    start = decimal_up(shift * _analytic(target, at), 6)
    while not holds(start):
        start = decimal_up(start * Fraction(101, 100), 6)
    before = start / 2
    for dip in _dips(target, shift, start):
        if holds(dip):
            return _bisected(holds, min(before, dip / 2), dip, 6)
        before = dip
    return _bisected(holds, before, start, 6)


def sampled_gaussian_multiplier(*, epsilon: Number, delta: Number, rate: Number, steps: int) -> Fraction:
    """The least noise multiplier of DP-SGD with Poisson rate and number of steps, to about six digits.

    >>> round(float(sampled_gaussian_multiplier(epsilon=2, delta="1e-5", rate="0.01", steps=1000)), 2)
    0.96
    """
    target, at = _epsilon(epsilon), _delta(delta)
    share = rational(rate, "rate", above=0, at_most=1)
    count = integer(steps, "steps", at_least=1)

    def run(multiplier: Fraction) -> Loss:
        return Repeated(SampledGaussian(share, multiplier), count)

    high = decimal_up(_analytic(target, at) * _root_up(Fraction(count)) * _HAIR)  # enough without sampling
    while _spent(run(high / 2), at) <= target:
        high = high / 2
    return least(run, epsilon=target, delta=at, low=high / 2, high=high)


def least(
    make_loss: Callable[[Fraction], Loss], *, epsilon: Number, delta: Number, low: Number, high: Number
) -> Fraction:
    """The least amount of noise in [low, high] for which `make_loss(noise)` is (ε, δ)-DP, to six digits.

    `make_loss` must cost less the more noise there is. Whatever it does, the result has been checked.

    >>> from discreet.privacy.loss import GaussianNoise, Repeated
    >>> noise = least(lambda m: Repeated(GaussianNoise(m), 100), epsilon=1, delta="1e-6", low=1, high=1000)
    >>> round(float(noise), 3)
    42.247
    """
    target, at = rational(epsilon, "epsilon", at_least=0), rational(delta, "delta", at_least=0, below=1)
    bottom, top = rational(low, "low", above=0), rational(high, "high", above=0)
    if bottom > top:
        raise InvalidParameter("low", low, f"at most high = {high}")

    @lru_cache
    def spent(noise: Fraction) -> float:
        return _spent(make_loss(noise), at)

    limit = float_down(target)
    if spent(bottom) <= limit:
        return bottom
    if spent(top) > limit:
        most = f"even the most noise, {float(top):g}"
        raise NoGuarantee(f"{most}, costs more than ε = {plain(target)}; raise `high`, ε or δ")
    bracket = crossing(
        lambda t: _spare(limit, spent(_noise(t, top))), math.log(bottom), math.log(top), absolute=1e-6, steps=60
    )
    return _first(lambda noise: spent(noise) <= limit, min(top, decimal_up(_noise(bracket[1], top), 7)), top)


def rho_for(*, epsilon: Number, delta: Number) -> Fraction:
    """The largest ρ, rounded down, for which ρ-zCDP gives (ε, δ)-DP (Canonne, Kamath, Steinke 2020, Prop. 12).

    >>> round(float(rho_for(epsilon=1, delta="1e-6")), 6)
    0.024356
    """
    target, at = _epsilon(epsilon), _delta(delta)
    limit = float_down(target)

    def over(t: float) -> float:
        return zcdp.epsilon(_exp(t), delta=at) - limit

    high = math.log(limit)  # ρ ≤ ε, more or less; widened below
    while over(high) < 0:
        high += 1
    low = high - 1
    while over(low) > 0:
        low -= 2
    rho = decimal_down(_exp(crossing(over, low, high)[0]))
    if not rho:
        raise NoGuarantee(f"no ρ can be found for a δ so near to 1; for ε = {plain(target)} take a smaller one")
    while zcdp.epsilon(rho, delta=at) > limit:
        rho = decimal_down(rho * (1 - Fraction(1, 10**11)))
    return rho


def _epsilon(epsilon: Number) -> Fraction:
    target = rational(epsilon, "epsilon", above=0)
    if not _SMALLEST <= target <= _LARGEST:
        raise InvalidParameter("epsilon", epsilon, "a number from 1e-40 to 1e9", "beyond there is nothing to calibrate")
    return target


def _delta(delta: Number) -> Fraction:
    at = rational(delta, "delta", above=0, below=1)
    if not float_down(at):
        raise InvalidParameter("delta", delta, "a number ≥ 1e-300")
    return at


def _analytic(epsilon: Fraction, delta: Fraction) -> Fraction:
    """The least multiplier by the exact profile of the Gaussian, rounded up to twelve digits."""
    at, target = float_down(epsilon), float_down(delta)

    def spare(t: float) -> float:
        return math.log(target / profile.gaussian(math.exp(-t), at))

    low, high = -1.0, 1.0
    while spare(low) > 0:
        low *= 2
    while spare(high) < 0:
        high *= 2
    start = decimal_up(_exp(crossing(spare, low, high)[1]))
    return _first(lambda m: _holds(Normal(1 / m**2), epsilon, delta), start, None)


def _holds(item: Item, epsilon: Fraction, delta: Fraction) -> bool:
    """Whether the exact profile allows it, and the accountant says so too."""
    if profile.of(item, float_down(epsilon)) > float_down(delta):
        return False
    return profile.least_epsilon(item, delta) <= float_down(epsilon)


def _first(holds: Callable[[Fraction], bool], noise: Fraction, top: Fraction | None) -> Fraction:
    """The noise, or a little more: rounding in the search may have stopped a hair too early."""
    for digits in (12, 11, 10, 9, 8, 7, 6, 5, 4, 3):
        for _ in range(3):
            if holds(noise):
                return noise
            noise = decimal_up(noise * (1 + Fraction(1, 10**digits)))
    if top is None:
        raise NoGuarantee("the search for the least noise did not settle; please report this")
    return top


def _bisected(holds: Callable[[Fraction], bool], low: Fraction, high: Fraction, digits: int) -> Fraction:
    """The least decimal in (low, high] that holds, going by halves from one that does."""
    while True:
        middle = decimal_up((low + high) / 2, digits)
        if middle >= high:
            return high
        low, high = (low, middle) if holds(middle) else (middle, high)


def _dips(epsilon: Fraction, sensitivity: int, top: Fraction) -> list[Fraction]:
    """σ below the top at which a loss equals ε, ascending: √((2sx + s²)/2ε), rounded up; none for broad noise."""
    if top > _NARROW:
        return []
    xs = range(-((sensitivity - 1) // 2), math.ceil(top**2 * epsilon / sensitivity) + 1)
    squares = (Fraction(2 * sensitivity * x + sensitivity**2) / (2 * epsilon) for x in xs)
    dips = (decimal_up(_root_up(square), 6) for square in squares)
    return [dip for dip in dips if dip < top]


def _noise(t: float, top: Fraction) -> Fraction:
    return min(top, decimal_up(_exp(t), 9))


def _spent(loss: Loss, delta: Fraction) -> float:
    try:
        return guarantee(loss, delta=delta).epsilon
    except NoGuarantee:
        return math.inf


def _spare(limit: float, spent: float) -> float:
    return math.log(limit / spent) if spent > 0 and limit > 0 else (1.0 if spent <= limit else -1.0)


def _exp(t: float) -> Fraction:
    return Fraction(math.exp(t))


def _root_up(x: Fraction, bits: int = 96) -> Fraction:
    """A rational certainly not below √x."""
    bits += max(0, x.denominator.bit_length() - x.numerator.bit_length())
    return Fraction(sqrt_bounds(x, bits)[1], 1 << bits)


_MOST_SPLITS = 256


def group(loss: Loss, size: int) -> Loss:  # noqa: PLR0911, PLR0912
    """The loss for a group of `size` units at once (a household, all rows of a person when the unit is a row).

    Guarantee: if the loss bounds every two datasets that differ in one unit, the result bounds every two that
    differ in `size` units. Proof: walk from one to the other unit by unit.

    - Pure, BoundedRange: log-ratios add along the walk: kε.
    - Approximate: P ≤ e^ε·(… e^ε·(e^ε·Q + δ) + δ …) + δ, hence (kε, δ·(e^kε − 1)/(e^ε − 1)).
    - Concentrated: k²ρ (Bun, Steinke 2016, Prop. 1.9).
    - Laplace, Gaussian and discrete Gaussian noise: the trade-off function of log-concave noise against a shift by t
      is f_t(α) = F(F⁻¹(1−α) − t); two steps give f_s(1 − f_t(α)) = f_(s+t)(α), so shifts add (Dong, Roth, Su 2022,
      §2.5; on the integers the same holds at the corners of f, between which it is linear).
    - Compositions: each part is bounded for the group, whatever came before.
    - Parallel: members may be in different parts; see `_parallel`.

    >>> from discreet.privacy.loss import GaussianNoise, Pure, Repeated
    >>> group(Repeated(GaussianNoise(20), 5), 4)
    Repeated(loss=GaussianNoise(multiplier=5), count=5)
    """
    k = integer(size, "size", at_least=1)
    known(loss)
    if k == 1:
        return loss
    match loss:
        case Pure(epsilon):
            return Pure(k * epsilon)
        case BoundedRange(epsilon):
            return BoundedRange(k * epsilon)
        case Approximate(epsilon, delta):
            return Approximate(k * epsilon, _group_delta(epsilon, delta, k))
        case Concentrated(rho):
            return Concentrated(k**2 * rho)
        case LaplaceNoise(multiplier):
            return LaplaceNoise(multiplier / k)
        case GaussianNoise(multiplier) | SampledGaussian(1, multiplier):
            return GaussianNoise(multiplier / k)
        case DiscreteGaussianNoise(sigma, sensitivity):
            return DiscreteGaussianNoise(sigma, k * sensitivity)
        case SampledGaussian(0, _):
            return loss
        case SampledGaussian():
            raise NoGuarantee(
                "no group guarantee is known for sampled Gaussian noise; take the (ε, δ) that `guarantee` gives for "
                "the whole run and ask for the group of Approximate(ε, δ)"
            )
        case PerDistance(_, unit):
            raise NoGuarantee(
                f"d-privacy per {unit} protects one secret against moving; first state a radius with "
                "PerDistance(...).within(distance), then ask for the group"
            )
        case Repeated(inner, count):
            return Repeated(group(inner, k), count) if count else loss
        case Together(parts):
            return Together(*(group(part, k) for part in parts))
        case Parallel(parts):
            return _parallel(uncovered(parts), k)
    assert_never(loss)


def _group_delta(epsilon: Fraction, delta: Fraction, k: int) -> Fraction:
    """δ·(1 + e^ε + … + e^(k−1)ε), rounded up, at most 1."""
    if not delta:
        return Fraction(0)
    if (k - 1) * epsilon >= Fraction(-log(delta)) + 1:  # the last term alone exceeds 1/δ
        return Fraction(1)
    total = k * exp_up((k - 1) * epsilon)
    step = exp_down(epsilon) - 1
    if step > 0:
        total = min(total, (exp_up(k * epsilon) - 1) / step)
    return min(Fraction(1), decimal_up(delta * total))


def _parallel(kinds: list[Loss], k: int) -> Loss:
    """A group over disjoint parts: kᵢ members under parts of kind i, Σ kᵢ = k, each split a possibility.

    All parts of one kind together are a release that changes by that kind of loss with each member, so kᵢ members
    cost group(kind, kᵢ) wherever they are; the kinds compose. Too many splits to list are bounded by kᵢ ≤ k.
    """
    if len(kinds) <= 1:
        return group(kinds[0], k) if kinds else Together()
    if math.comb(k + len(kinds) - 1, k) > _MOST_SPLITS:
        return Together(*(group(kind, k) for kind in kinds))
    return Parallel(
        *(
            Together(*(group(kind, n) for kind, n in zip(kinds, split, strict=True) if n))
            for split in _splits(k, len(kinds))
        )
    )


def _splits(k: int, ways: int) -> Iterator[tuple[int, ...]]:
    """All ways to write k as an ordered sum of `ways` whole numbers ≥ 0."""
    if ways <= 1:
        yield (k,) * ways
        return
    for first in range(k, -1, -1):
        for rest in _splits(k - first, ways - 1):
            yield first, *rest
