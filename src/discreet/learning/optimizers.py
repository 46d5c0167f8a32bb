"""From noisy gradients to steps. Post-processing: it costs nothing.

Optimizers are values; what they remember between steps is a list of arrays that travels with the parameters.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from discreet.exact import Number, rational
from discreet.learning.gradients import Array
from discreet.learning.schedule import Schedule

CONSTANT = Schedule()


class Optimizer(Protocol):
    """A rule that turns gradients into steps."""

    def memory(self, parameters: Sequence[Array]) -> list[Array]:
        """What it remembers before the first step."""
        ...

    def step(self, parameters: Sequence[Array], memory: list[Array], gradients: Sequence[Array], done: float) -> None:
        """Change parameters and memory in place; `done` is the share of the run that is behind us, from 0 to 1."""
        ...


@dataclass(frozen=True, slots=True)
class Sgd:
    """Gradient descent with momentum; the rate follows the schedule.

    >>> parameters = [np.ones(2, np.float32)]
    >>> Sgd(1).step(parameters, [], [np.array([0.5, 0], np.float32)], 0.0)
    >>> parameters[0].tolist()
    [0.5, 1.0]
    """

    rate: float
    momentum: float
    schedule: Schedule

    def __init__(self, rate: Number, momentum: Number = 0, schedule: Schedule = CONSTANT) -> None:
        object.__setattr__(self, "rate", float(rational(rate, "rate", above=0)))
        object.__setattr__(self, "momentum", float(rational(momentum, "momentum", at_least=0, below=1)))
        object.__setattr__(self, "schedule", schedule)

    def memory(self, parameters: Sequence[Array]) -> list[Array]:
        """A velocity for each parameter, if there is momentum."""
        return [np.zeros_like(p) for p in parameters] if self.momentum else []

    def step(self, parameters: Sequence[Array], memory: list[Array], gradients: Sequence[Array], done: float) -> None:
        """v ← μv + g; θ ← θ − ηv."""
        rate = np.float32(self.rate * self.schedule.at(done))
        for place, gradient in enumerate(gradients):
            if self.momentum:
                memory[place] *= np.float32(self.momentum)
                memory[place] += gradient
                parameters[place][...] -= rate * memory[place]
            else:
                parameters[place][...] -= rate * gradient


@dataclass(frozen=True, slots=True)
class Adam:
    """Adam (Kingma, Ba 2015); the rate follows the schedule.

    >>> adam, parameters = Adam("0.1"), [np.ones(1, np.float32)]
    >>> memory = adam.memory(parameters)
    >>> adam.step(parameters, memory, [np.array([3.0], np.float32)], 0.0)
    >>> round(float(parameters[0][0]), 4)
    0.9
    """

    rate: float
    first: float
    second: float
    schedule: Schedule

    def __init__(
        self, rate: Number, first: Number = "0.9", second: Number = "0.999", schedule: Schedule = CONSTANT
    ) -> None:
        object.__setattr__(self, "rate", float(rational(rate, "rate", above=0)))
        object.__setattr__(self, "first", float(rational(first, "first", at_least=0, below=1)))
        object.__setattr__(self, "second", float(rational(second, "second", at_least=0, below=1)))
        object.__setattr__(self, "schedule", schedule)

    def memory(self, parameters: Sequence[Array]) -> list[Array]:
        """The means of gradients and of their squares, and the number of steps."""
        zeros = [np.zeros_like(p) for p in parameters]
        return [*zeros, *[z.copy() for z in zeros], np.zeros(1, np.float32)]

    def step(self, parameters: Sequence[Array], memory: list[Array], gradients: Sequence[Array], done: float) -> None:
        """θ ← θ − η·m̂/(√v̂ + 1e−8)."""
        count = len(gradients)
        memory[-1] += 1
        number = float(memory[-1][0])
        rate = self.rate * self.schedule.at(done)
        scale = rate * (1 - self.second**number) ** 0.5 / (1 - self.first**number)
        for place, gradient in enumerate(gradients):
            mean, square = memory[place], memory[count + place]
            mean += np.float32(1 - self.first) * (gradient - mean)
            square += np.float32(1 - self.second) * (gradient * gradient - square)
            parameters[place][...] -= np.float32(scale) * mean / (np.sqrt(square) + np.float32(1e-8))
