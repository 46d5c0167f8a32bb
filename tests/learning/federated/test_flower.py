"""Private rounds on Flower: first with a grid in this process, then with real processes on loopback."""

import importlib
import os
import re
import shutil
import stat
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from discreet.curator.ledger import Ledger
from discreet.curator.stores.sqlite import SqliteStore
from discreet.errors import InvalidData, InvalidParameter, LedgerUnavailable, ReleaseFailed
from discreet.learning.federated import Arrival, InProcessClients, Member, rounds, run
from discreet.learning.federated.exchange import Declined, decode_answer
from discreet.learning.federated.member import seeded_identity
from discreet.learning.federated.rounds import STOPPED, StateFile
from discreet.learning.networks.layers import Dense
from discreet.learning.networks.network import Network, Softmax
from discreet.noise import DeterministicEntropy

try:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Flower's typer imports what click calls deprecated
        from flwr.app import ConfigRecord, Context, Error, Message, RecordDict
        from flwr.cli.build import build_fab_from_disk
        from flwr.cli.install import install_from_fab
        from flwr.clientapp import ClientApp
        from flwr.serverapp import Grid
        from flwr.supercore.run import Run
        from flwr.supercore.task_identity import TaskIdentity
except ImportError:
    if os.environ.get("CI"):
        raise
    reason = "NO FLOWER: private rounds on it are not tested; install it (pip install 'discreet[federated]')"
    pytest.skip(reason, allow_module_level=True)

from tests.learning.federated import flower_trial as trial
from tests.learning.federated.flower_deployment import Deployment, marked

from discreet.learning.federated import flower
from discreet.learning.federated.flower import GridFleet, PrivateRounds, client_app, member_mod

RUN = 77
EXAMPLE = Path(__file__).parents[3] / "examples" / "flower"


def answer(reply):
    """Whether this is an answer to an order, not to a hello."""
    return "answer" in reply.content["discreet"] and "name" not in reply.content["discreet"]


def said(reply):
    return reply.content["discreet"]["answer"]


def asked(reply):
    """The message that this is a reply to, as far as another reply needs it."""
    message = Message(RecordDict(), reply.metadata.src_node_id, "train")
    message.metadata.__dict__["_message_id"] = reply.metadata.reply_to_message_id
    return message


class LoopGrid(Grid):
    """A grid in this process. Nodes are apps with their contexts; `wire` may change or hold back replies."""

    def __init__(self, nodes, wire=None):
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = RUN, 1, 1
        self.nodes, self.wire = dict(nodes), wire or (lambda node, reply: [reply])
        self.replies, self.count, self.unread = {}, 0, set()
        self.gone = self.before_pull = lambda: False

    def set_run(self, run):
        raise NotImplementedError

    @property
    def run(self):
        return Run.create_empty(RUN)

    def create_message(self, *_args, **_settings):
        raise NotImplementedError

    def send_and_receive(self, messages, *, timeout=None):
        raise NotImplementedError

    def get_node_ids(self):
        return [node for node in self.nodes if not (node == 12 and self.gone())]

    def push_messages(self, messages):
        return [self._push(message) for message in messages]

    def _push(self, message):
        self.count += 1
        mark = f"message {self.count}"
        message.metadata.__dict__["_message_id"] = mark
        app, context = self.nodes[message.metadata.dst_node_id]
        self.replies[mark] = self.wire(message.metadata.dst_node_id, app(message, context))
        return mark

    def pull_messages(self, message_ids):
        self.before_pull()
        found = [reply for mark in message_ids for reply in self.replies.pop(mark, None) or ()]
        if any(reply in self.unread for reply in found):
            raise ValueError("not a message")
        return found


def context(node, name, folder, kind="trusted"):
    home = folder / f"{kind} {name}"
    home.mkdir(exist_ok=True)
    return Context(RUN, node, {"name": name, "home": str(home)}, RecordDict(), {"kind": kind}, 0)


def loop(folder, kind="trusted", wire=None, names=trial.NAMES):
    app = client_app(trial.join, trial.keep)
    return LoopGrid({10 + k: (app, context(10 + k, name, folder, kind)) for k, name in enumerate(names)}, wire)


