"""The conductor of federated learning: whom to ask, what to make of the answers, and the next model.

It knows neither rows nor wires: clients are reached through a `Transport`. The same conductor runs experiments in one
process and real clients over a network; sums are of whole numbers, so the same randomness gives the same models.

>>> import numpy as np
>>> from discreet.learning.federated import Federation, InProcessClients, run
>>> from discreet.learning.networks.layers import Dense
>>> from discreet.learning.networks.network import Softmax
>>> from discreet.learning.networks.network import Network
>>> from discreet.learning.sgd.recipe import Sgd
>>> network = Network([Dense(2)], Softmax(), inputs=(3,))
>>> plan = Federation(
...     clients=3, rounds=5, level="client", rate=1, multiplier=1, clip=1, optimizer=Sgd(1), secure=None
... )
>>> rows = np.eye(4, 3), [0, 1, 0, 1]
>>> outcome = run(plan, network, InProcessClients(plan, network, {"ann": rows, "bob": rows, "eve": rows}))
>>> len(outcome.reports), outcome.reports[-1].arrived, outcome.parameters[0].shape
(5, ('ann', 'bob', 'eve'), (4, 2))

A `StateFile` has what must not be forgotten between two messages: the coordinator's progress, or the state of a client
on Flower (`Member.saved`). A SuperNode starts a new process for every message, so a member's state has to be somewhere
between two phases. Flower's own place, `Context.state`, will not do: a process hands it back after its answer has left,
so a crash in between would make the client forget what it has sent; it is in memory, so a restart would; and it is new
for every run, so whoever starts runs could ask for more rounds than were agreed on. A file that is on disk before the
answer leaves has none of these faults.
"""

import hashlib
import json
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from discreet import durable
from discreet.errors import InvalidData, InvalidParameter, LedgerUnavailable, ReleaseFailed
from discreet.learning.federated.aggregation import Aggregation, RoundSum, SecureAggregation, TrustedAggregation
from discreet.learning.federated.crypto import random_key
from discreet.learning.federated.exchange import NEVER, Dropped, Transport
from discreet.learning.federated.federation import Federation
from discreet.learning.federated.messages import pack, unpack
from discreet.learning.networks.network import Network
from discreet.learning.sgd.clipping import UNITS
from discreet.learning.sgd.gradients import Array, Ints, Parameters
from discreet.learning.sgd.run_state import State
from discreet.learning.sgd.training import step
from discreet.noise import Entropy, rounded_gaussian
from discreet.privacy.loss import Loss

STOPPED = "the coordinator stopped in this round"
_FORMAT = "discreet federated coordinator 1"
_RUN = 16
_LISTS = ("parameters", "memory", "average")
_ADVICE = "name another file; a new run costs again, and needs clients that agree to it"


@dataclass(frozen=True, slots=True)
class RoundReport:
    """One round. `asked`, `arrived`, `dropped` are for the coordinator: who took part is not covered by the loss.

    number: from 0. arrived: who is in the sum. abandoned: why there is no sum, or "". clip: the clipping norm of this
    round. noisy_loss: the mean loss of the model before this round, with noise, if the federation keeps a curve.
    """

    number: int
    asked: tuple[str, ...]
    arrived: tuple[str, ...]
    dropped: tuple[Dropped, ...]
    abandoned: str
    clip: float
    noisy_loss: float | None
    federation: Federation

    @property
    def spent(self) -> Loss:
        """What those who see the models have learned by now. An abandoned round counts: its sum may have been seen."""
        return self.federation.after(self.number + 1).loss

    def words(self) -> str:
        """The round in a line."""
        away = "; ".join(f"{drop.client or 'somebody'} {drop.kind} ({drop.phase})" for drop in self.dropped)
        state = f"abandoned: {self.abandoned}" if self.abandoned else f"{len(self.arrived)} of {len(self.asked)}"
        return f"round {self.number}: {state}" + (f"; {away}" if away else "")


