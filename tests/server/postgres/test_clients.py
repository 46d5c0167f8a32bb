"""Real clients connect, list, describe, ask, bind parameters, cancel, and see intervals."""

import asyncio
import json
import os
import random
import shutil
import signal
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests import serving

from discreet.curator.settings import Allowance
from discreet.errors import BudgetExceeded, InvalidParameter, InvalidQuery, ServerUnavailable
from discreet.privacy.budget import Budget
from discreet.server.postgres import statements as st
from discreet.server.postgres.answers import Stop
from discreet.server.postgres.listener import Listener
from discreet.server.service import Service
from discreet.server.session import Session, open_places

psycopg = pytest.importorskip("psycopg")

BY_REGION = "SELECT region, COUNT(*) AS n, AVG(cost) AS mean FROM visits GROUP BY region"
WITH_ENDS = ["region", "n", "n low", "n high", "mean", "mean low", "mean high"]
"""The columns of `BY_REGION` where intervals are wanted."""
HELD = "SELECT COUNT(*) FROM visits WHERE age = 115"
"""A question that is not answered while `held`."""
TABLES = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"
COLUMNS = "SELECT column_name FROM information_schema.columns WHERE table_name = 'visits' ORDER BY ordinal_position"
NAMES = ["patient_id", "age", "day", "cost", "region"]
CLIENTS = Path(__file__).parents[3] / ".clients"


