"""A Pólya urn, drawn exactly and all at once, and the prior that it needs for pure, probabilistic and approximate DP.

The setting (Machanavajjhala, Kifer, Abowd, Gehrke, Vilhuber 2008, "Privacy: theory meets practice on the map"). The n
people who work at one destination are public in number; where they live is secret. n_i of them live in cell i of K.
The synthesizer draws m synthetic people from a Pólya urn that starts with a_i = α + n_i balls of each cell:

    P(s | n) = m!/∏ s_i! · Γ(A)/Γ(A + m) · ∏ Γ(s_i + a_i)/Γ(a_i),   A = n + Kα.

**The ratio.** Let one person move from i to j (n_i ≥ 1). Dividing the two probabilities, all else cancels:

    R(s) = P(s | n)/P(s | n') = (s_i + a_i − 1)/(a_i − 1) · a_j/(s_j + a_j) ≤ 1 + s_i/(a_i − 1),

and 1/R(s) ≤ 1 + s_j/a_j, which is the same bound seen from n', whose cell j has a_j + 1 balls. So R(s) > e^ε only if
s_i > (e^ε − 1)(α + n_i − 1): only outputs with many synthetic people in a cell that has few real ones tell much.

* **Pure ε-DP**: s_i ≤ m and n_i ≥ 1, so α ≥ m/(e^ε − 1) suffices (`pure_prior`).
* **(ε,δ)-probabilistic DP**: for every n, with probability at least 1 − δ the output s is one for which the ratio to
  *every* neighbor of n is within e^±ε. It is a statement about outputs: with probability δ anything may be lost, and
  else nobody loses more than ε. It implies (ε,δ)-DP: P(S) ≤ P(S ∩ good) + δ ≤ e^ε·P'(S) + δ (`probabilistic_prior`).
* **(ε,δ)-DP** directly: for each *pair* of neighbors only one cell matters, and an output that breaks the ratio by
  little counts for little: Σ_s P(s)·[1 − e^ε/R(s)]₊ ≤ E[1 − e^ε·(a_i − 1)/(s_i + a_i − 1)]₊ (`approximate_prior`).

s_i is beta-binomial with parameters m, a_i and A − a_i. Its tail is bounded for *all* n_i from 0 to n: they are taken
in blocks [c, d], where P(s_i(n_i) > t(n_i)) ≤ P(s_i(d) > t(c)), because s_i grows stochastically with a_i and the
threshold t grows with n_i; a tail beyond t is at most p(t + 1)/(1 − r), where r bounds the ratio of one probability to
the one before. Floats are used for these probabilities, made larger by 10⁻⁶ of themselves, which is far more than the
error of the logarithms of Γ that they come from (10⁻⁷ for a billion people).
"""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidData
from discreet.exact import Number, exp_down, float_down, integer, rational
from discreet.noise import Entropy, uniform_each

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

GRAIN = 1024
"""Priors are multiples of 1/GRAIN, rounded up: the urn holds whole balls."""

_MOST = 10**9
_SURE = 1 + 1e-6  # covers the rounding of floats
_TERMS = 64  # that are added up before the rest is bounded
_BLOCK = 1.01  # a block of counts ends within one per cent of its start


