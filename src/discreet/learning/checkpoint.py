"""Checkpoints: a run on disk between two steps, so that a killed process goes on where it was.

A checkpoint holds what was released so far, noisy parameters, private components and public settings, and a keyed
digest of the rows. The key is in a file of its own beside it: without the key the digest looks random, and whoever
reads the checkpoint learns what the loss of the run allows. **Whoever has both files can confirm a guess of the whole
table**, down to one row if all others are known: keep the key as private as the rows, and never publish it.

Steps that were not saved were seen by nobody (`train` calls `each` after saving) and are made anew, with fresh lots and
noise; so what leaves a run that was killed and resumed any number of times is the transcript of one run, and costs the
loss of one run, provided that it was not killed because of what a step gave. A finished run returns its result.
Starting anew without the checkpoint is another run, and costs again. See docs/decisions/0023-bound-checkpoints.md.

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
from numpy.typing import NDArray

from discreet.durable import lock, settle, settle_folder
from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import Number, integer, rational
from discreet.learning.projection import PrivatePca, Projection
from discreet.learning.recipe import Recipe
from discreet.learning.state import State
from discreet.learning.trainable import Trainable
from discreet.noise.entropy import SYSTEM

_FORMAT = "discreet training run 2"
_LISTS = ("parameters", "memory", "average")
_KEY = 32


@dataclass(slots=True, init=False)
class Checkpoint:
    """A file that holds one run. It is written every so many steps, or seconds, and at the end.

    The file belongs to one recipe, network, private projection and table; with others it is refused. Beside it is
    `<name>.key`: the secret key of the digest of the rows, and what keeps other processes out.
    """

    path: Path
    every: int | None
    seconds: float | None

    def __init__(self, path: str | Path, *, every: int | None = None, seconds: Number | None = None) -> None:
        if every is None and seconds is None:
            raise InvalidParameter("every", every, "a number of steps, or seconds=", "say how often to save")
        self.path = Path(path)
        self.every = None if every is None else integer(every, "every", at_least=1)
        self.seconds = None if seconds is None else float(rational(seconds, "seconds", above=0))

    @contextmanager
    def open(
        self, network: Trainable, recipe: Recipe, x: NDArray[Any], y: NDArray[Any], *, pca: PrivatePca | None = None
    ) -> Iterator["Run"]:
        """Hold the file for one run: other processes are kept out, a file of another run is refused.

        Guarantee: the state and the components of the `Run` were released by a run with this recipe, network and
        `pca`, on just these rows and labels; so they cost what `recipe.loss` and `pca.loss` say.
        Proof. All of these are in the marks that are written with every state, settings by their reprs, which say
        everything, rows by a digest (BLAKE2b, keyed) of their types, shapes and bytes. Other marks are refused, and
        so is a file whose key is gone. A new run has a new key: digests of two runs cannot be compared.
        """
        lock = self.path.with_name(self.path.name + ".key")
        descriptor = os.open(lock, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            _lock(descriptor, self.path)
            _beside(self.path).unlink(missing_ok=True)  # a step that was being saved when the process died
            key = self._key(descriptor)
            marks = _marks(network, recipe, pca) | {"rows": _digest(key, x, y)}
            yield Run(self, marks, recipe, _load(self.path, marks, State.start(network, recipe), pca, x.shape[1:]))
        finally:
            os.close(descriptor)

    def _key(self, descriptor: int) -> bytes:
        """The key of the run on disk, or a fresh one, durable, where there is none."""
        if self.path.exists():
            key = os.pread(descriptor, _KEY + 1, 0)
            if len(key) != _KEY:
                raise InvalidData(f"{self.path.name}.key is not the key that {self.path.name} was made with; {_ADVICE}")
            return key
        key = SYSTEM.words(_KEY // 8).tobytes()
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, key, 0)
        os.fsync(descriptor)
        settle_folder(self.path.parent)
        return key


@dataclass(slots=True)
class Run:
    """The run that an open checkpoint holds. `state`: what was saved last, None if nothing was yet."""

    checkpoint: Checkpoint
    marks: dict[str, str] = field(repr=False)
    recipe: Recipe
    state: State | None
    _saved: float = field(default_factory=time.monotonic, repr=False)

    def save(self, state: State) -> bool:
        """Save the state if it is time to; whether it was."""
        point = self.checkpoint
        due = (point.every is not None and state.step % point.every == 0) or (
            point.seconds is not None and time.monotonic() - self._saved >= point.seconds
        )
        if not due and state.step < self.recipe.steps:
            return False
        self.write(state)
        return True

    def write(self, state: State) -> None:
        """A new file beside the old one, then a rename: at every moment the path holds one whole checkpoint."""
        header = {"format": _FORMAT, **self.marks, "step": state.step, "clip": str(state.clip)}
        arrays = {f"{name}{k}": array for name in _LISTS for k, array in enumerate(getattr(state, name))}
        arrays |= {name: np.array(getattr(state, name), np.float64) for name in ("losses", "clips")}
        if state.projection is not None:
            arrays |= {"directions": state.projection.directions, "spreads": state.projection.spreads}
        text = np.frombuffer(json.dumps(header).encode(), np.uint8)
        path = self.checkpoint.path
        with open(_beside(path), "wb") as sink:
            np.savez(sink, allow_pickle=False, header=text, **arrays)
            settle(sink, _beside(path), path)
        self._saved = time.monotonic()


_ADVICE = "delete it to start a new run, which costs again, or name another file"


def _beside(path: Path) -> Path:
    return path.with_name(path.name + ".new")


def _marks(network: Trainable, recipe: Recipe, pca: PrivatePca | None) -> dict[str, str]:
    """The settings that a run is known by. Values, all of them: their reprs say everything."""
    marks = {"shape of examples": network.inputs, "network": network, "recipe": recipe, "projection": pca}
    return {what: hashlib.sha256(repr(value).encode()).hexdigest() for what, value in marks.items()}


def _digest(key: bytes, *arrays: NDArray[Any]) -> str:
    """What rows and labels are known by, to those who have the key: types, shapes and all bytes."""
    digest = hashlib.blake2b(key=key, digest_size=32, person=b"discreet rows")
    for array in arrays:
        whole = np.ascontiguousarray(array)
        digest.update(f"{whole.dtype.str} {whole.shape} ".encode())
        digest.update(whole.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _load(
    path: Path, marks: dict[str, str], start: State, pca: PrivatePca | None, shape: tuple[int, ...]
) -> State | None:
    """The state that was saved last, or None where there is no file yet."""
    if not path.exists():
        return None
    try:
        with open(path, "rb") as source, np.load(source, allow_pickle=False) as stored:
            header = json.loads(stored["header"].tobytes().decode())
            arrays = {name: stored[name] for name in stored.files if name != "header"}
    except (BadZipFile, ValueError, KeyError, EOFError, OSError) as error:
        raise InvalidData(f"{path.name} is not a checkpoint that can be read; {_ADVICE}") from error
    if not isinstance(header, dict) or header.get("format") != _FORMAT:
        raise InvalidData(f"{path.name} is not a checkpoint of this version of discreet; {_ADVICE}")
    for what, now in marks.items():
        if header.get(what) != now:
            whose = "other rows" if what == "rows" else f"another {what}"
            raise InvalidData(f"{path.name} is the checkpoint of {whose}; {_ADVICE}")
    state = _state(header, arrays, start, path)
    if pca is not None:
        state.projection = _projection(arrays, pca, shape, path)
    return state


def _projection(arrays: dict[str, Any], pca: PrivatePca, shape: tuple[int, ...], path: Path) -> Projection:
    directions, spreads = (arrays.get(name, np.empty(0)) for name in ("directions", "spreads"))
    if directions.shape != (*shape, pca.dimensions) or spreads.shape != (pca.dimensions,):
        raise InvalidData(f"{path.name} is not a whole checkpoint; {_ADVICE}")
    return Projection(directions, spreads, float(pca.whiten))


def _state(header: dict[str, Any], arrays: dict[str, Any], start: State, path: Path) -> State:
    """The stored arrays in the form of a state that starts."""
    try:
        lists: dict[str, Any] = {
            name: [arrays[f"{name}{k}"] for k in range(len(getattr(start, name)))] for name in _LISTS
        }
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
        lock(descriptor, wait=False)
    except OSError:
        raise InvalidData(f"another process is running {path.name}; wait for it, or name another file") from None
