import importlib.util
import sys

import numpy as np
import pytest
from tests.synthetic.chain_tables import ADD, chain

from discreet.errors import InvalidData, MissingExtra
from discreet.noise import DeterministicEntropy
from discreet.synthetic.fit import graphical
from discreet.synthetic.measure.noisy_marginals import Measurement, counts, design, measure, ones, pairs
from discreet.synthetic.quality import distance

needs_mbi = pytest.mark.skipif(importlib.util.find_spec("mbi") is None, reason="mbi is not installed")
SIZES = (3, 4, 3, 2)
CODES = chain(4000, SIZES, 1)


@needs_mbi
@pytest.mark.slow
def test_a_chain_is_recovered_and_drawn():
    measured = measure(CODES, design(SIZES, multiplier=3, neighbors=ADD), entropy=DeterministicEntropy(1))
    table = graphical.fit(SIZES, measured, iterations=300)
    assert {(0, 1), (1, 2), (2, 3)} <= set(table.used)
    codes = table.draw(entropy=DeterministicEntropy(2))
    assert codes.shape == (round(table.total), 4)
    assert (codes == table.draw(entropy=DeterministicEntropy(2))).all()
    for each in pairs(SIZES):
        true = counts(CODES, SIZES, each) / 4000
        assert distance(table.marginal(each) / table.total, true) < 0.04
        assert distance(counts(codes, SIZES, each) / len(codes), true) < 0.05


@pytest.mark.slow
@needs_mbi
def test_a_model_stays_within_its_memory():
    measured = [Measurement(each, counts(CODES, SIZES, each), 1.0) for each in [*ones(SIZES), *pairs(SIZES)]]
    small = graphical.fit(SIZES, measured, memory=8 * 20, iterations=50)
    large = graphical.fit(SIZES, measured, memory=10**6, iterations=50)
    assert len(small.used) < len(large.used) == 10


def test_measurements_must_fit_the_sizes():
    with pytest.raises(InvalidData, match="does not fit"):
        graphical.fit(SIZES, [Measurement((0,), np.zeros(9, int), 1.0)])


def test_without_mbi_it_says_what_to_install(monkeypatch):
    for name in [name for name in sys.modules if name == "mbi" or name.startswith("mbi.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mbi", None)
    with pytest.raises(MissingExtra, match="graphical"):
        graphical.fit(SIZES, [Measurement((0,), np.array([3, 2, 1]), 1.0)])
