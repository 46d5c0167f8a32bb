"""Private selection of keys: exact (ε,δ) for every count, optimality, thresholds that are as low as they can be."""

from contextlib import suppress
from dataclasses import fields
from fractions import Fraction
from functools import partial
from math import ceil, floor, log

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.special import ndtr
from tests.conftest import stable

from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import exp_bounds
from discreet.mechanisms import GaussianThreshold, LaplaceThreshold, OptimalSelection
from discreet.noise import DeterministicEntropy
from discreet.privacy.loss import Approximate, GaussianNoise, Together
from discreet.privacy.unit import Neighbors

F = Fraction
BITS = 256
CASES = [("1", "1e-5"), ("0.1", "1e-3"), ("2", "1e-10"), ("0.5", "0.1"), ("5", "1e-6"), ("1", "0.9"), ("0.01", "1e-2")]
cases = pytest.mark.parametrize(("epsilon", "delta"), CASES)
SELECTORS = [
    OptimalSelection(epsilon=1, delta="1e-3", keys=1),
    LaplaceThreshold(epsilon=1, delta="1e-3", keys=1),
    GaussianThreshold(sigma=2, delta="1e-3", keys=1),
]
selectors = pytest.mark.parametrize("mechanism", SELECTORS, ids=lambda m: type(m).__name__)


def growth(epsilon: Fraction) -> Fraction:
    """A rational not above e^ε."""
    return F(exp_bounds(epsilon, BITS)[0], 1 << BITS)


