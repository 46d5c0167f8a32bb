"""Every command in the documentation runs, and prints what the page says ("..." stands for anything).

Plain calls of `discreet` and Python scripts run in this process; what needs a shell (pipes, files, exit codes) runs in
one, with the program as it is installed. A server that a page starts listens on a free port in place of the page's, and
ends with the page.
"""

import contextlib
import doctest
import io
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path

import pytest

import discreet
from discreet.cli import _COMMANDS, main

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "bench").glob("*.md"))]
BLOCK = re.compile(r"^(<!-- a real run -->\n)?```console\n(.*?)^```", re.DOTALL | re.MULTILINE)
NUMBER = re.compile(r"-?\d+(\.\d+)?(e-?\d+)?")
SKIPPED = ("make ", "git ", "pip ")  # installs and CI run these
SHELL = re.compile(r"[|<>;&$`\\*?~\n]")  # what a shell would make something of, outside quotation marks
SCRIPT = re.compile(r"python - <<'END'\n(.*)\nEND", re.DOTALL)
PORT = re.compile(r"--port (\d+)")
PATIENCE = 120  # seconds for a server to listen, on a busy machine


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


def without_noise(printed: str) -> str:
    """What every run prints alike: in lines with intervals, any number is as good as another of its kind.

    >>> without_noise("Oslo  42 ± 3  1.5 [1, 2]\\nε 0.5 charged")
    'Oslo # ~ # ~\\nε 0.5 charged'
    """
    lines = []
    for line in printed.splitlines():
        if "±" in line or re.search(r"\[.*\]", line):
            masked = re.sub(r"± #|\[#, #\]", "~", NUMBER.sub("#", line))
            lines.append(" ".join(masked.split()))
        else:
            lines.append(line)
    return "\n".join(lines)


def words_of(command: str) -> list[str] | None:
    """The words of a plain call of `discreet`; none where a shell is needed."""
    if not command.startswith("discreet ") or "$" in command or "`" in command:
        return None
    outside = re.sub(r"'[^']*'|\"[^\"]*\"", "", command)
    return None if SHELL.search(outside) else shlex.split(command)


def run(command: str, monkeypatch: pytest.MonkeyPatch) -> tuple[int, str]:
    """The exit code of a command and all that it prints."""
    if (words := words_of(command)) is not None:
        monkeypatch.setattr(sys, "argv", words)
        return _inside(main)
    if script := SCRIPT.fullmatch(command):
        code = compile(script[1], "<document>", "exec")
        return _inside(lambda: exec(code, {"__name__": "__main__"}))
    env = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    env |= {"PYTHONPATH": str(Path(discreet.__file__).parents[1])}  # the same sources as in this process
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:  # a server would keep pipes open
        shell = ["bash", "-c", command]
        done = subprocess.run(shell, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err, check=False)
        if "& " in command and (port := PORT.search(command)):
            wait_for(int(port[1]))
        out.seek(0), err.seek(0)
        return done.returncode, out.read() + err.read()


def wait_for(port: int) -> None:
    """Until something listens there."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.05)
    raise AssertionError(f"nothing listens on port {port} after {PATIENCE} seconds")


def with_free_ports(text: str) -> str:
    """The page with free ports in place of those that its servers name: two runs at once do not meet."""
    for name in set(PORT.findall(text)):
        with socket.create_server(("127.0.0.1", 0)) as free:
            text = re.sub(rf"\b{name}\b", str(free.getsockname()[1]), text)
    return text


def end_servers(folder: Path) -> None:
    """End what a page left running in its folder, as where it stopped before its own `kill`."""
    for file in folder.glob("*.pid"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(file.read_text()), signal.SIGTERM)


def _inside(call):
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    code = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            call()
        except SystemExit as end:
            code = end.code or 0
        except BaseException:
            traceback.print_exc()
            code = 1
    out.flush(), err.flush()
    return code, out.buffer.getvalue().decode() + err.buffer.getvalue().decode()


def test_there_are_commands_to_run():
    assert sum(len(BLOCK.findall(page.read_text())) for page in PAGES) >= 5


def test_what_needs_a_shell_runs_in_one():
    assert words_of("discreet ask p.toml 'SELECT 1 > 0'") == ["discreet", "ask", "p.toml", "SELECT 1 > 0"]
    for command in (
        "discreet a | b",
        "discreet a > b",
        "discreet a; echo $?",
        'discreet "$x"',
        "discreet a *",
        "cat b",
    ):
        assert words_of(command) is None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_of_a_page(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
    checker = doctest.OutputChecker()
    try:
        for real, block in BLOCK.findall(with_free_ports(page.read_text())):
            for command, expected in steps(block):
                if command.startswith(SKIPPED):
                    continue
                code, printed = run(command, monkeypatch)
                if real:
                    assert "..." not in expected, "a real run leaves nothing out"
                wanted, got = (map(without_noise, (expected, printed))) if real else (expected, printed)
                flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
                assert not expected or checker.check_output(wanted, got, flags), f"{command}\n{printed}"
                assert expected or code == 0, f"{command}\n{printed}"
    finally:
        end_servers(tmp_path)


STARTS = """
import os, sys
import numpy, scipy, pyarrow, click  # what is not ours is imported once, before the forks
from discreet.__main__ import main
assert not [name for name in sys.modules if name.startswith("discreet.cli.")]
for name in sys.argv[1:]:
    print(flush=True)
    child = os.fork()
    if not child:
        sys.argv = ["discreet", name, "--help"]
        main()
    print("exit code", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def test_each_group_of_commands_starts_alone():
    """With no other group imported before it: a process for each, forked from one that has imported none."""
    first = {module: name for name, (module, _, _) in sorted(_COMMANDS.items(), reverse=True)}
    done = subprocess.run([sys.executable, "-c", STARTS, *first.values()], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    for name in first.values():
        assert re.search(rf"^Usage: discreet {name} .*?^exit code (-?\d+)$", done.stdout, re.M | re.S)[1] == "0", name
    assert done.stdout.count("exit code 0\n") == len(first)


def test_the_program_starts():
    done = subprocess.run(
        [sys.executable, "-m", "discreet", "ask", "--help"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "Usage: discreet ask" in done.stdout


def test_links_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_architecture_is_one_page_and_names_what_there_is():
    text = (ROOT / "ARCHITECTURE.md").read_text()
    assert len(text.splitlines()) <= 90
    tree = text.split("```")[1]
    source = ROOT / "src/discreet"
    tops = {f"{path.name}/" for path in source.iterdir() if (path / "__init__.py").exists()}
    tops |= {path.name for path in source.glob("*.py")} - {"__init__.py"}
    named = re.findall(r"(?<![\w.])(\w+(?:/|\.py))", tree)
    assert tops <= set(named)
    known = {f"{path.parent.name}/" for path in source.rglob("__init__.py")} | {
        path.name for path in source.rglob("*.py")
    }
    assert set(named) - {"src/"} <= known
