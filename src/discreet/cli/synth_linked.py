"""`discreet synth` with several tables: synthetic tables of the same people, made and charged together."""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from discreet.cli.show import explained, facts
from discreet.requests import LinkedSynthesis

if TYPE_CHECKING:
    from discreet.curator.catalog import Table
    from discreet.dataset import Dataset
    from discreet.synthetic.linked_tables import LinkedTables
    from discreet.synthetic.quality import LostRows

RowsEach = tuple[str | None, int]
"""How many rows of a person are used: of a table, or of the only one."""

_ALONE = ("discover", "target", "rows", "adaptive", "controls", "rules")
_SPLIT = ("columns", "exclude", "bins", "values", "at_most", "never", "rows_per_person")


def make(
    data: "Dataset",
    tables: Sequence[str],
    options: Mapping[str, Any],
    *,
    out: str | None,
    form: str,
    report: str | None,
    owner_report: str | None,
    explain: bool,
    as_json: bool,
) -> None:
    """Say what it would cost and do; then, unless that was all, make the tables and write them into a folder."""
    from discreet.synthetic.linked_tables import files

    _refuse(options)
    said = by_table([data.catalog.table(name) for name in tables], options)
    terms = {name: options[name] for name in ("epsilon", "delta", "people") if name in options}
    plan = data.plan(LinkedSynthesis(tables=said, **terms))
    if not explain:
        _check_paths(str(out), files(plan, str(out), form=form).values(), report, owner_report)
    if explain:
        explained(plan.explain(), as_json=as_json)
        return
    click.echo(plan.explain(), err=True)
    made = data.release(plan)
    with _progress_bar(plan.settings.iterations) as progress:
        made.fit(progress)
    made.save(str(out), form=form)
    if report is not None:
        made.page().save(report)
    if owner_report is not None:
        _owner_page(data, made, owner_report)
    _print(made, str(out), as_json=as_json)


def _refuse(options: Mapping[str, Any]) -> None:
    """Say which options are for one table alone."""
    said = [f"--{name}" for name in _ALONE if options.get(name)]
    if options.get("model") == "graphical":
        said.append("--model graphical")
    if said:
        raise click.UsageError(f"{', '.join(said)}: for one table alone, not for several of the same people")


def lost(found: "Sequence[LostRows]", *, as_json: bool) -> Any:
    """What was lost, for printing: rows left out first, then values that count as missing."""
    if as_json:
        return [
            {"column": each.column, "rows": each.rows, "interval": list(each.interval), "left_out": each.left_out}
            for each in found
        ]
    return "; ".join(map(str, found)) if found else "nothing: every value has a code"


def _print(made: "LinkedTables", out: str, *, as_json: bool) -> None:
    rows = {name: table.num_rows for name, table in made.tables.items()}
    printed: dict[str, Any] = {"rows": rows} if as_json else {f"rows of {name}": many for name, many in rows.items()}
    missed = {name: lost(result, as_json=as_json) for name, result in made.lost().items()}
    printed |= {"lost": missed} if as_json else {f"lost of {name}": result for name, result in missed.items()}
    facts({"folder": out, **printed, "cost": str(made.receipt)}, as_json=as_json)


# What is said of which table


