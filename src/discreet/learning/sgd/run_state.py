"""A training run between two steps: its state, its checkpoint on disk, its learning curve.

With a checkpoint a killed process goes on where it was.

A checkpoint holds what was released so far, noisy parameters, private components and public settings, and a keyed
digest of the rows. The key is in a file of its own beside it: without the key the digest looks random, and whoever
reads the checkpoint learns what the loss of the run allows. **Whoever has both files can confirm a guess of the whole
table**, down to one row if all others are known: keep the key as private as the rows, and never publish it.

Steps that were not saved were seen by nobody (`train` calls `each` after saving) and are made anew, with fresh lots and
noise; so what leaves a run that was killed and resumed any number of times is the transcript of one run, and costs the
loss of one run, provided that it was not killed because of what a step gave. A finished run returns its result.
Starting anew without the checkpoint is another run, and costs again. See docs/decisions/0023-bound-checkpoints.md.

>>> import tempfile, pathlib
>>> from discreet.learning.sgd.run_state import Checkpoint
>>> Checkpoint(pathlib.Path(tempfile.gettempdir()) / "run.npz", every=100).every
100

>>> from discreet.learning.sgd.run_state import learning_chart
>>> learning_chart([2.3, 1.9, 1.4, 1.2], noise=0.1).title
'Loss on the lots, with noise'
"""

import hashlib
import json
import math
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, TextIO
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from discreet.durable import lock, settle, settle_folder
from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import Number, integer, plain, rational
from discreet.learning.sgd.gradients import Array, Parameters, Trainable
from discreet.learning.sgd.preprocessing import PrivatePca, Projection
from discreet.learning.sgd.recipe import Recipe
from discreet.noise.entropy import SYSTEM
from discreet.privacy.accounting import composition, guarantee, pld, rdp
from discreet.privacy.loss import Approximate, Repeated, SampledGaussian
from discreet.report import Chart, Line


@dataclass(slots=True)
class State:
    """A run between two steps: what a checkpoint holds. Nothing in it but noisy values and public settings.

    >>> from discreet.learning.networks.layers import Dense
    >>> from discreet.learning.networks.network import Network, Softmax
    >>> network = Network([Dense(2)], Softmax(), inputs=(3,))
    >>> from discreet.learning.sgd.recipe import Sgd
    >>> recipe = Recipe(rate="0.1", lot=10, steps=5, multiplier=1, clip=1, optimizer=Sgd(1))
    >>> State.start(network, recipe).step
    0
    """

    step: int
    parameters: Parameters
    memory: list[Array]
    average: Parameters
    clip: Fraction
    losses: list[float] = field(default_factory=list)
    clips: list[float] = field(default_factory=list)
    projection: Projection | None = None

    @classmethod
    def start(cls, network: Trainable, recipe: Recipe) -> "State":
        """Before the first step."""
        parameters = network.start(seed=recipe.seed)
        memory = recipe.optimizer.memory(parameters)
        return cls(0, parameters, memory, [p.copy() for p in parameters], recipe.clip)


def finished(state: State, recipe: Recipe) -> Parameters:
    """The parameters to use: the running average if the recipe keeps one."""
    return state.average if recipe.average else state.parameters


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


Floats = NDArray[np.float64]