def conducted(grid, kind="trusted", **settings):
    options = {"limit": 0.05, "patience": 0, "entropy": DeterministicEntropy(trial.SEED)} | settings
    return PrivateRounds(trial.federation(kind), trial.NETWORK, trial.KEYS, **options).start(grid)


def in_process(kind, wire=None):
    plan = trial.federation(kind)
    fleet = InProcessClients(
        plan, trial.NETWORK, {name: trial.rows(name) for name in trial.NAMES}, seed=trial.SEED, wire=wire
    )
    return run(plan, trial.NETWORK, fleet, entropy=DeterministicEntropy(trial.SEED))


def reference(kind, folder):
    """What the same federation gives in one process, with Eve's mischief or death."""
    turn = {"asked": 0}

    def trusted(name, answer):
        turn["asked"] += name == "eve"
        return trial.meddled(name, answer, turn["asked"] - 1, folder)

    def secure(name, answer):
        turn["asked"] += name == "eve"
        return None if name == "eve" and turn["asked"] == 5 + 3 else answer

    return in_process(kind, trusted if kind == "trusted" else secure)


def same(parameters, others):
    return len(parameters) == len(others) and all(map(np.array_equal, parameters, others))


def test_the_result_is_that_of_one_process_and_mischief_is_reported(tmp_path):
    outcome, expected = conducted(loop(tmp_path)), reference("trusted", tmp_path)
    assert same(outcome.parameters, expected.parameters)
    assert not same(outcome.parameters, in_process("trusted").parameters)  # Eve's updates would have counted
    kinds = [[(drop.client, drop.kind) for drop in report.dropped] for report in outcome.reports]
    assert kinds[:3] == [[], [("eve", "NaN")], [("eve", "wrong shape")]]
    assert ("eve", "replayed") in kinds[3]
    assert [report.arrived for report in outcome.reports] == [trial.NAMES, *[("ann", "bob")] * 3]


def test_secure_rounds_go_on_through_new_processes(tmp_path):
    """Every message meets a new member, which has nothing but the file; Eve's node is gone when she is needed."""
    grid = loop(tmp_path, "secure", wire=lambda node, reply: [reply])
    grid.gone = lambda: grid.count == 3 + 5 * 3 + 2 * 3  # hello, the first round, two phases of the second
    outcome, expected = conducted(grid, "secure"), reference("secure", tmp_path)
    assert same(outcome.parameters, expected.parameters)
    assert not same(outcome.parameters, in_process("secure").parameters)
    assert [report.arrived for report in outcome.reports] == [trial.NAMES, ("ann", "bob")]
    first = outcome.reports[1].dropped[0]
    assert (first.client, first.kind, first.phase, first.reason) == ("eve", "died", "masked", "it is not connected")


def test_silence_and_late_answers(tmp_path):
    """Bob's answer to round 0 comes in round 1: it is late, and his own answer to round 1 is taken."""
    held = []

    def wire(node, reply):
        if node != 11 or not answer(reply):
            return [reply]
        held.append(reply)
        return None if len(held) == 1 else [reply]

    grid = loop(tmp_path, wire=wire)
    grid.before_pull = lambda: len(held) == 2 and grid.replies.update({held[0].metadata.reply_to_message_id: held[:1]})
    outcome = conducted(grid)
    first, second = (
        [(drop.client, drop.kind) for drop in report.dropped if drop.client == "bob"] for report in outcome.reports[:2]
    )
    assert (first, second) == ([("bob", "died")], [("bob", "late")])
    assert ["bob" in report.arrived for report in outcome.reports] == [False, True, True, True]


