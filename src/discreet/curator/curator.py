"""The gate: verify → charge → run → answer. The only place where private rows and the budget meet."""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from discreet.curator.answer import Receipt
from discreet.curator.catalog import Catalog
from discreet.curator.charges import largest_pure
from discreet.curator.contribution_draw import salt_text
from discreet.curator.engines import Engine, one_state
from discreet.curator.ledger import Charge, Ledger, digest
from discreet.curator.plan import Plan, require_price
from discreet.curator.settings import NO_LIMIT, Allowance, Pace, Settings, analyst_name
from discreet.curator.stores import ANSWER_KEY
from discreet.errors import (
    BudgetExceeded,
    EngineUnavailable,
    InternalError,
    InvalidParameter,
    InvalidQuery,
    LedgerConflict,
    ReleaseFailed,
)
from discreet.exact import plain, printed_down, printed_up, text_down
from discreet.noise import Entropy
from discreet.privacy.budget import Budget, Spent
from discreet.privacy.loss import Pure

if TYPE_CHECKING:
    import pyarrow

    from discreet.curator.policy import Policy

Result = TypeVar("Result")

OWNER = logging.getLogger("discreet.owner")
"""Where the reasons of failures go, for the owner's eyes: nothing is written unless the owner adds a handler."""
OWNER.addHandler(logging.NullHandler())
OWNER.propagate = False


@dataclass(frozen=True, slots=True)
class _Salted:
    """An engine for the time of one release: it draws with the salt of the account, which plans never see."""

    engine: Engine
    key: str = field(repr=False)

    @property
    def dialect(self) -> str:
        return self.engine.dialect

    @property
    def version(self) -> str:
        return self.engine.version

    def fetch(self, sql: str, *, salt: str = "") -> "pyarrow.Table":
        return self.engine.fetch(sql, salt=self.key)


