"""Scores that rank outputs by how much they speak for x and against its neighbor, learned from samples.

By Neyman and Pearson (1933) the best events between two distributions are {likelihood ratio ≥ t}; each score here is an
estimate of a monotone function of that ratio. A bad estimate costs power only: the bound is computed on fresh draws.

Events that tell x from its neighbor, chosen on draws that are never used again.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from discreet.attacks.audit.outputs import Floats, LabelOf, Labels, NumberOf, Outputs, labels, lowest_bit, numbers
from discreet.threads import blas_threads

_BINS = 48
_FEW = 12  # outputs that can be listed
_RIDGE = 1e-2
_FITTED = 20_000  # draws that a logistic regression needs


@dataclass(frozen=True, slots=True)
class Score:
    """A function of the output that is large where x is likelier; `describe` says in words what {score ≥ t} is."""

    words: str
    of: Callable[[Outputs], Floats]
    describe: Callable[[float, bool], str]
    plain: bool = False  # whether anybody sees at once what the set is: such a one is preferred
    bits: bool = False  # whether it is about the last bits of floats


def learned(x: Outputs, other: Outputs) -> Iterator[Score]:
    """All scores, fitted to outputs of x and of its neighbor.

    >>> from discreet.attacks.audit.outputs import Reader
    >>> reader = Reader.learn([["yes", "no"]])
    >>> scores = learned(reader.read(["yes"] * 30 + ["no"] * 10), reader.read(["yes"] * 10 + ["no"] * 30))
    >>> [score.words for score in scores]
    ['the output', 'the form of the output']
    """
    yield from _groups(x, other)
    for feature in labels(x, {**x.shown, **other.shown}):
        values = _values(x, other) if feature.words == "the output" else {}
        result = _cells(feature, feature.of(x), feature.of(other), values)
        if result is not None:
            yield result
    parts: list[tuple[NumberOf, _Histogram]] = []
    for number in numbers(x):
        here, there = number.of(x), number.of(other)
        if _varies(here, there):
            shape = _Histogram.fit(here, there)
            parts.append((number, shape))
            yield from (_rising(number), _falling(number), _binned(number, shape))
            yield from _holes(number, shape, x, other)
    if x.width > 1 and parts:
        yield _bayes([part for part in parts if part[0].words.startswith("number ") and "−" not in part[0].words])
        yield _logistic(x, other)


@dataclass(frozen=True, slots=True)
class _Histogram:
    """ln of the likelihood ratio in bins with about equally many draws; the last bin is for NaN."""

    edges: Floats
    ratios: Floats

    @classmethod
    def fit(cls, here: Floats, there: Floats) -> "_Histogram":
        pooled = np.concatenate([here, there])
        finite = np.sort(pooled[np.isfinite(pooled)])
        places = np.linspace(0, max(0, len(finite) - 1), _BINS + 1)[1:-1].astype(np.int64)
        edges = np.unique(finite[places]) if len(finite) else finite
        cells = [np.bincount(_bin(side, edges), minlength=len(edges) + 2) for side in (here, there)]
        return cls(edges, _log_ratio(cells[0], cells[1], len(here), len(there)))

    def of(self, values: Floats) -> Floats:
        return np.asarray(self.ratios[_bin(values, self.edges)])


def _bin(values: Floats, edges: Floats) -> Labels:
    result = np.searchsorted(edges, values, side="right")
    return np.where(np.isnan(values), len(edges) + 1, result).astype(np.int64)


def _log_ratio(mine: Labels, theirs: Labels, n: int, m: int) -> Floats:
    """ln of (counts + ½)/n over (counts + ½)/m: finite, and near 0 where little was seen."""
    return np.asarray(np.log((mine + 0.5) / (n + 1)) - np.log((theirs + 0.5) / (m + 1)))


def _varies(here: Floats, there: Floats) -> bool:
    """Whether a number takes two values at all."""
    first = here[0]
    return not all((side == first).all() or (np.isnan(first) and np.isnan(side).all()) for side in (here, there))


def _groups(x: Outputs, other: Outputs) -> Iterator[Score]:
    """Whether one group (a key, a member, a text) is in the output."""
    for place, group in enumerate(x.groups):
        shares = [side.members[:, place].mean() for side in (x, other)]
        if shares[0] != shares[1]:
            yield _member(place, group, 1.0 if shares[0] > shares[1] else -1.0)


def _member(place: int, group: str, sign: float) -> Score:
    def describe(threshold: float, above: bool) -> str:
        there = sign >= threshold if above else sign <= threshold
        return f"group {group} {'appears' if there else 'is missing'}"

    return Score(
        f"whether group {group} appears",
        lambda some: np.asarray(sign * some.members[:, place], np.float64),
        describe,
        True,
    )


def _values(x: Outputs, other: Outputs) -> dict[int, float]:
    """The number that each label of a whole output stands for, where outputs are single finite numbers."""
    numbers = np.concatenate([x.numbers[:, 0], other.numbers[:, 0]])
    if x.width > 1 or not np.isfinite(numbers).all():
        return {}
    codes, first = np.unique(np.concatenate([x.whole, other.whole]), return_index=True)
    return dict(zip(codes.tolist(), numbers[first].tolist(), strict=True))


def _cells(feature: LabelOf, here: Labels, there: Labels, values: Mapping[int, float]) -> Score | None:
    """Each label by itself: the exact ratio of finite outputs, in the limit."""
    known, places = np.unique(np.concatenate([here, there]), return_inverse=True)
    if len(known) == 1:
        return None
    counts = [np.bincount(side, minlength=len(known)) for side in (places[: len(here)], places[len(here) :])]
    ratios = _log_ratio(counts[0], counts[1], len(here), len(there))
    if (counts[0] + counts[1]).max() <= 2:  # nothing was seen twice on either side: labels tell nothing
        return None

    def of(some: Outputs) -> Floats:
        asked = feature.of(some)
        at = np.minimum(np.searchsorted(known, asked), len(known) - 1)
        return np.where(known[at] == asked, ratios[at], 0.0)

    def describe(threshold: float, above: bool) -> str:
        chosen = known[(ratios >= threshold) if above else (ratios <= threshold)]
        runs = _runs(set(chosen.tolist()), values)
        if len(chosen) > 4 and feature.summary:
            return feature.summary.format(len(chosen))
        return f"answers {runs}" if runs else f"{feature.words} is {_listed(feature, chosen)}"

    plain = feature.words == "the output" and len(known) <= _FEW
    return Score(feature.words, of, describe, plain=plain, bits=feature.bits)


def _runs(chosen: set[int], values: Mapping[int, float]) -> str:
    """The chosen numbers as up to three ranges among all that were seen; "" where a list is better."""
    order = sorted(values, key=values.__getitem__)
    runs = [list(run) for inside, run in groupby(range(len(order)), lambda at: order[at] in chosen) if inside]
    if not 1 <= len(runs) <= 3 or (len(chosen) <= 3 and len(order) <= _FEW):
        return ""
    texts = []
    for run in runs:
        low, high = (f"{values[order[at]]:.6g}" for at in (run[0], run[-1]))
        if run[0] == 0 or run[-1] == len(order) - 1:
            texts.append(f"of at most {high}" if run[0] == 0 else f"of at least {low}")
        else:
            texts.append(f"from {low} to {high}" if low != high else f"of {low}")
    return " or ".join(texts)


def _listed(feature: LabelOf, chosen: Labels) -> str:
    """A few labels, a run of them, or how many there are."""
    if len(chosen) > 3 and int(chosen[-1]) - int(chosen[0]) == len(chosen) - 1:
        return f"{feature.describe(int(chosen[0]))} … {feature.describe(int(chosen[-1]))}"
    names = [feature.describe(int(code)) for code in chosen[:4]]
    if "" in names or not names:
        return f"one of {len(chosen):,} that were learned"
    return ", ".join(names) + (f" or one of {len(chosen) - 4:,} others" if len(chosen) > 4 else "")


def _rising(number: NumberOf) -> Score:
    return Score(
        f"{number.words}, rising",
        lambda some: np.nan_to_num(number.of(some), nan=-np.inf, posinf=np.inf, neginf=-np.inf),
        lambda threshold, above: _beyond_in_words(number, threshold, least=above),
        plain="−" not in number.words,
    )


def _falling(number: NumberOf) -> Score:
    return Score(
        f"{number.words}, falling",
        lambda some: np.nan_to_num(-number.of(some), nan=-np.inf, posinf=np.inf, neginf=-np.inf),
        lambda threshold, above: _beyond_in_words(number, -threshold, least=not above),
        plain="−" not in number.words,
    )


def _beyond_in_words(number: NumberOf, threshold: float, *, least: bool) -> str:
    subject = "answers of" if number.words == "the output" else f"{number.words} is"
    return f"{subject} at {'least' if least else 'most'} {threshold:.6g}"


def _binned(number: NumberOf, shape: _Histogram) -> Score:
    def describe(threshold: float, above: bool) -> str:
        chosen = shape.ratios >= threshold if above else shape.ratios <= threshold
        return f"{number.words} lies in {_intervals(chosen, shape.edges)}"

    return Score(f"{number.words}, binned", lambda some: shape.of(number.of(some)), describe)


def _holes(number: NumberOf, shape: _Histogram, x: Outputs, other: Outputs) -> Iterator[Score]:
    """The lowest bit together with where the number lies: floats have their holes in certain intervals."""

    def of(some: Outputs) -> Labels:
        values = number.of(some)
        return np.asarray(4096 * _bin(values, shape.edges) + np.minimum(lowest_bit(values), 2000) + 1100, np.int64)

    def describe(code: int) -> str:
        place, bit = divmod(code, 4096)
        ends = np.concatenate([[-np.inf], shape.edges, [np.inf, np.nan]])
        return f"2^{bit - 1100} (outputs in [{ends[place]:.4g}, {ends[place + 1]:.4g}))"

    values = number.of(x)
    if (values == np.rint(values)).all():
        return
    summary = f"the lowest bit of {number.words}, by where it lies, is one of {{:,}} that floating-point noise leaves"
    feature = LabelOf(f"the lowest bit of {number.words}, by where it lies,", of, describe, summary, bits=True)
    result = _cells(feature, of(x), of(other), {})
    if result is not None:
        yield result


def _intervals(chosen: NDArray[np.bool_], edges: Floats) -> str:
    """The chosen bins as intervals, neighbors joined."""
    ends = np.concatenate([[-np.inf], edges, [np.inf]])
    inside = np.concatenate([[False], chosen[:-1], [False]]).astype(np.int8)
    starts, stops = np.flatnonzero(np.diff(inside) == 1), np.flatnonzero(np.diff(inside) == -1)
    texts = [f"[{ends[a]:.6g}, {ends[b]:.6g})" for a, b in zip(starts, stops, strict=True)]
    texts += ["NaN"] if chosen[-1] else []
    return " or ".join(texts[:3]) + (f" or {len(texts) - 3} more intervals" if len(texts) > 3 else "")


def _bayes(parts: list[tuple[NumberOf, _Histogram]]) -> Score:
    """Sums of the log-ratios of the numbers: best where they are independent."""

    def of(some: Outputs) -> Floats:
        total = np.zeros(len(some))
        for number, shape in parts:
            total += shape.of(number.of(some))
        return total

    return Score("all numbers, as if independent", of, _beyond("the summed log-ratios of all numbers"))


def _logistic(x: Outputs, other: Outputs) -> Score:
    """Logistic regression on the numbers and their squares."""
    from scipy.optimize import minimize

    pooled = np.concatenate([x.numbers[:_FITTED], other.numbers[:_FITTED]])
    sides = np.repeat([1.0, -1.0], [min(len(x), _FITTED), min(len(other), _FITTED)])
    center, spread = _scale(pooled)
    rows = _expanded(pooled, center, spread)

    def loss(weights: Floats) -> tuple[float, Floats]:
        margins = sides * (rows @ weights)
        pull = -sides / (1 + np.exp(np.clip(margins, -500, 500)))
        value = np.logaddexp(0, -margins).mean() + _RIDGE * float(weights @ weights) / 2
        return float(value), rows.T @ pull / len(sides) + _RIDGE * weights

    with blas_threads(1):
        weights = minimize(loss, np.zeros(rows.shape[1]), jac=True, method="L-BFGS-B", options={"maxiter": 60}).x
    return Score(
        "logistic regression",
        lambda some: np.asarray(_expanded(some.numbers, center, spread) @ weights),
        _beyond("a logistic regression on the numbers and their squares"),
    )


def _scale(values: Floats) -> tuple[Floats, Floats]:
    """Median and spread of each column, of its finite numbers."""
    fine = np.where(np.isfinite(values), values, np.nan)
    some = ~np.isnan(fine).all(axis=0)
    center, spread = np.zeros(values.shape[1]), np.ones(values.shape[1])
    largest = np.finfo(float).max
    with np.errstate(over="ignore"):  # numbers near the largest ones: their sums and differences may be infinite
        center[some] = np.clip(np.nanmedian(fine[:, some], axis=0), -largest, largest)
        away = np.abs(fine[:, some] - center[some])
        spread[some] = np.clip(np.nanmean(away, axis=0), 1e-300, largest)
    return center, spread


def _expanded(values: Floats, center: Floats, spread: Floats) -> Floats:
    with np.errstate(all="ignore"):
        even = np.clip(np.nan_to_num((values - center) / spread, nan=0.0), -20, 20)
    return np.hstack([even, even**2 / 4, np.isnan(values).astype(np.float64), np.ones((len(values), 1))])


def _beyond(words: str) -> Callable[[float, bool], str]:
    return lambda threshold, above: f"{words} {'≥' if above else '≤'} {threshold:.6g}"


_THRESHOLDS = 240
_PLAINER = 0.02


@dataclass(frozen=True, slots=True)
class Event:
    """A set of outputs: {score ≥ threshold}, or ≤ where `above` is False; expected likelier under x, or not."""

    score: Score
    threshold: float
    above: bool
    promise: float  # the bound that it gave on the draws it was chosen on: a guess

    def holds(self, outputs: Outputs) -> NDArray[np.bool_]:
        """Which outputs are in the set."""
        scores = self.score.of(outputs)
        return np.asarray(scores >= self.threshold if self.above else scores <= self.threshold)

    @property
    def words(self) -> str:
        """The set in words."""
        return self.score.describe(self.threshold, self.above)


def choose(
    x: Outputs,
    other: Outputs,
    *,
    delta: float,
    deviations: float,
    trials: int,
    most: int,
    enough: float = np.inf,
) -> tuple[Event, ...]:
    """The most promising events, each of another score; one half of the draws fits scores, the other judges them.

    `deviations` is how many standard deviations the final limits will lie from the counts, `trials` how many fresh
    draws of each side they will be computed from. Where the most promising are all about the last bits of floats, the
    last gives way to a plain one that promises more than `enough`, the claim: floats are not all that is wrong then.

    >>> from discreet.attacks.audit.outputs import Reader
    >>> reader = Reader.learn([["yes", "no"]])
    >>> draws = [reader.read((["yes"] * 3 + ["no"]) * 100), reader.read((["no"] * 3 + ["yes"]) * 100)]
    >>> events = choose(*draws, delta=0, deviations=2, trials=400, most=1)
    >>> [event.words for event in events]
    ["the output is 'yes'"]
    """
    half, rest = len(x) // 2, len(other) // 2
    judge = _Judge(x.part(half, len(x)), other.part(rest, len(other)), delta, deviations, trials)
    fit = x.part(0, half), other.part(0, rest)
    result = [judge.best(score) for score in learned(*fit)]
    ranked = sorted((_weighed(event) for event in result if event.promise > 0), key=lambda event: -event.promise)
    chosen = ranked[:most]
    if most > 1 and all(event.score.bits for event in chosen):
        clear = [event for event in ranked[most:] if event.score.plain and event.promise > enough]
        chosen[-1:] = clear[:1] or chosen[-1:]
    return tuple(chosen)


def _weighed(event: Event) -> Event:
    """An event that takes explaining must promise a little more than one that does not."""
    return event if event.score.plain else replace(event, promise=(1 - _PLAINER) * event.promise)


@dataclass(frozen=True, slots=True)
class _Judge:
    """What an event would prove, by the draws it was not fitted to."""

    x: Outputs
    other: Outputs
    delta: float
    deviations: float
    trials: int

    def best(self, score: Score) -> Event:
        """The best threshold of a score, and its better side."""
        mine, theirs = np.sort(score.of(self.x)), np.sort(score.of(self.other))
        thresholds = _candidates(mine, theirs)
        result = []
        for above in (True, False):
            p, q = (_share(side, thresholds, above=above) for side in (mine, theirs))
            promises = self._promises(p, q) if above else self._promises(q, p)
            at = int(np.argmax(promises))
            result.append(Event(score, float(thresholds[at]), above, float(promises[at])))
        return max(result, key=lambda event: event.promise)

    def _promises(self, likely: Floats, rare: Floats) -> Floats:
        """The bound on ε with Wilson's limits (1927) at as many trials as the real ones will have."""
        low = _wilson(likely, self.trials, -self.deviations)
        high = _wilson(rare, self.trials, self.deviations)
        with np.errstate(divide="ignore", invalid="ignore"):
            direct = np.log(np.maximum(low - self.delta, 0) / high)
            reverse = np.log(np.maximum(1 - high - self.delta, 0) / (1 - low)) - 0.01  # the plainer event is preferred
        return np.asarray(np.fmax(np.fmax(direct, reverse), -np.inf))


