"""What engines call things: one small table of SQL for each, so that one writer serves them all.

`Dialect` is DuckDB's; `Postgres` and `Spark` say what is written otherwise there. Guarantee: for the same rows, what is
written gives the same values in every dialect, or is refused with words before anything is charged
(tests/contracts/test_dialects.py). How: texts are compared by their bytes in UTF-8 (COLLATE "C"), letter cases are
those of DuckDB wherever a text is read, times are without a zone, whole numbers are added and divided in types that
hold 38 digits, and settings of a server's session are set by the engine, never taken as they are.
"""

from collections.abc import Sequence
from functools import lru_cache
from math import isfinite
from typing import NoReturn

from discreet.curator.catalog import ColumnType
from discreet.errors import InternalError, InvalidQuery

__all__ = ["DUCKDB", "POSTGRES", "SPARK", "Dialect", "dialect_of"]


class Dialect:
    """SQL of DuckDB, piece by piece; other dialects override what they write in another way.

    >>> DUCKDB.exclusive_or("a", "b"), POSTGRES.exclusive_or("a", "b"), SPARK.exclusive_or("a", "b")
    ('xor(a, b)', '(a # b)', '(a ^ b)')
    """

    name = "duckdb"
    words = "DuckDB"
    salt = "$salt"
    timestamp = "TIMESTAMP"
    has_lists = True
    """Whether `min(x, k)` gives the k least values as a list, and lists can be unnested."""

    # Names and constants

    def quoted(self, name: str) -> str:
        """A name, whatever it holds."""
        return '"' + name.replace('"', '""') + '"'

    def literal(self, text: str) -> str:
        """A text, whatever it holds."""
        return "'" + text.replace("'", "''") + "'"

    def integer(self, value: int) -> str:
        """A whole number of 64 bits."""
        return f"({value})::BIGINT" if value < 0 else f"{value}::BIGINT"

    def number(self, value: float) -> str:
        """A finite number as the double that it is."""
        if not isfinite(value):
            raise InternalError("a bound beyond all floats was planned")
        return f"CAST('{value!r}' AS {self.type(ColumnType.REAL)})"

    def type(self, kind: ColumnType) -> str:
        """What the values of a declared type are in the engine."""
        names = {ColumnType.INTEGER: "BIGINT", ColumnType.REAL: "DOUBLE", ColumnType.TEXT: "VARCHAR"}
        return self.timestamp if kind is ColumnType.TIMESTAMP else names.get(kind, kind.value.upper())

    def sub(self, select: str) -> str:
        """A SELECT after FROM."""
        return f"({select})"

    def numbered(self, select: str, place: str, most: int, *, equal: bool = False) -> str:
        """The rows of a SELECT whose place, a window function, is at most (or just) so many."""
        return f"SELECT * FROM {self.sub(select)} QUALIFY {place} {'=' if equal else '<='} {most:d}"  # noqa: S608

    def refuse(self, what: str, hint: str) -> NoReturn:
        """Say that this dialect cannot compute something as the others do."""
        raise InvalidQuery(f"{what} is not computed alike in {self.words} and in other engines", hint)

    # Whole numbers

    def wide(self, value: str) -> str:
        """A number in a type in which sums and products of 64 bits fit."""
        return f"{value}::HUGEINT"

    def cut(self, top: str, bottom: str) -> str:
        """A quotient of wide numbers, cut towards zero."""
        return f"({top}) // ({bottom})"

    def quotient(self, top: str, bottom: str) -> str:
        """A quotient of whole numbers that are not negative, cut to a whole number."""
        return f"({top} // {bottom})"

    def total(self, value: str) -> str:
        """A sum that does not overflow."""
        return f"sum({value})"

    def exclusive_or(self, left: str, right: str) -> str:
        """The bits that differ."""
        return f"xor({left}, {right})"

    def shifted(self, value: str, bits: int) -> str:
        """A number without its lowest bits."""
        return f"{value} >> {bits}"

    def hexadecimal(self, digits: str, first: int, count: int | None = None) -> str:
        """Some hexadecimal digits of a text as a whole number; up to its end where no count is stated."""
        size = "" if count is None else f", {count}"
        return f"CAST('0x' || substring({digits}, {first}{size}) AS BIGINT)"

    def listed(self, values: Sequence[int], place: str) -> str:
        """The number at a place, from 1 on, of a list; null beyond its ends."""
        return f"(CAST([{', '.join(map(str, values))}] AS BIGINT[]))[{place}]"

    # Real numbers

    def steps(self, value: str, scale: str) -> str:
        """A number times a scale, rounded, halves away from zero; null where 64 bits do not hold it."""
        return f"TRY_CAST(round({value} * {scale}) AS BIGINT)"

    def is_nan(self, value: str) -> str:
        """Whether a number is NaN."""
        return f"isnan({value})"

    def sign(self, value: str) -> str:
        """−1, 0 or 1."""
        return f"CAST(sign({value}) AS BIGINT)"

    # Texts

    def text(self, value: str, kind: ColumnType) -> str:
        """A value as its text in the draw (`contribution_draw.plain_text`)."""
        match kind:
            case ColumnType.TIMESTAMP:
                return self.microseconds(value)
            case ColumnType.REAL:
                return f"({value} + 0)"  # -0.0 is 0.0 to every GROUP BY
            case _:
                return value

    def written(self, value: str, kind: ColumnType) -> str:
        """A whole number, a date or a truth value as text."""
        return f"CAST({value} AS VARCHAR)"

    def length(self, value: str) -> str:
        """How many code points a text has."""
        return f"length({value})"

    def cased(self, function: str, value: str) -> str:
        """A text in lower or upper case, as DuckDB maps each letter."""
        return f"{function}({value})"

    def trimmed(self, value: str) -> str:
        """A text without blanks at its ends: what `blanks` lists, whichever engine trims."""
        return f"trim({value})"

    def like(self, value: str, pattern: str) -> str:
        """Whether a text fits a pattern, in which % and _ alone are special."""
        return f"({value} LIKE {pattern})"

    def pattern(self, text: str, *, lower: bool = False) -> str:
        """A pattern of LIKE as a constant, in lower case if so wanted."""
        return self.cased("lower", self.literal(text)) if lower else self.literal(text)

    def matches(self, value: str, pattern: str) -> str:
        """Whether a regular expression of `algebra.patterns` is found in a text."""
        return f"regexp_matches({value}, {self.literal(pattern)})"

    def can_parse(self, what: str) -> None:
        """Refuse where texts are read as numbers or dates by other rules than DuckDB's."""

    # Dates and times

    def moment(self, kind: ColumnType, value: object) -> str:
        """A date or time as a constant."""
        return f"{self.type(kind)} '{value}'"

    def microseconds(self, value: str) -> str:
        """How many microseconds after 1970 a time is."""
        return f"epoch_us({value})"

    def of_microseconds(self, number: str) -> str:
        """The time that is so many microseconds after 1970."""
        return f"make_timestamp({number})"

    def days(self, value: str) -> str:
        """How many days after 1970-01-01 a date is."""
        return f"({value} - DATE '1970-01-01')"

    def plus_days(self, day: str, number: str) -> str:
        """A date and so many days."""
        return f"({day} + CAST({number} AS INTEGER))"

    def part(self, name: str, value: str) -> str:
        """A part of a date or time as a whole number."""
        return f"TRY(CAST(date_part('{name}', {value}) AS BIGINT))"

    def truncated(self, unit: str, value: str, kind: ColumnType) -> str:
        """The first moment of the unit that a date or time lies in."""
        return f"TRY(CAST(date_trunc({unit}, {value}) AS {self.type(kind)}))"

    def day(self, value: str) -> str:
        """The date of a time."""
        return f"TRY(CAST({value} AS DATE))"

    def plus_months(self, value: str, months: str, kind: ColumnType) -> str:
        """A date or time so many months later, at the last day of the month where that is shorter."""
        return f"CAST({value} + to_months(CAST({months} AS INTEGER)) AS {self.type(kind)})"

    def formatted(self, value: str, pattern: str) -> str:
        """Digits of a date or time: %Y, %m, %d, %H, %M and signs between them."""
        return f"strftime({value}, {self.literal(pattern)})"

    # Joins

    def semi_join(self, columns: str, left: str, right: str, tests: str, *, negated: bool) -> str:
        """The rows on the left that have one (or none) on the right."""
        kind = "ANTI" if negated else "SEMI"
        return f"SELECT {columns} FROM ({left}) AS l {kind} JOIN ({right}) AS r ON {tests}"  # noqa: S608


