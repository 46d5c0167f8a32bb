"""Optimal mechanisms: private exactly, and as good as the solver says."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.errors import InternalError, InvalidChannel, InvalidParameter
from discreet.exact import exp_down, exp_up
from discreet.mechanisms import optimal as optimal_module
from discreet.mechanisms.bayesian import expected_loss, remap, spread_priors
from discreet.mechanisms.channel import Channel
from discreet.mechanisms.neighbor_graph import Graph, graph
from discreet.mechanisms.optimal import certified, geometric_channel, minimax, optimum, solve, universal_gap


def absolute(y, z):
    return abs(y - z)


def wrong(y, z):
    return int(y != z)


GRAPHS = ["all", "line", lambda a, b: abs(a - b) <= 2, [(0, 1), (0, 2)]]


class TestOptimum:
    @settings(max_examples=40, deadline=None)
    @given(
        st.lists(st.integers(0, 9), min_size=3, max_size=5).filter(any),
        st.sampled_from([absolute, wrong, lambda y, z: (y - z) ** 2, lambda y, z: y * z - 2 * z]),
        st.sampled_from(["0", "0.001", "0.1", "1", "3", "20"]),
        st.sampled_from(GRAPHS),
    )
    def test_it_is_private_in_rationals_and_close_to_the_solver(self, weights, loss, epsilon, neighbors):
        prior = [Fraction(w, sum(weights)) for w in weights]
        found = optimum(prior=prior, loss=loss, epsilon=epsilon, neighbors=neighbors)
        assert found.channel.exact
        assert found.channel.ratio(neighbors) <= exp_down(Fraction(epsilon))
        assert found.value == expected_loss(found.channel, prior, loss)
        assert -1e-8 < found.gap < 1e-6

    @pytest.mark.parametrize("epsilon", ["0.1", "1", "4"])
    def test_two_inputs_are_randomized_response(self, epsilon):
        found = optimum(prior="uniform", loss=wrong, epsilon=epsilon, neighbors="all", inputs=["yes", "no"])
        assert found.lp_value == pytest.approx(1 / (1 + math.exp(float(epsilon))), abs=1e-9)

    def test_no_privacy_budget_means_the_best_constant(self):
        best = optimum(prior=["1/5", "1/5", "3/5"], loss=absolute, epsilon=0, neighbors="line").channel
        assert best.matrix.tolist() == [[0, 0, 1]] * 3

    def test_unconnected_inputs_need_not_look_alike(self):
        found = optimum(prior=["1/4"] * 4, loss=absolute, epsilon=0, neighbors=[(0, 1), (2, 3)])
        assert found.channel.ratio([(0, 1), (2, 3)]) == 1
        assert found.value == pytest.approx(0.5)

    @settings(max_examples=15, deadline=None)
    @given(st.lists(st.integers(1, 9), min_size=4, max_size=4), st.sampled_from([absolute, wrong]))
    def test_no_known_mechanism_is_better(self, weights, loss):
        prior = [Fraction(w, sum(weights)) for w in weights]
        best = optimum(prior=prior, loss=loss, epsilon=1, neighbors="all").lp_value
        growth = exp_down(Fraction(1))
        flat = Channel([[growth if y == z else 1 for z in range(4)] for y in range(4)], normalize=True)
        assert best <= float(expected_loss(flat.then(remap(flat, prior=prior, loss=loss)), prior, loss)) + 1e-9

    def test_labels_and_outputs(self):
        found = optimum(prior={"a": "1/2", "b": "1/2"}, loss=[[0, 1, 1], [1, 0, 1]], epsilon=1, neighbors="all")
        assert (found.channel.inputs, found.channel.outputs) == (("a", "b"), (0, 1, 2))
        assert found.channel.matrix[:, 2].tolist() == [0, 0]
        named = optimum(
            prior="uniform", loss=absolute, epsilon=1, neighbors="line", inputs=range(3), outputs=[0, 1, 2, 3]
        ).channel
        assert named.outputs == (0, 1, 2, 3)

    def test_float_priors_and_losses(self):
        found = optimum(prior=[0.3, 0.7], loss=lambda y, z: 1.5 * (y != z), epsilon=1, neighbors="all")
        assert found.channel.ratio("all") <= exp_down(Fraction(1))
        assert isinstance(found.value, float)
        assert abs(found.gap) < 1e-8

    @pytest.mark.parametrize("scale", [1e-9, 1e9])
    def test_the_scale_of_the_loss_does_not_matter(self, scale):
        base = optimum(prior=["1/2", "1/2"], loss=wrong, epsilon=1, neighbors="all")
        found = optimum(prior=["1/2", "1/2"], loss=lambda y, z: scale * (y != z), epsilon=1, neighbors="all")
        assert found.lp_value / scale == pytest.approx(base.lp_value)

    def test_a_loss_of_nothing(self):
        assert optimum(prior=["1/2", "1/2"], loss=lambda y, z: 0, epsilon=1, neighbors="all").value == 0

    @pytest.mark.parametrize("epsilon", [-1, math.nan, math.inf, "x", True, 1000])
    def test_bad_epsilon(self, epsilon):
        with pytest.raises(InvalidParameter, match="epsilon"):
            optimum(prior=["1/2", "1/2"], loss=wrong, epsilon=epsilon, neighbors="all")

    def test_what_does_not_fit(self):
        with pytest.raises(InvalidChannel, match="name them, or give a prior that names them"):
            optimum(prior="uniform", loss=wrong, epsilon=1, neighbors="all")
        with pytest.raises(InvalidChannel, match="there are none"):
            optimum(prior=[], loss=wrong, epsilon=1, neighbors="all")
        with pytest.raises(InvalidChannel, match="expected 3"):
            optimum(prior=["1/2", "1/2"], loss=wrong, epsilon=1, neighbors="all", inputs=range(3))
        with pytest.raises(InvalidChannel, match="loss"):
            optimum(prior=["1/2", "1/2"], loss=lambda y, z: math.inf, epsilon=1, neighbors="all")
        with pytest.raises(InvalidParameter, match=r"expected at most 250,000 variables"):
            optimum(prior="uniform", loss=wrong, epsilon=1, neighbors="all", inputs=range(600))


class TestCertificate:
    @settings(max_examples=60)
    @given(st.integers(0, 10**6), st.sampled_from(["0", "1e-6", "0.1", "1", "10", "60"]), st.sampled_from(GRAPHS[:3]))
    def test_any_answer_of_a_solver_becomes_private(self, seed, epsilon, neighbors):
        rng = np.random.default_rng(seed)
        raw = np.where(rng.random((4, 5)) < 0.4, 0, rng.random((4, 5)))
        raw[:, 0] += 0.1
        raw = raw / raw.sum(axis=1, keepdims=True) + rng.normal(0, 1e-10, raw.shape)
        near = graph(neighbors, tuple(range(4)))
        channel = certified(raw, near, Fraction(epsilon), tuple(range(4)), tuple(range(5)))
        assert channel.ratio(neighbors) <= exp_down(Fraction(epsilon))

    def test_what_is_private_already_is_hardly_changed(self):
        raw = geometric_channel(6, 2).as_float().matrix
        channel = certified(raw, graph("line", tuple(range(7))), Fraction(2), tuple(range(7)), tuple(range(7)))
        assert np.abs(channel.matrix.astype(float) - raw).max() < 1e-14

    def test_raw_answers_break_epsilon_and_repaired_ones_do_not(self):
        raw = np.array([[0.5, 0.5, 0.0], [0.4, 0.6 - 1e-8, 1e-8]])
        assert Channel(raw).epsilon("all") == math.inf
        channel = certified(raw, Graph(2, None), Fraction(1), (0, 1), (0, 1, 2))
        assert 0.999999 < channel.epsilon("all") <= 1
        assert np.abs(channel.matrix.astype(float) - raw).max() < 2e-8

    def test_the_solver_itself_breaks_epsilon_and_the_optimum_does_not(self):
        inputs = tuple(range(31))
        cost = np.array([[abs(y - z) / 31 for z in inputs] for y in inputs])
        raw = solve(cost, graph("line", inputs), Fraction(1)).channel
        assert Channel(np.maximum(raw, 0), normalize=True).epsilon("line") > 1
        found = optimum(prior="uniform", loss=absolute, epsilon=1, neighbors="line", inputs=inputs)
        assert found.channel.epsilon("line") <= 1
        assert found.gap < 1e-6

    def test_a_repair_that_fails_is_not_returned(self, monkeypatch):
        """If the masses were computed wrongly, the last check finds it."""
        monkeypatch.setattr(optimal_module, "least_of_neighbors", lambda units, near: units)
        raw = np.array([[0.9, 0.1], [0.1, 0.9]])
        with pytest.raises(InternalError, match="does not satisfy its ε"):
            certified(raw, Graph(2, None), Fraction(1), (0, 1), (0, 1))

    @pytest.mark.parametrize("raw", [[[math.nan, 1], [1, 0]], [[0, 0], [1, 0]], [[2, 3], [1, 0]]])
    def test_nonsense_is_an_internal_error(self, raw):
        with pytest.raises(InternalError, match="not close to a stochastic matrix"):
            certified(np.array(raw, float), Graph(2, None), Fraction(1), (0, 1), (0, 1))


class TestBound:
    """`bound` is below what any private channel loses, also where the solver's value is not, and close to it."""

    @settings(max_examples=60)
    @given(
        st.integers(0, 10**6),
        st.sampled_from(["0", "1e-6", "0.1", "1", "10", "30", "60", "100"]),
        st.sampled_from(GRAPHS[:3]),
    )
    def test_no_private_channel_loses_less(self, seed, epsilon, neighbors):
        rng = np.random.default_rng(seed)
        inputs = tuple(range(4))
        loss = [[Fraction(int(v), 7) for v in row] for row in rng.integers(-20, 20, (4, 4))]
        prior = [Fraction(int(v), 1) for v in rng.integers(1, 9, 4)]
        prior = [p / sum(prior) for p in prior]
        found = optimum(prior=prior, loss=loss, epsilon=epsilon, neighbors=neighbors)
        near = graph(neighbors, inputs)
        worst = minimax(loss=loss, epsilon=epsilon, neighbors=neighbors, inputs=inputs)
        for _ in range(5):
            raw = rng.dirichlet(np.full(4, 0.3), 4)
            other = certified(raw, near, Fraction(epsilon), inputs, inputs)
            assert found.bound <= expected_loss(other, prior, loss)
            rows = [sum(p * c for p, c in zip(other.matrix[x], loss[x], strict=True)) for x in inputs]
            assert worst.bound <= max(rows)
        for each in (found, worst):
            assert each.bound <= each.value
            assert each.gap == pytest.approx(float(each.value - Fraction(each.bound)), rel=1e-9, abs=1e-300)
            assert each.gap < 1e-6  # the largest loss is 3

    @pytest.mark.parametrize("epsilon", ["1", "10", "30", "60", "100"])
    def test_the_gap_covers_what_the_geometric_mechanism_does_better(self, epsilon):
        """At ε = 60 the repaired channel loses more than this one does, which the solver's value, 0, did not tell."""
        best = optimum(prior="uniform", loss=absolute, epsilon=epsilon, neighbors="line", inputs=range(4))
        other = geometric_channel(3, epsilon)
        loses = expected_loss(other, "uniform", absolute)
        assert Fraction(best.bound) <= loses
        assert best.value - loses <= Fraction(best.gap)

    def test_a_bound_is_no_claim_of_the_solver(self):
        """Multipliers that are wrong, or all zero, give a bound that is lower, never one that is not true."""
        objective = np.array([[0.0, 0.5], [0.5, 0.0]])
        below = optimal_module._private(Graph(2, None), 0.36, 2)
        rng = np.random.default_rng(1)
        for pairs in [np.zeros(below.shape[0]), *rng.exponential(size=(50, below.shape[0]))]:
            assert optimal_module._dual_bound(objective, np.ones(2), pairs, below) <= 0.36 / 1.36


