"""What every frequency oracle promises, whatever its reports look like: one suite that all of them run.

An oracle is a frozen value with `randomize`, `valid`, `tally`, `estimate`, `variance`, `influence` and `channel`. To add
one, add a `Case`. On small domains nothing is sampled: the exact channel and the estimate of one report prove privacy,
unbiasedness and variance; the sampler is then held to the channel.
"""

import copy
import inspect
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, dataclass, fields
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from tests.conftest import Counting, stable
from tests.statistical.power import MANY, WRONG, Stream, assert_follows, assert_rejected

from discreet.errors import DiscreetError, InvalidData, InvalidParameter
from discreet.exact import exp_bounds
from discreet.local import (
    KRR,
    BinaryHashing,
    BinaryResponse,
    HadamardResponse,
    OptimizedHashing,
    OptimizedUnary,
    SubsetSelection,
    SymmetricUnary,
)
from discreet.local.oracles.oracle import sift
from discreet.mechanisms import RandomizedResponse
from discreet.noise import DeterministicEntropy
from discreet.privacy.loss import Pure

F = Fraction
EPSILONS = ["1/10", "1/2", "1", "2", "3"]


@dataclass(frozen=True)
class Case:
    """How to make an oracle of a given ε and size, and the row of words that is an output of its channel."""

    name: str
    make: Callable[..., Any]
    row: Callable[[Any, int], Any] = lambda output, size: output
    sizes: tuple[int, ...] = (2, 3, 5, 7)

    def reports(self, oracle: Any) -> np.ndarray:
        """All the reports that there are, in the order of the channel's outputs."""
        return np.array([self.row(output, oracle.size) for output in oracle.channel().outputs], np.int64)


def bits(output: Any, size: int) -> list[int]:
    return [output]


def members(output: Any, size: int) -> list[int]:
    return [sum(1 << value for value in output)]


CASES = (
    Case("binary", lambda epsilon, size: BinaryResponse(epsilon=epsilon), sizes=(2,)),
    Case("k-rr", KRR),
    Case("SUE", SymmetricUnary, bits),
    Case("OUE", OptimizedUnary, bits),
    Case("BLH", BinaryHashing),
    Case("OLH", OptimizedHashing),
    Case("OLH, 3 hashes", partial(OptimizedHashing, hashes=3)),
    Case("OLH, 8 hashes", partial(OptimizedHashing, hashes=8)),
    Case("Hadamard", HadamardResponse),
    Case("Hadamard, 2 blocks", partial(HadamardResponse, blocks=2)),
    Case("Hadamard, 4 blocks", partial(HadamardResponse, blocks=4), sizes=(5, 7)),
    Case("subset", SubsetSelection, members),
)
every = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def small(case: Case, epsilon: object = 1) -> Any:
    return case.make(epsilon=epsilon, size=case.sizes[-1])


# --- privacy, in rationals -------------------------------------------------------------------------------------


@every
@pytest.mark.parametrize("epsilon", [*EPSILONS, "1e-6", "10"])
def test_the_channel_has_the_stated_epsilon_and_no_less(case, epsilon):
    for size in case.sizes:
        oracle = case.make(epsilon=epsilon, size=size)
        if getattr(oracle, "hashes", 2) > 64:
            continue  # a large table; smaller ones are the same code
        channel = oracle.channel()
        assert channel.exact
        assert len(channel.inputs) == size
        ratio = channel.ratio("all")
        assert ratio * (1 << 256) <= exp_bounds(F(epsilon), 256)[0]
        assert float(F(epsilon)) - 1e-9 <= channel.epsilon("all") <= float(F(epsilon))
        assert oracle.loss == Pure(F(epsilon))
        assert oracle.epsilon == F(epsilon)


