"""How far places on the Earth are from each other."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

RADIUS = 6371.0088
"""The mean radius of the Earth in km (IUGG)."""


def angle_between(
    latitude: ArrayLike, longitude: ArrayLike, other_latitude: ArrayLike, other_longitude: ArrayLike
) -> NDArray[np.float64]:
    """The angle, in radians, between places given in degrees, on a sphere (haversine formula; Sinnott 1984).

    >>> from discreet.geo import RADIUS, angle_between
    >>> round(float(RADIUS * angle_between(48.8566, 2.3522, 51.5074, -0.1278)))  # from Paris to London
    344
    """
    phi, other = np.deg2rad(np.asarray(latitude, np.float64)), np.deg2rad(np.asarray(other_latitude, np.float64))
    east = np.deg2rad(np.asarray(longitude, np.float64) - np.asarray(other_longitude, np.float64))
    half = np.sin((phi - other) / 2) ** 2 + np.cos(phi) * np.cos(other) * np.sin(east / 2) ** 2
    return np.asarray(2 * np.arcsin(np.sqrt(np.clip(half, 0, 1))))
