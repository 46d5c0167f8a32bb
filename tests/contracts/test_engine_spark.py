"""Spark as an engine: tables by name, an address of Spark Connect, bad input, and who is told what."""

import logging
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import discreet
from discreet.curator.catalog import Catalog, Column, Table
from discreet.curator.engines.dialects import SPARK
from discreet.curator.engines.spark import SparkEngine, _explained
from discreet.curator.policy import parse_policy
from discreet.errors import EngineUnavailable, InvalidData, InvalidParameter, MissingExtra, ReleaseFailed
from discreet.privacy.unit import Unit

POLICY = """
[dataset]
name = "clinic"
neighbors = "add or remove one"
engine = "spark"
address = "{address}"
witness = "none"
time_floor = 0
[budget]
epsilon = 10
delta = "1e-6"
everyone = "all"
[tables.visits]
source = "{source}"
unit = "patient"
max_groups_per_unit = 1
max_rows_per_group = 1
[tables.visits.columns]
patient = {{type = "integer"}}
cost = {{type = "real", lower = 0, upper = 100, granularity = "0.01"}}
"""
COUNT = "SELECT COUNT(*) AS n FROM visits"
ROWS = pa.table({"patient": list(range(500)), "cost": [float(i % 90) for i in range(500)]})


@pytest.fixture
def ward(spark: str, tmp_path: Path) -> Iterator[tuple[Any, Path]]:
    """A session with a schema of its own, and a folder with a Parquet file and a policy over the table of the schema."""
    from pyspark.sql import SparkSession

    session = SparkSession.builder.getOrCreate().newSession()
    pq.write_table(ROWS, tmp_path / "visits.parquet")
    session.sql("CREATE SCHEMA ward")
    session.sql(f"CREATE TABLE ward.visits USING parquet LOCATION '{tmp_path}/visits.parquet'")
    (tmp_path / "clinic.toml").write_text(POLICY.format(address=spark, source="ward.visits"))
    yield session, tmp_path
    session.sql("DROP SCHEMA ward CASCADE")


def failing(data: Any, caplog: Any) -> str:
    """What the owner reads of a release that fails; the analyst reads nothing of it."""
    logger = logging.getLogger("discreet.owner")
    logger.addHandler(caplog.handler)
    try:
        with pytest.raises(ReleaseFailed) as caught:
            data.ask(COUNT, epsilon=1)
    finally:
        logger.removeHandler(caplog.handler)
    assert "ward" not in str(caught.value)
    assert "Spark" not in str(caught.value)
    return str(caplog.text)


def test_a_table_that_goes_or_changes_is_charged_once(ward, caplog):
    """By name: answered, gone, of another shape, back again; one charge for the question that failed in between."""
    session, folder = ward
    with discreet.open(folder / "clinic.toml") as data:
        session.sql("DROP TABLE ward.visits")
        assert "it was there when the dataset was opened" in failing(data, caplog)
        session.sql("CREATE TABLE ward.visits (patient BIGINT, cost FLOAT) USING parquet")
        session.sql("DROP TABLE ward.visits")
        session.sql("CREATE TABLE ward.visits (patient STRING, cost DOUBLE) USING parquet")
        assert "a source of type string" in failing(data, caplog)
        session.sql("DROP TABLE ward.visits")
        session.sql(f"CREATE TABLE ward.visits USING parquet LOCATION '{folder}/visits.parquet'")
        answer = data.ask(COUNT, epsilon=1)
        assert abs(answer.table.column("n")[0].as_py() - 500) < 40
        assert [charge.number for charge in data.ledger.charges("clinic")] == [answer.receipt.charge]


def test_a_view_needs_the_owners_word(ward):
    session, folder = ward
    session.sql("CREATE VIEW ward.seen AS SELECT * FROM ward.visits")
    policy = parse_policy((folder / "clinic.toml").read_text())
    with pytest.raises(InvalidParameter, match=r"got 'view .*expected a table; .*promise it: view:ward\.seen"):
        SparkEngine(policy.catalog, {"visits": "ward.seen"}, address="local[1]")
    with pytest.raises(InvalidParameter, match="expected a view"):
        SparkEngine(policy.catalog, {"visits": "view:ward.visits"}, address="local[1]")
    with SparkEngine(policy.catalog, {"visits": "view:ward.seen"}, address="local[1]") as engine:
        assert engine.fetch("SELECT count(*) AS n FROM `visits`").to_pylist() == [{"n": 500}]


