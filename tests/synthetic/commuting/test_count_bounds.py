"""Bands of released counts have the true count in them as often as they say."""

from functools import cache

import numpy as np
import pytest
from scipy import stats

from discreet.noise import DeterministicEntropy
from discreet.synthetic.commuting import Flows, Places, Scheme, synthesize
from discreet.synthetic.commuting.evaluation import CONFIDENCE, CountBounds, total_bound

ALPHA = 1e-6
SIDE = (1 - CONFIDENCE) / 2
MAPS, SIZE = 500, 8  # destinations are independent: 4,000 in all
PLACES = Places([str(n) for n in range(SIZE)], np.column_stack([np.arange(SIZE), np.zeros(SIZE)]))
WORLDS = {"everywhere": np.full((SIZE, SIZE), 5000), "one home": np.diag(np.full(SIZE, 5000))}  # rows are homes
SCHEMES = {
    "geometric": {"neighbors": "add or remove one"},
    "changed": {"neighbors": "change one"},
    "gaussian": {"neighbors": "add or remove one", "delta": "1e-3", "promise": "approximate"},
    "public totals": {},
}


def scheme(kind, epsilon="0.1"):
    return Scheme(epsilon=epsilon, **SCHEMES[kind])


@cache
def released(world, kind):
    """Matrices of synthetic counts, one a map."""
    true = WORLDS[world]
    home, work = np.indices(true.shape)
    flows = Flows(PLACES, home.ravel(), work.ravel(), true.ravel())
    source = DeterministicEntropy(7)
    maps = np.zeros((MAPS, SIZE, SIZE), np.int64)
    for made in maps:
        found = synthesize(flows, scheme(kind), entropy=source)
        made[found.origin, found.destination] = found.people
    return maps


def misses(true, maps, home, bounded):
    """How often the true count of a home is below and above its band, over independent destinations."""
    known = [CountBounds.of_cells(bounded, cells=SIZE, positive=many) for many in range(SIZE + 1)]
    positive, work = (maps > 0).sum(axis=1), np.arange(SIZE)
    cells = (home + work) % SIZE
    counts, truth = maps[:, cells, work], true[cells, work]
    below = truth < np.maximum(counts - np.array([part.below for part in known])[positive], 0)
    above = truth > counts + np.array([part.above for part in known])[positive]
    return int(below.sum()), int(above.sum())


def most(draws=MAPS * SIZE, share=SIDE):
    return stats.binom.isf(ALPHA, draws, share)


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("kind", SCHEMES)
@pytest.mark.parametrize("world", WORLDS)
def test_the_true_count_is_in_its_band(world, kind):
    maps = released(world, kind)
    for home in (0, 1):  # with people in both worlds, and with nobody in one
        assert max(misses(WORLDS[world], maps, home, scheme(kind))) <= most()


@pytest.mark.parametrize("kind", ["geometric", "gaussian"])
def test_bands_for_less_noise_are_noticed(kind):
    """Noise that is 30 % larger than the bands say is found out by the test above."""
    maps = released("everywhere", kind)
    assert max(misses(WORLDS["everywhere"], maps, 0, scheme(kind, "0.13"))) > most()


def test_the_noise_of_totals_is_in_the_bands():
    maps = released("one home", "geometric")
    assert max(misses(WORLDS["one home"], maps, 0, scheme("public totals", "0.18"))) > most()  # equal noise of flows
    slack = total_bound(scheme("geometric"))
    wrong = int((abs(maps.sum(axis=1) - 5000) > slack).sum())
    assert wrong <= most(share=1 - CONFIDENCE)


def test_a_destination_with_one_possible_home_is_its_total():
    bounds = CountBounds.of_cells(scheme("geometric"), cells=1, positive=1)
    assert bounds.below == bounds.above == total_bound(scheme("geometric"))
    assert total_bound(scheme("public totals")) == 0


def test_more_places_with_people_make_narrower_bands():
    above = [CountBounds.of_cells(scheme("geometric"), cells=64, positive=n).above for n in (1, 4, 16, 64)]
    assert above == sorted(above, reverse=True)
    assert above[0] > 2 * above[-1]
