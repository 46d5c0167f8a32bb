"""One way in for tables that people hold: Arrow, pandas, polars, columns by name, CSV and Parquet files.

These are tables in the hands of somebody who may see them (an owner who anonymizes, an auditor who attacks). Private
rows behind a curator never come this way.

>>> from discreet.tables import as_arrow
>>> as_arrow({"age": [30, None]}).num_rows
2
"""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discreet.errors import InvalidData, InvalidParameter

if TYPE_CHECKING:
    import pyarrow

_EXPECTED = "a pyarrow Table, a pandas or polars DataFrame, columns by name, or a path to a CSV or Parquet file"
_DELIMITERS = ",;\t|"


def as_arrow(table: Any, where: str = "table") -> "pyarrow.Table":
    """A table as Arrow, with checked names.

    A CSV file is read as texts, so that a ZIP code keeps its leading zero and what is written back is what was read.

    >>> as_arrow({"zip": ["02139", "13053"]}).column("zip").to_pylist()
    ['02139', '13053']
    >>> as_arrow([1, 2])
    Traceback (most recent call last):
    ...
    discreet.errors.InvalidParameter: table: got 'list', expected a pyarrow Table, a pandas or polars DataFrame, ...
    """
    import pyarrow

    try:
        arrow = _convert(table, where)
    except (pyarrow.ArrowException, OverflowError):  # what Arrow says may quote a value
        hint = "every row needs as many cells as the header, every column values of one kind; texts are UTF-8"
        raise InvalidData(f"{where}: it cannot be read as a table; {hint}") from None
    twice = [name for name, count in Counter(arrow.column_names).items() if count > 1]
    if twice:
        raise InvalidData(f"{where}: two columns are named {twice[0]!r}; rename one")
    return arrow


def column(table: "pyarrow.Table", name: str, where: str = "table") -> "pyarrow.ChunkedArray":
    """A column by its name.

    >>> column(as_arrow({"age": [30]}), "agee")
    Traceback (most recent call last):
    ...
    discreet.errors.InvalidParameter: column: got 'agee', expected one of the table's columns: age
    """
    place = table.schema.get_field_index(name)  # at once, however many columns there are
    if place < 0:
        known = ", ".join(table.column_names)
        raise InvalidParameter("column", name, f"one of the {where}'s columns: {known}")
    return table.column(place)


def texts(array: Any) -> "pyarrow.Array":
    """Values as texts; missing values are empty texts.

    >>> texts([1.0, 2.5, None]).to_pylist()
    ['1', '2.5', '']
    """
    import pyarrow
    from pyarrow import compute

    values = (
        array if isinstance(array, pyarrow.ChunkedArray | pyarrow.Array) else pyarrow.array(array, from_pandas=True)
    )
    if isinstance(values, pyarrow.ChunkedArray):
        values = values.combine_chunks()
    if pyarrow.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if pyarrow.types.is_floating(values.type):
        values = compute.if_else(compute.is_nan(values), pyarrow.scalar(None, values.type), values)
        whole = compute.all(compute.equal(values, compute.trunc(values))).as_py()
        fits = compute.all(compute.less(compute.abs(values), 2.0**62)).as_py()
        values = values.cast(pyarrow.int64()) if whole and fits else values
    try:
        return values.cast(pyarrow.string()).fill_null("")
    except pyarrow.ArrowException:
        raise InvalidData(f"values of type {values.type} cannot be written as texts") from None


def write(table: "pyarrow.Table", path: str | Path) -> Path:
    """Write a table as CSV or Parquet, as the name's ending says; the path."""
    target = Path(path)
    if target.suffix.lower() in (".parquet", ".pq"):
        from pyarrow import parquet

        parquet.write_table(table, target)
        return target
    if target.suffix.lower() != ".csv":
        raise InvalidParameter("path", target.name, "a name that ends in .csv or .parquet")
    import pyarrow
    from pyarrow import csv

    header = ",".join(_quoted(name) for name in table.column_names) + "\n"
    with target.open("wb") as file:
        file.write(header.encode())
        start = file.tell()
        try:  # without quotes, if no value needs them
            csv.write_csv(table, file, csv.WriteOptions(include_header=False, quoting_style="none"))
        except pyarrow.ArrowInvalid:
            file.truncate(file.seek(start))
            csv.write_csv(table, file, csv.WriteOptions(include_header=False, quoting_style="needed"))
    return target


def _quoted(name: str) -> str:
    escaped = name.replace('"', '""')
    return f'"{escaped}"' if any(sign in name for sign in ',"\r\n') else name


def _convert(table: Any, where: str) -> "pyarrow.Table":
    import pyarrow

    kind = (type(table).__module__.partition(".")[0], type(table).__name__)
    if isinstance(table, str | Path):
        return _read(Path(table), where)
    if isinstance(table, pyarrow.Table):
        return table
    if kind == ("polars", "DataFrame"):
        return table.to_arrow()
    if kind == ("pandas", "DataFrame"):
        strange = [name for name in table.columns if not isinstance(name, str)]
        if strange:
            raise InvalidParameter(where, f"a column named {strange[0]!r}", "columns named by texts")
        return pyarrow.Table.from_pandas(table, preserve_index=False)
    if isinstance(table, Mapping) and all(isinstance(name, str) for name in table):
        lengths = {len(values) for values in table.values()}
        if len(lengths) > 1:
            raise InvalidData(f"{where}: columns have different lengths: {sorted(lengths)}")
        return pyarrow.table({name: _array(name, values, where) for name, values in table.items()})
    raise InvalidParameter(where, type(table).__name__, _EXPECTED)  # the table itself is private


def _array(name: str, values: Any, where: str) -> Any:
    import pyarrow

    try:
        return pyarrow.array(values, from_pandas=True)
    except (pyarrow.ArrowException, OverflowError):  # what Arrow says may quote a value
        raise InvalidData(f"{where}: column {name!r} holds values of different kinds; give it one kind") from None


def _read(path: Path, where: str) -> "pyarrow.Table":
    if not path.is_file():
        raise InvalidParameter(where, str(path), "a file that exists")
    if path.suffix.lower() in (".parquet", ".pq"):
        from pyarrow import parquet

        return parquet.read_table(path)
    return _read_csv(path, where)


def _read_csv(path: Path, where: str) -> "pyarrow.Table":
    import pyarrow
    from pyarrow import csv

    raw = _header(path)
    if not raw.strip():
        raise InvalidData(f"{where}: {path.name} has no header line")
    try:
        header = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidData(f"{where}: {path.name} is not UTF-8 text; convert it first") from None
    plain = "".join(header.split('"')[::2])  # what stands outside quotation marks
    parse = csv.ParseOptions(delimiter=max(_DELIMITERS, key=plain.count), newlines_in_values=True)
    names = csv.read_csv(pyarrow.BufferReader(raw.rstrip(b"\r\n") + b"\n"), parse_options=parse).column_names
    types = csv.ConvertOptions(column_types=dict.fromkeys(names, pyarrow.string()), strings_can_be_null=False)
    return csv.read_csv(path, parse_options=parse, convert_options=types)


def _header(path: Path) -> bytes:
    """The first line, with the lines that its quotation marks hold together."""
    with path.open("rb") as file:
        raw = file.readline()
        while raw.count(b'"') % 2 and (more := file.readline()):
            raw += more
    return raw
