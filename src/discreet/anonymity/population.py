"""From a sample to its population: how many of those who look the same here look the same out there?

Somebody who is unique in a sample of one in a hundred may have many doubles outside it. These are estimates under a
model of how values are spread; they can be off by a factor, and the reports say so.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from discreet.anonymity.classes import Classes, Floats, Ints
from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import integer

Method = Literal["pitman", "zayatz"]
_SUMMED, _FARTHEST = 100, 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PopulationUniques:
    """An estimate: of `sample_uniques` people, `still_unique` are expected to be unique in the population too.

    `uniques` is how many the population is expected to hold in all.
    """

    method: str
    population: int
    sample: int
    sample_uniques: int
    still_unique: float
    uniques: float

    @property
    def share(self) -> float:
        """The chance that somebody who is unique in the sample is unique in the population."""
        return self.still_unique / self.sample_uniques if self.sample_uniques else 0.0


def population_uniques(classes: Classes, *, population: int, method: Method = "pitman") -> PopulationUniques:
    """How many of the sample's unique people are unique in a population of this size, of which it is a random sample.

    - "pitman": Pitman's two-parameter model, fitted by maximum likelihood (Hoshino 2001, "Applying Pitman's sampling
      formula to microdata disclosure risk assessment", J. Official Statistics 17). Given the sample, person n + 1
      joins a class of f people with probability (f − α)/(θ + n) and a new one otherwise; so a person who is unique
      among n stays so among N with probability Π_{i=n}^{N−1} (θ + α + i − 1)/(θ + i).
    - "zayatz": Bayes' rule with the class sizes of the sample as those of the population (Zayatz 1991, "Estimation of
      the percent of unique population elements on a microdata file using the sample"); it tends to overstate.

    >>> import numpy as np
    >>> classes = Classes.of([np.array([0, 1, 1, 2, 2, 2, 3, 4, 4, 4])])
    >>> result = population_uniques(classes, population=1000)
    >>> result.sample_uniques, result.share < 0.2
    (2, True)
    """
    if method not in ("pitman", "zayatz"):
        raise InvalidParameter("method", method, "pitman or zayatz")
    sample = int(classes.sizes.sum())
    integer(population, "population", at_least=1)
    if not sample:
        raise InvalidData("there are no classes: every row is suppressed")
    if population < sample:
        raise InvalidParameter("population", population, f"at least the number of people in the table ({sample})")
    alone = int(np.count_nonzero(classes.sizes == 1))
    still, uniques = (_pitman if method == "pitman" else _zayatz)(classes.sizes, population)
    return PopulationUniques(
        method=method, population=population, sample=sample, sample_uniques=alone, still_unique=still, uniques=uniques
    )


def expected_inverse(sizes: NDArray[Any], population: int) -> Floats:
    """E[1/F] for each class: one over its size in the population, of which the table is a random sample.

    By Pitman's model, fitted to the class sizes f of the n people (Hoshino 2001): of the N − n others each joins a
    class that has grown to f + j people with probability (f + j − α)/(θ + n + i), after i of them. That is Pólya's
    urn, so F − f is beta-binomial: N − n draws, parameters f − α and θ + n − f + α. Up to f = 100 the expectation is
    summed, and what lies beyond 20,000 others is counted as if there were just so many (an error below 5e-5, upwards);
    for larger classes it is expanded to the second order about E[F].

    >>> expected_inverse(np.array([1, 1, 1, 2, 3]), 8).round(3).tolist()  # the table is its own population
    [1.0, 1.0, 1.0, 0.5, 0.333]
    >>> expected_inverse(np.array([1, 1, 1, 2, 3]), 80).round(3)[:1].tolist()
    [0.323]
    """
    people, classes = int(sizes.sum()), len(sizes)
    more = int(population) - people
    if more <= 0 or (classes > 1 and sizes.max() == 1):  # no two alike: the likeliest model has none alike anywhere
        return 1 / sizes
    theta, alpha = fit_pitman(sizes)
    distinct, places = np.unique(sizes, return_inverse=True)
    inverse = [
        _summed_inverse(size, size - alpha, theta + people - size + alpha, more)
        if size <= _SUMMED
        else _expanded_inverse(size, size - alpha, theta + people - size + alpha, more)
        for size in distinct.tolist()
    ]
    return np.minimum(inverse, 1 / distinct)[places]


def _summed_inverse(size: int, joins: float, stays_away: float, more: int) -> float:
    """E[1/(f + X)] with X beta-binomial, term by term; P(X = x + 1)/P(X = x) = (m − x)(a + x)/((x + 1)(b + m − x − 1)).

    `joins` and `stays_away` are the parameters a and b, `more` is m.
    """
    from scipy.special import betaln

    steps = np.arange(min(more, _FARTHEST))
    ratios = np.log((more - steps) / (steps + 1)) + np.log((joins + steps) / (stays_away + more - steps - 1))
    first = betaln(joins, stays_away + more) - betaln(joins, stays_away)
    chance = np.exp(first + np.concatenate([[0.0], np.cumsum(ratios)]))
    far = max(0.0, 1 - float(chance.sum()))
    return float((chance / (size + np.arange(len(chance)))).sum()) + far / (size + len(chance))


def _expanded_inverse(size: int, joins: float, stays_away: float, more: int) -> float:
    """E[1/F] ≈ (1 + Var F/E[F]²)/E[F], by the mean and variance of the beta-binomial."""
    total = joins + stays_away
    mean = size + more * joins / total
    variance = more * joins * stays_away * (total + more) / (total**2 * (total + 1))
    return (1 + variance / mean**2) / mean


def fit_pitman(sizes: NDArray[Any]) -> tuple[float, float]:
    """The (θ, α) of Pitman's sampling formula under which these class sizes are likeliest, θ > −α, 0 < α < 1.

    The likelihood is Π_{i=1}^{u−1}(θ + iα) · Π_classes Π_{i=1}^{f−1}(i − α) / Π_{i=1}^{n−1}(θ + i), up to a constant.

    >>> theta, alpha = fit_pitman(np.array([1] * 50 + [2] * 10 + [3] * 5 + [10] * 2))
    >>> 0.5 < alpha < 0.9
    True
    """
    from scipy.optimize import minimize

    distinct, times = np.unique(sizes, return_counts=True)
    people, classes = int(sizes.sum()), len(sizes)

    def unlikely(point: Floats) -> float:
        alpha, theta = _unfolded(point)
        return -_likelihood(theta, alpha, distinct, times, people, classes)

    starts = [(logit, scale) for logit in (-2.0, 1.0) for scale in (0.0, float(np.log(max(classes, 2))))]
    fits = [
        minimize(unlikely, start, method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-9, "maxiter": 2000})
        for start in starts
    ]
    alpha, theta = _unfolded(min(fits, key=lambda fit: float(fit.fun)).x)
    return theta, alpha


def _unfolded(point: Floats) -> tuple[float, float]:
    """(α, θ) from a point of the plane: logit α and log(θ + α)."""
    logit, scale = np.clip(point, -25, 25)
    alpha = float(np.clip(1 / (1 + np.exp(-logit)), 1e-9, 1 - 1e-9))
    return alpha, float(np.exp(scale)) - alpha


def _likelihood(theta: float, alpha: float, sizes: Ints, times: Ints, people: int, classes: int) -> float:
    from scipy.special import gammaln

    if alpha > 1e-3:
        opened = (classes - 1) * np.log(alpha) + gammaln(theta / alpha + classes) - gammaln(theta / alpha + 1)
    else:
        opened = np.log(theta + alpha * np.arange(1, classes)).sum()
    joined = times @ (gammaln(sizes - alpha) - gammaln(1 - alpha))
    return float(opened + joined - gammaln(theta + people) + gammaln(theta + 1))


def _pitman(sizes: Ints, population: int) -> tuple[float, float]:
    people, classes = int(sizes.sum()), len(sizes)
    alone = int(np.count_nonzero(sizes == 1))
    if alone == classes and classes > 1:  # no two alike: the likeliest model has none alike anywhere
        return float(alone), float(population)
    theta, alpha = fit_pitman(sizes)
    still = alone * stays(theta, alpha, people, population)
    opens = (theta + classes * alpha) / (theta + people)
    fresh = (population - people) * opens * stays(theta, alpha, people + 1, population) if population > people else 0.0
    return still, still + fresh


def stays(theta: float, alpha: float, people: int, population: int) -> float:
    """The chance that one who is alone among so many people is alone in the population.

    >>> round(stays(1.0, 0.5, 2, 4), 6) == round((1.5 + 1) / 3 * (1.5 + 2) / 4, 6)
    True
    """
    from scipy.special import gammaln

    first, last = theta + alpha - 1, theta
    rise = gammaln(first + population) - gammaln(first + people)
    return float(np.exp(rise - gammaln(last + population) + gammaln(last + people)))


def _zayatz(sizes: Ints, population: int) -> tuple[float, float]:
    from scipy.special import gammaln

    people = int(sizes.sum())
    distinct, times = np.unique(sizes, return_counts=True)
    fits = distinct <= population - people + 1
    distinct, times = distinct[fits], times[fits]
    # the chance to draw exactly one of a class of j: j·C(N − j, n − 1)/C(N, n); the last factor cancels
    left = population - distinct - people + 1
    chance = np.log(distinct) + gammaln(population - distinct + 1) - gammaln(left + 1)
    weight = times * np.exp(chance - chance.max()) if len(distinct) else np.array([1.0])
    alone = int(np.count_nonzero(sizes == 1))
    share = float(weight[distinct == 1].sum() / weight.sum()) if alone else 0.0
    return alone * share, alone * share * population / people
