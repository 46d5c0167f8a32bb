import json
from fractions import Fraction
from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.errors import InvalidData, InvalidInput, InvalidParameter
from discreet.local.collection.survey import PLACES, RANDOMIZERS, Report, Survey, parse, read_survey
from discreet.local.oracles.responses import KRR
from discreet.local.places.areas import Area
from discreet.local.places.planar import PlanarReport
from discreet.noise import DeterministicEntropy
from discreet.privacy.loss import PerDistance, Pure

TOML = """
name = "commute"
version = 2
question = "How did you come to work today?"
domain = ["on foot", "bicycle", "bus or train", "car"]
randomizer = "k-rr"
epsilon = "ln 3"
times = 5
"""
FIELDS = {
    "name": "commute", "version": 2, "question": "How did you come to work today?",
    "domain": ["on foot", "bicycle", "bus or train", "car"], "randomizer": "k-rr", "epsilon": "ln 3", "times": 5,
}  # fmt: skip
CITY = {"latitude": 37.7855, "longitude": -122.4075, "width": 3, "height": 3, "cell": "0.1"}
LISTED = [name for name in RANDOMIZERS if name != PLACES]


def city(**domain):
    return Survey.from_json(FIELDS | {"domain": domain or CITY, "randomizer": PLACES, "epsilon": "ln 2 at 1 km"})


def test_toml_and_json_say_the_same(tmp_path):
    (tmp_path / "a.toml").write_text(TOML)
    (tmp_path / "a.json").write_text(json.dumps(FIELDS))
    assert read_survey(tmp_path / "a.toml") == read_survey(tmp_path / "a.json") == Survey(**FIELDS)
    assert Survey(**FIELDS).oracle() == KRR(epsilon=Survey(**FIELDS).cost, size=4)


def test_a_byte_order_mark_is_no_harm(tmp_path):
    (tmp_path / "a.toml").write_bytes(b"\xef\xbb\xbf" + TOML.encode())
    assert read_survey(tmp_path / "a.toml").name == "commute"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"name": "No spaces!"}, "^name: got 'No spaces!', expected 1 to 60 of"),
        ({"name": ""}, "^name"),
        ({"name": 5}, "^name"),
        ({"version": 0}, "^version: got 0, expected a whole number ≥ 1"),
        ({"version": True}, "^version"),
        ({"version": "1"}, "^version"),
        ({"question": ""}, "^question"),
        ({"question": "a\nb"}, "^question"),
        ({"question": "x" * 1001}, "^question"),
        ({"domain": ["only"]}, "^domain: got '1 answers', expected a list of 2 to"),
        ({"domain": "yes"}, "^domain: got 'yes', expected a list of answers"),
        ({"domain": ["a", "a"]}, "^domain: got 'a', expected each answer once"),
        ({"domain": ["a", 5]}, "^domain: got 5, expected text"),
        ({"domain": ["a", " b"]}, "^domain"),
        ({"domain": CITY}, "^domain: got 'an area', expected a list of answers for 'k-rr'"),
        ({"randomizer": PLACES}, "^domain: got 'a list', expected an area in km for 'planar laplace'"),
        ({"randomizer": "laplace"}, "^randomizer: got 'laplace', expected one of k-rr, hadamard"),
        ({"randomizer": ["k-rr"]}, "^randomizer"),
        ({"epsilon": 0}, "^epsilon: got '0', expected a number > 0"),
        ({"epsilon": -1}, "^epsilon"),
        ({"epsilon": "much"}, "^epsilon: got 'much'"),
        ({"epsilon": "ln 1"}, "^epsilon: got '1', expected a number > 1"),
        ({"epsilon": 2000}, "^epsilon"),
        ({"epsilon": float("nan")}, "^epsilon"),
        ({"epsilon": None}, "^epsilon"),
        ({"times": 0}, "^times"),
        ({"times": 1.5}, "^times"),
        ({"color": "red"}, "^survey: got \"an unknown 'color'\", expected the fields name, version"),
        ({"epsilon": "1 per km"}, "^epsilon"),
    ],
)
def test_what_is_not_understood_is_refused(change, expected):
    with pytest.raises(InvalidParameter, match=expected):
        Survey.from_json(FIELDS | change)


