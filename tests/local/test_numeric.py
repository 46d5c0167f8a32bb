"""Bounded means: exact channels, unbiasedness and variances in rationals, the samplers, coverage, bad input."""

import copy
import pickle
from fractions import Fraction
from math import exp, log, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.statistical.power import ALPHA, MANY, WRONG, Stream, assert_follows, assert_rejected

from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import exp_bounds
from discreet.local.oracles.numeric import Hybrid, Piecewise, StochasticRounding
from discreet.local.oracles.oracle import sift
from discreet.noise import DeterministicEntropy
from discreet.privacy.loss import Pure

F = Fraction
KINDS = [StochasticRounding, Piecewise, Hybrid]
kinds = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
epsilons = pytest.mark.parametrize("epsilon", ["1/10", "1/2", "1", "2", "5"])


def says(numeric, code):
    """What one report says of the mean, exactly as the estimator reads it."""
    return numeric.estimate(numeric.tally([code]), reports=1).value


# --- exactly, through the channel -------------------------------------------------------------------------------


@kinds
@epsilons
@pytest.mark.parametrize("steps", [1, 2, 7, 12])
def test_the_channel_has_the_stated_epsilon_and_no_less(kind, epsilon, steps):
    numeric = kind(epsilon=epsilon, lower=0, upper=1, steps=steps)
    channel = numeric.channel()
    assert channel.exact
    assert channel.ratio("all") * (1 << 256) <= exp_bounds(F(epsilon), 256)[0]
    assert float(F(epsilon)) - 1e-9 <= channel.epsilon("all") <= float(F(epsilon))
    assert numeric.loss == Pure(F(epsilon))


@kinds
@pytest.mark.parametrize("epsilon", ["1e-12", "1e-6", "30", "1000"])
def test_extreme_epsilons_are_private_too(kind, epsilon):
    numeric = kind(epsilon=epsilon, lower=-3, upper=8, steps=5)
    assert numeric.channel().ratio("all") * (1 << 4000) <= exp_bounds(F(epsilon), 4000)[0]
    assert numeric.valid(numeric.randomize([0, 8, -3])).all()


@kinds
@epsilons
@pytest.mark.parametrize(("lower", "upper", "steps"), [("-1", "1", 6), ("0", "24", 5), ("-7/3", "1/2", 1)])
def test_estimates_are_unbiased_and_have_the_stated_variance(kind, epsilon, lower, upper, steps):
    """Σ p(code|k)·says(code) = the grid point, Σ p·says² − point² = variance: for every place, no sampling."""
    numeric = kind(epsilon=epsilon, lower=lower, upper=upper, steps=steps)
    channel = numeric.channel()
    told = np.array([says(numeric, code) if numeric.valid([code])[0] else 0 for code in channel.outputs])
    assert not channel.matrix[:, ~numeric.valid(list(channel.outputs))].any()
    for place, row in zip(channel.inputs, channel.matrix.astype(float), strict=True):
        point = numeric.lower + numeric.step * place
        spread = numeric.variance(point)
        assert row @ told == pytest.approx(float(point), abs=1e-9 * (1 + sqrt(spread)))
        assert row @ (told - float(point)) ** 2 == pytest.approx(spread, rel=1e-9)


def test_piecewise_is_unbiased_in_rationals():
    numeric = Piecewise(epsilon=1, lower=0, upper=1, steps=9)
    shift, gain = numeric._affine
    for place, row in enumerate(numeric.channel().matrix):
        assert sum(p * code for code, p in enumerate(row)) == shift + gain * place


