"""A synthetic table through the gate: priced, explained, charged, run. Noisy marginals are all that leaves.

Fitting and drawing rows read the noisy marginals alone: they are post-processing, done after the release, the same way
every time.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any

import numpy as np

from discreet.curator.answer import Receipt
from discreet.curator.catalog import Catalog, Column, Table
from discreet.curator.contribution_draw import require_same, rows_each
from discreet.curator.engines import Engine
from discreet.curator.engines.dialects import dialect_of
from discreet.curator.plan import PrivatePlan, documented, plan_document
from discreet.errors import InternalError, InvalidParameter
from discreet.exact import plain, text_up
from discreet.mechanisms.partitions import OptimalSelection
from discreet.noise import Entropy, rounded_gaussian
from discreet.privacy.loss import Approximate, GaussianNoise, Loss, Together
from discreet.privacy.unit import Neighbors
from discreet.synthetic.columns.rules import Rule, allowed, named_in, rules_in_words
from discreet.synthetic.columns.schema import Attribute, Schema
from discreet.synthetic.columns.units import Bins, Codes
from discreet.synthetic.fit.relaxed import Needs, Settings, fit, memory_needed, needs, soft_rows
from discreet.synthetic.fit.row_sampling import possible
from discreet.synthetic.measure.adaptive import (
    Recipe,
    Round,
    choose,
    design_shift,
    fine_shift,
    gaussian_within,
    recipe_loss,
)
from discreet.synthetic.measure.fine_counts import Cells, Level, count, density, sigma_of
from discreet.synthetic.measure.noisy_marginals import (
    Attributes,
    Design,
    Measurement,
    cells,
    count_left_out,
    design,
    measure,
    packed,
    root_up,
    share_of,
    unpacked,
)
from discreet.synthetic.result import Fitting, SyntheticTable

KEYS = Fraction(1, 50)
"""The share of the budget for how many rows a person has, where they may have several."""

FINE = Fraction(1, 20)
"""The share of the budget for fine counts of wide columns, from which bins that nobody declared follow too."""

MOST_FOUND = 1000
"""Values of one column that are found privately; of more, the first in alphabetical order."""

_SOME = 100  # values that a column is guessed to have before they are found


@dataclass(frozen=True, kw_only=True, repr=False)
class SynthesisPlan(PrivatePlan):
    """Everything about a synthetic table that is decided before a row is seen.

    discover: columns whose values are found privately, each by an `OptimalSelection`; all others have an attribute in
    `schema`. multiplier: the noise of all measurements together, as one Gaussian release against a shift by 1.
    recipe: instead of one release, a first one and rounds in which further marginals are chosen.
    rules, people, rows, settings and model matter to what is done after the release (settings to a recipe, too).
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
    recipe: Recipe | None
    neighbors: Neighbors
    epsilon: Fraction
    delta: Fraction
    people: int | None
    rows: int | None
    model: Fitting
    settings: Settings

    def __post_init__(self) -> None:
        if not self.table.private:
            raise InvalidParameter("table", self.table.name, "a private table", "public rows need no privacy")
        if self.discover and (self.neighbors is not Neighbors.ADD_OR_REMOVE_ONE or self.rows_each > 1):
            expected = "a dataset of neighbors 'add or remove one', and one row a person, where values are found"
            raise InvalidParameter("discover", [name for name, _ in self.discover], expected, "or declare the values")
        if self.recipe is not None and (self.discover or self.rows_each > 1):
            expected = "one row a person and declared values, where marginals are chosen in rounds"
            raise InvalidParameter("adaptive", len(self.recipe.rounds), expected)
        if self.model == "graphical" and self.rules:
            raise InvalidParameter("model", self.model, "'relaxed' where rules are given")
        rows_each(self.table, self.columns, most=self.rows_each)
        hidden = {name for name, _ in self.discover}
        schema = self.schema({})
        for rule in self.rules:
            rule.check(schema, hidden)
            if not hidden:
                rule.allowed(schema)
        if not hidden and not possible(allowed(self.rules, schema), schema.sizes):
            expected = "rules that a row can obey together"
            raise InvalidParameter("rules", ", ".join(map(str, self.rules)), expected)

    def schema(self, found: dict[str, list[str]], fine: dict[str, list[Level]] | None = None) -> Schema:
        """The columns as codes; `found` has the values that were found privately, `fine` the fine counts.

        Without fine counts, bins that nobody declared are equally wide; there are as many.
        """
        bins, values = dict(self.bins), dict(self.values)
        hidden = {name for name, _ in self.discover}
        made = Schema(
            [
                Attribute.found(column, found.get(column.name, []))
                if column.name in hidden
                else Attribute.of(column, bins=bins.get(column.name), values=values.get(column.name))
                for column in self.columns
            ]
        )
        if not fine:
            return made
        own, sigma = self.private_bins(made), float(self.sigma_of_fine(made))
        return Schema(
            [
                attribute.refined(density(fine[name], cells, sigma), bins=name in own)
                if (name := attribute.column.name) in fine and (cells := attribute.cells) is not None
                else attribute
                for attribute in made.attributes
            ]
        )

    def fine(self, schema: Schema) -> dict[str, Cells]:
        """The columns that are counted finely: those with bins of several values. None where rounds are planned."""
        if self.recipe is not None:
            return {}
        return {
            attribute.column.name: cells for attribute in schema.attributes if (cells := attribute.cells) is not None
        }

    def private_bins(self, schema: Schema) -> tuple[str, ...]:
        """The columns whose bins follow from fine counts: no bins were given, and no rule names one of them."""
        public = {name for name, bins in self.bins if not isinstance(bins, str)} | named_in(self.rules)
        return tuple(
            name for name in self.fine(schema) if name.casefold() not in {known.casefold() for known in public}
        )

    def sigma_of_fine(self, schema: Schema) -> Fraction:
        """The noise on each of the fine counts."""
        cells = list(self.fine(schema).values())
        return sigma_of(cells, share_of(self.multiplier, FINE), self.neighbors, self.rows_each)

    def guessed(self, many: int = _SOME) -> Schema:
        """The schema, if so many values are found in each column where they are found privately."""
        return self.schema({name: [str(n) for n in range(many)] for name, _ in self.discover})

    def design(self, schema: Schema) -> Design:
        """Which marginals are measured, with how much noise each.

        Guarantee: with fine counts, `_rows_a_person` and `count_left_out`, one Gaussian release of `multiplier`; it is
        checked here.
        """
        others = (KEYS if self.rows_each > 1 else 0) + (FINE if self.fine(schema) else 0)
        whole = share_of(self.multiplier, Fraction(1 - others)) if others else self.multiplier
        target = None if self.target is None else schema.place(self.target)
        terms: dict[str, Any] = {"neighbors": self.neighbors, "rows_per_unit": self.rows_each, "target": target}
        made = design(schema.sizes, multiplier=whole, **terms)
        if made.loss.multiplier < whole:
            raise InternalError("a design adds less noise than its plan says")
        return made

    @property
    def text(self) -> str:
        """What was asked."""
        return f"synthesize {', '.join(column.name for column in self.columns)} of {self.table.name}"

    def document(self) -> dict[str, Any]:
        """What is released and how: bins and values as they are used, however they were written."""
        return plan_document(
            "synthesis",
            2,
            table=self.table,
            neighbors=self.neighbors,
            schema=self.schema({}),
            fine_counts=tuple(self.fine(self.schema({}))),
            private_bins=self.private_bins(self.schema({})),
            discover=self.discover,
            target=self.target,
            rows_per_person=self.rows_each,
            noise_multiplier=self.multiplier,
            rounds=self.recipe,
            fitting=None if self.recipe is None else self.settings,
        )

    @property
    def loss(self) -> Loss:
        """What the whole costs: finding values, and one Gaussian release of all marginals and the rows a person has."""
        if self.recipe is not None:
            return self.recipe.loss
        parts = [selection.loss for _, selection in self.discover]
        return Together(*parts, GaussianNoise(self.multiplier)) if parts else GaussianNoise(self.multiplier)

    def verify(self, catalog: Catalog) -> Loss:
        """The loss, from the noise on each count and what one unit moves; table and columns must be the catalog's.

        Guarantee: `run` costs this. Proof. Encoding is row by row, and a unit has at most `rows_each` rows, the same
        whatever the other units are (`curator.contribution_draw`). Finding the values of a column costs its selection:
        a unit has one of them at most (`_discovered`). Given the values, fine counts (`fine_counts.sigma_of`), the
        marginals in bins that follow from these (`Design.loss`), and where a person has several rows, how many they
        have, cost at most one Gaussian release of `multiplier`: their squared shifts, in units of the noise, add up to
        at most 1/multiplier². A recipe costs its own loss (`Recipe.loss`). How many rows are left out costs nothing
        more (`Design.sigma_left_out`); such rows take no part in what a recipe picks.
        """
        require_same(self.table, self.columns, self.neighbors, catalog)
        if any(selection.keys != 1 for _, selection in self.discover):
            raise InternalError("a plan finds values for more or fewer than the one that a unit has")
        if self.recipe is not None:
            terms = (self.recipe.first.sizes, self.recipe.first.neighbors, self.recipe.first.rows_per_unit)
            if terms != (self.schema({}).sizes, self.neighbors, self.rows_each):
                raise InternalError("a recipe was made for another table than its plan's")
            return recipe_loss(self.recipe)
        shift = design_shift(self.design(self.guessed()), self.neighbors, self.rows_each)
        if self.rows_each > 1:
            shift += self.rows_each / self.sigma_of_rows**2
        if cells := self.fine(self.guessed()):
            shift += fine_shift(cells.values(), self.sigma_of_fine(self.guessed()), self.neighbors, self.rows_each)
        measured = gaussian_within(self.multiplier, shift)
        results = [Approximate(selection.epsilon, selection.delta) for _, selection in self.discover]
        return Together(*results, measured) if results else measured

    def run(self, engine: Engine, entropy: Entropy | None) -> bytes:
        """Read the rows, and give out noisy marginals. No value of a row makes this fail."""
        several = self.rows_each > 1
        dialect = dialect_of(engine.dialect)
        rows = engine.fetch(rows_each(self.table, self.columns, dialect, most=self.rows_each, numbered=several))
        results = {name: _discovered(rows.column(name), selection, entropy) for name, selection in self.discover}
        fine = self._fine(rows, self.schema(results), entropy)
        schema = self.schema(results, fine)
        codes = schema.codes_of(rows.select([column.name for column in self.columns]))
        head: dict[str, Any] = {"found": results, "fine": fine}
        measured = self._measured(codes[(codes >= 0).all(axis=1)], schema, entropy)
        first = self.design(schema) if self.recipe is None else self.recipe.first
        reasons = schema.reasons(codes)
        head["left_out"] = count_left_out(reasons, len(schema.strict), first, entropy=entropy)
        if several:
            head["rows_a_person"] = self._rows_a_person(np.asarray(rows.column(len(self.columns))), entropy).tolist()
        words = json.dumps(head).encode()
        return len(words).to_bytes(8, "big") + words + packed(measured)

    def _fine(self, rows: Any, schema: Schema, entropy: Entropy | None) -> dict[str, list[Level]]:
        """Noisy: where the values of wide columns lie."""
        attributes = {attribute.column.name: attribute for attribute in schema.attributes}
        wanted = self.fine(schema)
        sigma = self.sigma_of_fine(schema) if wanted else Fraction(1)
        return {
            name: count(attributes[name].positions(rows.column(name)), cells, sigma, entropy=entropy)
            for name, cells in wanted.items()
        }

    def _measured(self, codes: Codes, schema: Schema, entropy: Entropy | None) -> tuple[Measurement, ...]:
        if self.recipe is None:
            return measure(codes, self.design(schema), entropy=entropy)

        def fitted(known: Sequence[Measurement]) -> Any:
            return fit(schema.sizes, known, settings=self.settings)

        return choose(codes, self.recipe, fitted, entropy=entropy)

    def _rows_a_person(self, numbers: Codes, entropy: Entropy | None) -> Codes:
        """Noisy: how many people have at least n rows, n = 1 … most.

        Guarantee: a Gaussian release of multiplier `share_of(multiplier, KEYS)`. Proof. A person adds 1 to as many of
        these counts as they have rows: an ℓ2 norm of at most √most, for either neighbors (a changed person raises or
        lowers some of them).
        """
        exact = np.bincount(numbers.astype(np.int64), minlength=self.rows_each + 1)[1 : self.rows_each + 1]
        noise = np.asarray(rounded_gaussian(self.sigma_of_rows, exact.shape, entropy=entropy))
        return np.asarray(exact + noise, np.int64)

    @property
    def sigma_of_rows(self) -> Fraction:
        """The noise on each number of people with at least so many rows."""
        return share_of(self.multiplier, KEYS) * root_up(self.rows_each)

    def finish(self, released: bytes, receipt: Receipt, engine: Engine) -> SyntheticTable:
        """The table, fitted to the noisy marginals and drawn with randomness that follows from them."""
        size = int.from_bytes(released[:8], "big")
        head, measured = json.loads(released[8 : 8 + size]), unpacked(released[8 + size :])
        return SyntheticTable(self, measured, head, receipt, hashlib.sha256(released).digest())

    def memory(self) -> int:
        """Bytes that fitting needs at most, however many rows and values there turn out to be.

        Reading and drawing rows need more: `needs`.
        """
        schema = self.guessed(MOST_FOUND)
        soft = self.settings.rows or soft_rows(10**9, schema.sizes)
        return memory_needed(schema.sizes, self._marginals(schema), rows=soft)

    def _marginals(self, schema: Schema) -> list[Attributes]:
        """All that may be measured."""
        if self.recipe is None:
            return list(self.design(schema).marginals)
        picked = [each for turn in self.recipe.rounds for each in _largest(turn.candidates, schema, turn.picks)]
        return [*self.recipe.first.marginals, *picked]

    def needs(self) -> Needs:
        """About what the whole takes; `people` says for how many rows."""
        schema, fits = self.guessed(), 1 if self.recipe is None else 1 + len(self.recipe.rounds)
        return needs(
            schema.sizes,
            self._marginals(schema),
            self.settings,
            people=self.people,
            rows_each=self.rows_each,
            fits=fits,
        )

    def explain(self) -> str:
        """What it would cost and do, in words."""
        return in_words(self._told(self.guessed(), None, self.needs().words(self.people)))

    def told(self, found: dict[str, list[str]]) -> str:
        """How a table was made, in words: with the values that were found, without what it was expected to take."""
        return in_words(self._told(self.schema(found), found, {}))

    def _told(self, schema: Schema, found: dict[str, list[str]] | None, needs: dict[str, str]) -> dict[str, str]:
        made = self.design(schema) if self.recipe is None else self.recipe.first
        guess = f", were {_SOME} values found" if self.discover and found is None else ""
        lines = {
            "task": self.text,
            "protects": self._protects(),
            "cost": f"ε {text_up(self.epsilon)} at δ {text_up(self.delta, 3)}",
            "columns": ", ".join(f"{each.column.name} ({self._size(each, found)})" for each in schema.attributes),
            "measured": f"{len(made.marginals)} marginals, noise of {float(min(made.sigmas)):.3g} to "
            f"{float(max(made.sigmas)):.3g} rows on each count{guess}",
            "useful": f"for more than about {ceil(made.noise_alone(1)):,} rows; with fewer, the result is mostly noise",
            **needs,
        }
        own = self.private_bins(schema)
        wide = [
            attribute.column.name
            for attribute in schema.attributes
            if attribute.wide and attribute.column.name not in dict(self.bins)
        ]
        lines |= bins_in_words(own, [name for name in wide if name not in own], fine=bool(self.fine(schema)))
        if self.recipe is not None:
            picks = sum(turn.picks for turn in self.recipe.rounds)
            lines["then"] = f"{picks} triples, chosen privately in {len(self.recipe.rounds)} rounds"
        if self.people is not None:
            lines["noise alone"] = f"{made.noise_alone(self.people):.3g} of total variation in a pair, before fitting"
        if self.target is not None:
            lines["target"] = f"{self.target}: small triples with it are measured too"
        if self.rules:
            lines["rules"] = rules_in_words(self.rules)
        return lines

    def _size(self, attribute: Attribute, found: dict[str, list[str]] | None) -> str:
        """How many codes a column has; of one whose values are found, how many were."""
        if attribute.column.name not in dict(self.discover):
            return str(attribute.size)
        if found is None:
            return "found privately"
        many = len(found[attribute.column.name])
        more = f", of more than {MOST_FOUND:,} the first in alphabetical order" * (many >= MOST_FOUND)
        return f"{many} found privately{more}"

    def _protects(self) -> str:
        unit = self.table.unit
        if unit is None or unit.key is None:
            return str(unit)
        used = (
            "one of their rows is used" if self.rows_each == 1 else f"at most {self.rows_each} of their rows are used"
        )
        return f"{unit}; {used}"


