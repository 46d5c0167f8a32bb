"""Reference models: trained by the caller on sets that are drawn here, asked once, used for every target and attack.

A trainer is a function `(indices, seed) -> model`: it trains on the rows at these positions of the caller's own data.
A model answers `scores(x, y)`: ln p(y | x) for each row, minus the cross-entropy loss.

>>> import numpy as np
>>> from discreet.attacks.membership import Logistic, References
>>> rng = np.random.default_rng(1)
>>> x, y = rng.normal(size=(60, 10)), rng.integers(0, 2, 60)
>>> references = References.train(Logistic(x=x, y=y, steps=20), x, y, count=4, seed=2)
>>> references.inside.sum(axis=0).tolist() == [2] * 60  # every target is in half of the models
True
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from discreet.attacks.membership.scores import Bools, Floats, Ints, log_confidences
from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import integer

Progress = Callable[[int, int], None]


class Model(Protocol):
    """Anything that says how probable it finds the truth."""

    def scores(self, x: Any, y: Any, /) -> ArrayLike:
        """ln p(y | x) for each row."""
        ...


class Trainer(Protocol):
    """Anything that trains a model on some rows of its data."""

    def __call__(self, indices: Ints, seed: int, /) -> Model:
        """A model of these rows."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class References:
    """What the reference models say of each target (models × targets), and which of them had it in."""

    confidences: Floats
    inside: Bools

    @classmethod
    def of(cls, confidences: ArrayLike, inside: ArrayLike) -> "References":
        """From what was computed elsewhere.

        >>> References.of([[-0.1, -2.0]], [[False, False]]).count
        1
        """
        read = log_confidences(confidences, "references", dimensions=2)
        flags = np.asarray(inside)
        if flags.dtype != np.bool_ or flags.shape != read.shape:
            raise InvalidData(f"references: expected True or False for each of {read.shape} models and targets")
        return cls(read, flags)

    @classmethod
    def train(
        cls,
        trainer: Trainer,
        x: Any,
        y: Any,
        *,
        count: int,
        seed: int,
        pool: ArrayLike | None = None,
        progress: Progress | None = None,
    ) -> "References":
        """Train `count` models, each on half of the rows, and ask each about all rows.

        Without `pool` every row is in exactly half of the models (for attacks that know models with and without the
        target, "online"). With `pool`, positions that the models may be trained on, rows outside it are in none
        ("offline": targets come later, and the same models serve them all). Who was in the attacked model plays no
        part, so guesses still depend on it through that model only. `progress(done, count)` is called after each model.
        """
        rows = len(y)
        inside = splits(rows, count=count, seed=seed, pool=pool)
        table = np.empty(inside.shape)
        for at, chosen in enumerate(inside):
            model = trainer(np.flatnonzero(chosen).astype(np.int64), int(_seeds(seed, count)[at]))
            table[at] = _answers(model.scores(x, y), rows)
            if progress is not None:
                progress(at + 1, count)
        return cls(table, inside)

    @property
    def count(self) -> int:
        """How many models."""
        return len(self.confidences)

    @property
    def online(self) -> bool:
        """Whether every target is known to models with it and to models without it."""
        return bool((self.inside.any(axis=0) & ~self.inside.all(axis=0)).all())

    def of_targets(self, positions: ArrayLike) -> "References":
        """The same models, for some of the targets.

        >>> References.of([[-0.1, -2.0]], [[False, True]]).of_targets([1]).inside.tolist()
        [[True]]
        """
        chosen = np.asarray(positions)
        return References(self.confidences[:, chosen], self.inside[:, chosen])


def splits(rows: int, *, count: int, seed: int, pool: ArrayLike | None = None) -> Bools:
    """Who is in which reference model (models × rows): a random half and the other half, again and again.

    >>> splits(6, count=2, seed=1).sum(axis=0).tolist(), splits(6, count=1, seed=1, pool=[0, 1]).sum()
    ([1, 1, 1, 1, 1, 1], np.int64(1))
    """
    integer(rows, "rows", at_least=2)
    integer(count, "count", at_least=1)
    integer(seed, "seed", at_least=0)
    if pool is None and count % 2:
        raise InvalidParameter("count", count, "an even number", "each row is in half of the models")
    allowed = np.arange(rows) if pool is None else _pool(pool, rows)
    rng = np.random.default_rng([seed, 2])
    inside = np.zeros((count, rows), bool)
    for first in range(0, count, 2):
        order = rng.permutation(allowed)
        inside[first, order[: len(order) // 2]] = True
        if first + 1 < count:
            inside[first + 1, order[len(order) // 2 :]] = True
    return inside


def _pool(pool: ArrayLike, rows: int) -> Ints:
    chosen = np.asarray(pool)
    if chosen.dtype.kind not in "iu" or chosen.ndim != 1 or len(np.unique(chosen)) < 2:
        raise InvalidData("pool: expected the positions of two rows or more")
    if chosen.min() < 0 or chosen.max() >= rows:
        raise InvalidData(f"pool: a position lies outside the {rows} rows")
    return np.unique(chosen).astype(np.int64)


def _seeds(seed: int, count: int) -> Ints:
    return np.random.default_rng([seed, 3]).integers(0, 1 << 31, count)


def _answers(given: ArrayLike, rows: int) -> Floats:
    read = log_confidences(given, "scores of a reference model")
    if len(read) != rows:
        raise InvalidData(f"scores of a reference model: got {len(read)} for {rows} rows; return one for each row")
    return read
