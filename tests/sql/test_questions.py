"""Questions that analysts of a shop ask, 22 of them in the shapes of TPC-H's: answered as plain SQL, or refused in words.

`questions.sql` states each with its verdict. ε is so great that noise is next to nothing, and bounds so wide that nobody
is left out; groups that are known beforehand are answered where they are empty, too.
"""

import datetime
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa
import pytest

import discreet
from discreet.errors import InvalidQuery

FEWEST_ACCEPTED = 62
CONTINENTS = {
    "FRANCE": "EUROPE", "GERMANY": "EUROPE", "ITALY": "EUROPE", "CHINA": "ASIA", "JAPAN": "ASIA", "INDIA": "ASIA",
    "BRAZIL": "AMERICA", "PERU": "AMERICA", "KENYA": "AFRICA",
}  # fmt: skip
SEGMENTS = ["BUILDING", "MACHINERY", "FURNITURE"]
PRIORITIES = ["1-URGENT", "2-HIGH", "3-MEDIUM", "4-LOW"]
MODES = ["AIR", "MAIL", "RAIL", "SHIP"]
KINDS = ["STEEL", "COPPER", "PROMO TIN"]
BRANDS = ["B1", "B2", "B3", "B4"]
CONTAINERS = [f"{size} {form}" for size in ("SM", "MED", "LG") for form in ("BOX", "BAG")]
DATE = "type = 'date', lower = 1992-01-01, upper = 1998-12-31"


def number(lower: int, upper: int) -> str:
    return f"type = 'integer', lower = {lower}, upper = {upper}"


def one_of(values: Any, rest: str = "") -> str:
    return f"type = 'text', values = {list(values)!r}{rest}"


NEVER_NULL = ", nullable = false"
PUBLIC = 'unit = "public"'
WIDE = "max_groups_per_unit = 40\nmax_rows_per_group = 40"
INTEGER, TEXT = "type = 'integer'", "type = 'text'"
SHARE = "type = 'real', lower = 0, upper = '0.1', granularity = '0.01'"
TABLES: dict[str, tuple[str, dict[str, str]]] = {
    "nation": (PUBLIC, {"nation_id": INTEGER, "nation": one_of(CONTINENTS),
                        "continent": one_of(sorted(set(CONTINENTS.values())))}),
    "supplier": (PUBLIC, {"supplier_id": INTEGER, "name": TEXT, "nation_id": INTEGER, "balance": INTEGER}),
    "part": (PUBLIC, {"part_id": INTEGER, "name": TEXT, "brand": one_of(BRANDS), "kind": one_of(KINDS),
                      "size": INTEGER, "container": TEXT}),
    "partsupp": (PUBLIC, {"part_id": INTEGER, "supplier_id": INTEGER, "available": INTEGER, "cost": number(0, 1000)}),
    "customer": (f'unit = "customer_id"\n{WIDE}',
                 {"customer_id": INTEGER, "nation_id": INTEGER, "segment": one_of(SEGMENTS, NEVER_NULL),
                  "balance": number(-999, 9999), "phone": TEXT}),
    "orders": (f'unit = "customer_id"\n{WIDE}',
               {"order_id": INTEGER, "customer_id": INTEGER, "status": one_of("OFP", NEVER_NULL),
                "total": number(0, 100_000), "day": DATE, "priority": one_of(PRIORITIES, NEVER_NULL), "comment": TEXT}),
    "lineitem": (f'unit = "orders.customer_id via order_id"\n{WIDE}',
                 {"order_id": INTEGER, "part_id": INTEGER, "supplier_id": INTEGER, "quantity": number(1, 50),
                  "price": number(0, 10_000), "discount": SHARE, "tax": SHARE, "flag": one_of("RAN", NEVER_NULL),
                  "line_status": one_of("OF", NEVER_NULL), "shipped": DATE, "committed": DATE, "received": DATE,
                  "mode": one_of(MODES, NEVER_NULL)}),
}  # fmt: skip
POLICY = """
dataset = {name = "market", neighbors = "add or remove one", time_floor = 0, witness = "none"}
budget = {epsilon = "1e12", delta = "0.5", everyone = "all"}
"""
TYPES = {"integer": pa.int64(), "text": pa.string(), "date": pa.date32(), "real": pa.float64()}


def policy() -> str:
    parts = [POLICY]
    for name, (unit, columns) in TABLES.items():
        lines = [f"columns.{column} = {{{kind}}}" for column, kind in columns.items()]
        parts += [f'[tables.{name}]\nsource = "python"\n{unit}', *lines]
    return "\n".join(parts)


