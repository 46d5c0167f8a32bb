"""How likely it is that people are re-identified by the classes they are in: prosecutor, journalist, marketer.

The prosecutor knows that a certain person is in the table; the journalist wants to name anybody, and must tell people
of the table from those of the population who look the same; the marketer wants to name as many as possible.
El Emam, Dankar 2008 ("Protecting privacy using k-anonymity"); Dankar, El Emam 2010 ("A method for evaluating marketer
re-identification risk").

These risks are about singling out a row by the quasi-identifiers, nothing else: a person in a class of a hundred who
all share a secret has a low risk here and no secret left.

>>> from discreet.anonymity.risk import risk
>>> from discreet.anonymity import Classes
>>> result = risk(Classes.of_table({"zip": ["13053", "13053", "14850"]}, ["zip"]), threshold="0.5")
>>> result.prosecutor.highest, round(result.prosecutor.mean, 3), round(result.prosecutor.at_risk, 3)
(1.0, 0.667, 0.333)

From a sample to its population: how many of those who look the same here look the same out there?

Somebody who is unique in a sample of one in a hundred may have many doubles outside it. These are estimates under a
model of how values are spread; they can be off by a factor, and the reports say so.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from discreet.anonymity.classes import Classes, Floats, Ints, numbered, rows_of
from discreet.anonymity.models import units_in
from discreet.anonymity.models.closeness import joint
from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import Number, integer, rational
from discreet.tables import read_table

Method = Literal["pitman", "zayatz"]
_SUMMED, _FARTHEST = 100, 20_000
_SURER = 0.05  # the share of the population from which on estimates were within a factor of two
_NEAR = "Estimates from a sample: on generated populations, they were within a factor of two of the truth."
_ROUGH = "Rough estimates from a small sample: on generated populations, some were several times too low or too high."


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


REGULATORS = Fraction(9, 100)
"""The chance of re-identification that guidance on published clinical data tolerates: one in eleven.

European Medicines Agency, Policy 0070 guidance; Health Canada, Public Release of Clinical Information.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chance:
    """The chance that a row is matched to the right person: the highest, the mean, and the share of rows above a
    threshold."""

    highest: float
    mean: float
    at_risk: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Risk:
    """The risks of a table by its quasi-identifiers. Suppressed rows are in no class and at no risk here.

    `counted`: what is counted, "rows" or, where units were given, "people"; `rows` and `suppressed` count those.
    """

    rows: int
    suppressed: int
    classes: int
    threshold: float
    prosecutor: Chance
    journalist: Chance | None
    marketer: float
    sample_uniques: int
    population_uniques: PopulationUniques | None
    source: str
    counted: str = "rows"

    @property
    def unique_share(self) -> float:
        """The share of the rows that are alone in their class."""
        return self.sample_uniques / self.rows if self.rows else 0.0

    def as_dict(self) -> dict[str, Any]:
        """The risks for JSON."""
        facts: dict[str, Any] = {
            "counted": self.counted,
            "rows": self.rows,
            "suppressed": self.suppressed,
            "classes": self.classes,
            "threshold": self.threshold,
            "unique_rows": self.sample_uniques,
            "unique_share": self.unique_share,
            "prosecutor": _chance(self.prosecutor),
            "marketer": self.marketer,
            "population_from": self.source,
        }
        if self.journalist is not None:
            facts["journalist"] = _chance(self.journalist)
        if self.population_uniques is not None:
            facts["still_unique_in_population"] = self.population_uniques.still_unique
            facts["population_uniques"] = self.population_uniques.uniques
        return facts

    def text(self) -> str:
        """The risks in a few lines."""
        hidden = f", {self.suppressed} suppressed" if self.suppressed else ""
        prosecutor, counted = self.prosecutor, self.counted
        single = {"rows": "row", "people": "person"}[counted]
        alone, are = (single, "is") if self.sample_uniques == 1 else (counted, "are")
        lines = [
            f"{self.rows} {counted}{hidden}, {self.classes} {'class' if self.classes == 1 else 'classes'}; "
            f"{self.sample_uniques} {alone} ({self.unique_share:.1%}) {are} unique.",
            f"prosecutor  highest {prosecutor.highest:.3g}, mean {prosecutor.mean:.3g}, "
            f"{prosecutor.at_risk:.1%} of {counted} above {self.threshold:.3g}",
        ]
        if self.journalist is not None:
            journalist = self.journalist
            lines.append(
                f"journalist  highest {journalist.highest:.3g}, mean {journalist.mean:.3g}, "
                f"{journalist.at_risk:.1%} of {counted} above {self.threshold:.3g} ({self.source})"
            )
        lines.append(f"marketer    {self.marketer:.3g} of {counted} expected to be matched rightly ({self.source})")
        if (still := self.population_uniques) is not None:
            lines.append(
                f"of {still.sample_uniques} unique {counted} about {still.still_unique:.0f} are expected to be unique "
                f"in a population of {still.population} ({still.method}'s estimate)"
            )
            lines.append(_ROUGH if still.sample < _SURER * still.population else _NEAR)
        return "\n".join(lines)


