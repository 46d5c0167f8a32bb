"""What every ledger store promises: one suite that all of them run. To add a store, add it to `STORES`."""

import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from discreet.curator.ledger import Ledger
from discreet.curator.stores import COLUMNS, CachedAnswer, Head, LedgerStore, Row, Rows
from discreet.curator.stores.memory import MemoryStore
from discreet.curator.stores.postgres import PostgresStore
from discreet.curator.stores.sqlite import SqliteStore
from discreet.errors import LedgerConflict, LedgerUnavailable
from discreet.privacy.budget import Budget

STORES: dict[str, Callable[[Path], Any]] = {
    "memory": lambda folder: MemoryStore(),
    "sqlite": lambda folder: SqliteStore(folder / "ledger.db", patience=20),
    "postgres": lambda folder: PostgresStore((folder / "address").read_text(), patience=20),
}
LASTING = ["sqlite", "postgres"]


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for a new ledger; of a PostgreSQL one, with the address of a database without any."""
    params = request.node.callspec.params
    if "postgres" in (params.get("store"), params.get("name")):
        server = request.getfixturevalue("postgres")
        monkeypatch.setenv("PGPASSWORD", "ge%h@im")
        server.without_ledger()
        (tmp_path / "address").write_text(server.plain("postgres"))
    return tmp_path


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, place: Path) -> Iterator[LedgerStore]:
    made = STORES[request.param](place)
    yield made
    if hasattr(made, "close"):
        made.close()


def row(number: int, account: str = "clinic", kind: str = "charge", who: str = "ann") -> Row:
    draft = Row(account, kind, '{"t":1}', '{"o":1}', who, "ab" * 32, "SELECT 'é'", '{"l":1}', None, "a reason")
    return draft.sealed(number=number, when=f"2026-01-01T00:00:{number:02}.000000Z", tail=None, clock="2025")


def append(*new: Row) -> Callable[[Rows], None]:
    def work(rows: Rows) -> None:
        for one in new:
            rows.append(one)

    return work


def everything(rows: Rows) -> list[Row]:
    return list(rows.after(0, limit=1000))


def test_a_work_is_run_once_and_its_result_returned(store):
    calls = []
    result = object()
    assert store.transact(lambda rows: (calls.append(1), result)[1]) is result
    assert calls == [1]


def test_an_empty_ledger_has_nothing(store):
    def work(rows: Rows) -> list[object]:
        found = [rows.head("clinic"), rows.latest("clinic"), rows.settings("clinic"), rows.latest_by("clinic", "ann")]
        return [rows.last(), list(rows.heads()), list(rows.after(0, limit=9)), rows.cached("key"), *found]

    assert store.transact(work) == [0, [], [], None, None, None, None, None]


def test_rows_come_back_as_they_were_written_field_by_field(store):
    full, bare = row(1), Row("b", "open", "{}", "{}").sealed(number=2, when="2026", tail=None)
    store.transact(append(full, bare))
    assert store.transact(everything) == [full, bare]
    assert store.transact(lambda rows: rows.last()) == 2
    assert tuple(field.name for field in fields(Row)) == COLUMNS


def test_a_work_sees_what_it_has_written_itself(store):
    def work(rows: Rows) -> tuple[int, Head | None]:
        rows.append(row(1))
        return rows.last(), rows.head("clinic")

    assert store.transact(work) == (1, Head("clinic", 1, 1, row(1).hash))


def test_heads_follow_the_last_row_and_count_the_rows_of_each_account(store):
    store.transact(append(row(1, "b"), row(2, "a"), row(3, "b")))
    heads = store.transact(lambda rows: list(rows.heads()))
    assert heads == [Head("a", 1, 2, row(2, "a").hash), Head("b", 2, 3, row(3, "b").hash)]
    assert store.transact(lambda rows: rows.head("b")) == heads[1]


def test_the_latest_row_of_an_account_of_an_analyst_and_of_the_settings(store):
    rows = [row(1, "a", "open", ""), row(2, "a"), row(3, "a", "amend", "bob"), row(4, "a", who="bob"), row(5, "b")]
    rows += [row(6, "b", "answer", "")]
    store.transact(append(*rows))
    assert store.transact(lambda r: r.latest("a")) == rows[3]
    assert store.transact(lambda r: r.settings("a")) == rows[2]
    assert store.transact(lambda r: r.settings("b")) is None
    assert store.transact(lambda r: r.latest_by("a", "bob")) == rows[3]
    assert store.transact(lambda r: r.latest_by("a", "ann")) == rows[1]
    assert store.transact(lambda r: r.latest_by("b", "bob")) is None
    assert store.transact(lambda r: (r.row(3), r.row(9))) == (rows[2], None)
    assert store.transact(lambda r: [r.latest("a", before=n) for n in (4, 1)]) == [rows[2], None]
    assert store.transact(lambda r: [r.latest_by("a", "ann", before=n) for n in (3, 2)]) == [rows[1], None]
    assert store.transact(lambda r: r.spellings("a")) == ["ann", "bob"]


def test_pages_are_in_order_and_end(store):
    rows = [row(n, "a" if n % 3 else "b") for n in range(1, 20)]
    store.transact(append(*rows))
    assert store.transact(lambda r: list(r.after(5, limit=4))) == rows[5:9]
    assert store.transact(lambda r: [one.number for one in r.after(3, limit=3, account="b")]) == [6, 9, 12]
    assert store.transact(lambda r: list(r.after(19, limit=4))) == []


@pytest.mark.parametrize("error", [ValueError("no"), TimeoutError("no"), KeyboardInterrupt(), SystemExit(3)])
def test_a_work_that_raises_leaves_nothing_and_its_own_error_reaches_the_caller(store, error):
    store.transact(append(row(1)))

    def work(rows: Rows) -> None:
        rows.append(row(2))
        rows.cache(CachedAnswer("key", 1, 2, b"answer"))
        raise error

    with pytest.raises(type(error)) as caught:
        store.transact(work)
    assert caught.value is error
    assert store.transact(everything) == [row(1)]
    assert store.transact(lambda rows: (rows.cached("key"), rows.head("clinic").length)) == (None, 1)


def test_a_number_is_given_once(store):
    store.transact(append(row(1), row(2)))
    for number in (1, 2):
        with pytest.raises(LedgerConflict):
            store.transact(append(row(number, "other")))
    assert store.transact(everything) == [row(1), row(2)]


def test_answers_are_kept_once_each_for_a_row_that_exists(store):
    store.transact(append(row(1), row(2), row(3), row(4)))
    full, empty = CachedAnswer("key", 1, 2, bytes(range(256)) * 500), CachedAnswer("empty", 1, 3, b"")
    store.transact(lambda rows: rows.cache(full))
    store.transact(lambda rows: rows.cache(empty))
    assert store.transact(lambda rows: (rows.cached("key"), rows.cached("empty"))) == (full, empty)
    for bad in (CachedAnswer("key", 1, 4, b"other"), CachedAnswer("new", 9, 4, b""), CachedAnswer("new", 1, 9, b"")):
        with pytest.raises(LedgerConflict):
            store.transact(lambda rows, bad=bad: rows.cache(bad))
    assert store.transact(lambda rows: (rows.cached("key"), rows.cached("new"))) == (full, None)
    assert store.transact(lambda rows: [rows.next_cached(number) for number in (0, 2, 3)]) == [full, empty, None]
    assert store.transact(lambda rows: rows.unsealed()) == 0


def test_an_account_has_one_salt_and_it_stays(store):
    assert store.transact(lambda rows: rows.salt("a")) is None
    store.transact(lambda rows: rows.keep_salt("a", b"1" * 32))
    store.transact(lambda rows: rows.keep_salt("b", b"2" * 32))
    with pytest.raises(LedgerConflict):
        store.transact(lambda rows: rows.keep_salt("a", b"3" * 32))
    assert store.transact(lambda rows: (rows.salt("a"), rows.salt("b"))) == (b"1" * 32, b"2" * 32)


def test_works_of_many_threads_run_one_after_another(store):
    inside, most = [], []

    def work(rows: Rows) -> None:
        inside.append(1)
        most.append(len(inside))
        rows.append(row(rows.last() + 1, who=threading.current_thread().name))
        inside.pop()

    def many() -> None:
        for _ in range(12):
            store.transact(work)

    threads = [threading.Thread(target=many) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [one.number for one in store.transact(everything)] == list(range(1, 97))
    assert set(most) == {1}


def test_failing_works_do_not_touch_those_beside_them(store):
    failed = []

    def work(rows: Rows, *, fail: bool) -> None:
        rows.append(row(rows.last() + 1, "bad" if fail else "good"))
        if fail:
            raise ValueError

    def many(fail: bool) -> None:
        for _ in range(12):
            try:
                store.transact(lambda rows: work(rows, fail=fail))
            except ValueError:
                failed.append(1)

    threads = [threading.Thread(target=many, args=(n % 2 == 0,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [(one.number, one.account) for one in store.transact(everything)] == [(n, "good") for n in range(1, 49)]
    assert len(failed) == 48


def test_a_work_that_calls_transact_again_is_refused_not_hung(store):
    with pytest.raises(LedgerUnavailable, match="a work called transact again"):
        store.transact(lambda rows: store.transact(lambda inner: None))
    assert store.transact(lambda rows: rows.last()) == 0


def test_a_forked_child_shares_the_ledger_or_is_refused(store):
    store.transact(append(row(1)))
    child = os.fork()
    if child == 0:
        code = 9
        try:
            store.transact(lambda rows: rows.append(row(2)))
            code = 0
        except LedgerUnavailable:
            code = 1
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, 1)
    assert store.transact(lambda rows: rows.last()) == 2 - code


@pytest.mark.parametrize("name", LASTING)
def test_what_was_written_is_there_after_a_restart(name, place):
    with STORES[name](place) as store:
        store.transact(append(row(1), replace(row(2), text=None)))
        store.transact(lambda rows: rows.cache(CachedAnswer("key", 2, 1, b"answer")))
    with STORES[name](place) as again:
        assert again.transact(everything) == [row(1), replace(row(2), text=None)]
        assert again.transact(lambda rows: (rows.cached("key"), rows.head("clinic").length)) == (
            CachedAnswer("key", 2, 1, b"answer"),
            2,
        )


@pytest.mark.parametrize("name", LASTING)
def test_two_stores_on_one_ledger_see_each_other(name, place):
    with STORES[name](place) as one, STORES[name](place) as other:
        for number in range(1, 9):
            (one if number % 2 else other).transact(lambda rows: rows.append(row(rows.last() + 1)))
            assert other.transact(lambda rows: rows.last()) == number


@pytest.mark.parametrize("name", LASTING)
def test_a_closed_store_refuses_and_closing_twice_is_fine(name, place):
    store = STORES[name](place)
    store.close()
    store.close()
    with pytest.raises(LedgerUnavailable, match="closed"):
        store.transact(lambda rows: rows.last())


# Several processes at one account of a PostgreSQL ledger

CHARGER = """
import sys
from discreet.curator.ledger import Ledger, digest
from discreet.curator.stores.postgres import PostgresStore
from discreet.errors import BudgetExceeded
from discreet.privacy.loss import Pure
with PostgresStore(sys.argv[1]) as store:
    ledger = Ledger(store)
    print("ready", flush=True)
    sys.stdin.readline()
    try:
        for turn in range(int(sys.argv[2])):
            ledger.charge("clinic", analyst="ann", statement=digest("q"), loss=Pure("1/100"))
            print("paid", flush=True)
    except BudgetExceeded:
        print("spent", flush=True)
