"""Operations that give numbers, each with its kind and its interval.

With `conditions`, `dates` and `texts`, this is the closed list of operations on private rows. Every operation is
*total*: whatever a row holds, it gives a value or null, never an error, so nothing about a row can be read off a
failure. Guarantee: a node of kind `Fixed` with bounds evaluates to null or to whole steps within them. Proof, by
induction: columns are clamped when they are read; each rule gives the exact range of its operation over the ranges of
its arguments, or a larger one (interval arithmetic, Moore 1966); `expression.call` refuses what 62 bits cannot hold.

Operations on texts, each with the most characters that its values have.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from fractions import Fraction
from functools import cache
from math import floor, isqrt

from discreet.curator.catalog import TEXT
from discreet.exact import exp_bounds, log_bounds
from discreet.sql.algebra import patterns
from discreet.sql.algebra.conditions import (
    WHOLE,
    all_known,
    case,
    compare,
    in_common_step,
    in_steps,
    is_null,
    range_of,
    step_of,
)
from discreet.sql.algebra.expression import Constant, Domain, Expression, call, constant
from discreet.sql.algebra.kinds import FIRST, LAST, MOST, Day, Fixed, Kind, Text, Truth, Unsupported


def add(left: Expression, right: Expression) -> Expression:
    """left + right, in their common step."""
    (left, right), step = in_common_step("+", left, right)
    (a, b), (c, d) = range_of("+", left), range_of("+", right)
    return call("add", left, right, kind=Fixed(step, a + c, b + d))


def subtract(left: Expression, right: Expression) -> Expression:
    """left − right, in their common step."""
    (left, right), step = in_common_step("-", left, right)
    (a, b), (c, d) = range_of("-", left), range_of("-", right)
    return call("subtract", left, right, kind=Fixed(step, a - d, b - c))


def multiply(left: Expression, right: Expression) -> Expression:
    """left × right; a constant factor only renames the step, so it never overflows."""
    for factor, rest in ((left, right), (right, left)):
        if isinstance(factor, Constant) and factor.number:
            return _renamed("*", rest, factor.number)
    (a, b), (c, d) = range_of("*", left), range_of("*", right)
    corners = (a * c, a * d, b * c, b * d)
    return call("multiply", left, right, kind=Fixed(step_of(left) * step_of(right), min(corners), max(corners)))


def divide(left: Expression, right: Expression) -> Expression:
    """left ÷ right: exact where right is a constant, since only the step changes; else cut to a grid (`_quotient`)."""
    if not isinstance(right, Constant) or right.number is None:
        return _quotient(left, right)
    if right.number == 0:
        raise Unsupported("a division by zero", "divide by another constant")
    return _renamed("/", left, 1 / right.number)


def floor_divide(left: Expression, right: Expression) -> Expression:
    """left // a positive constant, of whole numbers that are not negative."""
    if step_of(left).denominator != 1 or not isinstance(right, Constant) or (right.number or WHOLE).denominator != 1:
        raise Unsupported("// of numbers that are not whole", "write FLOOR(x / c)")
    lower, _ = range_of("//", left)
    if right.number is None or right.number <= 0 or lower < 0:
        raise Unsupported("// of these numbers", "use it on numbers ≥ 0 and a positive constant, or write FLOOR(x / c)")
    return floor_of(divide(left, right))


def modulo(left: Expression, right: Expression) -> Expression:
    """The remainder of left ÷ a positive constant, of numbers that are not negative: below it, in their common step."""
    lower, _ = range_of("%", left)
    if not isinstance(right, Constant) or right.number is None or right.number <= 0 or lower < 0:
        raise Unsupported("% of these numbers", "use it on numbers ≥ 0 and a positive constant")
    (left, by), step = in_common_step("%", left, right)
    _, most = range_of("%", left)
    size = by.value if isinstance(by, Constant) and isinstance(by.value, int) else 1
    return call("modulo", left, by, kind=Fixed(step, 0, min(most, size - 1)))


