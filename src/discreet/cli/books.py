"""`discreet ledger`, `discreet budget` and `discreet statement`: the books of a dataset.

They read, and never write; but for `discreet ledger amend`, which appends one row, and `discreet ledger forget`.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date, datetime
from pathlib import Path

import click

from discreet.cli import show
from discreet.cli.books_pictures import budget_chart, spending_chart
from discreet.cli.ledger_rows import entries_of, print_entries
from discreet.curator.ledger import Head, Ledger, Verification
from discreet.curator.policy import Policy, read_policy
from discreet.curator.report import (
    budget_report,
    chain_of,
    visible,
)
from discreet.curator.settings import in_words, protection_of, same_settings, settings_text
from discreet.curator.stores import trusted
from discreet.curator.stores.reader import ReadOnlyStore
from discreet.curator.stores.sqlite import SqliteStore
from discreet.curator.witness import witness_of
from discreet.errors import InvalidParameter, LedgerDamaged, LedgerUnavailable
from discreet.privacy.budget import Spent
from discreet.privacy.unit import words

_POLICY = click.argument("policy", metavar="POLICY", type=click.Path())


class _ShowUnlessTold(click.Group):
    """A group whose first word may be left out: then it is `show`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = ["show", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_ShowUnlessTold)
def ledger() -> None:
    """What was charged, by whom, on what; and whether the record is intact.

    `discreet ledger POLICY` is short for `discreet ledger show POLICY`.
    """


@ledger.command(name="show")
@_POLICY
@click.option("--analyst", help="Only this analyst's charges, with the analyst's own running total.")
@click.option("--last", type=click.IntRange(min=1), help="Only the last so many rows.")
@click.option("--text", "texts", is_flag=True, help="Show the texts of the statements, where they were kept.")
@show.plot_option
@show.json_option
def show_(policy: str, analyst: str | None, last: int | None, texts: bool, plot: str | None, as_json: bool) -> None:
    """Who was charged, when, for what: the ε of each charge and the running total."""
    books = _open(policy)
    entries = list(entries_of(books.policy, books.ledger, analyst))
    if analyst is not None and not entries:
        raise InvalidParameter("--analyst", analyst, "somebody who was charged", "discreet budget lists all of them")
    shown = entries[-last:] if last else entries
    if as_json:
        rows = [one.to_json(texts=texts) for one in shown]
        click.echo(json.dumps({"dataset": books.account, "rows": rows}, ensure_ascii=False))
    else:
        print_entries(shown, own=analyst is not None, texts=texts)
    if plot:
        show.save(spending_chart(shown), plot)


@ledger.command()
@_POLICY
@click.option(
    "--published",
    type=click.Path(dir_okay=False),
    multiple=True,
    help="A file of heads that were published: lines printed by `discreet ledger head`.",
)
@show.json_option
def verify(policy: str, published: tuple[str, ...], as_json: bool) -> None:
    """Check the hash chain, row by row, every total and every cached answer; exit code 3 if something is wrong.

    Somebody who rewrote or removed the whole file is found by the policy's witness, and by published heads.
    """
    public = [head for path in published for head in _heads(path)]
    found, public = _verified(read_policy(policy), policy, public)
    told: dict[str, object] = {"verified": bool(found), "rows": found.rows, "published": len(public)}
    told |= {
        "trouble": found.trouble or None,
        "row": found.number,
        "unsealed": found.unsealed,
        "outdated": found.outdated,
    }
    told |= {"heads": [asdict(head) for head in found.heads]}
    if as_json:
        click.echo(json.dumps(told, ensure_ascii=False))
    else:
        click.echo(visible(str(found)) + (f", with {len(public)} published heads" if public and found else ""))
    if not found:
        raise click.exceptions.Exit(3)


def _verified(read: Policy, policy: str, public: list[Head]) -> tuple[Verification, list[Head]]:
    """What the ledger, its witness and the published heads say together, and which of these heads were used."""
    path = _ledger_path(read, policy)
    witness = witness_of(read, path, recording=False)
    seen = witness.sightings() if witness else []
    known = [*map(str, seen), *(f"row {head.number} was published" for head in public)]
    if _is_missing(path) and known:
        return Verification(0, (), f"there is no ledger {path}, but a witness saw it: {known[0]}"), public
    books = _located(policy)
    try:
        public = _of_this_ledger(public, books)
        used = [*public, *(sighting.head for sighting in seen if sighting.account == books.account)]
        found = books.ledger.verify(published=used)
    except LedgerDamaged as error:  # so damaged that its rows cannot be walked
        return Verification(0, (), str(error)), public
    other = next((sighting for sighting in seen if sighting.account != books.account), None)
    if found and other is not None:
        return replace(found, trouble=f"a witness saw the same data under another name: {other}"), public
    if found and books.account not in (head.account for head in found.heads) and (seen or public):
        return replace(found, trouble=f"it has no account {books.account!r}, which was {known[0]}"), public
    if found:
        _check_account(books, [head.account for head in found.heads])
    return found, public


