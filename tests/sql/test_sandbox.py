"""The analyst's own SQL, and what it cannot do. Its texts are hostile on purpose."""

import math
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from discreet.errors import InternalError, InvalidParameter
from discreet.sql.after import sandbox, sandbox_worker
from discreet.sql.after.sandbox import run

COUNTS = pa.table({"region": ["north", "south", None], "n": [40, 60, 7]})
a_global = pa.table({"secret": [1]})


def rows(sql: str, **tables: pa.Table) -> list[tuple[object, ...]]:
    found = run(sql, tables or {"counts": COUNTS})
    return [tuple(row) for row in zip(*(column.to_pylist() for column in found.columns), strict=True)]


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        ("SELECT region, n FROM counts ORDER BY n DESC LIMIT 1", [("south", 60)]),
        ("WITH a AS (SELECT n * 2 AS m FROM counts) SELECT max(m) FROM a", [(120,)]),
        ("SELECT n, rank() OVER (ORDER BY n) FROM Counts ORDER BY 1", [(7, 1), (40, 2), (60, 3)]),
        ("SELECT count(*) FROM counts a, counts b WHERE a.n < b.n", [(3,)]),
        ("FROM counts SELECT n WHERE region IS NULL", [(7,)]),
        ("VALUES ('😀', 'it''s\n')", [("😀", "it's\n")]),
        ("SELECT 1; -- the end", [(1,)]),
        ("SELECT n FROM counts WHERE false", []),
        ("SELECT sum(i) FROM range(10) t(i)", [(45,)]),
        ("SELECT current_setting('TimeZone')", [("UTC",)]),
    ],
)
def test_any_select_over_released_tables(sql, wanted):
    assert rows(sql) == wanted


def test_types_and_odd_names_pass_through():
    table = pa.table({'a "b"': pa.array([1.5, math.nan, None]), "é": pa.array([2**62, None, -1])})
    found = run('SELECT * FROM "it\'s ""t"""', {'it\'s "t"': table})
    assert found.schema.equals(table.schema)
    assert found.column("é").to_pylist() == [2**62, None, -1]
    assert [field.name for field in run("SELECT 1 AS a, 2 AS a", {}).schema] == ["a", "a"]


def test_many_rows():
    table = pa.table({"i": range(300_000)})
    assert run("SELECT i FROM t ORDER BY i", {"t": table})["i"].to_pylist() == list(range(300_000))


def test_an_empty_table_and_no_table():
    assert rows("SELECT count(*) FROM t", t=COUNTS.slice(0, 0)) == [(0,)]
    assert run("SELECT 1 AS one", {}).to_pylist() == [{"one": 1}]


def test_statements_do_not_see_each_others_tables():
    assert rows("SELECT count(*) FROM mine", mine=COUNTS) == [(3,)]
    with pytest.raises(InvalidParameter, match="mine does not exist"):
        rows("SELECT count(*) FROM mine", other=COUNTS)
    with pytest.raises(InvalidParameter, match="secret does not exist"):
        rows("SELECT * FROM counts, secret")


