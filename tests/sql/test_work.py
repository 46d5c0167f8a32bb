"""The work that a row can choose: what operations cost, what is refused, and what no condition can switch."""

import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import discreet
from discreet.curator.catalog import TEXT, Catalog, Column, Table
from discreet.curator.engines import duckdb as engines
from discreet.curator.engines.duckdb import DuckDBEngine
from discreet.curator.ledger import Ledger
from discreet.curator.policy import parse_policy
from discreet.curator.stores.memory import MemoryStore
from discreet.errors import InvalidParameter, InvalidQuery
from discreet.privacy.unit import Unit
from discreet.sql.algebra import conditions, expression, functions
from discreet.sql.algebra.expression import Call, call, constant, field
from discreet.sql.algebra.kinds import Fixed, Unsupported
from discreet.sql.plan.planner import Terms, plan
from discreet.sql.release import private_sql

TEXTS = [Column(f"c{place}", "text") for place in range(9)]
COLUMNS = [Column("pid", "integer"), Column("ill", "boolean"), Column("age", "integer", lower=0, upper=120), *TEXTS]
TABLE = Table("t", COLUMNS, unit=Unit("pid"), groups=1, rows=1)
CATALOG = Catalog("clinic", [TABLE], neighbors="add or remove one")


def planned(*statements, **terms):
    return plan(statements, CATALOG, Terms(**({"epsilon": 1} | terms)))


def written(statement):
    (release,) = planned(statement).releases
    return private_sql.write(release.aggregate)


# Limits: each is tested by itself, on values that need no work, so that a limit that is gone fails and does not hang


def test_an_expression_has_at_most_5000_nodes():
    large = Call("add", (), Fixed(1, 0, 1), nullable=False)
    object.__setattr__(large, "size", 4998)
    assert call("add", large, constant(1), kind=Fixed(1, 0, 2)).size == 5000
    with pytest.raises(Unsupported, match="too large"):
        call("add", large, constant(1), constant(1), kind=Fixed(1, 0, 3))


def test_an_expression_takes_at_most_100_microseconds_on_a_row():
    dear = Call("add", (), Fixed(1, 0, 1), nullable=False)
    object.__setattr__(dear, "work", expression.MOST_WORK - 2)
    assert call("add", dear, constant(1), kind=Fixed(1, 0, 2)).work == expression.MOST_WORK
    with pytest.raises(Unsupported, match="this can take 100 µs on one row, expected at most 100"):
        call("add", dear, call("negate", constant(1), kind=Fixed(1, -1, -1)), kind=Fixed(1, -1, 0))


def test_work_adds_up_over_an_expression():
    lowered = functions.changed_text("lower", field(TEXTS[0]))
    assert lowered.work == expression.work_of("lower", [field(TEXTS[0])]) >= 6 * TEXT
    both = conditions.both(
        functions.like("like", lowered, constant("%a%")), functions.like("ilike", lowered, constant("b"))
    )
    assert both.work > 2 * lowered.work + 3 * TEXT * (6 + 13)


@pytest.mark.parametrize("operation", ["like", "ilike"])
def test_a_pattern_has_at_most_100_characters(operation):
    tiny = functions.substring(field(TEXTS[0]), constant(1), constant(1))
    functions.like(operation, tiny, constant("%" * 100))
    with pytest.raises(Unsupported, match="pattern this long"):
        functions.like(operation, tiny, constant("%" * 101))


def test_a_pattern_with_places_costs_as_much_as_it_is_long():
    """'%' alone is searched for; '_' is tried at every place: 100 characters of it took 0.27 ms on one row."""
    value = field(TEXTS[0])
    cheap, dear = (
        functions.like("like", value, constant("%" + "a" * 30)),
        functions.like("like", value, constant("_" * 30)),
    )
    assert cheap.work < 7 * TEXT < 80 * TEXT < dear.work
    with pytest.raises(Unsupported, match="µs on one row"):
        functions.like("like", value, constant("%" + "_" * 98 + "b"))


@pytest.mark.parametrize("length", [TEXT, TEXT + 1])
def test_a_text_in_a_statement_is_no_longer_than_what_is_read(length):
    statement = f"SELECT COUNT(*) FROM t WHERE c0 = '{'x' * length}'"
    if length == TEXT:
        assert planned(statement)
        return
    with pytest.raises(InvalidQuery, match="a text of 1,001 characters"):
        planned(statement)


