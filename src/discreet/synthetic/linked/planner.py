"""From words to a `LinkedPlan`."""

from collections.abc import Mapping, Sequence
from typing import Any

from discreet.curator.catalog import Catalog
from discreet.errors import InvalidParameter
from discreet.exact import integer, rational
from discreet.privacy.calibration import gaussian_multiplier
from discreet.requests import LinkedSynthesis, Synthesis
from discreet.synthetic.linked.plan import LinkedPlan, Part
from discreet.synthetic.planner import (
    by_column,
    check_memory,
    check_noise,
    check_pairs,
    columns_of,
    most_rows,
    schema_of,
    settings_of,
)
from discreet.synthetic.relaxed import Settings
from discreet.synthetic.rules import named_in, read_rules

_SAID = ("columns", "exclude", "bins", "values", "at_most", "never", "rules", "rows_per_person")

_CLOSER = 0.8
"""Rows of other tables depend strongly on few columns: a fit goes on while one of those pairs is off (decision 27)."""


def plan_linked(request: LinkedSynthesis, catalog: Catalog) -> LinkedPlan:
    """The plan of several tables of the same people. No row is read.

    >>> from discreet.curator.catalog import Column, Table
    >>> from discreet.privacy.unit import Unit
    >>> who, ill, day = Column("who", "integer"), Column("ill", "boolean"), Column("day", "integer", lower=1, upper=7)
    >>> both = [Table("people", [who, ill], unit=Unit("who")), Table("visits", [who, day], unit=Unit("who"))]
    >>> catalog = Catalog("clinic", both, neighbors="add or remove one")
    >>> tables = {"people": {}, "visits": {"rows_per_person": 3}}
    >>> made = plan_linked(LinkedSynthesis(tables=tables, epsilon=1, delta="1e-9"), catalog)
    >>> made.record.names, made.joined(made.others[0]).names
    (('people.ill', 'rows in visits'), ('people.ill', 'day'))
    """
    epsilon = rational(request.epsilon, "epsilon", above=0)
    delta = rational(request.delta or 0, "delta", above=0, below=1)
    parts = [_part(catalog, name, said) for name, said in _by_table(request.tables)]
    first = next((part for part in parts if part.rows_each == 1), None)
    made = LinkedPlan(
        people=first,
        others=tuple(part for part in parts if part is not first),
        multiplier=gaussian_multiplier(epsilon=epsilon, delta=delta, method="analytic"),
        neighbors=catalog.neighbors,
        epsilon=epsilon,
        delta=delta,
        count=None if request.people is None else integer(request.people, "people", at_least=1),
        settings=settings_of(Settings(closer=_CLOSER) if request.settings is None else request.settings),
    )
    _check(made)
    return made


def _by_table(tables: Any) -> list[tuple[str, Mapping[str, Any]]]:
    expected = "names of tables, or a mapping from names to what is said of each"
    if isinstance(tables, str) or not isinstance(tables, Mapping | Sequence):
        raise InvalidParameter("tables", tables, expected)
    names = list(tables)
    if not all(isinstance(name, str) for name in names):
        raise InvalidParameter("tables", names, expected)
    if len({name.casefold() for name in names}) < len(names):
        raise InvalidParameter("tables", names, "each table once")
    said = dict(tables) if isinstance(tables, Mapping) else {name: {} for name in names}
    for name, given in said.items():
        if not isinstance(given, Mapping):
            raise InvalidParameter(f"tables, {name}", given, f"a mapping of any of {', '.join(_SAID)}")
        unknown = sorted(str(one) for one in given if one not in _SAID)
        if unknown:
            raise InvalidParameter(f"tables, {name}", ", ".join(unknown), f"any of {', '.join(_SAID)}")
    return list(said.items())


def _part(catalog: Catalog, name: str, said: Mapping[str, Any]) -> Part:
    table = catalog.table(name)
    if table.unit is None or table.unit.key is None:
        raise InvalidParameter("tables", name, "private tables whose rows name a person (unit = a column)")
    request = Synthesis(table=name, epsilon=1, **said)  # what it may cost is said of all tables together
    columns = columns_of(table, request)
    schema = schema_of(columns, request)
    rules = read_rules(request.at_most, request.never, request.rules)
    fine = tuple((one.column.name, cells) for one in schema.attributes if (cells := one.cells) is not None)
    given = {name for name, bins in by_column(request.bins, "bins", columns) if not isinstance(bins, str)}
    public = {name.casefold() for name in given | named_in(rules)}
    own = tuple(name for name, _ in fine if name.casefold() not in public)
    return Part(table, schema, rules, most_rows(request.rows_per_person, table), fine, own)


def _check(made: LinkedPlan) -> None:
    """Refuse, before anything is spent, what cannot be fitted or would be noise."""
    for schema in (made.record, *(made.joined(part) for part in made.others)):
        check_pairs(schema)
    check_memory(made.memory(), made.settings)
    if made.count is not None:
        check_noise(made.designs()[0], made.count, made.epsilon)
