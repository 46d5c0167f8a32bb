"""Areas: the projection against known values, cells, and points that are no places."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.errors import InvalidData, InvalidParameter
from discreet.local.places.areas import Area, forward

NAN, INF = math.nan, math.inf
F = Fraction


def degrees(d: int, m: int, s: float) -> float:
    return math.copysign(abs(d) + m / 60 + s / 3600, d)


# The worked example of the GDA94 technical manual (GRS80, whose axes differ from WGS84's by less than 0.1 mm here)
FLINDERS = degrees(-37, 57, 3.72030), degrees(144, 25, 29.52440)
BUNINYON = degrees(-37, 39, 10.15610), degrees(143, 55, 35.38390)


@pytest.mark.parametrize(
    ("place", "easting", "northing"), [(FLINDERS, 273741.297, 5796489.777), (BUNINYON, 228854.052, 5828259.038)]
)
def test_surveyed_points(place, easting, northing):
    """Map grid of Australia, zone 55: central meridian 147°, factor 0.9996, false origin 500 km, 10 000 km."""
    x, y = forward(np.array([place[0]]), np.array([place[1] - 147]))
    assert float(x[0]) * 999.6 + 500_000 == pytest.approx(easting, abs=0.001)
    assert float(y[0]) * 999.6 + 10_000_000 == pytest.approx(northing, abs=0.001)


@pytest.mark.parametrize("latitude", [0.0, 1.0, 37.7855, 60.0, 89.0, 90.0, -45.0])
def test_the_meridian_has_its_true_length(latitude):
    """∫ a(1 − e²)/(1 − e² sin²φ)^(3/2) dφ by quadrature; the quarter is 10 001.965729 km."""
    e2 = mpmath.mpf("0.00669437999014131699614")
    arc = mpmath.quad(
        lambda phi: mpmath.mpf("6378.137") * (1 - e2) / (1 - e2 * mpmath.sin(phi) ** 2) ** 1.5,
        [0, math.radians(latitude)],
    )
    _, y = forward(np.array([latitude]), np.zeros(1))
    assert float(y[0]) == pytest.approx(float(arc), abs=1e-9)
    if latitude == 90:
        assert float(y[0]) == pytest.approx(10001.965729, abs=1e-6)


def test_a_surveyed_distance_is_not_longer_on_the_map():
    """Flinders Peak to Buninyong: 54 972.271 m on the ellipsoid."""
    area = Area.around(-37.8, 144.175, width=100, height=100, cell=1)
    points = area.project(*np.array([FLINDERS, BUNINYON]).T)
    away = float(np.hypot(*(points[0] - points[1])))
    assert away <= 54.972271 < away * (1 + 2e-4)


@pytest.mark.parametrize(
    "center", [(37.7855, -122.4075), (0.0, 180.0), (89.9, 10.0), (90.0, 0.0), (-90.0, 0.0), (-60.0, -179.9)]
)
@pytest.mark.parametrize("side", [3, 300, 700])
def test_there_and_back(center, side):
    area = Area.around(*center, width=side, height=side, cell=Fraction(side, 100))
    rng = np.random.default_rng(7)
    points = rng.uniform(0, side, (500, 2))
    latitude, longitude = area.unproject(points)
    assert np.abs(area.project(latitude, longitude) - points).max() < 1e-7  # at a pole a degree has 14 digits left
    assert (np.abs(latitude) <= 90).all()
    assert (np.abs(longitude) <= 180).all()
    found, expected = area.locate(latitude, longitude), area.cells_of(points)
    assert (found.malformed, found.outside) == (0, 0)
    assert (found.cells == expected.cells).mean() > 0.999


@given(st.floats(-80, 80), st.floats(-180, 180), st.integers(1, 700), st.integers(0, 2**32 - 1))
def test_the_map_never_lengthens(latitude, longitude, side, seed):
    """Short steps in the area are at most as long on the map as on the ellipsoid, and shorter by less than 2 r²/R²."""
    area = Area.around(latitude, longitude, width=side, height=side, cell=side)
    rng = np.random.default_rng(seed)
    start = rng.uniform(0, side, (50, 2))
    lat, lon = area.unproject(start)
    step = rng.normal(size=(50, 2)) * 1e-5  # degrees: about a meter
    other = area.project(lat + step[:, 0], np.clip(lon + step[:, 1], -180, 180))
    moved = np.stack([step[:, 0], np.clip(lon + step[:, 1], -180, 180) - lon])
    middle = np.radians(lat + moved[0] / 2)
    e2 = 0.0066943799901413165
    bend = 1 - e2 * np.sin(middle) ** 2
    north = np.radians(moved[0]) * 6378.137 * (1 - e2) / bend**1.5
    east = np.radians(moved[1]) * 6378.137 / np.sqrt(bend) * np.cos(middle)
    ground, drawn = np.hypot(north, east), np.hypot(*(other - start).T)
    assert (drawn <= ground * (1 + 1e-6) + 1e-9).all()
    reach = side / math.sqrt(2)
    assert (drawn >= ground * (1 - 2 * (reach / 6335) ** 2 - 1e-6) - 1e-9).all()


def test_cells_are_numbered_from_the_south_west():
    area = Area.around(45, 7, width=3, height=2, cell=1)
    assert area.shape == (2, 3)
    latitude, longitude = area.unproject(area.centers())
    assert area.locate(latitude, longitude).cells.tolist() == list(range(6))
    assert latitude[3] > latitude[0]
    assert longitude[1] > longitude[0]
    assert area.centers([4]).tolist() == [[1.5, 1.5]]
    assert area.distance(0, 5) == pytest.approx(math.hypot(1, 2))


@pytest.mark.parametrize(
    ("latitude", "longitude", "malformed", "outside"),
    [
        (NAN, 7, 1, 0),
        (45, NAN, 1, 0),
        (INF, 7, 1, 0),
        (45, -INF, 1, 0),
        (90.001, 7, 1, 0),
        (45, 180.5, 1, 0),
        (None, 7, 1, 0),
        ("north", 7, 1, 0),
        (10**400, 7, 1, 0),
        (90, 7, 0, 1),
        (-90, 0, 0, 1),
        (45, -173, 0, 1),  # on the other side of the earth
        (0, 97, 0, 1),  # where the projection has no end
        (45, 7.1, 0, 1),
        ("45.0", "7.0", 0, 0),
        (45, 7, 0, 0),
    ],
)
def test_odd_points_are_counted_and_never_crash(latitude, longitude, malformed, outside):
    area = Area.around(45, 7, width=2, height=2, cell=1)
    found = area.locate([latitude, 45.001], [longitude, 7.001])
    assert (found.malformed, found.outside) == (malformed, outside)
    assert found.cells[1] == 3
    assert len(found.kept) == 2 - malformed - outside
    clamped = area.locate(np.array([latitude], object), np.array([longitude], object), outside="clamp")
    assert clamped.malformed == malformed
    assert (clamped.cells >= -1).all()


@given(st.lists(st.tuples(st.floats(), st.floats()), max_size=30))
def test_any_floats_are_placed_or_counted(pairs):
    area = Area.around(-17, 179.9, width=50, height=30, cell=10)
    points = np.array(pairs, float).reshape(-1, 2)
    found = area.locate(points[:, 0], points[:, 1])
    assert len(found.kept) + found.malformed + found.outside == len(pairs)
    plain = area.cells_of(points)
    assert len(plain.kept) + plain.malformed + plain.outside == len(pairs)


def test_across_the_date_line():
    area = Area.between(south=-18.2, west=178.9, north=-17.2, east=-178.9, cell=5)
    assert area.center == (pytest.approx(-17.7), -180.0)
    found = area.locate([-18.2, -17.2, -18.2, -17.7, -17.7], [178.9, -178.9, -178.9, 180, -180])
    assert (found.malformed, found.outside) == (0, 0)
    assert found.cells[3] == found.cells[4]


def test_across_the_pole():
    """Two points on either side of the pole, 1 km from it, are 2 km apart."""
    area = Area.around(90, 0, width=4, height=4, cell=1)
    one_km = math.degrees(1 / 6399.5936)  # a/√(1 − e²), the radius of curvature at the pole
    points = area.project([90 - one_km, 90 - one_km, 90, 90], [0, 180, 33, -120])
    assert float(np.hypot(*(points[0] - points[1]))) == pytest.approx(2, abs=1e-6)
    assert np.abs(points[2:] - 2).max() < 1e-8


def test_a_box_between_corners_holds_them():
    area = Area.between(south=37.77, west=-122.43, north=37.80, east=-122.39, cell="0.1")
    corners = area.locate([37.77, 37.77, 37.80, 37.80], [-122.43, -122.39, -122.43, -122.39])
    assert corners.outside == 0
    assert area.width == pytest.approx(3.6, abs=0.1)
    assert area.height == pytest.approx(3.4, abs=0.1)


def test_the_border_belongs_to_the_area():
    area = Area.plane(width="0.3", height="0.3", cell="0.1")
    found = area.cells_of([[0, 0], [0.3, 0.3], [0.3, 0], [0.1, 0.2], [0.3001, 0], [-1e-12, 0]])
    assert found.cells.tolist() == [0, 8, 2, 7, -1, -1]
    assert found.outside == 2


def test_clamping_brings_no_two_points_further_apart():
    area = Area.plane(width=5, height=3, cell=1)
    rng = np.random.default_rng(3)
    points = rng.normal(size=(200, 2)) * 6
    cells = area.cells_of(points, outside="clamp").cells
    assert (cells >= 0).all()
    moved = area.centers(cells)
    before = np.hypot(*(points[:, None] - points).transpose(2, 0, 1))
    after = np.hypot(*(moved[:, None] - moved).transpose(2, 0, 1))
    assert (after <= before + float(area.slack)).all()
    assert float(area.slack) == pytest.approx(math.sqrt(2), abs=1e-5)


@given(st.floats(-70, 70), st.integers(1, 300), st.integers(0, 2**32 - 1))
def test_places_clamped_from_outside_keep_their_distances(latitude, side, seed):
    """Cells of clamped places are at most the great-circle distance and `slack` apart (0.6 % for the ellipsoid)."""
    area = Area.around(latitude, 12, width=side, height=side, cell=F(side, 50))
    rng = np.random.default_rng(seed)
    lat = latitude + rng.uniform(-0.6, 0.6, 60)
    lon = 12 + rng.uniform(-0.6, 0.6, 60) / np.cos(np.radians(latitude))
    found = area.locate(lat, lon, outside="clamp")
    assert (found.malformed, found.outside) == (0, 0)
    phi, lam = np.radians(lat), np.radians(lon)
    half = (
        np.sin((phi[:, None] - phi) / 2) ** 2
        + np.cos(phi[:, None]) * np.cos(phi) * np.sin((lam[:, None] - lam) / 2) ** 2
    )
    ground = 2 * np.arcsin(np.sqrt(half)) * 6371.0 * 1.006
    centers = area.centers(found.cells)
    drawn = np.hypot(*(centers[:, None] - centers).transpose(2, 0, 1))
    assert (drawn <= ground + float(area.slack)).all()
    assert area.locate([latitude + 9], [12], outside="clamp").outside == 1


def test_slack_is_a_diagonal_and_little_more():
    city = Area.around(37.7855, -122.4075, width=3, height=3, cell="0.1")
    assert 0 < float(city.slack) - 0.1 * math.sqrt(2) < 0.001
    region = Area.around(37.7855, -122.4075, width=600, height=600, cell=10)
    assert 0 < float(region.slack) - 10 * math.sqrt(2) < 2


def test_counts():
    area = Area.plane(width=2, height=2, cell=1)
    assert area.counts([0, 3, 3, -1]).tolist() == [1, 0, 0, 2]
    assert area.counts([0, 3, -1], [5, 2**40, 7]).tolist() == [5, 0, 0, 2**40]
    assert area.counts([]).tolist() == [0, 0, 0, 0]
    for bad in ([4], [-2], [0.5], [[0]]):
        with pytest.raises(InvalidData):
            area.counts(bad)
    for weights in ([1, 2], [-1], [0.5]):
        with pytest.raises(InvalidData):
            area.counts([0], weights)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Area.around(91, 0, width=1, height=1, cell=1),
        lambda: Area.around(NAN, 0, width=1, height=1, cell=1),
        lambda: Area.around(0, 181, width=1, height=1, cell=1),
        lambda: Area.around(0, 0, width=0, height=1, cell=1),
        lambda: Area.around(0, 0, width=1, height=1, cell=-1),
        lambda: Area.around(0, 0, width=1, height=1, cell="1e-6"),
        lambda: Area.around(0, 0, width=1500, height=1, cell=10),
        lambda: Area.between(south=1, west=0, north=0, east=1, cell=1),
        lambda: Area.between(south=0, west=1, north=1, east=1, cell=1),
        lambda: Area.between(south=-80, west=-170, north=80, east=170, cell=10),
        lambda: Area(rows=True, columns=1, cell=1),
        lambda: Area.plane(width=1, height=1, cell=1).project([0], [0]),
        lambda: Area.plane(width=1, height=1, cell=1).cells_of([[0, 0]], outside="drop"),
    ],
)
def test_areas_that_cannot_be(make):
    with pytest.raises(InvalidParameter):
        make()


@pytest.mark.parametrize("places", [([0, 1], [0]), ([[0]], [[0]]), ([[0], [1, 2]], [0, 1])])
def test_misshapen_lists_are_refused(places):
    with pytest.raises(InvalidData):
        Area.around(0, 0, width=1, height=1, cell=1).locate(*places)
    with pytest.raises(InvalidData):
        Area.plane(width=1, height=1, cell=1).cells_of([[1, 2, 3]])
