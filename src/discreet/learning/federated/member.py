"""A client's endpoint: orders come in as bytes, answers go out as bytes. The same in one process and over a network."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.curator.ledger import Ledger, digest
from discreet.errors import BudgetExceeded, InvalidData, InvalidParameter, NoGuarantee
from discreet.exact import integer
from discreet.learning.federated.aggregation import Contribution, length, update
from discreet.learning.federated.client import Client
from discreet.learning.federated.crypto import KEY, Identity, random_key
from discreet.learning.federated.exchange import (
    NAN,
    OTHER_RUN,
    SECURE,
    UNPAID,
    UPDATE,
    Arrival,
    Declined,
    Request,
    Update,
    fingerprint,
    pack_vector,
    unpack_model,
)
from discreet.learning.federated.federation import Federation, Level, round_id
from discreet.learning.federated.messages import Message, Signed, decode, pack, unpack
from discreet.learning.networks.network import Network
from discreet.learning.sgd.clipping import require_batch_invariance
from discreet.learning.sgd.gradients import Ints
from discreet.noise import DeterministicEntropy, Entropy, bernoulli
from discreet.privacy.budget import Budget, Spent
from discreet.threads import blas_threads

_RUN, _DIGITS = 16, 20
_PROTECTS = {
    "client": "this client with all of its rows; add or remove one",
    "example": "one row of this client; add or remove one",
}
Rows = tuple[ArrayLike, ArrayLike]
Wire = Callable[[str, bytes], bytes | None]
"""(client, answer) → what arrives at the coordinator; None if nothing does."""


class Member:
    """One client in all rounds of one run.

    It believes its own settings (`federation`, `network`, and `keys`, the public keys of all clients, agreed on
    beforehand), its identity and its rows; not the coordinator. An order that does not fit is declined.

    Guarantee: in one run a coordinator gets from this client at most one answer for each phase of each round, for at
    most `federation.rounds` rounds. With secure aggregation what it gets in all of them tells about the rows what
    `federation.loss_to_coordinator` allows. Proof. Rounds are taken in increasing order and below `rounds`, phases of a
    round in their order; whatever was asked is gone, also if it was declined. The run is bound by the first order, and
    `saved` keeps all this. With secure aggregation every client takes part in every round, computes its update whether
    its coin says that it counts or not, and says nothing about NaN: so the messages do not depend on coins or rows
    except through the vector under the masks. How long an answer takes is not hidden: it tells about how many rows
    there are at level "client", about how many were drawn at level "example".

    A secure round is about one model. Its fingerprint is in every signature from the first phase on: a coordinator that
    shows clients different models, so that the vectors of all but one say nothing (Pasquini, Francati, Ateniese 2022,
    "Eluding secure aggregation in federated learning via model inconsistency"), gets no sum over them.

    All randomness of a round comes from a secret of 32 bytes: fresh from the operating system for each round, or, for
    runs that are to be repeated exactly, derived from `secret` (**then whoever knows it knows the noise**).

    `saved()` is what another process needs to go on, between phases too; it is secret. Store it before an answer is
    sent: a client that forgets may be asked again. What it then says twice is no more than the same answer, or an
    answer under other masks: masks are made for one model and one list of participants (`client.mask_context`), and a
    round that begins anew has a new secret. But a client that takes steps 4 and 5 twice helps a coordinator as one that
    colludes does, and with a trusted coordinator a second answer costs a second round.

    account: what this client pays its runs from, out of a budget of its own. The whole run is charged before its first
    order is answered, also if the client has forgotten that it took part before; what cannot be paid is declined.

    When a round is over for this client, after its last phase or a refusal, its secret is forgotten: whoever finds the
    state later, and has kept all messages, cannot take the masks and the noise off the vector. A round whose last
    phases never came is remembered until the next one begins.

    >>> from discreet.learning.networks.layers import Dense
    >>> from discreet.learning.networks.network import Softmax
    >>> from discreet.learning.sgd.recipe import Sgd
    >>> network = Network([Dense(2)], Softmax(), inputs=(3,))
    >>> plan = Federation(
    ...     clients=1, rounds=5, level="client", rate=1, multiplier=1, clip=1, optimizer=Sgd(1), secure=None
    ... )
    >>> ann = Identity.new()
    >>> member = Member(plan, network, "ann", ann, {"ann": ann.public}, np.eye(4, 3), [0, 1, 0, 1])
    >>> from discreet.learning.federated.exchange import decode_answer
    >>> decode_answer(member.answer(b"junk")).reason
    'the message ends too early'
    """

    def __init__(
        self,
        federation: Federation,
        network: Network,
        name: str,
        identity: Identity,
        keys: Mapping[str, bytes],
        x: ArrayLike,
        y: ArrayLike,
        *,
        secret: bytes | None = None,
        state: bytes | None = None,
        account: "Account | None" = None,
    ) -> None:
        if keys.get(name) != identity.public:
            raise InvalidParameter("identity", "another one", f"the identity whose public key is known for {name!r}")
        if len(keys) != federation.clients:
            raise InvalidParameter("keys", f"{len(keys)} keys", f"those of all {federation.clients} clients")
        if secret is not None and (type(secret) is not bytes or len(secret) != KEY):
            raise InvalidParameter("secret", "something else", "32 secret bytes, or None")
        if federation.level == "example":
            with blas_threads(1):  # as updates are computed
                require_batch_invariance(network)
        self.federation, self.network, self.name, self.keys = federation, network, name, dict(keys)
        self._identity, self._secret, self._account = identity, secret, account
        self._x, self._y = _rows(network, x, y)
        self._start = network.start(seed=federation.seed)
        self._length = length(network)
        self._run, self._round = b"", _Round(-1, b"", place=-1)
        if state is not None:
            self._restore(state)

    def answer(self, order: bytes) -> bytes:
        """The answer to an order. What cannot be taken is declined, with the reason."""
        context = bytes(KEY)
        try:
            read = Request.decode(order)
            context = round_id(read.federation, read.run, read.number)
            return self._carry_out(read).encode()
        except InvalidData as error:
            return Declined(context, self.name, str(error)).signed(self._identity).encode()

    def sign(self, text: bytes) -> bytes:
        """This client's signature under a text, which must not be one that could be taken for a message of a round."""
        return self._identity.sign(text)

    def saved(self) -> bytes:
        """All that must not be forgotten, as bytes. Secret, while a round is running."""
        current = self._round
        return pack((self._run, str(current.number + 1), str(current.place + 1), current.secret, tuple(current.orders)))

    def _restore(self, state: bytes) -> None:
        """Take the steps of the current round again, with the same randomness, and without the vector."""
        run, number, place, secret, orders = _saved_parts(state)
        self._run, current = run, _Round(number, secret, place=-1)
        self._round = current
        for data in orders:
            try:
                self._step(current, Request.decode(data), again=True)
            except InvalidData:  # this member has other settings than the one that was saved
                break
        current.place, current.orders = place, list(orders)

    def _carry_out(self, order: Request) -> Message:
        phases = SECURE if self.federation.secure else (UPDATE,)
        self._check(order, phases)
        if not self._run:
            self._pay(order.run)
        if order.phase == phases[0]:
            secret = random_key() if self._secret is None else self._secret
            self._run, self._round = order.run, _Round(order.number, secret, place=-1)
        current = self._round
        current.place = phases.index(order.phase)
        if self.federation.secure:
            current.orders.append(replace(order, model=b"").encode())
        try:
            return self._step(current, order)
        except BaseException:
            current.place = len(phases)
            raise
        finally:
            if current.place >= len(phases) - 1:
                current.forget()

    def _check(self, order: Request, phases: tuple[str, ...]) -> None:
        """Refuse what was asked before, what is out of turn, and what belongs to something else."""
        current = self._round
        if order.federation != self.federation.digest:
            raise InvalidData("the coordinator has other settings for this federation")
        if len(order.run) != _RUN or (self._run and order.run != self._run):
            raise InvalidData(OTHER_RUN)
        if order.phase not in phases:
            raise InvalidData(f"this federation has no phase of this name; it has {', '.join(phases)}")
        if order.number >= self.federation.rounds:
            raise InvalidData(f"round {order.number} is not one of the {self.federation.rounds} that were agreed on")
        place = phases.index(order.phase)
        fits = order.number > current.number if place == 0 else order.number == current.number
        if not fits or (place and place != current.place + 1):
            raise InvalidData(f"the {order.phase} of round {order.number} was asked for before, or out of turn")

    def _pay(self, run: bytes) -> None:
        """Charge this client's own ledger for the whole run, before anything of it is answered."""
        if self._account is None:
            return
        try:
            self._account.pay(self.federation, run)
        except (BudgetExceeded, NoGuarantee):  # how much is left is not the coordinator's business
            raise InvalidData(UNPAID) from None

    def _step(self, current: "_Round", order: Request, again: bool = False) -> Signed:
        """One phase. `again`: only to come to the same state; the answer is thrown away."""
        if order.phase == UPDATE:
            return self._update(current, order)
        if order.phase == SECURE[0]:
            if len(order.content) != KEY:
                raise InvalidData("the request does not name the model of the round")
            current.model = order.content
            terms = self.federation.terms(self.keys, order.run, order.number, self._length, order.content)
            entropy = self._stream(current, "masking")
            current.client = Client(terms, self.name, self._identity, entropy=entropy)
            return current.client.advertise()
        content: Any = decode(order.content)
        if current.client is None:
            raise InvalidData("this round has not started")
        match order.phase:
            case "sharing":
                return current.client.share(content)
            case "masked":
                values = np.zeros(self._length, np.int64) if again else self._hidden(current, order)
                return current.client.mask(content, values)
            case "agreement":
                return current.client.agree(content)
            case _:
                return current.client.unmask(content)

    def _update(self, current: "_Round", order: Request) -> Signed:
        """The vector as it is, for a coordinator that is trusted."""
        context = self.federation.round_id(order.run, order.number)
        mine = self._contribution(current, order)
        if not mine.finite:
            return Declined(context, self.name, NAN).signed(self._identity)
        return Update(context, self.name, pack_vector(mine.vector)).signed(self._identity)

    def _hidden(self, current: "_Round", order: Request) -> Ints:
        """The vector on the grid of secure sums; zero at level "client" where this client's coin says so."""
        if fingerprint(order.model) != current.model:
            raise InvalidData("this is not the model that the round is about")
        vector = self._contribution(current, order).vector * self.federation.grain
        if self.federation.level == "example":
            return vector
        return vector * int(bernoulli(self.federation.rate, entropy=self._stream(current, "coin")))

    def _contribution(self, current: "_Round", order: Request) -> Contribution:
        parameters, clip = unpack_model(order.model, self._start)
        entropy = self._stream(current, "lot")
        with blas_threads(1):
            return update(self.federation, self.network, parameters, clip, self._x, self._y, entropy=entropy)

    def _stream(self, current: "_Round", purpose: str) -> Entropy:
        return stream(current.secret, self._run, self.name, current.number, purpose)


