"""`discreet shell`, through a pipe and at a terminal: statements, commands, errors that never end it, Ctrl-C, history."""

import codecs
import contextlib
import json
import os
import pty
import select
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.cli.test_ask import BY_REGION, COUNT, POLICY, stop, write_clinic

from discreet.cli.shell import COMMANDS, completions, history_file
from discreet.curator.policy import parse_policy
from discreet.curator.stores.reader import ReadOnlyStore


@pytest.fixture
def folder(tmp_path):
    return write_clinic(tmp_path)


@pytest.fixture
def shell(discreet, folder):
    """Run lines through a pipe."""
    return lambda *lines, words=(): discreet("shell", "policy.toml", *words, stdin="".join(f"{x}\n" for x in lines))


def rows_of_the_ledger(folder):
    return ReadOnlyStore(folder / "policy.ledger").transact(lambda rows: rows.after(0, limit=100))


def charges(folder):
    return [row for row in rows_of_the_ledger(folder) if row.kind == "charge"]


# --- statements --------------------------------------------------------------------------------------------


def test_statements_through_a_pipe_print_answers_and_nothing_else(shell, folder):
    printed = shell(".epsilon 3000", "SELECT COUNT(*) AS n -- ; not yet", "FROM visits", "; " + BY_REGION + ";")
    assert (printed.code, printed.err) == (0, "")
    lines = printed.out.splitlines()
    assert lines[0].strip() == "n"
    assert lines[1].split()[0] == "300"
    assert "ε 3000 charged as #2 to clinic, 97000 left" in lines
    assert lines[-1] == "ε 3000 charged as #4 to clinic, 94000 left"
    assert ">" not in printed.out
    assert [row.text for row in charges(folder)] == ["SELECT COUNT(*) AS n -- ; not yet\nFROM visits", BY_REGION]


def test_options_of_the_command_hold_from_the_start(shell, folder):
    printed = shell(f"{COUNT};", ".confidence", words=("--epsilon", "0.5", "--confidence", "0.9", "--analyst", "ann"))
    assert printed.code == 0
    assert "each interval holds at 90 % confidence" in printed.out
    assert charges(folder)[0].who == "ann"
    assert printed.out.endswith("confidence 0.9\n")


def test_json_is_one_object_a_line(shell):
    printed = shell(".json on", ".epsilon 3000", f"{COUNT};", f".explain {COUNT}", ".budget", ".json off", ".epsilon")
    answer, explained, budget, last = printed.out.splitlines()
    assert json.loads(answer)["rows"] == [[300]]
    assert json.loads(explained)["budget"]["free"]
    assert json.loads(budget)["charges"] == 1
    assert last == "epsilon 3000"


def test_explain_as_a_command_and_as_a_statement(shell, folder):
    printed = shell(".epsilon 0.5", f".explain {COUNT};", "EXPLAIN", f"{COUNT};", f"explain {COUNT};")
    assert printed.code == 0
    assert printed.out.count("costs ε 0.5\nleaves ε 99999.5 of the 100000 that is left") == 3
    assert charges(folder) == []


def test_an_unfinished_statement_is_not_asked(shell, folder):
    printed = shell(".epsilon 1", "SELECT COUNT(*) FROM visits", "-- WHERE was cut off")
    assert (printed.code, printed.out) == (1, "")
    assert printed.err == "discreet: the last statement does not end with ; and was not executed\n"
    assert charges(folder) == []
    assert shell(".epsilon 1", f"{COUNT};", "-- a comment at the end").code == 0


# --- errors ------------------------------------------------------------------------------------------------


def test_errors_never_end_it_and_are_the_exit_code_of_a_pipe(shell, folder):
    printed = shell(
        f"{COUNT};", ".epsilon 3000", "SELECT nope FROM visits GROUP BY nope;", "DROP TABLE visits;", "SELEC 1;",
        ".frobnicate", "SELECT COUNT(*) FROM visits WHERE agee > 3;", f"{COUNT};",
    )  # fmt: skip
    assert printed.code == 1
    assert "state what the answer may cost: .epsilon 0.5; or how exact it must be: .error 100" in printed.err
    assert "got DROP, expected SELECT" in printed.err
    assert "there is no command .frobnicate; .help lists them" in printed.err
    assert "column 35: there is no column 'agee'" in printed.err
    assert "Traceback" not in printed.err
    assert printed.err.count("discreet: ") == 6
    assert printed.out.splitlines()[1].split()[0] == "300"
    assert len(charges(folder)) == 1


