"""`discreet local`: surveys of people who trust nobody: respond, collect, estimate, map, page, simulate."""

import json
import math
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from discreet.cli import show
from discreet.errors import BudgetExceeded, InvalidData, InvalidParameter

if TYPE_CHECKING:
    from discreet.local.collect import Estimate
    from discreet.local.maps import Map
    from discreet.local.survey import Report, Survey
    from discreet.noise import Entropy

_SURVEY = click.argument("survey", type=click.Path())
_STORE = click.argument("store", type=click.Path())
_METHODS = ("inversion", "ibu")
_MAPS = (".png", ".svg", ".pdf", ".html")
_MOST_PEOPLE = 10_000_000
_MOST_EXACT = 2500  # cells up to which the earth mover's distance is found exactly

confidence_option = click.option(
    "--confidence", default="0.95", show_default=True, help="With which all intervals hold together."
)
seed_option = click.option("--seed", type=int, help="Draw the same numbers again. Never for people's own reports.")
method_option = click.option(
    "--method", type=click.Choice(_METHODS), help="How; by default ibu for places, else inversion."
)


@click.group()
def group() -> None:
    """Ask people who trust nobody: answers are randomised before they leave the device.

    A survey is a TOML file: name, version, question, domain, randomiser, epsilon, times.
    """


@group.command()
@_SURVEY
@click.argument("answer", required=False)
@click.option("--account", type=click.Path(dir_okay=False), help="Charge the device's own account, a file, first.")
@click.option("--allow", metavar="ε", help="The total that the account allows; needed when it is made.")
@click.option("--explain", is_flag=True, help="Say what would be sent how often and what it costs; send nothing.")
@show.json_option
def respond(
    survey: str, answer: str | None, account: str | None, allow: str | None, explain: bool, as_json: bool
) -> None:
    """Randomise ANSWER on this device and print the report, one line to send: nothing else leaves.

    ANSWER is one that the survey offers; for places "latitude,longitude"; - reads it from standard input, where other
    users of this machine do not see it. Whoever would rather not answer prints nothing and sends nothing.
    """
    read = _read(survey)
    if explain:
        _explain(read, as_json=as_json)
        return
    if answer is None:
        raise click.UsageError("there is no ANSWER; write it after the survey, or - to read it from standard input")
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
    """Add the reports in FILE (or on standard input), one a line, to STORE; count what is not a report, and why.

    STORE is a DuckDB file; it is made if there is none. What is stored already counts as replayed.
    """
    from discreet.local.collect import Collection

    read = _read(survey)
    with _lines(lines) as given:
        counts = Collection(store).add(read, given)
    show.facts({"accepted": counts.accepted, "rejected": counts.rejected, **counts.reasons}, as_json=as_json)


@group.command()
@_STORE
@_SURVEY
@confidence_option
@method_option
@click.option("--intervals", is_flag=True, help="For places: intervals too, by the bootstrap, which takes a while.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")
@show.json_option
@show.plot_option
def estimate(
    store: str,
    survey: str,
    confidence: str,
    method: Any,
    intervals: bool,
    as_csv: bool,
    as_json: bool,
    plot: str | None,
) -> None:
    """The shares of the answers in STORE, with intervals: what all people said together.

    The intervals cover the noise that the devices added, at --confidence for all answers together.
    """
    from discreet.local.collect import Collection

    if as_csv and as_json:
        raise click.UsageError("--json or --csv, not both")
    read = _read(survey)
    wanted = confidence if intervals or not read.places else None
    found = Collection(store).estimate(read, confidence=wanted, method=method)
    if as_json:
        click.echo(json.dumps(found.to_json(), ensure_ascii=False))
    elif as_csv:
        _csv(found)
    else:
        _table(found)
    if plot and read.places:
        _write_maps(plot, _of_store(found), read)
    elif plot:
        show.picture(plot, lambda axes: _draw(axes, found))


