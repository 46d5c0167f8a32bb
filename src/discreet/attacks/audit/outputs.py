"""What a mechanism gave out, many times, as arrays: numbers, and labels of the whole output and of its form.

An output may be anything: a number, a vector, a list of ⊤ and ⊥ that ends early, a dictionary of keys, an exception.
Nothing is rounded away: the label of the whole tells two floats apart by their last bit.

What can be told of an output: its numbers, how they compare, their last bits, its form.

A feature is a function of the output alone. Numbers are for thresholds and intervals, labels for sets of values.
"""

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidData

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]

WIDEST = 64  # numbers of one output that are looked at one by one
_MEMBERS = 24  # groups of an output that are looked at one by one
_SHOWN = 500  # outputs whose text is kept, so that an event can be told in words


@dataclass(frozen=True, slots=True)
class ErrorOutput:
    """A mechanism that failed instead of answering: whoever asked can see that, so it is an output.

    >>> ErrorOutput("ValueError")
    ErrorOutput(kind='ValueError')
    """

    kind: str


@dataclass(frozen=True, slots=True)
class Outputs:
    """n outputs: `numbers` (n × width, NaN where there is none), a label of each whole output, and of its form.

    The form is all but the real numbers: how long the output is, its keys, texts, booleans and whole numbers.

    >>> some = Reader.learn([[(False, True, 2.5), (True, 1.5)]]).read([(False, True, 2.5), (True, 1.5)])
    >>> some.numbers.shape, some.whole[0] == some.whole[1], len(some)
    ((2, 3), np.False_, 2)
    """

    numbers: Floats
    whole: Labels
    form: Labels
    hinted: NDArray[np.bool_]  # n × events that the auditor brought along
    shown: Mapping[int, str] = field(default_factory=dict, repr=False)
    members: NDArray[np.bool_] = field(default_factory=lambda: _none(0))  # n × groups of the reader
    groups: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.whole)

    @property
    def width(self) -> int:
        """How many numbers an output has at most."""
        return int(self.numbers.shape[1])

    def part(self, start: int, stop: int) -> "Outputs":
        """Some of the outputs."""
        rows = slice(start, stop)
        return replace(
            self,
            numbers=self.numbers[rows],
            whole=self.whole[rows],
            form=self.form[rows],
            hinted=self.hinted[rows],
            members=self.members[rows],
        )


@dataclass(frozen=True, slots=True)
class Reader:
    """How outputs become arrays, decided once from the outputs that an audit learns from.

    Guarantee: what an output becomes depends on that output alone, not on the others of its batch; so draws that were
    independent stay so, and an event of the arrays is an event of the output.

    >>> Reader.learn([[1.5, 2.0], [3.0]]).read([4.0]).numbers.tolist()
    [[4.0]]
    """

    columns: int | None  # numbers in each output, where all have equally many and nothing else; None for other things
    width: int
    hints: tuple[Callable[[Any], bool], ...] = ()
    groups: tuple[str, ...] = ()  # keys, members and texts that outputs hold, as Python writes them

    @classmethod
    def learn(cls, batches: Sequence[Any], hints: tuple[Callable[[Any], bool], ...] = ()) -> "Reader":
        """A reader that suits these batches of outputs."""
        arrays = [_regular(settled(batch)) for batch in batches]
        if all(array is not None for array in arrays):
            columns = {array.shape[1] for array in arrays if array is not None}
            if len(columns) == 1:
                (count,) = columns
                return cls(count, min(count, WIDEST), hints)
        longest = max((len(_leaves(output)[0]) for batch in batches for output in settled(batch)), default=0)
        seen = Counter(member for batch in batches for output in settled(batch) for member in _members(output))
        return cls(None, max(1, min(longest, WIDEST)), hints, tuple(sorted(dict(seen.most_common(_MEMBERS)))))

    def read(self, outputs: Any) -> Outputs:
        """The outputs of one batch as arrays."""
        listed = settled(outputs)
        plain = self._read(listed)
        if self.groups:
            held = [[group in members for group in self.groups] for members in map(_members, listed)]
            plain = replace(plain, members=np.array(held, np.bool_).reshape(len(plain), -1), groups=self.groups)
        if not self.hints:
            return plain
        told = [[bool(hint(_plain(output))) for hint in self.hints] for output in listed]
        return replace(plain, hinted=np.array(told, np.bool_).reshape(len(plain), len(self.hints)))

    def _read(self, listed: Any) -> Outputs:
        if self.columns is None:
            return _of_things(listed, self.width)
        array = _regular(listed)
        if array is not None and array.shape[1] == self.columns:
            return _of_array(array, self.width)
        return joined([self._single(output) for output in listed])

    def _single(self, output: Any) -> Outputs:
        array = _regular([output])
        fits = array is not None and array.shape[1] == self.columns
        return _of_array(array, self.width) if array is not None and fits else _of_things([output], self.width)


