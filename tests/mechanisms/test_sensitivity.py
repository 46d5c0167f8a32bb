"""The exhaustive search against a plainer enumeration, and the closed forms against the search."""

import itertools
import math
import statistics
from collections import Counter
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.mechanisms import closed_forms

from discreet.errors import InvalidParameter
from discreet.mechanisms.neighbor_graph import sensitivity
from discreet.privacy.unit import Neighbors

CHANGE, ADD = Neighbors.CHANGE_ONE, Neighbors.ADD_OR_REMOVE_ONE
GRID = [Fraction(0), Fraction(1, 2), Fraction(1)]

QUERIES = {
    "sum": sum,
    "count of ones": lambda rows: rows.count(1),
    "maximum": lambda rows: max(rows, default=0),
    "first times last": lambda rows: rows[0] * rows[-1] if rows else 0,
    "alternating sum": lambda rows: sum((-1) ** i * x for i, x in enumerate(rows)),
    "squared sum": lambda rows: sum(rows) ** 2,
}


def brute_force(query, domain, size, relation, norm=abs):
    """All pairs of datasets, compared by what the relation says about them."""
    worst = 0
    if relation is CHANGE:
        for a, b in itertools.product(itertools.product(domain, repeat=size), repeat=2):
            if sum(x != y for x, y in zip(a, b, strict=True)) == 1:
                worst = max(worst, norm(query(a) - query(b)))
        return worst
    for longer in (size, size + 1):
        for a in itertools.product(domain, repeat=longer):
            for b in itertools.product(domain, repeat=longer - 1) if longer else ():
                if any(b == a[:i] + a[i + 1 :] for i in range(longer)):
                    worst = max(worst, norm(query(a) - query(b)))
    return worst


@pytest.mark.parametrize("relation", list(Neighbors))
@pytest.mark.parametrize("name", sorted(QUERIES))
@pytest.mark.parametrize("size", [1, 2, 3])
def test_the_search_is_exhaustive(name, size, relation):
    query, domain = QUERIES[name], [0, 1, 3]
    found = sensitivity(query, domain=domain, size=size, neighbors=relation)
    assert found.value == brute_force(query, domain, size, relation)
    assert isinstance(found.value, Fraction)
    a, b = found.witness
    assert abs(query(a) - query(b)) == found.value
    assert len(b) == len(a) - (relation is ADD)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(-5, 5), min_size=10, max_size=10), st.sampled_from(list(Neighbors)), st.integers(1, 3))
def test_one_order_is_enough_for_symmetric_queries(table, relation, size):
    """An arbitrary function of the multiset, by lookup."""

    def query(rows):
        return table[sum(3**k for k in rows) % 10]

    every = sensitivity(query, domain=[0, 1, 2], size=size, neighbors=relation)
    one = sensitivity(query, domain=[0, 1, 2], size=size, neighbors=relation, ordered=False)
    assert every.value == one.value
    assert one.datasets <= every.datasets


def test_what_is_counted():
    found = sensitivity(sum, domain=[0, 1], size=2, neighbors=ADD)
    assert found.datasets == 2**1 + 2**2 + 2**3
    assert found.pairs == 2**2 * 2 + 2**3 * 3
    found = sensitivity(sum, domain=[0, 1, 2], size=2, neighbors=CHANGE)
    assert (found.datasets, found.pairs) == (9, 9 * 2 * 2 // 2)
    empty = sensitivity(len, domain=[0], size=0, neighbors=ADD)
    assert (empty.value, empty.witness) == (1, ((0,), ()))
    assert sensitivity(sum, domain=[7], size=3, neighbors=CHANGE).witness is None


@pytest.mark.parametrize(
    ("norm", "change", "add"), [(1, Fraction(2), Fraction(1)), (2, math.sqrt(2), Fraction(1)), ("inf", 1, 1)]
)
def test_norms_of_a_histogram(norm, change, add):
    histograms = [
        lambda rows: [rows.count(v) for v in "abc"],
        lambda rows: np.array([rows.count(v) for v in "abc"]),
        Counter,
        lambda rows: tuple(Decimal(rows.count(v)) for v in "abc"),
    ]
    for histogram in histograms:
        found = sensitivity(histogram, domain="abc", size=3, neighbors=CHANGE, norm=norm)
        assert found.value == pytest.approx(change)
        assert found.value >= change
        assert sensitivity(histogram, domain="abc", size=3, neighbors=ADD, norm=norm).value == add


def test_exact_answers_stay_exact_and_float_answers_are_floats():
    third = sensitivity(lambda rows: Fraction(sum(rows), 3), domain=[0, 1], size=2, neighbors=CHANGE)
    assert third.value == Fraction(1, 3)
    assert isinstance(sensitivity(lambda rows: sum(rows) / 3, domain=[0, 1], size=2, neighbors=CHANGE).value, float)
    vector = sensitivity(lambda rows: [3 * rows[0], 4 * rows[0]], domain=[0, 1], size=1, neighbors=CHANGE, norm=2)
    assert vector.value == Fraction(5)
    assert type(vector.value) is Fraction


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"domain": []}, "domain: got '0 values'"),
        ({"domain": 3}, "domain: got 3"),
        ({"domain": itertools.count()}, "over 10,000 values"),
        ({"size": -1}, "size: got -1"),
        ({"size": 0}, "size: got 0, expected a whole number ≥ 1"),
        ({"size": 2.5}, "size"),
        ({"size": True}, "size"),
        ({"size": 60}, r"about 10\^.* pairs of datasets.*at most 2,000,000 pairs.*ordered=False"),
        ({"size": 20}, r"20,971,520 pairs"),
        ({"size": 10**9}, "size: got 1000000000"),
        ({"size": 10**5}, "size: got 100000"),
        ({"norm": 3}, "norm: got 3"),
        ({"norm": "l1"}, "norm"),
        ({"neighbors": "swap"}, "neighbors: got 'swap'"),
        ({"query": lambda rows: math.nan}, "finite answers"),
        ({"query": lambda rows: "high"}, "query: got 'high'"),
        ({"query": lambda rows: None}, "query: got None"),
        ({"query": lambda rows: max(rows) > 0}, "True and False are not numbers"),
        ({"query": lambda rows: list(range(sum(rows)))}, "answers of one length"),
        ({"query": lambda rows: 1 / rows[0]}, "ZeroDivisionError on a dataset of 2 records"),
    ],
)
def test_one_clear_error_each(options, message):
    settings = {"query": sum, "domain": [0, 1], "size": 2, "neighbors": CHANGE} | options
    with pytest.raises(InvalidParameter, match=message):
        sensitivity(settings.pop("query"), **settings)


