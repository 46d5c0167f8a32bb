"""Exact noise: many draws, one draw, a new scale, memory; against OpenDP (exact) and NumPy (the limit)."""

import time
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

from bench.harness import Bar, Comparison, Contestant, Timed

LAWS = ("Laplace", "Gaussian")
SCALES = ("1", "100", "1e6")
NEW_SCALES = ("1", "3.7", "100", "12345.678", "1e6", "1e12")
SIZES = (None, 1000)
TIMES_OPENDP = {"Laplace": 80, "Gaussian": 60}


def comparison(*, quick: bool) -> Comparison:
    """How quickly noise is drawn, beside peers and limits."""
    contestants = (*_many(0.02 if quick else 1), *_one(500 if quick else 20_000), *_set_up(), *_memory())
    return Comparison("noise", "Exact noise", contestants, tuple(_bars()))


def _many(share: float) -> list[Contestant]:
    """A share of a million draws; slow peers get a tenth of that, and their time × 10."""
    tenth = "a tenth of the draws, time × 10"
    known: tuple[tuple[str, Any, float, str, str], ...] = (
        ("discreet", discreet_many, share, "", "exact"),
        ("OpenDP", opendp_many, share / 10, "opendp", f"exact; {tenth}"),
        ("NumPy (limit)", numpy_many, share, "", "floats, not private"),
        ("randomgen AES", randomgen_many, share, "randomgen", "floats, not private"),
        ("diffprivlib", diffprivlib_many, share / 10, "diffprivlib", f"not exact; {tenth}"),
        ("PyDP", pydp_many, share / 10, "python-dp", f"floats on a grid; {tenth}"),
    )
    return [
        Contestant(_many_case(law, scale), who, prepare, _arguments(law, scale, part), part, peer, remark)
        for law, scale in product(LAWS, SCALES)
        for who, prepare, part, peer, remark in (known if scale == "1" else known[:3])
    ]


