"""Singling out: every sentence isolates somebody in an exact copy; in an independent sample no more than chance."""

import numpy as np
import pytest
from scipy.stats import binom

from discreet.attacks.tables.singling_out import SinglingOut
from discreet.errors import InvalidData, InvalidParameter

SURE = 1 - 1e-6


def world(count, seed):
    rng = np.random.default_rng(seed)
    return {
        "age": rng.integers(18, 90, count),
        "pay (in $)": np.round(rng.lognormal(10, 1, count)),
        "job": np.array([f"job {j}" for j in rng.zipf(1.6, count) % 300], object),
        "born": np.datetime64("1940-01-01") + rng.integers(0, 20_000, count),
        "sex": np.array(["F", "M"], object)[rng.integers(0, 2, count)],
        "zip": np.array([f"{z:05d}" for z in rng.integers(0, 60, count)], object),
    }


PEOPLE, OTHERS, THIRD = (world(2000, seed) for seed in (1, 2, 3))


@pytest.mark.parametrize("width", [1, 2, 4, 6])
def test_an_exact_copy_falls(width):
    report = SinglingOut(released=PEOPLE, people=PEOPLE, controls=OTHERS, width=width, tries=600, confidence=SURE).run()
    assert report.success.value == 1
    assert report.verdict == "falls"
    assert report.risk.low > 0.9
    assert report.baseline.value <= (1 - 1 / 2000) ** 1999


@pytest.mark.parametrize("width", [1, 2, 4])
def test_an_independent_sample_holds(width):
    report = SinglingOut(released=THIRD, people=PEOPLE, controls=OTHERS, width=width, tries=600, confidence=SURE).run()
    assert report.people > 100
    assert report.verdict != "falls"
    assert report.risk.value < 0.05
    assert abs(report.success.value - report.control.value) < 0.05


def test_the_power_to_see_a_leak_of_some_rows():
    part = {name: np.concatenate([PEOPLE[name][:600], THIRD[name][600:]]) for name in PEOPLE}
    report = SinglingOut(released=part, people=PEOPLE, controls=OTHERS, width=3, tries=600, confidence=SURE).run()
    assert report.verdict == "falls"
    assert 0.15 < report.risk.value < 0.45


def test_a_k_anonymous_table_isolates_nobody():
    """Decades, first letters: every class is large, so its sentences are true of many."""
    coarse = {
        "age": np.array([f"[{a // 20 * 20}, {a // 20 * 20 + 20})" for a in PEOPLE["age"]], object),
        "sex": PEOPLE["sex"],
        "zip": np.array([z[:4] + "*" for z in PEOPLE["zip"]], object),
    }
    report = SinglingOut(released=coarse, people=PEOPLE, controls=OTHERS, width=2, tries=600, confidence=SURE).run()
    assert report.success.hits == 0
    assert report.facts["sentences true of nobody on the side of the data"] == 0


def test_the_weight_gives_the_baseline():
    """A sentence true of one in n people isolates one of n with probability (1 − 1/n)^(n−1)."""
    people = {"x": np.arange(100)}
    report = SinglingOut(released=people, people=people, controls={"x": np.arange(100)}, width=1, tries=500).run()
    assert report.baseline.value == pytest.approx(0.99**99)
    assert report.control.value == 1


def test_sentences_true_of_two_isolate_nobody():
    people, pairs = {"x": np.arange(100)}, {"x": np.repeat(np.arange(50), 2)}
    assert SinglingOut(released=people, people=people, controls=pairs).run().control.value == 0
    assert SinglingOut(released=people, people=pairs, controls=people).run().success.value == 0


def test_sentences_that_isolate_nobody_in_the_release_are_left_out():
    """There are fewer good sentences than tries; the others are not tried."""
    columns = ["age", "sex", "zip"]
    report = SinglingOut(released=PEOPLE, people=PEOPLE, controls=OTHERS, columns=columns, width=2, tries=5000).run()
    assert 100 < report.people < 5000
    assert report.success.value == 1