def test_a_table_of_another_format_needs_the_owners_word(ward):
    """A line of a CSV file may make reading fail: what `view:` promises is promised of such a table too."""
    session, folder = ward
    (folder / "visits.csv").write_text("patient,cost\n1,2.5\n")
    options = "USING csv OPTIONS (header 'true', mode 'FAILFAST')"
    session.sql(f"CREATE TABLE ward.lines (patient BIGINT, cost DOUBLE) {options} LOCATION '{folder}/visits.csv'")
    policy = parse_policy((folder / "clinic.toml").read_text())
    with pytest.raises(InvalidParameter, match=r"ward\.lines of format 'csv'.*promise it: view:.*ward\.lines"):
        SparkEngine(policy.catalog, {"visits": "ward.lines"}, address="local[1]")
    with SparkEngine(policy.catalog, {"visits": "view:ward.lines"}, address="local[1]") as engine:
        assert engine.fetch("SELECT sum(`patient`) AS n FROM `visits`").to_pylist() == [{"n": 1}]


def test_tables_whose_names_change_places(ward):
    """A policy's name for one table may be Spark's name for another."""
    session, _ = ward
    names = {"first": "second", "second": "first"}
    unit = Unit()
    catalog = Catalog(
        "swap", [Table(name, [Column("x", "integer")], unit=unit) for name in names], neighbors="change one"
    )
    for name, value in (("first", 1), ("second", 2)):
        session.sql(f"CREATE TABLE {name} USING parquet AS SELECT {value} AS x")
    try:
        with SparkEngine(catalog, names, address="local[1]") as engine:
            both = "SELECT f.x AS f, s.x AS s FROM `first` AS f CROSS JOIN `second` AS s"
            assert engine.fetch(both).to_pylist() == [{"f": 2, "s": 1}]
    finally:
        for name in names:
            session.sql(f"DROP TABLE {name}")


@pytest.mark.parametrize("type_", [pa.float64(), pa.float32()], ids=str)
def test_whether_a_row_counts_does_not_depend_on_the_others(spark, tmp_path, type_):
    """NaN is greater than 3, but statistics of a Parquet file disregard it: nobody else brings it in, or keeps it out."""
    catalog = Catalog("data", [Table("rows", [Column("x", "real")], unit=Unit())], neighbors="change one")
    for other, count in ((1.0, 1), (5.0, 2)):
        pq.write_table(pa.table({"x": pa.array([float("nan"), other], type_)}), tmp_path / "rows.parquet")
        with SparkEngine(catalog, {"rows": "parquet:rows.parquet"}, address=spark, base=tmp_path) as engine:
            found = engine.fetch("SELECT count(*) AS n FROM `rows` WHERE `x` > CAST('3' AS DOUBLE)")
            assert found.to_pylist() == [{"n": count}]


def test_no_text_makes_like_take_long(spark, tmp_path):
    """Spark's own LIKE tries every way in which a text may fit: here, that would take years."""
    pq.write_table(pa.table({"x": ["a" * 1000]}), tmp_path / "rows.parquet")
    catalog = Catalog("data", [Table("rows", [Column("x", "text")], unit=Unit())], neighbors="change one")
    with SparkEngine(catalog, {"rows": "parquet:rows.parquet"}, address=spark, base=tmp_path) as engine:
        for end, count in (("b", 0), ("a", 1)):
            test = SPARK.like("`x`", SPARK.pattern("%" + "a%_" * 20 + end))
            assert engine.fetch(f"SELECT count(*) AS n FROM `rows` WHERE {test}").to_pylist() == [{"n": count}]


def test_a_query_that_takes_too_long_is_stopped(spark, tmp_path):
    pq.write_table(ROWS, tmp_path / "visits.parquet")
    policy = parse_policy(POLICY.format(address=spark, source="parquet:visits.parquet"))
    with SparkEngine(policy.catalog, policy.sources, address=spark, base=tmp_path, timeout=0.5) as engine:
        with pytest.raises(InvalidData, match=r"took longer than 0.5 seconds; state another .* statement_timeout"):
            engine.fetch("SELECT count(*) AS n FROM range(0, 100000000000000, 1, 1) WHERE hash(id) = 7")
        engine._timeout = 600
        assert engine.fetch("SELECT count(*) AS n FROM `visits`").to_pylist() == [{"n": 500}]


