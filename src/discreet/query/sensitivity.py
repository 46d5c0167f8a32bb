"""How far one unit can move a measure: the numbers that noise is scaled to."""

from dataclasses import dataclass

from discreet.privacy.unit import Neighbours
from discreet.query.algebra import Bound, Count, Measure, People, Sum


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """The most that a change of one unit moves the vector of all groups: in ℓ1, and in ℓ2 squared; whole steps."""

    l1: int
    l2_squared: int


def of(measure: Measure, bound: Bound, neighbours: Neighbours) -> Sensitivity:
    """The sensitivity of a measure over a bounded relation, under a neighbour relation.

    Guarantee: for any two datasets that differ in one unit, the vectors of this measure over all groups differ by at
    most `l1` in ℓ1 norm and √`l2_squared` in ℓ2 norm.
    Proof. The vector is the sum over units of vectors v that depend on that unit's rows alone; v is zero outside at
    most G groups (`Bound.groups`) and at most b in size within, where b is 1 for People, R for Count and R·reach for
    Sum: n ≤ R rows add at most n·reach; n > R rows that add t, |t| ≤ n·reach, count as ⌊t·R/n + h⌋ with 0 ≤ h < 1,
    which lies between −R·reach and R·reach, since these are whole (for Count, between 0 and R). Adding or removing one
    unit moves the total by one v: ℓ1 ≤ G·b, ℓ2² ≤ G·b². Changing one replaces v by w: ℓ1 ≤ 2·G·b, and
    ℓ2² = ‖v‖² + ‖w‖² − 2·v·w, at most 2·G·b² where no entry is negative (v·w ≥ 0), at most 4·G·b² otherwise. Clamping
    totals moves no two further apart.
    """
    each, signed = _most(measure, bound)
    if neighbours is Neighbours.ADD_OR_REMOVE_ONE:
        return Sensitivity(bound.groups * each, bound.groups * each**2)
    return Sensitivity(2 * bound.groups * each, (4 if signed else 2) * bound.groups * each**2)


def keys(bound: Bound, neighbours: Neighbours) -> int:
    """In how many groups a change of one unit can change the number of units, by one each.

    Proof. A unit is in at most G groups; changing it takes it out of at most G and puts it into at most G.
    """
    return bound.groups * (1 if neighbours is Neighbours.ADD_OR_REMOVE_ONE else 2)


def _most(measure: Measure, bound: Bound) -> tuple[int, bool]:
    """The most that one unit adds to one group, in size and at least 1, and whether it can be negative."""
    match measure:
        case People():
            return 1, False
        case Count():
            return bound.rows, False
        case Sum():
            negative = (measure.kind.lower or 0) < measure.offset
            return max(1, bound.rows * measure.reach), negative
