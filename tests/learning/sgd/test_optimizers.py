"""Steps, against the papers' recursions in Python floats."""

import math

import numpy as np
import pytest

from discreet.errors import InvalidParameter
from discreet.learning.sgd.recipe import Adam, Schedule, Sgd

GRADIENTS = [[0.5, -1.0], [0.25, 2.0], [-3.0, 0.125], [0.0, 0.0], [1e-3, 7.0]]


def run(optimizer, gradients=GRADIENTS):
    parameters = [np.array([1.0, -2.0], np.float32), np.array([[4.0]], np.float32)]
    memory = optimizer.memory(parameters)
    for i, gradient in enumerate(gradients):
        given = [np.array(gradient, np.float32), np.array([[gradient[0]]], np.float32)]
        kept = [g.copy() for g in given]
        optimizer.step(parameters, memory, given, i / len(gradients))
        assert all((a == b).all() for a, b in zip(given, kept, strict=True)), "gradients belong to the caller"
    assert all(p.dtype == np.float32 for p in parameters)
    return parameters


@pytest.mark.parametrize(("momentum", "last"), [(0, 1), ("0.9", 1), ("0.5", "0.1"), (0, 0)])
def test_gradient_descent(momentum, last):
    parameters = run(Sgd("0.1", momentum, Schedule("linear", last=last)))
    place, velocity = [1.0, -2.0, 4.0], [0.0] * 3
    for i, (a, b) in enumerate(GRADIENTS):
        rate = 0.1 * (1 + (float(last) - 1) * i / len(GRADIENTS))
        for j, g in enumerate((a, b, a)):
            velocity[j] = float(momentum) * velocity[j] + g
            place[j] -= rate * velocity[j]
    assert [*parameters[0], *parameters[1].ravel()] == pytest.approx(place, abs=1e-5)


@pytest.mark.parametrize("last", [1, "0.2"])
def test_adam(last):
    parameters = run(Adam("0.1", schedule=Schedule("linear", last=last)))
    place, mean, square = [1.0, -2.0, 4.0], [0.0] * 3, [0.0] * 3
    for i, (a, b) in enumerate(GRADIENTS):
        rate = 0.1 * (1 + (float(last) - 1) * i / len(GRADIENTS))
        for j, g in enumerate((a, b, a)):
            mean[j] = 0.9 * mean[j] + 0.1 * g
            square[j] = 0.999 * square[j] + 0.001 * g * g
            corrected = mean[j] / (1 - 0.9 ** (i + 1)), square[j] / (1 - 0.999 ** (i + 1))
            place[j] -= rate * corrected[0] / (math.sqrt(corrected[1]) + 1e-8)
    assert [*parameters[0], *parameters[1].ravel()] == pytest.approx(place, abs=1e-3)


@pytest.mark.parametrize("optimizer", [Sgd("0.1"), Sgd("0.1", "0.9"), Adam("0.1")], ids=str)
def test_what_is_remembered_is_all_that_is_remembered(optimizer):
    """A run can be cut anywhere: memory and parameters are the whole state."""
    parameters = [np.array([1.0, -2.0], np.float32)]
    memory = optimizer.memory(parameters)
    assert not any(m.any() for m in memory)
    straight = [parameters[0].copy()]
    other = optimizer.memory(straight)
    for i, gradient in enumerate(GRADIENTS):
        optimizer.step(straight, other, [np.array(gradient, np.float32)], i / 5)
        parameters, memory = [p.copy() for p in parameters], [m.copy() for m in memory]
        optimizer.step(parameters, memory, [np.array(gradient, np.float32)], i / 5)
    assert (parameters[0] == straight[0]).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Sgd(0), r"^rate: got 0"),
        (lambda: Sgd(-1), r"^rate: got -1"),
        (lambda: Sgd(1, momentum=1), r"^momentum: got 1"),
        (lambda: Sgd(1, momentum=-1), r"^momentum: got -1"),
        (lambda: Sgd(float("nan")), r"^rate: got nan"),
        (lambda: Adam(0), r"^rate: got 0"),
        (lambda: Adam(1, first=1), r"^first: got 1"),
        (lambda: Adam(1, second="x"), r"^second: got "),
    ],
)
def test_bad_settings_are_refused(make, message):
    with pytest.raises(InvalidParameter, match=message):
        make()
