"""Learning curves, and what a run costs as it goes on, drawn.

>>> from discreet.learning.curves import cost_chart, learning_chart
>>> learning_chart([2.3, 1.9, 1.4, 1.2], noise=0.1).title
'Loss on the lots, with noise'
"""

import math
import sys
from collections.abc import Sequence
from fractions import Fraction
from typing import TextIO

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidData
from discreet.exact import Number, integer, plain, rational
from discreet.learning.recipe import Recipe
from discreet.privacy.accounting import composition, guarantee, pld, rdp
from discreet.privacy.loss import Approximate, Repeated, SampledGaussian
from discreet.report import Chart, Line

Floats = NDArray[np.float64]


def learning_chart(losses: Sequence[float], *, noise: float = 0.0) -> Chart:
    """A noisy learning curve as a running mean over a twentieth of the run, with two deviations of its noise around.

    `noise` is the standard deviation of one step's loss: `curve_noise(recipe)`.
    """
    if not len(losses):
        raise InvalidData("there is no learning curve: give the recipe a share for it, curve > 0")
    values = np.asarray(losses, np.float64)
    means, counts = running_mean(values, max(1, len(values) // 20))
    spread = 2 * noise / np.sqrt(counts)
    steps = np.arange(1, len(values) + 1)
    line = Line(steps, means, "mean loss", low=means - spread, high=means + spread)
    return Chart("Loss on the lots, with noise", [line], x="step", y="mean loss")


def curve_noise(recipe: Recipe) -> float:
    """The standard deviation of the noise in one step of the learning curve.

    >>> from discreet.learning.recipe import Sgd
    >>> round(curve_noise(Recipe(rate="0.1", lot=100, steps=9, multiplier=2, clip=1, optimizer=Sgd(1))), 3)
    1.0
    """
    return float(recipe.multiplier * recipe.worst_loss / recipe.lot) / math.sqrt(recipe.curve) if recipe.curve else 0.0


def running_mean(values: Floats, width: int) -> tuple[Floats, Floats]:
    """The mean of the last `width` values at each place, and of how many there are.

    >>> running_mean(np.array([1.0, 3.0, 5.0]), 2)[0].tolist()
    [1.0, 2.0, 4.0]
    """
    sums = np.concatenate([np.zeros(1), np.cumsum(values)])
    ends = np.arange(1, len(values) + 1)
    starts = np.maximum(ends - width, 0)
    counts = (ends - starts).astype(np.float64)
    return (sums[ends] - sums[starts]) / counts, counts


def costs(*, rate: Number, multiplier: Number, delta: Number, steps: Sequence[int]) -> dict[str, list[float]]:
    """ε of a run after each number of steps, by four kinds of accounting.

    Basic and advanced composition (Dwork, Rothblum, Vadhan 2010) are given the best that they can use: the exact ε of
    one step, sampling included, at the δ that is left for it: the whole, or half of it, shared out among the steps.

    >>> found = costs(rate="0.01", multiplier=4, delta="1e-5", steps=[10_000])
    >>> {name: round(values[0], 2) for name, values in found.items()}
    {'basic': 223.49, 'advanced': 14.34, 'moments (RDP)': 1.04, 'numerical (PLD)': 0.95}
    """
    step = SampledGaussian(rate, multiplier)
    at = rational(delta, "delta", above=0, below=1)
    found: dict[str, list[float]] = {"basic": [], "advanced": [], "moments (RDP)": [], "numerical (PLD)": []}
    for count in steps:
        run = Repeated(step, integer(count, "steps", at_least=1))
        each = at / (2 * count)
        single = Approximate(guarantee(step, delta=each).epsilon, each)
        found["basic"].append(count * guarantee(step, delta=at / count).epsilon)
        found["advanced"].append(composition.advanced(Repeated(single, count), delta=at))
        found["moments (RDP)"].append(rdp.epsilon(rdp.curve(run), delta=at))
        found["numerical (PLD)"].append(pld.epsilon(run, delta=at))
    return found


def cost_chart(*, rate: Number, multiplier: Number, delta: Number, steps: int, points: int = 12) -> Chart:
    """ε against the number of steps, on logarithmic axes: √T has slope one half (claim D2)."""
    last = integer(steps, "steps", at_least=10)
    places = sorted({round(place) for place in np.geomspace(max(1, last // 1000), last, points)})
    found = costs(rate=rate, multiplier=multiplier, delta=delta, steps=places)
    share, noise = (float(rational(value, name)) for value, name in ((rate, "rate"), (multiplier, "multiplier")))
    shape = [found["numerical (PLD)"][-1] * math.sqrt(place / last) for place in places]
    lines = [Line(places, values, name) for name, values in found.items()]
    title = f"What training costs: rate {share:g}, noise {noise:g}, δ = {plain(rational(delta, 'delta'))}"
    return Chart(title, [*lines, Line(places, shape, "∝ √steps", dashed=True)], "steps", "ε", log_x=True, log_y=True)


class Bar:
    """A line on a terminal that says how far a run is; on anything else it is silent.

    >>> Bar(10).show(5, 0.3)
    """

    def __init__(self, steps: int, stream: TextIO | None = None) -> None:
        self._steps, self._stream = steps, sys.stderr if stream is None else stream
        self._shown = -1
        self._on = hasattr(self._stream, "isatty") and self._stream.isatty()

    def show(self, step: int, loss: float | None = None) -> None:
        """Draw it anew if a hundredth of the run has passed."""
        part = 100 * step // self._steps
        if not self._on or part == self._shown:
            return
        self._shown = part
        filled = "█" * (30 * step // self._steps)
        words = "" if loss is None else f"  noisy loss {loss:.3f}"
        end = "\n" if step >= self._steps else ""
        self._stream.write(f"\rtraining {filled:<30} {part:3d} %  step {step} of {self._steps}{words}   {end}")
        self._stream.flush()


def smoothed(losses: Sequence[float], share: Fraction = Fraction(1, 20)) -> float:
    """The mean of the last part of a noisy curve.

    >>> smoothed([9.0, 2.0, 1.0], Fraction(2, 3))
    1.5
    """
    count = max(1, int(len(losses) * share))
    return float(np.mean(losses[-count:])) if len(losses) else math.nan
