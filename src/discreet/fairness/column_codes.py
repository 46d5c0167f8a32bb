"""From the columns of a table to codes: classes, groups, strata, scores; and the predictions submitted for an audit.

>>> from discreet.fairness.column_codes import binned
>>> binned("age", [18.0, 30.0, 44.0, 71.0], [25, 45]).values
('< 25', '25 to 45', '≥ 45')
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.curator.catalog import ColumnType
from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import Number, integer, rational
from discreet.tables import column, read_table, texts

if TYPE_CHECKING:
    import pyarrow


Codes = NDArray[np.int64]
Floats = NDArray[np.float64]
Missing = Literal["error", "drop", "group"]
"""What to do with a row that lacks a value: refuse, leave it out, or make the lack a group or stratum of its own."""
Bins = Mapping[str, "int | Sequence[float]"]
"""How numbers are binned, by column: into so many bins of about equal size, or at the edges given."""

ABSENT = "(missing)"
MOST_VALUES = 100
_PAIRS = ({"0", "1"}, {"-1", "1"}, {"no", "yes"}, {"n", "y"}, {"negative", "positive"})
_YES = frozenset({"1", "yes", "y", "positive"})
_TRUTH = {"true": "1", "false": "0"}


@dataclass(frozen=True, slots=True, eq=False)
class CodedColumn:
    """A column as places among its values; −1 where it is missing."""

    name: str
    values: tuple[str, ...]
    codes: Codes

    def with_absent(self) -> "CodedColumn":
        """Missing as a value of its own."""
        if not (self.codes < 0).any():
            return self
        return CodedColumn(self.name, (*self.values, ABSENT), np.where(self.codes < 0, len(self.values), self.codes))


# Columns


def coded(table: "pyarrow.Table", name: str, absent: Iterable[str] = ()) -> CodedColumn:
    """A column by its distinct values; the categories of a categorical column all count, also those without a row.

    >>> from discreet.tables import read_table
    >>> result = coded(read_table({"sex": ["f", "m", "", None]}), "sex")
    >>> result.values, result.codes.tolist()
    (('f', 'm'), [0, 1, -1, -1])
    """
    import pyarrow

    values = column(table, name)
    declared = pyarrow.types.is_dictionary(values.type)
    encoded = (values.unify_dictionaries() if declared else values).combine_chunks()
    encoded = encoded if declared else encoded.dictionary_encode()
    if isinstance(encoded, pyarrow.ChunkedArray):  # beyond 2 GB of text
        raise InvalidData(f"column {name!r} is too large to be read at once")
    known = texts(encoded.dictionary).to_pylist()
    lacks = {"", *absent}
    words = dict.fromkeys(word for word in known if word not in lacks)
    ordered = tuple(words) if declared else tuple(sorted(words, key=_order))
    place = {word: i for i, word in enumerate(ordered)}
    of_known = np.array([*(place.get(word, -1) for word in known), -1], np.int64)
    indices = encoded.indices.fill_null(len(known)).to_numpy(zero_copy_only=False)
    return CodedColumn(name, ordered, of_known[indices])


def numbers(table: "pyarrow.Table", name: str, absent: Iterable[str] = ()) -> Floats:
    """A column as numbers; NaN where it is missing.

    >>> from discreet.tables import read_table
    >>> numbers(read_table({"age": ["30", "", "41.5"]}), "age").tolist()
    [30.0, nan, 41.5]
    """
    import pyarrow

    values = column(table, name)
    if pyarrow.types.is_floating(values.type) or pyarrow.types.is_integer(values.type):
        array = values.cast(pyarrow.float64()).to_numpy()
    else:
        result = coded(table, name, absent)
        try:
            array = np.array([*(float(value) for value in result.values), np.nan])[result.codes]
        except ValueError:
            raise InvalidData(f"column {name!r}: not all its values are numbers") from None
    if np.isinf(array).any():
        raise InvalidData(f"column {name!r}: a value is infinite")
    return np.asarray(array, np.float64)


def axis(table: "pyarrow.Table", name: str, bins: Bins, absent: Iterable[str] = ()) -> CodedColumn:
    """A column as groups or strata: by its values, or binned as `bins` says."""
    if name in bins:
        return binned(name, numbers(table, name, absent), bins[name])
    result = coded(table, name, absent)
    if len(result.values) > MOST_VALUES:
        hint = "bin its numbers (bins), or coarsen it"
        raise InvalidParameter(name, f"{len(result.values)} different values", f"at most {MOST_VALUES}", hint)
    return result


def binned(name: str, values: ArrayLike, bins: "int | Sequence[float]") -> CodedColumn:
    """Numbers in bins: at the edges given, or in so many bins of about equal size (equal numbers stay together)."""
    array = np.asarray(values, np.float64)
    known = array[np.isfinite(array)]
    if isinstance(bins, Sequence) and not isinstance(bins, str):
        edges = np.array(sorted({float(edge) for edge in bins}))
        if not edges.size or not np.isfinite(edges).all():
            raise InvalidParameter(f"bins of {name}", bins, "at least one finite edge")
    else:
        count = integer(bins, f"bins of {name}", at_least=2, at_most=MOST_VALUES)
        edges = _equal_parts(known, count) if known.size else np.zeros(0)
    codes = np.where(np.isfinite(array), np.searchsorted(edges, array, side="right"), -1)
    return CodedColumn(name, _ranges(edges), codes.astype(np.int64))


def _equal_parts(values: Floats, count: int) -> Floats:
    """Edges between parts of about equal size; the lowest value by itself where most have it."""
    cuts = np.quantile(values, np.arange(1, count) / count, method="higher")
    above = values[values > values.min()]
    if not above.size:
        return np.zeros(0)
    edges = np.unique(cuts[cuts > values.min()])
    return np.asarray(edges if edges.size else above.min(keepdims=True), np.float64)


def _ranges(edges: Floats) -> tuple[str, ...]:
    if not edges.size:
        return ("all",)
    inner = [f"{low:g} to {high:g}" for low, high in pairwise(edges)]
    return (f"< {edges[0]:g}", *inner, f"≥ {edges[-1]:g}")


def _order(word: str) -> tuple[int, float, str]:
    """Numbers by their size, before words by their letters."""
    try:
        number = float(word)
    except ValueError:
        return 1, 0.0, word
    return (0, number, word) if np.isfinite(number) else (1, 0.0, word)


# Classes


def classes(columns: Sequence[CodedColumn], positive: Sequence[str]) -> tuple[list[Codes], list[str]]:
    """Columns of classes as 1 (positive), 0 and −1 (missing); and what was done, in words.

    With more than two classes `positive` says which count as positive, against the rest. A column of 0 and 1, no and
    yes, or the like needs no such word.

    >>> label = CodedColumn("y", ("0", "1"), np.array([0, 1, -1]))
    >>> classes([label], [])[0][0].tolist()
    [0, 1, -1]
    """
    known = [
        CodedColumn(coding.name, tuple(_canonical(value) for value in coding.values), coding.codes)
        for coding in columns
    ]
    wanted = {_canonical(value) for value in positive}
    for value in positive:
        if not any(_canonical(value) in (*coding.values, *_pair(coding)) for coding in known):
            named = " or ".join(coding.name for coding in columns)
            raise InvalidParameter("positive", value, f"a class of {named}", _listed(known))
    codes, notes = [], []
    for coding in known:
        chosen = _chosen(coding, wanted, [other for other in known if other is not coding])
        truth = np.array([*(value in chosen for value in coding.values), False], np.int64)
        codes.append(np.where(coding.codes < 0, -1, truth[coding.codes]))
        if len(set(coding.values)) > 2:
            rest = sorted(set(coding.values) - chosen, key=_order)
            notes.append(f"{coding.name}: {' or '.join(sorted(chosen, key=_order))} against {', '.join(rest)}.")
    return codes, notes


def _chosen(coding: CodedColumn, wanted: set[str], others: Sequence[CodedColumn]) -> set[str]:
    """The values of a column that are positive."""
    values = set(coding.values)
    if fractional(coding):
        hint = "say a threshold, from which on it is positive; or give the column as score"
        raise InvalidParameter(coding.name, "numbers between 0 and 1", "classes", hint)
    if wanted & values or any(values <= set(other.values) and wanted & set(other.values) for other in others):
        return wanted & values
    if _pair(coding):
        return {value for value in values if value.casefold() in _YES}
    hint = f"{_listed([coding])}; state which are positive; they are compared with the rest"
    raise InvalidParameter(coding.name, f"{len(values)} classes", "two classes, such as 0 and 1", hint)


def fractional(coding: CodedColumn) -> bool:
    """Whether values look like probabilities: numbers between 0 and 1, not all whole."""
    try:
        array = np.array([float(value) for value in coding.values])
    except ValueError:
        return False
    return bool(array.size and (array >= 0).all() and (array <= 1).all() and (array % 1 != 0).any())


def _pair(coding: CodedColumn) -> set[str]:
    values = {value.casefold() for value in coding.values}
    return next((pair for pair in _PAIRS if values <= pair), set())


def _canonical(value: str) -> str:
    return _TRUTH.get(value.casefold(), value)


def _listed(columns: Sequence[CodedColumn], most: int = 8) -> str:
    words = list(dict.fromkeys(value for coding in columns for value in coding.values))
    return "classes are: " + ", ".join(words[:most]) + (", …" if len(words) > most else "")


# Missing values


def known_rows(
    required: Sequence[Codes], optional: Sequence[CodedColumn], missing: Missing
) -> tuple[NDArray[np.bool_], list[CodedColumn]]:
    """Which rows are used, and the axes with missing values in their place."""
    if missing not in ("error", "drop", "group"):
        raise InvalidParameter("missing", missing, "'error', 'drop' or 'group'")
    axes = [coding.with_absent() for coding in optional] if missing == "group" else list(optional)
    length = len(required[0]) if required else len(optional[0].codes)
    known = np.ones(length, bool)
    for codes in (*required, *(coding.codes for coding in axes)):
        known &= codes >= 0
    lacking = int(length - known.sum())
    if lacking and missing == "error":
        hint = "say missing='drop' to leave them out, or missing='group' to make the lack a group of its own"
        raise InvalidData(f"{lacking} of {length} rows lack a value; {hint}")
    if not known.any():
        raise InvalidData("no row has all the values that are needed" if length else "the table has no rows")
    return known, axes


# Predictions


NONE = 2
"""What `look_up` gives for a unit without a prediction."""


@dataclass(frozen=True, slots=True, eq=False)
class Predictions:
    """Predictions that a model owner submits for an audit, one for each unit, by its key. They are not private.

    Keys, each once, with 0 or 1. `digest` names them: the same predictions for the same keys, in any order.

    >>> made = Predictions.of({"id": [7, 3], "yhat": [1, 0]}, key="id", prediction="yhat", kind=ColumnType.INTEGER)
    >>> made.look_up([3, 7, 9, None]).tolist()
    [0, 1, 2, 2]
    """

    keys: "pyarrow.Array"
    values: NDArray[np.int8]
    kind: ColumnType
    digest: str
    missing: int = 0
    truth: tuple[int, ...] = ()

    @classmethod
    def of(
        cls,
        table: Any,
        *,
        key: str,
        prediction: str,
        kind: ColumnType,
        positive: Sequence[str] = (),
        threshold: Number | None = None,
        label: CodedColumn | None = None,
    ) -> "Predictions":
        """Read a table in any form that `discreet.tables` reads; rows without a prediction are left out.

        `label` has the classes of the label, so that one `positive` serves both; `truth` says which are positive.
        """
        arrow = read_table(table, "predictions")
        columns = [] if label is None else [label]
        if threshold is not None:
            scores = numbers(arrow, prediction)
            codes = np.where(np.isnan(scores), -1, scores >= float(rational(threshold, "threshold"))).astype(np.int64)
        else:
            columns.append(coded(arrow, prediction))
        result, _ = classes(columns, positive)
        codes = result[-1] if threshold is None else codes
        keys = _keys(column(arrow, key, "predictions' table"), kind, key)
        known = codes >= 0
        order = keys.filter(known)
        if len(order.unique()) < len(order):
            raise InvalidData(f"predictions: some values of {key!r} occur twice; give one prediction for each unit")
        if not len(order):
            raise InvalidData("predictions: there are none")
        values = codes[known].astype(np.int8)
        truth = () if label is None else tuple(int(code) for code in result[0])
        return cls(order, values, kind, _digest(order, values), int((~known).sum()), truth)

    def __len__(self) -> int:
        return len(self.keys)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Predictions) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"<{len(self)} predictions {self.digest}>"

    def look_up(self, keys: Any) -> NDArray[np.int64]:
        """The prediction of each key: 0, 1, or `NONE`. It fails on no value of a key."""
        import pyarrow
        from pyarrow import compute

        wanted = keys if isinstance(keys, pyarrow.ChunkedArray | pyarrow.Array) else pyarrow.array(keys)
        place = compute.index_in(wanted.cast(self.keys.type), value_set=self.keys)
        result = place.fill_null(len(self)).to_numpy(zero_copy_only=False)
        predicted: NDArray[np.int64] = np.append(self.values, NONE).astype(np.int64)[result]
        return predicted


def _keys(values: Any, kind: ColumnType, name: str) -> Any:
    import pyarrow

    if kind not in (ColumnType.INTEGER, ColumnType.TEXT):
        raise InvalidParameter("key", name, "a column of whole numbers or texts")
    array = values.combine_chunks()
    if pyarrow.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    try:
        array = array.cast(pyarrow.string() if kind is ColumnType.TEXT else pyarrow.int64())
    except pyarrow.ArrowException:
        raise InvalidData(f"predictions: column {name!r} does not hold keys of type {kind}") from None
    if array.null_count:
        raise InvalidData(f"predictions: {array.null_count} rows have no key; leave them out")
    return array


def _digest(keys: Any, values: NDArray[np.int8]) -> str:
    """SHA-256 over the pairs in the order of the keys; texts with their lengths, so that no two lists are alike."""
    from pyarrow import compute

    order = compute.sort_indices(keys).to_numpy()
    result = hashlib.sha256(f"{keys.type} {len(keys)}\n".encode())
    listed = keys.take(order)
    if str(keys.type) == "int64":
        result.update(listed.to_numpy().tobytes())
    else:
        for part in listed.to_pylist():
            written = part.encode("utf-8", "surrogatepass")
            result.update(len(written).to_bytes(8, "little") + written)
    result.update(values[order].tobytes())
    return result.hexdigest()
