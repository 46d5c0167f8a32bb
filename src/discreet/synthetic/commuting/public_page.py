"""The public page of a commuting map: choose a place of work, see where its people live. From the release alone."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from discreet.curator.answer import Receipt
from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import plain
from discreet.report import Facts, Grid, Heading, Html, Page, Part, Text, embedded
from discreet.report.page import render, shown
from discreet.synthetic.commuting.evaluation import CONFIDENCE, CountBounds, total_bound
from discreet.synthetic.commuting.flows import Floats, Flows, Places, Scheme
from discreet.synthetic.commuting.synthesis import Support, region_of_places

MOST_PLACES = 1_000
"""Of a page: it has every flow in it."""

_CONFIDENCE = f"{100 * CONFIDENCE:.0f} %"
_WIDTH, _TALLEST = 720.0, 900.0
_MARGIN = 26.0
"""Of the picture, around the points of places: more than the radius of the largest dot."""

_TITLES = ("name", "title", "label", "namelsad")


@dataclass(frozen=True, eq=False)
class Outlines:
    """Outlines of places, from the polygons of a GeoJSON file.

    >>> square = {"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1], [0, 0]]]}
    >>> feature = {"type": "Feature", "properties": {"code": 7, "name": "Springfield"}, "geometry": square}
    >>> outlines = Outlines.read({"features": [feature]}, Places(["7", "8"], [[0, 0], [1, 1]], degrees=True))
    >>> list(outlines.geometries), outlines.titles
    (['7'], {'7': 'Springfield'})
    """

    geometries: Mapping[str, Mapping[str, Any]]
    titles: Mapping[str, str]

    @classmethod
    def read(cls, source: str | Path | Mapping[str, Any], places: Places) -> "Outlines":
        """Those of the places; they are named by the property, or the id, that knows most of the places."""
        if not places.degrees:
            raise InvalidParameter("outlines", "places in km", "places with latitude and longitude, as GeoJSON has")
        features = [part for part in _features(source) if _is_polygon(part.get("geometry"))]
        known, best, key = set(places.names), 0, ""
        rows = [{"id": part.get("id"), **(part.get("properties") or {})} for part in features]
        for name in dict.fromkeys(name for row in rows for name in row):
            matches = len(known & {str(row.get(name)) for row in rows})
            best, key = (matches, name) if matches > best else (best, key)
        if not best:
            raise InvalidData("outlines: no polygon is named like a place, in its id or in a property")
        named = {
            str(row[key]): (row, part) for row, part in zip(rows, features, strict=True) if row.get(key) is not None
        }
        titles = {}
        for name in known & set(named):
            texts = {title.casefold(): text for title, text in named[name][0].items() if isinstance(text, str)}
            title = next((texts[title] for title in _TITLES if title in texts), name)
            titles[name] = title if title != name else ""
        geometries = {name: named[name][1]["geometry"] for name in places.names if name in named}
        return cls(geometries, {name: titles[name] for name in geometries if titles[name]})


def _features(source: str | Path | Mapping[str, Any]) -> list[dict[str, Any]]:
    try:
        document = source if isinstance(source, Mapping) else json.loads(Path(source).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not JSON in UTF-8"
        raise InvalidData(f"outlines: cannot read {source}: {reason}") from None
    features = document.get("features") if isinstance(document, Mapping) else None
    if not isinstance(features, list) or not all(isinstance(part, dict) for part in features):
        raise InvalidData("outlines: expected a GeoJSON FeatureCollection")
    return features


def _is_polygon(geometry: Any) -> bool:
    """Whether it is a polygon, or several, whose points are finite longitudes and latitudes."""
    try:
        rings = _rings(geometry)
        return bool(rings) and all(len(ring) > 2 and bool(np.isfinite(ring).all()) for ring in rings)
    except (TypeError, ValueError, KeyError, IndexError, AttributeError):
        return False


def _rings(geometry: Mapping[str, Any]) -> list[Floats]:
    """The rings of one or several polygons, as longitudes and latitudes."""
    polygons = {"Polygon": [geometry["coordinates"]], "MultiPolygon": geometry["coordinates"]}[geometry["type"]]
    return [np.array([point[:2] for point in ring], np.float64) for polygon in polygons for ring in polygon]


@dataclass(frozen=True, eq=False)
class PublicMap:
    """A released map with error bands, as a page, a table and GeoJSON. Nothing here reads a private row."""

    flows: Flows
    scheme: Scheme
    receipt: Receipt
    table_name: str
    plan_digest: str
    outlines: Outlines | None = None

    @cached_property
    def _bounds(self) -> list[CountBounds]:
        """Of each destination, in the order of `flows.destinations`."""
        flows, scheme = self.flows, self.scheme
        results = []
        for end in flows.destinations.tolist():
            support, (origins, people) = self._support(end), flows.to(end)
            cells = support.counted(flows.places, origins, people)
            results.append(CountBounds.of_cells(scheme, cells=len(cells), positive=int((cells > 0).sum())))
        return results

    def _support(self, end: int) -> Support:
        flows, scheme = self.flows, self.scheme
        regions = None if scheme.groups is None else region_of_places(flows.places, scheme)
        return Support.of(flows.places, end, scheme, regions)

    def table(self) -> Any:
        """origin, destination, people, low, high, km: an Arrow table.

        The true number is from `low` to `high` with 95 % confidence. Both are null where origins were put together and
        people spread among them.
        """
        import pyarrow

        flows, table = self.flows, self.flows.table()
        where = np.searchsorted(flows.destinations, flows.destination)
        low = np.maximum(flows.people - np.array([part.below for part in self._bounds], np.int64)[where], 0)
        high = flows.people + np.array([part.above for part in self._bounds], np.int64)[where]
        if self.scheme.coarse:
            low = high = pyarrow.nulls(len(where), pyarrow.int64())
        ends = flows.destinations.tolist()
        km = [flows.places.distances(end, flows.to(end)[0]) for end in ends]
        columns = {"low": low, "high": high, "km": np.round(np.concatenate([np.zeros(0), *km]), 2)}
        for name, values in columns.items():
            table = table.append_column(name, pyarrow.array(values))
        return table

    def geojson(self) -> dict[str, Any]:
        """Every flow as a line from home to work, with the columns of the table as properties."""
        places = self.flows.places
        if not places.degrees:
            raise InvalidParameter("geojson", "places in km", "places with latitude and longitude")
        points = dict(zip(places.names, np.round(places.points[:, ::-1], 6).tolist(), strict=True))
        features = [
            {
                "type": "Feature",
                "properties": row,
                "geometry": {"type": "LineString", "coordinates": [points[row["origin"]], points[row["destination"]]]},
            }
            for row in self.table().to_pylist()
        ]
        return {"type": "FeatureCollection", "features": features}

    def page(self) -> Page:
        """The page: a list and a map to choose from, counts with their bands, downloads, what was paid."""
        flows, receipt = self.flows, self.receipt
        if len(flows.places) > MOST_PLACES:
            raise InvalidParameter("places", len(flows.places), f"at most {MOST_PLACES:,} on a page")
        paid = {
            "ε": plain(self.scheme.epsilon),
            "δ": plain(self.scheme.delta),
            "released": receipt.when[:10] or "–",
            "receipt": f"charge #{receipt.charge} of {receipt.dataset}" if receipt.charge else str(receipt),
            "plan": self.plan_digest[:16],
        }
        table = render([self._destinations()])
        facts = dict(line.split(None, 1) for line in self.scheme.explain().splitlines())
        parts: list[Part] = [
            Html(_CONTROLS),
            embedded("flows", self._document()),
            Heading("Before you use it"),
            *map(Text, self._caveats()),
            Heading("How it was made"),
            Facts(paid | facts),
            Heading("All places of work"),
            Html(f"<details><summary>{len(flows.destinations)} places</summary>{table}</details>"),
        ]
        lead = (
            "Where the people of each place of work live. Nobody here exists: differentially private; safe to publish."
        )
        return Page(f"Commuting map: {self.table_name}", parts, lead, _asset("public_page.js"))

    def _caveats(self) -> list[str]:
        scheme = self.scheme
        if scheme.hubs is not None:
            bands = "Origins were put together around hubs and people spread among them: counts have no bands."
        elif scheme.coarse:
            bands = (
                "Origins were put together and people spread among them: bands are of the sums, not of single places."
            )
        else:
            bands = (
                f"A band has the true number in it with {_CONFIDENCE} confidence. It covers the noise, and not what"
                " the data themselves miss. Of many bands, some are wrong."
            )
        texts = [bands, "Small counts are mostly noise: a place with a band from 0 may have nobody."]
        texts.append("Distances are between the points of places, as the crow flies, averaged over synthetic people.")
        if scheme.cap is not None:
            texts.append(f"Whoever lives more than {plain(scheme.cap)} km away counts at the nearest place within.")
        texts.append("People whose home or work is no place of the map, or is missing, are not counted.")
        return texts

    def _destinations(self) -> Grid:
        flows, slack = self.flows, total_bound(self.scheme)
        rows: list[list[Any]] = []
        for end in flows.destinations.tolist():
            origins, people = flows.to(end)
            total, here = int(people.sum()), int(people[origins == end].sum())
            km = float(np.average(flows.places.distances(end, origins), weights=people))
            band = f"{shown(max(total - slack, 0))} to {shown(total + slack)}"
            rows.append([self._title(flows.places.names[end]), total, band, f"{km:.1f}", f"{100 * here / total:.0f} %"])
        rows.sort(key=lambda row: -row[1])
        return Grid(["place of work", "people", _CONFIDENCE, "mean km", "live there"], rows)

    def _title(self, name: str) -> str:
        title = "" if self.outlines is None else self.outlines.titles.get(name, "")
        return f"{title} ({name})" if title else name

    def _document(self) -> dict[str, Any]:
        """What the script draws from."""
        flows = self.flows
        places, scheme, ends = flows.places, self.scheme, flows.destinations.tolist()
        points, shapes, height = self._drawn()
        rows: dict[int, dict[str, Any]] = {}
        for end, bound in zip(ends, self._bounds, strict=True):
            origins, people = flows.to(end)
            km = np.round(places.distances(end, origins), 2)
            rows[end] = {"from": origins.tolist(), "people": people.tolist(), "km": km.tolist()}
            rows[end] |= {"below": bound.below, "above": bound.above}
            if scheme.coarse and scheme.hubs is None:
                rows[end]["sums"] = self._sums(end, bound)
        return {
            "names": list(places.names),
            "titles": [self._title(name) for name in places.names],
            "coordinates": np.round(places.points[:, ::-1] if places.degrees else places.points, 6).tolist(),
            "degrees": places.degrees,
            "points": np.round(points, 1).tolist(),
            "shapes": shapes,
            "geometries": {} if self.outlines is None else {name: self.outlines.geometries[name] for name in shapes},
            "height": height,
            "total": total_bound(scheme),
            "bands": not scheme.coarse,
            "ends": rows,
        }

    def _sums(self, end: int, bound: CountBounds) -> list[list[Any]]:
        """Of the groups of origins that noise was added to: words, people and the band."""
        flows, support, scheme = self.flows, self._support(end), self.scheme
        counts = support.counted(flows.places, *flows.to(end))
        region = dict(scheme.groups or ())
        edges = ["0", *(plain(edge) for edge in scheme.bands or ()), "∞"]
        km, rows = flows.places.distances(end), []
        for group, people in enumerate(counts.tolist()):
            some = support.places[support.group == group]
            if scheme.bands is not None:
                band = int(np.searchsorted([float(edge) for edge in scheme.bands], km[some[0]], side="right"))
                words = (
                    f"more than {edges[band]} km"
                    if edges[band + 1] == "∞"
                    else f"{edges[band]} to {edges[band + 1]} km"
                )
            else:
                words = "the place itself" if some[0] == end else region[flows.places.names[some[0]]]
            rows.append([words, people, max(people - bound.below, 0), people + bound.above])
        return rows

    def _drawn(self) -> tuple[Floats, dict[str, str], float]:
        """Where places stand on the picture, paths of their outlines, and the picture's height."""
        places = self.flows.places
        geometries = {} if self.outlines is None else self.outlines.geometries
        rings = {name: _rings(geometry) for name, geometry in geometries.items()}
        points = places.points[:, ::-1].copy() if places.degrees else places.points.copy()
        every = np.concatenate([points, *(ring for parts in rings.values() for ring in parts)])
        low, high = every.min(axis=0), every.max(axis=0)
        squeeze = float(np.cos(np.radians((low[1] + high[1]) / 2))) if places.degrees else 1.0
        span = np.maximum((high - low) * [squeeze, 1.0], 1e-9)
        scale = min((_WIDTH - 2 * _MARGIN) / span[0], (_TALLEST - 2 * _MARGIN) / span[1])
        height = float(round(span[1] * scale + 2 * _MARGIN))
        left = (_WIDTH - span[0] * scale) / 2

        def place(at: Floats) -> Floats:
            x, y = ((at - low) * [squeeze, 1.0] * scale).T
            return np.column_stack([x + left, height - _MARGIN - y])

        return (
            place(points),
            {name: "".join(_path(place(ring)) for ring in parts) for name, parts in rings.items()},
            height,
        )


def _asset(name: str) -> str:
    return files("discreet.synthetic.commuting").joinpath(name).read_text(encoding="utf-8")


def _path(ring: Floats) -> str:
    """A ring as an SVG path; points within half a pixel of the last one are left out."""
    kept = [ring[0]]
    for point in ring[1:]:
        if abs(point - kept[-1]).max() >= 0.5:
            kept.append(point)
    return "M" + "L".join(f"{x:.1f},{y:.1f}" for x, y in kept) + "Z"


_CONTROLS = f"""<style>{_asset("public_page.css")}</style>
<noscript><p class="note">This page needs JavaScript to draw; all places of work are in the table below.</p></noscript>
<div class="map" id="map" hidden>
<p><label for="place">Place of work</label> <select id="place"></select></p>
<div class="tiles" id="tiles" aria-live="polite"></div>
<div class="drawing"><div id="picture"></div><ul id="legend" class="legend"></ul></div>
<p class="soft" id="hint">Choose a place in the list, or on the map.</p>
<h3 id="where"></h3>
<div class="wide"><table class="grid"><thead id="head"></thead><tbody id="rows"></tbody></table></div>
<p><button type="button" id="more" hidden></button></p>
<p class="downloads">Download: <a id="csv" href="#" download>this place, CSV</a>
<a id="geojson" href="#" download>this place, GeoJSON</a> <a id="all" href="#" download>all flows, CSV</a></p>
</div>"""
