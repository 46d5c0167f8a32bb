"""B6: the average of n bits, centrally and locally: the error falls as 1/(εn) and as 1/(ε√n); both slopes measured."""

from math import exp

import numpy as np
import pytest
from tests.statistical.power import Stream

from discreet.mechanisms import Geometric, Laplace, RandomizedResponse

pytestmark = pytest.mark.claim("B6")

SIZES = [100, 1000, 10_000, 100_000]


def central_error(n: int, epsilon: str, stream: Stream, runs: int = 400) -> float:
    """Root mean square error of a count of n bits with geometric noise, divided by n."""
    counts = np.full(runs, 3 * n // 10)
    mechanism = Geometric(epsilon=epsilon, sensitivity=1)
    return float(np.sqrt(((mechanism.release(counts, entropy=stream) - counts) ** 2).mean()) / n)


def local_error(n: int, epsilon: str, stream: Stream, runs: int = 50) -> float:
    """Root mean square error of the unbiased share of ones, from n randomized bits."""
    mechanism = RandomizedResponse.for_epsilon(epsilon=epsilon)
    bits = np.zeros(n, np.int64)
    bits[: 3 * n // 10] = 1
    lie = float(1 - mechanism.truth)
    shares = np.array([mechanism.release(bits, entropy=stream).mean() for _ in range(runs)])
    estimates = (shares - lie) / float(mechanism.keep)
    return float(np.sqrt(((estimates - 0.3) ** 2).mean()))


def slope(errors: list[float]) -> float:
    return float(np.polyfit(np.log(SIZES), np.log(errors), 1)[0])


def test_the_two_slopes():
    """Root mean squares of 400 and 50 runs have spreads of 6 % and 10 %: slopes over three decades, 0.02 and 0.03."""
    stream = Stream()
    central = slope([central_error(n, "0.5", stream) for n in SIZES])
    local = slope([local_error(n, "0.5", stream) for n in SIZES])
    assert central == pytest.approx(-1, abs=0.15), stream
    assert local == pytest.approx(-0.5, abs=0.15), stream
    assert local - central > 0.3


def test_both_errors_are_inverse_to_epsilon():
    stream, n = Stream(), 10_000
    central = central_error(n, "0.05", stream, 2000) / central_error(n, "0.5", stream, 2000)
    local = local_error(n, "0.05", stream, 200) / local_error(n, "0.5", stream, 200)
    assert central == pytest.approx(10, rel=0.3), stream
    assert local == pytest.approx(10, rel=0.5), stream


def test_the_errors_have_the_predicted_size():
    stream, n = Stream(), 10_000
    assert central_error(n, "0.1", stream, 4000) == pytest.approx(2**0.5 / (0.1 * n), rel=0.2), stream
    e = exp(0.5)
    predicted = (e / (1 + e) ** 2 / n) ** 0.5 * (1 + e) / (e - 1)
    assert local_error(n, "0.5", stream, 400) == pytest.approx(predicted, rel=0.25), stream


@pytest.mark.parametrize("n", [100, 10_000])
def test_the_stated_intervals_show_the_same_slopes(n):
    """Before any bit is read: what the mechanisms promise about their own error."""
    central, local = Laplace(epsilon="0.5", sensitivity=f"1/{n}"), RandomizedResponse.for_epsilon(epsilon="0.5")
    wider = Laplace(epsilon="0.5", sensitivity=f"1/{100 * n}")
    assert central.interval("0.95") / wider.interval("0.95") == pytest.approx(100, rel=0.01)
    ratio = local.interval("0.95", reports=n) / local.interval("0.95", reports=100 * n)
    assert ratio == pytest.approx(10, rel=0.01)
    assert central.interval("0.95") < local.interval("0.95", reports=n)
