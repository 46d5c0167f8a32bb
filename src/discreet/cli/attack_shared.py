"""What the commands of `discreet attack` have in common: options, checks before work, and how a report is told."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from discreet.cli import show
from discreet.errors import InvalidInput

if TYPE_CHECKING:
    from discreet.attacks import AttackReport

    _PairType = click.ParamType[tuple[str, str]]
else:
    _PairType = click.ParamType  # not generic before click 8.3

FILE = click.Path(exists=True, dir_okay=False)
TABLE_HELP = "Tables are CSV (with a header line) or Parquet files."
_OUT = click.Path(dir_okay=False, writable=True)


# The decorator that makes a command of a function


def judged(*, claim: bool = False, confidence: str = "0.95") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A command from a function that returns an attack: it is run here, told, and gives the exit code.

    With `claim`, a claimed --epsilon that does not hold gives exit code 3; otherwise --must-hold asks for that.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def run(*, as_json: bool, report: str | None, plot: str | None, owner: bool, force: bool, **given: Any) -> None:
            must_hold = given.pop("must_hold", False)
            unwritten(report, plot, force=force)
            found = function(**given).run()
            tell(found, as_json=as_json, report=report, plot=plot, owner=owner)
            broken = claim and given.get("epsilon") is not None and found.verdict in ("falls", "leaks")
            if must_hold and found.verdict != "holds":
                click.echo(f"{found.verdict}: {found.sentence} --must-hold asks for a release that holds.", err=True)
            if broken or (must_hold and found.verdict != "holds"):
                raise click.exceptions.Exit(3)

        options = [confidence_option(confidence), *([] if claim else [_must_hold]), *output_options, _owner]
        for option in reversed(options):
            run = option(run)
        return run

    return decorate


def tell(found: "AttackReport", *, as_json: bool, report: str | None, plot: str | None, owner: bool) -> None:
    """Print a report, as lines or JSON; write its page and its picture, where files are named."""
    if as_json:
        show.facts(found.as_dict(owner=owner), as_json=True)
    else:
        click.echo(found.text(owner=owner))
    if owner and not found.worst:
        click.echo("there are no examples to show", err=True)
    write(found.page(owner=owner) if report else None, report)
    write((found.charts[0] if found.charts else found.chart()) if plot else None, plot)


def write(drawn: Any, path: str | None) -> None:
    """Save a page or a chart, and say so."""
    if path is None:
        return
    drawn.save(path)
    click.echo(f"wrote {path}", err=True)


def unwritten(*paths: str | None, force: bool) -> None:
    """Refuse to write over files, before anything is computed."""
    for path in paths:
        if path is not None and Path(path).exists() and not force:
            raise click.ClickException(f"{path} exists already; choose another name, or say --force")


# Options


def _level(_: click.Context, __: click.Parameter, given: str) -> float:
    from discreet.exact import rational

    try:
        return float(rational(given, "confidence", above=0, below=1))
    except InvalidInput:
        raise click.BadParameter(f"{given!r} is not a number strictly between 0 and 1") from None


def confidence_option(default: str) -> Callable[..., Any]:
    """How sure the limits are."""
    return click.option("--confidence", default=default, show_default=True, callback=_level, help="Of the limits.")


output_options = (
    show.json_option,
    click.option(
        "--report", type=_OUT, callback=show.checked_file(".html", ".htm"), help="Write the report, an HTML page."
    ),
    click.option(
        "--plot", type=_OUT, callback=show.checked_file(), help="Save the main picture, as .svg, .png or .pdf."
    ),
    click.option("--force", is_flag=True, help="Write over files that exist."),
)
_owner = click.option(
    "--owner", is_flag=True, help="Show the worst examples too. They are about people: for the owner's eyes only."
)
_must_hold = click.option(
    "--must-hold", is_flag=True, help="Exit with code 3 unless the release holds; undecided does not (for CI)."
)

seed_option = click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Choose and draw the same again."
)


def against_option(default: str) -> Callable[..., Any]:
    """How the report calls what is attacked."""
    return click.option("--against", default=default, show_default=True, help="How the report calls it.")


def _columns(_: click.Context, __: click.Parameter, given: str | None) -> tuple[str, ...] | None:
    if given is None:
        return None
    names = tuple(name.strip() for name in given.split(",") if name.strip())
    if not names:
        raise click.BadParameter("name at least one column, such as zip,sex,born")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise click.BadParameter(f"{twice!r} is there twice")
    return names


def columns_option(name: str, help_: str, *, required: bool = True) -> Callable[..., Any]:
    """Columns, separated by commas."""
    return click.option(name, metavar="COLUMN,…", required=required, callback=_columns, help=help_)


class FileColumn(_PairType):
    """FILE:COLUMN, one column of a table: its path and its name."""

    name = "FILE:COLUMN"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """The two parts, checked."""
        path, colon, column = str(value).rpartition(":")
        if not colon or not column or not path:
            self.fail(f"{value!r} is not FILE:COLUMN, such as patients.csv:person", param, ctx)
        if not Path(path).is_file():
            self.fail(f"there is no file {path}", param, ctx)
        return path, column


class ColumnValue(_PairType):
    """COLUMN=VALUE: how one column is compared."""

    name = "COLUMN=VALUE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """The two parts."""
        column, sign, setting = str(value).partition("=")
        if not sign or not column or not setting:
            self.fail(f"{value!r} is not COLUMN=VALUE, such as born=3", param, ctx)
        return column, setting


def column_of(given: tuple[str, str], where: str) -> Any:
    """The values of FILE:COLUMN."""
    from discreet.attacks.tables.columns import columns

    path, name = given
    return columns(path, [name], where=where)[name]


def bits_of(given: tuple[str, str], where: str) -> Any:
    """The values of FILE:COLUMN as True and False: written as 1 and 0, yes and no, or true and false."""
    import numpy as np

    from discreet.attacks.tables.columns import as_texts, missing
    from discreet.errors import InvalidData

    column = column_of(given, where)
    if missing(column).any():
        raise InvalidData(f"{where}: {int(missing(column).sum())} lines are empty; write 1 or 0, yes or no")
    words = np.array([text.casefold() for text in as_texts(column)], object)
    yes, no = np.isin(words, ["1", "yes", "true"]), np.isin(words, ["0", "no", "false"])
    strange = np.flatnonzero(~yes & ~no)
    if len(strange):
        raise InvalidData(
            f"{where}: row {strange[0] + 1} is neither yes nor no; write 1 or 0, yes or no, true or false"
        )
    return yes
