"""The store that only reads: what it gives, what it refuses, and that it leaves no trace. (More in tests/cli/test_books.)"""

import os
import sqlite3

import pytest

from discreet.curator.ledger import Ledger, digest
from discreet.curator.stores.reader import ReadOnlyStore
from discreet.curator.stores.sqlite import SqliteStore
from discreet.errors import LedgerDamaged, LedgerTooNew, LedgerUnavailable
from discreet.privacy.budget import Budget
from discreet.privacy.loss import Pure


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "ledger.db"
    with SqliteStore(file) as store:
        made = Ledger(store)
        made.open("clinic", Budget(epsilon=1))
        charge = made.charge("clinic", analyst="ann", statement=digest("x"), loss=Pure("0.25"), text="x")
        made.remember("key", charge.number, b"answer")
    return file


def files(folder):
    return {one.name: (one.read_bytes(), one.stat().st_mtime_ns) for one in folder.iterdir()}


def test_everything_that_a_ledger_reads_is_the_same(path):
    reader = Ledger(ReadOnlyStore(path))
    before = files(path.parent)
    read = (
        reader.accounts(), reader.budget("clinic"), reader.caps("clinic"), reader.spent("clinic"),
        reader.charges("clinic"), reader.head("clinic"), reader.recall("key"), reader.verify(),
    )  # fmt: skip
    assert files(path.parent) == before
    with SqliteStore(path) as store:
        made = Ledger(store)
        assert read == (
            made.accounts(), made.budget("clinic"), made.caps("clinic"), made.spent("clinic"),
            made.charges("clinic"), made.head("clinic"), made.recall("key"), made.verify(),
        )  # fmt: skip


@pytest.mark.parametrize("in_use", [False, True])
@pytest.mark.parametrize(
    "write",
    [
        lambda ledger: ledger.open("another", Budget(epsilon=1)),
        lambda ledger: ledger.amend("clinic", budget=Budget(epsilon=2), by="eve", why="more"),
        lambda ledger: ledger.charge("clinic", analyst="ann", statement=digest("y"), loss=Pure("0.1")),
        lambda ledger: ledger.remember("other", 2, b"answer"),
    ],
)
def test_whatever_would_write_is_refused_in_words(path, write, in_use):
    other = SqliteStore(path) if in_use else None
    before = path.read_bytes()
    with pytest.raises(LedgerUnavailable, match="open for reading alone; nothing was written"):
        write(Ledger(ReadOnlyStore(path)))
    if other is not None:
        other.close()
    assert path.read_bytes() == before
    assert len(Ledger(ReadOnlyStore(path)).charges("clinic")) == 1


def test_opening_with_the_same_settings_only_reads(path):
    Ledger(ReadOnlyStore(path)).open("clinic", Budget(epsilon=1))


def test_what_a_work_raises_reaches_the_caller(path):
    with pytest.raises(KeyError, match="mine"):
        ReadOnlyStore(path).transact(lambda rows: {}["mine"])


def test_a_missing_a_foreign_and_a_newer_file(path, tmp_path):
    with pytest.raises(LedgerUnavailable, match="there is no ledger"):
        ReadOnlyStore(tmp_path / "nowhere.db")
    assert not (tmp_path / "nowhere.db").exists()
    (tmp_path / "diary.db").write_text("dear diary\n" * 1000)
    with pytest.raises(LedgerDamaged):
        ReadOnlyStore(tmp_path / "diary.db").transact(lambda rows: rows.last())
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version=99")
    connection.close()
    with pytest.raises(LedgerTooNew, match="version 99"):
        ReadOnlyStore(path).transact(lambda rows: rows.last())


def test_a_file_that_vanishes_is_a_clear_word(path):
    reader = ReadOnlyStore(path)
    os.remove(path)
    with pytest.raises(LedgerUnavailable):
        reader.transact(lambda rows: rows.last())


def test_a_file_that_changes_all_the_time_is_given_up(path):
    calls = []

    def work(rows):
        calls.append(rows.last())
        os.utime(path, ns=(0, len(calls)))
        return calls[-1]

    with pytest.raises(LedgerUnavailable, match="opened and closed all the time"):
        ReadOnlyStore(path).transact(work)
    assert len(calls) == 10


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_a_folder_and_file_that_cannot_be_written(path):
    path.chmod(0o400)
    path.parent.chmod(0o500)
    try:
        assert Ledger(ReadOnlyStore(path)).spent("clinic").epsilon == Pure("0.25").epsilon
    finally:
        path.parent.chmod(0o700)
