"""Pure ε-DP: exact rational sums."""

from fractions import Fraction
from typing import assert_never

from discreet.errors import NoGuarantee
from discreet.exact import text_up
from discreet.privacy.accounting.itemization import Atom, fold, rationals
from discreet.privacy.accounting.rounding import unbounded
from discreet.privacy.loss import (
    Approximate,
    BoundedRange,
    Concentrated,
    DiscreteGaussianNoise,
    GaussianNoise,
    LaplaceNoise,
    Loss,
    PerDistance,
    Pure,
    SampledGaussian,
)


def epsilon(loss: Loss, *, additive_delta: bool = False) -> Fraction:
    """The least ε for which basic composition gives ε-DP, exactly.

    With `additive_delta` the δ of (ε, δ) parts is left out: the release is then ε-DP except with the probability
    that `composition.basic` adds up, and the caller must count that apart.

    Guarantee: every release of this loss is ε-DP. ε's add over releases on the same data, also when each is
    chosen after seeing the ones before (Dwork, McSherry, Nissim, Smith 2006); over disjoint parts the unit
    is in one part only, so the largest counts (McSherry 2009, Thm 4).

    >>> from discreet.privacy.loss import LaplaceNoise, Parallel, Pure, Repeated, Together
    >>> epsilon(Together(Repeated(Pure("0.1"), 3), Parallel(LaplaceNoise(5), LaplaceNoise(2))))
    Fraction(4, 5)
    """
    return fold(loss, rationals(_beside_delta if additive_delta else _atom))


def _beside_delta(atom: Atom) -> Fraction:
    return atom.epsilon if isinstance(atom, Approximate) else _atom(atom)


def _atom(atom: Atom) -> Fraction:
    match atom:
        case Pure(limit) | BoundedRange(limit):
            return limit
        case LaplaceNoise(multiplier):
            return 1 / multiplier
        case Approximate(limit, 0):
            return limit
        case DiscreteGaussianNoise(_, 0) | SampledGaussian(0, _) | Concentrated(0):
            return Fraction(0)
        case Approximate(_, delta):
            raise NoGuarantee(f"a loss of δ = {text_up(delta)} is not pure ε-DP for any ε; ask with delta > 0")
        case GaussianNoise() | DiscreteGaussianNoise() | SampledGaussian() | Concentrated():
            raise NoGuarantee(
                f"{type(atom).__name__} is not pure ε-DP for any ε, because of its tails; ask with delta > 0"
            )
        case PerDistance(_, unit):
            raise NoGuarantee(unbounded(unit))
    assert_never(atom)
