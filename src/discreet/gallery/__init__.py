"""The gallery: every attack on generated data, what falls and what holds, on one page.

>>> from discreet.gallery import EXHIBITS, run
>>> [exhibit.name for exhibit in EXHIBITS][:3]
['linkage', 'homogeneity', 'fingerprints']
>>> page = run(["composition"], seed=1)
>>> page.html().count("<h2 ")
2
"""

from collections.abc import Callable, Sequence

from discreet.errors import InvalidParameter
from discreet.gallery import exhibits, models
from discreet.gallery.exhibits import Exhibit, ExhibitResult, ExhibitRun, summary
from discreet.report import Heading, Page, Part, Text

__all__ = ["EXHIBITS", "Exhibit", "ExhibitResult", "ExhibitRun", "page", "run", "visit"]

EXHIBITS: tuple[Exhibit, ...] = (*exhibits.EXHIBITS, *models.EXHIBITS)
"""All of them, in the order of the page."""

Progress = Callable[[int, int, str], None]


def run(names: Sequence[str] | None = None, *, seed: int, progress: Progress | None = None) -> Page:
    """Run the named exhibits (all, unless named) and put them on a page."""
    return page(visit(names, seed=seed, progress=progress), seed=seed)


def visit(names: Sequence[str] | None = None, *, seed: int, progress: Progress | None = None) -> list[ExhibitRun]:
    """Run the named exhibits (all, unless named); `progress(done, of, title)` is told before each."""
    chosen = EXHIBITS if names is None else tuple(_named(name) for name in names)
    finished: list[ExhibitRun] = []
    for number, exhibit in enumerate(chosen):
        if progress is not None:
            progress(number, len(chosen), exhibit.title)
        finished.append(exhibit.run(seed=seed))
    return finished


def page(finished: Sequence[ExhibitRun], *, seed: int) -> Page:
    """One page: first what falls and what holds, then each exhibit."""
    parts: list[Part] = [Heading("What falls, what holds"), summary(finished), *_legend()]
    for result in finished:
        parts += result.parts()
    seconds = sum(result.seconds for result in finished)
    lead = f"Attacks on generated people; nobody in them exists. Seed {seed}; {seconds:.0f} seconds."
    return Page("The gallery of attacks", parts, lead=lead)


def _legend() -> list[Part]:
    return [
        Text(
            "falls: success is clearly above guessing and above the same attack on people outside the data. leaks: so "
            "it is, but on few people. holds: it is not, within the tolerance. undecided: too few people, "
            "or not all could be read."
        )
    ]


def _named(name: str) -> Exhibit:
    for exhibit in EXHIBITS:
        if exhibit.name == name:
            return exhibit
    raise InvalidParameter("exhibit", name, f"one of {', '.join(exhibit.name for exhibit in EXHIBITS)}")
