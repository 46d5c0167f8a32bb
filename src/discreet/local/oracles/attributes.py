"""Several attributes of one person: split ε among them, sample one of them, or sample one and fake the others.

A value is a tuple, one number for each attribute; `oracle` is the kind of oracle for all of them, or a list of kinds.
A report is a row of int64 words. All three protect the whole person: any two tuples are told apart by at most e^ε.

Splitting leaves each attribute ε/d, and its variances grow with d²; sampling leaves each attribute all of ε for n/d
people, and they grow with d (Nguyên, Xiao, Yang, Hui, Shin, Shin 2016; Wang et al. 2019, on several attributes):
sampling wins.

>>> from discreet.local.oracles.responses import KRR
>>> people = [[0, 3], [1, 4], [1, 1]]
>>> sampled = Sample(epsilon=1, sizes=[2, 5], oracle=KRR)
>>> len(sampled.estimate(sampled.tally(sampled.randomize(people)), reports=3))
2
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import Number, exp_down, integer, log_down
from discreet.local.estimation.frequencies import ConfidenceBounds, Evidence, Floats, Frequencies
from discreet.local.oracles.oracle import Epsilon, Integers, Oracle, PureLDP, as_rows, read_epsilon, well_formed_rows
from discreet.mechanisms.channel import Channel
from discreet.mechanisms.mechanism import countable, regular
from discreet.noise import Entropy, uniform_below
from discreet.noise.entropy import SYSTEM

Kind = Callable[..., Oracle]

_MOST_ATTRIBUTES = 1000


@dataclass(frozen=True, init=False)
class _Attributes(PureLDP):
    """What the three have in common: one oracle for each attribute, and a layout of words."""

    epsilon: Epsilon = Epsilon()
    oracles: tuple[Oracle, ...] = ()

    def __init__(self, *, epsilon: Number, sizes: Sequence[int], oracle: Kind | Sequence[Kind]) -> None:
        object.__setattr__(self, "epsilon", epsilon)
        count = _length(sizes, "sizes", "a list of sizes, one for each attribute")
        integer(count, "number of sizes", at_least=1, at_most=_MOST_ATTRIBUTES)
        _length([] if callable(oracle) else oracle, "oracle", "a kind of oracle, or a list of kinds")
        kinds = [oracle] * count if callable(oracle) else list(oracle)
        if len(kinds) != count:
            raise InvalidParameter("oracle", f"{len(kinds)} kinds", f"one kind, or {count}, one for each attribute")
        each = self._each(self.epsilon, count)
        made = tuple(kind(epsilon=each, size=size) for kind, size in zip(kinds, sizes, strict=True))
        object.__setattr__(self, "oracles", made)

    @staticmethod
    def _each(epsilon: Fraction, count: int) -> Fraction:
        """The ε of each attribute's oracle."""
        return epsilon

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many values each attribute has."""
        return tuple(oracle.size for oracle in self.oracles)

    @property
    def widths(self) -> tuple[int, ...]:
        """How many words a report of each attribute has."""
        return tuple(oracle.report_width or 1 for oracle in self.oracles)

    def _read(self, values: ArrayLike) -> Integers:
        """Private tuples, one a row, each number in its attribute's domain."""
        array, width = regular(values, "values"), len(self.oracles)
        if not array.size:
            return np.zeros((0, width), np.int64)
        if array.ndim == 1:
            array = array[None]
        if array.ndim != 2 or array.shape[1] != width or array.dtype.kind not in "biu" or array.max() >= 2**62:
            raise InvalidData(f"values: expected rows of {width} whole numbers, one for each attribute")
        true = array.astype(np.int64)
        if (true < 0).any() or (true >= np.array(self.sizes)).any():
            raise InvalidData("values: expected each number from 0 to below its attribute's size")
        return true

    def _parts(self, rows: NDArray[Any]) -> list[NDArray[Any]]:
        """The words of each attribute, as its oracle has them."""
        ends = np.cumsum(self.widths)[:-1]
        pieces = np.split(rows, ends, axis=1)
        return [_shaped(o, piece) for piece, o in zip(pieces, self.oracles, strict=True)]

    def valid(self, reports: ArrayLike) -> NDArray[np.bool_]:
        """Which rows have the words of all attributes, each a report that its oracle could have made."""
        rows, fine = _well_formed(reports, sum(self.widths))
        checks = [o.valid(p) for o, p in zip(self.oracles, self._parts(rows), strict=True)]
        fine[fine] = np.logical_and.reduce(checks)
        return fine

    def tally(self, reports: ArrayLike) -> Integers:
        """The tallies of the attributes, one after the other."""
        rows = self._sound(reports, sum(self.widths))
        return np.concatenate([o.tally(p) for o, p in zip(self.oracles, self._parts(rows), strict=True)])

    def _sound(self, reports: ArrayLike, width: int) -> NDArray[Any]:
        if not len(as_rows(reports)):
            return np.zeros((0, width), np.int64)
        if not self.valid(reports).all():
            raise InvalidData(f"reports: expected rows of {width} words; drop the malformed ones first (`valid`)")
        return _well_formed(reports, width)[0]

    def _tallies(self, tally: ArrayLike, extra: int = 0) -> list[NDArray[Any]]:
        lengths = [o.tally_size + extra for o in self.oracles]
        array = regular(tally, "tally")
        if array.shape != (sum(lengths),) or array.dtype.kind not in "iu":
            raise InvalidData(f"tally: expected {sum(lengths)} whole numbers, as `tally` gives them")
        return np.split(array, np.cumsum(lengths)[:-1])

    def _inputs(self) -> list[tuple[int, ...]]:
        return list(product(*(range(size) for size in self.sizes)))


