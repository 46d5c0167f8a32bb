"""Who lives where and works where, counted: places, and the flows among them; a generated city."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import integer
from discreet.geo import RADIUS, angle_between
from discreet.noise import DeterministicEntropy
from discreet.tables import column, read_table, texts

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

DEGREES, KILOMETERS = ("latitude", "longitude"), ("x_km", "y_km")
_SHORT = {"lat": "latitude", "lon": "longitude", "lng": "longitude", "long": "longitude", "x": "x_km", "y": "y_km"}


@dataclass(frozen=True, eq=False)
class Places:
    """Public cells of a map: their names and where they are, in degrees or in km on a plane.

    >>> from discreet.synthetic.commuting.flows import Places
    >>> towns = Places(["a", "b"], [[0.0, 0.0], [3.0, 4.0]])
    >>> towns.distances(0).tolist()
    [0.0, 5.0]
    """

    names: tuple[str, ...]
    points: Floats
    degrees: bool

    def __init__(self, names: Sequence[str], points: ArrayLike, *, degrees: bool = False) -> None:
        found = np.asarray(points, np.float64)
        if found.shape != (len(names), 2) or not len(names) or not np.isfinite(found).all():
            raise InvalidData(f"places: expected two finite coordinates for each of {len(names)} names")
        if degrees and ((abs(found[:, 0]) > 90) | (abs(found[:, 1]) > 180)).any():
            raise InvalidData("places: expected latitudes from −90 to 90 and longitudes from −180 to 180")
        if len(set(names)) != len(names):
            raise InvalidData("places: a name is given twice")
        object.__setattr__(self, "names", tuple(names))
        object.__setattr__(self, "points", found)
        object.__setattr__(self, "degrees", bool(degrees))

    @classmethod
    def read(cls, table: Any, *, name: str | None = None) -> "Places":
        """From a table with a name (its first column, if not said) and latitude, longitude or x_km, y_km.

        >>> Places.read({"county": ["36001"], "lat": [42.65], "lon": [-73.9]}).degrees
        True
        """
        arrow = read_table(table, "places")
        named = {_SHORT.get(header.casefold(), header.casefold()): header for header in arrow.column_names}
        pair = next((pair for pair in (DEGREES, KILOMETERS) if set(pair) <= set(named)), None)
        if pair is None:
            expected = "columns latitude and longitude, or x_km and y_km"
            raise InvalidParameter("places", ", ".join(arrow.column_names), expected)
        names = texts(column(arrow, name or arrow.column_names[0], "places")).to_pylist()
        points = np.column_stack([_numbers(column(arrow, named[name], "places"), named[name]) for name in pair])
        return cls(names, points, degrees=pair is DEGREES)

    def __len__(self) -> int:
        return len(self.names)

    def distances(self, place: int, others: Integers | None = None) -> Floats:
        """Km from one place to others, or to all."""
        there = self.points if others is None else self.points[others]
        here = self.points[place]
        if self.degrees:
            return RADIUS * angle_between(there[:, 0], there[:, 1], here[0], here[1])
        return np.asarray(np.hypot(*(there - here).T))

    def codes(self, names: Any, what: str) -> Integers:
        """The number of each named place."""
        from pyarrow import array, compute

        found = compute.index_in(texts(names), value_set=array(self.names))
        if found.null_count:
            raise InvalidData(
                f"{what}: {found.null_count:,} values are no place of the map; add them, or drop the rows"
            )
        return np.asarray(found, np.int64)


@dataclass(frozen=True, eq=False)
class Flows:
    """How many people go from which origin to which destination; pairs without people are left out.

    >>> from discreet.synthetic.commuting.flows import Flows, Places
    >>> towns = Places(["a", "b"], [[0.0, 0.0], [3.0, 4.0]])
    >>> flows = Flows.read({"id": [1, 2, 3], "origin": ["a", "b", "b"], "destination": ["a", "a", "b"]}, towns)
    >>> flows.total, flows.to(0)
    (3, (array([0, 1]), array([1, 1])))
    """

    places: Places
    origin: Integers
    destination: Integers
    people: Integers

    def __init__(self, places: Places, origin: ArrayLike, destination: ArrayLike, people: ArrayLike) -> None:
        """Pairs may come in any order and several times."""
        pair = np.asarray(destination, np.int64) * len(places) + np.asarray(origin, np.int64)
        distinct, where = np.unique(pair, return_inverse=True)
        many = np.zeros(len(distinct), np.int64)
        np.add.at(many, where, np.asarray(people, np.int64))
        some = many > 0
        object.__setattr__(self, "places", places)
        object.__setattr__(self, "destination", distinct[some] // len(places))
        object.__setattr__(self, "origin", distinct[some] % len(places))
        object.__setattr__(self, "people", many[some])

    @classmethod
    def read(
        cls,
        table: Any,
        places: Places,
        *,
        origin: str = "origin",
        destination: str = "destination",
        people: str | None = None,
    ) -> "Flows":
        """From one row a person, or, where a column says how many `people` a row stands for, from rows of counts."""
        arrow = read_table(table, "people")
        start, end = (places.codes(column(arrow, name, "people"), name) for name in (origin, destination))
        if people is None:
            many = np.ones(arrow.num_rows, np.int64)
        else:
            counted = _numbers(column(arrow, people, "people"), people)
            if ((counted < 0) | (counted != np.floor(counted)) | (counted > 1e12)).any():
                raise InvalidData(f"{people}: expected whole numbers of people, from 0")
            many = counted.astype(np.int64)
        return cls(places, start, end, many)

    @property
    def total(self) -> int:
        """How many people there are."""
        return int(self.people.sum())

    @property
    def destinations(self) -> Integers:
        """The destinations that somebody goes to."""
        return np.unique(self.destination)

    def to(self, place: int) -> tuple[Integers, Integers]:
        """The origins of the people who go to a place, and how many from each."""
        start, end = np.searchsorted(self.destination, [place, place + 1])
        return self.origin[start:end], self.people[start:end]

    def table(self) -> Any:
        """origin, destination, people: an Arrow table of counts."""
        import pyarrow

        names = np.array(self.places.names, object)
        columns = {"origin": names[self.origin], "destination": names[self.destination], "people": self.people}
        return pyarrow.table(columns)

    def persons(self) -> Any:
        """id, origin, destination: an Arrow table with a row for each person; ids are new."""
        import pyarrow

        names = np.array(self.places.names, object)
        where = np.repeat(np.arange(len(self.people)), self.people)
        ids = pyarrow.array(np.arange(1, len(where) + 1))
        codes = (pyarrow.array(part[where].astype(np.int32)) for part in (self.origin, self.destination))
        ends = [pyarrow.DictionaryArray.from_arrays(part, pyarrow.array(names)).dictionary_decode() for part in codes]
        return pyarrow.table({"id": ids, "origin": ends[0], "destination": ends[1]})


def _numbers(values: Any, name: str) -> Floats:
    import pyarrow
    from pyarrow import compute

    try:
        found = compute.cast(values, pyarrow.float64())
    except pyarrow.ArrowException:
        raise InvalidData(f"{name}: expected numbers") from None
    if found.null_count or not np.isfinite(np.asarray(found)).all():
        raise InvalidData(f"{name}: expected a finite number in every row")
    return np.asarray(found, np.float64)


_BLOCK_KM = 0.2
_REACH_KM = 3.0
_FAR = 0.05  # the share of people who work anywhere


def city(*, blocks: int, workers: int, seed: int = 1) -> Flows:
    """So many people in a square of about so many blocks.

    Jobs are denser near the center, homes near a ring; 95 % of people work at a distance that is exponential with a
    mean of 3 km from home, the others anywhere. Public and made up: no noise here protects anybody.

    >>> from discreet.synthetic.commuting.flows import city
    >>> made = city(blocks=100, workers=1000)
    >>> len(made.places), made.total
    (100, 1000)
    """
    side = math.isqrt(integer(blocks, "blocks", at_least=4, at_most=10**6))
    people = integer(workers, "workers", at_least=1, at_most=10**8)
    axis = (np.arange(side) + 0.5) * _BLOCK_KM
    points = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    places = Places([f"{row:03}-{column:03}" for row in range(side) for column in range(side)], points)
    source = _Uniform(seed)
    jobs = source.pick(_density(points, side, 0.0), people)
    near = points[jobs] + source.step(people)
    homes = np.clip((near / _BLOCK_KM).astype(np.int64), 0, side - 1)
    lives = homes[:, 0] * side + homes[:, 1]
    anywhere = source.pick(_density(points, side, 0.5), people)
    return Flows(places, np.where(source.draw(people) < _FAR, anywhere, lives), jobs, np.ones(people, np.int64))


def _density(points: Floats, side: int, ring: float) -> Floats:
    """More at this distance from the center, in half widths of the city."""
    half = side * _BLOCK_KM / 2
    distance = np.hypot(*(points - half).T) / half
    return np.asarray(np.exp(-(((distance - ring) / 0.4) ** 2)) + 0.02)


class _Uniform:
    """Numbers from 0 to 1, by a public seed."""

    def __init__(self, seed: int) -> None:
        self._source = DeterministicEntropy(seed)

    def draw(self, size: int) -> Floats:
        return (self._source.words(size) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def pick(self, weights: Floats, size: int) -> Integers:
        ends = np.cumsum(weights)
        found = np.searchsorted(ends, self.draw(size) * ends[-1], side="right")
        return np.asarray(np.minimum(found, len(ends) - 1), np.int64)

    def step(self, size: int) -> Floats:
        far, turn = -_REACH_KM * np.log1p(-self.draw(size)), 2 * math.pi * self.draw(size)
        return np.column_stack([far * np.cos(turn), far * np.sin(turn)])
