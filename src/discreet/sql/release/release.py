"""A bounded aggregate with the mechanisms that release it: what is read, and the noise that is added, side by side."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.curator.engines import Engine
from discreet.curator.engines.dialects import Dialect, dialect_of
from discreet.errors import InternalError
from discreet.mechanisms.additive import Geometric
from discreet.mechanisms.gaussian import RoundedGaussian
from discreet.mechanisms.mechanism import Grid
from discreet.mechanisms.partitions import OptimalSelection
from discreet.mechanisms.quantile import GroupedQuantile, Multisets
from discreet.mechanisms.selection import GroupedMode
from discreet.noise import Entropy
from discreet.privacy.loss import Loss
from discreet.privacy.unit import Neighbors
from discreet.sql.algebra.expression import Domain
from discreet.sql.algebra.kinds import MOST, Day, Fixed, Kind, Moment, Text, Truth
from discreet.sql.algebra.relations import (
    Aggregate,
    Distinct,
    Distribution,
    Frequencies,
    Group,
    Key,
    Sensitivity,
    keys_changed,
    rank_sensitivity,
    sensitivity_of,
    tally_sensitivity,
)
from discreet.sql.algebra.rows import unit_of
from discreet.sql.algebra.rules import Derived
from discreet.sql.release import private_sql

if TYPE_CHECKING:
    import pyarrow


Noise = Geometric | RoundedGaussian


@dataclass(frozen=True, slots=True)
class Choice:
    """A quantile of one of the distributions of an aggregate, in every group."""

    distribution: int
    mechanism: GroupedQuantile


@dataclass(frozen=True, slots=True)
class Tally:
    """A histogram of one of the distributions, in every group: how many values are up to each edge, and above all."""

    distribution: int
    edges: tuple[int, ...]
    noise: Geometric

    def counts(self, values: Multisets, lower: int, entropy: Entropy | None) -> NDArray[np.int64]:
        """The noisy counts, one row a group and one column a bin; values are in steps from the lower bound."""
        bins = np.searchsorted(np.array(self.edges, np.int64), values.values + lower, side="left")
        exact = np.zeros((values.size, len(self.edges) + 1), np.int64)
        np.add.at(exact, (values.groups, bins), values.counts)
        return np.asarray(self.noise.release(exact.ravel(), entropy=entropy)).reshape(exact.shape)


@dataclass(frozen=True, slots=True)
class Top:
    """The most frequent values of one of the frequencies of an aggregate, in every group."""

    distribution: int
    mechanism: GroupedMode


@dataclass(frozen=True, slots=True)
class Release:
    """The measures of an aggregate, each with its noise, and how its groups are named.

    `selection` is there exactly where keys come from the data. `derived` says which numbers the analyst gets. `choices`
    are the quantiles that are chosen from distributions, `tallies` the histograms of them, `tops` frequent values.
    """

    aggregate: Aggregate
    noises: tuple[Noise, ...]
    selection: OptimalSelection | None
    derived: tuple[Derived, ...]
    choices: tuple[Choice, ...] = ()
    tallies: tuple[Tally, ...] = ()
    tops: tuple[Top, ...] = ()
    _written: dict[str, str] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def group(self) -> Group:
        """What is grouped, and by what."""
        return self.aggregate.source.source

    def losses(self, neighbors: Neighbors) -> list[Loss]:
        """What it costs, derived again from the aggregate; `InternalError` where the noise does not fit it.

        Guarantee: for datasets that are neighbors in this sense, the released measures and names of groups are
        together as private as these losses say. Proof. Each measure is a vector of whole numbers, whose sensitivity
        `sensitivity_of` proves; its mechanism was made for that. Quantiles are chosen in all groups with a mechanism
        for the `rank_sensitivity` of their distribution, frequent values for the `tally_sensitivity`. Names come from
        the catalog alone, or are selected by the number of units, which one unit changes by one in at most
        `keys_changed` groups; which measures and quantiles are shown depends on the selected names only, and is
        post-processing.
        """
        bound, group = self.aggregate.source, self.group
        if (group.size is None) != (self.selection is not None):
            raise InternalError("a plan names groups from the data without selecting them privately")
        if len(self.noises) != len(self.aggregate.measures):
            raise InternalError("a plan has a measure without noise")
        for measure, noise in zip(self.aggregate.measures, self.noises, strict=True):
            _check_noise(noise, sensitivity_of(measure, bound, neighbors))
        costs: list[Loss] = [noise.loss for noise in self.noises]
        for tally in self.tallies:
            _check_tally(tally, self.aggregate, neighbors)
            costs.append(tally.noise.loss)
        costs += [_checked_choice(choice, self.aggregate, neighbors).loss for choice in self.choices]
        costs += [_checked_top(top, self.aggregate, neighbors).loss for top in self.tops]
        if self.selection is not None:
            if self.selection.keys != keys_changed(bound, neighbors):
                raise InternalError("a plan selects groups for other keys than one unit can change")
            costs.append(self.selection.loss)
        return costs

    def run(self, engine: Engine, entropy: Entropy | None) -> "pyarrow.Table":
        """Read private rows and release: noisy measures m0, m1, … and, where they were selected, keys k0, k1, …

        Quantiles are columns q0, q1, …, in steps from the lower bound of their value; t0_0, t0_1, … are the most
        frequent values, by their number among those declared.
        """
        dialect = dialect_of(engine.dialect)
        if dialect.name not in self._written:
            self._written[dialect.name] = private_sql.write(self.aggregate, dialect)
        exact = self._with_distinct(engine.fetch(self._written[dialect.name]), engine)
        table = self._selected(exact, entropy) if self.selection is not None else self._declared(exact, entropy)
        for index, distribution in enumerate(self.aggregate.distributions):
            from discreet.sql.release.private_sql import write_values

            values = engine.fetch(write_values(self.aggregate, index, dialect))
            if isinstance(distribution, Frequencies):
                numbered = self._ranked(values, table, 0)
                for place, top in enumerate(self.tops):
                    if top.distribution == index:
                        for which, codes in enumerate(top.mechanism.release(numbered, entropy=entropy).T):
                            table = table.append_column(f"t{place}_{which}", arrow_column(codes))
                continue
            ranked = self._ranked(values, table, distribution.kind.lower or 0)
            for place, tally in enumerate(self.tallies):
                if tally.distribution == index:
                    for bin_, counts in enumerate(tally.counts(ranked, distribution.kind.lower or 0, entropy).T):
                        table = table.append_column(f"h{place}_{bin_}", arrow_column(counts))
            for place, choice in enumerate(self.choices):
                if choice.distribution == index:
                    chosen = choice.mechanism.release(ranked, entropy=entropy)
                    table = table.append_column(f"q{place}", arrow_column(chosen))
        return table

    def statements(self, dialect: Dialect) -> list[str]:
        """The SQL that `run` would fetch; `InvalidQuery` where an engine of this dialect computes it otherwise."""
        from discreet.sql.release.private_sql import write_distinct, write_values

        written = [private_sql.write(self.aggregate, dialect)]
        if unit_of(self.group.source).key is not None:
            measures = enumerate(self.aggregate.measures)
            written += [
                write_distinct(self.aggregate, i, dialect) for i, part in measures if isinstance(part, Distinct)
            ]
        return written + [write_values(self.aggregate, i, dialect) for i in range(len(self.aggregate.distributions))]

    def _with_distinct(self, exact: "pyarrow.Table", engine: Engine) -> "pyarrow.Table":
        """The exact measures, with numbers of different values, which are counted apart where a unit is a person."""
        if unit_of(self.group.source).key is None:
            return exact
        names = [name for name in exact.column_names if name == "g" or name.startswith("k")]
        for index, measure in enumerate(self.aggregate.measures):
            if isinstance(measure, Distinct):
                from discreet.sql.release.private_sql import write_distinct

                result = engine.fetch(write_distinct(self.aggregate, index, dialect_of(engine.dialect)))
                places = np.zeros(result.num_rows, np.int64)
                if names:
                    places = _matched([result.column(name) for name in names], [exact.column(name) for name in names])
                counts = np.zeros(exact.num_rows, np.int64)
                counts[places[places >= 0]] = _whole_numbers(result, "c")[places >= 0]
                column = exact.column_names.index(f"m{index}")
                exact = exact.set_column(column, f"m{index}", arrow_column(counts))
        return exact

    def _ranked(self, values: "pyarrow.Table", shown: "pyarrow.Table", lower: int) -> Multisets:
        """The values of each group that is shown, in steps from the lower bound."""
        steps, counts = _whole_numbers(values, "v") - lower, _whole_numbers(values, "c")
        if self.selection is None:
            return Multisets(self._indices(values), steps, counts, self.group.size or 1)
        keys = [f"k{i}" for i in range(len(self.group.keys))]
        result = _matched([values.column(key) for key in keys], [shown.column(key) for key in keys])
        inside = result >= 0
        return Multisets(result[inside], steps[inside], counts[inside], shown.num_rows)

    def _indices(self, found: "pyarrow.Table") -> NDArray[np.int64]:
        """Where each row that an engine found belongs among the declared groups; with no key, there is one group."""
        indices = _whole_numbers(found, "g") if self.group.keys else np.zeros(found.num_rows, np.int64)
        if indices.min(initial=0) < 0 or indices.max(initial=0) >= (self.group.size or 1):
            raise InternalError("the engine gave a group that was not declared")
        return indices

    def _declared(self, exact: "pyarrow.Table", entropy: Entropy | None) -> "pyarrow.Table":
        """All groups of the declared domain, those that are absent from the data too."""
        import pyarrow as pa

        indices = self._indices(exact)
        size = self.group.size or 1
        columns = {} if self.noises else {"groups": arrow_column(np.arange(size))}
        for i, noise in enumerate(self.noises):
            counts = np.zeros(size, np.int64)
            counts[indices] = _whole_numbers(exact, f"m{i}")
            columns[f"m{i}"] = arrow_column(np.asarray(noise.release(counts, entropy=entropy)))
        return pa.table(columns)

    def _selected(self, exact: "pyarrow.Table", entropy: Entropy | None) -> "pyarrow.Table":
        """The groups that were selected privately, in the order of their keys, so that no order tells of the data."""
        import pyarrow as pa

        if self.selection is None:
            raise InternalError("groups were to be selected without a mechanism")
        kept = self.selection.release(_whole_numbers(exact, "units"), entropy=entropy)
        names = [f"k{i}" for i in range(len(self.group.keys))]
        shown = exact.filter(arrow_booleans(kept)).sort_by([(name, "ascending") for name in names])
        columns: dict[str, Any] = {name: shown.column(name) for name in names}
        for i, noise in enumerate(self.noises):
            columns[f"m{i}"] = arrow_column(np.asarray(noise.release(_whole_numbers(shown, f"m{i}"), entropy=entropy)))
        return pa.table(columns)


def _check_tally(tally: Tally, aggregate: Aggregate, neighbors: Neighbors) -> None:
    known = 0 <= tally.distribution < len(aggregate.distributions)
    of = aggregate.distributions[tally.distribution] if known else None
    if not isinstance(of, Distribution) or of.keep != "even":
        raise InternalError("a plan counts values that it does not read")
    if list(tally.edges) != sorted(set(tally.edges)):
        raise InternalError("a plan counts values between edges that do not rise")
    if tally.noise.sensitivity != tally_sensitivity(aggregate.source, neighbors):
        raise InternalError("a plan counts values with noise for another sensitivity than bins have")


def _checked_choice(choice: Choice, aggregate: Aggregate, neighbors: Neighbors) -> GroupedQuantile:
    if not 0 <= choice.distribution < len(aggregate.distributions):
        raise InternalError("a plan chooses from values that it does not read")
    distribution, mechanism = aggregate.distributions[choice.distribution], choice.mechanism
    if not isinstance(distribution, Distribution) or mechanism.points != distribution.points:
        raise InternalError("a plan chooses from another range than its value has")
    if mechanism.sensitivity != rank_sensitivity(distribution, mechanism.probability, aggregate.source, neighbors):
        raise InternalError("a plan chooses quantiles for another sensitivity than ranks have")
    return mechanism


def _checked_top(top: Top, aggregate: Aggregate, neighbors: Neighbors) -> GroupedMode:
    known = 0 <= top.distribution < len(aggregate.distributions)
    of = aggregate.distributions[top.distribution] if known else None
    if not isinstance(of, Frequencies) or top.mechanism.points != of.points:
        raise InternalError("a plan chooses among other values than are declared")
    if top.mechanism.sensitivity != tally_sensitivity(aggregate.source, neighbors):
        raise InternalError("a plan chooses frequent values for another sensitivity than counts have")
    return top.mechanism


def _matched(keys: "list[pyarrow.ChunkedArray]", among: "list[pyarrow.ChunkedArray]") -> NDArray[np.int64]:
    """The place of each combination of keys among others that are distinct; −1 where it is not among them.

    >>> import pyarrow as pa
    >>> _matched([pa.chunked_array([["a", None, "b", "a"]])], [pa.chunked_array([["b", "a"]])]).tolist()
    [1, -1, 0, 1]
    """
    import pyarrow as pa

    size, codes = len(keys[0]), np.zeros(len(keys[0]) + len(among[0]), np.int64)
    for key, other in zip(keys, among, strict=True):
        encoded = in_one_piece(pa.chunked_array([*key.chunks, *other.chunks], key.type)).dictionary_encode("encode")
        digits = np.asarray(encoded.indices.to_numpy(zero_copy_only=False), np.int64)
        _, codes = np.unique(codes * max(1, len(encoded.dictionary)) + digits, return_inverse=True)
    places = np.full(int(codes.max(initial=0)) + 1, -1, np.int64)
    places[codes[size:]] = np.arange(len(among[0]))
    return np.asarray(places[codes[:size]])


def _check_noise(noise: Noise, needed: Sensitivity) -> None:
    match noise:
        case Geometric():
            fits = noise.sensitivity == needed.l1
        case RoundedGaussian():
            fits = noise.squared_sensitivity == needed.l2_squared
    if not fits:
        raise InternalError("a plan adds noise for another sensitivity than its measure has")


def _whole_numbers(table: "pyarrow.Table", name: str) -> NDArray[np.int64]:
    """A column of whole numbers; an engine that gives anything else is refused."""
    result = table.column(name)
    if str(result.type) != "int64" or result.null_count:
        raise InternalError(f"the engine gave {result.type} for {name}, expected whole numbers without nulls")
    return np.asarray(numbers_of(result))


Indices = NDArray[np.int64]


def group_names(group: Group) -> "list[pyarrow.Array]":
    """The keys of all groups, one array a key, in the order of `private_sql.group_number`."""
    total, after = group.size or 1, 1
    arrays = []
    for key in reversed(group.keys):
        size = key.size or 1
        digits = (np.arange(total) // after) % size
        arrays.append(_key_values(key).take(arrow_column(digits)))
        after *= size
    return arrays[::-1]


def value_names(frequencies: Frequencies, numbers: Indices) -> "pyarrow.Array":
    """Declared values by their number, as the analyst sees them."""
    value = frequencies.value
    return _domain_values(frequencies.domain, value.kind).take(arrow_column(numbers))


def shown_keys(key: Key, steps: "pyarrow.ChunkedArray") -> Any:
    """Keys that an engine gave, as the analyst sees them: numbers of steps become numbers."""
    if not isinstance(key.value.kind, Fixed) or key.value.kind.step == 1:
        return steps
    absent = nulls_of(steps)
    whole = np.where(absent, 0, numbers_of(steps))
    return arrow_column(_key_numbers(key.value.kind, whole), absent)


def arrow_type(kind: Kind) -> Any:
    """The Arrow type of an expression as the analyst sees it."""
    import pyarrow as pa

    match kind:
        case Fixed():
            return pa.int64() if _is_whole(kind) else pa.float64()
        case Truth():
            return pa.bool_()
        case Text():
            return pa.string()
        case Day():
            return pa.date32()
        case Moment():
            return pa.timestamp("us")
        case _:
            raise InternalError(f"a key of kind {kind} was planned")


def _key_values(key: Key) -> "pyarrow.Array":
    """The values of a key as the analyst sees them, null last where it can be null."""
    import pyarrow as pa

    if key.domain is None:
        raise InternalError("a declared domain was expected")
    listed = _domain_values(key.domain, key.value.kind)
    return pa.concat_arrays([listed, pa.nulls(1, listed.type)]) if key.value.nullable else listed


def _domain_values(domain: Domain, kind: Kind) -> "pyarrow.Array":
    if isinstance(kind, Fixed):
        return arrow_column(_key_numbers(kind, _steps(domain)))
    return arrow_list(domain, arrow_type(kind))


def _steps(domain: Domain) -> Indices:
    return np.arange(domain.start, domain.stop) if isinstance(domain, range) else np.array(domain, np.int64)


def _is_whole(kind: Fixed) -> bool:
    """Whether its numbers are whole, and fit 64 bits."""
    if kind.step == 1:
        return True
    ends = (kind.lower, kind.upper)
    return kind.step.denominator == 1 and all(end is not None and abs(end * kind.step) < MOST for end in ends)


def _key_numbers(kind: Fixed, steps: Indices) -> Any:
    return steps * kind.step.numerator if _is_whole(kind) else Grid(kind.step).floats(steps)


_TYPES = {"int64": np.int64, "double": np.float64}


def arrow_column(
    numbers: NDArray[np.int64] | NDArray[np.float64], missing: NDArray[np.bool_] | None = None
) -> "pyarrow.Array":
    """An Arrow array of these numbers, null where they are missing.

    >>> arrow_column(np.array([1, 2, 3]), np.array([False, True, False])).to_pylist()
    [1, None, 3]
    """
    import pyarrow as pa

    real = numbers.dtype.kind == "f"
    data = np.ascontiguousarray(numbers, np.float64 if real else np.int64)
    present = None if missing is None or not missing.any() else _bits(~missing)
    return pa.Array.from_buffers(pa.float64() if real else pa.int64(), len(data), [present, pa.py_buffer(data)])


def arrow_list(values: Sequence[Any], kind: "pyarrow.DataType") -> "pyarrow.Array":
    """An Arrow array of values that are all there: texts, truth values, dates, times or whole numbers.

    >>> import pyarrow as pa
    >>> arrow_list(["ä", ""], pa.string()).to_pylist(), arrow_list([date(1970, 1, 2)], pa.date32()).to_pylist()
    (['ä', ''], [datetime.date(1970, 1, 2)])
    """
    import pyarrow as pa

    if pa.types.is_string(kind):
        texts = [value.encode() for value in values]
        ends = np.cumsum([0, *map(len, texts)], dtype=np.int64).astype(np.int32)
        return pa.StringArray.from_buffers(len(texts), pa.py_buffer(ends), pa.py_buffer(b"".join(texts)))
    if pa.types.is_boolean(kind):
        return arrow_booleans(np.array(values, np.bool_))
    if pa.types.is_date32(kind):
        days = np.array([(value - date(1970, 1, 1)).days for value in values], np.int32)
        return pa.Array.from_buffers(kind, len(days), [None, pa.py_buffer(days)])
    if pa.types.is_timestamp(kind):
        values = [_microseconds(value) for value in values]
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(np.array(values, np.int64))])


def arrow_booleans(values: NDArray[np.bool_]) -> "pyarrow.Array":
    """An Arrow array of true and false.

    >>> arrow_booleans(np.array([True, False])).to_pylist()
    [True, False]
    """
    import pyarrow as pa

    return pa.Array.from_buffers(pa.bool_(), len(values), [None, _bits(values)])


def numbers_of(found: "pyarrow.ChunkedArray | pyarrow.Array") -> Any:
    """The numbers of an Arrow column; what stands where one is null means nothing.

    >>> numbers_of(arrow_column(np.array([1.5, 2])))
    array([1.5, 2. ])
    """
    array = in_one_piece(found)
    dtype = _TYPES.get(str(array.type))
    if dtype is None:
        raise InternalError(f"a column of {array.type} was taken for numbers")
    if not len(array):
        return np.zeros(0, dtype)
    return np.frombuffer(array.buffers()[1], dtype, count=len(array), offset=8 * array.offset)


def nulls_of(found: "pyarrow.ChunkedArray | pyarrow.Array") -> NDArray[np.bool_]:
    """Where an Arrow column is null.

    >>> nulls_of(arrow_column(np.array([1, 2]), np.array([True, False])))
    array([ True, False])
    """
    array = in_one_piece(found)
    if not array.null_count:
        return np.zeros(len(array), np.bool_)
    bits = np.unpackbits(np.frombuffer(array.buffers()[0], np.uint8), bitorder="little")
    return np.asarray(bits[array.offset : array.offset + len(array)] == 0)


def in_one_piece(found: "pyarrow.ChunkedArray | pyarrow.Array") -> "pyarrow.Array":
    """A column in one piece.

    >>> import pyarrow as pa
    >>> len(in_one_piece(pa.chunked_array([], pa.int64())))
    0
    """
    import pyarrow as pa

    if not isinstance(found, pa.ChunkedArray):
        return found
    return pa.concat_arrays(found.chunks) if found.num_chunks else pa.nulls(0, found.type)


def _bits(values: NDArray[np.bool_]) -> Any:
    import pyarrow as pa

    return pa.py_buffer(np.packbits(np.ascontiguousarray(values, np.bool_), bitorder="little"))


def _microseconds(value: datetime) -> int:
    gap = value - datetime(1970, 1, 1)
    return (gap.days * 86_400 + gap.seconds) * 10**6 + gap.microseconds
