"""Columns of any table as NumPy arrays, in one of three kinds: numbers, dates and texts.

What attacks compare is values, so a column is read the same way wherever it comes from. Missing values (null, NaN, NaT,
an empty cell of a CSV file) stay missing, and a missing value is equal to nothing, not even to another one.

>>> from discreet.attacks.tables.columns import coded, columns, kind
>>> read = columns({"zip": ["02138", None], "age": [28, 31]}, ["zip", "age"])
>>> kind(read["zip"]), kind(read["age"])
('text', 'number')
>>> coded(read["zip"], columns({"zip": [None, "02138"]})["zip"])  # -1: missing
(array([ 0, -1]), array([-1,  0]))
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidData, InvalidParameter
from discreet.tables import read_table

if TYPE_CHECKING:
    import pyarrow


Column = NDArray[Any]
Codes = NDArray[np.int64]
Kind = Literal["number", "date", "text"]

_EXACT_IN_FLOATS = 2**53
_BY_CHANCE, _FEW = 1e-6, 20
_ISO = r"^\d{4}-\d\d-\d\d$"


def columns(table: Any, names: Sequence[str] | None = None, *, where: str = "table") -> dict[str, Column]:
    """The named columns (all, if none are named) as arrays of one length, at least one row long.

    Whole numbers are int64, or float64 where some are missing; numbers float64; dates and times datetime64; truth
    values bool; texts are objects, None where missing. Texts that are all ISO dates are dates. In a CSV file a column
    of numbers is read as such, unless one begins with a needless zero, as ZIP codes do.

    >>> columns({"age": [30, None], "born": ["1990-01-02", None]})
    {'age': array([30., nan]), 'born': array(['1990-01-02', 'NaT'], dtype='datetime64[D]')}
    >>> columns({"age": [30]}, ["age", "sex"], where="released")
    Traceback (most recent call last):
    ...
    discreet.errors.InvalidParameter: released: got a table without a column 'sex', expected one with: age, sex; ...
    """
    arrow = read_table(table, where)
    wanted = tuple(arrow.column_names) if names is None else _names(names, where)
    for name in wanted:
        if name not in arrow.column_names:
            has = ", ".join(arrow.column_names[:20])
            raise InvalidParameter(
                where, _Said(f"a table without a column {name!r}"), f"one with: {', '.join(wanted)}", f"it has: {has}"
            )
    if not wanted or not arrow.num_rows:
        raise InvalidData(f"{where}: it has no {'rows' if wanted else 'columns'}; an attack needs at least one")
    from_text = isinstance(table, str | Path) and Path(table).suffix.lower() not in (".parquet", ".pq")
    return {name: _array(arrow.column(name), f"{where}, column {name!r}", from_text) for name in wanted}


def kind(column: Column) -> Kind:
    """What a column holds; truth values count as texts, since only equality means something among them.

    >>> kind(np.array([True, False])), kind(np.array(["2020-01-01"], "datetime64[D]"))
    ('text', 'date')
    """
    return {"i": "number", "u": "number", "f": "number", "M": "date"}.get(column.dtype.kind, "text")  # type: ignore[return-value]


def missing(column: Column) -> NDArray[np.bool_]:
    """Where a column has no value.

    >>> missing(np.array(["a", None], object)).tolist(), missing(np.array([1.0, np.nan])).tolist()
    ([False, True], [False, True])
    """
    if column.dtype.kind == "f":
        return np.isnan(column)
    if column.dtype.kind == "M":
        return np.isnat(column)
    if column.dtype == object:
        return np.array([value is None for value in column], bool)
    return np.zeros(len(column), bool)


def coded(*arrays: Column) -> tuple[Codes, ...]:
    """One number for each value, the same in all the arrays and from 0 up; -1 where a value is missing.

    Columns of different kinds are compared as texts.

    >>> coded(np.array([3.0, np.nan]), np.array([7, 3]))
    (array([ 0, -1]), array([1, 0]))
    """
    import pyarrow

    alike = arrays if len({kind(array) for array in arrays}) == 1 else tuple(as_texts(array) for array in arrays)
    joined = np.concatenate(alike)
    if joined.dtype.kind == "f":
        joined = joined + 0.0  # −0 is 0
    result = pyarrow.array(joined, from_pandas=True).dictionary_encode().indices
    codes = result.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return tuple(np.split(codes, np.cumsum([len(array) for array in arrays])[:-1]))


def as_texts(column: Column) -> Column:
    """The values as texts: 28 and 28.0 are "28", a date is written as 1987-03-12.

    >>> as_texts(np.array([28.0, np.nan, 1.5])).tolist()
    ['28', None, '1.5']
    """
    gone = missing(column)
    if column.dtype.kind == "f":
        whole = gone | (column == np.trunc(column)) & (np.abs(column) < _EXACT_IN_FLOATS)
        plain = np.where(whole, [f"{value:.0f}" for value in column], [f"{value!r}" for value in column.tolist()])
    elif column.dtype.kind == "M":
        plain = np.datetime_as_string(column)
    else:
        plain = np.array([str(value) for value in column.tolist()], object)
    written = plain.astype(object)
    written[gone] = None
    return written


def as_numbers(column: Column) -> NDArray[np.float64]:
    """Numbers, or dates as days since 1970, as float64; NaN where missing.

    >>> as_numbers(np.array(["1970-01-02", "NaT"], "datetime64[D]")).tolist()
    [1.0, nan]
    """
    if kind(column) == "text":
        raise InvalidData("texts are not numbers; compare them by letters")
    if kind(column) == "number":
        return column.astype(np.float64)
    return np.where(np.isnat(column), np.nan, column.astype("datetime64[us]").astype(np.int64) / 86_400_000_000)


def alike(first: Mapping[str, Column], second: Mapping[str, Column]) -> int:
    """How many rows of the first table a row of the second equals, if that is more than chance allows; else 0.

    Two tables of different people, drawn in the same way, are exchangeable: of rows that occur exactly twice among
    all n + m, a share 2nm/((n + m)(n + m − 1)) has one in each table. If the same people are in both, more have.

    >>> people = {"age": np.arange(50)}
    >>> alike(people, people), alike(people, {"age": np.arange(50) + 49})
    (50, 0)
    """
    from scipy.special import betainc

    pairs = [coded(first[name], second[name]) for name in first]
    keys = np.unique(np.stack([np.append(a, b) for a, b in pairs]), axis=1, return_inverse=True)[1]
    mine, theirs = np.split(keys.ravel(), [len(pairs[0][0])])
    counts = [np.bincount(side, minlength=int(keys.max()) + 1) for side in (mine, theirs)]
    twice = counts[0] + counts[1] == 2
    split, total = int((twice & (counts[0] == 1)).sum()), int(twice.sum())
    n, m = len(mine), len(theirs)
    chance = betainc(split, total - split + 1, 2 * n * m / ((n + m) * (n + m - 1))) if split else 1.0
    same = np.array_equal(mine, theirs) and n > _FEW and mine.min() < mine.max()
    return int((counts[1][mine] > 0).sum()) if same or chance < _BY_CHANCE else 0


def no_control(people: Mapping[str, Column], controls: Mapping[str, Column]) -> tuple[str, ...]:
    """A sentence where the controls seem to be the people themselves.

    >>> no_control({"age": np.arange(50)}, {"age": np.arange(50, 100)})
    ()
    """
    same = alike(people, controls)
    said = f"{same} of the people are also among the controls, more than by chance: those are no control"
    return (said,) if same else ()


def positions(wanted: Column, names: Column) -> Codes:
    """The position of each wanted value among distinct ones, -1 where it is none of them or missing.

    >>> positions(np.array(["b", "z", None], object), np.array(["a", "b"], object)).tolist()
    [1, -1, -1]
    """
    a, b = coded(wanted, names)
    place = np.full(int(max(a.max(initial=-1), b.max(initial=-1))) + 2, -1)
    place[b] = np.arange(len(b))
    return np.where(a >= 0, place[a], -1)


def distinct(column: Column, codes: Codes) -> Column:
    """The value of each code.

    >>> distinct(np.array([7, 3, 7]), np.array([0, 1, 0])).tolist()
    [7, 3]
    """
    values, first = np.unique(codes, return_index=True)
    return column[first[values >= 0]]


class _Said(str):
    """A text that is shown without quotation marks."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _names(names: Sequence[str], where: str) -> tuple[str, ...]:
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise InvalidParameter(f"{where}: columns", names, "a list of names")
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise InvalidParameter(f"{where}: columns", list(names), "each name once", f"{twice[0]!r} is there twice")
    return tuple(names)