def test_a_late_answer_does_not_stand_for_the_one_awaited(tmp_path, monkeypatch):
    """Nor does word that an earlier order came to nothing."""
    grid = loop(tmp_path)
    fleet = GridFleet(grid, trial.KEYS, limit=0.05, poll=0.01)
    fleet.gather(0)
    grid.wire = lambda _, reply: held.append(reply)
    held = []
    monkeypatch.setattr(flower, "_UNANSWERED", 9)
    for order in (b"lost", b"answered late", b"expires"):
        assert fleet.ask({"bob": order}) == []
    late, failed = held[1], Message(Error(3, "expired"), reply_to=asked(held[2]))
    script = [[lambda: late], [lambda: failed], *[[]] * 20, [lambda: held[3]]]  # one a look at one order

    def before_pull():
        for come in script.pop(0) if script else ():
            reply = come()
            grid.replies[reply.metadata.reply_to_message_id] = [reply]

    grid.before_pull, fleet._limit = before_pull, 3600
    found = fleet.ask({"bob": b"the one awaited"})
    assert found == [Arrival("bob", said(late)), Arrival("bob", said(held[3]))]


def test_a_node_that_leaves_is_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(flower, "_CHECK", 0)
    grid = loop(tmp_path, wire=lambda node, reply: None if node == 11 and answer(reply) else [reply])
    fleet = GridFleet(grid, trial.KEYS, limit=3600, poll=0)
    assert sorted(fleet.gather(0)) == list(trial.NAMES)
    grid.before_pull = lambda: grid.nodes.pop(11, None)
    found = fleet.ask({"bob": b"junk"})
    assert found == [Arrival("bob", failure="its connection was lost")]


def test_a_client_is_found_again_on_a_new_node(tmp_path):
    grid = loop(tmp_path)
    fleet = GridFleet(grid, trial.KEYS, limit=0.05, poll=0)
    fleet.gather(0)
    app, old = grid.nodes.pop(11)
    assert fleet.ask({"bob": b"junk"}) == [Arrival("bob", failure="it is not connected")]
    grid.nodes[99] = app, context(99, "bob", tmp_path)
    fleet.ask({"ann": b"junk"})
    assert [arrival.failure for arrival in fleet.ask({"bob": b"junk"})] == [""]


def test_a_node_that_could_not_say_who_it_is_is_asked_again(tmp_path):
    grid = loop(tmp_path)
    broken = {"once": True}

    def wire(node, reply):
        return (
            [Message(Error(0, "busy"), reply_to=asked(reply))] if node == 11 and broken.pop("once", False) else [reply]
        )

    grid.wire = wire
    fleet = GridFleet(grid, trial.KEYS, limit=0.05, poll=0)
    assert sorted(fleet.gather(0)) == ["ann", "eve"]
    fleet.ask({"ann": b"junk"})
    assert [arrival.failure for arrival in fleet.ask({"bob": b"junk"})] == [""]


@pytest.mark.parametrize("theft", ["name", "signature of another node", "junk"])
def test_no_node_takes_the_place_of_another_client(tmp_path, theft):
    """Mallory's node says that it is Bob: with its own signature, with Bob's from his node, with something else."""
    bob = flower._hello(RUN, 11, "bob")
    said = {
        "name": {"name": "bob", "answer": seeded_identity(trial.SEED, "eve").sign(flower._hello(RUN, 13, "bob"))},
        "signature of another node": {"name": "bob", "answer": seeded_identity(trial.SEED, "bob").sign(bob)},
        "junk": {"name": 7, "answer": "bob"},
    }[theft]
    app = ClientApp()

    @app.train()
    def claim(message, _context):
        return Message(RecordDict({"discreet": ConfigRecord(said)}), reply_to=message)

    grid = loop(tmp_path, names=("ann",))
    grid.nodes[13] = app, context(13, "bob", tmp_path)
    assert GridFleet(grid, trial.KEYS, limit=0.05, poll=0).gather(0) == ("ann",)


def test_a_reply_that_cannot_be_read_takes_no_other_with_it(tmp_path):
    def wire(node, reply):
        if node == 11 and answer(reply):
            grid.unread.add(reply)
        return [reply]

    grid = loop(tmp_path, wire=wire)
    outcome = conducted(grid)
    assert [drop.kind for drop in outcome.reports[0].dropped] == ["died"]
    assert outcome.reports[0].arrived == ("ann", "eve")


