"""A claim of the field: its sentence, and figures that this product computes to show it.

A figure has a predicted value, a measured one and a rule that says whether they agree. Statistical rules are chosen so
that a right product breaks one of them with a probability below a millionth.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from html import escape
from time import monotonic
from typing import Any

from discreet.attacks.attack_report import AttackReport, Share
from discreet.errors import DiscreetError
from discreet.noise import DeterministicEntropy
from discreet.report import Bars, Chart, Grid, Html, Part, Verdict

Value = float | int | Fraction | str | bool


@dataclass(frozen=True, slots=True)
class Figure:
    """One number (or word) that a claim predicts, beside the one that was measured.

    >>> Figure.equal("tightest ε", 1, 1.0).holds, Figure.at_most("share", 0.1, 0.3).holds
    (True, False)
    """

    what: str
    predicted: str
    measured: Value
    holds: bool
    low: float | None = None
    high: float | None = None
    goal: float | None = None
    """The number that is predicted, or the limit, where there is one."""

    @classmethod
    def equal(cls, what: str, predicted: Value, measured: Value, *, within: float = 0.0) -> "Figure":
        """The measured value is the predicted one, or at most `within` away from it."""
        if isinstance(predicted, str) or isinstance(measured, str):
            return cls(what, str(predicted), measured, predicted == measured)
        same = predicted == measured or abs(float(predicted) - float(measured)) <= within
        words = shown(predicted) + (f" ± {shown(within)}" if within else "")
        return cls(what, words, measured, same, goal=None if isinstance(predicted, bool) else float(predicted))

    @classmethod
    def at_most(cls, what: str, limit: Value, measured: Value) -> "Figure":
        """The measured value does not exceed a limit."""
        return cls(what, f"≤ {shown(limit)}", measured, float(measured) <= float(limit), goal=float(limit))

    @classmethod
    def at_least(cls, what: str, limit: Value, measured: Value) -> "Figure":
        """The measured value reaches a limit."""
        return cls(what, f"≥ {shown(limit)}", measured, float(measured) >= float(limit), goal=float(limit))

    @classmethod
    def covered(cls, what: str, predicted: Value, measured: Value, low: float, high: float) -> "Figure":
        """The interval around the measured value holds the predicted one."""
        goal = float(predicted)
        return cls(what, shown(predicted), measured, low <= goal <= high, low, high, goal)

    @classmethod
    def share(cls, what: str, predicted: str, share: Share, *, holds: bool) -> "Figure":
        """A share of people with its interval; `holds` says whether it is as predicted."""
        return cls(what, predicted, share.value, holds, share.low, share.high)

    @classmethod
    def attack(cls, what: str, predicted: str, report: AttackReport) -> "Figure":
        """An attack with its success, whose verdict (falls, holds) is the predicted one."""
        success = report.success
        return cls(
            what, f"the attack {predicted}", success.value, report.verdict == predicted, success.low, success.high
        )

    @property
    def over_goal(self) -> tuple[float, float, float] | None:
        """The measured value and its interval, in multiples of the predicted number; None where there is none."""
        if not self.goal or isinstance(self.measured, str | bool):
            return None
        value = float(self.measured)
        ends = [value if end is None else end for end in (self.low, self.high)]
        scaled = sorted(number / self.goal for number in (*ends, value))
        return (scaled[0], value / self.goal, scaled[2]) if all(map(math.isfinite, scaled)) else None

    def row(self) -> tuple[str, str, str, str, str]:
        """What, predicted, measured, interval, verdict: for a table."""
        ends = "" if self.low is None or self.high is None else f"{shown(self.low)} to {shown(self.high)}"
        return (
            self.what,
            self.predicted,
            shown(self.measured),
            ends,
            "as predicted" if self.holds else "not as predicted",
        )

    def to_json(self) -> dict[str, Any]:
        """As JSON can hold it."""
        measured = self.measured if isinstance(self.measured, str | bool | int) else _finite(float(self.measured))
        ends = {} if self.low is None or self.high is None else {"low": _finite(self.low), "high": _finite(self.high)}
        return {"what": self.what, "predicted": self.predicted, "measured": measured, **ends, "holds": self.holds}


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """What showing a claim gave: figures, and pictures of them."""

    figures: Sequence[Figure]
    charts: Sequence[Chart] = ()


@dataclass(frozen=True, slots=True)
class Run:
    """How claims are shown: from which seed, and whether small sizes will do."""

    seed: int = 1
    fast: bool = True

    def entropy(self, place: int = 0) -> DeterministicEntropy:
        """A stream of this run; another place gives another stream."""
        return DeterministicEntropy(self.seed * 1000 + place)

    def size(self, fast: int, full: int) -> int:
        """One of two sizes."""
        return fast if self.fast else full


@dataclass(frozen=True, slots=True, eq=False)
class Claim:
    """A claim by its id, in a sentence, with the function that shows it."""

    id: str
    words: str
    show: Callable[[Run], Evidence] = field(repr=False)

    def result(self, run: Run) -> "Result":
        """Show the claim and keep the time; an error is a figure that does not hold."""
        start = monotonic()
        try:
            evidence = self.show(run)
        except DiscreetError as error:
            evidence = Evidence([Figure("error", "none", f"{type(error).__name__}: {error}", holds=False)])
        return Result(self, evidence, monotonic() - start)


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """A claim and what it showed."""

    claim: Claim
    evidence: Evidence
    seconds: float

    @property
    def holds(self) -> bool:
        """Whether there are figures, and all of them are as predicted."""
        figures = self.evidence.figures
        return bool(figures) and all(figure.holds for figure in figures)

    @property
    def charts(self) -> Sequence[Chart]:
        """Its pictures; without one of its own, what was measured over what is predicted, figure by figure."""
        if self.evidence.charts:
            return self.evidence.charts
        numbers = [figure for figure in self.evidence.figures if figure.over_goal is not None]
        if numbers:
            low, value, high = zip(*(figure.over_goal or () for figure in numbers), strict=True)
            bars = Bars([figure.what for figure in numbers], value, low=low, high=high, limits=[1.0] * len(value))
            return [Chart("Measured over predicted: a tick is what is predicted or allowed", [bars], y="share of it")]
        shares = [figure for figure in self.evidence.figures if figure.low is not None]
        if shares:
            measured = [float(figure.measured) for figure in shares]
            low, high = (tuple(getattr(figure, end) for figure in shares) for end in ("low", "high"))
            return [Chart("Measured", [Bars([figure.what for figure in shares], measured, low=low, high=high)])]
        return ()

    def parts(self) -> list[Part]:
        """Its part of the page."""
        word = ("holds", "every figure is as predicted") if self.holds else ("fails", "a figure is not as predicted")
        rows = [figure.row() for figure in self.evidence.figures]
        return [
            Html(f'<h3 id="{escape(self.claim.id)}">{escape(self.claim.id)}. {escape(self.claim.words)}</h3>'),
            Verdict(*word, good=self.holds),
            Grid(("what", "predicted", "measured", "interval", "verdict"), rows),
            *self.charts,
        ]

    def to_json(self) -> dict[str, Any]:
        """As JSON can hold it."""
        figures = [figure.to_json() for figure in self.evidence.figures]
        return {"id": self.claim.id, "claim": self.claim.words, "holds": self.holds, "figures": figures}


class Group:
    """Claims about one subject, in the order in which they are written.

    >>> group = Group()
    >>> @group.claim("Z1", "One is one.")
    ... def one(run: Run) -> Evidence:
    ...     return Evidence([Figure.equal("one", 1, 1)])
    >>> group.claims[0].result(Run()).holds
    True
    """

    def __init__(self) -> None:
        self.claims: list[Claim] = []

    def claim(self, name: str, words: str) -> Callable[[Callable[[Run], Evidence]], Callable[[Run], Evidence]]:
        """Register the function that shows a claim."""

        def register(show: Callable[[Run], Evidence]) -> Callable[[Run], Evidence]:
            self.claims.append(Claim(name, words, show))
            return show

        return register


def shown(value: Value) -> str:
    """A value in few digits.

    >>> shown(Fraction(1, 3)), shown(float("inf")), shown(1234567), shown(True)
    ('1/3', '∞', '1234567', 'yes')
    """
    match value:
        case bool():
            return "yes" if value else "no"
        case str():
            return value
        case int():
            return str(value)
        case Fraction() if value.denominator < 10_000:
            return str(value)
    number = float(value)
    return "∞" if number == math.inf else f"{number:.5g}"


def _finite(number: float) -> float | str:
    return number if math.isfinite(number) else shown(number)
