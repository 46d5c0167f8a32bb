import datetime as dt
import importlib
import json
import math
import pickle
import re
import subprocess
import sys
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.curator import answer as answer_module
from discreet.curator.answer import Answer, Receipt
from discreet.curator.reports.answer_table import plain_text, printable, quoted
from discreet.errors import InternalError, InvalidParameter, MissingExtra
from discreet.privacy.loss import Concentrated, Pure, Together, from_json
from discreet.report import Chart

RECEIPT = Receipt("hospital", "ann", 12, "2026-11-15T10:00:00Z", "9f2c", Pure("0.5"), 0.5, 0.0, False, 2.5)
HOSTILE = "<script>alert('x')</script>&\"\x1b[2J\u202e\n"


def made(columns, intervals=None, notes=(), names=None, **more):
    arrays = [column if isinstance(column, pa.Array) else pa.array(column) for column in columns.values()]
    table = pa.Table.from_arrays(arrays, names=names or list(columns))
    ends = {name: tuple(map(pa.array, pair)) for name, pair in (intervals or {}).items()}
    return Answer(table, ends, more.pop("confidence", Fraction(19, 20)), more.pop("receipt", RECEIPT), tuple(notes))


def regions(**more):
    return made({"region": ["north", "south"], "n": [1234, 98]}, {"n": ([1178, 42], [1290, 154])}, **more)


# ------------------------------------------------------------------------------------------------ numbers with intervals


@pytest.mark.parametrize(
    ("value", "low", "high", "text"),
    [
        (1234, 1178, 1290, "1234 ± 56"),
        (1234, 1200, 1250, "1234 [1200, 1250]"),
        (1234, 1178.5, 1289.5, "1234 ± 56"),  # whole numbers stay whole, ends go outwards
        (-5, -7, -3, "-5 ± 2"),
        (1000, 944, 1057, "1000 [944, 1057]"),
        (5, 6, 4, "5 [6, 4]"),  # ends the wrong way round are not hidden
        (0, -3, 3, "0 ± 3"),
        (10**30, 10**30 - 7, 10**30 + 7, f"{10**30} ± 7"),
        (1234567, 1178567, 1290567, "1234567 ± 56000"),
        (3.14159, 3.12929, 3.15389, "3.142 ± 0.013"),
        (0.3, 0.1, 0.5, "0.30 ± 0.20"),
        (0.1 + 0.2, 0.3 - 0.2, 0.5, "0.30 ± 0.20"),  # the last bits of floats do not widen an interval
        (1234567.891, 1178567.891, 1290567.891, "1234568 ± 56001"),  # no decimals are known; outwards
        (1234.0, 1178.0, 1290.0, "1234 ± 56"),
        (9.996, 9.986, 10.006, "9.996 ± 0.010"),
        (-0.001, -10.0, 10.0, "0 ± 10"),  # as symmetric as can be seen
        (5.5, 6.0, 7.0, "5.5 [6.0, 7.0]"),  # outside its interval
        (5, 5, 5, "5 ± 0"),
        (0.1, 0.1, 0.1, "0.1 ± 0"),
        (1 / 3, 1 / 3, 1 / 3, "0.3333333333333333 ± 0"),
        (-0.0, 0.0, 0.0, "0 ± 0"),
        (1e300, 9e299, 1.1e300, "1.00e300 ± 0.10e300"),
        (1e-300, 9e-301, 1.1e-300, "1.00e-300 ± 0.10e-300"),
        (1.0, 1.0 - 1e-300, 1.0 + 1e-300, "1 ± 0"),  # equal as floats
        (0.5, 0.5 - 1e-15, 0.5 + 1e-15, "0.500000000000000 ± 0.000000000000001"),
        (1234, None, None, "1234"),
        (1234, None, 1290, "1234"),
        (1234, 1178, None, "1234"),
        (1234.5, math.nan, 1290.0, "1234.5"),
        (None, 1, 2, "–"),
        (None, None, None, "–"),
        (math.nan, 1.0, 2.0, "NaN"),
        (math.inf, 3.0, math.inf, "inf [3, inf]"),
        (-math.inf, None, None, "-inf"),
        (5.0, -math.inf, math.inf, "5 ± inf"),
        (5, -math.inf, math.inf, "5 ± inf"),
        (5.25, -math.inf, 6.5, "5.2 [-inf, 6.5]"),
        (np.int64(7), np.int64(5), np.int64(9), "7 ± 2"),
        (np.float32(0.5), np.float32("nan"), np.float64(1), "0.5"),
        (5.0, 5.0, math.inf, "5 [5, inf]"),
        (Decimal("12.50"), Decimal("12.25"), Decimal("12.75"), "12.50 ± 0.25"),
        (Decimal(10**37), Decimal(10**37 - 1), Decimal(10**37 + 1), f"{10**37} ± 1"),
        (Decimal("12.50"), None, None, "12.50"),
        (dt.date(2026, 1, 2), dt.date(2026, 1, 1), dt.date(2026, 1, 5), "2026-01-02 [2026-01-01, 2026-01-05]"),
        ("text", None, None, "text"),
        (True, None, None, "true"),
    ],
)
def test_a_value_is_quoted_with_its_interval(value, low, high, text):
    assert quoted(value, low, high) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (2 / 3, "0.666667"),
        (1234567.8, "1234568"),
        (123456789012345.6, "123456789012346"),
        (999999.96, "1000000"),
        (1e15, "1e15"),
        (1.5e22, "1.5e22"),
        (-1e-5, "-1e-5"),
        (0.00012345678, "0.000123457"),
        (5e-324, "5e-324"),
        (100.0, "100"),
        (-2.50, "-2.5"),
        (dt.datetime(2026, 1, 2, 3, 4, 5), "2026-01-02 03:04:05"),
        (dt.time(3, 4), "03:04:00"),
        ([1, 2], "[1, 2]"),
    ],
)
def test_a_value_alone_is_short(value, text):
    assert plain_text(value) == text


