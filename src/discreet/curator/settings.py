"""The settings of an account as one line of JSON that the ledger keeps: a budget, caps, and what they protect.

What a budget protects (whom, against which change) is part of what ε means, so it cannot change unseen either.

When answers leave: at steps of a time grid, since the time that an answer took depends on private rows.

The steps are 1, 2 and 5 times powers of ten seconds, from a floor on. An answer that is ready after t seconds leaves at
the next step or, at random, at the one after it: the later, the nearer t is to the next step.
"""

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from itertools import count, dropwhile
from typing import NamedTuple, Protocol
from unicodedata import category, normalize

from discreet.errors import InvalidParameter, LedgerDamaged
from discreet.exact import plain
from discreet.noise import Entropy, uniform_below
from discreet.privacy.budget import Budget
from discreet.privacy.unit import words


class Settings(NamedTuple):
    """The budget of an account, caps by analyst, and the cap of everybody who is not named."""

    budget: Budget
    caps: Mapping[str, Budget]
    everyone: Budget | None = None

    def cap_of(self, analyst: str) -> Budget | None:
        """The cap of an analyst, by name or as one of everyone; None where there is none."""
        return self.caps.get(analyst, self.everyone)

    def admits(self, analyst: str) -> bool:
        """Whether this analyst may ask at all.

        Where analysts are named, others are refused unless everyone has a cap. Where nobody is named and there is no
        cap for everyone, any name may spend the whole budget: the dataset is its owner's own tool.
        """
        return not self.caps or self.cap_of(analyst) is not None


class Allowance(NamedTuple):
    """What one caller may spend beside what the owner's settings grant: in all, and within any 24 hours.

    It only narrows: who may ask at all is said by the settings.
    """

    total: Budget | None = None
    daily: Budget | None = None


NO_LIMIT = Allowance()
"""Of a caller who is bound by the owner's settings alone."""


# Names

_INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0")
"""Letters and marks that Unicode displays as nothing, beside those of the category Cf and variation selectors."""


@lru_cache(maxsize=4096)
def analyst_name(name: str) -> str:
    """An analyst's name as it is compared: one spelling for every way to write it.

    Compatibility forms and upper case are folded (NFKC and casefold, as in Unicode's NFKC_Casefold), characters that
    display as nothing are dropped, and white space of any kind is one space.

    >>> analyst_name("  Bob\u00a0\u200bSMITH "), analyst_name("\uff22\uff4f\uff42")
    ('bob smith', 'bob')
    """
    before, text = "", words(name, "analyst", "the name of an analyst")
    while text != before:
        before, text = text, normalize("NFKC", normalize("NFKC", text).casefold())
        text = " ".join("".join(letter for letter in text if not _is_invisible(letter)).split())
    return words(text, "analyst", "the name of an analyst, with letters that can be seen")


def _is_invisible(letter: str) -> bool:
    selector = "\ufe00" <= letter <= "\ufe0f" or "\U000e0100" <= letter <= "\U000e01ef"
    return selector or letter in _INVISIBLE or category(letter) == "Cf"


def caps_by_name(caps: Mapping[str, Budget], place: str = "caps") -> dict[str, Budget]:
    """Caps by the names as they are compared; two caps for one analyst are refused.

    >>> caps_by_name({"Bob": Budget(epsilon=1)})
    {'bob': Budget(epsilon=1, delta=0, delta_for_keys=0)}
    """
    unique: dict[str, Budget] = {}
    for name, cap in caps.items():
        if (known := analyst_name(name)) in unique:
            hint = "names are compared without case and spacing"
            raise InvalidParameter(place, name, f"one cap for {known!r}", hint)
        unique[known] = cap
    return unique


# As text


def settings_text(
    budget: Budget,
    caps: Mapping[str, Budget],
    protects: str = "",
    *,
    everyone: Budget | None = None,
    marks: Iterable[str] = (),
) -> str:
    """One line of JSON, the same for the same settings. `marks`: digests by which the data are known again."""
    limits = {analyst: _limits(cap, "caps") for analyst, cap in caps_by_name(caps).items()}
    document: dict[str, object] = {"budget": _limits(budget, "budget"), "caps": limits}
    if everyone is not None:
        document["everyone"] = _limits(everyone, "everyone")
    if protects:
        document["protects"] = words(protects, "protects", "whom the budget protects, in words")
    if known := sorted(marks):
        document["marks"] = known
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _limits(budget: Budget, name: str) -> dict[str, str]:
    if not isinstance(budget, Budget):
        raise InvalidParameter(name, budget, "a Budget", "write Budget(epsilon=…)")
    return {key: plain(getattr(budget, key)) for key in ("epsilon", "delta", "delta_for_keys")}


@lru_cache(maxsize=256)
def settings_of(text: str) -> Settings:
    """The budget and the caps that a line states. Of two caps for one name, which old ledgers have, the lower."""
    try:
        document = json.loads(text)
        caps: dict[str, Budget] = {}
        for name, limits in document["caps"].items():
            cap, known = Budget(**limits), analyst_name(name)
            caps[known] = min(cap, caps.get(known, cap), key=lambda budget: budget.epsilon)
        everyone = document.get("everyone")
        return Settings(Budget(**document["budget"]), caps, None if everyone is None else Budget(**everyone))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise LedgerDamaged(f"these are not the settings of an account: {error}") from None