@dataclass(frozen=True, slots=True)
class Curator:
    """Releases plans over one dataset, each after its charge.

    Guarantee: no private row is read unless a durable charge for the plan's loss is in the ledger; so everything that
    was ever released is as private as the account's budget says (`Ledger`). Proof. `run` is called in one place, after
    `charge` has returned; the loss that is charged is the one that the plan's parts have against this catalog.

    What an analyst was given is cached for that analyst alone, unless `share_answers`: then it is free for all, and its
    receipt tells others neither who paid for it nor when.

    Guarantee: whatever comes after a charge, an answer or a failure, leaves on the time grid (`Pace`), and no question
    costs less than `least_epsilon`, so that a question asked again and again uses the budget up. Proof. What is not on
    the grid reads no private row: refusals come before the charge, and a cached answer was released before.
    """

    catalog: Catalog
    engine: Engine
    ledger: Ledger
    entropy: Entropy | None = None
    share_answers: bool = False
    pace: Pace = field(default_factory=Pace)
    least_epsilon: Fraction = Fraction(0)
    unanswered: dict[str, Charge] = field(default_factory=dict, repr=False)
    """Charges whose release found no server or no table, by what they are for: asking again uses them up."""

    def release(
        self, plan: Plan[Result], *, analyst: str, allowance: Allowance = NO_LIMIT, request: str | None = None
    ) -> Result:
        """What the plan releases; free where the same was released before from the same data.

        `request` names the request that a charge is made for; the receipt of what that very request paid for is the
        same each time.
        """
        if plan.verify(self.catalog) != plan.loss:
            raise InternalError("a plan states another loss than its parts have; nothing was charged or read")
        require_price(plan.loss, plan.epsilon, plan.delta)
        if not plan.private and plan.loss == Pure(0):
            return plan.finish(b"", self._unpaid(plan, analyst), self.engine)
        engine = _Salted(self.engine, salt_text(self.ledger.salt(self.catalog.name)))
        key = self._key(plan, analyst)
        charge, cached = self._paid(plan, key, analyst, allowance, request)
        if cached is not None:
            free = request is None or charge.request != request or charge.analyst != analyst_name(analyst)
            return self._finish(plan, charge, cached, analyst=analyst, free=free)
        with self.pace.hold():
            return self._finish(plan, charge, self._release(plan, key, charge, engine), analyst=analyst, free=False)

    def _finish(self, plan: Plan[Result], charge: Charge, released: bytes, *, analyst: str, free: bool) -> Result:
        receipt = self._receipt(plan, charge, free=free)
        if charge.analyst != analyst_name(analyst):
            receipt = replace(receipt, analyst="", charge=0, when="")
        try:
            return plan.finish(released, receipt, self.engine)
        except InvalidQuery as error:
            what = f"what #{receipt.charge} released" if receipt.charge else "what was released"
            paid = f"{what} is cached, so asking again is free once this is fixed"
            raise InvalidQuery(error.problem, f"{error.hint}; {paid}" if error.hint else paid) from None

    def cached(self, plan: Plan[Result], *, analyst: str) -> tuple[Charge, bytes] | None:
        """What was released before to this analyst (or to anybody, where answers are shared), and its charge."""
        return self.ledger.recall(self._key(plan, analyst))

    def affordability(self, plan: Plan[Result], *, analyst: str, allowance: Allowance = NO_LIMIT) -> dict[str, Any]:
        """What the budget would say to a plan: whether it is affordable or free, what is left, in words too."""
        if not plan.private:
            return {"affordable": True, "free": True, "words": "free: nothing private is read"}
        if self.cached(plan, analyst=analyst):
            return {"affordable": True, "free": True, "words": "free: the answer is cached"}
        try:
            self.check_price(plan)
        except InvalidParameter as refusal:
            return {"affordable": False, "free": False, "words": f"cannot be asked: {refusal}"}
        settings, spent = self.ledger.settings(self.catalog.name), self.ledger.spent(self.catalog.name)
        before, limits = printed_down(largest_pure(settings.budget, spent)), self._limits(settings, analyst, allowance)
        known: dict[str, Any] = {"free": False, "before": before}
        if settings.admits(analyst_name(analyst)):
            known["own"] = min([before, *(printed_down(largest_pure(*limit)) for limit in limits)])
        try:
            after = printed_down(largest_pure(settings.budget, settings.budget.charge(spent, plan.loss)))
            if "own" not in known:
                raise BudgetExceeded(f"{analyst!r} has no cap, and the policy has none for everyone")
            rest = [after, *(printed_down(largest_pure(cap, cap.charge(own, plan.loss))) for cap, own in limits)]
        except BudgetExceeded as refusal:
            return {"affordable": False, **known, "words": f"cannot be paid: {refusal}"}
        words = f"leaves ε {text_down(after)} of the {text_down(before)} that is left"
        return {"affordable": True, **known, "after": after, "own_after": min(rest), "words": words}

    def own_left(self, analyst: str, *, allowance: Allowance = NO_LIMIT) -> float | None:
        """The ε that one pure release of an analyst could still cost by cap and allowance; None without either."""
        limits = self._limits(self.ledger.settings(self.catalog.name), analyst, allowance)
        return min((printed_down(largest_pure(*limit)) for limit in limits), default=None)

    def _limits(self, settings: Settings, analyst: str, allowance: Allowance) -> list[tuple[Budget, Spent]]:
        """The cap and the allowance of an analyst, each with what counts against it."""
        account, cap = self.catalog.name, settings.cap_of(analyst_name(analyst))
        totals = [limit for limit in (cap, allowance.total) if limit is not None]
        own = self.ledger.spent(account, analyst=analyst) if totals else Spent()
        limits = [(limit, own) for limit in totals]
        if allowance.daily is not None:
            limits.append((allowance.daily, self.ledger.spent_in_a_day(account, analyst=analyst)))
        return limits

    def remaining(self) -> Fraction:
        """The largest ε that one release could still cost."""
        return largest_pure(*self.ledger.standing(self.catalog.name))

    def _key(self, plan: Plan[Result], analyst: str) -> str:
        whose = [] if self.share_answers else [analyst_name(analyst)]
        return ANSWER_KEY + digest(json.dumps([self.catalog.name, plan.digest, self.engine.version, *whose]))

    def check_price(self, plan: Plan[Result]) -> None:
        """Refuse a plan that costs less than the least ε."""
        if plan.epsilon < self.least_epsilon:
            hint = "state more, or ask several things together: a batch has one ε; nothing was charged"
            least = f"at least {plain(self.least_epsilon)}, the least ε of a question here"
            raise InvalidParameter("epsilon", plain(plan.epsilon), least, hint)

    def _paid(
        self, plan: Plan[Result], key: str, analyst: str, allowance: Allowance, request: str | None
    ) -> tuple[Charge, bytes | None]:
        """A charge for the plan, and what it released; None where it released nothing yet."""
        if plan.epsilon < self.least_epsilon or key in self.unanswered:
            if (cached := self.ledger.recall(key)) is not None:
                return cached
            if (charge := self.unanswered.pop(key, None)) is not None:
                return charge, None
        self.check_price(plan)
        return self.ledger.buy(
            key, self.catalog.name, analyst=analyst, statement=digest(plan.text), loss=plan.loss, text=plan.text,
            allowance=allowance, request=request,
        )  # fmt: skip

    def _release(self, plan: Plan[Result], key: str, charge: Charge, engine: Engine) -> bytes:
        released = None
        try:
            with one_state(self.engine):
                released = plan.run(engine, self.entropy)
        except EngineUnavailable:
            self.unanswered[key] = charge
            OWNER.exception("charge #%d of %s: the engine does not answer", charge.number, charge.account)
        except Exception:
            OWNER.exception("charge #%d of %s: the release failed", charge.number, charge.account)
        if released is None:  # out of the handler: the exception, which may name private values, is not passed on
            raise ReleaseFailed(
                f"charge #{charge.number} was made, but its release failed; the owner finds the reason under that "
                "number in the log 'discreet.owner'"
            )
        try:
            self.ledger.remember(key, charge.number, released)
        except LedgerConflict:  # somebody asked the same at the same time, and theirs was cached: one answer for both
            cached = self.ledger.recall(key)
            released = released if cached is None else cached[1]
        return released

    def _unpaid(self, plan: Plan[Result], analyst: str) -> Receipt:
        """Of a plan that reads nothing private: no charge, and nothing to recall."""
        left = printed_down(self.remaining())
        return Receipt(self.catalog.name, analyst, 0, "", digest(plan.text), plan.loss, 0.0, 0.0, True, left)

    def _receipt(self, plan: Plan[Result], charge: Charge, *, free: bool) -> Receipt:
        account = self.catalog.name
        left = self.remaining() if free else largest_pure(charge.budget or self.ledger.budget(account), charge.total)
        return Receipt(
            account, charge.analyst, charge.number, charge.when, charge.statement, charge.loss,
            printed_up(plan.epsilon), printed_up(plan.delta), free, printed_down(left),
        )  # fmt: skip


