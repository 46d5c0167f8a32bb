"""From words to a `SynthesisPlan`: what an owner or analyst says, and what follows from it and from the policy."""

from collections.abc import Mapping
from fractions import Fraction
from importlib.util import find_spec
from itertools import combinations
from typing import Any, get_args

from discreet.curator.catalog import Catalog, Column, ColumnType, Table
from discreet.errors import InvalidParameter, MissingExtra
from discreet.exact import integer, plain, rational
from discreet.mechanisms.partitions import OptimalSelection
from discreet.privacy.calibration import gaussian_multiplier
from discreet.requests import Synthesis
from discreet.synthetic.bins import frozen
from discreet.synthetic.choosing import Recipe, recipe_for
from discreet.synthetic.marginals import MOST_CELLS, ones, pairs, triples
from discreet.synthetic.measuring import Design
from discreet.synthetic.plan import MOST_FOUND, Fitting, SynthesisPlan
from discreet.synthetic.relaxed import Settings
from discreet.synthetic.rules import read_rules
from discreet.synthetic.schema import Attribute, Schema

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
        one for one in table.columns if one.name not in out and (key is None or one.name.casefold() != key.casefold())
    )


def _hidden(request: Synthesis, columns: tuple[Column, ...]) -> tuple[str, ...]:
    """The columns whose values are found, in the order of the table."""
    named = {_known(name, "discover", columns) for name in request.discover}
    for one in columns:
        if one.name not in named:
            continue
        if one.kind is not ColumnType.TEXT:
            raise InvalidParameter("discover", one.name, "columns of text", "give bins for numbers and dates")
        if one.values is not None or one.name in dict(by_column(request.values, "values", columns)):
            raise InvalidParameter("discover", one.name, "columns without declared values", "leave it out of discover")
    return tuple(one.name for one in columns if one.name in named)


def schema_of(columns: tuple[Column, ...], request: Synthesis) -> Schema:
    """The columns as codes, where all are declared or said."""
    bins, values = (
        dict(by_column(given, what, columns)) for what, given in (("bins", request.bins), ("values", request.values))
    )
    return Schema(
        [
            Attribute.of(
                one,
                bins=frozen(bins[one.name], one.name) if one.name in bins else None,
                values=listed(values[one.name], one.name) if one.name in values else None,
            )
            for one in columns
        ]
    )


def by_column(given: Mapping[str, Any], what: str, columns: tuple[Column, ...]) -> list[tuple[str, Any]]:
    """What is said of columns, by their names in the table and in its order."""
    if not isinstance(given, Mapping):
        raise InvalidParameter(what, given, "a mapping from columns")
    named = [(_known(name, what, columns), value) for name, value in given.items()]
    if len(dict(named)) < len(named):
        raise InvalidParameter(what, list(given), "each column once (in any case)")
    return [(one.name, dict(named)[one.name]) for one in columns if one.name in dict(named)]


def _known(name: str, what: str, columns: tuple[Column, ...]) -> str:
    for one in columns:
        if isinstance(name, str) and one.name.casefold() == name.casefold():
            return one.name
    raise InvalidParameter(what, name, f"one of the synthetic columns: {', '.join(one.name for one in columns)}")


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
        raise InvalidParameter("model", name, " or ".join(repr(one) for one in get_args(Fitting)))
    if name == "graphical" and find_spec("mbi") is None:
        raise MissingExtra("mbi", "graphical")
    return "graphical" if name == "graphical" else "relaxed"


def settings_of(given: Settings | None) -> Settings:
    """How a table is fitted."""
    if given is None:
        return Settings()
    if not isinstance(given, Settings):
        raise InvalidParameter("settings", given, "discreet.synthetic.relaxed.Settings")
    return given
