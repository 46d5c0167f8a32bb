"""Runs a comparison in one go: ours, the peers in their own environments, and the limit.

A contestant is a function `prepare(**arguments)` that imports, sets up, warms up, and returns the function to
be timed. Each timing is one fresh process, so imports, caches and memory of one contestant never touch
another. Rounds are interleaved (A B C A B C …): when the machine slows down, everybody slows down.

Peers live outside the project, each in an environment of its own (`peers.toml`), made here when missing.
"""

import json
import math
import os
import re
import runpy
import statistics
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib import metadata
from inspect import getfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PEERS_TOML = Path(__file__).with_name("peers.toml")
TIMEOUT_S = 300.0

Timed = Callable[[], object]
"""What is timed. A dict of numbers that it returns is kept as facts, each a column of the table."""


@dataclass(frozen=True)
class Contestant:
    """One line of the table.

    `case` names the work, which all contestants of the case share; `who` does it. `work` says how many units
    of the case one run does: seconds are divided by it. `peer` names an environment of peers.toml, "" is ours.
    The versions of the peer (or of discreet) and of `packages` are recorded.
    """

    case: str
    who: str
    prepare: Callable[..., Timed]
    arguments: Mapping[str, object] = field(default_factory=dict)
    work: float = 1
    peer: str = ""
    remark: str = ""
    packages: tuple[str, ...] = ("numpy",)


@dataclass(frozen=True)
class Bar:
    """A promise: the median `measure` of one contestant, or its ratio to another's, lies within limits.

    With `or_measure`, the larger of the two: for a promise to be better in one thing or in the other.
    """

    promise: str
    case: str
    of: str
    over: str = ""
    measure: str = "cpu_s"
    at_least: float = -math.inf
    at_most: float = math.inf
    or_measure: str = ""


@dataclass(frozen=True)
class Comparison:
    """What is compared, and what must come out."""

    name: str
    title: str
    contestants: tuple[Contestant, ...]
    bars: tuple[Bar, ...] = ()
    rounds: int = 5

    def shortened(self, most: int) -> "Comparison":
        """At most so many of its cases, spread over all of them, with their bars: for a smoke run."""
        cases = list(dict.fromkeys(contestant.case for contestant in self.contestants))
        kept = set(cases[:: max(1, math.ceil(len(cases) / most))])
        return replace(
            self,
            contestants=tuple(contestant for contestant in self.contestants if contestant.case in kept),
            bars=tuple(bar for bar in self.bars if bar.case in kept),
        )


@dataclass(frozen=True)
class Run:
    """What one process reported; `grew_mb` is its peak memory above what it held before the timed part."""

    cpu_s: float
    wall_s: float
    peak_mb: float
    grew_mb: float
    facts: dict[str, float]
    versions: dict[str, str]


@dataclass(frozen=True)
class Row:
    """A contestant with its runs; without runs, `trouble` says why."""

    contestant: Contestant
    runs: tuple[Run, ...] = ()
    trouble: str = ""

    def values(self, measure: str) -> list[float]:
        """One value a round of a measured quantity or a reported fact; seconds are per unit of work."""
        share = self.contestant.work if measure in ("cpu_s", "wall_s") else 1
        values = [{**run.facts, **vars(run)}.get(measure) for run in self.runs]
        return [value / share for value in values if value is not None]

    def median(self, measure: str) -> float | None:
        """The median over the rounds, None where nothing was measured."""
        values = self.values(measure)
        return statistics.median(values) if values else None


@dataclass(frozen=True)
class Verdict:
    """A bar, the value measured for it (None: not measured) and whether it holds."""

    bar: Bar
    value: float | None

    @property
    def word(self) -> str:
        """pass, FAIL or not measured."""
        if self.value is None:
            return "not measured"
        return "pass" if self.bar.at_least <= self.value <= self.bar.at_most else "FAIL"


@dataclass(frozen=True)
class Result:
    """A comparison that was run."""

    comparison: Comparison
    rows: tuple[Row, ...]
    rounds: int

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """Every bar of the comparison, judged."""
        return tuple(Verdict(bar, self._value(bar)) for bar in self.comparison.bars)

    def _value(self, bar: Bar) -> float | None:
        """The value of its measure; of two, of the one that is better for a bar from below."""
        found = [self._measured(bar, measure) for measure in (bar.measure, bar.or_measure) if measure]
        return max((value for value in found if value is not None), default=None)

    def _measured(self, bar: Bar, measure: str) -> float | None:
        of, over = (self._median(bar, who, measure) for who in (bar.of, bar.over))
        if not bar.over:
            return of
        return of / over if of is not None and over else None

    def _median(self, bar: Bar, who: str, measure: str) -> float | None:
        rows = (r for r in self.rows if (r.contestant.case, r.contestant.who) == (bar.case, who))
        return next((row.median(measure) for row in rows), None)


