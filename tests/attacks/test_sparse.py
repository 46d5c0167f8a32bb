"""Sparse matching: the score is the paper's, planted people are found, and a release without information gives none."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom
from tests.attacks.ratings_defenses import flipped, thinned

from discreet.attacks.records.ratings import Ratings, catalog, coarse, common, planted
from discreet.attacks.records.sparse import FALSE_NAMING, SparseMatching
from discreet.errors import InvalidInput
from discreet.intervals import clopper_pearson

ALPHA = 1e-6
PAPERS = {"similarity": "exponential", "threshold": "1.5"}
BEST = "best guess right, without abstaining"


@pytest.fixture(scope="module")
def case():
    return planted(catalog(people=2000, items=400, mean=40, seed=5), targets=400, absent=400, known=8, seed=6)


@pytest.fixture(scope="module")
def report(case):
    return attack(case).run()


def attack(case, released=None, **settings):
    return SparseMatching(released=released or case.released, auxiliary=case.auxiliary, truth=case.truth, **settings)


def brute(released, known, rho, d0, dated):
    """Scores, best record and eccentricity of one person, entry by entry from the paper's formula."""
    scores = [0.0] * released.people
    for i, r, d in known:
        rows = [k for k in range(len(released)) if released.item[k] == i]
        for k in rows:
            alike = math.exp(-abs(released.rating[k] - r) / rho)
            alike += math.exp(-abs(released.day[k] - d) / d0) if dated else 0
            scores[released.person[k]] += alike / math.log(max(2, len(rows)))
    first, second = sorted(scores, reverse=True)[:2]
    spread = np.std(scores)
    return scores, (first - second) / spread if spread > 1e-9 else 0.0


tables = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 4), st.integers(1, 5), st.integers(0, 90)),
    min_size=1, max_size=25, unique_by=lambda row: row[:2],
)  # fmt: skip


@settings(max_examples=60)
@given(tables, tables, st.booleans(), st.sampled_from([0.5, 1.5]), st.sampled_from([3, 30]))
def test_the_score_is_the_papers(rows, known, dated, rho, d0):
    released = Ratings.of(*np.array(rows).T, people=6, items=5)
    auxiliary = Ratings.of(*np.array(known).T, people=6, items=5)
    found = SparseMatching(
        released=released, auxiliary=auxiliary, truth=range(6), rating_scale=rho, day_scale=d0,
        **PAPERS,
    ).match(dates=dated)  # fmt: skip
    for person in range(6):
        mine = [row[1:] for row in known if row[0] == person]
        scores, lead = brute(released, mine, rho, d0, dated)
        assert max(found.lead[-1][person], 0) == pytest.approx(lead, rel=1e-3, abs=1e-3)
        assert scores[found.best[-1][person]] == pytest.approx(max(scores), rel=1e-5)
        claim = found.claims[-1][person]
        if abs(lead - 1.5) > 0.01:
            assert claim == (found.best[-1][person] if lead > 1.5 else -1)


def test_planted_people_are_found_and_others_mostly_not(case, report):
    assert report.verdict == "falls"
    assert report.success.low > 0.95
    assert report.people == 400
    assert report.baseline.value == 1 / case.released.people
    assert report.control is None
    assert report.facts[FALSE_NAMING].value < 0.1
    shares = [report.facts[name].value for name in ("named rightly", "named wrongly", "abstained")]
    assert sum(shares) == pytest.approx(1)
    assert report.facts["named rightly"].value > report.facts["named rightly without dates"].value


