"""Local hashing: a report names a hash function and, randomized, the hash of the value.

The functions are linear maps over a small field: with g a prime or a power of two, and t digits such that g^t ≥ k, a
value is the vector of its t digits base g, a function is a vector a of GF(g)^t, and h_a(x) = Σ aᵢ·xᵢ in GF(g). There
are g^t of them, from k to g·k, all public.

Guarantee: any two different values have the same hash under exactly one g-th of the functions (universal).
Proof. x ≠ y differ in some digit i; whatever the other digits of a, a·(x − y) runs through all of GF(g) once as
aᵢ does, because xᵢ − yᵢ ≠ 0 has an inverse. So a report supports another value with probability exactly
truth/g + (1 − 1/g)·(1 − truth)/(g − 1) = 1/g: estimates are unbiased, with the variance that ideal hash functions give
(people draw their functions independently).

What is decoded is a table of counts, one for each function and hash, not the reports: a transform of one digit after
the other, about (t−1)·g·g^(t+1) additions of whole numbers, whatever the number of reports (see `decode`).
A collector counts `SELECT report, count(*) … GROUP BY report`: a report is a·g + (randomized hash).
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from discreet.errors import InvalidParameter
from discreet.exact import exp_down
from discreet.fields import Integer
from discreet.local.estimation.frequencies import Floats, Frequencies
from discreet.local.oracles.oracle import (
    CodeReports,
    Epsilon,
    Integers,
    Stated,
    SupportOracle,
    read_tally,
    read_values,
)
from discreet.mechanisms import KRR
from discreet.mechanisms.channel import Channel
from discreet.mechanisms.mechanism import countable
from discreet.noise import Entropy, uniform_below
from discreet.noise.entropy import SYSTEM

Numbers = TypeVar("Numbers", Integers, Floats)

_MOST_SIZE = 1 << 23
_MOST_CELLS = 1 << 24
_MOST_ADDITIONS = 1 << 29
_BLOCK = 1 << 15  # numbers at a time: they stay in the processor's cache
_IRREDUCIBLE = {1: 0b11, 2: 0b111, 3: 0b1011, 4: 0b10011, 5: 0b100101, 6: 0b1000011, 7: 0b10000011, 8: 0b100011011}
"""For each degree, a polynomial over GF(2) that has no factors: GF(2^e) is arithmetic modulo it."""


class _HashingOracle(CodeReports, SupportOracle):
    """A report supports the values whose hash, under its function, is the hash it tells."""

    @property
    def hashes(self) -> int:
        """g: how many different hashes there are."""
        raise NotImplementedError

    @property
    def digits(self) -> int:
        """t: how many digits base g a value has."""
        return _digits(self.size, self.hashes)

    @property
    def functions(self) -> int:
        """How many hash functions there are: g^t."""
        return int(self.hashes**self.digits)

    @property
    def truth(self) -> Fraction:
        """The probability that the hash is told as it is: e^ε/(e^ε + g − 1)."""
        return KRR(epsilon=self.epsilon, size=self.hashes).truth

    @property
    def other(self) -> Fraction:
        """The probability that a report supports another value: exactly 1/g."""
        return Fraction(1, self.hashes)

    def randomize(self, values: ArrayLike, *, entropy: Entropy | None = None) -> Integers:
        """One code for each value: a uniform function, and the hash by k-ary randomized response."""
        true, source = read_values(values, self.size), SYSTEM if entropy is None else entropy
        function = np.asarray(uniform_below(self.functions, true.size, entropy=source))
        hashed = self.hash(function, true)
        noisy = KRR(epsilon=self.epsilon, size=self.hashes).release(hashed, entropy=source)
        return np.asarray(function * self.hashes + noisy, np.int64)

    def hash(self, function: ArrayLike, value: ArrayLike) -> Integers:
        """h_a(x) for functions a and values x, given as whole numbers, element by element.

        >>> OptimizedHashing(epsilon=1, size=16).hash([0, 1, 4, 5], 6).tolist()
        [0, 2, 1, 3]
        """
        a, x = np.broadcast_arrays(np.asarray(function, np.int64), np.asarray(value, np.int64))
        hashed = np.empty(a.shape, np.int64)
        functions, values, out = a.reshape(-1), x.reshape(-1), hashed.reshape(-1)
        for start in range(0, out.size, _BLOCK):
            part = slice(start, start + _BLOCK)
            out[part] = Field.of_order(self.hashes).inner_product(functions[part], values[part], self.digits)
        return hashed

    @property
    def codes(self) -> int:
        """A code for each function and hash."""
        return self.functions * self.hashes

    def estimate(self, tally: ArrayLike, *, reports: int) -> Frequencies:
        """(support/n − 1/g)/(truth − 1/g), where support counts the reports whose hash is the value's: unbiased."""
        counts, count = read_tally(tally, self.codes, reports, total=1)
        return self._frequencies(decode(counts, self.hashes, self.digits)[: self.size], count)

    def channel(self) -> Channel:
        """p(code | value)."""
        countable(self.size * self.codes, "channel", most=1_000_000)
        hashed = self.hash(np.arange(self.functions)[:, None], np.arange(self.size))  # function × value
        likely, unlikely = self.truth / self.functions, (1 - self.truth) / (self.hashes - 1) / self.functions
        seen = np.arange(self.codes) % self.hashes
        supports = np.repeat(hashed.T, self.hashes, axis=1) == seen
        rows = [[likely if yes else unlikely for yes in line] for line in supports.tolist()]
        return Channel(rows, inputs=range(self.size), outputs=range(self.codes))


