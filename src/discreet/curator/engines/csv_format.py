"""How a CSV file is written: delimiter, encoding, decimal sign, format of dates; and the rule that reads a line.

A file is a header line and then records, one record for each physical line. A line ends with LF or CR LF; the last one
may lack it. Nothing, no quote either, carries over from one line to the next.

A line is *well formed* if it is at most `MAX_LINE` bytes long and consists of as many fields as the header, separated
by the delimiter. A field either has no double quote, or it begins and ends with one, and every quote between is
doubled. An empty field is null; a quoted empty field is an empty text. A line that is not well formed is a record whose
fields are all null. Bytes that the encoding does not have are read as U+FFFD, the replacement character.

`read_fields` is this rule for one line; `csv_lines` follows it for whole files.
"""

import codecs
import re
from dataclasses import dataclass
from pathlib import Path

from discreet.errors import InvalidParameter

MAX_LINE = 1 << 20
"""The longest line that is read, in bytes as they are stored; a longer one is not well formed."""

ENCODINGS = frozenset(
    ["utf-8", *(f"iso8859-{part}" for part in range(1, 17) if part != 12), *(f"cp{page}" for page in range(1250, 1259))]
)
"""By their names in Python. In all of them the bytes below 128 are ASCII: a line feed is always the end of a line."""

