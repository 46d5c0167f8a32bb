"""The counted table: group × stratum × score bin × label × prediction; and the metrics, all functions of it.

So arrays, Arrow, pandas and polars columns, files, counts from SQL and noisy counts go through the same code, and a
bootstrap of rows is a multinomial draw of cells.

>>> from discreet.fairness.cells import Cells
>>> table = {"y": [1, 0, 1, 0], "yhat": [1, 0, 0, 0], "sex": ["f", "f", "m", "m"]}
>>> cells = Cells.of(table, label="y", prediction="yhat", group="sex")
>>> cells.by("sex").counts.reshape(2, 4).tolist()
[[1, 0, 0, 1], [1, 0, 1, 0]]
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import Number, rational
from discreet.fairness.column_codes import (
    Bins,
    CodedColumn,
    Codes,
    Floats,
    Missing,
    axis,
    binned,
    classes,
    coded,
    known_rows,
)
from discreet.fairness.column_codes import numbers as read_numbers
from discreet.tables import read_table

if TYPE_CHECKING:
    import pyarrow


Counts = NDArray[Any]
MOST_CELLS = 4_000_000
_SCORE_BINS = 10
_MOST_LEVELS = 20


@dataclass(frozen=True, slots=True)
class Axis:
    """A way to tell rows apart, and its values."""

    name: str
    values: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.values)


ALL = Axis("", ("all",))


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Counts with an axis for each sensitive attribute, then stratum, score bin, label and prediction (0 and 1 each).

    `merged` says how many cells, as they were first counted, each of these is the sum of: noise adds up so. Without
    labels all rows stand at label 0, and `labeled` is false. `scores` are sums of scores by attributes and bin, if
    scores are probabilities.
    """

    counts: Counts
    attributes: tuple[Axis, ...]
    strata: Axis = ALL
    bins: Axis = ALL
    scores: Floats | None = None
    labeled: bool = True
    dropped: int = 0
    merged: int = 1
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        shape = (*map(len, self.attributes), len(self.strata), len(self.bins), 2, 2)
        if self.counts.shape != shape:
            raise InvalidData(f"counts: got shape {self.counts.shape}, expected {shape}")

    @classmethod
    def of(
        cls,
        table: Any,
        *,
        group: str | Sequence[str],
        prediction: str | None = None,
        label: str | None = None,
        score: str | None = None,
        given: str | Sequence[str] = (),
        positive: str | Sequence[str] = (),
        threshold: Number | None = None,
        bins: Bins | None = None,
        score_bins: int = _SCORE_BINS,
        missing: Missing = "error",
        absent: Iterable[str] = (),
        count: str | None = None,
    ) -> "Cells":
        """Count a table: columns by name in any form that `discreet.tables` reads.

        `group` names sensitive attributes, `given` legitimate ones. `positive` says which classes count as positive;
        `threshold` turns a column of probabilities into predictions. `absent` lists texts that mean "missing". `count`
        names a column of how many rows each row stands for, as SQL's COUNT(*) gives.
        """
        arrow = read_table(table)
        chosen = _Choice(
            arrow, _names(group, "group"), _names(given, "given", least=0), dict(bins or {}), tuple(absent)
        )
        labels, predictions, notes = chosen.classes(label, prediction, score, threshold, _names(positive, "", least=0))
        scores = None if score is None else read_numbers(arrow, score, chosen.absent)
        required = [codes for codes in (labels, predictions) if codes is not None]
        required += [] if scores is None else [np.where(np.isnan(scores), -1, 0)]
        known, axes = known_rows(required, chosen.axes(), missing)
        level = _levels(score, scores, known, score_bins)
        weights = _weights(arrow, count, chosen.absent)
        kept = [CodedColumn(part.name, part.values, part.codes[known]) for part in axes]
        return _counted(
            kept,
            len(chosen.group),
            level,
            (None if labels is None else labels[known], predictions[known]),
            None if scores is None else scores[known],
            None if weights is None else weights[known],
            dropped=int(len(known) - known.sum() if weights is None else weights[~known].sum()),
            notes=tuple(notes),
        )

    @classmethod
    def of_arrays(
        cls, label: ArrayLike | None, prediction: ArrayLike, group: ArrayLike, *, given: ArrayLike | None = None
    ) -> "Cells":
        """Count arrays of classes, with one sensitive attribute and at most one legitimate one.

        >>> Cells.of_arrays([1, 0], [1, 1], ["f", "m"]).rows
        2
        """
        named = {"prediction": prediction, "group": group, "label": label, "given": given}
        table = {name: np.asarray(values) for name, values in named.items() if values is not None}
        wanted = {name: name for name in ("label", "given") if name in table}
        return cls.of(table, prediction="prediction", group="group", **wanted)  # type: ignore[arg-type]

    @property
    def rows(self) -> int:
        """How many rows were counted."""
        return round(float(self.counts.sum()))

    def by(self, *names: str) -> "Cells":
        """The same counts by one attribute, or by the intersection of several, on one axis.

        >>> table = {"yhat": [1, 0], "sex": ["f", "m"], "race": ["b", "w"]}
        >>> cells = Cells.of(table, prediction="yhat", group=["sex", "race"])
        >>> cells.by("sex", "race").attributes[0].values
        ('f, b', 'f, w', 'm, b', 'm, w')
        """
        known = [part.name for part in self.attributes]
        for name in names or ("",):
            if name not in known:
                raise InvalidParameter("group", name, f"some of {', '.join(known)}")
        places = [known.index(name) for name in names]
        others = tuple(place for place in range(len(known)) if place not in places)
        chosen = [self.attributes[place] for place in places]
        group = Axis(" × ".join(names), tuple(", ".join(values) for values in _product(chosen)))
        counts = _gathered(self.counts, places, others)
        scores = None if self.scores is None else _gathered(self.scores, places, others)
        merged = self.merged * prod(len(self.attributes[place]) for place in others)
        return replace(self, counts=counts, attributes=(group,), scores=scores, merged=merged)

    def views(self) -> "list[Cells]":
        """By each attribute alone; and by all together, if they are several."""
        names = [part.name for part in self.attributes]
        return [self.by(name) for name in names] + ([self.by(*names)] if len(names) > 1 else [])

    def tables(self) -> tuple[Counts, int]:
        """Label × prediction of each group, over all strata and bins; and how many counted cells are in each."""
        return self.counts.sum(axis=(-4, -3)), self.merged * len(self.strata) * len(self.bins)

    def strata_tables(self) -> tuple[Counts, int]:
        """Label × prediction by stratum (first axis) and group; and how many counted cells are in each."""
        return np.moveaxis(self.counts.sum(axis=-3), -3, 0), self.merged * len(self.bins)

    def bin_tables(self) -> tuple[Counts, int]:
        """Label × prediction by score bin (first axis) and group; and how many counted cells are in each."""
        return np.moveaxis(self.counts.sum(axis=-4), -3, 0), self.merged * len(self.strata)


