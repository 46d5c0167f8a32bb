"""Models over declared columns: what they read, what they predict, their parameters, in a file.

Columns become numbers between −1 and 1, in a way that is fixed by the catalog alone. A number is scaled by its declared
bounds (clamped to them), a declared value becomes a place among its values, true and false become 1 and −1. A value
that is missing, or not among the declared ones, is 0 everywhere, with one more place that says so. Nothing is learned
from the data here.

>>> from discreet.curator.catalog import Column
>>> from discreet.learning.column_model import Features
>>> features = Features((Column("age", "integer", lower=0, upper=100), Column("sex", "text", values=["F", "M"])))
>>> features.encode({"age": [25, None], "sex": ["M", "F"]}).tolist()
[[-0.5, 0.0, 0.0, 1.0, 0.0], [0.0, 1.0, 1.0, 0.0, 0.0]]

Parameters that were trained privately may be published: everything done with a model is free.
"""

import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from discreet.curator.catalog import NUMERIC, Column, ColumnType
from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import plain
from discreet.learning.classical.trees import Tree
from discreet.learning.networks.network import Loss as Objective
from discreet.learning.networks.network import Network, Softmax, Squared, dense_network
from discreet.learning.sgd.gradients import Array, Parameters
from discreet.tables import column as read_column
from discreet.tables import read_table


