"""The main job: a hospital puts its tables behind a curator, analysts ask, the budget runs out, attackers fail.

Run it with `make demo`. It makes the data (once), asks a dozen questions and prints each answer beside the truth, goes
on until the curator refuses, mounts two attacks, and leaves demo-out/hospital/report.html.

The truth is computed here with a plain DuckDB, as the owner can and nobody else should: it is there to compare with.
"""

import argparse
import hashlib
import json
import math
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
from generate import REGIONS, generate
from pictures import short
from questions import BEYOND_THE_CAP, PATIENTS, PEOPLE_WITH, QUESTIONS, ROWS, Question
from story import Asked, Point, Refused, Story

import discreet
from attacks import attack_by_averaging, attack_by_differencing
from discreet.curator.contribution_draw import salt_text
from discreet.curator.ledger import Ledger
from discreet.curator.policy import explain, read_policy
from discreet.curator.reports.statement_sections import privacy_statement
from discreet.curator.stores.sqlite import SqliteStore
from discreet.errors import BudgetExceeded, DiscreetError
from report import page

HERE = Path(__file__).parent
SEED = 2026
DRAWN = 20  # rows of an answer in its picture


def main(folder: Path, *, visits: int, trials: int) -> Path:
    """The whole demo; returns the path of the report."""
    start = time.perf_counter()
    rows = prepare(folder, visits)
    policy = read_policy(folder / "policy.toml")
    owner = plain_database(folder, rows)
    with discreet.open(folder / "policy.toml") as data:
        print("\nQuestions: released, with 95 % intervals for the noise; [the truth, for the owner's eyes only]")
        plan = str(data.explain(QUESTIONS[5].sql, **QUESTIONS[5].options))
        asked = [ask(data, owner, question) for question in QUESTIONS]
        refused = [refusal(data, question) for question in (ROWS, BEYOND_THE_CAP)]
        until_empty, empty = exhaust(data, owner)
        after = ask(data, owner, PATIENTS)
        spent = data.budget().spent
    averaging = attack_by_averaging()
    differencing = attack_by_differencing(trials)
    story = Story(
        tables=tuple((name, "public" if name == "regions" else "private", count) for name, count in rows.items()),
        policy=(folder / "policy.toml").read_text(encoding="utf-8"),
        words=explain(policy),
        epsilon=float(policy.budget.epsilon),
        spent=spent,
        plan=plan,
        asked=tuple(asked),
        until_empty=(*until_empty, after),
        refused=(*refused, empty),
        averaging=averaging,
        differencing=differencing,
        statement=statement(folder),
        further=FURTHER.format(folder=folder),
        seconds=time.perf_counter() - start,
    )
    target = folder / "report.html"
    target.write_text(page(story), encoding="utf-8")
    print_facts(story, target)
    return target


# The data


def prepare(folder: Path, visits: int) -> dict[str, int]:
    """The data, made if they are not there already; and no ledger, which made-up people allow.

    An owner of real data never starts anew: what was learned stays learned.
    """
    made = {"visits": visits, "seed": SEED, "by": hashlib.sha256((HERE / "generate.py").read_bytes()).hexdigest()}
    mark = folder / "generated.json"
    if (folder / "policy.toml").exists() and not mark.exists():
        raise SystemExit(f"{folder} holds a policy that this demo did not write; name another folder")
    for old in folder.glob("policy.ledger*"):
        old.unlink()
    shutil.rmtree(folder / "witness", ignore_errors=True)
    if mark.exists():
        kept = json.loads(mark.read_text())
        if {name: kept.get(name) for name in made} == made:
            print(f"The hospital is there already, in {folder}")
            return dict(kept["rows"])
    start = time.perf_counter()
    folder.mkdir(parents=True, exist_ok=True)
    mark.write_text("{}")  # ours, and not finished
    rows = generate(folder, visits=visits, seed=SEED)
    mark.write_text(json.dumps(made | {"rows": rows}))
    print(f"Made a hospital in {folder}: {rows}, {time.perf_counter() - start:.1f} s")
    return rows


def plain_database(folder: Path, tables: Iterable[str]) -> duckdb.DuckDBPyConnection:
    """The owner's own DuckDB: no curator, no noise, the truth."""
    owner = duckdb.connect()
    for name in tables:
        source = str(folder / f"{name}.parquet").replace("'", "''")
        owner.execute(f"CREATE VIEW {name} AS FROM '{source}'")
    return owner


