"""A report as one HTML page that loads nothing: headings, words, facts, tables, verdicts, charts.

It runs nothing either, unless it has a script, which its Content-Security-Policy then names by its hash.

>>> from discreet.report import Facts, Page, Text
>>> Page("A & B", [Text("x < y"), Facts({"rows": 12})]).html().count("&amp;")
2
"""

import json
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from importlib.resources import files
from itertools import groupby
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from discreet.report.chart import Chart
from discreet.report.marks import THIN

_TONES = {True: "good", False: "bad", None: "open"}
_LONG = 4  # headings from which on a page lists them
_COMMAS = re.compile(r"(?<![\w.,])\d{1,3}(?:,\d{3})+(?![\w,])")  # between thousands
_MOST_WIDE = 470  # pixels of a chart that stands beside another


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading within a page."""

    words: str


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph."""

    words: str


@dataclass(frozen=True, slots=True)
class Facts:
    """Named values, one a line."""

    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Grid:
    """A table; numbers stand on the right."""

    header: Sequence[str]
    rows: Sequence[Sequence[Any]]
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A word with its sentence; good, bad, or neither."""

    word: str
    sentence: str
    good: bool | None = None


@dataclass(frozen=True, slots=True)
class Tiles:
    """The few numbers that matter most, each with what it is."""

    values: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Html:
    """HTML that was escaped where it was made."""

    html: str


Part = Heading | Text | Facts | Grid | Verdict | Tiles | Html | Chart


@dataclass(frozen=True, slots=True, eq=False)
class Page:
    """A title, a lead and parts; a long page lists its headings at the top. A script runs in whole pages only."""

    title: str
    parts: Sequence[Part]
    lead: str = ""
    script: str = ""

    def html(self) -> str:
        """The whole page."""
        digest = b64encode(sha256(self.script.encode()).digest()).decode()
        policy, script = (
            (f" script-src 'sha256-{digest}';", f"<script>{self.script}</script>") if self.script else ("", "")
        )
        return _PAGE.format(title=escape(self.title), body=self.fragment(), policy=policy, script=script)

    def fragment(self) -> str:
        """The page without its head, for a notebook; its style comes along."""
        return f"<div><style>{STYLE}</style>{self._body()}</div>"

    def save(self, path: str | Path) -> Path:
        """Write the page; the path."""
        target = Path(path)
        target.write_text(self.html(), encoding="utf-8")
        return target

    def _body(self) -> str:
        lead = f'<p class="lead">{escape(shown(self.lead))}</p>' if self.lead else ""
        headings = [part.words for part in self.parts if isinstance(part, Heading)]
        names = _anchors(headings)
        links = "".join(f'<li><a href="#{names[i]}">{escape(words)}</a></li>' for i, words in enumerate(headings))
        contents = f"<nav><ol>{links}</ol></nav>" if len(headings) >= _LONG else ""
        body = render(self.parts, names)
        return f'<div class="discreet"><h1>{escape(self.title)}</h1>{lead}{contents}\n{body}</div>'

    def _repr_html_(self) -> str:
        return self.fragment()


def render(parts: Sequence[Part], anchors: Sequence[str] = ()) -> str:
    """Parts as HTML, for a page or a piece of one; charts that follow each other stand side by side.

    >>> render([Text("a < b")])
    '<p>a &lt; b</p>'
    """
    names = iter(anchors or _anchors([part.words for part in parts if isinstance(part, Heading)]))
    body: list[str] = []
    for charts, run in groupby(parts, lambda part: isinstance(part, Chart)):
        shown = [_part(part, names) for part in run]
        body += [f'<div class="charts">{"".join(shown)}</div>'] if charts else shown
    return "\n".join(body)


def embedded(name: str, document: Any) -> Html:
    """Data for the script of a page, as JSON that cannot end the element it stands in.

    >>> embedded("d", "</script>").html
    '<script type="application/json" id="d">"\\\\u003c/script>"</script>'
    """
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return Html(f'<script type="application/json" id="{escape(name)}">{text}</script>')


def _anchors(headings: Sequence[str]) -> list[str]:
    """Names to link to, all different."""
    plain = [re.sub(r"\W+", "-", words.lower()).strip("-") or "part" for words in headings]
    return [f"{name}-{i}" if name in plain[:i] else name for i, name in enumerate(plain)]


def _part(part: Part, anchors: Iterator[str]) -> str:
    match part:
        case Heading():
            html = f'<h2 id="{next(anchors)}">{escape(part.words)}</h2>'
        case Text():
            html = f"<p>{escape(shown(part.words))}</p>"
        case Facts():
            lines = ((escape(str(name)), _cell(value)) for name, value in part.values.items())
            rows = "".join(f"<tr><th>{name}</th><td>{value}</td></tr>" for name, value in lines)
            html = f'<div class="wide"><table class="facts">{rows}</table></div>'
        case Grid():
            html = _grid(part)
        case Verdict():
            sentence = escape(shown(part.sentence))
            html = f'<p class="verdict {_TONES[part.good]}"><b>{escape(part.word)}</b> {sentence}</p>'
        case Tiles():
            boxes = (
                f"<div><strong>{escape(shown(big))}</strong><span>{escape(what)}</span></div>"
                for big, what in part.values
            )
            html = f'<div class="tiles">{"".join(boxes)}</div>'
        case Html():
            html = part.html
        case Chart():
            picture = part.picture()
            wide = ' class="wide"' if picture.width > _MOST_WIDE else ""
            html = f"<figure{wide}>{picture.svg(inline=True)}</figure>"
    return html


def _grid(grid: Grid) -> str:
    right = [_is_number_column([row[i] for row in grid.rows]) for i in range(len(grid.header))]
    side = [' class="number"' if number else "" for number in right]
    head = "".join(f"<th{side[i]}>{escape(shown(name))}</th>" for i, name in enumerate(grid.header))
    rows = "".join(
        f"<tr>{''.join(f'<td{side[i] or _room(value)}>{_cell(value)}</td>' for i, value in enumerate(row))}</tr>"
        for row in grid.rows
    )
    # as a paragraph: a <caption> is as narrow as its table
    caption = f'<p class="caption">{escape(shown(grid.caption))}</p>' if grid.caption else ""
    table = f'<table class="grid"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
    return f'{caption}<div class="wide">{table}</div>'


def _room(value: Any) -> str:
    """Dates are not broken, and long words are not squeezed beside numbers."""
    text = value if isinstance(value, str) else ""
    return ' class="whole"' if _DATE.fullmatch(text) else ' class="long"' if len(text) > _MOST_SHORT else ""


_DATE = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d)?)?")
_MOST_SHORT = 40  # letters
_NUMBER = re.compile(r"[−+-]?\d[\d.,\s]*(e-?\d+)?( ?%)?( (to|–|±) [−+-]?\d[\d.,\s]*(e-?\d+)?( ?%)?)?|–|")
_WORDS = {
    "holds": "good", "not refuted": "good", "falls": "bad", "leaks": "bad", "refuted": "bad", "undecided": "open",
}  # fmt: skip


def _is_number_column(values: Sequence[Any]) -> bool:
    """Whether all values are numbers, or texts that look like numbers."""
    return any(value not in (None, "–", "") for value in values) and all(
        value is None
        or (isinstance(value, Real) and not isinstance(value, bool))
        or (isinstance(value, str) and _NUMBER.fullmatch(value) is not None)
        for value in values
    )


def _cell(value: Any) -> str:
    """A value; verdicts have their color."""
    tone = _WORDS.get(value) if isinstance(value, str) else None
    return f'<b class="{tone}">{escape(shown(value))}</b>' if tone else escape(shown(value))


def shown(value: Any) -> str:
    """A value for people: thin spaces between thousands, no line ends before a percent sign.

    >>> shown(0.12345678), shown(1234567), shown(-12345.6), shown(True), shown("936 of 1,030"), shown("5 %")
    ('0.1235', '1\u202f234\u202f567', '−12\u202f346', 'yes', '936 of 1\u202f030', '5\xa0%')
    """
    match value:
        case None:
            return "–"
        case bool():
            return "yes" if value else "no"
        case Integral():
            return f"{int(value):,}".replace(",", THIN)
        case Real():
            text = f"{float(value):,.0f}" if 1000 <= abs(float(value)) < 1e9 else f"{float(value):.4g}"
            return text.replace(",", THIN).replace("-", "\N{MINUS SIGN}")
        case list() | tuple():
            return ", ".join(shown(part) for part in value)
        case _:
            text = str(value).replace(" %", "\N{NO-BREAK SPACE}%")
            return _COMMAS.sub(lambda thousands: thousands[0].replace(",", THIN), text)


STYLE = files("discreet.report").joinpath("page.css").read_text(encoding="utf-8")

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none';{policy} style-src 'unsafe-inline'; img-src data:">
<meta name="color-scheme" content="light dark">
<title>{title}</title><style>
body{{margin:0;background:#fff}}@media (prefers-color-scheme:dark){{body{{background:#161a20}}}}</style></head>
<body>{body}{script}</body></html>
"""