def negate(value: Expression) -> Expression:
    """−one."""
    if isinstance(value, Constant) and value.number is not None:
        return constant(-value.number)
    a, b = range_of("-", value)
    return call("negate", value, kind=Fixed(step_of(value), -b, -a))


def absolute(value: Expression) -> Expression:
    """|one|."""
    a, b = range_of("ABS", value)
    least = 0 if a <= 0 <= b else min(abs(a), abs(b))
    return call("absolute", value, kind=Fixed(step_of(value), least, max(abs(a), abs(b))))


def floor_of(value: Expression, *, up: bool = False) -> Expression:
    """⌊one⌋, or ⌈one⌉."""
    if up:
        return negate(floor_of(negate(value)))
    a, b = range_of("FLOOR", value)
    step = step_of(value)
    if step.denominator == 1:
        return in_steps(value, WHOLE)
    whole = in_steps(value, Fraction(1, step.denominator))
    kind = Fixed(WHOLE, floor(a * step), floor(b * step))
    return call("floor", whole, constant(step.denominator), kind=kind)


def round_to(value: Expression, digits: int) -> Expression:
    """To so many decimals, halves away from zero."""
    unit = Fraction(1, 10**digits) if digits >= 0 else Fraction(10**-digits)
    lower, upper = range_of("ROUND", value)
    up = multiply(floor_of(add(divide(value, constant(unit)), constant(Fraction(1, 2)))), constant(unit))
    if lower >= 0:
        return up
    down = negate(
        multiply(floor_of(add(divide(negate(value), constant(unit)), constant(Fraction(1, 2)))), constant(unit))
    )
    if upper <= 0:
        return down
    return case([(compare("less", value, constant(0)), down)], up)


def extreme(largest: bool, arguments: Sequence[Expression]) -> Expression:
    """The least or the greatest of several. Nulls are left out, as DuckDB does; a bound may come from one side alone.

    Whichever argument the result is, it lies between the outermost bounds; and it is at least (at most) every argument
    that is never null.
    """
    operation = "greatest" if largest else "least"
    aligned, step = in_common_step(operation.upper(), *arguments)
    kinds = [value.kind for value in aligned if isinstance(value.kind, Fixed)]
    low, high = all_known([kind.lower for kind in kinds], min), all_known([kind.upper for kind in kinds], max)
    sure = [kind for value, kind in zip(aligned, kinds, strict=True) if not value.nullable]
    if largest:
        low = max((end for end in (low, *(kind.lower for kind in sure)) if end is not None), default=None)
    else:
        high = min((end for end in (high, *(kind.upper for kind in sure)) if end is not None), default=None)
    return call(operation, *aligned, kind=Fixed(step, low, high), nullable=all(value.nullable for value in aligned))


def within(value: Expression, most: int, what: str) -> Expression:
    """A number that a narrower type can hold: values that do not fit would have to fail, or vanish."""
    lower, upper = range_of("CAST", value)
    if max(abs(lower), abs(upper)) * step_of(value) >= most:
        raise Unsupported(f"CAST to {what}, which cannot hold {value.kind}", "cast to a wider type, or leave it out")
    return value


def number_of(value: Expression) -> Expression:
    """1 for true and 0 for false; numbers stay as they are."""
    if isinstance(value.kind, Truth):
        return call("number", value, kind=Fixed(WHOLE, 0, 1))
    return value


def _renamed(sign: str, value: Expression, factor: Fraction) -> Expression:
    """one × factor without computing: the same steps, each worth factor times as much."""
    if isinstance(value, Constant) and value.number is not None:
        return constant(value.number * factor)
    if factor < 0:
        return _renamed(sign, negate(value), -factor)
    a, b = range_of(sign, value)
    step = step_of(value) * factor
    if max(step.numerator, step.denominator) >= MOST:
        raise Unsupported(f"{sign} by a constant with this many digits", "use fewer digits")
    return call("same", value, kind=Fixed(step, a, b))


GRIDS = tuple(Fraction(1, 10**digits) for digits in (6, 4, 2, 0))
"""The steps of results that are not whole: the finest that fits is taken."""

_MOST_QUOTIENT = 2**126


