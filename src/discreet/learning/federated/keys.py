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
"""

import hashlib
from dataclasses import dataclass, field

from discreet.errors import InvalidData, InvalidParameter
from discreet.noise.entropy import SYSTEM, Entropy

KEY = 32
"""Bytes of every key, public or secret, and of every digest."""

SIGNATURE = 64
_ONCE = bytes(12)  # the nonce of a key that seals one letter only
_PROBE = bytes(range(KEY))


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
    >>> agree(a, public(b), b"pads") == agree(b, public(a), b"pads") != agree(a, public(b), b"letters")
    True
    >>> agree(a, bytes(32), b"pads")
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
