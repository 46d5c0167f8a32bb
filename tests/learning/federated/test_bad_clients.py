"""Clients that die, cheat, come late or come twice: dropped, named in the report, and the round goes on."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.learning.federated.in_process import (
    DATA,
    EMPTY,
    NAMES,
    NETWORK,
    SECURE,
    Wire,
    changed,
    kinds,
    only_bob,
    plan,
    resigned,
    same,
    trained,
    vector,
    without_bob,
)

from discreet.errors import ReleaseFailed
from discreet.learning.federated import Arrival, InProcessClients, run
from discreet.learning.federated.exchange import SECURE as PHASES
from discreet.learning.federated.exchange import Update, decode_answer
from discreet.learning.federated.member import seeded_identity
from discreet.learning.sgd.clipping import UNITS
from discreet.noise import DeterministicEntropy
from discreet.privacy.accounting import guarantee

BAD = {
    "died": lambda a: Arrival("bob", failure="connection lost"),
    "malformed": lambda a: Arrival("bob", b"junk"),
    "wrong shape": lambda a: resigned(a, vector=decode_answer(a.data).vector[:-8]),
    "NaN": lambda a: resigned(a, vector=np.full(10, np.nan).tobytes()),
    "too large": lambda a: resigned(a, vector=vector(decode_answer(a.data), lambda v: v * 3 + UNITS // 2)),
    "wrong round": lambda a: resigned(a, context=bytes(32)),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_client_is_dropped_and_reported_and_the_round_goes_on(kind):
    outcome = changed(plan(), only_bob(BAD[kind]))
    expected = [(1, kind)] if kind != "wrong round" else [(1, kind), (1, "died")]
    assert kinds(outcome) == expected
    assert [len(report.arrived) for report in outcome.reports] == [5, 4, 5]
    assert same(outcome, without_bob())
    assert not any(drop.client != "bob" for report in outcome.reports for drop in report.dropped)


def test_other_numbers_that_are_too_large_by_their_norm_alone():
    full = np.zeros(10, np.int64)
    full[:2] = UNITS
    outcome = changed(plan(), only_bob(lambda a: resigned(a, vector=full.tobytes())))
    assert kinds(outcome) == [(1, "too large")]
    full[1] = 0
    outcome = changed(plan(), only_bob(lambda a: resigned(a, vector=full.tobytes())))
    assert kinds(outcome) == []


def test_a_replayed_update_is_dropped():
    """bob's answer of round 0 comes again in round 1, in the place of the new one."""
    kept = {}

    def change(arrival, at):
        if arrival.client != "bob":
            return [arrival]
        kept.setdefault(at, arrival)
        return [kept[0]] if at == 1 else [arrival]

    outcome = changed(plan(), change)
    assert kinds(outcome) == [(1, "replayed"), (1, "died")]
    assert same(outcome, without_bob())


def test_a_late_update_is_dropped():
    """bob's answer of round 0 comes in round 1, beside the new one, which counts."""
    kept = {}

    def change(arrival, at):
        if arrival.client != "bob" or at > 1:
            return [arrival]
        kept[at] = arrival
        return [] if at == 0 else [kept[0], arrival]

    outcome = changed(plan(), change)
    assert kinds(outcome) == [(0, "died"), (1, "late")]
    assert [len(report.arrived) for report in outcome.reports] == [4, 5, 5]
    assert same(outcome, without_bob((0,)))


def test_copies_count_once():
    outcome = changed(plan(), lambda arrival, at: [arrival, arrival])
    assert kinds(outcome) == [(0, "replayed"), (1, "replayed"), (2, "replayed")]
    assert same(outcome, trained(plan()))


@pytest.mark.parametrize("first", ["the update", "the refusal"])
@pytest.mark.parametrize("secure", [None, SECURE])
def test_an_order_that_comes_twice_costs_nobody_their_update(first, secure):
    """The network brings bob each order twice: he declines the copies, and his answers count, whichever comes first."""
    kind = plan(secure=secure)
    fleet = InProcessClients(kind, NETWORK, DATA, seed=7)

    class Twice:
        keys = fleet.keys

        def ask(self, orders):
            once, copy = fleet.ask(orders), fleet.ask({name: one for name, one in orders.items() if name == "bob"})
            return [*once, *copy] if first == "the update" else [*copy, *once]

    outcome = run(kind, NETWORK, Twice(), entropy=DeterministicEntropy(7))
    assert same(outcome, trained(kind))
    assert all("bob" in report.arrived for report in outcome.reports)
    assert {kind for _, kind in kinds(outcome)} == {"declined"}


