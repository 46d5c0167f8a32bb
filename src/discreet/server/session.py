"""One caller on one dataset: what HTTP, PostgreSQL and the console do for somebody, they do through a `Session`.

A `Place` is a dataset that is open for callers: its tables, its ledger, its tokens. Every release goes through
`Dataset.release`, as on the command line, for the analyst of the token and within the token's allowance.
"""

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import discreet
from discreet.curator.charges import largest_pure
from discreet.curator.curator import OWNER
from discreet.curator.ledger import Ledger, digest
from discreet.curator.policy import Policy, read_policy
from discreet.curator.reports.budget_report import AnalystReport
from discreet.curator.stores import utc
from discreet.dataset import first_key
from discreet.errors import (
    AccessDenied,
    BudgetExceeded,
    InvalidInput,
    InvalidParameter,
    LedgerConflict,
    ReleaseFailed,
    ServerUnavailable,
)
from discreet.exact import printed_down
from discreet.privacy.loss import Loss
from discreet.requests import Question, Request
from discreet.server.tokens import Token, TokenFile, tokens_path

if TYPE_CHECKING:
    from discreet.curator.answer import Answer, Receipt
    from discreet.curator.catalog import Catalog
    from discreet.curator.reports.budget_report import BudgetReport
    from discreet.dataset import Dataset
    from discreet.sql.plan.explain import Explanation
    from discreet.sql.plan.query_plan import QueryPlan

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

REQUESTS_FOR = timedelta(days=1)
"""How long a named request is recognized when it is repeated."""

_PLANS, _ANSWERS, _LEFT_FOR = 2_000, 2_000, 1.0


class Recent(Generic[Key, Value]):
    """The values that were used last, up to a number of them. Threads may share it.

    >>> recent = Recent(2)
    >>> for key in "abac": recent.put(key, key.upper())
    >>> recent.get("a"), recent.get("b")
    ('A', None)
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[Key, Value] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Key) -> Value | None:
        """The value of a key, if it is remembered."""
        with self._lock:
            if key not in self._values:
                return None
            self._values.move_to_end(key)
            return self._values[key]

    def put(self, key: Key, value: Value) -> None:
        """Remember a value; the one that was not used for longest is forgotten."""
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            while len(self._values) > self._most:
                self._values.popitem(last=False)


class OneAtATime:
    """Lets one thread at a time do the same thing; the others wait for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._under_way: dict[Hashable, tuple[threading.Lock, int]] = {}

    @contextmanager
    def __call__(self, what: Hashable) -> Iterator[None]:
        """Wait until nobody else does this, and do it."""
        with self._lock:
            turn, count = self._under_way.get(what, (threading.Lock(), 0))
            self._under_way[what] = (turn, count + 1)
        try:
            with turn:
                yield
        finally:
            with self._lock:
                turn, count = self._under_way[what]
                if count == 1:
                    del self._under_way[what]
                else:
                    self._under_way[what] = (turn, count - 1)


class Named(NamedTuple):
    """What a named request was charged: the charge's number and time, the digest of the statement, the loss."""

    number: int
    when: str
    statement: str
    loss: Loss


class Place:
    """A dataset that is open for callers, and opened anew where its data have changed."""

    def __init__(self, policy: str | Path | Policy, *, tokens: TokenFile | None = None, **opening: Any) -> None:
        self.policy = policy if isinstance(policy, Policy) else read_policy(policy)
        self.tokens = tokens or TokenFile(tokens_path(self.policy))
        self._opening = opening
        self._data = discreet.open(self.policy, **opening)
        self._ledger: Ledger = self._data.ledger
        self._lock = threading.Lock()
        self._left: tuple[float, float] | None = None
        self.plans: Recent[tuple[str, Question], QueryPlan] = Recent(_PLANS)
        self.answers: Recent[tuple[str, str, Question], list[Answer]] = Recent(_ANSWERS)
        self.bodies: Recent[tuple[str, bytes], Question] = Recent(_PLANS)
        self.responses: Recent[tuple[str, str, Question, str], tuple[float, Any]] = Recent(_ANSWERS)
        self.turns = OneAtATime()
        self.requests = self._requests(REQUESTS_FOR)

    @property
    def name(self) -> str:
        """The name of the dataset."""
        return self.policy.catalog.name

    @property
    def ledger(self) -> Ledger:
        """The record of what was charged."""
        return self._ledger

    def data(self) -> "Dataset":
        """The dataset as its data are now."""
        if self._data.is_current:
            return self._data
        with self._lock:
            if not self._data.is_current:
                try:
                    self._data = discreet.open(self.policy, **(self._opening | {"ledger": self._ledger}))
                except InvalidInput:
                    OWNER.exception("the data of %s changed, and cannot be opened", self.name)
                    words = "its data cannot be read now; nothing was charged; try again later, or tell the owner"
                    raise ServerUnavailable(f"dataset {self.name!r}: {words}") from None
        return self._data

    @property
    def left(self) -> float | None:
        """The ε that one release could still cost, if it is known since a second or less."""
        left = self._left
        return None if left is None or time.monotonic() - left[1] > _LEFT_FOR else left[0]

    def remaining(self) -> float:
        """The ε that one release could still cost, at most a second old."""
        left = self.left
        if left is None:
            left = printed_down(self._data.remaining)
            self._left = (left, time.monotonic())
        return left

    def note_requests(self) -> None:
        """Read the newest named requests from the ledger: after a failure, a charge may have been made."""
        self.requests |= self._requests(timedelta(minutes=10))

    def note_request(self, analyst: str, request: str, receipt: "Receipt") -> None:
        """Note what a named request was charged, and forget those that are too old to be repeated."""
        old = utc(datetime.now(UTC) - REQUESTS_FOR)
        with self._lock:
            self.requests[analyst, request] = Named(receipt.charge, receipt.when, receipt.statement, receipt.loss)
            while self.requests and self.requests[oldest := next(iter(self.requests))].when < old:
                del self.requests[oldest]

    def _requests(self, age: timedelta) -> "dict[tuple[str, str], Named]":
        charges = self._ledger.requests(self.name, since=datetime.now(UTC) - age).items()
        by_time = sorted(charges, key=lambda entry: entry[1].number)
        return {name: Named(charge.number, charge.when, charge.statement, charge.loss) for name, charge in by_time}

    def close(self) -> None:
        """Close the dataset. What was charged stays charged."""
        self._data.close()


