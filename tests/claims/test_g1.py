"""G1: security controls who may ask, privacy controls what answers reveal; both are present.

One-time masks and public-key agreement appear where they belong: in secure aggregation.
"""

import itertools
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

import discreet
from discreet.curator.ledger import Ledger
from discreet.curator.policy import parse_policy
from discreet.curator.stores.memory import MemoryStore
from discreet.errors import BudgetExceeded, InvalidParameter, InvalidQuery
from discreet.learning.federated import Client, Coordinator, Identity, RoundSettings, crypto, simulate_round
from discreet.learning.federated.crypto import agree, opened, public, random_key, seal
from discreet.learning.federated.messages import Masked, decode

POLICY = """
[dataset]
name = "clinic"
neighbors = "add or remove one"
[budget]
epsilon = 2
[budget.everyone]
epsilon = 1000
[budget.analysts.intern]
epsilon = "0.5"
[tables.people]
source = "python"
unit = "row"
columns.age = {type = "integer", lower = 0, upper = 100, nullable = false}
"""
COUNT = "SELECT COUNT(*) AS n FROM people"


def clinic(analyst, ledger, ages=range(100)):
    table = pa.table({"age": list(ages)})
    return discreet.open(parse_policy(POLICY), tables={"people": table}, ledger=ledger, analyst=analyst)


# --- who may ask, and what an answer reveals -----------------------------------------------------------------------


@pytest.mark.claim("G1")
def test_who_may_ask_is_decided_before_anything_is_read():
    """The intern's cap ends the intern's questions, not the doctor's; the refusal is on no account of the data."""
    ledger = Ledger(MemoryStore())
    intern, doctor = clinic("intern", ledger), clinic("doctor", ledger)
    intern.ask(COUNT, epsilon="0.5")
    with pytest.raises(BudgetExceeded, match="the cap of 'intern'"):
        intern.ask(COUNT, epsilon="0.1")
    doctor.ask(COUNT, epsilon="1.5")
    with pytest.raises(BudgetExceeded, match="the budget of 'clinic'"):
        doctor.ask(COUNT, epsilon="0.1")
    who = [(charge.analyst, charge.loss.epsilon) for charge in ledger.charges("clinic")]
    assert [(name, float(epsilon)) for name, epsilon in who] == [("intern", 0.5), ("doctor", 1.5)]
    assert ledger.verify()


@pytest.mark.claim("G1")
def test_who_may_ask_still_gets_no_raw_row():
    """Access is not enough: rows themselves are refused, to everybody, and an answer is noisy."""
    ledger = Ledger(MemoryStore())
    doctor = clinic("doctor", ledger)
    with pytest.raises(InvalidQuery, match="private rows"):
        doctor.ask("SELECT age FROM people", epsilon=1)
    assert not ledger.charges("clinic")
    answers = {clinic("doctor", Ledger(MemoryStore())).ask(COUNT, epsilon="0.1").column("n")[0] for _ in range(8)}
    assert len(answers) > 1


# --- the masks ------------------------------------------------------------------------------------------------------


@pytest.mark.claim("G1")
def test_a_one_time_pad_hides_perfectly_and_comes_off():
    """c = a ⊕ b, and its sibling modulo 2^k: over all masks each c appears once, whatever a is; the mask takes it off."""
    values = range(16)
    for hide, show in (
        (lambda a, b: a ^ b, lambda c, b: c ^ b),
        (lambda a, b: (a + b) % 16, lambda c, b: (c - b) % 16),
    ):
        for a in values:
            assert Counter(hide(a, b) for b in values) == Counter(values)
            assert all(show(hide(a, b), b) == a for b in values)


@pytest.mark.claim("G1")
@pytest.mark.parametrize("bits", [8, 20, 40, 64])
def test_the_pads_of_all_pairs_cancel_in_the_sum_exactly(bits):
    names, length = ("ann", "bob", "cleo", "dan"), 50
    rng = np.random.default_rng(bits)
    limit = 2 ** (bits - 4)
    inputs = {name: rng.integers(-limit, limit, length) for name in names}
    sent = {name: crypto.wrapped(vector, bits) for name, vector in inputs.items()}
    for one, other in itertools.combinations(names, 2):
        key = random_key()
        for mine, theirs in ((one, other), (other, one)):
            crypto.apply(sent[mine], key, add=crypto.adds(mine, theirs))
    for name in names:
        assert (
            crypto.reduced(sent[name], bits) != crypto.reduced(crypto.wrapped(inputs[name], bits), bits)
        ).mean() > 0.9
    total = crypto.reduced(sum(sent.values()), bits).astype(object)
    signed = [int(word) - (1 << bits) * (int(word) >= 1 << (bits - 1)) for word in total]
    assert signed == [int(value) for value in sum(inputs.values())]


# --- the keys ------------------------------------------------------------------------------------------------------


@pytest.mark.claim("G1")
def test_two_agree_on_a_key_in_public_and_a_third_does_not_have_it():
    ann, bob, eve = (random_key() for _ in range(3))
    shared = agree(ann, public(bob), b"masks")
    assert shared == agree(bob, public(ann), b"masks")
    assert shared not in (
        agree(eve, public(ann), b"masks"),
        agree(eve, public(bob), b"masks"),
        public(ann),
        public(bob),
    )
    letter = seal(shared, b"a share", b"round 1")
    assert opened(agree(bob, public(ann), b"masks"), letter, b"round 1") == b"a share"
    assert opened(agree(eve, public(ann), b"masks"), letter, b"round 1") is None


@pytest.mark.claim("G1")
def test_only_known_identities_take_part():
    """A stranger who signs as somebody else is refused: security comes before the sum."""
    people = {name: Identity.new() for name in ("ann", "bob", "cleo")}
    terms = RoundSettings(
        round_id=bytes(16), clients={name: one.public for name, one in people.items()},
        threshold=2, colluding=0, length=3, bound=100, noise=None,
    )  # fmt: skip
    coordinator = Coordinator(terms)
    with pytest.raises(InvalidParameter, match="identity"):
        Client(terms, "ann", Identity.new())
    stranger = Client(terms, "ann", people["ann"]).advertise()
    forged = type(stranger)(**{name: getattr(stranger, name) for name in ("context", "sender", "sealing", "padding")})
    assert coordinator.receive(forged.signed(Identity.new()).encode()) is not None
    assert coordinator.receive(stranger.encode()) is None


@pytest.mark.claim("G1")
def test_in_a_whole_round_the_coordinator_sees_pads_and_gets_the_sum():
    people = {name: Identity.new() for name in ("ann", "bob", "cleo")}
    terms = RoundSettings(
        round_id=bytes(16), clients={name: one.public for name, one in people.items()},
        threshold=2, colluding=0, length=500, bound=100, noise=None,
    )  # fmt: skip
    inputs = {name: np.full(500, 7 * place) for place, name in enumerate(people)}
    seen = {}

    def tap(name, sent):
        message = decode(sent)
        if isinstance(message, Masked):
            seen[name] = crypto.parse(message.vector, terms.bits, 500)
        return sent

    total = simulate_round(terms, people, inputs, wire=tap)
    assert (total.values == 21).all()
    for words in seen.values():  # constant vectors: no trace of them
        assert len(np.unique(words)) > 200
