"""What a session of PostgreSQL's protocol does with statements: through `Session` alone, in threads that may wait.

`describe` tells the columns of a statement from its plan, and never runs or charges anything; `run` gives rows.
"""

import datetime as dt
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from discreet import __version__
from discreet.curator.answer import Answer, Receipt
from discreet.curator.catalog import Catalog, ColumnType
from discreet.curator.charges import largest_pure, spent_epsilon
from discreet.errors import InvalidQuery
from discreet.exact import printed_down, text_down
from discreet.privacy.loss import Pure
from discreet.requests import Question
from discreet.server.access import Right, require
from discreet.server.postgres import statements as st
from discreet.server.postgres.catalog import CatalogReader
from discreet.server.postgres.settings import SETTINGS, Settings
from discreet.server.postgres.types import ARRAYS, TYPES, fitted
from discreet.server.session import Recent, Session
from discreet.sql.after import post_query

if TYPE_CHECKING:
    import pyarrow

    from discreet.sql.plan.query_plan import QueryPlan

_SCHEMAS: Recent[tuple[int, str, bool], Any] = Recent(2_000)
_TEXTS: Recent[tuple[str, str], str] = Recent(2_000)
_UNPAID = Receipt("", "", 0, "", "", Pure(0), 0.0, 0.0, True, 0.0)


@dataclass(frozen=True, slots=True)
class Result:
    """Rows, what was done (the tag), and what the client is told beside it."""

    table: "pyarrow.Table | None"
    tag: str
    notices: tuple[tuple[str, str], ...] = ()


@dataclass
class Stop:
    """Whether a client asked to cancel one statement: what of it was not begun is not begun."""

    wanted: bool = False


