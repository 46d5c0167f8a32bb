"""Layers of a network: what they compute, and the gradients of their parameters example by example.

Arrays are float32, the first axis is the example. A layer holds no state: parameters are passed in, and what `forward`
keeps for `backward` is passed back. Images are (example, height, width, channel).

Guarantee: what a layer computes for an example, and its gradients, depend on this example and on the parameters alone,
bit for bit: not on which other examples are in the lot, nor on how many, nor on its place among them. Without this an
example would change the gradients of others by their rounding, and the norm that it is clipped to would not bound
what it changes. Proof. Elementwise operations and sums within an example see only the example; matrix products are
left to `batch_invariance.product`. Layers for images are in `images`. Normalizing is done within each example: batch
normalization would mix examples, and no gradient would belong to one.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from discreet.errors import InvalidParameter
from discreet.exact import Number, integer, rational
from discreet.learning.sgd.clipping import product
from discreet.learning.sgd.gradients import Array, Gradient, Outer, Rows, Shape

Draw = Any
"""Draws starting values: (shape) → standard normal numbers. Public: no data are involved."""


class Layer(Protocol):
    """One step of a network."""

    @property
    def count(self) -> int:
        """How many parameters (arrays) it has."""
        ...

    def output(self, shape: Shape) -> Shape:
        """The shape of what comes out of one example of this shape."""
        ...

    def parameters(self, shape: Shape, normal: Draw) -> list[Array]:
        """Parameters to start from, for examples of this shape."""
        ...

    def forward(self, parameters: Sequence[Array], x: Array) -> tuple[Array, Any]:
        """What comes out, and what `backward` needs. It may overwrite x."""
        ...

    def backward(
        self, parameters: Sequence[Array], kept: Any, dy: Array, *, first: bool
    ) -> tuple[Array, list[Gradient]]:
        """From the gradient at the output: that at the input (not needed for the first layer), and each parameter's.

        It may overwrite `dy`, and what it returns may be overwritten: gradients must not share its memory.
        """
        ...


@dataclass(frozen=True, slots=True)
class Dense:
    """x ↦ x·W + b; the parameter is one matrix whose last row is b.

    >>> y, kept = Dense(1).forward([np.array([[2.0], [3.0], [1.0]], np.float32)], np.array([[1.0, 10.0]], np.float32))
    >>> y.tolist()
    [[33.0]]
    """

    width: int

    def __post_init__(self) -> None:
        integer(self.width, "width", at_least=1)

    @property
    def count(self) -> int:
        """One matrix."""
        return 1

    def output(self, shape: Shape) -> Shape:
        """One row of `width` numbers."""
        if len(shape) != 1 or shape[0] < 1:
            raise InvalidParameter(
                "shape", shape, "examples of one axis before a dense layer", "put Flatten() before it"
            )
        return (self.width,)

    def parameters(self, shape: Shape, normal: Draw) -> list[Array]:
        """He et al. 2015: deviation √(2/inputs); biases start at zero."""
        self.output(shape)
        return [starting(shape[0], self.width, normal)]

    def forward(self, parameters: Sequence[Array], x: Array) -> tuple[Array, Any]:
        """x·W + b; where x is narrow, (x, 1) times the whole matrix, which spares a pass over what comes out."""
        if x.shape[1] < self.width:
            return product(np.concatenate([x, np.ones((len(x), 1), np.float32)], axis=1), parameters[0]), x
        y = product(x, parameters[0][:-1])
        y += parameters[0][-1]
        return y, x

    def backward(
        self, parameters: Sequence[Array], kept: Any, dy: Array, *, first: bool
    ) -> tuple[Array, list[Gradient]]:
        """The gradient of example i is (x_i, 1) ⊗ dy_i."""
        gradients: list[Gradient] = [Outer(kept, dy, one=True)]
        if first:
            return dy, gradients
        return product(dy, np.ascontiguousarray(parameters[0][:-1].T)), gradients  # BLAS is quicker with a copy


def starting(inputs: int, width: int, normal: Draw) -> Array:
    """A matrix of weights and a last row of biases to start from (He et al. 2015).

    >>> starting(2, 3, lambda shape: np.ones(shape)).tolist()
    [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0], [0.0, 0.0, 0.0]]
    """
    weights = normal((inputs + 1, width)) * math.sqrt(2 / inputs)
    weights[-1] = 0
    start: Array = weights.astype(np.float32)
    return start


class Plain:
    """A layer without parameters that keeps the shape."""

    __slots__ = ()

    @property
    def count(self) -> int:
        """None."""
        return 0

    def output(self, shape: Shape) -> Shape:
        """The same shape."""
        return shape

    def parameters(self, shape: Shape, normal: Draw) -> list[Array]:
        """None."""
        self.output(shape)
        return []


@dataclass(frozen=True, slots=True)
class Relu(Plain):
    """x ↦ max(x, 0).

    >>> Relu().forward([], np.array([[-1.0, 2.0]], np.float32))[0].tolist()
    [[0.0, 2.0]]
    """

    def forward(self, parameters: Sequence[Array], x: Array) -> tuple[Array, Any]:
        """The positive part, in place: where a layer before keeps what it gave out, no gradient comes to it there."""
        np.maximum(x, 0, out=x)
        return x, x

    def backward(
        self, parameters: Sequence[Array], kept: Any, dy: Array, *, first: bool
    ) -> tuple[Array, list[Gradient]]:
        """Where it was positive."""
        return np.multiply(dy, kept > 0, out=dy), []


@dataclass(frozen=True, slots=True)
class TemperedSigmoid(Plain):
    """x ↦ scale/(1 + e^(−temperature·x)) − offset (Papernot, Thakurta, Song, Chien, Erlingsson 2021).

    Bounded activations keep activations and gradients small, so that less is lost to clipping. Scale 2, temperature 2
    and offset 1 make it tanh.

    >>> TemperedSigmoid(3, 1, "0.5").forward([], np.zeros((1, 1), np.float32))[0].tolist()
    [[1.0]]
    """

    scale: float
    temperature: float
    offset: float

    def __init__(self, scale: Number = 2, temperature: Number = 2, offset: Number = 1) -> None:
        most = 1000
        object.__setattr__(self, "scale", float(rational(scale, "scale", above=0, at_most=most)))
        object.__setattr__(self, "temperature", float(rational(temperature, "temperature", above=0, at_most=most)))
        object.__setattr__(self, "offset", float(rational(offset, "offset", at_least=-most, at_most=most)))

    def forward(self, parameters: Sequence[Array], x: Array) -> tuple[Array, Any]:
        """scale·(1 + t)/2 − offset with t = tanh(temperature·x/2)."""
        t = np.tanh(x * np.float32(self.temperature / 2))
        return t * np.float32(self.scale / 2) + np.float32(self.scale / 2 - self.offset), t

    def backward(
        self, parameters: Sequence[Array], kept: Any, dy: Array, *, first: bool
    ) -> tuple[Array, list[Gradient]]:
        """scale·temperature·(1 − t²)/4."""
        slope = 1 - kept * kept
        slope *= np.float32(self.scale * self.temperature / 4)
        return np.multiply(dy, slope, out=dy), []


@dataclass(frozen=True, slots=True)
class Tanh(Plain):
    """x ↦ tanh x: bounded activations lose less to clipping, see `TemperedSigmoid`.

    >>> Tanh().forward([], np.zeros((1, 2), np.float32))[0].tolist()
    [[0.0, 0.0]]
    """

    def forward(self, parameters: Sequence[Array], x: Array) -> tuple[Array, Any]:
        """The hyperbolic tangent."""
        y = np.tanh(x)
        return y, y

    def backward(
        self, parameters: Sequence[Array], kept: Any, dy: Array, *, first: bool
    ) -> tuple[Array, list[Gradient]]:
        """1 − tanh²."""
        return np.multiply(dy, 1 - kept * kept, out=dy), []


@dataclass(frozen=True, slots=True)
class Flatten(Plain):
    """All axes of an example in one.

    >>> Flatten().output((2, 3, 4))
    (24,)
    """

    def output(self, shape: Shape) -> Shape:
        """One axis."""
        return (math.prod(shape),)

    def forward(self, parameters: Sequence[Array], x: Array) -> tuple[Array, Any]:
        """The same numbers in a row."""
        return x.reshape(len(x), math.prod(x.shape[1:])), x.shape

    def backward(
        self, parameters: Sequence[Array], kept: Any, dy: Array, *, first: bool
    ) -> tuple[Array, list[Gradient]]:
        """The same numbers as they were."""
        return dy.reshape(kept), []


_LEAST = np.float32(1e-5)


@dataclass(frozen=True, slots=True)
class GroupNorm:
    """Group normalization (Wu, He 2018): mean 0 and variance 1 within each group of channels of each example.

    Then each channel is scaled and shifted: the parameter is one matrix of two rows, scales and shifts. The last axis
    holds the channels, the others are places.

    >>> layer = GroupNorm(1)
    >>> y, _ = layer.forward(layer.parameters((2,), None), np.array([[1.0, 3.0]], np.float32))
    >>> y.round(3).tolist()
    [[-1.0, 1.0]]
    """

    groups: int

    def __post_init__(self) -> None:
        integer(self.groups, "groups", at_least=1)

    @property
    def count(self) -> int:
        """One matrix."""
        return 1

    def output(self, shape: Shape) -> Shape:
        """The same shape."""
        if not shape or min(shape) < 1 or shape[-1] % self.groups:
            raise InvalidParameter(
                "groups", self.groups, f"a divisor of the number of channels, the last of {shape}", "choose another"
            )
        return shape

    def parameters(self, shape: Shape, normal: Draw) -> list[Array]:
        """Scales 1, shifts 0."""
        channels = self.output(shape)[-1]
        return [np.stack([np.ones(channels, np.float32), np.zeros(channels, np.float32)])]

    def forward(self, parameters: Sequence[Array], x: Array) -> tuple[Array, Any]:
        """(x − mean)/√(variance + 1e−5), scaled and shifted."""
        flat = x.reshape(len(x), math.prod(x.shape[1:-1]), x.shape[-1])  # (example, place, channel)
        centered = flat - self._mean(flat)
        spread = 1 / np.sqrt(self._mean(centered * centered) + _LEAST)
        centered *= spread
        y = centered * parameters[0][0] + parameters[0][1]
        return y.reshape(x.shape), (centered, spread)

    def backward(
        self, parameters: Sequence[Array], kept: Any, dy: Array, *, first: bool
    ) -> tuple[Array, list[Gradient]]:
        """For scales the sum over places of dy·normalized, for shifts that of dy."""
        normalized, spread = kept
        flat = dy.reshape(normalized.shape)
        turned = flat * normalized
        gradient = np.stack([turned.sum(axis=1), flat.sum(axis=1)], axis=1)
        if first:
            return dy, [Rows(gradient)]
        dx = flat * parameters[0][0]
        turned *= parameters[0][0]
        dx -= self._mean(dx)
        dx -= normalized * self._mean(turned)
        dx *= spread
        return dx.reshape(dy.shape), [Rows(gradient)]

    def _mean(self, flat: Array) -> Array:
        """The mean of each group, repeated for its channels: (example, 1, channel)."""
        count, places, channels = flat.shape
        within = channels // self.groups
        sums = flat.sum(axis=1).reshape(count, self.groups, within).sum(axis=2)
        sums *= np.float32(1 / (places * within))
        return np.repeat(sums, within, axis=1)[:, None, :]
