"""`discreet synth`: synthetic tables that look like private ones, charged to the budget."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from discreet.cli import synth_linked
from discreet.cli.show import connected, dataset_argument, explained, facts, is_url, job_done, json_option
from discreet.cli.synth_linked import RowsEach
from discreet.requests import Synthesis

if TYPE_CHECKING:
    from discreet.client.remote import RemoteDataset
    from discreet.dataset import Dataset
    from discreet.synthetic.plan import SynthesisPlan
    from discreet.synthetic.result import SyntheticTable

_OUT = click.Path(dir_okay=False, writable=True)
_IN = click.Path(exists=True, dir_okay=False)
_FOLDER = click.Path(writable=True)
_FORMS = click.Choice(["csv", "parquet"])
_BINS_HELP = "age=10, or age=0,18,65,120, or bounds: born=1950-01-01..2024-12-31."


def _names(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...] | None:
    return tuple(name.strip() for text in given for name in text.split(",") if name.strip()) if given else None


def _rows_each(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> list[RowsEach]:
    results: list[RowsEach] = []
    for text in given:
        table, sign, most = text.rpartition("=")
        if not most.strip().isdecimal() or int(most) < 1 or (sign and not table.strip()):
            raise click.BadParameter(f"{text!r}: write 3, or with several tables visits=3")
        results.append((table.strip() or None, int(most)))
    return results


def _values(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> dict[str, list[str]]:
    results = {}
    for text in given:
        name, sign, values = text.partition("=")
        if not sign or not name.strip():
            raise click.BadParameter(f"{text!r}: write ward=north,south")
        results[name.strip()] = [value.strip() for value in values.split(",")]
    return results


def _bins(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> dict[str, Any]:
    results: dict[str, Any] = {}
    for text in given:
        name, sign, bins = text.partition("=")
        if not sign or not bins.strip():
            raise click.BadParameter(f"{text!r}: write age=10, age=0,18,65,120, or born=1950-01-01..2024-12-31")
        parts = [part.strip() for part in bins.split(",")]
        if len(parts) > 1:
            results[name.strip()] = parts
        else:
            results[name.strip()] = int(parts[0]) if parts[0].isdigit() else parts[0]
    return results


@click.command()
@dataset_argument
@click.option("--table", "tables", multiple=True, help="The private table, if there are several; may be repeated.")
@click.option("--epsilon", required=True, metavar="ε", help="What the tables may cost in total.")
@click.option("--delta", metavar="δ", help="By default the δ of the budget.")
@click.option(
    "--columns", multiple=True, callback=_names, help="Columns to synthesize: a,b,c; by default all but the key."
)
@click.option("--exclude", multiple=True, callback=_names, help="Columns not to synthesize.")
@click.option("--bins", multiple=True, callback=_bins, metavar="COLUMN=BINS", help=_BINS_HELP)
@click.option("--values", multiple=True, callback=_values, metavar="COLUMN=A,B,…", help="The values of a text column.")
@click.option("--discover", multiple=True, callback=_names, help="Text columns whose values are selected privately.")
@click.option("--at-most", multiple=True, metavar="A<=B", help="In every row, A is at most B.")
@click.option("--never", multiple=True, metavar="A=x,B=y", help="Values that never occur together.")
@click.option(
    "--rule",
    "sentences",
    multiple=True,
    metavar="RULE",
    help="county decides state; when age=0|1 then married=no; a <= b; never a=x, b=y.",
)
@click.option("--rules", "rule_files", multiple=True, type=_IN, help="A file with such rules, one a line.")
@click.option("--target", help="A column that models will predict; it is measured more closely.")
@click.option(
    "--rows-per-person",
    multiple=True,
    callback=_rows_each,
    metavar="[TABLE=]N",
    help="The most rows of a person; by default 1.",
)
@click.option(
    "--people", type=click.IntRange(min=1), help="Roughly how many people there are, to warn if ε is too small."
)
@click.option(
    "--rows", type=click.IntRange(min=1), help="How many rows to write; by default about as many as there are."
)
@click.option(
    "--adaptive",
    type=click.IntRange(min=1),
    metavar="ROUNDS",
    help="Also choose triples of columns privately, in this many rounds.",
)
@click.option(
    "--model",
    type=click.Choice(["relaxed", "graphical"]),
    default="relaxed",
    show_default=True,
    help="The model that is fitted.",
)
@click.option(
    "-o",
    "--output",
    "out",
    type=_FOLDER,
    help="Write the table to this .parquet or .csv file, or several to this folder.",
)
@click.option("--format", "form", type=_FORMS, help="The format of several tables; by default parquet.")
@click.option("--report", type=_OUT, help="Write a page that is based on noisy numbers alone and may be published.")
@click.option("--owner-report", type=_OUT, help="Write a page that compares with the real rows; for the owner only.")
@click.option(
    "--controls",
    type=click.Path(exists=True, dir_okay=False),
    help="People not in the data, as the control group of attacks.",
)
@click.option("--explain", is_flag=True, help="Show what it would cost and do, and stop.")
@click.option("--analyst", help="Who is charged; by default the name of the user.")
@json_option
def synth(
    policy: str,
    tables: tuple[str, ...],
    out: str | None,
    form: str | None,
    report: str | None,
    owner_report: str | None,
    controls: str | None,
    explain: bool,
    analyst: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Make a synthetic table with the columns of a private table of POLICY.

    With the URL of a server and a token in DISCREET_TOKEN, the server makes it and this command waits; for one table.

    It is made from noisy counts of all columns and pairs of columns. Only columns with declared values, bounds or bins
    can be used. What --output and --report write is differentially private and safe to publish.

    Repeat --table for tables of the same people; each synthetic person then has rows in all of them. The first table
    with one row for each person defines the people; state --rows-per-person visits=4 for the others. Name a column
    visits.ward, or ward if only one table has it. The tables are written to a folder, as NAME.parquet or (--format)
    NAME.csv. --discover, --target, --rows, --adaptive, --model graphical and --controls work with one table only.
    """
    import discreet

    several = len(tables) > 1
    if not explain and out is None:
        raise click.UsageError(
            f"state where to write: -o {'FOLDER' if several else 'TABLE.parquet'}; "
            "or add --explain to see what it would cost"
        )
    if not several:
        _check_paths(out, form, report, owner_report)
    options = {name: value for name, value in options.items() if value is not None}
    options["rules"] = _rules(options.pop("sentences"), options.pop("rule_files"))
    if is_url(policy):
        local = {"analyst": analyst, "explain": explain, "owner_report": owner_report, "controls": controls}
        _make_far(policy, tables, options, out=str(out), report=report, as_json=as_json, **local)
        return
    with discreet.open(policy, analyst=analyst) as data:
        where: dict[str, Any] = {"out": out, "report": report, "owner_report": owner_report}
        printed: dict[str, Any] = {"explain": explain, "as_json": as_json}
        if several:
            options["controls"] = controls
            synth_linked.make(data, tables, options, form=form or "parquet", **where, **printed)
        else:
            _make(data, tables[0] if tables else _only(data), options, controls=controls, **where, **printed)