@dataclass
class Answers:
    """One caller's statements on one dataset, under the settings of the connection."""

    session: Session
    settings: Settings
    process: int = 0
    cursors: Mapping[str, Any] = field(default_factory=dict)

    def describe(self, statement: st.Statement, values: Sequence[Any] | None, types: Sequence[int]) -> Any:
        """The schema of the rows that a statement gives, or None. Without values, parameters are stand-ins. Free."""
        self.session.check_still_valid()
        match statement:
            case st.Show(name):
                return self._setting(name).schema
            case st.Explain():
                return _texts("QUERY PLAN", []).schema
            case st.Select(sql):
                return self._schema(sql, values, types)
            case _:
                return None

    def run(
        self, statement: st.Statement, values: Sequence[Any], schema: Any = None, stop: Stop | None = None
    ) -> Result:
        """What a statement gives. Only questions to private tables cost anything."""
        self.session.check_still_valid()
        stop = stop or Stop()
        match statement:
            case st.Show(name):
                return Result(self._setting(name), "SHOW")
            case st.Explain(question, as_json):
                return self._explained(question, values, as_json)
            case st.Select(sql):
                return self._selected(sql, values, schema, stop)
            case st.Copy(question) | st.Declare(_, question):
                return self._selected(question.sql, values, schema, stop)
            case _:
                raise InvalidQuery("this statement is not known", "ask with SELECT")

    # Questions

    def _read(self, sql: str, values: Sequence[Any]) -> tuple[str, bool]:
        """The text of a question with its parameters, and whether it is for the catalog."""
        reader = CatalogReader.of(self.session.catalog)
        if reader.is_for_catalog(sql):
            return sql, True
        name = self.session.catalog.name
        text = _TEXTS.get((name, sql))
        if text is None:
            try:
                tree = st.parsed(sql, "duckdb")
            except InvalidQuery:
                if values:
                    raise
                return sql, False  # the planner says it better
            text = st.without_schema(sql, tree, frozenset({"public", "main", name.casefold()}))
            if st.is_short(sql):
                _TEXTS.put((name, sql), text)
        if values:
            text = st.written(st.bound(st.parsed(text, "duckdb"), values), "duckdb")
        return text, False

    @contextmanager
    def _pointing(self, text: str, sql: str) -> Iterator[None]:
        """Refusals of a text that was written with values point at the client's own."""
        try:
            yield
        except InvalidQuery as error:
            if error.start is None or text == sql or len(text) == len(sql):  # blanks for a schema move nothing
                raise
            raise st.pointing_back(error, text, sql) from None

    def question(self, sql: str) -> Question:
        """The question of a text, with the terms of the session."""
        terms: dict[str, Any] = {
            name: value
            for name in ("epsilon", "delta", "error", "confidence")
            if (value := self.settings.stated(f"discreet.{name}")) is not None
        }
        for name in ("groups", "rows"):
            value = self.settings.stated(f"discreet.{name}")
            if value is not None:
                terms[name] = int(value)
        if "with differential_privacy" in " ".join(sql.casefold().split()):  # what the text states goes before
            from discreet.sql.plan.planner import spelled_out
            from discreet.sql.text.statement import without_options

            for name in without_options(sql)[1]:
                terms.pop(name, None)
                if name in ("epsilon", "error"):
                    terms.pop("epsilon", None)
                    terms.pop("error", None)
            return spelled_out(Question(sql, **terms))
        return Question(sql, **terms)

    def _selected(self, sql: str, values: Sequence[Any], schema: Any, stop: Stop) -> Result:
        text, for_catalog = self._read(sql, values)
        if for_catalog:
            reader = CatalogReader.of(self.session.catalog)
            table = reader.run(text, values, self.facts())
            notices: tuple[tuple[str, str], ...] = ()
        else:
            with self._pointing(text, sql):
                table, notices = self._answer_question(text, schema, stop)
        if schema is not None:
            table = fitted(table, schema)
        return Result(table, f"SELECT {table.num_rows}", notices)

    def _answer_question(
        self, text: str, schema: Any, stop: Stop
    ) -> "tuple[pyarrow.Table, tuple[tuple[str, str], ...]]":
        require(self.session.token, Right.ASK)
        question = self.question(text)
        if schema is not None and self._columns_of(question).names != schema.names:
            raise Changed("cached plan must not change result type", "the settings changed: prepare it again")
        if stop.wanted:
            raise Stopped("canceled before anything was charged")
        only_free = self.settings.is_on("discreet.readonly_budget")
        (answer,) = self.session.answers(question, only_free=only_free)
        return answer.to_arrow(intervals=self._intervals), (self._notice(answer),)

    @property
    def _intervals(self) -> bool:
        return self.settings.is_on("discreet.intervals")

    def _notice(self, answer: Answer) -> tuple[str, str]:
        """What an answer cost and what is left, and its notes."""
        words = str(answer.receipt)
        if answer.receipt.free:
            words += f"; {text_down(answer.receipt.remaining)} left"
        elif (own := self.session.data.own_left()) is not None and own < answer.receipt.remaining:
            words += f"; {text_down(own)} of it for {self.session.token.name}"
        return words, "\n".join(answer.notes)

    def _schema(self, sql: str, values: Sequence[Any] | None, types: Sequence[int]) -> Any:
        sample = values if values is not None else stand_ins(sql, types, self.session.catalog)
        text, for_catalog = self._read(sql, sample)
        if for_catalog:
            return CatalogReader.of(self.session.catalog).run(text, sample, self.facts()).schema
        require(self.session.token, Right.ASK)
        with self._pointing(text, sql):
            return self._columns_of(self.question(text))

    def _columns_of(self, question: Question) -> "pyarrow.Schema":
        if question.epsilon is not None and question.error is not None:
            question = replace(question, error=None)
        return row_schema(self.session.plan(question), self.session.catalog, intervals=self._intervals)

    def _explained(self, question: st.Select, values: Sequence[Any], as_json: bool) -> Result:
        text, for_catalog = self._read(question.sql, values)
        if for_catalog:
            return Result(_texts("QUERY PLAN", ["free: nothing private is read"]), "EXPLAIN")
        require(self.session.token, Right.ASK)
        with self._pointing(text, question.sql):
            asked = self.question(text)
            if asked.epsilon is not None and asked.error is not None:
                asked = replace(asked, error=None)
            explanation = self.session.explain(asked)
        words = json.dumps(explanation.to_json(), ensure_ascii=False) if as_json else str(explanation)
        return Result(_texts("QUERY PLAN", [words] if as_json else words.splitlines()), "EXPLAIN")

    # What there is

    def facts(self) -> dict[str, Any]:
        """What functions of the catalog tell of this session."""
        return {
            "current_database": self.session.place.name,
            "current_catalog": self.session.place.name,
            "current_user": self.session.token.name,
            "session_user": self.session.token.name,
            "user": self.session.token.name,
            "current_role": self.session.token.name,
            "current_schema": "public",
            "version": f"PostgreSQL {SETTINGS['server_version']} (discreet {__version__})",
            "pg_backend_pid": self.process,
            "now": dt.datetime.now(dt.UTC).replace(tzinfo=None),
            "settings": self.settings.everything(),
            "cursors": list(self.cursors),
        }

    def _setting(self, name: str) -> "pyarrow.Table":
        import pyarrow as pa

        if name == "discreet.budget":
            require(self.session.token, Right.BUDGET)
            return _budget(self.session)
        if name == "all":
            rows = sorted(self.settings.everything().items())
            return pa.table(
                {"name": [n for n, _ in rows], "setting": [v for _, v in rows], "description": [""] * len(rows)}
            )
        return _texts(name, [self.settings.value(name)])


