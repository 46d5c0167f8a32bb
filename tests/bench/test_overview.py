"""The page of all results: what it says of who is ahead, and that a comparison that is lost is on it like the others."""

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from bench.__main__ import COMPARISONS  # noqa: E402

from bench import overview  # noqa: E402

RESULTS = ROOT / "bench" / "results"


def row(case, who, cpu, *, remark="", work=1):
    return {"case": case, "who": who, "remark": remark, "work": work, "trouble": "", "cpu_s": {"median": cpu}}


def result(*rows):
    machine = {"date": "2026-01-01", "cores": 2, "system": "Linux", "python": "3.11"}
    return {"name": "a", "title": "A", "machine": machine, "rounds": 1, "rows": list(rows), "bars": []}


def test_the_best_peer_and_the_limit_are_told_apart():
    (case,) = overview.cases(
        result(
            row("x", "discreet", 1.0, work=10),
            row("x", "slow", 9.0),
            row("x", "quick", 0.5),
            row("x", "none (limit)", 0.1),
        )
    )
    assert (case.ours, case.peer, case.limit) == (1.0, ("quick", 0.5), ("none (limit)", 0.1))
    assert case.cells() == ("x", "1 s", "quick, 0.5 s", "0.5", "none (limit), 0.1 s", "0.1", "behind")


def test_a_case_that_crashed_is_shown_with_its_trouble():
    broken = {"case": "x", "who": "discreet", "remark": "", "work": 1, "trouble": "crashed: why"}
    (case,) = overview.cases(result(broken))
    assert case.cells()[-1] == "crashed: why"


def test_sizes_of_a_case_become_a_curve():
    rows = [row(f"sum: {n:,} rows", "discreet", n / 1e6) for n in (1000, 10_000)]
    (chart,) = overview.charts(result(*rows))
    assert list(chart.marks[0].x) == [1000, 10_000]
    assert chart.log_x


@pytest.mark.parametrize("file", sorted(RESULTS.glob("*.json")), ids=lambda file: file.stem)
def test_every_case_and_bar_of_the_committed_results_is_on_the_page(file):
    page, found = overview.markdown(RESULTS), json.loads(file.read_text("utf-8"))
    assert found["name"] in COMPARISONS
    for each in (*found["rows"], *found["bars"]):
        assert f"| {each['case']} |" in page
    for bar in found["bars"]:
        promise = bar["promise"].replace("|", "\\|")
        assert f"| {bar['case']} | {promise} | {overview.number(bar['value'])} | {bar['verdict']} |" in page


def test_losses_are_counted_in_the_lead():
    found = [result(row("x", "discreet", 1.0), row("x", "peer", 0.5))]
    assert "behind in 1" in overview.lead(found)
