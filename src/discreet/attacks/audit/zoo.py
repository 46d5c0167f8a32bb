"""Mechanisms that were believed private and are not: the audit must catch every one of them.

>>> from discreet.attacks.audit.zoo import BROKEN, named
>>> len(BROKEN), named("mean with a NaN in it").why
(24, "whether somebody's value is missing is revealed with certainty")
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.attacks.audit import Audit, Finding
from discreet.errors import InvalidParameter
from discreet.exact import Number, plain
from discreet.fields import Rational
from discreet.report import Bars, Chart, Grid

__all__ = ["BROKEN", "Broken", "audit_zoo", "bounds", "named", "table"]

Sampler = Callable[[Any, int, np.random.Generator], Any]
"""(data, n, generator) → n outputs. Simulation: nothing private is ever given to it."""


@dataclass(frozen=True, kw_only=True)
class Broken:
    """A broken mechanism: what was claimed, why it is wrong, and the neighbors x and x' that show it.

    >>> def truth(value, n, rng):
    ...     return np.full(n, value)
    >>> animal = Broken(name="truth", paper="nobody", why="it has no noise", x=0, neighbor=1, sampler=truth)
    >>> animal.audit(samples=1000).find().broken
    True
    """

    name: str
    paper: str
    why: str
    epsilon: Rational = Rational(above=0, default=1)
    delta: Rational = Rational(at_least=0, below=1, default=0)
    x: Any
    neighbor: Any
    sampler: Sampler
    samples: int = 40_000

    def audit(self, *, samples: int | None = None, confidence: Number = 0.999, seed: int = 0) -> Audit:
        """The audit that catches it."""
        return Audit(
            mechanism=self.sampler,
            x=self.x,
            neighbor=self.neighbor,
            claimed=(self.epsilon, self.delta),
            samples=self.samples if samples is None else samples,
            confidence=confidence,
            seed=seed,
            name=self.name,
        )


_ANIMALS: list[Broken] = []


def _broken(name: str, paper: str, why: str, **settings: Any) -> Callable[[Sampler], Broken]:
    """Make an animal of its sampler, and put it into the zoo."""

    def add(sampler: Sampler) -> Broken:
        _ANIMALS.append(Broken(name=name, paper=paper, why=why, sampler=sampler, **settings))
        return _ANIMALS[-1]

    return add


def laplace(scale: float, size: Any, rng: np.random.Generator, *, step: float = 1 / 64) -> NDArray[np.float64]:
    """Laplace noise on a grid, so that what is caught is the fault of the mechanism and not its floats.

    >>> noise = laplace(2.0, 4, np.random.default_rng(1))
    >>> bool((noise * 64 == np.rint(noise * 64)).all())
    True
    """
    stop = -np.expm1(-step / scale)
    return np.asarray((rng.geometric(stop, size) - rng.geometric(stop, size)) * step)


def gaussian(sigma: float, size: Any, rng: np.random.Generator, *, step: float = 1 / 64) -> NDArray[np.float64]:
    """Gaussian noise, rounded to a grid."""
    return np.asarray(np.rint(rng.normal(0.0, sigma / step, size)) * step)


# Noise that is not what it says: floats with holes, seeds used twice, rounding that depends on the data

_MIRONOV = "Mironov 2012, On significance of the least significant bits for differential privacy"
_GARFINKEL = "Garfinkel, Leclerc 2020, Randomness concerns when deploying differential privacy"


@_broken(
    "Laplace by inversion, in floats",
    _MIRONOV,
    "the sum of a float and a float's logarithm lies on a lattice that depends on the value it hides",
    x=0.0,
    neighbor=1.0,
)
def inverted_laplace(value: float, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """value − sign(u)·ln(1 − 2|u|) for a uniform u in (−½, ½)."""
    u = rng.random(n) - 0.5
    return np.asarray(value - np.sign(u) * np.log1p(-2 * np.minimum(np.abs(u), 0.5 - 2.0**-53)))


@_broken(
    "Laplace as a difference of logarithms",
    _MIRONOV,
    "two logarithms in floats leave holes, too, and the value decides where they are",
    x=0.0,
    neighbor=1.0,
)
def logarithmic_laplace(value: float, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """value + (ln u − ln u')."""
    return np.asarray(value + (np.log(1 - rng.random(n)) - np.log(1 - rng.random(n))))


@_broken(
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


@_broken(
    "Gaussian by Box and Muller, in floats",
    "Jin, McMurtry, Rubinstein, Ohrimenko 2022, Are we there yet? Timing and floating-point attacks on DP systems",
    "the lattice of the sum depends on the value, whatever the noise",
    delta="1e-5",
    x=0.0,
    neighbor=1.0,
)
def box_muller(value: float, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """value + σ·√(−2 ln u)·cos 2πu', σ by the classical formula."""
    sigma = np.sqrt(2 * np.log(1.25 / 1e-5))
    return np.asarray(value + sigma * np.sqrt(-2 * np.log(1 - rng.random(n))) * np.cos(2 * np.pi * rng.random(n)))


@_broken(
    "the same seed for every release",
    _GARFINKEL,
    "with a known or repeated seed the noise is a constant, which one published pair of values reveals",
    x=10,
    neighbor=11,
    samples=2000,
)
def seeded(value: int, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """The generator is made anew, from seed 42, for each release."""
    return np.full(n, value + laplace(1.0, 1, np.random.default_rng(42), step=1.0)[0])


@_broken(
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


@_broken(
    "one noise for all cells",
    "Dwork, McSherry, Nissim, Smith 2006, Calibrating noise to sensitivity (noise is independent in each coordinate)",
    "the noise is drawn once and added to every cell, so that differences of cells are exact",
    x=(5, 7, 7, 2),
    neighbor=(5, 7, 6, 2),
    samples=10_000,
)
def shared(counts: tuple[int, ...], n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """counts + z, with a single z."""
    return np.asarray(counts + laplace(1.0, (n, 1), rng))


@_broken(
    "small counts get more decimals",
    "Dwork, Roth 2014, Proposition 2.1 (post-processing may not look at the data again)",
    "how the answer is rounded is decided by the exact count, which the number of decimals then tells",
    x=9,
    neighbor=10,
    samples=10_000,
)
def rounded(count: int, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Whole numbers from ten on, one decimal below."""
    return np.asarray(np.round(count + laplace(1.0, n, rng), 0 if count >= 10 else 1))


@_broken(
    "gradients without clipping",
    "Abadi, Chu, Goodfellow, McMahan, Mironov, Talwar, Zhang 2016, Deep learning with differential privacy",
    "the noise is scaled to a norm of 1 that nobody enforces",
    delta="1e-5",
    x=((0.5, 0.0, 0.5), (9.0, -9.0, 9.0)),
    neighbor=((0.5, 0.0, 0.5),),
)
def unclipped(gradients: Any, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """The sum of per-example gradients plus Gaussian noise for clipped ones."""
    total = np.sum(gradients, axis=0)
    return np.asarray(total + gaussian(float(np.sqrt(2 * np.log(1.25 / 1e-5))), (n, len(total)), rng))


# Choices that tell too much. The variants of sparse vector are those that Lyu, Su, Li 2017 compare in their Figures 1
# and 2, with their counterexamples; threshold 0 and sensitivity 1.

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


@_broken(
    "sparse vector that tells the noisy answer",
    f"{_LYU}, Algorithm 3 (Roth 2011, lecture notes)",
    "the released answer is the one compared, so it bounds the noisy threshold, which was to stay hidden",
    x=(0, 0, 0, 0, 0),
    neighbor=(1, 1, 1, 1, 0),
    samples=300_000,
)
def numeric_sparse_vector(answers: Any, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """⊥ (as NaN) up to the first positive, whose noisy answer is released."""
    noisy, above = compared(answers, n, rng, threshold=2.0, query=2.0)
    return np.where(above & stopped(above, 1), noisy, np.nan)


@_broken(
    "sparse vector whose noise forgets the number of positives",
    f"{_LYU}, Algorithm 4 (Lee, Clifton 2014): private only for (1 + 6c)/4·ε",
    "each of c positives costs as much as the only one that the noise was scaled for",
    x=(0,) * 12,
    neighbor=(1,) * 6 + (-1,) * 6,
    samples=20_000,
)
def many_sparse_vector(answers: Any, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """ε/4 for the threshold, 3ε/4 for the answers, up to c = 6 positives; −1 where it has stopped."""
    _, above = compared(answers, n, rng, threshold=4.0, query=4 / 3)
    return np.where(stopped(above, 6), above, -1)


@_broken(
    "sparse vector without noise on the answers",
    f"{_LYU}, Algorithm 5 (Stoddard, Chen, Machanavajjhala 2014)",
    "with one noisy threshold and exact answers, the order of the answers is revealed",
    x=(0, 1),
    neighbor=(1, 0),
    samples=10_000,
)
def exact_sparse_vector(answers: Any, n: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """All answers, each compared exactly with a threshold of noise Lap(2/ε)."""
    return compared(answers, n, rng, threshold=2.0, query=0)[1]


@_broken(
    "sparse vector that never stops",
    f"{_LYU}, Algorithm 6 (Chen, Xiao, Zhang, Xu 2015)",
    "positives are unlimited, and every one of them costs",
    x=(0,) * 16,
    neighbor=(1,) * 8 + (-1,) * 8,
    samples=20_000,
)
def endless_sparse_vector(answers: Any, n: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Noise Lap(2/ε) on threshold and answers, no limit."""
    return compared(answers, n, rng, threshold=2.0, query=2.0)[1]


@_broken(
    "noisy max that tells the value",
    "Ding, Wang, Wang, Zhang, Kifer 2018, Detecting violations of differential privacy",
    "the proof of report noisy max is about the place of the maximum; its value moves with all counts at once",
    x=(1,) * 20,
    neighbor=(2,) * 20,
)
def maximum(counts: Any, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """The largest of counts + Lap(2/ε)."""
    return np.asarray((np.asarray(counts) + laplace(2.0, (n, len(counts)), rng)).max(axis=1))


@_broken(
    "noisy max with half the noise",
    "Dwork, Roth 2014, Claim 3.9 (scores that may move apart need noise of scale 2Δ/ε)",
    "a scale of Δ/ε suffices where all scores move the same way, and these do not",
    x=(0,) * 10,
    neighbor=(1,) + (-1,) * 9,
)
def halved_argmax(scores: Any, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """The place of the largest of scores + Lap(1/ε)."""
    return np.asarray(np.argmax(np.asarray(scores) + laplace(1.0, (n, len(scores)), rng), axis=1))


@_broken(
    "exponential mechanism without its two",
    "McSherry, Talwar 2007, Mechanism design via differential privacy, Theorem 6",
    "weights exp(ε·score/Δ) forget that the normalizing sum moves, too",
    x=(0,) * 10,
    neighbor=(1,) + (-1,) * 9,
)
def doubled_exponential(scores: Any, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """A choice with probability ∝ exp(ε·score), by the Gumbel trick."""
    return np.asarray(np.argmax(np.asarray(scores) + rng.gumbel(size=(n, len(scores))), axis=1))


# Sums, means and tables whose sensitivity is not what it was taken to be

_KOROLOVA = "Korolova, Kenthapadi, Mishra, Ntoulas 2009, Releasing search queries and clicks privately"
_DWORK = "Dwork, McSherry, Nissim, Smith 2006, Calibrating noise to sensitivity in private data analysis"


@_broken(
    "sum without clamping",
    _DWORK,
    "the noise is scaled to values in [0, 1] and nothing keeps them there",
    x=(0.5, 0.25, 30.0),
    neighbor=(0.5, 0.25),
    samples=10_000,
)
def unbounded_sum(values: Any, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Σ values + Lap(1/ε)."""
    return np.asarray(sum(values) + laplace(1.0, n, rng))


@_broken(
    "mean over the true count",
    "Dwork, Roth 2014, Theorem 3.16 (what is divided by is a release, too)",
    "the noisy sum is divided by the exact count, so that the width of the noise tells how many people there are",
    x=(0.0,),
    neighbor=(0.0, 0.0),
)
def divided_mean(values: Any, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """(Σ values + Lap(1/ε))/n, rounded to two decimals."""
    return np.asarray(np.round((sum(values) + laplace(1.0, n, rng, step=2.0**-20)) / len(values), 2))


@_broken(
    "eight answers for the price of one",
    "Dwork, McSherry, Nissim, Smith 2006; Dwork, Roth 2014, Theorem 3.16 (the ε of several answers add up)",
    "each answer is 1-DP by itself; together they are 8-DP, and 1 is claimed",
    x=(3,) * 8,
    neighbor=(4,) * 8,
)
def unsplit(counts: Any, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Eight counts about the same people, each with noise Lap(1/ε)."""
    return np.asarray(np.asarray(counts) + laplace(1.0, (n, len(counts)), rng))


@_broken(
    "histogram under the wrong neighbors",
    f"{_DWORK}: the sensitivity of a histogram where one row changes is 2",
    "a person who changes leaves one cell and enters another, and the noise is for one of them",
    x=(10, 10),
    neighbor=(11, 9),
)
def half_histogram(counts: Any, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Counts with noise Lap(1/ε), claimed under "change one"."""
    return np.asarray(np.asarray(counts) + laplace(1.0, (n, len(counts)), rng))


@_broken(
    "histogram of the cells that are there",
    _KOROLOVA,
    "noise is added to the cells found in the data, so that the list of cells tells who is in it",
    x={"flu": 40, "rabies": 1},
    neighbor={"flu": 40},
    samples=4000,
)
def present_cells(cells: dict[str, int], n: int, rng: np.random.Generator) -> list[dict[str, float]]:
    """Every key of the data with a noisy count."""
    noise = laplace(1.0, (n, len(cells)), rng, step=1.0)
    return [dict(zip(cells, (list(cells.values()) + row).tolist(), strict=True)) for row in noise]


@_broken(
    "threshold of keys too low",
    f"{_KOROLOVA}: the threshold must be about 1 + ln(1/2δ)/ε",
    "a key of one person passes a threshold of 3 with probability 0.07, where δ = 1e-6 was claimed",
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


@_broken(
    "sum in floats that round",
    "Casacuberta, Shoemate, Vadhan, Wagaman 2022, Widespread underestimation of sensitivity in DP libraries",
    "adding one row of size 1 changes how all the later additions are rounded, by more than 1 in all",
    x=(1.0, *_halves()),
    neighbor=_halves(),
)
def rounding_sum(values: Any, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Values in [0, 1], added one after the other in half precision, plus Lap(1/ε)."""
    total = float(np.add.accumulate(np.asarray(values, np.float16), dtype=np.float16)[-1])
    return np.asarray(np.rint(total) + laplace(1.0, n, rng, step=1.0))


@_broken(
    "mean with a NaN in it",
    "seen in several libraries: clamping keeps NaN, and NaN plus noise is NaN",
    "whether somebody's value is missing is revealed with certainty",
    x=(0.5, 0.25, float("nan")),
    neighbor=(0.5, 0.25, 0.5),
    samples=2000,
)
def mean_of_nan(values: Any, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """The mean of clamped values plus Lap(1/(3ε))."""
    return np.asarray(np.clip(values, 0, 1).mean() + laplace(1 / 3, n, rng))


BROKEN = tuple(_ANIMALS)
"""All of them."""


def named(name: str) -> Broken:
    """The one of this name.

    >>> named("sum without clamping").epsilon
    Fraction(1, 1)
    """
    for animal in BROKEN:
        if animal.name == name:
            return animal
    raise InvalidParameter("name", name, f"one of {', '.join(animal.name for animal in BROKEN)}")


def audit_zoo(
    *,
    confidence: Number = 0.999,
    seed: int = 0,
    animals: Sequence[Broken] = BROKEN,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[tuple[Broken, Finding], ...]:
    """Audit them all, one after the other; each bound by itself holds with this confidence.

    >>> [(animal, result)] = audit_zoo(animals=[named("the same seed for every release")])
    >>> result.broken
    True
    """
    result = []
    for place, animal in enumerate(animals):
        result.append((animal, animal.audit(confidence=confidence, seed=seed).find()))
        if progress is not None:
            progress(place + 1, len(animals))
    return tuple(result)


def table(findings: Sequence[tuple[Broken, Finding]]) -> Grid:
    """What was claimed and what was proven, one a line; the numbers are those of the chart `bounds`."""
    rows = []
    for place, (animal, finding) in enumerate(findings, 1):
        claimed = plain(animal.epsilon), plain(animal.delta)
        proof = round(finding.epsilon, 3), "broken" if finding.broken else "–", finding.event
        rows.append([place, animal.name, *claimed, *proof, animal.why])
    header = ["", "mechanism", "claimed ε", "δ", "ε is at least", "claim", "told by", "why"]
    return Grid(header, rows, "each bound holds with the stated confidence by itself")


def bounds(findings: Sequence[tuple[Broken, Finding]]) -> Chart:
    """Claimed and proven ε of all of them, by their number in `table`."""
    names = [str(place + 1) for place in range(len(findings))]
    claimed = Bars(names, [float(animal.epsilon) for animal, _ in findings], "claimed")
    proven = Bars(names, [finding.epsilon for _, finding in findings], "at least")
    return Chart("Broken mechanisms: claimed and proven", [claimed, proven], x="number in the table", y="ε")
