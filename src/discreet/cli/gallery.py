"""`discreet attack gallery`: every attack on generated data, as one page."""

from pathlib import Path

import click

from discreet.cli.show import facts, json_option


@click.command()
@click.argument("exhibits", nargs=-1)
@click.option("-o", "--out", default="gallery.html", show_default=True, type=click.Path(dir_okay=False, writable=True))
@click.option("--seed", default=1, show_default=True, type=click.IntRange(min=0), help="Other people, same story.")
@click.option("--list", "listed", is_flag=True, help="Say what there is, and stop.")
@click.option("--force", is_flag=True, help="Write over a file that exists.")
@json_option
def gallery(exhibits: tuple[str, ...], out: str, seed: int, listed: bool, force: bool, as_json: bool) -> None:
    """Run all attacks (or the named EXHIBITS) on generated people, and write what falls and what holds to a page.

    It takes a few minutes. Nobody in it exists.
    """
    from discreet.gallery import EXHIBITS, page, visit

    if listed:
        width = max(len(exhibit.name) for exhibit in EXHIBITS)
        for exhibit in EXHIBITS:
            click.echo(f"{exhibit.name:<{width}}  {exhibit.title}")
        return
    if Path(out).exists() and not force:
        raise click.ClickException(f"{out} exists already; choose another name, or say --force")
    finished = visit(exhibits or None, seed=seed, progress=_tell)
    page(finished, seed=seed).save(out)
    if as_json:
        facts({one.exhibit.name: [report.as_dict() for report in one.shown.reports] for one in finished}, as_json=True)
    click.echo(f"wrote {out}", err=True)


def _tell(done: int, total: int, title: str) -> None:
    click.echo(f"[{done + 1}/{total}] {title}", err=True)
