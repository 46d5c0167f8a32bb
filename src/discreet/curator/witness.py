"""A witness outside the ledger's file: it remembers how far each dataset's chain had come, and under which name.

A hash chain cannot show that its whole file was removed, put back from an older copy, or begun anew under another name.
A witness can. It is a folder (by default one for each user, see `default_folder`) that holds two kinds of files:

* `….heads`, one for each dataset: after every row, a line of JSON with the row's number and hash, the account, the file
  of the ledger and the time. Lines are only appended, each with one write, under a lock, and are on disk on return.
* `….mark`, one for each thing by which a dataset is known again: its id, each file of a private table, its policy (for
  tables given in Python), its name in its ledger. A line names the dataset that the mark belongs to.

Guarantee: while a mark of a dataset and the witness remain, `Ledger.open` accepts only a chain that goes on from the
last row that the witness saw. Proof. `sightings` finds the last line of each dataset that shares a mark, and
`Ledger.open` refuses unless the chain of this very account has that row, with that hash.

A line is written after the row it names is durable: a crash in between leaves the witness behind, never ahead, so no
honest ledger is refused. Where a line cannot be written after a charge, the charge stands, the owner's log says so, and
the next opening, which must be able to write, refuses until that is repaired.
"""

import hashlib
import json
import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from discreet.curator.policy import Policy
from discreet.curator.settings import marks_of
from discreet.curator.stores import Head, Rows, trusted, utc
from discreet.durable import lock, settle_folder
from discreet.errors import LedgerConflict, LedgerDamaged, LedgerUnavailable

_OWNER = logging.getLogger("discreet.owner")
_TAIL = 1 << 16
_PYTHON = "python"

Line = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Sighting:
    """The last row of a dataset that a witness saw, and where that is written."""

    account: str
    ledger: str
    number: int
    hash: str
    length: int
    time: str
    file: Path

    @property
    def head(self) -> Head:
        """The sighting as a head that was published."""
        return Head(self.account, self.length, self.number, self.hash)

    def refusal(self) -> LedgerDamaged:
        """Why a ledger that does not go on from here is not used."""
        return LedgerDamaged(
            f"a witness saw {self}; this ledger does not go on from there: it was removed, renamed or put back from a "
            "copy, or the dataset was renamed; nothing was charged; put that ledger in place, or, if its loss is known "
            "and accepted, have the owner say so: discreet ledger forget POLICY --by WHO --why TEXT"
        )

    def __str__(self) -> str:
        return f"row {self.number} of {self.account!r} in {self.ledger}, on {self.time[:10]} (noted in {self.file})"


