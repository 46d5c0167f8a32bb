"""Rounding towards privacy, and roots from the safe side."""

import math
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from discreet.privacy.accounting.rounding import crossing, decimal_down, decimal_up, log, loss_up, noise_down, raised

fractions = st.builds(Fraction, st.integers(1, 10**30), st.integers(1, 10**30))


@given(fractions, st.integers(1, 20))
def test_decimals_enclose_and_have_that_many_digits(x: Fraction, digits: int) -> None:
    low, high = decimal_down(x, digits), decimal_up(x, digits)
    assert low <= x <= high
    assert high - low <= x / 10 ** (digits - 1)
    unit = Fraction(10) ** (len(str(x.numerator // x.denominator)) - digits) if x >= 1 else None
    for value in (low, high):
        assert unit is None or (value / unit).denominator == 1


@given(st.floats(0, 1e300))
def test_raised_is_above(x: float) -> None:
    assert raised(x) > x


def test_log_beyond_floats() -> None:
    assert math.isclose(log(Fraction(10) ** 5000), 5000 * math.log(10), rel_tol=1e-14)
    assert math.isclose(log(1 + Fraction(1, 10**12)), 1e-12, rel_tol=1e-6)


def test_parameters_are_clamped_on_the_private_side() -> None:
    tiny, huge = Fraction(1, 10**400), Fraction(10) ** 400
    assert loss_up(tiny) > tiny
    assert loss_up(huge) == math.inf
    assert noise_down(huge) < huge
    assert noise_down(tiny) == 0


@given(st.floats(-5, 5), st.floats(0.1, 4), st.floats(0, 3))
def test_crossing_brackets_the_root(root: float, slope: float, bend: float) -> None:
    def f(x: float) -> float:
        return slope * (x - root) + bend * (x - root) ** 3

    low, high = crossing(f, -10.0, 10.0)
    assert low <= root <= high or math.isclose(low, root, abs_tol=1e-9)
    assert high - low <= 1e-11
    assert f(high) >= 0


def test_crossing_of_a_step_and_of_infinities() -> None:
    low, high = crossing(lambda x: -1.0 if x < 0.3 else 1.0, 0.0, 1.0)
    assert low < 0.3 <= high
    assert high - low < 1e-12
    low, high = crossing(lambda x: -math.inf if x < 0.3 else 1.0, 0.0, 1.0)
    assert high - low < 1e-12
