"""`discreet attack link`, `secret`, `infer`, `linkability`, `single-out`, `intersect`: attacks on released tables."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from discreet.cli.attack_shared import (
    FILE,
    ColumnValue,
    FileColumn,
    against_option,
    bits_of,
    column_of,
    columns_option,
    judged,
    seed_option,
)

if TYPE_CHECKING:
    from discreet.attacks.tables.rules import Rule

_RELEASED = click.argument("released", type=FILE)
_KNOWN = click.argument("known", type=FILE)
_PEOPLE = click.argument("people", type=FILE)
_CONTROLS = click.argument("controls", type=FILE)
_AGAINST = against_option("the released table")
_TARGETS = click.option(
    "--targets", type=click.IntRange(min=1), default=5000, show_default=True, help="The most people to attack."
)
_NEIGHBORS = click.option(
    "--neighbors",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="How many nearest rows are looked at.",
)
_HIERARCHY = click.option(
    "--hierarchy",
    "hierarchies",
    type=ColumnValue(),
    multiple=True,
    metavar="COLUMN=FILE",
    help="What the labels of a column stand for: a CSV file, a line for each value: nurse;health;* (130**, 20-29, "
    "[20, 30), <30 and the like need none).",
)


def _comparing(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say how columns are compared."""
    options = [
        columns_option("--on", "Columns that both tables hold, by which people are recognized."),
        click.option(
            "--within",
            type=ColumnValue(),
            multiple=True,
            metavar="COLUMN=NUMBER",
            help="Numbers (dates: days) that differ by at most this fit.",
        ),
        click.option(
            "--starts", type=ColumnValue(), multiple=True, metavar="COLUMN=LETTERS", help="The first letters must fit."
        ),
        click.option(
            "--edits",
            type=ColumnValue(),
            multiple=True,
            metavar="COLUMN=NUMBER",
            help="Texts that differ by at most so many letters fit.",
        ),
        _HIERARCHY,
        click.option(
            "--slips", type=click.IntRange(min=0), default=0, show_default=True, help="How many columns may disagree."
        ),
        click.option("--repeated", is_flag=True, help="A person may have several released rows."),
    ]
    for option in reversed(options):
        function = option(function)
    return function


@click.command(short_help="Name the people of a table without names.")
@_RELEASED
@_KNOWN
@click.option("--name", required=True, help="The column of KNOWN that names people, one name each.")
@click.option(
    "--truth",
    type=FileColumn(),
    required=True,
    help="For the judge: the name of each released row's person, in the order of the rows; empty: not on the list.",
)
@_comparing
@_AGAINST
@judged()
def link(
    released: str,
    known: str,
    name: str,
    truth: tuple[str, str],
    repeated: bool,
    slips: int,
    against: str,
    confidence: float,
    **comparing: Any,
) -> Any:
    """Name the people of a table without names (Sweeney).

    RELEASED is a table without names, KNOWN a list of people with names, such as voters. A row is claimed for a person
    when nobody else on the list fits it. Only whoever has the truth can say whether a claim is right: --truth.

    \b
    discreet attack example town
    discreet attack link town/visits.csv town/voters.csv --on zip,sex,born --name person \\
        --truth town/patients.csv:person
    """
    from discreet.attacks.tables.linkage import Linkage

    return Linkage(
        released=released,
        known=known,
        on=_rules(**comparing),
        name=name,
        truth=column_of(truth, "truth"),
        against=against,
        repeated=repeated,
        slips=slips,
        confidence=confidence,
    )


@click.command(short_help="Learn a secret through the row linked with a person.")
@_RELEASED
@_KNOWN
@click.option("--secret", required=True, help="The column of RELEASED that tells the secret.")
@click.option(
    "--answers",
    type=FileColumn(),
    help="For the judge: the true secret of each person of KNOWN, in their order; by default KNOWN's column --secret.",
)
@click.option(
    "--members",
    type=FileColumn(),
    help="For the judge: who of KNOWN was in the data (yes or no); the others are the control. By default everybody.",
)
@_comparing
@_AGAINST
@judged()
def secret(
    released: str,
    known: str,
    secret: str,
    answers: tuple[str, str] | None,
    members: tuple[str, str] | None,
    repeated: bool,
    slips: int,
    against: str,
    confidence: float,
    **comparing: Any,
) -> Any:
    """Learn a secret through the row that is linked with a person; for synthetic tables too.

    As `link`, but what counts is whether the secret read from the claimed row is right, not whose row it is.

    \b
    discreet attack example town
    discreet attack secret town/people.csv town/everybody.csv --on zip,sex,born --secret condition \\
        --members town/everybody.csv:member
    """
    import numpy as np

    from discreet.attacks.tables.linkage import LinkedSecret

    told = column_of(answers or (known, secret), "answers")
    return LinkedSecret(
        released=released,
        known=known,
        on=_rules(**comparing),
        secret=secret,
        answers=told,
        members=np.ones(len(told), bool) if members is None else bits_of(members, "members"),
        against=against,
        repeated=repeated,
        slips=slips,
        confidence=confidence,
    )


@click.command(short_help="Tell a secret by the released rows nearest to a person.")
@_RELEASED
@_PEOPLE
@_CONTROLS
@columns_option("--known", "Columns that the attacker knows of a person.")
@click.option("--secret", required=True, help="The column to be told.")
@click.option("--tolerance", default="0", show_default=True, help="Numbers are right within this.")
@_NEIGHBORS
@_TARGETS
@_AGAINST
@seed_option
@judged()
def infer(**settings: Any) -> Any:
    """Tell a secret of people from what is known about them, by the released rows nearest to them.

    RELEASED is the table that left (raw, coarsened or synthetic), PEOPLE are those whose data it was made from,
    CONTROLS people of the same kind who were not in it. What works on both is knowledge about everybody; only the
    difference is about a person's own row.

    \b
    discreet attack example town
    discreet attack infer town/people.csv town/people.csv town/others.csv --known zip,sex,born --secret condition
    """
    from discreet.attacks.tables.inference import Inference

    return Inference(**settings)


