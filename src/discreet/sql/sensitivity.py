"""How far one unit can move a measure: the numbers that noise is scaled to."""

from dataclasses import dataclass

from discreet.privacy.unit import Neighbors
from discreet.sql.algebra import Bound, Count, Measure, People, Sum


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """The most that a change of one unit moves the vector of all groups: in ℓ1, and in ℓ2 squared; whole steps."""

    l1: int
    l2_squared: int


def of(measure: Measure, bound: Bound, neighbors: Neighbors) -> Sensitivity:
    """The sensitivity of a measure over a bounded relation, under a neighbor relation.

    Guarantee: for any two datasets that differ in one unit, the vectors of this measure over all groups differ by at
    most `l1` in ℓ1 norm and √`l2_squared` in ℓ2 norm.
    Proof. The vector is the sum over units of vectors v that depend on that unit's rows alone; v is zero outside at
    most G groups (`Bound.groups`) and between −a and b within, where −a ≤ 0 ≤ b are whole: 0 and 1 for People, 0 and R
    for Count, R·min(0, lower − offset) and R·max(0, upper − offset) for Sum. (n ≤ R rows add up to that; n > R rows
    that add t, between n/R times the ends, count as ⌊t·R/n + h⌋ with 0 ≤ h < 1, which lies between the same ends since
    they are whole.) Let c = max(a, b). *Add or remove one* moves the total by one v: ℓ1 ≤ G·c, ℓ2² ≤ G·c².
    *Change one* replaces v by w. In k groups where both are, it moves by at most a + b; in at most 2(G − k) where one
    of them is, by at most c. There are `size` groups, so 2G − k ≤ size. Since a + b ≤ 2c, ℓ1 is greatest at the least
    such k; ℓ2² is linear in k, so greatest at the least or at k = G. Clamping totals moves no two further apart.
    """
    low, high = _ends(measure, bound)
    most, spread, groups = max(1, -low, high), max(1, high - low), bound.groups
    if neighbors is Neighbors.ADD_OR_REMOVE_ONE:
        return Sensitivity(groups * most, groups * most**2)
    size = bound.source.size
    both = 0 if size is None else max(0, 2 * groups - size)
    l1 = both * spread + 2 * (groups - both) * most
    return Sensitivity(l1, max(groups * spread**2, both * spread**2 + 2 * (groups - both) * most**2))


def keys(bound: Bound, neighbors: Neighbors) -> int:
    """In how many groups a change of one unit can change the number of units, by one each.

    Proof. A unit is in at most G groups; changing it takes it out of at most G and puts it into at most G.
    """
    return bound.groups * (1 if neighbors is Neighbors.ADD_OR_REMOVE_ONE else 2)


def _ends(measure: Measure, bound: Bound) -> tuple[int, int]:
    """Between what one unit adds to one group."""
    match measure:
        case People():
            return 0, 1
        case Count():
            return 0, bound.rows
        case Sum():
            lower, upper = (measure.kind.lower or 0) - measure.offset, (measure.kind.upper or 0) - measure.offset
            return bound.rows * min(0, lower), bound.rows * max(0, upper)
