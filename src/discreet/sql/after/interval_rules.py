"""Intervals through arithmetic and outer queries: interval arithmetic, written as SQL.

The outermost SELECT is a block itself, or reads blocks (in FROM, or named by WITH) and public tables.
Where it is anything else, its columns have no intervals. A value that is computed from m different aggregates has an
interval that holds with the stated confidence, because each of the m is given an interval that fails with 1/m of the
failure probability (Bonferroni).

Totals of released groups for GROUPING SETS, ROLLUP and CUBE: measures are added up, so totals fit their parts.

The finest groups are released and nothing else; every coarser set is post-processing. What is computed from measures, a
mean or a variance, is computed from their totals.

Variances, correlations and regressions from noisy centered sums, with the extremes over what the noise allows.

With n rows, A = Σ(x − m), Q = Σ(x − m)² and P = Σ(x − m)(y − k), the variance is Q/n − (A/n)² and the covariance
P/n − (A/n)(B/n), for any m and k. Numbers here are in steps of their values until the last line of each function.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache, partial
from math import ceil, expm1, log
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlglot import ErrorLevel, exp

from discreet.curator.catalog import Catalog
from discreet.errors import InternalError
from discreet.exact import Number
from discreet.mechanisms.additive import Geometric
from discreet.mechanisms.gaussian import RoundedGaussian, rounded_width
from discreet.mechanisms.mechanism import failure_probability
from discreet.sql.algebra.rules import Spread, Sums
from discreet.sql.text.statement import DIALECT

if TYPE_CHECKING:
    import pyarrow


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
                self.intervals.append((self._name_of(i), low, high))
        self.tree.set("expressions", [*self.tree.expressions, *hidden])

    def _name_of(self, place: int) -> str:
        """The name of an output; one that has none is given its own text, so that its interval can be told."""
        part, taken = self.tree.expressions[place], {each.alias_or_name for each in self.tree.expressions}
        if part.alias_or_name:
            return str(part.alias_or_name)
        base = name = str(part.sql(dialect=DIALECT, unsupported_level=ErrorLevel.IGNORE))
        number = 1
        while name in taken:
            name, number = f"{base}_{number}", number + 1
        part.replace(exp.alias_(part.copy(), name, quoted=True))
        return name

    def end_of(self, node: exp.Anonymous) -> exp.Expr | None:
        """The end of the interval of a value, as DP_INTERVAL_LOW or _HIGH asks for it; None where none is known."""
        sources = self._sources()
        if sources is None or len(node.expressions) != 1:
            return None
        whole = exp.Paren(this=node.expressions[0].copy())
        self._write_out(whole, set() if _ITSELF in sources else {n for each in sources.values() for n in _names(each)})
        side, value = _ENDS[node.name.casefold()], whole.unnest()
        if not isinstance(value, exp.Array):
            return self._end(whole, sources, side)
        ends = [self._end(part, sources, side) for part in value.expressions]  # of a list, each by itself
        known = [end for end in ends if end is not None]
        return exp.Array(expressions=known) if len(known) == len(ends) else None

    def _end(self, value: exp.Expr, sources: dict[str, Any], side: int) -> exp.Expr | None:
        used = self._used(value, sources)
        pair = interval_of(value, partial(self._interval, sources, len(used))) if used else None
        return None if pair is None else pair[side]

    def _write_out(self, value: exp.Expr, columns: set[str]) -> None:
        """Replace aliases of the SELECT's own columns by what they stand for; columns of what it reads go before."""
        named = {part.alias.casefold(): part.this for part in self.tree.expressions if isinstance(part, exp.Alias)}
        for column in list(value.find_all(exp.Column)):
            name = column.name.casefold()
            if not column.table and name in named and name not in columns:
                column.replace(exp.Paren(this=named[name].copy()))

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


Floats = NDArray[np.float64]
Steps = NDArray[np.int64]
_TINY = 1e-300
_SLACK = 2.0**-40
"""More than floats lose in a few sums and products, as a part of the largest variance."""


class Box(NamedTuple):
    """The least and the largest that each number can be, one pair a group."""

    low: Floats
    high: Floats

    def held(self, low: float, high: float) -> "Box":
        """Cut to what is known of it beforehand."""
        return Box(np.clip(self.low, low, high), np.clip(self.high, low, high))

    def scaled(self, factor: float) -> "Box":
        """Times a positive factor."""
        return Box(self.low * factor, self.high * factor)

    def times(self, other: "Box") -> "Box":
        """All products."""
        corners = [a * b for a in self for b in other]
        return Box(np.minimum.reduce(corners), np.maximum.reduce(corners))


def spread_values(spread: Spread, measures: list[Steps]) -> tuple[Floats, NDArray[np.bool_]]:
    """The statistic in each group, and where there is none: too few rows, or no variance to divide by."""
    exact = [Box(each.astype(np.float64), each.astype(np.float64)) for each in measures]
    least = 2 if spread.sample else 1
    statistic = _Extremes(spread, exact, least)
    numbers = statistic.box().low
    missing = (measures[spread.count] < least) | np.isnan(numbers)
    return np.where(missing, 0.0, numbers), missing


