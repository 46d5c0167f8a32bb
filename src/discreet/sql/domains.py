"""Groups that are known in advance: their places in the answer, and their names."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InternalError
from discreet.mechanisms.grid import Grid
from discreet.sql import columns
from discreet.sql.algebra import Group, Key
from discreet.sql.expression import Domain
from discreet.sql.kinds import MOST, Day, Fixed, Kind, Moment, Text, Truth

if TYPE_CHECKING:
    import pyarrow

Places = NDArray[np.int64]


def places(group: Group, found: "pyarrow.Table") -> tuple[Places, NDArray[np.bool_]]:
    """Where each row that an engine found belongs among all groups; rows outside the declared domain are left out.

    The groups are counted like digits: the last key changes fastest; null comes after the values of a key.
    """
    place = np.zeros(found.num_rows, np.int64)
    inside = np.ones(found.num_rows, np.bool_)
    for i, key in enumerate(group.keys):
        digit, known = _digits(key, found.column(f"k{i}"))
        place = place * (key.size or 1) + digit
        inside &= known
    return place[inside], inside


def names(group: Group) -> "list[pyarrow.Array]":
    """The keys of all groups, one array a key, in the order of `places`."""
    total, after = group.size or 1, 1
    arrays = []
    for key in reversed(group.keys):
        size = key.size or 1
        digits = (np.arange(total) // after) % size
        arrays.append(_values(key).take(columns.column(digits)))
        after *= size
    return arrays[::-1]


def shown(key: Key, steps: "pyarrow.ChunkedArray") -> Any:
    """Keys that an engine gave, as the analyst sees them: numbers of steps become numbers."""
    if not isinstance(key.value.kind, Fixed) or key.value.kind.step == 1:
        return steps
    absent = columns.missing(steps)
    whole = np.where(absent, 0, columns.numbers(steps))
    return columns.column(_numbers(key.value.kind, whole), absent)


def arrow_type(kind: Kind) -> Any:
    """The Arrow type of an expression as the analyst sees it."""
    import pyarrow as pa

    match kind:
        case Fixed():
            return pa.int64() if _whole(kind) else pa.float64()
        case Truth():
            return pa.bool_()
        case Text():
            return pa.string()
        case Day():
            return pa.date32()
        case Moment():
            return pa.timestamp("us")
        case _:
            raise InternalError(f"a key of kind {kind} was planned")


def _digits(key: Key, column: "pyarrow.ChunkedArray") -> tuple[Places, NDArray[np.bool_]]:
    """The place of each value among the values of its key, and whether it has one."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if key.domain is None:
        raise InternalError("a declared domain was expected")
    absent = columns.missing(column)
    if isinstance(key.domain, range):
        digit = np.where(absent, 0, columns.numbers(column) - key.domain.start)
        known = (digit >= 0) & (digit < len(key.domain))
    else:
        index = pc.index_in(column, value_set=columns.listed(key.domain, column.type)).cast(pa.int64())
        known = ~columns.missing(index)
        digit = np.where(known, columns.numbers(index), 0)
    if key.value.nullable:
        return np.where(absent, len(key.domain), digit), known | absent
    return digit, known & ~absent


def _values(key: Key) -> "pyarrow.Array":
    """The values of a key as the analyst sees them, null last where it can be null."""
    import pyarrow as pa

    if key.domain is None:
        raise InternalError("a declared domain was expected")
    kind = key.value.kind
    if isinstance(kind, Fixed):
        listed = columns.column(_numbers(kind, _steps(key.domain)))
    else:
        listed = columns.listed(key.domain, arrow_type(kind))
    return pa.concat_arrays([listed, pa.nulls(1, listed.type)]) if key.value.nullable else listed


def _steps(domain: Domain) -> Places:
    return np.arange(domain.start, domain.stop) if isinstance(domain, range) else np.array(domain, np.int64)


def _whole(kind: Fixed) -> bool:
    """Whether its numbers are whole, and fit 64 bits."""
    if kind.step == 1:
        return True
    ends = (kind.lower, kind.upper)
    return kind.step.denominator == 1 and all(end is not None and abs(end * kind.step) < MOST for end in ends)


def _numbers(kind: Fixed, steps: Places) -> Any:
    return steps * kind.step.numerator if _whole(kind) else Grid(kind.step).floats(steps)
