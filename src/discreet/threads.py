"""How many threads matrix products use while a model is trained or a table is fitted.

Such products are small. Shared among all cores they are little quicker on an idle machine, and on a busy one
threads wait for one another, at full speed: several times the processor time for the same result. So one is
the default.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from discreet.exact import integer


@contextmanager
def blas_threads(count: int | None) -> Iterator[None]:
    """Have matrix products use so many threads meanwhile; None leaves them alone.

    BLAS has one setting for the whole process. The first who asks sets it, and it holds until the last of those who
    asked has left: products that are under way in another thread do not see it change.

    >>> with blas_threads(1):
    ...     pass
    """
    if count is None:
        yield
        return
    _SETTING.enter(integer(count, "threads", at_least=1, at_most=1 << 10))
    try:
        yield
    finally:
        _SETTING.leave()


def threads_in_force() -> tuple[int, ...]:
    """How many threads each BLAS of this process uses, within `blas_threads`; () if nobody asked.

    What is learned about the rounding of products holds for this setting.

    >>> threads_in_force()
    ()
    """
    return _SETTING.in_force


@dataclass(slots=True)
class _Setting:
    """The setting of the process, and how many rely on it."""

    lock: Any = field(default_factory=Lock)
    users: int = 0
    libraries: Any = None
    modules: int = 0
    limits: Any = None
    in_force: tuple[int, ...] = ()

    def enter(self, count: int) -> None:
        with self.lock:
            if not self.users:
                self._look()
                self.limits = self.libraries.limit(limits=count)
                # as it is, not as was asked: not every thread may change it
                self.in_force = tuple(each["num_threads"] for each in self.libraries.info())
            self.users += 1

    def _look(self) -> None:
        """Find the BLAS libraries of the process, again only if modules were imported: a library comes with one."""
        from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

        if self.libraries is None or self.modules != len(sys.modules):
            self.libraries = ThreadpoolController().select(user_api="blas")
            self.modules = len(sys.modules)

    def leave(self) -> None:
        with self.lock:
            self.users -= 1
            if not self.users:
                self.limits.restore_original_limits()
                self.limits, self.in_force = None, ()


_SETTING = _Setting()
