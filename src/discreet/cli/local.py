"""`discreet local`: surveys of people who trust nobody: respond, collect, estimate, map, page, simulate.

Estimates of `discreet local` to look at: tables, CSV, pictures, maps, and how far a simulation was off.
"""

import json
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from discreet.cli import show
from discreet.errors import InvalidData, InvalidParameter

if TYPE_CHECKING:
    from discreet.local.collection.collector import Estimate
    from discreet.local.collection.survey import Report, Survey
    from discreet.local.places.maps import Bounds, Map
    from discreet.noise import Entropy
    from discreet.report import Chart


_SURVEY = click.argument("survey", type=click.Path())
_STORE = click.argument("store", type=click.Path())
MOST_PEOPLE = 10_000_000
MAPS = (".svg", ".png", ".pdf", ".html")
_METHODS = ("inversion", "ibu", "smoothed")

confidence_option = click.option(
    "--confidence", default="0.95", show_default=True, help="The joint confidence level of all intervals."
)
seed_option = click.option("--seed", type=int, help="The seed of simulations. Real reports never use one.")
method_option = click.option(
    "--method", type=click.Choice(_METHODS), help="The estimator; by default ibu for places, else inversion."
)


@click.group(cls=show.Group)
def group() -> None:
    """Run surveys in which answers are randomized on each person's device.

    A survey is a TOML file: name, version, question, domain, randomizer, epsilon, times.
    """


@group.command()
@_SURVEY
@click.argument("answer", required=False)
@click.option("--account", type=click.Path(dir_okay=False), help="First charge the device's own account, a file.")
@click.option("--allow", metavar="ε", help="The total ε of a new account.")
@click.option("--explain", is_flag=True, help="Explain what would be sent, how often and at what cost; send nothing.")
@show.json_option
def respond(
    survey: str, answer: str | None, account: str | None, allow: str | None, explain: bool, as_json: bool
) -> None:
    """Randomize ANSWER on this device and print the report, one line to send; nothing else leaves it.

    ANSWER is one that the survey offers; for places "latitude,longitude"; - reads it from standard input, where other
    users of this machine do not see it. To decline, print and send nothing.
    """
    read = _read(survey)
    if explain:
        _explain(read, as_json=as_json)
        return
    if answer is None:
        raise click.UsageError("ANSWER is missing; write it after the survey, or - to read it from standard input")
    given = sys.stdin.readline().rstrip("\r\n") if answer == "-" else answer
    report = read.respond(given)
    if account is not None:
        _charge(read, report, account, allow)
    click.echo(report.line)


@group.command()
@_STORE
@_SURVEY
@click.argument("lines", metavar="[FILE]", type=click.Path(), default="-")
@show.json_option
def collect(store: str, survey: str, lines: str, as_json: bool) -> None:
    """Add the reports in FILE (or on standard input), one a line, to STORE; count invalid lines by reason.

    STORE is a DuckDB file, or the address of a database: postgresql://user@host/database (its password in ~/.pgpass or
    PGPASSWORD). It is made if there is none. What is stored already counts as replayed.
    """
    from discreet.local.collection.collector import Collection, lines_of

    read = _read(survey)
    with _file(lines) as given:
        counts = Collection(store).add(read, lines_of(given))
    show.facts({"accepted": counts.accepted, "rejected": counts.rejected, **counts.reasons}, as_json=as_json)


