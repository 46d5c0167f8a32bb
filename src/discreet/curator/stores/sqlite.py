"""A ledger in one SQLite file: durable, shared by threads and processes of one machine; not over a network.

**Group commit** (`GroupCommit`): all works that wait become one transaction, each in a savepoint of its own, so that a
work that raises is rolled back alone.

**Fair turns.** Processes take turns for one batch. SQLite's own waiting is a lottery that a busy process wins again and
again; `_Turn` is a queue. It is about fairness only: what keeps works apart is SQLite's lock.

**Forks.** SQLite must not see a connection on both sides of a fork, not even unused: the child's new connection would
believe that it holds the locks of its parent. So a connection is closed just before a fork, while no batch runs, and
each side opens its own when it needs one.

**A file that was removed or replaced** while in use is noticed before each batch: a fresh file is a fresh budget.

The tables of a ledger's SQLite file, and how a file of an older version becomes one of this version.
"""

import atexit
import errno
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from discreet.curator.stores import COLUMNS, MOST, CachedAnswer, GroupCommit, Head, Row, Rows, values_of
from discreet.durable import lock, settle_folder, unlock
from discreet.errors import (
    InvalidParameter,
    LedgerConflict,
    LedgerDamaged,
    LedgerError,
    LedgerTooNew,
    LedgerUnavailable,
)

APPLICATION = 0x64736372
"""The application id of a ledger file: "dscr"."""


def prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Recognize the file before anything is written to it; then settings, and the tables that are missing."""
    application, version, tables = (
        connection.execute(question).fetchone()[0]
        for question in ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_master")
    )
    if (application, version, tables) != (0, 0, 0) and application != APPLICATION:
        raise LedgerDamaged(f"{path} is a SQLite database, but not a ledger; name another file")
    if version > len(STEPS):
        raise LedgerTooNew(
            f"the ledger {path} has version {version}, this discreet knows versions up to {len(STEPS)}; "
            "use the newer discreet that wrote it; nothing was changed"
        )
    if connection.execute("PRAGMA journal_mode=WAL").fetchone()[0] != "wal":
        raise LedgerUnavailable(f"the file system of {path} cannot hold a ledger: SQLite has no WAL there; use another")
    for setting in ("synchronous=FULL", "fullfsync=ON", "foreign_keys=OFF", "trusted_schema=OFF"):
        connection.execute(f"PRAGMA {setting}")
    if version < len(STEPS):
        connection.execute("BEGIN IMMEDIATE")
        for statement in (line for step in STEPS[version:] for line in step):
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id={APPLICATION}")
        connection.execute(f"PRAGMA user_version={len(STEPS)}")
        connection.execute("COMMIT")
    connection.execute("PRAGMA foreign_keys=ON")  # not before: a step may put a table in the place of another


_FIXED = ", ".join(f'"{name}"' for name in COLUMNS if name != "text")
_ROWS_STAY = (
    f"CREATE TRIGGER rows_stay_fixed BEFORE UPDATE OF {_FIXED} ON rows "
    "BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END",
    "CREATE TRIGGER texts_stay_fixed BEFORE UPDATE OF text ON rows WHEN new.text IS NOT NULL "
    "BEGIN SELECT RAISE(ABORT, 'a text may be erased, not changed'); END",
    "CREATE TRIGGER rows_stay BEFORE DELETE ON rows BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END",
)
_ANSWERS_STAY = (
    "CREATE TRIGGER answers_stay_fixed BEFORE UPDATE ON answers "
    "BEGIN SELECT RAISE(ABORT, 'an answer may be forgotten, not changed'); END"
)
STEPS = (
    (
        """CREATE TABLE rows (
            account TEXT NOT NULL, kind TEXT NOT NULL CHECK (kind IN ('open', 'amend', 'charge')),
            total TEXT NOT NULL, own TEXT NOT NULL, who TEXT NOT NULL, statement TEXT, text TEXT, loss TEXT,
            settings TEXT, why TEXT, number INTEGER PRIMARY KEY, "when" TEXT NOT NULL, clock TEXT,
            version INTEGER NOT NULL, previous TEXT NOT NULL, hash TEXT NOT NULL) STRICT""",
        "CREATE INDEX chains ON rows (account, number)",
        "CREATE INDEX analysts ON rows (account, who, number) WHERE kind = 'charge'",
        "CREATE INDEX settings ON rows (account, number) WHERE kind <> 'charge'",
        """CREATE TABLE heads (account TEXT PRIMARY KEY, length INTEGER NOT NULL,
            number INTEGER NOT NULL REFERENCES rows (number), hash TEXT NOT NULL) STRICT""",
        """CREATE TABLE answers (key TEXT PRIMARY KEY, charge INTEGER NOT NULL REFERENCES rows (number),
            answer BLOB NOT NULL) STRICT""",
        *_ROWS_STAY,
        _ANSWERS_STAY,
    ),
    (
        "CREATE TABLE salts (account TEXT PRIMARY KEY, salt BLOB NOT NULL) STRICT",
        "CREATE TRIGGER salts_stay_fixed BEFORE UPDATE ON salts "
        "BEGIN SELECT RAISE(ABORT, 'a salt stays as it is'); END",
    ),
    (  # rows of a further kind, which seal answers; answers that were kept without a seal are put aside
        """CREATE TABLE new_rows (
            account TEXT NOT NULL, kind TEXT NOT NULL CHECK (kind IN ('open', 'amend', 'charge', 'answer')),
            total TEXT NOT NULL, own TEXT NOT NULL, who TEXT NOT NULL, statement TEXT, text TEXT, loss TEXT,
            settings TEXT, why TEXT, number INTEGER PRIMARY KEY, "when" TEXT NOT NULL, clock TEXT,
            version INTEGER NOT NULL, previous TEXT NOT NULL, hash TEXT NOT NULL) STRICT""",
        "INSERT INTO new_rows SELECT * FROM rows",
        "DROP TABLE rows",
        "ALTER TABLE new_rows RENAME TO rows",
        "CREATE INDEX chains ON rows (account, number)",
        "CREATE INDEX analysts ON rows (account, who, number) WHERE kind = 'charge'",
        "CREATE INDEX settings ON rows (account, number) WHERE kind IN ('open', 'amend')",
        *_ROWS_STAY,
        "DROP TRIGGER answers_stay_fixed",
        "ALTER TABLE answers RENAME TO unsealed_answers",
        """CREATE TABLE answers (key TEXT PRIMARY KEY, charge INTEGER NOT NULL REFERENCES rows (number),
            row INTEGER NOT NULL UNIQUE REFERENCES rows (number), answer BLOB NOT NULL) STRICT""",
        _ANSWERS_STAY,
    ),
)
"""How version n becomes version n + 1; a new file has version 0."""


T = TypeVar("T")


class SqliteStore(GroupCommit):
    """The ledger in the file `path`, created (readable by its owner only) where it is missing.

    `patience` is how many seconds to wait for other programs before giving up with `LedgerUnavailable`.
    Close it, or use it in a `with` block; at exit, open stores finish what is queued and close.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, SqliteStore(f"{folder}/ledger.db") as store:
    ...     store.transact(lambda rows: rows.last())
    0
    """

    _connection: sqlite3.Connection | None

    def __init__(self, path: str | os.PathLike[str], *, create: bool = True, patience: float = 30.0) -> None:
        self._file = _File(Path(os.path.realpath(path)), create)
        super().__init__(patience)
        _LIVE[id(self)] = self
        try:
            self.transact(lambda rows: rows.last())
        except BaseException:
            self.close()
            raise

    def transact(self, work: Callable[[Rows], T]) -> T:
        """Run the work in the next batch; when this returns, what it wrote is on the disk."""
        if self._process != os.getpid():
            raise LedgerUnavailable("this process was forked past Python's fork hooks; open the ledger after the fork")
        return super().transact(work)

    def close(self) -> None:
        """Finish what is queued and close the file. A closed store refuses further works."""
        super().close()
        if self._writer is None or not self._writer.is_alive():
            _LIVE.pop(id(self), None)

    def _commit(self) -> None:
        try:
            with self._turn:
                self._write()
        except (sqlite3.Error, OSError) as error:
            self._release()
            raise _explained(error, self._file.path) from None
        except BaseException:
            self._release()
            raise

    def _write(self) -> None:
        """Run the batch as one transaction. Something else may hold SQLite's lock: then try again for a while."""
        deadline = time.monotonic() + self._patience
        while True:
            with self._quiet:
                try:
                    connection = self._connected()
                    connection.execute("BEGIN IMMEDIATE")
                except sqlite3.OperationalError as error:
                    if _code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                        raise
                else:
                    self._run(connection)
                    connection.execute("COMMIT")
                    return
            time.sleep(0.01)

    def _run(self, connection: sqlite3.Connection) -> None:
        rows = _SqliteRows(connection)
        for waiter in self._waiting_works():
            connection.execute("SAVEPOINT work")
            try:
                waiter.result = waiter.work(rows)
            except BaseException as error:  # whatever a work raises is its caller's
                if hasattr(error, "sqlite_errorcode"):
                    raise  # the file failed, not the work: so does the batch
                waiter.error = _explained(error, self._file.path) if isinstance(error, sqlite3.Error) else error
                connection.execute("ROLLBACK TO work")
            connection.execute("RELEASE work")

    def _connected(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = self._file.connect()
        self._file.check_in_place()
        return self._connection

    def _release(self) -> None:
        with self._quiet:
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()  # rolls back
        self._turn.close()

    def _start_anew(self) -> None:
        super()._start_anew()
        self._process = os.getpid()
        self._quiet = threading.RLock()  # held while SQLite works: no fork then
        self._connection = None
        self._turn = _Turn(self._file.path)


class _Turn:
    """One process at a time, in the order of arrival, by a lock on a file beside the ledger.

    The kernel queues those who wait and wakes them in order; a lock vanishes with its process, however that ends.
    """

    def __init__(self, path: Path) -> None:
        self._name = f"{path}.lock"
        self._file: int | None = None

    def __enter__(self) -> None:
        if self._file is None:
            self._file = os.open(self._name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        lock(self._file, wait=True)

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            unlock(self._file)

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            os.close(file)


class _File:
    """The file: made, recognized, migrated, and still the same one."""

    def __init__(self, path: Path, create: bool) -> None:
        self.path, self._create = path, create
        self._identity: tuple[int, int] | None = None
        if not create and not path.exists():
            raise LedgerUnavailable(f"there is no ledger {path}; name an existing one")

    def connect(self) -> sqlite3.Connection:
        if sqlite3.sqlite_version_info < (3, 37):
            raise LedgerUnavailable(f"the ledger needs SQLite 3.37 or newer, this is {sqlite3.sqlite_version}")
        if self._identity is None and not self.path.exists():
            self._make()
        self.check_in_place()
        address = self.path.as_uri() + "?mode=rw"
        connection = sqlite3.connect(address, 0.1, isolation_level=None, check_same_thread=False, uri=True)
        try:
            prepare(connection, self.path)
        except BaseException:
            connection.close()
            raise
        return connection

    def check_in_place(self) -> None:
        status = self.path.stat() if self.path.is_file() else None
        identity = status and (status.st_dev, status.st_ino)
        if identity is None or self._identity not in (None, identity):
            raise LedgerDamaged(
                f"the ledger {self.path} is not a file, or was removed or replaced while it was in use; nothing was "
                "charged; put it back and open it again"
            )
        self._identity = identity

    def _make(self) -> None:
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        settle_folder(self.path.parent)


_ALL = ", ".join(f'"{name}"' for name in COLUMNS)
_ROW = f"SELECT {_ALL} FROM rows "  # noqa: S608 - names of our own
_INSERT = f"INSERT INTO rows ({_ALL}) VALUES ({', '.join('?' * len(COLUMNS))})"  # noqa: S608


class _SqliteRows:
    """The row operations, each one statement."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._execute = connection.execute

    def last(self) -> int:
        return int(self._execute("SELECT coalesce(max(number), 0) FROM rows").fetchone()[0])

    def head(self, account: str) -> Head | None:
        head = self._execute("SELECT account, length, number, hash FROM heads WHERE account = ?", (account,)).fetchone()
        return head and Head(*head)

    def heads(self) -> Sequence[Head]:
        return [
            Head(*head) for head in self._execute("SELECT account, length, number, hash FROM heads ORDER BY account")
        ]

    def row(self, number: int) -> Row | None:
        return self._one("WHERE number = ?", number)

    def latest(self, account: str, *, before: int = MOST) -> Row | None:
        return self._one("WHERE account = ? AND number < ? ORDER BY number DESC LIMIT 1", account, before)

    def settings(self, account: str) -> Row | None:
        return self._one("WHERE account = ? AND kind IN ('open', 'amend') ORDER BY number DESC LIMIT 1", account)

    def latest_by(self, account: str, analyst: str, *, before: int = MOST) -> Row | None:
        where = "WHERE account = ? AND who = ? AND number < ? AND kind = 'charge' ORDER BY number DESC LIMIT 1"
        return self._one(where, account, analyst, before)

    def spellings(self, account: str) -> Sequence[str]:
        names = self._execute("SELECT DISTINCT who FROM rows WHERE account = ? AND kind = 'charge'", (account,))
        return sorted(who for (who,) in names)

    def after(self, number: int, *, limit: int, account: str | None = None) -> Sequence[Row]:
        if account is None:
            rows = self._execute(_ROW + "WHERE number > ? ORDER BY number LIMIT ?", (number, limit))
        else:
            where = "WHERE account = ? AND number > ? ORDER BY number LIMIT ?"
            rows = self._execute(_ROW + where, (account, number, limit))
        return [Row(*row) for row in rows]

    def append(self, row: Row) -> None:
        try:
            self._execute(_INSERT, values_of(row))
        except sqlite3.IntegrityError as error:
            raise LedgerConflict(f"row {row.number} cannot be appended: {error}") from None
        self._execute(
            "INSERT INTO heads VALUES (?, 1, ?, ?) ON CONFLICT (account) DO UPDATE "
            "SET length = length + 1, number = excluded.number, hash = excluded.hash",
            (row.account, row.number, row.hash),
        )

    def cache(self, answer: CachedAnswer) -> None:
        try:
            self._execute("INSERT INTO answers VALUES (?, ?, ?, ?)", answer)
        except sqlite3.IntegrityError:
            raise LedgerConflict("an answer is cached under this key, or there is no such row") from None
        except sqlite3.DataError:
            raise InvalidParameter(
                "answer", f"{len(answer.answer):,} bytes", "fewer: SQLite keeps up to 1 GB"
            ) from None

    def cached(self, key: str) -> CachedAnswer | None:
        answer = self._execute("SELECT * FROM answers WHERE key = ?", (key,)).fetchone()
        return answer and CachedAnswer(*answer)

    def next_cached(self, number: int) -> CachedAnswer | None:
        answer = self._execute("SELECT * FROM answers WHERE row > ? ORDER BY row LIMIT 1", (number,)).fetchone()
        return answer and CachedAnswer(*answer)

    def unsealed(self) -> int:
        return int(self._execute("SELECT count(*) FROM unsealed_answers").fetchone()[0])

    def salt(self, account: str) -> bytes | None:
        row = self._execute("SELECT salt FROM salts WHERE account = ?", (account,)).fetchone()
        return None if row is None else bytes(row[0])

    def keep_salt(self, account: str, salt: bytes) -> None:
        try:
            self._execute("INSERT INTO salts VALUES (?, ?)", (account, salt))
        except sqlite3.IntegrityError:
            raise LedgerConflict("this account has a salt already") from None

    def _one(self, where: str, *values: str | int) -> Row | None:
        row = self._execute(_ROW + where, values).fetchone()
        return row and Row(*row)


# Trouble in words


def _code(error: sqlite3.Error) -> int:
    """The primary result code of SQLite."""
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF


def _explained(error: sqlite3.Error | OSError, path: Path) -> LedgerError:
    kind: type[LedgerError] = LedgerUnavailable
    what = "could not be read or written; look at its disk"
    full = "cannot grow: the disk is full, or a quota or size limit is reached; free some space"
    locked_away = "cannot be written: make the file and its folder writable for this user, or copy the ledger elsewhere"
    if isinstance(error, sqlite3.Error):
        match _code(error):
            case sqlite3.SQLITE_FULL:
                what = full
            case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM | sqlite3.SQLITE_CANTOPEN:
                what = locked_away
            case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
                what = "is locked by another program for too long; end that program or try later"
            case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB | sqlite3.SQLITE_ERROR:
                kind, what = LedgerDamaged, "is not a ledger, or is damaged; restore it from a backup that verifies"
    elif error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        what = full
    elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        what = locked_away
    elif error.errno in (errno.ENOENT, errno.ENOTDIR):
        what = "is in a folder that does not exist; create the folder"
    return kind(f"the ledger {path} {what}; nothing was charged ({error})")


# Forks and the end of the process

_LIVE: dict[int, SqliteStore] = {}
_FORKING = threading.local()


def _before_fork() -> None:
    _FORKING.stores = [store for _, store in sorted(_LIVE.items())]  # the same order in every thread
    for store in _FORKING.stores:
        store._quiet.acquire()
        connection, store._connection = store._connection, None
        if connection is not None:
            connection.close()


def _after_in_parent() -> None:
    for store in _FORKING.stores:
        store._quiet.release()


def _after_in_child() -> None:
    for store in _FORKING.stores:
        store._turn.close()
        store._start_anew()


@atexit.register
def _at_exit() -> None:
    for store in list(_LIVE.values()):
        store.close()


os.register_at_fork(before=_before_fork, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
