"""Reading what `fit` and `predict` are given, and the bounds and classes that are declared.

Refusals name columns and positions, never a value of the data. They happen before any noise is drawn, so nothing has
been spent; but that a table holds a NaN is itself a fact about the data, so they are words for the data's owner.
Some wordings are those for which scikit-learn's estimator checks look.

Columns that are indicators of one category: at most one of them is 1, so together they have norm 1.

They are declared, by position or name, or read off a scikit-learn `OneHotEncoder` whose categories are declared, alone
or inside a fitted `ColumnTransformer`. Nothing here looks at rows; that a row keeps to the declaration is enforced in
`exact_sums.snapped`.
"""

import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import rational

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
    result, start = [], 0
    for width in _widths(encoder):
        result.append(list(range(start, start + width)))
        start += width
    return result


def _of_transformer(transformer: Any) -> list[list[int]]:
    if not hasattr(transformer, "output_indices_"):
        hint = "fit it first and give the model one_hot_columns(transformer), which cloning does not forget"
        raise _refused(f"a {type(transformer).__name__} that is not fitted", "a fitted one", hint)
    results = []
    for name, part, _ in transformer.transformers_:
        last = part.steps[-1][1] if hasattr(part, "steps") else part
        if _encodes(last):
            start = transformer.output_indices_[name].start
            results += [[start + place for place in group] for group in one_hot_columns(last)]
    return results


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


Floats = NDArray[np.float64]
Bounds = Any
"""One pair (low, high) for all columns, a pair for each, or pairs by column name."""
PUBLIC: Literal["public"] = "public"
"""`classes="public"`: the owner states that the labels that occur are public knowledge; they are read from `y`."""

_LARGEST = 1e150


@dataclass(frozen=True, slots=True, eq=False)
class Box:
    """Declared bounds of columns, and how a column becomes a number z from −1 to 1.

    z = (x − center)/half. The center is 0 where the bounds contain 0, so that indicators and amounts that are mostly 0
    stay 0 and rows stay short; else the middle.

    >>> box = box_of([(0, 1), (20, 60)], ["a", "b"])
    >>> box.center.tolist(), box.half.tolist()
    ([0.0, 40.0], [1.0, 20.0])
    """

    low: Floats
    high: Floats
    center: Floats
    half: Floats

    def scaled(self, values: Floats) -> Floats:
        """z, with x clamped to its bounds: always from −1 to 1."""
        z = np.clip(values, self.low, self.high)
        z -= self.center
        z /= self.half
        return np.clip(z, -1.0, 1.0, out=z)

    def centered(self, but: Groups = ()) -> "Box":
        """The same bounds with the middle as the center of every column, but those of categories."""
        middle, half = self.low / 2 + self.high / 2, self.high / 2 - self.low / 2
        kept = np.array([place for group in but for place in group], np.intp)
        middle[kept], half[kept] = self.center[kept], self.half[kept]
        return Box(self.low, self.high, middle, half)

    def through_zero(self) -> "Box":
        """The same bounds with 0 as the center of every column: z is in proportion to x.

        >>> box_of([(20, 60)], ["a"]).through_zero().scaled(np.array([[30.0]])).tolist()
        [[0.5]]
        """
        return Box(self.low, self.high, np.zeros(len(self.low)), np.maximum(np.abs(self.low), np.abs(self.high)))

    def upward(self) -> "Box":
        """The same bounds with low as the center of every column: z is from 0 to 1.

        >>> box_of([(20, 60)], ["a"]).upward().scaled(np.array([[20.0], [30.0], [60.0]])).ravel().tolist()
        [0.0, 0.25, 1.0]
        """
        return Box(self.low, self.high, self.low, self.high - self.low)


