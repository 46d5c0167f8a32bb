"""What a linked synthesis gives: noisy marginals that were paid for, and tables of people that follow from them.

A `Part` is one of the tables: its columns as codes, its rules, and how many rows of a person are used.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from discreet.curator.answer import Receipt
from discreet.curator.catalog import Column, ColumnType, Table
from discreet.curator.contribution_draw import rows_each
from discreet.curator.engines import Engine
from discreet.curator.engines.dialects import DUCKDB, Dialect
from discreet.errors import InvalidParameter
from discreet.noise import DeterministicEntropy, Entropy
from discreet.synthetic.columns.rules import Rule, allowed, enforce_order
from discreet.synthetic.columns.schema import Attribute, Schema
from discreet.synthetic.fit.relaxed import RelaxedTable, Settings, fit
from discreet.synthetic.fit.row_sampling import draw, draw_given, possible
from discreet.synthetic.measure.fine_counts import Cells, Level, count, density
from discreet.synthetic.measure.noisy_marginals import Design, Ints, Measurement, counts, total
from discreet.synthetic.quality import LostRows, Residual, lost_rows, residuals

if TYPE_CHECKING:
    from discreet.report import Page


@dataclass(frozen=True, slots=True)
class Part:
    """One of the tables: its columns as codes, its rules, and how many rows of a person are used at most.

    fine: the columns that are counted finely (`fine_counts`); private_bins: those of them whose bins follow from that.

    Keys are compared here as they are where rows of a person are picked, bit by bit; so they are no floating-point
    numbers, of which 0 and −0 are one person there and two here.

    >>> from discreet.privacy.unit import Unit
    >>> table = Table("visits", [Column("who", "integer"), Column("urgent", "boolean")], unit=Unit("who"))
    >>> part = Part(table, Schema([Attribute.of(table.column("urgent"))]), (), 3)
    >>> part.key.name, part.number.labels
    ('who', ('0', '1', '2', '3'))
    """

    table: Table
    schema: Schema
    rules: tuple[Rule, ...]
    rows_each: int
    fine: tuple[tuple[str, Cells], ...] = ()
    private_bins: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.table.unit is None or self.table.unit.key is None:
            expected = "private tables whose rows name a person (unit = a column)"
            raise InvalidParameter("tables", self.table.name, expected)
        if self.key.kind is ColumnType.REAL:
            got = f"{self.table.name}.{self.key.name} ({self.key.kind})"
            raise InvalidParameter("tables", got, "keys that are whole numbers or texts")
        self.sql  # noqa: B018 (it refuses columns that cannot be read: before anything is charged)
        for rule in self.rules:
            rule.check(self.schema, ())
        if not possible(allowed(self.rules, self.schema), self.schema.sizes):
            raise InvalidParameter(
                "rules", f"{len(self.rules)} of {self.table.name}", "rules that a row can obey together"
            )

    @property
    def sql(self) -> str:
        """What is read: the key and the columns, at most `rows_each` rows of a person."""
        return self.sql_for(DUCKDB)

    def sql_for(self, dialect: Dialect) -> str:
        """The same in another dialect."""
        return rows_each(self.table, self.columns, dialect, most=self.rows_each, keyed=True)

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns that are synthesized."""
        return tuple(self.table.column(name) for name in self.schema.names)

    @property
    def key(self) -> Column:
        """The column that names the person."""
        return self.table.column(str(self.table.unit.key if self.table.unit else None))

    def counted(self, rows: Any, sigma: Fraction, entropy: Entropy | None) -> dict[str, list[Level]]:
        """Noisy: where the values of wide columns lie."""
        known = {attribute.column.name: attribute for attribute in self.schema.attributes}
        return {
            name: count(known[name].positions(rows.column(name)), cells, sigma, entropy=entropy)
            for name, cells in self.fine
        }

    def refined(self, found: dict[str, list[Level]], sigma: float) -> "Part":
        """The same table, its wide columns in bins and with densities that follow from fine counts."""
        cells = dict(self.fine)
        attributes = [
            attribute.refined(density(found[name], cells[name], sigma), bins=name in self.private_bins)
            if (name := attribute.column.name) in found
            else attribute
            for attribute in self.schema.attributes
        ]
        return replace(self, schema=Schema(attributes))

    @property
    def number(self) -> Attribute:
        """How many rows a person has in it, as a column of the person."""
        column = Column(f"rows in {self.table.name}", "integer", lower=0, upper=self.rows_each, nullable=False)
        return Attribute.of(column)


