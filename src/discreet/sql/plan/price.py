"""Which noise: from the ε that an analyst states, or from the error that an analyst wants.

The ε that is stated is the total for everything that is asked together. It is shared equally among the measures and
the selections of keys, or by weights that are stated. With a δ, Gaussian noise is considered beside geometric noise,
and taken where it is smaller.
"""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from math import ceil, floor, log, prod

from discreet.errors import InternalError, InvalidParameter, InvalidQuery, NoGuarantee
from discreet.exact import Number, plain, rational
from discreet.mechanisms.additive import Geometric
from discreet.mechanisms.gaussian import RoundedGaussian
from discreet.mechanisms.mechanism import failure_probability
from discreet.mechanisms.partitions import OptimalSelection
from discreet.mechanisms.quantile import GroupedQuantile
from discreet.mechanisms.selection import GroupedMode
from discreet.privacy.accounting.rounding import decimal_up
from discreet.privacy.unit import Neighbors
from discreet.sql.after.interval_rules import AddedNoise
from discreet.sql.algebra import relations
from discreet.sql.algebra.relations import Aggregate, Bound, Frequencies, Group
from discreet.sql.algebra.rules import Bin, Direct, Draft, Named, Rank, Spread
from discreet.sql.release.release import Choice, Noise, Release, Tally, Top

_JUDGED_AT = Fraction(95, 100)
_WIDEST = 2**52
"""Steps of the widest noise that a mechanism accepts."""
_LARGEST_SHOWN = 10**30
_IN_TWO_STEPS = "state epsilon too, the most that a first release of sizes and a second one may cost together"


def is_relative(error: Number | None) -> bool:
    """Whether an error is a share of the answer: 5%."""
    return isinstance(error, str) and error.strip().endswith("%")


def by_epsilon(
    drafts: Sequence[Draft], neighbors: Neighbors, *, epsilon: Number, delta: Number | None, confidence: Number,
    weights: Sequence[Fraction] = (),
) -> tuple[Release, ...]:  # fmt: skip
    """The releases that cost ε (and at most δ) in all, with the smaller noise of the two kinds.

    `weights`: of the aggregates of one draft; then noise is geometric.
    """
    total = rational(epsilon, "epsilon", above=0)
    extra = None if delta is None else rational(delta, "delta", above=0, below=1)
    parts = shares_of(drafts)
    if not parts:
        raise InvalidQuery("nothing is measured here", "ask for COUNT, SUM or AVG")
    share = total / parts
    each = _shared(extra, drafts)
    if weights:
        return (_weighted(drafts[0], neighbors, total, weights, each, confidence),)
    chosen = [_choices(draft, neighbors, [share] * len(draft.targets), confidence) for draft in drafts]
    counted = [_tallies(draft, neighbors, [share] * len(draft.tallies)) for draft in drafts]
    named = [_tops(draft, neighbors, [share] * len(draft.tops)) for draft in drafts]
    pure = [_geometric(draft, neighbors, [share] * len(draft.measures), share, each) for draft in drafts]
    normal = None if extra is None else _gaussian(drafts, neighbors, total, share, extra)
    releases = normal if normal is not None and _wider(pure, normal) else pure
    parts_of_each = zip(releases, chosen, counted, named, strict=True)
    return tuple(
        replace(release, choices=some, tallies=counts, tops=tops) for release, some, counts, tops in parts_of_each
    )


def shares_of(drafts: Sequence[Draft]) -> Fraction:
    """Into how many equal shares ε is divided."""
    return sum(len(draft.measures) for draft in drafts) + _selections(drafts) + _quantiles(drafts)


def _weighted(
    draft: Draft, neighbors: Neighbors, total: Fraction, weights: Sequence[Fraction], delta: Fraction | None,
    confidence: Number,
) -> Release:  # fmt: skip
    """The release of one draft, in which what an aggregate is made of has its part of ε by the aggregate's weight.

    What several are made of has the largest of their weights; the selection of keys has their mean. Guarantee: the ε's
    add up to the total. Proof. Each part has total·w/Σw, a quantile's targets the shares of one w.
    """
    mean = sum(weights, Fraction(0)) / len(weights)
    given = (*weights, *[mean] * (len(draft.calls) - len(weights)))  # a count that was asked for beside them
    users = list(zip(draft.derived, given, strict=True))

    def largest(*uses: Fraction) -> Fraction:
        return max(uses, default=mean)

    measures = [largest(*(w for d, w in users if i in d.indices)) for i in range(len(draft.measures))]
    ranked = [(d, w) for d, w in users if isinstance(d, Rank)]
    targets = [largest(*(w for d, w in ranked if i in (d.target, d.low, d.high))) for i in range(len(draft.targets))]
    bins = [largest(*(w for d, w in users if isinstance(d, Bin) and d.tally == i)) for i in range(len(draft.tallies))]
    named = [largest(*(w for d, w in users if isinstance(d, Named) and d.top == i)) for i in range(len(draft.tops))]
    naming = largest() * _selections([draft])
    halves = [weight * target.share for weight, target in zip(targets, draft.targets, strict=True)]
    unit = total / sum((*measures, *halves, *bins, *named, naming), Fraction(0))
    release = _geometric(draft, neighbors, [unit * w for w in measures], unit * naming, delta)
    return replace(
        release,
        choices=_choices(draft, neighbors, [unit * w for w in targets], confidence),
        tallies=_tallies(draft, neighbors, [unit * w for w in bins]),
        tops=_tops(draft, neighbors, [unit * w for w in named]),
    )