class Split(_Attributes):
    """Every attribute is reported with ε/d.

    Guarantee: ε-LDP for the whole tuple. Proof. The d reports have independent coins: ε's add up (Dwork, Roth 2014,
    basic composition).

    >>> from discreet.local.oracles.responses import KRR
    >>> both = Split(epsilon=1, sizes=[2, 3], oracle=KRR)
    >>> both.oracles[0].epsilon, both.channel().epsilon("all") <= 1
    (Fraction(1, 2), True)
    """

    @staticmethod
    def _each(epsilon: Fraction, count: int) -> Fraction:
        return epsilon / count

    def randomize(self, values: ArrayLike, *, entropy: Entropy | None = None) -> Integers:
        """One row of words for each tuple: the reports of all attributes."""
        true, source = self._read(values), SYSTEM if entropy is None else entropy
        return np.concatenate([_rows(o, true[:, j], source) for j, o in enumerate(self.oracles)], axis=1)

    def estimate(self, tally: ArrayLike, *, reports: int) -> tuple[Frequencies, ...]:
        """Each oracle's own unbiased estimate."""
        parts = self._tallies(tally)
        return tuple(o.estimate(part, reports=reports) for o, part in zip(self.oracles, parts, strict=True))

    def channel(self) -> Channel:
        """p(reports | tuple), in rationals; outputs are tuples of the oracles' outputs."""
        return _joint(
            self, lambda value, rows, _: prod((row[x] for row, x in zip(rows, value, strict=True)), start=Fraction(1))
        )


