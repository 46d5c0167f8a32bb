"""What is to be done with each column, and what is to hold afterwards, as a TOML file.

    [anonymity]
    k = 5                         # every released row looks like those of at least four others
    unit = "name"                 # the column that names the person of a row, where a person may have several: k and
                                  # all other models count people; without it a row is a person. It is not released
    method = "local"              # "optimal" (one level for each column), "local" (each class its own) or "mondrian"
    suppression = 0.04            # with "optimal" and "local": the largest share of rows that may be hidden
    small = "suppress"            # or "dummies": pad small classes with made-up rows
    presence = { low = 0, high = 0.5, member = "treated" }  # δ-presence: the data is the population, `treated` says
                                                            # who is in the private table; only they are released

    [columns]
    name = "identifier"           # removed
    visit = "other"               # kept as it is
    zip = { quasi = "prefixes" }
    born = { quasi = "dates" }
    age = { quasi = "intervals", widths = [5, 10, 20], low = 0, high = 119 }
    sex = { quasi = "flat" }
    job = { quasi = "jobs.csv" }  # a hierarchy, a line for each value: nurse;health;*
    home = { quasi = "grid", cells = [0.01, 0.1], from = ["lat", "lon"] }
    salary = { quasi = "number" } # with "mondrian" only: numbers and dates, which need no hierarchy
    ward = { coarsen = "prefixes", level = 2 }
    illness = { sensitive = [{ model = "distinct", l = 2 }, { model = "closeness", t = 0.3, distance = "equal" }] }

Every column of the data needs a line: a column that nobody thought of is an error, not a default.
"""

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discreet.anonymity.classes import Ints
from discreet.anonymity.hierarchy import Hierarchy
from discreet.anonymity.models import (
    AlphaK,
    Closeness,
    DistinctDiversity,
    EntropyDiversity,
    KAnonymity,
    Likeness,
    Model,
    Presence,
    RecursiveDiversity,
    Target,
    unit_codes,
)
from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import rational
from discreet.tables import column, texts

if TYPE_CHECKING:
    import pyarrow

