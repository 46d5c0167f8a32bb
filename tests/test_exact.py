"""Rationals are read exactly or refused; every bound encloses the value that 2000-bit arithmetic gives."""

import math
import sys
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from discreet.errors import InvalidParameter
from discreet.exact import (
    _atanh_bounds,
    exp_bounds,
    exp_down,
    exp_up,
    float_down,
    float_up,
    integer,
    log_bounds,
    log_down,
    log_up,
    plain,
    printed_up,
    rational,
    sqrt_bounds,
)

MP = mpmath.MPContext()
MP.prec = 2000
fractions = st.fractions(max_denominator=10**30)


def real(x: Fraction) -> mpmath.mpf:
    return MP.mpf(x.numerator) / x.denominator


def scaled(value: mpmath.mpf, bits: int) -> mpmath.mpf:
    return value * MP.mpf(2) ** bits


# --- reading numbers ---------------------------------------------------------------------------------------


class Three(IntEnum):
    THREE = 3


class Loud(float):
    def __str__(self) -> str:
        return "LOUD"

    __repr__ = __str__


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (3, Fraction(3)),
        (-3, Fraction(-3)),
        (Fraction(1, 3), Fraction(1, 3)),
        (Decimal("0.1"), Fraction(1, 10)),
        (Decimal("-1E+3"), Fraction(-1000)),
        ("0.1", Fraction(1, 10)),
        ("1/3", Fraction(1, 3)),
        (" 1 / 3 ", Fraction(1, 3)),
        ("-2.5e-3", Fraction(-1, 400)),
        ("+.5", Fraction(1, 2)),
        ("5.", Fraction(5)),
        ("1_000", Fraction(1000)),
        ("1e1000", Fraction(10**1000)),
        ("0." + "3" * 500, Fraction(int("3" * 500), 10**500)),
        (0.1, Fraction(1, 10)),
        (-0.0, Fraction(0)),
        (1e-300, Fraction(1, 10**300)),
        (1e22, Fraction(10**22)),
        (5e-324, Fraction(5, 10**324)),
        (1.7976931348623157e308, Fraction(17976931348623157 * 10**292)),
        (np.float64(0.1), Fraction(1, 10)),
        (np.float32(0.1), Fraction(1, 10)),
        (np.float16(0.1), Fraction(1, 10)),
        (np.int8(-7), Fraction(-7)),
        (np.uint64(2**64 - 1), Fraction(2**64 - 1)),
        (Three.THREE, Fraction(3)),
        (Loud(0.1), Fraction(1, 10)),
    ],
)
def test_rational_reads_what_the_person_wrote(written, meant):
    got = rational(written, "x")
    assert got == meant
    assert isinstance(got, Fraction)
    assert isinstance(got.numerator, int)
    assert not isinstance(got.numerator, np.integer)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_means_its_shortest_decimal(x):
    assert rational(x, "x") == Fraction(repr(x))
    assert float(rational(x, "x")) == x


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**50), max_value=10**50))
def test_a_decimal_is_exact(x):
    assert rational(x, "x") == Fraction(x)


NOT_NUMBERS = [
    None, True, False, np.bool_(True), 1j, [1], (1,), {}, b"1", object(), np.array(1.0), np.array([1]),
    math.nan, math.inf, -math.inf, np.float32("nan"), np.float64("-inf"),
    Decimal("NaN"), Decimal("sNaN"), Decimal("Infinity"), Decimal("1E+10000"), Decimal("1E-10000"),
    "", " ", "abc", "1/0", "0/0", "1//2", "1/2/3", "1e99999999", "1e", "e5", ".", "-", "+-1", "--1", "0x10", "nan",
    "inf",
    "1,5", "1 2", "1/3.5", "1.5/2", "½", "1" * 3001, "0" * 3001, "1e9999", "1e-9999",
    1 << 4096, -(1 << 4096), Fraction(1, 1 << 4096), 10**5000,
]  # fmt: skip