@epsilons
def test_variances_are_those_of_the_papers(epsilon):
    """On [−1, 1]: Duchi et al. 2018; Wang et al. 2019, Lemma 1 and section III.C, on a fine grid."""
    e, h = exp(float(F(epsilon))), exp(float(F(epsilon)) / 2)
    bit, wave, both = (kind(epsilon=epsilon, lower=-1, upper=1, steps=1 << 20) for kind in KINDS)
    alpha = 1 - 1 / h if F(epsilon) > F("0.61") else 0
    for x in ("0", "1/4", "1"):
        square = float(F(x)) ** 2
        duchi = ((e + 1) / (e - 1)) ** 2 - square
        piecewise = square / (h - 1) + (h + 3) / (3 * (h - 1) ** 2)
        assert bit.variance(x) == pytest.approx(duchi, rel=1e-6)
        assert wave.variance(x) == pytest.approx(piecewise, rel=1e-4)
        assert both.variance(x) == pytest.approx(alpha * piecewise + (1 - alpha) * duchi, rel=1e-4)


def test_the_hybrid_is_never_worse_at_worst():
    for epsilon in ("0.3", "0.7", "1", "1.29", "2", "4"):
        bit, wave, both = (kind(epsilon=epsilon, lower=-1, upper=1) for kind in KINDS)
        worst = [max(numeric.variance(x) for x in (-1, 0, 1)) for numeric in (bit, wave, both)]
        assert worst[2] <= min(worst[:2]) * 1.001


@settings(max_examples=60)
@given(st.fractions(min_value="1/20", max_value=8), st.integers(1, 14), st.sampled_from(KINDS))
def test_any_settings_are_private_and_proper(epsilon, steps, kind):
    numeric = kind(epsilon=epsilon, lower=0, upper=steps, steps=steps)
    channel = numeric.channel()
    assert channel.ratio("all") * (1 << 256) <= exp_bounds(F(epsilon), 256)[0]
    assert all(sum(row) == 1 for row in channel.matrix)


# --- the samplers -----------------------------------------------------------------------------------------------


def law(kind, growth, place, steps=5, window=2, alpha=0.632):
    """p(code | place) written down again, with e^ε as a parameter and the choices of ε = 2 held fixed."""
    t = growth / (1 + growth)
    bits = [1 - (1 - t) - place / steps * (2 * t - 1), (1 - t) + place / steps * (2 * t - 1)]
    outside = 1 / (steps + window * growth)
    codes = [growth * outside if place <= y < place + window else outside for y in range(steps + window)]
    if kind is Hybrid:
        return np.array([alpha * p for p in codes] + [(1 - alpha) * p for p in bits])
    return np.array(bits if kind is StochasticRounding else codes)


@kinds
@pytest.mark.parametrize("place", [0, 2, 5])
def test_reports_follow_the_law_and_at_the_ends_not_that_of_another_epsilon(kind, place):
    """Codes in the order of their probability, so that a wrong ε moves the distribution function; bits about a number
    in the middle hardly depend on ε."""
    stream, numeric = Stream(), kind(epsilon=2, lower=0, upper=5, steps=5)
    drawn = numeric.randomize(np.full(MANY, place), entropy=stream)
    truth = law(kind, exp(2), place)
    assert numeric.channel().matrix[place].astype(float) == pytest.approx(truth, abs=2e-4)
    order = np.argsort(-truth, kind="stable")
    ranked = np.argsort(order)[drawn]

    def cdf(p):
        ends = np.cumsum(p[order])
        return lambda x: np.where(x < 0, 0.0, ends[np.clip(x, 0, len(ends) - 1).astype(int)])

    assert_follows(ranked, cdf(truth), kind.__name__, stream)
    for wrong in (2 * WRONG, 2 / WRONG) if place != 2 else ():
        assert_rejected(ranked, cdf(truth), cdf(law(kind, exp(wrong), place)), kind.__name__, stream)


@kinds
def test_one_number_in_the_middle_gives_a_fair_bit_or_a_symmetric_code(kind):
    numeric, stream = kind(epsilon=1, lower=-1, upper=1, steps=2), Stream()
    told = [says(numeric, code) for code in numeric.channel().outputs]
    drawn = np.array(told)[numeric.randomize(np.zeros(MANY), entropy=stream)]
    reach = max(abs(t) for t in told)
    assert abs(drawn.mean()) <= reach * sqrt(2 * log(2 / ALPHA) / MANY), stream  # Hoeffding