def box_of(bounds: Bounds, columns: Sequence[str], name: str = "bounds", groups: Groups = ()) -> Box:
    """Bounds for these columns, or words that say which are missing.

    Where bounds are given by name, columns of categories need none: they are indicators, from 0 to 1.

    >>> box_of([(0, 1)], ["'age'", "'pay'"])
    Traceback (most recent call last):
    discreet.errors.InvalidParameter: bounds: got '1 pairs for 2 columns', expected bounds for column 'pay' too; ...
    """
    hint = "declare them from public knowledge: they are never learned from the data"
    if bounds is None:
        raise InvalidParameter(name, None, f"a pair (low, high) for each column: {', '.join(columns)}", hint)
    if isinstance(bounds, Mapping):
        indicators = {columns[place]: (0, 1) for group in groups for place in group}
        pairs = _by_name(bounds, columns, name, hint, indicators)
    else:
        pairs = _pairs(bounds, columns, name, hint)
    low, high = (np.array([_number(pair[side], name) for pair in pairs]) for side in (0, 1))
    if not (low < high).all():
        place = columns[int(np.argmin(low < high))]
        raise InvalidParameter(name, f"low ≥ high for column {place}", "low < high", "leave out a constant column")
    zero = (low <= 0) & (high >= 0)
    center = np.where(zero, 0.0, low / 2 + high / 2)
    half = np.where(zero, np.maximum(-low, high), high / 2 - low / 2)
    return Box(low, high, center, half)


def _by_name(
    bounds: Mapping[Any, Any], columns: Sequence[str], name: str, hint: str, indicators: Mapping[str, Any]
) -> list[Any]:
    given = {repr(key): pair for key, pair in bounds.items()} | {str(key): pair for key, pair in bounds.items()}
    known = {**indicators, **given}
    missing = [column for column in columns if column not in known]
    if missing:
        raise InvalidParameter(name, f"none for column {', '.join(missing)}", "a pair (low, high) for each", hint)
    return [_pair(known[column], name) for column in columns]


def _pairs(bounds: Any, columns: Sequence[str], name: str, hint: str) -> list[Any]:
    if not isinstance(bounds, Sequence | np.ndarray) or isinstance(bounds, str) or not len(bounds):
        raise InvalidParameter(name, bounds, "a pair (low, high), or one for each column", hint)
    if len(bounds) == 2 and not any(
        isinstance(side, Sequence | np.ndarray) and not isinstance(side, str) for side in bounds
    ):
        return [_pair(bounds, name)] * len(columns)
    if len(bounds) < len(columns):
        missing = ", ".join(columns[len(bounds) :])
        expected = f"bounds for column {missing} too"
        raise InvalidParameter(name, f"{len(bounds)} pairs for {len(columns)} columns", expected, hint)
    if len(bounds) > len(columns):
        raise InvalidParameter(name, f"{len(bounds)} pairs for {len(columns)} columns", "one pair for each column")
    return [_pair(pair, name) for pair in bounds]


def _pair(pair: Any, name: str) -> Any:
    if not isinstance(pair, Sequence | np.ndarray) or isinstance(pair, str) or len(pair) != 2:
        raise InvalidParameter(name, pair, "a pair (low, high)")
    return pair


def _number(value: Any, name: str) -> float:
    number = float(rational(value, name))
    if abs(number) > _LARGEST:
        raise InvalidParameter(name, value, f"bounds below {_LARGEST:g} in size")
    return number


def features(X: Any) -> tuple[Floats, list[str] | None]:
    """A table of numbers as floats, and its column names if it has any."""
    if hasattr(X, "toarray"):
        raise InvalidData("X: got sparse data, expected a dense array; convert it with .toarray()")
    names = _column_names(X)
    values = _floats(X, "X")
    if values.ndim != 2:
        raise InvalidData(
            f"Expected 2D array, got {values.ndim}D array instead: X needs rows and columns. "
            "Reshape your data with array.reshape(-1, 1) if it is one column, array.reshape(1, -1) if it is one row"
        )
    if not values.shape[1]:
        raise InvalidData(f"X: 0 feature(s) (shape={values.shape}) while a minimum of 1 is required.")
    if not values.shape[0]:
        raise InvalidData(f"X: 0 sample(s) (shape={values.shape}) while a minimum of 1 is required.")
    return values, names