# Reading


@dataclass(frozen=True, slots=True, eq=False)
class _Choice:
    """Which columns play which part."""

    arrow: "pyarrow.Table"
    group: tuple[str, ...]
    given: tuple[str, ...]
    bins: Bins
    absent: tuple[str, ...]

    def axes(self) -> list[CodedColumn]:
        unknown = [name for name in self.bins if name not in (*self.group, *self.given)]
        if unknown:
            raise InvalidParameter("bins", unknown[0], "columns named as group or given")
        return [axis(self.arrow, name, self.bins, self.absent) for name in (*self.group, *self.given)]

    def classes(
        self,
        label: str | None,
        prediction: str | None,
        score: str | None,
        threshold: Number | None,
        positive: tuple[str, ...],
    ) -> tuple[Codes | None, Codes, list[str]]:
        """Labels (if any) and predictions as 0, 1 and −1."""
        source = prediction if prediction is not None else score
        if source is None or (prediction is None and threshold is None):
            hint = "name the column of predictions, or the score and a threshold"
            raise InvalidParameter("prediction", prediction, "a column", hint)
        columns = [] if label is None else [coded(self.arrow, label, self.absent)]
        if threshold is not None:
            cut = float(rational(threshold, "threshold"))
            values = read_numbers(self.arrow, source, self.absent)
            chosen = np.where(np.isnan(values), -1, values >= cut).astype(np.int64)
            codes, notes = classes(columns, positive)
            return (codes[0] if columns else None), chosen, [*notes, f"Positive: {source} at least {cut:g}."]
        codes, notes = classes([*columns, coded(self.arrow, source, self.absent)], positive)
        return (codes[0] if columns else None), codes[-1], notes


def _names(given: str | Sequence[str], what: str, least: int = 1) -> tuple[str, ...]:
    names = (given,) if isinstance(given, str) else tuple(str(name) for name in given)
    if len(names) < least or len(set(names)) < len(names):
        raise InvalidParameter(what, given, "at least one column, each once" if least else "each once")
    return names


