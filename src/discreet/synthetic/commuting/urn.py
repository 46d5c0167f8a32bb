"""A Pólya urn, exactly and all draws at once: the Dirichlet-multinomial distribution without a Dirichlet draw."""

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidData
from discreet.noise import Entropy, uniform_each

Integers = NDArray[np.int64]


def draw(counts: Integers, prior: Fraction, draws: int, *, entropy: Entropy | None = None) -> Integers:
    """How many of so many draws fall into each cell, from an urn with counts + prior balls of each color.

    Proof. In an urn scheme every ball drawn goes back together with one more of its color, so the draw number t
    is, with probability A/(A + t), a ball that was there at the start, and else a copy of one of the t draws before it,
    each as likely: the joint law of the draws is the Dirichlet-multinomial (Blackwell, MacQueen 1973). With the prior
    p/q, all balls are q times as many: a whole number below qA + qt decides, exactly. Copies of copies are followed to
    the draw that they come from, which lies before them.

    >>> import numpy as np
    >>> from fractions import Fraction
    >>> from discreet.synthetic.commuting.urn import draw
    >>> int(draw(np.array([5, 0, 2]), Fraction(1, 3), 1000).sum())
    1000
    """
    each = counts * prior.denominator + prior.numerator
    ends = np.cumsum(each)
    start = int(ends[-1])
    if start < 1:
        raise InvalidData("urn: it is empty; expected people or a prior")
    ball = uniform_each(start + prior.denominator * np.arange(draws, dtype=np.int64), entropy=entropy)
    copies = ball >= start
    source = np.where(copies, (ball - start) // prior.denominator, np.arange(draws))
    while copies.any():
        before = source[source]
        copies = before != source
        source = before
    cells = np.searchsorted(ends, ball[source], side="right")
    return np.bincount(cells, minlength=len(counts)).astype(np.int64)
