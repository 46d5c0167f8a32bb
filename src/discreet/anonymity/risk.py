"""How likely it is that people are re-identified by the classes they are in: prosecutor, journalist, marketer.

The prosecutor knows that a certain person is in the table; the journalist wants to name anybody, and must tell people
of the table from those of the population who look the same; the marketer wants to name as many as possible.
El Emam, Dankar 2008 ("Protecting privacy using k-anonymity"); Dankar, El Emam 2010 ("A method for evaluating marketer
re-identification risk").

These risks are about singling out a row by the quasi-identifiers, nothing else: a person in a class of a hundred who
all share a secret has a low risk here and no secret left.

>>> from discreet.anonymity.risk import risk
>>> from discreet.anonymity import Classes
>>> found = risk(Classes.of_table({"zip": ["13053", "13053", "14850"]}, ["zip"]), threshold="0.5")
>>> found.prosecutor.highest, round(found.prosecutor.mean, 3), round(found.prosecutor.at_risk, 3)
(1.0, 0.667, 0.333)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.anonymity.classes import Classes, numbered
from discreet.anonymity.population import Method, PopulationUniques, population_uniques
from discreet.anonymity.presence import joint
from discreet.anonymity.sensitive import rows_of
from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import Number, rational
from discreet.tables import as_arrow

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_SMALL = 50
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
    """The risks of a table by its quasi-identifiers. Suppressed rows are in no class and at no risk here."""

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

    @property
    def unique_share(self) -> float:
        """The share of the rows that are alone in their class."""
        return self.sample_uniques / self.rows if self.rows else 0.0

    def as_dict(self) -> dict[str, Any]:
        """The risks for JSON."""
        facts: dict[str, Any] = {
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
        one = self.prosecutor
        lines = [
            f"{self.rows} rows{hidden}, {self.classes} classes; {self.sample_uniques} rows "
            f"({self.unique_share:.1%}) are unique.",
            f"prosecutor  highest {one.highest:.3g}, mean {one.mean:.3g}, "
            f"{one.at_risk:.1%} of rows above {self.threshold:.3g}",
        ]
        if self.journalist is not None:
            two = self.journalist
            lines.append(
                f"journalist  highest {two.highest:.3g}, mean {two.mean:.3g}, {two.at_risk:.1%} of rows above "
                f"{self.threshold:.3g} ({self.source})"
            )
        lines.append(f"marketer    {self.marketer:.3g} of rows expected to be matched rightly ({self.source})")
        if (still := self.population_uniques) is not None:
            lines.append(
                f"of {still.sample_uniques} unique rows about {still.still_unique:.0f} are expected to be unique in a "
                f"population of {still.population} ({still.method}'s estimate)"
            )
        return "\n".join(lines)


def risk(
    classes: Classes,
    *,
    threshold: Number = REGULATORS,
    population: "NDArray[Any] | int | None" = None,
    method: Method = "pitman",
) -> Risk:
    """The risks of a table's classes.

    `population` is nothing (then the table is its own population), the size of each class in the population (see
    `population_sizes`), or the number of people of whom the table is a random sample; from a number the journalist's
    risk is estimated, E[1/F | f], with F given f negative binomial (Benedetti, Franconi 1998, as in μ-Argus).
    """
    limit = float(rational(threshold, "threshold", above=0, at_most=1))
    rows = int(classes.sizes.sum())
    if not len(classes.of_row):
        raise InvalidData("the table has no rows")
    share, source = _matching(classes.sizes, population)
    counted = population if isinstance(population, np.ndarray) else None
    journalist = None if population is None else _journalist(classes.sizes, share, limit, counted)
    sampled = population if isinstance(population, int | np.integer) else None
    weights = len(classes.of_row) if classes.weights is None else int(classes.weights.sum())
    return Risk(
        rows=rows,
        suppressed=weights - rows,
        classes=classes.count,
        threshold=limit,
        prosecutor=_chances(classes.sizes, 1 / classes.sizes, limit),
        journalist=journalist,
        marketer=_mean(classes.sizes, share),
        sample_uniques=int(np.count_nonzero(classes.sizes == 1)),
        population_uniques=population_uniques(classes, population=int(sampled), method=method)
        if sampled is not None and rows
        else None,
        source=source,
    )


def population_sizes(table: Any, population: Any, quasi: Sequence[str]) -> Ints:
    """For each class of the table, how many people of the population have its values (written in the same way).

    >>> population_sizes({"zip": ["130**", "148**"]}, {"zip": ["130**"] * 5 + ["148**"] * 3}, ["zip"]).tolist()
    [5, 3]
    """
    rows, people = rows_of(table), as_arrow(population, "population")
    classes = Classes.of_table(rows, tuple(quasi))
    keys = numbered([joint(rows, people, name) for name in quasi])
    there = np.bincount(keys[rows.num_rows :], minlength=int(keys.max()) + 1)
    sizes = np.zeros(classes.count, np.int64)
    kept = classes.of_row >= 0
    sizes[classes.of_row[kept]] = there[keys[: rows.num_rows][kept]]
    return sizes


def expected_inverse(sizes: NDArray[Any], fraction: float) -> Floats:
    """E[1/F | f] where each person of a class entered the sample with the given chance, F given f negative binomial.

    Benedetti, Franconi 1998; in closed form (p/f)·₂F₁(1, 1; f + 1; 1 − p), by Euler's transformation of the usual one.

    >>> expected_inverse(np.array([1]), 0.1).round(4).tolist()  # p·ln(1/p)/(1 − p)
    [0.2558]
    """
    from scipy.special import hyp2f1

    found, places = np.unique(sizes, return_inverse=True)
    small = np.minimum(found, _SMALL)  # scipy's function overflows where the third parameter is large
    series = np.where(found <= _SMALL, hyp2f1(1.0, 1.0, small + 1.0, 1 - fraction), _gauss(found, 1 - fraction))
    return np.minimum(fraction / found * series, 1 / found)[places]


def _gauss(sizes: NDArray[Any], x: float) -> Floats:
    """₂F₁(1, 1; f + 1; x) = Σ_k k!/((f + 1)⋯(f + k))·x^k: for f > 50 a hundred terms leave less than 1e-30."""
    steps = np.arange(1, 101)
    ratios = steps * x / (np.maximum(sizes, _SMALL)[:, None] + steps)
    return np.asarray(1 + np.cumprod(ratios, axis=1).sum(axis=1))


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
    if population < (rows := int(sizes.sum())):
        raise InvalidParameter("population", population, f"at least the number of people in the table ({rows})")
    fraction = rows / int(population)
    share = expected_inverse(sizes, fraction) if fraction < 1 else 1 / sizes
    return share, f"estimated for a random sample of {fraction:.3g} of {int(population)} people"


def _journalist(sizes: Ints, share: Floats, limit: float, counted: "NDArray[Any] | None") -> Chance:
    """As `_chances`; its mean is the larger of two attacks: from the population to the table and back (2008)."""
    chances = _chances(sizes, share, limit)
    if counted is None or not len(sizes):
        return chances
    outward = len(sizes) / int(counted.sum())
    return Chance(highest=chances.highest, mean=max(chances.mean, outward), at_risk=chances.at_risk)


def _chances(sizes: Ints, share: Floats, limit: float) -> Chance:
    """Highest and mean over rows, and the share of rows above the limit."""
    if not len(sizes):
        return Chance(highest=0.0, mean=0.0, at_risk=0.0)
    above = sizes[share > limit * (1 + 1e-12)].sum() / sizes.sum()
    return Chance(highest=float(share.max()), mean=_mean(sizes, share), at_risk=float(above))


def _mean(sizes: Ints, share: Floats) -> float:
    return float(sizes @ share / sizes.sum()) if len(sizes) else 0.0


def _chance(chance: Chance) -> dict[str, float]:
    return {"highest": chance.highest, "mean": chance.mean, "share_at_risk": chance.at_risk}
