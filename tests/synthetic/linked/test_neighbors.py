"""What one person can move, by enumeration, in exact numbers: the privacy of linked tables.

Every pair of databases is tried that differ in one person with all their rows in all tables, beside others who are
always there: people with too many rows, rows of nobody, rows of people who are in no table of people.
"""

from fractions import Fraction
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from tests.synthetic.linked.clinic_tables import ADD, CHANGE, PEOPLE, TESTS, VISITS, Fetching, catalog

from discreet.requests import LinkedSynthesis
from discreet.synthetic.measure import noisy_marginals
from discreet.synthetic.planner import plan_linked

OTHERS = {
    "people": [(0, 1, "y"), (2, 0, "x"), (2, 1, "x"), (3, 0, None), (None, 0, "x")],
    "visits": [(0, True, 1), (2, True, 0), (2, True, 0), (2, False, 2), (9, False, 1), (None, True, 0), (3, None, 1)],
    "tests": [(2, True), (2, None), (9, None), (None, True)],
}
WHO = 1
KINDS = {
    "people": [(0, "x"), (1, "y"), (None, "x")],  # the last has no code: it is left out
    "visits": [(True, 0), (False, 2), (None, 1)],
}
CONTENTS = {
    "people": [(), *((kind,) for kind in KINDS["people"]), tuple(KINDS["people"][:2])],
    "visits": [
        *(kinds for many in range(3) for kinds in combinations_with_replacement(KINDS["visits"], many)),
        *([KINDS["visits"][place] for place in three] for three in [(0, 0, 0), (0, 0, 1), (1, 1, 2)]),
    ],
    "tests": [(), ((None,),), ((True,), (True,)), ((True,), (True,), (None,))],
}
ASKED = {
    "people and two tables": {"people": {}, "visits": {"rows_per_person": 2}, "tests": {}},
    "people and one table": {"people": {}, "visits": {"rows_per_person": 3}},
    "no table of people": {"visits": {"rows_per_person": 2}, "tests": {"rows_per_person": 2}},
    "one table": {"visits": {"rows_per_person": 2}},
}


def databases(names):
    """Each with another content of one person, in the middle of the rows; first without them."""
    for contents in product(*(CONTENTS[name] for name in names)):
        mine = {name: [(WHO, *kind) for kind in kinds] for name, kinds in zip(names, contents, strict=True)}
        yield {name: [*OTHERS[name][:1], *mine.get(name, []), *OTHERS[name][1:]] for name in OTHERS}


@pytest.fixture
def noiseless(monkeypatch):
    """No noise; how much there would have been, as it is asked for."""
    asked = []
    monkeypatch.setattr(
        noisy_marginals,
        "rounded_gaussian",
        lambda sigma, shape, *, entropy: asked.append(Fraction(sigma)) or np.zeros(shape, np.int64),
    )
    return asked


def exact(one, engine):
    """All that `run` gives out, without its noise, in the order in which it is measured."""
    made, found = one.finish(one.run(engine, None), None, None), []
    for part, left_out in zip(made.measurements, made.left_out, strict=True):
        found += [measured.counts.ravel() for measured in part]
        found += [np.array(left_out)] if left_out else []
    return found


def marginals(one, engine):
    """The marginals alone."""
    made = one.finish(one.run(engine, None), None, None)
    return [measured.counts.ravel() for part in made.measurements for measured in part]


def furthest(found, sigmas, neighbors):
    """The largest Σ (distance of two marginals)²/σ², over all neighbors, as a fraction."""
    squares = []
    for marginal in zip(*found, strict=True):
        table = np.array(marginal, np.int64)
        starts = table[:1] if neighbors == ADD else table
        squares.append(((starts[:, None] - table[None]) ** 2).sum(axis=2).ravel())
    weights = [1 / sigma**2 for sigma in sigmas]
    return max(
        sum(weight * int(square) for weight, square in zip(weights, each, strict=True))
        for each in np.unique(np.array(squares).T, axis=0)
    )


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("neighbors", [ADD, CHANGE])
@pytest.mark.parametrize("name", list(ASKED))
def test_no_person_moves_the_release_by_more_than_is_paid_for(name, neighbors, noiseless):
    one = plan_linked(LinkedSynthesis(tables=ASKED[name], epsilon=1, delta="1e-6"), catalog(neighbors))
    assert one.verify(catalog(neighbors)) == one.loss
    found = [exact(one, Fetching(**rows)) for rows in databases(list(ASKED[name]))]
    sigmas = noiseless[: len(found[0])]
    assert noiseless == sigmas * len(found)
    assert len(found) == np.prod([len(CONTENTS[part]) for part in ASKED[name]]) > 12
    moved = furthest(found, sigmas, neighbors) * Fraction(one.loss.multiplier) ** 2
    assert moved <= 1
    # and no more is paid for than needed; two people cannot differ in all cells, and both have as many rows as can be
    assert moved > (1 - Fraction(1, 10**6) if neighbors == ADD else Fraction(2, 3))


@pytest.mark.parametrize("name", ["people and two tables", "people and one table"])
def test_rows_of_people_who_are_not_among_the_people_move_no_marginal(name, noiseless):
    one = plan_linked(LinkedSynthesis(tables=ASKED[name], epsilon=1, delta="1e-6"), catalog())
    without, *others = (
        marginals(one, Fetching(**rows)) for rows in databases(["visits", "tests"])
    )  # the person is in no table of people
    assert len(others) > 12
    for other in others:
        assert all((a == b).all() for a, b in zip(without, other, strict=True))


def test_what_is_enumerated_is_what_it_is_for():
    """Rows beyond the bound, rows without a code, and all three tables are among the databases."""
    every = list(databases(["people", "visits", "tests"]))
    assert max(sum(row[0] == WHO for row in rows["visits"]) for rows in every) == 3
    assert {table.name for table in (PEOPLE, VISITS, TESTS)} == set(every[0]) == set(OTHERS)
    assert [row for rows in every[:1] for name in rows for row in rows[name] if row[0] == WHO] == []