@group.command()
@_STORE
@_SURVEY
@confidence_option
@method_option
@click.option("--intervals", is_flag=True, help="For places: bootstrap intervals too, which take a while.")
@click.option("--recount", is_flag=True, help="First read every report again and compare with the stored counts.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")
@show.json_option
@show.plot_option
def estimate(
    store: str,
    survey: str,
    confidence: str,
    method: Any,
    intervals: bool,
    recount: bool,
    as_csv: bool,
    as_json: bool,
    plot: str | None,
) -> None:
    """Estimate the share of each answer from the reports in STORE, with intervals.

    The intervals cover the noise that the devices added, at --confidence for all answers together.
    """
    from discreet.local.collection.collector import Collection

    if as_csv and as_json:
        raise click.UsageError("--json or --csv, not both")
    read = _read(survey)
    wanted = confidence if intervals or not read.places else None
    collection = Collection(store)
    if recount:
        collection.recount(read)
    result = collection.estimate(read, confidence=wanted, method=method)
    if as_json:
        click.echo(json.dumps(result.to_json(), ensure_ascii=False))
    elif as_csv:
        comma_separated(result)
    else:
        table(result)
    if plot and read.places:
        write(plot, of_store(result), read)
    elif plot:
        show.save(chart(result), plot)


@group.command(name="map")
@_SURVEY
@click.argument("source", type=click.Path())
@show.output_option("The map: .svg, .png, .pdf or .html", required=True, callback=show.checked_file(*MAPS))
@click.option("--latitude", default="lat", show_default=True, help="CSV file: the column of latitudes (or y, in km).")
@click.option("--longitude", default="lon", show_default=True, help="CSV file: the column of longitudes (or x, in km).")
@click.option("--weight", help="CSV file: the column of how many people a row stands for; by default one.")
@click.option("--iterations", type=click.IntRange(min=1), help="The number of iterations of the estimate.  [500]")
@seed_option
@show.json_option
def map_(
    survey: str,
    source: str,
    output: str,
    latitude: str,
    longitude: str,
    weight: str | None,
    iterations: int | None,
    seed: int | None,
    as_json: bool,
) -> None:
    """Draw maps side by side, from the reports in a store or the points in a CSV file.

    SOURCE is a store of `discreet local collect`: the noisy map and the estimated one. Or a .csv file of true points,
    to see what a survey would lose: the reports are simulated, the true, noisy and estimated maps drawn, and their
    distances to the truth told (earth mover's, in km).
    """
    from discreet.local.collection.collector import is_address

    read = _read(survey)
    area = read.area
    if Path(source).suffix.lower() == ".csv" and not is_address(source):
        names = (latitude, longitude, weight)
        facts, drawn = simulated(read, points(read, source, names), iterations, _entropy(seed))
    else:
        from discreet.local.collection.collector import Collection

        result = Collection(source).estimate(read, confidence=None, iterations=iterations)
        facts, drawn = {"reports": result.reports}, of_store(result)
    show.facts({**facts, "cells": f"{area.rows} × {area.columns}", "cell_km": area.cell}, as_json=as_json)
    write(output, drawn, read)


@group.command()
@_SURVEY
@show.output_option("Write the page to this file, which must be new.")
@click.option(
    "--endpoint", help="The https:// address to which the page sends reports; without it, people copy or save theirs."
)
@show.json_option
def page(survey: str, output: str | None, endpoint: str | None, as_json: bool) -> None:
    """Make one static HTML file that asks the question and randomizes the answer in the browser."""
    from discreet.local.collection.survey_page import page as make

    read = _read(survey)
    text = make(read, endpoint=endpoint)
    if as_json and output is None:
        raise click.UsageError("--json requires --output, and prints what was written")
    show.text(text, output, "open it in a browser, or publish it as it is")
    if as_json:
        show.facts({"wrote": output, "survey": read.digest, "endpoint": endpoint}, as_json=True)


