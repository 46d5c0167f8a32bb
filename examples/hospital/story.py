"""What happened in the demo, as data: what the report tells."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Point:
    """One released number, the interval for its noise, and the truth, which only the owner knows.

    `bounded` is the truth once each person's part in it is bounded, where that differs and is known: noise is added
    to this.
    """

    label: str
    released: float
    low: float | None
    high: float | None
    truth: float | None
    bounded: float | None = None

    @property
    def covers(self) -> bool | None:
        """Whether the interval holds what noise was added to, as far as that is known."""
        under = self.truth if self.bounded is None else self.bounded
        return None if self.low is None or self.high is None or under is None else self.low <= under <= self.high


@dataclass(frozen=True, slots=True)
class Asked:
    """A question and its answer. `points` are of one column, the one that is drawn; `rows` are all of the answer."""

    title: str
    remark: str
    sql: str
    asks: str
    analyst: str
    epsilon: float
    delta: float
    free: bool
    remaining: float
    measure: str
    points: tuple[Point, ...]
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class Refused:
    """A question that was not answered, and why."""

    sql: str
    asks: str
    analyst: str
    message: str


@dataclass(frozen=True, slots=True)
class Averaging:
    """The attack by the mean of many answers; `spread` is the standard deviation of one."""

    sql: str
    truth: float
    repeats: int
    different: int
    answers: tuple[float, ...]
    refusal: str
    spread: float
    furthest: int
    careless: float

    @property
    def estimate(self) -> float:
        """What the attacker gets out of the curator."""
        return sum(self.answers) / len(self.answers)

    @property
    def margin(self) -> float:
        """How uncertain that is, at 95 %."""
        return 1.96 * self.spread / math.sqrt(len(self.answers))

    @property
    def careless_margin(self) -> float:
        """The same for a system that adds noise and keeps no ledger."""
        return 1.96 * self.spread / math.sqrt(self.furthest)


@dataclass(frozen=True, slots=True)
class Guesses:
    """How often one way of attacking guessed a secret bit."""

    name: str
    right: int
    trials: int

    @property
    def share(self) -> float:
        """The share of right guesses."""
        return self.right / self.trials

    def interval(self, z: float = 1.96) -> tuple[float, float]:
        """Wilson's interval for the chance of a right guess."""
        n, p = self.trials, self.share
        middle, spread = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
        return (middle - spread) / (1 + z * z / n), (middle + spread) / (1 + z * z / n)


@dataclass(frozen=True, slots=True)
class Differencing:
    """The attack on one person by the difference of two answers, against exact answers and against the curator."""

    sqls: tuple[str, str]
    direct: str
    epsilon: float
    bound: float
    guesses: tuple[Guesses, ...]
    by_number: tuple[str, str]


@dataclass(frozen=True, slots=True)
class Story:
    """Everything that the report tells."""

    tables: tuple[tuple[str, str, int], ...]
    policy: str
    words: str
    epsilon: float
    spent: float
    plan: str
    asked: tuple[Asked, ...]
    until_empty: tuple[Asked, ...]
    refused: tuple[Refused, ...]
    averaging: Averaging
    differencing: Differencing
    statement: str
    further: str
    seconds: float
