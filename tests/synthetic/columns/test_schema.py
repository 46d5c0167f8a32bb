"""Columns as codes and back: exact inverses on every kind of column, and no value that makes reading fail."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.curator.catalog import Column
from discreet.errors import InvalidData, InvalidParameter
from discreet.noise import DeterministicEntropy
from discreet.synthetic.columns.schema import MOST_CODES, Attribute, Schema

RUNS = settings(max_examples=40, deadline=None)
NULLABLE = st.booleans()


def again(attribute, draws=3, seed=1):
    """Every code, decoded and encoded again, a few times."""
    codes = np.tile(np.arange(attribute.size), draws)
    made = Schema([attribute]).decode(codes[:, None], DeterministicEntropy(seed))
    return codes, made, attribute.encode(made.column(0))


def assert_inverse(attribute, seed=1):
    codes, made, found = again(attribute, seed=seed)
    assert found.tolist() == codes.tolist()
    assert made.column(0).null_count == (3 if attribute.missing else 0)
    assert len(attribute.labels) == attribute.size


# --- the inverse ----------------------------------------------------------------------------------------------------

whole = st.integers(-(2**61) + 1, 2**61 - 1) | st.integers(-1000, 1000)


@RUNS
@given(st.tuples(whole, whole), st.none() | st.integers(1, 50), NULLABLE, st.integers(0, 99))
def test_whole_numbers(bounds, bins, nullable, seed):
    column = Column("n", "integer", lower=min(bounds), upper=max(bounds), nullable=nullable)
    attribute = Attribute.of(column, bins=bins)
    assert_inverse(attribute, seed)
    drawn = pa.compute.drop_null(again(attribute, seed=seed)[1].column(0)).to_pylist()
    assert min(bounds) <= min(drawn) <= max(drawn) <= max(bounds)
    ends = attribute.encode(pa.array([min(bounds), max(bounds), -(2**63), 2**63 - 1], pa.int64())).tolist()
    assert ends == [0, attribute.known - 1] * 2


reals = st.fractions(-1000, 1000, max_denominator=1000) | st.sampled_from([Fraction(-(10**20)), Fraction(10**20)])


@RUNS
@given(reals, reals, st.none() | st.integers(1, 50), NULLABLE)
def test_real_numbers_without_a_grid(one, other, bins, nullable):
    column = Column("x", "real", lower=min(one, other), upper=max(one, other), nullable=nullable)
    attribute = Attribute.of(column, bins=bins)
    assert attribute.step is None
    assert_inverse(attribute)
    drawn = pa.compute.drop_null(again(attribute)[1].column(0)).to_numpy()
    assert float(column.lower) <= drawn.min() <= drawn.max() <= float(column.upper)


@RUNS
@given(st.integers(-5000, 5000), st.integers(0, 5000), st.fractions(Fraction(1, 1000), 100, max_denominator=1000), st.none() | st.integers(1, 50))  # fmt: skip
def test_real_numbers_on_a_grid(first, steps, step, bins):
    column = Column("x", "real", lower=first * step, upper=(first + steps) * step, granularity=step)
    attribute = Attribute.of(column, bins=bins)
    assert_inverse(attribute)
    drawn = pa.compute.drop_null(again(attribute)[1].column(0)).to_numpy()
    nearest = np.rint(drawn / float(step)).astype(int)
    assert [float(n * step) for n in nearest.tolist()] == pytest.approx(drawn.tolist(), rel=1e-12)


@RUNS
@given(st.lists(reals, min_size=2, max_size=8, unique=True), st.sampled_from(["integer", "real"]))
def test_bins_that_are_given(edges, kind):
    column = Column("x", kind)
    try:
        attribute = Attribute.of(column, bins=sorted(edges))
    except InvalidParameter as refused:
        assert kind == "integer"
        assert "step" in str(refused) or "64 bits" in str(refused)
        return
    assert attribute.known == len(edges) - 1
    assert_inverse(attribute)


def brute(value, edges):
    """The bin of a whole number by the definition: the one that has it, or else the nearest that has any."""
    last = len(edges) - 2
    held = {n: [v for v in range(-2, 6) if edges[n] <= v and (v < edges[n + 1] or (n == last and v == edges[-1]))] for n in range(last + 1)}  # fmt: skip
    if not all(held.values()):
        return None
    return min(held, key=lambda n: min(abs(value - v) for v in held[n]))


def test_a_whole_number_is_in_the_bin_that_its_edges_say():
    """All edges in quarters from 0 to 3, three at a time; a bin that holds no whole number is refused."""
    values = list(range(-2, 6))
    for edges in combinations([Fraction(n, 4) for n in range(13)], 3):
        wanted = [brute(value, edges) for value in values]
        if wanted[0] is None:
            with pytest.raises(InvalidParameter, match="hold"):
                Attribute.of(Column("n", "integer"), bins=edges)
        else:
            assert Attribute.of(Column("n", "integer"), bins=edges).encode(pa.array(values)).tolist() == wanted


def test_bins_as_narrow_as_floats_allow():
    edges = [Fraction(1 + 2 * n * 2.0**-52) for n in range(6)]
    attribute = Attribute.of(Column("x", "real"), bins=edges)
    codes, _, found = again(attribute, draws=50)
    assert found.tolist() == codes.tolist()


dates = st.dates(date(1, 1, 1), date(9999, 12, 31))


@RUNS
@given(st.lists(dates, min_size=2, max_size=8, unique=True), NULLABLE)
def test_dates(edges, nullable):
    attribute = Attribute.of(Column("d", "date", nullable=nullable), bins=[str(edge) for edge in sorted(edges)])
    assert_inverse(attribute)
    assert Attribute.of(Column("d", "date", nullable=nullable), bins=sorted(edges)) == attribute
    found = attribute.encode(pa.array(sorted(edges))).tolist()
    assert found == [*range(len(edges) - 1), len(edges) - 2]
    assert attribute.labels[0].startswith(str(min(edges)))


@RUNS
@given(st.lists(st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)), min_size=2, max_size=8, unique=True))
def test_times(edges):
    kept = sorted({edge.replace(microsecond=0) for edge in edges})
    if len(kept) < 2:
        return
    attribute = Attribute.of(Column("t", "timestamp"), bins=[edge.isoformat() for edge in kept])
    assert_inverse(attribute)
    found = attribute.encode(pa.array([*kept, kept[1] - timedelta(microseconds=1), None], pa.timestamp("us"))).tolist()
    assert found == [*range(len(kept) - 1), len(kept) - 2, 0, attribute.known]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_before_1970_and_of_every_unit(unit):
    attribute = Attribute.of(Column("t", "timestamp"), bins=["1969-12-31T23:59:59", "1970-01-01", "1970-01-02"])
    half = np.array(["1969-12-31T23:59:59.5", "1970-01-01T00:00:00", "1969-12-31T23:59:58.1"], "datetime64[ms]")
    given = pa.array(half.astype(f"datetime64[{unit}]"))
    assert attribute.encode(given).tolist() == [0, 1, 0]
    assert attribute.encode(pa.array([datetime(1970, 1, 1, tzinfo=UTC)])).tolist() == [1]


VALUES = {
    "text": ["", "a", "A", "ä", "å", "日本", "a,b", "missing", "?"],
    "integer": [3, -2, 2**60],
    "boolean": [True, False],
    "date": ["1969-12-31", "0001-01-01", "9999-12-31"],
    "timestamp": ["2020-01-31 12:00", "1969-12-31T23:59:59.250000"],
}


@pytest.mark.parametrize("nullable", [True, False])
@pytest.mark.parametrize("kind", list(VALUES))
def test_declared_values(kind, nullable):
    attribute = Attribute.of(Column("v", kind, values=VALUES[kind], nullable=nullable))
    assert_inverse(attribute)
    assert_inverse(Attribute.of(Column("v", kind, nullable=nullable), values=VALUES[kind]))


@pytest.mark.parametrize("nullable", [True, False])
def test_one_value_and_truth(nullable):
    assert_inverse(Attribute.of(Column("v", "text", values=["x"], nullable=nullable)))
    assert_inverse(Attribute.of(Column("v", "real", lower=2, upper=2, nullable=nullable)))
    assert_inverse(Attribute.of(Column("v", "integer", lower=2, upper=2, nullable=nullable)))
    assert Attribute.of(Column("v", "boolean", nullable=nullable)).size == 2 + nullable
    assert_inverse(Attribute.of(Column("v", "boolean", nullable=nullable)))


def test_values_that_were_found_and_none():
    town = Column("town", "text", nullable=False)
    assert_inverse(Attribute.found(town, ["Köln", "Oslo"]))
    assert Attribute.found(town, ["Oslo"]).encode(pa.array(["Oslo", "Rome", None])).tolist() == [0, 1, 1]
    nothing = Attribute.found(town, [])
    assert nothing.size == 1
    assert nothing.encode(pa.array(["Oslo", None])).tolist() == [0, 0]
    assert_inverse(nothing)


def test_drawing_fills_a_bin_evenly_to_its_ends():
    """Each value of a bin of 4 has the chance 1/4: 4000 draws within six standard deviations."""
    attribute = Attribute.of(Column("n", "integer", lower=0, upper=7), bins=2)
    made = Schema([attribute]).decode(np.ones((4000, 1), np.int64), DeterministicEntropy(3)).column(0).to_numpy()
    counts = np.bincount(made, minlength=8)
    assert counts[:4].tolist() == [0] * 4
    assert np.abs(counts[4:] - 1000).max() < 6 * np.sqrt(750)
    real = Attribute.of(Column("x", "real", lower=0, upper=1), bins=1)
    drawn = Schema([real]).decode(np.zeros((4000, 1), np.int64), DeterministicEntropy(3)).column(0).to_numpy()
    assert abs(drawn.mean() - 0.5) < 6 / np.sqrt(12 * 4000)
    assert drawn.min() < 0.01 < 0.99 < drawn.max() <= 1


# --- no value makes reading fail ------------------------------------------------------------------------------------

STRANGE = {
    "integer": [
        pa.array([2**63 - 1, -(2**63), None]),
        pa.array([2**64 - 1, 0], pa.uint64()),
        pa.array([np.nan, np.inf, -np.inf, 1e300, None]),
        pa.array(["", "x", "1e400", "nan", "-inf", "9" * 400, " 7 ", "٣", None]),
        pa.array([Decimal("1.5"), None]),
        pa.array([None, None]),
        pa.array(["5", None]).dictionary_encode(),
        pa.chunked_array([], pa.int64()),
    ],
    "real": [
        pa.array([np.nan, np.inf, -np.inf, 5e-324, 1.8e308, None]),
        pa.array([2**63 - 1, None]),
        pa.array(["", "x", "1e400", "NaN", "1_0", None]),
        pa.array([None]),
    ],
    "date": [
        pa.array([-(2**31), 2**31 - 1, None], pa.int32()).cast(pa.date32()),
        pa.array([date.min, date.max, None]),
        pa.array([-(2**63), 2**63 - 1], pa.int64()).cast(pa.timestamp("us")),
        pa.array(["", "2020-02-30", "0000-01-01", "99999-01-01", "2020-01-01T25:00", None]),
        pa.array([None]),
    ],
    "timestamp": [
        pa.array([-(2**63), 2**63 - 1, None], pa.int64()).cast(pa.timestamp("ns")),
        pa.array([-(2**63), 2**63 - 1, None], pa.int64()).cast(pa.timestamp("s")),
        pa.array([-(2**31), 2**31 - 1], pa.int32()).cast(pa.date32()),
        pa.array(["", "x", "2020-01-01T00:00:00+23:59", "0001-01-01T00:00:00+23:59", None]),
    ],
    "text": [pa.array(["", "\0", "x" * 10**5, None]), pa.array([None]), pa.chunked_array([["a"], [None]])],
    "boolean": [pa.array([True, None]), pa.array(["yes", "NO", "maybe", "1", "", None]), pa.array([0, 1, 2])],
}  # fmt: skip
ATTRIBUTES = {
    "integer": [Attribute.of(Column("v", "integer", lower=-5, upper=2**60)), Attribute.of(Column("v", "integer", values=[5]))],
    "real": [Attribute.of(Column("v", "real", lower="-0.5", upper="1e20")), Attribute.of(Column("v", "real", lower=-1, upper=1, granularity="0.1"))],
    "date": [Attribute.of(Column("v", "date"), bins=["0001-01-01", "9999-12-31"])],
    "timestamp": [Attribute.of(Column("v", "timestamp"), bins=["0001-01-01", "1970-01-01", "9999-12-31T23:59:59"])],
    "text": [Attribute.of(Column("v", "text", values=["a", ""])), Attribute.found(Column("v", "text"), [])],
    "boolean": [Attribute.of(Column("v", "boolean"))],
}  # fmt: skip


@pytest.mark.parametrize("kind", list(STRANGE))
def test_strange_values_have_a_code(kind):
    for attribute in ATTRIBUTES[kind]:
        for array in STRANGE[kind]:
            codes = attribute.encode(array)
            assert codes.dtype == np.int64
            assert len(codes) == len(array)
            assert codes.min(initial=0) >= 0
            assert codes.max(initial=0) < attribute.size


@RUNS
@given(st.lists(st.text(max_size=12) | st.floats().map(repr) | st.none(), max_size=6), st.sampled_from(list(STRANGE)))
def test_any_texts_have_a_code(texts, kind):
    for attribute in ATTRIBUTES[kind]:
        codes = attribute.encode(pa.array(texts, pa.string()))
        assert ((codes >= 0) & (codes < attribute.size)).all()


def test_what_clamps_and_what_is_missing():
    n = Attribute.of(Column("n", "integer", lower=0, upper=9), bins=5)
    assert n.encode(pa.array([-3, 0, 1, 9, 10, None])).tolist() == [0, 0, 0, 4, 4, 5]
    x = Attribute.of(Column("x", "real", lower=0, upper=1), bins=2)
    assert x.encode(pa.array([-np.inf, 0.499, 0.5, 1.0, np.inf, np.nan])).tolist() == [0, 0, 1, 1, 1, 2]
    snapped = Attribute.of(Column("x", "real", lower=0, upper=1, granularity="0.1"))
    assert snapped.encode(pa.array([0.1 + 0.2, 0.7999999, 0.84, 0.1 * 3])).tolist() == [3, 8, 8, 3]
    ids = Attribute.of(Column("n", "integer", lower=2**60, upper=2**60 + 9))
    assert ids.encode(pa.array([2**60 + n for n in range(10)])).tolist() == list(range(10))


def test_rows_without_a_code_are_left_out():
    schema = Schema(
        [
            Attribute.of(Column("n", "integer", lower=0, upper=3, nullable=False)),
            Attribute.of(Column("t", "text", values=["a"])),
        ]
    )
    codes, kept = schema.encode({"n": [1, None, 3], "t": ["b", "a", "a"], "more": [1, 2, 3]})
    assert codes.tolist() == [[1, 1], [3, 0]]
    assert kept.tolist() == [True, False, True]
    empty, _ = schema.encode(pa.table({"n": pa.array([], pa.int64()), "t": pa.array([], pa.string())}))
    assert empty.shape == (0, 2)


# --- what is refused, and how ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "given", "words"),
    [
        (Column("t", "text"), {}, "discover"),
        (Column("t", "text"), {"bins": 3}, "bins for columns of numbers"),
        (Column("t", "text", values=["a"]), {"bins": ["a", "b"]}, "bins for columns of numbers"),
        (Column("t", "text"), {"values": ["a", "a"]}, "each once"),
        (Column("t", "text"), {"values": [1]}, "values of type text"),
        (Column("t", "text"), {"values": []}, "at least one"),
        (Column("x", "real"), {"values": ["1"]}, "bounds"),
        (Column("n", "integer"), {}, "declare lower and upper"),
        (Column("n", "integer"), {"bins": 3}, "declare lower and upper"),
        (Column("d", "date"), {}, "declare lower and upper in the policy, give bounds .* of bins"),
        (Column("d", "date"), {"bins": [1950, 1960]}, "dates in ISO form"),
        (Column("d", "date"), {"bins": ["2000-01-01", "1999-01-01"]}, "each above the one before"),
        (Column("d", "date"), {"bins": ["2000-01-01T01:00", "2000-01-01T02:00"]}, "step"),
        (Column("n", "integer"), {"bins": [1]}, "2 to"),
        (Column("n", "integer"), {"bins": [0, "0.1", "0.2", 5]}, "step"),
        (Column("n", "integer"), {"bins": [0, 2**70]}, "64 bits"),
        (Column("n", "integer"), {"bins": [0, "x"]}, "a number"),
        (Column("n", "integer"), {"bins": [0, float("nan")]}, "finite"),
        (Column("n", "integer", lower=0, upper=9), {"bins": 0}, "≥ 1"),
        (Column("n", "integer", lower=0, upper=9), {"bins": True}, "whole number"),
        (Column("n", "integer", lower=0, upper=10**6), {"bins": MOST_CODES + 1}, "4096"),
        (Column("x", "real", lower=0, upper="1e400"), {}, "64 bits"),
        (Column("x", "real", lower=10**17, upper=10**17 + 10), {"bins": 20}, "step"),
        (Column("n", "integer", values=range(10**6)), {}, "at most 4,096"),
    ],
)
def test_what_is_refused(column, given, words):
    with pytest.raises(InvalidParameter, match=words) as caught:
        Attribute.of(column, **given)
    assert column.name in str(caught.value)


def test_schemas_are_refused_that_are_none():
    n = Attribute.of(Column("n", "integer", lower=0, upper=3))
    with pytest.raises(InvalidParameter, match="at least one"):
        Schema([])
    with pytest.raises(InvalidParameter, match="each column once"):
        Schema([n, n])
    with pytest.raises(InvalidParameter, match="one of the synthetic columns: n"):
        Schema([n]).place("m")
    with pytest.raises(InvalidData, match="expected numbers"):
        n.encode(pa.array([[1]]))
    with pytest.raises(InvalidData, match="expected dates"):
        Attribute.of(Column("d", "date"), bins=["2000-01-01", "2001-01-01"]).encode(pa.array([1]))


@pytest.mark.parametrize("kind", ["integer", "real"])
@pytest.mark.parametrize("bins", [[-50, 0, 40, 200], [0, 40, 90, 95, 1000], [10, 60, 91], [0, 10, 20]])
def test_no_value_is_drawn_beyond_the_declared_bounds(kind, bins):
    """Edges may be given beyond the bounds: bins end at these, and values outside count in the nearest bin as ever."""
    attribute = Attribute.of(Column("n", kind, lower=5, upper=90, nullable=False), bins=bins)
    codes = np.repeat(np.arange(attribute.size), 300)
    drawn = attribute.write(attribute.draw(codes, DeterministicEntropy(1)), codes)
    values = np.asarray(drawn)
    assert values.min() >= 5
    assert values.max() <= 90
    assert (attribute.encode(drawn) == codes).all()
    assert attribute.encode(pa.array([-100, 5, 90, 10_000])).tolist() == [0, 0, attribute.size - 1, attribute.size - 1]


@pytest.mark.parametrize(
    ("kind", "lower", "upper", "bins"),
    [
        ("date", "1950-01-01", "1999-12-31", None),
        ("date", "1950-01-01", "1999-12-31", 7),
        ("date", "1950-01-01", "1999-12-31", ["1900-01-01", "1980-06-01", "2050-01-01"]),
        ("timestamp", "2020-01-01", "2020-12-31", None),
        ("timestamp", "2020-01-01T06:00", "2020-01-01T18:30", "2019-01-01..2021-01-01"),
    ],
)
def test_dates_and_times_have_the_bounds_of_their_policy(kind, lower, upper, bins):
    """Bins lie between the declared bounds, and nothing is drawn beyond them; values beyond count at the ends."""
    attribute = Attribute.of(Column("d", kind, lower=lower, upper=upper, nullable=False), bins=bins)
    column = attribute.column
    codes = np.repeat(np.arange(attribute.size), 200)
    drawn = attribute.write(attribute.draw(codes, DeterministicEntropy(1)), codes).to_pylist()
    assert column.earliest <= min(drawn)
    assert max(drawn) <= column.latest
    assert min(drawn) - column.earliest < (column.latest - column.earliest) / attribute.size / 10
    assert column.latest - max(drawn) < (column.latest - column.earliest) / attribute.size / 10
    ends = pa.array([column.earliest - timedelta(days=9), column.latest + timedelta(days=9)])
    assert attribute.encode(ends).tolist() == [0, attribute.size - 1]


def test_bins_that_are_all_beyond_the_bounds_are_refused():
    with pytest.raises(InvalidParameter, match="between its bounds"):
        Attribute.of(Column("n", "integer", lower=0, upper=10), bins=[20, 30])


@pytest.mark.parametrize("kind", ["integer", "real"])
def test_a_column_of_one_value_may_have_wider_bins(kind):
    attribute = Attribute.of(Column("n", kind, lower=5, upper=5, nullable=False), bins=[0, 10])
    codes = np.zeros(3, np.int64)
    assert attribute.write(attribute.draw(codes, DeterministicEntropy(1)), codes).to_pylist() == [5, 5, 5]
