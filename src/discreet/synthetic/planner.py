"""From words to a plan of one table or of linked ones: what is said, and what follows from the policy."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from importlib.util import find_spec
from itertools import combinations
from typing import Any, get_args

from discreet.curator.catalog import Catalog, Column, ColumnType, Table
from discreet.errors import InvalidParameter, MissingExtra
from discreet.exact import integer, plain, rational
from discreet.mechanisms.partitions import OptimalSelection
from discreet.privacy.calibration import gaussian_multiplier
from discreet.requests import LinkedSynthesis, Synthesis
from discreet.synthetic.columns.rules import named_in, read_rules
from discreet.synthetic.columns.schema import Attribute, Schema
from discreet.synthetic.columns.units import frozen
from discreet.synthetic.fit.relaxed import Settings
from discreet.synthetic.linked_plan import LinkedPlan
from discreet.synthetic.linked_tables import Part
from discreet.synthetic.measure.adaptive import Recipe, recipe_for
from discreet.synthetic.measure.noisy_marginals import MOST_CELLS, Design, ones, pairs, triples
from discreet.synthetic.plan import MOST_FOUND, SynthesisPlan
from discreet.synthetic.result import Fitting

_FINDING = Fraction(1, 10)  # of ε and of δ, for all columns whose values are found
_PICKS = 3  # triples in a round
_PICKED = 20_000  # cells of a triple that may be picked, at most


def plan_synthesis(request: Synthesis, catalog: Catalog) -> SynthesisPlan:
    """The plan of a synthetic table, against the owner's catalog. No row is read.

    >>> from discreet.curator.catalog import Column, Table
    >>> from discreet.privacy.unit import Unit
    >>> columns = [Column("age", "integer", lower=0, upper=100), Column("ill", "boolean")]
    >>> catalog = Catalog("clinic", [Table("people", columns, unit=Unit())], neighbors="add or remove one")
    >>> made = plan_synthesis(Synthesis(table="people", epsilon=1, delta="1e-9"), catalog)
    >>> made.schema({}).sizes, float(made.multiplier) > 1
    ((33, 3), True)
    """
    table = catalog.table(request.table)
    epsilon = rational(request.epsilon, "epsilon", above=0)
    delta = rational(request.delta or 0, "delta", above=0, below=1)
    columns = columns_of(table, request)
    hidden = _hidden(request, columns)
    made = SynthesisPlan(
        table=table,
        columns=columns,
        bins=tuple((name, frozen(bins, name)) for name, bins in by_column(request.bins, "bins", columns)),
        values=tuple((name, listed(values, name)) for name, values in by_column(request.values, "values", columns)),
        discover=_selections(hidden, epsilon, delta),
        rules=read_rules(request.at_most, request.never, request.rules),
        target=None if request.target is None else _known(request.target, "target", columns),
        rows_each=most_rows(request.rows_per_person, table),
        multiplier=_multiplier(epsilon, delta, finding=bool(hidden)),
        recipe=None,
        neighbors=catalog.neighbors,
        epsilon=epsilon,
        delta=delta,
        people=None if request.people is None else integer(request.people, "people", at_least=1),
        rows=None if request.rows is None else integer(request.rows, "rows", at_least=1, at_most=10**8),
        model=_model(request.model),
        settings=settings_of(request.settings),
    )
    check_pairs(made.guessed(MOST_FOUND))
    if request.adaptive is not None:
        made = _with_rounds(made, request.adaptive)
    _check(made)
    return made


def check_pairs(schema: Schema) -> None:
    """Refuse columns of which two have too many combinations."""
    for first, second in combinations(schema.attributes, 2):
        if first.size * second.size > MOST_CELLS:
            got = f"{first.column.name} ({first.size:,} codes) with {second.column.name} ({second.size:,})"
            hint = "leave one out, or give it fewer bins or values"
            raise InvalidParameter("columns", got, f"pairs of at most {MOST_CELLS:,} combinations", hint)


def _check(made: SynthesisPlan) -> None:
    """Refuse, before anything is spent, what cannot be fitted or would be noise."""
    check_memory(made.memory(), made.settings)
    if made.people is not None and not made.discover:
        first = made.design(made.schema({})) if made.recipe is None else made.recipe.first
        check_noise(first, made.people, made.epsilon)


def check_memory(needed: int, settings: Settings) -> None:
    """Refuse a fit that needs more than its limit."""
    if needed > settings.memory:
        hint = "leave out columns, use fewer bins, or raise the limit"
        raise InvalidParameter("memory", f"{settings.memory:,} bytes", f"{needed:,} bytes for this fit", hint)


def check_noise(first: Design, people: int, epsilon: Fraction) -> None:
    """Refuse a budget that gives noise alone for so many people."""
    alone = first.noise_alone(people)
    if alone >= 1:
        hint = f"noise alone would be {alone:.2g} of total variation in a pair; fewer columns or bins help too"
        enough = f"about {float(epsilon) * alone * 2:.2g} or more for {people:,} people"
        raise InvalidParameter("epsilon", plain(epsilon), enough, hint)


def columns_of(table: Table, request: Synthesis) -> tuple[Column, ...]:
    """The columns to synthesize: those named, or all but the key and those left out."""
    for name, given in (("columns", request.columns), ("exclude", request.exclude), ("discover", request.discover)):
        if isinstance(given, str):
            raise InvalidParameter(name, given, "a list of columns", f"write [{given!r}]")
    if request.columns is not None:
        if request.exclude:
            raise InvalidParameter("exclude", list(request.exclude), "columns, or exclude, not both")
        return tuple(table.column(name) for name in request.columns)
    key = table.unit.key if table.unit else None
    out = {table.column(name).name for name in request.exclude}
    return tuple(
        column
        for column in table.columns
        if column.name not in out and (key is None or column.name.casefold() != key.casefold())
    )


def _hidden(request: Synthesis, columns: tuple[Column, ...]) -> tuple[str, ...]:
    """The columns whose values are found, in the order of the table."""
    named = {_known(name, "discover", columns) for name in request.discover}
    for column in columns:
        if column.name not in named:
            continue
        if column.kind is not ColumnType.TEXT:
            raise InvalidParameter("discover", column.name, "columns of text", "give bins for numbers and dates")
        if column.values is not None or column.name in dict(by_column(request.values, "values", columns)):
            raise InvalidParameter(
                "discover", column.name, "columns without declared values", "leave it out of discover"
            )
    return tuple(column.name for column in columns if column.name in named)


def schema_of(columns: tuple[Column, ...], request: Synthesis) -> Schema:
    """The columns as codes, where all are declared or said."""
    bins, values = (
        dict(by_column(given, what, columns)) for what, given in (("bins", request.bins), ("values", request.values))
    )
    return Schema(
        [
            Attribute.of(
                column,
                bins=frozen(bins[column.name], column.name) if column.name in bins else None,
                values=listed(values[column.name], column.name) if column.name in values else None,
            )
            for column in columns
        ]
    )


def by_column(given: Mapping[str, Any], what: str, columns: tuple[Column, ...]) -> list[tuple[str, Any]]:
    """What is said of columns, by their names in the table and in its order."""
    if not isinstance(given, Mapping):
        raise InvalidParameter(what, given, "a mapping from columns")
    named = [(_known(name, what, columns), value) for name, value in given.items()]
    if len(dict(named)) < len(named):
        raise InvalidParameter(what, list(given), "each column once (in any case)")
    return [(column.name, dict(named)[column.name]) for column in columns if column.name in dict(named)]


def _known(name: str, what: str, columns: tuple[Column, ...]) -> str:
    for column in columns:
        if isinstance(name, str) and column.name.casefold() == name.casefold():
            return column.name
    raise InvalidParameter(what, name, f"one of the synthetic columns: {', '.join(column.name for column in columns)}")


def listed(values: Any, name: str) -> tuple[Any, ...]:
    """The values that are said of a column."""
    if isinstance(values, str) or not hasattr(values, "__iter__"):
        raise InvalidParameter(f"values of {name}", values, "a list of values")
    return tuple(values)


def _selections(
    hidden: tuple[str, ...], epsilon: Fraction, delta: Fraction
) -> tuple[tuple[str, OptimalSelection], ...]:
    if not hidden:
        return ()
    each = {"epsilon": epsilon * _FINDING / len(hidden), "delta": delta * _FINDING / len(hidden)}
    return tuple((name, OptimalSelection(**each, keys=1)) for name in hidden)


def _multiplier(epsilon: Fraction, delta: Fraction, *, finding: bool) -> Fraction:
    """Of the Gaussian release, by the exact profile; what is found is paid for by basic composition."""
    rest = 1 - _FINDING if finding else Fraction(1)
    return gaussian_multiplier(epsilon=epsilon * rest, delta=delta * rest, method="analytic")


def _with_rounds(made: SynthesisPlan, rounds: int) -> SynthesisPlan:
    """The same, with triples chosen in rounds."""
    from dataclasses import replace

    turns = integer(rounds, "adaptive", at_least=1, at_most=100)
    if made.discover or made.rows_each > 1:
        expected = "one row a person and declared values, where marginals are chosen in rounds"
        raise InvalidParameter("adaptive", rounds, expected)
    return replace(made, recipe=_recipe(made, turns), target=None)


def _recipe(made: SynthesisPlan, rounds: int) -> Recipe:
    schema = made.schema({})
    target = None if made.target is None else schema.place(made.target)
    candidates = triples(schema.sizes, most_cells=_PICKED, target=target)
    if not candidates:
        expected = f"three columns or more that have a triple of at most {_PICKED:,} combinations"
        raise InvalidParameter("adaptive", rounds, expected)
    return recipe_for(
        schema.sizes,
        [*ones(schema.sizes), *pairs(schema.sizes)],
        candidates,
        epsilon=made.epsilon,
        delta=made.delta,
        neighbors=made.neighbors,
        rounds=rounds,
        picks=min(_PICKS, len(candidates)),
        rows_per_unit=made.rows_each,
    )


def most_rows(most: int, table: Table) -> int:
    """How many rows of a person are used."""
    exact = integer(most, "rows_per_person", at_least=1, at_most=1000)
    if exact > 1 and (table.unit is None or table.unit.key is None):
        raise InvalidParameter("rows_per_person", most, "1 where one row is protected")
    return exact


def _model(name: str) -> Fitting:
    if name not in get_args(Fitting):
        raise InvalidParameter("model", name, " or ".join(repr(known) for known in get_args(Fitting)))
    if name == "graphical" and find_spec("mbi") is None:
        raise MissingExtra("mbi", "graphical")
    return "graphical" if name == "graphical" else "relaxed"


def settings_of(given: Settings | None) -> Settings:
    """How a table is fitted."""
    if given is None:
        return Settings()
    if not isinstance(given, Settings):
        raise InvalidParameter("settings", given, "discreet.synthetic.fit.relaxed.Settings")
    return given


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
    _check_linked(made)
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
        unknown = sorted(str(option) for option in given if option not in _SAID)
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
    fine = tuple(
        (attribute.column.name, cells) for attribute in schema.attributes if (cells := attribute.cells) is not None
    )
    given = {name for name, bins in by_column(request.bins, "bins", columns) if not isinstance(bins, str)}
    public = {name.casefold() for name in given | named_in(rules)}
    own = tuple(name for name, _ in fine if name.casefold() not in public)
    return Part(table, schema, rules, most_rows(request.rows_per_person, table), fine, own)


def _check_linked(made: LinkedPlan) -> None:
    """Refuse, before anything is spent, what cannot be fitted or would be noise."""
    for schema in (made.record, *(made.joined(part) for part in made.others)):
        check_pairs(schema)
    check_memory(made.memory(), made.settings)
    if made.count is not None:
        check_noise(made.designs()[0], made.count, made.epsilon)