def test_a_defect_is_told_and_does_not_end_it(shell, monkeypatch):
    def broken(*_, **__):
        raise ZeroDivisionError("oh")

    monkeypatch.setattr("discreet.sql.plan.explain.Explanation.__str__", broken)
    printed = shell(".epsilon 3000", f".explain {COUNT}", f"{COUNT};")
    assert "discreet: unexpected ZeroDivisionError: oh; please report it" in printed.err
    assert "300" in printed.out


def test_an_exhausted_budget_is_said_and_the_next_question_may_be_smaller(shell, folder):
    printed = shell(".epsilon 200000", f"{COUNT};", ".epsilon 3000", f"{COUNT};")
    assert "cannot pay" in printed.err
    assert len(charges(folder)) == 1


def test_bytes_that_are_no_text(folder):
    script = Path(sys.executable).parent / "discreet"
    done = subprocess.run(
        [script, "shell", "policy.toml", "--epsilon", "1"],
        cwd=folder, input=b"SELECT '\xff' FROM visits;\n.tables\n", capture_output=True, check=False,
        env=os.environ | {"PYTHONUTF8": "1"},
    )  # fmt: skip
    assert done.returncode == 1
    assert b"Traceback" not in done.stderr
    assert charges(folder) == []


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("discreet.curator.ledger.Ledger.buy", "stopped: nothing was charged"),
        ("discreet.sql.plan.query_plan.QueryPlan.run", "charged as #2: it stopped before there was an answer"),
        ("discreet.sql.plan.query_plan.QueryPlan.finish", "charged as #2: what it released is cached"),
    ],
)
def test_ctrl_c_in_a_question_says_what_happened(shell, folder, monkeypatch, place, said):
    monkeypatch.setattr(place, stop)
    printed = shell(".epsilon 1", f"{COUNT};", ".tables")
    assert printed.code == 130  # in a pipe it ends; at a terminal, the prompt comes again
    assert said in printed.err
    assert len(charges(folder)) == ("charged" in said.split(":")[0])


# --- commands ----------------------------------------------------------------------------------------------


def test_help_lists_every_command(shell):
    printed = shell(".help")
    assert [line.split()[0] for line in printed.out.splitlines()[:-1]] == [f".{name}" for name in COMMANDS]


def test_tables_columns_and_budget(shell):
    printed = shell(".tables", ".columns visits", '.columns "REGIONS";', ".budget")
    assert "visits: protects one person, by patient\nregions: public\n" in printed.out
    assert "age: integer from 0 to 120, never null" in printed.out
    assert "country: text" in printed.out
    assert "clinic: ε 0 of 100000" in printed.out
    assert "of which table: visits, regions?" in shell(".columns").err
    assert "got 'x'" in shell(".columns x").err


def test_what_is_stated_holds_until_it_is_stated_anew(shell, folder):
    printed = shell(
        ".epsilon 0.5", ".error 20", ".epsilon", ".error", ".error off", ".error", ".delta 1e-7", ".delta", ".delta off",
        ".groups 2", ".rows 1", ".groups", ".rows", ".rows off", ".rows", ".EPSILON 3000", ".rows 1", f"{COUNT};",
    )  # fmt: skip
    assert (printed.code, printed.err) == (0, "")
    assert printed.out.splitlines()[:7] == [
        "epsilon is not stated", "error 20", "error is not stated", "delta 1e-7", "groups 2", "rows 1",
        "rows is not stated",
    ]  # fmt: skip
    assert printed.out.splitlines()[8].split()[0] == "150"


