"""Checkpoints: killed runs go on, nothing is spent twice, what does not belong is refused."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from discreet.errors import InvalidData, InvalidParameter
from discreet.learning.networks.layers import Dense, Relu
from discreet.learning.networks.network import Network, Softmax
from discreet.learning.sgd.recipe import Adam, Adaptive, Recipe, Sgd
from discreet.learning.sgd.run_state import Checkpoint
from discreet.learning.sgd.training import State, train
from discreet.noise import DeterministicEntropy

NETWORK = Network([Dense(4), Relu(), Dense(2)], Softmax(), inputs=(3,))
X = np.random.default_rng(1).normal(size=(100, 3)).astype(np.float32)
Y = (X[:, 0] > 0).astype(int)
SETTINGS = ("shape of examples", "network", "recipe", "projection")


def recipe(**settings):
    given = {"rate": "1/5", "lot": 20, "steps": 12, "multiplier": 1, "clip": 1, "optimizer": Sgd("0.1", "0.9")}
    return Recipe(**given | settings)


def same(a, b):
    lists = zip((*a.parameters, *a.memory, *a.average), (*b.parameters, *b.memory, *b.average), strict=True)
    return (a.step, a.clip, a.losses, a.clips) == (b.step, b.clip, b.losses, b.clips) and all(
        (one == other).all() for one, other in lists
    )


def saved(path, network=NETWORK, plan=None):
    """What a checkpoint holds."""
    with Checkpoint(path, every=5).open(network, plan or recipe(), X, Y) as run:
        return run.state


@pytest.mark.parametrize(
    "settings", [{}, {"average": "0.9"}, {"adaptive": Adaptive()}, {"optimizer": Adam("0.01")}, {"curve": 0}], ids=str
)
def test_a_state_comes_back_bit_by_bit(tmp_path, settings):
    plan = recipe(**settings)
    state = train(NETWORK, X, Y, plan, checkpoint=Checkpoint(tmp_path / "run", every=5))
    assert same(saved(tmp_path / "run", plan=plan), state)


def test_a_run_in_two_goes_is_the_run_in_one(tmp_path):
    """With one stream of entropy, stopping and going on changes nothing."""
    plan = recipe()
    whole = train(NETWORK, X, Y, plan, entropy=DeterministicEntropy(1))
    entropy = DeterministicEntropy(1)

    class Stop(Exception):
        pass

    def stop(state):
        if state.step == 6:
            raise Stop

    with pytest.raises(Stop):
        train(NETWORK, X, Y, plan, entropy=entropy, each=stop, checkpoint=Checkpoint(tmp_path / "run", every=3))
    again = train(NETWORK, X, Y, plan, entropy=entropy, checkpoint=Checkpoint(tmp_path / "run", every=3))
    assert same(again, whole)


def test_a_finished_run_returns_its_result_and_draws_nothing(tmp_path, scripted):
    plan = recipe()
    first = train(NETWORK, X, Y, plan, checkpoint=Checkpoint(tmp_path / "run", every=100))
    again = train(NETWORK, X, Y, plan, entropy=scripted([]), checkpoint=Checkpoint(tmp_path / "run", every=100))
    assert same(first, again)


def test_nobody_sees_a_step_that_is_not_saved(tmp_path):
    """Else a run that is killed and resumed would show two versions of the same step: twice the cost."""
    seen = []

    def look(state):
        seen.append(state.step)
        copy = tmp_path / f"copy {state.step}"
        for end in ("", ".key"):
            Path(f"{copy}{end}").write_bytes((tmp_path / f"run{end}").read_bytes())
        assert same(saved(copy), state)

    train(NETWORK, X, Y, recipe(), each=look, checkpoint=Checkpoint(tmp_path / "run", every=5))
    assert seen == [5, 10, 12]


def test_by_seconds(tmp_path):
    state = State.start(NETWORK, recipe())
    state.step = 1
    with Checkpoint(tmp_path / "run", seconds=1000).open(NETWORK, recipe(), X, Y) as run:
        assert not run.save(state)
        run._saved -= 1001
        assert run.save(state)
        assert not run.save(state)


@pytest.mark.parametrize(
    ("network", "plan", "words"),
    [
        (NETWORK, recipe(multiplier=2), "another recipe"),
        (NETWORK, recipe(steps=13), "another recipe"),
        (NETWORK, recipe(seed=2), "another recipe"),
        (Network([Dense(5), Relu(), Dense(2)], Softmax(), (3,)), recipe(), "another network"),
        (Network([Dense(4), Relu(), Dense(2)], Softmax(), (4,)), recipe(), "another shape of examples"),
    ],
)
def test_a_checkpoint_of_something_else_is_refused(tmp_path, network, plan, words):
    train(NETWORK, X, Y, recipe(), checkpoint=Checkpoint(tmp_path / "run", every=5))
    with pytest.raises(InvalidData, match=words):
        saved(tmp_path / "run", network, plan)


@pytest.mark.parametrize("damage", [b"", b"not a zip", None])
def test_damaged_files_are_refused(tmp_path, damage):
    path = tmp_path / "run"
    train(NETWORK, X, Y, recipe(), checkpoint=Checkpoint(path, every=5))
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2] if damage is None else damage)
    with pytest.raises(InvalidData, match="not a checkpoint that can be read"):
        train(NETWORK, X, Y, recipe(), checkpoint=Checkpoint(path, every=5))


def test_a_file_of_another_format_and_one_with_parts_missing(tmp_path):
    path = tmp_path / "run"
    train(NETWORK, X, Y, recipe(), checkpoint=Checkpoint(path, every=5))
    with np.load(path) as stored:
        parts = {name: stored[name] for name in stored.files if name != "memory1"}
    with path.open("wb") as sink:
        np.savez(sink, **parts)
    with pytest.raises(InvalidData, match="not a whole checkpoint"):
        saved(path)
    with path.open("wb") as sink:
        np.savez(sink, header=np.frombuffer(b'{"format":"x"}', np.uint8))
    with pytest.raises(InvalidData, match="not a checkpoint of this version"):
        saved(path)


def test_two_processes_cannot_run_one_run(tmp_path):
    point = Checkpoint(tmp_path / "run", every=5).open(NETWORK, recipe(), X, Y)
    with point, pytest.raises(InvalidData, match="another process is running"):
        train(NETWORK, X, Y, recipe(), checkpoint=Checkpoint(tmp_path / "run", every=5))


def test_the_file_holds_no_rows(tmp_path):
    """Nothing but noisy values, public settings and a digest with a key: not even how many rows there are."""
    train(NETWORK, X, Y, recipe(), checkpoint=Checkpoint(tmp_path / "run", every=5))
    with np.load(tmp_path / "run") as stored:
        header = json.loads(stored["header"].tobytes())
        assert set(header) == {"format", *SETTINGS, "rows", "step", "clip"}
        sizes = {stored[name].shape for name in stored.files if name != "header"}
    assert not any(100 in shape for shape in sizes)


@pytest.mark.parametrize("wrong", [{}, {"every": 0}, {"every": 1.5}, {"seconds": 0}])
def test_bad_settings(tmp_path, wrong):
    with pytest.raises(InvalidParameter):
        Checkpoint(tmp_path / "run", **wrong)


CHILD = """
import sys, time
sys.path.insert(0, {tests!r})
from test_checkpoint import *
plan = recipe(steps=60)
def each(state):
    print(state.step, flush=True)
    time.sleep(0.02)
train(NETWORK, X, Y, plan, each=each, checkpoint=Checkpoint({path!r}, every=1))
"""


@pytest.mark.slow
def test_a_killed_process_goes_on_and_every_step_is_shown_once(tmp_path):
    """kill -9 at several moments: what was shown is a prefix, and the next process shows what comes after it."""
    path = tmp_path / "run"
    code = CHILD.format(tests=str(Path(__file__).parent), path=str(path))
    shown = []
    for _ in range(20):
        child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        lines = [child.stdout.readline() for _ in range(17)]
        if child.poll() is None:
            os.kill(child.pid, signal.SIGKILL)
        lines += child.stdout.readlines()
        child.wait()
        child.stdout.close()
        shown += [int(line) for line in lines if line.strip()]
        if shown and shown[-1] == 60:
            break
    assert shown[-1] == 60
    assert len(shown) == len(set(shown)), "a step was shown twice"
    assert shown == sorted(shown)
    assert saved(path, plan=recipe(steps=60)).step == 60
