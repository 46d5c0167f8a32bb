"""The harness on tiny contestants: what it measures, how it survives trouble, what its table looks like."""

import json
import re
import runpy
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from bench.harness import Bar, Comparison, Contestant, Result  # noqa: E402

from bench import __main__ as command  # noqa: E402
from bench import harness, report  # noqa: E402

SNIPPETS = """
import os, sys, time

def idle():
    return lambda: time.sleep(0.01)

def busy(seconds):
    def timed():
        end = time.process_time() + seconds
        while time.process_time() < end:
            pass
        return {"answer": 42.0}
    return timed

def hungry(megabytes):
    return lambda: len(bytearray(megabytes * 1_000_000).replace(b"a", b"b"))

def sleepy():
    return lambda: time.sleep(60)

def crashing():
    raise ValueError("no such file: " + os.path.join(os.getcwd(), "secret", "folder", "data.csv"))

def dying():
    return lambda: os._exit(3)

def silent():
    return lambda: os._exit(0)

def chatty():
    def timed():
        print("thank you for using chatty")
    return timed

def elsewhere(prefix):
    return lambda: {"elsewhere": float(sys.prefix != prefix)}
"""


@pytest.fixture
def snippet(tmp_path: Path) -> Callable[[str], Callable[..., harness.Timed]]:
    path = tmp_path / "snippets.py"
    path.write_text(SNIPPETS)
    found = runpy.run_path(str(path))
    return lambda name: found[name]


def quiet(_: str) -> None:
    pass


def compared(*contestants: Contestant, bars: tuple[Bar, ...] = (), rounds: int = 1) -> Result:
    return harness.compare(Comparison("fake", "A fake", contestants, bars), rounds=rounds, say=quiet)


def test_two_contestants_are_timed_in_interleaved_rounds(snippet: Any) -> None:
    said: list[str] = []
    a = Contestant("work", "busy", snippet("busy"), {"seconds": 0.05}, work=10)
    b = Contestant("work", "idle", snippet("idle"))
    result = harness.compare(Comparison("fake", "A fake", (a, b)), rounds=2, say=said.append)
    assert [line.rsplit(": ", 1)[1] for line in said] == ["busy", "idle", "busy", "idle"]
    busy, idle = result.rows
    assert [len(row.runs) for row in result.rows] == [2, 2]
    assert 0.005 <= min(busy.values("cpu_s")) < 0.05  # per unit of work, of which a run does ten
    assert idle.median("cpu_s") < 0.005 < 0.01 <= idle.median("wall_s")  # type: ignore[operator]
    assert busy.values("answer") == [42, 42]
    assert idle.values("answer") == []


def test_memory_is_what_the_timed_part_added(snippet: Any) -> None:
    ballast = bytearray(300_000_000)  # the parent's memory must not be counted
    result = compared(
        Contestant("memory", "hungry", snippet("hungry"), {"megabytes": 100}),
        Contestant("memory", "idle", snippet("idle")),
    )
    hungry, idle = (row.runs[0] for row in result.rows)
    assert 190 < hungry.grew_mb < 230  # the array and its copy
    assert idle.grew_mb < 5
    assert idle.peak_mb < len(ballast) / 1e6


@pytest.mark.parametrize(
    ("name", "trouble"),
    [
        ("crashing", "crashed: ValueError: no such file: …/data.csv"),
        ("dying", "crashed: exit code 3"),
        ("silent", "crashed: it reported nothing"),
    ],
)
def test_a_crash_is_reported_once_and_the_others_go_on(snippet: Any, name: str, trouble: str) -> None:
    said: list[str] = []
    contestants = (Contestant("work", name, snippet(name)), Contestant("work", "idle", snippet("idle")))
    result = harness.compare(Comparison("fake", "A fake", contestants), rounds=2, say=said.append)
    crashed, idle = result.rows
    assert (crashed.trouble, crashed.runs, len(idle.runs)) == (trouble, (), 2)
    assert sum(line == f"TROUBLE work: {name}: {trouble}" for line in said) == 1
    assert f"**{trouble}**" in report.as_markdown(result)


def test_a_contestant_that_does_not_end_is_stopped(snippet: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "TIMEOUT_S", 1.0)
    assert compared(Contestant("work", "sleepy", snippet("sleepy"))).rows[0].trouble == "stopped after 1 s"


