"""What coarsened labels stand for."""

import numpy as np
import pytest

from discreet.attacks.tables.rules import Known, covered, looks_coarse

AGES = np.array([3, 19, 20, 28, 29, 30, 41, 130])
ZIPS = np.array(["13053", "13068", "14850", None], object)
DATES = np.array(["1987-03-12", "1987-04-01", "1990-03-12", "NaT"], "datetime64[D]")


@pytest.mark.parametrize(
    ("label", "inside"),
    [
        ("*", AGES.tolist()),
        ("**", AGES.tolist()),
        ("2*", [20, 28, 29]),
        ("1*", [19]),
        ("13*", [130]),
        ("[20, 30)", [20, 28, 29]),
        ("[20,30]", [20, 28, 29, 30]),
        ("(20, 30]", [28, 29, 30]),
        ("(-inf, 20)", [3, 19]),
        ("[41, ∞)", [41, 130]),
        ("20-29", [20, 28, 29]),
        ("20 – 29", [20, 28, 29]),
        ("20…29", [20, 28, 29]),
        ("<30", [3, 19, 20, 28, 29]),
        ("<=30", [3, 19, 20, 28, 29, 30]),
        ("≤ 30", [3, 19, 20, 28, 29, 30]),
        (">41", [130]),
        ("≥40", [41, 130]),
        (">=41", [41, 130]),
        ("40+", [41, 130]),
        ("28", [28]),
        ("28.0", [28]),
        ("{3, 28}", [3, 28]),
        ("Asia", []),
        ("", []),
    ],
)
def test_labels_of_numbers(label, inside):
    assert AGES[covered(label, AGES)].tolist() == inside


@pytest.mark.parametrize(
    ("label", "inside"),
    [
        ("130**", ["13053", "13068"]),
        ("1**5*", ["13053", "14850"]),
        ("13*", ["13053", "13068"]),  # no ZIP code has three digits: any ending
        ("*", ["13053", "13068", "14850"]),
        ("14850", ["14850"]),
        ("{13053, 14850}", ["13053", "14850"]),
        ("<14000", ["13053", "13068"]),  # texts that are all numbers have an order
    ],
)
def test_labels_of_texts(label, inside):
    assert ZIPS[covered(label, ZIPS)].tolist() == inside


@pytest.mark.parametrize(
    ("label", "inside"),
    [
        ("1987", 2),
        ("1980s", 2),
        ("1990s", 1),
        ("1987-03", 1),
        ("1987-**-**", 2),
        ("****-03-**", 2),
        ("[1987-03-12, 1990-03-12)", 2),
        ("<1988-01-01", 2),
    ],
)
def test_labels_of_dates(label, inside):
    assert covered(label, Known(DATES)).sum() == inside


def test_ranges_of_whole_numbers_have_no_gaps():
    """20-29 and 30-39 leave out no age of 29.5."""
    assert covered("20-29", np.array([29.5, 30.0])).tolist() == [True, False]
    assert covered("20.5-29.5", np.array([29.6])).tolist() == [False]


def test_explained_labels():
    land = np.array(["Japan", "Peru", None], object)
    assert covered("Asia", land, {"Asia": {"Japan", "India"}}).tolist() == [True, False, False]
    assert covered("Peru", land, {"Asia": {"Japan"}}).tolist() == [False, True, False]
    assert covered("even", AGES, lambda label, value: value % 2 == 0).sum() == 4
    assert covered("a few", AGES, {"a few": [19, 20]}).sum() == 2


def test_cells_of_places_and_decades_of_years():
    homes = np.array(["48.8566,2.3522", "48.8534,2.3488", "nowhere", None], object)
    assert covered("48.85…48.86,2.35…2.36", homes).tolist() == [True, False, False, False]
    assert covered("48.8…48.9,2.3…2.4", homes).tolist() == [True, True, False, False]
    assert covered("1980s", np.array([1979, 1980, 1989, 1990, 198])).tolist() == [False, True, True, False, False]


def test_what_looks_coarse():
    assert looks_coarse({"48.85…48.86,2.35…2.36"}, {"48.8566,2.3522"})
    assert looks_coarse({"[20, 30)"}, {"25"})
    assert looks_coarse({"<30", None}, {"25"})
    assert not looks_coarse({"20-29"}, {"20-29"})
    assert not looks_coarse({"Smith"}, {"Jones"})


@pytest.mark.parametrize(
    ("values", "label", "inside"),
    [
        (["A", "AB", "ABCD", "B"], "A***", ["A", "AB", "ABCD"]),  # stars at the end stand for fewer letters too
        (["A", "AB", "ABCD"], "AB *", ["AB"]),  # shorter texts are filled up with spaces
        (["AB", "ABC", "ABCD"], "AB**", ["AB", "ABC", "ABCD"]),
        (["5", "53", "61"], "5*", ["5", "53"]),
        (["07", "12", "41"], "5-14", ["07", "12"]),  # texts that are numbers
        (["1.50", "2"], "[1.5, 2)", ["1.50"]),
        (["1987-03-12", "1991-01-01", ""], "1980s", ["1987-03-12"]),  # texts that are dates
        (["1987-03-12", "1991-01-01", ""], "[1987-03-12–1987-04-01]", ["1987-03-12"]),
    ],
)
def test_labels_of_texts_of_several_lengths_numbers_and_dates(values, label, inside):
    known = np.array(values, object)
    assert known[covered(label, known)].tolist() == inside


def test_intervals_of_times():
    times = np.array(["2020-01-01T10:00", "2020-01-02T11:00", "2020-01-02T11:01"], "datetime64[us]")
    assert covered("[2020-01-01 10:00:00–2020-01-02 11:00:00]", times).tolist() == [True, True, False]


@pytest.mark.parametrize("label", ["1980s", "1987-03", "1987"])
def test_years_months_and_decades_look_coarse(label):
    assert looks_coarse({label}, {"1987-03-12"})
