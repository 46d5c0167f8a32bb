"""A coordinator that lies: clients refuse, and what it can collect is never two secrets of one client."""

import itertools
from dataclasses import replace

import pytest
from tests.learning.federated.conftest import IDENTITIES, Table, make_terms

from discreet.errors import InvalidData, InvalidParameter
from discreet.learning.federated import Client
from discreet.learning.federated.crypto import SHARE, public, random_key, recover
from discreet.learning.federated.messages import (
    Advertisement,
    Agreement,
    Agreements,
    Delivery,
    Roster,
    Survivors,
    decode,
)


def survivors(parties, names):
    return Survivors(parties.coordinator._context, tuple(names))


def agreements(*signed):
    ordered = sorted(signed, key=lambda message: message.sender)
    names = tuple(message.sender for message in ordered)
    return Agreements(ordered[0].context, names, tuple(message.signature for message in ordered))


def test_a_client_signs_one_list(table):
    parties = table(4, 3)
    true = parties.masked()
    client = parties.clients["a"]
    client.agree(true)
    with pytest.raises(InvalidData, match="was asked to agree; expected to unmask: each step is taken once"):
        client.agree(survivors(parties, "abc"))


def test_a_client_reveals_once(table):
    parties = table(3, 2)
    agreed = parties.agreed()
    client = parties.clients["a"]
    client.unmask(agreed)
    with pytest.raises(InvalidData, match="its round is done"):
        client.unmask(agreed)
    assert client._secrets is None


def test_different_lists_for_different_clients(table):
    """a and b are told that d left, c and d that a left: each side has two signatures of the three it needs."""
    parties = table(4, 3)
    parties.masked()
    told = {"a": "abc", "b": "abc", "c": "bcd", "d": "bcd"}
    signed = {name: parties.clients[name].agree(survivors(parties, names)) for name, names in told.items()}
    for name, client in parties.clients.items():
        with pytest.raises(InvalidData, match=r"must have signed .* 2 have: the coordinator may have shown different"):
            client.unmask(agreements(*signed.values()))
        assert client._secrets is None, f"{name} keeps secrets after it left"


@pytest.mark.parametrize(
    ("count", "threshold", "colluding"), [(5, 4, 1), (5, 3, 0), (7, 5, 2), (4, 3, 1), (8, 6, 3), (6, 4, 1)]
)
def test_no_two_lists_find_enough_signatures(count, threshold, colluding):
    """All ways to show list S to some honest clients and S' to the others, colluding clients signing both."""
    make_terms(count, threshold, colluding=colluding)
    honest = count - colluding

    def splits(needed):
        return [k for k in range(honest + 1) if k + colluding >= needed and honest - k + colluding >= needed]

    assert not splits(threshold)
    assert splits(threshold - 1)  # one signature fewer would not do, and is refused
    with pytest.raises(InvalidParameter, match="threshold"):
        make_terms(count, threshold - 1, colluding=colluding)


def test_neither_list_reveals_even_with_the_colluder(table):
    """The same with real messages: e works with the coordinator and signs everything."""
    for shown in itertools.product([0, 1], repeat=4):
        parties = table(5, 4, colluding=1)
        parties.masked()
        lists = ("abcde", "bcde")
        parts = dict(zip("abcd", shown, strict=True))
        parts["a"] = 0  # a is not on the second list
        signed = {name: parties.clients[name].agree(survivors(parties, lists[part])) for name, part in parts.items()}
        revealed = set()
        for part, names in enumerate(lists):
            evil = Agreement(parties.coordinator._context, "e", tuple("abcde"), tuple(names)).signed(IDENTITIES["e"])
            shown_to = [name for name in parts if parts[name] == part]
            if not shown_to:
                continue
            pack = agreements(evil, *(signed[name] for name in shown_to))
            for name in shown_to:
                try:
                    parties.clients[name].unmask(pack)
                    revealed.add(part)
                except InvalidData:
                    pass
        assert len(revealed) <= 1


