"""Channels: every answer against a brute-force reference, exact and float."""

import copy
import math
import pickle
import tracemalloc
from decimal import Decimal
from fractions import Fraction
from itertools import chain, combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.errors import InvalidChannel, InvalidInput, InvalidParameter
from discreet.exact import exp_down, exp_up, log_down, log_up
from discreet.mechanisms.channel import Channel, constant, deterministic, identity, uniform
from discreet.mechanisms.neighbor_graph import distances, graph, hamming

COIN = [["3/4", "1/4"], ["1/4", "3/4"]]


@st.composite
def channels(draw, inputs=None, outputs=None, least=0):
    """Exact channels with small whole weights; zeros are common."""
    n = inputs or draw(st.integers(1, 4))
    m = outputs or draw(st.integers(1, 4))
    row = st.lists(st.integers(least, 5), min_size=m, max_size=m).filter(any)
    return Channel(draw(st.lists(row, min_size=n, max_size=n)), normalize=True)


def ordered_pairs(channel, near):
    return [
        (x, y)
        for x in range(len(channel.inputs))
        for y in range(len(channel.inputs))
        if x != y and near(channel.inputs[x], channel.inputs[y])
    ]


def brute_ratio(channel, near):
    worst = Fraction(1)
    for x, y in ordered_pairs(channel, near):
        for p, q in zip(channel.matrix[x], channel.matrix[y], strict=True):
            if p > 0 and q == 0:
                return math.inf
            worst = max(worst, p / q) if q else worst
    return worst


def brute_delta(channel, growth, near):
    columns = range(len(channel.outputs))
    subsets = list(chain.from_iterable(combinations(columns, k) for k in range(len(columns) + 1)))
    worst = Fraction(0)
    for x, y in ordered_pairs(channel, near):
        for s in subsets:
            worst = max(worst, sum(channel.matrix[x][z] - growth * channel.matrix[y][z] for z in s))
    return worst


GRAPHS = {
    "all": ("all", lambda a, b: True),
    "line": ("line", lambda a, b: abs(a - b) == 1),
    "function": (lambda a, b: (a + b) % 2 == 1, lambda a, b: (a + b) % 2 == 1),
}


