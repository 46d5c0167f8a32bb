"""A3: a medical table without names, joined with a voter list on ZIP code, sex and date of birth, names people."""

import numpy as np
import pytest

from discreet.anonymity import Coded, Hierarchy
from discreet.anonymity.models import KAnonymity
from discreet.anonymity.recoding.global_recoding import optimal
from discreet.attacks.generated import town
from discreet.attacks.tables.linkage import Linkage, uniqueness

pytestmark = pytest.mark.claim("A3")
QUASI = ["zip", "sex", "born"]
SURE = 1 - 1e-6


@pytest.fixture(scope="module")
def place():
    return town(people=50_000, seed=1998)


def link(place, released, truth):
    return Linkage(released=released, known=place.voters, on=QUASI, name="person", truth=truth, confidence=SURE).run()


def k_anonymous(visits, k):
    """The optimal full-domain generalization, at most 1 % suppressed; rows of `*` everywhere are the suppressed ones."""
    zips, born = Hierarchy.prefixes("zip", visits["zip"]), Hierarchy.dates("born", visits["born"])
    coded = Coded.of(visits, [zips, Hierarchy.flat("sex", ["F", "M"]), born])
    return optimal(coded, KAnonymity(k).bind(visits), suppression="0.01").table(visits)


def test_the_famous_figure(place):
    """87 % (Sweeney 2000), 63 % (Golle 2006); the town's is near the first because its ZIP codes are small."""
    assert uniqueness(place.people, QUASI) == pytest.approx(0.87, abs=0.02)


def test_the_raw_table_falls(place):
    report = link(place, place.visits, place.patients)
    assert report.verdict == "falls"
    assert report.success.low > 0.85
    assert report.facts["claims that are right"].low > 0.9
    assert report.control.high < 0.02


def test_a_five_anonymous_table_holds(place):
    report = link(place, k_anonymous(place.visits, 5), place.patients)
    assert report.verdict == "holds"
    assert report.success.high < 0.02
    assert report.facts["expected share named by guessing among those who fit"] < 0.05


def test_a_synthetic_table_names_nobody(place):
    """Rows drawn from the margins belong to nobody: whoever is claimed is claimed wrongly, and members like others."""
    rng = np.random.default_rng(1)
    visits = {name: place.visits[name].to_numpy(zero_copy_only=False) for name in QUASI}
    made = {name: column[rng.integers(0, len(column), len(column))] for name, column in visits.items()}
    wrong = rng.permutation(place.patients)  # the judge's best: no row is anybody's
    report = link(place, made, wrong)
    assert report.verdict == "holds"
    assert report.success.high < 0.02