class Witness:
    """What is remembered of one dataset, in one or more folders.

    `marks` are what the dataset is known by; the first is its identity. With `recording` off, nothing is written.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> witness = Witness([folder], marks=["id:clinic", "file:/data/visits.csv"], ledger="clinic.ledger")
    >>> witness.prepare()
    >>> witness.record(Head("clinic", 1, 1, "ab" * 32))
    >>> [(seen.account, seen.number) for seen in Witness([folder], marks=["file:/data/visits.csv"]).sightings()]
    [('clinic', 1)]
    """

    def __init__(
        self, folders: Sequence[Path], *, marks: Sequence[str], ledger: str = "", recording: bool = True
    ) -> None:
        self.folders, self.marks, self.recording = tuple(folders), tuple(marks), recording
        self._ledger = ledger
        self._lock, self._turn = threading.Lock(), threading.Lock()
        self._newest: Head | None = None
        self._noted: dict[tuple[Path, str], int] = {}

    @property
    def digests(self) -> list[str]:
        """The marks as the ledger keeps them."""
        return [_digest(mark) for mark in self.marks]

    def sightings(self) -> list[Sighting]:
        """The last sighting of every dataset that shares a mark with this one."""
        sightings = []
        for folder in self.folders:
            marked = (_datasets(folder / f"{_digest(mark)}.mark") for mark in self.marks)
            identities = {_digest(self.marks[0])}.union(*marked)
            seen = (_last_sighting(folder / f"{identity}.heads") for identity in sorted(identities))
            sightings += [sighting for sighting in seen if sighting is not None]
        return sightings

    def prepare(self) -> None:
        """Make the folders and note the marks; `LedgerUnavailable` where that cannot be written."""
        if not self.recording:
            return
        identity = _digest(self.marks[0])
        for folder in self.folders:
            with _explained(folder):
                _make(folder)
                _append(folder / f"{identity}.heads", _always(None))
                for mark in self.marks:
                    _append(folder / f"{_digest(mark)}.mark", partial(_mark_line, identity=identity, mark=mark))

    def record(self, head: Head) -> None:
        """Note how far the chain has come. Never raises: the row is in the ledger, whatever becomes of the note."""
        if not self.recording:
            return
        with self._lock:
            if self._newest is None or head.number > self._newest.number:
                self._newest = head
        for folder in self.folders:
            path = folder / f"{_digest(self.marks[0])}.heads"
            try:
                with self._turn:  # whoever waited here finds that the newest row was noted for all
                    if self._noted.get((folder, head.account), 0) < head.number:
                        newest = self._newest_of(head)
                        _make(folder)
                        _append(path, partial(self._line, newest))
                        self._noted[folder, head.account] = newest.number
            except (OSError, LedgerDamaged) as error:
                _OWNER.error("the witness %s could not note row %d of %s: %s", path, head.number, head.account, error)

    def forget(self, *, by: str, why: str) -> None:
        """Part with every dataset known by these marks, on record. An owner's act, never the program's."""
        said = {"by": by, "why": why, "time": _now()}
        for folder in self.folders:
            with _explained(folder):
                for path in (folder / f"{_digest(mark)}.mark" for mark in self.marks):
                    for dataset in sorted(_datasets(path)):
                        _append(path, _always({"forgotten": dataset} | said))
                heads = folder / f"{_digest(self.marks[0])}.heads"
                if _last_sighting(heads) is not None:
                    _append(heads, _always({"forgotten": True} | said))

    def _newest_of(self, head: Head) -> Head:
        """The newest row of its account that is known here, for all who wait together."""
        with self._lock:
            newest = self._newest
        return newest if newest is not None and newest.account == head.account else head

    def _line(self, head: Head, path: Path) -> Line | None:
        """What to note, unless as much was noted."""
        last = _last_sighting(path)
        if last is not None and last.account == head.account and last.number >= head.number:
            return None
        fields = {"account": head.account, "number": head.number, "hash": head.hash, "length": head.length}
        return fields | {"ledger": self._ledger, "time": _now()}


def witness_of(policy: Policy, ledger: Path, *, recording: bool = True) -> Witness | None:
    """The witness of a policy's dataset, whose charges are kept in `ledger`; None where the policy wants none."""
    folders = witness_folders(policy)
    if not folders:
        return None
    return Witness(
        folders, marks=_marks(policy, ledger), ledger=str(Path(os.path.realpath(ledger))), recording=recording
    )


def witness_folders(policy: Policy) -> list[Path]:
    """The folders in which the policy's dataset is witnessed."""
    if policy.witness is None:
        return [default_folder()]
    return [Path(os.path.realpath(policy.base / Path(place).expanduser())) for place in policy.witness]


def default_folder() -> Path:
    """Where a user's datasets are witnessed unless policies say otherwise: in the user's state directory."""
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(os.path.realpath(Path(state).expanduser() / "discreet" / "witness"))


def _marks(policy: Policy, ledger: Path) -> list[str]:
    """What the dataset is known by; the first is its identity."""
    data = []
    for table in policy.catalog.tables.values():
        source = policy.sources[table.name]
        if table.private and source != _PYTHON:
            path, mark, inside = source.partition("#")
            data.append(f"file:{os.path.realpath(policy.base / path)}{mark}{inside}")
    if not data and policy.file is not None:
        data.append(f"policy:{os.path.realpath(policy.file)}")
    data.sort()
    book = f"ledger:{os.path.realpath(ledger)}#{policy.catalog.name}"
    if policy.id is not None:
        return [f"id:{policy.id}", *data, book]
    return [f"data:{json.dumps(data)}", *data, book] if len(data) > 1 else [*data, book]


# What the ledger asks


