"""What is broken in libraries that people use today (ANCHORS.md, "Broken in the field"), each as a test here."""

import os
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from tests.conftest import Counting, stable
from tests.noise.test_entropy import forking, in_child

from discreet.errors import DiscreetError
from discreet.noise import (
    discrete_gaussian,
    discrete_laplace,
    geometric,
    planar_laplace,
    softmax,
    staircase,
    uniform_below,
)
from discreet.noise.gaussian import _gaussian
from discreet.noise.geometric import _geometric, _laplace

F = Fraction
DRAWS = {
    "laplace": lambda size=None, entropy=None: discrete_laplace(3, size, entropy=entropy),
    "gaussian": lambda size=None, entropy=None: discrete_gaussian(3, size, entropy=entropy),
    "staircase": lambda size=None, entropy=None: staircase(epsilon=1, width=4, first=2, size=size, entropy=entropy),
    "planar": lambda size=None, entropy=None: planar_laplace(3, size, entropy=entropy),
}


# --- floating-point noise makes impossible events -----------------------------------------------------------


@pytest.mark.parametrize("name", DRAWS)
def test_all_noise_is_whole_numbers(name):
    draws = DRAWS[name](1000)
    assert draws.dtype == np.int64
    assert np.asarray(DRAWS[name]()).dtype == np.int64


@pytest.mark.parametrize("name", ["laplace", "gaussian", "staircase"])
def test_what_can_be_seen_at_x_can_be_seen_at_its_neighbor(name):
    """diffprivlib, NumPy: an event of probability 0.1 at x = 0 is impossible at x = 1. Here the supports coincide.

    Every value that is common at x = 0 (P > 0.01, so that 5000 draws miss it with probability below e^−50) is seen at
    x = 1 too, where its probability is at most a factor e smaller.
    """
    at_zero, at_one = DRAWS[name](5000), 1 + DRAWS[name](5000)
    values, counts = np.unique(at_zero, return_counts=True)
    common = values[counts > 200]
    assert len(common) >= 5
    assert set(common.tolist()) <= set(at_one.tolist())


@pytest.mark.parametrize("scale", [F(1), F(22, 7), F(512, 45)], ids=str)
def test_no_outcome_of_the_tables_is_impossible_at_the_neighbor(scale):
    """By the tables: each integer with words of its own at x has some at x + 1, at most e^(1/scale) times as many."""
    parts = [0, *_laplace(scale).digits[0][1].thresholds.tolist()]
    words = {}
    for outcome, (start, end) in enumerate(pairwise(parts)):
        words[~(outcome >> 1) if outcome & 1 else outcome >> 1] = end - start
    bound = float(np.exp(1 / float(scale)))
    inner = [k for k in words if words[k] > 2**20]
    for k in inner:
        for neighbor in (k - 1, k + 1):
            if neighbor in words:
                assert 0 < words[k] <= words[neighbor] * bound * (1 + 1e-5) + 4


# --- noise shared after fork ---------------------------------------------------------------------------------


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("size", [None, 7, 3000], ids=["one", "some", "many"])
def test_parent_and_child_draw_different_noise(size):
    """PyDP, randomgen and diffprivlib's staircase repeat the parent's noise in the child.

    The noise is so wide that independent draws coincide somewhere with a chance below 10^−6.
    """

    def both_coordinates():
        points = planar_laplace(2**42, size)
        return (points[..., 0] << 16) ^ points[..., 1]

    samplers = [
        lambda: discrete_laplace(2**50, size),
        lambda: discrete_gaussian(2**50, size),
        lambda: geometric(2**50, size),
        both_coordinates,
        lambda: staircase(epsilon="1e-12", width=1000, first=10, size=size),
        lambda: uniform_below(2**60, size),
    ]
    for draw in samplers:
        draw()  # fill the buffer before the fork
        child = np.frombuffer(in_child(lambda draw=draw: np.asarray(draw(), np.int64).tobytes()), np.int64)
        other = np.frombuffer(in_child(lambda draw=draw: np.asarray(draw(), np.int64).tobytes()), np.int64)
        parent = np.asarray(draw(), np.int64).ravel()
        assert child.size == other.size == parent.size
        for a, b in ((child, parent), (child, other), (other, parent)):
            assert not np.isin(a, b).any()


def test_a_fork_in_the_middle_of_a_draw_loop_starts_anew():
    draws = [discrete_laplace(2**50) for _ in range(10)]
    reader, writer = os.pipe()
    with forking():
        pid = os.fork()
    mine = [discrete_laplace(2**50) for _ in range(50)]
    if pid == 0:
        os.write(writer, np.array(mine).tobytes())
        os._exit(0)
    os.waitpid(pid, 0)
    theirs = np.frombuffer(os.read(reader, 10_000), np.int64).tolist()
    os.close(reader)
    os.close(writer)
    assert len(theirs) == 50
    assert len({*draws, *mine, *theirs}) == 110