def joined(parts: Sequence[Outputs]) -> Outputs:
    """Several batches of one reader as one.

    >>> reader = Reader.learn([[1.0]])
    >>> len(joined([reader.read([1.0]), reader.read([2.0, 3.0])]))
    3
    """
    shown: dict[int, str] = {}
    for part in parts:
        shown |= part.shown
    numbers = np.concatenate([part.numbers for part in parts])
    whole, form = (np.concatenate([getattr(part, name) for part in parts]) for name in ("whole", "form"))
    hinted, members = (np.concatenate([getattr(part, name) for part in parts]) for name in ("hinted", "members"))
    return Outputs(numbers, whole, form, hinted, shown, members, parts[0].groups)


def settled(outputs: Any) -> Any:
    """A batch as an array or a list, its streams read to their end: they can be read only once.

    >>> settled([iter([True, False])])
    [(True, False)]
    """
    if isinstance(outputs, np.ndarray):
        return outputs
    if isinstance(outputs, str | bytes) or not isinstance(outputs, Iterable):
        raise InvalidData("outputs: expected a list or an array with one entry for each draw")
    return [tuple(output) if isinstance(output, Iterator) else output for output in outputs]


def _members(output: Any) -> frozenset[str]:
    """The keys of a mapping, the members of a set, the texts of a list."""
    output = _plain(output)
    if isinstance(output, Mapping | set | frozenset):
        return frozenset(map(repr, output))
    return (
        frozenset(repr(part) for part in output if isinstance(part, str))
        if isinstance(output, list | tuple)
        else frozenset()
    )


def _plain(output: Any) -> Any:
    """Arrays become lists."""
    return output.tolist() if isinstance(output, np.ndarray | np.generic) else output


def _regular(outputs: Any) -> NDArray[Any] | None:
    """Outputs that are numbers, or vectors of equally many numbers, as an array; None for all others."""
    if isinstance(outputs, np.ndarray):
        return _flat(outputs)
    if not isinstance(outputs, list | tuple) or not outputs:
        return None
    kinds = set(map(type, outputs))
    if kinds <= {bool, int, float} or all(issubclass(kind, np.number | np.bool_) for kind in kinds):
        return _flat(_array(outputs))
    if kinds == {np.ndarray} and len({output.shape for output in outputs}) == 1:
        return _flat(np.stack(outputs))
    if (
        kinds <= {list, tuple}
        and len({len(output) for output in outputs}) == 1
        and _types(outputs) <= {bool, int, float}
    ):
        return _flat(_array(outputs))
    return None


def _array(outputs: Any) -> NDArray[Any]:
    """The outputs as an array; of objects where it would round whole numbers because floats stand beside them."""
    try:
        array = np.asarray(outputs)
    except (ValueError, OverflowError):
        return np.empty(0, object)
    if array.dtype.kind == "f" and (np.abs(array) >= 2.0**53).any():
        return np.asarray(outputs, object) if int in _types(outputs) else array
    return array


def _types(outputs: Any) -> set[type]:
    return {type(leaf) for output in outputs for leaf in (output if isinstance(output, list | tuple) else (output,))}


def _flat(array: NDArray[Any]) -> NDArray[Any] | None:
    if array.dtype.kind not in "biuf" or array.ndim == 0 or array.dtype.itemsize > 8:
        return None
    return array.reshape(len(array), -1) if array.size else None


def _of_array(rows: NDArray[Any], width: int) -> Outputs:
    exact = rows.astype(np.float64)
    whole = _mixed(rows, exact)
    texts = (str(row[0] if len(row) == 1 else row) for row in rows[:_SHOWN].tolist())
    shown = {int(code): text for code, text in zip(whole[:_SHOWN], texts, strict=False)}
    return Outputs(exact[:, :width], whole, np.zeros(len(rows), np.int64), _none(len(rows)), shown, _none(len(rows)))


