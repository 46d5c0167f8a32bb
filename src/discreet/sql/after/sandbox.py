"""What an analyst does with released values: any SELECT, run where nothing but these values is.

The text is hostile until proven otherwise, and no list of functions is long enough: one call of `repeat` or `range` may
take gigabytes and cannot be interrupted. So it runs in a process of its own (`sandbox_worker.py`), which never held a
private row, with files, network, extensions, settings and variables of Python out of reach, and which is killed when
the time is over. Processes wait for the next statement: the first costs a quarter of a second, the others milliseconds.
"""

import atexit
import contextlib
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discreet.errors import InternalError, InvalidParameter

if TYPE_CHECKING:
    import pyarrow


KEPT = 4
"""Idle processes that are kept for later statements, for each amount of memory."""

_UNITS = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}


def run(
    sql: str, tables: "Mapping[str, pyarrow.Table]", *, seconds: float = 30, memory: str = "1GB"
) -> "pyarrow.Table":
    """The result of one SELECT over the given tables, and over nothing else.

    `memory` bounds DuckDB's own memory and, again, the size of the result. Whatever goes wrong is an
    `InvalidParameter` in DuckDB's words, which can name released values only.

    >>> import pyarrow
    >>> counts = pyarrow.table({"region": ["north", "south"], "n": [40, 60]})
    >>> run("SELECT region, n / sum(n) OVER () AS share FROM counts ORDER BY share", {"counts": counts}).to_pylist()
    [{'region': 'north', 'share': 0.4}, {'region': 'south', 'share': 0.6}]
    """
    if not isinstance(sql, str) or not _encodable(sql):
        raise InvalidParameter("statement", sql, "SQL text")
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < 10**6:
        raise InvalidParameter("seconds", seconds, "a time above 0, below a million seconds")
    worker = _take(_bytes(memory))
    try:
        reply, table = worker.ask(sql, tables, seconds)
    except BaseException:
        worker.end()
        raise
    if reply["problem"] in ("", "select", "error"):
        _give_back(worker)
    else:
        worker.end()
    if table is None:
        raise _problem(sql, reply, seconds, memory)
    return table


def _problem(sql: str, reply: Mapping[str, str], seconds: float, memory: str) -> InvalidParameter:
    expected = {
        "select": "one SELECT statement",
        "error": "SQL that can be run over the released tables",
        "memory": f"a statement that needs less memory than {memory}",
        "time": f"a statement that is done in {seconds:g} s",
        "broken": "SQL that DuckDB can run",
    }[reply["problem"]]
    return InvalidParameter("statement", sql, expected, reply["message"])


class _Worker:
    """One process, for one statement at a time."""

    def __init__(self, memory: int) -> None:
        self.memory = memory
        self.owner = os.getpid()
        self._ready = False
        kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "SYSTEMROOT") if name in os.environ}
        script = str(Path(__file__).with_name("sandbox_worker.py"))
        path = json.dumps([os.path.abspath(place) for place in sys.path])
        self._process = subprocess.Popen(  # noqa: S603  # our own script
            [sys.executable, "-I", script, path, str(memory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=os.path.abspath(os.sep),
            env=kept,
            start_new_session=True,  # Ctrl-C at a terminal is not for it
        )

    @property
    def usable(self) -> bool:
        """Whether it still runs, and for this process: after a fork, it is the parent's."""
        return self.owner == os.getpid() and self._process.poll() is None

    def _await_ready(self) -> None:
        """Wait, once, until the process says that it is ready: starting it is no time of the statement."""
        if not self._ready and self._process.stdout is not None:
            self._ready = bool(self._process.stdout.readline())
        if not self._ready:
            raise InternalError("the process for statements over released values did not start")

    def ask(
        self, sql: str, tables: "Mapping[str, pyarrow.Table]", seconds: float
    ) -> "tuple[dict[str, str], pyarrow.Table | None]":
        """The reply and, if there was no problem, the table."""
        late = threading.Event()

        def stop() -> None:
            late.set()
            self._process.kill()

        self._await_ready()
        clock = threading.Timer(seconds, stop)
        clock.daemon = True
        clock.start()
        try:
            return self._exchange(sql, tables, seconds)
        except (OSError, ValueError):  # it was killed, by us or for its memory, and the streams broke off
            return {"problem": "time" if late.is_set() else "memory", "message": ""}, None
        finally:
            clock.cancel()

    def _exchange(
        self, sql: str, tables: "Mapping[str, pyarrow.Table]", seconds: float
    ) -> "tuple[dict[str, str], pyarrow.Table | None]":
        import pyarrow

        given, taken = self._process.stdin, self._process.stdout
        if given is None or taken is None:
            raise OSError
        given.write(json.dumps({"sql": sql, "seconds": seconds, "tables": list(tables)}).encode() + b"\n")
        for table in tables.values():
            with pyarrow.ipc.new_stream(given, table.schema) as writer:
                writer.write_table(table)
        given.flush()
        reply: dict[str, Any] = json.loads(taken.readline())
        if reply["problem"]:
            return reply, None
        answer = pyarrow.ipc.open_stream(taken).read_all()
        answer.validate(full=True)
        return reply, answer

    def end(self) -> None:
        """Kill it and wait until it is gone; after a fork, only let go of it, since it is the parent's."""
        ours = self.owner == os.getpid()
        if ours:
            self._process.kill()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):  # what was not yet sent cannot be sent any more
                    stream.close()
        if ours:
            self._process.wait()


_idle: list[_Worker] = []
_lock = threading.Lock()


def warm(memory: str = "1GB") -> None:
    """Start a process now, without waiting for it, if none is kept: it starts while a statement is still read."""
    size = _bytes(memory)
    with _lock:
        if any(other.memory == size for other in _idle):
            return
    _give_back(_Worker(size))


def _take(memory: int) -> _Worker:
    with _lock:
        while True:
            worker = next((other for other in _idle if other.memory == memory), None)
            if worker is None:
                return _Worker(memory)
            _idle.remove(worker)
            if worker.usable:
                return worker
            worker.end()


def _give_back(worker: _Worker) -> None:
    with _lock:
        room = sum(other.memory == worker.memory for other in _idle) < KEPT
        if room:
            _idle.append(worker)
    if not room:
        worker.end()


@atexit.register
def _end_all() -> None:
    with _lock:
        while _idle:
            _idle.pop().end()


def _bytes(memory: str) -> int:
    result = re.fullmatch(r"\s*(\d{1,6})\s*([A-Za-z]+)\s*", memory) if isinstance(memory, str) else None
    if result is None or result[2].upper() not in _UNITS or int(result[1]) == 0:
        raise InvalidParameter("memory", memory, "an amount such as '1GB' or '500MB'")
    return int(result[1]) * _UNITS[result[2].upper()]


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
