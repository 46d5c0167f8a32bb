"""Pictures of answers and of prices: which kind fits the columns, and what is known before anything is paid.

Everything here sees released values or public plans only.
"""

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from discreet.curator.reports.answer_table import plain_text
from discreet.errors import InvalidParameter
from discreet.report import Bars, Chart, Heat, Intervals, Line

if TYPE_CHECKING:
    from discreet.curator.answer import Answer
    from discreet.curator.catalog import Catalog

KINDS = ("bars", "line", "map")
"""Bars, a line with a band, and a map: colors over two columns."""

_MOST_BARS, _MOST_CELLS, _MOST_SHOWN = 60, 4000, 12


def kinds_of(answer: "Answer") -> list[str]:
    """The kinds of chart that fit an answer, the best first; none where it has no number, or a single one.

    >>> from discreet.curator.answer import _example
    >>> kinds_of(_example())
    ['bars']
    """
    if not columns_of(answer) or len(answer) == 0:
        return []
    keys = _keys(answer)
    values = [[value for value in answer.column(key) if value is not None] for key in keys]
    along = bool(keys) and len(keys) == 1 and len(values[0]) > 2 and all(map(_is_along, values[0]))
    crossed = len(keys) == 2 and len(set(values[0])) > 1 and len(set(values[1])) > 1
    places = crossed and _is_place(keys)
    return [
        *(["line"] if along else []),
        *(["map"] if places else []),
        "bars",
        *(["map"] if crossed and not places else []),
    ]


def columns_of(answer: "Answer") -> list[str]:
    """The columns that a chart can show: those with intervals, else those of numbers."""
    names = [name for name in answer.table.column_names if name in answer.intervals]
    if names:
        return names
    return [
        name
        for name in dict.fromkeys(answer.table.column_names)
        if answer.table.column_names.count(name) == 1 and any(map(_is_number, answer.column(name)))
    ][-1:]


def chart_of(answer: "Answer", kind: str, column: str) -> Chart:
    """One column of an answer as a chart of a kind that fits."""
    if column not in columns_of(answer):
        raise InvalidParameter("column", column, f"one of {', '.join(columns_of(answer)) or 'none: it has no numbers'}")
    if kind not in kinds_of(answer):
        raise InvalidParameter("kind", kind, f"one of {', '.join(kinds_of(answer))}")
    keys = _keys(answer)
    values = [_real(value) for value in answer.column(column)]
    low, high = _ends(answer, column)
    title = f"{column} by {' and '.join(keys)}" if keys else column
    if kind == "line":
        return _line(title, keys[0], column, answer.column(keys[0]), values, low, high)
    if kind == "map":
        return _map(title, keys, [answer.column(key) for key in keys], values)
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
    rows.sort(key=lambda row: _position(row[0], dt.date.min))
    first = rows[0][0]
    origin = first.date() if isinstance(first, dt.datetime) else first
    x = [_position(row[0], origin) for row in rows]
    words = f"days since {origin.isoformat()}" if isinstance(origin, dt.date) else key
    if all(place == round(place) and 1000 <= place < 10_000 for place in x):  # years, which have no thin spaces
        x, words = [place - x[0] for place in x], f"{key}, counted from {x[0]:.0f}"
    ends: dict[str, Any] = {"low": [row[2] for row in rows], "high": [row[3] for row in rows]}
    bare = all(math.isnan(end) for end in ends["low"])
    return Chart(title, [Line(x, [row[1] for row in rows], **({} if bare else ends))], x=words, y=column)


def _map(title: str, keys: Sequence[str], values: Sequence[Sequence[Any]], numbers: list[float]) -> Chart:
    """Colors over two columns; of latitudes and longitudes, north is on top. A cell without a value is 0."""
    down, across = (1, 0) if _is_place(keys) and _is_longitude(keys[0]) else (0, 1)
    rows = list(dict.fromkeys(values[down]))
    columns = list(dict.fromkeys(values[across]))
    if len(rows) * len(columns) > _MOST_CELLS:
        raise InvalidParameter("map", f"{len(rows)} × {len(columns)} cells", f"at most {_MOST_CELLS}")
    if _is_place(keys):
        rows.sort(key=lambda value: -math.inf if value is None else value, reverse=True)
        columns.sort(key=lambda value: -math.inf if value is None else value)
    matrix = [[math.nan] * len(columns) for _ in rows]
    places = {value: place for place, value in enumerate(rows)}, {value: place for place, value in enumerate(columns)}
    for row, column, number in zip(values[down], values[across], numbers, strict=True):
        matrix[places[0][row]][places[1][column]] = number
    matrix = [[0.0 if math.isnan(cell) else cell for cell in row] for row in matrix]
    return Chart(title, [Heat(matrix, [plain_text(row) for row in rows], [plain_text(column) for column in columns])])


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
    return ", ".join(plain_text(answer.column(key)[row]) for key in keys) or str(row + 1)


def _position(value: Any, origin: Any) -> float:
    if isinstance(value, dt.datetime):
        days: float = (value.date() - origin).days
        return days + (value.hour + value.minute / 60) / 24
    if isinstance(value, dt.date):
        return float((value - origin).days)
    return float(value)


def _is_along(value: Any) -> bool:
    return isinstance(value, dt.date) or _is_number(value)


def _is_number(value: Any) -> bool:
    return not isinstance(value, bool | str | bytes | dt.date) and hasattr(value, "__float__")


def _is_place(keys: Sequence[str]) -> bool:
    """Whether two columns are the latitude and the longitude of places."""
    return any(map(_is_longitude, keys)) and any(key.casefold().startswith("lat") for key in keys)


def _is_longitude(name: str) -> bool:
    return name.casefold().startswith(("lon", "lng"))


def _real(value: Any) -> float:
    return math.nan if value is None or not _is_number(value) else float(value)