def test_signatures_of_strangers_copies_and_absentees_do_not_count(table):
    parties = table(5, 3)
    parties.masked()
    shown = survivors(parties, "abc")
    a, b, c = (parties.clients[name].agree(shown) for name in "abc")
    outside = Agreement(a.context, "d", a.sharers, a.survivors).signed(IDENTITIES["d"])
    for client, pack in (
        ("a", agreements(a, b, outside)),
        ("b", Agreements(a.context, ("a", "a", "b"), (a.signature, a.signature, b.signature))),
        ("c", Agreements(a.context, ("a", "b", "c"), (a.signature, b.signature, b.signature))),
    ):
        with pytest.raises(InvalidData, match="leaves the round"):
            parties.clients[client].unmask(pack)


def test_shares_are_of_one_kind_for_each_client(table):
    """d's vector never arrives: seeds of a, b, c and the mask key of d come back, and nothing of the other kind."""
    parties = table(4, 3)
    deliveries = parties.shared()
    secrets = {name: client._secrets for name, client in parties.clients.items()}
    for name in "abc":
        parties.coordinator.receive(parties.clients[name].mask(deliveries[name], [0, 0, 0]).encode())
    shown = parties.coordinator.survivors()
    signed = [parties.clients[name].agree(shown) for name in "abc"]
    answers = [parties.clients[name].unmask(agreements(*signed)) for name in "abc"]
    points = parties.terms.points
    for place, owner in enumerate("abc"):
        shares = {points[answer.sender]: answer.seed_shares[place] for answer in answers}
        assert recover(shares, threshold=3) == secrets[owner].seed
    shares = {points[answer.sender]: answer.key_shares[0] for answer in answers}
    assert recover(shares, threshold=3) == secrets["d"].padding
    assert all(answer.survivors == ("a", "b", "c") and answer.left == ("d",) for answer in answers)
    told = b"".join(answer.encode() for answer in answers)
    for owner, secret in secrets.items():
        for holder, kept in secret.held.items():
            hidden = kept[SHARE:] if holder != "d" else kept[:SHARE]
            assert hidden not in told, (owner, holder)


@pytest.mark.parametrize(
    ("names", "words"),
    [("bcd", "with this client among them"), ("ab", "2 survivors are fewer than the 3"), ("abch", "some of those")],
)
def test_lists_that_cannot_be_are_refused(table, names, words):
    parties = table(4, 3)
    parties.masked()
    with pytest.raises(InvalidData, match=words):
        parties.clients["a"].agree(survivors(parties, names))
    with pytest.raises(InvalidData, match="its round is abandoned"):
        parties.clients["a"].agree(survivors(parties, "abcd"))


def rosters(parties):
    sent = {name: client.advertise() for name, client in parties.clients.items()}
    return sent, lambda messages: Roster(parties.terms.digest, tuple(m.encode() for m in messages))


def test_a_substituted_key_is_refused(table):
    """The coordinator in the middle: keys that it made itself in the place of b's."""
    parties = table(3, 2)
    sent, roster = rosters(parties)
    sent["b"] = replace(sent["b"], padding=public(random_key()))
    with pytest.raises(InvalidData, match="the keys of 'b' are not signed by it for this round"):
        parties.clients["a"].share(roster(sent.values()))


def test_keys_of_an_earlier_round_are_refused(table):
    parties = table(3, 2)
    sent, roster = rosters(parties)
    sent["b"] = Client(make_terms(3, 2, round_id=b"o" * 16), "b", IDENTITIES["b"]).advertise()
    with pytest.raises(InvalidData, match="not signed by it for this round"):
        parties.clients["a"].share(roster(sent.values()))


def test_other_rosters_are_refused(table):
    for change, words in (
        (lambda sent: [sent["b"], sent["c"], sent["d"]], "does not hold the keys that this client advertised"),
        (lambda sent: [sent["a"], sent["b"]], "2 participants are fewer than the 3"),
        (lambda sent: [sent["b"], sent["a"], sent["c"]], "order of their names"),
        (lambda sent: [sent["a"], sent["a"], sent["b"], sent["c"]], "order of their names"),
        (lambda sent: [*sent.values(), Survivors(b"", ())], "not a list of advertisements"),
        (lambda sent: [*sent.values(), Advertisement(sent["a"].context, "h", b"", b"")], "'h' are not signed"),
    ):
        parties = table(4, 3)
        sent, roster = rosters(parties)
        with pytest.raises(InvalidData, match=words):
            parties.clients["a"].share(roster(change(sent)))