def spread_interval(spread: Spread, measures: list[Steps], width: Callable[[int], int]) -> Box:
    """Confidence bounds: extremes over all measures within their widths; NaN where there are none.

    Where the true measures lie within the widths, and the statistic exists, it is in the box: each step is the range of
    a continuous function over a box that holds its arguments, or a larger range.
    """
    boxes = [Box(np.empty(0), np.empty(0))] * len(measures)
    for index in spread.indices:
        center, far = measures[index].astype(np.float64), width(index)
        boxes[index] = Box(center - far, center + far)
    return _Extremes(spread, boxes, 2 if spread.sample else 1, slack=_SLACK).box()


class _Extremes:
    """The range of a statistic over boxes of its measures; a box of no width gives the statistic itself."""

    def __init__(self, spread: Spread, boxes: list[Box], least: int, *, slack: float = 0.0) -> None:
        self.spread, self.boxes, self.slack = spread, boxes, slack
        count = boxes[spread.count]
        few, many = np.maximum(count.low, least), np.maximum(count.high, least)
        self.inverse = Box(1 / many, 1 / few)
        self.factor = Box(many / (many - 1), few / (few - 1)) if spread.sample else Box(np.ones(1), np.ones(1))

    def box(self) -> Box:
        """The statistic in the units of its values."""
        x, y, step = self.spread.x, self.spread.y, float(self.spread.x.kind.step)
        if y is not None:
            return self._of_pairs(x, y, step, float(y.kind.step))
        variance = self._variance(x).times(self.factor).held(0.0, self._most(x, x))
        if self.spread.statistic == "variance":
            return variance.scaled(step**2)
        return Box(np.sqrt(variance.low), np.sqrt(variance.high)).scaled(step)

    def _of_pairs(self, x: Sums, y: Sums, step_x: float, step_y: float) -> Box:
        match self.spread.statistic:
            case "covariance":
                most = self._most(x, y)
                return self._covariance(x, y).times(self.factor).held(-most, most).scaled(step_x * step_y)
            case "correlation":
                return self._correlation(x, y)
            case "determination":
                low, high = self._correlation(x, y)
                least = np.where((low <= 0) & (high >= 0), 0.0, np.minimum(low**2, high**2))
                return Box(least, np.maximum(low**2, high**2))
            case "slope":
                return self._slope(x, y).scaled(step_y / step_x)
            case "intercept":
                fall, mean = self._slope(x, y).times(self._mean(x)), self._mean(y)
                return Box(mean.low - fall.high, mean.high - fall.low).scaled(step_y)
            case _:
                raise InternalError(f"a {self.spread.statistic} of two values was planned")

    def _most(self, x: Sums, y: Sums) -> float:
        """The largest covariance of two values (Popoviciu 1935): of a sample, twice that, at two rows."""
        return self._half_widths(x, y) * (2 if self.spread.sample else 1)

    def _mean(self, sums: Sums) -> Box:
        lower, upper = float(sums.kind.lower or 0), float(sums.kind.upper or 0)
        low, high = self.boxes[sums.total].times(self.inverse)
        wide = self.slack * max(abs(lower), abs(upper))
        return Box(low + sums.offset - wide, high + sums.offset + wide).held(lower, upper)

    def _variance(self, sums: Sums) -> Box:
        """half + T·t − A²·t² over the box, t = 1/n: for each t it rises with T and falls with |A|."""
        if sums.square is None:
            raise InternalError("a variance without squares was planned")
        total, squares = self.boxes[sums.total], self.boxes[sums.square]
        farthest = np.maximum(np.abs(total.low), np.abs(total.high)) ** 2
        nearest = np.where((total.low <= 0) & (total.high >= 0), 0.0, np.minimum(total.low**2, total.high**2))
        high = sums.half + self._largest(squares.high, -nearest)
        low = sums.half - self._largest(-squares.low, farthest)
        wide = self.slack * sums.reach**2
        return Box(low - wide, high + wide).held(0.0, self._half_widths(sums, sums))

    def _covariance(self, x: Sums, y: Sums) -> Box:
        """P·t − A·B·t² over the box: for each t it rises with P and falls with A·B."""
        if self.spread.product is None:
            raise InternalError("a covariance without products was planned")
        product, both = self.boxes[self.spread.product], self.boxes[x.total].times(self.boxes[y.total])
        high, low = self._largest(product.high, -both.low), -self._largest(-product.low, both.high)
        wide, most = self.slack * x.reach * y.reach, self._half_widths(x, y)
        return Box(low - wide, high + wide).held(-most, most)

    def _half_widths(self, x: Sums, y: Sums) -> float:
        width_x, width_y = ((sums.kind.upper or 0) - (sums.kind.lower or 0) for sums in (x, y))
        return width_x / 2 * (width_y / 2)

    def _largest(self, linear: Floats, quadratic: Floats) -> Floats:
        """The largest linear·t + quadratic·t² over t = 1/n: at an end, or at the vertex."""
        with np.errstate(divide="ignore", invalid="ignore"):
            vertex = np.nan_to_num(-linear / (2 * quadratic), nan=0.0, posinf=0.0, neginf=0.0)
        tried = (self.inverse.low, self.inverse.high, np.clip(vertex, self.inverse.low, self.inverse.high))
        return np.asarray(np.maximum.reduce([linear * t + quadratic * t**2 for t in tried]))

    def _correlation(self, x: Sums, y: Sums) -> Box:
        variances = self._variance(x).times(self._variance(y))
        deviations = Box(np.sqrt(variances.low), np.sqrt(variances.high))
        return _quotient(self._covariance(x, y), deviations, known=self.slack > 0).held(-1.0, 1.0)

    def _slope(self, x: Sums, y: Sums) -> Box:
        return _quotient(self._covariance(x, y), self._variance(x), known=False)


