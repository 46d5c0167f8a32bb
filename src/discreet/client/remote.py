"""Datasets of a server: `discreet.connect(url)` has the verbs and the `Answer` of a local `Dataset`."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from html import escape
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from discreet import wire
from discreet.client.transport import Server, Token, address_of, new_key
from discreet.errors import DiscreetError, InvalidParameter, ServerUnavailable
from discreet.exact import Number
from discreet.requests import (
    Commute,
    ContributionBounds,
    FairnessAudit,
    LinkedSynthesis,
    Question,
    Request,
    Synthesis,
    Training,
)

if TYPE_CHECKING:
    from discreet.curator.answer import Answer, Receipt
    from discreet.curator.catalog import Catalog
    from discreet.curator.reports.budget_report import BudgetReport
    from discreet.sql.plan.explain import Explanation

__all__ = ["RemoteDataset", "RemoteJob", "connect"]


def connect(
    url: str | None = None,
    *,
    token: str | None = None,
    dataset: str | None = None,
    insecure: bool = False,
    timeout: float = 330.0,
) -> "RemoteDataset":
    """A dataset of a server, for the analyst whom the token names.

    `url` and `token` are those of DISCREET_URL and DISCREET_TOKEN, if left out. `dataset` is needed where the token
    opens several; the address may name it as well, https://host/v1/datasets/clinic. Without TLS, only servers of this
    machine are spoken to, but where `insecure` says that the network is safe. `timeout`: seconds to wait for a reply.

    >>> connect("http://server.example.org", token="discreet_0")
    Traceback (most recent call last):
    discreet.errors.InvalidParameter: url: got 'http://server.example.org', expected https://, since the token...
    """
    secret = Token((os.environ.get("DISCREET_TOKEN") or "") if token is None else token)
    token = None  # reports of failures show the variables of a function
    place = address_of(os.environ.get("DISCREET_URL") if url is None else url, insecure=insecure)
    server = Server(place, secret.checked(), timeout)
    entries = _listed(server.document("GET", "/v1/datasets"))
    wanted = dataset if dataset is not None else place.dataset
    names = ", ".join(sorted(entries))
    if wanted is None and len(entries) != 1:
        raise InvalidParameter("dataset", None, f"one of those that this token opens: {names}")
    name = next(iter(entries)) if wanted is None else wanted
    if name not in entries:
        raise InvalidParameter("dataset", name, f"a dataset that this token opens: {names}")
    return RemoteDataset(server, name, str(entries[name].get("analyst", "")), str(entries[name].get("role", "")))


class RemoteDataset:
    """Private tables behind a server. Made by `discreet.connect`; it has the verbs of a local `Dataset`.

    Who asks is the name that the server knows for the token: `analyst`, in the role `role`.
    """

    def __init__(self, server: Server, name: str, analyst: str, role: str) -> None:
        self.name, self.analyst, self.role = name, analyst, role
        self._server = server
        self._path = f"/v{wire.VERSION}/datasets/{quote(name, safe='')}"
        self._catalog: Catalog | None = None

    # Questions

    def ask(
        self,
        sql: str,
        *,
        epsilon: Number | None = None,
        error: Number | None = None,
        delta: Number | None = None,
        groups: int | None = None,
        rows: int | None = None,
        confidence: Number = "0.95",
        measure_bounds: bool = False,
    ) -> "Answer":
        """The private answer to one SELECT (`Question`)."""
        request = Question(
            sql, epsilon=epsilon, error=error, delta=delta, groups=groups, rows=rows, confidence=confidence,
            measure_bounds=measure_bounds,
        )  # fmt: skip
        return self.answers(request)[0]

    def batch(
        self,
        statements: Sequence[str],
        *,
        epsilon: Number | None = None,
        error: Number | None = None,
        delta: Number | None = None,
        groups: int | None = None,
        rows: int | None = None,
        confidence: Number = "0.95",
        measure_bounds: bool = False,
    ) -> "list[Answer]":
        """The answers to several SELECTs, planned together: one ε for all, one charge, nothing released twice."""
        if isinstance(statements, str) or not statements:
            raise InvalidParameter("statements", statements, "a list of at least one statement", "use ask for one")
        request = Question(
            statements, epsilon=epsilon, error=error, delta=delta, groups=groups, rows=rows, confidence=confidence,
            measure_bounds=measure_bounds,
        )  # fmt: skip
        return self.answers(request)

    def answers(self, request: Question, *, key: str | None = None) -> "list[Answer]":
        """The answers to a question. `key` names this very request: sent again under it, it never pays twice.

        Guarantee: however often the connection is lost, at most one charge is made. Proof. Every attempt carries the
        same key, and the server charges a key once (`server.session.Session.answers`).
        """
        headers = {"Idempotency-Key": new_key() if key is None else key}
        content = self._server.content(
            "POST", f"{self._path}/ask", wire.question_document(request), accept=wire.ARROW, headers=headers
        )
        return _answers(content, request)

    def answer(self, which: str | Question) -> "Answer | list[Answer]":
        """An answer that was given before, by its id or its question; a list where several were asked together.

        It is never charged: `BudgetExceeded` where it was not given before.
        """
        question = wire.question_named(which) if isinstance(which, str) else which
        path = f"{self._path}/answers/{wire.answer_id(question)}"
        answers = _answers(self._server.content("GET", path, accept=wire.ARROW), question)
        return answers[0] if isinstance(question.sql, str) else answers

    def explain(self, request: "str | Sequence[str] | Question", **terms: Any) -> "Explanation":
        """What SQL (with the terms of a `Question`) would cost and do, and what is left. Free."""
        question = request if isinstance(request, Question) else Question(request, **terms)
        return wire.explanation_of(
            self._server.document("POST", f"{self._path}/explain", wire.question_document(question))
        )

    # Jobs

    def submit(self, request: Request) -> "RemoteJob":
        """Start a job: a long question, synthetic tables, a model, a map, bounds, an audit. Charged when it begins."""
        document = wire.request_document(request)
        made = self._server.document("POST", f"{self._path}/jobs", document, again=False)
        return RemoteJob(self._server, _text(made, "id"), request)

    def train(self, table: str, target: str, **terms: Any) -> Any:
        """Train a model as a job (`Training`) and wait for it; `submit(…).save(path)` keeps the model."""
        return self._wait_for(Training(table=table, target=target, **terms))

    def synthesize(self, table: str, **terms: Any) -> Any:
        """A synthetic table that looks like a private one (`Synthesis`), as a table of Arrow."""
        return self._wait_for(Synthesis(table=table, **terms))

    def synthesize_linked(self, tables: Mapping[str, Mapping[str, Any]] | Sequence[str], **terms: Any) -> bytes:
        """Several synthetic tables of the same people (`LinkedSynthesis`), as a zip archive of files."""
        archive: bytes = self._wait_for(LinkedSynthesis(tables=tables, **terms))
        return archive

    def commute(self, table: str, places: Any, **terms: Any) -> Any:
        """Synthetic flows between two columns of a table (`Commute`), as a table of Arrow."""
        return self._wait_for(Commute(table=table, places=places, **terms))

    def choose_bounds(self, table: str, **terms: Any) -> Any:
        """Contribution bounds and bounds of columns that suit the data (`ContributionBounds`), as a document."""
        return self._wait_for(ContributionBounds(table=table, **terms))

    def audit_fairness(self, table: str, predictions: Any, **terms: Any) -> Any:
        """How far groups are apart in what a model says of the people of a table (`FairnessAudit`), as a document."""
        return self._wait_for(FairnessAudit(table=table, predictions=predictions, **terms))

    def _wait_for(self, request: Request) -> Any:
        return self.submit(request).wait()

    # What there is

    def budget(self) -> "BudgetReport":
        """What was spent and is left; an analyst sees no other analyst."""
        return wire.budget_of(self._server.document("GET", f"{self._path}/budget"))

    @property
    def remaining(self) -> Fraction:
        """The largest ε that one release of this caller could still cost, as far as budget and cap go."""
        report = self.budget()
        own = [row.left for row in report.analysts if row.analyst == self.analyst and row.left is not None]
        return Fraction(repr(min([report.remaining, *own])))

    def statement(self) -> str:
        """The privacy statement as Markdown: who is protected, against what, at which ε, and what is not."""
        return self._server.content("GET", f"{self._path}/statement", accept="text/markdown").decode(errors="replace")

    def statement_document(self) -> dict[str, Any]:
        """The privacy statement as facts that JSON can hold."""
        return self._server.document("GET", f"{self._path}/statement")

    @property
    def catalog(self) -> "Catalog":
        """What is publicly known about the tables."""
        if self._catalog is None:
            self._catalog = wire.catalog_of(self._server.document("GET", self._path))
        return self._catalog

    @property
    def tables(self) -> list[str]:
        """The names of the tables."""
        return [table.name for table in self.catalog.tables.values()]

    def close(self) -> None:
        """Nothing is left open between requests; here for `with` blocks, as a local dataset has it."""

    def __enter__(self) -> "RemoteDataset":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<RemoteDataset {self.name} at {self._server.place}, as {self.analyst} ({self.role})>"

    def _repr_html_(self) -> str:
        """The tables, if they are known already: showing a value asks no server."""
        words = f"<div>{escape(repr(self))}</div>"
        return words if self._catalog is None else words + self._catalog._repr_html_()

    def __reduce__(self) -> Any:
        raise TypeError("a RemoteDataset holds a token and cannot be copied to another process; connect there")


class RemoteJob:
    """Work that a server does for its caller: ask after it, wait for it, take its result."""

    def __init__(self, server: Server, id: str, request: Request) -> None:  # noqa: A002 (job.id)
        self.id, self.request = id, request
        self._server, self._path = server, f"/v{wire.VERSION}/jobs/{quote(id, safe='')}"

    def status(self) -> dict[str, Any]:
        """How far it has come: state, progress (from 0 to 1, where known), seconds, words."""
        return self._server.document("GET", self._path)

    @property
    def state(self) -> str:
        """One of waiting, running, done, failed, canceled."""
        return _text(self.status(), "state")

    @property
    def progress(self) -> float | None:
        """The part that is done, from 0 to 1; None where it is not known."""
        value = self.status().get("progress")
        return float(value) if isinstance(value, int | float) else None

    def cancel(self) -> str:
        """Take it out of the queue, and say its state: one that runs is charged, and goes on."""
        return _text(self._server.document("DELETE", self._path), "state")

    def wait(
        self, timeout: float | None = None, *, each: float = 0.5, told: Callable[[dict[str, Any]], None] | None = None
    ) -> Any:
        """Wait until it has ended, and give its `result`. `told` sees its status every `each` seconds."""
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            status = self.status()
            if told is not None:
                told(status)
            if status.get("state") not in ("waiting", "running"):
                return self.result()
            if end is not None and time.monotonic() + each > end:
                raise ServerUnavailable(f"job {self.id} is not done after {timeout:g} s; it goes on, wait for it again")
            time.sleep(each)

    def result(self) -> Any:
        """What it released: answers to a question, a table of Arrow, or a document; an error where it failed.

        Linked tables are the bytes of a zip archive, and of a model there is a document: `save` writes the files.
        """
        path = f"{self._path}/result"
        match wire.request_document(self.request)["kind"]:
            case "question" if isinstance(self.request, Question):
                answers = _answers(self._server.content("GET", path, accept=wire.ARROW), self.request)
                return answers[0] if isinstance(self.request.sql, str) else answers
            case "synthesis" | "commute":
                return _table(self._server.content("GET", path, accept=wire.ARROW))
            case "linked-synthesis":
                return self._server.content("GET", path, accept="application/zip")
            case _:
                return self._server.document("GET", path)

    @property
    def receipt(self) -> "Receipt":
        """What a job that is done was charged, where its result is one thing with one receipt."""
        document = self._server.document("GET", f"{self._path}/result")
        try:
            return wire.receipt_of(document["receipt"])
        except (ArithmeticError, AttributeError, DiscreetError, LookupError, TypeError, ValueError) as error:
            raise ServerUnavailable(f"what came has no receipt ({type(error).__name__})") from None

    def save(self, path: str | Path, *, accept: str = "*/*") -> Path:
        """Write the result to a file, as the server has it: Parquet, a model, a zip of tables, or what is accepted."""
        target = Path(path)
        target.write_bytes(self._server.content("GET", f"{self._path}/result", accept=accept))
        return target

    def __repr__(self) -> str:
        return f"<RemoteJob {self.id}>"


# Reading replies


def _answers(content: bytes, question: Question) -> "list[Answer]":
    answers = wire.answers_from_arrow(content)
    if len(answers) != len(question.statements):
        raise ServerUnavailable(f"{len(answers)} answers came to {len(question.statements)} statements")
    return answers


def _table(content: bytes) -> Any:
    import pyarrow as pa

    try:
        return pa.ipc.open_stream(content).read_all()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ServerUnavailable(f"what came is no table ({type(error).__name__})") from None


def _text(document: Mapping[str, Any], name: str) -> str:
    value = document.get(name)
    if not isinstance(value, str):
        raise ServerUnavailable(f"a document of the server has no {name}")
    return value


def _listed(document: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    entries = document.get("datasets")
    if not isinstance(entries, list) or not all(isinstance(entry, dict) and "name" in entry for entry in entries):
        raise ServerUnavailable("what came is no list of datasets; is it the address of a discreet server?")
    return {str(entry["name"]): entry for entry in entries}
