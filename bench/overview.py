"""All results on one page: each case beside the best peer and the limit, whoever is ahead, and curves of growth."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from discreet.report import Bars, Chart, Grid, Heading, Line, Page, Part, Text

_LIMITS = re.compile(
    r"\(limit\)|no privacy|plain|torch SGD|NumPy|fresh sample|not private|Python loops|BEGIN IMMEDIATE|without slow"
)
_SIZED = re.compile(r"^(.*): ([\d,]+) (rows|draws)$")
HEAD = ("case", "discreet", "best peer", "× ours", "limit", "× ours", "verdict")


@dataclass(frozen=True)
class Case:
    """One piece of work: what we took, the quickest peer and the quickest of those that keep nothing private."""

    name: str
    ours: float | None
    peer: tuple[str, float] | None
    limit: tuple[str, float] | None
    trouble: str = ""

    @property
    def verdict(self) -> str:
        """Who is ahead in CPU time: a ratio above 1 is that much more than ours."""
        if self.ours is None:
            return self.trouble or "not measured"
        if self.peer is None:
            return "no peer"
        return "ahead" if self.peer[1] >= self.ours else "behind"

    def cells(self) -> tuple[str, ...]:
        """The row of the table."""
        if self.ours is None:
            return (self.name, "", "", "", "", "", self.verdict)
        others = [
            cell
            for other in (self.peer, self.limit)
            for cell in (
                ("", "") if other is None else (f"{other[0]}, {seconds(other[1])}", times(other[1] / self.ours))
            )
        ]
        return (self.name, seconds(self.ours), *others, self.verdict)


def read(folder: Path) -> list[dict[str, Any]]:
    """The results that a folder holds, by name."""
    return [json.loads(file.read_text(encoding="utf-8")) for file in sorted(folder.glob("*.json"))]


def cases(result: dict[str, Any]) -> list[Case]:
    """The cases of one comparison in CPU seconds, in their order."""
    found = []
    for name in dict.fromkeys(row["case"] for row in result["rows"]):
        rows = [row for row in result["rows"] if row["case"] == name]
        timed = [(row, float(row["cpu_s"]["median"])) for row in rows if "cpu_s" in row]  # of one unit of work
        ours = next((cpu for row, cpu in timed if row["who"].startswith("discreet") and not _is_limit(row)), None)
        peers = [
            (row["who"], cpu) for row, cpu in timed if not row["who"].startswith("discreet") and not _is_limit(row)
        ]
        limits = [(row["who"], cpu) for row, cpu in timed if _is_limit(row)]
        trouble = next((row["trouble"] for row in rows if row["who"].startswith("discreet")), "")
        found.append(Case(name, ours, _least(peers), _least(limits), trouble))
    return found


def charts(result: dict[str, Any]) -> Iterator[Chart]:
    """Curves through the sizes of a case; where there are none, how many times our CPU the best peer takes."""
    sized = [(match, case) for case in cases(result) if (match := _SIZED.match(case.name))]
    for what in dict.fromkeys(match[1] for match, _ in sized):
        of = [(int(match[2].replace(",", "")), case) for match, case in sized if match[1] == what]
        unit = next(match[3] for match, _ in sized if match[1] == what)
        lines = [Line([n for n, c in of if c.ours], [c.ours for _, c in of if c.ours], "discreet")]
        limits = [(n, c.limit[1]) for n, c in of if c.limit]
        if limits:
            lines.append(Line([n for n, _ in limits], [cpu for _, cpu in limits], "limit", dashed=True))
        yield Chart(what, lines, x=unit, y="CPU seconds", log_x=True, log_y=True)
    beside = [(case.name, case.peer[1] / case.ours) for case in cases(result) if case.peer and case.ours]
    if beside and not sized:
        names, ratios = zip(*beside[:_MOST], strict=True)
        yield Chart("CPU of the best peer, times ours (below 1: it is ahead)", [Bars(list(names), list(ratios))])


_MOST = 12  # bars of a picture


def overview(folder: Path) -> Page:
    """One page of everything that a folder of results holds."""
    results, parts = read(folder), list[Part]()
    for result in results:
        about = result["machine"]
        parts += [
            Heading(_heading(result)),
            Text(f"{about['date']}, {about['cores']} cores, {about['system']}, median of {result['rounds']} rounds."),
            Grid(HEAD, [case.cells() for case in cases(result)]),
            *charts(result),
        ]
        if result["bars"]:
            bars = [(bar["case"], bar["promise"], number(bar["value"]), bar["verdict"]) for bar in result["bars"]]
            parts.append(Grid(("case", "bar", "measured", "verdict"), bars))
    return Page("Beside peers and limits", parts, lead=lead(results))


def _heading(result: dict[str, Any]) -> str:
    title = str(result["title"])
    return title[0].upper() + title[1:]


def lead(results: Sequence[dict[str, Any]]) -> str:
    """How often we are ahead, how often behind; in CPU time alone, which is not everything."""
    verdicts = [case.verdict for result in results for case in cases(result)]
    bars = [bar["verdict"] for result in results for bar in result["bars"]]
    return (
        f"CPU seconds: ahead of the best peer in {verdicts.count('ahead')} cases, behind in "
        f"{verdicts.count('behind')}, no peer in {verdicts.count('no peer')}. Bars: {bars.count('pass')} pass, "
        f"{bars.count('FAIL')} are missed, {bars.count('not measured')} were not measured. "
        "Errors and qualities are in the bars."
    )


def markdown(folder: Path) -> str:
    """The same for the site, with an anchor for each comparison."""
    results = read(folder)
    lines = ["# Results", "", lead(results), ""]
    for result in results:
        lines += [f"## {_heading(result)} {{#{result['name']}}}", "", *_table(HEAD, [c.cells() for c in cases(result)])]
        lines += [f'<div class="picture">{chart.svg()}</div>\n' for chart in charts(result)]
        bars = [(bar["case"], bar["promise"], number(bar["value"]), bar["verdict"]) for bar in result["bars"]]
        lines += _table(("case", "bar", "measured", "verdict"), bars) if bars else []
    return "\n".join(lines)


def seconds(value: float) -> str:
    """Seconds in the unit that reads best.

    >>> seconds(0.26), seconds(0.0108), seconds(2e-6)
    ('0.26 s', '10.8 ms', '2 µs')
    """
    units = (("s", 0.1, 1.0), ("ms", 1e-4, 1e3), ("µs", 1e-7, 1e6))
    unit, scale = next(((name, scale) for name, least, scale in units if value >= least), ("ns", 1e9))
    return f"{value * scale:.3g} {unit}"


def times(ratio: float) -> str:
    """A ratio in few digits."""
    return f"{ratio:,.0f}" if ratio >= 100 else f"{ratio:.3g}"


def number(value: float | None) -> str:
    """A measured value in few digits, nothing where there is none."""
    return "" if value is None else f"{value:.4g}"


def _beside(other: tuple[str, float] | None, ours: float) -> tuple[str, str]:
    return ("", "") if other is None else (f"{other[0]}, {seconds(other[1])}", times(other[1] / ours))


def _is_limit(row: dict[str, Any]) -> bool:
    return bool(_LIMITS.search(row["who"]) or "not private" in row["remark"] or row["remark"] == "no privacy")


def _least(found: list[tuple[str, float]]) -> tuple[str, float] | None:
    return min(found, key=lambda pair: pair[1], default=None)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = (head, ["---"] * len(head), *rows)
    return [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines] + [""]
