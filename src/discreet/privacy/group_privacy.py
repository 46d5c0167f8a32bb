"""Group privacy: what a release costs a group of people instead of one."""

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import assert_never

from discreet.errors import NoGuarantee
from discreet.exact import exp_down, exp_up, integer
from discreet.privacy.accounting.itemization import known, uncovered
from discreet.privacy.accounting.rounding import decimal_up, log
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
    Repeated(loss=GaussianNoise(multiplier=Fraction(5, 1)), count=5)
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
