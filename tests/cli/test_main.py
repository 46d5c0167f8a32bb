import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import discreet as package

COMMANDS = [
    "account", "anonymize", "ask", "attack", "bounds", "budget", "channel", "check", "claims", "commute", "demo", "explain", "fairness", "init", "ledger", "local", "mechanism", "predict", "risk", "serve", "shell",
    "statement", "synth", "token", "train",
]  # fmt: skip


def test_help_lists_the_groups(discreet):
    printed = discreet("--help")
    assert printed.code == 0
    lines = printed.out.partition("Commands:")[2].splitlines()
    assert [line.split()[0] for line in lines if line[:2] == "  " != line[1:3]] == COMMANDS


@pytest.mark.parametrize("command", ["ask", "bounds", "budget", "check", "explain", "init", "shell", "statement"])
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
    commands = re.findall(r"^  (\S+)", top.out.partition("Commands:")[2], re.MULTILINE)
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


def test_help_loads_click_and_little_else():
    """A command's own modules, and the heavy libraries, are imported when it is called."""
    program = (
        "import sys\n"
        "sys.argv = ['discreet', '--help']\n"
        "from discreet.cli import main\n"
        "try: main()\n"
        "except SystemExit: print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert "Commands:" in done.stdout
    loaded = set(done.stderr.split())
    ours = {name for name in loaded if name.startswith("discreet")}
    assert ours <= {"discreet", "discreet.cli", "discreet.errors", "discreet.durable"}
    assert not loaded & {"numpy", "scipy", "duckdb", "pyarrow", "sqlglot", "cryptography", "asyncio"}


def test_a_closed_pipe_is_no_traceback():
    script = Path(sys.executable).parent / "discreet"
    done = subprocess.run(
        ["bash", "-c", f"{script} mechanism laplace --epsilon 1 --sensitivity 1 | head -1"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr


def test_exit_codes_are_told_by_help_and_are_what_happens(discreet, tmp_path):
    help_ = discreet("--help").out
    for line in (  # each on a line of its own
        "0  done",
        "1  an error",
        "2  wrong usage",
        "3  a check failed",
        "4  the question cannot be answered as written",
        "5  the budget",
    ):
        assert f"\n    {line}" in help_
    (tmp_path / "t.csv").write_text("age\n30\n")
    (tmp_path / "policy.toml").write_text(
        "[dataset]\nname = 'd'\nneighbors = 'change one'\n[budget]\neveryone = 'all'\nepsilon = 1\n"
        "[tables.t]\nsource = 't.csv'\nunit = 'row'\ncolumns.age = {type = 'integer', lower = 0, upper = 9}\n"
    )
    question = ["policy.toml", "SELECT SUM(age) FROM t", "--epsilon"]
    assert discreet("ask", *question, "0.5").code == 0
    assert discreet("ask", *question, "0").code == 1
    assert discreet("ask", *question, "1", "--nothing").code == 2
    assert discreet("ask", "policy.toml", "SELECT age FROM t", "--epsilon", "1").code == 4
    assert discreet("ask", *question, "0.75").code == 5
    (tmp_path / "t.csv").unlink()
    assert discreet("check", "policy.toml").code == 3


INTERRUPTED = """
import importlib.abc, os, runpy, signal, sys

class Interrupt(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == {module!r}:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
sys.argv = ["discreet", *{arguments!r}]
runpy.run_module("discreet", run_name="__main__", alter_sys=True)
"""


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize(
    "module", ["discreet.cli", "click", "discreet.errors", "discreet.cli.ask", "numpy", "pyarrow", "duckdb",
               "discreet.curator.engines.csv_files", "pyarrow.compute", "discreet.sql.release.release"],
)  # fmt: skip
def test_an_interrupt_at_any_moment_is_one_line(module, tmp_path):
    """Imports are moments that can be named; that of pyarrow.compute is in the middle of reading a CSV file."""
    (tmp_path / "t.csv").write_text("a\n1\n")
    (tmp_path / "t.toml").write_text(
        '[dataset]\nname = "t"\nneighbors = "add or remove one"\n[budget]\neveryone = "all"\nepsilon = 1\n'
        '[tables.t]\nsource = "t.csv"\nunit = "row"\ncolumns.a = {type = "integer"}\n'
    )
    arguments = ["ask", str(tmp_path / "t.toml"), "SELECT COUNT(*) AS n FROM t", "--epsilon", "1"]
    script = INTERRUPTED.format(module=module, arguments=arguments)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode in (130, -signal.SIGINT)  # the same to a shell: an interrupted library may leave the second
    assert "Traceback" not in done.stderr
    *remarks, last = [line for line in done.stderr.splitlines() if line]
    assert last == "stopped" or "its release failed" in last
    assert remarks in ([], ["stopped: nothing was charged"])


def test_the_package_runs_as_a_program():
    done = subprocess.run([sys.executable, "-m", "discreet", "--version"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert package.__version__ in done.stdout
    done = subprocess.run([sys.executable, "-m", "discreet", "nothing"], capture_output=True, text=True, check=False)
    assert done.returncode == 2


WITHOUT_LOCKS = "import sys; sys.modules['fcntl'] = None; "
REFUSAL = "discreet needs the file locks of Linux or macOS, "


def test_without_file_locks_the_command_line_is_refused_in_one_sentence():
    program = WITHOUT_LOCKS + "from discreet.__main__ import main; main()"
    done = subprocess.run([sys.executable, "-c", program, "--version"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"discreet: {REFUSAL}")
    assert done.stderr.endswith("on Windows, run it inside WSL\n")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "act",
    [
        "import discreet; discreet.open('policy.toml')",
        "from discreet.curator.stores.sqlite import _Turn; from pathlib import Path; _Turn(Path(sys.argv[1])).__enter__()",
        "import discreet.durable as d; d._wait_for_lock(0, None, 1)",
        "import discreet.learning.sgd.run_state as c; c._lock(0, None)",
    ],
)
def test_without_file_locks_nothing_is_opened(act, tmp_path):
    command = [sys.executable, "-c", WITHOUT_LOCKS + act, str(tmp_path / "ledger")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"UnsupportedPlatform: {REFUSAL}" in done.stderr
