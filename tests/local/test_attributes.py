"""Several attributes: the ε of the whole person through joint channels, unbiasedness, variances, bad input."""

from fractions import Fraction
from itertools import combinations
from math import sqrt

import numpy as np
import pytest
from tests.statistical.power import MANY, Stream, assert_frequency

from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import exp_bounds
from discreet.local import (
    KRR,
    HadamardResponse,
    OptimizedHashing,
    OptimizedUnary,
    SubsetSelection,
    SymmetricUnary,
)
from discreet.local.oracles.attributes import Sample, SampleWithFakes, Split, amplified
from discreet.privacy.loss import Pure

F = Fraction
KINDS = [Split, Sample, SampleWithFakes]
kinds = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
ORACLES = [KRR, SymmetricUnary, OptimizedUnary, HadamardResponse, SubsetSelection, OptimizedHashing]
oracles = pytest.mark.parametrize("oracle", ORACLES, ids=lambda oracle: oracle.__name__)


# --- privacy ----------------------------------------------------------------------------------------------------


@kinds
@pytest.mark.parametrize("epsilon", ["1/2", "1", "3"])
@pytest.mark.parametrize("sizes", [[2], [2, 3], [3, 3], [2, 2, 2]])
def test_the_joint_channel_has_the_stated_epsilon_and_no_less(kind, epsilon, sizes):
    both = kind(epsilon=epsilon, sizes=sizes, oracle=KRR)
    channel = both.channel()
    assert channel.exact
    assert len(channel.inputs) == np.prod(sizes)
    assert both.loss == Pure(epsilon)
    assert channel.ratio("all") * (1 << 256) <= exp_bounds(F(epsilon), 256)[0]
    assert float(F(epsilon)) - 1e-9 <= channel.epsilon("all") <= float(F(epsilon))


@kinds
@pytest.mark.parametrize("oracle", [SymmetricUnary, OptimizedUnary, HadamardResponse], ids=lambda o: o.__name__)
def test_other_oracles_are_as_private(kind, oracle):
    channel = kind(epsilon=1, sizes=[2, 3], oracle=[oracle, KRR]).channel()
    assert 1 - 1e-9 <= channel.epsilon("all") <= 1


def test_fakes_do_not_amplify_for_whole_persons():
    """Arcolezi et al. 2021 put ln(d(e^ε − 1) + 1) inside and claim ε. Between tuples that differ in one attribute, of
    equal sizes and with k-RR, that is so; between tuples that differ in all of them it is the inner ε that holds."""
    for sizes in ([2, 2], [3, 3], [2, 2, 2]):
        inside = amplified(1, len(sizes))
        channel = SampleWithFakes(epsilon=inside, sizes=sizes, oracle=KRR).channel()
        one = [p for p in combinations(channel.inputs, 2) if sum(a != b for a, b in zip(*p, strict=True)) == 1]
        assert channel.epsilon(one) == pytest.approx(1, abs=1e-9)
        assert channel.epsilon("all") == pytest.approx(float(inside), abs=1e-9)
        assert float(inside) > 1.4
    uneven = SampleWithFakes(epsilon=amplified(1, 2), sizes=[2, 5], oracle=KRR).channel()
    one = [p for p in combinations(uneven.inputs, 2) if sum(a != b for a, b in zip(*p, strict=True)) == 1]
    assert uneven.epsilon(one) > 1.01  # of unequal sizes not even that


def test_the_amplified_epsilon():
    assert float(amplified(1, 1)) == pytest.approx(1, abs=1e-12)
    assert amplified(1, 1) <= 1
    with pytest.raises(InvalidParameter):
        amplified(1, 0)


# --- estimates --------------------------------------------------------------------------------------------------


def all_rows(both):
    """Every report of a k-RR collection, in the order of the channel's outputs."""
    outputs = both.channel().outputs
    if isinstance(both, Sample):
        return np.array([[j, y] for j, y in outputs])
    return np.array(outputs)


