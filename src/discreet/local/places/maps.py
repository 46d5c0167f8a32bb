"""Maps side by side on one color scale, and how far one is from another.

How far: the earth mover's distance between distributions on the cells of an area, in km. It is the least average
distance that mass must be moved to turn one into the other (the Wasserstein distance of order 1). `earth_mover` is
exact, by linear programming; `earth_mover_bounds` encloses it where a grid is too large for that; `distance` takes the
first up to 2,500 cells and the second beyond, and says which.

`picture(...).save` writes SVG, PNG or PDF; `page(...).save` an HTML page that needs nothing.

>>> from discreet.local.places.areas import Area
>>> from discreet.local.places.maps import Map, page
>>> city = Area.plane(width=2, height=1, cell=1)
>>> "<svg" in page([Map("true", [0.75, 0.25]), Map("estimated", [0.5, 0.5])], city, title="A city").html()
True

Maps from noisy places by an average of estimates, which is nearer to the truth than plain IBU.

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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.errors import InternalError, InvalidData, InvalidParameter
from discreet.exact import integer
from discreet.local.estimation.ibu import Stop, ibu, read_counts
from discreet.local.places.areas import Area, Floats
from discreet.local.places.planar import PlanarReport
from discreet.noise import Entropy
from discreet.report import Chart, Heat, Page, Text
from discreet.report.picture import Picture

_MOST_PAIRS = 4_000_000  # distances held at once: 2000 cells against 2000
_MOST_EXACT = 2_500  # cells, for `distance`
_FEW_PAIRS = 4_000  # below that all arcs are used at once
_CHEAPEST = 8  # arcs that every cell starts with
_ADDED = 5  # arcs that a cell can gain in a round
_TOLERANCE = 1e-9
_MOST_ROUNDS = 100
_WHOLE = 1e6  # all mass, for the solver, which allows sums to be off by 1e-7
_ROUNDING = 1e-9  # of the solver and of sums in floats, relatively


def earth_mover(p: ArrayLike, q: ArrayLike, area: Area) -> float:
    """The earth mover's distance in km between two distributions (or counts) on the cells of an area; exact.

    Both are divided by their sums. Mass that both have in a cell stays there: for a metric some optimal plan leaves it
    (the triangle inequality). The rest is a transport problem; HiGHS solves it on a few arcs, and arcs with a negative
    reduced cost are added until there are none, which proves that no other plan is cheaper (column generation,
    Dantzig, Wolfe 1960). The answer is right to about 1e-9 times the size of the area.

    >>> earth_mover([1, 0, 0, 0], [0, 0, 0, 1], Area.plane(width=4, height=1, cell="0.5"))
    Traceback (most recent call last):
    discreet.errors.InvalidData: p: got 4 shares, expected 16, one for each cell
    >>> earth_mover([1, 0, 0, 0], [0, 0, 0, 1], Area.plane(width=4, height=1, cell=1))
    3.0
    """
    gap = _shares(p, area, "p") - _shares(q, area, "q")
    from_cells, to_cells = np.flatnonzero(gap > 0), np.flatnonzero(gap < 0)
    if not from_cells.size or not to_cells.size:
        return 0.0
    if from_cells.size * to_cells.size > _MOST_PAIRS:
        raise InvalidParameter(
            "area", f"{area.size} cells", f"at most about {int(2 * _MOST_PAIRS**0.5)}", "use earth_mover_bounds"
        )
    supply, demand = gap[from_cells], -gap[to_cells]
    moved = min(float(supply.sum()), float(demand.sum()))
    points = area.centers(from_cells), area.centers(to_cells)
    cost, _, _ = _transport(_Problem(supply / supply.sum(), demand / demand.sum(), *points), float(area.cell))
    return moved * cost


@dataclass(frozen=True, slots=True)
class Bounds:
    """Two numbers in km that enclose an earth mover's distance; equal where it is known.

    >>> str(Bounds(0.2041, 0.2041)), str(Bounds(0.19, 0.215))
    ('0.204 km', 'between 0.190 and 0.215 km')
    """

    lower: float
    upper: float

    @property
    def exact(self) -> bool:
        """Whether the distance is known."""
        return self.lower == self.upper

    def __str__(self) -> str:
        return f"{self.lower:.3f} km" if self.exact else f"between {self.lower:.3f} and {self.upper:.3f} km"


def distance(p: ArrayLike, q: ArrayLike, area: Area) -> Bounds:
    """The earth mover's distance, exact up to 2,500 cells; beyond, what encloses it: never a guess between the bounds.

    >>> str(distance([1, 0, 0], [0, 0, 1], Area.plane(width=3, height=1, cell=1)))
    '2.000 km'
    """
    if area.size > _MOST_EXACT:
        return earth_mover_bounds(p, q, area)
    known = earth_mover(p, q, area)
    return Bounds(known, known)


def earth_mover_bounds(p: ArrayLike, q: ArrayLike, area: Area, *, most_cells: int = 900) -> Bounds:
    """Bounds of the earth mover's distance for any grid, from a coarser one of at most `most_cells` cells.

    Upper: move the surplus of every block to its middle, transport among the middles at best cost, move out again: a
    plan. Lower: the larger of (that transport − what moving in and out costs), by the triangle inequality, and of the
    exact distances of the two maps seen along 32 directions, since projecting makes no distance longer.

    >>> area = Area.plane(width=100, height=100, cell=1)
    >>> p, q = np.zeros(10_000), np.zeros(10_000)
    >>> p[0], q[-1] = 1, 1
    >>> result = earth_mover_bounds(p, q, area)
    >>> result.lower <= earth_mover(p, q, area) <= result.upper
    True
    """
    block = _block(area, integer(most_cells, "most_cells", at_least=1))
    gap = _shares(p, area, "p") - _shares(q, area, "q")
    coarse = Area(rows=-(-area.rows // block), columns=-(-area.columns // block), cell=area.cell * block)
    points = area.centers()
    homes = coarse.cells_of(points).cells
    inout = float(np.abs(gap) @ np.hypot(*(points - coarse.centers(homes)).T))
    surplus, lack = (np.bincount(homes, np.maximum(side, 0), coarse.size) for side in (gap, -gap))
    moved = float(surplus.sum())
    if moved <= 0:
        return Bounds(0.0, 0.0)
    between = moved * earth_mover(surplus, lack, coarse)
    least = max(between - inout, _seen_along_lines(gap, points), 0.0)
    return Bounds(least * (1 - _ROUNDING), (between + inout) * (1 + _ROUNDING))


def _seen_along_lines(gap: Floats, points: Floats, directions: int = 32) -> float:
    """The greatest distance of the two maps after projecting both on a line: ∫ |F − G| for each direction."""
    return max(_on_a_line(gap, points @ [np.cos(a), np.sin(a)]) for a in np.arange(directions) * np.pi / directions)


def _on_a_line(gap: Floats, places: Floats) -> float:
    order = np.argsort(places)
    return float(np.abs(np.cumsum(gap[order])[:-1]) @ np.diff(places[order]))


# The transport problem


@dataclass(frozen=True, slots=True, eq=False)
class _Problem:
    """Move these amounts between these points (km); both amounts sum to 1."""

    supply: Floats
    demand: Floats
    sources: Floats
    sinks: Floats

    @property
    def away(self) -> Floats:
        a, b = self.sources, self.sinks
        return np.asarray(np.hypot(a[:, None, 0] - b[:, 0], a[:, None, 1] - b[:, 1]))


def _transport(problem: _Problem, grain: float) -> tuple[float, Floats, Floats]:
    """The least Σ flow·distance, and the prices of sources and sinks that prove it, by column generation.

    A problem on blocks of 3 × 3 cells is solved first: its prices say which arcs are likely to be used.
    """
    away, many = problem.away, len(problem.supply)
    unit = max(float(away.max()), 1e-300)  # the solver's tolerances are absolute: distances go to it as parts of this
    arcs = _first_arcs(problem, away, grain)
    for _ in range(_MOST_ROUNDS):
        cost, prices = _solve(problem.supply, problem.demand, away / unit, arcs)
        reduced = away / unit - prices[:many, None] - prices[many:]
        wanted = ~arcs & (reduced < -_TOLERANCE)
        if not wanted.any():
            return cost * unit, prices[:many] * unit, prices[many:] * unit
        arcs |= wanted & _least(reduced, _ADDED)
    raise InternalError("the transport problem was not solved in 100 rounds")


def _first_arcs(problem: _Problem, away: Floats, grain: float) -> NDArray[np.bool_]:
    """All arcs of a small problem; else the cheapest by prices of the coarser one, and those of a plan that exists."""
    if away.size <= _FEW_PAIRS:
        return np.ones(away.shape, np.bool_)
    supply, sources, source_home = _blocks(problem.supply, problem.sources, 3 * grain)
    demand, sinks, sink_home = _blocks(problem.demand, problem.sinks, 3 * grain)
    _, source_prices, sink_prices = _transport(_Problem(supply, demand, sources, sinks), 3 * grain)
    arcs = _least(away - source_prices[source_home][:, None] - sink_prices[sink_home], _CHEAPEST)
    row, column = (np.cumsum(amounts) for amounts in (problem.supply, problem.demand))
    ends = np.unique(np.concatenate([[0.0], row, column]))
    i = np.minimum(np.searchsorted(row, ends, side="right"), len(row) - 1)  # the north-west corner rule
    j = np.minimum(np.searchsorted(column, ends, side="right"), len(column) - 1)
    for a in (i, np.maximum(i - 1, 0)):  # sums that differ in their last digits: take both neighbors
        for b in (j, np.maximum(j - 1, 0)):
            arcs[a, b] = True
    return arcs


def _blocks(amounts: Floats, points: Floats, side: float) -> tuple[Floats, Floats, NDArray[np.intp]]:
    """Amounts and middles of the blocks that hold these points, and the block of each point."""
    blocks, home = np.unique(np.floor(points / side), axis=0, return_inverse=True)
    home = home.reshape(-1)
    totals: Floats = np.zeros(len(blocks))
    np.add.at(totals, home, amounts)
    return totals, (blocks + 0.5) * side, home


def _least(costs: Floats, count: int) -> NDArray[np.bool_]:
    """Which entries are among the least of their row or of their column."""
    across, down = (min(count, n) - 1 for n in costs.shape[::-1])
    by_row = costs <= np.partition(costs, across, axis=1)[:, across : across + 1]
    by_column = costs <= np.partition(costs, down, axis=0)[down : down + 1]
    return np.asarray(by_row | by_column)


def _solve(supply: Floats, demand: Floats, away: Floats, arcs: NDArray[np.bool_]) -> tuple[float, Floats]:
    """The cheapest flow on these arcs, and the prices (dual variables) of all places.

    Sums of floats differ in their last digits, so the last place has no equation of its own: it takes what is left.
    """
    from scipy.optimize import linprog
    from scipy.sparse import coo_array

    i, j = np.nonzero(arcs)
    column = np.arange(i.size)
    ones = np.ones(2 * i.size)
    places = len(supply) + len(demand)
    sums: Any = coo_array(
        (ones, (np.concatenate([i, len(supply) + j]), np.concatenate([column, column]))), shape=(places, i.size)
    ).tocsr()
    amounts = np.concatenate([supply, demand])[:-1] * _WHOLE
    result: Any = linprog(away[arcs], A_eq=sums[:-1], b_eq=amounts, bounds=(0, None), method="highs-ds")
    if result.status != 0:
        raise InternalError(f"the transport problem was not solved: {result.message}")
    prices = [*result.eqlin.marginals, 0.0]
    return float(result.fun) / _WHOLE, np.array(prices, np.float64)


# Reading


def _shares(values: ArrayLike, area: Area, name: str) -> Floats:
    try:
        array = np.asarray(values, np.float64).ravel()
    except (TypeError, ValueError):
        raise InvalidData(f"{name}: expected numbers") from None
    if array.size != area.size:
        raise InvalidData(f"{name}: got {array.size} shares, expected {area.size}, one for each cell")
    if not np.isfinite(array).all() or (array < 0).any() or not array.any():
        raise InvalidData(f"{name}: expected finite shares ≥ 0, not all 0; clip or project an estimate first")
    array = array / array.max()  # so that the sum cannot overflow
    return np.asarray(array / array.sum())


def _block(area: Area, most: int) -> int:
    block = 1
    while -(-area.rows // block) * -(-area.columns // block) > most:
        block += 1
    return block


_MOST_ROWS = 150  # beyond that an SVG of cells is too large; cells are merged


@dataclass(frozen=True, slots=True)
class Map:
    """One map: its title, a share for each cell, and how far it is from the truth in km, exactly or by its bounds.

    Shares may be counts (they are divided by their sum); negative ones, as an inversion gives, are drawn as empty.
    """

    title: str
    shares: ArrayLike
    distance: float | Bounds | None = None

    @property
    def caption(self) -> str:
        """The title with the distance to the truth.

        >>> Map("estimated", [1], distance=0.2041).caption
        'estimated: 0.204 km from the truth'
        >>> Map("estimated", [1], distance=Bounds(0.19, 0.215)).caption
        'estimated: between 0.190 and 0.215 km from the truth'
        """
        if self.distance is None:
            return self.title
        away = self.distance if isinstance(self.distance, Bounds) else Bounds(self.distance, self.distance)
        return f"{self.title}: {away} from the truth"


def page(maps: Sequence[Map], area: Area, *, title: str) -> Page:
    """A page of maps side by side; it loads nothing and runs nothing.

    >>> page([Map("<b>", [1])], Area.plane(width=1, height=1, cell=1), title="Maps").html().count("&lt;b&gt;")
    2
    """
    shown, merged = charts(maps, area)
    note = f" Cells are merged {merged} × {merged}." if merged > 1 else ""
    words = f"Cells of {float(area.cell * merged):g} km; one color scale, by the square root of the share.{note}"
    return Page(title, [*shown, Text(words)])


def picture(maps: Sequence[Map], area: Area, *, title: str) -> Picture:
    """Maps side by side as one picture."""
    return Picture.beside([chart.picture() for chart in charts(maps, area)[0]], title)


def charts(maps: Sequence[Map], area: Area) -> tuple[list[Chart], int]:
    """A chart for each map, on one color scale; and how many cells were merged into one each way."""
    grids, merged = _merged([_grid(each, area) for each in maps], area)
    top, aspect, length = _top(grids), float(area.width / area.height), scale_bar(area)
    scale = (length / float(area.width), _length(length))
    heats = [Heat(100 * grid[::-1], aspect=aspect, scale=scale, top=100 * top) for grid in grids]  # the north is up
    return [Chart(each.caption, [heat], y="%") for each, heat in zip(maps, heats, strict=True)], merged


# Shares and lengths


def scale_bar(area: Area) -> float:
    """A round length in km (1, 2 or 5 times a power of ten) of about a quarter of the area's width.

    >>> scale_bar(Area.plane(width=3, height=3, cell="0.1"))
    0.5
    """
    target = float(area.width) / 4
    power = 10.0 ** math.floor(math.log10(target))
    return max(step * power for step in (1, 2, 5) if step * power <= target * (1 + 1e-9))


def _length(km: float) -> str:
    return f"{km:g} km" if km >= 1 else f"{1000 * km:g} m"


def _grid(layer: Map, area: Area) -> Floats:
    try:
        shares = np.asarray(layer.shares, np.float64).ravel()
    except (TypeError, ValueError):
        raise InvalidData(f"map {layer.title!r}: expected numbers") from None
    if shares.size != area.size or not np.isfinite(shares).all():
        raise InvalidData(f"map {layer.title!r}: got {shares.size} shares, expected {area.size} finite ones")
    positive = np.maximum(shares, 0)
    return np.asarray((positive / (positive.sum() or 1)).reshape(area.shape))


def _top(grids: Sequence[Floats]) -> float:
    """The end of the common color scale: the largest share of the first map; larger ones look the same."""
    if not grids:
        raise InvalidData("maps: got none, expected at least one")
    return float(grids[0].max()) or max(float(grid.max()) for grid in grids) or 1.0


def _merged(grids: list[Floats], area: Area) -> tuple[list[Floats], int]:
    """Blocks of cells added up where there are too many for an SVG."""
    block = -(-max(area.shape) // _MOST_ROWS)
    if block == 1:
        return grids, 1
    starts = [np.arange(0, n, block) for n in area.shape]
    return [np.add.reduceat(np.add.reduceat(grid, starts[0], axis=0), starts[1], axis=1) for grid in grids], block


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
