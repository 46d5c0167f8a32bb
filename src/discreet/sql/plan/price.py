"""Which noise: from the ε that an analyst states, or from the error that an analyst wants.

The ε that is stated is the total for everything that is asked together. It is shared equally among the measures and the
selections of keys. With a δ, Gaussian noise is considered beside geometric noise, and taken where it is smaller.
"""

from collections.abc import Sequence
from fractions import Fraction
from math import floor, log, prod

from discreet.errors import InternalError, InvalidParameter, InvalidQuery, NoGuarantee
from discreet.exact import Number, plain, rational
from discreet.mechanisms.additive import Geometric
from discreet.mechanisms.gaussian import RoundedGaussian
from discreet.mechanisms.mechanism import failure_probability
from discreet.mechanisms.partitions import OptimalSelection
from discreet.privacy.accounting.rounding import decimal_up
from discreet.privacy.unit import Neighbors
from discreet.sql.algebra import relations
from discreet.sql.algebra.relations import Aggregate, Bound, Group
from discreet.sql.algebra.rules import Direct, Draft
from discreet.sql.release.release import Noise, Release

_JUDGED_AT = Fraction(95, 100)
_WIDEST = 2**52
"""Steps of the widest noise that a mechanism accepts."""
_LARGEST_SHOWN = 10**30


def by_epsilon(
    drafts: Sequence[Draft], neighbors: Neighbors, *, epsilon: Number, delta: Number | None
) -> tuple[Release, ...]:
    """The releases that cost ε (and at most δ) in all, with the smaller noise of the two kinds."""
    total = rational(epsilon, "epsilon", above=0)
    extra = None if delta is None else rational(delta, "delta", above=0, below=1)
    parts = sum(len(draft.measures) for draft in drafts) + _selections(drafts)
    if not parts:
        raise InvalidQuery("nothing is measured here", "ask for COUNT, SUM or AVG")
    share = total / parts
    each = _shared(extra, drafts)
    pure = [_geometric(draft, neighbors, [share] * len(draft.measures), share, each) for draft in drafts]
    if extra is None:
        return tuple(pure)
    normal = _gaussian(drafts, neighbors, total, share, extra)
    return tuple(normal if normal is not None and _wider(pure, normal) else pure)


def by_error(
    drafts: Sequence[Draft], neighbors: Neighbors, *, error: Number, confidence: Number, delta: Number | None
) -> tuple[Release, ...]:
    """The releases of least ε whose counts and sums are within the error, each with this confidence.

    The error of a mean depends on how many rows there are, so it cannot be promised.
    """
    wanted = rational(error, "error", above=0)
    extra = None if delta is None else rational(delta, "delta", above=0, below=1)
    releases = []
    for draft in drafts:
        widths = _widths(draft, wanted)
        epsilons = [
            _least(relations.sensitivity_of(measure, _bound(draft), neighbors).l1, width, confidence)
            for measure, width in zip(draft.measures, widths, strict=True)
        ]
        naming = sum(epsilons, Fraction(0)) / len(epsilons) if epsilons else None
        if naming is None:
            raise InvalidQuery("nothing here has an error", "ask for COUNT or SUM, or state epsilon")
        each = _shared(extra, drafts)
        releases.append(_geometric(draft, neighbors, epsilons, naming, each))
    return tuple(releases)


def total(releases: Sequence[Release], *, epsilon: Number | None, delta: Number | None) -> tuple[Fraction, Fraction]:
    """ε and δ of all releases together: sums where noise is geometric; what was stated where Gaussian noise fits it.

    Guarantee: everything released is (ε, δ)-DP. Proof. Geometric noise and selections compose by adding ε's and δ's.
    Gaussian noise was fitted to what is left of the stated ε and δ after the selections (`_gaussian`), and adding the
    two gives what was stated.
    """
    named = [release.selection for release in releases if release.selection is not None]
    noises = [noise for release in releases for noise in release.noises]
    if any(isinstance(noise, RoundedGaussian) for noise in noises):
        return rational(epsilon or 0, "epsilon", above=0), rational(delta or 0, "delta", above=0)
    pure = sum((noise.epsilon for noise in noises if isinstance(noise, Geometric)), Fraction(0))
    return pure + sum(selection.epsilon for selection in named), sum(
        (selection.delta for selection in named), Fraction(0)
    )


def _widths(draft: Draft, wanted: Fraction) -> list[int]:
    """The error that each measure may have, in steps."""
    widths: dict[int, int] = {}
    for derived in draft.derived:
        if not isinstance(derived, Direct):
            hint = "ask for SUM and COUNT with an error, or state epsilon"
            raise InvalidQuery("the error of AVG depends on how many rows there are, so none can be promised", hint)
        width = floor(wanted / derived.step)
        if width > _WIDEST:
            got = plain(wanted) if wanted < _LARGEST_SHOWN else "more than 1e30"
            most = plain(_WIDEST * derived.step)
            raise InvalidParameter("error", got, f"at most {most}", "noise is never that wide")
        if width < 1:
            raise InvalidParameter(
                "error", plain(wanted), f"at least {plain(derived.step)}", "noise comes in such steps"
            )
        widths[derived.measure] = width
    return [widths[index] for index in range(len(draft.measures))]


