"""A ledger's SQLite file, for reading alone: by owners who look at it, and by analysts who only plan.

Neither the file is changed nor is one made beside it, so a ledger on a read-only disk, or of another user, can be read.
"""

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn, TypeVar

from discreet.curator.stores import CachedAnswer, Row, Rows
from discreet.curator.stores.sqlite import APPLICATION, STEPS, _explained, _SqliteRows
from discreet.errors import LedgerDamaged, LedgerTooNew, LedgerUnavailable

T = TypeVar("T")

_ATTEMPTS = 10
_SALTED, _SEALED = 2, 3  # the versions from which a ledger has salts, and seals its answers


class ReadOnlyStore:
    """The ledger in the file `path`, which exists; a work that writes is refused with `LedgerUnavailable`.

    A file that nobody has open (there is no write-ahead log beside it) is read as one that cannot change, and read
    again if it did. One that is in use is read as SQLite does it, beside the log; writers go on meanwhile.

    Of what a store promises, works that read get all but one thing: a work may be called again, where the file changed
    while it was read. What the last call returned is what the ledger held at one moment.

    >>> import tempfile
    >>> from discreet.curator.ledger import Ledger
    >>> from discreet.curator.stores.sqlite import SqliteStore
    >>> from discreet.privacy.budget import Budget
    >>> folder = tempfile.TemporaryDirectory()
    >>> with SqliteStore(f"{folder.name}/ledger.db") as store:
    ...     Ledger(store).open("clinic", Budget(epsilon=1))
    >>> ledger = Ledger(ReadOnlyStore(f"{folder.name}/ledger.db"))
    >>> ledger.accounts(), bool(ledger.verify())
    (['clinic'], True)
    >>> ledger.open("another", Budget(epsilon=1))
    Traceback (most recent call last):
    discreet.errors.LedgerUnavailable: the ledger ... is open for reading alone; nothing was written; ...
    >>> folder.cleanup()
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(os.path.realpath(path))
        if not self._path.exists():
            raise LedgerUnavailable(f"there is no ledger {self._path}; name an existing one")

    def transact(self, work: Callable[[Rows], T]) -> T:
        """Run a work that only reads."""
        for _ in range(_ATTEMPTS):
            try:
                before = self._state()
            except OSError as error:
                raise _explained(error, self._path) from None
            try:
                result = self._read(work, in_use=before[0])
            except (sqlite3.Error, OSError) as error:
                if self._unchanged(before):
                    raise _explained(error, self._path) from None
            except LedgerDamaged:
                if self._unchanged(before):
                    raise
            else:
                if before[0] or self._unchanged(before):
                    return result
        raise LedgerUnavailable(f"the ledger {self._path} is opened and closed all the time; try again")

    def _state(self) -> tuple[bool, int, int, int]:
        status = self._path.stat()
        return Path(f"{self._path}-wal").exists(), status.st_ino, status.st_size, status.st_mtime_ns

    def _unchanged(self, before: tuple[bool, int, int, int]) -> bool:
        try:
            return self._state() == before
        except OSError:  # it vanished: the next attempt says so
            return False

    def _read(self, work: Callable[[Rows], T], *, in_use: bool) -> T:
        address = self._path.as_uri() + ("?mode=ro" if in_use else "?mode=ro&immutable=1")
        connection = sqlite3.connect(address, 10, isolation_level=None, uri=True)
        try:
            connection.execute("PRAGMA query_only=ON")
            connection.execute("BEGIN")
            return work(_ReadRows(connection, self._path, _recognize(connection, self._path)))
        finally:
            connection.close()


class _ReadRows(_SqliteRows):
    """The row operations that read; those that write are refused in words."""

    def __init__(self, connection: sqlite3.Connection, path: Path, version: int) -> None:
        super().__init__(connection)
        self._path, self._version = path, version

    def append(self, row: Row) -> NoReturn:
        self._refuse()

    def cache(self, answer: CachedAnswer) -> NoReturn:
        self._refuse()

    def cached(self, key: str) -> CachedAnswer | None:
        return super().cached(key) if self._version >= _SEALED else None

    def next_cached(self, number: int) -> CachedAnswer | None:
        return super().next_cached(number) if self._version >= _SEALED else None

    def unsealed(self) -> int:
        if self._version >= _SEALED:
            return super().unsealed()
        return int(self._execute("SELECT count(*) FROM answers").fetchone()[0])

    def salt(self, account: str) -> bytes | None:
        return super().salt(account) if self._version >= _SALTED else None

    def keep_salt(self, account: str, salt: bytes) -> NoReturn:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise LedgerUnavailable(
            f"the ledger {self._path} is open for reading alone; nothing was written; to charge, use SqliteStore"
        )


def _recognize(connection: sqlite3.Connection, path: Path) -> int:
    """The version of the ledger in this file, which may be an older one."""
    application, version = (
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
    )
    if application != APPLICATION:
        raise LedgerDamaged(f"{path} is not a ledger; name another file")
    if not 1 <= version <= len(STEPS):
        raise LedgerTooNew(f"the ledger {path} has version {version}, this discreet reads versions up to {len(STEPS)}")
    return int(version)
