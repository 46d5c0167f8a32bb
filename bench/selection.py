"""Choosing one of 100,000 candidates, and naming those of 100,000 keys that may be named."""

from typing import Any

from bench.harness import Bar, Comparison, Contestant, Timed

CANDIDATES = 100_000
SCALE = 100
HIGHEST = {"flat": 1_000, "peaked": 100_000}
"""Scores are spread evenly below this: with a scale of 100, many candidates have a chance, or few."""

KEYS = "which of 100,000 keys may be named"


def comparison(*, quick: bool) -> Comparison:
    """Issue 2: faster than OpenDP."""
    repeats = 2 if quick else 20
    chosen = tuple(c for shape in HIGHEST for c in _contestants(shape, repeats=repeats))
    named = (
        Contestant(KEYS, "discreet", discreet_keys, {"repeats": repeats}, repeats, "", "optimal selection, exact"),
        Contestant(
            KEYS, "discreet, with counts", discreet_counts, {"repeats": repeats}, repeats, "", "threshold, exact"
        ),
        Contestant(KEYS, "PyDP", pydp_keys, {"repeats": 2}, 2, "python-dp", "optimal selection, one key at a time"),
    )
    return Comparison("selection", "Selection among 100,000", (*chosen, *named), tuple(_bars()))


def _contestants(shape: str, repeats: int) -> list[Contestant]:
    few = max(repeats // 10, 1)
    known: tuple[tuple[str, Any, int, str, str], ...] = (
        ("discreet", discreet, repeats, "", "exponential mechanism, exact"),
        ("OpenDP", opendp, repeats, "opendp", "noisy max, exact; scores as an array"),
        ("NumPy Gumbel (limit)", numpy_gumbel, repeats, "", "floats, not private"),
        ("diffprivlib exponential", diffprivlib_exponential, few, "diffprivlib", "floats"),
        ("diffprivlib permute-and-flip", diffprivlib_flip, few, "diffprivlib", "floats"),
    )
    return [
        Contestant(_case(shape), who, prepare, {"shape": shape, "repeats": n}, n, peer, remark)
        for who, prepare, n, peer, remark in known
    ]


def _bars() -> list[Bar]:
    bars = []
    for shape in HIGHEST:
        bars.append(Bar("less time than OpenDP", _case(shape), "discreet", "OpenDP", at_most=1))
        bars.append(Bar("under 6.7 ms", _case(shape), "discreet", at_most=6.7e-3))
    bars.append(Bar("less time than PyDP", KEYS, "discreet", "PyDP", at_most=1))
    return bars


def _case(shape: str) -> str:
    return f"one choice, {shape} scores"


# The contestants


def discreet(shape: str, repeats: int) -> Timed:
    from discreet import noise

    scores = _scores(shape)
    return _repeated(lambda: noise.softmax(scores, scale=SCALE), repeats)


def opendp(shape: str, repeats: int) -> Timed:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.linf_distance(T="i64")
    choose = dp.m.make_noisy_max(*space, dp.max_divergence(), scale=float(SCALE))
    scores = _scores(shape)
    return _repeated(lambda: choose(scores), repeats)


def numpy_gumbel(shape: str, repeats: int) -> Timed:
    import numpy

    scores = _scores(shape) / SCALE
    generator = numpy.random.default_rng()

    def choose() -> Any:
        return (scores + generator.gumbel(size=CANDIDATES)).argmax()

    return _repeated(choose, repeats)


def diffprivlib_exponential(shape: str, repeats: int) -> Timed:
    return _diffprivlib("Exponential", shape, repeats)


def diffprivlib_flip(shape: str, repeats: int) -> Timed:
    return _diffprivlib("PermuteAndFlip", shape, repeats)


def _diffprivlib(name: str, shape: str, repeats: int) -> Timed:
    from diffprivlib import mechanisms

    make, utility = getattr(mechanisms, name), _scores(shape).tolist()

    def choose() -> None:  # new scores need a new mechanism, so making it is part of the choice
        make(epsilon=1 / SCALE, sensitivity=1, utility=utility, monotonic=True).randomize()

    return _repeated(choose, repeats)


def discreet_keys(repeats: int) -> Timed:
    from discreet.mechanisms import OptimalSelection

    counts, mechanism = _counts(), OptimalSelection(epsilon=1, delta="1e-6", keys=1)
    return _repeated(lambda: mechanism.release(counts), repeats)


def discreet_counts(repeats: int) -> Timed:
    from discreet.mechanisms import LaplaceThreshold

    counts, mechanism = _counts(), LaplaceThreshold(epsilon=1, delta="1e-6", keys=1)
    return _repeated(lambda: mechanism.release(counts), repeats)


def pydp_keys(repeats: int) -> Timed:
    from pydp.algorithms.partition_selection import create_partition_strategy

    strategy = create_partition_strategy("truncated_geometric", 1.0, 1e-6, 1)
    counts = _counts().tolist()
    return _repeated(lambda: [strategy.should_keep(count) for count in counts], repeats)


def _counts() -> Any:
    import numpy

    return numpy.arange(CANDIDATES) * 7919 % 40


def _scores(shape: str) -> Any:
    import numpy

    return (numpy.arange(CANDIDATES) * 7919 % CANDIDATES) * HIGHEST[shape] // CANDIDATES


def _repeated(choose: Any, repeats: int) -> Timed:
    choose()

    def timed() -> None:
        for _ in range(repeats):
            choose()

    return timed