class TestGeometric:
    @pytest.mark.parametrize("n", [1, 2, 7])
    @pytest.mark.parametrize("epsilon", ["0.01", "1", "30"])
    def test_rows_sum_to_one_and_the_ratio_is_within_epsilon(self, n, epsilon):
        channel = geometric_channel(n, epsilon)
        assert channel.matrix.sum(axis=1).tolist() == [1] * (n + 1)
        allowed = exp_up(Fraction(epsilon))
        assert allowed * (1 - Fraction(1, 2**60)) < channel.ratio("line") <= allowed
        assert channel.epsilon("line") <= float(epsilon)

    def test_it_is_noise_then_clamping(self):
        alpha, n, y = math.exp(-0.5), 5, 2
        mass = [0.0] * (n + 1)
        for k in range(-400, 401):
            mass[min(max(y + k, 0), n)] += (1 - alpha) / (1 + alpha) * alpha ** abs(k)
        np.testing.assert_allclose(geometric_channel(n, "0.5").as_float().matrix[y], mass, rtol=1e-12)

    def test_no_budget(self):
        assert geometric_channel(3, 0).matrix.tolist() == [[Fraction(1, 2), 0, 0, Fraction(1, 2)]] * 4

    @pytest.mark.parametrize(
        ("n", "epsilon"), [(0, 1), (-1, 1), (True, 1), (10**6, 1), (3, -1), (3, math.nan), (2.5, 1)]
    )
    def test_bad_input(self, n, epsilon):
        with pytest.raises(InvalidParameter):
            geometric_channel(n, epsilon)


