import contextlib
import itertools
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.errors import InvalidData, InvalidParameter
from discreet.learning.federated.crypto import PRIME, SHARE, evaluate, interpolate, recover, split


def test_the_modulus_is_prime():
    """Miller–Rabin with forty bases: a composite passes with probability below 4^−40."""
    odd, twos = PRIME - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in range(2, 42):
        powers = [pow(base, odd << k, PRIME) for k in range(twos)]
        assert powers[0] == 1 or PRIME - 1 in powers


@given(st.binary(min_size=32, max_size=32), st.data())
def test_any_threshold_of_shares_recover(secret, data):
    count = data.draw(st.integers(1, 8))
    threshold = data.draw(st.integers(1, count))
    shares = split(secret, range(1, count + 1), threshold=threshold)
    kept = data.draw(st.permutations(sorted(shares)))[: data.draw(st.integers(threshold, count))]
    assert recover({point: shares[point] for point in kept}, threshold=threshold) == secret


@pytest.mark.parametrize("threshold", [2, 3])
def test_fewer_shares_say_nothing_by_enumeration(threshold):
    """All polynomials over seven elements: any t − 1 shares have one distribution, whatever the secret is."""
    prime = 7
    for points in itertools.combinations(range(1, prime), threshold - 1):
        seen = [
            Counter(
                tuple(evaluate([secret, *rest], x, prime) for x in points)
                for rest in itertools.product(range(prime), repeat=threshold - 1)
            )
            for secret in range(prime)
        ]
        assert all(counts == seen[0] for counts in seen)
        assert set(seen[0].values()) == {1}
        assert len(seen[0]) == prime ** (threshold - 1)


def test_threshold_many_shares_say_all():
    """The enumeration above would see a leak: one share more fixes the secret."""
    seen = [{tuple(evaluate([s, a], x, 7) for x in (1, 2)) for a in range(7)} for s in range(7)]
    assert all(not one & other for one, other in itertools.combinations(seen, 2))


def test_fewer_shares_fit_every_secret():
    shares = split(bytes(32), [1, 2, 3], threshold=3)
    known = {x: int.from_bytes(shares[x], "big") for x in (1, 2)}
    for other in (1, 2**255, 2**256 - 1):
        through = {0: other, **known}
        third = interpolate(through, 3)
        together = {x: y.to_bytes(SHARE, "big") for x, y in {**known, 3: third}.items()}
        assert recover(together, threshold=3) == other.to_bytes(32, "big")


def test_fewer_shares_are_refused():
    shares = split(bytes(range(32)), [1, 2, 3], threshold=3)
    with pytest.raises(InvalidData, match="2 shares are not enough to recover this secret; 3 are needed"):
        recover({1: shares[1], 2: shares[2]}, threshold=3)


def test_shares_of_a_number_too_large_are_refused():
    share = (2**256 + 5).to_bytes(SHARE, "big")
    with pytest.raises(InvalidData, match="do not belong to one secret"):
        recover({1: share}, threshold=1)


@pytest.mark.parametrize("share", [b"", bytes(32), bytes(34), PRIME.to_bytes(SHARE, "big")])
def test_what_is_not_a_share_is_refused(share):
    with pytest.raises(InvalidData, match="not a share"):
        recover({1: share}, threshold=1)


@pytest.mark.parametrize("secret", [b"short", bytes(33), "text", bytearray(32)])
def test_what_is_not_a_secret_is_refused(secret):
    with pytest.raises(InvalidData, match="not 32 bytes"):
        split(secret, [1], threshold=1)


@pytest.mark.parametrize("point", [0, -1, True, 1.0])
def test_the_point_of_the_secret_is_never_given_out(point):
    with pytest.raises(InvalidParameter):
        split(bytes(32), [point], threshold=1)


def test_wrong_shares_give_a_wrong_secret():
    shares = split(bytes(range(32)), [1, 2], threshold=2)
    changed = ((int.from_bytes(shares[1], "big") + 1) % PRIME).to_bytes(SHARE, "big")
    with contextlib.suppress(InvalidData):  # or none at all
        assert recover({1: changed, 2: shares[2]}, threshold=2) != bytes(range(32))
