"""Reference models: trained by the caller on sets that are drawn here, asked once, used for every target and attack.

A trainer is a function `(indices, seed) -> model`: it trains on the rows at these positions of the caller's own data.
A model answers `scores(x, y)`: ln p(y | x) for each row, minus the cross-entropy loss.

>>> import numpy as np
>>> from types import SimpleNamespace
>>> from discreet.attacks.membership import References
>>> y = np.arange(60) % 2
>>> def share(indices, seed):
...     return SimpleNamespace(scores=lambda x, y: np.log(np.where(y, y[indices].mean(), 1 - y[indices].mean())))
>>> references = References.train(share, y, y, count=4, seed=2)
>>> references.inside.sum(axis=0).tolist() == [2] * 60  # every target is in half of the models
True

Black box, the plainest: whoever the model fits well was in (Yeom, Giacomelli, Fredrikson, Jha 2018).

"Privacy risk in machine learning: analyzing the connection to overfitting", adversary 1: call a target a member if its
loss is below a threshold. No reference model is needed; targets that are easy for every model are mistaken for members.

>>> import numpy as np
>>> from discreet.attacks.membership import LossThreshold
>>> rng = np.random.default_rng(1)
>>> inside = np.arange(400) < 200
>>> overfit = rng.exponential(np.where(inside, 0.02, 1.0))
>>> LossThreshold(losses=overfit, members=inside).run().verdict
'falls'

Black box, LiRA: how likely is this confidence if the target was in, and if it was not? (Carlini et al. 2022)

"Membership inference attacks from first principles": the logit of the confidence in the true class, ln(p/(1 − p)), is
near normal over training runs, so a few reference models give its mean with the target in and without it (algorithm 1,
online) or without it alone (section V-C, offline). With few models one standard deviation is shared by all targets
(section VI-C, "fixed variance").

>>> import numpy as np
>>> from discreet.attacks.membership import Lira, References, splits
>>> rng = np.random.default_rng(1)
>>> inside, easy = rng.random(400) < 0.5, rng.normal(size=400) * 3
>>> def model(members):
...     return -np.logaddexp(0, -(easy + 1.5 * members + 0.5 * rng.normal(size=400)))
>>> split = splits(400, count=8, seed=2)
>>> references = References.of([model(members) for members in split], split)
>>> result = Lira(confidences=model(inside), references=references, members=inside, design="coins").find()
>>> result.auc().value > 0.9, result.bound.epsilon > 1
(True, True)

Black box, RMIA: does the model favor the target more than it favors other people? (Zarifzadeh et al. 2024)

Zarifzadeh, Liu, Shokri, "Low-cost high-power membership inference attacks": a target x is compared with people z of
whom the model knows nothing: LR(x, z) = (p(x | model)/p(x)) / (p(z | model)/p(z)), where p(·) is a mean over reference
models; the score of x is the share of z with LR(x, z) ≥ γ. One reference model may do. Offline, where no reference
model had x in, p(x) ≈ ((1 + a)·p_out(x) + (1 − a))/2 (their offline approximation; a between 0 and 1).

>>> import numpy as np
>>> from discreet.attacks.membership import References, Rmia
>>> rng = np.random.default_rng(1)
>>> inside, easy = np.arange(600) < 200, rng.normal(size=600) * 3  # the last 200 are the population
>>> def model(members):
...     return -np.logaddexp(0, -(easy + 2 * members + 0.5 * rng.normal(size=600)))
>>> target, out = model(inside), np.zeros((2, 600), bool)
>>> references = References.of([model(members) for members in out], out)
>>> attack = Rmia(
...     confidences=target[:400], references=references.of_targets(range(400)), members=inside[:400],
...     population=target[400:], population_references=references.of_targets(range(400, 600)),
... )
>>> attack.find().auc().value > 0.8
True

Gray box: the attacker has not the training's inside, but its sequence of published models.

Each checkpoint was trained on the members again, so what it gained on them adds up, while the noise of single
checkpoints averages out (Nasr, Shokri, Houmansadr 2019, section on several epochs; Jagielski et al. 2023, "How to
combine membership-inference attacks on multiple updated machine learning models").

>>> import numpy as np
>>> from discreet.attacks.membership import Checkpoints
>>> rng = np.random.default_rng(1)
>>> inside, easy = np.arange(400) < 200, rng.normal(size=400)
>>> path = [-np.logaddexp(0, -(easy + t * inside / 2 + rng.normal(size=400))) for t in range(10)]
>>> Checkpoints(confidences=path, members=inside).find().auc().value > 0.85
True
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import log
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike

from discreet.attacks.membership.attack import MembershipAttack
from discreet.attacks.membership.scores import FEWEST, Bools, Floats, Ints, log_confidences, numbers
from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import Number, integer, rational

Progress = Callable[[int, int], None]


class PredictiveModel(Protocol):
    """Anything that says how probable it finds the truth."""

    def scores(self, x: Any, y: Any, /) -> ArrayLike:
        """ln p(y | x) for each row."""
        ...


class Trainer(Protocol):
    """Anything that trains a model on some rows of its data."""

    def __call__(self, indices: Ints, seed: int, /) -> PredictiveModel:
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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LossThreshold(MembershipAttack):
    """`losses` are the model's losses on the targets; +∞ is allowed."""

    losses: ArrayLike

    attack: ClassVar[str] = "loss threshold"
    sees: ClassVar[str] = "outputs (black box)"

    def scores(self) -> Floats:
        """Minus the loss."""
        return np.asarray(-numbers(self.losses, "losses", infinite=True))