class TestConstruction:
    @pytest.mark.parametrize(
        "row",
        [
            ["1/4", "3/4"],
            ["0.25", ".75"],
            [Fraction(1, 4), Decimal("0.75")],
            ["25e-2", Fraction(3, 4)],
            (Fraction(1, 4), "3/4"),
        ],
    )
    def test_texts_fractions_and_decimals_are_exact(self, row):
        channel = Channel([row, [0, 1]])
        assert channel.exact
        assert channel.matrix.tolist() == [[Fraction(1, 4), Fraction(3, 4)], [0, 1]]
        assert all(isinstance(entry, Fraction) for entry in channel.matrix.flat)

    def test_integer_arrays_are_exact_and_float_arrays_are_not(self):
        assert Channel(np.eye(2, dtype=int)).exact
        assert not Channel(np.eye(2)).exact
        assert Channel(np.array([["1/3", "2/3"]])).exact

    def test_one_float_makes_all_float(self):
        channel = Channel([[0.5, "1/2"], [Fraction(1, 4), 0.75]])
        assert channel.matrix.dtype == np.float64
        assert channel.matrix.tolist() == [[0.5, 0.5], [0.25, 0.75]]

    def test_thirds_do_not_sum_to_one_in_decimals_but_do_in_floats(self):
        with pytest.raises(InvalidChannel, match=r"row 'a' sums to 0\.999, expected exactly 1; .*normalize=True"):
            Channel([["0.333", "0.333", "0.333"]], inputs=["a"])
        assert Channel([["0.333", "0.333", "0.333"]], normalize=True).probability(0, 0) == Fraction(1, 3)
        assert Channel([[1 / 3, 1 / 3, 1 / 3]]).probability(0, 0) == 1 / 3

    def test_float_rows_may_miss_one_by_1e_9_only(self):
        assert not Channel([[0.5, 0.5 + 9e-10]]).exact
        with pytest.raises(InvalidChannel, match=r"sums to 1\.00000001"):
            Channel([[0.5, 0.5 + 1e-8]])

    @pytest.mark.parametrize(
        ("matrix", "message"),
        [
            ([], "empty"),
            ([[]], "empty"),
            ([[], []], "empty"),
            (np.zeros((0, 3)), "empty"),
            ([1, 0], "row 0 is a int"),
            (["10", "01"], "row 0 is a str"),
            ("10", "got a str"),
            (None, "got a NoneType"),
            ({0: [1]}, "got a dict"),
            (np.ones(3), "1 dimensions"),
            (np.ones((1, 1, 1)), "3 dimensions"),
            ([[1, 0], [1]], "row 1 has 1 entries, expected 2"),
            ([[0.5, 0.4]], r"row 0 sums to 0.9, expected 1 \(to 1e-9\)"),
            ([["1/3", "1/3"]], "row 0 sums to 2/3, expected exactly 1"),
            ([[1, 0], [2, -1]], "row 1 has -1 for 1, expected a probability"),
            ([[1.5, -0.5]], "row 0 has -0.5 for 1"),
            ([[float("nan"), 1.0]], "row 0, column 0: got nan, expected a finite number"),
            ([[float("inf"), 0.0]], "got inf"),
            ([[Decimal("NaN"), 1]], "it must be finite"),
            ([[Decimal("sNaN"), 1]], "it must be finite"),
            ([["x", 1]], "row 0, column 0: got 'x', expected a number"),
            ([["", 1]], "got an empty cell"),
            ([["1/0", 1]], "denominator is zero"),
            ([[True, False]], "True and False are not numbers"),
            (np.array([[True, False]]), "True and False are not numbers"),
            ([[None, 1]], "a NoneType is not a number"),
            ([[1j, 1]], "a complex is not a number"),
            ([[[1], 0]], "a list is not a number"),
            ([["1" * 70_000, 0]], "row 0, column 0"),
            ([["1/" + "3" * 5000, 0]], "row 0, column 0"),
        ],
    )
    def test_one_clear_error_for_each_bad_matrix(self, matrix, message):
        with pytest.raises(InvalidChannel, match=message):
            Channel(matrix)

    @pytest.mark.parametrize(
        ("labels", "message"),
        [
            (["a", "a"], "input 'a' appears twice"),
            (["a"], "got 1 labels, expected 2"),
            ("ab", "expected a list of 2 labels"),
            (7, "expected a list of 2 labels"),
            ([["a"], "b"], "cannot be a label"),
            ([("a", []), "b"], "cannot be a label"),
        ],
    )
    def test_labels(self, labels, message):
        with pytest.raises(InvalidChannel, match=message):
            Channel(COIN, inputs=labels)

    def test_normalize_refuses_rows_of_zeros(self):
        with pytest.raises(InvalidChannel, match="row 'b' sums to 0 and cannot be normalized"):
            Channel([[1, 2], [0, 0]], inputs=["a", "b"], normalize=True)

    def test_it_is_a_value(self):
        a, b = Channel(COIN, inputs=["x", "y"]), Channel(COIN, inputs=["x", "y"])
        assert a == b
        assert hash(a) == hash(b)
        assert a != Channel(COIN)
        assert a != a.as_float()
        assert a != "coin"
        assert pickle.loads(pickle.dumps(a)) == a == copy.deepcopy(a)
        with pytest.raises(ValueError, match="read-only"):
            a.matrix[0, 0] = 1
        with pytest.raises(AttributeError):
            a.inputs = ("p", "q")

    def test_the_callers_array_stays_writable_and_apart(self):
        given_array = np.array([[0.5, 0.5]])
        channel = Channel(given_array)
        given_array[0, 0] = 9
        assert channel.matrix[0, 0] == 0.5

    def test_numpy_labels_become_plain(self):
        assert Channel(COIN, inputs=np.array([3, 4])).inputs == (3, 4)
        assert type(Channel(COIN, inputs=np.array([3, 4])).inputs[0]) is int


