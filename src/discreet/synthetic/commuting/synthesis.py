"""A synthetic commuting map: as many people at each destination as there are, living somewhere else."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidData, NotAccepted
from discreet.exact import float_down
from discreet.mechanisms import Geometric
from discreet.noise import Entropy, bernoulli, rounded_gaussian
from discreet.noise.entropy import SYSTEM
from discreet.privacy.calibration import gaussian_multiplier
from discreet.synthetic.commuting.flows import Floats, Flows, Integers, Places, Scheme
from discreet.synthetic.commuting.urn import approximate_prior, draw, probabilistic_prior, pure_prior

Progress = Callable[[int, int], None]
"""Called with how many destinations are done, and how many there are."""


def synthesize(flows: Flows, scheme: Scheme, *, entropy: Entropy | None = None, each: Progress | None = None) -> Flows:
    """Synthetic flows with the same number of people at each destination.

    Guarantee: costs `scheme.loss` for its neighbors. Proof. What is done for a destination depends on its own people,
    on its total and on the noisy origins (weights); each of these is said below. Totals are public, or noisy.

    >>> from discreet.synthetic.commuting.flows import Flows, Places
    >>> from discreet.synthetic.commuting.flows import Scheme
    >>> from discreet.synthetic.commuting.synthesis import synthesize
    >>> towns = Places(["a", "b"], [[0.0, 0.0], [3.0, 4.0]])
    >>> made = synthesize(Flows(towns, [0, 1], [0, 0], [900, 100]), Scheme(epsilon=1))
    >>> made.total, made.destinations
    (1000, array([0]))
    """
    source = SYSTEM if entropy is None else entropy
    if not flows.total and scheme.neighbors is None:
        raise InvalidData("people: there are none")
    check(scheme, flows.places)
    if scheme.accept is None:
        return _candidate(flows, scheme, source, each)
    made = [_candidate(flows, scheme, source, each)]
    while not bernoulli(scheme.accept.stop, entropy=source):
        made.append(_candidate(flows, scheme, source, each))
    near = [_near(flows, candidate, scheme, source) for candidate in made]
    for candidate, accepted in zip(made, near, strict=True):
        if accepted:
            return candidate
    raise NotAccepted("no synthetic map was near enough to the true one; its ε is spent: allow more, or another method")


def check(scheme: Scheme, places: Places) -> None:
    """Refuse what cannot be made, before anybody's home is looked at.

    >>> from discreet.synthetic.commuting.flows import Scheme
    >>> check(Scheme(epsilon=1), Places(["a"], [[0.0, 0.0]]))
    Traceback (most recent call last):
    discreet.errors.InvalidData: places: got one, expected at least two
    """
    if len(places) < 2:
        raise InvalidData("places: got one, expected at least two")
    known = dict(scheme.groups or ())
    missing = [name for name in places.names if scheme.groups is not None and name not in known]
    if missing:
        raise InvalidData(f"groups: {len(missing)} places have none, the first is {missing[0]!r}")
    exact = (scheme.weights_epsilon, scheme.totals_epsilon, scheme.score_epsilon)
    flows = scheme.flows_epsilon if scheme.method == "counts" and scheme.delta == 0 else Fraction(0)
    for epsilon in (*exact, flows):
        if epsilon:
            Geometric(epsilon=epsilon, sensitivity=2)  # refuses an ε whose noise cannot be drawn
    if scheme.method == "counts" and scheme.delta:
        sigma_of_flows(scheme)


def _near(flows: Flows, made: Flows, scheme: Scheme, entropy: Entropy) -> bool:
    """Whether a candidate is accepted. Guarantee: `score_epsilon`-DP: one person who moves changes the sum by 2."""
    assert scheme.accept is not None  # noqa: S101
    apart = int(apart_by(flows, made))
    noisy = Geometric(epsilon=scheme.score_epsilon, sensitivity=2).release(apart, entropy=entropy)
    return int(noisy) <= 2 * scheme.accept.apart * flows.total


def apart_by(flows: Flows, made: Flows) -> int:
    """Σ|true − synthetic| over all pairs of places: twice the number of people who would have to move.

    >>> towns = Places(["a", "b"], [[0.0, 0.0], [3.0, 4.0]])
    >>> apart_by(Flows(towns, [0], [0], [5]), Flows(towns, [0, 1], [0, 0], [3, 2]))
    4
    """
    both = [(flow.destination * len(flow.places) + flow.origin, flow.people) for flow in (flows, made)]
    pairs = np.concatenate([both[0][0], both[1][0]])
    people = np.concatenate([both[0][1], -both[1][1]])
    _, where = np.unique(pairs, return_inverse=True)
    return int(np.abs(np.bincount(where, weights=people)).sum())


def _candidate(flows: Flows, scheme: Scheme, entropy: Entropy, each: Progress | None) -> Flows:
    weights = _weights(flows, scheme, entropy)
    regions = _regions(flows.places, scheme, weights)
    made: list[tuple[Integers, int, Integers]] = []
    ends, totals = _totals(flows, scheme, entropy)
    for done, (end, total) in enumerate(zip(ends.tolist(), totals.tolist(), strict=True)):
        support = Support.of(flows.places, end, scheme, regions)
        counts = support.counted(flows.places, *flows.to(end))
        grouped = _flows(counts, total, scheme, len(ends), entropy)
        people = support.spread(grouped, weights, entropy)
        some = np.flatnonzero(people)
        made.append((support.places[some], end, people[some]))
        if each is not None:
            each(done + 1, len(ends))
    origin = np.concatenate([places for places, _, _ in made])
    destination = np.concatenate([np.full(len(places), end) for places, end, _ in made])
    return Flows(flows.places, origin, destination, np.concatenate([people for _, _, people in made]))


def _totals(flows: Flows, scheme: Scheme, entropy: Entropy) -> tuple[Integers, Integers]:
    """The destinations, and how many people each gets.

    Guarantee: public, or, where destinations are secret, `totals_epsilon`-DP, over all places.
    """
    if scheme.neighbors is None:
        ends = flows.destinations
        return ends, np.array([flows.to(end)[1].sum() for end in ends.tolist()], np.int64)
    true = np.bincount(flows.destination, flows.people, minlength=len(flows.places)).astype(np.int64)
    noise = Geometric(epsilon=scheme.totals_epsilon, sensitivity=scheme.moved)
    noisy = np.maximum(np.asarray(noise.release(true, entropy=entropy)), 0)
    return np.arange(len(flows.places)), noisy


def _weights(flows: Flows, scheme: Scheme, entropy: Entropy) -> Floats:
    """The noisy number of people of each origin; one for each, where origins are not put together.

    Guarantee: `weights_epsilon`-DP: a person who moves lowers one count and raises another by 1; one more is 1 more.
    """
    if not scheme.coarse:
        return np.ones(len(flows.places))
    totals = np.bincount(flows.origin, flows.people, minlength=len(flows.places)).astype(np.int64)
    noisy = Geometric(epsilon=scheme.weights_epsilon, sensitivity=scheme.moved).release(totals, entropy=entropy)
    return np.maximum(np.asarray(noisy, np.float64), 0.5)


def _flows(counts: Integers, people: int, scheme: Scheme, destinations: int, entropy: Entropy) -> Integers:
    """Synthetic counts of one destination, with the public sum.

    Guarantee: `flows_epsilon` and δ. Proof. counts: one person who moves changes two counts by 1, of one destination or
    of two: ℓ1 norm 2, ℓ2 norm √2; one person more changes one. What follows uses noisy counts and the sum alone.
    dirichlet: `prior`. Probabilistic DP speaks of the whole map, any destination of which may break the ratio, so each
    gets its share of δ; (ε,δ)-DP speaks of a pair of neighbors, which differ in one destination.
    """
    if len(counts) < 2:
        return np.array([people] * len(counts), np.int64)
    if scheme.method == "counts":
        if scheme.delta == 0:
            noisy = Geometric(epsilon=scheme.flows_epsilon, sensitivity=scheme.moved).release(counts, entropy=entropy)
        else:
            noisy = counts + rounded_gaussian(sigma_of_flows(scheme), counts.shape, entropy=entropy)
        return whole(onto_simplex(np.asarray(noisy, np.float64), people), people)
    return draw(counts, _prior(people, len(counts), scheme, destinations), people, entropy=entropy)


def _prior(people: int, cells: int, scheme: Scheme, destinations: int) -> Fraction:
    terms = (scheme.flows_epsilon, scheme.delta)
    if scheme.promise == "pure":
        return pure_prior(people, epsilon=terms[0])
    if scheme.promise == "probabilistic":
        return _cached(True, people, cells, terms[0], terms[1] / destinations)
    return _cached(False, people, cells, *terms)


@lru_cache(maxsize=1 << 16)
def _cached(probabilistic: bool, people: int, cells: int, epsilon: Fraction, delta: Fraction) -> Fraction:
    find = probabilistic_prior if probabilistic else approximate_prior
    return find(people, cells, epsilon=epsilon, delta=delta)


@lru_cache(maxsize=256)
def sigma_of_flows(scheme: Scheme) -> Fraction:
    """Of Gaussian noise against a shift by 1 or √2, rounded up."""
    norm = 1 if scheme.moved == 1 else Fraction(14142136, 10**7)
    return gaussian_multiplier(epsilon=scheme.flows_epsilon, delta=scheme.delta, method="analytic") * norm


# What is done with noisy counts


def onto_simplex(values: Floats, total: float) -> Floats:
    """The nearest vector that is nowhere negative and has this sum (Held, Wolfe, Crowder 1974).

    >>> import numpy as np
    >>> onto_simplex(np.array([5.0, -2.0, 3.0]), 6.0)
    array([4., 0., 2.])
    """
    if not total:
        return np.zeros_like(values)
    falling = np.sort(values)[::-1]
    levels = (np.cumsum(falling) - total) / np.arange(1, len(values) + 1)
    level = levels[np.flatnonzero(falling > levels)[-1]]
    return np.asarray(np.maximum(values - level, 0))


def whole(values: Floats, total: int) -> Integers:
    """Whole numbers near the values, with this sum: rounded down, and the largest remainders up.

    >>> import numpy as np
    >>> whole(np.array([1.6, 0.7, 0.7]), 3)
    array([1, 1, 1])
    """
    result = np.floor(values).astype(np.int64)
    missing = total - int(result.sum())
    order = np.argsort(result - values, kind="stable")
    result[order[:missing]] += 1
    return result


# Which origins a destination has, and which are put together


@dataclass(frozen=True, eq=False)
class Support:
    """The possible origins of a destination, and the group in which each is counted."""

    places: Integers  # the origins that are possible
    group: Integers  # the group of each of them

    @classmethod
    def of(cls, places: Places, end: int, scheme: Scheme, regions: Integers | None) -> "Support":
        """Of a destination; `regions` are those of all places, where the scheme has some."""
        km = places.distances(end)
        inside = np.arange(len(places)) if scheme.cap is None else np.flatnonzero(km <= float_down(scheme.cap))
        if not len(inside):
            inside = np.array([int(np.argmin(km))])
        if scheme.bands is not None:
            raw = np.searchsorted([float(edge) for edge in scheme.bands], km[inside], side="right")
        elif regions is not None:
            raw = np.where(inside == end, -1, regions[inside])  # who lives where they work is never put together
        else:
            raw = inside
        return cls(inside, np.unique(raw, return_inverse=True)[1])

    def counted(self, places: Places, origins: Integers, people: Integers) -> Integers:
        """The people of each group; who lives outside counts at the nearest origin inside."""
        at = np.searchsorted(self.places, origins)
        known = (at < len(self.places)) & (self.places[np.minimum(at, len(self.places) - 1)] == origins)
        for place in np.flatnonzero(~known).tolist():
            at[place] = int(np.argmin(places.distances(int(origins[place]), self.places)))
        counts: NDArray[np.int64] = np.zeros(int(self.group.max()) + 1, np.int64)
        np.add.at(counts, self.group[at], people)
        return counts

    def spread(self, grouped: Integers, weights: Floats, entropy: Entropy) -> Integers:
        """The people of each group, drawn among its origins by their noisy weights."""
        if len(grouped) == len(self.places):
            return grouped[self.group]
        order = np.argsort(self.group, kind="stable")
        ends = np.cumsum(weights[self.places][order])
        last = np.flatnonzero(np.diff(self.group[order], append=-1))
        high = ends[last]
        low = np.concatenate([[0.0], high[:-1]])
        which = np.repeat(np.arange(len(grouped)), grouped)
        share = (entropy.words(len(which)) >> np.uint64(11)).astype(np.float64) * 2.0**-53
        at = np.searchsorted(ends, low[which] + share * (high - low)[which], side="right")
        at = np.clip(at, np.concatenate([[0], last[:-1] + 1])[which], last[which])
        return np.bincount(order[at], minlength=len(self.places)).astype(np.int64)


def _regions(places: Places, scheme: Scheme, weights: Floats) -> Integers | None:
    """The region of each place, by public knowledge or around privately chosen hubs."""
    if scheme.groups is not None:
        return region_of_places(places, scheme)
    if scheme.hubs is None:
        return None
    hubs = np.sort(np.argsort(-weights, kind="stable")[: scheme.hubs])
    nearest = [int(hubs[np.argmin(places.distances(place, hubs))]) for place in range(len(places))]
    return np.array(nearest, np.int64)


def region_of_places(places: Places, scheme: Scheme) -> Integers:
    """The number of each place's public region."""
    region = dict(scheme.groups or ())
    return np.unique([region[name] for name in places.names], return_inverse=True)[1]