@dataclass(frozen=True, kw_only=True)
class BinaryHashing(_HashingOracle):
    """BLH: hashes of one bit (Bassily, Smith 2015; Wang, Blocki, Li, Jha 2017).

    Variance ((e^ε+1)/(e^ε−1))² a report.
    Guarantee: ε-LDP.
    Proof. The function does not depend on the value, and the hash is told by ε-DP randomized response.

    >>> from discreet.local.oracles.hashing import BinaryHashing
    >>> round(BinaryHashing(epsilon=1, size=100).variance(), 2)
    4.68
    """

    epsilon: Epsilon = Epsilon()
    size: Integer = Integer(at_least=2, at_most=_MOST_SIZE)

    @property
    def hashes(self) -> int:
        """g: two."""
        return 2


@dataclass(frozen=True, kw_only=True)
class OptimizedHashing(_HashingOracle):
    """OLH: about e^ε + 1 different hashes (Wang, Blocki, Li, Jha 2017), variance 4e^ε/(e^ε−1)² a report.

    `hashes` is the prime or power of two with the least variance among those whose table of counts can be decoded
    quickly. For k up to 10,000 and ε up to 5 that is within 4 % of 4e^ε/(e^ε−1)²; above, the table's size is the limit.
    Guarantee: ε-LDP.
    Proof. The function does not depend on the value, and the hash is told by ε-DP k-ary randomized response.

    >>> from discreet.local.oracles.hashing import OptimizedHashing
    >>> oracle = OptimizedHashing(epsilon=1, size=100)
    >>> oracle.hashes, oracle.functions, round(oracle.variance(), 2)
    (4, 256, 3.69)
    """

    epsilon: Epsilon = Epsilon()
    size: Integer = Integer(at_least=2, at_most=_MOST_SIZE)
    hashes: Stated = Stated(at_least=2)  # a prime or a power of two

    def __post_init__(self) -> None:
        choices, growth = _possible_hashes(self.size), exp_down(self.epsilon)
        if not self.hashes:
            object.__setattr__(self, "hashes", min(choices, key=lambda g: (g - 1 + growth) ** 2 / (g - 1)))
        if self.hashes not in choices:
            wanted = f"one of {', '.join(map(str, choices))} for {self.size} values"
            raise InvalidParameter("hashes", self.hashes, wanted)


def _digits(size: int, hashes: int) -> int:
    digits, reach = 1, hashes
    while reach < size:
        digits, reach = digits + 1, reach * hashes
    return digits


@lru_cache(maxsize=256)
def _possible_hashes(size: int) -> tuple[int, ...]:
    """Primes and powers of two up to 256 whose table of counts is small enough, and quick to decode."""
    fields = [g for g in range(2, 257) if g & (g - 1) == 0 or all(g % d for d in range(2, g))]
    cells = {g: g ** (_digits(size, g) + 1) for g in fields}
    return tuple(
        g
        for g in fields
        if g == 2 or (cells[g] <= _MOST_CELLS and (_digits(size, g) - 1) * g * cells[g] <= _MOST_ADDITIONS)
    )


@dataclass(frozen=True, slots=True)
class HashingModel:
    """The channel of local hashing as a linear map, by the transform of `decode`, for any number of values.

    With w = (truth − lie)/functions and lie = (1 − truth)/(g − 1): C[x, (a, y)] = lie/functions + w·1[h_a(x) = y].

    >>> oracle = OptimizedHashing(epsilon=1, size=300)
    >>> model = HashingModel(oracle)
    >>> model.outputs, float(model.forward(np.full(300, 1 / 300)).sum().round(9))
    (4096, 1.0)
    """

    oracle: _HashingOracle

    @property
    def size(self) -> int:
        """The number of values."""
        return self.oracle.size

    @property
    def outputs(self) -> int:
        """A code for each function and hash."""
        return self.oracle.codes

    @property
    def rounding(self) -> float:
        """0: it only adds and multiplies."""
        return 0.0

    @property
    def _chances(self) -> tuple[float, float]:
        lie = (1 - self.oracle.truth) / (self.oracle.hashes - 1)
        return float(lie / self.oracle.functions), float((self.oracle.truth - lie) / self.oracle.functions)

    def forward(self, p: ArrayLike) -> Floats:
        """q[a, y] = lie·Σp + w·Σ_{h_a(x) = y} p_x."""
        shares = np.asarray(p, np.float64)
        g, (lie, gain) = self.oracle.hashes, self._chances
        table = np.zeros((*shares.shape[:-1], self.oracle.functions, g))
        table[..., : self.size, 0] = shares
        minus = np.arange(g) if g & (g - 1) == 0 else -np.arange(g) % g  # a·x = x·a, and 0 − y + a·x = 0 finds y
        lines = table.reshape(-1, self.outputs)
        rows = [_replaced(line, g, self.oracle.digits, 0).reshape(-1, g)[:, minus].ravel() for line in lines]
        seen = np.array(rows).reshape(*shares.shape[:-1], self.outputs)
        return np.asarray(lie * shares.sum(axis=-1, keepdims=True) + gain * seen)

    def backward(self, r: ArrayLike) -> Floats:
        """s_x = lie·Σr + w·Σ_a r[a, h_a(x)]."""
        weights, (lie, gain) = np.asarray(r, np.float64), self._chances
        lines = weights.reshape(-1, self.outputs)
        rows = [decode(line, self.oracle.hashes, self.oracle.digits)[: self.size] for line in lines]
        support = np.array(rows).reshape(*weights.shape[:-1], self.size)
        return np.asarray(lie * weights.sum(axis=-1, keepdims=True) + gain * support)


