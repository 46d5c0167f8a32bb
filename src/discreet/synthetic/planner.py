"""From words to a `SynthesisPlan`: what an owner or analyst says, and what follows from it and from the policy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from discreet.curator.catalog import Catalog, Column, ColumnType, Table
from discreet.errors import InvalidParameter
from discreet.exact import Number, integer, rational
from discreet.mechanisms.partitions import OptimalSelection
from discreet.privacy.calibration import gaussian_multiplier
from discreet.synthetic.plan import SynthesisPlan
from discreet.synthetic.relaxed import Settings
from discreet.synthetic.rules import read_rules
from discreet.synthetic.schema import Bins

_FINDING = Fraction(1, 10)  # of ε, for all columns whose values are found; half of δ


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What somebody says.

    columns: those to synthesise; all that are declared well enough must be named or be all, never silently dropped.
    leave_out: columns of the table that are not synthesised. bins, values: public, instead of the policy's.
    discover: text columns whose values are found privately; they cost a tenth of ε and half of δ together.
    at_most: rules "a <= b"; never: combinations that cannot be. target: a column that models will predict.
    rows_each: the most rows of one person. people: about how many units there are, public, to warn of a budget that is
    too small. rows: how many synthetic rows; the noisy number of rows, if left out.
    """

    table: str
    epsilon: Number
    delta: Number
    columns: Sequence[str] | None = None
    leave_out: Sequence[str] = ()
    bins: Mapping[str, Bins] = field(default_factory=dict)
    values: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    discover: Sequence[str] = ()
    at_most: Sequence[str] = ()
    never: Sequence[Any] = ()
    target: str | None = None
    rows_each: int = 1
    people: int | None = None
    rows: int | None = None
    settings: Settings = field(default_factory=Settings)


def plan(wish: Wish, catalog: Catalog) -> SynthesisPlan:
    """The plan of a wish, against the owner's catalog. No row is read.

    >>> from discreet.curator.catalog import Column, Table
    >>> from discreet.privacy.unit import Unit
    >>> columns = [Column("age", "integer", lower=0, upper=100), Column("ill", "boolean")]
    >>> catalog = Catalog("clinic", [Table("people", columns, unit=Unit())], neighbours="add or remove one")
    >>> made = plan(Wish(table="people", epsilon=1, delta="1e-9"), catalog)
    >>> made.schema({}).sizes, float(made.multiplier) > 1
    ((33, 3), True)
    """
    table = catalog.table(wish.table)
    epsilon = rational(wish.epsilon, "epsilon", above=0)
    delta = rational(wish.delta, "delta", above=0, below=1)
    columns = _columns(table, wish)
    names = {one.name.casefold(): one.name for one in columns}
    hidden = tuple(_known(name, names, "discover") for name in wish.discover)
    made = SynthesisPlan(
        table=table,
        columns=columns,
        bins=tuple((_known(name, names, "bins"), _frozen(bins)) for name, bins in wish.bins.items()),
        values=tuple((_known(name, names, "values"), tuple(listed)) for name, listed in wish.values.items()),
        discover=_selections(hidden, columns, epsilon, delta),
        rules=read_rules(wish.at_most, wish.never),
        target=None if wish.target is None else _known(wish.target, names, "target"),
        rows_each=_rows_each(wish.rows_each, table),
        multiplier=_multiplier(epsilon, delta, finding=bool(hidden)),
        neighbours=catalog.neighbours,
        epsilon=epsilon,
        delta=delta,
        people=None if wish.people is None else integer(wish.people, "people", at_least=1),
        rows=None if wish.rows is None else integer(wish.rows, "rows", at_least=1, at_most=10**8),
        settings=wish.settings,
    )
    _check(made)
    return made


def _check(made: SynthesisPlan) -> None:
    """Refuse, before anything is spent, what cannot be fitted or would be noise."""
    needed = made.memory()
    if needed > made.settings.memory:
        hint = "leave out columns, use fewer bins, or raise the limit"
        raise InvalidParameter("memory", f"{made.settings.memory:,} bytes", f"{needed:,} bytes for this table", hint)
    if made.people is not None and not made.discover:
        alone = made.design(made.schema({})).noise_alone(made.people)
        if alone >= 1:
            hint = f"noise alone would be {alone:.2g} of total variation in a pair; fewer columns or bins help too"
            raise InvalidParameter(
                "epsilon", str(float(made.epsilon)), f"about {float(made.epsilon) * alone * 2:.2g}", hint
            )


def _columns(table: Table, wish: Wish) -> tuple[Column, ...]:
    """The columns to synthesise: those named, or all but the key and those left out."""
    key = table.unit.key if table.unit else None
    if wish.columns is not None:
        return tuple(table.column(name) for name in wish.columns)
    out = {table.column(name).name for name in wish.leave_out}
    return tuple(
        one for one in table.columns if one.name not in out and (key is None or one.name.casefold() != key.casefold())
    )


def _known(name: str, names: Mapping[str, str], what: str) -> str:
    if name.casefold() not in names:
        raise InvalidParameter(what, name, f"one of the synthetic columns: {', '.join(names.values())}")
    return names[name.casefold()]


def _selections(
    hidden: tuple[str, ...], columns: tuple[Column, ...], epsilon: Fraction, delta: Fraction
) -> tuple[tuple[str, OptimalSelection], ...]:
    for name in hidden:
        kind = next(one.kind for one in columns if one.name == name)
        if kind is not ColumnType.TEXT:
            raise InvalidParameter("discover", name, "columns of text", "give bins for numbers and dates")
    if not hidden:
        return ()
    each = {"epsilon": epsilon * _FINDING / len(hidden), "delta": delta / 2 / len(hidden)}
    return tuple((name, OptimalSelection(**each, keys=1)) for name in hidden)


def _multiplier(epsilon: Fraction, delta: Fraction, *, finding: bool) -> Fraction:
    if finding:
        epsilon, delta = epsilon * (1 - _FINDING), delta / 2
    return gaussian_multiplier(epsilon=epsilon, delta=delta, method="analytic")


def _rows_each(most: int, table: Table) -> int:
    exact = integer(most, "rows_each", at_least=1, at_most=1000)
    if exact > 1 and (table.unit is None or table.unit.key is None):
        raise InvalidParameter("rows_each", most, "1 where one row is protected")
    return exact


def _frozen(bins: Bins) -> Bins:
    return bins if isinstance(bins, int) else tuple(bins)