def _mixed(rows: NDArray[Any], exact: Floats) -> Labels:
    """A label for each row from the bits of its entries; equal rows have equal labels, others hardly ever."""
    words = np.ascontiguousarray(exact).view(np.uint64)
    if rows.dtype.kind in "iu":  # whole numbers that a float cannot hold
        words = np.where(np.abs(exact) >= 2.0**53, rows.astype(np.uint64), words)
    label = np.zeros(len(rows), np.uint64)
    with np.errstate(over="ignore"):
        for column in words.T:  # an odd multiplier and a shift, as hash functions do
            label = (label ^ column) * np.uint64(0x9E3779B97F4A7C15)
            label ^= label >> np.uint64(29)
    return label.view(np.int64)


def _of_things(outputs: Iterable[Any], width: int) -> Outputs:
    read = [_leaves(output) for output in outputs]
    numbers = np.full((len(read), width), np.nan)
    for row, (values, _, _) in zip(numbers, read, strict=True):
        row[: min(len(values), width)] = values[:width]
    codes: dict[str, int] = {}
    whole = np.array([_code(text, codes) for _, _, text in read], np.int64)
    form = np.array([_code(text, codes) for _, text, _ in read], np.int64)
    shown = {int(code): text for code, (_, _, text) in zip(whole[:_SHOWN], read, strict=False)}
    shown |= {int(code): text for code, (_, text, _) in zip(form[:_SHOWN], read, strict=False)}
    return Outputs(numbers, whole, form, _none(len(read)), shown, _none(len(read)))


def _none(count: int) -> NDArray[np.bool_]:
    return np.zeros((count, 0), np.bool_)


def _code(text: str, known: dict[str, int]) -> int:
    if text not in known:
        digest = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).digest()
        known[text] = int.from_bytes(digest, "big", signed=True)
    return known[text]


def _leaves(output: Any) -> tuple[list[float], str, str]:
    """The numbers in an output, the text of its form and the text of the whole."""
    values: list[float] = []
    form: list[str] = []
    whole: list[str] = []
    _walk(output, values, form, whole)
    return values, "".join(form), "".join(whole)


def _walk(thing: Any, values: list[float], form: list[str], whole: list[str]) -> None:
    thing = _plain(thing)
    if isinstance(thing, Mapping):
        entries = sorted(thing.items(), key=lambda entry: repr(entry[0]))
        _nested([part for key, value in entries for part in (_Key(key), value)], "{}", values, form, whole)
    elif isinstance(thing, set | frozenset):
        _nested([_Key(output) for output in sorted(thing, key=repr)], "{}", values, form, whole)
    elif isinstance(thing, list | tuple):
        _nested(thing, "[]", values, form, whole)
    else:
        number = _number(thing)
        text = f"{thing!r}"
        values.extend([] if isinstance(thing, _Key) else [number])
        form.append("·" if isinstance(thing, float) and math.isfinite(thing) else text)
        whole.append(text)


def _nested(parts: Sequence[Any], marks: str, values: list[float], form: list[str], whole: list[str]) -> None:
    for texts in (form, whole):
        texts.append(marks[0])
    for place, part in enumerate(parts):
        if place:
            form.append(" ")
            whole.append(" ")
        _walk(part, values, form, whole)
    for texts in (form, whole):
        texts.append(marks[1])


@dataclass(frozen=True, slots=True, repr=False)
class _Key:
    """A key of a mapping, a member of a set: part of the form, not a number."""

    key: Any

    def __repr__(self) -> str:
        return f"{self.key!r}:"


def _number(thing: Any) -> float:
    if not isinstance(thing, bool | int | float):
        return math.nan
    try:
        return float(thing)
    except OverflowError:
        return math.copysign(math.inf, thing)


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
    describe: Callable[[int], str] = str
    summary: str = ""  # for a set of many labels, with a place for their number; "" lists some of them
    bits: bool = False  # about the last bits of floats


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
        yield LabelOf(f"the lowest bit of {name}", _of(place, lowest_bit), _power, bits=True)
        yield LabelOf(f"the decimals of {name}", _of(place, decimals))
        yield LabelOf(f"{name} modulo 16", _of(place, residue))
        yield LabelOf(f"the kind of {name}", _of(place, kind), lambda code: _KINDS[code])
    if width > 1:
        yield LabelOf("the place of the largest number", lambda some: _extreme(some.numbers))
        yield LabelOf("the place of the smallest number", lambda some: _extreme(-some.numbers))
        yield LabelOf("which numbers are equal or smaller", lambda some: _order(some.numbers[:, :_RANKED]))
        yield LabelOf("the finest lowest bit", lambda some: _finest(some.numbers), _power, bits=True)


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