@pytest.mark.parametrize(
    "sql",
    [
        "",
        " ;; ",
        "-- nothing",
        "/* nothing */",
        "SELECT 1; SELECT 2",
        "SELECT 1; DROP TABLE counts",
        "CREATE TABLE t AS SELECT 1",
        "CREATE MACRO f() AS 1",
        "INSERT INTO counts VALUES ('x', 1)",
        "DROP VIEW counts",
        "UPDATE counts SET n = 0",
        "COPY counts TO '/tmp/stolen.csv'",
        "COPY (SELECT 1) TO '/dev/stdout'",
        "EXPORT DATABASE '/tmp/stolen'",
        "ATTACH '/tmp/stolen.db'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET memory_limit = '100GB'",
        "SET enable_external_access = true",
        "RESET lock_configuration",
        "PRAGMA enable_profiling",
        "CALL enable_logging(storage='stdout')",
        "EXPLAIN ANALYZE SELECT 1",
        "BEGIN",
        "PREPARE p AS SELECT 1",
        "VACUUM",
        "USE memory",
        "CREATE SECRET (TYPE s3)",
    ],
)
def test_only_one_select_is_accepted(sql):
    with pytest.raises(InvalidParameter, match="statement: got .*expected one SELECT statement"):
        rows(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM read_blob(['/etc/passwd'])",
        "SELECT * FROM read_parquet('/etc/passwd')",
        "SELECT * FROM parquet_metadata('/etc/passwd')",
        "SELECT * FROM read_json('/etc/passwd')",
        "SELECT * FROM read_duckdb('/etc/passwd')",
        "SELECT * FROM sniff_csv('/etc/passwd')",
        "SELECT * FROM glob('/etc/*')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM '/etc/*.csv'",
        "SELECT * FROM ':memory:'",
        "SELECT * FROM read_text(':memory:')",
        "SELECT * FROM 'https://example.com/x.csv'",
        "SELECT * FROM read_parquet('s3://bucket/x.parquet')",
        "SELECT getenv('HOME')",
        "SELECT * FROM query('COPY counts TO ''/tmp/stolen.csv''')",
        "SELECT * FROM query('SELECT * FROM read_text(''/etc/passwd'')')",
        "SELECT * FROM query_table('/etc/passwd')",
        "SELECT * FROM json_execute_serialized_sql(json_serialize_sql('SELECT * FROM read_text(''/etc/passwd'')'))",
        "SELECT * FROM enable_logging('QueryLog', storage='file', storage_path='/tmp/stolen')",
        "SELECT * FROM enable_profiling(save_location='/tmp/stolen')",
        "SELECT * FROM a_global",
        "SELECT * FROM a_local",
        "SELECT * FROM tables",
        "SELECT * FROM connection",
        "SELECT * FROM arrow_scan()",
        "SELECT * FROM pandas_scan()",
        "SELECT * FROM python_map_function((SELECT 1))",
        "SELECT * FROM seq_scan()",
        "WITH a AS (INSERT INTO counts VALUES ('x', 1) RETURNING *) SELECT * FROM a",
        "SELECT 'x'::INTEGER",
        "SELECT error('x')",
        "SELECT nothing FROM counts",
        "SELECT",
        ".shell ls",
        "\\! ls",
        "SELECT * FROM counts WHERE n = ?",
        "SELECT $1",
        "SELECT '\0' FROM \0",
        "SELECT " + "(" * 20_000 + "1" + ")" * 20_000,
    ],
)
def test_nothing_else_can_be_reached(sql):
    a_local = a_global
    assert a_local is a_global
    with pytest.raises(InvalidParameter, match="statement: got") as caught:
        rows(sql)
    assert "root:" not in str(caught.value)
    assert not Path("/tmp/stolen").exists()  # noqa: S108
    assert rows("SELECT 1") == [(1,)]


def test_settings_tell_nothing_of_the_machine():
    told = str(run("SELECT value FROM duckdb_settings()", {}).to_pylist()) + str(rows("SELECT * FROM duckdb_secrets()"))
    assert os.getcwd() not in told
    assert str(Path.home()) not in told or str(Path.home()) == "/"


def test_there_are_no_secrets():
    assert rows("SELECT * FROM which_secret('s3://x', 's3')") == []
    assert rows("SELECT * FROM duckdb_secrets()") == []


def test_duckdb_says_what_is_wrong():
    with pytest.raises(InvalidParameter, match='(?s)"nothing" not found.*Candidate bindings: "n"'):
        rows("SELECT nothing FROM counts")


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    "sql",
    [
        "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT count(*) FROM t",
        "SELECT sum(hash(a.i, b.i)) FROM range(1000000) a(i), range(1000000) b(i)",
        "SELECT sleep_ms(100000)",
    ],
)
def test_a_statement_that_takes_too_long_is_stopped(sql):
    """Each of them would run for minutes, or for ever; afterwards there is room for the next."""
    with pytest.raises(InvalidParameter, match="expected a statement that is done in 0.5 s"):
        run(sql, {}, seconds=0.5)
    assert rows("SELECT count(*) FROM counts") == [(3,)]


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT repeat('a', 1000000000)",
        "SELECT range(1000000000)",
        "SELECT * FROM range(1000000000000)",
        "SELECT list(i) FROM range(10000000000) t(i)",
        "SELECT array_agg(i) OVER () FROM range(100000) t(i)",
        "SELECT string_agg(repeat('a', 1000000)) FROM range(10000)",
    ],
)
def test_a_statement_that_takes_too_much_memory_is_stopped(sql):
    with pytest.raises(InvalidParameter, match="expected a statement that needs less memory than 100MB$"):
        run(sql, {}, seconds=20, memory="100MB")


@pytest.mark.skipif(sys.platform != "linux", reason="Linux says which process ends first where memory runs out")
def test_where_the_machine_has_no_memory_left_it_goes_first():
    run("SELECT 1 AS one", {})
    process = sandbox._idle[-1]._process.pid
    assert int(Path(f"/proc/{process}/oom_score_adj").read_text()) == 1000


