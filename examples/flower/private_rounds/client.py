"""A client: all it needs is in its own folder, named when its SuperNode is started. It takes nothing from the run."""

from pathlib import Path

import numpy as np
from flwr.app import Context

from discreet.curator.ledger import Ledger
from discreet.curator.stores.sqlite import SqliteStore
from discreet.learning.federated import Account, Identity, Member
from discreet.learning.federated.flower import client_app
from discreet.privacy.budget import Budget
from private_rounds.agreed import FEDERATION, NETWORK, read_keys

# For all federations that this client's rows are ever used in; each client chooses its own. It pays for three runs.
BUDGET = Budget(epsilon=8, delta="1e-5")


def join(context: Context, state: bytes | None) -> Member:
    folder, name = home(context), str(context.node_config["name"])
    identity = Identity((folder / "identity").read_bytes())
    account = Account(Ledger(SqliteStore(folder / "ledger")), name, budget=BUDGET, level="example")
    with np.load(folder / "rows.npz") as rows:
        return Member(
            FEDERATION,
            NETWORK,
            name,
            identity,
            read_keys(folder / "keys.toml"),
            rows["x"],
            rows["y"],
            state=state,
            account=account,
        )


def keep(context: Context) -> Path:
    return home(context) / "state"


def home(context: Context) -> Path:
    return Path(str(context.node_config["home"]))


app = client_app(join, keep)
