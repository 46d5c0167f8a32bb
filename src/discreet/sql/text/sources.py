"""What stands in FROM and WHERE over private rows: tables, joins, queries with a row per person, IN and EXISTS.

Whatever would tie one person's rows to another's is refused with its place: private tables are joined on the unit, or
along the chain of keys that leads to it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, NoReturn

from sqlglot import exp

from discreet.curator.catalog import Catalog, Table
from discreet.errors import InvalidQuery
from discreet.sql.algebra import conditions
from discreet.sql.algebra.expression import Call, Expression, Field, Slot, Unsupported
from discreet.sql.algebra.expression import field as of_column
from discreet.sql.algebra.kinds import Real
from discreet.sql.algebra.rows import (
    Exists,
    Filter,
    Join,
    JoinKind,
    Part,
    Projection,
    PublicScan,
    Rows,
    Scan,
    Step,
    is_public,
    is_unit,
    lookup_columns,
    nodes_of,
    number_of,
    optional_leaf,
    slots_of,
    unit_of,
    unit_type,
)
from discreet.sql.algebra.rules import Limits
from discreet.sql.algebra.verification import renumbered
from discreet.sql.text.aggregates import has_aggregate
from discreet.sql.text.expressions import Ambiguous, condition_of, translate
from discreet.sql.text.persons import Persons
from discreet.sql.text.statement import Statement

MOST_RELATIONS = 500
"""No more tables, steps and unions are read in one statement: text that names queries twice can double without end."""

_ROWS = {"expressions", "from_", "where", "with_", "joins"}
_TABLE = {"this", "alias"}


@dataclass(frozen=True, slots=True)
class Source:
    """Rows under a name in FROM, and what its columns mean: `column` and `table.column`, in lower case."""

    rows: Rows
    columns: dict[str, Any]

    @property
    def public(self) -> bool:
        """Whether the rows are nobody's."""
        return is_public(self.rows)


Names = dict[str, "Source | None"]
"""What WITH has named so far: rows, or (None) something released."""


