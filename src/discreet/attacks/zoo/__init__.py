"""Mechanisms that were believed private and are not: the audit must catch every one of them.

>>> from discreet.attacks.zoo import BROKEN, named
>>> len(BROKEN), named("mean with a NaN in it").why
(24, "whether somebody's value is missing is told with certainty")
"""

from collections.abc import Callable, Sequence

from discreet.attacks.audit import Finding
from discreet.attacks.zoo import choosing, counting, noise
from discreet.attacks.zoo.entry import Broken
from discreet.errors import InvalidParameter
from discreet.exact import Number, plain
from discreet.report import Bars, Chart, Grid

__all__ = ["BROKEN", "Broken", "bounds", "named", "parade", "table"]

BROKEN: tuple[Broken, ...] = (*noise.ANIMALS, *choosing.ANIMALS, *counting.ANIMALS)
"""All of them."""


def named(name: str) -> Broken:
    """The one of this name.

    >>> named("sum without clamping").epsilon
    Fraction(1, 1)
    """
    for animal in BROKEN:
        if animal.name == name:
            return animal
    raise InvalidParameter("name", name, f"one of {', '.join(animal.name for animal in BROKEN)}")


def parade(
    *,
    confidence: Number = 0.999,
    seed: int = 0,
    animals: Sequence[Broken] = BROKEN,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[tuple[Broken, Finding], ...]:
    """Audit them all, one after the other; each bound by itself holds with this confidence.

    >>> [(animal, found)] = parade(animals=[named("the same seed for every release")])
    >>> found.broken
    True
    """
    found = []
    for place, animal in enumerate(animals):
        found.append((animal, animal.audit(confidence=confidence, seed=seed).find()))
        if progress is not None:
            progress(place + 1, len(animals))
    return tuple(found)


def table(found: Sequence[tuple[Broken, Finding]]) -> Grid:
    """What was claimed and what was proven, one a line; the numbers are those of the chart `bounds`."""
    rows = [
        [
            place + 1,
            a.name,
            plain(a.epsilon),
            plain(a.delta),
            round(f.epsilon, 3),
            "broken" if f.broken else "–",
            f.event,
            a.why,
        ]
        for place, (a, f) in enumerate(found)
    ]
    header = ["", "mechanism", "claimed ε", "δ", "ε is at least", "claim", "told by", "why"]
    return Grid(header, rows, "each bound holds with the stated confidence by itself")


def bounds(found: Sequence[tuple[Broken, Finding]]) -> Chart:
    """Claimed and proven ε of all of them, by their number in `table`."""
    names = [str(place + 1) for place in range(len(found))]
    claimed = Bars(names, [float(animal.epsilon) for animal, _ in found], "claimed")
    proven = Bars(names, [one.epsilon for _, one in found], "at least")
    return Chart("Broken mechanisms: claimed and proven", [claimed, proven], x="number in the table", y="ε")
