"""The front door: `discreet.open(policy)` gives a `Dataset`, which plans requests and hands the plans to the gate."""

import getpass
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from discreet.curator.catalog import Catalog
from discreet.curator.ledger import Ledger
from discreet.curator.policy import Policy, read_policy
from discreet.durable import require_locks
from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import Number
from discreet.requests import Commute, FairnessAudit, LinkedSynthesis, Question, Request, Synthesis, Training

if TYPE_CHECKING:
    from discreet.curator.answer import Answer
    from discreet.curator.curator import Curator
    from discreet.curator.plan import Plan
    from discreet.curator.report import BudgetReport
    from discreet.fairness.audit import FairnessPlan
    from discreet.fairness.audit_answer import FairnessAnswer
    from discreet.learning.training_plan import TrainedModel, TrainingPlan
    from discreet.sql.plan.explain import Explanation
    from discreet.sql.plan.query_plan import QueryPlan
    from discreet.synthetic.commuting.plan import CommuteMap, CommutePlan
    from discreet.synthetic.linked.plan import LinkedPlan
    from discreet.synthetic.linked.result import LinkedTables
    from discreet.synthetic.plan import SynthesisPlan
    from discreet.synthetic.result import SyntheticTable

Result = TypeVar("Result")


def open(  # noqa: A001 (discreet.open, as gzip.open)
    policy: str | Path | Policy,
    *,
    tables: Mapping[str, Any] | None = None,
    ledger: str | Path | Ledger | None = None,
    analyst: str | None = None,
) -> "Dataset":
    """Open the dataset that a policy describes: its tables, its budget and its ledger, which is made if there is none.

    `tables` gives those whose source is "python": pyarrow Tables, pandas or polars DataFrames. `analyst` is who asks
    where a question does not say; the name of the user, if left out. The ledger must be the one that the policy's
    witness has seen grow: one that vanished, or was put back from a copy, is not begun anew.

    >>> import tempfile, pathlib, pyarrow as pa
    >>> policy = pathlib.Path(tempfile.mkdtemp()) / "census.toml"
    >>> _ = policy.write_text('''
    ... [dataset]
    ... name = "census"
    ... neighbors = "add or remove one"
    ... witness = "witness"
    ... [budget]
    ... everyone = "all"
    ... epsilon = 3
    ... [tables.people]
    ... source = "python"
    ... unit = "row"
    ... columns.age = {type = "integer", lower = 0, upper = 120}
    ... ''')
    >>> with open(policy, tables={"people": pa.table({"age": [30, 41, 57] * 100})}) as data:
    ...     answer = data.ask("SELECT COUNT(*) AS n, AVG(age) AS mean FROM people", epsilon=1)
    ...     print(answer.receipt)
    ε 1 charged as #2 to census, 2 left
    """
    from discreet.curator.curator import open_curator

    require_locks()
    read = policy if isinstance(policy, Policy) else read_policy(policy)
    curator, closing = open_curator(read, tables or {}, ledger)
    return Dataset(read, curator, analyst=analyst, closing=closing)


