"""Queries over one person's rows at a time: GROUP BY the unit, DISTINCT, and windows partitioned by the unit."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from sqlglot import exp

from discreet.errors import InvalidQuery
from discreet.sql.algebra import conditions, functions
from discreet.sql.algebra.expression import Expression, Slot, Unsupported, all_of, constant, leaves_of, substitute
from discreet.sql.algebra.kinds import Fixed, Nothing
from discreet.sql.algebra.rows import (
    Filter,
    Order,
    PersonAggregate,
    Rows,
    Step,
    Window,
    WindowCall,
    is_unit,
    private_tables,
    slots_of,
    unit_of,
    unit_type,
)
from discreet.sql.algebra.rules import Limits
from discreet.sql.text.aggregates import grouped_by, held, is_aggregate
from discreet.sql.text.expressions import Scope, condition_of, translate
from discreet.sql.text.statement import Statement, start_of

Columns = dict[str, Any]


@dataclass(slots=True)
class Persons:
    """Rows of people, and what their columns mean, while a query over one person's rows is read."""

    statement: Statement
    rows: Rows
    columns: Columns
    limits: Limits
    number: Callable[[], int]
    is_own: Callable[[Expression], bool]
    """Whether a value is one person's alone: the unit, or a key of the chain that leads to it."""
    calls: list[Any] = field(default_factory=list)
    names: Columns = field(default_factory=dict)
    """What stands in the text instead of a call that was taken out of it."""

    # GROUP BY the unit

    def is_step(self, select: exp.Select) -> bool:
        """Whether a query that groups gives a row for each person, or for each person and something else.

        A key of the chain (an order's number) is one person's, as the owner states; a step reads the rows of each unit
        apart, so where that is not so, the groups are smaller, and still one person's.
        """
        if unit_type(self.rows) is None:
            return False
        return any(self.is_own(value) for _, value in self._keys(select))

    def step(self, select: exp.Select) -> tuple[Rows, Columns]:
        """SELECT unit, …, aggregates … GROUP BY unit, …: one row for each person and combination of keys."""
        keys = self._keys(select)
        index = self.number()
        parts = [
            (part, self._without_calls(part.unalias(), index, len(keys), aggregate=True)) for part in select.expressions
        ]
        having = select.args.get("having")
        tested = None if having is None else self._without_calls(having.this, index, len(keys), aggregate=True)
        made = Step(self.rows, tuple(value for _, value in keys), tuple(self.calls), index)
        slots = slots_of(made)
        named = {value: replace(slot, name=name) for (name, value), slot in zip(keys, slots, strict=False)}
        columns: Columns = {}
        for part, text in parts:
            self._add(columns, part, self._over_step(part, text, named))
        if tested is None:
            return made, columns
        condition = condition_of(tested, self.columns | self.names, self.statement)
        return Filter(made, self._checked(having, substitute(condition, named), index)), columns

    def _keys(self, select: exp.Select) -> list[tuple[str, Expression]]:
        """What a query groups by, with names; DISTINCT groups by all that it selects."""
        clause = select.args.get("group")
        if clause is None and select.args.get("distinct"):
            parts = [(part.alias_or_name, part.unalias()) for part in select.expressions]
        elif clause is None:
            parts = []
        else:
            parts = [grouped_by(self.statement, part, select, self.columns) for part in clause.expressions]
        keys: dict[Expression, str] = {}
        for name, part in parts:
            value = translate(part, self.columns, self.statement)
            if isinstance(value.kind, Nothing):
                self.statement.refuse(part, "GROUP BY of null", "leave it out")
            keys.setdefault(value, name)
        return [(name, value) for value, name in keys.items()]

    def _over_step(self, part: Any, text: Any, named: dict[Expression, Slot]) -> Expression:
        scope = self.columns | self.names
        try:
            value = translate(text, scope, self.statement)
        except InvalidQuery:  # a share of their rows: counts and sums are clamped before they are divided
            value = translate(text, held(scope), self.statement)
        return self._checked(part, substitute(value, named), next(iter(named.values())).source)

    def _checked(self, node: Any, value: Expression, index: int) -> Expression:
        for leaf in leaves_of(value):
            if not (isinstance(leaf, Slot) and leaf.source == index):
                hint = "put it in GROUP BY, or inside an aggregate"
                self.statement.refuse(node, f"{leaf} is neither grouped by nor aggregated", hint)
        return value

    def _without_calls(self, node: Any, index: int, first: int, *, aggregate: bool) -> Any:
        """A part of the text, with each aggregate or window function as a column that stands for it."""
        wanted = is_aggregate if aggregate else lambda part: isinstance(part, exp.Window)

        def put(part: Any) -> Any:
            if isinstance(part, exp.Query):
                hint = "ask it as a question of its own, and write its answer here"
                self.statement.refuse(part, "a query here is not supported on private rows", hint)
            if not wanted(part):
                return part
            call = self._person_call(part) if aggregate else self._window_call(part)
            if call not in self.calls:
                self.calls.append(call)
            place = self.calls.index(call)
            name = f"\0{place}"
            self.names[name] = self._slot(call, index, first + place, part)
            column = exp.column(name, quoted=True)
            if (start := start_of(part)) is not None:
                column.meta["start"] = start
            return column

        return node.copy().transform(put, copy=False)

    def _slot(self, call: Any, index: int, place: int, node: Any) -> Slot:
        kind, nullable = call.kind, call.nullable
        function = call.function
        shown = {"count": "count of their rows"}.get(function, function)
        name = f"{shown}" if call.value is None else f"{function} of their {call.value}"
        return Slot(index, place, kind, nullable, all_of(kind), name=name, clamp=self._clamp(call))

    def _clamp(self, call: Any) -> tuple[int, int] | None:
        """What a count or sum of a person is held to where people are added up: the weight of so many rows."""
        tables = private_tables(self.rows)
        rows = self.limits.rows or max((table.rows for table in tables if table.rows is not None), default=None)
        if rows is None:
            return None
        if call.function in ("count", "distinct"):
            return (0 if call.value is not None else 1), rows
        if call.function == "sum" and isinstance(call.value.kind, Fixed):
            return rows * min(0, call.value.kind.lower or 0), rows * max(0, call.value.kind.upper or 0)
        return None

    def _person_call(self, node: Any) -> PersonAggregate:
        try:
            return self._aggregate(node)
        except Unsupported as error:
            self.statement.refuse(node, error.problem, error.hint)

    def _aggregate(self, node: Any) -> PersonAggregate:
        only = None
        if isinstance(node, exp.Filter):
            only, node = condition_of(node.expression.this, self.columns, self.statement), node.this
        inner, distinct = node.this, False
        if isinstance(inner, exp.Distinct) and len(inner.expressions) == 1:
            inner, distinct = inner.expressions[0], True
        match node:
            case exp.Count() if not distinct and (inner is None or isinstance(inner, exp.Star)):
                return PersonAggregate("count", self._where(only, None))
            case exp.Count():
                return PersonAggregate("distinct" if distinct else "count", self._where(only, self._value(inner)))
            case exp.CountIf():
                test = condition_of(inner, self.columns, self.statement)
                test = test if only is None else conditions.both(only, test)
                return PersonAggregate("count", self._where(test, None))
            case exp.Min() | exp.Max() if not node.args.get("expressions"):
                value = self._value(inner)
                return PersonAggregate("min" if isinstance(node, exp.Min) else "max", self._where(only, value))
            case exp.Sum() | exp.Avg() if not distinct:
                value = functions.number_of(self._value(inner))
                if not isinstance(value.kind, Fixed) or not value.kind.bounded:
                    hint = "declare bounds in the policy, or clamp: LEAST(GREATEST(x, low), high)"
                    raise Unsupported(f"{node.sql_name()} of {value}, which has no bounds", hint)
                call = PersonAggregate("sum" if isinstance(node, exp.Sum) else "mean", self._where(only, value))
                if not call.fits:
                    raise Unsupported(f"{node.sql_name()} of {value}, too large for 64 bits", "use narrower bounds")
                return call
        hint = "COUNT, SUM, AVG, MIN and MAX are; or number the rows: ROW_NUMBER() OVER (PARTITION BY unit ORDER BY …)"
        if isinstance(node, exp.LogicalAnd | exp.LogicalOr):
            hint = "count instead: COUNT_IF(condition) > 0 where one row is enough, COUNT_IF(NOT condition) = 0 for all"
        raise Unsupported(f"{self.statement.called(node)} of one person's rows is not supported", hint)

    def _value(self, node: Any) -> Expression:
        value = translate(node, self.columns, self.statement)
        if isinstance(value.kind, Nothing):
            raise Unsupported("an aggregate of null", "name a column")
        return value

    @staticmethod
    def _where(only: Expression | None, value: Expression | None) -> Expression | None:
        if only is None:
            return value
        return conditions.case([(only, constant(True) if value is None else value)], constant(None))

    # Windows

    def windows(self, select: exp.Select) -> tuple[Rows, Columns]:
        """SELECT …, ROW_NUMBER() OVER (PARTITION BY unit ORDER BY …) … [QUALIFY …]: the same rows, numbered."""
        index = self.number()
        parts = [(part, self._without_calls(part.unalias(), index, 0, aggregate=False)) for part in select.expressions]
        qualify = select.args.get("qualify")
        aliases = {part.alias.casefold(): text for part, text in parts if part.alias}
        tested = None
        if qualify is not None:
            known = self._expanded(qualify.this, aliases)
            tested = self._without_calls(known, index, 0, aggregate=False)
        rows: Rows = Window(self.rows, tuple(self.calls), index) if self.calls else self.rows
        scope: Scope = self.columns | self.names
        columns: Columns = {}
        for part, text in parts:
            if isinstance(text, exp.Star):
                columns |= {name: value for name, value in self.columns.items() if "." not in name}
            else:
                self._add(columns, part, translate(text, scope, self.statement))
        if tested is not None:
            rows = Filter(rows, condition_of(tested, scope, self.statement))
        return rows, columns

    def _expanded(self, node: Any, aliases: dict[str, Any]) -> Any:
        """QUALIFY may use the names that SELECT gives."""

        def put(part: Any) -> Any:
            if isinstance(part, exp.Column) and not part.table and part.name.casefold() in aliases:
                return aliases[part.name.casefold()].copy()
            return part

        return node.copy().transform(put, copy=False)

    def _window_call(self, node: exp.Window) -> WindowCall:
        statement = self.statement
        for name in ("spec", "first", "alias"):
            if node.args.get(name):
                statement.refuse(node, "a window with a frame or a name is not supported", "leave that out")
        partition = [translate(part, self.columns, statement) for part in node.args.get("partition_by") or ()]
        if not any(self.is_own(value) for value in partition):
            unit = unit_of(self.rows).key
            hint = f"PARTITION BY {unit}, …" if unit else "window functions work on aggregates: SUM(COUNT(*)) OVER ()"
            statement.refuse(node, "a window over private rows that is not one person's", hint)
        rest = tuple(value for value in partition if not is_unit(value, self.rows))
        clause = node.args.get("order")
        order = tuple(
            Order(value, bool(part.args.get("desc")), bool(part.args.get("nulls_first")))
            for part in (clause.expressions if clause is not None else ())
            for value in (translate(part.this, self.columns, statement),)
        )
        try:
            return self._window(node.this, rest, order)
        except Unsupported as error:
            statement.refuse(node, error.problem, error.hint)

    def _window(self, function: Any, partition: tuple[Expression, ...], order: tuple[Order, ...]) -> WindowCall:
        name = {exp.RowNumber: "row_number", exp.Rank: "rank", exp.DenseRank: "dense_rank"}.get(type(function))
        if name is not None:
            if not order:
                raise Unsupported(f"{function.sql_name()} without ORDER BY", "say in which order: ORDER BY day")
            return WindowCall(name, None, partition, order)  # type: ignore[arg-type]
        if isinstance(function, exp.Lag | exp.Lead):
            if function.args.get("offset") or function.args.get("default") or not order:
                raise Unsupported(f"{function.sql_name()} of this form", "write LAG(x) OVER (… ORDER BY day)")
            name = "lag" if isinstance(function, exp.Lag) else "lead"
            return WindowCall(name, self._value(function.this), partition, order)  # type: ignore[arg-type]
        call = self._aggregate(function)
        if call.function not in ("count", "sum", "min", "max"):
            hint = "COUNT, SUM, MIN and MAX are supported; for a mean, join SELECT unit, AVG(x) … GROUP BY unit"
            raise Unsupported(f"{self.statement.called(function)} over a window", hint)
        return WindowCall(call.function, call.value, partition, order)

    def _add(self, columns: Columns, part: Any, value: Expression) -> None:
        name = part.alias_or_name.casefold()
        if not name:
            self.statement.refuse(part, "this column has no name", "name it with AS")
        if name in columns:
            self.statement.refuse(part, f"two columns named {name!r}", "give them different names with AS")
        columns[name] = replace(value, name=part.alias_or_name) if isinstance(value, Slot) else value
