"""Graphical-model inference by `mbi` (McKenna, Sheldon, Miklau 2019), behind the extra "graphical".

It takes the same measurements as `relaxed.fit`. A graphical model cannot hold every pair, so marginals enter it in the
order in which they differ from independent columns by more than their noise explains, as long as its junction tree
stays within a size. Nothing here reads private rows.
"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import MissingExtra
from discreet.exact import integer
from discreet.noise.entropy import SYSTEM, Entropy
from discreet.synthetic.fit.relaxed import column_shares, fitting
from discreet.synthetic.fit.row_sampling import spread
from discreet.synthetic.measure.noisy_marginals import Attributes, Measurement, checked_sizes, total

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class GraphicalTable:
    """A Markov random field fitted by `mbi`."""

    sizes: tuple[int, ...]
    total: float
    used: tuple[Attributes, ...]
    field: Any

    def marginal(self, attributes: Attributes) -> Floats:
        """The counts expected in each cell; they add up to `total`."""
        result = self.field.project(tuple(map(str, attributes))).datavector(flatten=False)
        return np.asarray(result, np.float64)

    def draw(self, *, rows: int | None = None, entropy: Entropy | None = None) -> Codes:
        """Rows of codes, column by column, each given those before it that its cliques hold."""
        count = integer(round(self.total) if rows is None else rows, "rows", at_least=1, at_most=10**8)
        source = SYSTEM if entropy is None else entropy
        codes = np.zeros((count, len(self.sizes)), np.int64)
        mbi = _mbi()
        tree, order = mbi.junction_tree.make_junction_tree(self.field.domain, self.field.cliques)
        beliefs = mbi.marginal_oracles.message_passing_stable(
            self.field.potentials.expand(list(tree.nodes)), self.total
        )
        cliques, done = [{int(attribute) for attribute in clique} for clique in tree.nodes], set[int]()
        for column in (int(name) for name in reversed(order)):
            near = sorted(done & set[int]().union(*(clique for clique in cliques if column in clique)))
            codes[:, column] = self._given(beliefs, codes, near, column, source)
            done.add(column)
        return codes

    def _given(self, beliefs: Any, codes: Codes, near: list[int], column: int, entropy: Entropy) -> Codes:
        """One column, given the columns near it that are drawn already."""
        shape = [self.sizes[attribute] for attribute in near]
        joint = beliefs.project(tuple(map(str, (*near, column)))).datavector(flatten=False)
        shares = np.maximum(np.asarray(joint, np.float64).reshape(math.prod(shape), -1), 1e-30)
        member = np.ravel_multi_index(tuple(codes[:, near].T), shape) if near else np.zeros(len(codes), np.int64)
        kept, groups = np.unique(member, return_inverse=True)
        return spread(shares[kept], groups, entropy)


def fit(
    sizes: Sequence[int], measurements: Sequence[Measurement], *, memory: int = 8_000_000, iterations: int = 1000
) -> GraphicalTable:
    """The Markov random field of largest entropy that fits the measurements that it can hold within `memory` bytes."""
    exact = checked_sizes(sizes)
    people = total(fitting(measurements, exact))
    limit = integer(memory, "memory", at_least=1)
    mbi = _mbi()
    domain = mbi.Domain([str(attribute) for attribute in range(len(exact))], exact)
    used = _within(mbi, domain, exact, measurements, people, limit)
    taken = [
        mbi.LinearMeasurement(
            measurement.counts.ravel().astype(np.float32),
            tuple(map(str, measurement.attributes)),
            stddev=measurement.sigma,
        )
        for measurement in measurements
        if measurement.attributes in used
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        steps = integer(iterations, "iterations", at_least=1, at_most=10**6)
        field = mbi.estimation.MirrorDescent().estimate(domain, taken, known_total=people, iters=steps)
    return GraphicalTable(exact, people, tuple(used), field)


def _within(
    mbi: ModuleType,
    domain: Any,
    sizes: tuple[int, ...],
    measurements: Sequence[Measurement],
    people: float,
    memory: int,
) -> list[Attributes]:
    """Single columns, then wider marginals by what they add, as long as the junction tree stays small."""
    columns = column_shares(sizes, measurements, (), people)
    used: list[Attributes] = [
        measurement.attributes for measurement in measurements if len(measurement.attributes) == 1
    ]
    wide = [measurement for measurement in measurements if len(measurement.attributes) > 1]
    for measurement in sorted(wide, key=lambda each: -_beyond(each, columns, people)):
        if measurement.attributes in used or _beyond(measurement, columns, people) <= 0:
            continue
        named = [tuple(map(str, each)) for each in (*used, measurement.attributes)]
        if mbi.junction_tree.hypothetical_model_size(domain, named) * 2**20 <= memory:
            used.append(measurement.attributes)
    return used


def _beyond(measurement: Measurement, columns: list[Floats], people: float) -> float:
    """By how much a noisy marginal differs from independent columns, less what noise explains: Σ|gap| − Σ E|noise|."""
    expected = np.asarray(people)
    for attribute in measurement.attributes:
        expected = np.multiply.outer(expected, columns[attribute])
    noise = math.sqrt(2 / math.pi) * measurement.sigma * measurement.counts.size
    return float(np.abs(measurement.counts - expected).sum() - noise)


def _mbi() -> ModuleType:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the precision of JAX, which suffices here
            for part in ("mbi.estimation", "mbi.junction_tree", "mbi.marginal_oracles"):
                import_module(part)
            return import_module("mbi")
    except ImportError as error:
        raise MissingExtra("mbi", "graphical") from error
