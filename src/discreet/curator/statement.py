"""The privacy statement that an owner can publish: what is promised, to whom, at what ε and δ, and what is not.

It answers the questions of NIST SP 800-226, "Guidelines for Evaluating Differential Privacy Guarantees" (Near, Darais,
Lefkovitz, Howarth, 2025), from two sources only: the policy, which is public, and the ledger, whose rows depend on the
analysts and on what was released to them. No private row is read, so publishing a statement costs nothing.
The same policy and the same rows give the same statement: it is dated by the ledger, not by a clock.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, time
from fractions import Fraction
from functools import cached_property
from math import isfinite
from typing import Any, assert_never

from discreet.curator.ledger import Ledger
from discreet.curator.policy import Policy
from discreet.curator.report import chain_of, number, settings_in, short, spent_epsilon, visible
from discreet.curator.settings import in_words, settings_of
from discreet.curator.stores import Head, Row, utc
from discreet.errors import InvalidParameter
from discreet.exact import exp_up
from discreet.privacy import loss as losses
from discreet.privacy.budget import Budget, Spent
from discreet.privacy.loss import Loss
from discreet.privacy.unit import Neighbours

SOURCE = "NIST SP 800-226 (Near, Darais, Lefkovitz, Howarth 2025)"


@dataclass(frozen=True, slots=True)
class Section:
    """One question and its answer: paragraphs, then points."""

    question: str
    paragraphs: tuple[str, ...]
    points: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Statement:
    """A privacy statement: `facts` for programs, `sections` for people."""

    dataset: str
    as_of: str
    facts: Mapping[str, Any]
    sections: tuple[Section, ...]

    def to_json(self) -> dict[str, object]:
        """Plain values that JSON can hold: the facts, and the words beside them."""
        told = [
            {"question": one.question, "paragraphs": list(one.paragraphs), "points": list(one.points)}
            for one in self.sections
        ]
        return {"dataset": self.dataset, "as_of": self.as_of, "facts": dict(self.facts), "sections": told}

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
    ... dataset = {name = "census", neighbours = "change one"}
    ... budget.epsilon = "1"
    ... tables.people = {source = "people.csv", unit = "row", columns.age = {type = "integer", lower = 0, upper = 120}}
    ... ''')
    >>> ledger = Ledger(MemoryStore())
    >>> ledger.open("census", policy.budget)
    >>> print(privacy_statement(policy, ledger).to_markdown().splitlines()[0])
    # Privacy statement: census
    """
    rows, head = chain_of(ledger, policy.catalog.name, until=_moment(as_of))
    books = _Books(policy, rows, head, names, texts)
    sections = (
        _who(books),
        _change(books),
        _trust(),
        _parameters(books),
        _releases(books),
        _mechanisms(books),
        _bounds(books),
        _public(books),
        _not_promised(books),
        _amendments(books),
        _check(books),
    )
    return Statement(policy.catalog.name, _moment(as_of) or rows[-1].when, _facts(books), sections)


