"""Areas: a rectangle on the map, cut into square cells; latitude and longitude to kilometers, cells, and back.

The map is the transverse Mercator projection of the WGS84 ellipsoid about the meridian of the area's center (Krüger
1912, series in the third flattening n to n⁴; Karney 2011, eqs. 7–11, 35–36), multiplied by a factor just below 1.

Its error. The series is cut at n⁵ ≈ 1.3e-14: below a micrometer within 500 km of the center, the largest area that is
accepted. A conformal map cannot keep all lengths: at x km from the central meridian they are drawn
1 + x²/2R² + … times too long, R ≈ 6371 km: 3e-8 in a city of 3 km, 3e-5 in 100 km, 3e-3 in 1000 km. The factor
1 − r²/R², r half the area's diagonal, makes all of them a little too short instead.

Guarantee: for two points of an area, the distance on the map is at most the distance on the ground (`Area.slack` holds
the micrometers of rounding); so what is ε-private for each km of the map is ε-private for each km of the ground.
Proof. The geodesic between them is drawn as a curve at least as long as the straight line on the map. Along it the
scale is at most 1 + x²/2R² + x⁴/24R⁴ …, |x| ≤ 1.01r since geodesics of at most 2r leave the rectangle by less than
r²·x/2R² < 0.01r; and (1 + x²/2R² + x⁴/24R⁴)(1 − r²/R²) < 1 for R ≥ 6335 km, the least radius of curvature.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import Number, plain, rational, sqrt_bounds
from discreet.fields import Converted, Integer, Rational
from discreet.geo import angle_between

Integers = NDArray[np.int64]
Outside = Literal["reject", "clamp"]
Center = tuple[float, float]

_MOST_CELLS = 4_000_000
_WIDEST = 500  # km from the center to a corner
_ROUNDING = Fraction(1, 10**6)  # km: one millimeter, far above the rounding of projections in floats
_SHORTEST_RADIUS = 6335.439  # km: a(1 − e²), of the meridian at the equator
Floats = NDArray[np.float64]
_RADIUS = 6378.137  # km, WGS84
_FLATTENING = 1 / 298.257223563
_N = _FLATTENING / (2 - _FLATTENING)
_ECCENTRICITY = math.sqrt(_FLATTENING * (2 - _FLATTENING))
_RECTIFYING = _RADIUS / (1 + _N) * (1 + _N**2 / 4 + _N**4 / 64)
_ALPHA = (
    _N / 2 - _N**2 * 2 / 3 + _N**3 * 5 / 16 + _N**4 * 41 / 180,
    _N**2 * 13 / 48 - _N**3 * 3 / 5 + _N**4 * 557 / 1440,
    _N**3 * 61 / 240 - _N**4 * 103 / 140,
    _N**4 * 49561 / 161280,
)
_BETA = (
    _N / 2 - _N**2 * 2 / 3 + _N**3 * 37 / 96 - _N**4 / 360,
    _N**2 / 48 + _N**3 / 15 - _N**4 * 437 / 1440,
    _N**3 * 17 / 480 - _N**4 * 37 / 840,
    _N**4 * 4397 / 161280,
)


@dataclass(frozen=True, slots=True)
class Located:
    """Points as cells, and how many could not be placed.

    `cells` has one entry a point: its cell, or −1 where it was refused. `malformed` counts points that are not places
    at all (NaN, infinite, latitude beyond ±90°, longitude beyond ±180°, text), `outside` those beyond the area.
    """

    cells: Integers
    malformed: int
    outside: int

    @property
    def kept(self) -> Integers:
        """The cells of the points that were placed, in their order."""
        return self.cells[self.cells >= 0]


@dataclass(frozen=True, kw_only=True)
class Area:
    """A rectangle of rows × columns square cells of `cell` km. Cell 0 is in the south-west, the next one east of it.

    Kilometers are counted from the south-west corner: x to the east, y to the north. An area about a latitude and
    longitude reads places in degrees; a plain one (`Area.plane`) reads kilometers only.

    >>> city = Area.around(37.7855, -122.4075, width=3, height=3, cell="0.1")
    >>> city.shape, city.size, city.locate([37.7855, 91, 0], [-122.4075, 0, 0])
    ((30, 30), 900, Located(cells=array([465,  -1,  -1]), malformed=1, outside=1))
    """

    rows: Integer = Integer(at_least=1)
    columns: Integer = Integer(at_least=1)
    cell: Rational = Rational(above=0)
    center: Converted[Center | None, Center | None] = Converted(
        lambda center, _: None if center is None else _center(*center), default=None
    )

    def __post_init__(self) -> None:
        if self.size > _MOST_CELLS:
            expected = f"at most {_MOST_CELLS:,} cells (got {self.size:,})"
            raise InvalidParameter("cell", plain(self.cell), expected, "use larger ones")
        if self.center is not None and self._reach > _WIDEST:
            raise InvalidParameter(
                "area", f"{2 * self._reach:.0f} km from corner to corner", f"at most {2 * _WIDEST} km"
            )

    @classmethod
    def around(cls, latitude: float, longitude: float, *, width: Number, height: Number, cell: Number) -> "Area":
        """The area of this width and height (km) about a place; both are grown to whole cells.

        >>> Area.around(48.86, 2.34, width=3, height="2.95", cell="0.1").shape
        (30, 30)
        """
        rows, columns = _whole_cells(height, cell, "height"), _whole_cells(width, cell, "width")
        return cls(rows=rows, columns=columns, cell=cell, center=(latitude, longitude))

    @classmethod
    def between(cls, *, south: float, west: float, north: float, east: float, cell: Number) -> "Area":
        """The smallest area of whole cells that holds the box between two corners in degrees.

        A box whose west is greater than its east lies across the date line.

        >>> Area.between(south=-18.2, west=178.9, north=-17.2, east=-178.9, cell=5).shape
        (23, 47)
        """
        (south, west), (north, east) = _center(south, west), _center(north, east)
        if not south < north or west == east:
            raise InvalidParameter("corners", (south, west, north, east), "south < north and west ≠ east")
        span = (east - west) % 360
        center = ((south + north) / 2, (west + span / 2 + 180) % 360 - 180)
        steps = np.linspace(0, 1, 33)
        latitudes = np.concatenate([np.full(33, south), np.full(33, north), south + (north - south) * steps])
        longitudes = np.concatenate([west + span * steps, west + span * steps, np.full(33, west)])
        if np.max(angle_from(latitudes, longitudes, center)) * 6371 > _WIDEST:
            raise InvalidParameter("corners", (south, west, north, east), f"at most {2 * _WIDEST} km apart")
        x, y = transverse_mercator(latitudes, longitudes, center)  # the east side mirrors the west side
        height, width = 2 * np.max(np.abs(y)), 2 * np.max(np.abs(x))
        return cls.around(*center, width=float(width), height=float(height), cell=cell)

    @classmethod
    def plane(cls, *, width: Number, height: Number, cell: Number) -> "Area":
        """An area without a place on earth, for points that are already in kilometers.

        >>> Area.plane(width=3, height=2, cell="0.5").cells_of([[0.1, 0.1], [2.9, 1.9]]).cells
        array([ 0, 23])
        """
        return cls(rows=_whole_cells(height, cell, "height"), columns=_whole_cells(width, cell, "width"), cell=cell)

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns)."""
        return self.rows, self.columns

    @property
    def size(self) -> int:
        """How many cells there are."""
        return self.rows * self.columns

    @property
    def width(self) -> Fraction:
        """From west to east, in km."""
        return self.columns * self.cell

    @property
    def height(self) -> Fraction:
        """From south to north, in km."""
        return self.rows * self.cell

    @property
    def slack(self) -> Fraction:
        """What replacing two places by the centers of their cells may add to their distance, in km: a cell's diagonal.

        Each place moves by at most half a diagonal. Places outside that are clamped may lie where the map lengthens by
        1 + s, s ≤ x²/2R² − r²/R² for x within `_clamped_from`; as clamped places are at most 2r apart, that adds
        min((1 + s)d, 2r) − d ≤ 2rs: half a meter in a city. One millimeter is added for rounding in floats.
        """
        diagonal = self.cell * Fraction(sqrt_bounds(Fraction(2), 32)[1], 1 << 32)
        if self.center is None:
            return diagonal + _ROUNDING
        longer = 0.55 * (self._clamped_from / _SHORTEST_RADIUS) ** 2 - (self._reach / _SHORTEST_RADIUS) ** 2
        return diagonal + _ROUNDING + Fraction(math.ceil(2 * self._reach * max(longer, 0) * 10**6), 10**6)

    # Degrees and kilometers

    def project(self, latitude: ArrayLike, longitude: ArrayLike) -> Floats:
        """Places in degrees as points in km from the south-west corner, shape (n, 2): x east, y north.

        NaN where a place is malformed or so far away that the map does not reach it.

        >>> city = Area.around(60, 25, width=10, height=10, cell=1)
        >>> city.project([60, 61], [25, 200]).tolist()
        [[5.0, 5.0], [nan, nan]]
        """
        places, good = _places(latitude, longitude)
        return self._projected(places, good)

    def unproject(self, points: ArrayLike) -> tuple[Floats, Floats]:
        """Latitudes and longitudes of points in km from the south-west corner.

        >>> latitude, longitude = Area.around(60, 25, width=8, height=8, cell=1).unproject([[4, 4]])
        >>> round(float(latitude[0]), 9), round(float(longitude[0]), 9)
        (60.0, 25.0)
        """
        array = _pairs(points)
        center = self._place()
        factor = self._factor
        return inverse_mercator(
            (array[:, 0] - float(self.width) / 2) / factor, (array[:, 1] - float(self.height) / 2) / factor, center
        )

    def locate(self, latitude: ArrayLike, longitude: ArrayLike, *, outside: Outside = "reject") -> Located:
        """The cell of each place; see `cells_of`. Places more than some 100 km away are refused even with "clamp".

        >>> Area.around(0, 180, width=20, height=20, cell=10).locate([0.05, 0.05], [179.95, -179.95]).cells
        array([2, 3])
        """
        places, good = _places(latitude, longitude)
        points = self._projected(places, good)
        away = np.hypot(points[:, 0] - float(self.width) / 2, points[:, 1] - float(self.height) / 2)
        points[away > self._clamped_from] = np.nan
        return self._located(points, good, outside)

    # Kilometers and cells

    def cells_of(self, points: ArrayLike, *, outside: Outside = "reject") -> Located:
        """The cell of each point (km from the south-west corner, shape (n, 2)); the border belongs to the area.

        A person who sends nothing because they are outside tells that much. With outside="clamp" a point is taken to
        the nearest cell of the area instead: no two points get further apart by it (a projection on a convex set), so
        a guarantee for each km holds for people outside too (see `slack`).

        >>> Area.plane(width=2, height=2, cell=1).cells_of([[5, 1.5], [0.5, float("nan")]], outside="clamp")
        Located(cells=array([ 3, -1]), malformed=1, outside=0)
        """
        array = _pairs(points)
        good: NDArray[np.bool_] = np.isfinite(array[:, 0]) & np.isfinite(array[:, 1])
        return self._located(np.where(good[:, None], array, np.nan), good, outside)

    def counts(self, cells: ArrayLike, weights: ArrayLike | None = None) -> Integers:
        """How many points each cell has (or the sum of their whole weights); refused points (−1) are left out.

        >>> Area.plane(width=2, height=1, cell=1).counts([0, 1, 1, -1]).tolist()
        [1, 2]
        """
        array = np.asarray(cells)
        if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
            raise InvalidData("cells: expected a list of whole numbers")
        if array.size and (array.min() < -1 or array.max() >= self.size):
            raise InvalidData(f"cells: expected numbers from 0 to {self.size - 1}, or −1 for none")
        many = np.ones(array.shape, np.int64) if weights is None else np.asarray(weights)
        if many.shape != array.shape or (many.size and (many.dtype.kind not in "iu" or many.min() < 0)):
            raise InvalidData("weights: expected a whole number ≥ 0 for each cell")
        total = np.zeros(self.size + 1, np.int64)
        np.add.at(total, array.astype(np.int64), many.astype(np.int64))  # −1 is the last, which is dropped
        return total[:-1]

    def centers(self, cells: ArrayLike | None = None) -> Floats:
        """The middle of each cell (of all, or of those given) in km, shape (n, 2).

        >>> Area.plane(width=2, height=1, cell=1).centers().tolist()
        [[0.5, 0.5], [1.5, 0.5]]
        """
        chosen = np.arange(self.size) if cells is None else np.asarray(cells, np.int64)
        row, column = np.divmod(chosen, self.columns)
        return np.stack([column + 0.5, row + 0.5], axis=-1) * float(self.cell)

    def distance(self, a: int, b: int) -> float:
        """Km between the middles of two cells.

        >>> Area.plane(width=5, height=5, cell=1).distance(0, 4 * 5 + 3)
        5.0
        """
        (row, column), (other_row, other_column) = divmod(a, self.columns), divmod(b, self.columns)
        return math.hypot(row - other_row, column - other_column) * float(self.cell)

    # Inside

    @property
    def _reach(self) -> float:
        return math.hypot(float(self.width), float(self.height)) / 2

    @property
    def _clamped_from(self) -> float:
        """From how many km around the center places are clamped to the area."""
        return 1.42 * self._reach + 100

    @property
    def _factor(self) -> float:
        return 1 - (self._reach / _SHORTEST_RADIUS) ** 2

    def _place(self) -> tuple[float, float]:
        if self.center is None:
            raise InvalidParameter("area", "a plain one", "an area about a latitude and longitude", "use Area.around")
        return self.center

    def _projected(self, places: Floats, good: NDArray[np.bool_]) -> Floats:
        center = self._place()
        out = np.full((len(good), 2), np.nan)
        near = good.copy()
        near[good] = angle_from(places[good, 0], places[good, 1], center) * 6371 < 4 * _WIDEST
        x, y = transverse_mercator(places[near, 0], places[near, 1], center)
        out[near, 0] = x * self._factor + float(self.width) / 2
        out[near, 1] = y * self._factor + float(self.height) / 2
        return out

    def _located(self, points: Floats, good: NDArray[np.bool_], outside: str) -> Located:
        """Cells of points in km, −1 for NaN and, unless clamped, for points beyond the border."""
        if outside not in ("reject", "clamp"):
            raise InvalidParameter("outside", outside, "'reject' or 'clamp'")
        up, down = self.cell.denominator, self.cell.numerator
        with np.errstate(all="ignore"):
            column, row = np.floor(points * up / down).T
            inside = (points >= 0).all(axis=1) & (points[:, 0] <= float(self.width))
            inside &= points[:, 1] <= float(self.height)
        placed = ~np.isnan(points).any(axis=1) if outside == "clamp" else inside
        row = np.clip(np.where(placed, row, 0), 0, self.rows - 1).astype(np.int64)
        column = np.clip(np.where(placed, column, 0), 0, self.columns - 1).astype(np.int64)
        cells, malformed = np.where(placed, row * self.columns + column, -1), int(np.count_nonzero(~good))
        return Located(cells, malformed, int(np.count_nonzero(cells < 0)) - malformed)


