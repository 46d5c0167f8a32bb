"""The fundamental law of information recovery: overly accurate answers to too many questions give away the database.

Secret bits x of n people, answers to "how many of this subset?", a = A·x + noise. Dinur and Nissim 2003 show that noise
o(√n) on every answer lets a polynomial-time attacker recover all but o(n) of the bits. LP decoding minimizes ‖A·x − a‖₁
over 0 ≤ x ≤ 1 (Dwork, McSherry, Talwar 2007), least squares minimizes ‖A·x − a‖₂ (Kasiviswanathan, Rudelson, Smith,
Ullman 2010). Here both also know the scale of the noise and the marginal, so that with too much noise they fall back to
guessing from the marginal.

>>> import numpy as np
>>> from discreet.attacks.answers.answerers import Noisy, Raw
>>> from discreet.attacks.answers.reconstruction import Reconstruction, random_subsets
>>> secret = np.random.default_rng(1).random(100) < 0.3
>>> subsets = random_subsets(400, people=100, seed=2)
>>> Reconstruction(subsets=subsets, truth=secret, answerer=Raw(secret), method="lp").run().success.value
1.0
>>> split = Noisy(Raw(secret), epsilon="1/400", seed=3)  # ε 1 in all
>>> report = Reconstruction(subsets=subsets, truth=secret, answerer=split, scale=400, method="least squares").run()
>>> report.success.value <= report.baseline.value + 0.05
True

How many secret bits come back, against the noise and against the budget.

>>> from discreet.attacks.answers.reconstruction import against_noise
>>> curve = against_noise(people=100, questions=400, ratios=[0, 5], seed=1)
>>> curve.shares[0].value, curve.shares[1].value < 0.7
(1.0, True)
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.attacks.answers.answerers import Answerer, ask_all, bits, population, report_on_bits, words
from discreet.attacks.attack_report import AttackReport, Share
from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import Number, integer, rational
from discreet.mechanisms.additive import Geometric
from discreet.noise import DeterministicEntropy
from discreet.report import Chart, Line

Floats = NDArray[np.float64]
Bits = NDArray[np.bool_]
METHODS = ("least squares", "lp")
_MOST_CELLS = 400_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconstruction:
    """Subset counts against the secret bits of n people.

    `subsets` is a boolean matrix, questions × people, which is public. Give `answers` (NaN where refused), or an
    `answerer`, which is asked row by row. `scale` is that of the noise (of Laplace or geometric noise; 0 for exact or
    rounded answers), which is public too. `missing`, if given, says between which numbers a refused answer lies, such
    as (0, 4) where counts below 5 are suppressed; otherwise refused questions are left out. The attacker knows the
    marginal, as the guesser does.
    """

    subsets: ArrayLike = field(repr=False)
    truth: ArrayLike = field(repr=False)
    answerer: Answerer | None = None
    answers: ArrayLike | None = field(default=None, repr=False)
    method: str = "least squares"
    scale: Number = 0
    missing: tuple[float, float] | None = None
    against: str = ""
    confidence: float = 0.95

    def run(self) -> AttackReport:
        """Ask, solve, round to bits, compare."""
        subsets, truth = self._checked()
        answers = self._answers_to(subsets)
        share = float(truth.mean())
        guessed = self._solve(subsets, answers, share) > 0.5
        refused = int(np.isnan(answers).sum())
        return report_on_bits(
            guessed,
            truth,
            attack=f"reconstruction by {'linear programming' if self.method == 'lp' else self.method}",
            against=self.against or ("given answers" if self.answerer is None else words(self.answerer)),
            goal="recover a person's secret bit",
            confidence=self.confidence,
            facts={
                "questions": len(answers),
                "refused": refused,
                "scale of the noise": f"{float(self.scale_exact):.4g}",
                "scale of the noise / √n": f"{float(self.scale_exact) / math.sqrt(len(truth)):.3g}",
                "secret bits that are 1": int(truth.sum()),
                "of these recovered": int((guessed & truth).sum()),
                "guessed 1 and wrong": int((guessed & ~truth).sum()),
            },
        )

    @property
    def scale_exact(self) -> Any:
        """The scale of the noise as a rational."""
        return rational(self.scale, "scale", at_least=0)

    def _solve(self, subsets: Bits, answers: Floats, share: float) -> Floats:
        low, high = _limits(answers, self.missing)
        asked = ~np.isnan(low)
        scale = float(self.scale_exact)
        if not asked.any():
            return np.full(subsets.shape[1], share)
        solve = lp_decode if self.method == "lp" else least_squares
        return solve(subsets[asked], low[asked], high[asked], scale=scale, share=share)

    def _answers_to(self, subsets: Bits) -> Floats:
        if self.answers is None and self.answerer is not None:
            return ask_all(self.answerer, subsets)
        answers = np.asarray(self.answers, np.float64)
        if answers.shape != (len(subsets),):
            raise InvalidData(f"answers: got shape {answers.shape}, expected one for each of {len(subsets)} subsets")
        if np.isinf(answers).any():
            raise InvalidData("answers: some are infinite; write NaN for a refused answer")
        return answers

    def _checked(self) -> tuple[Bits, Bits]:
        if self.method not in METHODS:
            raise InvalidParameter("method", self.method, " or ".join(map(repr, METHODS)))
        if (self.answers is None) == (self.answerer is None):
            raise InvalidParameter("answers, answerer", "both or none", "exactly one of them")
        truth = bits(self.truth, "truth")
        subsets = np.asarray(self.subsets)
        if subsets.ndim != 2 or subsets.shape[1] != len(truth) or not len(subsets):
            raise InvalidData(f"subsets: got shape {subsets.shape}, expected (questions, {len(truth)} people)")
        if subsets.dtype != np.bool_ and ((subsets != 0) & (subsets != 1)).any():
            raise InvalidData("subsets: expected True and False, or 1 and 0")
        if subsets.size > _MOST_CELLS:
            raise InvalidParameter("subsets", subsets.shape, f"at most {_MOST_CELLS} cells")
        if self.missing is not None and not self.missing[0] <= self.missing[1]:
            raise InvalidParameter("missing", self.missing, "two numbers, low ≤ high")
        return subsets.astype(np.bool_), truth


# Solving


def least_squares(subsets: Bits, low: Floats, high: Floats, *, scale: float, share: float) -> Floats:
    """min ‖A·x − a‖² + λ‖x − p‖² by LSMR (Fong, Saunders 2011), clipped to [0, 1].

    With noise of variance 2b² and bits of variance p(1−p) around p, λ = 2b²/p(1−p) makes it the best linear estimate.
    Where an answer is only known to lie between two numbers, their middle is taken.

    >>> A = np.eye(3, dtype=bool)
    >>> least_squares(A, np.array([1.0, 0, 1]), np.array([1.0, 0, 1]), scale=0, share=0.5).round(6)
    array([1., 0., 1.])
    """
    from scipy.sparse.linalg import lsmr

    matrix = subsets.astype(np.float64)
    center = matrix.sum(axis=1) * share
    damp = math.sqrt(2) * scale / math.sqrt(max(share * (1 - share), 1e-6))
    solved = lsmr(matrix, (low + high) / 2 - center, damp=damp, atol=1e-10, btol=1e-10, conlim=0, maxiter=5000)
    return np.clip(share + solved[0], 0, 1)


def lp_decode(subsets: Bits, low: Floats, high: Floats, *, scale: float, share: float) -> Floats:
    """min Σ |A·x − a| + b·ln((1−p)/p)·Σx over 0 ≤ x ≤ 1, by the dual program and HiGHS.

    With Laplace noise of scale b and independent bits of probability p this is the relaxed maximum a posteriori
    estimate; without noise it is the LP decoding of Dwork, McSherry, Talwar 2007. An answer known to lie between low
    and high costs its distance from there. The dual has one row a person: max Σ low·u − Σ high·v − Σ max(0, Aᵀ(u − v)
    − c) over 0 ≤ u, v ≤ 1 (one free y = u − v in [−1, 1] where low = high); x are its row prices.

    >>> A = np.eye(3, dtype=bool)
    >>> lp_decode(A, np.array([1.0, 0, 1]), np.array([1.0, 0, 1]), scale=0, share=0.5).round(6) + 0.0
    array([1., 0., 1.])
    """
    from scipy.optimize import linprog
    from scipy.sparse import csc_array, eye_array, hstack

    questions, people = subsets.shape
    loose = np.flatnonzero(low < high)
    across = csc_array(subsets.T.astype(np.float64))
    constraints: Any = hstack([across, -across[:, loose], -eye_array(people)], format="csc")
    cost = np.concatenate([-low, high[loose], np.ones(people)])
    tight = np.where(low < high, 0.0, -1.0)
    ends: Any = np.column_stack([np.concatenate([tight, np.zeros(len(loose) + people)]), np.ones(len(cost))])
    ends[questions + len(loose) :, 1] = np.inf
    odds = math.log((1 - share) / share) if 0 < share < 1 else 0.0
    solved = linprog(cost, A_ub=constraints, b_ub=np.full(people, scale * odds), bounds=ends, method="highs-ipm")
    if solved.status != 0:
        raise InvalidData(f"the linear program was not solved: {solved.message}")
    return np.clip(-np.asarray(solved.ineqlin.marginals, np.float64), 0, 1)


def _limits(answers: Floats, missing: tuple[float, float] | None) -> tuple[Floats, Floats]:
    refused = np.isnan(answers)
    if missing is None:
        return answers, answers
    return np.where(refused, missing[0], answers), np.where(refused, missing[1], answers)


# Questions


def random_subsets(questions: int, *, people: int, seed: int, share: float = 0.5) -> Bits:
    """Subsets in which each person is with the same probability, independently.

    >>> random_subsets(3, people=1000, seed=0).mean().round(1)
    np.float64(0.5)
    """
    integer(questions, "questions", at_least=1)
    integer(people, "people", at_least=1)
    if not 0 < share < 1:
        raise InvalidParameter("share", share, "a number strictly between 0 and 1")
    return np.random.default_rng(integer(seed, "seed", at_least=0)).random((questions, people), np.float32) < share


@dataclass(frozen=True, slots=True)
class Hashed:
    """Subsets that a predicate on a public number defines: (a·number + b) mod P < P/2, one (a, b) a question.

    >>> hashed = Hashed.of([17, 4], questions=2, seed=1)
    >>> hashed.masks.shape, hashed.predicates("person")[0]
    ((2, 2), '(person * 473190 + 511823) % 1000003 < 500001')
    """

    prime: int
    factors: tuple[tuple[int, int], ...]
    masks: Bits = field(repr=False)

    @classmethod
    def of(cls, numbers: ArrayLike, *, questions: int, seed: int, prime: int = 1_000_003) -> "Hashed":
        """Random predicates on people's numbers, which must be between 0 and the prime."""
        ids = np.asarray(numbers)
        if ids.ndim != 1 or not ids.size or ids.dtype.kind not in "iu" or ids.min() < 0 or ids.max() >= prime:
            raise InvalidData(f"numbers: expected a list of whole numbers from 0 to {prime - 1}")
        rng = np.random.default_rng(integer(seed, "seed", at_least=0))
        drawn = rng.integers(1, prime, (integer(questions, "questions", at_least=1), 2))
        hashes = (drawn[:, :1] * ids[None, :].astype(np.int64) + drawn[:, 1:]) % prime
        factors = tuple((int(a), int(b)) for a, b in drawn)
        return cls(prime, factors, hashes < prime // 2)

    def predicates(self, column: str) -> list[str]:
        """The same subsets in SQL, over the column that holds the numbers, as 64-bit integers."""
        return [f"({column} * {a} + {b}) % {self.prime} < {self.prime // 2}" for a, b in self.factors]


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


def against_noise(*, ratios: Sequence[float], people: int, **settings: Any) -> Recovery:
    """Random subset questions with geometric noise of scale ratio·√n each; settings as of `against_budget`."""
    root = Fraction(math.sqrt(integer(people, "people", at_least=2))).limit_denominator(10**6)
    scales = [rational(ratio, "ratios", at_least=0) * root for ratio in ratios]
    return _recover("noise of each answer / √n", ratios, scales, people=people, **settings)


def against_budget(*, epsilons: Sequence[Number], questions: int, **settings: Any) -> Recovery:
    """The same behind a curator that splits a total ε evenly: noise of scale questions/ε on each answer.

    Settings: `people`, whose bits are 1 with probability `rate` (½), `questions`, `seed`, `method`, `confidence`.

    >>> curve = against_budget(people=100, questions=200, epsilons=[1, 2000], seed=1)
    >>> curve.shares[0].value < 0.7, curve.shares[1].value > 0.95
    (True, True)
    """
    totals = [rational(epsilon, "epsilons", above=0) for epsilon in epsilons]
    return _recover("ε in all", totals, [questions / total for total in totals], questions=questions, **settings)


def _recover(
    axis: str,
    values: Sequence[Number],
    scales: Sequence[Fraction],
    *,
    people: int,
    questions: int,
    seed: int,
    rate: float = 0.5,
    method: str = "least squares",
    confidence: float = 0.95,
) -> Recovery:
    secret = population(people, rate, seed)
    subsets = random_subsets(questions, people=people, seed=seed)
    truth = subsets.astype(np.float64) @ secret
    common: dict[str, Any] = {"subsets": subsets, "truth": secret, "method": method, "confidence": confidence}
    reports = [Reconstruction(answers=_noisy(truth, scale, seed), scale=scale, **common).run() for scale in scales]
    return Recovery(
        words=f"{people} people, {questions} questions, {method}",
        axis=axis,
        values=tuple(float(value) for value in values),
        shares=tuple(report.success for report in reports),
        guessing=reports[0].baseline.value if reports else 0.5,
    )


def _noisy(truth: Floats, scale: Fraction, seed: int) -> Floats:
    if not scale:
        return truth
    noise = Geometric(epsilon=1 / scale, sensitivity=1)
    return np.asarray(noise.release(truth.astype(np.int64), entropy=DeterministicEntropy(seed)), np.float64)
