"""White box, one client's update: what it tells about the rows that it was computed from.

Whoever sees the update of a single client, the coordinator of federated learning say, can read training rows off the
gradient of a dense layer, without searching and to the digit (`UpdateRows`), and labels off that of the last layer
(`UpdateLabels`). A coordinator that chooses the weights itself reads them off large batches as well (`imprint`).
Updates enter as arrays, so any library's will do.

From the gradient of a dense layer to the rows behind it.

A layer y = x·W + b has, for a row x, ∂L/∂W = x ⊗ ∂L/∂y and ∂L/∂b = ∂L/∂y: of each unit, the one divided by the other is
x itself (Phong, Aono, Hayashi, Wang, Moriai 2018, "Privacy-preserving deep learning via additively homomorphic
encryption", section 3, on gradients that leak). Over a batch the quotient of a unit is a mean of the rows that it was
active for, weighted by ∂L/∂y; behind ReLU many units are active for one row only, and give it back exactly (Boenisch et
al. 2023, "When the curious abandon honesty: federated learning is not private"). Where units are active for nested sets
of rows, as a dishonest coordinator can arrange it (`imprint`), the difference of two neighbors is what belongs to the
rows between them (Fowl, Geiping, Czaja, Goldblum, Goldstein 2022, "Robbing the Fed").

Scale and sign of the update cancel. So the sum of several local steps (FedAvg) has the same quotient wherever a unit
was active for the same single row all the time, and a mean of rows where not.

>>> import numpy as np
>>> from discreet.attacks.updates import read_rows
>>> row, slope = np.array([0.2, 0.9]), np.array([0.0, -3.0, 0.5])
>>> read_rows(np.outer(row, slope), slope, low=0, high=1).round(6).tolist()
[[0.2, 0.9]]

Weights of a dishonest coordinator: a first layer that sorts the rows of a batch into bins.

All units look along the same direction and differ in their biases: unit j is active for rows beyond the j-th quantile.
The next layer treats all units alike, so two neighboring units differ by the rows of one bin, and a bin with one row
gives it away (Fowl et al. 2022, the imprint module). The quantiles come from rows that the coordinator has or makes up.

The labels of an update: with softmax and cross entropy the last layer's biases have the gradient Σ (p − y).

It is negative for a class only if a row of that class is in the update, and of one row exactly for its class (Zhao,
Mopuri, Bilen 2020, "iDLG: improved deep leakage from gradients").

>>> import numpy as np
>>> from discreet.attacks.updates import UpdateLabels
>>> p, labels = np.full((200, 4), 0.25), np.arange(200) % 4
>>> report = UpdateLabels(biases=p - np.eye(4)[labels], labels=labels[:, None]).run()
>>> report.success.value, report.baseline.value, report.verdict
(1.0, 0.25, 'falls')

Training rows from updates: how many come back, beside what guessing and people outside give.

>>> import numpy as np
>>> from discreet.attacks.updates import UpdateRows
>>> rng = np.random.default_rng(1)
>>> rows, others = rng.random((200, 20)), rng.random((200, 20))
>>> slopes = rng.normal(size=(200, 8))  # each client has one row, and a layer of eight units
>>> report = UpdateRows(
...     weights=rows[:, :, None] * slopes[:, None, :], biases=slopes, rows=rows[:, None], outside=others
... ).run()
>>> report.success.value, report.control.value, report.verdict
(1.0, 0.0, 'falls')
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.attacks.attack_report import AttackReport, Share, risk_tolerance
from discreet.errors import InvalidData
from discreet.exact import Number, integer, rational
from discreet.intervals import lower_limit, upper_limit
from discreet.report import Chart, Line

__all__ = ["UpdateLabels", "UpdateRows", "imprint", "read_rows"]


Floats = NDArray[np.float64]

_DEAD = 1e-9  # of the largest bias: units below were active for nobody
_SAME = 1e-4  # of the range: two claims that differ by less are one
_ROUNDS = 40  # of the power iteration


def read_rows(weights: ArrayLike, biases: ArrayLike, *, low: ArrayLike, high: ArrayLike) -> Floats:
    """What an attacker believes to be rows (claims × inputs), from an update of weights (inputs × units) and biases.

    The quotient of every unit, of the difference of every two neighbors, and of all units together (the best rank-one
    fit, for one row behind much noise), cut to the public range. Claims that are the same are made once.
    """
    w, b = _update(weights, biases)
    least, most = (np.broadcast_to(np.asarray(end, np.float64), len(w)) for end in (low, high))
    result = [_quotients(w, b), _quotients(np.diff(w, axis=1), np.diff(b)), _together(w, b)]
    claims = np.clip(np.concatenate(result), least, most)
    return _once(claims, np.maximum(most - least, 1e-300))


def nearest(rows: Floats, claims: Floats, spans: Floats) -> Floats:
    """How far each row is from the nearest claim: the root mean square over columns, in parts of their range.

    >>> nearest(np.array([[0.0, 0.0]]), np.array([[3.0, 4.0], [9.0, 9.0]]), np.array([10.0, 10.0])).round(4).tolist()
    [0.3536]
    """
    if not len(claims):
        return np.full(len(rows), np.inf)
    best = np.full(len(rows), np.inf)
    step = max(1, 4_000_000 // max(1, rows.size))
    for start in range(0, len(claims), step):
        gaps = (rows[:, None, :] - claims[None, start : start + step]) / spans
        best = np.minimum(best, np.sqrt(np.square(gaps).mean(axis=2)).min(axis=1))
    return best


def _update(weights: ArrayLike, biases: ArrayLike) -> tuple[Floats, Floats]:
    try:
        w, b = np.asarray(weights, np.float64), np.asarray(biases, np.float64)
    except (TypeError, ValueError):
        raise InvalidData("update: expected arrays of numbers: weights (inputs × units) and biases (units)") from None
    if w.ndim != 2 or b.shape != w.shape[1:] or not w.size:
        expected = "weights of inputs × units and one bias for each unit"
        raise InvalidData(f"update: got shapes {w.shape} and {b.shape}, expected {expected}")
    if not (np.isfinite(w).all() and np.isfinite(b).all()):
        raise InvalidData("update: it holds numbers that are not finite; leave such an update out")
    return w, b


def _quotients(w: Floats, b: Floats) -> Floats:
    """∂W/∂b of every unit that was active."""
    alive = np.abs(b) > _DEAD * np.abs(b).max(initial=0.0)
    with np.errstate(over="ignore"):
        return np.asarray((w[:, alive] / b[alive]).T)


def _together(w: Floats, b: Floats) -> Floats:
    """One row from all units: the rank-one matrix nearest to the update, by power iteration; its last entry is 1."""
    whole = np.vstack([w, b])
    largest = np.abs(whole).max()
    if not largest:
        return np.empty((0, len(w)))
    whole = whole / largest
    way = whole[:, int(np.argmax(np.square(whole).sum(axis=0)))]
    for _ in range(_ROUNDS):
        way = whole @ (whole.T @ way)
        way = way / np.sqrt(np.square(way).sum())
    return _quotients(way[:-1, None], way[-1:])


def _once(claims: Floats, spans: Floats) -> Floats:
    """Each claim once, in the order in which they came."""
    _, first = np.unique(np.rint(claims / (spans * _SAME)), axis=0, return_index=True)
    return claims[np.sort(first)]


_SMALL = 1e-3


def imprint(known: ArrayLike, *, units: int, outputs: int, seed: int) -> tuple[Floats, Floats]:
    """Two dense layers, each a matrix whose last row is its biases, with ReLU between them.

    >>> first, second = imprint([[0.0, 1.0], [1.0, 0.0], [0.5, 0.2]], units=4, outputs=3, seed=1)
    >>> first.shape, second.shape
    ((3, 4), (5, 3))
    """
    rows = np.asarray(known, np.float64)
    if rows.ndim != 2 or len(rows) < 2 or not np.isfinite(rows).all():
        raise InvalidData("known: expected two rows of finite numbers or more")
    integer(units, "units", at_least=2)
    integer(outputs, "outputs", at_least=2)
    way = np.random.default_rng([integer(seed, "seed", at_least=0), 8]).normal(size=rows.shape[1])
    way /= np.maximum(rows.std(axis=0), 1e-12) * np.sqrt(rows.shape[1])
    bins = np.quantile(rows @ way, (np.arange(units) + 0.5) / units)
    second = np.zeros((units + 1, outputs))
    second[:-1] = _SMALL / units * np.arange(1, outputs + 1) ** 2  # no class at the mean: every row has a slope
    return np.vstack([np.tile(way[:, None], units), -bins]), second


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UpdateLabels:
    """`biases` are the gradient of the last layer's biases, for each update (of a change by descent, minus it).

    `labels` is the judge's: the classes, from 0, of the rows behind each update.
    """

    biases: Sequence[ArrayLike] | NDArray[np.float64] = field(repr=False)
    labels: Sequence[ArrayLike] | NDArray[np.int64] = field(repr=False)
    against: str = "each client's update"
    confidence: float = 0.95

    def run(self) -> AttackReport:
        """Name the class with the most negative slope; the guesser names the commonest class."""
        slopes, held = self._checked()
        named = slopes.argmin(axis=1)
        hits = sum(bool((labels == name).any()) for labels, name in zip(held, named, strict=True))
        common = int(np.bincount(np.concatenate(held)).argmax())
        guessed = sum(bool((labels == common).any()) for labels in held)
        silent = int((slopes == slopes[:, :1]).all(axis=1).sum())
        return AttackReport(
            attack="labels from updates",
            against=self.against,
            goal="name a class that is in a client's update",
            people=len(held),
            success=Share.counted(hits, len(held), confidence=self.confidence),
            baseline=Share.counted(guessed, len(held), confidence=self.confidence),
            confidence=self.confidence,
            tolerance=risk_tolerance(guessed / len(held)),
            normalized=True,
            facts={
                "attacker sees": "the last layer's part of each update (white box)",
                "rows in an update": f"{np.mean([len(labels) for labels in held]):.4g}",
                "classes": slopes.shape[1],
            },
            unread=(f"{silent} updates have the same slope for every class",) if silent else (),
        )

    def _checked(self) -> tuple[NDArray[np.float64], list[NDArray[np.int64]]]:
        try:
            slopes = np.asarray(self.biases, np.float64)
            held = [np.asarray(labels) for labels in self.labels]
        except (TypeError, ValueError):
            raise InvalidData("biases: expected one row of numbers for each update, as many as classes") from None
        if slopes.ndim != 2 or slopes.shape[1] < 2 or len(slopes) != len(held) or not held:
            raise InvalidData(f"biases: got shape {slopes.shape} for {len(held)} updates; expected updates × classes")
        if not np.isfinite(slopes).all():
            raise InvalidData("biases: they hold numbers that are not finite; leave such an update out")
        for place, labels in enumerate(held):
            if labels.dtype.kind not in "iu" or labels.ndim != 1 or not len(labels):
                raise InvalidData(f"labels: those of update {place} are not classes from 0, one for each row")
            if labels.min() < 0 or labels.max() >= slopes.shape[1]:
                raise InvalidData(f"labels: update {place} has a class outside 0 … {slopes.shape[1] - 1}")
        return slopes, [labels.astype(np.int64) for labels in held]


_SHOWN = 8  # columns of a worst example
_WORST = 5
_EXACT = 1e-5  # of the range: so near no guess comes
_MUTE = "{} updates have no slope in their biases: nothing can be divided by it"
_FEW = "{} rows came back to the digit, and none that was guessed or stands outside: however few, that is no chance"
_REMARK = (
    "A row counts as recovered if a claim from its own update is within the stated distance. Guessing makes as many "
    "claims, each column by itself as it is distributed in public; people outside are compared with the same claims. "
    "Claims that say nothing are nearer to their own rows than to rows outside in half of the cases."
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UpdateRows:
    """The attacker holds, for each update, the change of a dense first layer: `weights` (inputs × units) and `biases`.

    `rows` are the judge's: those behind each update (rows × inputs). `outside` are rows of the same kind behind no
    update: people outside, and the public distribution of each column. `bounds` is the public range of the columns,
    (low, high), each a number or one for each column; that of `outside` if left out. A row is recovered if a claim
    from its update is at most `within` away: the root mean square over columns, in parts of their range.

    Rows that come back to the digit, where none outside and no guess does, are never called held, however few they are.
    """

    weights: Sequence[ArrayLike] | NDArray[Any] = field(repr=False)
    biases: Sequence[ArrayLike] | NDArray[Any] = field(repr=False)
    rows: Sequence[ArrayLike] | NDArray[Any] = field(repr=False)
    outside: ArrayLike = field(repr=False)
    bounds: tuple[ArrayLike, ArrayLike] | None = field(default=None, repr=False)
    within: Number = "0.05"
    against: str = "each client's update"
    confidence: float = 0.95
    seed: int = 0

    def run(self) -> AttackReport:
        """Read claims off every update, and compare."""
        held, outside = self._checked()
        low, high = self._range(outside)
        spans = np.maximum(high - low, 1e-300)
        claims = [
            read_rows(w, b, low=low, high=high) for w, b in zip(list(self.weights), list(self.biases), strict=True)
        ]
        drawn = _Others(outside, self.seed)
        gaps = [nearest(mine, made, spans) for mine, made in zip(held, claims, strict=True)]
        other = [nearest(drawn.rows(len(mine)), made, spans) for mine, made in zip(held, claims, strict=True)]
        guessed = [nearest(mine, drawn.guesses(len(made)), spans) for mine, made in zip(held, claims, strict=True)]
        return self._report(held, claims, *(np.concatenate(distances) for distances in (gaps, other, guessed)))

    def _report(
        self, held: list[Floats], claims: list[Floats], gaps: Floats, other: Floats, guessed: Floats
    ) -> AttackReport:
        limit = float(rational(self.within, "within", above=0, below=1))
        shares = [Share.among(distances <= limit, confidence=self.confidence) for distances in (gaps, guessed, other)]
        mute = sum(not len(claim) for claim in claims)
        ahead = int((gaps < other).sum() + (gaps == other).sum() // 2)
        nearer = Share.counted(ahead, len(gaps), confidence=self.confidence)
        exact, chance = (int((distances <= _EXACT).sum()) for distances in (gaps, np.concatenate([other, guessed])))
        unread = [_MUTE.format(mute)] * bool(mute) + [_FEW.format(exact)] * bool(exact and not chance)
        return AttackReport(
            attack="rows from updates",
            against=self.against,
            goal="recover a row that a client trained on",
            people=len(gaps),
            success=shares[0],
            baseline=shares[1],
            control=shares[2],
            confidence=self.confidence,
            facts={
                "attacker sees": "a dense layer's part of each update (white box)",
                "updates": len(held),
                "rows in an update": f"{len(gaps) / len(held):.4g}",
                "columns": held[0].shape[1],
                "claims made for an update": f"{np.mean([len(claim) for claim in claims]):.4g}",
                "recovered if within": f"{100 * limit:g} % of the range",
                "read to the digit": exact,
                "distance of the nearest claim, median": f"{100 * float(np.median(gaps)):.3g} % of the range",
                "own rows nearer to the claims than rows outside": nearer,
                "a share that would have been seen": visible(len(gaps), max(shares[1:], key=_value), self.confidence),
            },
            worst=_worst(held, claims, gaps, limit),
            charts=(_chart(gaps, other, guessed, limit),),
            remarks=(_REMARK,),
            unread=tuple(unread),
        )

    def _checked(self) -> tuple[list[Floats], Floats]:
        outside = _table(self.outside, "outside", None)
        held = [_table(rows, f"rows of update {place}", outside.shape[1]) for place, rows in enumerate(self.rows)]
        counts = {"weights": len(self.weights), "biases": len(self.biases), "rows": len(held)}
        if len(set(counts.values())) != 1 or not held:
            raise InvalidData(f"updates: got {counts}; expected one of each for every update")
        for place, weights in enumerate(self.weights):
            if np.shape(weights)[:1] != outside.shape[1:]:
                raise InvalidData(
                    f"weights of update {place}: shape {np.shape(weights)}, expected {outside.shape[1]} × units"
                )
        integer(self.seed, "seed", at_least=0)
        return held, outside

    def _range(self, outside: Floats) -> tuple[Floats, Floats]:
        if self.bounds is None:
            return outside.min(axis=0), outside.max(axis=0)
        low, high = (np.broadcast_to(np.asarray(end, np.float64), outside.shape[1:]) for end in self.bounds)
        if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
            raise InvalidData("bounds: expected finite numbers, low below high in every column")
        return low, high


def visible(trials: int, reference: Share, confidence: float) -> float:
    """The power: a success rate of this much or more would have been told from the reference, with this probability.

    Let k be the least count whose lower limit lies above the reference's upper one; P[Bin(n, p) ≥ k] is at least the
    confidence where p is at least the one-sided upper limit of k − 1 (Clopper, Pearson 1934).

    >>> visible(100, Share.known(0.0), 0.95), visible(10, Share.known(0.5), 0.95)
    (0.0296, 0.9633)
    """
    counts = np.arange(trials + 1)
    lows = lower_limit(counts, trials, confidence=(1 + confidence) / 2)
    enough = np.flatnonzero(lows > reference.high)
    if not len(enough):
        return 1.0
    return float(np.ceil(1e4 * upper_limit(enough[0] - 1, trials, confidence=confidence)) / 1e4)


class _Others:
    """Rows outside, in a random order, again and again; and guesses from the columns' own distributions."""

    def __init__(self, outside: Floats, seed: int) -> None:
        self._rng = np.random.default_rng([seed, 9])
        self._outside = outside[self._rng.permutation(len(outside))]
        self._next = 0

    def rows(self, count: int) -> Floats:
        places = (self._next + np.arange(count)) % len(self._outside)
        self._next += count
        return self._outside[places]

    def guesses(self, count: int) -> Floats:
        places = self._rng.integers(0, len(self._outside), (count, self._outside.shape[1]))
        return np.asarray(np.take_along_axis(self._outside, places, axis=0))