@pytest.mark.parametrize("name", FIELDS)
def test_every_field_must_be_stated(name):
    with pytest.raises(InvalidParameter, match=f"no '{name}'"):
        Survey.from_json({field: value for field, value in FIELDS.items() if field != name})


@pytest.mark.parametrize("text", ["", "{", "[1]", "name = ", "5", "{" * 100_000, "[" * 100_000, "\0", '{"a": NaN}'])
def test_texts_that_are_no_survey(text):
    with pytest.raises(InvalidParameter, match="^survey"):
        parse(text)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(InvalidParameter, match="No such file"):
        read_survey(tmp_path / "none.toml")
    with pytest.raises(InvalidParameter, match="directory"):
        read_survey(tmp_path)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidParameter, match="UTF-8"):
        read_survey(tmp_path / "binary")


@pytest.mark.parametrize(
    "change", [{"version": 3}, {"epsilon": "ln 4"}, {"times": 6}, {"question": "Why?"}, {"domain": ["a", "b"]}]
)
def test_the_digest_changes_with_every_field(change):
    before = Survey(**FIELDS)
    after = Survey(**FIELDS | change)
    assert before.digest != after.digest
    assert after.digest.startswith(f"commute/{after.version}/")


def test_the_digest_is_of_the_meaning_not_of_the_text():
    assert Survey(**FIELDS | {"epsilon": 0.5}).digest == Survey(**FIELDS | {"epsilon": "0.5"}).digest
    assert parse(TOML + "# a remark\n").digest == Survey(**FIELDS).digest
    assert Survey(**FIELDS).digest == "commute/2/" + Survey(**FIELDS).digest[10:]
    assert Survey.from_json(json.loads(json.dumps(Survey(**FIELDS).to_json()))) == Survey(**FIELDS)


def test_logarithms_cost_no_more_than_they_say():
    cost = Survey(**FIELDS).cost
    assert isinstance(cost, Fraction)
    assert abs(float(cost) - log(3)) < 1e-15
    assert Survey(**FIELDS).loss == Pure(cost)
    assert Survey(**FIELDS).whole_loss == Pure(cost)


# Answers and reports


@pytest.mark.parametrize("randomizer", LISTED)
def test_reports_are_those_of_the_oracle(randomizer):
    survey = Survey(**FIELDS | {"randomizer": randomizer, "epsilon": 1})
    oracle = survey.oracle()
    entropy, same = DeterministicEntropy(7), DeterministicEntropy(7)
    expected = oracle.randomize([2], entropy=same)[0]
    report = survey.respond("bus or train", entropy=entropy)
    assert np.array_equal(np.asarray(report.report), expected)
    assert report.id == same.words(2).tobytes().hex()
    assert (report.survey, report.version) == (survey.digest, 2)
    assert Report.parse(report.line) == report
    assert Report.parse(report.line.encode()) == report
    assert "\n" not in report.line


def test_ids_are_never_the_same():
    survey = Survey(**FIELDS)
    assert len({survey.respond("car").id for _ in range(1000)}) == 1000


@pytest.mark.parametrize("answer", ["tram", "", 0, None, True, ["car"], "Car", "car "])
def test_answers_that_were_not_offered_are_refused_and_not_repeated(answer):
    with pytest.raises(InvalidData, match="expected one of: on foot, bicycle, bus or train, car") as refused:
        Survey(**FIELDS).respond(answer)
    assert "tram" not in str(refused.value)


def test_long_lists_are_not_printed_whole():
    survey = Survey(**FIELDS | {"domain": [f"answer {n}" for n in range(500)]})
    with pytest.raises(InvalidData) as refused:
        survey.respond("none")
    assert len(str(refused.value)) < 300


