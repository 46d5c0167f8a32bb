"""Intervals hold what they say they hold: rates and gaps, with and without noise, of the table and of the population."""

import numpy as np
import pytest
from scipy.stats import binom

import discreet.fairness.noisy_rates as noisy_module
from discreet.fairness.cells import CRITERIA, metric
from discreet.fairness.gaps import Rates, Sampling, adjusted, family, gap, square_and_add
from discreet.fairness.noisy_rates import Noisy, noise_reach, tail
from discreet.mechanisms.additive import Geometric
from discreet.mechanisms.gaussian import RoundedGaussian
from discreet.noise import DeterministicEntropy, discrete_gaussian, discrete_laplace

ALPHA, DOUBT = 1e-6, 0.05
TIMES = 600  # at 30 % too little width the power test below still fails
NOISES = {
    "ε 1": Geometric(epsilon=1, sensitivity=1),
    "ε 0.1, change one": Geometric(epsilon="0.1", sensitivity=2),
    "σ 5": RoundedGaussian(sigma=5, squared_sensitivity=1),
    "σ 60": RoundedGaussian(sigma=60, squared_sensitivity=2),
}
CASES = {  # rates, sizes
    "middle": ((0.3, 0.5), (2000, 3000)),
    "at an end": ((0.99, 0.9), (400, 4000)),
    "equal": ((0.5, 0.5), (5000, 1000)),
    "small": ((0.05, 0.02), (150, 90)),
}


def enough(held: int, times: int, confidence: float = 1 - DOUBT) -> bool:
    return binom.cdf(held, times, confidence) > ALPHA


def drawn(noise, shape, cells, seed):
    """Sums of so many draws of the noise."""
    if not cells:
        return np.zeros(shape)
    sampler, scale = (
        (discrete_laplace, noise.scale) if isinstance(noise, Geometric) else (discrete_gaussian, noise.sigma)
    )
    return np.asarray(sampler(scale, (cells, *shape), entropy=DeterministicEntropy(seed))).sum(axis=0).astype(float)


def trials(noise, case, parts, seed=0):
    """True hits and noisy rates of two groups, many times."""
    shares, sizes = CASES[case]
    hits = np.random.default_rng(seed).binomial(sizes, shares, (TIMES, 2)).astype(float)
    a, b = drawn(noise, (TIMES, 2), parts[0], seed + 1), drawn(noise, (TIMES, 2), parts[1], seed + 2)
    return hits, Rates(("",) * TIMES, hits + a, np.array(sizes) + a + b, parts)


@pytest.mark.quick_cases(11)
@pytest.mark.parametrize("parts", [(1, 1), (8, 8), (1, 12)], ids=str)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", NOISES)
def test_noisy_rates_and_differences_cover(name, case, parts):
    noise = NOISES[name]
    hits, noisy = trials(noise, case, parts)
    shares, sizes = (np.array(side) for side in CASES[case])
    for covers, truth in (("table", hits / sizes), ("population", shares)):
        limits = Noisy(noise, covers)
        low, high = limits.limits(noisy, DOUBT)
        held = (low - 1e-9 <= truth) & (truth <= high + 1e-9)
        assert enough(held.sum(axis=0).min(), TIMES), covers
        used = limits.usable(noisy).all(axis=1)
        ends = square_and_add(*((noisy.values[used, k], low[used, k], high[used, k]) for k in (0, 1)))
        both = np.broadcast_to(truth, hits.shape)[used]
        apart = both[:, 0] - both[:, 1]
        missed = int(((ends[0] - 1e-9 > apart) | (apart > ends[1] + 1e-9)).sum())
        assert enough(TIMES - missed, TIMES), covers  # whichever are shown
        if used.mean() > 0.5:
            assert enough(int(used.sum()) - missed, int(used.sum())), covers


