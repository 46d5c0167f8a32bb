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
from unicodedata import combining, east_asian_width

from discreet.curator.charges import own_totals
from discreet.curator.ledger import Ledger
from discreet.curator.settings import Settings, analyst_name, settings_of
from discreet.curator.stores import Chain, Head, Row
from discreet.errors import InvalidParameter, LedgerDamaged
from discreet.exact import float_up, plain, printed_down, printed_up, text_down, text_up
from discreet.privacy.accounting import rdp
from discreet.privacy.accounting.rounding import crossing, decimal_down, decimal_up
from discreet.privacy.budget import Budget, Spent
from discreet.privacy.loss import Pure


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
    >>> ledger = Ledger(MemoryStore())
    >>> ledger.open("clinic", Budget(epsilon=1), caps={"bob": Budget(epsilon="0.5")}, everyone=Budget(epsilon="0.8"))
    >>> _ = ledger.charge("clinic", analyst="ann", statement=digest("SELECT 1"), loss=Pure("0.7"))
    >>> report = budget_report(ledger, "clinic")
    >>> report.spent, report.remaining, [(one.analyst, one.left) for one in report.analysts]
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
            "analysts": [_analyst_json(one) for one in self.analysts],
            "head": asdict(self.head),
        }

    def __str__(self) -> str:
        lines = [*_summary(self), _bar(self.used, 50).ljust(50, "·")]
        if self.analysts:
            cells = [_HEADINGS, *(_cells(one) for one in self.analysts)]
            lines += ["", *aligned(cells, right=(1, 2, 3, 5), tails=["", *(_bar(a.share, 20) for a in self.analysts)])]
        return "\n".join([*lines, "", f"{self.head.length} rows, the last is row {self.head.number}: {self.head.hash}"])

    def _repr_html_(self) -> str:
        rows = "".join(
            "<tr>"
            + "".join(f"<td>{escape(cell)}</td>" for cell in _cells(one))
            + f"<td>{_html_bar(one.share, 120)}</td>"
            for one in self.analysts
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
        down(largest_pure(budget, total)),
        len(charges),
        tuple(analysts),
        head,
    )


def largest_pure(budget: Budget, spent: Spent) -> Fraction:
    """The largest ε that one more ε-DP release could cost, rounded down; 0 where nothing is left.

    Guarantee: where the result is above 0, the budget allows these totals plus `Pure(result)`.
    Proof. Every value but 0 that is returned was tried with `Budget.allows`.

    Exact where the plain sum decides. Where Rényi totals do, found by bisection to 10 digits (each total grows with ε,
    so what is allowed is an interval from 0); there, less than a billionth of the budget counts as nothing.

    >>> largest_pure(Budget(epsilon=1), Spent.by(Pure("0.7")))
    Fraction(3, 10)
    """
    room = Fraction(0) if spent.epsilon is None else max(budget.epsilon - spent.epsilon, Fraction(0))
    exact = room if room and _allowed(budget, spent, room) else Fraction(0)
    if budget.delta == budget.delta_for_keys and exact == room:
        return exact  # there are no Rényi totals to ask
    low = _last_allowed(budget, spent, max(exact, budget.epsilon / _BILLION) * (1 + 1 / _BILLION))
    rounded = decimal_down(low, 10) if low else low
    return next((found for found in (rounded, low) if found > exact and _allowed(budget, spent, found)), exact)


def spent_epsilon(budget: Budget, spent: Spent) -> float:
    """`Budget.epsilon_of`, rounded up as it prints: a plain sum of three tenths is 0.3.

    >>> spent_epsilon(Budget(epsilon=1), Spent.by(Pure("0.1")).plus(Pure("0.2")))
    0.3
    """
    least = budget.epsilon_of(spent)
    if isinf(least):
        return least
    decided_by_sum = spent.epsilon is not None and float_up(spent.epsilon) == least
    return printed_up(spent.epsilon if decided_by_sum and spent.epsilon is not None else Fraction(least))


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

_BILLION = Fraction(10**9)
_FAR = Fraction(10**100)
_HEADINGS = ("analyst", "spent ε", "share", "charges", "cap", "left")
_EIGHTHS = "▏▎▍▌▋▊▉█"


