"""Inference and linkability: high on an exact copy, nothing on an independent sample, and no stumbling over ties."""

# ruff: noqa: S106 - the secrets here are columns

import os
from pathlib import Path

import numpy as np
import pandas
import pytest
from scipy.stats import binom

from discreet.attacks.inference import Inference, Linkability
from discreet.attacks.tables import columns
from discreet.errors import InvalidData, InvalidParameter

DATA = Path(os.environ.get("DISCREET_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data")
ADULT = DATA / "adult" / "adult_train.parquet"
needs_adult = pytest.mark.skipif(not ADULT.exists(), reason=f"{ADULT} is not there; set DISCREET_DATA")

SURE = 1 - 1e-6
KNOWN = ["age", "zip code", "sex", "job", "hours"]


def world(count, seed):
    """People whose income depends on age and job, and whose names of columns hold spaces."""
    rng = np.random.default_rng(seed)
    age, job = rng.integers(18, 90, count), rng.integers(0, 12, count)
    return {
        "age": age,
        "zip code": np.array([f"{z:05d}" for z in rng.integers(0, 40, count)], object),
        "sex": np.array(["F", "M"], object)[rng.integers(0, 2, count)],
        "job": np.array([f"job {j}" for j in job], object),
        "hours": rng.integers(20, 60, count),
        "income": 1000 * rng.integers(0, 40, count) + 300 * age + 2000 * job,
        "disease": np.array(["none", "asthma", "cancer", "flu"], object)[rng.choice(4, count, p=[0.4, 0.3, 0.2, 0.1])],
        "party": np.array(["red", "blue", "green"], object)[(job + rng.integers(0, 2, count)) % 3],
    }


PEOPLE, OTHERS, THIRD = (world(3000, seed) for seed in (1, 2, 3))


def attacks(released, **more):
    common = {"released": released, "people": PEOPLE, "controls": OTHERS, "confidence": SURE} | more
    return [
        Inference(**common, known=KNOWN, secret="disease").run(),
        Inference(**common, known=KNOWN, secret="income", tolerance=2000).run(),
        Linkability(**common, left=["age", "zip code", "sex"], right=["job", "hours", "party", "income"]).run(),
    ]


def test_an_exact_copy_falls():
    for report in attacks(PEOPLE):
        assert report.verdict == "falls"
        assert report.risk.low > 0.85
    joined = attacks(PEOPLE)[2]
    assert joined.success.value == 1


def test_an_independent_sample_holds():
    for report in attacks(THIRD, targets=3000):
        assert report.verdict != "falls"
        assert report.risk.value < 0.05


def test_the_power_to_see_a_leak_of_some_rows():
    """A release of which 40 % are copies."""
    part = {name: np.concatenate([PEOPLE[name][:1200], THIRD[name][1200:]]) for name in PEOPLE}
    for report in attacks(part):
        assert report.verdict == "falls"
        assert 0.15 < report.risk.value < 0.7


def test_ties_do_not_hide_a_copy():
    """Two columns of few values: hundreds of ties on either side, in an exact copy. (A peer reports 0.02 here.)"""
    common = {"people": PEOPLE, "controls": OTHERS, "left": ["age", "sex"], "right": ["job", "zip code"]}
    copy = Linkability(released=PEOPLE, **common, targets=3000).run()
    assert copy.success.value == 1
    assert copy.verdict == "falls"
    assert copy.facts["rows found by the left party, on average"] > 15
    assert copy.risk.low > 0.9
    sample = Linkability(released=THIRD, **common, targets=3000, confidence=SURE).run()
    assert sample.risk.value < 0.05


@needs_adult
def test_adult_copied_and_sampled():
    """Real rows, with ties on both sides: everybody is linked in a copy, nobody beyond chance in other rows."""
    table, order = columns(ADULT), np.random.default_rng(5).permutation(30_000)
    people, others, third = ({name: c[part] for name, c in table.items()} for part in np.split(order, 3))
    common = {"people": people, "controls": others, "confidence": SURE}
    common |= {"left": ["age", "workclass", "education"], "right": ["occupation", "race", "hours-per-week"]}
    copy = Linkability(released=people, **common).run()
    assert copy.success.value == 1
    assert copy.verdict == "falls"
    assert copy.risk.low > 0.9
    sample = Linkability(released=third, **common, targets=10_000).run()
    assert sample.verdict == "holds"
    assert sample.risk.value < 0.05


def test_every_form_of_a_table():
    report = Inference(
        released=pandas.DataFrame(PEOPLE),
        people=PEOPLE,
        controls=pandas.DataFrame(OTHERS),
        known=KNOWN,
        secret="disease",
    ).run()
    assert report.success.value > 0.99
    assert report.people == 2000


def test_a_coarse_release_says_less():
    coarse = PEOPLE | {
        "age": np.array([f"[{a // 30 * 30}, {a // 30 * 30 + 30})" for a in PEOPLE["age"]], object),
        "zip code": np.array([z[:3] + "**" for z in PEOPLE["zip code"]], object),
        "job": np.array(["*"] * 3000, object),
        "hours": np.array([f"{h // 20 * 20}-{h // 20 * 20 + 19}" for h in PEOPLE["hours"]], object),
    }
    report = Inference(
        released=coarse, people=PEOPLE, controls=OTHERS, known=KNOWN, secret="disease", confidence=SURE
    ).run()
    assert report.verdict != "falls"
    assert report.risk.value < 0.05


def test_what_everybody_knows_is_no_risk():
    """The party follows from the job, for everybody: a good guess about people in the data and about others alike."""
    report = Inference(
        released=THIRD, people=PEOPLE, controls=OTHERS, known=["job"], secret="party", confidence=SURE
    ).run()
    assert report.success.value > 0.45
    assert report.control.value > 0.45
    assert report.verdict != "falls"


def test_the_same_seed_gives_the_same_report():
    one, again = (attacks(THIRD, targets=200)[0] for _ in range(2))
    assert one.as_dict() == again.as_dict()


def test_false_alarms_are_rare():
    """Sixty independent releases at 95 %: limits that do not overlap are much rarer than 1 in 20."""
    alarms = 0
    for seed in range(60):
        people, others, released = (world(250, 100 + 3 * seed + i) for i in range(3))
        common = {"released": released, "people": people, "controls": others}
        report = Linkability(**common, left=["age", "sex"], right=["job", "party"]).run()
        alarms += report.verdict == "falls"
    assert binom.sf(alarms - 1, 60, 0.02) > 1e-6


def test_medians_and_modes_of_ties():
    """Three rows look the same; the most common secret, or the middle one, is said."""
    released = {"x": [1, 1, 1, 2], "s": [10.0, 10.0, 40.0, 99.0], "c": ["a", "a", "b", "b"]}
    person = {"x": [1], "s": [10.0], "c": ["a"]}
    other = {"x": [2], "s": [99.0], "c": ["b"]}
    common = {"released": released, "people": person, "controls": other, "known": ["x"]}
    assert Inference(**common, secret="c").run().success.value == 1
    assert Inference(**common, secret="s").run().success.value == 1
    assert Inference(**common, secret="s", tolerance=1).run().success.value == 1
    assert Inference(**common, secret="c").run().control.value == 1


def test_the_nearest_rows_count_more_than_all_rows():
    released = {"x": [1, 1, 1, 2, 2, 2, 2], "c": ["a", "a", "b", "b", "b", "b", "b"]}
    people = {"x": [1, 2], "c": ["a", "b"]}
    report = Inference(released=released, people=people, controls={"x": [2], "c": ["b"]}, known=["x"], secret="c").run()
    assert report.success.value == 1


def test_missing_secrets_are_never_right():
    released = {"x": [1, 2, 3], "c": [None, "a", "b"]}
    people = {"x": [1, 2], "c": [None, "a"]}
    report = Inference(released=released, people=people, controls={"x": [3], "c": ["b"]}, known=["x"], secret="c").run()
    assert report.success.hits == 1


GOOD = {"released": PEOPLE, "people": PEOPLE, "controls": OTHERS}


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"secret": "wealth"}, InvalidParameter, "released: got a table without a column 'wealth'"),
        ({"people": {"age": [1]}}, InvalidParameter, "people: got a table without a column 'sex'"),
        ({"controls": {"age": [], "sex": [], "disease": []}}, InvalidData, "controls: it has no rows"),
        ({"known": []}, InvalidParameter, "known: got .*, expected at least one column"),
        ({"known": "age"}, InvalidParameter, "a list of columns"),
        ({"known": ["age", "disease"]}, InvalidParameter, "not among the known"),
        ({"released": {"age": [41], "sex": ["F"], "disease": ["flu"]}}, InvalidData, "fewer than two different values"),
        ({"controls": {"age": [41], "sex": ["F"], "disease": [None]}}, InvalidData, "missing everywhere"),
        ({"targets": 0}, InvalidParameter, "targets"),
        ({"tolerance": -1}, InvalidParameter, "tolerance"),
        ({"neighbours": 0}, InvalidParameter, "neighbours"),
        ({"confidence": 1}, InvalidParameter, "confidence"),
    ],
)
def test_bad_inference(change, error, words):
    with pytest.raises(error, match=words) as caught:
        Inference(**GOOD | {"known": ["age", "sex"], "secret": "disease"} | change).run()
    assert "flu" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"right": ["age"]}, InvalidParameter, "'age' is on both"),
        ({"right": []}, InvalidParameter, "right: got .*, expected at least one"),
        ({"released": {"age": [41, 41], "sex": ["F", "M"]}}, InvalidData, "each holds one value only"),
    ],
)
def test_bad_linkability(change, error, words):
    with pytest.raises(error, match=words) as caught:
        Linkability(**GOOD | {"left": ["age"], "right": ["sex"]} | change).run()
    assert "41" not in str(caught.value)
