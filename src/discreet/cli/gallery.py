"""`discreet attack gallery`: every attack on generated data, as one page."""

from pathlib import Path

import click

from discreet.cli.show import facts, force_option, json_option, output_option


@click.command(short_help="Run every attack on generated people, as one page.")
@click.argument("exhibits", nargs=-1)
@output_option("The page.", default="gallery.html", show_default=True)
@click.option("--seed", default=1, show_default=True, type=click.IntRange(min=0), help="Other people, same story.")
@click.option("--list", "listed", is_flag=True, help="Say what there is, and stop.")
@force_option
@json_option
def gallery(exhibits: tuple[str, ...], output: str, seed: int, listed: bool, force: bool, as_json: bool) -> None:
    """Run all attacks (or the named EXHIBITS) on generated people, and write what falls and what holds to a page.

    It takes a few minutes. Nobody in it exists.
    """
    from discreet.gallery import EXHIBITS, page, visit

    if listed:
        width = max(len(exhibit.name) for exhibit in EXHIBITS)
        for exhibit in EXHIBITS:
            click.echo(f"{exhibit.name:<{width}}  {exhibit.title}")
        return
    if Path(output).exists() and not force:
        raise click.ClickException(f"{output} exists already; choose another name, or say --force")
    finished = visit(exhibits or None, seed=seed, progress=_tell)
    page(finished, seed=seed).save(output)
    if as_json:
        facts(
            {result.exhibit.name: [report.as_dict() for report in result.shown.reports] for result in finished},
            as_json=True,
        )
    click.echo(f"wrote {output}", err=True)


def _tell(done: int, total: int, title: str) -> None:
    click.echo(f"[{done + 1}/{total}] {title}", err=True)
