"""The five scenarios of the accountants: ε at the stated δ, and CPU seconds."""

import math
from collections.abc import Callable
from typing import Any

from bench.harness import Bar, Comparison, Contestant, Timed

SCENARIOS = {
    "a": "1000 × Gaussian σ=20, δ=1e-6",
    "b": "DP-SGD q=0.01 σ=4, 10,000 steps, δ=1e-5",
    "b′": "DP-SGD q=0.01 σ=1.1, 10,000 steps, δ=1e-5",
    "c": "100 × Laplace ε=0.1 and 100 × Gaussian σ=20, δ=1e-6",
    "d": "10,000 × pure ε=0.01, δ=1e-6",
}
DELTA = {"a": "1e-6", "b": "1e-5", "b′": "1e-5", "c": "1e-6", "d": "1e-6"}
EXACT = ("a", "d")


def comparison(*, quick: bool) -> Comparison:
    """Issue 2: within 0.1 % of the best accountant, never below the exact value."""
    contestants = []
    for name in SCENARIOS:
        arguments = {"name": name}
        contestants += [
            Contestant(_case(name), "discreet", discreet, arguments, packages=("numpy", "scipy")),
            Contestant(_case(name), "dp-accounting PLD", dp_accounting_pld, arguments, peer="dp-accounting"),
            Contestant(_case(name), "dp-accounting RDP", dp_accounting_rdp, arguments, peer="dp-accounting"),
        ]
        if name in EXACT:
            contestants.append(Contestant(_case(name), "exact (limit)", exact, arguments, remark="closed form"))
    return Comparison("accounting", "Accountants", tuple(contestants), tuple(_bars()), rounds=1 if quick else 5)


def _bars() -> list[Bar]:
    bars = []
    for name in SCENARIOS:
        best = "exact (limit)" if name in EXACT else "dp-accounting PLD"
        case = _case(name)
        bars.append(Bar(f"ε at most 1.001 × {best}", case, "discreet", best, "epsilon", at_most=1.001))
        if name in EXACT:
            bars.append(Bar("ε never below exact (to 1e-9)", case, "discreet", best, "epsilon", at_least=1 - 1e-9))
    return bars


def _case(name: str) -> str:
    return f"({name}) {SCENARIOS[name]}"


# The contestants


def discreet(name: str) -> Timed:
    from discreet.privacy import accounting
    from discreet.privacy.loss import GaussianNoise, LaplaceNoise, Loss, Pure, Repeated, SampledGaussian, Together

    losses: dict[str, Loss] = {
        "a": Repeated(GaussianNoise(20), 1000),
        "b": Repeated(SampledGaussian("0.01", 4), 10_000),
        "b′": Repeated(SampledGaussian("0.01", "1.1"), 10_000),
        "c": Together(Repeated(LaplaceNoise(10), 100), Repeated(GaussianNoise(20), 100)),
        "d": Repeated(Pure("0.01"), 10_000),
    }
    accounting.guarantee(Repeated(SampledGaussian("0.1", 3), 2), delta="1e-3")  # imports, as the peers' are done too
    return lambda: {"epsilon": accounting.guarantee(losses[name], delta=DELTA[name]).epsilon}


def dp_accounting_pld(name: str) -> Timed:
    from dp_accounting.pld import PLDAccountant, common, privacy_loss_distribution

    if name != "d":
        return _dp_accounting(PLDAccountant, _event(name), name)

    def timed() -> dict[str, float]:  # its accountant forgets the count of randomized responses: ε = 0.01
        once = privacy_loss_distribution.from_privacy_parameters(common.DifferentialPrivacyParameters(0.01, 0))
        return {"epsilon": float(once.self_compose(10_000).get_epsilon_for_delta(float(DELTA[name])))}

    return timed


def dp_accounting_rdp(name: str) -> Timed:
    import dp_accounting as dp
    from dp_accounting.rdp import RdpAccountant

    if name != "d":
        return _dp_accounting(RdpAccountant, _event(name), name)
    coin = dp.RandomizedResponseDpEvent(2 / (1 + math.exp(0.01)), 2)  # the worst pure mechanism
    relation = dp.NeighboringRelation.REPLACE_ONE
    event = dp.SelfComposedDpEvent(coin, 10_000)
    return _dp_accounting(lambda: RdpAccountant(neighboring_relation=relation), event, name)


def _dp_accounting(accountant: Any, event: Any, name: str) -> Timed:
    return lambda: {"epsilon": float(accountant().compose(event).get_epsilon(float(DELTA[name])))}


def _event(name: str) -> Any:
    import dp_accounting as dp

    def gaussians(sigma: float, count: int) -> Any:
        return dp.SelfComposedDpEvent(dp.GaussianDpEvent(sigma), count)

    def sgd(sigma: float) -> Any:
        return dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(0.01, dp.GaussianDpEvent(sigma)), 10_000)

    laplaces = dp.SelfComposedDpEvent(dp.LaplaceDpEvent(10), 100)
    mixed = dp.ComposedDpEvent([laplaces, gaussians(20, 100)])
    return {"a": gaussians(20, 1000), "b": sgd(4), "b′": sgd(1.1), "c": mixed}[name]


def exact(name: str) -> Timed:
    from scipy.optimize import brentq

    delta = {"a": _gaussian_delta, "d": _pure_delta}[name]()
    return lambda: {"epsilon": float(brentq(lambda e: delta(e) - float(DELTA[name]), 0, 20, xtol=1e-13))}


def _gaussian_delta() -> Callable[[float], float]:
    """1000 Gaussians of σ = 20 are one of σ = 20/√1000 (Balle, Wang 2018, Theorem 8)."""
    from scipy.special import ndtr

    mu = math.sqrt(1000) / 20
    return lambda epsilon: float(ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu))


def _pure_delta() -> Callable[[float], float]:
    """k-fold composition of ε₀-DP is that of k coins of bias e^ε₀/(1 + e^ε₀) (Kairouz, Oh, Viswanath 2015)."""
    import numpy
    from scipy.stats import binom

    k, each = 10_000, 0.01
    heads = numpy.arange(k + 1)
    losses = (2 * heads - k) * each
    weights = binom.pmf(heads, k, 1 / (1 + math.exp(-each)))
    return lambda epsilon: float(weights @ numpy.maximum(0, -numpy.expm1(numpy.minimum(epsilon - losses, 0))))
