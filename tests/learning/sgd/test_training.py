"""DP-SGD: one example's influence, exactly and by statistics; lots, clipping, riders, memory, copies, averages."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.errors import InternalError, InvalidData
from discreet.learning.networks.layers import Dense, Relu, Tanh
from discreet.learning.networks.network import Logistic, Network, Softmax, Squared
from discreet.learning.sgd import clipping, training
from discreet.learning.sgd.clipping import UNITS, shaped
from discreet.learning.sgd.recipe import Adam, Adaptive, Recipe, Schedule, Sgd
from discreet.learning.sgd.run_state import curve_noise
from discreet.learning.sgd.training import RIDERS, State, contributions, finished, train
from discreet.noise import DeterministicEntropy

NETWORK = Network([Dense(7), Relu(), Dense(3)], Softmax(), inputs=(5,))
RNG = np.random.default_rng(20261116)
X = RNG.normal(size=(300, 5)).astype(np.float32)
Y = RNG.integers(0, 3, 300)


def recipe(**settings):
    return Recipe(
        **{"rate": "1/10", "lot": 30, "steps": 5, "multiplier": 1, "clip": 1, "optimizer": Sgd("0.1")} | settings
    )


def squared_norm(vector):
    """Exact, in Python's whole numbers."""
    return sum(v**2 for v in vector.tolist())


CHOICES = [
    {},
    {"curve": 0},
    {"curve": "1/4", "adaptive": Adaptive(share="1/4")},
    {"per_layer": True},
    {"copies": 3},
]


@pytest.mark.parametrize("settings", CHOICES, ids=str)
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e6, 1e18])
def test_one_example_more_changes_the_sum_by_at_most_the_clipping_norm_exactly(settings, scale):
    """The audit of one step: every example of a lot, taken out, leaves the others' contributions as they were."""
    plan = recipe(clip="0.7", **settings)
    state = State.start(NETWORK, plan)
    x = X * np.float32(scale)
    lot = np.arange(40)
    whole = contributions(NETWORK, state, x, Y, lot, plan)
    for left_out in range(40):
        fewer = contributions(NETWORK, state, x, Y, np.delete(lot, left_out), plan)
        alone = contributions(NETWORK, state, x, Y, np.array([left_out]), plan)
        change = whole - fewer
        assert (change == alone).all()
        assert squared_norm(change) <= UNITS**2


def test_the_bound_is_reached_within_a_thousandth():
    """A clipped example fills its room: the noise is not needlessly large."""
    plan = recipe(clip="0.01", worst_loss="0.001")
    state = State.start(NETWORK, plan)
    for k in range(20):
        change = contributions(NETWORK, state, X, Y, np.array([k]), plan)
        assert squared_norm(change) > 0.998 * UNITS**2


@settings(max_examples=30)
@given(st.lists(st.floats(width=32, allow_nan=True, allow_infinity=True), min_size=5, max_size=5), st.integers(0, 2))
def test_no_example_whatever_it_is_weighs_more_than_one(row, label):
    plan = recipe(adaptive=Adaptive())
    state = State.start(NETWORK, plan)
    x = np.array([row], np.float32)
    assert squared_norm(contributions(NETWORK, state, x, np.array([label]), np.array([0]), plan)) <= UNITS**2


def test_riders_are_exact_sums_however_many():
    """In float32 the sum of a thousand riders would depend on their order."""
    plan = recipe(adaptive=Adaptive(), curve="1/4")
    state = State.start(NETWORK, plan)
    lot = np.arange(300)
    whole = contributions(NETWORK, state, X, Y, lot, plan)[-RIDERS:]
    single = sum(contributions(NETWORK, state, X, Y, lot[k : k + 1], plan)[-RIDERS:] for k in range(300))
    assert (whole == single).all()


@pytest.mark.parametrize("memory", [1 << 20, 1 << 28])
def test_parts_under_a_memory_limit_give_the_same_sum(memory):
    wide = Network([Dense(3000), Tanh(), Dense(3)], Softmax(), inputs=(5,))
    plan, least = recipe(memory=memory), recipe(memory=1 << 30)
    state = State.start(wide, plan)
    lot = np.arange(200)
    found, expected = (contributions(wide, state, X, Y, lot, one) for one in (plan, least))
    assert (found == expected).all()
    parts = training._parts(lot, state.parameters, plan, wide)
    assert (len(parts) > 1) == (memory == 1 << 20)
    assert (np.concatenate(parts) == lot).all()


