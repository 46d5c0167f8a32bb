"""A client believes its own settings, and answers each phase of each round once."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.learning.federated.fleets import DATA, NAMES, NETWORK, SECURE, plan

from discreet.errors import InvalidData, InvalidParameter
from discreet.learning.federated import Arrival, Coordinator, Dropped, Identity, Member
from discreet.learning.federated.fleet import seeded_identity, seeded_secret
from discreet.learning.federated.judging import Judge
from discreet.learning.federated.messages import Advertisement, Masked
from discreet.learning.federated.orders import (
    Declined,
    Order,
    Update,
    decode_answer,
    pack_model,
    unpack_model,
    unpack_vector,
)
from discreet.learning.federated.packing import pack

PEOPLE = {name: seeded_identity(7, name) for name in NAMES}
KEYS = {name: person.public for name, person in PEOPLE.items()}
RUN = b"r" * 16
START = NETWORK.start(seed=1)


def member(federation=None, name="bob", **options):
    return Member(federation or plan(), NETWORK, name, PEOPLE[name], KEYS, *DATA[name], **options)


def order(plan_=None, **changes):
    federation = plan_ or plan()
    model = pack_model(START, Fraction(1))
    phase = "advertisement" if federation.secure else "update"
    fields = dict(federation=federation.digest, run=RUN, number=0, phase=phase, content=b"", model=model)
    return Order(**(fields | changes)).encode()


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


def delivered(federation, bob, others):
    """All go up to the delivery of shares; the order that brings bob his."""
    coordinator = Coordinator(federation.terms(KEYS, RUN, 0, 10))
    for person in (bob, *others.values()):
        assert coordinator.receive(person.answer(order(federation))) is None
    roster = coordinator.roster().encode()
    for person in (bob, *others.values()):
        assert coordinator.receive(person.answer(order(federation, phase="sharing", content=roster, model=b""))) is None
    return order(federation, phase="masked", content=coordinator.deliveries()["bob"].encode())


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


@pytest.mark.parametrize("state", [b"junk", pack(("a", "b")), pack(b"x")])
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
    judge = Judge(KEYS)
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
