"""Hierarchies: each level a function of the one below; gaps, circles and strangers are refused without their values."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.anonymity import Hierarchy
from discreet.errors import InvalidData, InvalidParameter


def labels_of(hierarchy, leaf):
    place = hierarchy.labels[0].index(leaf)
    return [hierarchy.labels[level][hierarchy.codes[level][place]] for level in range(hierarchy.height + 1)]


def check(hierarchy):
    """What every hierarchy promises."""
    assert hierarchy.labels[-1] == ("*",)
    assert hierarchy.codes[0].tolist() == list(range(hierarchy.leaves))
    for level in range(hierarchy.height + 1):
        assert len(set(hierarchy.labels[level])) == len(hierarchy.labels[level])
        assert hierarchy.covers(level).sum() == hierarchy.leaves
        assert (hierarchy.covers(level) > 0).all()
        if level:
            finer, coarser = hierarchy.codes[level - 1], hierarchy.codes[level]
            assert len(set(zip(finer, coarser, strict=True))) == len(set(finer))
            assert (hierarchy.cost(level)[coarser] >= hierarchy.cost(level - 1)[finer]).all()
    assert hierarchy.cost(hierarchy.height)[0] == (1 if hierarchy.leaves > 1 else 0)


@given(st.lists(st.text(alphabet="0123456789AB", min_size=1, max_size=6), min_size=1, max_size=30))
def test_prefixes_nest(values):
    hierarchy = Hierarchy.prefixes("zip", values)
    check(hierarchy)
    assert hierarchy.code(values).max() < hierarchy.leaves
    assert [hierarchy.labels[0][code] for code in hierarchy.code(values)] == values


@given(st.sets(st.integers(-50, 500), min_size=1, max_size=40), st.integers(1, 9), st.integers(2, 5))
def test_intervals_nest_and_hold_their_values(values, width, factor):
    hierarchy = Hierarchy.intervals("age", values=sorted(values), widths=(width, width * factor))
    check(hierarchy)
    for value in values:
        label = labels_of(hierarchy, str(value))[1]
        if hierarchy.height == 1 or label == "*" or width == 1:
            continue
        start, end = value // width * width, value // width * width + width - 1
        assert label == f"{start}-{end}"


@given(st.lists(st.dates(), min_size=1, max_size=30))
def test_dates_nest(values):
    check(Hierarchy.dates("born", [str(value) for value in values]))


@given(st.lists(st.tuples(st.floats(-90, 90), st.floats(-180, 180)), min_size=1, max_size=30))
def test_places_nest(points):
    check(Hierarchy.grid("home", [f"{a:.5f},{b:.5f}" for a, b in points], cells=(0.5, 5)))


def test_declared_intervals_and_real_numbers():
    ages = Hierarchy.intervals("age", low=0, high=99, widths=(5, 10, 20))
    assert labels_of(ages, "37") == ["37", "35-39", "30-39", "20-39", "*"]
    assert ages.cost(1).tolist() == [4 / 99] * 20
    weights = Hierarchy.intervals("kg", values=[60.5, 71.25, 99.0], widths=(10,))
    assert labels_of(weights, "60.5") == ["60.5", "[60, 70)", "*"]


def test_a_file_is_read_whatever_its_delimiter(tmp_path):
    for delimiter in ";,":
        path = tmp_path / "jobs.csv"
        path.write_text(f"nurse{delimiter}health{delimiter}*\nsmith{delimiter}craft{delimiter}*\n\n", encoding="utf-8")
        assert Hierarchy.read("job", path).labels == (("nurse", "smith"), ("health", "craft"), ("*",))


def test_missing_values_are_a_value_of_their_own():
    ages = Hierarchy.flat("age", [30, None, 30])
    assert ages.labels[0] == ("30", "")
    assert ages.code([None, 30]).tolist() == [1, 0]


def test_a_tree_of_uneven_branches():
    places = Hierarchy.tree("city", {"Paris": "France", "France": "Europe", "Rome": "Europe", "Europe": "World"})
    assert labels_of(places, "Paris") == ["Paris", "France", "Europe", "*"]
    assert labels_of(places, "Rome") == ["Rome", "Rome", "Europe", "*"]
    check(places)


SECRET = "Xylophone"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Hierarchy.rows("job", [("a", "x"), ("b", "x", "y")]), "line 2 has 3 levels"),
        (lambda: Hierarchy.rows("job", []), "no values"),
        (lambda: Hierarchy.rows("job", [("a", "x"), ("a", "y")]), "appear twice"),
        (lambda: Hierarchy.rows("job", [("a", "x", "p"), ("b", "x", "q")]), "line 2 at level 2 separates"),
        (lambda: Hierarchy.tree("job", {"a": "b", "b": "a"}), "circle"),
        (lambda: Hierarchy.tree("job", {"leaf": "a", "a": "b", "b": "a"}), "circle"),
        (lambda: Hierarchy.flat("job", []), "at least one value"),
        (lambda: Hierarchy.dates("born", [SECRET]), "'born': not all"),
        (lambda: Hierarchy.intervals("age", values=[SECRET], widths=(5,)), "'age': not all"),
        (lambda: Hierarchy.intervals("age", values=[float("inf"), 1.0], widths=(5,)), "not finite"),
        (lambda: Hierarchy.grid("home", [SECRET], cells=(1,)), "'home': not all"),
        (lambda: Hierarchy.grid("home", ["91,0"], cells=(1,)), "beyond"),
        (lambda: Hierarchy.flat("sex", ["F", "M"]).code(["F", SECRET, "M", SECRET]), "'sex': 2 values .*rows 2, 4"),
    ],
)
def test_faults_are_named_without_private_values(make, words):
    with pytest.raises(InvalidData, match=words) as caught:
        make()
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "settings",
    [{"widths": (5, 12)}, {"widths": ()}, {"widths": (-5,)}, {"widths": (10, 5)}, {"widths": (5,), "low": 9, "high": 1}, {"widths": (5,), "low": 1}, {"widths": (float("nan"),)}],
)  # fmt: skip
def test_bad_rules_are_refused(settings):
    with pytest.raises(InvalidParameter):
        Hierarchy.intervals("age", **({"low": 0, "high": 9} | settings if "low" not in settings else settings))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InvalidParameter, match="column 'job'"):
        Hierarchy.read("job", tmp_path / "nothing.csv")


def test_numbers_texts_and_floats_meet_the_same_leaf():
    ages = Hierarchy.intervals("age", low=0, high=99, widths=(10,))
    for values in ([30, 31], ["30", "31"], np.array([30.0, 31.0])):
        assert ages.code(values).tolist() == [30, 31]


def test_bounds_of_intervals_are_exact():
    """0.3/0.1 is 2.999… in floating point; 0.3 belongs to [0.3, 0.4), and widths 0.1, 0.3 nest."""
    values = ["0.1", "0.2", "0.25", "0.3", "0.6", "0.7", "1000000000000000.5"]
    tenths = Hierarchy.intervals("x", values=values, widths=(0.1, 0.3))
    check(tenths)
    for value in values:
        low, high = (Fraction(end) for end in labels_of(tenths, value)[1].strip("[)").split(", "))
        assert low <= Fraction(value) < high
    places = Hierarchy.grid("home", ["0.3,-0.3", "0.7,0.6"], cells=(0.1, 0.3))
    assert labels_of(places, "0.3,-0.3")[1] == "0.3…0.4,-0.3…-0.2"
    check(places)


def test_numbers_are_known_as_they_are_written():
    weights = Hierarchy.intervals("kg", values=["60.0", "07", "60.50", ""], widths=(10,))
    assert weights.code(["07", "60.0", "60.50", ""]).tolist() == [0, 1, 2, 3]
    assert [labels_of(weights, text)[1] for text in ("07", "60.0", "60.50", "")] == [
        "[0, 10)",
        "[60, 70)",
        "[60, 70)",
        "",
    ]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Hierarchy.flat("zip", ["13053", "*"]), "means hidden"),
        (lambda: Hierarchy.rows("zip", [("*", "1"), ("2", "1")]), "means hidden"),
        (lambda: Hierarchy.rows("job", [("a", "x"), ("b", "")]), "line 2 has a gap at level 1"),
    ],
)
def test_stars_and_gaps_are_refused(make, words):
    with pytest.raises(InvalidData, match=words):
        make()


@pytest.mark.parametrize("more", [{"low": 1}, {"high": 1}, {"low": 1, "high": 9}])
def test_values_beside_limits_are_refused_unseen(more):
    with pytest.raises(InvalidParameter, match="either values, or both low and high") as caught:
        Hierarchy.intervals("age", values=[34234], widths=(5,), **more)
    assert "34234" not in str(caught.value)


def test_files_are_read_as_csv(tmp_path):
    path = tmp_path / "jobs.csv"
    path.write_bytes('"a\nb";B\r\nc\u2028d;B\r\ne;C\r\n'.encode())
    assert Hierarchy.read("job", path).labels[0] == ("a\nb", "c\u2028d", "e")
    path.write_text("x" * 200_000 + ";y\n")
    with pytest.raises(InvalidData, match="not a CSV file"):
        Hierarchy.read("job", path)
