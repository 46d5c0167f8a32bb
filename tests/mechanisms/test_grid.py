"""Snapping against exact rationals: floats of every magnitude, every grid, every dtype."""

import gc
import sys
from collections import UserList, deque
from contextlib import suppress
from fractions import Fraction
from math import ceil, floor, inf, nextafter

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from tests.conftest import stable

from discreet.errors import InvalidData, InvalidParameter
from discreet.mechanisms.mechanism import Grid, add, finite, whole

F = Fraction
CLAMP = 2**62

BINARY = [F(1), F(1, 2), F(1, 1024), F(2) ** -40, F(8), F(2) ** 60]
DECIMAL = [F(1, 10), F(1, 100), F(3), F(1, 3), F(7, 1000), F(10) ** 6, F(10) ** -12, F(123456789, 10**5)]
steps = st.sampled_from(BINARY + DECIMAL)
numbers = st.floats(allow_nan=False, allow_infinity=False)
near_grid = st.builds(  # on, just below and just above grid points and the halves between them
    lambda step, k, half, ulps: (step, _nudge(float((k + F(half, 2)) * step), ulps)),
    steps,
    st.one_of(st.integers(-1000, 1000), st.integers(-(2**32), 2**32), st.integers(-(2**51), 2**51)),
    st.integers(0, 1),
    st.integers(-2, 2),
)


def _nudge(x: float, ulps: int) -> float:
    for _ in range(abs(ulps)):
        x = nextafter(x, inf if ulps > 0 else -inf)
    return x


def snapped(x: float, step: Fraction) -> int:
    """The definition: the nearest whole number of steps, halves upwards, held at ±2^62."""
    return max(-CLAMP, min(CLAMP, floor(F(x) / step + F(1, 2))))


# --- snap is the definition, exactly -----------------------------------------------------------------------


@given(numbers, steps)
@example(5e-324, F(1))
@example(-5e-324, F(1, 10))
@example(1.7976931348623157e308, F(10) ** -12)
@example(-1.7976931348623157e308, F(1, 3))
@example(2.0**62, F(1))
@example(0.49999999999999994, F(1))  # + 0.5 rounds to 1 in floats
@example(4503599627370497.5, F(1))
def test_snap_is_exact_for_floats_of_every_magnitude(x, step):
    assert Grid(step).snap([x]).tolist() == [snapped(x, step)]


@given(near_grid)
@settings(max_examples=400)
def test_snap_is_exact_at_grid_points_and_at_halves(case):
    step, x = case
    assert Grid(step).snap([x]).tolist() == [snapped(x, step)]


@given(st.integers(-(2**63), 2**64 - 1), steps)
@example(2**53 + 1, F(1))
@example(2**53 + 1, F(1, 2))
@example(2**62 + 1, F(3))
@example(-(2**63), F(1))
@example(2**64 - 1, F(2) ** 60)
def test_snap_is_exact_for_integers_beyond_the_floats(x, step):
    assert Grid(step).snap([x]).tolist() == [snapped(x, step)]


@pytest.mark.parametrize("width", [16, 32])
def test_snap_is_exact_for_narrow_floats(width):
    @given(st.lists(st.floats(allow_nan=False, allow_infinity=False, width=width), min_size=1, max_size=5), steps)
    def check(values, step):
        array = np.array(values, f"float{width}")
        assert Grid(step).snap(array).tolist() == [snapped(float(x), step) for x in array]

    check()


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_snap_is_exact_at_the_ends_of_every_integer_type(dtype):
    ends = np.iinfo(dtype)
    array = np.array([ends.min, ends.max], dtype)
    for step in (F(1), F(1, 10), F(3)):
        assert Grid(step).snap(array).tolist() == [snapped(int(x), step) for x in array]


@given(st.integers(-(2**61), 2**61), st.sampled_from([F(1), F(1, 2), F(1, 1024), F(4)]))
def test_halves_go_upwards(k, step):
    half = (k + F(1, 2)) * step
    assume(F(float(half)) == half)
    assert Grid(step).snap([float(half)]).tolist() == [k + 1]