@every
def test_reports_follow_the_channel(case):
    """Drawn reports against the exact rows, likeliest outputs first, and against those of an ε wrong by 30 %."""
    oracle, stream = small(case, 1), Stream()
    channel, value = oracle.channel(), oracle.size - 1
    reports = case.reports(oracle).reshape(len(channel.outputs), -1)[:, 0]
    rank = {int(report): place for place, report in enumerate(reports)}
    drawn = oracle.randomize(np.full(MANY, value), entropy=stream).reshape(MANY, -1)[:, 0]
    likeliest = np.argsort([-p for p in channel.matrix[value]], kind="stable")
    place = np.argsort(likeliest)
    places = place[[rank[int(report)] for report in drawn]]

    def cdf(wrong: Any) -> Any:
        ends = np.concatenate([np.cumsum(wrong.channel().matrix[value].astype(float)[likeliest]), [1.0]])
        return lambda x: np.where(x < 0, 0.0, ends[np.clip(x, 0, len(reports)).astype(int)])

    assert_follows(places, cdf(oracle), case.name, stream)
    settings = {"hashes": oracle.hashes} if "OLH" in case.name else {}
    settings = {"blocks": oracle.blocks} if "Hadamard" in case.name else settings
    make = case.make if not settings else partial(getattr(case.make, "func", case.make), **settings)
    for factor in (WRONG, 1 / WRONG):
        wrong = make(epsilon=F(factor), size=oracle.size)
        if len(wrong.channel().outputs) == len(reports):  # the best subsets may have another size
            assert_rejected(places, cdf(oracle), cdf(wrong), f"{case.name}, wrong", stream)
        else:
            assert case.name == "subset"


# --- estimates, without sampling --------------------------------------------------------------------------------


@pytest.mark.quick_cases(22)
@every
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_estimates_are_unbiased_with_the_stated_variance(case, epsilon):
    """Estimates are means over reports, so one report tells all: E = [x = v], Var = variance(0) or variance(1)."""
    for size in case.sizes:
        oracle = case.make(epsilon=epsilon, size=size)
        chances = oracle.channel().matrix.astype(float)  # value × output
        told = np.array([oracle.estimate(oracle.tally([report]), reports=1).shares for report in case.reports(oracle)])
        means = chances @ told
        assert means == pytest.approx(np.eye(size), abs=1e-9 * oracle.influence)
        variances = chances @ told**2 - means**2
        assert np.diag(variances) == pytest.approx(oracle.variance(1), rel=1e-9, abs=1e-12)
        others = variances[~np.eye(size, dtype=bool)]
        if getattr(oracle, "blocks", 1) == 1:
            assert others == pytest.approx(oracle.variance(0), rel=1e-9)
        else:  # more within a block, less outside; evenly over the blocks it is as stated
            same = (np.arange(size)[:, None] % oracle.blocks == np.arange(size) % oracle.blocks) & ~np.eye(
                size, dtype=bool
            )
            apart = np.arange(size)[:, None] % oracle.blocks != np.arange(size) % oracle.blocks
            within = variances[same].mean() if same.any() else oracle.variance(1) + 1
            mixed = within / oracle.blocks + variances[apart].mean() * (1 - 1 / oracle.blocks)
            assert mixed == pytest.approx(oracle.variance(0), rel=1e-9)


@every
def test_variance_is_linear_in_the_share_and_refuses_what_is_no_share(case):
    oracle = small(case)
    assert oracle.variance(0.25) == pytest.approx(0.75 * oracle.variance(0) + 0.25 * oracle.variance(1))
    for bad in (-0.1, 1.1, float("nan"), "x", None, True):
        with pytest.raises(InvalidParameter, match="share"):
            oracle.variance(bad)


@every
def test_the_estimated_variance_is_that_of_theory(case):
    oracle = small(case)
    values = np.repeat(np.arange(oracle.size), 20_000)
    told = oracle.estimate(oracle.tally(oracle.randomize(values, entropy=DeterministicEntropy(8))), reports=values.size)
    theory = oracle.variance(1 / oracle.size) / values.size
    assert told.variance == pytest.approx(np.full(oracle.size, theory), rel=0.25 if "blocks" in case.name else 0.05)


