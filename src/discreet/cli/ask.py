"""`discreet ask` and `discreet explain`: an analyst's questions, answered, or only priced."""

import json
import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from discreet.cli import show
from discreet.curator.ledger import Ledger, digest
from discreet.curator.policy import Policy, read_policy
from discreet.curator.settings import analyst_name
from discreet.curator.stores.reader import ReadOnlyStore
from discreet.curator.witness import witness_of
from discreet.errors import DiscreetError, InvalidParameter, InvalidQuery, LedgerConflict, ReleaseFailed
from discreet.requests import Question

if TYPE_CHECKING:
    from discreet.client.remote import RemoteDataset
    from discreet.curator.answer import Answer
    from discreet.dataset import Dataset
    from discreet.sql.plan.query_plan import QueryPlan

Command = TypeVar("Command", bound=Callable[..., Any])

OPTION = "--{} {}"
"""How something is stated on the command line: --epsilon 0.5"""

_TERMS = (
    show.epsilon_option("What the whole question may cost: 0.5", required=False),
    click.option(
        "--error", metavar="±", help="The acceptable error: 100 or 5%. The least ε is found, up to --epsilon."
    ),
    show.delta_option("Needed to name groups that come from the data: 1e-8"),
    click.option("--groups", type=int, help="The most groups in which a person counts.  [the policy's bound]"),
    click.option("--rows", type=int, help="The most rows as which a person counts in a group.  [the policy's bound]"),
    click.option("--measure-bounds", is_flag=True, help="Spend a tenth of ε to measure how much bounding dropped."),
    click.option("--confidence", default="0.95", show_default=True, help="The confidence level of each interval."),
    show.analyst_option,
)
_STATEMENTS = (
    show.dataset_argument,
    click.argument("sql", metavar="[SQL]...", nargs=-1),
    click.option("--file", "files", type=click.Path(dir_okay=False), multiple=True, help="Read SQL from a file."),
)
owner_log_option = click.option(
    "--owner-log",
    type=click.Path(dir_okay=False),
    help="For the owner: a file for the reasons of charged releases that failed.",
)


def terms_options(command: Command) -> Command:
    """What may be stated beside a statement; each becomes an argument of that name."""
    for option in reversed(_TERMS):
        command = option(command)
    return command


def _statements(command: Command) -> Command:
    for option in reversed(_STATEMENTS):
        command = option(command)
    return command


@click.command()
@_statements
@terms_options
@show.json_option
@click.option("--csv", "as_csv", is_flag=True, help="Print the table alone, as CSV; notes and receipt go to stderr.")
@click.option("--intervals", is_flag=True, help="With --csv: add columns low and high for each value with an interval.")
@show.plot_option
@owner_log_option
def ask(
    policy: str,
    sql: tuple[str, ...],
    files: tuple[str, ...],
    as_json: bool,
    as_csv: bool,
    intervals: bool,
    plot: str | None,
    owner_log: str | None,
    **terms: Any,
) -> None:
    """Answer SQL privately and charge the budget of POLICY; repeating a question is free.

    POLICY is a file, or the URL of a server (`discreet serve`) with a token in DISCREET_TOKEN; without
    it, DISCREET_URL is used.

    SQL is a SELECT, or - to read it from standard input. One ε pays for several statements, given separately or as one
    text with ; between them. State --epsilon or --error. For averages and for relative errors (5%), state both: a tenth
    of ε estimates the sizes, and no more of the rest is spent than needed.

    Exit codes: 4 if the question is refused, 5 if the budget cannot pay; neither is charged.
    """
    policy, sql = show.named(policy, sql)
    texts = _read(sql, files)
    _check_form(len(texts), as_json=as_json, as_csv=as_csv, intervals=intervals, plot=plot)
    with owner_log_to(owner_log, policy), opened(policy, analyst=terms["analyst"]) as data:
        answers = answers_to(data, texts, terms)
    if as_json:
        documents = [answer.to_json() for answer in answers]
        click.echo(json.dumps(documents[0] if len(documents) == 1 else {"answers": documents}, ensure_ascii=False))
    elif as_csv:
        click.echo(answers[0].to_csv(intervals=intervals), nl=False)
        click.echo("\n".join([*answers[0].notes, str(answers[0].receipt)]), err=True)
    else:
        click.echo("\n\n".join(_without_receipt(answer) for answer in answers))
        click.echo(str(answers[0].receipt))
    if plot:
        answers[0].plot(plot)
        click.echo(f"wrote {plot}", err=True)


