"""The owner's policy: a TOML file that states what is private, for whom, and how much may be learned.

::

    [dataset]
    name = "hospital"
    neighbors = "add or remove one"      # or "change one"
    ledger = "hospital.ledger"            # optional: where charges are kept; beside this file, named like it, if not
    id = "hospital-2026"                  # optional: names the data, wherever they lie and whatever the name
    witness = "/var/lib/witness"          # optional: a folder (or several) that remembers how far the ledger had come;
                                          # your state directory, if left out; "none": nobody remembers
    share_answers = true                  # optional: an answer that one analyst paid for is free for the others
    time_floor = "0.1"                    # optional: in seconds; answers leave after 0.1, 0.2, 0.5, 1, 2, … seconds
    engine = "postgres"                   # optional: where the tables are: "duckdb" (files), "postgres" or "spark"
    address = "postgresql://curator@db/records"  # of such a server; it holds no password
    version = "2026-11"                   # optional, of such a server: names the data; another one, another answer
    statement_timeout = "600"             # optional, of such a server: seconds that one query may take

    [budget]
    epsilon = "3"
    delta = "1e-6"                        # optional: without it, only pure ε-DP releases are paid for
    least_epsilon = "0.001"               # optional: no question costs less
    default_epsilon = "0.1"               # optional: what a question costs that states neither ε nor an error

    [budget.analysts.alice]               # who may ask: alice, up to this;
    epsilon = "1"
    delta = "1e-7"

    [budget.everyone]                     # and each analyst who is not named, up to this. Without it they are refused.
    epsilon = "0.5"                       # `everyone = "all"` under [budget]: each of them may spend all of it

    [tables.visits]
    source = "visits.parquet"             # .parquet, .csv, database.duckdb#table, or "python"
    unit = "patient_id"                   # one person, by this column; or "row"; or "public"; or, where rows reach
                                          # their person through another table, "orders.customer via order_id"
    max_groups_per_unit = 3               # optional: a person counts in at most so many groups of one answer,
    max_rows_per_group = 10               # optional: with at most so many rows in each; a question may state its own

    [tables.visits.csv]                   # optional, of a .csv file: how it is written, where not as stated here
    delimiter = ","
    encoding = "utf-8"                    # or "latin-1", "windows-1252", … (`CsvFormat`)
    decimal = "."                         # or ","
    date_format = "%d.%m.%Y"              # where dates are not ISO 8601

    [tables.visits.columns.age]
    type = "integer"
    lower = 0
    upper = 120

    [tables.visits.columns.region]
    type = "text"
    values = "regions.name"               # or a list; these are the values of a column of a public table

    [tables.visits.columns.day]
    type = "date"
    lower = 2020-01-01                    # optional: dates outside are clamped, so days, months, years are known
    upper = 2026-12-31

Numbers may be written as TOML numbers or, exactly, as text. Whatever is not understood is refused with its place.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from discreet.curator.catalog import Catalog, Column, Link, Table
from discreet.curator.engines import postgres_address, refuse_secrets, shown_address
from discreet.curator.engines.csv_files import RULE, CsvFormat
from discreet.curator.public_values import check_references
from discreet.curator.settings import FLOOR, caps_by_name, settings_text
from discreet.errors import InvalidParameter
from discreet.exact import plain, rational, text_down
from discreet.privacy.budget import Budget
from discreet.privacy.unit import Neighbors, Unit
from discreet.report.card import outline

UNDECIDED = "?"
"""What a drafted policy holds where the owner must decide."""

_NAMED = 10
"""So many open decisions are named, and the others counted."""

_UPGRADE = "`discreet check --upgrade POLICY` rewrites the file"

NO_WITNESS = "none"
"""What a policy states as its witness to have none."""

EVERYTHING = "all"
"""What a policy states as the cap of everyone where each analyst may spend the whole budget."""

_LEAST_EPSILON = Fraction(1, 1000)
ENGINES = ("duckdb", "postgres", "spark")
"""What may compute the exact aggregates."""

_SERVER_FIELDS = ("address", "version", "statement_timeout")
_DATASET_FIELDS = ("ledger", "id", "witness", "share_answers", "time_floor", "engine", *_SERVER_FIELDS)
_BUDGET_FIELDS = ("delta", "delta_for_keys", "analysts", "everyone", "least_epsilon", "default_epsilon")
BOUNDS = ("max_groups_per_unit", "max_rows_per_group")
"""What bounds the contribution of a person to one answer."""

_RENAMED = {"neighbours": "neighbors", "groups": BOUNDS[0], "rows": BOUNDS[1]}
"""Fields as earlier versions called them, and as they are called now."""

_COLUMN_FIELDS = ("type", "nullable", "lower", "upper", "granularity", "values")


@dataclass(frozen=True, slots=True)
class Policy:
    """A catalog, where its tables are, the budget, and the caps of single analysts.

    Sources, the ledger's file and witnesses are relative to `base`. A table whose source is "python" is given when it
    is opened. `everyone` is the cap of each analyst who is not named. `witness` is None for the user's own folder.
    `formats` says how .csv files are written, for each table that has one. No question costs less than `least_epsilon`,
    and one that states neither ε nor an error costs `default_epsilon`, where the owner states one.
    Answers leave on a time grid from `time_floor` seconds on; 0: at once.
    """

    catalog: Catalog
    sources: Mapping[str, str]
    budget: Budget
    caps: Mapping[str, Budget]
    base: Path = Path()
    ledger: str | None = None
    formats: Mapping[str, CsvFormat] = field(default_factory=dict)
    everyone: Budget | None = None
    share_answers: bool = False
    witness: tuple[str, ...] | None = None
    id: str | None = None
    file: Path | None = None
    least_epsilon: Fraction = Fraction(0)
    default_epsilon: Fraction | None = None
    time_floor: Fraction = FLOOR
    engine: str = "duckdb"
    address: str | None = None
    version: str | None = None
    statement_timeout: Fraction | None = None
    references: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Columns (by table and name) whose values are those of a public column, as `table.column`."""

    def __repr__(self) -> str:
        return f"<Policy {self.catalog.name}: {self.budget.describe_limit()}>"

    def _repr_html_(self) -> str:
        return outline(explain(self))

    @property
    def settings(self) -> str:
        """What the ledger keeps of it: the budget, the caps and whom they protect, as one line."""
        return settings_text(self.budget, self.caps, self.catalog.protects, everyone=self.everyone)


