"""A relaxed table fitted to noisy marginals, by gradient descent on its entries.

The table has a few hundred to a thousand soft rows: in each column a row holds probabilities over the codes instead of
one code. Its marginals are smooth functions of its entries; with P the matrix of all probabilities, one column a code,
all pairs are the one product PᵀP (Aydore, Brown, Kearns, Kenthapadi, Melis, Roth, Siva 2021). It is a mixture of
products, so rows can be drawn from it. Descent is Adam (Kingma, Ba 2015) on the logits, from the product of the noisy
single columns.

Nothing here reads private rows. When to stop follows from the noise (the discrepancy principle, Morozov 1966): at the
true table the mean squared residual, in units of the noise's variance, is 1; a fit far below it copies noise. That
holds for each marginal by itself, within what chance allows for its number of cells: where many weak marginals fit well
and a strong one does not, the mean over all would stop too early. Where that is asked for (`Settings.closer`), it holds
for the clear cells of each pair too, and pairs that lag there are pulled harder (`clear_cells`). A fit never sees the
true error. The settings are the same for every table; they were first tried on Adult, and kept because they were at or
near the best of a grid on NIST's ACS extracts, both with the truth in view.

Cells of noisy pairs that clearly hold people, and whether a fit meets them.

A strong pair of many codes has few cells with people in them. Over all its cells the mean squared residual hides a gap
in those few: the noise of the empty ones is most of it. Over the clear ones alone it does not.

How much memory and time a synthesis takes, said before anything is spent.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import integer
from discreet.noise import DeterministicEntropy, rounded_gaussian
from discreet.synthetic.measure.noisy_marginals import (
    Allowed,
    Attributes,
    Measurement,
    cells,
    checked_sizes,
    some,
    total,
)
from discreet.threads import blas_threads

_CLEAR = 4.0  # standard deviations of the noise above nothing
_PULL = 10.0  # how much more a pair whose clear cells are off weighs, once the mean over all cells is as it should be

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]


class ClearCells:
    """The clear cells of all pairs, as one matrix over all codes. From noisy counts alone.

    >>> clear = ClearCells((2, 2), most=3.0)
    >>> clear.add((0, 1), (slice(0, 2), slice(2, 4)), np.array([[90, 1], [-3, 100]]), sigma=5.0)
    >>> squares = np.zeros((4, 4))
    >>> squares[0, 2] = 50.0
    >>> float(clear.excess(squares, np.array([0, 2])))  # a mean of 25 over two cells; by chance at most 1 + 3
    21.0
    """

    def __init__(self, sizes: Sequence[int], *, most: float) -> None:
        codes, columns = sum(sizes), len(sizes)
        self._sizes, self._chance = np.array(sizes), most
        self._cells = np.zeros((codes, codes), np.float32)
        self._many, self._most = np.ones((columns, columns)), np.full((columns, columns), np.inf)
        self._off = np.zeros((columns, columns), bool)

    def add(self, pair: tuple[int, int], place: tuple[slice, slice], noisy: Any, sigma: float) -> None:
        """Take the noisy counts of a pair of columns, whose codes are at `place`."""
        clear = noisy > _CLEAR * sigma
        if many := int(clear.sum()):
            self._cells[place] = clear
            self._many[pair], self._most[pair] = many, 1 + self._chance * math.sqrt(2 / many)

    def excess(self, squares: Any, starts: Any) -> float:
        """By how much the mean of squared residuals (in noise variances) over a pair's clear cells is beyond chance."""
        rows = np.add.reduceat(squares * self._cells, starts, axis=0, dtype=np.float64)
        beyond = np.add.reduceat(rows, starts, axis=1) / self._many - self._most
        self._off = (beyond > 0) | (beyond > 0).T
        return float(beyond.max())

    def pulled(self, pull: Singles) -> Singles:
        """The pull of each cell, more of it for pairs whose clear cells were off when last looked at."""
        weights = np.where(self._off, np.float32(1 + _PULL), np.float32(1))
        return np.asarray(pull * np.repeat(np.repeat(weights, self._sizes, axis=0), self._sizes, axis=1))


Progress = Callable[[int, float], None]