@pytest.mark.parametrize("name", NOISES)
@pytest.mark.parametrize("covers", ["table", "population"])
def test_noise_that_is_a_third_larger_than_stated_is_caught(name, covers):
    """The power of the test above: limits for noise (and samples) 30 % too small must fail it."""
    noise = NOISES[name]
    hits, noisy = trials(noise, "middle", (8, 8))
    shares, sizes = (np.array(side) for side in CASES["middle"])
    truth = hits / sizes if covers == "table" else np.broadcast_to(shares, hits.shape)
    low, high = Noisy(noise, covers).limits(noisy, DOUBT)
    narrow = 0.7 if covers == "table" else 0.6
    center = noisy.values
    held = (center - narrow * (center - low) <= truth) & (truth <= center + narrow * (high - center))
    assert not enough(held.sum(axis=0).min(), TIMES)


def test_the_law_of_the_noise_is_what_is_drawn():
    for noise in NOISES.values():
        first, second = drawn(noise, (200_000,), 3, 1), drawn(noise, (200_000,), 2, 2)
        reach = noise_reach(noise, 3, 2, 0.02)
        for place, p in ((0, 0.0), (8, 0.25), (16, 0.5), (32, 1.0)):
            away = np.abs((1 - p) * first - p * second)
            step = max(1.0, float(noise.scale if isinstance(noise, Geometric) else noise.sigma) / 24)
            beyond, nearer = ((away > limit).sum() for limit in (reach[place], 0.97 * reach[place] - 1.6 * step))
            assert binom.sf(beyond - 1, 200_000, 0.02) > ALPHA  # not too narrow
            assert binom.cdf(nearer, 200_000, 0.02) > ALPHA  # nor wider than needed
        assert (first > tail(noise, 3, 0.01)).mean() < 0.011


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("name", NOISES)
def test_lines_between_the_places_of_the_law_do_not_fall_short_by_more_than_the_margin(name, monkeypatch):
    for parts in ((1, 1), (2, 2), (1, 12), (16, 16)):
        for alpha in (0.3, 0.05, 0.001):
            monkeypatch.setattr(noisy_module, "_GRID", 33)
            coarse = noise_reach.__wrapped__(NOISES[name], *parts, alpha)
            monkeypatch.setattr(noisy_module, "_GRID", 257)
            fine = noise_reach.__wrapped__(NOISES[name], *parts, alpha)
            step = max(1.0, float(getattr(NOISES[name], "scale", getattr(NOISES[name], "sigma", 0))) / 24)
            lines = np.interp(np.linspace(0, 1, 257), np.linspace(0, 1, 33), coarse)
            assert (fine - lines).max() < 0.5 * step  # the margin, which both have


def test_a_tail_is_the_mechanisms_own():
    for epsilon in ("0.5", "1", "3"):
        noise = Geometric(epsilon=epsilon, sensitivity=1)
        assert tail(noise, 1, 0.025) == noise.interval("0.95")


def test_without_a_row_nothing_is_known():
    noisy = Noisy(Geometric(epsilon=1, sensitivity=1), "population")
    nobody = Rates(("",), np.array([[2.0, -3.0, 0.0]]), np.array([[1.0, -2.0, 0.0]]))
    low, high = noisy.limits(nobody, DOUBT)
    assert (np.clip(low, 0, 1) <= 0.01).all()
    assert (np.clip(high, 0, 1) >= 0.99).all()
    assert not noisy.usable(nobody).any()
    assert np.isnan(nobody.values[0, 1:]).all()


def test_much_noise_widens_and_none_of_it_shifts():
    rates = Rates(("",), np.array([[300.0]]), np.array([[1000.0]]))
    widths = []
    for epsilon in ("10", "1", "0.1"):
        low, high = Noisy(Geometric(epsilon=epsilon, sensitivity=1), "table").limits(rates, DOUBT)
        assert low[0, 0] <= 0.3 <= high[0, 0]
        widths.append(high[0, 0] - low[0, 0])
    assert widths == sorted(widths)
    assert widths[0] < 0.005
    sampled = Noisy(Geometric(epsilon=10, sensitivity=1), "population").limits(rates, DOUBT)
    exact = Sampling().limits(rates, DOUBT)
    assert abs(sampled[0][0, 0] - exact[0][0, 0]) < 0.004
    assert abs(sampled[1][0, 0] - exact[1][0, 0]) < 0.004


