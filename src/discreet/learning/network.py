"""A network: layers one after the other, a loss at the end, and gradients example by example.

>>> import numpy as np
>>> from discreet.learning.layers import Dense, Relu
>>> from discreet.learning.losses import Softmax
>>> from discreet.learning.network import Network
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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import integer
from discreet.learning.gradients import Array, Gradient, Rows
from discreet.learning.layers import Dense, Layer, Shape
from discreet.learning.losses import Loss
from discreet.learning.starting import normal

Parameters = list[Array]

_FEW = 96  # of a small network of images; measured: 600 at once take half as long again
Augment = Callable[[Array, int], Array]
"""(examples, which copy) → the examples changed in a public way, each on its own."""

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
        draw, shape, found = normal(seed), self.inputs, []
        for layer in self.layers:
            found += layer.parameters(shape, draw)
            shape = layer.output(shape)
        return found

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
        found: list[Gradient] = []
        for place in reversed(range(len(self.layers))):
            dy, gradients = self.layers[place].backward(shared[place], kept[place], dy, first=place == 0)
            found[:0] = gradients
        return losses, found

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
