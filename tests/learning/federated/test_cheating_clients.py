"""What clients, or anyone on the wire, may send: refused with a reason, and the round goes on."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.learning.federated.conftest import IDENTITIES, Table, make_terms

from discreet.errors import InvalidData, InvalidParameter, ReleaseFailed
from discreet.learning.federated import Client, decode, simulate_round
from discreet.learning.federated.crypto import SHARE, commitment
from discreet.learning.federated.messages import Advertisement, Sharing, Survivors

VALUES = {"a": [1, 1, 1], "b": [20, 20, 20], "c": [300, 300, 300]}


def run(change, kind, *, count=3, threshold=2, sender="b"):
    """A round in which the message of one kind by one sender is changed on the wire; the total and its refusals."""
    terms = make_terms(count, threshold)

    def wire(name, data):
        return change(decode(data)) if name == sender and decode(data).kind == kind else data

    return simulate_round(terms, IDENTITIES, {name: VALUES.get(name, [0] * 3) for name in terms.names}, wire=wire)


def resigned(**fields):
    """The sender itself changes its message."""
    return lambda message: replace(message, **fields).signed(IDENTITIES[message.sender]).encode()


def test_a_message_of_another_round_is_refused():
    old = Table(make_terms(3, 2, round_id=b"o" * 16))
    deliveries = old.shared()
    replay = old.clients["b"].mask(deliveries["b"], [999, 999, 999]).encode()
    total = run(lambda _: replay, "masked")
    assert total.values.tolist() == [301, 301, 301]
    reasons = [refusal.reason for refusal in total.refusals if refusal.client == "b"]
    assert "another round" in reasons[0]
    assert "dropped" in reasons[1]


def test_a_message_of_the_same_terms_but_other_keys_is_refused():
    """A round that is started again under the same name: what was said then does not count now."""
    old = Table(make_terms(3, 2))
    replay = old.clients["b"].mask(old.shared()["b"], [999, 999, 999]).encode()
    total = run(lambda _: replay, "masked")
    assert total.clients == ("a", "c")


@pytest.mark.parametrize("length", [0, 2, 4])
def test_a_wrong_length_is_refused(length):
    total = run(resigned(vector=bytes(4 * length)), "masked")
    assert total.values.tolist() == [301, 301, 301]
    assert f"{length} numbers, expected 3" in total.refusals[0].reason


def test_numbers_beyond_the_modulus_are_refused():
    total = run(resigned(vector=b"\xff" * 12), "masked")
    assert "more than 13 bits" in total.refusals[0].reason


@pytest.mark.parametrize("data", [b"", b"junk", bytes(100), Survivors(bytes(32), ()).encode()])
def test_junk_is_refused(data):
    total = run(lambda _: data, "masked")
    assert total.clients == ("a", "c")
    assert len(total.refusals) == 2


def test_late_and_early_messages_are_refused(table):
    parties = table(3, 2)
    advertisement = parties.clients["a"].advertise().encode()
    others = [parties.clients[name].advertise().encode() for name in "bc"]
    coordinator = parties.coordinator
    for data in others:
        coordinator.receive(data)
    roster = coordinator.roster()
    assert "late" in coordinator.receive(advertisement).reason
    sharing = parties.clients["b"].share(roster).encode()
    assert Table(make_terms(3, 2)).coordinator.receive(sharing).reason.startswith("the sharing came too early")
    assert coordinator.receive(sharing) is None


def test_who_was_dropped_stays_out(table):
    parties = table(3, 2)
    for name in "bc":
        parties.coordinator.receive(parties.clients[name].advertise().encode())
    parties.coordinator.roster()
    sharing = Sharing(parties.coordinator._context, "a", (), (), b"", (), (), ()).signed(IDENTITIES["a"])
    assert "was dropped" in parties.coordinator.receive(sharing.encode()).reason


def test_a_copy_changes_nothing(table):
    parties = table(2, 2)
    data = parties.clients["a"].advertise().encode()
    assert parties.coordinator.receive(data) is None
    assert "the first one counts" in parties.coordinator.receive(data).reason
    assert parties.coordinator.missing == ("b",)


def test_two_different_messages_expel(table):
    parties = table(3, 2)
    first = parties.clients["a"].advertise()
    assert parties.coordinator.receive(first.encode()) is None
    second = resigned(padding=first.sealing)(first)
    assert "two different messages" in parties.coordinator.receive(second).reason
    assert "was dropped" in parties.coordinator.receive(first.encode()).reason
    for name in "bc":
        parties.coordinator.receive(parties.clients[name].advertise().encode())
    assert len(parties.coordinator.roster().advertisements) == 2


def test_nobody_is_expelled_for_what_they_did_not_sign(table):
    parties = table(2, 2)
    true = parties.clients["a"].advertise()
    forged = replace(true, padding=true.sealing).encode()
    assert "not signed" in parties.coordinator.receive(forged).reason
    assert parties.coordinator.receive(true.encode()) is None
    assert "not signed" in parties.coordinator.receive(forged).reason
    assert parties.coordinator.missing == ("b",)


def test_strangers_are_refused(table):
    stranger = Advertisement(make_terms(2, 2).digest, "h" * 500, bytes(32), bytes(32)).signed(IDENTITIES["h"])
    refusal = table(2, 2).coordinator.receive(stranger.encode())
    assert "not a client" in refusal.reason
    assert len(refusal.client) == 200


@pytest.mark.parametrize("key", [bytes(32), b"\x01" + bytes(31), b"short"])
def test_keys_that_give_everybody_the_same_secret_are_refused(key):
    total = run(resigned(padding=key), "advertisement")
    assert total.clients == ("a", "c")
    assert "no secret can be agreed" in total.refusals[0].reason


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(["advertisement", "sharing", "masked", "agreement", "unmasking"]), st.data())
def test_no_flipped_bit_is_accepted(kind, data):
    seen = []

    def flip(message):
        changed = bytearray(message.encode())
        changed[data.draw(st.integers(0, len(changed) - 1))] ^= 1 << data.draw(st.integers(0, 7))
        seen.append(True)
        return bytes(changed)

    total = run(flip, kind)
    assert seen == [True]
    in_sum = {"a", "c"} if kind in ("advertisement", "sharing", "masked") else {"a", "b", "c"}
    assert set(total.clients) == in_sum
    assert len(total.refusals) == 2
    assert total.values.tolist() == [sum(VALUES[name][0] for name in in_sum)] * 3


def spoiled(*readers):
    """The sender's letters to these readers cannot be opened."""

    def change(message):
        letters = dict(zip(message.recipients, message.letters, strict=True))
        letters.update({name: bytes(len(letters[name])) for name in readers})
        return resigned(letters=tuple(letters.values()))(message)

    return change