# Places


@pytest.mark.parametrize(
    ("domain", "shape"),
    [
        (CITY, (30, 30)),
        ({"width": 2, "height": 1, "cell": "0.5"}, (2, 4)),
        ({"south": 48.85, "west": 2.33, "north": 48.87, "east": 2.36, "cell": "0.5"}, (5, 5)),
        ({"rows": 3, "columns": 4, "cell": 1}, (3, 4)),
        ({"rows": 3, "columns": 4, "cell": 1, "latitude": 10, "longitude": 20}, (3, 4)),
    ],
)
def test_areas_in_all_their_forms(domain, shape):
    survey = city(**domain)
    assert survey.area.shape == shape
    assert isinstance(survey.randomizes(), PlanarReport)
    assert Survey.from_json(json.loads(json.dumps(survey.to_json()))) == survey
    assert isinstance(survey.loss, PerDistance)


@pytest.mark.parametrize(
    "domain",
    [{"latitude": 1}, CITY | {"zoom": 3}, {"rows": 0, "columns": 1, "cell": 1}, CITY | {"latitude": 91},
     CITY | {"cell": -1}, CITY | {"width": "wide"}, {}],
)  # fmt: skip
def test_areas_that_are_none(domain):
    with pytest.raises(InvalidParameter):
        Survey.from_json(FIELDS | {"domain": domain, "randomizer": PLACES, "epsilon": "ln 2 at 1 km"})


def test_places_become_cells():
    survey = city()
    middle = survey.area.locate([37.7855], [-122.4075]).cells[0]
    for answer in ("37.7855,-122.4075", " 37.7855 , -122.4075 ", (37.7855, -122.4075), [37.7855, "-122.4075"]):
        assert survey.value(answer) == middle
    assert survey.value((38, -122.4075)) // 30 == 29  # clamped to the northern border
    assert survey.planar().valid([survey.respond((37.78, -122.4)).report]).all()


@pytest.mark.parametrize(
    "answer", ["here", "1,2,3", "nan,2", "91,0", (1,), None, 5, ("a", "b"), (float("inf"), 0), "37.78", {}]
)
def test_places_that_are_none(answer):
    with pytest.raises(InvalidData, match="^answer: expected two numbers: latitude, longitude"):
        city().respond(answer)


def test_a_place_on_the_other_side_of_the_earth():
    with pytest.raises(InvalidData, match="too far outside the area"):
        city().respond((-33.9, 18.4))


def test_places_on_a_plain_area():
    survey = city(width=2, height=2, cell=1)
    assert [survey.value(point) for point in ((0.5, 0.5), ("1.5", "0.5"), "0.5,1.5", (9, 9), (-1, -1))] == [
        0,
        1,
        2,
        3,
        0,
    ]
    for answer in ((float("nan"), 1), ("a", 1), (None, 1)):
        with pytest.raises(InvalidData, match="x, y in km"):
            survey.value(answer)


def test_the_whole_loss_of_a_place_covers_the_area():
    survey = city(width=3, height=4, cell=1)
    exact = float(survey.cost) * (5 + 2**0.5)
    assert exact < survey.whole_loss.epsilon < exact + 1e-5


def test_lists_and_places_do_not_mix():
    with pytest.raises(InvalidParameter, match="this one is of places"):
        city().oracle()
    with pytest.raises(InvalidParameter, match="its domain is a list of answers"):
        Survey(**FIELDS).planar()
    assert Survey(
        **FIELDS | {"domain": Area.plane(width=2, height=1, cell=1), "randomizer": PLACES, "epsilon": 1}
    ).labels == ("0", "1")


# Reports that are none