# --- gaps of several groups -------------------------------------------------------------------------------------------


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("noise", [None, NOISES["ε 1"], NOISES["σ 5"]], ids=["none", "geometric", "Gaussian"])
def test_the_gap_of_several_groups_is_covered(noise):
    """Equalized odds of four groups, true gap 0.12: of the population, and of the table under noise."""
    rng = np.random.default_rng(11)
    share, base, odds = np.array([0.4, 0.3, 0.2, 0.1]), 0.4, np.array([[0.2, 0.25, 0.22, 0.3], [0.6, 0.7, 0.72, 0.65]])
    probability = np.stack([np.stack([(1 - odds[y]) * (base if y else 1 - base), odds[y] * (base if y else 1 - base)], axis=1) for y in (0, 1)], axis=1) * share[:, None, None]  # fmt: skip
    held = {"table": 0, "population": 0}
    times = 150
    for k in range(times):
        counts = rng.multinomial(4000, probability.ravel()).reshape(4, 2, 2)
        noisy = counts if noise is None else np.asarray(noise.release(counts, entropy=DeterministicEntropy(k)))
        families = [family(noisy, metric(name), names=[name]) for name in CRITERIA["equalized odds"].metrics]
        exact = [family(counts, metric(name)).values[0] for name in CRITERIA["equalized odds"].metrics]
        own = max(np.ptp(side) for side in exact)
        for covers, truth in (("table", own), ("population", 0.12)):
            limits = Sampling() if noise is None else Noisy(noise, covers)
            found = gap(CRITERIA["equalized odds"], families, list("abcd"), limits, DOUBT).difference
            held[covers] += found.low <= truth <= found.high
    assert enough(held["population"], times)
    if noise is not None:
        assert enough(held["table"], times)


@pytest.mark.parametrize("noise", [None, NOISES["ε 1"]], ids=["none", "geometric"])
def test_standardized_gaps_are_covered(noise):
    """Two groups spread differently over three strata, rates 0.1 apart in each: the standardized gap is 0.1."""
    rng, held, times = np.random.default_rng(12), 0, 200
    spread = np.array([[0.3, 0.1], [0.1, 0.2], [0.1, 0.2]])  # stratum × group
    rate = np.array([[0.2, 0.3], [0.5, 0.6], [0.7, 0.8]])
    probability = np.stack([spread * (1 - rate), spread * rate], axis=-1)
    for k in range(times):
        counts = rng.multinomial(3000, probability.ravel()).reshape(3, 2, 2)
        tables = np.zeros((3, 2, 2, 2), int)
        tables[:, :, 0] = counts
        if noise is not None:
            tables = np.asarray(noise.release(tables, entropy=DeterministicEntropy(k)))
        rates = family(tables, metric("selection rate"), names=list("xyz"))
        limits = Sampling() if noise is None else Noisy(noise, "population")
        found = adjusted(rates, np.array([True, True]), ["f", "m"], limits, DOUBT).difference
        held += found.low <= 0.1 <= found.high
    assert enough(held, times)


def test_exact_limits_of_differences_cover_also_where_rates_are_extreme():
    rng = np.random.default_rng(13)
    for shares, sizes in CASES.values():
        hits = rng.binomial(sizes, shares, (TIMES, 2)).astype(float)
        rates = Rates(("",) * TIMES, hits, np.broadcast_to(np.array(sizes, float), hits.shape))
        low, high = Sampling().limits(rates, DOUBT)
        ends = square_and_add(*((rates.values[:, k], low[:, k], high[:, k]) for k in (0, 1)))
        true = shares[0] - shares[1]
        assert enough(int(((ends[0] <= true) & (true <= ends[1])).sum()), TIMES)


def test_limits_from_noise_are_for_all_groups_whichever_come_out_large_enough():
    tables = np.array([[[500, 300], [0, 0]], [[400, 500], [0, 0]], [[2, 1], [0, 0]]])
    rates = family(tables, metric("selection rate"))
    for limits, pairs in ((Sampling(20), 1), (Noisy(NOISES["ε 1"], "table", 20), 3)):
        found = gap(CRITERIA["statistical parity"], [rates], list("abc"), limits, DOUBT)
        assert found.left_out == ("c",)
        assert found.comparisons == pairs
