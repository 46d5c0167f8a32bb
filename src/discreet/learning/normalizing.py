"""Normalizing within each example. Batch normalization would mix examples, and no gradient would belong to one."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.errors import InvalidParameter
from discreet.exact import integer
from discreet.learning.gradients import Array, Gradient, Rows
from discreet.learning.layers import Draw, Shape

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
