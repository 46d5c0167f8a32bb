"""Commands from the fields of attacks: each `setting` of an attack is an option, each table of it a file.

An attack is a dataclass with `run() → AttackReport`. Its fields say what they are by their types and by the words of
`discreet.attacks.attack_report.setting`; the class is imported when its command is used or its help is read.
"""

from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, dataclass, fields
from importlib import import_module
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
Build = Callable[..., Any]


@dataclass(frozen=True, kw_only=True)
class Generated:
    """A command that is made of the fields of `attack` ("room.Class") when somebody asks for it.

    `build` makes what is run of the class and of the settings given; `more` are parameters that are no fields,
    `without` fields that are no parameters. With `claim`, a claimed --epsilon that does not hold gives exit code 3;
    otherwise --must-hold asks for a release that holds.
    """

    attack: str
    short_help: str
    help: str
    more: Sequence[click.Parameter] = ()
    without: Sequence[str] = ()
    build: Build | None = None
    claim: bool = False
    confidence: str = "0.95"

    def command(self, name: str) -> click.Command:
        """The command of this name."""
        room, _, kind = self.attack.rpartition(".")
        attack = getattr(import_module(f"discreet.attacks.{room}"), kind)
        shown = [field for field in fields(attack) if "help" in field.metadata and field.name not in self.without]
        parameters = [*self.more, *(made for field in shown for made in _parameters(field))]
        order = sorted(parameters, key=lambda made: isinstance(made, click.Option))
        judging = [confidence_option(self.confidence), *([] if self.claim else [_must_hold]), *output_options, _owner]

        def run(*, as_json: bool, report: str | None, plot: str | None, owner: bool, force: bool, **given: Any) -> None:
            must_hold = given.pop("must_hold", False)
            refuse_existing_files(report, plot, force=force)
            settings = {field.name: _value(field, given) for field in shown} | given
            result = (self.build(attack, **settings) if self.build else attack(**settings)).run()
            tell(result, as_json=as_json, report=report, plot=plot, owner=owner)
            broken = self.claim and settings.get("epsilon") is not None and result.verdict in ("falls", "leaks")
            if must_hold and result.verdict != "holds":
                click.echo(f"{result.verdict}: {result.sentence} --must-hold asks for a release that holds.", err=True)
            if broken or (must_hold and result.verdict != "holds"):
                raise click.exceptions.Exit(3)

        return click.Command(name, params=[*order, *judging], callback=run, help=self.help, short_help=self.short_help)


class AttackGroup(click.Group):
    """A group whose generated commands are made when they are used; the list of commands imports no attack."""

    generated: dict[str, Generated]

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names."""
        return sorted([*super().list_commands(ctx), *self.generated])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """A command by its name."""
        made = self.generated.get(cmd_name)
        return super().get_command(ctx, cmd_name) if made is None else made.command(cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list, from short words alone."""
        rows = []
        for name in self.list_commands(ctx):
            made = self.generated.get(name) or super().get_command(ctx, name)
            words = made.short_help if isinstance(made, Generated) else made.get_short_help_str(80) if made else ""
            rows.append((name, words or ""))
        with formatter.section("Commands"):
            formatter.write_dl(rows)


# From a field to parameters, and from what is given to its value


def _parameters(field: "Field[Any]") -> list[click.Parameter]:  # noqa: PLR0911 (one return a kind)
    what, name = field.metadata, "--" + field.name.replace("_", "-")
    needed = field.default is MISSING and field.default_factory is MISSING
    common: dict[str, Any] = {"help": what["help"], "required": needed}
    if not needed and not any(field.default is nothing for nothing in (None, MISSING, False, ())):
        common |= {"default": field.default, "show_default": True}
    match what.get("kind") or field.type:
        case "table" if needed:
            return [click.Argument([field.name], type=FILE)]
        case "tables":
            return [click.Argument([field.name], type=FILE, nargs=-1, required=True)]
        case "table" | "file":
            return [click.Option([name], type=FILE, **common)]
        case "columns":
            return [click.Option([name], metavar="COLUMN,…", callback=_columns, **common)]
        case "rules":
            return [click.Option([name], metavar="COLUMN,…", callback=_columns, **common), *_comparing]
        case "covers":
            return [_hierarchy]
        case "values" | "bits":
            return [click.Option([name], type=FileColumn(), **common)]
        case "numbers":
            default = {"default": ",".join(map(str, common["default"]))} if common.get("default") else {}
            return [click.Option([name], metavar="NUMBER,…", callback=_numbers, **(common | default))]
        case tuple() as words:
            return [click.Option([name], type=click.Choice(words), **common)]
        case kind if kind is bool:
            return [click.Option([name], is_flag=True, help=what["help"])]
        case kind if kind is int or "least" in what:
            return [click.Option([name], type=click.IntRange(what.get("least"), what.get("most")), **common)]
        case "share":
            return [click.Option([name], type=click.FloatRange(0, 1), **common)]
    return [click.Option([name], **common)]


def _value(field: "Field[Any]", given: dict[str, Any]) -> Any:
    kind = field.metadata.get("kind")
    if kind == "covers":
        pairs = given.pop("hierarchy")
        for column, _ in pairs:
            _among(column, given.get("on", ()), "--hierarchy")
        return {column: _explained(column, path) for column, path in pairs}
    value = given.pop(field.name) if kind != "columns" or field.name != "on" else given[field.name]
    if kind == "rules":
        return _rules(value, *(given.pop(name) for name in ("within", "starts", "edits", "hierarchy")))
    if kind in ("values", "bits") and value is not None:
        return column_of(value, field.name) if kind == "values" else bits_of(value, field.name)
    return list(value) if kind in ("tables", "columns") and value is not None else value


