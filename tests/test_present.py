"""What CI lacks is not skipped there: a suite that skips silently says nothing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SKIPS = """
import pytest
pytest_plugins = "tests.conftest"

def test_imports():
    pytest.importorskip("no_such_module_at_all")

@pytest.mark.skipif(True, reason="the extra 'jax' is not installed")
def test_an_extra():
    pass

def test_a_program():
    pytest.skip("NO NODE: scripts are not tested")

def test_this_machine():
    pytest.skip("root may write everything")
"""


@pytest.mark.parametrize(("ci", "told"), [("", "\n4 skipped"), ("true", "\n2 failed, 1 skipped, 1 error")])
def test_absent_parts_fail_in_ci_and_are_skipped_elsewhere(tmp_path, ci, told):
    (tmp_path / "test_skips.py").write_text(SKIPS, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", tmp_path, tmp_path]
    env = os.environ | {"CI": ci, "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert told in done.stdout, done.stdout + done.stderr