class Sample(_Attributes):
    """One attribute, chosen uniformly without looking, is reported with all of ε; the report says which.

    Guarantee: ε-LDP for the whole tuple. Proof. p(j, y | x) = p_j(y | x_j)/d, and each oracle is ε-LDP.

    The first word of a report is the attribute, then come its words, then zeros.

    >>> from discreet.local.oracles.responses import KRR
    >>> sampled = Sample(epsilon=1, sizes=[2, 3], oracle=KRR)
    >>> sampled.randomize([[0, 2]]).shape, sampled.channel().epsilon("all")
    ((1, 2), 1.0)
    """

    def randomize(self, values: ArrayLike, *, entropy: Entropy | None = None) -> Integers:
        """One row of words for each tuple: which attribute, and its report."""
        true, source = self._read(values), SYSTEM if entropy is None else entropy
        out = np.zeros((len(true), 1 + max(self.widths)), np.int64)
        out[:, 0] = uniform_below(len(self.oracles), len(true), entropy=source)
        for j, oracle in enumerate(self.oracles):
            mine = out[:, 0] == j
            out[mine, 1 : 1 + self.widths[j]] = _rows(oracle, true[mine, j], source)
        return out

    def valid(self, reports: ArrayLike) -> NDArray[np.bool_]:
        """Which rows name an attribute, hold a report that its oracle could have made, and zeros after it."""
        rows, fine = _well_formed(reports, 1 + max(self.widths))
        good = np.zeros(len(rows), np.bool_)
        for j, oracle in enumerate(self.oracles):
            mine = np.flatnonzero(rows[:, 0] == j)
            end = 1 + self.widths[j]
            good[mine] = oracle.valid(_shaped(oracle, rows[mine, 1:end])) & ~rows[mine, end:].any(axis=1)
        fine[fine] = good
        return fine

    def tally(self, reports: ArrayLike) -> Integers:
        """For each attribute: how many reports are about it, and their tally."""
        rows = self._sound(reports, 1 + max(self.widths))
        parts: list[Any] = []
        for j, oracle in enumerate(self.oracles):
            mine = rows[rows[:, 0] == j, 1 : 1 + self.widths[j]]
            parts += [[len(mine)], oracle.tally(_shaped(oracle, mine))]
        return np.concatenate(parts).astype(np.int64)

    def estimate(self, tally: ArrayLike, *, reports: int) -> tuple[Frequencies | None, ...]:
        """Each oracle's estimate from the reports about its attribute; None where there is none.

        Those who report about an attribute are a uniform sample of all, so the shares are unbiased for all; the
        variance has the sampling in it, s(1 − s)/n_j·(n − n_j)/(n − 1). Bounds by support hold for all people too:
        the supports that are counted are negatively dependent (Borcea, Brändén, Liggett 2009: strongly
        Rayleigh), so that their number is distributed as a sum of independent coins: all that `binomial_bounds` asks.
        """
        count, parts = integer(reports, "reports", at_least=1), self._tallies(tally, extra=1)
        if (total := sum(int(part[0]) for part in parts)) != count:
            raise InvalidParameter("reports", reports, f"{total}, as the tally says", "count valid reports")
        return tuple(_sampled(o, part, count) if part[0] else None for o, part in zip(self.oracles, parts, strict=True))

    def channel(self) -> Channel:
        """p((attribute, report) | tuple), in rationals."""
        tables, inputs = [oracle.channel() for oracle in self.oracles], self._inputs()
        outputs = [(j, y) for j, table in enumerate(tables) for y in table.outputs]
        countable(len(inputs) * len(outputs), "channel", most=1_000_000)
        rows = [
            [p / len(tables) for table, x in zip(tables, value, strict=True) for p in table.matrix[x]]
            for value in inputs
        ]
        return Channel(rows, inputs=inputs, outputs=outputs)


class SampleWithFakes(_Attributes):
    """RS+FD: one attribute is reported with all of ε, the others report uniformly random values; which one is hidden.

    Arcolezi, Couchot, Al Bouna, Xiao 2021. A fake goes through its oracle like a true value (for k-RR that is a
    uniform report, for unary encodings the paper's "UE-r"), so that reports of all attributes look alike.

    Guarantee: ε-LDP for the whole tuple. Proof. p(y|x) is the mean over j of p_j(y_j|x_j)·Π_{i≠j} f_i(y_i), f_i the
    law of a fake; each term changes by at most e^ε from one tuple to another.

    No amplification. The paper puts ε' = ln(d(e^ε − 1) + 1) inside (`amplified`) and claims ε for the whole. That is
    not so for persons: two tuples that differ in all attributes change every term of the mean, and for y = x the ratio
    is e^(ε') (`channel` shows it; so do the tests). With k-RR it holds between tuples that differ in one attribute, if
    all attributes have one size: then hiding which one was sampled does pay.

    >>> from discreet.local.oracles.responses import KRR
    >>> hidden = SampleWithFakes(epsilon=1, sizes=[2, 2], oracle=KRR)
    >>> hidden.channel().epsilon("all")
    1.0
    """

    def randomize(self, values: ArrayLike, *, entropy: Entropy | None = None) -> Integers:
        """One row of words for each tuple: a report of every attribute, one of them true."""
        true, source = self._read(values), SYSTEM if entropy is None else entropy
        chosen = np.asarray(uniform_below(len(self.oracles), len(true), entropy=source))
        parts = []
        for j, oracle in enumerate(self.oracles):
            fake = np.asarray(uniform_below(oracle.size, len(true), entropy=source), np.int64)
            parts.append(_rows(oracle, np.where(chosen == j, true[:, j], fake), source))
        return np.concatenate(parts, axis=1)

    def estimate(self, tally: ArrayLike, *, reports: int) -> tuple[Frequencies, ...]:
        """d·share − (d − 1)/k of what each oracle estimates: unbiased.

        Proof. A report of an attribute of k values is about the true value with probability 1/d and else about a
        uniform one, so its oracle estimates share/d + (1 − 1/d)/k. The variance has the choice and the fakes in it.
        """
        parts, d = self._tallies(tally), len(self.oracles)
        estimates = [o.estimate(part, reports=reports) for o, part in zip(self.oracles, parts, strict=True)]
        return tuple(_unfaked(each, d) for each in estimates)

    def channel(self) -> Channel:
        """p(reports | tuple), in rationals."""
        d = len(self.oracles)

        def mixed(value: tuple[int, ...], rows: list[Any], fakes: list[Any]) -> Any:
            terms = (prod([fakes[i] for i in range(d) if i != j], start=rows[j][value[j]]) for j in range(d))
            return sum(terms, Fraction(0)) / d

        return _joint(self, mixed)