# Reading


def _center(latitude: float, longitude: float) -> tuple[float, float]:
    lat = rational(latitude, "latitude", at_least=-90, at_most=90)
    return float(lat), float(rational(longitude, "longitude", at_least=-180, at_most=180))


def _whole_cells(length: Number, cell: Number, name: str) -> int:
    return math.ceil(rational(length, name, above=0) / rational(cell, "cell", above=0))


def _places(latitude: ArrayLike, longitude: ArrayLike) -> tuple[Floats, NDArray[np.bool_]]:
    """Places as (n, 2), and which of them are places at all."""
    lat, lon = _numbers(latitude), _numbers(longitude)
    if lat.ndim != 1 or lat.shape != lon.shape:
        raise InvalidData(f"places: got shapes {lat.shape} and {lon.shape}, expected two lists of one length")
    return np.stack([lat, lon], axis=1), (np.abs(lat) <= 90) & (np.abs(lon) <= 180)


def _pairs(points: ArrayLike) -> Floats:
    array = _numbers(points)
    if array.size == 0:
        return np.empty((0, 2))
    if array.ndim != 2 or array.shape[1] != 2:
        raise InvalidData(f"points: got shape {array.shape}, expected (n, 2): x and y in km")
    return array


def _numbers(values: ArrayLike) -> Floats:
    """Floats of any shape; what is no number becomes NaN, so that one bad report does not stop the others."""
    try:
        array = np.asarray(values)
    except (ValueError, TypeError, OverflowError):
        raise InvalidData("places: expected numbers in a regular array") from None
    if array.dtype.kind in "iuf":
        return array.astype(np.float64)
    return np.array([_float(value) for value in array.ravel().tolist()], np.float64).reshape(array.shape)


