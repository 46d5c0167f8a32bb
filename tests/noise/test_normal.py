"""The rounded Gaussian: tables, acceptance and rounding give P(K = k) = Φ((k + ½)/σ) − Φ((k − ½)/σ)."""

import math
from fractions import Fraction
from functools import lru_cache

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
from discreet.noise import DeterministicEntropy, normal, rounded_gaussian
from discreet.noise.normal import _rounded
from discreet.noise.table import below

F = Fraction
SHORT = [
    F(1, 8),
    F(1, 2),
    F(1),
    F(22, 7),
    F(6399, 100),
    F(64),
    F(12345678, 1000),
    F(11, 10) * 2**30,
    F(2**36) - F(1, 3),
]
LARGE = [F(2**36), F(10**12), F(2**52)]
short = pytest.mark.parametrize("sigma", SHORT, ids=str)
every = pytest.mark.parametrize("sigma", SHORT + LARGE, ids=str)


def width(sigma: Fraction) -> int:
    """m of the module's docstring, from its words."""
    m = 1
    while sigma / m >= 64:
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


def test_what_31_bits_leave_open_is_below_2_to_minus_23_in_every_listed_block():
    sigmas = [F(1, 8) * F(101, 100) ** i for i in range(700)] + SHORT
    for sigma in sigmas:
        if sigma < 64 or sigma in SHORT:
            m, blocks = width(sigma), len(_rounded.__wrapped__(sigma).blocks.thresholds)
            assert F(blocks * m * m, 2**31) / sigma**2 <= F(1, 2**23), sigma


def test_the_exponential_of_numpy_in_float32_is_right_to_2_to_minus_21():
    random = DeterministicEntropy(5).words(60_000).astype(np.float64) * 2.0**-64
    steps = np.arange(1, 231) * math.log(2) / 2  # where usual reductions change
    x = np.concatenate(
        [np.linspace(0, 80, 20_000), random * 80, random[:20_000], random[:9000] * 2.0**-20, steps, [0.0, 80.0]]
    ).astype(np.float32)
    x = np.concatenate([x, np.nextafter(steps.astype(np.float32), 0), np.nextafter(steps.astype(np.float32), 99)])
    x = np.minimum(x, 80)
    assert (np.abs(np.exp(-x) / np.exp(-x.astype(np.float64)) - 1) <= 2.0**-21).all()
    for length in (1, 2, 3, 7, 8, 15, 16, 17, 31, 33):
        for start in (0, 1, 3, 1000, 50_001):
            part = x[start : start + length].copy()
            assert (np.abs(np.exp(-part) / np.exp(-part.astype(np.float64)) - 1) <= 2.0**-21).all()


# --- The decisions of the float32 path


