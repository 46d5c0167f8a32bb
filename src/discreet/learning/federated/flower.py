"""The same rounds on Flower: the coordinator is a ServerApp, every client a ClientApp in its own SuperNode.

An extra: pip install 'discreet[federated]'. The guide (docs/guide/federated.md) has the commands, examples/flower an
app. A server module and a client module of an app are, in short::

    app = server_app(lambda context: PrivateRounds(federation, network, keys, limit=600), finished)
    app = client_app(join, keep)

What Flower sees. SuperLink and SuperNodes carry orders and answers as bytes that they cannot read anything from, except
what the coordinator may know: with secure aggregation vectors under masks. Answers are signed with the clients' own
identities, so it need not be trusted to say from whom they are. It can lose messages, and it knows when they came and
how long a client took.

**What has to be trusted: the code.** Flower sends the app, as a bundle, from whoever starts a run to all clients, which
run it. Whoever may start runs can so read everything that the SuperNode's user can, whatever this module does. Clients
that do not trust the coordinator must fix the code that they run: see the guide.
"""

import hashlib
import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discreet.errors import InvalidData, MissingExtra, ReleaseFailed
from discreet.exact import Number, rational
from discreet.learning.federated.crypto import signed_by
from discreet.learning.federated.exchange import Arrival
from discreet.learning.federated.federation import Federation
from discreet.learning.federated.member import Member
from discreet.learning.federated.messages import pack
from discreet.learning.federated.rounds import Each, Outcome, StateFile, run
from discreet.learning.networks.network import Network
from discreet.noise import Entropy

if TYPE_CHECKING:
    from flwr.app import Context, Message
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid, ServerApp

    Mod = Callable[[Message, Context, Callable[[Message, Context], Message]], Message]

Join = Callable[["Context", bytes | None], Member]
"""(Flower's context, the state that was kept) → this client's member."""

Keep = Callable[["Context"], Path]
"""Flower's context → the file of this client's state (`StateFile`)."""

RECORD = "discreet"
"""The record of a Flower message that is ours."""

_TYPE = "train"
_FAILED = 2  # Flower's code of a ClientApp that raised
_BLAND = "this client could not answer; its own log says why"
_UNANSWERED = 2  # orders that a client may be working on
_CHECK = 5.0  # seconds between two looks at who is connected
_log = logging.getLogger(__name__)


# The coordinator


@dataclass(frozen=True, slots=True)
class PrivateRounds:
    """All rounds of a federation, as a strategy of Flower: `start(grid)` is called in a ServerApp's main function.

    keys: the public key of every client's identity, by name. limit: so many seconds are given to clients in each phase
    of a round, one phase with a trusted coordinator, five with secure aggregation; starting a process for a message
    takes Flower several seconds. patience: so long the start is put off until all clients are there (default: limit).
    entropy, each, checkpoint: see `rounds.run`. With a checkpoint, a ServerApp that died goes on in another Flower run.

    >>> from discreet.learning.networks.layers import Dense
    >>> from discreet.learning.networks.network import Softmax
    >>> from discreet.learning.sgd.recipe import Sgd
    >>> network = Network([Dense(2)], Softmax(), inputs=(3,))
    >>> plan = Federation(
    ...     clients=2, rounds=5, level="client", rate=1, multiplier=1, clip=1, optimizer=Sgd(1), secure=None
    ... )
    >>> rounds = PrivateRounds(plan, network, {"ann": bytes(32), "bob": bytes(32)}, limit=600)
    >>> rounds.patience
    600.0
    """

    federation: Federation
    network: Network
    keys: Mapping[str, bytes]
    limit: float
    patience: float
    entropy: Entropy | None
    each: Each | None
    checkpoint: Path | str | None

    def __init__(
        self,
        federation: Federation,
        network: Network,
        keys: Mapping[str, bytes],
        *,
        limit: Number,
        patience: Number | None = None,
        entropy: Entropy | None = None,
        each: Each | None = None,
        checkpoint: Path | str | None = None,
    ) -> None:
        seconds = float(rational(limit, "limit", above=0))
        wait = seconds if patience is None else float(rational(patience, "patience", at_least=0))
        values = (federation, network, dict(keys), seconds, wait, entropy, each, checkpoint)
        for name, value in zip(self.__slots__, values, strict=True):
            object.__setattr__(self, name, value)

    def start(self, grid: "Grid") -> Outcome:
        """Find the clients, and conduct all rounds. Who is not there is reported as dropped, and may come later.

        With fewer than the threshold of secure rounds, or with nobody, it does not begin (`ReleaseFailed`).
        """
        fleet = GridFleet(grid, self.keys, limit=self.limit)
        there, needed = fleet.gather(self.patience), max(1, self.federation.threshold)
        if len(there) < needed:
            got = f"{len(there)} of {len(self.keys)} clients came within {self.patience:g} seconds"
            raise ReleaseFailed(f"{got}, {needed} are needed; no round was started, nothing was spent")
        return run(
            self.federation,
            self.network,
            fleet,
            entropy=self.entropy,
            each=self.each,
            checkpoint=self.checkpoint,
        )