"""


def chargers(address: str, count: int, each: int) -> list[Any]:
    command = [sys.executable, "-c", CHARGER, address, str(each)]
    made = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(count)]
    for process in made:
        assert process.stdout.readline() == "ready\n"
    for process in made:
        process.stdin.write("go\n")
        process.stdin.flush()
    return made


@pytest.mark.parametrize("name", ["postgres"])
def test_processes_that_race_never_spend_more_than_the_budget(name, place):
    with STORES[name](place) as store:
        ledger = Ledger(store)
        ledger.open("clinic", Budget(epsilon=1))
        said = [process.communicate()[0] for process in chargers((place / "address").read_text(), 3, 60)]
        assert sum(text.count("paid") for text in said) == 100
        assert len(ledger.charges("clinic")) == 100
        assert ledger.verify()


# One process that imports once, and forks those who are killed: a byte for each charge that a caller was told of.
KILLER = """
import os, random, signal, sys, time
from discreet.curator.ledger import Ledger, digest
from discreet.curator.stores.postgres import PostgresStore
from discreet.errors import BudgetExceeded
from discreet.privacy.budget import Budget
from discreet.privacy.loss import Pure
import psycopg
address, rounds, at_once, payable = sys.argv[1], *map(int, sys.argv[2:])

def charge(account, pipe):
    ledger = Ledger(PostgresStore(address, patience=600))
    ledger.spent(account)
    os.write(pipe, b"r")
    try:
        while True:
            ledger.charge(account, analyst="ann", statement=digest("q"), loss=Pure("1/100"))
            os.write(pipe, b"p")
    except BudgetExceeded:
        os.write(pipe, b"s")
    time.sleep(600)

