"""Questions in SQL: what explaining and asking cost, a million groups, and the job of the anchors against the peers.

`discreet` runs what remains of a statement in a process of its own, which lives on, so the harness does not count it.
Where that matters, "all CPU s" and "all peak MB" do: this process and its living children together.
"""

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from bench.harness import Bar, Comparison, Contestant, Timed

EXPLAIN, SMALL = "explain, the slowest of three", "a small ask"
GROUPS = {"COUNT(*)": "COUNT(*) AS n", "COUNT(*), SUM": "COUNT(*) AS n, SUM(x) AS total"}
JOB = "four numbers a region, a million rows"
LARGE_JOB = "four numbers a region, ten million rows"
ROW_JOB = "three numbers a region, a million rows, each a unit"
JOIN_JOB = "ten million visits joined with a million patients"
LISTS_JOB = "180 sums under IN lists of 40 codes, a hundred thousand rows"
CHOSEN = "discreet, bounds chosen privately"
READ_CSV = "DuckDB's read_csv (limit)"
OURS, LIMIT, OPENDP = "discreet", "DuckDB, no privacy (limit)", "OpenDP, Polars context"
SMARTNOISE, PIPELINEDP = "SmartNoise SQL", "PipelineDP, local"

REGIONS = tuple(f"r{i:02d}" for i in range(50))
VISITS = (
    "SELECT region, COUNT(*) AS n, SUM(amount) AS total, AVG(amount) AS mean, COUNT(DISTINCT user_id) AS users "
    "FROM visits GROUP BY region"
)
VISITS_OF_ROWS = "SELECT region, COUNT(*) AS n, SUM(amount) AS total, AVG(amount) AS mean FROM visits GROUP BY region"
JOINED = (
    "SELECT city, COUNT(*) AS n, SUM(amount) AS total, AVG(age) AS age "
    "FROM visits JOIN patients ON visits.user_id = patients.id GROUP BY city"
)
PEOPLE = "SELECT city, COUNT(*) AS n, AVG(age) AS mean FROM people GROUP BY city"
EXPLAINED = (
    "SELECT COUNT(*) AS n FROM visits",
    VISITS,
    "SELECT region, n / SUM(n) OVER () AS share FROM "
    "(SELECT region, COUNT(*) AS n FROM visits WHERE amount >= 100 GROUP BY region) ORDER BY share DESC LIMIT 10",
)


