"""The collector: an append-only store of noisy reports in one DuckDB file, and what they say together.

A report is private before it comes here: the store holds nothing that anybody would have to be trusted with, except
which reports came together. Estimation reads counts, so a hundred million reports cost one GROUP BY.

Lines that are not reports of the survey are counted by reason and dropped; they never stop a collection.
"""

import datetime as dt
import json
import re
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from itertools import islice
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import Number, integer
from discreet.local.areas import Integers
from discreet.local.flat import FlatResponse
from discreet.local.frequencies import Floats
from discreet.local.models import DenseModel, FlatModel, Model
from discreet.local.places import PlanarReport
from discreet.local.survey import Report, Survey
from discreet.mechanisms.mechanism import doubt

if TYPE_CHECKING:
    import duckdb

Method = Literal["inversion", "ibu"]
Line = str | bytes

_PART = 250_000  # lines that are read and stored together
_SCHEMA = 1  # what _TABLES says, too
_PLAIN_STEPS = 500  # of IBU on maps: the number that claim C8 was measured with
_MANY_CELLS = 40_000  # beyond that maps take fewer, longer steps
_FAST_STEPS = 40
_TABLES = (
    "CREATE TABLE discreet_collection (version INTEGER)",
    "INSERT INTO discreet_collection VALUES (1)",
    "CREATE TABLE surveys (number INTEGER, digest VARCHAR, document VARCHAR)",
    "CREATE TABLE reports (id UUID, survey INTEGER, received TIMESTAMP, report BIGINT, words BIGINT[])",
    "CREATE TABLE batches (survey INTEGER, received TIMESTAMP, accepted BIGINT, malformed BIGINT, "
    "other_survey BIGINT, other_version BIGINT, out_of_domain BIGINT, replayed BIGINT)",
)
_NEW = """
    CREATE TEMP TABLE fresh AS SELECT * FROM (
        SELECT *, id::UUID AS key FROM batch QUALIFY row_number() OVER (PARTITION BY id ORDER BY place) = 1
    ) WHERE NOT EXISTS (SELECT 1 FROM reports WHERE reports.id = key)
"""
_INSERT = "INSERT INTO reports SELECT key, ?, ?, report, words FROM fresh ORDER BY place"
_IN_USE = ("lock", "different configuration", "already attached", "unique file handle")
_CLOSED = ("permission", "read-only", "read only", "not permitted")
_FOREIGN = (
    "not a valid duckdb",
    "extension",
    "not a database",
    "different version",
    "newer version",
    "corrupt",
    "checksum",
)

_LOCKS: dict[Path, threading.RLock] = {}


