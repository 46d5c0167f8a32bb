"""A commuting map through the gate: from a private table with two columns, where people live and where they work."""

import json
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.curator.answer import Receipt
from discreet.curator.catalog import Catalog, Column, Table
from discreet.curator.contribution_draw import one_row_each, require_same
from discreet.curator.engines import Engine
from discreet.curator.engines.dialects import dialect_of
from discreet.curator.plan import PrivatePlan, digest, documented, plan_document, to_document
from discreet.errors import InternalError, InvalidParameter
from discreet.exact import float_up
from discreet.noise import Entropy
from discreet.privacy.accounting import guarantee
from discreet.privacy.loss import Approximate, GaussianNoise, Loss, Pure, Together
from discreet.privacy.unit import Neighbors
from discreet.requests import Commute
from discreet.synthetic.commuting.flows import Acceptance, Flows, Places, Scheme
from discreet.synthetic.commuting.synthesis import check, sigma_of_flows, synthesize

if TYPE_CHECKING:
    from discreet.report import Page
    from discreet.synthetic.commuting.public_page import Outlines, PublicMap


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CommutePlan(PrivatePlan):
    """Everything about a map that is decided before a row is seen. Where people work is secret too."""

    table: Table
    origin: Column
    destination: Column
    places: Places
    scheme: Scheme

    def __post_init__(self) -> None:
        if not self.table.private:
            raise InvalidParameter("table", self.table.name, "a private table", "public rows need no privacy")
        if self.scheme.neighbors is None:
            raise InvalidParameter("scheme", "public destinations", "a scheme with the neighbors of the dataset")
        one_row_each(self.table, self._columns)
        check(self.scheme, self.places)

    @property
    def _columns(self) -> tuple[Column, Column]:
        return self.origin, self.destination

    @property
    def neighbors(self) -> Neighbors:
        """Those of the scheme."""
        assert self.scheme.neighbors is not None  # noqa: S101 (checked when it was made)
        return self.scheme.neighbors

    @property
    def text(self) -> str:
        """What was asked."""
        return f"commute from {self.origin.name} to {self.destination.name} of {self.table.name}"

    def document(self) -> dict[str, Any]:
        """What is released and how."""
        places = {"names": self.places.names, "points": self.places.points.tolist(), "degrees": self.places.degrees}
        return plan_document(
            "commuting",
            1,
            table=self.table,
            origin=self.origin,
            destination=self.destination,
            scheme=self.scheme,
            places=digest(to_document(places)),
        )

    @property
    def loss(self) -> Loss:
        """What the whole map costs."""
        return self.scheme.loss

    @property
    def epsilon(self) -> Fraction:
        """ε of the whole."""
        return self.scheme.epsilon

    @property
    def delta(self) -> Fraction:
        """δ of the whole."""
        return self.scheme.delta

    def verify(self, catalog: Catalog) -> Loss:
        """The loss, from the noise of each release and what one unit moves; table and columns must be the catalog's.

        Guarantee: `run` costs this. Proof. A unit is one row, in one pair of places: it moves the number of people of a
        destination, of an origin, and the counts of flows by 1 each, or by 2 in ℓ1 (√2 in ℓ2) if it is changed. Totals
        and, where origins are put together, weights have geometric noise for that, and so have flows, or Gaussian noise
        whose exact profile at δ is held against the ε of the flows.
        """
        require_same(self.table, self._columns, self.neighbors, catalog)
        scheme, moved = self.scheme, 2 if self.neighbors is Neighbors.CHANGE_ONE else 1
        if scheme.moved != moved or scheme.accept is not None or scheme.method != "counts":
            raise InternalError("a plan's noise is for another change of the data than the catalog's")
        parts: list[Pure | Approximate] = [Pure(scheme.weights_epsilon)] if scheme.coarse else []
        parts += [Pure(scheme.totals_epsilon), Pure(scheme.flows_epsilon)]
        if scheme.delta:
            noise = GaussianNoise(sigma_of_flows(scheme) / Fraction(1 if moved == 1 else Fraction(14142136, 10**7)))
            if guarantee(noise, delta=scheme.delta).epsilon > float_up(scheme.flows_epsilon):
                raise InternalError("a plan adds less noise to its flows than its loss says")
            parts[-1] = Approximate(scheme.flows_epsilon, scheme.delta)
        if sum((part.epsilon for part in parts), Fraction(0)) > self.epsilon or any(not part.epsilon for part in parts):
            raise InternalError("the releases of a plan cost more than the plan says")
        return Together(*parts)

    def run(self, engine: Engine, entropy: Entropy | None) -> bytes:
        """Read the rows, and give out synthetic flows.

        Guarantee: costs `loss`. Proof. A unit is at most one row, which counts in one pair of places, or in none if it
        names no place of the map; the rest is `synthesize`.
        """
        import pyarrow
        from pyarrow import compute

        rows = engine.fetch(one_row_each(self.table, self._columns, dialect_of(engine.dialect)))
        known = pyarrow.array(self.places.names)
        ends = [compute.index_in(compute.cast(rows.column(n), pyarrow.string()), value_set=known) for n in (0, 1)]
        both = compute.and_(compute.is_valid(ends[0]), compute.is_valid(ends[1]))
        origin, destination = (np.asarray(compute.filter(codes, both), np.int64) for codes in ends)
        made = synthesize(Flows(self.places, origin, destination, np.ones_like(origin)), self.scheme, entropy=entropy)
        return json.dumps([part.tolist() for part in (made.origin, made.destination, made.people)]).encode()

    def finish(self, released: bytes, receipt: Receipt, engine: Engine) -> "CommuteMap":
        """The map, from the flows released."""
        return CommuteMap(Flows(self.places, *json.loads(released)), self, receipt)

    def explain(self) -> str:
        """What it would cost and do, in words."""
        return self.scheme.explain()


