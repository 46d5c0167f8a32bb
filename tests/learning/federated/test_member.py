"""A client believes its own settings, and answers each phase of each round once."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.learning.federated.in_process import DATA, NAMES, NETWORK, SECURE, plan

from discreet.errors import InvalidData, InvalidParameter
from discreet.learning.federated import (
    Arrival,
    Coordinator,
    Dropped,
    Identity,
    InProcessClients,
    Member,
    crypto,
    decode,
    run,
)
from discreet.learning.federated.client import mask_context, pair_mask
from discreet.learning.federated.crypto import signed_by
from discreet.learning.federated.exchange import SECURE as PHASES
from discreet.learning.federated.exchange import (
    AnswerCheck,
    Declined,
    Request,
    Update,
    decode_answer,
    fingerprint,
    pack_model,
    unpack_model,
    unpack_vector,
)
from discreet.learning.federated.member import seeded_identity, seeded_secret
from discreet.learning.federated.messages import Advertisement, Masked, Roster, Survivors, context_of, pack, unpack

PEOPLE = {name: seeded_identity(7, name) for name in NAMES}
KEYS = {name: person.public for name, person in PEOPLE.items()}
RUN = b"r" * 16
START = NETWORK.start(seed=1)
MODEL = pack_model(START, Fraction(1))
OTHER = pack_model([p + 1 for p in START], Fraction(1))


def member(federation=None, name="bob", **options):
    return Member(federation or plan(), NETWORK, name, PEOPLE[name], KEYS, *DATA[name], **options)


def order(plan_=None, **changes):
    federation = plan_ or plan()
    phase, content = ("advertisement", fingerprint(MODEL)) if federation.secure else ("update", b"")
    fields = dict(federation=federation.digest, run=RUN, number=0, phase=phase, content=content, model=MODEL)
    return Request(**(fields | changes)).encode()


def reason(answer):
    message = decode_answer(answer)
    assert isinstance(message, Declined)
    assert message.is_by(KEYS["bob"])
    return message.reason


def test_an_update_is_signed_and_of_this_round():
    message = decode_answer(member().answer(order()))
    assert isinstance(message, Update)
    assert message.sender == "bob"
    assert message.is_by(KEYS["bob"])
    assert message.context == plan().round_id(RUN, 0)
    assert unpack_vector(message.vector, 10).any()


def test_a_round_is_answered_once():
    bob = member()
    bob.answer(order())
    assert "asked for before" in reason(bob.answer(order()))
    assert isinstance(decode_answer(bob.answer(order(number=2))), Update)
    assert "asked for before" in reason(bob.answer(order(number=1)))


def test_no_more_rounds_than_were_agreed_on():
    bob = member()
    assert "not one of the 3" in reason(bob.answer(order(number=3)))
    assert isinstance(decode_answer(bob.answer(order(number=2))), Update)


def test_a_second_run_would_cost_again():
    bob = member()
    bob.answer(order())
    assert "another run" in reason(bob.answer(order(run=b"s" * 16, number=1)))
    again = member(state=bob.saved())
    assert "another run" in reason(again.answer(order(run=b"s" * 16, number=1)))
    assert "asked for before" in reason(again.answer(order()))
    assert isinstance(decode_answer(again.answer(order(number=1))), Update)


def test_a_declined_round_is_gone_too():
    bob = member()
    assert "other shapes" in reason(bob.answer(order(model=pack_model([np.zeros(3, np.float32)], Fraction(1)))))
    assert "asked for before" in reason(bob.answer(order()))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"federation": bytes(32)}, "other settings"),
        ({"run": b"short"}, "another run"),
        ({"phase": "masked"}, "no phase of this name"),
        ({"model": b""}, "ends too early"),
        ({"model": pack(("1",))}, "other shapes"),
        ({"model": pack(("nan", START[0].tobytes()))}, "clip"),
        ({"model": pack(("0", START[0].tobytes()))}, "clip"),
        ({"model": pack(("1", "text"))}, "other shapes"),
        ({"model": pack(b"1")}, "not a model"),
    ],
)
def test_orders_that_do_not_fit(changes, said):
    assert said in reason(member().answer(order(**changes)))


@pytest.mark.parametrize("number", ["-1", "1.0", "٣", "01", "", "9" * 30])
def test_numbers_of_rounds_that_are_none(number):
    data = pack(("order", plan().digest, RUN, number, "update", b"", b""))
    assert "number" in reason(member().answer(data)) or number == "9" * 30


def test_sizes_that_are_only_said_are_not_believed():
    """Ten gigabytes of text, bytes or parts, at the top or inside: refused before anything is set aside for them."""
    size, many = (10 << 30).to_bytes(8, "big"), b"\xff" * 8
    inside = pack(("order", plan().digest))[9:]
    for said in (size, many):
        for kind in (b"b", b"s", b"t"):
            for data in (kind + said, kind + said + bytes(100), b"t" + bytes(7) + b"\x07" + inside + kind + said):
                assert "ends too early" in reason(member().answer(data))


@given(st.binary(max_size=200))
@settings(max_examples=100, deadline=None)
def test_whatever_comes_is_answered(data):
    assert reason(member().answer(data))


def test_a_hostile_model_gets_no_more_than_one_clipping_norm():
    for value in (np.nan, np.inf, 1e38, -1e38):
        model = pack_model([np.full((4, 2), value, np.float32)], Fraction(1))
        answer = decode_answer(member().answer(order(model=model)))
        assert isinstance(answer, Update | Declined)
        if isinstance(answer, Update):
            assert sum(int(v) ** 2 for v in unpack_vector(answer.vector, 10)) <= 1 << 60


def delivered(federation, bob, others, **changes):
    """All go up to the delivery of shares; the order that brings bob his."""
    coordinator = Coordinator(federation.terms(KEYS, RUN, 0, 10, fingerprint(MODEL)))
    for person in (bob, *others.values()):
        assert coordinator.receive(person.answer(order(federation))) is None
    roster = coordinator.roster().encode()
    for person in (bob, *others.values()):
        assert coordinator.receive(person.answer(order(federation, phase="sharing", content=roster, model=b""))) is None
    return order(federation, phase="masked", content=coordinator.deliveries()["bob"].encode(), **changes)


def test_secure_phases_come_once_and_in_turn():
    federation = plan(secure=SECURE)
    others = {name: member(federation, name) for name in NAMES if name != "bob"}
    bob = member(federation)
    delivery = delivered(federation, bob, others)
    early = order(federation, phase="agreement", content=b"", model=b"")
    assert "out of turn" in reason(bob.answer(early))
    assert isinstance(decode_answer(bob.answer(delivery)), Masked)
    assert "asked for before" in reason(bob.answer(delivery))
    again = member(federation, state=bob.saved())
    assert "asked for before" in reason(again.answer(delivery))
    assert "asked for before" in reason(again.answer(order(federation)))
    assert isinstance(decode_answer(again.answer(order(federation, number=1))), Advertisement)


def test_every_round_has_its_own_secret():
    """Fresh from the system if none is given; nothing of the rows or the model is in what is saved."""
    federation = plan(secure=SECURE, rounds=2)
    bob = member(federation)
    saved = []
    for number in range(2):
        bob.answer(order(federation, number=number))
        saved.append(bob.saved())
    keys = {decode_answer(member(federation).answer(order(federation))).padding for _ in range(3)}
    assert len(keys) == 3
    assert saved[0] != saved[1]
    assert START[0].tobytes() not in saved[0]
    fixed = {decode_answer(member(federation, secret=seeded_secret(7, "bob")).answer(order(federation))).padding
             for _ in range(3)}  # fmt: skip
    assert len(fixed) == 1


def test_the_size_of_secure_answers_does_not_tell_the_coin():
    """With chance 1/2, over ten secrets both sides of the coin come up: the masked vectors are all of one size."""
    federation = plan(secure=SECURE, rate="1/2")
    sizes = set()
    for seed in range(10):
        others = {name: member(federation, name) for name in NAMES if name != "bob"}
        bob = member(federation, secret=seeded_secret(seed, "bob"))
        delivery = delivered(federation, bob, others)
        sizes.add(len(bob.answer(delivery)))
    assert len(sizes) == 1


# A memory that is found later


def test_a_secure_round_that_is_over_is_forgotten():
    """Whoever has all messages and finds the secret can take masks and noise off the vector."""
    federation, secret, states = plan(secure=SECURE, rounds=2), seeded_secret(7, "bob"), []

    def watched(name, data):
        if name == "bob":
            states.append(fleet.members["bob"].saved())
        return data

    fleet = InProcessClients(federation, NETWORK, DATA, seed=7, wire=watched)
    run(federation, NETWORK, fleet)
    assert len(states) == 2 * len(PHASES)
    for number in range(2):
        *during, after = states[len(PHASES) * number : len(PHASES) * (number + 1)]
        assert all(secret in state for state in during)
        assert unpack(after)[1:] == (str(number + 1), str(len(PHASES)), b"", ())
    again, bound = member(federation, state=states[len(PHASES) - 1]), unpack(states[0])[0]
    assert "asked for before" in reason(again.answer(order(federation, run=bound)))
    for phase in PHASES[1:]:
        assert "out of turn" in reason(again.answer(order(federation, run=bound, phase=phase, content=b"")))
    assert isinstance(decode_answer(again.answer(order(federation, run=bound, number=1))), Advertisement)


def test_a_round_that_was_refused_is_forgotten():
    federation, secret = plan(secure=SECURE), seeded_secret(7, "bob")
    others = {name: member(federation, name) for name in NAMES if name != "bob"}
    bob = member(federation, secret=secret)
    delivery = delivered(federation, bob, others, model=OTHER)
    assert secret in bob.saved()
    assert "not the model" in reason(bob.answer(delivery))
    assert unpack(bob.saved())[3:] == (b"", ())
    assert bob._round.client is None


@pytest.mark.parametrize("model", [MODEL, b""], ids=["answered", "refused"])
def test_a_round_of_one_phase_is_forgotten(model):
    """Its secret tells which rows were drawn."""
    bob = member(secret=seeded_secret(7, "bob"))
    bob.answer(order(model=model))
    assert unpack(bob.saved())[3:] == (b"", ())


def test_a_member_signs_with_its_identity():
    assert signed_by(KEYS["bob"], member().sign(b"hello"), b"hello")
    assert not signed_by(KEYS["bob"], member(name="eve").sign(b"hello"), b"hello")


# A memory that is set back: a snapshot of a disk, a crash before the state was stored


def set_back(federation):
    """bob before he sends his vector, as often as one likes, and the order that asks for it."""
    others = {name: member(federation, name) for name in NAMES if name != "bob"}
    bob = member(federation)
    delivery = delivered(federation, bob, others)
    state = bob.saved()
    return lambda: member(federation, state=state), Request.decode(delivery)


def masked(answer):
    message = decode_answer(answer)
    assert isinstance(message, Masked)
    return np.frombuffer(message.vector, "<u8")


def test_who_is_asked_the_same_twice_says_the_same_twice():
    again, delivery = set_back(plan(secure=SECURE))
    assert again().answer(delivery.encode()) == again().answer(delivery.encode())


def test_two_models_never_come_under_the_same_masks():
    """Their difference would be that of two updates, with no noise at all: the noise is the same in both."""
    again, delivery = set_back(plan(secure=SECURE))
    masked(again().answer(delivery.encode()))
    other = replace(delivery, model=OTHER)
    assert "not the model" in reason(again().answer(other.encode()))


def test_two_lists_of_participants_never_come_under_the_same_masks():
    """Else the masks of two answers to different lists would cancel but for a few, and lists could be chosen for that.

    Without noise, and with masks of 64-bit words: the top bits of the difference are as random as masks are.
    """
    federation = plan(secure=SECURE, multiplier=0, level="example", examples=100)
    again, delivery = set_back(federation)
    letters = decode(delivery.content)
    fewer = replace(letters, dealers=letters.dealers[:-1], letters=letters.letters[:-1])
    one = masked(again().answer(delivery.encode()))
    two = masked(again().answer(replace(delivery, content=fewer.encode()).encode()))
    bits = federation.terms(KEYS, RUN, 0, 10).bits
    pair = one - two
    assert bits > 40
    assert len(np.unique(pair)) == len(pair)
    client, gone = again()._round.client, letters.dealers[-1]
    everybody = tuple(sorted((*letters.dealers, "bob")))
    for context in (client._context, *(mask_context(client._context, names) for names in (everybody, everybody[:-1]))):
        words = np.zeros(len(pair), "<u8")
        key = pair_mask(client._secrets.padding, client._roster[gone].padding, context, ("bob", gone))
        crypto.apply(words, key, add=crypto.adds("bob", gone))
        assert ((pair ^ words) & np.uint64((1 << bits) - 1) != 0).all()


def test_a_round_is_about_one_model_from_its_first_phase_on():
    federation = plan(secure=SECURE)
    for content in (b"", b"short", bytes(33)):
        bob = member(federation)
        assert "does not name the model" in reason(bob.answer(order(federation, content=content)))
        assert "asked for before" in reason(bob.answer(order(federation)))
    others = {name: member(federation, name) for name in NAMES if name != "bob"}
    bob = member(federation)
    assert "not the model" in reason(bob.answer(delivered(federation, bob, others, model=OTHER)))


def test_clients_that_are_promised_different_models_do_not_get_into_one_sum():
    """bob is promised a model that singles him out: he does not accept the others' keys, nor they his."""
    federation = plan(secure=SECURE)
    people = {name: member(federation, name) for name in NAMES}
    first = {name: order(federation, content=fingerprint(OTHER if name == "bob" else MODEL)) for name in NAMES}
    advertised = {name: person.answer(first[name]) for name, person in people.items()}
    for whose in (MODEL, OTHER):
        terms = federation.terms(KEYS, RUN, 0, 10, fingerprint(whose))
        roster = Roster(terms.digest, tuple(advertised[name] for name in NAMES))
        for name in NAMES:
            told = order(federation, phase="sharing", content=roster.encode(), model=b"")
            said = decode_answer(member(federation, name, state=people[name].saved()).answer(told))
            assert isinstance(said, Declined)
            assert "not signed by it for this round" in said.reason or "another round" in said.reason


