"""How much work a draw takes does not tell what was drawn: words taken and functions called are counted, not time."""

import gc
import sys
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from tests.conftest import Counting, Scripted
from tests.statistical.power import Stream

from discreet.noise import DeterministicEntropy, bernoulli, discrete_gaussian, discrete_laplace, geometric
from discreet.noise.gaussian import _gaussian
from discreet.noise.geometric import _laplace
from discreet.noise.normal import _rounded
from discreet.noise.sampler import Table, ceiling

F = Fraction


class Counted(Stream):
    """A stream that is quick for single words, and counts them."""

    count = 0

    def words(self, count: int) -> np.ndarray:
        self.count += count
        return super().words(count)


def calls(work: Callable[[], object]) -> list[str]:
    """The functions called, of Python and of C."""
    called: list[str] = []

    def note(frame, event, argument):
        if event in ("call", "c_call"):
            called.append(argument.__name__ if event == "c_call" else frame.f_code.co_qualname)

    gc.disable()  # its callbacks would be noted too
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
        gc.enable()
    return called


@pytest.fixture
def searched(monkeypatch) -> list[int]:
    """How many words each search of a table was for."""
    sizes: list[int] = []
    search = Table.search

    def noted(self, words, entropy):
        sizes.append(words.size)
        return search(self, words, entropy)

    monkeypatch.setattr(Table, "search", noted)
    return sizes


WITHOUT_REJECTION = {
    "laplace, one digit": lambda size, entropy: discrete_laplace(3, size, entropy=entropy),
    "laplace, three digits": lambda size, entropy: discrete_laplace(10**6, size, entropy=entropy),
    "geometric": lambda size, entropy: geometric(50, size, entropy=entropy),
    "gaussian": lambda size, entropy: discrete_gaussian(20, size, entropy=entropy),
    "coins": lambda size, entropy: bernoulli("1/3", size, entropy=entropy),
    "rare coins": lambda size, entropy: bernoulli("1/1000000", size, entropy=entropy),
}


@pytest.mark.parametrize("draw", WITHOUT_REJECTION.values(), ids=WITHOUT_REJECTION.keys())
@pytest.mark.parametrize("size", [1, 17, 64, 1000])
def test_as_many_words_are_taken_whatever_is_drawn(draw, size, searched):
    """One more word was taken for each draw that the guide left open, and calls were made where there was any."""
    works = set()
    draw(size, DeterministicEntropy(0))  # tables are made
    for seed in range(60):
        stream = Counting(seed)
        searched.clear()
        found = calls(lambda stream=stream: draw(size, stream))
        works.add((stream.count, tuple(searched), tuple(found)))
    assert len(works) == 1


@pytest.mark.parametrize("size", [17, 64, 1000])
def test_a_tail_takes_as_much_work_as_the_center(size):
    """All draws in cells that the guide leaves open, or none: the same words and the same functions."""
    sampler = _laplace(F(3))
    ((_, table),) = sampler.digits
    room = ceiling(size, table.open_share)
    cells = {
        kind: int(np.flatnonzero(table.guide < 0 if kind == "open" else table.guide == 0)[-1])
        for kind in ("open", "sure")
    }
    few = min(room, 3)
    works = []
    for kind in ("open", "sure"):
        short = [cells[kind]] * few + [cells["sure"]] * (size - few)
        words = np.array(short + [0] * (-size % 4), np.uint16).view(np.uint64).tolist()
        stream, out = Scripted([*words, *[2**63] * room]), np.empty(size, np.int64)
        works.append(calls(lambda stream=stream, out=out: sampler.fill(stream, out)))
        assert stream.left == []
    assert works[0] == works[1]


@pytest.mark.parametrize("sigma", ["20", "1000", "100000"])
def test_a_rounded_gaussian_proposes_with_the_same_work_whatever_it_draws(sigma, searched):
    sampler, out = _rounded(F(sigma)), np.empty(500, np.int64)
    works = set()
    sampler._propose(DeterministicEntropy(0), out)
    for seed in range(60):
        stream = Counting(seed)
        searched.clear()
        found = calls(lambda stream=stream: sampler._propose(stream, out))
        if "below" not in found:  # once in a million proposals floats do not decide
            works.add((stream.count, tuple(searched), tuple(found)))
    assert len(works) == 1


@pytest.mark.parametrize("sampler", [_gaussian(F(1000)), _rounded(F(1000))], ids=["discrete", "rounded"])
def test_how_often_a_draw_starts_again_is_independent_of_what_it_returns(sampler):
    """Words taken by single draws, against their size: a rank correlation of 20,000 within 5.5 deviations of zero."""
    stream, pairs = Counted(), []
    for _ in range(20_000):
        before = stream.count
        k = sampler.draw(stream)
        pairs.append((stream.count - before, abs(k)))
    taken, size = np.array(pairs, float).T
    assert (taken > 3).any()  # some started again
    ranks = np.argsort(np.argsort(size))
    again = taken > 3
    gap = ranks[again].mean() - ranks.mean()
    assert abs(gap) < 5.5 * ranks.std() / np.sqrt(again.sum())


def test_a_ceiling_is_hardly_ever_reached():
    """Against the binomial tail itself, by its logarithm."""
    from scipy.stats import binom

    for count in (17, 64, 1000):
        for share in (0.001, 0.03, 0.3):
            most = ceiling(count, share)
            assert most == count or binom.logsf(most - 1, count, share) <= -45
    assert ceiling(10**6, 0.03) < 31_700  # and it costs little
