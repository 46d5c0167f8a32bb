"""What an attacker believes, before and after each answer: Bayes' rule, p(s|o) ∝ p(o|s)·p(s), in rationals.

>>> from discreet.attacks.answers.accumulation import Belief
>>> from discreet.mechanisms import Channel
>>> coin = Channel([["3/4", "1/4"], ["1/4", "3/4"]], inputs=["ill", "well"], outputs=["yes", "no"])
>>> belief = Belief.uniform(["ill", "well"]).after(coin, "yes")
>>> belief["ill"], belief.candidates
(Fraction(3, 4), ('ill', 'well'))

Many answers about one person: exact ones leave one candidate, randomized ones within a budget do not.

One of n people has the secret. Each answer is whether that person belongs to a random half of the population (the
people over 40, those who weigh less than 80, …), given exactly or by randomized response. The attacker keeps a
belief over the n people: a deterministic answer halves the candidates, a randomized one only weighs them.

>>> from discreet.attacks.answers.accumulation import Accumulation
>>> exact = Accumulation(people=64, answers=20, trials=200, seed=1)
>>> exact.run().verdict, Accumulation(people=64, answers=20, trials=200, seed=1, total="0.5").run().verdict
('falls', 'holds')
"""

import math
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.attacks.attack_report import AttackReport, Share
from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import Number, integer, rational, text_up
from discreet.mechanisms.channel import Channel
from discreet.mechanisms.stochastic import position
from discreet.report import Bars, Chart, Line

Secret = Hashable


@dataclass(frozen=True, slots=True)
class Belief:
    """How probable each possible secret is to the attacker: weights that sum to exactly 1.

    >>> Belief({"Don": "2/3", "Frank": "1/3"}).largest
    Fraction(2, 3)
    """

    weights: Mapping[Secret, Fraction]

    def __init__(self, weights: Mapping[Secret, Number]) -> None:
        exact = {secret: rational(weight, "a weight", at_least=0) for secret, weight in weights.items()}
        total = sum(exact.values())
        if not total:
            raise InvalidData("a belief needs a secret whose weight is above 0")
        object.__setattr__(self, "weights", MappingProxyType({s: w / total for s, w in exact.items()}))

    @classmethod
    def uniform(cls, secrets: Iterable[Secret]) -> "Belief":
        """Every secret as probable as every other."""
        return cls(dict.fromkeys(secrets, 1))

    def __getitem__(self, secret: Secret) -> Fraction:
        if secret not in self.weights:
            raise InvalidParameter("secret", secret, f"one of the {len(self.weights)} secrets of this belief")
        return self.weights[secret]

    def after(self, channel: Channel, answer: Secret) -> "Belief":
        """Bayes' rule: p(s|o) = p(o|s)·p(s) / Σ p(o|s')·p(s'). A float channel is taken at its exact binary value.

        >>> from discreet.mechanisms.channel import identity
        >>> Belief.uniform("abc").after(identity("abc"), "b").candidates
        ('b',)
        """
        column = position(answer, channel.outputs, "output")
        rows = {given: row for row, given in enumerate(channel.inputs)}
        missing = [s for s in self.weights if s not in rows]
        if missing:
            raise InvalidParameter("channel", f"{len(missing)} secrets without a row", "a row for every secret")
        joint = {s: w * Fraction(channel.matrix[rows[s], column]) for s, w in self.weights.items()}
        if not any(joint.values()):
            raise InvalidData("this answer is impossible under every secret that is still believed possible")
        return Belief(dict(joint))

    def of(self, function: Callable[[Secret], Secret]) -> "Belief":
        """The belief about something that follows from the secret.

        >>> Belief.uniform([1, 2, 3, 4]).of(lambda number: number % 2)[0]
        Fraction(1, 2)
        """
        result: dict[Secret, Fraction] = {}
        for secret, weight in self.weights.items():
            image = function(secret)
            result[image] = result.get(image, Fraction(0)) + weight
        return Belief(result)

    def that(self, event: Callable[[Secret], bool]) -> Fraction:
        """The probability that the secret is one of those.

        >>> Belief.uniform([1, 2, 3]).that(lambda number: number > 1)
        Fraction(2, 3)
        """
        return sum((w for s, w in self.weights.items() if event(s)), Fraction(0))

    @property
    def candidates(self) -> tuple[Secret, ...]:
        """The secrets that are still possible."""
        return tuple(secret for secret, weight in self.weights.items() if weight)

    @property
    def largest(self) -> Fraction:
        """The probability that the attacker's best guess is right."""
        return max(self.weights.values())

    @property
    def entropy(self) -> float:
        """Shannon's entropy in bits: 0 where the attacker is certain.

        >>> Belief.uniform(range(8)).entropy
        3.0
        """
        return sum(float(w) * math.log2(1 / w) for w in self.weights.values() if w)


def posterior_chart(beliefs: Mapping[str, Mapping[Any, Fraction]], title: str) -> Chart:
    """Probabilities side by side: a group of bars for each secret, a color for each moment.

    >>> posterior_chart({"before": Belief.uniform("ab").weights}, "Who?").title
    'Who?'
    """
    secrets = list(next(iter(beliefs.values())))
    names = [str(secret) for secret in secrets]
    bars = [Bars(names, [float(held.get(s, 0)) for s in secrets], label) for label, held in beliefs.items()]
    return Chart(title, bars, y="probability", y_range=(0, 1))


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