@pytest.mark.parametrize("value", [3.0, 0.5, -2.25, 7, np.float64(1.5), np.float32(0.1), np.int64(4), np.array(0.5)])
def test_a_plain_number_snaps_to_a_zero_dimensional_array(value):
    for step in (F(1), F(1, 10)):
        result = Grid(step).snap(value)
        assert result.shape == ()
        assert int(result) == snapped(np.asarray(value).item(), step)


@pytest.mark.parametrize("step", [*DECIMAL, 1 + F(1, 2**53) + F(1, 2**60), 1 + F(1, 2**53) - F(1, 2**60)], ids=str)
def test_snap_is_exact_one_ulp_from_every_half(step):
    """Floats alone decide some of these wrongly, by up to two ulps just below a power of two: rationals must."""
    halves = [(2 * k + 1) * 3**j for k in range(60) for j in (0, 5, 15, 25)]
    halves += [2**j - 1 - 2 * k for j in range(3, 52) for k in range(3)]
    values = [_nudge(float(F(half, 2) * step), ulps) for half in halves for ulps in (-1, 0, 1)]
    assert Grid(step).snap(values).tolist() == [snapped(x, step) for x in values]


ODD_STEPS = [*DECIMAL, F(1, 1024 * 999_983), F(0.1) / 1024, F(10) ** 290, F(1, 10**290), F(5) * 2**63, 3 * F(2) ** 66]
ODD_STEPS += [F(2**61 - 1 - 2 * k, 3**k) for k in range(1, 9)]  # more bits than a float has


@pytest.mark.parametrize("step", ODD_STEPS, ids=str)
def test_snap_is_exact_for_arrays(step):
    """Arrays are decided by arithmetic modulo 2^128: at, and an ulp from, every kind of half, to the clamp and beyond."""
    halves = [1, 3, 2**20 + 1, 2**51 - 1, 2**52 + 1, 2**53 - 1, 2**60 + 1, 2**62 - 1, 2**63 - 1, 2**63 + 1, 2**64 + 3]
    halves += [5 * 3**k for k in range(40)]
    exact = [sign * F(half + more, 2) * step for half in halves for more in (-1, 0) for sign in (1, -1)]
    values = [_nudge(float(x), ulps) for x in exact if abs(x) < 2**1023 for ulps in (-1, 0, 1)]
    values += [0.0, -0.0, 5e-324, -5e-324, 1.7e308, -1.7e308, 1.0, -1.0]
    assert len(values) > 100
    assert Grid(step).snap(values).tolist() == [snapped(x, step) for x in values]
    whole_values = [round(x) for x in exact if abs(x) < 2**63 - 1] + [0, 1, -1, 2**63 - 1, -(2**63), 2**62] * 8
    assert Grid(step).snap(np.array(whole_values)).tolist() == [snapped(x, step) for x in whole_values]
    unsigned = [abs(x) for x in whole_values] + [2**64 - 1]
    assert Grid(step).snap(np.array(unsigned, np.uint64)).tolist() == [snapped(x, step) for x in unsigned]


@given(
    st.lists(st.one_of(numbers, near_grid.map(lambda case: case[1])), min_size=33, max_size=60),
    st.sampled_from(ODD_STEPS),
)
def test_arrays_snap_as_their_numbers_do(values, step):
    assert Grid(step).snap(values).tolist() == [snapped(x, step) for x in values]


def test_a_step_too_long_for_128_bits_is_exact_too():
    step = F(2**120 + 1, 3**80)
    values = [float((k + F(1, 2)) * step) for k in range(-50, 50)]
    assert Grid(step).snap(values).tolist() == [snapped(x, step) for x in values]


def operations(values, step: Fraction) -> list[str]:
    """The functions called, of Python and of C, while an array is snapped."""
    called: list[str] = []

    def note(frame, event, argument):
        if event in ("call", "c_call"):
            called.append(f"{event} {argument.__name__ if event == 'c_call' else frame.f_code.co_qualname}")

    grid, array = Grid(step), np.asarray(values)
    gc.disable()  # its callbacks would be noted too
    sys.setprofile(note)
    try:
        grid.snap(array)
    finally:
        sys.setprofile(None)
        gc.enable()
    return called


