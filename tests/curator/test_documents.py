"""Documents: exact round trips, one text for one value, refusals in words; names that do not follow Python's."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from enum import Enum
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.curator.catalog import Column, Table
from discreet.curator.plan import (
    canonical,
    digest,
    documented,
    from_document,
    plan_document,
    plan_parts,
    to_document,
)
from discreet.errors import InvalidData
from discreet.privacy.loss import Pure, Repeated, Together
from discreet.privacy.unit import Neighbors, Unit


@documented("test shape")
class Shape(Enum):
    ROUND = "round"


@documented("test point", names={"x": "east"})
class Point(NamedTuple):
    x: int
    y: int = 0


@documented("test map", names={"points": "dots"}, omit={"title": "untitled"})
@dataclass(frozen=True)
class Map:
    points: tuple[Any, ...]
    title: str
    shape: Shape = Shape.ROUND
    size: int = field(init=False, default=3)


TABLE = Table(
    "visits",
    [Column("patient", "integer"), Column("days", "real", lower=0, upper="0.3", granularity="0.1", nullable=False)],
    unit=Unit("patient"),
)
UNFOLDED = st.datetimes().map(lambda moment: moment.replace(fold=0))
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.fractions(), st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=["Cs"])), st.binary(), st.dates(), UNFOLDED, st.times().map(lambda moment: moment.replace(fold=0)), st.timedeltas(),
    st.sampled_from([Shape.ROUND, Neighbors.CHANGE_ONE, TABLE, Unit(), Together(Pure(1), Repeated(Pure("1/3"), 2)), range(3, 2**60, 7)]),
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(st.text("abc") | st.integers(), inner, max_size=3),
        st.builds(Point, inner, inner),
        st.builds(lambda points: Map(points, "untitled"), st.lists(inner, max_size=3).map(tuple)),
    ),
    max_leaves=8,
)


def types(value: Any) -> Any:
    """A value with the types of all its parts: 1, True and 1.0 are equal in Python."""
    if isinstance(value, Mapping):
        return [(types(key), types(item)) for key, item in value.items()]
    parts = [types(item) for item in value] if isinstance(value, tuple) else repr(value)
    return type(value), parts


@given(VALUES)
@settings(max_examples=150)
def test_every_value_is_read_back_as_it_was_from_its_one_text(value):
    document = to_document(value)
    read = from_document(json.loads(canonical(document)))
    assert types(read) == types(value)
    assert canonical(to_document(read)) == canonical(document)
    canonical(document).encode()


@given(VALUES, VALUES)
@settings(max_examples=100)
def test_different_values_have_different_texts(first, second):
    same = types(first) == types(second)
    assert (canonical(to_document(first)) == canonical(to_document(second))) is same


def test_fields_go_by_their_documents_names_and_what_is_omitted_does_not_matter():
    assert to_document(Map((Point(1),), "a")) == {
        "is": "test map",
        "dots": [{"is": "test point", "east": 1, "y": 0}],
        "shape": {"is": "test shape", "value": "round"},
    }
    assert digest(to_document(Map((), "a"))) == digest(to_document(Map((), "b")))
    assert from_document(to_document(Map((), "a"))).title == "untitled"


def test_a_table_is_written_with_everything_that_the_guarantee_depends_on():
    other = Table("visits", TABLE.columns, unit=TABLE.unit, groups=4, rows=9)
    assert from_document(to_document(other)) == other != from_document(to_document(TABLE)) == TABLE
    assert canonical(to_document(TABLE)) == (
        '{"columns":[{"granularity":{"rational":"1"},"is":"column","lower":null,"name":"patient","nullable":true,'
        '"type":{"is":"column type","value":"integer"},"upper":null,"values":null},'
        '{"granularity":{"rational":"0.1"},"is":"column","lower":{"rational":"0"},"name":"days","nullable":false,'
        '"type":{"is":"column type","value":"real"},"upper":{"rational":"0.3"},"values":null}],"is":"table","max_groups_per_unit":null,"max_rows_per_group":null,'
        '"name":"visits","unit":{"is":"unit","person":"patient"}}'
    )


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"is": "test maps", "dots": []}, "unknown name 'test maps'"),
        ({"is": "test point", "east": 1}, "missing 'y'"),
        ({"is": "test point", "east": 1, "y": 2, "z": 3}, "got also 'z'"),
        ({"is": "test point", "x": 1, "y": 2}, "got also 'x'; missing 'east'"),
        ({"is": "test shape", "value": "square"}, "not a valid Shape"),
        ({"is": ["test point"]}, "unknown name"),
        ({"is": "column", "name": "a"}, "missing 'type'"),
        ({"rational": "1/0"}, "rational"),
        ({"rational": "half"}, "rational"),
        ({"integer": "1.5"}, "integer"),
        ({"bytes": "?"}, "bytes"),
        ({"date": "yesterday"}, "date"),
        ({"decimal": "1"}, "decimal"),
        ({"rational": "1", "integer": "1"}, "rational, integer"),
        ({}, "cannot be read"),
        ([1.5], "a float"),
    ],
)
def test_what_is_not_understood_to_the_last_field_is_refused_in_words(document, words):
    with pytest.raises(InvalidData, match=words.replace("(", "\\(")):
        from_document(document)


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), object(), {1, 2}, 1j, type("Other", (tuple,), {})((1,)), Exception("?")]
)
def test_what_cannot_be_written_exactly_is_refused(value):
    with pytest.raises(InvalidData, match="register its class first"):
        to_document((1, value))


def test_a_class_is_registered_once():
    documented("test point", names={"x": "east"})(Point)
    with pytest.raises(TypeError, match="registered before"):
        documented("test point")(Point)
    with pytest.raises(TypeError, match="registered before"):
        documented("test pt", names={"x": "east"})(Point)
    with pytest.raises(TypeError, match="each once"):
        documented("test other", names={"z": "east"})(NamedTuple("Other", [("x", int)]))


def test_the_document_of_a_plan_says_its_kind_and_version():
    document = plan_document("toss", 1, times=2**60, when=date(2026, 1, 2), at=time(1), since=timedelta(3))
    parts = plan_parts(json.loads(canonical(document)), "toss", 1, ["times", "when", "at", "since"])
    assert parts == {"times": 2**60, "when": date(2026, 1, 2), "at": time(1), "since": timedelta(3)}
    for kind, version, names in (
        ("toss", 2, parts),
        ("roll", 1, parts),
        ("toss", 1, ["times"]),
        ("toss", 1, [*parts, "x"]),
    ):
        with pytest.raises(InvalidData, match="another version"):
            plan_parts(document, kind, version, names)


def test_dates_and_times_are_not_confused():
    assert to_document(datetime(2026, 1, 2)) == {"datetime": "2026-01-02T00:00:00"}
    assert to_document(date(2026, 1, 2)) == {"date": "2026-01-02"}
