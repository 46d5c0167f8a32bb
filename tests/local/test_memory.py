"""Memoized responses: both losses through channels, the state file, kills, and estimates."""

import json
import multiprocessing
from fractions import Fraction
from math import inf, log, sqrt

import numpy as np
import pytest
from tests.statistical.power import ALPHA, Stream, assert_frequency

from discreet.errors import (
    BudgetExceeded,
    InvalidData,
    InvalidParameter,
    LedgerConflict,
    LedgerDamaged,
    LedgerTooNew,
    LedgerUnavailable,
)
from discreet.exact import exp_bounds
from discreet.local import SymmetricUnary
from discreet.local.collection.memoized import Device, Memoized
from discreet.mechanisms.channel import Channel
from discreet.noise import DeterministicEntropy
from discreet.privacy.loss import Pure

F = Fraction


def within(channel, epsilon):
    return channel.ratio("all") * (1 << 256) <= exp_bounds(F(epsilon), 256)[0]


# --- the two losses ---------------------------------------------------------------------------------------------


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize(("permanent", "once"), [("2", "1"), ("1", "1/10"), ("4", "7/2"), ("1/2", "1/4")])
@pytest.mark.parametrize("size", [2, 3])
def test_channels_have_the_stated_losses(permanent, once, size):
    """One report has ε₁ and no less; R reports at most min(ε∞, R·ε₁); the permanent response itself ε∞."""
    memoized = Memoized(permanent=permanent, once=once, size=size)
    assert memoized.loss == Pure(once)
    assert memoized.lifetime == Pure(permanent)
    single = memoized.channel()
    assert single.exact
    assert float(F(once)) - 1e-9 <= single.epsilon("all") <= float(F(once))
    assert memoized.first.channel().epsilon("all") == pytest.approx(float(F(permanent)), abs=1e-9)
    before = single.epsilon("all")
    for reports in (2, 3, 4) if size == 2 else (2, 3):
        several = memoized.channel(reports)
        assert within(several, memoized.loss_of(reports).epsilon)
        assert within(several, permanent)
        assert several.epsilon("all") > before  # more reports do tell more, up to ε∞
        before = several.epsilon("all")


def test_many_reports_come_near_to_the_permanent_loss():
    """R reports about two values, all alike: the log ratio of the two bits that differ, in closed form."""
    memoized = Memoized(permanent=2, once=1, size=2)
    t, s = float(memoized.first.truth), float(memoized.keep)

    def ratio(reports):
        up, down = s**reports, (1 - s) ** reports
        return 2 * log((t * up + (1 - t) * down) / ((1 - t) * up + t * down))

    assert ratio(1) == pytest.approx(1)
    assert all(ratio(r) <= min(2, r * 1.0) + 1e-12 for r in range(1, 60))
    assert ratio(50) == pytest.approx(2, abs=1e-6)


def test_fresh_coins_each_time_would_cost_more():
    """What memory is for: four reports with fresh coins cost 4·ε₁, from memory no more than ε∞."""
    fresh = SymmetricUnary(epsilon=1, size=2).channel()
    twice = fresh.compose(fresh)
    four = twice.compose(twice)
    assert four.epsilon("all") == pytest.approx(4, abs=1e-9)
    assert Memoized(permanent=2, once=1, size=2).channel(4).epsilon("all") < 2


def test_one_report_is_exactly_a_symmetric_unary_one():
    memoized = Memoized(permanent=3, once="1/2", size=3)
    single = memoized.channel().merge(lambda words: words[0])
    other = SymmetricUnary(epsilon="1/2", size=3).channel()
    assert [single.probability(x, y) for x in range(3) for y in range(8)] == [
        other.probability(x, y) for x in range(3) for y in range(8)
    ]