@pytest.mark.parametrize("value", NOT_NUMBERS, ids=lambda v: repr(v)[:16] if isinstance(v, str) else type(v).__name__)
def test_rational_refuses_what_is_not_a_number(value):
    with pytest.raises(InvalidParameter, match=r"^noise scale: got .*, expected a number") as caught:
        rational(value, "noise scale")
    assert len(str(caught.value)) < 300


MALFORMED = ["1_", "1__0", "1_.5", "1\t/\t3", "1\n/3", "1/\n3", "1_000_/3"]


@pytest.mark.parametrize("text", MALFORMED)
def test_rational_refuses_malformed_text_with_its_own_exception(text):
    with pytest.raises(InvalidParameter):
        rational(text, "x")


@given(st.text(alphabet="0123456789._+-eE/ \t\n_²٣", max_size=12))
@settings(max_examples=400)
def test_rational_reads_or_refuses_any_text(text):
    try:
        got = rational(text, "x")
    except InvalidParameter:
        return
    assert isinstance(got, Fraction)


@pytest.mark.parametrize(
    ("limits", "inside", "outside", "words"),
    [
        ({"above": 0}, ["1e-9", 1], [0, -1, "-1e-9"], "> 0"),
        ({"at_least": 0}, [0, 1], ["-1e-9"], "≥ 0"),
        ({"below": 1}, ["0.999", -5], [1, 2], "< 1"),
        ({"at_most": 1}, [1], ["1.0000000000000000000001"], "≤ 1"),
        ({"at_least": 0, "below": 1}, [0, "0.5"], [1, -1], "≥ 0 and < 1"),
        ({"above": 0, "at_most": 1}, [1, "0.5"], [0, 2], "> 0 and ≤ 1"),
    ],
)
def test_rational_holds_its_limits_exactly(limits, inside, outside, words):
    for value in inside:
        rational(value, "x", **limits)
    for value in outside:
        with pytest.raises(InvalidParameter) as caught:
            rational(value, "x", **limits)
        assert f"expected a number {words}" in str(caught.value)


@pytest.mark.parametrize("value", [3, np.int64(3), np.uint8(3), Three.THREE])
def test_integer_reads_whole_numbers(value):
    got = integer(value, "count")
    assert got == 3
    assert type(got) is int


@pytest.mark.parametrize(
    "value", [True, np.bool_(False), 3.0, "3", None, Fraction(3), Decimal(3), [3], np.array(3), 1j, math.nan]
)
def test_integer_refuses_everything_else(value):
    with pytest.raises(InvalidParameter, match=r"^count: got .*, expected a whole number"):
        integer(value, "count")


def test_integer_holds_its_limits():
    assert integer(1, "n", at_least=1, at_most=1) == 1
    for value in (0, 2, -(10**5000), 10**5000):
        with pytest.raises(InvalidParameter, match="expected a whole number ≥ 1 and ≤ 1"):
            integer(value, "n", at_least=1, at_most=1)


# --- bounds ------------------------------------------------------------------------------------------------

bits_ = st.integers(0, 700)
exponents = st.one_of(
    st.fractions(-800, 0, max_denominator=10**20),
    st.builds(lambda a, b: -Fraction(a, 2**b), st.integers(0, 10**6), st.integers(0, 900)),
    st.sampled_from(
        [Fraction(-1, 10**400), Fraction(0), -Fraction(10**30), Fraction(-1), Fraction(-64), Fraction(-65)]
    ),
)


@given(exponents, bits_)
@settings(max_examples=300)
@example(Fraction(-1, 2**900), 64)
@example(Fraction(-(2**64 - 1), 2**64), 64)
@example(Fraction(-1), 0)
def test_exp_bounds_enclose_and_are_two_units_wide_below_zero(x, bits):
    lo, hi = exp_bounds(x, bits)
    assert 0 <= lo <= scaled(MP.exp(real(x)), bits) <= hi <= lo + 2