@kinds
@pytest.mark.parametrize("epsilon", [1, 3])
def test_simulated_means_have_the_stated_variance(kind, epsilon):
    """800 means of 400 numbers: the mean square has a spread of 5 %, so 27 % off is a false alarm below 1e-6 (normal
    squares: √(2/800) = 0.05, 5.3 of them), and a variance wrong by twice that would be refused as surely."""
    numeric, stream = kind(epsilon=epsilon, lower=0, upper=10, steps=100), Stream()
    people, runs = np.linspace(0, 10, 400).round(1), 800
    reports = numeric.randomize(np.tile(people, runs), entropy=stream).reshape(runs, -1)
    told = np.array([numeric.estimate(numeric.tally(row), reports=400).value for row in reports])
    stated = np.mean([numeric.variance(float(x)) for x in people]) / 400
    assert 0.73 < ((told - people.mean()) ** 2).mean() / stated < 1.27, stream
    assert abs(told.mean() - people.mean()) < 5 * sqrt(stated / runs), stream


@kinds
def test_stated_variances_of_means_are_upper_bounds(kind):
    numeric, stream = kind(epsilon=1, lower=0, upper=10, steps=100), Stream()
    for people in (np.full(2000, 5.0), np.repeat([0.0, 10.0], 1000), np.linspace(0, 10, 2000).round(1)):
        mean = numeric.estimate(numeric.tally(numeric.randomize(people, entropy=stream)), reports=2000)
        true = np.mean([numeric.variance(float(x)) for x in np.unique(people)]) / 2000
        assert true * 0.97 <= mean.variance <= true * 2.5


@kinds
@pytest.mark.parametrize("reports", [20, 500])
def test_intervals_cover(kind, reports):
    """The limits are proven for any number of reports: misses above 20 % at 80 % confidence would be a defect;
    400 runs, P(more than 128 misses of 400 | 0.2) < 1e-8."""
    numeric, stream = kind(epsilon=1, lower=-5, upper=5, steps=64), Stream()
    people = np.linspace(-5, 2, reports)  # not on the grid: snapping must be covered as well
    missed = 0
    for _ in range(400):
        mean = numeric.estimate(numeric.tally(numeric.randomize(people, entropy=stream)), reports=reports)
        low, high = mean.interval("0.8")
        assert -5 <= low <= high <= 5
        missed += not low <= people.mean() <= high
    assert missed <= 128, stream
    assert mean.interval("0.5")[1] - mean.interval("0.5")[0] <= high - low


@kinds
def test_many_reports_give_narrow_intervals(kind):
    numeric, stream = kind(epsilon=1, lower=0, upper=1, steps=1024), Stream()
    mean = numeric.estimate(numeric.tally(numeric.randomize(np.full(MANY, 0.25), entropy=stream)), reports=MANY)
    low, high = mean.interval("0.999999")
    assert low <= 0.25 <= high, stream
    assert high - low < 0.15


@kinds
def test_tallies_add_up(kind):
    numeric, stream = kind(epsilon=2, lower=0, upper=1, steps=10), Stream()
    reports = numeric.randomize(np.linspace(0, 1, 300), entropy=stream)
    parts = numeric.tally(reports[:100]) + numeric.tally(reports[100:])
    assert parts.tolist() == numeric.tally(reports).tolist()
    assert parts.dtype == np.int64
    assert numeric.tally(reports[:0]).sum() == 0


# --- the grid ---------------------------------------------------------------------------------------------------


def test_numbers_are_snapped_and_held_at_the_bounds():
    numeric = Piecewise(epsilon=1, lower=-1, upper=1, steps=4)
    assert numeric.grid_indices([-1, -0.8, -0.7, 0, 0.3, 1, 7, -1e300, 1.7e308]).tolist() == [0, 0, 1, 2, 3, 4, 4, 0, 4]
    assert numeric.grid_indices(0.5).tolist() == [3]
    assert numeric.grid_indices(np.array([2**63], np.uint64)).tolist() == [4]
    assert numeric.grid_indices([]).tolist() == []


