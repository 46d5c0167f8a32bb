"""Columns that are indicators of one category: at most one of them is 1, so together they have norm 1.

They are declared, by position or name, or read off a scikit-learn `OneHotEncoder` whose categories are declared, alone
or inside a fitted `ColumnTransformer`. Nothing here looks at rows; that a row keeps to the declaration is enforced in
`exact_sums.snapped`.
"""

from collections.abc import Sequence
from typing import Any

from discreet.errors import InvalidParameter

Groups = tuple[tuple[int, ...], ...]
"""For each category, the positions of its columns."""

_EXPECTED = "lists of columns, one list for each category, or an encoder with declared categories"


def groups_of(one_hot: Any, columns: Sequence[str]) -> Groups:
    """The positions of each category's columns; refused where lists overlap or name no column.

    >>> groups_of([["eye", "heart"], [3, 2]], ["'age'", "'eye'", "'heart'", "'lung'"])
    Traceback (most recent call last):
    discreet.errors.InvalidParameter: one_hot: got 'column 2 twice', expected each column in at most one list
    >>> groups_of([["eye", "heart"]], ["'age'", "'eye'", "'heart'"])
    ((1, 2),)
    """
    if one_hot is None:
        return ()
    lists = one_hot if isinstance(one_hot, list | tuple) else one_hot_columns(one_hot)
    known = {name: place for place, name in enumerate(columns)}
    groups = tuple(tuple(_place(column, known) for column in _listed(group)) for group in lists)
    seen: set[int] = set()
    for place in (place for group in groups for place in group):
        if place in seen:
            raise _refused(f"column {place} twice", "each column in at most one list")
        seen.add(place)
    return groups


def one_hot_columns(encoder: Any) -> list[list[int]]:
    """The columns of each category, by position, as an encoder or a `ColumnTransformer` makes them.

    A `ColumnTransformer` must be fitted: how many columns it makes depends on its input. Lists outlive `clone`, which
    forgets a fit; so give a model these lists where it is cloned, as in cross-validation.

    >>> from sklearn.preprocessing import OneHotEncoder
    >>> one_hot_columns(OneHotEncoder(categories=[["eye", "heart"], ["f", "m", "x"]]))
    [[0, 1], [2, 3, 4]]
    """
    if hasattr(encoder, "steps"):
        encoder = encoder.steps[-1][1]
    if hasattr(encoder, "transformers"):
        return _of_transformer(encoder)
    if not _encodes(encoder):
        raise _refused(type(encoder).__name__, _EXPECTED)
    found, start = [], 0
    for width in _widths(encoder):
        found.append(list(range(start, start + width)))
        start += width
    return found


def _of_transformer(transformer: Any) -> list[list[int]]:
    if not hasattr(transformer, "output_indices_"):
        hint = "fit it first and give the model one_hot_columns(transformer), which cloning does not forget"
        raise _refused(f"a {type(transformer).__name__} that is not fitted", "a fitted one", hint)
    found = []
    for name, part, _ in transformer.transformers_:
        last = part.steps[-1][1] if hasattr(part, "steps") else part
        if _encodes(last):
            start = transformer.output_indices_[name].start
            found += [[start + place for place in group] for group in one_hot_columns(last)]
    return found


def _encodes(encoder: Any) -> bool:
    return all(hasattr(encoder, name) for name in ("categories", "drop", "min_frequency", "max_categories"))


def _widths(encoder: Any) -> list[int]:
    """How many columns each category gets, from settings alone."""
    hint = "categories found in the data are a fact about it: name them, or give lists of columns if they are public"
    if encoder.categories is None or isinstance(encoder.categories, str):
        raise _refused("an encoder that finds its categories in the data", "one with declared categories", hint)
    if encoder.min_frequency is not None or encoder.max_categories is not None:
        raise _refused("an encoder that merges rare categories", "one that does not", hint)
    widths = [len(values) for values in encoder.categories]
    if encoder.drop is None:
        return widths
    if isinstance(encoder.drop, str) and encoder.drop == "if_binary":
        return [1 if width == 2 else width for width in widths]
    if isinstance(encoder.drop, str) and encoder.drop == "first":
        return [width - 1 for width in widths]
    return [width - (value is not None) for width, value in zip(widths, encoder.drop, strict=True)]


def _listed(group: Any) -> Sequence[Any]:
    if isinstance(group, str) or not hasattr(group, "__len__"):
        raise _refused(group, _EXPECTED)
    return list(group)


def _place(column: Any, known: dict[str, int]) -> int:
    name = repr(column) if isinstance(column, str) else str(column)
    if isinstance(column, bool) or (isinstance(column, str) and name not in known):
        raise _refused(column, f"one of the columns {', '.join(known)}")
    if isinstance(column, str):
        return known[name]
    try:
        place = int(column)
    except (TypeError, ValueError):
        raise _refused(column, "a column's name or position") from None
    if place != column or not 0 <= place < len(known):
        raise _refused(column, f"a position from 0 to {len(known) - 1}")
    return place


def _refused(got: Any, expected: str, hint: str = "") -> InvalidParameter:
    return InvalidParameter("one_hot", got, expected, hint)
