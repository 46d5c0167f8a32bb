"""The front door: `discreet.open(policy)` gives a `Dataset`, whose verbs make a plan and hand it to the gate."""

import getpass
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from discreet.curator.catalog import Catalog
from discreet.curator.ledger import Ledger
from discreet.curator.policy import Policy, read_policy
from discreet.curator.settings import analyst_name
from discreet.durable import require_locks
from discreet.errors import BudgetExceeded, InvalidData, InvalidParameter
from discreet.exact import Number, text_down

if TYPE_CHECKING:
    from discreet.curator.answer import Answer
    from discreet.curator.curator import Curator
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
    from discreet.curator.curator import Curator
    from discreet.curator.engines.duckdb import DuckDBEngine
    from discreet.curator.pacing import Pace

    require_locks()
    read = policy if isinstance(policy, Policy) else read_policy(policy)
    given = dict(tables or {})
    unknown = [name for name in given if name.casefold() not in read.catalog.tables]
    if unknown:
        raise InvalidParameter("tables", ", ".join(unknown), f"tables of the policy: {', '.join(read.sources)}")
    named = {read.catalog.table(name).name: table for name, table in given.items()}
    engine = DuckDBEngine(read.catalog, {**read.sources, **named}, base=read.base, formats=read.formats)
    store = None
    if not isinstance(ledger, Ledger):
        ledger, store = _ledger(read, ledger)
    try:
        ledger.open(
            read.catalog.name, read.budget, caps=read.caps, everyone=read.everyone, protects=read.catalog.protects
        )
    except BaseException:
        for part in (engine, store):
            if part is not None:
                part.close()
        raise
    curator = Curator(
        read.catalog,
        engine,
        ledger,
        share_answers=read.share_answers,
        pace=Pace(read.time_floor),
        least_epsilon=read.least_epsilon,
    )
    return Dataset(read, curator, analyst=analyst, closing=[engine, store])


