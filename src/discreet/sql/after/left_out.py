"""What bounding cost: rows, people, sums and clamped values of an answer, measured beside it for a share of ε.

Beside the bounded numbers of all groups, `--measure-bounds` releases the same number over all rows at once, with a
bound on a person that is `ROOM` times as wide. The difference of the two is what groups and weights left out. Of values
that are clamped, it counts the rows that are at a bound or beyond it.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from math import ceil, exp, inf, log, log1p, sqrt
from typing import TYPE_CHECKING, Literal

from discreet.errors import InternalError
from discreet.mechanisms.additive import Geometric
from discreet.sql.algebra import conditions
from discreet.sql.algebra.expression import Constant, Expression, Field, Slot, clamped_slots, fields_of
from discreet.sql.algebra.kinds import MOST, Fixed
from discreet.sql.algebra.relations import Count, People, Sum
from discreet.sql.algebra.rows import Filter, Rows, Step, at_most_one_row, nodes_of, number_of, unit_of
from discreet.sql.algebra.rules import AggregateCall, Direct, Draft, Limits, Total, apply_rules
from discreet.sql.release.release import Noise, Release, numbers_of

if TYPE_CHECKING:
    import pyarrow

SHARE = Fraction(1, 10)
"""Of ε, for measuring what bounding left out."""
ROOM = 10
"""A person counts in the measurement with so many times the rows that count in the answer."""
_MOST_ROWS = 10**6
_COUNT = AggregateCall("count", None)


@dataclass(frozen=True, slots=True)
class Measurement:
    """What is measured of a release: `number` is the index of a measure (rows, people) or of a derived number (sum)."""

    what: Literal["rows", "people", "sum", "clamped"]
    release: int
    number: int
    name: str


def with_counts(drafts: list[Draft]) -> list[Draft]:
    """Drafts that count rows too, where people's rows are weighed: it is what the whole is compared with."""
    return [
        replace(draft, calls=(*draft.calls, _COUNT)) if _is_weighed(draft) and _COUNT not in draft.calls else draft
        for draft in drafts
    ]


def measurements(drafts: list[Draft]) -> list[tuple[Measurement, Draft]]:
    """For each draft what bounding and clamping can take from it, with the draft that measures it."""
    results: list[tuple[Measurement, Draft]] = []
    for index, draft in enumerate(drafts):
        if unit_of(draft.rows).key is not None and not at_most_one_row(draft.rows):
            results += _rows_of(index, draft)
            results += _people_of(index, draft)
            results += _sums_of(index, draft)
        results += _clamped_of(index, draft)
    return results


def _rows_of(index: int, draft: Draft) -> list[tuple[Measurement, Draft]]:
    if draft.bound is None or not _is_weighed(draft) or Count(None) not in draft.measures:
        return []
    whole = apply_rules(Draft(draft.rows, (), (_COUNT,), Limits(1, _room(draft))))
    return [(Measurement("rows", index, draft.measures.index(Count(None)), "rows"), whole)]


def _people_of(index: int, draft: Draft) -> list[tuple[Measurement, Draft]]:
    """One row for each person and group, counted: a person in more groups than are counted is left out of some."""
    bound = draft.bound
    if bound is None or not draft.keys or (bound.source.size is not None and bound.groups >= bound.source.size):
        return []
    results = []
    for place, measure in enumerate(draft.measures):
        if isinstance(measure, People):
            rows: Rows = draft.rows
            if measure.value is not None:
                rows = Filter(rows, conditions.opposite(conditions.is_null(measure.value)))
            number = 1 + max((n for node in nodes_of(rows) if (n := number_of(node)) is not None), default=0)
            step = Step(rows, tuple(key.value for key in draft.keys), (), number)
            whole = apply_rules(Draft(step, (), (_COUNT,), Limits(1, min(ROOM * bound.groups, _MOST_ROWS))))
            results.append((Measurement("people", index, place, str(measure)), whole))
    return results


