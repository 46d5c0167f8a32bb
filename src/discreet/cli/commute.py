"""`discreet commute`: synthetic commuting maps, the priors they need, and a made-up city to try them on."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from discreet.cli.show import (
    Group,
    analyst_option,
    checked_file,
    delta_option,
    epsilon_option,
    explained,
    facts,
    force_option,
    json_option,
    output_option,
    refuse_existing,
    save,
)

if TYPE_CHECKING:
    from discreet.dataset import Dataset
    from discreet.synthetic.commuting.flows import Places
    from discreet.synthetic.commuting.plan import CommuteMap
    from discreet.synthetic.commuting.public_page import Outlines

_IN = click.Path(exists=True, dir_okay=False)
_OUT = click.Path(dir_okay=False, writable=True)
_TABLES = (".csv", ".parquet", ".pq")
_METHODS = click.Choice(["counts", "dirichlet"])
_PROMISES = click.Choice(["pure", "probabilistic", "approximate"])


@click.group(cls=Group)
def group() -> None:
    """Release synthetic commuting maps: where those who work at a place live, without revealing anybody's home."""


def _edges(_: click.Context, __: click.Parameter, given: str | None) -> list[str] | None:
    return None if given is None else [edge.strip() for edge in given.split(",") if edge.strip()]


_cap_option = click.option("--cap", metavar="KM", help="The longest commute, by public knowledge.")
_bands_option = click.option(
    "--bands", callback=_edges, metavar="KM,KM…", help="Group origins by distance: 1,2,5,10,20"
)
_hubs_option = click.option(
    "--hubs", type=click.IntRange(min=1), help="Group origins around this many, chosen privately."
)
_groups_option = click.option("--groups", type=_IN, help="Public CSV file that groups origins: place, region.")
_origin_option = click.option("--origin", default="origin", show_default=True, help="The column of homes.")
_destination_option = click.option(
    "--destination", default="destination", show_default=True, help="The column of places of work."
)


@group.command()
@click.argument("people", type=_IN)
@click.argument("places", type=_IN)
@epsilon_option("What the map may cost: 1")
@delta_option("For a guarantee that is not pure: 1e-6", default="0")
@click.option("--method", type=_METHODS, default="counts", show_default=True, help="Noise on counts, or an urn.")
@click.option("--promise", type=_PROMISES, default="pure", show_default=True, help="The kind of guarantee.")
@_cap_option
@_bands_option
@_hubs_option
@_groups_option
@click.option(
    "--accept", metavar="SHARE", help="Redraw until the map differs from the true one for at most this share of people."
)
@_origin_option
@_destination_option
@click.option("--count", help="The column of how many people a row stands for; by default one.")
@click.option("--persons", is_flag=True, help="Write one row for each synthetic person instead of each flow.")
@output_option("Write the synthetic map here: .csv or .parquet")
@click.option("--report", type=_OUT, help="Write a page that compares with the truth. For the owner's eyes only.")
@click.option("--explain", is_flag=True, help="Show what it would do and guarantee, and stop.")
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
    """Make a synthetic map of PEOPLE (a table: id, origin, destination) among PLACES (a table: name, coordinates).

    Coordinates are latitude and longitude, or x_km and y_km. How many people work at each place is treated as public
    and stays the same; where each of them lives is protected. The map is differentially private and safe to publish.
    """
    from discreet.synthetic.commuting import Acceptance, Flows, Places, Scheme, synthesize
    from discreet.tables import write

    chosen = None if accept is None else Acceptance(apart=accept)
    scheme = Scheme(accept=chosen, groups=None if groups is None else _regions(groups), **settings)
    if explain:
        click.echo(scheme.explain())
        return
    if output is None:
        raise click.UsageError("state where to write: -o MAP.csv; or add --explain to see what it would do")
    if Path(output).suffix.lower() not in (".csv", ".parquet", ".pq"):
        raise click.ClickException(f"{output}: expected a name that ends in .csv or .parquet")
    for path in (output, report):
        if path is not None and Path(path).exists():
            raise click.ClickException(f"{path} exists already; choose another name")
    true = Flows.read(people, Places.read(places), origin=origin, destination=destination, people=count)
    with _progress_bar() as progress:
        flows = synthesize(true, scheme, each=progress)
    write(flows.persons() if persons else flows.table(), output)
    if report is not None:
        _page(true, flows, scheme, report)
    promise = f"ε {settings['epsilon']}" + ("" if settings["delta"] == "0" else f", δ {settings['delta']}")
    facts({"map": output, "people": flows.total, "flows": len(flows.people), "promise": promise}, as_json=as_json)


