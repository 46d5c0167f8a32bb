"""A client's side of one round, as a state machine: five steps, each taken once, in order.

::

    advertise() ──Advertisement──▸            ◂──Roster───── share(roster) ──Sharing──▸
    ◂──Delivery── mask(delivery, values) ──Masked──▸   ◂──Survivors── agree(survivors) ──Agreement──▸
    ◂──Agreements── unmask(agreements) ──Unmasking──▸

A client believes its terms, its own identity and the signatures of others; not the coordinator. A step that is refused
ends the round for this client (`InvalidData` says why), because what comes after a lie is not worth an answer.
"""

import hashlib
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.errors import InvalidData, InvalidParameter
from discreet.learning.federated import crypto
from discreet.learning.federated.crypto import (
    SHARE,
    Identity,
    agree,
    commitment,
    derive,
    opened,
    public,
    random_key,
    seal,
    split,
    usable,
)
from discreet.learning.federated.messages import (
    Advertisement,
    Agreement,
    Agreements,
    Delivery,
    Masked,
    Message,
    Roster,
    RoundSettings,
    Sharing,
    Survivors,
    Unmasking,
    context_of,
    decode,
    in_order,
    pack,
)
from discreet.noise import Entropy

_STEPS = ("advertise", "share", "mask", "agree", "unmask", "done")


_M = TypeVar("_M", Advertisement, Sharing, Masked, Agreement, Unmasking)


@dataclass(slots=True)
class _Secrets:
    """What must not outlive the round. Python cannot wipe memory; the references are dropped."""

    sealing: bytes = field(repr=False)
    padding: bytes = field(repr=False)
    seed: bytes = field(repr=False)
    held: dict[str, bytes] = field(default_factory=dict, repr=False)  # dealer → seed share + key share