def test_noise_has_the_stated_deviation_and_not_another():
    """Empty lots show the noise alone: its variance is σ², tested at a false-alarm rate of 1e-6, with power at 30 %."""
    multiplier, lot, steps = Fraction(3, 2), 10, 20
    plan = recipe(multiplier=multiplier, lot=lot, steps=steps, optimizer=Sgd(1), curve=0, clip=2)
    nobody = np.zeros((0, 5), np.float32)
    positions = []
    train(
        NETWORK,
        nobody,
        np.zeros(0, int),
        plan,
        entropy=DeterministicEntropy(5),
        each=lambda s: positions.append(np.concatenate([p.ravel() for p in s.parameters]).astype(np.float64)),
    )
    start = np.concatenate([p.ravel() for p in State.start(NETWORK, plan).parameters]).astype(np.float64)
    moves = np.diff(np.stack([start, *positions]), axis=0).ravel()
    sigma = float(multiplier) * 2 / lot
    n = moves.size

    def surprising(scale):
        """|Σx²/s² − n| in deviations of a χ² with n degrees: beyond 5 is rarer than 1e-6."""
        return abs(np.square(moves / scale).sum() - n) / math.sqrt(2 * n) > 5

    assert n == 20 * (6 * 7 + 8 * 3)
    assert not surprising(sigma)
    assert surprising(1.3 * sigma)
    assert surprising(sigma / 1.3)


def test_lots_are_poisson_samples(monkeypatch):
    """Each example is in each lot with the stated chance, on its own: sizes vary as a binomial does."""
    sizes, counts = [], np.zeros(300)

    def look(network, state, x, y, lot, *rest):
        sizes.append(len(lot))
        counts[lot] += 1
        return np.zeros(sum(p.size for p in state.parameters) + RIDERS, np.int64)

    monkeypatch.setattr(training, "contributions", look)
    plan = recipe(steps=400, optimizer=Sgd("1e-6"))
    train(NETWORK, X, Y, plan, entropy=DeterministicEntropy(7))
    mean, variance = 30, 27
    assert abs(np.mean(sizes) - mean) < 5 * math.sqrt(variance / 400)
    assert 0.7 < np.var(sizes) / variance < 1.4  # fixed sizes would give 0
    assert abs(counts - 40).max() < 6.5 * math.sqrt(400 * 0.1 * 0.9)


def test_empty_lots_work():
    plan = recipe(rate="1/1000000", steps=3)
    state = train(NETWORK, X[:1], Y[:1], plan)
    assert state.step == 3
    assert all(np.isfinite(p).all() for p in state.parameters)


def test_it_learns_and_the_noisy_curve_follows_the_loss():
    x = RNG.normal(size=(4000, 5)).astype(np.float32)
    y = x[:, :3].argmax(axis=1)
    plan = recipe(rate="1/4", lot=1000, steps=80, optimizer=Sgd(1, "0.9", Schedule("cosine")), average="0.9")
    state = train(NETWORK, x, y, plan, entropy=DeterministicEntropy(1))
    outputs = NETWORK.predict(finished(state, plan), x)
    assert (outputs.argmax(axis=1) == y).mean() > 0.9
    true = float(Softmax().gradient(outputs, y)[0].mean())
    noise = curve_noise(plan) / math.sqrt(10)
    assert np.mean(state.losses[-10:]) == pytest.approx(true, abs=5 * noise + 0.1)
    assert state.losses[0] > np.mean(state.losses[-10:])


def test_an_adaptive_norm_goes_to_its_quantile():
    plan = recipe(
        rate=1, lot=300, steps=120, multiplier="1/2", clip=50, adaptive=Adaptive("1/2"), optimizer=Sgd("1e-5")
    )
    state = train(NETWORK, X, Y, plan, entropy=DeterministicEntropy(3))
    _, gradients = NETWORK.gradients(state.parameters, X, Y)
    norms = np.sqrt(sum(np.square(g.formed()).reshape(300, -1).sum(axis=1) for g in gradients))
    assert 0.35 < (norms <= float(state.clip)).mean() < 0.65
    assert state.clips[0] == 50