@dataclass(slots=True)
class Reader:
    """Reads the sources of a statement; numbers its scans and steps. `released` rewrites a query that gives values."""

    catalog: Catalog
    statement: Statement
    limits: Limits
    released: Callable[[Any, Names], Any]
    count: int = 0
    used: dict[int, Any] = field(default_factory=dict)
    joined: dict[int, Any] = field(default_factory=dict)
    """Parts of WHERE that joins have used already, by id; held, so that no id is given again."""
    scopes: dict[int, tuple[Any, Names]] = field(default_factory=dict)

    def number(self) -> int:
        """A number that no scan or step has yet; what WITH names counts again each time that it is used."""
        self.count += 1
        if self.count > MOST_RELATIONS:
            hint = "use what WITH names less often, or ask several questions"
            raise InvalidQuery(f"this reads tables and queries more than {MOST_RELATIONS} times", hint)
        return self.count - 1

    def refuse(self, node: Any, problem: str, hint: str = "") -> NoReturn:
        """Raise `InvalidQuery` at a part of the text."""
        self.statement.refuse(node, problem, hint)

    def table(self, node: exp.Table) -> Table:
        """The table of the catalog that a node names."""
        if node.args.get("db") or node.name.casefold() not in self.catalog.tables:
            known = ", ".join(table.name for table in self.catalog.tables.values())
            named = ".".join(part.name for part in node.parts)
            self.refuse(node, f"there is no table {named!r}", f"there are: {known}")
        return self.catalog.table(node.name)

    # Sources

    def names(self, node: Any, names: Names) -> Names:
        """What WITH names, beside what is named already; queries that give values are rewritten where they stand."""
        clause = node.args.get("with_")
        if clause is None:
            return names
        if id(clause) in self.scopes:  # it was read before, when somebody looked whether this gives rows
            return self.scopes[id(clause)][1]
        names = dict(names)
        self.scopes[id(clause)] = (clause, names)
        released = []
        for part in clause.expressions:
            name = part.alias.casefold()
            if clause.args.get("recursive"):
                names[name] = None
            rows = None if part.args["alias"].columns else self.source(part.this, names)
            names[name] = None if rows is not None and rows.public else rows
            if names[name] is None:
                part.set("this", self.released(part.this, names))
                released.append(part)
        clause.set("expressions", released)
        return names

    def source(self, node: Any, names: Names) -> Source | None:
        """Rows, private or public, or None for anything that gives released values."""
        match node:
            case exp.Table() if isinstance(node.this, exp.Identifier) and not node.args.get("db"):
                return self._scan(node, names)
            case exp.Subquery():
                inner = self.source(node.this, names)
                if inner is None:
                    return None
                if not inner.public:
                    self.only(node, _TABLE)
                return Source(inner.rows, _qualified(inner.columns, node.alias))
            case exp.Select():
                return self._selected(node, names)
            case exp.SetOperation():
                return self._united(node, names)
            case _:
                return None

    def _scan(self, node: exp.Table, names: Names) -> Source | None:
        name = node.name.casefold()
        if name in names:
            named = names[name]
            if named is None:
                return None
            self.only(node, _TABLE)
            named = self._again(named)
            return Source(named.rows, _qualified(named.columns, node.alias or node.name))
        table = self.table(node)
        if table.private:
            self.only(node, _TABLE)
        number = self.number()
        columns = {column.name.casefold(): of_column(column, number) for column in table.columns}
        rows: Rows = PublicScan(table, number)
        if table.private:
            rows = Scan(table, number, self.catalog.chain(table))
        return Source(rows, _qualified(columns, node.alias or node.name))

    def _again(self, source: Source) -> Source:
        """What WITH named, under numbers of its own each time that it is used."""
        if id(source) not in self.used:
            self.used[id(source)] = source
            return source
        numbers = {number: self.number() for node in nodes_of(source.rows) if (number := number_of(node)) is not None}
        columns = {name: renumbered(value, numbers) for name, value in source.columns.items()}
        return Source(renumbered(source.rows, numbers), columns)

    def _selected(self, select: exp.Select, names: Names) -> Source | None:
        """SELECT … FROM rows: rows again, or a row for each person, or None where it gives values."""
        names = self.names(select, names)
        source = self.private(select, names, public=True)
        if source is None:
            return None
        if source.public:
            return self._public(select, source)
        return self._private_rows(select, source, names)

    def _private_rows(self, select: exp.Select, source: Source, names: Names) -> Source | None:
        """SELECT … FROM private rows: rows, numbered rows, a row a person; None where groups are shared by people."""
        persons = self.persons(source)
        distinct = bool(select.args.get("distinct"))
        if groups_or_aggregates(select) or distinct:
            if not persons.is_step(select):
                if distinct and not groups_or_aggregates(select):
                    self.refuse(select, "DISTINCT over rows of several people", "group by it, and count")
                return None
            self.only(select, _ROWS | {"group", "having", "distinct"})
            if distinct and groups_or_aggregates(select):
                self.refuse(select, "DISTINCT together with GROUP BY", "leave DISTINCT out")
            return Source(*self.persons(self.filtered(select, source, names)).step(select))
        if select.find(exp.Window) is not None:
            self.only(select, _ROWS | {"qualify"})
            return Source(*self.persons(self.filtered(select, source, names)).windows(select))
        self.only(select, _ROWS)
        return self.project(select, self.filtered(select, source, names))

    def persons(self, source: Source) -> Persons:
        """Rows of people, for a query over one person's rows at a time."""
        own = lambda value: self.anchor(value, source) is not None  # noqa: E731
        return Persons(self.statement, source.rows, source.columns, self.limits, self.number, own)

    def _public(self, select: exp.Select, source: Source) -> Source | None:
        """SELECT … FROM a public table WHERE …; None for anything more: that is computed elsewhere."""
        further = [name for name, value in select.args.items() if value and name not in _ROWS]
        if further or select.args.get("joins") or any(node is not select for node in select.find_all(exp.Query)):
            return None
        if groups_or_aggregates(select) or select.find(exp.Window) is not None:
            return None
        return self.project(select, self.filtered(select, source, {}))

    def _united(self, node: exp.SetOperation, names: Names) -> Source | None:
        names = self.names(node, names)
        sides = [self.source(side, names) for side in (node.left, node.right)]
        private = [side for side in sides if side is not None and not side.public]
        if len(private) < len(sides):
            return None
        if not isinstance(node, exp.Union) or node.args.get("distinct"):
            word = node.key.upper() if not isinstance(node, exp.Union) else "UNION"
            hint = "UNION ALL of private rows of the same unit is; or aggregate each side first"
            self.refuse(node, f"{word} of these rows is not supported", hint)
        self.only(node, {"this", "expression", "distinct", "with_"})
        return self._stacked(node, *private)

    def _stacked(self, node: Any, left: Source, right: Source) -> Source:
        """UNION ALL: columns by their order, named as on the left."""
        names = [[name for name in side.columns if "." not in name] for side in (left, right)]
        if len(names[0]) != len(names[1]):
            self.refuse(node, f"UNION ALL of {len(names[0])} and {len(names[1])} columns", "list the same columns")
        self.same_units(node, left, right)
        columns: list[tuple[Expression, Expression]] = []
        for one, other in zip(*names, strict=True):
            a, b = left.columns[one], right.columns[other]
            try:
                if not (isinstance(a.kind, Real) and isinstance(b.kind, Real)):
                    a, b = conditions.of_one_kind([a, b], "UNION ALL")
                columns.append((a, b))
            except Unsupported as error:
                self.refuse(node, f"UNION ALL of {one!r} and {other!r}: {error.problem}", error.hint)
        parts = (Part(left.rows, tuple(one for one, _ in columns)), Part(right.rows, tuple(b for _, b in columns)))
        union = Projection(parts, self.number())
        slots = [replace(slot, name=name) for slot, name in zip(slots_of(union), names[0], strict=True)]
        return Source(union, dict(zip(names[0], slots, strict=True)))

    def same_units(self, node: Any, left: Source, right: Source) -> None:
        """Refuse two private relations whose units are not of one kind."""
        kinds = [unit_type(side.rows) for side in (left, right)]
        if None in kinds:
            problem = "rows that are units of their own cannot be put together with others"
            self.refuse(node, problem, "the owner can state a column that identifies a person as the unit")
        if kinds[0] is not kinds[1]:
            units = " and ".join(f"{unit_of(side.rows)} ({unit_type(side.rows)})" for side in (left, right))
            self.refuse(node, f"these tables have different units: {units}", "ask about each of them alone")

    # FROM

    def private(self, select: exp.Select, names: Names, *, public: bool = False) -> Source | None:
        """The private rows that a SELECT reads from, joins included; None where it reads none.

        `public`: rows of one public table are given too.
        """
        clause = select.args.get("from_")
        if clause is None:
            return None
        joins = select.args.get("joins") or []
        nodes = [clause.this, *(join.this for join in joins)]
        sources = [self.source(node, names) for node in nodes]
        if all(source is None or source.public for source in sources):
            return sources[0] if public and len(sources) == 1 else None
        for node, source in zip(nodes, sources, strict=True):
            if source is None:
                hint = "join released values with each other, or ask in two questions and write the values"
                self.refuse(node, "released values cannot be joined with private rows", hint)
        if len(sources) == 1:
            return sources[0]
        return _Joining(self, select, [source for source in sources if source is not None], joins).source()

    def filtered(self, select: exp.Select, source: Source, names: Names) -> Source:
        """The source after WHERE: conditions, and queries in IN or EXISTS."""
        where = select.args.get("where")
        rows: Any = source.rows
        parts = [part for part in conjuncts(where.this) if id(part) not in self.joined] if where is not None else []
        nested = [part for part in parts if any(map(_computed, part.find_all(exp.Query)))]
        if plain := [part for part in parts if part not in nested]:
            tests = [condition_of(part, source.columns, self.statement) for part in plain]
            rows = Filter(rows, reduce(conditions.both, tests))
        for part in nested:
            rows = self._existing(part, Source(rows, source.columns), names)
        return Source(rows, source.columns)

    def _existing(self, node: Any, source: Source, names: Names) -> Exists:
        """x [NOT] IN (SELECT …) and [NOT] EXISTS (SELECT …), as a part of WHERE."""
        negated = False
        while isinstance(node, exp.Not | exp.Paren):
            negated ^= isinstance(node, exp.Not)
            node = node.this
        if isinstance(node, exp.In) and isinstance(node.args.get("query"), exp.Subquery):
            return self._in(node, node.args["query"].this, source, names, negated)
        if isinstance(node, exp.Exists) and isinstance(node.this, exp.Select):
            return self._exists(node.this, source, names, negated)
        if isinstance(node, exp.Binary) and isinstance(node.expression, exp.Any | exp.All):
            hint = "write x IN (SELECT …), or NOT IN; or compare with each person's MIN or MAX, as a step"
            self.refuse(node, "a comparison with ANY or ALL rows of a query is not supported on private rows", hint)
        inner = [query for query in node.find_all(exp.Select) if not isinstance(query.parent, exp.Exists)]
        scalar = [query for query in inner if not isinstance(query.parent, exp.Subquery) or _is_compared(query.parent)]
        if not scalar:
            problem = "a query here is not supported on private rows"
            return self.refuse(node, problem, "IN (SELECT …) and EXISTS stand between AND")
        around = any(self._is_of(column, scalar[0], source) for column in scalar[0].find_all(exp.Column))
        problem = "a released value inside WHERE over private rows is not supported"
        return self.refuse(node, problem, self.statement.two_questions(scalar[0], correlated=around))

    def _is_of(self, column: exp.Column, query: Any, source: Source) -> bool:
        """Whether a column inside a query is one of the rows around it."""
        tables = [table for table in query.find_all(exp.Table) if table.name.casefold() in self.catalog.tables]
        inside = {name.name.casefold() for table in tables for name in self.catalog.table(table.name).columns}
        aliases = {table.alias_or_name.casefold() for table in tables}
        outer = column.table.casefold() not in aliases if column.table else column.name.casefold() not in inside
        return outer and _name(column) in source.columns

    def _in(self, node: exp.In, query: Any, source: Source, names: Names, negated: bool) -> Exists:
        inner = self.source(_without_distinct(query), names)
        if inner is None:
            hint = self.statement.two_questions(query)
            self.refuse(query, "IN with released values is not supported on private rows", hint)
        columns = [name for name in inner.columns if "." not in name]
        if len(columns) != 1:
            self.refuse(query, f"IN with a query of {len(columns)} columns", "select one column")
        value, other = translate(node.this, source.columns, self.statement), inner.columns[columns[0]]
        if not inner.public:
            self.same_units(query, source, inner)
            self._require_tie(node, [(value, other)], source, inner)
        try:
            test = conditions.compare("equal", value, other)
            if not inner.public and self.same_person(test, source, inner):
                return Exists(source.rows, inner.rows, None, negated)
            rows = source.rows
            if negated:
                if value.nullable and not inner.public:  # null is not outside of anything, whoever's rows are empty
                    rows = Filter(rows, conditions.opposite(conditions.is_null(value)))
                for side in (value, other):
                    test = conditions.either(test, conditions.is_null(side)) if side.nullable else test
        except Unsupported as error:
            self.refuse(node, error.problem, error.hint)
        return Exists(rows, inner.rows, test, negated)

    def _exists(self, select: exp.Select, source: Source, names: Names, negated: bool) -> Exists:
        names = self.names(select, names)
        allowed = _ROWS | {"distinct"}
        for name, value in select.args.items():
            if value and name not in allowed:
                self.refuse(select, f"EXISTS with {_word(name)} is not supported on private rows", "leave that out")
        inner = self.private(select, names, public=True)
        if inner is None:
            self.refuse(select, "EXISTS over released values is not supported on private rows", "ask it first")
        where = select.args.get("where")
        own: list[Any] = []
        crossing: list[Any] = []
        nested: list[Any] = []
        for part in [] if where is None else conjuncts(where.this):
            if id(part) not in self.joined:
                queries = any(map(_computed, part.find_all(exp.Query)))
                (nested if queries else own if _all_known(part, inner.columns) else crossing).append(part)
        for part in own:
            inner = Source(Filter(inner.rows, condition_of(part, inner.columns, self.statement)), inner.columns)
        for part in nested:
            inner = Source(self._existing(part, inner, names), inner.columns)
        scope = source.columns | inner.columns
        tests = [condition_of(part, scope, self.statement) for part in crossing]
        tests = [test for test in tests if inner.public or not self.same_person(test, source, inner)]
        if not inner.public:
            self.same_units(select, source, inner)
            self._require_tie(select, list(_equal_pairs(crossing, scope, self.statement)), source, inner)
        return Exists(source.rows, inner.rows, reduce(conditions.both, tests) if tests else None, negated)

    def _require_tie(self, node: Any, pairs: Iterable[tuple[Any, Any]], left: Source, right: Source) -> None:
        """Refuse unless some pair of equal values makes both rows the same person's."""
        for one, other in pairs:
            for a, b in ((one, other), (other, one)):
                anchor = self.anchor(a, left)
                if anchor is not None and anchor == self.anchor(b, right):
                    return
        units = " = ".join(dict.fromkeys(str(unit_of(side.rows).key) for side in (left, right)))
        problem = "this would tie rows of one person to rows of another"
        self.refuse(node, problem, f"let the condition contain the unit ({units}), or the key that leads to it")

    def same_person(self, test: Expression, left: Source, right: Source) -> bool:
        """Whether a condition says only that both rows are the same person's, which is required of them anyway."""
        if not isinstance(test, Call) or test.operation != "equal":
            return False
        one, other = test.arguments
        return any(is_unit(a, left.rows) and is_unit(b, right.rows) for a, b in ((one, other), (other, one)))

    def anchor(self, value: Any, source: Source) -> Any:
        """What a column says of a row's person: it is the unit, or a key of the chain that leads there; or None."""
        if isinstance(value, Field | Slot) and value.optional:
            value = replace(value, optional=False)
        if is_unit(value, source.rows):
            return "unit"
        for node in nodes_of(source.rows):
            if isinstance(value, Slot) and isinstance(node, Step) and node.index == value.source:
                is_key = value.index < len(node.keys)
                return self.anchor(node.keys[value.index], Source(node.source, {})) if is_key else None
            if isinstance(value, Field) and isinstance(node, Scan) and node.source == value.source:
                link = node.table.link
                if link is not None and node.table.column(link.column) == value.column:
                    return link.table.casefold(), link.key.casefold()
                name = node.table.name.casefold()
                links = [child.link for child in self.catalog.tables.values() if child.link is not None]
                for key in (link.key for link in links if link.table.casefold() == name):
                    if node.table.column(key) == value.column:
                        return name, key.casefold()
        return None

    # SELECT

    def project(self, select: exp.Select, source: Source) -> Source:
        """The columns that a SELECT without aggregates gives."""
        columns: dict[str, Any] = {}
        for part in select.expressions:
            for name, value in self.projected(part, source.columns):
                if name in columns:
                    self.refuse(part, f"two columns named {name!r}", "give them different names with AS")
                columns[name] = value
        return Source(source.rows, columns)

    def projected(self, part: Any, columns: Mapping[str, Any]) -> Iterator[tuple[str, Expression]]:
        """A part of SELECT: names and what they mean."""
        star = part.this if isinstance(part, exp.Column) and isinstance(part.this, exp.Star) else part
        if isinstance(star, exp.Star):
            if any(star.args.values()):
                self.refuse(part, "* with further words is not supported", "list the columns")
            prefix = f"{part.table.casefold()}." if isinstance(part, exp.Column) else ""
            for name, value in columns.items():
                if name.startswith(prefix) and "." not in name.removeprefix(prefix):
                    if isinstance(value, Ambiguous):
                        self.refuse(part, f"two columns named {name!r}", "list the columns: a.x, b.x AS y")
                    yield name.removeprefix(prefix), value
        elif part.alias_or_name:
            yield part.alias_or_name.casefold(), translate(part.unalias(), columns, self.statement)
        else:
            self.refuse(part, "this column has no name", "name it with AS")

    def only(self, node: Any, allowed: set[str]) -> None:
        """Refuse whatever a node carries beyond what is allowed on private rows."""
        for name, value in node.args.items():
            if value and name not in allowed:
                where = value[0] if isinstance(value, list) else value
                part = where if isinstance(where, exp.Expr) else node
                if name == "windows":
                    self.refuse(part, "WINDOW is not supported on private rows", "write each window after its OVER")
                if name == "joins":
                    self.refuse(part, "a join here is not supported", "write SELECT … FROM a JOIN b ON …")
                self.refuse(part, f"{_word(name)} is not supported on private rows", "aggregate first, then use it")
        alias = node.args.get("alias")
        if isinstance(alias, exp.TableAlias) and alias.columns:
            self.refuse(node, "column names after a table's alias are not supported", "name columns with AS")


