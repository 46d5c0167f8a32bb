"""Who answers counting questions: exactly, rounded, without small counts, with noise, within a budget, or a curator.

An answerer is any callable from a question to a number; None means "refused". What a question is, is for the answerer
to say: a subset of people (a boolean mask or an array of positions) for `Raw`, a text of SQL for `Curator`. The
others wrap an answerer, so defenses are put on top of one another.

>>> from discreet.attacks.answers.answerers import Raw, Rounded, Suppressed
>>> ill = [True, False, True, True, False, True]
>>> count = Raw(ill)
>>> count([0, 1, 2]), Rounded(count, base=5)([0, 1, 2, 3]), Suppressed(count, below=3)([0, 1, 2])
(2, 5, None)
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import count
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.attacks.attack_report import AttackReport, Share, risk_tolerance
from discreet.errors import BudgetExceeded, InvalidData, InvalidParameter
from discreet.exact import Number, integer, rational, text_up
from discreet.mechanisms.additive import Geometric, Laplace
from discreet.noise import DeterministicEntropy, Entropy

Answerer: TypeAlias = Callable[[Any], float | None]
Floats = NDArray[np.float64]
Bits = NDArray[np.bool_]
_NO_LEDGER = ", no ledger"


class SqlDataset(Protocol):
    """A dataset behind a curator, as far as attackers see it: `discreet.open` returns one."""

    def ask(self, sql: str, *, epsilon: Number | None = None) -> Any:
        """The private answer to one SELECT."""
        ...


def ask_all(answerer: Answerer, questions: Iterable[Any]) -> Floats:
    """The answers to all questions; NaN where refused.

    >>> ask_all(AnswerLimit(Raw([True, True]), answers=2), [[0], [0, 1], [1]])
    array([ 1.,  2., nan])
    """
    return np.array([math.nan if (answer := ask(answerer, q)) is None else answer for q in questions], np.float64)


def ask(answerer: Answerer, question: Any) -> float | None:
    """One answer, checked to be a finite number or a refusal.

    >>> ask(lambda question: "many", "how many?")
    Traceback (most recent call last):
    ...
    discreet.errors.InvalidData: the answerer gave a str; expected a finite number, or None for a refusal
    """
    answer = answerer(question)
    if answer is None:
        return None
    if isinstance(answer, bool | np.bool_) or not isinstance(answer, int | float | Fraction | np.integer | np.floating):
        raise InvalidData(
            f"the answerer gave a {type(answer).__name__}; expected a finite number, or None for a refusal"
        )
    if not math.isfinite(answer):
        raise InvalidData("the answerer gave a number that is not finite; expected None for a refusal")
    return answer


def words(answerer: Any, total: Number | None = None) -> str:
    """What an answerer says about itself, for a report; with the ε of all its answers where a budget bounds it.

    >>> words(Rounded(Raw([True]), base=5))
    'exact counts, rounded to multiples of 5'
    >>> words(Noisy(Raw([True]), epsilon="0.1"), total=1)
    'exact counts, geometric noise at ε 0.1 each, ε 1 in all'
    """
    said = str(getattr(answerer, "words", "an answerer"))
    return said if total is None else f"{said.removesuffix(_NO_LEDGER)}, ε {short(total)} in all"


def bits(values: ArrayLike, name: str, *, least: int = 1) -> Bits:
    """Secret bits of people, checked: a list of True and False, or of 1 and 0.

    >>> bits([1, 0, 2], "truth")
    Traceback (most recent call last):
    ...
    discreet.errors.InvalidData: truth: a value at position 2 is neither 0 nor 1
    """
    array = np.asarray(values)
    if array.ndim != 1 or array.size < least:
        raise InvalidData(f"{name}: got an array of shape {array.shape}, expected a list of at least {least} bits")
    if array.dtype != np.bool_ and array.dtype.kind not in "iuf":
        raise InvalidData(f"{name}: got values of type {array.dtype}, expected True and False, or 1 and 0")
    wrong = np.flatnonzero((array != 0) & (array != 1))
    if wrong.size:
        raise InvalidData(f"{name}: a value at position {wrong[0]} is neither 0 nor 1")
    return array.astype(np.bool_)


def report_on_bits(guesses: Bits, truth: Bits, *, confidence: float, **more: Any) -> AttackReport:
    """The report of an attack on secret bits, beside a guesser who knows how common they are.

    >>> report_on_bits(np.array([True]), np.array([True]), attack="", against="", goal="", confidence=0.95).risk.value
    0.0
    """
    share = float(truth.mean())
    guessing = max(share, 1 - share)
    return AttackReport(
        people=len(truth),
        success=Share.among(guesses == truth, confidence=confidence),
        baseline=Share.known(guessing),
        confidence=confidence,
        tolerance=risk_tolerance(guessing),
        normalized=True,
        **more,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Raw:
    """Exact counts of the people in a subset who have the secret: no defense at all.

    >>> Raw([1, 0, 1])([True, True, False])
    1
    """

    secret: ArrayLike = field(repr=False)
    words: str = "exact counts"

    def __post_init__(self) -> None:
        object.__setattr__(self, "secret", bits(self.secret, "secret"))

    def __call__(self, question: ArrayLike) -> float:
        """How many of these people have it."""
        chosen = np.asarray(question)
        secret = np.asarray(self.secret)
        if chosen.dtype == np.bool_ and chosen.shape != secret.shape:
            raise InvalidData(f"question: got a mask of shape {chosen.shape}, expected {len(secret)} people")
        if chosen.size and chosen.dtype != np.bool_:
            chosen = _positions(chosen, len(secret))
        return int(np.count_nonzero(secret[chosen])) if chosen.size else 0


@dataclass(frozen=True, slots=True)
class Rounded:
    """Answers rounded to the nearest multiple of a base (halves up), as statistical offices do.

    >>> [Rounded(lambda q: q, base=5)(q) for q in (2, 3, 12.5)]
    [0, 5, 15]
    """

    answerer: Answerer
    base: int

    def __post_init__(self) -> None:
        integer(self.base, "base", at_least=1)

    @property
    def words(self) -> str:
        """What stands between the attacker and the data."""
        return f"{words(self.answerer)}, rounded to multiples of {self.base}"

    def __call__(self, question: Any) -> float | None:
        """The rounded answer."""
        answer = self.answerer(question)
        return None if answer is None else math.floor(answer / self.base + 0.5) * self.base


@dataclass(frozen=True, slots=True)
class Suppressed:
    """Answers below a threshold are not given.

    >>> [Suppressed(lambda q: q, below=5)(q) for q in (4, 5)]
    [None, 5]
    """

    answerer: Answerer
    below: int

    def __post_init__(self) -> None:
        integer(self.below, "below", at_least=1)

    @property
    def words(self) -> str:
        """What stands between the attacker and the data."""
        return f"{words(self.answerer)}, counts below {self.below} suppressed"

    def __call__(self, question: Any) -> float | None:
        """The answer, if it is large enough."""
        answer = self.answerer(question)
        return None if answer is None or answer < self.below else answer


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Noisy:
    """Fresh noise on every answer, ε for each, and no ledger: anybody may ask as often as they like.

    `noise` is "geometric" (whole numbers) or "laplace" (a grid of 1/1024). With a `seed` the noise can be repeated, as
    simulations want; without one it is as random as the curator's.

    >>> Noisy(Raw([True] * 100), epsilon=1000)(np.arange(100))
    100.0
    """

    answerer: Answerer = field(kw_only=False)
    epsilon: Number
    noise: str = "geometric"
    seed: int | None = None
    _mechanism: Geometric | Laplace = field(init=False, repr=False)
    _entropy: Entropy | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.noise not in ("geometric", "laplace"):
            raise InvalidParameter("noise", self.noise, "'geometric' or 'laplace'")
        mechanism: Geometric | Laplace = (
            Geometric(epsilon=self.epsilon, sensitivity=1)
            if self.noise == "geometric"
            else Laplace(epsilon=self.epsilon, sensitivity=1)
        )
        object.__setattr__(self, "_mechanism", mechanism)
        object.__setattr__(self, "_entropy", None if self.seed is None else DeterministicEntropy(self.seed))

    @property
    def scale(self) -> float:
        """The scale of the noise, which is public."""
        return float(self._mechanism.scale)

    @property
    def words(self) -> str:
        """What stands between the attacker and the data."""
        return f"{words(self.answerer)}, {self.noise} noise at ε {short(self.epsilon)} each{_NO_LEDGER}"

    def __call__(self, question: Any) -> float | None:
        """The answer, with noise of its own."""
        answer = self.answerer(question)
        return None if answer is None else float(self._mechanism.release(answer, entropy=self._entropy))


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerLimit:
    """So many answers and no more: what a ledger does, without the ledger. For simulations of a curator.

    >>> limited = AnswerLimit(Raw([True]), answers=1)
    >>> limited([0]), limited([0])
    (1, None)
    """

    answerer: Answerer = field(kw_only=False)
    answers: int
    _asked: Any = field(default_factory=count, init=False, repr=False)

    def __post_init__(self) -> None:
        integer(self.answers, "answers", at_least=0)

    @property
    def words(self) -> str:
        """What stands between the attacker and the data."""
        return f"{words(self.answerer).removesuffix(_NO_LEDGER)}, at most {self.answers} answers"

    def __call__(self, question: Any) -> float | None:
        """The answer, while there are any left."""
        return self.answerer(question) if next(self._asked) < self.answers else None


@dataclass(frozen=True, slots=True)
class CachedAnswers:
    """The same question again gets the same answer, as from a curator that keeps its answers.

    >>> remembered = CachedAnswers(Noisy(Raw([True] * 9), epsilon="0.1"))
    >>> remembered([1, 2]) == remembered([1, 2])
    True
    """

    answerer: Answerer
    _kept: dict[Any, float | None] = field(default_factory=dict, init=False, repr=False)

    @property
    def words(self) -> str:
        """What stands between the attacker and the data."""
        return f"{words(self.answerer).removesuffix(_NO_LEDGER)}, answers cached"

    def __call__(self, question: Any) -> float | None:
        """The answer, the first time or again."""
        key = question if isinstance(question, str) else np.asarray(question).tobytes()
        if key not in self._kept:
            self._kept[key] = self.answerer(question)
        return self._kept[key]


@dataclass(frozen=True, slots=True, kw_only=True)
class Curator:
    """A dataset behind a curator: every question pays ε from one budget, and is refused when it is spent.

    `dataset` is anything with an `ask`, such as what `discreet.open` returns; `sql` turns a question into a SELECT of
    one number (left out: questions are SQL already). Only the refusal of the budget is a refusal here, of which
    `on_refusal` is told; a statement that is wrong raises its error.

    >>> from types import SimpleNamespace
    >>> import pyarrow
    >>> fake = SimpleNamespace(ask=lambda sql, epsilon: SimpleNamespace(table=pyarrow.table({"n": [41]})))
    >>> Curator(dataset=fake, epsilon="0.1")("SELECT COUNT(*) AS n FROM treated")
    41.0
    """

    dataset: SqlDataset
    epsilon: Number
    sql: Callable[[Any], str] = str
    on_refusal: Callable[[BudgetExceeded], object] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        rational(self.epsilon, "epsilon", above=0)

    @property
    def words(self) -> str:
        """What stands between the attacker and the data."""
        return f"the curator, ε {short(self.epsilon)} a question"

    def __call__(self, question: Any) -> float | None:
        """The private answer, or None when the budget cannot pay for it."""
        try:
            answer = self.dataset.ask(self.sql(question), epsilon=self.epsilon)
        except BudgetExceeded as refusal:
            if self.on_refusal is not None:
                self.on_refusal(refusal)
            return None
        return only(answer.table)


def population(people: int, rate: float, seed: int) -> Bits:
    """Secret bits, each 1 with the given probability.

    >>> int(population(1000, 0.2, 5).sum())
    198
    """
    if not 0 <= rate <= 1:
        raise InvalidParameter("rate", rate, "a number between 0 and 1")
    size = integer(people, "people", at_least=1)
    return np.random.default_rng([integer(seed, "seed", at_least=0), 1]).random(size) < rate


@dataclass(frozen=True, slots=True)
class Fresh:
    """A new answerer for each person attacked, such as a curator with a budget of its own: `make(number)`.

    >>> Fresh(lambda person: Raw([person == 1])).make(1)([0])
    1
    """

    make: Callable[[int], Answerer]
    words: str = "a new answerer for each person"


def only(table: Any) -> float:
    """The one number of a released table.

    >>> import pyarrow
    >>> only(pyarrow.table({"n": [3]}))
    3.0
    """
    if table.num_rows != 1 or table.num_columns != 1:
        raise InvalidData(
            f"the answer has {table.num_rows} rows and {table.num_columns} columns; expected one number: "
            "ask for one aggregate without groups"
        )
    return float(table.column(0)[0].as_py())


def _positions(chosen: NDArray[Any], people: int) -> NDArray[np.int64]:
    if chosen.ndim != 1 or chosen.dtype.kind not in "iu":
        raise InvalidData(
            f"question: got values of type {chosen.dtype}, expected a boolean mask or positions of people"
        )
    if chosen.min() < 0 or chosen.max() >= people:
        raise InvalidData(f"question: a position lies outside 0 … {people - 1}")
    if np.unique(chosen).size < chosen.size:
        raise InvalidData("question: a person is named twice")
    return chosen.astype(np.int64)


def short(number: Number) -> str:
    """An ε in four digits, rounded up."""
    return text_up(rational(number, "epsilon"), 4)