# --- the time of a draw tells of the draw --------------------------------------------------------------------


def words_and_noise(draw, count: int) -> tuple[np.ndarray, np.ndarray]:
    stream = Counting(17)
    words, noise = [], []
    for _ in range(count):
        before = stream.count
        noise.append(abs(draw(stream)))
        words.append(stream.count - before)
    return np.array(words), np.array(noise, np.float64)


@pytest.mark.parametrize("scale", [F(1, 50), F(1), F(100), F(10**6), F(2**52)], ids=str)
def test_a_single_laplace_or_geometric_draw_takes_the_same_number_of_words_always(scale):
    """diffprivlib and PyDP draw longer for larger noise (correlations 0.70 and 0.39)."""
    for sampler in (_laplace(scale), _geometric(scale)):
        words, _ = words_and_noise(sampler.draw, 500)
        assert set(words.tolist()) == {len(sampler.digits)}


@pytest.mark.parametrize("size", [1, (1,), (1, 1), 2], ids=str)
@pytest.mark.parametrize("name", ["laplace", "geometric", "gaussian"])
def test_a_draw_in_a_short_array_takes_the_same_number_of_words_always(name, size):
    """One released count is often an array of length one: rare outcomes must not cost another look-up there either."""
    draw = {"laplace": discrete_laplace, "geometric": geometric, "gaussian": discrete_gaussian}[name]
    words, noise = words_and_noise(lambda stream: np.abs(draw(10, size, entropy=stream)).max(), 3000)
    assert len(set(words.tolist())) == 1, np.corrcoef(words, noise)


@pytest.mark.parametrize("sigma", [F(1, 10), F(1), F(63)], ids=str)
def test_a_single_small_gaussian_draw_takes_the_same_number_of_words_always(sigma):
    words, _ = words_and_noise(_gaussian(sigma).draw, 500)
    assert set(words.tolist()) == {3}


@pytest.mark.parametrize("sigma", [F(64), F(1000), F(2**52)], ids=str)
def test_the_words_of_a_large_gaussian_draw_do_not_depend_on_the_noise(sigma):
    """Rejections are independent of the result: the correlation over n draws is below 5/√n (chance 6e-7)."""
    n = 20_000
    words, noise = words_and_noise(_gaussian(sigma).draw, n)
    assert set(np.unique(words) % 3) == {0}
    again = words > 3
    assert 0.002 < again.mean() < 0.05
    assert abs(np.corrcoef(again, noise)[0, 1]) < 5 / np.sqrt(n)
    assert abs(np.corrcoef(words, noise)[0, 1]) < 5 / np.sqrt(n) * 2


@pytest.mark.parametrize("scale", [F(1), F(100), F(2**52)], ids=str)
def test_every_search_of_a_single_draw_has_the_same_depth(scale):
    """A list of 2^k − 1 thresholds is searched in k steps whatever is looked for."""
    tables = [table for _, table in _laplace(scale).digits] + [_gaussian(scale).blocks]
    for table in tables:
        assert len(table._list) + 1 == 1 << len(table._list).bit_length()


# --- NaN goes in and something comes out ---------------------------------------------------------------------

NOT_FINITE = [float("nan"), float("inf"), -float("inf"), np.float32("nan"), np.float64("inf"), "nan", "inf"]


@pytest.mark.parametrize("bad", NOT_FINITE, ids=stable)
def test_nan_and_infinity_are_refused_everywhere(bad):
    calls = [
        lambda: discrete_laplace(bad),
        lambda: geometric(bad, 3),
        lambda: discrete_gaussian(bad),
        lambda: planar_laplace(bad, 2),
        lambda: staircase(epsilon=bad, width=2, first=1),
        lambda: staircase(epsilon=1, width=bad, first=1),
        lambda: softmax([1, 2], bad),
        lambda: softmax([1, bad], 1),
        lambda: softmax(np.array([1, 2]), 1, multiplicity=[1, bad]),
        lambda: uniform_below(bad),
        lambda: discrete_laplace(1, bad),
    ]
    for call in calls:
        with pytest.raises(DiscreetError):
            call()


# --- overflow ------------------------------------------------------------------------------------------------


def test_the_largest_noise_does_not_wrap():
    """An overflow of 64 bits would turn huge noise around: OpenDP's b-ary tree claims 2, actual 4.3e9."""
    for draw in (discrete_laplace, discrete_gaussian):
        draws = draw(2**52, 100_000)
        assert 2**53 < np.abs(draws).max() < 2**58
    assert geometric(2**52, 100_000).min() >= 0
