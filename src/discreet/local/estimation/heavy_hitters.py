"""Heavy hitters of a domain too large to list (texts, web addresses): prefixes are extended, round by round.

The people are divided at random into as many groups as there are rounds. The group of a round is asked for the first
bits of its values, more of them each round, through any frequency oracle; only prefixes that were frequent in the round
before can be named, all others are one answer, "another". So domains stay small: candidates × 2^step + 1. This is
prefix extension (Bassily, Nissim, Stemmer, Thakurta 2017; Wang, Li, Jha 2019), one round after the other.

>>> from discreet.local.oracles.responses import KRR
>>> from discreet.local.estimation.heavy_hitters import PrefixExtension, encode
>>> words = PrefixExtension(lambda size: KRR(epsilon=4, size=size), width=2, step=4, keep=4)
>>> result = words.find(encode(["hi"] * 6000 + ["ok"] * 4000, width=2), confidence="0.999999")
>>> sorted(hitter.text for hitter in result)
['hi', 'ok']
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import Number, integer
from discreet.local.estimation.frequencies import Frequencies
from discreet.noise import Entropy, uniform_below
from discreet.privacy.loss import Loss

Strings = NDArray[np.uint8]
"""One row of bytes for each person, all of the same width."""


class Reporter(Protocol):
    """What a round needs of a frequency oracle; every `Oracle` has it."""

    @property
    def loss(self) -> Loss:
        """What one report costs."""
        ...

    def randomize(self, values: ArrayLike, *, entropy: Entropy | None = None) -> NDArray[np.int64]:
        """One report for each value."""
        ...

    def tally(self, reports: ArrayLike) -> NDArray[np.int64]:
        """What the estimate needs to know of them."""
        ...

    def estimate(self, tally: ArrayLike, *, reports: int) -> Frequencies:
        """The shares of the values."""
        ...


@dataclass(frozen=True, slots=True)
class Hitter:
    """A frequent value: its bytes, how many people have it (estimated, among all), and bounds of that number."""

    value: bytes
    count: float
    low: float
    high: float

    @property
    def text(self) -> str:
        """The value as text; see `decode`."""
        return decode(self.value)


@dataclass(frozen=True, slots=True)
class Round:
    """One question, public: prefixes of `length` bits, which extend the `candidates` (each of `known` bits).

    Its answers are numbers: candidate·2^(length − known) + the further bits, and the last one for any other value.

    >>> first = Round(length=2, known=0, candidates=(b"",), width=1)
    >>> first.size, first.answers(encode(["a"], width=1)).tolist()  # a is 01100001
    (5, [1])
    """

    length: int
    known: int
    candidates: tuple[bytes, ...]
    width: int

    @property
    def size(self) -> int:
        """The number of answers."""
        return (len(self.candidates) << (self.length - self.known)) + 1

    def answers(self, values: Strings) -> NDArray[np.int64]:
        """The truthful answer of each person; it runs on their devices, and goes nowhere but to `randomize`."""
        rows = _read_strings(values, self.width)
        order = np.argsort(np.array(self.candidates, dtype=f"S{self.width}"))
        names = np.array(self.candidates, dtype=f"S{self.width}")[order]
        prefixes = _prefixes(rows, self.known)
        place = np.minimum(np.searchsorted(names, prefixes), len(names) - 1)
        further = _bits(rows, self.known, self.length)
        answer = (order[place] << (self.length - self.known)) + further
        return np.where(names[place] == prefixes, answer, self.size - 1).astype(np.int64)

    def prefix(self, answer: int) -> bytes:
        """The prefix that an answer (not the last) means, filled with zero bits to whole bytes."""
        which, further = divmod(answer, 1 << (self.length - self.known))
        known = int.from_bytes(self.candidates[which].ljust(self.width, b"\0"), "big")
        return (known | further << (8 * self.width - self.length)).to_bytes(self.width, "big")


@dataclass(frozen=True, slots=True)
class PrefixExtension:
    """Finds values of `width` bytes that many people have.

    `oracle(size)` makes the oracle of a round, with the same ε for every size. Each round adds `step` bits and keeps at
    most `keep` prefixes; larger numbers find more and leave fewer people for each question, or more answers to it.

    Guarantee: ε-LDP for each person's value, ε that of the oracle.
    Proof. A person is in one round, chosen without regard to the value, and sends one report, a function of the value
    randomized by the oracle. The question depends on reports of others only: whatever it is, the report is ε-LDP.
    """

    oracle: Callable[[int], Reporter]
    width: int
    step: int
    keep: int

    def __post_init__(self) -> None:
        integer(self.width, "width", at_least=1, at_most=1024)
        integer(self.step, "step", at_least=1, at_most=16)
        integer(self.keep, "keep", at_least=1, at_most=65_536)

    @property
    def loss(self) -> Loss:
        """What one person pays, once."""
        return self.oracle(2).loss

    @property
    def rounds(self) -> int:
        """How many questions there are, and groups of people."""
        return -(-8 * self.width // self.step)

    def first(self) -> Round:
        """The question of the first round."""
        return Round(min(self.step, 8 * self.width), 0, (b"",), self.width)

    def following(self, current: Round, estimate: Frequencies, confidence: Number) -> Round | None:
        """The next question, about the prefixes that are certainly there; None if there is none of them.

        Kept are those whose lower bound is above zero, at most `keep`, the most frequent first: with the given
        confidence, none of them is made of noise.
        """
        low, _ = estimate.interval(confidence)
        top = np.argsort(-estimate.shares[:-1], kind="stable")[: self.keep]
        kept = tuple(sorted(current.prefix(int(answer)) for answer in top if low[answer] > 0))
        length = min(current.length + self.step, 8 * self.width)
        return Round(length, current.length, kept, self.width) if kept else None

    def hitters(self, current: Round, estimate: Frequencies, people: int, confidence: Number) -> tuple[Hitter, ...]:
        """The values found in the last round, the most frequent first, with counts among all people."""
        low, high = estimate.interval(confidence)
        top = np.argsort(-estimate.shares[:-1], kind="stable")[: self.keep]
        return tuple(
            Hitter(current.prefix(int(k)), *(people * float(v[k]) for v in (estimate.shares, low, high)))
            for k in top
            if low[k] > 0
        )

    def find(self, values: ArrayLike, *, confidence: Number, entropy: Entropy | None = None) -> tuple[Hitter, ...]:
        """All rounds in one place, for simulations: in the field, devices call `answers` and `randomize` themselves.

        In each round, all bounds hold together with the given confidence. They are for the group that was asked;
        where the oracle proves its bounds for samples (those of support counts), they hold for all people.
        """
        rows = _read_strings(values, self.width)
        group = np.asarray(uniform_below(self.rounds, len(rows), entropy=entropy))
        current: Round | None = self.first()
        for turn in range(self.rounds):
            members = rows[group == turn]
            if current is None or not len(members):
                return ()
            estimate = self._ask(current, members, entropy)
            if turn == self.rounds - 1:
                return self.hitters(current, estimate, len(rows), confidence)
            current = self.following(current, estimate, confidence)
        return ()

    def _ask(self, current: Round, members: Strings, entropy: Entropy | None) -> Frequencies:
        oracle = self.oracle(current.size)
        reports = oracle.randomize(current.answers(members), entropy=entropy)
        return oracle.estimate(oracle.tally(reports), reports=len(members))


def encode(texts: Sequence[str | bytes], *, width: int) -> Strings:
    """Texts (UTF-8) or bytes as rows of `width` bytes: longer ones are cut, shorter ones filled with zero bytes.

    >>> encode(["ab", "abcdef"], width=3).tolist()
    [[97, 98, 0], [97, 98, 99]]
    """
    wide = integer(width, "width", at_least=1, at_most=1024)
    if isinstance(texts, str | bytes) or not hasattr(texts, "__iter__"):
        raise InvalidData("texts: got a single thing, expected a list of texts")
    rows = [_bytes(text)[:wide].ljust(wide, b"\0") for text in texts]
    return np.frombuffer(b"".join(rows), np.uint8).reshape(len(rows), wide)


def decode(value: bytes) -> str:
    """The text of a value, without the zero bytes at its end; a character that was cut is left out.

    >>> decode(b"caf" + "é".encode()[:1])
    'caf'
    """
    return value.rstrip(b"\0").decode("utf-8", "ignore")


def _bytes(text: object) -> bytes:
    if isinstance(text, str):
        return text.encode("utf-8", "replace")
    if isinstance(text, bytes):
        return text
    raise InvalidData(f"texts: got a {type(text).__name__}, expected texts or bytes")


def _read_strings(values: ArrayLike, width: int) -> Strings:
    rows: NDArray[Any] = np.asarray(values)
    if rows.dtype != np.uint8 or rows.ndim != 2 or rows.shape[1] != width:
        raise InvalidData(f"values: expected rows of {width} bytes (uint8); `encode` makes them of texts")
    if not len(rows):
        raise InvalidParameter("values", "no rows", "at least one person")
    return rows


def _prefixes(rows: Strings, bits: int) -> NDArray[np.bytes_]:
    """The first bits of each row, the rest zero; NumPy compares bytes without the zeros at their end."""
    width = rows.shape[1]
    kept = rows.copy()
    whole, part = divmod(bits, 8)
    if whole < width:
        kept[:, whole] &= (0xFF00 >> part) & 0xFF
        kept[:, whole + 1 :] = 0
    return np.ascontiguousarray(kept).view(f"S{width}").ravel()


def _bits(rows: Strings, start: int, end: int) -> NDArray[np.int64]:
    """Bits start … end − 1 of each row as a number, the first bit the highest; at most 16 of them."""
    first, last = start // 8, (end + 7) // 8
    number = np.zeros(len(rows), np.int64)
    for column in range(first, last):
        number = number << 8 | rows[:, column]
    return (number >> (8 * last - end)) & ((1 << (end - start)) - 1)