@group.command(name="map")
@_SURVEY
@click.argument("source", type=click.Path())
@click.option(
    "--output", "-o", required=True, type=click.Path(dir_okay=False), help="The map: .png, .svg, .pdf or .html"
)
@click.option(
    "--latitude", default="lat", show_default=True, help="Of a CSV file: the column of latitudes (or y, in km)."
)
@click.option("--longitude", default="lon", show_default=True, help="The column of longitudes (or x, in km).")
@click.option("--weight", help="The column that says how many people a line stands for; one each, if not given.")
@click.option("--iterations", type=click.IntRange(min=1), help="Of the estimate; 500, if not given.")
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
    """Maps side by side, of the reports in a store or of the points in a CSV file.

    SOURCE is a store of `discreet local collect`: the noisy map and the estimated one. Or a .csv file of true points,
    to see what a survey would lose: the reports are simulated, the true, noisy and estimated maps drawn, and their
    distances to the truth told (earth mover's, in km).
    """
    _check_map(output)
    read = _read(survey)
    area = read.area
    if Path(source).suffix.lower() == ".csv":
        names = (latitude, longitude, weight)
        facts, maps = _simulated_maps(read, _points(read, source, names), iterations, _entropy(seed))
    else:
        from discreet.local.collect import Collection

        found = Collection(source).estimate(read, confidence=None, iterations=iterations)
        facts, maps = {"reports": found.reports}, _of_store(found)
    show.facts({**facts, "cells": f"{area.rows} × {area.columns}", "cell_km": area.cell}, as_json=as_json)
    _write_maps(output, maps, read)


@group.command()
@_SURVEY
@click.option("--output", "-o", type=click.Path(dir_okay=False), help="Write the page to this file, which must be new.")
@click.option(
    "--endpoint", help="Where the page sends reports: an https:// address. Without, people copy or save theirs."
)
@show.json_option
def page(survey: str, output: str | None, endpoint: str | None, as_json: bool) -> None:
    """Make one static HTML file that asks the question and randomises the answer in the browser."""
    from discreet.local.page import page as make

    read = _read(survey)
    text = make(read, endpoint=endpoint)
    if as_json and output is None:
        raise click.UsageError("--json goes with --output: it tells what was written")
    show.text(text, output, "open it in a browser, or publish it as it is")
    if as_json:
        show.facts({"wrote": output, "survey": read.digest, "endpoint": endpoint}, as_json=True)


@group.command()
@_SURVEY
@click.option("--people", required=True, type=click.IntRange(1, _MOST_PEOPLE), help="How many would answer.")
@click.option(
    "--shares",
    default="falling",
    show_default=True,
    help="Of the answers: uniform, falling (1, 1/2, 1/3, …), or a number for each answer: 0.5,0.3,0.2",
)
@confidence_option
@method_option
@seed_option
@show.json_option
def simulate(
    survey: str, people: int, shares: str, confidence: str, method: Any, seed: int | None, as_json: bool
) -> None:
    """What would be learned from so many people, before anybody is asked: draw answers, randomise, estimate."""
    from discreet.local.collect import estimate as estimated
    from discreet.noise import categorical

    read, entropy = _read(survey), _entropy(seed)
    weights = _weights(shares, len(read.labels))
    randomiser = read.randomises()
    answers = categorical(weights, people, entropy=entropy)
    tally = randomiser.tally(randomiser.randomise(answers, entropy=entropy))
    wanted = None if read.places else confidence
    found = estimated(read, tally, reports=people, confidence=wanted, method=method)
    total = sum(weights)
    truth = [float(weight / total) for weight in weights]
    if not read.places and not as_json:
        _table(found, truth)
    facts = _errors(found, truth)
    if as_json:
        facts["answers"] = [row | {"truth": share} for row, share in zip(found.rows(), truth, strict=True)]
    show.facts(facts, as_json=as_json)


# On the device


def _read(path: str) -> "Survey":
    from discreet.local.survey import read_survey

    return read_survey(path)


def _explain(survey: "Survey", *, as_json: bool) -> None:
    """What one report tells and costs, in words."""
    from discreet.local.page import cost_words

    told: dict[str, Any] = {"question": survey.question, "randomiser": survey.randomiser}
    randomiser: Any = survey.randomises()
    if survey.places:
        told |= {"epsilon_per_km": survey.cost, "noise_50_%_within_km": randomiser.interval("0.5")}
        told |= {"noise_95_%_within_km": randomiser.interval("0.95")}
    else:
        told |= {
            "epsilon": survey.cost,
            "answers": len(survey.labels),
            "report_fits_the_answer": float(randomiser.truth),
        }
        if hasattr(randomiser, "other"):
            told["report_fits_another"] = float(randomiser.other)
    most = "epsilon_per_km_at_most" if survey.places else "epsilon_at_most"
    told |= {"reports_at_most": survey.times, most: survey.times * survey.cost}
    told["in_words"] = cost_words(survey)
    show.facts(told, as_json=as_json)