def test_declared_texts_are_no_longer_than_what_is_read():
    Column("c", "text", values=["x" * TEXT])
    with pytest.raises(InvalidParameter, match="a text of 1,001 characters"):
        Column("c", "text", values=["x" * (TEXT + 1)])


# The attack that was: thirty terms of nine texts each, under a condition that one person meets


def attack(terms, under="pid = 999999 AND ill"):
    parts = "||".join(column.name for column in TEXTS)
    added = " + ".join(f"LENGTH(LOWER({parts})) * {place}" for place in range(1, terms + 1))
    return f"SELECT SUM(CASE WHEN {under} THEN {added} ELSE 0 END) AS s FROM t"


@pytest.mark.parametrize("terms", [2, 30])
def test_the_attack_is_refused_with_what_to_do(terms):
    with pytest.raises(InvalidQuery, match=r"this can take .* µs on one row, expected at most 100") as refusal:
        planned(attack(terms))
    assert "SUBSTRING(x, 1, 50)" in refusal.value.hint


@pytest.mark.parametrize(
    "statements",
    [
        ["SELECT " + ", ".join(f"COUNT(*) FILTER (WHERE LOWER(c0) = '{i}') AS n{i}" for i in range(20)) + " FROM t"],
        [f"SELECT COUNT(*) AS n FROM t WHERE LOWER(c{i}) || LOWER(c{i + 1}) = 'x'" for i in range(8)],
        [f"SELECT COUNT(*) AS n FROM t WHERE LOWER(c{i % 9}) = '{i}'" for i in range(20)],
        ["SELECT COUNT(*) AS n FROM t GROUP BY " + ", ".join(f"LOWER(c{i}), UPPER(c{i})" for i in range(9))],
    ],
    ids=["measures", "blocks", "statements", "keys"],
)
def test_work_is_added_up_over_everything_asked_together(statements):
    """Each part alone is allowed; the message names the dearest."""
    with pytest.raises(InvalidQuery, match="µs on one row") as refusal:
        planned(*statements, delta="1e-6", groups=1)
    assert "alone takes" in refusal.value.hint


def test_cut_texts_are_cheap():
    cut = "||".join(f"SUBSTRING({column.name}, 1, 20)" for column in TEXTS)
    assert planned(f"SELECT COUNT(*) AS n FROM t WHERE LOWER({cut}) ILIKE '%x%'").private


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT COUNT(*) AS n FROM t WHERE c0 ILIKE '%covid%' OR c1 LIKE '%flu%' OR c2 LIKE 'a_c%'",
        "SELECT LOWER(TRIM(c0)) AS name, AVG(age) AS age FROM t GROUP BY 1",
        "SELECT COUNT(*) AS n FROM t WHERE c0 IN (" + ", ".join(f"'{i}'" for i in range(500)) + ")",
        "SELECT " + ", ".join(f"SUM(CASE WHEN c0 = '{i}' THEN age END) AS s{i}" for i in range(100)) + " FROM t",
    ],
)
def test_ordinary_statements_are_within_the_limit(statement):
    assert planned(statement, delta="1e-6", groups=1).releases[0].aggregate.work < expression.MOST_WORK


# No condition switches dear work


OPERATIONS = {
    "case": "SELECT SUM(CASE WHEN pid = 7 AND ill THEN LENGTH(LOWER(c0)) ELSE 0 END) AS s FROM t",
    "where": "SELECT SUM(LENGTH(LOWER(c0))) AS s FROM t WHERE pid = 7 AND ill",
    "and": "SELECT COUNT(*) AS n FROM t WHERE pid = 7 AND LOWER(c0) = 'x'",
    "or": "SELECT COUNT(*) AS n FROM t WHERE ill OR LOWER(c0) = 'x'",
    "coalesce": "SELECT SUM(COALESCE(age, LENGTH(LOWER(c0)))) AS s FROM t",
    "filter": "SELECT COUNT(*) FILTER (WHERE LOWER(c0) = 'x') AS n FROM t WHERE pid = 7",
    "key": "SELECT LENGTH(LOWER(c0)) AS k, COUNT(*) AS n FROM t WHERE pid = 7 GROUP BY 1",
    "inside": "SELECT SUM(LENGTH(UPPER(CASE WHEN ill THEN LOWER(c0) ELSE c1 END)) + 1) AS s FROM t WHERE pid = 7",
}