@click.command()
@_statements
@terms_options
@show.json_option
def explain(policy: str, sql: tuple[str, ...], files: tuple[str, ...], as_json: bool, **terms: Any) -> None:
    """Show what SQL would cost and do: noise, bounds, expected errors, the budget left. Free; nothing is written.

    SQL is as for `discreet ask`: one statement, or several that would be asked together.
    """
    check_terms(terms)
    policy, sql = show.named(policy, sql)
    texts = _read(sql, files)
    with opened(policy, reading=True, analyst=terms.pop("analyst")) as data, stated():
        explanation = data.explain(Question(texts, **terms))
    click.echo(json.dumps(explanation.to_json(), ensure_ascii=False) if as_json else str(explanation))


# Asking


@contextmanager
def opened(policy: str, *, reading: bool = False, analyst: str | None = None) -> "Iterator[Dataset | RemoteDataset]":
    """The dataset of a policy or a server. For `reading`, its ledger is neither made nor written."""
    import discreet

    if show.is_url(policy):
        with show.connected(policy, analyst=analyst) as far:
            yield far
        return
    read = read_policy(policy)
    _path(read)
    try:
        data = discreet.open(read, ledger=_to_read(read) if reading else None, analyst=analyst)
    except LedgerConflict as error:
        said = str(error).partition("; open it with")[0]
        hint = f"to put the policy's settings on record: discreet ledger amend {policy} --by WHO --why TEXT"
        raise LedgerConflict(f"{said}; {hint}") from None
    with data:
        yield data


def answers_to(
    data: "Dataset | RemoteDataset", texts: Sequence[str], terms: dict[str, Any], how: str = OPTION
) -> "list[Answer]":
    """The answers, after what there is to warn of, on standard error.

    Whatever goes wrong: if something was charged by then, that is said there too.
    """
    from discreet.dataset import Dataset

    if not isinstance(data, Dataset):
        with stated(how):
            return show.answers_from(data, texts, {name: term for name, term in terms.items() if name != "analyst"})
    before = ReadOnlyStore(_path(data.policy)).transact(lambda rows: rows.last())
    analyst = terms["analyst"]
    plan: QueryPlan | None = None

    def warn(made: "QueryPlan") -> None:
        nonlocal plan
        plan = made
        for warning in data.explain(plan, analyst=analyst).warnings:
            click.echo(f"warning: {warning}", err=True)

    try:
        question = Question(texts, **{name: term for name, term in terms.items() if name != "analyst"})
        with stated(how):
            return data.answers(question, analyst=analyst, before=warn)
    except ReleaseFailed:  # which names the charge itself
        raise
    except (Exception, KeyboardInterrupt) as error:
        charge = _charge_since(before, data, texts, analyst)
        if charge is not None and plan is not None and f"#{charge} " not in str(error):
            click.echo(f"charged as #{charge}: {_what_is_left(data, plan, analyst)}", err=True)
        elif charge is None and isinstance(error, KeyboardInterrupt):
            click.echo("stopped: nothing was charged", err=True)
        if charge is not None and isinstance(error, InvalidQuery):  # whose exit code says that nothing was charged
            raise ReleaseFailed(str(error)) from None
        raise


def check_terms(terms: dict[str, Any]) -> None:
    """Refuse an ε beside an error, where nothing may be released to find the sizes that the price depends on."""
    if terms["epsilon"] is not None and terms["error"] is not None:
        words = "state what the answer may cost (--epsilon) or how exact it must be (--error), not both"
        raise click.UsageError(f"{words}: `discreet ask` takes both, and pays for two releases")


@contextmanager
def stated(how: str = OPTION) -> Iterator[None]:
    """Where neither ε nor an error was stated but one is needed, say how that is done here."""
    try:
        yield
    except InvalidParameter as error:
        if error.name != "epsilon, error":
            raise
        if error.got == "'both'":
            check_terms({"epsilon": 1, "error": 1})
        cost, width = how.format("epsilon", "0.5"), how.format("error", "100")
        raise click.UsageError(f"state what the answer may cost: {cost}; or how exact it must be: {width}") from None


