"""Pictures of answers and of prices: which kind fits the columns, and what is known before anything is paid.

Everything here sees released values or public plans only.
"""

import datetime as dt
import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from discreet.curator.reports.answer_table import plain_text
from discreet.errors import InvalidParameter
from discreet.report import Bars, Chart, Heat, Intervals, Line, Places
from discreet.report.calendar_axis import time_axis, year_ticks
from discreet.report.marks import label

if TYPE_CHECKING:
    from discreet.curator.answer import Answer
    from discreet.curator.catalog import Catalog

KINDS = ("bars", "line", "map", "heatmap")
"""Bars, a line with a band, discs at places, and colors over two columns."""

_MOST_BARS, _MOST_CELLS, _MOST_SHOWN, _MOST_PLACES = 60, 4000, 12, 2000
_MOST_TICKS = 12
_DENSE = 0.4  # the share of cells from which on places lie on a grid

Located = Mapping[Any, tuple[float, float]]
"""The latitude and the longitude of named places."""


def kinds_of(answer: "Answer", located: Located | None = None) -> list[str]:
    """The kinds of chart that fit an answer, the best first; none where it has no number, or a single one.

    >>> from discreet.curator.answer import _example
    >>> kinds_of(_example()), kinds_of(_example(), {"north": (55.0, -2.0), "south": (51.0, -1.0)})
    (['bars'], ['bars', 'map'])
    """
    if not columns_of(answer) or len(answer) == 0:
        return []
    keys = _keys(answer)
    values = [[value for value in answer.column(key) if value is not None] for key in keys]
    along = bool(keys) and len(keys) == 1 and len(values[0]) > 2 and all(map(_is_along, values[0]))
    places = _coordinates(keys) is not None and _are_apart(answer, keys)
    crossed = len(keys) == 2 and len(set(values[0])) > 1 and len(set(values[1])) > 1 and not places
    many = crossed and len(answer) > _MOST_BARS  # bars would not show them all
    return [
        *(["line"] if along else []),
        *(["map"] if places else []),
        *(["heatmap"] if many else []),
        "bars",
        *(["map"] if located and len(keys) == 1 and not places else []),
        *(["heatmap"] if crossed and not many else []),
    ]


def located_by(answer: "Answer", catalog: "Catalog", read: Callable[[str], "Answer"]) -> Located | None:
    """Where the places lie that an answer names, if a public table says so; `read` answers about public tables."""
    keys = _keys(answer)
    if len(keys) != 1:
        return None
    for table in catalog.tables.values():
        names = [column.name for column in table.columns]
        at = _coordinates(names)
        name = next((name for name in names if name.casefold() == keys[0].casefold()), None)
        if table.private or at is None or name is None:
            continue
        columns = ", ".join(map(_quoted, (name, *at)))
        rows = read(f"SELECT {columns} FROM {_quoted(table.name)} LIMIT {_MOST_PLACES}")  # noqa: S608 (quoted names)
        spots = zip(*(rows.column(column) for column in (name, *at)), strict=True)
        results = {spot[0]: (float(spot[1]), float(spot[2])) for spot in spots if None not in spot}
        if sum(value in results for value in answer.column(keys[0])) > 1:
            return results
    return None


def columns_of(answer: "Answer") -> list[str]:
    """The columns that a chart can show: those with intervals, else those of numbers."""
    names = [name for name in answer.table.column_names if name in answer.intervals]
    if names:
        return names
    return [
        name
        for name in dict.fromkeys(answer.table.column_names)
        if answer.table.column_names.count(name) == 1
        and any(map(_is_number, answer.column(name)))
        and name not in (_coordinates(answer.table.column_names) or ())
    ][-1:]


def chart_of(answer: "Answer", kind: str, column: str, located: Located | None = None) -> Chart:
    """One column of an answer as a chart of a kind that fits."""
    if column not in columns_of(answer):
        raise InvalidParameter("column", column, f"one of {', '.join(columns_of(answer)) or 'none: it has no numbers'}")
    if kind not in (kinds := kinds_of(answer, located)):
        raise InvalidParameter("kind", kind, f"one of {', '.join(kinds)}")
    keys = _keys(answer)
    values = [_real(value) for value in answer.column(column)]
    low, high = _ends(answer, column)
    named = [key for key in keys if kind != "map" or key not in (_coordinates(keys) or ())] or ["place"]
    title = f"{column} by {' and '.join(named)}" if keys else column
    if kind == "line":
        return _line(title, keys[0], column, answer.column(keys[0]), values, low, high)
    if kind == "heatmap":
        return _heat(title, [answer.column(key) for key in keys], values, _within(values, low, high))
    if kind == "map":
        return _map(title, answer, keys, values, (low, high), located)
    labels = [_label(answer, keys, row) for row in range(min(len(answer), _MOST_BARS))]
    if len(answer) > _MOST_BARS:
        title = f"{title}: the first {_MOST_BARS} of {len(answer)}"
    most = len(labels)
    return Chart(title, [Bars(labels, values[:most], low=low[:most], high=high[:most])], y=column)


