"""How far a synthetic map is from the true one: measured for the owner's eyes, and bounded for everybody.

A `Comparison` is computed from true homes: for the owner's eyes. How far a released count can be from the true one
(`CountBounds`) follows from public noise alone.

Setting. A destination has m cells (places, or groups of them) with true counts c_i that add up to S. Its total T is
S + W, or 0 if that is negative; each cell gets noise Z_i. Released is p_i = max(c_i + Z_i − λ, 0), with the level λ at
which the p_i add up to T, moved by less than 1 to a whole number (`synthesis.onto_simplex`, `synthesis.whole`).

Guarantee: for each cell, the true count is within [p_i − below, p_i + above] with at least the probability asked for,
whatever the true counts are. Proof. Where p_i > 0, c_i = p_i + λ − Z_i; elsewhere 0 ≤ c_i ≤ λ − Z_i. Let
f(λ) = Σ max(c_i + Z_i − λ, 0), convex and falling, so that f(λ) = T.

- Below: f(λ) ≥ S + ΣZ_i − mλ, hence λ ≥ (ΣZ_i − W)/m where T is not cut at 0; where it is, all p_i are 0.
- Above: c_i ≥ 0, so f(t) ≤ S + Σ max(Z_i − t, 0) for every t ≥ 0. With a cells above 0 the slope of f at λ is −a, and
  steeper to the left: for t < λ, a(λ − t) ≤ f(t) − T. Hence λ ≤ t + max(Σ max(Z_i − t, 0) − W, 0)/a, where a is read
  off the release. (If T is 0, so is every p_i, and c_i ≤ S ≤ −W is below the same bound with a = 1.)

What is left depends on the noise alone, whose quantiles are estimated from draws, three standard errors on the safe
side. Each side may fail with half of the probability: on the upper one half of that goes to Z_i and the rest is shared
by a few values of t, of which the best is taken. ∎
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from discreet.mechanisms import Geometric
from discreet.noise import DeterministicEntropy, rounded_gaussian
from discreet.report import Chart, Facts, Heading, Line, Page, Part, Points, Text
from discreet.synthetic.commuting.flows import Floats, Flows, Integers, Places, Scheme
from discreet.synthetic.commuting.synthesis import apart_by, sigma_of_flows

_CLASSES = ((0.1, "more than 10 %"), (0.01, "1 to 10 %"), (0.001, "0.1 to 1 %"), (0.0, "less"))
_MOST_FLOWS = 60


@dataclass(frozen=True, eq=False)
class Comparison:
    """True against synthetic, destination by destination.

    >>> from discreet.synthetic.commuting.evaluation import Comparison
    >>> from discreet.synthetic.commuting.flows import Flows, Places
    >>> towns = Places(["a", "b"], [[0.0, 0.0], [3.0, 4.0]])
    >>> found = Comparison(Flows(towns, [0, 1], [0, 0], [8, 2]), Flows(towns, [0, 1], [0, 0], [6, 4]))
    >>> found.true_km, found.synthetic_km, round(found.missed_km, 9), found.moved
    (array([1.]), array([2.]), 1.0, 0.2)
    """

    true: Flows
    synthetic: Flows

    @property
    def destinations(self) -> Integers:
        """The destinations that people go to."""
        return self.true.destinations

    @property
    def true_km(self) -> Floats:
        """The mean commute to each destination."""
        return _mean_km(self.true, self.destinations)

    @property
    def synthetic_km(self) -> Floats:
        """The mean commute of the synthetic people to each destination."""
        return _mean_km(self.synthetic, self.destinations)

    @property
    def missed_km(self) -> float:
        """By how much the mean commute is missed, on average over the destinations."""
        return float(np.mean(np.abs(self.true_km - self.synthetic_km)))

    @property
    def moved(self) -> float:
        """The share of people who would have to move to make the maps equal: the total variation."""
        return apart_by(self.true, self.synthetic) / (2 * self.true.total)

    def far(self, km: float) -> tuple[float, float]:
        """The share of people who commute farther than this: true and synthetic."""
        return _share_beyond(self.true, km), _share_beyond(self.synthetic, km)

    def to_dict(self) -> dict[str, Any]:
        """The main numbers."""
        worst = int(np.argmax(np.abs(self.true_km - self.synthetic_km)))
        return {
            "people": self.true.total,
            "destinations": len(self.destinations),
            "missed_km": self.missed_km,
            "moved": self.moved,
            "worst_destination": self.true.places.names[int(self.destinations[worst])],
            "worst_missed_km": float(abs(self.true_km - self.synthetic_km)[worst]),
        }

    def chart(self) -> Chart:
        """The mean commute to each destination: true across, synthetic up."""
        most = float(max(self.true_km.max(), self.synthetic_km.max(), 1e-9))
        marks: list[Line | Points] = [
            Line([0, most], [0, most], "no error", dashed=True),
            Points(self.true_km, self.synthetic_km),
        ]
        return Chart("Mean commute to each destination, km", marks, x="true", y="synthetic")

    def page(self, explained: str, origins_of: int | None = None) -> Page:
        """A report for the owner, with maps of the largest destination, or of the one named."""
        sizes = np.bincount(self.true.destination, self.true.people)
        end = int(np.argmax(sizes)) if origins_of is None else origins_of
        parts: list[Part] = [
            Text("For the owner's eyes only: what follows compares with the true homes, and is not private."),
            Text(explained),
            Facts(self.to_dict()),
            self.chart(),
            Heading(f"Where the people of {self.true.places.names[end]} live"),
            origin_map(self.true, end, "true"),
            origin_map(self.synthetic, end, "synthetic"),
            Heading("The largest flows"),
            flow_map(self.true, "true"),
            flow_map(self.synthetic, "synthetic"),
            Heading("Where it is wrong"),
            error_map(self),
        ]
        return Page("A synthetic commuting map", parts)


def _mean_km(flows: Flows, destinations: Integers) -> Floats:
    result = np.zeros(len(destinations))
    for place, end in enumerate(destinations.tolist()):
        origins, people = flows.to(end)
        result[place] = np.average(flows.places.distances(end, origins), weights=people) if len(people) else np.nan
    return result


def _share_beyond(flows: Flows, km: float) -> float:
    far = 0
    for end in flows.destinations.tolist():
        origins, people = flows.to(end)
        far += int(people[flows.places.distances(end, origins) > km].sum())
    return far / flows.total


# Maps


def origin_map(flows: Flows, end: int, label: str) -> Chart:
    """The origins of the people of a destination, by their share.

    >>> from discreet.synthetic.commuting.flows import Flows, Places
    >>> towns = Places(["a", "b"], [[0.0, 0.0], [3.0, 4.0]])
    >>> origin_map(Flows(towns, [0, 1], [0, 0], [8, 2]), 0, "true").title
    'Origins of the people of a: true'
    """
    origins, people = flows.to(end)
    shares, points = people / max(people.sum(), 1), _drawn(flows.places)
    marks: list[Points | Line] = []
    above = 1.1
    for least, words in _CLASSES:
        some = origins[(shares >= least) & (shares < above) & (shares > 0)]
        above = least
        marks.append(Points(points[some, 0], points[some, 1], f"{words} of its people"))
    marks.append(Points(points[[end], 0], points[[end], 1], "the destination"))
    return _map(f"Origins of the people of {flows.places.names[end]}: {label}", marks, flows.places)


def flow_map(flows: Flows, label: str) -> Chart:
    """The largest flows between different places."""
    apart = np.flatnonzero(flows.origin != flows.destination)
    largest = apart[np.argsort(-flows.people[apart], kind="stable")[:_MOST_FLOWS]]
    points = _drawn(flows.places)
    x = np.full((len(largest), 3), np.nan)  # NaN lifts the pen
    y = x.copy()
    for place, ends in enumerate((flows.origin[largest], flows.destination[largest])):
        x[:, place], y[:, place] = points[ends].T
    marks: list[Points | Line] = [Points(points[:, 0], points[:, 1], "places")]
    if len(largest):
        marks.append(Line(x.ravel(), y.ravel(), f"the {len(largest)} largest flows"))
    return _map(f"Largest flows: {label}", marks, flows.places)


def error_map(found: Comparison) -> Chart:
    """Destinations by how far their mean commute is missed."""
    places = found.true.places
    points, missed = _drawn(places)[found.destinations], np.abs(found.true_km - found.synthetic_km)
    marks: list[Points | Line] = []
    above = np.inf
    for least, words in ((10.0, "more than 10 km"), (3.0, "3 to 10 km"), (1.0, "1 to 3 km"), (-1.0, "less than 1 km")):
        some = (missed >= least) & (missed < above)
        above = least
        marks.append(Points(points[some, 0], points[some, 1], words))
    return _map("By how much the mean commute is missed", marks, places)


def _map(title: str, marks: list[Points | Line], places: Places) -> Chart:
    shown = [mark for mark in marks if len(np.asarray(mark.x))]
    return Chart(title, shown, x="longitude" if places.degrees else "km", y="latitude" if places.degrees else "km")


def _drawn(places: Places) -> Floats:
    """x and y of each place."""
    return places.points[:, ::-1] if places.degrees else places.points


CONFIDENCE = 0.95
_DRAWS, _MOST_NOISE = 20_000, 4_000_000
_LEVELS = (1 / 2, 1 / 8, 1 / 32, 1 / 128)  # how often noise exceeds each t
_SEED = 20080407


@dataclass(frozen=True, slots=True)
class CountBounds:
    """What to subtract from and add to each released count of a destination.

    >>> from discreet.synthetic.commuting.flows import Scheme
    >>> scheme = Scheme(epsilon=1, neighbors="add or remove one")
    >>> CountBounds.of_cells(scheme, cells=62, positive=50)
    CountBounds(below=5, above=7)
    """

    below: int
    above: int

    @classmethod
    def of_cells(cls, scheme: Scheme, *, cells: int, positive: int) -> "CountBounds":
        """The bounds for a destination of so many cells, of which so many have people in the release."""
        if cells < 2:  # its people are the noisy total
            return cls(total_bound(scheme), total_bound(scheme))
        few, many = (
            1 << (cells.bit_length() - 1),
            1 << (cells - 1).bit_length(),
        )  # few sizes are simulated: the worse of two
        noise = _noise(scheme, many)
        above = noise.high + min(t + b / max(positive, 1) for t, b in zip(noise.levels, noise.excess, strict=True))
        below = max(_noise(scheme, few).low, noise.low)
        return cls(1 + math.ceil(below), 1 + math.ceil(above))


@lru_cache(maxsize=64)
def total_bound(scheme: Scheme) -> int:
    """How far the noisy number of people of a destination is from the true one, at most; 0 where it is public."""
    return 0 if scheme.neighbors is None else math.ceil(_upper(np.abs(_totals(scheme, _DRAWS)), 1 - CONFIDENCE))


@dataclass(frozen=True, slots=True, eq=False)
class _Noise:
    """Quantiles of what the noise does to a destination."""

    low: float  # of Z_i − (ΣZ − W)/m
    high: float  # of −Z_i
    levels: tuple[float, ...]  # t
    excess: tuple[float, ...]  # of max(Σ max(Z_i − t, 0) − W, 0), for each t


@lru_cache(maxsize=64)
def _noise(scheme: Scheme, cells: int) -> _Noise:
    draws, side = min(_DRAWS, _MOST_NOISE // cells), (1 - CONFIDENCE) / 2
    source, shape = DeterministicEntropy(_SEED), (draws, cells)
    if scheme.delta == 0:
        mechanism = Geometric(epsilon=scheme.flows_epsilon, sensitivity=scheme.moved)
        flows = np.asarray(mechanism.release(np.zeros(shape, np.int64), entropy=source))
    else:
        flows = np.asarray(rounded_gaussian(sigma_of_flows(scheme), shape, entropy=source))
    totals = _totals(scheme, draws)
    levels = tuple(float(np.quantile(flows, 1 - share)) for share in _LEVELS)
    excess = (np.maximum(np.maximum(flows - level, 0).sum(axis=1) - totals, 0) for level in levels)
    return _Noise(
        low=_upper(flows[:, 0] - (flows.sum(axis=1) - totals) / cells, side),
        high=_upper(-flows[:, 0], side / 2),
        levels=levels,
        excess=tuple(_upper(part, side / 2 / len(levels)) for part in excess),
    )


def _totals(scheme: Scheme, draws: int) -> Integers:
    """Noise of the number of people of a destination."""
    if scheme.neighbors is None:
        return np.zeros(draws, np.int64)
    mechanism = Geometric(epsilon=scheme.totals_epsilon, sensitivity=scheme.moved)
    return np.asarray(mechanism.release(np.zeros(draws, np.int64), entropy=DeterministicEntropy(_SEED + 1)))


def _upper(values: Floats | Integers, share: float) -> float:
    """A value that at most this share of all draws exceed, by three standard errors."""
    expected = share * len(values)
    beyond = max(0, math.floor(expected - 3 * math.sqrt(expected)))
    return float(np.sort(values)[len(values) - 1 - beyond])
