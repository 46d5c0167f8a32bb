"""The rows of a ledger, for people and programs: what each cost, and the total after it."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import click

from discreet.curator.ledger import Ledger
from discreet.curator.policy import Policy
from discreet.curator.report import aligned, chain_of, number, short, spent_epsilon, visible
from discreet.curator.settings import analyst_name, in_words, settings_of
from discreet.curator.stores import Row
from discreet.privacy import loss as losses
from discreet.privacy.budget import Budget, Spent


@dataclass(frozen=True)
class Entry:
    """A row, the budget that was in force, and whose total is shown."""

    row: Row
    budget: Budget
    own: bool

    @property
    def epsilon(self) -> float | None:
        """What this charge costs alone, at the budget's δ."""
        return _alone(self.row.loss, self.budget) if self.row.loss is not None else None

    @cached_property
    def total(self) -> float:
        """The running total: the account's, or the analyst's own."""
        return spent_epsilon(self.budget, Spent.from_json(self.row.own if self.own else self.row.total))

    def what(self, *, texts: bool) -> str:
        """What the row records, on one line; `texts`: with the text of the statement, where it was kept."""
        row = self.row
        if row.kind == "charge":
            return visible(" ".join(row.text.split())) if texts and row.text else (row.statement or "")[:16]
        if row.kind == "answer":
            return f"kept the answer of #{row.why}"
        why = f"; reason: {row.why}" if row.why else ""
        return visible(f"{'opened' if row.kind == 'open' else 'amended'}: {in_words(row.settings or '')}{why}")

    def to_json(self, *, texts: bool) -> dict[str, object]:
        """Plain values that JSON can hold."""
        row = self.row
        told: dict[str, object] = {"number": row.number, "kind": row.kind, "when": row.when, "who": row.who}
        told |= {} if row.clock is None else {"clock": row.clock}
        if row.kind == "answer":
            told |= {"charge": int(row.why or 0), "seal": row.statement}
        elif row.loss is None:
            told |= {"settings": json.loads(row.settings or "{}"), "why": row.why}
        else:
            cost = number(self.epsilon or 0.0)
            told |= {"statement": row.statement, "loss": json.loads(row.loss), "epsilon": cost}
            told |= {"text": row.text} if texts else {}
        return told | {"own_total" if self.own else "total": number(self.total), "hash": row.hash}


def entries_of(policy: Policy, ledger: Ledger, analyst: str | None) -> Iterator[Entry]:
    """All rows, or the charges of one analyst."""
    rows, _ = chain_of(ledger, policy.catalog.name)
    limit = policy.budget
    for row in rows:
        limit = settings_of(row.settings).budget if row.settings is not None else limit
        if analyst is None or (row.kind == "charge" and analyst_name(row.who) == analyst_name(analyst)):
            yield Entry(row, limit, analyst is not None)


def print_entries(entries: Sequence[Entry], *, own: bool, texts: bool) -> None:
    """A table of them; `own`: their totals are one analyst's."""
    cells = [("row", "when (UTC)", "who", "ε", "own total" if own else "total ε", "what")]
    for one in entries:
        when, cost = one.row.when[:19].replace("T", " "), "–" if one.epsilon is None else short(one.epsilon)
        who, what = visible(one.row.who) or "–", one.what(texts=texts)
        cells.append((str(one.row.number), when, who, cost, short(one.total), what))
    click.echo("\n".join(aligned(cells, right=(0, 3, 4))))


@lru_cache(maxsize=4096)
def _alone(loss: str, budget: Budget) -> float:
    return spent_epsilon(budget, Spent.by(losses.from_json(loss)))
