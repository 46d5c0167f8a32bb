"""The Iterative Bayesian Update on grids: to the likelihood of 500 plain iterations, and what a large grid costs."""

from typing import Any

from bench.harness import Bar, Comparison, Contestant, Timed

PLAIN = 500
PEOPLE = 10_000
LARGE_MAPS = 40
"""Maps that reach the likelihood of 500 plain iterations, rounded up: a large grid is timed for a few of them."""

GRID = "to the likelihood of 500 plain iterations"
LARGE = "40 maps on a large grid"
FLAT = "k-RR, 10,000 values, 500 plain iterations"


def comparison(*, quick: bool) -> Comparison:
    """Issue 4: 100×100 cells in under 3 s without the matrix; 1000×1000 in minutes within 2 GB."""
    side, large = (20, 60) if quick else (100, 1000)
    case, most, few = f"{GRID}, {side}×{side} cells", f"{LARGE}, {large}×{large} cells", 2 if quick else 10
    known: tuple[Contestant, ...] = (
        Contestant(case, "discreet", fast, {"side": side, "memory": 2}, 1, "", "FFT, search in three dimensions"),
        Contestant(case, "discreet, line search", fast, {"side": side, "memory": 0}, 1, "", "FFT, close to plain"),
        Contestant(case, "discreet, plain", plain, {"side": side}, 1, "", "FFT, 500 iterations"),
        Contestant(
            case, "dense (limit)", dense, {"side": side, "few": few}, few / PLAIN, "", f"{few} of 500 iterations timed"
        ),
        Contestant(most, "discreet", big, {"side": large, "few": 2}, 3.5 / LARGE_MAPS, "", "3.5 maps timed"),
        Contestant(FLAT, "discreet", flat, {"size": 100 if quick else 10_000}, 1, "", "closed form"),
    )
    bars = (
        Bar("100×100 cells in under 3 s", case, "discreet", at_most=3),
        Bar("at most 37 maps", case, "discreet", measure="maps", at_most=37),
        Bar("without the 800 MB matrix", case, "discreet", measure="peak_mb", at_most=400),
        Bar("less time than dense", case, "discreet", "dense (limit)", at_most=0.1),
        Bar("1000×1000 cells in minutes", most, "discreet", at_most=600),
        Bar("1000×1000 cells within 2 GB", most, "discreet", measure="peak_mb", at_most=2000),
    )
    return Comparison("ibu", "Iterative Bayesian Update", known, bars, rounds=3)


# The contestants


def fast(side: int, memory: int) -> Timed:
    """As many accelerated iterations as reach the likelihood of 500 plain ones, found out beforehand."""
    from discreet.local.estimation.ibu import ibu

    model, counts = _grid(side)
    target = ibu(model, counts, iterations=PLAIN, stop=None, accelerate=False).likelihoods[-1]
    trial = ibu(model, counts, iterations=200, stop=None, memory=memory).likelihoods
    enough = int((trial < target).sum())

    def timed() -> dict[str, float]:
        result = ibu(model, counts, iterations=enough, stop=None, memory=memory)
        return {"maps": result.evaluations, "above plain": float(result.likelihoods[-1] - target)}

    return timed


def plain(side: int) -> Timed:
    from discreet.local.estimation.ibu import ibu

    model, counts = _grid(side)
    return lambda: {"maps": ibu(model, counts, iterations=PLAIN, stop=None, accelerate=False).evaluations}


def dense(side: int, few: int) -> Timed:
    """The textbook way, in NumPy: the whole matrix."""
    import numpy

    from discreet.local.estimation.linear_maps import dense as matrix_of

    model, counts = _grid(side)
    matrix = numpy.empty((model.size, model.outputs))
    for start in range(0, model.size, 100):
        rows = numpy.zeros((min(100, model.size - start), model.size))
        rows[numpy.arange(len(rows)), start + numpy.arange(len(rows))] = 1
        matrix[start : start + 100] = model.forward(rows)
    assert model.size > 400 or numpy.allclose(matrix, matrix_of(model))  # noqa: S101
    shares, seen = numpy.full(model.size, 1 / model.size), counts / counts.sum()

    def timed() -> dict[str, float]:
        p = shares
        for _ in range(few):
            p = p * (matrix @ (seen / (p @ matrix)))
        return {"maps": float(PLAIN)}

    return timed


def big(side: int, few: int) -> Timed:
    """A few accelerated iterations, 1.5 maps each and half a map to begin with."""
    from discreet.local.estimation.ibu import ibu

    model, counts = _grid(side, people=100 * PEOPLE)

    def timed() -> dict[str, float]:
        result = ibu(model, counts, iterations=few, stop=None)
        return {"maps": result.evaluations}

    return timed


def flat(size: int) -> Timed:
    import numpy

    from discreet.local.estimation.ibu import ibu
    from discreet.local.estimation.linear_maps import KRRModel
    from discreet.mechanisms import KRR

    response = KRR(epsilon=4, size=size)
    model = KRRModel(truth=response.truth, other=response.other, size=size)
    counts = numpy.arange(size) * 7919 % 97 + 1
    return lambda: {"maps": ibu(model, counts, iterations=PLAIN, stop=None, accelerate=False).evaluations}


def _grid(side: int, people: int = PEOPLE) -> Any:
    """Towns on a square, planar Laplace noise of scale side/7 cells, clamped at the border; and the reports."""
    import numpy

    from discreet.local.estimation.linear_maps import ConvolutionModel

    rng = numpy.random.default_rng(1)
    scale, reach = side / 7, side * 3
    steps = numpy.arange(-reach, reach + 1)
    kernel = numpy.exp(-numpy.hypot(steps[:, None], steps) / scale)
    kernel /= kernel.sum()
    model = ConvolutionModel(kernel, shape=(side, side), border="clamp")
    i, j = numpy.indices((side, side)) / side
    towns = rng.random((8, 4)) * 0.6 + 0.02
    land: Any = sum(w * numpy.exp(-((i - a) ** 2 + (j - b) ** 2) / 2 / (s / 4) ** 2) for a, b, s, w in towns)
    chance = numpy.maximum(model.forward((land / land.sum()).ravel()), 0)
    return model, rng.multinomial(people, chance / chance.sum())
