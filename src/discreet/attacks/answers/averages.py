"""Everybody, and everybody but one: the difference of two counts is one person's secret.

Known as the tracker (Schlörer 1975; Denning, Denning, Schwartz 1979). One pair of questions is enough against exact
counts. Against rounded counts and against noise without a ledger the attacker puts the same person into many random
groups and takes the mean of the differences: rounding hides no mean.

>>> import numpy as np
>>> from discreet.attacks.answers.answerers import Raw, Rounded
>>> from discreet.attacks.answers.averages import Differencing, pairs_about
>>> ill = np.random.default_rng(7).random(60) < 0.4
>>> single = pairs_about(range(60), of=60, groups=1, seed=1)
>>> Differencing(pairs=single, truth=ill, answerer=Raw(ill)).run().success.value
1.0
>>> many = pairs_about(range(60), of=60, groups=100, seed=1)
>>> Differencing(pairs=many, truth=ill, answerer=Rounded(Raw(ill), base=5)).run().verdict
'falls'

The same question again and again, or in other words: fresh noise without a ledger averages away.

The mean of m answers with independent noise of standard deviation s is uncertain by s/√m; when that is well below ½ a
whole number is known. A curator answers the same question with the same number, charges each rephrasing, and refuses
when the budget is spent, so m cannot grow.

>>> import numpy as np
>>> from discreet.attacks.answers.answerers import Noisy, Raw
>>> from discreet.attacks.answers.averages import Averaging
>>> ill = np.random.default_rng(3).random(30) < 0.5
>>> about = [[[person]] * 150 for person in range(30)]
>>> noisy = Noisy(Raw(ill), epsilon="0.5", seed=5)
>>> Averaging(questions=about, truth=ill, answerer=noisy).run().verdict
'falls'
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.attacks.answers.answerers import Answerer, Fresh, ask, bits, report_on_bits, words
from discreet.attacks.attack_report import AttackReport, Share, risk_tolerance
from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import Number, integer, rational, text_up
from discreet.mechanisms.bayesian import guess_bound
from discreet.report import Chart, Line

Pair = tuple[Any, Any]

_EXACT = 1e-9  # a variance below this is rounding


@dataclass(frozen=True, slots=True, kw_only=True)
class Differencing:
    """For each person attacked, pairs of questions that differ by that person; `truth` are the secret bits.

    `answerer` serves everybody, or is a `Fresh`, which gives each person an answerer of their own. `epsilon`, if
    given, is what all answers about one person cost together: the report then states the best that any attack can do
    on a secret that is as probable as not.
    """

    pairs: Sequence[Sequence[Pair]] = field(repr=False)
    truth: ArrayLike = field(repr=False)
    answerer: Answerer | Fresh
    epsilon: Number | None = None
    confidence: float = 0.95

    def run(self) -> AttackReport:
        """Ask, take differences, and guess what is likeliest by them and by how common the secret is."""
        truth = self._checked()
        result = [difference(self._for(person), pairs) for person, pairs in enumerate(self.pairs)]
        share = float(truth.mean())
        means = np.array([math.nan if d is None else d for d in result])
        guessed = likeliest(means, [0, 1], [1 - share, share]) == 1
        return report_on_bits(
            guessed,
            truth,
            attack="differencing",
            against=words(self.answerer, None if isinstance(self.answerer, Fresh) else self.epsilon),
            goal="learn a person's secret bit",
            confidence=self.confidence,
            facts={
                "pairs of questions a person": f"{np.mean([len(p) for p in self.pairs]):.4g}",
                "people about whom everything was refused": sum(d is None for d in result),
                **ceiling(self.epsilon),
            },
        )

    def _for(self, person: int) -> Answerer:
        return self.answerer.make(person) if isinstance(self.answerer, Fresh) else self.answerer

    def _checked(self) -> NDArray[np.bool_]:
        truth = bits(self.truth, "truth")
        if len(self.pairs) != len(truth):
            raise InvalidData(f"pairs: got those of {len(self.pairs)} people, expected {len(truth)}, as in truth")
        for person, pairs in enumerate(self.pairs):
            if not len(pairs) or any(len(pair) != 2 for pair in pairs):
                raise InvalidData(f"pairs: person {person} needs a list of pairs (with the person, without)")
        return truth


def difference(answerer: Answerer, pairs: Iterable[Pair]) -> float | None:
    """The mean of "with the person" minus "without", over the pairs that were answered; None if none was.

    >>> difference(len, [("abc", "ab"), ("xy", "x")])
    1.0
    """
    result = []
    for larger, smaller in pairs:
        first, second = ask(answerer, larger), ask(answerer, smaller)
        if first is not None and second is not None:
            result.append(first - second)
    return math.fsum(result) / len(result) if result else None


def likeliest(means: NDArray[np.float64], values: Sequence[float], shares: Sequence[float]) -> NDArray[np.float64]:
    """The likeliest of the possible values by each mean and by their shares; NaN means that nothing was answered.

    The error of the means is taken for normal. Its variance is what the means vary by beyond the values themselves;
    where that is nothing, the nearest value is taken. So under much noise the commonest value is guessed, which no
    attacker falls short of.

    >>> likeliest(np.array([0.9, 0.2, -2.0, math.nan]), [0, 1], [0.9, 0.1]).tolist()
    [0.0, 0.0, 0.0, 0.0]
    >>> likeliest(np.array([1.0, 0.0]), [0, 1], [0.5, 0.5]).tolist()
    [1.0, 0.0]
    """
    possible, prior = np.asarray(values, np.float64), np.asarray(shares, np.float64)
    known = means[~np.isnan(means)]
    spread = prior @ possible**2 - (prior @ possible) ** 2
    variance = max(0.0, float(known.var()) - float(spread)) if len(known) else 0.0
    distance = (np.nan_to_num(means)[:, None] - possible) ** 2
    with np.errstate(divide="ignore"):
        weight = np.log(prior)
    scores = -distance if variance < _EXACT else weight - distance / (2 * variance)
    return np.asarray(possible[np.where(np.isnan(means)[:, None], prior, scores).argmax(axis=1)])


def pairs_about(people: Iterable[int], *, of: int, groups: int, seed: int) -> list[list[Pair]]:
    """For each person, random halves of the `of` people (as boolean masks), with the person and without.

    >>> [(larger, smaller)] = pairs_about([2], of=5, groups=1, seed=0)[0]
    >>> np.flatnonzero(larger != smaller).tolist()
    [2]
    """
    integer(of, "of", at_least=1)
    integer(groups, "groups", at_least=1)
    rng = np.random.default_rng(integer(seed, "seed", at_least=0))
    return [_pairs(integer(person, "people", at_least=0, at_most=of - 1), of, groups, rng) for person in people]


def ceiling(epsilon: Number | None) -> dict[str, str]:
    """The fact for a report: e^ε/(1+e^ε) bounds every guess of a bit with even odds.

    >>> ceiling(1)
    {'no attack on an even bit can beat, on average': '73.1 % (ε 1 in all)'}
    """
    if epsilon is None:
        return {}
    bound, total = guess_bound(epsilon) / 2, text_up(rational(epsilon, "epsilon"), 4)
    return {"no attack on an even bit can beat, on average": f"{100 * bound:.1f} % (ε {total} in all)"}


def _pairs(person: int, of: int, groups: int, rng: np.random.Generator) -> list[Pair]:
    with_person = rng.random((groups, of)) < 0.5
    without = with_person.copy()
    with_person[:, person], without[:, person] = True, False
    return list(zip(with_person, without, strict=True))


Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Averaging:
    """For each count attacked, questions that all ask for it: the same one repeated, or equivalent ones.

    `truth` are the true counts, whole numbers. `prior` is the chance that a guess without answers is right; left out,
    it is the share of the commonest truth, which needs several counts to be fair. `possible` are the values that a
    count can have, such as (0, 1) for one person's bit: the likeliest by the mean and by how common each is, is taken
    (left out: 0 and 1 if all the truths are such; else any whole number, and nothing is known of how common).
    `epsilon` as in `Differencing`.
    """

    questions: Sequence[Sequence[Any]] = field(repr=False)
    truth: ArrayLike = field(repr=False)
    answerer: Answerer | Fresh
    prior: float | None = None
    possible: Sequence[int] | None = None
    epsilon: Number | None = None
    confidence: float = 0.95

    def run(self) -> AttackReport:
        """Ask everything, take means, round; what was refused is guessed as the commonest truth."""
        truth = self._checked()
        gathered = [gather(self._for(number), asked) for number, asked in enumerate(self.questions)]
        values, counts = np.unique(truth, return_counts=True)
        commonest = float(values[counts.argmax()])
        means = np.array([commonest if g.mean is None else g.mean for g in gathered])
        hit = np.abs(self._guessed(gathered, means, truth) - truth) < 0.5
        prior = float(counts.max() / len(truth)) if self.prior is None else self.prior
        return AttackReport(
            attack="averaging",
            against=words(self.answerer, None if isinstance(self.answerer, Fresh) else self.epsilon),
            goal="know a count exactly",
            people=len(truth),
            success=Share.among(hit, confidence=self.confidence),
            baseline=Share.known(prior),
            confidence=self.confidence,
            tolerance=risk_tolerance(prior),
            normalized=True,
            facts={
                "questions a count": f"{np.mean([len(question) for question in self.questions]):.4g}",
                "answers that count, mean": f"{np.mean([len(g.answers) for g in gathered]):.4g}",
                "refused, mean": f"{np.mean([g.refused for g in gathered]):.4g}",
                "error of the mean, average": f"{np.abs(means - truth).mean():.4g}",
                **ceiling(self.epsilon),
            },
            charts=_charts(gathered, truth),
        )

    def _guessed(self, gathered: "Sequence[RepeatedAnswers]", means: Floats, truth: Floats) -> Floats:
        """The means, or the likeliest possible value by each mean and by how common the values are."""
        if self.possible is None and (self.prior is not None or not np.isin(truth, (0, 1)).all()):
            return means
        values = np.asarray((0, 1) if self.possible is None else self.possible, np.float64)
        if values.ndim != 1 or not values.size or not np.isfinite(values).all():
            raise InvalidParameter("possible", self.possible, "a list of numbers, at least one")
        shares = [float(np.mean(truth == value)) for value in values]
        answered = np.array([np.nan if g.mean is None else g.mean for g in gathered])
        return likeliest(answered, values.tolist(), shares)

    def _for(self, number: int) -> Answerer:
        return self.answerer.make(number) if isinstance(self.answerer, Fresh) else self.answerer

    def _checked(self) -> Floats:
        truth = np.asarray(self.truth, np.float64)
        if truth.ndim != 1 or not truth.size or not np.isfinite(truth).all() or (truth != np.rint(truth)).any():
            raise InvalidData(f"truth: got an array of shape {truth.shape}, expected a list of whole numbers")
        if len(self.questions) != len(truth):
            raise InvalidData(f"questions: got those of {len(self.questions)} counts, expected {len(truth)}")
        if any(isinstance(question, str) or not len(question) for question in self.questions):
            raise InvalidData("questions: each count needs a list of at least one question")
        if self.prior is not None and not 0 <= self.prior <= 1:
            raise InvalidParameter("prior", self.prior, "a share between 0 and 1")
        return truth


@dataclass(frozen=True, slots=True)
class RepeatedAnswers:
    """Answers to questions that all ask for the same number; a question that never varies counts once."""

    answers: tuple[float, ...]
    received: int
    refused: int

    @property
    def mean(self) -> float | None:
        """What the attacker takes for the truth; None without an answer."""
        return math.fsum(self.answers) / len(self.answers) if self.answers else None

    def margin(self, spread: float, *, z: float = 1.96) -> float:
        """How uncertain the mean is, if one answer has this standard deviation."""
        return margin(spread, len(self.answers), z=z)


def gather(answerer: Answerer, questions: Iterable[Any], *, until_refused: bool = False) -> RepeatedAnswers:
    """Ask everything (or until the first refusal). Repeats of a question that always gave the same count as one answer.

    >>> gather(lambda question: 41, ["how many?"] * 100)
    RepeatedAnswers(answers=(41,), received=100, refused=0)
    >>> numbers = iter([40, 43, None, 44])
    >>> gather(lambda question: next(numbers), ["a", "b", "c", "d"], until_refused=True)
    RepeatedAnswers(answers=(40, 43), received=2, refused=1)
    """
    by_question: dict[Any, list[float]] = {}
    refused = 0
    for question in questions:
        answer = ask(answerer, question)
        if answer is not None:
            by_question.setdefault(_key(question), []).append(answer)
            continue
        refused += 1
        if until_refused:
            break
    kept = [result[:1] if len(set(result)) == 1 else result for result in by_question.values()]
    received = sum(map(len, by_question.values()))
    return RepeatedAnswers(tuple(answer for result in kept for answer in result), received, refused)


def margin(spread: float, answers: int, *, z: float = 1.96) -> float:
    """The uncertainty of a mean of independent answers: z·s/√m; without answers, infinite.

    >>> margin(10, 100, z=2)
    2.0
    """
    return z * spread / math.sqrt(answers) if answers else math.inf


def _charts(gathered: Sequence[RepeatedAnswers], truth: Floats) -> tuple[Chart, ...]:
    """The error of the running mean against the number of answers, averaged over the counts that got so many."""
    longest = max(len(g.answers) for g in gathered)
    if longest < 2:
        return ()
    points = np.unique(np.geomspace(1, longest, 60).astype(int))
    errors = np.full((len(gathered), len(points)), np.nan)
    for row, (result, true) in enumerate(zip(gathered, truth, strict=True)):
        own = points[points <= len(result.answers)]
        errors[row, : len(own)] = np.abs(np.cumsum(result.answers)[own - 1] / own - true)
    line = Line(points, np.nanmean(errors, axis=0), "attacker")
    half = Line(points, np.full(len(points), 0.5), "known below this", dashed=True)
    return (Chart("Error of the mean", [line, half], x="answers", y="mean error", log_x=True),)


def _key(asked: Any) -> Any:
    return asked if isinstance(asked, str) else (type(asked).__name__, np.asarray(asked).tobytes())
