"""Reports of places: planar noise on the cells of an area.

>>> from discreet.local.places.areas import Area
>>> from discreet.local.places.planar import PlanarReport
>>> city = Area.plane(width=3, height=3, cell="0.1")
>>> report = PlanarReport(city, epsilon="ln 2 at 1 km")
>>> 0 <= int(report.randomize([465])[0]) < report.codes
True
"""

import math
import re
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import Number, integer, log_down, rational, sqrt_bounds
from discreet.fields import Choice, Converted
from discreet.local.estimation.linear_maps import Border, ChannelModel, ConvolutionModel
from discreet.local.oracles.oracle import CodeReports, read_values
from discreet.local.places.areas import Area, Floats, Integers
from discreet.mechanisms import PlanarLaplace
from discreet.mechanisms.additive import laplace_tail
from discreet.mechanisms.channel import Channel
from discreet.mechanisms.mechanism import add, countable, drawable, failure_probability
from discreet.noise import Entropy, discrete_laplace, uniform_below
from discreet.privacy.loss import Loss, PerDistance

_WORDS = re.compile(r"\s*(ln\s*)?([\d./eE+-]+)\s+(?:at|within|per)\s+(?:([\d./eE+-]+)\s*)?(km|m)\s*")
_METERS = {"km": 1000, "m": 1}
_NATS = 45  # what lies beyond e^−45 of the largest term changes no float
_MOST_TERMS = 200_000_000
_MOST_SCALE_SUMMED = 60


def per_km(words: Number) -> Fraction:
    """ε for each km, from a number or from words: "ln 2 at 1 km", "0.7 per km", "ln 4 within 200 m".

    Logarithms are rounded down, so that no more than what was said is spent.

    >>> float(per_km("ln 2 at 1 km")), per_km("1/2 within 250 m")
    (0.6931471805599453, Fraction(2, 1))
    """
    match = _WORDS.fullmatch(words) if isinstance(words, str) else None
    if match is None:
        if isinstance(words, str) and re.search("[a-df-zA-DF-Z]", words):
            raise InvalidParameter("epsilon", words, "a number, or words such as 'ln 2 at 1 km'")
        return rational(words, "epsilon", above=0)
    logarithm, amount, distance, unit = match.groups()
    exact = rational(amount, "epsilon", above=1 if logarithm else 0)
    reach = rational(distance or 1, "distance", above=0) * _METERS[unit] / 1000
    return (log_down(exact) if logarithm else exact) / reach


def _read_area(area: Area, name: str) -> Area:
    if not isinstance(area, Area):
        raise InvalidParameter(name, area, "an Area")
    return area


def _read_margin(margin: int | None, name: str) -> int:
    """Cells; −1 where it was not stated."""
    return -1 if margin is None else integer(margin, name, at_least=0, at_most=10_000)


