"""What all have agreed on. Every client reads this before it takes part: it is all that its privacy rests on."""

import tomllib
from pathlib import Path

from discreet.learning.federated import Federation, Secure
from discreet.learning.networks.layers import Dense
from discreet.learning.networks.network import Network, Softmax
from discreet.learning.sgd.recipe import Sgd

NETWORK = Network([Dense(2)], Softmax(), inputs=(4,))

# Two of three must stay in a round, so one may be away. None may work with the coordinator: with colluding="1/3" one
# may, and then all three must stay. The noise is a number that was agreed on, not one that each machine works out:
# guarantee(FEDERATION.loss_to_coordinator, delta="1e-5") says what it gives, ε = 3.76.
FEDERATION = Federation(
    clients=3,
    rounds=5,
    level="example",
    examples=1500,
    rate="0.1",
    multiplier="0.8",
    clip=1,
    optimizer=Sgd(4),
    secure=Secure(threshold="2/3", colluding=0),
)


def read_keys(path: Path) -> dict[str, bytes]:
    """The public keys of all clients, by name."""
    return {name: bytes.fromhex(key) for name, key in tomllib.loads(path.read_text()).items()}
