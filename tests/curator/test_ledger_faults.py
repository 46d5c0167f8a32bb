"""The ledger when things go wrong: processes killed, raced, forked, interrupted; disks full, read-only, damaged.

Never over-spent, never a lost charge, a clear word each. `in_child` runs a function in a forked process.
"""

import fcntl
import os
import random
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from discreet.curator.ledger import Ledger, digest
from discreet.curator.stores.sqlite import STEPS, SqliteStore
from discreet.errors import BudgetExceeded, LedgerDamaged, LedgerError, LedgerTooNew, LedgerUnavailable
from discreet.privacy.budget import Budget
from discreet.privacy.loss import Pure

Q = digest("SELECT 1")
PATIENCE = 60.0


def opened(path: Path, *, epsilon: object = 1000, patience: float = PATIENCE) -> Ledger:
    ledger = Ledger(SqliteStore(path, patience=patience))
    ledger.open("a", Budget(epsilon=epsilon))
    return ledger


def charge(ledger: Ledger, epsilon: str = "0.01", analyst: str = "ann") -> int:
    return ledger.charge("a", analyst=analyst, statement=Q, loss=Pure(epsilon)).number


def close(ledger: Ledger) -> None:
    ledger._store.close()


def numbers(ledger: Ledger) -> list[int]:
    return [one.number for one in ledger.charges("a")]