def test_that_a_value_changed_is_not_hidden():
    """The limit that the docstring states. In the long run both permanent responses are seen: a device whose value did
    not change shows the same one twice, which no ε covers; histories that change alike are told apart by ε∞ a value."""
    kept = Memoized(permanent=2, once=1, size=2).first.channel()
    pairs = [(b, c) for b in kept.outputs for c in kept.outputs]

    def history(first, second):
        if first == second:
            return [kept.probability(first, b) if b == c else F(0) for b, c in pairs]
        return [kept.probability(first, b) * kept.probability(second, c) for b, c in pairs]

    assert Channel([history(0, 0), history(0, 1)]).epsilon("all") == inf
    assert Channel([history(0, 1), history(1, 0)]).epsilon("all") == pytest.approx(4, abs=1e-9)
    assert Channel([history(0, 0), history(1, 1)]).epsilon("all") == pytest.approx(2, abs=1e-9)


# --- sampling ---------------------------------------------------------------------------------------------------


def test_permanent_and_instantaneous_bits_have_their_probabilities():
    memoized, stream = Memoized(permanent=2, once=1, size=64), Stream()
    kept = np.array([memoized.remember(63, entropy=stream) for _ in range(2000)]).view(np.uint64).ravel()
    bits = (kept[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1) == 1
    assert_frequency(bits[:, 63], float(memoized.first.truth), "own bit", stream, tests=2)
    assert_frequency(bits[:, :63].ravel(), float(memoized.first.other), "other bits", stream, tests=2)
    memory = memoized.remember(0, entropy=stream)
    flips = np.array([memoized.report(memory, entropy=stream) ^ memory for _ in range(2000)]).view(np.uint64).ravel()
    flipped = (flips[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1) == 1
    assert_frequency(flipped.ravel(), float(1 - memoized.keep), "flips", stream)
    wrong = Memoized(permanent=2, once="1.3", size=64)  # 30 % off would be refused
    assert abs(float(wrong.keep - memoized.keep)) > 2 * sqrt(log(2 / ALPHA) / (2 * flipped.size))


def test_estimates_are_unbiased_and_rounds_do_not_average_below_the_floor():
    """A round by itself is unbiased with the variance of ε₁; the mean of many rounds about the same people keeps the noise
    of their permanent responses. 300 crews of 3 people: mean squares have a spread of 8 %, 45 % is 5.5 of them."""
    memoized, stream, rounds = Memoized(permanent=2, once=1, size=3), Stream(), 12
    single, floor = memoized.variance(1.0) / 3, memoized.floor(1.0) / 3
    shares = np.empty((300, rounds))
    for crew in shares:
        kept = memoized.first.randomize([0, 0, 0], entropy=stream)
        for at in range(rounds):
            reports = np.array([memoized.report(row, entropy=stream) for row in kept])
            crew[at] = memoized.estimate(memoized.tally(reports), reports=3).shares[0]
    errors, averages = shares[:, 0] - 1, shares.mean(axis=1) - 1
    assert abs(errors.mean()) < 5 * sqrt(single / 300), stream
    assert abs(averages.mean()) < 5 * sqrt(single / 300), stream
    assert 0.55 < (errors**2).mean() / single < 1.45, stream
    left = floor + (single - floor) / rounds
    assert 0.55 < (averages**2).mean() / left < 1.45, stream
    assert single / rounds < 0.45 * left  # which independent rounds would have: rejected


def test_shares_are_covered():
    memoized, stream = Memoized(permanent=3, once=2, size=4), Stream()
    told = np.repeat([0, 1, 3], [1000, 600, 400])
    kept = memoized.first.randomize(told, entropy=stream)
    reports = np.array([memoized.report(row, entropy=stream) for row in kept])
    low, high = memoized.estimate(memoized.tally(reports), reports=2000).interval("0.999999")
    truth = np.array([0.5, 0.3, 0, 0.2])
    assert ((low <= truth) & (truth <= high)).all(), stream
    assert memoized.valid([*reports[:2].tolist(), [99], "x", None]).tolist() == [True, True, False, False, False]


# --- settings and input -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        {"once": 2},
        {"once": 3},
        {"permanent": 0},
        {"once": float("nan")},
        {"size": 1},
        {"size": 1 << 20},
        {"once": True},
    ],
)
def test_bad_settings_are_refused(change):
    with pytest.raises(InvalidParameter):
        Memoized(**{"permanent": 2, "once": 1, "size": 4, **change})


