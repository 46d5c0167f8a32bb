"""How many secret bits come back, against the noise and against the budget: the curves of claim A9.

>>> from discreet.attacks.recovery import against_noise
>>> curve = against_noise(people=100, questions=400, ratios=[0, 5], seed=1)
>>> curve.shares[0].value, curve.shares[1].value < 0.7
(1.0, True)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt

import numpy as np

from discreet.attacks.reconstruction import Bits, Floats, Reconstruction, random_subsets
from discreet.attacks.report import Share
from discreet.errors import InvalidParameter
from discreet.exact import Number, integer, rational
from discreet.mechanisms.additive import Geometric
from discreet.noise import DeterministicEntropy
from discreet.report import Chart, Line


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """Shares of recovered bits along an axis, beside what guessing from the marginal gives."""

    words: str
    axis: str
    values: tuple[float, ...]
    shares: tuple[Share, ...]
    guessing: float

    def chart(self) -> Chart:
        """The curve with its intervals; values of 0 stand where a logarithmic axis has no place, and are left out."""
        kept = [(v, s) for v, s in zip(self.values, self.shares, strict=True) if v > 0]
        x = [v for v, _ in kept]
        line = Line(x, [s.value for _, s in kept], "attack", [s.low for _, s in kept], [s.high for _, s in kept])
        flat = Line(x, [self.guessing] * len(x), "guessing from the marginal", dashed=True)
        return Chart(self.words, [line, flat], x=self.axis, y="bits recovered", log_x=True, y_range=(0, 1))


def against_noise(
    *,
    people: int,
    questions: int,
    ratios: Sequence[float],
    seed: int,
    rate: float = 0.5,
    method: str = "least squares",
    confidence: float = 0.95,
) -> Recovery:
    """Random subset questions with geometric noise of scale ratio·√n each, on generated bits of the given rate."""
    root = Fraction(sqrt(integer(people, "people", at_least=2))).limit_denominator(10**6)
    scales = [rational(ratio, "ratios", at_least=0) * root for ratio in ratios]
    shares, guessing = _recover(people, questions, scales, seed, rate, method, confidence)
    return Recovery(
        words=f"{people} people, {questions} questions, {method}",
        axis="noise of each answer / √n",
        values=tuple(float(ratio) for ratio in ratios),
        shares=shares,
        guessing=guessing,
    )


def against_budget(
    *,
    people: int,
    questions: int,
    epsilons: Sequence[Number],
    seed: int,
    rate: float = 0.5,
    method: str = "least squares",
    confidence: float = 0.95,
) -> Recovery:
    """The same behind a curator that splits a total ε evenly: noise of scale questions/ε on each answer.

    >>> curve = against_budget(people=100, questions=200, epsilons=[1, 2000], seed=1)
    >>> curve.shares[0].value < 0.7, curve.shares[1].value > 0.95
    (True, True)
    """
    totals = [rational(epsilon, "epsilons", above=0) for epsilon in epsilons]
    scales = [questions / total for total in totals]
    shares, guessing = _recover(people, questions, scales, seed, rate, method, confidence)
    return Recovery(
        words=f"{people} people, {questions} questions, {method}",
        axis="ε in all",
        values=tuple(float(total) for total in totals),
        shares=shares,
        guessing=guessing,
    )


def population(people: int, rate: float, seed: int) -> Bits:
    """Secret bits, each 1 with the given probability.

    >>> int(population(1000, 0.2, 5).sum())
    198
    """
    if not 0 <= rate <= 1:
        raise InvalidParameter("rate", rate, "a number between 0 and 1")
    size = integer(people, "people", at_least=1)
    return np.random.default_rng([integer(seed, "seed", at_least=0), 1]).random(size) < rate


def _recover(
    people: int,
    questions: int,
    scales: Sequence[Fraction],
    seed: int,
    rate: float,
    method: str,
    confidence: float,
) -> tuple[tuple[Share, ...], float]:
    secret = population(people, rate, seed)
    subsets = random_subsets(questions, people=people, seed=seed)
    truth = subsets.astype(np.float64) @ secret
    reports = [
        Reconstruction(
            subsets=subsets,
            truth=secret,
            answers=_noisy(truth, scale, seed),
            scale=scale,
            method=method,
            confidence=confidence,
        ).run()
        for scale in scales
    ]
    return tuple(report.success for report in reports), reports[0].baseline.value if reports else 0.5


def _noisy(truth: Floats, scale: Fraction, seed: int) -> Floats:
    if not scale:
        return truth
    noise = Geometric(epsilon=1 / scale, sensitivity=1)
    return np.asarray(noise.release(truth.astype(np.int64), entropy=DeterministicEntropy(seed)), np.float64)