@pytest.mark.parametrize("content", [{}, {"answer": "text"}, {"answer": [b"list"]}, {"answer": b""}])
def test_replies_without_an_answer_are_malformed(tmp_path, content):
    def wire(node, reply):
        changed = Message(RecordDict({"discreet": ConfigRecord(content)}), reply_to=asked(reply))
        return [changed if node == 11 and answer(reply) else reply]

    outcome = conducted(loop(tmp_path, wire=wire))
    assert [(drop.client, drop.kind) for drop in outcome.reports[0].dropped] == [("bob", "malformed")]


def test_what_goes_wrong_at_a_client_stays_there(tmp_path, caplog):
    def join(context, state):
        if state is not None or context.node_config["name"] == "bob":
            raise ValueError("row 17: Grace Hopper, 1906-12-09")
        return trial.join(context, state)

    grid = loop(tmp_path, names=("bob",))
    grid.nodes[10] = client_app(join, trial.keep), grid.nodes[10][1]
    grid._push(Message(RecordDict({"discreet": ConfigRecord({"order": b"junk"})}), 10, "train"))
    (reply,) = grid.pull_messages(["message 1"])
    assert reply.has_error()
    assert reply.error.reason == flower._BLAND
    assert "Grace" in caplog.text  # the client's own log


def test_words_of_a_failure_are_cut_and_printable(tmp_path):
    grid = loop(tmp_path, wire=lambda _, reply: [Message(Error(5, "\x1b[2J" + "x" * 999), reply_to=asked(reply))])
    fleet = GridFleet(grid, trial.KEYS, limit=0.05, poll=0)
    fleet._nodes["bob"] = 11
    (arrival,) = fleet.ask({"bob": b"junk"})
    assert arrival.failure.startswith("Flower reports error 5: [2Jx")
    assert len(arrival.failure) < 250


def test_too_few_clients_begin_nothing(tmp_path):
    grid = loop(tmp_path, "secure", names=("ann",))
    with pytest.raises(ReleaseFailed, match="1 of 3 clients came within 0 seconds, 2 are needed; no round was started"):
        conducted(grid, "secure")
    assert not list(tmp_path.rglob("*.state"))


def test_another_run_is_declined(tmp_path):
    """Whoever may start runs on Flower cannot buy more rounds than were agreed on."""
    conducted(loop(tmp_path))
    reports = []
    with pytest.raises(
        ReleaseFailed, match="3 of 3 clients decline this run, 1 are needed .*continues from its checkpoint"
    ):
        conducted(loop(tmp_path), entropy=DeterministicEntropy(1), each=lambda report, _: reports.append(report))
    for report in reports:
        assert {(drop.client, drop.kind) for drop in report.dropped} >= {("ann", "declined"), ("bob", "declined")}
        assert not report.arrived
    assert "another one would cost again" in reports[0].dropped[0].reason


class Died(BaseException):
    """The ServerApp is gone."""


@pytest.mark.parametrize("kind", ["trusted", "secure"])
def test_a_server_app_that_died_goes_on_in_another_flower_run(tmp_path, kind):
    """Clients know the run by what is in the coordinator's file, not by what Flower calls it."""

    def die(report, _):
        raise Died

    settings = {"checkpoint": tmp_path / "run", "each": die}
    with pytest.raises(Died):
        conducted(loop(tmp_path, kind), kind, **settings)
    outcome = conducted(loop(tmp_path, kind), kind, checkpoint=tmp_path / "run", entropy=DeterministicEntropy(1))
    assert [bool(report.arrived) for report in outcome.reports] == [True] * len(outcome.reports)
    assert not [drop for report in outcome.reports for drop in report.dropped if drop.kind == "declined"]


def test_a_client_that_does_not_answer_is_not_sent_ever_more_orders(tmp_path):
    """Flower starts a process for each of them. When it answers, it is asked again."""
    grid = loop(tmp_path)
    fleet = GridFleet(grid, trial.KEYS, limit=0.01, poll=0)
    fleet.gather(0)
    sent, held = [], []
    grid.wire = lambda node, reply: sent.append(node) or held.append(reply)
    said = [fleet.ask({"bob": b"junk"}) for _ in range(6)]
    assert sent == [11, 11]
    assert said == [[], [], *[[Arrival("bob", failure="it has not answered its last 2 orders yet")]] * 4]
    grid.replies[held[0].metadata.reply_to_message_id] = held[:1]
    fleet.ask({"ann": b"junk"})
    fleet.ask({"bob": b"junk"})
    assert sent == [11, 11, 10, 11]


