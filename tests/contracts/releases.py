"""Every kind of release over whole rows, through the front door, on tables as different as can be.

To add a plan, add it to `GATED`; to add a map with public destinations, to `PUBLIC`. `public_values` walks what comes
out: fields, properties and methods without arguments, so that an attribute nobody thought of is looked at too.
"""

import dataclasses
import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from discreet.curator.catalog import Catalog, Column, Table
from discreet.curator.curator import Curator
from discreet.curator.engines.duckdb import DuckDBEngine
from discreet.curator.ledger import Ledger
from discreet.curator.policy import Policy
from discreet.curator.stores.memory import MemoryStore
from discreet.dataset import Dataset
from discreet.noise import Entropy
from discreet.privacy.budget import Budget
from discreet.privacy.unit import Unit
from discreet.report import Page
from discreet.synthetic.commuting import Acceptance, Flows, Places, Scheme, synthesize
from discreet.synthetic.fit.relaxed import Settings

ADD, CHANGE = "add or remove one", "change one"
QUICK = Settings(iterations=4, rows=64)
TOWNS = {"name": ["a", "b", "c", "d"], "x_km": [0, 1, 6, 7], "y_km": [0, 0, 0, 4]}
PLACES = Places.read(TOWNS)
REGIONS = {"a": "west", "b": "west", "c": "east", "d": "east"}

PEOPLE = Table(
    "people",
    [
        Column("who", "integer"),
        Column("sex", "text", values=["f", "m"], nullable=False),
        Column("ill", "boolean", nullable=False),
        Column("age", "integer", lower=0, upper=90, nullable=False),
        Column("since", "integer", lower=0, upper=90, nullable=False),
        Column("city", "text"),
        Column("job", "text"),
    ],
    unit=Unit("who"),
)
VISITS = Table(
    "visits",
    [
        Column("who", "integer"),
        Column("ward", "text", values=["north", "south"], nullable=False),
        Column("days", "integer", lower=0, upper=30, nullable=False),
    ],
    unit=Unit("who"),
)
TRIPS = Table("trips", [Column("who", "integer"), Column("home", "text"), Column("work", "text")], unit=Unit("who"))

Rows = dict[str, list[tuple[Any, ...]]]
FEW: Rows = {
    "people": [
        (1, "f", True, 30, 10, "Oslo", "cook"),
        (2, "m", False, 80, 70, "Rome", "nurse"),
        (3, "f", False, 5, 1, "Oslo", "cook"),
    ],
    "visits": [(1, "north", 3), (1, "north", 4), (2, "south", 30), (3, "south", 0), (3, "north", 9)],
    "trips": [(1, "a", "b"), (2, "b", "a"), (3, "c", "a")],
}
MANY: Rows = {
    "people": [(n, "m", n % 3 == 0, 60 + n % 30, 60, ("Oslo", "Rome", "Bern")[n % 3], "baker") for n in range(10, 90)],
    "visits": [*((n % 60 + 10, "south", (n * 7) % 31) for n in range(400)), (900, None, 5), (901, "north", None)],
    "trips": [(n, "dcb"[n % 3], "cd"[n % 2]) for n in range(10, 300)],
}
EMPTY: Rows = {"people": [], "visits": [], "trips": []}
TYPES = {"integer": pa.int64(), "text": pa.string(), "boolean": pa.bool_()}


def catalog(neighbors: str) -> Catalog:
    return Catalog("clinic", [PEOPLE, VISITS, TRIPS], neighbors=neighbors)


