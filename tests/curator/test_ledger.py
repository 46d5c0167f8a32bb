"""What the ledger promises, whatever it is kept in: charges, caps, amendments, answers, and what `verify` finds."""

import hashlib
import re
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.curator.ledger import Head, Ledger, digest
from discreet.curator.stores import COLUMNS, GENESIS, Row
from discreet.curator.stores.memory import ManualClock, MemoryStore
from discreet.curator.stores.reader import ReadOnlyStore
from discreet.curator.stores.sqlite import APPLICATION, STEPS, SqliteStore, _SqliteRows
from discreet.errors import (
    BudgetExceeded,
    InvalidParameter,
    LedgerConflict,
    LedgerDamaged,
    LedgerTooNew,
    LedgerUnavailable,
    NoGuarantee,
)
from discreet.privacy.budget import Budget, Spent
from discreet.privacy.loss import Approximate, GaussianNoise, Loss, PerDistance, Pure, Together, to_json

F = Fraction
Q = digest("SELECT 1")


@pytest.fixture
def ledger() -> Ledger:
    made = Ledger(MemoryStore(), clock=ManualClock(datetime(2026, 11, 15, tzinfo=UTC)))
    made.open("clinic", Budget(epsilon=1), caps={"bob": Budget(epsilon="0.3")}, everyone=Budget(epsilon=3))
    return made


def charge(ledger: Ledger, epsilon: str | Loss = "0.1", analyst: str = "ann", account: str = "clinic"):
    loss = Pure(epsilon) if isinstance(epsilon, str) else epsilon
    return ledger.charge(account, analyst=analyst, statement=Q, loss=loss)


def first_version(path: Path, *, analysts: Sequence[str] = ("ann",), settings: str | None = None) -> Path:
    """A ledger as the first version wrote it: an account "a" with one charge of ε 0.1 by each of the analysts."""
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in STEPS[0]:
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id={APPLICATION}")
    connection.execute("PRAGMA user_version=1")
    rows = _SqliteRows(connection)
    settings = settings or '{"budget":{"delta":"0","delta_for_keys":"0","epsilon":"1"},"caps":{}}'
    last = Row("a", "open", Spent().to_json(), Spent().to_json(), settings=settings)
    last = _form_1(last.sealed(number=1, when="2026-01-01T00:00:00.000000Z", tail=None))
    rows.append(last)
    total, own = Spent(), dict.fromkeys(analysts, Spent())
    for number, who in enumerate(analysts, 2):
        total, own[who] = total.plus(Pure("0.1")), own[who].plus(Pure("0.1"))
        row = Row("a", "charge", total.to_json(), own[who].to_json(), who, Q, None, to_json(Pure("0.1")))
        last = _form_1(row.sealed(number=number, when=last.when, tail=last))
        rows.append(last)
    connection.close()
    return path


def _form_1(row: Row) -> Row:
    old = replace(row, version=1)
    return replace(old, hash=old.digest())


# --- charges -----------------------------------------------------------------------------------------------


def test_a_charge_states_everything_and_is_read_back_the_same(ledger):
    made = ledger.charge("clinic", analyst="ann", statement=Q, loss=Pure("0.1"), text="SELECT 1")
    assert (made.number, made.account, made.analyst, made.statement, made.text) == (2, "clinic", "ann", Q, "SELECT 1")
    assert made.when == "2026-11-15T00:00:00.000000Z"
    assert made.loss == Pure("0.1")
    assert made.total == made.own == Spent.by(Pure("0.1"))
    assert ledger.charges("clinic") == [made]


def test_rows_are_chained_and_hashed(ledger):
    charge(ledger)
    charge(ledger)
    rows = list(ledger.history("clinic"))
    assert [row.kind for row in rows] == ["open", "charge", "charge"]
    assert [row.number for row in rows] == [1, 2, 3]
    assert [row.previous for row in rows] == [GENESIS, rows[0].hash, rows[1].hash]
    assert all(row.intact and len(row.hash) == 64 for row in rows)
    assert rows[1].loss == to_json(Pure("0.1"))