class TestMinimax:
    @pytest.mark.parametrize("neighbors", ["all", "line"])
    def test_it_is_the_worst_of_the_bayesian_optima(self, neighbors):
        """Weak duality: no prior's optimum exceeds the minimax value; some prior comes close to it."""
        found = minimax(loss=absolute, epsilon=1, neighbors=neighbors, inputs=range(4))
        assert found.channel.ratio(neighbors) <= exp_down(Fraction(1))
        assert abs(found.gap) < 1e-8
        values = [
            optimum(prior=prior, loss=absolute, epsilon=1, neighbors=neighbors).lp_value
            for prior in spread_priors(4, count=60)
        ]
        assert max(values) <= found.lp_value + 1e-9
        assert max(values) > 0.9 * found.lp_value

    def test_rows_are_balanced(self):
        found = minimax(loss=wrong, epsilon=1, neighbors="all", inputs=range(3))
        losses = [float(1 - found.channel.probability(y, y)) for y in range(3)]
        assert losses == pytest.approx([2 / (2 + math.e)] * 3)


class TestUniversal:
    def test_one_user_or_equal_users_lose_nothing(self):
        user = (["1/6", "1/3", "1/2"], absolute)
        for users in ([user], [user, user]):
            found = universal_gap(epsilon=1, neighbors="all", users=users, inputs=range(3))
            assert abs(found.gap) < 1e-9

    def test_the_shared_program_is_never_below_the_separate_ones(self):
        for prior in spread_priors(3, count=5):
            users = [("uniform", wrong), (prior, absolute)]
            found = universal_gap(epsilon=1, neighbors="all", users=users, inputs=range(3))
            assert found.gap > -1e-9

    def test_bad_input(self):
        with pytest.raises(InvalidParameter, match="users"):
            universal_gap(epsilon=1, neighbors="all", users=[], inputs=range(3))
        with pytest.raises(InvalidParameter, match="250,000 variables"):
            universal_gap(epsilon=1, neighbors="all", users=[("uniform", wrong)] * 12, inputs=range(4))
