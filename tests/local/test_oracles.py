"""Frequency oracles one by one: the numbers of the papers, the samplers, the transforms, and simulated errors."""

from fractions import Fraction
from itertools import combinations
from math import exp

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom
from tests.conftest import stable
from tests.statistical.power import MANY, Stream, assert_frequency

from discreet.errors import InvalidData, InvalidParameter
from discreet.local.oracles.hashing import BinaryHashing, Field, OptimizedHashing, decode
from discreet.local.oracles.oracle import sift
from discreet.local.oracles.responses import KRR, BinaryResponse, HadamardResponse, walsh_hadamard
from discreet.local.oracles.sets import OptimizedUnary, SubsetSelection, SymmetricUnary, count_bits
from discreet.noise import DeterministicEntropy

F = Fraction
KINDS = [
    KRR,
    SymmetricUnary,
    OptimizedUnary,
    BinaryHashing,
    OptimizedHashing,
    HadamardResponse,
    SubsetSelection,
]
kinds = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
growths = pytest.mark.parametrize("epsilon", [0.2, 0.5, 1.0, 2.0, 4.0])


# --- the numbers of the papers ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        (KRR, 34.1),
        (OptimizedUnary, 3.68),
        (HadamardResponse, 4.68),
        (BinaryHashing, 4.68),
        (SymmetricUnary, 3.92),
    ],
)
def test_errors_at_a_hundred_values_and_epsilon_one(kind, error):
    """n·MSE of a rare value; ANCHORS: k-RR 34.1, OUE and OLH 3.68, Hadamard of one bit 4.68."""
    assert kind(epsilon=1, size=100).variance() == pytest.approx(error, abs=0.05 if error > 10 else 0.005)


def test_whole_numbers_of_hashes_cost_a_quarter_of_a_percent():
    """e + 1 = 3.718 hashes would have 3.683; four have 3.692."""
    assert OptimizedHashing(epsilon=1, size=100).variance() == pytest.approx(3.692, abs=5e-4)


@growths
def test_variances_are_those_of_the_papers(epsilon):
    """Wang, Blocki, Li, Jha 2017, table 1 (and equations 6–9); Acharya, Sun, Zhang 2019; Ye, Barg 2018."""
    e, k = exp(epsilon), 50
    stated = {
        KRR: (k - 2 + e) / (e - 1) ** 2,
        SymmetricUnary: exp(epsilon / 2) / (exp(epsilon / 2) - 1) ** 2,
        OptimizedUnary: 4 * e / (e - 1) ** 2,
        BinaryHashing: (e + 1) ** 2 / (e - 1) ** 2,
    }
    for kind, variance in stated.items():
        assert kind(epsilon=epsilon, size=k).variance() == pytest.approx(variance)
    g = OptimizedHashing(epsilon=epsilon, size=k).hashes
    assert OptimizedHashing(epsilon=epsilon, size=k).variance() == pytest.approx(
        (e - 1 + g) ** 2 / (e - 1) ** 2 / (g - 1)
    )
    b = HadamardResponse(epsilon=epsilon, size=k).blocks
    assert HadamardResponse(epsilon=epsilon, size=k).variance() == pytest.approx(
        (2 * b - 1 + e) ** 2 / b / (e - 1) ** 2
    )
    w = SubsetSelection(epsilon=epsilon, size=k).chosen
    p = w * e / (w * e + k - w)
    q = w * (e * (w - 1) + k - w) / (k - 1) / (w * e + k - w)  # Ye, Barg 2018, section III
    assert SubsetSelection(epsilon=epsilon, size=k).variance() == pytest.approx(q * (1 - q) / (p - q) ** 2)


@growths
def test_binary_response_has_the_same_variance_for_every_share(epsilon):
    oracle, e = BinaryResponse(epsilon=epsilon), exp(epsilon)
    assert oracle.variance(0) == pytest.approx(e / (e - 1) ** 2)
    assert oracle.variance(0.3) == pytest.approx(oracle.variance(1)) == pytest.approx(oracle.variance(0))


