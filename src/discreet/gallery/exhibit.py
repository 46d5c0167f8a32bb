"""One exhibit: what is done, against what, and what came of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import monotonic

from discreet.attacks import AttackReport
from discreet.report import Grid, Heading, Part, Text


@dataclass(frozen=True, slots=True, kw_only=True)
class Exhibit:
    """A subject: its words, and the function that makes its pictures from a seed."""

    name: str
    title: str
    claims: tuple[str, ...]
    words: str
    show: Callable[[int], "Shown"] = field(repr=False)

    def run(self, *, seed: int) -> "Finished":
        """Attack, and keep the time."""
        start = monotonic()
        shown = self.show(seed)
        return Finished(self, shown, monotonic() - start)


@dataclass(frozen=True, slots=True, eq=False)
class Shown:
    """What an exhibit shows: reports, and what does not fit into one."""

    reports: Sequence[AttackReport] = ()
    more: Sequence[Part] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Finished:
    """An exhibit after its run."""

    exhibit: Exhibit
    shown: Shown
    seconds: float

    def parts(self) -> list[Part]:
        """Its part of the page."""
        claims = f" (claims {', '.join(self.exhibit.claims)})" if self.exhibit.claims else ""
        parts: list[Part] = [Heading(self.exhibit.title), Text(self.exhibit.words + claims + ".")]
        if len(self.shown.reports) > 1:
            parts.append(summary([self]))
        for report in self.shown.reports:
            parts += [Text(f"Against {report.against}:"), *report.parts()]
        return [*parts, *self.shown.more]


def summary(finished: Sequence[Finished]) -> Grid:
    """A line for each attack: what was tried, how often it succeeded, what guessing reaches, what follows."""
    rows = [
        [report.attack, report.against, repr(report.success), repr(report.reference), report.verdict]
        for one in finished
        for report in one.shown.reports
    ]
    return Grid(["attack", "against", "success", "guessing or control", "verdict"], rows)