class TestEpsilon:
    @given(channels(), st.sampled_from(sorted(GRAPHS)))
    def test_ratio_is_the_brute_force_one(self, channel, name):
        neighbors, near = GRAPHS[name]
        if name == "function" and len(channel.inputs) == 1:
            neighbors = "all"
        expected = brute_ratio(channel, near)
        assert channel.ratio(neighbors) == expected
        assert isinstance(channel.ratio(neighbors), Fraction) or expected == math.inf

    @given(channels(inputs=4), st.sets(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1))
    def test_explicit_pairs_are_symmetric(self, channel, pairs):
        pairs = {(a, b) for a, b in pairs if a != b} or {(0, 1)}
        expected = brute_ratio(channel, lambda a, b: (a, b) in pairs or (b, a) in pairs)
        assert channel.ratio(pairs) == expected

    @given(channels())
    def test_epsilon_is_the_least_decimal_float_above_the_logarithm(self, channel):
        ratio, epsilon = channel.ratio("all"), channel.epsilon("all")
        if ratio == math.inf:
            assert epsilon == math.inf
        elif ratio == 1:
            assert epsilon == 0
        else:
            assert Fraction(str(epsilon)) >= log_down(ratio, 192)
            assert Fraction(str(math.nextafter(epsilon, 0))) < log_up(ratio, 192)

    @given(channels(), st.sampled_from(["all", "line"]))
    def test_float_and_exact_agree(self, channel, neighbors):
        assert channel.as_float().epsilon(neighbors) == pytest.approx(channel.epsilon(neighbors), abs=1e-14)
        assert channel.as_float().ratio(neighbors) == pytest.approx(float(channel.ratio(neighbors)), rel=1e-14)

    def test_the_witness_says_why(self):
        channel = Channel([["1/2", "1/2", 0], ["1/2", "1/4", "1/4"]], inputs=["a", "b"], outputs=["x", "y", "z"])
        found = channel.worst("all")
        assert (found.input, found.neighbor, found.output) == ("b", "a", "z")
        assert str(found) == "output 'z' has probability 0.25 for input 'b' and 0 for its neighbor 'a'"
        assert uniform("ab", "xyz").worst("all") is None

    @given(channels())
    def test_the_witness_attains_the_ratio(self, channel):
        found = channel.worst("all")
        if found is None:
            assert channel.epsilon("all") == 0
        else:
            p, q = (channel.probability(x, found.output) for x in (found.input, found.neighbor))
            assert (p, q) == (found.probability, found.neighbor_probability)
            assert channel.ratio("all") == (p / q if q else math.inf)

    def test_one_input_reveals_nothing(self):
        assert Channel([["1/3", "2/3"]]).epsilon("all") == 0
        assert Channel([["1/3", "2/3"]]).epsilon("line") == 0

    def test_an_output_that_never_happens_is_no_leak(self):
        assert Channel([[0, "1/2", "1/2"], [0, "1/4", "3/4"]]).ratio("all") == 2
        assert Channel([[0, 0.5, 0.5], [0, 0.25, 0.75]]).ratio("all") == 2

    def test_tiny_float_probabilities_do_not_overflow_to_infinity(self):
        channel = Channel([[1.0, 5e-324], [0.5, 0.5]])
        assert channel.epsilon("all") == pytest.approx(math.log(0.5) - math.log(5e-324))
        assert channel.epsilon([(0, 1)]) == channel.epsilon("all")
        assert channel.d_privacy("discrete") == channel.epsilon("all")
        assert channel.epsilon("all", delta="0.1") == math.inf  # e^743 is no float
        assert channel.epsilon("all", delta="0.5") == 0

    def test_one_ulp_is_seen(self):
        channel = Channel([[0.5, 0.5], [math.nextafter(0.5, 1), 0.5]])
        assert 0 < channel.epsilon("all") <= 2.3e-16

    def test_denominators_without_a_common_multiple_of_reasonable_size(self):
        primes = [p for p in range(2, 25_000) if all(p % q for q in range(2, math.isqrt(p) + 1))]
        rows = [[Fraction(1, p), 1 - Fraction(1, p)] for p in primes]
        channel = Channel(rows)
        assert channel.ratio("all") == Fraction(primes[-1], 2)
        assert channel.delta(0, [(0, 1)]) == pytest.approx(1 / 6)