def _table(given: ArrayLike, name: str, columns: int | None) -> Floats:
    try:
        read = np.asarray(given, np.float64)
    except (TypeError, ValueError):
        raise InvalidData(f"{name}: expected rows of numbers") from None
    if read.ndim != 2 or not read.size:
        raise InvalidData(f"{name}: got shape {read.shape}, expected rows × inputs")
    if columns is not None and read.shape[1] != columns:
        raise InvalidData(f"{name}: {read.shape[1]} columns, but `outside` has {columns}")
    if not np.isfinite(read).all():
        raise InvalidData(f"{name}: row {int(np.argmin(np.isfinite(read).all(axis=1)))} holds no finite number")
    return read


def _worst(held: list[Floats], claims: list[Floats], gaps: Floats, limit: float) -> tuple[str, ...]:
    """The rows that came back best: the true one, and what was read."""
    owner = np.repeat(np.arange(len(held)), [len(rows) for rows in held])
    rows = np.concatenate(held)
    made = []
    for place in np.argsort(gaps, kind="stable")[:_WORST]:
        if gaps[place] > limit:
            break
        mine = claims[owner[place]]
        read = mine[int(np.square(mine - rows[place]).sum(axis=1).argmin())]
        made.append(f"update {owner[place] + 1}: true {_some(rows[place])}; read {_some(read)}")
    return tuple(made)


def _some(row: Floats) -> str:
    more = ", …" if len(row) > _SHOWN else ""
    return "[" + ", ".join(f"{value:.4g}" for value in row[:_SHOWN]) + more + "]"


def _chart(gaps: Floats, other: Floats, guessed: Floats, limit: float) -> Chart:
    """For each distance, the share of rows with a claim that near."""
    edges = np.geomspace(1e-8, 1.0, 120)
    lines = [
        Line(edges, [float((distances <= edge).mean()) for edge in edges], label)
        for distances, label in ((gaps, "rows behind the update"), (other, "rows outside"), (guessed, "guessing"))
    ]
    marked = Line([limit, limit], [0.0, 1.0], "counts as recovered", dashed=True)
    x = "distance of the nearest claim, in parts of the range"
    return Chart("How near the claims come", [*lines, marked], x=x, y="share of rows", log_x=True, y_range=(0, 1))


def _value(share: Share) -> float:
    return share.value