# What all of them have


def tell(attack_report: "AttackReport", *, as_json: bool, report: str | None, plot: str | None, owner: bool) -> None:
    """Print a report, as lines or JSON; write its page and its picture, where files are named."""
    if as_json:
        show.facts(attack_report.as_dict(owner=owner), as_json=True)
    else:
        click.echo(attack_report.text(owner=owner))
    if owner and not attack_report.worst:
        click.echo("there are no examples to show", err=True)
    write(attack_report.page(owner=owner) if report else None, report)
    write((attack_report.charts[0] if attack_report.charts else attack_report.chart()) if plot else None, plot)


def write(drawn: Any, path: str | None) -> None:
    """Save a page or a chart, and say so."""
    if path is not None:
        drawn.save(path)
        click.echo(f"wrote {path}", err=True)


def refuse_existing_files(*paths: str | None, force: bool) -> None:
    """Refuse to write over files, before anything is computed."""
    for path in paths:
        if path is not None and Path(path).exists() and not force:
            raise click.ClickException(f"{path} exists already; choose another name, or add --force")


def with_options(*options: click.Parameter) -> Callable[[click.Command], click.Command]:
    """Add parameters to a command that is written by hand."""

    def decorate(command: click.Command) -> click.Command:
        command.params += options
        return command

    return decorate


def _level(_: click.Context, __: click.Parameter, given: str) -> float:
    from discreet.exact import rational

    try:
        return float(rational(given, "confidence", above=0, below=1))
    except InvalidInput:
        raise click.BadParameter(f"{given!r} is not a number strictly between 0 and 1") from None


def confidence_option(default: str) -> click.Option:
    """How sure the confidence bounds are."""
    return click.Option(
        ["--confidence"], default=default, show_default=True, callback=_level, help="The level of confidence bounds."
    )


seed_option = click.Option(
    ["--seed"], type=click.IntRange(min=0), default=0, show_default=True, help="The seed of all random choices."
)
json_option = click.Option(["--json", "as_json"], is_flag=True, help=show.JSON_HELP)
force_option = click.Option(["--force"], is_flag=True, help="Overwrite existing files.")
_page, _picture = show.checked_file(".html", ".htm"), show.checked_file()
output_options: tuple[click.Parameter, ...] = (
    json_option,
    click.Option(["--report"], type=show.PLOT_TYPE, callback=_page, help="Write the report, an HTML page."),
    click.Option(
        ["--plot"], type=show.PLOT_TYPE, callback=_picture, help="Save the main picture, as .svg, .png or .pdf."
    ),
    force_option,
)
_owner = click.Option(
    ["--owner"], is_flag=True, help="Also show the worst examples, which are about people: for the owner's eyes only."
)
_must_hold = click.Option(
    ["--must-hold"], is_flag=True, help="Exit with code 3 unless the verdict is `holds` (for CI)."
)


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


def _numbers(_: click.Context, __: click.Parameter, given: str | None) -> tuple[int, ...] | None:
    if given is None:
        return None
    parts = [part.strip() for part in given.split(",")]
    if not all(part.isdecimal() and int(part) for part in parts):
        raise click.BadParameter(f"{given!r} are not whole numbers from 1, separated by commas")
    return tuple(int(part) for part in parts)


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


# How columns are compared


def _pairs_option(name: str, metavar: str, help_: str) -> click.Option:
    return click.Option([name], type=ColumnValue(), multiple=True, metavar=metavar, help=help_)


_hierarchy = _pairs_option(
    "--hierarchy",
    "COLUMN=FILE",
    "A CSV file of what labels of a column stand for, with a line for each value: nurse;health;* (130**, 20-29, "
    "[20, 30) and <30 need none).",
)
_comparing = (
    _pairs_option("--within", "COLUMN=NUMBER", "Numbers (dates: in days) match if they differ by at most this."),
    _pairs_option("--starts", "COLUMN=LETTERS", "Texts match if this many first letters do."),
    _pairs_option("--edits", "COLUMN=NUMBER", "Texts match if they differ by at most this many letters."),
    _hierarchy,
)
Pairs = tuple[tuple[str, str], ...]


def _rules(on: tuple[str, ...], within: Pairs, starts: Pairs, edits: Pairs, hierarchy: Pairs) -> dict[str, Any]:
    """For each column how it is compared; None where that is found out."""
    from discreet.attacks.tables.rules import Coarse, Edits, Rule, Starts, Within

    makers: list[tuple[str, Pairs, Callable[[str, str], Rule]]] = [
        ("--within", within, lambda _, number: Within(tolerance=number)),
        ("--starts", starts, lambda _, number: Starts(letters=_whole(number, "--starts"))),
        ("--edits", edits, lambda _, number: Edits(most=_whole(number, "--edits"))),
        ("--hierarchy", hierarchy, lambda column, path: Coarse(covers=_explained(column, path))),
    ]
    rules: dict[str, Rule | None] = dict.fromkeys(on)
    for option, given, make in makers:
        for column, setting in given:
            _among(column, on, option)
            if rules[column] is not None:
                raise click.UsageError(f"column {column!r} is to be compared in two ways; keep one")
            rules[column] = make(column, setting)
    return rules


def _among(column: str, on: Sequence[str], option: str) -> None:
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
    result: dict[str, set[str]] = {}
    for labels, codes in zip(tree.labels, tree.codes, strict=True):
        for leaf, node in zip(tree.labels[0], codes.tolist(), strict=True):
            result.setdefault(labels[node], set()).add(leaf)
    return result