def _charge(survey: "Survey", report: "Report", path: str, allow: str | None) -> None:
    """Write a report and its cost down in the account that the device keeps for its person; only then it may leave."""
    from discreet.local.account import DeviceAccount, parsed, read

    if allow is None:
        if not Path(path).exists():
            raise click.UsageError(f"there is no account {path} yet; state the total ε that you allow: --allow 2")
        heading: Any = parsed(read(Path(path)).partition("\n")[0])
        allow = str(heading.get("epsilon", 1)) if isinstance(heading, dict) else "1"  # what is wrong, the account says
    account = DeviceAccount(path, epsilon=allow)
    sent = sum(entry.survey == survey.digest for entry in account.entries())
    if sent >= survey.times:
        raise BudgetExceeded(
            f"{sent} of at most {survey.times} reports to {survey.digest!r} were sent; nothing was sent"
        )
    words = account.charge(survey.whole_loss, survey=survey.digest, sent=report.report).words()
    click.echo(f"{words}; {show.number(account.left)} of {show.number(account.epsilon)} is left", err=True)


# Reading


@contextmanager
def _lines(path: str) -> Iterator[Iterable[bytes]]:
    if path == "-":
        yield sys.stdin.buffer
        return
    try:
        with Path(path).open("rb") as file:
            yield file
    except OSError as error:
        raise click.ClickException(f"cannot read {path}: {error.strerror or error}") from None