Each = Callable[[RoundReport, Parameters], None]


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """The model, and what happened on the way."""

    parameters: Parameters
    reports: tuple[RoundReport, ...]
    federation: Federation

    @property
    def loss(self) -> Loss:
        """What those who see the model, and the models before it, learn."""
        return self.federation.loss

    @property
    def abandoned(self) -> tuple[int, ...]:
        """The rounds without a sum: paid for, and the model is as it was before them."""
        return tuple(report.number for report in self.reports if report.abandoned)

    @property
    def curve(self) -> list[float]:
        """The noisy loss of each round that has one: covered by `loss`."""
        return [report.noisy_loss for report in self.reports if report.noisy_loss is not None]


def run(
    federation: Federation,
    network: Network,
    fleet: Transport,
    *,
    entropy: Entropy | None = None,
    each: Each | None = None,
    checkpoint: Path | str | None = None,
) -> Outcome:
    """All rounds; `each` is called after every one of them, with its report and the model.

    Guarantee: the models, the clipping norms and the noisy losses of all rounds cost `federation.loss`. See
    `Federation`; what the coordinator itself sees costs `federation.loss_to_coordinator`.

    A client that dies, or sends what cannot be used, is dropped from its round and reported. A secure round that loses
    too many is abandoned, the model stays as it is, and the next round goes on. Without enough clients that take part
    in this run at all, and if no round had anybody's update, there is no outcome (`ReleaseFailed`).

    checkpoint: a file that holds the run. A coordinator that died goes on from it, with the next round; the one that
    was open is abandoned, because clients answer once. Without it, a coordinator that died cannot go on: clients
    decline another run.
    """
    keys = _keys(federation, fleet)
    with Progress.open(federation, network, keys, checkpoint, entropy) as progress:
        gathering = _gathering(federation, network, fleet, keys, progress.run, entropy)
        state = progress.state
        for number in range(len(progress.reports), federation.rounds):
            progress.begin(number)
            clip, gathered = state.clip, gathering.gather(number, state.parameters, state.clip)
            noisy = _noisy(federation, gathered, entropy)
            noisy_loss = None if noisy is None else _step(state, noisy, federation)
            report = RoundReport(
                number,
                gathered.asked,
                gathered.arrived,
                gathered.dropped,
                gathered.abandoned,
                float(clip),
                noisy_loss,
                federation,
            )
            progress.end(report)
            if each is not None:
                each(report, [p.copy() for p in state.parameters])
            _require_members(federation, progress.reports)
    _require_updates(progress.reports)
    return Outcome(state.parameters, tuple(progress.reports), federation)


def _require_members(federation: Federation, reports: list[RoundReport]) -> None:
    """Fail once so many clients will not take part in this run that no further round can have a sum."""
    lost: dict[str, str] = {}
    for report in reports:
        lost |= {
            drop.client: drop.reason for drop in report.dropped if drop.kind == "declined" and drop.reason in NEVER
        }
        lost = {name: reason for name, reason in lost.items() if name not in report.arrived}
    needed = max(1, federation.threshold)
    if federation.clients - len(lost) >= needed:
        return
    why = "; ".join(f"{list(lost.values()).count(reason)}: {reason}" for reason in sorted(set(lost.values())))
    raise ReleaseFailed(
        f"{len(lost)} of {federation.clients} clients decline this run, {needed} are needed ({why}). "
        "A run that was started before continues from its checkpoint; a new one needs clients that agree to pay again"
    )


def _require_updates(reports: list[RoundReport]) -> None:
    """Fail if the model is what it was at the start, with noise at most.

    Guarantee: whether this fails depends on who came, not on rows.
    """
    if any(report.arrived for report in reports) or not any(report.asked or report.abandoned for report in reports):
        return
    reasons = [report.abandoned or "nobody's update arrived" for report in reports]
    raise ReleaseFailed(
        f"none of the {len(reports)} rounds has anybody's update, so there is no model; all of them are spent. "
        f"The last round: {reasons[-1]}"
    )


