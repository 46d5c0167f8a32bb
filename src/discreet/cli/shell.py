"""`discreet shell`: one question after the other. What is stated once holds for all that follow."""

import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from discreet.cli import show
from discreet.cli.ask import (
    answers_to,
    check_terms,
    opened,
    owner_log_option,
    owner_log_to,
    split_statements,
    stated,
    terms_options,
)
from discreet.curator.catalog import Catalog, contribution
from discreet.curator.charges import largest_pure
from discreet.curator.ledger import Ledger
from discreet.curator.reports.answer_table import printable
from discreet.curator.reports.budget_report import short
from discreet.curator.settings import analyst_name
from discreet.curator.stores.reader import ReadOnlyStore
from discreet.errors import DiscreetError, InvalidParameter
from discreet.exact import rational
from discreet.privacy.unit import Unit

if TYPE_CHECKING:
    from discreet.client.remote import RemoteDataset
    from discreet.curator.answer import Answer
    from discreet.dataset import Dataset

_HISTORY = 1000
"""Lines that are kept."""

_DOT = ".{} {}"
"""How something is stated here: .epsilon 0.5"""


@click.command()
@show.dataset_argument
@terms_options
@owner_log_option
def shell(policy: str, owner_log: str | None, **terms: Any) -> None:
    """Ask questions interactively: statements end with a semicolon, commands begin with a dot (.help).

    The prompt shows the ε that is left for you. Statements may also come through a pipe; then nothing is printed but
    answers, and the exit code is 1 if something was refused.
    """
    check_terms(terms)
    with owner_log_to(owner_log, policy), opened(policy, analyst=terms["analyst"]) as data:
        session = Session(data, terms)
        if sys.stdin.isatty() and sys.stdout.isatty():
            with _line_editing(data.catalog):
                _converse(session)
        elif not _read_on(session):
            raise click.exceptions.Exit(1)


def _converse(session: "Session") -> None:
    """Prompt, read, answer, until Ctrl-D or .quit; Ctrl-C gives up what was typed so far."""
    name = printable(session.data.catalog.name)
    click.echo(f"{name}: statements end with ; and commands begin with a dot: .help")
    while not session.done:
        try:
            session.read(input("   ...> " if session.pending else f"{name} ε {session.left()}> "))
        except KeyboardInterrupt:
            click.echo()
            session.pending = ""
        except EOFError:
            click.echo()
            session.done = True
    if session.pending:
        click.echo("the unfinished statement was not executed", err=True)


def _read_on(session: "Session") -> bool:
    """Take lines from a pipe; whether nothing was refused. What does not end with ; may be cut off, so is not asked."""
    try:
        while not session.done and (line := sys.stdin.readline()):
            session.read(line.rstrip("\r\n"))
    except UnicodeDecodeError:
        raise click.ClickException("the input is not UTF-8; the statements before it were answered") from None
    if session.pending:
        session.report_problem("the last statement does not end with ; and was not executed")
    return session.good


