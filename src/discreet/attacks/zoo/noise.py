"""Noise that is not what it says: floats with holes, seeds used twice, rounding that depends on the data."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.attacks.zoo.entry import broken, gaussian, laplace

_MIRONOV = "Mironov 2012, On significance of the least significant bits for differential privacy"
_GARFINKEL = "Garfinkel, Leclerc 2020, Randomness concerns when deploying differential privacy"


@broken(
    "Laplace by inversion, in floats",
    _MIRONOV,
    "the sum of a float and a float's logarithm lies on a lattice that depends on the value it hides",
    epsilon=1,
    x=0.0,
    neighbor=1.0,
)
def inverted_laplace(value: float, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """value − sign(u)·ln(1 − 2|u|) for a uniform u in (−½, ½)."""
    u = rng.random(n) - 0.5
    return np.asarray(value - np.sign(u) * np.log1p(-2 * np.minimum(np.abs(u), 0.5 - 2.0**-53)))


@broken(
    "Laplace as a difference of logarithms",
    _MIRONOV,
    "two logarithms in floats leave holes, too, and the value decides where they are",
    epsilon=1,
    x=0.0,
    neighbor=1.0,
)
def logarithmic_laplace(value: float, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """value + (ln u − ln u')."""
    return np.asarray(value + (np.log(1 - rng.random(n)) - np.log(1 - rng.random(n))))


@broken(
    "Laplace of NumPy",
    _MIRONOV,
    "a library's own sampler has the same holes as the textbook's",
    epsilon="0.1",
    x=20.0,
    neighbor=21.0,
    samples=200_000,
)
def library_laplace(value: float, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """`Generator.laplace`, at a small ε and far from zero."""
    return np.asarray(value + rng.laplace(0.0, 10.0, n))


@broken(
    "Gaussian by Box and Muller, in floats",
    "Jin, McMurtry, Rubinstein, Ohrimenko 2022, Are we there yet? Timing and floating-point attacks on DP systems",
    "the lattice of the sum depends on the value, whatever the noise",
    epsilon=1,
    delta="1e-5",
    x=0.0,
    neighbor=1.0,
)
def box_muller(value: float, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """value + σ·√(−2 ln u)·cos 2πu', σ by the classical formula."""
    sigma = np.sqrt(2 * np.log(1.25 / 1e-5))
    return np.asarray(value + sigma * np.sqrt(-2 * np.log(1 - rng.random(n))) * np.cos(2 * np.pi * rng.random(n)))


@broken(
    "the same seed for every release",
    _GARFINKEL,
    "with a known or repeated seed the noise is a constant, which one published pair of values gives away",
    epsilon=1,
    x=10,
    neighbor=11,
    samples=2000,
)
def seeded(value: int, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """The generator is made anew, from seed 42, for each release."""
    return np.full(n, value + laplace(1.0, 1, np.random.default_rng(42), step=1.0)[0])


@broken(
    "parent and child of a fork",
    _GARFINKEL,
    "a forked process inherits the generator, so that two answers carry identical noise and their difference none",
    epsilon=2,
    x=(10, 4),
    neighbor=(10, 3),
    samples=10_000,
)
def forked(counts: tuple[int, int], n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Each process answers one count at ε = 1."""
    return np.asarray(counts + laplace(1.0, (n, 1), rng, step=1.0))


@broken(
    "one noise for all cells",
    "Dwork, McSherry, Nissim, Smith 2006, Calibrating noise to sensitivity (noise is independent in each coordinate)",
    "the noise is drawn once and added to every cell, so that differences of cells are exact",
    epsilon=1,
    x=(5, 7, 7, 2),
    neighbor=(5, 7, 6, 2),
    samples=10_000,
)
def shared(counts: tuple[int, ...], n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """counts + z, with a single z."""
    return np.asarray(counts + laplace(1.0, (n, 1), rng))


@broken(
    "small counts get more decimals",
    "Dwork, Roth 2014, Proposition 2.1 (post-processing may not look at the data again)",
    "how the answer is rounded is decided by the exact count, which the number of decimals then tells",
    epsilon=1,
    x=9,
    neighbor=10,
    samples=10_000,
)
def rounded(count: int, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Whole numbers from ten on, one decimal below."""
    return np.asarray(np.round(count + laplace(1.0, n, rng), 0 if count >= 10 else 1))


@broken(
    "gradients without clipping",
    "Abadi, Chu, Goodfellow, McMahan, Mironov, Talwar, Zhang 2016, Deep learning with differential privacy",
    "the noise is scaled to a norm of 1 that nobody enforces",
    epsilon=1,
    delta="1e-5",
    x=((0.5, 0.0, 0.5), (9.0, -9.0, 9.0)),
    neighbor=((0.5, 0.0, 0.5),),
)
def unclipped(gradients: Any, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """The sum of per-example gradients plus Gaussian noise for clipped ones."""
    total = np.sum(gradients, axis=0)
    return np.asarray(total + gaussian(float(np.sqrt(2 * np.log(1.25 / 1e-5))), (n, len(total)), rng))


ANIMALS = (
    inverted_laplace,
    logarithmic_laplace,
    library_laplace,
    box_muller,
    seeded,
    forked,
    shared,
    rounded,
    unclipped,
)
