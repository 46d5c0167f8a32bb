"""The owner's policy: a TOML file that states what is private, for whom, and how much may be learned.

::

    [dataset]
    name = "hospital"
    neighbours = "add or remove one"      # or "change one"
    ledger = "hospital.ledger"            # optional: where charges are kept; beside this file, named like it, if not

    [budget]
    epsilon = "3"
    delta = "1e-6"                        # optional: without it, only pure ε-DP releases are paid for

    [budget.analysts.alice]               # optional: no analyst may spend more than this
    epsilon = "1"
    delta = "1e-7"

    [tables.visits]
    source = "visits.parquet"             # .parquet, .csv, database.duckdb#table, or "python"
    unit = "patient_id"                   # one person, by this column; or "row"; or "public"
    groups = 3                            # optional: a person counts in at most so many groups of one answer,
    rows = 10                             # optional: with at most so many rows in each; a question may state its own

    [tables.visits.columns.age]
    type = "integer"
    lower = 0
    upper = 120

Numbers may be written as TOML numbers or, exactly, as text. Whatever is not understood is refused with its place.
"""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from discreet.curator.catalog import Catalog, Column, Table
from discreet.errors import InvalidParameter
from discreet.privacy.budget import Budget
from discreet.privacy.unit import Neighbours, Unit

UNDECIDED = "?"
"""What a drafted policy holds where the owner must decide."""

_COLUMN_FIELDS = ("type", "nullable", "lower", "upper", "granularity", "values")


@dataclass(frozen=True, slots=True)
class Policy:
    """A catalog, where its tables are, the budget, and the caps of single analysts.

    Sources and the ledger's file are relative to `base`. A table whose source is "python" is given when it is opened.
    """

    catalog: Catalog
    sources: Mapping[str, str]
    budget: Budget
    caps: Mapping[str, Budget]
    base: Path = Path()
    ledger: str | None = None


def read_policy(path: str | Path) -> Policy:
    """Read and check a policy file.

    >>> read_policy("missing.toml")
    Traceback (most recent call last):
    discreet.errors.InvalidParameter: policy: got 'missing.toml', expected a TOML file that can be read; No such file...
    """
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        hint = error.strerror or str(error)
        raise InvalidParameter("policy", str(path), "a TOML file that can be read", hint) from None
    except UnicodeDecodeError:
        raise InvalidParameter("policy", str(path), "a text file in UTF-8") from None
    policy = parse_policy(text)
    return replace(policy, base=file.parent, ledger=policy.ledger or file.with_suffix(".ledger").name)


def parse_policy(text: str) -> Policy:
    """A policy from its TOML text.

    >>> policy = parse_policy(\'\'\'
    ... [dataset]
    ... name = "census"
    ... neighbours = "change one"
    ... [budget]
    ... epsilon = "1"
    ... [tables.people]
    ... source = "people.csv"
    ... unit = "row"
    ... columns.age = {type = "integer", lower = 0, upper = 120}
    ... \'\'\')
    >>> policy.catalog.table("people").column("age").bounded
    True
    """
    try:
        document = tomllib.loads(text, parse_float=str)
    except tomllib.TOMLDecodeError as error:
        raise InvalidParameter("policy", "a file that is not TOML", "TOML", str(error)) from None
    open_ = list(_undecided(document, ""))
    if open_:
        raise InvalidParameter("policy", f"{len(open_)} open decisions", "every '?' decided", ", ".join(open_))
    top = _fields(document, "the policy", required=("dataset", "budget", "tables"))
    dataset = _fields(top["dataset"], "[dataset]", required=("name", "neighbours"), optional=("ledger",))
    ledger = dataset.get("ledger")
    if ledger is not None and (not isinstance(ledger, str) or not ledger):
        raise InvalidParameter("[dataset] ledger", ledger, "the path of a file")
    tables = _table(top["tables"], "[tables]")
    catalog = Catalog(
        dataset["name"], [_read_table(name, entry) for name, entry in tables.items()], neighbours=dataset["neighbours"]
    )
    budget = _fields(top["budget"], "[budget]", required=("epsilon",), optional=("delta", "delta_for_keys", "analysts"))
    caps = _table(budget.pop("analysts", {}), "[budget.analysts]")
    return Policy(
        catalog,
        {name: entry["source"] for name, entry in tables.items()},
        Budget(**budget),
        {name: _read_cap(name, entry) for name, entry in caps.items()},
        ledger=ledger,
    )


