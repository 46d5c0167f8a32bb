"""Staircase noise on the integers (Geng, Viswanath 2014), exactly.

P(k) ∝ e^(−ε·⌊(|k| + n − r)/n⌋): steps of width n, the first one cut to r on either side of zero. With q = e^(−ε), |k|
falls in the first stair with weight r (k ≥ 0 alone), and on the rest, r + nG + U with G geometric of ratio q and U
uniform below n, with weight nq/(1−q). So: a coin of probability r(1−q)/(r(1−q) + nq), then a uniform place. The sign is
a fair coin; "minus zero" is drawn again, so that 0 keeps half its weight, as k and −k each do.
"""

from fractions import Fraction
from functools import lru_cache

import numpy as np

from discreet.errors import InternalError, InvalidParameter
from discreet.exact import Number, exp_bounds, integer, rational
from discreet.noise.entropy import Entropy
from discreet.noise.geometric import geometric
from discreet.noise.sampler import LARGEST, Integers, Size, sample_often
from discreet.noise.table import Table
from discreet.noise.uniform import bernoulli, uniform_below


def staircase(
    *, epsilon: Number, width: int, first: int, size: Size = None, entropy: Entropy | None = None
) -> int | Integers:
    """Draws of K with P(K = k) ∝ exp(−epsilon·⌊(|k| + width − first)/width⌋), 1 ≤ first ≤ width.

    >>> isinstance(staircase(epsilon=1, width=10, first=4), int)
    True
    """
    step = integer(width, "width", at_least=1, at_most=2**40)
    head = integer(first, "first", at_least=1, at_most=step)
    exact = rational(epsilon, "epsilon", above=0)
    if step / exact > LARGEST:
        raise InvalidParameter("width", width, "width/epsilon at most 2^52", "use a coarser grid")
    return sample_often(_staircase(exact, step, head), size, entropy)


@lru_cache(maxsize=32)
def _staircase(epsilon: Fraction, width: int, first: int) -> "_Staircase":
    return _Staircase(epsilon, width, first)


class _Staircase:
    def __init__(self, epsilon: Fraction, width: int, first: int) -> None:
        self._scale, self._width, self._first = 1 / epsilon, width, first
        self._in_first = _first_stair(epsilon, width, first)

    def draw(self, entropy: Entropy) -> int:
        out = np.empty(1, np.int64)
        self.fill(entropy, out)
        return int(out[0])

    def fill(self, entropy: Entropy, out: Integers) -> None:
        pending = np.arange(out.size)
        while pending.size:
            count = pending.size
            near = self._in_first.picks(entropy, count) == 0
            stairs = np.asarray(geometric(self._scale, count, entropy=entropy))
            if stairs.max(initial=0) > 2**62 // self._width:
                raise InternalError("a draw left 64 bits; its probability is below e^-1000")
            beyond = stairs * self._width
            beyond += uniform_below(self._width, count, entropy=entropy) + self._first
            sizes = np.where(near, uniform_below(self._first, count, entropy=entropy), beyond)
            negative = np.asarray(bernoulli("1/2", count, entropy=entropy))
            out[pending] = np.where(negative, -sizes, sizes)
            pending = pending[negative & (sizes == 0)]


def _first_stair(epsilon: Fraction, width: int, first: int) -> Table:
    """The coin r(1−q)/(r(1−q) + nq) = 1 − nq/(r + (n−r)q), rising as q falls."""

    def enclose(_: int, bits: int) -> tuple[int, int]:
        fine = bits + 64
        one = 1 << fine
        lo, hi = (
            Fraction((one - q) * first, (one - q) * first + width * q) for q in reversed(exp_bounds(-epsilon, fine))
        )
        return (lo.numerator << bits) // lo.denominator, -((-hi.numerator << bits) // hi.denominator)

    return Table([enclose(0, 64)], enclose, outcomes=2)