class TestDelta:
    @settings(max_examples=60)
    @given(channels(), st.sampled_from(["0", "1/10", "1", "2"]), st.sampled_from(["all", "line"]))
    def test_delta_is_the_worst_subset(self, channel, epsilon, name):
        neighbors, near = GRAPHS[name]
        low, high = (brute_delta(channel, bound(Fraction(epsilon)), near) for bound in (exp_up, exp_down))
        got = channel.delta(epsilon, neighbors)
        assert low <= Fraction(str(got)) <= high + Fraction(1, 2**52)
        assert channel.as_float().delta(epsilon, neighbors) == pytest.approx(got, abs=1e-14)

    @given(channels())
    def test_the_curve_falls_to_nothing_at_epsilon(self, channel):
        epsilon = channel.epsilon("all")
        points = channel.curve("all")
        assert [e for e, _ in points] == sorted(e for e, _ in points)
        assert all(a >= b for (_, a), (_, b) in pairwise(points))
        if epsilon < math.inf:
            assert channel.delta(epsilon, "all") == 0
            assert points[-1] == (pytest.approx(epsilon), pytest.approx(0, abs=1e-15))
        else:
            assert channel.delta(30, "all") > 0

    @settings(max_examples=60)
    @given(channels(), st.fractions(0, 1, max_denominator=20), st.sampled_from(["all", "line"]))
    def test_epsilon_at_delta_is_the_inverse_of_delta(self, channel, delta, neighbors):
        epsilon = channel.epsilon(neighbors, delta=delta)
        assert epsilon <= channel.epsilon(neighbors)
        assert channel.as_float().epsilon(neighbors, delta=delta) == pytest.approx(epsilon, abs=1e-9)
        if epsilon == math.inf:
            assert channel.delta(300, neighbors) > delta
        else:
            assert Fraction(str(channel.delta(epsilon, neighbors))) <= delta + Fraction(1, 2**50)
        if 0 < epsilon < math.inf:
            less = Fraction(str(epsilon)) * (1 - Fraction(1, 10**9))
            assert Fraction(channel.delta(less, neighbors)) > delta

    @pytest.mark.parametrize("epsilon", [-1, math.nan, math.inf, "x", True, None, 1e9])
    def test_bad_epsilon(self, epsilon):
        with pytest.raises(InvalidParameter, match="epsilon"):
            Channel(COIN).delta(epsilon, "all")

    @pytest.mark.parametrize("delta", [-0.1, 1.1, math.nan, "x", True])
    def test_bad_delta(self, delta):
        with pytest.raises(InvalidParameter, match="delta"):
            Channel(COIN).epsilon("all", delta=delta)


