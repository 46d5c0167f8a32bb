"""Everything about a private training run that is decided before a row is seen.

Optimizers turn noisy gradients into steps, which is post-processing and free. They are values; what they remember
between steps is a list of arrays that travels with the parameters.

>>> from discreet.learning.sgd.recipe import Recipe, Sgd
>>> recipe = Recipe(rate="0.01", lot=600, steps=1000, multiplier="1.1", clip=1, optimizer=Sgd("0.25"))
>>> recipe.loss
Repeated(loss=SampledGaussian(rate=0.01, multiplier=1.1), count=1000)
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal, Protocol, get_args

import numpy as np

from discreet.errors import BudgetExceeded, InvalidParameter, NoGuarantee
from discreet.exact import Number, integer, plain, rational
from discreet.learning.sgd.gradients import Array
from discreet.privacy.accounting import guarantee
from discreet.privacy.calibration import gaussian_multiplier, least
from discreet.privacy.loss import Loss, Repeated, SampledGaussian, Together

Form = Literal["constant", "linear", "cosine"]


@dataclass(frozen=True, slots=True)
class Schedule:
    """A share of the learning rate for each moment of the run.

    Over the first `warmup` of the run it rises from 0 to 1; then it stays at 1 ("constant"), or falls to `last` along
    a line or half a cosine (Loshchilov, Hutter 2017, "SGDR").

    >>> Schedule("linear", last="0.1").at(0.5)
    0.55
    """

    form: Form = "constant"
    warmup: float = 0.0
    last: float = 0.0

    def __init__(self, form: Form = "constant", *, warmup: Number = 0, last: Number = 0) -> None:
        if form not in get_args(Form):
            raise InvalidParameter("form", form, f"one of {', '.join(get_args(Form))}")
        object.__setattr__(self, "form", form)
        object.__setattr__(self, "warmup", float(rational(warmup, "warmup", at_least=0, below=1)))
        object.__setattr__(self, "last", float(rational(last, "last", at_least=0, at_most=1)))

    def at(self, done: float) -> float:
        """The share where `done` of the run, between 0 and 1, is behind us."""
        if done < self.warmup:
            return done / self.warmup
        gone = (done - self.warmup) / (1 - self.warmup)
        match self.form:
            case "constant":
                return 1.0
            case "linear":
                return 1 + (self.last - 1) * gone
            case "cosine":
                return self.last + (1 - self.last) * (1 + math.cos(math.pi * gone)) / 2


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


__all__ = ["Adam", "Adaptive", "Recipe", "Sgd", "multiplier_for", "steps_for"]

_MOST_STEPS = 1 << 30


@dataclass(frozen=True, slots=True)
class Adaptive:
    """A clipping norm that follows a quantile of the gradients' norms (Andrew, Thakkar, McMahan, Ramaswamy 2021).

    The share of examples below the norm travels with the gradient, in the same noise: `share` of the squared
    sensitivity is given to it.
    """

    quantile: Fraction
    speed: Fraction
    share: Fraction

    def __init__(self, quantile: Number = "1/2", speed: Number = "1/5", share: Number = "1/100") -> None:
        object.__setattr__(self, "quantile", rational(quantile, "quantile", above=0, below=1))
        object.__setattr__(self, "speed", rational(speed, "speed", above=0, at_most=5))
        object.__setattr__(self, "share", rational(share, "share", above=0, at_most=Fraction(1, 4)))


@dataclass(frozen=True, slots=True, init=False)
class Recipe:
    """A run of DP-SGD (Abadi et al. 2016, Algorithm 1).

    rate: the chance of each example to be in a lot (Poisson sampling). lot: the public number that noisy sums are
    divided by, usually rate times the public number of examples. multiplier: the noise's standard deviation in clipping
    norms. curve: the share of the squared sensitivity that pays for a noisy learning curve; 0 for none.
    average: the decay of the running average of parameters that is returned; 0 for the last ones.
    copies: how many changed copies of an example its gradient is the mean of. memory: bytes for gradients.

    Guarantee: one run costs `loss` under "add or remove one", whatever the data are. Proof. Each step releases the sum
    over a Poisson sample of vectors of norm at most one clipping norm (`training.contributions`), plus Gaussian noise
    of `multiplier` clipping norms, rounded: SampledGaussian(rate, multiplier). The next clipping norm, parameters and
    learning curve are computed from what was released before: adaptive composition, Repeated.
    """

    rate: Fraction
    lot: Fraction
    steps: int
    multiplier: Fraction
    clip: Fraction
    optimizer: Optimizer
    adaptive: Adaptive | None
    per_layer: bool
    curve: Fraction
    worst_loss: Fraction
    average: Fraction
    copies: int
    memory: int
    seed: int

    def __init__(
        self,
        *,
        rate: Number,
        lot: Number,
        steps: int,
        multiplier: Number,
        clip: Number,
        optimizer: Optimizer,
        adaptive: Adaptive | None = None,
        per_layer: bool = False,
        curve: Number = "1/100",
        worst_loss: Number = 5,
        average: Number = 0,
        copies: int = 1,
        memory: int = 1 << 28,
        seed: int = 1,
    ) -> None:
        values = {
            "rate": rational(rate, "rate", above=0, at_most=1),
            "lot": rational(lot, "lot", above=0),
            "steps": integer(steps, "steps", at_least=1, at_most=_MOST_STEPS),
            "multiplier": rational(multiplier, "multiplier", at_least=Fraction(1, 1 << 20), at_most=1 << 20),
            "clip": rational(clip, "clip", at_least=Fraction(1, 10**6), at_most=10**6),
            "optimizer": optimizer,
            "adaptive": adaptive,
            "per_layer": bool(per_layer),
            "curve": rational(curve, "curve", at_least=0, at_most=Fraction(1, 4)),
            "worst_loss": rational(worst_loss, "worst_loss", above=0),
            "average": rational(average, "average", at_least=0, below=1),
            "copies": integer(copies, "copies", at_least=1),
            "memory": integer(memory, "memory", at_least=1 << 20),
            "seed": integer(seed, "seed"),
        }
        if not all(callable(getattr(optimizer, verb, None)) for verb in ("memory", "step")):
            raise InvalidParameter("optimizer", optimizer, "an optimizer, such as Adam or Sgd of learning.sgd.recipe")
        if not isinstance(adaptive, Adaptive | None):
            raise InvalidParameter("adaptive", adaptive, "learning.sgd.recipe.Adaptive, or None")
        if adaptive is not None and per_layer:
            raise InvalidParameter("adaptive", adaptive, "one of adaptive and per_layer, not both")
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @classmethod
    def for_budget(
        cls,
        *,
        epsilon: Number,
        delta: Number,
        rate: Number,
        examples: Number,
        steps: int | None = None,
        epochs: Number | None = None,
        multiplier: Number | None = None,
        beside: Loss | None = None,
        **settings: Any,
    ) -> "Recipe":
        """A recipe that ends where the budget ends. `examples` is a public number: how many there are, about.

        With `steps` (or `epochs`, each 1/rate steps) the least multiplier is found by numerical accounting; with a
        `multiplier` the most steps. `beside` is what is spent on the same data besides the training, a private
        projection say. A wrong `examples` costs accuracy, never privacy.

        >>> run = Recipe.for_budget(
        ...     epsilon=2, delta="1e-5", rate="0.01", epochs=10, examples=60_000, clip=1, optimizer=Sgd("0.25")
        ... )
        >>> run.steps, plain(run.lot), round(float(run.multiplier), 2)
        (1000, '600', 0.96)
        """
        share = rational(rate, "rate", above=0, at_most=1)
        lot = share * rational(examples, "examples", at_least=1)
        budget = (rational(epsilon, "epsilon", above=0), rational(delta, "delta", above=0, below=1))
        count = _steps(steps, epochs, share)
        if (count is None) == (multiplier is None):
            raise InvalidParameter("steps", steps, "one of steps, epochs and multiplier", "the budget decides the rest")
        if count is None:
            noise = rational(multiplier, "multiplier", above=0)  # type: ignore[arg-type]
            count = steps_for(*budget, share, noise, beside)
        else:
            count = integer(count, "steps", at_least=1, at_most=_MOST_STEPS)  # before it takes long to account for them
            noise = multiplier_for(*budget, share, count, beside)
        return cls(rate=share, lot=lot, steps=count, multiplier=noise, **settings)

    @property
    def loss(self) -> Repeated:
        """What the whole run costs."""
        return Repeated(SampledGaussian(self.rate, self.multiplier), self.steps)

    @property
    def riders(self) -> tuple[Fraction, ...]:
        """The shares of the squared sensitivity that pay for the learning curve and for the adaptive norm."""
        return (self.curve, self.adaptive.share if self.adaptive else Fraction(0))

    def words(self) -> str:
        """The run in a sentence.

        >>> Recipe(rate="0.01", lot=600, steps=1000, multiplier="1.1", clip=1, optimizer=Sgd("0.25")).words()
        '1,000 steps on lots of about 600; each example is in a lot with chance 0.01; noise of 1.1 clipping norms of 1'
        """
        return (
            f"{self.steps:,} steps on lots of about {plain(self.lot)}; each example is in a lot with chance "
            f"{plain(self.rate)}; noise of {float(self.multiplier):.6g} clipping norms of {plain(self.clip)}"
        )


@lru_cache(maxsize=256)
def multiplier_for(
    epsilon: Fraction, delta: Fraction, rate: Fraction, steps: int, beside: Loss | None = None
) -> Fraction:
    """The least noise for so many steps within (ε, δ), to six digits, with what is spent `beside` counted in.

    >>> round(float(multiplier_for(Fraction(2), Fraction("1e-5"), Fraction("0.01"), 1000)), 2)
    0.96
    """
    _refuse_nothing_left(epsilon, delta, beside)
    high = 2 * gaussian_multiplier(epsilon=epsilon, delta=delta, method="analytic")
    while _spent(_run(rate, high, steps, beside), delta) > epsilon:
        high *= 2
    while _spent(_run(rate, high / 2, steps, beside), delta) <= epsilon:
        high /= 2
    return least(lambda noise: _run(rate, noise, steps, beside), epsilon=epsilon, delta=delta, low=high / 2, high=high)


@lru_cache(maxsize=256)
def steps_for(
    epsilon: Fraction, delta: Fraction, rate: Fraction, multiplier: Fraction, beside: Loss | None = None
) -> int:
    """The most steps with this noise within (ε, δ).

    >>> steps_for(Fraction(2), Fraction("1e-5"), Fraction("0.01"), Fraction(1))
    1202
    """
    _refuse_nothing_left(epsilon, delta, beside)

    def fits(count: int) -> bool:
        return _spent(_run(rate, multiplier, count, beside), delta) <= epsilon

    if not fits(1):
        raise BudgetExceeded(
            f"one step with noise {float(multiplier):g} costs more than ε = {plain(epsilon)} at δ = {plain(delta)}"
        )
    low, high = 1, 2
    while high < _MOST_STEPS and fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _steps(steps: int | None, epochs: Number | None, rate: Fraction) -> int | None:
    if steps is not None and epochs is not None:
        raise InvalidParameter("steps", steps, "one of steps and epochs, not both")
    if epochs is not None:
        return max(1, round(rational(epochs, "epochs", above=0) / rate))
    return None if steps is None else integer(steps, "steps", at_least=1, at_most=_MOST_STEPS)


def _refuse_nothing_left(epsilon: Fraction, delta: Fraction, beside: Loss | None) -> None:
    """Refuse where nothing of the budget is left for the training."""
    if beside is not None and _spent(beside, delta) >= epsilon:
        raise BudgetExceeded(
            f"what is spent besides training already costs all of ε = {plain(epsilon)} at δ = {plain(delta)}; "
            "give it more noise"
        )


def _run(rate: Fraction, multiplier: Fraction, steps: int, beside: Loss | None) -> Loss:
    run = Repeated(SampledGaussian(rate, multiplier), steps)
    return run if beside is None else Together(beside, run)


def _spent(loss: Loss, delta: Fraction) -> float:
    try:
        return guarantee(loss, delta=delta).epsilon
    except NoGuarantee:
        return float("inf")
