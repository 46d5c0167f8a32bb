"""A sensitive column as numbers: what a model holds once it is bound to a table.

A missing value (null, NaN, an empty text) is not a value: it never makes a class more diverse. Where it matters that
a value is missing, write it as a value of its own ("not asked") before anonymizing.

>>> from discreet.anonymity.sensitive import Sensitive
>>> disease = Sensitive.of({"disease": ["flu", "flu", "cancer", None]}, "disease")
>>> disease.codes.tolist(), disease.values, disease.shares.round(2).tolist()
([0, 0, 1, -1], 2, [0.67, 0.33])
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.anonymity.hierarchy import Hierarchy
from discreet.errors import InvalidData, InvalidParameter
from discreet.tables import as_arrow, column, texts

if TYPE_CHECKING:
    import pyarrow

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Sensitive:
    """Each row's value as a number (−1: missing), and the share of each value among the known ones of the table."""

    name: str
    codes: Ints
    shares: Floats

    @property
    def values(self) -> int:
        """How many values the column can have."""
        return len(self.shares)

    @property
    def present(self) -> int:
        """How many different values the table holds."""
        return int(np.count_nonzero(self.shares))

    @classmethod
    def of(cls, table: Any, name: str) -> "Sensitive":
        """A column, its values in the order in which they appear."""
        encoded = _known(table, name).dictionary_encode()
        return _counted(name, _indices(encoded), len(encoded.dictionary))

    @classmethod
    def ordered(cls, table: Any, name: str, order: Sequence[Any] | None = None) -> "Sensitive":
        """A column whose values have an order: numbers, dates, texts of numbers; or the order that is given.

        >>> Sensitive.ordered({"pay": ["9000", "10000", "9000"]}, "pay").codes.tolist()
        [0, 1, 0]
        >>> Sensitive.ordered({"stage": ["late", "early"]}, "stage", ["early", "middle", "late"]).codes.tolist()
        [2, 0]
        """
        known = _known(table, name)
        if order is not None:
            return _listed(name, known, order)
        encoded = known.dictionary_encode()
        places = np.argsort(_amounts(name, encoded.dictionary), kind="stable")
        rank = np.empty(len(places) + 1, np.int64)
        rank[places], rank[-1] = np.arange(len(places)), -1
        return _counted(name, rank[_indices(encoded)], len(places))

    @classmethod
    def within(cls, table: Any, name: str, hierarchy: Hierarchy) -> "Sensitive":
        """A column whose values are the leaves of a hierarchy."""
        known = _known(table, name)
        leaves = hierarchy.code(_filled(known, hierarchy.labels[0][0]))
        codes = np.where(np.asarray(known.is_null()), -1, leaves).astype(np.int64)
        return _counted(name, codes, hierarchy.leaves)

    def take(self, rows: NDArray[Any]) -> "Sensitive":
        """Some of the rows; the shares stay those of the whole table."""
        return replace(self, codes=self.codes[rows])


def rows_of(table: Any) -> "pyarrow.Table":
    """A table that has rows."""
    arrow = as_arrow(table)
    if not arrow.num_rows:
        raise InvalidData("the table has no rows")
    return arrow


def _known(table: Any, name: str) -> "pyarrow.Array":
    """The column with everything that means "missing" as null."""
    import pyarrow
    from pyarrow import compute

    values = column(rows_of(table), name).combine_chunks()
    if isinstance(values, pyarrow.ChunkedArray):  # what combine_chunks gives for no chunks
        values = pyarrow.concat_arrays(values.chunks)
    if pyarrow.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if pyarrow.types.is_floating(values.type):
        missing = compute.is_nan(values)
    elif pyarrow.types.is_string(values.type) or pyarrow.types.is_large_string(values.type):
        missing = compute.equal(values, "")
    else:
        missing = None
    if missing is not None:
        values = compute.if_else(missing, pyarrow.scalar(None, values.type), values)
    if values.null_count == len(values):
        raise InvalidData(f"sensitive column {name!r}: every value is missing; there is nothing to protect in it")
    return values


def _filled(known: "pyarrow.Array", label: str) -> "pyarrow.Array":
    """Texts, with a label where a value is missing: so that an error counts the rows as the table does."""
    from pyarrow import compute

    return compute.if_else(known.is_null(), label, texts(known))


def _indices(encoded: "pyarrow.DictionaryArray") -> Ints:
    return np.asarray(encoded.indices.fill_null(-1)).astype(np.int64)


def _counted(name: str, codes: Ints, values: int) -> Sensitive:
    counts = np.bincount(codes[codes >= 0], minlength=values)
    return Sensitive(name, codes, counts / counts.sum())


def _amounts(name: str, values: "pyarrow.Array") -> NDArray[Any]:
    """Something that sorts as the values do."""
    import pyarrow

    is_ = pyarrow.types
    if is_.is_integer(values.type) or is_.is_floating(values.type) or is_.is_boolean(values.type):
        return np.asarray(values)
    if is_.is_temporal(values.type) or is_.is_decimal(values.type):
        return np.array(values.to_pylist(), object)
    try:
        amounts = np.asarray(values.cast(pyarrow.float64()))
    except pyarrow.ArrowException:
        amounts = np.array([np.nan])
    if not np.isfinite(amounts).all():
        raise InvalidData(
            f"sensitive column {name!r}: its values are texts without an order; give the order, lowest first, "
            'or use the distance "equal" or "hierarchical"'
        )
    return amounts


def _listed(name: str, known: "pyarrow.Array", order: Sequence[Any]) -> Sensitive:
    labels = texts(list(order)).to_pylist()
    if not labels or len(set(labels)) != len(labels):
        raise InvalidParameter("order", f"{len(labels)} values", f"the different values of {name!r}, lowest first")
    flat = Hierarchy.rows(name, [(label,) for label in labels])
    return Sensitive.within({name: texts(known)}, name, flat)