def _weights(arrow: "pyarrow.Table", count: str | None, absent: tuple[str, ...]) -> Codes | None:
    if count is None:
        return None
    values = read_numbers(arrow, count, absent)
    if np.isnan(values).any() or (values < 0).any() or (values % 1 != 0).any() or values.sum() > 2**53:
        raise InvalidData(f"column {count!r}: expected whole numbers ≥ 0, how many rows each row stands for")
    return values.astype(np.int64)


def _levels(name: str | None, scores: Floats | None, known: NDArray[np.bool_], count: int) -> CodedColumn | None:
    """Score bins: of equal width for probabilities, else the few values themselves, else of about equal size."""
    if name is None or scores is None:
        return None
    used = scores[known]
    if used.min() >= 0 and used.max() <= 1:
        edges = np.arange(1, count) / count
        labels = tuple(f"{k / count:g} to {(k + 1) / count:g}" for k in range(count))
        return CodedColumn(name, labels, np.searchsorted(edges, used, side="right").astype(np.int64))
    values = np.unique(used)
    if len(values) <= _MOST_LEVELS:
        return CodedColumn(
            name, tuple(f"{value:g}" for value in values), np.searchsorted(values, used).astype(np.int64)
        )
    return binned(name, used, count)


# Counting


def _counted(
    axes: list[CodedColumn],
    attributes: int,
    level: CodedColumn | None,
    outcome: tuple[Codes | None, Codes],
    scores: Floats | None,
    weights: Codes | None,
    *,
    dropped: int,
    notes: tuple[str, ...],
) -> Cells:
    groups, given = axes[:attributes], axes[attributes:]
    strata, stratum = _crossed(given)
    bins = ALL if level is None else Axis(level.name, level.values)
    labels, predictions = outcome
    shape = (*(len(part.values) for part in groups), len(strata), len(bins), 2, 2)
    if prod(shape) > MOST_CELLS:
        hint = "name fewer attributes, or coarsen them (bins)"
        raise InvalidParameter("group and given", f"{prod(shape):,} cells", f"at most {MOST_CELLS:,}", hint)
    zeros = np.zeros(len(predictions), np.int64)
    parts = [part.codes for part in groups] + [stratum if given else zeros, zeros if level is None else level.codes]
    parts += [zeros if labels is None else labels, predictions]
    place = np.ravel_multi_index(tuple(parts), shape)
    counts = np.bincount(place, weights, minlength=prod(shape)).astype(np.int64).reshape(shape)
    return Cells(
        counts,
        tuple(Axis(part.name, part.values) for part in groups),
        strata,
        bins,
        _score_sums(groups, level, scores, weights),
        labels is not None,
        dropped,
        1,
        notes,
    )


def _crossed(given: list[CodedColumn]) -> tuple[Axis, Codes]:
    """The strata that occur, of all combinations of legitimate attributes."""
    if not given:
        return ALL, np.zeros(0, np.int64)
    sizes = tuple(len(part.values) for part in given)
    if prod(sizes) > 2**62:
        raise InvalidParameter("given", f"{len(given)} attributes", "fewer, or coarser ones")
    whole = np.ravel_multi_index(tuple(part.codes for part in given), sizes)
    seen, codes = np.unique(whole, return_inverse=True)
    places = np.unravel_index(seen, sizes)
    values = tuple(
        ", ".join(part.values[int(place)] for part, place in zip(given, row, strict=True))
        for row in zip(*places, strict=True)
    )
    return Axis(" × ".join(part.name for part in given), values), codes.astype(np.int64)


def _score_sums(
    groups: list[CodedColumn], level: CodedColumn | None, scores: Floats | None, weights: Codes | None
) -> Floats | None:
    if level is None or scores is None or scores.min() < 0 or scores.max() > 1:
        return None
    shape = (*(len(part.values) for part in groups), len(level.values))
    place = np.ravel_multi_index((*(part.codes for part in groups), level.codes), shape)
    total = scores if weights is None else scores * weights
    return np.asarray(np.bincount(place, total, minlength=prod(shape)).reshape(shape), np.float64)


def _product(axes: Sequence[Axis]) -> list[tuple[str, ...]]:
    result: list[tuple[str, ...]] = [()]
    for attribute in axes:
        result = [(*before, value) for before in result for value in attribute.values]
    return result


def _gathered(array: Any, places: Sequence[int], others: tuple[int, ...]) -> Any:
    """Attribute axes summed or flattened to one, which comes first."""
    left = [place for place in range(array.ndim) if place not in (*places, *others)]
    ordered = array.transpose(*places, *others, *left).sum(axis=tuple(range(len(places), len(places) + len(others))))
    return ordered.reshape(-1, *ordered.shape[len(places) :])