class Stopped(InvalidQuery):
    """The client asked to cancel."""


class Changed(InvalidQuery):
    """The answer would have other columns than were described: drivers know this refusal, and prepare anew."""


def row_schema(plan: "QueryPlan", catalog: Catalog, *, intervals: bool) -> "pyarrow.Schema":
    """The columns of the answer to a plan of one question, from what remains of it over tables without rows.

    Guarantee: nothing is read or charged. Proof. Only the plan and the public catalog are used.
    """
    key = (id(catalog), f"{plan.digest}:{plan.post_queries[0].sql}", intervals)
    result = _SCHEMAS.get(key)
    if result is None:
        query = plan.post_queries[0]
        table, ends = post_query.run(query, post_query.empty_tables(query, plan.releases, catalog))
        result = Answer(table, ends, Fraction(1, 2), _UNPAID, ()).to_arrow(intervals=intervals).schema
        _SCHEMAS.put(key, result)
    return result


def _budget(session: Session) -> "pyarrow.Table":
    """What was granted, spent and is left, of the dataset and of the caller, in all and (if capped) in 24 hours."""
    import pyarrow as pa

    report = session.budget()
    rows: list[tuple[str, float, float | None, float | None, int | None]] = [
        (report.dataset, float(report.epsilon), report.spent, report.remaining, report.charges)
    ]
    for row in report.analysts:
        cap = None if row.cap is None else float(row.cap.epsilon)
        rows.append((row.analyst, cap, row.spent, row.left, row.charges))  # type: ignore[arg-type]
    if (daily := session.token.allowance.daily) is not None:
        who = session.token.name
        recent = session.place.ledger.spent_in_a_day(session.place.name, analyst=who)
        left = printed_down(largest_pure(daily, recent))
        rows.append((f"{who}, in 24 hours", float(daily.epsilon), spent_epsilon(daily, recent), left, None))
    names = ("whose", "granted", "spent", "remaining", "charges")
    kinds = (pa.string(), pa.float64(), pa.float64(), pa.float64(), pa.int64())
    return pa.table({n: pa.array([r[i] for r in rows], k) for i, (n, k) in enumerate(zip(names, kinds, strict=True))})


def _texts(name: str, lines: Sequence[str]) -> "pyarrow.Table":
    import pyarrow as pa

    return pa.table({name: pa.array(list(lines), pa.string())})


# Parameters

_OIDS = {
    ColumnType.INTEGER: 20,
    ColumnType.REAL: 701,
    ColumnType.TEXT: 25,
    ColumnType.BOOLEAN: 16,
    ColumnType.DATE: 1082,
    ColumnType.TIMESTAMP: 1114,
}
_CASTS = {
    "INT": 23, "BIGINT": 20, "SMALLINT": 21, "DOUBLE": 701, "FLOAT": 701, "REAL": 700, "TEXT": 25, "VARCHAR": 25,
    "DATE": 1082, "TIMESTAMP": 1114, "TIMESTAMPTZ": 1184, "BOOLEAN": 16, "DECIMAL": 1700, "TIMESTAMPNTZ": 1114,
    "UINT": 26,
}  # fmt: skip
_NAMED = {"int2": 21, "int4": 23, "int8": 20, "float4": 700, "float8": 701, "bool": 16, "date": 1082,
          "timestamp": 1114, "timestamptz": 1184, "numeric": 1700, "oid": 26}  # fmt: skip
_UNIT = object()
"""In place of a column: a parameter is the unit of DATE_TRUNC."""

_SAMPLES: Mapping[int, Any] = {
    20: 1, 21: 1, 23: 1, 26: 1, 700: 0.5, 701: 0.5, 1700: 1, 16: True, 1082: dt.date(2000, 1, 1),
    1114: dt.datetime(2000, 1, 1), 1184: dt.datetime(2000, 1, 1),
}  # fmt: skip