def test_weak_keys_of_a_colluder_are_refused(table):
    parties = table(3, 2)
    sent, roster = rosters(parties)
    sent["c"] = replace(sent["c"], padding=bytes(32)).signed(IDENTITIES["c"])
    with pytest.raises(InvalidData, match="no secret can be agreed with the keys of 'c'"):
        parties.clients["a"].share(roster(sent.values()))


def test_different_rosters_for_different_clients(table):
    """a and b are told of three, c and d of all four: a and b cannot read enough letters, and leave."""
    parties = table(4, 3)
    sent, roster = rosters(parties)
    small, large = roster([sent[name] for name in "abc"]), roster(sent.values())
    shared = {name: parties.clients[name].share(small if name in "ab" else large) for name in "abcd"}
    letters = {name: dict(zip(s.recipients, s.letters, strict=True)) for name, s in shared.items()}
    pack = Delivery(shared["a"].context, "a", ("b", "c"), (letters["b"]["a"], letters["c"]["a"]))
    with pytest.raises(InvalidData, match="2 clients gave readable shares, counting itself; 3 were agreed on"):
        parties.clients["a"].mask(pack, [0, 0, 0])


def test_deliveries_that_cannot_be_are_refused(table):
    for change in (
        lambda d: {"recipient": "b"},
        lambda d: {"dealers": d.dealers[1:]},
        lambda d: {"dealers": ("a", "b", "c"), "letters": d.letters},
        lambda d: {"dealers": ("b", "c", "h")},
        lambda d: {"context": bytes(32)},
    ):
        parties = table(4, 3)
        delivery = parties.shared()["a"]
        with pytest.raises(InvalidData, match="client 'a' leaves the round"):
            parties.clients["a"].mask(replace(delivery, **change(delivery)), [0, 0, 0])


def test_letters_of_one_cannot_pass_for_those_of_another(table):
    parties = table(4, 3)
    delivery = parties.shared()["a"]
    turned = replace(delivery, letters=(delivery.letters[1], delivery.letters[0], delivery.letters[2]))
    with pytest.raises(InvalidData, match="2 clients gave readable shares"):
        parties.clients["a"].mask(turned, [0, 0, 0])


def test_the_wrong_message_is_refused(table):
    parties = table(2, 2)
    client = parties.clients["a"]
    client.advertise()
    with pytest.raises(InvalidData, match="the coordinator sent a Survivors, expected Roster"):
        client.share(decode(survivors(parties, "ab").encode()))


def test_unusable_values_do_not_cost_the_client_its_place(table):
    parties = table(2, 2)
    delivery = parties.shared()["a"]
    with pytest.raises(InvalidData, match="snap to a grid first"):
        parties.clients["a"].mask(delivery, [float("nan"), 0, 0])
    assert parties.clients["a"].mask(delivery, [1, 2, 3]).sender == "a"


def test_fewer_than_the_threshold_recover_nothing(table):
    """Two of three needed shares of everybody's secrets, which is what two colluding clients hold."""
    parties = table(4, 3)
    deliveries = parties.shared()
    for name in "cd":
        parties.clients[name].mask(deliveries[name], [0, 0, 0])
    held = {name: parties.clients[name]._secrets.held["a"] for name in "cd"}
    shares = {parties.terms.points[name]: text[:SHARE] for name, text in held.items()}
    with pytest.raises(InvalidData, match="2 shares are not enough"):
        recover(shares, threshold=3)
    assert recover(shares, threshold=2) != parties.clients["a"]._secrets.seed


def test_tables_are_made_anew():
    one, other = Table(make_terms(2, 2)), Table(make_terms(2, 2))
    assert one.clients["a"].advertise().padding != other.clients["a"].advertise().padding