def in_child(function: Callable[[Callable[[object], None]], None]) -> tuple[int, int]:
    """Fork; the child calls function(say), and what it says can be read from the pipe. Returns (pid, pipe)."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(reading)
            function(lambda word: os.write(writing, f"{word}\n".encode()))
            code = 0
        except BaseException as error:
            os.write(writing, f"{type(error).__name__}: {error}\n".encode())
        finally:
            os._exit(code)
    os.close(writing)
    return child, reading


def heard(child: tuple[int, int]) -> list[str]:
    """All that a child says until it ends, however it ends."""
    with os.fdopen(child[1], encoding="utf-8") as pipe:
        text = pipe.read()
    os.waitpid(child[0], 0)
    return text.split("\n")[:-1]


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """A test that hangs is stopped, and fails."""

    def stop(*_: object) -> None:
        raise AssertionError(f"hangs for {seconds} s")

    old = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


@pytest.fixture(autouse=True)
def never_hangs() -> Iterator[None]:
    with at_most(300):
        yield


@contextmanager
def lock_held(path: Path) -> Iterator[None]:
    """Another program has its turn and does not end it."""
    file = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        os.close(file)


# --- killed ------------------------------------------------------------------------------------------------


def charging_forever(path: Path, analyst: str) -> Callable[[Callable[[object], None]], None]:
    def run(say: Callable[[object], None]) -> None:
        ledger = opened(path)

        def many() -> None:
            while True:
                say(charge(ledger, analyst=analyst))

        threads = [threading.Thread(target=many) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return run


def kill_rounds(folder: Path, rounds: int, dice: random.Random) -> int:
    """Two charging processes are killed at random instants; returns how many charges were acknowledged in all."""
    made, acknowledged = 0, set[int]()
    path = folder / "ledger.db"
    for turn in range(rounds):
        if turn % 5 == 0:  # every few rounds a new ledger, so that some die while it is being made
            path, acknowledged = folder / f"ledger{turn}.db", set()
        children = [in_child(charging_forever(path, f"analyst {n}")) for n in range(2)]
        time.sleep(dice.uniform(0, 0.15))
        for child in children:
            os.kill(child[0], signal.SIGKILL)
            time.sleep(dice.uniform(0, 0.02))
        words = [word for child in children for word in heard(child)]
        assert all(word.isdigit() for word in words), words
        said = [int(word) for word in words]
        assert len(set(said)) == len(said)
        assert acknowledged.isdisjoint(said)
        acknowledged |= set(said)
        made += len(said)
        check_all_there(path, acknowledged)
    return made


def check_all_there(path: Path, acknowledged: set[int]) -> None:
    ledger = opened(path)
    found = ledger.verify()
    assert found, found.trouble
    kept = numbers(ledger)
    assert acknowledged <= set(kept)
    assert ledger.spent("a").epsilon * 100 == len(kept)
    for n in range(2):
        own = [one for one in ledger.charges("a") if one.analyst == f"analyst {n}"]
        assert ledger.spent("a", analyst=f"analyst {n}").epsilon * 100 == len(own)
    close(ledger)


def test_killed_at_random_instants_no_acknowledged_charge_is_lost(tmp_path):
    assert kill_rounds(tmp_path, 10, random.Random()) > 0


@pytest.mark.slow
def test_killed_at_very_many_random_instants_no_acknowledged_charge_is_lost(tmp_path):
    assert kill_rounds(tmp_path, 300, random.Random()) > 0


def test_an_acknowledged_charge_is_in_the_file_for_everybody_to_see(tmp_path):
    ledger = opened(tmp_path / "ledger.db")
    other = sqlite3.connect(tmp_path / "ledger.db")
    for _ in range(5):
        number = charge(ledger)
        assert other.execute("SELECT max(number) FROM rows").fetchone() == (number,)
    other.close()
    close(ledger)


# --- raced -------------------------------------------------------------------------------------------------


def test_eight_processes_race_for_the_last_epsilon_and_exactly_what_fits_is_sold(tmp_path):
    path, fits = tmp_path / "ledger.db", 480
    ledger = opened(path, epsilon="4.8")
    go_read, go = os.pipe()
    ready, be_ready = os.pipe()

    def run(say: Callable[[object], None]) -> None:
        mine = opened(path, epsilon="4.8")
        os.write(be_ready, b"x")
        os.read(go_read, 1)
        for n in range(fits + 1):
            try:
                charge(mine)
            except BudgetExceeded:
                say(n)
                return

    children = [in_child(run) for _ in range(8)]
    for _ in children:
        os.read(ready, 1)
    os.write(go, b"x" * 8)
    shares = [int(word) for child in children for word in heard(child)]
    for end in (go, go_read, ready, be_ready):
        os.close(end)
    assert (len(shares), sum(shares)) == (8, fits)
    assert min(shares) > fits / 8 / 3, f"one starves: {shares}"
    assert ledger.spent("a").epsilon == ledger.budget("a").epsilon
    assert ledger.verify().rows == fits + 1
    close(ledger)


def test_a_crowd_in_one_process_does_not_starve_a_single_caller_in_another(tmp_path):
    path = tmp_path / "ledger.db"
    ledger = opened(path)
    stop = threading.Event()

    def many() -> None:
        while not stop.is_set():
            charge(ledger, analyst="crowd")

    crowd = [threading.Thread(target=many) for _ in range(16)]

    def run(say: Callable[[object], None]) -> None:
        mine = opened(path)
        for _ in range(15):
            say(charge(mine, analyst="single"))  # or fails, once it has waited for as long as its patience is

    child = in_child(run)
    for thread in crowd:
        thread.start()
    said = heard(child)
    stop.set()
    for thread in crowd:
        thread.join()
    assert len(said) == 15
    assert all(word.isdigit() for word in said), said
    assert ledger.verify()
    close(ledger)


def test_works_that_wait_are_committed_together(tmp_path, monkeypatch):
    path = tmp_path / "ledger.db"
    ledger = opened(path)
    batches = []
    write = SqliteStore._write
    monkeypatch.setattr(SqliteStore, "_write", lambda store: (batches.append(1), write(store)))
    with lock_held(path):
        threads = [threading.Thread(target=charge, args=(ledger,)) for _ in range(30)]
        for thread in threads:
            thread.start()
        while ledger._store._queue.qsize() < 29:  # and one in the writer's hand
            time.sleep(0.01)
    for thread in threads:
        thread.join()
    assert len(numbers(ledger)) == 30
    assert len(batches) <= 5
    close(ledger)


# --- forked ------------------------------------------------------------------------------------------------


def test_forks_while_threads_charge(tmp_path):
    ledger = opened(tmp_path / "ledger.db")
    stop = threading.Event()
    made: list[int] = []

    def many() -> None:
        while not stop.is_set():
            made.append(charge(ledger))

    threads = [threading.Thread(target=many) for _ in range(6)]
    for thread in threads:
        thread.start()

    def run(say: Callable[[object], None]) -> None:
        for _ in range(5):
            say(charge(ledger, analyst="child"))  # the parent's own object
        close(ledger)

    children = []
    for _ in range(12):
        children.append(in_child(run))
        time.sleep(0.02)
    said = [word for child in children for word in heard(child)]
    stop.set()
    for thread in threads:
        thread.join()
    assert all(word.isdigit() for word in said), said
    assert len(said) == 60
    assert sorted([*made, *map(int, said)]) == numbers(ledger)
    assert ledger.verify()
    close(ledger)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="no list of open files here")
def test_no_connection_crosses_a_fork(tmp_path):
    """SQLite's locks belong to a process: a child that holds its parent's connection believes that they are its own."""
    ledger = opened(tmp_path / "ledger.db")
    charge(ledger)

    def open_files() -> set[str]:
        links = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
        return {Path(os.readlink(link)).name for link in links if os.path.lexists(link)}

    def run(say: Callable[[object], None]) -> None:
        say(sorted(name for name in open_files() if name.startswith("ledger.db")))
        charge(ledger)
        say(sorted(name for name in open_files() if name.startswith("ledger.db")))

    assert "ledger.db-wal" in open_files()
    none, own = heard(in_child(run))
    assert none == "[]"
    assert own == "['ledger.db', 'ledger.db-shm', 'ledger.db-wal', 'ledger.db.lock']"
    assert charge(ledger) == 4
    close(ledger)


def test_a_child_that_ends_in_the_ordinary_way_does_no_harm(tmp_path):
    """Its interpreter tears down everything that it inherited; the parent's file must not notice."""
    script = """
import os, sys
from discreet.curator.ledger import Ledger, digest
from discreet.curator.stores.sqlite import SqliteStore
from discreet.privacy.budget import Budget
from discreet.privacy.loss import Pure
ledger = Ledger(SqliteStore(sys.argv[1]))
ledger.open("a", Budget(epsilon=1000))
def charge(): return ledger.charge("a", analyst="x", statement=digest("q"), loss=Pure("0.01"))
charge()
for turn in range(6):
    child = os.fork()
    if child == 0:
        if turn % 2: charge()
        sys.exit(0)
    charge()
    assert os.waitpid(child, 0)[1] == 0
    charge()
assert ledger.verify(), ledger.verify()
print(len(ledger.charges("a")))
"""
    done = run_script(script, tmp_path / "ledger.db")
    assert (done.stdout.strip(), done.stderr, done.returncode) == ("16", "", 0)


