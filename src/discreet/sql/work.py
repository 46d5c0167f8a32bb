"""How long an operation can take on one row, and how much of that one plan may ask for.

A statement is public and a row is not: time that a row can choose is time that tells of a person. So every operation
has a price, the most nanoseconds that it takes on any row, from the lengths that texts can have. The prices were
measured (docs/decisions/0018-the-clock.md) and hold a margin. Everything that is asked together, added up, stays below
`MOST`, and what conditions alone can switch on or off stays below `SWITCHED` (`duckdb.write`).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from discreet.sql.kinds import Text

if TYPE_CHECKING:
    from discreet.sql.expression import Expression

MOST = 100_000
"""Nanoseconds: a plan may need no more on one row, a thousandth of the time floor that policies have by default."""

SWITCHED = 1_000
"""Nanoseconds: where a plan needs more on one row, every row pays for all of it, whatever conditions say of it."""

GATES = frozenset({"case", "coalesce", "and", "or"})
"""Operations that DuckDB evaluates only as far as a row needs them."""

_PRICES = {
    "floor": 40, "modulo": 5, "least": 5, "greatest": 5, "truncate": 15, "to_day": 10, "year": 25, "quarter": 25,
    "month": 25, "week": 25, "day": 25, "dayofyear": 25, "dayofweek": 25, "isodow": 25, "hour": 25, "minute": 25,
    "second": 25,
}  # fmt: skip
_ORDINARY = 2

_TENTHS_PER_CHARACTER = {"lower": 70, "upper": 70, "trim": 35, "length": 2, "substring": 10, "concatenate": 5}
_COMPARISONS = frozenset({"equal", "differ", "less", "less_equal", "greater", "greater_equal"})
_GROUPED = 5
"""Tenths of nanoseconds for each character of a key: hashed, compared and kept."""


def work_of(operation: str, arguments: Sequence["Expression"]) -> int:
    """The most nanoseconds that an operation takes on one row, its arguments aside.

    >>> from discreet.sql.expression import constant
    >>> work_of("lower", [constant("a" * 100)]), work_of("add", [constant(1), constant(2)])
    (702, 2)
    """
    texts = [length_of(argument) for argument in arguments if isinstance(argument.kind, Text)]
    if operation in _TENTHS_PER_CHARACTER:
        return _ORDINARY + -(-sum(texts) * _TENTHS_PER_CHARACTER[operation] // 10)
    if operation in ("like", "ilike"):
        return _ORDINARY + _like(operation, arguments)
    if operation == "in":
        return _ORDINARY + len(arguments) * (20 + min(texts) // 20 if texts else 1)
    if operation in _COMPARISONS and texts:
        return 15 + min(texts) // 10
    return _PRICES.get(operation, _ORDINARY)


def work_of_key(key: "Expression") -> int:
    """The most nanoseconds that grouping by a key takes on one row.

    >>> from discreet.sql.expression import constant
    >>> work_of_key(constant("a" * 1000))
    502
    """
    return _ORDINARY + length_of(key) * _GROUPED // 10


def length_of(value: "Expression") -> int:
    """The most characters that a value has; 0 where it is no text."""
    return value.kind.length if isinstance(value.kind, Text) else 0


def _like(operation: str, arguments: Sequence["Expression"]) -> int:
    """Whole pieces of a pattern are searched for; with "_" in it, every place is tried. ILIKE lowers the text first."""
    size, pattern = length_of(arguments[0]), getattr(arguments[1], "value", "")
    lowered = 7 * size if operation == "ilike" else 0
    return lowered + size * (3 * len(pattern) if "_" in pattern else 6)