@dataclass(slots=True)
class _Round:
    """Where a member is: the last phase it was asked for, and what it needs to go on."""

    number: int
    secret: bytes = field(repr=False)
    place: int
    model: bytes = b""
    orders: list[bytes] = field(default_factory=list, repr=False)
    client: Client | None = field(default=None, repr=False)

    def forget(self) -> None:
        """The round is over for this client: its keys, shares, masks and noise, and the secret that they came from."""
        self.secret, self.client = b"", None
        self.orders.clear()


def stream(secret: bytes, run: bytes, name: str, number: int, purpose: str) -> Entropy:
    """The random words of one client for one purpose in one round of one run.

    Guarantee: streams of different secrets, runs, names, rounds or purposes are independent, and look random to whoever
    does not know the secret: SHA-256 of the secret, then AES-256-CTR (`DeterministicEntropy`; the seed is a key).

    >>> stream(bytes(32), b"run", "ann", 1, "coin").words(1) == stream(bytes(32), b"run", "ann", 2, "coin").words(1)
    array([False])
    """
    text = pack(("discreet federated stream", secret, run, name, str(number), purpose))
    return DeterministicEntropy(int.from_bytes(hashlib.sha256(text).digest(), "big"))


def _saved_parts(state: bytes) -> tuple[bytes, int, int, bytes, tuple[bytes, ...]]:
    """The parts of a saved state: run, round, phase, secret, orders."""
    value = unpack(state) if isinstance(state, bytes) else ()
    if isinstance(value, tuple) and tuple(map(type, value)) == (bytes, str, str, bytes, tuple):
        run, number, place, secret, orders = value
        numbers = all(text.isascii() and text.isdigit() and len(text) <= _DIGITS for text in (number, place))
        sizes = len(run) in (0, _RUN) and len(secret) in (0, KEY)
        if numbers and sizes and all(isinstance(order, bytes) for order in orders):
            return run, int(number) - 1, int(place) - 1, secret, orders
    raise InvalidData("this is not the saved state of a member")


