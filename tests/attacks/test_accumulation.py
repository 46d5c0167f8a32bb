"""Answers that accumulate."""

import math

import numpy as np
import pytest

from discreet.attacks.answers.accumulation import Accumulation, accumulation_charts
from discreet.errors import InvalidParameter

FEW = {"people": 100, "answers": 30, "trials": 200, "seed": 4}


def test_deterministic_candidates_halve_with_each_answer():
    """E[candidates] = 1 + 99·2^−m exactly; 200 trials, within 6 standard errors (false alarm 1e-8)."""
    curves = Accumulation(**FEW).curves()
    for m in (1, 2, 3, 5):
        p = 2.0**-m
        error = 6 * math.sqrt(99 * p * (1 - p) / 200)
        assert abs(curves.mean("candidates")[m] - (1 + 99 * p)) < error
    assert (np.diff(curves.candidates, axis=1) <= 0).all()
    np.testing.assert_allclose(curves.largest * curves.candidates, 1, rtol=1e-9)
    np.testing.assert_allclose(curves.entropy, np.log2(curves.candidates), atol=1e-9)


def test_posteriors_of_randomized_answers_are_calibrated():
    """Whoever is named with probability p is right with probability p: the mean of named equals that of largest."""
    curves = Accumulation(people=50, answers=20, trials=2000, seed=2, each=1).curves()
    gap = curves.named[:, -1] - curves.largest[:, -1]
    assert abs(gap.mean()) < 5 * gap.std() / math.sqrt(2000)
    assert 0.2 < curves.largest[:, -1].mean() < 0.8  # neither trivial


def test_what_falls_and_what_holds():
    assert Accumulation(**FEW).run().verdict == "falls"
    assert Accumulation(**FEW, each=3).run().verdict == "falls"
    assert Accumulation(**FEW, total=1).run().verdict == "holds"


def test_a_total_is_split():
    assert Accumulation(**FEW, total=3).epsilon == pytest.approx(0.1)
    assert Accumulation(**FEW, total="0.5").words == "randomized answers at ε 0.5 for all together"


def test_the_seed_repeats():
    assert Accumulation(**FEW, each=1).run().as_dict() == Accumulation(**FEW, each=1).run().as_dict()
    assert Accumulation(**FEW, each=1).run().as_dict() != Accumulation(**FEW | {"seed": 5}, each=1).run().as_dict()


def test_charts_compare():
    charts = accumulation_charts(
        {"exact": Accumulation(**FEW).curves(), "noisy": Accumulation(**FEW, total=1).curves()}
    )
    assert all("<svg" in chart.svg() and len(chart.marks) == 2 for chart in charts)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"people": 1}, "people"),
        ({"answers": 0}, "answers"),
        ({"trials": 0}, "trials"),
        ({"seed": -1}, "seed"),
        ({"each": 1, "total": 1}, "each, total"),
        ({"each": 0}, "each"),
        ({"total": float("nan")}, "total"),
        ({"people": 10**6, "answers": 10**6}, "people × answers"),
    ],
)
def test_bad_input(change, name):
    with pytest.raises(InvalidParameter, match=name):
        Accumulation(**FEW | change).run()