def _sums_of(index: int, draft: Draft) -> list[tuple[Measurement, Draft]]:
    results = []
    for place, number in enumerate(draft.derived):
        if not isinstance(number, Direct | Total):
            continue
        measure = draft.measures[number.indices[0]]
        if isinstance(measure, Sum):
            reach = max(abs(measure.kind.lower or 0), abs(measure.kind.upper or 0), 1)
            call = AggregateCall("sum", measure.value)
            whole = Draft(draft.rows, (), (call,), Limits(1, min(_room(draft), (MOST - 1) // reach)))
            results.append((Measurement("sum", index, place, f"sum of {measure.value}"), apply_rules(whole)))
    return results


def _clamped_of(index: int, draft: Draft) -> list[tuple[Measurement, Draft]]:
    """How many rows have a column at a bound of the policy or beyond it: no more than these were clamped."""
    values = [part.value for part in draft.measures if isinstance(part, Sum)]
    fields = dict.fromkeys(
        field
        for value in (*values, *(part.value for part in draft.distributions))
        for field in fields_of(value)
        if field.column.bounded and isinstance(field.kind, Fixed)
    )
    held = dict.fromkeys(
        pair for value in (*values, *(part.value for part in draft.distributions)) for pair in clamped_slots(value)
    )
    tests = [test for field in fields for test in _at_a_bound(field)]
    tests += [test for slot, kind in held for test in _beyond(slot, kind)]
    if not tests:
        return []
    rows = Filter(draft.rows, reduce(conditions.either, tests))
    names = ", ".join(dict.fromkeys([*(field.column.name for field in fields), *(str(slot) for slot, _ in held)]))
    whole = apply_rules(Draft(rows, (), (_COUNT,), Limits(1, _room(draft))))
    return [(Measurement("clamped", index, 0, names), whole)]


def _at_a_bound(field: Field) -> list[Expression]:
    kind = field.kind
    ends = [] if not isinstance(kind, Fixed) else [end for end in (kind.lower, kind.upper) if end is not None]
    step = kind.step if isinstance(kind, Fixed) else Fraction(1)
    return [conditions.compare("equal", field, Constant(end, Fixed(step, end, end))) for end in ends]


def _beyond(slot: Slot, kind: Fixed) -> list[Expression]:
    """What a person's count or sum is where it is clamped: columns are read within their bounds, and it is not."""
    low, high = (Constant(end, Fixed(kind.step, end, end)) for end in (kind.lower, kind.upper))
    tests = [] if slot.kind == kind else [conditions.compare("greater", slot, high)]
    own = slot.kind.lower if isinstance(slot.kind, Fixed) else None
    return tests if own is not None and own >= (kind.lower or 0) else [*tests, conditions.compare("less", slot, low)]


def _room(draft: Draft) -> int:
    """How many rows of a person a measurement counts."""
    if draft.bound is None:
        raise InternalError("what bounding left out was to be measured before anything was bounded")
    return min(ROOM * draft.bound.groups * draft.bound.rows, _MOST_ROWS)


def left_out(
    measurement: Measurement,
    release: Release,
    released: "pyarrow.Table",
    whole: Release,
    counted: "pyarrow.Table",
    sure: Fraction,
) -> str:
    """What bounding or clamping took from a release, in words, with an interval.

    Guarantee: the interval holds what was left out of the rows of which the measurement speaks, with probability
    `sure`. Proof. It is the difference of a number of the whole and one that adds up the same over all groups. Each
    noisy part of it, of which there are at most three, is within its width except with an equal share of 1 − sure: a
    sum over groups by Chernoff's bound (`width_of_sum`).
    """
    total = int(numbers_of(counted.column("m0"))[0])
    if measurement.what == "clamped":
        return _clamped(measurement, total, whole.noises[0].interval(sure), sure)
    indices, weights, step = _parts(measurement, release)
    failure = (1 - sure) / (1 + len(indices))
    kept, width = 0, whole.noises[0].interval(1 - failure)
    for place, weight in zip(indices, weights, strict=True):
        counts = numbers_of(released.column(f"m{place}"))
        groups = release.group.size if release.group.size is not None else len(counts)
        kept += weight * int(counts.sum())
        width += abs(weight) * width_of_sum(release.noises[place], groups, failure)
    return _words(measurement, release, whole, (total, total - kept, width), step, sure)


def _parts(measurement: Measurement, release: Release) -> tuple[tuple[int, ...], tuple[int, ...], Fraction]:
    """The measures that a measured number is made of, with their weights, and its step."""
    if measurement.what != "sum":
        return (measurement.number,), (1,), Fraction(1)
    number = release.derived[measurement.number]
    match number:
        case Direct(measure=measure, step=step):
            return (measure,), (1,), step
        case Total(total=total, count=count, step=step, offset=offset):
            return (total, count), (1, offset), step
    raise InternalError("what bounding took from something else than a sum was measured")


def _words(
    measurement: Measurement, release: Release, whole: Release, sizes: tuple[int, int, int], step: Fraction,
    sure: Fraction,
) -> str:  # fmt: skip
    """What was left out: `sizes` are the whole, the difference and the width of its interval, in steps."""
    total, gap, width = sizes
    measure = whole.aggregate.measures[0]
    signed = isinstance(measure, Sum) and (measure.kind.lower or 0) < 0
    floor = -inf if signed else 0
    total = total if signed else max(total, 1)
    about, least, most = (max(floor, end) for end in (gap, gap - width, gap + width))
    share = 100 * min(max(about / total, 0), 1) if total else 0.0
    also = " or lie in groups that were not named" if release.selection is not None else ""
    what, left, most_measured = {
        "rows": ("rows", "a count", f"{whole.aggregate.source.rows:,} rows"),
        "people": (f"the {measurement.name}, all groups added up", "it",
                   f"{whole.aggregate.source.rows:,} groups"),
        "sum": (f"the {measurement.name}, all groups added up", "it",
                f"{whole.aggregate.source.rows:,} rows"),
    }[measurement.what]  # fmt: skip
    shown = [_shown(value, step) for value in (about, total, least, most)]
    words = (
        f"bounding left out about {shown[0]} of {shown[1]} {'rows' if measurement.what == 'rows' else 'in ' + what} "
        f"({share:.3g} %; {shown[2]} to {shown[3]} at {100 * float(sure):g} % confidence){also}"
    )
    if signed:
        return f"{words}; where values differ in sign, that does not bound the sum of one group"
    return (
        f"{words}. Against the unbounded truth: where both intervals hold, {left} lies between the low end of its own "
        f"and the high end plus {shown[3]}, counting at most {most_measured} of a person"
    )


def _clamped(measurement: Measurement, total: int, width: int, sure: Fraction) -> str:
    least, most = max(0, total - width), max(0, total + width)
    return (
        f"about {max(total, 0):,} rows ({least:,} to {most:,} at {100 * float(sure):g} % confidence) have "
        f"{measurement.name} at a bound of the policy or beyond it: no more than these were clamped, and what lies "
        "beyond a bound is in no interval"
    )


def _shown(value: float, step: Fraction) -> str:
    return f"{value:,}" if step == 1 else f"{value * float(step):,.10g}"


def width_of_sum(noise: Noise, count: int, failure: Fraction) -> int:
    """How far the sum of so many independent noises can be from 0, with probability at least 1 − failure.

    Proof. P(|ΣX| ≥ t) ≤ 2·M(λ)^count·e^(−λt) for every λ > 0, where M is the moment generating function: of the
    geometric noise (1 − q)²/((1 − q·e^λ)(1 − q·e^(−λ))) with q = e^(−1/scale); of a Gaussian, e^(σ²λ²/2), and rounding
    moves each by at most 1/2. Any λ gives a bound; a grid of them finds a near best one. Rounded up.
    """
    target = log(2 / float(failure))
    if not isinstance(noise, Geometric):
        return ceil(float(noise.sigma) * sqrt(2 * count * target) * (1 + 1e-9) + count / 2)
    scale = float(noise.scale)
    q, best = exp(-1 / scale), inf
    for step in range(1, 400):
        rate = step / 400 / scale
        moment = 2 * log1p(-q) - log1p(-exp(rate - 1 / scale)) - log1p(-exp(-rate - 1 / scale))
        best = min(best, (count * moment + target) / rate)
    return ceil(best * (1 + 1e-6))


def _is_weighed(draft: Draft) -> bool:
    others = ("people", "distinct", "quantile", "least", "greatest")
    return unit_of(draft.rows).key is not None and any(call.function not in others for call in draft.calls)
