"""Printing: facts as lines or JSON, shares as bars, pictures where a file is asked for.

Commands whose dataset is a URL: what a server does for them.
"""

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from discreet.errors import InvalidParameter
from discreet.exact import printed_up, text_up
from discreet.requests import Question

if TYPE_CHECKING:
    from discreet.client.remote import RemoteDataset, RemoteJob
    from discreet.curator.answer import Answer
    from discreet.report import Chart, Page
    from discreet.report.picture import Picture
    from discreet.requests import Request


_BARS = "▏▎▍▌▋▊▉█"


class Group(click.Group):
    """Commands, listed with their first sentence, however long: click cuts it at the edge of the screen."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands."""
        results = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.get_short_help_str(1000)) for name, command in results if command])


def checked_file(*endings: str) -> Callable[[click.Context, click.Parameter, str | None], str | None]:
    """Refuse a picture or page that could not be drawn or written, before anything is computed or released."""

    def check(_: click.Context, __: click.Parameter, path: str | None) -> str | None:
        from discreet.report.picture import checked_path

        try:
            return None if path is None else str(checked_path(path, *endings))
        except InvalidParameter as error:
            raise click.BadParameter(str(error)) from None

    return check


JSON = ("--json", "as_json")
JSON_HELP = "Print JSON."
PLOT_TYPE = click.Path(dir_okay=False, writable=True)
PLOT_HELP = "Save a picture; its name ends in .svg, .png or .pdf."


def output_option(what: str, *, required: bool = False, folder: bool = False, **more: Any) -> Callable[..., Any]:
    """Where a command writes: `-o`, `--output` in every command."""
    place = click.Path(file_okay=not folder, dir_okay=folder, writable=True)
    return click.option("-o", "--output", type=place, required=required, help=what, **more)


def epsilon_option(what: str, *, required: bool = True, **more: Any) -> Callable[..., Any]:
    """A privacy loss, as a number or a fraction."""
    return click.option("--epsilon", metavar="ε", required=required, help=what, **more)


def delta_option(what: str, *, required: bool = False, **more: Any) -> Callable[..., Any]:
    """A small probability, as a number or a fraction."""
    return click.option("--delta", metavar="δ", required=required, help=what, **more)


analyst_option = click.option("--analyst", help="Who is charged; by default the name of the user.")
force_option = click.option("--force", is_flag=True, help="Overwrite existing files.")
json_option = click.option(*JSON, is_flag=True, help=JSON_HELP)
plot_option = click.option("--plot", type=PLOT_TYPE, callback=checked_file(), help=PLOT_HELP)


def names(_: click.Context, __: click.Parameter, given: str | None) -> tuple[str, ...]:
    """Names, separated by commas."""
    return tuple(name.strip() for name in (given or "").split(",") if name.strip())


def refuse_existing(path: str | None, what: str = "file", *, force: bool) -> None:
    """Refuse to write over a file, before anything is computed or charged."""
    if path is not None and Path(path).exists() and not force:
        raise click.ClickException(f"{path} exists already; choose another name for the {what}, or add --force")


def facts(values: Mapping[str, Any], *, as_json: bool) -> None:
    """Print named facts, one a line, or as one JSON object."""
    if as_json:
        click.echo(json.dumps({name: _plain(value) for name, value in values.items()}, ensure_ascii=False))
        return
    width = max((len(name) for name in values), default=0)
    for name, value in values.items():
        click.echo(f"{name.replace('_', ' '):<{width}}  {_text(value)}")


def explained(explanation: str, *, as_json: bool) -> None:
    """Print what a plan says of itself, lines of a name and words; or as one JSON object."""
    if not as_json:
        click.echo(explanation)
        return
    pairs = (line.split("  ", 1) for line in explanation.splitlines())
    facts({name.strip(): "".join(words).strip() for name, *words in pairs}, as_json=True)


def text(content: str, output: str | None, next_step: str) -> None:
    """Print a text, or write it to a new file and say what to do next."""
    if output is None:
        click.echo(content, nl=False)
        return
    try:
        with Path(output).open("x", encoding="utf-8") as file:
            file.write(content)
    except FileExistsError:
        raise click.ClickException(f"{output} exists already; choose another name") from None
    except OSError as error:
        raise click.ClickException(f"cannot write {output}: {error.strerror or error}") from None
    click.echo(f"wrote {output}: {next_step}", err=True)


