"""Cells of noisy pairs that clearly hold people, and whether a fit meets them.

A strong pair of many codes has few cells with people in them. Over all its cells the mean squared residual hides a gap
in those few: the noise of the empty ones is most of it. Over the clear ones alone it does not.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]

_CLEAR = 4.0  # standard deviations of the noise above nothing
_PULL = 10.0  # how much more a pair whose clear cells are off weighs, once the mean over all cells is as it should be


class ClearCells:
    """The clear cells of all pairs, as one matrix over all codes. From noisy counts alone.

    >>> clear = ClearCells((2, 2), most=3.0)
    >>> clear.add((0, 1), (slice(0, 2), slice(2, 4)), np.array([[90, 1], [-3, 100]]), sigma=5.0)
    >>> squares = np.zeros((4, 4))
    >>> squares[0, 2] = 50.0
    >>> float(clear.excess(squares, np.array([0, 2])))  # a mean of 25 over two cells; by chance at most 1 + 3
    21.0
    """

    def __init__(self, sizes: Sequence[int], *, most: float) -> None:
        codes, columns = sum(sizes), len(sizes)
        self._sizes, self._chance = np.array(sizes), most
        self._cells = np.zeros((codes, codes), np.float32)
        self._many, self._most = np.ones((columns, columns)), np.full((columns, columns), np.inf)
        self._off = np.zeros((columns, columns), bool)

    def add(self, pair: tuple[int, int], place: tuple[slice, slice], noisy: Any, sigma: float) -> None:
        """Take the noisy counts of a pair of columns, whose codes are at `place`."""
        clear = noisy > _CLEAR * sigma
        if many := int(clear.sum()):
            self._cells[place] = clear
            self._many[pair], self._most[pair] = many, 1 + self._chance * math.sqrt(2 / many)

    def excess(self, squares: Any, starts: Any) -> float:
        """By how much the mean of squared residuals (in noise variances) over a pair's clear cells is beyond chance."""
        rows = np.add.reduceat(squares * self._cells, starts, axis=0, dtype=np.float64)
        beyond = np.add.reduceat(rows, starts, axis=1) / self._many - self._most
        self._off = (beyond > 0) | (beyond > 0).T
        return float(beyond.max())

    def pulled(self, pull: Singles) -> Singles:
        """The pull of each cell, more of it for pairs whose clear cells were off when last looked at."""
        weights = np.where(self._off, np.float32(1 + _PULL), np.float32(1))
        return np.asarray(pull * np.repeat(np.repeat(weights, self._sizes, axis=0), self._sizes, axis=1))
