"""`discreet init` and `discreet check`: the owner's policy, drafted, explained and compared with the data."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from discreet.cli import show

if TYPE_CHECKING:
    from discreet.curator.policy import Policy


@click.command()
@click.argument("sources", metavar="SOURCE...", nargs=-1, required=True)
@show.output_option("Write the policy to this file, which must be new.")
@show.json_option
def init(sources: tuple[str, ...], output: str | None, as_json: bool) -> None:
    """Draft a policy for one table or several: .parquet or .csv files, or database.duckdb#table.

    Only schemas are read, never a value. Every decision that is yours is marked "?".
    """
    from discreet.curator.owner.policy_draft import draft_policy

    text = draft_policy(*sources, base=Path(output).parent if output else ".")
    if output or not as_json:
        show.text(text, output, f'decide every "?", then run: discreet check {output}')
    if as_json:
        show.facts({"policy": text, "undecided": text.count('"?"'), "file": output}, as_json=True)


@click.command()
@click.argument("policy", type=click.Path())
@click.option("--upgrade", is_flag=True, help="First rewrite a policy of an earlier version for this one.")
@click.option("--data", "with_rows", is_flag=True, help="Also read the rows: exact numbers, for the owner's eyes only.")
@show.json_option
@click.pass_context
def check(context: click.Context, policy: str, upgrade: bool, with_rows: bool, as_json: bool) -> None:
    """Explain POLICY in words, and check that it fits the files or the server's tables it names.

    Only schemas are read: missing tables and columns, and types that differ, are errors. With --data the rows are read
    too, exactly and without a charge: values that are not of their type, outside bounds or undeclared, how many rows
    and groups people have, and what the bounds drop from answers. Do not share those numbers: they are exact.

    With --upgrade, a policy of an earlier version is rewritten first, and the old file is kept next to it.

    Exit code 3 if the policy does not fit.
    """
    from discreet.curator.owner.exact_view import check_schema, exact_view
    from discreet.curator.policy import ENGINES, explain, read_policy

    if upgrade:
        _upgrade(policy)
    read = read_policy(policy)
    view = exact_view(read) if with_rows else None
    findings = check_schema(read) if view is None else view.findings
    if as_json:
        meaning = _meaning(read)
        further = (
            {"findings": [finding.to_json() for finding in findings]} if view is None else {"data": view.to_json()}
        )
        show.facts({**meaning, **further}, as_json=True)
    else:
        click.echo(explain(read))
        if view is not None:
            click.echo(f"\n{view}")
        elif findings:
            click.echo("\n" + "\n".join(map(str, findings)))
    errors = sum(finding.level == "error" for finding in findings)
    if errors:
        tables = "files" if read.engine == ENGINES[0] else "tables"
        click.echo(f"discreet: {policy} does not fit its {tables}: {errors} error{'s' * (errors > 1)}", err=True)
        context.exit(3)


def _ranges(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> dict[str, tuple[str, str]]:
    """Columns with their wide ranges: amount=0:100000."""
    ranges = {}
    for text in texts:
        name, equals, ends = text.rpartition("=")
        low, colon, high = ends.partition(":")
        if not (name and equals and colon and low and high):
            raise click.BadParameter(f"got {text!r}, expected a column and a range, such as amount=0:100000")
        ranges[name] = (low, high)
    return ranges


@click.command()
@click.argument("policy", type=click.Path())
@click.argument("table")
@show.epsilon_option("What the whole choice may cost: 0.1")
@click.option("--by", callback=show.names, help="Columns that questions group by: a,b,c.")
@click.option("--column", "columns", multiple=True, callback=_ranges, metavar="NAME=LOW:HIGH",
              help="Choose the bounds of a column within this wide, public range.")  # fmt: skip
@click.option(
    "--quantile",
    "probability",
    default="0.95",
    show_default=True,
    help="The share of people whose data the bounds leave whole.",
)
@click.option(
    "--most-groups", type=int, default=1000, show_default=True, help="The largest bound on groups to consider."
)
@click.option("--most-rows", type=int, default=1000, show_default=True, help="The largest bound on rows to consider.")
@click.option("--write", is_flag=True, help="Write the bounds into the policy, and keep the old file next to it.")
@click.option("--explain", is_flag=True, help="Show what it would cost and do, and stop.")
@show.analyst_option
@show.json_option
def bounds(
    policy: str, table: str, write: bool, explain: bool, analyst: str | None, as_json: bool, **request: Any
) -> None:
    """Choose contribution bounds of TABLE, and ranges of its columns, privately: charged to the budget of POLICY.

    Each is a quantile of what people contribute: in how many groups of --by a person is, how many rows a person has in
    one group, the smallest and largest value of a column that a person has. `check --data` says the same exactly, for
    the owner alone.
    """
    import discreet

    with discreet.open(policy, analyst=analyst) as data:
        plan = data.plan(discreet.ContributionBounds(table=table, **request))
        if explain:
            show.explained(plan.explain(), as_json=as_json)
            return
        chosen = data.release(plan)
    if as_json:
        show.facts(chosen.to_json(), as_json=True)
    else:
        click.echo(str(chosen))
    if write:
        from discreet.curator.owner.policy_draft import with_bounds
        from discreet.curator.policy import policy_text

        old = policy_text(policy)
        parts = (chosen.table, chosen.contributions, chosen.columns)
        _rewrite(policy, old, with_bounds(old, *parts, provenance=chosen.provenance))


def _upgrade(policy: str) -> None:
    """Put a policy of an earlier version into the words of this one."""
    from discreet.curator.policy import policy_text, upgraded

    old = policy_text(policy)
    new, changes = upgraded(old)
    for change in changes:
        click.echo(f"{policy}: {change}", err=True)
    if changes:
        _rewrite(policy, old, new)
    else:
        click.echo(f"{policy}: nothing to rewrite", err=True)


def _rewrite(policy: str, old: str, new: str) -> None:
    """Rewrite the file, and keep the old one beside it."""
    from discreet.durable import settle

    Path(f"{policy}.old").write_text(old, encoding="utf-8")
    beside = Path(f"{policy}.new")
    with beside.open("wb") as sink:
        sink.write(new.encode())
        settle(sink, beside, Path(policy))
    click.echo(f"{policy}: rewritten; the old one is {policy}.old", err=True)


def _meaning(policy: "Policy") -> dict[str, Any]:
    """What a policy means, for programs."""
    tables = {
        table.name: {
            "source": policy.sources[table.name],
            "protects": str(table.unit) if table.private else None,
            "columns": {column.name: column.describe() for column in table.columns},
        }
        for table in policy.catalog.tables.values()
    }
    limit = policy.budget
    return {
        "dataset": policy.catalog.name,
        "neighbors": str(policy.catalog.neighbors),
        "budget": {"epsilon": limit.epsilon, "delta": limit.delta, "delta_for_keys": limit.delta_for_keys},
        "tables": tables,
    }