@growths
def test_the_choices_are_the_best_ones(epsilon):
    hashing = OptimizedHashing(epsilon=epsilon, size=30)
    for hashes in (2, 3, 4, 5, 7, 8, 11, 16, 17, 31, 53):
        assert hashing.variance() <= OptimizedHashing(epsilon=epsilon, size=30, hashes=hashes).variance() * (1 + 1e-12)
    hadamard = HadamardResponse(epsilon=epsilon, size=30)
    for blocks in (1, 2, 4, 8, 16):
        assert hadamard.variance() <= HadamardResponse(epsilon=epsilon, size=30, blocks=blocks).variance() * (1 + 1e-12)
    subset = SubsetSelection(epsilon=epsilon, size=30)
    assert all(subset._variance(subset.chosen) <= subset._variance(w) for w in range(1, 30))


@pytest.mark.parametrize("hashes", [1, 6, 9, 10, 0, -3, 257, 1009, "4", 2.0, True])
def test_hashes_must_be_the_size_of_a_small_field(hashes):
    with pytest.raises(InvalidParameter, match="hashes"):
        OptimizedHashing(epsilon=1, size=20, hashes=hashes)


@pytest.mark.parametrize("blocks", [0, -1, 21, 2.0, "2", True])
def test_blocks_must_be_a_number_of_blocks(blocks):
    with pytest.raises(InvalidParameter, match="blocks"):
        HadamardResponse(epsilon=1, size=20, blocks=blocks)


# --- simulated errors -------------------------------------------------------------------------------------------


@kinds
@pytest.mark.parametrize("epsilon", [1, 3])
def test_simulated_errors_are_as_stated(kind, epsilon):
    """60 batches of 100 values: the mean squared error has a standard deviation below 2 % of itself, so 10 % off is a
    false alarm of less than 1e-6, and a variance that were wrong by 30 % would be rejected as surely."""
    oracle, stream = kind(epsilon=epsilon, size=100), Stream()
    batches, people = 60, 2_000
    told = np.arange(people) % 90  # ten values nobody has
    truth = np.bincount(told, minlength=100) / people
    errors = np.zeros(100)
    for _ in range(batches):
        shares = oracle.estimate(oracle.tally(oracle.randomize(told, entropy=stream)), reports=people).shares
        errors += (shares - truth) ** 2 / batches
    stated = np.mean([oracle.variance(float(share)) for share in truth])
    assert 0.9 < people * errors.mean() / stated < 1.1, stream


@kinds
def test_shares_far_from_uniform_are_found(kind):
    oracle, stream = kind(epsilon=2, size=70), Stream()
    told = np.repeat([3, 64, 69], [30_000, 20_000, 10_000])
    told_shares = oracle.estimate(oracle.tally(oracle.randomize(told, entropy=stream)), reports=60_000)
    low, high = told_shares.interval("0.999999")
    truth = np.bincount(told, minlength=70) / 60_000
    assert ((low <= truth) & (truth <= high)).all(), stream
    assert low[3] > 0.4
    assert set(np.argsort(told_shares.shares)[-3:]) == {3, 64, 69}


@kinds
@pytest.mark.parametrize("reports", [30, 3000])
def test_intervals_cover(kind, reports):
    """150 runs at 80 %: fewer than 59 % covered has probability below 1e-6 if the interval is honest."""
    oracle, stream = kind(epsilon=1, size=12), Stream()
    told = np.minimum(np.arange(reports) % 20, 11)
    truth = np.bincount(told, minlength=12) / reports
    together, single, wide = 0, np.zeros(12), 0.0
    for _ in range(150):
        told_shares = oracle.estimate(oracle.tally(oracle.randomize(told, entropy=stream)), reports=reports)
        low, high = told_shares.interval("0.8")
        together += bool(((low <= truth) & (truth <= high)).all())
        low, high = told_shares.interval("0.8", simultaneous=False)
        single += (low <= truth) & (truth <= high)
        wide = max(wide, (high - low).max())
    least = binom.ppf(1e-6 / 13, 150, 0.8)
    assert together >= least, stream
    assert single.min() >= least, stream
    assert wide < 1 or reports < 100


