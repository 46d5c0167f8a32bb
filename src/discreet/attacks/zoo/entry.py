"""What an animal of the zoo is: a mechanism that was believed private, with the pair of inputs that exposes it."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.attacks.audit import Audit
from discreet.exact import Number

Sampler = Callable[[Any, int, np.random.Generator], Any]
"""(data, n, generator) → n outputs. Simulation: nothing private is ever given to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """A broken mechanism: what was claimed, why it is wrong, and the neighbors x and x' that show it.

    >>> from discreet.attacks.zoo import named
    >>> named("sum without clamping").audit(samples=2000).find().broken
    True
    """

    name: str
    paper: str
    epsilon: Fraction
    delta: Fraction
    why: str
    x: Any
    neighbor: Any
    sampler: Sampler
    samples: int

    def audit(self, *, samples: int | None = None, confidence: Number = 0.999, seed: int = 0) -> Audit:
        """The audit that catches it."""
        return Audit(
            mechanism=self.sampler,
            x=self.x,
            neighbor=self.neighbor,
            claimed=(self.epsilon, self.delta),
            samples=self.samples if samples is None else samples,
            confidence=confidence,
            seed=seed,
            name=self.name,
        )


def broken(
    name: str,
    paper: str,
    why: str,
    *,
    epsilon: Number,
    delta: Number = 0,
    x: Any,
    neighbor: Any,
    samples: int = 40_000,
) -> Callable[[Sampler], Broken]:
    """Make an animal of its sampler.

    >>> @broken("truth", "nobody", "it has no noise", epsilon=1, x=0, neighbor=1)
    ... def truth(value, n, rng):
    ...     return np.full(n, value)
    >>> truth.audit(samples=1000).find().broken
    True
    """

    def made(sampler: Sampler) -> Broken:
        return Broken(
            name=name,
            paper=paper,
            epsilon=Fraction(str(epsilon)),
            delta=Fraction(str(delta)),
            why=why,
            x=x,
            neighbor=neighbor,
            sampler=sampler,
            samples=samples,
        )

    return made


def laplace(scale: float, size: Any, rng: np.random.Generator, *, step: float = 1 / 64) -> NDArray[np.float64]:
    """Laplace noise on a grid, so that what is caught is the fault of the mechanism and not its floats.

    >>> noise = laplace(2.0, 4, np.random.default_rng(1))
    >>> bool((noise * 64 == np.rint(noise * 64)).all())
    True
    """
    stop = -np.expm1(-step / scale)
    return np.asarray((rng.geometric(stop, size) - rng.geometric(stop, size)) * step)


def gaussian(sigma: float, size: Any, rng: np.random.Generator, *, step: float = 1 / 64) -> NDArray[np.float64]:
    """Gaussian noise, rounded to a grid."""
    return np.asarray(np.rint(rng.normal(0.0, sigma / step, size)) * step)
