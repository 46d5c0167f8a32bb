"""Composition over possible worlds."""

from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.attacks.answers.accumulation import Belief
from discreet.attacks.answers.composition import (
    PEOPLE,
    Composition,
    Question,
    all_worlds,
    greatest,
    halving,
    question,
    smallest,
    two_tables,
    worlds_of_one,
)
from discreet.errors import InvalidInput, InvalidParameter


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=5), st.booleans())
def test_deterministic_answers_cut_exactly_the_worlds_that_disagree(rows, several):
    """Against brute force: worlds that give the same answers as the truth, for every truth, any small table."""
    people = [f"p{i}" for i in range(len(rows))]
    low, high = ({p: row[c] for p, row in zip(people, rows, strict=True)} for c in (0, 1))
    worlds = all_worlds(people) if several else worlds_of_one(people)
    queries = [smallest(low), greatest(high)]
    asked = [question(str(i), query, worlds) for i, query in enumerate(queries)]
    sure = 0
    for truth in worlds:
        attack = Composition(worlds=worlds, questions=asked, observed=[query(truth) for query in queries])
        left = {world for world in worlds if all(query(world) == query(truth) for query in queries)}
        assert set(attack.beliefs()[-1].candidates) == left
        sure += bool(frozenset.intersection(*left))
    assert Composition(worlds=worlds, questions=asked).chance(2, Fraction(1)) == Fraction(sure, len(worlds))


def test_certainty_below_one_counts_strong_suspicion():
    worlds = worlds_of_one("ab")
    asked = [question("x", min, worlds, noise=halving(["a", "b"]))]
    attack = Composition(worlds=worlds, questions=asked)
    assert attack.chance(1, Fraction(2, 3)) == 1
    assert attack.chance(1, Fraction(3, 4)) == 0
    assert Composition(worlds=worlds, questions=asked, certainty="2/3").run().success.value == 1


def test_a_prior_counts():
    worlds = worlds_of_one("abc")
    asked = [question("is it a?", lambda world: "a" in world, worlds)]
    prior = Belief(dict(zip(worlds, [8, 1, 1], strict=True)))
    assert Composition(worlds=worlds, questions=asked, prior=prior).chance(1, Fraction(1)) == Fraction(4, 5)
    assert Composition(worlds=worlds, questions=asked, prior=prior, certainty="4/5").run().baseline.value == 1


def test_chance_is_a_probability_over_all_noisy_answers():
    attack = two_tables(noisy=True)
    total = sum(
        attack.beliefs()[0].weights[w] * first.probability(w, a) * second.probability(w, b)
        for first, second in [(q.channel for q in attack.questions)]
        for w in attack.worlds
        for a, b in product(first.outputs, second.outputs)
    )
    assert total == 1
    assert attack.chance(2, Fraction(1)) == 0
    assert 0 < attack.chance(2, Fraction(1, 3)) < 1


def test_several_may_have_it():
    """With 63 possible sets both answers leave ten worlds, and Don has the disease in eight of them."""
    attack = two_tables(worlds=all_worlds(PEOPLE, at_least=1))
    assert len(attack.beliefs()[-1].candidates) == 10
    assert list(attack.by_person().values())[-1]["Don"] == Fraction(4, 5)


def test_real_people_are_named_to_the_owner_only():
    from dataclasses import replace

    report = replace(two_tables(), named=False).run()
    shown = report.text() + report.json() + report.page().html()
    assert not any(person in shown for person in PEOPLE)
    assert report.facts["possible people, after both answers"] == 1
    assert "Don" in report.text(owner=True)
    assert "Don" in two_tables().run().page().html()


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"worlds": []}, "worlds"),
        ({"worlds": worlds_of_one("ab") * 2}, "worlds"),
        ({"questions": []}, "questions"),
        ({"observed": [1]}, "observed"),
        ({"certainty": 0}, "certainty"),
        ({"certainty": "1.1"}, "certainty"),
    ],
)
def test_bad_input(change, name):
    worlds = worlds_of_one("ab")
    given_ = {"worlds": worlds, "questions": [question("n", len, worlds)] * 2} | change
    with pytest.raises(InvalidParameter, match=name):
        Composition(**given_).run()


def test_questions_that_do_not_fit():
    worlds = worlds_of_one("abc")
    with pytest.raises(InvalidInput, match="1 of the 3 worlds"):
        Composition(worlds=worlds, questions=[Question("n", question("n", len, worlds[:2]).channel)]).run()
    with pytest.raises(InvalidInput):
        Composition(worlds=worlds, questions=[question("n", len, worlds)], observed=[7]).run()


@pytest.mark.parametrize("people", [[], ["a", "a"], [f"p{i}" for i in range(15)]])
def test_people(people):
    with pytest.raises(InvalidParameter, match="people"):
        all_worlds(people)