@dataclass(frozen=True, slots=True)
class Counts:
    """What became of lines: how many were stored, and how many were dropped for which reason.

    >>> str(Counts(accepted=5, replayed=2))
    '5 accepted, 2 rejected (2 replayed)'
    """

    accepted: int = 0
    malformed: int = 0
    other_survey: int = 0
    other_version: int = 0
    out_of_domain: int = 0
    replayed: int = 0

    @property
    def rejected(self) -> int:
        """All that were not stored."""
        return sum(self.reasons.values())

    @property
    def reasons(self) -> dict[str, int]:
        """How many were dropped, by reason."""
        return {name: count for name, count in asdict(self).items() if name != "accepted"}

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(Counts)))

    def __str__(self) -> str:
        why = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in self.reasons.items() if count)
        return f"{self.accepted} accepted, {self.rejected} rejected" + (f" ({why})" if why else "")


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """The estimated shares of the answers, in the order of the domain, with limits where they were asked for.

    Limits hold for all answers together at this confidence. `noisy` is, for places, the map of the reports themselves.
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


class Collection:
    """A file of reports. It is opened for each call and closed after it, so several programs can take turns.

    >>> from tempfile import mkdtemp
    >>> survey = Survey(name="coin", version=1, question="Heads?", domain=["no", "yes"], randomiser="flat",
    ...                 epsilon=1, times=1)
    >>> store = Collection(Path(mkdtemp()) / "reports.duckdb")
    >>> lines = [survey.respond("yes").line for _ in range(100)]
    >>> print(store.add(survey, [*lines, lines[0], "hello"]))
    100 accepted, 2 rejected (1 malformed, 1 replayed)
    >>> store.estimate(survey, confidence="0.95").reports
    100
    """

    def __init__(self, path: str | Path, *, patience: float = 10.0) -> None:
        """`patience`: how many seconds to wait while another program has the file."""
        self.path, self.patience = Path(path), patience

    def add(self, survey: Survey, lines: Iterable[Line], *, received: dt.datetime | None = None) -> Counts:
        """Store the reports among the lines; the file is made if there is none.

        Lines are stored in parts of 250,000, each of them wholly or not at all. If adding was interrupted, add the same
        lines again: those that are stored already count as replayed.
        """
        if isinstance(lines, str | bytes):
            raise InvalidData("lines: got a single text, expected a list or a file of lines")
        total, rest = Counts(), iter(lines)
        moment = (dt.datetime.now(dt.UTC) if received is None else received.astimezone(dt.UTC)).replace(tzinfo=None)
        while part := list(islice(rest, _PART)):
            total += self._add(survey, _sift(survey, part), moment)
        return total

    def tally(self, survey: Survey) -> Integers:
        """What the estimator needs to know: counted by the database, or, for words of bits, added up in batches."""
        with self._opened(write=False) as connection:
            return _tally(connection, survey)

    def counts(self, survey: Survey) -> Counts:
        """How many lines were stored and dropped so far for this survey."""
        with self._opened(write=False) as connection:
            return _counts(connection, survey)

    def estimate(
        self, survey: Survey, *, confidence: Number | None, method: Method | None = None, iterations: int | None = None
    ) -> Estimate:
        """The shares of the answers; see `estimate`. It says, too, how many lines were dropped and why."""
        with self._opened(write=False) as connection:
            counts, tally = _counts(connection, survey), _tally(connection, survey)
        found = estimate(
            survey, tally, reports=counts.accepted, confidence=confidence, method=method, iterations=iterations
        )
        return Estimate(**{f.name: getattr(found, f.name) for f in fields(Estimate)} | {"counts": counts})

    def _add(self, survey: Survey, sifted: "_Sifted", moment: dt.datetime) -> Counts:
        with self._opened(write=True) as connection:
            connection.execute("BEGIN")
            number = _number(connection, survey, make=True)
            connection.register("batch", sifted.table())
            connection.execute(_NEW)
            connection.execute(_INSERT, [number, moment])
            kept = _one(connection, "SELECT count(*) FROM fresh")
            counts = sifted.counts + Counts(accepted=kept, replayed=len(sifted.ids) - kept)
            values = [number, moment, *asdict(counts).values()]
            connection.execute("INSERT INTO batches VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)
            connection.execute("DROP TABLE fresh")
            connection.execute("COMMIT")
        return counts

    @contextmanager
    def _opened(self, *, write: bool) -> "Iterator[duckdb.DuckDBPyConnection]":
        import duckdb

        if not write and not self.path.is_file():
            raise self._refusal("an existing collection", "discreet local collect makes one")
        if not self.path.parent.is_dir():
            raise self._refusal("a file in a folder that exists")
        with _LOCKS.setdefault(self.path.resolve(), threading.RLock()):
            connection = self._connected(write)
            try:
                _check_schema(connection, self.path, make=write)
                yield connection
            except duckdb.Error as error:
                raise self._translated(error, write) from None
            finally:
                connection.close()

    def _connected(self, write: bool) -> "duckdb.DuckDBPyConnection":
        import duckdb

        config: dict[str, str | bool | int | float | list[str]] = {
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "python_enable_replacements": False,
        }
        end = time.monotonic() + self.patience
        while True:
            try:
                return duckdb.connect(str(self.path), read_only=not write, config=config)
            except duckdb.Error as error:
                busy = any(word in str(error).lower() for word in _IN_USE)
                if not busy or time.monotonic() >= end:
                    raise self._translated(error, write) from None
                time.sleep(0.05)

    def _translated(self, error: Exception, write: bool) -> InvalidParameter:
        said = str(error).lower()
        if any(word in said for word in _CLOSED):
            return self._refusal(f"a file that may be {'written' if write else 'read'}", "its permissions forbid it")
        if any(word in said for word in _IN_USE):
            return self._refusal("a file that no other program has open", "try again when it is done")
        if any(word in said for word in _FOREIGN):
            return self._refusal("a collection", "it is damaged, or a file of another kind")
        return self._refusal("a collection that can be used", f"DuckDB: {str(error).splitlines()[0][:200]}")

    def _refusal(self, expected: str, hint: str = "") -> InvalidParameter:
        return InvalidParameter("store", str(self.path), expected, hint)


def estimate(
    survey: Survey,
    tally: ArrayLike,
    *,
    reports: int,
    confidence: Number | None,
    method: Method | None = None,
    iterations: int | None = None,
) -> Estimate:
    """The shares of the answers from a tally of so many reports; without a confidence, without limits.

    "inversion" is unbiased, with limits that are proven for any number of reports (for lists of answers; the default).
    "ibu" is the most likely distribution, for maps after 500 plain iterations (their default), with limits by the
    bootstrap, which do not cover the bias of smoothing.

    >>> survey = Survey(name="coin", version=1, question="Heads?", domain=["no", "yes"], randomiser="flat",
    ...                 epsilon="ln 3", times=1)
    >>> estimate(survey, [6000, 4000], reports=10_000, confidence="0.95").shares.round(6).tolist()
    [0.7, 0.3]
    """
    count = integer(reports, "reports", at_least=0)
    if not count:
        raise InvalidData("reports: there are none of this survey yet, so there is nothing to estimate from")
    if method not in ("inversion", "ibu", None):
        raise InvalidParameter("method", method, "'inversion' or 'ibu'")
    if confidence is not None:
        doubt(confidence)
    randomiser = survey.randomises()
    if isinstance(randomiser, PlanarReport):
        return _estimate_places(survey, randomiser, np.asarray(tally), count, confidence, method or "ibu", iterations)
    if method == "ibu":
        return _by_ibu(survey, _model(survey), np.asarray(tally), count, confidence, iterations)
    found = randomiser.estimate(tally, reports=count)
    low, high = (None, None) if confidence is None else found.interval(confidence)
    return Estimate(survey, "inversion", count, found.shares, low, high, confidence)


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
    if method == "ibu":
        return _by_ibu(survey, planar.model(), tally, reports, confidence, iterations, noisy)
    from discreet.local.bootstrap import bootstrap
    from discreet.local.inversion import invert

    model = planar.model()
    shares = np.asarray(invert(model, tally), np.float64)
    if confidence is None:
        return Estimate(survey, method, reports, shares, noisy=noisy)
    found = bootstrap(model, tally, confidence=confidence, method="inversion", replicates=_replicates(confidence))
    return Estimate(survey, method, reports, shares, found.low, found.high, confidence, noisy)


def _by_ibu(
    survey: Survey,
    model: Model,
    tally: Integers,
    reports: int,
    confidence: Number | None,
    iterations: int | None,
    noisy: Floats | None = None,
) -> Estimate:
    """Maps: few plain steps, which smooth. Lists: until the likelihood stands still; there is little to smooth."""
    from discreet.local.bootstrap import bootstrap
    from discreet.local.ibu import ibu

    quick = noisy is None or survey.area.size > _MANY_CELLS
    steps = iterations if iterations is not None else (_FAST_STEPS if quick and noisy is not None else _PLAIN_STEPS)
    found = ibu(model, tally, iterations=steps, accelerate=quick, memory=2, stop="gain" if noisy is None else None)
    if confidence is None:
        return Estimate(survey, "ibu", reports, found.shares, noisy=noisy)
    taken = max(found.iterations, 1)
    limits = bootstrap(
        model, tally, confidence=confidence, iterations=taken, accelerate=quick, replicates=_replicates(confidence)
    )
    low, high = np.clip(limits.low, 0, 1), np.clip(limits.high, 0, 1)
    return Estimate(survey, "ibu", reports, found.shares, low, high, confidence, noisy)


def _model(survey: Survey) -> Model:
    oracle = survey.oracle()
    if isinstance(oracle, FlatResponse):
        return FlatModel(truth=oracle.truth, other=oracle.other, size=oracle.size)
    if oracle.randomise([]).ndim > 1:
        raise InvalidParameter("method", "ibu", f"'inversion' for {survey.randomiser!r}, whose reports are sets")
    return DenseModel(oracle.channel())


def _replicates(confidence: Number) -> int:
    return max(200, ceil(1 / doubt(confidence)))


def _columns(survey: Survey) -> dict[str, list[Any]]:
    """What names the rows of an estimate."""
    if not survey.places:
        return {"answer": list(survey.labels)}
    middles = survey.area.centres()
    where = {"x_km": middles[:, 0].tolist(), "y_km": middles[:, 1].tolist()}
    if survey.area.centre is not None:
        latitude, longitude = survey.area.unproject(middles)
        where = {"latitude": latitude.tolist(), "longitude": longitude.tolist()} | where
    return {"cell": list(range(survey.area.size))} | where


# In the database


def _check_schema(connection: "duckdb.DuckDBPyConnection", path: Path, *, make: bool) -> None:
    names = {row[0] for row in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
    if not names and make:
        connection.execute("BEGIN")
        for statement in _TABLES:
            connection.execute(statement)
        connection.execute("COMMIT")
        return
    if "discreet_collection" not in names:
        hint = "it is a DuckDB file with other tables" if names else "it is an empty DuckDB file"
        raise InvalidParameter("store", str(path), "a collection", hint)
    version = _one(connection, "SELECT max(version) FROM discreet_collection")
    if version != _SCHEMA:
        hint = "another version of discreet made it" if version else "it is damaged"
        raise InvalidParameter("store", str(path), f"a collection of version {_SCHEMA}", hint)


def _number(connection: "duckdb.DuckDBPyConnection", survey: Survey, *, make: bool = False) -> int | None:
    """The number under which the store keeps a survey."""
    rows = connection.execute("SELECT number FROM surveys WHERE digest = ?", [survey.digest]).fetchall()
    if rows or not make:
        return int(rows[0][0]) if rows else None
    number = _one(connection, "SELECT coalesce(max(number), 0) + 1 FROM surveys")
    document = json.dumps(survey.to_json(), ensure_ascii=False)
    connection.execute("INSERT INTO surveys VALUES (?, ?, ?)", [number, survey.digest, document])
    return number


def _counts(connection: "duckdb.DuckDBPyConnection", survey: Survey) -> Counts:
    names = [f.name for f in fields(Counts)]
    sums = ", ".join(f"coalesce(sum({name}), 0)::BIGINT" for name in names)
    number = _number(connection, survey)
    rows = connection.execute(f"SELECT {sums} FROM batches WHERE survey = ?", [number]).fetchall()  # noqa: S608
    return Counts(*rows[0])


def _tally(connection: "duckdb.DuckDBPyConnection", survey: Survey) -> Integers:
    randomiser, number = survey.randomises(), _number(connection, survey)
    none = randomiser.randomise([])
    total = np.array(randomiser.tally(none))
    if none.ndim == 1:
        query = "SELECT report, count(*) AS many FROM reports WHERE survey = ? GROUP BY report"
        found = connection.execute(query, [number]).fetchnumpy()
        if np.ma.is_masked(found["report"]) or not randomiser.valid(np.asarray(found["report"])).all():
            raise InvalidData("store: it holds reports that this survey cannot have; it was changed by other means")
        total[np.asarray(found["report"], np.int64)] = np.asarray(found["many"], np.int64)
        return total
    if number is None:
        return total
    rows = connection.sql("SELECT words FROM reports WHERE survey = ?", params=[number])
    for batch in rows.to_arrow_reader(1 << 17):
        words = batch.column(0).flatten().to_numpy(zero_copy_only=False)
        total += randomiser.tally(words.reshape(-1, none.shape[1]))
    return total


def _one(connection: "duckdb.DuckDBPyConnection", query: str) -> int:
    rows = connection.execute(query).fetchall()
    return int(rows[0][0] or 0)


# Sifting lines


@dataclass(frozen=True, slots=True)
class _Sifted:
    """The reports of this survey among some lines, and how many of the others there were for which reason."""

    ids: list[str]
    reports: Integers
    counts: Counts

    def table(self) -> Any:
        """For the database: id, place among the lines, and the report as a number or as words."""
        import pyarrow as pa

        size = len(self.ids)
        columns: dict[str, Any] = {"id": pa.array(self.ids, pa.string()), "place": np.arange(size)}
        if self.reports.ndim == 1:
            return pa.table(columns | {"report": self.reports, "words": pa.nulls(size, pa.list_(pa.int64()))})
        width = self.reports.shape[1]
        ends = pa.array(np.arange(0, size * width + 1, width), pa.int32())
        words = pa.ListArray.from_arrays(ends, pa.array(self.reports.ravel()))
        return pa.table(columns | {"report": pa.nulls(size, pa.int64()), "words": words})


def _sift(survey: Survey, lines: list[Line]) -> _Sifted:
    """Lines in the form that `Report.line` writes are read by one expression, others with care."""
    randomiser = survey.randomises()
    none = randomiser.randomise([])
    quick = _quick(survey, many=none.ndim > 1)
    dropped = dict.fromkeys(("malformed", "other_survey", "other_version", "out_of_domain"), 0)
    ids: list[str] = []
    payloads: list[Any] = []
    read = json.loads if none.ndim > 1 else int
    for line in lines:
        text = line.decode("utf-8", "replace") if isinstance(line, bytes) else line
        found = quick.fullmatch(text) if isinstance(text, str) else None
        if found is not None:
            payload: Any = read(found[1])
            key = found[2]
        elif isinstance(text, str) and not text.strip():
            continue
        else:
            report = _read(survey, text)
            if isinstance(report, str):
                dropped[report] += 1
                continue
            payload, key = report.report, report.id
        if _fits(payload, none.shape[1:]):
            payloads.append(payload)
            ids.append(key)
        else:
            dropped["out_of_domain"] += 1
    reports = np.array(payloads, np.int64).reshape(-1, *none.shape[1:])
    fine = randomiser.valid(reports) if len(reports) else np.zeros(0, np.bool_)
    dropped["out_of_domain"] += int(np.count_nonzero(~fine))
    return _Sifted([ids[place] for place in np.flatnonzero(fine)], reports[fine], Counts(**dropped))


def _quick(survey: Survey, *, many: bool) -> re.Pattern[str]:
    """Exactly what `Report.line` writes for this survey, and no other."""
    whole = r"(?:0|-?[1-9]\d{0,17})"
    words = r"(?:0|-?[1-9]\d{0,18})"
    payload = rf"\[{words}(?:,{words})*\]" if many else whole
    head = f'{{"survey":"{survey.digest}","version":{survey.version},"report":'
    return re.compile(rf'{re.escape(head)}({payload}),"id":"([0-9a-f]{{32}})"\}}\s*', re.ASCII)


def _read(survey: Survey, text: Any) -> Report | str:
    """The report of this survey, or why it is none."""
    if not isinstance(text, str):
        return "malformed"
    try:
        report = Report.parse(text)
    except InvalidData:
        return "malformed"
    if report.survey == survey.digest and report.version == survey.version:
        return report
    return "other_version" if report.survey.split("/")[0] == survey.name else "other_survey"


def _fits(payload: Any, shape: tuple[int, ...]) -> bool:
    """Whether a payload has the form of a report: one number, or so many words of 64 bits."""
    if not shape:
        return isinstance(payload, int)
    if isinstance(payload, int) or len(payload) != shape[0]:
        return False
    return all(-(2**63) <= word < 2**63 for word in payload)