class Client:
    """One client in one round.

    Guarantee: a client reveals, for each other client, a share of its seed or of its mask key, never both, and only
    after `threshold` clients have signed the same list of survivors.
    Proof. Which of the two depends on the list that it signed in `agree`, which works once; `unmask` works once, and
    checks signatures under exactly that list.

    >>> from discreet.learning.federated import Client, Identity, RoundSettings
    >>> ann, bob = Identity.new(), Identity.new()
    >>> terms = RoundSettings(
    ...     round_id=bytes(16), clients={"ann": ann.public, "bob": bob.public},
    ...     threshold=2, colluding=0, length=3, bound=10, noise=None,
    ... )
    >>> client = Client(terms, "ann", ann)
    >>> client.advertise().sender
    'ann'
    >>> client.advertise()
    Traceback (most recent call last):
    discreet.errors.InvalidData: client 'ann' was asked to advertise; expected to share: each step is taken once, ...
    """

    def __init__(self, terms: RoundSettings, name: str, identity: Identity, *, entropy: Entropy | None = None) -> None:
        if name not in terms.clients:
            raise InvalidParameter("name", name, "one of the clients that the terms name")
        if terms.clients[name] != identity.public:
            raise InvalidParameter(
                "identity", "another one", f"the identity whose public key the terms give to {name!r}"
            )
        self.terms, self.name = terms, name
        self._identity, self._entropy = identity, entropy
        self._next = "advertise"
        self._secrets: _Secrets | None = None
        self._roster: dict[str, Advertisement] = {}
        self._context = terms.digest
        self._sharers: tuple[str, ...] = ()
        self._agreed: Agreement | None = None
        self.unreadable: tuple[str, ...] = ()
        """Whose letters could not be opened: they, or the coordinator, sent something else than was agreed."""

    def advertise(self) -> Advertisement:
        """Step 1: fresh keys for this round."""
        secrets = self._begin("advertise")
        keys = public(secrets.sealing), public(secrets.padding)
        return self._end("advertise", Advertisement(self._context, self.name, *keys))

    def share(self, roster: Roster) -> Sharing:
        """Step 2: check everybody's keys, and give each client a share of the two secrets, sealed."""
        secrets = self._begin("share")
        self._roster = self._checked_roster(roster, secrets)
        self._context = context_of(self.terms.digest, roster)
        seeds, keys = (self._split(secret) for secret in (secrets.seed, secrets.padding))
        secrets.held[self.name] = seeds[self.name] + keys[self.name]
        others = tuple(name for name in self._roster if name != self.name)
        sharing = Sharing(
            context=self._context,
            sender=self.name,
            recipients=others,
            letters=tuple(
                seal(self._letter_key(self.name, name, secrets), seeds[name] + keys[name], self._context)
                for name in others
            ),
            seed=commitment(secrets.seed, b"seed"),
            holders=tuple(self._roster),
            seed_shares=tuple(commitment(share, b"seed share") for share in seeds.values()),
            key_shares=tuple(commitment(share, b"key share") for share in keys.values()),
        )
        return self._end("share", sharing)

    def mask(self, delivery: Delivery, values: ArrayLike) -> Masked:
        """Step 3: keep the shares of the others; hide the values, with this client's share of noise, under masks."""
        vector = _whole(values, self.terms)
        secrets = self._begin("mask")
        self._sharers = self._open_letters(delivery, secrets)
        if self.terms.noise is not None:
            vector = vector + self.terms.noise.draw(self.terms.length, entropy=self._entropy)  # modulo 2^64, so 2^k
        words = crypto.wrapped(vector, self.terms.bits)
        context = mask_context(self._context, self._sharers)
        crypto.apply(words, own_mask(secrets.seed, context), add=True)
        for name in self._sharers:
            if name != self.name:
                key = pair_mask(secrets.padding, self._roster[name].padding, context, (self.name, name))
                crypto.apply(words, key, add=crypto.adds(self.name, name))
        hidden = crypto.reduced(words, self.terms.bits).tobytes()
        return self._end("mask", Masked(self._context, self.name, self._sharers, hidden))

    def agree(self, survivors: Survivors) -> Agreement:
        """Step 4: sign the list of survivors that the coordinator shows."""
        self._begin("agree")
        self._expect(survivors, Survivors)
        names = survivors.names
        if not in_order(names) or not set(names) <= set(self._sharers) or self.name not in names:
            raise self._refusal("the survivors are not some of those who shared secrets, with this client among them")
        if len(names) < self.terms.threshold:
            raise self._refusal(f"{len(names)} survivors are fewer than the {self.terms.threshold} agreed on")
        self._agreed = self._end("agree", Agreement(self._context, self.name, self._sharers, names))
        return self._agreed

    def unmask(self, agreements: Agreements) -> Unmasking:
        """Step 5: if enough survivors signed the same list, reveal one share for each client. Then forget all."""
        secrets = self._begin("unmask")
        survivors = self._checked_agreements(agreements)
        left = tuple(name for name in self._sharers if name not in survivors)
        seeds = tuple(secrets.held.get(name, b"")[:SHARE] for name in survivors)
        keys = tuple(secrets.held.get(name, b"")[SHARE:] for name in left)
        self._secrets = None
        return self._end("unmask", Unmasking(self._context, self.name, survivors, seeds, left, keys))

    def _begin(self, step: str) -> _Secrets:
        """Enter a step. Unless it ends well (`_end`), no other can be taken."""
        if self._next != step:
            after = f"expected to {self._next}" if self._next in _STEPS[:-1] else f"its round is {self._next}"
            hint = "each step is taken once, in order"
            raise InvalidData(f"client {self.name!r} was asked to {step}; {after}: {hint}")
        self._next = "abandoned"
        if self._secrets is None:  # the first step
            sealing, padding, seed = (random_key(self._entropy) for _ in range(3))
            self._secrets = _Secrets(sealing, padding, seed)
        return self._secrets

    def _end(self, step: str, message: _M) -> _M:
        self._next = _STEPS[_STEPS.index(step) + 1]
        return message.signed(self._identity)

    def _refusal(self, reason: str) -> InvalidData:
        self._secrets = None
        return InvalidData(f"client {self.name!r} leaves the round: {reason}")

    def _expect(self, message: object, kind: type[Message]) -> None:
        if not isinstance(message, kind):
            raise self._refusal(f"the coordinator sent a {type(message).__name__}, expected {kind.__name__}")
        if message.context != self._context:
            raise self._refusal("the message belongs to another round, or to another list of participants")

    def _checked_roster(self, roster: Roster, secrets: _Secrets) -> dict[str, Advertisement]:
        """Everybody's advertisements: signed for these terms, ours as we made it, and enough of them."""
        self._expect(roster, Roster)
        results = [decode(data) for data in roster.advertisements]
        listed = {message.sender: message for message in results if isinstance(message, Advertisement)}
        if len(listed) != len(results) or not in_order(tuple(listed)):
            raise self._refusal("the roster is not a list of advertisements in the order of their names")
        for name, message in listed.items():
            if message.context != self._context or not message.is_by(self.terms.clients.get(name, b"")):
                raise self._refusal(f"the keys of {name!r} are not signed by it for this round")
            if not usable(message.sealing) or not usable(message.padding):
                raise self._refusal(f"no secret can be agreed with the keys of {name!r}")
        mine = listed.get(self.name)
        if mine is None or (mine.sealing, mine.padding) != (public(secrets.sealing), public(secrets.padding)):
            raise self._refusal("the roster does not hold the keys that this client advertised")
        if len(listed) < self.terms.threshold:
            raise self._refusal(f"{len(listed)} participants are fewer than the {self.terms.threshold} agreed on")
        return listed

    def _split(self, secret: bytes) -> dict[str, bytes]:
        points = {name: self.terms.points[name] for name in self._roster}
        shares = split(secret, points.values(), threshold=self.terms.threshold, entropy=self._entropy)
        return {name: shares[point] for name, point in points.items()}

    def _letter_key(self, dealer: str, reader: str, secrets: _Secrets) -> bytes:
        """The key of the one letter from a dealer to a reader; one of the two is this client."""
        other = reader if dealer == self.name else dealer
        purpose = pack(("letter", self._context, dealer, reader))
        return agree(secrets.sealing, self._roster[other].sealing, purpose)

    def _open_letters(self, delivery: Delivery, secrets: _Secrets) -> tuple[str, ...]:
        """Open the letters; all who shared, with this client. A letter that cannot be opened leaves its dealer in.

        Leaving the dealer out would make this client's masks differ from the dealer's. A share is missing, no more.
        """
        self._expect(delivery, Delivery)
        dealers = delivery.dealers
        known = in_order(dealers) and set(dealers) <= set(self._roster) - {self.name}
        if delivery.recipient != self.name or not known or len(delivery.letters) != len(dealers):
            raise self._refusal("the delivery is not a list of letters to this client from others on the roster")
        for dealer, letter in zip(dealers, delivery.letters, strict=True):
            text = opened(self._letter_key(dealer, self.name, secrets), letter, self._context)
            if text is not None and len(text) == 2 * SHARE:
                secrets.held[dealer] = text
        self.unreadable = tuple(dealer for dealer in dealers if dealer not in secrets.held)
        if len(secrets.held) < self.terms.threshold:
            got = f"{len(secrets.held)} clients gave readable shares, counting itself"
            raise self._refusal(f"{got}; {self.terms.threshold} were agreed on")
        return tuple(name for name in self._roster if name == self.name or name in dealers)

    def _checked_agreements(self, agreements: Agreements) -> tuple[str, ...]:
        """The survivors that were agreed on, if enough of them signed the list that this client signed."""
        self._expect(agreements, Agreements)
        mine = self._agreed
        if mine is None or not in_order(agreements.signers) or len(agreements.signers) != len(agreements.signatures):
            raise self._refusal("the agreements are not a list of names, each once, with a signature each")
        good = 0
        for name, signature in zip(agreements.signers, agreements.signatures, strict=True):
            same = replace(mine, sender=name, signature=signature)
            good += name in mine.survivors and same.is_by(self.terms.clients[name])
        if good < self.terms.threshold:
            needed = f"{self.terms.threshold} must have signed the list of survivors that this client was shown"
            raise self._refusal(f"{needed}, {good} have: the coordinator may have shown different lists")
        return mine.survivors