Mode = Literal["auto", "online", "offline"]

_OWN = 32  # models with and without a target, from which on it has a standard deviation of its own
_LEAST = 1e-6  # a standard deviation
_NEAR_ONE = -(2.0**-53)  # a confidence that a float cannot tell from 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lira(MembershipAttack):
    """`confidences` are ln p(y | x) of the model on the targets; `references` say the same of models one knows.

    `mode` is online (models with and without each target), offline (without it; those with it are passed over) or
    auto: online if the references allow it.
    """

    confidences: ArrayLike
    references: References
    mode: Mode = "auto"

    attack: ClassVar[str] = "LiRA"
    sees: ClassVar[str] = "outputs, reference models (black box)"

    def scores(self) -> Floats:
        """The logarithm of the likelihood ratio; offline, how far above the models without the target."""
        seen = logits(log_confidences(self.confidences, "confidences"))
        check_references(self.references, len(seen))
        online = resolved(self.mode, self.references) == "online"
        table, inside = logits(self.references.confidences), self.references.inside
        without = _Side.of(table, ~inside)
        if not online:
            return np.asarray((seen - without.mean) / without.spread)
        return _Side.of(table, inside).log_density(seen) - without.log_density(seen)


@dataclass(frozen=True, slots=True, eq=False)
class _Side:
    """Mean and standard deviation of each target's logit over some of the models."""

    mean: Floats
    spread: Floats

    @classmethod
    def of(cls, table: Floats, chosen: Bools) -> "_Side":
        counts = chosen.sum(axis=0)
        mean = np.where(chosen, table, 0).sum(axis=0) / counts
        squares = np.where(chosen, (table - mean) ** 2, 0).sum(axis=0)
        if counts.min() >= _OWN:
            return cls(mean, np.maximum(np.sqrt(squares / (counts - 1)), _LEAST))
        free = int((counts - 1).sum())
        shared = float(np.sqrt(squares.sum() / free)) if free else 1.0
        return cls(mean, np.full(len(mean), max(shared, _LEAST)))

    def log_density(self, seen: Floats) -> Floats:
        return np.asarray(-(((seen - self.mean) / self.spread) ** 2) / 2 - np.log(self.spread))


def logits(confidences: Floats) -> Floats:
    """ln(p/(1 − p)) from ln p, finite.

    >>> logits(np.log([0.5, 0.9])).round(4).tolist(), bool(np.isfinite(logits(np.array([0.0, -np.inf]))).all())
    ([0.0, 2.1972], True)
    """
    kept = np.clip(confidences, -745.0, _NEAR_ONE)
    return np.asarray(kept - np.log(-np.expm1(kept)))


