"""Files that must not be lost, nor found half written, nor written by two: a ledger, a state, a checkpoint."""

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import IO

from discreet.errors import LedgerUnavailable, UnsupportedPlatform


def require_locks() -> ModuleType:
    """The module that locks files; `UnsupportedPlatform` where there is none, as on Windows.

    >>> require_locks().__name__
    'fcntl'
    """
    try:
        import fcntl
    except ImportError:
        raise UnsupportedPlatform(
            "discreet needs the file locks of Linux or macOS, without which two processes could spend the same budget; "
            "on Windows, run it inside WSL"
        ) from None
    return fcntl


def lock(descriptor: int, *, wait: bool) -> None:
    """Lock an open file until it is unlocked or closed; `OSError` if another has it and this one does not wait.

    >>> import tempfile
    >>> with tempfile.TemporaryFile() as file:
    ...     lock(file.fileno(), wait=False)
    ...     unlock(file.fileno())
    """
    fcntl = require_locks()
    fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)


def unlock(descriptor: int) -> None:
    """Let others lock the file.

    >>> import tempfile
    >>> with tempfile.TemporaryFile() as file:
    ...     unlock(file.fileno())
    """
    fcntl = require_locks()
    fcntl.flock(descriptor, fcntl.LOCK_UN)


@contextmanager
def locked(path: Path, *, patience: float) -> Iterator[None]:
    """One process and thread at a time, by a lock on a file beside `path`.

    Others wait for `patience` seconds, then get `LedgerUnavailable`.

    >>> with locked(Path(tempfile.mkdtemp()) / "state.json", patience=1):
    ...     pass
    """
    try:
        file = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise LedgerUnavailable(f"{path} cannot be locked: {error.strerror}; nothing was sent") from None
    try:
        _wait_for_lock(file, path, patience)
        yield
    finally:
        os.close(file)  # which releases the lock


def _wait_for_lock(file: int, path: Path, patience: float) -> None:
    until = time.monotonic() + patience
    while True:
        try:
            lock(file, wait=False)
            return
        except OSError:
            if time.monotonic() > until:
                raise LedgerUnavailable(f"{path} is in use by another process; nothing was sent; try again") from None
        time.sleep(0.005)


def replace(path: Path, content: bytes) -> None:
    """Replace a file by one that only its owner can read; as durable as `settle`.

    >>> path = Path(tempfile.mkdtemp()) / "state.json"
    >>> replace(path, b"{}")
    >>> path.read_bytes()
    b'{}'
    """
    beside = ""
    try:
        file, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # readable by its owner only
        with os.fdopen(file, "wb") as sink:
            sink.write(content)
            settle(sink, Path(beside), path)
    except OSError as error:
        with suppress(OSError):
            os.unlink(beside)
        raise LedgerUnavailable(f"{path} cannot be written: {error.strerror}; nothing was sent") from None


def settle(sink: IO[bytes], beside: Path, path: Path) -> None:
    """Put the file that is open as `sink`, written beside another, in the other's place.

    Guarantee: when this returns the new content is on disk under `path`; a crash before leaves the old one, whole.
    Proof. The content is on disk before it gets the name, a rename is one step, and the folder is on disk after it.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "run"
    >>> beside = path.with_name("run.new")
    >>> with open(beside, "wb") as sink:
    ...     count = sink.write(b"step 1")
    ...     settle(sink, beside, path)
    >>> path.read_bytes(), beside.exists()
    (b'step 1', False)
    """
    sink.flush()
    os.fsync(sink.fileno())
    os.replace(beside, path)
    settle_folder(path.parent)


def settle_folder(folder: Path) -> None:
    """Have the names in a folder on disk.

    >>> settle_folder(Path("."))
    """
    opened = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
