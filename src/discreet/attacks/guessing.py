"""The guessing game: one of two neighboring inputs was released; which?

For any test between x and x' of an ε-DP release, Pr[guess x | x] + Pr[guess x' | x'] ≤ 2e^ε/(1+e^ε) (claim B9; Kairouz,
Oh, Viswanath 2015, Theorem 2.1): 1 is a coin's, 2 is certainty. For a finite channel the best test is known exactly,
and is measured too; for anything that can be called it is learned from one sample and measured on another.

>>> from discreet.attacks.guessing import Guessing
>>> from discreet.mechanisms import Channel
>>> coin = Channel([["3/4", "1/4"], ["1/4", "3/4"]], inputs=["yes", "no"])
>>> report = Guessing(mechanism=coin, first="yes", second="no", epsilon="1.0987", trials=2000, seed=1).run()
>>> report.facts["best test, exactly"], report.verdict
(1.5, 'holds')
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.attacks.report import AttackReport, Share
from discreet.attacks.tables import coded, columns, kind
from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import Number, integer, rational
from discreet.mechanisms.channel import Channel
from discreet.mechanisms.inference import best_test, guess_bound
from discreet.report import Chart, Line, Mark, Points

Family = Callable[[Number], Channel]
"""The channel of a mechanism at each ε."""

Codes = NDArray[np.int64]

_BINS = 64
_MOST_VALUES = 256  # different outputs that are told apart; more are put into bins


@dataclass(frozen=True, slots=True, kw_only=True)
class Guessing:
    """Guess which of two inputs was released, `trials` times for each.

    `mechanism` is a `Channel`, a mechanism with `release`, or a function of an input (with `batch`, of an input and a
    number of outputs). `epsilon` is what it claims; the baseline is then the share of right guesses that it allows,
    e^ε/(1+e^ε), and a mechanism that falls does not keep its promise. Without it the baseline is a coin.

    The success is the share of right guesses, half of (Pr[guess x | x] + Pr[guess x' | x']). Its limits are those of
    as many guesses with one probability, which errs on the wide side (Hoeffding 1956).
    """

    mechanism: Any
    first: Any
    second: Any
    epsilon: Number | None = None
    trials: int = 10_000
    seed: int = 0
    batch: bool = False
    family: Family | None = None
    epsilons: Sequence[Number] = ("0.1", "0.25", "0.5", "1", "1.5", "2", "3", "4", "5")
    against: str = "the mechanism"
    confidence: float = 0.95

    def run(self) -> AttackReport:
        """Play, and judge."""
        count = integer(self.trials, "trials", at_least=1)
        rng = np.random.default_rng(integer(self.seed, "seed", at_least=0))
        if self.epsilon is not None:
            rational(self.epsilon, "epsilon", at_least=0)
        right = self._by_channel(count, rng) if isinstance(self.mechanism, Channel) else self._by_calls(count)
        success = Share.counted(right, 2 * count, confidence=self.confidence)
        allowed = 0.5 if self.epsilon is None else guess_bound(self.epsilon) / 2
        return AttackReport(
            attack="guessing game",
            against=self.against,
            goal="guess which of two inputs was released"
            + ("" if self.epsilon is None else ", more often than ε allows"),
            people=2 * count,
            success=success,
            baseline=Share.known(min(1.0, allowed)),
            confidence=self.confidence,
            facts=self._facts(success),
            charts=(self._chart(success),),
            remarks=()
            if self.epsilon is None
            else ("The baseline is what ε allows, e^ε/(1+e^ε); a coin is right in half of the cases.",),
        )

    def _by_channel(self, count: int, rng: np.random.Generator) -> int:
        """How often the best test is right, on outputs drawn from the channel."""
        pair = self.mechanism.restrict([self.first, self.second]).as_float().matrix
        says_first = pair[0] > pair[1]
        hits = 0
        for row, says in zip(pair, (says_first, ~says_first), strict=True):
            hits += int(says[rng.choice(len(row), count, p=row / row.sum())].sum())
        return hits

    def _by_calls(self, count: int) -> int:
        """How often a test learned from one half of the outputs is right on the other half."""
        outputs = [self._draw(value, 2 * count) for value in (self.first, self.second)]
        a, b = _classes(*outputs)
        seen = [np.bincount(side[:count], minlength=int(max(a.max(), b.max())) + 1) for side in (a, b)]
        says_first = seen[0] > seen[1]
        return int(says_first[a[count:]].sum() + (~says_first)[b[count:]].sum())

    def _draw(self, value: Any, count: int) -> NDArray[Any]:
        release = getattr(self.mechanism, "release", self.mechanism)
        if not callable(release):
            expected = "a Channel, a mechanism with release, or a function"
            raise InvalidParameter("mechanism", self.mechanism, expected)
        drawn = release(value, count) if self.batch else [release(value) for _ in range(count)]
        outputs = columns({"output": list(drawn)}, where="outputs")["output"]
        if len(outputs) != count:
            raise InvalidData(f"mechanism: got {len(outputs)} outputs, expected {count}")
        return outputs

    def _facts(self, success: Share) -> dict[str, Any]:
        facts: dict[str, Any] = {}
        if isinstance(self.mechanism, Channel):
            facts["best test, exactly"] = float(best_test(self.mechanism, self.first, self.second))
            facts["ε of these two inputs"] = self.mechanism.restrict([self.first, self.second]).epsilon("all")
        facts["Pr[guess x | x] + Pr[guess x' | x'], measured"] = 2 * success.value
        facts["at least, at most"] = (2 * success.low, 2 * success.high)
        if self.epsilon is not None:
            facts["at most 2e^ε/(1+e^ε)"] = guess_bound(self.epsilon)
        return facts

    def _chart(self, success: Share) -> Chart:
        measured: list[Mark] = []
        if self.epsilon is not None:
            at, low, high = [float(rational(self.epsilon, "epsilon"))], [2 * success.low], [2 * success.high]
            measured = [Points(at, [2 * success.value], "measured", low=low, high=high)]
        return curve(self.family, self.first, self.second, epsilons=self.epsilons, more=measured)


def curve(
    family: Family | None, first: Any, second: Any, *, epsilons: Sequence[Number], more: Sequence[Mark] = ()
) -> Chart:
    """The best test of a family of channels over ε, beside the bound.

    >>> from discreet.mechanisms import RandomizedResponse
    >>> family = lambda epsilon: RandomizedResponse.for_epsilon(epsilon=epsilon).channel()
    >>> chart = curve(family, False, True, epsilons=["0.5", "1"])
    >>> [round(float(y), 3) for y in chart.marks[1].y]  # randomized response reaches the bound
    [1.245, 1.462]
    """
    exact = [rational(epsilon, "epsilons", at_least=0) for epsilon in epsilons]
    if not exact:
        raise InvalidParameter("epsilons", list(epsilons), "at least one ε")
    dense = np.linspace(0, float(max(exact)), 101)
    marks: list[Mark] = [Line(dense, [2 / (1 + math.exp(-x)) for x in dense], "bound 2e^ε/(1+e^ε)", dashed=True)]
    if family is not None:
        best = [float(best_test(family(epsilon), first, second)) for epsilon in exact]
        marks.append(Line([float(epsilon) for epsilon in exact], best, "best test, exactly"))
    return Chart(
        "The guessing game", [*marks, *more], x="ε", y="Pr[guess x | x] + Pr[guess x' | x']", y_range=(1.0, 2.0)
    )


def _classes(a: NDArray[Any], b: NDArray[Any]) -> tuple[Codes, Codes]:
    """Outputs as classes that are told apart: their values, or bins of equal size where there are many."""
    codes = coded(a, b)
    most = int(max(side.max() for side in codes)) + 1
    if most <= _MOST_VALUES or "text" in (kind(a), kind(b)):
        return codes[0] + 1, codes[1] + 1  # 0: missing
    half = np.concatenate([side[: len(side) // 2].astype(np.float64) for side in (a, b)])
    edges = np.unique(np.nanquantile(half, np.linspace(0, 1, _BINS + 1)[1:-1]))
    return np.searchsorted(edges, a.astype(np.float64)), np.searchsorted(edges, b.astype(np.float64))