@pytest.mark.parametrize("name", [name for name in COLUMNS if name not in ("text", "hash")])
def test_the_hash_covers_every_field(ledger, name):
    charge(ledger)
    row = list(ledger.history("clinic"))[1]
    assert row.intact
    changed = getattr(row, name)
    assert not replace(row, **{name: changed + 1 if isinstance(changed, int) else (changed or "") + "x"}).intact


def test_the_canonical_form_does_not_change():
    """A ledger is read for years: what is hashed is written out here, byte by byte, and must stay."""
    row = Row("é", "charge", "{}", '{"o":1}', "ann", "ab", "SELECT 1", "{}").sealed(number=7, when="2026", tail=None)
    canonical = (
        '{"account":"é","clock":null,"kind":"charge","loss":"{}","number":7,"own":"{\\"o\\":1}","previous":"'
        + "0" * 64
        + '","settings":null,"statement":"ab","total":"{}","version":2,"when":"2026","who":"ann","why":null}'
    )
    assert row.hash == hashlib.sha256(canonical.encode("utf-8")).hexdigest()


def test_the_budget_pays_to_the_last_bit_and_not_beyond(ledger):
    for _ in range(10):
        charge(ledger)
    assert ledger.spent("clinic").epsilon == 1
    with pytest.raises(BudgetExceeded) as caught:
        charge(ledger, "1e-9")
    assert "the budget of 'clinic' cannot pay" in str(caught.value)
    assert "ε 1e-09 more than ε 1, δ 0" in str(caught.value)
    assert len(list(ledger.history("clinic"))) == 11
    assert ledger.verify()


def test_a_cap_holds_for_its_analyst_alone_and_costs_the_account_too(ledger):
    for _ in range(3):
        charge(ledger, analyst="bob")
    with pytest.raises(
        BudgetExceeded, match="the cap of 'bob' in 'clinic' cannot pay: .*to ε 0.4, ε 0.1 more than ε 0.3"
    ):
        charge(ledger, analyst="bob")
    charge(ledger, "0.7", analyst="ann")
    with pytest.raises(BudgetExceeded, match="the budget of 'clinic'"):
        charge(ledger, analyst="cleo")
    assert ledger.spent("clinic", analyst="bob").epsilon == F(3, 10)
    assert ledger.spent("clinic", analyst="ann").epsilon == F(7, 10)
    assert ledger.spent("clinic", analyst="cleo") == Spent()
    assert ledger.spent("clinic").epsilon == 1


def test_accounts_do_not_touch_each_other(ledger):
    ledger.open("school", Budget(epsilon=2))
    charge(ledger, "1")
    assert charge(ledger, "2", account="school").number == 4
    assert ledger.accounts() == ["clinic", "school"]
    assert ledger.spent("school").epsilon == 2
    assert ledger.verify().rows == 4
    assert ledger.verify("school").rows == 2


def test_losses_with_delta_and_without_a_finite_total():
    ledger = Ledger(MemoryStore())
    ledger.open("a", Budget(epsilon=1, delta="1e-6"))
    charge(ledger, GaussianNoise(20), account="a")
    charge(ledger, Approximate("0.1", "4e-7"), account="a")
    with pytest.raises(BudgetExceeded, match="additive δ 3e-07 more than"):
        charge(ledger, Approximate("0.1", "4e-7"), account="a")
    assert ledger.verify()
    with pytest.raises(NoGuarantee):
        charge(ledger, PerDistance(1, "km", 0), account="a")
    ledger.open("b", Budget(epsilon=1))
    with pytest.raises(BudgetExceeded, match="no finite ε"):
        charge(ledger, GaussianNoise(20), account="b")
    assert ledger.spent("b") == Spent()


def test_odd_denominators_do_not_make_an_account_unreadable():
    """Sums of 1/p for many primes p would outgrow what can be read back; they are rounded up instead."""
    ledger = Ledger(MemoryStore())
    ledger.open("a", Budget(epsilon=100))
    primes = [p for p in range(10**6, 10**6 + 1500) if all(p % d for d in range(2, 1100))]
    assert len(primes) > 80
    exact = F(0)
    for p in primes:
        exact += F(1, p)
        spent = charge(ledger, Pure(F(1, p)), account="a").total.epsilon
        assert exact <= spent <= exact + F(len(primes), 10**60)
    assert exact.denominator.bit_length() > 1000
    assert spent.denominator.bit_length() <= 512
    assert ledger.verify()


