"""Choices that tell too much: variants of sparse vector and of noisy max that were published, and are wrong.

The variants of sparse vector are those that Lyu, Su, Li 2017 (Understanding the sparse vector technique for
differential privacy, VLDB) compare in their Figures 1 and 2, with their counterexamples; threshold 0 and sensitivity 1.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.attacks.zoo.entry import broken, laplace

_LYU = "Lyu, Su, Li 2017, Understanding the sparse vector technique for differential privacy"


def compared(
    answers: Any, n: int, rng: np.random.Generator, *, threshold: float, query: float
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Noisy answers, and whether each is at least the noisy threshold: scales of the noises given, 0 for none.

    >>> noisy, above = compared((-1, 1), 1, np.random.default_rng(0), threshold=0.01, query=0)
    >>> above.tolist()
    [[False, True]]
    """
    exact = np.asarray(answers, np.float64)
    noisy = exact + (laplace(query, (n, exact.size), rng) if query else np.zeros((n, exact.size)))
    return noisy, np.asarray(noisy >= laplace(threshold, (n, 1), rng))


def stopped(above: NDArray[np.bool_], positives: int) -> NDArray[np.bool_]:
    """Which answers are still given, where the mechanism stops after so many positives.

    >>> stopped(np.array([[False, True, True]]), 1).tolist()
    [[True, True, False]]
    """
    return np.asarray(np.cumsum(above, axis=1) - above < positives)


@broken(
    "sparse vector that tells the noisy answer",
    f"{_LYU}, Algorithm 3 (Roth 2011, lecture notes)",
    "the released answer is the one compared, so it bounds the noisy threshold, which was to stay hidden",
    epsilon=1,
    x=(0, 0, 0, 0, 0),
    neighbor=(1, 1, 1, 1, 0),
    samples=1_000_000,
)
def numeric_sparse_vector(answers: Any, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """⊥ (as NaN) up to the first positive, whose noisy answer is released."""
    noisy, above = compared(answers, n, rng, threshold=2.0, query=2.0)
    return np.where(above & stopped(above, 1), noisy, np.nan)


@broken(
    "sparse vector whose noise forgets the number of positives",
    f"{_LYU}, Algorithm 4 (Lee, Clifton 2014): private only for (1 + 6c)/4·ε",
    "each of c positives costs as much as the only one that the noise was scaled for",
    epsilon=1,
    x=(0,) * 12,
    neighbor=(1,) * 6 + (-1,) * 6,
    samples=100_000,
)
def many_sparse_vector(answers: Any, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """ε/4 for the threshold, 3ε/4 for the answers, up to c = 6 positives; −1 where it has stopped."""
    _, above = compared(answers, n, rng, threshold=4.0, query=4 / 3)
    return np.where(stopped(above, 6), above, -1)


@broken(
    "sparse vector without noise on the answers",
    f"{_LYU}, Algorithm 5 (Stoddard, Chen, Machanavajjhala 2014)",
    "with one noisy threshold and exact answers, the order of the answers is told",
    epsilon=1,
    x=(0, 1),
    neighbor=(1, 0),
    samples=10_000,
)
def exact_sparse_vector(answers: Any, n: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """All answers, each compared exactly with a threshold of noise Lap(2/ε)."""
    return compared(answers, n, rng, threshold=2.0, query=0)[1]


@broken(
    "sparse vector that never stops",
    f"{_LYU}, Algorithm 6 (Chen, Xiao, Zhang, Xu 2015)",
    "positives are unlimited, and every one of them costs",
    epsilon=1,
    x=(0,) * 16,
    neighbor=(1,) * 8 + (-1,) * 8,
    samples=100_000,
)
def endless_sparse_vector(answers: Any, n: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Noise Lap(2/ε) on threshold and answers, no limit."""
    return compared(answers, n, rng, threshold=2.0, query=2.0)[1]


@broken(
    "noisy max that tells the value",
    "Ding, Wang, Wang, Zhang, Kifer 2018, Detecting violations of differential privacy",
    "the proof of report noisy max is about the place of the maximum; its value moves with all counts at once",
    epsilon=1,
    x=(1,) * 20,
    neighbor=(2,) * 20,
    samples=100_000,
)
def maximum(counts: Any, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """The largest of counts + Lap(2/ε)."""
    return np.asarray((np.asarray(counts) + laplace(2.0, (n, len(counts)), rng)).max(axis=1))


@broken(
    "noisy max with half the noise",
    "Dwork, Roth 2014, Claim 3.9 (scores that may move apart need noise of scale 2Δ/ε)",
    "a scale of Δ/ε suffices where all scores move the same way, and these do not",
    epsilon=1,
    x=(0,) * 10,
    neighbor=(1,) + (-1,) * 9,
    samples=100_000,
)
def halved_argmax(scores: Any, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """The place of the largest of scores + Lap(1/ε)."""
    return np.asarray(np.argmax(np.asarray(scores) + laplace(1.0, (n, len(scores)), rng), axis=1))


@broken(
    "exponential mechanism without its two",
    "McSherry, Talwar 2007, Mechanism design via differential privacy, Theorem 6",
    "weights exp(ε·score/Δ) forget that the normalizing sum moves, too",
    epsilon=1,
    x=(0,) * 10,
    neighbor=(1,) + (-1,) * 9,
    samples=100_000,
)
def doubled_exponential(scores: Any, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """A choice with probability ∝ exp(ε·score), by the Gumbel trick."""
    return np.asarray(np.argmax(np.asarray(scores) + rng.gumbel(size=(n, len(scores))), axis=1))


ANIMALS = (
    numeric_sparse_vector,
    many_sparse_vector,
    exact_sparse_vector,
    endless_sparse_vector,
    maximum,
    halved_argmax,
    doubled_exponential,
)
