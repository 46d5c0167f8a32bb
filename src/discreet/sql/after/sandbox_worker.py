"""The process in which an analyst's own SQL runs: it holds released tables, and can reach nothing else.

Started by `sandbox.py` as a script, with what `sys.path` shall be and the memory in bytes as arguments; it imports
nothing of discreet. Its first line says that it is ready. A request is a line of JSON (the statement, its time, the
names of tables) and one Arrow stream a table; a reply is a line of JSON (what went wrong, if anything) and, if nothing
did, one Arrow stream. It ends with its input, and when a statement has not ended long after its time.
"""

import contextlib
import json
import signal
import sys
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    import duckdb
    import pyarrow


HEADROOM = 2**29
"""Bytes beside DuckDB's own limit and the result: Python, Arrow, and what functions allocate while they run."""

_LOCKED: dict[str, Any] = {
    "enable_external_access": False,
    "python_enable_replacements": False,
    "python_scan_all_frames": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "allow_persistent_secrets": False,
    "secret_directory": "",
    "temp_directory": "",
    "threads": 2,
}


def serve(memory: int) -> None:
    """Answer requests on the standard streams until the input ends."""
    given, taken = sys.stdin.buffer, sys.stdout.buffer
    connection = connect(memory)
    _confine(memory)
    _say(taken, "", "ready")
    taken.flush()
    while line := given.readline():
        request = json.loads(line)
        _alarm(request["seconds"] + 5)
        _answer(connection, request, memory, given, taken)
        taken.flush()
        _alarm(0)


def connect(memory: int) -> "duckdb.DuckDBPyConnection":
    """An empty DuckDB without files, extensions, settings or variables of Python.

    >>> connect(10**9).execute("SELECT * FROM read_text('/etc/passwd')")
    Traceback (most recent call last):
    _duckdb.PermissionException: Permission Error: File system LocalFileSystem has been disabled by configuration...
    """
    import duckdb

    connection = duckdb.connect(":memory:", config={**_LOCKED, "memory_limit": f"{memory}B"})
    connection.execute("SET GLOBAL TimeZone = 'UTC'")
    connection.execute("SET disabled_filesystems = 'LocalFileSystem'")
    return connection.execute("SET lock_configuration = true")


def select(
    connection: "duckdb.DuckDBPyConnection", sql: str, tables: "dict[str, pyarrow.Table]", memory: int
) -> "tuple[pyarrow.Schema, list[pyarrow.RecordBatch]]":
    """The rows of one SELECT over tables that no other statement can see.

    >>> import pyarrow
    >>> schema, batches = select(connect(10**9), "SELECT n + 1 AS m FROM t", {"t": pyarrow.table({"n": [1]})}, 10**9)
    >>> batches[0].to_pylist()
    [{'m': 2}]
    """
    import duckdb

    statements = duckdb.extract_statements(sql)
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise NotOneSelect
    with connection.cursor() as cursor:
        for name, table in tables.items():
            cursor.register(name, table)
        reader = cursor.sql(sql).to_arrow_reader(100_000)
        batches, size = [], 0
        for batch in reader:
            batches.append(batch)
            size += batch.nbytes
            if size > memory:
                raise MemoryError
        return reader.schema, batches


class NotOneSelect(Exception):
    """The text is not one SELECT statement."""


def _answer(
    connection: "duckdb.DuckDBPyConnection", request: dict[str, Any], memory: int, given: BinaryIO, taken: BinaryIO
) -> None:
    import duckdb
    import pyarrow

    tables = {name: pyarrow.ipc.open_stream(given).read_all() for name in request["tables"]}
    try:
        schema, batches = select(connection, request["sql"], tables, memory)
    except NotOneSelect:
        return _say(taken, "select", "")
    except (MemoryError, duckdb.OutOfMemoryException, pyarrow.ArrowMemoryError):
        return _say(taken, "memory", "")
    except (duckdb.InternalException, duckdb.FatalException) as error:
        return _say(taken, "broken", str(error))
    except Exception as error:  # while rows are read, Arrow passes DuckDB's errors on as its own
        if "Out of Memory" in str(error):
            return _say(taken, "memory", "")
        return _say(taken, "error", str(error))
    _say(taken, "", "")
    with pyarrow.ipc.new_stream(taken, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return None


def _say(taken: BinaryIO, problem: str, message: str) -> None:
    taken.write(json.dumps({"problem": problem, "message": message}).encode() + b"\n")


def _alarm(seconds: float) -> None:
    """End this process after so many seconds, even if nobody is left to kill it; 0 is never."""
    if hasattr(signal, "setitimer"):  # not on Windows
        signal.setitimer(signal.ITIMER_REAL, seconds)


def _confine(memory: int) -> None:
    """Limits of the operating system, where there are any: memory, no file that grows, no core dump.

    Where memory runs out all the same, Linux ends this process before the server (proc(5), `oom_score_adj`).
    """
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as ours:
        ours.write("1000")
    try:
        import resource
    except ImportError:  # not on Windows
        return
    bytes_ = 2 * memory + HEADROOM
    for name, limit in (("RLIMIT_DATA", bytes_), ("RLIMIT_FSIZE", 0), ("RLIMIT_CORE", 0)):
        resource.setrlimit(getattr(resource, name), (limit, limit))


if __name__ == "__main__":
    sys.path[:] = json.loads(sys.argv[1])
    serve(int(sys.argv[2]))
