"""Reading probabilities: matrices, priors and losses, exact (Fractions) or float64.

One rule for all of them. If any entry is a float the whole is float64; otherwise (ints, Fractions, Decimals,
texts such as "0.25" or "1/3") every entry is kept as an exact Fraction in an object array. What is done with
two of them is exact if both are.
"""

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidChannel, InvalidParameter
from discreet.exact import Number, plain, rational

Label = Hashable
Matrix = NDArray[Any]
Rows = Sequence[Sequence[Number]] | NDArray[Any]
Prior = Mapping[Any, Number] | Sequence[Number] | NDArray[Any] | str
LossFunction = Callable[[Any, Any], Number] | Rows

FLOAT_TOLERANCE = 1e-9
_LONGEST_RATIO = 10_000
_LEAST_FLOAT = 2.0**-1022  # below it a float loses digits, then becomes 0
_TOO_SMALL = (
    "an entry is too small for a float, which would read it as 0; keep the channel exact: "
    "entries as texts or Fractions, rows that sum to exactly 1"
)


def read_labels(labels: Iterable[Label] | None, size: int, kind: str) -> tuple[Label, ...]:
    """Names for `size` inputs or outputs; 0, 1, 2, … where none are given.

    >>> read_labels(["yes", "no"], 2, "input"), read_labels(None, 2, "output")
    (('yes', 'no'), (0, 1))
    """
    if labels is None:
        return tuple(range(size))
    if isinstance(labels, str) or not isinstance(labels, Iterable):
        raise InvalidChannel(f"{kind}s: got {labels!r}, expected a list of {size} labels")
    names = tuple(label.item() if isinstance(label, np.generic) else label for label in labels)
    if len(names) != size:
        raise InvalidChannel(f"{kind}s: got {len(names)} labels, expected {size}, one for each {kind}")
    seen: set[Label] = set()
    for name in names:
        if not _hashable(name):
            raise InvalidChannel(f"{kind} {name!r} cannot be a label; use a text, a number or a tuple of them")
        if name in seen:
            raise InvalidChannel(f"{kind} {name!r} appears twice; give each {kind} its own label")
        seen.add(name)
    return names


def position(label: object, labels: tuple[Label, ...], kind: str) -> int:
    """Where a label stands: by equality, else by its text (files hold texts, code often holds numbers).

    >>> position(51, (50, 51), "input"), position("51", (50, 51), "input")
    (1, 1)
    >>> position("yse", ("yes", "no"), "input")
    Traceback (most recent call last):
    discreet.errors.InvalidChannel: unknown input 'yse'; did you mean 'yes'?
    """
    return positions([label], labels, kind)[0]


def positions(wanted: Iterable[Any], labels: tuple[Label, ...], kind: str) -> list[int]:
    """The position of each wanted label; see `position`.

    >>> positions(["b", "a"], ("a", "b", "c"), "input")
    [1, 0]
    """
    exact = {label: i for i, label in enumerate(labels)}
    meant: dict[int, Any] = {}
    by_text: dict[str, list[int]] = {}
    for i, label in enumerate(labels):
        by_text.setdefault(str(label), []).append(i)
    results = []
    for label in wanted:
        here = [exact[label]] if _hashable(label) and label in exact else by_text.get(str(label), [])
        if len(here) != 1:
            raise InvalidChannel(_unknown(label, list(by_text), kind))
        if meant.setdefault(here[0], label) != label:
            raise InvalidChannel(f"{kind}: {meant[here[0]]!r} and {label!r} both read as {labels[here[0]]!r}; name one")
        results += here
    return results


def read_matrix(
    rows: object, inputs: Iterable[Label] | None, outputs: Iterable[Label] | None
) -> tuple[Matrix, tuple[Label, ...], tuple[Label, ...]]:
    """A rectangular matrix of finite numbers, exact or float64, with its labels; signs and sums unchecked.

    >>> read_matrix([["1/3", "2/3"]], None, None)[0]
    array([[Fraction(1, 3), Fraction(2, 3)]], dtype=object)
    """
    table = _table(rows)
    width = len(table[0])
    names = read_labels(inputs, len(table), "input")
    for name, row in zip(names, table, strict=True):
        if len(row) != width:
            raise InvalidChannel(f"row {name!r} has {len(row)} entries, expected {width} as in the first row")
    columns = read_labels(outputs, width, "output")
    return _numbers(table, lambda i, j: f"row {names[i]!r}, column {columns[j]!r}"), names, columns


