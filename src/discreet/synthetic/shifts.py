"""What noisy marginals cost, derived again at the gate from the noise on each count and what one unit moves."""

from collections import Counter
from collections.abc import Iterable
from fractions import Fraction

from discreet.errors import InternalError
from discreet.privacy.loss import BoundedRange, GaussianNoise, Loss, Repeated, Together
from discreet.privacy.unit import Neighbors
from discreet.synthetic.choosing import Recipe
from discreet.synthetic.fine_counts import Cells
from discreet.synthetic.measuring import Design


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
