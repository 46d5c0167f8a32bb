"""Attacks on counts as a command runs them: on generated bits or a file's, answered in one of several ways.

>>> from discreet.attacks.answers.bit_trials import DifferencingTrial
>>> DifferencingTrial(people=60).run().verdict
'falls'
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

from numpy.typing import ArrayLike

from discreet.attacks.answers.answerers import (
    Answerer,
    AnswerLimit,
    Bits,
    CachedAnswers,
    Fresh,
    Noisy,
    Raw,
    Rounded,
    Suppressed,
    bits,
    population,
    short,
)
from discreet.attacks.answers.averages import Averaging, Differencing, pairs_about
from discreet.attacks.answers.reconstruction import Reconstruction, against_budget, against_noise, random_subsets
from discreet.attacks.attack_report import AttackReport, setting
from discreet.errors import InvalidInput
from discreet.exact import Number, rational

ANSWERS = ("raw", "rounded", "suppressed", "noisy", "budget")
_MOST_CELLS = 400_000_000
_RATIOS = (0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)  # of the noise to √n
_TOTALS = ("0.1", "1", "10", "100", "1000", "10000", "100000")


@dataclass(frozen=True, kw_only=True)
class AnsweredBits:
    """Secret bits, generated or given, and how questions about them are answered: the start of a trial attack.

    `answers` is raw, rounded (to `base`), suppressed (`below`), noisy (`epsilon` for each answer, no ledger), budget
    (`epsilon` for all answers together) or, where a trial allows it, cached (noisy, the same question the same answer).
    """

    answers: str = setting(
        "Counts that are raw, rounded, suppressed if small, noisy without a ledger, or noisy within a budget.",
        default="raw",
        kind=ANSWERS,
    )
    people: int | None = setting("Generate the bits of this many people.", default=None, least=2, most=5000)
    rate: float = setting("The share of ones among generated bits.", default=0.5, kind="share")
    truth: ArrayLike | None = setting(
        "Use your own secret bits: 1 and 0, or yes and no.", default=None, kind="bits", repr=False
    )
    base: int = setting("Round counts to multiples of this.", default=5, least=1)
    below: int = setting("Suppress counts below this.", default=5, least=1)
    epsilon: Number | None = setting("The ε of each answer (noisy, cached) or of all together (budget).", default=None)
    seed: int = setting("The seed of all random choices.", default=0, least=0)
    confidence: float = 0.95

    usual: ClassVar[int] = 400  # people, where nobody says how many

    def __post_init__(self) -> None:
        random = self.answers in ("noisy", "cached", "budget")
        if self.people is not None and self.truth is not None:
            raise InvalidInput("people generates secrets, truth reads them: give one of the two")
        if random and self.epsilon is None:
            what = "for all answers together" if self.answers == "budget" else "of each answer"
            raise InvalidInput(f"answers: {self.answers} needs an ε {what}, such as epsilon 1")
        if not random and self.epsilon is not None:
            raise InvalidInput(f"epsilon goes with noisy answers or a budget, not with {self.answers} answers")

    @property
    def secret(self) -> Bits:
        """The bits."""
        if self.truth is not None:
            return bits(self.truth, "truth")
        return population(self.people or self.usual, self.rate, self.seed)

    @property
    def total(self) -> Fraction | None:
        """ε of all answers about one person, behind a budget."""
        return self._exact if self.answers == "budget" else None

    @property
    def words(self) -> str:
        """How a report calls a budget."""
        return f"noisy counts within a budget of ε {short(self._exact)}" if self.answers == "budget" else ""

    @property
    def _exact(self) -> Fraction:
        return Fraction(0) if self.epsilon is None else rational(self.epsilon, "epsilon", above=0)

    def each(self, questions: int) -> Fraction:
        """ε of one answer."""
        return self._exact / questions if self.answers == "budget" else self._exact

    def answerer(self, questions: int, stream: int = 0) -> Answerer:
        """Who answers so many questions."""
        exact = Raw(self.secret)
        match self.answers:
            case "raw":
                return exact
            case "rounded":
                return Rounded(exact, base=self.base)
            case "suppressed":
                return Suppressed(exact, below=self.below)
        noisy = Noisy(exact, epsilon=self.each(questions), seed=self.seed * 1_000_003 + stream)
        if self.answers == "cached":
            return CachedAnswers(noisy)
        return noisy if self.answers == "noisy" else AnswerLimit(noisy, answers=questions)

    def for_each(self, questions: int) -> "Answerer | Fresh":
        """The same, but behind a budget each person is attacked with the whole of it."""
        if self.answers != "budget":
            return self.answerer(questions)
        return Fresh(lambda person: self.answerer(questions, person), f"{self.words}, anew for each person")

    def check_work(self, cells: int, advice: str) -> None:
        """Refuse questions that no memory holds."""
        if cells > _MOST_CELLS:
            raise InvalidInput(f"these questions about {len(self.secret):,} people are too many; {advice}")


@dataclass(frozen=True, kw_only=True)
class DifferencingTrial(AnsweredBits):
    """Differences of counts about generated people, or about bits of one's own.

    >>> DifferencingTrial(people=60).run().success.value
    1.0
    """

    people: int | None = setting("Generate the bits of this many people.  [200]", default=None, least=2, most=5000)
    groups: int = setting("Pairs of questions for each person.", default=1, least=1)

    usual: ClassVar[int] = 200

    def __post_init__(self) -> None:
        AnsweredBits.__post_init__(self)
        self.check_work(2 * len(self.secret) ** 2 * self.groups, "take fewer groups")

    def run(self) -> AttackReport:
        """Ask, and judge."""
        people = len(self.secret)
        return Differencing(
            pairs=pairs_about(range(people), of=people, groups=self.groups, seed=self.seed),
            truth=self.secret,
            answerer=self.for_each(2 * self.groups),
            epsilon=self.total,
            confidence=self.confidence,
        ).run()


@dataclass(frozen=True, kw_only=True)
class AveragingTrial(AnsweredBits):
    """The same question again and again about generated people, or about bits of one's own.

    >>> AveragingTrial(people=50, answers="noisy", epsilon="0.5", repeats=200).run().verdict
    'falls'
    """

    answers: str = setting(
        "Counts that are raw, rounded, suppressed if small, noisy without a ledger, noisy within a budget, or noisy "
        "and cached.",
        default="raw",
        kind=(*ANSWERS, "cached"),
    )
    people: int | None = setting("Generate the bits of this many people.  [400]", default=None, least=2, most=5000)
    repeats: int = setting("How often each question is repeated.", default=100, least=1, most=100_000)

    def run(self) -> AttackReport:
        """Ask, and judge."""
        return Averaging(
            questions=[[[person]] * self.repeats for person in range(len(self.secret))],
            truth=self.secret.astype(int),
            answerer=self.for_each(self.repeats),
            possible=(0, 1),
            epsilon=self.total,
            confidence=self.confidence,
        ).run()


@dataclass(frozen=True, kw_only=True)
class ReconstructionTrial(AnsweredBits):
    """Recover bits from counts over random subsets; with `curve` also at other noises or budgets.

    >>> ReconstructionTrial(people=60, answers="rounded").run().verdict
    'falls'
    """

    people: int | None = setting("Generate the bits of this many people.  [1000]", default=None, least=2, most=5000)
    questions: int | None = setting("How many subsets to count.  [4 for each person]", default=None, least=1)
    method: str = setting("The method of reconstruction.", default="least-squares", kind=("least-squares", "lp"))
    curve: bool = setting("Also plot the share recovered against the noise or the budget.", default=False)

    usual: ClassVar[int] = 1000

    def __post_init__(self) -> None:
        AnsweredBits.__post_init__(self)
        if self.curve and self.answers not in ("noisy", "budget"):
            raise InvalidInput("--curve goes with answers that are noisy or within a budget: it is drawn against those")
        self.check_work(self._count * len(self.secret), "ask fewer questions")

    @property
    def _count(self) -> int:
        return self.questions or 4 * len(self.secret)

    def run(self) -> AttackReport:
        """Ask, solve, and judge."""
        people, count, method = len(self.secret), self._count, self.method.replace("-", " ")
        report = Reconstruction(
            subsets=random_subsets(count, people=people, seed=self.seed),
            truth=self.secret,
            answerer=self.answerer(count),
            method=method,
            scale=1 / self.each(count) if self.epsilon is not None else 0,
            missing=(0, self.below - 1) if self.answers == "suppressed" else None,
            against=self.words,
            confidence=self.confidence,
        ).run()
        if not self.curve:
            return report
        common: dict[str, Any] = {"people": people, "questions": count, "seed": self.seed, "method": method}
        common |= {"rate": float(self.secret.mean()), "confidence": self.confidence}
        budget = self.answers == "budget"
        curve = against_budget(epsilons=_TOTALS, **common) if budget else against_noise(ratios=_RATIOS, **common)
        shares = zip(curve.values, curve.shares, strict=True)
        facts = {f"recovered at {value:g} ({curve.axis})": share for value, share in shares}
        return replace(report, charts=(curve.chart(), *report.charts), facts={**report.facts, **facts})
