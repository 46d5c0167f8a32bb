"""Poisson samples: which of many coins land heads, without throwing each.

Independent coins of probability p are thrown in their order. Let G be how many land tails before one lands heads:
P(G ≥ k) = (1 − p)^k, and what comes after a head does not depend on what came before. So with independent gaps
G₁, G₂, … the heads are at G₁, G₁ + 1 + G₂, …: exactly, because the gaps are drawn exactly (`table.Table`, from
enclosures of (1 − p)^k). Heads at or beyond the last coin are not looked at. The table ends at K: its last outcome says
that K coins landed tails, with probability (1 − p)^K, and those after them are thrown anew.
"""

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np

from discreet.exact import Number, integer, rational
from discreet.noise.enclosure import times
from discreet.noise.entropy import SYSTEM, Entropy
from discreet.noise.sampler import Integers
from discreet.noise.table import Table
from discreet.noise.uniform import bernoulli, enclosing

_GUARD = 64
_RARE, _OFTEN = Fraction(1, 2000), Fraction(1, 8)  # the table is not too long; coins are not as quick
_ENOUGH = 16  # K is so many times 1/p: it is reached once in ten million draws
_MANY = 1 << 12  # for fewer coins a table is not made
_MOST = 1 << 33


def poisson_sample(p: Number, count: int, *, entropy: Entropy | None = None) -> Integers:
    """The numbers among 0, …, count − 1 that a Poisson sample takes, each with probability exactly p, in their order.

    >>> poisson_sample(1, 3).tolist(), poisson_sample(0, 3).tolist()
    ([0, 1, 2], [])
    """
    exact, size = rational(p, "p", at_least=0, at_most=1), integer(count, "count", at_least=0, at_most=_MOST)
    source = SYSTEM if entropy is None else entropy
    if size < _MANY or not _RARE <= exact <= _OFTEN:
        return np.flatnonzero(bernoulli(exact, size, entropy=source))
    gaps, parts, last = _gaps(exact), [], -1
    most = len(gaps.thresholds)
    while last < size:
        mean = (size - last) * float(exact)
        drawn = gaps.picks(source, int(mean + 4 * math.sqrt(mean)) + 16)  # enough, as a rule
        heads = drawn < most
        ends = last + np.cumsum(drawn + heads, dtype=np.int64)
        last = int(ends[-1])
        parts.append(ends if heads.all() else ends[heads])
    found = parts[0] if len(parts) == 1 else np.concatenate(parts)
    return found[: found.searchsorted(size)]


@lru_cache(maxsize=32)
def _gaps(p: Fraction) -> Table:
    """The decision table of min(G, K): F(i) = P(G ≤ i) = 1 − (1 − p)^(i + 1) for i < K."""
    tails, bits = 1 - p, 64 + _GUARD
    once = enclosing(tails)(bits)
    power = once
    bounds: list[tuple[int, int]] = []
    for _ in range(math.ceil(_ENOUGH / p)):
        bounds.append(((1 << 64) + (-power[1] >> _GUARD), (1 << 64) - (power[0] >> _GUARD)))
        power = times(power, once, bits)

    return Table(bounds, lambda i, precision: enclosing(1 - tails ** (i + 1))(precision), outcomes=len(bounds) + 1)
