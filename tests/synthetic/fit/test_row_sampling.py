import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.synthetic.chain_tables import ADD, chain

from discreet.errors import InvalidData, InvalidParameter
from discreet.noise import DeterministicEntropy
from discreet.synthetic.fit import row_sampling
from discreet.synthetic.fit.relaxed import RelaxedTable, fit
from discreet.synthetic.fit.row_sampling import draw, spread
from discreet.synthetic.measure.noisy_marginals import Allowed, at_most, counts, design, measure, pairs
from discreet.synthetic.quality import distance

SIZES = (3, 4, 5, 6)


def table_of(seed, soft=50, sizes=SIZES, total=2000.0, sharpness=2.0):
    rng = np.random.default_rng(seed)
    parts = [rng.dirichlet(np.full(size, 1 / sharpness), soft) for size in sizes]
    return RelaxedTable(sizes, total, np.concatenate(parts, axis=1).astype(np.float32), 1.0, 1, "misfit")


def mean_gap(codes, table):
    each = [
        distance(counts(codes, table.sizes, one) / len(codes), table.marginal(one) / table.total)
        for one in pairs(table.sizes)
    ]
    return np.mean(each)


def test_rows_are_codes_of_the_table_and_as_many_as_it_says():
    codes = draw(table_of(1, total=1999.6), entropy=DeterministicEntropy(1))
    assert codes.shape == (2000, 4)
    assert (codes >= 0).all()
    assert (codes < SIZES).all()
    assert draw(table_of(1), rows=7, entropy=DeterministicEntropy(1)).shape == (7, 4)


def test_single_columns_are_those_of_the_table_to_a_row_a_soft_row():
    table = table_of(2)
    codes = draw(table, entropy=DeterministicEntropy(1))
    for one in range(4):
        gaps = counts(codes, SIZES, (one,)) - table.marginal((one,))
        assert np.abs(gaps).max() < 5 * np.sqrt(50) / 2  # each soft row is off by less than one


def test_drawn_pairs_are_nearer_than_independent_draws_and_exchanges_bring_them_nearer_still():
    table = table_of(3)
    member = np.random.default_rng(0).integers(0, 50, 2000)
    stream = DeterministicEntropy(5)
    independent = np.column_stack([row_sampling._independent(table.column(one)[member], stream) for one in range(4)])
    without, exchanged = (draw(table, sweeps=sweeps, entropy=DeterministicEntropy(1)) for sweeps in (0, 320))
    assert mean_gap(without, table) < 0.9 * mean_gap(independent, table)
    assert mean_gap(exchanged, table) < 0.75 * mean_gap(without, table)


def test_exchanges_keep_every_column_and_what_soft_rows_rule_out():
    table = table_of(4)
    table.weights[:, :3][table.weights[:, :3] < 0.1] = 0
    starts = np.arange(51) * 2000 // 50
    before = row_sampling._stratified(table, starts, DeterministicEntropy(1))
    after = row_sampling._Exchange(before, table, starts, ()).swept(100, DeterministicEntropy(2))
    assert (before != after).any(axis=0).all()
    assert (np.sort(before, axis=0) == np.sort(after, axis=0)).all()
    assert (table.column(0)[np.repeat(np.arange(50), 40), after[:, 0]] > 0).all()


def test_the_counts_of_pairs_are_kept_up_to_date_through_exchanges():
    table = table_of(5)
    starts = np.arange(51) * 2000 // 50
    work = row_sampling._Exchange(row_sampling._stratified(table, starts, DeterministicEntropy(1)), table, starts, ())
    work.swept(10, DeterministicEntropy(2))
    fresh = row_sampling._Exchange(work._codes - work._offsets, table, starts, ())
    for one, size in zip(work._offsets, SIZES, strict=True):  # the blocks beside the diagonal
        work._excess[one : one + size, one : one + size] = fresh._excess[one : one + size, one : one + size] = 0
    assert work._excess == pytest.approx(fresh._excess, abs=0.01)


@given(st.integers(0, 10**6), st.integers(1, 40))
def test_a_systematic_sample_is_off_by_less_than_one_in_every_code(seed, count):
    shares = np.random.default_rng(seed).dirichlet(np.full(5, 0.5), 3)
    member = np.repeat(np.arange(3), count)
    codes = spread(shares, member, DeterministicEntropy(seed))
    for group in range(3):
        found = np.bincount(codes[member == group], minlength=5)
        assert (np.abs(found - count * shares[group]) < 1 + 1e-9).all()


def test_a_systematic_sample_is_right_on_average():
    shares = np.array([[0.37, 0.5, 0.13]])
    numbers = [np.bincount(spread(shares, np.zeros(3, int), DeterministicEntropy(k)), minlength=3) for k in range(2000)]
    assert np.mean(numbers, axis=0) == pytest.approx(3 * shares[0], abs=5.1 * 0.5 / np.sqrt(2000))


