"""One round's sum: what a client adds to it, and how it is made, in the clear or under masks.

A client adds a vector of whole numbers, whatever its rows are (`update`). Sums are in the clear for a coordinator that
is trusted (`TrustedAggregation`), else under masks (`SecureAggregation`).

>>> import numpy as np
>>> from fractions import Fraction
>>> from discreet.learning.federated import Federation
>>> from discreet.learning.federated.aggregation import update
>>> from discreet.learning.networks.layers import Dense
>>> from discreet.learning.networks.network import Softmax
>>> from discreet.learning.networks.network import Network
>>> from discreet.learning.sgd.recipe import Sgd
>>> network = Network([Dense(2)], Softmax(), inputs=(3,))
>>> plan = Federation(
...     clients=10, rounds=5, level="client", rate=1, multiplier=1, clip=1, optimizer=Sgd(1), secure=None
... )
>>> mine = update(plan, network, network.start(seed=1), Fraction(1), np.eye(4, 3), np.array([0, 1, 0, 1]))
>>> mine.vector.shape, mine.finite
((10,), True)
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidData, ReleaseFailed
from discreet.learning.federated import crypto
from discreet.learning.federated.coordinator import Coordinator, Refusal, Total
from discreet.learning.federated.exchange import (
    SECURE,
    UPDATE,
    AnswerCheck,
    Arrival,
    Dropped,
    Kind,
    Request,
    Transport,
    Update,
    checked_vector,
    fingerprint,
    pack_model,
)
from discreet.learning.federated.federation import Federation, Local
from discreet.learning.federated.messages import Masked, RoundSettings, Signed, context_of
from discreet.learning.networks.network import Network
from discreet.learning.sgd.clipping import UNITS, Clip, clipped_sum
from discreet.learning.sgd.gradients import Array, Ints, Parameters, Rows
from discreet.learning.sgd.run_state import State
from discreet.learning.sgd.training import RIDERS, contributions
from discreet.noise import Entropy, bernoulli, poisson_sample

_AT_ONCE = 4096


@dataclass(frozen=True, slots=True, eq=False)
class Contribution:
    """A client's vector, in units of the clipping norm / `UNITS`; zero, and not `finite`, where floats failed.

    `finite` depends on the rows: it may be told to a coordinator that is trusted with the rows, and to nobody else.
    """

    vector: Ints
    finite: bool


def length(network: Network) -> int:
    """How many whole numbers a client sends.

    >>> from discreet.learning.networks.layers import Dense
    >>> from discreet.learning.networks.network import Softmax
    >>> length(Network([Dense(2)], Softmax(), inputs=(3,)))
    10
    """
    return sum(p.size for p in network.start(seed=0)) + RIDERS


def update(
    federation: Federation,
    network: Network,
    parameters: Sequence[Array],
    clip: Fraction,
    x: Array,
    y: NDArray[Any],
    *,
    entropy: Entropy | None = None,
) -> Contribution:
    """What a client adds, from the global parameters and its own rows; `entropy` draws its lot at level "example".

    Guarantee: whatever parameters, clip and rows are, at level "client" the vector's norm is at most UNITS, exactly; at
    level "example" one row more or less changes the vector by at most UNITS, whatever the coins of other rows are.
    """
    x, y = network.examples(x), network.loss.targets(np.asarray(y), network.outputs)
    state = State(0, list(parameters), [], [], clip)
    if federation.level == "example":
        return _of_examples(federation, network, state, x, y, entropy)
    return _of_client(federation, network, state, x, y)


def _of_examples(
    federation: Federation, network: Network, state: State, x: Array, y: NDArray[Any], entropy: Entropy | None
) -> Contribution:
    """The clipped gradients of a lot, added up, and clamped to what is sent.

    Proof. `training.contributions` has the bound for the sum. Clamping each number to an interval brings no two
    vectors further apart. What is not finite adds nothing, example by example. No part of a lot is larger than a sum
    takes, which would be refused with words about the lot.
    """
    lot = poisson_sample(federation.rate, len(x), entropy=entropy)
    total = contributions(network, state, x, y, lot, federation.recipe)
    most = federation.bound // federation.grain
    return Contribution(np.clip(total, -most, most), True)


def _of_client(federation: Federation, network: Network, state: State, x: Array, y: NDArray[Any]) -> Contribution:
    """The client's move as one clipped vector, and its riders.

    Proof. `clipped_sum` of a lot of one "example", which is the whole move, has norm at most √(1 − s)·UNITS, where s is
    the share of the riders; rider j is a whole number of size at most √s_j·UNITS (`_rider`); Σs_j = s.
    """
    parameters, clip = state.parameters, state.clip
    nothing = np.zeros(sum(p.size for p in parameters) + RIDERS, np.int64)
    if not len(x):
        return Contribution(nothing, True)
    with np.errstate(all="ignore"):
        loss, move = _move(network, parameters, x, y, federation.local)
        finite = bool(np.isfinite(loss) and all(np.isfinite(part).all() for part in move))
        if not finite:
            return Contribution(nothing, False)
        result = clipped_sum([Rows(part[None]) for part in move], Clip(clip), share=1 - sum(federation.riders))
    level = min(max(loss / float(federation.worst_loss), 0.0), 1.0)
    small = 1.0 if result.norms[0] <= float(clip) else -1.0
    riders = [_rider(value, share) for value, share in zip((level, small), federation.riders, strict=True)]
    units = [part.ravel() for part in result.units]
    return Contribution(np.concatenate([*units, np.array(riders, np.int64)]), True)


def _rider(value: float, share: Fraction) -> int:
    """A value of size at most 1 in whole numbers of size at most √share·UNITS.

    Proof. A float of size at most 1 times the whole number ⌊√share·UNITS⌋ < 2⁵³ is rounded to at most that number,
    because rounding is monotone, and cut towards zero.
    """
    return math.trunc(value * math.isqrt(int(share * UNITS * UNITS)))


def _move(
    network: Network, parameters: Sequence[Array], x: Array, y: NDArray[Any], local: Local | None
) -> tuple[float, Parameters]:
    """The client's mean loss, and the direction it moves away from: its gradient, or what its own steps take off."""
    loss, gradient = _mean_gradient(network, parameters, x, y)
    if local is None:
        return loss, gradient
    own = [np.array(p, np.float32) for p in parameters]
    lots = 1 if local.batch is None else -(-len(x) // local.batch)
    for step in range(local.epochs * lots):
        part = slice(step % lots, None, lots)
        if step or lots > 1:
            _, gradient = _mean_gradient(network, own, x[part], y[part])
        for mine, slope in zip(own, gradient, strict=True):
            np.subtract(mine, np.float32(local.rate) * slope, out=mine)
    return loss, [np.asarray(p - q, np.float32) for p, q in zip(parameters, own, strict=True)]


def _mean_gradient(
    network: Network, parameters: Sequence[Array], x: Array, y: NDArray[Any]
) -> tuple[float, Parameters]:
    """The mean of losses and gradients over all rows, some at a time."""
    total, sums = 0.0, [np.zeros(p.shape, np.float64) for p in parameters]
    size = getattr(network, "part", None) or _AT_ONCE
    for start in range(0, len(x), size):
        losses, gradients = network.gradients(parameters, x[start : start + size], y[start : start + size])
        total += float(losses.sum(dtype=np.float64))
        for added, gradient in zip(sums, gradients, strict=True):
            np.add(added, gradient.summed(), out=added)
    return total / len(x), [(added / len(x)).astype(np.float32) for added in sums]


@dataclass(frozen=True, slots=True, eq=False)
class RoundSum:
    """What a round brought: the exact sum (secure: with its noise), or None and why."""

    asked: tuple[str, ...]
    arrived: tuple[str, ...]
    dropped: tuple[Dropped, ...]
    total: Ints | None
    abandoned: str = ""


class Aggregation(Protocol):
    """A way to get sums."""

    def gather(self, number: int, parameters: Sequence[Array], clip: Fraction) -> RoundSum:
        """The sum of one round."""
        ...


class _OfRun:
    """What both ways of adding up share: whose updates they are, and of which run."""

    def __init__(
        self,
        federation: Federation,
        network: Network,
        fleet: Transport,
        keys: dict[str, bytes],
        run: bytes,
        entropy: Entropy | None,
    ) -> None:
        self._federation, self._fleet, self._keys = federation, fleet, keys
        self._run, self._entropy, self._length = run, entropy, length(network)
        self._judge = AnswerCheck(keys)


class TrustedAggregation(_OfRun):
    """Updates in the clear. The coordinator tosses the clients' coins, unless it is examples that are sampled.

    Guarantee: the sum is over vectors that passed `checked_vector`, one for each client at most.
    """

    def gather(self, number: int, parameters: Sequence[Array], clip: Fraction) -> RoundSum:
        """Ask those whose coin says so, and add up what can be used."""
        asked = self._chosen()
        self._judge.open(self._federation.round_id(self._run, number))
        model = pack_model(parameters, clip)
        order = Request(self._federation.digest, self._run, number, UPDATE, b"", model).encode()
        arrivals = self._fleet.ask(dict.fromkeys(asked, order)) if asked else ()
        tray = _Tray(asked)
        for arrival in arrivals:
            self._take(arrival, tray)
        dropped = (*tray.dropped, *tray.missing(UPDATE, tray.vectors))
        total = sum(tray.vectors.values(), np.zeros(self._length, np.int64))
        return RoundSum(asked, tuple(name for name in asked if name in tray.vectors), dropped, total)

    def _chosen(self) -> tuple[str, ...]:
        names = tuple(self._keys)
        if self._federation.level == "example":
            return names
        coins = np.asarray(bernoulli(self._federation.rate, size=len(names), entropy=self._entropy))
        return tuple(name for name, coin in zip(names, coins, strict=True) if coin)

    def _take(self, arrival: Arrival, tray: "_Tray") -> None:
        message = self._judge.read(arrival, UPDATE)
        if isinstance(message, Dropped):
            tray.drop(message)
        elif not isinstance(message, Update):
            tray.drop(Dropped(message.sender, UPDATE, "refused", "the coordinator asked for an update"))
        elif message.sender not in tray.asked:
            tray.drop(Dropped(message.sender, UPDATE, "refused", "it was not asked in this round"))
        elif message.sender in tray.settled:
            tray.drop(Dropped(message.sender, UPDATE, "refused", "it signed two different answers; none is taken"))
            tray.vectors.pop(message.sender, None)
        else:
            tray.put(message.sender, checked_vector(message, self._federation, self._length))


_KNOWN = {"died", "malformed", "NaN", "declined", "wrong shape", "too large"}
"""What explains why nothing of a client is in the sum; a late or replayed message does not."""


@dataclass(slots=True)
class _Tray:
    """What came in during one phase. `settled` are those who sent an update, good or bad: a second one is too many.

    A client that declines has settled nothing: the network may have brought it its order twice, and it declines the
    copy. Whichever of its two answers comes first, the update counts.
    """

    asked: tuple[str, ...]
    vectors: dict[str, Ints] = field(default_factory=dict)
    settled: set[str] = field(default_factory=set)
    dropped: list[Dropped] = field(default_factory=list)

    def put(self, name: str, vector: Ints | Dropped) -> None:
        """Keep a vector, or why there is none."""
        self.settled.add(name)
        if isinstance(vector, Dropped):
            self.drop(vector)
        else:
            self.vectors[name] = vector

    def drop(self, dropped: Dropped) -> None:
        """Note what is wrong."""
        self.dropped.append(dropped)

    def missing(self, phase: str, present: Iterable[str]) -> list[Dropped]:
        """Those of whom nothing came that would explain where they are."""
        explained = {dropped.client for dropped in self.dropped if dropped.kind in _KNOWN}
        away = (name for name in self.asked if name not in explained and name not in set(present))
        settled = self.settled
        return [Dropped(name, phase, "died", "nothing came in time") for name in away if name not in settled]


class SecureAggregation(_OfRun):
    """Sums under masks: five phases, all clients in every round (`discreet.learning.federated`)."""

    def gather(self, number: int, parameters: Sequence[Array], clip: Fraction) -> RoundSum:
        """All phases; the sum over those who stayed, or none if too few did."""
        model = pack_model(parameters, clip)
        terms = self._federation.terms(self._keys, self._run, number, self._length, fingerprint(model))
        self._judge.open(terms.digest, self._federation.round_id(self._run, number))
        blank = Request(self._federation.digest, self._run, number, "", b"", b"")
        secure = _SecureRound(blank, Coordinator(terms), self._fleet, self._judge)
        try:
            total = secure.through(model)
        except ReleaseFailed as error:
            return RoundSum(terms.names, (), secure.report(), None, str(error))
        return RoundSum(terms.names, total.clients, secure.report(), total.values)


class _SecureRound:
    """One round: what the coordinator's state machine says goes out; what comes in goes to it, if it fits."""

    def __init__(self, blank: Request, coordinator: Coordinator, fleet: Transport, judge: AnswerCheck) -> None:
        self._blank, self._coordinator, self._fleet, self._judge = blank, coordinator, fleet, judge
        self._dropped: list[Dropped] = []
        self._told: list[Refusal] = []

    def through(self, model: bytes) -> Total:
        """From the first phase to the sum."""
        coordinator = self._coordinator
        self._ask(SECURE[0], lambda _: fingerprint(model))
        roster = coordinator.roster()
        self._judge.also(context_of(coordinator.terms.digest, roster))
        self._ask(SECURE[1], lambda _: roster.encode())
        deliveries = coordinator.deliveries()
        self._ask(SECURE[2], lambda name: deliveries[name].encode(), model)
        survivors = coordinator.survivors()
        self._ask(SECURE[3], lambda _: survivors.encode())
        agreements = coordinator.agreements()
        self._ask(SECURE[4], lambda _: agreements.encode())
        return coordinator.total()

    def report(self) -> tuple[Dropped, ...]:
        """All that was dropped, with what the coordinator found when it took the masks off."""
        known = {(drop.client, drop.phase) for drop in self._dropped}
        late = [refusal for refusal in self._coordinator.refusals if not any(refusal is told for told in self._told)]
        result = (Dropped(r.client, r.phase, "refused", r.reason) for r in late if (r.client, r.phase) not in known)
        return (*self._dropped, *result)

    def _ask(self, phase: str, content: Callable[[str], bytes], model: bytes = b"") -> None:
        """One phase: an order to each client that may still answer, and what came of it."""
        asked = self._coordinator.missing
        orders = {name: replace(self._blank, phase=phase, content=content(name), model=model) for name in asked}
        tray = _Tray(asked)
        for arrival in self._fleet.ask({name: order.encode() for name, order in orders.items()}):
            dropped = self._take(arrival, phase)
            if dropped is not None:
                tray.drop(dropped)
        away = set(self._coordinator.missing)
        self._dropped += [*tray.dropped, *tray.missing(phase, set(asked) - away)]

    def _take(self, arrival: Arrival, phase: str) -> Dropped | None:
        message = self._judge.read(arrival, phase)
        if isinstance(message, Dropped):
            return message
        wrong = _out_of_place(message, phase, self._coordinator.terms)
        if wrong is not None:
            return Dropped(message.sender, phase, *wrong)
        refusal = self._coordinator.receive(arrival.data)
        if refusal is None:
            return None
        self._told.append(refusal)
        return Dropped(refusal.client, phase, "refused", refusal.reason)


def _out_of_place(message: Signed, phase: str, terms: RoundSettings) -> tuple[Kind, str] | None:
    """What is wrong with a message of this round: the two faults that have names of their own."""
    if message.kind in SECURE and SECURE.index(message.kind) < SECURE.index(phase):
        return "late", f"its phase, {message.kind}, is over"
    if isinstance(message, Masked):
        try:
            crypto.parse(message.vector, terms.bits, terms.length)
        except InvalidData as error:
            return "wrong shape", str(error)
    return None
