from fractions import Fraction
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from scipy.special import ndtr
from tests.statistical.power import MANY, WRONG, Stream, assert_follows, assert_rejected
from tests.synthetic.chain_tables import ADD, chain

from discreet.errors import InvalidData, InvalidParameter
from discreet.noise import DeterministicEntropy
from discreet.privacy.accounting import guarantee
from discreet.privacy.loss import GaussianNoise
from discreet.synthetic.measure.noisy_marginals import (
    Design,
    Measurement,
    allotted,
    counts,
    design,
    design_for,
    measure,
    ones,
    packed,
    pairs,
    total,
    unpacked,
)

CHANGE = "change one"
SIZES = (2, 3)


def shift(design, rows, others):
    """The squared distance between the exact answers on two tables, each marginal in units of its noise."""
    tables = [np.array(each, int).reshape(-1, len(design.sizes)) for each in (rows, others)]
    gaps = ((counts(tables[0], design.sizes, m) - counts(tables[1], design.sizes, m)).ravel() for m in design.marginals)
    return sum(
        (Fraction(int(gap @ gap)) / sigma**2 for gap, sigma in zip(gaps, design.sigmas, strict=True)), Fraction(0)
    )


def units(most):
    """Everything that one unit of at most so many rows can hold."""
    rows = list(product(*(range(size) for size in SIZES)))
    return [list(unit) for k in range(most + 1) for unit in combinations_with_replacement(rows, k)]


@pytest.mark.parametrize("most", [1, 2])
@pytest.mark.parametrize("neighbors", [ADD, CHANGE])
@pytest.mark.parametrize("sigmas", [[3, "4.5", 7], [5, 5, 5], [5, 7, 5]])
def test_the_loss_is_the_worst_case_over_all_neighbors(neighbors, most, sigmas):
    made = Design(SIZES, [(0,), (1,), (0, 1)], sigmas, neighbors=neighbors, rows_per_unit=most)
    befores, afters = (units(most), [[]]) if neighbors == ADD else (units(most), units(most))
    others = [[0, 1], [1, 2], [1, 2]]
    worst = max(shift(made, others + a, others + b) for a in befores for b in afters)
    claimed = 1 / made.loss.multiplier**2
    assert worst <= claimed
    assert claimed <= worst * (1 + Fraction(1, 10**9))


def test_a_marginal_measured_twice_is_paid_for_twice():
    once, twice = (Design(SIZES, [(0, 1)] * times, [6] * times, neighbors=ADD).loss.multiplier for times in (1, 4))
    assert 6 * (1 - Fraction(1, 10**9)) < once <= 6
    assert 3 * (1 - Fraction(1, 10**9)) < twice <= 3


def test_a_table_of_people_costs_what_one_gaussian_costs_and_not_more():
    made = design_for((17, 9, 25, 16, 2), epsilon=1, delta="1e-9", neighbors=ADD, target=4)
    assert isinstance(made.loss, GaussianNoise)
    assert 1 - 1e-6 < guarantee(made.loss, delta="1e-9").epsilon <= 1


@pytest.mark.parametrize("epsilon", ["0.01", 1, 30])
@pytest.mark.parametrize("neighbors", [ADD, CHANGE])
def test_calibration_holds_for_every_relation(epsilon, neighbors):
    made = design_for((3, 4, 5), epsilon=epsilon, delta="1e-6", neighbors=neighbors, rows_per_unit=3)
    assert guarantee(made.loss, delta="1e-6").epsilon <= float(Fraction(epsilon))


def test_noise_is_never_below_what_can_be_drawn():
    assert min(design((2, 2), multiplier="0.001", neighbors=ADD).sigmas) == Fraction(1, 8)


def test_larger_marginals_get_less_noise_and_the_allotment_is_the_best_of_its_kind():
    sizes = (2, 5, 11, 23)
    made = allotted(sizes, pairs(sizes), multiplier=5, neighbors=ADD)
    size = np.array([np.prod([sizes[a] for a in m]) for m in made.marginals], float)
    sigma = np.array([float(s) for s in made.sigmas])
    assert (np.diff(sigma[np.argsort(size)]) < 0).all()
    best = (size * sigma).sum()
    for power in (0, 0.5, 0.8, 1):
        share = size**power / (size**power).sum()
        assert (size * 5 / np.sqrt(share)).sum() > best


def test_columns_get_a_tenth_and_triples_with_the_target_a_fifth():
    made = design((3, 4, 5, 6), multiplier=1, neighbors=ADD, target=1)
    shares = dict.fromkeys((1, 2, 3), 0.0)
    for marginal, sigma in zip(made.marginals, made.sigmas, strict=True):
        shares[len(marginal)] += float(1 / sigma**2)
    assert shares == pytest.approx({1: 0.1, 2: 0.7, 3: 0.2}, rel=1e-6)
    assert all(1 in marginal for marginal in made.marginals if len(marginal) == 3)