METHODS = ("optimal", "local", "mondrian")
_ROLES = "'identifier', 'other', or a table with quasi, coarsen or sensitive"
_SETTINGS = {"k", "unit", "method", "suppression", "small", "presence"}
_MODELS: dict[str, tuple[Callable[..., Model], set[str]]] = {  # its class, and the settings that it takes
    "distinct": (DistinctDiversity, {"l"}),
    "entropy": (EntropyDiversity, {"l"}),
    "recursive": (RecursiveDiversity, {"c", "l"}),
    "closeness": (Closeness, {"t", "distance", "order", "hierarchy"}),
    "likeness": (Likeness, {"beta", "enhanced"}),
    "alpha": (AlphaK, {"alpha"}),
}
_RULES = {
    "prefixes": set[str](),
    "flat": set[str](),
    "dates": set[str](),
    "intervals": {"widths", "low", "high"},
    "grid": {"cells", "from"},
    "number": set[str](),  # for "mondrian", which needs no hierarchy: numbers and dates as they are
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """How a column's values coarsen: a file of levels, or a rule with its settings."""

    column: str
    kind: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    folder: Path = Path()

    @property
    def sources(self) -> tuple[str, ...]:
        """The columns of the data that it reads: a place may be two columns, latitude and longitude."""
        return tuple(self.settings.get("from", ())) or (self.column,)

    def hierarchy(self, table: "pyarrow.Table") -> Hierarchy:
        """The hierarchy; rules that enumerate values take them from the table."""
        settings = {name: value for name, value in self.settings.items() if name != "from"}
        match self.kind:
            case "prefixes" | "flat" | "dates":
                return getattr(Hierarchy, self.kind)(self.column, column(table, self.column))  # type: ignore[no-any-return]
            case "intervals":
                values = {} if "low" in settings else {"values": column(table, self.column)}
                return Hierarchy.intervals(self.column, **settings, **values)
            case "grid":
                return Hierarchy.grid(self.column, column(table, self.column), **settings)
            case _:
                return Hierarchy.read(self.column, self.folder / self.kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What happens to each column, and what must hold for the result.

    >>> policy = Policy.of({"anonymity": {"k": 2, "method": "local"}, "columns": {"zip": {"quasi": "prefixes"}}})
    >>> policy.k, [rule.column for rule in policy.quasi]
    (2, ['zip'])
    """

    k: int
    method: str
    suppression: Fraction = Fraction(0)
    small: str = "suppress"
    identifiers: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    quasi: tuple[Rule, ...]
    coarsen: tuple[tuple[Rule, int], ...] = ()
    sensitive: Mapping[str, tuple[Model, ...]] = field(default_factory=dict)
    presence: Presence | None = None
    unit: str | None = None

    @classmethod
    def read(cls, path: str | Path) -> "Policy":
        """A policy from a TOML file; hierarchies are found beside it."""
        source = Path(path)
        if not source.is_file():
            raise InvalidParameter("policy", str(source), "a TOML file that exists")
        try:
            document = tomllib.loads(source.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InvalidData(f"policy {source.name}: not TOML: {error}") from None
        return cls.of(document, folder=source.parent)

    @classmethod
    def of(cls, document: Mapping[str, Any], *, folder: Path | None = None) -> "Policy":
        """A policy from the content of such a file."""
        _known("the policy", document, {"anonymity", "columns"})
        settings, columns = _table(document, "anonymity"), _table(document, "columns")
        _known("[anonymity]", settings, _SETTINGS)
        roles = _Roles(folder or Path(), _k(settings))
        for name, role in columns.items():
            roles.take(name, role)
        if not roles.quasi:
            raise InvalidData(
                "policy: no column is a quasi-identifier; name those by which a person could be recognized"
            )
        method = _one_of(settings, "method", METHODS)
        unit = _unit(settings)
        roles.check(_presence(settings), unit)
        for rule in roles.quasi:
            if (rule.kind == "number") != (method == "mondrian"):
                expected = "'number' with the method 'mondrian', and with no other"
                raise InvalidParameter(f"columns.{rule.column}.quasi", rule.kind, expected)
        return cls(
            k=_k(settings),
            method=method,
            suppression=rational(settings.get("suppression", 0), "suppression", at_least=0, at_most=1),
            small=_one_of(settings, "small", ("suppress", "dummies")) if "small" in settings else "suppress",
            identifiers=tuple(roles.identifiers),
            others=tuple(roles.others),
            quasi=tuple(roles.quasi),
            coarsen=tuple(roles.coarsen),
            sensitive=roles.sensitive,
            presence=_presence(settings),
            unit=unit,
        )

    @property
    def target(self) -> Target:
        """What every class must satisfy."""
        present = () if self.presence is None else (self.presence,)
        models = (model for models in self.sensitive.values() for model in models)
        return Target.of(KAnonymity(self.k), *models, *present, unit=self.unit)

    @property
    def names(self) -> tuple[str, ...]:
        """The quasi-identifiers."""
        return tuple(rule.column for rule in self.quasi)

    def prepared(self, table: "pyarrow.Table") -> "pyarrow.Table":
        """The table without identifiers, with places of two columns made one; every column must have a role."""
        self._check(table)
        for rule in self.quasi:
            if rule.sources != (rule.column,):
                table = _joined(table, rule)
        gone = {*self.identifiers, *([self.unit] if self.unit else [])}
        return table.drop_columns([name for name in table.column_names if name in gone])

    def units(self, table: "pyarrow.Table") -> Ints | None:
        """The unit of each row as a number; None where a row is a person."""
        return None if self.unit is None else unit_codes(table, self.unit)

    def _check(self, table: "pyarrow.Table") -> None:
        places = [source for rule in self.quasi for source in rule.sources]
        members = set() if self.presence is None or self.presence.member is None else {self.presence.member}
        named = {
            *members,
            *([self.unit] if self.unit else []),
            *self.identifiers,
            *self.others,
            *places,
            *(r.column for r, _ in self.coarsen),
            *self.sensitive,
        }
        if unknown := [name for name in table.column_names if name not in named]:
            raise InvalidData(
                f"policy: the data has a column {unknown[0]!r} that the policy does not mention; state its role in "
                f"[columns]: {_ROLES}"
            )
        for name in sorted(named):
            column(table, name)
        if table.num_rows == 0:
            raise InvalidData("the table has no rows")


class _Roles:
    """The columns of a policy, sorted by what is to be done with them."""

    def __init__(self, folder: Path, k: int) -> None:
        self.folder, self.k = folder, k
        self.identifiers: list[str] = []
        self.others: list[str] = []
        self.quasi: list[Rule] = []
        self.coarsen: list[tuple[Rule, int]] = []
        self.sensitive: dict[str, tuple[Model, ...]] = {}

    def take(self, name: str, role: Any) -> None:
        """Sort in one column."""
        match role:
            case "identifier":
                self.identifiers.append(name)
            case "other":
                self.others.append(name)
            case {"quasi": str(kind), **settings}:
                self.quasi.append(self._rule(name, kind, settings))
            case {"coarsen": str(kind), "level": int(level), **settings} if not isinstance(level, bool):
                self.coarsen.append((self._rule(name, kind, settings), level))
            case {"sensitive": models, **rest} if not rest:
                listed = models if isinstance(models, list) else [models]
                self.sensitive[name] = tuple(self._model(name, entry) for entry in listed)
            case "sensitive":
                self.sensitive[name] = ()
            case _:
                raise InvalidParameter(f"columns.{name}", role, _ROLES)

    def check(self, presence: Presence | None, unit: str | None) -> None:
        """Refuse a column that is used up by two roles: a part of a place, what says who is a member, the unit."""
        taken = {*self.identifiers, *self.others, *self.sensitive, *(rule.column for rule, _ in self.coarsen)}
        taken |= {rule.column for rule in self.quasi}
        parts = [source for rule in self.quasi for source in rule.sources if rule.sources != (rule.column,)]
        parts += [] if presence is None or presence.member is None else [presence.member]
        parts += [] if unit is None or unit in self.identifiers else [unit]  # it is removed, as an identifier is
        for name in parts:
            if name in taken or parts.count(name) > 1:
                raise InvalidData(f"policy: column {name!r} has two roles; it is used up by one of them: keep that one")

    def _rule(self, name: str, kind: str, settings: Mapping[Any, Any]) -> Rule:
        if kind not in _RULES and not kind.endswith(".csv"):
            raise InvalidParameter(f"columns.{name}", kind, f"{', '.join(_RULES)} or a CSV file of levels")
        _known(f"columns.{name}", settings, _RULES.get(kind, set()))
        return Rule(column=name, kind=kind, settings=settings, folder=self.folder)

    def _model(self, name: str, entry: Any) -> Model:
        where = f"columns.{name}.sensitive"
        kind = entry.get("model") if isinstance(entry, Mapping) else None
        if kind not in _MODELS:
            raise InvalidParameter(where, entry, f'{{ model = "…", … }} with one of {", ".join(_MODELS)}')
        made, settings = _MODELS[kind]
        given = {key: value for key, value in entry.items() if key != "model"}
        _known(where, given, settings)
        if "hierarchy" in given:
            given["hierarchy"] = Hierarchy.read(name, self.folder / str(given["hierarchy"]))
        if "order" in given:
            given["order"] = tuple(given["order"])
        if kind == "alpha":
            given["k"] = self.k
        try:
            return made(column=name, **given)
        except TypeError:
            raise InvalidParameter(where, entry, f"its settings: {', '.join(sorted(settings))}") from None


def _unit(settings: Mapping[str, Any]) -> str | None:
    unit = settings.get("unit")
    if unit is not None and (not isinstance(unit, str) or not unit):
        raise InvalidParameter("anonymity.unit", unit, "the name of the column that names the person of a row")
    return unit


def _presence(settings: Mapping[str, Any]) -> Presence | None:
    given = settings.get("presence")
    if given is None:
        return None
    if not isinstance(given, Mapping) or set(given) != {"low", "high", "member"}:
        raise InvalidParameter("anonymity.presence", given, '{ low = 0, high = 0.5, member = "a column" }')
    return Presence(given["low"], given["high"], member=str(given["member"]))


def _joined(table: "pyarrow.Table", rule: Rule) -> "pyarrow.Table":
    from pyarrow import compute

    if len(rule.sources) != 2:
        raise InvalidParameter(f"columns.{rule.column}.from", list(rule.sources), "two columns: latitude and longitude")
    latitude, longitude = (texts(column(table, name)) for name in rule.sources)
    joined = compute.binary_join_element_wise(latitude, longitude, ",")
    empty = compute.or_(compute.equal(latitude, ""), compute.equal(longitude, ""))
    place = compute.if_else(empty, "", joined)
    return table.drop_columns(list(rule.sources)).append_column(rule.column, place)


def _table(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    result = document.get(name)
    if not isinstance(result, Mapping):
        raise InvalidData(f"policy: it has no table [{name}]")
    return result


def _known(where: str, given: Mapping[str, Any], names: set[str]) -> None:
    for name in given:
        if name not in names:
            raise InvalidParameter(where, name, f"one of {', '.join(sorted(names)) or 'no further settings'}")


def _k(settings: Mapping[str, Any]) -> int:
    k = settings.get("k")
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise InvalidParameter("anonymity.k", k, "a whole number, at least 1 (and in earnest at least 5)")
    return k


def _one_of(settings: Mapping[str, Any], name: str, choices: tuple[str, ...]) -> str:
    if settings.get(name) not in choices:
        raise InvalidParameter(f"anonymity.{name}", settings.get(name), f"one of {', '.join(choices)}")
    return str(settings[name])