def win(epsilon: Fraction, delta: Fraction) -> Fraction:
    """How often, at most, somebody guesses rightly which of two neighbouring datasets was used, each being as likely.

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


def odds(epsilon: Fraction) -> Fraction | None:
    """e^ε, rounded up: the most by which one release changes the odds between neighbours; None beyond e^50.

    Bayes' rule: posterior odds = prior odds × likelihood ratio, which ε-DP keeps within e^±ε, whatever the prior
    (Dwork, McSherry, Nissim, Smith 2006; Kasiviswanathan, Smith 2014).

    >>> float(odds(Fraction(0)))
    1.0
    """
    return None if epsilon > _BEYOND else exp_up(epsilon)


# What the rows say


_BEYOND = Fraction(50)


@dataclass(frozen=True)
class _Books:
    """The policy and the rows of its account, and what follows from them."""

    policy: Policy
    rows: Sequence[Row]
    head: Head
    names: bool
    texts: bool

    @cached_property
    def budget(self) -> Budget:
        return settings_in(self.rows)[0]

    @cached_property
    def grants(self) -> list[Budget]:
        """Every budget that was in force, in order."""
        return [settings_of(row.settings or "")[0] for row in self.rows if row.kind != "charge"]

    @cached_property
    def charges(self) -> list[Row]:
        return [row for row in self.rows if row.kind == "charge"]

    @cached_property
    def total(self) -> Spent:
        return Spent.from_json(self.rows[-1].total)

    def analysts(self) -> dict[str, str]:
        """Analysts in the order of their first charge, and what they are called here."""
        found = dict.fromkeys(row.who for row in self.charges)
        return {who: who if self.names else f"analyst {place}" for place, who in enumerate(found, 1)}

    def kinds(self) -> list[tuple[Loss, int]]:
        """One loss of each kind that occurs, and in how many charges, the most frequent first."""
        counts: Counter[type[Loss]] = Counter()
        one: dict[type[Loss], Loss] = {}
        for text, count in Counter(row.loss or "" for row in self.charges).items():
            found = {type(part): part for part in _parts(losses.from_json(text))}
            counts.update(dict.fromkeys(found, count))
            one |= found
        return [(one[kind], count) for kind, count in counts.most_common()]


def _parts(loss: Loss) -> Iterator[Loss]:
    """A loss and all losses inside it."""
    yield loss
    match loss:
        case losses.Repeated():
            yield from _parts(loss.loss)
        case losses.Together() | losses.Parallel():
            for part in loss.losses:
                yield from _parts(part)


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


# The questions


def _who(books: _Books) -> Section:
    points = []
    for table in books.policy.catalog.tables.values():
        if table.unit is None:
            continue
        unit = (
            "one row; a person with several rows is protected for each row alone"
            if table.unit.key is None
            else f"one person, that is all rows with the same {literal(table.unit.key)}"
        )
        points.append(f"Table {literal(table.name)}: {unit}.")
    return Section("Who is protected?", ("The unit of privacy is:",), tuple(points))


def _change(books: _Books) -> Section:
    change = {
        Neighbours.ADD_OR_REMOVE_ONE: "Two datasets are neighbours if one arises from the other by adding or removing "
        "one unit. So what is hidden is also whether somebody is in the data at all.",
        Neighbours.CHANGE_ONE: "Two datasets are neighbours if one arises from the other by changing the data of one "
        "unit. So what is hidden is what somebody's data are, but not that they are there: how many units there are "
        "counts as public.",
    }[books.policy.catalog.neighbours]
    promise = (
        "For every two neighbours, whatever is released is almost as likely from the one as from the other: "
        "Pr[M(x) ∈ S] ≤ e^ε·Pr[M(x′) ∈ S] + δ for every set S of outcomes (Dwork, McSherry, Nissim, Smith 2006; with "
        "δ: Dwork, Kenthapadi, McSherry, Mironov, Naor 2006). It holds whatever else an attacker knows, or will learn."
    )
    return Section("Against which change?", (change, promise))


def _trust() -> Section:
    told = (
        "The model is central: a curator, a program on the owner's machine, reads the raw rows and releases noisy "
        "answers. The owner, everybody with access to that machine, to the source files or to their backups, and the "
        "software itself must be trusted. Analysts and readers need not be: they may collude, and choose each question "
        "after seeing the answers before it. The budget belongs to the dataset, not to an analyst."
    )
    return Section("Who must be trusted?", (told,))


def _parameters(books: _Books) -> Section:
    budget, spent = books.budget, spent_epsilon(books.budget, books.total)
    granted = f"Granted for everything that is ever released: {budget.describe_limit()}."
    if budget.delta_for_keys:
        granted += (
            f" Of δ, {short(budget.delta_for_keys)} is for what adds up, such as naming groups that come from data."
        )
    highest = max(books.grants, key=lambda grant: (grant.epsilon, grant.delta))
    if highest != budget:
        granted += f" A greater budget, {highest.describe_limit()}, was in force before: see the amendments."
    so_far = f"Spent so far: ε {short(spent)}" if isfinite(spent) else "Spent so far: no finite ε"
    so_far += f", and additive δ {short(books.total.delta)}." if books.total.delta else "."
    meter = (
        "What was granted is the promise. What was spent is a meter: the least ε at which the accounting would have "
        "allowed these releases, rounded up. Questions were chosen after seeing answers, so only an ε that was fixed "
        "in advance, the granted one, is proven for all of them (Rogers, Roth, Ullman, Vadhan 2016)."
    )
    points = [f"At the granted ε: {_meaning(budget.epsilon, budget.delta)}"]
    if books.charges and isfinite(spent):
        points.append(f"At the spent ε: {_meaning(Fraction(repr(spent)), budget.delta)}")
    sources = (
        "Odds: e^ε, by Bayes' rule (Dwork, McSherry, Nissim, Smith 2006; with δ they hold except on rare outcomes: "
        "Kasiviswanathan, Smith 2014). Guesses: (e^ε + δ)/(1 + e^ε) (Kairouz, Oh, Viswanath 2015, Theorem 2.1)."
    )
    if len(books.grants) > 1:
        meter += (
            " The budget was changed in between: the proof covers the one now in force only as far as the change did "
            "not depend on answers."
        )
    paragraphs = [granted, so_far, meter, sources]
    if books.policy.budget != budget:
        stated = books.policy.budget.describe_limit()
        paragraphs.insert(1, f"The policy file states another budget, {stated}, which is not in force in the ledger.")
    return Section("How much may be learned, and how much was?", tuple(paragraphs), tuple(points))


def _meaning(epsilon: Fraction, delta: Fraction) -> str:
    factor = odds(epsilon)
    times = "by more than 10^21, as far as this ε goes" if factor is None else f"by at most {short(factor)}"
    wins = win(epsilon, delta)
    return (
        f"what is released may multiply anybody's odds about one unit {times}; somebody who must guess which "
        f"of two neighbours it came from, at even chances, is right at most {short(100 * wins)} % of the time."
    )


def _releases(books: _Books) -> Section:
    charges, analysts = books.charges, books.analysts()
    if not charges:
        return Section("Over which releases?", ("Nothing has been released.",))
    told = (
        f"{_count(len(charges), 'charge')} by {_count(len(analysts), 'analyst')}, from {charges[0].when[:10]} to "
        f"{charges[-1].when[:10]}. A charge is made before data are read, so it counts even if no answer came of it; "
        "an answer that is given again is not charged again."
    )
    points = [
        f"{literal(one['analyst'])}: {_count(one['charges'], 'charge')}, ε {short(float(one['epsilon']))} taken alone."
        for one in _analyst_facts(books)
    ]
    if books.texts:
        points += [
            f"Row {row.number}, {row.when[:10]}: {_code(row.text or f'no text kept; SHA-256 {row.statement}')}"
            for row in charges
        ]
    return Section("Over which releases?", (told,), tuple(points))


def _mechanisms(books: _Books) -> Section:
    composed = (
        "Releases were composed by a privacy filter, which refuses what would pass the limit: pure ε's add up (Rogers, "
        "Roth, Ullman, Vadhan 2016)."
        if not books.budget.delta
        else "Releases were composed by a privacy filter, which refuses what would pass the limit: the plain sum of "
        "pure ε's (Rogers, Roth, Ullman, Vadhan 2016), or Rényi totals over fixed orders (Feldman, Zrnic 2021) that "
        "share δ among them and are converted to (ε, δ) by Canonne, Kamath, Steinke 2020, Proposition 12; additive δ's "
        "are summed beside them (Whitehouse, Ramdas, Rogers, Wu 2023)."
    )
    exact = (
        "Noise is exact: whole numbers of steps on a fixed grid, drawn without floating-point rounding from a "
        "cryptographic generator (AES-256 in counter mode, keyed by the operating system), against the attack of "
        "Mironov 2012. Values are clamped and snapped to whole steps before they are summed, so that sums do not "
        "round (Casacuberta, Shoemate, Vadhan, Wagaman 2022)."
    )
    points = [f"{kind_in_words(loss)}: in {_count(count, 'charge')}." for loss, count in books.kinds()]
    return Section("By which mechanisms?", (composed, exact), tuple(points))


def kind_in_words(loss: Loss) -> str:  # noqa: PLR0911 - one branch a kind
    """The kind of a loss, as the mechanisms that have it.

    >>> kind_in_words(losses.Concentrated(1))
    'Gaussian-like noise, counted as concentrated privacy (Bun, Steinke 2016)'
    """
    match loss:
        case losses.Pure():
            return "Pure ε: discrete Laplace noise, randomised response (Dwork, McSherry, Nissim, Smith 2006)"
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


def _bounds(books: _Books) -> Section:
    points = []
    for table in books.policy.catalog.tables.values():
        if not table.private:
            continue
        if table.unit is not None and table.unit.key is not None:
            groups, rows = (getattr(table, bound, None) for bound in ("groups", "rows"))
            most = [
                f"at most {bound} {what}" if bound else f"as many {what} as the question states"
                for bound, what in ((groups, "groups of one answer"), (rows, "rows in each"))
            ]
            points.append(f"Table {literal(table.name)}: a person counts in {most[0]}, with {most[1]}.")
        clamped = [column.describe() for column in table.columns if column.lower is not None]
        if clamped:
            points.append(f"Table {literal(table.name)}: values are clamped: {literal('; '.join(clamped))}.")
    told = (
        "Noise hides one unit only if no unit weighs too much. What is beyond these bounds is left out or clamped "
        "before anything is computed: data that break a bound cost accuracy, never privacy."
    )
    return Section("How is the influence of one unit bounded?", (told,), tuple(points))


def _public(books: _Books) -> Section:
    points = []
    for table in books.policy.catalog.tables.values():
        columns = literal("; ".join(column.describe() for column in table.columns))
        kind = "the names and declarations of its columns" if table.private else "all of its rows, and its columns"
        points.append(f"Table {literal(table.name)}: {kind}: {columns}.")
    told = (
        "Known to everybody, and not protected: the policy with its names, types, bounds and declared values, which "
        "the owner states without looking at the data; when and at what cost questions were asked; every row of a "
        "public table."
    )
    return Section("What is public?", (told,), tuple(points))


def _not_promised(books: _Books) -> Section:
    points = [
        "That nothing is learned about people. What holds for a group (smoking causes cancer) is learned, and tells "
        "something about its members, whether or not they are in the data.",
        "That groups are hidden as single units are: for k units together, a family say, the odds bound is e^(kε) "
        "(Dwork, Roth 2014, Theorem 2.2; with δ: Vadhan 2017, Lemma 2.2). People whose data depend on each other are "
        "such a group.",
        "Anything across datasets. Where the same people are in several, the ε's and δ's add up (Dwork, Roth 2014, "
        "Theorem 3.16); this ledger knows one of them.",
        "Anything about public tables, or about data that were released in another way.",
        "Security: whoever gets into the machine, the source files or their backups reads the raw rows. Nor anything "
        "about how the data were collected.",
        "Side channels: how long an answer takes, how much memory or power it needs, may depend on the data.",
        "That the owner declared bounds and values without looking. Bounds read off the data tell of people at them.",
        "That an ε or δ is small. Whether these protect enough is a judgement, and not one that this statement makes.",
    ]
    if any(table.unit is not None and table.unit.key is None for table in books.policy.catalog.tables.values()):
        points.insert(2, "That people are hidden where the unit is a row: somebody with k rows is a group of k units.")
    return Section("What is not promised?", (), tuple(points))


def _amendments(books: _Books) -> Section:
    opened, changes = books.rows[0], _changes(books)
    told = f"Opened on {opened.when[:10]} with {literal(_settings(books, opened))}."
    if not changes:
        return Section("Was the budget changed?", (f"No. {told}",))
    warning = (
        "Each change is a new promise by the owner: it is not what people were told before, and nothing that was "
        "released is taken back."
    )
    points = [
        f"{row.when[:10]}, row {row.number}: {literal(_settings(books, row))}{_by(books, row)}. "
        f"Reason: {literal(row.why or 'none')}."
        for row in changes
    ]
    return Section("Was the budget changed?", (f"Yes. {told} {warning}",), tuple(points))


def _check(books: _Books) -> Section:
    told = (
        "Every charge is a row of a ledger, chained by SHA-256. Keep this line in a file. Later the owner, or an "
        "auditor with the ledger, can prove with it that no row so far was changed or removed, by "
        "`discreet ledger verify POLICY --published FILE`. The proof is about the record: that each release was "
        "charged, and that the noise is right, is for an audit of the software."
    )
    line = json.dumps(asdict(books.head), ensure_ascii=False)
    return Section("How can it be checked?", (told, f"```json\n{line}\n```"))


# The same, for programs


def _facts(books: _Books) -> dict[str, Any]:
    catalog, budget, spent = books.policy.catalog, books.budget, spent_epsilon(books.budget, books.total)
    charges = books.charges
    private = [table for table in catalog.tables.values() if table.private]
    return {
        "guidelines": SOURCE,
        "protects": {table.name: str(table.unit) for table in private},
        "neighbours": str(catalog.neighbours),
        "trust": "central",
        "granted": _limits(budget) | _figures(budget.epsilon, budget.delta),
        "spent": {"epsilon": number(spent), "additive_delta": number(books.total.delta)}
        | (_figures(Fraction(repr(spent)), budget.delta) if isfinite(spent) else {}),
        "policy_budget_in_force": books.policy.budget == budget,
        "releases": {
            "charges": len(charges),
            "first": charges[0].when if charges else None,
            "last": charges[-1].when if charges else None,
            "analysts": _analyst_facts(books),
        }
        | ({"statements": [_statement(row) for row in charges]} if books.texts else {}),
        "mechanisms": {json.loads(losses.to_json(loss))["kind"]: count for loss, count in books.kinds()},
        "contributions": {t.name: {name: getattr(t, name, None) for name in ("groups", "rows")} for t in private},
        "clamped": {
            table.name: {
                column.name: [number(column.lower), number(column.upper)]
                for column in table.columns
                if column.lower is not None and column.upper is not None
            }
            for table in private
        },
        "public_tables": [table.name for table in catalog.tables.values() if not table.private],
        "amendments": [_amendment(books, row) for row in _changes(books)],
        "head": asdict(books.head),
    }


def _analyst_facts(books: _Books) -> list[dict[str, Any]]:
    own, counts = {row.who: row.own for row in books.charges}, Counter(row.who for row in books.charges)
    return [
        {
            "analyst": called,
            "charges": counts[who],
            "epsilon": number(spent_epsilon(books.budget, Spent.from_json(own[who]))),
        }
        for who, called in books.analysts().items()
    ]


def _figures(epsilon: Fraction, delta: Fraction) -> dict[str, object]:
    factor = odds(epsilon)
    return {"odds_factor": None if factor is None else number(factor), "guess": number(win(epsilon, delta))}


def _limits(budget: Budget) -> dict[str, object]:
    return {name: number(getattr(budget, name)) for name in ("epsilon", "delta", "delta_for_keys")}


def _amendment(books: _Books, row: Row) -> dict[str, object]:
    budget, _ = settings_of(row.settings or "")
    by = {"by": row.who} if books.names else {}
    return {"row": row.number, "when": row.when, "budget": _limits(budget), "why": row.why} | by


def _statement(row: Row) -> dict[str, object]:
    return {"row": row.number, "when": row.when, "statement": row.statement, "text": row.text}


# Words


def _changes(books: _Books) -> list[Row]:
    return [row for row in books.rows if row.kind == "amend"]


def _settings(books: _Books, row: Row) -> str:
    """Budget and caps; whose caps, only where names are told."""
    budget, caps = settings_of(row.settings or "")
    return (
        in_words(row.settings or "")
        if books.names
        else f"budget {budget.describe_limit()} and {_count(len(caps), 'cap')}"
    )


def _by(books: _Books, row: Row) -> str:
    return f", by {literal(row.who)}" if books.names else ""


def _count(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def literal(text: str) -> str:
    """Text that Markdown shows as it is, on one line.

    >>> print(literal("patient_id"), literal("<b>*x*"))
    patient_id \\<b\\>\\*x\\*
    """
    return re.sub(r"([\\`*\[\]<>|~&#]|(?<!\w)_|_(?!\w))", r"\\\1", visible(text))


def _code(text: str) -> str:
    """Text as code, on one line, whatever backticks are in it."""
    shown = visible(" ".join(text.split()))
    fence = "`" * (1 + max(map(len, re.findall("`+", shown)), default=0))
    return f"{fence} {shown} {fence}" if "`" in shown else f"{fence}{shown}{fence}"
