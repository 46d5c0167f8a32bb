"""Who lives where and works where, counted: places, and the flows among them; a generated city.

Everything about a synthetic commuting map that is decided before anybody's home is looked at.

>>> from discreet.synthetic.commuting.flows import Scheme
>>> print(Scheme(epsilon=1).explain())
protects   where one person lives; where people work, and how many work at each place, is public
promise    ε = 1, pure
method     counts: geometric noise on each count, made consistent with the totals
origins    every place, for every destination
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import Number, integer, plain, rational
from discreet.geo import RADIUS, angle_between
from discreet.noise import DeterministicEntropy
from discreet.privacy.loss import Approximate, Loss, Pure, Together
from discreet.privacy.unit import Neighbors, relation
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
        result = np.asarray(points, np.float64)
        if result.shape != (len(names), 2) or not len(names) or not np.isfinite(result).all():
            raise InvalidData(f"places: expected two finite coordinates for each of {len(names)} names")
        if degrees and ((abs(result[:, 0]) > 90) | (abs(result[:, 1]) > 180)).any():
            raise InvalidData("places: expected latitudes from −90 to 90 and longitudes from −180 to 180")
        if len(set(names)) != len(names):
            raise InvalidData("places: a name is given twice")
        object.__setattr__(self, "names", tuple(names))
        object.__setattr__(self, "points", result)
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

        result = compute.index_in(texts(names), value_set=array(self.names))
        if result.null_count:
            raise InvalidData(
                f"{what}: {result.null_count:,} values are no place of the map; add them, or drop the rows"
            )
        return np.asarray(result, np.int64)


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
        result = compute.cast(values, pyarrow.float64())
    except pyarrow.ArrowException:
        raise InvalidData(f"{name}: expected numbers") from None
    if result.null_count or not np.isfinite(np.asarray(result)).all():
        raise InvalidData(f"{name}: expected a finite number in every row")
    return np.asarray(result, np.float64)


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
        result = np.searchsorted(ends, self.draw(size) * ends[-1], side="right")
        return np.asarray(np.minimum(result, len(ends) - 1), np.int64)

    def step(self, size: int) -> Floats:
        far, turn = -_REACH_KM * np.log1p(-self.draw(size)), 2 * math.pi * self.draw(size)
        return np.column_stack([far * np.cos(turn), far * np.sin(turn)])


Method = Literal["counts", "dirichlet"]
Promise = Literal["pure", "probabilistic", "approximate"]

WEIGHTS = Fraction(1, 10)
"""The share of ε that pays for the noisy number of people of each origin, where origins are put together."""


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Draw again until the synthetic flows are near the true ones; paid for.

    apart: accept if the share of people who would have to move, Σ|true − synthetic|/(2·people), is below this, measured
    with noise. stop: the chance to give up after each try; the number of tries is drawn before the first.

    Guarantee: 2ε-DP, where one candidate together with its noisy score is ε-DP. Proof (Liu, Talwar 2019, "Private
    selection from private candidates", for a fixed threshold). Let Q be the law of a candidate and p the probability
    that it is accepted. The output is x with probability Q(x)·Σ_k ((1 − stop)(1 − p))^k = Q(x)/(p + stop·(1 − p)), and
    nothing with probability stop·(1 − p)/(p + stop·(1 − p)). For a neighbor, Q(x), p and 1 − p each change by at most
    e^±ε, so numerator and denominator both do. How many tries there were is not told, and all of them are always run,
    so that the time does not tell it either. ∎
    """

    apart: Fraction
    stop: Fraction

    def __init__(self, *, apart: Number, stop: Number = "1/10") -> None:
        object.__setattr__(self, "apart", rational(apart, "apart", above=0, below=1))
        object.__setattr__(self, "stop", rational(stop, "stop", at_least=Fraction(1, 100), at_most=1))


