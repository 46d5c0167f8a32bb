"""Repeated collection: a permanent randomized response that the device keeps, and a fresh noisy copy at each report.

Asking the same person every day with fresh coins would average the noise away. RAPPOR (Erlingsson, Pihur, Korolova
2014) throws the coins that protect the value once: the device keeps the outcome and reports it through a second,
fresh randomization, which hides that two reports came from one device.

>>> from discreet.local.collection.memoized import Memoized
>>> daily = Memoized(permanent=2, once=1, size=5)
>>> kept = daily.remember(3)
>>> daily.valid([daily.report(kept), daily.report(kept)]).tolist()
[True, True]
"""

import json
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.errors import BudgetExceeded, InvalidData, InvalidParameter, LedgerConflict, LedgerDamaged, LedgerTooNew
from discreet.exact import integer, plain
from discreet.fields import Converted, Integer
from discreet.local.collection.device_account import locked, parsed, read, write
from discreet.local.estimation.frequencies import Frequencies
from discreet.local.oracles.oracle import Epsilon, Integers, read_values
from discreet.local.oracles.sets import SymmetricUnary
from discreet.mechanisms.channel import Channel
from discreet.noise import Entropy
from discreet.noise.uniform import random_bits
from discreet.privacy.loss import Loss, Pure

_FORMAT, _VERSION = "discreet memory", 1
_MOST_SIZE = 1 << 16