def by_error(
    drafts: Sequence[Draft], neighbors: Neighbors, *, error: Number, confidence: Number, delta: Number | None,
    totals: Sequence[int],
) -> tuple[Release, ...]:  # fmt: skip
    """The releases of least ε whose counts and sums are within the error, each with this confidence.

    `totals`: of how many groups of each draft the largest total is made that is asked for, which is within it too.

    So are the counts of a histogram; and a value that is named as one of the most frequent occurs at most that much
    less often. The error of a mean depends on how many rows there are, so it cannot be promised.
    """
    wanted = rational(error, "error", above=0)
    extra = None if delta is None else rational(delta, "delta", above=0, below=1)
    releases = []
    for draft, added in zip(drafts, totals, strict=True):
        widths = _widths(draft, wanted)
        epsilons = [
            _least(relations.sensitivity_of(measure, _bound(draft), neighbors).l1, width, confidence, added)
            for measure, width in zip(draft.measures, widths, strict=True)
        ]
        if draft.targets:
            raise InvalidQuery("the error of a quantile depends on the data, so none can be promised", _IN_TWO_STEPS)
        binned, named = _least_of_counts(draft, neighbors, wanted, confidence)
        every = [*epsilons, *binned, *named]
        if not every:
            raise InvalidQuery("nothing here has an error", "ask for COUNT or SUM, or state epsilon")
        each = _shared(extra, drafts)
        release = _geometric(draft, neighbors, epsilons, sum(every, Fraction(0)) / len(every), each)
        counts, tops = _tallies(draft, neighbors, binned), _tops(draft, neighbors, named)
        releases.append(replace(release, tallies=counts, tops=tops))
    return tuple(releases)


def _least_of_counts(
    draft: Draft, neighbors: Neighbors, wanted: Fraction, confidence: Number
) -> tuple[list[Fraction], list[Fraction]]:
    """The least ε's at which each histogram, and each list of frequent values, is within the error, in counts."""
    if not draft.tallies and not draft.tops:
        return [], []
    width, size = _width(wanted, Fraction(1)), relations.tally_sensitivity(_bound(draft), neighbors)
    binned = [_least(size, width, confidence)] * len(draft.tallies)
    named = []
    for index, places in draft.tops:
        choice = GroupedMode(epsilon=1, points=draft.distributions[index].points, places=places, sensitivity=size)
        named.append(decimal_up(Fraction(choice.interval(confidence)) / width, 4))  # its error is ∝ 1/ε
    return binned, named


def total(releases: Sequence[Release], *, epsilon: Number | None, delta: Number | None) -> tuple[Fraction, Fraction]:
    """ε and δ of all releases together: sums where noise is geometric; what was stated where Gaussian noise fits it.

    Guarantee: everything released is (ε, δ)-DP. Proof. Geometric noise and selections compose by adding ε's and δ's.
    Gaussian noise was fitted to what is left of the stated ε and δ after the selections and the quantiles
    (`_gaussian`), and adding them gives what was stated.
    """
    named = [release.selection for release in releases if release.selection is not None]
    noises = [noise for release in releases for noise in release.noises]
    if any(isinstance(noise, RoundedGaussian) for noise in noises):
        return rational(epsilon or 0, "epsilon", above=0), rational(delta or 0, "delta", above=0)
    pure = sum((noise.epsilon for noise in noises if isinstance(noise, Geometric)), Fraction(0))
    pure += sum((tally.noise.epsilon for release in releases for tally in release.tallies), Fraction(0))
    pure += sum((top.mechanism.epsilon for release in releases for top in release.tops), Fraction(0))
    pure += sum((choice.mechanism.epsilon for release in releases for choice in release.choices), Fraction(0))
    return pure + sum(selection.epsilon for selection in named), sum(
        (selection.delta for selection in named), Fraction(0)
    )


def _widths(draft: Draft, wanted: Fraction) -> list[int]:
    """The error that each measure may have, in steps."""
    widths: dict[int, int] = {}
    for derived in draft.derived:
        if isinstance(derived, Rank | Bin | Named):
            continue
        if not isinstance(derived, Direct):
            what = f"the {derived.statistic}" if isinstance(derived, Spread) else "AVG"
            problem = f"the error of {what} depends on how many rows there are, so none can be promised"
            raise InvalidQuery(problem, _IN_TWO_STEPS)
        widths[derived.measure] = _width(wanted, derived.step)
    return [widths[index] for index in range(len(draft.measures))]


