"""What is PostgreSQL's own: passwords, roles, triggers, servers that are gone; and its addresses on the command line."""

import builtins
import logging
import subprocess
import sys
import threading
import traceback

import psycopg
import pytest

from discreet.errors import InvalidParameter, MissingExtra
from discreet.local.collection.collector import Collection, open_store
from discreet.local.collection.duckdb_store import Counts
from discreet.local.collection.survey import Report, Survey

FIELDS = {"name": "food", "version": 1, "question": "What?", "domain": ["a", "b"], "randomizer": "k-rr", "times": 1}
ASKED = Survey(**FIELDS, epsilon=1)
SECRETS = ("ge%h@im", "ge%25h%40im", "wrong-secret", "hush")


def sent(first, count):
    return [Report(ASKED.digest, 1, n % 2, f"{n:032x}").line for n in range(first, first + count)]


@pytest.fixture
def address(postgres):
    return postgres.emptied()


def refused(action, words):
    """The refusal, whose text, traceback and representation hold no password."""
    with pytest.raises(InvalidParameter, match=words) as error:
        action()
    told = "".join(traceback.format_exception(error.value)) + repr(error.value) + repr(error.value.__dict__)
    assert not [secret for secret in SECRETS if secret in told]
    assert str(error.value).startswith("store: got 'postgresql://")
    return str(error.value)


# Append-only


@pytest.mark.parametrize("table", ["reports", "batches", "tallies", "surveys", "form"])
@pytest.mark.parametrize("statement", ["DELETE FROM {}", "TRUNCATE {}", "UPDATE {} SET {} = {}"])
def test_what_is_stored_cannot_be_changed(address, table, statement):
    store = Collection(address)
    store.add(ASKED, sent(0, 10))
    column = {"reports": "report", "batches": "accepted", "tallies": "counted", "surveys": "digest", "form": "version"}[
        table
    ]
    with psycopg.connect(address) as connection, pytest.raises(psycopg.errors.RaiseException, match="only ever added"):
        connection.execute(statement.format(f"discreet_collection.{table}", column, column))
    assert store.tally(ASKED).tolist() == [5, 5]


# Roles


def role(address, name, *grants):
    """A role with these rights alone."""
    with psycopg.connect(address) as connection:
        connection.execute(
            f"DO $$ BEGIN IF EXISTS (SELECT FROM pg_roles WHERE rolname = '{name}') THEN DROP OWNED BY {name};"
            f" DROP ROLE {name}; END IF; END $$"
        )
        connection.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'hush'")
        connection.execute(f"GRANT USAGE ON SCHEMA discreet_collection TO {name}")
        for grant in grants:
            connection.execute(f"GRANT {grant} ON ALL TABLES IN SCHEMA discreet_collection TO {name}")


def test_collectors_need_no_more_than_to_add_and_to_read(address, postgres):
    Collection(address).add(ASKED, sent(0, 10))
    role(address, "collector", "SELECT, INSERT")
    store = Collection(postgres.address("postgres", "collector", "hush"))
    assert store.add(ASKED, sent(5, 10)) == Counts(accepted=5, replayed=5)
    other = Survey(**FIELDS | {"name": "drinks"}, epsilon=1)
    assert store.add(other, ["hello"]) == Counts(malformed=1)
    assert store.tally(ASKED).sum() == 15


def test_readers_can_only_read(address, postgres):
    Collection(address).add(ASKED, sent(0, 10))
    role(address, "reader", "SELECT")
    store = Collection(postgres.address("postgres", "reader", "hush"))
    assert store.estimate(ASKED, confidence=None).reports == 10
    refused(lambda: store.add(ASKED, sent(10, 5)), "where this role may do that; permission denied for table")
    assert store.tally(ASKED).sum() == 10


def test_a_server_that_may_only_be_read(address):
    store = Collection(address)
    store.add(ASKED, sent(0, 4))
    closed = Collection(address + "&options=-cdefault_transaction_read_only%3Don")
    assert closed.tally(ASKED).sum() == 4
    refused(lambda: closed.add(ASKED, sent(4, 4)), "a server that can write")


@pytest.mark.parametrize("level", ["serializable", "repeatable\\ read"])
def test_the_isolation_that_the_server_prefers_does_not_matter(address, level):
    """Two connections that came before either had stored: the second waits, and finds replays, not an error."""
    from urllib.parse import quote

    strict = address + "&options=" + quote(f"-cdefault_transaction_isolation={level}")
    faults, counts = [], []

    def add():
        try:
            counts.append(Collection(strict).add(ASKED, sent(0, 3000)))
        except Exception as error:
            faults.append(error)

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert sorted(one.accepted for one in counts) == [0, 0, 0, 3000]


# Passwords and addresses


