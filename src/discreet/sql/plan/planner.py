"""SQL ─ parse ─ resolve ─ bound ─ sensitivity ─ mechanism choice ─→ QueryPlan. No row is touched.

Errors that depend on sizes: a first release finds how large the answers are, a second is priced from them.

The error of a mean depends on how many rows there are, and a relative error on how large the answer is. So a share of
ε, `FIRST_SHARE`, pays for a first release of the same numbers; the second costs the least ε that keeps the error.

Guarantee: both together cost at most the ε that was stated. Proof. Each is a plan of its own, verified and charged as
any other; the second ε is computed from released values alone, and is at most what the first has left; the ledger
composes adaptively.

Guarantee: each number of a group that the first release tells from nothing is within the error, for the noise only,
with the stated confidence 1 − f. Proof. With probability 1 − f/10, the bounds on its true size and rows hold, which the
first release gives; with probability 1 − 9f/10, the noise of the second, drawn afresh, is within the width that it was
judged by. Where the first release is exact enough itself, its noise is within the width with probability 1 − f/10, and
then its bounds on the size hold too. Intervals are shown at the confidence that was judged by, so that whichever
release is the answer, the interval of a number fails with probability f/10 + 9f/10 at most.

Variances and what is like them, and quantiles, are not covered by that (`is_estimated`): how far noise takes them
depends on the data. Their ε is estimated from the interval of the first release; the interval of the second holds, and
says how far they are.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod
from textwrap import shorten
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.curator.catalog import Catalog, contribution
from discreet.errors import InternalError, InvalidParameter, InvalidQuery
from discreet.exact import Number, plain, rational
from discreet.mechanisms.mechanism import failure_probability
from discreet.privacy.accounting.rounding import decimal_up
from discreet.privacy.unit import Unit
from discreet.requests import Question
from discreet.sql.after import left_out, post_query, sandbox
from discreet.sql.after.post_query import Source, post_query_of
from discreet.sql.algebra import expression, rules
from discreet.sql.algebra.expression import CUT_TEXTS, too_much_work, work_on_a_row
from discreet.sql.algebra.fan_out import MOST_CROSSINGS, crossings, most_matches
from discreet.sql.algebra.rules import (
    AggregateCall,
    Bin,
    Derived,
    Direct,
    Draft,
    Limits,
    Mean,
    Named,
    Rank,
    Spread,
    Total,
)
from discreet.sql.plan import price
from discreet.sql.plan.price import is_relative
from discreet.sql.plan.query_plan import QueryPlan, together
from discreet.sql.release.release import Release, numbers_of
from discreet.sql.text.blocks import Block, split

if TYPE_CHECKING:
    import pyarrow


_LEAST_FAILURE_PROBABILITY = Fraction(1, 10**100)

_CONFIDENCE = "0.95"

MOST_STATEMENTS = 100
"""No more statements are planned together: one ε pays for all of them, and one clock runs over all of them."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What an analyst states beside the SQL: ε or an error, δ, contribution bounds, the confidence of intervals.

    `epsilon` is the total for everything that is asked together. `error` asks for the least ε at which every count and
    sum is within it, with the stated confidence. `measure_bounds` spends a tenth of ε on what bounding left out.
    `default_epsilon` is what the owner states for questions that state neither. `weights` says which parts of ε the
    aggregates of one statement have, in their order: '3, 1'.
    """

    epsilon: Number | None = None
    error: Number | None = None
    delta: Number | None = None
    groups: int | None = None
    rows: int | None = None
    confidence: Number = _CONFIDENCE
    measure_bounds: bool = False
    default_epsilon: Number | None = None
    weights: str | None = None


def plan(texts: Sequence[str], catalog: Catalog, terms: Terms) -> QueryPlan:
    """The plan for one statement, or for several that are paid for together.

    >>> from discreet.curator.catalog import Column, Table
    >>> people = Table("people", [Column("age", "integer", lower=0, upper=120)], unit=Unit())
    >>> catalog = Catalog("census", [people], neighbors="add or remove one")
    >>> plan(["SELECT AVG(age) FROM people"], catalog, Terms(epsilon=1)).loss
    Together(Pure(epsilon=0.5), Pure(epsilon=0.5))
    """
    try:
        return _planned(texts, catalog, terms)
    except RecursionError:
        raise InvalidQuery("this statement is nested too deeply", "write it with fewer levels") from None


def _stated(texts: Sequence[str], terms: Terms) -> Terms:
    """The terms, with those that the texts state themselves; what is stated twice must be the same."""
    if not any(isinstance(text, str) and "differential_privacy" in text.casefold() for text in texts):
        return terms
    from discreet.sql.text.statement import same, without_options

    for text in texts:
        for name, option in without_options(text)[1].items():
            given = getattr(terms, name)
            usual = name == "confidence" and given == _CONFIDENCE
            if given is not None and not usual and not same(given, option.value):
                hint = f"{name} {given} was also stated outside this text; state it in one place"
                twice = f"{name} is stated twice, with different values"
                raise InvalidQuery(twice, hint, text=text, start=option.start)
            changed: Any = int(option.value) if name in ("groups", "rows") else option.value
            terms = replace(terms, **{name: changed})
    return terms


def spelled_out(question: Question) -> Question:
    """The question, with its terms beside its text where the text states an error and ε: these are two plans."""
    texts = question.statements
    if not any(isinstance(text, str) and "differential_privacy" in text.casefold() for text in texts):
        return question
    from discreet.sql.text.statement import without_options

    names = ("epsilon", "error", "delta", "groups", "rows", "confidence")
    terms = _stated(texts, Terms(**{name: getattr(question, name) for name in names}))
    if terms.epsilon is None or terms.error is None or terms.weights is not None:
        return question
    written = tuple(without_options(text)[0] for text in texts)
    given: dict[str, Any] = {name: getattr(terms, name) for name in names}
    return replace(question, sql=written[0] if isinstance(question.sql, str) else written, **given)


def _planned(texts: Sequence[str], catalog: Catalog, terms: Terms) -> QueryPlan:
    terms = _stated(texts, terms)
    if terms.epsilon is None and terms.error is None:
        terms = replace(terms, epsilon=terms.default_epsilon)
    if failure_probability(terms.confidence) < _LEAST_FAILURE_PROBABILITY:
        raise InvalidParameter("confidence", terms.confidence, "at most 1 − 1e-100")
    limits = Limits(*(contribution(given, name, Unit("person")) for name, given in
                      (("groups", terms.groups), ("rows", terms.rows))))  # fmt: skip
    if len(texts) > MOST_STATEMENTS:
        hint = "ask them in several batches, each with its own epsilon"
        raise InvalidParameter("statements", f"{len(texts):,} of them", f"at most {MOST_STATEMENTS} together", hint)
    parts = [split(text, catalog, limits) for text in texts]
    blocks = [block for part in parts for block in part.blocks]
    drafts, indices = _shared(blocks, limits)
    weights = _weights(terms, blocks)
    drafts = left_out.with_counts(drafts) if terms.measure_bounds else drafts
    bounded = [rules.apply_rules(draft) for draft in drafts]
    sums = _sums(drafts, bounded, terms)
    bounded = [draft for i, draft in enumerate(bounded) if i not in sums]
    whole = left_out.measurements(bounded) if terms.measure_bounds else []
    totals = _totals(blocks, indices, drafts)
    releases = _priced(bounded, [draft for _, draft in whole], catalog, terms, weights, totals)
    measured = tuple((measurement, len(bounded) + place) for place, (measurement, _) in enumerate(whole))
    _check_work(releases)
    post_queries = tuple(
        post_query_of(part, tuple(_source(block, indices, drafts, sums) for block in part.blocks), catalog)
        for part in parts
    )
    if any(query.plain is None for query in post_queries):
        sandbox.warm()
    for query in post_queries:
        post_query.run(
            query, post_query.empty_tables(query, releases, catalog)
        )  # what cannot be computed is found before paying
    loss = together([cost for release in releases for cost in release.losses(catalog.neighbors)])
    epsilon, delta = price.total(releases, epsilon=terms.epsilon, delta=terms.delta)
    return QueryPlan(post_queries, releases, catalog.neighbors, loss, epsilon, delta, terms.confidence, measured)


def _sums(drafts: Sequence[Draft], bounded: Sequence[Draft], terms: Terms) -> dict[int, int]:
    """Which drafts need no release of their own: their groups are sums of another's."""
    apart = terms.error is not None or terms.measure_bounds or terms.weights is not None
    if apart or len(drafts) < 2:
        return {}
    from discreet.sql.plan.sums import summed

    return summed(drafts, bounded, gaussian=terms.delta is not None)