Progress = Callable[[str, int, float], None]


class _TablesPlan(Protocol):
    """What linked synthetic tables need to know of their plan."""

    @property
    def people(self) -> Part | None: ...
    @property
    def others(self) -> tuple[Part, ...]: ...
    @property
    def parts(self) -> tuple[Part, ...]: ...
    @property
    def own(self) -> tuple[Attribute, ...]: ...
    @property
    def record(self) -> Schema: ...
    @property
    def reasons(self) -> list[tuple[str, ...]]: ...
    @property
    def settings(self) -> Settings: ...
    def joined(self, part: Part) -> Schema: ...
    def designs(self) -> list[Design]: ...
    def read(self, engine: Engine) -> list[Ints]: ...
    def told(self) -> str: ...


@dataclass(frozen=True, eq=False)
class Fitted:
    """One table: what was measured, the model that was fitted to it, and the rows drawn from that."""

    name: str
    schema: Schema
    measurements: tuple[Measurement, ...]
    model: RelaxedTable
    codes: Ints

    def residuals(self) -> tuple[Residual, ...]:
        """How well the fit meets each noisy marginal: from noisy numbers alone."""
        return residuals(self.measurements, self.model)


@dataclass(frozen=True, eq=False)
class LinkedTables:
    """Noisy marginals that were paid for, and the synthetic tables that follow from them. All done with it is free.

    >>> import pathlib, tempfile, pyarrow, discreet
    >>> policy = pathlib.Path(tempfile.mkdtemp()) / "clinic.toml"
    >>> table = '[tables.{}]\\nsource = "python"\\nunit = "who"\\ncolumns.who = {{type = "integer"}}\\n'
    >>> tables = "".join(table.format(one) + 'columns.ill = {type = "boolean"}\\n' for one in ("people", "visits"))
    >>> head = '[dataset]\\nname = "clinic"\\nneighbors = "change one"\\n'
    >>> head += '[budget]\\neveryone = "all"\\nepsilon = 3\\ndelta = "1e-6"\\n'
    >>> _ = policy.write_text(head + tables)
    >>> rows = pyarrow.table({"who": range(1000), "ill": [True, False] * 500})
    >>> with discreet.open(policy, tables={"people": rows, "visits": rows}) as data:
    ...     made = data.synthesize_linked({"people": {}, "visits": {"rows_per_person": 2}}, epsilon=1)
    >>> made.tables["visits"].column_names, [one.name for one in made.fit()]
    (['who', 'ill'], ['people', 'visits'])
    >>> set(made.tables["visits"]["who"].to_pylist()) <= set(made.tables["people"]["who"].to_pylist())
    True
    >>> made.page().title
    'Synthetic people, visits'
    """

    plan: _TablesPlan
    measurements: tuple[tuple[Measurement, ...], ...]
    left_out: tuple[tuple[int, ...], ...]
    receipt: Receipt
    seed: bytes

    def fit(self, progress: Progress | None = None) -> tuple[Fitted, ...]:
        """Models and rows, made once: those of people first; rows of other tables behind the columns of a person."""
        if "_fitted" not in self.__dict__:
            self.__dict__["_fitted"] = tuple(self._fits(progress))
        results: tuple[Fitted, ...] = self.__dict__["_fitted"]
        return results

    def _fits(self, progress: Progress | None) -> Iterator[Fitted]:
        people, own = self._people(progress), len(self.plan.own)
        yield people
        numbers = self._numbers(people.codes)
        for place, part in enumerate(self.plan.others):
            yield self._rows(place, part, np.repeat(people.codes[:, :own], numbers[place], axis=0), progress)

    def _people(self, progress: Progress | None) -> Fitted:
        plan, schema = self.plan, self.plan.record
        known = (
            [] if plan.people is None else allowed(plan.people.rules, plan.people.schema, self.measurements[0])
        )  # own columns come first
        name = _everybody(plan) if plan.people is None else plan.people.table.name
        told = _by(progress, name)
        table = fit(schema.sizes, self.measurements[0], settings=plan.settings, allowed=known, progress=told)
        codes = draw(table, allowed=known, entropy=self._entropy(1, 0))
        return Fitted(name, schema, self.measurements[0], table, codes)

    def _rows(self, place: int, part: Part, own: Ints, progress: Progress | None) -> Fitted:
        plan, measured = self.plan, self.measurements[1 + place]
        schema = plan.joined(part)
        known = allowed(part.rules, schema, measured, given=len(plan.own))
        copied = _copied(own, schema, measured)
        settings = _stopping(plan.settings, measured, copied)
        told = _by(progress, part.table.name)
        table = fit(schema.sizes, [*measured, *copied], settings=settings, allowed=known, progress=told)
        codes = draw_given(table, own, allowed=known, entropy=self._entropy(2, place))
        return Fitted(part.table.name, schema, measured, table, np.column_stack([own, codes]))

    def _numbers(self, people: Ints) -> list[Ints]:
        """How many rows each person has in each of the other tables."""
        first = len(self.plan.own)
        return [
            np.asarray(part.number.draw(people[:, first + place], self._entropy(3, place)), np.int64)
            for place, part in enumerate(self.plan.others)
        ]

    @cached_property
    def tables(self) -> dict[str, Any]:
        """The synthetic tables by name, as Arrow tables with the columns of the private ones and keys of their own."""
        people, *others = self.fit()
        own, persons = len(self.plan.own), np.arange(1, len(people.codes) + 1)
        numbers, made = self._numbers(people.codes), {}
        if self.plan.people is not None:
            made[people.name] = self._written(self.plan.people, people.codes[:, :own], persons, 0)
        for place, (part, fitted) in enumerate(zip(self.plan.others, others, strict=True)):
            made[fitted.name] = self._written(
                part, fitted.codes[:, own:], np.repeat(persons, numbers[place]), 1 + place
            )
        return made

    def _written(self, part: Part, codes: Ints, persons: Ints, place: int) -> Any:
        import pyarrow

        drawn = part.schema.draw(codes, self._entropy(4, place))
        made = part.schema.write(enforce_order(part.rules, part.schema, codes, drawn), codes)
        kind = pyarrow.int64() if part.key.kind is ColumnType.INTEGER else pyarrow.string()
        return made.add_column(0, part.key.name, pyarrow.array(persons, pyarrow.int64()).cast(kind))

    def lost(self) -> dict[str, tuple[LostRows, ...]]:
        """Of each table, how many rows were left out and how many values count as missing: from noisy numbers alone."""
        plan, result = self.plan, {}
        names = [_everybody(plan) if plan.people is None else plan.people.table.name]
        names += [part.table.name for part in plan.others]
        schemas = [plan.record, *(plan.joined(part) for part in plan.others)]
        told = self.left_out or [()] * len(names)
        each = zip(names, schemas, self.measurements, plan.reasons, told, plan.designs(), strict=True)
        for turn, (name, schema, measured, reasons, numbers, design) in enumerate(each):
            pairs = list(zip(reasons, numbers, strict=False))
            first = len(plan.own) if turn else 0
            result[name] = lost_rows(schema, measured, pairs, float(design.sigma_left_out), first=first)
        return result

    def page(self) -> "Page":
        """A report from noisy numbers alone: it may be published."""
        from discreet.synthetic.result import Section, public_page

        lost, own = self.lost(), len(self.plan.own)
        sections = [
            Section(
                fitted.name,
                fitted.schema,
                fitted.codes,
                lost[fitted.name],
                fitted.residuals(),
                first=own if turn else 0,
            )
            for turn, fitted in enumerate(self.fit())
        ]
        numbers = {f"synthetic rows of {section.name}": len(section.codes) for section in sections}
        terms: dict[str, Any] = {"receipt": self.receipt, "explained": self.plan.told(), "numbers": numbers}
        return public_page(sections, title=f"Synthetic {self._names}", **terms)

    def quality_page(self, real: Sequence[Ints]) -> "Page":
        """A report that compares with the real rows (`LinkedPlan.read`): exact, and so for the owner's eyes only."""
        from discreet.synthetic.result import linked_quality

        made = [(fitted.name, fitted.schema, fitted.codes) for fitted in self.fit()]
        return linked_quality(made, real, title=f"Quality of synthetic {self._names}")

    @property
    def _names(self) -> str:
        return ", ".join(part.table.name for part in self.plan.parts)

    def _repr_html_(self) -> str:
        return self.page().fragment()

    def save(self, folder: str | Path, *, form: str = "parquet") -> list[Path]:
        """Write each table into a folder, as NAME.parquet or NAME.csv; the paths."""
        from discreet.tables import write

        named = files(self.plan, folder, form=form)
        Path(folder).mkdir(parents=True, exist_ok=True)
        return [write(self.tables[name], path) for name, path in named.items()]

    def _entropy(self, purpose: int, place: int) -> Entropy:
        return DeterministicEntropy((int.from_bytes(self.seed[:7], "big") * 8 + purpose) * 64 + place)


