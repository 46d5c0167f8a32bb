"""Maps of `discreet local`: points from a CSV file, what a survey would make of them, files to look at."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from discreet.cli import show
from discreet.errors import InvalidData

if TYPE_CHECKING:
    from discreet.local.collection.collector import Estimate
    from discreet.local.collection.survey import Survey
    from discreet.local.places.maps import Map
    from discreet.local.places.transport import Bounds
    from discreet.noise import Entropy

MOST_PEOPLE = 10_000_000
MAPS = (".svg", ".png", ".pdf", ".html")


def simulated(
    survey: "Survey", given: dict[str, Any], iterations: int | None, entropy: "Entropy"
) -> "tuple[dict[str, Any], list[Map]]":
    """The true, the noisy and the estimated map of people whose reports are drawn here, and what to tell of them."""
    from discreet.local.collection.collector import estimate as estimated
    from discreet.local.places.maps import Map

    people, planar = given.pop("people"), survey.planar()
    truth = survey.area.counts(people) / len(people)
    tally = planar.tally(planar.randomize(people, entropy=entropy))
    found = estimated(survey, tally, reports=len(people), confidence=None, iterations=iterations)
    noisy, near = km(found.noisy, truth, survey), km(found.shares, truth, survey)
    facts = {
        "people": len(people),
        **given,
        "noisy_km_from_the_truth": told(noisy),
        "estimated_km_from_the_truth": told(near),
    }
    seen = truth * 0 if found.noisy is None else found.noisy
    return facts, [Map("true", truth), Map("noisy", seen, noisy), Map("estimated", found.shares, near)]


def of_store(found: "Estimate") -> "list[Map]":
    """The estimated map and the noisy one."""
    from discreet.local.places.maps import Map

    noisy = [] if found.noisy is None else [Map("noisy", found.noisy)]
    return [Map("estimated", found.shares), *noisy]


def km(shares: Any, truth: Any, survey: "Survey") -> "Bounds | None":
    """The earth mover's distance, exact or within bounds; none where nothing lies in the area."""
    from discreet.local.places.transport import distance

    if shares is None or not max(shares) > 0:
        return None
    return distance([max(share, 0.0) for share in shares], truth, survey.area)


def told(away: "Bounds | None") -> Any:
    """A distance for JSON and for people: a number, or on large areas the two that it lies between."""
    if away is None:
        return None
    low, high = round(away.lower, 6), round(away.upper, 6)
    return low if low == high else [low, high]


def write(path: str, maps: "list[Map]", survey: "Survey") -> None:
    """Write maps to a picture or a page."""
    from discreet.local.places.maps import page, picture

    make = page if Path(path).suffix.lower() == ".html" else picture
    show.save(make(maps, survey.area, title=survey.question), path)


def points(survey: "Survey", path: str, names: tuple[str, str, str | None]) -> dict[str, Any]:
    """The cells of the people in a file, and how many lines could not be placed."""
    import numpy as np

    from discreet.tables import column, read_table, texts

    read = read_table(path, "points")
    present = [None if name is None else texts(column(read, name, "file")).to_pylist() for name in names]
    table = list(zip(*(["1"] * read.num_rows if cells is None else cells for cells in present), strict=True))
    weights = [int(row[2]) if (row[2] or "").isdecimal() and len(row[2]) < 10 else 0 for row in table]
    first, second = ([row[side] for row in table] for side in (0, 1))
    area = survey.area
    if area.center is not None:
        found = area.locate(first, second)
    else:
        found = area.cells_of(np.array([second, first], dtype=object).T)
    if sum(weights) > MOST_PEOPLE:
        raise click.ClickException(f"{path} stands for {sum(weights):,} people; at most {MOST_PEOPLE:,} are simulated")
    people = np.repeat(found.cells, weights)
    kept = people[people >= 0]
    if not kept.size:
        raise InvalidData(f"points: none of {len(table)} lines lies in the area ({found.malformed} malformed)")
    return {"people": kept, "malformed": found.malformed + weights.count(0), "outside": found.outside}