def explain(policy: Policy) -> str:
    """What a policy means, in words, for the owner to read once more before opening the doors."""
    catalog, budget = policy.catalog, policy.budget
    change = {
        Neighbours.ADD_OR_REMOVE_ONE: "whether one of them is in the data at all",
        Neighbours.CHANGE_ONE: "the data of one of them (but not that they are in it)",
    }[catalog.neighbours]
    lines = [f"Dataset {catalog.name}: everything ever released hides {change}, at {budget.describe_limit()} in all."]
    if budget.delta:
        lines.append(f"Of δ, {float(budget.delta_for_keys):.3g} is for naming groups that come from the data.")
    else:
        lines.append("There is no δ: groups can only be named if their values are declared, and noise is Laplace-like.")
    lines += [f"Analyst {name} may spend at most {cap.describe_limit()} of it." for name, cap in policy.caps.items()]
    for table in catalog.tables.values():
        protects = f"private; protects {table.unit}" if table.private else "public: its rows are told to everybody"
        lines.append(f"Table {table.name} ({policy.sources[table.name]}): {protects}.")
        if table.unit is not None and table.unit.key is not None:
            lines.append(f"  A person counts {_share(table)}.")
        for column in table.columns:
            lines.append(f"  {column.describe()}" + _consequence(table, column))
    return "\n".join(lines)


def _share(table: Table) -> str:
    def most(bound: int | None, what: str) -> str:
        return f"at most {bound} {what}" if bound else f"as many {what} as each question states"

    return f"in {most(table.groups, 'groups')} of one answer, with {most(table.rows, 'rows')} in each"


def _consequence(table: Table, column: Column) -> str:
    if not table.private or (table.unit is not None and column.name == table.unit.key):
        return ""
    can = []
    if column.bounded:
        can.append("can be summed and averaged")
    if column.values is not None:
        can.append("groups by its declared values cost nothing extra")
    return f" ({'; '.join(can)})" if can else " (can be counted and filtered; no sums, no free groups)"


def _read_table(name: str, entry: Any) -> Table:
    where = f"[tables.{name}]"
    fields = _fields(entry, where, required=("source", "unit", "columns"), optional=("groups", "rows"))
    if not isinstance(fields["source"], str) or not fields["source"]:
        raise InvalidParameter(
            f"{where} source", fields["source"], 'the path of a file, database.duckdb#table, or "python"'
        )
    columns = [
        _read_column(where, column, spec) for column, spec in _table(fields["columns"], f"{where} columns").items()
    ]
    unit = _read_unit(fields["unit"], where)
    return Table(name, columns, unit=unit, groups=fields.get("groups"), rows=fields.get("rows"))


def _read_unit(value: Any, where: str) -> Unit | None:
    if not isinstance(value, str) or not value:
        raise InvalidParameter(f"{where} unit", value, "the column that identifies a person, 'row', or 'public'")
    return {"public": None, "row": Unit()}.get(value, Unit(value))


def _read_column(where: str, name: str, spec: Any) -> Column:
    fields = _fields(spec, f"{where} columns.{name}", required=("type",), optional=_COLUMN_FIELDS[1:])
    return Column(name, fields.pop("type"), **fields)


def _read_cap(name: str, entry: Any) -> Budget:
    return Budget(
        **_fields(entry, f"[budget.analysts.{name}]", required=("epsilon",), optional=("delta", "delta_for_keys"))
    )


def _fields(value: Any, where: str, *, required: tuple[str, ...], optional: tuple[str, ...] = ()) -> dict[str, Any]:
    """A TOML table with exactly the fields that are known."""
    table = dict(_table(value, where))
    missing = [name for name in required if name not in table]
    unknown = [name for name in table if name not in (*required, *optional)]
    if missing or unknown:
        got = ", ".join([f"no {name!r}" for name in missing] + [f"an unknown {name!r}" for name in unknown])
        raise InvalidParameter(where, got, f"the fields {', '.join((*required, *optional))}")
    return table


def _table(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidParameter(where, value, "a TOML table")
    return value


def _undecided(value: Any, where: str) -> Iterator[str]:
    if value == UNDECIDED:
        yield where
    elif isinstance(value, dict):
        for name, part in value.items():
            yield from _undecided(part, f"{where}.{name}".lstrip("."))
