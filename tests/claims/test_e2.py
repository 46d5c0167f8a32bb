"""E2–E4: the commuting map, of New York State and, where its data are absent, of a made-up state of like size."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from tests.real_data import FOLDER, needs
from tests.statistical.power import Stream, assert_follows, assert_rejected

from discreet.errors import NotAccepted
from discreet.noise import DeterministicEntropy
from discreet.privacy.accounting import guarantee
from discreet.synthetic.commuting import (
    Acceptance,
    Comparison,
    Flows,
    Places,
    Scheme,
    city,
    probabilistic_prior,
    pure_prior,
    synthesize,
)

FLOWS, CENTERS = "commuting/NY_commuting_flows_2011.csv", "commuting/ny_county_centroids.csv"


@pytest.fixture(scope="module")
def new_york():
    places = Places.read(str(FOLDER / CENTERS))
    return Flows.read(str(FOLDER / FLOWS), places, people="flow")


@pytest.fixture(scope="module", params=[1, 2])
def state(request):
    """Sixty counties in a square of 500 km, a few of them large; people who mostly work in their own or one nearby."""
    rng = np.random.default_rng(request.param)
    points, size = rng.uniform(0, 500, (60, 2)), rng.pareto(1.2, 60) + 0.2
    places = Places([f"county {i}" for i in range(60)], points)
    km = np.array([places.distances(i) for i in range(60)])
    expected = np.exp(-km / 12) * size[:, None] * size[None, :] ** 0.5
    flows = rng.poisson(2_000_000 * expected / expected.sum())
    origin, destination = np.nonzero(flows)
    return Flows(places, origin, destination, flows[origin, destination])


def missed(flows, **settings):
    made = synthesize(flows, Scheme(**settings), entropy=DeterministicEntropy(5))
    return Comparison(flows, made).missed_km


@pytest.mark.claim("E2")
def test_pure_privacy_needs_absurd_noise_and_probabilistic_does_not():
    assert 912 < pure_prior(10**6, epsilon=7) <= 913
    assert probabilistic_prior(10**6, 1000, epsilon=7, delta="1e-6") < Fraction(1, 10)


@pytest.mark.quick_cases(1)
@pytest.mark.claim("E2")
def test_a_prior_everywhere_drowns_the_map(state):
    """The urn: a pure promise misses mean commutes by far more than (ε,δ) does; noisy counts miss almost nothing."""
    urn = {"method": "dirichlet", "epsilon": 1}
    pure = missed(state, **urn)
    probabilistic = missed(state, **urn, promise="probabilistic", delta="1e-6")
    approximate = missed(state, **urn, promise="approximate", delta="1e-6")
    assert pure > 80
    assert approximate < probabilistic < pure / 2
    assert missed(state, epsilon=1) < approximate / 2


@pytest.mark.slow
@needs(FLOWS, CENTERS)
@pytest.mark.claim("E2")
def test_new_york_with_a_prior_everywhere(new_york):
    """The urn: a pure promise misses mean commutes by 200 km, (ε,δ) by a tenth of that; noisy counts by almost nothing."""
    urn = {"method": "dirichlet", "epsilon": 1}
    assert 190 < missed(new_york, **urn) < 215
    assert missed(new_york, **urn, promise="probabilistic", delta="1e-6") < 50
    assert missed(new_york, **urn, promise="approximate", delta="1e-6") < 30


@pytest.mark.claim("E4")
def test_mean_commutes_are_near_and_nearer_with_more_budget(state):
    assert missed(state, epsilon=1) <= 15
    assert missed(state, epsilon="4.6") <= 3
    assert missed(state, epsilon="0.05") > missed(state, epsilon="4.6")


@needs(FLOWS, CENTERS)
@pytest.mark.claim("E4")
def test_new_york_within_the_bars(new_york):
    assert missed(new_york, epsilon=1) <= 15
    assert missed(new_york, epsilon="4.6") <= 3


# E3. Two towns, six people who work in one of them; the outcome is how many of them live in town 0, or −1: none accepted.

WORKERS, HERE = 6, 4
SCHEME = Scheme(epsilon=4, accept=Acceptance(apart="1/6", stop="1/2"))


def two_towns(here):
    places = Places(["a", "b"], [[0.0, 0.0], [3.0, 4.0]])
    return Flows(places, [0, 1], [0, 0], [here, WORKERS - here])


def geometric(scale, reach):
    """P(noise = k) ∝ e^(−|k|/scale) for |k| ≤ reach."""
    weights = {k: math.exp(-abs(k) / scale) for k in range(-reach, reach + 1)}
    total = sum(weights.values())
    return {k: weight / total for k, weight in weights.items()}


def law(here, *, noisy=True):
    """The exact distribution of the outcome (Liu, Talwar 2019): candidates, a score for each, a random number of tries.

    A candidate is the true pair of counts plus geometric noise at half of ε less the score's tenth, brought back to the
    sum of six. With `noisy=False`, the score is compared without its noise: a broken build.
    """
    noise, score = geometric(2 / 1.8, 60), geometric(2 / 0.2, 400)
    candidate = dict.fromkeys(range(WORKERS + 1), 0.0)
    for (a, p), (b, q) in itertools.product(noise.items(), repeat=2):
        candidate[min(max(here + -((b - a) // 2), 0), WORKERS)] += p * q
    near = {x: sum(p for k, p in score.items() if 2 * abs(x - here) + (k if noisy else 0) <= 2) for x in candidate}
    accepted = {x: candidate[x] * near[x] for x in candidate}
    p = sum(accepted.values())
    reached = 1 / (1 - (1 - p) / 2)  # Σ over tries of ((1 − stop)(1 − p))^k
    return {-1: 1 - p * reached, **{x: share * reached for x, share in accepted.items()}}


@pytest.mark.claim("E3")
def test_accepting_a_candidate_keeps_the_promise():
    """For every pair of neighbors and every outcome, "none accepted" among them: a ratio of at most e^ε."""
    stated = guarantee(SCHEME.loss, delta=0).epsilon
    assert stated == 4
    laws = [law(here) for here in range(WORKERS + 1)]
    worst = max(
        math.log(one[x] / other[x]) for a, b in itertools.pairwise(laws) for one, other in ((a, b), (b, a)) for x in one
    )
    assert 0.3 * stated < worst <= stated


@pytest.mark.slow
@pytest.mark.claim("E3")
def test_what_is_accepted_follows_that_law():
    """Draws of the product follow the law above, and not the one of a score that is compared without its noise."""
    stream, draws = Stream(), []
    for _ in range(6000):
        try:
            made = synthesize(two_towns(HERE), SCHEME, entropy=stream)
            draws.append(int(made.people[made.origin == 0].sum()))
        except NotAccepted:
            draws.append(-1)

    def cdf(of):
        ends = np.cumsum([of[x] for x in range(-1, WORKERS + 1)])
        return lambda x: np.where(x < -1, 0.0, ends[np.clip(x + 1, 0, WORKERS + 1).astype(int)])

    assert_follows(np.array(draws), cdf(law(HERE)), "accepted maps", stream)
    assert_rejected(np.array(draws), cdf(law(HERE)), cdf(law(HERE, noisy=False)), "scores without noise", stream)


@needs(FLOWS, CENTERS)
@pytest.mark.claim("E3")
def test_an_accepted_map_of_new_york_is_near(new_york):
    scheme = Scheme(epsilon=1, accept=Acceptance(apart="0.05", stop="1/2"))
    made = synthesize(new_york, scheme, entropy=DeterministicEntropy(1))
    assert Comparison(new_york, made).moved <= 0.05


@pytest.mark.claim("E3")
def test_coarser_origins_fight_sparsity():
    made = city(blocks=900, workers=20_000)
    assert missed(made, epsilon=1, bands=["0.3", 1, 2, 4]) < 0.75 * missed(made, epsilon=1)


def far_and_missed(flows, **cap):
    """The shares of commutes beyond 100 km, true and synthetic, and by how many km means are missed."""
    urn = {"method": "dirichlet", "epsilon": 1, "promise": "probabilistic", "delta": "1e-6"}
    compared = Comparison(flows, synthesize(flows, Scheme(**urn, **cap), entropy=DeterministicEntropy(2)))
    return *compared.far(100), compared.missed_km


@pytest.mark.quick_cases(1)
@pytest.mark.claim("E4")
def test_long_commutes_are_overestimated_and_a_cap_repairs_them(state):
    true, synthetic, free = far_and_missed(state)
    _, beyond, capped = far_and_missed(state, cap=100)
    assert synthetic > 3 * true
    assert beyond == 0
    assert capped < free / 3


@pytest.mark.slow
@needs(FLOWS, CENTERS)
@pytest.mark.claim("E4")
def test_long_commutes_of_new_york(new_york):
    true, synthetic, free = far_and_missed(new_york)
    _, beyond, capped = far_and_missed(new_york, cap=100)
    assert synthetic > 3 * true
    assert beyond == 0
    assert capped < free / 5