@dataclass
class Session:
    """What a shell knows: what is stated for the questions to come, what was typed so far, the last answer."""

    data: "Dataset | RemoteDataset"
    terms: dict[str, Any]
    as_json: bool = False
    pending: str = ""
    last: "Answer | None" = None
    done: bool = False
    good: bool = True
    _seen: tuple[int, str] = field(default=(-1, "?"))

    def read(self, line: str) -> None:
        """Take one line. Whatever goes wrong is said, and the next line may come."""
        if not self.pending and line.lstrip().startswith("."):
            self._guarded(lambda: self._command(line.strip()))
            return
        statements, self.pending = split_statements(f"{self.pending}\n{line}" if self.pending else line)
        for text in statements:
            self._guarded(lambda text=text: self._statement(text))  # type: ignore[misc]

    def left(self) -> str:
        """The ε that one question of this analyst could cost now."""
        from discreet.dataset import Dataset

        if not isinstance(self.data, Dataset):
            try:
                return short(self.data.remaining, up=False)
            except DiscreetError:
                return "?"
        account, analyst, policy = self.data.catalog.name, self.data.analyst, self.data.policy
        try:
            ledger = Ledger(ReadOnlyStore(policy.base / (policy.ledger or "")))
            number = ledger.head(account).number
            if number != self._seen[0]:
                room = largest_pure(ledger.budget(account), ledger.spent(account))
                cap = ledger.settings(account).cap_of(analyst_name(analyst))
                if not ledger.settings(account).admits(analyst_name(analyst)):
                    room = Fraction(0)
                elif cap is not None:
                    room = min(room, largest_pure(cap, ledger.spent(account, analyst=analyst)))
                self._seen = number, short(room, up=False)
        except DiscreetError:  # the next question will say what is wrong
            return "?"
        return self._seen[1]

    def report_problem(self, words: str) -> None:
        """Say what is wrong."""
        self.good = False
        click.echo(f"discreet: {words}", err=True)

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except click.ClickException as error:
            self.report_problem(error.format_message())
        except BrokenPipeError:  # nobody reads the answers any more
            raise
        except (DiscreetError, OSError) as error:
            self.report_problem(str(error))
        except Exception as error:  # a defect, which must not end the session
            self.report_problem(f"unexpected {type(error).__name__}: {error}; please report it")

    def _statement(self, text: str) -> None:
        word, *rest = text.split(None, 1)
        if word.casefold() == "explain":
            self._explain("".join(rest))
            return
        self.last = answers_to(self.data, [text], self.terms, _DOT)[0]
        self._print(self.last)

    def _print(self, explanation: Any) -> None:
        click.echo(json.dumps(explanation.to_json(), ensure_ascii=False) if self.as_json else str(explanation))

    # Commands

    def _command(self, line: str) -> None:
        name, _, argument = line[1:].partition(" ")
        command = COMMANDS.get(name.casefold())
        if command is None:
            raise click.UsageError(f"there is no command .{name}; .help lists them")
        command.run(self, argument.strip())

    def _help(self, _: str) -> None:
        width = max(len(command.usage) for command in COMMANDS.values())
        click.echo("\n".join(f"{command.usage:<{width}}  {command.text}" for command in COMMANDS.values()))
        click.echo("SELECT …;".ljust(width) + "  ask it; EXPLAIN SELECT …; says what it would cost")

    def _tables(self, _: str) -> None:
        tables = self.data.catalog.tables.values()
        for table in tables:
            click.echo(f"{printable(table.name)}: " + (f"protects {table.unit}" if table.private else "public"))

    def _columns(self, argument: str) -> None:
        tables = list(self.data.catalog.tables.values())
        if not argument and len(tables) > 1:
            raise click.UsageError(f"of which table: {', '.join(table.name for table in tables)}?")
        table = self.data.catalog.table(argument.strip('";')) if argument else tables[0]
        click.echo("\n".join(printable(column.describe()) for column in table.columns))

    def _explain(self, argument: str) -> None:
        text = argument.strip().rstrip(";").strip()
        if not text:
            raise click.UsageError("write .explain SELECT …")
        with stated(_DOT):
            terms = {name: term for name, term in self.terms.items() if name != "analyst"}
            self._print(self.data.explain(text, **terms))

    def _budget(self, _: str) -> None:
        self._print(self.data.budget())

    def _json(self, argument: str) -> None:
        if argument.casefold() not in ("on", "off"):
            raise click.UsageError("write .json on or .json off")
        self.as_json = argument.casefold() == "on"

    def _plot(self, argument: str) -> None:
        if self.last is None:
            raise click.UsageError("there is no answer to plot yet; ask a question first")
        if not argument:
            raise click.UsageError("write .plot FILE, which ends in .png, .svg or .pdf")
        self.last.plot(argument)
        click.echo(f"wrote {argument}", err=True)

    def _quit(self, _: str) -> None:
        self.done = True

    def state(self, name: str, argument: str) -> None:
        """Set what holds for the questions to come; without a value, say what it is."""
        if not argument:
            value = self.terms[name]
            click.echo(f"{name} is not stated" if value is None else f"{name} {value}")
            return
        self.terms[name] = _SETTINGS[name](argument, name)
        other = {"epsilon": "error", "error": "epsilon"}.get(name)
        if other is not None and self.terms[name] is not None:
            self.terms[other] = None


def _number(text: str, name: str) -> str | None:
    if text.casefold() == "off":
        return None
    rational(text, name, above=0, below=1 if name == "delta" else None)
    return text


def _confidence(text: str, name: str) -> str:
    rational(text, name, above=0, below=1)
    return text


def _whole(text: str, name: str) -> int | None:
    if text.casefold() == "off":
        return None
    if not re.fullmatch(r"[0-9]{1,10}", text):
        raise InvalidParameter(name, text, "a whole number, or off")
    return contribution(int(text), name, Unit("person"))


_SETTINGS: dict[str, Callable[[str, str], Any]] = {
    "epsilon": _number,
    "error": _number,
    "delta": _number,
    "groups": _whole,
    "rows": _whole,
    "confidence": _confidence,
}


@dataclass(frozen=True, slots=True)
class Command:
    """A command: what it does to a session, and its line of help."""

    run: Callable[[Session, str], None]
    usage: str
    text: str


def _setting(name: str, example: str, text: str) -> Command:
    return Command(lambda session, argument: session.state(name, argument), f".{name} {example}", text)