def test_a_letter_that_cannot_be_opened_costs_a_share_not_the_round():
    total = run(spoiled("a"), "sharing", count=4, threshold=3)
    assert total.clients == ("a", "b", "c", "d")
    assert total.values.tolist() == [321] * 3
    assert [(refusal.client, "of 'b' could not be read" in refusal.reason) for refusal in total.refusals] == [
        ("a", True)
    ]


def test_a_client_that_can_read_too_few_letters_leaves():
    with pytest.raises(ReleaseFailed, match="1 client sent a valid masked, 3 are needed"):
        run(spoiled("a", "c"), "sharing", count=3, threshold=3)


def test_a_client_whose_shares_nobody_can_read_ends_the_round_and_is_named():
    with pytest.raises(
        ReleaseFailed, match="the seed of 'd' is lost, by its fault or that of those who hold its shares"
    ):
        run(spoiled("a", "b", "c"), "sharing", count=4, threshold=3, sender="d")


def test_a_false_share_is_not_used(table):
    parties = table(4, 3)
    agreements = parties.agreed({"a": [5, 6, 7]})
    for name, client in parties.clients.items():
        answer = client.unmask(agreements)
        if name == "b":
            answer = replace(answer, seed_shares=tuple(bytes(SHARE) for _ in answer.seed_shares)).signed(
                IDENTITIES["b"]
            )
        assert parties.coordinator.receive(answer.encode()) is None
    total = parties.coordinator.total()
    assert total.values.tolist() == [5, 6, 7]
    assert {refusal.client for refusal in total.refusals} == {"b"}
    assert "of the seed of 'a' was not the one promised" in total.refusals[0].reason


def test_too_many_false_shares_end_the_round(table):
    parties = table(3, 2)
    agreements = parties.agreed()
    for name, client in parties.clients.items():
        answer = client.unmask(agreements)
        if name in "bc":
            answer = replace(answer, seed_shares=tuple(b"" for _ in answer.seed_shares)).signed(IDENTITIES[name])
        parties.coordinator.receive(answer.encode())
    with pytest.raises(ReleaseFailed, match="the seed of 'a' is lost.*: 1 share is not enough"):
        parties.coordinator.total()
    assert parties.coordinator.phase == "over"


def test_a_client_that_shares_something_else_is_named():
    def other_seed(message):
        return resigned(seed=commitment(bytes(32), b"seed"))(message)

    with pytest.raises(ReleaseFailed, match="'b' shared something else than its seed"):
        run(other_seed, "sharing")


@pytest.mark.parametrize("field", ["recipients", "letters", "holders", "seed_shares", "key_shares", "seed"])
def test_incomplete_sharing_is_refused(field):
    total = run(lambda message: resigned(**{field: getattr(message, field)[:-1]})(message), "sharing")
    assert total.clients == ("a", "c")
    assert "not one for each client" in total.refusals[0].reason


def test_pads_with_others_are_refused():
    total = run(resigned(sharers=("a", "b")), "masked")
    assert "masks with others" in total.refusals[0].reason


def test_agreement_to_another_list_is_refused():
    total = run(resigned(survivors=("a", "b")), "agreement")
    assert total.clients == ("a", "b", "c")
    assert "another list of survivors" in total.refusals[0].reason


def test_incomplete_unmasking_is_refused():
    total = run(lambda message: resigned(seed_shares=message.seed_shares[:-1])(message), "unmasking")
    assert "not one for each client" in total.refusals[0].reason


def test_phases_are_closed_in_order(table):
    coordinator = table(2, 2).coordinator
    for close in (coordinator.deliveries, coordinator.survivors, coordinator.agreements, coordinator.total):
        with pytest.raises(InvalidData, match="this round awaits: advertisement"):
            close()
    with pytest.raises(ReleaseFailed):
        coordinator.roster()
    with pytest.raises(InvalidData, match="this round awaits: over"):
        coordinator.roster()


def test_after_the_end_all_is_late(table):
    parties = table(2, 2)
    with pytest.raises(ReleaseFailed):
        parties.coordinator.roster()
    assert "late" in parties.coordinator.receive(parties.clients["a"].advertise().encode()).reason


def test_a_client_needs_its_own_identity():
    with pytest.raises(InvalidParameter, match="identity"):
        Client(make_terms(2, 2), "a", IDENTITIES["b"])
    with pytest.raises(InvalidParameter, match="name"):
        Client(make_terms(2, 2), "z", IDENTITIES["a"])


def test_secrets_are_not_shown(table):
    parties = table(2, 2)
    parties.advertised()
    client = parties.clients["a"]
    assert client._secrets.seed not in repr(client._secrets).encode("latin-1", "replace")
    assert "seed" not in repr(client._secrets)
    assert "secret" not in repr(IDENTITIES["a"])
