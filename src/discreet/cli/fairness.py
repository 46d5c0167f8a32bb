"""`discreet fairness`: disparities between groups, the cost of closing them, and audits of private labels."""

from pathlib import Path
from typing import Any

import click

from discreet.cli.show import Group, explained, facts, json_option, names, refuse_existing

_FILE = click.Path(exists=True, dir_okay=False)
_OUT = click.Path(dir_okay=False, writable=True)


def _bins(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> dict[str, Any]:
    """age=5 (so many bins) or age=25,45 (edges; a single edge ends with a comma)."""
    bins: dict[str, Any] = {}
    for text in texts:
        name, mark, cuts = text.partition("=")
        try:
            edges = [float(cut) for cut in cuts.split(",") if cut.strip()]
            bins[name.strip()] = int(cuts) if "," not in cuts else edges
        except ValueError:
            edges = []
        if not mark or not edges:
            raise click.BadParameter(f"{text!r}: write COLUMN=5 (a number of bins) or COLUMN=25,45 (edges)")
    return bins


def _show(report: Any, output: str | None, title: str, *, as_json: bool) -> None:
    """Write a report to a page, if requested, and to the terminal, as text or JSON."""
    if output is not None:
        report.page(title).save(output)
    if as_json:
        facts(report.as_dict(), as_json=True)
    else:
        click.echo(report.text())
    if output is not None:
        click.echo(f"wrote {output}", err=True)


group_option = click.option("--group", required=True, callback=names, help="Sensitive attributes: race,sex.")
given_option = click.option("--given", callback=names, help="Legitimate attributes: parity is measured within them.")
positive_option = click.option("--positive", callback=names, help="Classes that count as positive, against the rest.")
threshold_option = click.option("--threshold", help="The probability from which on a row is predicted positive.")
bins_option = click.option("--bins", multiple=True, callback=_bins, help="Bin numbers: age=5, or at edges: age=25,45.")
confidence_option = click.option(
    "--confidence", default="0.95", show_default=True, help="The joint level of all confidence bounds."
)
least_option = click.option(
    "--least", default=20, show_default=True, type=click.IntRange(min=1), help="Smaller groups are not compared."
)
page_option = click.option("-o", "--output", type=_OUT, help="Write a page with pictures, as HTML.")
force_option = click.option("--force", is_flag=True, help="Overwrite existing files.")


@click.group(name="fairness", cls=Group)
def group() -> None:
    """Measure disparities between groups and the cost of closing them; audit a model on private labels."""


@group.command()
@click.argument("data", type=_FILE)
@click.option("--prediction", help="The column of predictions.")
@click.option("--label", help="The column of true outcomes; without it, only parity is measured.")
@group_option
@given_option
@click.option("--score", help="The column of scores, to measure calibration; with --threshold, also to predict.")
@positive_option
@threshold_option
@bins_option
@click.option(
    "--missing",
    type=click.Choice(["error", "drop", "group"]),
    default="error",
    show_default=True,
    help="What to do with rows that lack a value: refuse, drop, or make them a group.",
)
@click.option("--absent", callback=names, help='Texts that mean "missing", in addition to the empty text: ?,NA')
@click.option("--count", help="The column of how many rows each row stands for, such as COUNT(*).")
@confidence_option
@least_option
@click.option("--tolerance", help="The largest acceptable gap; exit code 3 if one exceeds it with confidence.")
@click.option(
    "--bootstrap", type=click.IntRange(min=100), help="Bound gaps by the bootstrap, with this many replicates."
)
@page_option
@force_option
@json_option
def report(
    data: str,
    confidence: str,
    least: int,
    tolerance: str | None,
    bootstrap: int | None,
    output: str | None,
    force: bool,
    as_json: bool,
    **columns: Any,
) -> None:
    """Report rates of groups in DATA (CSV or Parquet) and their gaps: parity, equalized odds, calibration …"""
    from discreet.fairness.disparity_report import fairness_report

    refuse_existing(output, "page", force=force)
    drawn: dict[str, Any] = {"limits": "bootstrap", "replicates": bootstrap} if bootstrap is not None else {}
    report = fairness_report(data, confidence=confidence, least=least, tolerance=tolerance, **drawn, **columns)
    _show(report, output, f"Fairness of {Path(data).name}", as_json=as_json)
    if report.fails:
        raise click.exceptions.Exit(3)


@group.command()
@click.argument("data", type=_FILE)
@click.option("--label", required=True, help="The column of true outcomes, such as 0 and 1.")
@click.option("--score", required=True, help="The column of scores.")
@click.option("--group", required=True, help="The sensitive attribute.")
@least_option
@page_option
@force_option
@json_option
def tradeoff(
    data: str, label: str, score: str, group: str, least: int, output: str | None, force: bool, as_json: bool
) -> None:
    """Show what closing gaps costs in accuracy, with the best thresholds on the score in DATA for each group."""
    from discreet.fairness.column_codes import numbers
    from discreet.fairness.tradeoff import tradeoff as traded
    from discreet.tables import column, read_table

    refuse_existing(output, "page", force=force)
    table = read_table(data)
    values = [column(table, name).to_pylist() for name in (label, group)]
    report = traded(numbers(table, score), *values, least=least)
    _show(report, output, f"What fairness costs: {Path(data).name}", as_json=as_json)


@group.command()
@click.argument("policy", type=click.Path())
@click.argument("predictions", type=_FILE)
@click.option("--table", required=True, help="The private table.")
@click.option("--label", required=True, help="The private column of true outcomes.")
@group_option
@given_option
@click.option("--key", help="The column that identifies a prediction; the unit's, if a person is protected.")
@click.option("--prediction", default="prediction", show_default=True, help="The column of PREDICTIONS.")
@positive_option
@threshold_option
@bins_option
@click.option("--epsilon", required=True, metavar="ε", help="What the whole audit may cost: 1")
@click.option("--delta", metavar="δ", help="For Gaussian noise.")
@click.option("--noise", type=click.Choice(["geometric", "gaussian"]), default="geometric", show_default=True)
@confidence_option
@least_option
@click.option("--explain", is_flag=True, help="Show what it would cost and do, and stop.")
@click.option("--analyst", help="Who is charged; by default the name of the user.")
@page_option
@force_option
@json_option
def audit(
    policy: str,
    predictions: str,
    explain: bool,
    analyst: str | None,
    output: str | None,
    force: bool,
    as_json: bool,
    **request: Any,
) -> None:
    """Audit PREDICTIONS (CSV or Parquet, by unit) on private labels and groups, charged to the budget of POLICY."""
    import discreet

    refuse_existing(output, "page", force=force)
    with discreet.open(policy, analyst=analyst) as data:
        plan = data.plan(discreet.FairnessAudit(predictions=predictions, **request))
        if explain:
            explained(plan.explain(), as_json=as_json)
            return
        report = data.release(plan)
    _show(report, output, "Private fairness audit", as_json=as_json)
