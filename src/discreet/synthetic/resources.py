"""How much memory and time a synthesis takes, said before anything is spent."""

from collections.abc import Sequence
from math import ceil

TYPICAL = 10
"""A fit takes a tenth of its steps, as a rule."""

MANY_ROWS = 100_000
"""The rows for which it is said what a synthesis needs, where nobody says how many there are."""

_SWEEPS = 40  # of exchanges, when rows are drawn


def rows_needed(sizes: Sequence[int], *, rows: int, soft: int) -> tuple[int, float]:
    """About how many bytes and seconds reading, counting and drawing so many rows take, beside the fit.

    Measured on tables of 3,000 to 300,000 rows and 5 to 30 columns. A process that has read one row needs some 190 MB.

    >>> rows_needed((13,) * 12, rows=300_000, soft=1000)[0] // 10**6
    305
    """
    wide = len(sizes)
    seconds = 0.7 + rows * wide * (1e-7 + 1.6e-8 * wide) + 2e-8 * _SWEEPS * soft * wide * wide
    return 190 * 10**6 + 32 * rows * wide, seconds


def needed(memory: int, seconds: float, *, people: int | None, most: float) -> dict[str, str]:
    """What a synthesis needs, in words.

    >>> needed(250_000_000, 3.2, people=None, most=12.0)["memory"]
    'about 250 MB for 100,000 rows'
    """
    for_many = f" for {MANY_ROWS:,} rows" if people is None else ""
    return {
        "memory": f"about {ceil(memory / 1e6):,} MB{for_many}",
        "time": f"about {ceil(seconds):,} s of one core{for_many}, at most {ceil(seconds + most):,} s",
    }