# Questions


def ask(data: Any, owner: duckdb.DuckDBPyConnection, question: Question) -> Asked:
    """Ask the curator; then put the truth beside the answer."""
    start = time.perf_counter()
    answer = data.ask(question.sql, **question.options, analyst=question.analyst)
    seconds = time.perf_counter() - start
    truth = by_key(owner, question.truth or question.sql, question.keys)
    salt = salt_text(data._curator.ledger.salt(data.policy.catalog.name))  # which the owner alone can read
    bounded = by_key(owner, question.bounded, question.keys, salt) if question.bounded else {}
    released = answer.table.to_pylist()
    ends = {name: (low.to_pylist(), high.to_pylist()) for name, (low, high) in answer.intervals.items()}
    points = []
    for i, row in enumerate(released):
        if row[question.drawn] is None:  # a mean of nothing
            continue
        key = tuple(row[name] for name in question.keys)
        low, high = (end[i] for end in ends.get(question.drawn, ([None] * len(released),) * 2))
        points.append(
            Point(
                ", ".join("no value" if part is None else str(part) for part in key)
                or question.drawn.replace("_", " "),
                float(row[question.drawn]),
                None if low is None else float(low),
                None if high is None else float(high),
                real(truth.get(key, {}).get(question.drawn)),
                real(bounded.get(key, {}).get(question.drawn)),
            )
        )
    notes = list(answer.notes)
    unnamed = len(truth) - len(released)
    if unnamed > 0 and "delta" in question.options:
        notes.append(f"For the owner's eyes: {unnamed} of {len(truth)} groups were not named.")
    receipt = answer.receipt
    asked = Asked(
        question.title,
        question.remark,
        question.sql,
        question.asks,
        question.analyst,
        receipt.epsilon,
        receipt.delta,
        receipt.free,
        receipt.remaining,
        question.drawn.replace("_", " "),
        tuple(points[:DRAWN]),
        *cells(question.keys, released, ends, truth, bounded),
        tuple(notes),
        seconds,
    )
    print_answer(asked)
    return asked


def by_key(
    owner: duckdb.DuckDBPyConnection, sql: str, keys: Sequence[str], salt: str = ""
) -> dict[tuple[Any, ...], dict[str, Any]]:
    """The owner's rows, by their keys."""
    found = owner.sql(sql, params={"salt": salt} if salt else None).to_arrow_table().to_pylist()
    return {tuple(row[key] for key in keys): row for row in found}


def cells(
    keys: Sequence[str],
    released: Sequence[Mapping[str, Any]],
    ends: Mapping[str, tuple[list[Any], list[Any]]],
    truth: Mapping[tuple[Any, ...], Mapping[str, Any]],
    bounded: Mapping[tuple[Any, ...], Mapping[str, Any]],
) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """The header and the rows of the table in the report: everything as text."""
    values = [name for name in released[0] if name not in keys] if released else []
    header = list(keys)
    for name in values:
        header += [name.replace("_", " "), "interval", "truth"] + (["bounded truth"] if bounded else [])
    lines = []
    for i, row in enumerate(released):
        key = tuple(row[name] for name in keys)
        line = ["no value" if part is None else str(part) for part in key]
        for name in values:
            low, high = (end[i] for end in ends[name]) if name in ends else (None, None)
            line += [shown(row[name]), "" if low is None else f"{shown(low)} to {shown(high)}"]
            line.append(shown(truth.get(key, {}).get(name)))
            line += [shown(bounded.get(key, {}).get(name))] if bounded else []
        lines.append(tuple(line))
    return tuple(header), tuple(lines)


def real(value: Any) -> float | None:
    """A number that can be drawn, if it is one."""
    return None if value is None else float(value)


def shown(value: Any) -> str:
    """A cell as text."""
    return "" if value is None else short(float(value))


def refusal(data: Any, question: Question) -> Refused:
    """Ask what will be refused."""
    try:
        answer = data.ask(question.sql, **question.options, analyst=question.analyst)
    except DiscreetError as error:
        print(f"  {question.title}: refused. {error}")
        return Refused(question.sql, question.asks, question.analyst, str(error))
    raise SystemExit(f"the demo expected a refusal and got an answer: {answer.receipt}")


