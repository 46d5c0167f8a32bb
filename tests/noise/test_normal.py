"""The rounded Gaussian: tables, acceptance and rounding give P(K = k) = Φ((k + ½)/σ) − Φ((k − ½)/σ)."""

import math
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from tests.conftest import Counting, Scripted, stable
from tests.noise.reference import CONTEXT, WORD, exp, first_above, leading_words, real
from tests.noise.test_geometric import BAD_SCALES, BAD_SIZES
from tests.noise.test_table import vector_script
from tests.statistical.power import (
    FEW,
    MANY,
    WRONG,
    Stream,
    assert_follows,
    assert_frequency,
    assert_independent,
    assert_rejected,
)

from discreet.errors import InvalidParameter
from discreet.noise import DeterministicEntropy, add_rounded_gaussian, normal, rounded_gaussian
from discreet.noise.normal import _rounded

F = Fraction
SHORT = [
    F(1, 8),
    F(1, 2),
    F(1),
    F(22, 7),
    F(12799, 100),
    F(128),
    F(12345678, 1000),
    F(11, 10) * 2**30,
    F(2**37) - F(1, 3),
]
LARGE = [F(2**37), F(10**12), F(2**52)]
short = pytest.mark.parametrize("sigma", SHORT, ids=str)
every = pytest.mark.parametrize("sigma", SHORT + LARGE, ids=str)


def width(sigma: Fraction) -> int:
    """m of the module's docstring, from its words."""
    m = 1
    while sigma / m >= 128:
        m *= 2
    return m


@lru_cache(maxsize=64)
def block_cdf(sigma: Fraction) -> list[mpmath.mpf]:
    m, weights = width(sigma), []
    while not weights or weights[-1] > CONTEXT.mpf(2) ** -690:
        weights.append(exp(-F((m * len(weights)) ** 2) / (2 * sigma**2)))
    total, so_far, sums = CONTEXT.fsum(weights), CONTEXT.mpf(0), []
    for weight in weights:
        so_far += weight
        sums.append(so_far / total)
    return sums


def cdf(sigma: Fraction):
    from scipy.special import ndtr

    return lambda k: ndtr((np.floor(k) + 0.5) / float(sigma))


# --- The parts, against 700-bit arithmetic


@every
def test_every_threshold_encloses_its_cumulative_probability(sigma):
    table, true = _rounded(sigma).blocks, block_cdf(sigma)
    assert int(table.thresholds[-1]) >= WORD - 2
    for i, t in enumerate(table.thresholds.tolist()):
        assert t <= true[i] * WORD < t + 2, i


@short
def test_every_threshold_of_the_steps_encloses_its_cumulative_probability(sigma):
    table, m = _rounded(sigma).steps, width(sigma)
    assert int(table.thresholds[-1]) >= WORD - 2
    for i, t in enumerate(table.thresholds.tolist()):
        assert t <= (1 - exp(-F((m * (i + 1)) ** 2) / (2 * sigma**2))) * WORD < t + 2, i


