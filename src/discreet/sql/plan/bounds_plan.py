"""Contribution bounds and bounds of columns, chosen privately: quantiles of what each person contributes."""

# ruff: noqa: S608 (the SQL is made of quoted names of the owner's catalog)

import json
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from discreet.curator.answer import Receipt
from discreet.curator.catalog import NUMERIC, Catalog, Column, ColumnType, Table
from discreet.curator.contribution_draw import require_same
from discreet.curator.engines import Engine
from discreet.curator.engines.dialects import DUCKDB, Dialect, dialect_of
from discreet.curator.plan import PrivatePlan, documented, plan_document, plan_parts
from discreet.errors import InternalError, InvalidParameter
from discreet.exact import Number, integer, plain, printed_up, rational, text_up
from discreet.mechanisms.quantile import Quantile, Range
from discreet.noise import Entropy
from discreet.privacy.loss import Loss, Together
from discreet.privacy.unit import Neighbors
from discreet.requests import ContributionBounds
from discreet.sql.release import expression_sql
from discreet.sql.release.release import numbers_of

_KIND = ("contribution bounds", 1)
_GROUPS, _ROWS, _LOWER, _UPPER = "groups", "rows", "lower", "upper"


@dataclass(frozen=True, slots=True)
class Choice:
    """One number to be chosen: a quantile of one whole number a unit, between two that are public."""

    what: str
    column: Column | None
    epsilon: Fraction
    probability: Fraction
    least: int
    most: int

    def mechanism(self, neighbors: Neighbors) -> Quantile:
        """The quantile, in whole steps."""
        within = Range(lower=self.least, upper=self.most, granularity=1)
        return Quantile(epsilon=self.epsilon, probability=self.probability, within=within, neighbors=neighbors)


documented("bound to choose")(Choice)


