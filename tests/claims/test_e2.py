"""E2–E4: the commuting map."""

import os
from fractions import Fraction
from pathlib import Path

import pytest

from discreet.noise import DeterministicEntropy
from discreet.synthetic.commuting import (
    Acceptance,
    Comparison,
    Flows,
    Places,
    Scheme,
    city,
    probabilistic_prior,
    pure_prior,
    synthesise,
)

FOLDER = Path(os.environ.get("DISCREET_DATA", Path(__file__).parents[3] / "shared" / "data")) / "commuting"


@pytest.fixture(scope="module")
def new_york():
    if not (FOLDER / "NY_commuting_flows_2011.csv").exists():
        pytest.skip(f"the commuting flows of New York are not in {FOLDER}")
    places = Places.read(str(FOLDER / "ny_county_centroids.csv"))
    return Flows.read(str(FOLDER / "NY_commuting_flows_2011.csv"), places, people="flow")


def missed(flows, **settings):
    made = synthesise(flows, Scheme(**settings), entropy=DeterministicEntropy(5))
    return Comparison(flows, made).missed_km


@pytest.mark.claim("E2")
def test_pure_privacy_needs_absurd_noise_and_probabilistic_does_not():
    assert 912 < pure_prior(10**6, epsilon=7) <= 913
    assert probabilistic_prior(10**6, 1000, epsilon=7, delta="1e-6") < Fraction(1, 10)


@pytest.mark.claim("E2")
def test_new_york_with_a_prior_everywhere(new_york):
    """The urn: a pure promise misses mean commutes by 200 km, (ε,δ) by a tenth of that; noisy counts by almost nothing."""
    urn = {"method": "dirichlet", "epsilon": 1}
    assert 190 < missed(new_york, **urn) < 215
    assert missed(new_york, **urn, promise="probabilistic", delta="1e-6") < 50
    assert missed(new_york, **urn, promise="approximate", delta="1e-6") < 30


@pytest.mark.claim("E4")
def test_new_york_within_the_bars(new_york):
    assert missed(new_york, epsilon=1) <= 15
    assert missed(new_york, epsilon="4.6") <= 3


@pytest.mark.claim("E3")
def test_accepting_a_candidate_keeps_the_promise(new_york):
    scheme = Scheme(epsilon=1, accept=Acceptance(apart="0.05", stop="1/2"))
    made = synthesise(new_york, scheme, entropy=DeterministicEntropy(1))
    assert Comparison(new_york, made).moved <= 0.05
    assert 2 * (scheme.candidate_epsilon + scheme.score_epsilon) == 1


@pytest.mark.claim("E3")
def test_coarser_origins_fight_sparsity():
    made = city(blocks=900, workers=20_000)
    assert missed(made, epsilon=1, bands=["0.3", 1, 2, 4]) < 0.75 * missed(made, epsilon=1)


@pytest.mark.claim("E4")
def test_long_commutes_are_overestimated_and_a_cap_repairs_them(new_york):
    urn = {"method": "dirichlet", "epsilon": 1, "promise": "probabilistic", "delta": "1e-6"}
    free = Comparison(new_york, synthesise(new_york, Scheme(**urn), entropy=DeterministicEntropy(2)))
    capped = Comparison(new_york, synthesise(new_york, Scheme(**urn, cap=100), entropy=DeterministicEntropy(2)))
    true, synthetic = free.far(100)
    assert synthetic > 3 * true
    assert capped.far(100)[1] == 0
    assert capped.missed_km < free.missed_km / 5