def _weights(terms: Terms, blocks: Sequence[Block]) -> tuple[Fraction, ...]:
    """The weights of the aggregates of one SELECT; none where they are all alike."""
    if terms.weights is None:
        return ()
    from discreet.sql.text.statement import weights_of

    weights = weights_of(terms.weights)
    if len(blocks) != 1 or terms.error is not None:
        hint = "ask for it alone, with an epsilon" if terms.error is None else "state epsilon instead of an error"
        raise InvalidQuery("weights share the epsilon of one SELECT over private rows", hint)
    if len(weights) != len(blocks[0].aggregates):
        count = len(blocks[0].aggregates)
        raise InvalidQuery(f"{len(weights)} weights for {count} aggregates", "state one for each, in their order")
    return weights


def _check_work(releases: Sequence[Release]) -> None:
    """Refuse what could take longer on one row than the clock may tell: everything asked together, added up."""
    needed = sum(release.aggregate.work for release in releases)
    for release in releases:
        _check_fan_out(release)
    if needed > expression.MOST_WORK:
        parts = [part for release in releases for part in release.aggregate.parts]
        dearest = max(parts, key=work_on_a_row)
        name = shorten(str(dearest), 60, placeholder=" …")
        most = f"{name} alone takes {work_on_a_row(dearest) / 1000:,.0f} µs"
        raise InvalidQuery(too_much_work(needed), f"{most}; {CUT_TEXTS}")
    above = [part for release in releases for part in release.aggregate.parts_above_scans]
    if sum(map(work_on_a_row, above)) > expression.SWITCHED:
        dearest = max(above, key=work_on_a_row)
        name, size = shorten(str(dearest), 60, placeholder=" …"), sum(map(work_on_a_row, above)) / 1000
        problem = f"this can take {size:,.1f} µs on a row that a join or step has chosen"
        hint = f"expected at most {expression.SWITCHED // 1000}; {name} takes most of it; {CUT_TEXTS}"
        raise InvalidQuery(problem, hint)


