"""What a coarsened label stands for.

=====================================  =========================================================================
label                                  covers
=====================================  =========================================================================
`*`, `**`, `***`                       every value
`130**`, `3*`, `1987-**-**`            texts (or numbers and dates as texts) that agree; a star is one character,
                                       and stars at the end may stand for fewer (shorter texts are filled up with
                                       spaces), or for any ending where no value has that length
`[20, 30)`, `(20, 30]`, `[20, 30]`     numbers or dates in the interval
`20-29`, `20–29`, `20…29`              numbers from 20 to 29; a whole range `20-29` also covers 29.5
`<30`, `<=30`, `≤30`, `>40`, `≥40`     numbers or dates below or above
`40+`                                  numbers from 40
`1987`, `1987-03`, `1980s`             dates (and whole years) of that year, month or decade
`48.85…48.86,2.35…2.36`                places "latitude,longitude" in the cell
`{a, b}`                               the values listed
anything else                          the value itself
=====================================  =========================================================================

Every label covers the value that is written like it. Known texts that are all numbers, or all dates, are read as such.
Labels that need a hierarchy ("Asia", "white collar") are
explained by `covers`.
"""

import math
import re
from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.attacks.tables.columns import Column, as_numbers, as_texts, kind, missing

Covers = Mapping[str, Collection[Any]] | Callable[[str, Any], bool]
"""What labels stand for: a mapping from labels to values, or a function of a label and a value."""

Mask = NDArray[np.bool_]

_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_DATE = r"\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d(?::\d\d(?:\.\d+)?)?)?"
_POINT = rf"(?:{_DATE}|{_NUMBER}|[-+]?(?:inf|∞))"
_INTERVAL = re.compile(rf"\s*([\[(])\s*({_POINT})\s*[,;–…]\s*({_POINT})\s*([\])])\s*")
_RANGE = re.compile(rf"\s*({_NUMBER})\s*(?:-|–|…|\.\.\.?)\s*({_NUMBER})\s*")
_HALF = re.compile(rf"\s*(<=|>=|<|>|≤|≥)\s*({_POINT})\s*")
_PLUS = re.compile(rf"\s*({_NUMBER})\s*\+\s*")
_SET = re.compile(r"\s*\{(.*)\}\s*", re.DOTALL)
_MONTH = re.compile(r"\d{4}(-\d\d)?")
_DECADE = re.compile(r"\d{3}0s")
_CELL = re.compile(rf"({_NUMBER})…({_NUMBER})\s*,\s*({_NUMBER})…({_NUMBER})")


class Known:
    """Known values, with what labels are compared to: texts, numbers (dates as days since 1970), lengths.

    >>> Known(np.array([28.0, np.nan])).texts.tolist()
    ['28', '']
    """

    def __init__(self, values: Column) -> None:
        self.values, self.held = values, ~missing(values)
        self._read = _read(values) if kind(values) == "text" else values
        self.kind = kind(self._read)

    @cached_property
    def texts(self) -> NDArray[np.str_]:
        """The values as texts, empty where missing."""
        return np.where(self.held, as_texts(self.values), "").astype("U")

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """How long the texts are."""
        return np.strings.str_len(self.texts)

    @cached_property
    def places(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Latitudes and longitudes of texts that are places; NaN where they are not."""
        place = re.compile(rf"\s*({_NUMBER})\s*,\s*({_NUMBER})\s*")
        result = [place.fullmatch(text) for text in self.texts.tolist()]
        points = np.array([[math.nan] * 2 if match is None else list(map(float, match.groups())) for match in result])
        return points[:, 0], points[:, 1]

    @cached_property
    def numbers(self) -> NDArray[np.float64]:
        """The values as numbers; NaN where missing."""
        return as_numbers(self._read)


def covered(label: str, values: Column | Known, covers: Covers | None = None) -> Mask:
    """Which of the values a label stands for; a missing value is covered by no label.

    >>> ages = np.array([19, 20, 28, 30, 41])
    >>> [int(covered(label, ages).sum()) for label in ("*", "2*", "[20, 30)", "<30", "≥40", "20-30", "28")]
    [5, 2, 2, 3, 1, 3, 1]
    >>> covered("Asia", np.array(["Japan", "Peru"], object), {"Asia": ["Japan", "India"]}).tolist()
    [True, False]
    """
    known = values if isinstance(values, Known) else Known(values)
    if covers is not None and (not isinstance(covers, Mapping) or label in covers):
        return known.held & _explained(label, known, covers)
    if label and not label.strip("*"):
        return known.held
    forms = (_same, _ordered, _pattern, _listed, _placed)
    return np.asarray(known.held & np.any([form(label, known) for form in forms], axis=0))


def looks_coarse(labels: Collection[Any], values: Collection[Any]) -> bool:
    """Whether a column of texts holds labels, none of the known values, that are written as coarsened ones.

    >>> looks_coarse({"130**"}, {"13053"}), looks_coarse({"Don*"}, {"Don*"}), looks_coarse({"Ann"}, {"Bo"})
    (True, False, False)
    """
    return any(_written(label) for label in labels if label is not None and label not in values)


def understood(label: str, covers: Covers | None = None) -> bool:
    """Whether a label is explained, or written in one of the forms of coarsened labels.

    >>> understood("130**"), understood("<30"), understood("Asia"), understood("Asia", {"Asia": []})
    (True, True, False, True)
    """
    explained = covers is not None and (not isinstance(covers, Mapping) or label in covers)
    return explained or _written(label)


def _written(label: str) -> bool:
    """Whether a label is written in one of the forms of coarsened labels."""
    forms = (_INTERVAL, _RANGE, _HALF, _PLUS, _SET, _MONTH, _DECADE, _CELL)
    return "*" in label or any(form.fullmatch(label) for form in forms)


def _read(values: Column) -> Column:
    """Texts as numbers or dates, if all of them (but missing and empty ones) are; else as they are."""
    held = [text.strip() for text in as_texts(values) if text and text.strip()]
    plain = [None if text is None else text.strip() or None for text in as_texts(values)]
    if held and all(re.fullmatch(_NUMBER, text) for text in held):
        return np.array([math.nan if text is None else float(text) for text in plain])
    if held and all(re.fullmatch(_DATE, text) for text in held):
        return np.array([np.datetime64("NaT") if text is None else np.datetime64(text) for text in plain], "M8[us]")
    return values


def _explained(label: str, known: Known, covers: Covers) -> Mask:
    if not isinstance(covers, Mapping):
        return np.array([bool(covers(label, value)) for value in known.values.tolist()], bool)
    return np.isin(known.texts, [str(value) for value in covers[label]])


def _same(label: str, known: Known) -> Mask:
    same = np.asarray(known.texts == label, bool)
    if known.kind == "number" and re.fullmatch(_NUMBER, label.strip()):
        same |= known.numbers == _point(label)
    return same


def _ordered(label: str, known: Known) -> Mask:
    """Intervals, ranges and half-lines."""
    if known.kind == "text":
        return _none(known)
    at = known.numbers
    if result := _INTERVAL.fullmatch(label):
        left, low, high, right = result.groups()
        return (at >= _point(low) if left == "[" else at > _point(low)) & _below(at, high, closed=right == "]")
    if result := _HALF.fullmatch(label):
        sign, limit = result.groups()
        if sign[0] in "<≤":
            return _below(at, limit, closed=sign != "<")
        return at > _point(limit) if sign == ">" else at >= _point(limit)
    return _ranged(label, known) if known.kind == "number" else _none(known)


def _ranged(label: str, known: Known) -> Mask:
    """20-29 and 40+."""
    at = known.numbers
    if result := _PLUS.fullmatch(label):
        return at >= _point(result.group(1))
    if result := _RANGE.fullmatch(label):
        low, high = result.groups()
        whole = low.lstrip("+-").isdigit() and high.lstrip("+-").isdigit() and _point(low) < _point(high)
        return (at >= _point(low)) & (at < _point(high) + 1 if whole else at <= _point(high))
    return _none(known)


def _pattern(label: str, known: Known) -> Mask:
    """Stars for characters; a year or a month for dates."""
    if known.kind == "date" and _MONTH.fullmatch(label):
        return np.strings.startswith(known.texts, label)
    if known.kind != "text" and _DECADE.fullmatch(label):
        return np.strings.startswith(known.texts, label[:3]) & (known.lengths >= 4)
    if "*" not in label:
        return _none(known)
    stem = label.rstrip("*")
    if "*" not in stem:
        begins = np.strings.startswith(np.strings.ljust(known.texts, len(stem)), stem)
        return begins & (known.lengths <= len(label)) if (known.lengths == len(label)).any() else begins
    form = re.compile(".".join(re.escape(part) for part in label.split("*")), re.DOTALL)
    return np.array([form.fullmatch(text) is not None for text in known.texts.tolist()], bool)


def _listed(label: str, known: Known) -> Mask:
    result = _SET.fullmatch(label)
    if not result:
        return _none(known)
    parts = [_same(part.strip(), known) for part in result.group(1).split(",")]
    return np.asarray(np.any(parts, axis=0), bool)


def _placed(label: str, known: Known) -> Mask:
    """Cells of latitude and longitude."""
    result = _CELL.fullmatch(label.strip())
    if not result or known.kind != "text":
        return _none(known)
    south, north, west, east = map(float, result.groups())
    latitude, longitude = known.places
    return (latitude >= south) & (latitude < north) & (longitude >= west) & (longitude < east)


def _below(at: NDArray[np.float64], limit: str, *, closed: bool) -> Mask:
    return at <= _point(limit) if closed else at < _point(limit)


def _point(text: str) -> float:
    plain = text.strip().replace("∞", "inf")
    if re.fullmatch(_DATE, plain):
        return float(as_numbers(np.array([plain], "datetime64[us]"))[0])
    return float(plain)


def _none(known: Known) -> Mask:
    return np.zeros(len(known.values), bool)