def _discovered(values: Any, selection: OptimalSelection, entropy: Entropy | None) -> list[str]:
    """The values of a column that enough units have, in alphabetical order.

    Guarantee: costs `selection.loss`, since each unit has one row here, and so one value.
    """
    from pyarrow import compute

    counted = compute.value_counts(values.combine_chunks().drop_null())
    names, many = counted.field("values").to_pylist(), np.asarray(counted.field("counts"), np.int64)
    kept = selection.release(many, entropy=entropy) if len(names) else np.zeros(0, np.bool_)
    return sorted(name for name, stays in zip(names, kept, strict=True) if stays)[:MOST_FOUND]


def in_words(lines: Mapping[str, str]) -> str:
    """Names and what is said of each, a line for each."""
    width = max(map(len, lines))
    return "\n".join(f"{name:<{width}}  {value}" for name, value in lines.items())


def bins_in_words(private: Sequence[str], even: Sequence[str], *, fine: bool) -> dict[str, str]:
    """Which bins nobody declared, and what they and fine counts cost, in words."""
    told = {}
    if private:
        told["bins"] = f"chosen privately, with about equally many rows in each: {', '.join(private)}"
    if even:
        more = f"equally wide by default: {', '.join(even)}; state bins if values are concentrated"
        told["bins"] = f"{told['bins']}; {more}" if private else more
    if fine:
        told["inside bins"] = f"values are drawn from fine noisy counts, which take {plain(100 * FINE)} % of the budget"
    return told


def _largest(candidates: Sequence[Attributes], schema: Schema, many: int) -> list[Attributes]:
    return sorted(candidates, key=lambda each: -cells(each, schema.sizes))[:many]


documented("attribute", omit={"density": None, "thin": ()})(Attribute)
documented("schema")(Schema)
documented("key selection", names={"keys": "keys_per_unit"})(OptimalSelection)
documented("marginals")(Design)
documented("round of picks")(Round)
documented("adaptive marginals")(Recipe)
documented("relaxed fit", omit={"memory": 10**9})(Settings)