def test_snapping_moves_a_number_by_at_most_half_a_step():
    numeric = Piecewise(epsilon=1, lower="-2.5", upper=7, steps=1000)
    x = np.linspace(-2.5, 7, 7777)
    back = -2.5 + numeric.grid_indices(x) * float(numeric.step)
    assert np.abs(back - x).max() <= float(numeric.step) / 2 * (1 + 1e-9)


@kinds
@pytest.mark.parametrize(
    "values", [[float("nan")], [float("inf")], ["a"], [None], [True], [[1.0], [2.0]], [[1], [2, 3]]]
)
def test_bad_values_are_refused(kind, values):
    with pytest.raises(InvalidData, match="values"):
        kind(epsilon=1, lower=0, upper=1).randomize(values)


@kinds
@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": 0},
        {"epsilon": float("nan")},
        {"epsilon": 10**6},
        {"epsilon": True},
        {"lower": 1},
        {"upper": float("inf")},
        {"lower": "1e200", "upper": "1e201"},
        {"upper": "1e-200"},
        {"steps": 0},
        {"steps": 2.0},
        {"steps": 1 << 30},
    ],
)
def test_bad_settings_are_refused(kind, change):
    with pytest.raises(InvalidParameter):
        kind(**{"epsilon": 1, "lower": 0, "upper": 1, "steps": 8, **change})


@kinds
def test_malformed_reports_are_counted_not_crashing(kind):
    numeric = kind(epsilon=2, lower=0, upper=1, steps=4)
    rubbish = [0, 1, -1, numeric.codes, 0.5, float("nan"), float("inf"), None, "x", [1], 10**30, True]
    assert numeric.valid(rubbish).tolist() == [True, True] + [False] * 10
    kept, dropped = sift(numeric, rubbish)
    assert (kept.tolist(), dropped) == ([0, 1], 10)
    assert numeric.estimate(numeric.tally(kept), reports=2).reports == 2
    with pytest.raises(InvalidData, match="malformed"):
        numeric.tally([0, numeric.codes])


@kinds
def test_bad_tallies_are_refused(kind):
    numeric = kind(epsilon=2, lower=0, upper=1, steps=4)
    good = numeric.tally([0, 1, 1])
    for bad in (
        [1.5] * good.size,
        good[:-1],
        good * -1,
        good + np.eye(good.size, dtype=int)[0] * 10**6,
        "xx",
        [[1], [2, 3]],
    ):
        with pytest.raises((InvalidData, InvalidParameter)):
            numeric.estimate(bad, reports=3)
    for count in (0, 2, 4, -1, True, 2.0):
        with pytest.raises(InvalidParameter, match="reports"):
            numeric.estimate(good, reports=count)
    with pytest.raises(InvalidParameter, match="confidence"):
        numeric.estimate(good, reports=3).interval(1)


@kinds
def test_large_channels_are_refused_before_they_are_made(kind):
    with pytest.raises(InvalidParameter, match="channel"):
        kind(epsilon=1, lower=0, upper=1, steps=1 << 22).channel()


@kinds
def test_they_are_values(kind):
    numeric = kind(epsilon="1/3", lower=0, upper=1)
    assert pickle.loads(pickle.dumps(numeric)) == numeric == copy.deepcopy(numeric)
    assert hash(numeric) == hash(kind(epsilon=F(1, 3), lower="0", upper=1.0, steps=1024))
    assert numeric != kind(epsilon="1/4", lower=0, upper=1)
    assert numeric.variance("1/2") > 0


# --- liars ------------------------------------------------------------------------------------------------------


def extremes(numeric):
    """The valid codes that say least and most."""
    codes = [code for code in range(numeric.codes) if numeric.valid([code])[0]]
    return min(codes, key=lambda code: says(numeric, code)), max(codes, key=lambda code: says(numeric, code))


