"""The front door: `discreet.open(policy)` gives a `Dataset`, which plans requests and hands the plans to the gate."""

import getpass
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from discreet.curator.catalog import Catalog
from discreet.curator.ledger import Ledger
from discreet.curator.policy import Policy, read_policy
from discreet.curator.settings import NO_LIMIT, Allowance, analyst_name
from discreet.durable import require_locks
from discreet.errors import InternalError, InvalidData, InvalidParameter, InvalidQuery, LedgerError
from discreet.exact import Number, rational, text_up
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
    from discreet.curator.answer import Answer
    from discreet.curator.curator import Curator
    from discreet.curator.plan import Plan
    from discreet.curator.reports.budget_report import BudgetReport
    from discreet.fairness.audit_plan import FairnessAnswer, FairnessPlan
    from discreet.learning.training_plan import TrainedModel, TrainingPlan
    from discreet.sql.plan.bounds_plan import BoundsPlan, ChosenBounds
    from discreet.sql.plan.explain import Explanation
    from discreet.sql.plan.query_plan import QueryPlan
    from discreet.synthetic.commuting.plan import CommuteMap, CommutePlan
    from discreet.synthetic.linked_plan import LinkedPlan
    from discreet.synthetic.linked_tables import LinkedTables
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
    return Dataset(replace(read, catalog=curator.catalog), curator, analyst=analyst, closing=closing)