SHOWN = re.compile(r"(\S+) (?:± (\S+)|\[(\S+), (\S+)\])")


def shown_interval(text):
    value, half, low, high = SHOWN.fullmatch(text).groups()
    center = Fraction(value)
    return (center - Fraction(half), center + Fraction(half)) if half else (Fraction(low), Fraction(high))


FLOATS = st.floats(allow_nan=False, allow_infinity=False)


@given(FLOATS, FLOATS, FLOATS)
def test_what_is_shown_covers_the_interval_and_little_more(value, one, other):
    low, high = sorted((one, other))
    left, right = shown_interval(quoted(value, low, high))
    exact = [Fraction(repr(x)) for x in (value, low, high)]
    slack = max(map(abs, exact)) / 2**49
    assert left <= exact[1] + slack
    assert right >= exact[2] - slack
    reach = max(abs(exact[0] - exact[1]), abs(exact[0] - exact[2]))
    most = reach / 5 + max(map(abs, exact)) / 10**14  # two digits are kept: one unit is a tenth at most
    assert exact[1] - left <= most
    assert right - exact[2] <= most


@given(st.integers(), st.integers(min_value=0), st.integers(min_value=0))
def test_whole_numbers_are_shown_exactly(value, below, above):
    text = quoted(value, value - below, value + above)
    assert text == (f"{value} ± {below}" if below == above else f"{value} [{value - below}, {value + above}]")


@given(FLOATS, st.floats(min_value=1e-6, max_value=1e6))
def test_no_more_digits_than_the_interval_knows(value, half):
    text = quoted(value, value - half, value + half)
    digits = re.sub(r"e-?\d+$", "", SHOWN.fullmatch(text)[1])
    _, _, places = digits.partition(".")
    _, _, known = f"{half:.1e}".partition("e")
    assert len(places) <= max(1 - int(known), 0) or "e" in text


@given(st.one_of(FLOATS, st.integers(-(10**40), 10**40)))
def test_six_digits_of_a_value_alone_are_right(value):
    exact = Fraction(repr(value))
    assert abs(Fraction(plain_text(value)) - exact) <= abs(exact) * Fraction(1, 10**5)


# -------------------------------------------------------------------------------------------------------------- receipts


