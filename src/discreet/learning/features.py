"""From declared columns to numbers between −1 and 1: what a network sees, fixed by the catalog alone.

A number is scaled by its declared bounds (clamped to them), a declared value becomes a place among its values, true
and false become 1 and −1. A value that is missing, or not among the declared ones, is 0 everywhere, with one more place
that says so. Nothing is learned from the data here.

>>> from discreet.curator.catalog import Column
>>> from discreet.learning.features import Features
>>> features = Features((Column("age", "integer", lower=0, upper=100), Column("sex", "text", values=["F", "M"])))
>>> features.encode({"age": [25, None], "sex": ["M", "F"]}).tolist()
[[-0.5, 0.0, 0.0, 1.0, 0.0], [0.0, 1.0, 1.0, 0.0, 0.0]]
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.curator.catalog import NUMERIC, Column, ColumnType
from discreet.errors import InvalidData, InvalidParameter
from discreet.learning.gradients import Array
from discreet.tables import column, read_table


@dataclass(frozen=True, slots=True)
class Features:
    """The columns that a model reads, in order."""

    columns: tuple[Column, ...]

    def __post_init__(self) -> None:
        if not self.columns:
            raise InvalidParameter("features", "none", "at least one column")
        for one in self.columns:
            if not _usable(one):
                hint = "declare lower and upper, or values, in the policy, or leave it out"
                raise InvalidParameter("features", one.name, "columns with declared bounds or values", hint)

    @property
    def width(self) -> int:
        """How many numbers stand for one row."""
        return sum(_width(one) for one in self.columns)

    def encode(self, table: Any) -> Array:
        """Rows as numbers."""
        arrow = read_table(table)
        parts = [_encoded(column(arrow, one.name), one) for one in self.columns]
        return np.ascontiguousarray(np.concatenate(parts, axis=1), np.float32)


@dataclass(frozen=True, slots=True)
class Target:
    """The column to be predicted: classes, if its values are declared or it is true/false; else a bounded number."""

    column: Column

    def __post_init__(self) -> None:
        if not _usable(self.column):
            hint = "declare values (classes) or lower and upper (a number) in the policy"
            raise InvalidParameter("target", self.column.name, "a column with declared values or bounds", hint)

    @property
    def classes(self) -> tuple[Any, ...] | None:
        """The classes, or None for a number."""
        if self.column.values is not None:
            return self.column.values
        return (False, True) if self.column.kind is ColumnType.BOOLEAN else None

    def encode(self, table: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """The class numbers, or numbers between −1 and 1; and for which rows the target is known."""
        values = column(read_table(table), self.column.name)
        if self.column.values is None and self.column.kind is ColumnType.BOOLEAN:
            flags = _flags(values)
            return np.nan_to_num(flags).astype(np.int64), np.isfinite(flags)
        if self.classes is not None:
            codes = _places(values, self.classes)
            return np.maximum(codes, 0), codes >= 0
        scaled = _encoded(values, self.column)
        return scaled[:, 0], scaled[:, 1] == 0

    def decode(self, scaled: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        """Numbers between −1 and 1 as values within the bounds."""
        low, high = _ends(self.column)
        return low + (np.clip(np.asarray(scaled, np.float64), -1, 1) + 1) * (high - low) / 2


def _usable(one: Column) -> bool:
    declared = one.values is not None or one.kind is ColumnType.BOOLEAN
    return declared or (one.kind in NUMERIC and one.lower is not None and one.upper is not None)


def _width(one: Column) -> int:
    return 2 if one.values is None else len(one.values) + 1


def _ends(one: Column) -> tuple[float, float]:
    if one.lower is None or one.upper is None:
        raise InvalidData(f"column {one.name!r} has no bounds")
    low, high = float(one.lower), float(one.upper)
    return low, high if high > low else low + 1


def _encoded(values: Any, one: Column) -> Array:
    """One column: its places, and a last one that says that the value is missing."""
    if one.values is not None:
        codes = _places(values, one.values)
        places = np.zeros((len(codes), len(one.values) + 1), np.float32)
        places[np.arange(len(codes)), codes] = 1  # −1, unknown, is the last place
        return places
    numbers = _flags(values) if one.kind is ColumnType.BOOLEAN else _numbers(values, one)
    missing = ~np.isfinite(numbers)
    low, high = (0.0, 1.0) if one.kind is ColumnType.BOOLEAN else _ends(one)
    scaled = np.where(missing, 0.0, 2 * (np.clip(numbers, low, high) - low) / (high - low) - 1)
    return np.stack([scaled, missing], axis=1).astype(np.float32)


def _flags(values: Any) -> NDArray[np.float64]:
    """1 for true, 0 for false, in any spelling that tables use; anything else is missing."""
    encoded = values.combine_chunks().dictionary_encode()
    meaning = {"true": 1.0, "t": 1.0, "1": 1.0, "yes": 1.0, "false": 0.0, "f": 0.0, "0": 0.0, "no": 0.0}
    of_value = [meaning.get(_key(value).lower(), np.nan) for value in encoded.dictionary.to_pylist()] + [np.nan]
    codes = encoded.indices.fill_null(len(of_value) - 1).to_numpy(zero_copy_only=False)
    found: NDArray[np.float64] = np.array(of_value)[codes]
    return found


def _numbers(values: Any, one: Column) -> NDArray[np.float64]:
    import pyarrow

    try:
        array = values.combine_chunks().cast(pyarrow.float64())
    except pyarrow.ArrowException:
        try:
            array = values.combine_chunks().cast(pyarrow.string()).cast(pyarrow.float64())
        except pyarrow.ArrowException:
            raise InvalidData(f"column {one.name!r}: not all its values are numbers") from None
    return np.asarray(array.to_numpy(zero_copy_only=False), np.float64)


def _places(values: Any, declared: tuple[Any, ...]) -> NDArray[np.int64]:
    """The place of each value among the declared ones, −1 if it is not there."""
    encoded = values.combine_chunks().dictionary_encode()
    known = {_key(value): place for place, value in enumerate(declared)}
    of_value = np.array([known.get(_key(value), -1) for value in encoded.dictionary.to_pylist()] + [-1], np.int64)
    codes = encoded.indices.fill_null(len(of_value) - 1).to_numpy(zero_copy_only=False)
    places: NDArray[np.int64] = of_value[codes]
    return places


def _key(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
