"""Loops are compiled when there is enough work, when numba is there, and when nobody forbids it."""

import sys

import numpy as np
import pytest

from discreet import compiled
from discreet.compiled import ENOUGH, loop, prepare


@loop(reorder=True)
def total(numbers, out):
    for place in range(numbers.size):
        out[0] += numbers[place]


def test_little_work_is_left_to_numpy():
    assert not prepare(ENOUGH - 1)
    assert total.fast is None


def test_much_work_is_compiled_and_gives_the_same():
    pytest.importorskip("numba")
    assert prepare(ENOUGH)
    assert prepare(1), "what is compiled once serves small work too"
    out = np.zeros(1)
    assert total.fast is not None
    total.fast(np.arange(1000.0), out)
    assert out.tolist() == [499500.0]


def test_the_environment_can_forbid_it(monkeypatch):
    monkeypatch.setenv("DISCREET_COMPILED", "0")
    assert not prepare(10 * ENOUGH)
    assert total.fast is None


def test_without_numba_numpy_does_the_work(monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", None)
    assert not prepare(10 * ENOUGH)
    assert compiled._State.numba is None
