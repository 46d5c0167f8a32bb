"""One test of distributions whose false-alarm rate *and* power are proven, not estimated.

The test accepts if the empirical distribution function stays within BAND of the stated one everywhere. By the
Dvoretzky–Kiefer–Wolfowitz inequality with Massart's constant (1990), which holds for discrete distributions too,
P(sup |Fₙ − F| > b) ≤ 2·exp(−2nb²). With b = band(n) that is ALPHA:

- the truth is refused with probability at most ALPHA;
- a distribution whose F differs from the stated one by more than 2b somewhere is accepted at most as often.

`separated` checks the second condition for the wrong distribution before it is used, so that a test that could not
reject fails by itself.
"""

from collections.abc import Callable
from math import log, sqrt

import numpy as np
from numpy.typing import NDArray

from discreet.noise import DeterministicEntropy
from discreet.noise.entropy import SYSTEM

ALPHA = 1e-6
MANY, FEW = 60_000, 15_000
WRONG = 1.3
"""A scale that is wrong by this factor, up or down, must be rejected."""

Cdf = Callable[[NDArray[np.float64]], NDArray[np.float64]]


class Stream:
    """A deterministic stream of a fresh seed, named in failures, which it repeats; quick for single words."""

    def __init__(self) -> None:
        self._seed = int(SYSTEM.words(1)[0])
        self._stream = DeterministicEntropy(self._seed)
        self._unread = np.empty(0, np.uint64)

    def words(self, count: int) -> NDArray[np.uint64]:
        if count > len(self._unread):
            self._unread = self._stream.words(max(count, 1 << 15))
        taken, self._unread = self._unread[:count], self._unread[count:]
        return taken

    def __repr__(self) -> str:
        return f"seed {self._seed}"


def band(n: int) -> float:
    return sqrt(log(2 / ALPHA) / (2 * n))


def distance(draws: NDArray[np.int64], cdf: Cdf) -> float:
    """sup over the integers of |Fₙ − F|: attained at a value drawn or just before one."""
    values, counts = np.unique(draws, return_counts=True)
    after = np.cumsum(counts) / draws.size
    points = values.astype(np.float64)
    return float(max(np.abs(after - cdf(points)).max(), np.abs(after - counts / draws.size - cdf(points - 1)).max()))


def separated(one: Cdf, other: Cdf, points: NDArray[np.int64], n: int) -> bool:
    x = points.astype(np.float64)
    return bool(np.abs(one(x) - other(x)).max() > 2 * band(n))


def assert_follows(draws: NDArray[np.int64], cdf: Cdf, what: str, stream: object = "") -> None:
    observed, allowed = distance(draws, cdf), band(draws.size)
    assert observed <= allowed, (
        f"{what}: n = {draws.size}, distance observed {observed:.5f}, expected ≤ {allowed:.5f}; {stream!r}"
    )


def assert_rejected(draws: NDArray[np.int64], truth: Cdf, wrong: Cdf, what: str, stream: object = "") -> None:
    values = np.unique(draws)
    assert separated(truth, wrong, values, draws.size), f"{what}: n = {draws.size} is too few to tell these apart"
    observed, allowed = distance(draws, wrong), band(draws.size)
    assert observed > allowed, (
        f"{what}: n = {draws.size}, distance observed {observed:.5f}, expected > {allowed:.5f}; {stream!r}"
    )


def assert_frequency(hits: NDArray[np.bool_], p: float, what: str, stream: object = "", *, tests: int = 1) -> None:
    """Hoeffding: P(|mean − p| > b) ≤ 2·exp(−2nb²); `tests` shares ALPHA among several of them."""
    allowed = sqrt(log(2 * tests / ALPHA) / (2 * hits.size))
    observed = float(hits.mean())
    assert abs(observed - p) <= allowed, (
        f"{what}: n = {hits.size}, observed {observed:.5f}, expected {p:.5f} ± {allowed:.5f}; {stream!r}"
    )


def assert_independent(
    x: NDArray[np.int64], y: NDArray[np.int64], cuts: NDArray[np.float64], cdf: Cdf, what: str, stream: object = ""
) -> None:
    """Pairs (xᵢ, yᵢ), independent across i: each of the cells that `cuts` make has the product of the probabilities."""
    ends = np.concatenate([[0.0], cdf(cuts), [1.0]])
    p = np.diff(ends)
    rows, columns = np.searchsorted(cuts, x, side="left"), np.searchsorted(cuts, y, side="left")
    for i, pi in enumerate(p):
        for j, pj in enumerate(p):
            assert_frequency((rows == i) & (columns == j), pi * pj, f"{what}, cell {i}, {j}", stream, tests=len(p) ** 2)
