"""Randomized response, binary and k-ary: exact channels, exact coverage, every answer possible."""

from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom
from tests.conftest import stable

from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import exp_bounds, log_bounds
from discreet.mechanisms import KRR, RandomizedResponse
from discreet.noise import DeterministicEntropy
from discreet.privacy.loss import Pure

F = Fraction
BITS = 256
epsilons = st.fractions(F(1, 1000), 40, max_denominator=1000)


def at_most_growth(ratio: Fraction, epsilon: Fraction) -> bool:
    """ratio ≤ e^ε, decided in integers: against the lower end of the enclosure of e^ε."""
    return ratio * (1 << BITS) <= exp_bounds(epsilon, BITS)[0]


# --- privacy, in rationals -------------------------------------------------------------------------------------


@given(epsilons)
def test_for_epsilon_is_never_above_epsilon_and_as_good_as_at_it(epsilon):
    mechanism = RandomizedResponse.for_epsilon(epsilon=epsilon)
    ratio = mechanism.channel().ratio("all")
    assert isinstance(ratio, Fraction)
    assert ratio == mechanism.truth / (1 - mechanism.truth)
    assert at_most_growth(ratio, epsilon)
    assert not at_most_growth(ratio * (1 + F(1, 2**60)), epsilon)
    assert mechanism.loss == Pure(epsilon)
    assert mechanism.channel().epsilon("all") <= np.nextafter(float(epsilon), np.inf)


@given(st.fractions(F(1, 2), F(999, 1000), max_denominator=10**6))
def test_a_stated_truth_costs_no_less_than_its_logarithm(truth):
    mechanism = RandomizedResponse(truth=truth)
    assert at_most_growth(truth / (1 - truth), mechanism.epsilon) or truth == F(1, 2)
    assert mechanism.epsilon == 0 if truth == F(1, 2) else mechanism.epsilon > 0
    assert float(mechanism.epsilon) == pytest.approx(np.log(float(truth / (1 - truth))), abs=1e-12)


@pytest.mark.parametrize("truth", [F(3, 4), F(2, 3), F(9, 10), F(999, 1000)], ids=str)
def test_an_epsilon_stated_below_the_truth_is_refused_however_little_it_is_below(truth):
    low, high = log_bounds(truth / (1 - truth), 96)
    for stated in (0, F(low, 1 << 96) - F(1, 1 << 90), F(low, 1 << 96)):
        with pytest.raises(InvalidParameter, match="epsilon"):
            RandomizedResponse(truth=truth, epsilon=stated)
    for stated in (F(high, 1 << 96), F(high, 1 << 96) + 1):
        assert RandomizedResponse(truth=truth, epsilon=stated).loss == Pure(stated)


@given(epsilons, st.integers(2, 12))
def test_k_ary_response_is_never_above_epsilon_and_as_good_as_at_it(epsilon, size):
    mechanism = KRR(epsilon=epsilon, size=size)
    channel = mechanism.channel()
    assert channel.exact
    assert all(sum(row) == 1 for row in channel.matrix)
    ratio = channel.ratio("all")
    assert at_most_growth(ratio, epsilon)
    assert not at_most_growth(ratio * (1 + F(1, 2**60)), epsilon)
    assert {mechanism.truth, mechanism.other} == set(channel.matrix.flat)
    assert channel.probability(0, 0) == mechanism.truth
    assert mechanism.loss == Pure(epsilon)


def test_two_answers_are_randomized_response():
    two, bit = KRR(epsilon=1, size=2), RandomizedResponse.for_epsilon(epsilon=1)
    assert abs(two.truth - bit.truth) < F(1, 2**90)
    assert [two.channel().matrix.shape, bit.channel().matrix.shape] == [(2, 2), (2, 2)]


# --- what is released ------------------------------------------------------------------------------------------


def test_bits_give_bits_and_arrays_give_arrays():
    mechanism = RandomizedResponse(truth="3/4")
    assert type(mechanism.release(True)) is bool
    assert type(mechanism.release(0)) is bool
    released = mechanism.release(np.array([[True, False], [True, True]]))
    assert released.dtype == np.bool_
    assert released.shape == (2, 2)


def test_answers_give_answers_in_range():
    mechanism = KRR(epsilon="0.1", size=5)
    assert type(mechanism.release(3)) is int
    released = mechanism.release(np.array([0, 4] * 500), entropy=DeterministicEntropy(3))
    assert released.dtype == np.int64
    assert set(released.tolist()) == {0, 1, 2, 3, 4}


@pytest.mark.parametrize("answer", range(4))
def test_a_lie_can_be_any_other_answer_and_never_the_truth(answer):
    """With truth → 0 nothing but lies would come: at ε → 0 all k answers appear, whatever the truth."""
    released = KRR(epsilon="1e-9", size=4).release(np.full(400, answer), entropy=DeterministicEntropy(answer))
    counts = np.bincount(released, minlength=4)
    assert counts.min() > 50


def test_certain_truth_comes_out_unchanged():
    values = np.arange(10)
    assert KRR(epsilon=60, size=10).release(values).tolist() == values.tolist()
    assert RandomizedResponse.for_epsilon(epsilon=60).release(values % 2).tolist() == (values % 2 == 1).tolist()


@pytest.mark.parametrize("size", [2**62 + 1, 2**63 - 1, 2**63, 2**64, 2**70])
def test_sizes_that_do_not_fit_64_bit_arithmetic_are_refused(size):
    """(answer + shift) mod size must not wrap: two answers would never be given."""
    with pytest.raises(InvalidParameter, match="size"):
        KRR(epsilon=1, size=size)


