"""Pure, basic, advanced and optimal composition."""

import itertools
import math
from fractions import Fraction

import mpmath as mp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.errors import NoGuarantee
from discreet.privacy.accounting import composition
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

# Pure ε adds up exactly


@pytest.mark.parametrize(
    ("loss", "epsilon"),
    [
        (Together(), 0),
        (Pure("0.1"), Fraction(1, 10)),
        (BoundedRange("1/3"), Fraction(1, 3)),
        (LaplaceNoise(7), Fraction(1, 7)),
        (Approximate(2, 0), 2),
        (Repeated(Pure("0.1"), 10**6), 10**5),
        (Together(Pure("0.1"), Pure("0.2")), Fraction(3, 10)),
        (Parallel(Pure(1), Together(Pure(1), Pure("0.01")), Pure("0.5")), Fraction(101, 100)),
        (Repeated(Parallel(Pure(1), LaplaceNoise("0.5")), 3), 6),
        (Together(SampledGaussian(0, 1), DiscreteGaussianNoise(1, 0), Concentrated(0)), 0),
    ],
)
def test_pure_is_exact(loss: Loss, epsilon: Fraction) -> None:
    assert composition.pure(loss) == epsilon


@pytest.mark.parametrize(
    "loss",
    [
        GaussianNoise(10**9),
        DiscreteGaussianNoise(10**9, 1),
        SampledGaussian("1e-9", 10**9),
        Concentrated("1e-30"),
        Approximate(1, "1e-30"),
        Parallel(Pure(1), GaussianNoise(1)),
        Together(Pure(1), Repeated(GaussianNoise(1), 1)),
    ],
)
def test_refused_with_advice(loss: Loss) -> None:
    with pytest.raises(NoGuarantee, match="ask with delta > 0"):
        composition.pure(loss)


def test_distance_needs_a_radius() -> None:
    with pytest.raises(NoGuarantee, match="within"):
        composition.pure(PerDistance(1, "km", 0))
    assert composition.pure(PerDistance(1, "km", 0).within(3)) == 3


def test_beside_an_additive_delta() -> None:
    loss = Together(Repeated(Approximate(1, "1e-9"), 2), Pure("0.5"))
    assert composition.pure(loss, additive_delta=True) == Fraction(5, 2)
    with pytest.raises(NoGuarantee):
        composition.pure(Together(loss, GaussianNoise(1)), additive_delta=True)


# (ε, δ)


def exact_delta(epsilon: mp.mpf, each: str, count: int) -> mp.mpf:
    """Kairouz, Oh, Viswanath 2015: the hockey stick of `count` randomized responses, term by term."""
    with mp.workdps(60):
        e = mp.mpf(each)
        truth = mp.e**e / (1 + mp.e**e)
        total = mp.mpf(0)
        for lies in range(count + 1):
            loss = (count - 2 * lies) * e
            if loss > epsilon:
                mass = mp.binomial(count, lies) * truth ** (count - lies) * (1 - truth) ** lies
                total += mass * (1 - mp.e ** (epsilon - loss))
        return total


def test_basic_is_exact() -> None:
    loss = Together(Repeated(Approximate("0.1", "1e-9"), 10), Pure(1), BoundedRange(1), LaplaceNoise(2))
    assert composition.basic(loss) == (Fraction(7, 2), Fraction(1, 10**8))
    assert composition.basic(Parallel(Approximate(1, "1e-9"), Approximate(2, "1e-10"))) == (2, Fraction(1, 10**9))
    assert composition.basic(Repeated(Approximate(1, "0.5"), 3)) == (3, 1)


def test_basic_adds_and_takes_the_greatest() -> None:
    """ε and δ add up over releases on the same data; over disjoint parts the greatest of each counts."""
    parts = Approximate("0.1", "1e-6"), Approximate("0.2", "3e-6"), Repeated(Approximate("0.05", "1e-6"), 2)
    assert composition.basic(Together(*parts)) == (Fraction(4, 10), Fraction(6, 10**6))
    assert composition.basic(Parallel(*parts)) == (Fraction(2, 10), Fraction(3, 10**6))


def test_advanced_follows_the_theorem() -> None:
    k, e, d = 10_000, 0.01, 1e-6
    plain = math.sqrt(2 * k * math.log(1 / d)) * e + k * e * math.expm1(e)  # as Dwork, Rothblum, Vadhan state it
    ours = composition.advanced(Repeated(Pure("0.01"), k), delta="1e-6")
    assert ours <= plain
    assert ours == pytest.approx(math.sqrt(2 * k * math.log(1 / d)) * e + k * e * math.tanh(e / 2), rel=1e-11)
    assert composition.advanced(Together(), delta=0) == 0
    assert composition.advanced(Approximate(0, "1e-9"), delta="1e-9") == 0


def test_advanced_leaves_room_for_the_deltas() -> None:
    loss = Repeated(Approximate("0.01", "1e-10"), 100)
    assert composition.advanced(loss, delta="2e-8") == pytest.approx(
        composition.advanced(Repeated(Pure("0.01"), 100), delta="1e-8"), rel=1e-12
    )
    with pytest.raises(NoGuarantee, match="additive"):
        composition.advanced(loss, delta="1e-8")