def check_sightings(rows: Rows, account: str, sightings: Iterable[Sighting]) -> None:
    """Refuse a chain that is not the one that a witness saw."""
    for seen in sightings:
        row = rows.row(seen.number)
        if row is None or (row.account, row.hash) != (account, seen.hash) or seen.account != account:
            raise seen.refusal()


def check_marks(rows: Rows, marks: Iterable[str]) -> None:
    """Refuse a new account for data that another account of the same ledger is charged for."""
    for head in rows.heads():
        opening = rows.after(0, limit=1, account=head.account)
        if opening and marks_of(trusted(opening[0]).settings or "").intersection(marks):
            raise LedgerConflict(
                f"this ledger has charges for the same data under the name {head.account!r}; nothing was charged; "
                f"give the dataset that name again: a new name would be a new budget for the same people"
            )


# Files


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _now() -> str:
    return utc(datetime.now(UTC))


def _make(folder: Path) -> None:
    if not folder.is_dir():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        settle_folder(folder.parent)


@contextmanager
def _explained(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise LedgerUnavailable(
            f"the witness {folder} cannot be written ({error.strerror or error}); nothing was charged; make it "
            "writable, or name another folder as [dataset] witness in the policy"
        ) from None


def _always(line: Line | None) -> Callable[[Path], Line | None]:
    return lambda _: line


def _mark_line(path: Path, *, identity: str, mark: str) -> Line | None:
    return None if identity in _datasets(path) else {"dataset": identity, "mark": mark, "time": _now()}


def _append(path: Path, line_for: Callable[[Path], Line | None]) -> None:
    """Append the line that `line_for(path)` gives, if any, while nobody else appends; on disk when this returns."""
    is_new = not path.exists()
    file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        lock(file, wait=True)
        line = line_for(path)
        if line is not None:
            torn = b"" if _ends_whole(file) else b"\n"  # a crash left a part of a line
            os.write(file, torn + json.dumps(line, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n")
            os.fsync(file)
    finally:
        os.close(file)
    if is_new:
        settle_folder(path.parent)


def _ends_whole(file: int) -> bool:
    size = os.fstat(file).st_size
    return size == 0 or os.pread(file, 1, size - 1) == b"\n"


def _parts(path: Path, *, tail: int | None = None) -> list[bytes]:
    """The lines of a file, or those in its last `tail` bytes; a last line that a crash cut short is left out."""
    try:
        with path.open("rb") as source:
            size = source.seek(0, os.SEEK_END)
            start = max(0, size - tail) if tail else 0
            source.seek(start)
            parts = source.read().split(b"\n")[1 if start else 0 : -1]
    except (FileNotFoundError, NotADirectoryError):  # where nothing can be written either, `prepare` says so
        return []
    except OSError as error:
        raise LedgerUnavailable(f"the witness {path} cannot be read: {error.strerror or error}") from None
    return parts if parts or not start else _parts(path)


def _datasets(path: Path) -> set[str]:
    """The datasets that a mark belongs to and that were not forgotten since."""
    names: dict[str, None] = {}
    for line in map(_read, _parts(path)):
        if line is not None and "forgotten" in line:
            names.pop(str(line["forgotten"]), None)
        elif line is not None and "dataset" in line:
            names[str(line["dataset"])] = None
    return set(names)


def _last_sighting(path: Path) -> Sighting | None:
    """The last line that can be read; a crash, or a full disk, may have left a part of one."""
    parts = _parts(path, tail=_TAIL)
    line = next((line for line in map(_read, reversed(parts)) if line is not None), None)
    if (line is None and not parts) or (line is not None and "forgotten" in line):
        return None
    try:
        if line is None:
            raise TypeError
        return Sighting(
            str(line["account"]), str(line["ledger"]), int(line["number"]), str(line["hash"]), int(line["length"]),
            str(line["time"]), path,
        )  # fmt: skip
    except (KeyError, TypeError, ValueError):
        raise LedgerDamaged(
            f"the last line of the witness {path} cannot be read; nothing was charged; restore it from a backup"
        ) from None


def _read(part: bytes) -> Line | None:
    try:
        line = json.loads(part)
    except ValueError:
        return None
    return line if isinstance(line, dict) else None