def check_references(references: References, targets: int, name: str = "targets") -> None:
    """Refuse references of other targets, and targets that no model was trained without."""
    if references.confidences.shape[1] != targets:
        raise InvalidData(f"references: they know {references.confidences.shape[1]} targets, not {targets} {name}")
    always = int(references.inside.all(axis=0).sum())
    if always:
        raise InvalidData(f"references: {always} {name} are in every model; train some without them")


def resolved(mode: str, references: References) -> Literal["online", "offline"]:
    """The mode meant."""
    if mode not in ("auto", "online", "offline"):
        raise InvalidParameter("mode", mode, "'auto', 'online' or 'offline'")
    if mode == "online" and not references.online:
        missing = int((~references.inside.any(axis=0)).sum())
        raise InvalidData(f"references: {missing} targets are in no model; train some with them, or use mode='offline'")
    return "online" if references.online and mode != "offline" else "offline"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rmia(MembershipAttack):
    """`confidences` are ln p(y | x) of the model on the targets, `population` on people who were in no training set.

    `references` and `population_references` say the same of models one knows. `gamma` ≥ 1; `scale` is a. `mode` as in
    `Lira`.
    """

    confidences: ArrayLike
    references: References
    population: ArrayLike
    population_references: References
    gamma: Number = 2
    scale: Number = 0.3
    mode: Mode = "auto"

    attack: ClassVar[str] = "RMIA"
    sees: ClassVar[str] = "outputs, reference models, a population (black box)"

    def scores(self) -> Floats:
        """The share of the population that the target is ahead of, by γ at least; ties in it by the ratio itself."""
        gamma = float(rational(self.gamma, "gamma", at_least=1))
        scale = float(rational(self.scale, "scale", at_least=0, at_most=1))
        online = resolved(self.mode, self.references) == "online"
        mine = _ratio(self.confidences, self.references, "targets", scale, online=online)
        theirs = np.sort(_ratio(self.population, self.population_references, "population", scale, online=online))
        if len(theirs) < FEWEST:
            raise InvalidData(f"population: {len(theirs)} people, expected {FEWEST} at least")
        ahead = np.searchsorted(theirs, mine - log(gamma), side="right") / len(theirs)
        return np.asarray(ahead + _ranks(mine) / (2 * len(theirs)))


def _ratio(given: ArrayLike, references: References, name: str, scale: float, *, online: bool) -> Floats:
    """ln p(x | model) − ln p(x)."""
    seen = np.maximum(log_confidences(given, name), -745.0)
    check_references(references, len(seen), name)
    table, inside = np.exp(references.confidences), references.inside
    without = np.where(inside, 0, table).sum(axis=0) / (~inside).sum(axis=0)
    mean = ((1 + scale) * without + (1 - scale)) / 2
    if online:
        counts = inside.sum(axis=0)
        known = np.where(inside, table, 0).sum(axis=0) / np.maximum(counts, 1)
        mean = np.where(counts > 0, (known + without) / 2, mean)
    return np.asarray(seen - np.log(np.maximum(mean, np.exp(-745.0))))


def _ranks(ratio: Floats) -> Floats:
    """Ranks from 0 to below 1, equal ones for equal ratios: within a step of the share they decide."""
    return np.asarray(np.searchsorted(np.sort(ratio), ratio, side="left") / len(ratio))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Checkpoints(MembershipAttack):
    """`confidences` are ln p(y | x) of each checkpoint (checkpoints × targets), the earliest first.

    The earliest is what the others are compared with: it makes up for targets that are easy for every model.
    """

    confidences: ArrayLike

    attack: ClassVar[str] = "checkpoints"
    sees: ClassVar[str] = "outputs of a sequence of models (gray box)"

    def scores(self) -> Floats:
        """The mean gain of the logit over the first checkpoint."""
        path = logits(log_confidences(self.confidences, "confidences", dimensions=2))
        if len(path) < 2:
            raise InvalidData("confidences: got one checkpoint, expected two or more")
        return np.asarray((path[1:] - path[0]).mean(axis=0))
