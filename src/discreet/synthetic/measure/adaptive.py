"""Adaptive choice: after a first release, the marginals that a fitted table gets most wrong are found and measured.

Rounds of: fit to what is known, pick marginals by the exponential mechanism, measure them with Gaussian noise. The
score is AIM's (McKenna, Mullins, Sheldon, Miklau 2022): how far the fitted marginal is from the true one, less what the
noise of measuring it would add.

On NIST's extract of Massachusetts, at ε = 1 and 10, measuring all pairs at once gave a smaller error than picking 30 or
100 pairs, or 10 triples more, did. It is for tables with too many pairs, and for triples at a larger ε.

What measurements cost is derived again at the gate, from the noise on each count and what one unit moves.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InternalError, InvalidParameter
from discreet.exact import Number, integer, rational, sqrt_bounds
from discreet.mechanisms.selection import Exponential
from discreet.noise import Entropy
from discreet.privacy.accounting.rounding import decimal_down, decimal_up
from discreet.privacy.calibration import gaussian_multiplier, least
from discreet.privacy.loss import BoundedRange, GaussianNoise, Loss, Repeated, Together
from discreet.privacy.unit import Neighbors
from discreet.synthetic.measure.fine_counts import Cells
from discreet.synthetic.measure.noisy_marginals import (
    Attributes,
    Design,
    MarginalModel,
    Measurement,
    allotted,
    cells,
    checked_attributes,
    checked_codes,
    counts,
    measure,
    noisy,
    squared_sensitivity,
)

Fit = Callable[[Sequence[Measurement]], MarginalModel]

_BITS = 80
_PICKING = 0.1  # of the budget: what picks cost
_FIRST = {False: 0.2, True: 0.7}  # of the budget: the first release, without pairs and with
_MOST_SCORED = 10**8  # cells counted in one round


@dataclass(frozen=True, slots=True)
class Round:
    """Pick so many of the candidates, each pick at this ε, and measure each with noise of this deviation."""

    candidates: tuple[Attributes, ...]
    picks: int
    epsilon: Fraction
    sigma: Fraction

    def __init__(self, candidates: Sequence[Attributes], *, picks: int, epsilon: Number, sigma: Number) -> None:
        named = tuple(dict.fromkeys(tuple(each) for each in candidates))
        object.__setattr__(self, "candidates", named)
        object.__setattr__(self, "picks", integer(picks, "picks", at_least=1, at_most=len(named)))
        object.__setattr__(self, "epsilon", rational(epsilon, "epsilon", above=0))
        object.__setattr__(self, "sigma", rational(sigma, "sigma", at_least=Fraction(1, 8), at_most=1 << 40))


@dataclass(frozen=True, slots=True)
class Recipe:
    """A first release, then rounds of picking and measuring, decided before a row is seen."""

    first: Design
    rounds: tuple[Round, ...]

    def __post_init__(self) -> None:
        for each in self.rounds:
            named = [checked_attributes(marginal, self.first.sizes) for marginal in each.candidates]
            if sum(cells(marginal, self.first.sizes) for marginal in named) > _MOST_SCORED:
                raise InvalidParameter(
                    "candidates", f"{len(named)} marginals", f"at most {_MOST_SCORED:,} cells together"
                )

    @property
    def loss(self) -> Loss:
        """What the whole costs.

        Guarantee: `choose` costs this, for the neighbors of `first`. Proof. `first` by `Design.loss`. A pick is the
        exponential mechanism (`Exponential`) on whole scores: fitted counts, rounded, and the penalty are public, and
        |count − fitted| summed over cells moves by at most what the counts move by in ℓ1, K for a unit of at most K
        rows, 2K if one is exchanged for another. Each measurement is a Gaussian release of σ/√(squared sensitivity)
        by the argument of `Design.loss`. Each step is chosen after seeing those before, which `Together` allows.
        """
        parts: list[Loss] = [self.first.loss]
        for each in self.rounds:
            parts.append(Repeated(BoundedRange(each.epsilon), each.picks))
            parts.append(Repeated(GaussianNoise(self.round_multiplier(each)), each.picks))
        return Together(*parts)

    def round_multiplier(self, turn: Round) -> Fraction:
        """The noise multiplier of one measurement of a round: σ over the square root of its squared sensitivity."""
        square = squared_sensitivity(self.first.neighbors, self.first.rows_per_unit)
        return decimal_down(turn.sigma * (1 << _BITS) / sqrt_bounds(Fraction(square), _BITS)[1], 12)

    @property
    def score_sensitivity(self) -> int:
        """The most that one unit can move a score."""
        return self.first.rows_per_unit * (1 if self.first.neighbors is Neighbors.ADD_OR_REMOVE_ONE else 2)


def recipe_for(
    sizes: Sequence[int],
    first: Sequence[Attributes],
    candidates: Sequence[Attributes],
    *,
    epsilon: Number,
    delta: Number,
    neighbors: Neighbors | str,
    rounds: int,
    picks: int,
    rows_per_unit: int = 1,
) -> Recipe:
    """The least noise with which these marginals, then rounds of so many picks, are (ε, δ)-DP together.

    A tenth of the budget goes to picking; to the first release a fifth if it is of single columns only, else seven
    tenths; the rest to measuring what was picked.

    >>> from discreet.privacy.accounting import guarantee
    >>> from discreet.synthetic.measure.noisy_marginals import ones, pairs
    >>> sizes = (2, 3, 4, 5)
    >>> made = recipe_for(sizes, ones(sizes), pairs(sizes), epsilon=1, delta="1e-9", neighbors="add or remove one",
    ...     rounds=2, picks=1)
    >>> 0.99 < guarantee(made.loss, delta="1e-9").epsilon <= 1
    True
    """
    turns = integer(rounds, "rounds", at_least=1, at_most=1000)
    share = _FIRST[any(len(each) > 1 for each in first)]
    whole = gaussian_multiplier(epsilon=epsilon, delta=delta, method="analytic")

    def made(multiplier: Fraction) -> Recipe:
        start = allotted(
            sizes,
            first,
            multiplier=multiplier * _root(1 / share),
            neighbors=neighbors,
            rows_per_unit=rows_per_unit,
        )
        steps = turns * picks
        unit = _root(squared_sensitivity(start.neighbors, start.rows_per_unit))
        sigma = decimal_up(multiplier * unit * _root(steps / (1 - share - _PICKING)), 9)
        # ε²/8 of a pick stands beside 1/2σ² of a Gaussian (Cesar, Rogers 2021: bounded range as concentrated DP)
        each = decimal_down(_root(4 * _PICKING / steps) / multiplier, 9)
        turn = Round(candidates, picks=picks, epsilon=each, sigma=max(sigma, Fraction(1, 8)))
        return Recipe(start, (turn,) * turns)

    return made(least(lambda m: made(m).loss, epsilon=epsilon, delta=delta, low=whole / 2, high=3 * whole))


def choose(codes: Any, recipe: Recipe, fit: Fit, *, entropy: Entropy | None = None) -> tuple[Measurement, ...]:
    """Everything that the recipe releases: the first measurements, then those of the picked marginals, in order.

    Guarantee: costs `recipe.loss`; the proof is there. `fit` must read nothing but the measurements.

    >>> from discreet.noise import DeterministicEntropy
    >>> from discreet.synthetic.fit.relaxed import fit
    >>> rows = np.repeat(np.array([[0, 0, 0], [1, 1, 0], [0, 0, 1], [1, 1, 1]]), 500, axis=0)
    >>> sizes, named = (2, 2, 2), [(0, 1), (0, 2), (1, 2)]
    >>> recipe = recipe_for(sizes, [(0,), (1,), (2,)], named, epsilon=4, delta="1e-9", neighbors="add or remove one",
    ...     rounds=1, picks=1)
    >>> found = choose(rows, recipe, lambda known: fit(sizes, known), entropy=DeterministicEntropy(1))
    >>> found[-1].attributes
    (0, 1)
    """
    sizes = recipe.first.sizes
    table = checked_codes(codes, sizes)
    known = list(measure(table, recipe.first, entropy=entropy))
    for each in recipe.rounds:
        done = {measurement.attributes for measurement in known}
        left = [marginal for marginal in each.candidates if marginal not in done] or list(each.candidates)
        picker = Exponential(epsilon=each.epsilon, sensitivity=recipe.score_sensitivity)
        scores = _scores(table, sizes, left, fit(known), each.sigma)
        for _ in range(each.picks):
            place = picker.release(scores, entropy=entropy)
            known.append(noisy(table, sizes, left[place], each.sigma, entropy))
            if len(left) > 1:
                del left[place], scores[place]
    return tuple(known)


def _scores(
    codes: NDArray[Any], sizes: Sequence[int], candidates: Sequence[Attributes], model: MarginalModel, sigma: Fraction
) -> list[int]:
    """Σ|count − fitted| less the expected Σ|noise|, whole numbers, for each candidate."""
    results = []
    for each in candidates:
        fitted = np.rint(np.clip(model.marginal(each), 0, 2.0**38)).astype(np.int64)
        penalty = round(math.sqrt(2 / math.pi) * float(sigma) * fitted.size)
        results.append(int(np.abs(counts(codes, sizes, each) - fitted).sum()) - penalty)
    return results


def _root(x: float | int) -> Fraction:
    """√x, rounded up."""
    return Fraction(sqrt_bounds(Fraction(x), _BITS)[1], 1 << _BITS)


def unit_square(neighbors: Neighbors, rows: int) -> int:
    """The squared ℓ2 distance by which a unit of so many rows moves the counts of one marginal, at most.

    All rows in one cell are the worst: rows² where the unit comes or goes, twice that where it moves to another cell.

    >>> unit_square(Neighbors.CHANGE_ONE, 3)
    18
    """
    return rows * rows * (2 if neighbors is Neighbors.CHANGE_ONE else 1)


def design_shift(design: Design, neighbors: Neighbors, rows: int) -> Fraction:
    """The squared shift that one unit causes in a design's measurements, in units of their noise; exact.

    >>> design_shift(Design((2, 3), ((0,), (0, 1)), (10, 10), neighbors="change one"), Neighbors.CHANGE_ONE, 1)
    Fraction(1, 25)
    """
    if (design.neighbors, design.rows_per_unit) != (neighbors, rows):
        raise InternalError("marginals are measured for other units than the plan's")
    each = (count / (sigma * sigma) for sigma, count in Counter(design.sigmas).items())
    inverse = sum(each, Fraction(0))
    if design.sigma_left_out**2 * inverse < 1:
        raise InternalError("the number of rows that are left out has too little noise")
    return unit_square(neighbors, rows) * inverse


def fine_shift(cells: Iterable[Cells], sigma: Fraction, neighbors: Neighbors, rows: int) -> Fraction:
    """The squared shift that one unit causes in fine counts of these columns: once on each level of each.

    >>> fine_shift([Cells.over(100), Cells.over(10)], Fraction(3), Neighbors.ADD_OR_REMOVE_ONE, 1)
    Fraction(1, 3)
    """
    return sum(each.levels for each in cells) * unit_square(neighbors, rows) / (sigma * sigma)


def gaussian_within(multiplier: Fraction, shift: Fraction) -> GaussianNoise:
    """One Gaussian release of this multiplier, if a squared shift of the noise costs no more.

    >>> gaussian_within(Fraction(5), Fraction(1, 25)).multiplier
    Fraction(5, 1)
    """
    if multiplier * multiplier * shift > 1:
        raise InternalError("a plan adds less noise to its counts than its loss says")
    return GaussianNoise(multiplier)


def recipe_loss(recipe: Recipe) -> Loss:
    """The loss of a first release and of rounds of picks, each part held against the noise that it has."""
    first, neighbors, rows = recipe.first, recipe.first.neighbors, recipe.first.rows_per_unit
    square = unit_square(neighbors, rows)
    if recipe.score_sensitivity != rows * (2 if neighbors is Neighbors.CHANGE_ONE else 1):
        raise InternalError("marginals are picked by scores that one unit moves further than is said")
    parts: list[Loss] = [gaussian_within(first.loss.multiplier, design_shift(first, neighbors, rows))]
    for turn in recipe.rounds:
        parts.append(Repeated(BoundedRange(turn.epsilon), turn.picks))
        stated = recipe.round_multiplier(turn)
        parts.append(Repeated(gaussian_within(stated, square / turn.sigma**2), turn.picks))
    return Together(*parts)
