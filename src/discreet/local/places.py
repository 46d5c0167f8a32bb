"""Reports of places: planar noise on the cells of an area, and the d-private mechanism of any finite metric.

>>> from discreet.local.areas import Area
>>> from discreet.local.places import PlanarReport
>>> city = Area.plane(width=3, height=3, cell="0.1")
>>> report = PlanarReport(city, epsilon="ln 2 at 1 km")
>>> 0 <= int(report.randomise([465])[0]) < report.outputs
True
"""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import Number, integer, log_down, rational, sqrt_bounds
from discreet.local.areas import Area, Floats, Integers
from discreet.local.models import ConvolutionModel, Model
from discreet.local.oracle import read_codes, read_values, well_formed
from discreet.mechanisms import PlanarLaplace
from discreet.mechanisms.additive import laplace_tail
from discreet.mechanisms.channel import Channel
from discreet.mechanisms.graph import Metric, distances
from discreet.mechanisms.grid import add
from discreet.mechanisms.mechanism import countable, doubt, drawable
from discreet.mechanisms.stochastic import Label, read_labels
from discreet.noise import Entropy, discrete_laplace, softmax, uniform_below
from discreet.noise.categorical import exponents
from discreet.privacy.loss import Loss, PerDistance

Noise = Literal["laplace", "geometric"]
Outside = Literal["keep", "clamp", "remap"]

_WORDS = re.compile(r"\s*(ln\s*)?([\d./eE+-]+)\s+(?:at|within|per)\s+(?:([\d./eE+-]+)\s*)?(km|m)\s*")
_METRES = {"km": 1000, "m": 1}
_NATS = 45  # what lies beyond e^−45 of the largest term changes no float
_MOST_TERMS = 200_000_000
_MOST_PLACES = 256


def per_km(words: Number) -> Fraction:
    """ε for each km, from a number or from words: "ln 2 at 1 km", "0.7 per km", "ln 4 within 200 m".

    Logarithms are rounded down, so that no more than what was said is spent.

    >>> float(per_km("ln 2 at 1 km")), per_km("1/2 within 250 m")
    (0.6931471805599453, Fraction(2, 1))
    """
    found = _WORDS.fullmatch(words) if isinstance(words, str) else None
    if found is None:
        if isinstance(words, str) and re.search("[a-df-zA-DF-Z]", words):
            raise InvalidParameter("epsilon", words, "a number, or words such as 'ln 2 at 1 km'")
        return rational(words, "epsilon", above=0)
    logarithm, amount, distance, unit = found.groups()
    exact = rational(amount, "epsilon", above=1 if logarithm else 0)
    reach = rational(distance or 1, "distance", above=0) * _METRES[unit] / 1000
    return (log_down(exact) if logarithm else exact) / reach