@pytest.mark.parametrize("sigma", ["0.7", 5, 123])
def test_the_noise_has_its_stated_deviation(sigma):
    stream = Stream()
    sizes = (MANY // 100, 100)
    found = measure(np.empty((0, 2), int), Design(sizes, [(0, 1)], [sigma], neighbors=ADD), entropy=stream)
    noise, scale = found[0].counts.ravel(), float(Fraction(sigma))
    assert noise.size == MANY
    assert_follows(noise, lambda x: ndtr((x + 0.5) / scale), "noise", stream)
    for wrong in (WRONG, 1 / WRONG):
        assert_rejected(
            noise,
            lambda x: ndtr((x + 0.5) / scale),
            lambda x, w=wrong: ndtr((x + 0.5) / (w * scale)),
            "wrong noise",
            stream,
        )


def test_every_cell_of_every_marginal_has_noise_of_its_own():
    made = Design((50, 60), [(0,), (0,), (0, 1)], [40, 40, 40], neighbors=ADD)
    first, second, third = measure(np.empty((0, 2), int), made, entropy=Stream())
    noises = [first.counts, second.counts, third.counts.sum(axis=1), third.counts[:, 0]]
    table = np.corrcoef(np.array(noises, float))
    assert np.abs(table - np.diag(np.diag(table)))[:2].max() < 0.75  # 50 pairs: 1e-10 by chance
    assert len(np.unique(third.counts)) > 100


def test_counts_are_the_true_ones_with_noise_around_them():
    codes = chain(5000, (3, 4), 1)
    made = design((3, 4), multiplier="0.3", neighbors=ADD)
    for found in measure(codes, made, entropy=DeterministicEntropy(3)):
        assert np.abs(found.counts - counts(codes, (3, 4), found.attributes)).max() < 8 * found.sigma + 1


def test_the_same_entropy_gives_the_same_measurements_and_fresh_entropy_does_not():
    codes, made = chain(100, (3, 4), 1), design((3, 4), multiplier=5, neighbors=ADD)
    first, again = (packed(measure(codes, made, entropy=DeterministicEntropy(7))) for _ in range(2))
    assert first == again
    assert packed(measure(codes, made)) != packed(measure(codes, made))


def test_the_total_is_near_the_number_of_rows_and_better_than_one_marginal_alone():
    codes = chain(1000, (4, 5, 6), 2)
    made = allotted((4, 5, 6), [*ones((4, 5, 6)), *pairs((4, 5, 6))], multiplier=2, neighbors=ADD)
    gaps = np.array([total(measure(codes, made, entropy=DeterministicEntropy(seed))) - 1000 for seed in range(40)])
    spread = (
        sum(
            1 / (np.prod([(4, 5, 6)[a] for a in m]) * float(s) ** 2)
            for m, s in zip(made.marginals, made.sigmas, strict=True)
        )
    ) ** -0.5
    assert np.abs(gaps).max() < 6 * spread
    assert 0.5 * spread < gaps.std() < 1.6 * spread


def test_an_empty_table_and_a_single_column_can_be_measured():
    found = measure(np.empty((0, 1), int), design((4,), multiplier=1, neighbors=ADD), entropy=DeterministicEntropy(1))
    assert [one.attributes for one in found] == [(0,)]
    assert total(found) >= 1


def test_packing_returns_what_was_packed():
    found = measure(chain(50, (3, 4), 1), design((3, 4), multiplier=5, neighbors=ADD))
    for one, other in zip(found, unpacked(packed(found)), strict=True):
        assert (one.attributes, one.sigma) == (other.attributes, other.sigma)
        assert (one.counts == other.counts).all()
    assert unpacked(packed([])) == ()


@pytest.mark.parametrize("damage", [lambda b: b[:-5], lambda b: b"", lambda b: b"\xff" * 40, lambda b: b[:20]])
def test_damaged_bytes_are_refused(damage):
    stored = packed([Measurement((0,), np.array([1, 2]), 1.0)])
    with pytest.raises(InvalidData, match="measurements"):
        unpacked(damage(stored))


@pytest.mark.parametrize(
    "change",
    [
        {"sigmas": [3]},
        {"sigmas": [3, 0]},
        {"sigmas": [3, float("nan")]},
        {"marginals": []},
        {"marginals": [(0,), (9,)]},
        {"neighbors": "near"},
        {"rows_per_unit": 0},
        {"rows_per_unit": True},
    ],
)
def test_bad_designs_are_refused(change):
    given = {"sizes": (2, 3), "marginals": [(0,), (0, 1)], "sigmas": [3, 3], "neighbors": ADD} | change
    with pytest.raises(InvalidParameter):
        Design(given.pop("sizes"), given.pop("marginals"), given.pop("sigmas"), **given)


def test_a_column_of_a_million_values_is_refused_with_a_hint():
    with pytest.raises(InvalidParameter, match="at most 10,000,000 cells"):
        design_for((10**6, 50), epsilon=1, delta="1e-9", neighbors=ADD)


def test_a_target_that_is_no_column_is_refused():
    with pytest.raises(InvalidParameter, match="target"):
        design_for((2, 3), epsilon=1, delta="1e-9", neighbors=ADD, target=2)


def test_nothing_measured_has_no_total():
    with pytest.raises(InvalidData, match="no measurements"):
        total([])