@dataclass(frozen=True, slots=True, repr=False)
class BoundsPlan(PrivatePlan):
    """Everything about a choice of bounds, decided before a row is seen.

    Guarantee: `run` gives out what `loss` covers. Proof. For each choice, `sql` yields at most one whole number a unit,
    made of that unit's rows alone: in how many groups it is, how many rows it has in its largest group, or the smallest
    or largest of its clamped values. Adding or removing a unit adds or removes at most one number; changing it changes,
    adds or removes one. A quantile's scores move by at most max(q, 1 − q) for one number more or less, and by
    at most 1 for a changed one (`Quantile`), whose sensitivity under *change one* covers both. Losses add up.
    """

    table: Table
    by: tuple[Column, ...]
    choices: tuple[Choice, ...]
    neighbors: Neighbors

    @property
    def text(self) -> str:
        """What was asked."""
        named = dict.fromkeys(choice.column.name if choice.column else choice.what for choice in self.choices)
        by = f" by {', '.join(column.name for column in self.by)}" if self.by else ""
        return f"choose bounds of {', '.join(named)} in {self.table.name}{by}"

    def document(self) -> dict[str, Any]:
        """What is released and how."""
        return plan_document(*_KIND, table=self.table, by=self.by, choices=self.choices, neighbors=self.neighbors)

    @property
    def loss(self) -> Loss:
        """All choices together."""
        return _loss(self.choices, self.neighbors)

    @property
    def epsilon(self) -> Fraction:
        """The ε of all choices."""
        return sum((choice.epsilon for choice in self.choices), Fraction(0))

    @property
    def delta(self) -> Fraction:
        """None is needed."""
        return Fraction(0)

    def verify(self, catalog: Catalog) -> Loss:
        """The loss, from the document's choices and the catalog."""
        parts = plan_parts(self.document(), *_KIND, ("table", "by", "choices", "neighbors"))
        wide = [choice.column for choice in parts["choices"] if choice.column is not None]
        require_same(parts["table"], parts["by"], parts["neighbors"], catalog)
        for column in wide:
            if _widened(parts["table"].column(column.name), column.lower, column.upper) != column:
                raise InternalError(f"a plan was made for another column {column.name!r} than the catalog's")
        if not parts["table"].private:
            raise InternalError("a plan chooses bounds of a public table")
        return _loss(parts["choices"], parts["neighbors"])

    def sql(self, dialect: Dialect = DUCKDB) -> str:
        """One row for each unit, with one whole number, or null, for each choice: s0, s1, …"""
        columns = list({choice.column.name: choice.column for choice in self.choices if choice.column}.values())
        key = self.table.unit.key if self.table.unit is not None else None
        values = [f"{expression_sql.treated(column, dialect)} AS v{i}" for i, column in enumerate(columns)]
        keys = [f"{dialect.quoted(column.name)} AS k{i}" for i, column in enumerate(self.by)]
        quoted, rows = dialect.quoted, ""
        if key is None:
            rows = f"SELECT {', '.join(values)} FROM {quoted(self.table.name)}"
            listed = ", ".join(f"v{_place(columns, choice)} AS s{i}" for i, choice in enumerate(self.choices))
            return f"SELECT {listed} FROM {dialect.sub(rows)}"
        person = quoted(self.table.column(key).name)
        rows = f"SELECT {', '.join([f'{person} AS u', *keys, *values])} FROM {quoted(self.table.name)}"
        inner = ["count(*) AS n", *(f"min(v{i}) AS l{i}, max(v{i}) AS h{i}" for i in range(len(columns)))]
        names = ["u", *(f"k{i}" for i in range(len(keys)))]
        present = f"FROM {dialect.sub(rows)} WHERE u IS NOT NULL GROUP BY {', '.join(names)}"
        cells = f"SELECT {', '.join([*names, *inner])} {present}"
        listed = ", ".join(f"{_of_unit(columns, choice)} AS s{i}" for i, choice in enumerate(self.choices))
        return f"SELECT {listed} FROM {dialect.sub(cells)} GROUP BY u"

    def run(self, engine: Engine, entropy: Entropy | None) -> bytes:
        """One quantile after the other."""
        result, steps = engine.fetch(self.sql(dialect_of(engine.dialect))), []
        for i, choice in enumerate(self.choices):
            values = numbers_of(result.column(f"s{i}").drop_null())
            steps.append(int(choice.mechanism(self.neighbors).release(np.asarray(values), entropy=entropy)))
        return json.dumps(steps).encode()

    def finish(self, released: bytes, receipt: Receipt, engine: Engine) -> "ChosenBounds":
        """The bounds, from the released numbers alone."""
        contributions: dict[str, int] = {}
        columns: dict[str, tuple[Fraction, Fraction]] = {}
        ends = dict(zip(((c.what, c.column) for c in self.choices), json.loads(released), strict=True))
        for (what, column), step in ends.items():
            if column is None:
                contributions[f"max_{what}_per_{'unit' if what == _GROUPS else 'group'}"] = step
            elif what == _LOWER:
                low, high = sorted((step, ends[_UPPER, column]))
                size = column.granularity or Fraction(1)
                columns[column.name] = (low * size, max(high, low + 1) * size)
        return ChosenBounds(self.table.name, contributions, columns, receipt)

    def explain(self) -> str:
        """What the choice would cost and do, in words."""
        lines = [f"chooses, {self.table.unit} protected ({self.neighbors}), for ε {printed_up(self.epsilon)}:"]
        for choice in self.choices:
            who = choice.column.name if choice.column else "a person"
            far = choice.mechanism(self.neighbors).interval("0.95")
            share = f"{float(choice.probability):.3g}"
            lines.append(
                f"  {choice.what} of {who}: the {share} quantile, off by at most {far:,.0f} units in rank (95 %)"
            )
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class ChosenBounds:
    """What was chosen: contribution bounds of a table, and bounds of its columns, with the receipt."""

    table: str
    contributions: Mapping[str, int]
    columns: Mapping[str, tuple[Fraction, Fraction]]
    receipt: Receipt

    @property
    def provenance(self) -> str:
        """Where the numbers come from, for a comment in a policy."""
        receipt = self.receipt
        return f"chosen privately: charge #{receipt.charge}, {receipt.when[:10]}, ε {text_up(receipt.epsilon)}"

    def to_json(self) -> dict[str, Any]:
        """The same for programs."""
        columns = {name: {"lower": plain(low), "upper": plain(high)} for name, (low, high) in self.columns.items()}
        return {"table": self.table, **self.contributions, "columns": columns, "receipt": self.receipt.to_json()}

    def __str__(self) -> str:
        lines = [f"{name} = {value}" for name, value in self.contributions.items()]
        lines += [f"{name}: lower = {plain(low)}, upper = {plain(high)}" for name, (low, high) in self.columns.items()]
        return "\n".join([f"[tables.{self.table}]  # {self.provenance}", *lines, str(self.receipt)])


