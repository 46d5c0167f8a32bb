"""What was spent of a budget, by whom, and what is left: read from the ledger's rows in one walk along the chain.

Everything here is public in the sense of the ledger: which questions were paid for depends on the analysts and on what
was released to them, never on a row that was not.

The ledger of a dataset in sum: its policy, the rows of its account, and what follows from them.

The rows of a ledger, for people and programs: what each cost, and the total after it.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from fractions import Fraction
from functools import cached_property, lru_cache
from html import escape
from itertools import accumulate, groupby, pairwise
from math import isfinite, isinf, nan
from typing import TYPE_CHECKING, Any

from discreet.curator.charges import largest_pure, own_totals, spent_epsilon
from discreet.curator.ledger import Ledger
from discreet.curator.policy import Policy
from discreet.curator.reports.answer_table import printable, text_width
from discreet.curator.settings import Settings, analyst_name, in_words, protection_of, same_settings, settings_of
from discreet.curator.stores import Chain, Head, Row
from discreet.errors import InvalidParameter, LedgerDamaged
from discreet.exact import float_up, plain, printed_down, printed_up, text_down, text_up
from discreet.privacy import loss as losses
from discreet.privacy.accounting import rdp
from discreet.privacy.budget import Budget, Spent
from discreet.privacy.loss import Loss

if TYPE_CHECKING:
    from discreet.report import Chart


@dataclass(frozen=True, slots=True)
class AnalystReport:
    """One analyst: what was spent, its share of all that was, and what is left of the cap, if there is one.

    `spent` is the ε at which the cap (without one: the budget of the dataset) would just allow the analyst's own
    releases, rounded up. `left` is what one pure release could still cost as far as the cap goes, rounded down.
    """

    analyst: str
    charges: int
    spent: float
    share: float
    cap: Budget | None
    left: float | None


@dataclass(frozen=True, slots=True)
class BudgetReport:
    """The budget of a dataset: granted, spent (rounded up), left (rounded down), and by whom.

    `spent` is the least ε at which the budget would allow what was charged, with its δ; `delta_spent` is the additive
    part of δ that is used up; `remaining` is the largest ε that one ε-DP release could still cost. With δ they need
    not add up to ε: small releases compose to less than their sum.

    >>> from discreet.curator.ledger import digest
    >>> from discreet.curator.stores.memory import MemoryStore
    >>> from discreet.privacy.loss import Pure
    >>> ledger = Ledger(MemoryStore())
    >>> ledger.open("clinic", Budget(epsilon=1), caps={"bob": Budget(epsilon="0.5")}, everyone=Budget(epsilon="0.8"))
    >>> _ = ledger.charge("clinic", analyst="ann", statement=digest("SELECT 1"), loss=Pure("0.7"))
    >>> report = budget_report(ledger, "clinic")
    >>> report.spent, report.remaining, [(row.analyst, row.left) for row in report.analysts]
    (0.7, 0.3, [('ann', 0.1), ('bob', 0.5)])
    """

    dataset: str
    epsilon: Fraction
    delta: Fraction
    delta_for_keys: Fraction
    spent: float
    delta_spent: Fraction
    remaining: float
    charges: int
    analysts: tuple[AnalystReport, ...]
    head: Head

    @property
    def used(self) -> float:
        """The spent part of ε, from 0 to 1; 1 also where more was spent than a lowered budget grants."""
        return min(1.0, self.spent / float_up(self.epsilon)) if isfinite(self.spent) else 1.0

    def to_json(self) -> dict[str, object]:
        """Plain values that JSON can hold; an ε without bound is the text "inf"."""
        return {
            "dataset": self.dataset,
            "epsilon": number(self.epsilon),
            "delta": number(self.delta),
            "delta_for_keys": number(self.delta_for_keys),
            "spent": number(self.spent),
            "delta_spent": number(self.delta_spent),
            "remaining": self.remaining,
            "charges": self.charges,
            "analysts": [_analyst_json(analyst) for analyst in self.analysts],
            "head": asdict(self.head),
        }

    def __str__(self) -> str:
        lines = [*_summary(self), _bar(self.used, 50).ljust(50, "·")]
        if self.analysts:
            cells = [_HEADINGS, *(_cells(analyst) for analyst in self.analysts)]
            lines += ["", *aligned(cells, right=(1, 2, 3, 5), tails=["", *(_bar(a.share, 20) for a in self.analysts)])]
        return "\n".join([*lines, "", f"{self.head.length} rows, the last is row {self.head.number}: {self.head.hash}"])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        rows = "".join(
            "<tr>"
            + "".join(f"<td>{escape(cell)}</td>" for cell in _cells(analyst))
            + f"<td>{_html_bar(analyst.share, 120)}</td>"
            for analyst in self.analysts
        )
        headings = "".join(f"<th>{escape(name)}</th>" for name in (*_HEADINGS, ""))
        table = f"<table><thead><tr>{headings}</tr></thead><tbody>{rows}</tbody></table>" if rows else ""
        summary = "".join(f"<div>{escape(line)}</div>" for line in _summary(self))
        head = f"<div><small>row {self.head.number}: <code>{escape(self.head.hash)}</code></small></div>"
        return f'<div class="discreet-budget">{summary}{_html_bar(self.used, 360)}{table}{head}</div>'


def budget_report(ledger: Ledger, account: str) -> BudgetReport:
    """What the ledger says about the account's budget, as of the last row of its chain.

    All of it is read in one walk, so it fits together even while charges go on; `LedgerDamaged` where a link of the
    chain is broken.
    """
    rows, head = chain_of(ledger, account)
    settings = settings_in(rows)
    budget = settings.budget
    total, charges = Spent.from_json(rows[-1].total), [row for row in rows if row.kind == "charge"]
    measure = _measure(budget, total)
    own, counts = own_totals(charges), Counter(analyst_name(row.who) for row in charges)
    analysts = []
    for who in sorted({*own, *settings.caps}):
        spent, limits = own.get(who, Spent()), (budget, settings.cap_of(who))
        analysts.append(_analyst(who, counts[who], spent, limits, measure(total), measure(spent)))
    return BudgetReport(
        account,
        budget.epsilon,
        budget.delta,
        budget.delta_for_keys,
        spent_epsilon(budget, total),
        total.delta,
        printed_down(largest_pure(budget, total)),
        len(charges),
        tuple(analysts),
        head,
    )


# The rows of an account


def chain_of(ledger: Ledger, account: str, *, until: str | None = None) -> tuple[list[Row], Head]:
    """The rows of an account up to a time (all, unless given) and the head of that chain; every link is checked."""
    chain, rows = Chain(), []
    for row in ledger.history(account):
        if until is not None and row.when > until:
            break
        try:
            chain.step(row, set())
        except LedgerDamaged as error:
            raise LedgerDamaged(f"row {row.number}: {error}; nothing is reported from a ledger like this") from None
        rows.append(row)
    if not rows:
        raise InvalidParameter("as_of", until, "a time after the account was opened")
    return rows, Head(account, chain.length, chain.number, chain.hash)


def settings_in(rows: Sequence[Row]) -> Settings:
    """The budget and the caps in force after these rows."""
    return settings_of(next(row.settings for row in reversed(rows) if row.settings is not None))


# Parts

_HEADINGS = ("analyst", "spent ε", "share", "charges", "cap", "left")
_EIGHTHS = "▏▎▍▌▋▊▉█"


def _analyst(
    who: str, charges: int, own: Spent, limits: tuple[Budget, Budget | None], whole: Fraction, measured: Fraction
) -> AnalystReport:
    budget, cap = limits
    share = float(measured / whole) if whole else 0.0
    left = None if cap is None else printed_down(largest_pure(cap, own))
    return AnalystReport(who, charges, spent_epsilon(cap or budget, own), share, cap, left)


def _measure(budget: Budget, total: Spent) -> Callable[[Spent], Fraction]:
    """The scale that decides what is spent (the plain sum, or one order): on one scale, analysts' parts add up."""
    scales: list[tuple[float, int]] = [(float_up(total.epsilon), -1)] if total.epsilon is not None else []
    for index, now in enumerate(total.renyi):
        if now is not None:
            alone = tuple(now if place == index else None for place in range(len(rdp.ORDERS)))
            scales.append((budget.epsilon_of(Spent(None, Fraction(0), alone)), index))
    _, best = min(scales, default=(0.0, -1))

    def measured(spent: Spent) -> Fraction:
        return Fraction((spent.epsilon if best < 0 else spent.renyi[best]) or 0)

    return measured


