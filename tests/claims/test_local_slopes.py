"""B6 and A7 in the local model: what trusting nobody costs, and what noise does to two answers that would single out Don."""

from fractions import Fraction
from itertools import combinations
from math import exp, log, sqrt

import numpy as np
import pytest
from tests.statistical.power import Stream

from discreet.local import BinaryResponse
from discreet.local.oracles.metric import ExponentialResponse
from discreet.local.oracles.numeric import Hybrid, Piecewise, StochasticRounding
from discreet.mechanisms import Geometric, Laplace
from discreet.mechanisms.bayesian import posterior
from discreet.mechanisms.channel import Channel, deterministic

F = Fraction

# --- B6: the average of n bits ----------------------------------------------------------------------------------

SIZES = [100, 400, 1600, 6400, 25_600]
EPSILON = "0.5"


def slope(errors):
    return float(np.polyfit(np.log(SIZES), np.log(errors), 1)[0])


def bits(n):
    told = np.zeros(n, np.int64)
    told[: 3 * n // 10] = 1
    return told


def central_geometric(n, stream, epsilon=EPSILON, runs=600):
    count = np.full(runs, 3 * n // 10)
    noisy = Geometric(epsilon=epsilon, sensitivity=1).release(count, entropy=stream)
    return float(np.sqrt(((noisy - count) ** 2).mean())) / n


def central_laplace(n, stream, epsilon=EPSILON, runs=600):
    mechanism = Laplace(epsilon=epsilon, sensitivity=F(1, n), granularity=F(1, 64 * n))
    return float(np.sqrt(np.mean([(mechanism.release(0.3, entropy=stream) - 0.3) ** 2 for _ in range(runs)])))


def local_bits(n, stream, epsilon=EPSILON, runs=120):
    oracle, told = BinaryResponse(epsilon=epsilon), bits(n)
    found = [oracle.estimate(oracle.tally(oracle.randomize(told, entropy=stream)), reports=n) for _ in range(runs)]
    return float(np.sqrt(np.mean([(shares.shares[1] - 0.3) ** 2 for shares in found])))


def local_mean(kind):
    def error(n, stream, epsilon=EPSILON, runs=120):
        numeric, told = kind(epsilon=epsilon, lower=0, upper=1, steps=64), bits(n)
        found = [
            numeric.estimate(numeric.tally(numeric.randomize(told, entropy=stream)), reports=n) for _ in range(runs)
        ]
        return float(np.sqrt(np.mean([(mean.value - 0.3) ** 2 for mean in found])))

    return error


CENTRAL = [central_geometric, central_laplace]
LOCAL = [local_bits, local_mean(StochasticRounding), local_mean(Piecewise), local_mean(Hybrid)]


@pytest.mark.claim("B6")
@pytest.mark.parametrize("error", CENTRAL, ids=["geometric", "Laplace"])
def test_the_central_error_falls_as_one_over_n(error):
    """600 runs a point: a root mean square has a spread of 5 % (Laplace tails), a slope over 256-fold n one of 0.011."""
    stream = Stream()
    assert slope([error(n, stream) for n in SIZES]) == pytest.approx(-1, abs=0.08), stream


@pytest.mark.claim("B6")
@pytest.mark.parametrize("error", LOCAL, ids=["response", "rounding", "piecewise", "hybrid"])
def test_the_local_error_falls_as_one_over_root_n(error):
    """120 runs a point: a spread of 6.5 %, a slope over 256-fold n one of 0.015."""
    stream = Stream()
    assert slope([error(n, stream) for n in SIZES]) == pytest.approx(-0.5, abs=0.1), stream


@pytest.mark.claim("B6")
def test_both_errors_have_the_predicted_size_and_are_inverse_to_epsilon():
    """Central √2/(εn), local √(e^ε)/(e^ε−1)/√n ≈ 1/(ε√n); the local one is √(n/2) times worse."""
    stream, n = Stream(), 6400
    for epsilon in ("0.1", "0.5"):
        rate = float(F(epsilon))
        assert central_geometric(n, stream, epsilon, 2000) == pytest.approx(sqrt(2) / (rate * n), rel=0.2), stream
        stated = sqrt(exp(rate)) / (exp(rate) - 1) / sqrt(n)
        assert local_bits(n, stream, epsilon, 250) == pytest.approx(stated, rel=0.3), stream
        assert stated == pytest.approx(1 / (rate * sqrt(n)), rel=0.02)
    gap = local_bits(n, stream, EPSILON, 250) / central_geometric(n, stream, EPSILON, 2000)
    assert gap == pytest.approx(sqrt(n / 2), rel=0.4), stream


@pytest.mark.claim("B6")
def test_the_stated_deviations_have_the_slopes_exactly():
    central = [sqrt(Geometric(epsilon=EPSILON, sensitivity=1).variance) / n for n in SIZES]
    local = [sqrt(BinaryResponse(epsilon=EPSILON).variance(0.3) / n) for n in SIZES]
    assert slope(central) == pytest.approx(-1)
    assert slope(local) == pytest.approx(-0.5)


# --- A7: who has the disease? -----------------------------------------------------------------------------------

AGES = {"Alice": 30, "Bob": 30, "Carl": 40, "Don": 40, "Ellie": 50, "Frank": 50}
WEIGHTS = {"Alice": 60, "Bob": 90, "Carl": 90, "Don": 100, "Ellie": 60, "Frank": 100}
HALVING = F(2 * log(2))  # p(y|x) ∝ 2^−|x−y|: ε = 2 ln 2 a step


def noisy(answers):
    """The d-private exponential response on the line of possible answers."""
    line = sorted(set(answers))
    raw = ExponentialResponse(epsilon=HALVING, size=len(line)).channel()
    return Channel(raw.matrix.tolist(), inputs=line, outputs=line)


def both(patients, *, exact):
    """The channel from who has the disease to the two answers: minimal age, maximal weight of those who have it."""
    ages = deterministic(lambda who: min(AGES[name] for name in who), patients, sorted(set(AGES.values())))
    weights = deterministic(lambda who: max(WEIGHTS[name] for name in who), patients, sorted(set(WEIGHTS.values())))
    if exact:
        return ages.compose(weights)
    return ages.then(noisy(AGES.values())).compose(weights.then(noisy(WEIGHTS.values())))


ONE = [(name,) for name in AGES]
SOME = [who for size in range(1, 7) for who in combinations(AGES, size)]


@pytest.mark.claim("A7")
def test_the_noise_is_that_of_the_claim():
    assert noisy(AGES.values()).matrix[1].astype(float) == pytest.approx([1 / 4, 1 / 2, 1 / 4], abs=1e-12)
    assert noisy(WEIGHTS.values()).matrix[2].astype(float) == pytest.approx([1 / 7, 2 / 7, 4 / 7], abs=1e-12)


@pytest.mark.claim("A7")
def test_exact_answers_single_out_don():
    """A6: if one person has it, only Don is 40 and weighs 100."""
    after = posterior(both(ONE, exact=True), "uniform")
    assert after.probability((40, 100), ("Don",)) == 1


@pytest.mark.claim("A7")
def test_noisy_answers_leave_the_posterior_spread():
    """Bayes' rule by hand: p(40|age)·p(100|weight) for each person, divided by their sum."""
    after = posterior(both(ONE, exact=False), "uniform")
    by_hand = {
        "Alice": F(2, 7) * F(1, 7),
        "Bob": F(2, 7) * F(1, 4),
        "Carl": F(1, 2) * F(1, 4),
        "Don": F(1, 2) * F(4, 7),
        "Ellie": F(2, 7) * F(1, 7),
        "Frank": F(2, 7) * F(4, 7),
    }
    total = sum(by_hand.values())
    for name, weight in by_hand.items():
        assert float(after.probability((40, 100), (name,))) == pytest.approx(float(weight / total), abs=1e-12)
    don = float(after.probability((40, 100), ("Don",)))
    assert don == pytest.approx(0.393, abs=0.001)
    assert min(float(after.probability((40, 100), who)) for who in ONE) > 0.05


@pytest.mark.claim("A7")
@pytest.mark.parametrize(("patients", "most"), [(ONE, 0.5235), (SOME, 0.1466)], ids=["one patient", "any patients"])
def test_no_pair_of_answers_moves_anybody_beyond_the_bound(patients, most):
    """Whatever is answered, posterior odds of two cases differ from the prior ones by at most e^ε, ε that of the channel;
    exact answers have no such ε. The surest conclusion of all answers is (50, 60): Ellie alone, the only one of that age
    and weight, with probability 0.52 if there is one patient and 0.15 among all sets of patients; exactly it is 1."""
    channel = both(patients, exact=False)
    bound = exp(channel.epsilon("all"))
    assert bound <= exp(2 * 2 * float(HALVING)) * (1 + 1e-9)  # two answers, two steps each
    after = posterior(channel, "uniform").matrix.astype(float)
    assert (after.max(axis=1) / after.min(axis=1)).max() <= bound * (1 + 1e-9)
    assert after.max() == pytest.approx(most, abs=1e-4)
    assert posterior(both(patients, exact=True), "uniform").matrix.max() == 1
    assert both(patients, exact=True).epsilon("all") == float("inf")


@pytest.mark.claim("A7")
def test_the_chance_that_don_has_it_stays_uncertain():
    """Over all sets of patients, equally likely: he has it with 32/63 = 0.51 beforehand. The exact answers 40 and 100
    raise that to 4/5, noisy ones to 0.61."""

    def chance(channel):
        after = posterior(channel, "uniform")
        return float(sum(after.probability((40, 100), who) for who in SOME if "Don" in who))

    assert chance(both(SOME, exact=True)) == pytest.approx(4 / 5)
    assert chance(both(SOME, exact=False)) == pytest.approx(0.6114, abs=1e-4)
