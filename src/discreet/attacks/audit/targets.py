"""Audits of what people hold: a mechanism of the library, or a curator in front of two neighboring datasets.

The exact audit of a finite mechanism: its channel tells ε, or δ at the ε claimed, without a single draw.

The guessing game: one of two neighboring inputs was released; which?

For any test between x and x' of an ε-DP release, Pr[guess x | x] + Pr[guess x' | x'] ≤ 2e^ε/(1+e^ε) (Kairouz,
Oh, Viswanath 2015, Theorem 2.1): 1 is a coin's, 2 is certainty. For a finite channel the best test is known exactly,
and is measured too; for anything that can be called it is learned from one sample and measured on another.

>>> from discreet.attacks.audit.targets import Guessing
>>> from discreet.mechanisms import Channel
>>> coin = Channel([["3/4", "1/4"], ["1/4", "3/4"]], inputs=["yes", "no"])
>>> report = Guessing(mechanism=coin, first="yes", second="no", epsilon="1.0987", trials=2000, seed=1).run()
>>> report.facts["best test, exactly"], report.verdict
(1.5, 'holds')
"""

import itertools
import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from fractions import Fraction
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.attacks.attack_report import AttackReport, Share, setting
from discreet.attacks.audit.audit import Audit, Claim, Progress, claim
from discreet.attacks.audit.finding import guess_bound_when_sure
from discreet.attacks.audit.outputs import ErrorOutput
from discreet.attacks.tables.columns import coded, columns, kind
from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import Number, float_up, integer, rational
from discreet.mechanisms import Mechanism
from discreet.mechanisms.bayesian import best_test, guess_bound
from discreet.mechanisms.channel import Channel
from discreet.mechanisms.neighbor_graph import Neighborhood
from discreet.report import Bars, Chart, Line, Mark, Points


def audit_mechanism(
    mechanism: Mechanism,
    *,
    x: Any,
    neighbor: Any,
    delta: Number | None = None,
    claimed: Claim | None = None,
    **settings: Any,
) -> Audit:
    """An audit of a mechanism by its `release`, against what its own `loss` says at δ unless something is claimed.

    >>> from discreet.mechanisms import RandomizedResponse
    >>> coins = RandomizedResponse.from_coins(heads="1/2")
    >>> audit_mechanism(coins, x=0, neighbor=1, samples=4000, confidence="0.99999999").find().broken
    False
    """
    if not callable(getattr(mechanism, "release", None)):
        raise InvalidParameter("mechanism", mechanism, "a mechanism with a release method", "use Audit for functions")
    return Audit(
        mechanism=mechanism.release,
        x=x,
        neighbor=neighbor,
        claimed=mechanism.loss if claimed is None else claimed,
        delta=delta,
        **{"name": type(mechanism).__name__} | settings,
    )


def audit_curator(
    *,
    x: Callable[[], Any],
    neighbor: Callable[[], Any],
    question: str | Callable[[int], str],
    claimed: Claim,
    read: Callable[[Any], Any],
    asking: dict[str, Any] | None = None,
    samples: int = 2000,
    delta: Number | None = None,
    confidence: Number = 0.99,
    seed: int = 0,
    name: str = "a curator",
    seconds: float | None = None,
    progress: Progress | None = None,
) -> Audit:
    """An audit of whole answers: `x()` and `neighbor()` each open a fresh curator, an object with `ask`.

    A curator gives the same answer to the same question again. So each draw opens a new one (give it a ledger of its
    own, in memory), unless `question` is a function of 0, 1, 2, …: then one curator of each side and batch, with a
    budget for all of it, is asked question(0), question(1), …, which should mean the same in other words. What `x()`
    returns is entered and closed if it is a context manager, closed if it has a `close`. `asking` are keywords for
    `ask`; `read` makes an output (a number, a list, anything) of an answer.

    >>> class Toy:
    ...     def __init__(self, rows):
    ...         self.rows = rows
    ...     def ask(self, question):
    ...         return len(self.rows)  # no noise at all
    >>> result = audit_curator(x=lambda: Toy("ab"), neighbor=lambda: Toy("a"), question="COUNT", claimed=1, read=int)
    >>> result.find().broken
    True
    """
    for side, opener in (("x", x), ("neighbor", neighbor)):
        if not callable(opener):
            raise InvalidParameter(side, opener, "a function without arguments that opens a curator")

    def single(opener: Callable[[], Any]) -> Any:
        return _answers(opener, [str(question)], read, asking or {})[0]

    numbers = itertools.count()

    def several(opener: Callable[[], Any], n: int) -> list[Any]:
        texts = [question(i) for i in itertools.islice(numbers, n)] if callable(question) else []
        return _answers(opener, texts, read, asking or {})

    return Audit(
        mechanism=several if callable(question) else single,
        x=x,
        neighbor=neighbor,
        claimed=claimed,
        delta=delta,
        samples=samples,
        confidence=confidence,
        seed=seed,
        name=name,
        seconds=seconds,
        progress=progress,
    )


def _answers(
    opener: Callable[[], Any], questions: list[str], read: Callable[[Any], Any], asking: dict[str, Any]
) -> list[Any]:
    """What one curator answers to these questions."""
    opened = opener()
    with opened if isinstance(opened, AbstractContextManager) else _Closing(opened) as curator:
        return [_answer(curator, question, read, asking) for question in questions]