@every
def test_words_on_a_threshold_are_decided_by_the_bits_that_follow(sigma, scripted):
    table, true = _rounded(sigma).blocks, block_cdf(sigma)
    listed = len(table.thresholds)
    for i in {0, listed // 2}:
        words = leading_words(true[i], 4)
        for step in (-2, 2):
            script = [*words[1:3], min(max(words[3] + step, 0), WORD - 1)]
            u = CONTEXT.mpf(((words[0] << 64 | script[0]) << 64 | script[1]) << 64 | script[2]) / CONTEXT.mpf(2) ** 256
            assert table.pick(words[0], scripted([*script, 0, 0])) == first_above(u, true), (i, step)


@pytest.mark.parametrize("sigma", [F(1, 8), F(1, 2), F(22, 7), F(100)], ids=str)
def test_a_whole_distribution_is_the_true_one(sigma):
    """P(K = k) from the table's thresholds and the sampler's own acceptance, integrated over each half of a unit."""
    sampler, m = _rounded(sigma), width(sigma)
    ends = [0, *sampler.blocks.thresholds.tolist()]
    nodes, weights = np.polynomial.legendre.leggauss(12)
    found: dict[int, float] = {}
    for block in range(len(ends) - 1):
        proposed = (ends[block + 1] - ends[block]) / WORD / m
        for half in range(2 * m):
            points = [half / 2 + (node + 1) / 4 for node in nodes]
            chances = []
            for point in points:
                lo, hi = sampler._acceptance(block, int(point / m * 2**63), 63, Scripted([0]))(64)
                chances.append((lo + hi) / 2 / WORD)
            k = math.floor(m * block + half / 2 + 0.5)
            found[k] = found.get(k, 0.0) + proposed * float(np.dot(weights, chances)) / 4
    total, reach = sum(found.values()), math.ceil(6 * sigma) + 1
    for k in range(reach):
        true = CONTEXT.ncdf(real((k + F(1, 2)) / sigma)) - CONTEXT.ncdf(real((k - F(1, 2)) / sigma))
        if true > 1e-13:
            both = 1 if k == 0 else 2
            assert abs(found[k] / total / (both * float(true)) - 1) < 1e-9 + 1e-17 / float(true), k


@pytest.mark.parametrize("sigma", [F(1, 8), F(1, 2), F(22, 7), F(100)], ids=str)
def test_a_whole_distribution_of_arrays_is_the_true_one(sigma):
    """P(K = k) from both tables' thresholds and the sampler's own chance in the steep parts, integrated likewise."""
    sampler, m = _rounded(sigma), width(sigma)
    ends, steps = [0, *sampler.blocks.thresholds.tolist()], [0, *sampler.steps.thresholds.tolist()]
    nodes, weights = np.polynomial.legendre.leggauss(12)
    found: dict[int, float] = {}
    for block in range(len(steps) - 1):
        flat = (ends[block + 2] - ends[block + 1]) / WORD / m if block + 2 < len(ends) else 0.0
        steep = ends[1] / WORD * (steps[block + 1] - steps[block]) / WORD / m
        for half in range(2 * m):
            points = [half / 2 + (node + 1) / 4 for node in nodes]
            chances = []
            for point in points:
                lo, hi = sampler._chance(block, int(point / m * 2**31), Scripted([WORD // 2] * 9))(64)
                chances.append((lo + hi) / 2 / WORD)
            k = math.floor(m * block + half / 2 + 0.5)
            found[k] = found.get(k, 0.0) + flat / 2 + steep * float(np.dot(weights, chances)) / 4
    total, reach = sum(found.values()), math.ceil(6 * sigma) + 1
    for k in range(reach):
        true = CONTEXT.ncdf(real((k + F(1, 2)) / sigma)) - CONTEXT.ncdf(real((k - F(1, 2)) / sigma))
        if true > 1e-13:
            both = 1 if k == 0 else 2
            assert abs(found[k] / total / (both * float(true)) - 1) < 1e-7 + 1e-17 / float(true), k


def chance(sigma: Fraction, block: int, ell: Fraction) -> mpmath.mpf:
    """(e(L) − e(m))/(1 − e(m)) to 600 bits."""
    m = width(sigma)
    near, far = (exp(-part * (2 * m * block + part) / (2 * sigma**2)) for part in (ell, F(m)))
    return (near - far) / (1 - far)


@short
def test_the_chance_in_a_steep_part_is_enclosed_for_every_l_that_begins_so(sigma):
    sampler, m = _rounded(sigma), width(sigma)
    for block in {0, 1, len(sampler.steps.thresholds) - 1}:
        for place in (0, 1, (1 << 31) // 3, (1 << 31) - 1):
            for follow in (0, WORD - 1, WORD // 5):
                enclose = sampler._chance(block, place, Scripted([follow] * 12))
                for bits in (64, 128, 256):
                    lo, hi = enclose(bits)
                    later, length = place, 31
                    while length < 700:
                        later, length = later << 64 | follow, length + 64
                    true = chance(sigma, block, F(m * later, 1 << length)) * CONTEXT.mpf(2) ** bits
                    assert lo - 1 <= true <= hi + 1
                    assert hi - lo <= 4


@every
@pytest.mark.parametrize("known", [31, 63])
def test_the_acceptance_encloses_the_ratio_of_densities_for_every_l_that_begins_so(sigma, known):
    sampler, m = _rounded(sigma), width(sigma)
    for block in (0, 1, len(sampler.blocks.thresholds) - 1):
        for place in (0, 1, (1 << known) // 3, (1 << known) - 1):
            for follow in (0, WORD - 1, WORD // 5):
                enclose, later = sampler._acceptance(block, place, known, Scripted([follow] * 9)), place
                for bits in (64, 128, 256):
                    lo, hi = enclose(bits)
                    later, length = place, known
                    while length < 700:
                        later, length = later << 64 | follow, length + 64
                    ell = F(m * later, 1 << length)
                    true = exp(-ell * (2 * m * block + ell) / (2 * sigma**2)) * CONTEXT.mpf(2) ** bits
                    assert lo - 1 <= true <= hi + 1
                    assert hi - lo <= 2**8 if sigma < 1 else hi - lo <= 40


def test_exponents_are_below_2_to_7_in_every_block_of_the_steps():
    sigmas = [F(1, 8) * F(11, 10) ** i for i in range(73)] + SHORT
    for sigma in sigmas:
        if sigma < 128 or sigma in SHORT:
            m, last = width(sigma), len(_rounded.__wrapped__(sigma).steps.thresholds) - 1
            assert F(m * (2 * m * last + m)) / (2 * sigma**2) < 2**7, sigma


def test_what_numpy_makes_of_exponentials_near_one_is_right_to_2_to_minus_48():
    random = DeterministicEntropy(5).words(600).astype(np.float64) * 2.0**-64
    x = np.concatenate([random * 128, random, random * 2.0**-17, random * 2.0**-40, [0.0, 128.0, math.log(2)]])
    true = np.array([float(CONTEXT.expm1(CONTEXT.mpf(float(v)))) for v in x])
    for start, length in ((0, len(x)), (1, 1), (2, 3), (5, 8), (7, 17)):  # vectors and their rests
        part = slice(start, start + length)
        assert (np.abs(np.expm1(x[part].copy()) - true[part]) <= 2.0**-48 * true[part]).all()


# --- The decisions of floats in the steep parts


def adversarial(sigma: Fraction, seed: int, count: int):
    """Blocks, places, and words at, beside and around 2^64·p; p at both ends of what L can be, to 600 bits."""
    sampler, rng, m = _rounded(sigma), np.random.default_rng(seed), width(sigma)
    listed = len(sampler.steps.thresholds)
    block = np.minimum(rng.integers(0, listed, count), rng.integers(0, listed, count)).astype(np.int16)
    place = rng.integers(0, 2**31, count).astype(np.uint32)
    special = np.array([0, 1, 2, 3, 2**31 - 1, 2**31 - 2, 2**30, 2**24 + 1, 2**30 + 2**6 - 1], np.uint32)
    place[: count // 5] = special[rng.integers(0, len(special), count // 5)]
    ends = [
        [chance(sigma, int(b), F(m * (int(p) + step), 2**31)) for step in (0, 1)]
        for b, p in zip(block, place, strict=True)
    ]
    away = rng.choice([-1, 1], count) * 2.0 ** rng.integers(20, 50, count)
    words = [int(min(max(near * WORD + int(d), 0), WORD - 1)) for (near, _), d in zip(ends, away, strict=True)]
    return sampler, block, place, words, ends


def wrong(sigma: Fraction, monkeypatch, seed: int = 1, count: int = 1500) -> tuple[int, float]:
    """How many coins floats decided wrongly, for some L and U that begin so; and the share left to rationals."""
    sampler, block, place, words, ends = adversarial(sigma, seed, count)
    opened: set[tuple[int, int]] = set()
    monkeypatch.setattr(normal, "below", lambda *_: False)
    monkeypatch.setattr(type(sampler), "_chance", lambda self, b, p, entropy: opened.add((b, p)))
    heads = sampler._accepted(block, place, np.array(words, np.uint64), Scripted([]))
    mistakes = 0
    for b, p, head, word, (near, far) in zip(block, place, heads, words, ends, strict=True):
        if (int(b), int(p)) not in opened:
            mistakes += not (word + 1 <= far * WORD if head else word >= near * WORD)
    return mistakes, len(opened) / count


@pytest.mark.quick_cases(3)
@short
def test_floats_decide_only_what_is_certain(sigma, monkeypatch):
    mistakes, left = wrong(sigma, monkeypatch)
    assert mistakes == 0
    assert 0.3 < left < 1, "coins beside the threshold should reach the rationals"


@pytest.mark.parametrize("sigma", [F(1, 2), F(128), F(11, 10) * 2**30], ids=str)
def test_without_their_margin_floats_would_be_caught(sigma, monkeypatch):
    """The test above has teeth."""
    monkeypatch.setattr(normal, "_MARGIN", 0.0)
    assert wrong(sigma, monkeypatch)[0] > 20


@pytest.mark.parametrize("sigma", [F(1, 8), F(22, 7), F(128), F(11, 10) * 2**30], ids=str)
@pytest.mark.parametrize("agreeing", [1, 2, 3])
def test_a_coin_that_begins_like_p_is_decided_at_the_first_difference(sigma, agreeing):
    """Bits of U and of L are revealed in turns: 64 of U, 128 of L, then 64 of each."""
    sampler, m = _rounded(sigma), width(sigma)
    later = [0x0123456789ABCDEF, 0xFEDCBA9876543210, 0x5555555555555555, 1, 0xAAAAAAAAAAAAAAAA, 3]
    for block in {0, 1, len(sampler.steps.thresholds) - 1}:
        for place in (5, 2**31 // 3, 2**31 - 1):
            bits = place
            for word in later:
                bits = bits << 64 | word
            u = leading_words(chance(sigma, block, F(m * bits, 1 << (31 + 64 * len(later)))), agreeing + 1)
            if u[0] == 0 or not 2**21 < u[-1] < WORD - 2**21:
                continue  # a chance below 2^−64 agrees with zero
            for step, expected in ((-(2**20), True), (2**20, False)):
                script = [*later[:2]]
                for i, word in enumerate([*u[1:-1], u[-1] + step]):
                    script += [word, later[2 + i]]
                args = np.array([block], np.int16), np.array([place], np.uint32)
                first = np.array(u[:1], np.uint64)
                assert sampler._accepted(*args, first, Scripted([*script, 7, 7, 7, 7])).tolist() == [expected]


def test_blocks_beyond_the_table_are_left_to_rationals(monkeypatch):
    """Nothing bounds the float's error there; it happens with probability 2^−63."""
    sampler, asked = _rounded(F(1, 8)), []
    monkeypatch.setattr(normal, "below", lambda word, *_: bool(asked.append(word)))
    beyond = len(sampler.steps.thresholds)
    block = np.array([0, beyond, beyond + 300, 0], np.int16)
    coins = np.array([WORD - 1, 5, 6, WORD - 1], np.uint64)
    heads = sampler._accepted(block, np.array([2**29] * 4, np.uint32), coins, Scripted([]))
    assert asked == [5, 6]
    assert not heads.any()


@pytest.mark.parametrize("sigma", SHORT[3:], ids=str)
@pytest.mark.parametrize("negative", [0, 1])
def test_proposals_are_the_whole_numbers_nearest_to_what_their_bits_say(sigma, negative, scripted):
    """j ≥ 1 and L give X = m(j − 1) + L, or −mj + L if it is negative, at once; j = 0 goes by the steps."""
    sampler, m, out = _rounded(sigma), width(sigma), np.empty(1, np.int64)
    middles = [(a + b) // 2 for a, b in pairwise([0, *sampler.blocks.thresholds.tolist()])]
    for place in (0, 1, 2**30 - 1, 2**30, 2**31 - 1, 2**31 // 3):
        word = negative << 31 | place
        for j in (1, 2, 20):
            top, *more = vector_script(sampler.blocks, [middles[j]])
            accepted = sampler._propose(scripted([top, word, *more, 5, 5], DeterministicEntropy(0)), out)
            x = F(m * place, 2**31) + (-m * j if negative else m * (j - 1))
            assert accepted.all()
            assert out[0] == math.floor(x + F(1, 2))
        steps = [(a + b) // 2 for a, b in pairwise([0, *sampler.steps.thresholds.tolist()])]
        for h in (0, 3):
            ell = F(m * (2**31 - 1 - place if negative else place), 2**31)
            p = chance(sigma, h, ell)
            for coin, expected in (
                (max(int(p * WORD) - 2**46, 0), True),
                (min(int(p * WORD) + 2**46, WORD - 1), False),
            ):
                top, *more = vector_script(sampler.blocks, [middles[0]])
                then = DeterministicEntropy(0)  # for chances near 0 and 1
                accepted = sampler._propose(scripted([top, word, *more, steps[h], coin], then), out)
                x = F(m * place, 2**31) + (-m * (h + 1) if negative else m * h)
                assert out[0] == math.floor(x + F(1, 2))
                if 2.0**-17 < p < 1 - 2.0**-17:
                    assert accepted.tolist() == [expected]


@pytest.mark.parametrize("sigma", [F(1, 8), F(22, 7), F(128), F(11, 10) * 2**30], ids=str)
@pytest.mark.parametrize("few", [0, 1, 30])
def test_when_spare_draws_run_out_more_are_made(sigma, few, monkeypatch):
    """Also where hardly any are made at once: all positions get one, by filling and by adding the same."""
    monkeypatch.setattr(normal, "_spare", lambda count: few)
    marks = np.arange(50_000) * 10**11
    onto = marks.copy()
    add_rounded_gaussian(sigma, onto, entropy=DeterministicEntropy(6))
    draws = onto - marks
    assert np.array_equal(draws, rounded_gaussian(sigma, 50_000, entropy=DeterministicEntropy(6)))
    if sigma >= 128:
        assert abs(draws / float(sigma)).max() < 6
        assert np.count_nonzero(draws) > 49_000


def test_added_noise_has_its_own_errors_and_leaves_no_number_out():
    for bad in ([1, 2], np.zeros(3), np.zeros((2, 2), np.int64), None):
        with pytest.raises(InvalidParameter, match="onto"):
            add_rounded_gaussian(1, bad)
    with pytest.raises(InvalidParameter, match="sigma"):
        add_rounded_gaussian(0, np.zeros(3, np.int64))
    for size in (0, 1, 40_000, 131_072 + 7):
        sums = np.zeros(size, np.int64)
        add_rounded_gaussian(2**30, sums, entropy=DeterministicEntropy(1))
        assert np.count_nonzero(sums) == size


# --- The single draw


@pytest.mark.parametrize("sigma", [F(1, 8), F(22, 7), F(128), F(10**12), F(2**52)], ids=str)
def test_a_single_draw_is_accepted_by_the_exact_ratio(sigma, scripted):
    sampler, m = _rounded(sigma), width(sigma)
    ends = [0, *sampler.blocks.thresholds.tolist()]
    for block in {0, 1, len(ends) // 3}:
        first = (ends[block] + ends[block + 1]) // 2
        for place in (1 << 61, (1 << 63) - 1):
            for sign in (0, 1):
                later = [0x0123456789ABCDEF, 0xFEDCBA9876543210]
                ell = F(m * (((place << 64) | later[0]) << 64 | later[1]), 1 << 191)
                u = leading_words(exp(-ell * (2 * m * block + ell) / (2 * sigma**2)), 2)
                if u[0] == 0:
                    continue  # an acceptance below 2^−64
                k = math.floor(m * block + F(m * place, 1 << 63) + F(1, 2)) * (-1 if sign else 1)
                head = [first, place << 1 | sign]
                again = [0, 0, 0]  # a proposal of 0 that is accepted
                assert sampler.draw(scripted([*head, u[0], u[1] - 2**20, later[0], 5, later[1]])) == k
                rejected = scripted([*head, u[0], u[1] + 2**20, later[0], *again, 0, 0, 0], DeterministicEntropy(0))
                assert sampler.draw(rejected) == 0 or k == 0
                if u[0] > 2**40:
                    assert sampler.draw(scripted([*head, u[0] - 2**26])) == k
                if u[0] + 2**26 < WORD:
                    assert sampler.draw(scripted([*head, u[0] + 2**26, *again])) == 0


@pytest.mark.parametrize("sigma", [F(1, 2), F(128), F(11, 10) * 2**30, F(2**40)], ids=str)
def test_rejected_positions_are_drawn_again_and_only_those(sigma, monkeypatch):
    sampler, calls = _rounded(sigma), []

    def propose(self, entropy, out):
        calls.append(out.size)
        out[:] = np.arange(out.size) + 1000 * len(calls)
        accepted = np.arange(out.size) % 3 != 1
        if len(calls) == 2:
            accepted[:] = False
            accepted[:5] = True
        return accepted

    monkeypatch.setattr(type(sampler), "_propose", propose)
    monkeypatch.setattr(type(sampler), "_propose_large", propose)
    out = np.empty(60, np.int64)
    sampler.fill(DeterministicEntropy(0), out)
    kept = np.arange(60) % 3 != 1
    assert calls == [60 + 16, 9 + 16, 4 + 16]
    assert out[kept].tolist() == (np.arange(60) + 1000)[kept].tolist()
    spare = [1000 + k for k in range(60, 76) if k % 3 != 1]  # those that were made at once, then five, then as needed
    assert out[~kept].tolist() == [*spare, 2000, 2001, 2002, 2003, 2004, 3000, 3005, 3002, 3003][:20]


# --- What callers see


FOLLOWED = [F(1, 2), F(3), F(12799, 100), F(128), F(1000), F(11, 10) * 2**30, F(2**37) - 1, F(2**37), F(2**52)]


@pytest.mark.parametrize("sigma", FOLLOWED, ids=str)
@pytest.mark.parametrize("way", ["many", "one by one", "added"])
def test_draws_follow_the_rounded_gaussian_and_no_other_scale(sigma, way):
    stream = Stream()
    if way == "many":
        draws = rounded_gaussian(sigma, MANY, entropy=stream)
    elif way != "one by one":
        draws = np.full(MANY, 10**6)
        add_rounded_gaussian(sigma, draws, entropy=stream)
        draws -= 10**6
    else:
        draws = np.array([rounded_gaussian(sigma, entropy=stream) for _ in range(FEW)])
    assert_follows(draws, cdf(sigma), f"sigma {sigma}", stream)
    for factor in (WRONG, 1 / WRONG):
        assert_rejected(draws, cdf(sigma), cdf(F(float(sigma) * factor)), f"sigma {sigma} × {factor:.2f}", stream)


def test_the_smallest_sigma_is_seldom_anything_but_zero():
    stream = Stream()
    draws = rounded_gaussian("1/8", 400_000, entropy=stream)
    assert_frequency(draws != 0, math.erfc(4 / math.sqrt(2)), "sigma 1/8", stream)
    assert np.abs(draws).max() <= 1


def test_neighbors_and_signs_are_independent():
    sigma, stream = F(11, 10) * 2**30, Stream()
    draws = rounded_gaussian(sigma, 2 * MANY, entropy=stream)
    cuts = np.floor(np.array([-1.0, -0.3, 0.4, 1.1]) * float(sigma))
    assert_independent(draws[::2], draws[1::2], cuts, cdf(sigma), "neighbors", stream)
    assert_frequency(draws > 0, 0.5, "signs", stream)


def test_the_lowest_bits_are_even():
    """A float would leave them zero: 2^30·1.1 has more bits than a float32 holds."""
    stream = Stream()
    draws = rounded_gaussian(F(11, 10) * 2**30, MANY, entropy=stream)
    for bit in range(8):
        assert_frequency((draws >> bit & 1).astype(np.bool_), 0.5, f"bit {bit}", stream, tests=8)


@pytest.mark.parametrize("sigma", [F(1, 2), F(2)], ids=str)
def test_how_often_a_draw_starts_again_tells_nothing_about_it(sigma):
    stream, firsts, later = Stream(), [], []
    sampler = _rounded(sigma)
    counting = Counting()
    counting._stream = stream
    while len(later) < 6000 or len(firsts) < 6000:
        before = counting.count
        k = sampler.draw(counting)
        (firsts if counting.count == before + 3 else later).append(k)
    for draws in (firsts, later):
        assert_follows(np.array(draws), cdf(sigma), f"sigma {sigma}", stream)


def test_the_same_stream_gives_the_same_draws():
    for sigma in (F(1, 2), F(128), F(11, 10) * 2**30, F(2**40)):
        a, b = (rounded_gaussian(sigma, 40_000, entropy=DeterministicEntropy(3)) for _ in range(2))
        assert (a == b).all()
        assert not (a == rounded_gaussian(sigma, 40_000, entropy=DeterministicEntropy(4))).all()


def test_shapes_types_and_the_largest_sigma():
    assert type(rounded_gaussian(3)) is int
    assert rounded_gaussian(3, 0).shape == (0,)
    assert rounded_gaussian(2**52, (2, 3, 4)).shape == (2, 3, 4)
    assert rounded_gaussian(F(1, 8), (50, 2)).dtype == np.int64
    for sigma in (2**52 + 1, F(1, 8) - F(1, 10**9), 0.1, 2**60):
        with pytest.raises(InvalidParameter, match=r"^sigma: got .*expected between 1/8 and 2\^52"):
            rounded_gaussian(sigma)


def test_sigmas_written_in_any_form_are_one_sigma():
    forms = (2.5, "2.5", "5/2", F(5, 2), np.float64(2.5))
    draws = [rounded_gaussian(form, 50, entropy=DeterministicEntropy(1)).tolist() for form in forms]
    assert all(draw == draws[0] for draw in draws)


@pytest.mark.parametrize("bad", BAD_SCALES, ids=lambda x: stable(x)[:20])
def test_bad_sigmas_are_refused(bad):
    for size in (None, 3):
        with pytest.raises(InvalidParameter, match=r"^sigma: got .*expected a number"):
            rounded_gaussian(bad, size)


@pytest.mark.parametrize("bad", BAD_SIZES, ids=lambda x: stable(x)[:20])
def test_bad_sizes_are_refused(bad):
    with pytest.raises(InvalidParameter, match=r"^size: got .*expected "):
        rounded_gaussian(1, bad)