def learning_chart(losses: Sequence[float], *, noise: float = 0.0) -> Chart:
    """A noisy learning curve as a running mean over a twentieth of the run, with two deviations of its noise around.

    `noise` is the standard deviation of one step's loss: `curve_noise(recipe)`.
    """
    if not len(losses):
        raise InvalidData("there is no learning curve: give the recipe a share for it, curve > 0")
    values = np.asarray(losses, np.float64)
    means, counts = running_mean(values, max(1, len(values) // 20))
    spread = 2 * noise / np.sqrt(counts)
    steps = np.arange(1, len(values) + 1)
    line = Line(steps, means, "mean loss", low=means - spread, high=means + spread)
    return Chart("Loss on the lots, with noise", [line], x="step", y="mean loss")


def curve_noise(recipe: Recipe) -> float:
    """The standard deviation of the noise in one step of the learning curve.

    >>> from discreet.learning.sgd.recipe import Sgd
    >>> round(curve_noise(Recipe(rate="0.1", lot=100, steps=9, multiplier=2, clip=1, optimizer=Sgd(1))), 3)
    1.0
    """
    return float(recipe.multiplier * recipe.worst_loss / recipe.lot) / math.sqrt(recipe.curve) if recipe.curve else 0.0


def running_mean(values: Floats, width: int) -> tuple[Floats, Floats]:
    """The mean of the last `width` values at each place, and of how many there are.

    >>> running_mean(np.array([1.0, 3.0, 5.0]), 2)[0].tolist()
    [1.0, 2.0, 4.0]
    """
    sums = np.concatenate([np.zeros(1), np.cumsum(values)])
    ends = np.arange(1, len(values) + 1)
    starts = np.maximum(ends - width, 0)
    counts = (ends - starts).astype(np.float64)
    return (sums[ends] - sums[starts]) / counts, counts


def costs(*, rate: Number, multiplier: Number, delta: Number, steps: Sequence[int]) -> dict[str, list[float]]:
    """ε of a run after each number of steps, by four kinds of accounting.

    Basic and advanced composition (Dwork, Rothblum, Vadhan 2010) are given the best that they can use: the exact ε of
    one step, sampling included, at the δ that is left for it: the whole, or half of it, shared out among the steps.

    >>> found = costs(rate="0.01", multiplier=4, delta="1e-5", steps=[10_000])
    >>> {name: round(values[0], 2) for name, values in found.items()}
    {'basic': 223.49, 'advanced': 14.34, 'moments (RDP)': 1.04, 'numerical (PLD)': 0.95}
    """
    step = SampledGaussian(rate, multiplier)
    at = rational(delta, "delta", above=0, below=1)
    results: dict[str, list[float]] = {"basic": [], "advanced": [], "moments (RDP)": [], "numerical (PLD)": []}
    for count in steps:
        run = Repeated(step, integer(count, "steps", at_least=1))
        each = at / (2 * count)
        single = Approximate(guarantee(step, delta=each).epsilon, each)
        results["basic"].append(count * guarantee(step, delta=at / count).epsilon)
        results["advanced"].append(composition.advanced(Repeated(single, count), delta=at))
        results["moments (RDP)"].append(rdp.epsilon(rdp.curve(run), delta=at))
        results["numerical (PLD)"].append(pld.epsilon(run, delta=at))
    return results


def cost_chart(*, rate: Number, multiplier: Number, delta: Number, steps: int, points: int = 12) -> Chart:
    """ε against the number of steps, on logarithmic axes: √T has slope one half."""
    last = integer(steps, "steps", at_least=10)
    places = sorted({round(place) for place in np.geomspace(max(1, last // 1000), last, points)})
    result = costs(rate=rate, multiplier=multiplier, delta=delta, steps=places)
    share, noise = (float(rational(value, name)) for value, name in ((rate, "rate"), (multiplier, "multiplier")))
    shape = [result["numerical (PLD)"][-1] * math.sqrt(place / last) for place in places]
    lines = [Line(places, values, name) for name, values in result.items()]
    title = f"What training costs: rate {share:g}, noise {noise:g}, δ = {plain(rational(delta, 'delta'))}"
    return Chart(title, [*lines, Line(places, shape, "∝ √steps", dashed=True)], "steps", "ε", log_x=True, log_y=True)


class Bar:
    """A line on a terminal that says how far a run is; on anything else it is silent.

    >>> Bar(10).show(5, 0.3)
    """

    def __init__(self, steps: int, stream: TextIO | None = None) -> None:
        self._steps, self._stream = steps, sys.stderr if stream is None else stream
        self._shown = -1
        self._on = hasattr(self._stream, "isatty") and self._stream.isatty()

    def show(self, step: int, loss: float | None = None) -> None:
        """Draw it anew if a hundredth of the run has passed."""
        part = 100 * step // self._steps
        if not self._on or part == self._shown:
            return
        self._shown = part
        filled = "█" * (30 * step // self._steps)
        words = "" if loss is None else f"  noisy loss {loss:.3f}"
        end = "\n" if step >= self._steps else ""
        self._stream.write(f"\rtraining {filled:<30} {part:3d} %  step {step} of {self._steps}{words}   {end}")
        self._stream.flush()


def smoothed(losses: Sequence[float], share: Fraction = Fraction(1, 20)) -> float:
    """The mean of the last part of a noisy curve.

    >>> smoothed([9.0, 2.0, 1.0], Fraction(2, 3))
    1.5
    """
    count = max(1, int(len(losses) * share))
    return float(np.mean(losses[-count:])) if len(losses) else math.nan
