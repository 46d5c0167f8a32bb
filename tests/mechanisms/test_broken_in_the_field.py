"""Failures seen in other libraries that concern values and sensitivities rather than noise: each cannot happen here."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from tests.conftest import stable
from tests.mechanisms.closed_forms import variance_sensitivity

from discreet.mechanisms import Gaussian, Geometric, Laplace
from discreet.mechanisms.mechanism import Grid, add
from discreet.mechanisms.neighbor_graph import sensitivity
from discreet.noise import DeterministicEntropy
from discreet.privacy.unit import Neighbors


def test_sums_of_snapped_values_do_not_depend_on_the_order():
    """Float sums do (Casacuberta, Shoemate, Vadhan, Wagaman 2022): the same values in another order tell a person apart."""
    values = [1e16, 1.0, -1e16, 1.0, 0.5, -0.5, 3.0]
    floats = {sum(order) for order in itertools.islice(itertools.permutations(values), 500)}
    assert len(floats) > 1
    whole = {
        int(Grid("0.5").snap(np.array(order)).sum()) for order in itertools.islice(itertools.permutations(values), 500)
    }
    assert whole == {10}


def test_squared_deviations_have_the_sensitivity_that_is_stated():
    """A library claims 40.6 for the sum of squared deviations where 63.9 is reached (OpenDP #2923)."""

    def squared_deviations(data):
        mean = Fraction(sum(data), 1) / len(data)
        return sum((x - mean) ** 2 for x in data)

    domain = [Fraction(k, 4) for k in range(5)]
    for size in (2, 3, 4, 5):
        found = sensitivity(squared_deviations, domain=domain, size=size, neighbors=Neighbors.CHANGE_ONE)
        assert found.value == size * variance_sensitivity(size=size) == Fraction(size - 1, size)


def test_sums_near_the_end_of_64_bits_stop_there_and_do_not_turn_around():
    """A tree of counts claims sensitivity 2 where 4.3e9 is reached by overflow (OpenDP #2925)."""
    near = np.array([2**62 - 1, -(2**62) + 1])
    assert add(near * 2, near * 2).tolist() == [2**63 - 1, -(2**63)]
    released = Geometric(epsilon="1e-12", sensitivity=1).release(near, entropy=DeterministicEntropy(1))
    assert released[0] > 2**61
    assert released[1] < -(2**61)


@pytest.mark.parametrize("mechanism", [Laplace(epsilon=1, sensitivity=1), Gaussian(sigma=1, sensitivity=1)], ids=stable)
def test_the_low_bits_of_a_value_do_not_show_in_its_release(mechanism):
    """Float noise leaves them there (Mironov 2012): releases of neighbors must have the same possible values."""
    for value in (0.1, 0.1 + 2**-40, 1 / 3, np.nextafter(1.0, 2)):
        released = mechanism.release(value)
        assert (Fraction(released) / mechanism.granularity).denominator == 1
