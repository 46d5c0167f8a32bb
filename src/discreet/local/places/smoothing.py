"""Maps from noisy places by an average of estimates, which is nearer to the truth than plain IBU.

The noise of places is wider than many cells, so reports say little about a single one: what an estimate assumes
decides. Here are three assumptions, none of which looks at the truth:

- plain iterations of IBU from the uniform map, as many as predict reports best that were held out (`ibu`);
- a smooth random field: shares ∝ e^f with f a Gaussian field, several settings averaged by their evidence;
- one cluster over a uniform background: six numbers.

Those whose log-likelihood is within 5 of the best are averaged; the others were refuted by the reports and are dropped.
The earth mover's distance is convex, so the average of estimates is never further from the truth than they are on
average, and it is nearer where their errors differ. Measured on generated cities (docs/decisions/0025): where a city
is one cluster the gain is large, on fine patterns there is little to gain, and some may be lost. It is post-processing
of reports: free, whatever the reports cost.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from discreet.errors import InvalidParameter
from discreet.exact import integer
from discreet.local.estimation.ibu import Stop, ibu, read_counts
from discreet.local.places.areas import Area, Floats
from discreet.local.places.planar import PlanarReport
from discreet.noise import Entropy

_MOST_CELLS = 10_000  # of the area
_AT_ONCE = 16  # blocks
_BLOCKS = 18  # on each side of the window, in which reports are counted together
_WAVES = 10  # on each side of the area
_FIELDS = ((0.2, 0.5), (0.4, 0.5), (0.2, 1.5))  # (length as a part of the longer side, roughness)
_DEVIATIONS = (0.7, 1.0, 1.5, 2.2)  # of f
_TINY = 1e-300
_FEW = 50  # reports; fewer are too few to hold some out
_MOST_BEHIND = 5.0  # nats of log-likelihood


@dataclass(frozen=True, slots=True, eq=False)
class Smoothed:
    """The average, the three estimates, and the names of those that it is made of."""

    shares: Floats
    plain: Floats
    field: Floats
    cluster: Floats
    parts: tuple[str, ...]


def smoothed(
    reports: PlanarReport, tally: ArrayLike, *, iterations: int = 2000, entropy: Entropy | None = None
) -> Smoothed:
    """A map from the tally of reports of places: the average of IBU, a smooth field and one cluster.

    At most so many `iterations` of IBU are made. Parts that are more than 5 nats less likely than the best are left
    out. `entropy` decides which reports are held out.

    >>> report = PlanarReport(Area.plane(width=2, height=2, cell="0.5"), epsilon="ln 8 at 1 km")
    >>> result = smoothed(report, report.tally(report.randomize([5] * 1000)))
    >>> int(result.shares.argmax()), round(float(result.shares.sum()), 9)
    (5, 1.0)
    """
    if not isinstance(reports, PlanarReport):
        raise InvalidParameter("reports", reports, "a PlanarReport")
    steps = integer(iterations, "iterations", at_least=0, at_most=100_000)
    area = reports.area
    if area.size > _MOST_CELLS:
        raise InvalidParameter("area", f"{area.size} cells", f"at most {_MOST_CELLS}", "use larger cells, or `ibu`")
    model = reports.model()
    counts = read_counts(model, tally)
    stop: Stop | None = "held-out" if counts.sum() >= _FEW else None
    plain = ibu(model, counts, iterations=steps, accelerate=False, stop=stop, entropy=entropy).shares
    coarse = Coarse.of(reports, counts)
    estimates = {"plain": plain, "field": smooth_field(coarse, area), "cluster": one_cluster(coarse, area)}
    parts = likely_parts({name: coarse.fit(shares) for name, shares in estimates.items()})
    return Smoothed(np.mean([estimates[name] for name in parts], axis=0), **estimates, parts=parts)


def likely_parts(likelihoods: Mapping[str, float]) -> tuple[str, ...]:
    """Those whose log-likelihood is at most 5 below the largest: e^5 is odds of 148 to 1.

    >>> likely_parts({"plain": -1000.0, "field": -1004.5, "cluster": -1600.0})
    ('plain', 'field')
    """
    best = max(likelihoods.values())
    return tuple(name for name, likelihood in likelihoods.items() if likelihood >= best - _MOST_BEHIND)


@dataclass(frozen=True, slots=True, eq=False)
class Coarse:
    """Reports counted in few blocks, and P(block | cell): a likelihood that is quick, and loses little.

    Adding up counts of outputs is post-processing, so the likelihood of what is left is a true one.
    """

    matrix: Floats
    counts: Floats

    @classmethod
    def of(cls, reports: PlanarReport, counts: ArrayLike) -> "Coarse":
        """The reports in at most 18 × 18 blocks of the window, and those beyond it."""
        rows, columns = (np.arange(n) * min(_BLOCKS, n) // n for n in reports.window)
        home = (rows[:, None] * _BLOCKS + columns).ravel()
        home = np.append(home, np.full(reports.codes - home.size, _BLOCKS**2))
        used, home = np.unique(home, return_inverse=True)
        matrix = np.empty((reports.size, used.size))
        model = reports.model()
        for start in range(0, used.size, _AT_ONCE):
            ours = np.arange(start, min(start + _AT_ONCE, used.size))
            matrix[:, ours] = model.backward(home == ours[:, None]).T
        return cls(np.maximum(matrix, _TINY), np.bincount(home, np.ravel(counts), used.size).astype(np.float64))

    def fit(self, shares: Floats) -> float:
        """The log-likelihood."""
        return float(self.counts @ np.log(np.maximum(shares @ self.matrix, _TINY)))


# A smooth field


def smooth_field(coarse: Coarse, area: Area) -> Floats:
    """Shares ∝ e^f, f the most likely Gaussian field with a Matérn spectrum, averaged over settings by evidence.

    f is a sum of cosine waves with independent normal weights; spectra are (1/length² + pace²)^−(roughness + 1)
    (Whittle 1954). The evidence of a setting is Laplace's approximation about the most likely weights (MacKay 1992).
    """
    basis, pace = _cosines(area)
    if not basis.shape[1]:
        return np.full(area.size, 1 / area.size)
    side = max(float(area.width), float(area.height))
    fits = []
    for length, roughness in _FIELDS:
        spectrum = (1 / (length * side) ** 2 + pace**2) ** -(roughness + 1)
        weights = np.zeros(pace.size)
        for deviation in _DEVIATIONS:
            weights, evidence = _newton(coarse, basis, deviation**2 * spectrum / spectrum.sum(), weights)
            fits.append((evidence, _softmax(basis @ weights)))
    best = max(evidence for evidence, _ in fits)
    chances = np.exp([evidence - best for evidence, _ in fits])
    return np.asarray(np.average([shares for _, shares in fits], axis=0, weights=chances))


def _cosines(area: Area) -> tuple[Floats, Floats]:
    """Products of cosines on the cells, the constant one left out, and how fast each waves (radians a km)."""
    axes = [np.cos(np.pi * np.outer((np.arange(n) + 0.5) / n, np.arange(min(_WAVES, n)))) for n in area.shape]
    for axis in axes:
        axis[:, 1:] *= math.sqrt(2)
    products = np.einsum("ri,cj->rcij", *axes).reshape(area.size, -1)
    paces = [np.pi * np.arange(a.shape[1]) / float(s) for a, s in zip(axes, (area.height, area.width), strict=True)]
    return products[:, 1:], np.hypot(paces[0][:, None], paces[1]).ravel()[1:]


def _newton(coarse: Coarse, basis: Floats, variances: Floats, weights: Floats) -> tuple[Floats, float]:
    """The most likely weights of the waves, by Fisher scoring with halved steps, and the log of the evidence."""
    total = coarse.counts.sum()

    def score(w: Floats) -> float:
        return coarse.fit(_softmax(basis @ w)) - float((w**2 / variances).sum()) / 2

    now = score(weights)
    for _ in range(60):
        shares = _softmax(basis @ weights)
        seen = np.maximum(shares @ coarse.matrix, _TINY)
        slope = basis.T @ (shares * (coarse.matrix @ (coarse.counts / seen) - total)) - weights / variances
        moves = (shares[:, None] * (basis - shares @ basis)).T @ coarse.matrix / np.sqrt(seen)
        curvature = total * moves @ moves.T + np.diag(1 / variances)
        step, size = np.linalg.solve(curvature, slope), 1.0
        while (then := score(weights + size * step)) < now and size > 1e-4:
            size /= 2
        if then - now < 1e-3:
            break
        weights, now = weights + size * step, then
    return weights, now - float(np.log(variances).sum() + np.linalg.slogdet(curvature)[1]) / 2


# One cluster


def one_cluster(coarse: Coarse, area: Area) -> Floats:
    """One oblique Gaussian cluster over a uniform background, the most likely: few numbers, little room for noise.

    Its settings have wide priors in units of the area: the middle within half of it, a radius of about a sixth of it.
    """
    from scipy.optimize import minimize

    middle, spread = np.array([1, 0, 0, 1.1, 1.1, 0]), np.array([2, 1, 1, 0.7, 0.7, 1.5])
    places = _centered(area)

    def cost(settings: Floats) -> float:
        away = (settings - middle) / spread
        return float(away @ away) / 2 - coarse.fit(_cluster(settings, places))

    starts = [[1, i, j, 0.9, 0.9, 0] for i in (-0.3, 0.3) for j in (-0.3, 0.3)]
    runs = [minimize(cost, start, method="BFGS") for start in starts]
    return _cluster(np.asarray(min(runs, key=lambda run: float(run.fun)).x), places)


def _cluster(settings: Floats, places: Floats) -> Floats:
    """Shares of (log odds of the cluster, its middle, log of its sharpness along both axes, slant)."""
    odds, east, north, across, along, slant = np.clip(settings, -20, 20)
    x, y = places[0] - east, places[1] - north
    u, v = np.exp(across) * x, np.exp(along) * y + slant * x
    bump = np.exp(-np.minimum(u**2 + v**2, 1000) / 2) + 1e-12
    weight = 1 / (1 + np.exp(-odds))
    return np.asarray((1 - weight) / bump.size + weight * bump / bump.sum())


def _centered(area: Area) -> Floats:
    """East and north of the area's middle, the longer side from −1 to 1."""
    width, height = float(area.width), float(area.height)
    return np.asarray(2 * (area.centers() - [width / 2, height / 2]).T / max(width, height))


def _softmax(values: Floats) -> Floats:
    powers = np.exp(values - values.max())
    return np.asarray(powers / powers.sum())