@dataclass(frozen=True, slots=True, init=False)
class Scheme:
    """How a map is made, and what it costs.

    Without `neighbors`, neighbors are two maps in which one person lives somewhere else, and how many people work
    where is public: as in the published case. Each person has one destination, so what is done for different
    destinations composes in parallel. With `neighbors` (those of a dataset behind a gate), where people work is secret
    too: the noisy number of people of each destination is paid for, and every place may be one.

    - method "counts": noise on every count of (origin, destination); "dirichlet": a Pólya urn for each destination.
    - promise "pure"; "approximate", (ε,δ)-DP; "probabilistic", for the urn only: `prior` says what that is.
    - cap: origins are at most so many km from the destination, by public knowledge; whoever lives farther away counts
      at the nearest origin within.
    - bands: origins are put together by their distance from the destination, in bands with these edges in km.
    - groups: origins are put together as a public map of names to regions says.
    - hubs: so many origins are chosen by their noisy number of people; the others join the nearest of them.
      Within a band, a region or around a hub, people are spread by the noisy number of people of each origin.
    - accept: see `Acceptance`; for pure promises.
    """

    epsilon: Fraction
    delta: Fraction
    method: Method
    promise: Promise
    cap: Fraction | None
    bands: tuple[Fraction, ...] | None
    groups: tuple[tuple[str, str], ...] | None
    hubs: int | None
    accept: Acceptance | None
    neighbors: Neighbors | None

    def __init__(
        self,
        *,
        epsilon: Number,
        delta: Number = 0,
        method: Method = "counts",
        promise: Promise = "pure",
        cap: Number | None = None,
        bands: Sequence[Number] | None = None,
        groups: Mapping[str, str] | None = None,
        hubs: int | None = None,
        accept: Acceptance | None = None,
        neighbors: Neighbors | str | None = None,
    ) -> None:
        values = {
            "epsilon": rational(epsilon, "epsilon", above=0, at_most=100),
            "delta": rational(delta, "delta", at_least=0, below=1),
            "method": _one_of(method, "method", get_args(Method)),
            "promise": _one_of(promise, "promise", get_args(Promise)),
            "cap": None if cap is None else rational(cap, "cap", above=0),
            "bands": None if bands is None else _edges(bands),
            "groups": None if groups is None else tuple(sorted((str(a), str(b)) for a, b in groups.items())),
            "hubs": None if hubs is None else integer(hubs, "hubs", at_least=1),
            "accept": accept,
            "neighbors": None if neighbors is None else relation(neighbors),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)
        self._check()

    def _check(self) -> None:
        if (self.promise == "pure") != (self.delta == 0):
            expected = "no delta for a pure promise, and one above 0 for the others"
            raise InvalidParameter("delta", plain(self.delta), expected)
        if self.promise == "probabilistic" and self.method == "counts":
            hint = "noisy counts are simply (ε,δ)-DP"
            raise InvalidParameter("promise", self.promise, "'pure' or 'approximate' with counts", hint)
        if sum(part is not None for part in (self.bands, self.groups, self.hubs)) > 1:
            raise InvalidParameter("bands", self.bands, "one of bands, groups and hubs")
        if self.accept is not None and self.promise != "pure":
            raise InvalidParameter("accept", self.promise, "a pure promise", "trying again multiplies δ")
        if self.neighbors is not None and (self.method != "counts" or self.accept is not None):
            hint = "the urn, and accepting candidates, need public totals"
            raise InvalidParameter("method", self.method, "'counts' where destinations are secret", hint)

    @property
    def coarse(self) -> bool:
        """Whether origins are put together."""
        return self.bands is not None or self.groups is not None or self.hubs is not None

    @property
    def candidate_epsilon(self) -> Fraction:
        """ε of one candidate, without its score: half of ε is lost by choosing, a tenth of the rest pays the score."""
        return self.epsilon if self.accept is None else self.epsilon / 2 * Fraction(9, 10)

    @property
    def score_epsilon(self) -> Fraction:
        """ε of the noisy score of a candidate."""
        return Fraction(0) if self.accept is None else self.epsilon / 2 - self.candidate_epsilon

    @property
    def weights_epsilon(self) -> Fraction:
        """ε of the noisy number of people of each origin."""
        return self.candidate_epsilon * WEIGHTS if self.coarse else Fraction(0)

    @property
    def totals_epsilon(self) -> Fraction:
        """ε of the noisy number of people of each destination."""
        return Fraction(0) if self.neighbors is None else self.candidate_epsilon * WEIGHTS

    @property
    def flows_epsilon(self) -> Fraction:
        """ε of the flows themselves."""
        return self.candidate_epsilon - self.weights_epsilon - self.totals_epsilon

    @property
    def moved(self) -> int:
        """How many counts one unit can change by 1: it is in one cell, or leaves one for another."""
        return 1 if self.neighbors is Neighbors.ADD_OR_REMOVE_ONE else 2

    @property
    def loss(self) -> Loss:
        """What the whole costs, for neighbors in which one person lives somewhere else."""
        if self.accept is not None:
            return Pure(self.epsilon)
        flows: Loss = Pure(self.flows_epsilon) if self.delta == 0 else Approximate(self.flows_epsilon, self.delta)
        parts = [Pure(part) for part in (self.weights_epsilon, self.totals_epsilon) if part]
        return Together(*parts, flows) if parts else flows

    def explain(self) -> str:
        """What will be done and what it costs, in words."""
        promised = f"ε = {plain(self.epsilon)}"
        promised += ", pure" if self.delta == 0 else f", δ = {plain(self.delta)}, {self.promise}"
        how = {
            "counts": "counts: geometric noise on each count, made consistent with the totals",
            "dirichlet": "dirichlet: for each destination an urn with a ball for each person and a prior everywhere",
        }[self.method]
        if self.method == "counts" and self.delta:
            how = how.replace("geometric", "Gaussian")
        known = "; where people work, and how many work at each place, is public"
        lines = {
            "protects": "where one person lives" + (known if self.neighbors is None else " and works"),
            "promise": promised,
            "method": how,
            "origins": self._origins(),
        }
        if self.accept is not None:
            lines["accepted"] = (
                f"if at most {plain(self.accept.apart)} of the people would have to move, by a noisy count"
            )
        return "\n".join(f"{name:<10} {value}" for name, value in lines.items())

    def _origins(self) -> str:
        result = "every place" if self.cap is None else f"places within {plain(self.cap)} km"
        if self.bands is not None:
            return f"{result}, in {len(self.bands) + 1} bands of distance"
        if self.groups is not None:
            return f"{result}, in {len({region for _, region in self.groups})} regions"
        if self.hubs is not None:
            return f"{result}, around {self.hubs} that are chosen privately"
        return f"{result}, for every destination"


def _edges(bands: Sequence[Number]) -> tuple[Fraction, ...]:
    edges = tuple(rational(edge, "bands", above=0) for edge in bands)
    if not edges or list(edges) != sorted(set(edges)):
        raise InvalidParameter("bands", bands, "distances in km, each larger than the one before")
    return edges


def _one_of(value: str, name: str, known: tuple[str, ...]) -> str:
    if value not in known:
        raise InvalidParameter(name, value, " or ".join(repr(choice) for choice in known))
    return value
