"""What every mechanism is: a frozen value with its noise, its cost and its error on one screen."""

from fractions import Fraction
from typing import Any, Protocol

from discreet.errors import InvalidParameter
from discreet.exact import Number, float_up, rational
from discreet.noise import Entropy
from discreet.noise.sampler import LARGEST
from discreet.privacy.loss import Loss


class Mechanism(Protocol):
    """How a value is released. Settings are public; `release` is the only method that sees a private value.

    Without an `entropy`, all noise comes from the operating system's (`noise.SystemEntropy`).
    """

    @property
    def loss(self) -> Loss:
        """What one release costs."""
        ...

    def release(self, value: Any, /, *, entropy: Entropy | None = None) -> Any:
        """The private release."""
        ...

    def interval(self, confidence: Number) -> Any:
        """How far the release can be from the truth, with at least this probability; each mechanism says in what.

        It is for each number of a release by itself, however many there are. For m of them together ask for
        1 − (1 − confidence)/m, which holds all by the union bound. Mechanisms that choose speak of their one choice;
        those whose error depends on how many candidates, answers, reports or records there are ask for that.
        """
        ...


def failure_probability(confidence: Number) -> Fraction:
    """1 − confidence, for 0 < confidence ≤ 1 − 1e-300.

    >>> failure_probability("0.95")
    Fraction(1, 20)
    """
    rest = 1 - rational(confidence, "confidence", above=0, below=1)
    if rest < Fraction(1, 10**300):
        raise InvalidParameter("confidence", confidence, "at most 1 − 1e-300")
    return rest


def drawable(scale: Fraction, **settings: Number) -> None:
    """Refuse settings whose noise would not fit 64 bits: when the mechanism is made, not when it is paid for."""
    if scale > LARGEST:
        given = ", ".join(f"{name}={value}" for name, value in settings.items())
        raise InvalidParameter(
            "noise", f"scale {float_up(scale):.3g} ({given})", "at most 2^52 steps", "use a coarser grid"
        )


def countable(size: float, what: str, *, most: int = 20_000_000) -> None:
    """Refuse to list more probabilities than memory should hold; releasing needs no such list."""
    if size > most:
        raise InvalidParameter(what, f"{size:.3g} numbers", f"at most {most:,}", "look at a smaller case")