@ledger.command()
@_POLICY
@click.option(*show.JSON, is_flag=True, expose_value=False, help="Print JSON, which it does anyway.")
def head(policy: str) -> None:
    """Print where the chain ends now, as one line of JSON: publish it, and give it to `verify --published` later."""
    books = _open(policy)
    click.echo(json.dumps(asdict(books.ledger.head(books.account)), ensure_ascii=False))


@ledger.command()
@_POLICY
@click.option("--by", required=True, metavar="WHO", help="Who decides this.")
@click.option("--why", required=True, metavar="TEXT", help="For which reason: people will read it in the statement.")
@click.option("--yes", is_flag=True, help="Do not ask whether this is meant.")
@show.json_option
def amend(policy: str, by: str, why: str, yes: bool, as_json: bool) -> None:
    """Put the budget, the caps and the protection that POLICY states on record, in place of those in force.

    Questions are refused while the policy says something else than the ledger. What was charged stays charged.
    """
    who, reason = words(by, "--by", "who decides this"), words(why, "--why", "a reason in words")
    books = _located(policy)
    _check_account(books, books.ledger.accounts())
    rows, _ = chain_of(books.ledger, books.account)
    stated, old = books.policy, _in_force(books)
    limit, new = stated.budget, stated.settings
    told = {
        "dataset": books.account,
        "changed": not same_settings(old, new),
        "old": json.loads(old),
        "new": json.loads(new),
    }
    if same_settings(old, new):
        _tell(told, f"nothing to change: the ledger has {in_words(old)}, as the policy says", as_json=as_json)
        return
    click.echo(visible(f"in force    {in_words(old)}"), err=as_json)
    click.echo(visible(f"the policy  {in_words(new)}"), err=as_json)
    if not limit.allows(Spent.from_json(rows[-1].total)):
        click.echo("more than that is spent already: with it, no further question can be paid", err=True)
    _confirm(yes)
    with SqliteStore(books.path, create=False) as store:
        changed = Ledger(store, witness=witness_of(stated, books.path))
        changed.amend(
            books.account, budget=limit, caps=stated.caps, everyone=stated.everyone,
            protects=stated.catalog.protects, by=who, why=reason,
        )  # fmt: skip
        last = changed.head(books.account).number
    _tell(told | {"row": last}, f"amended as row {last} of the ledger", as_json=as_json)


@ledger.command()
@_POLICY
@click.option("--by", required=True, metavar="WHO", help="Who decides this.")
@click.option("--why", required=True, metavar="TEXT", help="For which reason; the witness keeps it.")
@click.option("--yes", is_flag=True, help="Do not ask whether this is meant.")
@show.json_option
def forget(policy: str, by: str, why: str, yes: bool, as_json: bool) -> None:
    """Have the witness of POLICY forget what it saw of these data, so that a new ledger can be begun.

    What was released stays released: a new ledger counts from nothing, so people are promised less than they were.
    """
    who, reason = words(by, "--by", "who decides this"), words(why, "--why", "a reason in words")
    read = read_policy(policy)
    witness = witness_of(read, _ledger_path(read, policy))
    seen = witness.sightings() if witness else []
    told: dict[str, object] = {"dataset": read.catalog.name, "forgotten": [str(sighting) for sighting in seen]}
    if witness is None or not seen:
        _tell(told, "nothing to forget: no witness has seen these data", as_json=as_json)
        return
    for sighting in seen:
        click.echo(visible(f"seen  {sighting}"), err=as_json)
    _confirm(yes)
    witness.forget(by=who, why=reason)
    _tell(told, "forgotten; the next question begins a new ledger, or goes on with the one in place", as_json=as_json)


def _confirm(yes: bool) -> None:
    try:
        meant = yes or click.confirm("Put this on record?", err=True)
    except click.Abort:
        click.echo(err=True)
        meant = False
    if not meant:
        raise click.ClickException("nothing was changed; answer y, or give --yes")


def _tell(facts: dict[str, object], words_: str, *, as_json: bool) -> None:
    click.echo(json.dumps(facts, ensure_ascii=False) if as_json else visible(words_))


@click.command()
@_POLICY
@show.plot_option
@show.json_option
def budget(policy: str, plot: str | None, as_json: bool) -> None:
    """What was spent of the budget, by whom, and what is left."""
    books = _open(policy)
    report = budget_report(books.ledger, books.account)
    click.echo(json.dumps(report.to_json(), ensure_ascii=False) if as_json else str(report))
    if plot:
        show.save(budget_chart(report), plot)


