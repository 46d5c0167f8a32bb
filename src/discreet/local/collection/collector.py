"""The collector: lines of reports go into a store, and what they say together comes out.

A report is private before it comes here. Estimation reads counts, so a hundred million reports cost one GROUP BY.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from math import ceil
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
from numpy.typing import ArrayLike

from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import Number, integer
from discreet.local.collection.duckdb_store import Batch, Counts, ReportStore
from discreet.local.collection.survey import MOST_LINE, Report, Survey
from discreet.local.estimation.frequencies import Floats
from discreet.local.estimation.linear_maps import ChannelModel, DenseModel, KRRModel
from discreet.local.oracles.hashing import HashingModel, OptimizedHashing
from discreet.local.oracles.oracle import Integers
from discreet.local.oracles.responses import KRR, HadamardModel, HadamardResponse
from discreet.local.places.planar import PlanarReport
from discreet.mechanisms.mechanism import failure_probability

Line = str | bytes
_REASONS = ("malformed", "other_survey", "other_version", "out_of_domain")
_PART = 250_000  # lines that are read and stored together,
_PART_SIZE = 1 << 26  # or so many characters
_SKIPPED = 1 << 20
Method = Literal["inversion", "ibu", "smoothed"]
_PLAIN_STEPS = 500  # of IBU on maps: the number that claim C8 was measured with
_MANY_CELLS = 40_000  # beyond that maps take fewer, longer steps
_FAST_STEPS = 40


class Collection:
    """A store of reports: the path of a DuckDB file, or the address `postgresql://user@host/database`.

    >>> from tempfile import mkdtemp
    >>> survey = Survey(name="coin", version=1, question="Heads?", domain=["no", "yes"], randomizer="k-rr",
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
        self.store = open_store(store, patience=patience)

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
    ) -> "Estimate":
        """The shares of the answers; see `estimate`. It says, too, how many lines were dropped and why."""
        counts, tally = self.store.read(survey)
        result = estimate(
            survey, tally, reports=counts.accepted, confidence=confidence, method=method, iterations=iterations
        )
        return replace(result, counts=counts)


def open_store(address: str | Path, *, patience: float) -> ReportStore:
    """The store at a path, or at an address `postgresql://user@host/database`.

    `patience` is how many seconds to wait while another program has the file, or for a server to answer.

    >>> open_store("reports.duckdb", patience=1)
    DuckdbReports('reports.duckdb')
    """
    if isinstance(address, str) and is_address(address):
        from discreet.local.collection.postgres_store import PostgresReports

        return PostgresReports(address, patience=patience)
    from discreet.local.collection.duckdb_store import DuckdbReports

    return DuckdbReports(address, patience=patience)


def is_address(text: str) -> bool:
    """Whether a text is the address of a database, not a path.

    >>> is_address("postgresql://ann@localhost/surveys"), is_address("reports.duckdb")
    (True, False)
    """
    return text.lower().startswith(("postgresql://", "postgres://"))


def lines_of(file: BinaryIO) -> Iterator[bytes]:
    """The lines of a file; of one that is too long for a report, only as much as shows that.

    >>> from io import BytesIO
    >>> [len(line) for line in lines_of(BytesIO(b"one\\n" + b"[" * 5_000_000 + b"\\ntwo"))]
    [4, 1000001, 3]
    """
    while line := file.readline(MOST_LINE + 1):
        yield line
        while len(line) > MOST_LINE and not line.endswith(b"\n"):
            line = file.readline(_SKIPPED)
            if len(line) < _SKIPPED:
                break


def parts(lines: Iterable[Line]) -> Iterator[list[Line]]:
    """Lines in lists that fit into memory, whatever the lines are.

    >>> [len(part) for part in parts(["a line"] * 600_000)]
    [250000, 250000, 100000]
    """
    part: list[Line] = []
    size = 0
    for line in lines:
        part.append(line)
        size += len(line) if isinstance(line, str | bytes) else 0
        if len(part) >= _PART or size >= _PART_SIZE:
            yield part
            part, size = [], 0
    if part:
        yield part