class _Ranked(Dialect):
    """What PostgreSQL and Spark share: no lists to unnest, no QUALIFY, no TRY, letter cases by a table."""

    has_lists = False

    def numbered(self, select: str, place: str, most: int, *, equal: bool = False) -> str:
        inner = f"SELECT *, {place} AS drawn FROM {self.sub(select)}"  # noqa: S608
        return f"SELECT * FROM {self.sub(inner)} WHERE drawn {'=' if equal else '<='} {most:d}"  # noqa: S608

    def text(self, value: str, kind: ColumnType) -> str:
        if kind is ColumnType.REAL:
            hint = "let whole numbers or texts name people, or count values that have bounds and a granularity"
            self.refuse("a draw among real numbers", hint)
        if kind is ColumnType.TIMESTAMP:
            return self.microseconds(value)
        return value if kind in (ColumnType.TEXT, ColumnType.INTEGER) else self.written(value, kind)

    def trimmed(self, value: str) -> str:
        return f"trim(BOTH {self.literal(blanks())} FROM {value})"

    def can_parse(self, what: str) -> None:
        self.refuse(f"CAST of text to {what}", "store it in a column of that type, or ask of texts alone")

    def plus_months(self, value: str, months: str, kind: ColumnType) -> str:
        """Null outside the years 1 to 9999, before it is computed: nothing overflows."""
        place = f"({self.part('year', value)} * 12 + {self.part('month', value)} - 1 + {months})"
        shifted = self._shifted_months(value, months, kind)
        return f"CASE WHEN {place} BETWEEN 12 AND 119999 THEN {shifted} END"

    def _shifted_months(self, value: str, months: str, kind: ColumnType) -> str:
        raise NotImplementedError

    def formatted(self, value: str, pattern: str) -> str:
        parts, rest = [], pattern
        fields = {"%Y": ("year", 4), "%m": ("month", 2), "%d": ("day", 2), "%H": ("hour", 2), "%M": ("minute", 2)}
        while rest:
            if rest[:2] in fields:
                name, size = fields[rest[:2]]
                digits = self.written(self.part(name, value), ColumnType.INTEGER)
                parts.append(f"lpad({digits}, {size}, '0')")
                rest = rest[2:]
            else:
                parts.append(self.literal(rest[0]))
                rest = rest[1:]
        return "(" + " || ".join(parts) + ")"