def draw(counts: Integers, prior: Fraction, draws: int, *, entropy: Entropy | None = None) -> Integers:
    """How many of so many draws fall into each cell, from an urn with counts + prior balls of each color.

    Proof. In an urn scheme every ball drawn goes back together with one more of its color, so the draw number t
    is, with probability A/(A + t), a ball that was there at the start, and else a copy of one of the t draws before it,
    each as likely: the joint law of the draws is the Dirichlet-multinomial (Blackwell, MacQueen 1973). With the prior
    p/q, all balls are q times as many: a whole number below qA + qt decides, exactly. Copies of copies are followed to
    the draw that they come from, which lies before them.

    >>> import numpy as np
    >>> from fractions import Fraction
    >>> from discreet.synthetic.commuting.urn import draw
    >>> int(draw(np.array([5, 0, 2]), Fraction(1, 3), 1000).sum())
    1000
    """
    each = counts * prior.denominator + prior.numerator
    ends = np.cumsum(each)
    start = int(ends[-1])
    if start < 1:
        raise InvalidData("urn: it is empty; expected people or a prior")
    ball = uniform_each(start + prior.denominator * np.arange(draws, dtype=np.int64), entropy=entropy)
    copies = ball >= start
    source = np.where(copies, (ball - start) // prior.denominator, np.arange(draws))
    while copies.any():
        before = source[source]
        copies = before != source
        source = before
    cells = np.searchsorted(ends, ball[source], side="right")
    return np.bincount(cells, minlength=len(counts)).astype(np.int64)


def pure_prior(people: int, *, epsilon: Number) -> Fraction:
    """The prior in each cell that makes one draw of so many synthetic people ε-DP: people/(e^ε − 1).

    >>> from discreet.synthetic.commuting.urn import pure_prior
    >>> round(float(pure_prior(10**6, epsilon=7)))
    913
    """
    drawn = integer(people, "people", at_least=1, at_most=_MOST)
    exact = rational(epsilon, "epsilon", above=0, at_most=100)
    return _rounded_up(drawn / (exp_down(exact) - 1))


def probabilistic_prior(people: int, cells: int, *, epsilon: Number, delta: Number) -> Fraction:
    """The least prior found for which a draw is (ε,δ)-probabilistically DP, whatever the counts are.

    Guarantee: at the prior returned, P(the output breaks the ratio for some neighbor) ≤ δ, for all counts. Proof. A
    cell without people breaks it with probability at most f(0), one with c people with at most f(c) (module). Over all
    cells that is at most K·f(0) + Σ (f(n_i) − f(0)) over cells with people, which is at most min(n·max_c g(c)/c,
    min(n, K)·max_c g(c)) with g = (f − f(0))₊, because Σ n_i = n.

    >>> from discreet.synthetic.commuting.urn import probabilistic_prior, pure_prior
    >>> prior = probabilistic_prior(10**6, 1000, epsilon=7, delta="1e-6")
    >>> prior < pure_prior(10**6, epsilon=7) / 50
    True
    """

    def mass(case: "_Case") -> float:
        empty = float(case.tail(np.zeros(1), np.zeros(1))[0])
        starts, ends = case.blocks()
        more = np.maximum(case.tail(starts, ends) - empty, 0)
        most, each = float(np.max(more, initial=0)), float(np.max(more / starts, initial=0))
        return (case.cells * empty + min(case.people * each, min(case.people, case.cells) * most)) * _SURE

    return _least(mass, people, cells, epsilon, delta)


def approximate_prior(people: int, cells: int, *, epsilon: Number, delta: Number) -> Fraction:
    """The least prior found for which a draw is (ε,δ)-DP, whatever the counts are: smaller than for probabilistic DP.

    >>> from discreet.synthetic.commuting.urn import approximate_prior, probabilistic_prior
    >>> terms = {"epsilon": 1, "delta": "1e-6"}
    >>> approximate_prior(1000, 60, **terms) < probabilistic_prior(1000, 60, **terms)
    True
    """

    def mass(case: "_Case") -> float:
        return float(np.max(case.excess(*case.blocks()), initial=0))

    return _least(mass, people, cells, epsilon, delta)


def _least(mass: "Callable[[_Case], float]", people: int, cells: int, epsilon: Number, delta: Number) -> Fraction:
    """About the least multiple of 1/GRAIN whose mass is at most δ, found by halving; never more than the pure prior.

    Halving relies on nothing: the prior that is returned was itself found to be good.
    """
    drawn = integer(people, "people", at_least=1, at_most=_MOST)
    count = integer(cells, "cells", at_least=2, at_most=_MOST)
    exact = rational(epsilon, "epsilon", above=0, at_most=100)
    limit = float_down(rational(delta, "delta", above=0, below=1))
    high, low = int(pure_prior(drawn, epsilon=exact) * GRAIN), 0
    while high - low > max(1, high // 256):
        middle = (low + high) // 2
        if mass(_Case(drawn, count, Fraction(middle, GRAIN), exact)) <= limit:
            high = middle
        else:
            low = middle
    return Fraction(high, GRAIN)


class _Case:
    """One prior under test: bounds on what single cells can do, for blocks of counts from `start` to `end`."""

    def __init__(self, people: int, cells: int, prior: Fraction, epsilon: Fraction) -> None:
        self.people, self.cells = people, cells
        self._prior = float(prior)
        self._total = people + cells * self._prior
        self._less = float_down(exp_down(epsilon) - 1)  # e^ε − 1, rounded down: thresholds come out lower
        self._ratio = float_down(exp_down(epsilon))

    def blocks(self) -> tuple[Floats, Floats]:
        """Where blocks of counts from 1 to n start and end; beyond the last, no output can break the ratio."""
        starts, ends = _blocks(self.people)
        some = self._threshold(starts) < self.people
        return starts[some], ends[some]

    def tail(self, starts: Floats, ends: Floats) -> Floats:
        """P(a cell with `end` people gets more than the threshold of one with `start`)."""
        return self._sum(ends, self._first(starts), np.ones_like)

    def excess(self, starts: Floats, ends: Floats) -> Floats:
        """E[1 − e^ε(a − 1)/(s + a − 1)]₊, with s of a cell with `end` people and a of one with `start`."""
        less = self._prior + starts - 1
        return self._sum(ends, self._first(starts), lambda s: np.maximum(0, 1 - self._ratio * less / (s + less)))

    def _first(self, counts: Floats) -> Floats:
        return np.floor(self._threshold(counts)) + 1

    def _threshold(self, counts: Floats) -> Floats:
        return self._less * (self._prior + np.maximum(counts, 1) - 1) * (1 - 1e-12)

    def _sum(self, counts: Floats, first: Floats, weight: Callable[[Floats], Floats]) -> Floats:
        """Σ_{s ≥ first} P(s)·weight(s), bounded from above; weights are at most 1."""
        inside = self._prior + counts
        outside = self._total - inside
        hopeless = (inside <= 0) | (outside < 1)
        inside, outside = np.where(hopeless, 1, inside), np.where(hopeless, 1, outside)
        size = _probability(np.minimum(first, self.people), self.people, inside, outside)
        size = np.where(first > self.people, 0, size)
        result = np.zeros_like(size)
        for step in range(_TERMS):
            s = first + step
            result += size * weight(s)
            size = size * np.maximum(self.people - s, 0) * (s + inside) / ((s + 1) * self._others(outside, s))
        s = first + _TERMS
        growth = np.maximum(1.0, (s + inside) / (s + 1))  # falls with s if inside ≥ 1, else it stays below 1
        ratio = growth * np.maximum(self.people - s, 0) / self._others(outside, s)  # falls with s, as outside ≥ 1
        with np.errstate(divide="ignore", invalid="ignore"):
            rest = np.where(size > 0, np.where(ratio < 1, size / (1 - ratio), 1.0), 0.0)
        return np.where(hopeless, 1.0, np.minimum(1.0, (result + rest) * _SURE))

    def _others(self, outside: Floats, s: Floats) -> Floats:
        return np.maximum(outside + self.people - s - 1, 1e-9)  # 0 only where nobody is left to be drawn


@lru_cache(maxsize=256)
def _blocks(people: int) -> tuple[Floats, Floats]:
    """1, 2, 3, … one by one, then blocks that end within one per cent of their start."""
    starts, start = [], 1
    while start <= people:
        starts.append(start)
        start = max(start, int(start * _BLOCK)) + 1
    edges = np.array([*starts, people + 1], np.float64)
    return edges[:-1], edges[1:] - 1


def _probability(s: Floats, people: int, inside: Floats, outside: Floats) -> Floats:
    """The beta-binomial probabilities of s."""
    from scipy.special import gammaln

    chosen = gammaln(people + 1) - gammaln(s + 1) - gammaln(people - s + 1)
    drawn = gammaln(s + inside) + gammaln(people - s + outside) - gammaln(people + inside + outside)
    return np.asarray(np.exp(chosen + drawn - gammaln(inside) - gammaln(outside) + gammaln(inside + outside)))


def _rounded_up(value: Fraction) -> Fraction:
    return Fraction(math.ceil(value * GRAIN), GRAIN)