@lru_cache(maxsize=256)
def cap_as_written(text: str, analyst: str) -> Budget | None:
    """The cap of an analyst whose name is spelled just so: the rule for rows of form 1."""
    settings_of(text)
    limits = json.loads(text)["caps"].get(analyst)
    return None if limits is None else Budget(**limits)


def protection_of(text: str) -> str:
    """What the settings say that they protect; nothing where they do not say."""
    settings_of(text)
    return str(json.loads(text).get("protects", ""))


def marks_of(text: str) -> frozenset[str]:
    """The digests by which the data of an account are known again."""
    settings_of(text)
    return frozenset(map(str, json.loads(text).get("marks", ())))


def same_settings(first: str, other: str) -> bool:
    """Whether two lines grant the same and protect the same, however names are written."""
    return (settings_of(first), protection_of(first)) == (settings_of(other), protection_of(other))


def in_words(settings: str) -> str:
    """Settings for a message."""
    budget, caps, everyone = settings_of(settings)
    limits = [f"{cap.describe_limit()} for {analyst!r}" for analyst, cap in sorted(caps.items())]
    limits += [] if everyone is None else [f"{everyone.describe_limit()} for everyone else"]
    protects = protection_of(settings)
    keys = f" ({plain(budget.delta_for_keys)} of it to name groups)" if budget.delta else ""
    said = f"budget {budget.describe_limit()}{keys}" + (f" and caps {'; '.join(limits)}" if limits else " and no caps")
    return said + (f", protecting {protects}" if protects else "")


FLOOR = Fraction(1, 10)
"""Seconds: the first step, unless a policy says otherwise."""

_SECOND = 10**9


class Timer(Protocol):
    """The seam where tests inject how long things take, in nanoseconds."""

    def read(self) -> int:
        """Nanoseconds since some moment: never less than before."""

    def wait(self, nanoseconds: int) -> None:
        """Return after so long."""


class SystemTimer:
    """The machine's monotonic clock."""

    def read(self) -> int:
        """Nanoseconds since some moment."""
        return time.monotonic_ns()

    def wait(self, nanoseconds: int) -> None:
        """Sleep."""
        time.sleep(max(nanoseconds, 0) / _SECOND)


class ManualTimer:
    """A timer that runs only when it is told to, or waited for.

    >>> timer = ManualTimer()
    >>> timer.wait(5)
    >>> timer.read(), timer.waits
    (5, [5])
    """

    def __init__(self) -> None:
        self.time = 0
        self.waits: list[int] = []

    def read(self) -> int:
        """What was waited and added so far."""
        return self.time

    def wait(self, nanoseconds: int) -> None:
        """Let time pass, and note that it was waited for."""
        self.time += nanoseconds
        self.waits.append(nanoseconds)


@dataclass(frozen=True, slots=True)
class Pace:
    """The time grid of one dataset; with a floor of 0, answers leave when they are ready.

    Guarantee: where one unit changes how long an answer takes from s to t seconds, what can be seen of when it leaves
    changes by a total variation of at most |s − t|/w, with w the least width of a grid cell between them: at least the
    floor, and at least half of the smaller of s and t. Proof. Within the cell from a to b, an answer that is ready
    after t leaves at b with probability (b − t)/(b − a), and otherwise at the step after b: linear in t, of slope
    1/(b − a); at t = b both cells say the step after b, so nothing jumps. Cells are not narrower than half of their end
    (1 to 2, 2 to 5, 5 to 10), and the first is the floor.

    It is a delay that makes the time of a stable program private (Ratliff, Vadhan 2024), here a short one, at the price
    of a δ.
    """

    floor: Fraction = FLOOR
    timer: Timer = field(default_factory=SystemTimer)
    entropy: Entropy | None = None

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Let the block end, in whatever way, at a step of the grid from its beginning."""
        start = self.timer.read()
        try:
            yield
        finally:
            if self.floor:
                leaving = self.leaving(self.timer.read() - start)
                self.timer.wait(start + leaving - self.timer.read())

    def leaving(self, elapsed: int) -> int:
        """When something leaves that was ready after so many nanoseconds, in nanoseconds from the same start.

        >>> Pace(Fraction(1, 10)).leaving(0), Pace(Fraction(1, 10)).leaving(200_000_000)
        (100000000, 500000000)
        """
        before, steps = 0, _steps(self.floor)
        while (step := next(steps)) <= elapsed:
            before = step
        late = uniform_below(step - before, entropy=self.entropy) < elapsed - before
        return next(steps) if late else step


def _steps(floor: Fraction) -> Iterator[int]:
    """The steps of the grid from a floor on, in nanoseconds."""
    grid = (digit * 10**power for power in count() for digit in (1, 2, 5))
    return dropwhile(lambda step: step < floor * _SECOND, grid)