def market() -> dict[str, pa.Table]:
    """A small shop: a quarter of its customers have no order, orders have one to five items."""
    draw = random.Random(1)

    def later(day: datetime.date, least: int, most: int) -> datetime.date:
        return day + datetime.timedelta(days=draw.randrange(least, most))

    sold = {part: draw.sample(range(20), 4) for part in range(40)}
    colors = ["green", "forest", "red"]
    rows: dict[str, list[tuple[Any, ...]]] = {
        "nation": [(i, *pair) for i, pair in enumerate(CONTINENTS.items())],
        "supplier": [
            (i, draw.choice(["", "", "complaints "]) + f"supplier {i:02}", i % 9, draw.randrange(-999, 9999))
            for i in range(20)
        ],
        "part": [
            (
                i,
                f"{draw.choice(colors)} part {i}",
                BRANDS[i % 4],
                KINDS[i % 3],
                draw.randrange(1, 51),
                CONTAINERS[i % 6],
            )
            for i in range(40)
        ],
        "partsupp": [
            (part, supplier, draw.randrange(1, 500), draw.randrange(1, 1000))
            for part, some in sold.items()
            for supplier in some
        ],
        "customer": [
            (i, i % 9, draw.choice(SEGMENTS), draw.randrange(-999, 10_000), f"{draw.choice([13, 31, 23, 40])}-{i:04}")
            for i in range(150)
        ],
        "orders": [],
        "lineitem": [],
    }
    for order in range(330):
        customer, day, total = (
            draw.choice([i for i in range(150) if i % 4]),
            later(datetime.date(1992, 1, 1), 0, 2400),
            0,
        )
        for _ in range(draw.choice([1, 2, 3, 4, 5])):
            part, quantity = draw.randrange(40), draw.randrange(1, 51)
            price, shipped = quantity * draw.randrange(90, 200), later(day, 1, 60)
            total += price
            rows["lineitem"].append(
                (order, part, draw.choice(sold[part]), quantity, price, draw.randrange(11) / 100, draw.randrange(9) / 100,
                 draw.choice("RAN"), draw.choice("OF"), shipped, later(day, 20, 70), later(shipped, 1, 30),
                 draw.choice(MODES))
            )  # fmt: skip
        comment = draw.choice(["none", "special packing requests", "quick"])
        rows["orders"].append((order, customer, draw.choice("OFP"), total, day, draw.choice(PRIORITIES), comment))
    return {name: _table(name, listed) for name, listed in rows.items()}


def _table(name: str, rows: list[tuple[Any, ...]]) -> pa.Table:
    kinds = [re.match(r"type = '(\w+)'", kind)[1] for kind in TABLES[name][1].values()]
    columns = zip(zip(*rows, strict=True), kinds, strict=True)
    return pa.table([pa.array(values, TYPES[kind]) for values, kind in columns], names=list(TABLES[name][1]))


class Question(NamedTuple):
    name: str
    verdict: str
    sql: str


TEXT_OF_QUESTIONS = Path(__file__).with_name("questions.sql").read_text("utf-8")
QUESTIONS = [
    Question(*parts)
    for parts in re.findall(r"^-- ([^\n]+?): (same|answered|refused: [^\n]+)\n(.*?);$", TEXT_OF_QUESTIONS, re.S | re.M)
]


@pytest.fixture(scope="module")
def tables() -> dict[str, pa.Table]:
    return market()


@pytest.fixture(scope="module")
def data(tables: dict[str, pa.Table], tmp_path_factory: pytest.TempPathFactory) -> discreet.Dataset:
    path = tmp_path_factory.mktemp("market") / "market.toml"
    path.write_text(policy(), "utf-8")
    return discreet.open(path, analyst="ann", tables=tables)


@pytest.fixture(scope="module")
def plain(tables: dict[str, pa.Table]) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        yield connection


def test_there_are_74_questions_and_most_are_accepted() -> None:
    assert len(QUESTIONS) == len({question.name for question in QUESTIONS}) == 74
    assert sum(bool(re.match(r"t\d+ ", question.name)) for question in QUESTIONS) == 22
    assert sum(not question.verdict.startswith("refused") for question in QUESTIONS) >= FEWEST_ACCEPTED


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.name)
def test_question(question: Question, data: discreet.Dataset, plain: duckdb.DuckDBPyConnection) -> None:
    if question.verdict.startswith("refused: "):
        with pytest.raises(InvalidQuery, match=re.escape(question.verdict.removeprefix("refused: "))):
            data.ask(question.sql, epsilon="1e9", delta="1e-9")
        return
    answer = data.ask(question.sql, epsilon="1e9", delta="1e-9")
    assert len(answer) > 0
    if question.verdict == "same":
        columns = [answer.column(name) for name in answer.table.column_names]
        ours = list(zip(*columns, strict=True))
        missing = [row for row in plain.sql(question.sql).fetchall() if not any(near(row, other) for other in ours)]
        assert missing == [], ours[:5]


def near(plain: Any, ours: Any) -> bool:
    """Whether two values, or rows of them, are the same but for noise of next to nothing."""
    if isinstance(plain, list | tuple):
        return len(plain) == len(ours) and all(map(near, plain, ours))
    if plain is None or ours is None or isinstance(plain, str | bool):
        return plain == ours
    if isinstance(plain, datetime.date):
        return str(plain)[:10] == str(ours)[:10]
    return abs(float(plain) - float(ours)) <= 0.01 + 0.005 * abs(float(plain))