def test_passwords_are_not_told(address, postgres, caplog):
    caplog.set_level(logging.DEBUG)
    wrong = postgres.address("postgres", "owner", "wrong-secret")
    told = refused(lambda: Collection(wrong).add(ASKED, sent(0, 1)), "a server that answers; .*password authentication")
    assert "owner@" in told
    for other in (address + "&password=wrong-secret", "postgresql://owner:hush@localhost:1/x"):
        refused(lambda other=other: Collection(other).tally(ASKED), "a server that answers")
    for secret in SECRETS:
        assert secret not in repr(open_store(address, patience=1))
        assert secret not in caplog.text


@pytest.mark.parametrize(
    "unreadable",
    ["postgresql://ann:hu%sh@h/d", "postgresql://ann:hush@[::1/d", "postgresql://ann:hush@h/d?no=1", "POSTGRES://a:hush@"],
)  # fmt: skip
def test_addresses_that_cannot_be_read(unreadable):
    refused(lambda: Collection(unreadable, patience=1).tally(ASKED), "postgresql://")


def test_without_psycopg_it_says_what_to_install(monkeypatch):
    def absent(name, *rest):
        if name == "psycopg":
            raise ImportError(name)
        return importing(name, *rest)

    importing = builtins.__import__
    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(MissingExtra, match=r"pip install 'discreet\[postgres\]'"):
        Collection("postgresql://ann:hush@host/d")


# Databases of another kind


def test_a_database_without_a_collection(address):
    refused(lambda: Collection(address).tally(ASKED), "a database with a collection; discreet local collect makes one")
    with psycopg.connect(address) as connection:
        found = connection.execute("SELECT count(*) FROM pg_namespace WHERE nspname = 'discreet_collection'").fetchone()
    assert found == (0,)


def test_a_schema_of_another_kind(address):
    with psycopg.connect(address) as connection:
        connection.execute("CREATE SCHEMA discreet_collection")
        connection.execute("CREATE TABLE discreet_collection.form (x integer)")
    refused(lambda: Collection(address).add(ASKED, sent(0, 1)), "holds other tables")


def test_a_newer_collection(address):
    Collection(address).add(ASKED, sent(0, 1))
    with psycopg.connect(address) as connection:
        connection.execute("INSERT INTO discreet_collection.form VALUES (7)")
    refused(lambda: Collection(address).tally(ASKED), "another version of discreet made it")


# Servers that are gone


def test_a_server_that_crashes_keeps_what_was_acknowledged(address, postgres):
    store = Collection(address, patience=2)
    store.add(ASKED, sent(0, 500))
    postgres.stop("immediate")
    try:
        refused(lambda: store.add(ASKED, sent(500, 500)), "a server that answers")
    finally:
        postgres.start()
    assert store.add(ASKED, sent(0, 1000)) == Counts(accepted=500, replayed=500)
    assert store.tally(ASKED).sum() == 1000


def test_a_connection_that_is_cut_stores_nothing(address, monkeypatch):
    from discreet.local.collection import postgres_store as module

    store = Collection(address)
    store.add(ASKED, sent(0, 10))
    insert = module._insert

    def cut(connection, *given):
        stored = insert(connection, *given)
        with psycopg.connect(address, autocommit=True) as other:
            other.execute("SELECT pg_terminate_backend(%s)", [connection.info.backend_pid])
        return stored

    monkeypatch.setattr(module, "_insert", cut)
    refused(lambda: store.add(ASKED, sent(10, 10)), "a server that answers")
    monkeypatch.undo()
    assert store.counts(ASKED) == Counts(accepted=10)
    assert store.add(ASKED, sent(0, 20)) == Counts(accepted=10, replayed=10)


# On the command line


def test_an_address_stands_wherever_a_store_does(address, tmp_path):
    (tmp_path / "food.toml").write_text(
        'name = "food"\nversion = 1\nquestion = "What?"\ndomain = ["a", "b"]\nrandomizer = "k-rr"\nepsilon = 1\ntimes = 1\n'
    )

    def run(*words, stdin=""):
        command = [sys.executable, "-c", "from discreet.cli import main; main()", "local", *words]
        done = subprocess.run(command, cwd=tmp_path, input=stdin, capture_output=True, text=True, check=False)
        assert not [secret for secret in SECRETS if secret in done.stdout + done.stderr]
        return done

    collected = run("collect", address, "food.toml", stdin="\n".join(sent(0, 100)))
    assert collected.returncode == 0, collected.stderr
    assert collected.stdout.startswith("accepted       100")
    assert run("estimate", address, "food.toml", "--csv").stdout.startswith("answer,share,low,high\na,")
    gone = run("estimate", "postgresql://ann:hush@localhost:1/x", "food.toml")
    assert gone.returncode == 1
    assert "postgresql://ann@localhost:1/x" in gone.stderr
    assert run("collect", "postgresql://ann:hu%sh@h/d", "food.toml").returncode == 1