def _check_fan_out(release: Release) -> None:
    """Refuse joins that would let a row choose how long they take."""
    rows = release.group.source
    if crossings(rows) > MOST_CROSSINGS:
        hint = (
            "join along the key that leads from one table to the other, make one row a person first (GROUP BY the "
            "unit, or ROW_NUMBER() … = 1), or ask twice; of a table with one row a person the policy can say so: "
            "max_groups_per_unit = 1, max_rows_per_group = 1"
        )
        raise InvalidQuery("each of a person's rows would meet the others more than once", hint)
    if release.aggregate.work_of_matches > expression.MOST_WORK:
        hint = "compare a column of the public table that few of its rows share, or join fewer of them"
        met = f"one row may meet {most_matches(rows):,} rows of public tables"
        raise InvalidQuery(f"{met}, which {expression.MOST_WORK // 1000} µs do not suffice for", hint)


Cell = tuple[object, ...]


def _shared(blocks: Sequence[Block], limits: Limits) -> tuple[list[Draft], dict[Cell, int]]:
    """Blocks over the same groups of the same rows are read and released once, each aggregate once."""
    indices: dict[Cell, int] = {}
    wanted: list[dict[AggregateCall, None]] = []
    drafts: list[Draft] = []
    for block in blocks:
        cell = (block.rows, block.keys)
        if cell not in indices:
            indices[cell] = len(drafts)
            drafts.append(Draft(block.rows, block.keys, (), limits))
            wanted.append({})
        wanted[indices[cell]].update(dict.fromkeys(block.aggregates))
    return [Draft(d.rows, d.keys, tuple(a), limits) for d, a in zip(drafts, wanted, strict=True)], indices