@every
@pytest.mark.parametrize("values", [(0,), (0, 0), (0, 1), (1, 1)], ids=str)
def test_intervals_of_very_few_reports_cover(case, values):
    """Every outcome of one or two people, weighted by its exact probability."""
    oracle = case.make(epsilon=1, size=case.sizes[0])
    truth = np.bincount(values, minlength=oracle.size) / len(values)
    chances, reports = oracle.channel().matrix.astype(float), case.reports(oracle)
    for confidence in ("0.5", "0.9") if len(reports) ** len(values) < 1000 else ():
        together, each = 0.0, np.zeros(oracle.size)
        for outcome in np.ndindex(*[len(reports)] * len(values)):
            p = np.prod([chances[x, y] for x, y in zip(values, outcome, strict=True)])
            told = oracle.estimate(oracle.tally(reports[list(outcome)]), reports=len(values))
            low, high = told.interval(confidence)
            together += p * bool(((low <= truth + 1e-12) & (truth <= high + 1e-12)).all())
            low, high = told.interval(confidence, simultaneous=False)
            each += p * ((low <= truth + 1e-12) & (truth <= high + 1e-12))
        assert together >= float(F(confidence)) - 1e-9
        assert each.min() >= float(F(confidence)) - 1e-9


@every
def test_liars_move_an_estimate_by_no_more_than_their_influence(case):
    oracle = small(case)
    honest = oracle.randomize(np.arange(500) % oracle.size, entropy=DeterministicEntropy(2))
    before = oracle.estimate(oracle.tally(honest), reports=500).shares
    reached = 0.0
    for report in case.reports(oracle):
        forged = honest.copy()
        forged[:50] = report
        after = oracle.estimate(oracle.tally(forged), reports=500).shares
        reached = max(reached, np.abs(after - before).max())
    assert 0.2 * oracle.influence / 10 < reached <= oracle.influence / 10 + 1e-9


# --- tallies -----------------------------------------------------------------------------------------------------


@every
def test_tallies_of_batches_add_up(case):
    oracle = small(case)
    reports = oracle.randomize(np.arange(1000) % oracle.size, entropy=DeterministicEntropy(5))
    whole, parts = oracle.tally(reports), oracle.tally(reports[:300]) + oracle.tally(reports[300:])
    assert whole.dtype == np.int64
    assert np.array_equal(whole, parts)
    assert not oracle.tally(reports[:0]).any()
    assert oracle.tally(reports[:0]).shape == whole.shape


@every
@pytest.mark.parametrize("change", ["negative", "too many", "floats", "short", "nested", "text"])
def test_tallies_that_cannot_be_are_refused(case, change):
    oracle = small(case)
    good = oracle.tally(oracle.randomize(np.zeros(10, np.int64)))
    bad: Any = {
        "negative": np.where(np.arange(good.size) == 0, -1, good),
        "too many": np.where(np.arange(good.size) == 0, 11, good),
        "floats": good.astype(float),
        "short": good[:-1],
        "nested": good[None],
        "text": ["x"] * good.size,
    }[change]
    with pytest.raises(InvalidData, match="tally"):
        oracle.estimate(bad, reports=10)


@every
def test_a_number_of_reports_that_the_tally_contradicts_is_refused(case):
    """Every report adds the same to a tally, except where its bits are independent."""
    oracle = small(case)
    tally = oracle.tally(oracle.randomize(np.arange(40) % oracle.size))
    if case.name in ("SUE", "OUE"):
        assert oracle.estimate(tally, reports=41).reports == 41
        return
    with pytest.raises(InvalidParameter, match="reports: got 41, expected 40"):
        oracle.estimate(tally, reports=41)


@every
@pytest.mark.parametrize("reports", [0, -1, 1.5, None, True, "3", 2**60], ids=stable)
def test_bad_numbers_of_reports_are_refused(case, reports):
    oracle = small(case)
    with pytest.raises(InvalidParameter, match="reports"):
        oracle.estimate(np.zeros(oracle.tally(oracle.randomize([])).size, np.int64), reports=reports)