@dataclass(frozen=True)
class Session:
    """What one caller may do with one dataset."""

    place: Place
    token: Token

    @property
    def data(self) -> "Dataset":
        """The dataset, for the analyst of the token and within its allowance."""
        return self.place.data().acting_as(self.token.name, allowance=self.token.allowance)

    @property
    def catalog(self) -> "Catalog":
        """What is publicly known of the tables."""
        return self.place.data().catalog

    def plan(self, question: Question, data: "Dataset | None" = None) -> "QueryPlan":
        """The plan of a question; one that was planned before is not planned again."""
        data = data or self.data
        key = (data.version, question)
        plan = self.place.plans.get(key)
        if plan is None:
            plan = data.plan(question)
            self.place.plans.put(key, plan)
        return plan

    def check(self, question: Question) -> None:
        """Refuse a question that cannot be planned. Free; of one with two releases, the first is planned."""
        from discreet.sql.plan.planner import spelled_out

        data, question = self.data, spelled_out(question)
        if data.first_step(question) is None:
            both = question.epsilon is not None and question.error is not None
            self.plan(replace(question, epsilon=None) if both else question, data)

    def explain(self, question: "Question | QueryPlan") -> "Explanation":
        """What asking would cost and do, and what is left. Free."""
        plan = self.plan(question) if isinstance(question, Question) else question
        explanation: Explanation = self.data.explain(plan)
        return explanation

    def remembered(self, question: Question) -> "list[Answer] | None":
        """The answers to a question that was answered not long ago, free; None where they must be looked for.

        It waits for nothing: neither for the ledger nor for the engine.
        """
        known, left = self.place.answers.get((self.place.data().version, self.token.name, question)), self.place.left
        if known is None or left is None:
            return None
        return [replace(answer, receipt=replace(answer.receipt, remaining=left)) for answer in known]

    def known_response(self, question: Question, form: str) -> Any:
        """What was sent as a free answer to a question in a form, if the same would be sent now; None otherwise."""
        left, version = self.place.left, self.place.data().version
        known = self.place.responses.get((version, self.token.name, question, form))
        return None if known is None or known[0] != left else known[1]

    def know_response(self, question: Question, form: str, left: float, response: Any) -> None:
        """Keep what was sent as a free answer that says that so much is left."""
        self.place.responses.put((self.place.data().version, self.token.name, question, form), (left, response))

    def answers(self, question: Question, *, key: str | None = None, only_free: bool = False) -> "list[Answer]":
        """The answers to a question. The same question again is free, and the same request (`key`) never pays twice.

        Guarantee: a request that was charged under a key is not charged again. Proof. The key is on the ledger's record
        with the charge. Requests of one analyst under one key take turns, and one whose key is on record gets the
        answer that was kept, or a failure.
        """
        from discreet.sql.plan.planner import spelled_out

        question = spelled_out(question)
        data, request = self.data, None if key is None else hashlib.sha256(key.encode()).hexdigest()
        whose = (data.version, self.token.name, question)
        if request is None and self.place.answers.get(whose) is not None:
            self.place.remaining()
            if (known := self.remembered(question)) is not None:
                return known
        two_steps = question.epsilon is not None and question.error is not None
        plan = None if two_steps else self.plan(question, data)
        if only_free and ((settled := self._settled(question, data)) is None or not data.is_free(settled)):
            raise BudgetExceeded("this would be charged, and only a free answer was requested")
        with self.place.turns((self.token.name, "request", request)) if request else _nothing():
            if request is not None:
                self._check_repeated(question, request, data)
            with self.place.turns((self.token.name, question if plan is None else plan.digest)):
                return self._released(question, data, whose, request)

    def _released(self, question: Question, data: "Dataset", whose: Any, request: str | None) -> "list[Answer]":
        try:
            answers = data.answers(question, key=request, planner=partial(self.plan, data=data))
        except (BudgetExceeded, InvalidInput):
            raise  # nothing was charged, or what was charged is kept
        except BaseException:
            if request is not None:
                self.place.note_requests()
            raise
        receipt = answers[0].receipt
        if request is not None and not receipt.free:
            self.place.note_request(self.token.name, request, receipt)
        free = [replace(answer, receipt=replace(receipt, free=True)) for answer in answers]
        self.place.answers.put(whose, free)
        return answers

    def _check_repeated(self, question: Question, request: str, data: "Dataset") -> None:
        """Refuse a key that was used for another question, or whose charge gave no answer.

        A question with ε and an error has two releases, which are charged under two names: where the first is known,
        the second is planned from it for free.
        """
        known, earlier = (self._charged_for(name) for name in (request, first_key(request)))
        if known is None and earlier is None:
            return
        first = data.first_step(question)
        if first is None and earlier is not None:
            raise _another_question()
        if first is not None:
            _check_same(earlier, question, first, data)
        settled = self._settled(question, data)
        _check_same(known, question, first if settled is None else settled, data)

    def _settled(self, question: Question, data: "Dataset") -> "QueryPlan | None":
        """The plan that answers a question; None where a first release would be charged to find it."""
        first = data.first_step(question)
        if first is not None and not data.is_free(first):
            return None
        return self.plan(data.settle(question)[0])

    def _charged_for(self, request: str) -> Named | None:
        return self.place.requests.get((self.token.name, request))

    def release(self, request: Request) -> Any:
        """What a request other than a question releases; the same request again is free."""
        data = self.data
        plan = data.plan(request)
        with self.place.turns((self.token.name, plan.digest)):
            return data.release(plan)

    def budget(self) -> "BudgetReport":
        """What was spent and is left; an analyst sees no other analyst."""
        report, who = self.data.budget(), self.token.name
        others = [row for row in report.analysts if row.analyst != who]
        if self.token.role != "owner":
            others = []
        own = self._within_allowance(next((row for row in report.analysts if row.analyst == who), None))
        return replace(report, analysts=tuple(sorted([*others, *own], key=lambda row: row.analyst)))

    def _within_allowance(self, row: "AnalystReport | None") -> "list[AnalystReport]":
        """The caller's own row, with what the token may spend as its cap where that leaves less."""
        limit = self.token.allowance.total
        if limit is None:
            return [] if row is None else [row]
        row = row or AnalystReport(self.token.name, 0, 0.0, 0.0, None, None)
        left = printed_down(largest_pure(limit, self.place.ledger.spent(self.place.name, analyst=row.analyst)))
        return [replace(row, cap=limit, left=left) if row.left is None or left < row.left else row]

    def check_still_valid(self) -> None:
        """`AccessDenied` where the token was revoked or has expired since."""
        if not self.place.tokens.still_valid(self.token):
            raise AccessDenied("this token was revoked or has expired; ask the owner for a new one")


