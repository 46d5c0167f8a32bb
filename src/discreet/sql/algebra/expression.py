"""Expressions over private rows: a column as it is treated, a constant, or an operation from the closed list.

Nodes are frozen values that know their kind, whether they can be null, and, where that is public knowledge, the list of
all values they can take (`domain`), so that groups can be named without looking at data.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as dataclass_field
from datetime import date, datetime
from fractions import Fraction

from discreet.curator.catalog import TEXT, Column, ColumnType
from discreet.curator.engines.columns import literal
from discreet.exact import plain
from discreet.sql.algebra.kinds import MOST, Calendar, Day, Fixed, Kind, Moment, Nothing, Real, Text, Truth, calendar_of
from discreet.sql.algebra.kinds import Unsupported as Unsupported  # noqa: PLC0414 (also imported from here)

Scalar = int | str | bool | date | datetime | None
"""What a constant holds; numbers as whole numbers of their kind's step."""

Domain = tuple[Scalar, ...] | range | Calendar
"""All values of an expression but null, numbers in steps."""


@dataclass(frozen=True, slots=True)
class Field:
    """A column of a private table as it is treated everywhere: clamped to its bounds, snapped to its grid."""

    column: Column
    kind: Kind
    source: int = 0
    """Which scan of a relation it belongs to."""
    optional: bool = False
    """Whether an outer join can leave it out, which makes it null."""

    @property
    def nullable(self) -> bool:
        """Whether it can be null."""
        return self.column.nullable or self.optional

    @property
    def domain(self) -> Domain | None:
        """The declared values, or all numbers between the bounds."""
        if self.column.values is None:
            return all_of(self.kind)
        reader = {ColumnType.DATE: date.fromisoformat, ColumnType.TIMESTAMP: datetime.fromisoformat}
        if self.column.kind in reader:
            return tuple(reader[self.column.kind](str(value)) for value in self.column.values)
        return self.column.values

    def __str__(self) -> str:
        return self.column.name


@dataclass(frozen=True, slots=True)
class Slot:
    """A column that a step over rows computes: an aggregate per person, a rank, a column of a union (`rows`)."""

    source: int
    index: int
    kind: Kind
    nullable: bool
    domain: Domain | None = None
    optional: bool = False
    """Whether an outer join can leave it out, which makes it null."""
    name: str = dataclass_field(default="", compare=False, repr=False)
    """For people: what it is called changes nothing about it."""
    clamp: tuple[int, int] | None = dataclass_field(default=None, compare=False, repr=False)
    """Between how many steps it is held where it is added up, if it has no bounds of its own."""

    def __str__(self) -> str:
        return self.name or f"column {self.index + 1} of step {self.source}"


Leaf = Field | Slot
"""A column that rows have."""


@dataclass(frozen=True, slots=True)
class Constant:
    """A value written in the statement; numbers in steps of their kind."""

    value: Scalar
    kind: Kind

    @property
    def nullable(self) -> bool:
        """Whether it is NULL."""
        return self.value is None

    @property
    def domain(self) -> Domain | None:
        """Its own value."""
        return () if self.value is None else (self.value,)

    @property
    def number(self) -> Fraction | None:
        """The number that it is, if it is one."""
        return self.value * self.kind.step if isinstance(self.kind, Fixed) and isinstance(self.value, int) else None

    def __str__(self) -> str:
        match self.value:
            case bool():
                return str(self.value).lower()
            case int() if self.number is not None:
                return plain(self.number)
            case str():
                return literal(self.value)
            case None:
                return "null"
            case _:
                return f"'{self.value}'"


