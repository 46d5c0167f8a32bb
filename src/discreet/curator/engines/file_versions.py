"""Which data are in a file: a digest of what the system says of it and, where it is small, of its contents.

What the system says alone would do, but for file systems whose clocks are coarse or can be set. The contents alone
would do too, but the ledger keeps answers under a key that is made from this digest: whoever gets to read the ledger,
an auditor say, and knows all rows but one could try what the last one may be until the digest fits. The file's times
and its place on the disk, which others hardly know, stand in the way of that.
"""

import hashlib
import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

SMALL = 64 << 20
"""The largest file whose contents are digested, in bytes; reading one takes a fraction of a second."""

_SETTLED_NS = 2_000_000_000
"""How old a change must be for the file's times to tell it from a later one: clocks of file systems are coarse."""


@dataclass(frozen=True, slots=True)
class Stat:
    """What the system says of a file; -1 throughout where there is none.

    The time of the last write (`mtime`) can be set back; the time of the last change of status (`ctime`) cannot.
    """

    path: str
    size: int = -1
    mtime_ns: int = -1
    ctime_ns: int = -1
    inode: int = -1
    device: int = -1


def stat_of(path: Path) -> Stat:
    """What the system says of a file now.

    >>> stat_of(Path("no such file")).size
    -1
    """
    try:
        found = path.stat()
    except OSError:
        return Stat(str(path))
    return Stat(str(path), found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_dev)


class FileVersions:
    """Digests of files, computed again only after a file changed. Threads may share it.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "people.csv"
    >>> _ = file.write_text("age\\n30\\n")
    >>> versions = FileVersions()
    >>> before, times = versions.digest([file]), os.stat(file)
    >>> _ = file.write_text("age\\n31\\n")
    >>> os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    >>> versions.digest([file]) == before
    False
    """

    def __init__(self) -> None:
        self._known: dict[Path, tuple[Stat, str]] = {}
        self._lock = threading.Lock()

    def digest(self, paths: Sequence[Path]) -> str:
        """One digest for some files, in their order."""
        with self._lock:
            parts = [self._one(path) for path in paths]
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    def _one(self, path: Path) -> str:
        stat = stat_of(path)
        known = self._known.get(path)
        if known is not None and known[0] == stat:
            return known[1]
        digest = _digest(path, stat)
        if _is_settled(path, stat):
            self._known[path] = (stat, digest)
        return digest


def _digest(path: Path, stat: Stat) -> str:
    contents = _contents(path)
    if contents is None:
        return repr(stat)
    return repr((contents, replace(stat, ctime_ns=-1)))  # reading a file for a backup may change its ctime


def _contents(path: Path) -> str | None:
    """The digest of a small file; None of a large one, and of one that cannot be read."""
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size <= SMALL:
                return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        pass
    return None


def _is_settled(path: Path, stat: Stat) -> bool:
    """Whether the file has been as it is for a while: if not, a change that follows may leave its times as they are."""
    return stat_of(path) == stat and time.time_ns() - stat.ctime_ns > _SETTLED_NS
