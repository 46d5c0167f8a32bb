"""SCRAM-SHA-256 and SCRAM-SHA-256-PLUS (RFC 5802, 7677, 5929): a caller proves to know a token without sending it.

The server's side, without I/O: a message comes, a message goes. With TLS the proof covers the certificate
(tls-server-end-point), so that nobody in between can pass it on.
"""

import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from binascii import Error as NotBase64

from discreet.errors import AccessDenied
from discreet.noise.entropy import SYSTEM
from discreet.server.tokens import ScramVerifier

PLAIN, PLUS = "SCRAM-SHA-256", "SCRAM-SHA-256-PLUS"

_FIRST = re.compile(
    r"(n|y|p=([A-Za-z0-9.-]+)),(?:a=[^,]*)?,((?:m=[^,]*,)?n=[^,]*,r=([!-+\--~]{1,512})(?:,.*)?)", re.DOTALL
)
_FINAL = re.compile(r"(c=([A-Za-z0-9+/=]+),r=([!-+\--~]+)(?:,[^,]+)*?),p=([A-Za-z0-9+/=]+)", re.DOTALL)
_BINDING = "tls-server-end-point"


def mechanisms(certificate: bytes | None) -> list[str]:
    """What is offered: the mechanism that is bound to the certificate first, where there is one.

    >>> mechanisms(None)
    ['SCRAM-SHA-256']
    """
    return [PLAIN] if certificate is None else [PLUS, PLAIN]


def end_point(certificate: bytes) -> bytes | None:
    """The hash of a certificate (DER) to which a proof is bound; None where its signature names no hash (RFC 5929)."""
    from cryptography.hazmat.primitives.hashes import MD5, SHA1
    from cryptography.x509 import load_der_x509_certificate

    algorithm = load_der_x509_certificate(certificate).signature_hash_algorithm
    if algorithm is None:
        return None
    name = "sha256" if isinstance(algorithm, MD5 | SHA1) else algorithm.name
    return hashlib.new(name, certificate).digest()


def unknown_verifier(name: str, secret: bytes) -> ScramVerifier:
    """What an unknown name is asked with: always the same, like a known one, and nothing fits it."""
    salt = hmac.digest(secret, b"salt" + name.encode("utf-8", "surrogatepass"), "sha256")[:16]
    return ScramVerifier(salt, 4096, bytes(32), hmac.digest(secret, b"key", "sha256"))


class Exchange:
    """The proof of one caller, for one verifier. Any wrong step raises `AccessDenied`; there is no second try.

    Guarantee: `last` returns only to a client that knows the token of the verifier and, with PLUS, spoke TLS with the
    holder of the certificate. Proof. The client's key is recovered from the proof with the signature of all messages,
    among them both nonces, of which ours is fresh; its hash must be the stored one (RFC 5802, section 3).
    """

    def __init__(self, verifier: ScramVerifier, certificate: bytes | None, *, nonce: bytes | None = None) -> None:
        self._verifier, self._certificate = verifier, certificate
        self._own = b64encode(nonce or SYSTEM.words(3).tobytes()).decode()
        self._header = self._bare = self._first = self._nonce = ""

    def first(self, mechanism: str, message: bytes) -> bytes:
        """The answer to the client's first message: both nonces, the salt and the number of iterations."""
        if mechanism not in mechanisms(self._certificate):
            raise _denied("a mechanism that is not offered")
        parts = _FIRST.fullmatch(_decoded(message))
        if parts is None:
            raise _denied("a first message that is not SCRAM")
        flag, binding, bare, nonce = parts.groups()
        if (flag[0] == "p") != (mechanism == PLUS) or (flag[0] == "p" and binding != _BINDING):
            raise _denied(f"a channel binding that is not {_BINDING}")
        if flag == "y" and self._certificate is not None:
            raise _denied("no channel binding, although it is offered: the connection may be intercepted")
        self._header, self._bare, self._nonce = _decoded(message)[: -len(bare)], bare, nonce + self._own
        salt = b64encode(self._verifier.salt).decode()
        self._first = f"r={self._nonce},s={salt},i={self._verifier.iterations}"
        return self._first.encode()

    def last(self, message: bytes) -> bytes:
        """The server's own proof, once the client's is checked."""
        parts = _FINAL.fullmatch(_decoded(message))
        if parts is None or not self._nonce:
            raise _denied("a last message that is not SCRAM")
        without, binding, nonce, proof = parts[1], _bytes(parts[2]), parts[3], _bytes(parts[4])
        bound = self._certificate if self._header.startswith("p") and self._certificate is not None else b""
        if not hmac.compare_digest(binding, self._header.encode() + bound):
            raise _denied("a channel binding of another certificate")
        if not hmac.compare_digest(nonce.encode(), self._nonce.encode()):
            raise _denied("a nonce that is not this exchange's")
        signed = f"{self._bare},{self._first},{without}".encode()
        signature = hmac.digest(self._verifier.stored_key, signed, "sha256")
        if len(proof) != len(signature):
            raise _denied("a proof that does not fit")
        key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        if not hmac.compare_digest(hashlib.sha256(key).digest(), self._verifier.stored_key):
            raise _denied("a proof that does not fit")
        self._nonce = ""
        return b"v=" + b64encode(hmac.digest(self._verifier.server_key, signed, "sha256"))


def _decoded(message: bytes) -> str:
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise _denied("a message that is not UTF-8") from None


def _bytes(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except (NotBase64, ValueError):
        raise _denied("a value that is not base64") from None


def _denied(why: str) -> AccessDenied:
    return AccessDenied(f"SCRAM: {why}")
