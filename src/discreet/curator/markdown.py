"""Text of other people inside Markdown: shown as it is, never as markup."""

import re

from discreet.curator.report import visible


def literal(text: str) -> str:
    """Text that Markdown shows as it is, on one line.

    >>> print(literal("patient_id"), literal("<b>*x*"))
    patient_id \\<b\\>\\*x\\*
    """
    return re.sub(r"([\\`*\[\]<>|~&#]|(?<!\w)_|_(?!\w))", r"\\\1", visible(text))


def code(text: str) -> str:
    """Text as code, on one line, whatever backticks are in it."""
    shown = visible(" ".join(text.split()))
    fence = "`" * (1 + max(map(len, re.findall("`+", shown)), default=0))
    return f"{fence} {shown} {fence}" if "`" in shown else f"{fence}{shown}{fence}"
