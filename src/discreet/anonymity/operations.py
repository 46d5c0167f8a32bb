"""The plain operations of anonymization: leave out columns, coarsen values, hide rows, add dummy rows.

>>> from discreet.anonymity import Hierarchy
>>> from discreet.anonymity.operations import coarsened, redacted
>>> table = redacted({"name": ["Ann", "Bob"], "zip": ["13053", "13068"]}, ["name"])
>>> coarsened(table, Hierarchy.prefixes("zip", ["13053", "13068", "14850"]), level=2).column("zip").to_pylist()
['130**', '130**']
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.anonymity.classes import Classes
from discreet.anonymity.hierarchy import TOP, Hierarchy
from discreet.errors import InvalidData, InvalidParameter
from discreet.noise.entropy import Entropy
from discreet.noise.uniform import uniform_below
from discreet.tables import as_arrow, column

if TYPE_CHECKING:
    import pyarrow


def redacted(table: Any, names: Sequence[str]) -> "pyarrow.Table":
    """The table without the named columns (claim A1: redaction).

    >>> redacted({"name": ["Ann"], "age": [30]}, ["name"]).column_names
    ['age']
    """
    arrow = as_arrow(table)
    for name in names:
        column(arrow, name)
    return arrow.drop_columns(list(names))


def coarsened(table: Any, hierarchy: Hierarchy, *, level: int) -> "pyarrow.Table":
    """The table with one column lifted to a level of its hierarchy (claim A1: coarsening).

    >>> ages = Hierarchy.rows("age", [(28, "<30"), (31, "3*"), (36, "3*")])
    >>> coarsened({"age": [28, 31]}, ages, level=1).column("age").to_pylist()
    ['<30', '3*']
    """
    import pyarrow

    if not 0 <= level <= hierarchy.height:
        raise InvalidParameter("level", level, f"a level of {hierarchy.name!r}, 0 to {hierarchy.height}")
    arrow = as_arrow(table)
    codes = hierarchy.codes[level][hierarchy.code(column(arrow, hierarchy.name))]
    texts = pyarrow.DictionaryArray.from_arrays(pyarrow.array(codes), list(hierarchy.labels[level]))
    return arrow.set_column(arrow.column_names.index(hierarchy.name), hierarchy.name, texts.dictionary_decode())


def suppressed(table: Any, rows: NDArray[np.bool_], names: Sequence[str]) -> "pyarrow.Table":
    """The table with the named columns replaced by `*` in the given rows.

    >>> suppressed({"zip": ["13053", "14850"]}, np.array([False, True]), ["zip"]).column("zip").to_pylist()
    ['13053', '*']
    """
    import pyarrow
    from pyarrow import compute

    from discreet.tables import texts

    arrow = as_arrow(table)
    mask = np.asarray(rows)
    if mask.dtype != bool or mask.shape != (arrow.num_rows,):
        raise InvalidData(f"rows: expected one true or false for each of the {arrow.num_rows} rows")
    for name in names:
        values = texts(column(arrow, name))
        hidden = compute.if_else(pyarrow.array(mask), TOP, values)
        arrow = arrow.set_column(arrow.column_names.index(name), name, hidden)
    return arrow


def blanked(table: Any, rows: NDArray[np.bool_], names: Sequence[str]) -> "pyarrow.Table":
    """The table with the named columns missing in the given rows.

    >>> blanked({"ill": ["flu", "ulcer"]}, np.array([False, True]), ["ill"]).column("ill").to_pylist()
    ['flu', None]
    """
    import pyarrow
    from pyarrow import compute

    arrow, mask = as_arrow(table), pyarrow.array(np.asarray(rows))
    for name in names:
        values = column(arrow, name)
        empty = compute.if_else(mask, pyarrow.scalar(None, values.type), values)
        arrow = arrow.set_column(arrow.column_names.index(name), name, empty)
    return arrow


def padded(table: Any, quasi: Sequence[str], *, k: int, entropy: Entropy | None = None) -> "tuple[pyarrow.Table, int]":
    """The table with dummy rows, so that every class has at least k rows; and how many were added.

    A dummy row has the quasi-identifiers of its class; each other value is that of a row drawn from the whole table.
    Rows are shuffled, so that a dummy does not stand last. It distorts counts: the number added is part of the result,
    to be published with the table.

    >>> table, added = padded({"zip": ["130**", "130**", "148**"], "sick": ["yes", "no", "no"]}, ["zip"], k=2)
    >>> added, sorted(table.column("zip").to_pylist())
    (1, ['130**', '130**', '148**', '148**'])
    """
    import pyarrow

    _at_least_one(k)
    arrow = as_arrow(table)
    if arrow.num_rows == 0:
        raise InvalidData("the table has no rows")
    classes = Classes.of_table(arrow, quasi)
    missing = np.maximum(k - classes.sizes, 0)
    models = _first_rows(classes)[np.repeat(np.arange(classes.count), missing)]
    if not len(models):
        return arrow, 0
    drawn = {
        name: np.asarray(uniform_below(arrow.num_rows, len(models), entropy=entropy)) for name in arrow.column_names
    }
    columns = {
        name: arrow.column(name).take(pyarrow.array(models if name in quasi else drawn[name]))
        for name in arrow.column_names
    }
    whole = pyarrow.concat_tables([arrow, pyarrow.table(columns, schema=arrow.schema)])
    return shuffled(whole, entropy=entropy), len(models)


def shuffled(table: Any, *, entropy: Entropy | None = None) -> "pyarrow.Table":
    """The table with its rows in a random order: the order of rows can tell whose they are.

    >>> sorted(shuffled({"zip": ["a", "b", "c"]}).column("zip").to_pylist())
    ['a', 'b', 'c']
    """
    import pyarrow

    arrow = as_arrow(table)
    if not arrow.num_rows:
        return arrow
    words = np.asarray(uniform_below(2**63, arrow.num_rows, entropy=entropy))  # ties: below 2⁻⁶⁴·rows², in order
    return arrow.take(pyarrow.array(np.argsort(words, kind="stable")))


def _first_rows(classes: Classes) -> NDArray[np.int64]:
    first = np.zeros(classes.count, np.int64)
    kept = np.flatnonzero(classes.of_row >= 0)[::-1]
    first[classes.of_row[kept]] = kept
    return first


def _at_least_one(k: int) -> None:
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise InvalidParameter("k", k, "a whole number, at least 1")