def files(plan: _TablesPlan, folder: str | Path, *, form: str) -> dict[str, Path]:
    """Where each table would be written.

    >>> from discreet.curator.catalog import Catalog, Column, Table
    >>> from discreet.privacy.unit import Unit
    >>> from discreet.requests import LinkedSynthesis
    >>> from discreet.synthetic.planner import plan_linked
    >>> columns = [Column("who", "integer"), Column("ill", "boolean")]
    >>> both = [Table(name, columns, unit=Unit("who")) for name in ("people", "visits")]
    >>> catalog = Catalog("clinic", both, neighbors="add or remove one")
    >>> plan = plan_linked(LinkedSynthesis(tables=["people", "visits"], epsilon=1, delta="1e-9"), catalog)
    >>> [path.as_posix() for path in files(plan, "made", form="csv").values()]
    ['made/people.csv', 'made/visits.csv']
    """
    if form not in ("parquet", "csv"):
        raise InvalidParameter("form", form, "'parquet' or 'csv'")
    names = [part.table.name for part in plan.parts]
    for name in names:
        if set(name) & set("/\\:\0") or name.startswith("."):
            raise InvalidParameter("tables", name, "names of tables that can be names of files")
    return {name: Path(folder) / f"{name}.{form}" for name in names}


def _everybody(plan: _TablesPlan) -> str:
    return f"people of {', '.join(part.table.name for part in plan.parts)}"