def read_policy(path: str | Path) -> Policy:
    """Read and check a policy file.

    >>> read_policy("missing.toml")
    Traceback (most recent call last):
    discreet.errors.InvalidParameter: policy: got 'missing.toml', expected a TOML file that can be read; No such file...
    """
    file = Path(path)
    policy = parse_policy(policy_text(path))
    ledger = policy.ledger or file.with_suffix(".ledger").name
    return replace(policy, base=file.parent, ledger=ledger, file=file)


def policy_text(path: str | Path) -> str:
    """The text of a policy file.

    >>> policy_text("https://discreet.example.org")
    Traceback (most recent call last):
    discreet.errors.InvalidParameter: policy: got 'https://discreet.example.org', expected a policy file, and not the...
    """
    if re.match(r"https?:/", str(path), re.IGNORECASE):
        hint = "servers: discreet ask, explain, budget, statement, shell, synth, train; in Python, discreet.connect"
        raise InvalidParameter("policy", str(path), "a policy file, and not the address of a server", hint)
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        hint = error.strerror or str(error)
        raise InvalidParameter("policy", str(path), "a TOML file that can be read", hint) from None
    except UnicodeDecodeError:
        raise InvalidParameter("policy", str(path), "a text file in UTF-8") from None


def parse_policy(text: str) -> Policy:
    """A policy from its TOML text.

    >>> policy = parse_policy(\'\'\'
    ... [dataset]
    ... name = "census"
    ... neighbors = "change one"
    ... [budget]
    ... epsilon = "1"
    ... everyone = "all"
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
        more = f", … and {len(open_) - _NAMED} more" if len(open_) > _NAMED else ""
        hint = ", ".join(open_[:_NAMED]) + more
        raise InvalidParameter("policy", f"{len(open_)} open decisions", "every '?' decided", hint)
    top = _fields(document, "the policy", required=("dataset", "budget", "tables"))
    dataset = _fields(top["dataset"], "[dataset]", required=("name", "neighbors"), optional=_DATASET_FIELDS)
    tables = _table(top["tables"], "[tables]")
    read = _linked([_read_table(name, entry) for name, entry in tables.items()])
    catalog = Catalog(dataset["name"], read, neighbors=dataset["neighbors"])
    budget = _fields(top["budget"], "[budget]", required=("epsilon",), optional=_BUDGET_FIELDS)
    caps = _table(budget.pop("analysts", {}), "[budget.analysts]")
    everyone, least = budget.pop("everyone", None), budget.pop("least_epsilon", None)
    usual = budget.pop("default_epsilon", None)
    whole = Budget(**budget)
    named = caps_by_name({name: _read_cap(f"analysts.{name}", cap) for name, cap in caps.items()}, "[budget.analysts]")
    return Policy(
        catalog,
        {name: entry["source"] for name, entry in tables.items()},
        whole,
        named,
        ledger=_read_text(dataset, "ledger", "the path of a file"),
        everyone=_read_everyone(everyone, whole, named),
        share_answers=_read_sharing(dataset),
        witness=_read_witness(dataset),
        id=_read_text(dataset, "id", "a text that names these data, wherever they lie"),
        formats={
            name: _read_format(name, entry.get("csv", {}))
            for name, entry in tables.items()
            if _is_csv(entry["source"]) and dataset.get("engine", "duckdb") == "duckdb"
        },
        least_epsilon=_read_least(least, whole),
        default_epsilon=None if usual is None else _read_default(usual, _read_least(least, whole), whole),
        references=_references(tables, catalog),
        time_floor=rational(dataset.get("time_floor", FLOOR), "[dataset] time_floor", at_least=0, at_most=3600),
        **_read_engine(dataset),
    )


def upgraded(text: str) -> tuple[str, list[str]]:
    """A policy of an earlier version in the words of this one, with its comments, and what was changed.

    >>> old = '''dataset = {name = "census", neighbours = "change one"}
    ... budget = {epsilon = "1"}
    ... tables.people = {source = "people.csv", unit = "id", groups = 2, columns.id = {type = "text"}}
    ... '''
    >>> new, changes = upgraded(old)
    >>> print(*changes, sep="\\n")
    neighbours is called neighbors
    groups is called max_groups_per_unit
    everyone = "all" states what was silent: any name may spend the whole budget; a cap each would be safer
    >>> parse_policy(new).catalog.table("people").groups
    2
    """
    changes = []
    for old, new in _RENAMED.items():
        value = "" if old == "neighbours" else r"\s*\d"  # a column may be called `rows`; its value is no number
        text, count = re.subn(rf"(?m)(^|[{{,.\s]){old}(?=\s*={value})", rf"\g<1>{new}", text)
        changes += [f"{old} is called {new}"] * bool(count)
    budget = _table(tomllib.loads(text, parse_float=str).get("budget", {}), "[budget]")
    if not budget.keys() & {"analysts", "everyone"}:
        silent = f'everyone = "{EVERYTHING}"'
        text, count = re.subn(r"(?m)^(\s*\[budget\][^\n]*\n)", rf"\1{silent}\n", text, count=1)
        if not count:
            text, count = re.subn(r"(?m)^(\s*budget\s*=\s*\{)", rf"\1{silent}, ", text, count=1)
        words = "states what was silent: any name may spend the whole budget; a cap each would be safer"
        changes += [f"{silent} {words}"] * bool(count)
    return text, changes


def explain(policy: Policy) -> str:
    """What a policy means, in words, for the owner to read once more before opening the doors."""
    catalog, budget = policy.catalog, policy.budget
    change = {
        Neighbors.ADD_OR_REMOVE_ONE: "whether somebody is in the data at all",
        Neighbors.CHANGE_ONE: "the data of any one of them (but not that they are in it)",
    }[catalog.neighbors]
    lines = [f"Dataset {catalog.name}: everything ever released hides {change}, at {budget.describe_limit()} in all."]
    if budget.delta:
        lines.append(f"Of δ, {text_down(budget.delta_for_keys, 3)} is for naming groups that come from the data.")
    else:
        lines.append("There is no δ: groups can only be named if their values are declared, and noise is Laplace-like.")
    lines += [f"No question costs less than ε {plain(policy.least_epsilon)}.", timing(policy)]
    if policy.default_epsilon is not None:
        lines.append(f"A question that states neither ε nor an error costs ε {plain(policy.default_epsilon)}.")
    lines += [*caps_in_words(policy), *_record_in_words(policy), *_engine_in_words(policy)]
    for table in catalog.tables.values():
        protects = f"private; protects {table.unit}" if table.private else "public: anyone may read its rows"
        lines.append(f"Table {table.name} ({policy.sources[table.name]}): {protects}.")
        if table.name in policy.formats:
            lines.append(f"  Read as {policy.formats[table.name].describe()}: {RULE}.")
        if table.unit is not None and table.unit.key is not None:
            lines.append(f"  A person counts {_share(table)}.")
        for column in table.columns:
            lines.append(f"  {column.describe()}" + _consequence(table, column, policy.references))
    return "\n".join(lines)


def caps_in_words(policy: Policy) -> list[str]:
    """Who may spend how much of the budget, a sentence for each rule.

    >>> caps_in_words(parse_policy('''
    ... dataset = {name = "census", neighbors = "change one"}
    ... budget = {epsilon = "1", everyone.epsilon = "0.5"}
    ... tables.people = {source = "people.csv", unit = "row", columns.age = {type = "integer"}}
    ... '''))
    ['Each analyst who is not named may spend at most ε 0.5, δ 0 of it.']
    """
    said = [f"Analyst {name} may spend at most {cap.describe_limit()} of it." for name, cap in policy.caps.items()]
    if policy.everyone is not None:
        said.append(f"Each analyst who is not named may spend at most {policy.everyone.describe_limit()} of it.")
    elif policy.caps:
        said.append("Analysts who are not named are refused.")
    else:
        said.append("Nobody is capped (everyone = 'all'): any name may spend all of it.")
    return said


def _engine_in_words(policy: Policy) -> list[str]:
    if policy.engine == ENGINES[0]:
        return []
    state = f"version {policy.version!r}" if policy.version else "no version"
    return [
        f"Tables are in {policy.engine} at {shown_address(policy.address or '')}, which adds up there. The policy "
        f"states {state} of the data: the same question is answered again, free, until another version is stated."
    ]


def _record_in_words(policy: Policy) -> list[str]:
    said = ["An answer that one analyst paid for is free for all others."] if policy.share_answers else []
    if policy.witness == ():
        said.append("There is no witness: removing the ledger, or restoring an old copy of it, goes unnoticed.")
    return said


def timing(policy: Policy) -> str:
    """What a policy says of when answers leave, in words."""
    if not policy.time_floor:
        return "Answers leave as soon as they are ready (time_floor = 0): response times can reveal individuals."
    return (
        f"Answers leave on a time grid that starts at {plain(policy.time_floor)} seconds, so that response times "
        "reveal next to nothing about a person with few rows."
    )


def _share(table: Table) -> str:
    def most(bound: int | None, what: str) -> str:
        return f"at most {bound} {what}{'s' * (bound > 1)}" if bound else f"as many {what}s as a question states"

    return f"in {most(table.groups, 'group')} of one answer, with {most(table.rows, 'row')} in each"


def _consequence(table: Table, column: Column, references: Mapping[tuple[str, str], str]) -> str:
    if not table.private or (table.unit is not None and column.name == table.unit.key):
        return ""
    can = []
    if column.bounded:
        can.append("can be summed and averaged")
    if column.earliest is not None:
        can.append("groups by day, week, month or year cost nothing extra")
    if column.values is not None:
        can.append("groups by its declared values cost nothing extra")
    if (table.name, column.name) in references:
        can.append(f"groups by the values of {references[table.name, column.name]} cost nothing extra")
    return f" ({'; '.join(can)})" if can else " (can be counted and filtered; no sums, no free groups)"


def _read_table(name: str, entry: Any) -> Table:
    where = f"[tables.{name}]"
    fields = _fields(entry, where, required=("source", "unit", "columns"), optional=(*BOUNDS, "csv"))
    if not isinstance(fields["source"], str) or not fields["source"]:
        raise InvalidParameter(
            f"{where} source", fields["source"], 'the path of a file, database.duckdb#table, or "python"'
        )
    if "csv" in fields and not _is_csv(fields["source"]):
        raise InvalidParameter(f"{where} csv", f"a source {fields['source']!r}", "a source that ends in .csv")
    columns = [
        _read_column(where, column, spec) for column, spec in _table(fields["columns"], f"{where} columns").items()
    ]
    unit, link = _read_unit(fields["unit"], where)
    groups, rows = (fields.get(bound) for bound in BOUNDS)
    return Table(name, columns, unit=unit, groups=groups, rows=rows, link=link)


def _is_csv(source: str) -> bool:
    return source.lower().endswith(".csv")


def _read_format(name: str, entry: Any) -> CsvFormat:
    where = f"[tables.{name}.csv]"
    fields = _fields(entry, where, required=(), optional=("delimiter", "encoding", "decimal", "date_format"))
    try:
        return CsvFormat(**fields)
    except InvalidParameter as error:
        raise InvalidParameter(f"{where} {error.name}", fields[error.name], error.expected, error.hint) from None


def _read_unit(value: Any, where: str) -> tuple[Unit | None, Link | None]:
    """The unit of a table: a column, "row", "public", or "orders.customer via order_id [= id]" for a chain of keys."""
    if not isinstance(value, str) or not value:
        expected = "the column that identifies a person, 'row', 'public', or 'orders.customer via order_id'"
        raise InvalidParameter(f"{where} unit", value, expected)
    end, via, keys = value.partition(" via ")
    if not via:
        return {"public": None, "row": Unit()}.get(value, Unit(value)), None
    own, _, key = (part.strip() for part in keys.partition("="))
    return Unit(end.strip()), Link(own, table=end.strip().partition(".")[0], key=key or own)


def _linked(tables: list[Table]) -> list[Table]:
    """The tables with the unit at the end of each chain of keys, so that a link may name the next table alone."""
    by_name = {table.name.casefold(): table for table in tables}

    def end(table: Table) -> Table:
        for _ in tables:
            if table.link is None or table.link.table.casefold() not in by_name:
                return table
            table = by_name[table.link.table.casefold()]
        return table

    def linked(table: Table) -> Table:
        last = end(table)
        if table.link is None or last.link is not None or last.unit is None or last.unit.key is None:
            return table
        unit = Unit(f"{last.name}.{last.unit.key}")
        stated = table.unit.key.casefold() if table.unit is not None and table.unit.key is not None else ""
        following = by_name[table.link.table.casefold()]
        allowed = {unit.key.casefold() if unit.key else "", following.name.casefold()}
        if following.unit is not None and following.unit.key is not None:
            allowed.add(f"{following.name}.{following.unit.key}".casefold())
        if stated not in allowed:
            raise InvalidParameter(f"[tables.{table.name}] unit", stated, f"{unit.key} via {table.link.column}")
        return Table(table.name, table.columns, unit=unit, link=table.link, groups=table.groups, rows=table.rows)

    return [linked(table) for table in tables]


def _read_column(where: str, name: str, spec: Any) -> Column:
    fields = _fields(spec, f"{where} columns.{name}", required=("type",), optional=_COLUMN_FIELDS[1:])
    if isinstance(fields.get("values"), str):
        fields.pop("values")  # of a public column (`_references`)
    return Column(name, fields.pop("type"), **fields)


def _references(tables: Mapping[str, Any], catalog: Catalog) -> dict[tuple[str, str], str]:
    """Which columns have the values of a public column."""
    stated = {
        (table, column): spec["values"]
        for table, entry in tables.items()
        for column, spec in entry["columns"].items()
        if isinstance(spec.get("values"), str)
    }
    check_references(catalog, stated)
    return stated


def _read_cap(place: str, entry: Any) -> Budget:
    return Budget(**_fields(entry, f"[budget.{place}]", required=("epsilon",), optional=("delta", "delta_for_keys")))


def _read_everyone(stated: Any, budget: Budget, named: Mapping[str, Budget]) -> Budget | None:
    """The cap of each analyst who is not named; None where they are refused, or where nobody is capped at all."""
    if stated is None and not named:
        expected = "who may ask: [budget.analysts.NAME] or [budget.everyone], each with an epsilon"
        hint = f"everyone = {EVERYTHING!r}: any name may spend all of it, as without caps before; {_UPGRADE}"
        raise InvalidParameter("[budget]", "no analysts and no everyone", expected, hint)
    if stated == EVERYTHING:
        return budget if named else None
    return None if stated is None else _read_cap("everyone", stated)


def _read_default(given: Any, least: Fraction, budget: Budget) -> Fraction:
    return rational(given, "[budget] default_epsilon", above=0, at_least=least, at_most=budget.epsilon)


def _read_least(given: Any, budget: Budget) -> Fraction:
    """The least ε of a question: 0.001, or a thousandth of a small budget, unless the owner says otherwise."""
    if given is None:
        return min(_LEAST_EPSILON, budget.epsilon / 1000)
    return rational(given, "[budget] least_epsilon", at_least=0, at_most=budget.epsilon)


def _read_text(dataset: Mapping[str, Any], name: str, expected: str) -> str | None:
    value = dataset.get(name)
    if value is not None and (not isinstance(value, str) or not value.strip()):
        raise InvalidParameter(f"[dataset] {name}", value, expected)
    return value


def _read_engine(dataset: Mapping[str, Any]) -> dict[str, Any]:
    """Which engine, at which address, of which version of the data; a secret in the address is refused."""
    name = dataset.get("engine", ENGINES[0])
    if name not in ENGINES:
        raise InvalidParameter("[dataset] engine", name, f"one of {', '.join(ENGINES)}")
    stated = [key for key in _SERVER_FIELDS if key in dataset]
    if name == ENGINES[0]:
        if stated:
            hint = 'engine = "postgres" or "spark" has them'
            raise InvalidParameter(
                f"[dataset] {stated[0]}", "a policy without a server", "an engine of that kind", hint
            )
        return {}
    address = _read_text(dataset, "address", "the address of the server")
    if address is None:
        raise InvalidParameter("[dataset] address", None, "the address of the server, without a password")
    if name == "postgres":
        postgres_address(address)
    else:
        refuse_secrets(address)
    timeout = dataset.get("statement_timeout")
    return {
        "engine": name,
        "address": address,
        "version": _read_text(dataset, "version", "a text that names the data as they are now"),
        "statement_timeout": None
        if timeout is None
        else rational(timeout, "[dataset] statement_timeout", above=0, at_most=86400),
    }


def _read_sharing(dataset: Mapping[str, Any]) -> bool:
    value = dataset.get("share_answers", False)
    if not isinstance(value, bool):
        raise InvalidParameter("[dataset] share_answers", value, "true or false")
    return value


def _read_witness(dataset: Mapping[str, Any]) -> tuple[str, ...] | None:
    """The folders of the witness: None where the policy leaves it open, none at all where it wants none."""
    value = dataset.get("witness")
    places = [value] if isinstance(value, str) else value
    if places is None:
        return None
    fits = isinstance(places, list) and places and all(isinstance(place, str) and place.strip() for place in places)
    if not fits or (NO_WITNESS in places and len(places) > 1):
        raise InvalidParameter("[dataset] witness", value, f"the path of a folder, a list of them, or {NO_WITNESS!r}")
    return () if places == [NO_WITNESS] else tuple(places)


def _fields(value: Any, where: str, *, required: tuple[str, ...], optional: tuple[str, ...] = ()) -> dict[str, Any]:
    """A TOML table with exactly the fields that are known."""
    table = dict(_table(value, where))
    missing = [name for name in required if name not in table]
    unknown = [name for name in table if name not in (*required, *optional)]
    if missing or unknown:
        got = ", ".join([f"no {name!r}" for name in missing] + [f"an unknown {name!r}" for name in unknown])
        old = [f"{name!r} is called {_RENAMED[name]!r} now" for name in unknown if name in _RENAMED]
        hint = "; ".join([*old, _UPGRADE]) if old else ""
        raise InvalidParameter(where, got, f"the fields {', '.join((*required, *optional))}", hint)
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
