"""A result as JSON, with everything measured, and as one Markdown page. Neither names a host or a path."""

import json
import os
import platform
import statistics
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.harness import Result, Row, Verdict


def write(result: Result, folder: Path) -> None:
    """Write <name>.json and <name>.md."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(as_json(result), indent=1, ensure_ascii=False)
    (folder / f"{result.comparison.name}.json").write_text(text + "\n", "utf-8")
    (folder / f"{result.comparison.name}.md").write_text(as_markdown(result), "utf-8")


def as_json(result: Result) -> dict[str, Any]:
    """Every measure: median, least and most over the rounds."""
    return {
        "name": result.comparison.name,
        "title": result.comparison.title,
        "machine": machine(),
        "rounds": result.rounds,
        "rows": [_row_as_json(row) for row in result.rows],
        "bars": [
            {"promise": v.bar.promise, "case": v.bar.case, "value": v.value, "verdict": v.word} for v in result.verdicts
        ],
    }


def machine() -> dict[str, str | int]:
    """What a reader must know about the machine."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "cores": os.cpu_count() or 1,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def _row_as_json(row: Row) -> dict[str, Any]:
    names = ("cpu_s", "wall_s", "peak_mb", "grew_mb", *_fact_names([row]))
    measured = {
        name: {"median": row.median(name), "min": min(row.values(name)), "max": max(row.values(name))}
        for name in names
        if row.values(name)
    }
    c = row.contestant
    return {"case": c.case, "who": c.who, "remark": c.remark, "work": c.work, "trouble": row.trouble, **measured} | {
        "versions": row.runs[0].versions if row.runs else {}
    }


def as_markdown(result: Result) -> str:
    """One page: the table, then the bars. Seconds are the median and, in brackets, the least and the most."""
    facts = _fact_names(result.rows)
    head = ["case", "who", "CPU", "× ours", "wall", "peak MB", *facts, "remark"]
    about = machine()
    lines = [
        f"# {result.comparison.title}",
        "",
        f"{about['date']}, {about['cores']} cores, {about['system']}, Python {about['python']}, "
        f"median of {result.rounds} interleaved rounds (least–most). "
        f"Made by `python -m bench {result.comparison.name}`.",
        "",
        *_table(head, [list(_cells(result, row, facts)) for row in result.rows]),
    ]
    if result.verdicts:
        bars = [[v.bar.case, v.bar.promise, _measured(v), v.word] for v in result.verdicts]
        lines += ["", *_table(["case", "bar", "measured", "verdict"], bars)]
    return "\n".join([*lines, "", f"Versions: {_versions(result)}.", ""])


def _cells(result: Result, row: Row, facts: list[str]) -> Iterator[str]:
    c = row.contestant
    yield c.case
    yield c.who
    if not row.runs:
        yield from [f"**{row.trouble}**", *[""] * (4 + len(facts))]
        return
    first = next(r for r in result.rows if r.contestant.case == c.case)
    ours, mine = first.median("cpu_s"), row.median("cpu_s")
    yield _time(row.values("cpu_s"))
    yield _ratio(mine / ours) if ours and mine is not None else ""
    yield _time([statistics.median(row.values("wall_s"))])
    yield f"{row.median('peak_mb'):.0f}"
    yield from (_number(row.median(fact)) for fact in facts)
    yield "; ".join(text for text in (c.remark, row.trouble) if text)


def _fact_names(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for run in row.runs for name in run.facts))


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    lines = (head, ["---"] * len(head), *rows)
    return [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines]


def _versions(result: Result) -> str:
    found = {pair for row in result.rows for run in row.runs for pair in run.versions.items()}
    return ", ".join(f"{name} {version}" for name, version in sorted(found))


def _measured(verdict: Verdict) -> str:
    """The value for people: a ratio, a time, or the number of a fact."""
    if verdict.value is None:
        return ""
    if verdict.bar.over:
        return f"{_ratio(verdict.value)} ×"
    return _time([verdict.value]) if verdict.bar.measure in ("cpu_s", "wall_s") else _number(verdict.value)


def _time(values: list[float]) -> str:
    """The median, and the spread if there is one, in one unit: "26.8 ms (25.9–31.2)"."""
    middle = statistics.median(values)
    unit, size = next((u for u in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)) if middle >= u[1]), ("ns", 1e-9))
    spread = f" ({min(values) / size:.3g}–{max(values) / size:.3g})" if len(values) > 1 else ""
    return f"{middle / size:.3g} {unit}{spread}"


def _ratio(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.6g}" if 0.99 < value < 1.01 else f"{value:.3g}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}" if abs(value) < 100 else f"{value:,.0f}"
