"""The curator's contestants on little work: each reports the numbers that its bars are about."""

import math
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from bench import curator  # noqa: E402

LITTLE: dict[str, int] = {"n": 2, "groups": 50, "pairs": 1, "rows": 2000}
OURS = [c for c in curator.comparison(quick=False).contestants if not c.peer]


@pytest.mark.parametrize("contestant", OURS, ids=lambda c: f"{c.case}: {c.who}")
def test_a_contestant_reports_what_its_bars_are_about(contestant: Any) -> None:
    arguments = {name: LITTLE.get(name, value) for name, value in contestant.arguments.items()}
    facts = contestant.prepare(**arguments)()
    assert all(math.isfinite(value) for value in facts.values())
    place = (contestant.case, contestant.who)
    wanted = {bar.measure for bar in curator._bars() if place in ((bar.case, bar.of), (bar.case, bar.over))}
    assert wanted <= set(facts)


def test_a_smoke_run_needs_no_peers() -> None:
    assert not any(c.peer for c in curator.comparison(quick=True).contestants)


def test_cpu_of_living_children_is_counted() -> None:
    import subprocess

    loop = "import time, sys\nwhile time.process_time() < 0.3: pass\nprint('done', flush=True)\nsys.stdin.read()"
    children = []

    def work() -> None:
        child = subprocess.Popen([sys.executable, "-c", loop], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        children.append(child)
        assert child.stdout is not None
        child.stdout.readline()

    if not Path("/proc/self/task").exists():
        pytest.skip("children are counted on Linux")
    try:
        facts: Any = curator._all_processes(work)()
    finally:
        for child in children:
            child.communicate()
    assert 0.25 <= facts["all CPU s"] < 2