for turn in range(rounds):
    account, chance = f"clinic {turn}", random.Random(turn)
    opener = os.fork()
    if opener == 0:
        Ledger(PostgresStore(address, patience=600)).open(account, Budget(epsilon=f"{payable}/100"))
        os._exit(0)
    assert os.waitpid(opener, 0)[1] == 0
    children = {}
    for _ in range(at_once):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                charge(account, writing)
            except BaseException as error:
                print(error, file=sys.stderr, flush=True)
            os._exit(1)
        os.close(writing)
        children[child] = reading
    for reading in children.values():
        assert os.read(reading, 1) == b"r"
    told = spent = 0
    for child, reading in children.items():
        time.sleep(chance.expovariate(at_once / 0.06))
        os.kill(child, signal.SIGKILL)
    for child, reading in children.items():
        assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
        with open(reading, "rb") as pipe:
            said = pipe.read()
        told, spent = told + said.count(b"p"), spent + said.count(b"s")
    print(told, spent, flush=True)
"""


def kill_some(place: Path, rounds: int, at_once: int, payable: int = 12) -> None:
    """Kill chargers at random instants: every charge that was told of is there, and no account is over-spent."""
    address = (place / "address").read_text()
    command = [sys.executable, "-c", KILLER, address, str(rounds), str(at_once), str(payable)]
    told = [tuple(map(int, line.split())) for line in subprocess.check_output(command, text=True).splitlines()]
    assert len(told) == rounds
    with PostgresStore(address) as store:
        ledger = Ledger(store)
        counts = [len(ledger.charges(f"clinic {turn}")) for turn in range(rounds)]
        assert all(paid <= count <= payable for (paid, _), count in zip(told, counts, strict=True))
        assert all(count == payable for (_, refused), count in zip(told, counts, strict=True) if refused)
        assert ledger.verify()
    print(f"{rounds * at_once} kills; {sum(counts)} charges, {sum(paid for paid, _ in told)} of them told of; "
          f"{sum(refused > 0 for _, refused in told)} of {rounds} budgets were spent to the end, none was over-spent")  # fmt: skip


@pytest.mark.parametrize("name", ["postgres"])
def test_killed_processes_lose_no_charge(name, place):
    kill_some(place, rounds=3, at_once=4)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["postgres"])
def test_a_thousand_killed_processes_lose_no_charge(name, place):
    kill_some(place, rounds=125, at_once=8)


@pytest.mark.parametrize("name", ["postgres"])
def test_what_callers_were_told_survives_a_crash_of_the_server(name, place, postgres):
    """The commit does not wait for the disk, its caller does: no background process of the server flushes the log here."""
    import psycopg

    with psycopg.connect(postgres.address("postgres"), autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET wal_writer_delay = '10s'")
        connection.execute("SELECT pg_reload_conf()")
    try:
        with STORES[name](place) as store:
            store.transact(append(row(1)))
            with STORES[name](place) as reader:
                store.transact(append(row(2)))
                assert reader.transact(lambda rows: rows.last()) == 2
            postgres.stop("immediate")
            postgres.start()
        with STORES[name](place) as store:
            assert store.transact(everything) == [row(1), row(2)]
    finally:
        with psycopg.connect(postgres.address("postgres"), autocommit=True) as connection:
            connection.execute("ALTER SYSTEM RESET wal_writer_delay")
            connection.execute("SELECT pg_reload_conf()")


@pytest.mark.parametrize("name", ["postgres"])
def test_a_connection_that_was_lost_while_nobody_used_it_is_made_anew(name, place, postgres):
    import psycopg

    def lose() -> None:
        with psycopg.connect(postgres.address("postgres"), autocommit=True) as connection:
            lost = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'discreet ledger'"
            assert connection.execute(lost).rowcount

    with STORES[name](place) as store:
        store.transact(append(row(1)))
        lose()
        store.transact(append(row(2)))

        def interrupted(rows):
            append(row(3))(rows)
            rows.last()
            lose()

        with pytest.raises(LedgerUnavailable, match="a charge may have been made"):
            store.transact(interrupted)
        assert store.transact(everything) == [row(1), row(2)]


@pytest.mark.parametrize("bad", [{"text": "nul \0"}, {"kind": "gift"}], ids=["not sent", "refused"])
@pytest.mark.parametrize("name", ["postgres"])
def test_a_work_that_fails_in_the_server_fails_alone(name, place, bad):
    """Works of one batch: what one writes that the server refuses takes nothing of its neighbors with it."""
    with STORES[name](place) as store:
        store.transact(append(row(1)))
        bad, outcome = replace(row(3), **bad), dict[str, object]()
        with pytest.raises(LedgerUnavailable):
            store.transact(append(bad))

        def attempt(key: str, *new: Row) -> None:
            try:
                outcome[key] = store.transact(append(*new))
            except Exception as error:
                outcome[key] = error

        entered, free = threading.Event(), threading.Event()
        holding = threading.Thread(target=store.transact, args=(lambda rows: (entered.set(), free.wait(20)),))
        holding.start()
        assert entered.wait(20)
        callers = [
            threading.Thread(target=attempt, args=(key, *new))
            for key, new in {"first": [row(2)], "bad": [bad], "taken": [row(1)]}.items()
        ]
        for caller in callers:
            caller.start()
            time.sleep(0.05)  # in this order
        free.set()
        for thread in [holding, *callers]:
            thread.join()
        assert isinstance(outcome["bad"], LedgerUnavailable)
        assert isinstance(outcome["taken"], LedgerConflict)
        assert outcome["first"] is None
        assert store.transact(everything) == [row(1), row(2)]
        store.transact(append(row(3)))
        assert store.transact(lambda rows: (rows.last(), rows.head("clinic").length)) == (3, 3)


def test_what_a_postgresql_transaction_knows_is_what_the_server_knows(postgres, tmp_path, monkeypatch):
    """Every question about last rows, in works that write in between, beside a store without such knowledge."""
    monkeypatch.setenv("PGPASSWORD", "ge%h@im")
    postgres.without_ledger()
    chance, memory, number = random.Random(3), MemoryStore(), 0
    with PostgresStore(postgres.plain("postgres")) as store:
        for _ in range(60):
            steps = [chance.choice(["ask", "ask", "write", "fail"]) for _ in range(chance.randrange(1, 6))]
            works = [(step, chance.choice("ab"), chance.choice(["ann", "bob"]), chance.random()) for step in steps]

            def work(rows: Rows, works: Any = works, number: int = number) -> list[Any]:
                found: list[Any] = []
                for step, account, who, share in works:
                    before = max(1, int(share * (number + 2)))
                    if step == "write":
                        number += 1
                        kind = "open" if rows.head(account) is None else chance_kind(share)
                        rows.append(replace(row(number % 60, account, kind, who), number=number))
                    found += [rows.last(), rows.head(account), rows.latest(account), rows.settings(account)]
                    found += [rows.latest(account, before=before), rows.latest_by(account, who)]
                    found += [rows.latest_by(account, who, before=before)]
                if works[-1][0] == "fail":
                    raise KeyError(repr(found))
                return found

            def outcome(where: LedgerStore, work: Any = work) -> Any:
                try:
                    return where.transact(work)
                except KeyError as error:
                    return str(error)

            expected = outcome(memory)
            assert outcome(store) == expected
            number = memory.transact(lambda rows: rows.last())


def chance_kind(share: float) -> str:
    return "amend" if share < 0.2 else "answer" if share < 0.5 else "charge"