def sift(survey: Survey, lines: Iterable[Line], seen: Counter[str] | None = None) -> Batch:
    """The reports among the lines, each id once. Those that `Report.line` wrote are read by one expression.

    `seen` counts equal dropped lines over the parts of one file, so that the third "hello" of a file is the third one
    again when the file is read again.

    >>> coin = Survey(name="coin", version=1, question="Heads?", domain=["no", "yes"], randomizer="k-rr", epsilon=1,
    ...               times=1)
    >>> sift(coin, [coin.respond("yes").line, "hello"]).dropped
    Counts(accepted=0, malformed=1, other_survey=0, other_version=0, out_of_domain=0, replayed=0)
    """
    randomizer = survey.randomizes()
    shape = () if randomizer.report_width is None else (randomizer.report_width,)
    seen = Counter() if seen is None else seen
    dropped: dict[str, list[str]] = {name: [] for name in _REASONS}
    result: dict[str, Any] = {}  # by id; a later report of the same id is a replay
    replayed = 0
    for key, payload in _each(survey, lines, many=bool(shape)):
        if key in dropped:
            dropped[key].append(_line_key(key, payload, seen))
        elif not _fits(payload, shape):
            dropped["out_of_domain"].append(_line_key("out_of_domain", key, seen))
        elif key in result:
            replayed += 1
        else:
            result[key] = payload
    reports = np.array(list(result.values()), np.int64).reshape(-1, *shape)
    fine = randomizer.valid(reports) if len(reports) else np.zeros(0, np.bool_)
    ids = [key for key, kept in zip(result, fine.tolist(), strict=True) if kept]
    wrong = [key for key, kept in zip(result, fine.tolist(), strict=True) if not kept]
    dropped["out_of_domain"] += [_line_key("out_of_domain", key, seen) for key in wrong]
    counts = Counts(**{name: len(keys) for name, keys in dropped.items()}, replayed=replayed)
    return Batch(ids, reports[fine], counts, dropped)


def _line_key(reason: str, text: Any, seen: Counter[str]) -> str:
    """32 hexadecimal digits that tell a dropped line from others, and its repetitions in one file from each other."""
    content = text.strip() if isinstance(text, str) else repr(text)[:MOST_LINE]
    line = sha256(f"{reason}\n{content}".encode("utf-8", "surrogatepass")).hexdigest()[:32]
    seen[line] += 1
    return line if seen[line] == 1 else sha256(f"{line} {seen[line]}".encode()).hexdigest()[:32]


def _each(survey: Survey, lines: Iterable[Line], *, many: bool) -> Iterator[tuple[str, Any]]:
    """(id, payload) of each report of the survey, (reason, line) of each other line; nothing of empty ones."""
    quick = _quick(survey, many=many)
    read = json.loads if many else int
    for line in lines:
        text = line.decode("utf-8", "replace") if isinstance(line, bytes) else line
        result = quick.fullmatch(text) if isinstance(text, str) else None
        if result is not None:
            yield result[2], read(result[1])
        elif not isinstance(text, str) or text.strip():
            yield _careful(survey, text)


def _quick(survey: Survey, *, many: bool) -> re.Pattern[str]:
    """Exactly what `Report.line` writes for this survey, and no other."""
    whole = r"(?:0|-?[1-9]\d{0,17})"
    words = r"(?:0|-?[1-9]\d{0,18})"
    payload = rf"\[{words}(?:,{words})*\]" if many else whole
    head = f'{{"survey":"{survey.digest}","version":{survey.version},"report":'
    return re.compile(rf'{re.escape(head)}({payload}),"id":"([0-9a-f]{{32}})"\}}\s*', re.ASCII)


