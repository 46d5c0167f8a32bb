"""A synthetic table through the gate: priced, explained, charged, run. Noisy marginals are all that leaves.

Fitting and drawing rows read the noisy marginals alone: they are post-processing, done after the release, the same way
every time.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from discreet.curator.answer import Receipt
from discreet.curator.catalog import Catalog, Column, Table
from discreet.curator.engines import Engine
from discreet.curator.rows import require_same, rows_each
from discreet.errors import InternalError, InvalidParameter
from discreet.exact import printed_up, sqrt_bounds
from discreet.mechanisms.partitions import OptimalSelection
from discreet.noise import DeterministicEntropy, Entropy, rounded_gaussian
from discreet.privacy.loss import GaussianNoise, Loss, Together
from discreet.privacy.unit import Neighbours
from discreet.synthetic.measuring import Design, Measurement, design, measure, packed, unpacked
from discreet.synthetic.quality import Model, Residual, residuals
from discreet.synthetic.relaxed import Settings, fit, memory_needed, soft_rows
from discreet.synthetic.rows import draw
from discreet.synthetic.rules import Rule
from discreet.synthetic.schema import MOST_CODES, Attribute, Bins, Codes, Schema

Progress = Callable[[int, float], None]

KEYS = Fraction(1, 50)
"""The share of the budget for how many rows a person has, where they may have several."""


@dataclass(frozen=True, kw_only=True)
class SynthesisPlan:
    """Everything about a synthetic table that is decided before a row is seen.

    discover: columns whose values are found privately, each by an `OptimalSelection`; all others have an attribute in
    `schema`. multiplier: the noise of all measurements together, as one Gaussian release against a shift by 1.
    """

    table: Table
    columns: tuple[Column, ...]
    bins: tuple[tuple[str, Bins], ...]
    values: tuple[tuple[str, tuple[Any, ...]], ...]
    discover: tuple[tuple[str, OptimalSelection], ...]
    rules: tuple[Rule, ...]
    target: str | None
    rows_each: int
    multiplier: Fraction
    neighbours: Neighbours
    epsilon: Fraction
    delta: Fraction
    people: int | None
    rows: int | None
    settings: Settings

    def __post_init__(self) -> None:
        if not self.table.private:
            raise InvalidParameter("table", self.table.name, "a private table", "public rows need no privacy")
        if self.discover and (self.neighbours is not Neighbours.ADD_OR_REMOVE_ONE or self.rows_each > 1):
            expected = "'add or remove one', and one row a person, where values are found privately"
            raise InvalidParameter("discover", f"{self.neighbours}, {self.rows_each} rows", expected)
        rows_each(self.table, self.columns, most=self.rows_each)
        if not self.discover:
            schema = self.schema({})
            for rule in self.rules:
                rule.allowed(schema)

    def schema(self, found: dict[str, list[Any]]) -> Schema:
        """The columns as codes; `found` has the values that were found privately."""
        bins, values = dict(self.bins), dict(self.values)
        hidden = {name for name, _ in self.discover}
        return Schema(
            [
                Attribute.of(Column(one.name, one.kind), values=found.get(one.name) or ["?"])
                if one.name in hidden
                else Attribute.of(one, bins=bins.get(one.name), values=values.get(one.name))
                for one in self.columns
            ]
        )

    def design(self, schema: Schema) -> Design:
        """Which marginals are measured, with how much noise each."""
        whole = self.multiplier if self.rows_each == 1 else _part(self.multiplier, 1 - KEYS)
        target = None if self.target is None else schema.place(self.target)
        terms = {"neighbours": self.neighbours, "rows_per_unit": self.rows_each, "target": target}
        return design(schema.sizes, multiplier=whole, **terms)  # type: ignore[arg-type]

    @property
    def text(self) -> str:
        """What was asked."""
        return f"synthesize {', '.join(one.name for one in self.columns)} of {self.table.name}"

    @property
    def name(self) -> str:
        """What is released and how."""
        parts = (self.table, self.columns, self.bins, self.values, self.discover, self.target, self.rows_each)
        return f"{self.neighbours}\n{parts!r}\n{self.multiplier}"

    @property
    def loss(self) -> Loss:
        """What the whole costs: finding values, and one Gaussian release of all marginals and the rows a person has."""
        parts = [selection.loss for _, selection in self.discover]
        return Together(*parts, GaussianNoise(self.multiplier)) if parts else GaussianNoise(self.multiplier)

    @property
    def private(self) -> bool:
        """It reads private rows."""
        return True

    def derive(self, catalog: Catalog) -> Loss:
        """The loss, from the parts; table and columns must be those of the catalog.

        Guarantee: `run` costs this. Proof. Finding the values of a column costs its selection: a unit has `keys` of
        them at most (`_discovered`). Given the values, the marginals cost at most one Gaussian release of multiplier m
        (`Design.loss`), and where a person has several rows, how many they have one of m': 1/m² + 1/m'² ≤ 1/multiplier²
        (`_part`), and Gaussian releases compose to one whose inverse squares add up (Dong, Roth, Su 2022, Gaussian
        differential privacy: composition).
        """
        require_same(self.table, self.columns, self.neighbours, catalog)
        if not self.discover:
            made = self.design(self.schema({})).loss.multiplier
            least = self.multiplier if self.rows_each == 1 else _part(self.multiplier, 1 - KEYS)
            if made < least * (1 - Fraction(1, 10**9)):
                raise InternalError("a design adds less noise than its plan says")
        return self.loss

    def run(self, engine: Engine, entropy: Entropy | None) -> bytes:
        """Read the rows, and give out noisy marginals."""
        several = self.rows_each > 1
        rows = engine.fetch(rows_each(self.table, self.columns, most=self.rows_each, numbered=several))
        found = {name: _discovered(rows.column(name), selection, entropy) for name, selection in self.discover}
        schema = self.schema(found)
        codes, _ = schema.encode(rows.select([one.name for one in self.columns]))
        measured = measure(codes, self.design(schema), entropy=entropy)
        head: dict[str, Any] = {"found": found}
        if several:
            head["rows_a_person"] = self._rows_a_person(np.asarray(rows.column(len(self.columns))), entropy).tolist()
        words = json.dumps(head).encode()
        return len(words).to_bytes(8, "big") + words + packed(measured)

    def _rows_a_person(self, numbers: Codes, entropy: Entropy | None) -> Codes:
        """Noisy: how many people have at least n rows, n = 1 … most.

        Guarantee: a Gaussian release of multiplier `_part(multiplier, KEYS)`. Proof. A person adds 1 to as many of
        these counts as they have rows: an ℓ2 norm of at most √most, for either neighbours (a changed person raises or
        lowers some of them).
        """
        exact = np.bincount(numbers.astype(np.int64), minlength=self.rows_each + 1)[1 : self.rows_each + 1]
        sigma = _part(self.multiplier, KEYS) * _root_up(self.rows_each)
        noise = np.asarray(rounded_gaussian(sigma, exact.shape, entropy=entropy))
        return np.asarray(exact + noise, np.int64)

    def finish(self, released: bytes, receipt: Receipt, engine: Engine) -> "SyntheticTable":
        """The table, fitted to the noisy marginals and drawn with randomness that follows from them."""
        size = int.from_bytes(released[:8], "big")
        head, measured = json.loads(released[8 : 8 + size]), unpacked(released[8 + size :])
        return SyntheticTable(self, measured, head, receipt, hashlib.sha256(released).digest())

    def memory(self) -> int:
        """Bytes that fitting needs; with a guess of 100 values where they are found privately."""
        schema = self.schema({name: [str(n) for n in range(100)] for name, _ in self.discover})
        marginals = self.design(schema).marginals
        return memory_needed(schema.sizes, marginals, rows=self.settings.rows or soft_rows(self.people or 10**6))

    def seconds(self) -> float:
        """About how long fitting takes on one core: products of all soft rows with all codes, twice a step."""
        schema = self.schema({name: [str(n) for n in range(100)] for name, _ in self.discover})
        width, soft = sum(schema.sizes), self.settings.rows or soft_rows(self.people or 10**6)
        return self.settings.iterations * (4.0 * soft * width * width / 4e10 + 2e-8 * soft * width)

    def explain(self) -> str:
        """What it would cost and do, in words."""
        schema = self.schema({})
        made = self.design(schema)
        unit = self.table.unit
        lines = {
            "makes": self.text,
            "protects": f"{unit}; at most {self.rows_each} of their rows" if unit and unit.key else str(unit),
            "cost": f"ε {printed_up(self.epsilon)} at δ {printed_up(self.delta)}",
            "columns": ", ".join(f"{one.column.name} ({one.size})" for one in schema.attributes),
            "measured": f"{len(made.marginals)} marginals, noise of {float(min(made.sigmas)):.3g} to "
            f"{float(max(made.sigmas)):.3g} rows on each count",
            "memory": f"about {self.memory() / 1e6:,.0f} MB",
            "time": f"up to {self.seconds():,.0f} s of one core",
        }
        if self.discover:
            lines["found privately"] = ", ".join(name for name, _ in self.discover)
        if self.people is not None:
            lines["noise alone"] = f"{made.noise_alone(self.people):.3g} of total variation in a pair, before fitting"
        if self.target is not None:
            lines["target"] = f"{self.target}: small triples with it are measured too"
        width = max(map(len, lines))
        return "\n".join(f"{name:<{width}}  {value}" for name, value in lines.items())


@dataclass(frozen=True, eq=False)
class SyntheticTable:
    """Noisy marginals that were paid for, and the synthetic rows that follow from them. All done with it is free."""

    plan: SynthesisPlan
    measurements: tuple[Measurement, ...]
    head: dict[str, Any]
    receipt: Receipt
    seed: bytes

    @cached_property
    def schema(self) -> Schema:
        """The columns as codes."""
        return self.plan.schema(self.head["found"])

    def fit(self, progress: Progress | None = None) -> Model:
        """The relaxed table, fitted once."""
        if "_model" not in self.__dict__:
            allowed = [rule.allowed(self.schema) for rule in self.plan.rules]
            settings = self.plan.settings
            made = fit(self.schema.sizes, self.measurements, settings=settings, allowed=allowed, progress=progress)
            self.__dict__["_model"] = made
        model: Model = self.__dict__["_model"]
        return model

    @cached_property
    def codes(self) -> Codes:
        """The synthetic rows as codes."""
        allowed = [rule.allowed(self.schema) for rule in self.plan.rules]
        return draw(self.fit(), rows=self.plan.rows, allowed=allowed, entropy=self._entropy(1))  # type: ignore[arg-type]

    @cached_property
    def table(self) -> Any:
        """The synthetic rows, as an Arrow table with the columns of the private one and keys of its own."""
        made = self.schema.decode(self.codes, self._entropy(2))
        for rule in self.plan.rules:
            made = rule.mended(made, self.schema)
        key = self.plan.table.unit.key if self.plan.table.unit else None
        if key is None:
            return made
        column = self.plan.table.column(key)
        return made.add_column(0, column.name, self._keys(column))

    def residuals(self) -> tuple[Residual, ...]:
        """How well the fit meets each noisy marginal: from noisy numbers alone."""
        return residuals(self.measurements, self.fit())

    def save(self, path: str | Path) -> Path:
        """Write the rows as .parquet or .csv; the path."""
        from discreet.tables import write

        return write(self.table, path)

    def _keys(self, column: Column) -> Any:
        """New keys: a synthetic person for each row, or for as many rows as the noisy numbers say."""
        import pyarrow

        rows = len(self.codes)
        persons = _persons(rows, self.head.get("rows_a_person"), self._entropy(3))
        kind = pyarrow.int64() if str(column.kind) == "integer" else pyarrow.string()
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


def _discovered(values: Any, selection: OptimalSelection, entropy: Entropy | None) -> list[Any]:
    """The values of a column that enough units have.

    Guarantee: costs `selection.loss`, since each unit has one row here, and so one value.
    """
    from pyarrow import compute

    counted = compute.value_counts(values.combine_chunks().drop_null())
    names, many = counted.field("values").to_pylist(), np.asarray(counted.field("counts"), np.int64)
    kept = selection.release(many, entropy=entropy) if len(names) else np.zeros(0, np.bool_)
    found = [str(name) for name, stays in zip(names, kept, strict=True) if stays]
    return sorted(found)[:MOST_CODES]


def _part(multiplier: Fraction, share: Fraction) -> Fraction:
    """The multiplier of a release that takes this share of 1/multiplier², rounded up."""
    return multiplier * _root_up(1 / share)


def _root_up(value: Fraction | int) -> Fraction:
    return Fraction(sqrt_bounds(Fraction(value), 64)[1], 1 << 64)