def _floats(values: Any, name: str) -> Floats:
    try:
        array = np.asarray(values)
    except (ValueError, TypeError, OverflowError):
        raise InvalidData(f"{name}: expected numbers in a regular array") from None
    if array.dtype.kind == "c":
        raise InvalidData(f"{name}: Complex data not supported")
    if array.dtype.kind in "OSUTmMV":
        array = _numeric(array, name)
    floats = array.astype(np.float64, copy=False)
    if not np.isfinite(floats).all():
        place = tuple(int(axis[0]) for axis in np.nonzero(~np.isfinite(np.atleast_1d(floats))))
        raise InvalidData(f"{name}: got NaN or inf at position {place}; remove such rows or fill them in first")
    return floats


def _numeric(array: NDArray[Any], name: str) -> Floats:
    """Numbers kept as objects; text is refused, even text that looks like a number."""
    cells = array.ravel().tolist() if array.dtype.kind == "O" else ["" if array.size else 0]
    odd = next((place for place, cell in enumerate(cells) if isinstance(cell, str | bytes)), None)
    if odd is not None:
        where = tuple(int(p) for p in np.unravel_index(odd, array.shape)) if array.dtype.kind == "O" else "the start"
        raise InvalidData(f"{name}: got text at {where}, expected numbers; encode it, one column for each category")
    try:
        return np.asarray(array, np.float64)
    except TypeError:
        raise TypeError(f"{name}: argument must be a string or a number, got other objects") from None
    except ValueError:
        raise InvalidData(f"{name}: expected numbers") from None


def _column_names(X: Any) -> list[str] | None:
    columns = getattr(X, "columns", None)
    if columns is None:
        return None
    names = list(columns)
    texts = [isinstance(name, str) for name in names]
    if any(texts) and not all(texts):
        raise TypeError("X: feature names are only supported if all input features have string names")
    return names if names and all(texts) else None


def same_columns(who: str, values: Floats, names: list[str] | None, fitted: Any) -> None:
    """Refuse columns that are not those of `fit`."""
    seen = getattr(fitted, "feature_names_in_", None)
    if names is not None and seen is not None and list(seen) != names:
        raise InvalidData(_difference(names, list(seen)))
    if names is None and seen is not None:
        warnings.warn(f"X does not have valid feature names, but {who} was fitted with feature names", stacklevel=4)
    if names is not None and seen is None:
        warnings.warn(f"X has feature names, but {who} was fitted without feature names", stacklevel=4)
    if values.shape[1] != fitted.n_features_in_:
        expected = f"{who} is expecting {fitted.n_features_in_} features as input"
        raise InvalidData(f"X has {values.shape[1]} features, but {expected}")


def _difference(names: list[str], seen: list[str]) -> str:
    words = "The feature names should match those that were passed during fit.\n"
    unseen, missing = sorted(set(names) - set(seen)), sorted(set(seen) - set(names))
    if unseen:
        words += "Feature names unseen at fit time:\n" + "".join(f"- {name}\n" for name in unseen)
    if missing:
        words += "Feature names seen at fit time, yet now missing:\n" + "".join(f"- {name}\n" for name in missing)
    if not unseen and not missing:
        words += "Feature names must be in the same order as they were in fit.\n"
    return words


def target_given(who: str, y: Any) -> None:
    """Refuse y = None."""
    if y is None:
        raise InvalidData(f"This {who} estimator requires y to be passed, but the target y is None")


def numbers(y: Any, rows: int) -> Floats:
    """The target of a regression: one finite number for each row."""
    return np.asarray(_column(_floats(y, "y"), rows), np.float64)