def _analyst_json(analyst: AnalystReport) -> dict[str, object]:
    cap = analyst.cap and {name: number(getattr(analyst.cap, name)) for name in ("epsilon", "delta", "delta_for_keys")}
    return {
        "analyst": analyst.analyst,
        "charges": analyst.charges,
        "spent": number(analyst.spent),
        "share": analyst.share,
        "cap": cap,
        "left": analyst.left,
    }


def _summary(report: BudgetReport) -> list[str]:
    limit = plain(report.epsilon) + (f" (at δ {plain(report.delta)})" if report.delta else "")
    charges = "1 charge" if report.charges == 1 else f"{report.charges} charges"
    lines = [f"{printable(report.dataset)}: ε {short(report.spent)} of {limit} spent, in {charges}"]
    if report.delta_for_keys or report.delta_spent:
        of_keys = f"{short(report.delta_spent)} of {short(report.delta_for_keys)}"
        lines.append(f"δ for naming groups and other additive δ: {of_keys} spent")
    left = f"up to ε {short(report.remaining, up=False)} more" if report.remaining else "nothing more"
    return [*lines, f"one pure release may cost {left}"]


def _cells(analyst: AnalystReport) -> tuple[str, ...]:
    cap = "–" if analyst.cap is None else analyst.cap.describe_limit()
    left = "–" if analyst.left is None else short(analyst.left, up=False)
    return printable(analyst.analyst), short(analyst.spent), f"{analyst.share:.0%}", str(analyst.charges), cap, left