def _rows(network: Network, x: ArrayLike, y: ArrayLike) -> tuple[Any, NDArray[Any]]:
    examples = network.examples(np.asarray(x))
    targets = network.loss.targets(np.asarray(y), network.outputs)
    if len(examples) != len(targets):
        raise InvalidData(f"{len(examples)} examples but {len(targets)} targets")
    return examples, targets


class Account:
    """An account of a client's own ledger, with a budget for all federations that its rows are ever used in.

    level: whom the budget protects; federations of another level are not paid.

    Guarantee: the runs that were paid for, however many and whoever conducted them, are together within the budget, for
    the coordinator and those who work with it (secure sums), or for those who see the models (a trusted coordinator).
    Proof. A charge is the loss of a whole run, and a member answers no more of a run than that (`Member`); the ledger
    is a privacy filter, and charges before anything is answered.

    >>> from discreet.curator.stores.memory import MemoryStore
    >>> from discreet.learning.sgd.recipe import Sgd
    >>> plan = Federation(
    ...     clients=100, rounds=50, level="client", rate="0.1", multiplier=2, clip=1, optimizer=Sgd(1), secure=None
    ... )
    >>> account = Account(Ledger(MemoryStore()), "clinic", budget=Budget(epsilon="2.5", delta="1e-5"), level="client")
    >>> account.pay(plan, bytes(16))
    >>> account.pay(plan, bytes(16))
    Traceback (most recent call last):
    discreet.errors.BudgetExceeded: the budget of 'clinic' cannot pay: ...
    """

    def __init__(self, ledger: Ledger, name: str, *, budget: Budget, level: Level) -> None:
        ledger.open(name, budget, protects=_PROTECTS[level])
        self._ledger, self._name, self._level = ledger, name, level

    @property
    def spent(self) -> Spent:
        """What all runs so far have cost."""
        return self._ledger.spent(self._name)

    def pay(self, federation: Federation, run: bytes) -> None:
        """Charge one run, durably; `BudgetExceeded` if the budget cannot pay, and nothing is written."""
        if federation.level != self._level:
            told = f"this account is for level {self._level!r}, the federation is of level {federation.level!r}"
            raise BudgetExceeded(f"{told}; open another account for it")
        loss = federation.loss_to_coordinator if federation.secure else federation.loss
        text = f"{federation.words()}; run {run.hex()}"
        self._ledger.charge(self._name, analyst="federation", statement=digest(text), loss=loss, text=text)


