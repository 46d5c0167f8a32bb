"""Intervals through arithmetic and outer queries: interval arithmetic, written as SQL.

The outermost SELECT is a block itself, or reads blocks (in FROM, or named by WITH) and public tables.
Where it is anything else, its columns have no intervals. A value that is computed from m different aggregates has an
interval that holds with the stated confidence, because each of the m is given an interval that fails with 1/m of the
failure probability (Bonferroni).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from sqlglot import exp

from discreet.curator.catalog import Catalog

Pair = tuple[exp.Expr, exp.Expr]
IntervalOf = Callable[[exp.Column], Pair | None]
"""From a column to SQL for its two confidence bounds; None where they are not known."""


_MOST_PRODUCTS = 2
"""Products and quotients of values that vary: each multiplies the length of the SQL by eight."""


def interval_of(node: Any, of: IntervalOf) -> Pair | None:
    """SQL for the low and the high end of a value; None where no rule is known, or where it would be too long."""
    products = [part for part in node.find_all(exp.Mul, exp.Div) if not _constant(part.this, part.expression)]
    return _interval(node, of) if len(products) <= _MOST_PRODUCTS else None


def _interval(node: Any, of: IntervalOf) -> Pair | None:  # noqa: PLR0911 (one return a rule)
    match node:
        case exp.Column():
            return of(node)
        case exp.Literal() if not node.is_string:
            return node.copy(), node.copy()
        case exp.Paren() | exp.Alias():
            return _interval(node.this, of)
        case exp.Cast() if node.to.this.value in ("DOUBLE", "FLOAT"):
            return _both(_interval(node.this, of), lambda end: exp.cast(end, "DOUBLE"))
        case exp.Nullif() if isinstance(node.expression, exp.Literal):
            return _interval(node.this, of)
        case exp.Neg():
            inner = _interval(node.this, of)
            return None if inner is None else (_neg(inner[1]), _neg(inner[0]))
        case exp.Round():
            digits = node.args.get("decimals")
            if digits is not None and not isinstance(digits, exp.Literal | exp.Neg):
                return None
            return _both(_interval(node.this, of), lambda end: exp.Round(this=end, decimals=digits and digits.copy()))
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Div():
            left, right = _interval(node.this, of), _interval(node.expression, of)
            return None if left is None or right is None else _arithmetic(node, left, right)
        case _:
            return None


def _arithmetic(node: Any, left: Pair, right: Pair) -> Pair | None:  # noqa: PLR0911 (one return a rule)
    (a, b), (c, d) = left, right
    match node:
        case exp.Add():
            return _op(exp.Add, a, c), _op(exp.Add, b, d)
        case exp.Sub():
            return _op(exp.Sub, a, d), _op(exp.Sub, b, c)
        case exp.Mul() if _constant(node.this):
            return _op(exp.Mul, a, c), _op(exp.Mul, b, d)
        case exp.Mul() | exp.Div() if _constant(node.expression):
            return _op(type(node), a, c), _op(type(node), b, d)
        case exp.Mul():
            return _extremes([_op(exp.Mul, x, y) for x in (a, b) for y in (c, d)])
        case exp.Div():
            low, high = _extremes([_op(exp.Div, _double(x), _double(y)) for x in (a, b) for y in (c, d)])
            known = exp.or_(exp.GT(this=c.copy(), expression=exp.Literal.number(0)), d.copy() < 0)
            return exp.Case().when(known, low), exp.Case().when(known.copy(), high)
        case _:
            return None


def _constant(*nodes: Any) -> bool:
    """Whether one of these is a number that is written out, and so above zero or zero."""
    return any(isinstance(node, exp.Literal) and not node.is_string for node in nodes)


def _extremes(corners: list[exp.Expr]) -> Pair:
    rest = [corner.copy() for corner in corners]
    return exp.Least(this=corners[0], expressions=corners[1:]), exp.Greatest(this=rest[0], expressions=rest[1:])


def _op(kind: Any, left: exp.Expr, right: exp.Expr) -> exp.Expr:
    node: exp.Expr = kind(this=exp.paren(left.copy()), expression=exp.paren(right.copy()))
    return node


def _double(end: exp.Expr) -> exp.Expr:
    return exp.cast(end.copy(), "DOUBLE")


def _neg(end: exp.Expr) -> exp.Expr:
    return exp.Neg(this=exp.paren(end.copy()))


def _both(inner: Pair | None, change: Callable[[exp.Expr], exp.Expr]) -> Pair | None:
    return None if inner is None else (change(inner[0].copy()), change(inner[1].copy()))


_ENDS = {"dp_interval_low": 0, "dp_interval_high": 1}


def interval_ends(tree: exp.Expr) -> list[exp.Anonymous]:
    """The calls of DP_INTERVAL_LOW and DP_INTERVAL_HIGH in a query, innermost first."""
    return [node for node in tree.find_all(exp.Anonymous) if node.name.casefold() in _ENDS][::-1]


_ITSELF = "\0"
"""Under this name, FROM reads the block that the outermost SELECT itself is."""

BoundsOf = Callable[[str, int, int], Pair | None]
"""From a released table, the index of an aggregate and a share of the failure probability to its bounds, if any."""


@dataclass(slots=True)
class Lineage:
    """The outermost SELECT while hidden columns are added to it; `intervals` names them by visible column."""

    tree: exp.Select
    released: set[str]
    catalog: Catalog
    bounds_of: BoundsOf
    intervals: list[tuple[str, str, str]] = field(default_factory=list)

    def add(self, prefix: str) -> None:
        """Add the ends of every column for which they are known."""
        sources = self._sources()
        if sources is None:
            return
        hidden = []
        for i, part in enumerate(self.tree.expressions):
            used = self._used(part, sources)
            pair = interval_of(part.unalias(), partial(self._interval, sources, len(used))) if used else None
            if pair is not None:
                low, high = f"{prefix}_low_of_{i}", f"{prefix}_high_of_{i}"
                hidden += [exp.alias_(pair[0], low, quoted=True), exp.alias_(pair[1], high, quoted=True)]
                self.intervals.append((part.alias_or_name, low, high))
        self.tree.set("expressions", [*self.tree.expressions, *hidden])

    def end_of(self, node: exp.Anonymous) -> exp.Expr | None:
        """The end of the interval of a value, as DP_INTERVAL_LOW or _HIGH asks for it; None where none is known."""
        sources = self._sources()
        if sources is None or len(node.expressions) != 1:
            return None
        whole = exp.Paren(this=node.expressions[0].copy())
        if _ITSELF in sources:
            self._write_out(whole)
        used = self._used(whole, sources)
        pair = interval_of(whole, partial(self._interval, sources, len(used))) if used else None
        return None if pair is None else pair[_ENDS[node.name.casefold()]]

    def _write_out(self, value: exp.Expr) -> None:
        """Replace aliases of the SELECT's own columns by what they stand for."""
        named = {part.alias.casefold(): part.this for part in self.tree.expressions if isinstance(part, exp.Alias)}
        for column in list(value.find_all(exp.Column)):
            if not column.table and column.name.casefold() in named:
                column.replace(exp.Paren(this=named[column.name.casefold()].copy()))

    def _sources(self) -> "dict[str, Any] | None":
        """What FROM reads, by alias: a block, or the names of a public table's columns; None where it is not simple."""
        if any(self.tree.args.get(name) for name in ("distinct", "group", "having", "laterals", "pivots")):
            return None
        if self._block(self.tree) is not None:
            return {_ITSELF: self.tree}
        clause = self.tree.args.get("from_")
        joins = self.tree.args.get("joins") or []
        if clause is None:
            return None
        matches: dict[str, Any] = {}
        for node in (clause.this, *(join.this for join in joins)):
            source = self._source(node)
            if source is None or node.alias_or_name.casefold() in matches:
                return None
            matches[node.alias_or_name.casefold()] = source
        return matches if self._without_stars(matches) else None

    def _source(self, node: Any) -> Any:
        if isinstance(node, exp.Subquery):
            return node.this if self._block(node.this) is not None else None
        if not isinstance(node, exp.Table):
            return None
        clause = self.tree.args.get("with_")
        for part in clause.expressions if clause is not None else ():
            if part.alias.casefold() == node.name.casefold():
                plain = (
                    self._can_have_hidden(node.name.casefold())
                    and not part.args["alias"].columns
                    and self._block(part.this) is not None
                )
                return part.this if plain else None
        known = self.catalog.tables.get(node.name.casefold())
        return None if known is None else {column.name.casefold() for column in known.columns}

    def _can_have_hidden(self, name: str) -> bool:
        """Whether a table that WITH names may get further columns: read once, or nowhere as a whole row."""
        if sum(table.name.casefold() == name for table in self.tree.find_all(exp.Table)) == 1:
            return True
        stars = [star for star in self.tree.find_all(exp.Star) if not isinstance(star.parent, exp.Count)]
        joins = any(join.args.get("method") for join in self.tree.find_all(exp.Join))
        rows = any(column.name.casefold() == name for column in self.tree.find_all(exp.Column))
        return not (stars or joins or rows or self.tree.find(exp.Columns, exp.Pivot))

    def _block(self, node: Any) -> str | None:
        """The released table that a SELECT reads, if it is a block whose rows can be told apart."""
        if not isinstance(node, exp.Select) or node.args.get("distinct") or node.args.get("joins"):
            return None
        clause = node.args.get("from_")
        name = clause.this.name if clause is not None and isinstance(clause.this, exp.Table) else ""
        return name if name in self.released else None

    def _without_stars(self, sources: dict[str, Any]) -> bool:
        """Write out *, where that is simple, so that hidden columns of a block stay hidden."""
        bare = {column.name.casefold() for part in self.tree.expressions for column in part.find_all(exp.Column)}
        known = {name for source in sources.values() for name in _names(source)}
        if (bare - known) & set(sources) or any(part.find(exp.Columns) for part in self.tree.expressions):
            return False  # a whole row, or columns by a pattern: hidden ones would show
        if not any(part.find(exp.Star) for part in self.tree.expressions):
            return True
        if len(sources) != 1 or len(self.tree.expressions) != 1 or not isinstance(self.tree.expressions[0], exp.Star):
            return False
        (alias, block), star = next(iter(sources.items())), self.tree.expressions[0]
        if any(star.args.values()) or not isinstance(block, exp.Select):
            return False
        names = [part.alias_or_name for part in block.expressions]
        columns = [exp.column(name, table=alias or None, quoted=True) for name in names]
        self.tree.set("expressions", [exp.alias_(c, n, quoted=True) for c, n in zip(columns, names, strict=True)])
        return True

    def _resolve(self, column: exp.Column, sources: dict[str, Any]) -> tuple[Any, Any] | None:
        """The block and the projection of it that a column is, or (None, column) where it is public."""
        if _ITSELF in sources:
            return sources[_ITSELF], column
        aliases = [column.table.casefold()] if column.table else list(sources)
        matches: list[tuple[Any, Any]] = []
        for alias in aliases:
            source = sources.get(alias)
            if isinstance(source, exp.Select):
                matches += [(source, part) for part in source.expressions if _same(part.alias_or_name, column.name)]
            elif source is not None and column.name.casefold() in source:
                matches.append((None, column))
        return matches[0] if len(matches) == 1 else None

    def _used(self, part: Any, sources: dict[str, Any]) -> set[str]:
        """The aggregates that a value is made of."""
        used: set[str] = set()
        for column in part.find_all(exp.Column):
            matches = self._resolve(column, sources)
            if matches is not None and matches[0] is not None:
                name = self._block(matches[0]) or ""
                used |= {
                    inner.name for inner in matches[1].find_all(exp.Column) if self._index(inner.name, name) is not None
                }
        return used

    def _index(self, column: str, name: str) -> int | None:
        """The place of an aggregate among the columns of its released table."""
        number = column.removeprefix(f"{name}_a")
        return int(number) if number != column and number.isdecimal() else None

    def _interval(self, sources: dict[str, Any], parts: int, column: exp.Column) -> Pair | None:
        matches = self._resolve(column, sources)
        if matches is None:
            return None
        block, part = matches
        if block is None:
            return column.copy(), column.copy()
        name = self._block(block) or ""

        def of(inner: exp.Column) -> Pair | None:
            index = self._index(inner.name, name)
            if index is not None:
                return self.bounds_of(name, index, parts)
            return (inner.copy(), inner.copy()) if inner.name.startswith(f"{name}_k") else None  # not of an alias

        pair = interval_of(part.unalias() if block is not self.tree else part, of)
        if pair is None or block is self.tree:
            return pair
        return self._hidden(block, pair, part.alias_or_name, parts, column)

    def _hidden(self, block: exp.Select, pair: Pair, shown: str, parts: int, column: exp.Column) -> Pair:
        """Two hidden columns of an inner block, once for each column and confidence."""
        name = self._block(block) or ""
        outer: list[exp.Expr] = []
        for side, end in zip(("low", "high"), pair, strict=True):
            hidden = f"{name}_{side}_inside_{shown}_{parts}"
            if not any(part.alias_or_name == hidden for part in block.expressions):
                block.append("expressions", exp.alias_(end, hidden, quoted=True))
            outer.append(exp.column(hidden, table=column.table or None, quoted=True))
        return outer[0], outer[1]


def _names(source: Any) -> set[str]:
    """The columns of a source, in lower case."""
    if isinstance(source, exp.Select):
        return {part.alias_or_name.casefold() for part in source.expressions}
    return set(source)


def _same(left: str, right: str) -> bool:
    return left.casefold() == right.casefold()