def test_after_a_refusal_nothing_more_of_the_round_is_answered_also_by_another_process():
    federation = plan(secure=SECURE)
    others = {name: member(federation, name) for name in NAMES if name != "bob"}
    bob = member(federation)
    delivery = delivered(federation, bob, others, model=OTHER)
    roster = decode(Request.decode(bob._round.orders[1]).content)
    context = context_of(federation.terms(KEYS, RUN, 0, 10, fingerprint(MODEL)).digest, roster)
    assert "not the model" in reason(bob.answer(delivery))
    survivors = order(federation, phase="agreement", content=Survivors(context, NAMES).encode(), model=b"")
    for person in (bob, member(federation, state=bob.saved())):
        assert "out of turn" in reason(person.answer(survivors))


@pytest.mark.parametrize(
    "state",
    [
        b"junk", "text", pack(("a", "b")), pack(b"x"), pack((b"", "x", "0", b"", ())),
        pack((b"", "-1", "0", b"", ())), pack((b"", "9" * 5000, "0", b"", ())), pack((b"run", "0", "0", b"", ())),
        pack((b"", "0", "0", b"short", ())), pack((b"", "0", "0", b"", ("text",))),
    ],
)  # fmt: skip
def test_states_that_are_none(state):
    with pytest.raises(InvalidData):
        member(state=state)