@given(
    st.lists(st.sampled_from(["0", "0.05", "0.1", "0.3", "1/3", "2"]), max_size=12),
    st.sampled_from(["0.3", "2/3", "1"]),
)
def test_what_is_accepted_is_what_fits(epsilons, budget):
    ledger = Ledger(MemoryStore())
    ledger.open("a", Budget(epsilon=budget))
    total = F(0)
    for epsilon in epsilons:
        if total + F(epsilon) <= F(budget):
            charge(ledger, epsilon, account="a")
            total += F(epsilon)
        else:
            with pytest.raises(BudgetExceeded):
                charge(ledger, epsilon, account="a")
        assert ledger.spent("a").epsilon == total
    assert ledger.verify()


# --- settings ----------------------------------------------------------------------------------------------


def test_opening_again_is_fine_with_the_same_settings_only(ledger):
    ledger.open("clinic", Budget(epsilon="1.0"), caps={"bob": Budget(epsilon="3/10")}, everyone=Budget(epsilon="3.0"))
    for budget, caps in ((Budget(epsilon=2), {"bob": Budget(epsilon="0.3")}), (Budget(epsilon=1), {})):
        with pytest.raises(
            LedgerConflict, match="account 'clinic' is open with budget ε 1, δ 0 and caps ε 0.3.* amend"
        ):
            ledger.open("clinic", budget, caps=caps)
    assert len(list(ledger.history("clinic"))) == 1


def test_an_amendment_is_on_record_and_in_force(ledger):
    charge(ledger, "1")
    ledger.amend("clinic", budget=Budget(epsilon=3), by="olga", why="second study approved")
    row = list(ledger.history("clinic"))[-1]
    assert (row.kind, row.who, row.why) == ("amend", "olga", "second study approved")
    assert ledger.budget("clinic") == Budget(epsilon=3)
    assert ledger.caps("clinic") == {"bob": Budget(epsilon="0.3")}
    ledger.open("clinic", Budget(epsilon=3), caps={"bob": Budget(epsilon="0.3")}, everyone=Budget(epsilon=3))
    charge(ledger, "2")
    ledger.amend("clinic", caps={}, by="olga", why="bob left")
    assert (ledger.budget("clinic"), ledger.caps("clinic")) == (Budget(epsilon=3), {})
    assert ledger.verify()


def test_a_budget_lowered_below_what_is_spent_blocks_even_free_charges(ledger):
    charge(ledger, "0.5")
    ledger.amend("clinic", budget=Budget(epsilon="0.4"), by="olga", why="stop")
    for loss in (Pure("0.1"), Together()):
        with pytest.raises(BudgetExceeded):
            charge(ledger, loss)
    assert ledger.spent("clinic").epsilon == F(1, 2)
    assert ledger.verify()


# --- time --------------------------------------------------------------------------------------------------


def test_time_never_goes_back_and_a_clock_that_does_is_noted():
    clock = ManualClock(datetime(2026, 11, 15, 12, tzinfo=UTC))
    ledger = Ledger(MemoryStore(), clock=clock)
    ledger.open("a", Budget(epsilon=1))
    for hours in (1, -3, 1, 2):
        clock.move(timedelta(hours=hours))
        charge(ledger, account="a")
    rows = list(ledger.history("a"))
    assert [row.when[11:13] for row in rows] == ["12", "13", "13", "13", "13"]
    assert [row.clock and row.clock[11:13] for row in rows] == [None, None, "10", "11", None]
    assert ledger.verify()


def test_a_clock_without_a_time_zone_is_refused_and_others_become_utc():
    ledger = Ledger(MemoryStore(), clock=ManualClock(datetime(2026, 1, 1)))
    with pytest.raises(InvalidParameter, match="time zone"):
        ledger.open("a", Budget(epsilon=1))
    east = datetime.fromisoformat("2026-01-01T01:30:00+02:00")
    ledger = Ledger(MemoryStore(), clock=ManualClock(east))
    ledger.open("a", Budget(epsilon=1))
    assert next(ledger.history("a")).when == "2025-12-31T23:30:00.000000Z"