_DELIMITERS = ",;\t|"
_DIRECTIVES = {"d": "d", "m": "m", "b": "m", "B": "m", "Y": "Y", "y": "Y"}
"""The directives that a date format may have, and which part of a date each gives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvFormat:
    """How a CSV file is written.

    `date_format` is in the directives of strptime, %d %m %b %B %Y %y; where it is left out, dates are ISO 8601.

    >>> CsvFormat(delimiter=";", encoding="latin-1", decimal=",", date_format="%d.%m.%Y").delimiter
    ';'
    >>> CsvFormat(encoding="utf-16")
    Traceback (most recent call last):
    discreet.errors.InvalidParameter: encoding: got 'utf-16', expected 'utf-8', 'latin-1', ...
    """

    delimiter: str = ","
    encoding: str = "utf-8"
    decimal: str = "."
    date_format: str | None = None

    def __post_init__(self) -> None:
        sign = self.delimiter
        if not isinstance(sign, str) or len(sign) != 1 or not sign.isascii() or sign.isalnum() or sign in '"\r\n\0':
            raise InvalidParameter("delimiter", sign, "one sign of ASCII, such as ',' or ';' or a tab")
        if self.decimal not in (".", ","):
            raise InvalidParameter("decimal", self.decimal, "'.' or ','")
        if _codec(self.encoding) not in ENCODINGS:
            expected = "'utf-8', 'latin-1', 'windows-1252', or another ISO 8859 or Windows code page"
            raise InvalidParameter("encoding", self.encoding, expected, "save the file as UTF-8")
        if self.date_format is not None:
            _check_date_format(self.date_format)

    @classmethod
    def sniff(cls, path: str | Path, *, at_least: str = ",") -> "CsvFormat":
        """Guess the delimiter and the encoding from the header line alone: no record is looked at.

        The delimiter is the sign that stands most often outside quotes; `at_least` where no other stands more often.

        >>> import tempfile, pathlib
        >>> file = pathlib.Path(tempfile.mkdtemp()) / "people.csv"
        >>> _ = file.write_bytes("Größe;Alter\\n1,80;30\\n".encode("latin-1"))
        >>> CsvFormat.sniff(file)
        CsvFormat(delimiter=';', encoding='windows-1252', decimal='.', date_format=None)
        """
        line = _header_line(Path(path), "source")
        try:
            text, encoding = line.decode("utf-8"), "utf-8"
        except UnicodeDecodeError:
            text, encoding = line.decode("cp1252", "replace"), "windows-1252"
        outside = "".join(text.split('"')[::2])  # what stands outside quotes
        return cls(delimiter=max(at_least, *_DELIMITERS, key=outside.count), encoding=encoding)

    def describe(self) -> str:
        """How a file in this format is read, in words for its owner.

        >>> print(CsvFormat(delimiter=";", decimal=",").describe())
        CSV in utf-8, fields separated by ';', decimals with ',', dates as 2020-12-31
        """
        dates = "2020-12-31" if self.date_format is None else self.date_format
        return (
            f"CSV in {self.encoding}, fields separated by {self.delimiter!r}, decimals with {self.decimal!r}, "
            f"dates as {dates}"
        )


RULE = (
    "each line is one record, whatever it holds; a line that is not well formed (a quote that is not closed, more or "
    f"fewer fields than the header, over {MAX_LINE:,} bytes) is a record of nulls"
)
"""What is read of a CSV file, in words."""


def read_header(path: str | Path, fmt: CsvFormat, *, where: str = "source") -> list[str]:
    """Read the names of the columns from the first line, and nothing beyond it.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "people.csv"
    >>> _ = file.write_text('name, "age"\\n')
    >>> read_header(file, CsvFormat())
    Traceback (most recent call last):
    discreet.errors.InvalidParameter: source: got ..., expected a CSV file with a header line; a quote ...
    >>> _ = file.write_text('name,"age"\\nAlice,30\\n')
    >>> read_header(file, CsvFormat())
    ['name', 'age']
    """
    path = Path(path)
    line = _header_line(path, where)
    try:
        text = line.decode(fmt.encoding)
    except UnicodeDecodeError:
        hint = "save it as UTF-8, or state its encoding in the policy, such as encoding = 'windows-1252'"
        raise InvalidParameter(where, str(path), f"a header line in {fmt.encoding}", hint) from None
    fields = read_fields(text, fmt.delimiter)
    if fields is None:
        hint = "a quote in it is not closed, or stands inside a field"
        raise InvalidParameter(where, str(path), "a CSV file with a header line", hint)
    return [(name or "").strip() for name in fields]


def read_fields(line: str, delimiter: str) -> list[str | None] | None:
    r"""The fields of one line without its end; None where the line is not well formed.

    >>> read_fields('1,,"","a ""b"", c"', ",")
    ['1', None, '', 'a "b", c']
    >>> read_fields('999999,"she said,33', ",") is None
    True
    """
    sign = re.escape(delimiter)
    field = f'(?:"(?P<quoted>(?:[^"]|"")*)"|(?P<plain>[^"{sign}]*))'
    pattern = re.compile(f"{field}(?P<end>{sign}|\\Z)", re.DOTALL)
    fields: list[str | None] = []
    place, more = 0, True
    while more:
        match = pattern.match(line, place)
        if match is None:
            return None
        quoted = match["quoted"]
        fields.append(quoted.replace('""', '"') if quoted is not None else match["plain"] or None)
        place, more = match.end(), match["end"] != ""
    return fields


def _header_line(path: Path, where: str) -> bytes:
    """The bytes of the first line, without a byte order mark and without its end."""
    expected = "a CSV file with a header line"
    try:
        with path.open("rb") as file:
            line = file.readline(MAX_LINE + 3)
    except OSError as error:
        raise InvalidParameter(where, str(path), expected, error.strerror or str(error)) from None
    if line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise InvalidParameter(where, str(path), expected, "it is in UTF-16; save it as UTF-8")
    line = line.removeprefix(codecs.BOM_UTF8).removesuffix(b"\n").removesuffix(b"\r")
    if not line.strip():
        raise InvalidParameter(where, str(path), expected, "its first line is empty")
    if len(line) > MAX_LINE or b"\0" in line:
        raise InvalidParameter(where, str(path), expected, f"its first line is not text of at most {MAX_LINE:,} bytes")
    if b"\r" in line:
        raise InvalidParameter(where, str(path), expected, "lines must end with LF or CR LF; this file has CR alone")
    return line


def _codec(name: object) -> str:
    try:
        return codecs.lookup(name).name if isinstance(name, str) else ""
    except LookupError:
        return ""


def _check_date_format(text: object) -> None:
    expected = "directives of strptime: one each of %d, of %m %b %B, and of %Y %y"
    if not isinstance(text, str):
        raise InvalidParameter("date_format", text, expected)
    found = re.findall("%(.?)", text, re.DOTALL)
    parts = sorted(_DIRECTIVES.get(letter, "") for letter in found)
    if parts != ["Y", "d", "m"] or not text.isprintable():
        raise InvalidParameter("date_format", text, expected, "such as '%d.%m.%Y'")