def test_bad_values_are_refused():
    memoized = Memoized(permanent=2, once=1, size=4)
    for value in (4, -1, 1.5, float("nan"), "a", None, [[1]]):
        with pytest.raises(InvalidData):
            memoized.remember(value)
    with pytest.raises(InvalidParameter, match="one value"):
        memoized.remember([1, 2])
    for kept in ([16], [1.0], [1, 2], [[1], [2]], ["x"]):
        with pytest.raises(InvalidData, match="kept"):
            memoized.report(kept)
    with pytest.raises(InvalidParameter, match="size"):
        memoized.channel(4)


# --- the state file ---------------------------------------------------------------------------------------------


@pytest.fixture
def memoized():
    return Memoized(permanent=2, once=1, size=70)


def device(memoized, path, **change):
    return Device(memoized, path, **{"survey": "color", "version": 1, **change})


def test_the_state_is_kept_and_the_loss_stops_at_the_permanent_one(memoized, tmp_path):
    path = tmp_path / "memory.json"
    costs = [device(memoized, path).respond(69)[1].epsilon for _ in range(5)]
    assert costs == [1, 1, 0, 0, 0]
    state = json.loads(path.read_text())
    assert len(state["responses"]) == 1
    assert state["responses"][0]["reports"] == 5
    assert device(memoized, path).spent == Pure(2)
    assert path.stat().st_mode & 0o077 == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["memory.json", "memory.json.lock"]


def test_reports_come_from_the_memory(memoized, tmp_path):
    path, stream = tmp_path / "memory.json", Stream()
    phone = device(memoized, path)
    reports = np.array([phone.respond(5, entropy=stream)[0] for _ in range(400)])
    kept = np.array(json.loads(path.read_text())["responses"][0]["bits"])
    flips = np.bitwise_count((reports ^ kept).view(np.uint64)).sum(axis=1)
    expected = 70 * float(1 - memoized.keep)
    assert abs(flips.mean() - expected) < 70 * sqrt(log(2 / ALPHA) / (2 * 400 * 70)), stream
    assert len({tuple(row) for row in reports.tolist()}) > 390  # each report is fresh


def test_another_value_is_refused_unless_allowed(memoized, tmp_path):
    phone = device(memoized, tmp_path / "one.json")
    phone.respond(3)
    before = (tmp_path / "one.json").read_text()
    with pytest.raises(BudgetExceeded, match="nothing was sent"):
        phone.respond(4)
    assert (tmp_path / "one.json").read_text() == before
    two = device(memoized, tmp_path / "two.json", values=2)
    assert [two.respond(v)[1].epsilon for v in (3, 4, 3, 4, 3)] == [1, 1, 1, 1, 0]
    assert two.spent == Pure(4)
    with pytest.raises(BudgetExceeded):
        two.respond(5)


def test_states_of_others_are_refused(memoized, tmp_path):
    path = tmp_path / "memory.json"
    device(memoized, path).respond(3)
    before = path.read_text()
    others = [
        device(memoized, path, survey="other"),
        device(memoized, path, version=2),
        device(Memoized(permanent=2, once="1/2", size=70), path),
        device(Memoized(permanent=2, once=1, size=71), path),
    ]
    for other in others:
        with pytest.raises(LedgerConflict, match="another survey"):
            other.respond(3)
    assert path.read_text() == before


def damage(state, **change):
    return json.dumps({**state, **change})


