"""`discreet train` and `discreet predict`: train a model on private rows, and apply one."""

from pathlib import Path
from typing import Any

import click

from discreet.cli.show import (
    analyst_option,
    delta_option,
    epsilon_option,
    explained,
    facts,
    is_url,
    job_done,
    json_option,
    output_option,
)

_OUT = click.Path(dir_okay=False, writable=True)


def _names(_: click.Context, __: click.Parameter, given: str | None) -> tuple[str, ...] | None:
    return None if given is None else tuple(name.strip() for name in given.split(",") if name.strip())


def _widths(_: click.Context, __: click.Parameter, given: str | None) -> tuple[int, ...] | None:
    if given is None:
        return None
    try:
        return tuple(int(width) for width in given.split(",") if width.strip())
    except ValueError:
        raise click.BadParameter(f"{given!r}: widths are whole numbers, e.g. 64 or 64,32") from None


@click.command()
@click.argument("policy", metavar="POLICY|URL", type=click.Path())
@click.argument("table")
@click.argument("target")
@epsilon_option("What the whole training may cost: 1")
@delta_option("The δ, below one over the number of people: 1e-6", required=True)
@click.option(
    "--examples",
    required=True,
    type=click.IntRange(min=1),
    help="Roughly how many people there are, by public knowledge.",
)
@click.option("--features", callback=_names, help="Columns to learn from: a,b,c; by default all others.")
@click.option(
    "--model",
    type=click.Choice(["network", "linear", "logistic", "tree"]),
    default="network",
    show_default=True,
    help="A network (DP-SGD), linear (for a number), logistic or tree (for classes).",
)
@click.option("--depth", type=click.IntRange(0, 12), default=4, show_default=True, help="The depth of a tree.")
@click.option(
    "--hidden", callback=_widths, help='Widths of hidden layers: 64,32; "" for none; by default chosen by --examples.'
)
@click.option("--epochs", help="How often each example is used, on average; by default for 300 lots.")
@click.option(
    "--lot",
    type=click.IntRange(min=1),
    help="Examples in a lot, on average; by default 4800, or a tenth with --epochs.",
)
@click.option("--explain", is_flag=True, help="Show what it would cost and do, and stop.")
@output_option("Write the model here.")
@click.option("--report", type=_OUT, help="Write a page with the learning curve.")
@analyst_option
@json_option
def train(
    policy: str,
    table: str,
    target: str,
    explain: bool,
    output: str | None,
    report: str | None,
    analyst: str | None,
    as_json: bool,
    **request: Any,
) -> None:
    """Train a model that predicts column TARGET of TABLE, charged to the budget of POLICY.

    With the URL of a server and a token in DISCREET_TOKEN, the server trains and this command waits.

    Only columns with declared bounds or values can be used. The model is differentially private and safe to publish.
    """
    import discreet

    if not explain and output is None:
        raise click.UsageError("state where to write: -o MODEL; or add --explain to see what it would cost")
    for path in (output, report):
        if path is not None and Path(path).exists():
            raise click.ClickException(f"{path} exists already; choose another name")
    training = discreet.Training(table=table, target=target, **request)
    if is_url(policy):
        files = {str(output): "application/octet-stream"} | ({} if report is None else {report: "text/html"})
        job = job_done(policy, training, files, analyst=analyst, explain=explain)
        facts({"model": output, "cost": str(job.receipt)}, as_json=as_json)
        return
    with discreet.open(policy, analyst=analyst) as data:
        plan = data.plan(training)
        if explain:
            explained(plan.explain(), as_json=as_json)
            return
        model = data.release(plan)
    model.save(str(output))
    if report is not None:
        model.page().save(report)
    printed: dict[str, Any] = {
        "model": output,
        "cost": str(model.receipt),
        model.plan.shape.model: model.plan.shape.words,
    }
    printed |= {"noisy_loss_at_the_end": sum(model.losses[-20:]) / len(model.losses[-20:])} if model.losses else {}
    facts(printed, as_json=as_json)


@click.command()
@click.argument("model", type=click.Path(exists=True, dir_okay=False))
@click.argument("data", type=click.Path(exists=True, dir_okay=False))
@output_option("Write DATA with a column `predicted` here, .csv or .parquet.")
@json_option
def predict(model: str, data: str, output: str | None, as_json: bool) -> None:
    """Apply MODEL to the rows of DATA (CSV or Parquet), which you may see, and score it if they hold the target."""
    from discreet.learning.column_model import ColumnModel
    from discreet.tables import read_table, write

    if output is not None and Path(output).exists():
        raise click.ClickException(f"{output} exists already; choose another name")
    loaded, table = ColumnModel.load(model), read_table(data)
    predicted = loaded.predict(table)
    printed: dict[str, Any] = {"rows": table.num_rows}
    if loaded.shape.target.column.name in table.column_names:
        printed["accuracy" if loaded.classes is not None else "R2"] = loaded.score(table)
    if output is not None:
        write(table.append_column("predicted", [[str(value) for value in predicted]]), output)
        click.echo(f"wrote {output}", err=True)
    facts(printed, as_json=as_json)