@kinds
@epsilons
@pytest.mark.parametrize("liars", [1, 30, 100])
def test_liars_reach_the_documented_bound(kind, epsilon, liars):
    """100 reports, all at one end; the liars among them turn to the other: β·influence, to the last digits."""
    numeric = kind(epsilon=epsilon, lower=-3, upper=8, steps=9)
    low, high = extremes(numeric)
    honest = numeric.estimate(numeric.tally([low] * 100), reports=100).value
    poisoned = numeric.estimate(numeric.tally([low] * (100 - liars) + [high] * liars), reports=100).value
    bound = liars / 100 * numeric.influence
    assert bound * (1 - 1e-9) <= poisoned - honest <= bound * (1 + 1e-12)


@settings(max_examples=60)
@given(st.data())
def test_liars_never_exceed_the_documented_bound(data):
    """Any honest reports, any lies, as replacements and as additions; in rationals up to the float of the result."""
    kind = data.draw(st.sampled_from(KINDS))
    epsilon = data.draw(st.sampled_from(["1/10", "1/2", "61/100", "1", "4"]))
    numeric = kind(epsilon=epsilon, lower=data.draw(st.integers(-5, 0)), upper=7, steps=data.draw(st.integers(1, 12)))
    codes = st.integers(0, numeric.codes - 1).filter(lambda code: numeric.valid([code])[0])
    honest = data.draw(st.lists(codes, min_size=1, max_size=30))
    lies = data.draw(st.lists(codes, min_size=1, max_size=len(honest)))
    before = numeric.estimate(numeric.tally(honest), reports=len(honest)).value
    replaced = [*lies, *honest[len(lies) :]]
    after = numeric.estimate(numeric.tally(replaced), reports=len(honest)).value
    assert abs(after - before) <= len(lies) / len(honest) * numeric.influence * (1 + 1e-12) + 1e-12
    both = [*honest, *lies]
    added = numeric.estimate(numeric.tally(both), reports=len(both)).value
    assert abs(added - before) <= len(lies) / len(both) * numeric.influence * (1 + 1e-12) + 1e-12


def test_a_simulated_survey_with_liars_stays_within_the_bound_of_the_truth():
    """A tenth of 20,000 shout the largest code: off by no more than β·influence and the noise of the others (Bernstein)."""
    for kind in KINDS:
        numeric, count = kind(epsilon=1, lower=0, upper=1, steps=100), 20_000
        codes = numeric.randomize(np.full(count, 0.5), entropy=DeterministicEntropy(7))
        fair = numeric.estimate(numeric.tally(codes), reports=count)
        codes[: count // 10] = extremes(numeric)[1]
        lied = numeric.estimate(numeric.tally(codes), reports=count)
        low, high = fair.interval(1 - F(1, 10**6))
        noise = high - low
        assert noise < lied.value - 0.5 <= numeric.influence / 10 + noise
        assert abs(lied.value - fair.value) <= numeric.influence / 10


@pytest.mark.parametrize("epsilon", ["1/10", "61/100"])
def test_codes_that_no_device_sends_are_not_counted(epsilon):
    """Up to ε = 0.61 the hybrid sends its bit alone; a piecewise code could lie nearly twice as loud."""
    numeric = Hybrid(epsilon=epsilon, lower=0, upper=1, steps=10)
    assert numeric.alpha == 0
    codes = list(range(-1, numeric.codes + 1))
    first = numeric.piecewise.codes
    assert [code for code, fine in zip(codes, numeric.valid(codes), strict=True) if fine] == [first, first + 1]
    assert numeric.influence == numeric.rounding.influence < numeric.piecewise.influence
    with pytest.raises(InvalidData, match="bits alone"):
        numeric.tally([0, first])
    with pytest.raises(InvalidData, match="no piecewise codes"):
        numeric.estimate([5, 2, 1, 1], reports=3)
