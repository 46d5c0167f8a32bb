"""The discrete Gaussian's block tables and acceptance give the true distribution."""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from tests.conftest import stable
from tests.noise.reference import (
    CONTEXT,
    WORD,
    block_cdf,
    exp,
    first_above,
    from_words,
    gaussian_total,
    leading_words,
    real,
)
from tests.noise.test_geometric import BAD_SCALES, BAD_SIZES

from discreet.errors import InvalidParameter
from discreet.noise import DeterministicEntropy, discrete_gaussian
from discreet.noise.gaussian import _gaussian

F = Fraction
SIGMAS = [F(1, 10**6), F(1, 10), F(1, 2), F(22, 7), F(6399, 100), F(64), F(12345678, 1000), F(10**12), F(2**52)]
few = pytest.mark.parametrize("sigma", [F(1, 10), F(22, 7), F(12345678, 1000)], ids=str)
every = pytest.mark.parametrize("sigma", SIGMAS, ids=str)


def width(sigma: Fraction) -> int:
    """m of the module's docstring, from its words: the power of two with 32 ≤ σ/m < 64, but at least 1."""
    m = 1
    while sigma / m >= 64:
        m *= 2
    return m


@every
def test_every_threshold_encloses_its_cumulative_probability(sigma):
    table, true = _gaussian(sigma).blocks, block_cdf(sigma, width(sigma))
    assert int(table.thresholds[-1]) >= WORD - 2
    for i, t in enumerate(table.thresholds.tolist()):
        f = true[i] if i < len(true) else CONTEXT.mpf(1)
        assert t <= f * WORD < t + 2 or (i >= len(true) and t == WORD - 1), i


@every
def test_each_block_is_decided_for_as_many_words_as_its_probability(sigma):
    true = [CONTEXT.mpf(0), *block_cdf(sigma, width(sigma))]
    ends = [0, *_gaussian(sigma).blocks.thresholds.tolist()]
    for i, (start, end) in enumerate(pairwise(ends)):
        if i + 1 < len(true):
            decided = max(end - start - (2 if i else 0), 0)
            assert decided - 1 <= (true[i + 1] - true[i]) * WORD <= decided + 4, i


def proposals(sigma: Fraction, reach: int) -> dict[int, Fraction]:
    """k → proposal probability × acceptance, by the table's thresholds and the sampler's own acceptance."""
    sampler, m = _gaussian(sigma), width(sigma)
    ends = [0, *sampler.blocks.thresholds.tolist(), WORD]
    found = {}
    for block in range(len(ends) - 1):
        negative, nearest = block & 1, (block >> 1) * m + (block & 1)
        for place in range(m):
            if nearest + place <= reach:
                lo, hi = sampler._acceptance(place, nearest)(128)
                accepted = F(lo + hi, 2 << 128)
                found[-(nearest + place) if negative else nearest + place] = (
                    F(ends[block + 1] - ends[block], WORD * m) * accepted
                )
    return found