def test_a_file_that_goes_is_charged_once_and_one_that_cannot_be_read_each_time(ward, caplog, spark):
    """Whether a file is there is no function of rows; what happens while they are read may be."""
    _, folder = ward
    file = folder / "visits.parquet"
    (folder / "files.toml").write_text(POLICY.format(address=spark, source="parquet:visits.parquet"))
    with discreet.open(folder / "files.toml") as data:
        written = file.read_bytes()
        file.unlink()
        assert "it was there when the dataset was opened" in failing(data, caplog)
        file.write_bytes(written[:4] + bytes(len(written) // 2) + written[4 + len(written) // 2 :])
        assert "refused a query: [FAILED_READ_FILE" in failing(data, caplog)  # whatever settings say of such files
        assert len(data.ledger.charges("clinic")) == 1  # the first one was used up
        file.write_bytes(written)
        data.ask(COUNT, epsilon=1)
        assert len(data.ledger.charges("clinic")) == 2


def test_a_session_that_is_lost_is_charged_once(ward, caplog, monkeypatch):
    _, folder = ward
    with discreet.open(folder / "clinic.toml") as data:

        class Py4JNetworkError(Exception):
            pass

        class Away:
            def sql(self, *given: Any, **named: Any) -> Any:
                raise Py4JNetworkError("Answer from Java side is empty")

        monkeypatch.setattr(data._curator.engine, "_session", Away())
        assert "does not answer" in failing(data, caplog)
        monkeypatch.undo()
        data.ask(COUNT, epsilon=1)
        assert len(data.ledger.charges("clinic")) == 1


@pytest.mark.parametrize(
    ("name", "kind"),
    [("Py4JNetworkError", EngineUnavailable), ("SparkConnectGrpcException", EngineUnavailable), ("AnalysisException", InvalidData),
     ("SparkRuntimeException", InvalidData), ("Py4JJavaError", InvalidData)],
)  # fmt: skip
def test_only_a_connection_that_is_lost_lets_a_charge_be_used_again(name, kind):
    error = type(name, (Exception,), {})("said\nmore")
    assert type(_explained(error, "local[1]", "a query")) is kind


def test_sources_that_are_refused(ward):
    session, folder = ward
    policy = parse_policy((folder / "clinic.toml").read_text())
    for source, words in {
        "ward.nothing": "refused reading the columns",
        "delta:visits.parquet": "refused reading the columns of 'visits'",  # no Delta here
        "ward.visits; DROP TABLE x": "the name of a table|a name such as",
        "csv:visits.csv": "a name such as clinic.visits",
    }.items():
        with pytest.raises((InvalidData, InvalidParameter), match=words):
            SparkEngine(policy.catalog, {"visits": source}, address="local[1]", base=folder)
    with pytest.raises(InvalidParameter, match="without a password") as caught:
        parse_policy(POLICY.format(address="sc://host:15002/;token=hush", source="ward.visits"))
    assert "hush" not in str(caught.value)


def test_spark_connect_without_its_packages_is_said(spark, monkeypatch):
    from pyspark.sql import SparkSession

    class Remote:
        def remote(self, place: str) -> Any:
            raise ImportError("grpcio-status")

    monkeypatch.setattr(SparkSession, "builder", Remote())
    policy = parse_policy(POLICY.format(address="sc://127.0.0.1:1", source="ward.visits"))
    with pytest.raises(
        MissingExtra, match=r"pyspark\[connect\] is not installed; run: pip install 'discreet\[spark\]'"
    ):
        SparkEngine(policy.catalog, policy.sources, address=str(policy.address))


CONNECT = """
import sys
from pyspark.sql import SparkSession
port = sys.argv[1]
settings = {"spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin", "spark.connect.grpc.binding.port": port,
            "spark.connect.grpc.binding.address": "127.0.0.1", "spark.ui.enabled": "false", "spark.sql.session.timeZone": "Asia/Tokyo"}
session = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
print("ready", flush=True)
sys.stdin.readline()
session.stop()
"""
CALLER = """
import sys
import discreet
with discreet.open(sys.argv[1]) as data:
    print("n =", data.ask("SELECT COUNT(*) AS n FROM visits", epsilon=5).table.column("n")[0].as_py())
"""


@pytest.mark.slow
def test_an_address_of_spark_connect(spark, tmp_path):
    """A server of its own, since a process speaks to Spark in one way only, and so a caller of its own."""
    if missing := [name for name in ("grpc_status", "google.rpc", "zstandard") if find_spec(name) is None]:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(
            f"NO SPARK CONNECT: {missing}; install 'pyspark[connect]'"
        )
    pq.write_table(ROWS, tmp_path / "visits.parquet")
    (tmp_path / "caller.py").write_text(CALLER)
    caller = [sys.executable, str(tmp_path / "caller.py"), str(tmp_path / "clinic.toml")]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    (tmp_path / "clinic.toml").write_text(
        POLICY.format(address=f"sc://127.0.0.1:{port}", source="parquet:visits.parquet")
    )
    command = [sys.executable, "-c", CONNECT, port]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"
        said = subprocess.check_output(caller, text=True)
        server.communicate("end\n")
    assert abs(int(said.partition("n = ")[2]) - 500) < 20
    away = subprocess.run(caller, capture_output=True, text=True, check=False, timeout=240)  # Spark alone waits longer
    assert f"Spark at sc://127.0.0.1:{port} does not answer" in away.stderr  # soon, and the process ends
