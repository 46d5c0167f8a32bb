"""What every frequency oracle is: a randomizer that runs on a person's device, and the estimator that fits it.

A domain is 0 … size−1; labels live in the survey. A report is one int64 code, or a row of int64 words; the collector
never needs more than `tally`, whole numbers that add up over batches, so a database can count them.

A report that could not have come from the randomizer is not an error of the collector: `valid` says which rows are
well-formed, `sift` drops and counts the others.
"""

from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import Number, integer, rational
from discreet.fields import Converted, Integer
from discreet.local.estimation.frequencies import Frequencies, Support, support_variance
from discreet.mechanisms.channel import Channel
from discreet.mechanisms.mechanism import countable, regular
from discreet.noise import Entropy
from discreet.privacy.loss import Loss, Pure

Integers = NDArray[np.int64]


class Oracle(Protocol):
    """A randomizer of one value of a finite domain, and the estimator that fits it. A frozen value."""

    @property
    def epsilon(self) -> Fraction:
        """What one report costs: ε-LDP."""
        ...

    @property
    def size(self) -> int:
        """How many values there are: 0 … size−1."""
        ...

    @property
    def loss(self) -> Loss:
        """`Pure(epsilon)`."""
        ...

    @property
    def report_width(self) -> int | None:
        """How many words a report has; None where it is one code."""
        ...

    @property
    def tally_size(self) -> int:
        """How many numbers a tally has."""
        ...

    def randomize(self, values: ArrayLike, *, entropy: Entropy | None = None) -> Integers:
        """One report for each value: codes of shape (n,), or rows of words of shape (n, report_width)."""
        ...

    def valid(self, reports: ArrayLike) -> NDArray[np.bool_]:
        """Which rows could be reports of this oracle at all."""
        ...

    def tally(self, reports: ArrayLike) -> Integers:
        """What the estimate needs to know of valid reports: whole numbers; tallies of batches add up."""
        ...

    def estimate(self, tally: ArrayLike, *, reports: int) -> Frequencies:
        """The unbiased shares of the values among those who reported."""
        ...

    def variance(self, share: float = 0.0) -> float:
        """The variance of one estimated share, times the number of reports: the n·MSE of the papers."""
        ...

    @property
    def influence(self) -> float:
        """One report, honest or not, moves no estimated share by more than influence/n."""
        ...

    def channel(self) -> Channel:
        """p(report | value) for small domains, in rationals."""
        ...


class Epsilon(Converted[Number, Fraction]):
    """The field `epsilon` of a randomizer; see `read_epsilon`."""

    def __init__(self) -> None:
        super().__init__(read_epsilon)


class Stated(Converted[int | None, int]):
    """A whole number that may be stated; 0 where it was not, for `__post_init__` to choose the best."""

    def __init__(self, *, at_least: int) -> None:
        def convert(value: int | None, name: str) -> int:
            return 0 if value is None else integer(value, name, at_least=at_least)

        super().__init__(convert, default=None)


class PureLDP:
    """Randomizers whose report is ε-LDP for the person's own value."""

    epsilon: Epsilon

    @property
    def loss(self) -> Loss:
        """ε-LDP for the person's own value."""
        return Pure(self.epsilon)


class CodeReports:
    """Reports that are one code each, 0 … codes − 1; a collector counts `SELECT report, count(*) … GROUP BY report`."""

    @property
    def codes(self) -> int:
        """How many different reports there are."""
        raise NotImplementedError

    @property
    def report_width(self) -> int | None:
        """None: a report is one code."""
        return None

    @property
    def tally_size(self) -> int:
        """A number for each code."""
        return self.codes

    def valid(self, reports: ArrayLike) -> NDArray[np.bool_]:
        """Which reports are codes."""
        return well_formed(reports, self.codes)

    def tally(self, reports: ArrayLike) -> Integers:
        """How many reports have each code."""
        countable(self.codes, "tally", most=1 << 28)
        return np.bincount(read_codes(reports, self.codes), minlength=self.codes).astype(np.int64, copy=False)


class SupportOracle(PureLDP):
    """Oracles whose reports support each value or not: the value's own with probability `truth`, others with `other`.

    Those are the "pure" protocols of Wang, Blocki, Li, Jha 2017; estimate and variance follow from the two numbers.
    """

    size: Integer

    @property
    def truth(self) -> Fraction:
        """The probability that a report supports the true value."""
        raise NotImplementedError

    @property
    def other(self) -> Fraction:
        """The probability that a report supports any given other value."""
        raise NotImplementedError

    @property
    def influence(self) -> float:
        """1/(truth − other): what one report can move an estimated share, times the number of reports."""
        return float(1 / (self.truth - self.other))

    def variance(self, share: float = 0.0) -> float:
        """The variance of one estimated share, times the number of reports, where the true share is `share`."""
        exact = rational(share, "share", at_least=0, at_most=1)
        return float(support_variance(float(exact), self.truth, self.other))

    def _frequencies(self, support: Integers, reports: int) -> Frequencies:
        return Support(support, reports, self.truth, self.other).frequencies()


