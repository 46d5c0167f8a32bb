"""Sums, means and histograms: their sensitivity by enumeration, their exactness, their noise, and what they refuse."""

from fractions import Fraction
from itertools import combinations_with_replacement, product
from math import exp, inf, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr
from tests.conftest import stable
from tests.statistical.power import WRONG, Stream, assert_follows, assert_rejected

from discreet.errors import InvalidData, InvalidParameter
from discreet.mechanisms import Geometric, Histogram, Mean, Range, RoundedGaussian, Sum
from discreet.noise import DeterministicEntropy
from discreet.privacy.loss import GaussianNoise, Pure
from discreet.privacy.unit import Neighbors

F = Fraction
ADD, CHANGE = Neighbors.ADD_OR_REMOVE_ONE, Neighbors.CHANGE_ONE
relations = pytest.mark.parametrize("relation", [ADD, CHANGE], ids=str)
costs = pytest.mark.parametrize("cost", [{"epsilon": "1/2"}, {"rho": "1/8"}], ids=str)

RANGES = [(-2, 3), (0, 2), (1, 4), (-5, -3)]
VALUES = [-9.0, -2.4, 0.5, 2.5, 9.0]


@pytest.fixture
def exact(monkeypatch):
    """The whole numbers to which a mechanism adds noise, and the noise: `exact(mechanism, values)`."""
    seen: list = []
    for kind in (Geometric, RoundedGaussian):

        def release(self, value, /, *, entropy=None):
            seen.append((self, np.array(value)))
            return np.array(value)

        monkeypatch.setattr(kind, "release", release)

    def run(mechanism, values):
        mechanism.release(values)
        return seen.pop()

    return run


def neighbors(relation: Neighbors, domain: list, most: int):
    """All neighboring datasets of at most so many records, as tuples."""
    for size in range(most + 1):
        for data in combinations_with_replacement(domain, size):
            if relation is ADD:
                yield from ((data, (*data, record)) for record in domain)
            elif size:
                yield from ((data, (*data[:-1], record)) for record in domain)


def stated(noise: Geometric | RoundedGaussian) -> tuple[int, float]:
    """The norm (1 or 2) and the most that its guarantee allows one unit to move, in that norm, to the power of it."""
    return (1, noise.sensitivity) if isinstance(noise, Geometric) else (2, noise.squared_sensitivity)


def largest(exact, make, pairs) -> tuple[Fraction, float]:
    """The largest change of what noise is added to, and what the noise allows."""
    worst, allowed = 0, None
    for a, b in pairs:
        (noise, x), (_, y) = exact(make(len(a)), a), exact(make(len(b)), b)
        norm, allowed = stated(noise)
        worst = max(worst, int((np.abs(x - y) ** norm).sum()))
    return worst, allowed


# --- sensitivity, by trying all neighbors --------------------------------------------------------------------------


@pytest.mark.quick_cases(15)
@relations
@costs
@pytest.mark.parametrize(("low", "high"), RANGES)
@pytest.mark.parametrize("dimension", [1, 2])
def test_the_sensitivity_of_a_sum_is_what_neighbors_reach(exact, relation, cost, low, high, dimension):
    within = Range(lower=low, upper=high, granularity=1)
    domain = VALUES if dimension == 1 else [list(pair) for pair in product((-9.0, 0.5, 9.0), repeat=2)]
    make = lambda _: Sum(within=within, neighbors=relation, dimension=dimension, **cost)  # noqa: E731
    worst, allowed = largest(exact, make, neighbors(relation, domain, 2))
    assert worst == allowed


@relations
@costs
@pytest.mark.parametrize(("low", "high"), RANGES[:2])
@pytest.mark.parametrize("dimension", [1, 2])
def test_the_sensitivity_of_a_mean_is_what_neighbors_reach(exact, relation, cost, low, high, dimension):
    within = Range(lower=low, upper=high, granularity=1)
    domain = VALUES if dimension == 1 else [list(pair) for pair in product((-9.0, 0.5, 9.0), repeat=2)]

    def make(size):
        return Mean(
            within=within, neighbors=relation, dimension=dimension, size=size if relation is CHANGE else None, **cost
        )

    worst, allowed = largest(exact, make, neighbors(relation, domain, 2))
    assert worst == allowed