class Postgres(_Ranked):
    """SQL of PostgreSQL 14 and newer."""

    name = "postgres"
    words = "PostgreSQL"
    salt = "$1::text"

    def literal(self, text: str) -> str:
        if "\0" in text:
            raise InvalidQuery("a text with the character 0", "PostgreSQL has none; leave it out")
        return "('" + _encodable(text).replace("'", "''") + '\'::text COLLATE "C")'

    def type(self, kind: ColumnType) -> str:
        return {ColumnType.REAL: "DOUBLE PRECISION", ColumnType.TEXT: "TEXT"}.get(kind) or super().type(kind)

    def sub(self, select: str) -> str:
        """OFFSET 0 keeps the planner from writing an inner column out wherever it is used: twice each step, 2^n."""
        return f"({select} OFFSET 0) AS q"

    def wide(self, value: str) -> str:
        return f"CAST({value} AS numeric)"

    def cut(self, top: str, bottom: str) -> str:
        return f"div({top}, {bottom})"

    def quotient(self, top: str, bottom: str) -> str:
        return f"({top} / {bottom})"

    def exclusive_or(self, left: str, right: str) -> str:
        return f"({left} # {right})"

    def shifted(self, value: str, bits: int) -> str:
        return f"({value} >> {bits})"

    def hexadecimal(self, digits: str, first: int, count: int | None = None) -> str:
        size = 4 if count is None else count
        return f"CAST(CAST('x' || substring({digits}, {first}, {size}) AS bit({4 * size})) AS bigint)"

    def listed(self, values: Sequence[int], place: str) -> str:
        return f"(CAST('{{{','.join(map(str, values))}}}' AS bigint[]))[{place}]"

    def steps(self, value: str, scale: str) -> str:
        """`round` of a double rounds halves to even there, and products that overflow, or underflow, fail."""
        size = f"abs({value})"
        held = f"CASE WHEN {size} < 1e-150 THEN 0 WHEN {size} < 1e150 THEN {value} END"
        scaled = f"(({held}) * {scale})"
        whole = f"trunc{scaled}"
        rounded = f"({whole} + CASE WHEN abs({scaled} - {whole}) >= 0.5 THEN sign{scaled} ELSE 0 END)"
        fits = f"{rounded} >= -9223372036854775808 AND {rounded} < 9223372036854775808"
        return f"CASE WHEN {fits} THEN CAST({rounded} AS bigint) END"

    def is_nan(self, value: str) -> str:
        return f"({value} = CAST('NaN' AS DOUBLE PRECISION))"

    def written(self, value: str, kind: ColumnType) -> str:
        text = f"to_char({value}, 'YYYY-MM-DD')" if kind is ColumnType.DATE else f"CAST({value} AS text)"
        return f'({text} COLLATE "C")'

    def length(self, value: str) -> str:
        return f"CAST(char_length({value}) AS bigint)"

    def cased(self, function: str, value: str) -> str:
        before, after = letter_cases(function)
        ascii_ = f'{function}({value} COLLATE "C")'
        other = f"translate({value}, {self.literal(before)}, {self.literal(after)})"
        return f"CASE WHEN octet_length({value}) = char_length({value}) THEN {ascii_} ELSE {other} END"

    def like(self, value: str, pattern: str) -> str:
        return f"({value} LIKE {pattern} ESCAPE '')"

    def matches(self, value: str, pattern: str) -> str:
        return f"({value} ~ {self.literal(plain_pattern(pattern))})"

    def microseconds(self, value: str) -> str:
        return f"CAST(extract(epoch FROM {value}) * 1000000 AS bigint)"

    def of_microseconds(self, number: str) -> str:
        """Days and the rest of the day apart: intervals are multiplied in floating point, exactly below 2^53."""
        day = 86_400_000_000
        days = f"CAST(floor(CAST({number} AS numeric) / {day}) AS integer)"
        rest = f"(((({number}) % {day}) + {day}) % {day})"
        start = "TIMESTAMP '1970-01-01 00:00:00'"
        return f"({start} + make_interval(days => {days}) + {rest} * INTERVAL '1 microsecond')"

    def days(self, value: str) -> str:
        return f"CAST({value} - DATE '1970-01-01' AS bigint)"

    def part(self, name: str, value: str) -> str:
        field = {"dayofyear": "doy", "dayofweek": "dow"}.get(name, name)
        return f"CAST(floor(extract({field} FROM CAST({value} AS timestamp))) AS bigint)"

    def truncated(self, unit: str, value: str, kind: ColumnType) -> str:
        return f"CAST(date_trunc({unit}, CAST({value} AS timestamp)) AS {self.type(kind)})"

    def day(self, value: str) -> str:
        return f"CAST({value} AS DATE)"

    def _shifted_months(self, value: str, months: str, kind: ColumnType) -> str:
        return f"CAST({value} + make_interval(months => CAST({months} AS integer)) AS {self.type(kind)})"

    def semi_join(self, columns: str, left: str, right: str, tests: str, *, negated: bool) -> str:
        exists = f"{'NOT ' * negated}EXISTS (SELECT 1 FROM ({right}) AS r WHERE {tests})"  # noqa: S608
        return f"SELECT {columns} FROM ({left}) AS l WHERE {exists}"  # noqa: S608


