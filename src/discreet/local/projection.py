"""The transverse Mercator projection of the WGS84 ellipsoid (Krüger 1912; Karney 2011), and its inverse."""

import math

import numpy as np
from numpy.typing import NDArray

from discreet.earth import angle_between

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