@dataclass(frozen=True, slots=True, init=False)
class PlanarReport:
    """A person's cell of an area, moved by planar noise: geo-indistinguishability (Andrés et al. 2013) on a grid.

    `noise` is "laplace", P(displacement) ∝ exp(−ε·‖·‖₂) through `mechanisms.PlanarLaplace`, or "geometric", discrete
    Laplace noise of rate ε/√2 on each axis (a little wider, but its coordinates are independent). A report is a cell of
    the area with `margin` cells on each side, numbered row by row from the south-west; what falls beyond is

    - "keep": told as such, by one last code. The default margin is the radius of 99 % of the noise, at most the
      longer side of the area;
    - "clamp": moved to the nearest cell of the area (no margin);
    - "remap": replaced by a uniformly drawn cell of the area (no margin).

    Guarantee: P(report|x) ≤ e^(ε·(d + slack))·P(report|x') for places x, x' at d km, slack a cell's diagonal.
    Proof. Between the centres of cells the noise, on an infinite grid, has one normalising constant, and
    ‖z − x'‖ − ‖z − x‖ ≤ ‖x − x'‖; for "geometric" in the norm ‖·‖₁ ≤ √2·‖·‖₂ at rate ε/√2, rounded down. What happens
    outside the area looks at the noisy point alone (and own coins), so it is post-processing. A place is at most half a
    diagonal from the centre of its cell, and distances on the map do not exceed those on the ground (see `areas`).

    >>> PlanarReport(Area.plane(width=1, height=1, cell="0.5"), epsilon="0.7", outside="clamp").outputs
    4
    """

    area: Area
    epsilon: Fraction
    noise: Noise
    outside: Outside
    margin: int

    def __init__(
        self,
        area: Area,
        *,
        epsilon: Number,
        noise: Noise = "laplace",
        outside: Outside = "keep",
        margin: int | None = None,
    ) -> None:
        if not isinstance(area, Area):
            raise InvalidParameter("area", area, "an Area")
        if noise not in ("laplace", "geometric"):
            raise InvalidParameter("noise", noise, "'laplace' or 'geometric'")
        if outside not in ("keep", "clamp", "remap"):
            raise InvalidParameter("outside", outside, "'keep', 'clamp' or 'remap'")
        if margin is not None and outside != "keep":
            raise InvalidParameter("margin", margin, "nothing", f"outside={outside!r} keeps no cells beyond the area")
        for name, value in (("area", area), ("epsilon", per_km(epsilon)), ("noise", noise), ("outside", outside)):
            object.__setattr__(self, name, value)
        drawable(1024 * self.scale, epsilon=self.epsilon, cell=area.cell)
        object.__setattr__(self, "margin", self._read_margin(margin))

    def _read_margin(self, margin: int | None) -> int:
        if self.outside != "keep":
            return 0
        if margin is not None:
            return integer(margin, "margin", at_least=0, at_most=10_000)
        return min(math.ceil(self.interval("0.99") / float(self.area.cell)), max(self.area.shape), 10_000)

    @property
    def loss(self) -> Loss:
        """ε for each km, a cell's diagonal included; `.within(radius)` turns it into ε-DP."""
        return PerDistance(self.epsilon, "km", self.area.slack)

    @property
    def scale(self) -> Fraction:
        """The scale of the noise, in cells: 1/ε, or √2/ε on each axis."""
        rate = self.epsilon * self.area.cell
        if self.noise == "geometric":
            rate *= Fraction(sqrt_bounds(Fraction(1, 2), 64)[0], 1 << 64)
        return 1 / rate

    @property
    def size(self) -> int:
        """How many cells a person can be in."""
        return self.area.size

    @property
    def window(self) -> tuple[int, int]:
        """Rows and columns of the grid of reports."""
        return self.area.rows + 2 * self.margin, self.area.columns + 2 * self.margin

    @property
    def outputs(self) -> int:
        """How many different reports there are."""
        return math.prod(self.window) + (self.outside == "keep")

    def interval(self, confidence: Number) -> float:
        """A radius in km that holds the noise with at least this probability, the place within its cell included."""
        tail, cell = doubt(confidence), float(self.area.cell)
        if self.noise == "laplace":
            return self._mechanism().interval(confidence) * cell
        return (laplace_tail(self.scale, tail / 4) + 0.5) * math.sqrt(2) * cell

    # On the device

    def randomise(self, values: ArrayLike, *, entropy: Entropy | None = None) -> Integers:
        """One report for each cell."""
        cells = read_values(values, self.size)
        steps = np.stack(np.divmod(cells, self.area.columns), axis=-1)
        if self.noise == "laplace":
            limit = 2.0**60
            moved = np.clip(self._mechanism().release(steps, entropy=entropy), -limit, limit).astype(np.int64)
        else:
            moved = add(steps, np.asarray(discrete_laplace(self.scale, steps.shape, entropy=entropy)))
        return self._coded(moved, entropy)

    def _mechanism(self) -> PlanarLaplace:
        return PlanarLaplace(epsilon=self.epsilon * self.area.cell, unit="cells", granularity=1)

    def _coded(self, moved: Integers, entropy: Entropy | None) -> Integers:
        """Codes of noisy grid points, wherever they fell."""
        last = np.array(self.window) - 1
        near = np.clip(moved, -self.margin, last - self.margin)
        codes: Integers = (near[:, 0] + self.margin) * self.window[1] + near[:, 1] + self.margin
        far = (near != moved).any(axis=1)
        if self.outside == "keep":
            codes[far] = self.outputs - 1
        elif self.outside == "remap":
            others = np.asarray(uniform_below(self.size, codes.shape, entropy=entropy))  # for all: time tells nothing
            codes = np.where(far, others, codes)
        return codes

    # At the collector

    def valid(self, reports: ArrayLike) -> NDArray[np.bool_]:
        """Which reports could have come from this randomiser."""
        return well_formed(reports, self.outputs)

    def tally(self, reports: ArrayLike) -> Integers:
        """How many reports there are of each kind; tallies of batches add up."""
        return np.bincount(read_codes(reports, self.outputs), minlength=self.outputs).astype(np.int64)

    def inside(self, tally: ArrayLike) -> Integers:
        """The part of a tally that lies in the area, one number a cell: the noisy map."""
        counts = np.asarray(tally)
        if counts.shape != (self.outputs,):
            raise InvalidData(
                f"tally: got shape {counts.shape}, expected {self.outputs} numbers, as `tally` gives them"
            )
        grid = counts[: math.prod(self.window)].reshape(self.window)
        m = self.margin
        return np.asarray(grid[m : m + self.area.rows, m : m + self.area.columns].ravel())

    def kernel(self) -> Floats:
        """P(displacement), south to north and west to east, no displacement in the middle; to float precision.

        It reaches as far as reports can be from a cell of the area. For "clamp" its outermost displacements stand for
        all further ones too, which end up in the same cell: it sums to 1. Otherwise what it lacks to 1 lies further.
        """
        if self.outside == "clamp":
            return self._folded(0)
        return self._folded(1)[1:-1, 1:-1]

    def model(self) -> Model:
        """The channel as a linear map by FFT, for `ibu`."""
        if self.outside == "keep":
            model = ConvolutionModel(self.kernel(), shape=self.area.shape, border="outside", margin=self.margin)
            return model if model.beyond else _WithUnseen(model)
        return ConvolutionModel(self.kernel(), shape=self.area.shape, border=self.outside)

    def channel(self) -> Channel:
        """The channel on a small area: from cells to codes, each entry right to float precision, relatively."""
        countable(self.size * self.outputs, "channel")
        folded = self._folded(0 if self.outside == "clamp" else 1)
        return Channel(np.array([self._row(folded, cell) for cell in range(self.size)]), normalise=True)

    def _folded(self, further: int) -> Floats:
        """P(displacement), the outermost rows and columns standing for all further ones."""
        rows, columns = (max(n - 1 + self.margin + further, 1) for n in self.area.shape)
        fold = _laplace_folded if self.noise == "laplace" else _geometric_folded
        return fold(self.scale, rows, columns)

    def _row(self, folded: Floats, cell: int) -> Floats:
        """The probabilities of all codes from one cell, as sums of positive numbers."""
        at = np.array(divmod(cell, self.area.columns)) + self.margin
        first = [n // 2 - x for n, x in zip(folded.shape, at.tolist(), strict=True)]  # displacement to window cell 0
        if self.outside == "clamp":
            starts = [[0, *range(f + 1, f + n)] for f, n in zip(first, self.window, strict=True)]
            return np.add.reduceat(np.add.reduceat(folded, starts[0], axis=0), starts[1], axis=1).ravel()
        inner = tuple(slice(f, f + n) for f, n in zip(first, self.window, strict=True))
        far = np.array(folded)
        far[inner] = 0
        if self.outside == "keep":
            return np.append(folded[inner].ravel(), far.sum())
        return np.asarray(folded[inner].ravel() + far.sum() / self.size)


@dataclass(frozen=True, slots=True)
class _WithUnseen:
    """A model with one more output, whose probability is below what floats can tell from zero."""

    model: ConvolutionModel

    @property
    def size(self) -> int:
        return self.model.size

    @property
    def outputs(self) -> int:
        return self.model.outputs + 1

    @property
    def rounding(self) -> float:
        return self.model.rounding

    def forward(self, p: ArrayLike) -> Floats:
        seen = self.model.forward(p)
        return np.concatenate([seen, np.zeros_like(seen[..., :1])], axis=-1)

    def backward(self, r: ArrayLike) -> Floats:
        return self.model.backward(np.asarray(r)[..., :-1])


@dataclass(frozen=True, slots=True, init=False, eq=False)
class MetricResponse:
    """One of a few places, words or settings, at any distances: z with probability ∝ exp(−ε·d(x, z)/2).

    Where every place sees the same distances to all others (a ring, the discrete metric, the corners of a cube), the
    normaliser is constant and the factor ½ is dropped (Chatzikokolakis, Andrés, Bordenabe, Palamidessi 2013, §3).

    `metric` is "discrete", "line", a matrix or a function of two labels; floats are read as the decimals they print as.

    Guarantee: P(z|x) ≤ e^(ε·d(x,x'))·P(z|x') for all x, x', z. Proof. Let N(x) = Σ_z e^(−ε·d(x,z)/2s), s such that
    |d(x,z) − d(x',z)| ≤ s·d(x,x') for all three: 1 where the triangle inequality holds, else found by looking at all
    triples. The ratio of numerators is then at most e^(ε·d(x,x')/2), and so is that of normalisers; where those are
    equal only the first remains, and ε need not be halved. Sampling is exact (`noise.softmax`).

    >>> ring = MetricResponse(range(4), lambda a, b: min(abs(a - b), 4 - abs(a - b)), epsilon=1, unit="steps")
    >>> ring.constant, round(ring.channel().d_privacy(lambda a, b: min(abs(a - b), 4 - abs(a - b))), 9)
    (True, 1.0)
    """

    labels: tuple[Label, ...]
    epsilon: Fraction
    unit: str
    constant: bool
    stretch: Fraction
    _steps: NDArray[np.object_]
    _denominator: int

    def __init__(self, labels: Iterable[Label], metric: Metric, *, epsilon: Number, unit: str) -> None:
        names = tuple(labels)
        read = read_labels(names, len(names), "place")
        if not 1 <= len(read) <= _MOST_PLACES:
            raise InvalidParameter("labels", f"{len(read)} of them", f"1 to {_MOST_PLACES}")
        steps, denominator = _whole_distances(distances(metric, read))
        fields = {
            "labels": read,
            "epsilon": rational(epsilon, "epsilon", above=0),
            "unit": PerDistance(0, unit, 0).unit,
            "constant": len({tuple(sorted(row)) for row in steps.tolist()}) == 1,
            "stretch": _stretch(steps),
            "_steps": steps,
            "_denominator": denominator,
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @property
    def loss(self) -> Loss:
        """ε for each unit of distance."""
        return PerDistance(self.epsilon, self.unit, 0)

    @property
    def size(self) -> int:
        """How many places there are."""
        return len(self.labels)

    @property
    def scale(self) -> Fraction:
        """What distances are divided by: 2s/ε, or s/ε where the normaliser is constant."""
        return (1 if self.constant else 2) * self.stretch / self.epsilon

    def randomise(self, values: ArrayLike, *, entropy: Entropy | None = None) -> Integers:
        """One report for each position in `labels`."""
        places = read_values(values, self.size)
        reports = np.empty(places.shape, np.int64)
        for place in np.unique(places):
            chosen = places == place
            count = int(np.count_nonzero(chosen))
            reports[chosen] = softmax(-self._steps[place], self._wide, count, entropy=entropy)
        return reports

    def valid(self, reports: ArrayLike) -> NDArray[np.bool_]:
        """Which reports could have come from this randomiser."""
        return well_formed(reports, self.size)

    def tally(self, reports: ArrayLike) -> Integers:
        """How many reports there are of each place."""
        return np.bincount(read_codes(reports, self.size), minlength=self.size).astype(np.int64)

    def channel(self) -> Channel:
        """The channel, to float precision."""
        weights = np.exp([-exponents(-row, self._wide) for row in self._steps])
        return Channel(weights, self.labels, self.labels, normalise=True)

    @property
    def _wide(self) -> Fraction:
        return self.scale * self._denominator


def _whole_distances(matrix: NDArray[np.generic]) -> tuple[NDArray[np.object_], int]:
    """Distances as whole numbers over one denominator, exactly."""
    rows = matrix.tolist()
    if any(value == math.inf for row in rows for value in row):
        raise InvalidParameter("metric", "an infinite distance", "finite ones", "give each part its own mechanism")
    exact = [[rational(value, "distance") for value in row] for row in rows]
    denominator = math.lcm(*(value.denominator for row in exact for value in row))
    steps = np.array([[int(value * denominator) for value in row] for row in exact], dtype=object)
    return steps, denominator


def _stretch(steps: NDArray[np.object_]) -> Fraction:
    """The least s ≥ 1 with |d(x,z) − d(x',z)| ≤ s·d(x,x') for all x, x', z."""
    worst = Fraction(1)
    for x in range(len(steps)):
        gaps = np.abs(steps - steps[x]).max(axis=1)
        for other in np.flatnonzero(gaps > steps[x]).tolist():
            if not steps[x, other]:
                raise InvalidParameter(
                    "metric", "places at distance 0 that are unequally far from a third", "a metric", "merge them"
                )
            worst = max(worst, Fraction(gaps[other], steps[x, other]))
    return worst


# Probabilities of displacements


@lru_cache(maxsize=16)
def _geometric_folded(scale: Fraction, rows: int, columns: int) -> Floats:
    """Discrete Laplace noise on each axis: q^|d|·(1 − q)/(1 + q) within, and q^n/(1 + q) from n on."""
    q = math.exp(-1 / float(scale))
    axes = []
    for reach in (rows, columns):
        chances = q ** np.abs(np.arange(-reach, reach + 1)) * math.tanh(0.5 / float(scale))
        chances[[0, -1]] = q**reach / (1 + q)
        axes.append(chances)
    return _frozen(np.outer(*axes))


@lru_cache(maxsize=16)
def _laplace_folded(scale: Fraction, rows: int, columns: int) -> Floats:
    """Planar Laplace noise: e^(−‖d‖/t)/Z within; sides and corners stand for all displacements beyond them."""
    t = float(scale)
    i, j = np.arange(rows), np.arange(columns)
    quarter = np.zeros((rows + 1, columns + 1))  # displacements ≥ 0; the others mirror them
    quarter[:-1, :-1] = np.exp(-np.hypot(i[:, None], j) / t)
    quarter[-1, :-1] = _tails(rows, columns, t)
    quarter[:-1, -1] = _tails(columns, rows, t)
    total = lattice_sum(scale)
    quarter[-1, -1] = _corner(rows, columns, t, quarter, total)
    half = np.concatenate([quarter[:0:-1], quarter])
    return _frozen(np.concatenate([half[:, :0:-1], half], axis=1) / total)


def _tails(start: int, count: int, t: float) -> Floats:
    """Σ_{i ≥ start} e^(−√(i² + j²)/t) for j = 0 … count − 1, right relatively."""
    end = math.ceil(math.sqrt((math.hypot(start, count) + _NATS * t) ** 2 - count**2)) + 1 + math.ceil(_NATS * t)
    countable(float(end - start) * count, "kernel", most=_MOST_TERMS)
    i = np.arange(start, end, dtype=np.float64)
    return np.array([np.exp(-np.hypot(i, j) / t).sum() for j in range(count)])


def _corner(rows: int, columns: int, t: float, quarter: Floats, total: float) -> float:
    """Σ_{i ≥ rows, j ≥ columns} e^(−√(i² + j²)/t): added up, or, for wide noise, what all else leaves to the total."""
    away = math.hypot(rows, columns) + _NATS * t
    i = np.arange(rows, math.sqrt(away**2 - columns**2) + 1)
    j = np.arange(columns, math.sqrt(away**2 - rows**2) + 1)
    if i.size * j.size <= 4_000_000:
        return float(np.exp(-np.hypot(i[:, None], j) / t).sum())
    weights = np.outer([1] + [2] * rows, [1] + [2] * columns) * quarter  # its corner is still 0
    return max(float(total - weights.sum()) / 4, 0.0)


def lattice_sum(scale: Number) -> float:
    """Σ e^(−‖z‖₂/t) over all integer points z of the plane: the normaliser of planar Laplace noise on a grid.

    Poisson summation: Σ_z e^(−‖z‖/t) = 2πt²·Σ_k (1 + (2πt‖k‖)²)^(−3/2) (Stein, Weiss 1971, Theorem I.1.14). For t ≥ 2
    the terms k ≠ 0 are expanded in 1/(2πt‖k‖)², and Σ_{k≠0} ‖k‖^(−2s) = 4ζ(s)β(s) (Lorenz 1871; Hardy 1920), β being
    Dirichlet's. Below, the sum is taken as it stands.

    >>> round(lattice_sum(10) / (2 * math.pi * 100), 6)
    1.000036
    """
    from scipy.special import binom, zeta

    t = float(rational(scale, "scale", above=0))
    if t < 2:
        z = np.arange(1, math.ceil(_NATS * t) + 2)
        return float(1 + 4 * np.exp(-np.hypot(z[:, None], z - 1) / t).sum())  # a quarter turn of x ≥ 1, y ≥ 0
    j = np.arange(10)
    s = j + 1.5
    dirichlet = (zeta(s, 0.25) - zeta(s, 0.75)) / 4**s
    series = binom(-1.5, j) * (2 * math.pi * t) ** (-2 * s) * 4 * zeta(s, 1) * dirichlet
    return 2 * math.pi * t**2 * float(1 + series.sum())


def _frozen(array: Floats) -> Floats:
    array.setflags(write=False)
    return array
