"""Inference and linkability: high on an exact copy, nothing on an independent sample, and no stumbling over ties."""

# ruff: noqa: S106 - the secrets here are columns

import numpy as np
import pandas
import pytest
from scipy.stats import binom
from tests.real_data import FOLDER, needs

from discreet.attacks.tables.columns import columns
from discreet.attacks.tables.inference import Inference, Linkability
from discreet.errors import InvalidData, InvalidParameter

ADULT = FOLDER / "adult" / "adult_train.parquet"
needs_adult = needs("adult/adult_train.parquet")

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
    assert report.people == 3000


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


def rare(count, seed, ill):
    """People of whom exactly so many have the rare secret; it depends on nothing."""
    rng = np.random.default_rng(seed)
    return {
        "age": rng.integers(18, 90, count),
        "zip": rng.integers(10_000, 10_400, count).astype(str).astype(object),
        "sex": np.array(["F", "M"], object)[rng.integers(0, 2, count)],
        "illness": np.array(["HIV"] * ill + ["none"] * (count - ill), object),
    }


def told(released, people, others, **more):
    common = {"people": people, "controls": others, "known": ["age", "zip", "sex"], "secret": "illness"}
    return Inference(released=released, **common, **more).run()


def test_a_rare_secret_of_a_raw_table_never_holds():
    """600 people, 3 of whom have it: nearly all are right by saying "none", and all three are told."""
    people, others, third = rare(600, 1, 3), rare(600, 2, 3), rare(600, 3, 3)
    report = told(people, people, others)
    assert report.success.value == 1
    assert report.verdict == "undecided"  # three of three here, none of three outside: too few
    assert report.groups[-1].success.trials == 3
    assert told(third, people, others).verdict == "undecided"
    assert told(people, people, rare(6000, 2, 30)).verdict == "falls"  # 3 of 3, and about 0 of 30


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(("count", "ill"), [(6000, 30), (6000, 300), (3000, 200)])
def test_the_recall_of_a_rare_secret(count, ill):
    people, others, third = (rare(count, seed, ill) for seed in (1, 2, 3))
    raw, other = told(people, people, others), told(third, people, others)
    assert raw.verdict == "falls"
    assert raw.groups[-1].success.trials == ill  # all who have it, not those of a sample
    assert raw.groups[-1].risk.low > 0.7
    assert other.verdict == ("undecided" if ill < 50 else "holds")
    part = {name: np.concatenate([third[name][:0], people[name][:ill], third[name][ill:]]) for name in people}
    assert told(part, people, others).verdict == "falls"  # those rows alone are copied


def test_a_sample_of_people_includes_those_of_rare_secrets():
    people, others = rare(3000, 1, 40), rare(3000, 2, 40)
    report = told(people, people, others, targets=300)
    assert report.people == 300
    assert [group.success.trials for group in report.groups][-1] == 40
    assert report.verdict == "falls"


def test_rare_secrets_hold_together_and_fall_alone():
    """100 secrets of 30 people each: one of them is copied."""

    def world(seed):
        rng = np.random.default_rng(seed)
        names = np.array([f"secret {i:03d}" for i in range(100) for _ in range(30)] + ["none"] * 7000, object)
        numbers = {name: rng.integers(0, 10**6, 10_000) for name in ("age", "zip", "sex")}
        return {**numbers, "illness": names}

    people, others, third = world(1), world(2), world(3)
    report = told(third, people, others, targets=10_000)
    assert [group.name for group in report.groups] == ["the 100 rarest secrets"]
    assert report.verdict == "holds"
    part = {name: np.concatenate([third[name][:1500], people[name][1500:1530], third[name][1530:]]) for name in people}
    assert told(part, people, others, targets=10_000).verdict == "falls"


def test_three_of_three_are_not_hidden_by_other_rare_secrets():
    """25 secrets of 40 people each tell nothing; of a 26th, the rows of all three people are copied."""

    def world(seed):
        rng = np.random.default_rng(seed)
        names = [f"secret {i:02d}" for i in range(25) for _ in range(40)] + ["HIV"] * 3 + ["none"] * 1500
        numbers = {name: rng.integers(0, 10**6, len(names)) for name in ("age", "zip", "sex")}
        return {**numbers, "illness": np.array(names, object)}

    people, others, third = world(1), world(2), world(3)
    assert told(third, people, others).verdict == "holds"
    copied = slice(1000, 1003)
    part = {name: np.r_[third[name][:1000], people[name][copied], third[name][1003:]] for name in people}
    report = told(part, people, others)
    assert report.verdict == "undecided"  # three controls cannot say whether outsiders are told too
    alone, together = report.groups
    assert (alone.verdict, alone.success.hits, alone.success.trials) == ("undecided", 3, 3)
    assert (together.name, together.verdict) == ("the 26 rarest secrets", "holds")