# --- answers -----------------------------------------------------------------------------------------------


def test_what_is_kept_is_not_bought_again(ledger):
    bought, nothing = ledger.buy("plan:1", "clinic", analyst="ann", statement=Q, loss=Pure("0.6"))
    ledger.remember("plan:1", bought.number, b"42")
    again, kept = ledger.buy("plan:1", "clinic", analyst="ann", statement=Q, loss=Pure("0.6"))
    assert (nothing, kept, again.number, ledger.spent("clinic").epsilon) == (None, b"42", bought.number, F("0.6"))
    with pytest.raises(BudgetExceeded):
        ledger.buy("plan:2", "clinic", analyst="ann", statement=Q, loss=Pure("0.6"))


def test_an_answer_is_recalled_for_nothing(ledger):
    number = charge(ledger).number
    assert ledger.recall("key") is None
    ledger.remember("key", number, b"answer")
    ledger.remember("key", number, b"answer")
    head = ledger.head("clinic")
    assert ledger.recall("key")[1] == b"answer"
    assert ledger.head("clinic") == head
    with pytest.raises(LedgerConflict, match="recall it instead"):
        ledger.remember("key", charge(ledger).number, b"another answer")
    assert ledger.recall("key")[1] == b"answer"


@pytest.mark.parametrize("number", [1, 3, 10**18])
def test_an_answer_belongs_to_a_charge(ledger, number):
    charge(ledger)
    with pytest.raises(InvalidParameter, match="the number of a charge"):
        ledger.remember("key", number, b"answer")
    assert ledger.recall("key") is None


# --- the salt ----------------------------------------------------------------------------------------------


def test_each_account_has_its_own_secret_that_stays(tmp_path):
    """Two accounts, and the same account in two ledgers, share no secret; opening again changes none."""
    salts = []
    for name in ("one.db", "two.db"):
        with SqliteStore(tmp_path / name) as store:
            ledger = Ledger(store)
            for account in ("a", "b"):
                ledger.open(account, Budget(epsilon=1))
                salts.append(ledger.salt(account))
        with SqliteStore(tmp_path / name) as store:
            ledger = Ledger(store)
            ledger.open("a", Budget(epsilon=1))
            assert [ledger.salt("a"), ledger.salt("b")] == salts[-2:]
    assert {len(salt) for salt in salts} == {32}
    assert len(set(salts)) == 4


def test_a_secret_is_in_nothing_that_is_shown(tmp_path):
    with SqliteStore(tmp_path / "a.db") as store:
        ledger = Ledger(store)
        ledger.open("a", Budget(epsilon=1))
        charge(ledger, account="a")
        shown = repr([*ledger.history("a"), ledger.verify(), ledger.head("a"), ledger.charges("a")])
        assert ledger.salt("a").hex() not in shown
        assert repr(ledger.salt("a")) not in shown
    with pytest.raises(InvalidParameter, match="an account of this ledger"):
        Ledger(MemoryStore()).salt("nowhere")


def test_a_ledger_of_the_first_version_gets_its_secret_on_first_use(tmp_path):
    path = first_version(tmp_path / "a.db")
    with pytest.raises(LedgerUnavailable, match="open for reading alone"):
        Ledger(ReadOnlyStore(path)).salt("a")
    with SqliteStore(path) as store:
        salt = Ledger(store).salt("a")
        assert (len(salt), Ledger(store).salt("a")) == (32, salt)
    assert Ledger(ReadOnlyStore(path)).salt("a") == salt


def test_a_secret_that_was_cut_short_is_refused(tmp_path):
    with SqliteStore(tmp_path / "a.db") as store:
        Ledger(store).open("a", Budget(epsilon=1))
    connection = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
    connection.execute("DROP TRIGGER salts_stay_fixed")
    connection.execute("UPDATE salts SET salt = x'00'")
    connection.close()
    with SqliteStore(tmp_path / "a.db") as store, pytest.raises(LedgerDamaged, match="the salt of account 'a'"):
        Ledger(store).salt("a")


# --- bad input ---------------------------------------------------------------------------------------------

