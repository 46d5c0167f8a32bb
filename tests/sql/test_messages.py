"""What a refusal says: the analyst's own words and SQL's, never the parser's classes or a repr."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.curator.catalog import Catalog, Column, Table
from discreet.errors import InvalidInput
from discreet.privacy.unit import Unit
from discreet.sql.text.blocks import split

RESERVED = ["when", "order", "group", "select", "case", "table", "end", "from", "left", "with", "values", "all", "in"]
COLUMNS = [
    Column("id", "integer"), Column("age", "integer", lower=0, upper=120), Column("pay", "real"),
    Column("name", "text"), Column("born", "date"), *(Column(word, "integer", lower=0, upper=9) for word in RESERVED),
]  # fmt: skip
CATALOG = Catalog(
    "clinic",
    [
        Table("people", COLUMNS, unit=Unit("id")),
        Table("visits", [Column("id", "integer"), Column("cost", "integer", lower=0, upper=9)], unit=Unit("id")),
        Table("regions", [Column("name", "text")], unit=None),
    ],
    neighbors="add or remove one",
)
LEAKS = re.compile(r"sqlglot|\bexp\.|Expression|<class|Traceback|Token|object at 0x|this'|SENTINEL|\bNone\b")


def message(sql: str) -> str:
    """What is said of a statement: nothing where it is taken."""
    try:
        split(sql, CATALOG)
    except InvalidInput as refusal:
        said = str(refusal)
        assert not LEAKS.search(said), said
        return said
    return ""


TOKENS = [
    "SELECT", "COUNT(*)", "COUNT(", "SUM(", "AVG(", "FROM people", "FROM visits", "FROM regions", "FROM", "WHERE",
    "GROUP BY", "ORDER BY", "HAVING", "LIMIT", "JOIN visits", "USING (id)", "ON", "CAST(", "AS INTEGER)", "AS DATE)",
    "::DOUBLE", "AS", "(", ")", ",", ";", ".", "*", "+", "-", "/", "%", "=", "<", "||", "->", ":", "?", "$1", "@", "[",
    "]", "{", "}", "'text'", '"quoted"', "3", "1e5", "0x1F", "NULL", "TRUE", "IS", "NOT", "IN", "BETWEEN", "AND", "OR",
    "LIKE", "ESCAPE", "CASE", "WHEN", "THEN", "ELSE", "END", "OVER", "PARTITION BY", "FILTER", "DISTINCT", "EXISTS",
    "UNION", "WITH", "INTERVAL", "EXTRACT(", "DATE", "ROUND(", "LEAST(", "IF(", "COALESCE(", "nosuch(", "nosuch", "x ->",
    "UNNEST(", "STRUCT_PACK(", "LAMBDA", "AT TIME ZONE", "COLLATE", "TABLESAMPLE", "QUALIFY", "age", "pay", "name",
    "born", "people.age", "people", "id",
]  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(TOKENS + RESERVED), min_size=1, max_size=14))
def test_no_text_makes_the_parser_speak(tokens):
    message(" ".join(tokens))


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(
        [
            "SELECT COUNT(*) FROM people WHERE {}",
            "SELECT {}, COUNT(*) FROM people GROUP BY 1",
            "SELECT SUM({}) FROM people",
            "SELECT COUNT(*) FROM people GROUP BY {}",
            "SELECT AVG(age) FILTER (WHERE {}) FROM people",
            "SELECT COUNT(*) FROM people {}",
        ]
    ),
    st.lists(st.sampled_from(TOKENS + RESERVED), min_size=1, max_size=8),
)
def test_no_part_of_a_question_makes_the_parser_speak(question, tokens):
    message(question.format(" ".join(tokens)))


@pytest.mark.parametrize("word", ["when", "select", "case", "from", "in", "table", "group", "with"])
@pytest.mark.parametrize("question", ["SELECT COUNT(*) FROM people WHERE {} > 3", "SELECT SUM({}) FROM people"])
def test_a_column_named_like_a_word_of_sql_is_told_to_be_quoted(word, question):
    said = message(question.format(word))
    if "not SQL" in said:  # some of these words are names to the parser, or begin a query
        assert f'"{word}" is a word of SQL: where it is a column, write it in double quotes' in said
    assert message(question.format(f'"{word}"')) == ""


def test_words_of_sql_far_from_the_place_are_not_blamed():
    said = message("SELECT age, COUNT(*) AS n FROM people GROUP BY age QUALIFY nosuch OVER ()")
    assert "not SQL at 'OVER'; put names that are words of SQL" in said


def test_the_place_of_a_text_that_is_not_sql_is_pointed_at():
    assert message("SELECT COUNT(*) FROM people\nWHERE when > 3") == (
        "line 2, column 7: not SQL at 'when'; \"when\" is a word of SQL: where it is a column, write it in double quotes"
        "\n  WHERE when > 3\n        ^"
    )
    assert "not SQL at the end of the text" in message("SELECT COUNT(*) FROM")


@pytest.mark.parametrize("wanted", ["DOUBLE", "FLOAT"])
def test_a_cast_of_text_names_the_types_that_are_exact(wanted):
    said = message(f"SELECT SUM(CAST(name AS {wanted})) FROM people")
    assert f"CAST of text to {wanted}; cast it to DECIMAL(18, 6)" in said


@pytest.mark.parametrize("wanted", ["INTEGER", "BIGINT", "DECIMAL(9, 2)", "DOUBLE", "FLOAT"])
def test_a_cast_is_refused_as_a_cast(wanted):
    said = message(f"SELECT SUM(CAST(born AS {wanted})) FROM people")
    assert f"CAST of dates to {wanted.partition('(')[0]};" in said
    assert "declare the column as integer or real in the policy" in said
    assert not re.search(r"ROUND|\+ of", said)


def test_a_cast_of_a_number_without_bounds_is_refused_as_a_cast():
    said = message("SELECT SUM(CAST(pay AS INTEGER)) FROM people")
    assert "CAST" in said
    assert "ROUND" not in said


@pytest.mark.parametrize(
    ("sql", "advice"),
    [
        ("SELECT COUNT(*) FROM people, visits", "let the condition contain the unit (id)"),
        ("SELECT COUNT(*) FROM regions LEFT JOIN people USING (name)", "write the private table first"),
        ("FROM people JOIN visits", "write SELECT … FROM a JOIN b ON …"),
        ("SELECT COUNT(*) FROM people JOIN (SELECT COUNT(*) AS n FROM visits) ON TRUE", "ask in two questions"),
    ],
)
def test_a_refused_join_says_what_to_write(sql, advice):
    assert advice in message(sql)


def test_joins_that_say_so_are_accepted():
    for sql in (
        "SELECT COUNT(*) FROM people JOIN visits USING (id)",
        "SELECT COUNT(*) FROM people JOIN regions USING (name)",
        "SELECT COUNT(*) FROM regions JOIN people USING (name)",
        "WITH p AS (SELECT * FROM people) SELECT COUNT(*) FROM regions JOIN p USING (name)",
    ):
        assert message(sql) == ""


def test_what_a_refused_join_advises_is_taken():
    joined = (
        "WITH a AS (SELECT name, COUNT(*) AS n FROM people GROUP BY name), b AS (SELECT COUNT(*) AS v FROM visits) "
    )
    assert message(joined + "SELECT name, n, v FROM a, b") == ""


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT COUNT(*) FROM people WHERE age IN", "IN with nothing after it"),
        ("EXPLAIN SELECT COUNT(*) FROM people", "got EXPLAIN, expected SELECT"),
        ("age AT TIME ZONE 'UTC'", "got AGE, expected SELECT"),
        ("SELECT COUNT(*) FROM people WHERE name ? 'a'", "name ? 'a' is not supported on private rows"),
        (
            "SELECT COUNT(*) FROM people WHERE born AT TIME ZONE 'UTC' = born",
            "born AT TIME ZONE 'UTC' is not supported",
        ),
        ("SELECT COUNT(*) FROM people WHERE median(age) > 3", "MEDIAN() is not supported"),
    ],
)
def test_parts_are_called_as_they_were_written(sql, said):
    assert said in message(sql)