def in_a_loop(talk):
    """What a coroutine gives, in a thread: a browser of other tests may have a loop in this one."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(lambda: asyncio.run(talk())).result()


def connect(door, **more):
    return psycopg.connect(**(door.target | {"dbname": "clinic", "autocommit": True} | more))


@contextmanager
def held(monkeypatch):
    """Nobody is answered `HELD`, and nothing is charged for it; the event is set when somebody waits for it."""
    started, go, answers = threading.Event(), threading.Event(), Session.answers

    def slow(self, question, **named):
        if "115" in question.sql:
            started.set()
            go.wait(60)
            raise ServerUnavailable("held")
        return answers(self, question, **named)

    with monkeypatch.context() as patch:
        patch.setattr(Session, "answers", slow)
        try:
            yield started
            assert started.is_set()
        finally:
            go.set()


def engine(door, driver="psycopg"):
    sa = pytest.importorskip("sqlalchemy")
    url = sa.URL.create(f"postgresql+{driver}", "ann", door.tokens["ann"], "127.0.0.1", door.port, "clinic")
    return sa.create_engine(url, connect_args={"options": "-c discreet.epsilon=1"} if driver == "psycopg" else {})


def psql(door, *commands, check=True, stop=None):
    """What psql says to commands; when an event is set, it is told to stop (Ctrl-C)."""
    if shutil.which("psql") is None:
        pytest.skip("no psql: apt install postgresql-client")
    environment = os.environ | {"PGPASSWORD": door.tokens["ann"], "PGCONNECT_TIMEOUT": "20", "LC_ALL": "C.UTF-8"}
    texts = [part for command in commands for part in ("-c", command)]
    whole = ["psql", "-h", "127.0.0.1", "-p", str(door.port), "-U", "ann", "-X", "-w", "clinic", *texts]
    with subprocess.Popen(whole, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        if stop is not None and stop.wait(60):
            process.send_signal(signal.SIGINT)
        out, said = process.communicate(timeout=120)
    assert not check or process.returncode == 0, said
    return subprocess.CompletedProcess(whole, process.returncode, out, said)


# psql


def test_psql_lists_and_describes_tables_databases_and_roles(door):
    shown = psql(door, r"\dt", r"\d visits", r"\d+ visits", r"\l", r"\du", r"\dn", r"\df", r"\dv", r"\di", r"\conninfo")
    assert "public | visits | table" in shown.stdout
    assert "double precision" in shown.stdout
    assert "real from 0 to 10.5 in steps of 0.25" in shown.stdout
    assert "one of 2 declared values (north, south)" in shown.stdout
    assert "clinic" in shown.stdout
    assert "ann" in shown.stdout
    assert "ERROR" not in shown.stderr
    rare = psql(door, r"\dd", r"\dL+", r"\dC+", r"\dD+", r"\dAf", r"\dAo", r"\dAp", check=False)
    assert not rare.stderr


def test_psql_asks_with_terms_and_is_told_the_cost_and_what_is_left(door):
    run = psql(door, "SET discreet.epsilon = 0.5", BY_REGION, "SHOW discreet.budget")
    assert "north" in run.stdout
    assert "NOTICE:  ε 0.5 charged as #" in run.stderr
    assert "left" in run.stderr
    assert "a person counts in at most 2 groups" in run.stderr
    assert "remaining" in run.stdout
    again = psql(door, "SET discreet.epsilon = 0.5", BY_REGION)
    assert "free: cached from charge" in again.stderr
    assert "left" in again.stderr
    assert run.stdout.split("(3 rows)")[0] == again.stdout.split("(3 rows)")[0]


def test_psql_sees_intervals_and_the_lists_that_it_completes_names_with(door):
    asked = psql(
        door, "SET discreet.epsilon = 1", "SET discreet.intervals = on", BY_REGION, r"\dL", r"\dc", r"\dFp", r"\dRs"
    )
    assert "n low" in asked.stdout
    assert "mean high" in asked.stdout
    assert "ERROR" not in asked.stderr


def test_psql_sees_state_place_and_hint_of_a_refusal(door):
    run = psql(door, r"\set VERBOSITY verbose", "SET discreet.epsilon = 1", "SELECT AVG(nope) FROM visits", check=False)
    assert "42703" in run.stderr
    assert "^" in run.stderr
    assert "HINT:  there are:" in run.stderr


def test_without_an_epsilon_the_refusal_says_what_to_type(door):
    run = psql(door, "SELECT COUNT(*) FROM visits", check=False)
    assert "ERROR" in run.stderr
    assert "epsilon" in run.stderr


def test_explain_costs_nothing_and_says_the_price(door):
    before = door.charges()
    run = psql(door, "SET discreet.epsilon = 0.25", f"EXPLAIN {BY_REGION}", f"EXPLAIN (FORMAT JSON) {BY_REGION}")
    assert "costs ε 0.25" in run.stdout
    assert '"epsilon": 0.25' in run.stdout
    assert door.charges() == before


def test_psql_copies_in_text_csv_and_binary(door):
    question = "SELECT region, COUNT(*) AS n FROM visits GROUP BY region"
    csv = psql(door, "SET discreet.epsilon = 1", f"COPY ({question}) TO STDOUT WITH (FORMAT csv, HEADER true)").stdout
    text = psql(door, "SET discreet.epsilon = 1", f"COPY ({question}) TO STDOUT").stdout
    assert "region,n\nnorth," in csv
    assert "\nnorth\t" in text
    assert "\n\\N\t" in text
    assert "COPY (SELECT …)" in psql(door, "COPY visits TO STDOUT", check=False).stderr


def test_psql_cancels_a_question(door, monkeypatch):
    with held(monkeypatch) as started:
        run = psql(door, "SET discreet.epsilon = 1", HELD, check=False, stop=started)
    assert "canceled as the client asked" in run.stderr


def test_copy_forces_quotes_and_refuses_an_encoding_that_it_does_not_write(door):
    sql = "COPY (SELECT 'x' AS a, NULL AS b, 'y' AS c) TO STDOUT "
    with connect(door) as client:

        def copied(options):
            with client.cursor().copy(sql + options) as copy:
                return b"".join(map(bytes, copy))

        assert copied("(FORMAT csv, FORCE_QUOTE *)") == b'"x",,"y"\n'
        assert copied("(FORMAT csv, FORCE_QUOTE (c, b), HEADER, ENCODING 'UTF8')") == b'a,b,c\nx,,"y"\n'
        assert copied("WITH CSV HEADER FORCE QUOTE a") == b'a,b,c\n"x",,y\n'
        with pytest.raises(psycopg.Error, match="COPY with encoding"):
            copied("(FORMAT csv, ENCODING 'LATIN1')")


@pytest.mark.parametrize(
    "stated",
    [
        "discreet.error = 'five'",
        "discreet.error = '120%'",
        "discreet.confidence = 2",
        "discreet.delta = 1",
        "datestyle = 'German'",
        "intervalstyle = 'iso_8601'",
    ],
)
def test_a_setting_that_would_not_be_kept_is_refused_at_once(door, stated):
    with connect(door) as client:
        with pytest.raises(psycopg.errors.InvalidParameterValue):
            client.execute(f"SET {stated}")
        client.execute("SET datestyle = 'ISO, DMY'")
        assert client.execute("SHOW datestyle").fetchone() == ("ISO, MDY",)


@pytest.mark.parametrize("sql", ["PREPARE a AS SELECT COUNT(*) FROM visits", "EXECUTE a"])
def test_prepare_as_sql_is_refused_with_what_to_do_instead(door, sql):
    with connect(door) as client, pytest.raises(psycopg.Error, match="prepare by the protocol, as drivers do"):
        client.execute(sql)


@pytest.mark.parametrize("word", ["CLOSE", "DEALLOCATE", "RESET", "DISCARD", "SHOW", "FETCH", "EXPLAIN"])
def test_a_statement_that_says_nothing_of_what_is_not_sql(word):
    with pytest.raises(InvalidQuery, match=f"not SQL: {word} alone"):
        st.pieces(f"SELECT 1; {word};")


@pytest.mark.parametrize("sql", ["FETCH {} FROM c", "SELECT ${}"])
def test_a_number_of_thousands_of_digits_is_refused(sql):
    with pytest.raises(InvalidQuery):
        st.pieces(sql.format("9" * 5_000))


def test_whatever_words_a_text_is_made_of_it_is_a_statement_or_is_refused():
    choice = random.Random(7)
    spoken = (
        "SELECT SET LOCAL SHOW RESET ALL DISCARD FETCH CLOSE DECLARE CURSOR FOR FROM COPY ( ) TO STDOUT WITH CSV HEADER "
        "FORCE QUOTE FORCE_QUOTE FORMAT DELIMITER , = * EXPLAIN ANALYZE JSON DEALLOCATE PREPARE ROLLBACK SAVEPOINT "
        "TIME ZONE NAMES DEFAULT 1 $1 'a' \"b\" c ; BEGIN NEXT -"
    )
    words = spoken.split()
    for _ in range(2_000):
        try:
            st.pieces(" ".join(choice.choices(words, k=choice.randrange(1, 9))))
        except (InvalidQuery, InvalidParameter) as error:
            assert str(error)


def test_options_of_a_connection_may_hold_blanks(door):
    with connect(door, options=r"-c application_name=my\ tool --discreet.epsilon=1") as client:
        assert client.execute("SHOW application_name").fetchone() == ("my tool",)
        assert client.execute("SHOW discreet.epsilon").fetchone() == ("1",)


@pytest.mark.parametrize("words", ["RESET ALL", "DISCARD ALL", "RESET discreet.readonly_budget"])
def test_a_pool_that_resets_a_connection_goes_back_to_what_it_was_opened_with(door, words):
    with connect(door, options="-c discreet.epsilon=1 -c discreet.readonly_budget=on") as client:
        client.execute("SET discreet.readonly_budget = off")
        client.execute(words)
        assert client.execute("SHOW discreet.epsilon").fetchone() == ("1",)
        with pytest.raises(psycopg.errors.ConfigurationLimitExceeded):
            client.execute("SELECT COUNT(*) FROM visits WHERE age = 76")


# psycopg


def test_psycopg_text_and_binary_are_the_same_values(door):
    with connect(door, options="-c discreet.epsilon=1") as client:
        question = BY_REGION
        text = client.execute(question + " HAVING COUNT(*) > %s", (-(10**6),)).fetchall()
        binary = client.cursor(binary=True).execute(question + " HAVING COUNT(*) > %s", (-(10**6),)).fetchall()
        assert text == binary
        assert len(text) == 3


def test_psycopg_cursors_copies_and_transactions(door):
    with connect(door, autocommit=False, options="-c discreet.epsilon=1") as client:
        with client.cursor(name="few") as cursor:
            cursor.itersize = 1
            cursor.execute(BY_REGION)
            rows = cursor.fetchall()
        with client.cursor().copy(f"COPY ({BY_REGION}) TO STDOUT (FORMAT binary)") as copy:
            copy.set_types(["text", "int8", "float8"])
            assert list(copy.rows()) == rows
        client.rollback()
        assert client.execute("SELECT 1").fetchone() == (1,)


def test_parameters_are_values_whatever_they_hold(door):
    with connect(door, options="-c discreet.epsilon=1") as client:
        hostile = "x' OR 'a' = 'a'; DROP TABLE visits; --"
        rows = client.execute("SELECT COUNT(*) FROM visits WHERE region = %s", (hostile,)).fetchall()
        assert abs(rows[0][0]) < 200
        assert client.execute("SELECT %s::text AS x", (hostile,)).fetchone() == (hostile,)


def test_describe_and_prepare_never_run_and_a_question_is_charged_once(door):
    asyncpg = pytest.importorskip("asyncpg")
    before = door.charges()

    async def talk():
        client = await asyncpg.connect(
            **door.target, database="clinic", statement_cache_size=0, server_settings={"discreet.epsilon": "0.125"}
        )
        made = []
        for _ in range(2):
            made.append(await client.prepare("SELECT region, COUNT(*) AS n FROM visits WHERE age < $1 GROUP BY region"))
            assert [(column.name, column.type.name) for column in made[-1].get_attributes()] == [
                ("region", "text"), ("n", "int8"),
            ]  # fmt: skip
            assert [kind.name for kind in made[-1].get_parameters()] == ["int8"]
        assert door.charges() == before
        rows = [await each.fetch(40) for each in (*made, made[0])]
        await client.close()
        return rows

    rows = in_a_loop(talk)
    assert rows[0] == rows[1] == rows[2]
    assert len(rows[0]) == 3
    assert door.charges() == before + 1


def test_intervals_are_columns_when_they_are_wanted(door):
    with connect(door, options="-c discreet.epsilon=1") as client:
        client.execute("SET discreet.intervals = on")
        cursor = client.execute(BY_REGION)
        assert [column.name for column in cursor.description] == [
            "region", "n", "n low", "n high", "mean", "mean low", "mean high",
        ]  # fmt: skip
        row = cursor.fetchone()
        assert row[2] <= row[1] <= row[3]
        low = client.execute("SELECT DP_INTERVAL_LOW(COUNT(*)) AS low FROM visits")
        assert low.fetchone()[0] > 0


def test_only_what_is_free_where_the_budget_is_read_only(door):
    with connect(door, options="-c discreet.epsilon=1 -c discreet.readonly_budget=on") as client:
        before = door.charges()
        with pytest.raises(psycopg.errors.ConfigurationLimitExceeded):
            client.execute("SELECT COUNT(*) FROM visits WHERE age = 77")
        assert door.charges() == before
        client.execute("SET discreet.readonly_budget = off")
        client.execute("SELECT COUNT(*) FROM visits WHERE age = 77")
        client.execute("SET discreet.readonly_budget = on")
        assert client.execute("SELECT COUNT(*) FROM visits WHERE age = 77").fetchone()
        assert door.charges() == before + 1


def test_a_schema_before_names_is_ours_and_refusals_still_point_right(door):
    with connect(door, options="-c discreet.epsilon=1") as client:
        rows = client.execute(
            'SELECT "public"."visits"."region" AS r, count(*) FROM "public"."visits" GROUP BY "public"."visits"."region"'
        ).fetchall()
        assert {row[0] for row in rows} == {"north", "south", None}
        with pytest.raises(psycopg.errors.UndefinedColumn) as refusal:
            client.execute("SELECT 1; SELECT AVG(nope) FROM public.visits")
        assert refusal.value.diag.statement_position == "22"


def test_other_analysts_budgets_and_roles_hold(door):
    with psycopg.connect(
        host="127.0.0.1", port=door.port, user="bob", password=door.tokens["bob"], dbname="clinic", autocommit=True
    ) as client:
        client.execute("SET discreet.epsilon = 5")
        with pytest.raises(psycopg.errors.ConfigurationLimitExceeded):
            client.execute("SELECT COUNT(*) FROM visits WHERE age = 3")
    with psycopg.connect(
        host="127.0.0.1", port=door.port, user="carl", password=door.tokens["carl"], dbname="clinic", autocommit=True
    ) as client:
        client.execute("SET discreet.epsilon = 1")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            client.execute("SELECT COUNT(*) FROM visits")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            client.execute("SHOW discreet.budget")


@pytest.mark.parametrize(
    ("user", "dataset"), [("ann", "school"), ("sue", "clinic"), ("nobody", "clinic"), ("ann", "none")]
)
def test_a_token_opens_its_own_dataset_for_its_own_name(door, user, dataset):
    token = door.tokens.get(user, door.tokens["ann"])
    with pytest.raises(psycopg.OperationalError, match="not a valid token"):
        psycopg.connect(host="127.0.0.1", port=door.port, user=user, password=token, dbname=dataset)
    door.service.throttle.__init__()


def test_the_id_of_a_token_is_a_user_too_and_a_revoked_token_stops_at_once(door):
    text, token = door.place.tokens.create("ann", "analyst")
    with psycopg.connect(
        host="127.0.0.1", port=door.port, user=token.id, password=text, dbname="clinic", autocommit=True
    ) as client:
        assert client.execute("SELECT current_user, current_database()").fetchone() == ("ann", "clinic")
        door.place.tokens.revoke(token.id)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            client.execute("SELECT 1")


def test_a_cancel_ends_the_waiting_and_the_connection_lives_on(door, monkeypatch):
    with held(monkeypatch) as started, connect(door, options="-c discreet.epsilon=1") as client:
        threading.Thread(target=lambda: (started.wait(30), client.cancel_safe(timeout=20)), daemon=True).start()
        with pytest.raises(psycopg.errors.QueryCanceled):
            client.execute(HELD)
        assert client.execute("SELECT 1").fetchone() == (1,)
        assert [row[0] for row in client.execute(TABLES)] == ["visits"]
        assert [row[0] for row in client.execute(COLUMNS)] == NAMES


def test_parameters_side_by_side_and_lists_of_them(door):
    with connect(door, options="-c discreet.epsilon=1") as client:
        raw = client.pgconn.exec_params(
            b"SELECT COUNT(*) FROM visits WHERE age IN ($1,$2)", [b"3", b"4"], param_types=[20, 20]
        )
        assert raw.ntuples == 1, raw.error_message
        among = client.execute("SELECT COUNT(*) FROM visits WHERE age = ANY(%s)", ([3, 4],)).fetchone()
        assert among == (int(raw.get_value(0, 0)),)
        assert client.execute("SELECT COUNT(*) FROM visits WHERE region = ANY(%s)", (["north", "x'y"],)).fetchone()


def test_values_that_cannot_be_meant_are_refused_before_anything_is_charged(door):
    from decimal import Decimal

    before = door.charges()
    with connect(door, options="-c discreet.epsilon=1") as client:
        for value in (Decimal("NaN"), Decimal("1e999999"), b"north"):
            with pytest.raises(psycopg.Error) as refusal:
                client.execute("SELECT COUNT(*) FROM visits WHERE cost < %s", (value,))
            assert refusal.value.sqlstate != "XX000"
    assert door.charges() == before


def test_refusals_point_at_the_text_with_parameters(door):
    with connect(door) as client:
        for sql in (
            "  SELECT   AVG(nope)   FROM visits WHERE age < %s",
            "SELECT COUNT(*) FROM visits WHERE  nope < %s",
        ):
            with pytest.raises(psycopg.errors.UndefinedColumn) as refusal:
                client.execute(sql, (3,))
            assert refusal.value.diag.statement_position == str(sql.index("nope") + 1)


def test_columns_that_changed_since_they_were_described_are_prepared_anew(door):
    asyncpg = pytest.importorskip("asyncpg")
    question = "SELECT region, COUNT(*) AS n, COUNT(*) FILTER (WHERE age > $1) FROM visits GROUP BY region"

    async def talk():
        client = await asyncpg.connect(**door.target, database="clinic", server_settings={"discreet.epsilon": "1"})
        seen = [list((await client.fetch(question, 3))[0].keys())]
        await client.execute("SET discreet.intervals = on")
        before = door.charges()
        seen.append(list((await client.fetch(question, 3))[0].keys()))
        units = await client.fetch("SELECT date_trunc($1, day) AS m, COUNT(*) FROM visits GROUP BY 1", "month")
        lists = await client.fetch("SELECT COUNT(*) FROM visits WHERE age = ANY($1::int[])", [1, 2])
        await client.close()
        return seen, before, len(units), len(lists)

    (first, second), _, units, lists = in_a_loop(talk)
    assert first == ["region", "n", "COUNT(*) FILTER(WHERE age > $1)"]
    assert second[:4] == ["region", "n", "n low", "n high"]
    assert units == 13  # and rows without a day
    assert lists == 1


def test_the_policys_epsilon_is_the_usual_one_and_a_daily_cap_guards_it(tmp_path):
    policy = serving.CLINIC.replace('epsilon = "100000"', 'epsilon = "100000"\ndefault_epsilon = "0.25"', 1)
    service = Service(open_places(serving.write_house(tmp_path, clinic=policy)))
    allowance = Allowance(None, Budget(epsilon="0.5", delta=0))
    service.places["clinic"].tokens.create("ann", "analyst", allowance=allowance)
    answers = Listener(service, port=0)._session_of("ann", "clinic")

    def ask(age):
        (piece,) = st.pieces(f"SELECT COUNT(*) FROM visits WHERE age < {age}")
        return answers.run(piece.statement, [], None, Stop()).notices[0][0]

    first, second = (ask(age) for age in (3, 4))
    assert first.startswith("ε 0.25 charged")
    assert first.endswith("; 0.25 of it for ann")
    assert second.endswith("; 0 of it for ann")
    daily = answers.run(st.Show("discreet.budget"), []).table.to_pylist()[-1]
    assert daily == {"whose": "ann, in 24 hours", "granted": 0.5, "spent": 0.5, "remaining": 0.0, "charges": None}
    with pytest.raises(BudgetExceeded, match="24 hours"):
        ask(5)
    assert ask(3).startswith("free")
    service.close()


def test_set_local_holds_until_the_transaction_ends(door):
    with connect(door) as client:
        client.execute("SET discreet.epsilon = 2")
        client.execute("BEGIN")
        client.execute("SET LOCAL discreet.epsilon = 1")
        assert client.execute("SHOW discreet.epsilon").fetchone() == ("1",)
        client.execute("COMMIT")
        assert client.execute("SHOW discreet.epsilon").fetchone() == ("2",)
        with pytest.raises(psycopg.Error, match="SET discreet.epsilon"):
            client.execute("SELECT set_config('discreet.epsilon', '3', false)")


# Others in Python


def test_asyncpg(door, monkeypatch):
    asyncpg = pytest.importorskip("asyncpg")

    async def talk(started):
        client = await asyncpg.connect(**door.target, database="clinic", server_settings={"discreet.epsilon": "1"})
        rows = await client.fetch(
            "SELECT region, COUNT(*) AS n FROM visits WHERE age < $1 AND day >= $2 AND region = $3 GROUP BY region",
            50, __import__("datetime").date(2020, 1, 1), "north",
        )  # fmt: skip
        async with client.transaction():
            few = [row async for row in client.cursor(BY_REGION, prefetch=1)]
        waiting = asyncio.create_task(client.fetch(HELD))
        await asyncio.to_thread(started.wait, 30)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert [row["table_name"] for row in await client.fetch(TABLES)] == ["visits"]
        assert [row["column_name"] for row in await client.fetch(COLUMNS)] == NAMES
        await client.close()
        return rows, few

    with held(monkeypatch) as started:
        rows, few = in_a_loop(lambda: talk(started))
    assert rows[0]["region"] == "north"
    assert len(few) == 3


def test_pg8000(door):
    native = pytest.importorskip("pg8000.native")
    client = native.Connection("ann", host="127.0.0.1", port=door.port, password=door.tokens["ann"], database="clinic")
    client.run("SET discreet.epsilon = 1")
    rows = client.run("SELECT region, COUNT(*) AS n FROM visits WHERE age < :a GROUP BY region", a=50)
    assert [(column["name"], column["type_oid"]) for column in client.columns] == [("region", 25), ("n", 20)]
    client.run("SET discreet.intervals = on")
    client.run(BY_REGION)
    assert [column["name"] for column in client.columns] == WITH_ENDS
    assert client.run(TABLES) == [["visits"]]
    assert client.run(COLUMNS) == [[name] for name in NAMES]
    client.close()
    assert [row[0] for row in rows] == ["north", "south", None]


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("driver", ["psycopg", "pg8000"])
def test_sqlalchemy_reflects_and_asks(door, driver):
    sa = pytest.importorskip("sqlalchemy")
    made = engine(door, driver)
    look = sa.inspect(made)
    assert look.get_schema_names() == ["information_schema", "public"]
    assert look.get_table_names() == ["visits"]
    assert look.get_pk_constraint("visits")["constrained_columns"] == []
    assert look.get_foreign_keys("visits") == []
    assert "protects one person" in look.get_table_comment("visits")["text"]
    data = sa.MetaData()
    data.reflect(made)
    visits = data.tables["visits"]
    assert [str(column.type) for column in visits.columns] == ["BIGINT", "BIGINT", "DATE", "DOUBLE PRECISION", "TEXT"]
    assert visits.c.age.comment == "integer from 0 to 120"
    with made.connect() as client:
        client.execute(sa.text("SET discreet.epsilon = 1"))
        asked = sa.select(visits.c.region, sa.func.count()).where(visits.c.age < 50).group_by(visits.c.region)
        assert len(client.execute(asked).all()) == 3
        years = sa.select(sa.func.date_trunc("year", visits.c.day).label("y"), sa.func.count())
        assert client.execute(years.where(visits.c.age.in_([1, 2]), visits.c.cost.in_([2.5, 3])).group_by("y")).all()
        middle = sa.select(sa.func.percentile_cont(0.5).within_group(visits.c.cost)).where(visits.c.age < 50)
        assert 0 <= client.execute(middle).scalar() <= 10.5
        client.execute(sa.text("SET discreet.intervals = on"))
        assert list(client.execute(sa.text(BY_REGION)).keys()) == WITH_ENDS
    made.dispose()


def test_pandas_and_polars(door):
    pandas, polars, sa = (pytest.importorskip(name) for name in ("pandas", "polars", "sqlalchemy"))
    made, question = engine(door), "SELECT COUNT(*) AS n FROM visits WHERE age < :age"
    frame = pandas.read_sql(BY_REGION, made)
    other = polars.read_database(BY_REGION, made)
    assert frame["n"].tolist() == other["n"].to_list()
    assert len(frame) == 3
    assert pandas.read_sql(TABLES, made)["table_name"].tolist() == ["visits"]
    assert polars.read_database(TABLES, made)["table_name"].to_list() == ["visits"]
    assert pandas.read_sql(COLUMNS, made)["column_name"].tolist() == NAMES
    assert polars.read_database(COLUMNS, made)["column_name"].to_list() == NAMES
    below = pandas.read_sql(sa.text(question), made, params={"age": 50})["n"][0]
    options = {"parameters": {"age": 50}}
    assert below == polars.read_database(sa.text(question), made, execute_options=options)["n"][0]
    with made.connect() as client:
        client.execute(sa.text("SET discreet.intervals = on"))
        assert list(pandas.read_sql(BY_REGION, client).columns) == WITH_ENDS
        assert polars.read_database(BY_REGION, client).columns == WITH_ENDS
    made.dispose()


def test_adbc(door, monkeypatch):
    dbapi = pytest.importorskip("adbc_driver_postgresql.dbapi")
    before = door.charges()
    uri = f"postgresql://ann:{door.tokens['ann']}@127.0.0.1:{door.port}/clinic"
    with dbapi.connect(uri, autocommit=True) as client, client.cursor() as cursor:
        cursor.execute("SET discreet.epsilon = 2")
        cursor.execute(BY_REGION)
        rows = cursor.fetch_arrow_table().to_pylist()
        cursor.execute("SELECT COUNT(*) AS n FROM visits WHERE age < $1", (60,))
        assert cursor.fetchall()
        tables = client.adbc_get_objects(depth="columns").read_all().to_pylist()
        cursor.execute("SET discreet.intervals = on")
        cursor.execute(BY_REGION)
        assert cursor.fetch_arrow_table().column_names == WITH_ENDS
        with held(monkeypatch) as started:
            threading.Thread(target=lambda: (started.wait(30), cursor.adbc_cancel()), daemon=True).start()
            with pytest.raises(dbapi.Error, match="canceled"):
                cursor.execute(HELD)
        cursor.execute("SELECT 1")
        assert cursor.fetchall() == [(1,)]
    assert [row["region"] for row in rows] == ["north", "south", None]
    assert "visits" in json.dumps(tables, default=str)
    assert door.charges() == before + 2


# Others


def test_node_pg(door, tmp_path, monkeypatch):
    modules = CLIENTS / "node_modules"
    if shutil.which("node") is None or not (modules / "pg").exists():
        pytest.skip("no Node.js with pg: make clients")
    script = tmp_path / "ask.js"
    script.write_text(
        """
        const {Client, Query} = require('pg');
        (async () => {
          const target = {host: '127.0.0.1', port: +process.env.PORT, user: 'ann',
                          password: process.env.TOKEN, database: 'clinic'};
          const client = new Client(target);
          const notices = []; client.on('notice', n => notices.push(n.message));
          await client.connect();
          await client.query('SET discreet.epsilon = 1');
          const rows = (await client.query('SELECT region, COUNT(*) AS n FROM visits WHERE age < $1 GROUP BY region', [50])).rows;
          await client.query('SELECT COUNT(*) FROM visits WHERE day >= $1 AND age = ANY($2)', [new Date('2020-03-05T00:00:00Z'), [3, 4]]);
          const tables = (await client.query("SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'")).rows;
          const columns = (await client.query(process.env.COLUMNS)).rows.map(r => r.column_name);
          await client.query('SET discreet.intervals = on');
          const ends = (await client.query(process.env.BY_REGION)).fields.map(f => f.name);
          let canceler;
          const canceled = await new Promise(done => {
            const query = new Query(process.env.HELD, e => done(e && e.code));
            client.query(query);
            canceler = setInterval(() => new Client(target).cancel(client, query), 300);
          });
          clearInterval(canceler);
          const after = (await client.query('SELECT 1 AS x')).rows;
          await client.end();
          console.log(JSON.stringify({rows, tables, columns, notices, ends, canceled, after}));
        })().catch(e => { console.error(e); process.exit(1); });
        """
    )
    given = {"BY_REGION": BY_REGION, "HELD": HELD, "COLUMNS": COLUMNS}
    environment = os.environ | given | {"NODE_PATH": str(modules), "PORT": str(door.port), "TOKEN": door.tokens["ann"]}
    with held(monkeypatch):
        run = subprocess.run(["node", script], env=environment, check=False, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert found["ends"] == WITH_ENDS
    assert found["canceled"] == "57014"
    assert found["after"] == [{"x": 1}]
    assert found["columns"] == NAMES
    assert len(found["rows"]) == 3
    assert found["tables"] == [{"table_name": "visits"}]
    assert found["notices"]


JAVA = """
import java.sql.*;
public class Ask {
  public static void main(String[] a) throws Exception {
    String url = "jdbc:postgresql://127.0.0.1:" + System.getenv("PORT") + "/clinic?user=ann&options=-c%20discreet.epsilon=1";
    try (Connection c = DriverManager.getConnection(url + "&password=" + System.getenv("TOKEN"))) {
      DatabaseMetaData m = c.getMetaData();
      ResultSet r = m.getTables(null, "public", "%", new String[]{"TABLE"});
      while (r.next()) System.out.println("table " + r.getString("TABLE_NAME") + " " + r.getString("REMARKS"));
      r = m.getColumns(null, "public", "visits", "%");
      while (r.next()) System.out.println("column " + r.getString("COLUMN_NAME") + " " + r.getString("TYPE_NAME"));
      PreparedStatement d = c.prepareStatement("SELECT COUNT(*) FROM visits WHERE day >= ? AND age IN (?,?)");
      d.setDate(1, Date.valueOf("2020-03-04")); d.setInt(2, 3); d.setInt(3, 4);
      if (!d.executeQuery().next() || m.getSQLKeywords() == null) throw new Exception("no answer");
      m.getSchemas().next(); m.getPrimaryKeys(null, "public", "visits").next(); m.getTypeInfo().next();
      m.getIndexInfo(null, "public", "visits", false, false).next(); m.getImportedKeys(null, "public", "visits").next();
      PreparedStatement p = c.prepareStatement("SELECT region, COUNT(*) AS n FROM visits WHERE age < ? GROUP BY region");
      for (int i = 0; i < 8; i++) {  // from the fifth on, the driver prepares on the server and reads binary
        p.setInt(1, 50);
        r = p.executeQuery();
        StringBuilder s = new StringBuilder("rows");
        while (r.next()) s.append(" ").append(r.getString(1)).append("=").append(r.getLong(2));
        System.out.println(s + " " + (p.getWarnings() != null));
      }
      c.setAutoCommit(false);
      Statement few = c.createStatement(); few.setFetchSize(1);
      r = few.executeQuery("SELECT region, COUNT(*) AS n FROM visits GROUP BY region");
      int n = 0; while (r.next()) n++;
      System.out.println("few " + n);
      c.commit();
      c.setAutoCommit(true);
      Statement s = c.createStatement();
      s.execute("SET discreet.intervals = on");
      ResultSetMetaData names = s.executeQuery(System.getenv("BY_REGION")).getMetaData();
      for (int i = 1; i <= names.getColumnCount(); i++) System.out.println("named " + names.getColumnLabel(i));
      Thread canceler = new Thread(() -> {
        try { while (!Thread.interrupted()) { Thread.sleep(100); s.cancel(); } } catch (Exception e) { }
      });
      canceler.start();
      try { s.executeQuery(System.getenv("HELD")); } catch (SQLException e) { System.out.println("state " + e.getSQLState()); }
      canceler.interrupt(); canceler.join();
      r = c.createStatement().executeQuery("SELECT 1"); r.next();
      System.out.println("after " + r.getInt(1));
    }
  }
}
"""


def test_jdbc(door, tmp_path, monkeypatch):
    jar = Path("/usr/share/java/postgresql.jar")
    if shutil.which("java") is None or not jar.exists():
        pytest.skip("no Java with PostgreSQL's driver: make clients")
    (tmp_path / "Ask.java").write_text(JAVA)
    given = {"BY_REGION": BY_REGION, "HELD": HELD, "PORT": str(door.port), "TOKEN": door.tokens["ann"]}
    before, command = door.charges(), ["java", "-cp", str(jar), str(tmp_path / "Ask.java")]
    with held(monkeypatch):
        run = subprocess.run(command, env=os.environ | given, check=False, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    assert any(line.startswith("table visits private") for line in lines)
    assert "column cost float8" in lines
    rows = [line for line in lines if line.startswith("rows")]
    assert len(rows) == 8
    assert len(set(rows)) == 1
    assert rows[0].endswith("true")
    assert "few 3" in lines
    assert [line[6:] for line in lines if line.startswith("named ")] == WITH_ENDS
    assert "state 57014" in lines
    assert "after 1" in lines
    assert door.charges() <= before + 4