class TestDPrivacy:
    @settings(max_examples=60)
    @given(channels(least=0), st.data())
    def test_every_metric_against_brute_force(self, channel, data):
        n = len(channel.inputs)
        values = [0, 1, Fraction(1, 3), 2.5, math.inf]
        d = [[0] * n for _ in range(n)]
        for i, j in combinations(range(n), 2):
            d[i][j] = d[j][i] = data.draw(st.sampled_from(values))
        expected = 0.0
        for i in range(n):
            for j in range(n):
                pair = brute_ratio(channel, lambda a, b, i=i, j=j: (a, b) == (i, j))
                if i == j or d[i][j] == math.inf or pair == 1:
                    continue
                gap = math.inf if pair == math.inf or d[i][j] == 0 else math.log(pair) / d[i][j]
                expected = max(expected, gap)
        for candidate in (channel, channel.as_float()):
            assert candidate.d_privacy(d) == pytest.approx(expected, rel=1e-12)

    @given(channels())
    def test_it_contains_local_privacy_and_the_line(self, channel):
        assert channel.d_privacy("discrete") == channel.epsilon("all")
        assert channel.d_privacy("line") == channel.epsilon("line")

    @pytest.mark.parametrize(
        ("metric", "message"),
        [
            ("euclid", "expected 'discrete', 'line'"),
            ([[0, 1]], "expected 2×2"),
            ([[0, 1, 2], [1, 0, 3]], "expected 2×2"),
            (5, "expected 2×2"),
            ([[0, -1], [-1, 0]], "got -1.0"),
            ([[0, "-1"], ["-1", 0]], "got -1"),
            ([[0, math.nan], [math.nan, 0]], "got nan"),
            ([[0, 1], [2, 0]], "differs from the way back"),
            ([[1, 1], [1, 0]], "at a distance from itself"),
            (lambda a, b: a != b, "True and False are not numbers"),
            (lambda a, b: "far", "distance from"),
        ],
    )
    def test_bad_metrics(self, metric, message):
        for channel in (Channel(COIN), Channel(COIN).as_float()):
            with pytest.raises(InvalidChannel, match=message):
                channel.d_privacy(metric)

    def test_hamming_needs_one_size(self):
        assert hamming("abc", "axc") == 1
        with pytest.raises(InvalidChannel, match="2 and 3 records"):
            hamming("ab", "abc")

    def test_a_numpy_metric(self):
        assert distances(np.array([[0, 2], [2, 0]]), ("a", "b"))[0, 1] == 2


class TestNeighbors:
    @pytest.mark.parametrize(
        ("neighbors", "message"),
        [
            ("ring", "expected 'all', 'line'"),
            ([("yes", "maybe")], "unknown input in the neighbors 'maybe'"),
            ([("yes", "ye")], "did you mean 'yes'"),
            ([("yes", "yes")], "'yes' is paired with itself"),
            ([("yes",)], "expected a pair of inputs"),
            (["yes", "no"], "expected a pair of inputs"),
            ([], "there are none"),
            (lambda a, b: False, "there are none"),
            (3, "got a int"),
            ([(["yes"], "no")], "unknown input in the neighbors"),
        ],
    )
    def test_bad_neighbors(self, neighbors, message):
        with pytest.raises(InvalidChannel, match=message):
            Channel(COIN, inputs=["yes", "no"]).epsilon(neighbors)

    def test_labels_match_by_text_where_that_is_unique(self):
        assert graph([("50", "51")], (50, 51, 52)).of(0).tolist() == [1]
        assert graph([(50, 51)], ("50", "51")).of(0).tolist() == [1]
        with pytest.raises(InvalidChannel, match="unknown input"):
            graph([(1.5, "b")], ("a", "b"))

    def test_a_relation_stated_one_way_holds_both_ways(self):
        assert list(graph(lambda a, b: a < b, (0, 1)).pairs()) == [(0, 1), (1, 0)]


