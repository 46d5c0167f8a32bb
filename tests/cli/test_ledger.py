"""`discreet ledger`, `budget` and `statement`: what they print, what they exit with, and that they only ever read."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.work import growth

import discreet
from discreet.cli.ledger import budget, ledger, statement
from discreet.curator.ledger import Ledger, digest
from discreet.curator.stores.reader import ReadOnlyStore
from discreet.curator.stores.sqlite import SqliteStore
from discreet.curator.witness import default_folder
from discreet.errors import InvalidParameter, LedgerDamaged, LedgerError, LedgerTooNew, LedgerUnavailable
from discreet.privacy.budget import Budget, Spent
from discreet.privacy.loss import Approximate, GaussianNoise, Pure

POLICY = """
[dataset]
name = "clinic"
neighbors = "add or remove one"

[budget]
epsilon = "1"
delta = "1e-6"
analysts.bob = {epsilon = "0.5"}
everyone = {epsilon = "9", delta = "1e-6"}

[tables.visits]
source = "visits.csv"
unit = "patient_id"
columns.patient_id = {type = "integer"}
"""
BUDGET, CAPS = Budget(epsilon=1, delta="1e-6"), {"bob": Budget(epsilon="0.5")}
EVERYONE = Budget(epsilon=9, delta="1e-6")
COMMANDS = [(ledger, "show"), (ledger, "verify"), (ledger, "head"), (budget,), (statement,)]
NAMES = [" ".join([one[0].name, *one[1:]]) for one in COMMANDS]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "policy.toml").write_text(POLICY)
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS, ids=NAMES)
def test_a_ledger_that_servers_share_is_not_taken_for_a_file(folder, command):
    shared = '[dataset]\nledger = "postgresql://ann@127.0.0.1:1/ledger?sslmode=require"'
    (folder / "policy.toml").write_text(POLICY.replace("[dataset]", shared))
    said = str(refused(*command, "policy.toml"))
    assert "got 'postgresql://ann@127.0.0.1:1/ledger', expected a file" in said
    assert "discreet.open(policy).ledger" in said


@pytest.fixture
def kept(folder):
    """A ledger with an opening and four charges."""
    with SqliteStore("policy.ledger") as store:
        made = Ledger(store)
        made.open("clinic", BUDGET, caps=CAPS, everyone=EVERYONE)
        charges = [
            ("ann", Pure("0.1")),
            ("bob", Pure("0.2")),
            ("李明", GaussianNoise(40)),
            ("ann", Approximate("0.05", "1e-8")),
        ]
        for n, (who, loss) in enumerate(charges):
            text = f"SELECT {n}"
            made.charge("clinic", analyst=who, statement=digest(text), loss=loss, text=text)
    return folder


def run(command, *words, code=0):
    done = CliRunner().invoke(command, [str(word) for word in words])
    assert done.exit_code == code, (done.output, done.exception)
    return done


def refused(command, *words):
    """The error that `discreet` prints as one line, with exit code 1."""
    done = CliRunner().invoke(command, list(words))
    assert done.exit_code == 1
    assert isinstance(done.exception, LedgerError | InvalidParameter), done.exception
    assert done.stdout == ""
    return done.exception


def files(folder):
    """Every file: its bytes and its time."""
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}


def amended(**changes):
    with SqliteStore("policy.ledger") as store:
        Ledger(store).amend("clinic", by="owner", why="the board agreed", **changes)


def tamper(*statements):
    """What somebody with write access to the file can do."""
    connection = sqlite3.connect("policy.ledger")
    for trigger in ("rows_stay_fixed", "texts_stay_fixed", "rows_stay"):
        connection.execute(f"DROP TRIGGER {trigger}")
    for one in statements:
        connection.execute(one)
    connection.commit()
    connection.close()


# --- show --------------------------------------------------------------------------------------------------


def test_show_lists_every_row_with_its_cost_and_the_running_total(kept):
    lines = run(ledger, "show", "policy.toml").stdout.splitlines()
    assert lines[0].split() == ["row", "when", "(UTC)", "who", "ε", "total", "ε", "what"]
    assert len(lines) == 6
    assert "opened: budget ε 1, δ 1e-06 (5e-07 of it to name groups) and caps ε 0.5, δ 0 for 'bob'" in lines[1]
    assert lines[2].split()[3:] == ["ann", "0.1", "0.1", digest("SELECT 0")[:16]]
    assert lines[3].split()[3:] == ["bob", "0.2", "0.3", digest("SELECT 1")[:16]]
    assert "李明" in lines[4]
    assert "SELECT" not in "".join(lines)


def test_bare_is_show_with_any_options(kept):
    plain = run(ledger, "show", "policy.toml").stdout
    assert run(ledger, "policy.toml").stdout == plain
    assert run(ledger, "--json", "policy.toml").stdout == run(ledger, "show", "--json", "policy.toml").stdout
    assert (
        run(ledger, "policy.toml", "--analyst", "bob").stdout
        == run(ledger, "show", "policy.toml", "--analyst", "bob").stdout
    )
    assert "verify" in run(ledger, "--help").stdout


def test_show_as_json(kept):
    told = json.loads(run(ledger, "policy.toml", "--json").stdout)
    assert told["dataset"] == "clinic"
    assert [row["kind"] for row in told["rows"]] == ["open"] + ["charge"] * 4
    first = told["rows"][1]
    assert (first["number"], first["who"], first["epsilon"], first["total"]) == (2, "ann", 0.1, 0.1)
    assert first["loss"] == {"kind": "pure", "epsilon": "0.1"}
    assert "text" not in first
    totals = [row["total"] for row in told["rows"]]
    assert totals == sorted(totals)
    texts = json.loads(run(ledger, "policy.toml", "--json", "--text").stdout)["rows"]
    assert [row["text"] for row in texts[1:]] == [f"SELECT {n}" for n in range(4)]


def test_show_one_analyst_with_the_own_total(kept):
    rows = json.loads(run(ledger, "policy.toml", "--analyst", "ann", "--json").stdout)["rows"]
    assert [row["number"] for row in rows] == [2, 5]
    assert [row["own_total"] for row in rows] == [0.1, pytest.approx(0.15)]
    assert "own total" in run(ledger, "policy.toml", "--analyst", "李明").stdout
    assert "an analyst who was charged" in str(refused(ledger, "policy.toml", "--analyst", "nobody"))


def test_show_texts_and_the_last_rows(kept):
    lines = run(ledger, "policy.toml", "--text", "--last", "2").stdout.splitlines()
    assert len(lines) == 3
    assert lines[-1].endswith("SELECT 3")
    assert run(ledger, "policy.toml", "--last", "0", code=2)


def test_texts_and_names_cannot_steer_the_terminal(folder):
    evil = "\x1b[2jeve"
    with SqliteStore("policy.ledger") as store:
        made = Ledger(store)
        made.open("clinic", BUDGET, caps=CAPS, everyone=EVERYONE)
        made.charge("clinic", analyst=evil, statement=digest(evil), loss=Pure("0.1"), text=evil)
    for done in (
        run(ledger, "policy.toml", "--text"),
        run(budget, "policy.toml"),
        run(statement, "policy.toml", "--names"),
    ):
        assert "\x1b" not in done.output
        assert r"\x1b[2jeve" in done.output.replace("\\\\", "\\").replace("\\[", "[")


def test_amendments_are_shown_and_the_policy_that_lags_behind_is_remarked(kept):
    amended(budget=Budget(epsilon=2, delta="1e-6"))
    done = run(ledger, "policy.toml")
    assert "amended: budget ε 2, δ 1e-06" in done.stdout
    assert "reason: the board agreed" in done.stdout
    assert "the policy says budget ε 1, δ 1e-06" in done.stderr
    assert json.loads(run(budget, "policy.toml", "--json").stdout)["epsilon"] == 2
    (kept / "policy.toml").write_text(POLICY.replace('epsilon = "1"', 'epsilon = "2"'))
    assert run(ledger, "policy.toml").stderr == ""


# --- verify ------------------------------------------------------------------------------------------------


def test_verify_says_how_much_was_verified(kept):
    assert run(ledger, "verify", "policy.toml").stdout == "5 rows of 1 account verified\n"
    told = json.loads(run(ledger, "verify", "policy.toml", "--json").stdout)
    assert (told["verified"], told["rows"], told["trouble"], told["row"]) == (True, 5, None, None)


def test_a_tampered_row_is_named_with_exit_code_3(kept):
    tamper("UPDATE rows SET who = 'eve' WHERE number = 3")
    done = run(ledger, "verify", "policy.toml", code=3)
    assert done.stdout.startswith("NOT VERIFIED: row 3: its hash does not fit its fields: the row was edited")
    told = json.loads(run(ledger, "verify", "policy.toml", "--json", code=3).stdout)
    assert (told["verified"], told["row"], told["rows"]) == (False, 3, 2)
    for command in (ledger, budget, statement):
        assert "row 3" in str(refused(command, "policy.toml"))


@pytest.mark.parametrize(
    "statements",
    [
        ["DELETE FROM heads"],
        ["DELETE FROM rows WHERE number = 3"],
        ["DELETE FROM rows WHERE number = 5"],
        ["UPDATE rows SET loss = CAST(x'ff' AS TEXT) WHERE number = 2"],
        ["DROP TABLE rows"],
    ],
)
def test_other_damage_is_exit_code_3_too(kept, statements):
    tamper(*statements)
    assert run(ledger, "verify", "policy.toml", code=3).stdout.startswith("NOT VERIFIED")


def test_a_file_that_is_no_ledger_is_exit_code_3(folder):
    (folder / "policy.ledger").write_bytes(b"SQLite format 3\0" + bytes(4000))
    run(ledger, "verify", "policy.toml", code=3)
    (folder / "policy.ledger").write_text("dear diary\n" * 1000)
    run(ledger, "verify", "policy.toml", code=3)
    assert isinstance(refused(budget, "policy.toml"), LedgerDamaged)
    sqlite3.connect("other.db").execute("CREATE TABLE things (x)").connection.close()
    os.replace("other.db", "policy.ledger")
    assert "is not a ledger" in str(refused(budget, "policy.toml"))


def test_published_heads_are_checked_and_find_a_rewritten_chain(kept):
    line = run(ledger, "head", "policy.toml").stdout
    (kept / "heads.jsonl").write_text(line)
    with SqliteStore("policy.ledger") as store:
        Ledger(store).charge("clinic", analyst="ann", statement=digest("x"), loss=Pure("0.01"))
    (kept / "heads.jsonl").write_text(line + run(ledger, "head", "policy.toml").stdout)
    done = run(ledger, "verify", "policy.toml", "--published", "heads.jsonl")
    assert done.stdout == "6 rows of 1 account verified, with 2 published heads\n"
    os.remove("policy.ledger")
    with SqliteStore("policy.ledger") as store:
        made = Ledger(store)
        made.open("clinic", BUDGET, caps=CAPS, everyone=EVERYONE)
        for _ in range(5):
            made.charge("clinic", analyst="ann", statement=digest("x"), loss=Pure("0.01"))
    assert run(ledger, "verify", "policy.toml")
    done = run(ledger, "verify", "policy.toml", "--published", "heads.jsonl", code=3)
    assert "row 5: it is not the row that was published as a head" in done.stdout


def test_an_account_that_was_removed_is_found_by_its_published_head(kept):
    (kept / "heads.json").write_text(run(ledger, "head", "policy.toml").stdout)
    os.remove("policy.ledger")
    with SqliteStore("policy.ledger") as store:
        Ledger(store).open("another", BUDGET)
    assert "is missing" in run(ledger, "verify", "policy.toml", "--published", "heads.json", code=3).stdout


def test_heads_of_other_ledgers_are_left_aside(kept):
    head = json.loads(run(ledger, "head", "policy.toml").stdout)
    (kept / "heads.json").write_text(json.dumps([head, head | {"account": "elsewhere"}]))
    done = run(ledger, "verify", "policy.toml", "--published", "heads.json")
    assert "with 1 published head" in done.stdout
    assert "1 published heads are of other ledgers" in done.stderr
    (kept / "heads.json").write_text(json.dumps(head | {"account": "elsewhere"}))
    assert (
        "no head of dataset 'clinic'"
        in run(ledger, "verify", "policy.toml", "--published", "heads.json", code=2).stderr
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[1]",
        '"x"',
        '{"account": "clinic"}',
        '{"account":"clinic","length":"1","number":1,"hash":"x"}',
        b"\xff",
    ],
)
def test_published_heads_that_cannot_be_read_are_wrong_usage(kept, text):
    (kept / "heads.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    assert "heads.json" in run(ledger, "verify", "policy.toml", "--published", "heads.json", code=2).stderr
    assert run(ledger, "verify", "policy.toml", "--published", "nowhere.json", code=2)


# --- budget and statement ----------------------------------------------------------------------------------


def test_budget_as_a_table_and_as_json(kept):
    text = run(budget, "policy.toml").stdout
    assert text.startswith("clinic: ε ")
    assert "ε 0.5, δ 0" in text
    told = json.loads(run(budget, "policy.toml", "--json").stdout)
    assert told["charges"] == 4
    assert {one["analyst"]: one["left"] for one in told["analysts"]} == {"ann": 8.85, "bob": 0.3, "李明": 8.844035555}
    assert told["delta_spent"] == 1e-8


def test_statement_to_the_screen_to_a_new_file_and_as_json(kept):
    page = run(statement, "policy.toml").stdout
    assert page.startswith("# Privacy statement: clinic\n")
    assert "李明" not in page
    assert "SELECT" not in page
    assert run(statement, "policy.toml", "-o", "statement.md").stdout == ""
    assert (kept / "statement.md").read_text() == page
    before = (kept / "policy.ledger").read_bytes()
    for precious in ("statement.md", "policy.ledger", "policy.toml"):
        assert "exists already" in run(statement, "policy.toml", "-o", precious, code=1).stderr
    assert (kept / "policy.ledger").read_bytes() == before
    told = json.loads(run(statement, "policy.toml", "--json", "--text", "--names").stdout)
    assert told["facts"]["releases"]["statements"][0]["text"] == "SELECT 0"
    assert told["facts"]["releases"]["analysts"][2]["analyst"] == "李明"
    assert run(statement, "policy.toml", "-o", "no/where.md", code=1)


def test_statement_as_of(kept):
    assert "As of 2999-12-31T23:59:59.999999Z" in run(statement, "policy.toml", "--as-of", "2999-12-31").stdout
    assert (
        "As of 2999-12-31T10:00:00.000000Z"
        in run(statement, "policy.toml", "--as-of", "2999-12-31T12:00:00+02:00").stdout
    )
    assert "after the account was opened" in str(refused(statement, "policy.toml", "--as-of", "2020-01-01"))
    assert "--as-of" in run(statement, "policy.toml", "--as-of", "yesterday", code=2).stderr


# --- pictures ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [ledger, budget], ids=["ledger", "budget"])
@pytest.mark.parametrize("name", ["spent.png", "spent.svg", "spent.pdf"])
def test_pictures_are_written_whatever_the_names(kept, command, name):
    with SqliteStore("policy.ledger") as store:
        Ledger(store).charge("clinic", analyst="$x$ <b> \\frac{", statement=digest("x"), loss=Pure("0.01"))
    done = run(command, "policy.toml", "--plot", name)
    assert done.stderr == f"wrote {name}\n"
    assert (kept / name).stat().st_size > 2000
    assert run(command, "policy.toml", "--plot", "spent.txt", code=2)


@pytest.mark.parametrize("command", [ledger, budget], ids=["ledger", "budget"])
def test_pictures_of_an_account_without_charges_and_of_one_without_bound(folder, command):
    with SqliteStore("policy.ledger") as store:
        Ledger(store).open("clinic", BUDGET, caps=CAPS, everyone=EVERYONE)
    run(command, "policy.toml", "--plot", "empty.png")
    with SqliteStore("policy.ledger") as store:
        Ledger(store).charge("clinic", analyst="ann", statement=digest("x"), loss=GaussianNoise(40))
    amended(budget=Budget(epsilon=1))
    run(command, "policy.toml", "--plot", "unbounded.png")
    amended(budget=Budget(epsilon=10**400))
    run(command, "policy.toml", "--plot", "huge.png")
    assert (folder / "unbounded.png").stat().st_size > 3000


def test_what_the_pictures_show(kept, monkeypatch):
    drawn = []
    monkeypatch.setattr("discreet.cli.show.save", lambda chart, path: drawn.append(chart))
    run(ledger, "policy.toml", "--plot", "x.png")
    spent, limit = drawn[-1].marks
    assert list(spent.y)[:3] == [0, 0.1, 0.3]
    assert list(limit.y) == [1] * 5
    run(budget, "policy.toml", "--plot", "x.png")
    told = json.loads(run(budget, "policy.toml", "--json").stdout)
    (bars,) = drawn[-1].marks
    widths = dict(zip(bars.labels, bars.values, strict=True))
    assert widths["everybody"] == told["spent"]
    assert widths["bob"] == 0.2
    assert set(widths) == {"everybody", "ann", "bob", "李明"}
    assert sorted(bars.limits) == [0.5, 1, 9, 9]  # caps and the budget


# --- the ledger's file -------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", COMMANDS, ids=NAMES)
def test_a_ledger_that_is_not_there_yet_is_a_clear_word_and_is_not_made(folder, words):
    command, *rest = words
    error = refused(command, *rest, "policy.toml")
    assert isinstance(error, LedgerUnavailable)
    assert str(error).startswith("nothing was asked of 'clinic' yet: there is no ledger policy.ledger")
    assert [path.name for path in folder.iterdir()] == ["policy.toml"]
    (folder / "policy.ledger").touch()
    assert "nothing was asked" in str(refused(command, *rest, "policy.toml"))
    assert (folder / "policy.ledger").stat().st_size == 0


@pytest.mark.parametrize("words", COMMANDS, ids=NAMES)
def test_reading_changes_no_file_and_makes_none(kept, words):
    command, *rest = words
    before = files(kept)
    run(command, *rest, "policy.toml")
    assert files(kept) == before
    assert "policy.ledger-wal" not in before


@pytest.mark.parametrize("words", COMMANDS, ids=NAMES)
def test_a_ledger_in_use_is_read_with_all_its_charges(kept, words):
    command, *rest = words
    with SqliteStore("policy.ledger") as store:
        made = Ledger(store)
        made.charge("clinic", analyst="ann", statement=digest("x"), loss=Pure("0.01"))
        assert (kept / "policy.ledger-wal").stat().st_size > 0  # the charge is there, not in the file itself
        before = (kept / "policy.ledger").read_bytes()
        run(command, *rest, "policy.toml")
        assert json.loads(run(ledger, "head", "policy.toml").stdout)["length"] == 6
        assert (kept / "policy.ledger").read_bytes() == before
        made.charge("clinic", analyst="ann", statement=digest("x"), loss=Pure("0.01"))
    assert json.loads(run(ledger, "verify", "policy.toml", "--json").stdout)["rows"] == 7


def test_a_ledger_whose_writer_was_killed_is_read_with_all_its_charges(kept):
    script = (
        "import os; from discreet.curator.ledger import *; from discreet.curator.stores.sqlite import SqliteStore\n"
        "from discreet.privacy.loss import Pure\n"
        "Ledger(SqliteStore('policy.ledger')).charge('clinic', analyst='ann', statement=digest('x'), loss=Pure('0.01'))\n"
        "os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == -9
    assert json.loads(run(budget, "policy.toml", "--json").stdout)["charges"] == 5
    assert run(ledger, "verify", "policy.toml").stdout.startswith("6 rows")


def test_reading_while_others_open_charge_and_close(kept):
    """Each charge opens the file, writes and closes it, which moves the log into the file: reading must not see halves."""
    script = (
        "from discreet.curator.ledger import *; from discreet.curator.stores.sqlite import SqliteStore\n"
        "from discreet.privacy.loss import Pure\n"
        "for n in range(150):\n"
        "    with SqliteStore('policy.ledger') as store:\n"
        "        Ledger(store).charge('clinic', analyst='ann', statement=digest('x'), loss=Pure('0.0001'))\n"
    )
    writer = subprocess.Popen([sys.executable, "-c", script])
    lengths = []
    while writer.poll() is None:
        told = json.loads(run(ledger, "verify", "policy.toml", "--json").stdout)
        assert told["verified"]
        lengths.append(told["rows"])
    assert writer.returncode == 0
    assert lengths == sorted(lengths)
    assert len(set(lengths)) > 3
    assert json.loads(run(ledger, "verify", "policy.toml", "--json").stdout)["rows"] == 155


def test_what_changed_while_it_was_read_is_read_again(kept):
    calls = []

    def work(rows):
        calls.append(rows.last())
        if len(calls) == 1:
            with SqliteStore("policy.ledger") as store:
                Ledger(store).charge("clinic", analyst="ann", statement=digest("x"), loss=Pure("0.01"))
        return calls[-1]

    assert ReadOnlyStore("policy.ledger").transact(work) == 6
    assert calls == [5, 6]


def test_a_policy_whose_name_is_in_no_account(kept):
    (kept / "policy.toml").write_text(POLICY.replace('"clinic"', '"klinik"'))
    for command, *rest in COMMANDS:
        error = refused(command, *rest, "policy.toml")
        assert "got 'klinik'" in str(error)
        assert "holds 'clinic'" in str(error)
        assert "renamed" in str(error)


def test_a_ledger_without_accounts(folder):
    SqliteStore("policy.ledger").close()
    for command, *rest in COMMANDS:
        assert "holds nothing" in str(refused(command, *rest, "policy.toml"))


def test_a_ledger_without_charges(folder):
    with SqliteStore("policy.ledger") as store:
        Ledger(store).open("clinic", BUDGET, caps=CAPS, everyone=EVERYONE)
    assert len(run(ledger, "policy.toml").stdout.splitlines()) == 2
    assert "1 rows" in run(ledger, "verify", "policy.toml").stdout
    assert json.loads(run(budget, "policy.toml", "--json").stdout)["spent"] == 0
    assert "Nothing has been released." in run(statement, "policy.toml").stdout


def test_a_ledger_of_a_newer_version_is_refused(kept):
    connection = sqlite3.connect("policy.ledger")
    connection.execute("PRAGMA user_version=99")
    connection.close()
    for command, *rest in COMMANDS:
        assert isinstance(refused(command, *rest, "policy.toml"), LedgerTooNew)


def test_the_ledger_is_where_the_policy_says_seen_from_the_policy(kept, tmp_path, monkeypatch):
    (kept / "books").mkdir()
    os.rename("policy.ledger", "books/odd name?#%.db")
    (kept / "policy.toml").write_text(POLICY.replace("[budget]", 'ledger = "books/odd name?#%.db"\n[budget]', 1))
    monkeypatch.chdir("/")
    assert json.loads(run(budget, tmp_path / "policy.toml", "--json").stdout)["charges"] == 4


def test_a_folder_in_place_of_the_ledger_and_a_missing_policy(folder):
    (folder / "policy.ledger").mkdir()
    for command, *rest in COMMANDS:
        if rest != ["verify"]:
            refused(command, *rest, "policy.toml")
        assert "nowhere.toml" in str(refused(command, *rest, "nowhere.toml"))


def fill(count: int, analysts: int = 20) -> None:
    """A ledger of the policy with many small charges by some analysts, made without charging."""
    with SqliteStore("policy.ledger") as store:
        made = Ledger(store)
        made.open("clinic", Budget(epsilon=1, delta="1e-6"), caps=CAPS, everyone=EVERYONE)
        first = made.charge("clinic", analyst="a0", statement=digest("x"), loss=Pure("0.0005"))

        def grow(rows):
            last, cost, total = rows.latest("clinic"), Spent.by(Pure("0.0005")), first.total
            own = {"a0": first.own}
            for n in range(1, count):
                who = f"a{n % analysts}"
                total, own[who] = total + cost, own.get(who, Spent()) + cost
                draft = type(last)(
                    "clinic", "charge", total.to_json(), own[who].to_json(), who, last.statement, None, last.loss
                )
                last = draft.sealed(number=n + 2, when=last.when, tail=last)
                rows.append(last)

        store.transact(grow)


def test_thousands_of_charges(folder):
    fill(2000)
    assert len(run(ledger, "policy.toml").stdout.splitlines()) == 2002
    assert len(run(ledger, "policy.toml", "--last", "10").stdout.splitlines()) == 11
    assert json.loads(run(budget, "policy.toml", "--json").stdout)["charges"] == 2000
    assert "2,000 charges by 20 analysts" in run(statement, "policy.toml").stdout


def test_work_grows_in_step_with_charges(folder):
    filled = {}
    for count in (300, 600):
        fill(count, analysts=1)  # what is left for an analyst is a search of its own, longer where more is spent
        filled[count] = Path("policy.ledger").rename(f"{count}.ledger")

    def reading(*command: Any) -> float:
        def task(count: int) -> None:
            filled[count].rename("policy.ledger")
            run(*command)
            filled[count] = Path("policy.ledger").rename(f"{count}.ledger")

        return growth(task, 300)

    for command in [(ledger,), (budget,), (statement,), (ledger, "show", "--last", "10")]:
        assert reading(*command, "policy.toml") < 2.5


# --- amend -------------------------------------------------------------------------------------------------


def edited(folder, old, new):
    path = folder / "policy.toml"
    path.write_text(path.read_text().replace(old, new))


def amending(*words, code=0, answer=None):
    done = CliRunner().invoke(
        ledger, ["amend", "policy.toml", "--by", "the board", "--why", "a new year", *words], input=answer
    )
    assert done.exit_code == code, (done.output, done.exception)
    return done


def last_row():
    return json.loads(run(ledger, "policy.toml", "--json").stdout)["rows"][-1]


def test_amend_puts_budget_caps_and_protection_of_the_policy_on_record(kept):
    edited(kept, 'epsilon = "1"', 'epsilon = "2"')
    edited(kept, 'analysts.bob = {epsilon = "0.5"}', 'analysts.ann = {epsilon = "1.5"}')
    done = amending("--yes")
    old, new, _ = done.stdout.splitlines()
    assert old.startswith("in force    budget ε 1, δ 1e-06")
    assert old.endswith("and caps ε 0.5, δ 0 for 'bob'; ε 9, δ 1e-06 for everyone else")
    assert new.startswith("the policy  budget ε 2, δ 1e-06")
    assert "and caps ε 1.5, δ 0 for 'ann'; ε 9, δ 1e-06 for everyone else, protecting add or remove one: visits" in new
    assert done.stdout.endswith("amended as row 6 of the ledger\n")
    row = last_row()
    assert (row["number"], row["kind"], row["who"], row["why"]) == (6, "amend", "the board", "a new year")
    assert row["settings"]["protects"] == "add or remove one: visits, one person, by patient_id"
    told = json.loads(run(budget, "policy.toml", "--json").stdout)
    assert (told["epsilon"], told["charges"]) == (2, 4)
    assert {one["analyst"]: one["cap"]["epsilon"] for one in told["analysts"]} == {"ann": 1.5, "bob": 9, "李明": 9}
    assert run(ledger, "verify", "policy.toml").stdout.startswith("6 rows")
    assert run(budget, "policy.toml").stderr == ""
    with SqliteStore("policy.ledger") as store:  # what `discreet.open` does before a question
        protects = "add or remove one: visits, one person, by patient_id"
        Ledger(store).open(
            "clinic",
            Budget(epsilon=2, delta="1e-6"),
            caps={"ann": Budget(epsilon="1.5")},
            everyone=EVERYONE,
            protects=protects,
        )


def test_amend_says_when_nothing_changes_and_writes_nothing(kept):
    amending("--yes")
    before = files(kept)
    done = amending()
    assert done.stdout.startswith("nothing to change: the ledger has budget ε 1, δ 1e-06")
    told = json.loads(amending("--json").stdout)
    assert told["changed"] is False
    assert told["old"] == told["new"]
    assert files(kept) == before


@pytest.mark.parametrize("answer", ["n\n", "\n", ""])
def test_amend_asks_first_and_no_is_no(kept, answer):
    edited(kept, 'epsilon = "1"', 'epsilon = "2"')
    before = files(kept)
    done = amending(answer=answer, code=1)
    assert "Put this on record?" in done.stderr
    assert "nothing was changed; answer y, or give --yes" in done.stderr
    assert files(kept) == before
    assert "amended as row 6" in amending(answer="y\n").stdout


def test_amend_as_json_has_both_settings_and_asks_beside_it(kept):
    edited(kept, 'epsilon = "1"', 'epsilon = "2"')
    done = amending("--json", answer="y\n")
    told = json.loads(done.stdout)
    assert (told["dataset"], told["changed"], told["row"]) == ("clinic", True, 6)
    assert (told["old"]["budget"]["epsilon"], told["new"]["budget"]["epsilon"]) == ("1", "2")
    assert "in force" in done.stderr


def test_amend_below_what_is_spent_is_said_and_blocks(kept):
    edited(kept, 'epsilon = "1"', 'epsilon = "0.2"')
    done = amending("--yes")
    assert "more than that is spent already" in done.stderr
    assert json.loads(run(budget, "policy.toml", "--json").stdout)["remaining"] == 0


def test_amend_needs_a_name_and_a_reason(kept):
    edited(kept, 'epsilon = "1"', 'epsilon = "2"')
    before = files(kept)
    assert "--why" in run(ledger, "amend", "policy.toml", "--by", "ann", "--yes", code=2).stderr
    assert "--by" in run(ledger, "amend", "policy.toml", "--why", "x", "--yes", code=2).stderr
    for by, why in ((" ", "x"), ("ann", ""), ("\udcff", "x")):
        assert "--" in str(refused(ledger, "amend", "policy.toml", "--by", by, "--why", why, "--yes"))
    assert files(kept) == before


def test_amend_of_a_ledger_that_is_not_there_or_was_tampered_with(folder):
    words = ("amend", "policy.toml", "--by", "ann", "--why", "x", "--yes")
    assert "nothing was asked of 'clinic' yet" in str(refused(ledger, *words))
    assert [path.name for path in folder.iterdir()] == ["policy.toml"]
    with SqliteStore("policy.ledger") as store:
        made = Ledger(store)
        made.open("clinic", BUDGET, caps=CAPS, everyone=EVERYONE)
        made.charge("clinic", analyst="ann", statement=digest("x"), loss=Pure("0.1"))
    tamper("UPDATE rows SET who = 'eve' WHERE number = 2")
    assert "row 2" in str(refused(ledger, *words))


def test_a_policy_that_protects_others_than_the_ledger_is_remarked(folder):
    with SqliteStore("policy.ledger") as store:
        Ledger(store).open(
            "clinic", BUDGET, caps=CAPS, everyone=EVERYONE, protects="add or remove one: visits, one row"
        )
    assert "protecting add or remove one: visits, one row" in run(budget, "policy.toml").stderr
    amending("--yes")
    assert run(budget, "policy.toml").stderr == ""


# --- witnesses ---------------------------------------------------------------------------------------------


@pytest.fixture
def asked(folder):
    """A dataset of which something was asked, so that its witness knows it."""
    (folder / "visits.csv").write_text("patient_id\n" + "1\n" * 20)
    with discreet.open("policy.toml", analyst="ann") as data:
        data.ask("SELECT COUNT(*) AS n FROM visits", epsilon="0.1", rows=1, groups=1)
    return folder


def test_verify_of_an_honest_ledger_asks_the_witness_too(asked):
    assert run(ledger, "verify", "policy.toml").stdout == "3 rows of 1 account verified\n"


@pytest.mark.parametrize("published", [False, True])
@pytest.mark.parametrize("witnessed", [False, True])
def test_a_vanished_ledger_is_not_verified(asked, witnessed, published):
    """`verify` after the file was deleted: what was published, or what the witness saw, is not there."""
    (asked / "heads.json").write_text(run(ledger, "head", "policy.toml").stdout)
    os.remove("policy.ledger")
    if not witnessed:
        shutil.rmtree(default_folder())
    arguments = ["--published", "heads.json"] if published else []
    known = witnessed or published
    done = run(ledger, "verify", "policy.toml", *arguments, code=3 if known else 1)
    assert ("NOT VERIFIED: there is no ledger policy.ledger" in done.stdout) == known
    assert ("nothing was asked" in str(done.exception)) != known


def test_other_commands_do_not_excuse_a_vanished_ledger(asked):
    os.remove("policy.ledger")
    for command in ([budget, "policy.toml"], [ledger, "show", "policy.toml"], [statement, "policy.toml"]):
        done = run(*command, code=1)
        assert isinstance(done.exception, LedgerDamaged)
        assert "but a witness saw row 3 of 'clinic'" in str(done.exception)


def test_a_ledger_put_back_from_a_copy_is_not_verified(asked):
    shutil.copy("policy.ledger", "old.ledger")
    with discreet.open("policy.toml", analyst="ann") as data:
        data.ask("SELECT COUNT(*) AS n FROM visits", epsilon="0.2", rows=1, groups=1)
    shutil.move("old.ledger", "policy.ledger")
    done = run(ledger, "verify", "policy.toml", code=3)
    assert "row 5 of account 'clinic' was published as a head and is missing" in done.stdout


def test_a_renamed_dataset_is_not_verified(asked):
    edited(asked, 'name = "clinic"', 'name = "hospital"')
    done = run(ledger, "verify", "policy.toml", code=3)
    assert "a witness saw the same data under another name: row 3 of 'clinic'" in done.stdout


def test_a_replaced_answer_is_not_verified(asked):
    connection = sqlite3.connect("policy.ledger", isolation_level=None)
    connection.execute("DROP TRIGGER answers_stay_fixed")
    connection.execute("UPDATE answers SET answer = x'00'")
    connection.close()
    done = run(ledger, "verify", "policy.toml", code=3)
    assert "NOT VERIFIED: the answer kept for charge #2 is not the one that was released" in done.stdout


def test_forget_parts_with_a_lost_ledger_on_record(asked):
    os.remove("policy.ledger")
    assert "nothing was changed" in str(
        run(ledger, "forget", "policy.toml", "--by", "olga", "--why", "lost", code=1).stderr
    )
    with pytest.raises(LedgerDamaged, match="a witness saw"):
        discreet.open("policy.toml")
    done = run(ledger, "forget", "policy.toml", "--by", "olga", "--why", "lost", "--yes")
    assert "seen  row 3 of 'clinic'" in done.stdout
    assert "forgotten; the next question begins a new ledger" in done.stdout
    discreet.open("policy.toml").close()
    again = run(ledger, "forget", "other.toml", "--by", "olga", "--why", "lost", "--json", code=1)
    assert isinstance(again.exception, InvalidParameter)


def test_forget_has_nothing_to_do_where_nothing_was_seen(folder):
    done = run(ledger, "forget", "policy.toml", "--by", "olga", "--why", "lost", "--json")
    assert json.loads(done.stdout) == {"dataset": "clinic", "forgotten": []}


def test_rows_that_seal_answers_are_shown(asked):
    assert "cached the answer to #2" in run(ledger, "show", "policy.toml").stdout
    rows = json.loads(run(ledger, "show", "policy.toml", "--json").stdout)["rows"]
    assert (rows[2]["kind"], rows[2]["charge"], len(rows[2]["seal"])) == ("answer", 2, 64)


def test_tokens_on_record_are_no_amendments(kept):
    with SqliteStore("policy.ledger") as store:
        Ledger(store).record("clinic", by="olga", why="made token 0123 for ann (analyst)")
    *_, last = run(ledger, "policy.toml").stdout.splitlines()
    assert last.endswith("  made token 0123 for ann (analyst)")
