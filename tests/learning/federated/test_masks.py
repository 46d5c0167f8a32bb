import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.errors import InvalidData
from discreet.learning.federated import crypto
from discreet.learning.federated.client import own_mask, pair_mask
from discreet.learning.federated.crypto import public, random_key

BITS = [1, 2, 8, 31, 32, 33, 63, 64]


@pytest.mark.parametrize("bits", BITS)
def test_numbers_come_back(bits):
    values = np.array([0, -1, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1], np.int64)
    words = crypto.reduced(crypto.wrapped(values, bits), bits)
    assert crypto.signed(words, bits).tolist() == values.tolist()
    assert crypto.parse(words.tobytes(), bits, 4).tolist() == words.tolist()


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("length", [1, 5, 40_000])
def test_pads_cancel_exactly(bits, length):
    """Across blocks, and with an odd number of words left over."""
    words = np.zeros(length, crypto.dtype(bits))
    crypto.apply(words, bytes(range(32)), add=True)
    assert length < 5 or np.unique(words).size > 2
    crypto.apply(words, bytes(range(32)), add=False)
    assert not words.any()


def test_a_pad_is_one_stream():
    """Blocks go on where the last one ended: no part of the stream serves twice."""
    words = np.zeros(100_000, "<u8")
    crypto.apply(words, bytes(32), add=True)
    assert np.unique(words).size == words.size
    short = np.zeros(10, "<u8")
    crypto.apply(short, bytes(32), add=True)
    assert short.tolist() == words[:10].tolist()


def test_one_of_a_pair_adds():
    names = ["a", "b", "ä", "aa", "Z", "z" * 5]
    for one in names:
        for other in names:
            assert one == other or crypto.adds(one, other) != crypto.adds(other, one)


@given(st.permutations(["ann", "bob", "eve"]))
def test_keys_of_pads_depend_on_round_and_pair(names):
    secrets = {name: random_key() for name in names}
    a, b, c = names
    key = pair_mask(secrets[a], public(secrets[b]), b"1", (a, b))
    assert key == pair_mask(secrets[b], public(secrets[a]), b"1", (b, a))
    others = {
        pair_mask(secrets[a], public(secrets[c]), b"1", (a, c)),
        pair_mask(secrets[a], public(secrets[b]), b"2", (a, b)),
        own_mask(secrets[a], b"1"),
        own_mask(secrets[a], b"2"),
    }
    assert len(others) == 4
    assert key not in others


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (bytes(11), "11 bytes, expected 3 numbers"),
        (bytes(8), "2 numbers, expected 3 numbers"),
        (bytes(16), "4 numbers, expected 3 numbers"),
        (bytes(8) + b"\x00\x01\x00\x00", "more than 8 bits"),
    ],
)
def test_a_vector_of_another_form_is_refused(data, words):
    with pytest.raises(InvalidData, match=words):
        crypto.parse(data, 8, 3)
