"""One loss may stand for another only if its profile is nowhere lower: every ordered pair of kinds, many parameters.

Profiles are computed here from the distributions themselves, not with the product's formulas.
"""

import math
from fractions import Fraction
from functools import cache
from itertools import product
from typing import get_args

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm

from discreet.privacy.accounting import guarantee, rdp
from discreet.privacy.accounting.itemization import Bill, Choice, Item, Normal, item_covers
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
    SampledGaussian,
    Together,
)

Array = NDArray[np.float64]
EPSILONS = np.concatenate(([0.0], np.geomspace(1e-3, 9, 40)))
RANDOM = np.random.default_rng(20)


def numbers(low: float, high: float) -> list[Fraction]:
    """Fixed numbers, which meet each other exactly, and random ones."""
    fixed = [Fraction(low), Fraction(1), Fraction(high)]
    return fixed + [Fraction(round(x * 10**4), 10**4) for x in RANDOM.uniform(low, high, 2)]


ITEMS: dict[type[Item], list[Item]] = {
    Pure: [Pure(e) for e in numbers(0.25, 4)],
    BoundedRange: [BoundedRange(e) for e in numbers(0.25, 4)],
    Approximate: [Approximate(e, d) for e, d in product(numbers(0.25, 4), ["1e-9", "1e-4", "0.1"])],
    Concentrated: [Concentrated(r) for r in numbers(0.125, 2)],
    LaplaceNoise: [LaplaceNoise(m) for m in numbers(0.25, 4)],
    Normal: [Normal(s) for s in numbers(0.0625, 16)],
    DiscreteGaussianNoise: [DiscreteGaussianNoise(s, k) for s, k in product(numbers(0.5, 4), [1, 2])],
    SampledGaussian: [
        SampledGaussian(q, m) for q, m in product([Fraction(1, 100), Fraction(1, 4), Fraction(9, 10)], numbers(0.5, 4))
    ],
    PerDistance: [PerDistance(e, unit, s) for e in (1, 2) for unit in ("km", "m") for s in (0, 1)],
    Choice: [Choice((Bill(((Pure(1), 1),)), Bill(((Normal(Fraction(1, 4)), 1),)))), Choice((Bill(((Pure(2), 1),)),))],
}


def test_every_kind_of_item_is_here() -> None:
    assert set(ITEMS) == set(get_args(Item))


def gaussian(mu: float, slope: Array) -> Array:
    """sup over S of P(S) − t·Q(S) for N(μ, 1) against N(0, 1), at t = slope."""
    with np.errstate(divide="ignore"):
        cut = np.log(slope) / mu + mu / 2
    return np.asarray(norm.sf(cut - mu) - slope * norm.sf(cut))


@cache
def profiles(item: Item) -> tuple[Array, Array] | None:
    """δ(ε) of the worst pair with the unit removed and with it added; None where no closed form is known."""
    t = np.exp(EPSILONS)
    match item:
        case Pure(limit) | Approximate(limit, _):
            truth = 1 / (1 + math.exp(-limit))
            both = np.maximum(truth - t * (1 - truth), 0.0)
            extra = float(item.delta) if isinstance(item, Approximate) else 0.0
            both = extra + (1 - extra) * both
        case BoundedRange(limit):
            tops = np.linspace(0, float(limit), 20_001)[:, None]  # ln P/Q is `top` or `top` − ε
            p = (1 - np.exp(tops - float(limit))) / (1 - math.exp(-limit))
            both = np.max(p * np.maximum(1 - t * np.exp(-tops), 0.0), axis=0)
        case LaplaceNoise(m):
            scale = float(m)
            cut = (1 - EPSILONS * scale) / 2  # P = Laplace at 0, Q = at 1: the loss exceeds ε below the cut
            inside = np.where(cut > 0, cut, 0.0)
            both = np.where(cut > 0, 1 - np.exp(-inside / scale) / 2 - t * np.exp((inside - 1) / scale) / 2, 0.0)
        case Normal(square):
            both = gaussian(math.sqrt(square), t)
        case DiscreteGaussianNoise(sigma, shift):
            x = np.arange(-400, 401)
            mass = np.exp(-(x**2) / (2 * float(sigma) ** 2))
            mass /= mass.sum()
            both = np.max(
                [np.maximum(mass - t[:, None] * np.roll(mass, s), 0.0).sum(axis=1) for s in range(1, shift + 1)], axis=0
            )
        case SampledGaussian(rate, m):
            q, mu = float(rate), float(1 / m)
            removing = q * gaussian(mu, (t - (1 - q)) / q)
            share = 1 - t * (1 - q)
            adding = np.where(share > 0, share * gaussian(mu, t * q / np.where(share > 0, share, 1.0)), 0.0)
            return removing, adding
        case _:
            return None
    return both, both


