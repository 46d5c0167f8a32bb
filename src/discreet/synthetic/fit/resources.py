"""How much memory and time a synthesis takes, said before anything is spent."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from math import ceil

import numpy as np

from discreet.synthetic.fit.relaxed import Settings, memory_needed, soft_rows
from discreet.synthetic.measure.noisy_marginals import Attributes, cells
from discreet.threads import blas_threads

MANY_ROWS = 100_000
"""The rows for which it is said what a synthesis needs, where nobody says how many there are."""

_TYPICAL = 100  # steps of a fit; fits of tables and generated tables took 30 to 250
_SWEEPS, _PAIRS = 320, 2048  # of exchanges, when rows are drawn
_PASSES = 13  # over the soft table in a step, beside its products, each as long as one of exp
_PROBE = (1024, 256)
_USUAL = 2e11  # operations of a product a second where reading and drawing were measured


@dataclass(frozen=True, slots=True)
class Needs:
    """Bytes, and seconds of one core: as a rule, and at most."""

    memory: int
    seconds: float
    most: float

    def words(self, people: int | None) -> dict[str, str]:
        """What a synthesis needs, in words.

        >>> Needs(250_000_000, 3.2, 12.0).words(None)["memory"]
        'about 250 MB for 100,000 rows'
        """
        for_many = f" for {MANY_ROWS:,} rows" if people is None else ""
        return {
            "memory": f"about {ceil(self.memory / 1e6):,} MB{for_many}",
            "time": f"about {ceil(self.seconds):,} s of one core{for_many}, at most {ceil(self.most):,} s",
        }


@dataclass(frozen=True, slots=True)
class Speed:
    """What one core of a machine does: floating-point operations of a product, and entries of a pass, in a second."""

    product: float
    entries: float


def needs(
    sizes: Sequence[int],
    marginals: Sequence[Attributes],
    settings: Settings,
    *,
    people: int | None,
    rows_each: int = 1,
    fits: int = 1,
    speed: Speed | None = None,
) -> Needs:
    """About what reading, counting, fitting and drawing take.

    Reading and drawing were measured on tables of 3,000 to 300,000 rows and 5 to 30 columns, on a machine that does
    2·10¹¹ operations of a product a second; a process that has read one row needs some 190 MB.

    >>> found = needs((13,) * 12, [], Settings(), people=300_000, speed=Speed(2e11, 4e9))
    >>> found.memory // 10**6, found.seconds < found.most
    (335, True)
    """
    here = speed or measured_speed()
    rows, wide, width = (people or MANY_ROWS) * rows_each, len(sizes), sum(sizes)
    soft = settings.rows or soft_rows(rows, sizes)
    reading = 0.7 + rows * wide * (1e-7 + 1.6e-8 * wide)
    trying = min(_PAIRS, rows // 32) * wide * 6e-9 + 3e-5
    drawing = _SWEEPS * (wide * trying + 4e-9 * width * width)
    around = (reading + drawing) * (_USUAL / here.product) ** 0.5
    products = 4.0 * soft * width * width + sum(6.0 * soft * cells(each, sizes) for each in marginals if len(each) > 2)
    step = products / here.product + _PASSES * soft * width / here.entries
    memory = 190 * 10**6 + 32 * rows * wide + memory_needed(sizes, marginals, rows=soft)
    usual = min(_TYPICAL, settings.iterations)
    return Needs(memory, around + fits * usual * step, around + fits * settings.iterations * step)


@cache
def measured_speed() -> Speed:
    """The speed of this machine, from a few products and passes of the kind that fits are made of: some 10 ms."""
    soft = np.full(_PROBE, 0.5, np.float32)
    with blas_threads(1):
        products = min(_timed(lambda: soft.T @ soft) for _ in range(5))
        passes = min(_timed(lambda: np.exp(soft)) for _ in range(5))
    return Speed(2.0 * soft.size * _PROBE[1] / products, soft.size / passes)


def _timed(work: Callable[[], object]) -> float:
    before = time.perf_counter()
    work()
    return max(time.perf_counter() - before, 1e-7)
