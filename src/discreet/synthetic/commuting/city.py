"""A city that nobody lives in: blocks on a square grid, and people who mostly work near their homes."""

import math

import numpy as np

from discreet.exact import integer
from discreet.noise import DeterministicEntropy
from discreet.synthetic.commuting.flows import Floats, Flows, Integers, Places

_BLOCK_KM = 0.2
_REACH_KM = 3.0
_FAR = 0.05  # the share of people who work anywhere


def city(*, blocks: int, workers: int, seed: int = 1) -> Flows:
    """So many people in a square of about so many blocks.

    Jobs are denser near the center, homes near a ring; 95 % of people work at a distance that is exponential with a
    mean of 3 km from home, the others anywhere. Public and made up: no noise here protects anybody.

    >>> from discreet.synthetic.commuting.city import city
    >>> made = city(blocks=100, workers=1000)
    >>> len(made.places), made.total
    (100, 1000)
    """
    side = math.isqrt(integer(blocks, "blocks", at_least=4, at_most=10**6))
    people = integer(workers, "workers", at_least=1, at_most=10**8)
    axis = (np.arange(side) + 0.5) * _BLOCK_KM
    points = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    places = Places([f"{row:03}-{column:03}" for row in range(side) for column in range(side)], points)
    source = _Uniform(seed)
    jobs = source.pick(_density(points, side, 0.0), people)
    near = points[jobs] + source.step(people)
    homes = np.clip((near / _BLOCK_KM).astype(np.int64), 0, side - 1)
    lives = homes[:, 0] * side + homes[:, 1]
    anywhere = source.pick(_density(points, side, 0.5), people)
    return Flows(places, np.where(source.draw(people) < _FAR, anywhere, lives), jobs, np.ones(people, np.int64))


def _density(points: Floats, side: int, ring: float) -> Floats:
    """More at this distance from the center, in half widths of the city."""
    half = side * _BLOCK_KM / 2
    distance = np.hypot(*(points - half).T) / half
    return np.asarray(np.exp(-(((distance - ring) / 0.4) ** 2)) + 0.02)


class _Uniform:
    """Numbers from 0 to 1, by a public seed."""

    def __init__(self, seed: int) -> None:
        self._source = DeterministicEntropy(seed)

    def draw(self, size: int) -> Floats:
        return (self._source.words(size) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def pick(self, weights: Floats, size: int) -> Integers:
        ends = np.cumsum(weights)
        found = np.searchsorted(ends, self.draw(size) * ends[-1], side="right")
        return np.asarray(np.minimum(found, len(ends) - 1), np.int64)

    def step(self, size: int) -> Floats:
        far, turn = -_REACH_KM * np.log1p(-self.draw(size)), 2 * math.pi * self.draw(size)
        return np.column_stack([far * np.cos(turn), far * np.sin(turn)])