@given(st.fractions(0, 300, max_denominator=10**12), st.integers(0, 300))
@settings(max_examples=150)
def test_exp_bounds_enclose_above_zero(x, bits):
    lo, hi = exp_bounds(x, bits)
    assert lo <= scaled(MP.exp(real(x)), bits) <= hi <= lo + 2


@given(st.fractions(0, 10**12, max_denominator=10**30), st.integers(0, 700))
@settings(max_examples=200)
@example(Fraction(1, 2**5000), 64)
@example(Fraction(2**5000 + 1), 0)
@example(Fraction(2**64 + 1, 2**64), 64)
@example(Fraction(1, 2), 3)
def test_log_bounds_enclose_and_are_two_units_wide(x, bits):
    assume(x > 0)
    lo, hi = log_bounds(x, bits)
    assert lo <= scaled(MP.log(real(x)), bits) <= hi <= lo + 2


@given(st.fractions(0, 10**40, max_denominator=10**40), st.integers(0, 700))
@settings(max_examples=200)
def test_sqrt_bounds_are_the_integers_around_the_root(x, bits):
    lo, hi = sqrt_bounds(x, bits)
    assert lo * lo <= x * 4**bits <= hi * hi
    assert hi - lo == (0 if lo * lo == x * 4**bits else 1)


def just_beside(value: mpmath.mpf) -> list[Fraction]:
    """Rationals below and above the value, closer than any guard bits: rounding in the wrong direction shows."""
    whole = int(MP.floor(value * MP.mpf(2) ** 600))
    return [Fraction(whole, 1 << 600), Fraction(whole + 1, 1 << 600)]


