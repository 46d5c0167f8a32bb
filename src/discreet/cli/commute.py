"""`discreet commute`: synthetic commuting maps, the priors they need, and a made-up city to try them on."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from discreet.cli.show import delta_option, epsilon_option, facts, json_option, output_option

_OUT = click.Path(dir_okay=False, writable=True)
_METHODS = click.Choice(["counts", "dirichlet"])
_PROMISES = click.Choice(["pure", "probabilistic", "approximate"])


@click.group()
def group() -> None:
    """Synthetic commuting maps: where the people of each place of work live, without anybody's home."""


def _edges(_: click.Context, __: click.Parameter, given: str | None) -> list[str] | None:
    return None if given is None else [edge.strip() for edge in given.split(",") if edge.strip()]


@group.command()
@click.argument("people", type=click.Path(exists=True, dir_okay=False))
@click.argument("places", type=click.Path(exists=True, dir_okay=False))
@epsilon_option("What the map may cost: 1")
@delta_option("For a guarantee that is not pure: 1e-6", default="0")
@click.option("--method", type=_METHODS, default="counts", show_default=True, help="Noise on counts, or an urn.")
@click.option("--promise", type=_PROMISES, default="pure", show_default=True)
@click.option("--cap", metavar="KM", help="By public knowledge, nobody commutes farther.")
@click.option("--bands", callback=_edges, metavar="KM,KM…", help="Put origins together by distance: 1,2,5,10,20")
@click.option("--hubs", type=click.IntRange(min=1), help="Put origins together around so many, chosen privately.")
@click.option("--groups", type=click.Path(exists=True, dir_okay=False), help="A CSV: place, region. Public.")
@click.option("--accept", metavar="SHARE", help="Draw again until at most this share of people would have to move.")
@click.option("--origin", default="origin", show_default=True, help="The column of homes.")
@click.option("--destination", default="destination", show_default=True, help="The column of places of work.")
@click.option("--count", help="A column that says how many people a row stands for; one, if left out.")
@click.option("--persons", is_flag=True, help="Write a row for each synthetic person, not for each flow.")
@output_option("Write the synthetic map here: .csv or .parquet")
@click.option("--report", type=_OUT, help="Write a page that compares with the truth. For the owner's eyes only.")
@click.option("--explain", is_flag=True, help="Say what would be done and promised, and stop.")
@json_option
def synthesize(
    people: str,
    places: str,
    accept: str | None,
    groups: str | None,
    origin: str,
    destination: str,
    count: str | None,
    persons: bool,
    output: str | None,
    report: str | None,
    explain: bool,
    as_json: bool,
    **settings: Any,
) -> None:
    """A synthetic map of PEOPLE (a table: id, origin, destination) among PLACES (a table: name, coordinates).

    Coordinates are latitude and longitude, or x_km and y_km. How many people work at each place is public and kept;
    where each of them lives is protected. The map is differentially private and safe to publish.
    """
    from discreet.synthetic.commuting import Acceptance, Flows, Places, Scheme, synthesize
    from discreet.tables import write

    chosen = None if accept is None else Acceptance(apart=accept)
    scheme = Scheme(accept=chosen, groups=None if groups is None else _regions(groups), **settings)
    if explain:
        click.echo(scheme.explain())
        return
    if output is None:
        raise click.UsageError("where to? say -o MAP.csv, or --explain to see what would be done")
    if Path(output).suffix.lower() not in (".csv", ".parquet", ".pq"):
        raise click.ClickException(f"{output}: expected a name that ends in .csv or .parquet")
    for path in (output, report):
        if path is not None and Path(path).exists():
            raise click.ClickException(f"{path} exists already; choose another name")
    true = Flows.read(people, Places.read(places), origin=origin, destination=destination, people=count)
    with _told() as told:
        made = synthesize(true, scheme, each=told)
    write(made.persons() if persons else made.table(), output)
    if report is not None:
        _page(true, made, scheme, report)
    promise = f"ε {settings['epsilon']}" + ("" if settings["delta"] == "0" else f", δ {settings['delta']}")
    facts({"map": output, "people": made.total, "flows": len(made.people), "promise": promise}, as_json=as_json)


def _page(true: Any, made: Any, scheme: Any, report: str) -> None:
    from discreet.synthetic.commuting import Comparison

    Comparison(true, made).page(scheme.explain()).save(report)
    click.echo(f"wrote {report}: it compares with true homes; do not publish it", err=True)


def _regions(path: str) -> dict[str, str]:
    from discreet.tables import read_table, texts

    table = read_table(path, "groups")
    if table.num_columns < 2:
        raise click.ClickException(f"{path}: expected two columns, a place and its region")
    return dict(zip(*(texts(table.column(n)).to_pylist() for n in (0, 1)), strict=True))


@contextmanager
def _told() -> Iterator[Callable[[int, int], None]]:
    """A bar on a terminal, nothing elsewhere."""
    with click.progressbar(length=1, label="destinations", file=sys.stderr) as bar:

        def told(done: int, total: int) -> None:
            bar.length = total
            bar.update(done - bar.pos)

        yield told


@group.command()
@click.argument("people", type=click.IntRange(min=1))
@epsilon_option("Of the guarantee: 1")
@delta_option("Of probabilistic DP, and of (ε,δ)-DP.")
@click.option("--cells", type=click.IntRange(min=2), help="How many origins are possible; needed with --delta.")
@json_option
def prior(people: int, epsilon: str, delta: str | None, cells: int | None, as_json: bool) -> None:
    """How many people must be made up in every origin of a destination where PEOPLE work (the urn method)."""
    from discreet.synthetic.commuting import approximate_prior, probabilistic_prior, pure_prior

    if (delta is None) != (cells is None):
        raise click.UsageError("--delta and --cells are given together")
    found = {"pure": float(pure_prior(people, epsilon=epsilon))}
    if delta is not None and cells is not None:
        found["probabilistic"] = float(probabilistic_prior(people, cells, epsilon=epsilon, delta=delta))
        found["approximate"] = float(approximate_prior(people, cells, epsilon=epsilon, delta=delta))
    facts(found, as_json=as_json)


@group.command()
@click.option("--blocks", type=click.IntRange(min=4), default=10_000, show_default=True, help="Of the city.")
@click.option("--workers", type=click.IntRange(min=1), default=1_000_000, show_default=True, help="Who commute.")
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Another city.")
@output_option("A new folder.", required=True, folder=True)
@json_option
def city(blocks: int, workers: int, seed: int, output: str, as_json: bool) -> None:
    """Make up a city: people.parquet and places.csv in a folder, to try things on. Nobody in it exists."""
    import pyarrow

    from discreet.synthetic.commuting.city import city as made_up
    from discreet.tables import write

    folder = Path(output)
    if folder.exists():
        raise click.ClickException(f"{output} exists already; choose another name")
    made = made_up(blocks=blocks, workers=workers, seed=seed)
    folder.mkdir(parents=True)
    write(made.persons(), folder / "people.parquet")
    names, points = made.places.names, made.places.points
    write(pyarrow.table({"name": names, "x_km": points[:, 0], "y_km": points[:, 1]}), folder / "places.csv")
    facts({"folder": output, "people": made.total, "places": len(names)}, as_json=as_json)