def renyi(item: Item) -> Array | None:
    """The Rényi curve, where an item has one: the product's own, which other tests compare with exact ones."""
    if isinstance(item, PerDistance | Choice | Approximate):
        return None
    loss: Loss = GaussianNoise(1 / Fraction(math.sqrt(item.square))) if isinstance(item, Normal) else item
    return np.array(rdp.curve(loss).values)


@pytest.mark.parametrize("less", ITEMS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("more", ITEMS, ids=lambda kind: kind.__name__)
def test_what_covers_is_nowhere_easier_on_privacy(more: type[Item], less: type[Item]) -> None:
    for a, b in product(ITEMS[more], ITEMS[less]):
        if a == b or not item_covers(a, b):
            continue
        above, below = profiles(a), profiles(b)
        if above is not None and below is not None:
            for high, low in zip(above, below, strict=True):
                assert (high >= low - 1e-7).all(), f"{a} does not cover {b}"
        if isinstance(a, Concentrated):
            curve = renyi(b)
            assert curve is not None
            assert (curve <= np.array(rdp.ORDERS) * float(a.rho) * (1 + 1e-9)).all(), f"{a} does not cover {b}"
        else:
            assert above is not None, f"{type(a).__name__} covers nothing but itself"
            assert below is not None, f"nothing but ρ-zCDP is known to cover {type(b).__name__}"


@pytest.mark.parametrize(
    ("more", "less"),
    [
        (Pure(1), Pure("0.5")),
        (Pure(1), BoundedRange(1)),
        (Pure(1), LaplaceNoise(1)),
        (BoundedRange(1), BoundedRange("0.9")),
        (Approximate(1, "1e-6"), Approximate(1, "1e-7")),
        (Approximate(1, "1e-6"), Pure(1)),
        (Approximate(1, "1e-6"), LaplaceNoise(1)),
        (Concentrated("0.5"), Concentrated("0.4")),
        (Concentrated("0.5"), Normal(Fraction(1))),
        (LaplaceNoise(1), LaplaceNoise(2)),
        (Normal(Fraction(1)), Normal(Fraction(1, 2))),
        (Normal(Fraction(1)), SampledGaussian("0.5", 1)),
        (SampledGaussian("0.5", 1), SampledGaussian("0.4", 2)),
        (DiscreteGaussianNoise(1, 2), DiscreteGaussianNoise(1, 1)),
    ],
    ids=str,
)
def test_what_is_known_to_cover_does(more: Item, less: Item) -> None:
    assert item_covers(more, less)
    assert not item_covers(less, more)


@pytest.mark.parametrize(
    ("cheap", "dear"),
    [
        (Approximate("0.0009", "1e-9"), Approximate("0.0008", "1e-3")),
        (SampledGaussian("0.00001", 1), SampledGaussian("0.9", 2)),
        (Approximate("0.0009", "1e-9"), Pure("1.59")),
        (SampledGaussian("0.00001", 2), SampledGaussian("0.00001", 1)),
        (Pure("0.1"), LaplaceNoise("0.5")),
        (GaussianNoise(9), SampledGaussian("0.9", 1)),
    ],
)
def test_the_dearer_of_disjoint_parts_is_never_dropped(cheap: Loss, dear: Loss) -> None:
    """Where a part is wrongly taken for covered, the total is that of the cheap one."""
    alone = guarantee(dear, delta="0.002").epsilon
    for both in (Parallel(cheap, dear), Parallel(dear, cheap), Together(Parallel(cheap, dear))):
        assert guarantee(both, delta="0.002").epsilon >= alone