def _one(draws: int) -> list[Contestant]:
    return [
        Contestant(_one_case(law, scale), who, prepare, {"law": law, "scale": scale, "n": n}, n, peer)
        for law, scale in product(LAWS, SCALES)
        for who, prepare, n, peer in (
            ("discreet", discreet_one, draws, ""),
            ("discreet, scale as text", discreet_one_of_text, draws, ""),
            ("OpenDP", opendp_one, draws // 10, "opendp"),
        )
    ]


def _set_up() -> list[Contestant]:
    remark = "scales " + ", ".join(NEW_SCALES)
    return [
        Contestant(_set_up_case(law, size), "discreet", discreet_set_up, {"law": law, "size": size}, remark=remark)
        for law, size in product(LAWS, SIZES)
    ]


def _memory() -> list[Contestant]:
    return [
        Contestant(_memory_case(law), "discreet", discreet_many, _arguments(law, "100", 10), remark="output 80 MB")
        for law in LAWS
    ]


def _arguments(law: str, scale: str, millions: float) -> dict[str, object]:
    return {"law": law, "scale": scale, "n": round(millions * 1_000_000)}


def _many_case(law: str, scale: str) -> str:
    return f"a million {law} draws, scale {scale}"


def _one_case(law: str, scale: str) -> str:
    return f"one {law} draw, scale {scale}"


def _set_up_case(law: str, size: int | None) -> str:
    return f"new {law} scale, first {'draw' if size is None else f'{size:,} draws'}"


def _memory_case(law: str) -> str:
    return f"memory of ten million {law} draws"


def _bars() -> list[Bar]:
    """The bars that draws are held to."""
    bars = []
    for law, scale in product(LAWS, SCALES):
        case, least = _many_case(law, scale), TIMES_OPENDP[law]
        bars.append(Bar(f"OpenDP takes at least {least} × our time", case, "OpenDP", "discreet", at_least=least))
    for scale in SCALES:
        case = _many_case("Laplace", scale)
        bars.append(Bar("at most 5 × NumPy's time", case, "discreet", "NumPy (limit)", at_most=5))
    for law, scale in product(LAWS, SCALES):
        bars += [
            Bar(f"{who}: under 20 µs", _one_case(law, scale), who, at_most=20e-6)
            for who in ("discreet", "discreet, scale as text")
        ]
    for law, size in product(LAWS, SIZES):
        case = _set_up_case(law, size)
        bars.append(Bar("slowest under 20 ms", case, "discreet", measure="slowest ms", at_most=20))
    for law in LAWS:
        promise = "memory grows by at most 3 × the output, 240 MB"
        bars.append(Bar(promise, _memory_case(law), "discreet", measure="grew_mb", at_most=240))
    return bars


# The contestants


def discreet_many(law: str, scale: str, n: int) -> Timed:
    draw = _ours(law)
    draw(scale, 1000)
    return lambda: draw(scale, n)


def discreet_one(law: str, scale: str, n: int) -> Timed:
    draw, exact = _ours(law), Fraction(scale)  # what a mechanism holds
    return _each(lambda _: draw(exact), n)


def discreet_one_of_text(law: str, scale: str, n: int) -> Timed:
    draw = _ours(law)
    return _each(lambda _: draw(scale), n)


def discreet_set_up(law: str, size: int | None) -> Timed:
    draw = _ours(law)
    draw("2.5", size)  # imports and the stream are not part of a scale's set-up

    def timed() -> dict[str, float]:
        clock = [time.process_time()]
        for scale in NEW_SCALES:
            draw(scale, size)
            clock.append(time.process_time())
        return {"slowest ms": 1e3 * max(after - before for before, after in pairwise(clock))}

    return timed


def numpy_many(law: str, scale: str, n: int) -> Timed:
    import numpy

    return _generator_many(numpy.random.default_rng(), law, scale, n)


def randomgen_many(law: str, scale: str, n: int) -> Timed:
    import numpy
    import randomgen

    return _generator_many(numpy.random.Generator(randomgen.AESCounter()), law, scale, n)


def _generator_many(generator: Any, law: str, scale: str, n: int) -> Timed:
    draw = generator.laplace if law == "Laplace" else generator.normal
    draw(0.0, float(scale), 1000)
    return lambda: draw(0.0, float(scale), n)


def opendp_many(law: str, scale: str, n: int) -> Timed:
    import numpy
    import opendp.prelude as dp

    metric = dp.l1_distance(T="i64") if law == "Laplace" else dp.l2_distance(T=float)
    release = _opendp(dp, law, dp.vector_domain(dp.atom_domain(T="i64")), metric, scale)
    zeros = numpy.zeros(n, numpy.int64)  # an array is what OpenDP reads fastest
    release(zeros[:10])
    return lambda: release(zeros)


def opendp_one(law: str, scale: str, n: int) -> Timed:
    import opendp.prelude as dp

    metric = dp.absolute_distance(T="i64" if law == "Laplace" else float)
    return _each(_opendp(dp, law, dp.atom_domain(T="i64"), metric, scale), n)


def diffprivlib_many(law: str, scale: str, n: int) -> Timed:
    from diffprivlib import mechanisms

    mechanism: Any
    if law == "Laplace":
        mechanism = mechanisms.Geometric(epsilon=1 / float(scale))
    else:
        mechanism = mechanisms.GaussianDiscrete(epsilon=1.0, delta=1e-6)
        mechanism._scale = float(scale)  # σ itself cannot be stated
    return _each(mechanism.randomize, n)


def pydp_many(law: str, scale: str, n: int) -> Timed:
    from pydp.algorithms import numerical_mechanisms

    if law == "Laplace":
        return _each(numerical_mechanisms.LaplaceMechanism(1 / float(scale), 1.0).add_noise, n)
    return _each(numerical_mechanisms.GaussianMechanism.create_from_standard_deviation(float(scale)).add_noise, n)


def _each(release: Any, n: int) -> Timed:
    release(0)
    return lambda: [release(0) for _ in range(n)]


def _opendp(dp: Any, law: str, domain: Any, metric: Any, scale: str) -> Any:
    dp.enable_features("contrib")
    make = dp.m.make_laplace if law == "Laplace" else dp.m.make_gaussian
    return make(domain, metric, float(scale))


def _ours(law: str) -> Any:
    from discreet import noise

    return noise.discrete_laplace if law == "Laplace" else noise.discrete_gaussian
