"""Docstrings as pages show them: examples and tables that are plain text stand in blocks of code."""

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"(?:^[ ]*>>> .*\n(?:^[ ]*\S.*\n?)*\n?)+", re.MULTILINE)
_RULED = re.compile(r"^=+(?: +=+)+\n(?:.*\n)*?=+(?: +=+)+$", re.MULTILINE)
_LITERAL = re.compile(r"^(.*?)::\n\n((?:    .*\n?|\n)+)", re.MULTILINE)


class CodeBlocks(griffe.Extension):
    """Fences what docstrings mean to be read as it is written."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of a module, class, function or attribute."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """A docstring in which every example and every ruled table is a block of code.

    >>> print(fenced("Adds.\\n\\n>>> 1 + 1\\n2").replace("`", "'"))
    Adds.
    <BLANKLINE>
    '''pycon
    >>> 1 + 1
    2
    '''
    """
    text = _LITERAL.sub(
        lambda m: f"{m[1]}:\n\n{_block(_outdented(m[2]), 'text')}" if m[1] else _block(_outdented(m[2]), "text"), text
    )
    text = _RULED.sub(lambda m: _block(m[0], "text"), text)
    return _EXAMPLE.sub(lambda m: _block(m[0], "pycon") + "\n", text + "\n").rstrip()


def _outdented(block: str) -> str:
    return re.sub(r"^    ", "", block, flags=re.MULTILINE)


def _block(code: str, language: str) -> str:
    return f"```{language}\n{code.strip(chr(10))}\n```\n"