def test_a_receipt_is_one_line():
    assert str(RECEIPT) == "ε 0.5 charged as #12 to hospital, 2.5 left"
    assert str(replace(RECEIPT, free=True)) == "free: cached from charge #12"
    assert str(replace(RECEIPT, delta=1e-6)) == "ε 0.5, δ 1e-06 charged as #12 to hospital, 2.5 left"
    assert str(replace(RECEIPT, remaining=math.inf)).endswith(", inf left")


def test_a_receipt_rounds_towards_privacy():
    text = str(replace(RECEIPT, epsilon=0.12345612, delta=1.00000001e-6, remaining=2.9999999))
    assert text == "ε 0.123457, δ 1.00001e-06 charged as #12 to hospital, 2.99999 left"


def test_a_receipt_in_json_keeps_its_loss():
    loss = Together(Pure("1/3"), Concentrated("0.01"))
    document = json.loads(json.dumps(replace(RECEIPT, loss=loss, remaining=math.inf).to_json(), allow_nan=False))
    assert from_json(json.dumps(document["loss"])) == loss
    assert document["remaining"] == "inf"
    fields = "dataset analyst charge when statement loss epsilon delta free remaining"
    assert list(document) == fields.split()


# --------------------------------------------------------------------------------------------------------- text for people


def test_a_table_is_aligned():
    answer = made(
        {"region": ["north", "söuth", None], "n": [1234, 98, None], "mean age": [41.234, None, 7.5]},
        {"n": ([1178, 42, None], [1290, 154, None]), "mean age": ([40.0, None, 7.0], [43.0, None, 9.25])},
        notes=["at most 3 groups a person"],
    )
    assert str(answer).splitlines() == [
        "region          n           mean age",
        "north   1234 ± 56  41.2 [40.0, 43.0]",
        "söuth     98 ± 56     –",
        "–          –        7.5 [7.0, 9.3]",
        "each interval holds at 95 % confidence",
        "at most 3 groups a person",
        "ε 0.5 charged as #12 to hospital, 2.5 left",
    ]


def test_wide_and_combining_letters_keep_the_columns_straight():
    lines = str(made({"名前": ["東京", "e\u0301a", "x"], "n": [1, 22, 333]})).splitlines()
    assert lines[:4] == ["名前    n", "東京    1", "e\u0301a     22", "x     333"]


def test_text_cannot_command_the_terminal_or_break_lines():
    answer = made({HOSTILE: [HOSTILE], "n": [1]}, notes=[HOSTILE], receipt=replace(RECEIPT, dataset=HOSTILE))
    lines = str(answer).split("\n")
    assert len(lines) == 4
    assert all(line.isprintable() for line in lines)
    assert "\\x1b[2J" in lines[1]


def test_long_texts_are_cut():
    assert max(map(len, str(made({"a" * 500: ["b" * 500]})).splitlines())) == 60


@pytest.mark.parametrize("rows", [0, 1, 39, 40, 41, 42])
def test_at_most_forty_rows_are_shown(rows):
    lines = str(made({"n": pa.array(range(rows), pa.int64())})).splitlines()
    shown = [line for line in lines[1:] if line.strip().isdigit()]
    assert len(shown) == min(rows, 40)
    more = {41: "… and 1 more row", 42: "… and 2 more rows"}.get(rows)
    assert [line for line in lines if "more row" in line] == ([more] if more else [])


def test_an_answer_without_rows_or_columns_prints():
    empty = made({"region": pa.array([], pa.string()), "n": pa.array([], pa.int64())}, {"n": ([], [])})
    assert len(empty) == 0
    assert str(empty).splitlines()[0] == "region  n"
    nothing = Answer(pa.table({}), {}, Fraction(19, 20), RECEIPT, ())
    assert str(nothing) == str(RECEIPT)
    assert nothing._repr_html_().count("<th>") == 0
    assert nothing.to_json()["rows"] == []


def test_of_a_million_rows_only_those_shown_are_read(monkeypatch):
    read = []
    monkeypatch.setattr(answer_module, "text_table", lambda columns, rows, footer: read.append(columns) or "")
    ints = pa.array(range(10**6))
    answer = Answer(pa.table({"n": ints}), {"n": (ints, ints)}, Fraction(19, 20), RECEIPT, ())
    assert str(answer) == ""
    assert [len(part) for part in (read[0][0].values, read[0][0].lows, read[0][0].highs)] == [40, 40, 40]
    monkeypatch.undo()
    assert len(str(answer).splitlines()) == 1 + 40 + 3
    page = answer._repr_html_()
    assert page.count("<tr>") == 41
    assert "… and 999960 more rows" in page


