"""Estimates of `discreet local` for a terminal: tables, CSV, a picture, and how far a simulation was off."""

import math
from typing import TYPE_CHECKING, Any

import click

from discreet.cli.local_maps import km, told

if TYPE_CHECKING:
    from discreet.local.collection.collector import Estimate
    from discreet.report import Chart


def table(found: "Estimate", truth: list[float] | None = None) -> None:
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
    sure += (
        " by the bootstrap, which does not cover what smoothing bends"
        if sure and found.method == "ibu" and found.survey.places
        else ""
    )
    dropped = f"; {found.counts}" if found.counts is not None else ""
    cells = "; the 20 cells with most, --csv has all" if found.survey.places and found.survey.area.size > 20 else ""
    return f"{found.reports} reports, by {found.method}{sure}{dropped}{cells}"


def comma_separated(found: "Estimate") -> None:
    """All rows as CSV."""
    import csv
    import io

    text = io.StringIO()
    rows = list(found.rows())
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    click.echo(text.getvalue(), nl=False)
    click.echo(_remark(found), err=True)


def errors(found: "Estimate", truth: list[float]) -> dict[str, Any]:
    """How far a simulated estimate is from the truth."""
    away = [abs(a - b) for a, b in zip(found.shares.tolist(), truth, strict=True)]
    facts: dict[str, Any] = {"people": found.reports, "method": found.method, "largest_error": max(away)}
    if found.survey.places:
        facts["noisy_km_from_the_truth"] = told(km(found.noisy, truth, found.survey))
        facts["estimated_km_from_the_truth"] = told(km(found.shares, truth, found.survey))
        return facts
    facts["mean_error"] = sum(away) / len(away)
    oracle: Any = found.survey.oracle()
    facts["expected_deviation_of_a_rare_answer"] = math.sqrt(oracle.variance() / found.reports)
    if found.low is not None and found.high is not None:
        inside = [low <= share <= high for low, share, high in zip(found.low, truth, found.high, strict=True)]
        facts["intervals_that_hold"] = f"{sum(inside)} of {len(inside)}"
    return facts


def chart(found: "Estimate") -> "Chart":
    """Bars with their intervals."""
    from discreet.report import Bars, Chart

    low, high = (None if end is None else 100 * end for end in (found.low, found.high))
    bars = Bars(found.survey.labels, 100 * found.shares, low=low, high=high)
    return Chart(found.survey.question, [bars], y=f"share of {found.reports} people, %")