def _totals(blocks: Sequence[Block], indices: dict[Cell, int], drafts: list[Draft]) -> list[int | None]:
    """Of how many groups of each draft the largest total is made that is asked for; None where nobody knows."""
    sizes: list[int | None] = [1] * len(drafts)
    for block in blocks:
        index = indices[block.rows, block.keys]
        for some in block.sets:
            others = [key.size for i, key in enumerate(block.keys) if i not in some]
            known, before = [size for size in others if size is not None], sizes[index]
            unknown = len(known) < len(others) or before is None
            sizes[index] = None if unknown else max(before or 1, prod(known))
    return sizes


def _source(block: Block, indices: dict[Cell, int], drafts: list[Draft], sums: dict[int, int]) -> Source:
    """Where the numbers of a block come from: groups of its own, or sums of finer ones."""
    index = indices[block.rows, block.keys]
    draft = drafts[sums.get(index, index)]
    columns = {call: column for column, call in enumerate(draft.calls)}
    release = sums.get(index, index)
    source = Source(
        block.name,
        release - sum(other < release for other in sums),
        tuple(columns[wanted] for wanted in block.aggregates),
        block.sets,
    )
    if index not in sums:
        return source
    places = tuple(draft.keys.index(key) for key in block.keys)
    sets = block.sets or (tuple(range(len(places))),)
    return replace(source, sets=tuple(tuple(places[i] for i in some) for some in sets), keys=places)


def _priced(
    drafts: list[Draft], whole: list[Draft], catalog: Catalog, terms: Terms, weights: tuple[Fraction, ...],
    totals: list[int | None],
) -> tuple[Release, ...]:  # fmt: skip
    """The releases of the drafts, then those that measure what bounding left out: `left_out.SHARE` of all ε is theirs.

    Guarantee: together they cost no more than was stated. Proof. The drafts are priced within the rest of ε and within
    δ; the others add geometric noise, whose ε's are the share that was set apart; ε's and δ's add up.
    """
    if not drafts:
        return ()
    if terms.epsilon is not None and terms.error is not None:
        hint = "asking takes both, in two steps: the ε of the second follows from what the first releases"
        raise InvalidParameter("epsilon, error", "both", "one of them in a plan", hint)
    if terms.epsilon is None and terms.error is None:
        hint = "state what the answer may cost, or how exact it is"
        raise InvalidParameter("epsilon, error", "neither", "one of them", hint)
    if price.is_relative(terms.error):
        hint = "state epsilon too, the most that a first release of sizes and a second one may cost together"
        raise InvalidQuery("a relative error depends on how large the answers are", hint)
    rest, share = 1 - left_out.SHARE if whole else Fraction(1), left_out.SHARE
    if terms.epsilon is not None:
        stated = rational(terms.epsilon, "epsilon", above=0)
        made = price.by_epsilon(
            drafts, catalog.neighbors, epsilon=stated * rest, delta=terms.delta, confidence=terms.confidence,
            weights=weights,
        )  # fmt: skip
        apart = stated * share
    else:
        known = [size for size in totals if size is not None]
        if len(known) < len(totals):
            hint = "state epsilon instead, or let the policy declare their values"
            problem = "how far a total of groups that come from the data is off depends on how many they are"
            raise InvalidQuery(problem, hint)
        made = price.by_error(
            drafts, catalog.neighbors, error=terms.error or 0, confidence=terms.confidence, delta=terms.delta,
            totals=known,
        )  # fmt: skip
        apart = price.total(made, epsilon=None, delta=None)[0] * share / rest
    if not whole:
        return made
    return (*made, *price.by_epsilon(whole, catalog.neighbors, epsilon=apart, delta=None, confidence=terms.confidence))


