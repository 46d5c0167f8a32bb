"""`discreet attack example`: generated files to try every attack on."""

from pathlib import Path

import click

from discreet.cli import show
from discreet.cli.attack_shared import seed_option


@click.command(short_help="Write generated files to try everything on.")
@click.argument("folder", type=click.Path(file_okay=False))
@click.option("--people", type=click.IntRange(200, 200_000), default=20_000, show_default=True, help="Of the town.")
@seed_option
@show.json_option
def example(folder: str, people: int, seed: int, as_json: bool) -> None:
    """Write generated files to FOLDER, which is made: a town, its hospital, its raters and its callers.

    Nobody in them exists. What each file is for is printed. The same seed writes the same files.

    \b
    discreet attack example town
    """
    from discreet.attacks.generated import samples
    from discreet.tables import write

    target = Path(folder)
    if target.exists() and any(target.iterdir()):
        raise click.ClickException(f"{folder} is not empty; choose another folder")
    target.mkdir(parents=True, exist_ok=True)
    told = {}
    for name, words, table in samples(people=people, seed=seed):
        write(table, target / name)
        told[name] = words
    show.facts(told, as_json=as_json)
