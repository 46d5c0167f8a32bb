"""The steps that a client takes on its own rows, in a round of federated averaging."""

from dataclasses import dataclass
from fractions import Fraction

from discreet.exact import Number, integer, rational


@dataclass(frozen=True, slots=True)
class Local:
    """What a client does in a round of federated averaging: plain gradient descent on its own rows.

    `epochs` times over its rows, in lots of `batch` (None: all at once); lot j of k has the rows j, j + k, j + 2k, …

    >>> Local("0.1", epochs=2, batch=32).batch
    32
    """

    rate: float
    epochs: int
    batch: int | None

    def __init__(self, rate: Number, *, epochs: int = 1, batch: int | None = None) -> None:
        object.__setattr__(self, "rate", float(rational(rate, "rate", at_least=Fraction(1, 10**30), at_most=10**30)))
        object.__setattr__(self, "epochs", integer(epochs, "epochs", at_least=1))
        object.__setattr__(self, "batch", None if batch is None else integer(batch, "batch", at_least=1))