def test_rare_secrets_that_follow_from_what_is_known_do_not_stand_out():
    """Twenty secrets of about eleven people each are guessed from the job, inside and outside alike."""

    def world(seed):
        rng = np.random.default_rng(seed)
        job, ill = rng.integers(0, 40, 1500), rng.random(1500) < 0.15
        secret = np.where(ill, np.where(rng.random(1500) < 0.9, job % 20, rng.integers(0, 20, 1500)), -1)
        return {"age": job, "zip": rng.integers(0, 30, 1500), "sex": rng.integers(0, 2, 1500), "illness": secret}

    for seed in range(4):
        people, others, third = (world(10 + 3 * seed + i) for i in range(3))
        assert [group.name for group in told(third, people, others).groups] == ["the 20 rarest secrets"]


def test_a_secret_that_no_control_has_does_not_fall():
    """150 secrets that follow from the job: an independent sample tells them to everybody, controls or not."""

    def world(seed):
        rng = np.random.default_rng(seed)
        job = rng.integers(0, 600, 1000)
        secret = np.where(job < 150, np.where(rng.random(1000) < 0.95, job, rng.integers(0, 150, 1000)), -1)
        return {"age": job, "zip": rng.integers(18, 30, 1000), "sex": np.zeros(1000), "illness": secret}

    for seed in range(4):
        people, others, third = (world(50 + 3 * seed + i) for i in range(3))
        assert len(set(people["illness"]) - set(others["illness"])) > 10
        assert told(third, people, others).verdict in ("holds", "undecided")


def test_the_ends_of_numbers_are_judged_on_their_own():
    """Only the rows of the highest tenth are copied."""
    high = PEOPLE["income"] > np.quantile(PEOPLE["income"], 0.9)
    part = {name: np.where(high, PEOPLE[name], THIRD[name]) for name in PEOPLE}
    common = {"people": PEOPLE, "controls": OTHERS, "known": KNOWN, "secret": "income", "tolerance": 2000}
    groups = {group.name: group for group in Inference(released=part, **common).run().groups}
    assert groups["the highest tenth"].verdict == "falls"
    assert groups["the lowest tenth"].verdict != "falls"


def test_a_secret_that_is_named_more_often_inside_whoever_has_it_is_not_told():
    """Secrets dealt out anew: the rows of people are found, those of others only nearly, where ties fall otherwise."""

    def world(seed):
        rng = np.random.default_rng(seed)
        spread = {"zip": (0, 60), "age": (18, 90), "sex": (0, 2)}
        numbers = {name: rng.integers(*ends, 6000) for name, ends in spread.items()}
        return {**numbers, "illness": np.array(["a", "b", "c", "d"], object)[rng.integers(0, 4, 6000)]}

    for seed in range(5):
        people, others = world(2 * seed), world(2 * seed + 1)
        dealt = {**people, "illness": np.random.default_rng(seed).permutation(people["illness"])}
        assert told(dealt, people, others).verdict not in ("falls", "leaks")
    assert told(people, people, others, confidence=1 - 1e-7).verdict == "falls"


@pytest.mark.slow
def test_an_unrelated_release_holds_and_a_copied_fifth_does_not():
    """Five worlds of four secrets, and 10,000 people: the limits are narrow enough to say so."""
    verdicts, copied = [], []
    for seed in range(5):
        people, others, third = (world(10_000, 1000 + 3 * seed + i) for i in range(3))
        common = {"people": people, "controls": others, "known": ["age", "zip code", "hours"], "secret": "disease"}
        verdicts.append(Inference(released=third, **common, targets=10_000).run().verdict)
        part = {name: np.concatenate([people[name][:2000], third[name][2000:]]) for name in people}
        copied.append(Inference(released=part, **common, targets=10_000).run().verdict)
    assert verdicts.count("holds") >= 3
    assert "falls" not in verdicts
    assert copied == ["falls"] * 5


def test_names_of_secrets_are_for_the_owner():
    people, others = rare(600, 1, 3), rare(600, 2, 3)
    report = told(people, people, others)
    assert "HIV" not in report.text() + report.json() + report.page().html()
    assert "secret no. 2 by frequency: HIV" in report.text(owner=True)


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
        ({"neighbors": 0}, InvalidParameter, "neighbors"),
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
        ({"released": {"age": [41, 41], "sex": ["F", "M"]}}, InvalidData, "each holds a single value"),
    ],
)
def test_bad_linkability(change, error, words):
    with pytest.raises(error, match=words) as caught:
        Linkability(**GOOD | {"left": ["age"], "right": ["sex"]} | change).run()
    assert "41" not in str(caught.value)
