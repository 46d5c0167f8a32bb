"""Many answers about one person: exact ones leave one candidate, randomized ones within a budget do not (claim A8).

One of n people has the secret. Each answer is whether that person belongs to a random half of the population (the
people over 40, those who weigh less than 80, …), given exactly or by randomized response. The attacker keeps a
belief over the n people: a deterministic answer halves the candidates, a randomized one only weighs them.

>>> from discreet.attacks.accumulation import Accumulation
>>> exact = Accumulation(people=64, answers=20, trials=200, seed=1)
>>> exact.run().verdict, Accumulation(people=64, answers=20, trials=200, seed=1, total="0.5").run().verdict
('falls', 'holds')
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.attacks.report import AttackReport, Share
from discreet.errors import InvalidParameter
from discreet.exact import Number, integer, rational, text_up
from discreet.report import Chart, Line

Floats = NDArray[np.float64]
_MOST_CELLS = 200_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Accumulation:
    """Yes-or-no answers about who of `people` has the secret, on generated populations.

    Answers are exact, or by randomized response (Warner 1965) at `each` ε for every answer, or at ε `total` for all
    of them together, as behind a curator. A population and a person are drawn anew for each trial.
    """

    people: int
    answers: int
    trials: int
    seed: int
    each: Number | None = None
    total: Number | None = None
    confidence: float = 0.95

    def run(self) -> AttackReport:
        """Ask all questions in every trial; the attacker names the person with the largest posterior."""
        curves = self.curves()
        hits = int(curves.named[:, -1].sum())
        last = {name: f"{value:.4g}" for name, value in curves.last().items()}
        return AttackReport(
            attack="accumulation of answers",
            against=self.words,
            goal="name the person who has the secret",
            people=self.trials,
            success=Share.counted(hits, self.trials, confidence=self.confidence),
            baseline=Share.known(1 / self.people),
            confidence=self.confidence,
            facts={"candidates": self.people, "answers": self.answers, **last},
            charts=curves.charts(self.words),
        )

    @property
    def words(self) -> str:
        """How answers are given."""
        if self.epsilon is None:
            return "deterministic answers"
        if self.each is not None:
            return f"randomized answers at ε {text_up(rational(self.each, 'each'), 4)} each, no ledger"
        return f"randomized answers at ε {text_up(rational(self.total or 0, 'total'), 4)} for all together"

    @property
    def epsilon(self) -> float | None:
        """ε of one answer; None if answers are exact."""
        if self.each is not None and self.total is not None:
            raise InvalidParameter("each, total", "both", "one of them, or none")
        if self.each is not None:
            return float(rational(self.each, "each", above=0, at_most=100))
        if self.total is not None:
            return float(rational(self.total, "total", above=0, at_most=10_000)) / self.answers
        return None

    def curves(self) -> "Curves":
        """Candidates, entropy, best guess and whether it is right: one row a trial, one column a number of answers."""
        self._check()
        rng = np.random.default_rng(self.seed)
        return Curves.of([self._trial(rng) for _ in range(self.trials)])

    def _trial(self, rng: np.random.Generator) -> Floats:
        """Rows: candidates, entropy, largest, named; columns: after 0, 1, … answers. The person is number 0."""
        halves = rng.random((self.answers, self.people)) < 0.5
        truth, epsilon = halves[:, 0], self.epsilon
        lie = 0.0 if epsilon is None else 1 / (1 + math.exp(epsilon))
        given = truth ^ (rng.random(self.answers) < lie)
        agrees = halves == given[:, None]
        with np.errstate(divide="ignore"):
            step = np.where(agrees, np.log1p(-lie), np.log(lie))
        weights = np.vstack([np.zeros(self.people), np.cumsum(step, axis=0)])
        belief = np.exp(weights - weights.max(axis=1, keepdims=True))
        belief /= belief.sum(axis=1, keepdims=True)
        logs = np.log2(belief, out=np.zeros_like(belief), where=belief > 0)
        largest = belief.max(axis=1)
        tied = np.isclose(belief, largest[:, None], rtol=1e-9, atol=0)
        named = tied[:, 0] & (rng.random(len(tied)) < 1 / tied.sum(axis=1))
        possible = np.isfinite(weights).sum(axis=1)
        return np.vstack([possible, -(belief * logs).sum(axis=1), largest, named])

    def _check(self) -> None:
        integer(self.people, "people", at_least=2)
        integer(self.answers, "answers", at_least=1)
        integer(self.trials, "trials", at_least=1)
        integer(self.seed, "seed", at_least=0)
        if self.people * self.answers > _MOST_CELLS:
            raise InvalidParameter("people × answers", self.people * self.answers, f"at most {_MOST_CELLS}")


@dataclass(frozen=True, slots=True, eq=False)
class Curves:
    """What is known after 0, 1, … answers: a row for each trial, a column for each number of answers."""

    candidates: Floats
    entropy: Floats
    largest: Floats
    named: Floats

    @classmethod
    def of(cls, trials: list[Floats]) -> "Curves":
        """Curves from the rows of every trial."""
        return cls(*np.stack(trials, axis=1))

    def mean(self, name: str) -> Floats:
        """The mean over trials of one of the four."""
        values: Floats = getattr(self, name).mean(axis=0)
        return values

    def last(self) -> dict[str, Any]:
        """The means after all answers, by readable names."""
        return {
            "possible people at the end, mean": float(self.mean("candidates")[-1]),
            "bits of doubt at the end, mean": float(self.mean("entropy")[-1]),
            "largest posterior at the end, mean": float(self.mean("largest")[-1]),
        }

    def charts(self, label: str) -> tuple[Chart, ...]:
        """Candidates and largest posterior against the number of answers."""
        return accumulation_charts({label: self})


def accumulation_charts(curves: dict[str, Curves]) -> tuple[Chart, Chart, Chart]:
    """Several ways of answering in one picture: possible people, bits of doubt and the best guess, after each answer.

    >>> exact = Accumulation(people=8, answers=5, trials=3, seed=0)
    >>> [chart.y for chart in accumulation_charts({"exact": exact.curves()})]
    ['possible people', 'bits of doubt', 'largest posterior']
    """

    def chart(name: str, title: str, y: str, **more: Any) -> Chart:
        lines = [Line(np.arange(c.candidates.shape[1]), c.mean(name), label) for label, c in curves.items()]
        return Chart(title, lines, x="answers", y=y, **more)

    return (
        chart("candidates", "People who may still be the one", "possible people", log_y=True),
        chart("entropy", "How much is still unknown", "bits of doubt"),
        chart("largest", "How sure the best guess is", "largest posterior", y_range=(0, 1)),
    )
