from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from tests.synthetic.chain_tables import ADD

from discreet.errors import InvalidParameter
from discreet.noise import DeterministicEntropy
from discreet.privacy.accounting import guarantee
from discreet.privacy.accounting.itemization import bill
from discreet.privacy.loss import BoundedRange, GaussianNoise, Repeated, Together
from discreet.synthetic.fit.relaxed import fit
from discreet.synthetic.measure import adaptive
from discreet.synthetic.measure.adaptive import Recipe, Round, choose, recipe_for
from discreet.synthetic.measure.noisy_marginals import Design, ones, pairs, triples

CHANGE = "change one"
SIZES = (3, 3, 3, 3, 2)


class Flat:
    """A model that expects as many in every cell."""

    def __init__(self, sizes, total):
        self.sizes, self.total = sizes, total

    def marginal(self, attributes):
        shape = [self.sizes[one] for one in attributes]
        return np.full(shape, self.total / np.prod(shape))


def planted(rows=3000):
    """Independent columns, but the fourth repeats the second."""
    codes = np.random.default_rng(1).integers(0, SIZES, (rows, len(SIZES)))
    codes[:, 3] = codes[:, 1]
    return codes


def recipe(**change):
    given = {"epsilon": 2, "delta": "1e-9", "neighbors": ADD, "rounds": 1, "picks": 1} | change
    return recipe_for(SIZES, ones(SIZES), pairs(SIZES), **given)


def test_planted_dependence_is_picked_first():
    for seed in range(5):
        found = choose(planted(), recipe(), lambda known: fit(SIZES, known), entropy=DeterministicEntropy(seed))
        assert len(found) == len(SIZES) + 1
        assert found[-1].attributes == (1, 3)


def test_what_is_known_is_not_picked_again_and_what_is_left_is():
    seen = []

    def fitted(known):
        seen.append(len(known))
        return fit(SIZES, known)

    made = recipe(rounds=2, picks=3, epsilon=8)
    found = choose(planted(), made, fitted, entropy=DeterministicEntropy(1))
    picked = [one.attributes for one in found[len(SIZES) :]]
    assert len(set(picked)) == 6
    assert seen == [5, 8]


def test_a_triple_that_pairs_know_nothing_of_is_picked():
    bits = np.random.default_rng(2).integers(0, 2, (3000, 5))
    bits[:, 4] = (bits[:, 0] + bits[:, 2]) % 2
    sizes = (2,) * 5
    made = recipe_for(
        sizes,
        [*ones(sizes), *pairs(sizes)],
        triples(sizes, most_cells=100),
        epsilon=2,
        delta="1e-9",
        neighbors=ADD,
        rounds=1,
        picks=1,
    )
    found = choose(bits, made, lambda known: fit(sizes, known), entropy=DeterministicEntropy(1))
    assert found[-1].attributes == (0, 2, 4)


@pytest.mark.parametrize("neighbors", [ADD, CHANGE])
def test_scores_move_by_no_more_than_the_stated_sensitivity(neighbors):
    sizes, candidates = (2, 3), [(0,), (1,), (0, 1)]
    first = Design(sizes, [(0,)], [5], neighbors=neighbors)
    made = Recipe(first, (Round(candidates, picks=1, epsilon=1, sigma=5),))
    cells = list(product(range(2), range(3)))
    base, model = [(0, 1), (1, 2), (1, 2)], Flat(sizes, 3.7)
    worst = 0
    for one in cells:
        others = [[]] if neighbors == ADD else [[other] for other in cells]
        for other in others:
            scores = [
                adaptive._scores(np.array(rows), sizes, candidates, model, Fraction(1))
                for rows in ([*base, one], base + other)
            ]
            worst = max(worst, *(abs(a - b) for a, b in zip(*scores, strict=True)))
    assert worst == made.score_sensitivity


def test_scores_are_whole_and_exact():
    codes, model = planted(200), Flat(SIZES, 200)
    (found,) = adaptive._scores(codes, SIZES, [(4,)], model, Fraction(3))
    expected = np.abs(np.bincount(codes[:, 4], minlength=2) - 100).sum() - round((2 / np.pi) ** 0.5 * 3 * 2)
    assert type(found) is int
    assert found == expected


def test_the_loss_is_that_of_its_parts():
    first = Design(SIZES, ones(SIZES), [10] * 5, neighbors=ADD, rows_per_unit=2)
    made = Recipe(first, (Round(pairs(SIZES), picks=3, epsilon="0.1", sigma=8),) * 2)
    expected = Together(first.loss, Repeated(BoundedRange("0.1"), 6), Repeated(GaussianNoise(4), 6))
    assert guarantee(made.loss, delta="1e-6").epsilon == pytest.approx(
        guarantee(expected, delta="1e-6").epsilon, rel=1e-9
    )
    assert made.score_sensitivity == 2


@pytest.mark.parametrize("neighbors", [ADD, CHANGE])
@pytest.mark.parametrize("epsilon", ["0.3", 10])
def test_a_recipe_spends_its_budget_and_not_more(epsilon, neighbors):
    made = recipe(epsilon=epsilon, neighbors=neighbors, rounds=2, picks=2, rows_per_unit=2)
    spent = guarantee(made.loss, delta="1e-9").epsilon
    assert 0.99 * float(Fraction(epsilon)) < spent <= float(Fraction(epsilon))
    picks = sum(count for item, count in bill(made.loss).items if isinstance(item, BoundedRange))
    assert picks == 4


def test_the_same_entropy_gives_the_same_choice():
    made = recipe(rounds=1, picks=2)
    first, again = (
        choose(planted(300), made, lambda known: fit(SIZES, known), entropy=DeterministicEntropy(4)) for _ in range(2)
    )
    assert [one.attributes for one in first] == [one.attributes for one in again]
    assert all((one.counts == other.counts).all() for one, other in zip(first, again, strict=True))


@pytest.mark.parametrize("change", [{"picks": 0}, {"picks": 4}, {"epsilon": 0}, {"sigma": 0}, {"picks": True}])
def test_bad_rounds_are_refused(change):
    given = {"picks": 1, "epsilon": 1, "sigma": 1} | change
    with pytest.raises(InvalidParameter):
        Round([(0,), (1,), (0, 1)], **given)


def test_candidates_must_be_columns():
    with pytest.raises(InvalidParameter, match="attributes"):
        Recipe(Design(SIZES, ones(SIZES), [10] * 5, neighbors=ADD), (Round([(0, 9)], picks=1, epsilon=1, sigma=1),))