def _keys(federation: Federation, fleet: Transport) -> dict[str, bytes]:
    keys = dict(sorted(fleet.keys.items(), key=lambda item: item[0].encode()))
    if len(keys) != federation.clients:
        raise InvalidParameter("fleet", f"{len(keys)} clients", f"the {federation.clients} of the federation")
    return keys


def _gathering(
    federation: Federation,
    network: Network,
    fleet: Transport,
    keys: Mapping[str, bytes],
    run_id: bytes,
    entropy: Entropy | None,
) -> Aggregation:
    kind = TrustedAggregation if federation.secure is None else SecureAggregation
    return kind(federation, network, fleet, dict(keys), run_id, entropy)


def _noisy(federation: Federation, gathered: RoundSum, entropy: Entropy | None) -> Ints | None:
    """The sum with its noise: the coordinator's, or already in it. None if there is no sum.

    Guarantee: with a trusted coordinator there is always a sum, if only of nothing, and it always gets its noise.
    """
    total = gathered.total
    if total is None or federation.secure is not None or not federation.multiplier:
        return total
    noise: Ints = np.asarray(rounded_gaussian(federation.multiplier * UNITS, total.shape, entropy=entropy))
    return total + noise


def _step(state: State, noisy: Ints, federation: Federation) -> float | None:
    """The next model from a noisy sum, and the noisy loss of this one, if the federation keeps a curve."""
    step(state, noisy, federation.recipe, UNITS * federation.grain)
    return state.losses[-1] if federation.curve else None


