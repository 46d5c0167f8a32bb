"""Which groups and rows of a person count: the SQL is the reference, the draw is fair, and the salt stays inside."""

import io
import logging
from collections import Counter
from collections.abc import Sequence
from datetime import date, datetime
from itertools import product
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from discreet.curator.catalog import Catalog, Column, ColumnType, Table
from discreet.curator.contribution_draw import (
    OFFSETS,
    digest,
    digest_sql,
    offset_sql,
    place,
    place_offset,
    place_offset_sql,
    rows_each,
    salt_text,
    with_place,
)
from discreet.curator.curator import OWNER, Curator
from discreet.curator.engines.duckdb import DuckDBEngine
from discreet.curator.ledger import Ledger
from discreet.curator.stores.memory import MemoryStore
from discreet.errors import ReleaseFailed
from discreet.privacy.budget import Budget
from discreet.privacy.unit import Unit
from discreet.sql.plan.explain import explanation
from discreet.sql.plan.planner import Terms, plan
from discreet.sql.release import private_sql as writer
from discreet.sql.release.release import group_names

FALSE_ALARM = 1e-6
SALTS = ("", "5a17", salt_text(b"a secret"))
TYPES = {
    ColumnType.INTEGER: pa.int64(),
    ColumnType.REAL: pa.float64(),
    ColumnType.TEXT: pa.string(),
    ColumnType.BOOLEAN: pa.bool_(),
    ColumnType.DATE: pa.date32(),
    ColumnType.TIMESTAMP: pa.timestamp("us"),
}
VALUES: dict[ColumnType, list[Any]] = {
    ColumnType.INTEGER: [0, 7, -1, 2**63 - 1, -(2**63), None],
    ColumnType.REAL: [0.0, -0.0, 1.0, 0.1, -2.5, 1e16, 1e300, 5e-324, 1e-5, 123456789.123, None],
    ColumnType.TEXT: ["", "a", "north", ":", "!", "3:abc", "ZOË", "🤦🏼‍♂️", "a\0b", "\0", "x" * 200, " ", "'", "$salt", None],
    ColumnType.BOOLEAN: [True, False, None],
    ColumnType.DATE: [date(1970, 1, 1), date(1, 1, 1), date(9999, 12, 31), date(2024, 2, 29), None],
    ColumnType.TIMESTAMP: [datetime(1970, 1, 1), datetime(1, 1, 1, 0, 0, 0, 1), datetime(9999, 12, 31, 23, 59), None],
}  # fmt: skip


# --- the formula ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("salt", SALTS)
@pytest.mark.parametrize("kind", list(TYPES))
def test_the_sql_computes_the_reference(kind: ColumnType, salt: str) -> None:
    """Alone, and before and after a text, for every type."""
    pairs = list(product(VALUES[kind], VALUES[ColumnType.TEXT]))
    given_ = pa.table({"a": pa.array([a for a, _ in pairs], TYPES[kind]), "b": pa.array([b for _, b in pairs])})
    parts = {"a": ("a", kind, True), "b": ("b", ColumnType.TEXT, True)}
    for names in (["a"], ["a", "b"], ["b", "a"], ["a", "a"]):
        with duckdb.connect() as connection:
            connection.register("given", given_)
            sql = f"SELECT {digest_sql([parts[name] for name in names])} AS d FROM given"
            found = connection.sql(sql, params={"salt": salt}).to_arrow_table().column("d").to_pylist()
        rows = [dict(zip("ab", pair, strict=True)) for pair in pairs]
        assert found == [digest(salt, [row[name] for name in names]) for row in rows]


def test_what_is_never_null_is_written_in_the_same_way() -> None:
    for kind, values in VALUES.items():
        present = pa.table({"a": pa.array([value for value in values if value is not None], TYPES[kind])})
        with duckdb.connect() as connection:
            connection.register("given", present)
            both = [digest_sql([("a", kind, nullable)]) for nullable in (True, False)]
            found = connection.sql(f"SELECT {both[0]} AS x, {both[1]} AS y FROM given", params={"salt": "1"}).fetchall()
        assert all(x == y for x, y in found)


