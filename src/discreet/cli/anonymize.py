"""`discreet anonymize` and `discreet risk`: what people use today, measured."""

from pathlib import Path
from typing import Any

import click

from discreet.cli.show import facts, json_option, names, refuse_existing

_FILE = click.Path(exists=True, dir_okay=False)
_OUT = click.Path(dir_okay=False, writable=True)


report_option = click.option("--report", type=_OUT, help="Write a report with pictures, as an HTML page.")
force_option = click.option("--force", is_flag=True, help="Overwrite existing files.")


@click.command()
@click.argument("data", type=_FILE)
@click.argument("policy", type=_FILE)
@click.option("-o", "--output", type=_OUT, required=True, help="The anonymized table, .csv or .parquet.")
@click.option("--keep-order", is_flag=True, help="Keep the order of the rows, although it may reveal whose they are.")
@report_option
@force_option
@json_option
def anonymize(
    data: str, policy: str, output: str, keep_order: bool, report: str | None, force: bool, as_json: bool
) -> None:
    """Anonymize DATA (CSV or Parquet) as POLICY (TOML) says: redaction, coarsening, k-anonymity and similar.

    Rows are written in a random order. The result is not differentially private: the report says what it does not
    promise.
    """
    from discreet.anonymity import Policy
    from discreet.anonymity import anonymize as made
    from discreet.anonymity.masking import shuffled
    from discreet.tables import read_table, write

    refuse_existing(output, "table", force=force)
    refuse_existing(report, "report", force=force)
    if Path(output).suffix.lower() not in (".csv", ".parquet", ".pq"):
        raise click.BadParameter(f"{output!r} does not end in .csv or .parquet", param_hint="--output")
    result = made(read_table(data), Policy.read(policy))
    write(result.table if keep_order else shuffled(result.table), output)
    if report is not None:
        result.page(title=f"{Path(data).name}, anonymized").save(report)
    if as_json:
        facts(result.as_dict(), as_json=True)
    else:
        click.echo(result.text())
    click.echo(f"wrote {output}" + (f" and {report}" if report else ""), err=True)


@click.command()
@click.argument("data", type=_FILE)
@click.option("--quasi", required=True, callback=names, help="Columns by which people could be recognized: a,b,c.")
@click.option(
    "--sensitive", callback=names, help="Sensitive columns: equivalence classes are checked for a single value."
)
@click.option(
    "--unit", help="The column that identifies a person, if a person may have several rows; people are then counted."
)
@click.option(
    "--population", type=click.IntRange(min=1), help="The size of the population from which the table is a sample."
)
@click.option(
    "--threshold",
    default="0.09",
    show_default=True,
    help="Report re-identification probabilities above this as a risk.",
)
@click.option(
    "--share",
    default="0.5",
    show_default=True,
    help="Report column sets that single out at least this share of people.",
)
@click.option("--largest", default=4, show_default=True, help="The largest column set to try.")
@report_option
@force_option
@json_option
def risk(
    data: str,
    quasi: tuple[str, ...],
    sensitive: tuple[str, ...],
    unit: str | None,
    population: int | None,
    threshold: str,
    share: str,
    largest: int,
    report: str | None,
    force: bool,
    as_json: bool,
) -> None:
    """Measure how easily people can be re-identified in DATA (CSV or Parquet), and by which columns.

    Prosecutor, journalist and marketer risk by the named columns; and, among all columns, the smallest sets that
    single people out.
    """
    from discreet.anonymity import Classes
    from discreet.anonymity.anonymity_report import risk_page
    from discreet.anonymity.models import unit_codes
    from discreet.anonymity.risk import risk as measured
    from discreet.anonymity.uniques import unique_sets
    from discreet.tables import read_table

    refuse_existing(report, "report", force=force)
    table = read_table(data)
    units = None if unit is None else unit_codes(table, unit)
    table = table if unit is None else table.drop_columns([unit])
    classes = Classes.of_table(table, quasi)
    result = measured(classes, threshold=threshold, population=population, units=units)
    prints = unique_sets(table, share=share, largest=largest, units=units)
    if report is not None:
        settings: dict[str, Any] = {"population": population, "threshold": threshold, "share": share, "units": units}
        risk_page(
            table, quasi, sensitive=sensitive, largest=largest, title=f"Risk of {Path(data).name}", **settings
        ).save(report)
    if as_json:
        facts({**result.as_dict(), "unique_sets": prints.as_dict()}, as_json=True)
    else:
        click.echo(result.text())
        click.echo(prints.text())
    if report is not None:
        click.echo(f"wrote {report}", err=True)