def read_prior(prior: Prior, labels: tuple[Label, ...]) -> Matrix:
    """A probability for each label: a mapping (absent means 0), a list in their order, or "uniform".

    >>> read_prior({"a": "1/4", "b": "3/4"}, ("a", "b", "c"))
    array([Fraction(1, 4), Fraction(3, 4), Fraction(0, 1)], dtype=object)
    """
    if isinstance(prior, str):
        if prior != "uniform":
            raise InvalidChannel(f"prior: got {prior!r}, expected 'uniform', a list or a mapping of probabilities")
        return np.full(len(labels), Fraction(1, len(labels)), dtype=object)
    entries: list[Any] = [0] * len(labels)
    if isinstance(prior, Mapping):
        for i, value in zip(positions(prior, labels, "input"), prior.values(), strict=True):
            entries[i] = value
    elif isinstance(prior, Sequence) or np.ndim(prior) == 1:
        entries = list(prior)
    else:
        raise InvalidChannel("prior: expected a list of probabilities, a mapping from inputs to them, or 'uniform'")
    if len(entries) != len(labels):
        raise InvalidChannel(f"prior: got {len(entries)} probabilities, expected {len(labels)}, one for each input")
    values = _numbers([entries], lambda _, j: f"prior of {labels[j]!r}")
    check_rows(values, lambda _: "the prior", labels, remedy="correct it")
    return values[0]  # type: ignore[no-any-return]


def read_loss(loss: LossFunction, inputs: tuple[Label, ...], outputs: tuple[Label, ...]) -> Matrix:
    """A loss ℓ(input, output) for each pair, from a function of the labels or from a matrix.

    >>> read_loss(lambda y, z: abs(y - z), (0, 1), (0, 1, 2)).tolist()[0]
    [Fraction(0, 1), Fraction(1, 1), Fraction(2, 1)]
    """
    table: object = [[loss(y, z) for z in outputs] for y in inputs] if callable(loss) else loss
    try:
        return read_matrix(table, inputs, outputs)[0]
    except InvalidChannel as error:
        raise InvalidChannel(f"loss: {error}") from None


def check_rows(
    matrix: Matrix,
    name: Callable[[int], str],
    outputs: Sequence[Label],
    *,
    remedy: str = "correct it, or pass normalize=True (--normalize) to divide each row by its sum",
) -> None:
    """Refuse rows that are not probability distributions, naming the first one.

    >>> check_rows(np.array([[0.5, 0.4]]), lambda i: f"row {i}", ("a", "b"))
    Traceback (most recent call last):
    discreet.errors.InvalidChannel: row 0 sums to 0.9, expected 1 (to 1e-9); correct it, or pass normalize=True ...
    """
    negative = np.argwhere(matrix < 0)
    if len(negative):
        i, j = negative[0]
        raise InvalidChannel(
            f"{name(int(i))} has {_text(matrix[i, j])} for {outputs[j]!r}, expected a probability; "
            "write 0 where an outcome cannot happen"
        )
    sums = matrix.sum(axis=1)
    exact = matrix.dtype == object
    wrong = np.flatnonzero(sums != 1 if exact else np.abs(sums - 1) > FLOAT_TOLERANCE)
    if len(wrong):
        i = wrong[0]
        raise InvalidChannel(
            f"{name(int(i))} sums to {_text(sums[i])}, expected {'exactly 1' if exact else '1 (to 1e-9)'}; {remedy}"
        )


def normalized(matrix: Matrix, name: Callable[[int], str]) -> Matrix:
    """Each row divided by its sum.

    >>> normalized(np.array([[Fraction(1), Fraction(3)]]), lambda i: f"row {i}")
    array([[Fraction(1, 4), Fraction(3, 4)]], dtype=object)
    """
    with np.errstate(over="ignore"):
        sums = matrix.sum(axis=1)
    for i, total in enumerate(sums):
        if not 0 < total < math.inf:
            remedy = "give it some weight" if not total > 0 else "give smaller weights"
            raise InvalidChannel(f"{name(i)} sums to {_text(total)} and cannot be normalized; {remedy}")
    return _without_underflow(np.divide, matrix, sums[:, None])


def alike(*arrays: Matrix) -> list[Matrix]:
    """The same arrays, all exact or all float64.

    >>> alike(np.array([Fraction(1, 2)]), np.array([0.25]))
    [array([0.5]), array([0.25])]
    """
    if all(array.dtype == object for array in arrays):
        return list(arrays)
    return [as_floats(array) for array in arrays]


def as_floats(array: Matrix) -> Matrix:
    """Exact entries as float64, refused where a float cannot hold one.

    A probability that became 0 would hide a likelihood ratio, and the channel would seem more private than it is.

    >>> as_floats(np.array([Fraction(1, 10**400)]))
    Traceback (most recent call last):
    discreet.errors.InvalidChannel: an entry is too small for a float, which would read it as 0; ...
    """
    try:
        result: Matrix = array.astype(np.float64)
    except OverflowError:
        raise InvalidChannel("an entry is too large for a float; keep all entries exact (texts, Fractions)") from None
    if array.dtype == object:
        entries = array.ravel()
        if any(entries[k] for k in np.flatnonzero(np.abs(result) < _LEAST_FLOAT)):
            raise InvalidChannel(_TOO_SMALL)
    return result


def times(a: Matrix, b: Matrix) -> Matrix:
    """Entry by entry a·b, refused where a product of floats is too small for a float; see `as_floats`.

    >>> times(np.array([1e-200]), np.array([1e-200]))
    Traceback (most recent call last):
    discreet.errors.InvalidChannel: an entry is too small for a float, which would read it as 0; ...
    """
    return _without_underflow(np.multiply, a, b)