def test_a_phase_is_answered_once_whatever_the_context_says(tmp_path):
    """Flower's own state may be lost or rolled back between two processes; the file decides."""
    grid, orders = loop(tmp_path, "secure"), []
    fleet = GridFleet(grid, trial.KEYS, limit=0.05, poll=0)
    fleet.gather(0)

    class Recording:
        keys = trial.KEYS

        def ask(self, asked):
            orders.append(dict(asked))
            return fleet.ask(asked)

    run(trial.federation("secure"), trial.NETWORK, Recording(), entropy=DeterministicEntropy(trial.SEED))
    assert len(orders) == 10
    for earlier in orders:
        again = [decode_answer(arrival.data) for arrival in fleet.ask(earlier)]
        assert {type(message) for message in again} == {Declined}


def test_an_answer_leaves_only_after_its_state_is_on_disk(tmp_path, monkeypatch):
    def full(self, state):
        raise LedgerUnavailable("the disk is full")

    monkeypatch.setattr(StateFile, "write", full)
    reports = []
    with pytest.raises(ReleaseFailed, match="none of the 4 rounds has anybody's update"):
        conducted(loop(tmp_path), each=lambda report, _: reports.append(report))
    assert {drop.kind for report in reports for drop in report.dropped} == {"died"}
    assert not any(report.arrived for report in reports)


def test_a_member_that_breaks_keeps_what_was_asked(tmp_path, monkeypatch):
    """Else the same phase could be asked again."""
    grid = loop(tmp_path)
    monkeypatch.setattr(Member, "_update", lambda *_: 1 / 0)
    reports = []
    for _ in range(2):  # the same seeds: the same run
        with pytest.raises(ReleaseFailed, match="none of the 4 rounds"):
            conducted(grid, each=lambda report, _: reports.append(report))
        monkeypatch.undo()
    again = reports[4:]
    assert {drop.kind for report in again for drop in report.dropped if drop.client == "ann"} == {"declined"}


def test_the_mod_lets_other_messages_through(tmp_path):
    app = ClientApp(mods=[member_mod(trial.join, trial.keep)])

    @app.train()
    def echo(message, _context):
        return Message(message.content, reply_to=message)

    grid = loop(tmp_path)
    grid.nodes[10] = app, grid.nodes[10][1]
    grid._push(Message(RecordDict({"mine": ConfigRecord({"x": 1})}), 10, "train"))
    (reply,) = grid.pull_messages(["message 1"])
    assert reply.content["mine"]["x"] == 1
    assert "ann" in GridFleet(grid, trial.KEYS, limit=0.05, poll=0).gather(0)


def test_an_app_of_private_rounds_alone_refuses_other_messages(tmp_path):
    grid = loop(tmp_path)
    with pytest.raises(InvalidData, match="orders of private rounds only"):
        grid._push(Message(RecordDict({}), 10, "train"))


@pytest.mark.parametrize(("passed", "waits"), [(0.0, 0.0), (0.3, 1.7), (2.0, 0.0), (2.5, 1.5)])
def test_a_pace_hides_how_long_an_answer_took(monkeypatch, passed, waits):
    slept = []
    monkeypatch.setattr(flower.time, "monotonic", lambda: 100 + passed)
    monkeypatch.setattr(flower.time, "sleep", slept.append)
    flower._wait(100.0, 2.0)
    assert slept == [pytest.approx(waits)]


@pytest.mark.parametrize("settings", [{"limit": 0}, {"limit": -1}, {"limit": "soon"}, {"limit": 1, "patience": -1}])
def test_bad_times_are_refused(settings):
    with pytest.raises(InvalidParameter):
        PrivateRounds(trial.federation("trusted"), trial.NETWORK, trial.KEYS, **settings)


