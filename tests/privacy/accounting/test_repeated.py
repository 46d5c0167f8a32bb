"""`Repeated(e, n)` is n copies of e: for every kind of loss and every accountant.

A well-known accountant forgets the count for one kind and reports ε = 0.506 where 15 is due.
"""

from collections.abc import Callable
from fractions import Fraction

import pytest

from discreet.errors import NoGuarantee
from discreet.privacy.accounting import composition, delta_for, guarantee, pld, profile, pure, rdp, zcdp
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
    PerDistance("0.3", "km"),
    Together(Pure("0.1"), GaussianNoise(9)),
    Parallel(Pure("0.3"), GaussianNoise(4)),
    Repeated(LaplaceNoise(8), 2),
]

ACCOUNTANTS: dict[str, Callable[[Loss], object]] = {
    "pure": pure.epsilon,
    "basic": composition.basic,
    "advanced": lambda loss: composition.advanced(loss, delta="1e-6"),
    "optimal ε": lambda loss: composition.optimal_epsilon(loss, delta="1e-6"),
    "optimal δ": lambda loss: composition.optimal_delta(loss, epsilon=1),
    "rho": zcdp.rho,
    "rdp": lambda loss: rdp.curve(loss).values,
    "rdp δ": lambda loss: rdp.curve(loss).delta,
    "profile": lambda loss: profile.epsilon(loss, delta="1e-6"),
    "pld ε": lambda loss: pld.epsilon(loss, delta="1e-6"),
    "pld δ": lambda loss: pld.delta(loss, epsilon=1),
    "guarantee": lambda loss: guarantee(loss, delta="1e-6").epsilon,
    "delta_for": lambda loss: delta_for(loss, epsilon=1).delta,
}


def answer(accountant: Callable[[Loss], object], loss: Loss) -> object:
    try:
        return accountant(loss)
    except NoGuarantee:
        return "refused"


@pytest.mark.parametrize("name", ACCOUNTANTS)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: type(kind).__name__)
def test_repeated_equals_copies(name: str, kind: Loss) -> None:
    repeated, copies = (answer(ACCOUNTANTS[name], loss) for loss in (Repeated(kind, 3), Together(kind, kind, kind)))
    if isinstance(repeated, str | Fraction) or name == "basic":
        assert repeated == copies
    else:
        assert repeated == pytest.approx(copies, rel=1e-12, abs=0)
    single = answer(ACCOUNTANTS[name], kind)
    if not isinstance(kind, PerDistance) and not isinstance(single, str):
        assert single != repeated or single in (0, Fraction(0), (Fraction(0), Fraction(0)))


@pytest.mark.parametrize("name", ACCOUNTANTS)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: type(kind).__name__)
def test_once_is_itself_and_never_is_nothing(name: str, kind: Loss) -> None:
    accountant = ACCOUNTANTS[name]
    assert answer(accountant, Repeated(kind, 1)) == pytest.approx(answer(accountant, kind), rel=1e-12, abs=0)
    assert answer(accountant, Repeated(kind, 0)) == answer(accountant, Together())


def test_a_hundred_exponential_mechanisms() -> None:
    hundred = Repeated(BoundedRange("0.5"), 100)
    assert 15.1 < guarantee(hundred, delta="1e-6").epsilon < 15.11
    assert zcdp.epsilon(zcdp.rho(hundred), delta="1e-6") == pytest.approx(15.3, abs=0.05)