@pytest.mark.parametrize("salt", SALTS)
@pytest.mark.parametrize("kind", list(TYPES))
def test_the_sql_computes_the_reference_of_places(kind: ColumnType, salt: str) -> None:
    pairs = [(who, g) for who in VALUES[kind] if who is not None for g in (0, 1, 2, 49, 9_999_999)]
    given_ = pa.table({"u": pa.array([who for who, _ in pairs], TYPES[kind]), "g": [g for _, g in pairs]})
    with duckdb.connect() as connection:
        connection.register("given", given_)
        placed = with_place("SELECT * FROM given", ("u", kind, False), "g")
        sql = f"SELECT p, {place_offset_sql('p')} AS h FROM ({placed})"
        found = connection.sql(sql, params={"salt": salt}).fetchall()
    places = [place(salt, who, g) for who, g in pairs]
    assert found == [(drawn, place_offset(salt, drawn)) for drawn in places]
    assert all(0 <= drawn < 2**32 and 0 <= place_offset(salt, drawn) < OFFSETS for drawn in places)


def test_groups_of_one_person_have_different_places() -> None:
    assert len({place("5a17", 12, g) for g in range(20_000)}) == 20_000


SHAPES = st.lists(st.sampled_from(list(TYPES)), min_size=1, max_size=3)
DRAWN = {
    ColumnType.INTEGER: st.integers(-(2**63), 2**63 - 1),
    ColumnType.REAL: st.floats(allow_nan=False),
    ColumnType.TEXT: st.text(st.sampled_from(":!0123ab"), max_size=5),
    ColumnType.BOOLEAN: st.booleans(),
    ColumnType.DATE: st.dates(),
    ColumnType.TIMESTAMP: st.datetimes(),
}


@given(st.data())
def test_different_values_have_different_digests(data: st.DataObject) -> None:
    """("a", "bc") is not ("ab", "c"), whatever separators texts hold, and null is not a text."""
    shape = data.draw(SHAPES)
    one, other = (data.draw(st.tuples(*(st.none() | DRAWN[kind] for kind in shape))) for _ in range(2))
    assert (digest("s", one) == digest("s", other)) == (one == other)


# --- fairness -------------------------------------------------------------------------------------------------------


def unfairness(counts: Sequence[int], people: int, kept: int) -> float:
    """χ² with len(counts) − 1 degrees of freedom, if each person keeps `kept` of all keys, each as likely as others."""
    size = len(counts)
    share = kept / size
    return sum((n - people * share) ** 2 for n in counts) / (people * share * (1 - share)) * (size - 1) / size


def is_fair(counts: Sequence[int], people: int, kept: int) -> bool:
    return unfairness(counts, people, kept) <= chi2.isf(FALSE_ALARM, len(counts) - 1)


PEOPLE = 6_000
KEY_SETS: dict[str, tuple[ColumnType, list[Any]]] = {
    "letters": (ColumnType.TEXT, ["a", "b", "c", "d", "e"]),
    "wards": (ColumnType.TEXT, ["cardiology", "emergency", "oncology", "surgery"]),
    "prefixes": (ColumnType.TEXT, ["", "0", "00", "000", "0000", "00000"]),
    "long": (ColumnType.TEXT, ["x" * n for n in (10, 100, 1000)]),
    "numbers": (ColumnType.INTEGER, list(range(8))),
    "powers": (ColumnType.INTEGER, [2**n for n in range(0, 60, 9)]),
    "far apart": (ColumnType.INTEGER, [-(2**63), -1, 0, 2**63 - 1]),
    "flags": (ColumnType.BOOLEAN, [True, False]),
    "days": (ColumnType.DATE, [date(2024, 1, day) for day in range(1, 8)]),
    "times": (ColumnType.TIMESTAMP, [datetime(2024, 1, 1, hour) for hour in range(6)]),
}
PERSONS: dict[str, tuple[ColumnType, list[Any]]] = {
    "numbers": (ColumnType.INTEGER, list(range(PEOPLE))),
    "texts": (ColumnType.TEXT, [f"p-{i:07d}" for i in range(PEOPLE)]),
    "days": (ColumnType.DATE, [date.fromordinal(700_000 + i) for i in range(PEOPLE)]),
}


