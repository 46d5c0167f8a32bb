"""What ε, δ and a loss mean to people: odds, guesses, and the mechanisms behind a loss."""

from fractions import Fraction
from typing import assert_never

from discreet.exact import exp_up
from discreet.privacy import loss as losses
from discreet.privacy.loss import Loss

_BEYOND = Fraction(50)


def odds(epsilon: Fraction) -> Fraction | None:
    """e^ε, rounded up: the most by which one release changes the odds between neighbors; None beyond e^50.

    Bayes' rule: posterior odds = prior odds × likelihood ratio, which ε-DP keeps within e^±ε, whatever the prior
    (Dwork, McSherry, Nissim, Smith 2006; Kasiviswanathan, Smith 2014).

    >>> float(odds(Fraction(0)))
    1.0
    """
    return None if epsilon > _BEYOND else exp_up(epsilon)


def win(epsilon: Fraction, delta: Fraction) -> Fraction:
    """How often, at most, somebody guesses rightly which of two neighboring datasets was used, each being as likely.

    (e^ε + δ)/(1 + e^ε), rounded up. Proof. A test that says "x" with probability p on x and q on x′ has p ≤ e^ε·q + δ
    and 1 − q ≤ e^ε·(1 − p) + δ. Add: p + (1 − q) ≤ (2e^ε + 2δ)/(1 + e^ε); the guesser is right half of that often.
    (Wasserman, Zhou 2010, for δ = 0; Kairouz, Oh, Viswanath 2015, Theorem 2.1. The bound grows with e^ε, as δ ≤ 1, so
    rounding e^ε up is safe.)

    >>> float(win(Fraction(0), Fraction(0))), round(float(win(Fraction(1), Fraction(0))), 4)
    (0.5, 0.7311)
    """
    if epsilon > _BEYOND:
        return Fraction(1)
    power = exp_up(epsilon)
    return min(Fraction(1), (power + delta) / (1 + power))


def kind_in_words(loss: Loss) -> str:  # noqa: PLR0911 - one branch a kind
    """The kind of a loss, as the mechanisms that have it.

    >>> kind_in_words(losses.Concentrated(1))
    'Gaussian-like noise, counted as concentrated privacy (Bun, Steinke 2016)'
    """
    match loss:
        case losses.Pure():
            return "Pure ε: discrete Laplace noise, randomized response (Dwork, McSherry, Nissim, Smith 2006)"
        case losses.BoundedRange():
            return "A private choice: the exponential mechanism (McSherry, Talwar 2007; Durfee, Rogers 2019)"
        case losses.Approximate():
            return (
                "(ε, δ): groups named where a noisy count passes a threshold (Korolova and others 2009), and the like"
            )
        case losses.Concentrated():
            return "Gaussian-like noise, counted as concentrated privacy (Bun, Steinke 2016)"
        case losses.LaplaceNoise():
            return "Noise no easier to see through than Laplace noise (Dwork, McSherry, Nissim, Smith 2006)"
        case losses.GaussianNoise():
            return "Noise no easier to see through than Gaussian noise (Balle, Wang 2018)"
        case losses.DiscreteGaussianNoise():
            return "Discrete Gaussian noise (Canonne, Kamath, Steinke 2020)"
        case losses.SampledGaussian():
            return (
                "Gaussian noise on random samples: model training (Abadi and others 2016; Mironov, Talwar, Zhang 2019)"
            )
        case losses.PerDistance():
            return "Privacy that fades with distance (Chatzikokolakis, Andrés, Bordenabe, Palamidessi 2013)"
        case losses.Repeated() | losses.Together():
            return "Several releases in one charge, each chosen after the ones before, composed as above"
        case losses.Parallel():
            return "Releases over disjoint parts of the data, which cost as much as the dearest (McSherry 2009)"
        case _:
            assert_never(loss)
