"""Why "no harm whatsoever" cannot be promised, and what can: the comparison is with and without *your* row.

Dalenius asked in 1977 that nothing be learned about a person from a release; Dwork and Naor 2010 show that auxiliary
information makes this impossible for every useful release. Two examples, computed: whoever knows that a person is so
much taller than the average learns the height from the average, and a study that finds that smoking causes cancer
harms smokers at their insurer. Both happen to people who are in no data at all; differential privacy promises that
taking part changes the chance of each such inference by a factor of at most e^ε.

>>> from discreet.gallery.harm import Heights, Smoking
>>> report = Heights(people=2000, epsilon=1, seed=1).run()
>>> report.success.value > 0.9, report.control.value > 0.9, report.baseline.value, report.verdict
(True, True, 0.0, 'holds')
>>> study = Smoking(smokers=100, ill=60, others=100, others_ill=10, epsilon="0.5")
>>> study.with_you.inference > 1.5 * study.before, study.ratio <= study.allowed
(True, True)

Attacks against answers at an ε of choice: what a visitor turns, to see when an attack begins to work.

>>> from discreet.gallery.harm import DIALS
>>> [DIALS["guessing"](epsilon, seed=1).verdict for epsilon in ("0.1", "5")]
['holds', 'holds']
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from discreet.attacks.answers.accumulation import Accumulation
from discreet.attacks.answers.answerers import Noisy, Raw
from discreet.attacks.answers.averages import Averaging, Differencing, pairs_about
from discreet.attacks.answers.reconstruction import Reconstruction, random_subsets
from discreet.attacks.attack_report import AttackReport, Share
from discreet.attacks.audit.targets import Guessing
from discreet.errors import InvalidParameter
from discreet.exact import Number, exp_up, integer, rational, text_up
from discreet.mechanisms.additive import Geometric
from discreet.mechanisms.optimal import geometric_channel
from discreet.mechanisms.randomized_response import KRR
from discreet.noise import DeterministicEntropy
from discreet.report import Bars, Chart

_TALLEST = 250  # centimeters: heights are clamped to 0 … this


@dataclass(frozen=True, slots=True, kw_only=True)
class Heights:
    """A private average of heights, and an attacker who knows how much taller than the average each person is.

    Half of the generated `people` are in the study; the other half are not, and are the control. The attacker, who
    thinks the average is `believed` centimeters before it is published, adds what is known to the average.
    """

    people: int
    epsilon: Number
    seed: int
    average: int = 171
    believed: int = 160
    within: int = 1
    confidence: float = 0.95

    def run(self) -> AttackReport:
        """Publish the average of the half that takes part; infer everybody's height, taking part or not."""
        heights = self._population()
        inside, outside = np.split(heights, [len(heights) // 2])
        released = self._publish(inside)
        known = heights - heights.mean()  # the auxiliary information: "five centimeters below the average"
        result, guessed = (np.abs(center + known - heights) <= self.within for center in (released, self.believed))
        taking, absent = np.split(result, [len(heights) // 2])
        return AttackReport(
            attack="inference from an average",
            against=f"an average at ε {text_up(self._epsilon, 4)}",
            goal=f"know a person's height within {self.within} cm",
            people=len(inside),
            success=Share.counted(int(taking.sum()), len(inside), confidence=self.confidence),
            control=Share.counted(int(absent.sum()), len(outside), confidence=self.confidence),
            baseline=Share.known(float(guessed.mean())),
            confidence=self.confidence,
            facts={
                "released average, cm": f"{released:.2f}",
                "largest factor by which your row changes any outcome": f"{self.largest_factor(inside):.6g}",
                "allowed factor e^ε": text_up(exp_up(self._epsilon)),
            },
            remarks=(
                "The height of a person who took no part is learned just as well: not taking part does not help.",
            ),
        )

    def largest_factor(self, heights: NDArray[np.int64]) -> float:
        """The largest ratio of the probabilities of a released sum, with the tallest person's row and without."""
        noise = self._noise()
        tallest = int(heights.max())
        shifts = np.arange(-3 * _TALLEST, 3 * _TALLEST + 1).tolist()
        ratios = [noise.probability(k) / noise.probability(k + tallest) for k in shifts]
        return max(*ratios, 1 / min(ratios))

    @property
    def _epsilon(self) -> Fraction:
        return rational(self.epsilon, "epsilon", above=0, at_most=10_000)

    def _noise(self) -> Geometric:
        return Geometric(epsilon=self._epsilon, sensitivity=_TALLEST)

    def _publish(self, heights: NDArray[np.int64]) -> float:
        entropy = DeterministicEntropy(self.seed)
        return float(self._noise().release(int(heights.sum()), entropy=entropy)) / len(heights)

    def _population(self) -> NDArray[np.int64]:
        size = integer(self.people, "people", at_least=2)
        rng = np.random.default_rng(integer(self.seed, "seed", at_least=0))
        return np.clip(np.rint(rng.normal(self.average, 9, size)), 0, _TALLEST).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the insurer makes of a study: the expected risk it puts on you, and the chance that it puts you up."""

    inference: float
    chance: Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class Smoking:
    """A study of smoking and cancer, released as two private counts, and you: a smoker, who may take part or not.

    `smokers` of whom `ill`, `others` of whom `others_ill`; the sizes are public. With your row there is one more
    smoker who is ill. Before the study the insurer puts everybody at the risk of the whole; afterwards at that of the
    smokers, as released by the truncated geometric mechanism, in rationals. It raises your premium when that is above
    `threshold`.
    """

    smokers: int
    ill: int
    others: int
    others_ill: int
    epsilon: Number
    threshold: Number = "1/2"
    trials: int = 2000
    seed: int = 0
    confidence: float = 0.95

    def run(self) -> AttackReport:
        """The chance that the study harms you: taking part, not taking part, and without any study."""
        self._check()
        taking, absent = self.with_you, self.without_you
        return AttackReport(
            attack="inference from a study",
            against=f"counts at ε {text_up(self._epsilon, 4)}",
            goal="have reason to raise a smoker's premium",
            people=self.trials,
            success=self._count(taking, 1),
            control=self._count(absent, 2),
            baseline=Share.known(float(self.before > rational(self.threshold, "threshold"))),
            confidence=self.confidence,
            facts={
                "exact chance of it, with your row": f"{float(taking.chance):.6g}",
                "exact chance of it, without your row": f"{float(absent.chance):.6g}",
                "risk put on you before the study": f"{float(self.before):.4g}",
                "after it, without your row": f"{absent.inference:.4g}",
                "after it, with your row": f"{taking.inference:.4g}",
                "largest factor by which your row changes any outcome": f"{float(self.ratio):.6g}",
                "allowed factor e^ε": text_up(self.allowed),
            },
            charts=(self.chart(),),
            remarks=("The study harms you whether you take part or not; your own row adds next to nothing.",),
        )

    @property
    def before(self) -> Fraction:
        """The share of ill people in the whole study, which the insurer would put on anybody."""
        return Fraction(self.ill + self.others_ill, self.smokers + self.others)

    @property
    def with_you(self) -> Outcome:
        """What is inferred when your row, a smoker who is ill, is among the smokers."""
        return self._outcome(self.ill + 1)

    @property
    def without_you(self) -> Outcome:
        """What is inferred about you when your row is not there."""
        return self._outcome(self.ill)

    @property
    def ratio(self) -> Fraction:
        """The largest ratio of probabilities of a released count, with your row and without, either way round."""
        first, second = (self._released(count) for count in (self.ill + 1, self.ill))
        return max(max(p / q, q / p) for p, q in zip(first, second, strict=True))

    @property
    def allowed(self) -> Fraction:
        """e^ε, rounded up."""
        return exp_up(self._epsilon)

    def chart(self) -> Chart:
        """The risk that the insurer puts on you."""
        risks = [float(self.before), self.without_you.inference, self.with_you.inference]
        names = ["without a study", "study without you", "study with you"]
        return Chart("The risk an insurer puts on a smoker", [Bars(names, risks)], y="risk", y_range=(0, 1))

    @property
    def _epsilon(self) -> Fraction:
        return rational(self.epsilon, "epsilon", above=0, at_most=100)

    def _released(self, count: int) -> list[Fraction]:
        """P(released count = z) for z = 0 … smokers + 1."""
        return list(geometric_channel(self.smokers + 1, self._epsilon).matrix[count])

    def _outcome(self, count: int) -> Outcome:
        released, people = self._released(count), self.smokers + 1
        limit = rational(self.threshold, "threshold")
        mean = sum(p * z for z, p in enumerate(released)) / people
        chance = sum((p for z, p in enumerate(released) if Fraction(z, people) > limit), Fraction(0))
        return Outcome(float(mean), chance)

    def _count(self, outcome: Outcome, stream: int) -> Share:
        """The chance as it is seen in so many studies."""
        hits = np.random.default_rng([self.seed, stream]).binomial(self.trials, float(outcome.chance))
        return Share.counted(int(hits), self.trials, confidence=self.confidence)

    def _check(self) -> None:
        integer(self.trials, "trials", at_least=1)
        integer(self.seed, "seed", at_least=0)
        for name, part, whole in (("ill", self.ill, self.smokers), ("others_ill", self.others_ill, self.others)):
            integer(whole, "smokers, others", at_least=1, at_most=500)
            if not 0 <= integer(part, name) <= whole:
                raise InvalidParameter(name, part, f"a whole number from 0 to {whole}")


Dial = Callable[..., AttackReport]

_PEOPLE = 3000  # many, so that there is little doubt where it holds


def _accumulation(epsilon: str, *, seed: int) -> AttackReport:
    return Accumulation(people=200, answers=40, trials=100, seed=seed, total=epsilon).run()


def _averaging(epsilon: str, *, seed: int) -> AttackReport:
    secret = _secret(_PEOPLE, seed)
    answerer = Noisy(Raw(secret), epsilon=epsilon, seed=seed)
    questions = [[[person]] for person in range(_PEOPLE)]
    return Averaging(questions=questions, truth=secret, answerer=answerer, epsilon=epsilon, possible=(0, 1)).run()


def _differencing(epsilon: str, *, seed: int) -> AttackReport:
    secret = _secret(_PEOPLE, seed)
    pairs = pairs_about(range(_PEOPLE), of=_PEOPLE, groups=1, seed=seed)
    answerer = Noisy(Raw(secret), epsilon=Fraction(epsilon) / 2, seed=seed)
    return Differencing(pairs=pairs, truth=secret, answerer=answerer, epsilon=epsilon).run()


def _guessing(epsilon: str, *, seed: int) -> AttackReport:
    response = KRR(epsilon=epsilon, size=2).channel()
    return Guessing(mechanism=response, first=0, second=1, epsilon=epsilon, trials=5000, seed=seed).run()


def _harm(epsilon: str, *, seed: int) -> AttackReport:
    return Heights(people=2000, epsilon=epsilon, seed=seed).run()


def _reconstruction(epsilon: str, *, seed: int) -> AttackReport:
    people = questions = 1500
    secret = _secret(people, seed)
    answerer = Noisy(Raw(secret), epsilon=Fraction(epsilon) / questions, seed=seed)
    subsets = random_subsets(questions, people=people, seed=seed)
    scale, against = questions / float(epsilon), f"ε {epsilon} for all answers"
    return Reconstruction(subsets=subsets, truth=secret, answerer=answerer, scale=scale, against=against).run()


def _secret(people: int, seed: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.random.default_rng(seed).random(people) < 0.3


DIALS: Mapping[str, Dial] = {
    "accumulation": _accumulation,
    "averaging": _averaging,
    "differencing": _differencing,
    "guessing": _guessing,
    "harm": _harm,
    "reconstruction": _reconstruction,
}
"""Exhibits whose answers can be had at an ε of choice, with a seed."""
