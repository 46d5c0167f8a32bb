"""Coins of probability e^(−γ) for many γ at once: floats decide where they can prove it, rationals elsewhere.

Proof. The floats γ̂ are within 2^−48 of the true γ ≥ 0 relatively, or within 2^−42 absolutely, or NaN. A relative error
η moves e^(−γ) by at most γe^(−γ)η ≤ η/e, an absolute one by at most itself. NumPy's exp is within 4 units in the last
place by its documentation, 2^−50 (tests hold it to 2^−49 against 200-bit arithmetic). So p̂ = exp(−γ̂) is within 2^−41
of p (γ̂ is held at 256, where both are below 2^−300). The top 53 bits of a word, exact in a float, give
v ≤ U < v + 2^−53. If v and p̂ differ by at least 2^−40, then U < p if and only if v < p̂. Otherwise, and for NaN, which
happens to one coin in 2^39, `table.below` compares with the rational enclosure of p.
"""

from collections.abc import Callable
from math import exp

import numpy as np
from numpy.typing import NDArray

from discreet.noise.entropy import Entropy
from discreet.noise.table import below

_MARGIN = 2.0**-40
_UNIT = 2.0**-53

Enclosure = Callable[[int], tuple[int, int]]
"""bits → integers lo ≤ 2^bits·p ≤ hi."""


def accept(gamma: NDArray[np.float64], exact: Callable[[int], Enclosure], entropy: Entropy) -> NDArray[np.bool_]:
    """True at each position with probability exactly e^(−γ) there. Overwrites `gamma`."""
    words = entropy.words(gamma.size)
    with np.errstate(all="ignore"):  # whatever the caller set: an underflow must not tell of a draw
        np.minimum(gamma, 256, out=gamma)  # subnormals would take longer and tell how far; NaN stays
        np.exp(np.negative(gamma, out=gamma), out=gamma)
    gamma -= (words >> np.uint64(11)) * _UNIT  # p̂ − v
    heads: NDArray[np.bool_] = gamma > 0
    for k in np.flatnonzero(~(np.abs(gamma, out=gamma) >= _MARGIN)):  # NaN is undecided, not tails
        heads[k] = below(int(words[k]), exact(int(k)), entropy)
    return heads


def accept_one(gamma: float, exact: Enclosure, word: int, entropy: Entropy) -> bool:
    """`accept` for a single coin, whose first word is given."""
    gap = exp(-gamma) - (word >> 11) * _UNIT
    return gap > 0 if abs(gap) >= _MARGIN else below(word, exact, entropy)
