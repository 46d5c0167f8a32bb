"""Sabotages that the tests must catch: each is a small patch of `src/` and the tests that must fail on it.

The lists are the TOML files beside this one, one for each part of the house:

    [[mutant]]
    name = "what is broken, in a few words"
    file = "src/discreet/noise/geometric.py"
    old = "text that occurs exactly once in the file"
    new = "what it is replaced with"
    killed_by = ["tests/noise/test_geometric.py::test_scale"]

`python tests/mutants/mutants.py` (or `make mutants`) applies them one at a time to a copy of the sources, runs the named
tests against the copy, and fails if they pass. Name one part, or words of a mutant's name, to run only those.
"""

import argparse
import compileall
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import cache_from_source
from pathlib import Path
from queue import Queue

ROOT = Path(__file__).parents[2]
_TESTS_FAILED = 1
"""pytest's exit code where tests ran and some failed; others mean that nothing was shown."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One sabotage: `old` becomes `new` in `file`, and a test of `killed_by` must fail."""

    part: str
    name: str
    file: str
    old: str
    new: str
    killed_by: tuple[str, ...]

    def apply(self, root: Path) -> None:
        """Write the sabotaged file below a copy of the project."""
        (root / self.file).write_text(self.patched(), encoding="utf-8")

    def patched(self) -> str:
        """The text of the sabotaged file; `ValueError` where the patch no longer fits."""
        text = (ROOT / self.file).read_text(encoding="utf-8")
        if (count := text.count(self.old)) != 1:
            raise ValueError(f"{self.part}: {self.name!r}: old occurs {count} times in {self.file}, expected once")
        return text.replace(self.old, self.new)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the named tests said of a mutant."""

    mutant: Mutant
    code: int
    output: str

    @property
    def killed(self) -> bool:
        """Whether tests ran and some failed."""
        return self.code == _TESTS_FAILED


def read_mutants(folder: Path = Path(__file__).parent) -> list[Mutant]:
    """All mutants of the lists in a folder."""
    found = []
    for file in sorted(folder.glob("*.toml")):
        for entry in tomllib.loads(file.read_text(encoding="utf-8"))["mutant"]:
            tests = tuple(entry.pop("killed_by"))
            found.append(Mutant(part=file.stem, killed_by=tests, **entry))
    return found


class Runner:
    """Runs pytest against one copy of the sources, each time in a new process that has other libraries imported already.

    A process that imports NumPy, SciPy and their like, but nothing of the product, is forked for every mutant: to import
    them anew each time would take longer than most of the tests.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        environment = {
            **os.environ,
            "PYTHONPATH": str(root / "src"),
            "PYTHONDONTWRITEBYTECODE": "1",  # what a sabotaged file was compiled to is not kept
            "HYPOTHESIS_STORAGE_DIRECTORY": str(root / "hypothesis"),
            "CI": "true",  # the same Hypothesis examples every time
        }
        command = [sys.executable, str(Path(__file__).with_name("forked_tests.py"))]
        self._process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, mutant: Mutant) -> Outcome:
        """Run the tests that must kill a mutant against the copy, which is whole again afterwards."""
        process, output = self._process, self.root / "output"
        assert process.stdin is not None
        assert process.stdout is not None
        with _sabotaged(mutant, self.root):
            process.stdin.write(json.dumps({"tests": mutant.killed_by, "output": str(output)}) + "\n")
            process.stdin.flush()
            code = int(process.stdout.readline())
        return Outcome(mutant, code, output.read_text(encoding="utf-8", errors="replace"))

    def close(self) -> None:
        """End the process that is forked."""
        self._process.communicate()


@contextmanager
def _sabotaged(mutant: Mutant, root: Path) -> Iterator[None]:
    compiled = Path(cache_from_source(mutant.file))
    (root / compiled).unlink(missing_ok=True)  # it is told from a newer one by the second and the size alone
    mutant.apply(root)
    try:
        yield
    finally:
        for file in (mutant.file, compiled):
            if (ROOT / file).exists():
                shutil.copy2(ROOT / file, root / file)


@contextmanager
def _runners(count: int) -> Iterator[Queue[Runner]]:
    """Runners with copies of the sources, compiled: what is not sabotaged is compiled once, not for every mutant."""
    compileall.compile_dir(ROOT / "src", quiet=1)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        runners: Queue[Runner] = Queue()
        for number in range(count):
            root = Path(folder) / str(number)
            shutil.copytree(ROOT / "src", root / "src")  # with the times of the files, by which compiled ones are valid
            runners.put(Runner(root))
        yield runners
        for _ in range(count):
            runners.get().close()


def main() -> int:
    """Run the mutants that the command line names, two at a time; say which survived."""
    parser = argparse.ArgumentParser(description="Break the product on purpose; the tests must notice.")
    parser.add_argument("words", nargs="*", help="a part (the stem of a TOML file) or words of a mutant's name")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    chosen = [
        mutant
        for mutant in read_mutants()
        if not options.words or any(word in (mutant.part, mutant.name) or word in mutant.name for word in options.words)
    ]
    survivors = []
    with _runners(options.jobs) as runners, ThreadPoolExecutor(options.jobs) as pool:

        def run_one(mutant: Mutant) -> Outcome:
            runner = runners.get()
            try:
                first = runner.run(mutant)
                if first.killed:
                    return first
                print(f"again     {mutant.part}: {mutant.name} (pytest ended with {first.code})", flush=True)
                return runner.run(mutant)  # a busy machine may end a run before its tests could fail
            except ValueError as error:  # it no longer fits: the others are tried all the same
                return Outcome(mutant, -1, str(error))
            finally:
                runners.put(runner)

        for outcome in pool.map(run_one, chosen):
            mutant = outcome.mutant
            print(f"{'killed' if outcome.killed else 'SURVIVED':9} {mutant.part}: {mutant.name}", flush=True)
            if not outcome.killed:
                survivors.append(outcome)
    for outcome in survivors:
        print(f"\n--- {outcome.mutant.part}: {outcome.mutant.name}\n{outcome.output[-3000:]}")
    print(f"\n{len(chosen) - len(survivors)} passed, {len(survivors)} failed")
    return 1 if survivors or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
