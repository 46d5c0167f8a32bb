"""Training rows from updates: how many come back, beside what guessing and people outside give.

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

from discreet.attacks.report import AttackReport, Share
from discreet.attacks.updates.reading import Floats, nearest, read_rows
from discreet.errors import InvalidData
from discreet.exact import Number, integer, rational
from discreet.intervals import lower_limit, upper_limit
from discreet.report import Chart, Line

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
        return self._report(held, claims, *(np.concatenate(one) for one in (gaps, other, guessed)))

    def _report(
        self, held: list[Floats], claims: list[Floats], gaps: Floats, other: Floats, guessed: Floats
    ) -> AttackReport:
        limit = float(rational(self.within, "within", above=0, below=1))
        shares = [
            Share.counted(int((one <= limit).sum()), len(one), confidence=self.confidence)
            for one in (gaps, guessed, other)
        ]
        mute = sum(not len(one) for one in claims)
        ahead = int((gaps < other).sum() + (gaps == other).sum() // 2)
        nearer = Share.counted(ahead, len(gaps), confidence=self.confidence)
        exact, chance = (int((one <= _EXACT).sum()) for one in (gaps, np.concatenate([other, guessed])))
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
                "claims made for an update": f"{np.mean([len(one) for one in claims]):.4g}",
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
        held = [_table(one, f"rows of update {place}", outside.shape[1]) for place, one in enumerate(self.rows)]
        counts = {"weights": len(self.weights), "biases": len(self.biases), "rows": len(held)}
        if len(set(counts.values())) != 1 or not held:
            raise InvalidData(f"updates: got {counts}; expected one of each for every update")
        for place, one in enumerate(self.weights):
            if np.shape(one)[:1] != outside.shape[1:]:
                raise InvalidData(
                    f"weights of update {place}: shape {np.shape(one)}, expected {outside.shape[1]} × units"
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
    owner = np.repeat(np.arange(len(held)), [len(one) for one in held])
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
        Line(edges, [float((one <= edge).mean()) for edge in edges], label)
        for one, label in ((gaps, "rows behind the update"), (other, "rows outside"), (guessed, "guessing"))
    ]
    marked = Line([limit, limit], [0.0, 1.0], "counts as recovered", dashed=True)
    x = "distance of the nearest claim, in parts of the range"
    return Chart("How near the claims come", [*lines, marked], x=x, y="share of rows", log_x=True, y_range=(0, 1))


def _value(share: Share) -> float:
    return share.value