@pytest.fixture
def engine():
    rows = {
        column.name: pa.array([], t) for column, t in zip(COLUMNS, [pa.int64(), pa.bool_(), pa.int64()], strict=False)
    }
    rows |= {column.name: pa.array([], pa.string()) for column in TEXTS}
    with DuckDBEngine(CATALOG, {"t": pa.table(rows)}) as made:
        yield made


@pytest.mark.parametrize("name", OPERATIONS)
def test_dear_operations_are_computed_below_every_condition(name, engine):
    """In the SQL, and as DuckDB plans it: from the top, the filter, below it the projection with `lower`, the scan."""
    sql = written(OPERATIONS[name])
    apart, _, above = sql[sql.index("SELECT *, ") :].partition(" WHERE ")
    assert sql.count("lower(") == apart.count("lower(") >= 1
    column = re.search(r"lower\(\"c_c0\"\)+(?: = 'x'\))? AS (d\d+)", apart)[1]
    steps = explained(engine, sql)
    computed = max(at for at, step in enumerate(steps) if re.search(rf"\b{column}\b", step))
    assert steps[computed].startswith("Projection")
    assert all("Filter" not in step for step in steps[computed:])
    assert any("Filter" in step for step in steps[:computed])


def explained(engine, sql):
    """The operators of DuckDB's plan, topmost first, each with all that it says."""
    (_, text), *_ = engine._connection.execute(f"EXPLAIN {sql}", {"salt": "0"} if "$salt" in sql else None).fetchall()
    boxes = re.split(r"╭─ ", text)[1:]
    return [re.sub(r"[│╭╮╰╯─┴┬\s]+", " ", box) for box in boxes]


def test_cheap_operations_stay_where_they_are():
    assert "SELECT *" not in written("SELECT SUM(CASE WHEN pid = 7 AND ill THEN age + 1 ELSE 0 END) AS s FROM t")


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_set_apart_compute_the_same(name, monkeypatch):
    rows = [(1, True, 3, "Ä", "b"), (7, True, 50, "Xyz", None), (7, None, None, None, "q"), (9, False, 9, "x", "x")]
    table = {
        column.name: pa.array([row[place] if place < 5 else None for row in rows], kind)
        for place, (column, kind) in enumerate(
            zip(COLUMNS, [pa.int64(), pa.bool_(), pa.int64(), *[pa.string()] * 9], strict=True)
        )
    }
    with DuckDBEngine(CATALOG, {"t": pa.table(table)}) as filled:
        apart = filled.fetch(written(OPERATIONS[name])).to_pylist()
        monkeypatch.setattr(private_sql, "SWITCHED", expression.MOST_WORK)
        inline = filled.fetch(written(OPERATIONS[name])).to_pylist()
    assert apart == inline


@pytest.mark.parametrize("pattern", ["%Ä_x%", "ß%", "%İ%", "", "%", "_", "a%b%c", "%A%B%"])
def test_ilike_is_what_duckdb_says_it_is(pattern):
    import duckdb as library

    texts = ["äqx", "ÄQX", "ẞtraße", "SStrasse", "İ", "i̇", "i", "", "a", "AxBxC", "ab", None, "ſ", "K"]
    query = "SELECT s ILIKE ? = (lower(s) LIKE lower(?)) FROM (SELECT unnest(?::VARCHAR[]) AS s)"
    found = library.connect().execute(query, [pattern, pattern, texts]).fetchall()
    assert {same for (same,) in found} == {True, None}


# The engine reads all rows, whoever is in them


