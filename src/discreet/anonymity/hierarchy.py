"""How the values of one column coarsen: leaves, then level by level up to `*`.

A `Hierarchy` is public knowledge: it comes from a file, from a rule (intervals, prefixes, calendar, grid) or from a
tree. Each level is a function of the one below it, so coarsening never separates what a finer level joined.

>>> from discreet.anonymity import Hierarchy
>>> zips = Hierarchy.prefixes("zip", ["13053", "13068", "90210"])
>>> [zips.labels[level][zips.codes[level][0]] for level in range(zips.height + 1)]
['13053', '1305*', '130**', '13***', '1****', '*']
"""

import csv
import io
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import Number, rational
from discreet.tables import texts

Codes = NDArray[np.int32]
Exact = int | Fraction
TOP = "*"
_MOST_LEAVES = 10_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Hierarchy:
    """The levels of one column: `labels[level][node]`, and `codes[level][leaf]`, the node above each leaf.

    >>> sexes = Hierarchy.flat("sex", ["F", "M"])
    >>> sexes.labels, sexes.cost(1).tolist()
    ((('F', 'M'), ('*',)), [1.0])
    """

    name: str
    labels: tuple[tuple[str, ...], ...]
    codes: tuple[Codes, ...]

    @property
    def leaves(self) -> int:
        """How many values the column can have."""
        return len(self.labels[0])

    @property
    def height(self) -> int:
        """The number of the coarsest level."""
        return len(self.labels) - 1

    def covers(self, level: int) -> NDArray[np.int64]:
        """How many leaves each node of a level stands for."""
        return np.bincount(self.codes[level], minlength=len(self.labels[level])).astype(np.int64)

    def cost(self, level: int) -> NDArray[np.float64]:
        """The normalized certainty penalty of each node of a level: (leaves covered − 1)/(leaves − 1).

        Xu, Wang, Pei, Wang, Shi, Fu 2006 ("Utility-based anonymization using local recoding").
        """
        return (self.covers(level) - 1) / max(self.leaves - 1, 1)

    def code(self, values: Any) -> Codes:
        """The leaf of each value; a value that the hierarchy does not know is an error that says where it stands.

        >>> Hierarchy.flat("sex", ["F", "M"]).code(["M", "F"]).tolist()
        [1, 0]
        """
        encoded = texts(values).dictionary_encode()
        places = {label: place for place, label in enumerate(self.labels[0])}
        known = np.array([places.get(text, -1) for text in encoded.dictionary.to_pylist()] or [0], np.int32)
        codes: Codes = known[encoded.indices.to_numpy(zero_copy_only=False)].astype(np.int32)
        strange = np.flatnonzero(codes < 0)
        if strange.size:
            rows = ", ".join(str(row) for row in strange[:5] + 1) + (", …" if strange.size > 5 else "")
            raise InvalidData(
                f"column {self.name!r}: {strange.size} values are not in its hierarchy (rows {rows}); "
                "add them to the hierarchy, or correct the data"
            )
        return codes

    @classmethod
    def rows(cls, name: str, rows: Iterable[Sequence[Any]]) -> "Hierarchy":
        """A hierarchy given leaf by leaf: the value, then what it becomes at each level.

        >>> ages = Hierarchy.rows("age", [(28, "<30"), (31, "3*"), (36, "3*"), (50, "≥40")])
        >>> ages.labels[1], ages.labels[2]
        (('<30', '3*', '≥40'), ('*',))
        """
        lines = [tuple(_text(cell) for cell in row) for row in rows]
        if not lines or not lines[0]:
            raise InvalidData(f"hierarchy of {name!r}: it has no values; give one line for each value")
        for number, line in enumerate(lines, 1):
            if len(line) != len(lines[0]):
                raise InvalidData(
                    f"hierarchy of {name!r}: line {number} has {len(line)} levels, line 1 has {len(lines[0])}; "
                    "every line needs the same levels"
                )
            if line[0] and "" in line:
                raise InvalidData(
                    f"hierarchy of {name!r}: line {number} has a gap at level {line.index('')}; fill it in"
                )
        return _assembled(name, list(zip(*lines, strict=True)))

    @classmethod
    def read(cls, name: str, path: str | Path) -> "Hierarchy":
        """A hierarchy from a CSV file without a header, one value a line: `13053;1305*;130**;*` (`;` or `,`)."""
        source = Path(path)
        if not source.is_file():
            raise InvalidParameter("hierarchy", str(source), f"a CSV file with the levels of column {name!r}")
        try:
            content = source.read_bytes().decode("utf-8-sig")  # line ends as they are
        except UnicodeDecodeError:
            raise InvalidData(f"hierarchy of {name!r}: {source.name} is not UTF-8 text") from None
        first = content.partition("\n")[0]
        delimiter = ";" if first.count(";") >= first.count(",") else ","
        try:
            lines = [line for line in csv.reader(io.StringIO(content, newline=""), delimiter=delimiter) if line]
        except csv.Error:
            raise InvalidData(f"hierarchy of {name!r}: {source.name} is not a CSV file of levels") from None
        return cls.rows(name, lines)

    @classmethod
    def tree(cls, name: str, parents: Mapping[Any, Any]) -> "Hierarchy":
        """A hierarchy given as child → parent; leaves of shallow branches repeat until the branches meet.

        >>> Hierarchy.tree("country", {"FR": "Europe", "IT": "Europe", "JP": "Asia"}).labels[1]
        ('Europe', 'Asia')
        """
        links = {_text(child): _text(parent) for child, parent in parents.items()}
        inner = set(links.values())
        leaves = [child for child in links if child not in inner]
        if not leaves:
            raise InvalidData(f"hierarchy of {name!r}: it goes round in a circle and has no leaf")
        paths = [_path(name, leaf, links) for leaf in leaves]
        depth = max(len(path) for path in paths)
        return cls.rows(name, [[path[0]] * (depth - len(path)) + path for path in paths])

    @classmethod
    def flat(cls, name: str, values: Any) -> "Hierarchy":
        """Keep a value or hide it: the distinct values, then `*`."""
        return _assembled(name, [_distinct(values)])

    @classmethod
    def prefixes(cls, name: str, values: Any) -> "Hierarchy":
        """Texts cut from the right, one sign a level, as for ZIP codes: 13053, 1305*, 130**, …"""
        leaves = _distinct(values)
        width = max(map(len, leaves))
        return _assembled(name, [[_cut(leaf, width, level) for leaf in leaves] for level in range(width)])

    @classmethod
    def intervals(
        cls, name: str, *, widths: Sequence[Number], values: Any = None, low: int | None = None, high: int | None = None
    ) -> "Hierarchy":
        """Numbers in wider and wider intervals; leaves are `values` as they are written, or the whole numbers from low
        to high. A missing value stays missing until it is hidden. Bounds are exact: 0.3 is in [0.3, 0.4).

        >>> Hierarchy.intervals("age", low=0, high=99, widths=(5, 20)).labels[1][:3]
        ('0-4', '5-9', '10-14')
        >>> Hierarchy.intervals("kg", values=[60.5, 71], widths=(10,)).labels[1]
        ('[60, 70)', '[70, 80)')
        """
        leaves = _numbers(name, values, low, high)
        steps = _nested(name, widths)
        whole = all(isinstance(number, int) for number in (*leaves.values(), *steps) if number is not None)
        levels = [[_interval(leaf, step, whole=whole) for leaf in leaves.values()] for step in steps]
        return _assembled(name, [list(leaves), *levels])

    @classmethod
    def dates(cls, name: str, values: Any) -> "Hierarchy":
        """Dates (YYYY-MM-DD) by month, year and decade.

        >>> dates = Hierarchy.dates("born", ["1987-03-12", "1991-11-02"])
        >>> [level[0] for level in dates.labels]
        ['1987-03-12', '1987-03', '1987', '1980s', '*']
        """
        leaves = _distinct(values)
        for leaf in leaves:
            if leaf and not _is_date(leaf):
                raise InvalidData(f"column {name!r}: not all its values are dates like 1987-03-12")
        cuts: list[Callable[[str], str]] = [lambda d: d[:10], lambda d: d[:7], lambda d: d[:4], lambda d: d[:3] + "0s"]
        return _assembled(name, [leaves, *[[cut(leaf) if leaf else "" for leaf in leaves] for cut in cuts[1:]]])

    @classmethod
    def grid(cls, name: str, values: Any, *, cells: Sequence[Number]) -> "Hierarchy":
        """Places "latitude,longitude" in wider and wider cells, in degrees.

        >>> Hierarchy.grid("home", ["48.8566,2.3522", "48.8534,2.3488"], cells=(0.01, 0.1)).labels[1]
        ('48.85…48.86,2.35…2.36', '48.85…48.86,2.34…2.35')
        """
        leaves = _distinct(values)
        points = [_point(name, leaf) for leaf in leaves]
        steps = _nested(name, cells)
        return _assembled(name, [leaves, *[[_cell(point, step) for point in points] for step in steps]])


