"""What an attack reached, beside what guessing reaches: one form for every attack.

An attack is a frozen value whose fields are what the attacker holds and what the judge knows; `run()` gives an
`AttackReport`. It never says "re-identified" without the baseline (a guesser who has not seen the release) and, where
it makes sense, the control (the same attack on people who are not in the release).

Attacks on secrets are judged by the *normalized* risk, success beyond guessing as a share of what guessing leaves open:
100 % where guessing reaches 99.5 % is all that there was to gain, not half a point. An average hides the few: a report
may hold groups of people (those who share a secret) that are judged on their own.

>>> from discreet.attacks import AttackReport, Share
>>> report = AttackReport(
...     attack="linkage", against="the raw table", goal="name the person of a row", people=100, confidence=0.95,
...     success=Share.counted(90, 100, confidence=0.95), baseline=Share.known(0.01),
... )
>>> report.verdict
'falls'
"""

import json
import math
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.intervals import clopper_pearson, newcombe
from discreet.report import Bars, Chart, Facts, Grid, Page, Part, Text, Verdict
from discreet.report.page import shown

_PRIVATE = "worst examples are for the owner's eyes: do not pass them on"
_VERDICTS = {
    "falls": "The attack succeeds clearly more often than guessing does.",
    "leaks": "The attack succeeds on a few people more than guessing does.",
    "holds": "The attack does no better than guessing, within the tolerance.",
    "undecided": "The attack was tried on too few people to say: ",
}
_SHOWN = 6  # groups in a text; all of them are in the JSON
_WORST_FIRST = ("falls", "leaks", "undecided", "holds")
_ON_OUTSIDERS = "The attack does no better than on people outside the data, within the tolerance."
_UNREAD = "The attack does no better than guessing, but for the reason stated that shows nothing."
_PARTLY_READ = "The attack succeeds more often than guessing does; for the reason stated, perhaps by more than shown."


def setting(
    words: str,
    *,
    default: Any = MISSING,
    kind: "str | tuple[str, ...] | None" = None,
    least: int | None = None,
    most: int | None = None,
    repr: bool = True,  # noqa: A002 (as dataclasses call it)
) -> Any:
    """A field of an attack that a command can be made of: what it is in words, and how it is given.

    `kind` is one of several words, or "table", "tables", "columns" (names), "rules" and "covers" (how columns compare),
    "values" and "bits" (a column of a file), "numbers", "share"; left out, the type of the field says it. `least` and
    `most` bound a whole number.

    >>> from dataclasses import dataclass, fields
    >>> @dataclass(kw_only=True)
    ... class Trial:
    ...     repeats: int = setting("How often each question is repeated.", default=100, least=1)
    >>> fields(Trial)[0].metadata["help"], Trial().repeats
    ('How often each question is repeated.', 100)
    """
    limits = {"least": least, "most": most} if least is not None else {}
    metadata = {"help": words, **({"kind": kind} if kind else {}), **limits}
    return field(default=default, metadata=metadata, repr=repr)


class Attack(Protocol):
    """Anything that can be run and judged."""

    def run(self) -> "AttackReport":
        """Attack, and judge."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """How often something happened, with confidence limits.

    >>> Share.counted(9, 10, confidence=0.95)
    90.0 % (55.5–99.7 %; 9 of 10)
    >>> Share.known(0.25)
    25.0 %
    """

    value: float
    low: float
    high: float
    hits: int | None = None
    trials: int | None = None

    @classmethod
    def counted(cls, hits: int, trials: int, *, confidence: float) -> "Share":
        """A share that was counted; its limits are Clopper and Pearson's."""
        low, high = clopper_pearson(hits, trials, confidence=confidence)
        return cls(
            value=hits / trials if trials else 0.0, low=float(low), high=float(high), hits=int(hits), trials=int(trials)
        )

    @classmethod
    def among(cls, hits: NDArray[np.bool_], *, confidence: float) -> "Share":
        """The share of these people who were hit.

        >>> Share.among(np.array([True, False]), confidence=0.95)
        50.0 % (1.3–98.7 %; 1 of 2)
        """
        return cls.counted(int(hits.sum()), len(hits), confidence=confidence)

    @classmethod
    def known(cls, value: float) -> "Share":
        """A share that follows from what is known, without doubt."""
        if not 0 <= value <= 1:
            raise InvalidParameter("value", value, "a share between 0 and 1")
        return cls(value=float(value), low=float(value), high=float(value))

    def __repr__(self) -> str:
        if self.trials is None and self.low == self.high:
            return _percent(self.value)
        count = "" if self.trials is None else f"; {self.hits:,} of {self.trials:,}"
        return f"{_percent(self.value)} ({_percent(self.low)[:-2]}–{_percent(self.high)}{count})"

    def as_dict(self) -> dict[str, Any]:
        """The share as plain values."""
        return {"value": self.value, "low": self.low, "high": self.high, "hits": self.hits, "trials": self.trials}