def exhaust(data: Any, owner: duckdb.DuckDBPyConnection) -> tuple[list[Asked], Refused]:
    """Region by region, in the end with all that is left, until the budget cannot pay even ε 0.01."""
    answered: list[Asked] = []
    for region in REGIONS:
        left = math.floor(data.budget().remaining * 1000) / 1000
        options = {"epsilon": min(0.3, left) or 0.01}
        sql = PEOPLE_WITH.format(region=region)
        question = Question(f"People with HIV in {region}", "", sql, options, "people", analyst="bob")
        try:
            answered.append(ask(data, owner, question))
        except BudgetExceeded as error:
            print(f"  {question.title}: refused. {error}")
            return answered, Refused(sql, question.asks, question.analyst, str(error))
    raise SystemExit("the demo expected the budget to run out, and it did not")


def statement(folder: Path) -> str:
    """What the owner may publish, from the policy and the ledger alone."""
    policy = read_policy(folder / "policy.toml")
    store = SqliteStore(folder / str(policy.ledger))
    try:
        return privacy_statement(policy, Ledger(store)).to_markdown()
    finally:
        store.close()


# What is printed


def print_answer(asked: Asked) -> None:
    """The first rows of an answer in the terminal."""
    paid = "free" if asked.free else f"ε {asked.epsilon:.3g}"
    print(f"  {asked.title} ({asked.analyst}, {paid}, {asked.remaining:.3g} left, {asked.seconds * 1000:.0f} ms)")
    for point in asked.points[:3]:
        interval = "" if point.low is None or point.high is None else f" ({short(point.low)} to {short(point.high)})"
        truth = "" if point.truth is None else f"  [{short(point.truth)}]"
        bounded = "" if point.bounded is None else f"  [{short(point.bounded)} after bounding]"
        print(f"    {point.label:<28} {short(point.released):>12}{interval}{truth}{bounded}")
    if len(asked.rows) > 3:
        print(f"    … and {len(asked.rows) - 3} more rows")


def print_facts(story: Story, target: Path) -> None:
    """What happened, in plain numbers."""
    everything = (*story.asked, *story.until_empty)
    judged = [point.covers for asked in story.asked for point in asked.points if point.covers is not None]
    print(
        f"\n{len(everything)} questions were answered, {sum(asked.free for asked in everything)} of them free; "
        f"{len(story.refused)} were refused.\n"
        f"{sum(judged)} of {len(judged)} intervals hold the truth (after bounding, where that is known).\n"
        f"Averaging: ±{story.averaging.margin:.2g} against the curator, ±{story.averaging.careless_margin:.2g} without "
        f"a ledger; ±0.5 finds the person out.\n"
        f"Differencing: right {story.differencing.guesses[0].share:.0%} of the time against exact answers, "
        f"{story.differencing.guesses[1].share:.0%} against the curator; a coin has 50%, no attack more than "
        f"{story.differencing.bound:.0%}.\n"
        f"{story.seconds:.0f} seconds. The report: {target}\n"
        f"Ask your own questions in a browser, with a budget of their own: {CONSOLE.format(folder=target.parent)}"
    )


CONSOLE = ".venv/bin/discreet demo --serve --folder {folder}"

FURTHER = """
In a terminal, with the environment active (`. .venv/bin/activate`):

    cd {folder}
    discreet check policy.toml
    discreet explain policy.toml "SELECT COUNT(*) FROM patients" --epsilon 0.1
    discreet ask policy.toml "SELECT COUNT(*) AS patients FROM patients" --epsilon 0.05
    discreet budget policy.toml
    discreet ledger verify policy.toml
    discreet statement policy.toml

The budget of this hospital is spent, so only questions that were asked before are answered, for free. In a browser,
with a new budget for your own questions: `discreet demo --serve --folder {folder}`.
`make demo` starts with a new ledger, which only made-up data allow. For data of your own, `discreet init data.parquet`
drafts a policy from the schema alone.
"""


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path("demo-out/hospital"))
    parser.add_argument("--visits", type=int, default=1_000_000)
    parser.add_argument("--trials", type=int, default=200)
    given = parser.parse_args()
    main(given.folder, visits=given.visits, trials=given.trials)