BAD: dict[str, Callable[[Ledger], object]] = {
    "unknown account": lambda x: charge(x, account="nowhere"),
    "unknown account, spent": lambda x: x.spent("nowhere"),
    "unknown account, budget": lambda x: x.budget("nowhere"),
    "unknown account, head": lambda x: x.head("nowhere"),
    "unknown account, history": lambda x: x.history("nowhere"),
    "unknown account, verify": lambda x: x.verify("nowhere"),
    "unknown account, amend": lambda x: x.amend("nowhere", caps={}, by="o", why="w"),
    "empty account": lambda x: x.open(" ", Budget(epsilon=1)),
    "account not text": lambda x: x.spent(object()),
    "surrogate": lambda x: x.open("\ud800", Budget(epsilon=1)),
    "analyst not text": lambda x: charge(x, analyst=None),
    "analyst not text, spent": lambda x: x.spent("clinic", analyst=3),
    "budget a number": lambda x: x.open("a", 1),
    "cap a number": lambda x: x.open("a", Budget(epsilon=1), caps={"bob": 1}),
    "cap of nobody": lambda x: x.open("a", Budget(epsilon=1), caps={"": Budget(epsilon=1)}),
    "nothing to amend": lambda x: x.amend("clinic", by="o", why="w"),
    "no reason": lambda x: x.amend("clinic", caps={}, by="o", why=""),
    "statement not a digest": lambda x: x.charge("clinic", analyst="a", statement="SELECT 1", loss=Pure(1)),
    "statement upper case": lambda x: x.charge("clinic", analyst="a", statement=Q.upper(), loss=Pure(1)),
    "other text": lambda x: x.charge("clinic", analyst="a", statement=Q, loss=Pure(1), text="SELECT 2"),
    "loss a number": lambda x: x.charge("clinic", analyst="a", statement=Q, loss=0.5),
    "loss a list": lambda x: x.charge("clinic", analyst="a", statement=Q, loss=[Pure(1)]),
    "answer not bytes": lambda x: x.remember("key", 2, "text"),
    "number a bool": lambda x: x.remember("key", True, b""),
    "key empty": lambda x: x.recall(""),
    "key surrogate": lambda x: x.recall("\ud800"),
}


@pytest.mark.parametrize("kept", ["memory", "sqlite"])
@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_clear_refusal_and_nothing_is_written(name, kept, tmp_path):
    store = MemoryStore() if kept == "memory" else SqliteStore(tmp_path / "ledger.db")
    ledger = Ledger(store)
    ledger.open("clinic", Budget(epsilon=1))
    charge(ledger)
    head = ledger.head("clinic")
    with pytest.raises(InvalidParameter):
        BAD[name](ledger)
    assert ledger.head("clinic") == head
    assert ledger.accounts() == ["clinic"]
    if kept == "sqlite":
        store.close()


# --- what verify finds -------------------------------------------------------------------------------------