class InProcessClients:
    """Clients in this process, each with its own rows. With a `seed` a run can be repeated exactly, and is not private.

    >>> import numpy as np
    >>> from discreet.learning.networks.layers import Dense
    >>> from discreet.learning.networks.network import Softmax
    >>> from discreet.learning.sgd.recipe import Sgd
    >>> network = Network([Dense(2)], Softmax(), inputs=(3,))
    >>> plan = Federation(
    ...     clients=2, rounds=5, level="client", rate=1, multiplier=1, clip=1, optimizer=Sgd(1), secure=None
    ... )
    >>> rows = np.eye(4, 3), [0, 1, 0, 1]
    >>> fleet = InProcessClients(plan, network, {"ann": rows, "bob": rows})
    >>> [arrival.client for arrival in fleet.ask({"bob": b"junk"})]
    ['bob']
    """

    def __init__(
        self,
        federation: Federation,
        network: Network,
        data: Mapping[str, Rows],
        *,
        seed: int | None = None,
        wire: Wire | None = None,
    ) -> None:
        if len(data) != federation.clients:
            raise InvalidParameter("data", f"rows of {len(data)} clients", f"those of all {federation.clients}")
        people = {name: Identity.new() if seed is None else seeded_identity(seed, name) for name in data}
        self.keys: Mapping[str, bytes] = {name: person.public for name, person in people.items()}
        self.members = {
            name: Member(
                federation,
                network,
                name,
                people[name],
                self.keys,
                *rows,
                secret=None if seed is None else seeded_secret(seed, name),
            )
            for name, rows in data.items()
        }
        self._wire = wire

    def ask(self, orders: Mapping[str, bytes]) -> Sequence[Arrival]:
        """One client after the other."""
        results = []
        for name, order in orders.items():
            try:
                sent = self.members[name].answer(order)
            except Exception as error:  # a client that breaks is not the coordinator's end
                results.append(Arrival(name, failure=f"it failed with {type(error).__name__}"))
                continue
            came = sent if self._wire is None else self._wire(name, sent)
            if came is not None:
                results.append(Arrival(name, came))
        return results


def seeded_secret(seed: int, name: str) -> bytes:
    """A client's secret for a run that is to be repeated exactly. **Never private.**

    >>> len(seeded_secret(1, "ann"))
    32
    """
    return _seeded("secret", seed, name)


def seeded_identity(seed: int, name: str) -> Identity:
    """A client's identity for a run that is to be repeated exactly. **Never private.**

    >>> seeded_identity(1, "ann") == seeded_identity(1, "ann")
    True
    """
    return Identity(_seeded("identity", seed, name))


def _seeded(what: str, seed: int, name: str) -> bytes:
    return hashlib.sha256(f"discreet federated {what} {integer(seed, 'seed')} {name}".encode()).digest()
