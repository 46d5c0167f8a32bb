"""A small federation that runs in one process and on Flower, with the same seeds: the app of `test_flower`.

Eve misbehaves in `trusted` runs, in a way that depends on the round; and is killed in `secure` runs.
"""

import time
from pathlib import Path

import numpy as np

from discreet.learning.federated import Federation, Member, Secure
from discreet.learning.federated.exchange import Request, Update, decode_answer
from discreet.learning.federated.flower import PrivateRounds, client_app, server_app
from discreet.learning.federated.member import seeded_identity, seeded_secret
from discreet.learning.networks.layers import Dense
from discreet.learning.networks.network import Network, Softmax
from discreet.learning.sgd.recipe import Sgd
from discreet.noise import DeterministicEntropy

SEED = 11
NAMES = ("ann", "bob", "eve")
MISCHIEF = ("", "NaN", "wrong shape", "replayed")
"""What Eve does in each round of a trusted run."""

FATAL = (1, "masked")
"""Round and phase of a secure run in which Eve is killed, after she has shared her secrets."""

NETWORK = Network([Dense(4), Dense(2)], Softmax(), inputs=(3,))
KEYS = {name: seeded_identity(SEED, name).public for name in NAMES}


def federation(kind):
    settings = {"clients": len(NAMES), "level": "client", "multiplier": 1, "clip": 1, "optimizer": Sgd(1)}
    if kind == "secure":
        return Federation(rounds=2, rate="1/2", secure=Secure(threshold="2/3", colluding=0), **settings)
    return Federation(rounds=len(MISCHIEF), rate=1, secure=None, **settings)


def rows(name):
    rng = np.random.default_rng(NAMES.index(name))
    x = rng.normal(size=(20, 3))
    return x, (x[:, 0] > 0).astype(int)


def meddled(name, answer, number, memory):
    """What Eve sends in the place of an answer; she keeps her first one in the folder `memory`."""
    kind = MISCHIEF[number] if name == "eve" else ""
    first = memory / "first answer"
    if name == "eve" and number == 0:
        first.write_bytes(answer)
    if not kind:
        return answer
    if kind == "replayed":
        return first.read_bytes()
    message = decode_answer(answer)
    size = len(message.vector) // 8
    vector = np.full(size, np.nan) if kind == "NaN" else np.zeros(size + 1)
    return Update(message.context, name, vector.tobytes()).signed(seeded_identity(SEED, name)).encode()


class Trial(Member):
    """A member that misbehaves if it is Eve."""

    folder, mortal = Path(), False

    def answer(self, order):
        if self.name != "eve":
            return super().answer(order)
        read = Request.decode(order)
        if self.mortal and self.federation.secure and (read.number, read.phase) == FATAL:
            (self.folder / "ready to die").touch()
            time.sleep(3600)
        answer = super().answer(order)
        return answer if self.federation.secure else meddled(self.name, answer, read.number, self.folder)


def join(context, state):
    name, kind = context.node_config["name"], context.run_config["kind"]
    secret = seeded_secret(SEED, name)
    member = Trial(
        federation(kind), NETWORK, name, seeded_identity(SEED, name), KEYS, *rows(name), secret=secret, state=state
    )
    member.folder, member.mortal = Path(context.node_config["home"]), "mortal" in context.node_config
    return member


def keep(context):
    return Path(context.node_config["home"]) / f"{context.run_config['kind']}.state"


def conduct(context):
    entropy = DeterministicEntropy(SEED)
    plan = federation(context.run_config["kind"])
    return PrivateRounds(plan, NETWORK, KEYS, limit=context.run_config["limit"], entropy=entropy)


def finished(outcome, context):
    """The model and what was reported, in a file that appears at once."""
    out = Path(context.run_config["out"])
    part = out.with_suffix(".part.npz")
    arrived = [" ".join(report.arrived) for report in outcome.reports]
    dropped = [f"{n} {d.client} {d.phase} {d.kind}" for n, r in enumerate(outcome.reports) for d in r.dropped]
    np.savez(part, *outcome.parameters, arrived=arrived, dropped=dropped)
    part.rename(out)


def apps():
    """The two apps of a bundle."""
    return server_app(conduct, finished), client_app(join, keep)