def _quotient(above: Box, below: Box, *, known: bool) -> Box:
    """All quotients by what is not negative; NaN where that may be zero, unless bounds of the quotient are `known`."""
    few, many = np.maximum(below.low, _TINY), np.maximum(below.high, _TINY)
    with np.errstate(over="ignore"):  # an end that is infinite holds everything
        low = np.where(above.low >= 0, above.low / many, above.low / few)
        high = np.where(above.high >= 0, above.high / few, above.high / many)
    unknown = (below.low <= 0) & (not known)
    return Box(np.where(unknown, np.nan, low), np.where(unknown, np.nan, high))


@dataclass(frozen=True, slots=True)
class AddedNoise:
    """The noise of a sum of `times` numbers that were released with the same noise."""

    noise: Geometric | RoundedGaussian
    times: int

    def interval(self, confidence: Number) -> int:
        """A w such that |sum of the noises| ≤ w with at least this probability.

        Geometric noise: for every 0 < λ < 1/t, P(S ≥ s) ≤ E[e^(λK)]^n·e^(−λs) (Chernoff), where E[e^(λK)] =
        (1 − q)²/((1 − qe^λ)(1 − qe^−λ)) with q = e^(−1/t); both sides have half of the failure probability. Gaussian
        noise: n numbers that were rounded by at most ½ each are within n/2 of one Gaussian number of deviation σ√n.
        """
        tail = failure_probability(confidence)
        if self.times == 1:
            return self.noise.interval(confidence)
        if not self.times:
            return 0
        if isinstance(self.noise, Geometric):
            apart = self.times * self.noise.interval(1 - tail / self.times)  # each within its own width
            return min(apart, _chernoff(float(self.noise.scale), self.times, float(tail)))
        root = Fraction(ceil(self.times**0.5 * 10**6) + 1, 10**6)
        return rounded_width(self.noise.sigma * root, tail) + ceil(self.times / 2) + 1


@cache
def _chernoff(scale: float, times: int, tail: float) -> int:
    """The least width over many λ, each of which gives a valid one; a millionth more than floats could lose.

    1 − qe^λ = −expm1(λ − 1/t) keeps all its digits where t is large, and 1 − q would have few left, or none.
    """
    fall = 1 / scale
    widths = []
    for part in range(1, 200):
        rate = part / 200 * fall
        moment = 2 * log(-expm1(-fall)) - log(-expm1(rate - fall)) - log(-expm1(-rate - fall))
        widths.append((times * moment + log(2 / tail)) / rate)
    return ceil(min(widths) * 1.000001)


@dataclass(frozen=True, slots=True)
class Level:
    """Groups of one set of keys: the first of its cells stands for each, `cells` says how many there are.

    Groups come in the order of their first cells, which is that of their keys.
    """

    first: Steps
    group: Steps
    cells: Steps

    def totals(self, numbers: Steps) -> Steps:
        """The sums over the cells of each group."""
        sums = np.zeros(self.cells.size, np.int64)
        np.add.at(sums, self.group, numbers)
        return sums


def level_of(keys: "Sequence[pyarrow.Array]", size: int) -> Level:
    """The groups that these keys make of `size` cells; with no key, one group, of no cell where there is none.

    >>> import pyarrow as pa
    >>> level_of([pa.array(["b", "a", "b", None])], 4).cells.tolist()
    [2, 1, 1]
    """
    codes = np.zeros(size, np.int64)
    for key in keys:
        encoded: Any = key.dictionary_encode("encode")
        digits = np.asarray(encoded.indices.to_numpy(zero_copy_only=False), np.int64)
        _, codes = np.unique(codes * max(1, len(encoded.dictionary)) + digits, return_inverse=True)
    if not keys:
        return Level(np.zeros(min(1, size), np.int64), codes, np.array([size]))
    _, first, group, cells = np.unique(codes, return_index=True, return_inverse=True, return_counts=True)
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(order.size)
    return Level(first[order], place[group], cells[order])