FIRST_SHARE = Fraction(1, 10)
_SIZES = Fraction(1, 10)
"""The part of the failure probability that the sizes have."""
_NARROWINGS = 12
_MARGIN = 1.25


@dataclass(frozen=True, slots=True)
class WantedError:
    """The error that somebody accepts: a number, or a share of the answer."""

    size: Fraction
    relative: bool
    text: str

    @classmethod
    def of(cls, error: Number) -> "WantedError":
        """The error as it was stated.

        >>> WantedError.of("5%").size, WantedError.of("0.5").relative
        (Fraction(1, 20), False)
        """
        if not is_relative(error):
            return cls(rational(error, "error", above=0), False, str(error))
        share = rational(str(error).strip().removesuffix("%").strip(), "error", above=0) / 100
        if share >= 1:
            raise InvalidParameter("error", error, "a share below 100%", "or a number, in the unit of the answer")
        return cls(share, True, str(error))


def check_two_steps(first: QueryPlan) -> None:
    """Refuse what cannot be planned by its error in two steps, before anything is charged."""
    hint = "state epsilon alone"
    for release in first.releases:
        if release.selection is not None:
            wanted = "let the policy declare their values, or state epsilon alone"
            raise InvalidQuery("groups that come from the data may differ in the two steps of an error", wanted)
        for number in release.derived:
            if isinstance(number, Rank) and None in (number.low, number.high):
                ends = "the interval of MIN and MAX ends at the bound of the value, whatever is paid for it"
                raise InvalidQuery(ends, f"{hint}, or ask for QUANTILE_CONT(x, 0.99)")
            if isinstance(number, Named):
                raise InvalidQuery("how often a frequent value occurs is not released, so it has no share", hint)


def is_estimated(first: QueryPlan) -> bool:
    """Whether the error of some number is estimated from the first release, and not promised."""
    return any(isinstance(number, Spread | Rank) for release in first.releases for number in release.derived)


def first_confidence(first: QueryPlan) -> Number:
    """The confidence of the first release: that at which it is shown where it is exact enough.

    The ends of a quantile's interval are released for one confidence alone.
    """
    ranked = any(isinstance(number, Rank) for release in first.releases for number in release.derived)
    return 1 - failure_probability(first.confidence) * _SIZES if ranked else first.confidence


def needs_no_size(first: QueryPlan, wanted: WantedError) -> bool:
    """Whether the error can be planned at once: absolute, and of counts and sums alone."""
    numbers = [number for release in first.releases for number in release.derived]
    return not wanted.relative and all(isinstance(number, Direct | Bin | Named) for number in numbers)


def check_price(epsilon: Fraction, wanted: WantedError, most: Fraction) -> None:
    """Refuse an error that costs more than was stated."""
    if epsilon > most:
        least = f"at least {plain(epsilon)} for an error of {wanted.text}"
        raise InvalidParameter("epsilon", plain(most), least, "state more, or a larger error")