@relations
@costs
def test_the_sensitivity_of_a_histogram_is_what_neighbors_reach(exact, relation, cost):
    make = lambda _: Histogram(categories=["a", "b", "c"], neighbors=relation, **cost)  # noqa: E731
    worst, allowed = largest(exact, make, neighbors(relation, ["a", "b", "c"], 3))
    assert worst == allowed == (2 if relation is CHANGE else 1)


@pytest.mark.parametrize("epsilon", ["0.3", "2"])
@relations
def test_the_likelihood_ratio_of_a_histogram_reaches_epsilon_and_not_more(exact, epsilon, relation):
    """The exact law of two noisy counts, for all neighbors of up to three records and all answers near them."""
    mechanism = Histogram(epsilon=epsilon, categories=["a", "b"], neighbors=relation)
    worst = 0.0
    for x, y in neighbors(relation, ["a", "b"], 3):
        (noise, a), (_, b) = exact(mechanism, list(x)), exact(mechanism, list(y))
        for z in product(range(-3, 7), repeat=2):
            p, q = (noise.probability(z[0] - int(c[0])) * noise.probability(z[1] - int(c[1])) for c in (a, b))
            worst = max(worst, abs(np.log(p / q)))
    assert worst == pytest.approx(float(F(epsilon)), rel=1e-9)


# --- costs ------------------------------------------------------------------------------------------------------------


@relations
def test_costs_are_those_stated(relation):
    within, size = Range(lower=0, upper=10, granularity=1), 5 if relation is CHANGE else None
    for kind, rest in [
        (Sum, {"within": within}), (Mean, {"within": within, "size": size}), (Histogram, {"categories": ["a"]})
    ]:  # fmt: skip
        assert kind(epsilon="0.3", neighbors=relation, **rest).loss == Pure("0.3")
        loss = kind(rho="0.3", neighbors=relation, **rest).loss
        assert isinstance(loss, GaussianNoise)
        assert F("0.3") * (1 - F(1, 10**9)) <= 1 / (2 * loss.multiplier**2) <= F("0.3")


# --- exact ------------------------------------------------------------------------------------------------------------