def kept_groups(
    who: tuple[ColumnType, list[Any]], keys: tuple[ColumnType, list[Any]], groups: int, column: Column | None = None
) -> Counter[Any]:
    """How many people count in each group, where everybody has a row in all of them."""
    columns = [Column("who", who[0]), column or Column("k", keys[0])]
    table = Table("t", columns, unit=Unit("who"), groups=groups, rows=1)
    known = Catalog("d", [table], neighbors="add or remove one")
    people = [value for value in who[1] for _ in keys[1]]
    rows = pa.table({"who": pa.array(people, TYPES[who[0]]), "k": pa.array(keys[1] * len(who[1]), TYPES[keys[0]])})
    asked = plan(["SELECT k, COUNT(*) AS n FROM t GROUP BY k"], known, Terms(epsilon=1, delta="1e-6"))
    with DuckDBEngine(known, {"t": rows}) as engine:
        found = engine.fetch(writer.write(asked.releases[0].aggregate), salt="5a17")
    group = asked.releases[0].group
    names = found.column("k0") if group.size is None else group_names(group)[0].take(found.column("g"))
    return Counter(dict(zip(names.to_pylist(), found.column("units").to_pylist(), strict=True)))


@pytest.mark.parametrize(
    ("keys", "groups"), [(name, most) for name in KEY_SETS for most in (1, 2) if most < len(KEY_SETS[name][1])]
)
def test_each_group_of_a_person_is_as_likely_as_the_others(keys: str, groups: int) -> None:
    values = KEY_SETS[keys][1]
    found = kept_groups(PERSONS["numbers"], KEY_SETS[keys], groups)
    assert sum(found.values()) == groups * PEOPLE
    assert is_fair([found[value] for value in values], PEOPLE, groups), found


@pytest.mark.parametrize("persons", list(PERSONS))
def test_the_draw_is_fair_whatever_names_people(persons: str) -> None:
    found = kept_groups(PERSONS[persons], KEY_SETS["letters"], 1)
    assert is_fair([found[value] for value in KEY_SETS["letters"][1]], PEOPLE, 1), found


DECLARED = {
    "letters": Column("k", "text", values=["a", "b", "c", "d", "e"], nullable=False),
    "letters or null": Column("k", "text", values=["a", "b", "c"]),
    "numbers": Column("k", "integer", lower=-3, upper=4, nullable=False),
    "flags or null": Column("k", "boolean"),
}


@pytest.mark.quick_cases(18)
@pytest.mark.parametrize("persons", [*PERSONS, "far apart"])
@pytest.mark.parametrize(("keys", "groups"), [(name, most) for name in DECLARED for most in (1, 2)])
def test_declared_groups_are_as_likely_as_each_other(persons: str, keys: str, groups: int) -> None:
    column = DECLARED[keys]
    far = (ColumnType.INTEGER, [i << 40 for i in range(PEOPLE)])
    values = {"text": column.values, "integer": range(-3, 5), "boolean": (False, True)}[str(column.kind)] or ()
    listed = [*values, *([None] if column.nullable else [])]
    found = kept_groups(PERSONS.get(persons, far), (column.kind, listed), groups, column)
    assert sum(found.values()) == groups * PEOPLE
    assert is_fair([found[value] for value in listed], PEOPLE, groups), found