def test_columns_of_every_kind_are_shown():
    stamp = dt.datetime(2026, 1, 2, 3, 4, 5)
    answer = made(
        {
            "day": [dt.date(2026, 1, 2), None],
            "at": [stamp, None],
            "cost": [Decimal("12.50"), None],
            "ok": [True, None],
            "many": [[1, 2], None],
            "raw": [b"\x00\xff", None],
            "fine": pa.array([1_000_000_001, None], pa.timestamp("ns")),
        }
    )
    header, row, nulls, *_ = str(answer).splitlines()
    assert row.split("  ")[0] == "2026-01-02"
    assert all(text in row for text in ("2026-01-02 03:04:05", "12.50", "true", "[1, 2]"))
    assert nulls.split() == ["–"] * 7
    assert json.loads(json.dumps(answer.to_json(), allow_nan=False))["rows"] == [
        ["2026-01-02", "2026-01-02T03:04:05", 12.5, True, [1, 2], "00ff", "1970-01-01T00:00:01.000000001"],
        [None] * 7,
    ]


# ------------------------------------------------------------------------------------------------------------------ HTML


class Page(HTMLParser):
    """Tags, attributes and texts of a page; fails on tags that do not match."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.texts, self.open = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.texts.append(data)


ALLOWED = {"div", "style", "table", "thead", "tbody", "tr", "th", "td", "span", "svg", "path", "circle", "p"}


@given(st.text(), st.text(), st.text(), st.text())
def test_html_escapes_whatever_it_shows(name, value, note, dataset):
    answer = made(
        {name: [value], name + "n": [1]},
        {name + "n": ([0], [2])},
        notes=[note],
        receipt=replace(RECEIPT, dataset=dataset),
    )
    tame = made({"a": ["b"], "n": [1]}, {"n": ([0], [2])}, notes=["c"])
    page = Page(answer._repr_html_())
    assert page.tags == Page(tame._repr_html_()).tags
    assert printable(value)[:499] in "".join(page.texts)


def test_hostile_text_stays_text():
    answer = made({HOSTILE: [HOSTILE], "n": [1]}, notes=[HOSTILE], receipt=replace(RECEIPT, dataset=HOSTILE))
    page = answer._repr_html_()
    assert "<script" not in page
    assert "\x1b" not in page
    assert "\u202e" not in page
    assert page.count("&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;&amp;&quot;") == 4


def test_html_needs_nothing_from_outside():
    page = regions()._repr_html_()
    parsed = Page(page)
    assert set(parsed.tags) <= ALLOWED
    assert not [name for name, _ in parsed.attributes if name in ("src", "href", "xlink:href") or name.startswith("on")]
    assert not re.search(r"url\(|@import|http", page)
    assert any("1234" in text for text in parsed.texts)


def test_error_bars_share_the_scale_of_their_column():
    page = made({"n": [0, 50, 100]}, {"n": ([-10, 40, 90], [10, 60, 110])})._repr_html_()
    dots = [float(x) for x in re.findall(r'cx="([\d.]+)"', page)]
    bars = [(float(a), float(b)) for a, b in re.findall(r'd="M([\d.]+) 8H([\d.]+)M', page)]
    assert len(dots) == len(bars) == 3
    assert dots[1] - dots[0] == pytest.approx(dots[2] - dots[1], abs=0.2)
    assert all((a + b) / 2 == pytest.approx(dot, abs=0.11) for dot, (a, b) in zip(dots, bars, strict=True))
    assert (bars[0][0], bars[-1][1]) == (4, 116)
    assert (bars[0][1] - bars[0][0]) / (116 - 4) == pytest.approx(20 / 120, abs=0.01)


@pytest.mark.parametrize(
    ("value", "low", "high", "marks"),
    [
        (None, None, None, 0),
        (None, 1.0, 2.0, 0),
        (math.nan, 1.0, 2.0, 0),
        (1.0, None, None, 1),
        (1.0, -math.inf, math.inf, 2),
        (math.inf, 1.0, math.inf, 2),
        (1e308, -1.7e308, 1.7e308, 2),
        (5.0, 5.0, 5.0, 2),
    ],
)
def test_drawings_bear_odd_numbers(value, low, high, marks):
    odd = pa.array([value, 3.0], pa.float64())
    page = made({"x": odd}, {"x": (pa.array([low, 2.0], pa.float64()), pa.array([high, 4.0], pa.float64()))})
    first = re.findall(r"<svg.*?</svg>", page._repr_html_())[0]
    assert len(re.findall(r"<(?:path|circle)", first)) == marks
    assert not re.search(r"nan|inf", first)
    caps = sum(map(math.isfinite, (low, high))) if marks == 2 else 0
    assert first.count("V12") == caps  # an interval without an end has no cap there
    pixels = [float(x) for x in re.findall(r'(?:M|H|cx=")([\d.]+)', first)]
    assert all(4 <= x <= 116 for x in pixels)


# ------------------------------------------------------------------------------------------------- Arrow, pandas, polars


def test_arrow_is_what_was_released():
    answer = regions()
    assert answer.to_arrow() is answer.table
    wide = answer.to_arrow(intervals=True)
    assert wide.column_names == ["region", "n", "n low", "n high"]
    assert wide["n low"].to_pylist() == [1178, 42]
    assert wide.schema.field("n high").type == pa.int64()


def test_interval_columns_get_names_of_their_own():
    answer = made({"n": [1], "n low": ["x"], "n low 2": ["y"]}, {"n": ([0], [2])})
    assert answer.to_arrow(intervals=True).column_names == ["n", "n low 3", "n high", "n low", "n low 2"]
    both = made({"n": [1], "n low": [5]}, {"n": ([0], [2]), "n low": ([4], [6])})
    names = both.to_polars(intervals=True).columns
    assert len(set(names)) == len(names) == 6


def test_columns_of_one_name_are_told_apart_or_refused():
    answer = made({"a": [1], "b": [2.5]}, {"n": ([0], [2])}, names=["n", "n"])
    assert str(answer).splitlines()[:2] == ["n    n", "1  2.5"]  # whose interval it is, nobody can say
    assert answer.to_polars().columns == ["n", "n 2"]
    assert answer.to_pandas().shape == (1, 2)
    assert answer.to_json()["rows"] == [[1, 2.5]]
    with pytest.raises(InvalidParameter, match="two columns have this name"):
        answer.column("n")


KINDS = {
    "int": (pa.int64(), st.integers(-(2**63), 2**63 - 1), "int64", "Int64"),
    "small": (pa.int8(), st.integers(-128, 127), "int8", "Int8"),
    "natural": (pa.uint64(), st.integers(0, 2**64 - 1), "uint64", "UInt64"),
    "real": (pa.float64(), st.floats(allow_nan=False), "float64", "float64"),
    "flag": (pa.bool_(), st.booleans(), "bool", "boolean"),
    "text": (pa.string(), st.text(st.characters(exclude_categories=["Cs"])), "str", "str"),
    "day": (pa.date32(), st.dates(dt.date(1700, 1, 1), dt.date(2200, 1, 1)), "object", "object"),
    "at": (
        pa.timestamp("us"),
        st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1)),
        "datetime64[us]",
        "datetime64[us]",
    ),
    "cost": (pa.decimal128(20, 2), st.decimals(-(10**15), 10**15, places=2), "object", "object"),
}


@given(st.data(), st.sampled_from(sorted(KINDS)), st.booleans())
def test_pandas_and_polars_keep_values_and_types(data, kind, with_nulls):
    arrow, values, plain, nullable = KINDS[kind]
    drawn = data.draw(st.lists(values, min_size=1, max_size=5)) + ([None] if with_nulls else [])
    answer = made({"x": pa.array(drawn, arrow)})
    series = answer.to_pandas()["x"]
    assert str(series.dtype) == (nullable if with_nulls else plain)
    assert [None if pd.isna(x) else x for x in series] == drawn
    frame = answer.to_polars()
    assert frame["x"].to_list() == drawn
    assert frame.to_arrow()["x"].cast(arrow).to_pylist() == drawn
    assert answer.column("x") == drawn


def test_whole_numbers_beside_nulls_are_never_floats():
    big = 2**53 + 1
    frame = made({"n": [big, None], "m": [big, 1]}).to_pandas()
    assert frame["n"][0] == big
    assert [str(kind) for kind in frame.dtypes] == ["Int64", "int64"]
    assert made({"n": [big, None]}).to_polars().schema == {"n": pl.Int64}


@pytest.mark.parametrize(("method", "package"), [("to_pandas", "pandas"), ("to_polars", "polars")])
def test_a_missing_package_is_named(monkeypatch, method, package):
    def absent(name, *rest):
        if name.partition(".")[0] == package:
            raise ImportError(name)
        return importlib.import_module(name, *rest)

    monkeypatch.setattr(answer_module, "import_module", absent)
    with pytest.raises(MissingExtra, match=rf"{package} is not installed; run: pip install 'discreet\[{package}\]'"):
        getattr(regions(), method)()


def test_importing_the_module_imports_nothing_heavy():
    heavy = "{'pyarrow', 'pandas', 'polars', 'matplotlib', 'scipy'}"
    code = f"import sys, discreet.curator.answer; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# ------------------------------------------------------------------------------------------------------------------ JSON


def test_json_holds_the_whole_answer():
    document = regions(notes=["note"]).to_json()
    assert list(document) == ["columns", "rows", "intervals", "confidence", "note", "receipt", "notes"]
    assert document["note"] == "each interval holds at 95 % confidence"
    assert document["confidence"] == 0.95
    assert document["notes"] == ["note"]
    assert document["intervals"] == {"n": {"low": [1178, 42], "high": [1290, 154]}}
    assert document["receipt"] == RECEIPT.to_json()


@given(st.lists(st.one_of(st.none(), st.floats()), min_size=1), st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1))
def test_json_loses_nothing(reals, wholes):
    length = min(len(reals), len(wholes))
    answer = made({"x": pa.array(reals[:length], pa.float64()), "n": pa.array(wholes[:length], pa.int64())})
    rows = json.loads(json.dumps(answer.to_json(), allow_nan=False))["rows"]
    back = [None if x is None else float(x) for x, _ in rows]
    assert [repr(x) for x in back] == [repr(x) for x in reals[:length]]
    assert [n for _, n in rows] == wholes[:length]


def test_decimals_in_json_are_exact():
    huge = Decimal(10**37 + 1)
    answer = made({"h": pa.array([huge], pa.decimal128(38, 0)), "d": [Decimal("0.12345678901234567890")]})
    assert answer.to_json()["rows"] == [[10**37 + 1, "0.12345678901234567890"]]


def test_a_confidence_is_not_overstated():
    document = regions(confidence=Fraction(2, 3)).to_json()
    assert Fraction(repr(document["confidence"])) <= Fraction(2, 3)
    assert document["confidence"] == pytest.approx(2 / 3)
    assert "each interval holds at 66.6666 % confidence" in str(regions(confidence=Fraction(2, 3)))


# -------------------------------------------------------------------------------------------------------------- pictures


@pytest.mark.parametrize(("ending", "magic"), [(".png", b"\x89PNG"), (".svg", b"<svg"), (".pdf", b"%PDF")])
def test_pictures_are_written(tmp_path, ending, magic):
    regions().plot(tmp_path / f"a{ending}")
    assert (tmp_path / f"a{ending}").read_bytes().startswith(magic)


def test_a_picture_bears_odd_numbers_and_letters(tmp_path):
    reals = pa.array([1.0, None, math.nan, math.inf, 5.0])
    ends = {"x": ([0.0, None, 1.0, 2.0, -math.inf], [2.0, None, 2.0, math.inf, math.inf])}
    names = ["$\\frac{", "東京", HOSTILE, "", None]
    made({"$a_": names, "x": reals}, ends).plot(str(tmp_path / "a.svg"))
    assert "<script" not in (tmp_path / "a.svg").read_text()


def test_a_picture_of_no_rows_and_of_many(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(Chart, "save", lambda chart, path: drawn.append((chart.marks[0].labels, chart.y)))
    made({"n": range(61)}).plot(tmp_path / "a.png")
    assert len(drawn[0][0]) == 60
    assert drawn[0][1] == "the first 60 of 61 groups"
    monkeypatch.undo()
    made({"n": pa.array([], pa.int64())}).plot(tmp_path / "a.png")
    made({"n": range(200)}).plot(tmp_path / "b.png")
    assert (tmp_path / "b.png").stat().st_size > (tmp_path / "a.png").stat().st_size


def test_what_is_said_under_a_picture_fits_under_it(tmp_path, monkeypatch):
    """It was the whole note of an answer, cut at both ends."""
    drawn = []
    monkeypatch.setattr(Chart, "save", lambda chart, path: drawn.append(chart.y))
    replace(regions(), noise_only=True).plot(tmp_path / "a.png")
    assert drawn == ["95 % intervals, of the noise only"]


def test_a_picture_chooses_its_columns(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(Chart, "save", lambda chart, path: drawn.append((chart.title, list(chart.marks[0].labels))))
    answer = made(
        {"year": [2025, 2026], "sex": ["f", None], "n": [5, 6], "m": [7, 8]},
        {"n": ([4, 5], [6, 7])},
    )
    answer.plot(tmp_path / "a.png")
    answer.plot(tmp_path / "a.png", column="m", label="year")
    answer.plot(tmp_path / "a.png", column="year")
    assert drawn == [("n", ["2025, f", "2026, –"]), ("m", ["2025", "2026"]), ("year", ["1", "2"])]


@pytest.mark.parametrize(
    ("path", "options", "message"),
    [
        ("a.gif", {}, r"path: .* \.svg, \.png or \.pdf"),
        ("nowhere/a.png", {}, "path: .* a folder that exists"),
        ("a.png", {"column": "region"}, "column: got 'region', expected a column of numbers"),
        ("a.png", {"column": "x"}, "column: got 'x', expected one of 'region', 'n'"),
        ("a.png", {"label": "x"}, "label: got 'x', expected one of 'region', 'n'"),
    ],
)
def test_pictures_that_cannot_be_are_refused(tmp_path, path, options, message):
    with pytest.raises(InvalidParameter, match=message):
        regions().plot(tmp_path / path, **options)
    assert list(tmp_path.iterdir()) == []


def test_pictures_need_numbers_a_writable_file_and_matplotlib(tmp_path, monkeypatch):
    with pytest.raises(InvalidParameter, match="this answer has none to draw"):
        made({"a": ["x"]}).plot(tmp_path / "a.png")
    (tmp_path / "b.png").mkdir()
    with pytest.raises(InvalidParameter, match="a file that can be written"):
        regions().plot(tmp_path / "b.png")
    monkeypatch.delitem(sys.modules, "matplotlib.figure", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtra, match="discreet\\[plot\\]"):
        regions().plot(tmp_path / "c.png")


# ---------------------------------------------------------------------------------------------------------- the value itself


def test_an_answer_is_a_value():
    answer = regions()
    assert pickle.loads(pickle.dumps(answer)) == answer
    assert answer != regions(notes=["other"])
    with pytest.raises(AttributeError):
        answer.notes = ()


def test_columns_by_name():
    assert regions().column("region") == ["north", "south"]
    with pytest.raises(InvalidParameter, match="name: got 'x', expected one of 'region', 'n'"):
        regions().column("x")


@pytest.mark.parametrize("ends", [{"x": ([1, 2], [1, 2])}, {"n": ([1], [1, 2])}, {"n": ([1, 2], [1])}])
def test_intervals_that_do_not_fit_the_table_are_a_bug(ends):
    with pytest.raises(InternalError):
        made({"n": [1, 2]}, ends)


def test_chunked_columns_and_intervals_are_fine():
    chunks = pa.chunked_array([[1, 2], [3]])
    answer = Answer(pa.table({"n": chunks}), {"n": (chunks, chunks)}, Fraction(9, 10), RECEIPT, ())
    assert str(answer).splitlines()[1:5] == ["1 ± 0", "2 ± 0", "3 ± 0", "each interval holds at 90 % confidence"]
    assert answer.to_pandas(intervals=True).shape == (3, 3)