@click.command(short_help="Join two parts of a person's data through a release.")
@_RELEASED
@_PEOPLE
@_CONTROLS
@columns_option("--left", "Columns that one party holds.")
@columns_option("--right", "Columns that the other party holds.")
@_NEIGHBORS
@_TARGETS
@_AGAINST
@seed_option
@judged()
def linkability(**settings: Any) -> Any:
    """Join two parts of a person's data, held by two parties, through the release.

    RELEASED, PEOPLE and CONTROLS as in `infer`.

    \b
    discreet attack example town
    discreet attack linkability town/people.csv town/people.csv town/others.csv --left zip,sex --right born,condition
    """
    from discreet.attacks.tables.inference import Linkability

    return Linkability(**settings)


@click.command(name="single-out", short_help="Say what is true of exactly one person.")
@_RELEASED
@_PEOPLE
@_CONTROLS
@columns_option("--columns", "Columns to speak about; by default all of RELEASED.", required=False)
@click.option(
    "--width", type=click.IntRange(min=1), default=1, show_default=True, help="How many columns a sentence is about."
)
@click.option("--reach", default="0.005", show_default=True, help="How far numbers may be off, as a share of the rows.")
@click.option(
    "--tries", type=click.IntRange(min=1), default=2000, show_default=True, help="How many sentences are tried."
)
@_AGAINST
@seed_option
@judged()
def single_out(**settings: Any) -> Any:
    """Say, after the release, what is true of exactly one person of its data.

    RELEASED, PEOPLE and CONTROLS as in `infer`.

    \b
    discreet attack example town
    discreet attack single-out town/people.csv town/people.csv town/others.csv --width 3
    """
    from discreet.attacks.tables.singling_out import SinglingOut

    return SinglingOut(**settings)


@click.command(short_help="Put several releases together: which values remain?")
@click.argument("releases", type=FILE, nargs=-1, required=True)
@click.option("--known", type=FILE, required=True, help="People who are in every release: exact values, and the truth.")
@columns_option("--on", "Columns by which people are recognized; labels may be coarsened.")
@click.option("--sensitive", required=True, help="The column that tells the secret.")
@click.option("--outside", type=FILE, help="People who are in no release: the control.")
@_HIERARCHY
@against_option("releases together")
@judged()
def intersect(
    releases: tuple[str, ...], on: tuple[str, ...], hierarchies: tuple[tuple[str, str], ...], **settings: Any
) -> Any:
    """Put several releases about the same people together: which values remain possible?

    Each of RELEASES leaves several values of the secret for a person; only those that all of them leave remain. With a
    single release this is the homogeneity attack: classes in which everybody has the same secret.

    \b
    discreet attack example town
    discreet attack intersect town/north.csv town/south.csv --known town/both.csv --outside town/neither.csv \\
        --on age,zip,sex --sensitive condition
    """
    from discreet.attacks.answers.intersection import Intersection

    for column, _ in hierarchies:
        _among(column, on, "--hierarchy")
    covers = {column: _explained(column, path) for column, path in hierarchies}
    return Intersection(releases=list(releases), on=list(on), covers=covers, **settings)


# How columns are compared


def _rules(
    on: tuple[str, ...],
    within: tuple[tuple[str, str], ...],
    starts: tuple[tuple[str, str], ...],
    edits: tuple[tuple[str, str], ...],
    hierarchies: tuple[tuple[str, str], ...],
) -> dict[str, "Rule | None"]:
    """For each column how it is compared; None where that is found out."""
    from discreet.attacks.tables.rules import Coarse, Edits, Starts, Within

    makers: list[tuple[str, tuple[tuple[str, str], ...], Callable[[str, str], Rule]]] = [
        ("--within", within, lambda _, number: Within(tolerance=number)),
        ("--starts", starts, lambda _, number: Starts(letters=_whole(number, "--starts"))),
        ("--edits", edits, lambda _, number: Edits(most=_whole(number, "--edits"))),
        ("--hierarchy", hierarchies, lambda column, path: Coarse(covers=_explained(column, path))),
    ]
    rules: dict[str, Rule | None] = dict.fromkeys(on)
    for option, given, make in makers:
        for column, setting in given:
            _among(column, on, option)
            if rules[column] is not None:
                raise click.UsageError(f"column {column!r} is to be compared in two ways; keep one")
            rules[column] = make(column, setting)
    return rules


def _among(column: str, on: tuple[str, ...], option: str) -> None:
    if column not in on:
        raise click.UsageError(f"{option} speaks of column {column!r}, which is not among --on {','.join(on)}")


def _whole(number: str, option: str) -> int:
    if not number.isdecimal():
        raise click.BadParameter(f"{number!r} is not a whole number", param_hint=option)
    return int(number)


def _explained(column: str, path: str) -> dict[str, set[str]]:
    """Each label of a hierarchy with the values below it."""
    from discreet.anonymity import Hierarchy

    tree = Hierarchy.read(column, path)
    found: dict[str, set[str]] = {}
    for labels, codes in zip(tree.labels, tree.codes, strict=True):
        for leaf, node in zip(tree.labels[0], codes.tolist(), strict=True):
            found.setdefault(labels[node], set()).add(leaf)
    return found
