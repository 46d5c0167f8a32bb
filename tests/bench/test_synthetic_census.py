"""NIST's k-marginal score on generated censuses that no setting was chosen on."""

import pytest
from bench.synthetic_census import _GENETIC, SCORE, released


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", _GENETIC)
def test_an_unseen_census_beats_genetic_sd(epsilon):
    """Seeds 21 to 24 had 862 to 866 at ε = 1 and 932 to 935 at ε = 10, so a release is some points above 851 and 927."""
    assert released("census 21", epsilon)()[SCORE] > _GENETIC[epsilon]


def test_few_people_keep_their_triples_with_the_area():
    """Three releases had 837 to 839; with the thousand soft rows of before, about ten less."""
    assert released("census 21", 10, people=5000)()[SCORE] > 830
