"""What the page says of its noise: true, and never of more noise than there is."""

import re
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import gammaincinv
from tests.local.test_page import places, survey

from discreet.local.collection.survey_page import cost_words, how_words
from discreet.local.places.areas import Area
from discreet.local.places.planar import lattice_sum, radius_within


def held_within(asked, km, points=11):
    """The largest share of reports within so many km of a place, over places in a cell; summed on the grid."""
    report = asked.planar()
    t, radius = float(report.scale), km / float(asked.area.cell)
    z = np.arange(-int(radius) - 2, int(radius) + 3)
    weights = np.exp(-np.hypot(z[:, None], z) / t) / lattice_sum(report.scale)
    places = np.linspace(0, 0.5, points)
    return max(weights[np.hypot(z[:, None] - x, z - y) <= radius].sum() for x in places for y in places if y <= x)


@pytest.mark.parametrize(
    ("cell", "epsilon"),
    [("0.1", "ln 2 at 200 m"), ("0.1", "ln 2 at 1 km"), ("0.25", "ln 2 at 1 km"), ("1", "ln 2 at 500 m"), ("0.5", "1 at 1 km")],
)  # fmt: skip
def test_respondents_are_not_told_of_more_noise_than_there_is(cell, epsilon):
    """At most half of the reports lie within the first radius, 95 % in the second; neither is much too small."""
    asked = places(Area.plane(width=2, height=2, cell=cell), epsilon)
    near, far = (float(number) for number in re.findall(r"more than ([\d.]+) km", how_words(asked)))
    cell_shares = 1.6 * asked.planar().stays  # what a step to the next ring of cells can add
    for radius, share in ((near, 0.5), (far, 0.95)):
        assert share - 0.08 - cell_shares < held_within(asked, radius) <= share


@pytest.mark.parametrize("scale", ["0.3", "1", "7/3", "14.4", "59", "61", "100000"])
@pytest.mark.parametrize("share", ["0.01", "0.5", "0.95"])
def test_radii_hold_no_more_than_their_share(scale, share):
    """Summed on the grid about random places of a cell; for very wide noise, against the continuous law."""
    radius, t = radius_within(scale, share), float(Fraction(scale))
    if t > 100:
        assert 0.999 * gammaincinv(2, float(share)) < radius / t < gammaincinv(2, float(share))
        return
    z = np.arange(-int(6 * t) - 3, int(6 * t) + 4)
    weights = np.exp(-np.hypot(z[:, None], z) / t) / lattice_sum(scale)
    for x, y in np.random.default_rng(1).uniform(-0.5, 0.5, (8, 2)):
        assert weights[np.hypot(z[:, None] - x, z - y) < radius].sum() <= float(share)
    wider = weights[np.hypot(z[:, None], z) < radius + (1.5 if t < 60 else 4)].sum()
    assert wider > float(share) or radius == 0


def test_narrow_noise_is_called_that():
    """Noise that mostly stays in the cell: its share is told, rounded up, instead of a distance."""
    asked = places(Area.plane(width=2, height=2, cell="0.5"), "ln 4 at 200 m")
    (kept,) = re.findall(r"in ([\d.]+) % of the time", how_words(asked))
    assert 100 * held_within(asked, 0, points=1) <= float(kept) < 100 * held_within(asked, 0, points=1) + 0.2


def test_chances_of_the_truth_are_rounded_up():
    """e/(e + 1) is 73.106 %: "73.1 %" would be less than there is."""
    assert "With probability 73.2 %" in how_words(survey(labels=2, epsilon=1))


def test_costs_of_places_count_the_cells():
    """The diagonal of a cell adds to every distance: 2^(1 + 0.1·√2) = 2.206, not 2."""
    asked = places(Area.plane(width=2, height=2, cell="0.1"), "ln 2 at 1 km")
    assert "at most 2.21 times as likely" in cost_words(asked)