def second_epsilon(
    first: QueryPlan, noisy: "Sequence[pyarrow.Table]", wanted: WantedError, most: Fraction,
    priced: Callable[[Fraction], QueryPlan], confidence: Number | None = None,
) -> tuple[Fraction, Fraction]:  # fmt: skip
    """The least ε, to a part in a few hundred, at which all numbers are within the error, and the confidence of each.

    It is at most `most`; and that of the first release where this one is exact enough: then it is the answer.
    `confidence`: what was stated, where the first release has another (`first_confidence`).
    """
    failure = failure_probability(first.confidence if confidence is None else confidence)
    levels = post_query.totals_of(first.post_queries, first.releases, noisy)
    judged = [*zip(first.releases, noisy, strict=True), *((level.of(first.releases), level.table) for level in levels)]
    rooms = [
        [_room(release, table, number, wanted, failure * _SIZES) for number in release.derived]
        for release, table in judged
    ]

    def within(plan: QueryPlan, failure: Fraction) -> bool:
        releases = [*plan.releases, *(level.of(plan.releases) for level in levels)]
        return all(
            _fits(release, number, room, failure)
            for release, of_release in zip(releases, rooms, strict=True)
            for number, room in zip(release.derived, of_release, strict=True)
        )

    def fits(epsilon: Fraction) -> bool:
        return within(priced(epsilon), failure * (1 - _SIZES))

    if within(first, failure * _SIZES):
        return first.epsilon, 1 - failure * _SIZES
    if not fits(most):
        hint = "state more epsilon, or a larger error; the first release is cached, and free with the same epsilon"
        raise InvalidQuery(f"an error of {wanted.text} costs more than the ε {plain(most)} of the second step", hint)
    low, high = most / 2**_NARROWINGS, most
    for _ in range(_NARROWINGS):
        middle = decimal_up(Fraction((float(low) * float(high)) ** 0.5), 4)
        if not low < middle < high:
            break
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high, 1 - failure * (1 - _SIZES)


Room = tuple[Any, Any, Any]
"""The error that each group may have, the least number of rows that it has (1 where nothing is divided), and how far
its mean may be from the offset.

Groups that the first release cannot tell from nothing have none: they may be empty.
"""


@dataclass(frozen=True, slots=True)
class _Estimate:
    """The error that each group may have, and what the first release says of a variance or quantile there."""

    allowed: Any
    first: Release
    measures: list[Any]
    far: Any

    def fits(self, release: Release, number: Spread | Rank, failure: Fraction) -> bool:
        """Whether the number is likely to be within the error where a release has the noise of this one.

        A quantile is as far off in ranks as the inverse of its ε, and taken to be so in values, with a margin: the ends
        of its interval are released, and so are nearer or farther by chance.
        """
        if isinstance(number, Spread):
            far = _half_width(release, number, self.measures, [], failure)
        else:
            epsilons = [each.choices[number.target].mechanism.epsilon for each in (self.first, release)]
            far = self.far * float(epsilons[0] / epsilons[1]) * (1 if release is self.first else _MARGIN)
        return bool(np.all(far <= self.allowed))


def _half_width(release: Release, number: Spread | Rank, measures: Any, chosen: Any, failure: Fraction) -> Any:
    """How far a number is from the farther end of its interval; infinite where there is none."""
    values = post_query.derived_values(number, measures, chosen, {}).numbers
    low, high = post_query.derived_interval(release, number, measures, chosen, failure)
    return np.nan_to_num(np.maximum(high - values, values - low), nan=np.inf)


def _estimate(
    release: Release, table: "pyarrow.Table", number: Spread | Rank, wanted: WantedError, failure: Fraction
) -> _Estimate:  # fmt: skip
    measures, chosen = (
        [numbers_of(table.column(f"{letter}{i}")) for i in range(count)]
        for letter, count in (("m", len(release.noises)), ("q", len(release.choices)))
    )
    values = post_query.derived_values(number, measures, chosen, {})
    far = _half_width(release, number, measures, chosen, failure)
    told = np.ones(len(far), bool) if values.missing is None else ~values.missing
    if isinstance(number, Spread):
        told &= measures[number.count] > 1 + release.noises[number.count].interval(1 - failure)
    allowed = np.full(len(far), float(wanted.size))
    if wanted.relative:
        allowed = float(wanted.size) * np.abs(values.numbers)
        told &= (np.abs(values.numbers) > far) | (np.isinf(far) & (allowed > 0))
    if isinstance(number, Rank) and len(far) > 1:  # a quantile of nothing is anywhere: no ε would bring it closer
        told &= far * float(FIRST_SHARE / (1 - FIRST_SHARE)) <= allowed
    if not told.any():
        raise _nothing_told()
    return _Estimate(allowed[told], release, [each[told] for each in measures], far[told])