@dataclass(frozen=True, slots=True)
class Call:
    """An operation from `conditions` or `functions`, which alone make these."""

    operation: str
    arguments: tuple["Expression", ...]
    kind: Kind
    nullable: bool
    domain: Domain | None = None
    size: int = dataclass_field(init=False, compare=False, repr=False)
    """How many nodes are written for it."""
    work: int = dataclass_field(init=False, compare=False, repr=False)
    """The most nanoseconds that all of them take on one row."""

    def __post_init__(self) -> None:
        times = _TIMES.get(self.operation, 1)
        size = 1 + times * sum(argument.size if isinstance(argument, Call) else 1 for argument in self.arguments)
        needed = work_of(self.operation, self.arguments) + times * sum(map(work_on_a_row, self.arguments))
        object.__setattr__(self, "size", size)
        object.__setattr__(self, "work", needed)

    def __str__(self) -> str:  # noqa: PLR0911 (one return a form)
        parts = [str(argument) for argument in self.arguments]
        match self.operation:
            case name if name in _SIGNS:
                return "(" + f" {_SIGNS[name]} ".join(parts) + ")"
            case "same":
                return _same(self, parts[0])
            case "times":
                return parts[0]
            case "in":
                return f"({parts[0]} in ({', '.join(parts[1:])}))"
            case "is_null":
                return f"({parts[0]} is null)"
            case "case":
                pairs = zip(parts[:-1:2], parts[1:-1:2], strict=True)
                return "case " + " ".join(f"when {a} then {b}" for a, b in pairs) + f" else {parts[-1]} end"
            case "floor":
                return f"floor({self.arguments[0]})"
            case name:
                return f"{name}({', '.join(parts)})"


Expression = Field | Slot | Constant | Call

_LARGEST = 5000
"""Nodes of one expression: some rules use an argument several times, so a short text can grow."""

_SIGNS = {
    "add": "+", "subtract": "-", "multiply": "*", "modulo": "%", "equal": "=", "differ": "<>", "less": "<",
    "less_equal": "<=", "greater": ">", "greater_equal": ">=", "and": "and", "or": "or", "like": "like",
    "ilike": "ilike", "concatenate": "||",
}  # fmt: skip


def _same(value: Call, inner: str) -> str:
    """A number times a constant, which only its step knows."""
    before = value.arguments[0].kind
    if not isinstance(before, Fixed) or not isinstance(value.kind, Fixed):
        return inner
    factor = value.kind.step / before.step
    if factor == 1:
        return inner
    return f"({inner} / {plain(1 / factor)})" if factor.numerator == 1 else f"({inner} * {plain(factor)})"


def field(column: Column, source: int = 0) -> Field:
    """The expression that a column of the catalog is."""
    if column.bounded and column.lower is not None and column.upper is not None and column.granularity is not None:
        step = column.granularity
        return Field(column, Fixed(step, int(column.lower / step), int(column.upper / step)), source)
    if isinstance(column.earliest, datetime) and isinstance(column.latest, datetime):
        return Field(column, Moment(column.earliest, column.latest), source)
    if column.earliest is not None:
        return Field(column, Day(column.earliest, column.latest), source)
    kinds: dict[ColumnType, Kind] = {
        ColumnType.INTEGER: Fixed(Fraction(1), None, None),
        ColumnType.REAL: Real(),
        ColumnType.TEXT: Text(TEXT),
        ColumnType.BOOLEAN: Truth(),
        ColumnType.DATE: Day(),
        ColumnType.TIMESTAMP: Moment(),
    }
    return Field(column, kinds[column.kind], source)


CUT_TEXTS = "compute less of it on private rows, or cut long texts first: SUBSTRING(x, 1, 50)"
"""What to do where a row would need too much work."""


def work_on_a_row(value: Expression) -> int:
    """The most nanoseconds that an expression takes on one row."""
    return value.work if isinstance(value, Call) else 0


def too_much_work(nanoseconds: int) -> str:
    """What is said of more work on one row than the clock may tell."""
    return f"this can take {nanoseconds / 1000:,.0f} µs on one row, expected at most {MOST_WORK // 1000}"


def calls_of(value: Expression) -> Iterator[Call]:
    """Every operation in an expression, itself first."""
    if isinstance(value, Call):
        yield value
        for argument in value.arguments:
            yield from calls_of(argument)


def clamped_slots(value: Expression) -> Iterator[tuple[Slot, Fixed]]:
    """Counts and sums of one person's rows that have no bounds of their own, and what they are clamped to."""
    for part in calls_of(value):
        match part:
            case Call("least", (Call("greatest", (Slot() as slot, *_)), *_), Fixed() as kind):
                if isinstance(slot.kind, Fixed) and not slot.kind.bounded:
                    yield slot, kind


