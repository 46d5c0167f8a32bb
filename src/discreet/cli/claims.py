"""`discreet claims`: every claim of the field, predicted beside measured, as one page."""

from pathlib import Path

import click

from discreet.cli.show import facts, force_option, json_option, output_option


@click.command(short_help="Compute the field's claims: predictions next to measurements.")
@click.argument("ids", nargs=-1)
@output_option("The page.", default="claims.html", show_default=True)
@click.option("--seed", default=1, show_default=True, type=click.IntRange(min=0), help="Generate other people.")
@click.option("--fast", is_flag=True, help="Use small sizes: under 3 minutes for all claims.")
@click.option("--list", "listed", is_flag=True, help="List the claims, and stop.")
@force_option
@json_option
def claims(ids: tuple[str, ...], output: str, seed: int, fast: bool, listed: bool, force: bool, as_json: bool) -> None:
    """Compute all claims (or those of the given IDS) on generated people, and write them to a page.

    Each claim is a sentence with figures: what it predicts, what this product measures, and whether they agree. The
    exit code is 3 where one does not.
    """
    from discreet.claims import CLAIMS, Run, page, results

    if listed:
        for claim in CLAIMS:
            click.echo(f"{claim.id:<4} {claim.words}")
        return
    if Path(output).exists() and not force:
        raise click.ClickException(f"{output} exists already; choose another name, or add --force")
    run = Run(seed=seed, fast=fast)
    shown = results(ids or None, run, progress=_tell)
    page(shown, run).save(output)
    failing = [result.claim.id for result in shown if not result.holds]
    if as_json:
        facts({"seed": seed, "claims": [result.to_json() for result in shown]}, as_json=True)
    else:
        click.echo(f"{len(shown) - len(failing)} of {len(shown)} claims hold")
    click.echo(f"wrote {output}", err=True)
    if failing:
        click.echo(f"not as predicted: {', '.join(failing)}", err=True)
        raise click.exceptions.Exit(3)


def _tell(done: int, total: int, words: str) -> None:
    click.echo(f"[{done + 1}/{total}] {words}", err=True)