def _points(survey: "Survey", path: str, names: tuple[str, str, str | None]) -> dict[str, Any]:
    """The cells of the people in a CSV file, and how many lines could not be placed."""
    import csv

    import numpy as np

    try:
        with Path(path).open(newline="", encoding="utf-8-sig") as file:
            rows = csv.DictReader(file)
            missing = [name for name in names if name is not None and name not in (rows.fieldnames or [])]
            if missing:
                raise click.UsageError(
                    f"{path} has no column {missing[0]!r}; it has: {', '.join(rows.fieldnames or [])}"
                )
            table = [[row[name] if name else "1" for name in names] for row in rows]
    except OSError as error:
        raise click.ClickException(f"cannot read {path}: {error.strerror or error}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise click.ClickException(f"cannot read {path}: {error}") from None
    weights = [int(row[2]) if (row[2] or "").isdecimal() and len(row[2]) < 10 else 0 for row in table]
    first, second = ([row[column] for row in table] for column in (0, 1))
    area = survey.area
    if area.centre is not None:
        found = area.locate(first, second)
    else:
        found = area.cells_of(np.array([second, first], dtype=object).T)
    if sum(weights) > _MOST_PEOPLE:
        raise click.ClickException(f"{path} stands for {sum(weights):,} people; at most {_MOST_PEOPLE:,} are simulated")
    people = np.repeat(found.cells, weights)
    kept = people[people >= 0]
    if not kept.size:
        raise InvalidData(f"points: none of {len(table)} lines lies in the area ({found.malformed} malformed)")
    return {"people": kept, "malformed": found.malformed + weights.count(0), "outside": found.outside}


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


# Printing


def _table(found: "Estimate", truth: list[float] | None = None) -> None:
    """Answers with shares and intervals, in per cent; for places, the cells with most."""
    rows = list(found.rows())
    if truth is not None:
        rows = [row | {"truth": share} for row, share in zip(rows, truth, strict=True)]
    if found.survey.places:
        rows = sorted(rows, key=lambda row: -row["share"])[:20]
    texts = [_cells(row) for row in rows]
    heads = list(texts[0])
    widths = [max(len(head), *(len(text[head]) for text in texts)) for head in heads]
    for line in [{head: head for head in heads}, *texts]:
        first, *others = (f"{line[head]:>{width}}" for head, width in zip(heads, widths, strict=True))
        click.echo("  ".join([line[heads[0]].ljust(len(first)), *others]).rstrip())
    if truth is None:
        click.echo(_remark(found), err=True)


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


def _remark(found: "Estimate") -> str:
    sure = f", all intervals at {found.confidence}" if found.confidence is not None else ""
    sure += " by the bootstrap, too narrow for shares near 0" if sure and found.method == "ibu" else ""
    dropped = f"; {found.counts}" if found.counts is not None else ""
    cells = "; the 20 cells with most, --csv has all" if found.survey.places and found.survey.area.size > 20 else ""
    return f"{found.reports} reports, by {found.method}{sure}{dropped}{cells}"


def _csv(found: "Estimate") -> None:
    import csv
    import io

    text = io.StringIO()
    rows = list(found.rows())
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    click.echo(text.getvalue(), nl=False)
    click.echo(_remark(found), err=True)


def _errors(found: "Estimate", truth: list[float]) -> dict[str, Any]:
    """How far a simulated estimate is from the truth."""
    away = [abs(a - b) for a, b in zip(found.shares.tolist(), truth, strict=True)]
    facts: dict[str, Any] = {"people": found.reports, "method": found.method, "largest_error": max(away)}
    if found.survey.places:
        facts["noisy_km_from_the_truth"] = _km(found.noisy, truth, found.survey)
        facts["estimated_km_from_the_truth"] = _km(found.shares, truth, found.survey)
        return facts
    facts["mean_error"] = sum(away) / len(away)
    oracle: Any = found.survey.oracle()
    facts["expected_deviation_of_a_rare_answer"] = math.sqrt(oracle.variance() / found.reports)
    if found.low is not None and found.high is not None:
        inside = [low <= share <= high for low, share, high in zip(found.low, truth, found.high, strict=True)]
        facts["intervals_that_hold"] = f"{sum(inside)} of {len(inside)}"
    return facts


def _draw(axes: Any, found: "Estimate") -> None:
    import numpy as np

    places = np.arange(found.shares.size)
    axes.barh(places, 100 * found.shares, color="#6ba8b2")
    if found.low is not None and found.high is not None:
        below, above = found.shares - found.low, found.high - found.shares
        reach = 100 * np.maximum([below, above], 0)
        axes.errorbar(100 * found.shares, places, xerr=reach, fmt="none", ecolor="#143660", capsize=3)
    if found.shares.size <= 60:
        axes.set_yticks(places, found.survey.labels)
    axes.invert_yaxis()
    axes.set_xlabel(f"share of {found.reports} people, %")
    axes.set_title(found.survey.question)


# Maps


def _check_map(path: str) -> None:
    """Refuse a map that could not be drawn or written, before anything is computed."""
    if Path(path).suffix.lower() not in _MAPS:
        raise click.BadParameter(f"{path!r} does not end in {', '.join(_MAPS)}", param_hint="--output")
    if Path(path).suffix.lower() != ".html":
        show.checked_picture(click.get_current_context(), click.Option(["--output"]), path)
    elif not Path(path).parent.is_dir():
        raise click.BadParameter(f"cannot write {path}: there is no folder {Path(path).parent}", param_hint="--output")


def _simulated_maps(
    survey: "Survey", points: dict[str, Any], iterations: int | None, entropy: "Entropy"
) -> "tuple[dict[str, Any], list[Map]]":
    from discreet.local.collect import estimate as estimated
    from discreet.local.maps import Map

    people, planar = points.pop("people"), survey.planar()
    truth = survey.area.counts(people) / len(people)
    tally = planar.tally(planar.randomise(people, entropy=entropy))
    found = estimated(survey, tally, reports=len(people), confidence=None, iterations=iterations)
    noisy, near = _km(found.noisy, truth, survey), _km(found.shares, truth, survey)
    facts = {"people": len(people), **points, "noisy_km_from_the_truth": noisy, "estimated_km_from_the_truth": near}
    seen = truth * 0 if found.noisy is None else found.noisy
    return facts, [Map("true", truth), Map("noisy", seen, noisy), Map("estimated", found.shares, near)]


def _of_store(found: "Estimate") -> "list[Map]":
    from discreet.local.maps import Map

    noisy = [] if found.noisy is None else [Map("noisy", found.noisy)]
    return [Map("estimated", found.shares), *noisy]


def _km(shares: Any, truth: Any, survey: "Survey") -> float | None:
    """The earth mover's distance; on large areas, the middle of its bounds; none where nothing lies in the area."""
    from discreet.local.transport import earth_mover, earth_mover_bounds

    if shares is None or not max(shares) > 0:
        return None
    positive = [max(share, 0.0) for share in shares]
    if survey.area.size <= _MOST_EXACT:
        return round(earth_mover(positive, truth, survey.area), 6)
    bounds = earth_mover_bounds(positive, truth, survey.area)
    return round((bounds.lower + bounds.upper) / 2, 6)


def _write_maps(path: str, maps: "list[Map]", survey: "Survey") -> None:
    from discreet.local.maps import draw, save_page

    write = save_page if Path(path).suffix.lower() == ".html" else draw
    try:
        write(path, maps, survey.area, title=survey.question)
    except OSError as error:
        raise click.ClickException(f"cannot write {path}: {error.strerror or error}") from None
    click.echo(f"wrote {Path(path).name}", err=True)
