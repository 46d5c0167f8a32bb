"""What an attacker believes, before and after each answer: Bayes' rule, p(s|o) ∝ p(o|s)·p(s), in rationals.

>>> from discreet.attacks.posterior import Belief
>>> from discreet.mechanisms import Channel
>>> coin = Channel([["3/4", "1/4"], ["1/4", "3/4"]], inputs=["ill", "well"], outputs=["yes", "no"])
>>> belief = Belief.uniform(["ill", "well"]).after(coin, "yes")
>>> belief["ill"], belief.candidates
(Fraction(3, 4), ('ill', 'well'))
"""

import math
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import Number, rational
from discreet.mechanisms.channel import Channel
from discreet.mechanisms.stochastic import position
from discreet.report import Bars, Chart

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
        found: dict[Secret, Fraction] = {}
        for secret, weight in self.weights.items():
            image = function(secret)
            found[image] = found.get(image, Fraction(0)) + weight
        return Belief(found)

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
