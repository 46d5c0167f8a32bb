"""B1, measured: no event of any mechanism's outputs is likelier than e^ε allows, and an auditor comes near that."""

from fractions import Fraction
from math import inf, log

import numpy as np
import pytest

from discreet.attacks.audit import Audit, ChannelAudit
from discreet.mechanisms import KRR, DiscreteGaussian, Geometric
from discreet.mechanisms.channel import constant, identity
from discreet.noise import DeterministicEntropy
from discreet.privacy.accounting import guarantee

pytestmark = pytest.mark.claim("B1")

SURE = 1 - Fraction(1, 10**7)


def measured(mechanism, x, neighbor, **claim):
    """A lower bound on ε from the outputs alone."""
    stream = DeterministicEntropy(1)
    return Audit(
        mechanism=lambda value, n: mechanism.release(np.full(n, value), entropy=stream),
        x=x, neighbor=neighbor, samples=200_000, confidence=SURE, **claim,
    ).find()  # fmt: skip


@pytest.mark.parametrize("epsilon", ["0.1", "0.5", "1", "2"])
def test_epsilon_is_kept_and_nearly_reached(epsilon):
    """Pr[S | x] ≤ e^ε·Pr[S | x'] for the worst S that was found: from above by the proof, from below by the counts."""
    for mechanism in (Geometric(epsilon=epsilon, sensitivity=1), KRR(epsilon=epsilon, size=3)):
        found = measured(mechanism, 0, 1, claimed=epsilon)
        assert not found.broken
        assert found.epsilon > 0.85 * float(epsilon) - 0.05


def test_with_delta():
    """The Gaussian has no ε at δ = 0; at each δ it has one, which the outputs nearly reach."""
    mechanism = DiscreteGaussian(sigma=2, squared_sensitivity=1)
    for delta in ("0.001", "0.01", "0.05"):
        stated = guarantee(mechanism.loss, delta=delta).epsilon
        found = measured(mechanism, 0, 1, claimed=(stated, delta))
        assert not found.broken
        assert found.epsilon > 0.3 * float(stated)
    tail = measured(DiscreteGaussian(sigma=2, squared_sensitivity=64), 0, 8)
    assert tail.epsilon > 7  # the further the shift, the less any ε suffices


def test_zero_is_perfect_privacy_and_infinity_none():
    people = ["ann", "bob"]
    assert ChannelAudit(channel=constant(people, "hello")).epsilon == 0
    assert ChannelAudit(channel=identity(people)).epsilon == inf
    silent = Audit(mechanism=lambda name, n, rng: rng.random(n), x="ann", neighbor="bob", confidence=SURE).find()
    telling = Audit(mechanism=lambda name, n, rng: [name] * n, x="ann", neighbor="bob", confidence=SURE).find()
    assert silent.epsilon == 0
    assert telling.epsilon > log(1000)


@pytest.mark.parametrize("factor", ["0.7", "0.5"])
def test_a_smaller_epsilon_than_the_true_one_is_refuted(factor):
    """Noise of 0.7 or half the scale that the stated ε = 1 needs."""
    found = measured(Geometric(epsilon=1 / Fraction(factor), sensitivity=1), 0, 1, claimed=1)
    assert found.broken
    assert found.report().verdict == "falls"