_FEWEST_ROWS, _PEOPLE_A_ROW = 100, 3
_MOST_ROWS, _MOST_ENTRIES = (1000, 9000), 3 * 10**6  # of the soft table: so many rows, fewer where they are wide
_FIRST, _SECOND = 0.9, 0.95  # Adam's averages
_STEP = 2.0  # of a logit, at a rate of 1
_SPREAD = 0.5  # of the logits at the start
_PATIENCE, _GAIN, _HALVINGS = 40, 0.995, 5
_SURE = 1.0  # what is known weighs as much as the best measurement; more lets it crowd out what was measured
_CHANCE = 3.0  # a marginal's mean squared residual may be above 1 by so many standard deviations of chance
_GRID = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a table is fitted. Fixed in advance: none may be chosen by looking at the true error.

    rows         soft rows; None: a third of the private count, from 100 to 9000, or 1000 where codes are many
    iterations   at most so many steps
    rate         how fast: a step of a logit is about twice this at first
    misfit       stop when the mean squared residual is this many noise variances
    closer       go on to this share of that misfit while a single marginal is further off than chance explains
    memory       bytes that a fit may use
    seed         of the public random start

    Documents of adaptive plans have all but the memory. So a default stays as it is: with another one, answers that
    people have paid for would not be found any more. How it is used may change (`_STEP`).
    """

    rows: int | None = None
    iterations: int = 2000
    rate: float = 0.1
    misfit: float = 0.95
    closer: float = 1.0
    memory: int = 10**9
    seed: int = 1

    def __post_init__(self) -> None:
        if self.rows is not None:
            integer(self.rows, "rows", at_least=1, at_most=10**6)
        integer(self.iterations, "iterations", at_least=1, at_most=10**6)
        integer(self.memory, "memory", at_least=1)
        integer(self.seed, "seed")
        for name, value in (("rate", self.rate), ("misfit", self.misfit), ("closer", self.closer)):
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 100:
                raise InvalidParameter(name, value, "a number above 0 and below 100")


@dataclass(frozen=True, slots=True, eq=False)
class RelaxedTable:
    """Soft rows, all of the same weight; `weights` has one column for each code of each attribute."""

    sizes: tuple[int, ...]
    total: float
    weights: Singles
    misfit: float
    iterations: int
    stopped: str

    def column(self, attribute: int) -> Singles:
        """The probabilities of one attribute's codes, one soft row a row."""
        start = sum(self.sizes[:attribute])
        return self.weights[:, start : start + self.sizes[attribute]]

    def marginal(self, attributes: Attributes) -> Floats:
        """The counts expected in each cell; they add up to `total`."""
        *left, last = (self.column(attribute) for attribute in attributes)
        shape = tuple(self.sizes[attribute] for attribute in attributes)
        if not left:
            return np.asarray(last.mean(axis=0, dtype=np.float64) * self.total)
        sums = _crossed(left).T @ last
        return np.asarray(sums, np.float64).reshape(shape) * (self.total / len(self.weights))


def fit(
    sizes: Sequence[int],
    measurements: Sequence[Measurement],
    *,
    settings: Settings | None = None,
    allowed: Sequence[Allowed] = (),
    progress: Progress | None = None,
) -> RelaxedTable:
    """The relaxed table that fits noisy marginals as well as their noise allows.

    >>> from discreet.synthetic.measure.noisy_marginals import Measurement
    >>> measured = Measurement((0, 1), np.array([[400, 100], [100, 400]]), 5.0)
    >>> table = fit((2, 2), [measured])
    >>> table.stopped, bool(np.abs(table.marginal((0, 1)) - measured.counts).max() < 20)
    ('misfit', True)
    """
    exact, chosen = checked_sizes(sizes), settings or Settings()
    people = total(fitting(measurements, exact))
    rows = chosen.rows or soft_rows(people, exact)
    needed = memory_needed(exact, [measurement.attributes for measurement in measurements], rows=rows)
    if needed > chosen.memory:
        hint = "raise the limit, or use fewer columns, codes or soft rows"
        raise InvalidParameter("memory", chosen.memory, f"{needed:,} bytes for this table", hint)
    problem = _Problem(exact, measurements, allowed, people / rows, closer=chosen.closer < 1)
    start = _start(exact, column_shares(exact, measurements, allowed, people), rows, chosen.seed)
    with blas_threads(1):  # the same table on every machine of a kind, and no waiting on a busy one
        return _descended(problem, start, people, chosen, progress)


