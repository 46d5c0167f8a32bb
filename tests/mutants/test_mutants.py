"""Every sabotage still fits the sources and names tests that exist; `make mutants` runs them."""

import importlib.util
import sys
from pathlib import Path

import pytest

_SPEC = importlib.util.spec_from_file_location("mutants", Path(__file__).with_name("mutants.py"))
assert _SPEC is not None
assert _SPEC.loader is not None
mutants = importlib.util.module_from_spec(_SPEC)
sys.modules["mutants"] = mutants
_SPEC.loader.exec_module(mutants)

ALL = mutants.read_mutants()


@pytest.mark.parametrize("mutant", ALL, ids=lambda mutant: f"{mutant.part}: {mutant.name}")
def test_mutant_fits_the_sources(mutant) -> None:  # type: ignore[no-untyped-def]
    patched = mutant.patched()
    if mutant.file.endswith(".py"):
        compile(patched, mutant.file, "exec")
    assert mutant.killed_by
    for test in mutant.killed_by:
        file, _, name = test.partition("::")
        text = (mutants.ROOT / file).read_text(encoding="utf-8")
        assert not name or f"def {name.split('::')[-1].split('[')[0]}(" in text, test


def test_names_are_unique() -> None:
    names = [(mutant.part, mutant.name) for mutant in ALL]
    assert len(set(names)) == len(names)