def arrow(table: Table, rows: list[tuple[Any, ...]]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else [()] * len(table.columns)
    pairs = zip(columns, table.columns, strict=True)
    return pa.table({column.name: pa.array(values, TYPES[str(column.kind)]) for values, column in pairs})


def opened(rows: Rows, neighbors: str, entropy: Entropy | None) -> Dataset:
    """A dataset of its own, with a ledger in memory."""
    known = catalog(neighbors)
    policy = Policy(known, dict.fromkeys(rows, "python"), Budget(epsilon=100, delta="1e-3"), {})
    ledger = Ledger(MemoryStore())
    ledger.open(known.name, policy.budget)
    engine = DuckDBEngine(known, {name: arrow(known.table(name), rows[name]) for name in rows})
    return Dataset(policy, Curator(known, engine, ledger, entropy), analyst="ann", closing=[engine])


def synthesis(data: Dataset, **settings: Any) -> Any:
    terms: dict[str, Any] = {"exclude": ["city", "job", "since"], "bins": {"age": 3}, "settings": QUICK, "rows": 12}
    return data.synthesize("people", epsilon=1, delta="1e-6", **terms | settings)


def visits(data: Dataset, **settings: Any) -> Any:
    return data.synthesize("visits", epsilon=1, delta="1e-6", bins={"days": 3}, rows=12, settings=QUICK, **settings)


def linked(data: Dataset, *, own: bool = True, bins: Mapping[str, Any] | None = None) -> Any:
    tables: dict[str, Any] = {"visits": {"rows_per_person": 3, "bins": {"days": 2} if bins is None else bins}}
    if own:
        tables = {"people": {"columns": ["sex", "ill"] if bins is None else ["sex", "age"]}, **tables}
    return data.synthesize_linked(tables, epsilon=1, delta="1e-6", settings=QUICK)


def commuting(data: Dataset, **settings: Any) -> Any:
    return data.commute("trips", TOWNS, origin="home", destination="work", epsilon=1, **settings)


def audit(data: Dataset, **settings: Any) -> Any:
    said = {"who": list(range(1, 60)), "prediction": [n % 2 for n in range(1, 60)]}
    return data.audit_fairness("people", said, label="ill", group="sex", epsilon=1, **settings)


def bounds(data: Dataset, **settings: Any) -> Any:
    return data.choose_bounds("visits", epsilon=1, by=["ward"], columns={"days": (-100, 100)}, **settings)


def gaussian(release: Callable[..., Any], **more: Any) -> Callable[[Dataset], Any]:
    return lambda data: release(data, delta="1e-6", **more)


GATED: dict[str, tuple[Callable[[Dataset], Any], tuple[str, ...]]] = {
    "synthesis": (synthesis, (ADD, CHANGE)),
    "synthesis without bins": (lambda data: synthesis(data, bins={}), (ADD, CHANGE)),
    "synthesis for a target": (lambda data: synthesis(data, target="ill"), (ADD, CHANGE)),
    "synthesis with rules": (
        lambda data: synthesis(data, exclude=["city", "job"], bins={"age": 3, "since": 3}, at_most=["since <= age"],
                               never=["sex=m, ill=true"]),
        (ADD,),
    ),
    "synthesis in rounds": (lambda data: synthesis(data, exclude=["city", "job"], bins={"age": 2, "since": 2}, adaptive=2), (ADD, CHANGE)),
    "synthesis of found values": (lambda data: synthesis(data, columns=["sex", "city", "job"], exclude=(), bins={}, discover=["city", "job"]), (ADD,)),
    "synthesis of several rows": (lambda data: visits(data, rows_per_person=3), (ADD, CHANGE)),
    "linked": (linked, (ADD, CHANGE)),
    "linked without bins": (lambda data: linked(data, bins={}), (ADD, CHANGE)),
    "linked without people": (lambda data: linked(data, own=False), (ADD, CHANGE)),
    "commuting": (commuting, (ADD, CHANGE)),
    "commuting within a cap": (lambda data: commuting(data, cap=5), (ADD, CHANGE)),
    "commuting in bands": (lambda data: commuting(data, bands=[2]), (ADD, CHANGE)),
    "commuting in regions": (lambda data: commuting(data, groups=REGIONS), (ADD, CHANGE)),
    "commuting around hubs": (lambda data: commuting(data, hubs=2), (ADD, CHANGE)),
    "commuting with Gaussian noise": (gaussian(commuting, promise="approximate"), (ADD, CHANGE)),
    "bounds": (bounds, (ADD, CHANGE)),
    "audit": (audit, (ADD, CHANGE)),
    "audit in strata": (lambda data: audit(data, given="age", bins={"age": [40]}, least=2), (ADD, CHANGE)),
    "audit with Gaussian noise": (gaussian(audit, noise="gaussian"), (ADD, CHANGE)),
}  # fmt: skip
CASES = [(name, neighbors) for name, (_, both) in GATED.items() for neighbors in both]


# --- maps whose destinations are public -----------------------------------------------------------------------------

PUBLIC: dict[str, dict[str, Any]] = {
    "counts": {},
    "counts with Gaussian noise": {"delta": "1e-4", "promise": "approximate"},
    "bands": {"bands": [2]},
    "hubs": {"hubs": 2},
    "urns": {"method": "dirichlet"},
    "urns, approximate": {"method": "dirichlet", "promise": "approximate", "delta": "1e-4"},
    "urns, probabilistic": {"method": "dirichlet", "promise": "probabilistic", "delta": "1e-4"},
    "urns in regions": {"method": "dirichlet", "groups": REGIONS},
    "urns that are accepted": {"method": "dirichlet", "accept": Acceptance(apart="0.99", stop="1/2")},
    "counts that are accepted": {"accept": Acceptance(apart="0.99", stop="1/2")},
}
TOTALS = {0: 30, 2: 12}
NEAR = Flows(PLACES, [0, 1, 2], [0, 0, 2], [25, 5, 12])
FAR = Flows(PLACES, [3, 2, 1, 0], [0, 0, 2, 2], [29, 1, 6, 6])


def public_map(flows: Flows, name: str, entropy: Entropy | None) -> Any:
    return synthesize(flows, Scheme(epsilon=2, **PUBLIC[name]), entropy=entropy)


# --- what anybody can see of a result -------------------------------------------------------------------------------

_LEFT_OUT = {"save", "when"}  # writing to disk; the time of a charge


def public_values(result: Any) -> dict[str, Any]:
    """Everything public about a result, by its path; values are such that == compares them byte for byte."""
    return dict(_walk("", result, frozenset()))


def _walk(path: str, value: Any, above: frozenset[type]) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Page):
        yield path, value.html()
    elif isinstance(value, np.ndarray):
        yield path, (value.dtype.str, value.shape, value.tolist() if value.dtype == object else value.tobytes())
    elif isinstance(value, pa.Table):
        yield path, (str(value.schema), value.to_pylist())
    elif isinstance(value, Mapping):
        yield f"{path}.keys", list(map(str, value))
        for name, part in value.items():
            if name not in _LEFT_OUT:
                yield from _walk(f"{path}.{name}", part, above)
    elif isinstance(value, list | tuple):
        yield f"{path}.length", len(value)
        for place, part in enumerate(value):
            yield from _walk(f"{path}[{place}]", part, above)
    elif _is_result(value):
        for name, part in _attributes(value, fields_only=type(value) in above):
            yield from _walk(f"{path}.{name}" if path else name, part, above | {type(value)})
    elif not callable(value):
        yield path, repr(value)