class Spark(_Ranked):
    """SQL of Spark 4, in a session whose time zone is UTC and whose arithmetic does not fail."""

    name = "spark"
    words = "Spark"
    salt = ":salt"
    timestamp = "TIMESTAMP_NTZ"

    def quoted(self, name: str) -> str:
        return "`" + name.replace("`", "``") + "`"

    def literal(self, text: str) -> str:
        for sign, escaped in (("\\", "\\\\"), ("'", "\\'"), ("$", "\\u0024"), ("\0", "\\u0000")):
            text = text.replace(sign, escaped)
        return "'" + _encodable(text) + "'"

    def integer(self, value: int) -> str:
        return f"CAST({value} AS BIGINT)"

    def type(self, kind: ColumnType) -> str:
        return "STRING" if kind is ColumnType.TEXT else super().type(kind)

    def wide(self, value: str) -> str:
        return f"CAST({value} AS DECIMAL(38, 0))"

    def cut(self, top: str, bottom: str) -> str:
        return f"(({top}) div ({bottom}))"

    def quotient(self, top: str, bottom: str) -> str:
        return f"({top} div {bottom})"

    def total(self, value: str) -> str:
        return f"sum(CAST({value} AS DECIMAL(38, 0)))"

    def exclusive_or(self, left: str, right: str) -> str:
        return f"({left} ^ {right})"

    def shifted(self, value: str, bits: int) -> str:
        return f"shiftright({value}, {bits})"

    def hexadecimal(self, digits: str, first: int, count: int | None = None) -> str:
        size = "" if count is None else f", {count}"
        return f"CAST(conv(substring({digits}, {first}{size}), 16, 10) AS BIGINT)"

    def listed(self, values: Sequence[int], place: str) -> str:
        numbers = ", ".join(f"{value}L" for value in values)
        inside = f"{place} BETWEEN 1 AND {len(values)}"
        return f"CASE WHEN {inside} THEN try_element_at(array({numbers}), CAST({place} AS INT)) END"

    def is_nan(self, value: str) -> str:
        """`isnan` of null is false there, not null."""
        return f"({value} IS NULL OR isnan({value}))"

    def steps(self, value: str, scale: str) -> str:
        """Cut and corrected: `round` goes by way of decimal digits there."""
        scaled = f"({value} * {scale})"
        whole = f"CAST({scaled} AS BIGINT)"
        up = (
            f"CASE WHEN abs({scaled} - CAST({whole} AS DOUBLE)) >= 0.5D THEN CAST(sign({scaled}) AS BIGINT) ELSE 0L END"
        )
        fits = f"{scaled} >= -9.223372036854775808E18D AND {scaled} < 9.223372036854775808E18D"
        return f"CASE WHEN {fits} THEN {whole} + {up} END"

    def written(self, value: str, kind: ColumnType) -> str:
        return f"CAST({value} AS STRING)"

    def length(self, value: str) -> str:
        return f"CAST(char_length({value}) AS BIGINT)"

    def cased(self, function: str, value: str) -> str:
        before, after = letter_cases(function)
        return f"translate({value}, {self.literal(before)}, {self.literal(after)})"

    def like(self, value: str, pattern: str) -> str:
        """A regular expression that never goes back: Spark's LIKE tries every way in which a text may fit.

        Guarantee: a text of n characters takes no more steps than n times the length of the pattern. Proof. A group
        `(?>.*?piece)` ends where its piece is found first, and is not entered again; only the last piece is looked for
        from the end. The first place is as good as any other: a piece has a fixed number of characters, so whatever
        fits behind a later place fits behind the first one too, after more of `.*`.
        """
        return f"({value} RLIKE {pattern})"

    def pattern(self, text: str, *, lower: bool = False) -> str:
        first, *others = (text.translate(_table("lower")) if lower else text).split("%")
        written = r"(?s)\A" + _of_piece(first)
        if others:
            *between, last = others
            written += "".join(f"(?>.*?{_of_piece(piece)})" for piece in between if piece)
            written += f".*{_of_piece(last)}"
        return self.literal(written + r"\z")

    def matches(self, value: str, pattern: str) -> str:
        self.refuse("REGEXP_MATCHES", "its regular expressions can take very long on some texts; use LIKE")

    def microseconds(self, value: str) -> str:
        return f"unix_micros(CAST({value} AS TIMESTAMP))"

    def of_microseconds(self, number: str) -> str:
        return f"CAST(timestamp_micros({number}) AS TIMESTAMP_NTZ)"

    def days(self, value: str) -> str:
        return f"CAST(unix_date({value}) AS BIGINT)"

    def plus_days(self, day: str, number: str) -> str:
        return f"date_add({day}, CAST({number} AS INT))"

    def part(self, name: str, value: str) -> str:
        functions = {"day": "dayofmonth", "week": "weekofyear", "isodow": "1 + weekday"}
        function = "dayofweek" if name == "dayofweek" else functions.get(name, name)
        less = " - 1" if name == "dayofweek" else ""
        return f"CAST({function}({value}){less} AS BIGINT)"

    def truncated(self, unit: str, value: str, kind: ColumnType) -> str:
        return f"CAST(date_trunc({unit}, CAST({value} AS TIMESTAMP)) AS {self.type(kind)})"

    def day(self, value: str) -> str:
        return f"CAST({value} AS DATE)"

    def _shifted_months(self, value: str, months: str, kind: ColumnType) -> str:
        shifted = f"{value} + make_ym_interval(0, CAST({months} AS INT))"
        return f"CAST({shifted} AS {self.type(kind)})"

    def semi_join(self, columns: str, left: str, right: str, tests: str, *, negated: bool) -> str:
        kind = "ANTI" if negated else "SEMI"
        return f"SELECT {columns} FROM ({left}) AS l LEFT {kind} JOIN ({right}) AS r ON {tests}"  # noqa: S608


