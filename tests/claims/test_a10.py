"""A10: "no harm whatsoever" is impossible; the comparison is with and without your row."""

from fractions import Fraction

import pytest

from discreet.exact import exp_up
from discreet.gallery.harm import Heights, Smoking

pytestmark = pytest.mark.claim("A10")


def test_an_average_and_what_is_known_of_a_person_give_the_height_of_those_who_took_no_part():
    report = Heights(people=4000, epsilon=1, seed=3).run()
    assert report.baseline.value == 0  # without the study nobody's height is known
    assert report.control.value > 0.99  # outside the study
    assert report.success.value > 0.99  # inside
    assert report.verdict == "holds"  # taking part added nothing


def test_a_study_of_smoking_harms_a_smoker_who_took_no_part():
    study = Smoking(smokers=100, ill=60, others=100, others_ill=10, epsilon="0.5")
    assert study.before == Fraction(7, 20)
    assert study.without_you.inference > 0.59  # from 35 %
    assert study.without_you.chance > Fraction(99, 100)  # premiums go up


@pytest.mark.parametrize("epsilon", ["0.1", "0.5", "1"])
def test_your_row_changes_the_chance_of_every_inference_by_at_most_e_to_epsilon(epsilon):
    """For every threshold at which an insurer may act: both ways round, in rationals."""
    limit = exp_up(Fraction(epsilon))
    for threshold in range(0, 101, 5):
        study = Smoking(
            smokers=100, ill=60, others=100, others_ill=10, epsilon=epsilon, threshold=Fraction(threshold, 100)
        )
        with_you, without_you = study.with_you.chance, study.without_you.chance
        assert with_you <= limit * without_you
        assert without_you <= limit * with_you
        assert 1 - without_you <= limit * (1 - with_you)
    assert study.ratio <= limit
