"""Somebody with write access to the ledger, or with many names: what is served, what is charged, what is refused."""

import sqlite3
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.curator.test_ledger import first_version

from discreet.curator import ledger as ledger_module
from discreet.curator.ledger import Head, Ledger, digest
from discreet.curator.settings import analyst_name
from discreet.curator.stores import COLUMNS, CachedAnswer, Row
from discreet.curator.stores.memory import MemoryStore
from discreet.curator.stores.reader import ReadOnlyStore
from discreet.curator.stores.sqlite import SqliteStore
from discreet.errors import BudgetExceeded, InvalidParameter, LedgerDamaged
from discreet.privacy.budget import Budget, Spent
from discreet.privacy.loss import GaussianNoise, Loss, Pure

Q = digest("SELECT 1")


def charge(ledger: Ledger, epsilon: str | Loss = "0.1", analyst: str = "ann"):
    loss = Pure(epsilon) if isinstance(epsilon, str) else epsilon
    return ledger.charge("a", analyst=analyst, statement=Q, loss=loss)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A ledger with two charges and their answers: rows 1 (open), 2, 3 (charge, answer), 4, 5 (charge, answer)."""
    file = tmp_path / "a.ledger"
    with SqliteStore(file) as store:
        made = Ledger(store)
        made.open("a", Budget(epsilon=1))
        for key, epsilon in (("one", "0.3"), ("two", "0.6")):
            made.remember(key, charge(made, epsilon).number, f"answer {key}".encode())
    return file


def rewrite(path: Path, *statements: str) -> None:
    """What somebody with write access can do, triggers or not."""
    connection = sqlite3.connect(path, isolation_level=None)
    for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        connection.execute(f"DROP TRIGGER {name}")
    for statement in statements:
        connection.execute(statement)
    connection.close()


def reseal(path: Path, change: Callable[[Row], Row], *, since: int = 1) -> None:
    """Change rows, and give every row from `since` on a hash that fits, and the chain a head that fits."""
    connection = sqlite3.connect(path, isolation_level=None)
    for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        connection.execute(f"DROP TRIGGER {name}")
    columns = ", ".join(f'"{name}"' for name in COLUMNS)
    rows = [Row(*found) for found in connection.execute(f"SELECT {columns} FROM rows ORDER BY number")]
    before = None
    for old in rows:
        row = old
        if old.number >= since:
            changed = replace(change(old), previous=old.previous if before is None else before.hash)
            row = replace(changed, hash=changed.digest())
            assignments = ", ".join(f'"{name}" = ?' for name in COLUMNS)
            connection.execute(
                f"UPDATE rows SET {assignments} WHERE number = ?", [*(getattr(row, n) for n in COLUMNS), row.number]
            )
        before = row
    connection.execute("UPDATE heads SET hash = ?", [before.hash])
    connection.close()


# --- answers -----------------------------------------------------------------------------------------------


def test_an_answer_is_sealed_by_a_row_of_the_chain(path):
    with SqliteStore(path) as store:
        rows = list(Ledger(store).history("a"))
        assert [row.kind for row in rows] == ["open", "charge", "answer", "charge", "answer"]
        assert rows[2].statement == CachedAnswer("one", 2, 3, b"answer one").seal
        assert (rows[2].why, rows[2].total) == ("2", rows[1].total)
        assert Ledger(store).verify()


REPLACED = {
    "replaced": "UPDATE answers SET answer = CAST('forged' AS BLOB) WHERE key = 'one'",
    "garbled": "UPDATE answers SET answer = x'00ff' WHERE key = 'one'",
    "emptied": "UPDATE answers SET answer = x'' WHERE key = 'one'",
    "swapped": "UPDATE answers SET answer = (SELECT answer FROM answers WHERE key = 'two') WHERE key = 'one'",
    "of another charge": "UPDATE answers SET charge = 4 WHERE key = 'one'",
    "under another seal": "UPDATE answers SET row = 9 WHERE key = 'two'; UPDATE answers SET row = 5 WHERE key = 'one'",
    "of no charge": "UPDATE answers SET charge = 1 WHERE key = 'one'",
    "of no row": "UPDATE answers SET row = 77 WHERE key = 'one'",
    "renamed": "UPDATE answers SET key = 'three' WHERE key = 'two'; UPDATE answers SET key = 'two' WHERE key = 'one'",
    "sealed anew": "UPDATE rows SET statement = 'ab' WHERE number = 3",
}


@pytest.mark.parametrize("how", REPLACED)
def test_an_answer_that_was_replaced_is_never_given_and_is_found_by_verify(path, how):
    rewrite(path, "PRAGMA foreign_keys = OFF", *REPLACED[how].split("; "))
    key = "two" if how == "renamed" else "one"
    for store in (SqliteStore(path), ReadOnlyStore(path)):
        with pytest.raises(LedgerDamaged, match="the answer kept for charge #|was edited"):
            Ledger(store).recall(key)
        found = Ledger(store).verify()
        assert not found
        assert "NOT VERIFIED" in str(found)
        if isinstance(store, SqliteStore):
            store.close()


def test_an_answer_added_to_the_file_without_a_row_is_not_given(path):
    rewrite(path, "INSERT INTO answers VALUES ('new', 2, 4, x'00')")
    with SqliteStore(path) as store:
        with pytest.raises(LedgerDamaged, match="the row that seals it, is missing"):
            Ledger(store).recall("new")
        assert not Ledger(store).verify()


def test_a_forged_answer_with_a_new_seal_breaks_the_chain_after_it(path):
    forged = b"forged"
    rewrite(path, f"UPDATE answers SET answer = x'{forged.hex()}' WHERE key = 'one'")
    seal = CachedAnswer("one", 2, 3, forged).seal

    def change(row: Row) -> Row:
        return replace(row, statement=seal) if row.number == 3 else row

    with SqliteStore(path) as store:
        published = Ledger(store).head("a")
    reseal(path, change)
    with SqliteStore(path) as store:
        found = Ledger(store).verify(published=[published])
        assert "it is not the row that was published as a head" in found.trouble


def test_an_answer_may_be_forgotten_and_is_paid_for_again(path):
    rewrite(path, "DELETE FROM answers WHERE key = 'one'")
    with SqliteStore(path) as store:
        ledger = Ledger(store)
        assert (bool(ledger.verify()), ledger.recall("one")) == (True, None)
        ledger.remember("one", charge(ledger).number, b"another")
        assert ledger.recall("one")[1] == b"another"
        assert ledger.verify()


def test_answers_of_an_older_version_are_named_and_not_given(tmp_path):
    path = first_version(tmp_path / "a.db")
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("INSERT INTO answers VALUES ('key', 2, x'00')")
    connection.close()
    reader = Ledger(ReadOnlyStore(path))
    assert (reader.recall("key"), reader.verify().unsealed, bool(reader.verify())) == (None, 1, True)
    with SqliteStore(path) as store:
        ledger = Ledger(store)
        ledger.open("a", Budget(epsilon=1))
        assert ledger.recall("key") is None
        assert "1 answers of an older version are not covered by the chain and not given" in str(ledger.verify())
        ledger.remember("key", charge(ledger).number, b"new")
        assert ledger.recall("key")[1] == b"new"
        assert ledger.verify()


# --- totals ------------------------------------------------------------------------------------------------


def lowered(row: Row) -> Row:
    """The row with a total of nothing, as if the budget were fresh."""
    return replace(row, total=Spent().to_json(), own=Spent().to_json() if row.kind == "charge" else row.own)


@pytest.mark.parametrize("cheap", [0, 10**9], ids=["opened by its tail", "opened whole"])
@pytest.mark.parametrize("opened", [False, True])
def test_a_last_total_that_was_edited_and_hashed_again_is_not_charged_on(path, monkeypatch, opened, cheap):
    """The last charge and what follows it are rewritten with hashes that fit: the total no longer follows from it."""
    monkeypatch.setattr(ledger_module, "_CHEAP", cheap)
    reseal(path, lambda row: lowered(row) if row.number >= 4 else row, since=4)
    with SqliteStore(path) as store:
        ledger = Ledger(store)
        for act in (
            lambda: ledger.open("a", Budget(epsilon=1)) if opened else charge(ledger, "0.5"),
            lambda: charge(ledger, "0.5"),
            lambda: ledger.spent("a"),
        ):
            with pytest.raises(LedgerDamaged, match="total is not the total before it plus its loss"):
                act()


def test_an_analysts_total_that_was_edited_and_hashed_again_is_not_charged_on(path):
    def change(row: Row) -> Row:
        return replace(row, own=Spent.by(Pure("0.6")).to_json()) if row.number == 4 else row

    reseal(path, change, since=4)
    with SqliteStore(path) as store, pytest.raises(LedgerDamaged, match="analyst's total is not the one before it"):
        charge(Ledger(store))


def test_a_loss_edited_anywhere_is_found_when_the_ledger_is_opened(path):
    small = '{"kind":"pure","epsilon":"0.01"}'
    reseal(path, lambda row: replace(row, loss=small) if row.number == 2 else row)
    with SqliteStore(path) as store, pytest.raises(LedgerDamaged, match="row 2: its total is not the total before it"):
        Ledger(store).open("a", Budget(epsilon=1))


def test_an_edit_far_from_the_end_is_found_when_the_ledger_is_opened(tmp_path, monkeypatch):
    """Rows before the tail that every work checks are edited, and hashes fit: opening walks the whole chain."""
    monkeypatch.setattr(ledger_module, "_TAIL", 3)
    path = tmp_path / "a.db"
    with SqliteStore(path) as store:
        Ledger(store).open("a", Budget(epsilon=1))
        for _ in range(8):
            charge(Ledger(store), "0.01")
    reseal(path, lambda row: replace(row, loss='{"kind":"pure","epsilon":"0"}') if row.number == 2 else row)
    with SqliteStore(path) as store, pytest.raises(LedgerDamaged, match="row 2: its total is not"):
        Ledger(store).open("a", Budget(epsilon=1))


def test_rows_that_another_process_appends_are_checked_before_they_are_built_on(path):
    """A ledger that is open sees a row that somebody else appended, with a hash that fits and a total that does not."""
    with SqliteStore(path) as store:
        ledger = Ledger(store)
        ledger.open("a", Budget(epsilon=1))
        with SqliteStore(path) as other:
            charge(Ledger(other), "0.05")
        charge(ledger, "0.01")
        reseal(path, lambda row: lowered(row) if row.number >= 6 else row, since=6)
        with pytest.raises(LedgerDamaged):
            charge(ledger, "0.5")


def test_a_failed_commit_does_not_spoil_what_is_known_to_be_derived():
    """A charge whose transaction is rolled back leaves nothing behind that an honest chain would be refused for."""

    class Failing(MemoryStore):
        fails = False

        def transact(self, work):
            def failing(rows):
                result = work(rows)
                if self.fails:
                    raise OSError("no")
                return result

            return super().transact(failing)

    store = Failing()
    ledger = Ledger(store)
    ledger.open("a", Budget(epsilon=1))
    charge(ledger)
    store.fails = True
    with pytest.raises(OSError, match="no"):
        charge(ledger)
    store.fails = False
    assert charge(ledger).number == 3
    assert ledger.verify()


def test_renyi_totals_are_derived_too(tmp_path):
    with SqliteStore(tmp_path / "a.db") as store:
        Ledger(store).open("a", Budget(epsilon=5, delta="1e-6"))
        for _ in range(5):
            charge(Ledger(store), GaussianNoise(20))  # a ledger of its own, so that every row is derived again
        assert Ledger(store).verify()


# --- names -------------------------------------------------------------------------------------------------

SPELLINGS = ["bob", "Bob", " BOB ", "b\u200bob", "ｂｏｂ", "bob\u00ad", "\u2002bob", "bo\ufe0fb", "ⓑob", "bob\u3164"]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_no_spelling_of_a_name_escapes_its_cap(spelling):
    ledger = Ledger(MemoryStore())
    ledger.open("a", Budget(epsilon=10), caps={"Bob": Budget(epsilon="0.5")}, everyone=Budget(epsilon=10))
    charge(ledger, "0.3", "bob")
    with pytest.raises(BudgetExceeded, match="the cap of 'bob'"):
        charge(ledger, "0.3", spelling)
    assert charge(ledger, "0.2", spelling).analyst == "bob"
    assert ledger.spent("a", analyst=spelling).epsilon == Fraction(1, 2)
    assert ledger.verify()


def test_white_space_inside_a_name_is_one_space_and_other_people_are_others():
    assert analyst_name("Ann\u00a0\t Lee") == analyst_name("ann lee") == "ann lee"
    assert len({analyst_name(name) for name in ("ann", "ann lee", "annlee", "bob", "李明", "Zoë")}) == 6


@given(st.text(min_size=1))
def test_names_are_compared_the_same_way_however_often_they_are_folded(name):
    try:
        once = analyst_name(name)
    except InvalidParameter:
        return
    assert analyst_name(once) == once == analyst_name(f" {name}\u200b")


@pytest.mark.parametrize("name", ["\u200b", "\u3164", " \u00ad ", ""])
def test_a_name_that_cannot_be_seen_is_refused(name):
    ledger = Ledger(MemoryStore())
    ledger.open("a", Budget(epsilon=1))
    with pytest.raises(InvalidParameter, match="analyst"):
        charge(ledger, analyst=name)


def test_two_caps_for_one_name_are_refused():
    with pytest.raises(InvalidParameter, match="one cap for 'bob'"):
        Ledger(MemoryStore()).open("a", Budget(epsilon=1), caps={"bob": Budget(epsilon=1), "BOB": Budget(epsilon=2)})


def test_spellings_of_an_old_ledger_count_together(tmp_path):
    """Form 1 gave each spelling a total of its own; what comes now counts them all, and the old rows stay good."""
    settings = (
        '{"budget":{"delta":"0","delta_for_keys":"0","epsilon":"1"},'
        '"caps":{"bob":{"delta":"0","delta_for_keys":"0","epsilon":"0.35"}}}'
    )
    path = first_version(tmp_path / "a.db", analysts=("bob", "Bob", "ann", "BOB"), settings=settings)
    assert Ledger(ReadOnlyStore(path)).verify()
    assert Ledger(ReadOnlyStore(path)).spent("a", analyst="bob").epsilon == Fraction(3, 10)
    with SqliteStore(path) as store:
        ledger = Ledger(store)
        ledger.open("a", Budget(epsilon=1), caps={"Bob": Budget(epsilon="0.35")})
        with pytest.raises(BudgetExceeded, match="the cap of 'bob'"):
            charge(ledger, "0.1", "bob")
        assert charge(ledger, "0.05", "bob").own.epsilon == Fraction(7, 20)
        with pytest.raises(BudgetExceeded, match="'ann' has no cap"):
            charge(ledger, "0.1", "ann")
        assert ledger.verify()
        assert Ledger(store).verify("a")


# --- analysts without a name in the policy -----------------------------------------------------------------


def test_where_somebody_is_named_others_are_refused_without_a_cap_for_everyone():
    ledger = Ledger(MemoryStore())
    ledger.open("a", Budget(epsilon=1), caps={"bob": Budget(epsilon="0.5")})
    charge(ledger, "0.1", "bob")
    with pytest.raises(BudgetExceeded, match=r"'eve' has no cap in 'a'.*\[budget.everyone\]"):
        charge(ledger, "0.1", "eve")
    assert ledger.spent("a").epsilon == Fraction(1, 10)


def test_everyone_has_a_cap_of_their_own():
    ledger = Ledger(MemoryStore())
    ledger.open("a", Budget(epsilon=1), caps={"bob": Budget(epsilon="0.5")}, everyone=Budget(epsilon="0.2"))
    for who in ("eve", "Eve ", "dan"):
        if who == "Eve ":
            with pytest.raises(BudgetExceeded, match="the cap of 'eve' in 'a' cannot pay"):
                charge(ledger, "0.1", who)
        else:
            charge(ledger, "0.15", who)
    charge(ledger, "0.5", "bob")
    assert ledger.verify()


def test_where_nobody_is_named_any_name_may_spend_all_of_it():
    ledger = Ledger(MemoryStore())
    ledger.open("a", Budget(epsilon=1))
    charge(ledger, "1", "anybody")
    assert ledger.verify()


def test_a_charge_by_somebody_without_a_cap_is_found_even_if_every_hash_fits(tmp_path):
    path = tmp_path / "a.db"
    with SqliteStore(path) as store:
        Ledger(store).open("a", Budget(epsilon=1), caps={"bob": Budget(epsilon=1)})
        charge(Ledger(store), "0.1", "bob")
    reseal(path, lambda row: replace(row, who="eve") if row.number == 2 else row)
    found = Ledger(ReadOnlyStore(path)).verify()
    assert found.trouble == "row 2: its analyst has no cap, and there is none for everyone"


def test_heads_are_of_the_whole_chain(path):
    assert Ledger(ReadOnlyStore(path)).head("a") == Head(
        "a", 5, 5, list(Ledger(ReadOnlyStore(path)).history("a"))[-1].hash
    )
