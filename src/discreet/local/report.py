"""A report: what one person sends, one line of JSON that is private before it leaves the device."""

import json
import re
from dataclasses import dataclass
from typing import Any

from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import integer

MOST_VERSION = 10**9
MOST_LINE = 1_000_000
"""Characters of a line that is read at all: the longest report, of a set of 100,000 answers, has 33,000."""

_FIELDS = ("survey", "version", "report", "id")
_ID = re.compile(r"[0-9a-f]{32}")
_DIGEST = re.compile(r"[a-z0-9][a-z0-9_-]{0,59}/[1-9][0-9]{0,9}/[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Report:
    """What one person sends: ``{"survey":"commute/1/9f…","version":1,"report":3,"id":"5be0…"}``.

    `report` is one whole number, or a tuple of 64-bit words (unary encodings and subsets). `id` is 128 random bits,
    drawn for this report alone: a line that comes twice is counted once.
    """

    survey: str
    version: int
    report: int | tuple[int, ...]
    id: str

    def __post_init__(self) -> None:
        if not isinstance(self.survey, str) or not _DIGEST.fullmatch(self.survey):
            raise InvalidParameter("survey", self.survey, "the digest of a survey: name/version/32 hexadecimal digits")
        integer(self.version, "version", at_least=1, at_most=MOST_VERSION)
        if not isinstance(self.id, str) or not _ID.fullmatch(self.id):
            raise InvalidParameter("id", self.id, "32 hexadecimal digits")
        for word in self.words:
            integer(word, "report", at_least=-(2**63), at_most=2**63 - 1)

    @property
    def words(self) -> tuple[int, ...]:
        """The report as words: one, if it is a single number."""
        return self.report if isinstance(self.report, tuple) else (self.report,)

    @property
    def line(self) -> str:
        """The report as one line of JSON, without an end of line.

        >>> Report("coin/1/" + "0" * 32, 1, 0, "f" * 32).line[-52:]
        ',"report":0,"id":"ffffffffffffffffffffffffffffffff"}'
        """
        document = {"survey": self.survey, "version": self.version, "report": self.report, "id": self.id}
        return json.dumps(document, separators=(",", ":"))

    @classmethod
    def parse(cls, line: str | bytes) -> "Report":
        """Read a line; what is not a report is refused with the reason.

        >>> Report.parse('{"survey": 5}')
        Traceback (most recent call last):
        discreet.errors.InvalidData: report: no 'version', expected the fields survey, version, report, id
        """
        document = _document(line)
        missing = [f"no {name!r}" for name in _FIELDS if name not in document]
        unknown = ["an unknown field" for name in document if name not in _FIELDS]
        if missing or unknown:
            raise InvalidData(f"report: {(missing + unknown)[0]}, expected the fields {', '.join(_FIELDS)}")
        payload = document["report"]
        try:
            return cls(**document | {"report": tuple(payload) if isinstance(payload, list) else payload})
        except InvalidParameter as error:
            raise InvalidData(f"report: its {error.name} is not {error.expected}") from None


# Reading


def _document(line: str | bytes) -> dict[str, Any]:
    if len(line) > MOST_LINE:
        raise InvalidData(f"report: the line is longer than {MOST_LINE:,} characters")
    try:
        text = line.decode() if isinstance(line, bytes) else line
        document = json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant)
    except UnicodeDecodeError:
        raise InvalidData("report: the line is not UTF-8") from None
    except (ValueError, RecursionError):  # JSONDecodeError; a number of thousands of digits; a million brackets
        raise InvalidData("report: the line is not JSON, or names a field twice") from None
    if not isinstance(document, dict):
        raise InvalidData("report: the line is not a JSON object")
    return document


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError
    return fields


def _no_constant(_: str) -> float:
    raise ValueError
