"""Every command in the documentation runs, and prints what the page says ("..." stands for anything)."""

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "bench").glob("*.md"))]
BLOCK = re.compile(r"^```console\n(.*?)^```", re.DOTALL | re.MULTILINE)
SKIPPED = ("make ", "git ", "pip ")  # installs and CI run these


def steps(block: str) -> list[tuple[str, str]]:
    """(command, expected output) pairs: "$ " starts a command, a here-document continues it, all else is output."""
    found: list[tuple[str, str]] = []
    inside = False
    for line in block.splitlines():
        if inside:
            found[-1] = (found[-1][0] + "\n" + line, "")
            inside = line != "END"
        elif line.startswith("$ "):
            found.append((line[2:], ""))
            inside = line.endswith("<<'END'")
        else:
            found[-1] = (found[-1][0], found[-1][1] + line + "\n")
    return found


def test_there_are_commands_to_run():
    assert sum(len(BLOCK.findall(page.read_text())) for page in PAGES) >= 5


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_of_a_page(page, tmp_path):
    env = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "COLUMNS": "100"}
    checker = doctest.OutputChecker()
    for block in BLOCK.findall(page.read_text()):
        for command, expected in steps(block):
            if command.startswith(SKIPPED):
                continue
            done = subprocess.run(
                ["bash", "-c", command], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
            )
            printed = done.stdout + done.stderr
            flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
            assert not expected or checker.check_output(expected, printed, flags), f"{command}\n{printed}"
            assert expected or done.returncode == 0, f"{command}\n{printed}"


def test_links_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
