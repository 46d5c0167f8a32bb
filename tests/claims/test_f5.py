"""F5: parity can cost accuracy (a bank that lends by income); equalized odds keeps more of it."""

import numpy as np
import pytest

from discreet.fairness import fairness_report
from discreet.fairness.tradeoff import generated_loans, tradeoff

pytestmark = pytest.mark.claim("F5")


@pytest.fixture(scope="module")
def loans():
    return generated_loans(20_000)


def test_lending_by_income_is_fair_to_equals_and_unequal_between_groups(loans):
    view = fairness_report(loans, label="repays", prediction="granted", group="group", given="income").views[0]
    assert view.gap("statistical parity").difference.value == pytest.approx(0.3, abs=0.02)
    assert view.gap("conditional parity").difference.value == 0


def test_parity_costs_more_accuracy_than_equalized_odds(loans):
    curve = tradeoff(loans["score"], loans["repays"], loans["group"], ["statistical parity", "equalized odds"])
    assert curve.unconstrained == pytest.approx(np.mean(loans["granted"] == loans["repays"]), abs=1e-6)
    assert curve.cost("statistical parity") > curve.cost("equalized odds") > 0.005
    for points in curve.curves.values():
        assert points[0].gap < 1e-6
        accuracies = [one.accuracy for one in points]
        assert np.diff(accuracies).min() > -1e-7  # the more is allowed, the more accurate
    assert "gap" in curve.chart().svg()


def test_if_repayment_is_foreseen_perfectly_equalized_odds_is_free_and_parity_is_not(loans):
    """Hardt, Price, Srebro 2016: the ideal predictor is allowed."""
    curve = tradeoff(
        loans["repays"], loans["repays"], loans["group"], ["statistical parity", "equalized odds"], steps=2
    )
    assert curve.cost("equalized odds") == pytest.approx(0, abs=1e-7)
    assert curve.cost("statistical parity") > 0.05
