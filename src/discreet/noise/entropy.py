"""Where random bits come from: the only file of discreet that asks the operating system.

Every 64 KiB (or every larger request) is the AES-256-CTR key stream of a key fresh from `os.urandom`, used
once and forgotten. So nothing drawn later tells anything about what was drawn before, and nothing has to
be re-seeded. Buffered words belong to one thread of one process: a forked child never sees its parent's.
"""

import hashlib
import itertools
import os
import threading
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from discreet.exact import integer

Words = NDArray[np.uint64]

_BUFFER = 8192
_LARGE = 1024
_ZEROS = memoryview(bytes(1 << 18))
_NONCE = bytes(16)


class Entropy(Protocol):
    """A source of independent, uniform 64-bit words. The seam where tests inject a stream."""

    def words(self, count: int) -> Words:
        """`count` fresh words; no word is ever returned twice."""
        ...


class SystemEntropy:
    """The operating system's entropy, stretched by AES-256-CTR. Safe under threads, forks and signals.

    Guarantee: words returned to any two calls, in any threads and processes, are independent and uniform
    if AES-256 with a random key is a pseudo-random function and `os.urandom` returns random bytes.

    >>> SystemEntropy().words(3).shape
    (3,)
    """

    def __init__(self) -> None:
        self._local = _Buffered()

    def words(self, count: int) -> Words:
        """`count` fresh words."""
        exact = _checked(count)
        return self._local.take(exact) if exact < _LARGE else _stream(os.urandom(32), exact)

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return SystemEntropy, ()  # a copy sent to another process starts anew


class _Buffered(threading.local):
    """One thread's unread words.

    A fork copies memory, so the buffer carries the process and the fork generation it was filled in and is
    dropped when either has changed. A signal handler may interrupt `take` and draw too: `busy` sends it to
    the operating system directly, and the position moves before the words are read, so that neither an
    interruption nor an exception can make a word serve twice.
    """

    def __init__(self) -> None:
        self.words = np.empty(0, np.uint64)
        self.position = 0
        self.owner = (0, 0)
        self.busy = False

    def take(self, count: int) -> Words:
        if self.busy:
            return _stream(os.urandom(32), count)
        self.busy = True
        try:
            start = self.position
            if start + count > len(self.words) or self.owner != process():
                self.words = _stream(os.urandom(32), _BUFFER)
                self.owner = process()
                start = 0
            self.position = start + count
            taken = self.words[start : start + count].copy()
            self.words[start : start + count] = 0
            return taken
        finally:
            self.busy = False


def process() -> tuple[int, int]:
    """Which process this is, also after a fork: what was buffered under another name is not ours."""
    return os.getpid(), _Forks.seen


class _Forks:
    seen = 0

    @classmethod
    def note(cls) -> None:
        cls.seen += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_Forks.note)


class DeterministicEntropy:
    """A reproducible stream for tests and worked examples. **Never private**: whoever knows the seed knows the noise.

    >>> DeterministicEntropy(1).words(2).tolist() == DeterministicEntropy(1).words(2).tolist()
    True
    """

    def __init__(self, seed: int) -> None:
        self._key = hashlib.sha256(f"discreet deterministic stream {integer(seed, 'seed'):x}".encode()).digest()
        self._seed = int(seed)
        self._calls = itertools.count()  # one step at a time, also among threads and signal handlers

    def __reduce__(self) -> tuple[type, tuple[int]]:
        return DeterministicEntropy, (self._seed,)  # a copy starts from the beginning

    def words(self, count: int) -> Words:
        """The next `count` words; they depend on the seed and on the calls made before."""
        call = next(self._calls).to_bytes(8, "big")
        return _stream(hashlib.sha256(self._key + call).digest(), _checked(count))


def _checked(count: int) -> int:
    """A negative slice would hand out used words again."""
    return count if type(count) is int and count >= 0 else integer(count, "count", at_least=0)


def _stream(key: bytes, count: int) -> Words:
    """The first `count` words of the AES-256-CTR key stream of a key that is used only here."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    encryptor = Cipher(algorithms.AES(key), modes.CTR(_NONCE)).encryptor()
    padded = np.empty(count + 2, np.uint64)  # update_into asks for one block of room
    room = padded.data.cast("B")
    done, size = 0, 8 * count
    while done < size:
        done += encryptor.update_into(_ZEROS[: min(size - done, len(_ZEROS))], room[done:])
    return padded[:count]


SYSTEM = SystemEntropy()
"""The stream that every release uses unless a test passes another."""