def risk(
    classes: Classes,
    *,
    threshold: Number = REGULATORS,
    population: "NDArray[Any] | int | None" = None,
    method: Method = "pitman",
    units: Ints | None = None,
) -> Risk:
    """The risks of a table's classes.

    `population` is nothing (then the table is its own population), the size of each class in the population (see
    `population_sizes`), or the number of people of whom the table is a random sample; from a number the journalist's
    risk is estimated, E[1/F] by Pitman's model (`expected_inverse`). It is an estimate: where values are spread very
    evenly in the population it is too high, about twice for a sample of 5 % and more for a smaller one; where half of
    the people share few values and the others are nearly all different, it is too low (0.75, 0.45 and 0.2 to 0.5 times
    the truth for samples of 5, 2 and 1 % of 40,000 people).

    `units`: the person of each row as a number, where one may have several rows. A class then is as large as it has
    people, and a person is at the risk of the smallest class that holds a row of theirs.

    >>> visits = Classes.numbered(np.array([0, 0, 0, 1, 1]))
    >>> risk(visits).prosecutor.highest, risk(visits, units=np.array([7, 7, 7, 7, 3])).prosecutor.highest
    (0.5, 1.0)
    """
    limit = float(rational(threshold, "threshold", above=0, at_most=1))
    if not len(classes.of_row):
        raise InvalidData("the table has no rows")
    people = _People.of(classes, units)
    sampled = _sampled(population, people)
    share, source = _matching(people.sizes, population if sampled is None else sampled)
    if sampled is not None:
        fraction = people.present / int(population)  # type: ignore[arg-type]
        source = f"estimated for a random sample of {fraction:.3g} of {population} people"
    counted = population if isinstance(population, np.ndarray) else None
    return Risk(
        rows=people.present,
        suppressed=people.absent,
        classes=classes.count,
        threshold=limit,
        prosecutor=_chances(people.worst, 1 / people.sizes, limit),
        journalist=None if population is None else _journalist(people.worst, share, limit, counted),
        marketer=_mean(people.worst, share),
        sample_uniques=int(people.worst[people.sizes == 1].sum()),
        population_uniques=_still_unique(classes, people, population, sampled, method),
        source=source,
        counted="rows" if units is None else "people",
    )


@dataclass(frozen=True, slots=True)
class _People:
    """For each class how many people it holds, and how many of them are in no smaller one; in all and suppressed."""

    sizes: Ints
    worst: Ints
    present: int
    absent: int

    @classmethod
    def of(cls, classes: Classes, units: Ints | None) -> "_People":
        if units is None:
            rows = int(classes.sizes.sum())
            weights = len(classes.of_row) if classes.weights is None else int(classes.weights.sum())
            return cls(classes.sizes, classes.sizes, rows, weights - rows)
        if len(units) != len(classes.of_row):
            raise InvalidData(f"units: expected one for each of the {len(classes.of_row)} rows, got {len(units)}")
        sizes, kept = units_in(classes, units), classes.of_row >= 0
        of_row, unit = classes.of_row[kept], units[kept]
        order = np.lexsort((of_row, sizes[of_row], unit))
        first = order[np.flatnonzero(np.diff(unit[order], prepend=-1))]
        worst = np.bincount(of_row[first], minlength=classes.count).astype(np.int64)
        return cls(sizes, worst, len(first), len(np.unique(units)) - len(first))


