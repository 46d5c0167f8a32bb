"""Every notebook runs from top to bottom: what should answer answers, what should be refused is refused."""

import importlib.util
import json
import re
import sys
import tempfile
from pathlib import Path

import pytest

pytest.importorskip("IPython")
FOLDER = Path(__file__).parents[2] / "examples" / "notebooks"
QUICK = ("first_answer", "synthetic_data")
NAMES = sorted(path.stem for path in FOLDER.glob("*.ipynb"))


def runner():
    spec = importlib.util.spec_from_file_location("notebooks_run", FOLDER / "run.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.fixture
def run(monkeypatch):
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])  # a shell puts its own there
    return runner().run


def code(path):
    return code_of(json.loads(path.read_text("utf-8")))


def code_of(document):
    return [cell for cell in document["cells"] if cell["cell_type"] == "code"]


def wording(cells):
    """What every run says alike: lines of text, with "#" for a number, but for rows of data, intervals and digests."""
    said = []
    for cell in cells:
        for output in cell["outputs"]:
            text = "".join(output.get("text") or output.get("data", {}).get("text/plain", []))
            noisy = re.compile(r"^\w+ .*(± \d|\[\d)|^\d+ |[0-9a-f]{12}|[█▌▍]")
            said += [re.sub(r"[\d.e−-]*\d", "#", line) for line in text.splitlines() if not noisy.search(line)]
    return [" ".join(line.split()) for line in said]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow]) for name in NAMES]
)
def test_a_notebook_runs(name, run):
    ran = run(FOLDER / f"{name}.ipynb")
    kept = code(FOLDER / f"{name}.ipynb")
    shown = [bool(cell["outputs"]) for cell in ran["cells"] if cell["cell_type"] == "code"]
    assert shown == [bool(cell["outputs"]) for cell in kept], "run examples/notebooks/run.py: what is kept is older"
    assert name not in QUICK or wording(code_of(ran)) == wording(kept), (
        "run examples/notebooks/run.py: what is kept is older"
    )


def test_all_six_are_run_in_their_order():
    assert sorted(path.stem for path in runner().notebooks()) == NAMES
    assert len(NAMES) == 6


def test_what_is_kept_names_no_machine():
    for name in NAMES:
        text = (FOLDER / f"{name}.ipynb").read_text("utf-8")
        assert tempfile.gettempdir() not in text
        assert "analyst='root'" not in text


def test_a_cell_that_fails_and_a_refusal_that_does_not_come_are_told(tmp_path, run):
    for source in ("1 / 0", "# refused: nothing is\n1"):
        cell = {"cell_type": "code", "source": [source]}
        (tmp_path / "a.ipynb").write_text(json.dumps({"cells": [cell]}))
        with pytest.raises(RuntimeError, match=r"a\.ipynb, cell 1"):
            run(tmp_path / "a.ipynb")