# --- interrupted, stopped, ended -----------------------------------------------------------------------------


def test_an_interrupted_caller_who_was_only_waiting_is_not_charged(tmp_path):
    path = tmp_path / "ledger.db"
    ledger = opened(path)
    old = signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever a test before this one left there
    with lock_held(path):
        timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            charge(ledger)
        timer.join()
    signal.signal(signal.SIGINT, old)
    assert charge(ledger) == 2
    assert numbers(ledger) == [2]
    close(ledger)


def test_interruptions_at_random_instants_leave_a_ledger_that_works(tmp_path):
    """Each interruption may fall between any two steps of a charge; no lock may be left behind that the writer needs."""
    ledger = opened(tmp_path / "ledger.db")
    acknowledged, interrupted, dice = [], 0, random.Random()
    armed, stop, caller = [False], threading.Event(), threading.get_ident()

    def interrupt(*_: object) -> None:
        if armed[0]:
            armed[0] = False
            raise KeyboardInterrupt

    def shoot() -> None:
        while not stop.is_set():
            time.sleep(dice.uniform(0, 0.01))
            signal.pthread_kill(caller, signal.SIGUSR1)

    old = signal.signal(signal.SIGUSR1, interrupt)
    shooter = threading.Thread(target=shoot)
    shooter.start()
    try:
        for _ in range(300):
            try:
                armed[0] = True
                for _ in range(10):
                    acknowledged.append(charge(ledger))
            except KeyboardInterrupt:
                interrupted += 1
            armed[0] = False
    finally:
        stop.set()
        shooter.join()
        signal.signal(signal.SIGUSR1, old)
    assert interrupted > 100
    assert set(acknowledged) <= set(numbers(ledger))
    assert ledger.verify()
    close(ledger)


@pytest.mark.parametrize("stop", [MemoryError("no memory"), SystemExit(1), KeyboardInterrupt()])
def test_when_the_writer_dies_callers_are_told_and_the_next_one_is_served(tmp_path, monkeypatch, stop):
    ledger = opened(tmp_path / "ledger.db")
    first = charge(ledger)
    write = SqliteStore._write

    def dies(store: SqliteStore) -> None:
        monkeypatch.setattr(SqliteStore, "_write", write)
        raise stop

    monkeypatch.setattr(SqliteStore, "_write", dies)
    with pytest.raises(LedgerUnavailable, match="writer was stopped by"):
        charge(ledger)
    assert charge(ledger) == first + 1
    close(ledger)