@pytest.mark.parametrize(
    "line",
    [
        ".epsilon -1", ".epsilon nan", ".epsilon x", ".error 0", ".delta 1", ".groups 0", ".groups 1.5", ".rows -1",
        ".rows 99999999999", ".confidence 1", ".confidence off", ".json", ".json maybe", ".plot", ".plot x.png",
        ".explain", ".", ".help.me", ".explain DROP TABLE visits",
    ],
)  # fmt: skip
def test_bad_commands_are_refused_and_change_nothing(shell, line):
    printed = shell(line, ".epsilon", ".confidence", ".groups", words=("--epsilon", "7"))
    assert printed.code == 1
    assert printed.err.startswith("discreet: ")
    assert printed.out == "epsilon 7\nconfidence 0.95\ngroups is not stated\n"


def test_a_picture_of_the_last_answer(shell, folder):
    printed = shell(".epsilon 3000", f"{BY_REGION};", ".plot answer.svg", ".plot answer.gif", ".plot no/answer.svg")
    drawn = (folder / "answer.svg").read_text(encoding="utf-8")
    assert drawn.startswith("<svg")
    assert [region in drawn for region in ("north", "süd 南")] == [True] * 2
    assert "wrote answer.svg" in printed.err
    assert printed.err.count("discreet: path: ") == 2


def test_quit_leaves_the_rest_unread(shell, folder):
    assert shell(".epsilon 1", ".quit", f"{COUNT};").code == 0
    assert charges(folder) == []


def test_the_owner_log(shell, folder, monkeypatch):
    def fail(*_):
        raise RuntimeError("row 17")

    monkeypatch.setattr("discreet.sql.plan.query_plan.QueryPlan.run", fail)
    printed = shell(".epsilon 1", f"{COUNT};", words=("--owner-log", "owner.log"))
    assert "row 17" in (folder / "owner.log").read_text()
    assert "row 17" not in printed.err
    assert "charge #2 was made, but its release failed" in printed.err


# --- completion and history --------------------------------------------------------------------------------

CATALOG = parse_policy(POLICY.replace("country = ", '"odd name" = ')).catalog


@pytest.mark.parametrize(
    ("text", "line", "found"),
    [
        (".ep", ".ep", [".epsilon "]),
        (".e", "  .e", [".epsilon ", ".error ", ".explain "]),
        ("reg", "SELECT reg", ["region", "regions"]),
        ("REG", "SELECT REG", ["region", "regions"]),
        ("v", ".columns v", ["visits"]),
        ("ag", ".explain SELECT ag", ["age"]),
        ("v.a", "SELECT v.a", ["v.age"]),
        ('"o', 'SELECT "o', ['"odd name"']),
        ("sel", "sel", ["select"]),
        ("SEL", "SEL", ["SELECT"]),
        ("zz", "zz", []),
    ],
)
def test_completion(text, line, found):
    assert completions(text, line, CATALOG) == found


def test_history_is_kept_for_its_author_alone_or_not_at_all(tmp_path, monkeypatch):
    file = history_file({"XDG_STATE_HOME": str(tmp_path / "state")})
    assert file == tmp_path / "state" / "discreet" / "history"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    (tmp_path / "file").touch()
    assert history_file({"XDG_STATE_HOME": str(tmp_path / "file")}) is None
    monkeypatch.setenv("HOME", str(tmp_path))
    home = tmp_path / ".local" / "state" / "discreet" / "history"
    assert history_file({}) == home
    assert history_file({"XDG_STATE_HOME": "relative/is/ignored"}) == home


# --- at a terminal -----------------------------------------------------------------------------------------


