"""What every mechanism is: a frozen value with its noise, its cost and its error on one screen."""

from fractions import Fraction
from typing import Any, Protocol

from discreet.exact import Number, rational
from discreet.noise import Entropy
from discreet.privacy.loss import Loss


class Mechanism(Protocol):
    """How a value is released. Settings are public; `release` is the only method that sees a private value."""

    @property
    def loss(self) -> Loss:
        """What one release costs."""
        ...

    def release(self, value: Any, /, *, entropy: Entropy | None = None) -> Any:
        """The private release."""
        ...

    def interval(self, confidence: Number) -> Any:
        """How far the release can be from the truth, with at least this probability; each mechanism says how."""
        ...


def doubt(confidence: Number) -> Fraction:
    """1 − confidence, for 0 < confidence < 1.

    >>> doubt("0.95")
    Fraction(1, 20)
    """
    return 1 - rational(confidence, "confidence", above=0, below=1)