GOOD = {"survey": "commute/2/" + "a" * 32, "version": 2, "report": 3, "id": "0" * 32}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"survey": 5}, "its survey is not the digest"),
        ({"survey": "commute/2/" + "A" * 32}, "its survey is not the digest"),
        ({"survey": "commute"}, "its survey is not the digest"),
        ({"version": "2"}, "its version is not a whole number"),
        ({"version": 0}, "its version"),
        ({"version": True}, "its version"),
        ({"id": "0" * 31}, "its id is not 32"),
        ({"id": "G" * 32}, "its id is not 32"),
        ({"id": 5}, "its id is not 32"),
        ({"report": 1.0}, "its report is not a whole number"),
        ({"report": None}, "its report"),
        ({"report": True}, "its report"),
        ({"report": "3"}, "its report"),
        ({"report": 2**63}, "its report"),
        ({"report": [1, 2.5]}, "its report"),
        ({"report": [[1]]}, "its report"),
        ({"report": {"a": 1}}, "its report"),
        ({"answer": "car"}, "an unknown field"),
    ],
)
def test_reports_with_a_wrong_field(change, reason):
    with pytest.raises(InvalidData, match=reason):
        Report.parse(json.dumps(GOOD | change))


@pytest.mark.parametrize(
    "line",
    ["", "hello", "[]", "5", "null", "{}", '{"survey":', "[" * 100_000, '{"report": NaN}', json.dumps(GOOD)[:-1],
     json.dumps(GOOD)[:-1] + ', "id": "x"}', '{"version": ' + "9" * 5000 + "}", b"\xff\xfe"],
)  # fmt: skip
def test_lines_that_are_no_reports(line):
    with pytest.raises(InvalidData, match="^report: "):
        Report.parse(line)


def test_very_long_lines_are_not_read():
    with pytest.raises(InvalidData, match="longer than"):
        Report.parse(" " * 8_000_001)


@given(
    st.text()
    | st.binary()
    | st.recursive(
        st.none() | st.floats() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.sampled_from([*GOOD, "x"]), x)
    ).map(json.dumps)
)
def test_whatever_comes_is_a_report_or_refused(line):
    try:
        assert Report.parse(line).line
    except InvalidInput as error:
        assert str(error).startswith("report: ")


# Documents of the first version


@pytest.mark.parametrize(
    ("first", "today", "digest"),
    [
        ("flat", "k-rr", "73ee53c4d57aff44a218a0a4dd76b4c3"),
        ("optimised unary", "optimized unary", "c3e972fc6b0654f9f0e6dab6749ade74"),
        ("optimised hashing", "optimized hashing", "89a203dbed29f203334a79b76ab628e9"),
        ("hadamard", "hadamard", "b8212dfde5c57ceed77545f30112903d"),
    ],
)
def test_surveys_of_the_first_version_open_and_keep_their_digests(first, today, digest):
    """So reports, stores and device accounts, which name a survey by its digest, stay those of the survey."""
    fields = {
        "name": "food",
        "version": 3,
        "question": "What?",
        "domain": ["a", "b", "c"],
        "epsilon": "ln 3",
        "times": 2,
    }
    written = Survey(**fields, randomizer=today)
    for key in ("randomiser", "randomizer"):
        assert Survey.from_json(fields | {key: first}) == written
        assert parse(json.dumps(fields | {key: first})).digest == f"food/3/{digest}"
    assert written.digest == f"food/3/{digest}"
    with pytest.raises(InvalidParameter, match="an unknown 'randomiser'"):
        Survey.from_json(fields | {"randomiser": first, "randomizer": today})


def test_a_survey_of_places_keeps_its_digest():
    area = {"latitude": 37.7855, "longitude": -122.4075, "width": 3, "height": 3, "cell": "0.1"}
    fields = {"name": "city", "version": 1, "question": "Where?", "domain": area, "epsilon": "ln 2 at 1 km", "times": 1}
    written = Survey.from_json(fields | {"randomiser": PLACES})
    assert written.digest == "city/1/f802e8ee54e80dadf19b8c8f5e35d9d5"
    assert Survey.from_json(fields | {"randomizer": PLACES}) == written