def cells(count, cells, seed):
    """Two columns of equally likely values: about `count` / `cells` people share both."""
    rng = np.random.default_rng(seed)
    return {"a": rng.integers(0, cells // 2, count).astype(str).astype(object), "b": rng.integers(0, 2, count)}


def test_both_sides_are_equally_large():
    """Every sentence is true of one in 100 people, so of one in two samples of 50."""
    people, many = {"x": np.arange(100)}, {"x": np.arange(100_000) % 100 + 1000.0}
    few = SinglingOut(released=people, people=people, controls={"x": np.arange(50)}, width=1).run()
    assert few.facts["people on either side"] == 50
    assert few.success.value == pytest.approx(0.5, abs=0.02)
    assert few.control.value == pytest.approx(0.5, abs=0.02)
    assert SinglingOut(released=people, people=people, controls=many).run().facts["people on either side"] == 100


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("others", [100, 300, 3000])
@pytest.mark.parametrize("size", [1000, 3333])
def test_copies_never_hold_whatever_the_number_of_controls(others, size):
    """30 % of the rows are people's own."""
    for seed in range(4):
        people, third, controls = (cells(count, size, 3 * seed + i) for i, count in enumerate((1000, 1000, others)))
        released = {name: np.concatenate([people[name][:300], third[name][300:]]) for name in people}
        report = SinglingOut(released=released, people=people, controls=controls, width=2, seed=seed, tries=700).run()
        if others < 1000 or size > 1000:  # with 1000 cells a copied row isolates no more often than any other
            assert report.verdict != "holds"
        if others > 1000 and size > 1000:
            assert report.verdict == "falls"
            assert 0.1 < report.risk.value < 0.25  # 30 % of e^-0.3 - 0.3e^-0.3, over 1 - 0.3e^-0.3: 0.2


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("others", [100, 1000, 3000])
def test_no_false_alarms_whatever_the_number_of_controls(others):
    """12 independent releases: limits at 95 % that are apart by chance are rarer than one in fifty."""
    alarms, holds = 0, 0
    for seed in range(12):
        people, released, controls = (cells(count, 1000, 3 * seed + i) for i, count in enumerate((1000, 1000, others)))
        report = SinglingOut(released=released, people=people, controls=controls, width=2, seed=seed, tries=700).run()
        alarms += report.verdict in ("falls", "leaks")
        holds += report.verdict == "holds"
    assert binom.sf(alarms - 1, 12, 0.02) > 1e-6
    assert not (holds and others < 1000)


def test_one_sentence_that_happens_to_be_true_is_no_leak():
    """Of 50 controls none is isolated, of 50 people one, by 500 sentences: weights of 0 are not known to be 0."""
    people, released, controls = (cells(count, 20_000, 9 + i) for i, count in enumerate((50, 500, 50)))
    people = {name: np.append(column[1:], released[name][:1]) for name, column in people.items()}
    report = SinglingOut(released=released, people=people, controls=controls, width=2, tries=500).run()
    assert (report.success.hits, report.control.hits) == (1, 0)
    assert report.verdict not in ("falls", "leaks")


def test_fewer_controls_are_said():
    half = {name: column[:1000] for name, column in OTHERS.items()}
    report = SinglingOut(released=THIRD, people=PEOPLE, controls=half, width=3, tries=1000).run()
    assert report.verdict == "undecided"
    assert "1,000 controls for 2,000 people" in report.text()


def test_fewer_controls_do_not_make_a_leak_small():
    """30 % of the rows are copied; among 250 of the 2,000 people few of them are met, which is no small leak."""
    part = {name: np.concatenate([PEOPLE[name][:600], THIRD[name][600:]]) for name in PEOPLE}
    few = {name: column[:250] for name, column in OTHERS.items()}
    report = SinglingOut(released=part, people=PEOPLE, controls=few, width=3, tries=2000).run()
    assert report.verdict == "leaks"
    assert "perhaps by more than shown" in report.text()
    assert "a few people" not in report.page().html() + report.json()


def test_a_release_of_more_rows_than_people_is_remarked_on():
    """Copies of people who are not named are not seen."""
    few = [{name: column[:200] for name, column in table.items()} for table in (PEOPLE, OTHERS)]
    report = SinglingOut(released=PEOPLE, people=few[0], controls=few[1], tries=200).run()
    assert "2,000 rows for 200 people" in report.text()
    assert "rows for" not in SinglingOut(released=few[0], people=PEOPLE, controls=OTHERS, tries=200).run().text()


def test_missing_values_are_not_spoken_of():
    released = {"x": [None, 1.0, 2.0], "t": ["a", None, None]}
    report = SinglingOut(released=released, people=released, controls={"x": [5.0] * 3, "t": ["b"] * 3}, width=1).run()
    assert report.success.value == 1
    assert report.people == 5  # x ≤ 1, x = 1, x = 2, x ≥ 2, t = a


def test_the_same_seed_gives_the_same_report():
    one, again, other = (
        SinglingOut(released=THIRD, people=PEOPLE, controls=OTHERS, width=3, tries=200, seed=seed).run().as_dict()
        for seed in (1, 1, 2)
    )
    assert one == again
    assert one != other


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"columns": ["wealth"]}, InvalidParameter, "without a column 'wealth'"),
        ({"columns": []}, InvalidParameter, "at least one column"),
        ({"people": {"age": [1]}}, InvalidParameter, "people: got a table without"),
        ({"width": 0}, InvalidParameter, "width"),
        ({"width": 7}, InvalidParameter, "width"),
        ({"tries": 0}, InvalidParameter, "tries"),
        ({"reach": 1}, InvalidParameter, "reach"),
        ({"seed": -1}, InvalidParameter, "seed"),
        (
            {"released": {"x": [None]}, "people": {"x": ["p"]}, "controls": {"x": ["p"]}},
            InvalidData,
            "missing everywhere",
        ),
    ],
)
def test_bad_input(change, error, words):
    with pytest.raises(error, match=words):
        SinglingOut(**{"released": PEOPLE, "people": PEOPLE, "controls": OTHERS} | change).run()


def test_copied_rows_are_seen_with_the_usual_settings():
    """Columns of few values: one column alone isolates nobody, and would let 30 % of copies hold."""
    rng = np.random.default_rng(4)
    people, released, controls = ({f"c{i}": rng.integers(0, 60, 1000) for i in range(4)} for _ in range(3))
    released = {name: np.concatenate([people[name][:300], values[300:]]) for name, values in released.items()}
    assert SinglingOut(released=released, people=people, controls=controls).run().verdict == "falls"
