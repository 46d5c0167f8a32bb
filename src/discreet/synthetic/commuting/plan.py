"""A commuting map through the gate: from a private table with two columns, where people live and where they work."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from discreet.curator.answer import Receipt
from discreet.curator.catalog import Catalog, Column, Table
from discreet.curator.engines import Engine
from discreet.curator.rows import one_row_each, require_same
from discreet.errors import InvalidParameter
from discreet.noise import Entropy
from discreet.privacy.loss import Loss
from discreet.privacy.unit import Neighbors
from discreet.synthetic.commuting.flows import Flows, Places
from discreet.synthetic.commuting.scheme import Scheme
from discreet.synthetic.commuting.synthesis import check, synthesize


@dataclass(frozen=True, slots=True, eq=False)
class CommutePlan:
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

    @property
    def name(self) -> str:
        """What is released and how."""
        places = json.dumps([self.places.names, self.places.points.tolist(), self.places.degrees])
        digest = hashlib.sha256(places.encode()).hexdigest()
        return f"{self.table!r}\n{self._columns!r}\n{self.scheme!r}\n{digest}"

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

    @property
    def private(self) -> bool:
        """It reads private rows."""
        return True

    def derive(self, catalog: Catalog) -> Loss:
        """The loss, from the scheme; table and columns must be those of the catalog."""
        require_same(self.table, self._columns, self.neighbors, catalog)
        return self.scheme.loss

    def run(self, engine: Engine, entropy: Entropy | None) -> bytes:
        """Read the rows, and give out synthetic flows.

        Guarantee: costs `loss`. Proof. A unit is at most one row, which counts in one pair of places, or in none if it
        names no place of the map; the rest is `synthesize`.
        """
        import pyarrow
        from pyarrow import compute

        rows = engine.fetch(one_row_each(self.table, self._columns))
        known = pyarrow.array(self.places.names)
        ends = [compute.index_in(compute.cast(rows.column(n), pyarrow.string()), value_set=known) for n in (0, 1)]
        both = compute.and_(compute.is_valid(ends[0]), compute.is_valid(ends[1]))
        origin, destination = (np.asarray(compute.filter(one, both), np.int64) for one in ends)
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


def commute_plan(
    catalog: Catalog, table: str, places: Any, *, origin: str, destination: str, **settings: Any
) -> CommutePlan:
    """The plan of a map, against the owner's catalog. `places` is public: see `Places.read`. No row is read.

    >>> from discreet.curator.catalog import Catalog, Column, Table
    >>> from discreet.privacy.unit import Unit
    >>> columns = [Column("home", "text"), Column("work", "text")]
    >>> catalog = Catalog("city", [Table("people", columns, unit=Unit())], neighbors="change one")
    >>> towns = {"name": ["a", "b"], "x_km": [0, 3], "y_km": [0, 4]}
    >>> plan = commute_plan(catalog, "people", towns, origin="home", destination="work", epsilon=1)
    >>> print(plan.text)
    commute from home to work of people
    """
    found = catalog.table(table)
    if isinstance(settings.get("groups"), Mapping):
        settings["groups"] = dict(settings["groups"])
    scheme = Scheme(neighbors=catalog.neighbors, **settings)
    known = places if isinstance(places, Places) else Places.read(places)
    return CommutePlan(found, found.column(origin), found.column(destination), known, scheme)