def test_the_largest_size_allowed_stays_in_range():
    size = 2**31
    released = KRR(epsilon="0.01", size=size).release(np.full(1000, size - 1), entropy=DeterministicEntropy(1))
    assert released.min() >= 0
    assert released.max() < size
    assert np.abs(released / size - 0.5).mean() == pytest.approx(0.25, abs=0.05)  # uniform over the whole range


# --- intervals: exact coverage --------------------------------------------------------------------------------


def coverage(reports: int, ones: int, high: float, low: float, width: float) -> float:
    """P(|estimated share − true share| ≤ width), with `ones` of the reports true: two binomials, convolved."""
    yes = np.convolve(binom.pmf(range(ones + 1), ones, high), binom.pmf(range(reports - ones + 1), reports - ones, low))
    estimates = (np.arange(reports + 1) / reports - low) / (high - low)
    return float(yes[np.abs(estimates - ones / reports) <= width + 1e-12].sum())


@pytest.mark.parametrize("reports", [1, 5, 60])
@pytest.mark.parametrize("confidence", ["0.5", "0.9", "0.99"])
def test_the_interval_of_the_estimated_share_covers(reports, confidence):
    for mechanism in (RandomizedResponse(truth="3/4"), KRR(epsilon=1, size=5)):
        high = float(mechanism.truth)
        low = 1 - high if isinstance(mechanism, RandomizedResponse) else float(mechanism.other)
        width = mechanism.interval(confidence, reports=reports)
        covered = min(coverage(reports, ones, high, low, width) for ones in range(reports + 1))
        assert covered >= float(F(confidence))


def test_the_interval_shrinks_as_one_over_the_root_of_the_reports():
    for mechanism in (RandomizedResponse(truth="3/4"), KRR(epsilon=1, size=5)):
        one, many = mechanism.interval("0.95"), mechanism.interval("0.95", reports=10_000)
        assert many == pytest.approx(one / 100)


def test_nothing_can_be_learned_from_fair_coins():
    assert RandomizedResponse(truth="1/2").interval("0.95") == float("inf")
    assert RandomizedResponse(truth="1/2").loss == Pure(0)


@pytest.mark.parametrize(
    "mechanism",
    [KRR(epsilon="1e-40", size=3), RandomizedResponse(truth=F(1, 2) + F(1, 10**400))],
    ids=["k-ary", "binary"],
)
def test_almost_nothing_can_be_learned_from_almost_fair_coins(mechanism):
    assert mechanism.interval("0.95") > 1e30


# --- what is refused -------------------------------------------------------------------------------------------

NOT_POSITIVE = [0, -1, float("nan"), float("inf"), "x", None, True, [1], 1j]


@pytest.mark.parametrize("bad", NOT_POSITIVE, ids=stable)
def test_bad_epsilons_are_refused(bad):
    with pytest.raises(InvalidParameter, match="epsilon"):
        RandomizedResponse.for_epsilon(epsilon=bad)
    with pytest.raises(InvalidParameter, match="epsilon"):
        KRR(epsilon=bad, size=3)


@pytest.mark.parametrize("bad", [0.4, "49/100", 1, 1.5, -1, 0, float("nan"), None, True, "x"], ids=stable)
def test_bad_truths_are_refused(bad):
    with pytest.raises(InvalidParameter, match="truth"):
        RandomizedResponse(truth=bad)


@pytest.mark.parametrize("name", ["heads", "keep", "gain"])
@pytest.mark.parametrize("bad", [1, -0.1, 2, float("nan"), None, True, "x"], ids=stable)
def test_bad_forms_are_refused(name, bad):
    form = {"heads": "from_coins", "keep": "from_keep", "gain": "from_gain"}[name]
    with pytest.raises(InvalidParameter, match=name):
        getattr(RandomizedResponse, form)(**{name: bad})


@pytest.mark.parametrize("bad", [1, 0, -3, 2.0, "2", None, True, float("nan")], ids=stable)
def test_bad_sizes_are_refused(bad):
    with pytest.raises(InvalidParameter, match="size"):
        KRR(epsilon=1, size=bad)


BAD_VALUES = [0.0, [0.0, 1.0], float("nan"), "1", None, [None], -1, [0, -1], [[1], [1, 0]], 1j, object(), 2**70, {}]


@pytest.mark.parametrize("value", [*BAD_VALUES, 2, [0, 2]], ids=stable)
def test_bad_bits_are_refused(value):
    with pytest.raises(InvalidData):
        RandomizedResponse(truth="3/4").release(value)


@pytest.mark.parametrize("value", [*BAD_VALUES, 5, [0, 5]], ids=stable)
def test_bad_answers_are_refused(value):
    with pytest.raises(InvalidData):
        KRR(epsilon=1, size=5).release(value)


@pytest.mark.parametrize("reports", [0, -1, 1.5, None, True], ids=stable)
def test_bad_numbers_of_reports_are_refused(reports):
    for mechanism in (RandomizedResponse(truth="3/4"), KRR(epsilon=1, size=5)):
        with pytest.raises(InvalidParameter, match="reports"):
            mechanism.interval("0.95", reports=reports)


@pytest.mark.parametrize("epsilon", ["1e-40", "1e-300", 100, 1000, 5000])
def test_extreme_epsilons_work_or_are_refused_by_name(epsilon):
    for make in (RandomizedResponse.for_epsilon, partial(KRR, size=3)):
        try:
            assert make(epsilon=epsilon).release(1) in (0, 1, 2)
        except InvalidParameter as error:
            assert error.name == "epsilon"


def test_no_answers_give_no_answers():
    assert KRR(epsilon=1, size=3).release(np.array([], np.int64)).shape == (0,)
    assert RandomizedResponse(truth="3/4").release(np.array([], np.bool_)).shape == (0,)