@dataclass(frozen=True)
class PlanarReport(CodeReports):
    """A person's cell of an area, moved by planar noise: geo-indistinguishability (Andrés et al. 2013) on a grid.

    `noise` is "laplace", P(displacement) ∝ exp(−ε·‖·‖₂) through `mechanisms.PlanarLaplace`, or "geometric", discrete
    Laplace noise of rate ε/√2 on each axis (a little wider, but its coordinates are independent). A report is a cell of
    the area with `margin` cells on each side, numbered row by row from the south-west; what falls beyond is

    - "keep": told as such, by one last code. The default margin is the radius of 99 % of the noise, at most the
      longer side of the area;
    - "clamp": moved to the nearest cell of the area (no margin);
    - "remap": replaced by a uniformly drawn cell of the area (no margin).

    Guarantee: P(report|x) ≤ e^(ε·(d + slack))·P(report|x') for places x, x' at d km, slack a cell's diagonal.
    Proof. Between the centers of cells the noise, on an infinite grid, has one normalizing constant, and
    ‖z − x'‖ − ‖z − x‖ ≤ ‖x − x'‖; for "geometric" in the norm ‖·‖₁ ≤ √2·‖·‖₂ at rate ε/√2, rounded down. What happens
    outside the area looks at the noisy point alone (and own coins), so it is post-processing. A place is at most half a
    diagonal from the center of its cell, and distances on the map do not exceed those on the ground (see `areas`).

    >>> PlanarReport(Area.plane(width=1, height=1, cell="0.5"), epsilon="0.7", outside="clamp").codes
    4
    """

    area: Converted[Area, Area] = Converted(_read_area)
    _: KW_ONLY
    epsilon: Converted[Number, Fraction] = Converted(lambda words, _: per_km(words))
    noise: Choice = Choice("laplace", "geometric", default="laplace")
    outside: Choice = Choice("keep", "clamp", "remap", default="keep")
    margin: Converted[int | None, int] = Converted(_read_margin, default=None)

    def __post_init__(self) -> None:
        drawable(1024 * self.scale, epsilon=self.epsilon, cell=self.area.cell)
        if self.outside == "keep" and self.margin < 0:
            reach = math.ceil(self.interval("0.99") / float(self.area.cell))
            object.__setattr__(self, "margin", min(reach, max(self.area.shape), 10_000))
        elif self.outside != "keep":
            if self.margin >= 0:
                hint = f"outside={self.outside!r} keeps no cells beyond the area"
                raise InvalidParameter("margin", self.margin, "nothing", hint)
            object.__setattr__(self, "margin", 0)

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
    def codes(self) -> int:
        """How many different reports there are."""
        return math.prod(self.window) + (self.outside == "keep")

    def interval(self, confidence: Number) -> float:
        """A radius in km that holds the noise with at least this probability, the place within its cell included."""
        tail, cell = failure_probability(confidence), float(self.area.cell)
        if self.noise == "laplace":
            return self._mechanism().interval(confidence) * cell
        return (laplace_tail(self.scale, tail / 4) + 0.5) * math.sqrt(2) * cell

    def within(self, share: Number) -> float:
        """A radius in km about the place that holds the report at most this share of the time; rounded down.

        `interval` is for whoever needs a report to be near, this for whoever needs it to be far: the one errs upwards,
        the other downwards. For Laplace noise, and places inside the area; see `radius_within`.

        >>> report = PlanarReport(Area.plane(width=2, height=2, cell="0.1"), epsilon="ln 2 at 200 m")
        >>> round(report.within("0.5"), 3), round(report.interval("0.5"), 3)
        (0.473, 0.626)
        """
        if self.noise != "laplace":
            raise InvalidParameter("noise", self.noise, "'laplace'")
        return radius_within(self.scale, share) * float(self.area.cell)

    @property
    def stays(self) -> float:
        """The probability that Laplace noise leaves a report in the cell that it is about."""
        if self.noise != "laplace":
            raise InvalidParameter("noise", self.noise, "'laplace'")
        return 1 / lattice_sum(self.scale)

    # On the device

    def randomize(self, values: ArrayLike, *, entropy: Entropy | None = None) -> Integers:
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
            codes[far] = self.codes - 1
        elif self.outside == "remap":
            others = np.asarray(uniform_below(self.size, codes.shape, entropy=entropy))  # for all: time tells nothing
            codes = np.where(far, others, codes)
        return codes

    # At the collector

    def inside(self, tally: ArrayLike) -> Integers:
        """The part of a tally that lies in the area, one number a cell: the noisy map."""
        counts = np.asarray(tally)
        if counts.shape != (self.codes,):
            raise InvalidData(f"tally: got shape {counts.shape}, expected {self.codes} numbers, as `tally` gives them")
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

    def model(self) -> ChannelModel:
        """The channel as a linear map by FFT, for `ibu`."""
        if self.outside == "keep":
            model = ConvolutionModel(self.kernel(), shape=self.area.shape, border="outside", margin=self.margin)
            return model if model.beyond else _WithUnseen(model)
        border: Border = "clamp" if self.outside == "clamp" else "remap"
        return ConvolutionModel(self.kernel(), shape=self.area.shape, border=border)

    def channel(self) -> Channel:
        """The channel on a small area: from cells to codes, each entry right to float precision, relatively."""
        countable(self.size * self.codes, "channel")
        folded = self._folded(0 if self.outside == "clamp" else 1)
        return Channel(np.array([self._row(folded, cell) for cell in range(self.size)]), normalize=True)

    def _folded(self, further: int) -> Floats:
        """P(displacement), the outermost rows and columns standing for all further ones."""
        rows, columns = (max(n - 1 + self.margin + further, 1) for n in self.area.shape)
        fold = laplace_folded if self.noise == "laplace" else geometric_folded
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


