"""The questions that a privacy statement answers, one function each: those of NIST SP 800-226.

The privacy statement that an owner can publish: what is promised, to whom, at what ε and δ, and what is not.

It answers the questions of NIST SP 800-226, "Guidelines for Evaluating Differential Privacy Guarantees" (Near, Darais,
Lefkovitz, Howarth, 2025), from two sources only: the policy, which is public, and the ledger, whose rows depend on the
analysts and on what was released to them. No private row is read, so publishing a statement costs nothing.
The same policy and the same rows give the same statement: it is dated by the ledger, not by a clock.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, time
from fractions import Fraction
from math import isfinite
from typing import Any, assert_never

from discreet.curator.catalog import Column
from discreet.curator.charges import spent_epsilon
from discreet.curator.engines.csv_files import RULE
from discreet.curator.ledger import Ledger
from discreet.curator.policy import Policy, timing
from discreet.curator.reports.answer_table import printable
from discreet.curator.reports.budget_report import LedgerSummary, chain_of, number, settings_in, short
from discreet.curator.settings import in_words, settings_of
from discreet.curator.stores import Row, utc
from discreet.errors import InvalidParameter
from discreet.exact import exp_up
from discreet.privacy import loss as losses
from discreet.privacy.budget import Budget
from discreet.privacy.loss import Loss
from discreet.privacy.unit import Neighbors

SOURCE = "NIST SP 800-226 (Near, Darais, Lefkovitz, Howarth 2025)"


@dataclass(frozen=True, slots=True)
class Section:
    """One question and its answer: paragraphs, then points."""

    question: str
    paragraphs: tuple[str, ...]
    points: tuple[str, ...] = ()


def who(summary: LedgerSummary) -> Section:
    """The unit of privacy, table by table."""
    points = []
    for table in summary.policy.catalog.tables.values():
        if table.unit is None:
            continue
        unit = (
            "one row; a person with several rows is protected for each row alone"
            if table.unit.key is None
            else f"one person, that is all rows with the same {literal(table.unit.key)}"
        )
        points.append(f"Table {literal(table.name)}: {unit}.")
    return Section("Who is protected?", ("The unit of privacy is:",), tuple(points))


def change(summary: LedgerSummary) -> Section:
    """Which datasets are neighbors, and what is promised for every two of them."""
    neighbors = {
        Neighbors.ADD_OR_REMOVE_ONE: "Two datasets are neighbors if adding or removing one unit turns one into the "
        "other. So even whether somebody is in the data at all is hidden.",
        Neighbors.CHANGE_ONE: "Two datasets are neighbors if changing the data of one unit turns one into the other. "
        "So somebody's data are hidden, but not that they are in the dataset: how many units there are is public.",
    }[summary.policy.catalog.neighbors]
    promise = (
        "For any two neighbors, whatever is released is almost as likely from one as from the other: "
        "Pr[M(x) ∈ S] ≤ e^ε·Pr[M(x′) ∈ S] + δ for every set S of outcomes (Dwork, McSherry, Nissim, Smith 2006; with "
        "δ: Dwork, Kenthapadi, McSherry, Mironov, Naor 2006). This holds whatever else an attacker knows or will learn."
    )
    return Section("Against which change?", (neighbors, promise))


def trust() -> Section:
    """The central model, in words."""
    text = (
        "The model is central: a curator, a program on the owner's machine, reads the raw rows and releases noisy "
        "answers. The owner, everybody with access to that machine, to the source files or to their backups, and the "
        "software itself must be trusted. Analysts and readers need not be: they may collude, and choose each question "
        "after seeing the answers before it. The budget belongs to the dataset, not to an analyst."
    )
    return Section("Who must be trusted?", (text,))


def parameters(summary: LedgerSummary) -> Section:
    """ε and δ: granted, spent, and what they mean."""
    budget, spent = summary.budget, spent_epsilon(summary.budget, summary.total)
    granted = f"Granted for everything that is ever released: {budget.describe_limit()}."
    if budget.delta_for_keys:
        granted += f" Of δ, {short(budget.delta_for_keys)} is for additive costs, such as naming groups from the data."
    highest = max(summary.grants, key=lambda grant: (grant.epsilon, grant.delta))
    if highest != budget:
        granted += f" A greater budget, {highest.describe_limit()}, was in force before: see the amendments."
    so_far = f"Spent so far: ε {short(spent)}" if isfinite(spent) else "Spent so far: no finite ε"
    so_far += f", and additive δ {short(summary.total.delta)}." if summary.total.delta else "."
    meter = (
        "The granted ε is the guarantee. The spent ε is a meter: the least ε at which the accounting would have "
        "allowed these releases, rounded up. Since questions may depend on earlier answers, only an ε fixed in "
        "advance, the granted one, is proven for all of them (Rogers, Roth, Ullman, Vadhan 2016)."
    )
    points = [f"At the granted ε: {_meaning(budget.epsilon, budget.delta)}"]
    if summary.charges and isfinite(spent):
        points.append(f"At the spent ε: {_meaning(Fraction(repr(spent)), budget.delta)}")
    sources = (
        "Odds: e^ε, by Bayes' rule (Dwork, McSherry, Nissim, Smith 2006; with δ they hold except on rare outcomes: "
        "Kasiviswanathan, Smith 2014). Guesses: (e^ε + δ)/(1 + e^ε) (Kairouz, Oh, Viswanath 2015, Theorem 2.1)."
    )
    if len(summary.grants) > 1:
        meter += (
            " The budget was changed in between: the proof covers the one now in force only as far as the change did "
            "not depend on answers."
        )
    paragraphs = [f"{granted} {_caps(summary)}", so_far, meter, sources]
    if summary.policy.budget != budget:
        stated = summary.policy.budget.describe_limit()
        paragraphs.insert(1, f"The policy file states another budget, {stated}, which is not in force in the ledger.")
    return Section("How much may be learned, and how much was?", tuple(paragraphs), tuple(points))


def releases(summary: LedgerSummary) -> Section:
    """How many charges, by how many analysts, and when."""
    charges, analysts = summary.charges, summary.analysts()
    if not charges:
        return Section("Over which releases?", ("Nothing has been released.",))
    text = (
        f"{_count(len(charges), 'charge')} by {_count(len(analysts), 'analyst')}, from {charges[0].when[:10]} to "
        f"{charges[-1].when[:10]}. A charge is made before data are read, so it counts even if it produced no "
        "answer; returning a cached answer is not charged again."
    )
    points = [
        f"{literal(row['analyst'])}: {_count(row['charges'], 'charge')}, ε {short(float(row['epsilon']))} taken alone."
        for row in summary.by_analyst()
    ]
    if summary.texts:
        points += [
            f"Row {row.number}, {row.when[:10]}: {code(row.text or f'no text kept; SHA-256 {row.statement}')}"
            for row in charges
        ]
    return Section("Over which releases?", (text,), tuple(points))


def mechanisms(summary: LedgerSummary) -> Section:
    """How releases are composed, how noise is drawn, and which kinds of losses were charged."""
    composed = (
        "Releases were composed by a privacy filter, which refuses what would exceed the limit: pure ε's add up "
        "(Rogers, Roth, Ullman, Vadhan 2016)."
        if not summary.budget.delta
        else "Releases were composed by a privacy filter, which refuses what would exceed the limit: the sum of "
        "pure ε's (Rogers, Roth, Ullman, Vadhan 2016), or Rényi totals over fixed orders (Feldman, Zrnic 2021) that "
        "share δ among them and are converted to (ε, δ) by Canonne, Kamath, Steinke 2020, Proposition 12; additive δ's "
        "are summed separately (Whitehouse, Ramdas, Rogers, Wu 2023)."
    )
    exact = (
        "Noise is exact: whole numbers of steps on a fixed grid, drawn without floating-point rounding from a "
        "cryptographic generator (AES-256 in counter mode, keyed by the operating system), which prevents the attack "
        "of Mironov 2012. Values are clamped and snapped to whole steps before they are summed, so that sums do not "
        "round (Casacuberta, Shoemate, Vadhan, Wagaman 2022)."
    )
    points = [f"{kind_in_words(loss)}: in {_count(count, 'charge')}." for loss, count in summary.kinds()]
    return Section("By which mechanisms?", (composed, exact), tuple(points))


def bounds(summary: LedgerSummary) -> Section:
    """How many groups and rows a unit counts in, between which values, and what is read of a line."""
    points = []
    for table in summary.policy.catalog.tables.values():
        if not table.private:
            continue
        if table.unit is not None and table.unit.key is not None:
            groups, rows = (getattr(table, bound, None) for bound in ("groups", "rows"))
            most = [
                f"at most {_count(bound, noun)}{rest}" if bound else f"as many {noun}s{rest} as a question states"
                for bound, noun, rest in ((groups, "group", " of one answer"), (rows, "row", " in each"))
            ]
            points.append(f"Table {literal(table.name)}: a person counts in {most[0]}, with {most[1]}.")
        if table.name in summary.policy.formats:
            points.append(f"Table {literal(table.name)} is read from a CSV file: {RULE}.")
        bounded = [column for column in table.columns if column.lower is not None or column.earliest is not None]
        clamped = [column.describe() for column in bounded]
        if clamped:
            points.append(f"Table {literal(table.name)}: values are clamped: {literal('; '.join(clamped))}.")
    text = (
        "Noise hides a unit only if the unit has limited influence. Data beyond these bounds are dropped or clamped "
        "before anything is computed, at the cost of accuracy, never of privacy."
    )
    return Section("How is the influence of one unit bounded?", (text,), tuple(points))


def public(summary: LedgerSummary) -> Section:
    """What everybody may know: the policy, and the rows of public tables."""
    points = []
    for table in summary.policy.catalog.tables.values():
        columns = literal("; ".join(column.describe() for column in table.columns))
        kind = "the names and declarations of its columns" if table.private else "all of its rows, and its columns"
        points.append(f"Table {literal(table.name)}: {kind}: {columns}.")
    text = (
        "The following is not protected: the policy with its names, types, bounds and declared values, which the owner "
        "states without looking at the data; when and at what cost questions were asked; and every row of a public "
        "table."
    )
    return Section("What is public?", (text,), tuple(points))


def not_promised(summary: LedgerSummary) -> Section:
    """What differential privacy, and this system, leave open."""
    points = [
        "That nothing is learned about people. What holds for a group (smoking causes cancer) can be learned, and "
        "it says something about its members, whether or not they are in the data.",
        "That groups are hidden as well as single units: for k units together, such as a family, the odds bound is "
        "e^(kε) (Dwork, Roth 2014, Theorem 2.2; with δ: Vadhan 2017, Lemma 2.2). People whose data depend on each "
        "other are such a group.",
        "Anything across datasets. If the same people are in several, the ε's and δ's add up (Dwork, Roth 2014, "
        "Theorem 3.16); this ledger covers only one of them.",
        "Anything about public tables, or about data released in other ways.",
        "Security: whoever gains access to the machine, the source files or their backups can read the raw rows. Nor "
        "anything about how the data were collected.",
        f"Side channels. {timing(summary.policy)} How much memory or power an answer needs, and how long it keeps a "
        "shared machine busy, may depend on the data.",
        "That the owner declared bounds and values without looking. Bounds taken from the data reveal "
        "something about the people at the bounds.",
        "That ε and δ are small enough. That is a judgment which this statement does not make.",
    ]
    if any(table.unit is not None and table.unit.key is None for table in summary.policy.catalog.tables.values()):
        points.insert(2, "That people are hidden if the unit is a row: somebody with k rows is a group of k units.")
    return Section("What is not promised?", (), tuple(points))


def amendments(summary: LedgerSummary) -> Section:
    """Every change of the budget, and its reason."""
    opened, changes = summary.rows[0], summary.amendments
    text = f"Opened on {opened.when[:10]} with {literal(_settings(summary, opened))}."
    if not changes:
        return Section("Was the budget changed?", (f"No. {text}",))
    warning = (
        "Each change is a new promise by the owner. It differs from what people were told before, and does not undo "
        "earlier releases."
    )
    points = [
        f"{row.when[:10]}, row {row.number}: {literal(_settings(summary, row))}{_by(summary, row)}. "
        f"Reason: {literal(row.why or 'none')}."
        for row in changes
    ]
    return Section("Was the budget changed?", (f"Yes. {text} {warning}",), tuple(points))


def check(summary: LedgerSummary) -> Section:
    """The head of the chain, and how to use it."""
    text = (
        "Every charge is a row of a ledger, chained by SHA-256. Keep this line in a file. Later, the owner or an "
        "auditor with the ledger can use it to prove that no row so far was changed or removed: "
        "`discreet ledger verify POLICY --published FILE`. The proof covers the record. That each release was charged, "
        "and that the noise is right, is for an audit of the software to show."
    )
    line = json.dumps(asdict(summary.head), ensure_ascii=False)
    if summary.policy.witness == ():
        text += " No witness outside the ledger records its length: removing it would go unnoticed."
    return Section("How can it be checked?", (text, f"```json\n{line}\n```"))


# Words


def _meaning(epsilon: Fraction, delta: Fraction) -> str:
    factor = odds(epsilon)
    times = "by more than 10^21, as far as this ε goes" if factor is None else f"by at most {short(factor)}"
    wins = win(epsilon, delta)
    return (
        f"what is released may multiply anybody's odds about one unit {times}; somebody who guesses which of two "
        f"equally likely neighbors it came from is right at most {short(100 * wins)} % of the time."
    )


def _caps(summary: LedgerSummary) -> str:
    """How the budget is shared out, without names."""
    _, caps, everyone = settings_in(summary.rows)
    if not caps and everyone is None:
        return "Nobody is capped: any name may spend all of it."
    named = f"{_count(len(caps), 'analyst')} may spend up to a cap" if caps else ""
    others = "others are refused" if everyone is None else f"each other analyst up to {everyone.describe_limit()}"
    return "; ".join(part for part in (named, others) if part).capitalize() + "."


def _settings(summary: LedgerSummary, row: Row) -> str:
    """Budget and caps; whose caps, only where names are told."""
    budget, caps, everyone = settings_of(row.settings or "")
    if summary.names:
        return in_words(row.settings or "")
    rest = "" if everyone is None else " and one for everyone else"
    return f"budget {budget.describe_limit()} and {_count(len(caps), 'cap')}{rest}"


def _by(summary: LedgerSummary, row: Row) -> str:
    return f", by {literal(row.who)}" if summary.names else ""


def _count(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def literal(text: str) -> str:
    """Text that Markdown shows as it is, on one line.

    >>> print(literal("patient_id"), literal("<b>*x*"))
    patient_id \\<b\\>\\*x\\*
    """
    return re.sub(r"([\\`*\[\]<>|~&#]|(?<!\w)_|_(?!\w))", r"\\\1", printable(text))


def code(text: str) -> str:
    """Text as code, on one line, whatever backticks are in it."""
    shown = printable(" ".join(text.split()))
    fence = "`" * (1 + max(map(len, re.findall("`+", shown)), default=0))
    return f"{fence} {shown} {fence}" if "`" in shown else f"{fence}{shown}{fence}"


_BEYOND = Fraction(50)


def odds(epsilon: Fraction) -> Fraction | None:
    """e^ε, rounded up: the most by which one release changes the odds between neighbors; None beyond e^50.

    Bayes' rule: posterior odds = prior odds × likelihood ratio, which ε-DP keeps within e^±ε, whatever the prior
    (Dwork, McSherry, Nissim, Smith 2006; Kasiviswanathan, Smith 2014).

    >>> float(odds(Fraction(0)))
    1.0
    """
    return None if epsilon > _BEYOND else exp_up(epsilon)


def win(epsilon: Fraction, delta: Fraction) -> Fraction:
    """How often, at most, somebody guesses rightly which of two neighboring datasets was used, each being as likely.

    (e^ε + δ)/(1 + e^ε), rounded up. Proof. A test that says "x" with probability p on x and q on x′ has p ≤ e^ε·q + δ
    and 1 − q ≤ e^ε·(1 − p) + δ. Add: p + (1 − q) ≤ (2e^ε + 2δ)/(1 + e^ε); the guesser is right half of that often.
    (Wasserman, Zhou 2010, for δ = 0; Kairouz, Oh, Viswanath 2015, Theorem 2.1. The bound grows with e^ε, as δ ≤ 1, so
    rounding e^ε up is safe.)

    >>> float(win(Fraction(0), Fraction(0))), round(float(win(Fraction(1), Fraction(0))), 4)
    (0.5, 0.7311)
    """
    if epsilon > _BEYOND:
        return Fraction(1)
    power = exp_up(epsilon)
    return min(Fraction(1), (power + delta) / (1 + power))


def kind_in_words(loss: Loss) -> str:  # noqa: PLR0911 - one branch a kind
    """The kind of a loss, as the mechanisms that have it.

    >>> kind_in_words(losses.Concentrated(1))
    'Gaussian-like noise, counted as concentrated privacy (Bun, Steinke 2016)'
    """
    match loss:
        case losses.Pure():
            return "Pure ε: discrete Laplace noise, randomized response (Dwork, McSherry, Nissim, Smith 2006)"
        case losses.BoundedRange():
            return "A private choice: the exponential mechanism (McSherry, Talwar 2007; Durfee, Rogers 2019)"
        case losses.Approximate():
            return (
                "(ε, δ): groups named where a noisy count passes a threshold (Korolova and others 2009), and the like"
            )
        case losses.Concentrated():
            return "Gaussian-like noise, counted as concentrated privacy (Bun, Steinke 2016)"
        case losses.LaplaceNoise():
            return "Noise no easier to see through than Laplace noise (Dwork, McSherry, Nissim, Smith 2006)"
        case losses.GaussianNoise():
            return "Noise no easier to see through than Gaussian noise (Balle, Wang 2018)"
        case losses.DiscreteGaussianNoise():
            return "Discrete Gaussian noise (Canonne, Kamath, Steinke 2020)"
        case losses.SampledGaussian():
            return (
                "Gaussian noise on random samples: model training (Abadi and others 2016; Mironov, Talwar, Zhang 2019)"
            )
        case losses.PerDistance():
            return "Privacy that fades with distance (Chatzikokolakis, Andrés, Bordenabe, Palamidessi 2013)"
        case losses.Repeated() | losses.Together():
            return "Several releases in one charge, each chosen after the ones before, composed as above"
        case losses.Parallel():
            return "Releases over disjoint parts of the data, which cost as much as the dearest (McSherry 2009)"
        case _:
            assert_never(loss)


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
        who(summary),
        change(summary),
        trust(),
        parameters(summary),
        releases(summary),
        mechanisms(summary),
        bounds(summary),
        public(summary),
        not_promised(summary),
        amendments(summary),
        check(summary),
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
