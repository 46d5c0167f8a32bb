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
def init(sources: tuple[str, ...], output: str | None) -> None:
    """Draft a policy for one table or several: .parquet or .csv files, or database.duckdb#table.

    Only schemas are read, never a value. Every decision that is yours is marked "?".
    """
    from discreet.curator.draft import draft_policy

    text = draft_policy(*sources, base=Path(output).parent if output else ".")
    show.text(text, output, f'decide every "?", then run: discreet check {output}')


@click.command()
@click.argument("policy", type=click.Path())
@click.option("--upgrade", is_flag=True, help="Rewrite a policy of an earlier version in the words of this one first.")
@click.option("--data", "with_rows", is_flag=True, help="Read the rows too: exact numbers, for the owner's eyes only.")
@show.json_option
@click.pass_context
def check(context: click.Context, policy: str, upgrade: bool, with_rows: bool, as_json: bool) -> None:
    """Say what POLICY means, in words, and whether it fits the files that it names.

    Only schemas are read: missing files and columns, and types that differ, are errors. With --data the rows are read
    too, exactly and without a charge: values that are not of their type, outside bounds or undeclared, how many rows
    and groups people have, and what the bounds leave out of answers. Those numbers are not private: keep them.

    With --upgrade, a policy of an earlier version is rewritten first; the old file is kept beside it.

    Exit code 3 where the policy does not fit.
    """
    from discreet.curator.owner import check_schema, exact_view
    from discreet.curator.policy import explain, read_policy

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
        click.echo(f"discreet: {policy} does not fit its files: {errors} error{'s' * (errors > 1)}", err=True)
        context.exit(3)


def _upgrade(policy: str) -> None:
    """Rewrite the file, and keep the old one beside it."""
    from discreet.curator.policy import policy_text, upgraded
    from discreet.durable import settle

    old = policy_text(policy)
    new, changes = upgraded(old)
    for change in changes:
        click.echo(f"{policy}: {change}", err=True)
    if changes:
        Path(f"{policy}.old").write_text(old, encoding="utf-8")
        beside = Path(f"{policy}.new")
        with beside.open("wb") as sink:
            sink.write(new.encode())
            settle(sink, beside, Path(policy))
        click.echo(f"{policy}: rewritten; the old one is {policy}.old", err=True)
    else:
        click.echo(f"{policy}: nothing to rewrite", err=True)


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
