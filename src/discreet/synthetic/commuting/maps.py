"""Maps of flows: origins of one destination, the largest flows, where a synthetic map is wrong."""

from typing import TYPE_CHECKING

import numpy as np

from discreet.report import Chart, Line, Points
from discreet.synthetic.commuting.flows import Floats, Flows, Places

if TYPE_CHECKING:
    from discreet.synthetic.commuting.evaluation import Comparison

_CLASSES = ((0.1, "more than 10 %"), (0.01, "1 to 10 %"), (0.001, "0.1 to 1 %"), (0.0, "less"))
_MOST_FLOWS = 60


def origin_map(flows: Flows, end: int, label: str) -> Chart:
    """The origins of the people of a destination, by their share.

    >>> from discreet.synthetic.commuting.flows import Flows, Places
    >>> from discreet.synthetic.commuting.maps import origin_map
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


def error_map(found: "Comparison") -> Chart:
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
