"""SQL ─ parse ─ resolve ─ bound ─ sensitivity ─ mechanism choice ─→ QueryPlan. No row is touched."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from textwrap import shorten

from discreet.curator.catalog import Catalog, contribution
from discreet.errors import InvalidParameter, InvalidQuery
from discreet.exact import Number
from discreet.mechanisms.mechanism import failure_probability
from discreet.privacy.unit import Unit
from discreet.sql.after import post_query, sandbox
from discreet.sql.after.post_query import Source, post_query_of
from discreet.sql.algebra import expression, rules
from discreet.sql.algebra.expression import CUT_TEXTS, too_much_work, work_on_a_row
from discreet.sql.algebra.rules import AggregateCall, Draft, Limits
from discreet.sql.plan import price
from discreet.sql.plan.query_plan import QueryPlan, together
from discreet.sql.release.release import Release
from discreet.sql.text.blocks import Block, split

_LEAST_FAILURE_PROBABILITY = Fraction(1, 10**100)

MOST_STATEMENTS = 100
"""No more statements are planned together: one ε pays for all of them, and one clock runs over all of them."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What an analyst states beside the SQL: ε or an error, δ, contribution bounds, the confidence of intervals.

    `epsilon` is the total for everything that is asked together. `error` asks for the least ε at which every count and
    sum is within it, with the stated confidence.
    """

    epsilon: Number | None = None
    error: Number | None = None
    delta: Number | None = None
    groups: int | None = None
    rows: int | None = None
    confidence: Number = "0.95"


def plan(texts: Sequence[str], catalog: Catalog, terms: Terms) -> QueryPlan:
    """The plan for one statement, or for several that are paid for together.

    >>> from discreet.curator.catalog import Column, Table
    >>> people = Table("people", [Column("age", "integer", lower=0, upper=120)], unit=Unit())
    >>> catalog = Catalog("census", [people], neighbors="add or remove one")
    >>> plan(["SELECT AVG(age) FROM people"], catalog, Terms(epsilon=1)).loss
    Together(losses=(Pure(epsilon=Fraction(1, 2)), Pure(epsilon=Fraction(1, 2))))
    """
    try:
        return _planned(texts, catalog, terms)
    except RecursionError:
        raise InvalidQuery("this statement is nested too deeply", "write it with fewer levels") from None


def _planned(texts: Sequence[str], catalog: Catalog, terms: Terms) -> QueryPlan:
    if failure_probability(terms.confidence) < _LEAST_FAILURE_PROBABILITY:
        raise InvalidParameter("confidence", terms.confidence, "at most 1 − 1e-100")
    limits = Limits(*(contribution(given, name, Unit("person")) for name, given in
                      (("groups", terms.groups), ("rows", terms.rows))))  # fmt: skip
    if len(texts) > MOST_STATEMENTS:
        hint = "ask them in several batches, each with its own epsilon"
        raise InvalidParameter("statements", f"{len(texts):,} of them", f"at most {MOST_STATEMENTS} together", hint)
    parts = [split(text, catalog) for text in texts]
    drafts, indices = _shared([block for part in parts for block in part.blocks], limits)
    releases = _priced([rules.apply_rules(draft) for draft in drafts], catalog, terms)
    _check_work(releases)
    post_queries = tuple(
        post_query_of(part, tuple(_source(block, indices, drafts) for block in part.blocks), catalog) for part in parts
    )
    if any(query.plain is None for query in post_queries):
        sandbox.warm()
    for query in post_queries:
        post_query.run(
            query, post_query.empty_tables(query, releases, catalog)
        )  # what cannot be computed is found before paying
    loss = together([cost for release in releases for cost in release.losses(catalog.neighbors)])
    epsilon, delta = price.total(releases, epsilon=terms.epsilon, delta=terms.delta)
    return QueryPlan(post_queries, releases, catalog.neighbors, loss, epsilon, delta, terms.confidence)


def _check_work(releases: Sequence[Release]) -> None:
    """Refuse what could take longer on one row than the clock may tell: everything asked together, added up."""
    needed = sum(release.aggregate.work for release in releases)
    if needed > expression.MOST_WORK:
        parts = [part for release in releases for part in release.aggregate.parts]
        dearest = max(parts, key=work_on_a_row)
        name = shorten(str(dearest), 60, placeholder=" …")
        most = f"{name} alone takes {work_on_a_row(dearest) / 1000:,.0f} µs"
        raise InvalidQuery(too_much_work(needed), f"{most}; {CUT_TEXTS}")


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


def _source(block: Block, indices: dict[Cell, int], drafts: list[Draft]) -> Source:
    index = indices[block.rows, block.keys]
    return Source(block.name, index, tuple(drafts[index].calls.index(wanted) for wanted in block.aggregates))


def _priced(drafts: list[Draft], catalog: Catalog, terms: Terms) -> tuple[Release, ...]:
    if not drafts:
        return ()
    if (terms.epsilon is None) == (terms.error is None):
        got = "neither" if terms.epsilon is None else "both"
        raise InvalidParameter(
            "epsilon, error", got, "one of them", "state what the answer may cost, or how exact it is"
        )
    if terms.epsilon is not None:
        return price.by_epsilon(drafts, catalog.neighbors, epsilon=terms.epsilon, delta=terms.delta)
    return price.by_error(
        drafts, catalog.neighbors, error=terms.error or 0, confidence=terms.confidence, delta=terms.delta
    )