def _careful(survey: Survey, text: Any) -> tuple[str, Any]:
    """The report of this survey in any form of JSON, or why it is none."""
    if not isinstance(text, str):
        return "malformed", text
    try:
        report = Report.parse(text.removeprefix("\ufeff"))  # some programs begin a file with a mark
    except InvalidData:
        return "malformed", text
    if report.survey == survey.digest and report.version == survey.version:
        return report.id, report.report
    return ("other_version" if report.survey.split("/")[0] == survey.name else "other_survey"), text


def _fits(payload: Any, shape: tuple[int, ...]) -> bool:
    """Whether a payload has the form of a report: one number, or so many words of 64 bits."""
    if not shape:
        return isinstance(payload, int)
    if isinstance(payload, int) or len(payload) != shape[0]:
        return False
    return all(-(2**63) <= word < 2**63 for word in payload)


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """The estimated shares of the answers, in the order of the domain, with confidence bounds if asked for.

    Bounds hold for all answers together at this confidence. `noisy` is, for places, the map of the reports themselves.
    Shares by inversion are unbiased, so they may be negative; those by IBU are a distribution.
    """

    survey: Survey
    method: Method
    reports: int
    shares: Floats
    low: Floats | None = None
    high: Floats | None = None
    confidence: Number | None = None
    noisy: Floats | None = None
    counts: Counts | None = None

    def rows(self) -> Iterator[dict[str, Any]]:
        """One for each answer (for places, each cell, with its middle): label, share, low, high."""
        names = _columns(self.survey)
        for place, share in enumerate(self.shares.tolist()):
            row = {name: column[place] for name, column in names.items()} | {"share": share}
            if self.low is not None and self.high is not None:
                row |= {"low": float(self.low[place]), "high": float(self.high[place])}
            yield row

    def to_json(self) -> dict[str, Any]:
        """The estimate as a document."""
        head = {"survey": self.survey.digest, "method": self.method, "reports": self.reports}
        counted = {} if self.counts is None else {"rejected": self.counts.reasons}
        sure = {} if self.confidence is None else {"confidence": str(self.confidence)}
        return head | counted | sure | {"answers": list(self.rows())}


def estimate(
    survey: Survey,
    tally: ArrayLike,
    *,
    reports: int,
    confidence: Number | None,
    method: Method | None = None,
    iterations: int | None = None,
) -> Estimate:
    """The shares of the answers from a tally of so many reports; without a confidence, without bounds.

    "inversion" is unbiased, with bounds that are proven for any number of reports (for lists of answers; the default).
    "ibu" is the most likely distribution: for lists with the bounds of inversion, clipped and widened to hold it; for
    maps after 500 plain iterations (their default), with bounds by the bootstrap, which do not cover the bias of
    smoothing.

    >>> survey = Survey(name="coin", version=1, question="Heads?", domain=["no", "yes"], randomizer="k-rr",
    ...                 epsilon="ln 3", times=1)
    >>> estimate(survey, [6000, 4000], reports=10_000, confidence="0.95").shares.round(6).tolist()
    [0.7, 0.3]
    """
    count = integer(reports, "reports", at_least=0)
    if not count:
        raise InvalidData("reports: there are none of this survey yet, so there is nothing to estimate from")
    if method not in ("inversion", "ibu", "smoothed", None):
        raise InvalidParameter("method", method, "'inversion', 'ibu' or 'smoothed'")
    if method == "smoothed" and (not survey.places or confidence is not None):
        raise InvalidParameter("method", method, "a survey of places, and no confidence: a smoothed map has no bounds")
    if confidence is not None:
        failure_probability(confidence)
    randomizer = survey.randomizes()
    if isinstance(randomizer, PlanarReport):
        return _estimate_places(survey, randomizer, np.asarray(tally), count, confidence, method or "ibu", iterations)
    result = randomizer.estimate(tally, reports=count)
    low, high = (None, None) if confidence is None else result.interval(confidence)
    if method != "ibu":
        return Estimate(survey, "inversion", count, result.shares, low, high, confidence)
    shares = _likeliest(_model(survey), tally, iterations)
    if low is not None and high is not None:
        low, high = np.minimum(np.clip(low, 0, 1), shares), np.maximum(np.clip(high, 0, 1), shares)
    return Estimate(survey, "ibu", count, shares, low, high, confidence)