# Putting levels together


def _assembled(name: str, levels: Sequence[Sequence[str]]) -> Hierarchy:
    """Number the nodes of each level, in the order in which they appear; add `*` where the top is not one node."""
    labels, codes = [], []
    if TOP in levels[0]:
        raise InvalidData(
            f"column {name!r}: a value is written {TOP!r}, which means hidden; write it otherwise, or leave it empty"
        )
    for place, level in enumerate(levels):
        numbers: dict[str, int] = {}
        codes.append(np.array([numbers.setdefault(label, len(numbers)) for label in level], np.int32))
        labels.append(tuple(numbers))
        if place == 0 and len(numbers) != len(level):
            raise InvalidData(
                f"hierarchy of {name!r}: {len(level) - len(numbers)} values appear twice; keep one line each"
            )
        if place:
            _nest(name, place, codes[place - 1], codes[place])
    if len(labels[-1]) > 1 or len(labels) == 1:
        labels.append((TOP,))
        codes.append(np.zeros(len(labels[0]), np.int32))
    else:
        labels[-1] = (TOP,)
    return Hierarchy(name, tuple(labels), tuple(codes))


def _nest(name: str, level: int, finer: Codes, coarser: Codes) -> None:
    """Refuse a level that separates values which the level below it joined."""
    first = np.full(finer.max() + 1, -1, np.int32)
    first[finer[::-1]] = coarser[::-1]
    if (wrong := np.flatnonzero(first[finer] != coarser)).size:
        raise InvalidData(
            f"hierarchy of {name!r}: line {wrong[0] + 1} at level {level} separates values that level {level - 1} "
            "joined; a coarser level must be a function of the finer one"
        )


