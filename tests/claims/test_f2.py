"""F2: conditional statistical parity given legitimate attributes X."""

import pytest

from discreet.fairness import fairness_report


@pytest.mark.claim("F2")
def test_conditional_parity_given_a_legitimate_attribute():
    """Admissions by faculty: each admits both groups alike, and yet over all they are far apart (Simpson)."""
    rows = [("arts", "square", 40, 160), ("arts", "round", 10, 40), ("law", "square", 12, 8), ("law", "round", 120, 80)]
    table = {"given": [], "a": [], "yhat": []}
    for faculty, group, admitted, refused in rows:
        for answer, count in ((1, admitted), (0, refused)):
            table["given"] += [faculty] * count
            table["a"] += [group] * count
            table["yhat"] += [answer] * count
    view = fairness_report(table, prediction="yhat", group="a", given="given").views[0]
    assert view.gap("statistical parity").difference.value == pytest.approx(130 / 250 - 52 / 220)
    assert view.gap("statistical parity").differs
    assert view.gap("conditional parity").difference.value == pytest.approx(0)
    assert not view.gap("conditional parity").differs
    assert view.conditional.adjusted.difference.value == pytest.approx(0)
