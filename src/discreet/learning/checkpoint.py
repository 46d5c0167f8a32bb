"""Checkpoints: a run on disk between two steps, so that a killed process goes on where it was.

What a checkpoint holds is what was released so far, noisy parameters and public settings, and nothing else: whoever
reads the file learns what the loss of the run allows. Steps that were not saved were seen by nobody (`train` calls
`each` after saving) and are made anew, with fresh lots and noise; so what leaves a run that was killed and resumed any
number of times is the transcript of one run, and costs the loss of one run, provided that it was not killed because
of what a step gave. A finished run returns its result. Starting anew without the checkpoint is another run, and
costs again.

>>> import tempfile, pathlib
>>> from discreet.learning.checkpoint import Checkpoint
>>> Checkpoint(pathlib.Path(tempfile.gettempdir()) / "run.npz", every=100).every
100
"""

import hashlib
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from discreet.durable import settle
from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import Number, integer, rational
from discreet.learning.recipe import Recipe
from discreet.learning.state import State
from discreet.learning.trainable import Trainable

_FORMAT = "discreet training run 1"
_LISTS = ("parameters", "memory", "average")


@dataclass(slots=True, init=False)
class Checkpoint:
    """A file that holds one run. It is written every so many steps, or seconds, and at the end.

    The file belongs to one recipe, network and shape of examples; with others it is refused. It cannot tell one table
    from another of the same shape: a fingerprint of private rows would not be private. Give each run its own file.
    """

    path: Path
    every: int | None
    seconds: float | None
    _saved: float = field(repr=False)

    def __init__(self, path: str | Path, *, every: int | None = None, seconds: Number | None = None) -> None:
        if every is None and seconds is None:
            raise InvalidParameter("every", every, "a number of steps, or seconds=", "say how often to save")
        self.path = Path(path)
        self.every = None if every is None else integer(every, "every", at_least=1)
        self.seconds = None if seconds is None else float(rational(seconds, "seconds", above=0))
        self._saved = time.monotonic()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other processes from running the same run at the same time: they would spend twice."""
        lock = self.path.with_name(self.path.name + ".lock")
        descriptor = os.open(lock, os.O_CREAT | os.O_RDWR, 0o600)
        try:
            _lock(descriptor, self.path)
            yield
        finally:
            os.close(descriptor)

    def save(self, network: Trainable, recipe: Recipe, state: State) -> bool:
        """Save the state if it is time to; whether it was."""
        now = time.monotonic()
        due = (self.every is not None and state.step % self.every == 0) or (
            self.seconds is not None and now - self._saved >= self.seconds
        )
        if not due and state.step < recipe.steps:
            return False
        self._write(network, recipe, state)
        self._saved = time.monotonic()
        return True

    def load(self, network: Trainable, recipe: Recipe) -> State | None:
        """The state that was saved last, or None where there is no file yet."""
        if not self.path.exists():
            return None
        try:
            with open(self.path, "rb") as source, np.load(source, allow_pickle=False) as stored:
                header = json.loads(stored["header"].tobytes().decode())
                arrays = {name: stored[name] for name in stored.files if name != "header"}
        except (BadZipFile, ValueError, KeyError, EOFError, OSError) as error:
            raise InvalidData(f"{self.path.name} is not a checkpoint that can be read; {_ADVICE}") from error
        self._check(header, network, recipe)
        return _state(header, arrays, State.start(network, recipe), self.path)

    def _check(self, header: Any, network: Trainable, recipe: Recipe) -> None:
        if not isinstance(header, dict) or header.get("format") != _FORMAT:
            raise InvalidData(f"{self.path.name} is not a checkpoint of this version of discreet; {_ADVICE}")
        for what, now in _marks(network, recipe).items():
            if header.get(what) != now:
                raise InvalidData(f"{self.path.name} is the checkpoint of another {what}; {_ADVICE}")

    def _write(self, network: Trainable, recipe: Recipe, state: State) -> None:
        """A new file beside the old one, then a rename: at every moment the path holds one whole checkpoint."""
        header = {"format": _FORMAT, **_marks(network, recipe), "step": state.step, "clip": str(state.clip)}
        arrays = {f"{name}{k}": array for name in _LISTS for k, array in enumerate(getattr(state, name))}
        curves = {name: np.array(getattr(state, name), np.float64) for name in ("losses", "clips")}
        text = np.frombuffer(json.dumps(header).encode(), np.uint8)
        beside = self.path.with_name(self.path.name + ".new")
        with open(beside, "wb") as sink:
            np.savez(sink, allow_pickle=False, header=text, **curves, **arrays)
            settle(sink, beside, self.path)


_ADVICE = "delete it to start a new run, which costs again, or name another file"


def _marks(network: Trainable, recipe: Recipe) -> dict[str, str]:
    """What a run is known by. Values, all of them: their reprs say everything."""
    marks = {"recipe": repr(recipe), "network": repr(network), "shape of examples": repr(network.inputs)}
    return {what: hashlib.sha256(words.encode()).hexdigest() for what, words in reversed(marks.items())}


def _state(header: dict[str, Any], arrays: dict[str, Any], start: State, path: Path) -> State:
    """The stored arrays in the form of a state that starts."""
    try:
        lists = {name: [arrays[f"{name}{k}"] for k in range(len(getattr(start, name)))] for name in _LISTS}
        curves = {name: arrays[name].tolist() for name in ("losses", "clips")}
        state = State(step=int(header["step"]), clip=Fraction(header["clip"]), **lists, **curves)
    except (KeyError, ValueError, TypeError) as error:
        raise InvalidData(f"{path.name} is not a whole checkpoint; {_ADVICE}") from error
    for name in _LISTS:
        for ours, theirs in zip(getattr(start, name), getattr(state, name), strict=True):
            if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
                raise InvalidData(f"{path.name} holds other parameters than this network's; {_ADVICE}")
    return state


def _lock(descriptor: int, path: Path) -> None:
    try:
        import fcntl
    except ImportError:  # no such locks on this system: one process at a time is the caller's care
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise InvalidData(f"another process is running {path.name}; wait for it, or name another file") from None