def parameter_types(sql: str, stated: Sequence[int], count: int, catalog: Catalog) -> tuple[int, ...]:
    """The types of parameters: as the client states them, else as what they are compared with, else text."""
    result = _uses(sql, catalog) if count else {}
    return tuple(
        stated[i] if i < len(stated) and stated[i] not in (0, 705) else result.get(i + 1, (25, None))[0]
        for i in range(count)
    )


def stand_ins(sql: str, types: Sequence[int], catalog: Catalog) -> list[Any]:
    """Values in place of parameters that are not known yet, so that the columns of an answer can be."""
    result = _uses(sql, catalog) if types else {}
    values: list[Any] = []
    for number, oid in enumerate(types, 1):
        column = result.get(number, (0, None))[1]
        if column is _UNIT:
            values.append("day")
        elif oid in ARRAYS:
            kept = column.values if column is not None and column.values else (_SAMPLES.get(ARRAYS[oid].oid, "x"),)
            values.append([kept[0]])
        elif column is not None and column.kind is ColumnType.DATE and column.earliest is not None:
            values.append(column.earliest)
        elif column is not None and column.values and oid in (25, 1043, 0):
            values.append(str(column.values[0]))
        else:
            values.append(_SAMPLES.get(oid, "x"))
    return values


def _uses(sql: str, catalog: Catalog) -> dict[int, tuple[int, Any]]:
    """By the number of a parameter: its type, and the column that it is compared with."""
    try:
        tree = st.parsed(sql, "postgres" if CatalogReader.of(catalog).is_for_catalog(sql) else "duckdb")
    except InvalidQuery:
        return {}
    columns = {column.name.casefold(): column for table in catalog.tables.values() for column in table.columns}
    results: dict[int, tuple[int, Any]] = {}
    compared: dict[int, tuple[int, Any] | None] = {}  # by node: one list may hold thousands of parameters
    for node in tree.find_all(exp.Parameter, exp.Placeholder):
        number = st.number_of(node)
        parent = node.parent
        while isinstance(parent, exp.Paren):
            parent = parent.parent
        if isinstance(parent, exp.Cast):
            is_unit = isinstance(parent.parent, exp.TimestampTrunc | exp.DateTrunc) and parent.arg_key == "unit"
            results[number] = (_type_of(parent.to), _UNIT if is_unit else None)
        elif isinstance(parent, exp.PercentileCont | exp.PercentileDisc | exp.Quantile):
            results[number] = (701, None)
        elif isinstance(parent, exp.TimestampTrunc | exp.DateTrunc):
            results[number] = (25, _UNIT)
        elif parent is not None and st.is_quantified(parent):
            column = _near(parent.parent, columns)
            results[number] = (1009 if column is None else TYPES[_OIDS[column.kind]].array, column)
        elif isinstance(parent, exp.Limit | exp.Offset):
            results[number] = (20, None)
        elif isinstance(parent, exp.Binary | exp.Between | exp.In):
            if id(parent) not in compared:
                compared[id(parent)] = _compared_with(parent, columns)
            if (use := compared[id(parent)]) is not None:
                results[number] = use
    return results


def _compared_with(node: exp.Expr, columns: Mapping[str, Any]) -> tuple[int, Any] | None:
    """The type that a parameter in a comparison has, and the column that it is compared with."""
    column = _near(node, columns)
    if column is not None:
        return _OIDS[column.kind], column
    return (20, None) if node.find(exp.Count) else (701, None) if node.find(exp.AggFunc) else None


def _type_of(to: Any) -> int:
    """The number of the type that a cast names."""
    element = to.expressions[0] if to.is_type("array") and to.expressions else to
    named = _CASTS.get(getattr(element.this, "name", ""), 25)
    if to.args.get("kind") is not None:  # pg_catalog.int8
        named = _NAMED.get(str(to.args["kind"]).rpartition(".")[2].strip('"').casefold(), 25)
    return TYPES[named].array if to.is_type("array") else named


def _near(node: Any, columns: Mapping[str, Any]) -> Any:
    """The column that is compared in a node."""
    near = node.find(exp.Column) if isinstance(node, exp.Expr) else None
    return columns.get(near.name.casefold()) if near is not None else None


__all__ = ["Answers", "Changed", "Result", "Stop", "Stopped", "parameter_types", "row_schema", "stand_ins"]