@pytest.mark.parametrize("count", [1, 20, 33, 1000])
@pytest.mark.parametrize("step", [F(1, 2), F(1, 10), F(3), F(2**120 + 1, 3**80)], ids=str)
def test_the_work_does_not_depend_on_the_values(count, step):
    """10,000 values near halves took 170 times as long as others: their decisions were made one at a time."""
    halves = np.array([float((k + F(1, 2)) * step) for k in range(count)])
    expected = operations(halves, step)
    assert len(expected) > 3
    for other in (np.zeros(count), halves / 3, -halves, halves * 1e300, np.full(count, 5e-324), np.arange(count) * 0.1):
        assert operations(other, step) == expected


def test_snap_keeps_the_shape_and_the_empty_array():
    values = np.arange(6.0).reshape(2, 3) + 0.5
    assert Grid(1).snap(values).tolist() == [[1, 2, 3], [4, 5, 6]]
    assert Grid(1).snap(np.zeros((0, 2))).shape == (0, 2)


# --- the guarantee on which sensitivity rests ----------------------------------------------------------------


@given(numbers, numbers, steps)
def test_values_apart_snap_no_further_apart_than_the_guarantee(x, y, step):
    a, b = Grid(step).snap([x, y]).tolist()
    assert abs(a - b) <= ceil(abs(F(x) - F(y)) / step)


@given(numbers, st.integers(-8, 8), st.integers(-3, 3), steps)
def test_neighboring_values_snap_no_further_apart_than_the_guarantee(x, shift, ulps, step):
    near = float(F(x) + shift * step) if abs(x) < 1e300 else x
    y = _nudge(near, ulps)
    assume(np.isfinite(y))
    a, b = Grid(step).snap([x, y]).tolist()
    assert abs(a - b) <= ceil(abs(F(x) - F(y)) / step)


@given(st.lists(numbers, min_size=2, max_size=6), steps)
def test_snap_is_monotone(values, step):
    result = Grid(step).snap(sorted(values)).tolist()
    assert result == sorted(result)


@pytest.mark.parametrize("shift", [1, 2, 3, 1001])
@pytest.mark.parametrize("sequence", [list, tuple, deque, UserList, lambda x: [np.uint64(x[0]), x[1]]])
def test_large_ints_beside_floats_keep_the_guarantee_or_are_refused(shift, sequence):
    """NumPy makes such a list float64, which would move 2^53 + 3 to 2^53 + 4."""
    for base in range(2**53, 2**53 + 4):
        with suppress(InvalidData):
            a, b = (int(Grid(1).snap(sequence([x, 0.5]))[0]) for x in (base, base + shift))
            assert abs(a - b) <= shift


def test_small_ints_beside_floats_are_welcome():
    assert Grid(1).snap([2**53, 0.5, -7]).tolist() == [2**53, 1, -7]


@pytest.mark.parametrize("base", [0.5, 1.5, 2.5])
def test_wide_floats_keep_the_guarantee_or_are_refused(base):
    long = np.longdouble
    low = long(base) - long(2) ** -53
    try:
        a, b = Grid(1).snap(np.array([low + 4, low])).tolist()
    except InvalidData:
        return
    assert a - b <= 4


@pytest.mark.parametrize("step", ["1e-400", "7e-324", "1e-310", "1e308", "1e400"])
def test_steps_beyond_the_floats_are_exact_or_refused(step):
    try:
        grid = Grid(step)
        result = grid.snap([0.0, 5e-320, 1.0, -1e300])
    except InvalidParameter:
        return
    assert result.tolist() == [snapped(x, F(step)) for x in (0.0, 5e-320, 1.0, -1e300)]


# --- back to floats ------------------------------------------------------------------------------------------


@given(st.integers(-(2**53), 2**53), st.sampled_from([F(1, 10), F(1, 100), F(1, 3), F(3), F(1, 1024), F(10) ** -12]))
@example(3, F(1, 10))
def test_floats_are_the_nearest_to_the_grid_points(k, step):
    assert Grid(step).floats(np.array([k])).tolist() == [float(k * step)]


@pytest.mark.parametrize("k", [-(2**63), 2**63 - 1, 2**62, -(2**62), 2**53 + 1])
@pytest.mark.parametrize("step", [F(3), F(1, 10), F(10) ** 18, F(1)], ids=str)
def test_floats_are_right_at_the_ends_of_int64(k, step):
    assert Grid(step).floats(np.array([k])).tolist() == [float(k * step)]


