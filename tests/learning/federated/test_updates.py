"""What one client adds to a sum is bounded, exactly, whatever floats do."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from discreet.errors import InvalidData
from discreet.learning.federated import Federation, Local, Secure
from discreet.learning.federated import aggregation as module
from discreet.learning.federated.aggregation import length, update
from discreet.learning.federated.exchange import squared_norm
from discreet.learning.networks.layers import Dense, Relu
from discreet.learning.networks.network import Network, Softmax, Squared
from discreet.learning.sgd import training
from discreet.learning.sgd.clipping import MOST, UNITS
from discreet.learning.sgd.recipe import Adaptive, Sgd

NETWORK = Network([Dense(3), Relu(), Dense(2)], Softmax(), inputs=(2,))
SHAPES = [p.shape for p in NETWORK.start(seed=1)]
FLOATS = st.floats(width=32, allow_nan=True, allow_infinity=True)
CLIPS = st.sampled_from([Fraction(1, 10**6), Fraction(1, 3), Fraction(1), Fraction(10**6)])


def plan(**changes):
    settings_ = dict(clients=10, rounds=5, level="client", rate=1, multiplier=1, clip=1, optimizer=Sgd(1), secure=None)
    return Federation(**(settings_ | changes))


def norm(vector):
    return sum(int(v) ** 2 for v in vector)


KINDS = {
    "fedsgd": plan(),
    "fedavg": plan(local=Local("0.5", epochs=2, batch=2)),
    "adaptive": plan(adaptive=Adaptive(share="1/4"), curve="1/4"),
    "bare": plan(curve=0),
}


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_a_client_adds_at_most_one_clipping_norm(kind, data):
    parameters = [data.draw(hnp.arrays(np.float32, shape, elements=FLOATS)) for shape in SHAPES]
    rows = data.draw(st.integers(0, 5))
    x = data.draw(hnp.arrays(np.float32, (rows, 2), elements=FLOATS))
    y = data.draw(hnp.arrays(np.int64, rows, elements=st.integers(0, 1)))
    mine = update(KINDS[kind], NETWORK, parameters, data.draw(CLIPS), x, y)
    assert mine.vector.dtype == np.int64
    assert mine.vector.shape == (length(NETWORK),)
    assert norm(mine.vector) <= UNITS**2
    assert norm(mine.vector) == squared_norm(mine.vector)
    if not mine.finite:
        assert not mine.vector.any()


def test_large_updates_reach_the_bound():
    """The bound is kept where it matters, and not by making everything small."""
    parameters = NETWORK.start(seed=1)
    x, y = np.full((4, 2), 100, np.float32), np.array([0, 0, 1, 0])
    for kind in KINDS.values():
        mine = update(kind, NETWORK, parameters, Fraction(1, 1000), x, y)
        assert 0.85 * UNITS**2 < norm(mine.vector) <= UNITS**2, kind


@pytest.mark.parametrize("adaptive", [None, Adaptive(share="1/4")])
@pytest.mark.parametrize("values", [(0.5, -1.0), (1e30, 1e-30), (float("nan"), float("inf"))])
def test_one_example_moves_a_client_by_at_most_one_norm_whatever_the_coins(adaptive, values, monkeypatch):
    """All coins of five rows, each row left out: 2^5 × 5 pairs of neighbors."""
    kind = plan(level="example", examples=5, rate="1/2", adaptive=adaptive)
    x = np.array([[0.1, 2], [-3, 1], [values[0], 0], [7, values[1]], [1e3, -1e3]], np.float32)
    y, parameters = np.array([0, 1, 1, 0, 1]), NETWORK.start(seed=2)
    seen = 0

    def at(coins, keep):
        heads = np.flatnonzero(np.array(coins)[keep])
        monkeypatch.setattr(module, "poisson_sample", lambda rate, count, entropy: heads)
        return update(kind, NETWORK, parameters, Fraction(1, 2), x[keep], y[keep]).vector

    for coins in itertools.product([False, True], repeat=5):
        whole = at(coins, np.arange(5))
        for gone in range(5):
            rest = at(coins, np.delete(np.arange(5), gone))
            change = norm(whole - rest)
            assert change <= UNITS**2
            assert coins[gone] or change == 0
            seen += change > 0
    assert seen > 40  # a row of 1e30 counts as nothing, and a start may saturate another


def test_a_lot_is_drawn_by_the_entropy_that_is_given():
    from discreet.noise import DeterministicEntropy

    kind = plan(level="example", examples=100, rate="1/2")
    x, y = np.random.default_rng(1).normal(size=(100, 2)), np.arange(100) % 2
    at = [update(kind, NETWORK, NETWORK.start(seed=1), Fraction(1), x, y, entropy=DeterministicEntropy(s)).vector
          for s in (1, 1, 2)]  # fmt: skip
    assert (at[0] == at[1]).all()
    assert (at[0] != at[2]).any()


def test_huge_lots_are_clamped_to_what_is_sent():
    """Room is left for the whole lot at one client, and more: what is clamped is far from what was planned for."""
    secure = Secure(threshold="2/3", colluding=0)
    kind = plan(level="example", examples=5000, clients=1000, secure=secure, curve=0)
    most = kind.bound // kind.grain
    assert most >= 4 * 5000 * UNITS
    rows = 2 * most // UNITS
    x, y, parameters = np.ones((rows, 1)), np.full(rows, 5.0), [np.zeros((2, 1), np.float32)]
    vector = update(kind, LINEAR, parameters, Fraction(1, 1000), x, y).vector
    assert vector.tolist() == [-most, -most, 0, 0]


def test_no_lot_is_too_large_for_a_sum(monkeypatch):
    """An error would tell the coordinator how large it was: a lot is cut into parts that a sum takes."""
    kind = plan(level="example", examples=2**23, curve=0)
    sizes = []

    def recorded(network, state, x, y, lot, recipe):
        sizes.extend(len(part) for part in training._parts(lot, state.parameters, recipe, network))
        return np.zeros(4, np.int64)

    monkeypatch.setattr(module, "contributions", recorded)
    rows = np.zeros((MOST + 5, 1), np.float32)
    update(kind, LINEAR, [np.zeros((2, 1), np.float32)], Fraction(1), rows, rows[:, 0])
    assert sizes == [MOST, 5]


def test_rows_that_overflow_are_nothing_and_said_so():
    x = np.array([[np.nan, 1], [1, 1]], np.float32)
    mine = update(plan(), NETWORK, NETWORK.start(seed=1), Fraction(1), x, np.array([0, 1]))
    assert not mine.finite
    assert not mine.vector.any()
    hot = plan(local=Local(10**30, epochs=20))
    mine = update(hot, NETWORK, NETWORK.start(seed=1), Fraction(1), np.ones((4, 2)), np.array([0, 1, 1, 1]))
    assert not mine.finite


def test_a_client_without_rows_adds_nothing():
    for kind in KINDS.values():
        mine = update(kind, NETWORK, NETWORK.start(seed=1), Fraction(1), np.zeros((0, 2)), np.zeros(0, int))
        assert mine.finite
        assert not mine.vector.any()


LINEAR = Network([Dense(1)], Squared(), inputs=(1,))


def linear_gradient(parameters, x, y):
    error = x[:, 0] * parameters[0][0, 0] + parameters[0][1, 0] - y
    return np.array([(error * x[:, 0]).mean(), error.mean()])


def test_fedsgd_sends_the_mean_gradient():
    x, y = np.array([[1.0], [2.0], [4.0]]), np.array([1.0, 0.0, 3.0])
    parameters = [np.array([[0.5], [0.25]], np.float32)]
    mine = update(plan(clip=100, curve=0), LINEAR, parameters, Fraction(100), x, y)
    expected = linear_gradient(parameters, x, y)
    assert mine.vector[:2] * 100 / UNITS == pytest.approx(expected, rel=1e-3)
    assert mine.vector[2:].tolist() == [0, 0]


def test_fedavg_sends_what_its_own_steps_take_off():
    """Two epochs of lots 0, 2 and 1: worked out by hand."""
    x, y = np.array([[1.0], [2.0], [4.0]]), np.array([1.0, 0.0, 3.0])
    start = np.array([0.5, 0.25])
    own = start.copy()
    for part in (slice(0, None, 2), slice(1, None, 2)) * 2:
        own -= 0.1 * linear_gradient([own[:, None]], x[part], y[part])
    kind = plan(curve=0, local=Local("0.1", epochs=2, batch=2))
    mine = update(kind, LINEAR, [start[:, None].astype(np.float32)], Fraction(100), x, y)
    assert mine.vector[:2] * 100 / UNITS == pytest.approx(start - own, rel=1e-3)
    one = plan(curve=0, local=Local("0.1"))
    mine = update(one, LINEAR, [start[:, None].astype(np.float32)], Fraction(100), x, y)
    assert mine.vector[:2] * 100 / UNITS == pytest.approx(0.1 * linear_gradient([start[:, None]], x, y), rel=1e-3)


def test_the_global_model_is_not_changed():
    parameters = NETWORK.start(seed=1)
    before = [p.copy() for p in parameters]
    update(KINDS["fedavg"], NETWORK, parameters, Fraction(1), np.ones((4, 2)), np.array([0, 1, 1, 1]))
    assert all(np.array_equal(a, b) for a, b in zip(parameters, before, strict=True))


def test_riders_carry_the_loss_and_the_side_of_the_norm():
    kind = plan(curve="1/4", adaptive=Adaptive(share="1/16"), worst_loss=10)
    x, y = np.array([[1.0]]), np.array([3.0])
    parameters = [np.array([[0.0], [1.0]], np.float32)]  # the error is −2, the loss 2, the gradient (−2, −2)
    inside, outside = (update(kind, LINEAR, parameters, Fraction(clip), x, y).vector[2:] / UNITS for clip in (3, 2))
    assert inside.tolist() == pytest.approx([0.5 * 0.2, 0.25], rel=1e-6)
    assert outside.tolist() == pytest.approx([0.5 * 0.2, -0.25], rel=1e-6)


def test_many_rows_are_taken_some_at_a_time():
    x, y = np.random.default_rng(1).normal(size=(9001, 1)), np.random.default_rng(2).normal(size=9001)
    parameters = [np.array([[0.5], [0.25]], np.float32)]
    mine = update(plan(curve=0), LINEAR, parameters, Fraction(100), x, y)
    assert mine.vector[:2] * 100 / UNITS == pytest.approx(linear_gradient(parameters, x, y), rel=2e-3)


def test_wrong_rows_are_refused():
    with pytest.raises(InvalidData):
        update(plan(), NETWORK, NETWORK.start(seed=1), Fraction(1), np.ones((4, 5)), np.array([0, 1, 1, 1]))
    with pytest.raises(InvalidData):
        update(plan(), NETWORK, NETWORK.start(seed=1), Fraction(1), np.ones((4, 2)), np.array([0, 1, 1, 7]))


@given(st.lists(st.integers(-(2**30), 2**30), max_size=50))
def test_squared_norms_are_exact(values):
    assert squared_norm(np.array(values, np.int64)) == norm(values)
