"""When answers leave: at steps of a time grid, since the time that an answer took depends on private rows.

The steps are 1, 2 and 5 times powers of ten seconds, from a floor on. An answer that is ready after t seconds leaves at
the next step or, at random, at the one after it: the later, the nearer t is to the next step.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import count, dropwhile
from typing import Protocol

from discreet.noise import Entropy, uniform_below

FLOOR = Fraction(1, 10)
"""Seconds: the first step, unless a policy says otherwise."""

_SECOND = 10**9


class Timer(Protocol):
    """The seam where tests inject how long things take, in nanoseconds."""

    def read(self) -> int:
        """Nanoseconds since some moment: never less than before."""

    def wait(self, nanoseconds: int) -> None:
        """Return after so long."""


class SystemTimer:
    """The machine's monotonic clock."""

    def read(self) -> int:
        """Nanoseconds since some moment."""
        return time.monotonic_ns()

    def wait(self, nanoseconds: int) -> None:
        """Sleep."""
        time.sleep(max(nanoseconds, 0) / _SECOND)


class ManualTimer:
    """A timer that runs only when it is told to, or waited for.

    >>> timer = ManualTimer()
    >>> timer.wait(5)
    >>> timer.read(), timer.waits
    (5, [5])
    """

    def __init__(self) -> None:
        self.time = 0
        self.waits: list[int] = []

    def read(self) -> int:
        """What was waited and added so far."""
        return self.time

    def wait(self, nanoseconds: int) -> None:
        """Let time pass, and note that it was waited for."""
        self.time += nanoseconds
        self.waits.append(nanoseconds)


@dataclass(frozen=True, slots=True)
class Pace:
    """The time grid of one dataset; with a floor of 0, answers leave when they are ready.

    Guarantee: where one unit changes how long an answer takes from s to t seconds, what can be seen of when it leaves
    changes by a total variation of at most |s − t|/w, with w the least width of a grid cell between them: at least the
    floor, and at least half of the smaller of s and t. Proof. Within the cell from a to b, an answer that is ready
    after t leaves at b with probability (b − t)/(b − a), and otherwise at the step after b: linear in t, of slope
    1/(b − a); at t = b both cells say the step after b, so nothing jumps. Cells are not narrower than half of their end
    (1 to 2, 2 to 5, 5 to 10), and the first is the floor.

    It is a delay that makes the time of a stable program private (Ratliff, Vadhan 2024), here a short one, at the price
    of a δ.
    """

    floor: Fraction = FLOOR
    timer: Timer = field(default_factory=SystemTimer)
    entropy: Entropy | None = None

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Let the block end, in whatever way, at a step of the grid from its beginning."""
        start = self.timer.read()
        try:
            yield
        finally:
            if self.floor:
                leaving = self.leaving(self.timer.read() - start)
                self.timer.wait(start + leaving - self.timer.read())

    def leaving(self, elapsed: int) -> int:
        """When something leaves that was ready after so many nanoseconds, in nanoseconds from the same start.

        >>> Pace(Fraction(1, 10)).leaving(0), Pace(Fraction(1, 10)).leaving(200_000_000)
        (100000000, 500000000)
        """
        before, steps = 0, _steps(self.floor)
        while (step := next(steps)) <= elapsed:
            before = step
        late = uniform_below(step - before, entropy=self.entropy) < elapsed - before
        return next(steps) if late else step


def _steps(floor: Fraction) -> Iterator[int]:
    """The steps of the grid from a floor on, in nanoseconds."""
    grid = (digit * 10**power for power in count() for digit in (1, 2, 5))
    return dropwhile(lambda step: step < floor * _SECOND, grid)
