"""What was spent of a budget, by whom, and what is left: read from the ledger's rows in one walk along the chain.

Everything here is public in the sense of the ledger: which questions were paid for depends on the analysts and on what
was released to them, never on a row that was not.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from html import escape
from math import isfinite, isinf

from discreet.curator.charges import largest_pure, own_totals, spent_epsilon
from discreet.curator.ledger import Ledger
from discreet.curator.reports.answer_table import printable, text_width
from discreet.curator.settings import Settings, analyst_name, settings_of
from discreet.curator.stores import Chain, Head, Row
from discreet.errors import InvalidParameter, LedgerDamaged
from discreet.exact import float_up, plain, printed_down, printed_up, text_down, text_up
from discreet.privacy.accounting import rdp
from discreet.privacy.budget import Budget, Spent


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