def test_scenario_d_is_exact() -> None:
    """10,000 × 0.01 at 1e-6; an accountant in wide use answers 4.876, below the truth."""
    loss = Repeated(Pure("0.01"), 10_000)
    assert composition.optimal_epsilon(loss, delta="1e-6") == pytest.approx(4.885515601, abs=1e-8)
    assert composition.optimal_delta(loss, epsilon="4.885515601") == pytest.approx(1e-6, rel=1e-8)


@pytest.mark.parametrize(("each", "count"), [("1", 1), ("1", 2), ("0.1", 30), ("5", 7), ("0.001", 200), ("30", 3)])
def test_optimal_against_high_precision(each: str, count: int) -> None:
    loss = Repeated(Pure(each), count)
    for part in (0.0, 0.1, 0.37, 0.8, 0.999):
        epsilon = part * float(each) * count
        ours = composition.optimal_delta(loss, epsilon=Fraction(epsilon))
        assert 0 <= ours / exact_delta(mp.mpf(epsilon), each, count) - 1 < 1e-9
        if 1e-280 < ours < 1:
            back = composition.optimal_epsilon(loss, delta=Fraction(ours))
            assert back == pytest.approx(epsilon, rel=1e-8, abs=1e-9)


def test_optimal_of_approximate_is_the_theorem() -> None:
    """Thm 3.3: 1 − (1−δ₀)ᵏ(1 − δᵢ) at (k − 2i)ε₀."""
    each, extra, count = "0.5", Fraction(1, 1000), 6
    for i in range(3):
        epsilon = Fraction(1, 2) * (count - 2 * i)
        with mp.workdps(40):
            inner = exact_delta(mp.mpf(float(epsilon)), each, count)
            exact = 1 - (1 - mp.mpf(1) / 1000) ** count * (1 - inner)
        ours = composition.optimal_delta(Repeated(Approximate(each, extra), count), epsilon=epsilon)
        assert 0 <= ours / exact - 1 < 1e-9


@given(st.integers(1, 40), st.floats(0.01, 2), st.floats(1e-12, 0.2))
@settings(max_examples=60, deadline=None)
def test_optimal_is_never_worse_than_the_others(count: int, each: float, delta: float) -> None:
    loss = Repeated(Pure(each), count)
    ours = composition.optimal_epsilon(loss, delta=delta)
    assert ours <= float(composition.pure(loss)) * (1 + 1e-12)
    assert ours <= composition.advanced(loss, delta=delta)


@pytest.mark.parametrize("count", [10**6, 10**8])
def test_optimal_of_very_many(count: int) -> None:
    """With each ε = 1/√n the total is nearly Gaussian with μ = 1, whose ε at 1e-6 is 4.8866."""
    each = 1 / math.sqrt(count)
    assert composition.optimal_epsilon(Repeated(Pure(each), count), delta="1e-6") == pytest.approx(4.88655, rel=1e-3)


def test_extremes() -> None:
    assert composition.optimal_epsilon(Together(), delta=0) == 0
    assert composition.optimal_epsilon(Repeated(Pure(1), 0), delta="1e-6") == 0
    assert composition.optimal_epsilon(Pure("1e-9"), delta="0.5") == 0
    assert composition.optimal_epsilon(Repeated(Pure(100), 10), delta="1e-6") == pytest.approx(1000, rel=1e-8)
    assert composition.optimal_delta(Pure(1), epsilon=1) == 0
    assert composition.optimal_delta(Approximate(1, 1), epsilon=5) == 1
    assert composition.optimal_delta(Repeated(Pure("1e-400"), 5), epsilon=0) < 1e-99
    for tiny in ("1e-300", 0):
        with pytest.raises(NoGuarantee):
            composition.optimal_epsilon(Pure(1), delta=tiny)


@pytest.mark.parametrize("loss", [GaussianNoise(1), Together(Pure(1), Pure(2)), PerDistance(1, "km", 0)])
def test_optimal_refuses_what_it_is_not_for(loss: object) -> None:
    with pytest.raises(NoGuarantee):
        composition.optimal_epsilon(loss, delta="1e-6")  # type: ignore[arg-type]


@pytest.mark.parametrize("function", [composition.basic, lambda loss: composition.advanced(loss, delta="1e-6")])
@pytest.mark.parametrize("loss", [GaussianNoise(1), PerDistance(1, "km", 0)])
def test_refused(function: object, loss: object) -> None:
    with pytest.raises(NoGuarantee):
        function(loss)  # type: ignore[operator]


def test_two_responses_by_enumeration() -> None:
    """All 2⁴ outcomes and all 2⁴ sets of two different answers, in rationals up to the exponentials."""
    e = math.log(3)
    truth = 0.75
    outcomes = list(itertools.product((0, 1), repeat=2))
    p = {o: math.prod(truth if bit else 1 - truth for bit in o) for o in outcomes}
    q = {o: math.prod(truth if not bit else 1 - truth for bit in o) for o in outcomes}
    for epsilon in (0.0, 0.5, 1.0, 2.0):
        best = max(
            sum(p[o] - math.exp(epsilon) * q[o] for o in subset)
            for size in range(5)
            for subset in itertools.combinations(outcomes, size)
        )
        ours = composition.optimal_delta(Repeated(Pure(e), 2), epsilon=epsilon)
        assert ours == pytest.approx(best, rel=1e-9)