def _is_result(value: Any) -> bool:
    """Values of ours, but plans: those are made before a row is seen, and their repr says all of them."""
    ours = type(value).__module__.startswith("discreet.") and not type(value).__name__.endswith("Plan")
    return ours and dataclasses.is_dataclass(value)


def _attributes(value: Any, *, fields_only: bool) -> Iterator[tuple[str, Any]]:
    """Fields, properties, and what methods without arguments return; those may make more of the same, without end."""
    fields = {field.name for field in dataclasses.fields(value)}
    names = set() if fields_only else {name for name in dir(type(value)) if not name.startswith("_")}
    for name in sorted(fields | names):
        if name in _LEFT_OUT:
            continue
        of_class = inspect.getattr_static(type(value), name, None)
        if name in fields or isinstance(of_class, property | cached_property):
            yield name, _outcome(lambda name=name: getattr(value, name))
        elif inspect.isfunction(of_class) and _callable_alone(getattr(value, name)):
            yield f"{name}()", _outcome(getattr(value, name))
    yield "str()", str(value) if type(value).__str__ is not object.__str__ else ""


def _outcome(get: Callable[[], Any]) -> Any:
    """What somebody sees who asks: a value, or an error (limits of a column of texts)."""
    try:
        return get()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _callable_alone(method: Callable[..., Any]) -> bool:
    return all(one.default is not one.empty for one in inspect.signature(method).parameters.values())
