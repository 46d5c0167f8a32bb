"""Sensitivities of common queries in closed form.

Closed forms are of queries over records in [0, 1], with proofs; the search confirms them. `size` is n, the number of
records; under "add or remove one" a dataset of n records is compared with those of n − 1 and of n + 1. Queries of
nothing are 0 (a product of nothing is 1), the spread of one record is 0. Each form is attained, so no smaller number is
right; `sensitivity.sensitivity` confirms it on the grid {0, 1/2, 1}.

For values in [L, U] shift and scale the records to [0, 1] first, (x − L)/(U − L). Or multiply: deviations by U − L;
variances by (U − L)²; sums, averages, maxima, minima and medians under "change one" by U − L. Under "add or remove
one" sums by the larger of |L| and |U|, and averages, maxima, minima and medians by the larger of U − L, |L| and |U|,
since a query of nothing is still 0. Counts and histograms stay as they are; a product has no such rule.
"""

from fractions import Fraction

from discreet.exact import integer, sqrt_bounds
from discreet.privacy.unit import Neighbors
from discreet.privacy.unit import relation as read_relation

_BITS = 64


def count_sensitivity(*, neighbors: Neighbors) -> Fraction:
    """1: the number of records with a property changes by at most 1 when one record comes, goes or changes.

    >>> count_sensitivity(neighbors=Neighbors.CHANGE_ONE)
    Fraction(1, 1)
    """
    read_relation(neighbors)
    return Fraction(1)


def sum_sensitivity(*, neighbors: Neighbors) -> Fraction:
    """1: the sum changes by |x − x'| ≤ 1, or by one record |x| ≤ 1. Attained by a record 0 that becomes, or meets, a 1.

    >>> sum_sensitivity(neighbors=Neighbors.ADD_OR_REMOVE_ONE)
    Fraction(1, 1)
    """
    read_relation(neighbors)
    return Fraction(1)


def average_sensitivity(*, size: int, neighbors: Neighbors) -> Fraction:
    """1/n under both relations.

    Proof. Change one: the sum changes by at most 1 and n is fixed. Remove x: the average of n minus the average m of
    the rest is (x − m)/n. Add x: (x − m)/(n + 1). Attained by zeros and a single 1.

    >>> average_sensitivity(size=10, neighbors=Neighbors.CHANGE_ONE)
    Fraction(1, 10)
    """
    read_relation(neighbors)
    return Fraction(1, integer(size, "size", at_least=1))


def histogram_sensitivity(*, neighbors: Neighbors) -> Fraction:
    """In ℓ1 norm: 1 for "add or remove one" (one cell changes by 1), 2 for "change one" (one falls, one rises).

    >>> histogram_sensitivity(neighbors=Neighbors.CHANGE_ONE)
    Fraction(2, 1)
    """
    return Fraction(2 if read_relation(neighbors) is Neighbors.CHANGE_ONE else 1)


def extreme_sensitivity(*, neighbors: Neighbors) -> Fraction:
    """1 for the maximum, the minimum, the product and the (lower) median: one record can move them across [0, 1].

    Proof. At most 1, as all of them stay in [0, 1]. Attained: the maximum by zeros and a record that becomes, or is
    added as, 1; the minimum and the product by ones and a record 0; the lower median, the ⌈n/2⌉-th smallest record, by
    ⌈n/2⌉ zeros and ⌊n/2⌋ ones, when one zero turns into a one, or is removed from an even number of records, or when
    a zero is added to ⌊n/2⌋ zeros and ⌈n/2⌉ ones, n odd.

    >>> extreme_sensitivity(neighbors=Neighbors.CHANGE_ONE)
    Fraction(1, 1)
    """
    read_relation(neighbors)
    return Fraction(1)


def variance_sensitivity(*, size: int) -> Fraction:
    """(n − 1)/n² for the population variance under "change one".

    Proof. With m and v the mean and variance of the other n − 1 records, the variance of all is
    (n − 1)/n·v + (n − 1)/n²·(x − m)², and (x − m)² stays in [0, 1]. Attained by m = 0, x from 0 to 1.

    >>> variance_sensitivity(size=4)
    Fraction(3, 16)
    """
    n = integer(size, "size", at_least=1)
    return Fraction(n - 1, n * n)


def deviation_sensitivity(*, size: int, neighbors: Neighbors, sample: bool = False) -> Fraction:
    """√(n−1)/n for the standard deviation s, 1/√n for the sample deviation (divisor n − 1), rounded up: below 1/√n.

    Proof, change one. s(x) = ‖Px‖₂/√n, where P subtracts the mean, a projection. So by the triangle inequality
    |s(x) − s(x')| ≤ ‖P(x − x')‖₂/√n, and P shortens a unit vector to √(1 − 1/n). The sample deviation is s·√(n/(n−1)).
    Attained by zeros and a record that goes from 0 to 1.
    Proof, remove one of n ≥ 2 (m, v as in `variance_sensitivity`; s' = √v for the rest). Up:
    s ≤ √(v + (n−1)/n²) ≤ s' + √(n−1)/n. Down: s ≥ s'·√(1 − 1/n), so s' − s ≤ s'/n ≤ 1/(2n), which is less. So the form
    for n is due, and adding one needs that for n + 1, which is less for n ≥ 2; n = 1 needs that of 2. For the sample
    deviation the same steps give s ≤ s' + 1/√n, and s' − s ≤ s'/(n−1) ≤ 1/(2√((n−1)(n−2))) ≤ 1/√n for n ≥ 3.

    >>> float(deviation_sensitivity(size=2, neighbors=Neighbors.CHANGE_ONE))
    0.5
    """
    n = integer(size, "size", at_least=1)
    if n == 1 and read_relation(neighbors) is Neighbors.ADD_OR_REMOVE_ONE:
        n = 2
    if n == 1:
        return Fraction(0)
    square = Fraction(1, n) if sample else Fraction(n - 1, n * n)
    return Fraction(sqrt_bounds(square, _BITS)[1], 1 << _BITS)