COMMANDS = {
    "help": Command(Session._help, ".help", "this list"),
    "tables": Command(Session._tables, ".tables", "the tables, and the unit that each protects"),
    "columns": Command(Session._columns, ".columns TABLE", "the columns of a table and how they are treated"),
    "epsilon": _setting("epsilon", "0.5", "the cost of each question from now on"),
    "error": _setting("error", "100", "the acceptable error of counts and sums, instead of ε"),
    "delta": _setting("delta", "1e-8", "needed to name groups that come from the data; off: none"),
    "groups": _setting("groups", "3", "the most groups in which a person counts; off: the policy's bound"),
    "rows": _setting("rows", "10", "the most rows as which a person counts in a group; off: the policy's bound"),
    "confidence": _setting("confidence", "0.95", "the confidence level of each interval"),
    "explain": Command(Session._explain, ".explain SELECT …", "what it would cost and do; free"),
    "budget": Command(Session._budget, ".budget", "what was spent, by whom, and what is left"),
    "json": Command(Session._json, ".json on|off", "print JSON, one object a line"),
    "plot": Command(Session._plot, ".plot FILE", "plot the last answer: .png, .svg or .pdf"),
    "quit": Command(Session._quit, ".quit", "leave, as Ctrl-D does"),
}


# Line editing, where Python has it


@contextmanager
def _line_editing(catalog: Catalog) -> Iterator[None]:
    """History and completion, through readline; without it, lines are read as they are."""
    try:
        import readline
    except ImportError:
        yield
        return
    file = history_file(os.environ)
    if file is not None:
        with suppress(OSError):
            readline.read_history_file(file)
    before = readline.get_current_history_length()
    libedit = "libedit" in (readline.__doc__ or "")
    readline.parse_and_bind("bind ^I rl_complete" if libedit else "tab: complete")
    readline.set_completer_delims(" \t\n,()=<>*+-/;'")
    readline.set_completer(_completer(catalog, readline.get_line_buffer))
    readline.set_history_length(_HISTORY)
    try:
        yield
    finally:
        readline.set_completer(None)
        if file is not None:
            with suppress(OSError):
                _add_history(readline, readline.get_current_history_length() - before, file)


def _add_history(readline: Any, lines: int, file: Path) -> None:
    """Add the lines of this session, so that shells side by side do not lose each other's."""
    if hasattr(readline, "append_history_file"):
        readline.append_history_file(max(lines, 0), file)
    else:
        readline.write_history_file(file)


def history_file(environment: "os._Environ[str] | dict[str, str]") -> Path | None:
    """Where typed lines are kept, readable by their author alone; None where that cannot be.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> history_file({"XDG_STATE_HOME": folder}) == Path(folder, "discreet", "history")
    True
    """
    try:
        stated_ = Path(environment.get("XDG_STATE_HOME", ""))
        folder = (stated_ if stated_.is_absolute() else Path.home() / ".local" / "state") / "discreet"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = folder / "history"
        os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except (OSError, RuntimeError):  # no home, or no right to write there
        return None
    return file


def _completer(catalog: Catalog, line: Callable[[], str]) -> Callable[[str, int], str | None]:
    def complete(text: str, state: int) -> str | None:
        result = completions(text, line(), catalog)
        return result[state] if state < len(result) else None

    return complete


def completions(text: str, line: str, catalog: Catalog) -> list[str]:
    """What the word that is being typed may become: commands, names of tables and columns, words of SQL.

    >>> from discreet.curator.catalog import Column, Table
    >>> catalog = Catalog("census", [Table("people", [Column("age", "integer")], unit=Unit())], neighbors="change one")
    >>> completions("a", "SELECT a", catalog), completions(".ep", ".ep", catalog), completions("p.A", "p.A", catalog)
    (['age', 'and', 'as', 'asc', 'avg('], ['.epsilon '], ['p.age'])
    """
    command = line.split(None, 1)[0] if line.lstrip().startswith(".") else ""
    if command and line.strip() == text:
        return [f".{name} " for name in COMMANDS if f".{name}".startswith(text.casefold())]
    before, dot, typed = text.rpartition(".")
    tables = list(catalog.tables.values())
    names = [] if command == ".columns" else [column.name for table in tables for column in table.columns]
    names += [] if dot else [table.name for table in tables]
    words = [] if dot or command == ".columns" else _WORDS
    options = [_quoted(name) for name in names] + [word.lower() if typed.islower() else word for word in words]
    return [
        before + dot + option for option in dict.fromkeys(options) if option.casefold().startswith(typed.casefold())
    ]


def _quoted(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z_0-9]*", name) else '"' + name.replace('"', '""') + '"'


_WORDS = [
    "AND", "AS", "ASC", "AVG(", "BETWEEN", "CASE", "COUNT(", "COUNT(*)", "COUNT(DISTINCT", "DATE_TRUNC(", "DESC",
    "ELSE", "END", "EXPLAIN", "EXTRACT(", "FILTER (WHERE", "FLOOR(", "FROM", "GROUP BY", "HAVING", "IN (", "IS NULL",
    "IS NOT NULL", "LEAST(", "LIKE", "LIMIT", "MONTH(", "NOT", "OR", "ORDER BY", "OVER (", "ROUND(", "SELECT", "SUM(",
    "THEN", "WHEN", "WHERE", "WITH", "YEAR(",
]  # fmt: skip