def test_the_notebook_is_its_owners(tmp_path):
    notebook = StateFile(tmp_path / "state")
    with notebook.open():
        notebook.write(b"secret")
    assert [stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()] == [0o600, 0o600]
    (tmp_path / "state").chmod(0o640)
    with pytest.raises(LedgerUnavailable, match="chmod 600"):
        notebook.read()


def test_the_notebook_survives_a_failed_write(tmp_path, monkeypatch):
    notebook = StateFile(tmp_path / "state")
    notebook.write(b"old")

    def broken(_file):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(LedgerUnavailable, match="No space left"):
        notebook.write(b"new")
    assert notebook.read() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


def test_the_notebook_is_for_one_process_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(rounds, "_PATIENCE", 0.05)
    notebook = StateFile(tmp_path / "state")
    with notebook.open(), pytest.raises(LedgerUnavailable, match="in use"), StateFile(tmp_path / "state").open():
        pytest.fail("two had it")
    with notebook.open():
        pass


def test_a_notebook_needs_its_folder(tmp_path):
    notebook = StateFile(tmp_path / "nowhere" / "state")
    with pytest.raises(LedgerUnavailable, match="cannot be locked: No such file"), notebook.open():
        pass


# The example


@pytest.mark.filterwarnings("ignore:.*gitwildmatch.*:DeprecationWarning")  # Flower's, about its own pathspec
def test_the_example_is_an_app_that_runs(tmp_path, monkeypatch):
    """Its three clients have nothing but their folders; the bundle that Flower would send holds its modules."""
    monkeypatch.setenv("FLWR_HOME", str(tmp_path / "flower"))
    installed = install_from_fab(build_fab_from_disk(EXAMPLE), skip_prompt=True)
    found = {str(path.relative_to(installed)) for path in installed.rglob("*.py")}
    assert found >= {f"private_rounds/{name}.py" for name in ("agreed", "client", "server")}
    monkeypatch.syspath_prepend(installed)
    client, server = (importlib.import_module(f"private_rounds.{name}") for name in ("client", "server"))
    make = [sys.executable, EXAMPLE / "identity.py"]
    lines = [subprocess.check_output([*make, name, tmp_path / name], text=True) for name in trial.NAMES]
    nodes = {}
    for node, name in enumerate(trial.NAMES):
        folder = tmp_path / name
        (folder / "keys.toml").write_text("".join(lines))
        x = np.random.default_rng(node).normal(size=(500, 4))
        np.savez(folder / "rows.npz", x=x, y=(x[:, 0] > x[:, 1]).astype(int))
        nodes[node] = client.app, Context(RUN, node, {"name": name, "home": str(folder)}, RecordDict(), {}, 0)
    settings = {"keys": str(tmp_path / "ann" / "keys.toml"), "model": str(tmp_path / "model.npz"), "limit": 60}
    settings["checkpoint"] = str(tmp_path / "run")
    server.app(LoopGrid(nodes), Context(RUN, 0, {}, RecordDict(), settings, 0))
    with np.load(tmp_path / "model.npz") as model:
        right = (server.NETWORK.predict(list(model.values()), x).argmax(axis=1) == (x[:, 0] > x[:, 1])).mean()
    assert right > 0.8


def test_an_identity_is_not_overwritten(tmp_path):
    make = [sys.executable, EXAMPLE / "identity.py", "ann", tmp_path / "ann"]
    subprocess.run(make, check=True, capture_output=True)
    secret = (tmp_path / "ann" / "identity").read_bytes()
    assert stat.S_IMODE((tmp_path / "ann" / "identity").stat().st_mode) == 0o600
    assert subprocess.run(make, check=False, capture_output=True).returncode != 0
    assert (tmp_path / "ann" / "identity").read_bytes() == secret


# Real processes


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    if not Path("/proc/self/environ").exists():
        pytest.skip("NO /proc: processes that Flower starts could not be found and ended")
    started = Deployment(tmp_path_factory.mktemp("flower"), trial.NAMES)
    try:
        started.start()
        yield started
    finally:
        started.stop()
        assert not marked(started.mark)