def _width(wanted: Fraction, step: Fraction) -> int:
    """An error in steps."""
    width = floor(wanted / step)
    if width > _WIDEST:
        got = plain(wanted) if wanted < _LARGEST_SHOWN else "more than 1e30"
        raise InvalidParameter("error", got, f"at most {plain(_WIDEST * step)}", "noise is never that wide")
    if width < 1:
        raise InvalidParameter("error", plain(wanted), f"at least {plain(step)}", "noise comes in steps of this size")
    return width


def _least(size: int, width: int, confidence: Number, added: int = 1) -> Fraction:
    """The least ε, to 4 digits, at which geometric noise for this sensitivity stays within the width.

    P(|noise| > w) = 2q^(w+1)/(1+q) with q = e^(−ε/Δ) falls as ε grows; so bisect, then round up and make sure. Of the
    sum of several noises, the width at that ε says about where to look.
    """
    if added > 1:
        return _least_of_sums(size, width, confidence, added)
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


def _least_of_sums(size: int, width: int, confidence: Number, added: int) -> Fraction:
    """The same where so many noises are added: found by bisection, to a part in 1,000."""

    def fits(epsilon: Fraction) -> bool:
        return AddedNoise(Geometric(epsilon=epsilon, sensitivity=size), added).interval(confidence) <= width

    low = high = _least(size, width, confidence)
    while not fits(high):
        low, high = high, decimal_up(2 * high, 4)
    while high > low * Fraction(1001, 1000):
        middle = decimal_up((low + high) / 2, 4)
        if not low < middle < high:
            break
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


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
        apart = (naming + _quantiles(drafts)) * share
        multiplier = gaussian_multiplier(epsilon=epsilon - apart, delta=spare, method="analytic")
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


_TOGETHER = 4
"""Of so many numbers that are asked for together, the interval of an expression of all holds."""


def _choices(draft: Draft, neighbors: Neighbors, shares: Sequence[Fraction], confidence: Number) -> tuple[Choice, ...]:
    """The mechanism of each target: aimed beside the quantile by one rank more than its error at the confidence.

    A value of an expression of several numbers has a part of the failure probability: so ends are made for that.
    """
    failure = failure_probability(confidence) / min(_TOGETHER, max(1, len(draft.calls)))
    choices = []
    for target, share in zip(draft.targets, shares, strict=True):
        distribution = draft.distributions[target.distribution]
        if isinstance(distribution, Frequencies):
            raise InternalError("ranks of values without an order were priced")
        size = relations.rank_sensitivity(distribution, target.probability, _bound(draft), neighbors)
        settings = {"epsilon": share * target.share, "probability": target.probability, "sensitivity": size}
        straight = GroupedQuantile(**settings, points=distribution.points, shift=0)
        shift = target.side * (ceil(straight.interval(1 - failure / target.ends)) + 1)
        choices.append(Choice(target.distribution, replace(straight, shift=shift)))
    return tuple(choices)


def _quantiles(drafts: Sequence[Draft]) -> Fraction:
    """How many parts of the ε all quantiles and histograms have."""
    ranked = sum((target.share for draft in drafts for target in draft.targets), Fraction(0))
    return ranked + sum(len(draft.tallies) + len(draft.tops) for draft in drafts)


def _tallies(draft: Draft, neighbors: Neighbors, epsilons: Sequence[Fraction]) -> tuple[Tally, ...]:
    """All bins of a histogram are released together, with noise for what one unit moves in all of them."""
    size = relations.tally_sensitivity(_bound(draft), neighbors)
    return tuple(
        Tally(distribution, edges, Geometric(epsilon=epsilon, sensitivity=size))
        for (distribution, edges), epsilon in zip(draft.tallies, epsilons, strict=True)
    )


def _tops(draft: Draft, neighbors: Neighbors, epsilons: Sequence[Fraction]) -> tuple[Top, ...]:
    """Frequent values are chosen by counts, of which one unit moves all together by so much."""
    size = relations.tally_sensitivity(_bound(draft), neighbors)
    return tuple(
        Top(
            index,
            GroupedMode(epsilon=epsilon, points=draft.distributions[index].points, places=places, sensitivity=size),
        )
        for (index, places), epsilon in zip(draft.tops, epsilons, strict=True)
    )


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
    aggregate = Aggregate(_bound(draft), draft.measures, draft.distributions)
    return Release(aggregate, tuple(noises), selection, draft.derived)


def _bound(draft: Draft) -> Bound:
    if draft.bound is None:
        raise InternalError("a draft without bounds was priced")
    return draft.bound
