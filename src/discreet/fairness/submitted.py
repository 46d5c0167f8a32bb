"""Predictions that a model owner submits for an audit: one for each unit, by its key. They are not private.

>>> from discreet.curator.catalog import ColumnType
>>> from discreet.fairness.submitted import Predictions
>>> made = Predictions.of({"id": [7, 3], "yhat": [1, 0]}, key="id", prediction="yhat", kind=ColumnType.INTEGER)
>>> made.look_up([3, 7, 9, None]).tolist()
[0, 1, 2, 2]
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.curator.catalog import ColumnType
from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import Number, rational
from discreet.fairness.reading import Coded, classes, coded, numbers
from discreet.tables import column, read_table

if TYPE_CHECKING:
    import pyarrow

NONE = 2
"""What `look_up` gives for a unit without a prediction."""


@dataclass(frozen=True, slots=True, eq=False)
class Predictions:
    """Keys, each once, with 0 or 1. `digest` names them: the same predictions for the same keys, in any order."""

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
        label: Coded | None = None,
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
        found, _ = classes(columns, positive)
        codes = found[-1] if threshold is None else codes
        keys = _keys(column(arrow, key, "predictions' table"), kind, key)
        known = codes >= 0
        order = keys.filter(_mask(known))
        if len(order.unique()) < len(order):
            raise InvalidData(f"predictions: some values of {key!r} occur twice; give one prediction for each unit")
        if not len(order):
            raise InvalidData("predictions: there are none")
        values = codes[known].astype(np.int8)
        truth = () if label is None else tuple(int(code) for code in found[0])
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
        found = place.fill_null(len(self)).to_numpy(zero_copy_only=False)
        predicted: NDArray[np.int64] = np.append(self.values, NONE).astype(np.int64)[found]
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


def _mask(known: NDArray[np.bool_]) -> Any:
    import pyarrow

    return pyarrow.array(known)


def _digest(keys: Any, values: NDArray[np.int8]) -> str:
    """SHA-256 over the pairs in the order of the keys; texts with their lengths, so that no two lists are alike."""
    from pyarrow import compute

    order = compute.sort_indices(keys).to_numpy()
    found = hashlib.sha256(f"{keys.type} {len(keys)}\n".encode())
    listed = keys.take(order)
    if str(keys.type) == "int64":
        found.update(listed.to_numpy().tobytes())
    else:
        for part in listed.to_pylist():
            written = part.encode("utf-8", "surrogatepass")
            found.update(len(written).to_bytes(8, "little") + written)
    found.update(values[order].tobytes())
    return found.hexdigest()