def test_copies_are_averaged_before_clipping():
    def shift(x, copy):
        return x + np.float32(copy)

    plan = recipe(copies=2, clip=1000, curve=0)
    state = State.start(NETWORK, plan)
    found = contributions(NETWORK, state, X, Y, np.arange(20), plan, shift)
    _, zero = NETWORK.gradients(state.parameters, X[:20], Y[:20])
    _, one = NETWORK.gradients(state.parameters, X[:20] + 1, Y[:20])
    for part, a, b in zip(shaped(found[:-RIDERS], zero), zero, one, strict=True):
        expected = (a.summed() + b.summed()) / 2
        np.testing.assert_allclose(part / UNITS * 1000, expected, atol=5e-3)


def test_a_network_that_runs_away_says_nothing_of_anybody():
    """NaN gradients count as nothing, and nothing is raised at a step that depends on the data."""
    plan = recipe(optimizer=Sgd(10**30), steps=4)
    state = train(NETWORK, X, Y, plan)
    assert state.step == 4
    assert all(math.isfinite(loss) for loss in state.losses)


def test_adam_and_schedules_run():
    plan = recipe(optimizer=Adam("0.01", schedule=Schedule("linear", warmup="0.2")))
    assert train(NETWORK, X, Y, plan).step == 5


@pytest.mark.parametrize(
    ("x", "y", "network", "words"),
    [
        (X[:, :4], Y, NETWORK, "expected numbers of shape \\(n, 5\\)"),
        (X, Y[:-1], NETWORK, "300 examples but 299 targets"),
        (X, Y + 1, NETWORK, "not a class from 0 to 2"),
        (X, Y.astype(float), NETWORK, "whole numbers"),
        (X.astype(str), Y, NETWORK, "expected numbers"),
        (X, np.full(300, np.nan), Network([Dense(1)], Squared(), (5,)), "target 0 is not a finite number"),
        (X, Y, Network([Dense(1)], Logistic(), (5,)), "not a class from 0 to 1"),
    ],
)
def test_bad_inputs_are_refused_before_a_coin_is_thrown(x, y, network, words, scripted):
    with pytest.raises(InvalidData, match=words):
        train(network, x, y, recipe(), entropy=scripted([]))


def test_a_machine_on_which_company_matters_is_refused(monkeypatch, scripted):
    calls = iter(range(10**6))

    def careless(network, parameters, x):
        return [np.full(len(x), next(calls), np.float32)]

    monkeypatch.setattr(clipping, "_rows", careless)
    clipping._tried.cache_clear()
    try:
        with pytest.raises(InternalError, match="depends on the other examples"):
            train(NETWORK, X, Y, recipe(), entropy=scripted([]))
    finally:
        clipping._tried.cache_clear()


def test_predictions_do_not_depend_on_how_many_at_once():
    parameters = NETWORK.start(seed=1)
    many = np.tile(X, (20, 1))
    assert (NETWORK.predict(parameters, many)[:300] == NETWORK.predict(parameters, X)).all()
    assert NETWORK.predict(parameters, X[:0]).shape == (0, 3)


@pytest.mark.parametrize(
    ("form", "at"), [("constant", [0, 1, 1, 1]), ("linear", [0, 1, 0.6, 0.2]), ("cosine", [0, 1, 0.6, 0.2])]
)
def test_schedules(form, at):
    schedule = Schedule(form, warmup="0.5", last="0.2")
    assert [round(schedule.at(done), 6) for done in (0, 0.5, 0.75, 1)] == at


def test_several_numbers_are_predicted_at_once():
    network = Network((Dense(3),), Squared(), (2,))
    x = np.random.default_rng(0).normal(size=(200, 2)).astype(np.float32)
    y = np.stack([x[:, 0], x[:, 1], x.sum(axis=1)], axis=1)
    recipe = Recipe(rate="1/2", lot=100, steps=3, multiplier=1, clip=1, optimizer=Sgd("0.1"))
    assert train(network, x, y, recipe, entropy=DeterministicEntropy(1)).step == 3
