"""With and without your row."""

import math
from fractions import Fraction

import pytest

from discreet.errors import InvalidParameter
from discreet.exact import exp_up
from discreet.gallery.harm import Heights, Smoking

STUDY = {"smokers": 100, "ill": 60, "others": 100, "others_ill": 10, "epsilon": "0.5"}


@pytest.mark.parametrize("seed", range(3))
def test_heights_are_learned_inside_and_outside_alike(seed):
    report = Heights(people=2000, epsilon=1, seed=seed).run()
    assert report.success.value > 0.9
    assert report.control.value > 0.9
    assert report.baseline.value == 0
    assert report.verdict == "holds"


def test_too_much_noise_teaches_nothing():
    assert Heights(people=2000, epsilon="0.0001", seed=1).run().success.value < 0.1


@pytest.mark.parametrize("epsilon", ["0.1", "1", "3"])
def test_the_factor_of_a_row_is_at_most_e_to_epsilon(epsilon):
    heights = Heights(people=100, epsilon=epsilon, seed=1)
    factor = heights.largest_factor(heights._population())
    assert math.exp(0.7 * float(epsilon)) < factor <= math.exp(float(epsilon)) * (1 + 1e-9)


@pytest.mark.parametrize("epsilon", ["0.1", "0.5", "2"])
def test_the_study_in_rationals(epsilon):
    study = Smoking(**STUDY | {"epsilon": epsilon})
    assert 1 < study.ratio <= exp_up(Fraction(epsilon))
    assert study.without_you.chance < study.with_you.chance <= study.allowed * study.without_you.chance
    assert sum(study._released(60)) == 1
    assert study.without_you.inference > study.before
    assert study.with_you.inference - study.without_you.inference <= 1 / 101 + 1e-12


def test_the_study_harms_either_way():
    report = Smoking(**STUDY).run()
    assert report.success.value > 0.95
    assert report.control.value > 0.95
    assert report.baseline.value == 0
    assert report.verdict == "holds"
    assert "than on people outside" in report.sentence  # it does much better than guessing, which finds nothing
    assert "<svg" in report.charts[0].svg()


@pytest.mark.parametrize("change", [{"ill": 101}, {"others_ill": -1}, {"smokers": 0}, {"epsilon": 0}, {"trials": 0}])
def test_bad_studies(change):
    with pytest.raises(InvalidParameter, match=next(iter(change))):
        Smoking(**STUDY | change).run()


@pytest.mark.parametrize("change", [{"people": 1}, {"epsilon": 0}, {"seed": -1}])
def test_bad_heights(change):
    with pytest.raises(InvalidParameter, match=next(iter(change))):
        Heights(**{"people": 10, "epsilon": 1, "seed": 1} | change).run()