def _array(column: "pyarrow.ChunkedArray", where: str, from_text: bool) -> Column:
    import pyarrow

    values = column.combine_chunks()
    if isinstance(values, pyarrow.ChunkedArray):  # of no chunk
        values = pyarrow.concat_arrays(values.chunks)
    if pyarrow.types.is_dictionary(values.type) or pyarrow.types.is_run_end_encoded(values.type):
        values = values.cast(values.type.value_type)
    is_ = pyarrow.types
    if is_.is_string(values.type) or is_.is_large_string(values.type) or is_.is_string_view(values.type):
        values = _typed(values) if from_text else _dated(values)
    if is_.is_boolean(values.type):
        return values.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]
    if is_.is_integer(values.type):
        return _whole(values)
    if is_.is_floating(values.type) or is_.is_decimal(values.type):
        return values.cast(pyarrow.float64()).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]
    if is_.is_date(values.type) or is_.is_timestamp(values.type):
        return _dates(values)
    if is_.is_null(values.type) or is_.is_string(values.type) or is_.is_large_string(values.type):
        return values.to_numpy(zero_copy_only=False).astype(object)  # type: ignore[no-any-return]
    try:
        return values.cast(pyarrow.string()).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]
    except pyarrow.ArrowException:
        raise InvalidData(
            f"{where}: values of type {values.type} cannot be compared; write them as numbers, dates or texts"
        ) from None


