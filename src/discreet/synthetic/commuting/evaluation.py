"""How far a synthetic map is from the true one. These numbers are computed from true homes: for the owner's eyes."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.report import Chart, Facts, Heading, Line, Page, Part, Points, Text
from discreet.synthetic.commuting.flows import Floats, Flows, Integers
from discreet.synthetic.commuting.synthesis import apart_by


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
        from discreet.synthetic.commuting.maps import error_map, flow_map, origin_map

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
    found = np.zeros(len(destinations))
    for place, end in enumerate(destinations.tolist()):
        origins, people = flows.to(end)
        found[place] = np.average(flows.places.distances(end, origins), weights=people) if len(people) else np.nan
    return found


def _share_beyond(flows: Flows, km: float) -> float:
    far = 0
    for end in flows.destinations.tolist():
        origins, people = flows.to(end)
        far += int(people[flows.places.distances(end, origins) > km].sum())
    return far / flows.total