def weights(sample_weight: Any, rows: int) -> Floats | None:
    """Weights of rows, from 0 to 1: a row of weight w adds at most w times what it may add.

    >>> weights([0.5, 1], 2).tolist()
    [0.5, 1.0]
    """
    if sample_weight is None:
        return None
    result = _floats(sample_weight, "sample_weight")
    if result.shape != (rows,):
        raise InvalidData(f"sample_weight.shape == {result.shape}, expected {(rows,)}!")
    if ((result < 0) | (result > 1)).any():
        raise InvalidData("sample_weight: got weights outside [0, 1]; divide them by a public bound")
    if not result.any():
        raise InvalidData("sample_weight: all weights are zero, expected some that are not")
    return np.asarray(result, np.float64)


def labels(y: Any, rows: int) -> NDArray[Any]:
    """Labels, one for each row: text, whole numbers or truth values."""
    array = _column(np.asarray(y), rows)
    if array.dtype.kind == "f":
        if not np.isfinite(array).all():
            raise InvalidData("y: got NaN or inf, expected a label for each row")
        if (array != np.floor(array)).any():
            raise InvalidData("Unknown label type: continuous; y must hold labels, not measurements")
    if array.dtype.kind in "cmMV":
        raise InvalidData(f"Unknown label type: {array.dtype}; y must hold text or whole numbers")
    if array.dtype.kind == "O":
        array = _plain_labels(array)
    return array


def _plain_labels(array: NDArray[Any]) -> NDArray[Any]:
    cells = array.tolist()
    if all(isinstance(cell, str) for cell in cells):
        return array.astype(str)
    if all(isinstance(cell, int | np.integer | bool | np.bool_) for cell in cells):
        return np.array([int(cell) for cell in cells])
    raise InvalidData("Unknown label type: y mixes text, numbers or missing values; expected one kind of label")


def _column(array: NDArray[Any], rows: int) -> NDArray[Any]:
    if array.ndim == 2 and array.shape[1] == 1:
        warnings.warn(*_conversion(), stacklevel=5)
        array = array[:, 0]
    if array.ndim != 1:
        raise InvalidData(f"y: got an array of shape {array.shape}, expected one value for each row")
    if len(array) != rows:
        raise InvalidData(f"X and y: got {rows} rows but {len(array)} targets")
    return array


def _conversion() -> tuple[str, type[Warning]]:
    words = "A column-vector y was passed when a 1d array was expected. Please change the shape of y to (n_samples,)"
    if "sklearn" not in sys.modules:
        return words, UserWarning
    from sklearn.exceptions import DataConversionWarning  # type: ignore[import-untyped]

    return words, DataConversionWarning


def declared_classes(classes: Any) -> NDArray[Any] | None:
    """The declared classes, sorted; None where the owner says that those that occur are public.

    >>> declared_classes(["no", "yes"]).tolist()
    ['no', 'yes']
    """
    if isinstance(classes, str) and classes == PUBLIC:
        return None
    hint = "declare them all: that somebody has a rare label is private; or state classes='public' if it is not"
    if classes is None or isinstance(classes, str) or np.ndim(classes) != 1:
        raise InvalidParameter("classes", classes, "a list of at least two labels", hint)
    known = np.unique(labels(np.asarray(classes), len(classes)))
    if len(known) < 2:
        raise InvalidParameter("classes", classes, "at least two different labels")
    return known


def public_classes(found: NDArray[Any]) -> NDArray[Any]:
    """The labels that occur."""
    known = np.unique(found)
    if len(known) < 2:
        raise InvalidData("y: the number of classes has to be greater than one; got 1 class")
    return known


def places(found: NDArray[Any], known: NDArray[Any]) -> NDArray[np.int64]:
    """The position of each label among the classes.

    >>> places(np.array(["b", "a"]), np.array(["a", "b"])).tolist()
    [1, 0]
    """
    if (found.dtype.kind in "SU") != (known.dtype.kind in "SU"):
        raise InvalidData("y: labels and declared classes are of different kinds: text and numbers")
    at = np.minimum(np.searchsorted(known, found), len(known) - 1)
    odd = np.flatnonzero(known[at] != found)
    if len(odd):
        raise InvalidData(f"y: the label at position {int(odd[0])} is not among the declared classes")
    return at.astype(np.int64)
