"""The geometric and discrete Laplace tables hold the true distribution; open words are decided as mpmath does."""

from fractions import Fraction
from itertools import pairwise
from math import ceil

import numpy as np
import pytest
from tests.conftest import stable
from tests.noise.reference import (
    CONTEXT,
    WORD,
    digit_cdf,
    digit_cdfs,
    from_words,
    geometric_pmf,
    laplace_pmf,
    leading_words,
    real,
)

from discreet.errors import InternalError, InvalidParameter
from discreet.noise import DeterministicEntropy, discrete_laplace, geometric
from discreet.noise.geometric import _geometric, _laplace
from discreet.noise.sampler import Table

F = Fraction
SCALES = [
    F(1, 10**6), F(1, 50), F(3, 10), F(1), F(22, 7), F(512, 45), F(513, 45), F(100), F(12345678, 1000), F(10**6),
    F(10**12 + 1, 7), F(10**12), F(2**52),
]  # fmt: skip
few = pytest.mark.parametrize("scale", [F(1, 50), F(22, 7), F(12345678, 1000), F(10**12)], ids=str)
every = pytest.mark.parametrize("scale", SCALES, ids=str)


def digits(scale: Fraction, *, signed: bool) -> list[tuple[int, int | None, Table]]:
    """(radix, size or None for the unbounded one, table) of each digit, the sizes read off the radices."""
    parts = (_laplace if signed else _geometric)(scale).digits
    radices = [radix for radix, _ in parts]
    sizes = [b // a for a, b in pairwise(radices)] + [None]
    assert radices[0] == 1
    assert all(b % a == 0 for a, b in pairwise(radices))
    return [(radix, size, table) for (radix, table), size in zip(parts, sizes, strict=True)]


def cdf(scale: Fraction, radix: int, size: int | None, i: int, *, signed: bool):
    return digit_cdf(radix / scale, size, signed=signed and radix == 1, i=i)


def cdfs(scale: Fraction, radix: int, size: int | None, table: Table, *, signed: bool):
    return digit_cdfs(radix / scale, size, len(table.thresholds) + 1, signed=signed and radix == 1)


# --- exact enumeration -------------------------------------------------------------------------------------


@every
@pytest.mark.parametrize("signed", [True, False], ids=["laplace", "geometric"])
def test_every_threshold_encloses_its_cumulative_probability(scale, signed):
    for radix, size, table in digits(scale, signed=signed):
        thresholds = [int(t) for t in table.thresholds]
        doubled = 2 if signed and radix == 1 else 1
        assert len(thresholds) == doubled * size - 1 if size else thresholds[-1] >= WORD - 2
        for i, (t, true) in enumerate(zip(thresholds, cdfs(scale, radix, size, table, signed=signed), strict=False)):
            assert t <= true * WORD < t + 2, (radix, i)


@every
@pytest.mark.parametrize("signed", [True, False], ids=["laplace", "geometric"])
def test_each_outcome_is_decided_for_as_many_words_as_its_probability(scale, signed):
    """A word w decides i if T(i−1) + 2 ≤ w < T(i): 2^64·P(i) of them, but for the two open ones at each threshold."""
    for radix, size, table in digits(scale, signed=signed):
        ends = [0, *(int(t) for t in table.thresholds)] + ([WORD] if size else [])
        sums = [CONTEXT.mpf(0), *cdfs(scale, radix, size, table, signed=signed)]
        for i, (start, end) in enumerate(pairwise(ends)):
            decided = max(end - start - (2 if i else 0), 0)
            assert decided - 1 <= (sums[i + 1] - sums[i]) * WORD <= decided + 4, (radix, i)


def implied(parts: list[tuple[int, int | None, Table]], k: int, *, signed: bool) -> Fraction:
    """P(K = k) by the tables' thresholds alone, as a rational."""
    total, sign = (~k, 1) if k < 0 else (k, 0)
    p = F(1)
    for radix, size, table in parts:
        digit = total // radix % size if size else total // radix
        i = 2 * digit + sign if signed and radix == 1 else digit
        ends = [0, *(int(t) for t in table.thresholds), WORD]
        p *= F(ends[i + 1] - ends[i], WORD) if i + 1 < len(ends) else 0
    return p


@every
def test_the_probabilities_of_whole_draws_are_the_true_ones(scale):
    laplace, plain = digits(scale, signed=True), digits(scale, signed=False)
    reach = ceil(20 * scale)
    some = {
        0,
        1,
        2,
        511,
        512,
        513,
        1023,
        1024,
        2**19 - 1,
        2**19,
        reach,
        reach // 2,
        reach // 3,
        reach // 7,
        reach // 1000,
    }
    tolerance = F(4 * len(laplace), WORD)
    for k in [k for k in some if k <= reach + 2]:
        for value in (k, -k, ~k):
            assert abs(real(implied(laplace, value, signed=True)) - laplace_pmf(scale, value)) <= real(tolerance)
        assert abs(real(implied(plain, k, signed=False)) - geometric_pmf(scale, k)) <= real(tolerance)


@pytest.mark.parametrize("scale", [F(1, 50), F(3, 10), F(22, 7)], ids=str)
def test_a_whole_small_distribution_is_the_true_one(scale):
    parts = digits(scale, signed=True)
    reach = ceil(46 * scale)
    total, distance = F(0), CONTEXT.mpf(0)
    for k in range(-reach, reach + 1):
        p = implied(parts, k, signed=True)
        total += p
        distance += abs(real(p) - laplace_pmf(scale, k))
    assert abs(1 - total) <= F(4, WORD)
    assert distance <= real(F(8 * reach, WORD))


# --- enclosures at any precision ---------------------------------------------------------------------------


@few
@pytest.mark.parametrize("bits", [64, 128, 192, 512])
@pytest.mark.parametrize("signed", [True, False], ids=["laplace", "geometric"])
def test_enclosures_contain_the_true_value_and_tighten(scale, bits, signed):
    for radix, size, table in digits(scale, signed=signed):
        listed = len(table.thresholds)
        for i in {0, 1, 2, listed // 2, listed - 1, *([] if size else [listed, listed + 7, 3 * listed])}:
            if size and i >= listed:
                continue
            lo, hi = table._enclose(i, bits)
            true = cdf(scale, radix, size, i, signed=signed) * CONTEXT.mpf(2) ** bits
            assert lo <= true <= hi <= lo + 2, (radix, i)


# --- words that leave a comparison open --------------------------------------------------------------------


def true_outcome(scale: Fraction, radix: int, size: int | None, words: list[int], *, signed: bool) -> int:
    u = from_words(words)
    outcomes = (2 if signed and radix == 1 else 1) * size if size else 10**6
    lo, hi = 0, outcomes - 1  # the first i with u < F(i)
    while lo < hi:
        middle = (lo + hi) // 2
        if u < cdf(scale, radix, size, middle, signed=signed):
            hi = middle
        else:
            lo = middle + 1
    return lo


@few
@pytest.mark.parametrize("signed", [True, False], ids=["laplace", "geometric"])
def test_words_on_a_threshold_are_decided_by_the_bits_that_follow(scale, signed, scripted):
    for radix, size, table in digits(scale, signed=signed):
        thresholds = [int(t) for t in table.thresholds]
        for i in {0, len(thresholds) // 3, len(thresholds) - 1}:
            for step in (-1, 0, 1, 2):
                for follow in ([0, 1], [WORD - 1, 0], [WORD // 3, 5]):
                    words = [min(thresholds[i] + step, WORD - 1), *follow]
                    got = table.pick(words[0], scripted(words[1:], then=DeterministicEntropy(0)))
                    assert got == true_outcome(scale, radix, size, words, signed=signed), (radix, i, step, follow)


@few
@pytest.mark.parametrize("signed", [True, False], ids=["laplace", "geometric"])
@pytest.mark.parametrize("agreeing", [2, 4])
def test_a_u_that_begins_like_f_is_decided_at_the_first_difference(scale, signed, agreeing, scripted):
    for radix, size, table in digits(scale, signed=signed):
        for i in {0, len(table.thresholds) // 2}:
            words = leading_words(cdf(scale, radix, size, i, signed=signed), agreeing + 1)
            last = words.pop()
            assert 2 < last < WORD - 2, "the expansion of F would make this test trivial"
            assert table.pick(words[0], scripted([*words[1:], last - 2])) == i
            assert table.pick(words[0], scripted([*words[1:], last + 2])) == i + 1


@pytest.mark.parametrize(
    ("scale", "ones"),
    [(F(22, 7), 1), (F(22, 7), 2), (F(22, 7), 5), (F(1, 50), 2), (F(1, 50), 3), (F(1, 6), 4)],
    ids=str,
)
@pytest.mark.parametrize("signed", [True, False], ids=["laplace", "geometric"])
def test_all_ones_reach_into_the_unlisted_tail(scale, ones, signed, scripted):
    (radix, size, table), *rest = digits(scale, signed=signed)
    assert not rest
    assert size is None
    words = [WORD - 1] * ones + [WORD // 2, 0]
    expected = true_outcome(scale, radix, size, words, signed=signed)
    assert table.pick(words[0], scripted(words[1:], then=DeterministicEntropy(0))) == expected
    sampler = (_laplace if signed else _geometric)(scale)
    k = sampler.draw(scripted(words, then=DeterministicEntropy(0)))
    assert k == ((expected >> 1) ^ -(expected & 1) if signed else expected)
    if ones > 1 and scale > 1:
        assert expected > len(table.thresholds)


def test_all_zeros_are_the_first_outcome(scripted):
    for scale in SCALES:
        count = len(_laplace(scale).digits)
        assert _laplace(scale).draw(scripted([0] * count, then=DeterministicEntropy(0))) == 0
        assert _geometric(scale).draw(scripted([0] * count, then=DeterministicEntropy(0))) == 0


def test_tiny_scales_are_zero_unless_a_thousand_words_conspire(scripted):
    for scale in (F(1, 10**6), F(1, 10**1000)):
        sampler = _laplace(scale)
        assert sampler.draw(scripted([WORD - 1] * 200 + [0])) == 0
        out = np.empty(4, np.int64)
        sampler.fill(scripted([WORD - 1] * 20 + [0], then=DeterministicEntropy(0)), out)
        assert out.tolist() == [0] * 4


def test_an_outcome_beyond_the_guide_stops_the_vector_path_and_not_the_scalar_one(scripted, monkeypatch):
    """Probability e^−1440, so that int16 look-ups are safe; the scalar path goes on in Python integers."""
    sampler = _geometric.__wrapped__(F(22, 7))
    for outcome, fits in [(2**15 - 2, True), (2**15 - 1, False), (2**70, False)]:
        monkeypatch.setattr(sampler.digits[0][1], "_resolve", lambda word, entropy, outcome=outcome: outcome)
        assert sampler.draw(scripted([WORD - 1])) == outcome
        out = np.empty(1, np.int64)
        if fits:
            sampler.fill(scripted([WORD - 1] * 2), out)
            assert out.tolist() == [outcome]
        else:
            with pytest.raises(InternalError, match="probability is below"):
                sampler.fill(scripted([WORD - 1] * 2), out)


def test_a_draw_that_leaves_64_bits_is_stopped(monkeypatch):
    sampler = _geometric.__wrapped__(F(2**52))
    top = sampler.digits[-1][1]
    monkeypatch.setattr(top, "picks", lambda entropy, count: np.full(count, 2**14, np.int16))
    with pytest.raises(InternalError, match="64 bits"):
        sampler.fill(DeterministicEntropy(0), np.empty(3, np.int64))


# --- one and many, shapes, words ---------------------------------------------------------------------------


@every
@pytest.mark.parametrize("signed", [True, False], ids=["laplace", "geometric"])
def test_one_and_many_give_the_same_noise_for_the_same_bits(scale, signed, scripted):
    from tests.noise.test_table import vector_script

    sampler = (_laplace if signed else _geometric)(scale)
    rng = DeterministicEntropy(7)
    words = rng.words(40 * len(sampler.digits)).reshape(40, -1).tolist()
    ones = [sampler.draw(scripted(row)) for row in words]
    script = []
    for column, (_, table) in enumerate(sampler.digits):
        script += vector_script(table, [row[column] for row in words])
    out = np.empty(40, np.int64)
    sampler.fill(scripted(script), out)
    assert out.tolist() == ones


@pytest.mark.parametrize("draw", [discrete_laplace, geometric])
def test_shapes_and_types(draw):
    assert type(draw(3)) is int
    for size, shape in [
        (0, (0,)),
        (5, (5,)),
        ((2, 3), (2, 3)),
        ((), ()),
        ((4, 0, 2), (4, 0, 2)),
        (np.int64(2), (2,)),
        (40000, (40000,)),
    ]:
        got = draw("22/7", size=size)
        assert (type(got), got.dtype, got.shape) == (np.ndarray, np.int64, shape)
        assert got.flags.writeable
        assert got.flags.c_contiguous


def test_scales_written_in_any_form_are_one_scale():
    from decimal import Decimal

    draws = {
        discrete_laplace(s, 50, entropy=DeterministicEntropy(3)).tobytes()
        for s in ("2.5", 2.5, Decimal("2.5"), F(5, 2), "5/2", np.float64(2.5))
    }
    assert len(draws) == 1


@pytest.mark.parametrize("draw", [discrete_laplace, geometric])
def test_the_largest_scale_is_accepted_and_the_next_refused(draw):
    assert abs(draw(2**52)) < 2**63
    assert np.abs(draw(2**52, 10_000)).max() > 2**50
    for scale in (2**52 + 1, "4503599627370496.0000001", 10**5000, 1e300):
        with pytest.raises(InvalidParameter, match=r"^scale: got .*expected .*"):
            draw(scale)


BAD_SCALES = [
    0, -1, "-1e-30", 0.0, float("nan"), float("inf"), True, None, 1j, [1], (), {}, "", "abc", "1/0", "1e99999999", b"1",
    np.array(1.0), np.array([1, 2]), object(),
]  # fmt: skip
BAD_SIZES = [
    -1, 2.0, True, "3", 2**50, (2, -1), (2, 1.5), [2, 3], (2**30, 2**30), (True,), 1j, np.array([2, 3]), (0, 2**62),
    (0, 2**70), (1,) * 65,
]  # fmt: skip


@pytest.mark.parametrize("draw", [discrete_laplace, geometric])
@pytest.mark.parametrize("bad", BAD_SCALES, ids=lambda x: stable(x)[:20])
def test_bad_scales_are_refused(draw, bad):
    for size in (None, 3):
        with pytest.raises(InvalidParameter, match=r"^scale: got .*expected a number"):
            draw(bad, size)


@pytest.mark.parametrize("draw", [discrete_laplace, geometric])
@pytest.mark.parametrize("bad", BAD_SIZES, ids=lambda x: stable(x)[:20])
def test_bad_sizes_are_refused(draw, bad):
    with pytest.raises(InvalidParameter, match=r"^size: got .*expected "):
        draw(1, bad)
