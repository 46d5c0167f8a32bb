"""The measurements of growth on little work, and what the paper plan for very many groups rests on."""

import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from bench import engines, scale  # noqa: E402
from discreet.mechanisms.partitions import OptimalSelection  # noqa: E402


def test_a_point_says_how_many_groups_it_fetched() -> None:
    facts = engines.point("duckdb", 2000, 50)()
    assert (facts["rows"], facts["groups"]) == (2000, 50)


def test_every_bar_is_about_lines_that_are_measured() -> None:
    made = engines.comparison(quick=False)
    lines = {(line.case, line.who) for line in made.contestants}
    assert all((bar.case, who) in lines for bar in made.bars for who in (bar.of, bar.over))


@pytest.mark.parametrize("least", [0, 1, 20])
def test_leaving_out_small_groups_in_the_engine_is_as_private_as_the_selection(least: int) -> None:
    """Both inequalities of (ε,δ)-DP on {named, not named}, for every two neighboring counts."""
    selection = OptimalSelection(epsilon=1, delta="1e-3", keys=1)
    bound, delta = np.e * (1 + 1e-12), 1e-3 + 1e-12
    named = [scale.kept(selection, people, least) for people in range(60)]
    assert named[: least + 1] == [0] * (least + 1)  # not handed over, never named: the same distribution
    for before, after in zip(named, named[1:], strict=False):
        for one, other in ((before, after), (after, before)):
            assert one <= bound * other + delta
            assert 1 - one <= bound * (1 - other) + delta
    assert named[-1] == 1


def test_the_simulation_counts_every_group_once() -> None:
    found, people = scale.counted(5000, 1e5, 1.0)
    assert found.sum() == 5000
    assert abs(people - 1e5) < 6 * 1e5**0.5
    facts = scale.named(found, 20, scale.Terms())
    assert facts["named"] <= facts["handed over"] == found[21:].sum()