def _quotient(left: Expression, right: Expression) -> Expression:
    """left ÷ right, cut towards zero to a grid; null where right is 0.

    Proof of the range. In steps, the quotient is x·p/(y·q) with p/q = ratio of steps. For y of one sign it is monotone
    in x and in y, so its extremes over a ≤ x ≤ b and the divisors that are not 0 are at ends: of x, of y, and at
    y = ±1 where 0 is inside. Cutting is monotone too.
    """
    (a, b), (c, d) = range_of("/", left), range_of("/", right)
    ends = [y for y in (c, d, *(side for side in (-1, 1) if c <= side <= d)) if y]
    if not ends:
        raise Unsupported("a division by zero", "divide by something else")
    for grid in GRIDS:
        ratio = step_of(left) / (step_of(right) * grid)
        corners = [_cut(x * ratio.numerator, y * ratio.denominator) for x in (a, b) for y in ends]
        sizes = max(abs(a), abs(b)) * ratio.numerator, max(abs(c), abs(d)) * ratio.denominator
        if max(map(abs, corners)) < MOST and max(sizes) < _MOST_QUOTIENT:
            nullable = left.nullable or right.nullable or c <= 0 <= d
            factors = constant(ratio.numerator), constant(ratio.denominator)
            kind = Fixed(grid, min(corners), max(corners))
            return call("quotient", left, right, *factors, kind=kind, nullable=nullable)
    raise Unsupported("a division that can give such large numbers", "use narrower bounds, or divide the aggregates")


def _cut(top: int, bottom: int) -> int:
    """A quotient cut towards zero."""
    size = abs(top) // abs(bottom)
    return size if (top < 0) == (bottom < 0) else -size


def sign(value: Expression) -> Expression:
    """−1, 0 or 1."""
    a, b = range_of("SIGN", value)
    return call("sign", value, kind=Fixed(WHOLE, (a > 0) - (a < 0), (b > 0) - (b < 0)))


def truncate_number(value: Expression) -> Expression:
    """Cut towards zero to a whole number."""
    lower, upper = range_of("TRUNC", value)
    if lower >= 0:
        return floor_of(value)
    if upper <= 0:
        return floor_of(value, up=True)
    return case([(compare("less", value, constant(0)), floor_of(value, up=True))], floor_of(value))


_MOST_POWER = 16


def power(value: Expression, exponent: Expression) -> Expression:
    """A number to a power that is written in the statement: 0.5, or whole from 0 to 16."""
    by = exponent.number if isinstance(exponent, Constant) else None
    if by == Fraction(1, 2):
        return square_root(value)
    if by is None or by.denominator != 1 or not 0 <= by <= _MOST_POWER:
        raise Unsupported("POWER with this exponent", f"0.5, or a whole number from 0 to {_MOST_POWER}")
    lower, _ = range_of("POWER", value)
    if by == 0:
        return constant(1)
    size = absolute(value) if lower < 0 and by > 1 else value
    result = size if by % 2 == 0 else value
    for _ in range(int(by) - 1):
        result = multiply(result, size)
    return result


_MOST_ROOT = 2**50
_FINEST_ROOT = 10**6