@kinds
def test_intervals_are_not_much_wider_than_normal_ones(kind):
    oracle = kind(epsilon=1, size=20)
    told = oracle.estimate(oracle.tally(oracle.randomize(np.arange(200_000) % 20)), reports=200_000)
    low, high = told.interval("0.95", simultaneous=False)
    inside = (low > 0) & (high < 1)
    normal = 2 * 1.96 * np.sqrt(told.variance)
    assert inside.sum() > 5
    assert (high - low)[inside] == pytest.approx(normal[inside], rel=0.05)


@kinds
def test_a_hundred_million_counted_reports_are_estimated_from_counts_alone(kind):
    """A tally that a database could have made: expected counts for one value that has everything."""
    oracle = kind(epsilon=1, size=40)
    small = oracle.tally(oracle.randomize(np.full(1000, 7), entropy=DeterministicEntropy(1)))
    told = oracle.estimate(small * 100_000, reports=100_000_000)
    assert told.reports == 100_000_000
    assert told.shares == pytest.approx(oracle.estimate(small, reports=1000).shares)


# --- unary ------------------------------------------------------------------------------------------------------


@settings(max_examples=30)
@given(st.integers(0, 400), st.integers(1, 200), st.integers(0, 2**32))
def test_counted_bits_are_the_sums_of_the_columns(rows, size, seed):
    words = np.random.default_rng(seed).integers(0, 2**64, (rows, -(-size // 64)), np.uint64)
    unpacked = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")
    assert np.array_equal(count_bits(words.view(np.int64)), unpacked.sum(axis=0, dtype=np.int64))


@pytest.mark.parametrize("rows", [0, 1, 7, 8, 9, 15, 16, 17, 63, 64, 257, 4000])
def test_few_rows_are_counted_as_many_are(rows):
    for words in (
        np.random.default_rng(rows).integers(0, 2**64, (rows, 3), np.uint64),
        np.full((rows, 3), 2**64 - 1, np.uint64),
    ):
        unpacked = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")
        assert np.array_equal(count_bits(words.view(np.int64)), unpacked.sum(axis=0, dtype=np.int64))


def test_many_rows_are_counted_in_tiles():
    words = np.random.default_rng(1).integers(0, 2**64, (50_000, 3), np.uint64)
    unpacked = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")
    assert np.array_equal(count_bits(words.view(np.int64)), unpacked.sum(axis=0, dtype=np.int64))
    assert count_bits(np.full((20_000, 1), -1)).tolist() == [20_000] * 64


def test_bits_of_a_report_are_independent():
    """Pairs of bits: the joint frequency is the product; own bit included."""
    oracle, stream = OptimizedUnary(epsilon=1, size=66), Stream()
    reports = oracle.randomize(np.full(MANY, 65), entropy=stream)
    unpacked = np.unpackbits(reports.view(np.uint8), axis=1, bitorder="little").astype(bool)
    p, q = float(oracle.truth), float(oracle.other)
    for i, j, chance in ((65, 0, p * q), (0, 1, q * q), (63, 64, q * q), (64, 65, q * p)):
        assert_frequency(unpacked[:, i] & unpacked[:, j], chance, f"bits {i} and {j}", stream, tests=4)


def test_a_million_reports_of_many_bits_are_made_in_parts():
    with pytest.raises(InvalidParameter, match="in parts"):
        OptimizedUnary(epsilon=1, size=2**24).randomize(np.zeros(10_000, np.uint8))


# --- local hashing ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [2, 3, 4, 5, 7, 8, 11, 16, 32, 64])
def test_fields_are_fields(order):
    field = Field.of_order(order)
    table = field.products.reshape(order, order)
    every = np.arange(order)
    assert np.array_equal(table, table.T)
    assert all(sorted(table[a]) == list(every) for a in range(1, order))  # each a ≠ 0 has an inverse
    assert not table[0].any()
    for a in range(min(order, 8)):
        left = table[a][field.add(every[:, None], every[None, :])]
        assert np.array_equal(left, field.add(table[a][:, None], table[a][None, :]))  # a(b + c) = ab + ac
        assert np.array_equal(table[table[a]][:, every], table[a][table])  # (ab)c = a(bc)


@pytest.mark.parametrize("order", [128, 256])
def test_large_fields_have_inverses(order):
    table = Field.of_order(order).products.reshape(order, order)
    assert (np.sort(table[1:], axis=1) == np.arange(order)).all()


@pytest.mark.parametrize(("size", "hashes"), [(9, 2), (10, 3), (16, 4), (17, 4), (30, 5), (20, 8), (12, 16), (6, 31)])
def test_any_two_values_collide_under_exactly_one_function_in_g(size, hashes):
    oracle = OptimizedHashing(epsilon=1, size=size, hashes=hashes)
    hashed = oracle.hash(np.arange(oracle.functions)[:, None], np.arange(size))
    assert hashed.min() >= 0
    assert hashed.max() < hashes
    for x, y in combinations(range(size), 2):
        assert (hashed[:, x] == hashed[:, y]).sum() * hashes == oracle.functions


@pytest.mark.parametrize(
    ("hashes", "digits"), [(2, 1), (2, 5), (3, 1), (3, 3), (4, 1), (4, 2), (4, 4), (5, 2), (7, 2), (16, 2)]
)
def test_decoding_is_looking_up_every_function(hashes, digits):
    oracle = OptimizedHashing(epsilon=1, size=hashes**digits, hashes=hashes)
    counts = np.random.default_rng(5).integers(0, 50, oracle.functions * hashes)
    table = counts.reshape(-1, hashes)
    functions = np.arange(oracle.functions)
    expected = [table[functions, oracle.hash(functions, value)].sum() for value in range(oracle.size)]
    assert decode(counts, hashes, digits).tolist() == expected


def test_hashing_many_values_is_done_in_blocks():
    oracle = OptimizedHashing(epsilon=1, size=1000)
    functions, values = np.arange(100_000) % oracle.functions, np.arange(100_000) % 1000
    hashed = oracle.hash(functions, values)
    assert [int(oracle.hash(functions[i], values[i])) for i in (0, 40_000, 99_999)] == hashed[
        [0, 40_000, 99_999]
    ].tolist()


# --- Hadamard and subsets ---------------------------------------------------------------------------------------


def test_the_transform_is_the_matrix():
    rows = np.random.default_rng(2).integers(-9, 9, (3, 16))
    i = np.arange(16)
    matrix = 1 - 2 * (np.bitwise_count(i[:, None] & i) % 2).astype(np.int64)
    assert np.array_equal(walsh_hadamard(rows), rows @ matrix)


@pytest.mark.parametrize("epsilon", ["0.5", "2", "5", "9"])
@pytest.mark.parametrize("size", [2, 3, 4, 7, 8, 100])
def test_blocks_hold_all_values_each_on_a_row_of_its_own(epsilon, size):
    oracle = HadamardResponse(epsilon=epsilon, size=size)
    block, row = oracle._block_and_row(np.arange(size))
    assert len(set(zip(block.tolist(), row.tolist(), strict=True))) == size
    assert row.min() == 1
    assert row.max() < oracle.block
    assert block.max() < oracle.blocks
    assert oracle.codes < 4 * size + 4


@pytest.mark.parametrize(("epsilon", "size"), [("1", 6), ("0.1", 70), ("3", 130), ("6", 500), ("9", 130)])
def test_sets_have_their_size_and_every_other_value_is_as_likely(epsilon, size):
    oracle, stream = SubsetSelection(epsilon=epsilon, size=size), Stream()
    told = np.full(20_000, size // 2)
    reports = oracle.randomize(told, entropy=stream)
    chosen = np.unpackbits(reports.view(np.uint8), axis=1, bitorder="little")[:, :size]
    assert (chosen.sum(axis=1) == oracle.chosen).all()
    assert_frequency(chosen[:, size // 2].astype(bool), float(oracle.truth), "own value", stream)
    for value in {0, 1, size // 2 - 1, size // 2 + 1, size - 1}:
        assert_frequency(chosen[:, value].astype(bool), float(oracle.other), f"value {value}", stream, tests=5)


def test_pairs_of_values_are_chosen_together_as_sets_are():
    """Uniform sets: P(i and j | own not chosen) = w(w−1)/((k−1)(k−2)); checks that repairs keep the symmetry."""
    for epsilon in (1, 4):  # from coins with repairs both ways; from few coins, filled up
        oracle, stream = SubsetSelection(epsilon=epsilon, size=130), Stream()
        k, w, p = 130, oracle.chosen, float(oracle.truth)
        reports = oracle.randomize(np.full(MANY, 0), entropy=stream)
        chosen = np.unpackbits(reports.view(np.uint8), axis=1, bitorder="little")[:, :k].astype(bool)
        both = (p * (w - 1) * (w - 2) + (1 - p) * w * (w - 1)) / ((k - 1) * (k - 2))
        for i, j in ((1, 2), (1, 129), (63, 64), (100, 128)):
            assert_frequency(chosen[:, i] & chosen[:, j], both, f"values {i} and {j}", stream, tests=4)


def test_sets_of_the_wrong_size_are_malformed():
    oracle = SubsetSelection(epsilon=1, size=70)
    reports = oracle.randomize([3] * 10)
    reports[4, 0] ^= 1
    assert oracle.valid(reports).tolist() == [True] * 4 + [False] + [True] * 5
    with pytest.raises(InvalidData, match="reports"):
        oracle.tally(reports)
    reports[5, 1] |= 1 << 6  # value 70 does not exist
    assert not oracle.valid(reports)[5]


# --- malformed reports --------------------------------------------------------------------------------------------

MALFORMED_CODES = [None, "x", b"x", float("nan"), float("inf"), 1j, 0.5, -1, 3, 2**63, 10**30, [1], {}, "1"]
MALFORMED_ROWS = [
    *MALFORMED_CODES,
    [1, None],
    [1, "x"],
    [1, float("nan")],
    [1.0, 2.0],
    [1, 2**70],
    [2**63, 1],
    [1],
    [1, 2, 3],
    [[1], [2]],
]


@pytest.mark.parametrize("bad", MALFORMED_CODES, ids=stable)
def test_one_malformed_code_does_not_spoil_the_others(bad):
    """NumPy reads a list with one text in it as texts: a single report could have dropped all others."""
    kept, dropped = sift(KRR(epsilon=1, size=3), [0, 2, bad, 1])
    assert (kept.tolist(), kept.dtype, dropped) == ([0, 2, 1], np.int64, 1)


@pytest.mark.parametrize("kind", [OptimizedUnary, SubsetSelection])
@pytest.mark.parametrize("bad", MALFORMED_ROWS, ids=stable)
def test_one_malformed_row_does_not_spoil_the_others(kind, bad):
    oracle = kind(epsilon=1, size=100)
    good = oracle.randomize([1, 63, 99], entropy=DeterministicEntropy(1)).tolist()
    reports = [*good, bad]
    kept, dropped = sift(oracle, reports)
    assert (kept.tolist(), kept.dtype, dropped) == (good, np.int64, 1)
    assert oracle.valid(reports).tolist() == [True] * 3 + [False]
    with pytest.raises(InvalidData, match="sift"):
        oracle.tally(reports)


def test_rows_that_are_objects_count_like_any_others():
    oracle = OptimizedUnary(epsilon=1, size=100)
    good = oracle.randomize([1, 99])
    for rows in (good.astype(object), [good[0], good[1].tolist()], [good[0].astype(object), good[1]]):
        assert oracle.valid(rows).all()
        assert oracle.tally(rows).tolist() == oracle.tally(good).tolist()


def test_a_number_of_blocks_that_is_no_power_of_two_is_refused():
    with pytest.raises(InvalidParameter, match="power of two"):
        HadamardResponse(epsilon=1, size=9, blocks=3)
