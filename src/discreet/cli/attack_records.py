"""`discreet attack match`, `graph`: whose record is this, and who is this node?"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from discreet.cli.attack_shared import FILE, against_option, columns_option, judged, seed_option

if TYPE_CHECKING:
    from discreet.attacks import AttackReport
    from discreet.attacks.records.files import Case


def _numbers(_: click.Context, option: click.Parameter, given: str | None) -> tuple[int, ...] | None:
    if given is None:
        return None
    parts = [part.strip() for part in given.split(",")]
    if not all(part.isdecimal() and int(part) for part in parts):
        raise click.BadParameter(f"{given!r} are not whole numbers from 1, separated by commas")
    return tuple(int(part) for part in parts)


@click.command(short_help="Find records by a few known ratings.")
@click.argument("released", type=FILE)
@click.argument("known", type=FILE, required=False)
@click.option(
    "--truth",
    type=FILE,
    help="For the judge: pairs of a person of KNOWN and the same one in RELEASED; empty or not listed: not in it.",
)
@click.option(
    "--plant",
    type=click.IntRange(min=1),
    metavar="NUMBER",
    help="Without KNOWN: take so many ratings of some people of RELEASED, with errors, for what is known.",
)
@columns_option("--columns", "Those of person, item, rating and time.  [person,item,rating,day]", required=False)
@click.option(
    "--false-naming", default="0.05", show_default=True, help="How often somebody outside the release may be named."
)
@click.option("--threshold", help="Name the best record if it leads by this much, however often that is wrong.")
@click.option("--rating-scale", default="1.5", show_default=True, help="exponential, within: how far off a rating is.")
@click.option("--day-scale", default="30", show_default=True, help="exponential, within: how many days off a date is.")
@click.option(
    "--similarity",
    type=click.Choice(["likelihood", "exponential", "within"]),
    default="likelihood",
    show_default=True,
    help="How records are scored: by learned errors, or by the paper's formula.",
)
@click.option(
    "--steps", callback=_numbers, metavar="NUMBER,…", help="Draw the curve at these numbers of known ratings."
)
@against_option("the release")
@seed_option
@judged()
def match(
    released: str,
    known: str | None,
    truth: str | None,
    plant: int | None,
    columns: tuple[str, ...] | None,
    **settings: Any,
) -> Any:
    """Find people's records by a few of their ratings (after Narayanan, Shmatikov 2008).

    RELEASED and KNOWN are tables with the columns person, item, rating and, where known, day (a date, an ISO time, a
    number of days, or seconds since 1970); --columns names them otherwise. RELEASED holds invented names and everything
    they rated, KNOWN true names and the little that is known. Items are named alike in both.

    With --plant a table of your own is enough: what is known is made of it, and some people are taken out.

    \b
    discreet attack match ratings.csv --plant 8 --columns userId,movieId,rating,timestamp
    discreet attack example town
    discreet attack match town/ratings.csv town/reviews.csv --truth town/raters.csv
    """
    from discreet.attacks.records.files import RATING_COLUMNS, plant_ratings, read_ratings
    from discreet.attacks.records.sparse import SparseMatching

    names = columns or RATING_COLUMNS
    if plant is not None:
        if known is not None or truth is not None:
            raise click.UsageError("--plant makes what is known and the truth: leave KNOWN and --truth out")
        case = plant_ratings(released, known=plant, seed=settings["seed"], names=names)
    elif known is None or truth is None:
        raise click.UsageError("give KNOWN and --truth, or --plant 8 to make them of RELEASED")
    else:
        case = read_ratings(released, known, truth, names=names)
    attack = SparseMatching(released=case.released, auxiliary=case.auxiliary, truth=case.truth, **settings)
    return _Named(attack, case)


@click.command(short_help="Name the nodes of a network by another network.")
@click.argument("released", type=FILE)
@click.argument("known", type=FILE)
@click.option(
    "--truth",
    type=FILE,
    required=True,
    help="For the judge: pairs of a node of KNOWN and the same person's in RELEASED; empty or not listed: not in it.",
)
@click.option("--seeds", type=FILE, help="Pairs of nodes known to be the same person; by default they are looked for.")
@click.option("--directed", is_flag=True, help="Edges have a direction.")
@click.option("--threshold", default="0.5", show_default=True, help="Name the best node if it leads by so many σ.")
@click.option(
    "--support",
    callback=_numbers,
    default="3,2",
    show_default=True,
    metavar="NUMBER,…",
    help="The least common neighbors, strict first.",
)
@click.option("--sweeps", type=click.IntRange(min=1), default=50, show_default=True, help="The most sweeps.")
@click.option("--curve", callback=_numbers, metavar="NUMBER,…", help="Draw the curve at these numbers of seeds.")
@against_option("the network without names")
@judged()
def graph(
    released: str, known: str, truth: str, seeds: str | None, directed: bool, curve: tuple[int, ...] | None, **more: Any
) -> Any:
    """Name the nodes of a network without names, by another network (Narayanan, Shmatikov 2009).

    RELEASED and KNOWN are lists of edges: tables whose first two columns are the ends. An edge that has no direction is
    listed once.

    \b
    discreet attack example town
    discreet attack graph town/calls.csv town/friends.csv --truth town/numbers.csv --seeds town/seeds.csv
    """
    from discreet.attacks.records.files import read_networks
    from discreet.attacks.records.graph import GraphMatching

    case = read_networks(released, known, truth, seeds, directed=directed)
    attack = GraphMatching(
        released=case.released,
        auxiliary=case.auxiliary,
        truth=case.truth,
        seeds=case.seeds,
        curve=curve or (),
        **more,
    )
    return _Named(attack, case)


@dataclass(frozen=True, slots=True)
class _Named:
    """An attack on numbered people, whose report speaks of them by name."""

    attack: Any
    case: "Case"

    def run(self) -> "AttackReport":
        return self.case.named(self.attack.run())