SHAPES = {
    "small and dense": ({"people": 943, "items": 1682, "mean": 106}, {"day_error": 30}),
    "popular items alike": ({"people": 3000, "items": 1500, "mean": 60, "popularity": "0.5"}, {"day_error": 60, "wrong": "0.2"}),
    "steep, very wrong": ({"people": 6000, "items": 300, "mean": 20, "popularity": "1.5"}, {"day_error": 200, "rating_error": "0.5"}),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("known", [4, 8])
def test_the_likelihood_names_more_people_at_equal_false_alarms(shape, known):
    """Without dates; false naming as stated, up to chance in 400 simulated and 300 real people outside."""
    sizes, errors = SHAPES[shape]
    case = planted(catalog(**sizes, seed=5), targets=150, absent=300, known=known, seed=6, **errors)
    inside, right = case.truth >= 0, {}
    for similarity in ("exponential", "likelihood"):
        found = attack(case, similarity=similarity, steps=()).match(dates=False)
        right[similarity] = (found.claims[-1] == case.truth)[inside].mean()
        false = (found.claims[-1] >= 0)[~inside].mean()
        assert abs(false - 0.05) < 5 * math.sqrt(0.05 * 0.95 * (1 / 300 + 1 / 400))
    assert right["likelihood"] > right["exponential"] + 0.3


def test_the_false_naming_rate_is_the_one_stated(case):
    """The threshold is found without the truth; it must be neither three times too lax nor too strict."""
    for rate, low, high in (("0.02", 0.0, 0.07), ("0.3", 0.18, 0.42)):
        report = attack(case, case.released.without_days(), false_naming=rate, steps=()).run()
        assert low <= report.facts[FALSE_NAMING].value <= high
        assert report.facts["false naming that the threshold is set for"].value == float(rate)


def test_a_record_that_holds_everything_is_no_evidence():
    """Two records hold the known item, alike in all else: the short one is named, not the one that rated everything."""
    rng = np.random.default_rng(1)
    rows = {(0, item) for item in range(100)} | {(1, 0), (1, 1)}
    rows |= {(person, int(item)) for person in range(2, 60) for item in rng.choice(np.arange(2, 100), 8, replace=False)}
    who, what = np.array(sorted(rows)).T
    released = Ratings.of(who, what, np.full(len(who), 3), items=100)
    known = Ratings.of([0, 0], [0, 1], [3, 3], items=100)
    found = SparseMatching(released=released, auxiliary=known, truth=[1], threshold=0).match()
    assert (found.best[-1].tolist(), found.claims[-1].tolist()) == ([1], [1])


def test_naming_anybody_at_all_is_a_false_claim_outside():
    """Everybody outside is named somebody: the rate is 1, though no one record is hit more often than by chance."""
    case = planted(catalog(people=500, items=200, mean=20, seed=1), targets=50, absent=50, known=4, seed=2)
    report = attack(case, threshold=0, similarity="exponential").run()
    assert report.facts[FALSE_NAMING].value > 0.9


def test_more_is_found_the_more_is_known(case):
    found = attack(case, steps=(1, 2, 4)).match()
    inside = case.truth >= 0
    right = (found.claims == case.truth)[:, inside].mean(1)
    assert found.steps == (1, 2, 4, 8)
    assert (np.diff(right) > 0).all()
    assert right[0] < 0.5 < 0.95 < right[-1]


def test_one_who_holds_every_rating_and_no_error_is_found_with_certainty():
    exact = planted(
        catalog(people=1000, items=300, mean=40, seed=1), targets=200, absent=1, known=8, seed=2,
        rating_error=0, day_error=0, wrong=0,
    )  # fmt: skip
    report = attack(exact, similarity="within", rating_scale="0.1", day_scale="0.1").run()
    assert report.facts[BEST].value > 0.99


# A release that tells nothing gives nothing; one that tells a little, a little


def luck(report):
    """The most hits that the best guess has by chance, but for one time in a million."""
    return binom.isf(ALPHA, report.people, report.baseline.value)


def test_cells_that_are_coin_flips_give_nothing_away(case):
    report = attack(case, flipped(case.released, share="0.5", seed=1)).run()
    assert report.verdict == "holds"
    assert report.success.hits <= luck(report)
    assert report.facts[BEST].hits <= luck(report)


@pytest.mark.slow
def test_the_same_judgment_sees_a_weak_leak(case):
    """Power: cells that are wrong one time in ten, or a twentieth of the entries, betray some all the same."""
    for released in (flipped(case.released, share="0.1", seed=1), thinned(case.released, share="0.05", seed=1)):
        report = attack(case, released).run()
        assert report.facts[BEST].hits > luck(report)
        assert report.facts[BEST].value < 0.2


def test_records_shuffled_among_people_give_nothing_away(case):
    truth = np.array(case.truth)
    inside = np.flatnonzero(truth >= 0)
    truth[inside] = np.roll(truth[inside], 1)
    report = SparseMatching(released=case.released, auxiliary=case.auxiliary, truth=truth).run()
    assert report.facts[BEST].hits <= luck(report)
    assert report.verdict == "holds"


def test_what_does_not_help_and_what_does(case):
    """Dates by the year, or none, still fall; the ten most common items without dates hold."""
    assert attack(case, coarse(case.released, days=365)).run().verdict == "falls"
    assert attack(case, case.released.without_days()).run().verdict == "falls"
    assert attack(case, common(case.released, items=10).without_days()).run().verdict == "holds"


def test_abstaining_is_not_mistaken_for_safety(case, report):
    shy = attack(case, common(case.released, items=50).without_days(), **PAPERS).run()
    assert shy.success.value < 0.03 < 0.15 < shy.facts[BEST].value
    assert any("Without abstaining" in remark for remark in shy.remarks)
    assert not any("Without abstaining" in remark for remark in report.remarks)


# The report


def of_people(case, chosen, released):
    """The attack on some of the people alone."""
    part = case.auxiliary.where(np.isin(case.auxiliary.person, chosen))
    person = np.searchsorted(chosen, part.person)
    few = Ratings.of(person, part.item, part.rating, part.day, people=len(chosen), items=part.items)
    return SparseMatching(released=released, auxiliary=few, truth=case.truth[chosen], steps=(), **PAPERS)


def test_intervals_cover(case):
    """Of 100 reports on 40 people, the interval holds the share among all 400 at least as often as stated."""
    released = case.released.without_days()
    everybody = attack(case, released, **PAPERS).run().success.value
    rng, covered = np.random.default_rng(1), 0
    for _ in range(100):
        chosen = np.sort(rng.choice(400, 40, replace=False))
        share = of_people(case, chosen, released).run().success
        covered += share.low <= everybody <= share.high
    assert 0.2 < everybody < 0.8
    assert covered >= binom.ppf(ALPHA, 100, 0.95)


def test_the_report_of_a_few_people_is_as_sure_as_they_are(case):
    report = of_people(case, np.arange(380, 420), case.released).run()
    low, high = clopper_pearson(report.success.hits, 20, confidence=0.95)
    assert (report.success.low, report.success.high) == (low, high)
    assert report.people == report.success.trials == 20


def test_the_report_shows_private_examples_to_the_owner_alone(case, report):
    assert len(report.worst) == 5
    person, record = (int(word) for word in report.worst[0].split() if word.isdigit())
    assert case.truth[person] == record
    assert report.worst[0] not in report.text() + report.page().html() + report.json()
    assert report.worst[0] in report.text(owner=True)


def test_charts_show_the_curve_with_and_without_dates(report):
    curve, leads = report.charts
    assert [mark.label for mark in curve.marks] == ["with dates", "without dates"]
    assert list(curve.marks[0].x) == [1, 2, 4, 8]
    assert [mark.label for mark in leads.marks][:2] == ["in the release", "not in the release"]
    assert "<svg" in curve.svg()
    assert "<svg" in leads.svg()


def test_the_same_every_time(case, report):
    assert attack(case).run().json() == report.json()


def test_people_of_whom_nothing_is_known_are_not_named():
    released = Ratings.of([0, 1, 2, 2], [0, 0, 1, 0], [5, 1, 4, 5], people=50, items=2)
    known = Ratings.of([1, 1], [0, 1], [5, 4], people=3, items=2)
    report = SparseMatching(released=released, auxiliary=known, truth=[0, 2, -1]).run()
    assert report.facts["abstained"].hits == 1
    assert report.success.hits == 1
    without = SparseMatching(released=released, auxiliary=known, truth=[0, 2, 1]).run()
    assert without.control is None
    assert any("false claims were not measured" in remark for remark in without.remarks)


BAD = {
    "truth of another length": ({"truth": [0, 1]}, "truth: expected 3 whole numbers"),
    "a record that is not there": ({"truth": [0, 1, 50]}, "truth: 1 numbers .* position 2"),
    "a record below −1": ({"truth": [0, -2, 1]}, "position 1"),
    "one record for two": ({"truth": [4, 4, -1]}, "two people have the same record"),
    "nobody inside": ({"truth": [-1, -1, -1]}, "nobody is in the release"),
    "fractions as truth": ({"truth": [0.0, 1.0, 2.0]}, "whole numbers"),
    "a negative threshold": ({"threshold": -1}, "threshold"),
    "a scale of 0": ({"rating_scale": 0}, "rating_scale"),
    "days of NaN": ({"day_scale": math.nan}, "day_scale"),
    "another similarity": ({"similarity": "cosine"}, "similarity"),
    "a negative seed": ({"seed": -1}, "seed"),
    "false naming of 1": ({"false_naming": 1}, "false_naming"),
    "a table": ({"released": [[1, 2]]}, "released: .*Ratings.of"),
    "one record": ({"released": Ratings.of([0], [1], [3])}, "at least two"),
    "unknown items": ({"auxiliary": Ratings.of([0, 1, 2], [0, 1, 9], [1, 2, 3])}, "10 items, the release 2"),
    "a step of 0": ({"steps": [0]}, "steps"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused(name):
    change, words = BAD[name]
    released = Ratings.of([0, 1, 2, 2], [0, 0, 1, 0], [5, 1, 4, 5], people=50, items=2)
    fields = {"released": released, "auxiliary": Ratings.of([0, 1, 2], [0, 1, 1], [1, 2, 3]), "truth": [0, 1, -1]}
    with pytest.raises(InvalidInput, match=words):
        SparseMatching(**(fields | change)).match()
