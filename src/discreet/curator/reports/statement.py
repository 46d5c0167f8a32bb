"""The privacy statement that an owner can publish: what is promised, to whom, at what ε and δ, and what is not.

It answers the questions of NIST SP 800-226, "Guidelines for Evaluating Differential Privacy Guarantees" (Near, Darais,
Lefkovitz, Howarth, 2025), from two sources only: the policy, which is public, and the ledger, whose rows depend on the
analysts and on what was released to them. No private row is read, so publishing a statement costs nothing.
The same policy and the same rows give the same statement: it is dated by the ledger, not by a clock.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, time
from fractions import Fraction
from math import isfinite
from typing import Any

from discreet.curator.catalog import Column
from discreet.curator.charges import spent_epsilon
from discreet.curator.ledger import Ledger
from discreet.curator.policy import Policy
from discreet.curator.reports import statement_sections as about
from discreet.curator.reports.budget_report import chain_of, number
from discreet.curator.reports.ledger_summary import LedgerSummary
from discreet.curator.reports.statement_sections import SOURCE, Section, literal, odds, win
from discreet.curator.settings import settings_of
from discreet.curator.stores import Row, utc
from discreet.errors import InvalidParameter
from discreet.privacy import loss as losses
from discreet.privacy.budget import Budget


@dataclass(frozen=True, slots=True)
class Statement:
    """A privacy statement: `facts` for programs, `sections` for people."""

    dataset: str
    as_of: str
    facts: Mapping[str, Any]
    sections: tuple[Section, ...]

    def to_json(self) -> dict[str, object]:
        """Plain values that JSON can hold: the facts, and the words beside them."""
        sections = [
            {"question": section.question, "paragraphs": list(section.paragraphs), "points": list(section.points)}
            for section in self.sections
        ]
        return {"dataset": self.dataset, "as_of": self.as_of, "facts": dict(self.facts), "sections": sections}

    def to_markdown(self) -> str:
        """The statement as a page."""
        blocks = [
            f"# Privacy statement: {literal(self.dataset)}",
            f"As of {self.as_of}. The questions are those of {SOURCE}.",
        ]
        for section in self.sections:
            blocks += [f"## {section.question}", *section.paragraphs]
            blocks += ["\n".join(f"- {point}" for point in section.points)] if section.points else []
        return "\n\n".join(blocks) + "\n"


def privacy_statement(
    policy: Policy,
    ledger: Ledger,
    *,
    as_of: date | datetime | None = None,
    names: bool = False,
    texts: bool = False,
) -> Statement:
    """The statement for the policy's dataset, from the rows of its account up to `as_of` (a day, or a moment).

    Analysts are numbered, and what they asked is not told, unless `names` and `texts` ask for it.

    >>> from discreet.curator.policy import parse_policy
    >>> from discreet.curator.stores.memory import MemoryStore
    >>> policy = parse_policy('''
    ... dataset = {name = "census", neighbors = "change one"}
    ... budget = {epsilon = "1", everyone = "all"}
    ... tables.people = {source = "people.csv", unit = "row", columns.age = {type = "integer", lower = 0, upper = 120}}
    ... ''')
    >>> ledger = Ledger(MemoryStore())
    >>> ledger.open("census", policy.budget)
    >>> print(privacy_statement(policy, ledger).to_markdown().splitlines()[0])
    # Privacy statement: census
    """
    rows, head = chain_of(ledger, policy.catalog.name, until=_moment(as_of))
    summary = LedgerSummary(policy, rows, head, names, texts)
    sections = (
        about.who(summary),
        about.change(summary),
        about.trust(),
        about.parameters(summary),
        about.releases(summary),
        about.mechanisms(summary),
        about.bounds(summary),
        about.public(summary),
        about.not_promised(summary),
        about.amendments(summary),
        about.check(summary),
    )
    return Statement(policy.catalog.name, _moment(as_of) or rows[-1].when, _facts(summary), sections)


def _moment(as_of: date | datetime | None) -> str | None:
    match as_of:
        case None:
            return None
        case datetime():
            return utc(as_of)
        case date():
            return utc(datetime.combine(as_of, time.max, UTC))
        case _:
            raise InvalidParameter("as_of", as_of, "a date, a time with its time zone, or None")


# The same, for programs


def _facts(summary: LedgerSummary) -> dict[str, Any]:
    catalog, budget, spent = summary.policy.catalog, summary.budget, spent_epsilon(summary.budget, summary.total)
    charges = summary.charges
    private = [table for table in catalog.tables.values() if table.private]
    return {
        "guidelines": SOURCE,
        "protects": {table.name: str(table.unit) for table in private},
        "neighbors": str(catalog.neighbors),
        "trust": "central",
        "granted": _limits(budget) | _figures(budget.epsilon, budget.delta),
        "spent": {"epsilon": number(spent), "additive_delta": number(summary.total.delta)}
        | (_figures(Fraction(repr(spent)), budget.delta) if isfinite(spent) else {}),
        "policy_budget_in_force": summary.policy.budget == budget,
        "releases": {
            "charges": len(charges),
            "first": charges[0].when if charges else None,
            "last": charges[-1].when if charges else None,
            "analysts": summary.by_analyst(),
        }
        | ({"statements": [_statement(row) for row in charges]} if summary.texts else {}),
        "mechanisms": {json.loads(losses.to_json(loss))["kind"]: count for loss, count in summary.kinds()},
        "contributions": {t.name: {name: getattr(t, name, None) for name in ("groups", "rows")} for t in private},
        "clamped": {
            table.name: {
                column.name: _ends(column)
                for column in table.columns
                if column.lower is not None or column.earliest is not None
            }
            for table in private
        },
        "csv": {name: asdict(fmt) for name, fmt in summary.policy.formats.items() if catalog.table(name).private},
        "least_epsilon": number(summary.policy.least_epsilon),
        "time_floor": number(summary.policy.time_floor),
        "public_tables": [table.name for table in catalog.tables.values() if not table.private],
        "amendments": [_amendment(summary, row) for row in summary.amendments],
        "head": asdict(summary.head),
    }


def _figures(epsilon: Fraction, delta: Fraction) -> dict[str, object]:
    factor = odds(epsilon)
    return {"odds_factor": None if factor is None else number(factor), "guess": number(win(epsilon, delta))}


def _ends(column: Column) -> list[object]:
    if column.lower is not None and column.upper is not None:
        return [number(column.lower), number(column.upper)]
    return [str(column.earliest), str(column.latest)]


def _limits(budget: Budget) -> dict[str, object]:
    return {name: number(getattr(budget, name)) for name in ("epsilon", "delta", "delta_for_keys")}


def _amendment(summary: LedgerSummary, row: Row) -> dict[str, object]:
    budget = settings_of(row.settings or "").budget
    by = {"by": row.who} if summary.names else {}
    return {"row": row.number, "when": row.when, "budget": _limits(budget), "why": row.why} | by


def _statement(row: Row) -> dict[str, object]:
    return {"row": row.number, "when": row.when, "statement": row.statement, "text": row.text}
