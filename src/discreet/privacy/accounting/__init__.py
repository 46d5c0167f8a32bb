"""Accountants: what a loss guarantees, as pure functions of the loss.

========================  ==========================================================================================
`pure`                    exact ε where no δ is needed
`composition`             basic, advanced and optimal composition of (ε, δ)
`zcdp`                    exact ρ, tight conversion
`rdp`                     a Rényi curve over fixed orders: what ledgers keep
`profile`                 one atomic loss, in closed form
`pld`                     any fixed plan, numerically: within about 0.01 % up to a million releases, 0.1 % where more
                          than 32 losses differ
========================  ==========================================================================================

All are sound, so `guarantee` asks them all and takes the least ε.
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction

from discreet.errors import NoGuarantee
from discreet.exact import Number, float_up, rational, text_up
from discreet.privacy.accounting import composition, pld, profile, rdp, zcdp
from discreet.privacy.accounting.itemization import NOTHING, Choice, bill, known, uncovered
from discreet.privacy.accounting.rounding import no_delta_left
from discreet.privacy.loss import Approximate, Concentrated, Loss, Parallel, Pure, Repeated, Together

__all__ = ["Guarantee", "composition", "delta_for", "guarantee", "pld", "profile", "pure", "rdp", "zcdp"]

_MANY = 32  # unlike items
_MOST_EXACT = 10**6  # releases up to which `pld` allows next to nothing for floating-point errors


@dataclass(frozen=True, slots=True)
class Guarantee:
    """(ε, δ)-DP, and which accountant proved it. ε is rounded up, and so is what is printed.

    `exact` is the rational ε where an accountant knows it: 3/10 prints as 0.3, though the float above it is longer.

    >>> print(Guarantee(0.50000001, Fraction(1, 10**6), "pld"))
    (0.500001, 1e-06)-DP by pld
    """

    epsilon: float
    delta: Fraction
    by: str
    exact: Fraction | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        return f"({text_up(self.epsilon if self.exact is None else self.exact)}, {text_up(self.delta)})-DP by {self.by}"


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
    least, by = _worst(loss, lambda branch: _epsilons(branch, at))
    return Guarantee(least, at, by) if isinstance(least, float) else Guarantee(float_up(least), at, by, exact=least)


def delta_for(loss: Loss, *, epsilon: Number) -> Guarantee:
    """The least δ, rounded up, that any accountant can prove for this loss at this ε.

    >>> from discreet.privacy.loss import LaplaceNoise, Repeated
    >>> result = delta_for(Repeated(LaplaceNoise(10), 100), epsilon=3)
    >>> result.by, round(float(result.delta), 4)
    ('pld', 0.0012)
    """
    at = rational(epsilon, "epsilon", at_least=0)
    least, by = _worst(loss, lambda branch: _deltas(branch, at))
    return Guarantee(float_up(at), min(Fraction(1), Fraction(least)), by, exact=at)


Answer = Callable[[], float | Fraction]
Answers = Iterator[tuple[str, Answer]]


def _worst(loss: Loss, ask: Callable[[Loss], Answers]) -> tuple[float | Fraction, str]:
    """The greatest over disjoint parts of the least answer for each: nobody is in two of them.

    Where the whole loss is disjoint parts, P and Q of a unit are those of its part, so δ(ε) is the greatest of the
    parts'; each part may be bounded by another accountant. Inside a composition this does not hold (see `pld`).
    """
    first, *others = _branches(loss)
    worst = _least(ask(first))
    for branch in others:
        worst = max(worst, _least(ask(branch), enough=worst[0]), key=lambda answer: answer[0])
    return worst


def _branches(loss: Loss) -> list[Loss]:
    """The disjoint parts that no other covers, where the loss is nothing but disjoint parts; else the loss itself."""
    match known(loss):
        case Parallel(parts) if parts:
            return uncovered([branch for part in parts for branch in _branches(part)])
        case Repeated(inner, 1):
            return _branches(inner)
        case Together(parts):
            some = [part for part in parts if bill(part) != NOTHING]
            return _branches(some[0]) if len(some) == 1 else [loss]
        case _:
            return [loss]


def _epsilons(loss: Loss, delta: Fraction) -> Answers:
    yield "pure", lambda: composition.pure(loss)
    if not delta:
        return
    yield "basic", lambda: _basic_epsilon(loss, delta)
    yield "advanced", lambda: composition.advanced(loss, delta=delta)
    yield "zcdp", lambda: zcdp.epsilon(zcdp.rho(loss), delta=delta)
    by = _sharpest(loss)
    sharp = {"optimal": composition.optimal_epsilon, "profile": profile.epsilon}.get(by, pld.epsilon)
    yield by, lambda: sharp(loss, delta=delta)
    yield "rdp", lambda: rdp.epsilon(rdp.curve(loss), delta=delta)


def _deltas(loss: Loss, epsilon: Fraction) -> Answers:
    yield "pure", lambda: 0.0 if composition.pure(loss) <= epsilon else 1.0
    yield "basic", lambda: _basic_delta(loss, epsilon)
    yield "zcdp", lambda: zcdp.delta(zcdp.rho(loss), epsilon=epsilon)
    by = _sharpest(loss)
    sharp = {"optimal": composition.optimal_delta, "profile": profile.delta}.get(by, pld.delta)
    yield by, lambda: sharp(loss, epsilon=epsilon)
    yield "rdp", lambda: rdp.delta(rdp.curve(loss), epsilon=epsilon)


def _sharpest(loss: Loss) -> str:
    """Which accountant is exact for this loss, or "pld" where none is.

    "pld alone" where Rényi curves cannot be better and are so many that they take longer than everything else.
    """
    total = bill(loss)
    match total.items:
        case ((Pure() | Approximate(), _),):
            return "optimal"
        case ((Choice() | Concentrated(), 1),):
            return "pld"
        case ((_, 1),):
            return "profile"
        case items if len(items) <= _MANY or total.count > _MOST_EXACT:
            return "pld"
        case items:
            bounded = any(isinstance(item, Choice | Concentrated) for item, _ in items)
            return "pld" if bounded else "pld alone"


def _basic_epsilon(loss: Loss, delta: Fraction) -> Fraction:
    epsilon, spent = composition.basic(loss)
    if spent > delta:
        raise NoGuarantee(no_delta_left(delta, spent))
    return epsilon


def _basic_delta(loss: Loss, epsilon: Fraction) -> Fraction:
    limit, spent = composition.basic(loss)
    return spent if limit <= epsilon else Fraction(1)


def _least(answers: Answers, *, enough: float | Fraction | None = None) -> tuple[float | Fraction, str]:
    """The least answer and who gave it, or why there is none; the first that is not above what is `enough` will do."""
    result: dict[str, float | Fraction] = {}
    reasons: dict[str, str] = {}
    for by, answer in answers:
        try:
            value = answer()
        except NoGuarantee as refusal:
            reasons[by] = str(refusal)
            continue
        if value > sys.float_info.max:
            reasons[by] = "ε is beyond 1e308; this loss protects nobody"
            continue
        result[by.removesuffix(" alone")] = value
        if value == 0 or by == "pld alone" or (enough is not None and value <= enough):
            break
    if not result:
        raise NoGuarantee(reasons.get("rdp", reasons["pure"]))
    by = min(result, key=lambda name: result[name])
    return result[by], by
