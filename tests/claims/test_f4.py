"""F4: of those not arrested again, black defendants were labeled high risk about twice as often as white ones."""

import csv

import pytest
from tests.real_data import FOLDER, needs

from discreet.fairness import fairness_report

pytestmark = pytest.mark.claim("F4")
DATA = FOLDER / "compas.csv"
COUNTS = {
    # group: labels of those not arrested again (low, high), and of those arrested again (low, high)
    "Black": (990, 805, 532, 1369),
    "White": (1139, 349, 461, 505),
    "other": (20, 4, 3, 5),
}
"""A table of the published shape: of those not arrested again 44.8 % against 23.5 % were labeled high risk."""


def audited(table):
    report = fairness_report(
        table, label="two_year_recid", prediction="score_text", positive=["Medium", "High"], group="race"
    )
    return report.views[0]


@pytest.fixture(scope="module")
def view():
    return audited(DATA)


def test_a_table_of_known_counts(tmp_path):
    """Rates and their ratio are those of the counts, and a table with the labels exchanged shows the opposite."""
    rows = [
        (race, again, score)
        for race, (spared_low, spared_high, again_low, again_high) in COUNTS.items()
        for again, score, count in (
            (0, "Low", spared_low),
            (0, "High", spared_high // 2),
            (0, "Medium", spared_high - spared_high // 2),
            (1, "Low", again_low),
            (1, "High", again_high),
        )
        for _ in range(count)
    ]
    for name, order in (("as published", 1), ("exchanged", -1)):
        path = tmp_path / f"{name}.csv"
        swap = dict(zip(("Black", "White", "other"), ("White", "Black", "other"), strict=True))
        lines = [f"{race if order > 0 else swap[race]},{again},{score}" for race, again, score in rows]
        path.write_text("\n".join(["race,two_year_recid,score_text", *lines]), encoding="utf-8")
        view = audited(path)
        high, low = ("Black", "White")[::order]
        more, less = view.rate("false positive rate", high), view.rate("false positive rate", low)
        assert more.value == pytest.approx(805 / 1795, abs=1e-12)
        assert less.value == pytest.approx(349 / 1488, abs=1e-12)
        assert more.value / less.value == pytest.approx(1.912, abs=0.001)
        assert less.high < more.low < more.value < more.high
        assert view.rate("false negative rate", low).value == pytest.approx(461 / 966, abs=1e-12)
        assert any(sentence.startswith("other: ") for sentence in view.small)


@needs("compas.csv")
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


@needs("compas.csv")
def test_the_other_error_goes_the_other_way(view):
    """And precision is nearly equal: predictive parity and equalized odds do not both hold."""
    black, white = (view.rate("false negative rate", race) for race in ("African-American", "Caucasian"))
    assert white.value == pytest.approx(0.477, abs=0.001)
    assert black.value == pytest.approx(0.280, abs=0.001)
    precision = [view.rate("precision", race).value for race in ("African-American", "Caucasian")]
    assert precision == pytest.approx([0.630, 0.591], abs=0.001)


@needs("compas.csv")
def test_what_is_too_small_is_said(view):
    assert any(sentence.startswith("Native American: 18 rows are too few") for sentence in view.small)
    assert "Native American" in view.gap("statistical parity").left_out
