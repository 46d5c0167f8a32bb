"""What a report says in words: verdicts on gaps, groups too small to say anything, and what no number here promises."""

from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from discreet.fairness.gaps import Estimate, Gap

CAUTIONS = (
    "A gap is a fact about a table, not its cause. Equal rates can hide unequal treatment, and unequal rates can have "
    "reasons that are legitimate: name those as given, and look at parity within strata.",
    "Unless the base rates of groups are equal or the predictions perfect, predictive parity and equalized odds cannot "
    "both hold (Chouldechova 2017; Kleinberg, Mullainathan, Raghavan 2016). Choose what matters and say why.",
    "Labels are taken for the truth. Where they come from decisions of people (arrests, past loans), what is unfair in "
    "them is invisible here.",
    "The limits take the rows for a random sample of those whom the model is meant for.",
)


def judged(gap: Gap, tolerance: Fraction | None) -> tuple[str, str, bool | None]:
    """A word, a sentence and a tone (good, bad, neither) on a gap.

    >>> found = Gap("statistical parity", Estimate(0.3, 0.2, 0.4), Estimate(0.5, 0.4, 0.6), "f", "m")
    >>> judged(found, Fraction(1, 10))
    ('exceeds', 'f highest, m lowest; surely more than 0.1', False)
    """
    difference = gap.difference
    if not np.isfinite(difference.value):
        return "no statement", "fewer than two groups are large enough", None
    where = f" ({gap.where})" if gap.where and len(gap.where) < 60 else ""
    ends = f"{gap.highest} highest, {gap.lowest} lowest{where}" if gap.highest != gap.lowest else "all are equal"
    if tolerance is not None:
        limit = float(tolerance)
        if difference.low > limit:
            return "exceeds", f"{ends}; surely more than {limit:g}", False
        if difference.high <= limit:
            return "within", f"{ends}; surely at most {limit:g}", True
        return "open", f"{ends}; may be more or less than {limit:g}", None
    if gap.differs:
        return "differ", ends, None
    return "not shown", f"{ends}; the rows do not show that the groups differ", None


def smallness(
    groups: Sequence[str],
    sizes: Sequence[int],
    rates: Mapping[str, Sequence[Estimate]],
    tries: Mapping[str, Sequence[int]],
    least: int,
) -> tuple[str, ...]:
    """Sentences on the groups that are too small to say anything, in all or in some respects."""
    said = []
    empty = [name for name, size in zip(groups, sizes, strict=True) if not size]
    if empty:
        shown = ", ".join(empty[:5]) + (f" and {len(empty) - 5} more" if len(empty) > 5 else "")
        said.append(f"No rows: {shown}.")
    for place, (name, size) in enumerate(zip(groups, sizes, strict=True)):
        if not size:
            continue
        if size < least:
            chosen = rates["selection rate"][place]
            reach = f"its selection rate may be anywhere from {chosen.low:.2f} to {chosen.high:.2f}"
            said.append(f"{name}: {size} rows are too few to say anything; {reach}.")
            continue
        few = [one for one in tries if tries[one][place] < least]
        if few:
            said.append(f"{name}: too few rows for its {_and(few)}.")
    return tuple(said)


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
