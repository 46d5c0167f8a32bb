"""Estimates of `discreet local` to look at: tables, CSV, pictures, maps, and how far a simulation was off."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from discreet.cli import show
from discreet.errors import InvalidData

if TYPE_CHECKING:
    from discreet.local.collection.collector import Estimate
    from discreet.local.collection.survey import Survey
    from discreet.local.places.maps import Bounds, Map
    from discreet.noise import Entropy
    from discreet.report import Chart

MOST_PEOPLE = 10_000_000
MAPS = (".svg", ".png", ".pdf", ".html")


def table(result: "Estimate", truth: list[float] | None = None) -> None:
    """Answers with shares and intervals, in per cent; for places, the cells with most."""
    rows = list(result.rows())
    if truth is not None:
        rows = [row | {"truth": share} for row, share in zip(rows, truth, strict=True)]
    if result.survey.places:
        rows = sorted(rows, key=lambda row: -row["share"])[:20]
    texts = [_cells(row) for row in rows]
    heads = list(texts[0])
    widths = [max(len(head), *(len(text[head]) for text in texts)) for head in heads]
    for line in [{head: head for head in heads}, *texts]:
        first, *others = (f"{line[head]:>{width}}" for head, width in zip(heads, widths, strict=True))
        click.echo("  ".join([line[heads[0]].ljust(len(first)), *others]).rstrip())
    if truth is None:
        click.echo(_remark(result), err=True)


def _cells(row: dict[str, Any]) -> dict[str, str]:
    shown = {}
    if "truth" in row:
        row = {name: row[name] for name in ("answer", "truth", "share", "low", "high") if name in row}
    for name, value in row.items():
        percent = name in ("share", "low", "high", "truth")
        shown[name] = (
            f"{100 * value:.1f} %" if percent else (f"{value:.5f}" if isinstance(value, float) else str(value))
        )
    return shown


def _remark(result: "Estimate") -> str:
    sure = f", all intervals at {result.confidence}" if result.confidence is not None else ""
    sure += (
        " by the bootstrap, which does not cover what smoothing bends"
        if sure and result.method == "ibu" and result.survey.places
        else ""
    )
    dropped = f"; {result.counts}" if result.counts is not None else ""
    cells = "; the 20 cells with most, --csv has all" if result.survey.places and result.survey.area.size > 20 else ""
    return f"{result.reports} reports, by {result.method}{sure}{dropped}{cells}"


def comma_separated(result: "Estimate") -> None:
    """All rows as CSV."""
    import csv
    import io

    text = io.StringIO()
    rows = list(result.rows())
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    click.echo(text.getvalue(), nl=False)
    click.echo(_remark(result), err=True)


def errors(result: "Estimate", truth: list[float]) -> dict[str, Any]:
    """How far a simulated estimate is from the truth."""
    away = [abs(a - b) for a, b in zip(result.shares.tolist(), truth, strict=True)]
    facts: dict[str, Any] = {"people": result.reports, "method": result.method, "largest_error": max(away)}
    if result.survey.places:
        facts["noisy_km_from_the_truth"] = distance_value(km(result.noisy, truth, result.survey))
        facts["estimated_km_from_the_truth"] = distance_value(km(result.shares, truth, result.survey))
        return facts
    facts["mean_error"] = sum(away) / len(away)
    oracle: Any = result.survey.oracle()
    facts["expected_deviation_of_a_rare_answer"] = math.sqrt(oracle.variance() / result.reports)
    if result.low is not None and result.high is not None:
        inside = [low <= share <= high for low, share, high in zip(result.low, truth, result.high, strict=True)]
        facts["intervals_that_hold"] = f"{sum(inside)} of {len(inside)}"
    return facts


def chart(result: "Estimate") -> "Chart":
    """Bars with their intervals."""
    from discreet.report import Bars, Chart

    low, high = (None if end is None else 100 * end for end in (result.low, result.high))
    bars = Bars(result.survey.labels, 100 * result.shares, low=low, high=high)
    return Chart(result.survey.question, [bars], y=f"share of {result.reports} people, %")


# Maps


def simulated(
    survey: "Survey", given: dict[str, Any], iterations: int | None, entropy: "Entropy"
) -> "tuple[dict[str, Any], list[Map]]":
    """The true, the noisy and the estimated map of people whose reports are drawn here, and what to tell of them."""
    from discreet.local.collection.collector import estimate as estimated
    from discreet.local.places.maps import Map

    people, planar = given.pop("people"), survey.planar()
    truth = survey.area.counts(people) / len(people)
    tally = planar.tally(planar.randomize(people, entropy=entropy))
    result = estimated(survey, tally, reports=len(people), confidence=None, iterations=iterations)
    noisy, near = km(result.noisy, truth, survey), km(result.shares, truth, survey)
    facts = {
        "people": len(people),
        **given,
        "noisy_km_from_the_truth": distance_value(noisy),
        "estimated_km_from_the_truth": distance_value(near),
    }
    seen = truth * 0 if result.noisy is None else result.noisy
    return facts, [Map("true", truth), Map("noisy", seen, noisy), Map("estimated", result.shares, near)]


def of_store(result: "Estimate") -> "list[Map]":
    """The estimated map and the noisy one."""
    from discreet.local.places.maps import Map

    noisy = [] if result.noisy is None else [Map("noisy", result.noisy)]
    return [Map("estimated", result.shares), *noisy]


def km(shares: Any, truth: Any, survey: "Survey") -> "Bounds | None":
    """The earth mover's distance, exact or within bounds; none where nothing lies in the area."""
    from discreet.local.places.maps import distance

    if shares is None or not max(shares) > 0:
        return None
    return distance([max(share, 0.0) for share in shares], truth, survey.area)


def distance_value(away: "Bounds | None") -> Any:
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
        result = area.locate(first, second)
    else:
        result = area.cells_of(np.array([second, first], dtype=object).T)
    if sum(weights) > MOST_PEOPLE:
        raise click.ClickException(f"{path} stands for {sum(weights):,} people; at most {MOST_PEOPLE:,} are simulated")
    people = np.repeat(result.cells, weights)
    kept = people[people >= 0]
    if not kept.size:
        raise InvalidData(f"points: none of {len(table)} lines lies in the area ({result.malformed} malformed)")
    return {"people": kept, "malformed": result.malformed + weights.count(0), "outside": result.outside}