def soft_rows(people: float, sizes: Sequence[int]) -> int:
    """How many soft rows a table of so many people and codes gets.

    With few, each must stand for many unlike people, and triples come out wrong although pairs fit.

    >>> soft_rows(50, (2, 3)), soft_rows(5000, (2, 3)), soft_rows(10**6, (2, 3)), soft_rows(10**6, (900, 900))
    (100, 1666, 9000, 1666)
    """
    least, most = _MOST_ROWS
    return max(_FEWEST_ROWS, min(int(people / _PEOPLE_A_ROW), max(least, min(most, _MOST_ENTRIES // sum(sizes)))))


def memory_needed(sizes: Sequence[int], marginals: Sequence[Attributes], *, rows: int) -> int:
    """Bytes that `fit` will use at most, beside the measurements themselves.

    Eight numbers for each entry of the soft table, eight for each pair of codes, and for wider marginals their cells
    and the widest one's crossed columns, thrice.

    >>> memory_needed((2, 3), [(0, 1)], rows=100)
    16800
    """
    width = sum(sizes)
    wide = [cells(each, sizes) for each in marginals if len(each) > 2]
    left = max((cells(each, sizes) // max(sizes[a] for a in each) for each in marginals if len(each) > 2), default=0)
    return 4 * (8 * rows * width + 8 * width * width + 2 * sum(wide) + 3 * max(wide, default=0) + 3 * rows * left)


def _descended(
    problem: "_Problem", logits: Singles, people: float, settings: Settings, progress: Progress | None
) -> RelaxedTable:
    """Adam until residuals are as small as the noise, marginal by marginal, or fall no more as the step is halved."""
    adam, rate, halvings = _Adam(logits), _STEP * settings.rate, 0
    best, since, stopped = math.inf, 0, "iterations"
    for step in range(1, settings.iterations + 1):
        soft = problem.softened(logits)
        misfit, excess, gradient = problem.gradient(soft)
        if progress is not None:
            progress(step, misfit)
        problem.lagging = misfit <= settings.misfit
        if misfit <= settings.misfit and (excess <= 0 or misfit <= settings.closer * settings.misfit):
            stopped = "misfit"
            break
        gap = misfit + max(0.0, excess)
        best, since = (gap, 0) if gap < _GAIN * best else (best, since + 1)
        if since > _PATIENCE:
            rate, halvings, since = rate / 2, halvings + 1, 0
            if halvings > _HALVINGS:
                stopped = "plateau"
                break
        adam.move(logits, gradient, rate)
    return RelaxedTable(problem.sizes, people, soft, misfit, step, stopped)


class _Problem:
    """The noisy marginals as one weighted least-squares problem in the entries of the soft table.

    The loss is half of Σ w·(model − noisy)² over the cells, w = 1/σ² in units of the greatest; `misfit` is the mean of
    (model − noisy)²/σ². Columns and pairs are dense (a vector and a matrix); wider marginals are terms of their own.

    `_most_ones` and `_most_pairs` have the largest mean of (model − noisy)²/σ² of each marginal that chance explains:
    at the true table it is χ² divided by the number c of cells, with mean 1 and variance 2/c. If `closer`, the same
    holds for clear cells; and while `lagging`, only single marginals being too far off, such pairs are pulled harder.
    """

    def __init__(
        self,
        sizes: tuple[int, ...],
        measured: Sequence[Measurement],
        allowed: Sequence[Allowed],
        scale: float,
        *,
        closer: bool = False,
    ) -> None:
        merged = _merged(measured)
        self.sizes = sizes
        self._scale = np.float32(scale)  # people a soft row
        self._starts = np.cumsum((0, *sizes[:-1]))
        width = sum(sizes)
        self._unit = max(1 / measurement.sigma**2 for measurement in merged)
        self._cells = sum(measurement.counts.size for measurement in merged)
        self._single, self._single_weight = np.zeros((2, width), np.float32)
        self._pair, self._pair_weight = np.zeros((2, width, width), np.float32)
        self._clear, self.lagging = ClearCells(sizes, most=_CHANCE) if closer else None, False
        self._wide: list[tuple[Attributes, Singles, Any, float]] = []
        self._most_ones, self._most_pairs = np.full(len(sizes), np.inf), np.full((len(sizes), len(sizes)), np.inf)
        for measurement in merged:
            self._take(
                measurement.attributes,
                measurement.counts.astype(np.float32),
                np.float32(1 / measurement.sigma**2 / self._unit),
            )
        for known in allowed:
            self._know(known)

    def _part(self, attribute: int) -> slice:
        start = int(self._starts[attribute])
        return slice(start, start + self.sizes[attribute])

    def _take(self, attributes: Attributes, noisy: Singles, weight: Any) -> None:
        most = 1 + _CHANCE * math.sqrt(2 / noisy.size)
        match attributes:
            case (a,):
                self._single[self._part(a)], self._single_weight[self._part(a)] = noisy, weight
                self._most_ones[a] = most
            case (a, b):
                self._most_pairs[a, b] = most
                if self._clear is not None:
                    sigma = 1 / math.sqrt(float(weight) * self._unit)
                    self._clear.add((a, b), (self._part(a), self._part(b)), noisy, sigma)
                for here, there, flip in ((a, b, False), (b, a, True)):
                    place = self._part(here), self._part(there)
                    self._pair[place] = noisy.T if flip else noisy
                    self._pair_weight[place] = weight
            case _:
                self._wide.append((*_largest_last(attributes, noisy), weight, most))

    def _know(self, known: Allowed) -> None:
        """Cells that must be empty: measured as 0, and with a weight above all others."""
        never = ~known.table
        match known.attributes:
            case (_,):
                return  # those codes are left out at the start
            case (a, b):
                for here, there, cut in ((a, b, never), (b, a, never.T)):
                    place = self._part(here), self._part(there)
                    self._pair[place][cut] = 0
                    self._pair_weight[place][cut] = _SURE
            case _:
                ordered, weight = _largest_last(known.attributes, never * np.float32(_SURE))
                self._wide.append((ordered, np.zeros_like(weight), weight, math.inf))

    def softened(self, logits: Singles) -> Singles:
        """Probabilities: the softmax of each column's logits."""
        soft = logits - np.repeat(np.maximum.reduceat(logits, self._starts, axis=1), self.sizes, axis=1)
        np.exp(soft, out=soft)
        soft /= np.repeat(np.add.reduceat(soft, self._starts, axis=1), self.sizes, axis=1)
        return np.asarray(soft)

    def gradient(self, soft: Singles) -> tuple[float, float, Singles]:
        """The misfit, by how much the worst marginal is beyond chance, and the gradient by the logits."""
        gap = soft.T @ soft
        gap *= self._scale
        gap -= self._pair
        pull = gap * self._pair_weight
        alone = soft.sum(axis=0) * self._scale - self._single
        slope = soft @ (self._clear.pulled(pull) if self._clear is not None and self.lagging else pull)
        slope += alone * self._single_weight
        gap *= pull
        pairs = np.add.reduceat(np.add.reduceat(gap, self._starts, axis=0, dtype=np.float64), self._starts, axis=1)
        ones = np.add.reduceat(alone * alone * self._single_weight, self._starts, dtype=np.float64)
        loss, excess = float(pairs.sum()) / 2 + float(ones.sum()), self._excess(ones, pairs)
        if self._clear is not None:
            excess = max(excess, self._clear.excess(gap * self._unit, self._starts))
        for attributes, noisy, weight, most in self._wide:
            result = self._add_wide(soft, slope, attributes, noisy, weight)
            loss, excess = loss + result, max(excess, result * self._unit / noisy.size - most)
        slope *= soft  # the softmax's own slope: p·(g − Σ p·g) in each column
        slope -= soft * np.repeat(np.add.reduceat(slope, self._starts, axis=1), self.sizes, axis=1)
        return loss * self._unit / self._cells, excess, slope

    def _excess(self, ones: Floats, pairs: Floats) -> float:
        """By how much a column's or pair's mean squared residual is above what chance explains, at most."""
        sizes = np.array(self.sizes)
        alone = (ones * self._unit / sizes - self._most_ones).max()
        return float(max(alone, (pairs * self._unit / np.multiply.outer(sizes, sizes) - self._most_pairs).max()))

    def _add_wide(self, soft: Singles, slope: Singles, attributes: Attributes, noisy: Singles, weight: Any) -> float:
        """A marginal of three or more columns: its share of the loss; its gradient by the entries is added."""
        *left, last = (soft[:, self._part(attribute)] for attribute in attributes)
        crossed = _crossed(left)
        gap = crossed.T @ last
        gap *= self._scale
        gap -= noisy
        pull = gap * weight
        slope[:, self._part(attributes[-1])] += crossed @ pull
        back = (last @ pull.T).reshape(len(soft), *(part.shape[1] for part in left))
        for place, attribute in enumerate(attributes[:-1]):
            slope[:, self._part(attribute)] += _contracted(back, left, place)
        return float(np.vdot(gap, pull))


class _Adam:
    """Adam's running means of the gradient and of its square."""

    def __init__(self, like: Singles) -> None:
        self._mean, self._square = np.zeros((2, *like.shape), np.float32)
        self._steps = 0

    def move(self, logits: Singles, gradient: Singles, rate: float) -> None:
        """One step, in place; the gradient is used up."""
        self._steps += 1
        self._mean *= np.float32(_FIRST)
        self._mean += np.float32(1 - _FIRST) * gradient
        self._square *= np.float32(_SECOND)
        gradient *= gradient
        gradient *= np.float32(1 - _SECOND)
        self._square += gradient
        np.sqrt(self._square, out=gradient)
        gradient += np.float32(1e-15)
        np.divide(self._mean, gradient, out=gradient)
        gradient *= np.float32(rate * math.sqrt(1 - _SECOND**self._steps) / (1 - _FIRST**self._steps))
        logits -= gradient


def _start(sizes: tuple[int, ...], columns: list[Floats], rows: int, seed: int) -> Singles:
    """Logits near those of independent columns, each row a little different, the same for the same seed."""
    likely = np.concatenate([np.log(np.maximum(column, 1e-30)) for column in columns])
    noise = np.asarray(rounded_gaussian(_GRID, (rows, sum(sizes)), entropy=DeterministicEntropy(seed)))
    return (likely + noise * (_SPREAD / _GRID)).astype(np.float32)


def column_shares(
    sizes: tuple[int, ...], measured: Sequence[Measurement], allowed: Sequence[Allowed], people: float
) -> list[Floats]:
    """Shares of the codes of each column, from all marginals that it is in; none less than a tenth of a person."""
    results = []
    for attribute, size in enumerate(sizes):
        sums, weight = np.zeros(size), 0.0
        for each in measured:
            if attribute in each.attributes:
                others = tuple(place for place, a in enumerate(each.attributes) if a != attribute)
                trust = size / (each.counts.size * each.sigma**2)
                sums, weight = sums + trust * each.counts.sum(axis=others), weight + trust
        shares = projected(sums / weight / people) if weight else np.full(size, 1 / size)
        shares = np.maximum(shares, 0.1 / people / size)
        for known in allowed:
            if known.attributes == (attribute,):
                shares = np.where(known.table, shares, 0)
        results.append(shares / shares.sum())
    return results


def projected(shares: Floats) -> Floats:
    """The nearest probabilities (in squared distance) to shares with noise (Duchi, Shalev-Shwartz, Singer 2008).

    >>> projected(np.array([0.8, 0.4, -0.2])).round(3).tolist()
    [0.7, 0.3, 0.0]
    """
    falling = np.sort(shares)[::-1]
    surplus = (np.cumsum(falling) - 1) / np.arange(1, len(shares) + 1)
    cut = surplus[np.flatnonzero(falling > surplus)[-1]]
    return np.asarray(np.maximum(shares - cut, 0))


def _merged(measured: Sequence[Measurement]) -> list[Measurement]:
    """Measurements of the same marginal as one, with the noise of their best mean."""
    results: dict[Attributes, Measurement] = {}
    for measurement in measured:
        other = results.get(measurement.attributes)
        if other is None:
            results[measurement.attributes] = measurement
            continue
        trust = other.sigma**-2 + measurement.sigma**-2
        mean: Any = (other.counts * other.sigma**-2 + measurement.counts * measurement.sigma**-2) / trust
        results[measurement.attributes] = Measurement(measurement.attributes, mean, trust**-0.5)
    return list(results.values())


def fitting(measured: Sequence[Measurement], sizes: tuple[int, ...]) -> Sequence[Measurement]:
    """The measurements, if they fit the sizes."""
    for measurement in some(measured):
        shape = tuple(sizes[a] for a in measurement.attributes if a < len(sizes))
        if measurement.counts.shape != shape or len(shape) != len(measurement.attributes) or not measurement.sigma > 0:
            raise InvalidData(
                f"a measurement of {measurement.attributes} of shape {measurement.counts.shape} does not fit the sizes"
            )
    return measured


def _largest_last(attributes: Attributes, table: Singles) -> tuple[Attributes, Singles]:
    """The marginal with its columns by size, as a matrix: all but the largest column are crossed, so that is least."""
    order = np.argsort(table.shape, kind="stable")
    return tuple(attributes[place] for place in order), np.ascontiguousarray(
        table.transpose(order).reshape(-1, table.shape[order[-1]])
    )


def _crossed(parts: Sequence[Singles]) -> Singles:
    """Each row's products of its entries in several columns, one column of the result a combination of codes."""
    product = parts[0]
    for part in parts[1:]:
        product = (product[:, :, None] * part[:, None, :]).reshape(len(part), -1)
    return product


def _contracted(back: Singles, parts: Sequence[Singles], keep: int) -> Singles:
    """Σ over the codes of all columns but one of back·(their entries)."""
    for place in reversed(range(len(parts))):
        if place == keep:
            continue
        moved = np.moveaxis(back, 1 + place, -1)
        entries = parts[place].reshape(len(back), *([1] * (moved.ndim - 2)), -1)
        back = np.vecdot(moved, entries)
        keep -= place < keep
    return back


MANY_ROWS = 100_000
"""The rows for which it is said what a synthesis needs, where nobody says how many there are."""

_TYPICAL = 100  # steps of a fit; fits of tables and generated tables took 30 to 250
_SWEEPS, _PAIRS = 320, 2048  # of exchanges, when rows are drawn
_PASSES = 13  # over the soft table in a step, beside its products, each as long as one of exp
_PROBE = (1024, 256)
_USUAL = 2e11  # operations of a product a second where reading and drawing were measured


@dataclass(frozen=True, slots=True)
class Needs:
    """Bytes, and seconds of one core: as a rule, and at most."""

    memory: int
    seconds: float
    most: float

    def words(self, people: int | None) -> dict[str, str]:
        """What a synthesis needs, in words.

        >>> Needs(250_000_000, 3.2, 12.0).words(None)["memory"]
        'about 250 MB for 100,000 rows'
        """
        for_many = f" for {MANY_ROWS:,} rows" if people is None else ""
        return {
            "memory": f"about {ceil(self.memory / 1e6):,} MB{for_many}",
            "time": f"about {ceil(self.seconds):,} s of one core{for_many}, at most {ceil(self.most):,} s",
        }


@dataclass(frozen=True, slots=True)
class Speed:
    """What one core of a machine does: floating-point operations of a product, and entries of a pass, in a second."""

    product: float
    entries: float


def needs(
    sizes: Sequence[int],
    marginals: Sequence[Attributes],
    settings: Settings,
    *,
    people: int | None,
    rows_each: int = 1,
    fits: int = 1,
    speed: Speed | None = None,
) -> Needs:
    """About what reading, counting, fitting and drawing take.

    Reading and drawing were measured on tables of 3,000 to 300,000 rows and 5 to 30 columns, on a machine that does
    2·10¹¹ operations of a product a second; a process that has read one row needs some 190 MB.

    >>> found = needs((13,) * 12, [], Settings(), people=300_000, speed=Speed(2e11, 4e9))
    >>> found.memory // 10**6, found.seconds < found.most
    (350, True)
    """
    here = speed or measured_speed()
    rows, wide, width = (people or MANY_ROWS) * rows_each, len(sizes), sum(sizes)
    soft = settings.rows or soft_rows(rows, sizes)
    reading = 0.7 + rows * wide * (1e-7 + 1.6e-8 * wide)
    trying = min(_PAIRS, rows // 32) * wide * 6e-9 + 3e-5
    drawing = _SWEEPS * (wide * trying + 4e-9 * width * width)
    around = (reading + drawing) * (_USUAL / here.product) ** 0.5
    products = 4.0 * soft * width * width + sum(6.0 * soft * cells(each, sizes) for each in marginals if len(each) > 2)
    step = products / here.product + _PASSES * soft * width / here.entries
    memory = 190 * 10**6 + 32 * rows * wide + memory_needed(sizes, marginals, rows=soft)
    usual = min(_TYPICAL, settings.iterations)
    return Needs(memory, around + fits * usual * step, around + fits * settings.iterations * step)


@cache
def measured_speed() -> Speed:
    """The speed of this machine, from a few products and passes of the kind that fits are made of: some 10 ms."""
    soft = np.full(_PROBE, 0.5, np.float32)
    with blas_threads(1):
        products = min(_timed(lambda: soft.T @ soft) for _ in range(5))
        passes = min(_timed(lambda: np.exp(soft)) for _ in range(5))
    return Speed(2.0 * soft.size * _PROBE[1] / products, soft.size / passes)


def _timed(work: Callable[[], object]) -> float:
    before = time.perf_counter()
    work()
    return max(time.perf_counter() - before, 1e-7)