@pytest.mark.parametrize("source", ["parquet", "python"])
@pytest.mark.parametrize(
    "condition", ["pid = 999999999", "pid > 999999", "c0 = 'zzz'", "c0 LIKE 'zz%' AND pid = 999999999"]
)
def test_the_engine_plans_the_same_for_neighbors(tmp_path, source, condition):
    """A person with the largest of all ids, or texts: statistics of the data would let DuckDB read nothing without."""
    without = {"pid": list(range(5000)), "ill": [True] * 5000, "age": [1] * 5000}
    without |= {column.name: ["a"] * 5000 for column in TEXTS}
    plans = []
    for extra in ({}, {"pid": 999999999, "ill": True, "age": 5} | {column.name: "zzz" for column in TEXTS}):
        table = pa.table({name: [*values, *([extra[name]] if extra else [])] for name, values in without.items()})
        pq.write_table(table, tmp_path / "t.parquet")
        with DuckDBEngine(CATALOG, {"t": str(tmp_path / "t.parquet") if source == "parquet" else table}) as made:
            made._load()
            steps = explained(made, written(f"SELECT COUNT(*) AS n FROM t WHERE {condition}"))
            assert made.fetch(written(f"SELECT COUNT(*) AS n FROM t WHERE {condition}")).num_rows == 1
        plans.append([re.sub(r"~[\d,]+ rows?", "", step) for step in steps])
    assert plans[0] == plans[1]
    assert ("Parquet" if source == "parquet" else "Scan") in plans[0][-1]
    assert "Filter" not in plans[0][-1]


# Long texts


POLICY = """
[dataset]
name = "letters"
neighbors = "add or remove one"
[budget]
everyone = "all"
epsilon = 100000
delta = "1e-3"
[tables.letters]
source = "python"
unit = "who"
max_groups_per_unit = 1
max_rows_per_group = 1
columns.who = {type = "text"}
columns.letter = {type = "text"}
"""


def letters(who, texts):
    table = pa.table({"who": pa.array(who, pa.string()), "letter": pa.array(texts, pa.large_string())})
    return discreet.open(parse_policy(POLICY), tables={"letters": table}, ledger=Ledger(MemoryStore()))


ASKED = {
    "SELECT letter, COUNT(*) AS n FROM letters GROUP BY letter": 200,
    "SELECT COUNT(DISTINCT who) AS n FROM letters": 221,
    "SELECT COUNT(*) AS n FROM letters WHERE letter LIKE '%b_c%' OR letter = 'short' OR LOWER(letter) > 'x'": 201,
    "SELECT SUM(LENGTH(letter)) AS n FROM letters": 21 * TEXT + 200 * 5,
}


@pytest.fixture
def little_memory(monkeypatch):
    """60 MB for the engine, which is less than the texts are."""
    connect = engines._connect
    monkeypatch.setattr(engines, "_connect", lambda folder: connect(folder).execute("SET memory_limit = '60MB'"))


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(("statement", "exact"), ASKED.items())
def test_long_texts_fail_no_release(little_memory, statement, exact):
    """One text of 80 MB and 20 of 4 MB fit into 60 MB, since they are cut as they are read."""
    texts = ["x" * 80_000_000, *(f"{place}" + "y" * 4_000_000 for place in range(20)), *["short"] * 200]
    with letters([f"p{place}" for place in range(len(texts))], texts) as data:
        epsilon = 200 if "GROUP BY" in statement else 50_000  # noise of more than 0 has a chance below 1e-20
        found = data.ask(statement, epsilon=epsilon, delta="1e-6").table.to_pylist()
    shown = [row for row in found if row.get("letter", "short") == "short"]
    assert shown[0]["n"] == exact
    assert all(len(row.get("letter", "")) <= TEXT for row in found)


def test_units_with_long_names_are_nobody():
    """They are left out, each by its own row; two names that begin alike are two units, not one."""
    fits, long = "x" * 3999, "x" * 4001
    with letters([fits + "a", fits + "b", long + "a", long + "b", None], ["t"] * 5) as data:
        exact = data._curator.engine.fetch('SELECT "who" FROM "letters"').column("who").to_pylist()
        assert exact == [fits + "a", fits + "b", None, None, None]
        (answer,) = data.ask("SELECT COUNT(DISTINCT who) AS n FROM letters", epsilon=1000).table.to_pylist()
    assert answer["n"] == 2


def test_texts_of_public_tables_are_not_cut():
    public = Table("places", [Column("name", "text")], unit=None)
    catalog = Catalog("c", [TABLE, public], neighbors="change one")
    empty = {column.name: pa.array([], pa.string() if column.kind == "text" else pa.int64()) for column in COLUMNS}
    empty["ill"] = pa.array([], pa.bool_())
    with DuckDBEngine(catalog, {"t": pa.table(empty), "places": pa.table({"name": ["p" * 3000]})}) as made:
        assert made.fetch('SELECT "name" FROM "places"').column("name").to_pylist() == ["p" * 3000]