def by_table(tables: "Sequence[Table]", options: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What is said of each table, from options that name columns as table.column, or alone if one table has them.

    >>> from discreet.curator.catalog import Column, Table
    >>> from discreet.privacy.unit import Unit
    >>> who, age = Column("who", "integer"), Column("age", "integer", lower=0, upper=99)
    >>> both = [Table("people", [who, age], unit=Unit("who")), Table("visits", [who], unit=Unit("who"))]
    >>> by_table(both, {"bins": {"people.age": 10}, "rows_per_person": [("visits", 3)]})
    {'people': {'bins': {'age': 10}}, 'visits': {'rows_per_person': 3}}
    """
    twice = [name for name, many in Counter(table.name for table in tables).items() if many > 1]
    if twice:
        raise click.UsageError(f"--table {twice[0]}: name each table once")
    said: dict[str, dict[str, Any]] = {table.name: {} for table in tables}
    for option in _SPLIT:
        for table, value in _SORTED[option](tables, options.get(option) or ()):
            given = said[table].setdefault(option, {} if option in ("bins", "values") else [])
            if option == "rows_per_person":
                said[table][option] = _once(value, f"--rows-per-person {table}=…", given)
            elif isinstance(given, dict):
                column, what = value
                given[column] = _once(what, f"--{option} {table}.{column}=…", given.get(column))
            else:
                given.append(value)
    return said


def _once(value: Any, option: str, before: Any) -> Any:
    if before:
        raise click.UsageError(f"{option}: state it once")
    return value


def _columns(tables: "Sequence[Table]", names: Iterable[str]) -> Iterator[tuple[str, Any]]:
    yield from (_place(tables, name) for name in names)


def _mapped(tables: "Sequence[Table]", given: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in dict(given).items():
        table, column = _place(tables, name)
        yield table, (column, value)


def _at_most(tables: "Sequence[Table]", rules: Iterable[str]) -> Iterator[tuple[str, Any]]:
    from discreet.synthetic.columns.rules import AtMost

    for text in rules:
        rule = AtMost.read(text)
        table, (first, second) = _one_table(tables, [rule.first, rule.second], f"--at-most {text!r}")
        yield table, f"{first} <= {second}"


def _never(tables: "Sequence[Table]", rules: Iterable[str]) -> Iterator[tuple[str, Any]]:
    from discreet.synthetic.columns.rules import Never

    for text in rules:
        rule = Never.read(text)
        table, columns = _one_table(tables, [name for name, _ in rule.values], f"--never {text!r}")
        yield table, dict(zip(columns, (value for _, value in rule.values), strict=True))


def _rows_each(tables: "Sequence[Table]", given: Iterable[RowsEach]) -> Iterator[tuple[str, Any]]:
    names = {table.name.casefold(): table.name for table in tables}
    for table, most in given:
        if table is None:
            raise click.UsageError(f"--rows-per-person {most}: of which table? write {tables[-1].name}={most}")
        if table.casefold() not in names:
            raise click.UsageError(f"--rows-per-person {table}={most}: expected one of {', '.join(names.values())}")
        yield names[table.casefold()], most


_SORTED: dict[str, Callable[..., Iterator[tuple[str, Any]]]] = {
    "columns": _columns,
    "exclude": _columns,
    "bins": _mapped,
    "values": _mapped,
    "at_most": _at_most,
    "never": _never,
    "rows_per_person": _rows_each,
}


def _one_table(tables: "Sequence[Table]", names: Sequence[str], rule: str) -> tuple[str, list[str]]:
    """The table that all these columns are of."""
    places = [_place(tables, name) for name in names]
    results = sorted({table for table, _ in places})
    if len(results) > 1:
        raise click.UsageError(f"{rule}: a rule is about the rows of one table, not of {' and '.join(results)}")
    return results[0], [column for _, column in places]


def _place(tables: "Sequence[Table]", name: str) -> tuple[str, str]:
    """The table and the column that a name means."""
    results = [
        (table.name, column.name)
        for table in tables
        for column in table.columns
        if name.casefold() in (column.name.casefold(), f"{table.name}.{column.name}".casefold())
    ]
    if not results:
        listed = ", ".join(table.name for table in tables)
        raise click.UsageError(f"{name}: no column of {listed} has this name; write table.column")
    if len(results) > 1:
        either = " or ".join(f"{table}.{column}" for table, column in results)
        raise click.UsageError(f"{name}: more than one table has this column; write {either}")
    return results[0]


# Files


def _check_paths(folder: str, tables: Iterable[Path], *reports: str | None) -> None:
    """Refuse, before anything is spent, names that cannot be written."""
    where, pages = Path(folder), [Path(path) for path in reports if path is not None]
    if where.exists() and not where.is_dir():
        raise click.ClickException(f"{folder} is no folder; several tables need one")
    for path in (*tables, *pages):
        if path.exists():
            raise click.ClickException(f"{path} exists already; choose another name")
    for path in (where, *pages):
        parent = path.resolve().parent
        if parent != where.resolve() and not parent.is_dir():
            raise click.ClickException(f"{path}: there is no such folder")
    if len({path.resolve() for path in (where, *tables, *pages)}) < 1 + len(list(tables)) + len(pages):
        raise click.ClickException("two of the files would have one name; choose another for the report")


def _owner_page(data: "Dataset", made: "LinkedTables", path: str) -> None:
    """Compare with the real rows. They are read past the gate, for whoever can read the owner's files anyway."""
    from discreet.curator.owner.exact_view import owner_engine

    with owner_engine(data.policy) as engine:
        real = made.plan.read(engine)
    made.quality_page(real).save(path)
    click.echo(f"wrote {path}: it compares with real rows; do not publish it", err=True)


@contextmanager
def _progress_bar(most: int) -> Iterator[Callable[[str, int, float], None]]:
    """A bar for each table on a terminal, nothing elsewhere."""
    with ExitStack() as stack:
        bars: dict[str, Any] = {}

        def show_progress(name: str, step: int, misfit: float) -> None:
            if name not in bars:
                _end(bars)
                stack.close()  # the bar before this one
                bar = click.progressbar(length=most, label=f"fitting {name}", file=sys.stderr)
                bars[name] = stack.enter_context(bar)
            bars[name].update(step - bars[name].pos)

        yield show_progress
        _end(bars)


def _end(bars: Mapping[str, Any]) -> None:
    """Take the last bar to its end: it is done, however few steps it took."""
    for bar in list(bars.values())[-1:]:
        bar.update(bar.length - bar.pos)