@click.command()
@_POLICY
@show.output_option("Write to this file, which must be new.")
@click.option("--as-of", help="Only what was charged up to this day, or moment with its time zone: 2026-12-31.")
@click.option("--names", is_flag=True, help="Tell the names of analysts, who are numbered otherwise.")
@click.option("--text", "texts", is_flag=True, help="Tell the texts of the statements, where they were kept.")
@show.json_option
def statement(policy: str, output: str | None, as_of: str | None, names: bool, texts: bool, as_json: bool) -> None:
    """The privacy statement to publish, as Markdown: who is protected, against what, at which ε, and what is not."""
    from discreet.curator.statement import privacy_statement

    books = _open(policy)
    made = privacy_statement(books.policy, books.ledger, as_of=_time(as_of), names=names, texts=texts)
    text = json.dumps(made.to_json(), ensure_ascii=False) + "\n" if as_json else made.to_markdown()
    show.text(text, output, "read it before you publish it")


# Finding the books


@dataclass(frozen=True, slots=True)
class _Books:
    """A policy, and the ledger beside it, opened for reading."""

    policy: Policy
    path: Path
    ledger: Ledger

    @property
    def account(self) -> str:
        return self.policy.catalog.name


def _open(policy: str) -> _Books:
    """The books, if they have an account of this dataset; with a remark where the policy says something else."""
    books = _located(policy)
    _check_account(books, books.ledger.accounts())
    kept, read = _in_force(books), books.policy
    protects = read.catalog.protects if protection_of(kept) else ""  # not every account says whom it protects
    stated = settings_text(read.budget, read.caps, protects, everyone=read.everyone)
    if not same_settings(stated, kept):
        remark = f"the policy says {in_words(stated)}; the ledger, which counts, has {in_words(kept)}"
        click.echo(visible(remark), err=True)
    return books


def _located(policy: str) -> _Books:
    read = read_policy(policy)
    path = _ledger_path(read, policy)
    if _is_missing(path):
        witness = witness_of(read, path, recording=False)
        for sighting in witness.sightings() if witness else []:
            raise LedgerDamaged(f"there is no ledger {path}, but a witness saw {sighting}; put it back in place")
        raise LedgerUnavailable(
            f"nothing was asked of {read.catalog.name!r} yet: there is no ledger {path}; the first question makes it"
        )
    return _Books(read, path, Ledger(ReadOnlyStore(path)))


def _ledger_path(read: Policy, policy: str) -> Path:
    return Path(policy).parent / (read.ledger or Path(policy).with_suffix(".ledger").name)


def _is_missing(path: Path) -> bool:
    return not path.exists() or (path.is_file() and not path.stat().st_size)


def _in_force(books: _Books) -> str:
    """The settings of the account, as the ledger has them."""
    row = ReadOnlyStore(books.path).transact(lambda rows: rows.settings(books.account))
    if row is None:
        raise LedgerDamaged(f"account {books.account!r} has rows but was never opened; verify the ledger")
    return trusted(row).settings or ""


def _check_account(books: _Books, accounts: Sequence[str]) -> None:
    if books.account not in accounts:
        others = ", ".join(map(repr, accounts)) or "nothing"
        raise InvalidParameter(
            "dataset", books.account, f"a dataset of the ledger {books.path}, which holds {others}",
            "nothing was asked under this name; was the dataset renamed, or is this another ledger?",
        )  # fmt: skip


def _heads(path: str) -> Iterator[Head]:
    """The heads in a file: JSON objects, or lists of them, one after another."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"cannot read {path}: {getattr(error, 'strerror', None) or 'it is not UTF-8'}") from None
    if not text:
        raise click.UsageError(f"{path} is empty: it holds no published head")
    while text:
        try:
            found, end = json.JSONDecoder().raw_decode(text)
        except (ValueError, RecursionError):
            raise click.UsageError(f"cannot read {path}: {_HEADS}") from None
        text = text[end:].lstrip(", \t\r\n")
        for one in found if isinstance(found, list) else [found]:
            yield _head(one, path)


def _of_this_ledger(public: list[Head], books: _Books) -> list[Head]:
    """The published heads that can be checked here; heads of other ledgers are left aside, with a remark."""
    used = [head for head in public if head.account in (books.account, *books.ledger.accounts())]
    if public and not any(head.account == books.account for head in used):
        raise click.UsageError(f"--published: no head of dataset {books.account!r} is in what was given")
    if len(used) < len(public):
        click.echo(f"{len(public) - len(used)} published heads are of other ledgers and were left aside", err=True)
    return used


_HEADS = "expected heads as `discreet ledger head` prints them"


def _head(found: object, path: str) -> Head:
    kinds = {"account": str, "length": int, "number": int, "hash": str}
    fits = isinstance(found, dict) and {name: type(value) for name, value in found.items()} == kinds
    if not isinstance(found, dict) or not fits:
        raise click.UsageError(f"cannot read {path}: {_HEADS}")
    return Head(**found)


def _time(text: str | None) -> date | datetime | None:
    for read in (date.fromisoformat, datetime.fromisoformat):
        try:
            return None if text is None else read(text)
        except ValueError:
            continue
    raise click.UsageError(f"--as-of: got {text!r}, expected a day (2026-12-31) or a moment (2026-12-31T12:00:00Z)")