def square_root(value: Expression) -> Expression:
    """√value to the nearest step of a grid; null where it is negative.

    Guarantee: the same steps on every engine. Proof. With n whole, n < 2^50, the engine computes the nearest whole
    number to √n in floating point. √n is no multiple of 1/2 unless whole, and its distance from k + 1/2 is more than
    1/(8k + 8); n is a float exactly and IEEE 754 rounds √n correctly, so it is off by at most 2^−53·(k + 1), which is
    less, since k < 2^25. So rounding decides as it would for √n itself.
    """
    lower, upper = range_of("SQRT", value)
    if upper < 0:
        raise Unsupported("SQRT of numbers that are all negative", "use numbers ≥ 0")
    step = step_of(value)
    digits = step.denominator
    while (
        digits * 10 <= _FINEST_ROOT
        and upper * step.numerator * step.denominator * (digits // step.denominator * 10) ** 2 < _MOST_ROOT
    ):
        digits *= 10
    times = step * digits**2
    if upper * times >= _MOST_ROOT:
        raise Unsupported(f"SQRT of {value.kind}", "use narrower bounds, or ROUND it first")
    ends = [_nearest_root(max(0, end) * int(times)) for end in (lower, upper)]
    nullable = value.nullable or lower < 0
    return call("square_root", value, constant(int(times)), kind=Fixed(Fraction(1, digits), *ends), nullable=nullable)


def _nearest_root(whole: int) -> int:
    root = isqrt(whole)
    return root + (whole - root * root > root)


def bucket(value: Expression, low: Expression, high: Expression, count: Expression) -> Expression:
    """WIDTH_BUCKET: which of `count` equal parts a number is in, from 1; 0 below them, count + 1 above."""
    ends = [part.number if isinstance(part, Constant) else None for part in (low, high, count)]
    if any(end is None for end in ends):
        raise Unsupported("WIDTH_BUCKET with limits that vary", "write the limits and the number of buckets")
    first, last, parts = (end or Fraction(0) for end in ends)
    if first >= last or parts.denominator != 1 or not 1 <= parts <= 10**6:
        raise Unsupported(
            "WIDTH_BUCKET with these limits", "a lower limit below the upper one, and 1 to 1000000 buckets"
        )
    held = extreme(False, [extreme(True, [value, low]), high])
    share = divide(subtract(held, low), constant((last - first) / parts))
    inside = add(floor_of(share), constant(1))
    outside = [(compare("less", value, low), constant(0)), (compare("greater_equal", value, high), constant(parts + 1))]
    absent = [(is_null(value), constant(None))] if value.nullable else []
    return case([*absent, *outside], inside)


# Logarithms and the exponential function of bounded numbers, as tables: whole numbers that are the same everywhere.
# Libraries of engines do not agree on the last digit of a logarithm. So where an argument can take few values only, the
# nearest step of each result is computed when the question is planned, exactly, and the engine looks it up.

MOST_ARGUMENTS = 10_000
"""Values of an argument: so many are looked up."""

_MOST_STEPS = 2**40

CURVES: dict[str, Callable[[float], float]] = {"ln": math.log, "log10": math.log10, "log2": math.log2, "exp": math.exp}


def curve(name: str, value: Expression) -> Expression:
    """The logarithm or exponential function of a number, to the nearest step; null where there is none."""
    word = name.upper()
    range_of(word, value)
    kind, step = value.kind, step_of(value)
    first, last = _arguments(name, kind)
    if first > last:
        raise Unsupported(f"{word} of numbers that are all zero or less", "use numbers above 0")
    if last - first >= MOST_ARGUMENTS:
        hint = f"at most {MOST_ARGUMENTS:,} values can be looked up: ROUND it to fewer digits first"
        raise Unsupported(f"{word} of {last - first + 1:,} values ({kind})", hint)
    if name == "exp" and last * step > 40:
        raise Unsupported(f"EXP of {kind}", "use narrower bounds: at most 40")
    nullable = value.nullable or first > range_of(word, value)[0]
    grid = _grid(name, step, first, last)
    ends = (_nearest(name, end * step, grid) for end in (first, last))
    return call(name, value, kind=Fixed(grid, *ends), nullable=nullable)


def curve_table(name: str, kind: Fixed, grid: Fraction) -> tuple[int, list[int]]:
    """The first argument that has a value, and the values from there on, in steps of the grid."""
    first, last = _arguments(name, kind)
    return first, list(_values(name, kind.step, first, last, grid))


def _values(name: str, step: Fraction, first: int, last: int, grid: Fraction) -> Iterator[int]:
    return (_nearest(name, steps * step, grid) for steps in range(first, last + 1))


def _arguments(name: str, kind: object) -> tuple[int, int]:
    if not isinstance(kind, Fixed) or kind.lower is None or kind.upper is None:
        raise Unsupported(f"{name.upper()} of a number without bounds", "declare bounds in the policy")
    return (kind.lower if name == "exp" else max(1, kind.lower)), kind.upper


def _grid(name: str, step: Fraction, first: int, last: int) -> Fraction:
    """The finest grid on which all results are below 2^40 steps."""
    most = max(abs(CURVES[name](float(end * step))) for end in (first, last))
    return next(grid for grid in GRIDS if grid == 1 or most / grid < _MOST_STEPS)


@cache
def _nearest(name: str, x: Fraction, grid: Fraction) -> int:
    """The whole number nearest to f(x)/grid.

    Floats are off by less than 2^−50 of the result, which is below 2^−10 steps; nearer to a half, bounds decide.
    """
    guess = Fraction(CURVES[name](float(x))) / grid
    near = floor(guess + Fraction(1, 2))
    if abs(guess - near) < Fraction(49, 100):
        return near
    bits = 64
    while True:
        low, high = (floor(end / grid + Fraction(1, 2)) for end in _enclosure(name, x, bits))
        if low == high:
            return low
        bits *= 2


def _enclosure(name: str, x: Fraction, bits: int) -> tuple[Fraction, Fraction]:
    """Rationals that f(x) lies between."""
    scale = Fraction(1, 1 << bits)
    if name == "exp":
        low, high = exp_bounds(x, bits)
        return low * scale, high * scale
    low, high = log_bounds(x, bits)
    if name == "ln":
        return low * scale, high * scale
    least, most = log_bounds(Fraction({"log2": 2, "log10": 10}[name]), bits)
    ends = [Fraction(top, bottom) for top in (low, high) for bottom in (least, most)]
    return min(ends), max(ends)


PATTERN = 100
"""The most characters that a pattern of LIKE has."""

LONGER = 3
"""How many times longer a text can become in other letter cases."""


def changed_text(operation: str, value: Expression) -> Expression:
    """lower, upper or trim."""
    size = _text_length(operation.upper(), value)
    return call(operation, value, kind=Text(LONGER * size))


def length_of_text(value: Expression) -> Expression:
    """The number of characters."""
    size = _text_length("LENGTH", value)
    return call("length", value, kind=Fixed(WHOLE, 0, size))


def substring(value: Expression, start: Expression, size: Expression) -> Expression:
    """`size` characters from the character `start` on, which counts from 1."""
    most = _text_length("SUBSTRING", value)
    for name, part, least in (("start", start, 1), ("length", size, 0)):
        whole = isinstance(part, Constant) and part.number is not None and part.number.denominator == 1
        if not whole or not isinstance(part, Constant) or not least <= (part.number or 0) <= 10**6:
            raise Unsupported(f"SUBSTRING with this {name}", f"a whole number from {least} to 1000000")
    kept = size.value if isinstance(size, Constant) and isinstance(size.value, int) else most
    return call("substring", value, start, size, kind=Text(min(most, kept)))


def like(operation: str, value: Expression, pattern: Expression) -> Expression:
    """LIKE and ILIKE with a constant pattern."""
    _text_length(operation.upper(), value)
    if not isinstance(pattern, Constant) or not isinstance(pattern.value, str):
        raise Unsupported(f"{operation.upper()} with a pattern that varies", "write the pattern as text")
    if len(pattern.value) > PATTERN:
        raise Unsupported(f"{operation.upper()} with a pattern this long", f"use at most {PATTERN} characters")
    return call(operation, value, pattern, kind=Truth())


def concatenate(*arguments: Expression) -> Expression:
    """One text after the other."""
    size = sum(_text_length("||", value) for value in arguments)
    if size > 10 * TEXT:
        raise Unsupported("a text that can grow so long", "put fewer, or shorter, texts together")
    return call("concatenate", *arguments, kind=Text(size))


def _text_length(what: str, value: Expression) -> int:
    """The most characters that a text has."""
    if not isinstance(value.kind, Text):
        raise Unsupported(f"{what} of {value.kind}", "use a column of the right kind")
    return value.kind.length


def matches(value: Expression, pattern: Expression) -> Expression:
    """REGEXP_MATCHES with a constant pattern that needs few states (`patterns`)."""
    _text_length("REGEXP_MATCHES", value)
    patterns.automaton(_written("REGEXP_MATCHES", "pattern", pattern))
    return call("matches", value, pattern, kind=Truth())


def split_part(value: Expression, separator: Expression, place: Expression) -> Expression:
    """The part of a text between separators, counted from 1; empty where there are fewer."""
    size = _text_length("SPLIT_PART", value)
    if not _written("SPLIT_PART", "separator", separator):
        raise Unsupported("SPLIT_PART with an empty separator", "write what separates the parts")
    number = place.number if isinstance(place, Constant) else None
    if number is None or number.denominator != 1 or not 1 <= number <= TEXT:
        raise Unsupported("SPLIT_PART with this place", f"a whole number from 1 to {TEXT}")
    return call("split_part", value, separator, place, kind=Text(size))


def replace_text(value: Expression, old: Expression, new: Expression) -> Expression:
    """REPLACE of one constant text by another."""
    size = _text_length("REPLACE", value)
    before, after = _written("REPLACE", "text to look for", old), _written("REPLACE", "replacement", new)
    if not before:
        raise Unsupported("REPLACE of an empty text", "write what is to be replaced")
    longest = size + size // len(before) * max(0, len(after) - len(before))
    if longest > 10 * TEXT:
        raise Unsupported("a text that can grow so long", "put shorter texts in")
    return call("replace", value, old, new, kind=Text(longest))


def _written(what: str, part: str, value: Expression) -> str:
    if not isinstance(value, Constant) or not isinstance(value.value, str):
        raise Unsupported(f"{what} with a {part} that varies", f"write the {part} as text")
    if len(value.value) > PATTERN:
        raise Unsupported(f"{what} with a {part} this long", f"use at most {PATTERN} characters")
    return value.value


# Casts

_TYPES = {"TINYINT": 2**7, "SMALLINT": 2**15, "INTEGER": 2**31}
_LISTED = 20_000
_DIGITS = 18


def parsed_number(value: Expression, type_: str, digits: int = 0, decimals: int = 0) -> Expression:
    """The number that a text is in an integer type or DECIMAL(digits, decimals); null where it is none."""
    _text_length("CAST", value)
    kind: Kind
    if type_ == "DECIMAL":
        if not 1 <= digits <= _DIGITS or not 0 <= decimals <= digits:
            raise Unsupported(f"CAST to DECIMAL({digits}, {decimals})", f"use at most {_DIGITS} digits in all")
        kind = Fixed(Fraction(1, 10**decimals), 1 - 10**digits, 10**digits - 1)
    elif type_ in _TYPES:
        kind = Fixed(WHOLE, -_TYPES[type_], _TYPES[type_] - 1)
    elif type_ == "BIGINT":
        kind = Fixed(WHOLE, None, None)
    else:
        raise Unsupported(f"CAST of text to {type_}", "cast it to DECIMAL(18, 6), which is exact, or to INTEGER")
    parts = (constant(type_), constant(digits), constant(decimals))
    return call("parsed_number", value, *parts, kind=kind, nullable=True)


def parsed_date(value: Expression) -> Expression:
    """The date that a text is; null where it is none, and outside the years 1 to 9999."""
    _text_length("CAST", value)
    return call("parsed_date", value, kind=Day(FIRST, LAST), nullable=True)


def text_of(value: Expression) -> Expression:
    """A whole number, a date or a truth value as text."""
    size = 20
    match value.kind:
        case Text():
            return value
        case Fixed(step, lower, upper) if step == 1:
            if lower is not None and upper is not None:
                size = max(len(str(lower)), len(str(upper)))
        case Day() | Truth():
            size = 10 if isinstance(value.kind, Day) else 5
        case other:
            raise Unsupported(f"CAST of {other} to text", "cast whole numbers, dates or truth values")
    return call("text_of", value, kind=Text(size), domain=_texts(value.domain))


def _texts(domain: Domain | None) -> Domain | None:
    if domain is None or len(domain) > _LISTED:
        return None
    return tuple(_text(value) for value in domain)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return value.isoformat() if isinstance(value, date) else str(value)