class Tampered:
    """A ledger file of two accounts, closed, for hands that know SQL."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "ledger.db"
        with SqliteStore(self.path) as store:
            ledger = Ledger(store)
            ledger.open("a", Budget(epsilon=1), caps={"bob": Budget(epsilon="0.5")})  # row 1
            ledger.open("b", Budget(epsilon=1))  # row 2
            for n in range(6):  # a: 3, 5, 7; b: 4, 6, 8
                ledger.charge("ab"[n % 2], analyst="bob", statement=Q, loss=Pure("0.1"), text="SELECT 1")
            self.heads = {name: ledger.head(name) for name in "ab"}

    def sql(self, *statements: str, values: tuple[object, ...] = ()) -> None:
        connection = sqlite3.connect(self.path, isolation_level=None)
        for name in ("rows_stay_fixed", "texts_stay_fixed", "rows_stay"):
            connection.execute(f"DROP TRIGGER IF EXISTS {name}")
        for statement in statements:
            connection.execute(statement, values)
        connection.close()

    def reseal(self, account: str, change: Callable[[Row], Row | None]) -> None:
        """Rewrite a chain as somebody would who knows how: all hashes and the head fit again."""
        with SqliteStore(self.path) as store:
            rows = list(Ledger(store).history(account))
        tail, kept = None, []
        for row in filter(None, map(change, rows)):
            tail = row.sealed(number=row.number, when=row.when, tail=tail, clock=row.clock)
            kept.append(tail)
        self.sql("DELETE FROM rows WHERE account = ?", values=(account,))
        names = ", ".join(f'"{name}"' for name in COLUMNS)
        for row in kept:
            values = tuple(getattr(row, name) for name in COLUMNS)
            self.sql(f"INSERT INTO rows ({names}) VALUES ({', '.join('?' * len(COLUMNS))})", values=values)
        self.sql(
            "UPDATE heads SET length=?, number=?, hash=? WHERE account=?",
            values=(len(kept), tail.number, tail.hash, account),
        )

    def verify(self, account: str | None = None, published: tuple[Head, ...] = ()):
        with SqliteStore(self.path) as store:
            return Ledger(store).verify(account, published=published)


@pytest.fixture
def tampered(tmp_path: Path) -> Tampered:
    return Tampered(tmp_path)


def test_an_honest_ledger_verifies_with_the_heads_it_published(tampered):
    found = tampered.verify(published=tuple(tampered.heads.values()))
    assert found
    assert (found.rows, found.heads, str(found)) == (8, tuple(tampered.heads.values()), "8 rows of 2 accounts verified")


CHANGES = {
    "account": "'b'", "kind": "'amend'", "total": "'{}'", "own": "'{}'", "who": "'eve'", "statement": f"'{'ab' * 32}'",
    "text": "'SELECT 2'", "loss": "'{\"kind\":\"pure\",\"epsilon\":\"0.01\"}'", "settings": "'{}'", "why": "'because'",
    "number": "55", "when": "'2020-01-01T00:00:00.000000Z'", "clock": "'2020'", "version": "3", "previous": f"'{GENESIS}'",
    "hash": f"'{GENESIS}'",
}  # fmt: skip


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("account", ["a", None])
def test_an_edit_of_any_field_is_found_and_the_row_named(tampered, column, account):
    tampered.sql(f'UPDATE rows SET "{column}" = {CHANGES[column]} WHERE number = 5')
    found = tampered.verify(account)
    assert not found
    expected = {"number": {None: 6, "a": 7}, "account": {None: 5, "a": 7}}.get(column, {}).get(account, 5)
    assert found.number == expected, found.trouble
    assert found.trouble.startswith(f"row {expected}: ")


def test_a_text_may_be_erased(tampered):
    tampered.sql("UPDATE rows SET text = NULL WHERE number = 5")
    assert tampered.verify()


@pytest.mark.parametrize(
    ("statements", "words"),
    [
        (["DELETE FROM rows WHERE number = 5"], "row 7: .*removed"),
        (["DELETE FROM rows WHERE number = 7"], "account 'a' has 3 rows up to row 5, but its head says 4 rows up to row 7"),
        (["DELETE FROM rows WHERE account = 'a'"], "account 'a' has 0 rows"),
        (["DELETE FROM heads WHERE account = 'a'"], "its head is missing"),
        (["UPDATE heads SET length = 9 WHERE account = 'a'"], "head says 9 rows"),
        (["UPDATE rows SET number = 99 WHERE number = 5", "UPDATE rows SET number = 5 WHERE number = 7",
          "UPDATE rows SET number = 7 WHERE number = 99"], "row 5: its hash"),
        (["INSERT INTO rows SELECT account, kind, total, own, who, statement, text, loss, settings, why, 9, \"when\", clock, "
          "version, previous, hash FROM rows WHERE number = 7"], "row 9: its hash"),
    ],
    ids=["removed", "cut off", "emptied", "headless", "wrong head", "swapped", "copied"],
)  # fmt: skip
def test_rows_removed_moved_or_added_are_found(tampered, statements, words):
    tampered.sql(*statements)
    found = tampered.verify("a")
    assert not found
    assert re.search(words, found.trouble), found.trouble
    assert "NOT VERIFIED" in str(found)


def test_a_missing_row_leaves_a_gap_even_where_its_chain_was_mended(tampered):
    tampered.reseal("a", lambda row: row if row.number != 7 else None)
    assert tampered.verify("a")
    found = tampered.verify()
    assert (found.number, found.trouble) == (8, "row 8: row 7, which goes before it, is missing")


def test_a_rewritten_loss_is_found_by_the_totals_even_if_every_hash_fits(tampered):
    small = to_json(Pure("0.01"))
    tampered.reseal("a", lambda row: replace(row, loss=small) if row.number == 5 else row)
    found = tampered.verify()
    assert (found.number, found.trouble) == (5, "row 5: its total is not the total before it plus its loss")


def test_a_charge_beyond_the_budget_is_found_even_if_every_hash_fits(tampered):
    lower = '{"budget":{"delta":"0","delta_for_keys":"0","epsilon":"0.2"},"caps":{}}'
    tampered.reseal("a", lambda row: replace(row, settings=lower) if row.number == 1 else row)
    found = tampered.verify()
    assert (found.number, found.trouble) == (7, "row 7: it exceeds the budget or the cap in force")


def test_a_chain_rewritten_to_its_end_is_found_only_by_what_was_published(tampered):
    tampered.reseal("b", lambda row: replace(row, who="eve") if row.number > 2 else row)
    assert tampered.verify()
    found = tampered.verify(published=(tampered.heads["b"],))
    assert (found.number, found.trouble.split(": ")[1]) == (8, "it is not the row that was published as a head")
    assert tampered.verify(published=(tampered.heads["a"],))
    assert tampered.verify("a", published=(tampered.heads["b"],))


def test_a_tail_cut_off_with_its_head_is_found_only_by_what_was_published(tampered):
    tampered.reseal("b", lambda row: row if row.number != 8 else None)
    assert tampered.verify()
    found = tampered.verify(published=(tampered.heads["b"],))
    assert found.trouble == "row 8 of account 'b' was published as a head and is missing"


def test_no_charge_is_built_on_a_row_that_was_edited(tampered):
    tampered.sql("""UPDATE rows SET total = replace(total, '0.3', '0.0') WHERE number = 7""")
    with SqliteStore(tampered.path) as store:
        ledger = Ledger(store)
        for ask in (lambda: charge(ledger, account="a"), lambda: ledger.spent("a"), lambda: ledger.head("a")):
            with pytest.raises(LedgerDamaged, match="row 7 of account 'a' was edited; nothing was charged; verify"):
                ask()
        assert charge(ledger, account="b").number == 9


@pytest.mark.parametrize("number", [7, 5])
def test_no_charge_is_built_where_rows_are_missing_at_the_end(tampered, number):
    tampered.sql(f"DELETE FROM rows WHERE number >= {number}")
    with SqliteStore(tampered.path) as store, pytest.raises(LedgerDamaged, match="does not end where its head says"):
        charge(Ledger(store), account="a")


def test_no_charge_is_built_on_settings_that_were_edited(tampered):
    tampered.sql("UPDATE rows SET settings = replace(settings, '\"1\"', '\"9\"') WHERE number = 1")
    with SqliteStore(tampered.path) as store, pytest.raises(LedgerDamaged, match="row 1 of account 'a' was edited"):
        charge(Ledger(store), account="a")


def test_bytes_that_are_not_text_are_one_clear_error_for_their_account_only(tampered):
    tampered.sql("UPDATE rows SET who = CAST(x'ff' AS TEXT) WHERE number = 7")
    with SqliteStore(tampered.path) as store:
        with pytest.raises(LedgerDamaged):
            charge(Ledger(store), account="a")
        assert not Ledger(store).verify()
        assert charge(Ledger(store), account="b").number == 9


def test_a_row_of_a_newer_form_is_refused(tampered):
    tampered.sql("UPDATE rows SET version = 3 WHERE number = 7")
    with SqliteStore(tampered.path) as store, pytest.raises(LedgerTooNew, match="row 7 has the form 3, expected 2"):
        charge(Ledger(store), account="a")


def test_the_file_itself_refuses_changes_by_accident(tampered):
    connection = sqlite3.connect(tampered.path, isolation_level=None)
    for statement in ("UPDATE rows SET total = '{}'", "DELETE FROM rows", "UPDATE rows SET text = 'other'"):
        with pytest.raises(sqlite3.IntegrityError):
            connection.execute(statement)
    connection.execute("UPDATE rows SET text = NULL")
    connection.close()
    assert tampered.verify()
