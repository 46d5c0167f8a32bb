"""Every claim of the field has a quick test that runs without any real data."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
NUMBERS = {"A": 11, "B": 16, "C": 9, "D": 7, "E": 4, "F": 6, "G": 1}
CLAIMS = {f"{letter}{n}" for letter, last in NUMBERS.items() for n in range(1, last + 1)}

_COLLECT = """
import json, sys, pytest

class Collector:
    def pytest_collection_finish(self, session):
        self.claims = sorted({
            mark.args[0]
            for item in session.items
            for mark in item.iter_markers("claim")
            if item.get_closest_marker("slow") is None
            and not any(skip.args and skip.args[0] for skip in item.iter_markers("skipif"))
        })

collector = Collector()
pytest.main(["--collect-only", "-qq", "-p", "no:cacheprovider", *sys.argv[1:]], plugins=[collector])
print(json.dumps(collector.claims))
"""


def test_every_claim_has_a_quick_test_that_needs_no_real_data(tmp_path: Path) -> None:
    marked = sorted(
        str(file) for file in (ROOT / "tests").rglob("test_*.py") if "mark.claim" in file.read_text("utf-8")
    )
    done = subprocess.run(
        [sys.executable, "-c", _COLLECT, *marked],
        cwd=ROOT,
        env={**os.environ, "DISCREET_DATA": str(tmp_path)},  # an empty folder
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(json.loads(done.stdout.splitlines()[-1])) == CLAIMS


def test_claims_are_not_skipped_from_inside() -> None:
    """A call of `pytest.skip` would hide from the test above that a claim runs nothing."""
    for file in (ROOT / "tests" / "claims").glob("test_*.py"):
        if file != Path(__file__):
            assert "pytest.skip(" not in file.read_text("utf-8"), file