def test_the_interpreter_ends_while_stores_are_open_and_busy(tmp_path):
    script = """
import os, sys, threading, time
from discreet.curator.ledger import Ledger, digest
from discreet.curator.stores.sqlite import SqliteStore
from discreet.privacy.budget import Budget
from discreet.privacy.loss import Pure
ledger = Ledger(SqliteStore(sys.argv[1]))
ledger.open("a", Budget(epsilon=1000))
def many(times):
    for _ in range(times):
        number = ledger.charge("a", analyst="x", statement=digest("q"), loss=Pure("0.01")).number
        os.write(1, f"{number} ".encode())
threading.Thread(target=many, args=(20,)).start()
for _ in range(4):
    def quietly():
        try: many(10**9)
        except Exception: pass
    threading.Thread(target=quietly, daemon=True).start()
time.sleep(0.1)
"""
    done = run_script(script, tmp_path / "ledger.db")
    assert done.returncode == 0, done.stderr
    ledger = opened(tmp_path / "ledger.db")
    assert {int(word) for word in done.stdout.split()} <= set(numbers(ledger))
    assert len(numbers(ledger)) >= 20
    assert ledger.verify()
    close(ledger)


def run_script(script: str, path: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-c", script, str(path)]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)


# --- locked by something else --------------------------------------------------------------------------------


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("how", ["turn", "database"])
def test_locked_for_long_is_one_clear_error_and_the_charge_is_not_made_later(tmp_path, how):
    path = tmp_path / "ledger.db"
    ledger = opened(path, patience=2)
    other = sqlite3.connect(path, isolation_level=None)
    with lock_held(path) if how == "turn" else other:
        if how == "database":
            other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerUnavailable, match="is locked by another program for too long.* or try later"):
            charge(ledger)
        if how == "database":
            other.execute("ROLLBACK")
    other.close()
    time.sleep(0.2)
    assert charge(ledger) == 2
    assert numbers(ledger) == [2]
    close(ledger)


@pytest.mark.slow
def test_a_store_whose_turn_does_not_come_can_be_closed(tmp_path):
    path = tmp_path / "ledger.db"
    ledger = opened(path, patience=2)
    with lock_held(path):
        with pytest.raises(LedgerUnavailable):
            charge(ledger)
        with at_most(120):
            close(ledger)
    with pytest.raises(LedgerUnavailable, match="closed"):
        charge(ledger)


# --- the disk ------------------------------------------------------------------------------------------------


def test_a_file_that_cannot_grow_loses_nothing_and_goes_on_when_it_can(tmp_path):
    path = tmp_path / "ledger.db"
    close(opened(path))

    def run(say: Callable[[object], None]) -> None:
        ledger = opened(path)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, hard))
        failed = 0
        for _ in range(200):
            try:
                say(charge(ledger))
                assert failed < 100
            except LedgerUnavailable as error:
                failed += 1
                assert "nothing was charged" in str(error), error
        assert failed > 10
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        say(charge(ledger))

    said = heard(in_child(run))
    assert all(word.isdigit() for word in said), said
    ledger = opened(path)
    assert list(map(int, said)) == numbers(ledger)
    assert ledger.verify()
    close(ledger)


