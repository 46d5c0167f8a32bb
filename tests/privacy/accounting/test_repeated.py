"""`Repeated(e, n)` is n copies of e: for every kind of loss and every accountant.

A well-known accountant forgets the count for one kind and reports ε = 0.506 where 15 is due.
"""

from collections.abc import Callable

import pytest

from discreet.errors import NoGuarantee
from discreet.privacy.accounting import composition, delta_for, guarantee, pld, profile, rdp, zcdp
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

KINDS: list[Loss] = [
    Pure("0.3"),
    BoundedRange("0.3"),
    Approximate("0.3", "1e-9"),
    Concentrated("0.01"),
    LaplaceNoise(4),
    GaussianNoise(4),
    DiscreteGaussianNoise(4, 1),
    SampledGaussian("0.1", 2),
    PerDistance("0.3", "km", 0),
    Together(Pure("0.1"), GaussianNoise(9)),
    Parallel(Pure("0.3"), GaussianNoise(4)),
    Repeated(LaplaceNoise(8), 2),
]

ACCOUNTANTS: dict[str, Callable[[Loss], object]] = {
    "pure": composition.pure,
    "basic": composition.basic,
    "advanced": lambda loss: composition.advanced(loss, delta="1e-6"),
    "optimal ε": lambda loss: composition.optimal_epsilon(loss, delta="1e-6"),
    "optimal δ": lambda loss: composition.optimal_delta(loss, epsilon="0.2"),
    "rho": zcdp.rho,
    "rdp": lambda loss: rdp.curve(loss).values,
    "rdp δ": lambda loss: rdp.curve(loss).delta,
    "profile": lambda loss: profile.epsilon(loss, delta="1e-6"),
    "pld ε": lambda loss: pld.epsilon(loss, delta="1e-6"),
    "pld δ": lambda loss: pld.delta(loss, epsilon="0.2"),
    "guarantee": lambda loss: guarantee(loss, delta="1e-6").epsilon,
    "delta_for": lambda loss: delta_for(loss, epsilon="0.2").delta,
}


def answer(accountant: Callable[[Loss], object], loss: Loss) -> object:
    try:
        return accountant(loss)
    except NoGuarantee:
        return "refused"


def same(a: object, b: object) -> bool:
    """Exactly equal, or floats that differ by rounding only."""
    return a == b if isinstance(a, str) or isinstance(b, str) else bool(a == pytest.approx(b, rel=1e-12, abs=0))


@pytest.mark.parametrize("name", ACCOUNTANTS)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: type(kind).__name__)
def test_repeated_equals_copies(name: str, kind: Loss) -> None:
    accountant = ACCOUNTANTS[name]
    once, thrice, never = (answer(accountant, loss) for loss in (kind, Repeated(kind, 3), Repeated(kind, 0)))
    assert same(thrice, answer(accountant, Together(kind, kind, kind)))
    assert same(once, answer(accountant, Repeated(kind, 1)))
    assert same(never, answer(accountant, Together()))
    if once != "refused" and name != "rdp δ":
        assert not same(once, thrice), "the count made no difference"


def test_a_hundred_exponential_mechanisms() -> None:
    hundred = Repeated(BoundedRange("0.5"), 100)
    assert 15.1 < guarantee(hundred, delta="1e-6").epsilon < 15.11
    assert zcdp.epsilon(zcdp.rho(hundred), delta="1e-6") == pytest.approx(15.3, abs=0.05)
