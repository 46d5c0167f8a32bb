"""Whole rounds: whoever leaves, the sum is exact, or there is none."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.learning.federated.conftest import IDENTITIES, make_terms

from discreet.errors import InvalidParameter, ReleaseFailed
from discreet.learning.federated import GaussianShare, PolyaShare, simulate_round
from discreet.learning.federated.messages import PHASES

KINDS = [phase.kind for phase in PHASES]


def inputs(terms):
    return {name: [place + 1, -(10**place), terms.bound] for place, name in enumerate(terms.names)}


def patterns(names, most):
    for count in range(most + 1):
        for gone in itertools.combinations(names, count):
            for kinds in itertools.product(KINDS, repeat=count):
                yield dict(zip(gone, kinds, strict=True))


@pytest.mark.slow
def test_every_pattern_of_leaving_up_to_the_threshold():
    """Five clients, threshold three: 276 rounds, each client and pair of clients leaving at every phase."""
    terms = make_terms(5, 3, bound=10**5)
    values = inputs(terms)
    seen = 0
    for leaving in patterns(terms.names, 2):
        total = simulate_round(terms, IDENTITIES, values, leaving=leaving)
        early = {name for name, kind in leaving.items() if KINDS.index(kind) <= 2}
        assert total.clients == tuple(name for name in terms.names if name not in early)
        assert total.values.tolist() == np.sum([values[name] for name in total.clients], axis=0).tolist()
        assert {refusal.client for refusal in total.refusals} == set(leaving)
        seen += 1
    assert seen == 1 + 5 * 5 + 10 * 25


@pytest.mark.parametrize("kinds", list(itertools.combinations_with_replacement(KINDS, 3)), ids="-".join)
def test_below_the_threshold_there_is_no_sum(kinds):
    terms = make_terms(5, 3, bound=10**5)
    leaving = dict(zip("bde", kinds, strict=True))
    with pytest.raises(ReleaseFailed, match="the round was abandoned: 2 clients sent a valid") as caught:
        simulate_round(terms, IDENTITIES, inputs(terms), leaving=leaving)
    assert f"valid {kinds[-1]}, 3 are needed" in str(caught.value)
    assert "b, d, e" in str(caught.value)


@settings(max_examples=40)
@given(st.data())
def test_any_parties_values_and_leavers(data):
    count = data.draw(st.integers(2, 6))
    threshold = data.draw(st.integers(max(2, count // 2 + 1), count))
    length, bound = data.draw(st.integers(1, 5)), data.draw(st.sampled_from([0, 1, 7, 2**31, 2**59]))
    terms = make_terms(count, threshold, length=length, bound=bound)
    numbers = st.lists(st.integers(-bound, bound), min_size=length, max_size=length)
    values = {name: data.draw(numbers) for name in terms.names}
    leaving = data.draw(st.dictionaries(st.sampled_from(terms.names), st.sampled_from(KINDS)))
    if count - len(leaving) < threshold:
        with pytest.raises(ReleaseFailed, match="abandoned"):
            simulate_round(terms, IDENTITIES, values, leaving=leaving)
        return
    total = simulate_round(terms, IDENTITIES, values, leaving=leaving)
    assert total.values.tolist() == [sum(values[name][i] for name in total.clients) for i in range(length)]


def test_extreme_sums_do_not_wrap():
    for bound in (5, 2**28, 2**60):
        terms = make_terms(4, 3, length=2, bound=bound)
        total = simulate_round(terms, IDENTITIES, {name: [bound, -bound] for name in terms.names})
        assert total.values.tolist() == [4 * bound, -4 * bound]


@pytest.mark.parametrize(
    "wrong",
    [
        [float("nan")] * 3,
        [0.5, 0, 0],
        [0, 0],
        [[0, 0, 0]],
        [1001, 0, 0],
        [0, -1001, 0],
        [True] * 3,
        "abc",
        [None] * 3,
        [[1], [1, 2], 3],
        [2**80, 0, 0],
    ],
)
def test_a_client_with_unusable_values_is_left_out_and_the_round_goes_on(wrong):
    terms = make_terms(3, 2)
    total = simulate_round(terms, IDENTITIES, {"a": [1, 2, 3], "b": wrong, "c": [10, 20, 30]})
    assert total.values.tolist() == [11, 22, 33]
    assert [(refusal.client, refusal.phase) for refusal in total.refusals] == [("b", "masked")]


def test_masked_vectors_look_different_each_time():
    terms = make_terms(2, 2)
    seen = []
    for _ in range(2):
        simulate_round(
            terms, IDENTITIES, {"a": [1, 2, 3], "b": [4, 5, 6]}, wire=lambda _, data: seen.append(data) or data
        )
    assert len(set(seen)) == len(seen)


@pytest.mark.parametrize(
    "noise",
    [
        GaussianShare(sigma=50, honest=3, sensitivity=1, dimension=20_000),
        PolyaShare(epsilon="0.02", honest=3, sensitivity=1),
    ],
    ids=["gaussian", "polya"],
)
def test_noise_is_in_the_sum_of_all_who_stay(noise):
    """The variance of the sum's noise, within 7 % (six deviations of its estimate are less)."""
    terms = make_terms(5, 4, length=20_000, colluding=1, noise=noise)
    zeros = np.zeros(20_000, np.int64)
    total = simulate_round(terms, IDENTITIES, dict.fromkeys(terms.names, zeros), leaving={"b": "masked"})
    scale = 50.0
    each = scale**2 if isinstance(noise, GaussianShare) else 2 * scale**2 / 3
    limit = 0.07 if isinstance(noise, GaussianShare) else 0.12
    assert abs(np.var(total.values) / (4 * each) - 1) < limit
    assert np.abs(total.values).max() < noise.reach(5, 20_000)


def test_an_unknown_phase_is_refused():
    with pytest.raises(InvalidParameter, match="leaving"):
        simulate_round(make_terms(2, 2), IDENTITIES, {}, leaving={"a": "later"})