# --- reports that are malformed ---------------------------------------------------------------------------------


@every
def test_own_reports_are_valid_and_survive_sifting(case):
    oracle = small(case)
    reports = oracle.randomize(np.arange(200) % oracle.size)
    assert oracle.valid(reports).all()
    kept, dropped = sift(oracle, reports)
    assert np.array_equal(kept, reports)
    assert dropped == 0
    assert oracle.valid(case.reports(oracle)).all()


GARBAGE = [
    np.array([np.nan, np.inf, -np.inf, 0.5]),
    np.array(["a", "", "1"]),
    [None, {}, object(), "x", b"1"],
    np.array([-1, 2**62, 2**63 - 1]),
    np.array([[-1], [2**62], [2**63 - 1]]),
    np.array([[[1]]]),
    [[1, 2, 3], [1], [], "x", None],
    [2**70, -(2**70)],
    [[2**70], [-(2**70)]],
    [True, "x"],
    np.array([1j, 2j]),
    np.array(["2020-01-01"], "datetime64[D]"),
    np.zeros((3, 0), np.int64),
    np.zeros((2, 9), np.int64),
    [float("nan"), [float("nan")]],
]


@every
@pytest.mark.parametrize("garbage", GARBAGE, ids=stable)
def test_garbage_is_dropped_and_counted_never_a_crash(case, garbage):
    oracle = small(case)
    fine = oracle.valid(garbage)
    assert fine.dtype == np.bool_
    assert fine.shape == (len(garbage),)
    kept, dropped = sift(oracle, garbage)
    assert len(kept) + dropped == len(garbage)
    assert dropped == len(garbage) - fine.sum()
    assert oracle.tally(kept).sum() >= 0
    assert fine.sum() == (case.name in ("SUE", "OUE") and "[1]" in str(garbage) and isinstance(garbage, list))
    if not fine.all():
        with pytest.raises(InvalidData, match="reports"):
            oracle.tally(garbage)


@every
def test_good_reports_among_garbage_are_kept(case):
    oracle = small(case)
    good = oracle.randomize([0, 1, 1])
    mixed = [good[0].tolist(), None, good[1].tolist(), "x", [1, 2, 3], good[2].tolist(), float("nan")]
    kept, dropped = sift(oracle, mixed)
    assert dropped == 4
    assert np.array_equal(kept, good)


@every
@pytest.mark.parametrize("single", [3, None, "text", 1.5])
def test_a_single_thing_is_not_a_list_of_reports(case, single):
    with pytest.raises(InvalidData, match="reports"):
        small(case).valid(single)


# --- values and settings ------------------------------------------------------------------------------------------

BAD_VALUES = [
    [0.0],
    [float("nan")],
    ["1"],
    [None],
    [-1],
    [0, 99],
    [[0], [1]],
    [[0], [1, 0]],
    [1j],
    object(),
    [2**70],
    {},
]


@every
@pytest.mark.parametrize("values", BAD_VALUES, ids=stable)
def test_bad_values_are_refused_without_being_named(case, values):
    with pytest.raises(InvalidData, match="^values: expected") as raised:
        small(case).randomize(values)
    assert "99" not in str(raised.value)


@every
def test_one_value_none_and_many(case):
    oracle = small(case)
    one, none, many = oracle.randomize([1]), oracle.randomize([]), oracle.randomize(np.zeros(70_000, np.uint8))
    assert [len(one), len(none), len(many)] == [1, 0, 70_000]
    assert one.dtype == none.dtype == many.dtype == np.int64
    assert one.shape[1:] == none.shape[1:] == many.shape[1:]
    assert len(oracle.randomize(1)) == 1
    told = oracle.estimate(oracle.tally(one), reports=1)
    assert np.isfinite(told.shares).all()