@group.command()
@_SURVEY
@click.option("--people", required=True, type=click.IntRange(1, MOST_PEOPLE), help="How many people would answer.")
@click.option(
    "--shares",
    default="falling",
    show_default=True,
    help="True shares: uniform, falling (1, 1/2, 1/3, …), or a number for each answer: 0.5,0.3,0.2",
)
@confidence_option
@method_option
@seed_option
@show.json_option
def simulate(
    survey: str, people: int, shares: str, confidence: str, method: Any, seed: int | None, as_json: bool
) -> None:
    """Simulate a survey before asking anybody: draw answers, randomize them, estimate."""
    from discreet.local.collection.collector import estimate as estimated
    from discreet.noise import categorical

    read, entropy = _read(survey), _entropy(seed)
    weights = _weights(shares, len(read.labels))
    randomizer = read.randomizes()
    answers = categorical(weights, people, entropy=entropy)
    tally = randomizer.tally(randomizer.randomize(answers, entropy=entropy))
    wanted = None if read.places else confidence
    result = estimated(read, tally, reports=people, confidence=wanted, method=method)
    total = sum(weights)
    truth = [float(weight / total) for weight in weights]
    if not read.places and not as_json:
        table(result, truth)
    facts = errors(result, truth)
    if as_json:
        facts["answers"] = [row | {"truth": share} for row, share in zip(result.rows(), truth, strict=True)]
    show.facts(facts, as_json=as_json)


# On the device


def _read(path: str) -> "Survey":
    from discreet.local.collection.survey import read_survey

    return read_survey(path)


def _explain(survey: "Survey", *, as_json: bool) -> None:
    """What one report tells and costs, in words."""
    from discreet.local.collection.survey_page import cost_words

    summary: dict[str, Any] = {"question": survey.question, "randomizer": survey.randomizer}
    randomizer: Any = survey.randomizes()
    if survey.places:
        summary |= {"epsilon_per_km": survey.cost, "50_%_of_reports_beyond_km": randomizer.within("0.5")}
        summary |= {"5_%_of_reports_beyond_km": randomizer.within("0.95")}
    else:
        summary |= {
            "epsilon": survey.cost,
            "answers": len(survey.labels),
            "report_fits_the_answer": float(randomizer.truth),
        }
        if hasattr(randomizer, "other"):
            summary["report_fits_another"] = float(randomizer.other)
    most = "epsilon_per_km_at_most" if survey.places else "epsilon_at_most"
    summary |= {"reports_at_most": survey.times, most: survey.times * survey.cost}
    summary["in_words"] = cost_words(survey)
    show.facts(summary, as_json=as_json)


def _charge(survey: "Survey", report: "Report", path: str, allow: str | None) -> None:
    """Write a report and its cost down in the account that the device keeps for its person; only then it may leave."""
    from discreet.local.collection.device_account import DeviceAccount, parsed, read

    if allow is None:
        if not Path(path).exists():
            raise click.UsageError(f"there is no account {path} yet; state the total ε that you allow: --allow 2")
        heading: Any = parsed(read(Path(path)).partition("\n")[0])
        allow = str(heading.get("epsilon", 1)) if isinstance(heading, dict) else "1"  # what is wrong, the account says
    account = DeviceAccount(path, epsilon=allow)
    charged = account.charge(survey.whole_loss, survey=survey.digest, sent=report.report, times=survey.times)
    words = charged.words()
    click.echo(f"{words}; {show.number(account.left)} of {show.number(account.epsilon)} is left", err=True)


# Reading


@contextmanager
def _file(path: str) -> Iterator[BinaryIO]:
    if path == "-":
        yield sys.stdin.buffer
        return
    try:
        with Path(path).open("rb") as file:
            yield file
    except OSError as error:
        raise click.ClickException(f"cannot read {path}: {error.strerror or error}") from None


def _entropy(seed: int | None) -> "Entropy":
    from discreet.noise import DeterministicEntropy, SystemEntropy

    return SystemEntropy() if seed is None else DeterministicEntropy(seed)


def _weights(shares: str, size: int) -> list[Any]:
    from fractions import Fraction

    from discreet.exact import rational

    if shares == "uniform":
        return [Fraction(1)] * size
    if shares == "falling":
        return [Fraction(1, min(place, 1000)) for place in range(1, size + 1)]
    weights = [rational(part, "--shares", at_least=0) for part in shares.split(",")]
    if len(weights) != size or not any(weights):
        raise InvalidParameter("--shares", shares, f"uniform, falling, or {size} numbers, not all zero")
    return weights


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
