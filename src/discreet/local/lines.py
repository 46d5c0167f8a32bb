"""From lines to reports: which of them a survey can have sent, and what is wrong with the others.

Lines come from anybody. One that is no report of the survey is counted by its reason and dropped; none stops a
collection, and none costs more memory than a report may have.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Any, BinaryIO

import numpy as np

from discreet.errors import InvalidData
from discreet.local.report import MOST_LINE, Report
from discreet.local.stores import Batch, Counts
from discreet.local.survey import Survey

Line = str | bytes

_REASONS = ("malformed", "other_survey", "other_version", "out_of_domain")
_PART = 250_000  # lines that are read and stored together,
_PART_SIZE = 1 << 26  # or so many characters
_SKIPPED = 1 << 20


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

    >>> coin = Survey(name="coin", version=1, question="Heads?", domain=["no", "yes"], randomizer="flat", epsilon=1,
    ...               times=1)
    >>> sift(coin, [coin.respond("yes").line, "hello"]).dropped
    Counts(accepted=0, malformed=1, other_survey=0, other_version=0, out_of_domain=0, replayed=0)
    """
    randomizer = survey.randomizes()
    shape = randomizer.randomize([]).shape[1:]
    seen = Counter() if seen is None else seen
    dropped: dict[str, list[str]] = {name: [] for name in _REASONS}
    found: dict[str, Any] = {}  # by id; a later report of the same id is a replay
    replayed = 0
    for key, payload in _each(survey, lines, many=bool(shape)):
        if key in dropped:
            dropped[key].append(_line_key(key, payload, seen))
        elif not _fits(payload, shape):
            dropped["out_of_domain"].append(_line_key("out_of_domain", key, seen))
        elif key in found:
            replayed += 1
        else:
            found[key] = payload
    reports = np.array(list(found.values()), np.int64).reshape(-1, *shape)
    fine = randomizer.valid(reports) if len(reports) else np.zeros(0, np.bool_)
    ids = [key for key, kept in zip(found, fine.tolist(), strict=True) if kept]
    wrong = [key for key, kept in zip(found, fine.tolist(), strict=True) if not kept]
    dropped["out_of_domain"] += [_line_key("out_of_domain", key, seen) for key in wrong]
    counts = Counts(**{name: len(keys) for name, keys in dropped.items()}, replayed=replayed)
    return Batch(ids, reports[fine], counts, dropped)


def _line_key(reason: str, text: Any, seen: Counter[str]) -> str:
    """32 hexadecimal digits that tell a dropped line from others, and its repetitions in one file from each other."""
    told = text.strip() if isinstance(text, str) else repr(text)[:MOST_LINE]
    line = sha256(f"{reason}\n{told}".encode("utf-8", "surrogatepass")).hexdigest()[:32]
    seen[line] += 1
    return line if seen[line] == 1 else sha256(f"{line} {seen[line]}".encode()).hexdigest()[:32]


def _each(survey: Survey, lines: Iterable[Line], *, many: bool) -> Iterator[tuple[str, Any]]:
    """(id, payload) of each report of the survey, (reason, line) of each other line; nothing of empty ones."""
    quick = _quick(survey, many=many)
    read = json.loads if many else int
    for line in lines:
        text = line.decode("utf-8", "replace") if isinstance(line, bytes) else line
        found = quick.fullmatch(text) if isinstance(text, str) else None
        if found is not None:
            yield found[2], read(found[1])
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
