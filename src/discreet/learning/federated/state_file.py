"""The file in which a client on Flower keeps what it must not forget (`Member.saved`).

A SuperNode starts a new process for every message, so a member's state has to be somewhere between two phases. Flower's
own place, `Context.state`, will not do: a process hands it back after its answer has left, so a crash in between would
make the client forget what it has sent; it is in memory, so a restart would; and it is new for every run, so whoever
starts runs could ask for more rounds than were agreed on. A file that is on disk before the answer leaves has none of
these faults.
"""

import os
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from discreet.durable import lock, settle
from discreet.errors import LedgerUnavailable

_PATIENCE = 60.0  # seconds
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class StateFile:
    """One client's file, for one process at a time; read and written by its owner only.

    Guarantee: what `write` was given is on disk when it returns, and a crash leaves the old content or the new one.

    The file holds the secret of the round that is running, in the clear: keep it on an encrypted disk, beside the
    client's identity. Deleting it forgets what was spent: a coordinator may then begin anew.

    >>> notebook = StateFile(Path(tempfile.mkdtemp()) / "ann.state")
    >>> with notebook.open():
    ...     before = notebook.read()
    ...     notebook.write(b"round 1")
    >>> before, notebook.read()
    (None, b'round 1')
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    @contextmanager
    def open(self) -> Iterator[None]:
        """Nobody else has it meanwhile: two messages at once cannot both find the same state."""
        try:
            file = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise self._unavailable("locked", error) from None
        try:
            _lock(file, self.path)
            yield
        finally:
            os.close(file)  # which releases the lock

    def read(self) -> bytes | None:
        """What was written last; None if nothing ever was."""
        try:
            if self.path.stat().st_mode & _OTHERS:
                raise LedgerUnavailable(f"{self.path} can be read by others than its owner; use chmod 600, and ask why")
            return self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unavailable("read", error) from None

    def write(self, state: bytes) -> None:
        """Replace the content."""
        name = ""
        try:
            file, name = tempfile.mkstemp(dir=self.path.parent, prefix=f".{self.path.name}.")  # for its owner only
            with os.fdopen(file, "wb") as out:
                out.write(state)
                settle(out, Path(name), self.path)
        except OSError as error:
            with suppress(OSError):
                os.unlink(name)
            raise self._unavailable("written", error) from None

    def _unavailable(self, what: str, error: OSError) -> LedgerUnavailable:
        return LedgerUnavailable(f"{self.path} cannot be {what}: {error.strerror}; nothing was sent")


def _lock(file: int, path: Path) -> None:
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            lock(file, wait=False)
            return
        except OSError:
            if time.monotonic() > until:
                raise LedgerUnavailable(f"{path} is in use by another process; nothing was sent") from None
        time.sleep(0.01)
