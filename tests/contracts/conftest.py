"""A PostgreSQL server for the tests: its own folder, its own socket, no network, gone afterwards; few sweeps of rows."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from discreet.synthetic.fit import row_sampling

PASSWORD = "ge%h@im"


def program(name: str) -> str | None:
    places = [os.environ.get("PATH", ""), *map(str, sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True))]
    return shutil.which(name, path=os.pathsep.join(places))


def unprivileged() -> tuple[list[str], str | None]:
    """How to run the server, which refuses to be root: the words before the command, and whose its folder is."""
    if os.geteuid() != 0:
        return [], None
    for user in ("postgres", "nobody"):
        if subprocess.run(["id", user], capture_output=True, check=False).returncode == 0:
            return ["runuser", "-u", user, "--"], user
    return ["false"], None


class Server:
    """A running server; `address` names one of its databases."""

    def __init__(self, folder: Path) -> None:
        self.folder, (self.words, user) = folder, unprivileged()
        (folder / "password").write_text(PASSWORD)
        if user:
            for path in (folder, folder / "password"):
                shutil.chown(path, user)
        self.run("initdb", "-D", "data", "-U", "owner", "-A", "scram-sha-256", "--pwfile=password", "-E", "UTF8", "-N")
        self.start()

    def run(self, name: str, *arguments: str) -> None:
        done = subprocess.run(
            [*self.words, program(name) or name, *arguments],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{name}: {done.stdout}"

    def start(self) -> None:
        options = f"-c listen_addresses='' -c unix_socket_directories='{self.folder}' -c fsync=off"
        self.run("pg_ctl", "-D", "data", "-l", "log", "-w", "-o", options, "start")

    def stop(self, mode: str = "immediate") -> None:
        self.run("pg_ctl", "-D", "data", "-w", "-m", mode, "stop")

    def address(self, database: str, user: str = "owner", password: str = PASSWORD) -> str:
        return f"postgresql://{user}:{quote(password)}@/{database}?host={quote(str(self.folder), safe='')}"

    def plain(self, database: str, user: str = "owner") -> str:
        """The address without a password."""
        return f"postgresql://{user}@/{database}?host={quote(str(self.folder), safe='')}"

    def without_ledger(self) -> None:
        """Let the database have no ledger."""
        import psycopg

        with psycopg.connect(self.address("postgres"), autocommit=True) as connection:
            connection.execute("DROP SCHEMA IF EXISTS discreet_ledger CASCADE")

    def emptied(self) -> str:
        """The address of a database without a collection."""
        import psycopg

        with psycopg.connect(self.address("postgres"), autocommit=True) as connection:
            connection.execute("DROP SCHEMA IF EXISTS discreet_collection CASCADE")
        return self.address("postgres")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What needs Spark or PostgreSQL comes first, so that of several workers one starts them: work is stolen from the end."""
    order, here = ("spark", "postgres"), Path(__file__).parent

    def place(item: pytest.Item) -> int:
        needed = (*getattr(item, "fixturenames", ()), item.name) if item.path.is_relative_to(here) else ()
        return next((at for at, name in enumerate(order) if any(name in text for text in needed)), len(order))

    items.sort(key=place)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    if program("initdb") is None or program("pg_ctl") is None:
        reason = "NO POSTGRESQL: its store of reports is not tested; install it (`make postgres`)"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    with tempfile.TemporaryDirectory(prefix="pg") as folder:
        server = Server(Path(folder))
        try:
            yield server
        finally:
            server.stop()


@pytest.fixture(autouse=True)
def _few_sweeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sweeps bring drawn rows nearer to the fit: contracts ask what rows depend on, not how near they are."""
    swept = row_sampling._Exchange.swept
    few = lambda self, sweeps, *others, **named: swept(self, min(sweeps, 8), *others, **named)  # noqa: E731
    monkeypatch.setattr(row_sampling._Exchange, "swept", few)


OTHERS = {
    "spark.sql.session.timeZone": "Asia/Tokyo", "spark.sql.ansi.enabled": "true", "spark.sql.caseSensitive": "false",
    "spark.sql.timestampType": "TIMESTAMP_NTZ", "spark.sql.parser.escapedStringLiterals": "true",
    "spark.sql.ansi.doubleQuotedIdentifiers": "true", "spark.sql.legacy.timeParserPolicy": "LEGACY",
    "spark.sql.parser.quotedRegexColumnNames": "true", "spark.sql.files.ignoreCorruptFiles": "true",
    "spark.sql.files.ignoreMissingFiles": "true", "spark.sql.readSideCharPadding": "false",
    "spark.sql.parquet.aggregatePushdown": "true", "spark.sql.execution.arrow.useLargeVarTypes": "true",
    "spark.sql.legacy.ctePrecedencePolicy": "LEGACY", "spark.sql.legacy.integralDivide.returnBigint": "false",
    "spark.sql.legacy.exponentLiteralAsDecimal.enabled": "true",
}  # fmt: skip
"""Settings of the Spark application, which others made: results must not depend on them."""
QUICK = {
    "spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "1", "spark.ui.enabled": "false",
}  # fmt: skip
"""For a few hundred rows, compiling each statement takes longer than reading them."""


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the one Spark application of these tests, whose settings are not ours."""
    if shutil.which("java") is None:
        reason = "NO JAVA: the Spark engine is not tested; install a JRE (`make java`)"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    from pyspark.sql import SparkSession

    os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    warehouse = str(tmp_path_factory.mktemp("warehouse"))
    settings = OTHERS | QUICK | {"spark.sql.warehouse.dir": warehouse}
    session = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
    yield "local[1]"
    session.stop()
