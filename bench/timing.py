"""Does the time of a draw tell how large the draw was? Correlation of time with |noise|, one draw at a time."""

import gc
import os
import time
from itertools import product
from typing import Any

from bench.harness import Bar, Comparison, Contestant, Timed

LAWS = ("Laplace", "Gaussian")
SCALES = ("1", "100", "1e6")
LIMIT = 0.05
TRIMMED = 0.02
"""The slowest share of draws is left out of Pearson's r: interrupts, not the sampler. Spearman's r keeps all."""


def comparison(*, quick: bool) -> Comparison:
    """Issue 2: |r| < 0.05. With 100,000 draws, chance alone gives |r| around 0.003."""
    draws = 2_000 if quick else 100_000
    known: tuple[tuple[str, Any, int, str], ...] = (
        ("discreet", discreet, draws, ""),
        ("OpenDP", opendp, draws // 4, "opendp"),
        ("diffprivlib", diffprivlib, draws // 4, "diffprivlib"),
        ("PyDP", pydp, draws, "python-dp"),
    )
    contestants = tuple(
        Contestant(_case(law, scale), who, prepare, {"law": law, "scale": scale, "n": n}, n, peer)
        for law, scale in product(LAWS, SCALES)
        for who, prepare, n, peer in known
        if (who, law, scale) != ("diffprivlib", "Gaussian", "1e6")  # its time grows with σ: a second a draw
    )
    bars = tuple(
        Bar(f"|{name}| < {LIMIT}", _case(law, scale), "discreet", measure=name, at_least=-LIMIT, at_most=LIMIT)
        for law, scale in product(LAWS, SCALES)
        for name in ("Pearson r", "Spearman r")
    )
    return Comparison("timing", "Time of a draw against its size", contestants, bars, rounds=3)


def _case(law: str, scale: str) -> str:
    return f"one {law} draw, scale {scale}"


# The contestants


def discreet(law: str, scale: str, n: int) -> Timed:
    from fractions import Fraction

    from discreet import noise

    draw, exact = (noise.discrete_laplace if law == "Laplace" else noise.discrete_gaussian), Fraction(scale)
    return _observed(lambda: draw(exact), n)


def opendp(law: str, scale: str, n: int) -> Timed:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.atom_domain(T="i64"), dp.absolute_distance(T="i64" if law == "Laplace" else float)
    release = (dp.m.make_laplace if law == "Laplace" else dp.m.make_gaussian)(*space, float(scale))
    return _observed(lambda: release(0), n)


def diffprivlib(law: str, scale: str, n: int) -> Timed:
    from diffprivlib import mechanisms

    mechanism: Any = mechanisms.Geometric(epsilon=1 / float(scale))
    if law == "Gaussian":
        mechanism = mechanisms.GaussianDiscrete(epsilon=1.0, delta=1e-6)
        mechanism._scale = float(scale)  # σ itself cannot be stated
    return _observed(lambda: mechanism.randomize(0), n)


def pydp(law: str, scale: str, n: int) -> Timed:
    from pydp.algorithms import numerical_mechanisms as pydp_mechanisms

    if law == "Laplace":
        mechanism = pydp_mechanisms.LaplaceMechanism(1 / float(scale), 1.0)
    else:
        mechanism = pydp_mechanisms.GaussianMechanism.create_from_standard_deviation(float(scale))
    return _observed(lambda: mechanism.add_noise(0), n)


# The observer


def _observed(draw: Any, n: int) -> Timed:
    """Time each of n draws, on one core and without the garbage collector; correlate afterwards."""
    _correlations([draw() for _ in range(200)], list(range(200)))  # warms both up
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    gc.disable()

    def timed() -> dict[str, float]:
        clock, spent, drawn = time.perf_counter_ns, [0] * n, [0] * n
        for i in range(n):
            before = clock()
            value = draw()
            spent[i] = clock() - before
            drawn[i] = abs(value)
        return _correlations(spent, drawn)

    return timed


def _correlations(spent: list[int], drawn: list[int]) -> dict[str, float]:
    import numpy

    times, sizes = numpy.asarray(spent, float), numpy.asarray(drawn, float)
    kept = times <= numpy.quantile(times, 1 - TRIMMED)
    pearson = numpy.corrcoef(times[kept], sizes[kept])[0, 1]
    spearman = numpy.corrcoef(_ranks(times), _ranks(sizes))[0, 1]
    return {"Pearson r": round(float(pearson), 4), "Spearman r": round(float(spearman), 4)}


def _ranks(values: Any) -> Any:
    """Average ranks, ties sharing theirs."""
    import numpy

    _, which, counts = numpy.unique(values, return_inverse=True, return_counts=True)
    return (numpy.cumsum(counts) - (counts - 1) / 2)[which]
