"""`discreet ledger`, `discreet budget` and `discreet statement`: what was spent, and is it on record.

They read, and never write; but for `discreet ledger amend`, which appends one row, and `discreet ledger forget`.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date, datetime
from pathlib import Path

import click

from discreet.cli import show
from discreet.curator.ledger import Head, Ledger, Verification
from discreet.curator.policy import Policy, read_policy
from discreet.curator.reports.answer_table import printable
from discreet.curator.reports.budget_report import (
    budget_chart,
    budget_report,
    chain_of,
    entries_of,
    entries_text,
    spending_chart,
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


class _ShowUnlessTold(show.Group):
    """A group whose first word may be left out: then it is `show`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = ["show", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_ShowUnlessTold)
def ledger() -> None:
    """Show what was charged, to whom and for what, and verify the record.

    `discreet ledger POLICY` is short for `discreet ledger show POLICY`.
    """


@ledger.command(name="show")
@_POLICY
@click.option("--analyst", help="Show only this analyst's charges and running total.")
@click.option("--last", type=click.IntRange(min=1), help="Show only this many of the last rows.")
@click.option("--text", "texts", is_flag=True, help="Show the texts of the statements, if they are on record.")
@show.plot_option
@show.json_option
def show_(policy: str, analyst: str | None, last: int | None, texts: bool, plot: str | None, as_json: bool) -> None:
    """Show who was charged, when and for what: the ε of each charge and the running total."""
    record = _open(policy)
    entries = list(entries_of(record.policy, record.ledger, analyst))
    if analyst is not None and not entries:
        raise InvalidParameter("--analyst", analyst, "an analyst who was charged", "discreet budget lists all of them")
    shown = entries[-last:] if last else entries
    if as_json:
        rows = [entry.to_json(texts=texts) for entry in shown]
        click.echo(json.dumps({"dataset": record.account, "rows": rows}, ensure_ascii=False))
    else:
        click.echo(entries_text(shown, own=analyst is not None, texts=texts))
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

    If the whole file was rewritten or removed, the policy's witness and published heads reveal it.
    """
    public = [head for path in published for head in _heads(path)]
    verdict, public = _verified(read_policy(policy), policy, public)
    facts: dict[str, object] = {"verified": bool(verdict), "rows": verdict.rows, "published": len(public)}
    facts |= {
        "trouble": verdict.trouble or None,
        "row": verdict.number,
        "unsealed": verdict.unsealed,
        "outdated": verdict.outdated,
    }
    facts |= {"heads": [asdict(head) for head in verdict.heads]}
    if as_json:
        click.echo(json.dumps(facts, ensure_ascii=False))
    else:
        click.echo(
            printable(str(verdict))
            + (f", with {len(public)} published head{'s' * (len(public) != 1)}" if public and verdict else "")
        )
    if not verdict:
        raise click.exceptions.Exit(3)


def _verified(read: Policy, policy: str, public: list[Head]) -> tuple[Verification, list[Head]]:
    """What the ledger, its witness and the published heads say together, and which of these heads were used."""
    path = _ledger_path(read, policy)
    witness = witness_of(read, path, recording=False)
    seen = witness.sightings() if witness else []
    known = [*map(str, seen), *(f"row {head.number} was published" for head in public)]
    if _is_missing(path) and known:
        return Verification(0, (), f"there is no ledger {path}, but a witness saw it: {known[0]}"), public
    record = _located(policy)
    try:
        public = _of_this_ledger(public, record)
        used = [*public, *(sighting.head for sighting in seen if sighting.account == record.account)]
        verdict = record.ledger.verify(published=used)
    except LedgerDamaged as error:  # so damaged that its rows cannot be walked
        return Verification(0, (), str(error)), public
    other = next((sighting for sighting in seen if sighting.account != record.account), None)
    if verdict and other is not None:
        return replace(verdict, trouble=f"a witness saw the same data under another name: {other}"), public
    if verdict and record.account not in (head.account for head in verdict.heads) and (seen or public):
        return replace(verdict, trouble=f"it has no account {record.account!r}, which was {known[0]}"), public
    if verdict:
        _check_account(record, [head.account for head in verdict.heads])
    return verdict, public


@ledger.command()
@_POLICY
@click.option(*show.JSON, is_flag=True, expose_value=False, help="Print JSON (this command always does).")
def head(policy: str) -> None:
    """Print the head of the hash chain as a line of JSON, to publish and to pass to `verify --published` later."""
    record = _open(policy)
    click.echo(json.dumps(asdict(record.ledger.head(record.account)), ensure_ascii=False))


@ledger.command()
@_POLICY
@click.option("--by", required=True, metavar="WHO", help="Who decided this.")
@click.option("--why", required=True, metavar="TEXT", help="The reason, which the privacy statement will quote.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@show.json_option
def amend(policy: str, by: str, why: str, yes: bool, as_json: bool) -> None:
    """Record the budget, caps and protection that POLICY states, replacing those in force.

    Questions are refused while the policy and the ledger differ. What was charged stays charged.
    """
    who, reason = words(by, "--by", "who decides this"), words(why, "--why", "a reason in words")
    record = _located(policy)
    _check_account(record, record.ledger.accounts())
    rows, _ = chain_of(record.ledger, record.account)
    stated, old = record.policy, _in_force(record)
    limit, new = stated.budget, stated.settings
    facts = {
        "dataset": record.account,
        "changed": not same_settings(old, new),
        "old": json.loads(old),
        "new": json.loads(new),
    }
    if same_settings(old, new):
        _tell(facts, f"nothing to change: the ledger has {in_words(old)}, as the policy says", as_json=as_json)
        return
    click.echo(printable(f"in force    {in_words(old)}"), err=as_json)
    click.echo(printable(f"the policy  {in_words(new)}"), err=as_json)
    if not limit.allows(Spent.from_json(rows[-1].total)):
        click.echo("more than that is spent already: with it, no further question can be paid", err=True)
    _confirm(yes)
    with SqliteStore(record.path, create=False) as store:
        changed = Ledger(store, witness=witness_of(stated, record.path))
        changed.amend(
            record.account, budget=limit, caps=stated.caps, everyone=stated.everyone,
            protects=stated.catalog.protects, by=who, why=reason,
        )  # fmt: skip
        last = changed.head(record.account).number
    _tell(facts | {"row": last}, f"amended as row {last} of the ledger", as_json=as_json)


@ledger.command()
@_POLICY
@click.option("--by", required=True, metavar="WHO", help="Who decided this.")
@click.option("--why", required=True, metavar="TEXT", help="The reason, which the witness records.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@show.json_option
def forget(policy: str, by: str, why: str, yes: bool, as_json: bool) -> None:
    """Make the witness of POLICY forget these data, so that a new ledger can be started.

    Earlier releases are not undone. A new ledger starts at zero, so people are protected less than they were promised.
    """
    who, reason = words(by, "--by", "who decides this"), words(why, "--why", "a reason in words")
    read = read_policy(policy)
    witness = witness_of(read, _ledger_path(read, policy))
    seen = witness.sightings() if witness else []
    facts: dict[str, object] = {"dataset": read.catalog.name, "forgotten": [str(sighting) for sighting in seen]}
    if witness is None or not seen:
        _tell(facts, "nothing to forget: no witness has seen these data", as_json=as_json)
        return
    for sighting in seen:
        click.echo(printable(f"seen  {sighting}"), err=as_json)
    _confirm(yes)
    witness.forget(by=who, why=reason)
    _tell(facts, "forgotten; the next question begins a new ledger, or goes on with the one in place", as_json=as_json)


def _confirm(yes: bool) -> None:
    try:
        meant = yes or click.confirm("Put this on record?", err=True)
    except click.Abort:
        click.echo(err=True)
        meant = False
    if not meant:
        raise click.ClickException("nothing was changed; answer y, or give --yes")


def _tell(facts: dict[str, object], words_: str, *, as_json: bool) -> None:
    click.echo(json.dumps(facts, ensure_ascii=False) if as_json else printable(words_))


@click.command()
@show.dataset_argument
@show.plot_option
@show.json_option
def budget(policy: str, plot: str | None, as_json: bool) -> None:
    """Show what was spent of the budget, by whom, and what is left."""
    if show.is_url(policy):
        report = show.connected(policy).budget()
    else:
        record = _open(policy)
        report = budget_report(record.ledger, record.account)
    click.echo(json.dumps(report.to_json(), ensure_ascii=False) if as_json else str(report))
    if plot:
        show.save(budget_chart(report), plot)


@click.command()
@show.dataset_argument
@show.output_option("Write to this file, which must be new.")
@click.option("--as-of", help="Include charges up to this day, or time with time zone: 2026-12-31.")
@click.option("--names", is_flag=True, help="Name the analysts, instead of numbering them.")
@click.option("--text", "texts", is_flag=True, help="Include the texts of the statements, if they are on record.")
@show.json_option
def statement(policy: str, output: str | None, as_of: str | None, names: bool, texts: bool, as_json: bool) -> None:
    """Write the privacy statement to publish, as Markdown: who is protected, from what, at which ε, and what is not."""
    from discreet.curator.reports.statement_sections import privacy_statement

    if show.is_url(policy):
        data = show.connected(policy, as_of=as_of, names=names, text=texts)
        facts, words_ = (data.statement_document(), "") if as_json else ({}, data.statement())
    else:
        record = _open(policy)
        document = privacy_statement(record.policy, record.ledger, as_of=_time(as_of), names=names, texts=texts)
        facts, words_ = document.to_json(), document.to_markdown()
    text = json.dumps(facts, ensure_ascii=False) + "\n" if as_json else words_
    show.text(text, output, "read it before you publish it")


# Finding the ledger


@dataclass(frozen=True, slots=True)
class _Record:
    """A policy, and the ledger beside it, opened for reading."""

    policy: Policy
    path: Path
    ledger: Ledger

    @property
    def account(self) -> str:
        return self.policy.catalog.name


def _open(policy: str) -> _Record:
    """The ledger, if it has an account of this dataset; with a remark where the policy says something else."""
    record = _located(policy)
    _check_account(record, record.ledger.accounts())
    in_force, read = _in_force(record), record.policy
    protects = read.catalog.protects if protection_of(in_force) else ""  # not every account says whom it protects
    stated = settings_text(read.budget, read.caps, protects, everyone=read.everyone)
    if not same_settings(stated, in_force):
        remark = f"the policy says {in_words(stated)}; the ledger, which counts, has {in_words(in_force)}"
        click.echo(printable(remark), err=True)
    return record


def _located(policy: str) -> _Record:
    read = read_policy(policy)
    path = _ledger_path(read, policy)
    if _is_missing(path):
        witness = witness_of(read, path, recording=False)
        for sighting in witness.sightings() if witness else []:
            raise LedgerDamaged(f"there is no ledger {path}, but a witness saw {sighting}; put it back in place")
        raise LedgerUnavailable(
            f"nothing was asked of {read.catalog.name!r} yet: there is no ledger {path}; the first question creates it"
        )
    return _Record(read, path, Ledger(ReadOnlyStore(path)))


def _ledger_path(read: Policy, policy: str) -> Path:
    return Path(policy).parent / show.ledger_file(read.ledger or Path(policy).with_suffix(".ledger").name)


def _is_missing(path: Path) -> bool:
    return not path.exists() or (path.is_file() and not path.stat().st_size)


def _in_force(record: _Record) -> str:
    """The settings of the account, as the ledger has them."""
    row = ReadOnlyStore(record.path).transact(lambda rows: rows.settings(record.account))
    if row is None:
        raise LedgerDamaged(f"account {record.account!r} has rows but was never opened; verify the ledger")
    return trusted(row).settings or ""


def _check_account(record: _Record, accounts: Sequence[str]) -> None:
    if record.account not in accounts:
        others = ", ".join(map(repr, accounts)) or "nothing"
        raise InvalidParameter(
            "dataset", record.account, f"a dataset of the ledger {record.path}, which holds {others}",
            "it has no charges under this name; was the dataset renamed, or is this another ledger?",
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
            content, end = json.JSONDecoder().raw_decode(text)
        except (ValueError, RecursionError):
            raise click.UsageError(f"cannot read {path}: {_HEADS}") from None
        text = text[end:].lstrip(", \t\r\n")
        for part in content if isinstance(content, list) else [content]:
            yield _head(part, path)


def _of_this_ledger(public: list[Head], record: _Record) -> list[Head]:
    """The published heads that can be checked here; heads of other ledgers are left aside, with a remark."""
    used = [head for head in public if head.account in (record.account, *record.ledger.accounts())]
    if public and not any(head.account == record.account for head in used):
        raise click.UsageError(f"--published: no head of dataset {record.account!r} is in what was given")
    if len(used) < len(public):
        click.echo(f"{len(public) - len(used)} published heads are of other ledgers and were left aside", err=True)
    return used


_HEADS = "expected heads as `discreet ledger head` prints them"


def _head(content: object, path: str) -> Head:
    kinds = {"account": str, "length": int, "number": int, "hash": str}
    fits = isinstance(content, dict) and {name: type(value) for name, value in content.items()} == kinds
    if not isinstance(content, dict) or not fits:
        raise click.UsageError(f"cannot read {path}: {_HEADS}")
    return Head(**content)


def _time(text: str | None) -> date | datetime | None:
    for read in (date.fromisoformat, datetime.fromisoformat):
        try:
            return None if text is None else read(text)
        except ValueError:
            continue
    raise click.UsageError(f"--as-of: got {text!r}, expected a day (2026-12-31) or a moment (2026-12-31T12:00:00Z)")