def _nothing_told() -> InvalidQuery:
    hint = "state more epsilon, an absolute error, or group by less"
    return InvalidQuery("the first release cannot tell the answer from nothing, so no error can be promised", hint)


def _room(
    release: Release, table: "pyarrow.Table", number: Derived, wanted: WantedError, failure: Fraction
) -> "Room | _Estimate":  # fmt: skip
    if isinstance(number, Spread | Rank):
        return _estimate(release, table, number, wanted, failure)
    wide, far = _error(release, number, failure)
    measured = [np.asarray(table.column(f"m{index}").to_pylist(), float) for index in number.indices]
    match number:
        case Direct(step=step):
            values, rows, least = measured[0] * float(step), 1.0, np.ones(len(measured[0]))
        case Total(step=step, offset=offset):
            values = (measured[0] + offset * measured[1]) * float(step)
            rows, least = 1.0, np.ones(len(values))
        case Mean(kind=kind, offset=offset):
            rows, least = np.maximum(measured[1], 1), measured[1] - far
            values = (offset + measured[0] / rows) * float(kind.step)
        case Bin(tally=tally, bin=place):
            values = np.asarray(table.column(f"h{tally}_{place}").to_pylist(), float)
            rows, least = 1.0, np.ones(len(values))
        case _:
            raise InternalError("an error of a name was to be found in two steps")
    allowed = float(wanted.size) * (np.abs(values) - wide / rows) if wanted.relative else float(wanted.size) * least**0
    center = number.offset * float(number.kind.step) if isinstance(number, Mean) else 0.0
    span = np.abs(values - center) + wide / rows
    told = (allowed > 0) & (least > 0)
    if not told.any():
        raise _nothing_told()
    return allowed[told], least[told], span[told]


def _fits(release: Release, number: Derived, room: "Room | _Estimate", failure: Fraction) -> bool:
    if isinstance(room, _Estimate):
        return isinstance(number, Spread | Rank) and room.fits(release, number, failure)
    allowed, least, span = room
    wide, far = _error(release, number, failure, span)
    rows = least - far if isinstance(number, Mean) else least
    return bool(np.all(rows > 0) and np.all(wide <= allowed * rows))


def _error(release: Release, number: Derived, failure: Fraction, span: Any = np.inf) -> tuple[Any, float]:
    """How far the noise takes a number (a mean: times its noisy rows), and how far it takes its rows.

    A mean o + S/N becomes o + (S + a)/(N + b), which is off by (a − b·S/N)/(N + b), and |S/N| is at most the larger
    distance of the bounds from o, and at most the span, where one is known.
    """
    if isinstance(number, Bin):
        return float(release.tallies[number.tally].noise.interval(1 - failure)), 0.0
    widths = [float(release.noises[index].interval(1 - failure / len(number.indices))) for index in number.indices]
    match number:
        case Direct(step=step):
            return widths[0] * float(step), 0.0
        case Total(step=step, offset=offset):
            return (widths[0] + abs(offset) * widths[1]) * float(step), 0.0
        case Mean(kind=kind, offset=offset):
            most = max((kind.upper or 0) - offset, offset - (kind.lower or 0)) * float(kind.step)
            return widths[0] * float(kind.step) + np.minimum(span, most) * widths[1], widths[1]
    return float("inf"), 0.0