def risk_tolerance(guessing: float) -> float:
    """A tolerance of 5 points as a normalized risk, but a tenth of what guessing leaves open at most.

    >>> risk_tolerance(0.0), risk_tolerance(0.5), risk_tolerance(0.95)
    (0.05, 0.1, 0.1)
    """
    return min(0.1, 0.05 / (1 - guessing)) if guessing < 1 else 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Success among some people beside what it must be compared with.

    `tolerance` is for the normalized risk, or (`normalized` is False) for the plain difference of the two shares.
    `decides` is False where too few people are in a group for it to hold ever: it can then only fall.

    >>> rare = Share.counted(3, 3, confidence=0.95), Share.counted(0, 3, confidence=0.95)
    >>> Comparison(name="all", success=rare[0], reference=rare[1], tolerance=0.05).verdict
    'undecided'
    """

    name: str
    success: Share
    reference: Share
    tolerance: float
    normalized: bool = True
    decides: bool = True

    @property
    def risk(self) -> Share:
        """Success beyond the reference, as a share of what was left to gain: (s − r)/(1 − r), between 0 and 1.

        The limits are those of the difference (Newcombe 1998), divided by 1 − r.
        """
        left = 1 - self.reference.value
        if left <= 0:
            return Share(value=0.0, low=0.0, high=0.0 if self.reference.low == 1 else 1.0)
        return self._gain(left)

    @property
    def excess(self) -> Share:
        """What the tolerance is compared with: the normalized risk, or the difference of the shares."""
        return self.risk if self.normalized else self._gain(1.0)

    def _gain(self, unit: float) -> Share:
        shares = [(share.value, share.low, share.high) for share in (self.success, self.reference)]
        limits = newcombe(shares[0], shares[1])
        value, low, high = np.clip(np.array([shares[0][0] - shares[1][0], *limits]) / unit, 0, 1).tolist()
        return Share(value=value, low=low, high=high)

    @property
    def verdict(self) -> str:
        """What follows: `falls`, `leaks`, `holds` or `undecided`.

        Success is above the reference beyond doubt (their limits are apart): `falls`, or `leaks` where the excess is
        within the tolerance. It is not: `holds` if the upper limit of the excess is within it; else `undecided`.
        """
        excess = self.excess
        if self.success.low > self.reference.high:
            return "falls" if excess.value > self.tolerance else "leaks"
        return "holds" if excess.high <= self.tolerance or not self.decides else "undecided"

    def as_dict(self) -> dict[str, Any]:
        """The comparison as plain values."""
        shares = {"success": self.success, "reference": self.reference, "risk": self.risk}
        plain = {name: share.as_dict() for name, share in shares.items()}
        return {"name": self.name, "verdict": self.verdict, "tolerance": self.tolerance, **plain}


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackReport:
    """What was attacked, what counts as success, and how often it came about.

    `worst` holds private examples: they appear in no text, dictionary or page unless `owner=True` is said. `unread`
    says what the attack could not make sense of (labels without explanation, a control that is none): an attack that
    fails for such a reason never makes a release hold. `normalized`: the tolerance is for the normalized risk, as it
    must be where guessing is often right; else for the difference of success and guessing. `groups` are people for
    whom it is judged on its own too: a release holds only if it holds for everybody together and for each group.
    """

    attack: str
    against: str
    goal: str
    people: int
    success: Share
    baseline: Share
    confidence: float
    control: Share | None = None
    tolerance: float = 0.05
    facts: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    worst: tuple[str, ...] = field(default=(), repr=False)
    charts: tuple[Chart, ...] = field(default=(), repr=False)
    remarks: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    normalized: bool = False
    groups: tuple[Comparison, ...] = ()

    @property
    def reference(self) -> Share:
        """What success must be compared with: the larger of baseline and control."""
        if self.control is None or self.baseline.value >= self.control.value:
            return self.baseline
        return self.control

    @property
    def whole(self) -> Comparison:
        """All the people who were attacked, together."""
        return Comparison(
            name="all people",
            success=self.success,
            reference=self.reference,
            tolerance=self.tolerance,
            normalized=self.normalized,
        )

    @property
    def risk(self) -> Share:
        """The normalized risk of all people together, with its limits: see `Comparison.risk`."""
        return self.whole.risk

    @property
    def verdict(self) -> str:
        """What follows: `falls`, `leaks`, `holds` or `undecided`; the worst of all people together and each group.

        It never is `holds` where the attack could not read everything.
        """
        worst = self._judged
        return "undecided" if worst == "holds" and self.unread else worst

    @property
    def sentence(self) -> str:
        """The verdict in a sentence; where nothing is decided, with what stands in the way."""
        verdict = self.verdict
        if verdict == "holds" and self.control is not None and self.success.low > self.baseline.high:
            return _ON_OUTSIDERS
        if verdict != "undecided":
            return _PARTLY_READ if verdict == "leaks" and self.unread else _VERDICTS[verdict]
        return _UNREAD if self._judged == "holds" else _VERDICTS[verdict] + self._open

    @property
    def _judged(self) -> str:
        verdicts = {part.verdict for part in (self.whole, *self.groups)}
        return next(verdict for verdict in _WORST_FIRST if verdict in verdicts)

    @property
    def _open(self) -> str:
        """How high the excess may be, where that is too high to hold."""
        parts = [part for part in (self.whole, *self.groups) if part.verdict == "undecided"]
        words = [
            f"{'the risk' if part is parts[0] else 'that'} of {part.name} may be {_percent(part.excess.high)} "
            f"({_percent(part.tolerance)} would do)"
            for part in parts[:3]
        ]
        return ", ".join(words) + (f" and {len(parts) - 3} more" if len(parts) > 3 else "") + "."

    def text(self, *, owner: bool = False) -> str:
        """The report as lines."""
        rows = {name: on_terminal(value) for name, value in self._rows().items()}
        width = max(map(len, rows))
        lines = [f"{name:<{width}}  {value}" for name, value in rows.items()]
        lines += [f"- {remark}" for remark in (*self.unread, *self.remarks)]
        lines += [f"- {self.sentence}"] if self.verdict == "undecided" or self.sentence == _PARTLY_READ else []
        if owner and self.worst:
            lines += [f"{_PRIVATE}:", *[f"  {example}" for example in self.worst]]
        return "\n".join(lines)

    def as_dict(self, *, owner: bool = False) -> dict[str, Any]:
        """The report as plain values, for JSON."""
        plain: dict[str, Any] = {
            "attack": self.attack,
            "against": self.against,
            "goal": self.goal,
            "people": self.people,
            "verdict": self.verdict,
            "success": self.success.as_dict(),
            "baseline": self.baseline.as_dict(),
            "control": None if self.control is None else self.control.as_dict(),
            "risk": self.risk.as_dict(),
            "confidence": self.confidence,
            "facts": {name: _plain(value) for name, value in self.facts.items()},
            "unread": list(self.unread),
            "remarks": list(self.remarks),
            "reason": self.sentence,
            "groups": [group.as_dict() for group in self.groups],
        }
        return plain | ({"worst": list(self.worst)} if owner else {})

    def json(self, *, owner: bool = False) -> str:
        """The report as JSON."""
        return json.dumps(self.as_dict(owner=owner), ensure_ascii=False, allow_nan=False)

    def chart(self) -> Chart:
        """Success beside baseline and control."""
        shares = {"attack": self.success, "guessing": self.baseline}
        shares |= {} if self.control is None else {"control": self.control}
        parts = list(shares.values())
        bars = Bars(list(shares), [s.value for s in parts], low=[s.low for s in parts], high=[s.high for s in parts])
        return Chart(f"{self.attack}: {self.goal}", [bars], y="share of people", y_range=(0, 1))

    def parts(self, *, owner: bool = False) -> list[Part]:
        """The report as parts of a page."""
        good = {"falls": False, "leaks": False, "holds": True}.get(self.verdict)
        parts: list[Part] = [Verdict(self.verdict, self.sentence, good), Facts(self._rows())]
        parts += [self.chart(), *self.charts, *[Text(remark) for remark in (*self.unread, *self.remarks)]]
        if owner and self.worst:
            parts.append(Grid([_PRIVATE], [[example] for example in self.worst]))
        return parts

    def page(self, *, owner: bool = False) -> Page:
        """The report as an HTML page."""
        return Page(f"{self.attack} against {self.against}", self.parts(owner=owner), lead=f"Goal: {self.goal}.")

    def _repr_html_(self) -> str:
        return self.page().fragment()

    def _rows(self) -> dict[str, Any]:
        rows: dict[str, Any] = {"attack": self.attack, "against": self.against, "goal": self.goal}
        rows |= {"people attacked": f"{self.people:,}", "success": self.success, "guessing": self.baseline}
        rows |= {} if self.control is None else {"on people outside": self.control}
        rows |= {"risk beyond that": self.risk, **self.facts}
        shown_first = sorted(self.groups, key=lambda group: _WORST_FIRST.index(group.verdict))[:_SHOWN]
        judged = {group.name: f"{group.success}, outside {group.reference}" for group in shown_first}
        return rows | judged | {"verdict": self.verdict}


def on_terminal(value: Any) -> str:
    """A value as in pages, with plain spaces: a terminal breaks no lines, and people search its text.

    >>> on_terminal("90.0 %")
    '90.0 %'
    """
    return shown(value).replace("\N{NO-BREAK SPACE}", " ")


def _percent(share: float) -> str:
    digits = 1 if share in (0, 1) or 0.001 <= share <= 0.999 else 4
    return f"{100 * share:.{digits}f} %"


def _plain(value: Any) -> Any:
    if isinstance(value, Share):
        return value.as_dict()
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no infinity
    return value if isinstance(value, str | int | float | bool | None) else str(value)