class Coins:
    """First the 16-bit coins, then zeros."""

    def __init__(self, coins: np.ndarray) -> None:
        padded = np.zeros(-(-len(coins) // 4) * 4, np.uint16)
        padded[: len(coins)] = coins
        self._words: np.ndarray | None = padded.view(np.uint64)

    def words(self, count: int) -> np.ndarray:
        taken, self._words = self._words, None
        if taken is None:
            return np.zeros(count, np.uint64)
        assert len(taken) == count
        return taken


def adversarial(sigma: Fraction, seed: int, count: int):
    """Blocks, places and coins at, beside and around 2^16·p, p to 1e-14 by the ends of what L can be."""
    sampler, rng = _rounded(sigma), np.random.default_rng(seed)
    listed, m = len(sampler.blocks.thresholds), width(sigma)
    block = np.minimum(rng.integers(0, listed, count), rng.integers(0, listed, count)).astype(np.int16)
    place = rng.integers(0, 2**31, count).astype(np.uint32)
    special = np.array([0, 1, 2, 3, 2**31 - 1, 2**31 - 2, 2**30, 2**24 + 1, 2**25 - 1, 2**30 + 2**6 - 1], np.uint32)
    place[: count // 5] = special[rng.integers(0, len(special), count // 5)]
    place[count // 5 : count // 3] >>= rng.integers(0, 31, count // 3 - count // 5).astype(np.uint32)
    near, far = (probability(sigma, m, block, place.astype(np.float64) + step) for step in (0.0, 1.0))
    coins = np.floor(65536 * near) + rng.integers(-3, 4, count)
    return sampler, block, place, np.clip(coins, 0, 65535).astype(np.uint16), near, far


def probability(sigma: Fraction, m: int, block: np.ndarray, place: np.ndarray) -> np.ndarray:
    part = place * 2.0**-31
    return np.exp(-part * (2.0 * block + part) * float(F(m * m) / (2 * sigma**2)))


def wrong(sigma: Fraction, monkeypatch, seed: int = 1, count: int = 60_000) -> tuple[int, float]:
    """How many coins floats decided wrongly, for some L and U that begin so; and the share left to rationals."""
    sampler, block, place, coins, near, far = adversarial(sigma, seed, count)
    left: list[bool] = []
    monkeypatch.setattr(normal, "below", lambda *_: left.append(True) or False)
    marked = sampler._acceptance
    opened: set[tuple[int, int]] = set()
    monkeypatch.setattr(
        type(sampler), "_acceptance", lambda self, b, p, *rest: opened.add((b, p)) or marked(b, p, *rest), raising=True
    )
    heads = sampler._accepted(block, place, Coins(coins))
    decided = np.array([(int(b), int(p)) not in opened for b, p in zip(block, place, strict=True)])
    surely = far * 65536 >= coins.astype(np.float64) + 1 - 1e-9  # U < p whatever follows
    never = near * 65536 <= coins + 1e-9
    mistakes = decided & ~np.where(heads, surely, never)
    return int(mistakes.sum()), len(left) / count


@short
def test_floats_decide_only_what_is_certain(sigma, monkeypatch):
    mistakes, left = wrong(sigma, monkeypatch)
    assert mistakes == 0
    assert 0.05 < left < 0.9, "coins beside the threshold should reach the rationals"


@pytest.mark.parametrize("sigma", [F(1, 2), F(64), F(11, 10) * 2**30], ids=str)
def test_without_their_margin_floats_would_be_caught(sigma, monkeypatch):
    """The test above has teeth: half of a step is enough."""
    monkeypatch.setattr(normal, "_MARGIN", -0.5)
    assert wrong(sigma, monkeypatch)[0] > 100


@pytest.mark.parametrize("sigma", [F(1, 8), F(22, 7), F(11, 10) * 2**30], ids=str)
def test_floats_decide_like_200_bits(sigma, monkeypatch):
    """The check above computes p in float64; here in 200 bits, for some of its coins."""
    sampler, block, place, coins, near, far = adversarial(sigma, 3, 400)
    mp, m = mpmath.MPContext(), width(sigma)
    mp.prec = 200
    for b, p, low, high in zip(block.tolist(), place.tolist(), far, near, strict=True):
        for step, got in ((0, high), (1, low)):
            ell = F(m * (p + step), 2**31)
            gamma = ell * (2 * m * b + ell) / (2 * sigma**2)
            true = mp.exp(-mp.mpf(gamma.numerator) / gamma.denominator)
            assert abs(mp.mpf(float(got)) - true) < 1e-13


@pytest.mark.parametrize("sigma", [F(1, 8), F(22, 7), F(64), F(11, 10) * 2**30], ids=str)
@pytest.mark.parametrize("agreeing", [1, 2, 3])
def test_a_coin_that_begins_like_p_is_decided_at_the_first_difference(sigma, agreeing):
    """Bits of U and of L are revealed in turns: U's first 48 more, then 64 of L, 64 of U, 64 of L, …"""
    sampler, m = _rounded(sigma), width(sigma)
    for block in {0, 1, len(sampler.blocks.thresholds) - 1}:
        for place in (5, 2**31 // 3, 2**31 - 1):
            later = [0x0123456789ABCDEF, 0xFEDCBA9876543210, 0x5555555555555555, 1]
            bits = place
            for word in later:
                bits = bits << 64 | word
            ell = F(m * bits, 1 << (31 + 64 * len(later)))
            p = exp(-ell * (2 * m * block + ell) / (2 * sigma**2))
            u = leading_words(p, agreeing + 1)
            if u[0] == 0:
                continue  # an acceptance below 2^−64 agrees with zero
            for step, expected in ((-(2**8), True), (2**8, False)):
                if not 2**9 < u[-1] < WORD - 2**9:
                    continue
                words = [*u[:-1], u[-1] + step]
                if agreeing == 1:
                    words = [u[0], u[1] + step]
                script = [(words[0] << 16) % WORD]
                for i, more in enumerate(words[1:]):
                    script += [later[i], more]
                script += [later[len(words) - 1], 7, 7, 7, 7]
                coin = np.array([words[0] >> 48, 0, 0, 0], np.uint16).view(np.uint64).tolist()
                got = sampler._accepted(
                    np.array([block], np.int16), np.array([place], np.uint32), Scripted(coin + script)
                )
                assert got.tolist() == [expected], (block, place, step)


def test_blocks_beyond_the_table_are_left_to_rationals(monkeypatch):
    """Nothing bounds the float's error there; it happens with probability 2^−63."""
    sampler, asked = _rounded(F(1, 8)), []

    def counted(word, enclose, entropy):
        asked.append(word)
        return below(word, enclose, entropy)

    monkeypatch.setattr(normal, "below", counted)
    beyond = len(sampler.blocks.thresholds)
    block = np.array([0, beyond, beyond + 300, 0], np.int16)
    place = np.array([2**30] * 4, np.uint32)
    heads = sampler._accepted(block, place, Coins(np.array([65535, 65535, 65535, 65535])))
    assert len(asked) == 2
    assert not heads.any()


# --- The single draw


@pytest.mark.parametrize("sigma", [F(1, 8), F(22, 7), F(64), F(10**12), F(2**52)], ids=str)
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


@every
def test_one_and_many_give_the_same_noise_for_the_same_bits(sigma, scripted):
    sampler, stream, same = _rounded(sigma), DeterministicEntropy(11), 0
    while same < 60:
        first, second, third = stream.words(3).tolist()
        try:
            one = sampler.draw(scripted([first, second, third]))
        except AssertionError:  # rejected, or undecided
            continue
        out = np.empty(1, np.int64)
        halved = [(second & 1) << 31 | second >> 33, third >> 48]
        script = halved if sampler._shift < 31 else [second, third]
        try:
            sampler.fill(scripted([*vector_script(sampler.blocks, [first]), *script]), out)
        except AssertionError as end:
            assert "script ended" in str(end)  # 16 bits leave open what 64 decide
            continue
        assert out[0] == one
        same += 1


@pytest.mark.parametrize("sigma", [F(1, 2), F(64), F(11, 10) * 2**30, F(2**40)], ids=str)
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
    out = np.empty(30, np.int64)
    sampler.fill(DeterministicEntropy(0), out)
    kept = np.arange(30) % 3 != 1
    assert out[kept].tolist() == (np.arange(30) + 1000)[kept].tolist()
    assert out[~kept].tolist() == [2000, 2001, 2002, 2003, 2004, 3000, 3002, 3003, 3005, 3006]


# --- What callers see


FOLLOWED = [F(1, 2), F(3), F(6399, 100), F(64), F(1000), F(11, 10) * 2**30, F(2**36) - 1, F(2**36), F(2**52)]


@pytest.mark.parametrize("sigma", FOLLOWED, ids=str)
@pytest.mark.parametrize("many", [True, False], ids=["many", "one by one"])
def test_draws_follow_the_rounded_gaussian_and_no_other_scale(sigma, many):
    stream = Stream()
    if many:
        draws = rounded_gaussian(sigma, MANY, entropy=stream)
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


def test_neighbours_and_signs_are_independent():
    sigma, stream = F(11, 10) * 2**30, Stream()
    draws = rounded_gaussian(sigma, 2 * MANY, entropy=stream)
    cuts = np.floor(np.array([-1.0, -0.3, 0.4, 1.1]) * float(sigma))
    assert_independent(draws[::2], draws[1::2], cuts, cdf(sigma), "neighbours", stream)
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
    for sigma in (F(1, 2), F(64), F(11, 10) * 2**30, F(2**40)):
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