# Arithmetic of small fields, and the transform


class Field:
    """GF(g) for a prime g (arithmetic modulo g) or a power of two (polynomials over GF(2)); elements are 0 … g−1.

    >>> Field.of_order(4).products.reshape(4, 4).tolist()
    [[0, 0, 0, 0], [0, 1, 2, 3], [0, 2, 3, 1], [0, 3, 1, 2]]
    """

    def __init__(self, order: int) -> None:
        self.order = order
        self._bits = (order - 1).bit_length() if order & (order - 1) == 0 else 0
        self.products = np.array([self._product(a, b) for a in range(order) for b in range(order)], np.int64)

    @staticmethod
    @lru_cache(maxsize=64)
    def of_order(order: int) -> "Field":
        """The field, with its table of products made once."""
        return Field(order)

    def _product(self, a: int, b: int) -> int:
        if not self._bits:
            return a * b % self.order
        total = 0
        for bit in range(self._bits):
            total ^= (a << bit) if b >> bit & 1 else 0
        for bit in reversed(range(self._bits, 2 * self._bits)):
            total ^= (_IRREDUCIBLE[self._bits] << (bit - self._bits)) if total >> bit & 1 else 0
        return total

    def add(self, a: Integers, b: Integers) -> Integers:
        """a + b, element by element."""
        if self._bits:
            return a ^ b
        total = a + b
        return np.asarray(total - self.order * (total >= self.order))

    def inner_product(self, a: Integers, x: Integers, digits: int) -> Integers:
        """Σ aᵢ·xᵢ over the digits of two arrays of numbers."""
        total = np.zeros(a.shape, np.int64)
        for _ in range(digits):
            a, first = self.split(a)
            x, second = self.split(x)
            first *= self.order
            first += second
            total = self.add(total, self.products.take(first))
        return total

    def split(self, number: Integers) -> tuple[Integers, Integers]:
        """All digits but the last, and the last."""
        if self._bits:
            return number >> self._bits, number & (self.order - 1)
        rest = number // self.order
        return rest, number - rest * self.order


def decode(counts: Numbers, hashes: int, digits: int) -> Numbers:
    """How many reports support each value: Σ_a counts[a, h_a(v)], for all g^t values v at once, exactly.

    Proof. Let A₀[a, r] = counts[a, r]. Replace digit i of a by digit i of v: A[…vᵢ…, r] = Σ_{aᵢ} A[…aᵢ…, r + aᵢ·vᵢ].
    After all digits, A[v, r] = Σ_a counts[a, r + a·v], so r = 0 holds the answer.

    >>> decode(np.array([3, 0, 1, 2]), hashes=2, digits=1).tolist()
    [4, 5]
    """
    products = Field.of_order(hashes).products.reshape(hashes, hashes)
    done = hashes ** (digits - 1)
    lines = _replaced(counts, hashes, digits, 1).reshape(hashes, done, hashes).transpose(0, 2, 1)
    support = [sum(lines[a, products[a, value]] for a in range(hashes)) for value in range(hashes)]
    return np.concatenate(support)


def _replaced(counts: Numbers, hashes: int, digits: int, first: int) -> Numbers:
    """A[…vᵢ…, r] of `decode` after all digits but the first `first` were replaced."""
    products = Field.of_order(hashes).products.reshape(hashes, hashes)
    shifted = Field.of_order(hashes).add(np.arange(hashes), products[:, :, None])  # [a, v, r] → r + a·v
    done = 1  # values of the digits replaced so far
    state = counts
    for left in reversed(range(first, digits)):  # the last digit of a, then the one before it, …
        rest = hashes**left
        lines = state.reshape(rest, hashes, done, hashes).transpose(1, 3, 0, 2).reshape(hashes, hashes, rest * done)
        new = np.zeros((hashes, hashes, rest * done), state.dtype)  # [v, r, the other digits]
        for value in range(hashes):
            for a in range(hashes):
                new[value] += lines[a][shifted[a, value]]
        state = new.reshape(hashes, hashes, rest, done).transpose(2, 0, 3, 1)
        done *= hashes
    return state