LIMIT = 240  # seconds for a phase: starting processes takes long on a machine that does other things too


@pytest.mark.slow
def test_real_processes_give_what_one_process_gives(deployment, tmp_path):
    """In trusted rounds Eve sends NaN, a wrong shape and a replay; then, in secure ones, she is killed in the middle."""
    arrived, dropped = submitted(deployment, "trusted", tmp_path)
    assert arrived == ["ann bob eve", *["ann bob"] * 3]
    wanted = ["1 eve update NaN", "2 eve update wrong shape", "3 eve update replayed"]
    assert [line for line in dropped if not line.endswith("died")] == wanted

    arrived, dropped = submitted(deployment, "secure", tmp_path)
    assert arrived == ["ann bob eve", "ann bob"]
    assert dropped[0] == "1 eve masked died"
    states = list(deployment.folder.glob("*/*.state"))
    assert [stat.S_IMODE(path.stat().st_mode) for path in states] == [0o600] * 6


GUIDE = Path(__file__).parents[3] / "docs" / "guide" / "federated.md"


@pytest.mark.slow
def test_the_guide_with_tls_and_a_coordinator_that_is_killed(tmp_path):
    """Certificates by the guide's own commands; the app of the example; its coordinator dies, and is started again."""
    if not Path("/proc/self/environ").exists() or shutil.which("openssl") is None:
        pytest.skip("NO /proc or NO openssl: the guide is not followed with real processes")
    blocks = re.findall(r"```sh\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    (certificates,) = [block.split("\n\n")[0] for block in blocks if "openssl req -x509" in block]
    subprocess.run(["sh", "-e", "-c", certificates], cwd=tmp_path, check=True, capture_output=True)
    make = [sys.executable, EXAMPLE / "identity.py"]
    lines = [subprocess.check_output([*make, name, tmp_path / name], text=True) for name in trial.NAMES]
    (tmp_path / "keys.toml").write_text("".join(lines))
    for place, name in enumerate(trial.NAMES):
        shutil.copy(tmp_path / "keys.toml", tmp_path / name)
        x = np.random.default_rng(place).normal(size=(500, 4))
        np.savez(tmp_path / name / "rows.npz", x=x, y=(x[:, 0] > x[:, 1]).astype(int))
    deployment = Deployment(tmp_path, trial.NAMES, app=EXAMPLE, tls=tmp_path)
    run, model = tmp_path / "run", tmp_path / "model.npz"
    settings = {"keys": str(tmp_path / "keys.toml"), "model": str(model), "checkpoint": str(run), "limit": LIMIT}
    try:
        deployment.start()
        deployment.run(**settings)
        deployment.wait_for(run, 5 * LIMIT, holding=b'"opened": 2')  # in the second round
        deployment.kill_server_app()
        assert not model.exists()
        deployment.run(**settings)
        deployment.wait_for(model, 25 * LIMIT)
    finally:
        deployment.stop()
    assert not marked(deployment.mark)
    assert run.read_bytes().count(STOPPED.encode()) == 1
    network = Network([Dense(2)], Softmax(), inputs=(4,))
    with np.load(model) as found:
        assert (network.predict(list(found.values()), x).argmax(axis=1) == (x[:, 0] > x[:, 1])).mean() > 0.75
    for name in trial.NAMES:  # one run, paid for once
        assert len(Ledger(SqliteStore(tmp_path / name / "ledger")).charges(name)) == 1


def submitted(deployment, kind, folder):
    """Run a federation on Flower; who arrived and who was dropped. The model is that of one process, bit for bit."""
    out = deployment.folder / f"{kind}.npz"
    deployment.run(kind=kind, out=str(out), limit=LIMIT)
    if kind == "secure":
        deployment.wait_for(deployment.folder / "eve" / "ready to die", 5 * LIMIT)
        deployment.kill("eve")
    deployment.wait_for(out, 5 * LIMIT)
    expected = reference(kind, folder)
    with np.load(out) as found:
        assert same([found[f"arr_{k}"] for k in range(len(expected.parameters))], expected.parameters)
        return found["arrived"].tolist(), found["dropped"].tolist()
