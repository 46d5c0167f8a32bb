"""Work that takes a while: synthetic tables, models, maps, audits. It waits its turn, runs, and can be asked after.

A job is kept in memory: after a restart it is gone, but what it released is not. The same request again is free.
"""

import dataclasses
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import MISSING, dataclass, field
from functools import cache
from typing import Any, Literal, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from discreet import requests
from discreet.curator.curator import OWNER
from discreet.errors import DiscreetError, InternalError, InvalidParameter, ServerUnavailable
from discreet.server.problems import public
from discreet.server.service import Limits
from discreet.server.session import Session
from discreet.server.tokens import Token, random_bytes
from discreet.server.uploads import uploaded_table
from discreet.wire import REQUESTS, TABLES, decimal, question_of

State = Literal["waiting", "running", "done", "failed", "canceled"]

_REMEMBERED = 1000
_FOR_SECONDS = 86_400


@dataclass
class Job:
    """One piece of work of one caller."""

    kind: str
    dataset: str
    caller: str
    request: Any
    id: str = field(default_factory=lambda: random_bytes(16).hex())
    created: float = field(default_factory=time.time)
    state: State = "waiting"
    started: float | None = None
    ended: float | None = None
    result: Any = None
    error: DiscreetError | None = None
    progress: float | None = None

    def to_json(self) -> dict[str, Any]:
        """What a caller is told of it."""
        document = {"id": self.id, "kind": self.kind, "dataset": self.dataset, "state": self.state}
        words = {
            "waiting": "it waits for its turn; nothing is charged yet",
            "running": "it runs and can no longer be canceled; once it is charged, what it releases is kept",
            "done": "it is done",
            "failed": str(self.error or ""),
            "canceled": "it was canceled before it began; nothing was charged",
        }
        seconds = None if self.started is None else round((self.ended or time.time()) - self.started, 1)
        return document | {
            "progress": 1.0 if self.state == "done" else self.progress,
            "seconds": seconds,
            "words": words[self.state],
        }


def request_of(kind: str, fields: Mapping[str, Any]) -> Any:
    """The request of a job, from the fields of a JSON document.

    >>> request_of("bounds", {"table": "visits", "epsilon": 0.1}).epsilon
    '0.1'
    """
    if kind == "question":
        return question_of(fields)
    if kind not in REQUESTS:
        raise InvalidParameter("kind", kind, f"one of question, {', '.join(REQUESTS)}")
    try:
        _fields_of(kind).model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        where = ".".join(str(part) for part in first["loc"][:1]) or "request"
        raise InvalidParameter(
            where, first["type"], f"the fields of {REQUESTS[kind].__name__}: {first['msg']}"
        ) from None
    tables = {name: uploaded_table(fields[name], name) for name in TABLES if name in fields}
    return REQUESTS[kind](**{name: decimal(value) for name, value in fields.items()} | tables)


@cache
def _fields_of(kind: str) -> type[BaseModel]:
    """The types that the fields of a kind of request have."""
    hints, shape = get_type_hints(REQUESTS[kind]), ConfigDict(extra="forbid")
    known: dict[str, Any] = {
        field.name: (hints[field.name], ... if field.default is field.default_factory is MISSING else None)
        for field in dataclasses.fields(REQUESTS[kind])
    }
    return create_model(REQUESTS[kind].__name__, __config__=shape, **known)


def planned(session: Session, request: Any) -> Any:
    """The plan of a job. What is inside its fields and does not fit is refused: planning has touched no row."""
    try:
        return session.data.plan(request)
    except TypeError:
        OWNER.exception("a request could not be planned")
        expected = f"what discreet.requests.{type(request).__name__} says of its fields"
        raise InvalidParameter("request", "a setting that does not fit", expected) from None


def _finished(made: Any, job: Job) -> Any:
    """The result, fitted where it is a synthetic table: that takes longer than its release."""
    if not isinstance(job.request, requests.Synthesis | requests.LinkedSynthesis):
        return made
    most = made.plan.settings.iterations

    def told(*step: Any) -> None:
        job.progress = min(0.99, step[-2] / most)

    made.fit(told)
    if isinstance(job.request, requests.Synthesis):
        made.table  # noqa: B018 (drawn once, and kept)
    return made


class Jobs:
    """The jobs of a server: a few run at a time, the others wait in the order in which they came."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._pool = ThreadPoolExecutor(limits.jobs, thread_name_prefix="job")
        self._lock = threading.Lock()
        self._jobs: dict[str, tuple[Job, Future[None]]] = {}

    def start(self, session: Session, kind: str, request: Any) -> Job:
        """Put a job in the queue. It is planned first, so that what cannot be done is refused at once, for free."""
        if kind == "question":
            session.check(request)
            work: Callable[[], Any] = lambda: session.answers(request)  # noqa: E731
        else:
            planned(session, request)
            work = lambda: session.release(request)  # noqa: E731
        job = Job(kind, session.place.name, session.token.id, request)
        with self._lock:
            self._forget()
            open_ = [j for j, _ in self._jobs.values() if j.caller == job.caller and j.state in ("waiting", "running")]
            if len(open_) >= self._limits.waiting_jobs:
                raise ServerUnavailable(
                    f"{len(open_)} jobs of this token wait or run; nothing was charged; wait for one"
                )
            self._jobs[job.id] = (job, self._pool.submit(self._run, job, session, work))
        return job

    def find(self, name: str, tokens: Mapping[str, Token]) -> Job:
        """A job of this caller."""
        entry = self._jobs.get(name)
        token = tokens.get(entry[0].dataset) if entry else None
        if entry is None or token is None or token.id != entry[0].caller:
            raise InvalidParameter("job", name, "a job of this token", "after a restart, start it anew: it is free")
        return entry[0]

    def cancel(self, job: Job) -> Job:
        """Take a job out of the queue; one that runs is charged, and goes on."""
        if self._jobs[job.id][1].cancel():
            job.state, job.ended = "canceled", time.time()
        return job

    def close(self) -> None:
        """Drop what waits, and let what runs come to its end: it is charged."""
        for job, future in list(self._jobs.values()):
            if future.cancel():
                job.state = "canceled"
        self._pool.shutdown(wait=True)

    def _run(self, job: Job, session: Session, work: Callable[[], Any]) -> None:
        job.state, job.started = "running", time.time()
        try:
            session.check_still_valid()
            job.result = _finished(work(), job)
            job.state = "done"
        except DiscreetError as error:
            job.error, job.state = public(error), "failed"
        except Exception:
            OWNER.exception("a job failed")
            job.error, job.state = InternalError("the job failed; the owner finds the reason in the log"), "failed"
        finally:
            job.ended = time.time()

    def _forget(self) -> None:
        old = time.time() - _FOR_SECONDS
        ended = [name for name, (job, _) in self._jobs.items() if job.ended is not None]
        late = [name for name in ended if (self._jobs[name][0].ended or 0) < old]
        for name in {*late, *ended[: max(0, len(self._jobs) - _REMEMBERED)]}:
            del self._jobs[name]
