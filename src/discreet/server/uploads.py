"""Tables that callers send along: the text of a CSV file, or columns by name. Never the name of a file."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discreet.errors import InvalidParameter
from discreet.tables import read_table

if TYPE_CHECKING:
    import pyarrow

TableBody = str | dict[str, list[Any]]
"""A table as JSON has it: the text of a CSV file, or columns by name."""


def uploaded_table(given: Any, name: str) -> "pyarrow.Table":
    r"""A table that a caller sent, as Arrow.

    Guarantee: no file of the server's is read, whatever is sent. Proof. `read_table` takes a text for a path; the only
    path that it is given here is that of a new file, in a folder of its own, that holds what was sent.

    >>> uploaded_table("name,lat\nhere,50", "places").column_names
    ['name', 'lat']
    """
    if isinstance(given, str):
        with tempfile.TemporaryDirectory(prefix="discreet-") as folder:
            path = Path(folder) / "table.csv"
            path.write_text(given, encoding="utf-8", errors="replace")
            return read_table(path, name)
    columns = isinstance(given, Mapping) and all(isinstance(values, list) for values in given.values())
    if not columns:
        raise InvalidParameter(name, type(given).__name__, "a table: the text of a CSV file, or columns by name")
    return read_table(given, name)