def product(a: Matrix, b: Matrix) -> Matrix:
    """Matrix product; for exact entries only over the non-zero entries of b, which functions have few of.

    >>> product(np.array([[0.5, 0.5]]), np.array([[1.0, 0.0], [0.0, 1.0]]))
    array([[0.5, 0.5]])
    """
    if a.dtype != object:
        in_floats: Matrix = a @ b
        if ((in_floats < _LEAST_FLOAT) & ((a > 0).astype(np.float64) @ (b > 0) > 0)).any():
            raise InvalidChannel(_TOO_SMALL)
        return in_floats
    result = np.full((a.shape[0], b.shape[1]), Fraction(0), dtype=object)
    for k, z in zip(*np.nonzero(b), strict=True):
        result[:, z] += a[:, k] * b[k, z]
    return result


def _without_underflow(operation: np.ufunc, a: Matrix, b: Matrix) -> Matrix:
    try:
        with np.errstate(under="raise"):
            return operation(a, b)  # type: ignore[no-any-return]
    except FloatingPointError:
        raise InvalidChannel(_TOO_SMALL) from None


def _table(rows: object) -> list[Any]:
    """The rows as a list of lists (or the float array itself), neither empty nor of another shape."""
    if not isinstance(rows, Sequence | np.ndarray) and hasattr(rows, "__array__"):
        rows = np.asarray(rows)
    if isinstance(rows, np.ndarray):
        if rows.ndim != 2:
            raise InvalidChannel(f"matrix: got {rows.ndim} dimensions, expected 2: rows are inputs, columns outputs")
        rows = rows.tolist()
    if isinstance(rows, str) or not isinstance(rows, Sequence):
        raise InvalidChannel(f"matrix: got a {type(rows).__name__}, expected a list of rows")
    for i, row in enumerate(rows):
        if isinstance(row, str) or not isinstance(row, Sequence | np.ndarray):
            raise InvalidChannel(f"matrix: row {i} is a {type(row).__name__}, expected a list of probabilities")
    table = [row.tolist() if isinstance(row, np.ndarray) else list(row) for row in rows]
    if not table or not table[0]:
        raise InvalidChannel("matrix: it is empty; a channel has at least one input (row) and one output (column)")
    return table


def _numbers(table: list[list[Any]], where: Callable[[int, int], str]) -> Matrix:
    """Finite numbers, as float64 if any of them is a float, else as exact Fractions."""
    kinds = {type(value) for row in table for value in row}
    if kinds <= {float, int} and float in kinds:
        return _finite(as_floats(np.array(table, dtype=np.float64 if kinds == {float} else object)), where)
    texts: dict[str, Fraction] = {}
    is_float = any(issubclass(kind, float | np.floating) for kind in kinds)
    result = np.empty((len(table), len(table[0])), dtype=object)
    for i, row in enumerate(table):
        for j, value in enumerate(row):
            if isinstance(value, float | np.floating):
                result[i, j] = value
            elif isinstance(value, str):
                if value not in texts:
                    texts[value] = _number(value, where, i, j)
                result[i, j] = texts[value]
            else:
                result[i, j] = _number(value, where, i, j)
    return _finite(as_floats(result), where) if is_float else result


def _finite(result: Matrix, where: Callable[[int, int], str]) -> Matrix:
    wrong = np.argwhere(~np.isfinite(result))
    if len(wrong):
        i, j = (int(k) for k in wrong[0])
        raise InvalidChannel(f"{where(i, j)}: got {result[i, j]}, expected a finite number")
    return result


def _number(value: Any, where: Callable[[int, int], str], i: int, j: int) -> Fraction:
    if isinstance(value, Fraction):
        return value
    if isinstance(value, str) and 200 < len(value) <= _LONGEST_RATIO:  # an exact channel written by `to_csv`
        top, slash, bottom = value.strip().partition("/")
        if slash and top.isdecimal() and bottom.isdecimal() and max(len(top), len(bottom)) < 4300 and int(bottom):
            return Fraction(int(top), int(bottom))
    try:
        return rational(value, "entry")
    except InvalidParameter as error:
        got = "an empty cell" if isinstance(value, str) and not value.strip() else f"{value!r:.80}"
        hint = error.hint or "write it as 0.25, 1e-6 or 1/4"
        raise InvalidChannel(f"{where(i, j)}: got {got}, expected a number; {hint}") from None


def _hashable(label: object) -> bool:
    try:
        hash(label)
    except TypeError:
        return False
    return True


def _text(value: Any) -> str:
    if not isinstance(value, Fraction):
        return f"{float(value):.12g}"
    text = plain(value)
    return text if len(text) <= 40 else f"about {float(value):.12g}"


def _unknown(label: object, texts: list[str], kind: str) -> str:
    close = get_close_matches(str(label), texts[:10_000], n=1)
    listed = ", ".join(repr(text) for text in texts[:8]) + (", …" if len(texts) > 8 else "")
    return f"unknown {kind} {label!r}; " + (f"did you mean {close[0]!r}?" if close else f"expected one of {listed}")
