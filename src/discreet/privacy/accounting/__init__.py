"""Accountants: what a loss guarantees, as pure functions of the loss.

========================  ==========================================================================================
`pure`                    exact ε where no δ is needed
`composition`             basic, advanced and optimal composition of (ε, δ)
`zcdp`                    exact ρ, tight conversion
`rdp`                     a Rényi curve over fixed orders: what ledgers keep
`profile`                 one atomic loss, in closed form
`pld`                     any fixed plan, numerically: within about 0.01 % up to a million releases
========================  ==========================================================================================

All are sound, so `guarantee` asks them all and takes the least ε.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from discreet.errors import NoGuarantee
from discreet.exact import Number, float_up, plain, rational
from discreet.privacy.accounting import composition, pld, profile, pure, rdp, zcdp
from discreet.privacy.accounting.bill import Choice, bill
from discreet.privacy.accounting.refusal import no_delta_left
from discreet.privacy.loss import Approximate, Loss, Pure

__all__ = ["Guarantee", "composition", "delta_for", "guarantee", "pld", "profile", "pure", "rdp", "zcdp"]


@dataclass(frozen=True, slots=True)
class Guarantee:
    """(ε, δ)-DP, and which accountant proved it. ε is rounded up.

    >>> print(Guarantee(0.5, Fraction(1, 10**6), "pld"))
    (0.5, 1e-06)-DP by pld
    """

    epsilon: float
    delta: Fraction
    by: str

    def __str__(self) -> str:
        return f"({self.epsilon:.6g}, {plain(self.delta)})-DP by {self.by}"


def guarantee(loss: Loss, *, delta: Number) -> Guarantee:
    """The least ε that any accountant can prove for this loss at this δ.

    Guarantee: every release of this loss is (ε, δ)-DP; each accountant's docstring has the proof.

    >>> from discreet.privacy.loss import GaussianNoise, Pure, Repeated
    >>> guarantee(Repeated(Pure("0.1"), 3), delta=0)
    Guarantee(epsilon=0.30000000000000004, delta=Fraction(0, 1), by='pure')
    >>> print(guarantee(Repeated(GaussianNoise(20), 1000), delta="1e-6"))
    (8.30623, 1e-06)-DP by profile
    """
    at = rational(delta, "delta", at_least=0, below=1)
    least, by = _least(_epsilons(loss, at))
    return Guarantee(float(least), at, by)


def delta_for(loss: Loss, *, epsilon: Number) -> Guarantee:
    """The least δ, rounded up, that any accountant can prove for this loss at this ε.

    >>> from discreet.privacy.loss import LaplaceNoise, Repeated
    >>> found = delta_for(Repeated(LaplaceNoise(10), 100), epsilon=3)
    >>> found.by, round(float(found.delta), 4)
    ('pld', 0.0012)
    """
    at = rational(epsilon, "epsilon", at_least=0)
    least, by = _least(_deltas(loss, at))
    return Guarantee(float_up(at), min(Fraction(1), Fraction(least)), by)


Answer = Callable[[], float | Fraction]


def _epsilons(loss: Loss, delta: Fraction) -> Iterator[tuple[str, Answer]]:
    yield "pure", lambda: float_up(pure.epsilon(loss))
    if not delta:
        return
    yield "basic", lambda: _basic_epsilon(loss, delta)
    yield "advanced", lambda: composition.advanced(loss, delta=delta)
    yield "zcdp", lambda: zcdp.epsilon(zcdp.rho(loss), delta=delta)
    yield "rdp", lambda: rdp.epsilon(rdp.curve(loss), delta=delta)
    match _sharpest(loss):
        case "optimal":
            yield "optimal", lambda: composition.optimal_epsilon(loss, delta=delta)
        case "profile":
            yield "profile", lambda: profile.epsilon(loss, delta=delta)
        case _:
            yield "pld", lambda: pld.epsilon(loss, delta=delta)


def _deltas(loss: Loss, epsilon: Fraction) -> Iterator[tuple[str, Answer]]:
    yield "pure", lambda: 0.0 if pure.epsilon(loss) <= epsilon else 1.0
    yield "basic", lambda: _basic_delta(loss, epsilon)
    yield "zcdp", lambda: zcdp.delta(zcdp.rho(loss), epsilon=epsilon)
    yield "rdp", lambda: rdp.delta(rdp.curve(loss), epsilon=epsilon)
    match _sharpest(loss):
        case "optimal":
            yield "optimal", lambda: composition.optimal_delta(loss, epsilon=epsilon)
        case "profile":
            yield "profile", lambda: profile.delta(loss, epsilon=epsilon)
        case _:
            yield "pld", lambda: pld.delta(loss, epsilon=epsilon)


def _sharpest(loss: Loss) -> str:
    """Which accountant is exact for this loss, or "pld" where none is."""
    match bill(loss).items:
        case ((Pure() | Approximate(), _),):
            return "optimal"
        case ((Choice(), 1),):
            return "pld"
        case ((_, 1),):
            return "profile"
        case _:
            return "pld"


def _basic_epsilon(loss: Loss, delta: Fraction) -> float:
    epsilon, spent = composition.basic(loss)
    if spent > delta:
        raise NoGuarantee(no_delta_left(delta, spent))
    return float_up(epsilon)


def _basic_delta(loss: Loss, epsilon: Fraction) -> Fraction:
    limit, spent = composition.basic(loss)
    return spent if limit <= epsilon else Fraction(1)


def _least(answers: Iterator[tuple[str, Answer]]) -> tuple[float | Fraction, str]:
    """The least answer and who gave it, or why there is none."""
    found: dict[str, float | Fraction] = {}
    reasons: dict[str, str] = {}
    for by, answer in answers:
        try:
            value = answer()
        except NoGuarantee as refusal:
            reasons[by] = str(refusal)
            continue
        if value == math.inf:
            reasons[by] = "ε is beyond 1e308; this loss protects nobody"
        else:
            found[by] = value
        if value == 0:
            break
    if not found:
        raise NoGuarantee(reasons.get("rdp", reasons["pure"]))
    by = min(found, key=lambda name: found[name])
    return found[by], by