def test_a_draw_that_is_off_by_a_third_would_be_noticed() -> None:
    """The test above has power: one key of five 30 % too often is rejected, and so is the engine's own hash."""
    fair = PEOPLE / 5
    assert not is_fair([1.3 * fair, *[(PEOPLE - 1.3 * fair) / 4] * 4], PEOPLE, 1)  # type: ignore[list-item]
    with duckdb.connect() as connection:
        cells = "FROM range(6000) AS a(u), (VALUES ('a'), ('b'), ('c'), ('d'), ('e')) AS b(k)"
        found = Counter(k for (k,) in connection.sql(f"SELECT arg_min(k, hash(u, k)) {cells} GROUP BY u").fetchall())
    assert not is_fair([found[key] for key in "abcde"], PEOPLE, 1)


def test_rounding_is_as_fair_among_the_groups_that_count() -> None:
    """The offset of a group that was drawn is any of 2^16 with the same probability."""
    with duckdb.connect() as connection:
        parts = [("u", ColumnType.INTEGER, False), ("k", ColumnType.INTEGER, False)]
        cells = f"SELECT u, {digest_sql(parts)} AS d FROM range(20000) AS a(u), range(10) AS b(k)"
        sql = f"SELECT {offset_sql('min(d)')} AS o FROM ({cells}) GROUP BY u"
        offsets = connection.sql(sql, params={"salt": "5a17"}).to_arrow_table().column("o").to_numpy()
    assert_even(offsets)


def test_rounding_is_as_fair_among_declared_groups_that_count() -> None:
    with duckdb.connect() as connection:
        cells = with_place(
            "SELECT * FROM range(20000) AS a(u), range(10) AS b(k)", ("u", ColumnType.INTEGER, False), "k"
        )
        sql = f"SELECT {place_offset_sql('min(p)')} AS o FROM ({cells}) GROUP BY u"
        assert_even(connection.sql(sql, params={"salt": "5a17"}).to_arrow_table().column("o").to_numpy())


