"""A single value as a notebook shows it: what it is in a sentence, and named facts, in HTML that needs nothing else."""

import re
from collections.abc import Mapping
from html import escape

_PAIR = re.compile(r"(\S+(?: \S+)*) {2,}(\S.*)")
_MOST = 200  # characters of a fact


def card(title: str, sentence: str, facts: Mapping[str, str], *, more: str = "") -> str:
    """A title, a sentence and a table of facts; `more` is HTML that was escaped where it was made.

    >>> card("Pure", "ε-DP.", {"ε": "< 1"}).count("&lt;")
    1
    """
    table = _table({name: _cut(words) for name, words in facts.items()}) if facts else ""
    return f'<div class="discreet-card"><b>{escape(title)}</b> {escape(sentence)}{table}{more}</div>'


def outline(text: str) -> str:
    """Indented lines of text as a notebook shows them: the first in bold, notes pale, long ones wrapped.

    >>> outline("costs ε 1\\nreads people\\n  where age < 3\\nnote: age is clamped").count("&lt;")
    1
    >>> outline("task      train a model\\nprotects  one row").count("<td")
    1
    """
    pairs = [_PAIR.fullmatch(line) for line in text.splitlines()]
    if pairs and all(pairs):  # names and values in two columns
        (_, title), *rest = ((pair[1], pair[2]) for pair in pairs if pair)
        return f'<div class="discreet-card"><b>{escape(title)}</b>{_table(dict(rest))}</div>'
    first, *lines = text.splitlines() or [""]
    return f'<div class="discreet-card"><b>{escape(first)}</b>{"".join(map(_item, lines))}</div>'


def _table(facts: Mapping[str, str]) -> str:
    rows = "".join(
        f'<tr><th style="text-align:left;font-weight:normal;opacity:.7">{escape(name)}</th>'
        f'<td style="text-align:left">{escape(words)}</td></tr>'
        for name, words in facts.items()
    )
    return f"<table>{rows}</table>"


def _item(line: str) -> str:
    words = line.lstrip()
    pale = ";opacity:.7" if words.startswith("note: ") else ""
    # a line that is wrapped goes on a little further to the right
    style = f"margin-left:{len(line) - len(words) + 2}ch;text-indent:-2ch{pale}"
    return f'<div style="{style}">{escape(words)}</div>'


def meter(share: float, words: str) -> str:
    """A bar that is filled as far as a share from 0 to 1, with words beside it.

    >>> 'width="90.0"' in meter(0.5, "half")
    True
    """
    filled = 180 * min(max(share, 0.0), 1.0)
    return (
        f'<div><svg width="180" height="12" role="img"><title>{escape(words)}</title>'
        '<rect width="180" height="12" rx="6" fill="currentColor" opacity=".15"/>'
        f'<rect width="{filled:.1f}" height="12" rx="6" fill="#b7791f"/></svg> {escape(words)}</div>'
    )


def _cut(words: str) -> str:
    return words if len(words) <= _MOST else words[: _MOST - 1] + "…"
