"""`discreet init` and `discreet check`: the owner's policy, drafted and explained."""

import click

from discreet.cli import show


@click.command()
@click.argument("source")
@click.option(
    "--output", "-o", type=click.Path(dir_okay=False), help="Write the policy to this file, which must be new."
)
def init(source: str, output: str | None) -> None:
    """Draft a policy for SOURCE: a .parquet or .csv file, or database.duckdb#table.

    Only the schema is read, never a value. Every decision that is yours is marked "?".
    """
    from discreet.curator.draft import draft_policy

    text = draft_policy(source)
    show.text(text, output, f'decide every "?", then run: discreet check {output}')


@click.command()
@click.argument("policy", type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def check(policy: str, as_json: bool) -> None:
    """Say what POLICY means, in words: who is protected, against what, and what may be asked."""
    from discreet.curator.policy import explain, read_policy

    read = read_policy(policy)
    if not as_json:
        click.echo(explain(read))
        return
    catalog = read.catalog
    tables = {
        table.name: {
            "source": read.sources[table.name],
            "protects": str(table.unit) if table.private else None,
            "columns": {column.name: column.describe() for column in table.columns},
        }
        for table in catalog.tables.values()
    }
    budget = {"epsilon": read.budget.epsilon, "delta": read.budget.delta, "delta_for_keys": read.budget.delta_for_keys}
    show.facts(
        {"dataset": catalog.name, "neighbours": str(catalog.neighbours), "budget": budget, "tables": tables},
        as_json=True,
    )
