"""Which whole numbers are released, and how the aggregates follow from them."""

from dataclasses import replace
from fractions import Fraction

from discreet.errors import InternalError
from discreet.sql.algebra import Count, Measure, People, Sum
from discreet.sql.asked import Asked
from discreet.sql.draft import Derived, Direct, Draft, Mean, Total
from discreet.sql.expression import Expression
from discreet.sql.kinds import Fixed

_ONE = Fraction(1)


def choose_measures(draft: Draft) -> Draft:
    """Each aggregate from as few measures as possible; equal measures are released once.

    A mean is the middle of the bounds plus (sum of distances from the middle) ÷ count: the sum about the middle is
    half as sensitive, and the same rows weigh in both. Where the mean of a value is asked for, its sum is taken from
    the same two measures instead of a third.
    """
    measures: list[Measure] = []
    centered = {wanted.value for wanted in draft.asked if wanted.function == "mean"}
    derived = tuple(_derived(wanted, measures, centered) for wanted in draft.asked)
    return replace(draft, measures=tuple(measures), derived=derived)


def _derived(wanted: Asked, measures: list[Measure], centered: set[Expression | None]) -> Derived:
    value = wanted.value
    if wanted.function == "people":
        return Direct(_place(measures, People(value)), _ONE)
    if wanted.function == "count" or value is None:
        return Direct(_place(measures, Count(value)), _ONE)
    kind = value.kind
    if not isinstance(kind, Fixed) or kind.lower is None or kind.upper is None:
        raise InternalError("a sum without bounds reached the rules")
    if value not in centered:
        return Direct(_place(measures, Sum(value, 0)), kind.step)
    middle = (kind.lower + kind.upper) // 2
    total = _place(measures, Sum(value, middle))
    count = _place(measures, Count(value if value.nullable else None))
    if wanted.function == "mean":
        return Mean(total, count, kind, middle)
    return Total(total, count, kind.step, middle)


def _place(measures: list[Measure], measure: Measure) -> int:
    if measure not in measures:
        measures.append(measure)
    return measures.index(measure)
