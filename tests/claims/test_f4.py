"""F4: of those not arrested again, black defendants were labelled high risk about twice as often as white ones."""

import csv
import os
from pathlib import Path

import pytest

from discreet.fairness import fairness_report

pytestmark = pytest.mark.claim("F4")
DATA = Path(os.environ.get("DISCREET_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data") / "compas.csv"


@pytest.fixture(scope="module")
def view():
    if not DATA.exists():
        pytest.skip(f"{DATA} is not there; set DISCREET_DATA")
    report = fairness_report(
        DATA, label="two_year_recid", prediction="score_text", positive=["Medium", "High"], group="race"
    )
    return report.views[0]


def test_false_positive_rates_of_non_recidivists_by_race(view):
    black, white = (view.rate("false positive rate", race) for race in ("African-American", "Caucasian"))
    with DATA.open(newline="", encoding="utf-8") as file:  # counted by hand
        spared = [row for row in csv.DictReader(file) if row["two_year_recid"] == "0"]
    for race, found in (("African-American", black), ("Caucasian", white)):
        mine = [row["score_text"] in ("Medium", "High") for row in spared if row["race"] == race]
        assert found.value == pytest.approx(sum(mine) / len(mine), abs=1e-12)
    assert black.value == pytest.approx(0.448, abs=0.001)
    assert white.value == pytest.approx(0.235, abs=0.001)
    assert 1.8 < black.value / white.value < 2
    assert black.low > white.high  # the intervals are far apart
    assert black.low < black.value < black.high < 0.48


def test_the_other_error_goes_the_other_way(view):
    """And precision is nearly equal: predictive parity and equalised odds do not both hold."""
    black, white = (view.rate("false negative rate", race) for race in ("African-American", "Caucasian"))
    assert white.value == pytest.approx(0.477, abs=0.001)
    assert black.value == pytest.approx(0.280, abs=0.001)
    precision = [view.rate("precision", race).value for race in ("African-American", "Caucasian")]
    assert precision == pytest.approx([0.630, 0.591], abs=0.001)


def test_what_is_too_small_is_said(view):
    assert any(sentence.startswith("Native American: 18 rows are too few") for sentence in view.small)
    assert "Native American" in view.gap("statistical parity").left_out