def _encodable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidQuery("a text that is not Unicode", "leave out characters that are half of a pair") from None
    return text


@lru_cache(maxsize=2)
def letter_cases(function: str) -> tuple[str, str]:
    """The letters that DuckDB changes in lower or upper case, and what each becomes: one letter for one.

    >>> before, after = letter_cases("lower")
    >>> after[before.index("Ä")]
    'ä'
    """
    import duckdb

    numbers = "SELECT i FROM range(1, 55296) AS t(i) UNION ALL SELECT i FROM range(57344, 1114112) AS t(i)"
    letters = f"SELECT chr(CAST(i AS INTEGER)) AS c FROM ({numbers})"  # noqa: S608
    changed = f"SELECT c, {function}(c) AS d FROM ({letters}) WHERE d <> c ORDER BY ascii(c)"  # noqa: S608
    with duckdb.connect(":memory:") as connection:
        pairs = connection.execute(changed).fetchall()
    if any(len(after) != 1 for _, after in pairs):
        raise InternalError(f"{function} gives several letters for one")
    return "".join(before for before, _ in pairs), "".join(after for _, after in pairs)


@lru_cache(maxsize=2)
def _table(function: str) -> dict[int, int]:
    return str.maketrans(*letter_cases(function))


@lru_cache(maxsize=1)
def blanks() -> str:
    """The characters that DuckDB's `trim` takes away: all spaces of Unicode, but not tabs and ends of lines.

    >>> [hex(ord(blank)) for blank in blanks()][:3]
    ['0x20', '0xa0', '0x1680']
    """
    import duckdb

    letters = "SELECT chr(CAST(i AS INTEGER)) AS c, i FROM (SELECT i FROM range(1, 55296) AS t(i))"
    with duckdb.connect(":memory:") as connection:
        result = connection.execute(f"SELECT c FROM ({letters}) WHERE trim(c) = '' ORDER BY i").fetchall()  # noqa: S608
    return "".join(blank for (blank,) in result)


