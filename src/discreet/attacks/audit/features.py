"""What can be told of an output: its numbers, how they compare, their last bits, its form.

A feature is a function of the output alone. Numbers are for thresholds and intervals, labels for sets of values.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from discreet.attacks.audit.outputs import Floats, Labels, Outputs

_COORDINATES = 16  # looked at one by one
_PAIRS = 7  # coordinates whose differences are looked at
_BITS = 8  # coordinates whose last bits are looked at
_RANKED = 6  # coordinates whose order is looked at
_ZERO_BIT = 5000  # the "lowest bit" of zero, NaN and infinities


@dataclass(frozen=True, slots=True)
class NumberOf:
    """A number that every output has (NaN where it has none)."""

    words: str
    of: Callable[[Outputs], Floats]


@dataclass(frozen=True, slots=True)
class LabelOf:
    """A label that every output has."""

    words: str
    of: Callable[[Outputs], Labels]
    told: Callable[[int], str] = str
    summary: str = ""  # for a set of many labels, with a place for their number; "" lists some of them


def numbers(outputs: Outputs) -> Iterator[NumberOf]:
    """The numbers worth a threshold, for outputs such as these.

    >>> from discreet.attacks.audit.outputs import Reader
    >>> [feature.words for feature in numbers(Reader.learn([[1.5]]).read([1.5]))]
    ['the output']
    """
    width = outputs.width
    for place in range(min(width, _COORDINATES)):
        yield NumberOf("the output" if width == 1 else f"number {place + 1}", _column(place))
    if width > 1:
        for words, combine in _TOGETHER.items():
            yield NumberOf(words, combine)
        for i in range(min(width, _PAIRS)):
            for j in range(i + 1, min(width, _PAIRS)):
                yield NumberOf(f"number {i + 1} − number {j + 1}", _difference(i, j))


def labels(outputs: Outputs, texts: Mapping[int, str] | None = None) -> Iterator[LabelOf]:
    """The labels worth counting, for outputs such as these; `texts` tell outputs by their labels.

    >>> from discreet.attacks.audit.outputs import Reader
    >>> [feature.words for feature in labels(Reader.learn([[1.5]]).read([1.5]))][:3]
    ['the output', 'the form of the output', 'the lowest bit of the output']
    """
    width, shown = outputs.width, outputs.shown if texts is None else texts
    yield LabelOf("the output", lambda some: some.whole, lambda code: shown.get(code, ""))
    yield LabelOf("the form of the output", lambda some: some.form, lambda code: shown.get(code, ""))
    for place in range(outputs.hinted.shape[1]):
        yield LabelOf(f"event {place + 1} of the auditor", _hint(place), lambda code: "true" if code else "false")
    for place in range(min(width, _BITS)):
        name = "the output" if width == 1 else f"number {place + 1}"
        yield LabelOf(f"the lowest bit of {name}", _of(place, lowest_bit), _power)
        yield LabelOf(f"the decimals of {name}", _of(place, decimals))
        yield LabelOf(f"{name} modulo 16", _of(place, residue))
        yield LabelOf(f"the kind of {name}", _of(place, kind), lambda code: _KINDS[code])
    if width > 1:
        yield LabelOf("the place of the largest number", lambda some: _extreme(some.numbers))
        yield LabelOf("the place of the smallest number", lambda some: _extreme(-some.numbers))
        yield LabelOf("which numbers are equal or smaller", lambda some: _order(some.numbers[:, :_RANKED]))
        yield LabelOf("the finest lowest bit", lambda some: _finest(some.numbers), _power)


def lowest_bit(values: Floats) -> Labels:
    """The exponent of the last bit that is set: 1.5 is a multiple of 2^−1, 0.1 of 2^−55.

    Floating-point noise has a lattice that depends on where it is added (Mironov 2012).

    >>> lowest_bit(np.array([1.5, 8.0, 0.1, 0.0])).tolist()
    [-1, 3, -55, 5000]
    """
    bits = np.ascontiguousarray(values, np.float64).view(np.int64)
    exponent = (bits >> 52) & 0x7FF
    mantissa = np.where(exponent > 0, bits & ((1 << 52) - 1) | (1 << 52), bits & ((1 << 52) - 1))
    last = mantissa & -mantissa
    trailing = np.frexp(np.maximum(last, 1).astype(np.float64))[1] - 1  # a power of two: exact
    result = np.maximum(exponent, 1) - 1075 + trailing
    return np.where((mantissa == 0) | (exponent == 0x7FF), _ZERO_BIT, result).astype(np.int64)


def decimals(values: Floats) -> Labels:
    """How many decimals a number is written with: 0 for whole numbers, 9 for nine or more, −1 for NaN and infinities.

    >>> decimals(np.array([3.0, 0.25, 1 / 3])).tolist()
    [0, 2, 9]
    """
    result = np.full(values.shape, 9, np.int64)
    with np.errstate(invalid="ignore", over="ignore"):
        for count in range(8, -1, -1):
            scaled = values * 10.0**count
            result[np.abs(scaled - np.rint(scaled)) <= 1e-7] = count
    return np.where(np.isfinite(values), result, -1)


def residue(values: Floats) -> Labels:
    """The last four bits of a whole number; −1 for others.

    >>> residue(np.array([17.0, -1.0, 0.5])).tolist()
    [1, 15, -1]
    """
    fine = np.isfinite(values) & (np.abs(values) < 2.0**53)
    whole = np.where(fine, values, 0.5)
    return np.where(whole == np.floor(whole), np.mod(whole, 16), -1).astype(np.int64)


_KINDS = ("finite", "zero", "minus zero", "none or NaN", "∞", "−∞")


def kind(values: Floats) -> Labels:
    """Whether a number is NaN, an infinity, zero, minus zero or another.

    >>> kind(np.array([1.0, 0.0, -0.0, np.nan, np.inf, -np.inf])).tolist()
    [0, 1, 2, 3, 4, 5]
    """
    zero = values == 0
    conditions = [zero & ~np.signbit(values), zero, np.isnan(values), values == np.inf, values == -np.inf]
    return np.select(conditions, [1, 2, 3, 4, 5], 0).astype(np.int64)


def _hint(place: int) -> Callable[[Outputs], Labels]:
    return lambda some: some.hinted[:, place].astype(np.int64)


def _column(place: int) -> Callable[[Outputs], Floats]:
    return lambda some: some.numbers[:, place]


def _difference(i: int, j: int) -> Callable[[Outputs], Floats]:
    def of(some: Outputs) -> Floats:
        with np.errstate(invalid="ignore"):
            return np.asarray(some.numbers[:, i] - some.numbers[:, j])

    return of


def _of(place: int, function: Callable[[Floats], Labels]) -> Callable[[Outputs], Labels]:
    return lambda some: function(some.numbers[:, place])


def _total(values: Floats) -> Floats:
    """Sums of rows, with 0 where there is no number, and infinities held at the largest float."""
    with np.errstate(over="ignore"):
        return np.asarray(np.nan_to_num(values, nan=0.0).sum(axis=1))


_TOGETHER: dict[str, Callable[[Outputs], Floats]] = {
    "the sum of the numbers": lambda some: _total(some.numbers),
    "the largest number": lambda some: np.where(np.isnan(some.numbers), -np.inf, some.numbers).max(axis=1),
    "the smallest number": lambda some: np.where(np.isnan(some.numbers), np.inf, some.numbers).min(axis=1),
    "the size of the numbers": lambda some: _total(np.abs(some.numbers)),
    "how many numbers there are": lambda some: (~np.isnan(some.numbers)).sum(axis=1).astype(np.float64),
}


def _extreme(values: Floats) -> Labels:
    return np.asarray(np.argmax(np.where(np.isnan(values), -np.inf, values), axis=1), np.int64)


def _order(values: Floats) -> Labels:
    """For each pair whether the first is smaller, equal or larger, as digits base 3."""
    label = np.zeros(len(values), np.int64)
    for i in range(values.shape[1]):
        for j in range(i + 1, values.shape[1]):
            label = 3 * label + (values[:, i] < values[:, j]) + 2 * (values[:, i] == values[:, j])
    return label


def _finest(values: Floats) -> Labels:
    return np.asarray(np.min([lowest_bit(column) for column in values.T[:_BITS]], axis=0), np.int64)


def _power(bit: int) -> str:
    return "none" if bit == _ZERO_BIT else f"2^{bit}"
