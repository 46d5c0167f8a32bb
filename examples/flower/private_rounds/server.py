"""The coordinator: it conducts the rounds and keeps the model."""

from pathlib import Path

import numpy as np
from flwr.app import Context

from discreet.learning.federated import Outcome
from discreet.learning.federated.flower import PrivateRounds, server_app
from private_rounds.agreed import FEDERATION, NETWORK, read_keys


def conduct(context: Context) -> PrivateRounds:
    keys = read_keys(Path(str(context.run_config["keys"])))
    return PrivateRounds(
        FEDERATION,
        NETWORK,
        keys,
        limit=context.run_config["limit"],
        each=lambda report, _: print(report.words()),
        checkpoint=str(context.run_config["checkpoint"]),
    )


def finished(outcome: Outcome, context: Context) -> None:
    np.savez(str(context.run_config["model"]), *outcome.parameters)


app = server_app(conduct, finished)