@pytest.mark.parametrize("bits", [0, 8, 64, 128])
def test_exp_bounds_enclose_where_the_value_is_all_but_an_integer(bits):
    for n in (1, 2, 3, (1 << bits) // 3, (1 << bits) - 1):
        if 0 < n < 1 << bits:
            for x in just_beside(MP.log(MP.mpf(n) / MP.mpf(2) ** bits)):
                lo, hi = exp_bounds(x, bits)
                assert lo <= scaled(MP.exp(real(x)), bits) <= hi, (n, x)


@pytest.mark.parametrize("bits", [0, 8, 64, 128])
def test_log_bounds_enclose_where_the_value_is_all_but_an_integer(bits):
    for n in (1, -1, 2, 5, -5, 300, -300, 1 << bits, 7 << bits, -7 << bits):
        if abs(n) < 350 << bits:
            for x in just_beside(MP.exp(MP.mpf(n) / MP.mpf(2) ** bits)):
                lo, hi = log_bounds(x, bits)
                assert lo <= scaled(MP.log(real(x)), bits) <= hi, (n, x)


@given(st.fractions(-Fraction(1, 3), Fraction(1, 3)), st.integers(8, 600))
@settings(max_examples=150)
@example(Fraction(1, 3), 40)
@example(Fraction(-1, 3), 600)
def test_the_series_of_the_logarithm_is_enclosed_without_any_guard(z, precision):
    lo, hi = _atanh_bounds(z, precision)
    assert lo <= scaled(MP.atanh(real(z)), precision) <= hi


@pytest.mark.parametrize("x", [Fraction(0), Fraction(-1, 3)])
def test_log_of_zero_or_less_is_refused(x):
    with pytest.raises(InvalidParameter, match="expected a number > 0"):
        log_bounds(x, 64)


def test_sqrt_of_a_negative_number_is_refused():
    with pytest.raises(InvalidParameter, match="expected a number ≥ 0"):
        sqrt_bounds(Fraction(-1), 64)


@pytest.mark.parametrize("bits", [64, 128, 192, 512])
def test_enclosures_tighten_with_the_bits(bits):
    for x in (Fraction(-22, 7), Fraction(-1, 10**9), Fraction(-40)):
        lo, hi = exp_bounds(x, bits)
        wide_lo, wide_hi = exp_bounds(x, bits - 32)
        assert Fraction(hi - lo, 1 << bits) <= Fraction(2, 1 << bits) < Fraction(1, 1 << (bits - 32))
        assert wide_lo << 32 <= hi
        assert lo <= wide_hi << 32


@given(st.fractions(-500, 50, max_denominator=10**9), st.integers(8, 200))
@settings(max_examples=200)
@example(Fraction(-1), 8)
@example(Fraction(-99, 100), 11)
@example(Fraction(-(10**4)), 8)
def test_exp_up_and_down_are_ordered_and_as_close_as_they_say(x, bits):
    true, down, up = MP.exp(real(x)), exp_down(x, bits), exp_up(x, bits)
    assert real(down) <= true <= real(up)
    assert true - real(down) <= scaled(true, 2 - bits)
    assert real(up) - true <= scaled(true, 2 - bits)


@given(st.fractions(0, 10**9, max_denominator=10**9), st.integers(8, 200))
@settings(max_examples=100)
def test_log_up_and_down_are_ordered_and_close(x, bits):
    assume(x > 0)
    true, down, up = MP.log(real(x)), log_down(x, bits), log_up(x, bits)
    assert real(down) <= true <= real(up)
    assert up - down <= Fraction(2, 1 << bits)


# --- floats and text ---------------------------------------------------------------------------------------


@given(st.one_of(fractions, st.builds(Fraction, st.floats(allow_nan=False, allow_infinity=False))))
@settings(max_examples=300)
@example(Fraction(sys.float_info.max))
@example(Fraction(sys.float_info.max) + 1)
@example(-Fraction(sys.float_info.max) - 1)
@example(Fraction(1, 10**400))
@example(Fraction(-1, 10**400))
@example(Fraction(10**400))
def test_float_up_and_down_are_the_neighboring_floats(x):
    up, down = float_up(x), float_down(x)
    assert down <= x <= up
    assert math.isinf(up) or math.nextafter(up, -math.inf) < x
    assert math.isinf(down) or math.nextafter(down, math.inf) > x


@given(st.one_of(fractions, st.builds(Fraction, st.floats(allow_nan=False, allow_infinity=False))))
@settings(max_examples=200)
@example(Fraction(3, 10))
@example(Fraction(0))
@example(Fraction(-1, 10**400))
@example(Fraction(sys.float_info.max))
@example(-Fraction(sys.float_info.max))
@example(Fraction(10**400))
def test_printed_up_is_the_least_float_whose_decimal_is_not_below(x):
    up = printed_up(x)
    assert repr(up) != "-0.0"
    assert math.isinf(up) or rational(up, "x") >= x
    assert up > -math.inf
    below = math.nextafter(up, -math.inf)
    assert math.isinf(below) or rational(below, "x") < x


def test_zero_is_rounded_to_plain_zero():
    assert [repr(f(Fraction(0))) for f in (float_up, float_down)] == ["0.0", "0.0"]


@given(fractions)
@settings(max_examples=300)
@example(Fraction(10**15))
@example(Fraction(10**16 + 1))
@example(Fraction(-1, 10**320))
@example(Fraction(123456789012345678, 10**9))
def test_plain_text_is_read_back_exactly(x):
    assert rational(plain(x), "x") == x


@pytest.mark.parametrize(
    "x",
    [Fraction(10**250 + 1), Fraction(1, 3**500), exp_up(Fraction(-700)), Fraction((1 << 4096) - 1, (1 << 4095) + 1)],
)
def test_plain_text_of_long_rationals_is_read_back_too(x):
    assert rational(plain(x), "x") == x


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (Fraction(0), "0"), (Fraction(5), "5"), (Fraction(-5), "-5"), (Fraction(1, 8), "0.125"),
        (Fraction(1, 3), "1/3"),
        (Fraction(1, 10), "0.1"), (Fraction(1, 10**9), "1e-09"), (Fraction(10**14), "100000000000000"),
        (Fraction(10**15), "1000000000000000.0"),
    ],
)  # fmt: skip
def test_plain_text_never_changes(x, text):
    """The ledger's digests depend on it."""
    assert plain(x) == text