@dataclass(frozen=True, kw_only=True)
class Memoized:
    """RAPPOR over a small domain: a bit for each value, flipped once for good and once more for each report.

    The permanent response is `SymmetricUnary` with ε∞ = `permanent`. A report flips each of its bits with probability
    1 − s, where (2t∞ − 1)(2s − 1) = 2t₁ − 1 and t∞, t₁ are the truth probabilities of symmetric unary encodings of ε∞
    and ε₁ = `once`. Two symmetric flips in a row are one whose gains 2t − 1 multiply, so one report is distributed
    exactly as one of `SymmetricUnary(epsilon=once)`, whose estimator it uses.

    Guarantee: for a value that does not change, R reports together are min(ε∞, R·ε₁)-LDP, for every R.
    Proof. ε∞: reports are functions of the permanent response and of coins that do not depend on the value
    (post-processing). R·ε₁: two values differ in two bits of the encoding, independent of each other. For one of them
    let L(s) be the log-likelihood ratio after reports that speak for the permanent bit with log odds s; tanh(L/2) =
    (2t∞ − 1)·tanh(s/2), so |L| is concave in |s| and 0 at 0. R reports give |s| ≤ R·s₁, s₁ that of one, and
    |L(R·s₁)| ≤ R·|L(s₁)| ≤ R·ε₁/2.

    What is not promised: values that change. Two histories that change at the same times and return to the same
    values are told apart by at most ε∞ for each different value, but *that* a value changed can be seen in the long
    run, when two permanent responses differ. `Device` therefore holds one value unless more are allowed.

    >>> Memoized(permanent=2, once="0.5", size=4).lifetime
    Pure(epsilon=2)
    """

    permanent: Epsilon = Epsilon()
    once: Epsilon = Epsilon()
    size: Integer = Integer(at_least=2, at_most=_MOST_SIZE)

    def __post_init__(self) -> None:
        if not self.once < self.permanent:
            raise InvalidParameter("once", plain(self.once), f"less than permanent = {plain(self.permanent)}")

    @property
    def epsilon(self) -> Fraction:
        """ε₁: what one report costs."""
        return self.once

    @property
    def loss(self) -> Loss:
        """The loss of one report."""
        return Pure(self.once)

    @property
    def lifetime(self) -> Loss:
        """The loss of all reports about one value, however many."""
        return Pure(self.permanent)

    def loss_of(self, reports: int) -> Loss:
        """The loss of this many reports about one value: min(ε∞, R·ε₁).

        >>> [str(Memoized(permanent=2, once="0.5", size=4).loss_of(r).epsilon) for r in (0, 1, 3, 100)]
        ['0', '1/2', '3/2', '2']
        """
        return Pure(min(self.permanent, integer(reports, "reports", at_least=0) * self.once))

    @property
    def first(self) -> SymmetricUnary:
        """The oracle of the permanent response."""
        return SymmetricUnary(epsilon=self.permanent, size=self.size)

    @property
    def single(self) -> SymmetricUnary:
        """The oracle that one report is distributed as."""
        return SymmetricUnary(epsilon=self.once, size=self.size)

    @property
    def keep(self) -> Fraction:
        """s: the probability that a report tells a permanent bit as it is."""
        return min((1 + (2 * self.single.truth - 1) / (2 * self.first.truth - 1)) / 2, Fraction(1))  # e^ε is rounded

    # On the device

    def remember(self, value: int, *, entropy: Entropy | None = None) -> Integers:
        """The permanent response to one value: throw these coins once and keep the outcome."""
        known = read_values(value, self.size)
        if known.size != 1:
            raise InvalidParameter("value", f"{known.size} of them", "one value; each person has a memory")
        return np.asarray(self.first.randomize(known, entropy=entropy)[0])

    def report(self, kept: ArrayLike, *, entropy: Entropy | None = None) -> Integers:
        """A fresh report from a permanent response."""
        rows = np.atleast_2d(np.asarray(kept))
        if rows.shape[0] != 1 or not self.first.valid(rows).all():
            raise InvalidData("kept: expected a permanent response, as `remember` gives it")
        flips = random_bits(1 - self.keep, 1, self.size, entropy=entropy)
        report: Integers = rows.astype(np.int64)[0] ^ flips.view(np.int64)[0]
        return report

    # At the collector

    def valid(self, reports: ArrayLike) -> NDArray[np.bool_]:
        """Which rows could be reports."""
        return self.single.valid(reports)

    def tally(self, reports: ArrayLike) -> Integers:
        """How many reports have each value's bit set."""
        return self.single.tally(reports)

    def estimate(self, tally: ArrayLike, *, reports: int) -> Frequencies:
        """Unbiased shares from one report a person. Rounds about the same people share their permanent noise."""
        return self.single.estimate(tally, reports=reports)

    def variance(self, share: float = 0.0) -> float:
        """The variance of one share from one round, times the number of people."""
        return self.single.variance(share)

    def floor(self, share: float = 0.0) -> float:
        """What remains of that variance however many rounds are averaged: the permanent response's."""
        return self.first.variance(share)

    def channel(self, reports: int = 1) -> Channel:
        """p(reports | value) for several reports of one memory, in rationals; outputs are tuples of words."""
        count = integer(reports, "reports", at_least=1, at_most=4)
        if self.size * count > 12:
            raise InvalidParameter("size", self.size, f"at most {12 // count} for a channel of {count} reports")
        patterns, kept = list(product(range(1 << self.size), repeat=count)), self.first.channel()
        flips = [self.keep ** (self.size - b) * (1 - self.keep) ** b for b in range(self.size + 1)]
        onwards = [[_chance(memory, seen, flips) for seen in patterns] for memory in kept.outputs]
        return kept.then(Channel(onwards, inputs=kept.outputs, outputs=patterns))


def _chance(memory: Any, seen: tuple[int, ...], flips: list[Fraction]) -> Fraction:
    total = Fraction(1)
    for word in seen:
        total *= flips[(int(memory) ^ word).bit_count()]
    return total


