"""From the gradient of a dense layer to the rows behind it.

A layer y = x·W + b has, for a row x, ∂L/∂W = x ⊗ ∂L/∂y and ∂L/∂b = ∂L/∂y: of each unit, the one divided by the other is
x itself (Phong, Aono, Hayashi, Wang, Moriai 2018, "Privacy-preserving deep learning via additively homomorphic
encryption", section 3, on gradients that leak). Over a batch the quotient of a unit is a mean of the rows that it was
active for, weighted by ∂L/∂y; behind ReLU many units are active for one row only, and give it back exactly (Boenisch et
al. 2023, "When the curious abandon honesty: federated learning is not private"). Where units are active for nested sets
of rows, as a dishonest coordinator can arrange it (`imprint`), the difference of two neighbors is what belongs to the
rows between them (Fowl, Geiping, Czaja, Goldblum, Goldstein 2022, "Robbing the Fed").

Scale and sign of the update cancel. So the sum of several local steps (FedAvg) has the same quotient wherever a unit
was active for the same single row all the time, and a mean of rows where not.

>>> import numpy as np
>>> from discreet.attacks.updates import read_rows
>>> row, slope = np.array([0.2, 0.9]), np.array([0.0, -3.0, 0.5])
>>> read_rows(np.outer(row, slope), slope, low=0, high=1).round(6).tolist()
[[0.2, 0.9]]
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.errors import InvalidData

Floats = NDArray[np.float64]

_DEAD = 1e-9  # of the largest bias: units below were active for nobody
_SAME = 1e-4  # of the range: two claims that differ by less are one
_ROUNDS = 40  # of the power iteration


def read_rows(weights: ArrayLike, biases: ArrayLike, *, low: ArrayLike, high: ArrayLike) -> Floats:
    """What an attacker believes to be rows (claims × inputs), from an update of weights (inputs × units) and biases.

    The quotient of every unit, of the difference of every two neighbors, and of all units together (the best rank-one
    fit, for one row behind much noise), cut to the public range. Claims that are the same are made once.
    """
    w, b = _update(weights, biases)
    least, most = (np.broadcast_to(np.asarray(end, np.float64), len(w)) for end in (low, high))
    found = [_quotients(w, b), _quotients(np.diff(w, axis=1), np.diff(b)), _together(w, b)]
    claims = np.clip(np.concatenate(found), least, most)
    return _once(claims, np.maximum(most - least, 1e-300))


def nearest(rows: Floats, claims: Floats, spans: Floats) -> Floats:
    """How far each row is from the nearest claim: the root mean square over columns, in parts of their range.

    >>> nearest(np.array([[0.0, 0.0]]), np.array([[3.0, 4.0], [9.0, 9.0]]), np.array([10.0, 10.0])).round(4).tolist()
    [0.3536]
    """
    if not len(claims):
        return np.full(len(rows), np.inf)
    best = np.full(len(rows), np.inf)
    step = max(1, 4_000_000 // max(1, rows.size))
    for start in range(0, len(claims), step):
        gaps = (rows[:, None, :] - claims[None, start : start + step]) / spans
        best = np.minimum(best, np.sqrt(np.square(gaps).mean(axis=2)).min(axis=1))
    return best


def _update(weights: ArrayLike, biases: ArrayLike) -> tuple[Floats, Floats]:
    try:
        w, b = np.asarray(weights, np.float64), np.asarray(biases, np.float64)
    except (TypeError, ValueError):
        raise InvalidData("update: expected arrays of numbers: weights (inputs × units) and biases (units)") from None
    if w.ndim != 2 or b.shape != w.shape[1:] or not w.size:
        expected = "weights of inputs × units and one bias for each unit"
        raise InvalidData(f"update: got shapes {w.shape} and {b.shape}, expected {expected}")
    if not (np.isfinite(w).all() and np.isfinite(b).all()):
        raise InvalidData("update: it holds numbers that are not finite; leave such an update out")
    return w, b


def _quotients(w: Floats, b: Floats) -> Floats:
    """∂W/∂b of every unit that was active."""
    alive = np.abs(b) > _DEAD * np.abs(b).max(initial=0.0)
    with np.errstate(over="ignore"):
        return np.asarray((w[:, alive] / b[alive]).T)


def _together(w: Floats, b: Floats) -> Floats:
    """One row from all units: the rank-one matrix nearest to the update, by power iteration; its last entry is 1."""
    whole = np.vstack([w, b])
    largest = np.abs(whole).max()
    if not largest:
        return np.empty((0, len(w)))
    whole = whole / largest
    way = whole[:, int(np.argmax(np.square(whole).sum(axis=0)))]
    for _ in range(_ROUNDS):
        way = whole @ (whole.T @ way)
        way = way / np.sqrt(np.square(way).sum())
    return _quotients(way[:-1, None], way[-1:])


def _once(claims: Floats, spans: Floats) -> Floats:
    """Each claim once, in the order in which they came."""
    _, first = np.unique(np.rint(claims / (spans * _SAME)), axis=0, return_index=True)
    return claims[np.sort(first)]