def server_app(
    conduct: Callable[["Context"], PrivateRounds], finished: Callable[[Outcome, "Context"], None]
) -> "ServerApp":
    """A ServerApp that conducts the rounds, and hands the outcome over. Settings may come from Flower's run config."""
    _require()
    from flwr.serverapp import ServerApp

    app = ServerApp()

    @app.main()
    def main(grid: "Grid", context: "Context") -> None:
        finished(conduct(context).start(grid), context)

    return app


class GridFleet:
    """The clients behind a Flower grid, as a `Transport`.

    Nodes are asked who they are, and say it under their identity's signature; so no node takes another client's
    orders. A client that comes back on a new node is found again before the next phase.

    Flower starts a process for every message, however many are running. So a client that leaves two orders without an
    answer is sent no third one until it answers, or an order expires: a machine that is slow is not made slower.
    """

    def __init__(self, grid: "Grid", keys: Mapping[str, bytes], *, limit: float, poll: float = 0.5) -> None:
        _require()
        self.keys: Mapping[str, bytes] = dict(keys)
        self._grid, self._limit, self._poll = grid, limit, poll
        self._nodes: dict[str, int] = {}
        self._greeted: set[int] = set()
        self._failed: set[int] = set()
        self._sent: dict[str, _Sent] = {}  # by the id of the message: what has no reply yet
        self._turn = 0

    def gather(self, patience: float) -> tuple[str, ...]:
        """Wait until all clients are connected, or time is up; those who are."""
        until = time.monotonic() + patience
        while True:
            self._greet()
            self._pull()
            if len(self._nodes) == len(self.keys) or time.monotonic() >= until:
                return tuple(self._nodes)
            time.sleep(self._poll)

    def ask(self, orders: Mapping[str, bytes]) -> Sequence[Arrival]:
        """Send the orders; what came before time was up, answers to earlier orders too."""
        self._turn += 1
        self._greeted -= self._failed
        self._failed.clear()
        online = self._greet()
        there = {name: order for name, order in orders.items() if self._nodes.get(name) in online}
        away = [Arrival(name, failure="it is not connected") for name in orders if name not in there]
        busy = {name for name in there if sum(sent.client == name for sent in self._sent.values()) >= _UNANSWERED}
        failed = [Arrival(name, failure=f"it has not answered its last {_UNANSWERED} orders yet") for name in busy]
        free = {name: order for name, order in there.items() if name not in busy}
        unsent = self._push([(name, self._nodes[name], {"order": order}) for name, order in free.items()])
        failed += [Arrival(name, failure="its order could not be sent") for name in unsent]
        return [*away, *failed, *self._collect(set(free) - set(unsent))]

    def _collect(self, awaited: set[str]) -> list[Arrival]:
        """Wait for these clients, as long as they are connected."""
        results: list[Arrival] = []
        until, look = time.monotonic() + self._limit, time.monotonic() + _CHECK
        while True:
            results += self._pull()
            awaited &= {sent.client for sent in self._sent.values() if sent.turn == self._turn}
            if not awaited or time.monotonic() >= until:
                return results
            if time.monotonic() >= look:
                online, look = self._greet(), time.monotonic() + _CHECK
                gone = {name for name in awaited if self._nodes[name] not in online}
                results += [Arrival(name, failure="its connection was lost") for name in gone]
                awaited -= gone
            time.sleep(self._poll)

    def _greet(self) -> set[int]:
        """Ask nodes that are new who they are; the nodes that are connected."""
        online = set(self._grid.get_node_ids())
        fresh = sorted(online - self._greeted)
        self._greeted |= set(fresh)
        self._push([("", node, {"hello": True}) for node in fresh])
        return online

    def _push(self, letters: list[tuple[str, int, dict[str, Any]]]) -> list[str]:
        """Send to nodes; the clients whose letters could not be sent."""
        from flwr.app import ConfigRecord, Message, RecordDict

        if not letters:
            return []
        messages = [
            Message(RecordDict({RECORD: ConfigRecord(content)}), node, _TYPE, ttl=2 * self._limit)
            for _, node, content in letters
        ]
        marks = [*self._grid.push_messages(messages), *[""] * len(messages)]
        for mark, (name, node, _) in zip(marks, letters, strict=False):
            if mark:
                self._sent[mark] = _Sent(name, node, self._turn)
        return [name for mark, (name, _, _) in zip(marks, letters, strict=False) if not mark]

    def _pull(self) -> list[Arrival]:
        """What came in. Replies are fetched one by one, so that one that cannot be read takes no other with it."""
        import httpx

        results = []
        for mark in list(self._sent):
            try:
                replies: Iterable[Message] = list(self._grid.pull_messages([mark]))
            except httpx.HTTPError:  # the SuperLink, not a client
                raise
            except Exception as error:
                _log.warning("a reply could not be read: %s", type(error).__name__)
                results += self._arrivals_of(self._sent.pop(mark), None)
                continue
            for reply in replies:
                results += self._arrivals_of(self._sent.pop(mark), reply)
                break
        return results

    def _arrivals_of(self, sent: "_Sent", reply: "Message | None") -> list[Arrival]:
        failure = _failure(reply)
        answer = None if failure else _content(reply, "answer")
        if not sent.client:
            self._introduced(sent.node, answer, _content(reply, "name"))
            return []
        if failure and sent.turn != self._turn:  # nothing came to an order of an earlier phase: known by now
            return []
        return [Arrival(sent.client, answer if isinstance(answer, bytes) else b"", failure)]

    def _introduced(self, node: int, signature: Any, name: Any) -> None:
        text = _hello(self._grid.run.run_id, node, name) if isinstance(name, str) else b""
        if isinstance(signature, bytes) and name in self.keys and signed_by(self.keys[name], signature, text):
            self._nodes[name] = node
        else:
            self._failed.add(node)