def _sampled(population: Any, people: _People) -> int | None:
    """How many memberships of classes the population has, where it is a number of people: as many each as here."""
    if isinstance(population, bool) or not isinstance(population, int | np.integer):
        return None
    if population < people.present:
        expected = f"at least the number of people in the table ({people.present})"
        raise InvalidParameter("population", population, expected)
    memberships = int(people.sizes.sum())
    return memberships * int(population) // people.present if people.present else int(population)


def _still_unique(
    classes: Classes, people: _People, population: Any, sampled: int | None, method: Method
) -> PopulationUniques | None:
    if sampled is None or not people.present:
        return None
    result = population_uniques(replace(classes, sizes=people.sizes), population=sampled, method=method)
    return replace(result, population=int(population), sample=people.present)


def population_sizes(table: Any, population: Any, quasi: Sequence[str]) -> Ints:
    """For each class of the table, how many people of the population have its values (written in the same way).

    >>> population_sizes({"zip": ["130**", "148**"]}, {"zip": ["130**"] * 5 + ["148**"] * 3}, ["zip"]).tolist()
    [5, 3]
    """
    rows, people = rows_of(table), read_table(population, "population")
    classes = Classes.of_table(rows, tuple(quasi))
    keys = numbered([joint(rows, people, name) for name in quasi])
    there = np.bincount(keys[rows.num_rows :], minlength=int(keys.max()) + 1)
    sizes = np.zeros(classes.count, np.int64)
    kept = classes.of_row >= 0
    sizes[classes.of_row[kept]] = there[keys[: rows.num_rows][kept]]
    return sizes


def _matching(sizes: Ints, population: Any) -> tuple[Floats, str]:
    """For each class the chance to match a row of it rightly against the population, and where that comes from."""
    if population is None:
        return 1 / sizes, "the table taken as its own population"
    if isinstance(population, np.ndarray):
        if population.shape != sizes.shape or not np.issubdtype(population.dtype, np.integer):
            raise InvalidData(f"population: expected a whole number for each of the {len(sizes)} classes")
        if short := int(np.count_nonzero(population < sizes)):
            raise InvalidData(
                f"the population is smaller than the table in {short} of {len(sizes)} classes; it must include "
                "everybody in the table, with the quasi-identifiers written in the same way"
            )
        return 1 / population, "counted in the population"
    if isinstance(population, bool) or not isinstance(population, int | np.integer):
        raise InvalidParameter("population", population, "the size of each class, or the number of people")
    return expected_inverse(sizes, int(population)), "estimated"


def _journalist(people: Ints, share: Floats, limit: float, counted: "NDArray[Any] | None") -> Chance:
    """As `_chances`; its mean is the larger of two attacks: from the population to the table and back (2008)."""
    chances = _chances(people, share, limit)
    if counted is None or not len(people):
        return chances
    outward = len(people) / int(counted.sum())
    return Chance(highest=chances.highest, mean=max(chances.mean, outward), at_risk=chances.at_risk)


def _chances(people: Ints, share: Floats, limit: float) -> Chance:
    """Highest and mean over the people of each class, and the share of them above the limit."""
    if not people.sum():
        return Chance(highest=0.0, mean=0.0, at_risk=0.0)
    above = people[share > limit * (1 + 1e-12)].sum() / people.sum()
    return Chance(highest=float(share.max()), mean=_mean(people, share), at_risk=float(above))


def _mean(people: Ints, share: Floats) -> float:
    return float(people @ share / people.sum()) if people.sum() else 0.0


def _chance(chance: Chance) -> dict[str, float]:
    return {"highest": chance.highest, "mean": chance.mean, "share_at_risk": chance.at_risk}