def compare(
    comparison: Comparison, *, rounds: int | None = None, install: bool = True, say: Callable[[str], None] = print
) -> Result:
    """Run every contestant `rounds` times, interleaved. A contestant in trouble is reported; the others go on.

    Without `install`, peers that are not there already are left out.
    """
    rounds = rounds or comparison.rounds
    pythons = {peer: environment(peer, install=install) for peer in sorted({c.peer for c in comparison.contestants})}
    rows = [Row(c, trouble=pythons[c.peer][1]) for c in comparison.contestants]
    for row in rows:
        if row.trouble:
            say(f"SKIPPED {row.contestant.who}: {row.trouble}")
    for turn in range(rounds):
        for i, row in enumerate(rows):
            if row.trouble:
                continue
            say(f"{comparison.name}: round {turn + 1} of {rounds}: {row.contestant.case}: {row.contestant.who}")
            run, trouble = _run(row.contestant, pythons[row.contestant.peer][0])
            rows[i] = Row(row.contestant, (*row.runs, run) if run else row.runs, trouble)
            if trouble:
                say(f"TROUBLE {row.contestant.case}: {row.contestant.who}: {trouble}")
    return Result(comparison, tuple(rows), rounds)


# Environments of peers


def environment(peer: str, *, install: bool = True) -> tuple[Path, str]:
    """The Python of a peer's environment, made and filled when missing; and why there is none, else ""."""
    if not peer:
        return Path(sys.executable), ""
    folder = Path(os.environ.get("DISCREET_PEERS") or Path.home() / ".cache" / "discreet-peers") / peer
    python = folder / "bin" / "python"
    try:
        requirements: list[str] = tomllib.loads(PEERS_TOML.read_text("utf-8"))[peer]["requires"]
        uv = str(Path(sys.executable).with_name("uv"))
        if not install:
            return python, "" if python.exists() else "not installed: a smoke run installs nothing"
        if not python.exists():
            _quietly(uv, "venv", "--python", sys.executable, str(folder))
        if requirements:
            _quietly(uv, "pip", "install", "--python", str(python), *requirements)
    except KeyError:
        return python, f"peers.toml does not know {peer}"
    except (OSError, subprocess.SubprocessError) as error:
        return python, f"not installed: {_last_line(getattr(error, 'stderr', '') or str(error))}"
    return python, ""


def _quietly(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=TIMEOUT_S)


# One run, seen from outside and from inside its process


def _run(contestant: Contestant, python: Path) -> tuple[Run | None, str]:
    """Time a contestant once in a fresh process of `python`: its run, or what went wrong."""
    arguments = {"prepare": contestant.prepare.__qualname__, "arguments": dict(contestant.arguments)}
    packages = [contestant.peer or "discreet", *contestant.packages]
    task = {"file": getfile(contestant.prepare), "packages": packages, **arguments}
    one_thread = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
    environ = {**os.environ, **one_thread, "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "src")))}
    command = [str(python), "-c", "from bench.harness import child; child()", json.dumps(task)]
    try:
        done = subprocess.run(command, env=environ, check=False, capture_output=True, text=True, timeout=TIMEOUT_S)
        if done.returncode:
            return None, f"crashed: {_last_line(done.stderr) or f'exit code {done.returncode}'}"
        return Run(**json.loads(done.stdout.splitlines()[-1])), ""
    except subprocess.TimeoutExpired:
        return None, f"stopped after {TIMEOUT_S:.0f} s"
    except (IndexError, TypeError, ValueError):
        return None, "crashed: it reported nothing"


def child() -> None:
    """The inside of a run: prepare, time, report as the last line of the output."""
    task = json.loads(sys.argv[1])
    timed: Timed = runpy.run_path(task["file"])[task["prepare"]](**task["arguments"])
    before_mb, _ = _memory_mb()
    wall, cpu = time.perf_counter(), _cpu_s()
    facts = timed()
    cpu, wall = _cpu_s() - cpu, time.perf_counter() - wall
    _, peak_mb = _memory_mb()
    grew_mb = max(peak_mb - before_mb, 0.0)
    versions = {name: _version(name) for name in task["packages"]}
    run = Run(cpu, wall, peak_mb, grew_mb, facts if isinstance(facts, dict) else {}, versions)
    print("\n" + json.dumps(vars(run)))


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _cpu_s() -> float:
    """CPU seconds of this process and of the children it has waited for."""
    times = os.times()
    return time.process_time() + times.children_user + times.children_system


def _memory_mb() -> tuple[float, float]:
    """Memory held now and at most so far. Not ru_maxrss where avoidable: on Linux it survives exec."""
    try:
        lines = Path("/proc/self/status").read_text("ascii").splitlines()
        status = dict(line.split(":", 1) for line in lines if line.startswith(("VmRSS", "VmHWM")))
        now, peak = (int(status[key].split()[0]) * 1024 / 1e6 for key in ("VmRSS", "VmHWM"))
    except (OSError, KeyError):
        import resource

        unit = 1 if sys.platform == "darwin" else 1024
        now = peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
    return now, peak


def _last_line(text: str) -> str:
    """The last line of an error, without the folders and addresses it may name."""
    lines = [line.strip() for line in text.splitlines() if line.strip()] or [""]
    return re.sub(r"/(?:[^\s/'\"]+/)+", "…/", lines[-1])[:200]
