"""Whole numbers modulo 2^k, and the masks that hide them.

A mask is the AES-256-CTR key stream of a key that serves once, read as words of 32 or 64 bits, modulo 2^k. Since 2^k
divides 2^32 (or 2^64), a uniform word is uniform modulo 2^k, and sums may wrap around in the word: the last step keeps
the low k bits.

Two clients agree on one mask. The one whose name comes first adds it, the other subtracts it (`adds`), so that in the
sum over both it is gone exactly: c = a + p, d = b − p, c + d = a + b modulo 2^k.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidData

Vector = NDArray[Any]
"""Words modulo 2^32 or 2^64, little endian."""

_BLOCK = 1 << 17  # bytes at a time: they stay in the processor's cache
_ZEROS = memoryview(bytes(_BLOCK))


def adds(mine: str, other: str) -> bool:
    """Whether I add the mask that I share with another client; else I subtract it.

    >>> adds("alice", "bob"), adds("bob", "alice")
    (True, False)
    """
    return mine.encode() < other.encode()


def dtype(bits: int) -> np.dtype[Any]:
    """The words that hold numbers modulo 2^bits.

    >>> dtype(20).itemsize, dtype(40).itemsize
    (4, 8)
    """
    return np.dtype("<u4" if bits <= 32 else "<u8")


def wrapped(values: NDArray[np.int64], bits: int) -> Vector:
    """Signed whole numbers as words; the low `bits` bits are the number modulo 2^bits.

    >>> wrapped(np.array([1, -1]), 8).tolist()
    [1, 4294967295]
    """
    return values.astype("<i8").view("<u8").astype(dtype(bits))


def reduced(words: Vector, bits: int) -> Vector:
    """The words modulo 2^bits: what may be sent. The bits above would tell nothing either, they carry masks too.

    >>> reduced(wrapped(np.array([1, -1]), 8), 8).tolist()
    [1, 255]
    """
    low: Vector = words & words.dtype.type((1 << bits) - 1)
    return low


def signed(words: Vector, bits: int) -> NDArray[np.int64]:
    """The whole numbers from −2^(bits−1) to 2^(bits−1) − 1 that these words are modulo 2^bits.

    >>> signed(np.array([1, 255, 128], dtype(8)), 8).tolist()
    [1, -1, -128]
    """
    left = 64 - bits
    shifted = (words.astype("<u8") << np.uint64(left)).view("<i8")
    return (shifted >> np.int64(left)).astype(np.int64)


def parse(data: bytes, bits: int, length: int) -> Vector:
    """Words as they were sent.

    >>> parse(bytes([1, 0, 0, 0]), 8, 1).tolist()
    [1]
    """
    kind = dtype(bits)
    if len(data) != length * kind.itemsize:
        held = f"{len(data) // kind.itemsize} numbers" if len(data) % kind.itemsize == 0 else f"{len(data)} bytes"
        raise InvalidData(f"the vector holds {held}, expected {length} numbers")
    words = np.frombuffer(data, kind)
    if bits < 8 * kind.itemsize and length and int(words.max()) >> bits:
        raise InvalidData(f"a number in the vector has more than {bits} bits")
    return words


def apply(words: Vector, key: bytes, *, add: bool) -> None:
    """Add the mask of this key to the words, or subtract it, in place.

    >>> words = np.arange(5, dtype="<u4")
    >>> apply(words, bytes(32), add=True); apply(words, bytes(32), add=False); words.tolist()
    [0, 1, 2, 3, 4]
    """
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    encryptor = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
    room = np.empty(_BLOCK + 16, np.uint8)  # update_into asks for one block of room
    step = _BLOCK // words.itemsize
    operation = np.add if add else np.subtract
    for start in range(0, words.size, step):
        part = words[start : start + step]
        encryptor.update_into(_ZEROS[: part.nbytes], room.data)
        operation(part, room[: part.nbytes].view(words.dtype), out=part)