@dataclass(slots=True)
class _Joining:
    """FROM … JOIN … JOIN …, folded from left to right; conditions of inner joins are used as soon as they can be."""

    reader: Reader
    select: exp.Select
    sources: list[Source]
    joins: list[Any]
    pool: list[Any] = field(default_factory=list)

    def source(self) -> Source:
        """The rows of all joins."""
        kinds = [self._kind(join) for join in self.joins]
        where = self.select.args.get("where")
        tests: list[Any] = []
        if all(kind == "inner" for kind in kinds):
            self.pool = [part for join in self.joins if join.args.get("on") for part in conjuncts(join.args["on"])]
            tests = [] if where is None else conjuncts(where.this)
            self.pool += [part for part in tests if not any(map(_computed, part.find_all(exp.Query)))]
            self.reader.joined |= {id(part): part for part in self.pool}
        steps = self._in_order(kinds)
        current = self._narrowed(steps[0][0])
        for right, join, kind in steps[1:]:
            current = self._joined(current, self._narrowed(right) if kind in ("inner", "left") else right, join, kind)
        for part in self.pool:
            if part in tests:  # it may be about a query around this one
                self.reader.joined.pop(id(part), None)
                continue
            test = condition_of(part, current.columns, self.reader.statement)
            current = Source(Filter(current.rows, test), current.columns)
        return current

    def _kind(self, join: exp.Join) -> JoinKind:
        side, kind, method = (str(join.args.get(name) or "").upper() for name in ("side", "kind", "method"))
        if kind in ("SEMI", "ANTI") or method not in ("", "NATURAL") or side not in ("", "LEFT", "RIGHT", "FULL"):
            hint = "write IN (SELECT …) or EXISTS" if kind in ("SEMI", "ANTI") else "use an ordinary join"
            self.reader.refuse(join, f"{method or kind or side} JOIN is not supported on private rows", hint)
        self.reader.only(join, {"this", "on", "using", "side", "kind", "method"})
        results: dict[str, JoinKind] = {"LEFT": "left", "RIGHT": "right", "FULL": "full"}
        return results.get(side, "inner")

    def _in_order(self, kinds: list[JoinKind]) -> list[tuple[Source, Any, JoinKind]]:
        """Private rows first: a public table that stands before them changes places with them."""
        steps: list[tuple[Source, Any, JoinKind]] = [(self.sources[0], None, "inner")]
        steps += zip(self.sources[1:], self.joins, kinds, strict=True)
        first = next(i for i, (source, _, _) in enumerate(steps) if not source.public)
        if first == 0:
            return steps
        source, join, kind = steps[first]
        before = [step[2] for step in steps[1 : first + 1]]
        if first == 1 and kind == "right":
            return [(source, None, "inner"), (steps[0][0], join, "left"), *steps[2:]]
        if any(step != "inner" for step in before):
            hint = "write the private table first: groups of a public column are all answered, empty ones too"
            self.reader.refuse(join, "rows of a public table that nobody has cannot be kept", hint)
        using = [step[1] for step in steps[1 : first + 1] if step[1].args.get("using") or step[1].args.get("method")]
        if using and first > 1:
            self.reader.refuse(using[0], "USING between public tables before private rows", "write ON a.x = b.x")
        publics = [(step[0], join if i == 0 else step[1], "inner") for i, step in enumerate(steps[:first])]
        return [(source, None, "inner"), *publics, *steps[first + 1 :]]  # type: ignore[list-item]

    def _narrowed(self, source: Source) -> Source:
        """A source with the conditions of the pool that are about it alone."""
        for part in [part for part in self.pool if _all_known(part, source.columns) and part.find(exp.Column)]:
            if not any(_all_known(part, other.columns) for other in self.sources if other is not source):
                self.pool.remove(part)
                test = condition_of(part, source.columns, self.reader.statement)
                source = Source(Filter(source.rows, test), source.columns)
        return source

    def _joined(self, left: Source, right: Source, join: Any, kind: JoinKind) -> Source:
        reader = self.reader
        left = self._stored(left) if kind in ("right", "full") else left
        right = self._stored(right) if kind in ("left", "full") else right
        shared = self._shared(left, right, join)
        merged = _merged(left.columns, right.columns)
        pooled = all(self._kind(other) == "inner" for other in self.joins)
        parts = conjuncts(join.args["on"]) if join.args.get("on") and not pooled else []
        ready = [part for part in self.pool if _all_known(part, merged)]
        for part in ready:
            self.pool.remove(part)
        pairs = [(left.columns[name], right.columns[name]) for name in shared]
        try:
            tests = [conditions.compare("equal", *pair) for pair in pairs]
        except Unsupported as error:
            reader.refuse(join, error.problem, error.hint)
        tests += [condition_of(part, merged, reader.statement) for part in (*parts, *ready)]
        pairs += _equal_pairs([*parts, *ready], merged, reader.statement)
        tests = [test for test in tests if right.public or not reader.same_person(test, left, right)]
        test = reduce(conditions.both, tests) if tests else None
        if not right.public:
            reader.same_units(join, left, right)
            reader._require_tie(join, pairs, left, right)
        elif kind in ("right", "full"):
            hint = "write the private table first, and LEFT JOIN or JOIN"
            reader.refuse(join, "rows of a public table that nobody has cannot be kept", hint)
        if kind in ("left", "full"):
            right = _optional(right)
        if kind in ("right", "full"):
            left = _optional(left)
        rows = Join(left.rows, right.rows, kind, test, self._lookup(join, left, right, test))
        columns = _merged(left.columns, right.columns)
        for name in shared:
            one, other = left.columns[name], right.columns[name]
            columns[name] = conditions.coalesce([one, other]) if kind == "full" else other if kind == "right" else one
        return Source(rows, columns)

    def _shared(self, left: Source, right: Source, join: Any) -> list[str]:
        """The columns of USING or NATURAL."""
        natural = str(join.args.get("method") or "").upper() == "NATURAL"
        names = [part.name.casefold() for part in join.args.get("using") or ()]
        if natural:
            names = [name for name in left.columns if "." not in name and name in right.columns]
            if not names:
                self.reader.refuse(join, "NATURAL JOIN of tables that share no column", "write ON …")
        for name in names:
            for side in (left, right):
                if name not in side.columns or isinstance(side.columns[name], Ambiguous):
                    words = f"NATURAL JOIN by {name}" if natural else f"USING ({name})"
                    self.reader.refuse(join, f"{words}: not one column of each side", "write ON a.x = b.x")
        return names

    def _stored(self, source: Source) -> Source:
        """A side that an outer join may leave out: computed values become columns, which are then null."""
        values = dict.fromkeys(value for value in source.columns.values() if not isinstance(value, Ambiguous))
        if all(isinstance(value, Field | Slot) for value in values):
            return source
        projection = Projection((Part(source.rows, tuple(values)),), self.reader.number())
        slots = dict(zip(values, slots_of(projection), strict=True))
        columns = {
            name: value if isinstance(value, Ambiguous) else replace(slots[value], name=name.rpartition(".")[2])
            for name, value in source.columns.items()
        }
        return Source(projection, columns)

    def _lookup(self, join: Any, left: Source, right: Source, test: Expression | None) -> tuple[Any, ...]:
        """Where rows are units of their own: the columns by which one public row is looked up for each."""
        if not right.public or unit_of(left.rows).key is not None:
            return ()
        own = {leaf.source for leaf in right.columns.values() if isinstance(leaf, Field | Slot)}
        keys = tuple(dict.fromkeys(leaf for leaf in lookup_columns(test, left.rows) if leaf.source in own))
        if not keys:
            hint = "join on a column of the public table that equals something of the row: ON t.code = codes.code"
            self.reader.refuse(join, "where rows are units of their own, each may find one public row only", hint)
        return keys


