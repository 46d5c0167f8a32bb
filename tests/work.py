"""Work that code does, counted in calls: the same on a quick machine and on a busy one, unlike seconds."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def calls_counted() -> Iterator[list[int]]:
    """How many functions of Python this thread calls meanwhile, as the only item of a list."""
    calls = [0]

    def count(_: object, event: str, __: object) -> None:
        calls[0] += event == "call"

    sys.setprofile(count)
    try:
        yield calls
    finally:
        sys.setprofile(None)


def growth(task: Callable[[int], object], size: int) -> float:
    """By which factor the calls of a task grow when its size doubles: 2 for linear work, 4 for quadratic work.

    The task runs once before it is counted, so that what is imported or kept at its first use does not count.
    """
    counted = []
    for times in (1, 1, 2):
        with calls_counted() as calls:
            task(times * size)
        counted.append(calls[0])
    return counted[2] / counted[1]