def test_damaged_states_are_refused_and_left_alone(memoized, tmp_path):
    path = tmp_path / "memory.json"
    phone = device(memoized, path)
    phone.respond(3)
    good = path.read_text()
    state = json.loads(good)
    one = state["responses"][0]
    bad = ["", "{", good[:-20], "[]", "null", '{"format": "else"}', "\x00\xff", damage(state, responses=None)]
    for change in (
        {"value": 70},
        {"value": "3"},
        {"value": True},
        {"bits": []},
        {"bits": [1]},
        {"bits": [1, 2**40]},
        {"bits": [2**63, 0]},
        {"bits": [1.5, 0]},
        {"bits": "11"},
        {"reports": 0},
        {"reports": 1.5},
    ):
        bad.append(damage(state, responses=[{**one, **change}]))
    bad += [damage(state, responses=[one, one]), damage(state, responses=[{"value": 3}]), damage(state, responses=[7])]
    for text in bad:
        path.write_text(text)
        with pytest.raises(LedgerDamaged, match="nothing was sent"):
            phone.respond(3)
        assert path.read_text() == text
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(LedgerDamaged):
        phone.respond(3)
    path.write_text(damage(state, format_version=2))
    with pytest.raises(LedgerTooNew):
        phone.respond(3)
    path.write_text(good)
    phone.respond(3)


def test_places_that_cannot_be_written_are_refused(memoized, tmp_path):
    with pytest.raises(LedgerUnavailable, match="nothing was sent"):
        device(memoized, tmp_path / "no" / "memory.json").respond(1)
    (tmp_path / "folder").mkdir()
    with pytest.raises(LedgerUnavailable):
        device(memoized, tmp_path / "folder").respond(1)


@pytest.mark.parametrize("change", [{"survey": ""}, {"survey": 3}, {"version": 0}, {"version": "1"}, {"values": 0}])
def test_bad_surveys_are_refused(memoized, tmp_path, change):
    with pytest.raises(InvalidParameter):
        device(memoized, tmp_path / "memory.json", **change)


def respond_often(path, seed):
    phone = Device(Memoized(permanent=2, once=1, size=70), path, survey="color", version=1)
    stream = DeterministicEntropy(seed)
    for _ in range(15):
        phone.respond(7, entropy=stream)


def test_processes_share_one_memory(memoized, tmp_path):
    """However they interleave: one permanent response, and every report counted."""
    path = tmp_path / "memory.json"
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=respond_often, args=(path, seed)) for seed in (1, 2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    responses = json.loads(path.read_text())["responses"]
    assert [(r["value"], r["reports"]) for r in responses] == [(7, 30)]


def test_entropy_of_the_system_is_used_by_default(memoized):
    kept = memoized.remember(1)
    assert memoized.report(kept).shape == (2,)
    assert len({tuple(memoized.report(kept)) for _ in range(20)}) > 15


@pytest.mark.parametrize("value", [[], [0, 1]])
def test_a_device_answers_about_one_value_at_a_time(memoized, tmp_path, value):
    with pytest.raises(InvalidParameter, match="one value"):
        device(memoized, tmp_path / "m").respond(value)
    assert not (tmp_path / "m").exists()


def test_losses_that_rounding_makes_equal_leave_nothing_to_flip():
    assert Memoized(permanent=1, once="0." + "9" * 60, size=3).keep == 1


def test_a_state_of_the_first_version_still_answers(tmp_path):
    path = tmp_path / "memory.json"
    heading = '{"format": "discreet memory", "format_version": 1, "survey": "colour", "version": 1, '
    settings = '"settings": {"size": 3, "permanent": "2", "once": "1"}, '
    path.write_text(heading + settings + '"responses": [{"value": 2, "bits": [4], "reports": 1}]}\n')
    phone = Device(Memoized(permanent=2, once=1, size=3), path, survey="colour", version=1)
    assert phone.spent == Pure(1)
    assert phone.respond(2)[1] == Pure(1)
    assert json.loads(path.read_text())["responses"] == [{"value": 2, "bits": [4], "reports": 2}]