@lru_cache(maxsize=16)
def geometric_folded(scale: Fraction, rows: int, columns: int) -> Floats:
    """Discrete Laplace noise on each axis: q^|d|·(1 − q)/(1 + q) within, and q^n/(1 + q) from n on."""
    q = math.exp(-1 / float(scale))
    axes = []
    for reach in (rows, columns):
        chances = q ** np.abs(np.arange(-reach, reach + 1)) * math.tanh(0.5 / float(scale))
        chances[[0, -1]] = q**reach / (1 + q)
        axes.append(chances)
    return _frozen(np.outer(*axes))


@lru_cache(maxsize=16)
def laplace_folded(scale: Fraction, rows: int, columns: int) -> Floats:
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
    """Σ e^(−‖z‖₂/t) over all integer points z of the plane: the normalizer of planar Laplace noise on a grid.

    Poisson summation: Σ_z e^(−‖z‖/t) = 2πt²·Σ_k (1 + (2πt‖k‖)²)^(−3/2) (Stein, Weiss 1971: Poisson kernel). For t ≥ 2
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


def radius_within(scale: Number, share: Number) -> float:
    """A radius in cells that holds at most this share of planar Laplace noise; rounded down.

    Guarantee: wherever in its cell a place u is, P(‖noise − u‖ < radius) ≤ share.
    Proof. Up to t = 60 the cell is cut into squares (one eighth of it will do: the noise is symmetric), and what a disc
    holds about any point of a square is at most what a disc wider by half the square's diagonal holds about its
    middle; those sums are taken over the grid, with 1e-9 to spare for floats. Beyond, with h = √½, each grid point
    stands for its unit square, within h of it: Σ_{‖z‖ < R} e^(−‖z‖/t) is at most e^(h/t)·∫_{‖x‖ < R + h} e^(−‖x‖/t),
    and Σ_{‖z‖ ≥ R} at least e^(−h/t)·∫_{‖x‖ ≥ R + h}; with Z the sum over all z, either shows that the disc holds no
    more than the share, and the larger R is taken. A disc about u lies in one about 0 that is wider by h.

    >>> radius_within(10, "0.5") < 16.79 < radius_within(10, "0.51")
    True
    """
    from scipy.special import gammainccinv, gammaincinv

    t, most = float(rational(scale, "scale", above=0)), float(rational(share, "share", above=0, below=1))
    half = math.sqrt(0.5)
    if t > _MOST_SCALE_SUMMED:
        total = lattice_sum(scale) / (2 * math.pi * t**2)
        inside = float(gammaincinv(2, most * total * math.exp(-half / t)))
        outside = float(gammainccinv(2, min((1 - most) * total * math.exp(half / t), 1.0)))
        return max(t * max(inside, outside) * (1 - 1e-9) - 2 * half, 0.0)
    reach = math.ceil(t * float(gammaincinv(2, most))) + 2
    z = np.arange(-reach, reach + 1, dtype=np.float64)
    weights = (np.exp(-np.hypot(z[:, None], z) / t) / lattice_sum(scale)).ravel()
    cuts = max(2, min(8, math.ceil(16 / t)))
    middles = (np.arange(cuts) + 0.5) / (2 * cuts)
    radii = [_disc(weights, z, (x, y), most) for i, x in enumerate(middles) for y in middles[: i + 1]]
    return max(min(*radii, reach - 1.0) - half / (2 * cuts) - 1e-9, 0.0)


def _disc(weights: Floats, z: Floats, middle: tuple[float, float], most: float) -> float:
    """The radius at which a disc about a point begins to hold more than this share of the weights."""
    away = np.hypot(z[:, None] - middle[0], z - middle[1]).ravel()
    order = np.argsort(away)
    beyond = np.flatnonzero(np.cumsum(weights[order]) > most * (1 - 1e-9))
    return float(away[order[beyond[0]]]) if beyond.size else math.inf


def _frozen(array: Floats) -> Floats:
    array.setflags(write=False)
    return array
