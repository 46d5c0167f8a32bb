"""Maps side by side: the true one, the noisy one, the estimated ones, on one color scale.

`draw` writes a picture through matplotlib; `page` gives a self-contained HTML page with inline SVG, and needs nothing.

>>> from discreet.local.places.areas import Area
>>> from discreet.local.places.maps import Map, page
>>> city = Area.plane(width=2, height=1, cell=1)
>>> "<svg" in page([Map("true", [0.75, 0.25]), Map("estimated", [0.5, 0.5], distance=0.25)], city, title="A city")
True
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.errors import InvalidData, InvalidParameter, MissingExtra
from discreet.local.places.areas import Area, Floats
from discreet.local.places.transport import Bounds

_PICTURES = (".png", ".svg", ".pdf")
_SIDE = 300  # pixels of the longer side of one map
_MOST_ROWS = 150  # beyond that an SVG of cells is too large; cells are merged
_RAMP = ((250, 250, 245), (198, 219, 214), (107, 168, 178), (44, 108, 140), (20, 54, 96), (12, 22, 48))
_STEPS = 64


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


def page(maps: Sequence[Map], area: Area, *, title: str) -> str:
    """A page of maps side by side as HTML with inline SVG; it loads nothing and runs nothing.

    >>> page([Map("<b>", [1])], Area.plane(width=1, height=1, cell=1), title="Maps").count("&lt;b&gt;")
    2
    """
    grids, merged = _merged([_grid(one, area) for one in maps], area)
    top = _top(grids)
    figures = "\n".join(_figure(one, grid, area, top) for one, grid in zip(maps, grids, strict=True))
    note = f" Cells are merged {merged} × {merged}." if merged > 1 else ""
    return _PAGE.format(
        title=escape(title),
        figures=figures,
        legend=_legend(top),
        note=f"Cells of {float(area.cell * merged):g} km; one color scale, by the square root of the share.{note}",
    )


def save_page(path: str | Path, maps: Sequence[Map], area: Area, *, title: str) -> Path:
    """Write `page` to a file; the path."""
    target = Path(path)
    target.write_text(page(maps, area, title=title), encoding="utf-8")
    return target


def draw(path: str | Path, maps: Sequence[Map], area: Area, *, title: str) -> Path:
    """Draw maps side by side and save them; the ending of the name says whether as PNG, SVG or PDF."""
    target = Path(path)
    if target.suffix.lower() not in _PICTURES:
        raise InvalidParameter("path", target.name, f"a name that ends in {', '.join(_PICTURES)}")
    grids = [_grid(one, area) for one in maps]
    top = _top(grids)
    try:
        import_module("matplotlib")
    except ImportError:
        raise MissingExtra("matplotlib", "plot") from None
    figure: Any = _figure_of(len(grids), area)
    axes = figure.subplots(1, len(grids), squeeze=False)[0]
    image = None
    for axis, one, grid in zip(axes, maps, grids, strict=True):
        image = _draw_one(axis, one, grid, area, top)
    figure.colorbar(image, ax=list(axes), shrink=0.8, label="share of all, in a cell")
    figure.suptitle(title)
    figure.savefig(target, dpi=150)
    return target


# Pictures


def _figure_of(count: int, area: Area) -> Any:
    from matplotlib.figure import Figure

    ratio = float(area.height / area.width)
    return Figure(figsize=(3.6 * count + 0.8, min(max(3.6 * ratio, 1.5), 12) + 0.9), layout="constrained")


def _draw_one(axis: Any, one: Map, grid: Floats, area: Area, top: float) -> Any:
    from matplotlib.colors import LinearSegmentedColormap, PowerNorm

    colors = LinearSegmentedColormap.from_list("discreet", [tuple(c / 255 for c in rgb) for rgb in _RAMP])
    width, height = float(area.width), float(area.height)
    norm = PowerNorm(0.5, vmin=0, vmax=top)
    image = axis.imshow(np.minimum(grid, top), origin="lower", extent=(0, width, 0, height), cmap=colors, norm=norm)
    axis.set_title(one.caption, fontsize=9)
    axis.set_xticks([])
    axis.set_yticks([])
    length = scale_bar(area)
    axis.plot([0.04 * width, 0.04 * width + length], [0.05 * height] * 2, color="#b3261e", linewidth=3)
    axis.text(0.04 * width, 0.07 * height, _length(length), color="#b3261e", fontsize=8, va="bottom")
    return image


# SVG


def _figure(one: Map, grid: Floats, area: Area, top: float) -> str:
    side = _SIDE / max(float(area.width), float(area.height))  # pixels a km
    width, height = float(area.width) * side, float(area.height) * side
    length = scale_bar(area)
    return _FIGURE.format(
        caption=escape(one.caption),
        width=f"{width:.0f}",
        height=f"{height:.0f}",
        rows=grid.shape[0],
        columns=grid.shape[1],
        cells="".join(_cells(grid, top)),
        bar=f"{length * side:.1f}",
        length=_length(length),
        low=f"{height - 10:.0f}",
        text=f"{height - 15:.0f}",
    )


def _cells(grid: Floats, top: float) -> list[str]:
    """Runs of cells of one color in a row, as rectangles; empty ones are the background. The north is up."""
    levels = _levels(grid, top)[::-1]
    out = []
    for y, row in enumerate(levels.tolist()):
        ends = [x for x in range(1, len(row) + 1) if x == len(row) or row[x] != row[x - 1]]
        for start, end in zip([0, *ends], ends, strict=False):
            if row[start]:
                out.append(f'<path fill="{_color(row[start])}" d="M{start} {y}h{end - start}v1h-{end - start}z"/>')
    return out


def _levels(grid: Floats, top: float) -> NDArray[np.int64]:
    return np.ceil(np.sqrt(np.clip(grid / top, 0, 1)) * _STEPS - 1e-9).astype(np.int64)


def _color(level: int) -> str:
    at = level / _STEPS * (len(_RAMP) - 1)
    first = min(int(at), len(_RAMP) - 2)
    mixed = (a + (b - a) * (at - first) for a, b in zip(_RAMP[first], _RAMP[first + 1], strict=True))
    return "#" + "".join(f"{round(part):02x}" for part in mixed)


def _legend(top: float) -> str:
    stops = "".join(f'<rect x="{4 * k}" width="4" height="12" fill="{_color(k)}"/>' for k in range(_STEPS + 1))
    return (
        f'<svg width="{4 * _STEPS + 4}" height="30" role="img" aria-label="color scale">{stops}'
        f'<text y="26">0</text><text x="{2 * _STEPS + 2}" y="26" text-anchor="middle">{25 * top:.3g} %</text>'
        f'<text x="{4 * _STEPS + 4}" y="26" text-anchor="end">{100 * top:.3g} %</text></svg>'
    )


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


_FIGURE = """<figure><svg width="{width}" height="{height}" role="img" aria-label="{caption}">
<svg width="100%" height="100%" viewBox="0 0 {columns} {rows}" preserveAspectRatio="none" shape-rendering="crispEdges">\
<rect width="100%" height="100%" fill="#fafaf5"/>{cells}</svg>
<path d="M10 {low}h{bar}" stroke="#b3261e" stroke-width="3"/>\
<text x="10" y="{text}" fill="#b3261e">{length}</text></svg>
<figcaption>{caption}</figcaption></figure>"""

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>
body {{ font: 15px/1.4 system-ui, sans-serif; margin: 2rem; color: #1b1f24; }}
main {{ display: flex; flex-wrap: wrap; gap: 1.5rem; }}
figure {{ margin: 0; }} figure > svg {{ border: 1px solid #c8ccd1; }} svg text {{ font: 12px system-ui, sans-serif; }}
</style></head>
<body><h1>{title}</h1>
<main>
{figures}
</main>
<p>{legend}</p><p>{note}</p>
</body></html>
"""
