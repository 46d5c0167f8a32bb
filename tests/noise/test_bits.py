"""Rows of packed coins."""

from fractions import Fraction

import numpy as np
import pytest
from tests.conftest import Scripted
from tests.statistical.power import Stream, assert_frequency

from discreet.errors import InvalidParameter
from discreet.noise import DeterministicEntropy
from discreet.noise.uniform import random_bits

F = Fraction


@pytest.mark.parametrize("p", [F(0), F(1), F(1, 2), F(1, 4), F(3, 4), F(1, 3), F(1, 1000), F(999, 1000)], ids=str)
@pytest.mark.parametrize("size", [1, 63, 64, 65, 130])
def test_random_bits_have_their_probability_and_stay_within_the_row(p, size):
    stream, rows = Stream(), 4000
    table = random_bits(p, rows, size, entropy=stream)
    assert table.shape == (rows, -(-size // 64))
    unpacked = np.unpackbits(table.view(np.uint8), axis=1, bitorder="little")
    assert not unpacked[:, size:].any()
    assert_frequency(unpacked[:, :size].ravel().astype(bool), float(p), f"bits of {p}", stream)
    for column in {0, size - 1}:
        assert_frequency(unpacked[:, column].astype(bool), float(p), f"bit {column} of {p}", stream, tests=2)


def test_a_bit_is_decided_by_the_first_digit_that_differs():
    """p = 5/8 = 0.101: a first digit 0 is below; 1, 1 is above; 1, 0, 0 is below; 1, 0, 1 is what remains, above."""
    first, second, third = 0b0111, 0b0011, 0b0001  # bits 3 … 0 see 0??, 10?0, 110?, 101 … one digit each from the words
    bits = random_bits(F(5, 8), 1, 4, entropy=Scripted([first, second, third]))
    decided = {bit: ((first >> bit) & 1, (second >> bit) & 1, (third >> bit) & 1) for bit in range(4)}
    for bit, digits in decided.items():
        value = F(digits[0], 2) + F(digits[1], 4) + F(digits[2], 8)
        assert bool(int(bits[0, 0]) >> bit & 1) == (value < F(5, 8)), digits


def test_a_small_probability_far_down_the_digits():
    """1/3 · 2^−30: only the digits after the thirtieth can decide for a one."""
    assert not random_bits(F(1, 3 << 30), 100, 64, entropy=DeterministicEntropy(3)).any()


def test_certain_bits_need_no_randomness():
    assert random_bits(1, 2, 66, entropy=Scripted([])).tolist() == [[2**64 - 1, 3]] * 2
    assert random_bits(0, 2, 66, entropy=Scripted([])).tolist() == [[0, 0]] * 2
    assert random_bits("1/2", 0, 66, entropy=Scripted([])).shape == (0, 2)


@pytest.mark.parametrize(
    "bad", [{"p": 1.5}, {"p": -1}, {"rows": -1}, {"size": 0}, {"rows": 2**31}, {"p": None}], ids=str
)
def test_what_cannot_be_drawn_is_refused(bad):
    with pytest.raises(InvalidParameter):
        random_bits(**{"p": "1/2", "rows": 1, "size": 8, **bad})