@group.command()
@click.argument("policy", type=click.Path())
@click.argument("places", type=_IN)
@click.option("--table", help="The private table, if there are several.")
@epsilon_option("What the map may cost: 1")
@delta_option("For Gaussian noise, with --promise approximate: 1e-6", default="0")
@click.option(
    "--promise",
    type=click.Choice(["pure", "approximate"]),
    default="pure",
    show_default=True,
    help="The kind of guarantee.",
)
@_cap_option
@_bands_option
@_hubs_option
@_groups_option
@_origin_option
@_destination_option
@output_option("Write the flows here: .csv or .parquet", callback=checked_file(*_TABLES))
@click.option(
    "--page", type=_OUT, callback=checked_file(".html"), help="Write an interactive map as a page to publish."
)
@click.option(
    "--geojson", type=_OUT, callback=checked_file(".geojson", ".json"), help="Write the flows as lines, in GeoJSON."
)
@click.option("--outlines", type=_IN, help="Public GeoJSON file with the outlines of the places, for --page.")
@click.option("--explain", is_flag=True, help="Show what it would cost and do, and stop.")
@analyst_option
@force_option
@json_option
def release(
    policy: str,
    places: str,
    table: str | None,
    groups: str | None,
    output: str | None,
    page: str | None,
    geojson: str | None,
    outlines: str | None,
    explain: bool,
    analyst: str | None,
    force: bool,
    as_json: bool,
    **settings: Any,
) -> None:
    """Release a map of a private table of POLICY among PLACES (a table: name, coordinates), charged to the budget.

    Where people live and where they work are both protected. The result is differentially private and safe to
    publish; repeating it with other outlines or files is free.
    """
    import discreet
    from discreet.synthetic.commuting.flows import Places

    for path in (output, page, geojson):
        refuse_existing(path, force=force)
    if not explain and output is None and page is None and geojson is None:
        raise click.UsageError(
            "state where to write: -o MAP.csv, --page MAP.html or --geojson MAP.geojson; or add --explain"
        )
    if outlines is not None and page is None:
        raise click.UsageError("--outlines are for a --page")
    known = Places.read(places)
    read = _check_drawing(known, page, geojson, outlines)
    with discreet.open(policy, analyst=analyst) as data:
        regions = None if groups is None else _regions(groups)
        named = table or _only_private_table(data)
        plan = data.plan(discreet.Commute(table=named, places=known, groups=regions, **settings))
        if explain:
            explained(plan.explain(), as_json=as_json)
            return
        release = data.release(plan)
    _write_public(release, read, output, page, geojson)
    flows = release.flows
    counts = {"people": flows.total, "flows": len(flows.people), "destinations": len(flows.destinations)}
    files = {"map": output, "page": page, "geojson": geojson}
    written = {name: path for name, path in files.items() if path is not None}
    facts(written | counts | {"cost": str(release.receipt)}, as_json=as_json)


def _check_drawing(places: "Places", page: str | None, geojson: str | None, outlines: str | None) -> "Outlines | None":
    """Refuse what could not be drawn, before anything is charged; the outlines."""
    from discreet.synthetic.commuting.public_page import MOST_PLACES, Outlines

    if geojson is not None and not places.degrees:
        raise click.UsageError("--geojson needs places with latitude and longitude; these are in km")
    if page is not None and len(places) > MOST_PLACES:
        raise click.UsageError(f"--page: {len(places):,} places; a page has at most {MOST_PLACES:,}")
    return None if outlines is None else Outlines.read(outlines, places)