class Dataset:
    """Private tables behind a gate. Made by `discreet.open`; close it, or use it in a `with` block.

    `plan` makes a plan of a request (`discreet.requests`), for free; `release` pays for it. Further verbs do both,
    with the fields of the request as parameters. Every number in an answer is noisy and has been charged to the ledger
    before a row was read. ε is always the total for a whole request; the same request again is free.
    """

    def __init__(
        self, policy: Policy, curator: "Curator", *, analyst: str | None = None, closing: Sequence[Any] = ()
    ) -> None:
        self.policy = policy
        self.analyst = analyst or _user()
        self._curator = curator
        self._closing = [part for part in closing if part is not None]
        self._version = curator.engine.version

    # Requests → plans → releases

    @overload
    def plan(self, request: Question) -> "QueryPlan": ...
    @overload
    def plan(self, request: Training) -> "TrainingPlan": ...
    @overload
    def plan(self, request: Synthesis) -> "SynthesisPlan": ...
    @overload
    def plan(self, request: LinkedSynthesis) -> "LinkedPlan": ...
    @overload
    def plan(self, request: Commute) -> "CommutePlan": ...
    @overload
    def plan(self, request: FairnessAudit) -> "FairnessPlan": ...

    def plan(self, request: Request) -> Any:
        """What a request would release, how and at which cost, before anything is spent; `explain()` says it."""
        match request:
            case Question():
                return self._query_plan(request)
            case Training():
                from discreet.learning.training_plan import plan_training

                return plan_training(request, self.catalog)
            case Synthesis():
                from discreet.synthetic.planner import plan_synthesis

                return plan_synthesis(replace(request, delta=self._delta(request.delta)), self.catalog)
            case LinkedSynthesis():
                from discreet.synthetic.linked.planner import plan_linked

                return plan_linked(replace(request, delta=self._delta(request.delta)), self.catalog)
            case Commute():
                from discreet.synthetic.commuting.plan import plan_commute

                return plan_commute(request, self.catalog)
            case FairnessAudit():
                from discreet.fairness.audit import plan_audit

                return plan_audit(request, self.catalog)
        raise InvalidParameter("request", type(request).__name__, "a value of discreet.requests, such as a Question")

    def release(self, plan: "Plan[Result]", *, analyst: str | None = None) -> Result:
        """What a plan releases, charged before a row is read; free if it was released before from the same data."""
        if self._curator.engine.version != self._version:
            raise InvalidData("the data have changed since this dataset was opened: nothing was charged; open it again")
        return self._curator.release(plan, analyst=analyst or self.analyst)

    @overload
    def explain(
        self,
        request: "str | Sequence[str] | Question | QueryPlan",
        *,
        epsilon: Number | None = None,
        error: Number | None = None,
        delta: Number | None = None,
        groups: int | None = None,
        rows: int | None = None,
        confidence: Number = "0.95",
        analyst: str | None = None,
    ) -> "Explanation": ...
    @overload
    def explain(self, request: Request, *, analyst: str | None = None) -> "Explanation | str": ...

    def explain(self, request: Any, *, analyst: str | None = None, **terms: Any) -> Any:
        """What SQL (with the terms of a `Question`), a request or a plan would cost and do, and what is left. Free."""
        asked = Question(request, **terms) if isinstance(request, str | list | tuple) else request
        plan = self.plan(asked) if isinstance(asked, Request) else asked
        told = plan.explain()
        if isinstance(told, str):
            return told
        return replace(told, budget=self._curator.prospect(plan, analyst=analyst or self.analyst))

    # A verb for each kind of request

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
        analyst: str | None = None,
    ) -> "Answer":
        """The private answer to one SELECT (`Question`)."""
        request = Question(
            sql, epsilon=epsilon, error=error, delta=delta, groups=groups, rows=rows, confidence=confidence
        )
        return self.release(self.plan(request), analyst=analyst)[0]

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
        analyst: str | None = None,
    ) -> "list[Answer]":
        """The answers to several SELECTs, planned together: one ε for all, one charge, nothing released twice."""
        if isinstance(statements, str) or not statements:
            raise InvalidParameter("statements", statements, "a list of at least one statement", "use ask for one")
        request = Question(
            statements, epsilon=epsilon, error=error, delta=delta, groups=groups, rows=rows, confidence=confidence
        )
        return list(self.release(self.plan(request), analyst=analyst))

    def train(
        self,
        table: str,
        target: str,
        *,
        epsilon: Number,
        delta: Number,
        examples: int,
        features: Sequence[str] | None = None,
        hidden: Sequence[int] = (32,),
        activation: str = "tanh",
        epochs: Number = 20,
        lot: int | None = None,
        clip: Number = 1,
        optimizer: Any = None,
        model: Literal["network", "logistic", "linear", "tree"] = "network",
        depth: int = 4,
        C: Number = 1,
        recipe: Mapping[str, Any] | None = None,
        analyst: str | None = None,
    ) -> "TrainedModel":
        """A model that predicts a column of a table (`Training`)."""
        request = Training(
            table=table, target=target, epsilon=epsilon, delta=delta, examples=examples, features=features,
            hidden=hidden, activation=activation, epochs=epochs, lot=lot, clip=clip, optimizer=optimizer,
            model=model, depth=depth, C=C, recipe=recipe or {},
        )  # fmt: skip
        return self.release(self.plan(request), analyst=analyst)

    def synthesize(
        self,
        table: str,
        *,
        epsilon: Number,
        delta: Number | None = None,
        columns: Sequence[str] | None = None,
        exclude: Sequence[str] = (),
        bins: Mapping[str, int | Sequence[Any]] | None = None,
        values: Mapping[str, Sequence[Any]] | None = None,
        discover: Sequence[str] = (),
        at_most: Sequence[str] = (),
        never: Sequence[Any] = (),
        rules: Sequence[str] = (),
        target: str | None = None,
        rows_per_person: int = 1,
        people: int | None = None,
        rows: int | None = None,
        adaptive: int | None = None,
        model: Literal["relaxed", "graphical"] = "relaxed",
        settings: Any = None,
        analyst: str | None = None,
    ) -> "SyntheticTable":
        """A synthetic table that looks like a private one (`Synthesis`); δ is that of the budget, if left out."""
        request = Synthesis(
            table=table, epsilon=epsilon, delta=delta, columns=columns, exclude=exclude,
            bins={} if bins is None else bins, values={} if values is None else values, discover=discover,
            at_most=at_most, never=never, rules=rules, target=target, rows_per_person=rows_per_person, people=people,
            rows=rows, adaptive=adaptive, model=model, settings=settings,
        )  # fmt: skip
        return self.release(self.plan(request), analyst=analyst)

    def synthesize_linked(
        self,
        tables: Mapping[str, Mapping[str, Any]] | Sequence[str],
        *,
        epsilon: Number,
        delta: Number | None = None,
        people: int | None = None,
        settings: Any = None,
        analyst: str | None = None,
    ) -> "LinkedTables":
        """Several synthetic tables of the same people, whose rows stay together (`LinkedSynthesis`)."""
        request = LinkedSynthesis(tables=tables, epsilon=epsilon, delta=delta, people=people, settings=settings)
        return self.release(self.plan(request), analyst=analyst)

    def commute(
        self,
        table: str,
        places: Any,
        *,
        origin: str,
        destination: str,
        epsilon: Number,
        delta: Number = 0,
        promise: Literal["pure", "approximate"] = "pure",
        cap: Number | None = None,
        bands: Sequence[Number] | None = None,
        groups: Mapping[str, str] | None = None,
        hubs: int | None = None,
        analyst: str | None = None,
    ) -> "CommuteMap":
        """Synthetic flows between two columns of a table (`Commute`)."""
        request = Commute(
            table=table, places=places, origin=origin, destination=destination, epsilon=epsilon, delta=delta,
            promise=promise, cap=cap, bands=bands, groups=groups, hubs=hubs,
        )  # fmt: skip
        return self.release(self.plan(request), analyst=analyst)

    def audit_fairness(
        self,
        table: str,
        predictions: Any,
        *,
        label: str,
        group: str | Sequence[str],
        epsilon: Number,
        given: str | Sequence[str] = (),
        key: str | None = None,
        prediction: str = "prediction",
        positive: str | Sequence[str] = (),
        threshold: Number | None = None,
        bins: Mapping[str, int | Sequence[float]] | None = None,
        delta: Number | None = None,
        noise: Literal["geometric", "gaussian"] = "geometric",
        confidence: Number = "0.95",
        least: int = 20,
        analyst: str | None = None,
    ) -> "FairnessAnswer":
        """How far groups are apart in what a model says of the people of a table (`FairnessAudit`)."""
        request = FairnessAudit(
            table=table, predictions=predictions, label=label, group=group, epsilon=epsilon, given=given, key=key,
            prediction=prediction, positive=positive, threshold=threshold, bins=bins, delta=delta, noise=noise,
            confidence=confidence, least=least,
        )  # fmt: skip
        return self.release(self.plan(request), analyst=analyst)

    # What there is

    def budget(self) -> "BudgetReport":
        """What was spent, by whom, and what is left."""
        from discreet.curator.report import budget_report

        return budget_report(self._curator.ledger, self.policy.catalog.name)

    @property
    def catalog(self) -> Catalog:
        """What is publicly known about the tables."""
        return self.policy.catalog

    def close(self) -> None:
        """Close the engine and the ledger. What was charged stays charged."""
        for part in self._closing:
            part.close()

    def __enter__(self) -> "Dataset":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        tables = ", ".join(table.name for table in self.catalog.tables.values())
        return f"<Dataset {self.catalog.name}: {tables}>"

    def _query_plan(self, request: Question) -> "QueryPlan":
        from discreet.sql.plan.planner import Terms, plan

        terms = Terms(request.epsilon, request.error, request.delta, request.groups, request.rows, request.confidence)
        made, least = plan(request.statements, self.catalog, terms), self.policy.least_epsilon
        if terms.error is not None and made.private and made.epsilon < least:  # the least ε that is sold gives more
            return plan(request.statements, self.catalog, replace(terms, epsilon=least, error=None))
        return made

    def _delta(self, stated: Number | None) -> Number:
        delta = self.policy.budget.delta if stated is None else stated
        if not delta:
            hint = "synthetic tables use Gaussian noise; a budget with δ = 0 cannot pay for it"
            raise InvalidParameter("delta", delta, "a δ above 0 in the policy's budget, or here", hint)
        return delta


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "analyst"