def bars(labels: Sequence[str], shares: Sequence[float], *, width: int = 50) -> None:
    """Print a picture of probabilities, one bar a line."""
    top = max(shares, default=0.0) or 1.0
    margin = max((len(label) for label in labels), default=0)
    for label, share in zip(labels, shares, strict=True):
        eighths = round(share / top * width * 8)
        bar = _BARS[-1] * (eighths // 8) + (_BARS[eighths % 8 - 1] if eighths % 8 else "")
        click.echo(f"{label:>{margin}} {bar or '▏'} {share:.3g}")


def save(shown: "Chart | Picture | Page", path: str) -> None:
    """Save a chart, a picture or a page, and say so."""
    try:
        shown.save(path)
    except OSError as error:
        raise click.ClickException(f"cannot write {path}: {error.strerror or error}") from None
    click.echo(f"wrote {Path(path).name}", err=True)


def number(value: Fraction | float) -> str:
    """A number for people: 12 significant digits at most, rounded up (ε, δ and noise towards privacy), or `inf`."""
    return text_up(value, 12)


def _plain(value: Any) -> Any:
    """A value that JSON can hold; `inf` as text, since JSON has no infinity."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    match value:
        case Fraction():
            return int(value) if value.denominator == 1 else printed_up(value)
        case float():
            return number(value) if math.isinf(value) else value
        case Mapping():
            return {str(key): _plain(part) for key, part in value.items()}
        case list() | tuple():
            return [_plain(part) for part in value]
        case _:
            return value


def _text(value: Any) -> str:
    if hasattr(value, "tolist"):
        value = value.tolist()
    match value:
        case bool():
            return "yes" if value else "no"
        case Fraction() | float():
            return number(value)
        case None:
            return "–"
        case list() | tuple():
            return ", ".join(_text(part) for part in value)
        case _:
            return str(value)


URL = "DISCREET_URL"
"""The variable of the environment that names a server where a command names none."""

dataset_argument = click.argument("policy", metavar="POLICY|URL", type=click.Path(), envvar=URL)
"""A policy file, or the address of a server."""


def ledger_file(stated: str) -> str:
    """The file of a ledger. One that servers share is in a database, and the commands that look at ledgers read files.

    >>> ledger_file("clinic.ledger")
    'clinic.ledger'
    """
    if not stated.startswith(("postgresql://", "postgres://")):
        return stated
    from discreet.curator.engines import shown_address

    hint = "a shared ledger is for servers and for Python: discreet.open(policy).ledger, .budget() and .ask(…)"
    raise InvalidParameter("[dataset] ledger", shown_address(stated), "a file, for this command", hint)


def is_url(text: str) -> bool:
    """Whether a command names a server, and not a file.

    >>> is_url("https://discreet.example.org"), is_url("clinic.toml")
    (True, False)
    """
    return text.lower().startswith(("http://", "https://"))


def named(policy: str, sql: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """The dataset and the statements, where DISCREET_URL names the dataset and the first word is a statement."""
    url = os.environ.get(URL)
    if not url or is_url(policy) or policy.endswith(".toml") or Path(policy).exists():
        return policy, sql
    return url, (policy, *sql)


def connected(url: str, *, analyst: str | None = None, **local: Any) -> "RemoteDataset":
    """The dataset of a server; options that hold for files alone are refused."""
    from discreet.client.remote import connect

    if analyst is not None:
        raise click.UsageError("--analyst goes with a policy file: a server knows who asks by the token")
    for name, value in local.items():
        if value:
            raise click.UsageError(f"--{name.replace('_', '-')} goes with a policy file, not with a server")
    return connect(url)


def answers_from(data: "RemoteDataset", texts: Sequence[str], terms: dict[str, Any]) -> "list[Answer]":
    """The answers of a server, after what there is to warn of, on standard error."""
    question = Question(texts[0] if len(texts) == 1 else texts, **terms)
    if question.epsilon is None or question.error is None:
        for warning in data.explain(question).warnings:
            click.echo(f"warning: {warning}", err=True)
    try:
        return data.answers(question)
    except KeyboardInterrupt:
        click.echo("stopped: it may have been charged; if there is an answer, asking again is free", err=True)
        raise


def job_done(url: str, request: "Request", files: Mapping[str, str], **local: Any) -> "RemoteJob":
    """A job of a server, once it is done; what it released is written to files, each in the form that is stated.

    Options that hold for files alone (`local`) are refused before anything is charged.
    """
    with connected(url, **local) as data:
        job = data.submit(request)
        try:
            job.wait()
        except KeyboardInterrupt:
            click.echo(
                "stopped waiting: the job goes on at the server; the same again is free once it is done", err=True
            )
            raise
        for path, form in files.items():
            job.save(path, accept=form)
        return job