class Terminal:
    """A shell at a pseudo-terminal."""

    def __init__(self, folder, *words, before=""):
        self.master, slave = pty.openpty()
        code = f"import fcntl, termios\nfcntl.ioctl(0, termios.TIOCSCTTY, 0)\n{before}\nfrom discreet.cli import main\nmain()"
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, "shell", "policy.toml", *words],
            cwd=folder, stdin=slave, stdout=slave, stderr=slave, close_fds=True, start_new_session=True,
            env=os.environ | {"XDG_STATE_HOME": str(folder / "state"), "TERM": "dumb", "PYTHONUTF8": "1"},
        )  # fmt: skip
        os.close(slave)
        self.seen, self.decode = "", codecs.getincrementaldecoder("utf-8")("replace").decode

    def type(self, text):
        os.write(self.master, text.encode())

    def until(self, text, seconds=300):
        """Read until a text is seen; give what came up to it."""
        end = time.monotonic() + seconds
        while text not in self.seen:
            assert time.monotonic() < end, f"{text!r} did not come; there is: {self.seen!r}"
            if select.select([self.master], [], [], 0.2)[0]:
                try:
                    self.seen += self.decode(os.read(self.master, 65536))
                except OSError:  # the other side is closed
                    assert text in self.seen, self.seen
        before, _, self.seen = self.seen.partition(text)
        return before

    def interrupt(self, text):
        """Ctrl-C, again where nothing came of it: Python looks for signals once it waits for keys, after the prompt."""
        for _ in range(60):
            time.sleep(0.5)
            self.type("\x03")
            with contextlib.suppress(AssertionError):
                return self.until(text, seconds=5)
        raise AssertionError(f"{text!r} did not come; there is: {self.seen!r}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.master)

    def code(self):
        return self.process.wait(300)


def test_a_conversation(folder):
    with Terminal(folder, "--epsilon", "3000") as terminal:
        _converse(terminal)
        assert terminal.code() == 0
    history = (folder / "state" / "discreet" / "history").read_text()
    assert "SELECT AVG(age) FROM visits;" in history
    assert len(charges(folder)) == 2


def _converse(terminal):
    terminal.until("clinic ε 100000> ")
    terminal.type("SELECT COUNT(*) AS n\n")
    terminal.until("   ...> ")
    terminal.type("FROM visits;\n")
    assert "300" in terminal.until("clinic ε 97000> ")
    terminal.type("SELECT half a statement\n")
    terminal.until("   ...> ")
    terminal.interrupt("clinic ε 97000> ")
    terminal.type(".frobnicate\n")
    terminal.until("there is no command .frobnicate")
    terminal.until("clinic ε 97000> ")
    terminal.type(".eps\t2\n.epsilon\n")
    terminal.until("epsilon 2\r\n")
    terminal.type("SELECT AVG(age) FROM visits;\n")
    terminal.until("clinic ε 96998> ")
    terminal.type("SELECT 'unfinished\n")
    terminal.until("   ...> ")
    terminal.type("\x04")
    terminal.until("the unfinished statement was not executed")


SLOW = """
import os, time
from discreet.sql.plan.query_plan import QueryPlan
def run(*_):
    print('now', 'reading')
    time.sleep(60)
QueryPlan.run = run
"""


def test_ctrl_c_while_rows_are_read_says_that_it_was_charged_and_the_prompt_comes_again(folder):
    with Terminal(folder, "--epsilon", "3000", "--analyst", "bob", before=SLOW) as terminal:
        terminal.until("clinic ε 1> ")  # bob's cap
        terminal.type(f".epsilon 0.25\n{COUNT};\n")
        terminal.until("now reading")
        terminal.type("\x03")
        terminal.until("charged as #2: it stopped before there was an answer")
        terminal.until("clinic ε 0.75> ")
        terminal.type(".quit\n")
        assert terminal.code() == 0
    assert len(charges(folder)) == 1
    assert (folder / "state" / "discreet" / "history").exists()


def test_without_readline_and_without_a_place_for_history(folder):
    (folder / "state").touch()
    policy = (folder / "policy.toml").read_text(encoding="utf-8")
    (folder / "policy.toml").write_text(
        policy.replace("[budget]", 'witness = "witness"\n[budget]', 1), encoding="utf-8"
    )
    with Terminal(folder, "--epsilon", "3000", before="import sys; sys.modules['readline'] = None") as terminal:
        terminal.until("clinic ε 100000> ")
        terminal.type(f"{COUNT};\n")
        terminal.until("charged as #2")
        terminal.until("clinic ε 97000> ")
        terminal.type("\x04")
        assert terminal.code() == 0
    with Terminal(folder) as terminal:
        terminal.until("clinic ε 97000> ")
        terminal.type("\x04")
        assert terminal.code() == 0
