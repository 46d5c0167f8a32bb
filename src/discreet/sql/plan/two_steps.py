"""Errors that depend on sizes: a first release finds how large the answers are, a second is priced from them.

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
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.errors import InvalidParameter, InvalidQuery
from discreet.exact import Number, plain, rational
from discreet.mechanisms.mechanism import failure_probability
from discreet.privacy.accounting.rounding import decimal_up
from discreet.sql.algebra.rules import Bin, Derived, Direct, Mean, Named, Total
from discreet.sql.plan.price import is_relative
from discreet.sql.plan.query_plan import QueryPlan
from discreet.sql.release.release import Release

if TYPE_CHECKING:
    import pyarrow

FIRST_SHARE = Fraction(1, 10)
_SIZES = Fraction(1, 10)
"""The part of the failure probability that the sizes have."""
_NARROWINGS = 12


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
    for release in first.releases:
        if release.selection is not None:
            hint = "let the policy declare their values, or state epsilon alone"
            raise InvalidQuery("groups that come from the data may differ in the two steps of an error", hint)
        if not all(isinstance(number, Direct | Mean | Total) for number in release.derived):
            hint = "state epsilon alone: the interval of the answer says how far it can be"
            raise InvalidQuery("only counts, sums and averages can be planned by their error", hint)


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
    priced: Callable[[Fraction], QueryPlan],
) -> tuple[Fraction, Fraction]:  # fmt: skip
    """The least ε, to a part in a few hundred, at which all numbers are within the error, and the confidence of each.

    It is at most `most`; and that of the first release where this one is exact enough: then it is the answer.
    """
    failure = failure_probability(first.confidence)
    rooms = [
        [_room(release, table, number, wanted, failure * _SIZES) for number in release.derived]
        for release, table in zip(first.releases, noisy, strict=True)
    ]

    def within(plan: QueryPlan, failure: Fraction) -> bool:
        return all(
            _fits(release, number, room, failure)
            for release, of_release in zip(plan.releases, rooms, strict=True)
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


def _room(
    release: Release, table: "pyarrow.Table", number: Derived, wanted: WantedError, failure: Fraction
) -> Room:  # fmt: skip
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
        case _:
            raise InvalidQuery("only counts, sums and averages can be planned by their error", "state epsilon alone")
    allowed = float(wanted.size) * (np.abs(values) - wide / rows) if wanted.relative else float(wanted.size) * least**0
    center = number.offset * float(number.kind.step) if isinstance(number, Mean) else 0.0
    span = np.abs(values - center) + wide / rows
    told = (allowed > 0) & (least > 0)
    if not told.any():
        hint = "state more epsilon, an absolute error, or group by less"
        raise InvalidQuery("the first release cannot tell the answer from nothing, so no error can be promised", hint)
    return allowed[told], least[told], span[told]


def _fits(release: Release, number: Derived, room: Room, failure: Fraction) -> bool:
    allowed, least, span = room
    wide, far = _error(release, number, failure, span)
    rows = least - far if isinstance(number, Mean) else least
    return bool(np.all(rows > 0) and np.all(wide <= allowed * rows))


def _error(release: Release, number: Derived, failure: Fraction, span: Any = np.inf) -> tuple[Any, float]:
    """How far the noise takes a number (a mean: times its noisy rows), and how far it takes its rows.

    A mean o + S/N becomes o + (S + a)/(N + b), which is off by (a − b·S/N)/(N + b), and |S/N| is at most the larger
    distance of the bounds from o, and at most the span, where one is known.
    """
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