def _write_public(
    release: "CommuteMap", outlines: "Outlines | None", output: str | None, page: str | None, geojson: str | None
) -> None:
    from discreet.tables import write

    public = release.public(outlines)
    if output is not None:
        write(public.table(), output)
    if page is not None:
        save(public.page(), page)
    if geojson is not None:
        Path(geojson).write_text(json.dumps(public.geojson(), ensure_ascii=False), encoding="utf-8")


def _only_private_table(data: "Dataset") -> str:
    private = [table.name for table in data.catalog.tables.values() if table.private]
    if len(private) != 1:
        raise click.UsageError(f"state the table: --table with one of {', '.join(private)}")
    return private[0]


def _page(true: Any, synthetic: Any, scheme: Any, report: str) -> None:
    from discreet.synthetic.commuting import Comparison

    Comparison(true, synthetic).page(scheme.explain()).save(report)
    click.echo(f"wrote {report}: it compares with true homes; do not publish it", err=True)


def _regions(path: str) -> dict[str, str]:
    from discreet.tables import read_table, texts

    table = read_table(path, "groups")
    if table.num_columns < 2:
        raise click.ClickException(f"{path}: expected two columns, a place and its region")
    return dict(zip(*(texts(table.column(n)).to_pylist() for n in (0, 1)), strict=True))


@contextmanager
def _progress_bar() -> Iterator[Callable[[int, int], None]]:
    """A bar on a terminal, nothing elsewhere."""
    with click.progressbar(length=1, label="destinations", file=sys.stderr) as bar:

        def show_progress(done: int, total: int) -> None:
            bar.length = total
            bar.update(done - bar.pos)

        yield show_progress


@group.command()
@click.argument("people", type=click.IntRange(min=1))
@epsilon_option("The ε of the guarantee: 1")
@delta_option("The δ of probabilistic DP and of (ε, δ)-DP.")
@click.option("--cells", type=click.IntRange(min=2), help="The number of possible origins; required with --delta.")
@json_option
def prior(people: int, epsilon: str, delta: str | None, cells: int | None, as_json: bool) -> None:
    """Compute how many made-up people each origin needs, for a destination where PEOPLE work (the urn method)."""
    from discreet.synthetic.commuting import approximate_prior, probabilistic_prior, pure_prior

    if (delta is None) != (cells is None):
        raise click.UsageError("--delta and --cells are given together")
    priors = {"pure": float(pure_prior(people, epsilon=epsilon))}
    if delta is not None and cells is not None:
        priors["probabilistic"] = float(probabilistic_prior(people, cells, epsilon=epsilon, delta=delta))
        priors["approximate"] = float(approximate_prior(people, cells, epsilon=epsilon, delta=delta))
    facts(priors, as_json=as_json)


@group.command()
@click.option(
    "--blocks", type=click.IntRange(min=4), default=10_000, show_default=True, help="The number of blocks in the city."
)
@click.option(
    "--workers", type=click.IntRange(min=1), default=1_000_000, show_default=True, help="The number of commuters."
)
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Generate another city.")
@output_option("A new folder.", required=True, folder=True)
@json_option
def city(blocks: int, workers: int, seed: int, output: str, as_json: bool) -> None:
    """Generate a made-up city to try things on: people.parquet and places.csv in a new folder."""
    import pyarrow

    from discreet.synthetic.commuting.flows import city as made_up
    from discreet.tables import write

    folder = Path(output)
    if folder.exists():
        raise click.ClickException(f"{output} exists already; choose another name")
    town = made_up(blocks=blocks, workers=workers, seed=seed)
    folder.mkdir(parents=True)
    write(town.persons(), folder / "people.parquet")
    names, points = town.places.names, town.places.points
    write(pyarrow.table({"name": names, "x_km": points[:, 0], "y_km": points[:, 1]}), folder / "places.csv")
    facts({"folder": output, "people": town.total, "places": len(names)}, as_json=as_json)
