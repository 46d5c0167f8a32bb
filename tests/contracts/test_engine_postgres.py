"""PostgreSQL as an engine: settings of the server, bad input, and what an owner and an analyst are told."""

import logging
from pathlib import Path
from typing import Any

import psycopg
import pytest

import discreet
from discreet.curator.engines.postgres import PostgresEngine
from discreet.curator.policy import parse_policy, read_policy
from discreet.errors import EngineUnavailable, InvalidData, InvalidParameter, InvalidQuery, ReleaseFailed

POLICY = """
[dataset]
name = "clinic"
neighbors = "add or remove one"
engine = "postgres"
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
note = {{type = "text"}}
cost = {{type = "real", lower = 0, upper = 100, granularity = "0.01"}}
day = {{type = "date"}}
"""
COUNT = "SELECT COUNT(*) AS n FROM visits"


@pytest.fixture
def database(postgres: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A schema of its own with a table and a view."""
    monkeypatch.setenv("PGPASSWORD", "ge%h@im")
    with psycopg.connect(postgres.address("postgres"), autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS ward CASCADE")
        connection.execute("CREATE SCHEMA ward")
        connection.execute("CREATE TABLE ward.visits (patient bigint, note text, cost numeric, day date)")
        connection.execute(
            "INSERT INTO ward.visits SELECT i, 'n' || i % 3, i, DATE '2024-01-01' FROM generate_series(1, 500) i"
        )
        connection.execute("CREATE VIEW ward.seen AS SELECT * FROM ward.visits")
        yield postgres, connection


def policy_file(folder: Path, postgres: Any, source: str = "ward.visits", user: str = "owner") -> Path:
    path = folder / "clinic.toml"
    path.write_text(POLICY.format(address=postgres.plain("postgres", user), source=source))
    return path


def test_a_question_is_asked_where_the_rows_are(database, tmp_path):
    postgres, connection = database
    with discreet.open(policy_file(tmp_path, postgres)) as data:
        first = data.ask(COUNT, epsilon=5)
        assert abs(first.table.column("n")[0].as_py() - 500) < 20
        connection.execute("DELETE FROM ward.visits")
        again = data.ask(COUNT, epsilon=5)  # no other version of the data was stated
        assert again.table.equals(first.table)
        assert len(data.ledger.charges("clinic")) == 1


@pytest.mark.parametrize("extra", [":hush@h/d", "@h/d?password=hush", "@h/d?sslpassword=hush"])
def test_a_policy_that_holds_a_password_is_refused_without_repeating_it(extra):
    text = POLICY.format(address=f"postgresql://ann{extra}", source="ward.visits")
    with pytest.raises(InvalidParameter, match="without a password") as caught:
        parse_policy(text)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    "setting",
    ["TimeZone=Asia/Tokyo", "DateStyle=German", "extra_float_digits=-15", "standard_conforming_strings=off",
     "search_path=ward", "transform_null_equals=on", "default_transaction_isolation=serializable"],
)  # fmt: skip
def test_settings_of_the_role_change_nothing(database, tmp_path, setting):
    from discreet.sql.plan.planner import Terms, plan

    postgres, connection = database
    policy = parse_policy(POLICY.format(address=postgres.plain("postgres"), source="ward.visits"))
    sql = "SELECT note, day, SUM(cost) AS s, COUNT(*) AS n FROM visits WHERE note <> 'a\\b' GROUP BY note, day"
    (release,) = plan([sql], policy.catalog, Terms(epsilon=1, delta="1e-7")).releases

    def exact() -> list[Any]:
        engine = PostgresEngine(policy.catalog, policy.sources, address=policy.address)
        from discreet.curator.engines.dialects import POSTGRES

        return sorted(map(repr, engine.fetch(release.statements(POSTGRES)[0], salt="ab").to_pylist()))

    before = exact()
    name, _, value = setting.partition("=")
    connection.execute(f"ALTER ROLE owner SET {name} = '{value}'")
    try:
        assert exact() == before
    finally:
        connection.execute(f"ALTER ROLE owner RESET {name}")
    assert len(before) == 3


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
    assert "PostgreSQL" not in str(caught.value)
    return caplog.text


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("DROP TABLE ward.visits CASCADE", "a table of the database that this role can see"),
        ("ALTER TABLE ward.visits ALTER cost TYPE float8", "another shape"),
        ("ALTER TABLE ward.visits DROP COLUMN note CASCADE", "no such column"),
    ],
)
def test_a_table_that_is_gone_or_has_another_shape(database, tmp_path, caplog, change, words):
    postgres, connection = database
    with discreet.open(policy_file(tmp_path, postgres)) as data:
        connection.execute("DROP VIEW ward.seen")
        connection.execute("ALTER TABLE ward.visits RENAME TO older")
        connection.execute("CREATE TABLE ward.visits AS SELECT * FROM ward.older")
        connection.execute(change)
        assert words in failing(data, caplog)
        assert words in failing(data, caplog)  # asked again, failed again: the same charge
        connection.execute("DROP TABLE IF EXISTS ward.visits")
        connection.execute("ALTER TABLE ward.older RENAME TO visits")
        answer = data.ask(COUNT, epsilon=1)
        assert answer.receipt.charge == data.ledger.charges("clinic")[0].number
        assert len(data.ledger.charges("clinic")) == 1


def test_a_view_needs_the_owners_word_and_keeps_its_shape(database, tmp_path, caplog):
    postgres, connection = database
    with pytest.raises(InvalidParameter, match=r"a view.*promise it: view:ward\.seen"):
        discreet.open(policy_file(tmp_path, postgres, "ward.seen"))
    with discreet.open(policy_file(tmp_path, postgres, "view:ward.seen")) as data:
        connection.execute("DROP VIEW ward.seen")
        connection.execute("CREATE VIEW ward.seen AS SELECT patient, note, cost::float8 AS cost, day FROM ward.visits")
        assert "another shape" in failing(data, caplog)


def test_a_role_that_may_not_read(database, tmp_path, caplog, monkeypatch):
    postgres, connection = database
    connection.execute("DROP ROLE IF EXISTS guest")
    connection.execute("CREATE ROLE guest LOGIN PASSWORD 'hush'")
    monkeypatch.setenv("PGPASSWORD", "hush")
    path = policy_file(tmp_path, postgres, user="guest")
    try:
        with pytest.raises(InvalidData, match=r"permission denied for schema ward.*GRANT SELECT"):
            discreet.open(path)
        connection.execute("GRANT USAGE ON SCHEMA ward TO guest")
        connection.execute("GRANT SELECT (patient, note, day) ON ward.visits TO guest")
        with pytest.raises(InvalidParameter, match=r"column 'cost' this role may not read.*GRANT SELECT"):
            discreet.open(path)
        connection.execute("GRANT SELECT (cost) ON ward.visits TO guest")
        with discreet.open(path) as data:
            connection.execute("REVOKE ALL ON ward.visits FROM guest")
            assert "GRANT SELECT" in failing(data, caplog)
            connection.execute("GRANT SELECT ON ward.visits TO guest")
            data.ask(COUNT, epsilon=1)
            assert len(data.ledger.charges("clinic")) == 1
    finally:
        connection.execute("DROP OWNED BY guest")
        connection.execute("DROP ROLE guest")


def test_a_table_whose_rows_policies_choose_needs_the_owners_word(database, tmp_path, monkeypatch):
    """A policy of row security is an expression over rows: it may fail on one, as a view may."""
    postgres, connection = database
    connection.execute("DROP ROLE IF EXISTS guest")
    connection.execute("CREATE ROLE guest LOGIN PASSWORD 'hush'")
    monkeypatch.setenv("PGPASSWORD", "hush")
    try:
        connection.execute("GRANT USAGE ON SCHEMA ward TO guest")
        connection.execute("GRANT SELECT ON ward.visits TO guest")
        connection.execute("ALTER TABLE ward.visits ENABLE ROW LEVEL SECURITY")
        connection.execute("CREATE POLICY mine ON ward.visits USING (1 / (patient - 7) IS NOT NULL)")
        with pytest.raises(InvalidParameter, match=r"whose rows policies choose.*promise it: view:ward\.visits"):
            discreet.open(policy_file(tmp_path, postgres, user="guest"))
        with discreet.open(policy_file(tmp_path, postgres, "view:ward.visits", user="guest")):
            pass
    finally:
        connection.execute("DROP OWNED BY guest")
        connection.execute("DROP ROLE guest")


def test_a_table_with_a_part_in_another_database_needs_the_owners_word(database, tmp_path):
    """A foreign table may stand for a view there, or for a file that is parsed as it is read."""
    postgres, connection = database
    for command in (
        "CREATE EXTENSION IF NOT EXISTS file_fdw",
        "DROP SERVER IF EXISTS files CASCADE",
        "CREATE SERVER files FOREIGN DATA WRAPPER file_fdw",
        "CREATE TABLE ward.years (LIKE ward.visits) PARTITION BY LIST (patient)",
        "CREATE TABLE ward.old PARTITION OF ward.years FOR VALUES IN (1)",
    ):
        connection.execute(command)
    with discreet.open(policy_file(tmp_path, postgres, "ward.years")) as data:
        connection.execute(
            "CREATE FOREIGN TABLE ward.new PARTITION OF ward.years FOR VALUES IN (2) "
            "SERVER files OPTIONS (filename '/dev/null')"
        )
        with pytest.raises(ReleaseFailed):
            data.ask(COUNT, epsilon=1)
    with pytest.raises(InvalidParameter, match=r"a foreign table among its parts.*promise it: view:ward\.years"):
        discreet.open(policy_file(tmp_path, postgres, "ward.years"))
    with discreet.open(policy_file(tmp_path, postgres, "view:ward.years")):
        pass


def test_a_type_of_the_owners_own_is_not_taken_for_one_of_postgresql(database, tmp_path):
    """Whoever defines a type says how it is cast, which may fail on a value."""
    postgres, connection = database
    connection.execute("DROP TABLE ward.visits CASCADE")
    connection.execute("CREATE TYPE ward.text AS (inside pg_catalog.text)")
    connection.execute("CREATE TABLE ward.visits (patient bigint, note ward.text, cost numeric, day date)")
    with pytest.raises(InvalidParameter, match=r"column 'note'.*a source of type ward\.text"):
        discreet.open(policy_file(tmp_path, postgres))


def test_a_server_that_vanishes_without_a_word_is_noticed(database, tmp_path):
    postgres, _ = database
    with discreet.open(policy_file(tmp_path, postgres)) as data, data._curator.engine.one_state():
        options = data._curator.engine._open.connection.info.get_parameters()
    assert {name: options[name] for name in options if name.startswith("keepalives_")} == {
        "keepalives_idle": "30",
        "keepalives_interval": "10",
        "keepalives_count": "3",
    }


def test_a_wrong_password_and_no_server(database, tmp_path, monkeypatch):
    postgres, _ = database
    monkeypatch.setenv("PGPASSWORD", "wrong-secret")
    with pytest.raises(EngineUnavailable, match="password authentication failed") as caught:
        discreet.open(policy_file(tmp_path, postgres))
    assert "wrong-secret" not in str(caught.value)
    policy = parse_policy(POLICY.format(address="postgresql://ann@localhost:1/x", source="ward.visits"))
    with pytest.raises(EngineUnavailable, match="does not answer"):
        PostgresEngine(policy.catalog, policy.sources, address=policy.address)


def test_a_connection_lost_in_a_query_keeps_the_charge_and_asking_again_is_not_charged(
    database, tmp_path, caplog, monkeypatch
):
    from discreet.curator.engines import postgres as module

    postgres, connection = database
    arrow = module._arrow

    def cut(own: Any, *given: Any) -> Any:
        connection.execute("SELECT pg_terminate_backend(%s)", [own.info.backend_pid])
        return arrow(own, *given)

    with discreet.open(policy_file(tmp_path, postgres)) as data:
        monkeypatch.setattr(module, "_arrow", cut)
        assert "does not answer" in failing(data, caplog)
        monkeypatch.undo()
        monkeypatch.setenv("PGPASSWORD", "ge%h@im")
        assert len(data.ledger.charges("clinic")) == 1
        answer = data.ask(COUNT, epsilon=1)
        assert abs(answer.table.column("n")[0].as_py() - 500) < 60
        assert answer.receipt.charge == data.ledger.charges("clinic")[0].number
        assert len(data.ledger.charges("clinic")) == 1
        data.ask("SELECT COUNT(*) AS m FROM visits WHERE cost > 3", epsilon=1)
        assert len(data.ledger.charges("clinic")) == 2


def test_what_is_not_computed_alike_is_refused_before_a_charge(database, tmp_path):
    postgres, _ = database
    with discreet.open(policy_file(tmp_path, postgres)) as data:
        with pytest.raises(InvalidQuery, match="CAST of text to DATE is not computed alike in PostgreSQL"):
            data.ask("SELECT COUNT(CAST(note AS DATE)) AS n FROM visits", epsilon=1)
        assert data.ledger.charges("clinic") == []


def test_people_named_by_real_numbers_are_refused_before_a_charge(database, tmp_path):
    postgres, connection = database
    connection.execute("DROP VIEW ward.seen")
    connection.execute("ALTER TABLE ward.visits ALTER patient TYPE float8")
    path = policy_file(tmp_path, postgres)
    path.write_text(path.read_text().replace('patient = {type = "integer"}', 'patient = {type = "real"}'))
    with discreet.open(path) as data:
        with pytest.raises(InvalidQuery, match="a draw among real numbers is not computed alike in PostgreSQL"):
            data.synthesize("visits", epsilon=1, columns=["cost"], bins={"cost": 5})
        assert data.ledger.charges("clinic") == []


def test_a_policy_is_compared_with_the_servers_tables(database, tmp_path):
    """By `discreet check`, which reads no row; rows of a server are not viewed."""
    from discreet.curator.owner.exact_view import check_schema, exact_view

    postgres, connection = database
    connection.execute("DROP VIEW ward.seen")
    path = policy_file(tmp_path, postgres)
    assert all(finding.level != "error" for finding in check_schema(read_policy(path)))
    connection.execute("ALTER TABLE ward.visits ALTER day TYPE timestamp, ALTER cost TYPE text")
    problems = [(finding.level, finding.column) for finding in check_schema(read_policy(path))]
    assert problems == [("error", "cost"), ("error", "day")]
    connection.execute("DROP SCHEMA ward CASCADE")
    (finding,) = check_schema(read_policy(path))
    assert "a table of the database that this role can see" in finding.problem
    with pytest.raises(InvalidParameter, match="the owner of a server looks at its rows there"):
        exact_view(read_policy(path))


def test_a_closed_engine_and_tables_of_python(database):
    postgres, _ = database
    policy = parse_policy(POLICY.format(address=postgres.plain("postgres"), source="ward.visits"))
    engine = PostgresEngine(policy.catalog, policy.sources, address=policy.address)
    assert engine.version == PostgresEngine(policy.catalog, policy.sources, address=policy.address).version
    assert engine.version != PostgresEngine(policy.catalog, policy.sources, address=policy.address, stated="2").version
    engine.close()
    with pytest.raises(InvalidData, match="closed"):
        engine.fetch("SELECT 1 AS one")
    with pytest.raises(InvalidParameter, match="source"):
        PostgresEngine(policy.catalog, {"visits": object()}, address=policy.address)


@pytest.mark.parametrize(
    ("state", "away"),
    [
        (None, True),
        ("08006", True),
        ("28P01", True),
        ("57P01", True),
        ("53100", False),
        ("53200", False),
        ("57014", False),
        ("XX000", False),
    ],
)
def test_only_a_server_that_is_away_lets_a_charge_be_used_again(state, away):
    """A full disk or memory, a timeout or a defect may be the work of rows: what was charged for it stays spent."""
    from discreet.curator.engines.postgres import _is_away

    error = type("Said", (Exception,), {"sqlstate": state})()
    assert _is_away(error) is away
