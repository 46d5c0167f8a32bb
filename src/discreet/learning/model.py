"""A network over declared columns: what it reads, what it predicts, its parameters; kept in a file.

Parameters that were trained privately may be published: everything done with a model is free.
"""

import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from discreet.curator.catalog import Column
from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import plain
from discreet.learning.features import Features, Target
from discreet.learning.gradients import Array
from discreet.learning.layers import Dense, Layer, Relu, Tanh
from discreet.learning.losses import Loss as Objective
from discreet.learning.losses import Softmax, Squared
from discreet.learning.network import Network, Parameters

ACTIVATIONS: dict[str, Callable[[], Layer]] = {"relu": Relu, "tanh": Tanh}
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
        if self.activation not in ACTIVATIONS:
            raise InvalidParameter("activation", self.activation, f"one of {', '.join(ACTIVATIONS)}")
        if self.target.column in self.features.columns:
            raise InvalidParameter("features", self.target.column.name, "columns other than the target")

    @property
    def network(self) -> Network:
        """The network."""
        layers: list[Layer] = []
        for width in self.hidden:
            layers += [Dense(width), ACTIVATIONS[self.activation]()]
        classes = self.target.classes
        objective: Objective = Squared() if classes is None else Softmax()
        return Network([*layers, Dense(1 if classes is None else len(classes))], objective, (self.features.width,))

    @property
    def words(self) -> str:
        """The widths of its layers."""
        return " → ".join(str(width) for width in (self.features.width, *self.hidden, *self.network.outputs))


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """A shape and its parameters.

    >>> columns = (Column("age", "integer", lower=0, upper=100), Column("ill", "boolean"))
    >>> shape = Shape(Features(columns[:1]), Target(columns[1]), (), "tanh")
    >>> model = Model(shape, [np.array([[-1, 1], [0, 0], [0, 0]], np.float32)])
    >>> model.predict({"age": [20, 80]}).tolist()
    [False, True]
    """

    shape: Shape
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
        """What the last layer gives."""
        return self.shape.network.predict(self.parameters, self.shape.features.encode(table))

    def save(self, path: str | Path) -> Path:
        """Write the model to a file; the path."""
        target = Path(path)
        target.write_bytes(packed(self.parameters, {"form": _FORM, **_to_plain(self.shape)}))
        return target

    @classmethod
    def load(cls, path: str | Path) -> "Model":
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


def _to_plain(shape: Shape) -> dict[str, Any]:
    return {
        "features": [_column(one) for one in shape.features.columns],
        "target": _column(shape.target.column),
        "hidden": list(shape.hidden),
        "activation": shape.activation,
    }


def _from_plain(facts: dict[str, Any]) -> Shape:
    features = Features(tuple(Column(**one) for one in facts["features"]))
    return Shape(features, Target(Column(**facts["target"])), tuple(facts["hidden"]), facts["activation"])


def _column(one: Column) -> dict[str, Any]:
    plainly = {
        name: None if (v := getattr(one, name)) is None else plain(v) for name in ("lower", "upper", "granularity")
    }
    values = None if one.values is None else list(one.values)
    return {"name": one.name, "kind": str(one.kind), "nullable": one.nullable, "values": values, **plainly}
