"""The rounds so far: what happened in each, and what a coordinator keeps on disk to go on after it died.

A member answers each round of one run once, and no other run (`Member`). So a coordinator that died can go on only as
the same run, with the next round: it needs the name of the run, the model with the optimizer's state, and which round
was opened last.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from discreet.errors import InvalidData
from discreet.learning.federated.federation import Federation
from discreet.learning.federated.flower_state import Notebook
from discreet.learning.federated.judging import Dropped
from discreet.learning.federated.keys import random_key
from discreet.learning.federated.packing import pack, unpack
from discreet.learning.networks.network import Network
from discreet.learning.sgd.gradients import Array
from discreet.learning.sgd.run_state import State
from discreet.noise import Entropy
from discreet.privacy.loss import Loss

STOPPED = "the coordinator stopped in this round"

_FORMAT = "discreet federated coordinator 1"
_RUN = 16
_LISTS = ("parameters", "memory", "average")
_ADVICE = "name another file; a new run costs again, and needs clients that agree to it"


@dataclass(frozen=True, slots=True)
class Report:
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


@dataclass(slots=True)
class Progress:
    """A run between two rounds, and its file, if it has one. `opened`: how many rounds clients may have heard of.

    The file holds the reports, so with a trusted coordinator it tells who was chosen: it is the coordinator's alone.
    """

    federation: Federation
    run: bytes
    state: State
    reports: list[Report] = field(default_factory=list)
    opened: int = 0
    _file: Notebook | None = None
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
        file, mark = Notebook(path), _mark(federation, network, keys)
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

    def end(self, report: Report) -> None:
        """Note what a round brought, and the model after it."""
        self.reports.append(report)
        self.state.step = report.number + 1
        self._write()

    def _close_open_rounds(self) -> None:
        """Rounds that were open when the coordinator died have no sum, and are not asked for again."""
        for number in range(len(self.reports), self.opened):
            clip = float(self.state.clip)
            self.reports.append(Report(number, (), (), (), STOPPED, clip, None, self.federation))
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
) -> tuple[bytes, State, list[Report], int]:
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


def _noted(report: Report) -> dict[str, Any]:
    """A report as JSON has it."""
    dropped = [[drop.client, drop.phase, drop.kind, drop.reason] for drop in report.dropped]
    names = ("number", "asked", "arrived", "abandoned", "clip", "noisy_loss")
    return {name: getattr(report, name) for name in names} | {"dropped": dropped}


def _report(note: dict[str, Any], federation: Federation) -> Report:
    return Report(
        note["number"],
        tuple(note["asked"]),
        tuple(note["arrived"]),
        tuple(Dropped(*drop) for drop in note["dropped"]),
        note["abandoned"],
        note["clip"],
        note["noisy_loss"],
        federation,
    )