def sift(oracle: Oracle, reports: ArrayLike) -> tuple[Integers, int]:
    """The well-formed reports, as int64, and how many were dropped.

    >>> from discreet.local.oracles.responses import KRR
    >>> sift(KRR(epsilon=1, size=3), [0, 2, 7, float("nan")])
    (array([0, 2]), 2)
    """
    rows = as_rows(reports)
    fine = oracle.valid(rows)
    shape = (-1,) if oracle.report_width is None else (-1, oracle.report_width)
    good = rows[fine]
    whole = np.array(good.tolist(), np.int64) if good.dtype.kind == "O" or not good.size else good.astype(np.int64)
    return whole.reshape(shape), int(fine.size - fine.sum())


# Reading what callers gave


def read_epsilon(epsilon: Number, name: str = "epsilon") -> Fraction:
    """ε from 1e-12 (below, a report says nothing that could be counted) to 1000 (above, it is a plain answer)."""
    return rational(epsilon, name, at_least=Fraction(1, 10**12), at_most=1000)


def read_values(values: ArrayLike, size: int) -> Integers:
    """Private values, each in {0 … size−1}, on one axis; a single one counts as a list of one."""
    array = np.atleast_1d(regular(values, "values"))
    if array.ndim == 1 and not array.size:
        return np.zeros(0, np.int64)
    if array.ndim != 1 or array.dtype.kind not in "biu" or array.min() < 0 or array.max() >= size:
        raise InvalidData(f"values: expected whole numbers from 0 to {size - 1} on one axis; number the answers first")
    return array.astype(np.int64)


def read_tally(tally: ArrayLike, cells: int, reports: int, *, total: int | None = None) -> tuple[Integers, int]:
    """Counts, one for each cell, none above the number of reports; where known, `total` in all for each report."""
    count = integer(reports, "reports", at_least=1, at_most=2**53)
    array = regular(tally, "tally")
    if array.dtype.kind not in "iu" or array.shape != (cells,):
        raise InvalidData(f"tally: expected {cells} whole numbers, as `tally` gives them")
    if array.min() < 0 or array.max() > count:
        raise InvalidData(f"tally: expected counts from 0 to {count}, the number of reports")
    counts = array.astype(np.int64)
    if total is not None and counts.sum() != total * count:
        raise InvalidParameter(
            "reports", reports, f"{counts.sum() / total:g}, as the tally says", "count valid reports"
        )
    return counts, count


def well_formed(reports: ArrayLike, below: int) -> NDArray[np.bool_]:
    """Which codes are whole numbers in {0 … below−1}; anything else (NaN, text, None, lists) is not."""
    array = as_rows(reports)
    if array.ndim != 1:
        return np.zeros(len(array), np.bool_)
    if array.dtype.kind in "iu":
        return np.asarray((array >= 0) & (array < below))
    if array.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            return np.asarray((array >= 0) & (array < below) & (array == np.floor(array)))
    return np.array([_is_code(code, below) for code in array.tolist()], np.bool_)


def read_codes(reports: ArrayLike, below: int) -> Integers:
    """Codes that were found well-formed, as int64."""
    array = as_rows(reports)
    if not well_formed(array, below).all():
        raise InvalidData(f"reports: expected codes from 0 to {below - 1}; drop the malformed ones first (`sift`)")
    return array.astype(np.int64)


def well_formed_rows(reports: ArrayLike, width: int) -> NDArray[np.bool_]:
    """Which rows are `width` whole numbers of 64 bits."""
    array = as_rows(reports)
    if array.dtype.kind == "O":
        return np.array([_is_row(row, width) for row in array], np.bool_)
    return np.full(len(array), array.shape[1:] == (width,) and array.dtype.kind in "iu")


def as_rows(reports: ArrayLike) -> NDArray[Any]:
    """An array with a row for each report, whatever the reports are.

    A list becomes an array of whole numbers or, if any report is not made of those, of objects, one for each report:
    so a malformed one does not change how NumPy reads the others.

    >>> as_rows([[1, 2], [3, "x"]]).tolist(), as_rows([[1, 2], [3, 4]]).shape
    ([[1, 2], [3, 'x']], (2, 2))
    """
    try:
        array = np.asarray(reports)
    except (ValueError, TypeError, OverflowError):  # ragged, or numbers beyond 64 bits
        array = np.empty(1, object)
    if array.ndim == 0:
        raise InvalidData("reports: got a single thing, expected a list of reports")
    if array.dtype.kind in "iu" or isinstance(reports, np.ndarray) or not array.size:
        return array
    given: Any = reports
    return np.fromiter(given, object, count=len(given))


def _is_code(code: object, below: int) -> bool:
    if isinstance(code, bool | np.bool_) or not isinstance(code, int | float | np.integer | np.floating):
        return False
    return bool(0 <= code < below and code == int(code))


def _is_row(row: object, width: int) -> bool:
    try:
        array = np.asarray(row.tolist() if isinstance(row, np.ndarray) else row)
    except (ValueError, TypeError, OverflowError):
        return False
    whole = array.dtype.kind == "i" or (array.dtype.kind == "u" and bool((array < 2**63).all()))
    return array.shape == (width,) and whole