def _float(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return math.nan
    try:
        return float(value)
    except (ValueError, OverflowError):
        return math.nan


def transverse_mercator(latitude: Floats, longitude: Floats, center: tuple[float, float]) -> tuple[Floats, Floats]:
    """Km east and north of the center, true to scale on its meridian (Karney 2011, eqs. 7–11)."""
    x, y = forward(latitude, longitude - center[1])
    _, origin = forward(np.array([center[0]]), np.zeros(1))
    return x, y - origin


def forward(latitude: Floats, east: Floats) -> tuple[Floats, Floats]:
    """Km east of the meridian and north of the equator, for degrees east of the meridian."""
    angle = np.deg2rad(_wrapped(east))
    sine = np.sin(np.deg2rad(latitude))
    with np.errstate(divide="ignore"):  # at the poles τ' is infinite, and what follows is right
        conformal = np.sinh(np.arctanh(sine) - _ECCENTRICITY * np.arctanh(_ECCENTRICITY * sine))  # τ'
    xi = np.arctan2(conformal, np.cos(angle))
    eta = np.arcsinh(np.sin(angle) / np.hypot(conformal, np.cos(angle)))
    north = xi + sum(a * np.sin(2 * j * xi) * np.cosh(2 * j * eta) for j, a in enumerate(_ALPHA, 1))
    east_km = eta + sum(a * np.cos(2 * j * xi) * np.sinh(2 * j * eta) for j, a in enumerate(_ALPHA, 1))
    return _RECTIFYING * east_km, _RECTIFYING * north


def inverse_mercator(x: Floats, y: Floats, center: tuple[float, float]) -> tuple[Floats, Floats]:
    """Latitude and longitude of km east and north of the center (Karney 2011, eqs. 11, 19–21)."""
    _, origin = forward(np.array([center[0]]), np.zeros(1))
    xi, eta = (y + origin) / _RECTIFYING, x / _RECTIFYING
    with np.errstate(all="ignore"):  # points beyond the map become NaN
        xi_0 = xi - sum(b * np.sin(2 * j * xi) * np.cosh(2 * j * eta) for j, b in enumerate(_BETA, 1))
        eta_0 = eta - sum(b * np.cos(2 * j * xi) * np.sinh(2 * j * eta) for j, b in enumerate(_BETA, 1))
        conformal = np.sin(xi_0) / np.hypot(np.sinh(eta_0), np.cos(xi_0))
        latitude = np.rad2deg(np.arctan(_geographic(conformal)))
        longitude = center[1] + np.rad2deg(np.arctan2(np.sinh(eta_0), np.cos(xi_0)))
        return latitude, _wrapped(longitude)


def _geographic(conformal: Floats) -> Floats:
    """tan of the latitude from tan of the conformal latitude, by Newton's method (Karney 2011, eqs. 19–21)."""
    squared = _ECCENTRICITY**2
    tau = conformal / (1 - squared)
    for _ in range(5):
        size = np.hypot(1, tau)
        sigma = np.sinh(_ECCENTRICITY * np.arctanh(_ECCENTRICITY * tau / size))
        guess = tau * np.hypot(1, sigma) - sigma * size
        step = (conformal - guess) / np.hypot(1, guess) * (1 + (1 - squared) * tau**2) / ((1 - squared) * size)
        tau = tau + step
    return np.asarray(tau)


def angle_from(latitude: Floats, longitude: Floats, center: tuple[float, float]) -> Floats:
    """The angle at the center of a sphere between places and the center of the area (haversine)."""
    return angle_between(latitude, longitude, *center)


def _wrapped(degrees: Floats) -> Floats:
    """Longitudes in [−180, 180)."""
    return (degrees + 180) % 360 - 180
