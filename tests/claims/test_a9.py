"""A9: the fundamental law of information recovery, undefended and behind the curator."""

import math
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

import discreet
from discreet.attacks.answers.answerers import Curator, Raw, Rounded, Suppressed, ask_all
from discreet.attacks.answers.reconstruction import (
    Hashed,
    Reconstruction,
    against_budget,
    against_noise,
    population,
    random_subsets,
)
from discreet.curator.ledger import Ledger
from discreet.curator.policy import parse_policy
from discreet.curator.stores.memory import MemoryStore
from discreet.errors import BudgetExceeded
from discreet.exact import rational

pytestmark = pytest.mark.claim("A9")

POLICY = """
[dataset]
name = "clinic"
neighbors = "add or remove one"
[budget]
everyone = "all"
epsilon = "{epsilon}"
[tables.people]
source = "python"
unit = "person"
max_groups_per_unit = 1
max_rows_per_group = 1
columns.person = {{type = "integer", nullable = false, lower = 0, upper = 999999}}
columns.ward = {{type = "integer", nullable = false, values = {wards}}}
columns.ill = {{type = "boolean", nullable = false}}
"""
COUNT = "SELECT COUNT(*) AS n FROM people WHERE ill AND "


def curator(secret, *, epsilon, wards=10):
    people = np.arange(len(secret))
    table = pa.table({"person": people, "ward": people % wards, "ill": secret})
    policy = parse_policy(POLICY.format(epsilon=epsilon, wards=list(range(wards))))
    return discreet.open(policy, tables={"people": table}, ledger=Ledger(MemoryStore()), analyst="eve")


def by_predicates(data, secret, *, questions, each, seed):
    """Hashed predicates on the person's number, asked one by one in SQL."""
    hashed = Hashed.of(np.arange(len(secret)), questions=questions, seed=seed)
    answers = ask_all(Curator(dataset=data, epsilon=each, sql=COUNT.__add__), hashed.predicates("person"))
    scale = 1 / rational(each, "each")
    return Reconstruction(subsets=hashed.masks, truth=secret, answers=answers, scale=scale).run()


@pytest.mark.parametrize("method", ["lp", "least squares"])
def test_undefended_more_than_95_percent(method):
    secret = population(300, 0.4, 1)
    subsets = random_subsets(1200, people=300, seed=2)
    for defense in (Raw(secret), Rounded(Raw(secret), base=5), Suppressed(Raw(secret), below=10)):
        report = Reconstruction(subsets=subsets, truth=secret, answerer=defense, method=method).run()
        assert report.success.value > 0.95
        assert report.verdict == "falls"


def test_two_thousand_people_by_least_squares():
    secret = population(2000, 0.4, 1)
    subsets = random_subsets(6000, people=2000, seed=2)
    report = Reconstruction(subsets=subsets, truth=secret, answerer=Rounded(Raw(secret), base=10)).run()
    assert report.success.value > 0.95


def test_the_threshold_lies_at_the_root_of_n():
    """n = 100 and n = 1600: noise of 0.05·√n saves neither, noise of 5·√n saves both."""
    for people in (100, 1600):
        curve = against_noise(people=people, questions=3 * people, ratios=[0.05, 0.5, 5], seed=3)
        shares = [share.value for share in curve.shares]
        assert shares[0] > 0.95
        assert shares[2] < 0.5 + 0.05 + 4.9 * 0.5 / math.sqrt(people)
        assert all(a > b for a, b in pairwise(shares))


def test_a_sane_budget_is_no_better_than_guessing_from_the_marginal():
    for rate in (0.1, 0.3, 0.5):
        curve = against_budget(people=1000, questions=2000, epsilons=["0.1", 1], seed=5, rate=rate)
        for share in curve.shares:
            assert share.value <= curve.guessing + 0.05


def test_through_the_real_curator_with_a_careless_budget_everything_falls():
    secret = population(40, 0.5, 3)
    with curator(secret, epsilon=10**9) as data:
        report = by_predicates(data, secret, questions=80, each=10**6, seed=1)
    assert report.success.value == 1
    assert report.verdict == "falls"


def test_through_the_real_curator_at_epsilon_one_guessing_is_as_good():
    """Three clinics of 80 people with even bits, 60 questions at ε 1/60. Real noise: at most 51 % + 4.9 standard errors
    of 240 coins (false alarm below 1e-6, for the attack's true share is about 51 %)."""
    hits = 0
    for seed in range(3):
        secret = population(80, 0.5, seed)
        with curator(secret, epsilon=1) as data:
            report = by_predicates(data, secret, questions=61, each="1/60", seed=seed)
        assert report.facts["refused"] == 1  # the budget is spent after sixty
        hits += report.success.hits
    assert hits / 240 < 0.51 + 4.9 * 0.5 / math.sqrt(240)


def test_through_the_real_curator_one_histogram_of_wards():
    """All of ε 1 on one histogram of 30 wards: rare secrets are no better known than from the marginal."""
    secret = population(300, 0.15, 6)
    wards = range(30)
    masks = np.arange(300) % 30 == np.arange(30)[:, None]
    assert (masks @ secret.astype(int)).max() <= 5  # no ward where a majority is ill, so nothing to gain
    with curator(secret, epsilon=1, wards=30) as data:
        sql = "SELECT ward, COUNT(*) AS n FROM people WHERE ill GROUP BY ward"
        released = data.ask(sql, epsilon=1).table
        with pytest.raises(BudgetExceeded):
            data.ask(sql.replace("ill", "NOT ill"), epsilon=1)
    counts = dict(zip(released["ward"].to_pylist(), released["n"].to_pylist(), strict=True))
    answers = [counts[ward] for ward in wards]  # all of them are released
    report = Reconstruction(subsets=masks, truth=secret, answers=answers, scale=1).run()
    assert report.success.value <= report.baseline.value
    assert report.verdict != "falls"