def _last_allowed(budget: Budget, spent: Spent, low: Fraction) -> Fraction:
    """The end of the interval of allowed ε's, to 10 digits and from below; 0 where even `low` is not in it.

    A root of `epsilon_of` says where to look, and halving with `allows` decides: a bad guess costs time, nothing else.
    """
    if not _allowed(budget, spent, low):
        return Fraction(0)
    high = max(budget.epsilon, 2 * low)
    while _allowed(budget, spent, high) and high < _FAR:
        low, high = high, 2 * high
    guesses = _guesses(budget, spent, low, high)
    while high - low > low / 10**10:
        guess = guesses.pop() if guesses else decimal_up((low + high) / 2, 30)
        if low < guess < high:
            low, high = (guess, high) if _allowed(budget, spent, guess) else (low, guess)
    return low


def _allowed(budget: Budget, spent: Spent, epsilon: Fraction) -> bool:
    return budget.allows(spent.plus(Pure(epsilon)))


def _guesses(budget: Budget, spent: Spent, low: Fraction, high: Fraction) -> list[Fraction]:
    """A value close below the end of what is allowed, and one close above."""
    if high >= _FAR:
        return []
    limit = float(budget.epsilon)
    near, _ = crossing(
        lambda x: budget.epsilon_of(spent.plus(Pure(Fraction(x)))) - limit, float(low), float(high), relative=1e-11
    )
    return [Fraction(near) * (1 + side / _BILLION / 20) for side in (-1, 1)]


def _analyst(
    who: str, charges: int, own: Spent, limits: tuple[Budget, Budget | None], whole: Fraction, measured: Fraction
) -> AnalystReport:
    budget, cap = limits
    share = float(measured / whole) if whole else 0.0
    left = None if cap is None else down(largest_pure(cap, own))
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


def _analyst_json(one: AnalystReport) -> dict[str, object]:
    cap = one.cap and {name: number(getattr(one.cap, name)) for name in ("epsilon", "delta", "delta_for_keys")}
    return {
        "analyst": one.analyst,
        "charges": one.charges,
        "spent": number(one.spent),
        "share": one.share,
        "cap": cap,
        "left": one.left,
    }


def _summary(report: BudgetReport) -> list[str]:
    limit = plain(report.epsilon) + (f" (at δ {plain(report.delta)})" if report.delta else "")
    charges = "1 charge" if report.charges == 1 else f"{report.charges} charges"
    lines = [f"{visible(report.dataset)}: ε {short(report.spent)} of {limit} spent, in {charges}"]
    if report.delta_for_keys or report.delta_spent:
        of_keys = f"{short(report.delta_spent)} of {short(report.delta_for_keys)}"
        lines.append(f"δ for naming groups and other additive δ: {of_keys} spent")
    left = f"up to ε {short(report.remaining, up=False)} more" if report.remaining else "nothing more"
    return [*lines, f"one pure release may cost {left}"]


def _cells(one: AnalystReport) -> tuple[str, ...]:
    cap = "–" if one.cap is None else one.cap.describe_limit()
    left = "–" if one.left is None else short(one.left, up=False)
    return visible(one.analyst), short(one.spent), f"{one.share:.0%}", str(one.charges), cap, left


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


def down(value: Fraction) -> float:
    """The largest float that is not above the value as it prints.

    >>> down(Fraction(3, 10)), down(Fraction(1, 3))
    (0.3, 0.3333333333333333)
    """
    return printed_down(value)


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


def visible(name: str) -> str:
    """A name that cannot steer a terminal: what does not print is written out.

    >>> visible("Zoë"), visible("a\\x1b[2Jb")
    ('Zoë', 'a\\\\x1b[2Jb')
    """
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in name)


def aligned(rows: Sequence[Sequence[str]], *, right: Sequence[int] = (), tails: Sequence[str] = ()) -> list[str]:
    """Rows of cells as lines whose columns stand below each other, also where characters are wide.

    >>> aligned([("a", "1"), ("bb", "10")], right=[1])
    ['a    1', 'bb  10']
    """
    widths = [max(map(_width, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row, tail in zip(rows, tails or [""] * len(rows), strict=True):
        gaps = [" " * (width - _width(cell)) for cell, width in zip(row, widths, strict=True)]
        cells = [
            gap + cell if at in right else cell + gap for at, (cell, gap) in enumerate(zip(row, gaps, strict=True))
        ]
        lines.append("  ".join([*cells, tail]).rstrip())
    return lines


def _width(text: str) -> int:
    return sum(0 if combining(one) else 2 if east_asian_width(one) in "WF" else 1 for one in text)
