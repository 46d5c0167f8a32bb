"""Sums, means and tables whose sensitivity is not what it was taken to be."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.attacks.zoo.entry import broken, laplace

_KOROLOVA = "Korolova, Kenthapadi, Mishra, Ntoulas 2009, Releasing search queries and clicks privately"
_DWORK = "Dwork, McSherry, Nissim, Smith 2006, Calibrating noise to sensitivity in private data analysis"


@broken(
    "sum without clamping",
    _DWORK,
    "the noise is scaled to values in [0, 1] and nothing keeps them there",
    epsilon=1,
    x=(0.5, 0.25, 30.0),
    neighbor=(0.5, 0.25),
    samples=10_000,
)
def unbounded_sum(values: Any, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Σ values + Lap(1/ε)."""
    return np.asarray(sum(values) + laplace(1.0, n, rng))


@broken(
    "mean over the true count",
    "Dwork, Roth 2014, Theorem 3.16 (what is divided by is a release, too)",
    "the noisy sum is divided by the exact count, so that the width of the noise tells how many people there are",
    epsilon=1,
    x=(0.0,),
    neighbor=(0.0, 0.0),
    samples=40_000,
)
def divided_mean(values: Any, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """(Σ values + Lap(1/ε))/n, rounded to two decimals."""
    return np.asarray(np.round((sum(values) + laplace(1.0, n, rng, step=2.0**-20)) / len(values), 2))


@broken(
    "eight answers for the price of one",
    "Dwork, McSherry, Nissim, Smith 2006; Dwork, Roth 2014, Theorem 3.16 (the ε of several answers add up)",
    "each answer is 1-DP by itself; together they are 8-DP, and 1 is claimed",
    epsilon=1,
    x=(3,) * 8,
    neighbor=(4,) * 8,
    samples=40_000,
)
def unsplit(counts: Any, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Eight counts about the same people, each with noise Lap(1/ε)."""
    return np.asarray(np.asarray(counts) + laplace(1.0, (n, len(counts)), rng))


@broken(
    "histogram under the wrong neighbors",
    f"{_DWORK}: the sensitivity of a histogram where one row changes is 2",
    "a person who changes leaves one cell and enters another, and the noise is for one of them",
    epsilon=1,
    x=(10, 10),
    neighbor=(11, 9),
    samples=40_000,
)
def half_histogram(counts: Any, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Counts with noise Lap(1/ε), claimed under "change one"."""
    return np.asarray(np.asarray(counts) + laplace(1.0, (n, len(counts)), rng))


@broken(
    "histogram of the cells that are there",
    _KOROLOVA,
    "noise is added to the cells found in the data, so that the list of cells tells who is in it",
    epsilon=1,
    x={"flu": 40, "rabies": 1},
    neighbor={"flu": 40},
    samples=4000,
)
def present_cells(cells: dict[str, int], n: int, rng: np.random.Generator) -> list[dict[str, float]]:
    """Every key of the data with a noisy count."""
    noise = laplace(1.0, (n, len(cells)), rng, step=1.0)
    return [dict(zip(cells, (list(cells.values()) + row).tolist(), strict=True)) for row in noise]


@broken(
    "threshold of keys too low",
    f"{_KOROLOVA}: the threshold must be about 1 + ln(1/2δ)/ε",
    "a key of one person passes a threshold of 3 with probability 0.07, where δ = 1e-6 was claimed",
    epsilon=1,
    delta="1e-6",
    x={"flu": 40, "rabies": 1},
    neighbor={"flu": 40},
    samples=10_000,
)
def low_threshold(cells: dict[str, int], n: int, rng: np.random.Generator) -> list[dict[str, float]]:
    """The keys whose noisy count is at least 3."""
    return [{key: count for key, count in row.items() if count >= 3} for row in present_cells.sampler(cells, n, rng)]


def _halves() -> tuple[float, ...]:
    """Numbers that a sum of half-precision floats rounds up, each by as much again, if it starts from 1."""
    just_over = 1 + 2.0**-9
    return tuple(just_over * 2.0 ** (level - 11) for level in range(4) for _ in range(1024))


@broken(
    "sum in floats that round",
    "Casacuberta, Shoemate, Vadhan, Wagaman 2022, Widespread underestimation of sensitivity in DP libraries",
    "adding one row of size 1 changes how all the later additions are rounded, by more than 1 in all",
    epsilon=1,
    x=(1.0, *_halves()),
    neighbor=_halves(),
    samples=40_000,
)
def rounding_sum(values: Any, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Values in [0, 1], added one after the other in half precision, plus Lap(1/ε)."""
    total = float(np.add.accumulate(np.asarray(values, np.float16), dtype=np.float16)[-1])
    return np.asarray(np.rint(total) + laplace(1.0, n, rng, step=1.0))


@broken(
    "mean with a NaN in it",
    "seen in several libraries: clamping keeps NaN, and NaN plus noise is NaN",
    "whether somebody's value is missing is told with certainty",
    epsilon=1,
    x=(0.5, 0.25, float("nan")),
    neighbor=(0.5, 0.25, 0.5),
    samples=2000,
)
def mean_of_nan(values: Any, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """The mean of clamped values plus Lap(1/(3ε))."""
    return np.asarray(np.clip(values, 0, 1).mean() + laplace(1 / 3, n, rng))


ANIMALS = (
    unbounded_sum,
    divided_mean,
    unsplit,
    half_histogram,
    present_cells,
    low_threshold,
    rounding_sum,
    mean_of_nan,
)
