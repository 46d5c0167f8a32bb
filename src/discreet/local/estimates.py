"""From the tally of a survey's reports to the shares of its answers, with limits."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import Number, integer
from discreet.local.areas import Integers
from discreet.local.flat import FlatResponse
from discreet.local.frequencies import Floats
from discreet.local.hashing import HashingModel, OptimizedHashing
from discreet.local.models import DenseModel, FlatModel, Model
from discreet.local.places import PlanarReport
from discreet.local.stores import Counts
from discreet.local.survey import Survey
from discreet.mechanisms.mechanism import doubt

Method = Literal["inversion", "ibu", "smoothed"]

_PLAIN_STEPS = 500  # of IBU on maps: the number that claim C8 was measured with
_MANY_CELLS = 40_000  # beyond that maps take fewer, longer steps
_FAST_STEPS = 40


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """The estimated shares of the answers, in the order of the domain, with limits where they were asked for.

    Limits hold for all answers together at this confidence. `noisy` is, for places, the map of the reports themselves.
    Shares by inversion are unbiased, so they may be negative; those by IBU are a distribution.
    """

    survey: Survey
    method: Method
    reports: int
    shares: Floats
    low: Floats | None = None
    high: Floats | None = None
    confidence: Number | None = None
    noisy: Floats | None = None
    counts: Counts | None = None

    def rows(self) -> Iterator[dict[str, Any]]:
        """One for each answer (for places, each cell, with its middle): label, share, low, high."""
        names = _columns(self.survey)
        for place, share in enumerate(self.shares.tolist()):
            row = {name: column[place] for name, column in names.items()} | {"share": share}
            if self.low is not None and self.high is not None:
                row |= {"low": float(self.low[place]), "high": float(self.high[place])}
            yield row

    def to_json(self) -> dict[str, Any]:
        """The estimate as a document."""
        head = {"survey": self.survey.digest, "method": self.method, "reports": self.reports}
        counted = {} if self.counts is None else {"rejected": self.counts.reasons}
        sure = {} if self.confidence is None else {"confidence": str(self.confidence)}
        return head | counted | sure | {"answers": list(self.rows())}


def estimate(
    survey: Survey,
    tally: ArrayLike,
    *,
    reports: int,
    confidence: Number | None,
    method: Method | None = None,
    iterations: int | None = None,
) -> Estimate:
    """The shares of the answers from a tally of so many reports; without a confidence, without limits.

    "inversion" is unbiased, with limits that are proven for any number of reports (for lists of answers; the default).
    "ibu" is the most likely distribution, for maps after 500 plain iterations (their default), with limits by the
    bootstrap, which do not cover the bias of smoothing.

    >>> survey = Survey(name="coin", version=1, question="Heads?", domain=["no", "yes"], randomizer="flat",
    ...                 epsilon="ln 3", times=1)
    >>> estimate(survey, [6000, 4000], reports=10_000, confidence="0.95").shares.round(6).tolist()
    [0.7, 0.3]
    """
    count = integer(reports, "reports", at_least=0)
    if not count:
        raise InvalidData("reports: there are none of this survey yet, so there is nothing to estimate from")
    if method not in ("inversion", "ibu", "smoothed", None):
        raise InvalidParameter("method", method, "'inversion', 'ibu' or 'smoothed'")
    if method == "smoothed" and (not survey.places or confidence is not None):
        raise InvalidParameter("method", method, "a survey of places, and no confidence: a smoothed map has no limits")
    if confidence is not None:
        doubt(confidence)
    randomizer = survey.randomizes()
    if isinstance(randomizer, PlanarReport):
        return _estimate_places(survey, randomizer, np.asarray(tally), count, confidence, method or "ibu", iterations)
    if method == "ibu":
        return _by_ibu(survey, _model(survey), np.asarray(tally), count, confidence, iterations)
    found = randomizer.estimate(tally, reports=count)
    low, high = (None, None) if confidence is None else found.interval(confidence)
    return Estimate(survey, "inversion", count, found.shares, low, high, confidence)


# Estimating


def _estimate_places(
    survey: Survey,
    planar: PlanarReport,
    tally: Integers,
    reports: int,
    confidence: Number | None,
    method: Method,
    iterations: int | None,
) -> Estimate:
    noisy = planar.inside(tally) / max(reports, 1)
    if method == "smoothed":
        from discreet.local.smoothing import smoothed

        return Estimate(survey, method, reports, smoothed(planar, tally).shares, noisy=noisy)
    if method == "ibu":
        return _by_ibu(survey, planar.model(), tally, reports, confidence, iterations, noisy)
    from discreet.local.bootstrap import bootstrap
    from discreet.local.inversion import invert

    model = planar.model()
    shares = np.asarray(invert(model, tally), np.float64)
    if confidence is None:
        return Estimate(survey, method, reports, shares, noisy=noisy)
    found = bootstrap(model, tally, confidence=confidence, method="inversion", replicates=_replicates(confidence))
    return Estimate(survey, method, reports, shares, found.low, found.high, confidence, noisy)


def _by_ibu(
    survey: Survey,
    model: Model,
    tally: Integers,
    reports: int,
    confidence: Number | None,
    iterations: int | None,
    noisy: Floats | None = None,
) -> Estimate:
    """Maps: few plain steps, which smooth. Lists: until the likelihood stands still; there is little to smooth."""
    from discreet.local.bootstrap import bootstrap
    from discreet.local.ibu import ibu

    quick = noisy is None or survey.area.size > _MANY_CELLS
    steps = iterations if iterations is not None else (_FAST_STEPS if quick and noisy is not None else _PLAIN_STEPS)
    found = ibu(model, tally, iterations=steps, accelerate=quick, memory=2, stop="gain" if noisy is None else None)
    if confidence is None:
        return Estimate(survey, "ibu", reports, found.shares, noisy=noisy)
    taken = max(found.iterations, 1)
    limits = bootstrap(
        model, tally, confidence=confidence, iterations=taken, accelerate=quick, replicates=_replicates(confidence)
    )
    low, high = np.clip(limits.low, 0, 1), np.clip(limits.high, 0, 1)
    return Estimate(survey, "ibu", reports, found.shares, low, high, confidence, noisy)


def _model(survey: Survey) -> Model:
    oracle = survey.oracle()
    if isinstance(oracle, FlatResponse):
        return FlatModel(truth=oracle.truth, other=oracle.other, size=oracle.size)
    if isinstance(oracle, OptimizedHashing):
        return HashingModel(oracle)
    if oracle.randomize([]).ndim > 1:
        raise InvalidParameter("method", "ibu", f"'inversion' for {survey.randomizer!r}, whose reports are sets")
    return DenseModel(oracle.channel())


def _replicates(confidence: Number) -> int:
    return max(200, ceil(1 / doubt(confidence)))


def _columns(survey: Survey) -> dict[str, list[Any]]:
    """What names the rows of an estimate."""
    if not survey.places:
        return {"answer": list(survey.labels)}
    middles = survey.area.centers()
    where = {"x_km": middles[:, 0].tolist(), "y_km": middles[:, 1].tolist()}
    if survey.area.center is not None:
        latitude, longitude = survey.area.unproject(middles)
        where = {"latitude": latitude.tolist(), "longitude": longitude.tolist()} | where
    return {"cell": list(range(survey.area.size))} | where