# Estimating


def _estimate_places(
    survey: Survey,
    planar: PlanarReport,
    tally: Integers,
    reports: int,
    confidence: Number | None,
    method: Method,
    iterations: int | None,
) -> Estimate:
    noisy = planar.inside(tally) / max(reports, 1)
    if method == "smoothed":
        from discreet.local.places.maps import smoothed

        return Estimate(survey, method, reports, smoothed(planar, tally).shares, noisy=noisy)
    if method == "ibu":
        return _likeliest_map(survey, planar.model(), tally, reports, confidence, iterations, noisy)
    from discreet.local.estimation.inversion import bootstrap, invert

    model = planar.model()
    shares = np.asarray(invert(model, tally), np.float64)
    if confidence is None:
        return Estimate(survey, method, reports, shares, noisy=noisy)
    result = bootstrap(model, tally, confidence=confidence, method="inversion", replicates=_replicates(confidence))
    return Estimate(survey, method, reports, shares, result.low, result.high, confidence, noisy)


def _likeliest(model: ChannelModel, tally: ArrayLike, iterations: int | None) -> Floats:
    """Of a list of answers: until the likelihood stands still, as there is little to smooth."""
    from discreet.local.estimation.ibu import ibu

    steps = _PLAIN_STEPS if iterations is None else iterations
    return ibu(model, tally, iterations=steps, memory=2, stop="gain").shares


def _likeliest_map(
    survey: Survey,
    model: ChannelModel,
    tally: Integers,
    reports: int,
    confidence: Number | None,
    iterations: int | None,
    noisy: Floats,
) -> Estimate:
    """Few plain steps, which smooth; bounds by the bootstrap."""
    from discreet.local.estimation.ibu import ibu
    from discreet.local.estimation.inversion import bootstrap

    quick = survey.area.size > _MANY_CELLS
    steps = iterations if iterations is not None else (_FAST_STEPS if quick else _PLAIN_STEPS)
    result = ibu(model, tally, iterations=steps, accelerate=quick, memory=2, stop=None)
    if confidence is None:
        return Estimate(survey, "ibu", reports, result.shares, noisy=noisy)
    taken = max(result.iterations, 1)
    replicated = bootstrap(
        model, tally, confidence=confidence, iterations=taken, accelerate=quick, replicates=_replicates(confidence)
    )
    low, high = np.clip(replicated.low, 0, 1), np.clip(replicated.high, 0, 1)
    return Estimate(survey, "ibu", reports, result.shares, low, high, confidence, noisy)


def _model(survey: Survey) -> ChannelModel:
    oracle = survey.oracle()
    if isinstance(oracle, KRR):
        return KRRModel(truth=oracle.truth, other=oracle.other, size=oracle.size)
    if isinstance(oracle, OptimizedHashing):
        return HashingModel(oracle)
    if isinstance(oracle, HadamardResponse):
        return HadamardModel(oracle)
    if oracle.report_width is not None:
        raise InvalidParameter("method", "ibu", f"'inversion' for {survey.randomizer!r}, whose reports are sets")
    return DenseModel(oracle.channel())


def _replicates(confidence: Number) -> int:
    return max(200, ceil(1 / failure_probability(confidence)))


def _columns(survey: Survey) -> dict[str, list[Any]]:
    """What names the rows of an estimate."""
    if not survey.places:
        return {"answer": list(survey.labels)}
    middles = survey.area.centers()
    where = {"x_km": middles[:, 0].tolist(), "y_km": middles[:, 1].tolist()}
    if survey.area.center is not None:
        latitude, longitude = survey.area.unproject(middles)
        where = {"latitude": latitude.tolist(), "longitude": longitude.tolist()} | where
    return {"cell": list(range(survey.area.size))} | where
