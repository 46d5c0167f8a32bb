"""Maps side by side: the true one, the noisy one, the estimated ones, on one color scale.

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

import numpy as np
from numpy.typing import ArrayLike

from discreet.errors import InvalidData
from discreet.local.places.areas import Area, Floats
from discreet.local.places.transport import Bounds
from discreet.report import Chart, Heat, Page, Text
from discreet.report.picture import Picture

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


def _grid(one: Map, area: Area) -> Floats:
    try:
        shares = np.asarray(one.shares, np.float64).ravel()
    except (TypeError, ValueError):
        raise InvalidData(f"map {one.title!r}: expected numbers") from None
    if shares.size != area.size or not np.isfinite(shares).all():
        raise InvalidData(f"map {one.title!r}: got {shares.size} shares, expected {area.size} finite ones")
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