def _bar(share: float, width: int) -> str:
    eighths = round(min(max(share, 0.0), 1.0) * width * 8)
    return "█" * (eighths // 8) + (_EIGHTHS[eighths % 8 - 1] if eighths % 8 else "")


def _html_bar(share: float, width: int) -> str:
    filled = round(min(max(share, 0.0), 1.0) * width)
    inner = f'<div style="background:#3b6ea5;height:10px;width:{filled}px"></div>'
    return f'<div style="background:#ddd;width:{width}px">{inner}</div>'


# Numbers and names for people


def number(value: Fraction | float) -> int | float | str:
    """A number that JSON can hold, not below the value as it prints; without bound: "inf".

    >>> number(Fraction(3, 10)), number(Fraction(2)), number(float("inf"))
    (0.3, 2, 'inf')
    """
    if isinstance(value, float):
        return value if isfinite(value) else str(value)
    return int(value) if value.denominator == 1 else number(printed_up(value))


def short(value: Fraction | float, *, up: bool = True) -> str:
    """A number of at most 6 digits, rounded up (what is spent) or down (what is left).

    >>> short(0.3), short(2 / 3), short(2 / 3, up=False), short(float("inf"))
    ('0.3', '0.666667', '0.666666', 'without bound')
    """
    if isinstance(value, float) and isinf(value):
        return "without bound"
    exact = Fraction(repr(value)) if isinstance(value, float) else value
    if exact <= 0:
        return "0"
    return text_up(exact) if up else text_down(exact)


def aligned(rows: Sequence[Sequence[str]], *, right: Sequence[int] = (), tails: Sequence[str] = ()) -> list[str]:
    """Rows of cells as lines whose columns stand below each other, also where characters are wide.

    >>> aligned([("a", "1"), ("bb", "10")], right=[1])
    ['a    1', 'bb  10']
    """
    widths = [max(map(text_width, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row, tail in zip(rows, tails or [""] * len(rows), strict=True):
        gaps = [" " * (width - text_width(cell)) for cell, width in zip(row, widths, strict=True)]
        cells = [
            gap + cell if at in right else cell + gap for at, (cell, gap) in enumerate(zip(row, gaps, strict=True))
        ]
        lines.append("  ".join([*cells, tail]).rstrip())
    return lines


@dataclass(frozen=True)
class Entry:
    """A row, the budget that was in force, whose total is shown, and whether the row changed the settings."""

    row: Row
    budget: Budget
    own: bool
    changes: bool = True

    @property
    def epsilon(self) -> float | None:
        """What this charge costs alone, at the budget's δ."""
        return _alone(self.row.loss, self.budget) if self.row.loss is not None else None

    @property
    def loss(self) -> Loss | None:
        """What was charged."""
        return None if self.row.loss is None else losses.from_json(self.row.loss)

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
            return f"cached the answer to #{row.why}"
        if not self.changes:  # a token was made or revoked
            return printable(row.why or "")
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
    limit, settings = policy.budget, ""
    for row in rows:
        limit = settings_of(row.settings).budget if row.settings is not None else limit
        changes = row.kind != "amend" or not row.why or not same_settings(row.settings or "", settings)
        settings = row.settings if row.settings is not None else settings
        if analyst is None or (row.kind == "charge" and analyst_name(row.who) == analyst_name(analyst)):
            yield Entry(row, limit, analyst is not None, changes)


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
    """The total over time, as the ledger's clock has it, and the budget that was in force."""
    from discreet.report import Chart, Line
    from discreet.report.calendar_axis import time_axis

    clock = accumulate((datetime.fromisoformat(entry.row.when) for entry in entries), max)  # which may have gone back
    when, ticks = time_axis(list(clock))
    spent = Line(when, [_drawable(entry.total) for entry in entries], "spent", steps=True)
    limit = Line(when, [_drawable(entry.budget.epsilon) for entry in entries], "budget", steps=True, dashed=True)
    return Chart("What was spent", [spent, limit], x="time (UTC)", y="ε", x_ticks=ticks)


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
        """Every budget that was in force, in order: each differs from the one before."""
        granted = [settings_of(row.settings).budget for row in self.rows if row.settings is not None]
        return [budget for budget, _ in groupby(granted)]

    @cached_property
    def charges(self) -> list[Row]:
        """Every row that is a charge."""
        return [row for row in self.rows if row.kind == "charge"]

    @property
    def amendments(self) -> list[Row]:
        """Every row that changed the settings; other acts of the owner, such as a token made, repeat those in force."""
        stated = [row for row in self.rows if row.settings is not None]
        return [row for last, row in pairwise(stated) if _in_force(row) != _in_force(last)]

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


def _in_force(row: Row) -> tuple[Settings, str]:
    return settings_of(row.settings or ""), protection_of(row.settings or "")


def _parts(loss: Loss) -> Iterator[Loss]:
    """A loss and all losses inside it."""
    yield loss
    match loss:
        case losses.Repeated():
            yield from _parts(loss.loss)
        case losses.Together() | losses.Parallel():
            for part in loss.losses:
                yield from _parts(part)
