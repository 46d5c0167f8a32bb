"""Loops that are compiled where numba is installed (the extra `fast`); elsewhere NumPy does the same work.

A loop stands beside NumPy code that does the same, and is used once `prepare` has been told of enough work: compiling
takes seconds the first time on a machine, loading what was compiled about a second in each process. What is decided
here must not depend on private numbers: callers pass public sizes, or sizes of what is public anyway.

>>> from discreet.compiled import loop
>>> @loop()
... def doubled(numbers):
...     for place in range(numbers.size):
...         numbers[place] *= 2
>>> doubled.fast is None  # nobody has prepared
True
"""

import os
from collections.abc import Callable
from typing import Any

ENOUGH = 1_000_000_000
"""Elementary operations from which on loading compiled loops is worth its time: some seconds of work in NumPy."""


class Loop:
    """A function of arrays and numbers that can be compiled."""

    def __init__(self, function: Callable[..., Any], *, reorder: bool) -> None:
        self._function, self._reorder = function, reorder
        self._compiled: Callable[..., Any] | None = None

    @property
    def fast(self) -> Callable[..., Any] | None:
        """The compiled function, if compiling is possible and was prepared."""
        if self._compiled is None and _State.numba is not None:
            flags: Any = {"reassoc"} if self._reorder else False
            self._compiled = _State.numba.njit(self._function, cache=True, nogil=True, fastmath=flags)
        return self._compiled if _State.numba is not None else None


class _State:
    numba: Any = None


def loop(*, reorder: bool = False) -> Callable[[Callable[..., Any]], Loop]:
    """Mark a function as one that can be compiled; with `reorder`, sums of floats may be added up in any order."""
    return lambda function: Loop(function, reorder=reorder)


def prepare(operations: int) -> bool:
    """Compile from now on, if so much work is worth it and numba is installed; whether loops are compiled.

    The environment variable DISCREET_COMPILED=0 forbids it.

    >>> prepare(1000)
    False
    """
    if operations >= ENOUGH and _State.numba is None and os.environ.get("DISCREET_COMPILED", "1") != "0":
        try:
            import numba
        except ImportError:
            return False
        _State.numba = numba
    return _State.numba is not None
