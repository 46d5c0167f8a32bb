"""Group commit, for stores that make works durable: waiting callers share the wait for the disk."""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Any, Self, TypeVar

from discreet.curator.stores import Rows
from discreet.errors import LedgerError, LedgerUnavailable

T = TypeVar("T")

MOST_WORKS, MOST_SECONDS = 256, 0.02
"""The bounds of one batch, so that everybody gets a turn."""


class GroupCommit(ABC):
    """A queue of works and one writer thread that runs all that are waiting as one batch, made durable at once.

    Making a transaction durable costs milliseconds of waiting for the disk; callers share that. They wake when their
    batch is durable, or has failed. A store says in `_commit` how a batch is run and in `_release` how it lets go.

    A caller may be interrupted (Ctrl-C) between any two steps of Python, also inside `with condition:`, and must not
    leave a lock behind that the writer needs. So the two meet only in locks and queues that are single steps.
    """

    _BUSY = "the ledger is locked by another program for too long; nothing was charged; end that program or try later"
    _CLOSED = "this ledger is closed; open it again"

    _first: "Job | None"
    _taken: "list[Job]"
    _writer: threading.Thread | None

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._closed = False
        self._start_anew()

    @abstractmethod
    def _commit(self) -> None:
        """Run what `_waiting_works` gives, durably. `LedgerError`: nothing of the batch was kept."""

    @abstractmethod
    def _release(self) -> None:
        """Let go of files and connections; the next batch may take them again."""

    def transact(self, work: Callable[[Rows], T]) -> T:
        """Run the work in the next batch; when this returns, what it wrote is durable."""
        if self._writer is threading.current_thread():
            raise LedgerUnavailable("a work called transact again; a work uses only the rows that it is given")
        job = Job(work)
        try:
            self._ensure_writer()
            self._queue.put(job)
            self._wait_for(job)
        except BaseException:
            job.claim()  # an interrupted caller's work does not run, unless it is running already
            raise
        if job.error is not None:
            raise job.error
        result: T = job.result
        return result

    def close(self) -> None:
        """Finish what is queued and let go. A closed store refuses further works."""
        self._closed = True
        self._queue.put(None)
        if self._writer is not None and self._writer is not threading.current_thread():
            self._writer.join(self._patience)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ensure_writer(self) -> None:
        with self._starting:
            if self._closed:
                raise LedgerUnavailable(self._CLOSED)
            if self._writer is None or not self._writer.is_alive():
                self._writer = threading.Thread(target=self._serve, name="ledger writer", daemon=True)
                try:
                    self._writer.start()
                except RuntimeError as error:  # no more threads, or the interpreter is ending
                    raise LedgerUnavailable(f"the ledger's writer cannot be started: {error}") from None

    def _wait_for(self, job: "Job") -> None:
        """Give up while the work is only waiting, never while it may be committed already."""
        deadline = time.monotonic() + self._patience
        while not job.done.acquire(timeout=0.1):
            if self._writer is None or not self._writer.is_alive():
                if job.done.acquire(blocking=False):
                    return
                if not job.claim():
                    raise LedgerUnavailable("the ledger's writer was stopped; the charge may have been made")
                raise LedgerUnavailable(self._CLOSED if self._closed else "the ledger's writer was stopped; try again")
            if time.monotonic() > deadline and job.claim():
                raise LedgerUnavailable(self._BUSY)

    def _serve(self) -> None:
        """The writer thread: one batch after another until the store is closed."""
        with self._starting:
            if self._writer is not threading.current_thread():
                return  # whoever started this thread was interrupted, and another one was started
        error: LedgerError = LedgerUnavailable(self._CLOSED)
        try:
            while (job := self._queue.get()) is not None:
                self._first = job
                try:
                    self._commit()
                    self._finish(None)
                except LedgerError as trouble:
                    self._finish(trouble)
        except BaseException as stop:  # whatever ends this thread, nobody waits for it in vain
            error = LedgerUnavailable(f"the ledger's writer was stopped by {stop!r}; try again")
        finally:
            self._finish(error)
            self._release()

    def _waiting_works(self) -> Iterator["Job"]:
        """The works of this batch: those that wait and those that come meanwhile, within bounds."""
        end = time.monotonic() + MOST_SECONDS
        while (job := self._next()) is not None:
            if job.claim():
                self._taken.append(job)
                yield job
            if len(self._taken) >= MOST_WORKS or time.monotonic() > end:
                return

    def _next(self) -> "Job | None":
        """The next job that waits, if any; the word to close is left for `_serve`."""
        job, self._first = self._first, None
        if job is None and not self._queue.empty() and (job := self._queue.get()) is None:
            self._queue.put(None)
        return job

    def _finish(self, error: LedgerError | None) -> None:
        """Wake the callers of a batch; after an error, all that wait. Who failed by himself is told his own error."""
        taken, self._taken = self._taken, []
        while error is not None and (job := self._next()) is not None:
            taken += [job] if job.claim() else []
        for job in taken:
            job.error = job.error or (error and type(error)(str(error)))
            job.done.release()

    def _start_anew(self) -> None:
        """The state of a store that has done nothing yet in this process."""
        self._starting = threading.Lock()
        self._queue: SimpleQueue[Job | None] = SimpleQueue()
        self._first, self._taken, self._writer = None, [], None


class Job:
    """A work, and what came of it. Whoever claims it first decides: the writer to run it, its caller to withdraw it."""

    __slots__ = ("_claimed", "done", "error", "result", "work")

    def __init__(self, work: Callable[[Rows], Any]) -> None:
        self.work = work
        self.result: Any = None
        self.error: BaseException | None = None
        self.done, self._claimed = threading.Lock(), threading.Lock()
        self.done.acquire()  # released when there is an outcome

    def claim(self) -> bool:
        """Whether this is the first claim."""
        return self._claimed.acquire(blocking=False)
