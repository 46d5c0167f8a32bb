"""What the coordinator sees depends on the sum alone: by enumeration of all masks, and by a statistical test."""

import copy
import itertools
from collections import Counter

import numpy as np
import pytest
from tests.learning.federated.conftest import Table, make_terms
from tests.statistical.power import assert_follows, assert_rejected

from discreet.learning.federated import crypto
from discreet.learning.federated.client import own_mask, pair_mask
from discreet.learning.federated.crypto import public

BITS = 2
ALL = range(1 << BITS)
PAIRS = ("ab", "ac", "bc")


class Enumeration:
    """Three clients just before they send, whose masks are replaced by every choice of numbers modulo 4."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.parties = Table(make_terms(3, 3, length=1, bound=1))
        self.parties.terms.__dict__["bits"] = BITS
        self.deliveries = self.parties.shared()
        context = self.parties.coordinator._masks
        secrets = {name: client._secrets for name, client in self.parties.clients.items()}
        self.keys = {own_mask(secret.seed, context): name for name, secret in secrets.items()}
        for one, other in PAIRS:
            key = pair_mask(secrets[one].padding, public(secrets[other].padding), context, (one, other))
            self.keys[key] = one + other
        self.masks: dict[str, int] = {}
        monkeypatch.setattr(crypto, "apply", self.apply)

    def apply(self, words, key, *, add):
        mask = words.dtype.type(self.masks[self.keys[key]])
        np.add(words, mask, out=words) if add else np.subtract(words, mask, out=words)

    def sent(self, name: str, value: int) -> dict[tuple[int, ...], int]:
        """What a client sends, for every choice of its own mask and of the masks with the two others."""
        mine = [pair for pair in PAIRS if name in pair]
        found = {}
        for own, first, second in itertools.product(ALL, repeat=3):
            self.masks = {name: own, mine[0]: first, mine[1]: second}
            client = copy.deepcopy(self.parties.clients[name])
            vector = client.mask(self.deliveries[name], [value]).vector
            found[own, first, second] = int(crypto.parse(vector, BITS, 1)[0])
        return found

    def view(self, inputs: tuple[int, int, int], shown: tuple[str, ...], own=ALL) -> Counter[tuple[int, ...]]:
        """How many choices of all masks give each thing that is seen; `shown` names masks that are revealed too."""
        tables = [self.sent(name, value) for name, value in zip("abc", inputs, strict=True)]
        seen: Counter[tuple[int, ...]] = Counter()
        for a, b, c, ab, ac, bc in itertools.product(own, own, own, ALL, ALL, ALL):
            values = {"a": a, "b": b, "c": c, "ab": ab, "ac": ac, "bc": bc}
            sent = tables[0][a, ab, ac], tables[1][b, ab, bc], tables[2][c, ac, bc]
            seen[(*sent, *(values[name] for name in shown))] += 1
        return seen


@pytest.fixture
def enumeration(monkeypatch):
    return Enumeration(monkeypatch)


def test_all_stay_and_only_the_sum_is_seen(enumeration):
    """The seeds of all are revealed. Inputs of one sum: the same view. Of another sum: never the same view."""
    shown = ("a", "b", "c")
    same = [enumeration.view(inputs, shown) for inputs in ((1, 0, 0), (0, 0, 1), (-1, 1, 1))]
    assert same[0] == same[1] == same[2]
    assert not set(same[0]) & set(enumeration.view((1, 1, 0), shown))


def test_one_leaves_late_and_its_vector_stays_hidden(enumeration):
    """c's vector came after its masks were revealed: only a + b is seen, c is behind the mask of its seed."""
    shown = ("a", "b", "ac", "bc")
    same = [enumeration.view(inputs, shown) for inputs in ((1, 0, 0), (0, 1, 1), (0, 1, -1))]
    assert same[0] == same[1] == same[2]
    assert not set(same[0]) & set(enumeration.view((1, 1, 0), shown))


def test_without_the_pad_of_the_seed_a_late_vector_would_leak(enumeration):
    """The attack that the seed is there for: the enumeration sees it."""
    shown = ("a", "b", "ac", "bc")
    one, other = (enumeration.view(inputs, shown, own=[0]) for inputs in ((1, 0, 0), (1, 0, 1)))
    assert not set(one) & set(other)


def test_a_colluder_and_the_coordinator_see_the_sum_of_the_others(enumeration):
    shown = ("a", "b", "c", "ac", "bc")
    one, same, other = (enumeration.view((x, y, 1), shown) for x, y in ((1, 0), (0, 1), (0, 0)))
    assert one == same
    assert not set(one) & set(other)


def test_two_colluders_see_the_third(enumeration):
    """No protocol could hide it: the sum over one honest client is its vector."""
    shown = ("a", "b", "c", "ab", "ac", "bc")
    one, other = (enumeration.view((x, 0, 0), shown) for x in (0, 1))
    assert not set(one) & set(other)


def uniform(bits):
    return lambda x: np.clip((np.floor(x) + 1) / 2**bits, 0, 1)


@pytest.mark.parametrize("bound", [1000, 2**40])
def test_what_is_sent_is_uniform(bound):
    """Constant vectors: what each client sends, and the sum of any two, follows the uniform distribution."""
    parties = Table(make_terms(3, 2, length=30_000, bound=bound))
    deliveries, bits = parties.shared(), parties.terms.bits
    constant = np.full(30_000, bound)
    sent = {}
    for name, client in parties.clients.items():
        sent[name] = crypto.parse(client.mask(deliveries[name], constant).vector, bits, 30_000)
    for name, words in sent.items():
        assert_follows((words >> np.uint32(bits - 12)).astype(np.int64), uniform(12), f"what {name} sends")
    for one, other in PAIRS:
        both = crypto.reduced(sent[one] + sent[other], bits)
        assert_follows((both >> np.uint32(bits - 12)).astype(np.int64), uniform(12), f"the sum of {one} and {other}")
        low = (sent[one] & np.uint32(63)) * np.uint32(64) + (sent[other] & np.uint32(63))
        assert_follows(low.astype(np.int64), uniform(12), f"low bits of {one} and {other} together")


def test_the_statistical_test_would_see_a_missing_pad(monkeypatch):
    """Masks of half their range: the test rejects them."""
    true = crypto.apply

    def half(words, key, *, add):
        stream = np.zeros_like(words)
        true(stream, key, add=True)
        words += stream & words.dtype.type(2**11 - 1) if add else np.zeros_like(words)

    monkeypatch.setattr(crypto, "apply", half)
    parties = Table(make_terms(2, 2, length=30_000, bound=1000))
    delivery = parties.shared()["b"]
    words = crypto.parse(
        parties.clients["b"].mask(delivery, np.zeros(30_000, np.int64)).vector, parties.terms.bits, 30_000
    )
    assert_rejected(words.astype(np.int64), uniform(11), uniform(parties.terms.bits), "half a mask")