@pytest.fixture
def small_disk() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp())
    mounted = os.geteuid() == 0 and shutil.which("mount") is not None
    mounted = (
        mounted
        and not subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(folder)], capture_output=True, check=False
        ).returncode
    )
    if not mounted:
        folder.rmdir()
        pytest.skip("cannot mount a small disk here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)
    folder.rmdir()


def test_a_full_disk_is_one_clear_error_and_space_heals_it(small_disk):
    path = small_disk / "ledger.db"
    ledger = opened(path)
    ballast = small_disk / "ballast"
    said = [charge(ledger)]
    ballast.write_bytes(bytes(200_000))
    try:
        for _ in range(1000):
            said.append(charge(ledger))
    except LedgerUnavailable as error:
        assert "the disk is full" in str(error)
        assert "free some space; nothing was charged" in str(error)
    assert len(said) < 1000
    ballast.unlink()
    said.append(charge(ledger))
    assert set(said) <= set(numbers(ledger))
    assert ledger.verify()
    close(ledger)


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """A folder that an unprivileged user may enter."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def as_nobody() -> None:
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)


@pytest.mark.parametrize("what", ["file", "folder", "new file"])
def test_what_may_not_be_written_is_one_clear_error(public_folder, what):
    path = public_folder / "ledger.db"
    if what != "new file":
        ledger = opened(path)
        charge(ledger)
        close(ledger)
        path.chmod(0o444)
        (public_folder / "ledger.db.lock").chmod(0o666)
    public_folder.chmod(0o777 if what == "file" else 0o555)
    before = path.read_bytes() if path.exists() else b""

    def run(say: Callable[[object], None]) -> None:
        as_nobody()
        try:
            charge(opened(path))
        except LedgerUnavailable as error:
            say(error)

    said = heard(in_child(run))
    public_folder.chmod(0o755)
    assert len(said) == 1, said
    assert "cannot be written: make the file and its folder writable" in said[0]
    assert (path.read_bytes() if path.exists() else b"") == before


def test_a_missing_folder_and_a_folder_in_place_of_a_file(tmp_path):
    with pytest.raises(LedgerUnavailable, match="folder that does not exist; create the folder"):
        SqliteStore(tmp_path / "nowhere" / "ledger.db")
    with pytest.raises(LedgerError, match="is not a file"):
        SqliteStore(tmp_path)
    with pytest.raises(LedgerUnavailable, match="there is no ledger"):
        SqliteStore(tmp_path / "ledger.db", create=False)
    assert not (tmp_path / "ledger.db").exists()


def foreign(path: Path) -> None:
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE mine (x)")
    other.commit()
    other.close()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda path: path.write_bytes(b"Dear diary, this is not a database. " * 200),
            "is not a ledger, or is damaged",
        ),
        (lambda path: path.write_bytes(b"short"), "is not a ledger, or is damaged"),
        (foreign, "is a SQLite database, but not a ledger; name another file"),
    ],
    ids=["text", "short text", "another program's"],
)
def test_a_file_of_something_else_is_refused_and_left_alone(tmp_path, make, words):
    path = tmp_path / "ledger.db"
    make(path)
    before = path.read_bytes()
    with pytest.raises(LedgerDamaged, match=words):
        SqliteStore(path)
    assert path.read_bytes() == before


def test_a_ledger_of_a_newer_version_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "ledger.db"
    close(opened(path))
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("PRAGMA user_version=99")
    other.close()
    before = path.read_bytes()
    with pytest.raises(
        LedgerTooNew, match="has version 99, this discreet knows versions up to .*; use the newer discreet"
    ):
        SqliteStore(path)
    assert path.read_bytes() == before


def test_an_empty_file_becomes_a_ledger_as_after_a_crash_while_it_was_made(tmp_path):
    (tmp_path / "ledger.db").touch()
    ledger = opened(tmp_path / "ledger.db")
    assert charge(ledger) == 2
    close(ledger)


def test_a_damaged_file_is_never_charged_on_without_a_word(tmp_path):
    """Overwrite each page in turn: the ledger says so, or is not touched by it; it never counts less."""
    path = tmp_path / "ledger.db"
    ledger = opened(path)
    for n in range(60):
        charge(ledger, analyst=f"analyst {n % 3}")
    close(ledger)
    healthy = path.read_bytes()
    noticed = 0
    for page in range(len(healthy) // 4096):
        path.write_bytes(
            healthy[: page * 4096] + bytes(random.Random(page).randbytes(4096)) + healthy[(page + 1) * 4096 :]
        )
        try:
            with SqliteStore(path) as store:
                found = Ledger(store).verify()
                noticed += not found
                if found:
                    assert charge(Ledger(store)) == 62
        except LedgerError as error:
            assert "damaged" in str(error) or "edited" in str(error) or "head says" in str(error), error
            noticed += 1
        for rest in tmp_path.glob("ledger.db-*"):
            rest.unlink()
    assert noticed >= len(healthy) // 4096 * 0.7


@pytest.mark.parametrize("replaced", [False, True])
def test_a_ledger_removed_or_replaced_while_in_use_is_not_begun_anew(tmp_path, replaced):
    path = tmp_path / "ledger.db"
    ledger = opened(path)
    charge(ledger)
    path.rename(tmp_path / "moved.db")
    if replaced:
        close(opened(path))
    for _ in range(2):
        with pytest.raises(LedgerDamaged, match="removed or replaced while it was in use"):
            charge(ledger)
    assert path.exists() == replaced
    close(ledger)


def test_the_file_is_private_durable_and_signed(tmp_path):
    path = tmp_path / "ledger.db"
    old = os.umask(0)
    ledger = opened(path)
    os.umask(old)
    charge(ledger)
    names = {file.name: oct(file.stat().st_mode & 0o777) for file in tmp_path.iterdir()}
    assert set(names) == {"ledger.db", "ledger.db-wal", "ledger.db-shm", "ledger.db.lock"}
    assert set(names.values()) == {"0o600"}
    questions = ("journal_mode", "synchronous", "foreign_keys", "application_id", "user_version")
    found = ledger._store.transact(lambda rows: [rows._execute(f"PRAGMA {q}").fetchone()[0] for q in questions])
    assert found == ["wal", 2, 1, 0x64736372, len(STEPS)]
    close(ledger)


def test_odd_names_of_files(tmp_path):
    folder = tmp_path / "a b?c#d%20é"
    folder.mkdir()
    ledger = opened(folder / "le?dger #1.db")
    charge(ledger)
    close(ledger)
    assert (folder / "le?dger #1.db").exists()