def _path(name: str, leaf: str, links: Mapping[str, str]) -> list[str]:
    path = [leaf]
    while path[-1] in links:
        path.append(links[path[-1]])
        if len(path) > len(links) + 1:
            raise InvalidData(f"hierarchy of {name!r}: its links go round in a circle")
    return path


def _distinct(values: Any) -> list[str]:
    result: list[str] = texts(values).unique().to_pylist()
    if not result:
        raise InvalidData("a hierarchy needs at least one value")
    return result


def _text(value: Any) -> str:
    return "" if value is None else str(value).strip()


# Rules


def _cut(leaf: str, width: int, level: int) -> str:
    padded = leaf.ljust(width)
    return leaf if level == 0 else padded[: width - level] + "*" * level


def _numbers(name: str, values: Any, low: int | None, high: int | None) -> dict[str, Exact | None]:
    """The leaves in ascending order, as they are written, with their numbers; the missing one is last."""
    given = (values is not None, low is not None, high is not None)
    if given not in ((True, False, False), (False, True, True)):
        named = [word for word, there in zip(("values", "low", "high"), given, strict=True) if there]
        got = " and ".join(named) or "none of them"
        raise InvalidParameter(f"intervals of {name!r}", got, "either values, or both low and high")
    if values is None:
        if not (isinstance(low, int) and isinstance(high, int) and low <= high and high - low < _MOST_LEAVES):
            raise InvalidParameter("low, high", (low, high), "whole numbers, low ≤ high, at most ten million apart")
        return {str(number): number for number in range(low, high + 1)}
    numbers = {text: _number(name, text) for text in _distinct(values)}
    return dict(sorted(numbers.items(), key=lambda leaf: (leaf[1] is None, leaf[1] or 0)))


def _number(name: str, text: str) -> Exact | None:
    if not text.strip():
        return None
    try:
        rough = float(text)
    except ValueError:
        raise InvalidData(
            f"column {name!r}: not all its values are numbers; correct them, or leave them empty"
        ) from None
    if not math.isfinite(rough):
        raise InvalidData(f"column {name!r}: a value is not finite")
    return _least(Fraction(Decimal(text.strip())))


def _least(number: Fraction) -> Exact:
    """A whole number as such: it is faster."""
    return int(number) if number.denominator == 1 else number


def _nested(name: str, widths: Sequence[Number]) -> list[Exact]:
    try:
        steps = [_least(rational(width, "widths", above=0)) for width in widths]
    except InvalidParameter:
        steps = []
    if not steps:
        raise InvalidParameter("widths", list(widths), f"positive numbers for column {name!r}")
    for finer, coarser in pairwise(steps):
        if coarser <= finer or coarser % finer:
            raise InvalidParameter("widths", list(widths), "each a multiple of the one before it, e.g. 5, 10, 20")
    return steps


def _plain(number: Exact) -> str:
    if isinstance(number, int):
        return str(number)
    return format(Decimal(number.numerator) / Decimal(number.denominator), "f")


def _interval(leaf: Exact | None, step: Exact, *, whole: bool) -> str:
    if leaf is None:
        return ""
    start = leaf // step * step
    if whole:
        return _plain(start) if step == 1 else f"{_plain(start)}-{_plain(start + step - 1)}"
    return f"[{_plain(start)}, {_plain(start + step)})"


def _is_date(text: str) -> bool:
    try:
        date.fromisoformat(text[:10])
    except ValueError:
        return False
    return len(text) >= 10


def _point(name: str, leaf: str) -> tuple[Exact, Exact] | None:
    if not leaf:
        return None
    parts = leaf.split(",")
    try:
        latitude, longitude = (_number(name, part) for part in parts)
    except ValueError:
        latitude = longitude = None
    if latitude is None or longitude is None:
        raise InvalidData(f'column {name!r}: not all its values are places like "48.8566,2.3522"')
    if not (-90 <= latitude <= 90 and -180 <= longitude <= 180):
        raise InvalidData(f"column {name!r}: a latitude is beyond ±90 or a longitude beyond ±180")
    return latitude, longitude


def _cell(point: tuple[Exact, Exact] | None, step: Exact) -> str:
    if point is None:
        return ""
    starts = [part // step * step for part in point]
    return ",".join(f"{_plain(start)}…{_plain(start + step)}" for start in starts)