def mask_context(context: bytes, sharers: tuple[str, ...]) -> bytes:
    """What masks are made for: this round, its list of participants, and those who shared their secrets.

    Guarantee: a client that is asked twice for its vector, because its memory was set back, hides it under the same
    masks only if it is asked the very same; so the two answers are one, or each has masks of its own.

    >>> mask_context(b"round", ("ann", "bob")) == mask_context(b"round", ("ann", "eve"))
    False
    """
    return hashlib.sha256(pack(("pads", context, sharers))).digest()


def own_mask(seed: bytes, context: bytes) -> bytes:
    """The key of the mask that a client shares with nobody.

    >>> own_mask(bytes(32), b"round 1") == own_mask(bytes(32), b"round 2")
    False
    """
    return derive(seed, pack(("own pad", context)))


def pair_mask(secret: bytes, other: bytes, context: bytes, names: tuple[str, str]) -> bytes:
    """The key of the mask of two clients, from the secret key of either and the public key of the other.

    >>> a, b = random_key(), random_key()
    >>> one, two = pair_mask(a, public(b), b"round", ("ann", "bob")), pair_mask(b, public(a), b"round", ("bob", "ann"))
    >>> one == two
    True
    """
    first, second = sorted(names, key=str.encode)
    return agree(secret, other, pack(("pair pad", context, first, second)))


def _whole(values: ArrayLike, terms: RoundSettings) -> NDArray[np.int64]:
    """The vector to add: whole numbers, of the agreed length and size. NaN and fractions are refused, not rounded."""
    try:
        array = np.asarray(values)
    except (ValueError, TypeError):
        raise InvalidData("values: expected a vector of whole numbers") from None
    if array.dtype.kind not in "iu":
        hint = "snap to a grid first (mechanisms.mechanism.Grid.snap), which refuses NaN and infinity"
        raise InvalidData(f"values: got numbers of type {array.dtype}, expected whole numbers; {hint}")
    if array.shape != (terms.length,):
        raise InvalidData(f"values: got the shape {array.shape}, expected ({terms.length},)")
    if int(array.max()) > terms.bound or int(array.min()) < -terms.bound:
        raise InvalidData(f"values: a number is larger in size than the bound {terms.bound}; clip to it first")
    return array.astype(np.int64)
