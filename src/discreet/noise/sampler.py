"""From one sampler to arrays of any shape."""

import math
from typing import Protocol, overload

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.exact import integer
from discreet.noise.entropy import SYSTEM, Entropy

Integers = NDArray[np.int64]
Size = int | tuple[int, ...] | None

LARGEST = 2**52
"""Scales above this are refused: up to it, an int64 overflows with probability below e^−2048 (and is caught)."""

_MOST = 1 << 33
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
    out = np.empty(shape(size), np.int64)
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