def _by(progress: Progress | None, name: str) -> Callable[[int, float], None] | None:
    if progress is None:
        return None
    return lambda step, misfit: progress(name, step, misfit)


def _stopping(settings: Settings, measured: Sequence[Measurement], copied: Sequence[Measurement]) -> Settings:
    """When to stop: what was copied has no noise of its own, so that none of it may excuse a gap to what was measured.

    The mean squared gap is over all cells; its bound is that of the measured ones.
    """
    noisy, all_ = (sum(measurement.counts.size for measurement in each) for each in (measured, [*measured, *copied]))
    return replace(settings, misfit=settings.misfit * (noisy / all_))


def _copied(own: Ints, schema: Schema, measured: tuple[Measurement, ...]) -> list[Measurement]:
    """How two columns of a person go together over the rows of another table: counted among the synthetic people.

    They were not measured here, and without them the fit would be free to take them as it likes. They weigh as much as
    what was measured, and add up to as many rows: how many rows people have was measured by itself, with other noise.
    """
    if not len(own):
        return []
    sigma = float(np.median([measurement.sigma for measurement in measured]))
    scale = total(measured) / len(own)
    pairs = combinations(range(own.shape[1]), 2)
    return [
        Measurement(pair, np.rint(counts(own, schema.sizes, pair) * scale).astype(np.int64), sigma) for pair in pairs
    ]
