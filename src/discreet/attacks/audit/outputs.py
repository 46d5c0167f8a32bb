"""What a mechanism gave out, many times, as arrays: numbers, and labels of the whole output and of its form.

An output may be anything: a number, a vector, a list of ⊤ and ⊥ that ends early, a dictionary of keys, an exception.
Nothing is rounded away: the label of the whole tells two floats apart by their last bit.
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
class Raised:
    """A mechanism that failed instead of answering: whoever asked can see that, so it is an output.

    >>> Raised("ValueError")
    Raised(kind='ValueError')
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