# Rates: each is a share of cells, how many of the rows in `denominator` are in `numerator`


Places = tuple[tuple[int, int], ...]
"""Cells of the 2 × 2 table, as (label, prediction)."""

_N = ((0, 0), (0, 1), (1, 0), (1, 1))


@dataclass(frozen=True, slots=True)
class Metric:
    """A share of cells, and what it means. `labeled`: it needs true labels."""

    name: str
    words: str
    numerator: Places
    denominator: Places
    labeled: bool = True

    @property
    def parts(self) -> tuple[int, int]:
        """How many cells are in the numerator, and how many only in the denominator."""
        return len(self.numerator), len(self.denominator) - len(self.numerator)


METRICS = {
    entry.name: entry
    for entry in (
        Metric("selection rate", "predicted positive", ((0, 1), (1, 1)), _N, labeled=False),
        Metric("base rate", "truly positive", ((1, 0), (1, 1)), _N),
        Metric("accuracy", "predicted rightly", ((0, 0), (1, 1)), _N),
        Metric("error rate", "predicted wrongly", ((0, 1), (1, 0)), _N),
        Metric("true positive rate", "of the truly positive, predicted positive", ((1, 1),), ((1, 0), (1, 1))),
        Metric("false positive rate", "of the truly negative, predicted positive", ((0, 1),), ((0, 0), (0, 1))),
        Metric("true negative rate", "of the truly negative, predicted negative", ((0, 0),), ((0, 0), (0, 1))),
        Metric("false negative rate", "of the truly positive, predicted negative", ((1, 0),), ((1, 0), (1, 1))),
        Metric("precision", "of those predicted positive, truly positive", ((1, 1),), ((0, 1), (1, 1))),
        Metric("negative precision", "of those predicted negative, truly negative", ((0, 0),), ((0, 0), (1, 0))),
    )
}


@dataclass(frozen=True, slots=True)
class Criterion:
    """A demand of fairness: these rates are the same in all groups."""

    name: str
    metrics: tuple[str, ...]
    words: str

    @property
    def labeled(self) -> bool:
        """Whether it needs true labels."""
        return any(METRICS[name].labeled for name in self.metrics)


CRITERIA = {
    entry.name: entry
    for entry in (
        Criterion("statistical parity", ("selection rate",), "P[Ŷ = 1 | A] is the same in all groups"),
        Criterion("equal opportunity", ("true positive rate",), "P[Ŷ = 1 | Y = 1, A] is the same in all groups"),
        Criterion(
            "equalized odds",
            ("true positive rate", "false positive rate"),
            "P[Ŷ = 1 | Y = y, A] is the same in all groups, for both y",
        ),
        Criterion("predictive parity", ("precision",), "P[Y = 1 | Ŷ = 1, A] is the same in all groups"),
        Criterion("equal accuracy", ("accuracy",), "P[Ŷ = Y | A] is the same in all groups"),
    )
}
CONDITIONAL = Criterion(
    "conditional parity", ("selection rate",), "P[Ŷ = 1 | A, X = x] is the same in all groups, for every stratum x"
)
CALIBRATION = Criterion(
    "calibration", ("base rate",), "P[Y = 1 | A, score] is the same in all groups, for every bin of the score"
)


def metric(name: str) -> Metric:
    """A metric by its name."""
    if name not in METRICS:
        raise InvalidParameter("metric", name, ", ".join(METRICS))
    return METRICS[name]


def shares(counts: ArrayLike, measure: Metric) -> tuple[NDArray[np.generic], NDArray[np.generic]]:
    """Numerators and denominators of a metric; the last two axes of `counts` are label and prediction.

    >>> [int(part) for part in shares([[50, 10], [5, 35]], METRICS["precision"])]
    [35, 45]
    """
    array = np.asarray(counts)
    hits, tries = (sum(array[..., y, p] for y, p in places) for places in (measure.numerator, measure.denominator))
    return np.asarray(hits), np.asarray(tries)


def rates(counts: ArrayLike, measure: Metric) -> Floats:
    """The metric of each table; NaN where nobody is in its denominator.

    >>> table = np.array([[50, 10], [5, 35]])  # label 0: 50 predicted 0, 10 predicted 1; label 1: 5 and 35
    >>> {name: round(float(rates(table, one)), 3) for name, one in METRICS.items() if "positive rate" in name}
    {'true positive rate': 0.875, 'false positive rate': 0.167}
    """
    hits, tries = (np.asarray(part, np.float64) for part in shares(counts, measure))
    result: Floats = np.divide(hits, tries, out=np.full(hits.shape, np.nan), where=tries > 0)
    return result