_PATIENCE = 60.0  # seconds
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class StateFile:
    """One client's file, for one process at a time; read and written by its owner only.

    Guarantee: what `write` was given is on disk when it returns, and a crash leaves the old content or the new one.

    The file holds the secret of the round that is running, in the clear: keep it on an encrypted disk, beside the
    client's identity. Deleting it forgets what was spent: a coordinator may then begin anew.

    >>> import tempfile
    >>> notebook = StateFile(Path(tempfile.mkdtemp()) / "ann.state")
    >>> with notebook.open():
    ...     before = notebook.read()
    ...     notebook.write(b"round 1")
    >>> before, notebook.read()
    (None, b'round 1')
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    def open(self) -> AbstractContextManager[None]:
        """Nobody else has it meanwhile: two messages at once cannot both find the same state."""
        return durable.locked(self.path, patience=_PATIENCE)

    def read(self) -> bytes | None:
        """What was written last; None if nothing ever was."""
        try:
            if self.path.stat().st_mode & _OTHERS:
                raise LedgerUnavailable(f"{self.path} can be read by others than its owner; use chmod 600, and ask why")
            return self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise LedgerUnavailable(f"{self.path} cannot be read: {error.strerror}; nothing was sent") from None

    def write(self, state: bytes) -> None:
        """Replace the content."""
        durable.replace(self.path, state)


@dataclass(slots=True)
class Progress:
    """A run between two rounds, and its file, if it has one. `opened`: how many rounds clients may have heard of.

    The file holds the reports, so with a trusted coordinator it tells who was chosen: it is the coordinator's alone.
    """

    federation: Federation
    run: bytes
    state: State
    reports: list[RoundReport] = field(default_factory=list)
    opened: int = 0
    _file: StateFile | None = None
    _mark: bytes = b""

    @classmethod
    @contextmanager
    def open(
        cls,
        federation: Federation,
        network: Network,
        keys: Mapping[str, bytes],
        path: Path | str | None,
        entropy: Entropy | None,
    ) -> Iterator["Progress"]:
        """The run that the file holds, or a new one. The file is held: no other coordinator conducts it meanwhile."""
        start = State.start(network, federation.recipe)
        if path is None:
            yield cls(federation, random_key(entropy)[:_RUN], start)
            return
        file, mark = StateFile(path), _mark(federation, network, keys)
        with file.open():
            kept = file.read()
            if kept is None:
                yield cls(federation, random_key(entropy)[:_RUN], start, _file=file, _mark=mark)
                return
            progress = cls(federation, *_restored(kept, federation, mark, start, file.path.name), file, mark)
            progress._close_open_rounds()
            yield progress

    def begin(self, number: int) -> None:
        """Note that a round is opened. It is on disk when this returns: before any client hears of the round.

        Guarantee: no round is asked for twice, whenever the coordinator dies; with a trusted coordinator that would
        be a second lot at the cost of none.
        """
        self.opened = number + 1
        self._write()

    def end(self, report: RoundReport) -> None:
        """Note what a round brought, and the model after it."""
        self.reports.append(report)
        self.state.step = report.number + 1
        self._write()

    def _close_open_rounds(self) -> None:
        """Rounds that were open when the coordinator died have no sum, and are not asked for again."""
        for number in range(len(self.reports), self.opened):
            clip = float(self.state.clip)
            self.reports.append(RoundReport(number, (), (), (), STOPPED, clip, None, self.federation))
            self.state.step = number + 1

    def _write(self) -> None:
        if self._file is None:
            return
        state = self.state
        notes = {
            "opened": self.opened,
            "step": state.step,
            "clip": str(state.clip),
            "losses": state.losses,
            "clips": state.clips,
            "reports": [_noted(report) for report in self.reports],
        }
        arrays = tuple(tuple(array.tobytes() for array in getattr(state, name)) for name in _LISTS)
        self._file.write(pack((_FORMAT, self._mark, self.run, json.dumps(notes), arrays)))


def _mark(federation: Federation, network: Network, keys: Mapping[str, bytes]) -> bytes:
    """What a run is known by: its settings, its network, and who takes part."""
    people = tuple((name, key) for name, key in sorted(keys.items()))
    return hashlib.sha256(pack((federation.digest, repr(network), people))).digest()


def _restored(
    data: bytes, federation: Federation, mark: bytes, start: State, name: str
) -> tuple[bytes, State, list[RoundReport], int]:
    value = _read(data, name)
    if value[0] != _FORMAT:
        raise InvalidData(f"{name} is not a run of this version of discreet; {_ADVICE}")
    if value[1] != mark:
        raise InvalidData(f"{name} is a run of another federation, network or list of clients; {_ADVICE}")
    try:
        notes = json.loads(value[3])
        lists: dict[str, Any] = {
            key: [_array(part, like) for part, like in zip(parts, getattr(start, key), strict=True)]
            for key, parts in zip(_LISTS, value[4], strict=True)
        }
        state = State(
            notes["step"], clip=Fraction(notes["clip"]), losses=notes["losses"], clips=notes["clips"], **lists
        )
        reports = [_report(note, federation) for note in notes["reports"]]
        return value[2], state, reports, int(notes["opened"])
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidData(f"{name} is not a whole run; {_ADVICE}") from error


def _read(data: bytes, name: str) -> tuple[Any, ...]:
    try:
        value = unpack(data)
    except InvalidData as error:
        raise InvalidData(f"{name} is not a run that can be read; {_ADVICE}") from error
    if not isinstance(value, tuple) or tuple(map(type, value)) != (str, bytes, bytes, str, tuple):
        raise InvalidData(f"{name} is not a run that can be read; {_ADVICE}")
    return value


def _array(data: bytes, like: Array) -> Array:
    return np.frombuffer(data, like.dtype).reshape(like.shape).copy()


def _noted(report: RoundReport) -> dict[str, Any]:
    """A report as JSON has it."""
    dropped = [[drop.client, drop.phase, drop.kind, drop.reason] for drop in report.dropped]
    names = ("number", "asked", "arrived", "abandoned", "clip", "noisy_loss")
    return {name: getattr(report, name) for name in names} | {"dropped": dropped}


def _report(note: dict[str, Any], federation: Federation) -> RoundReport:
    return RoundReport(
        note["number"],
        tuple(note["asked"]),
        tuple(note["arrived"]),
        tuple(Dropped(*drop) for drop in note["dropped"]),
        note["abandoned"],
        note["clip"],
        note["noisy_loss"],
        federation,
    )