def comparison(*, quick: bool) -> Comparison:
    """How quickly questions are answered, beside peers and limits."""
    n, pairs, groups, rows = (5, 1, 10_000, 10_000) if quick else (100, 5, 1_000_000, 1_000_000)
    contestants = (
        Contestant(EXPLAIN, OURS, discreet_explain, {"n": n}, len(EXPLAINED) * n, packages=("duckdb", "sqlglot")),
        Contestant(SMALL, OURS, discreet_ask, {"n": n}, 3 * n, remark="300 rows; new ε, same ε, and kept"),
        Contestant(SMALL, "DuckDB and a bare insert (limit)", bare_ask, {"n": n}, n, remark="no privacy"),
        *(
            Contestant(_million(what), OURS, discreet_groups, {"what": what, "groups": groups, "pairs": pairs}, pairs)
            for what in GROUPS
        ),
        *_job(rows),
        *(
            Contestant(case, who, prepare, {"rows": size}, 1, remark=remark, packages=("duckdb", "numpy"))
            for case, size, jobs in (
                (LARGE_JOB, 10 * rows, ((OURS, discreet_job, "Parquet"), (LIMIT, duckdb_job, "Parquet"))),
                (ROW_JOB, rows, ((OURS, discreet_rows, "Parquet"), (LIMIT, duckdb_rows, "Parquet"))),
                (JOIN_JOB, 10 * rows, ((OURS, discreet_joined, "Parquet"), (LIMIT, duckdb_joined, "Parquet"))),
                (LISTS_JOB, rows // 10, ((OURS, discreet_lists, "planned and run; Parquet"),)),
            )
            for who, prepare, remark in jobs
        ),
        *(
            Contestant(_csv_case(quotes), who, prepare, {"rows": rows, "quotes": quotes}, 1, packages=("duckdb",))
            for quotes in (False, True)
            for who, prepare in ((OURS, discreet_csv), (READ_CSV, duckdb_csv))
        ),
    )
    if quick:  # peers take seconds for any number of rows
        contestants = tuple(c for c in contestants if not c.peer)
    places = {(c.case, c.who) for c in contestants}
    bars = tuple(bar for bar in _bars() if not bar.over or (bar.case, bar.over) in places)
    return Comparison("curator", "Questions in SQL", contestants, bars, rounds=3)


def _job(rows: int) -> list[Contestant]:
    known: tuple[tuple[str, Any, str, str, tuple[str, ...]], ...] = (
        (OURS, discreet_job, "", "Parquet; at most 5 rows in 3 regions each", ("duckdb", "numpy")),
        (CHOSEN, discreet_chosen, "", "ε 0.1 of 1 chooses groups and rows", ("duckdb", "numpy")),
        (LIMIT, duckdb_job, "", "Parquet", ("duckdb", "numpy")),
        (OPENDP, opendp_job, "polars", "frame in memory; keeps 2 regions where 3 are allowed", ("opendp", "numpy")),
        (SMARTNOISE, smartnoise_job, "smartnoise-sql", "frame in memory; 3 rows each", ("numpy", "pandas")),
        (PIPELINEDP, pipelinedp_job, "pipeline-dp", "tuples in memory", ("numpy",)),
    )
    return [
        Contestant(JOB, who, prepare, {"rows": rows}, 1, peer, remark, packages)
        for who, prepare, peer, remark, packages in known
    ]


def _bars() -> list[Bar]:
    return [
        Bar("at most 30 ms", EXPLAIN, OURS, measure="median ms", at_most=30),
        Bar("at most 30 ms", SMALL, OURS, measure="median ms", at_most=30),
        *(Bar("at most 1 s more", _million(what), OURS, measure="beyond engine s", at_most=1.0) for what in GROUPS),
        *(
            Bar("at most 2.5 × DuckDB's CPU", case, OURS, LIMIT, measure="all CPU s", at_most=2.5)
            for case in (JOB, LARGE_JOB)
        ),
        Bar("at most 3 × DuckDB's CPU", JOIN_JOB, OURS, LIMIT, measure="all CPU s", at_most=3),
        Bar("at most 2 s", LISTS_JOB, OURS, measure="all CPU s", at_most=2),
        Bar("at most 1.3 × DuckDB's CPU", ROW_JOB, OURS, LIMIT, measure="all CPU s", at_most=1.3),
        *(
            Bar("a smaller error of counts", JOB, CHOSEN, peer, measure="error of n %", at_most=1)
            for peer in (OPENDP, SMARTNOISE, PIPELINEDP)
        ),
        Bar("at most a quarter of OpenDP's CPU", JOB, OURS, OPENDP, measure="all CPU s", at_most=0.25),
        *(
            Bar("at most 4 × read_csv's CPU", _csv_case(quotes), OURS, READ_CSV, measure="all CPU s", at_most=4)
            for quotes in (False, True)
        ),
    ]


def _million(what: str) -> str:
    return f"a million groups: {what}"


# Small questions


def discreet_explain(n: int) -> Timed:
    data = _opened_visits(1000)

    def explain(sql: str) -> Callable[[int], object]:
        return lambda _: data.explain(sql, epsilon=1)

    def slowest(n: int) -> dict[str, float]:
        return {"median ms": max(_median_ms(explain(sql), n) for sql in EXPLAINED)}

    slowest(1)
    return lambda: slowest(n)


def discreet_ask(n: int) -> Timed:
    """Charged with an ε that was never used, charged with one that was (other rows are asked for), and kept."""
    data = _people()

    def ask(sql: str, epsilon: str, *, free: bool = False) -> None:
        if data.ask(sql, epsilon=epsilon).receipt.free != free:
            raise RuntimeError("an ask was charged or kept against expectation")

    ask(PEOPLE, "0.5")

    def timed() -> dict[str, float]:
        return {
            "median ms": _median_ms(lambda i: ask(PEOPLE, f"0.1{i:06d}1"), n),
            "same ε ms": _median_ms(lambda i: ask(PEOPLE.replace("GROUP", f"WHERE age <> {i} GROUP"), "0.5"), n),
            "kept ms": _median_ms(lambda _: ask(PEOPLE, "0.5", free=True), n),
        }

    return timed


def bare_ask(n: int) -> Timed:
    """The same rows by DuckDB alone, and one durable row in SQLite."""
    import sqlite3

    import duckdb

    folder = _folder()
    source = _parquet(folder, "people", _people_columns())
    ledger = sqlite3.connect(folder / "bare.db", isolation_level=None)
    for sql in ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL", "CREATE TABLE charges (what TEXT)"):
        ledger.execute(sql)
    connection = duckdb.connect()
    sql = PEOPLE.replace("FROM people", f"FROM '{source}'")

    def ask(_: int) -> None:
        ledger.execute("INSERT INTO charges VALUES (?)", ("x" * 3000,))
        connection.sql(sql).fetchall()

    ask(0)
    return lambda: {"median ms": _median_ms(ask, n)}


def _people() -> Any:
    cities = ", ".join(f'"{city}"' for city in REGIONS[:5])
    columns = {
        "city": f'{{type = "text", values = [{cities}], nullable = false}}',
        "age": '{type = "integer", lower = 0, upper = 120, nullable = false}',
    }
    folder = _folder()
    _parquet(folder, "people", _people_columns())
    return _open(folder, "people", 'unit = "row"', columns)


def _people_columns() -> dict[str, Any]:
    import numpy

    generator = numpy.random.default_rng(300)
    return {"city": _named(generator.integers(5, size=300)), "age": generator.integers(0, 121, size=300)}


# A million groups


def discreet_groups(what: str, groups: int, pairs: int) -> Timed:
    """An ask and, right after it, the engine's part of it again."""
    import numpy

    generator = numpy.random.default_rng(7)
    rows = {"key": generator.integers(groups, size=groups), "x": generator.integers(0, 101, size=groups)}
    columns = {
        "key": f'{{type = "integer", lower = 0, upper = {groups - 1}, nullable = false}}',
        "x": '{type = "integer", lower = 0, upper = 100, nullable = false}',
    }
    folder = _folder()
    _parquet(folder, "numbers", rows)
    data = _open(folder, "numbers", 'unit = "row"', columns)
    sql = f"SELECT key, {GROUPS[what]} FROM numbers GROUP BY key"  # noqa: S608
    fetch = _engine_alone(data, sql)

    def pair(i: int) -> tuple[float, float]:
        asked, answer = _seconds(lambda: data.ask(sql, epsilon=f"1.{i:03d}1"))
        if len(answer) != groups or answer.receipt.free:
            raise RuntimeError("not every group was answered and charged")
        return asked, _seconds(fetch)[0]

    pair(999)

    def timed() -> dict[str, float]:
        both = [pair(i) for i in range(pairs)]
        return {
            "ask s": statistics.median(asked for asked, _ in both),
            "engine s": statistics.median(alone for _, alone in both),
            "beyond engine s": statistics.median(asked - alone for asked, alone in both),
        }

    return timed


def _engine_alone(data: Any, sql: str) -> Callable[[], object]:
    """What the engine is asked for a statement, without noise, charge and the rest."""
    from discreet.sql.plan.planner import Terms, plan
    from discreet.sql.release import private_sql

    written = private_sql.write(plan([sql], data.catalog, Terms(epsilon=1)).releases[0].aggregate)
    return lambda: data._curator.engine.fetch(written)


# The job of the anchors. Each warms up on a thousand rows, and gets its data in the form that it reads fastest.


def discreet_job(rows: int) -> Timed:
    _opened_visits(1000).ask(VISITS, epsilon=1)
    data, truth = _opened_visits(rows), _truth(rows)
    _let_settle(rows)
    return _all_processes(lambda: data.ask(VISITS, epsilon=1), lambda answer: _errors(_answered(answer), truth))


def discreet_chosen(rows: int) -> Timed:
    """The same with a tenth of ε for the choice of groups and rows, which nobody states."""
    small, data, truth = _opened_visits(1000), _opened_visits(rows), _truth(rows)

    def run(data: Any) -> Any:
        chosen = data.choose_bounds("visits", epsilon="0.1", by=["region"], most_groups=50, most_rows=50)
        bounds = chosen.contributions
        groups, most = bounds["max_groups_per_unit"], bounds["max_rows_per_group"]
        return data.ask(VISITS, epsilon="0.9", groups=groups, rows=most)

    run(small)
    return _all_processes(lambda: run(data), lambda answer: _errors(_answered(answer), truth))


def discreet_rows(rows: int) -> Timed:
    """Where each row is a unit: nothing to bound but values."""
    _opened_visits(1000, 'unit = "row"').ask(VISITS_OF_ROWS, epsilon=1)
    data, truth = _opened_visits(rows, 'unit = "row"'), _truth(rows)
    _let_settle(rows)
    return _all_processes(lambda: data.ask(VISITS_OF_ROWS, epsilon=1), lambda a: _errors(_answered(a), truth))


def discreet_joined(rows: int) -> Timed:
    """Visits of people, who are in a table of their own: age and city are looked up by the unit."""
    _opened_join(1000).ask(JOINED, epsilon=1)
    data = _opened_join(rows)
    return _all_processes(lambda: data.ask(JOINED, epsilon=1))


def duckdb_joined(rows: int) -> Timed:
    import duckdb

    connection = duckdb.connect()

    def run(folder: Path) -> object:
        sql = JOINED.replace(
            "FROM visits JOIN patients",
            f"FROM '{folder}/visits.parquet' AS visits JOIN '{folder}/patients.parquet' AS patients",
        )
        return connection.sql(sql).to_arrow_table()

    run(_join_folder(1000))
    folder = _join_folder(rows)
    return _all_processes(lambda: run(folder))


def _join_folder(rows: int) -> Path:
    import numpy

    folder, people = _folder(), rows // 10
    generator = numpy.random.default_rng(77)
    _parquet(folder, "visits", _visits(rows))
    patients = {
        "id": generator.permutation(people),
        "age": generator.integers(0, 100, people),
        "city": _named(generator.integers(0, 20, people)),
    }
    _parquet(folder, "patients", patients)
    return folder


def _opened_join(rows: int) -> Any:
    import discreet

    folder = _join_folder(rows)
    cities = ", ".join(f'"{city}"' for city in REGIONS[:20])
    policy = folder / "join.toml"
    policy.write_text(
        '[dataset]\nname = "join"\nneighbors = "add or remove one"\nwitness = "witness"\ntime_floor = 0\n'
        "[budget]\neveryone = 'all'\nepsilon = 1000000\n"
        '[tables.visits]\nsource = "visits.parquet"\nunit = "user_id"\n'
        "max_groups_per_unit = 1\nmax_rows_per_group = 15\n"
        'columns.user_id = {type = "integer", nullable = false}\n'
        'columns.amount = {type = "real", lower = 0, upper = 500, granularity = "0.01", nullable = false}\n'
        '[tables.patients]\nsource = "patients.parquet"\nunit = "id"\n'
        "max_groups_per_unit = 1\nmax_rows_per_group = 1\n"
        'columns.id = {type = "integer", nullable = false}\n'
        'columns.age = {type = "integer", lower = 0, upper = 100, nullable = false}\n'
        f'columns.city = {{type = "text", values = [{cities}], nullable = false}}\n',
        "utf-8",
    )
    return discreet.open(policy, analyst="bench")


def discreet_lists(rows: int) -> Timed:
    """Each of 180 sums is of the rows whose code is in a list of its own; another ε each time, so none is kept."""
    import numpy

    generator, folder = numpy.random.default_rng(180), _folder()
    lists = [", ".join(map(str, sorted(generator.choice(1000, 40, replace=False)))) for _ in range(180)]
    sums = ", ".join(f"SUM(CASE WHEN code IN ({some}) THEN x END) AS s{i}" for i, some in enumerate(lists))
    columns = {
        "code": '{type = "integer", lower = 0, upper = 999, nullable = false}',
        "x": '{type = "integer", lower = 0, upper = 100, nullable = false}',
    }
    _parquet(folder, "numbers", {name: generator.integers(0, top, rows) for name, top in (("code", 1000), ("x", 101))})
    data, asked = _open(folder, "numbers", 'unit = "row"', columns), iter(range(1, 10**6))
    data.ask("SELECT COUNT(*) AS n FROM numbers", epsilon=1)
    sql = f"SELECT {sums} FROM numbers"  # noqa: S608
    return _all_processes(lambda: data.ask(sql, epsilon=1 + next(asked)))


def duckdb_rows(rows: int) -> Timed:
    return _duckdb(VISITS_OF_ROWS, rows)


def duckdb_job(rows: int) -> Timed:
    return _duckdb(VISITS, rows)


def _duckdb(sql: str, rows: int) -> Timed:
    import duckdb

    connection = duckdb.connect()

    def run(source: Path) -> object:
        return connection.sql(sql.replace("FROM visits", f"FROM '{source}'")).to_arrow_table()

    run(_parquet(_folder(), "visits", _visits(1000)))
    source = _parquet(_folder(), "visits", _visits(rows))
    return _all_processes(lambda: run(source))


Numbers = dict[str, tuple[float, float]]
"""Count and sum by region."""


def _truth(rows: int) -> Numbers:
    """What is so, without bounds and noise."""
    import numpy

    visits = _visits(rows)
    regions, codes = numpy.unique(visits["region"], return_inverse=True)
    counts, sums = numpy.bincount(codes), numpy.bincount(codes, visits["amount"])
    return {str(region): (float(n), float(total)) for region, n, total in zip(regions, counts, sums, strict=True)}


def _errors(found: Numbers, truth: Numbers) -> dict[str, float]:
    """Root mean square over regions of relative errors, against what is so without any bound."""
    squares = [
        [((found.get(region, (0, 0))[i] - true[i]) / true[i]) ** 2 for region, true in truth.items()] for i in (0, 1)
    ]
    return {
        f"error of {what} %": 100 * statistics.fmean(part) ** 0.5
        for what, part in zip(("n", "total"), squares, strict=True)
    }


def _answered(answer: Any) -> Numbers:
    columns = (answer.column(name) for name in ("region", "n", "total"))
    return {region: (n, total) for region, n, total in zip(*columns, strict=True)}


def opendp_job(rows: int) -> Timed:
    """With keep="first": its other way of choosing regions fails for one key. It ranks from 1 and keeps ranks < 3."""
    import opendp.prelude as dp

    pl: Any = import_module("polars")  # untyped: OpenDP adds `.dp` to its expressions
    dp.enable_features("contrib")

    def run(frame: Any) -> Any:
        context = dp.Context.compositor(
            data=frame.lazy(),
            privacy_unit=dp.unit_of(contributions=1, identifier=pl.col("user_id")),
            privacy_loss=dp.loss_of(epsilon=1.0),
            split_evenly_over=1,
            margins=[dp.polars.Margin(by=[], max_length=2_000_000)],
        )
        amount = pl.col("amount").fill_null(0.0).fill_nan(0.0)
        bounded = context.query().truncate_per_group(5, by=["region"])
        grouped = bounded.truncate_num_groups(3, by=["region"], keep="first").group_by("region")
        numbers = grouped.agg(
            dp.len(signed=True).alias("n"),
            amount.dp.sum((0.0, 500.0)).alias("total"),
            amount.dp.mean((0.0, 500.0)).alias("mean"),
            pl.col("user_id").dp.n_unique(signed=True).alias("users"),
        )
        return numbers.with_keys(pl.DataFrame({"region": REGIONS})).release().collect()

    frame, truth = pl.DataFrame(_visits(rows)), _truth(rows)
    _warm_up(run, frame.head(1000), frame)
    return _all_processes(
        lambda: run(frame),
        lambda found: _errors({r: (n, t) for r, n, t in found.select("region", "n", "total").iter_rows()}, truth),
    )


def smartnoise_job(rows: int) -> Timed:
    import pandas as pd

    snsql: Any = import_module("snsql")
    table = {
        "max_ids": 3,
        "censor_dims": False,
        "user_id": {"type": "int", "private_id": True},
        "region": {"type": "string"},
        "amount": {"type": "float", "lower": 0.0, "upper": 500.0},
    }

    def run(frame: Any) -> Any:
        privacy = snsql.Privacy(epsilon=1.0, delta=1e-6)
        reader = snsql.from_df(frame, privacy=privacy, metadata={"": {"bench": {"visits": table}}})
        return reader.execute(VISITS.replace("FROM visits", "FROM bench.visits"))

    frame, truth = pd.DataFrame(_visits(rows)), _truth(rows)
    _warm_up(run, frame.head(1000), frame)
    return _all_processes(
        lambda: run(frame), lambda found: _errors({row[0]: (row[1] or 0, row[2] or 0) for row in found[1:]}, truth)
    )


def pipelinedp_job(rows: int) -> Timed:
    pdp: Any = import_module("pipeline_dp")
    metrics = pdp.Metrics
    parameters = pdp.AggregateParams(
        metrics=[metrics.COUNT, metrics.SUM, metrics.MEAN, metrics.PRIVACY_ID_COUNT],
        noise_kind=pdp.NoiseKind.LAPLACE,
        max_partitions_contributed=3,
        max_contributions_per_partition=5,
        min_value=0,
        max_value=500,
    )
    extractors = pdp.DataExtractors(
        privacy_id_extractor=lambda row: row[0],
        partition_extractor=lambda row: row[1],
        value_extractor=lambda row: row[2],
    )

    def run(visits: list[Any]) -> Any:
        accountant = pdp.NaiveBudgetAccountant(total_epsilon=1, total_delta=1e-6)
        engine = pdp.DPEngine(accountant, pdp.LocalBackend())
        result = engine.aggregate(visits, parameters, extractors, public_partitions=list(REGIONS))
        accountant.compute_budgets()
        return list(result)

    visits = list(zip(*(column.tolist() for column in _visits(rows).values()), strict=True))
    truth = _truth(rows)
    _warm_up(run, visits[:1000], visits)
    return _all_processes(
        lambda: run(visits), lambda found: _errors({region: (part.count, part.sum) for region, part in found}, truth)
    )


def _warm_up(run: Callable[[Any], object], few: Any, whole: Any) -> None:
    """Run on few rows, unless the whole is hardly more: a smoke run need not do everything twice."""
    if len(whole) > 20_000:
        run(few)


def _opened_visits(rows: int, unit: str = 'unit = "user_id"\nmax_groups_per_unit = 3\nmax_rows_per_group = 5') -> Any:
    folder = _folder()
    _parquet(folder, "visits", _visits(rows))
    regions = ", ".join(f'"{region}"' for region in REGIONS)
    columns = {
        "user_id": '{type = "integer", nullable = false}',
        "region": f'{{type = "text", values = [{regions}], nullable = false}}',
        "amount": '{type = "real", lower = 0, upper = 500, granularity = "0.01", nullable = false}',
    }
    return _open(folder, "visits", unit, columns)


def _visits(rows: int) -> dict[str, Any]:
    """Ten visits a person on average, regions of very different sizes, amounts of 88 on average."""
    import numpy

    generator = numpy.random.default_rng(2026)
    weights = 1 / numpy.arange(1, len(REGIONS) + 1) ** 0.65  # a tenth of all visits in the largest
    return {
        "user_id": generator.integers(rows // 10, size=rows),
        "region": _named(generator.choice(len(REGIONS), rows, p=weights / weights.sum())),
        "amount": generator.exponential(88, rows).clip(0, 500).round(2),
    }


def _named(codes: Any) -> Any:
    import numpy

    return numpy.array(REGIONS)[codes]


# Reading CSV: five columns into a table. Ours reads line by line and cannot fail; read_csv is told the types.


def _csv_case(quotes: bool) -> str:
    return f"a CSV file of a million lines, {'quoted texts' if quotes else 'no quotes'}"


def discreet_csv(rows: int, quotes: bool) -> Timed:
    from discreet.curator.catalog import Catalog, Column, Table
    from discreet.curator.engines.duckdb import DuckDBEngine
    from discreet.privacy.unit import Unit

    path = _csv(rows, quotes)
    kinds = {"id": "integer", "age": "integer", "amount": "real", "region": "text", "day": "date"}
    table = Table("visits", [Column(name, kind) for name, kind in kinds.items()], unit=Unit())
    catalog = Catalog("bench", [table], neighbors="change one")

    def run(source: Path) -> None:
        with DuckDBEngine(catalog, {"visits": source}) as engine:
            engine.fetch("SELECT count(*) FROM visits")

    run(_csv(100, quotes))
    return _all_processes(lambda: run(path))


def duckdb_csv(rows: int, quotes: bool) -> Timed:
    import duckdb

    path = _csv(rows, quotes)
    types = {"id": "BIGINT", "age": "BIGINT", "amount": "DOUBLE", "region": "VARCHAR", "day": "DATE"}

    def run(source: Path) -> None:
        with duckdb.connect() as connection:
            connection.read_csv(str(source), columns=types, header=True).create("visits")
            connection.sql("SELECT count(*) FROM visits").fetchall()

    run(_csv(100, quotes))
    return _all_processes(lambda: run(path))


def _csv(rows: int, quotes: bool) -> Path:
    import numpy

    generator = numpy.random.default_rng(2026)
    sign = '"' if quotes else ""
    columns = (
        generator.integers(10**6, size=rows),
        generator.integers(100, size=rows),
        generator.exponential(88, rows).round(2),
        generator.integers(len(REGIONS), size=rows),
        generator.integers(1, 29, size=rows),
    )
    path = _folder() / "visits.csv"
    with path.open("w", encoding="utf-8") as file:
        file.write("id,age,amount,region,day\n")
        file.writelines(
            f"{who},{age},{amount},{sign}{REGIONS[region]}{sign},2020-01-{day:02d}\n"
            for who, age, amount, region, day in zip(*(column.tolist() for column in columns), strict=True)
        )
    return path


# Files, clocks, processes


def _open(folder: Path, name: str, unit: str, columns: Mapping[str, str]) -> Any:
    """A dataset with one table in a Parquet file, and its ledger beside it."""
    import discreet

    lines = (f"columns.{column} = {what}" for column, what in columns.items())
    policy = folder / f"{name}.toml"
    policy.write_text(
        f'[dataset]\nname = "{name}"\nneighbors = "add or remove one"\nwitness = "witness"\ntime_floor = 0\n'
        "[budget]\neveryone = 'all'\nepsilon = 1000000\n"
        f'[tables.{name}]\nsource = "{name}.parquet"\n{unit}\n' + "\n".join(lines),
        "utf-8",
    )
    return discreet.open(policy, analyst="bench")


def _parquet(folder: Path, name: str, columns: dict[str, Any]) -> Path:
    import pyarrow
    import pyarrow.parquet

    path = folder / f"{name}.parquet"
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return path


def _let_settle(rows: int) -> None:
    """Wait until a file is old enough for its times to tell it from a later one: before, each look digests it."""
    if rows > 100_000:
        time.sleep(2.1)


def _seconds(act: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = act()
    return time.perf_counter() - start, result


def _median_ms(act: Callable[[int], object], n: int) -> float:
    return 1e3 * statistics.median(_seconds(partial(act, i))[0] for i in range(n))


def _all_processes(act: Callable[[], Any], judge: Callable[[Any], dict[str, float]] | None = None) -> Timed:
    """Time, and say how much CPU and memory this process and its living children took together (on Linux).

    `judge` says what else there is to say of the result.
    """

    def timed() -> dict[str, float]:
        before = _cpu_s()
        result = act()
        facts = {"all CPU s": _cpu_s() - before}
        facts |= judge(result) if judge is not None else {}
        own = Path("/proc/self")
        return {**facts, "all peak MB": sum(map(_peak_mb, [own, *_children()]))} if own.exists() else facts

    return timed


def _cpu_s() -> float:
    times = [(child / "stat").read_text().rpartition(")")[2].split()[11:13] for child in _children()]
    return time.process_time() + sum(int(user) + int(system) for user, system in times) / os.sysconf("SC_CLK_TCK")


def _peak_mb(process: Path) -> float:
    lines = (process / "status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith("VmHWM"))


def _children() -> list[Path]:
    """The living children of this process in /proc."""
    lists = [children.read_text().split() for children in Path("/proc/self/task").glob("*/children")]
    return [Path("/proc") / child for children in lists for child in children]


_KEPT: list[Any] = []


def _folder() -> Path:
    """A new folder on the disk, removed when the process ends."""
    _KEPT.append(tempfile.TemporaryDirectory(prefix="bench-curator-"))
    return Path(_KEPT[-1].name)