def test_members_that_make_no_sense():
    x, y = DATA["bob"]
    with pytest.raises(InvalidParameter, match="identity"):
        Member(plan(), NETWORK, "bob", PEOPLE["eve"], KEYS, x, y)
    with pytest.raises(InvalidParameter, match="identity"):
        Member(plan(), NETWORK, "zoe", Identity.new(), KEYS, x, y)
    with pytest.raises(InvalidParameter, match="keys"):
        Member(plan(clients=6), NETWORK, "bob", PEOPLE["bob"], KEYS, x, y)
    with pytest.raises(InvalidParameter, match="secret"):
        Member(plan(), NETWORK, "bob", PEOPLE["bob"], KEYS, x, y, secret=b"short")
    with pytest.raises(InvalidData, match="targets"):
        Member(plan(), NETWORK, "bob", PEOPLE["bob"], KEYS, x, y[:-1])
    with pytest.raises(InvalidData, match="shape"):
        Member(plan(), NETWORK, "bob", PEOPLE["bob"], KEYS, x[:, :2], y)


def test_models_travel_exactly():
    rng = np.random.default_rng(1)
    model = [rng.normal(size=(4, 2)).astype(np.float32)]
    again, clip = unpack_model(pack_model(model, Fraction(1, 3)), START)
    assert np.array_equal(again[0], model[0])
    assert clip == Fraction(1, 3)
    assert again[0].flags.writeable


def test_a_judge_keeps_rounds_apart():
    judge = AnswerCheck(KEYS)
    bob = member()
    judge.open(plan().round_id(RUN, 0))
    first = Arrival("bob", bob.answer(order()))
    assert isinstance(judge.read(first, "update"), Update)
    judge.open(plan().round_id(RUN, 1))
    second = Arrival("bob", bob.answer(order(number=1)))
    unknown = decode_answer(second.data)
    other = replace(unknown, context=bytes(32)).signed(PEOPLE["bob"])
    found = [judge.read(each, "update") for each in (first, Arrival("bob", other.encode()), second)]
    assert [each.kind for each in found[:2]] == ["replayed", "wrong round"]
    assert isinstance(found[2], Update)
    assert all(isinstance(each, Dropped) for each in found[:2])
