"""Scores of an attack: one number for each target, larger where the attacker believes in membership; and who was in.

>>> from discreet.attacks.membership.scores import Scores
>>> scores = Scores.of([0.1 * i for i in range(40)], [i >= 20 for i in range(40)])
>>> len(scores.inside), len(scores.outside)
(20, 20)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.errors import InvalidData

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

FEWEST = 20  # of members, and of non-members: with fewer nothing can be shown
_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """A score for each target, and whether it was in the training data. Only the order of the scores counts."""

    values: Floats
    members: Bools

    @classmethod
    def of(cls, values: ArrayLike, members: ArrayLike) -> "Scores":
        """Read, check, and keep."""
        read = numbers(values, "scores", infinite=True)
        flags = who(members, len(read))
        return cls(read, flags)

    @classmethod
    def pair(cls, inside: ArrayLike, outside: ArrayLike) -> "Scores":
        """From the scores of members and those of non-members.

        >>> len(Scores.pair(range(30), range(25)))
        55
        """
        sides = [numbers(inside, "scores of members", infinite=True)]
        sides.append(numbers(outside, "scores of non-members", infinite=True))
        return cls.of(np.concatenate(sides), np.repeat([True, False], [len(side) for side in sides]))

    def __len__(self) -> int:
        return len(self.values)

    @property
    def inside(self) -> Floats:
        """The scores of members."""
        return self.values[self.members]

    @property
    def outside(self) -> Floats:
        """The scores of non-members."""
        return self.values[~self.members]

    @property
    def mute(self) -> bool:
        """Whether all scores are equal: the attack says nothing."""
        return bool((self.values == self.values[0]).all())

    def halves(self, seed: int) -> tuple["Scores", "Scores"]:
        """Two halves, each with half of the members and half of the others; which is by lot, never by the scores."""
        rng = np.random.default_rng([seed, 6])
        first = np.zeros(len(self), bool)
        for side in (True, False):
            order = rng.permutation(np.flatnonzero(self.members == side))
            first[order[: len(order) // 2]] = True
        return Scores(self.values[first], self.members[first]), Scores(self.values[~first], self.members[~first])


def numbers(given: ArrayLike, name: str, *, dimensions: int = 1, infinite: bool = False) -> Floats:
    """An array of numbers; errors say where, never what.

    >>> numbers([0.5, float("nan")], "losses")
    Traceback (most recent call last):
    discreet.errors.InvalidData: losses: NaN at position 1; leave such targets out, or repair the model
    """
    try:
        array = np.asarray(given)
        if array.dtype.kind not in "fiu":
            raise TypeError
        read = array.astype(np.float64)
    except (TypeError, ValueError):
        raise InvalidData(f"{name}: expected an array of numbers, of one length along each axis") from None
    if read.ndim != dimensions:
        raise InvalidData(f"{name}: got {read.ndim} dimensions, expected {dimensions}")
    if not read.size:
        raise InvalidData(f"{name}: it is empty")
    bad = np.isnan(read) if infinite else ~np.isfinite(read)
    if bad.any():
        kind = "NaN" if np.isnan(read).any() else "an infinite number"
        where = np.argwhere(np.isnan(read) if kind == "NaN" else bad)[0]
        place = ", ".join(str(int(part)) for part in where)
        raise InvalidData(f"{name}: {kind} at position {place}; leave such targets out, or repair the model")
    return read


def log_confidences(given: ArrayLike, name: str, *, dimensions: int = 1) -> Floats:
    """ln p(y | x) of the true class: at most 0; −∞ where the model excludes the truth.

    >>> log_confidences([0.9, 0.8], "confidences")
    Traceback (most recent call last):
    discreet.errors.InvalidData: confidences: 2 above 0; expected ln p of the true class (minus the loss), not p
    """
    read = numbers(given, name, dimensions=dimensions, infinite=True)
    above = int((read > _ROUNDING).sum())
    if above:
        raise InvalidData(f"{name}: {above} above 0; expected ln p of the true class (minus the loss), not p")
    return np.minimum(read, 0.0)


def who(members: ArrayLike, count: int) -> Bools:
    """Which targets were in: one True or False for each, enough of both."""
    flags = np.asarray(members)
    if flags.dtype != np.bool_:
        raise InvalidData("members: expected True or False for each target; see `flags` for lists of positions")
    if flags.shape != (count,):
        raise InvalidData(f"members: got shape {flags.shape} for {count} targets; expected one flag for each target")
    inside = int(flags.sum())
    for name, size in (("members", inside), ("non-members", count - inside)):
        if size < FEWEST:
            raise InvalidData(f"members: {size} {name} among {count} targets; expected {FEWEST} of each kind at least")
    return flags


def flags(members: Sequence[int] | Ints, outsiders: Sequence[int] | Ints) -> tuple[Ints, Bools]:
    """Positions of the targets, members first, with their flags; from two lists of positions that share none.

    >>> positions, inside = flags([4, 2], [7])
    >>> positions.tolist(), inside.tolist()
    ([4, 2, 7], [True, True, False])
    >>> flags([1, 2, 3], [3, 4])
    Traceback (most recent call last):
    discreet.errors.InvalidData: 1 target stands among members and among non-members; who was in must be known
    """
    sides = [np.asarray(side) for side in (members, outsiders)]
    if any(side.dtype.kind not in "iu" or side.ndim != 1 for side in sides):
        raise InvalidData("members, outsiders: expected lists of positions (whole numbers)")
    for name, side in zip(("members", "outsiders"), sides, strict=True):
        if len(np.unique(side)) < len(side):
            raise InvalidData(f"{name}: {len(side) - len(np.unique(side))} of {len(side)} positions stand there twice")
    _refuse_shared(len(np.intersect1d(sides[0], sides[1])))
    return np.concatenate(sides).astype(np.int64), np.repeat([True, False], [len(side) for side in sides])


def check_apart(inside: ArrayLike, outside: ArrayLike) -> None:
    """Refuse rows (of features, say) that stand among the members and, the same, among the non-members.

    >>> check_apart([[1, 2], [3, 4]], [[5, 6]])
    """
    known = {row.tobytes() for row in _rows(inside)}
    _refuse_shared(sum(row.tobytes() in known for row in _rows(outside)))


def _rows(given: ArrayLike) -> list[NDArray[Any]]:
    return [np.ascontiguousarray(row, np.float64) + 0.0 for row in np.asarray(given, np.float64)]


def _refuse_shared(count: int) -> None:
    if count:
        stand = "target stands" if count == 1 else "targets stand"
        raise InvalidData(f"{count} {stand} among members and among non-members; who was in must be known")
