"""From one sampler to arrays of any shape."""

import math
import threading
from collections.abc import Callable
from typing import Protocol, overload

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.exact import integer
from discreet.noise.entropy import SYSTEM, Entropy, process

Integers = NDArray[np.int64]
Size = int | tuple[int, ...] | None

LARGEST = 2**52
"""Scales above this are refused: up to it, an int64 overflows with probability below e^−2048 (and is caught)."""

_MOST = 1 << 33
_FEW = 16
_BLOCK = 1 << 15  # draws at a time: the scratch arrays stay in the processor's cache


class Sampler(Protocol):
    """A distribution on the integers, with its decision tables ready."""

    def draw(self, entropy: Entropy) -> int:
        """One draw: the quick path for a single number."""
        ...

    def fill(self, entropy: Entropy, out: Integers) -> None:
        """Independent draws into a one-dimensional array."""
        ...


@overload
def sample(sampler: Sampler, size: None, entropy: Entropy | None) -> int: ...
@overload
def sample(sampler: Sampler, size: int | tuple[int, ...], entropy: Entropy | None) -> Integers: ...
@overload
def sample(sampler: Sampler, size: Size, entropy: Entropy | None) -> int | Integers: ...
def sample(sampler: Sampler, size: Size, entropy: Entropy | None) -> int | Integers:
    """One int for `size=None`, else an int64 array of that shape."""
    source = SYSTEM if entropy is None else entropy
    if size is None:
        return sampler.draw(source)
    return _few_or_many(sampler, shape(size), source, lambda: sampler.draw(source))


@overload
def sample_often(sampler: Sampler, size: None, entropy: Entropy | None) -> int: ...
@overload
def sample_often(sampler: Sampler, size: int | tuple[int, ...], entropy: Entropy | None) -> Integers: ...
@overload
def sample_often(sampler: Sampler, size: Size, entropy: Entropy | None) -> int | Integers: ...
def sample_often(sampler: Sampler, size: Size, entropy: Entropy | None) -> int | Integers:
    """`sample` for samplers that are kept: single draws of the system's entropy are made 64 at a time.

    The time of handing out a number that was drawn before does not depend on it: common outcomes of a single
    draw are found a little sooner, because their part of the table is in the cache.
    """
    if entropy is not None:
        return sample(sampler, size, entropy)
    if size is None:
        return _POOLS.take(sampler)
    return _few_or_many(sampler, shape(size), SYSTEM, lambda: _POOLS.take(sampler))


class _Pools(threading.local):
    """One thread's numbers that were drawn and not yet handed out; a forked process drops its parent's."""

    def __init__(self) -> None:
        self._numbers: dict[Sampler, list[int]] = {}
        self._owner = process()

    def take(self, sampler: Sampler) -> int:
        if self._owner != process() or len(self._numbers) > 64:
            self._numbers, self._owner = {}, process()
        while True:
            try:
                return self._numbers[sampler].pop()
            except (KeyError, IndexError):  # none left; a signal handler may have taken the last one just now
                self._numbers[sampler] = _filled(sampler, (64,), SYSTEM).tolist()


_POOLS = _Pools()


def _few_or_many(sampler: Sampler, dims: tuple[int, ...], source: Entropy, one: Callable[[], int]) -> Integers:
    """A short array is made of single draws: filling takes more words, and time, for outcomes the guide leaves open."""
    count = math.prod(dims)
    if count > _FEW:
        return _filled(sampler, dims, source)
    return np.array([one() for _ in range(count)], np.int64).reshape(dims)


def _filled(sampler: Sampler, dims: tuple[int, ...], source: Entropy) -> Integers:
    out = np.empty(dims, np.int64)
    flat = out.reshape(-1)
    for start in range(0, flat.size, _BLOCK):
        sampler.fill(source, flat[start : start + _BLOCK])
    return out


def shape(size: int | tuple[int, ...]) -> tuple[int, ...]:
    """Read a size as NumPy does, refusing what is negative, fractional or absurd.

    >>> shape(3), shape((2, 3)), shape(())
    ((3,), (2, 3), ())
    """
    dims = size if isinstance(size, tuple) else (size,)
    exact = tuple(integer(dim, "size", at_least=0, at_most=_MOST) for dim in dims)
    if math.prod(exact) > _MOST or len(exact) > 32:
        raise InvalidParameter("size", size, "at most 2^33 draws on at most 32 axes in one call", "draw in parts")
    return exact


def sixteen_bits(entropy: Entropy, count: int) -> NDArray[np.uint16]:
    """`count` independent uniform 16-bit words."""
    return entropy.words((count + 3) // 4).view(np.uint16)[:count]