def _answer(curator: Any, question: str, read: Callable[[Any], Any], asking: dict[str, Any]) -> Any:
    try:
        return read(curator.ask(question, **asking))
    except Exception as error:  # an analyst sees that it failed
        return ErrorOutput(type(error).__name__)


class _Closing(AbstractContextManager[Any]):
    """Anything with `ask`, closed at the end if it can be."""

    def __init__(self, opened: Any) -> None:
        self._opened = opened

    def __enter__(self) -> Any:
        return self._opened

    def __exit__(self, *_: object) -> None:
        getattr(self._opened, "close", lambda: None)()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelAudit:
    """A channel (or rows of probabilities), which inputs are neighbors, and what was claimed.

    `neighbors` is "all", "line", pairs of inputs or whatever a channel takes; (x, x') in a list audits one pair.

    Guarantee: for a channel of rationals the ε found is the tightest one, rounded up in its last digit
    (`Channel.epsilon`); for floats it is that of the entries given.

    >>> result = ChannelAudit(channel=[["3/4", "1/4"], ["1/4", "3/4"]], claimed=1)
    >>> round(result.epsilon, 4), result.broken, result.run().verdict
    (1.0986, True, 'falls')
    """

    channel: Any
    neighbors: Neighborhood = "all"
    claimed: Claim | None = None
    delta: Number | None = None
    name: str = "a channel"

    def __post_init__(self) -> None:
        claim(self.claimed, self.delta)
        if not isinstance(self.channel, Channel):
            object.__setattr__(self, "channel", Channel(self.channel))
        if len(self.channel.inputs) < 2:
            raise InvalidParameter("channel", f"{len(self.channel.inputs)} input", "two inputs or more to compare")

    @property
    def epsilon(self) -> float:
        """The tightest ε at the δ in question."""
        return float(self.channel.epsilon(self.neighbors, delta=self._delta))

    @property
    def delta_at_claim(self) -> float | None:
        """The least δ for which the claimed ε holds; None without a claim."""
        epsilon = claim(self.claimed, self.delta)[0]
        return None if epsilon is None else float(self.channel.delta(epsilon, self.neighbors))

    @property
    def broken(self) -> bool:
        """Whether the channel needs a larger δ than was claimed at the claimed ε."""
        needed = self.delta_at_claim
        return needed is not None and self._exceeds(needed)

    def run(self) -> AttackReport:
        """Audit, and report."""
        epsilon, result = claim(self.claimed, self.delta)[0], self.epsilon
        if epsilon is not None and not self.broken:
            result = min(result, float_up(epsilon))  # rounding up must not accuse
        allowed = 0.5 if epsilon is None else guess_bound_when_sure(float_up(epsilon))
        return AttackReport(
            attack="audit, exact",
            against=self.name,
            goal="tell from one output whether a person's data was in it",
            people=1,
            success=Share.known(guess_bound_when_sure(result)),
            baseline=Share.known(allowed),
            confidence=1.0,
            tolerance=0.0,
            facts=self._facts(),
            charts=self._charts(),
            remarks=("Every output of every pair of neighbors was compared: nothing is left to chance.",),
        )

    @property
    def _delta(self) -> Fraction:
        return claim(self.claimed, self.delta)[1]

    def _exceeds(self, needed: float) -> bool:
        """δ needed at the claimed ε is above the δ claimed; for rationals without rounding."""
        epsilon = claim(self.claimed, self.delta)[0]
        if not self.channel.exact or epsilon is None:
            return needed > float(self._delta) + 1e-12
        return Fraction(repr(needed)) > self._delta and (self._delta > 0 or self.epsilon > epsilon)

    def _facts(self) -> dict[str, Any]:
        epsilon, worst = claim(self.claimed, self.delta)[0], self.channel.worst(self.neighbors)
        return {
            "ε": self.epsilon if isfinite(self.epsilon) else "∞",
            "at δ": float(self._delta),
            "claimed ε": "none" if epsilon is None else float_up(epsilon),
            "δ at the claimed ε": "none" if epsilon is None else self.delta_at_claim,
            "claim": "none" if epsilon is None else "broken" if self.broken else "holds",
            "worst output": "none" if worst is None else str(worst),
        }

    def _charts(self) -> tuple[Chart, ...]:
        curve = self.channel.curve(self.neighbors)
        shown = Line([e for e, _ in curve], [d for _, d in curve], "least δ")
        epsilon, result = claim(self.claimed, self.delta)[0], min(self.epsilon, 50.0)
        names, values = (["ε"], [result]) if epsilon is None else (["claimed ε", "ε"], [float_up(epsilon), result])
        return (
            Chart(f"{self.name}: δ for every ε", [shown], x="ε", y="δ"),
            Chart(f"{self.name}: claimed and true", [Bars(names, values)], y="ε"),
        )


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
    epsilon: Number | None = setting("The claimed ε; response and geometric use it.", default=None)
    trials: int = setting("Guesses for each input.", default=10_000, least=1)
    seed: int = setting("The seed of all random choices.", default=0, least=0)
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
            tolerance=0.0 if self.epsilon is not None and success.low > allowed else 0.05,
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