@dataclass(frozen=True, slots=True, eq=False)
class CommuteMap:
    """Synthetic flows that were paid for. Everything done with them is free."""

    flows: Flows
    plan: CommutePlan
    receipt: Receipt

    def table(self) -> Any:
        """origin, destination, people: an Arrow table."""
        return self.flows.table()

    def page(self, outlines: Any = None) -> "Page":
        """A page to choose a place of work on and see where its people live; it may be published.

        `outlines`: a GeoJSON file, or what was read from one, with polygons named like the places.
        """
        from discreet.synthetic.commuting.public_page import Outlines

        return self.public(None if outlines is None else Outlines.read(outlines, self.flows.places)).page()

    def public(self, outlines: "Outlines | None" = None) -> "PublicMap":
        """The flows with error bands: as a page, a table and GeoJSON to publish."""
        from discreet.synthetic.commuting.public_page import PublicMap

        plan = self.plan
        return PublicMap(self.flows, plan.scheme, self.receipt, plan.table.name, plan.digest, outlines)


def plan_commute(request: Commute, catalog: Catalog) -> CommutePlan:
    """The plan of a map, against the owner's catalog. `places` is public: see `Places.read`. No row is read.

    >>> from discreet.curator.catalog import Catalog, Column, Table
    >>> from discreet.privacy.unit import Unit
    >>> columns = [Column("home", "text"), Column("work", "text")]
    >>> catalog = Catalog("city", [Table("people", columns, unit=Unit())], neighbors="change one")
    >>> towns = {"name": ["a", "b"], "x_km": [0, 3], "y_km": [0, 4]}
    >>> request = Commute(table="people", places=towns, origin="home", destination="work", epsilon=1)
    >>> print(plan_commute(request, catalog).text)
    commute from home to work of people
    """
    table, places = catalog.table(request.table), request.places
    scheme = Scheme(
        epsilon=request.epsilon,
        delta=request.delta,
        promise=request.promise,
        cap=request.cap,
        bands=request.bands,
        groups=request.groups,
        hubs=request.hubs,
        neighbors=catalog.neighbors,
    )
    known = places if isinstance(places, Places) else Places.read(places)
    return CommutePlan(table, table.column(request.origin), table.column(request.destination), known, scheme)


documented("acceptance", names={"apart": "most_apart"})(Acceptance)
documented("commuting scheme", names={"cap": "cap_km", "bands": "bands_km", "accept": "acceptance"})(Scheme)