@dataclass(frozen=True, slots=True)
class Features:
    """The columns that a model reads, in order."""

    columns: tuple[Column, ...]

    def __post_init__(self) -> None:
        if not self.columns:
            raise InvalidParameter("features", "none", "at least one column")
        for feature in self.columns:
            if not _usable(feature):
                hint = "declare lower and upper, or values, in the policy, or leave it out"
                raise InvalidParameter("features", feature.name, "columns with declared bounds or values", hint)

    @property
    def width(self) -> int:
        """How many numbers stand for one row."""
        return sum(_width(feature) for feature in self.columns)

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """The positions of each column's numbers: at most one of them is not 0, so together they have norm 1."""
        ends = np.cumsum([_width(feature) for feature in self.columns]).tolist()
        return tuple(tuple(range(end - _width(feature), end)) for feature, end in zip(self.columns, ends, strict=True))

    @property
    def thresholds(self) -> list[list[float]]:
        """Where a tree may split each number: indicators in the middle, numbers at 16 places."""
        even = np.linspace(-1, 1, 18)[1:-1].tolist()
        split = [[0.5] * _width(feature) if feature.values is not None else [None, 0.5] for feature in self.columns]
        return [even if cut is None else [cut] for cuts in split for cut in cuts]

    def encode(self, table: Any) -> Array:
        """Rows as numbers."""
        arrow = read_table(table)
        parts = [_encoded(read_column(arrow, feature.name), feature) for feature in self.columns]
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
        values = read_column(read_table(table), self.column.name)
        if self.column.values is None and self.column.kind is ColumnType.BOOLEAN:
            flags = _flags(values)
            return np.nan_to_num(flags).astype(np.int64), np.isfinite(flags)
        if self.classes is not None:
            codes = _places(values, self.classes)
            return np.maximum(codes, 0), codes >= 0
        scaled = _encoded(values, self.column)
        return scaled[:, 0], scaled[:, 1] == 0

    @property
    def outputs(self) -> int:
        """How many numbers a network says of it."""
        return 1 if self.classes is None else len(self.classes)

    @property
    def objective(self) -> Objective:
        """What a network that predicts it makes small."""
        return Squared() if self.classes is None else Softmax()

    def decode(self, scaled: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        """Numbers between −1 and 1 as values within the bounds."""
        low, high = _ends(self.column)
        return low + (np.clip(np.asarray(scaled, np.float64), -1, 1) + 1) * (high - low) / 2


def _usable(column: Column) -> bool:
    declared = column.values is not None or column.kind is ColumnType.BOOLEAN
    return declared or (column.kind in NUMERIC and column.lower is not None and column.upper is not None)


def _width(column: Column) -> int:
    return 2 if column.values is None else len(column.values) + 1


def _ends(column: Column) -> tuple[float, float]:
    if column.lower is None or column.upper is None:
        raise InvalidData(f"column {column.name!r} has no bounds")
    low, high = float(column.lower), float(column.upper)
    return low, high if high > low else low + 1


def _encoded(values: Any, column: Column) -> Array:
    """One column: its places, and a last one that says that the value is missing."""
    if column.values is not None:
        codes = _places(values, column.values)
        places = np.zeros((len(codes), len(column.values) + 1), np.float32)
        places[np.arange(len(codes)), codes] = 1  # −1, unknown, is the last place
        return places
    numbers = _flags(values) if column.kind is ColumnType.BOOLEAN else _numbers(values, column)
    missing = ~np.isfinite(numbers)
    low, high = (0.0, 1.0) if column.kind is ColumnType.BOOLEAN else _ends(column)
    scaled = np.where(missing, 0.0, 2 * (np.clip(numbers, low, high) - low) / (high - low) - 1)
    return np.stack([scaled, missing], axis=1).astype(np.float32)


def _flags(values: Any) -> NDArray[np.float64]:
    """1 for true, 0 for false, in any spelling that tables use; anything else is missing."""
    encoded = values.combine_chunks().dictionary_encode()
    meaning = {"true": 1.0, "t": 1.0, "1": 1.0, "yes": 1.0, "false": 0.0, "f": 0.0, "0": 0.0, "no": 0.0}
    of_value = [meaning.get(_key(value).lower(), np.nan) for value in encoded.dictionary.to_pylist()] + [np.nan]
    codes = encoded.indices.fill_null(len(of_value) - 1).to_numpy(zero_copy_only=False)
    result: NDArray[np.float64] = np.array(of_value)[codes]
    return result


def _numbers(values: Any, column: Column) -> NDArray[np.float64]:
    import pyarrow

    try:
        array = values.combine_chunks().cast(pyarrow.float64())
    except pyarrow.ArrowException:
        try:
            array = values.combine_chunks().cast(pyarrow.string()).cast(pyarrow.float64())
        except pyarrow.ArrowException:
            raise InvalidData(f"column {column.name!r}: not all its values are numbers") from None
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


_FORM = "discreet model 1"


@dataclass(frozen=True, slots=True)
class Shape:
    """What a network reads and predicts, and its hidden layers: everything but the parameters.

    >>> columns = (Column("age", "integer", lower=0, upper=100), Column("ill", "boolean"))
    >>> shape = Shape(Features(columns[:1]), Target(columns[1]), (8,), "tanh")
    >>> shape.words
    '2 → 8 → 2'
    """

    features: Features
    target: Target
    hidden: tuple[int, ...]
    activation: str

    def __post_init__(self) -> None:
        _require_apart(self.features, self.target)
        _ = self.network  # refuses an unknown activation, and widths that are none

    @property
    def model(self) -> str:
        """What kind of model it is."""
        return "network"

    @property
    def network(self) -> Network:
        """The network."""
        return dense_network(
            self.features.width, self.hidden, self.activation, self.target.outputs, self.target.objective
        )

    @property
    def words(self) -> str:
        """The widths of its layers."""
        return " → ".join(str(width) for width in (self.features.width, *self.hidden, *self.network.outputs))


@dataclass(frozen=True, slots=True)
class ClassicalShape:
    """What a classical model reads and predicts: "linear" a number, "logistic" and "tree" a class.

    The parameters of linear models are those of a network without hidden layers; a tree has its own.

    >>> columns = (Column("age", "integer", lower=0, upper=100), Column("ill", "boolean"))
    >>> ClassicalShape(Features(columns[:1]), Target(columns[1]), "tree").words
    'tree: 2 → 2'
    """

    features: Features
    target: Target
    model: str

    def __post_init__(self) -> None:
        if self.model not in ("linear", "logistic", "tree"):
            raise InvalidParameter("model", self.model, '"network", "linear", "logistic" or "tree"')
        if (self.target.classes is None) != (self.model == "linear"):
            expected = (
                "a number, for a linear model" if self.model == "linear" else f"classes, for a {self.model} model"
            )
            hint = '"linear" predicts numbers, "logistic" and "tree" classes, "network" both'
            raise InvalidParameter("target", self.target.column.name, expected, hint)
        _require_apart(self.features, self.target)

    @property
    def network(self) -> Network:
        """The network that a linear model is."""
        return Shape(self.features, self.target, (), "tanh").network

    @property
    def words(self) -> str:
        """What it is, what it reads and what it tells apart."""
        return f"{self.model}: {self.features.width} → {self.network.outputs[0]}"


def _require_apart(features: Features, target: Target) -> None:
    if target.column in features.columns:
        raise InvalidParameter("features", target.column.name, "columns other than the target")


@dataclass(frozen=True, slots=True, eq=False)
class ColumnModel:
    """A shape and its parameters.

    >>> columns = (Column("age", "integer", lower=0, upper=100), Column("ill", "boolean"))
    >>> shape = Shape(Features(columns[:1]), Target(columns[1]), (), "tanh")
    >>> model = ColumnModel(shape, [np.array([[-1, 1], [0, 0], [0, 0]], np.float32)])
    >>> model.predict({"age": [20, 80]}).tolist()
    [False, True]
    """

    shape: Shape | ClassicalShape
    parameters: Parameters

    @property
    def classes(self) -> tuple[Any, ...] | None:
        """The classes, or None for a number."""
        return self.shape.target.classes

    def predict(self, table: Any) -> NDArray[Any]:
        """The likeliest class of each row, or the number expected."""
        output = self.output(table)
        if self.classes is None:
            return self.shape.target.decode(output[:, 0])
        chosen: NDArray[Any] = np.array(self.classes, object)[output.argmax(axis=1)]
        return chosen

    def predict_proba(self, table: Any) -> NDArray[np.float64]:
        """The probability of each class, in the order of `classes`."""
        if self.classes is None:
            raise InvalidData("this model predicts a number, not a class")
        return Softmax().shares(self.output(table)).astype(np.float64)

    def score(self, table: Any) -> float:
        """On rows that you may see: the share of right classes, or R² of numbers."""
        truth, known = self.shape.target.encode(table)
        if not known.any():
            raise InvalidData("no row has a known target")
        output = self.output(table)[known]
        if self.classes is not None:
            return float((output.argmax(axis=1) == truth[known]).mean())
        left = np.square(np.clip(output[:, 0], -1, 1) - truth[known]).sum()
        spread = np.square(truth[known] - truth[known].mean()).sum()
        return float(1 - left / spread) if spread else 0.0

    def output(self, table: Any) -> Array:
        """What the last layer gives, or the logarithms of a tree's chances."""
        x = self.shape.features.encode(table)
        if self.shape.model != "tree":
            return self.shape.network.predict(self.parameters, x)
        feature, threshold, chances = self.parameters
        tree = Tree(feature.astype(np.int64), threshold.astype(np.float64), chances.astype(np.float64))
        return np.log(np.maximum(tree.chances[tree.leaves(x.astype(np.float64))], 1e-30)).astype(np.float32)

    def save(self, path: str | Path) -> Path:
        """Write the model to a file; the path."""
        target = Path(path)
        target.write_bytes(packed(self.parameters, {"form": _FORM, **_to_plain(self.shape)}))
        return target

    @classmethod
    def load(cls, path: str | Path) -> "ColumnModel":
        """Read a model that was saved."""
        source = Path(path)
        if not source.is_file():
            raise InvalidParameter("model", str(source), "a file that exists")
        try:
            parameters, facts = unpacked(source.read_bytes())
            if facts.get("form") != _FORM:
                raise InvalidData(f"{source.name} is not a model of this version")
            return cls(_from_plain(facts), parameters)
        except (OSError, EOFError, BadZipFile, ValueError, KeyError, TypeError, AttributeError) as error:
            if isinstance(error, InvalidData | InvalidParameter):
                raise
            raise InvalidData(f"{source.name} is not a model that `save` wrote") from None


def packed(parameters: Parameters, facts: dict[str, Any]) -> bytes:
    """Parameters and facts as bytes.

    >>> unpacked(packed([np.ones(2, np.float32)], {"a": 1}))
    ([array([1., 1.], dtype=float32)], {'a': 1})
    """
    sink = io.BytesIO()
    arrays = {f"p{place}": parameter for place, parameter in enumerate(parameters)}
    np.savez_compressed(sink, allow_pickle=False, facts=np.frombuffer(json.dumps(facts).encode(), np.uint8), **arrays)
    return sink.getvalue()


def unpacked(stored: bytes) -> tuple[Parameters, dict[str, Any]]:
    """What `packed` packed."""
    with np.load(io.BytesIO(stored), allow_pickle=False) as arrays:
        facts: dict[str, Any] = json.loads(arrays["facts"].tobytes().decode())
        return [arrays[f"p{place}"] for place in range(len(arrays.files) - 1)], facts


def _to_plain(shape: Shape | ClassicalShape) -> dict[str, Any]:
    columns = {
        "features": [_column(column) for column in shape.features.columns],
        "target": _column(shape.target.column),
    }
    if isinstance(shape, ClassicalShape):
        return {**columns, "model": shape.model}
    return {**columns, "hidden": list(shape.hidden), "activation": shape.activation}


def _from_plain(facts: dict[str, Any]) -> Shape | ClassicalShape:
    features, target = (
        Features(tuple(Column(**column) for column in facts["features"])),
        Target(Column(**facts["target"])),
    )
    if "model" in facts:
        return ClassicalShape(features, target, facts["model"])
    return Shape(features, target, tuple(facts["hidden"]), facts["activation"])


def _column(column: Column) -> dict[str, Any]:
    plainly = {
        name: None if (v := getattr(column, name)) is None else plain(v) for name in ("lower", "upper", "granularity")
    }
    values = None if column.values is None else list(column.values)
    return {"name": column.name, "kind": str(column.kind), "nullable": column.nullable, "values": values, **plainly}
