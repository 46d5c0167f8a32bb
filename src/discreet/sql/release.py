"""A bounded aggregate with the mechanisms that release it: what is read, and the noise that is added, side by side."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.curator.engines import Engine
from discreet.errors import InternalError
from discreet.mechanisms.additive import Geometric
from discreet.mechanisms.gaussian import RoundedGaussian
from discreet.mechanisms.partitions import OptimalSelection
from discreet.noise import Entropy
from discreet.privacy.loss import Loss
from discreet.privacy.unit import Neighbors
from discreet.sql import domains, duckdb, sensitivity
from discreet.sql.algebra import Aggregate, Group
from discreet.sql.columns import column, numbers, truths
from discreet.sql.draft import Derived

if TYPE_CHECKING:
    import pyarrow

Noise = Geometric | RoundedGaussian


@dataclass(frozen=True, slots=True)
class Release:
    """The measures of an aggregate, each with its noise, and how its groups are named.

    `selection` is there exactly where keys come from the data. `derived` says which numbers the analyst gets.
    """

    aggregate: Aggregate
    noises: tuple[Noise, ...]
    selection: OptimalSelection | None
    derived: tuple[Derived, ...]

    @property
    def group(self) -> Group:
        """What is grouped, and by what."""
        return self.aggregate.source.source

    def losses(self, neighbors: Neighbors) -> list[Loss]:
        """What it costs, derived again from the aggregate; `InternalError` where the noise does not fit it.

        Guarantee: for datasets that are neighbors in this sense, the released measures and names of groups are
        together as private as these losses say. Proof. Each measure is a vector of whole numbers, whose sensitivity
        `sensitivity.of` proves; its mechanism was made for at least that. Names come from the catalog alone, or are
        selected by the number of units, which one unit changes by one in at most `sensitivity.keys` groups; which
        measures are shown depends on the selected names only, and is post-processing.
        """
        bound, group = self.aggregate.source, self.group
        if (group.size is None) != (self.selection is not None):
            raise InternalError("a plan names groups from the data without selecting them privately")
        if len(self.noises) != len(self.aggregate.measures):
            raise InternalError("a plan has a measure without noise")
        for measure, noise in zip(self.aggregate.measures, self.noises, strict=True):
            _check_noise(noise, sensitivity.of(measure, bound, neighbors))
        costs = [noise.loss for noise in self.noises]
        if self.selection is not None:
            if self.selection.keys < sensitivity.keys(bound, neighbors):
                raise InternalError("a plan selects groups for fewer keys than one unit can change")
            costs.append(self.selection.loss)
        return costs

    def run(self, engine: Engine, entropy: Entropy | None) -> "pyarrow.Table":
        """Read private rows and release: noisy measures m0, m1, … and, where they were selected, keys k0, k1, …"""
        if engine.dialect != "duckdb":
            raise InternalError(f"no SQL is written for engines that speak {engine.dialect!r}")
        exact = engine.fetch(duckdb.write(self.aggregate))
        return self._selected(exact, entropy) if self.selection is not None else self._declared(exact, entropy)

    def _declared(self, exact: "pyarrow.Table", entropy: Entropy | None) -> "pyarrow.Table":
        """All groups of the declared domain, those that are absent from the data too."""
        import pyarrow as pa

        places, inside = domains.places(self.group, exact)
        columns = {}
        for i, noise in enumerate(self.noises):
            counts = np.zeros(self.group.size or 1, np.int64)
            counts[places] = _whole(exact, f"m{i}")[inside]
            columns[f"m{i}"] = column(np.asarray(noise.release(counts, entropy=entropy)))
        return pa.table(columns)

    def _selected(self, exact: "pyarrow.Table", entropy: Entropy | None) -> "pyarrow.Table":
        """The groups that were selected privately, in the order of their keys, so that no order tells of the data."""
        import pyarrow as pa

        if self.selection is None:
            raise InternalError("groups were to be selected without a mechanism")
        kept = self.selection.release(_whole(exact, "units"), entropy=entropy)
        names = [f"k{i}" for i in range(len(self.group.keys))]
        shown = exact.filter(truths(kept)).sort_by([(name, "ascending") for name in names])
        columns: dict[str, Any] = {name: shown.column(name) for name in names}
        for i, noise in enumerate(self.noises):
            columns[f"m{i}"] = column(np.asarray(noise.release(_whole(shown, f"m{i}"), entropy=entropy)))
        return pa.table(columns)


def _check_noise(noise: Noise, needed: sensitivity.Sensitivity) -> None:
    match noise:
        case Geometric():
            enough = noise.sensitivity >= needed.l1
        case RoundedGaussian():
            enough = noise.squared_sensitivity >= needed.l2_squared
    if not enough:
        raise InternalError("a plan adds noise for a smaller sensitivity than its measure has")


def _whole(table: "pyarrow.Table", name: str) -> NDArray[np.int64]:
    """A column of whole numbers; an engine that gives anything else is refused."""
    found = table.column(name)
    if str(found.type) != "int64" or found.null_count:
        raise InternalError(f"the engine gave {found.type} for {name}, expected whole numbers without nulls")
    return np.asarray(numbers(found))