@pytest.mark.parametrize("sigma", [F(1, 10), F(1, 2), F(22, 7), F(100), F(300)], ids=str)
def test_a_whole_distribution_is_the_true_one(sigma):
    reach = math.ceil(9 * sigma) + 3
    found = proposals(sigma, reach)
    weight = {k: exp(-F(k * k) / (2 * sigma**2)) for k in range(-reach, reach + 1)}
    assert found.keys() <= weight.keys()
    assert CONTEXT.fsum(w for k, w in weight.items() if k not in found) <= real(F(4, WORD)) * gaussian_total(sigma), (
        "left to the undecided path"
    )
    total, z = sum(found.values()), gaussian_total(sigma)
    assert total <= 1
    distance = CONTEXT.fsum(abs(real(p / total) - weight[k] / z) for k, p in found.items())
    assert distance <= real(F(4 * len(found), WORD)) + exp(-F(79, 2))
    few = [k for k in (1, -1, reach // 6, -(reach // 6)) if weight[k] > 1e-6]
    assert all(abs(real(found[k] / found[0]) / weight[k] - 1) < 1e-12 for k in few)


@few
def test_the_acceptance_is_the_ratio_of_the_true_weights(sigma):
    sampler = _gaussian(sigma)
    for place, nearest in [(0, 0), (0, 5), (1, 0), (width(sigma) - 1, 0), (width(sigma) - 1, 3 * width(sigma) + 1)]:
        for bits in (64, 128, 512):
            lo, hi = sampler._acceptance(place, nearest)(bits)
            true = exp(F(nearest**2 - (nearest + place) ** 2) / (2 * sigma**2)) * CONTEXT.mpf(2) ** bits
            assert lo <= true <= hi <= lo + 2


def test_the_float_exponent_is_right_to_2_to_minus_48():
    """What accept.py asks of its callers, for the largest blocks and places."""
    for sigma in (F(64), F(12345678, 1000), F(10**12), F(2**52), F(2**52) - F(1, 3)):
        sampler, m = _gaussian(sigma), width(sigma)
        for block in (0, 1, 7, 300, 700):
            for place in (1, m // 2, m - 1):
                nearest = block * m + (block & 1)
                exact = F(place * (2 * nearest + place)) / (2 * sigma**2)
                vector = float(np.int64(place) * (2.0 * np.array([nearest]) + place)[0] / sampler._float_twice_variance)
                scalar = place * (2 * nearest + place) / sampler._float_twice_variance
                for got in (vector, scalar):
                    assert abs(F(got) - exact) <= exact / 2**48


@few
@pytest.mark.parametrize("bits", [64, 128, 192, 512])
def test_enclosures_contain_the_true_value_and_tighten(sigma, bits):
    table, true = _gaussian(sigma).blocks, block_cdf(sigma, width(sigma))
    listed = len(table.thresholds)
    for i in {0, 1, 2, listed // 2, listed - 1, listed, listed + 9}:
        lo, hi = table._enclose(i, bits)
        f = true[i] if i < len(true) else CONTEXT.mpf(1)
        scaled = f * CONTEXT.mpf(2) ** bits
        assert lo - (i >= len(true)) <= scaled <= hi + (i >= len(true)), i
        assert hi <= lo + 2 or i >= listed
        assert 0 <= lo <= hi <= 1 << bits


@few
def test_words_on_a_threshold_are_decided_by_the_bits_that_follow(sigma, scripted):
    table, true = _gaussian(sigma).blocks, block_cdf(sigma, width(sigma))
    thresholds = table.thresholds.tolist()
    for i in {0, len(thresholds) // 3, len(thresholds) // 2}:
        for step in (-1, 0, 1, 2):
            for follow in ([0, 1], [WORD - 1, 0], [WORD // 3, 5]):
                words = [min(thresholds[i] + step, WORD - 1), *follow]
                got = table.pick(words[0], scripted(words[1:], then=DeterministicEntropy(0)))
                assert got == first_above(from_words(words), true), (i, step, follow)


@few
@pytest.mark.parametrize("agreeing", [2, 4])
def test_a_u_that_begins_like_f_is_decided_at_the_first_difference(sigma, agreeing, scripted):
    table, true = _gaussian(sigma).blocks, block_cdf(sigma, width(sigma))
    for i in {0, len(table.thresholds) // 2}:
        words = leading_words(true[i], agreeing + 1)
        last = words.pop()
        if not 2 < last < WORD - 2:
            assert true[i] > 1 - CONTEXT.mpf(2) ** -64, "only in the far tail"
            continue
        assert table.pick(words[0], scripted([*words[1:], last - 2])) == i
        assert table.pick(words[0], scripted([*words[1:], last + 2])) == i + 1


@pytest.mark.parametrize(
    ("sigma", "ones"), [(F(1, 10), 1), (F(1, 10), 2), (F(22, 7), 1), (F(22, 7), 2), (F(22, 7), 4)], ids=str
)
def test_all_ones_reach_into_the_unlisted_tail(sigma, ones, scripted):
    table, true = _gaussian(sigma).blocks, block_cdf(sigma, 1)
    words = [WORD - 1] * ones + [WORD // 2, 0]
    expected = first_above(from_words(words), true)
    assert table.pick(words[0], scripted(words[1:], then=DeterministicEntropy(0))) == expected
    k = _gaussian(sigma).draw(scripted([words[0], 0, 0, *words[1:]], then=DeterministicEntropy(0)))
    assert k == (-((expected >> 1) + 1) if expected & 1 else expected >> 1)


def test_tiny_sigmas_are_zero_unless_a_thousand_words_conspire(scripted):
    for sigma in (F(1, 10**3), F(1, 10**6), F(1, 10**500)):
        assert _gaussian(sigma).draw(scripted([WORD - 1] * 60 + [0])) == 0
        assert discrete_gaussian(sigma, 1000, entropy=DeterministicEntropy(1)).any() == np.False_


def test_zeros_and_ones_of_place_and_acceptance(scripted):
    """σ = 64: m = 2. A place of 1 in block 0 is accepted below e^(−1/2·64²)."""
    sampler = _gaussian(F(64))
    assert sampler.draw(scripted([0, 0, 0], then=DeterministicEntropy(0))) == 0
    assert sampler.draw(scripted([0, 1, 0], then=DeterministicEntropy(0))) == 1
    p = exp(-F(1, 2 * 64**2))
    words = leading_words(p, 3)
    again = [0, 0, 0]
    assert sampler.draw(scripted([0, 1, words[0], words[1], words[2] - 2], then=DeterministicEntropy(0))) == 1
    assert sampler.draw(scripted([0, 1, words[0], words[1], words[2] + 2, *again], then=DeterministicEntropy(0))) == 0
    assert sampler.draw(scripted([0, 1, WORD - 1, *again], then=DeterministicEntropy(0))) == 0, (
        "rejected, then drawn again"
    )


@pytest.mark.parametrize("sigma", [F(64), F(12345678, 1000), F(10**12)], ids=str)
def test_both_paths_accept_by_the_exact_ratio_in_every_block(sigma, scripted):
    """The word of acceptance agrees with p to 128 bits, or to 30: rationals and floats decide, and rightly."""
    from tests.noise.test_table import vector_script

    sampler, m = _gaussian(sigma), width(sigma)
    shift, ends = m.bit_length() - 1, [0, *sampler.blocks.thresholds.tolist()]
    for block in (0, 1, 6, 7, 101):
        word, nearest = (ends[block] + ends[block + 1]) // 2, (block >> 1) * m + (block & 1)
        for place in {1, m // 2, m - 1}:
            k = -(nearest + place) if block & 1 else nearest + place
            first, *rest = leading_words(exp(-F(place * (2 * nearest + place)) / (2 * sigma**2)), 3)
            for accepted, words in [
                (True, [first, rest[0], rest[1] - 2]),
                (False, [first, rest[0], rest[1] + 2]),
                (True, [first - (1 << 34)]),
                (False, [first + (1 << 34)]),
            ]:
                if not all(0 <= w < WORD for w in words):
                    continue  # p is within 2^−30 of 1
                out = np.empty(1, np.int64)
                high = [place << (64 - shift), words[0]]
                verdict = sampler._propose(scripted([*vector_script(sampler.blocks, [word]), *high, *words[1:]]), out)
                assert (verdict.tolist(), out.tolist()) == ([accepted], [k]), (block, place)
                assert sampler._accepts(place, nearest, words[0], scripted(words[1:])) is accepted


@every
def test_one_and_many_give_the_same_noise_for_the_same_bits(sigma, scripted):
    from tests.noise.test_table import vector_script

    sampler, shift = _gaussian(sigma), width(sigma).bit_length() - 1
    ones, script_rows = [], []
    stream = DeterministicEntropy(11)
    while len(ones) < 30:
        row = stream.words(3).tolist()
        try:
            ones.append(sampler.draw(scripted(row)))
            script_rows.append(row)
        except AssertionError:  # a rejected proposal asks for more words
            assert shift
    script = vector_script(sampler.blocks, [row[0] for row in script_rows])
    if shift:
        script += [(row[1] & ((1 << shift) - 1)) << (64 - shift) for row in script_rows] + [
            row[2] for row in script_rows
        ]
    out = np.empty(30, np.int64)
    sampler.fill(scripted(script), out)
    assert out.tolist() == ones


def test_rejected_positions_are_drawn_again_and_only_those(scripted):
    sampler = _gaussian(F(64))
    out = np.empty(4, np.int64)
    first = [0, *([1 << 63] * 4), 0, WORD - 1, 0, WORD - 1]  # blocks 0, places 1, accept yes no yes no
    assert sampler.blocks.guide[0] == 0
    unused = [5] * 4  # what the guide might have left open
    second = [0, *unused[:2], 0, 0, 0, 0]  # for the two pending: blocks 0, places 0, accepted
    sampler.fill(scripted([first[0], *unused, *first[1:], *second]), out)
    assert out.tolist() == [1, 0, 1, 0]


def test_shapes_types_and_the_largest_sigma():
    assert type(discrete_gaussian(3)) is int
    for size, shape in [(0, (0,)), ((2, 3), (2, 3)), ((), ()), ((3, 0), (3, 0)), (40000, (40000,))]:
        got = discrete_gaussian("100.5", size=size)
        assert (type(got), got.dtype, got.shape) == (np.ndarray, np.int64, shape)
    assert np.abs(discrete_gaussian(2**52, 10_000)).max() > 2**52
    for sigma in (2**52 + 1, "4503599627370496.0000001", 10**5000):
        with pytest.raises(InvalidParameter, match=r"^sigma: got .*expected .*"):
            discrete_gaussian(sigma)


@pytest.mark.parametrize("bad", BAD_SCALES, ids=lambda x: stable(x)[:20])
def test_bad_sigmas_are_refused(bad):
    for size in (None, 3):
        with pytest.raises(InvalidParameter, match=r"^sigma: got .*expected a number"):
            discrete_gaussian(bad, size)


@pytest.mark.parametrize("bad", BAD_SIZES, ids=lambda x: stable(x)[:20])
def test_bad_sizes_are_refused(bad):
    with pytest.raises(InvalidParameter, match=r"^size: got .*expected "):
        discrete_gaussian(1, bad)