@every
@pytest.mark.parametrize("bad", [0, -1, "1e-13", 1001, float("nan"), float("inf"), "x", None, True, [1]], ids=stable)
def test_bad_epsilons_are_refused(case, bad):
    with pytest.raises(InvalidParameter, match="epsilon"):
        case.make(epsilon=bad, size=case.sizes[-1])


@every
@pytest.mark.parametrize("bad", [1, 0, -3, 2.0, "2", None, True, float("nan"), 2**40, 2**70], ids=stable)
def test_bad_sizes_are_refused(case, bad):
    if case.name != "binary":
        with pytest.raises(InvalidParameter, match="size"):
            case.make(epsilon=1, size=bad)


@every
@pytest.mark.parametrize("epsilon", ["1e-12", "1e-6", 30, 1000])
def test_extreme_epsilons_give_reports_and_finite_estimates(case, epsilon):
    oracle = small(case, epsilon)
    reports = oracle.randomize(np.arange(300) % oracle.size, entropy=DeterministicEntropy(4))
    assert oracle.valid(reports).all()
    told = oracle.estimate(oracle.tally(reports), reports=300)
    assert np.isfinite(told.shares).all()
    assert np.isfinite(told.variance).all()
    low, high = told.interval("0.95")
    assert (low <= high).all()


@every
def test_large_domains_work_or_are_refused_by_name(case):
    for size in (10_007, 1_000_003, 2**23):
        oracle = case.make(epsilon=1, size=size) if "hashes" not in case.name else None
        if oracle is None or case.name == "binary":
            return
        values = np.array([0, size - 1])
        reports = oracle.randomize(values)
        assert oracle.valid(reports).all()
        if size < 2**20:
            assert oracle.estimate(oracle.tally(reports), reports=2).shares.shape == (size,)


@every
def test_epsilon_is_asked_for_by_name(case):
    kind = type(small(case))
    parameters = inspect.signature(kind).parameters
    assert parameters["epsilon"].kind is inspect.Parameter.KEYWORD_ONLY
    assert parameters["epsilon"].default is inspect.Parameter.empty
    with pytest.raises(TypeError):
        kind(1, 5)


@every
def test_oracles_are_frozen_values(case):
    oracle = small(case)
    assert oracle == small(case)
    assert hash(oracle) == hash(small(case))
    assert oracle != small(case, 2)
    assert pickle.loads(pickle.dumps(oracle)) == oracle == copy.deepcopy(oracle)
    with pytest.raises((FrozenInstanceError, AttributeError, TypeError)):
        oracle.epsilon = F(9)
    with pytest.raises(FrozenInstanceError):
        setattr(oracle, fields(oracle)[0].name, None)
    assert "epsilon" in repr(oracle)


@every
def test_all_randomness_comes_from_the_stream_given(case):
    oracle, values = small(case), np.arange(500) % case.sizes[-1]
    one, two = (oracle.randomize(values, entropy=DeterministicEntropy(1)) for _ in range(2))
    assert np.array_equal(one, two)
    assert not np.array_equal(one, oracle.randomize(values, entropy=DeterministicEntropy(2)))
    assert not np.array_equal(oracle.randomize(values), oracle.randomize(values))
    stream = Counting()
    oracle.randomize(values, entropy=stream)
    assert stream.count > 0


@every
def test_errors_are_discreets_own(case):
    for call in (lambda o: o.tally(3), lambda o: o.estimate(None, reports=1), lambda o: o.randomize(None)):
        with pytest.raises(DiscreetError):
            call(small(case))


def test_a_response_in_any_form_is_an_oracle():
    oracle = BinaryResponse.from_mechanism(RandomizedResponse.from_coins(heads="1/2"))
    assert (oracle.truth, oracle.other) == (F(3, 4), F(1, 4))
    with pytest.raises(InvalidParameter, match="truth"):
        BinaryResponse.from_mechanism(RandomizedResponse.from_gain(gain=0))
