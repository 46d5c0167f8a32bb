"""Numbers written into a policy's file, in place: its words, order and comments stay."""

import re
from collections.abc import Mapping
from fractions import Fraction

from discreet.curator.policy import parse_policy
from discreet.errors import DiscreetError, InvalidParameter
from discreet.exact import plain

_MARK = "  # chosen privately:"


def with_bounds(
    text: str,
    table: str,
    contributions: Mapping[str, int],
    columns: Mapping[str, tuple[Fraction, Fraction]],
    *,
    provenance: str,
) -> str:
    """The text of a policy with these bounds of a table and its columns, and where they come from as a comment.

    `InvalidParameter` where the policy is written in a form that is not understood here; nothing else would be changed.

    >>> text = '''[dataset]
    ... name = "census"
    ... neighbors = "change one"
    ... [budget]
    ... everyone = "all"
    ... epsilon = 1
    ... [tables.visits]
    ... source = "visits.csv"
    ... unit = "who"
    ... columns.who = {type = "integer"}
    ... columns.pay = {type = "integer", lower = 0, upper = 9}
    ... '''
    >>> chosen = {"pay": (Fraction(-5), Fraction(50))}
    >>> new = with_bounds(text, "visits", {"max_rows_per_group": 4}, chosen, provenance="chosen privately: charge #2")
    >>> print("\\n".join(new.splitlines()[6:]))
    [tables.visits]
    max_rows_per_group = 4  # chosen privately: charge #2
    source = "visits.csv"
    unit = "who"
    columns.who = {type = "integer"}
    columns.pay = {type = "integer", lower = -5, upper = 50}  # chosen privately: charge #2
    """
    lines = text.splitlines()
    for name, value in contributions.items():
        lines = _with_number(lines, table, name, value, provenance)
    for name, ends in columns.items():
        lines = _with_ends(lines, table, name, ends, provenance)
    new = "\n".join(lines) + "\n"
    try:
        read = parse_policy(new).catalog.table(table)
    except DiscreetError as error:
        raise _unknown_form(table) from error
    known = {"max_groups_per_unit": read.groups, "max_rows_per_group": read.rows}
    written = all(known[name] == value for name, value in contributions.items()) and all(
        (read.column(name).lower, read.column(name).upper) == ends for name, ends in columns.items()
    )
    if not written:
        raise _unknown_form(table)
    return new


def _unknown_form(table: str) -> InvalidParameter:
    hint = "write the bounds into the file by hand"
    return InvalidParameter("policy", f"[tables.{table}]", "a section and columns of one line each", hint)


def _section(lines: list[str], *names: str) -> range:
    """The lines below a header such as [tables.visits.columns]; empty where there is none."""
    parts = r"\s*\.\s*".join(f'(?:{re.escape(name)}|"{re.escape(name)}")' for name in names)
    for start, line in enumerate(lines):
        if re.fullmatch(rf"\s*\[\s*{parts}\s*\]\s*(#.*)?", line):
            ends = (i for i in range(start + 1, len(lines)) if lines[i].lstrip().startswith("["))
            return range(start + 1, next(ends, len(lines)))
    return range(0)


def _with_number(lines: list[str], table: str, name: str, value: int, provenance: str) -> list[str]:
    section = _section(lines, "tables", table)
    if not section.start:
        raise _unknown_form(table)
    written = f"{name} = {value}  # {provenance}"
    for i in section:
        if re.match(rf"\s*{name}\s*=", lines[i]):
            return [*lines[:i], written, *lines[i + 1 :]]
    return [*lines[: section.start], written, *lines[section.start :]]


def _with_ends(
    lines: list[str], table: str, column: str, ends: tuple[Fraction, Fraction], provenance: str
) -> list[str]:
    quoted = f'(?:{re.escape(column)}|"{re.escape(column)}")'
    places = [(i, rf"\s*columns\s*\.\s*{quoted}\s*=") for i in _section(lines, "tables", table)]
    places += [(i, rf"\s*{quoted}\s*=") for i in _section(lines, "tables", table, "columns")]
    for i, pattern in places:
        if re.match(pattern, lines[i]):
            line = lines[i].partition(_MARK)[0].rstrip()
            for name, end in zip(("lower", "upper"), ends, strict=True):
                line = _with_end(line, name, end)
            return [*lines[:i], f"{line}  # {provenance}", *lines[i + 1 :]]
    raise _unknown_form(table)


def _with_end(line: str, name: str, end: Fraction) -> str:
    number = plain(end)
    value = f'"{number}"' if "/" in number else number
    new, count = re.subn(rf"\b{name}\s*=\s*[^,}}]*?(?=\s*[,}}])", f"{name} = {value}", line, count=1)
    return new if count else re.sub(r"\s*\}", f", {name} = {value}}}", line, count=1)