def _optional(source: Source) -> Source:
    """The side of an outer join that may match nothing: all its columns can be null."""
    columns = {
        name: value if isinstance(value, Ambiguous) else optional_leaf(value) for name, value in source.columns.items()
    }
    return Source(source.rows, columns)


def conjuncts(node: Any) -> list[Any]:
    """The parts of a condition between AND; what all sides of an OR have in common stands before it."""
    match node:
        case exp.And():
            return [*conjuncts(node.this), *conjuncts(node.expression)]
        case exp.Paren() if isinstance(node.this, exp.And | exp.Or | exp.Paren):
            return conjuncts(node.this)
        case exp.Or():
            sides = [conjuncts(side) for side in _alternatives(node)]
            shared = [part for part in sides[0] if all(part in side for side in sides[1:])]
            return [*shared, node]
        case _:
            return [node]


def _alternatives(node: Any) -> list[Any]:
    match node:
        case exp.Or():
            return [*_alternatives(node.this), *_alternatives(node.expression)]
        case exp.Paren() if isinstance(node.this, exp.Or | exp.Paren):
            return _alternatives(node.this)
        case _:
            return [node]


def groups_or_aggregates(select: exp.Select) -> bool:
    """Whether a SELECT groups or aggregates."""
    if select.args.get("group") or select.args.get("having"):
        return True
    parts = [*select.expressions, select.args.get("order"), select.args.get("qualify")]
    return any(has_aggregate(part) for part in parts if part is not None)