def _candidates(mine: Floats, theirs: Floats) -> Floats:
    """Values that a score takes: all if they are few, else quantiles, closer together towards both ends."""
    distinct = np.unique(np.concatenate([mine[_distinct(mine)], theirs[_distinct(theirs)]]))
    if len(distinct) <= _THRESHOLDS:
        return distinct
    parts = []
    for side in (mine, theirs):
        ranks = np.unique(np.geomspace(1, max(1, len(side) // 2), _THRESHOLDS // 4).astype(np.int64)) - 1
        parts += [side[ranks], side[len(side) - 1 - ranks]]
    return np.unique(np.concatenate(parts))


def _distinct(ordered: Floats) -> NDArray[np.bool_]:
    """Where a new value begins."""
    return np.concatenate([[True], ordered[1:] != ordered[:-1]])


def _share(ordered: Floats, thresholds: Floats, *, above: bool) -> Floats:
    if above:
        return np.asarray(1 - np.searchsorted(ordered, thresholds, side="left") / len(ordered))
    return np.asarray(np.searchsorted(ordered, thresholds, side="right") / len(ordered))


def _wilson(share: Floats, trials: int, deviations: float) -> Floats:
    z = abs(deviations)
    center = share + z**2 / (2 * trials)
    reach = z * np.sqrt(share * (1 - share) / trials + z**2 / (4 * trials**2))
    limit = (center + np.sign(deviations) * reach) / (1 + z**2 / trials)
    return np.asarray(np.clip(limit, 0, 1))