def _whole(values: "pyarrow.Array") -> Column:
    from pyarrow import compute

    if not values.null_count and str(values.type) != "uint64":
        return values.to_numpy(zero_copy_only=False).astype(np.int64)  # type: ignore[no-any-return]
    ends = compute.min_max(values).as_py()
    if max(abs(ends["min"] or 0), abs(ends["max"] or 0)) >= _EXACT_IN_FLOATS:
        return values.cast("string").to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]
    return values.cast("float64").to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _dates(values: "pyarrow.Array") -> Column:
    read = values.to_numpy(zero_copy_only=False)
    days = read.astype("datetime64[D]")
    whole = bool((np.isnat(read) | (days == read)).all())
    return np.asarray(days if whole else read.astype("datetime64[us]"))


def _typed(texts: "pyarrow.Array") -> "pyarrow.Array":
    """Texts of a CSV file as whole numbers, numbers or dates if all of them are; empty ones are missing."""
    import pyarrow
    from pyarrow import compute

    held = compute.if_else(compute.equal(texts, ""), None, texts)
    if held.null_count == len(held) or compute.any(compute.match_substring_regex(held, r"^[+-]?0\d")).as_py():
        return held
    for wanted in (pyarrow.int64(), pyarrow.float64()):
        try:
            return held.cast(wanted)
        except pyarrow.ArrowInvalid:
            continue
    return _dated(held)


def _dated(texts: "pyarrow.Array") -> "pyarrow.Array":
    """Texts as dates if all of them are ISO dates."""
    import pyarrow
    from pyarrow import compute

    few = texts[:100].drop_null()
    if not len(few) or not compute.all(compute.match_substring_regex(few, _ISO)).as_py():
        return texts
    try:
        return texts.cast(pyarrow.date32())
    except pyarrow.ArrowInvalid:
        return texts