@given(st.lists(st.floats(-1e9, 1e9), max_size=30), st.sampled_from(["1", "0.1", "1/1024"]))
def test_sums_are_exact_and_in_any_order(values, granularity):
    """Floats added in another order give other sums, by which a person could be seen (Casacuberta et al. 2022)."""
    mechanism = Sum(epsilon=1, within=Range(lower=-1000, upper=1000, granularity=granularity), neighbors=ADD)
    released = {mechanism.release(order, entropy=DeterministicEntropy(1)) for order in (values, values[::-1])}
    assert len(released) == 1
    step = F(granularity)
    total = sum(min(max((F(x) / step + F(1, 2)) // 1, -1000 / step), 1000 / step) for x in values)
    nothing = mechanism.release([], entropy=DeterministicEntropy(1))
    assert round(F(released.pop()) / step) - round(F(nothing) / step) == total


def test_sums_beyond_64_bits_are_held_and_do_not_turn_around():
    wide = Range(lower=-(2**51), upper=2**51, granularity=1)
    for sign in (1, -1):
        released = Sum(epsilon=1, within=wide, neighbors=ADD).release(np.full(2**13, sign * 2.0**61))
        assert released * sign == pytest.approx(2.0**62, rel=0.05)


def test_a_mean_of_the_range_ends_is_at_the_ends():
    within = Range(lower=-10, upper=30, granularity="1/8")
    for relation, size in ((CHANGE, 5000), (ADD, None)):
        mechanism = Mean(epsilon=1, within=within, neighbors=relation, size=size)
        for value, end in ((-99.0, -10), (99.0, 30)):
            released = mechanism.release(np.full(5000, value))
            assert -10 <= released <= 30
            assert released == pytest.approx(end, abs=0.2)


def test_a_mean_of_nothing_is_a_point_of_the_range():
    within = Range(lower=5, upper=7, granularity=1)
    released = {Mean(epsilon=5, within=within, neighbors=ADD).release([]) for _ in range(200)}
    assert all(5 <= value <= 7 for value in released)
    assert 6.0 in released  # both sums at or below zero: the middle


@pytest.mark.parametrize("width", [1, 3, 10])
def test_the_error_of_a_private_mean_is_within_its_interval_for_all_noise_within_its_own(width, monkeypatch):
    """Pairs of noises up to `width` in size, every dataset of up to four records in {0, 1, 2, 3}."""
    mechanism = Mean(epsilon=1, within=Range(lower=0, upper=3, granularity=1), neighbors=ADD)
    noise: list = []
    monkeypatch.setattr(Geometric, "release", lambda self, value, /, *, entropy=None: value + np.array(noise)[:, None])
    monkeypatch.setattr(Geometric, "interval", lambda self, confidence: width)
    for size in range(1, 5):
        wide = mechanism.interval("0.9", records=size) - 0.5  # nothing is snapped here
        for data in combinations_with_replacement(range(4), size):
            for noise[:] in product(range(-width, width + 1, 1 if width < 10 else 2), repeat=2):
                assert abs(mechanism.release(data) - sum(data) / size) <= wide + 1e-12


# --- noise ------------------------------------------------------------------------------------------------------------


def laplace_cdf(scale: float):
    q = exp(-1 / scale)
    return lambda k: np.where(
        k < 0, np.exp(-np.maximum(-k, 0) / scale) / (1 + q), 1 - np.exp(-(np.maximum(k, 0) + 1) / scale) / (1 + q)
    )


def absolute(cdf):
    return lambda k: np.where(k < 0, 0.0, cdf(np.maximum(k, 0)) - cdf(-np.maximum(k, 0) - 1))


def gaussian_cdf(scale: float):
    return lambda k: ndtr((k + 0.5) / scale)


TEN = Range(lower=0, upper=10, granularity=1)
LAWS = [
    (Sum(epsilon=1, within=TEN, neighbors=ADD), [3.0, 4.0, 8.0], lambda r: r - 15, laplace_cdf, 10),
    (Sum(rho="1/2", within=TEN, neighbors=CHANGE), [3.0, 4.0, 8.0], lambda r: r - 15, gaussian_cdf, 10),
    (Mean(epsilon=1, within=TEN, neighbors=CHANGE, size=100), [5.0] * 100, lambda r: 100 * (r - 5), laplace_cdf, 10),
    (Mean(rho="1/2", within=TEN, neighbors=CHANGE, size=100), [5.0] * 100, lambda r: 100 * (r - 5), gaussian_cdf, 10),
]


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(("mechanism", "records", "read", "law", "scale"), LAWS, ids=lambda x: type(x).__name__)
def test_the_noise_has_the_scale_that_the_cost_asks_for(mechanism, records, read, law, scale):
    stream = Stream()
    released = np.array([mechanism.release(records, entropy=stream) for _ in range(6000)])
    draws = np.round(read(released)).astype(np.int64)
    assert_follows(draws, law(scale), "noise", stream)
    for wrong in (scale * WRONG, scale / WRONG):
        assert_rejected(np.abs(draws), absolute(law(scale)), absolute(law(wrong)), "wrong by 30 %", stream)


def test_the_noise_of_a_private_mean_has_the_scale_that_the_cost_asks_for():
    """Of n records at the lower end, A is noise alone, and B is n steps of 10 or nearly: the mean is max(0, a)/n."""
    stream, count = Stream(), 2000
    mechanism = Mean(epsilon=1, within=TEN, neighbors=ADD)
    released = np.array([mechanism.release(np.zeros(count), entropy=stream) for _ in range(12_000)])
    draws = np.round(released * count).astype(np.int64)  # A/(A + B) is A/B but for A²/B², and B is 20,000

    def law(scale):
        return lambda k: np.where(k < 0, 0.0, laplace_cdf(scale)(np.maximum(k, 0)))

    assert_follows(draws, law(10), "noise", stream)
    for wrong in (15, 10 / 1.5):  # half of the draws are 0, so 30 % would need many more
        assert_rejected(draws, law(10), law(wrong), "wrong by half", stream)


@pytest.mark.parametrize(
    ("cost", "law", "scale"), [({"epsilon": "1/5"}, laplace_cdf, 10), ({"rho": "1/100"}, gaussian_cdf, 10)]
)
def test_the_noise_of_a_histogram_has_the_scale_that_the_cost_asks_for(cost, law, scale):
    stream = Stream()
    mechanism = Histogram(categories=range(20_000), neighbors=CHANGE, **cost)
    draws = mechanism.release([7] * 5, entropy=stream)
    draws[7] -= 5
    assert_follows(draws, law(scale), "histogram", stream)
    for wrong in (scale * WRONG, scale / WRONG):
        assert_rejected(np.abs(draws), absolute(law(scale)), absolute(law(wrong)), "wrong by 30 %", stream)


def test_counts_are_those_of_the_categories():
    mechanism = Histogram(epsilon=1000, categories=["x", 3, None, (1, 2), True], neighbors=ADD)
    assert mechanism.release(["x", None, "x", (1, 2), 3, 3, 1]).tolist() == [2, 2, 1, 1, 1]
    assert mechanism.release([]).tolist() == [0] * 5


# --- what is refused -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [[nan], [1.0, inf], ["x"], [None], 5.0, [[1.0, 2.0]], "12", [True]], ids=stable)
def test_what_is_no_list_of_numbers_is_refused(bad):
    for mechanism in (Sum(epsilon=1, within=TEN, neighbors=ADD), Mean(epsilon=1, within=TEN, neighbors=ADD)):
        with pytest.raises(InvalidData):
            mechanism.release(bad)


def test_nan_is_refused_by_position():
    with pytest.raises(InvalidData, match=r"position 2.*remove or clamp"):
        Mean(epsilon=1, within=TEN, neighbors=ADD).release([1.0, 2.0, nan])


@pytest.mark.parametrize("bad", [[1.0, 2.0], [[1.0], [2.0]], [[1.0, 2.0, 3.0]], 1.0], ids=stable)
def test_rows_of_another_length_are_refused(bad):
    with pytest.raises(InvalidData):
        Sum(epsilon=1, within=TEN, neighbors=ADD, dimension=2).release(bad)


def test_another_number_of_records_than_stated_is_refused_without_telling_it():
    with pytest.raises(InvalidData, match="expected 3 records") as caught:
        Mean(epsilon=1, within=TEN, neighbors=CHANGE, size=3).release([1.0] * 7)
    assert "7" not in str(caught.value)


def test_a_size_goes_with_its_relation():
    with pytest.raises(InvalidParameter, match="size"):
        Mean(epsilon=1, within=TEN, neighbors=CHANGE)
    with pytest.raises(InvalidParameter, match="size"):
        Mean(epsilon=1, within=TEN, neighbors=ADD, size=10)
    with pytest.raises(InvalidParameter, match="records"):
        Mean(epsilon=1, within=TEN, neighbors=ADD).interval("0.9")
    with pytest.raises(InvalidParameter, match="records"):
        Mean(epsilon=1, within=TEN, neighbors=CHANGE, size=5).interval("0.9", records=5)


@pytest.mark.parametrize(
    "within", [(0, 10), None, Range(lower=3, upper=3, granularity=1), Range(lower="0.5", upper="3.5", granularity=1)], ids=stable
)  # fmt: skip
def test_ranges_of_one_point_or_off_the_grid_are_refused(within):
    for kind in (Sum, Mean):
        with pytest.raises(InvalidParameter, match="within"):
            kind(epsilon=1, within=within, neighbors=ADD)


@pytest.mark.parametrize("bad", [[], ["a", "a"], [1, True], [nan], "abc", 3, [["a"]]], ids=stable)
def test_bad_categories_are_refused(bad):
    with pytest.raises(InvalidParameter, match="categories"):
        Histogram(epsilon=1, categories=bad, neighbors=ADD)


@pytest.mark.parametrize("kind", [Sum, Mean])
def test_noise_that_does_not_fit_64_bits_is_refused_when_the_mechanism_is_made(kind):
    with pytest.raises(InvalidParameter):
        kind(epsilon="1e-9", within=Range(lower=0, upper=10**9, granularity="1/1000"), neighbors=ADD)
