"""Files that must not be lost, nor found half written: a state, a checkpoint, whatever was paid for."""

import os
from pathlib import Path
from typing import IO


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