def _check_same(known: Named | None, question: Question, plan: "QueryPlan | None", data: "Dataset") -> None:
    """Refuse where a charge was made for another plan than this, or gave no answer."""
    if known is None or plan is None:
        return
    if digest(";\n".join(question.statements)) != known.statement or plan.loss != known.loss:
        raise _another_question()
    if not data.is_free(plan):
        raise ReleaseFailed(
            f"charge #{known.number} was made for this request, but gave no answer: the server stopped or the release "
            "failed; ask again without the key, or with a new one, which is charged anew"
        )


def _another_question() -> LedgerConflict:
    return LedgerConflict("this idempotency key was used for another question; nothing was charged; use a new key")


@contextmanager
def _nothing() -> Iterator[None]:
    yield


def open_places(policies: "list[str]", **opening: Any) -> dict[str, Place]:
    """The datasets of several policies by their names; all are closed again where one cannot be opened."""
    places: dict[str, Place] = {}
    try:
        for policy in policies:
            place = Place(policy, **opening)
            if place.name in places:
                place.close()
                raise InvalidParameter("policies", policy, "policies of datasets with different names")
            places[place.name] = place
    except BaseException:
        for place in places.values():
            place.close()
        raise
    return places


Planner = Callable[[Question], "QueryPlan"]
