"""Several tables of one unit through the gate: people with what they are, how many rows they have, and what these say.

A person is a record: the columns of the table of people (one row each), and for every other table how many rows the
person has in it. Every row of another table is measured together with the columns of its person. So synthetic people
keep how their columns go together, how many rows such people have, and how their rows depend on them. How two rows of
one person resemble each other beyond that, and how rows of two other tables do, is not measured.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations, product
from math import ceil
from typing import Any

import numpy as np

from discreet.curator.answer import Receipt
from discreet.curator.catalog import Catalog
from discreet.curator.contribution_draw import require_same
from discreet.curator.engines import Engine
from discreet.curator.engines.dialects import dialect_of
from discreet.curator.plan import PrivatePlan, plan_document
from discreet.errors import InternalError, InvalidParameter
from discreet.exact import text_up
from discreet.noise import Entropy
from discreet.privacy.loss import GaussianNoise
from discreet.privacy.unit import Neighbors
from discreet.synthetic.columns.rules import rules_in_words
from discreet.synthetic.columns.schema import Attribute, Schema
from discreet.synthetic.fit.relaxed import Needs, Settings, memory_needed, needs, soft_rows
from discreet.synthetic.linked_tables import LinkedTables, Part
from discreet.synthetic.measure.adaptive import design_shift, fine_shift, gaussian_within
from discreet.synthetic.measure.fine_counts import Level, sigma_of
from discreet.synthetic.measure.noisy_marginals import (
    Attributes,
    Design,
    Ints,
    allotted,
    count_left_out,
    design,
    measure,
    packed,
    share_of,
    unpacked,
)
from discreet.synthetic.plan import FINE, bins_in_words


@dataclass(frozen=True, kw_only=True, repr=False)
class LinkedPlan(PrivatePlan):
    """Everything about several synthetic tables of one unit that is decided before a row is seen.

    people: the table with one row a person, if there is one; rows of others are left out of all tables. others: the
    tables whose rows belong to people. multiplier: the noise of all measurements together, as one Gaussian release.

    >>> import pyarrow
    >>> from discreet.curator.catalog import Column, Table
    >>> from discreet.curator.engines.duckdb import DuckDBEngine
    >>> from discreet.privacy.unit import Unit
    >>> from discreet.requests import LinkedSynthesis
    >>> from discreet.synthetic.planner import plan_linked
    >>> columns = [Column("who", "integer"), Column("ill", "boolean", nullable=False)]
    >>> both = [Table(name, columns, unit=Unit("who")) for name in ("people", "visits")]
    >>> catalog = Catalog("clinic", both, neighbors="add or remove one")
    >>> tables = {"people": {}, "visits": {"rows_per_person": 3}}
    >>> plan = plan_linked(LinkedSynthesis(tables=tables, epsilon=1, delta="1e-9"), catalog)
    >>> rows = {"people": {"who": [7], "ill": [True]}, "visits": {"who": [7, 7, 8], "ill": [False, True, True]}}
    >>> with DuckDBEngine(catalog, {name: pyarrow.table(table) for name, table in rows.items()}) as engine:
    ...     people, visits = plan.read(engine)  # for the owner's eyes: one person, who is ill, with two visits
    >>> people.tolist(), sorted(visits.tolist())
    ([[1, 2]], [[1, 0], [1, 1]])
    """

    people: Part | None
    others: tuple[Part, ...]
    multiplier: Fraction
    neighbors: Neighbors
    epsilon: Fraction
    delta: Fraction
    count: int | None
    settings: Settings

    def __post_init__(self) -> None:
        if not self.others or len({part.table.name.casefold() for part in self.parts}) < len(self.parts):
            expected = "two tables or more, each once" if self.people else "one table or more, each once"
            raise InvalidParameter("tables", [part.table.name for part in self.parts], expected)
        if self.people is not None and self.people.rows_each != 1:
            raise InternalError("the table of people has one row each")
        if len({part.key.kind for part in self.parts}) > 1:
            got = ", ".join(f"{part.table.name}.{part.key.name} ({part.key.kind})" for part in self.parts)
            raise InvalidParameter("tables", got, "keys of one type: they must name the same people")

    @property
    def parts(self) -> tuple[Part, ...]:
        """All tables, that of people first."""
        return (*([] if self.people is None else [self.people]), *self.others)

    @property
    def own(self) -> tuple[Attribute, ...]:
        """The columns of a person, named after their table."""
        if self.people is None:
            return ()
        table = self.people.table.name
        return tuple(
            replace(attribute, column=replace(attribute.column, name=f"{table}.{attribute.column.name}"))
            for attribute in self.people.schema.attributes
        )

    @cached_property
    def record(self) -> Schema:
        """What is known of a person: the own columns, then how many rows they have in each of the other tables."""
        return Schema([*self.own, *(part.number for part in self.others)])

    def joined(self, part: Part) -> Schema:
        """A row of another table, behind the columns of its person."""
        return Schema([*self.own, *part.schema.attributes])

    def designs(self) -> list[Design]:
        """What is measured of people, and then of the rows of each other table.

        Of rows: their columns, pairs of these, and pairs with columns of the person. Pairs of two columns of the person
        are known from the people.

        Guarantee: with fine counts, at most one Gaussian release of `multiplier` (`share_of`); it is checked here.
        """
        rest = 1 - (FINE if any(part.fine for part in self.parts) else Fraction(0))
        each = share_of(self.multiplier, rest / (1 + len(self.others)))
        made = [design(self.record.sizes, multiplier=each, neighbors=self.neighbors)]
        for part in self.others:
            terms: dict[str, Any] = {"neighbors": self.neighbors, "rows_per_unit": part.rows_each}
            made.append(allotted(self.joined(part).sizes, self._wanted(part), multiplier=each, **terms))
        if any(part_design.loss.multiplier < each for part_design in made):
            raise InternalError("a design adds less noise than its plan says")
        return made

    def sigma_of_fine(self, part: Part) -> Fraction:
        """The noise on each of a table's fine counts; the tables that have some share their part of the budget evenly.

        Guarantee: together a Gaussian release of `share_of(multiplier, FINE)` (`fine_counts.sigma_of`).
        """
        many = sum(bool(each.fine) for each in self.parts)
        cells = [each for _, each in part.fine]
        return sigma_of(cells, share_of(self.multiplier, FINE / many), self.neighbors, part.rows_each)

    def refined(self, found: Sequence[dict[str, list[Level]]]) -> "LinkedPlan":
        """The same, in the bins that follow from fine counts."""
        parts = [
            part.refined(levels, float(self.sigma_of_fine(part))) if levels else part
            for part, levels in zip(self.parts, found, strict=True)
        ]
        people = None if self.people is None else parts.pop(0)
        return replace(self, people=people, others=tuple(parts))

    def _wanted(self, part: Part) -> list[Attributes]:
        first = len(self.own)
        last = range(first, first + len(part.schema.names))
        return [*((attribute,) for attribute in last), *product(range(first), last), *combinations(last, 2)]

    @property
    def text(self) -> str:
        """What was asked."""
        return f"synthesize {', '.join(part.table.name for part in self.parts)} together"

    def document(self) -> dict[str, Any]:
        """What is released and how."""
        parts = {
            "people": _part(self.people),
            "others": [_part(part) for part in self.others],
            "neighbors": self.neighbors,
            "noise_multiplier": self.multiplier,
        }
        return plan_document("linked synthesis", 2, **parts)

    @property
    def loss(self) -> GaussianNoise:
        """What the whole costs: one Gaussian release of all marginals of all tables."""
        return GaussianNoise(self.multiplier)

    def verify(self, catalog: Catalog) -> GaussianNoise:
        """The loss, from the noise on each count and what one person moves; tables and columns must be the catalog's.

        Guarantee: `run` costs this. Proof. A unit is a person in all tables together. Their record depends on their
        own rows alone, and so do their rows behind it, of which there are at most `rows_each` in each table
        (`curator.contribution_draw`; a row of somebody else is never joined to theirs). So fine counts cost what
        `sigma_of_fine` says, records the first design, rows of a table theirs (`Design.loss`), and all together what
        `designs` says. A row that is left out is counted in one cell instead, which costs nothing more
        (`Design.sigma_left_out`).
        """
        for part in self.parts:
            require_same(part.table, part.columns, self.neighbors, catalog)
        rows = [1, *(part.rows_each for part in self.others)]
        shifts = [design_shift(each, self.neighbors, most) for each, most in zip(self.designs(), rows, strict=True)]
        for part in self.parts:
            if part.fine:
                cells = [each for _, each in part.fine]
                shifts.append(fine_shift(cells, self.sigma_of_fine(part), self.neighbors, part.rows_each))
        return gaussian_within(self.multiplier, sum(shifts, Fraction(0)))

    def run(self, engine: Engine, entropy: Entropy | None) -> bytes:
        """Read the rows, and give out noisy marginals. No value of a row makes this fail."""
        tables = [engine.fetch(part.sql_for(dialect_of(engine.dialect))) for part in self.parts]
        fine = [
            part.counted(rows, self.sigma_of_fine(part), entropy) if part.fine else {}
            for part, rows in zip(self.parts, tables, strict=True)
        ]
        exact, reasons = self.refined(fine)._coded(tables)
        sections, left_out = [], []
        for codes, why, names, wanted in zip(exact, reasons, self.reasons, self.designs(), strict=True):
            sections.append(packed(measure(codes, wanted, entropy=entropy)))
            left_out.append(count_left_out(why, len(names), wanted, entropy=entropy))
        sections += [json.dumps(each).encode() for each in (left_out, fine)]
        return b"".join(len(words).to_bytes(8, "big") + words for words in sections)

    @property
    def reasons(self) -> list[tuple[str, ...]]:
        """Of people and of each other table: the columns for whose values rows are left out.

        The last, of other tables, is the key: their rows are left out if their person is not among the people.
        """
        own = () if self.people is None else self.people.schema.strict
        key = [() if self.people is None else (part.key.name,) for part in self.others]
        return [own, *((*part.schema.strict, *last) for part, last in zip(self.others, key, strict=True))]

    def read(self, engine: Engine) -> list[Ints]:
        """The exact codes: a record for each person, and for each other table its rows behind those of their persons.

        Not private: for `run`, and for the owner's eyes.
        """
        return self._coded([engine.fetch(part.sql_for(dialect_of(engine.dialect))) for part in self.parts])[0]

    def _coded(self, tables: Sequence[Any]) -> tuple[list[Ints], list[Ints]]:
        """The same, and for each row that is left out the place of its reason in `reasons`."""
        results = [_rows(part, rows) for part, rows in zip(self.parts, tables, strict=True)]
        known = _names([keys for keys, _, _ in (results[:1] if self.people else results)])
        own, left_out = np.empty((len(known), 0), np.int64), [np.empty(0, np.int64)]
        if self.people is not None:
            _, own, left_out[0] = results.pop(0)
        numbers, joined = [], []
        for (keys, codes, why), part in zip(results, self.others, strict=True):
            who = _places(keys, known)
            here = who >= 0
            numbers.append(np.bincount(who[here], minlength=len(known)))
            joined.append(np.column_stack([own[who[here]], codes[here]]))
            nobody = np.full(int((~here).sum()), len(part.schema.strict), np.int64)
            left_out.append(np.concatenate([why, nobody]))
        counted = self.record.attributes[len(self.own) :]
        coded = [attribute.encode(_arrow(number)) for attribute, number in zip(counted, numbers, strict=True)]
        return [np.column_stack([own, *coded]), *joined], left_out

    def finish(self, released: bytes, receipt: Receipt, engine: Engine) -> LinkedTables:
        """The tables, fitted to the noisy marginals and drawn with randomness that follows from them."""
        sections, at = [], 0
        while at < len(released):
            size = int.from_bytes(released[at : at + 8], "big")
            sections.append(released[at + 8 : at + 8 + size])
            at += 8 + size
        tables = 1 + len(self.others)
        measured = tuple(unpacked(section) for section in sections[:tables])
        left_out = json.loads(sections[tables]) if len(sections) > tables else []  # older releases do not have it
        counts = tuple(tuple(each) for each in left_out)
        fine = json.loads(sections[tables + 1]) if len(sections) > tables + 1 else []
        made = self.refined(fine) if fine else self
        return LinkedTables(made, measured, counts, receipt, hashlib.sha256(released).digest())

    def memory(self) -> int:
        """Bytes that fitting needs at most, one table after the other."""
        fixed = self.settings.rows
        return max(
            memory_needed(design.sizes, design.marginals, rows=fixed or soft_rows(10**9, design.sizes))
            for design in self.designs()
        )

    def needs(self) -> Needs:
        """About what the whole takes; `count` says for how many people."""
        rows = [1, *(part.rows_each for part in self.others)]
        each = [
            needs(design.sizes, design.marginals, self.settings, people=self.count, rows_each=most)
            for design, most in zip(self.designs(), rows, strict=True)
        ]
        return Needs(
            max(need.memory for need in each), sum(need.seconds for need in each), sum(need.most for need in each)
        )

    def explain(self) -> str:
        """What it would cost and do, in words."""
        return self._told(self.needs().words(self.count))

    def told(self) -> str:
        """How tables were made, in words: without what it was expected to take."""
        return self._told({})

    def _told(self, needs: dict[str, str]) -> str:
        made = self.designs()
        keys = ", ".join(f"{part.table.name} (by {part.key.name})" for part in self.parts)
        lines = [
            ("task", self.text),
            ("protects", f"one person, with all their rows in {keys}"),
            ("cost", f"ε {text_up(self.epsilon)} at δ {text_up(self.delta, 3)}"),
            ("people", self._whom()),
            ("a person", _columns(self.record)),
            (
                "useful",
                f"for more than about {ceil(made[0].noise_alone(1)):,} people; with fewer, the result is mostly noise",
            ),
        ]
        for part, rows_design in zip(self.others, made[1:], strict=True):
            most = "1 row" if part.rows_each == 1 else f"{part.rows_each} rows"
            behind = ", behind their own columns" if self.own else ""
            lines.append(
                (f"a row of {part.table.name}", f"{_columns(part.schema)}; at most {most} of a person{behind}")
            )
            lines.append(("useful", f"for more than about {ceil(rows_design.noise_alone(1)):,} rows"))
        lines.append(("measured", f"{sum(len(design.marginals) for design in made)} marginals"))
        own = [f"{part.table.name}.{name}" for part in self.parts for name in part.private_bins]
        lines += bins_in_words(own, [], fine=any(part.fine for part in self.parts)).items()
        lines += [(f"rules of {part.table.name}", rules_in_words(part.rules)) for part in self.parts if part.rules]
        lines += needs.items()
        width = max(len(name) for name, _ in lines)
        return "\n".join(f"{name:<{width}}  {value}" for name, value in lines)

    def _whom(self) -> str:
        if self.people is None:
            return "everybody who has a row"
        return f"those in {self.people.table.name}; rows of others are left out"


def _part(part: Part | None) -> dict[str, Any] | None:
    """What is released of a table, and how: rules matter to what is done afterwards."""
    if part is None:
        return None
    fine = {
        "fine_counts": [(name, each.points, each.width, each.levels) for name, each in part.fine],
        "private_bins": part.private_bins,
    }
    return {"table": part.table, "schema": part.schema, "rows_per_person": part.rows_each, **fine}


def _columns(schema: Schema) -> str:
    return ", ".join(f"{name} ({size})" for name, size in zip(schema.names, schema.sizes, strict=True))


def _rows(part: Part, rows: Any) -> tuple[Any, Ints, Ints]:
    """The key and the codes of each row of a table that has codes, and why each of the others has none."""
    codes = part.schema.codes_of(rows.select(list(part.schema.names)))
    kept = (codes >= 0).all(axis=1)
    return rows.column(0).combine_chunks().filter(_arrow(kept)), codes[kept], part.schema.reasons(codes)


def _names(keys: Sequence[Any]) -> Any:
    """Everybody, each once, in the order in which they come. Keys of one kind have one type (`Engine`)."""
    import pyarrow

    return pyarrow.chunked_array(keys).combine_chunks().unique()


def _places(keys: Any, known: Any) -> Ints:
    """The place of each key among those known; −1 for all else."""
    from pyarrow import compute

    return np.asarray(compute.index_in(keys, value_set=known).fill_null(-1), np.int64)


def _arrow(values: Any) -> Any:
    import pyarrow

    return pyarrow.array(values)
