"""A report as one HTML page that loads nothing and runs nothing: headings, words, facts, tables, verdicts, charts.

>>> from discreet.report import Facts, Page, Text
>>> Page("A & B", [Text("x < y"), Facts({"rows": 12})]).html().count("&amp;")
2
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from discreet.report.chart import Chart

_TONES = {True: "good", False: "bad", None: "open"}


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


Part = Heading | Text | Facts | Grid | Verdict | Chart


@dataclass(frozen=True, slots=True, eq=False)
class Page:
    """A title, a lead and parts."""

    title: str
    parts: Sequence[Part]
    lead: str = ""

    def html(self) -> str:
        """The whole page."""
        return _PAGE.format(title=escape(self.title), style=_STYLE, body=self.fragment())

    def fragment(self) -> str:
        """The page without its head, for a notebook."""
        lead = f'<p class="lead">{escape(self.lead)}</p>' if self.lead else ""
        body = "\n".join(_part(part) for part in self.parts)
        return f'<div class="discreet"><h1>{escape(self.title)}</h1>{lead}\n{body}</div>'

    def save(self, path: str | Path) -> Path:
        """Write the page; the path."""
        target = Path(path)
        target.write_text(self.html(), encoding="utf-8")
        return target

    def _repr_html_(self) -> str:
        return self.fragment()


def _part(part: Part) -> str:
    match part:
        case Heading():
            return f"<h2>{escape(part.words)}</h2>"
        case Text():
            return f"<p>{escape(part.words)}</p>"
        case Facts():
            rows = "".join(f"<tr><th>{escape(str(n))}</th><td>{_words(v)}</td></tr>" for n, v in part.values.items())
            return f'<table class="facts">{rows}</table>'
        case Grid():
            return _grid(part)
        case Verdict():
            return f'<p class="verdict {_TONES[part.good]}"><b>{escape(part.word)}</b> {escape(part.sentence)}</p>'
        case Chart():
            return f"<figure>{part.svg()}</figure>"


def _grid(grid: Grid) -> str:
    first = grid.rows[0] if grid.rows else [""] * len(grid.header)
    head = "".join(
        f"<th{_side(value)}>{escape(str(name))}</th>" for name, value in zip(grid.header, first, strict=True)
    )
    rows = "".join(
        f"<tr>{''.join(f'<td{_side(value)}>{_words(value)}</td>' for value in row)}</tr>" for row in grid.rows
    )
    # as a paragraph: a <caption> is as narrow as its table
    caption = f'<p class="caption">{escape(grid.caption)}</p>' if grid.caption else ""
    return f'{caption}<table class="grid"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'


def _side(value: Any) -> str:
    """Numbers stand on the right."""
    return ' class="number"' if isinstance(value, Real) and not isinstance(value, bool) else ""


def _words(value: Any) -> str:
    return escape(shown(value))


def shown(value: Any) -> str:
    """A value for people.

    >>> shown(0.12345678), shown(1234567), shown(True), shown(None)
    ('0.1235', '1,234,567', 'yes', '–')
    """
    match value:
        case None:
            return "–"
        case bool():
            return "yes" if value else "no"
        case Integral():
            return f"{int(value):,}"
        case Real():
            return f"{float(value):.4g}"
        case list() | tuple():
            return ", ".join(shown(part) for part in value)
        case _:
            return str(value)


_STYLE = """
.discreet { font: 15px/1.5 system-ui, sans-serif; color: #222; max-width: 960px; margin: 2em auto; padding: 0 1em; }
.discreet h1 { font-size: 1.6em; } .discreet h2 { font-size: 1.2em; margin-top: 2em; border-bottom: 1px solid #ddd; }
.discreet .lead { color: #555; } .discreet figure { margin: 1em 0; } .discreet svg { max-width: 100%; height: auto; }
.discreet table { border-collapse: collapse; margin: 1em 0; } .discreet .caption { color: #555; margin: 1em 0 0; }
.discreet th, .discreet td { text-align: left; padding: 3px 12px 3px 0; vertical-align: top; }
.discreet th, .discreet td { border-bottom: 1px solid #eee; }
.discreet .facts th { font-weight: 500; color: #555; } .discreet .number { text-align: right; }
.discreet .caption + table { margin-top: 0.3em; }
.discreet .verdict { border-left: 5px solid #888; padding: 6px 12px; background: #f6f6f2; }
.discreet .verdict.good { border-color: #5b8a3c; } .discreet .verdict.bad { border-color: #b3261e; }
"""

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<title>{title}</title><style>{style}</style></head>
<body>{body}</body></html>
"""