class Dataset:
    """Private tables behind a gate. Made by `discreet.open`; close it, or use it in a `with` block.

    Every number in an answer is noisy and has been charged to the ledger. ε is always the total for a whole statement
    (or a whole batch), whatever it computes.
    """

    def __init__(
        self, policy: Policy, curator: "Curator", *, analyst: str | None = None, closing: Sequence[Any] = ()
    ) -> None:
        self.policy = policy
        self.analyst = analyst or _user()
        self._curator = curator
        self._closing = [part for part in closing if part is not None]
        self._version = curator.engine.version

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
        """The private answer to one SELECT, charged before a row is read; free if it was asked before.

        State `epsilon`, what the whole statement may cost, or `error`, the error of every count and sum that you
        accept, for which the least ε is found. `delta` is needed where groups come from the data; with it, Gaussian
        noise is used where it is smaller. `groups` and `rows` bound what one person contributes, instead of the policy.
        """
        plan = self._plan([sql], epsilon, error, delta, groups, rows, confidence)
        return self._release(plan, analyst)[0]

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
        plan = self._plan(statements, epsilon, error, delta, groups, rows, confidence)
        return list(self._release(plan, analyst))

    def explain(
        self,
        sql: str | Sequence[str],
        *,
        epsilon: Number | None = None,
        error: Number | None = None,
        delta: Number | None = None,
        groups: int | None = None,
        rows: int | None = None,
        confidence: Number = "0.95",
        analyst: str | None = None,
    ) -> "Explanation":
        """What asking would cost and do: mechanisms, bounds, expected errors, what is clipped, what is left. Free."""
        from discreet.sql.plan.explain import explanation

        texts = [sql] if isinstance(sql, str) else sql
        plan = self._plan(texts, epsilon, error, delta, groups, rows, confidence)
        told = explanation(
            texts,
            plan.releases,
            plan.neighbors,
            loss=plan.loss,
            epsilon=plan.epsilon,
            delta=plan.delta,
            confidence=confidence,
        )
        return replace(told, budget=self._prospect(plan, analyst or self.analyst))

    def train(
        self,
        table: str,
        target: str,
        *,
        epsilon: Number,
        delta: Number,
        examples: int,
        features: Sequence[str] | None = None,
        analyst: str | None = None,
        **settings: Any,
    ) -> "TrainedModel":
        """A network that predicts a column of a table, trained by DP-SGD and charged before a row is read.

        `examples` is the rough public number of units (ask for a count first). Further settings are those of
        `learning.training_plan.Wish`: hidden, activation, epochs, lot, clip, optimizer.
        """
        plan = self.training_plan(
            table, target, epsilon=epsilon, delta=delta, examples=examples, features=features, **settings
        )
        self._unchanged()
        return self._curator.release(plan, analyst=analyst or self.analyst)

    def training_plan(
        self,
        table: str,
        target: str,
        *,
        epsilon: Number,
        delta: Number,
        examples: int,
        features: Sequence[str] | None = None,
        **settings: Any,
    ) -> "TrainingPlan":
        """What training would cost and do, before anything is spent: print its `explain()`."""
        from discreet.learning.training_plan import Wish, plan

        wish = Wish(
            table=table, target=target, epsilon=epsilon, delta=delta, examples=examples, features=features, **settings
        )
        return plan(wish, self.catalog)

    def synthesize(
        self,
        table: str,
        *,
        epsilon: Number,
        delta: Number | None = None,
        analyst: str | None = None,
        **settings: Any,
    ) -> "SyntheticTable":
        """A synthetic table that looks like a private one, charged before a row is read.

        δ is that of the budget, if left out: the release is Gaussian, and takes no part of it for itself. Further
        settings are those of `synthetic.planner.Wish`: columns, leave_out, bins, values, discover, at_most, never,
        target, rows_each, people, rows, adaptive, model.
        """
        plan = self.synthesis_plan(table, epsilon=epsilon, delta=delta, **settings)
        self._unchanged()
        return self._curator.release(plan, analyst=analyst or self.analyst)

    def synthesis_plan(
        self, table: str, *, epsilon: Number, delta: Number | None = None, **settings: Any
    ) -> "SynthesisPlan":
        """What a synthetic table would cost and do, before anything is spent: print its `explain()`."""
        from discreet.synthetic.planner import Wish, plan

        return plan(Wish(table=table, epsilon=epsilon, delta=self._delta(delta), **settings), self.catalog)

    def synthesize_linked(
        self,
        tables: Mapping[str, Mapping[str, Any]] | Sequence[str],
        *,
        epsilon: Number,
        delta: Number | None = None,
        analyst: str | None = None,
        **settings: Any,
    ) -> "LinkedTables":
        """Several synthetic tables of the same people, charged before a row is read: one person's rows stay together.

        `tables` are names, or what is said of each: columns, leave_out, bins, values, at_most, never, rows_each. The
        first with one row a person has the people. δ is that of the budget, if left out. Further settings are those of
        `synthetic.linked.planner.plan_linked`: people, settings.
        """
        plan = self.linked_plan(tables, epsilon=epsilon, delta=delta, **settings)
        self._unchanged()
        return self._curator.release(plan, analyst=analyst or self.analyst)

    def linked_plan(
        self,
        tables: Mapping[str, Mapping[str, Any]] | Sequence[str],
        *,
        epsilon: Number,
        delta: Number | None = None,
        **settings: Any,
    ) -> "LinkedPlan":
        """What several synthetic tables would cost and do, before anything is spent: print its `explain()`."""
        from discreet.synthetic.linked.planner import plan_linked

        return plan_linked(self.catalog, tables, epsilon=epsilon, delta=self._delta(delta), **settings)

    def _delta(self, said: Number | None) -> Number:
        at = self.policy.budget.delta if said is None else said
        if not at:
            hint = "synthetic tables use Gaussian noise; a budget with δ = 0 cannot pay for it"
            raise InvalidParameter("delta", at, "a δ above 0 in the policy's budget, or here", hint)
        return at

    def commute(
        self,
        table: str,
        places: Any,
        *,
        origin: str,
        destination: str,
        epsilon: Number,
        analyst: str | None = None,
        **settings: Any,
    ) -> "CommuteMap":
        """Synthetic flows between two columns of a table, charged before a row is read.

        `places` is a public table of names and coordinates. Further settings are those of
        `synthetic.commuting.Scheme`: delta, promise, cap, bands, groups, hubs.
        """
        plan = self.commute_plan(table, places, origin=origin, destination=destination, epsilon=epsilon, **settings)
        self._unchanged()
        return self._curator.release(plan, analyst=analyst or self.analyst)

    def commute_plan(
        self, table: str, places: Any, *, origin: str, destination: str, epsilon: Number, **settings: Any
    ) -> "CommutePlan":
        """What a map would cost and do, before anything is spent: print its `explain()`."""
        from discreet.synthetic.commuting.plan import commute_plan

        ends = {"origin": origin, "destination": destination}
        return commute_plan(self.catalog, table, places, **ends, epsilon=epsilon, **settings)

    def audit_fairness(
        self,
        table: str,
        predictions: Any,
        *,
        label: str,
        group: str | Sequence[str],
        epsilon: Number,
        analyst: str | None = None,
        **settings: Any,
    ) -> "FairnessAnswer":
        """How far groups are apart in what a model says of the people of a table, charged before a row is read.

        `predictions` is the model owner's table: the key of each unit, and a column `prediction`. Labels and groups
        never leave. Further settings are those of `fairness.audit.plan_audit`: given, key, prediction, positive,
        threshold, bins, delta, noise, confidence, least.
        """
        plan = self.fairness_plan(table, predictions, label=label, group=group, epsilon=epsilon, **settings)
        self._unchanged()
        return self._curator.release(plan, analyst=analyst or self.analyst)

    def fairness_plan(
        self,
        table: str,
        predictions: Any,
        *,
        label: str,
        group: str | Sequence[str],
        epsilon: Number,
        **settings: Any,
    ) -> "FairnessPlan":
        """What an audit would cost and do, before anything is spent: print its `explain()`."""
        from discreet.fairness.audit import plan_audit

        asked = {"table": table, "predictions": predictions, "label": label, "group": group}
        return plan_audit(self.catalog, **asked, epsilon=epsilon, **settings)

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

    def _plan(
        self,
        texts: Sequence[str],
        epsilon: Number | None,
        error: Number | None,
        delta: Number | None,
        groups: int | None,
        rows: int | None,
        confidence: Number,
    ) -> "QueryPlan":
        from discreet.sql.plan.planner import Terms, plan

        wanted = Terms(epsilon, error, delta, groups, rows, confidence)
        made = plan(texts, self.catalog, wanted)
        least = self.policy.least_epsilon
        if error is not None and made.private and made.epsilon < least:  # more than was wanted: the least that is sold
            return plan(texts, self.catalog, replace(wanted, epsilon=least, error=None))
        return made

    def _release(self, plan: "QueryPlan", analyst: str | None) -> "tuple[Answer, ...]":
        self._unchanged()
        return self._curator.release(plan, analyst=analyst or self.analyst)

    def _unchanged(self) -> None:
        if self._curator.engine.version != self._version:
            raise InvalidData("the data have changed since this dataset was opened: nothing was charged; open it again")

    def _prospect(self, plan: "QueryPlan", analyst: str) -> dict[str, Any]:
        """What the budget would say to this plan."""
        from discreet.curator.report import down, largest_pure

        ledger, account = self._curator.ledger, self.catalog.name
        if not plan.private:
            return {"affordable": True, "free": True, "words": "free: nothing private is read"}
        if self._curator.kept(plan, analyst=analyst):
            return {"affordable": True, "free": True, "words": "free: it was asked before, and its answer is kept"}
        try:
            self._curator.check_price(plan)
        except InvalidParameter as refusal:
            return {"affordable": False, "free": False, "words": f"cannot be asked: {refusal}"}
        settings, spent = ledger.settings(account), ledger.spent(account)
        budget, cap = settings.budget, settings.cap_of(analyst_name(analyst))
        before = down(largest_pure(budget, spent))
        try:
            after = down(largest_pure(budget, budget.charge(spent, plan.loss)))
            if not settings.admits(analyst_name(analyst)):
                raise BudgetExceeded(f"{analyst!r} has no cap, and the policy has none for everyone")
            if cap is not None:
                cap.charge(ledger.spent(account, analyst=analyst), plan.loss)
        except BudgetExceeded as refusal:
            return {"affordable": False, "free": False, "before": before, "words": f"cannot be paid: {refusal}"}
        words = f"leaves ε {text_down(after)} of the {text_down(before)} that is left"
        return {"affordable": True, "free": False, "before": before, "after": after, "words": words}


def _ledger(policy: Policy, path: str | Path | None) -> tuple[Ledger, Any]:
    from discreet.curator.stores.sqlite import SqliteStore
    from discreet.curator.witness import witness_of

    if path is None and policy.ledger is None:
        hint = "open a policy file, or give ledger=…"
        raise InvalidParameter("ledger", None, "the path of the file that keeps charges", hint)
    file = policy.base / (policy.ledger or "") if path is None else Path(path)
    witness = witness_of(policy, file)
    if witness is not None and not file.exists():
        for seen in witness.sightings():
            raise seen.refusal()  # before a file is made in the place of the one that was seen
    store = SqliteStore(file)
    return Ledger(store, witness=witness), store


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "analyst"