def preview(release: Mapping[str, Any], catalog: "Catalog") -> Chart | None:
    """How far the first number of each group may lie from the truth; None where no such error is known beforehand."""
    number = next((number for number in release["numbers"] if math.isfinite(number.get("error", math.inf))), None)
    if number is None:
        return None
    labels, more = _groups(release["groups"], catalog, release["table"])
    error = float(number["error"])
    title = f"{number['number']}: how far it may lie from the truth"
    note = "distance from the truth" + (f"; {more} more groups alike" if more > 0 else "")
    marks = [Intervals(labels, [0.0] * len(labels), low=[-error] * len(labels), high=[error] * len(labels))]
    return Chart(title, marks, y=note)


def _groups(groups: Mapping[str, Any] | None, catalog: "Catalog", table: str) -> tuple[list[str], int]:
    """Names of the first groups as far as they are public, and how many there are beside them."""
    keys = (groups or {}).get("keys") or []
    if not keys:
        return ["the answer"], 0
    known = catalog.tables.get(table.casefold())
    declared = {column.name: column.values for column in known.columns} if known else {}
    answered = (groups or {}).get("answered")
    if len(keys) == 1 and declared.get(keys[0]["name"]):
        labels = [plain_text(value) for value in declared[keys[0]["name"]] or ()][:_MOST_SHOWN]
    else:
        size = answered if isinstance(answered, int) else 3
        labels = [f"group {place + 1}" for place in range(min(size, 6))]
    return labels, (answered - len(labels) if isinstance(answered, int) else 0)


def _line(
    title: str, key: str, column: str, places: Sequence[Any], values: list[float], low: list[float], high: list[float]
) -> Chart:
    rows = [row for row in zip(places, values, low, high, strict=True) if row[0] is not None]
    rows.sort(key=lambda row: _moment(row[0]) if isinstance(row[0], dt.date) else float(row[0]))
    along = [row[0] for row in rows]
    if all(isinstance(place, dt.date) for place in along):
        x, ticks = time_axis(along)
    else:
        x, ticks = [float(place) for place in along], []
        if all(place == round(place) and 1000 <= place < 10_000 for place in x):
            ticks = year_ticks(int(x[0]), int(x[-1]))
        elif all(place == round(place) for place in x) and x[-1] - x[0] <= _MOST_TICKS:
            ticks = [(float(place), label(place)) for place in range(int(x[0]), int(x[-1]) + 1)]
    ends: dict[str, Any] = {"low": [row[2] for row in rows], "high": [row[3] for row in rows]}
    bare = all(math.isnan(end) for end in ends["low"])
    return Chart(title, [Line(x, [row[1] for row in rows], **({} if bare else ends))], x=key, y=column, x_ticks=ticks)


def _moment(value: dt.date) -> dt.datetime:
    return value.replace(tzinfo=None) if isinstance(value, dt.datetime) else dt.datetime.combine(value, dt.time())


def _map(
    title: str,
    answer: "Answer",
    keys: Sequence[str],
    values: list[float],
    ends: tuple[list[float], list[float]],
    located: Located | None,
) -> Chart:
    """Discs at places, or colors where places lie on a grid; north is on top."""
    low, high = ends
    at = _coordinates(keys)
    if at is None:
        spots = [(located or {}).get(value, (math.nan, math.nan)) for value in answer.column(keys[0])]
        labels = [plain_text(value) for value in answer.column(keys[0])]
    else:
        north, east = ([_real(value) for value in answer.column(name)] for name in at)
        if len(keys) == 2 and len(values) >= _DENSE * len(set(north)) * len(set(east)) and _is_even(north, east):
            return _grid(title, north, east, values, _within(values, low, high))
        spots = list(zip(north, east, strict=True))
        others = [key for key in keys if key not in at]
        labels = [_label(answer, others, row) if others else f"{a:g}, {b:g}" for row, (a, b) in enumerate(spots)]
    if len(spots) > _MOST_PLACES:
        raise InvalidParameter("map", f"{len(spots)} places", f"at most {_MOST_PLACES}")
    north, east = [spot[0] for spot in spots], [spot[1] for spot in spots]
    within = _within(values, low, high)
    words = f"outlines: upper ends of the intervals, {within}" if within else ""
    return Chart(title, [Places(labels, values, north, east, low=low, high=high)], x=words)


