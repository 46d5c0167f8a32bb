"""The rows of a ledger, for people and programs: what each cost, and the total after it."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from math import nan
from typing import TYPE_CHECKING, Any

from discreet.curator.charges import own_totals, spent_epsilon
from discreet.curator.ledger import Ledger
from discreet.curator.policy import Policy
from discreet.curator.reports.answer_table import printable
from discreet.curator.reports.budget_report import (
    BudgetReport,
    aligned,
    chain_of,
    number,
    settings_in,
    short,
)
from discreet.curator.settings import analyst_name, in_words, settings_of
from discreet.curator.stores import Head, Row
from discreet.exact import float_up
from discreet.privacy import loss as losses
from discreet.privacy.budget import Budget, Spent
from discreet.privacy.loss import Loss

if TYPE_CHECKING:
    from discreet.report import Chart


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
            return printable(" ".join(row.text.split())) if texts and row.text else (row.statement or "")[:16]
        if row.kind == "answer":
            return f"kept the answer of #{row.why}"
        why = f"; reason: {row.why}" if row.why else ""
        return printable(f"{'opened' if row.kind == 'open' else 'amended'}: {in_words(row.settings or '')}{why}")

    def to_json(self, *, texts: bool) -> dict[str, object]:
        """Plain values that JSON can hold."""
        row = self.row
        facts: dict[str, object] = {"number": row.number, "kind": row.kind, "when": row.when, "who": row.who}
        facts |= {} if row.clock is None else {"clock": row.clock}
        if row.kind == "answer":
            facts |= {"charge": int(row.why or 0), "seal": row.statement}
        elif row.loss is None:
            facts |= {"settings": json.loads(row.settings or "{}"), "why": row.why}
        else:
            cost = number(self.epsilon or 0.0)
            facts |= {"statement": row.statement, "loss": json.loads(row.loss), "epsilon": cost}
            facts |= {"text": row.text} if texts else {}
        return facts | {"own_total" if self.own else "total": number(self.total), "hash": row.hash}


def entries_of(policy: Policy, ledger: Ledger, analyst: str | None) -> Iterator[Entry]:
    """All rows, or the charges of one analyst."""
    rows, _ = chain_of(ledger, policy.catalog.name)
    limit = policy.budget
    for row in rows:
        limit = settings_of(row.settings).budget if row.settings is not None else limit
        if analyst is None or (row.kind == "charge" and analyst_name(row.who) == analyst_name(analyst)):
            yield Entry(row, limit, analyst is not None)


def entries_text(entries: Sequence[Entry], *, own: bool, texts: bool) -> str:
    """A table of them; `own`: their totals are one analyst's."""
    cells = [("row", "when (UTC)", "who", "ε", "own total" if own else "total ε", "what")]
    for entry in entries:
        when, cost = entry.row.when[:19].replace("T", " "), "–" if entry.epsilon is None else short(entry.epsilon)
        who, what = printable(entry.row.who) or "–", entry.what(texts=texts)
        cells.append((str(entry.row.number), when, who, cost, short(entry.total), what))
    return "\n".join(aligned(cells, right=(0, 3, 4)))


@lru_cache(maxsize=4096)
def _alone(loss: str, budget: Budget) -> float:
    return spent_epsilon(budget, Spent.by(losses.from_json(loss)))


_MOST = 30  # analysts in a chart


def spending_chart(entries: Sequence[Entry]) -> "Chart":
    """The total after each row, and the budget that was in force."""
    from discreet.report import Chart, Line

    rows = range(len(entries))
    spent = Line(rows, [_drawable(entry.total) for entry in entries], "spent", steps=True)
    limit = Line(rows, [_drawable(entry.budget.epsilon) for entry in entries], "budget", steps=True, dashed=True)
    return Chart("What was spent", [spent, limit], x="rows of the ledger, in order", y="ε")


def budget_chart(report: BudgetReport) -> "Chart":
    """A bar for everybody together and one for each analyst (the greatest spenders), with limits as ticks."""
    from discreet.report import Bars, Chart

    greatest = sorted(report.analysts, key=lambda analyst: analyst.spent, reverse=True)[:_MOST]
    names = ["everybody", *(printable(analyst.analyst)[:40] for analyst in greatest)]
    spent = [_drawable(report.spent), *(_drawable(analyst.spent) for analyst in greatest)]
    caps = [report.epsilon, *(analyst.cap.epsilon if analyst.cap else None for analyst in greatest)]
    limits = [nan if cap is None else _drawable(cap) for cap in caps]
    return Chart("What was spent, by whom", [Bars(names, spent, limits=limits)], y="ε; a red tick is the limit")


def _drawable(value: Fraction | float) -> float:
    """A number on an axis; what has no place on one is left out."""
    near = float_up(value) if isinstance(value, Fraction) else value
    return near if near < 1e100 else nan


@dataclass(frozen=True)
class LedgerSummary:
    """A policy and the rows of its account. `names`, `texts`: whether analysts, and what they asked, may be told."""

    policy: Policy
    rows: Sequence[Row]
    head: Head
    names: bool
    texts: bool

    @cached_property
    def budget(self) -> Budget:
        """The budget in force."""
        return settings_in(self.rows)[0]

    @cached_property
    def grants(self) -> list[Budget]:
        """Every budget that was in force, in order."""
        return [settings_of(row.settings).budget for row in self.rows if row.settings is not None]

    @cached_property
    def charges(self) -> list[Row]:
        """Every row that is a charge."""
        return [row for row in self.rows if row.kind == "charge"]

    @property
    def amendments(self) -> list[Row]:
        """Every row that changed the settings."""
        return [row for row in self.rows if row.kind == "amend"]

    @cached_property
    def total(self) -> Spent:
        """What was spent in all."""
        return Spent.from_json(self.rows[-1].total)

    def analysts(self) -> dict[str, str]:
        """Analysts in the order of their first charge, and what they are called here."""
        everybody = dict.fromkeys(analyst_name(row.who) for row in self.charges)
        return {who: who if self.names else f"analyst {place}" for place, who in enumerate(everybody, 1)}

    def by_analyst(self) -> list[dict[str, Any]]:
        """For each analyst, as called here: how many charges, and their ε taken alone."""
        own, counts = own_totals(self.charges), Counter(analyst_name(row.who) for row in self.charges)
        return [
            {
                "analyst": called,
                "charges": counts[who],
                "epsilon": number(spent_epsilon(self.budget, own[who])),
            }
            for who, called in self.analysts().items()
        ]

    def kinds(self) -> list[tuple[Loss, int]]:
        """One loss of each kind that occurs, and in how many charges, the most frequent first."""
        counts: Counter[type[Loss]] = Counter()
        examples: dict[type[Loss], Loss] = {}
        for text, count in Counter(row.loss or "" for row in self.charges).items():
            parts = {type(part): part for part in _parts(losses.from_json(text))}
            counts.update(dict.fromkeys(parts, count))
            examples |= parts
        return [(examples[kind], count) for kind, count in counts.most_common()]


def _parts(loss: Loss) -> Iterator[Loss]:
    """A loss and all losses inside it."""
    yield loss
    match loss:
        case losses.Repeated():
            yield from _parts(loss.loss)
        case losses.Together() | losses.Parallel():
            for part in loss.losses:
                yield from _parts(part)