def excess(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    """The least δ of (ε,δ)-DP between two output distributions, in both orders."""
    g = np.exp(epsilon)
    return float(max(np.maximum(p - g * q, 0).sum(), np.maximum(q - g * p, 0).sum()))


# --- optimal selection: privacy, in rationals ----------------------------------------------------------------------


@cases
@pytest.mark.parametrize("keys", [1, 3])
def test_all_four_inequalities_hold_exactly(epsilon, delta, keys):
    mechanism = OptimalSelection(epsilon=epsilon, delta=delta, keys=keys)
    g, spare = growth(F(epsilon) / keys), F(delta) / keys
    assert mechanism.keep(0) == 0
    n, here = 0, F(0)
    while here < 1 and n < 400:
        after = mechanism.keep(n + 1)
        assert after <= g * here + spare
        assert here <= g * after + spare
        assert 1 - here <= g * (1 - after) + spare
        assert 1 - after <= g * (1 - here) + spare
        n, here = n + 1, after


@pytest.mark.parametrize(("epsilon", "delta"), [("1", "1e-3"), ("0.5", "0.1"), ("3", "1e-6")])
def test_the_channel_uses_exactly_its_delta(epsilon, delta):
    mechanism = OptimalSelection(epsilon=epsilon, delta=delta, keys=1)
    channel = mechanism.channel(40)
    assert channel.exact
    assert channel.delta(epsilon, "line") <= float(F(delta))
    assert channel.delta(epsilon, "line") == pytest.approx(float(F(delta)), rel=1e-9)
    assert channel.epsilon("line") == float("inf")  # π(0) = 0: it is not ε-DP for any ε
    assert mechanism.loss == Approximate(epsilon, delta)


@pytest.mark.parametrize(("epsilon", "delta"), [("1", "1e-2"), ("3", "1e-4")])
def test_a_person_under_two_keys_is_protected_as_stated(epsilon, delta):
    """Both keys together: counts (a, b) against (a+1, b+1), (a+1, b) and (a, b+1), by exact products."""
    mechanism = OptimalSelection(epsilon=epsilon, delta=delta, keys=2)
    one = mechanism.channel(6)
    both = one.product(one)
    near = [((a, b), (a + i, b + j)) for a in range(6) for b in range(6) for i, j in ((1, 1), (1, 0), (0, 1))]
    assert both.delta(epsilon, near) <= float(F(delta))
    assert both.delta(epsilon, near) > float(F(delta)) / 4
    single = OptimalSelection(epsilon=epsilon, delta=delta, keys=1).channel(6)
    assert single.product(single).delta(epsilon, near) > float(F(delta))  # power: keys=1 would break the promise


# --- optimal selection: it is optimal ------------------------------------------------------------------------------------


def recursion(epsilon: str, delta: str, count: int) -> list[mpmath.mpf]:
    """π(0) … π(count), Desfontaines et al. 2022, Theorem 1, at 60 digits."""
    e, d = mpmath.exp(mpmath.mpf(epsilon)), mpmath.mpf(delta)
    kept = [mpmath.mpf(0)]
    for _ in range(count):
        kept.append(min(e * kept[-1] + d, 1 - (1 - kept[-1] - d) / e, mpmath.mpf(1)))
    return kept


def closed_form(epsilon: str, delta: str, n: int) -> mpmath.mpf:
    """The same in closed form (their Theorem 2): growth up to n₁, then decay of the chance to be dropped, then 1."""
    e, d = mpmath.mpf(epsilon), mpmath.mpf(delta)
    n1 = 1 + mpmath.floor(mpmath.log((mpmath.exp(e) + 2 * d - 1) / (d * (mpmath.exp(e) + 1))) / e)

    def first(k):
        return d * (mpmath.exp(k * e) - 1) / (mpmath.exp(e) - 1)

    if n <= n1:
        return first(n)
    m, gain = n - n1, d / (mpmath.exp(e) - 1)
    return min(mpmath.mpf(1), (1 - mpmath.exp(-m * e)) * (1 + gain) + mpmath.exp(-m * e) * first(n1))


@cases
def test_it_is_the_published_mechanism(epsilon, delta):
    mechanism = OptimalSelection(epsilon=epsilon, delta=delta, keys=1)
    with mpmath.workdps(60):
        for n, expected in enumerate(recursion(epsilon, delta, 300)):
            got = mpmath.mpf(mechanism.keep(n).numerator) / mechanism.keep(n).denominator
            assert got <= expected  # rounded towards privacy
            assert expected - got < mpmath.mpf(2) ** -60
            assert abs(closed_form(epsilon, delta, n) - expected) < mpmath.mpf(10) ** -40


def test_published_numbers():
    """ε = 1, δ = 1e-5: a lone person's key is kept with probability δ, and 50 % is reached near ln(1/δ)/ε."""
    mechanism = OptimalSelection(epsilon=1, delta="1e-5", keys=1)
    assert mechanism.keep(1) == pytest.approx(1e-5, rel=1e-20)
    assert float(mechanism.keep(1)) <= 1e-5
    assert mechanism.interval("0.5") == 12
    assert next(n for n in range(99) if mechanism.keep(n) == 1) == mechanism.interval("0.999999999") <= 24


@pytest.mark.parametrize(("epsilon", "delta"), [("1", "1e-2"), ("0.5", "0.1"), ("3", "1e-3")])
def test_no_other_probabilities_satisfy_the_inequalities_and_are_larger(epsilon, delta):
    """A linear program maximizes each π(n) over all sequences that are (ε,δ)-DP, rising or not."""
    size, e, d = 9, np.exp(float(F(epsilon))), float(F(delta))
    rows, limits = [], []
    for n in range(size - 1):
        for a, b in ((n, n + 1), (n + 1, n)):
            keep, drop = np.zeros(size), np.zeros(size)
            keep[a], keep[b] = 1, -e  # π(a) ≤ e·π(b) + δ
            drop[a], drop[b] = -1, e  # 1 − π(a) ≤ e·(1 − π(b)) + δ
            rows += [keep, drop]
            limits += [d, e - 1 + d]
    mechanism = OptimalSelection(epsilon=epsilon, delta=delta, keys=1)
    for n in range(size):
        goal = np.zeros(size)
        goal[n] = -1
        best = linprog(goal, np.array(rows), limits, bounds=[(0, 0)] + [(0, 1)] * (size - 1))
        assert float(mechanism.keep(n)) == pytest.approx(-best.fun, abs=1e-7)


@given(st.lists(st.fractions(0, 1), min_size=8, max_size=8), st.sampled_from(CASES))
@settings(max_examples=50)
def test_any_private_sequence_lies_below(shares, case):
    epsilon, delta = (F(x) for x in case)
    mechanism = OptimalSelection(epsilon=epsilon, delta=delta, keys=1)
    g, other = growth(epsilon), F(0)
    for n, share in enumerate(shares, start=1):
        other = share * min(g * other + delta, 1 - (1 - other - delta) / g, F(1))
        if other < 0:
            other = F(0)
        assert other <= mechanism.keep(n) + F(1, 2**80)


@given(st.integers(1, 5), st.fractions(F(1, 50), 5, max_denominator=50), st.integers(1, 12))
@settings(max_examples=40)
def test_probabilities_rise_to_one(keys, epsilon, power):
    mechanism = OptimalSelection(epsilon=epsilon, delta=F(1, 10**power), keys=keys)
    kept = [mechanism.keep(n) for n in range(60)]
    assert kept == sorted(kept)
    assert mechanism.keep(10**9) == 1


def test_optimal_selection_keeps_more_than_the_thresholds():
    best, laplace = (kind(epsilon=1, delta="1e-5", keys=1) for kind in (OptimalSelection, LaplaceThreshold))
    q = np.exp(-1.0)
    for n in range(1, 30):
        least = laplace.threshold - n  # kept if the noise is at least this
        kept = q**least / (1 + q) if least > 0 else 1 - q ** (1 - least) / (1 + q)
        assert float(best.keep(n)) >= kept - 1e-12


@pytest.mark.parametrize("delta", ["1e-20", "1e-28", "1e-30", "1e-100"])
def test_small_deltas_work_or_are_refused_by_name(delta):
    try:
        kept = OptimalSelection(epsilon=1, delta=delta, keys=1).keep(1)
    except InvalidParameter as error:
        assert error.name == "delta"
    else:
        assert 0 < kept <= F(delta)


# --- thresholds: (ε,δ) by enumeration ---------------------------------------------------------------------------------------


def noisy_law(count: int, threshold: int, pmf: np.ndarray, reach: int) -> np.ndarray:
    """The law of what is said about one key: dropped (entry 0), or its noisy count from the threshold upwards."""
    law = np.zeros(2 * reach)
    if count == 0:
        law[0] = 1
        return law
    for k, p in zip(range(-reach, reach + 1), pmf, strict=True):
        noisy = count + k
        law[0 if noisy < threshold else min(noisy - threshold + 1, 2 * reach - 1)] += p
    return law


def laplace_law(scale: float, reach: int) -> np.ndarray:
    k = np.abs(np.arange(-reach, reach + 1))
    law = np.tanh(0.5 / scale) * np.exp(-k / scale)
    return law / law.sum()


def gaussian_law(sigma: float, reach: int) -> np.ndarray:
    """A Gaussian rounded to whole numbers, from the side where probabilities are small."""
    upper = ndtr((0.5 - np.arange(reach + 2)) / sigma)  # P(X > k − 1/2)
    side = upper[:-1] - upper[1:]
    return np.concatenate([side[:0:-1], side])


def two_keys(kind_law, threshold: int, reach: int, counts: tuple[int, int]) -> np.ndarray:
    a, b = (noisy_law(count, threshold, kind_law, reach) for count in counts)
    return np.outer(a, b).ravel()


@pytest.mark.parametrize(("epsilon", "delta"), [("1", "1e-3"), ("0.5", "0.1"), ("2", "1e-6"), ("1", "0.9")])
def test_laplace_threshold_is_private_with_its_counts(epsilon, delta):
    mechanism = LaplaceThreshold(epsilon=epsilon, delta=delta, keys=1)
    reach = ceil(50 * float(mechanism.scale))
    pmf = laplace_law(float(mechanism.scale), reach)
    laws = [noisy_law(n, mechanism.threshold, pmf, reach) for n in range(mechanism.threshold + 3)]
    worst = [excess(p, q, float(F(epsilon))) for p, q in zip(laws, laws[1:], strict=False)]
    assert max(worst) <= float(F(delta)) * (1 + 1e-9)
    assert max(worst[1:]) <= 1e-12  # a key that others have too costs no δ
    assert mechanism.loss == Approximate(epsilon, delta)


@pytest.mark.parametrize(("epsilon", "delta"), [("1", "1e-2"), ("2", "1e-4")])
def test_laplace_threshold_protects_a_person_under_two_keys(epsilon, delta):
    mechanism = LaplaceThreshold(epsilon=epsilon, delta=delta, keys=2)
    reach = ceil(25 * float(mechanism.scale))
    pmf = laplace_law(float(mechanism.scale), reach)
    laws = {(a, b): two_keys(pmf, mechanism.threshold, reach, (a, b)) for a in (0, 1, 2, 9) for b in (0, 1, 2, 9, 10)}
    near = [
        ((0, 0), (1, 1)),
        ((0, 1), (1, 2)),
        ((1, 1), (2, 2)),
        ((0, 9), (1, 10)),
        ((1, 9), (2, 10)),
        ((0, 1), (1, 1)),
    ]
    worst = max(excess(laws[x], laws[y], float(F(epsilon))) for x, y in near)
    assert float(F(delta)) / 4 < worst <= float(F(delta)) * (1 + 1e-9)


@given(st.fractions(F(1, 20), 10, max_denominator=20), st.integers(1, 15), st.integers(1, 20))
def test_the_laplace_threshold_is_as_low_as_it_can_be(epsilon, power, keys):
    mechanism = LaplaceThreshold(epsilon=epsilon, delta=F(1, 10**power), keys=keys)
    with mpmath.workdps(60):
        q = mpmath.exp(-mpmath.mpf(epsilon.numerator) / epsilon.denominator / keys)

        def lone(threshold):
            """P(1 + noise ≥ threshold), threshold ≥ 1."""
            return q ** (threshold - 1) / (1 + q)

        limit = mpmath.mpf(1) / 10**power / keys
        assert lone(mechanism.threshold) <= limit
        assert mechanism.threshold == 2 or lone(mechanism.threshold - 1) > limit


@pytest.mark.parametrize("sigma", ["0.3", "1", "4", "30"])
@pytest.mark.parametrize("delta", ["0.6", "1e-2", "1e-6", "1e-12"])
@pytest.mark.parametrize("keys", [1, 4])
def test_a_lone_key_passes_the_gaussian_threshold_with_at_most_its_delta(sigma, delta, keys):
    mechanism = GaussianThreshold(sigma=sigma, delta=delta, keys=keys)
    reach = ceil(12 * float(F(sigma))) + 5
    pmf = gaussian_law(float(F(sigma)), reach)

    def lone(threshold):
        return pmf[reach + threshold - 1 :].sum()

    assert lone(mechanism.threshold) <= float(F(delta)) / keys
    assert mechanism.threshold == 2 or lone(mechanism.threshold - 1) > float(F(delta)) / keys * (1 - 1e-9)


def test_gaussian_threshold_is_private_with_its_counts():
    """δ(ε) of the whole release is at most that of the noise alone plus the δ of the keys."""
    mechanism = GaussianThreshold(sigma=2, delta="1e-3", keys=2)
    reach = 26
    pmf = gaussian_law(2.0, reach)
    wide = np.outer(pmf, pmf)
    laws = {(a, b): two_keys(pmf, mechanism.threshold, reach, (a, b)) for a in (0, 1, 5) for b in (0, 1, 2, 5, 6)}
    for epsilon in (0.5, 1.0, 2.0, 3.0):
        noise_alone = excess(wide[1:, 1:].ravel(), wide[:-1, :-1].ravel(), epsilon)
        for x, y in [((0, 0), (1, 1)), ((0, 5), (1, 6)), ((0, 1), (1, 2)), ((0, 1), (0, 2))]:
            assert excess(laws[x], laws[y], epsilon) <= noise_alone + 1e-3
    noise, keys = mechanism.loss.losses
    assert keys == Approximate(0, "1e-3")
    assert isinstance(noise, GaussianNoise)
    assert 0 <= F(2) - noise.multiplier**2 <= F(1, 10**15)  # σ/√keys, rounded down


@given(st.fractions(F(1, 20), 10, max_denominator=20), st.integers(1, 5), st.integers(1, 12))
def test_the_interval_of_a_laplace_count_is_the_least_that_covers(epsilon, keys, power):
    mechanism = LaplaceThreshold(epsilon=epsilon, delta="1e-3", keys=keys)
    width = mechanism.interval(1 - F(1, 10**power))
    with mpmath.workdps(50):
        q = mpmath.exp(-mpmath.mpf(epsilon.numerator) / epsilon.denominator / keys)
        limit = mpmath.mpf(10) ** -power
        assert 2 * q ** (width + 1) / (1 + q) <= limit
        assert width == 0 or 2 * q**width / (1 + q) > limit


def test_the_interval_of_optimal_selection_is_the_least_count_kept_so_often():
    mechanism = OptimalSelection(epsilon="0.3", delta="1e-4", keys=1)
    for confidence in ("0.01", "0.5", "0.9", "0.999"):
        least = mechanism.interval(confidence)
        assert mechanism.keep(least) >= F(confidence) > mechanism.keep(least - 1)


# --- what is released ---------------------------------------------------------------------------------------------------------


@selectors
def test_absent_keys_are_never_named_and_large_ones_always(mechanism):
    counts = np.array([0, 10**6] * 200)
    released = mechanism.release(counts, entropy=DeterministicEntropy(1))
    kept = released if isinstance(mechanism, OptimalSelection) else released[0]
    assert kept.dtype == np.bool_
    assert (kept == (counts > 0)).all()


@pytest.mark.parametrize(
    "mechanism", [LaplaceThreshold(epsilon="0.1", delta="0.4", keys=1), GaussianThreshold(sigma=9, delta="0.4", keys=1)]
)
def test_absent_keys_are_never_named_however_much_noise_there_is(mechanism):
    kept, noisy = mechanism.release(np.zeros(1000, np.int64), entropy=DeterministicEntropy(1))
    assert not kept.any()
    assert not noisy.any()
    assert mechanism.release(np.ones(1000, np.int64), entropy=DeterministicEntropy(1))[0].sum() > 200


@pytest.mark.parametrize("mechanism", SELECTORS[1:], ids=lambda m: type(m).__name__)
def test_counts_come_only_with_kept_keys_and_reach_the_threshold(mechanism):
    counts = np.arange(40).repeat(20)
    kept, noisy = mechanism.release(counts, entropy=DeterministicEntropy(1))
    assert noisy.dtype == np.int64
    assert (noisy[~kept] == 0).all()
    assert (noisy[kept] >= mechanism.threshold).all()
    assert 0 < kept.sum() < kept.size
    assert np.abs(noisy[kept] - counts[kept]).max() > 0


@selectors
@pytest.mark.parametrize("nothing", [[], (), np.array([], np.int64)], ids=stable)
def test_data_without_keys_is_data_too(mechanism, nothing):
    """The neighbor of "one key, one person": refusing it would tell them apart."""
    released = mechanism.release(nothing)
    parts = [released] if isinstance(mechanism, OptimalSelection) else released
    assert all(part.shape == (0,) for part in parts)


# --- what is refused ------------------------------------------------------------------------------------------------------------

NOT_POSITIVE = [0, -1, float("nan"), float("inf"), "x", None, True, [1]]
KINDS = [
    (OptimalSelection, {"epsilon": 1, "delta": "1e-3", "keys": 1}),
    (LaplaceThreshold, {"epsilon": 1, "delta": "1e-3", "keys": 1}),
    (GaussianThreshold, {"sigma": 1, "delta": "1e-3", "keys": 1}),
]
BAD = {
    "epsilon": NOT_POSITIVE,
    "sigma": NOT_POSITIVE,
    "delta": [*NOT_POSITIVE, 1, 1.5],
    "keys": [0, -1, 1.5, "1", None, True],
}


@pytest.mark.parametrize(
    ("kind", "good", "name", "bad"), [(k, g, name, bad) for k, g in KINDS for name in g for bad in BAD[name]]
)
def test_bad_parameters_are_refused(kind, good, name, bad):
    with pytest.raises(InvalidParameter, match=name):
        kind(**{**good, name: bad})


@selectors
@pytest.mark.parametrize(
    "counts", [[-1], [1.0], [[1, 2]], [[1], [1, 2]], None, "12", [True], [None], [float("nan")], [2**62], object()], ids=stable
)  # fmt: skip
def test_bad_counts_are_refused(mechanism, counts):
    with pytest.raises(InvalidData):
        mechanism.release(counts)


@pytest.mark.parametrize("bad", [-1, 1.5, None, True, "3"], ids=stable)
def test_bad_questions_to_optimal_selection_are_refused(bad):
    mechanism = SELECTORS[0]
    with pytest.raises(InvalidParameter, match="units"):
        mechanism.keep(bad)
    with pytest.raises(InvalidParameter, match="most"):
        mechanism.channel(bad)


def test_an_epsilon_too_small_for_a_table_is_refused_at_once_and_by_name():
    with pytest.raises(InvalidParameter, match="epsilon"):
        OptimalSelection(epsilon="1e-9", delta="1e-9", keys=1)
    with pytest.raises(InvalidParameter, match="epsilon"):
        OptimalSelection(epsilon=1, delta="1e-9", keys=10**9)


@pytest.mark.parametrize("keys", [1, 10**9, 10**30])
def test_a_threshold_exists_or_is_refused_when_made(keys):
    made = []
    for make in (partial(LaplaceThreshold, epsilon=1), partial(GaussianThreshold, sigma=1)):
        with suppress(InvalidParameter):
            made.append(make(delta="1e-300", keys=keys))
    assert all(mechanism.threshold >= 2 for mechanism in made)


def test_a_loss_can_be_stated_for_any_sigma_that_is_accepted():
    made = []
    with suppress(InvalidParameter):
        made.append(GaussianThreshold(sigma="1." + "123456789" * 70, delta="1e-3", keys=2))
    assert [type(mechanism.loss) for mechanism in made] == [Together]


@selectors
def test_selections_say_which_neighbors_they_are_for(mechanism):
    assert mechanism.neighbors is Neighbors.ADD_OR_REMOVE_ONE
    assert type(mechanism).neighbors is Neighbors.ADD_OR_REMOVE_ONE
    with pytest.raises(TypeError):
        type(mechanism)(**{f.name: getattr(mechanism, f.name) for f in fields(mechanism)}, neighbors="change one")


def test_a_selection_for_change_one_costs_what_the_module_says():
    """A unit that leaves one key for another: (ε/2, δ/(1 + e^(ε/2))) is (ε,δ)-DP for both keys together, and no less."""
    epsilon, delta = F(2), F(1, 100)
    share = delta / (1 + growth(epsilon / 2) + F(1, 10**9))
    one = OptimalSelection(epsilon=epsilon / 2, delta=share, keys=1).channel(6)
    both = one.product(one)
    moves = [((a, b), (a + 1, b - 1)) for a in range(6) for b in range(1, 7)]
    assert both.delta(epsilon, moves) <= float(delta)
    careless = OptimalSelection(epsilon=epsilon, delta=delta, keys=1).channel(6)
    assert careless.product(careless).delta(epsilon, moves) > float(delta)


def test_more_noise_means_a_higher_threshold():
    low, high = (LaplaceThreshold(epsilon=e, delta="1e-5", keys=1).threshold for e in (2, "0.5"))
    assert low < high
    assert floor(log(1e5) * 0.5) <= low
