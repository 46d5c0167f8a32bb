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
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.errors import InternalError, InvalidData, InvalidParameter
from discreet.exact import integer
from discreet.local.places.areas import Area, Floats
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