def test_points_beyond_the_floats_are_held_at_their_ends():
    assert Grid("1e290").floats(np.array([2**62, -(2**62)])).tolist() == [
        1.7976931348623157e308,
        -1.7976931348623157e308,
    ]


@given(st.integers(-(2**63), 2**63 - 1), steps)
def test_floats_are_a_monotone_function_of_the_steps_alone(k, step):
    pair = np.array([k, min(k + 1, 2**63 - 1)])
    low, high = Grid(step).floats(pair).tolist()
    assert low <= high
    assert Grid(step).floats(np.array([k])).tolist() == [low]


# --- addition ------------------------------------------------------------------------------------------------

words = st.integers(-(2**63), 2**63 - 1)


@given(words, words)
@example(2**62, 2**62)
@example(-(2**63), -(2**63))
@example(-(2**62), -(2**62))
@example(-1, -(2**63))
@example(0, -(2**63))
@example(2**63 - 1, 1)
def test_add_saturates_at_the_ends_of_int64(a, b):
    expected = max(-(2**63), min(2**63 - 1, a + b))
    assert add(np.array([a]), np.array([b])).tolist() == [expected]


def test_add_gives_no_warning_and_keeps_the_shape():
    result = add(np.full((2, 2), 2**62), np.full((2, 2), 2**62))
    assert result.tolist() == [[2**63 - 1] * 2] * 2
    assert result.dtype == np.int64


# --- what is refused -----------------------------------------------------------------------------------------

NOT_NUMBERS = [
    None, "3", b"3", ["1"], True, [True, False], 1j, [1j], object(), [None], {}, {1: 2}, np.array([1, "a"], object),
    np.datetime64("2026-01-01"), [[1, 2], [3]], [F(1, 2)],
]  # fmt: skip
NOT_FINITE = [float("nan"), float("inf"), -float("inf"), [1.0, float("nan")], np.array([np.inf], np.float32)]


@pytest.mark.parametrize("values", NOT_NUMBERS + NOT_FINITE, ids=stable)
def test_what_is_not_a_finite_real_number_is_refused(values):
    for read in (finite, whole):
        with pytest.raises(InvalidData):
            read(values, "value")
    with pytest.raises(InvalidData):
        Grid("0.1").snap(values)


@pytest.mark.parametrize(
    ("values", "where"), [([1.0, float("nan")], "at position 1,"), ([[1.0, 2.0], [float("inf"), 3.0]], "(1, 0)")]
)
def test_the_message_names_the_position_and_no_value(values, where):
    with pytest.raises(InvalidData) as caught:
        Grid(1).snap(values, "income")
    assert where in str(caught.value)
    assert "income" in str(caught.value)
    assert not any(digit in str(caught.value).replace(where, "") for digit in "23")


@pytest.mark.parametrize("values", [1.0, [1.5], [2**62], [-(2**62)], [2**64 - 1], [2**70], np.array([1.0])], ids=stable)
def test_whole_refuses_floats_and_what_does_not_fit(values):
    with pytest.raises(InvalidData):
        whole(values, "count")


@pytest.mark.parametrize("values", [[], (), np.array([], np.int64), np.zeros((0, 3), np.int64)], ids=stable)
def test_whole_accepts_nothing_at_all(values):
    assert whole(values, "count").size == 0
    assert whole(values, "count").dtype == np.int64


def test_whole_keeps_what_fits():
    assert whole([2**62 - 1, -(2**62) + 1], "count").tolist() == [2**62 - 1, -(2**62) + 1]
    assert whole(np.array([255], np.uint8), "count").dtype == np.int64


@pytest.mark.parametrize("step", [0, -1, float("nan"), float("inf"), None, True, "x", "1/0", [1], 1j], ids=stable)
def test_bad_steps_are_refused(step):
    with pytest.raises(InvalidParameter, match="granularity"):
        Grid(step)


def test_a_grid_is_a_frozen_value():
    assert Grid("0.1") == Grid(F(1, 10))
    assert hash(Grid("0.1")) == hash(Grid(0.1))
    with pytest.raises(AttributeError):
        Grid(1).step = F(2)