def test_a_contestant_may_print(snippet: Any) -> None:
    assert len(compared(Contestant("work", "chatty", snippet("chatty"))).rows[0].runs) == 1


@pytest.fixture
def peers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A peers.toml with one peer that is easy and one that is impossible to install, without a network."""
    path = tmp_path / "peers.toml"
    path.write_text(
        '[easy]\nrequires = []\n[impossible]\nrequires = ["impossible @ file:///no/such/impossible-1.0-py3-none-any.whl"]\n'
    )
    monkeypatch.setattr(harness, "PEERS_TOML", path)
    monkeypatch.setenv("DISCREET_PEERS", str(tmp_path / "peers"))
    return path


@pytest.mark.parametrize(("peer", "why"), [("impossible", "not installed: "), ("unknown", "peers.toml does not know")])
def test_a_peer_that_cannot_be_installed_is_skipped_loudly(snippet: Any, peers: Path, peer: str, why: str) -> None:
    said: list[str] = []
    bar = Bar("faster than the peer", "work", "idle", "peer", at_most=1)
    contestants = (
        Contestant("work", "idle", snippet("idle")),
        Contestant("work", "peer", snippet("idle"), peer=peer),
    )
    result = harness.compare(Comparison("fake", "A fake", contestants, (bar,)), rounds=2, say=said.append)
    ours, theirs = result.rows
    assert (len(ours.runs), theirs.runs) == (2, ())
    assert theirs.trouble.startswith(why)
    assert said[0] == f"SKIPPED peer: {theirs.trouble}"
    assert theirs.trouble in report.as_markdown(result)
    assert str(peers.parent) not in report.as_markdown(result)
    assert [verdict.word for verdict in result.verdicts] == ["not measured"]


@pytest.mark.skipif(not Path(sys.executable).with_name("uv").exists(), reason="needs uv beside Python")
def test_a_peer_runs_in_its_own_environment(snippet: Any, peers: Path) -> None:
    arguments = {"prefix": sys.prefix}
    result = compared(
        Contestant("place", "ours", snippet("elsewhere"), arguments),
        Contestant("place", "easy", snippet("elsewhere"), arguments, peer="easy"),
    )
    assert [row.values("elsewhere") for row in result.rows] == [[0.0], [1.0]]
    assert (peers.parent / "peers" / "easy" / "bin" / "python").exists()


def test_bars_compare_medians_ratios_and_facts(snippet: Any) -> None:
    bars = (
        Bar("slower", "work", "busy", "idle", at_least=5),
        Bar("faster", "work", "busy", "idle", at_most=1),
        Bar("in time", "work", "busy", at_most=1.0),
        Bar("42", "work", "busy", measure="answer", at_least=42, at_most=42),
        Bar("41", "work", "busy", measure="answer", at_most=41),
        Bar("nobody", "work", "nobody"),
        Bar("no such fact", "work", "busy", measure="question"),
        Bar("either", "work", "busy", at_least=42, or_measure="answer"),
        Bar("neither", "work", "busy", at_least=43, or_measure="answer"),
        Bar("one of them", "work", "busy", measure="question", at_least=42, or_measure="answer"),
    )
    busy = Contestant("work", "busy", snippet("busy"), {"seconds": 0.1})
    result = compared(busy, Contestant("work", "idle", snippet("idle")), bars=bars)
    words = [verdict.word for verdict in result.verdicts]
    assert words == ["pass", "FAIL", "pass", "pass", "FAIL", "not measured", "not measured", "pass", "FAIL", "pass"]


def test_the_table_has_one_line_a_contestant_and_one_a_bar(snippet: Any, tmp_path: Path) -> None:
    bars = (Bar("|answer| = 42", "work | play", "busy", measure="answer", at_least=42, at_most=42),)
    result = compared(
        Contestant("work | play", "busy", snippet("busy"), {"seconds": 0.01}, remark="exact"),
        Contestant("work | play", "crashing", snippet("crashing")),
        bars=bars,
        rounds=2,
    )
    report.write(result, tmp_path / "results")
    text = (tmp_path / "results" / "fake.md").read_text()
    tables = re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE)
    shapes = [[len(re.split(r"(?<!\\)\|", line)) - 2 for line in table.splitlines()] for table in tables]
    assert shapes == [[8] * 4, [4] * 3]
    assert re.search(
        r"^\| work \\\| play \| busy \| 10(\.\d)? ms \(.*–.*\) \| 1 \| .* ms \| \d+ \| 42 \| exact \|$", text, re.M
    )
    assert "| |answer| = 42 |".replace("|answer|", r"\|answer\|") in text


def test_the_json_holds_every_measure_and_names_no_path(snippet: Any, tmp_path: Path) -> None:
    busy = Contestant("work", "busy", snippet("busy"), {"seconds": 0.01})
    result = compared(busy, Contestant("work", "crashing", snippet("crashing")), rounds=3)
    report.write(result, tmp_path / "results")
    text = (tmp_path / "results" / "fake.json").read_text()
    document = json.loads(text)
    assert set(document) == {"name", "title", "machine", "rounds", "rows", "bars"}
    assert set(document["machine"]) == {"date", "cores", "system", "python"}
    first, second = document["rows"]
    for measure in ("cpu_s", "wall_s", "peak_mb", "grew_mb", "answer"):
        assert first[measure]["min"] <= first[measure]["median"] <= first[measure]["max"]
    assert second["trouble"].startswith("crashed: ValueError")
    for private in (str(ROOT), str(Path.home()), str(tmp_path), sys.prefix):
        assert private + "/" not in text


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("name", command.COMPARISONS)
def test_every_comparison_is_well_formed(name: str, quick: bool) -> None:
    comparison = command._load(name, quick=quick)
    known = tomllib.loads(harness.PEERS_TOML.read_text("utf-8"))
    places = [(c.case, c.who) for c in comparison.contestants]
    assert comparison.name == name
    assert len(set(places)) == len(places)
    for contestant in comparison.contestants:
        first = next(c for c in comparison.contestants if c.case == contestant.case)
        assert first.who.partition(", ")[0] == "discreet"  # with an engine, where engines are compared
        assert contestant.peer in ("", *known)
        json.dumps(dict(contestant.arguments))
    for bar in comparison.bars:
        assert (bar.case, bar.of) in places
        assert not bar.over or (bar.case, bar.over) in places
        assert bar.at_least > -float("inf") or bar.at_most < float("inf")


@pytest.mark.parametrize(
    ("options", "bar", "code", "written"),
    [
        ([], Bar("holds", "work", "busy", at_most=10), 0, True),
        ([], Bar("missed", "work", "busy", at_most=0), 1, True),
        ([], Bar("peer missing", "work", "busy", "peer", at_most=0), 0, True),
        (["--quick"], Bar("missed", "work", "busy", at_most=0), 0, False),
    ],
)
def test_the_command_judges_and_writes(
    snippet: Any, peers: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], bar: Bar, code: int, written: bool
) -> None:
    contestants = (
        Contestant("work", "busy", snippet("busy"), {"seconds": 0.01}),
        Contestant("work", "peer", snippet("idle"), peer="unknown"),
    )
    fake = Comparison("noise", "A fake", contestants, (bar,), rounds=1)
    monkeypatch.setattr(command, "_load", lambda name, quick: fake)
    monkeypatch.setattr(command, "ROOT", peers.parent)
    assert command.main(["noise", *options]) == code
    assert (peers.parent / "bench" / "results" / "noise.md").exists() == written


def test_the_command_fails_when_our_own_code_crashes(
    snippet: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = Comparison("noise", "A fake", (Contestant("work", "discreet", snippet("crashing")),))
    monkeypatch.setattr(command, "_load", lambda name, quick: fake)
    assert command.main(["noise", "--quick", "--json"]) == 1
    printed, said = capsys.readouterr()
    assert json.loads(printed)[0]["rows"][0]["trouble"].startswith("crashed")
    assert "TROUBLE" in said


def test_the_command_lists_and_refuses(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--list"]) == 0
    assert [line.split(":")[0] for line in capsys.readouterr().out.splitlines()] == list(command.COMPARISONS)
    with pytest.raises(SystemExit, match="2"):
        command.main(["nonsense"])
    assert "unknown comparison nonsense; known are noise" in capsys.readouterr().err


def test_the_page_of_benchmarks_names_every_comparison() -> None:
    text = (ROOT / "bench" / "README.md").read_text("utf-8")
    assert set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)) == set(command.COMPARISONS)
