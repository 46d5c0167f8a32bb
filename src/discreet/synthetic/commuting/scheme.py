"""Everything about a synthetic commuting map that is decided before anybody's home is looked at.

>>> from discreet.synthetic.commuting.scheme import Scheme
>>> print(Scheme(epsilon=1).explain())
protects   where one person lives; where people work, and how many work at each place, is public
promise    ε = 1, pure
method     counts: geometric noise on each count, made consistent with the totals
origins    every place, for every destination
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, get_args

from discreet.errors import InvalidParameter
from discreet.exact import Number, integer, plain, rational
from discreet.privacy.loss import Approximate, Loss, Pure, Together
from discreet.privacy.unit import Neighbors, relation

Method = Literal["counts", "dirichlet"]
Promise = Literal["pure", "probabilistic", "approximate"]

WEIGHTS = Fraction(1, 10)
"""The share of ε that pays for the noisy number of people of each origin, where origins are put together."""


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Draw again until the synthetic flows are near the true ones; paid for.

    apart: accept if the share of people who would have to move, Σ|true − synthetic|/(2·people), is below this, measured
    with noise. stop: the chance to give up after each try; the number of tries is drawn before the first.

    Guarantee: 2ε-DP, where one candidate together with its noisy score is ε-DP. Proof (Liu, Talwar 2019, "Private
    selection from private candidates", for a fixed threshold). Let Q be the law of a candidate and p the probability
    that it is accepted. The output is x with probability Q(x)·Σ_k ((1 − stop)(1 − p))^k = Q(x)/(p + stop·(1 − p)), and
    nothing with probability stop·(1 − p)/(p + stop·(1 − p)). For a neighbor, Q(x), p and 1 − p each change by at most
    e^±ε, so numerator and denominator both do. How many tries there were is not told, and all of them are always run,
    so that the time does not tell it either. ∎
    """

    apart: Fraction
    stop: Fraction

    def __init__(self, *, apart: Number, stop: Number = "1/10") -> None:
        object.__setattr__(self, "apart", rational(apart, "apart", above=0, below=1))
        object.__setattr__(self, "stop", rational(stop, "stop", at_least=Fraction(1, 100), at_most=1))


