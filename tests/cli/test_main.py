import subprocess
import sys
import time
from pathlib import Path

import pytest

import discreet as package

COMMANDS = [
    "account", "anonymize", "ask", "attack", "budget", "channel", "check", "commute", "explain", "fairness", "init", "ledger", "local", "mechanism", "predict", "risk", "shell",
    "statement", "synth", "train",
]  # fmt: skip


def test_help_lists_the_groups(discreet):
    printed = discreet("--help")
    assert printed.code == 0
    lines = printed.out.partition("Commands:")[2].splitlines()
    assert [line.split()[0] for line in lines if line[:2] == "  " != line[1:3]] == COMMANDS


@pytest.mark.parametrize("command", ["ask", "budget", "check", "explain", "init", "shell", "statement"])
def test_every_single_command_has_help(discreet, command):
    printed = discreet(command, "--help")
    assert printed.code == 0
    assert command in ("init", "shell") or "--json" in printed.out


@pytest.mark.parametrize(
    "group", ["account", "attack", "channel", "commute", "fairness", "ledger", "local", "mechanism"]
)
def test_every_group_and_command_has_help(discreet, group):
    top = discreet(group, "--help")
    assert top.code == 0
    commands = [line.split()[0] for line in top.out.partition("Commands:")[2].splitlines() if line.startswith("  ")]
    assert commands
    for command in commands:
        printed = discreet(group, command, "--help")
        assert printed.code == 0
        assert "--json" in printed.out


def test_version(discreet):
    assert package.__version__ in discreet("--version").out


def test_unknown_command_says_what_there_is(discreet):
    printed = discreet("frobnicate")
    assert printed.code == 2
    assert ", ".join(COMMANDS) in printed.err


def test_errors_are_one_line_without_a_traceback(discreet):
    printed = discreet("mechanism", "geometric", "--epsilon", "-1", "--sensitivity", "1")
    assert printed.code == 1
    assert printed.out == ""
    assert printed.err == "discreet: epsilon: got '-1', expected a number > 0\n"


def test_help_answers_in_a_fraction_of_what_scipy_would_take():
    """`discreet --help` must not import the heavy libraries: compared with importing them, in one run."""
    script = Path(sys.executable).parent / "discreet"

    def seconds(*command):
        best = float("inf")
        for _ in range(5):
            start = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            best = min(best, time.perf_counter() - start)
        return best

    heavy = seconds(sys.executable, "-c", "import numpy, scipy.stats, scipy.optimize")
    assert seconds(script, "--help") < 0.6 * heavy
    loaded = subprocess.run(
        [sys.executable, "-c", "import sys, discreet.cli; print('scipy' in sys.modules, 'numpy' in sys.modules)"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert loaded.stdout.split() == ["False", "False"]


def test_a_closed_pipe_is_no_traceback():
    script = Path(sys.executable).parent / "discreet"
    done = subprocess.run(
        ["bash", "-c", f"{script} mechanism laplace --epsilon 1 --sensitivity 1 | head -1"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr
