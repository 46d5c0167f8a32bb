"""What an analyst gets: the released table, an interval for each number where one is known, and the receipt.

An answer holds released values only, so everything done with it is post-processing and free.
"""

import datetime as dt
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discreet.curator.reports.answer_table import (
    MOST_GROUPS,
    MOST_ROWS,
    Column,
    chart,
    html_table,
    plain_text,
    text_table,
)
from discreet.errors import InternalError, InvalidParameter, MissingExtra
from discreet.exact import printed_down, text_down, text_up
from discreet.privacy import loss as losses
from discreet.privacy.loss import Loss

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

    from discreet.report.chart import Chart

_NULLABLE = {"bool": "boolean"} | {
    f"{sign}int{bits}": f"{sign.upper()}Int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)
}
"""Arrow's types that pandas would turn into floats or objects where there are nulls, and its own for them."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What an answer cost, and which row of the ledger paid for it.

    `charge` is the number of that row, `statement` the digest of what was asked; `epsilon` and `delta` are those of
    the statement as a whole, rounded up; `remaining` is the ε left in the budget, rounded down. `free` answers were
    kept from an earlier charge: nothing was charged now. Where another analyst paid, the receipt does not say who or
    when: `analyst` and `when` are empty and `charge` is 0.

    >>> from discreet.privacy.loss import Pure
    >>> receipt = Receipt("hospital", "ann", 12, "2026-11-15T10:00:00Z", "9f2c", Pure("0.5"), 0.5, 0.0, False, 2.5)
    >>> print(receipt)
    ε 0.5 charged as #12 to hospital, 2.5 left
    """

    dataset: str
    analyst: str
    charge: int
    when: str
    statement: str
    loss: Loss
    epsilon: float
    delta: float
    free: bool
    remaining: float

    def __str__(self) -> str:
        """One line for people.

        >>> from dataclasses import replace
        >>> from discreet.privacy.loss import Pure
        >>> paid = Receipt("hospital", "ann", 12, "2026-11-15T10:00:00Z", "9f2c", Pure("0.5"), 0.5, 1e-6, False, 2.5)
        >>> print(paid, replace(paid, free=True), sep="; ")
        ε 0.5, δ 1e-06 charged as #12 to hospital, 2.5 left; free: cached from charge #12
        """
        if self.free and not self.charge:
            return "free: shared by the analyst who paid for it" if self.epsilon else "free: nothing private was read"
        if self.free:
            return f"free: cached from charge #{self.charge}"
        delta = f", δ {text_up(self.delta)}" if self.delta else ""
        left = text_down(self.remaining)
        return f"ε {text_up(self.epsilon)}{delta} charged as #{self.charge} to {self.dataset}, {left} left"

    def __repr__(self) -> str:
        return f"<Receipt: {self}>"

    def _repr_html_(self) -> str:
        """The line of people, and beneath it what a ledger needs.

        >>> _example().receipt._repr_html_().count("<tr>")
        7
        """
        from discreet.report.card import card

        facts = {
            "dataset": self.dataset,
            "analyst": self.analyst or "another, who is not named",
            "charge": f"#{self.charge}" if self.charge else "none of yours",
            "when": self.when or "earlier",
            "statement": self.statement,
            "loss": repr(self.loss),
            "left": f"ε {text_down(self.remaining)}",
        }
        return card("Receipt", str(self), facts)

    def to_json(self) -> dict[str, Any]:
        """The receipt as JSON can hold it; the loss as the ledger writes it.

        >>> from discreet.privacy.loss import Pure
        >>> paid = Receipt("hospital", "ann", 12, "2026-11-15T10:00:00Z", "9f2c", Pure("0.5"), 0.5, 0.0, False, 2.5)
        >>> paid.to_json()["loss"], paid.to_json()["charge"]
        ({'kind': 'pure', 'epsilon': '0.5'}, 12)
        """
        return {
            "dataset": self.dataset,
            "analyst": self.analyst,
            "charge": self.charge,
            "when": self.when,
            "statement": self.statement,
            "loss": json.loads(losses.to_json(self.loss)),
            "epsilon": _plain(self.epsilon),
            "delta": _plain(self.delta),
            "free": self.free,
            "remaining": _plain(self.remaining),
        }


@dataclass(frozen=True, slots=True)
class Answer:
    """A released table with its intervals, its receipt, and notes on what was bounded, clipped, dropped or selected.

    `table` has one row a group, in the analyst's order. `intervals` gives the low and high ends for the columns
    where they are known; each single interval covers the noise with probability `confidence`. `noise_only`: what was
    answered is bounded or clamped, and the intervals do not say how much that took. Where two columns have the same
    name, neither is shown with an interval, since nobody could say whose it is.

    >>> import pyarrow as pa
    >>> from discreet.privacy.loss import Pure
    >>> receipt = Receipt("hospital", "ann", 12, "2026-11-15T10:00:00Z", "9f2c", Pure("0.5"), 0.5, 0.0, False, 2.5)
    >>> table = pa.table({"region": ["north", "south"], "n": [1234, 98]})
    >>> ends = {"n": (pa.array([1178, 42]), pa.array([1290, 154]))}
    >>> answer = Answer(table, ends, Fraction(19, 20), receipt, ("at most 3 groups a person",))
    >>> print(answer)
    region          n
    north   1234 ± 56
    south     98 ± 56
    each interval holds at 95 % confidence
    at most 3 groups a person
    ε 0.5 charged as #12 to hospital, 2.5 left
    """

    table: "pyarrow.Table"
    intervals: "Mapping[str, tuple[pyarrow.Array, pyarrow.Array]]"
    confidence: Fraction
    receipt: Receipt
    notes: tuple[str, ...]
    noise_only: bool = False

    def __post_init__(self) -> None:
        for name, ends in self.intervals.items():
            if name not in self.table.column_names:
                raise InternalError(f"an answer has intervals for {name!r}, which is none of its columns")
            if any(len(end) != self.table.num_rows for end in ends):
                raise InternalError(f"an answer has {self.table.num_rows} rows and other intervals for {name!r}")

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def column(self, name: str) -> list[Any]:
        """The values of one column as Python has them; nulls are None.

        >>> _example().column("n")
        [1234, 98]
        """
        return list(self.table.column(self._place(name, "name")).to_pylist())

    def to_arrow(self, *, intervals: bool = False) -> "pyarrow.Table":
        """The table in Arrow; with `intervals`, each column is followed by "<column> low" and "<column> high".

        >>> _example().to_arrow(intervals=True).column_names
        ['region', 'n', 'n low', 'n high']
        """
        if not intervals:
            return self.table
        pa = import_module("pyarrow")
        names, arrays, taken = [], [], set(self.table.column_names)
        for place, name in enumerate(self.table.column_names):
            names.append(name)
            arrays.append(self.table.column(place))
            for end, array in zip(("low", "high"), self._ends(name) or (), strict=False):
                names.append(_unused(f"{name} {end}", taken))
                arrays.append(array)
        return pa.Table.from_arrays(arrays, names=names)

    def to_pandas(self, *, intervals: bool = False) -> "pandas.DataFrame":
        """The table as a pandas DataFrame. Whole numbers and booleans with nulls stay what they are (Int64, boolean).

        >>> _example().to_pandas()["n"].tolist()
        [1234, 98]
        """
        try:
            pd = import_module("pandas")
        except ImportError:
            raise MissingExtra("pandas", "pandas") from None
        table = self.to_arrow(intervals=intervals)
        frame = table.to_pandas()
        for place, column in enumerate(table.columns):
            if column.null_count and str(column.type) in _NULLABLE:
                nullable = pd.api.types.pandas_dtype(_NULLABLE[str(column.type)])
                frame.isetitem(place, column.to_pandas(types_mapper=lambda _, dtype=nullable: dtype))
        return frame

    def to_polars(self, *, intervals: bool = False) -> "polars.DataFrame":
        """The table as a polars DataFrame; a name that two columns have is made unique.

        >>> _example().to_polars(intervals=True).row(0)
        ('north', 1234, 1178, 1290)
        """
        try:
            pl = import_module("polars")
        except ImportError:
            raise MissingExtra("polars", "polars") from None
        table = self.to_arrow(intervals=intervals)
        taken: set[str] = set()
        frame: polars.DataFrame = pl.from_arrow(table.rename_columns([_unused(n, taken) for n in table.column_names]))
        return frame

    def to_json(self) -> dict[str, Any]:
        """The whole answer as JSON can hold it: rows are lists in the order of `columns`.

        Floats that JSON lacks are text ("NaN", "inf", "-inf"), as are decimals that a float would round; dates and
        times are ISO text. `note` says what the intervals hold.

        >>> document = _example().to_json()
        >>> document["columns"], document["rows"], document["intervals"]
        (['region', 'n'], [['north', 1234], ['south', 98]], {'n': {'low': [1178, 42], 'high': [1290, 154]}})
        """
        values = [[_plain(value) for value in column.to_pylist()] for column in self.table.columns]
        ends = {
            name: {
                end: [_plain(x) for x in array.to_pylist()] for end, array in zip(("low", "high"), pair, strict=True)
            }
            for name, pair in self.intervals.items()
        }
        return {
            "columns": list(self.table.column_names),
            "rows": [list(row) for row in zip(*values, strict=True)],
            "intervals": ends,
            "confidence": printed_down(self.confidence),
            "note": next(iter(self._confidence_note()), None),
            "receipt": self.receipt.to_json(),
            "notes": list(self.notes),
        }

    def to_csv(self, *, intervals: bool = False) -> str:
        """The table as CSV: a null is an empty field, an empty text is quoted.

        >>> print(_example().to_csv(intervals=True).splitlines()[1])
        north,1234,1178,1290
        """
        table = self.to_arrow(intervals=intervals)
        rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
        lines = [",".join(map(_field, row)) for row in (table.column_names, *rows)]
        return "\n".join(lines) + "\n"

    def __str__(self) -> str:
        return text_table(self._columns(MOST_ROWS), len(self), self._footer())

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """The table for a notebook, with error bars.

        >>> _example()._repr_html_().count("<svg")
        2
        """
        return html_table(self._columns(MOST_ROWS), len(self), self._footer())

    def plot(self, path: str | Path | None = None, *, column: str | None = None, label: str | None = None) -> "Chart":
        """A picture of one column of numbers: a point with its error bar for each group, 60 groups at most.

        A notebook shows it. With a path, it is saved too; its name ends in .png, .svg or .pdf. Left out, `column` is
        the first one with intervals, else the first one of numbers; `label` is all columns before it that have no
        intervals.

        >>> _example().plot().svg().startswith("<svg")
        True
        >>> import tempfile
        >>> target = Path(tempfile.mkdtemp()) / "answer.svg"
        >>> _ = _example().plot(target)
        >>> target.stat().st_size > 1000
        True
        """
        from discreet.report.picture import checked_path

        target = None if path is None else checked_path(path)
        columns = self._columns(MOST_GROUPS)
        place = self._drawn(column)
        drawn = columns[place]
        if label is not None:
            named = [columns[self._place(label, "label")]]
        else:
            named = [column for column in columns[:place] if not column.has_intervals]
        rows = len(drawn.values)
        labels = [", ".join(plain_text(column.values[row]) for column in named) or str(row + 1) for row in range(rows)]
        notes = [f"the first {rows} of {len(self)} groups"] if len(self) > rows else []
        shown = chart(drawn, labels, notes + self._caption())
        if target is not None:
            shown.save(target)
        return shown

    def _drawn(self, column: str | None) -> int:
        """Which column a picture shows."""
        numeric = [place for place, field in enumerate(self.table.schema) if _is_numeric(field.type)]
        if column is not None:
            place = self._place(column, "column")
            if place not in numeric:
                raise InvalidParameter("column", column, "a column of numbers")
            return place
        if not numeric:
            raise InvalidParameter("column", column, "a column of numbers", "this answer has none to draw")
        return next((place for place in numeric if self._ends(self.table.column_names[place])), numeric[0])

    def _columns(self, most: int) -> list[Column]:
        """The first rows, for showing."""
        shown = []
        for field, array in zip(self.table.schema, self.table.columns, strict=True):
            values = array.slice(0, most).to_pylist()
            ends = self._ends(field.name)
            nothing = [None] * len(values)
            low, high = (end.slice(0, most).to_pylist() for end in ends) if ends else (nothing, nothing)
            shown.append(Column(field.name, values, low, high, _is_numeric(field.type)))
        return shown

    def _footer(self) -> list[str]:
        return [*self._confidence_note(), *self.notes, str(self.receipt)]

    def _confidence_note(self) -> list[str]:
        percent = text_down(100 * self.confidence)
        only = " and covers the noise only, not the effect of bounding and clamping" if self.noise_only else ""
        return [f"each interval holds at {percent} % confidence{only}"] if self.intervals else []

    def _caption(self) -> list[str]:
        """What fits under a picture."""
        percent = text_down(100 * self.confidence)
        return [f"{percent} % intervals" + ", of the noise only" * self.noise_only] if self.intervals else []

    def _ends(self, name: str) -> "tuple[pyarrow.Array, pyarrow.Array] | None":
        return self.intervals.get(name) if self.table.column_names.count(name) == 1 else None

    def _place(self, name: str, parameter: str) -> int:
        names = self.table.column_names
        if names.count(name) != 1:
            hint = "two columns have this name; name them apart with AS" if name in names else ""
            raise InvalidParameter(parameter, name, f"one of {', '.join(map(repr, names))}", hint)
        return int(names.index(name))