def _of_piece(piece: str) -> str:
    """A piece of a pattern of LIKE, without %, in a regular expression of Java.

    >>> print(_of_piece("a_$"))
    a.\\x{24}
    """
    return "".join("." if sign == "_" else sign if sign in _PLAIN else f"\\x{{{ord(sign):x}}}" for sign in piece)


_PLAIN = frozenset("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")

_CLASSES = {"d": "0-9", "w": "0-9A-Za-z_", "s": " \t\n\f\r"}


def plain_pattern(pattern: str) -> str:
    r"""A regular expression of `algebra.patterns` without what engines take differently: dots and named classes.

    >>> print(plain_pattern(r"^a.[\d_]$"))
    ^a[^
    ][0-9_]$
    """
    parts, at, inside = [], 0, False
    while at < len(pattern):
        sign = pattern[at]
        if sign == "\\":
            following = pattern[at + 1]
            named = _CLASSES.get(following.lower())
            if named is None:
                parts.append(sign + following)
            else:
                parts.append(named if inside else f"[{'^' * following.isupper()}{named}]")
            at += 2
            continue
        if sign == "[" and not inside:
            inside = True
        elif sign == "]" and inside:
            inside = False
        parts.append("[^\n]" if sign == "." and not inside else sign)
        at += 1
    return "".join(parts)


DUCKDB, POSTGRES, SPARK = Dialect(), Postgres(), Spark()
_KNOWN = {dialect.name: dialect for dialect in (DUCKDB, POSTGRES, SPARK)}


def dialect_of(name: str) -> Dialect:
    """The dialect that an engine names.

    >>> dialect_of("spark").quoted("a b")
    '`a b`'
    """
    if name not in _KNOWN:
        raise InternalError(f"no SQL is written for engines that speak {name!r}")
    return _KNOWN[name]