def test_rows_come_in_random_order():
    codes = draw(table_of(6, sharpness=20.0), entropy=DeterministicEntropy(1))
    halves = [np.bincount(part[:, 3], minlength=6) / 1000 for part in np.split(codes, 2)]
    assert distance(*halves) < 0.1


SMALLER = at_most(0, 1, SIZES)
LARGER = at_most(1, 2, SIZES)
TRIPLE = Allowed((1, 2, 3), np.random.default_rng(1).random((4, 5, 6)) < 0.5, SIZES)


@pytest.mark.parametrize("allowed", [[SMALLER], [SMALLER, LARGER], [SMALLER, LARGER, TRIPLE]])
@pytest.mark.parametrize("soft", [50, 4000])
def test_constraints_hold_in_every_row(allowed, soft):
    codes = draw(table_of(7, soft), allowed=allowed, entropy=DeterministicEntropy(1))
    assert len(codes) == 2000
    for each in allowed:
        assert each.holds(codes).all()


def test_constraints_leave_the_columns_that_they_do_not_name_alone():
    free, bound = (
        draw(table_of(8), allowed=each, sweeps=0, entropy=DeterministicEntropy(1)) for each in ([], [SMALLER])
    )
    assert (np.sort(free[:, 2:], axis=0) == np.sort(bound[:, 2:], axis=0)).all()


def test_rows_that_break_a_constraint_are_drawn_again_from_the_distribution_that_keeps_it():
    soft = np.tile(np.array([[0.5, 0.5, 0.25, 0.75]], np.float32), (20, 1))
    table = RelaxedTable((2, 2), 40_000.0, soft, 1.0, 1, "misfit")
    rule = Allowed((0, 1), np.array([[True, True], [False, True]]), (2, 2))
    codes = draw(table, allowed=[rule], sweeps=0, entropy=DeterministicEntropy(1))
    found = counts(codes, (2, 2), (0, 1)) / 40_000
    assert found == pytest.approx(np.array([[0.125, 0.375], [0, 0.375]]) / 0.875, abs=0.01)


def test_rows_that_break_a_constraint_exchange_codes_and_no_column_changes():
    """Each soft row has day x or x + 1 in both columns: a quarter of independent rows end before they begin.

    Drawing these again would make all stays longer, by a third of a step in the mean; the columns say that it is 0.
    """
    days = 60
    soft = np.zeros((days - 1, 2, days), np.float32)
    soft[np.arange(days - 1), :, np.arange(days - 1)] = soft[np.arange(days - 1), :, np.arange(1, days)] = 0.5
    table = RelaxedTable((days, days), 6000.0, soft.reshape(days - 1, -1), 1.0, 1, "misfit")
    codes = draw(table, allowed=[at_most(0, 1, (days, days))], entropy=DeterministicEntropy(1), sweeps=0)
    assert (codes[:, 0] <= codes[:, 1]).all()
    assert (codes[:, 1] - codes[:, 0]).mean() < 0.1
    for column in range(2):
        assert np.abs(counts(codes, table.sizes, (column,)) - table.marginal((column,))).max() < 12


def test_what_a_soft_row_cannot_satisfy_is_taken_from_another():
    soft = np.zeros((100, 4), np.float32)
    soft[:99, [1, 2]] = 1  # (1, 0), which is not allowed
    soft[99, [0, 3]] = 1  # (0, 1), which is
    table = RelaxedTable((2, 2), 1000.0, soft, 1.0, 1, "misfit")
    codes = draw(table, allowed=[at_most(0, 1, (2, 2))], entropy=DeterministicEntropy(1))
    assert (codes == [0, 1]).all()


def test_a_constraint_that_the_table_cannot_meet_is_refused_and_names_the_columns():
    soft = np.tile(np.array([[0, 1, 1, 0]], np.float32), (10, 1))
    table = RelaxedTable((2, 2), 100.0, soft, 1.0, 1, "misfit")
    with pytest.raises(InvalidData, match=r"columns \[0, 1\]"):
        draw(table, allowed=[at_most(0, 1, (2, 2))], entropy=DeterministicEntropy(1))


def test_the_same_entropy_gives_the_same_rows_and_fresh_entropy_others():
    first, again = (draw(table_of(9), entropy=DeterministicEntropy(3)) for _ in range(2))
    assert (first == again).all()
    assert (draw(table_of(9)) != draw(table_of(9))).any()


def test_the_whole_way_from_rows_to_rows_is_the_same_for_the_same_entropy():
    def made():
        stream = DeterministicEntropy(11)
        measured = measure(chain(1000, SIZES, 1), design(SIZES, multiplier=3, neighbors=ADD), entropy=stream)
        return draw(fit(SIZES, measured), entropy=stream)

    assert (made() == made()).all()


@pytest.mark.parametrize("change", [{"rows": 0}, {"rows": 2.5}, {"rows": True}, {"sweeps": -1}, {"rows": 10**9}])
def test_bad_numbers_are_refused(change):
    with pytest.raises(InvalidParameter):
        draw(table_of(1), **change)
