"""Copies of images: what they are, that each image's copy is its own, and that they train."""

import numpy as np
import pytest

from discreet.errors import InvalidData, InvalidParameter
from discreet.learning.networks.images import Shifts
from discreet.learning.networks.layers import Dense, Flatten
from discreet.learning.networks.network import Network, Softmax
from discreet.learning.sgd.recipe import Recipe, Sgd
from discreet.learning.sgd.run_state import State
from discreet.learning.sgd.training import contributions

RNG = np.random.default_rng(1)
IMAGES = RNG.normal(size=(6, 5, 4, 2)).astype(np.float32)


@pytest.mark.parametrize("copy", range(25))
def test_a_copy_is_the_image_moved_with_nothing_beyond_its_edges(copy):
    shifts = Shifts(2, fill=7)
    down, right = shifts.moves[copy]
    found = shifts(IMAGES, copy)
    for row in range(5):
        for column in range(4):
            inside = 0 <= row - down < 5 and 0 <= column - right < 4
            wanted = IMAGES[:, row - down, column - right] if inside else np.full((6, 2), 7)
            np.testing.assert_array_equal(found[:, row, column], wanted)


def test_copies_are_all_different_and_begin_with_the_image_itself():
    shifts = Shifts(1, mirror=True)
    copies = [shifts(IMAGES, copy) for copy in range(shifts.copies)]
    np.testing.assert_array_equal(copies[0], IMAGES)
    np.testing.assert_array_equal(copies[1], IMAGES[:, :, ::-1])
    assert len({copy.tobytes() for copy in copies}) == shifts.copies == 18
    np.testing.assert_array_equal(shifts(IMAGES, 18), copies[0])


def test_an_image_s_copy_does_not_depend_on_its_company():
    shifts = Shifts(1)
    for copy in range(shifts.copies):
        np.testing.assert_array_equal(shifts(IMAGES, copy)[3:4], shifts(IMAGES[3:4], copy))


def test_moves_beyond_the_image_leave_nothing_of_it():
    far = Shifts(6)
    place = far.moves.index((0, -6))
    assert not far(IMAGES, place).any()


def test_an_image_counts_for_one_clipping_norm_however_many_copies():
    network = Network([Flatten(), Dense(3)], Softmax(), (5, 4, 2))
    recipe = Recipe(rate=1, lot=6, steps=1, multiplier=1, clip="0.01", optimizer=Sgd(1), copies=9, curve=0)
    state, y = State.start(network, recipe), np.array([0, 1, 2, 0, 1, 2])
    whole = contributions(network, state, IMAGES, y, np.arange(6), recipe, Shifts(1))
    fewer = contributions(network, state, IMAGES, y, np.arange(5), recipe, Shifts(1))
    change = sum(v**2 for v in (whole - fewer).tolist())
    assert 0.99 * (1 << 60) < change <= 1 << 60


def test_the_mean_over_copies_is_what_is_clipped():
    network = Network([Flatten(), Dense(3)], Softmax(), (5, 4, 2))
    parameters, shifts = network.start(seed=1), Shifts(1)
    y = np.zeros(6, np.int64)
    _, (found,) = network.mean_gradients(parameters, IMAGES, y, shifts, 9)
    each = [network.gradients(parameters, shifts(IMAGES, copy), y)[1][0].formed() for copy in range(9)]
    np.testing.assert_allclose(found.formed(), np.mean(each, axis=0), atol=1e-5)


@pytest.mark.parametrize("reach", [-1, 65, 1.5, "1"])
def test_a_reach_that_makes_no_sense_is_refused(reach):
    with pytest.raises(InvalidParameter, match="reach"):
        Shifts(reach)


@pytest.mark.parametrize("images", [np.zeros((2, 4), np.float32), np.zeros((2, 4, 4), np.float32)])
def test_what_is_no_image_is_refused(images):
    with pytest.raises(InvalidData, match="height"):
        Shifts(1)(images, 0)


def test_a_negative_copy_is_refused():
    with pytest.raises(InvalidParameter, match="copy"):
        Shifts(1)(IMAGES, -1)


@pytest.mark.parametrize("fill", [float("nan"), float("inf"), "x", True])
def test_a_fill_that_is_no_number_is_refused(fill):
    with pytest.raises(InvalidParameter, match="fill"):
        Shifts(1, fill=fill)