def _unused(name: str, taken: set[str]) -> str:
    """The name, or the first of "name 2", "name 3", … that is not taken; it is taken from then on."""
    unused, count = name, 1
    while unused in taken:
        count += 1
        unused = f"{name} {count}"
    taken.add(unused)
    return unused


def _is_numeric(kind: Any) -> bool:
    types = import_module("pyarrow.types")
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def _plain(value: Any) -> Any:  # noqa: PLR0911 - one branch a type
    """A value that JSON can hold, losing nothing but its type."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else plain_text(value)
        case Decimal():
            return _plain_decimal(value)
        case dt.date() | dt.time():  # a datetime is a date
            return value.isoformat()
        case bytes():
            return value.hex()
        case Mapping():
            return {str(key): _plain(part) for key, part in value.items()}
        case list() | tuple():
            return [_plain(part) for part in value]
        case _:
            return str(value)


def _plain_decimal(value: Decimal) -> Any:
    if int(value.as_tuple().exponent) >= 0:
        return int(value)
    near = float(value)
    return near if Decimal(repr(near)) == value else str(value)


def _field(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case float():
            return repr(value)
        case dt.datetime():
            text = value.isoformat(sep=" ")
        case list() | tuple() | dict():
            text = json.dumps(value, ensure_ascii=False, default=str)
        case _:
            text = str(value)
    plain = text and text == text.strip() and not any(mark in text for mark in ',"\r\n')
    return text if plain else '"' + text.replace('"', '""') + '"'


def _example() -> Answer:
    """The answer of the examples above."""
    pa = import_module("pyarrow")
    loss = losses.Pure("0.5")
    receipt = Receipt("hospital", "ann", 12, "2026-11-15T10:00:00Z", "9f2c", loss, 0.5, 0.0, False, 2.5)
    table = pa.table({"region": ["north", "south"], "n": [1234, 98]})
    ends = {"n": (pa.array([1178, 42]), pa.array([1290, 154]))}
    return Answer(table, ends, Fraction(19, 20), receipt, ("at most 3 groups a person",))