def test_threads_run_statements_at_once():
    wrong: list[object] = []

    def work(k: int) -> None:
        for _ in range(5):
            found = rows("SELECT max(i) FROM t", t=pa.table({"i": range(k)}))
            if found != [(k - 1,)]:
                wrong.append(found)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(1, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(sandbox._idle) <= 3 * sandbox.KEPT


def test_a_process_that_died_meanwhile_is_replaced():
    rows("SELECT 1")
    for idle in sandbox._idle:
        idle._process.kill()
        idle._process.wait()
    assert rows("SELECT 1") == [(1,)]


def test_the_process_ends_with_its_owner():
    code = "from discreet.sql.after import sandbox; sandbox.run('SELECT 1', {}); print(sandbox._idle[0]._process.pid)"
    for end in ("", "; import os; os._exit(1)"):
        pid = int(
            subprocess.run(
                [sys.executable, "-c", code.replace("pid)", "pid, flush=True)") + end], capture_output=True, check=False
            ).stdout
        )
        for _ in range(2400):  # two minutes on a busy machine
            if not Path(f"/proc/{pid}").exists():
                break
            time.sleep(0.05)
        assert not Path(f"/proc/{pid}").exists()


def test_a_process_that_does_not_start_is_our_fault(monkeypatch):
    monkeypatch.setattr(sandbox.sys, "executable", "/bin/false")
    with pytest.raises(InternalError, match="did not start"):
        run("SELECT 1", {}, memory="123MB")


@pytest.mark.parametrize("sql", [None, 3, b"SELECT 1", "SELECT '\ud800'"])
def test_a_statement_is_text(sql):
    with pytest.raises(InvalidParameter, match="statement: got .*expected SQL text"):
        run(sql, {})


@pytest.mark.parametrize("seconds", [0, -1, math.nan, math.inf, "1", None, True])
def test_a_time_is_a_number(seconds):
    with pytest.raises(InvalidParameter, match="seconds: got"):
        run("SELECT 1", {}, seconds=seconds)


@pytest.mark.parametrize("memory", ["", "1", "GB", "-1GB", "0MB", "1.5GB", "1 parsec", 10**9, None])
def test_a_memory_is_an_amount(memory):
    with pytest.raises(InvalidParameter, match="memory: got"):
        run("SELECT 1", {}, memory=memory)


# --- each lock alone ------------------------------------------------------------------------------------------------

FILES = [
    "SELECT content FROM read_text('{}')",
    "SELECT * FROM read_csv('{}')",
    "SELECT * FROM '{}'",
    "SELECT * FROM glob('{}')",
]
MEMORY = 10**9


@pytest.fixture
def a_file(tmp_path):
    path = tmp_path / "private.csv"
    path.write_text("name\nSECRET\n")
    with duckdb.connect() as open_:
        for sql in FILES:
            assert open_.sql(sql.format(path)).fetchall()  # without a lock, each of them reads
    return path


@pytest.mark.parametrize("sql", FILES)
def test_the_first_lock_holds_alone(sql, a_file):
    """No access to anything outside, though the file system itself is there."""
    with duckdb.connect(config=sandbox_worker._LOCKED) as connection, pytest.raises(duckdb.Error) as refused:
        connection.execute(sql.format(a_file)).fetchall()
    assert "SECRET" not in str(refused.value)


@pytest.mark.parametrize("sql", FILES)
def test_the_second_lock_holds_alone(sql, a_file, monkeypatch):
    """No file system, though access to the outside is allowed."""
    monkeypatch.setitem(sandbox_worker._LOCKED, "enable_external_access", True)
    with sandbox_worker.connect(MEMORY) as connection, pytest.raises(duckdb.Error, match="disabled"):
        connection.execute(sql.format(a_file)).fetchall()


@pytest.mark.parametrize(
    "name", ["threads", "memory_limit", "enable_external_access", "disabled_filesystems", "temp_directory"]
)
def test_no_setting_can_be_changed(name):
    with sandbox_worker.connect(MEMORY) as connection:
        for sql in (f"SET {name} = '1'", f"RESET {name}", f"SET GLOBAL {name} = '1'"):
            with pytest.raises(duckdb.Error):
                connection.execute(sql)


@pytest.mark.parametrize("access", [False, True])
def test_variables_of_python_are_not_tables(access, monkeypatch):
    """Even where access to the outside is allowed, which alone would let them in."""
    monkeypatch.setitem(sandbox_worker._LOCKED, "enable_external_access", access)
    a_variable = COUNTS
    with sandbox_worker.connect(MEMORY) as connection:
        with pytest.raises(duckdb.CatalogException, match="a_variable"):
            connection.execute("SELECT * FROM a_variable")
        with pytest.raises(duckdb.CatalogException, match="COUNTS"):
            connection.execute("SELECT * FROM COUNTS")
    assert a_variable is COUNTS


def test_tables_of_one_statement_are_gone_for_the_next():
    with sandbox_worker.connect(MEMORY) as connection:
        sandbox_worker.select(connection, "SELECT 1 FROM mine", {"mine": COUNTS}, MEMORY)
        with pytest.raises(duckdb.CatalogException, match="mine"):
            sandbox_worker.select(connection, "SELECT 1 FROM mine", {}, MEMORY)


def test_a_result_may_not_be_larger_than_the_memory():
    with sandbox_worker.connect(MEMORY) as connection, pytest.raises(MemoryError):
        sandbox_worker.select(connection, "SELECT range FROM range(100000)", {}, 10_000)