@dataclass(frozen=True, slots=True)
class _Sent:
    """A message on its way: to which client ("" if that is the question), to which node, in which turn."""

    client: str
    node: int
    turn: int


def _failure(reply: "Message | None") -> str:
    """What Flower says went wrong; words of a client are cut short."""
    if reply is None:
        return "its reply could not be read"
    if not reply.has_error():
        return ""
    said = "".join(letter for letter in str(reply.error.reason)[:200] if letter.isprintable())
    return f"Flower reports error {reply.error.code}: {said}"


def _content(reply: "Message | None", key: str) -> Any:
    """A value of our record; None if it is not there. A client may have sent anything."""
    if reply is None or not reply.has_content():
        return None
    record = reply.content.get(RECORD)
    return record.get(key) if isinstance(record, Mapping) else None


# The clients


def client_app(join: Join, keep: Keep, *, pace: Number = 0) -> "ClientApp":
    """A ClientApp that takes part in private rounds and does nothing else. For more in one app, see `member_mod`."""
    _require()
    from flwr.clientapp import ClientApp

    app = ClientApp(mods=[member_mod(join, keep, pace=pace)])

    @app.train()
    def refuse(message: "Message", context: "Context") -> "Message":
        raise InvalidData("this app answers orders of private rounds only")

    return app


def member_mod(join: Join, keep: Keep, *, pace: Number = 0) -> "Mod":
    """A Flower mod that answers the orders of private rounds, and lets every other message through to the app.

    join: makes this client's `Member` from its own settings and rows, and the state that was kept; it believes nothing
    that the coordinator says. keep: the file for that state, in a folder of this client's own. The app must have a
    train function, whatever it does.

    pace: answers leave after a multiple of so many seconds. Flower tells the coordinator how long a client worked,
    which at level "example" depends on how many of its rows were drawn; a pace longer than any answer takes hides that.

    Guarantee: the state after an answer is on disk before the answer leaves. If anything fails the coordinator is told
    that it did, and none of the words of the error, which might quote a row.
    """
    _require()
    seconds = float(rational(pace, "pace", at_least=0))

    def mod(message: "Message", context: "Context", follow: Callable[..., "Message"]) -> "Message":
        if not message.has_content() or RECORD not in message.content:
            return follow(message, context)
        began = time.monotonic()
        reply = _reply(message, context, join, keep)
        _wait(began, seconds)
        return reply

    return mod


def _reply(message: "Message", context: "Context", join: Join, keep: Keep) -> "Message":
    from flwr.app import ConfigRecord, Error, Message, RecordDict

    try:
        content = _answer(message, context, join, keep)
    except Exception:
        _log.exception("an order could not be answered")
        return Message(Error(_FAILED, _BLAND), reply_to=message)
    return Message(RecordDict({RECORD: ConfigRecord(content)}), reply_to=message)


def _answer(message: "Message", context: "Context", join: Join, keep: Keep) -> dict[str, Any]:
    if _content(message, "hello"):
        member = join(context, None)
        text = _hello(message.metadata.run_id, context.node_id, member.name)
        return {"name": member.name, "answer": member.sign(text)}
    order = _content(message, "order")
    notebook = StateFile(keep(context))
    with notebook.open():
        member = join(context, notebook.read())
        try:
            answer = member.answer(order if isinstance(order, bytes) else b"")
        finally:
            notebook.write(member.saved())
    return {"answer": answer}


def _hello(run_id: int, node: int, name: str) -> bytes:
    """What a client signs to say that it is behind a node. No other signed text begins like this."""
    return hashlib.sha256(pack(("discreet on flower 1: hello", str(run_id), str(node), name))).digest()


def _wait(began: float, pace: float) -> None:
    if pace:
        passed = time.monotonic() - began
        time.sleep(max(0.0, math.ceil(passed / pace) * pace - passed))


def _require() -> None:
    try:
        import flwr.app  # noqa: F401
    except ImportError:
        raise MissingExtra("flwr", "federated") from None
