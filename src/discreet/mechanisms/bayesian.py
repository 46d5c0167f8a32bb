"""What can be inferred from a channel: by an adversary who guesses inputs, by a user who wants good answers.

Everything here is exact if the channel, the prior and the loss are, and float64 otherwise. A prior is a list in
the order of the inputs, a mapping from inputs to probabilities, or "uniform". A loss is a function
ℓ(input, output) or a matrix.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from discreet.errors import InvalidChannel
from discreet.exact import Number, exp_down, exp_up, integer, printed_up, rational
from discreet.mechanisms.channel import Channel, deterministic
from discreet.mechanisms.divergence import integers, worst
from discreet.mechanisms.neighbor_graph import Graph, Neighborhood, graph
from discreet.mechanisms.stochastic import (
    Label,
    LossFunction,
    Matrix,
    Prior,
    alike,
    position,
    read_labels,
    read_loss,
    read_prior,
    times,
)

# The adversary


def posterior(channel: Channel, prior: Prior) -> Channel:
    """Bayes' rule, p(x|z) ∝ p(z|x)·π(x): the channel from outputs to inputs. Impossible outputs are left out.

    >>> coin = Channel([["3/4", "1/4"], ["1/4", "3/4"]], outputs=["yes", "no"])
    >>> posterior(coin, ["1/10", "9/10"]).matrix
    array([[Fraction(1, 4), Fraction(3, 4)],
           [Fraction(1, 28), Fraction(27, 28)]], dtype=object)
    """
    joint = _joint(channel, prior)
    total = joint.sum(axis=0)
    possible = np.flatnonzero(total > 0)
    rows = (joint[:, possible] / total[possible]).T
    return Channel._of(rows, tuple(channel.outputs[z] for z in possible), channel.inputs)


def vulnerability(channel: Channel, prior: Prior) -> Any:
    """The probability that the best guess of the input is right, after seeing the output: Σ_z max_x π(x)·p(z|x).

    >>> vulnerability(Channel([["3/4", "1/4"], ["1/4", "3/4"]]), "uniform")
    Fraction(3, 4)
    """
    return _joint(channel, prior).max(axis=0).sum()


def best_test(channel: Channel, first: Label, second: Label) -> Any:
    """The largest Pr[guess x | x] + Pr[guess x' | x'] of any test between two inputs: 1 + total variation.

    Proof. Guessing x on S succeeds with p(S|x) + 1 − p(S|x'), largest for S = {z : p(z|x) > p(z|x')}.

    >>> best_test(Channel([["3/4", "1/4"], ["1/4", "3/4"]]), 0, 1)
    Fraction(3, 2)
    """
    p, q = (channel.matrix[position(x, channel.inputs, "input")] for x in (first, second))
    return 1 + np.maximum(p - q, 0).sum()


def guess_bound(epsilon: Number) -> float:
    """2e^ε/(1+e^ε), rounded up: no test between neighbors of an ε-DP release succeeds more often.

    Proof. With S the worst set, a = p(S|x), b = p(S|x'): a ≤ e^ε·b and 1 − b ≤ e^ε·(1 − a). Adding,
    1 + a − b ≤ e^ε·(1 − (a − b)), so a − b ≤ (e^ε − 1)/(e^ε + 1). (Kairouz, Oh, Viswanath 2015, Thm 2.1.)

    >>> guess_bound(0), round(guess_bound("1.0986122886681098"), 12)
    (1.0, 1.5)
    """
    growth = exp_up(rational(epsilon, "epsilon", at_least=0, at_most=10_000))
    return printed_up(2 * growth / (1 + growth))


@dataclass(frozen=True, slots=True)
class PriorCheck:
    """What `prior_independence` found: the largest change of odds over all priors, beside the claimed e^ε."""

    priors: int
    largest: Fraction | float
    allowed: Fraction | float
    holds: bool


def prior_independence(
    channel: Channel, neighbors: Neighborhood, *, epsilon: Number, priors: Iterable[Prior] | None = None
) -> PriorCheck:
    """Check claim B12: for every prior, seeing an output changes the odds between neighbors by at most e^ε.

    The odds π(x|z)/π(x'|z) ÷ π(x)/π(x') are computed from the posterior under each prior; without priors, under
    1000 of `spread_priors`. Exact channels and priors are compared in rationals, floats with a slack of 1e-9.

    >>> coin = Channel([["3/4", "1/4"], ["1/4", "3/4"]])
    >>> prior_independence(coin, "all", epsilon="1.0986122886681098", priors=[["1/10", "9/10"], "uniform"])
    PriorCheck(priors=2, largest=Fraction(3, 1), allowed=Fraction(...), holds=True)
    """
    near = graph(neighbors, channel.inputs)
    allowed = exp_down(rational(epsilon, "epsilon", at_least=0, at_most=10_000))
    tried = list(spread_priors(len(channel.inputs), count=1000) if priors is None else priors)
    if not tried:
        raise InvalidChannel("priors: there are none to check; give at least one, or leave them out")
    changes = [_largest_odds_change(channel, read_prior(p, channel.inputs), near) for p in tried]
    rounded = allowed * (1 + Fraction(1, 10**9))
    holds = all(change <= (allowed if isinstance(change, Fraction) else rounded) for change in changes)
    return PriorCheck(len(tried), max(changes), allowed, holds)


def spread_priors(size: int, *, count: int) -> Iterator[tuple[Fraction, ...]]:
    """Exact priors spread over the simplex by arithmetic alone: uₖ = frac(k·√pⱼ) for primes pⱼ, weights −ln uₖ.

    Weights −ln u of uniform u, divided by their sum, are uniform on the simplex; the Kronecker sequence k·√pⱼ mod 1
    is equidistributed since the roots of primes and 1 are linearly independent over the rationals (Weyl 1916).

    >>> [round(float(p), 3) for p in next(spread_priors(3, count=1))]
    [0.334, 0.118, 0.547]
    """
    size = integer(size, "size", at_least=1)
    roots = [math.isqrt(prime << 128) for prime in _primes(size)]
    for k in range(1, integer(count, "count", at_least=1) + 1):
        fractions = [(k * root % (1 << 64)) / (1 << 64) for root in roots]
        weights = [1 + int(-math.log(max(u, 2.0**-64)) * (1 << 32)) for u in fractions]
        yield tuple(Fraction(w, sum(weights)) for w in weights)


# The user


def expected_loss(channel: Channel, prior: Prior, loss: LossFunction) -> Any:
    """U(π, K, ℓ) = Σ π(y)·K(z|y)·ℓ(y, z).

    >>> expected_loss(Channel([["3/4", "1/4"], ["1/4", "3/4"]]), "uniform", lambda y, z: abs(y - z))
    Fraction(1, 4)
    """
    joint, cost = alike(_joint(channel, prior), read_loss(loss, channel.inputs, channel.outputs))
    return (joint * cost).sum()


def remap(channel: Channel, *, prior: Prior, loss: LossFunction, guesses: Iterable[Label] | None = None) -> Channel:
    """What a user with this prior makes of each output: the guess of least expected loss, as a channel.

    `channel.then(remap(channel, …))` is what that user sees. `guesses` are the inputs unless given; the first
    of several best guesses is taken.

    Proof. The expected loss is a sum over outputs, Σ_z Σ_y π(y)·K(z|y)·ℓ(y, r(z)), and each term is made least on
    its own.

    >>> coin = Channel([["3/4", "1/4"], ["1/4", "3/4"]], outputs=["no", "yes"])
    >>> skeptic = remap(coin, prior=["9/10", "1/10"], loss=lambda y, z: abs(y - z))
    >>> skeptic.probability("yes", 0)  # "yes" does not convince this user
    Fraction(1, 1)
    """
    listed = list(channel.inputs if guesses is None else guesses)
    names = read_labels(listed, len(listed), "guess")
    joint, cost = alike(_joint(channel, prior), read_loss(loss, channel.inputs, names))
    weighted = integers(joint)[0].T @ integers(cost)[0]  # outputs × guesses, up to a positive factor
    best = dict(zip(channel.outputs, weighted.argmin(axis=1).tolist(), strict=True))
    return deterministic(lambda z: names[best[z]], channel.outputs, names)


def oblivious(query: Callable[[Any], Label], databases: Iterable[Label], mechanism: Channel) -> Channel:
    """K = H∘f: answer a query, then randomize the answer without another look at the database.

    Privacy is measured on K, between databases and reports; utility on H, between true answers and reports.

    >>> coin = Channel([["3/4", "1/4"], ["1/4", "3/4"]])
    >>> oblivious(max, [(0, 0), (0, 1), (1, 0)], coin).ratio("all")
    Fraction(3, 1)
    """
    return deterministic(query, databases, mechanism.inputs).then(mechanism)


def answer_prior(
    query: Callable[[Any], Label], databases: Sequence[Label], prior: Prior, answers: Iterable[Label]
) -> Matrix:
    """The prior on true answers that a prior on databases means.

    >>> answer_prior(sum, [(0, 0), (0, 1), (1, 0), (1, 1)], "uniform", [0, 1, 2]).tolist()
    [Fraction(1, 4), Fraction(1, 2), Fraction(1, 4)]
    """
    image = deterministic(query, databases, answers)
    return _joint(image, prior).sum(axis=0)  # type: ignore[no-any-return]


def _joint(channel: Channel, prior: Prior) -> Matrix:
    """π(x)·p(z|x), rows inputs, columns outputs."""
    entries, weights = alike(channel.matrix, read_prior(prior, channel.inputs))
    return times(entries, weights[:, None])


def _largest_odds_change(channel: Channel, prior: Matrix, near: Graph) -> Fraction | float:
    after = posterior(channel, prior)
    belief, before = alike(after.matrix.T, prior)
    held = np.flatnonzero(before > 0)
    lift = belief[held] / before[held, None]  # p(x|z)/π(x), rows inputs
    place = worst(lift, near.restrict(held))
    if place is None:
        return Fraction(1) if lift.dtype == object else 1.0
    x, y, z = place
    change: Fraction | float = lift[x, z] / lift[y, z] if lift[y, z] else math.inf
    return change if isinstance(change, Fraction) else float(change)


def _primes(count: int) -> list[int]:
    result: list[int] = []
    candidate = 2
    while len(result) < count:
        if all(candidate % prime for prime in result if prime * prime <= candidate):
            result.append(candidate)
        candidate += 1
    return result