def plan_bounds(request: ContributionBounds, catalog: Catalog) -> BoundsPlan:
    """The plan of a choice of bounds against the owner's catalog. No row is read.

    >>> from discreet.privacy.unit import Unit
    >>> who, region = Column("who", "integer"), Column("region", "text")
    >>> visits = Table("visits", [who, region], unit=Unit("who"))
    >>> catalog = Catalog("clinic", [visits], neighbors="add or remove one")
    >>> plan_bounds(ContributionBounds(table="visits", by=["region"], epsilon=1), catalog).text
    'choose bounds of groups, rows in visits by region'
    """
    table = catalog.table(request.table)
    if not table.private:
        raise InvalidParameter("table", table.name, "a private table")
    total = rational(request.epsilon, "epsilon", above=0)
    high = rational(request.probability, "probability", at_least=Fraction(1, 2), below=1)
    person = table.unit is not None and table.unit.key is not None
    by = tuple(table.column(name) for name in request.by)
    if by and not person:
        raise InvalidParameter("by", ", ".join(request.by), "nothing where one row is protected")
    if any(table.unit is not None and column.name == table.unit.key for column in by):
        raise InvalidParameter("by", ", ".join(request.by), "columns other than the one that names the person")
    wanted: list[tuple[str, Column | None, Fraction, int, int]] = []
    if by:
        wanted.append((_GROUPS, None, high, 1, integer(request.most_groups, "most_groups", at_least=1)))
    if person:
        wanted.append((_ROWS, None, high, 1, integer(request.most_rows, "most_rows", at_least=1)))
    for name, (low_end, high_end) in request.columns.items():
        column = _widened(table.column(name), low_end, high_end)
        size = column.granularity or Fraction(1)
        ends = int((column.lower or 0) / size), int((column.upper or 0) / size)
        wanted += [(_LOWER, column, 1 - high, *ends), (_UPPER, column, high, *ends)]
    if not wanted:
        raise InvalidParameter("columns", "none", "columns whose bounds are to be chosen", "one row is protected here")
    share = total / len(wanted)
    choices = tuple(Choice(what, column, share, q, least, most) for what, column, q, least, most in wanted)
    return BoundsPlan(table, by, choices, catalog.neighbors)


def _widened(column: Column, lower: Number | None, upper: Number | None) -> Column:
    """The column with a wide public range in place of its bounds."""
    if column.kind not in NUMERIC:
        raise InvalidParameter("columns", column.name, "a column of numbers")
    step = column.granularity
    if step is None and column.kind is not ColumnType.INTEGER:
        hint = "the policy says it: granularity = 0.01"
        raise InvalidParameter("columns", column.name, "a column with a granularity", hint)
    return Column(column.name, column.kind, lower=lower, upper=upper, granularity=step, nullable=column.nullable)


def _loss(choices: tuple[Choice, ...], neighbors: Neighbors) -> Loss:
    losses = [choice.mechanism(neighbors).loss for choice in choices]
    return losses[0] if len(losses) == 1 else Together(*losses)


def _place(columns: list[Column], choice: Choice) -> int:
    return next(i for i, column in enumerate(columns) if column == choice.column)


def _of_unit(columns: list[Column], choice: Choice) -> str:
    """The number of one unit, from its cells; in one group for each combination of `by`."""
    if choice.column is None:
        return f"least({'count(*)' if choice.what == _GROUPS else 'max(n)'}, {choice.most})"
    place = _place(columns, choice)
    return f"min(l{place})" if choice.what == _LOWER else f"max(h{place})"
