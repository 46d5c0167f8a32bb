"""A7: the same two questions answered with noise: the posterior stays spread."""

from fractions import Fraction

import pytest

from discreet.attacks.answers.composition import two_tables

pytestmark = pytest.mark.claim("A7")


def test_the_stated_channels():
    age, weight = (asked.channel for asked in two_tables(noisy=True).questions)
    don = frozenset(["Don"])
    assert [age.probability(don, value) for value in (30, 40, 50)] == [Fraction(1, 4), Fraction(1, 2), Fraction(1, 4)]
    assert [weight.probability(don, value) for value in (60, 90, 100)] == [Fraction(n, 7) for n in (1, 2, 4)]


def test_bayes_rule_by_hand():
    """p(s|40, 100) ∝ p(40|age of s)·p(100|weight of s): 16, 28, 49, 112, 16, 64 of 285."""
    attack = two_tables(noisy=True)
    last = list(attack.by_person().values())[-1]
    by_hand = dict(zip(("Alice", "Bob", "Carl", "Don", "Ellie", "Frank"), (16, 28, 49, 112, 16, 64), strict=True))
    assert last == {person: Fraction(weight, 285) for person, weight in by_hand.items()}
    assert sum(last.values()) == 1


def test_nobody_is_ruled_out_or_certain_whatever_is_answered():
    attack = two_tables(noisy=True)
    first, second = (asked.channel for asked in attack.questions)
    for age in first.outputs:
        for weight in second.outputs:
            belief = attack.belief().after(first, age).after(second, weight)
            assert len(belief.candidates) == 6
            assert belief.largest <= Fraction(256, 489)
    assert attack.run().verdict == "holds"


def test_it_is_drawn_before_and_after_each_answer():
    chart = two_tables(noisy=True).run().charts[0]
    assert [mark.label for mark in chart.marks] == ["before", "then least age = 40", "then greatest weight = 100"]
    assert list(chart.marks[0].values) == pytest.approx([1 / 6] * 6)
    assert "<svg" in chart.svg()
