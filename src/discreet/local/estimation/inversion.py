"""Matrix inversion: the true distribution as r = q·C⁻¹, and the two repairs of what is not a distribution (claim C6).

The estimate is unbiased and needs no iterations, but where the channel says little the noise is blown up: shares come
out negative or above one. `clip` and `project` mend that; `ibu` avoids it.

>>> from discreet.local.estimation.inversion import clip, invert
>>> from discreet.mechanisms.channel import Channel
>>> coin = Channel([["3/4", "1/4"], ["1/4", "3/4"]])
>>> [str(share) for share in invert(coin, [6, 4])], [str(share) for share in invert(coin, [4, 1])]
(['7/10', '3/10'], ['11/10', '-1/10'])
>>> [str(share) for share in clip(invert(coin, [4, 1]))]
['1', '0']
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.errors import InvalidChannel, InvalidData
from discreet.exact import Number, rational
from discreet.local.estimation import frequencies
from discreet.local.estimation.ibu import read_counts
from discreet.local.estimation.linear_maps import ChannelModel, ConvolutionModel, DenseModel, Floats, KRRModel, dense
from discreet.mechanisms.channel import Channel

Shares = NDArray[Any]
"""float64, or an object array of Fractions where channel and counts are exact."""

LARGEST_CONDITION = 1e12
"""Beyond this, the digits of a float do not suffice to invert."""

_MOST_EXACT = 200
_MOST_CELLS = 4_000_000


def invert(channel: Channel | ChannelModel, counts: ArrayLike) -> Shares:
    """The shares r with r·C = q, q the shares of the reports; they sum to 1 and may be negative.

    With more outputs than inputs, the right inverse Cᵀ(CCᵀ)⁻¹ of least squares. In Fractions where the channel is exact
    and the counts are whole or rational (up to 200 inputs; any number if the channel is flat), else in floats:
    a flat channel in closed form, a convolution whose reports are all kept by one division of Fourier transforms,
    anything else by singular values.

    >>> invert(KRRModel(truth="1/2", other="1/4", size=3), [2, 1, 1]).tolist()
    [1.0, 0.0, 0.0]
    """
    if isinstance(channel, Channel) and channel.exact:
        return _invert_exactly(channel, _exact_counts(counts, len(channel.outputs)))
    model = DenseModel(channel) if isinstance(channel, Channel) else channel
    seen = read_counts(model, counts).astype(np.float64)
    result: Shares = invert_batch(model, seen[None])[0]
    return result


def invert_batch(model: ChannelModel, counts: Floats) -> Floats:
    """The same in floats for many vectors of counts at once (rows).

    >>> invert_batch(KRRModel(truth="3/4", other="1/4", size=2), np.array([[6, 4], [4, 1]])).round(12).tolist()
    [[0.7, 0.3], [1.1, -0.1]]
    """
    reported = counts / counts.sum(axis=1, keepdims=True)
    if isinstance(model, KRRModel):
        return _invert_flat(model, reported)
    if isinstance(model, ConvolutionModel) and _all_kept(model):
        return _divide_waves(model, reported)
    return _least_squares(model, reported)


def clip(shares: ArrayLike) -> Shares:
    """Negative shares become zero, the others are divided by their sum; in Fractions if they are.

    >>> clip([Fraction(9, 10), Fraction(3, 10), Fraction(-2, 10)]).tolist()
    [Fraction(3, 4), Fraction(1, 4), Fraction(0, 1)]
    """
    exact = _fractions(shares)
    if exact is None:
        return frequencies.clip(np.ravel(shares))
    kept = [max(share, Fraction(0)) for share in exact]
    total = sum(kept)
    return _objects([share / total if total else Fraction(1, len(kept)) for share in kept])


def project(shares: ArrayLike) -> Shares:
    """The distribution at the least Euclidean distance, in O(k log k); in Fractions if the shares are.

    It is max(share − t, 0) with t such that the sum is one; t is the mean excess of the largest shares that stay
    positive (Held, Wolfe, Crowder 1974; Duchi et al. 2008).

    >>> project([Fraction(9, 10), Fraction(3, 10), Fraction(-2, 10)]).tolist()
    [Fraction(4, 5), Fraction(1, 5), Fraction(0, 1)]
    """
    exact = _fractions(shares)
    if exact is None:
        return frequencies.project(np.ravel(shares))
    total, level = Fraction(0), Fraction(0)
    for count, share in enumerate(sorted(exact, reverse=True), 1):
        total += share
        if share * count > total - 1:
            level = (total - 1) / count
    return _objects([max(share - level, Fraction(0)) for share in exact])


# In rationals


def _invert_exactly(channel: Channel, counts: list[Fraction]) -> Shares:
    total = sum(counts)
    reported = [count / total for count in counts]
    flat = _flat_entries(channel)
    if flat is not None:
        truth, other = flat
        if truth == other and len(reported) > 1:
            raise InvalidChannel(_singular("all rows are equal"))
        return _objects([(q - other) / (truth - other) if truth != other else q for q in reported])
    size = len(channel.inputs)
    if size > _MOST_EXACT:
        raise InvalidChannel(
            f"{size} inputs are too many for rationals (at most {_MOST_EXACT}); use channel.as_float()"
        )
    rows = channel.matrix
    if len(channel.outputs) == size:
        return _objects(_solve_exactly(rows.T, reported))
    weights = _solve_exactly(rows @ rows.T, list(rows @ np.array(reported, dtype=object)))
    return _objects(weights)


def _flat_entries(channel: Channel) -> tuple[Fraction, Fraction] | None:
    """(truth, other) if there are two entries only, one of them on the diagonal."""
    matrix = channel.matrix
    size = len(matrix)
    if matrix.shape != (size, size):
        return None
    if size == 1:
        return matrix[0, 0], Fraction(0)
    truth, other = matrix[0, 0], matrix[0, 1]
    aside = matrix[~np.eye(size, dtype=bool)]
    return (truth, other) if (np.diag(matrix) == truth).all() and (aside == other).all() else None


def _solve_exactly(matrix: Shares, right: Sequence[Fraction]) -> list[Fraction]:
    """Gauss–Jordan elimination of matrix·x = right."""
    rows = [[*map(Fraction, row), value] for row, value in zip(matrix.tolist(), right, strict=True)]
    for k in range(len(rows)):
        pivot = next((i for i in range(k, len(rows)) if rows[i][k]), None)
        if pivot is None:
            raise InvalidChannel(_singular("its rows are not independent"))
        rows[k], rows[pivot] = rows[pivot], rows[k]
        top = [value / rows[k][k] for value in rows[k]]
        rows[k] = top
        for i, row in enumerate(rows):
            if i != k and row[k]:
                rows[i] = [value - row[k] * above for value, above in zip(row, top, strict=True)]
    return [row[-1] for row in rows]


def _exact_counts(counts: ArrayLike, outputs: int) -> list[Fraction]:
    values: list[Number] = list(np.ravel(np.asarray(counts, dtype=object)))
    if len(values) != outputs or np.ndim(np.asarray(counts, dtype=object)) != 1:
        raise InvalidData(f"counts: got {len(values)}, expected {outputs}, one for each output")
    try:
        exact = [rational(value, "count", at_least=0) for value in values]
    except ValueError:
        raise InvalidData("counts: one is negative, NaN or not a number, expected numbers of reports ≥ 0") from None
    if not any(exact):
        raise InvalidData("counts: all are zero; there is nothing to estimate from")
    return exact


def _fractions(shares: ArrayLike) -> list[Fraction] | None:
    values = list(np.ravel(np.asarray(shares, dtype=object)))
    return values if values and all(isinstance(value, Fraction) for value in values) else None


def _objects(values: list[Fraction]) -> Shares:
    result = np.empty(len(values), dtype=object)
    result[:] = values
    return result


# In floats


def _invert_flat(model: KRRModel, reported: Floats) -> Floats:
    gain = float(model.truth - model.other)
    if model.size == 1:
        return reported
    if gain == 0:
        raise InvalidChannel(_singular("all rows are equal"))
    return np.asarray((reported - float(model.other)) / gain)


def _all_kept(model: ConvolutionModel) -> bool:
    return model.border == "outside" and not model.beyond


def _divide_waves(model: ConvolutionModel, reported: Floats) -> Floats:
    """Division of Fourier transforms: the convolution on the whole window, undone; the area is cut out of it.

    The window holds every report, so on a circle of its size the convolution does not wrap around, and nobody was
    outside the area: cutting leaves the estimate unbiased.
    """
    from scipy.fft import irfftn, rfftn

    axes = tuple(range(1, 1 + len(model.window)))
    placed = np.zeros(model.window)
    placed[tuple(slice(0, n) for n in model.kernel.shape)] = model.kernel
    spectrum = rfftn(placed)
    sizes = np.abs(spectrum)
    if not sizes.min() * LARGEST_CONDITION > sizes.max():  # a frequency of this circle is wiped out: not of the line
        return _least_squares(model, reported)
    waves = rfftn(reported.reshape(-1, *model.window), axes=axes) / spectrum
    whole = irfftn(waves, s=model.window, axes=axes)
    inside = tuple(slice(0, n) for n in model.shape)  # the kernel stands at 0, not at −margin: cells x come out at x
    return np.ascontiguousarray(whole[(slice(None), *inside)]).reshape(len(reported), -1)


def _least_squares(model: ChannelModel, reported: Floats) -> Floats:
    """q·C⁺ through the singular values, which say whether the digits suffice."""
    if model.size * model.outputs > _MOST_CELLS:
        raise InvalidChannel(
            f"{model.size} × {model.outputs} entries are too many to invert; use `ibu`, or keep what falls outside"
        )
    matrix = dense(model)
    left, sizes, right = np.linalg.svd(matrix, full_matrices=False)
    if model.outputs < model.size or not sizes[-1] * LARGEST_CONDITION > sizes[0]:
        raise InvalidChannel(_singular("its rows are not independent, or too nearly dependent for floats"))
    return np.asarray(((reported @ right.T) / sizes) @ left.T)


def _singular(why: str) -> str:
    return f"the channel cannot be inverted: {why}; use `ibu`, which takes any channel"
