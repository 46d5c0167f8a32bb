import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.errors import InvalidParameter
from discreet.learning.federated import GaussianShare, PolyaShare, RoundSettings

KEYS = {name: name.encode() * 32 for name in "abcdefgh"}
GOOD = {
    "round_id": bytes(16),
    "clients": KEYS,
    "threshold": 6,
    "colluding": 2,
    "length": 10,
    "bound": 100,
    "noise": None,
}


@given(st.integers(2, 8), st.integers(0, 2**58))
def test_sums_cannot_wrap_and_no_bit_is_wasted(count, bound):
    clients = dict(list(KEYS.items())[:count])
    terms = RoundSettings(**{**GOOD, "clients": clients, "threshold": count, "colluding": 0, "bound": bound})
    most = count * bound
    assert most <= 2 ** (terms.bits - 1) - 1
    assert most == 0 or most > 2 ** (terms.bits - 2) - 1


def test_noise_has_room():
    noise = GaussianShare(sigma=1000, honest=4, sensitivity=1, dimension=10)
    terms = RoundSettings(**{**GOOD, "noise": noise})
    assert 2 ** (terms.bits - 1) > 8 * 100 + 10 * 1000 * 8**0.5


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("round_id", bytes(15)),
        ("round_id", "0123456789abcdef"),
        ("clients", {}),
        ("clients", {"a": b"a" * 32}),
        ("clients", [("a", b"a" * 32)]),
        ("clients", {**KEYS, "": bytes(32)}),
        ("clients", {**KEYS, "line\nbreak": bytes(32)}),
        ("clients", {**KEYS, "i": bytes(31)}),
        ("clients", {**KEYS, 3: bytes(32)}),
        ("clients", {**KEYS, "i": b"a" * 32}),
        ("threshold", 1),
        ("threshold", 9),
        ("threshold", 5),
        ("threshold", True),
        ("threshold", 6.0),
        ("colluding", 4),
        ("colluding", -1),
        ("length", 0),
        ("length", 2**40),
        ("bound", -1),
        ("bound", 2**61),
        ("bound", 1.5),
        ("bound", float("nan")),
        ("noise", 3),
        ("noise", PolyaShare(epsilon=1, honest=5, sensitivity=1)),
        ("noise", GaussianShare(sigma=1, honest=5, sensitivity=1, dimension=10)),
        ("noise", GaussianShare(sigma=1, honest=4, sensitivity=1, dimension=9)),
    ],
)
def test_bad_terms_are_refused(name, value):
    RoundSettings(**GOOD)
    with pytest.raises(InvalidParameter):
        RoundSettings(**{**GOOD, name: value})


def test_every_term_is_in_the_digest():
    changes = {
        "round_id": bytes(17),
        "clients": {**KEYS, "a": b"z" * 32},
        "threshold": 7,
        "colluding": 1,
        "length": 11,
        "bound": 101,
        "noise": PolyaShare(epsilon=1, honest=4, sensitivity=1),
    }
    digests = {RoundSettings(**{**GOOD, name: value}).digest for name, value in changes.items()}
    digests.add(RoundSettings(**{**GOOD, "noise": PolyaShare(epsilon=2, honest=4, sensitivity=1)}).digest)
    digests.add(RoundSettings(**GOOD).digest)
    assert len(digests) == len(changes) + 2


def test_the_order_of_clients_does_not_matter():
    turned = dict(reversed(list(KEYS.items())))
    assert RoundSettings(**{**GOOD, "clients": turned}).digest == RoundSettings(**GOOD).digest
