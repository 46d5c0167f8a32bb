"""F1: statistical parity P[Ŷ | A = 0] = P[Ŷ | A = 1], with group sizes, gap, ratio and interval."""

import numpy as np
import pytest

from discreet.fairness import fairness_report

# 400 people: of 200 square ones 120 are selected, of 200 round ones 60.
#           qualified (Y = 1)      not qualified
# square    selected 90 of 100     30 of 100
# round     selected 30 of 40      30 of 160
SQUARE = [(1, 1)] * 90 + [(1, 0)] * 10 + [(0, 1)] * 30 + [(0, 0)] * 70
ROUND = [(1, 1)] * 30 + [(1, 0)] * 10 + [(0, 1)] * 30 + [(0, 0)] * 130
Y, YHAT = (np.array(side) for side in zip(*SQUARE, *ROUND, strict=True))
A = np.array(["square"] * 200 + ["round"] * 200)


@pytest.fixture(scope="module")
def view():
    return fairness_report({"y": Y, "yhat": YHAT, "a": A}, label="y", prediction="yhat", group="a").views[0]


@pytest.mark.claim("F1")
def test_statistical_parity(view):
    assert dict(zip(view.groups, view.sizes, strict=True)) == {"round": 200, "square": 200}
    found = view.gap("statistical parity")
    assert found.difference.value == pytest.approx(120 / 200 - 60 / 200)
    assert found.ratio.value == pytest.approx(60 / 120)
    assert 0 < found.difference.low < 0.3 < found.difference.high < 0.5
    assert (found.highest, found.lowest) == ("square", "round")