class Dataset:
    """Private tables behind a gate. Made by `discreet.open`; close it, or use it in a `with` block.

    `plan` makes a plan of a request (`discreet.requests`), for free; `release` pays for it. Further verbs do both,
    with the fields of the request as parameters. Every number in an answer is noisy and has been charged to the ledger
    before a row was read. ε is always the total for a whole request; the same request again is free.
    """

    def __init__(
        self,
        policy: Policy,
        curator: "Curator",
        *,
        analyst: str | None = None,
        closing: Sequence[Any] = (),
    ) -> None:
        self.policy = policy
        self.analyst = analyst or user_name()
        self._allowance: Allowance | None = None
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
    def plan(self, request: ContributionBounds) -> "BoundsPlan": ...
    @overload
    def plan(self, request: FairnessAudit) -> "FairnessPlan": ...

    def plan(self, request: Request) -> Any:  # noqa: PLR0911 (one return a request)
        """What a request would release, how and at which cost, before anything is spent; `explain()` says it."""
        if not isinstance(request, Question):
            self._require_own_units(request)
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
                from discreet.synthetic.planner import plan_linked

                return plan_linked(replace(request, delta=self._delta(request.delta)), self.catalog)
            case Commute():
                from discreet.synthetic.commuting.plan import plan_commute

                return plan_commute(request, self.catalog)
            case ContributionBounds():
                from discreet.sql.plan.bounds_plan import plan_bounds

                return plan_bounds(request, self.catalog)
            case FairnessAudit():
                from discreet.fairness.audit import plan_audit

                return plan_audit(request, self.catalog)
        raise InvalidParameter("request", type(request).__name__, "a value of discreet.requests, such as a Question")

    def release(self, plan: "Plan[Result]", *, analyst: str | None = None) -> Result:
        """What a plan releases, charged before a row is read; free if it was released before from the same data."""
        return self._release(plan, analyst=analyst)

    def _release(self, plan: "Plan[Result]", *, analyst: str | None = None, request: str | None = None) -> Result:
        if not self.is_current:
            raise InvalidData("the data have changed since this dataset was opened: nothing was charged; open it again")
        allowance = self._allowance or NO_LIMIT
        return self._curator.release(plan, analyst=self._who(analyst), allowance=allowance, request=request)

    def acting_as(self, analyst: str, *, allowance: Allowance = NO_LIMIT) -> "Dataset":
        """The same dataset for one analyst alone, whom its verbs cannot rename, within an allowance.

        This is what a server gives to a caller whom it knows: identity and limits come from the token. Closing it
        closes nothing.
        """
        acting = copy(self)
        acting.analyst, acting._allowance, acting._closing = analyst_name(analyst), allowance, []
        return acting

    def _who(self, stated: str | None) -> str:
        if self._allowance is not None and stated is not None and analyst_name(stated) != self.analyst:
            raise InvalidParameter("analyst", stated, f"{self.analyst!r}, who is known here", "leave it out")
        return stated or self.analyst

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
        measure_bounds: bool = False,
        analyst: str | None = None,
    ) -> "Explanation": ...
    @overload
    def explain(self, request: Request, *, analyst: str | None = None) -> "Explanation | str": ...

    def explain(self, request: Any, *, analyst: str | None = None, **terms: Any) -> Any:
        """What SQL (with the terms of a `Question`), a request or a plan would cost and do, and what is left. Free."""
        question = Question(request, **terms) if isinstance(request, str | list | tuple) else request
        plan = self.plan(question) if isinstance(question, Request) else question
        explanation = plan.explain()
        if isinstance(explanation, str):
            return explanation
        return replace(explanation, budget=self.affordability(plan, analyst=analyst))

    def affordability(self, plan: "Plan[Any]", *, analyst: str | None = None) -> dict[str, Any]:
        """What the budget says to a plan: whether it is affordable or free, what is left, and how much for whom."""
        return self._curator.affordability(plan, analyst=self._who(analyst), allowance=self._allowance or NO_LIMIT)

    def own_left(self, *, analyst: str | None = None) -> float | None:
        """The ε that one release of an analyst could still cost by cap and token; None without either."""
        return self._curator.own_left(self._who(analyst), allowance=self._allowance or NO_LIMIT)

    def is_free(self, plan: "Plan[Any]", *, analyst: str | None = None) -> bool:
        """Whether releasing a plan would cost nothing, since it was released before or reads nothing private."""
        return not plan.private or self._curator.cached(plan, analyst=self._who(analyst)) is not None

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
        measure_bounds: bool = False,
        analyst: str | None = None,
    ) -> "Answer":
        """The private answer to one SELECT (`Question`)."""
        request = Question(
            sql, epsilon=epsilon, error=error, delta=delta, groups=groups, rows=rows, confidence=confidence,
            measure_bounds=measure_bounds,
        )  # fmt: skip
        return self.answers(request, analyst=analyst)[0]

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
        analyst: str | None = None,
    ) -> "list[Answer]":
        """The answers to several SELECTs, planned together: one ε for all, one charge, nothing released twice."""
        if isinstance(statements, str) or not statements:
            raise InvalidParameter("statements", statements, "a list of at least one statement", "use ask for one")
        request = Question(
            statements, epsilon=epsilon, error=error, delta=delta, groups=groups, rows=rows, confidence=confidence,
            measure_bounds=measure_bounds,
        )  # fmt: skip
        return self.answers(request, analyst=analyst)

    def train(
        self,
        table: str,
        target: str,
        *,
        epsilon: Number,
        delta: Number,
        examples: int,
        features: Sequence[str] | None = None,
        hidden: Sequence[int] | None = None,
        activation: str | None = None,
        epochs: Number | None = None,
        lot: int | None = None,
        clip: Number | None = None,
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

    def choose_bounds(
        self,
        table: str,
        *,
        epsilon: Number,
        by: Sequence[str] = (),
        columns: Mapping[str, tuple[Number, Number]] | None = None,
        probability: Number = "0.95",
        most_groups: int = 1000,
        most_rows: int = 1000,
        analyst: str | None = None,
    ) -> "ChosenBounds":
        """Contribution bounds and bounds of columns that suit the data (`ContributionBounds`)."""
        request = ContributionBounds(
            table=table, epsilon=epsilon, by=by, columns=columns or {}, probability=probability,
            most_groups=most_groups, most_rows=most_rows,
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
        from discreet.curator.reports.budget_report import budget_report

        return budget_report(self._curator.ledger, self.policy.catalog.name)

    @property
    def ledger(self) -> Ledger:
        """The record of what was charged: for the owner's eyes."""
        return self._curator.ledger

    @property
    def remaining(self) -> Fraction:
        """The largest ε that one release could still cost."""
        return self._curator.remaining()

    @property
    def version(self) -> str:
        """A name of the data as they were when the dataset was opened."""
        return self._version

    @property
    def is_current(self) -> bool:
        """Whether the data are still those that were opened."""
        return self._curator.engine.version == self._version

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

    def _repr_html_(self) -> str:
        """Tables and columns, and what is left of the budget, where that is not another's to know."""
        return self.catalog._repr_html_() + self._meter()

    def _meter(self) -> str:
        from discreet.report.card import meter

        if self._allowance is not None:
            return ""
        with suppress(LedgerError):
            report = self.budget()
            return meter(report.used, f"ε {text_up(report.spent)} of {text_up(report.epsilon)} spent")
        return ""

    def answers(
        self,
        request: Question,
        *,
        analyst: str | None = None,
        before: "Callable[[QueryPlan], None] | None" = None,
        key: str | None = None,
        planner: "Callable[[Question], QueryPlan] | None" = None,
    ) -> "list[Answer]":
        """The answers to a question, in one step or two; `before` sees the plan that gives them, before its charge.

        `key` names this very request on the ledger's record, so that it is recognized when it is repeated. `planner`
        gives plans that were made before.
        """
        from discreet.sql.plan.planner import spelled_out

        settled, note = self.settle(spelled_out(request), analyst=analyst, key=None if key is None else first_key(key))
        plan = (planner or self.plan)(settled)
        if before is not None:
            before(plan)
        result = self._release(plan, analyst=analyst, request=key)
        return [replace(answer, notes=(note, *answer.notes)) if note else answer for answer in result]

    def first_step(self, request: Question) -> "QueryPlan | None":
        """The plan of the release that finds sizes first, where ε and an error are stated (`settle`); None without."""
        if request.epsilon is None or request.error is None:
            return None
        from discreet.sql.plan.planner import FIRST_SHARE, WantedError, first_confidence, needs_no_size

        most = rational(request.epsilon, "epsilon", above=0)
        alone = replace(request, error=None, epsilon=most * FIRST_SHARE)
        first = self.plan(alone)
        if needs_no_size(first, WantedError.of(request.error)):
            return None
        confidence = first_confidence(first)
        return first if confidence == first.confidence else self.plan(replace(alone, confidence=confidence))

    def settle(self, request: Question, *, analyst: str | None = None, key: str | None = None) -> tuple[Question, str]:
        """The question with one term, ε or an error, where both are stated; and what finding it has released.

        Where the error is absolute and of counts and sums alone, nothing is: the error alone is planned. Otherwise a
        first release, charged, finds the sizes (`sql.plan.planner`), from which the ε of the second follows; `key`
        names the request that it is charged for.
        """
        if request.epsilon is None or request.error is None:
            return request, ""
        from discreet.sql.plan.planner import (
            FIRST_SHARE,
            WantedError,
            check_price,
            check_two_steps,
            is_estimated,
            second_epsilon,
        )

        wanted, most = WantedError.of(request.error), rational(request.epsilon, "epsilon", above=0)
        if request.measure_bounds:
            hint = "state epsilon alone to measure what bounding left out"
            raise InvalidParameter("measure_bounds", True, "left out where an error and epsilon are stated", hint)
        alone = replace(request, error=None)
        first = self.first_step(request)
        if first is None:
            by_error = replace(request, epsilon=None)
            check_price(self.plan(by_error).epsilon, wanted, most)
            return by_error, ""
        check_two_steps(first)
        receipt = self._release(first, analyst=analyst, request=key)[0].receipt
        cached = self._curator.cached(first, analyst=self._who(analyst))
        if cached is None:
            raise InternalError("what was released is not cached")
        try:
            result, confidence = second_epsilon(
                first, first.noisy_tables(cached[1]), wanted, most * (1 - FIRST_SHARE),
                lambda epsilon: self.plan(replace(alone, epsilon=epsilon)), request.confidence,
            )  # fmt: skip
        except InvalidQuery as error:
            raise InvalidQuery(error.problem, f"{error.hint}; the first release: {receipt}") from None
        note = (
            f"a first release found the sizes from which the ε of this answer follows ({receipt}); "
            "what it cannot tell from nothing may be off by more than the error"
        )
        if is_estimated(first):
            note += ", and so may variances, correlations, regressions and quantiles: their intervals say how far"
        return replace(alone, epsilon=max(result, self.policy.least_epsilon), confidence=confidence), note

    def _query_plan(self, request: Question) -> "QueryPlan":
        from discreet.sql.plan.planner import Terms, plan

        terms = Terms(
            request.epsilon, request.error, request.delta, request.groups, request.rows, request.confidence,
            request.measure_bounds, self.policy.default_epsilon,
        )  # fmt: skip
        planned, least = plan(request.statements, self.catalog, terms), self.policy.least_epsilon
        if terms.error is not None and planned.private and planned.epsilon < least:  # what is sold at least gives more
            planned = plan(request.statements, self.catalog, replace(terms, epsilon=least, error=None))
        self._require_alike(planned)
        return planned

    def _require_alike(self, planned: "QueryPlan") -> None:
        """Refuse what the engine would compute otherwise than others do, before anything is charged."""
        from discreet.curator.engines.dialects import DUCKDB, dialect_of

        name = self._curator.engine.dialect
        if name != DUCKDB.name:
            for release in planned.releases:
                release.statements(dialect_of(name))

    def _require_own_units(self, request: Any) -> None:
        """Refuse tables that reach their unit by a chain of keys, which only SQL follows, before anything is charged.

        The same of people whom the engine cannot draw rows of as other engines do.
        """
        from discreet.curator.engines.dialects import dialect_of

        dialect = dialect_of(self._curator.engine.dialect)
        named = getattr(request, "tables", None) or [getattr(request, "table", "")]
        for name in named if isinstance(named, Iterable) else ():  # what is no list, the planner refuses
            table = self.catalog.tables.get(str(name).casefold())
            if table is not None and table.link is not None:
                hint = f"{table.name} reaches its unit by {table.link}, which only SQL follows"
                raise InvalidParameter("table", table.name, "a table with a column that names the person", hint)
            if table is not None and table.unit_column is not None:
                dialect.text("u", table.unit_column.kind)

    def _delta(self, stated: Number | None) -> Number:
        delta = self.policy.budget.delta if stated is None else stated
        if not delta:
            hint = "synthetic tables use Gaussian noise; a budget with δ = 0 cannot pay for it"
            raise InvalidParameter("delta", delta, "a δ above 0 in the policy's budget, or here", hint)
        return delta


def first_key(key: str) -> str:
    """The name of a request's first release, where there are two (`Dataset.settle`).

    >>> first_key("a7")
    'a7:1'
    """
    return f"{key}:1"


def user_name() -> str:
    """Who runs this program, as the system names them; "analyst" where it does not.

    >>> user_name() != ""
    True
    """
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "analyst"
