"""C4: d-privacy for any finite channel and metric; it contains central and local differential privacy."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from discreet.mechanisms.bayesian import oblivious
from discreet.mechanisms.channel import Channel
from discreet.mechanisms.neighbor_graph import hamming
from discreet.mechanisms.optimal import geometric_channel

pytestmark = pytest.mark.claim("C4")


def test_hamming_distance_is_central_differential_privacy():
    databases = list(product([0, 1], repeat=3))
    channel = oblivious(sum, databases, geometric_channel(3, "0.7"))
    assert channel.d_privacy(hamming) == channel.epsilon(lambda a, b: hamming(a, b) == 1) <= 0.7


def test_discrete_distance_is_local_differential_privacy():
    channel = Channel([[5, 1, 2], [1, 4, 3], [2, 2, 6]], normalize=True)
    assert channel.d_privacy("discrete") == channel.epsilon("all")


def test_counts_on_a_line():
    """ε·|y − y'| for all counts is the same as ε for consecutive ones, since the distance is a path length."""
    channel = geometric_channel(8, 1)
    assert channel.d_privacy("line") == channel.epsilon("line") == 1.0
    assert channel.epsilon("all") > 7.9


def test_places_on_a_grid():
    """exp(−ε·d/2) weights on a 4×4 grid are ε-private per unit of Euclidean distance, and the tightest ε is found."""
    places = list(product(range(4), repeat=2))

    def euclid(a, b):
        return math.dist(a, b)

    epsilon = 0.8
    weights = np.exp([[-epsilon / 2 * euclid(a, b) for b in places] for a in places])
    channel = Channel(weights, places, places, normalize=True)
    tightest = channel.d_privacy(euclid)
    brute = max(
        math.log(channel.matrix[i, z] / channel.matrix[j, z]) / euclid(a, b)
        for i, a in enumerate(places)
        for j, b in enumerate(places)
        if a != b
        for z in range(16)
    )
    assert tightest == pytest.approx(brute, rel=1e-12)
    assert epsilon / 2 < tightest <= epsilon
    assert channel.d_privacy(lambda a, b: 1000 * euclid(a, b)) == pytest.approx(tightest / 1000)


def test_zero_and_infinite_distances():
    channel = Channel([["1/2", "1/2"], ["1/2", "1/2"], ["1/4", "3/4"]], inputs=["a", "b", "c"])
    same = {("a", "b"), ("b", "a")}
    twins = channel.d_privacy(lambda x, y: 0 if x == y or (x, y) in same else 1)
    assert twins == pytest.approx(math.log(2))
    assert channel.d_privacy(lambda x, y: 0) == math.inf
    assert channel.d_privacy(lambda x, y: 0 if x == y else math.inf) == 0
    assert channel.d_privacy([[0, 0, Fraction(1, 3)], [0, 0, Fraction(1, 3)], [Fraction(1, 3)] * 2 + [0]]) == (
        pytest.approx(3 * math.log(2))
    )
