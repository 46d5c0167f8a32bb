"""What the gate lets through: everything about a release, decided before a row is seen."""

from fractions import Fraction
from typing import Any, Protocol, TypeVar

from discreet.curator.answer import Receipt
from discreet.curator.catalog import Catalog
from discreet.curator.engines import Engine
from discreet.noise import Entropy
from discreet.privacy.loss import Loss

Result_co = TypeVar("Result_co", covariant=True)


class Plan(Protocol[Result_co]):
    """A release as a value: printable before it is paid for, and checked again at the gate.

    What every plan promises (tests/contracts/test_plan.py): `loss` covers all that `run` gives out, for the neighbors
    of the catalog; `verify` derives it again from the parts of the document and the catalog alone; `document` is the
    same for two plans that would release the same thing in the same way, and only for them; `finish` reads no private
    row.
    """

    @property
    def text(self) -> str:
        """What was asked, in the analyst's words: kept in the ledger for the owner."""
        ...

    def document(self) -> dict[str, Any]:
        """What is released and how, as a versioned JSON document (`documents`); nothing of what is done afterwards."""
        ...

    @property
    def digest(self) -> str:
        """The name of the plan: the digest of its document. Plans of the same name share one answer."""
        ...

    @property
    def loss(self) -> Loss:
        """What the release costs, all of it together."""
        ...

    @property
    def epsilon(self) -> Fraction:
        """The ε of the whole, at `delta`: what the analyst is told that it costs."""
        ...

    @property
    def delta(self) -> Fraction:
        """The δ of the whole."""
        ...

    @property
    def private(self) -> bool:
        """Whether it reads private rows at all."""
        ...

    def verify(self, catalog: Catalog) -> Loss:
        """The loss, derived again from the document's parts and the owner's catalog, not from what the plan states.

        `InternalError` where the plan was made for another catalog, or its noise is too small for what one unit moves.
        """
        ...

    def run(self, engine: Engine, entropy: Entropy | None) -> bytes:
        """Read private rows and release: the only method that touches them."""
        ...

    def finish(self, released: bytes, receipt: Receipt, engine: Engine) -> Result_co:
        """What the analyst gets, computed from released values (and public tables) alone."""
        ...