class TestAlgebra:
    @settings(max_examples=60)
    @given(channels(outputs=3), channels(inputs=3), st.sampled_from(["0", "1/2", "1"]))
    def test_post_processing_never_raises_epsilon_or_delta(self, channel, post, epsilon):
        after = channel.then(post)
        assert after.ratio("all") <= channel.ratio("all")
        assert after.delta(epsilon, "all") <= channel.delta(epsilon, "all")
        assert after.matrix.sum(axis=1).tolist() == [1] * len(after.inputs)
        np.testing.assert_allclose(channel.as_float().then(post).matrix, after.matrix.astype(float), atol=1e-15)

    @settings(max_examples=60)
    @given(channels(inputs=3), channels(inputs=3))
    def test_composition_adds_at_most(self, a, b):
        both = a.compose(b)
        assert both.ratio("all") <= a.ratio("all") * b.ratio("all")
        for x, y in combinations(range(3), 2):
            pair = [(x, y)]
            apart = [brute_ratio(c, lambda p, q, x=x, y=y: (p, q) == (x, y)) for c in (a, b)]
            back = [brute_ratio(c, lambda p, q, x=x, y=y: (p, q) == (y, x)) for c in (a, b)]
            assert both.ratio(pair) == max(math.prod(apart), math.prod(back))
        assert both.merge(lambda zw: zw[0]).matrix.tolist() == a.matrix.tolist()

    @settings(max_examples=40)
    @given(channels(inputs=2, outputs=2), channels(inputs=3, outputs=2))
    def test_products_cost_the_maximum_when_one_side_changes(self, a, b):
        one_side = lambda p, q: (p[0] == q[0]) != (p[1] == q[1])  # noqa: E731
        assert a.product(b).ratio(one_side) == max(a.ratio("all"), b.ratio("all"))
        assert a.product(b).ratio("all") <= a.ratio("all") * b.ratio("all")

    @given(channels(inputs=2, outputs=3), channels(inputs=2, outputs=3), st.fractions(0, 1, max_denominator=10))
    def test_mixtures_are_no_worse_than_both(self, a, b, weight):
        mixed = a.mix(b, weight=weight)
        assert mixed.ratio("all") <= max(a.ratio("all"), b.ratio("all"))
        assert (mixed.matrix == a.matrix * (1 - weight) + b.matrix * weight).all()

    def test_labels_are_matched_by_name_not_by_place(self):
        a = Channel([["1/4", "3/4"]], outputs=["x", "y"])
        b = Channel([[0, 1], [1, 0]], inputs=["y", "x"], outputs=["p", "q"])
        assert a.then(b).probability(0, "p") == Fraction(3, 4) * 0 + Fraction(1, 4) * 1
        c = Channel([["1/2", "1/2"], [0, 1]], inputs=["s", "t"])
        assert c.compose(c.restrict(["t", "s"])).probability("t", (1, 1)) == 1

    def test_what_does_not_fit_is_refused(self):
        coin = Channel(COIN)
        with pytest.raises(InvalidChannel, match="unknown input of the second channel"):
            coin.then(identity(["a", "b"]))
        with pytest.raises(InvalidChannel, match="unknown input of the second channel"):
            coin.compose(Channel([[1]], inputs=["a"]))
        with pytest.raises(InvalidChannel, match="the outputs differ"):
            coin.mix(uniform([0, 1], [0, 1, 2]), weight="1/2")
        with pytest.raises(InvalidChannel, match="no inputs"):
            coin.restrict([])
        with pytest.raises(InvalidChannel, match="appears twice"):
            coin.restrict([0, 0])
        big = Channel(np.full((1000, 1000), 0.001))
        with pytest.raises(InvalidChannel, match="1000 × 1000 × 1000"):
            big.compose(big)
        for weight in (-1, 2, math.nan):
            with pytest.raises(InvalidParameter, match="weight"):
                coin.mix(coin, weight=weight)

    def test_small_constructors(self):
        assert identity("ab").epsilon("all") == math.inf
        assert constant("ab", 7).outputs == (7,)
        assert uniform("abc", "xy").epsilon("all") == 0
        assert deterministic(len, ["a", "bb", "cc"]).outputs == (1, 2)
        with pytest.raises(InvalidChannel, match="unknown output 3"):
            deterministic(len, ["aaa"], [1, 2])
        for empty in (
            lambda: identity([]),
            lambda: constant([], 1),
            lambda: uniform([], [1]),
            lambda: uniform([1], []),
        ):
            with pytest.raises(InvalidInput):
                empty()

    def test_unknown_labels(self):
        with pytest.raises(InvalidChannel, match="unknown output 'w'; expected one of '0', '1'"):
            Channel(COIN).probability(0, "w")


class TestLargeChannels:
    def test_a_million_float_entries_need_no_billion_temporaries(self):
        weights = 1 + np.arange(1_000_000, dtype=float).reshape(1000, 1000) * 0.618 % 1
        tracemalloc.start()
        channel = Channel(weights / weights.sum(axis=1, keepdims=True))
        assert 0 < channel.epsilon("all") < 1
        assert channel.epsilon("line") <= channel.epsilon("all")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 200e6

    def test_exact_201_by_201(self):
        growth = exp_down(Fraction(1))
        rows = [[(growth if x == z else 1) / (200 + growth) for z in range(201)] for x in range(201)]
        channel = Channel(rows)
        assert channel.ratio("all") == channel.ratio("line") == growth