def leaves_of(value: Expression) -> list[Leaf]:
    """The columns of rows that an expression is made of."""
    match value:
        case Field() | Slot():
            return [value]
        case Call():
            return [leaf for argument in value.arguments for leaf in leaves_of(argument)]
        case _:
            return []


def fields_of(value: Expression) -> list[Field]:
    """The columns of tables that an expression is made of."""
    return [leaf for leaf in leaves_of(value) if isinstance(leaf, Field)]


def substitute(value: Expression, replacements: Mapping[Expression, Expression]) -> Expression:
    """An expression with parts replaced by others of the same kind, nulls and values."""
    if value in replacements:
        return replacements[value]
    if not isinstance(value, Call):
        return value
    return replace(value, arguments=tuple(substitute(argument, replacements) for argument in value.arguments))


def constant(value: Scalar | Fraction) -> Constant:
    """A constant of the kind that its value has.

    >>> constant(Fraction(5, 2))
    Constant(value=5, kind=Fixed(step=Fraction(1, 2), lower=5, upper=5))
    """
    match value:
        case None:
            return Constant(None, Nothing())
        case bool():
            return Constant(value, Truth())
        case int() | Fraction():
            return _number(Fraction(value))
        case str():
            return Constant(value, Text(len(value)))
        case datetime():
            return Constant(value, Moment())
        case _:
            return Constant(value, Day())


def call(
    operation: str,
    *arguments: Expression,
    kind: Kind,
    nullable: bool | None = None,
    domain: Domain | None = None,
) -> Call:
    """A node of this operation: null if an argument is, unless said otherwise.

    Refused where steps leave 62 bits, and where the work on one row leaves what the clock may tell (`work_of`).
    """
    if isinstance(kind, Fixed) and any(end is not None and abs(end) >= MOST for end in (kind.lower, kind.upper)):
        raise Unsupported(
            f"{operation} can reach {kind}, too large for 64 bits", "use narrower bounds or a coarser step"
        )
    if nullable is None:
        nullable = any(argument.nullable for argument in arguments)
    node = Call(operation, arguments, kind, nullable, all_of(kind) if domain is None else domain)
    if node.size > _LARGEST:
        raise Unsupported("this expression is too large", "compute less of it on private rows")
    if node.work > MOST_WORK:
        raise Unsupported(too_much_work(node.work), CUT_TEXTS)
    return node


def _number(value: Fraction) -> Constant:
    if abs(value.numerator) >= MOST or value.denominator >= MOST:
        raise Unsupported("this number has too many digits", "write a number below 2^62 in size, with fewer decimals")
    return Constant(value.numerator, Fixed(Fraction(1, value.denominator), value.numerator, value.numerator))


def all_of(kind: Kind) -> Domain | None:
    """All values of a kind, where there are few enough to be counted."""
    match kind:
        case Truth():
            return (False, True)
        case Fixed(_, int(lower), int(upper)):
            return range(lower, upper + 1)
        case Day(date() as first, date() as last):
            return calendar_of("day", first, last)
        case _:
            return None


# How long an operation can take on one row, and how much of that one plan may ask for.
#
# A statement is public and a row is not: time that a row can choose is time that tells of a person. So every operation
# has a price, the most nanoseconds that it takes on any row, from the lengths that texts can have. The prices were
# measured (docs/decisions/0018-the-clock.md) and hold a margin. Everything that is asked together, added up, stays
# below `MOST_WORK`, and what conditions alone can switch on or off stays below `SWITCHED` (`private_sql.write`).

MOST_WORK = 100_000
"""Nanoseconds: a plan may need no more on one row, a thousandth of the time floor that policies have by default."""

SWITCHED = 1_000
"""Nanoseconds: where a plan needs more on one row, every row pays for all of it, whatever conditions say of it."""

GATES = frozenset({"case", "coalesce", "and", "or"})
"""Operations that DuckDB evaluates only as far as a row needs them."""