def test_fewer_orders_allow_more_records():
    assert sensitivity(sum, domain=[0, 1], size=500, neighbors=CHANGE, ordered=False).value == 1


def lower_median(rows):
    return statistics.median_low(rows) if rows else 0


FORMS = [
    (lambda rows: rows.count(1), lambda n, r: closed_forms.count_sensitivity(neighbors=r)),
    (sum, lambda n, r: closed_forms.sum_sensitivity(neighbors=r)),
    (
        lambda rows: sum(rows, Fraction(0)) / max(1, len(rows)),
        lambda n, r: closed_forms.average_sensitivity(size=n, neighbors=r),
    ),
    (lambda rows: [rows.count(v) for v in GRID], lambda n, r: closed_forms.histogram_sensitivity(neighbors=r)),
    (lambda rows: max(rows, default=0), lambda n, r: closed_forms.extreme_sensitivity(neighbors=r)),
    (lambda rows: min(rows, default=1), lambda n, r: closed_forms.extreme_sensitivity(neighbors=r)),
    (math.prod, lambda n, r: closed_forms.extreme_sensitivity(neighbors=r)),
    (lower_median, lambda n, r: closed_forms.extreme_sensitivity(neighbors=r)),
]


@pytest.mark.parametrize("relation", list(Neighbors))
@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("form", range(len(FORMS)))
def test_closed_forms_are_what_the_search_finds(form, size, relation):
    query, closed = FORMS[form]
    assert sensitivity(query, domain=GRID, size=size, neighbors=relation, ordered=False).value == closed(size, relation)


@pytest.mark.parametrize("relation", list(Neighbors))
@pytest.mark.parametrize("size", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("sample", [False, True])
def test_standard_deviations(size, relation, sample):
    def deviation(rows):
        if len(rows) < 2:
            return 0.0
        return statistics.stdev(rows) if sample else statistics.pstdev(rows)

    closed = closed_forms.deviation_sensitivity(size=size, neighbors=relation, sample=sample)
    grid = [0.0, 0.25, 0.5, 1.0]
    found = sensitivity(deviation, domain=grid, size=size, neighbors=relation, ordered=False)
    assert found.value == pytest.approx(float(closed), abs=1e-12)
    if size > 1:
        assert closed <= Fraction(math.isqrt(10**30 // size) + 1, 10**15)  # 1/√n


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_variance(size):
    def variance(rows):
        mean = sum(rows) / len(rows)
        return sum((x - mean) ** 2 for x in rows) / len(rows)

    closed = closed_forms.variance_sensitivity(size=size)
    assert sensitivity(variance, domain=GRID, size=size, neighbors=CHANGE, ordered=False).value == closed


def test_closed_forms_refuse_bad_input():
    for make in (closed_forms.average_sensitivity, closed_forms.deviation_sensitivity):
        for size in (0, -1, 1.5, True):
            with pytest.raises(InvalidParameter, match="size"):
                make(size=size, neighbors=CHANGE)
    with pytest.raises(InvalidParameter, match="neighbors"):
        closed_forms.sum_sensitivity(neighbors="swap")
