"""A6: k-anonymity does not compose."""

from fractions import Fraction

import numpy as np
import pytest

from discreet.attacks.answers.composition import AGES, ILL, PEOPLE, WEIGHTS, two_tables
from discreet.attacks.answers.intersection import Intersection, two_hospitals

pytestmark = pytest.mark.claim("A6")


def test_the_published_tables():
    assert PEOPLE == ("Alice", "Bob", "Carl", "Don", "Ellie", "Frank")
    assert tuple(AGES.values()) == (30, 30, 40, 40, 50, 50)
    assert tuple(WEIGHTS.values()) == (60, 90, 90, 100, 60, 100)
    assert ILL == ("Don", "Frank")


def test_each_answer_fits_two_people_and_both_fit_only_don():
    attack = two_tables()
    assert attack.observed == [40, 100]
    age, weight = (attack.belief().after(q.channel, a) for q, a in zip(attack.questions, attack.observed, strict=True))
    assert set(age.candidates) == {frozenset(["Carl"]), frozenset(["Don"])}
    assert set(weight.candidates) == {frozenset(["Don"]), frozenset(["Frank"])}
    assert attack.beliefs()[-1].candidates == (frozenset(["Don"]),)
    moments = list(attack.by_person().values())
    assert [moment["Don"] for moment in moments] == [Fraction(1, 6), Fraction(1, 2), 1]


def test_it_is_so_for_everybody_in_the_tables():
    """Either answer is 2-anonymous whoever is ill, and both together always single the person out."""
    attack = two_tables()
    assert [attack.chance(n, Fraction(1)) for n in (1, 2)] == [0, 1]
    assert attack.chance(1, Fraction(1, 2)) == 1  # one of two
    report = attack.run()
    assert (report.success.value, report.baseline.value, report.verdict) == (1, 0, "falls")


def test_two_k_anonymous_tables_of_the_same_people():
    """The same on generated hospitals (Ganta, Kasiviswanathan, Smith 2008), each 4-anonymous by one exact column."""
    hospitals = two_hospitals(people=400, shared=200, conditions=40, seed=1)

    def coarse(table, keep, hide, k=4):
        order = np.argsort(table[keep], kind="stable")
        groups = np.array_split(order, len(order) // k)
        label = np.empty(len(order), object)
        for group in groups:
            kept = [table[keep][row] for row in group]
            label[group] = f"{min(kept)}-{max(kept)}"
        assert min(map(len, groups)) >= k
        return {keep: list(label), hide: ["*"] * len(order), "condition": table["condition"]}

    first, second = coarse(hospitals.first, "age", "zip"), coarse(hospitals.second, "zip", "age")
    report = Intersection(
        releases=[first, second], known=hospitals.both, on=["age", "zip"], sensitive="condition"
    ).run()
    alone = [report.facts[f"pinned by release {i} alone"] for i in (1, 2)]
    assert max(share.value for share in alone) < 0.05
    assert report.success.low > 5 * max(share.value for share in alone)
    assert report.verdict == "falls"
