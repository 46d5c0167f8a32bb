"""Singling out: every sentence isolates somebody in an exact copy; in an independent sample no more than chance."""

import numpy as np
import pytest

from discreet.attacks.singling import SinglingOut
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
    assert report.facts["sentences true of nobody in the data"] == 0


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


def test_fewer_controls_are_scaled_by_hand():
    """5 of 50 others are isolated by 100 sentences (x = v, and two ends): at most twice as many of 100."""
    people = {"x": np.arange(100.0)}
    controls = {"x": np.concatenate([np.arange(5.0) + 10, np.full(45, 50.5)])}
    report = SinglingOut(released=people, people=people, controls=controls).run()
    assert report.people == 102
    assert report.control.value == pytest.approx(2 * 5 / 102)


def test_fewer_controls_are_scaled():
    half = {name: column[:1000] for name, column in OTHERS.items()}
    whole, scaled = (
        SinglingOut(released=THIRD, people=PEOPLE, controls=controls, width=3, tries=1000).run().control
        for controls in (OTHERS, half)
    )
    assert scaled.trials is None
    assert scaled.value == pytest.approx(whole.value, abs=0.06)
    assert scaled.high <= (1 - 1 / 2000) ** 1999


def test_missing_values_are_not_spoken_of():
    released = {"x": [None, 1.0, 2.0], "t": ["a", None, None]}
    report = SinglingOut(released=released, people=released, controls={"x": [5.0] * 3, "t": ["b"] * 3}).run()
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


def test_few_controls_leave_the_baseline_in_doubt():
    """Ten controls show nothing of sentences that are true of one person in two hundred."""
    rng = np.random.default_rng(7)
    people, others, third = ({"a": rng.integers(0, 200, n), "b": rng.integers(0, 2, n)} for n in (200, 10, 200))
    report = SinglingOut(released=third, people=people, controls=others, columns=["a", "b"], width=2).run()
    assert report.baseline.high >= report.control.high > 0.05
    assert report.verdict not in ("falls", "leaks")