@dataclass(frozen=True, slots=True, init=False)
class Scheme:
    """How a map is made, and what it costs.

    Without `neighbors`, neighbors are two maps in which one person lives somewhere else, and how many people work
    where is public: as in the published case. Each person has one destination, so what is done for different
    destinations composes in parallel. With `neighbors` (those of a dataset behind a gate), where people work is secret
    too: the noisy number of people of each destination is paid for, and every place may be one.

    - method "counts": noise on every count of (origin, destination); "dirichlet": a Pólya urn for each destination.
    - promise "pure"; "approximate", (ε,δ)-DP; "probabilistic", for the urn only: `prior` says what that is.
    - cap: origins are at most so many km from the destination, by public knowledge; whoever lives farther away counts
      at the nearest origin within.
    - bands: origins are put together by their distance from the destination, in bands with these edges in km.
    - groups: origins are put together as a public map of names to regions says.
    - hubs: so many origins are chosen by their noisy number of people; the others join the nearest of them.
      Within a band, a region or around a hub, people are spread by the noisy number of people of each origin.
    - accept: see `Acceptance`; for pure promises.
    """

    epsilon: Fraction
    delta: Fraction
    method: Method
    promise: Promise
    cap: Fraction | None
    bands: tuple[Fraction, ...] | None
    groups: tuple[tuple[str, str], ...] | None
    hubs: int | None
    accept: Acceptance | None
    neighbors: Neighbors | None

    def __init__(
        self,
        *,
        epsilon: Number,
        delta: Number = 0,
        method: Method = "counts",
        promise: Promise = "pure",
        cap: Number | None = None,
        bands: Sequence[Number] | None = None,
        groups: Mapping[str, str] | None = None,
        hubs: int | None = None,
        accept: Acceptance | None = None,
        neighbors: Neighbors | str | None = None,
    ) -> None:
        values = {
            "epsilon": rational(epsilon, "epsilon", above=0, at_most=100),
            "delta": rational(delta, "delta", at_least=0, below=1),
            "method": _one_of(method, "method", get_args(Method)),
            "promise": _one_of(promise, "promise", get_args(Promise)),
            "cap": None if cap is None else rational(cap, "cap", above=0),
            "bands": None if bands is None else _edges(bands),
            "groups": None if groups is None else tuple(sorted((str(a), str(b)) for a, b in groups.items())),
            "hubs": None if hubs is None else integer(hubs, "hubs", at_least=1),
            "accept": accept,
            "neighbors": None if neighbors is None else relation(neighbors),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)
        self._check()

    def _check(self) -> None:
        if (self.promise == "pure") != (self.delta == 0):
            expected = "no delta for a pure promise, and one above 0 for the others"
            raise InvalidParameter("delta", plain(self.delta), expected)
        if self.promise == "probabilistic" and self.method == "counts":
            hint = "noisy counts are simply (ε,δ)-DP"
            raise InvalidParameter("promise", self.promise, "'pure' or 'approximate' with counts", hint)
        if sum(part is not None for part in (self.bands, self.groups, self.hubs)) > 1:
            raise InvalidParameter("bands", self.bands, "one of bands, groups and hubs")
        if self.accept is not None and self.promise != "pure":
            raise InvalidParameter("accept", self.promise, "a pure promise", "trying again multiplies δ")
        if self.neighbors is not None and (self.method != "counts" or self.accept is not None):
            hint = "the urn, and accepting candidates, need public totals"
            raise InvalidParameter("method", self.method, "'counts' where destinations are secret", hint)

    @property
    def coarse(self) -> bool:
        """Whether origins are put together."""
        return self.bands is not None or self.groups is not None or self.hubs is not None

    @property
    def candidate_epsilon(self) -> Fraction:
        """ε of one candidate, without its score: half of ε is lost by choosing, a tenth of the rest pays the score."""
        return self.epsilon if self.accept is None else self.epsilon / 2 * Fraction(9, 10)

    @property
    def score_epsilon(self) -> Fraction:
        """ε of the noisy score of a candidate."""
        return Fraction(0) if self.accept is None else self.epsilon / 2 - self.candidate_epsilon

    @property
    def weights_epsilon(self) -> Fraction:
        """ε of the noisy number of people of each origin."""
        return self.candidate_epsilon * WEIGHTS if self.coarse else Fraction(0)

    @property
    def totals_epsilon(self) -> Fraction:
        """ε of the noisy number of people of each destination."""
        return Fraction(0) if self.neighbors is None else self.candidate_epsilon * WEIGHTS

    @property
    def flows_epsilon(self) -> Fraction:
        """ε of the flows themselves."""
        return self.candidate_epsilon - self.weights_epsilon - self.totals_epsilon

    @property
    def moved(self) -> int:
        """How many counts one unit can change by 1: it is in one cell, or leaves one for another."""
        return 1 if self.neighbors is Neighbors.ADD_OR_REMOVE_ONE else 2

    @property
    def loss(self) -> Loss:
        """What the whole costs, for neighbors in which one person lives somewhere else."""
        if self.accept is not None:
            return Pure(self.epsilon)
        flows: Loss = Pure(self.flows_epsilon) if self.delta == 0 else Approximate(self.flows_epsilon, self.delta)
        parts = [Pure(part) for part in (self.weights_epsilon, self.totals_epsilon) if part]
        return Together(*parts, flows) if parts else flows

    def explain(self) -> str:
        """What will be done and what it costs, in words."""
        promised = f"ε = {plain(self.epsilon)}"
        promised += ", pure" if self.delta == 0 else f", δ = {plain(self.delta)}, {self.promise}"
        how = {
            "counts": "counts: geometric noise on each count, made consistent with the totals",
            "dirichlet": "dirichlet: for each destination an urn with a ball for each person and a prior everywhere",
        }[self.method]
        if self.method == "counts" and self.delta:
            how = how.replace("geometric", "Gaussian")
        known = "; where people work, and how many work at each place, is public"
        lines = {
            "protects": "where one person lives" + (known if self.neighbors is None else " and works"),
            "promise": promised,
            "method": how,
            "origins": self._origins(),
        }
        if self.accept is not None:
            lines["accepted"] = (
                f"if at most {plain(self.accept.apart)} of the people would have to move, by a noisy count"
            )
        return "\n".join(f"{name:<10} {value}" for name, value in lines.items())

    def _origins(self) -> str:
        found = "every place" if self.cap is None else f"places within {plain(self.cap)} km"
        if self.bands is not None:
            return f"{found}, in {len(self.bands) + 1} bands of distance"
        if self.groups is not None:
            return f"{found}, in {len({region for _, region in self.groups})} regions"
        if self.hubs is not None:
            return f"{found}, around {self.hubs} that are chosen privately"
        return f"{found}, for every destination"


def _edges(bands: Sequence[Number]) -> tuple[Fraction, ...]:
    edges = tuple(rational(edge, "bands", above=0) for edge in bands)
    if not edges or list(edges) != sorted(set(edges)):
        raise InvalidParameter("bands", bands, "distances in km, each larger than the one before")
    return edges


def _one_of(value: str, name: str, known: tuple[str, ...]) -> str:
    if value not in known:
        raise InvalidParameter(name, value, " or ".join(repr(choice) for choice in known))
    return value
