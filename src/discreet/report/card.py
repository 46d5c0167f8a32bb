"""A single value as a notebook shows it: what it is in a sentence, and named facts, in HTML that needs nothing else."""

from collections.abc import Mapping
from html import escape

_MOST = 200  # characters of a fact


def card(title: str, sentence: str, facts: Mapping[str, str], *, more: str = "") -> str:
    """A title, a sentence and a table of facts; `more` is HTML that was escaped where it was made.

    >>> card("Pure", "ε-DP.", {"ε": "< 1"}).count("&lt;")
    1
    """
    rows = "".join(
        f'<tr><th style="text-align:left;font-weight:normal;opacity:.7">{escape(name)}</th>'
        f'<td style="text-align:left">{escape(_cut(words))}</td></tr>'
        for name, words in facts.items()
    )
    table = f"<table>{rows}</table>" if rows else ""
    return f'<div class="discreet-card"><b>{escape(title)}</b> {escape(sentence)}{table}{more}</div>'


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