def _grid(title: str, north: list[float], east: list[float], values: list[float], within: str) -> Chart:
    rows, columns = sorted(set(north), reverse=True), sorted(set(east))
    return _cells(title, (rows, north), (columns, east), values, within)


def _heat(title: str, keys: Sequence[Sequence[Any]], values: list[float], within: str) -> Chart:
    down, across = keys
    return _cells(title, (list(dict.fromkeys(down)), down), (list(dict.fromkeys(across)), across), values, within)


def _cells(
    title: str,
    down: tuple[list[Any], Sequence[Any]],
    across: tuple[list[Any], Sequence[Any]],
    numbers: list[float],
    within: str,
) -> Chart:
    """Colors over two columns; a cell that was not answered has none."""
    (rows, row_of), (columns, column_of) = down, across
    if len(rows) * len(columns) > _MOST_CELLS:
        raise InvalidParameter("map", f"{len(rows)} × {len(columns)} cells", f"at most {_MOST_CELLS}")
    matrix = [[math.nan] * len(columns) for _ in rows]
    places = {value: place for place, value in enumerate(rows)}, {value: place for place, value in enumerate(columns)}
    for row, column, number in zip(row_of, column_of, numbers, strict=True):
        matrix[places[0][row]][places[1][column]] = number
    names = [_name(row) for row in rows], [_name(column) for column in columns]
    return Chart(title, [Heat(matrix, *names)], x=f"each {within}" if within else "")


def _within(values: list[float], low: list[float], high: list[float]) -> str:
    """How far the numbers may lie from the truth, in words: the greatest reach of an interval."""
    reach = [max(value - a, b - value) for value, a, b in zip(values, low, high, strict=True)]
    finite = [one for one in reach if math.isfinite(one)]
    return f"within ± {label(float(f'{max(finite):.3g}'))}" if finite else ""


def _ends(answer: "Answer", column: str) -> tuple[list[float], list[float]]:
    if column not in answer.intervals:
        nothing = [math.nan] * len(answer)
        return nothing, nothing
    low, high = ([_real(value) for value in end.to_pylist()] for end in answer.intervals[column])
    return low, high


def _keys(answer: "Answer") -> list[str]:
    shown = columns_of(answer)
    names = answer.table.column_names
    return [name for name in dict.fromkeys(names) if name not in shown and names.count(name) == 1]


def _label(answer: "Answer", keys: Sequence[str], row: int) -> str:
    return ", ".join(_name(answer.column(key)[row]) for key in keys) or (str(row + 1) if len(answer) > 1 else "")


def _name(value: Any) -> str:
    return "no value" if value is None else plain_text(value)


def _is_along(value: Any) -> bool:
    return isinstance(value, dt.date) or _is_number(value)


def _is_number(value: Any) -> bool:
    return not isinstance(value, bool | str | bytes | dt.date) and hasattr(value, "__float__")


def _coordinates(names: Sequence[str]) -> tuple[str, str] | None:
    """The names of the columns of latitudes and of longitudes."""
    north = next((name for name in names if name.casefold().startswith("lat")), None)
    east = next((name for name in names if name.casefold().startswith(("lon", "lng"))), None)
    return None if north is None or east is None else (north, east)


def _are_apart(answer: "Answer", keys: Sequence[str]) -> bool:
    """Whether there are several places, and no two rows of one."""
    north, east = (answer.column(name) for name in _coordinates(keys) or keys[:2])
    spots = list(zip(north, east, strict=True))
    known = all(_is_number(value) for spot in spots for value in spot)
    return known and 1 < len(spots) == len(set(spots))


def _is_even(*columns: list[float]) -> bool:
    """Whether the values of each column are steps of one size apart."""
    for column in columns:
        steps = [b - a for a, b in pairwise(sorted(set(column)))]
        if len(steps) == 0 or max(steps) > 1.01 * min(steps):
            return False
    return True


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _real(value: Any) -> float:
    return math.nan if value is None or not _is_number(value) else float(value)