@dataclass(frozen=True)
class Device:
    """What a device keeps for one survey: permanent responses in a small JSON file, written before they are used.

    `values` is how many different values it may ever answer about, each with a permanent response of its own; the
    next one is refused. The file names the survey, its version and its settings; another survey's file is refused, so
    that no memory serves two surveys (their reports could be linked). It holds true values: it stays on the device.

    >>> import tempfile
    >>> place = Path(tempfile.mkdtemp()) / "memory.json"
    >>> phone = Device(Memoized(permanent=2, once=1, size=3), place, survey="color", version=1)
    >>> [str(phone.respond(2)[1].epsilon) for _ in range(3)]  # what each report adds
    ['1', '1', '0']
    """

    memoized: Memoized
    path: Converted[str | Path, Path] = Converted(lambda path, _: Path(path))
    _: KW_ONLY
    survey: str
    version: Integer = Integer(at_least=1)
    values: Integer = Integer(at_least=1, default=1)

    def __post_init__(self) -> None:
        if not isinstance(self.survey, str) or not self.survey:
            raise InvalidParameter("survey", self.survey, "the name of a survey")
        integer(self.values, "values", at_most=self.memoized.size)

    def respond(self, value: int, *, entropy: Entropy | None = None) -> tuple[Integers, Pure]:
        """A report about the value, and what it adds to the loss; the state is on disk before this returns.

        Guarantee: however often it is called or killed, one permanent response serves each value.
        Proof. One process at a time holds the lock; a response is read from the file, or written to it and synced
        before its first use.
        """
        known = self._value(value)
        with locked(self.path):
            memory = self._load()
            before = memory.get(known)
            if before is None and len(memory) >= self.values:
                raise BudgetExceeded(
                    f"survey {self.survey!r} may be answered about {self.values} different value(s) from this device; "
                    "this is another one; nothing was sent"
                )
            words, count = before or ([int(w) for w in self.memoized.remember(known, entropy=entropy)], 0)
            memory[known] = (words, count + 1)
            write(self.path, self._text(memory))
        cost = _cost(self.memoized, count + 1) - _cost(self.memoized, count)
        return self.memoized.report(np.array([words], np.int64), entropy=entropy), Pure(cost)

    def _value(self, value: int) -> int:
        values = read_values(value, self.memoized.size)
        if values.size != 1:
            raise InvalidParameter("value", f"{values.size} of them", "one value; a device answers for one person")
        return int(values[0])

    @property
    def spent(self) -> Pure:
        """The loss so far: min(ε∞, R·ε₁) for each value answered about; see `Memoized` for what that promises."""
        return Pure(sum((_cost(self.memoized, count) for _, count in self._load().values()), Fraction(0)))

    @property
    def _settings(self) -> dict[str, object]:
        m = self.memoized
        return {"size": m.size, "permanent": plain(m.permanent), "once": plain(m.once)}

    def _text(self, memory: dict[int, tuple[list[int], int]]) -> str:
        responses = [{"value": v, "bits": words, "reports": count} for v, (words, count) in memory.items()]
        heading = {"format": _FORMAT, "format_version": _VERSION, "survey": self.survey, "version": self.version}
        return json.dumps({**heading, "settings": self._settings, "responses": responses}, ensure_ascii=False) + "\n"

    def _load(self) -> dict[int, tuple[list[int], int]]:
        if not self.path.exists():
            return {}
        state = parsed(read(self.path))
        if not isinstance(state, dict) or state.get("format") != _FORMAT:
            raise self._damaged("it is not a memory")
        if type(state.get("format_version")) is int and state["format_version"] > _VERSION:
            raise LedgerTooNew(f"the memory {self.path} was written by a newer discreet; nothing was sent")
        mine = {"survey": self.survey, "version": self.version, "settings": self._settings}
        if any(state.get(name) != wanted for name, wanted in mine.items()):
            raise LedgerConflict(
                f"the memory {self.path} belongs to another survey, version or settings than {self.survey!r} version "
                f"{self.version}; nothing was sent; give each survey its own file"
            )
        return self._responses(state.get("responses"))

    def _responses(self, listed: object) -> dict[int, tuple[list[int], int]]:
        memory: dict[int, tuple[list[int], int]] = {}
        for item in listed if isinstance(listed, list) else [None]:
            if not isinstance(item, dict) or set(item) != {"value", "bits", "reports"}:
                raise self._damaged("a response cannot be read")
            value, bits, count = item["value"], item["bits"], item["reports"]
            whole = type(value) is int and 0 <= value < self.memoized.size and type(count) is int and count >= 1
            if not whole or value in memory or not self._fits(bits):
                raise self._damaged("a response cannot be read")
            memory[value] = (bits, count)
        return memory

    def _fits(self, bits: object) -> bool:
        if not isinstance(bits, list) or not bits or any(type(word) is not int for word in bits):
            return False
        if any(not -(2**63) <= word < 2**63 for word in bits):
            return False
        return bool(self.memoized.valid([bits])[0])

    def _damaged(self, why: str) -> LedgerDamaged:
        return LedgerDamaged(f"the memory {self.path} is damaged: {why}; nothing was sent; restore it from a copy")


def _cost(memoized: Memoized, reports: int) -> Fraction:
    return min(memoized.permanent, reports * memoized.once)