def _rules(sentences: tuple[str, ...], paths: tuple[str, ...]) -> list[str]:
    from discreet.synthetic.columns.rules import rules_in

    return [*sentences, *(rule for path in paths for rule in rules_in(Path(path).read_text(encoding="utf-8")))]


def _make(
    data: "Dataset",
    table: str,
    options: dict[str, Any],
    *,
    out: str | None,
    report: str | None,
    owner_report: str | None,
    controls: str | None,
    explain: bool,
    as_json: bool,
) -> None:
    """One table."""
    plan = data.plan(Synthesis(table=table, **options | {"rows_per_person": _most(options["rows_per_person"], table)}))
    if explain:
        explained(plan.explain(), as_json=as_json)
        return
    click.echo(plan.explain(), err=True)
    made = data.release(plan)
    with _progress_bar(plan.settings.iterations) as progress:
        made.fit(progress)
    made.save(str(out))
    if report is not None:
        made.page().save(report)
    if owner_report is not None:
        _owner_page(data, plan, made, owner_report, options.get("target"), controls)
    lost = synth_linked.lost(made.lost(), as_json=as_json)
    printed: dict[str, Any] = {"table": out, "rows": len(made.codes)}
    if made.found:
        many = {name: len(values) for name, values in made.found.items()}
        printed["found"] = many if as_json else ", ".join(f"{count} values of {name}" for name, count in many.items())
    facts(printed | {"lost": lost, "cost": str(made.receipt)}, as_json=as_json)


