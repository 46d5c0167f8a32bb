"""Threshold sharing of a 256-bit secret (Shamir 1979): any t shares give it back, t − 1 say nothing about it.

The secret is f(0) of a polynomial f of degree t − 1 over the field of p = 2²⁵⁶ + 297 elements, whose other coefficients
are uniform; the share of point x is f(x).

Guarantee: any t − 1 shares are uniform and independent of the secret.
Proof. Fix the secret s and t − 1 distinct points other than 0. Coefficients and values at these points determine each
other, because exactly one polynomial of degree t − 1 passes through (0, s) and any t − 1 given values (Lagrange). So
uniform coefficients give uniform values, whatever s is.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache

from discreet.errors import InvalidData
from discreet.exact import integer
from discreet.learning.federated.keys import KEY
from discreet.noise import Entropy, uniform_below

PRIME = 2**256 + 297
SHARE = 33
"""Bytes of a share."""


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