def _least(size: int, width: int, confidence: Number) -> Fraction:
    """The least ε, to 4 digits, at which geometric noise for this sensitivity stays within the width.

    P(|noise| > w) = 2q^(w+1)/(1+q) with q = e^(−ε/Δ) falls as ε grows; so bisect, then round up and make sure.
    """
    tail = failure_probability(confidence)
    low, high = 0.0, log(2 / float(tail)) * size  # q^(w+1) ≤ tail/2 is enough
    for _ in range(200):
        middle = (low + high) / 2
        q = 2.718281828459045 ** (-middle / size)
        low, high = (middle, high) if 2 * q ** (width + 1) / (1 + q) > tail else (low, middle)
    epsilon = decimal_up(Fraction(high), 4)
    while Geometric(epsilon=epsilon, sensitivity=size).interval(confidence) > width:
        epsilon = decimal_up(epsilon * Fraction(1001, 1000), 4)
    return epsilon


def _geometric(
    draft: Draft, neighbors: Neighbors, epsilons: Sequence[Fraction], naming: Fraction, delta: Fraction | None
) -> Release:
    bound = _bound(draft)
    noises = [
        Geometric(epsilon=epsilon, sensitivity=relations.sensitivity_of(measure, bound, neighbors).l1)
        for measure, epsilon in zip(draft.measures, epsilons, strict=True)
    ]
    return _release(draft, noises, _selection(draft, neighbors, naming, delta))


def _gaussian(
    drafts: Sequence[Draft], neighbors: Neighbors, epsilon: Fraction, share: Fraction, delta: Fraction
) -> list[Release] | None:
    """Gaussian noise within (ε, δ): half of δ for it where keys are selected too, whose own ε and δ are set apart.

    Guarantee: n measures with a deviation of √n·m sensitivities each are together one Gaussian release of multiplier m
    (Dong, Roth, Su 2022, "Gaussian differential privacy", Corollary 3.3), and m is the least that is (ε, δ)-DP.
    """
    from discreet.privacy.calibration import gaussian_multiplier

    naming, measures = _selections(drafts), sum(len(draft.measures) for draft in drafts)
    if not measures:
        return None
    spare = delta / 2 if naming else delta
    try:
        multiplier = gaussian_multiplier(epsilon=epsilon - naming * share, delta=spare, method="analytic")
    except NoGuarantee:
        return None
    releases = []
    for draft in drafts:
        sizes = [relations.sensitivity_of(measure, _bound(draft), neighbors).l2_squared for measure in draft.measures]
        noises = [
            RoundedGaussian.for_multiplier(multiplier=multiplier, squared_sensitivity=size, among=measures)
            for size in sizes
        ]
        releases.append(_release(draft, noises, _selection(draft, neighbors, share, _shared(delta - spare, drafts))))
    return releases


def _wider(left: Sequence[Release], right: Sequence[Release]) -> bool:
    """Whether the first has the larger errors, as a geometric mean over all measures."""

    def size(releases: Sequence[Release]) -> Fraction:
        return prod(
            (Fraction(1 + noise.interval(_JUDGED_AT)) for r in releases for noise in r.noises), start=Fraction(1)
        )

    return size(left) > size(right)


def _selection(
    draft: Draft, neighbors: Neighbors, epsilon: Fraction, delta: Fraction | None
) -> OptimalSelection | None:
    bound = _bound(draft)
    if bound.source.size is not None:
        return None
    if delta is None:
        names = ", ".join(key.name for key in draft.keys if key.domain is None) or "so many declared values"
        raise InvalidQuery(
            f"the groups of {names} come from the data, and naming them privately needs a delta",
            "state a delta, say 1e-8, or let the policy declare the column's values",
        )
    return OptimalSelection(epsilon=epsilon, delta=delta, keys=relations.keys_changed(bound, neighbors))


def _shared(delta: Fraction | None, drafts: Sequence[Draft]) -> Fraction | None:
    """The δ of each selection of keys: all of them together have the one that was stated."""
    return None if delta is None or not _selections(drafts) else delta / _selections(drafts)


def _selections(drafts: Sequence[Draft]) -> int:
    return sum(Group(draft.rows, draft.keys).size is None for draft in drafts)


def _release(draft: Draft, noises: Sequence[Noise], selection: OptimalSelection | None) -> Release:
    return Release(Aggregate(_bound(draft), draft.measures), tuple(noises), selection, draft.derived)


def _bound(draft: Draft) -> Bound:
    if draft.bound is None:
        raise InternalError("a draft without bounds was priced")
    return draft.bound
