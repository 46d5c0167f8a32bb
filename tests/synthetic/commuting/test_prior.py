"""Priors against exact enumeration: every output, every pair of neighbors, in rationals."""

from fractions import Fraction
from itertools import product
from math import factorial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.errors import InvalidParameter
from discreet.exact import exp_down, exp_up
from discreet.synthetic.commuting.urn import GRAIN, approximate_prior, probabilistic_prior, pure_prior

EPSILONS = (Fraction(1, 2), Fraction(1), Fraction(2))


def rising(start, steps):
    found = Fraction(1)
    for step in range(steps):
        found *= start + step
    return found


def vectors(cells, total):
    return [v for v in product(range(total + 1), repeat=cells) if sum(v) == total]


def law(counts, prior, draws):
    """P(s | counts) of every output."""
    balls = [n + prior for n in counts]
    found = {}
    for s in vectors(len(counts), draws):
        chance = Fraction(factorial(draws)) / rising(sum(balls), draws)
        for drawn, start in zip(s, balls, strict=True):
            chance *= rising(start, drawn) / factorial(drawn)
        found[s] = chance
    return found


def neighbors(counts):
    for i, j in product(range(len(counts)), repeat=2):
        if i != j and counts[i]:
            moved = list(counts)
            moved[i] -= 1
            moved[j] += 1
            yield tuple(moved)


def laws(people, cells, prior):
    return {counts: law(counts, prior, people) for counts in vectors(cells, people)}


@pytest.mark.parametrize(("people", "cells"), [(1, 2), (3, 2), (4, 3), (7, 2), (3, 4)])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_pure_prior_is_enough_and_no_more(people, cells, epsilon):
    prior = pure_prior(people, epsilon=epsilon)
    found = laws(people, cells, prior)
    worst = max(
        p / q
        for a, pa in found.items()
        for b in neighbors(a)
        for p, q in zip(pa.values(), found[b].values(), strict=True)
    )
    assert worst <= exp_up(epsilon)
    assert worst > exp_down(epsilon) * Fraction(95, 100) or prior <= Fraction(2, GRAIN)


@pytest.mark.parametrize(("people", "cells"), [(3, 2), (6, 2), (4, 3), (3, 4), (9, 2)])
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", [Fraction(1, 10), Fraction(1, 100)])
def test_outputs_that_break_the_ratio_have_mass_at_most_delta(people, cells, epsilon, delta):
    """The definition of probabilistic DP, over all counts and all their neighbors."""
    prior = probabilistic_prior(people, cells, epsilon=epsilon, delta=delta)
    found, limit = laws(people, cells, prior), exp_down(epsilon)
    for counts, chances in found.items():
        others = [found[b] for b in neighbors(counts)]
        bad = sum(p for s, p in chances.items() if any(p > limit * q[s] or q[s] > limit * p for q in others))
        assert bad <= delta


@pytest.mark.parametrize(("people", "cells"), [(3, 2), (6, 2), (4, 3), (3, 4), (9, 2)])
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", [Fraction(1, 10), Fraction(1, 100)])
def test_the_approximate_prior_gives_epsilon_delta(people, cells, epsilon, delta):
    prior = approximate_prior(people, cells, epsilon=epsilon, delta=delta)
    found, limit = laws(people, cells, prior), exp_down(epsilon)
    for counts, chances in found.items():
        for other in neighbors(counts):
            excess = sum(max(p - limit * found[other][s], 0) for s, p in chances.items())
            assert excess <= delta


def test_the_approximate_prior_is_not_wasteful():
    """With half of it, the guarantee fails."""
    people, cells, epsilon, delta = 9, 2, Fraction(1), Fraction(1, 100)
    prior = approximate_prior(people, cells, epsilon=epsilon, delta=delta) / 2
    found, limit = laws(people, cells, prior), exp_down(epsilon)
    worst = max(
        sum(max(p - limit * found[b][s], 0) for s, p in chances.items())
        for counts, chances in found.items()
        for b in neighbors(counts)
    )
    assert worst > delta


def beta_binomial_tail(first, people, inside, outside):
    """P(s ≥ first), in rationals."""
    total = Fraction(0)
    for s in range(first, people + 1):
        ways = Fraction(factorial(people), factorial(s) * factorial(people - s))
        total += ways * rising(inside, s) * rising(outside, people - s) / rising(inside + outside, people)
    return total


@settings(max_examples=60, deadline=None)
@given(
    people=st.integers(2, 60),
    cells=st.integers(2, 50),
    grains=st.integers(1, 20_000),
    epsilon=st.sampled_from(EPSILONS),
    data=st.data(),
)
def test_tails_are_bounded_from_above_and_closely(people, cells, grains, epsilon, data):
    from discreet.synthetic.commuting.urn import _Case

    prior = Fraction(grains, GRAIN)
    case = _Case(people, cells, prior, epsilon)
    count = data.draw(st.integers(0, people))
    one = np.array([float(count)])
    bound = float(case.tail(one, one)[0])
    first = int(np.floor(float((exp_down(epsilon) - 1) * (prior + max(count, 1) - 1)))) + 1
    inside, outside = prior + count, people + cells * prior - prior - count
    if outside < 1:
        assert bound == 1.0
        return
    exact = float(beta_binomial_tail(first, people, inside, outside)) if first <= people else 0.0
    assert exact <= bound <= exact * 1.0001 + 1e-300


def test_blocks_cover_every_count_once():
    from discreet.synthetic.commuting.urn import _blocks

    for people in (1, 2, 99, 100, 101, 12_345):
        starts, ends = _blocks(people)
        covered = np.concatenate([np.arange(a, b + 1) for a, b in zip(starts, ends, strict=True)])
        assert np.array_equal(covered, np.arange(1, people + 1))


def test_a_block_is_no_better_than_its_counts():
    from discreet.synthetic.commuting.urn import _Case

    case = _Case(3000, 40, Fraction(8), Fraction(1))
    for start, end in ((200, 202), (1000, 1010)):
        each = np.arange(start, end + 1, dtype=np.float64)
        ends = np.array([float(start)]), np.array([float(end)])
        assert case.tail(*ends)[0] >= case.tail(each, each).max()
        assert case.excess(*ends)[0] >= case.excess(each, each).max()


def test_the_published_case():
    """A million people and ε about 7 need 913 people in each block; a small chance of failure needs far fewer."""
    assert 912 < pure_prior(10**6, epsilon=7) < 914
    assert probabilistic_prior(10**6, 1000, epsilon=7, delta="1e-6") < 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"people": 0}, {"people": 1.5}, {"people": 10**10}, {"cells": 1}, {"cells": True}, {"epsilon": 0}, {"epsilon": "x"},
        {"epsilon": float("nan")}, {"delta": 0}, {"delta": 1}, {"delta": -1},
    ],
)  # fmt: skip
def test_what_cannot_be(wrong):
    terms = {"people": 10, "cells": 3, "epsilon": 1, "delta": "0.01"} | wrong
    with pytest.raises(InvalidParameter):
        probabilistic_prior(terms.pop("people"), terms.pop("cells"), **terms)