def _is_compared(node: exp.Subquery) -> bool:
    """Whether a query stands where one value stands."""
    return not isinstance(node.parent, exp.In | exp.From | exp.Join | exp.Exists)


def _computed(node: Any) -> bool:
    """Whether a query stands inside an expression."""
    return isinstance(node, exp.Query)


def _without_distinct(query: Any) -> Any:
    """A query in IN, where duplicates change nothing."""
    if isinstance(query, exp.Select) and query.args.get("distinct"):
        query = query.copy()
        query.set("distinct", None)
    return query


def _equal_pairs(parts: Iterable[Any], scope: Mapping[str, Any], statement: Statement) -> Iterator[tuple[Any, Any]]:
    for part in parts:
        inner = part
        while isinstance(inner, exp.Paren):
            inner = inner.this
        if isinstance(inner, exp.EQ):
            yield translate(inner.this, scope, statement), translate(inner.expression, scope, statement)


def _all_known(node: Any, columns: Mapping[str, Any]) -> bool:
    """Whether all columns of a part of the text are among these."""
    if any(map(_computed, node.find_all(exp.Query))):
        return False
    return all(_name(column) in columns for column in node.find_all(exp.Column))


def _name(column: exp.Column) -> str:
    return ".".join(part.name for part in column.parts).casefold()


def _merged(left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
    """What names mean over two sources; a plain name that both have means neither."""
    both = {name: Ambiguous(name) for name in left if name in right}
    return left | right | both


def _qualified(columns: dict[str, Any], alias: str) -> dict[str, Any]:
    plain = {name: value for name, value in columns.items() if "." not in name}
    return plain | {f"{alias.casefold()}.{name}": value for name, value in plain.items()} if alias else plain


def _word(name: str) -> str:
    return name.rstrip("_").replace("_", " ").upper()
