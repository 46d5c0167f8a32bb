"""Networks: layers one after the other, a loss at the end, and gradients example by example.

>>> import numpy as np
>>> from discreet.learning.networks.layers import Dense, Relu
>>> from discreet.learning.networks.network import Network, Softmax
>>> network = Network([Dense(4), Relu(), Dense(2)], Softmax(), inputs=(3,))
>>> parameters = network.start(seed=1)
>>> [p.shape for p in parameters]
[(4, 4), (5, 2)]
>>> losses, gradients = network.gradients(parameters, np.ones((5, 3), np.float32), np.array([0, 1, 0, 1, 1]))
>>> losses.shape, [g.shape for g in gradients]
((5,), [(4, 4), (5, 2)])
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import integer
from discreet.learning.networks.layers import Dense, Layer, Relu, Tanh
from discreet.learning.sgd.gradients import Array, Augment, Gradient, Parameters, Rows, Shape
from discreet.noise import DeterministicEntropy
from discreet.noise.normal import rounded_gaussian

_GRID = 1 << 20


def normal(seed: int) -> Callable[[tuple[int, ...]], NDArray[np.float64]]:
    """A source of arrays of standard normal numbers, the same for the same seed.

    >>> normal(1)((2,)).shape, bool((normal(1)((3,)) == normal(1)((3,))).all())
    ((2,), True)
    """
    entropy = DeterministicEntropy(seed)
    return lambda shape: np.asarray(rounded_gaussian(_GRID, shape, entropy=entropy)) / _GRID


class Loss(Protocol):
    """What is to be made small."""

    def targets(self, y: NDArray[Any], outputs: tuple[int, ...]) -> NDArray[Any]:
        """The targets as `gradient` takes them, checked against the shape of the outputs."""
        ...

    def gradient(self, output: Array, y: NDArray[Any]) -> tuple[NDArray[np.float32], Array]:
        """The loss of each example, and its gradient at the output: each row from its own row alone."""
        ...


@dataclass(frozen=True, slots=True)
class Softmax:
    """Cross entropy of classes 0 … k − 1, from one number for each class.

    >>> losses, gradient = Softmax().gradient(np.zeros((1, 2), np.float32), np.array([0]))
    >>> round(float(losses[0]), 4), gradient.tolist()
    (0.6931, [[-0.5, 0.5]])
    """

    def targets(self, y: NDArray[Any], outputs: tuple[int, ...]) -> NDArray[np.int64]:
        """Whole numbers from 0 to k − 1."""
        return _classes(y, _width(outputs, "one number for each class", 2))

    def gradient(self, output: Array, y: NDArray[Any]) -> tuple[NDArray[np.float32], Array]:
        """−log p(y), and p − 1 at y."""
        p = self.shares(output)
        rows = np.arange(len(y))
        losses = -np.log(np.maximum(p[rows, y], np.float32(1e-30)))
        p[rows, y] -= 1
        return losses, p

    def shares(self, output: Array) -> Array:
        """The probability of each class."""
        p: Array = np.exp(output - output.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        return p


@dataclass(frozen=True, slots=True)
class Logistic:
    """Cross entropy of two classes, 0 and 1, from one number.

    >>> losses, gradient = Logistic().gradient(np.zeros((1, 1), np.float32), np.array([1]))
    >>> round(float(losses[0]), 4), gradient.tolist()
    (0.6931, [[-0.5]])
    """

    def targets(self, y: NDArray[Any], outputs: tuple[int, ...]) -> NDArray[np.int64]:
        """Zeros and ones."""
        if _width(outputs, "one number", 1) != 1:
            raise InvalidParameter("network", outputs, "one number at the end", "end it with Dense(1)")
        return _classes(y, 2)

    def gradient(self, output: Array, y: NDArray[Any]) -> tuple[NDArray[np.float32], Array]:
        """log(1 + e^(−±z)), and p − y."""
        z = output[:, 0]
        losses = np.logaddexp(np.float32(0), np.where(y == 1, -z, z))
        return losses, (self.shares(output)[:, 1] - y).astype(np.float32)[:, None]

    def shares(self, output: Array) -> Array:
        """The probability of each class."""
        p = np.float32(0.5) * (1 + np.tanh(np.float32(0.5) * output[:, 0]))
        return np.stack([1 - p, p], axis=1)


@dataclass(frozen=True, slots=True)
class Squared:
    """Half the squared distance to the target.

    >>> losses, gradient = Squared().gradient(np.array([[3.0]], np.float32), np.array([1.0]))
    >>> losses.tolist(), gradient.tolist()
    ([2.0], [[2.0]])
    """

    def targets(self, y: NDArray[Any], outputs: tuple[int, ...]) -> NDArray[np.float32]:
        """Finite numbers, as many for each example as come out of the network."""
        width = _width(outputs, "one number for each target", 1)
        numbers = np.asarray(y)
        if numbers.dtype.kind not in "iuf" or numbers.size != len(numbers) * width:
            raise InvalidData(
                f"targets of shape {numbers.shape} and type {numbers.dtype}, expected {width} numbers each"
            )
        flat = numbers.astype(np.float32).reshape(len(numbers), width)
        if not np.isfinite(flat).all():
            raise InvalidData(f"target {int(np.argmin(np.isfinite(flat).all(axis=1)))} is not a finite number")
        return flat

    def gradient(self, output: Array, y: NDArray[Any]) -> tuple[NDArray[np.float32], Array]:
        """½‖z − y‖², and z − y."""
        distance = output - np.asarray(y, np.float32).reshape(output.shape)
        return np.float32(0.5) * np.square(distance).sum(axis=1), distance


@dataclass(frozen=True, slots=True)
class Weighted:
    """Another loss times a weight of each example; targets have it as one more column, 1 if they have no columns.

    >>> targets = Weighted(Softmax()).targets(np.array([[0, 0.5], [1, 1]]), (2,))
    >>> Weighted(Softmax()).gradient(np.zeros((2, 2), np.float32), targets)[1].tolist()
    [[-0.25, 0.25], [0.5, -0.5]]
    """

    loss: Loss

    def targets(self, y: NDArray[Any], outputs: tuple[int, ...]) -> NDArray[np.float64]:
        """Targets of the other loss, then the weights."""
        numbers = np.asarray(y)
        weights = np.ones(len(numbers)) if numbers.ndim == 1 else numbers[:, -1]
        own = numbers if numbers.ndim == 1 else numbers[:, :-1]
        if not isinstance(self.loss, Squared):
            own = own.reshape(len(numbers)).astype(np.int64)
        return np.column_stack([self.loss.targets(own, outputs), weights]).astype(np.float64)

    def gradient(self, output: Array, y: NDArray[Any]) -> tuple[NDArray[np.float32], Array]:
        """Losses and gradients, each times its weight."""
        own = y[:, :-1] if isinstance(self.loss, Squared) else y[:, 0].astype(np.int64)
        losses, gradient = self.loss.gradient(output, own)
        weights = y[:, -1].astype(np.float32)
        return losses * weights, gradient * weights[:, None]


def _width(outputs: tuple[int, ...], expected: str, least: int) -> int:
    if len(outputs) != 1 or outputs[0] < least:
        raise InvalidParameter("network", outputs, f"{expected} at the end, at least {least}", "end it with Dense(…)")
    return outputs[0]


def _classes(y: NDArray[Any], count: int) -> NDArray[np.int64]:
    classes = np.asarray(y)
    if classes.ndim != 1 or classes.dtype.kind not in "iub":
        raise InvalidData(f"targets of shape {classes.shape} and type {classes.dtype}, expected whole numbers in a row")
    wrong = (classes < 0) | (classes >= count)
    if wrong.any():
        raise InvalidData(f"target {int(wrong.argmax())} is not a class from 0 to {count - 1}")
    return classes.astype(np.int64)


_FEW = 96  # of a small network of images; measured: 600 at once take half as long again
_AT_ONCE = 4096  # examples that are predicted together


@dataclass(frozen=True, slots=True)
class Network:
    """Layers, the loss, and the shape of one example."""

    layers: tuple[Layer, ...]
    loss: Loss
    inputs: Shape

    def __init__(self, layers: Sequence[Layer], loss: Loss, inputs: Shape) -> None:
        if not layers:
            raise InvalidParameter("layers", layers, "at least one layer")
        shape = tuple(integer(side, "inputs", at_least=1) for side in inputs)
        object.__setattr__(self, "layers", tuple(layers))
        object.__setattr__(self, "loss", loss)
        object.__setattr__(self, "inputs", shape)

    def start(self, *, seed: int) -> Parameters:
        """Parameters to start from: public, the same for the same seed."""
        draw, shape, result = normal(seed), self.inputs, []
        for layer in self.layers:
            result += layer.parameters(shape, draw)
            shape = layer.output(shape)
        return result

    @property
    def outputs(self) -> Shape:
        """The shape of what comes out for one example."""
        shape = self.inputs
        for layer in self.layers:
            shape = layer.output(shape)
        return shape

    def predict(self, parameters: Sequence[Array], x: Array) -> Array:
        """What the last layer gives, before the loss; some thousand examples at a time."""
        examples = self.examples(x)
        shared = self._shared(parameters)
        parts = [self._forward(shared, examples[k : k + _AT_ONCE]) for k in range(0, len(examples), _AT_ONCE)]
        return np.concatenate(parts) if parts else np.zeros((0, *self.outputs), np.float32)

    @property
    def part(self) -> int | None:
        """How many examples at a time are quickest: where gradients are formed, few enough to stay in the cache."""
        return _FEW if self.forms_gradients else None

    @property
    def forms_gradients(self) -> bool:
        """Whether a layer forms the gradients of each example: all that have parameters but dense ones do."""
        return any(layer.count and not isinstance(layer, Dense) for layer in self.layers)

    def examples(self, x: Any) -> Array:
        """The examples as the network takes them: float32, of the declared shape."""
        array = np.asarray(x)
        if array.dtype.kind not in "fiub" or array.shape[1:] != self.inputs or not array.ndim:
            wanted = ", ".join(map(str, ("n", *self.inputs)))
            raise InvalidData(
                f"examples of shape {array.shape} and type {array.dtype}, expected numbers of shape ({wanted})"
            )
        return np.ascontiguousarray(array, np.float32)

    def gradients(
        self, parameters: Sequence[Array], x: Array, y: NDArray[Any]
    ) -> tuple[NDArray[np.float32], list[Gradient]]:
        """The loss of each example, and each parameter's gradients."""
        shared = self._shared(parameters)
        x = self._own(x)
        kept: list[Any] = []
        for layer, own in zip(self.layers, shared, strict=True):
            x, memory = layer.forward(own, x)
            kept.append(memory)
        losses, dy = self.loss.gradient(x, y)
        results: list[Gradient] = []
        for place in reversed(range(len(self.layers))):
            dy, gradients = self.layers[place].backward(shared[place], kept[place], dy, first=place == 0)
            results[:0] = gradients
        return losses, results

    def mean_gradients(
        self, parameters: Sequence[Array], x: Array, y: NDArray[Any], augment: Augment | None, copies: int
    ) -> tuple[NDArray[np.float32], list[Gradient]]:
        """Losses and gradients averaged over several changed copies of each example, before anything is clipped.

        De, Berrada, Hayes, Smith, Balle 2022 ("Unlocking high-accuracy differentially private image classification").
        """
        if copies == 1:
            return self.gradients(parameters, x if augment is None else augment(x, 0), y)
        totals: list[Array] = []
        losses = np.zeros(len(x), np.float32)
        for copy in range(copies):
            cost, gradients = self.gradients(parameters, x if augment is None else augment(x, copy), y)
            losses += cost / np.float32(copies)
            formed = [gradient.formed() / np.float32(copies) for gradient in gradients]
            totals = formed if not totals else [a + b for a, b in zip(totals, formed, strict=True)]
        return losses, [Rows(total) for total in totals]

    def _own(self, x: Array) -> Array:
        """Examples that a first layer may overwrite: those with parameters do not."""
        return x if self.layers[0].count else x.copy()

    def _forward(self, shared: Sequence[Sequence[Array]], x: Array) -> Array:
        x = self._own(x)
        for layer, own in zip(self.layers, shared, strict=True):
            x, _ = layer.forward(own, x)
        return x

    def _shared(self, parameters: Sequence[Array]) -> list[list[Array]]:
        """The parameters of each layer."""
        shared, place = [], 0
        for layer in self.layers:
            shared.append(list(parameters[place : place + layer.count]))
            place += layer.count
        if place != len(parameters):
            raise InvalidData(f"{len(parameters)} parameters for a network of {place}")
        return shared


ACTIVATIONS: dict[str, Callable[[], Layer]] = {"relu": Relu, "tanh": Tanh}


def dense_network(inputs: int, hidden: Sequence[int], activation: str, outputs: int, loss: Loss) -> Network:
    """A network of dense layers, with an activation after each hidden one.

    >>> [p.shape for p in dense_network(3, (4,), "relu", 2, Softmax()).start(seed=1)]
    [(4, 4), (5, 2)]
    """
    if activation not in ACTIVATIONS:
        raise InvalidParameter("activation", activation, f"one of {', '.join(ACTIVATIONS)}")
    if isinstance(hidden, int | str) or not hasattr(hidden, "__iter__"):
        raise InvalidParameter("hidden", hidden, "widths of the hidden layers, such as (100,) or ()")
    layers: list[Layer] = []
    for width in hidden:
        layers += [Dense(integer(width, "hidden", at_least=1, at_most=100_000)), ACTIVATIONS[activation]()]
    return Network([*layers, Dense(outputs)], loss, (inputs,))