@pytest.mark.parametrize("kind", [Split, SampleWithFakes], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("sizes", [[2, 3], [4, 2]])
def test_estimates_are_unbiased_exactly(kind, sizes):
    """Σ p(report | tuple)·estimate(report) is the indicator of the tuple's values: no sampling."""
    both = kind(epsilon=1, sizes=sizes, oracle=KRR)
    channel = both.channel()
    told = [both.estimate(both.tally([row]), reports=1) for row in all_rows(both)]
    for value, row in zip(channel.inputs, channel.matrix.astype(float), strict=True):
        for j, size in enumerate(sizes):
            mean = row @ np.array([each[j].shares for each in told])
            assert mean == pytest.approx(np.eye(size)[value[j]], abs=1e-9)


def test_fakes_have_the_stated_variance_exactly():
    """One person who has v, or not: the variance of one report's estimate, from the channel and from the formula."""
    both = SampleWithFakes(epsilon=1, sizes=[2, 3], oracle=KRR)
    channel = both.channel()
    told = np.array([both.estimate(both.tally([row]), reports=1)[1].shares for row in all_rows(both)])
    oracle, d, k = both.oracles[1], 2, 3
    fake = (d - 1) / d / k
    for value, row in zip(channel.inputs, channel.matrix.astype(float), strict=True):
        for v in range(k):
            has = value[1] == v
            about = fake + has / d
            stated = d**2 * (oracle.variance(about) + about * (1 - about))
            assert row @ told[:, v] ** 2 - has == pytest.approx(stated, rel=1e-9)


@kinds
@oracles
def test_shares_are_found_covered_and_their_variances_true(kind, oracle):
    """Limits at 1 − 1e-6, all values of both attributes; errors are within 5.5 of the stated deviations."""
    both, stream = kind(epsilon=2, sizes=[4, 70], oracle=oracle), Stream()
    people = np.stack([np.arange(20_000) % 3, np.arange(20_000) % 7], axis=1)
    reports = both.randomize(people, entropy=stream)
    assert both.valid(reports).all()
    found = both.estimate(both.tally(reports), reports=20_000)
    for j, shares in enumerate(found):
        truth = np.bincount(people[:, j], minlength=both.sizes[j]) / 20_000
        low, high = shares.interval("0.999999")
        assert ((low <= truth + 1e-12) & (truth <= high + 1e-12)).all(), stream
        assert (np.abs(shares.shares - truth) < 5.8 * np.sqrt(shares.variance)).all(), stream
        assert np.abs(shares.shares - truth).max() < 0.6


@kinds
def test_simulated_variances_are_as_stated(kind):
    """400 collections from 200 people, 3 + 4 values: mean squares with a spread of at most 7 %; 40 % is 5.5 of them."""
    both, stream = kind(epsilon=1, sizes=[3, 4], oracle=KRR), Stream()
    people = np.stack([np.arange(200) % 2, np.arange(200) % 4], axis=1)
    reports = both.randomize(np.tile(people, (400, 1)), entropy=stream).reshape(400, 200, -1)
    for j, size in enumerate(both.sizes):
        found = [both.estimate(both.tally(rows), reports=200)[j] for rows in reports]
        truth = np.bincount(people[:, j], minlength=size) / 200
        errors = np.array([shares.shares for shares in found]) - truth
        stated = np.mean([shares.variance for shares in found], axis=0)
        assert np.abs(errors.mean(axis=0)).max() < 5.5 * sqrt(stated.max() / 400), stream
        assert 0.6 < (errors**2).mean() / stated.mean() < 1.4, stream


@pytest.mark.parametrize("kind", [Sample, SampleWithFakes], ids=lambda kind: kind.__name__)
def test_the_choice_of_the_attribute_is_in_the_variance(kind):
    """At ε = 12 there is hardly any noise: what is left is who reported about what, and the fakes."""
    both, stream = kind(epsilon=12, sizes=[3, 4], oracle=KRR), Stream()
    people = np.stack([np.arange(200) % 2, np.arange(200) % 4], axis=1)
    reports = both.randomize(np.tile(people, (400, 1)), entropy=stream).reshape(400, 200, -1)
    found = [both.estimate(both.tally(rows), reports=200)[1] for rows in reports]
    errors = np.array([shares.shares for shares in found]) - 1 / 4
    stated = np.mean([shares.variance for shares in found], axis=0)
    assert 0.6 < (errors**2).mean() / stated.mean() < 1.4, stream
    assert stated.min() > 1e-4


def test_sampling_beats_splitting_for_many_attributes():
    sizes, people = [4] * 6, np.zeros((6000, 6), np.int64)
    errors = {}
    for kind in KINDS:
        both, stream = kind(epsilon=1, sizes=sizes, oracle=KRR), Stream()
        found = both.estimate(both.tally(both.randomize(people, entropy=stream)), reports=6000)
        errors[kind] = np.mean([shares.variance.mean() for shares in found])
    assert errors[Sample] < errors[Split]
    assert errors[Sample] < errors[SampleWithFakes]  # what hiding the attribute costs without amplification


def test_each_attribute_is_chosen_equally_often():
    one, stream = Sample(epsilon=1, sizes=[2, 2, 2], oracle=KRR), Stream()
    chosen = one.randomize(np.zeros((MANY, 3), np.int64), entropy=stream)[:, 0]
    for j in range(3):
        assert_frequency(chosen == j, 1 / 3, f"attribute {j}", stream, tests=3)


def test_fakes_are_uniform_and_true_reports_are_one_in_d():
    both, stream = SampleWithFakes(epsilon=20, sizes=[5, 4], oracle=KRR), Stream()  # hardly any noise
    reports = both.randomize(np.full((MANY, 2), 3), entropy=stream)
    assert_frequency(reports[:, 0] == 3, 1 / 2 + 1 / 10, "own value", stream, tests=3)
    assert_frequency(reports[:, 0] == 0, 1 / 10, "another", stream, tests=3)
    assert_frequency((reports == 3).all(axis=1), 1 / 10 + 1 / 8, "both", stream, tests=3)


# --- tallies and input ------------------------------------------------------------------------------------------


@kinds
@oracles
def test_tallies_add_up(kind, oracle):
    both, stream = kind(epsilon=1, sizes=[3, 66], oracle=oracle), Stream()
    reports = both.randomize(np.stack([np.arange(90) % 3, np.arange(90) % 66], axis=1), entropy=stream)
    parts = both.tally(reports[:40]) + both.tally(reports[40:])
    assert (parts == both.tally(reports)).all()
    assert both.tally(reports[:0]).sum() == 0
    assert both.randomize([]).shape[0] == 0


@kinds
def test_malformed_reports_are_told_apart(kind):
    both = kind(epsilon=1, sizes=[2, 3], oracle=KRR)
    good = both.randomize([[1, 2], [0, 0]]).tolist()
    rubbish = [*good, [0], [9, 0], [0, 9], [0, -1], None, "xy", [0.5, 0], [float("nan"), 1], [1, 2, 3], [[0], [0]]]
    assert both.valid(rubbish).tolist() == [True, True] + [False] * 10
    with pytest.raises(InvalidData, match="malformed"):
        both.tally(np.array([[0, 0], [9, 9]]))


def test_words_after_a_short_report_must_be_zero():
    one = Sample(epsilon=1, sizes=[2, 100], oracle=[KRR, OptimizedUnary])
    assert one.valid([[0, 1, 0], [0, 1, 1], [1, 1, 1], [1, 1, 1 << 40], [2, 0, 0], [0, 2, 0]]).tolist() == [
        True,
        False,
        True,
        False,
        False,
        False,
    ]


def test_attributes_that_nobody_reported_on_have_no_estimate():
    one = Sample(epsilon=1, sizes=[2, 3], oracle=KRR)
    first, second = one.estimate(one.tally([[0, 1]]), reports=1)
    assert first is not None
    assert second is None


@kinds
@pytest.mark.parametrize(
    "values",
    [[[0, 3]], [[-1, 0]], [[0]], [[0, 1, 2]], [[0.5, 1]], [["a", "b"]], [[0], [1, 2]], [[[0, 0]]], [[0, 2**63]]],
)
def test_bad_values_are_refused(kind, values):
    with pytest.raises(InvalidData, match="values"):
        kind(epsilon=1, sizes=[2, 3], oracle=KRR).randomize(values)


@kinds
@pytest.mark.parametrize(
    "change", [{"epsilon": 0}, {"sizes": []}, {"sizes": [2, 1]}, {"oracle": [KRR]}, {"epsilon": float("nan")}]
)
def test_bad_settings_are_refused(kind, change):
    with pytest.raises(InvalidParameter):
        kind(**{"epsilon": 1, "sizes": [2, 3], "oracle": KRR, **change})


@kinds
def test_bad_tallies_are_refused(kind):
    both = kind(epsilon=1, sizes=[2, 3], oracle=KRR)
    good = both.tally(both.randomize([[1, 2], [0, 0]]))
    for bad in (good[:-1], good * 1.0, good * -1, "x", [[1], [2, 3]]):
        with pytest.raises((InvalidData, InvalidParameter)):
            both.estimate(bad, reports=2)
    for count in (0, 1, 3, True):
        with pytest.raises((InvalidData, InvalidParameter)):
            both.estimate(good, reports=count)


@pytest.mark.parametrize("kind", [Split, Sample, SampleWithFakes])
@pytest.mark.parametrize("bad", [[1, None], [0, "x"], [0, float("nan")], [0, 2**70], [0], "x", None])
def test_one_malformed_row_does_not_spoil_the_others(kind, bad):
    people = kind(epsilon=1, sizes=[2, 3], oracle=KRR)
    good = people.randomize([[0, 1], [1, 2]]).tolist()
    assert people.valid([*good, bad]).tolist() == [True, True, False]
    assert people.tally(np.array(good, dtype=object)).tolist() == people.tally(good).tolist()


@pytest.mark.parametrize(
    ("name", "change"), [("sizes", {"sizes": 3}), ("sizes", {"sizes": "23"}), ("oracle", {"oracle": 3})]
)
def test_settings_of_the_wrong_kind_are_refused(name, change):
    with pytest.raises(InvalidParameter, match=name):
        Sample(**{"epsilon": 1, "sizes": [2, 3], "oracle": KRR, **change})