def amplified(epsilon: Number, attributes: int) -> Fraction:
    """ε' = ln(d(e^ε − 1) + 1), rounded down: the ε that sampling one of d with ε' leaves to what is sampled or not.

    Li, Qardaji, Su 2012 (sampling); used by Arcolezi et al. 2021 for whole persons, which it does not protect by ε
    but by ε': see `SampleWithFakes`.

    >>> round(float(amplified(1, 3)), 4)
    1.8172
    """
    count = integer(attributes, "attributes", at_least=1)
    return log_down(count * (exp_down(read_epsilon(epsilon)) - 1) + 1)


# Estimates


@dataclass(frozen=True, slots=True, eq=False)
class _Stretched:
    """Evidence about share/d + (1 − 1/d)/k, carried over to the share."""

    of: Evidence
    d: int
    shift: float

    def confidence_bounds(self, tail: float) -> ConfidenceBounds:
        """The reports' expected shares lie within the oracle's bounds, since its proof asks for independence only."""
        low, high = self.of.confidence_bounds(tail)
        return self.d * low - self.shift, self.d * high - self.shift


def _unfaked(estimate: Frequencies, d: int) -> Frequencies:
    shift = (d - 1) / estimate.size
    shares = d * estimate.shares - shift
    inside, fake = np.clip(shares, 0, 1), shift / d
    mine = 1 / d + fake  # P(a report is about v) for those who have v; `fake` for others
    inputs: Floats = inside * mine * (1 - mine) + (1 - inside) * fake * (1 - fake)
    evidence = None if estimate.evidence is None else _Stretched(estimate.evidence, d, shift)
    return Frequencies(shares, d**2 * (estimate.variance + inputs / estimate.reports), estimate.reports, evidence)


def _sampled(oracle: Oracle, part: Integers, reports: int) -> Frequencies:
    mine = int(part[0])
    estimate = oracle.estimate(part[1:], reports=mine)
    inside = np.clip(estimate.shares, 0, 1)
    left = (reports - mine) / max(reports - 1, 1) / mine
    return Frequencies(estimate.shares, estimate.variance + inside * (1 - inside) * left, mine, estimate.evidence)


# Reading, and rows of words


def _length(given: Sequence[Any], name: str, expected: str) -> int:
    if isinstance(given, str | bytes) or not hasattr(given, "__len__"):
        raise InvalidParameter(name, given, expected)
    return len(given)


def _shaped(oracle: Oracle, rows: NDArray[Any]) -> NDArray[Any]:
    return rows[:, 0] if oracle.report_width is None else rows


def _rows(oracle: Oracle, values: Integers, entropy: Entropy) -> Integers:
    return oracle.randomize(values, entropy=entropy).reshape(len(values), oracle.report_width or 1)


def _well_formed(reports: ArrayLike, width: int) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """The rows of the right width, and which they are."""
    rows = as_rows(reports)
    fine = well_formed_rows(rows, width)
    kept = rows[fine]
    return (np.array(kept.tolist(), np.int64) if kept.dtype == object else kept).reshape(-1, width), fine


def _joint(of: _Attributes, chance: Callable[[tuple[int, ...], list[Any], list[Any]], Any]) -> Channel:
    """The channel whose entry is `chance(value, columns, fakes)`; columns[j][x] = p_j(y_j | x)."""
    tables, inputs = [oracle.channel() for oracle in of.oracles], of._inputs()
    outputs: Iterable[tuple[Any, ...]] = list(product(*(range(len(table.outputs)) for table in tables)))
    names = [tuple(t.outputs[y] for t, y in zip(tables, indices, strict=True)) for indices in outputs]
    countable(len(inputs) * len(names), "channel", most=1_000_000)
    entries = np.empty((len(inputs), len(names)), dtype=object)
    for column, indices in enumerate(outputs):
        rows = [list(t.matrix[:, y]) for t, y in zip(tables, indices, strict=True)]
        fakes = [sum(row, Fraction(0)) / len(row) for row in rows]
        for row, value in enumerate(inputs):
            entries[row, column] = chance(value, rows, fakes)
    return Channel(entries.tolist(), inputs=inputs, outputs=names)