@contextmanager
def owner_log_to(path: str | None, policy: str) -> Iterator[None]:
    """Write what the owner alone may know to a file that the owner alone may read."""
    if path is not None and show.is_url(policy):
        raise click.UsageError("--owner-log goes with a policy file; a server has a log of its own")
    if path is None:
        yield
        return
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600))
        handler = logging.FileHandler(path, encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"cannot write {path}: {error.strerror or error}") from None
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    owner = logging.getLogger("discreet.owner")
    owner.addHandler(handler)
    try:
        yield
    finally:
        owner.removeHandler(handler)
        handler.close()


def _path(policy: Policy) -> Path:
    return policy.base / show.ledger_file(policy.ledger or "")


def _to_read(policy: Policy) -> Ledger:
    """The ledger as it is; where the dataset has none yet, one that is kept nowhere."""
    path = _path(policy)
    witness = witness_of(policy, path, recording=False)
    if path.exists() and not (path.is_file() and not path.stat().st_size):
        store = ReadOnlyStore(path)
        if store.transact(lambda rows: rows.head(policy.catalog.name)) is not None:
            return Ledger(store, witness=witness)
    from discreet.curator.stores.memory import MemoryStore

    return Ledger(MemoryStore(), witness=witness)


def _charge_since(number: int, data: "Dataset", texts: Sequence[str], analyst: str | None) -> int | None:
    """The charge for these texts after row `number`, if one was made."""
    data.budget()  # waits for a charge that is being written
    rows = ReadOnlyStore(_path(data.policy)).transact(
        lambda rows: rows.after(number, limit=1000, account=data.catalog.name)
    )
    ours = ("charge", analyst_name(analyst or data.analyst), digest(";\n".join(texts)))
    return next((row.number for row in rows if (row.kind, row.who, row.statement) == ours), None)


def _what_is_left(data: "Dataset", plan: "QueryPlan", analyst: str | None) -> str:
    try:
        cached = (data.explain(plan, analyst=analyst).budget or {}).get("free")
    except DiscreetError:
        cached = False
    if cached:
        return "what it released is cached, so asking the same aggregates again is free"
    return "it stopped before there was an answer, and asking again costs again"


# Reading statements


def split_statements(text: str) -> tuple[list[str], str]:
    """The statements that end with a semicolon, and what comes after the last of them.

    Semicolons inside quotes and comments are none. Where a quote or comment is left open, nothing has ended.

    >>> split_statements("SELECT ';' ; -- and; then\\n SELECT 2; SELECT")
    (["SELECT ';'", '-- and; then\\n SELECT 2'], 'SELECT')
    >>> split_statements("SELECT 1; SELECT 'a")
    ([], "SELECT 1; SELECT 'a")
    """
    from sqlglot import TokenError, TokenType, tokenize

    try:
        tokens = tokenize(text, read="duckdb")
    except TokenError:
        return [], text
    statements, begin, empty = [], 0, True
    for token in tokens:
        if token.token_type is TokenType.SEMICOLON:
            statements += [] if empty else [text[begin : token.start].strip()]
            begin, empty = token.end + 1, True
        else:
            empty = False
    return statements, "" if empty else text[begin:].strip()


def _read(sql: tuple[str, ...], files: tuple[str, ...]) -> list[str]:
    arguments = [_decoded(sys.stdin.buffer.read(), "-") if argument == "-" else argument for argument in sql]
    for file in files:
        try:
            arguments.append(_decoded(Path(file).read_bytes(), file))
        except OSError as error:
            raise click.UsageError(f"cannot read {file}: {error.strerror or error}") from None
    texts = []
    for text in arguments:
        whole, rest = split_statements(text)
        texts += [*whole, rest] if rest else whole
    if not texts:
        raise click.UsageError(
            "the statement is missing; write it after the policy, or - to read it from standard input"
        )
    return texts


def _decoded(content: bytes, name: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise click.UsageError(f"cannot read {name}: it is not UTF-8") from None


# Printing


def _check_form(count: int, *, as_json: bool, as_csv: bool, intervals: bool, plot: str | None) -> None:
    """Refuse what could not be printed, before anything is charged."""
    if as_json and as_csv:
        raise click.UsageError("--json or --csv, not both")
    if intervals and not as_csv:
        raise click.UsageError("--intervals goes with --csv; tables and JSON have them anyway")
    if count > 1 and (as_csv or plot):
        raise click.UsageError(f"{'--csv' if as_csv else '--plot'} takes one statement, got {count}; use --json")


def _without_receipt(answer: "Answer") -> str:
    """A table and its notes: the receipt, its last line, is one for all answers that were asked together."""
    return str(answer).rpartition("\n")[0]
