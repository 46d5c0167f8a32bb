"""The collector: lines of reports go into a store, and what they say together comes out.

A report is private before it comes here. Estimation reads counts, so a hundred million reports cost one GROUP BY.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from discreet.errors import InvalidData
from discreet.exact import Number
from discreet.local.estimates import Estimate, Method, estimate
from discreet.local.lines import Line, parts, sift
from discreet.local.oracle import Integers
from discreet.local.stores import Counts, opened
from discreet.local.survey import Survey


class Collection:
    """A store of reports: the path of a DuckDB file, or the address `postgresql://user@host/database`.

    >>> from tempfile import mkdtemp
    >>> survey = Survey(name="coin", version=1, question="Heads?", domain=["no", "yes"], randomizer="flat",
    ...                 epsilon=1, times=1)
    >>> store = Collection(Path(mkdtemp()) / "reports.duckdb")
    >>> lines = [survey.respond("yes").line for _ in range(100)]
    >>> print(store.add(survey, [*lines, lines[0], "hello"]))
    100 accepted, 2 rejected (1 malformed, 1 replayed)
    >>> store.estimate(survey, confidence="0.95").reports
    100
    """

    def __init__(self, store: str | Path, *, patience: float = 10.0) -> None:
        """`patience`: how many seconds to wait while another program has the file, or for a server to answer."""
        self.store = opened(store, patience=patience)

    def add(self, survey: Survey, lines: Iterable[Line], *, received: datetime | None = None) -> Counts:
        """Store the reports among the lines; the store is made if there is none.

        Lines are stored in parts of 250,000 (fewer, if they are long), each of them wholly or not at all. If adding was
        interrupted, or a file has grown, add the same lines again: those that came before count as replayed, reports
        and dropped lines alike.
        """
        if isinstance(lines, str | bytes):
            raise InvalidData("lines: got a single text, expected a list or a file of lines")
        total, moment = Counts(), datetime.now(UTC) if received is None else received.astimezone(UTC)
        seen: Counter[str] = Counter()
        for part in parts(lines):
            total += self.store.append(survey, sift(survey, part, seen), moment)
        return total

    def tally(self, survey: Survey) -> Integers:
        """What the estimator needs to know: counted by the database, or, for words of bits, added up when they came."""
        return self.store.read(survey)[1]

    def recount(self, survey: Survey) -> Integers:
        """The tally from all reports, read anew; refused if it is not the one that is kept."""
        return self.store.recount(survey)[1]

    def counts(self, survey: Survey) -> Counts:
        """How many lines were stored and dropped so far for this survey."""
        return self.store.counts(survey)

    def estimate(
        self, survey: Survey, *, confidence: Number | None, method: Method | None = None, iterations: int | None = None
    ) -> Estimate:
        """The shares of the answers; see `estimate`. It says, too, how many lines were dropped and why."""
        counts, tally = self.store.read(survey)
        found = estimate(
            survey, tally, reports=counts.accepted, confidence=confidence, method=method, iterations=iterations
        )
        return replace(found, counts=counts)