def assert_even(offsets: Any) -> None:
    """Of 20,000 offsets, each of 32 ranges has about as many."""
    assert (offsets.min() >= 0) & (offsets.max() < OFFSETS)
    counts = np.bincount(offsets * 32 // OFFSETS, minlength=32)
    assert ((counts - 625) ** 2).sum() / 625 <= chi2.isf(FALSE_ALARM, 31)


def test_another_salt_is_another_draw_and_the_same_salt_the_same() -> None:
    def drawn(salt: str) -> list[int]:
        cells = [[digest(salt, [person, key]) for key in "abcde"] for person in range(100)]
        return [row.index(min(row)) for row in cells]

    assert drawn("5a17") == drawn("5a17")
    assert drawn("5a17") != drawn("5a18")
    assert salt_text(b"one") != salt_text(b"two")


# --- rows -----------------------------------------------------------------------------------------------------------

WHO, X = Column("who", "integer"), Column("x", "integer", lower=0, upper=9)
ROWS = Table("t", [WHO, X], unit=Unit("who"))
KNOWN = Catalog("d", [ROWS], neighbors="add or remove one")


def drawn_rows(rows: pa.Table, most: int, **more: bool) -> pa.Table:
    with DuckDBEngine(KNOWN, {"t": rows}) as engine:
        return engine.fetch(rows_each(ROWS, [X], most=most, **more), salt="5a17")


@pytest.mark.parametrize("most", [1, 2])
def test_each_row_of_a_person_is_as_likely_as_the_others(most: int) -> None:
    """Not the least ones; and a value that a person has twice is twice as likely."""
    held = [0, 1, 2, 3, 3]
    rows = pa.table({"who": np.repeat(np.arange(PEOPLE), len(held)), "x": held * PEOPLE})
    found = Counter(drawn_rows(rows, most).column("x").to_pylist())
    assert sum(found.values()) == most * PEOPLE
    apart = [found[value] for value in (0, 1, 2)]
    assert is_fair([*apart, found[3] / 2, found[3] / 2], PEOPLE, most), found  # type: ignore[list-item]


def test_what_a_person_gives_does_not_depend_on_others_or_on_the_order_of_rows() -> None:
    mine = [(1, x) for x in (5, 2, 2, 8)]
    company = [(who, x) for who in range(2, 40) for x in (1, 5, 9)]

    def given_(rows: list[tuple[int, int]]) -> list[tuple[int, int]]:
        table = pa.table({"who": [who for who, _ in rows], "x": [x for _, x in rows]})
        found = drawn_rows(table, 2, keyed=True, numbered=True)
        return sorted(row[1:] for row in zip(*(part.to_pylist() for part in found.columns), strict=True) if row[0] == 1)

    alone = given_(mine)
    assert [number for _, number in alone] in ([1, 2], [2, 1])
    assert given_(company + mine) == given_(mine[::-1] + company) == alone


# --- the salt stays inside ------------------------------------------------------------------------------------------


class SpyEngine:
    """The real engine, which writes down the salts it was given; `broken` SQL is run in place of the plan's."""

    dialect = "duckdb"

    def __init__(self, engine: DuckDBEngine, broken: str = "") -> None:
        self.engine, self.broken, self.salts = engine, broken, []

    @property
    def version(self) -> str:
        return self.engine.version

    def fetch(self, sql: str, *, salt: str = "") -> pa.Table:
        self.salts.append(salt)
        assert salt not in sql or not salt
        return self.engine.fetch(self.broken or sql, salt=salt)


@pytest.fixture
def asked() -> Any:
    columns = [Column("who", "integer"), Column("x", "integer", lower=0, upper=9, nullable=False)]
    table = Table("t", columns, unit=Unit("who"), groups=2, rows=1)
    known = Catalog("d", [table], neighbors="add or remove one")
    rows = pa.table({"who": [1, 1, 1, 2], "x": [1, 2, 3, 4]})
    ledger = Ledger(MemoryStore())
    ledger.open("d", Budget(epsilon=9))
    made = plan(["SELECT x, COUNT(*) AS n, SUM(x) AS s FROM t GROUP BY x"], known, Terms(epsilon=1))
    with DuckDBEngine(known, {"t": rows}) as engine:
        yield known, ledger, made, engine


def test_the_gate_draws_with_the_salt_of_the_account(asked: Any) -> None:
    known, ledger, made, engine = asked
    spy = SpyEngine(engine)
    (answer,) = Curator(known, spy, ledger).release(made, analyst="ann")
    secret, salt = ledger.salt("d"), salt_text(ledger.salt("d"))
    assert spy.salts == [salt]
    said = explanation([made.text], made.releases, made.neighbors, loss=made.loss, epsilon=made.epsilon,
                       delta=made.delta, confidence=made.confidence)  # fmt: skip
    seen = [
        repr(made),
        str(made.document()),
        made.text,
        str(said),
        repr(said.to_json()),
        repr(answer),
        repr(answer.to_json()),
    ]
    seen += [repr(charge) for charge in ledger.charges("d")]
    assert not any(word in text for text in seen for word in (salt, secret.hex(), repr(secret)[2:-1]))
    assert "$salt" in repr(said.to_json())


@pytest.mark.parametrize("broken", ["SELECT nothing, $salt", "SELECT error($salt[1:0])", "SELEC $salt"])
def test_a_failure_does_not_tell_the_salt(asked: Any, broken: str) -> None:
    known, ledger, made, engine = asked
    log = io.StringIO()
    handler = logging.StreamHandler(log)  # of its own: libraries change how others write
    OWNER.addHandler(handler)
    try:
        with pytest.raises(ReleaseFailed) as failed:
            Curator(known, SpyEngine(engine, broken), ledger).release(made, analyst="ann")
    finally:
        OWNER.removeHandler(handler)
    salt = salt_text(ledger.salt("d"))
    assert "Traceback" in log.getvalue()
    assert salt not in str(failed.value) + log.getvalue()


def test_without_a_salt_nothing_is_charged(asked: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    known, ledger, made, engine = asked

    def gone(account: str) -> bytes:
        raise OSError("the salt is gone")

    monkeypatch.setattr(ledger, "salt", gone)
    with pytest.raises(OSError, match="gone"):
        Curator(known, engine, ledger).release(made, analyst="ann")
    assert not ledger.charges("d")