_PRICES = {
    "floor": 70, "modulo": 5, "least": 5, "greatest": 5, "truncate": 15, "to_day": 10, "year": 25, "quarter": 25,
    "month": 25, "week": 25, "day": 25, "dayofyear": 25, "dayofweek": 25, "isodow": 25, "hour": 25, "minute": 25,
    "second": 25, "microsecond_number": 5, "moment_of_number": 10, "day_number": 5, "day_of_number": 10,
    "plus_months": 60, "make_date": 300, "format_date": 500, "text_of": 100, "square_root": 30, "quotient": 400,
    "sign": 5, "ln": 300, "log10": 300, "log2": 300, "exp": 300,
}  # fmt: skip
_ORDINARY = 2

_TIMES = dict.fromkeys(("day_of_number", "moment_of_number"), 3) | {"make_date": 4} | dict.fromkeys(
    ("plus_months", "square_root", "parsed_date", "ln", "log10", "log2", "exp", "year", "quarter", "month", "week",
     "day", "dayofyear", "dayofweek", "isodow", "hour", "minute", "second"), 2
)  # fmt: skip
"""How often the SQL of an operation holds that of an argument, where that is more than once."""

_TENTHS_PER_CHARACTER = {
    "lower": 70, "upper": 70, "trim": 35, "length": 2, "substring": 10, "concatenate": 5, "split_part": 90,
    "replace": 110, "parsed_number": 20, "parsed_date": 30,
}  # fmt: skip
_ONCE = {"split_part": 100, "replace": 100, "parsed_number": 100, "parsed_date": 500}
"""Nanoseconds that an operation on texts takes beside those for each character."""
_COMPARISONS = frozenset({"equal", "differ", "less", "less_equal", "greater", "greater_equal"})
_GROUPED = 5
"""Tenths of nanoseconds for each character of a key: hashed, compared and kept."""


def work_of(operation: str, arguments: Sequence[Expression]) -> int:
    """The most nanoseconds that an operation takes on one row, its arguments aside.

    >>> work_of("lower", [constant("a" * 100)]), work_of("add", [constant(1), constant(2)])
    (702, 2)
    """
    texts = [length_of(argument) for argument in arguments if isinstance(argument.kind, Text)]
    if operation in _TENTHS_PER_CHARACTER:
        once = _ONCE.get(operation, _ORDINARY)
        return once + -(-sum(texts) * _TENTHS_PER_CHARACTER[operation] // 10)
    if operation == "matches":
        return _ORDINARY + _work_of_pattern(arguments)
    if operation in ("like", "ilike"):
        return _ORDINARY + _work_of_like(operation, arguments)
    if operation == "in":
        return _ORDINARY + len(arguments) * (20 + min(texts) // 20 if texts else 1)
    if operation in _COMPARISONS and texts:
        return 15 + min(texts) // 10
    return _PRICES.get(operation, _ORDINARY)


def work_of_key(key: Expression) -> int:
    """The most nanoseconds that grouping by a key takes on one row.

    >>> work_of_key(constant("a" * 1000))
    502
    """
    return _ORDINARY + length_of(key) * _GROUPED // 10


def length_of(value: Expression) -> int:
    """The most characters that a value has; 0 where it is no text."""
    return value.kind.length if isinstance(value.kind, Text) else 0


def _work_of_like(operation: str, arguments: Sequence[Expression]) -> int:
    """Whole pieces of a pattern are searched for; with "_" in it, every place is tried. ILIKE lowers the text first."""
    size, pattern = length_of(arguments[0]), getattr(arguments[1], "value", "")
    lowered = 7 * size if operation == "ilike" else 0
    return lowered + size * (3 * len(pattern) if "_" in pattern else 6)


def _work_of_pattern(arguments: Sequence[Expression]) -> int:
    """A text is read once; whichever texts first need steps from state to state also pay for building them."""
    size, pattern = length_of(arguments[0]), getattr(arguments[1], "value", "")
    from discreet.sql.algebra import patterns

    return 8 * size + 30 * patterns.automaton(pattern).steps
