"""The keys of a round: signatures, agreement, derived keys, sealed letters. All from the `cryptography` package.

=============  =========================  ================================================================
what           how                        assumption
=============  =========================  ================================================================
`Identity`     Ed25519 (RFC 8032)         signatures cannot be forged; public keys are known beforehand
`agree`        X25519 (RFC 7748)          agreed secrets look random (gap Diffie–Hellman, as in Bonawitz
                                          et al. 2017, section 6); a fresh pair for every round
`derive`       HKDF-SHA-256 (RFC 5869)    a random oracle
`seal`         ChaCha20-Poly1305          authenticated encryption; each key seals one letter, nonce zero
               (RFC 8439)
`commitment`   SHA-256                    a random oracle; what is committed to has at least 256 random bits
=============  =========================  ================================================================

Whole numbers modulo 2^k, and the masks that hide them.

A mask is the AES-256-CTR key stream of a key that serves once, read as words of 32 or 64 bits, modulo 2^k. Since 2^k
divides 2^32 (or 2^64), a uniform word is uniform modulo 2^k, and sums may wrap around in the word: the last step keeps
the low k bits.

Two clients agree on one mask. The one whose name comes first adds it, the other subtracts it (`adds`), so that in the
sum over both it is gone exactly: c = a + p, d = b − p, c + d = a + b modulo 2^k.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import integer
from discreet.noise import Entropy, uniform_below
from discreet.noise.entropy import SYSTEM

KEY = 32
"""Bytes of every key, public or secret, and of every digest."""

SIGNATURE = 64
_ONCE = bytes(12)  # the nonce of a key that seals one letter only
_PROBE = bytes(range(KEY))
PRIME = 2**256 + 297
SHARE = 33
"""Bytes of a share."""


def random_key(entropy: Entropy | None = None) -> bytes:
    """32 fresh random bytes.

    >>> len(random_key())
    32
    """
    return (SYSTEM if entropy is None else entropy).words(KEY // 8).astype("<u8").tobytes()


@dataclass(frozen=True, slots=True)
class Identity:
    """A client's lasting signing key. Its public half is known to everybody before a round begins.

    >>> from discreet.noise import DeterministicEntropy
    >>> alice = Identity.new(entropy=DeterministicEntropy(1))
    >>> signed_by(alice.public, alice.sign(b"hello"), b"hello"), signed_by(alice.public, alice.sign(b"hello"), b"hullo")
    (True, False)
    """

    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if type(self.secret) is not bytes or len(self.secret) != KEY:
            raise InvalidParameter("secret", "something else", "32 secret bytes", "use Identity.new()")

    @classmethod
    def new(cls, *, entropy: Entropy | None = None) -> "Identity":
        """A fresh identity."""
        return cls(random_key(entropy))

    @property
    def public(self) -> bytes:
        """What others need to check signatures: 32 bytes."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return Ed25519PrivateKey.from_private_bytes(self.secret).public_key().public_bytes_raw()

    def sign(self, text: bytes) -> bytes:
        """64 bytes that only the holder of the secret can make for this text."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return Ed25519PrivateKey.from_private_bytes(self.secret).sign(text)


def signed_by(public: bytes, signature: bytes, text: bytes) -> bool:
    """Whether the holder of this identity signed this text.

    >>> signed_by(Identity.new().public, bytes(64), b"hello")
    False
    """
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, text)
    except (InvalidSignature, ValueError):
        return False
    return True


def public(secret: bytes) -> bytes:
    """The public half of a key pair for agreement: what the others need.

    >>> len(public(random_key()))
    32
    """
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()


def agree(secret: bytes, other: bytes, purpose: bytes) -> bytes:
    """The key for one purpose that both ends derive, each from its own secret and the other's public key.

    >>> a, b = random_key(), random_key()
    >>> agree(a, public(b), b"masks") == agree(b, public(a), b"masks") != agree(a, public(b), b"letters")
    True
    >>> agree(a, bytes(32), b"masks")
    Traceback (most recent call last):
    discreet.errors.InvalidData: this is not a public key that a secret can be agreed with
    """
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

    try:
        shared = X25519PrivateKey.from_private_bytes(secret).exchange(X25519PublicKey.from_public_bytes(other))
    except ValueError:  # wrong length, or a point of small order: the "secret" would be zero for everybody
        raise InvalidData("this is not a public key that a secret can be agreed with") from None
    return derive(shared, purpose)


def usable(key: bytes) -> bool:
    """Whether a secret can be agreed with this public key: its length is right and its order is not small.

    >>> usable(public(random_key())), usable(bytes(32)), usable(b"short")
    (True, False, False)
    """
    try:
        agree(_PROBE, key, b"probe")
    except InvalidData:
        return False
    return True


def derive(secret: bytes, purpose: bytes) -> bytes:
    """A key for one purpose; keys of different purposes are independent.

    >>> derive(b"secret", b"a") == derive(b"secret", b"b")
    False
    """
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(SHA256(), KEY, salt=b"discreet secure aggregation 1", info=purpose).derive(secret)


def commitment(text: bytes, purpose: bytes) -> bytes:
    """A digest that binds to a secret text of at least 256 random bits, and hides it until it is shown.

    >>> commitment(b"secret", b"seed") == commitment(b"secret", b"seed")
    True
    """
    return hashlib.sha256(len(purpose).to_bytes(4, "big") + purpose + text).digest()


def seal(key: bytes, text: bytes, context: bytes) -> bytes:
    """An encrypted and authenticated letter. A key seals one letter only.

    >>> opened(bytes(32), seal(bytes(32), b"hello", b"round 1"), b"round 1")
    b'hello'
    """
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    return ChaCha20Poly1305(key).encrypt(_ONCE, text, context)


def opened(key: bytes, letter: bytes, context: bytes) -> bytes | None:
    """What the letter says, or None if it was not sealed with this key in this context.

    >>> opened(bytes(32), seal(bytes(32), b"hello", b"round 1"), b"round 2") is None
    True
    """
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    try:
        return ChaCha20Poly1305(key).decrypt(_ONCE, letter, context)
    except (InvalidTag, ValueError):
        return None


def split(secret: bytes, points: Iterable[int], *, threshold: int, entropy: Entropy | None = None) -> dict[int, bytes]:
    """The share of each point 1, 2, …; any `threshold` of them give the 32-byte secret back.

    >>> shares = split(bytes(range(32)), [1, 2, 3], threshold=2)
    >>> recover({1: shares[1], 3: shares[3]}, threshold=2) == bytes(range(32))
    True
    """
    if type(secret) is not bytes or len(secret) != KEY:
        raise InvalidData("the secret to share is not 32 bytes")
    degree = integer(threshold, "threshold", at_least=1) - 1
    coefficients = [int(uniform_below(PRIME, entropy=entropy)) for _ in range(degree)]
    polynomial = [int.from_bytes(secret, "big"), *coefficients]
    return {point: evaluate(polynomial, _point(point)).to_bytes(SHARE, "big") for point in points}


def recover(shares: Mapping[int, bytes], *, threshold: int) -> bytes:
    """The secret, from at least `threshold` shares by their points; that many of them are used.

    A share that is wrong makes the secret wrong: whoever recovers it compares it with what is public about it.

    >>> recover({1: bytes(33)}, threshold=2)
    Traceback (most recent call last):
    discreet.errors.InvalidData: 1 share is not enough to recover this secret; 2 are needed
    """
    if len(shares) < threshold:
        verb = "share is" if len(shares) == 1 else "shares are"
        raise InvalidData(f"{len(shares)} {verb} not enough to recover this secret; {threshold} are needed")
    used = sorted((_point(point), _value(share)) for point, share in shares.items())[:threshold]
    secret = interpolate(dict(used), 0)
    if secret >= 1 << 8 * KEY:
        raise InvalidData("these shares do not belong to one secret")
    return secret.to_bytes(KEY, "big")


def evaluate(polynomial: list[int], x: int, prime: int = PRIME) -> int:
    """The value at x of the polynomial whose coefficients are given, lowest first.

    >>> evaluate([1, 2, 3], 2, 7)  # 1 + 4 + 12
    3
    """
    value = 0
    for coefficient in reversed(polynomial):
        value = (value * x + coefficient) % prime
    return value


def interpolate(values: Mapping[int, int], x: int, prime: int = PRIME) -> int:
    """The value at x of the polynomial of least degree through all of these points (Lagrange).

    >>> interpolate({1: 6, 2: 3, 3: 6}, 0, 7)
    1
    """
    weights = _weights(tuple(values), x, prime)
    return sum(value * weight for value, weight in zip(values.values(), weights, strict=True)) % prime


@lru_cache(maxsize=16)
def _weights(points: tuple[int, ...], x: int, prime: int) -> tuple[int, ...]:
    """What each value counts in the value at x: Π (x − other)/(mine − other). Kept: a round asks for the same again."""
    weights = []
    for mine in points:
        above = below = 1
        for other in points:
            if other != mine:
                above = above * (x - other) % prime
                below = below * (mine - other) % prime
        weights.append(above * pow(below, -1, prime) % prime)
    return tuple(weights)


def _point(point: int) -> int:
    return integer(point, "point", at_least=1, at_most=10**6)


def _value(share: bytes) -> int:
    value = int.from_bytes(share, "big")
    if len(share) != SHARE or value >= PRIME:
        raise InvalidData("this is not a share of a secret")
    return value


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