def test_two_different_signed_answers_count_not_at_all():
    def change(arrival, at):
        if arrival.client != "bob" or at != 1:
            return [arrival]
        return [arrival, resigned(arrival, vector=vector(decode_answer(arrival.data), lambda v: v // 2))]

    outcome = changed(plan(), change)
    assert kinds(outcome) == [(1, "refused")]
    assert same(outcome, without_bob())


def test_nobody_can_speak_for_another():
    """eve sends an update in bob's name; it changes nothing."""

    def change(arrival, at):
        if arrival.client != "eve":
            return [arrival]
        forged = Update(decode_answer(arrival.data).context, "bob", bytes(80)).signed(seeded_identity(7, "eve"))
        return [Arrival("bob", forged.encode()), Arrival("", forged.encode()), arrival]

    outcome = changed(plan(), change)
    assert same(outcome, trained(plan()))
    assert {drop.kind for report in outcome.reports for drop in report.dropped} == {"refused"}


def test_who_was_not_asked_is_not_in_the_sum():
    kind = plan(rate="1/2", rounds=20)
    fleet = InProcessClients(kind, NETWORK, DATA, seed=7)

    class Eager:
        keys = fleet.keys

        def ask(self, orders):
            return fleet.ask(dict.fromkeys(NAMES, next(iter(orders.values()))))

    outcome = run(kind, NETWORK, Eager(), entropy=DeterministicEntropy(7))
    assert all(report.arrived == report.asked for report in outcome.reports)
    assert any(drop.kind == "refused" for report in outcome.reports for drop in report.dropped)
    assert same(outcome, trained(kind))


def test_a_client_whose_own_numbers_fail_says_so():
    rows = DATA | {"bob": (np.full((3, 3), np.nan, np.float32), np.zeros(3, int))}
    outcome = trained(plan(), rows)
    assert kinds(outcome) == [(0, "NaN"), (1, "NaN"), (2, "NaN")]
    assert same(outcome, trained(plan(), DATA | {"bob": EMPTY["bob"]}))


def test_with_secure_sums_it_says_nothing_and_adds_nothing():
    rows = DATA | {"bob": (np.full((3, 3), np.nan, np.float32), np.zeros(3, int))}
    outcome = trained(plan(secure=SECURE), rows)
    assert kinds(outcome) == []
    assert same(outcome, trained(plan(secure=SECURE), DATA | {"bob": EMPTY["bob"]}))


def test_a_client_that_breaks_is_reported():
    fleet = InProcessClients(plan(), NETWORK, DATA, seed=7)

    class Broken:
        def answer(self, order):
            raise MemoryError("with something private in it")

    fleet.members["bob"] = Broken()
    outcome = run(plan(), NETWORK, fleet, entropy=DeterministicEntropy(7))
    assert kinds(outcome) == [(0, "died"), (1, "died"), (2, "died")]
    assert outcome.reports[0].words() == "round 0: 4 of 5; bob died (update)"
    assert outcome.reports[0].dropped[0].reason == "it failed with MemoryError"


@pytest.mark.parametrize("phase", range(5))
@pytest.mark.parametrize("fault", ["died", "malformed"])
def test_secure_clients_that_leave_in_any_phase(phase, fault):
    """In the middle round of three. After its vector is in, leaving changes nothing."""
    kind = plan(secure=SECURE, rounds=3)

    def change(arrival, at):
        if arrival.client != "bob" or at // 5 != 1 or at % 5 < phase:
            return [arrival]
        return [] if fault == "died" else [Arrival("bob", b"junk")]

    outcome = changed(kind, change)
    first = [(drop.kind, drop.phase) for report in outcome.reports for drop in report.dropped if drop.client == "bob"]
    assert first == [(fault, PHASES[phase])]
    assert [len(report.arrived) for report in outcome.reports] == [5, 4 if phase <= 2 else 5, 5]
    assert not any(report.abandoned for report in outcome.reports)


def test_a_secure_round_that_loses_too_many_is_abandoned_and_the_next_goes_on():
    kind = plan(secure=SECURE, rounds=3)
    seen = []

    def change(arrival, at):
        return [] if arrival.client in ("ann", "bob", "cid") and at == 5 + 2 else [arrival]

    fleet = Wire(InProcessClients(kind, NETWORK, DATA, seed=7), change)
    outcome = run(
        kind, NETWORK, fleet, entropy=DeterministicEntropy(7), each=lambda report, model: seen.append(model[0])
    )
    # the abandoned round took 3 asks, not 5
    assert [bool(report.abandoned) for report in outcome.reports] == [False, True, False]
    assert outcome.reports[1].arrived == ()
    assert "2 clients sent a valid masked, 3 are needed" in outcome.reports[1].abandoned
    assert np.array_equal(seen[0], seen[1])
    assert not np.array_equal(seen[1], seen[2])
    spent = [guarantee(report.spent, delta="1e-5").epsilon for report in outcome.reports]
    assert spent[0] < spent[1] < spent[2] == guarantee(kind.loss, delta="1e-5").epsilon
    assert outcome.reports[1].noisy_loss is None
    assert len(outcome.curve) == 2


def secure_changed(make):
    """A secure run in which bob's masked vector of round 1 is changed."""
    return changed(
        plan(secure=SECURE),
        lambda arrival, at: make(arrival) if arrival.client == "bob" and at == 5 + 2 else [arrival],
    )


def test_secure_messages_that_do_not_fit():
    shorter = secure_changed(lambda a: [resigned(a, vector=decode_answer(a.data).vector[:-8])])
    assert kinds(shorter) == [(1, "wrong shape")]
    twice = secure_changed(lambda a: [a, a])
    assert kinds(twice) == [(1, "replayed")]
    assert [len(report.arrived) for report in twice.reports] == [5, 5, 5]
    elsewhere = secure_changed(lambda a: [resigned(a, context=bytes(32))])
    assert kinds(elsewhere) == [(1, "wrong round"), (1, "died")]
    for outcome in (shorter, elsewhere):
        assert [len(report.arrived) for report in outcome.reports] == [5, 4, 5]


def test_secure_messages_that_come_late_or_again_in_another_round():
    kept = {}

    def change(arrival, at):
        if arrival.client != "bob":
            return [arrival]
        kept[at] = arrival
        if at == 2:
            return []  # his vector of round 0 is held back …
        if at == 3 + 2:
            return [kept[2], arrival]  # … and comes in round 1
        return [arrival]

    # bob is not asked in phases 3 and 4 of round 0, so asks go on as usual
    held = changed(plan(secure=SECURE), change)
    assert kinds(held)[0] == (0, "died")
    assert (1, "late") in kinds(held)
    assert [len(report.arrived) for report in held.reports] == [4, 5, 5]

    def again(arrival, at):
        if arrival.client != "bob":
            return [arrival]
        kept[at] = arrival
        return [kept[2]] if at == 5 + 2 else [arrival]

    replayed = changed(plan(secure=SECURE), again)
    assert kinds(replayed) == [(1, "replayed"), (1, "died")]
    assert [len(report.arrived) for report in replayed.reports] == [5, 4, 5]


def test_a_late_phase_of_the_same_secure_round():
    kept = {}

    def change(arrival, at):
        if arrival.client != "bob" or at not in (6, 7):
            return [arrival]
        kept[at] = arrival
        return [] if at == 6 else [arrival]

    def with_late(arrival, at):
        found = change(arrival, at)
        return [*found, kept.pop(6)] if arrival.client == "ann" and at == 7 and 6 in kept else found

    outcome = changed(plan(secure=SECURE), with_late)
    assert kinds(outcome) == [(1, "died"), (1, "late")]


def test_wrong_shares_are_reported():
    """bob reveals shares that are not the ones promised: named in the report, the sum is right all the same."""

    def change(arrival, at):
        if arrival.client != "bob" or at != 5 + 4:
            return [arrival]
        return [resigned(arrival, seed_shares=tuple(bytes(33) for _ in NAMES))]

    outcome = changed(plan(secure=SECURE), change)
    assert set(kinds(outcome)) == {(1, "refused")}
    assert "share of the seed" in next(d for d in outcome.reports[1].dropped if d.client == "bob").reason
    assert same(outcome, trained(plan(secure=SECURE)))


@pytest.mark.parametrize("secure", [None, SECURE])
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_whatever_the_wire_does_the_run_goes_on(secure, data):
    """Bits flip, messages vanish, come twice, come to another place."""
    past = []

    def change(arrival, at):
        past.append(arrival)
        what = data.draw(st.sampled_from(["same"] * 6 + ["gone", "twice", "flip", "cut", "old", "noise", "failed"]))
        match what:
            case "gone":
                return []
            case "twice":
                return [arrival, arrival]
            case "flip":
                place = data.draw(st.integers(0, len(arrival.data) - 1))
                changed_ = bytearray(arrival.data)
                changed_[place] ^= 1 << data.draw(st.integers(0, 7))
                return [Arrival(arrival.client, bytes(changed_))]
            case "cut":
                return [Arrival(arrival.client, arrival.data[: data.draw(st.integers(0, 50))])]
            case "old":
                return [data.draw(st.sampled_from(past)), arrival]
            case "noise":
                return [Arrival("nobody", data.draw(st.binary(max_size=30)))]
            case "failed":
                return [Arrival(arrival.client, failure="gone")]
            case _:
                return [arrival]

    reports = []
    try:
        changed(plan(secure=secure, rounds=2), change, each=lambda report, _: reports.append(report))
    except ReleaseFailed as error:
        assert "none of the 2 rounds has anybody's update" in str(error)
        assert not any(report.arrived for report in reports)
    assert len(reports) == 2
    for report in reports:
        away = set(report.asked) - set(report.arrived)
        assert report.abandoned or away <= {drop.client for drop in report.dropped}