def open_curator(
    policy: "Policy", tables: Mapping[str, Any], ledger: str | Path | Ledger | None
) -> tuple[Curator, Sequence[Any]]:
    """The curator of a policy, over its sources or the tables given, and what is to be closed in the end."""
    from discreet.curator.public_values import with_public_values

    catalog = policy.catalog
    unknown = [name for name in tables if name.casefold() not in catalog.tables]
    if unknown:
        raise InvalidParameter("tables", ", ".join(unknown), f"tables of the policy: {', '.join(policy.sources)}")
    named = {catalog.table(name).name: table for name, table in tables.items()}
    engine = open_engine(policy, named)
    store = None
    try:
        catalog = with_public_values(catalog, policy.references, engine)
        if not isinstance(ledger, Ledger):
            ledger, store = open_ledger(policy, ledger)
        ledger.open(catalog.name, policy.budget, caps=policy.caps, everyone=policy.everyone, protects=catalog.protects)
    except BaseException:
        for part in (engine, store):
            if part is not None:
                part.close()
        raise
    terms: dict[str, Any] = {"share_answers": policy.share_answers, "least_epsilon": policy.least_epsilon}
    return Curator(catalog, engine, ledger, pace=Pace(policy.time_floor), **terms), [engine, store]


def open_engine(policy: "Policy", tables: Mapping[str, Any]) -> Any:
    """The engine that a policy names, over its sources or the tables given."""
    sources: dict[str, Any] = {**policy.sources, **tables}
    terms: dict[str, Any] = {"address": policy.address, "stated": policy.version or ""}
    if policy.statement_timeout is not None:
        terms["timeout"] = float(policy.statement_timeout)
    match policy.engine:
        case "postgres":
            from discreet.curator.engines.postgres import PostgresEngine

            return PostgresEngine(policy.catalog, sources, **terms)
        case "spark":
            from discreet.curator.engines.spark import SparkEngine

            return SparkEngine(policy.catalog, sources, base=policy.base, **terms)
        case _:
            from discreet.curator.engines.duckdb import DuckDBEngine

            return DuckDBEngine(policy.catalog, sources, base=policy.base, formats=policy.formats)


def open_ledger(policy: "Policy", path: str | Path | None) -> tuple[Ledger, Any]:
    """The ledger of a policy, in its file or another, with its witness; and the store, to be closed in the end."""
    from discreet.curator.stores.sqlite import SqliteStore
    from discreet.curator.witness import witness_of

    if path is None and policy.ledger is None:
        hint = "open a policy file, or give ledger=…"
        raise InvalidParameter("ledger", None, "the path of the file that keeps charges", hint)
    stated = str(policy.ledger if path is None else path)
    if stated.startswith(("postgresql://", "postgres://")):
        return _shared_ledger(policy, stated)
    file = policy.base / (policy.ledger or "") if path is None else Path(path)
    witness = witness_of(policy, file)
    if witness is not None and not file.exists():
        for seen in witness.sightings():
            raise seen.refusal()  # before a file is made in the place of the one that was seen
    store = SqliteStore(file)
    return Ledger(store, witness=witness), store


def _shared_ledger(policy: "Policy", address: str) -> tuple[Ledger, Any]:
    """A ledger in a PostgreSQL database; one that was seen before is not made anew."""
    from discreet.curator.engines import shown_address
    from discreet.curator.stores.postgres import PostgresStore
    from discreet.curator.witness import witness_of

    witness = witness_of(policy, Path("/") / shown_address(address).replace("://", "/"))
    seen = witness is not None and any(True for _ in witness.sightings())
    store = PostgresStore(address, create=not seen)
    return Ledger(store, witness=witness), store
