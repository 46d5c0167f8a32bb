"""F3: equalized odds P[Ŷ = y | Y = y, A], with gap, ratio and interval."""

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


@pytest.mark.claim("F3")
def test_equalized_odds(view):
    found = view.gap("equalized odds")
    assert view.rate("true positive rate", "square").value == pytest.approx(0.9)
    assert view.rate("true positive rate", "round").value == pytest.approx(0.75)
    assert view.rate("false positive rate", "square").value == pytest.approx(0.3)
    assert view.rate("false positive rate", "round").value == pytest.approx(0.1875)
    assert found.difference.value == pytest.approx(0.15)
    assert found.ratio.value == pytest.approx(0.1875 / 0.3)
    assert found.where == "true positive rate"
    assert found.difference.low <= 0.15 <= found.difference.high
