"""What a release costs, as data.

A `Loss` is a frozen value without behavior. It is written to the ledger as JSON and read back years
later, so this module is a contract: **the meaning of a kind and of its fields never changes**; a kind or a
field that this version does not know is refused (`UnknownLoss`), never guessed; new meanings get new kinds.

Every kind bounds the pair of output distributions (P, Q) on any two neighboring datasets, in both orders.
"Neighboring" is the relation of the dataset that is charged (`unit.Neighbors`); the mechanism that states
the loss used the sensitivity of that relation.

=========================  ===============================================================================
kind                       meaning: for all neighbors, (P, Q) is no easier to tell apart than …
=========================  ===============================================================================
Pure(ε)                    ε-DP: P(S) ≤ e^ε·Q(S) for every S (Dwork, McSherry, Nissim, Smith 2006)
BoundedRange(ε)            ln P/Q stays in an interval of length ε (Durfee, Rogers 2019), hence also ε-DP
Approximate(ε, δ)          (ε,δ)-DP: P(S) ≤ e^ε·Q(S) + δ for every S
Concentrated(ρ)            ρ-zCDP: Rényi divergence of every order α > 1 at most ρα (Bun, Steinke 2016)
LaplaceNoise(m)            Laplace noise of scale m against a shift by 1 (continuous, one dimension)
GaussianNoise(m)           Gaussian noise of standard deviation m against a shift by 1 (continuous)
DiscreteGaussianNoise(σ,s) integer noise N_ℤ(0, σ²) against every whole shift up to s, in one dimension
SampledGaussian(q, m)      Gaussian noise of deviation m on a sum over a Poisson sample of rate q, each
                           contribution of norm at most 1; only for "add or remove one"
PerDistance(ε, unit, s)    d-privacy: P(S) ≤ e^(ε·(d + s))·Q(S) for secrets at distance d, in the unit named;
                           s is what snapping to a grid may add to a distance
Repeated(loss, n)          n releases, each of that loss, each chosen after seeing the ones before
Together(losses)           all of these releases, each chosen after seeing the ones before
Parallel(losses)           releases over disjoint parts of the data: one unit is in one part only
=========================  ===============================================================================

**`Parallel` and "change one".** A unit whose data change may leave one part and join another, and then it is in two.
Write `disjoint(*losses, neighbors=...)`, which knows; `Parallel` itself is for "add or remove one", and for splits
that the unit's data do not decide (by lot, by place in the file).
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from typing import Any

from discreet.errors import InvalidParameter, UnknownLoss
from discreet.exact import Number, integer, plain, rational
from discreet.fields import DisplayMixin
from discreet.privacy.unit import Neighbors, relation, words

_DEEPEST = 64
_MOST_IN_PAIRS = 16


@dataclass(frozen=True, slots=True)
class Pure(DisplayMixin):
    """ε-DP.

    >>> Pure("0.5")
    Pure(epsilon=0.5)
    """

    epsilon: Fraction

    def __init__(self, epsilon: Number) -> None:
        object.__setattr__(self, "epsilon", rational(epsilon, "epsilon", at_least=0))


@dataclass(frozen=True, slots=True)
class BoundedRange(DisplayMixin):
    """The log-likelihood ratio stays in an interval of length ε: the exponential mechanism's loss.

    >>> BoundedRange(1)
    BoundedRange(epsilon=1)
    """

    epsilon: Fraction

    def __init__(self, epsilon: Number) -> None:
        object.__setattr__(self, "epsilon", rational(epsilon, "epsilon", at_least=0))


@dataclass(frozen=True, slots=True)
class Approximate(DisplayMixin):
    """(ε,δ)-DP.

    >>> Approximate(1, "1e-6").delta
    Fraction(1, 1000000)
    """

    epsilon: Fraction
    delta: Fraction

    def __init__(self, epsilon: Number, delta: Number) -> None:
        object.__setattr__(self, "epsilon", rational(epsilon, "epsilon", at_least=0))
        object.__setattr__(self, "delta", rational(delta, "delta", at_least=0, at_most=1))


@dataclass(frozen=True, slots=True)
class Concentrated(DisplayMixin):
    """ρ-zCDP.

    >>> Concentrated("1/50")
    Concentrated(rho=0.02)
    """

    rho: Fraction

    def __init__(self, rho: Number) -> None:
        object.__setattr__(self, "rho", rational(rho, "rho", at_least=0))


@dataclass(frozen=True, slots=True)
class LaplaceNoise(DisplayMixin):
    """Continuous Laplace noise; the multiplier is scale ÷ sensitivity, so ε = 1/multiplier.

    >>> LaplaceNoise(10)
    LaplaceNoise(multiplier=10)
    """

    multiplier: Fraction

    def __init__(self, multiplier: Number) -> None:
        object.__setattr__(self, "multiplier", rational(multiplier, "multiplier", above=0))


@dataclass(frozen=True, slots=True)
class GaussianNoise(DisplayMixin):
    """Continuous Gaussian noise; the multiplier is σ ÷ ℓ2 sensitivity.

    >>> GaussianNoise(20)
    GaussianNoise(multiplier=20)
    """

    multiplier: Fraction

    def __init__(self, multiplier: Number) -> None:
        object.__setattr__(self, "multiplier", rational(multiplier, "multiplier", above=0))


@dataclass(frozen=True, slots=True)
class DiscreteGaussianNoise(DisplayMixin):
    """One integer with discrete Gaussian noise of parameter σ; the secret moves it by at most `sensitivity`.

    >>> DiscreteGaussianNoise(20, 1)
    DiscreteGaussianNoise(sigma=20, sensitivity=1)
    """

    sigma: Fraction
    sensitivity: int

    def __init__(self, sigma: Number, sensitivity: int) -> None:
        object.__setattr__(self, "sigma", rational(sigma, "sigma", above=0))
        object.__setattr__(self, "sensitivity", integer(sensitivity, "sensitivity", at_least=0, at_most=10**18))


@dataclass(frozen=True, slots=True)
class SampledGaussian(DisplayMixin):
    """Gaussian noise on a sum over a Poisson sample: one step of DP-SGD. Only for "add or remove one".

    >>> SampledGaussian("0.01", 4)
    SampledGaussian(rate=0.01, multiplier=4)
    """

    rate: Fraction
    multiplier: Fraction

    def __init__(self, rate: Number, multiplier: Number) -> None:
        object.__setattr__(self, "rate", rational(rate, "rate", at_least=0, at_most=1))
        object.__setattr__(self, "multiplier", rational(multiplier, "multiplier", above=0))


@dataclass(frozen=True, slots=True)
class PerDistance(DisplayMixin):
    """d-privacy: ε for each unit of distance between two secrets. It becomes ε-DP inside a stated radius.

    `slack` is added to every distance: two places on either side of a cell's border are snapped a cell apart.

    >>> PerDistance("0.7", "km", "0.1").within(3)
    Pure(epsilon=2.17)
    """

    epsilon: Fraction
    unit: str
    slack: Fraction

    def __init__(self, epsilon: Number, unit: str, slack: Number) -> None:
        object.__setattr__(self, "epsilon", rational(epsilon, "epsilon", at_least=0))
        object.__setattr__(self, "unit", words(unit, "unit", "a unit of distance in words, such as 'km'"))
        object.__setattr__(self, "slack", rational(slack, "slack", at_least=0))

    def within(self, distance: Number) -> Pure:
        """The ε-DP that holds between secrets at most `distance` apart."""
        return Pure(self.epsilon * (rational(distance, "distance", at_least=0) + self.slack))


@dataclass(frozen=True, slots=True)
class Repeated(DisplayMixin):
    """The same loss n times, adaptively.

    >>> Repeated(Pure("0.1"), 3).count
    3
    """

    loss: "Loss"
    count: int

    def __init__(self, loss: "Loss", count: int) -> None:
        object.__setattr__(self, "loss", _checked(loss))
        object.__setattr__(self, "count", integer(count, "count", at_least=0, at_most=10**18))


@dataclass(frozen=True, slots=True)
class Together(DisplayMixin):
    """All of these losses, adaptively. `Together()` is the loss of releasing nothing.

    >>> Together(Pure(1), Pure(2)).losses
    (Pure(epsilon=1), Pure(epsilon=2))
    """

    losses: tuple["Loss", ...]

    def __init__(self, *losses: "Loss") -> None:
        object.__setattr__(self, "losses", tuple(_checked(loss) for loss in losses))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.losses))})"


@dataclass(frozen=True, slots=True)
class Parallel(DisplayMixin):
    """Losses over disjoint parts of the data, of which any two neighboring datasets differ in **one part only**.

    True of any split under "add or remove one". Under "change one" a person may move from one part to another and
    touch both; `disjoint` returns the right loss for either relation.

    >>> Parallel(Pure(1), Pure(2)).losses
    (Pure(epsilon=1), Pure(epsilon=2))
    """

    losses: tuple["Loss", ...]

    def __init__(self, *losses: "Loss") -> None:
        object.__setattr__(self, "losses", tuple(_checked(loss) for loss in losses))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.losses))})"


def disjoint(*losses: "Loss", neighbors: Neighbors | str) -> "Loss":
    """The loss of releases over parts of the data into which the data of each unit put it.

    Each loss is what its part costs when one unit of it is added, removed or changed.

    Guarantee: two neighboring datasets are no easier to tell apart than this loss says.
    Proof. Under "add or remove one" they differ by one unit in one part (McSherry 2009, Thm 4). Under "change one" the
    unit may leave part i and join part j: the releases of both compose, the others are the same. Which two parts is not
    known, so every two are a possibility; among many parts, twice any one of them.

    >>> disjoint(Pure(1), Pure(1), neighbors="add or remove one")
    Parallel(Pure(epsilon=1), Pure(epsilon=1))
    >>> disjoint(Pure(1), Pure(1), neighbors="change one")
    Together(Pure(epsilon=1), Pure(epsilon=1))
    """
    parts = Parallel(*losses)
    if relation(neighbors) is Neighbors.ADD_OR_REMOVE_ONE or len(losses) < 2:
        return parts
    if len(losses) > _MOST_IN_PAIRS:
        return Repeated(parts, 2)
    pairs = [Together(*two) for two in combinations(losses, 2)]
    return pairs[0] if len(pairs) == 1 else Parallel(*pairs)


Atom = (
    Pure
    | BoundedRange
    | Approximate
    | Concentrated
    | LaplaceNoise
    | GaussianNoise
    | DiscreteGaussianNoise
    | SampledGaussian
    | PerDistance
)
"""A loss without parts."""

Loss = Atom | Repeated | Together | Parallel
"""The closed union. Functions of a loss are one `match` that ends in `assert_never`."""

_KINDS: dict[str, type[Any]] = {
    "pure": Pure,
    "bounded-range": BoundedRange,
    "approximate": Approximate,
    "concentrated": Concentrated,
    "laplace-noise": LaplaceNoise,
    "gaussian-noise": GaussianNoise,
    "discrete-gaussian-noise": DiscreteGaussianNoise,
    "sampled-gaussian": SampledGaussian,
    "per-distance": PerDistance,
    "repeated": Repeated,
    "together": Together,
    "parallel": Parallel,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


def _checked(loss: Loss) -> Loss:
    """A loss that may stand inside another one."""
    if _depth(_require_loss(loss)) >= _DEEPEST:
        raise InvalidParameter("loss", type(loss).__name__, f"losses nested less than {_DEEPEST} deep", "flatten it")
    return loss


def _require_loss(loss: Loss) -> Loss:
    if isinstance(loss, list | tuple | set | frozenset) or hasattr(loss, "__next__"):
        hint = "unpack it: Together(*losses), not Together(losses)"
        raise InvalidParameter("loss", f"a {type(loss).__name__}", "a loss, such as Pure(epsilon)", hint)
    if type(loss) not in _NAMES:
        raise InvalidParameter("loss", loss, f"one of {', '.join(k.__name__ for k in _KINDS.values())}")
    return loss


def _depth(loss: Loss) -> int:
    match loss:
        case Together() | Parallel():
            return 1 + max((_depth(part) for part in loss.losses), default=0)
        case Repeated():
            return 1 + _depth(loss.loss)
        case _:
            return 0


def to_json(loss: Loss) -> str:
    """A loss as one line of JSON. Numbers are exact: decimal text where one ends, else "p/q".

    >>> to_json(Together(Pure("0.5"), Repeated(Concentrated("1/3"), 10)))
    '{"kind":"together","losses":[{"kind":"pure","epsilon":"0.5"},{"kind":"repeated","loss":{"kind":"concentrated","rho":"1/3"},"count":10}]}'
    """
    return _text(_require_loss(loss))


def from_json(text: str) -> Loss:
    """Read a loss back; anything not understood to the last field is refused.

    >>> from_json('{"kind":"pure","epsilon":"0.5"}')
    Pure(epsilon=0.5)
    >>> from_json('{"kind":"pure","epsilon":"0.5","discount":"0.9"}')
    Traceback (most recent call last):
    discreet.errors.UnknownLoss: loss 'pure' has the fields epsilon; got also 'discount'; ...
    """
    try:
        document = json.loads(
            text, object_pairs_hook=_unique, parse_float=_refuse_number, parse_constant=_refuse_number
        )
    except (ValueError, RecursionError, TypeError) as error:
        raise UnknownLoss(f"this is not the JSON of a loss: {error}") from None
    return _from_plain(document, depth=0)


@lru_cache(maxsize=4096)
def _text(loss: Loss) -> str:
    return json.dumps(_to_plain(loss), separators=(",", ":"), ensure_ascii=False)


def _to_plain(loss: Loss) -> dict[str, object]:
    return {"kind": _NAMES[type(loss)], **{f.name: _plain_value(getattr(loss, f.name)) for f in fields(loss)}}


def _plain_value(value: object) -> object:
    match value:
        case Fraction():
            return plain(value)
        case tuple():
            return [_to_plain(loss) for loss in value]
        case int() | str():
            return value
        case _:
            return _to_plain(value)  # type: ignore[arg-type]


def _from_plain(document: object, depth: int) -> Loss:
    if depth > _DEEPEST:
        raise UnknownLoss(f"this loss is nested more than {_DEEPEST} deep")
    kind_name = document.get("kind") if isinstance(document, dict) else None
    if not isinstance(document, dict) or not isinstance(kind_name, str) or kind_name not in _KINDS:
        kind = kind_name if isinstance(document, dict) else type(document).__name__
        raise UnknownLoss(f"unknown kind of loss {kind!r}; this version knows {', '.join(_KINDS)}")
    kind = _KINDS[document["kind"]]
    expected = [f.name for f in fields(kind)]
    given = {name: value for name, value in document.items() if name != "kind"}
    if set(given) != set(expected):
        odd = [f"got also {name!r}" for name in given if name not in expected]
        got = "; ".join(odd + [f"missing {name!r}" for name in expected if name not in given])
        raise UnknownLoss(
            f"loss {document['kind']!r} has the fields {', '.join(expected)}; {got}; "
            "a newer version may have written it"
        )
    try:
        if kind in (Together, Parallel):
            parts: Loss = kind(*(_from_plain(part, depth + 1) for part in _listed(given["losses"])))
            return parts
        if kind is Repeated:
            return Repeated(_from_plain(given["loss"], depth + 1), given["count"])
        read: Loss = kind(**given)
    except InvalidParameter as error:
        raise UnknownLoss(f"loss {document['kind']!r} cannot be read: {error}") from None
    return read


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    names = [name for name, _ in pairs]
    if len(set(names)) != len(names):
        raise ValueError("a field is given twice")
    return dict(pairs)


def _refuse_number(text: str) -> object:
    raise ValueError(f"numbers are exact, written as text; got {text}")


def _listed(value: object) -> Iterator[object]:
    if not isinstance(value, list):
        raise UnknownLoss("'losses' must be a list of losses")
    return iter(value)