def _make_far(
    url: str,
    tables: tuple[str, ...],
    options: dict[str, Any],
    *,
    out: str,
    report: str | None,
    as_json: bool,
    **local: Any,
) -> None:
    """One table, made by a server."""
    if len(tables) > 1:
        raise click.UsageError("several --table go with a policy file, not with a server")
    with connected(url, **local) as data:
        table = tables[0] if tables else _only(data)
    request = Synthesis(table=table, **options | {"rows_per_person": _most(options["rows_per_person"], table)})
    form = "text/csv" if Path(out).suffix.lower() == ".csv" else "application/vnd.apache.parquet"
    job = job_done(url, request, {out: form} | ({} if report is None else {report: "text/html"}))
    facts({"table": out, "cost": str(job.receipt)}, as_json=as_json)


def _most(said: list[RowsEach], table: str) -> int:
    """The most rows of a person, where there is one table."""
    other = [name for name, _ in said if name is not None and name.casefold() != table.casefold()]
    if other:
        raise click.UsageError(f"--rows-per-person {other[0]}=…: the only table is {table}; add --table {other[0]}")
    if len(said) > 1:
        raise click.UsageError("--rows-per-person: state it once")
    return said[0][1] if said else 1


def _check_paths(out: str | None, form: str | None, *reports: str | None) -> None:
    """Refuse, before anything is spent, names that cannot be written."""
    if form is not None:
        raise click.UsageError("--format is for several tables; for one, the name after -o decides: .csv or .parquet")
    if out is not None and Path(out).suffix.lower() not in (".parquet", ".pq", ".csv"):
        raise click.ClickException(f"{out}: expected a name that ends in .parquet or .csv")
    for path in (out, *reports):
        if path is not None and Path(path).exists():
            raise click.ClickException(f"{path} exists already; choose another name")
        if path is not None and not Path(path).resolve().parent.is_dir():
            raise click.ClickException(f"{path}: there is no such folder")


def _only(data: "Dataset | RemoteDataset") -> str:
    """The name of the only private table."""
    private = [table.name for table in data.catalog.tables.values() if table.private]
    if len(private) != 1:
        raise click.UsageError(f"state the table: --table with one of {', '.join(private)}")
    return private[0]


def _owner_page(
    data: "Dataset", plan: "SynthesisPlan", made: "SyntheticTable", path: str, target: str | None, controls: str | None
) -> None:
    """Compare with the real rows. They are read past the gate, for whoever can read the owner's files anyway."""
    from discreet.curator.contribution_draw import rows_each
    from discreet.curator.engines.dialects import dialect_of
    from discreet.curator.owner.exact_view import owner_engine, read_columns
    from discreet.synthetic.result import Quality

    with owner_engine(data.policy) as engine:
        rows = engine.fetch(rows_each(plan.table, plan.columns, dialect_of(engine.dialect), most=plan.rows_each))
    real, _ = made.schema.encode(rows)
    parts = None
    if controls is not None:
        others = read_columns(controls, plan.columns, like=plan.table.name, policy=data.policy)
        parts = _attacks(made, rows, others)
    Quality(made.schema, real, made.codes).page(target=target, attacks=parts).save(path)
    click.echo(f"wrote {path}: it compares with real rows; do not publish it", err=True)


def _attacks(made: "SyntheticTable", people: Any, controls: Any) -> list[Any]:
    """What an attacker gains from the table: singling out, and inferring each of a few columns from the others."""
    from discreet.attacks.tables.inference import Inference
    from discreet.attacks.tables.singling_out import SinglingOut
    from discreet.report import Grid, Heading

    names = list(made.schema.names)
    given: dict[str, Any] = {"released": made.table.select(names), "people": people, "controls": controls}
    width = min(3, len(names))
    reports = [SinglingOut(**given, columns=names, width=width, against="the synthetic table").run()]
    for secret in names[-3:]:
        known = [name for name in names if name != secret][:6]
        if known and made.schema.attributes[made.schema.place(secret)].values is not None:
            reports.append(Inference(**given, known=known, secret=secret, against="the synthetic table").run())
    rows = [
        [
            report.attack,
            report.goal,
            f"{report.success.value:.3f}",
            f"{report.control.value:.3f}" if report.control else "",
            report.verdict,
        ]
        for report in reports
    ]
    return [Heading("What an attacker gains"), Grid(["attack", "goal", "success", "on others", "verdict"], rows)]


@contextmanager
def _progress_bar(most: int) -> Iterator[Callable[[int, float], None]]:
    """A bar on a terminal, nothing elsewhere."""
    with click.progressbar(length=most, label="fitting", file=sys.stderr) as bar:

        def show_progress(step: int, misfit: float) -> None:
            bar.update(step - bar.pos)

        yield show_progress
        bar.update(most - bar.pos)  # it is done, however few steps it took
