"""What a synthesis gives: noisy marginals that were paid for, and rows that follow from them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.curator.answer import Receipt
from discreet.curator.catalog import Column, ColumnType
from discreet.noise import DeterministicEntropy, Entropy
from discreet.synthetic import graphical, relaxed
from discreet.synthetic.constraints import Allowed
from discreet.synthetic.measuring import Measurement
from discreet.synthetic.quality import LostRows, Model, Residual, lost_rows, residuals
from discreet.synthetic.reading import Codes
from discreet.synthetic.rows import draw
from discreet.synthetic.rules import allowed, mended
from discreet.synthetic.schema import Schema

if TYPE_CHECKING:
    from discreet.report import Page
    from discreet.synthetic.plan import SynthesisPlan

Progress = Callable[[int, float], None]


@dataclass(frozen=True, eq=False)
class SyntheticTable:
    """Noisy marginals that were paid for, and the synthetic rows that follow from them. All done with it is free."""

    plan: "SynthesisPlan"
    measurements: tuple[Measurement, ...]
    head: dict[str, Any]
    receipt: Receipt
    seed: bytes

    @cached_property
    def schema(self) -> Schema:
        """The columns as codes."""
        return self.plan.schema(self.head["found"], self.head.get("fine"))

    def fit(self, progress: Progress | None = None) -> Model:
        """The model of the table, fitted once: a relaxed table, or a graphical model."""
        if "_model" not in self.__dict__:
            self.__dict__["_model"] = self._fitted(progress)
        model: Model = self.__dict__["_model"]
        return model

    def _fitted(self, progress: Progress | None) -> Model:
        sizes, settings = self.schema.sizes, self.plan.settings
        if self.plan.model == "graphical":
            return graphical.fit(sizes, self.measurements, iterations=settings.iterations)
        return relaxed.fit(sizes, self.measurements, settings=settings, allowed=self._allowed, progress=progress)

    @cached_property
    def _allowed(self) -> list[Allowed]:
        """What rules allow; what decides what is read off the noisy counts."""
        return allowed(self.plan.rules, self.schema, self.measurements)

    @cached_property
    def codes(self) -> Codes:
        """The synthetic rows as codes."""
        model = self.fit()
        if isinstance(model, relaxed.RelaxedTable):
            return draw(model, rows=self.plan.rows, allowed=self._allowed, entropy=self._entropy(1))
        assert isinstance(model, graphical.GraphicalTable)  # noqa: S101 (there are no others)
        return model.draw(rows=self.plan.rows, entropy=self._entropy(1))

    @cached_property
    def table(self) -> Any:
        """The synthetic rows, as an Arrow table with the columns of the private one and keys of its own."""
        drawn = self.schema.draw(self.codes, self._entropy(2))
        made = self.schema.write(mended(self.plan.rules, self.schema, self.codes, drawn), self.codes)
        key = self.plan.table.unit.key if self.plan.table.unit else None
        if key is None:
            return made
        column = self.plan.table.column(key)
        return made.add_column(0, column.name, self._keys(column))

    def residuals(self) -> tuple[Residual, ...]:
        """How well the fit meets each noisy marginal: from noisy numbers alone."""
        return residuals(self.measurements, self.fit())

    def lost(self) -> tuple[LostRows, ...]:
        """How many rows were left out, and how many values count as missing: from noisy numbers alone."""
        first = self.plan.design(self.schema) if self.plan.recipe is None else self.plan.recipe.first
        counts = self.head.get("left_out", ())  # older releases do not have it
        told = list(zip(self.schema.strict, counts, strict=False))
        return lost_rows(self.schema, self.measurements, told, float(first.sigma_left_out))

    def page(self) -> "Page":
        """A report from noisy numbers alone: it may be published."""
        from discreet.synthetic.report import public_page

        return public_page(self)

    def _repr_html_(self) -> str:
        return self.page().fragment()

    def save(self, path: str | Path) -> Path:
        """Write the rows as .parquet or .csv; the path."""
        from discreet.tables import write

        return write(self.table, path)

    def _keys(self, column: Column) -> Any:
        """New keys: a synthetic person for each row, or for as many rows as the noisy numbers say."""
        import pyarrow

        persons = _persons(len(self.codes), self.head.get("rows_a_person"), self._entropy(3))
        kind = pyarrow.int64() if column.kind is ColumnType.INTEGER else pyarrow.string()
        return pyarrow.array(persons + 1).cast(kind)

    def _entropy(self, purpose: int) -> Entropy:
        return DeterministicEntropy(int.from_bytes(self.seed[:7], "big") * 8 + purpose)


def _persons(rows: int, at_least: Sequence[int] | None, entropy: Entropy) -> Codes:
    """Which synthetic person each row belongs to: rows are in random order, so any split is."""
    if at_least is None:
        return np.arange(rows, dtype=np.int64)
    many = np.minimum.accumulate(np.maximum(np.asarray(at_least, np.float64), 0.0))
    exactly = np.append(many[:-1] - many[1:], many[-1])  # people with exactly n rows
    if exactly.sum() <= 0:
        return np.arange(rows, dtype=np.int64)
    ends = np.cumsum(exactly) / exactly.sum()
    drawn = (entropy.words(rows) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    sizes = np.searchsorted(ends, drawn, side="right") + 1
    return np.repeat(np.arange(rows), np.minimum(sizes, len(ends)))[:rows].astype(np.int64)
