"""A plan in words: what is read, how it is bounded, which noise is added, what it costs. No row is touched."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil
from typing import Any

from discreet.exact import Number, plain, printed_up, text_up
from discreet.mechanisms.additive import Geometric
from discreet.mechanisms.mechanism import failure_probability
from discreet.privacy import loss as losses
from discreet.privacy.loss import Loss
from discreet.privacy.unit import Neighbors
from discreet.report.card import outline
from discreet.sql.algebra import relations
from discreet.sql.algebra.expression import Call, Expression, Field, calls_of, clamped_slots, fields_of
from discreet.sql.algebra.kinds import Fixed, Kind
from discreet.sql.algebra.relations import Count, Distinct, Distribution, Frequencies, Key, Measure, Sum
from discreet.sql.algebra.rows import (
    Scan,
    at_most_one_row,
    conditions_of,
    expressions_of,
    private_tables,
    scans_of,
    unit_of,
)
from discreet.sql.algebra.rules import Bin, Derived, Direct, Mean, Named, Rank, Spread, Total
from discreet.sql.release import private_sql
from discreet.sql.release.release import Choice, Noise, Release, Tally, Top

Read = Measure | Distribution | Frequencies
"""What is read from private rows."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a plan would do and cost. `budget` is filled in where the budget is known: before, after, affordable.

    There, `own` is the most that one pure release of this analyst may cost, by the budget, the cap and the token, and
    `own_after` what it would be then. With δ, the two need not differ by ε.

    `warnings` say that some number may be worth less than its price. `str` prints it all for people, `to_json` gives
    the same facts as data.
    """

    statements: tuple[str, ...]
    epsilon: Fraction
    delta: Fraction
    loss: Loss
    confidence: Fraction
    releases: tuple[dict[str, Any], ...]
    notes: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    budget: dict[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """The facts as JSON can hold them."""
        return {
            "statements": list(self.statements),
            "epsilon": printed_up(self.epsilon),
            "delta": printed_up(self.delta),
            "loss": json.loads(losses.to_json(self.loss)),
            "confidence": float(self.confidence),
            "releases": list(self.releases),
            "note": _NOISE_ONLY
            if any(number["noise only"] for release in self.releases for number in release["numbers"])
            else None,
            "notes": list(self.notes),
            "warnings": list(self.warnings),
            "budget": self.budget,
        }

    def __str__(self) -> str:
        lines = [f"costs ε {text_up(self.epsilon)}" + (f", δ {text_up(self.delta, 3)}" if self.delta else "")]
        if self.budget is not None:
            lines.append(self.budget["words"])
        for release in self.releases:
            lines += _lines(release)
        lines += [f"warning: {warning}" for warning in self.warnings]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return outline(str(self))


def explanation(
    texts: Sequence[str],
    releases: Sequence[Release],
    neighbors: Neighbors,
    *,
    loss: Loss,
    epsilon: Fraction,
    delta: Fraction,
    confidence: Number,
) -> Explanation:
    """Everything that can be said about a plan before it is paid for."""
    sure = 1 - failure_probability(confidence)
    described = tuple(_described(release, neighbors, sure) for release in releases)
    read = [(release, [*release.aggregate.measures, *release.aggregate.distributions]) for release in releases]
    remarks = dict.fromkeys(note for release, parts in read for note in notes(release, parts))
    remarks |= dict.fromkeys(note for release in releases for note in accuracy_of_names(release, release.derived, sure))
    cautions = dict.fromkeys(words for release in releases for words in warnings(release, release.derived, sure))
    return Explanation(tuple(texts), epsilon, delta, loss, sure, described, tuple(remarks), tuple(cautions))


_NOISE_ONLY = "errors cover the noise only, not the effect of bounding and clamping"
_MANY_ROWS = 1000
_WIDE = 1000


def warnings(release: Release, numbers: Sequence[Derived], sure: Fraction) -> list[str]:
    """Why some of these numbers may be worth less than their price, as far as that is public."""
    remarks = []
    for number in numbers:
        measure = parts_of(release, number)[0]
        name = f"sum of {measure.value}" if isinstance(number, Total) else str(measure)
        if isinstance(number, Direct | Total) and (few := _units_needed(release, number, sure)) >= _MANY_ROWS:
            who = "rows" if unit_of(release.group.source).key is None else "people"
            where = " in a group" if release.group.keys else ""
            remarks.append(
                f"{name} of fewer than {few:,} {who}{where} is smaller than its own error: state more ε, or let a "
                "person count in fewer groups and rows"
            )
        if isinstance(number, Rank) and (few := ceil(_ranks(release, number, sure))) >= _MANY_ROWS:
            remarks.append(f"{_ranked(release, number)} over fewer than {few:,} values may be anywhere")
        if isinstance(number, Spread) and (few := _rows_of_spread(release, number, sure)) >= _MANY_ROWS:
            values = " and ".join(str(value) for value in _values_of(release, number))
            remarks.append(
                f"a {number.statistic} of {values} over fewer than {few:,} rows is no more precise than its bounds"
            )
        if not isinstance(measure, Sum):
            continue
        loose = _loose(measure)
        if loose is not None:
            remarks.append(
                f"noise is scaled to the range of {measure.value}, {measure.kind}, since nothing narrower is known of "
                f"{loose}: clamp it, LEAST(GREATEST(…, low), high)"
            )
        if isinstance(number, Mean) and (few := _rows_needed(release, number, sure)) >= _MANY_ROWS:
            remarks.append(f"a mean of {measure.value} over fewer than {few:,} rows is no more precise than its bounds")
    return remarks


def _units_needed(release: Release, number: Direct | Total, sure: Fraction) -> int:
    """With fewer units, what they add at most is less than the width of the interval."""
    if isinstance(number, Total):
        kind = release.aggregate.measures[number.total].kind  # type: ignore[union-attr]
        wide, far = (release.noises[index].interval(1 - (1 - sure) / 2) for index in number.indices)
        most = release.aggregate.source.rows * max(1, -(kind.lower or 0), kind.upper or 0)
        return ceil(Fraction(wide + abs(number.offset) * far) / most)
    measure = release.aggregate.measures[number.measure]
    width = release.noises[number.measure].interval(sure)
    low, high = relations.contribution_range(measure, release.aggregate.source)
    return ceil(Fraction(width) / max(1, -low, high))


def _ranked(release: Release, number: Rank) -> str:
    """What a quantile is called."""
    words = {0: "minimum", 1: "maximum"} if None in (number.low, number.high) else {}
    probability = release.choices[number.target].mechanism.probability
    name = words.get(int(probability), f"quantile {plain(probability)}")
    return f"{name} of {release.aggregate.distributions[number.distribution].value}"


def _ranks(release: Release, number: Rank, sure: Fraction) -> float:
    """By how many ranks a quantile may be off."""
    mechanism = release.choices[number.target].mechanism
    return mechanism.interval(sure) + abs(mechanism.shift)


def _rows_of_spread(release: Release, number: Spread, sure: Fraction) -> int:
    """With fewer rows, the error of a variance or covariance is more than the largest that there is."""
    alike = replace(number, statistic="variance") if number.statistic == "deviation" else number
    error = _spread(release, alike, sure).get("error × rows")
    x, y = number.x, number.y or number.x
    most = x.reach * y.reach * float(x.kind.step * y.kind.step)
    return ceil(error / most) if error is not None and most else 0


def _values_of(release: Release, number: Spread) -> list[Expression | None]:
    return [release.aggregate.measures[sums.total].value for sums in (number.x, number.y) if sums is not None]


def _loose(measure: Sum) -> Call | None:
    """A part of a value whose range nobody declared, and which is as wide as the whole."""
    for part in calls_of(measure.value):
        if part.operation in ("year", "length") and _width(part.kind) >= _WIDE:
            return part if _width(measure.kind) >= _width(part.kind) else None
    return None


def _width(kind: Kind) -> Fraction:
    """How far apart the ends of a bounded number are."""
    return ((kind.upper or 0) - (kind.lower or 0)) * kind.step if isinstance(kind, Fixed) else Fraction(0)


def _rows_needed(release: Release, mean: Mean, sure: Fraction) -> int:
    """With fewer rows, the error of a mean is more than the width of its bounds."""
    return ceil(_error_times_rows(release, mean, sure) / _width(mean.kind)) if _width(mean.kind) else 0


def _error_times_rows(release: Release, mean: Mean, sure: Fraction) -> Fraction:
    wide, far = (release.noises[index].interval(1 - (1 - sure) / 2) for index in (mean.total, mean.count))
    return (wide + ((mean.kind.upper or 0) - mean.offset) * far) * mean.kind.step


def parts_of(release: Release, number: Derived) -> list[Read]:
    """The measures that a number is made of, or the distribution that it is chosen from."""
    if isinstance(number, Rank | Bin | Named):
        return [release.aggregate.distributions[number.distribution]]
    return [release.aggregate.measures[index] for index in number.indices]


def is_bounded(release: Release, measures: Sequence[Read]) -> bool:
    """Whether bounding or clamping can take something from these measures, which no interval then tells."""
    bound, group = release.aggregate.source, release.group
    drops = bool(group.keys) and (group.size is None or bound.groups < group.size)
    weighs = any(isinstance(measure, Count | Sum | Distinct) or _is_even(measure) for measure in measures)
    several = unit_of(group.source).key is not None and not at_most_one_row(group.source)
    return bool(_clamped(measures) or _clamped_counts(release, measures)) or (several and (drops or weighs))


def _is_even(measure: Read) -> bool:
    return isinstance(measure, Distribution | Frequencies) and measure.keep == "even"


def notes(release: Release, measures: Sequence[Read]) -> list[str]:
    """What is bounded, clipped, dropped or selected for these measures, in words: every answer carries them."""
    bound, group = release.aggregate.source, release.group
    person = unit_of(group.source).key
    remarks = []
    if person is not None and not at_most_one_row(group.source):
        weighs = any(isinstance(measure, Count | Sum) for measure in measures)
        if group.keys and (group.size is None or bound.groups < group.size):
            remarks.append(f"a person counts in at most {_many(bound.groups, 'group')}; their other groups are dropped")
        if weighs:
            where = " in each group" if group.keys else ""
            remarks.append(
                f"a person counts as at most {_many(bound.rows, 'row')}{where}: if they have more, each row weighs "
                "less, so counts and sums shrink, but averages and shares do not"
            )
        if any(isinstance(measure, Distinct) for measure in measures):
            where = " in each group" if group.keys else ""
            distinct = _many(bound.rows, "distinct value")
            remarks.append(f"a person contributes at most {distinct}{where}, chosen by a fair draw")
        if even := [measure for measure in measures if _is_even(measure)]:
            where = " in each group" if group.keys else ""
            named = ["quantiles and histograms"] if any(isinstance(m, Distribution) for m in even) else []
            named += ["most frequent values"] if any(isinstance(m, Frequencies) for m in even) else []
            remarks.append(
                f"{' and '.join(named)} use at most {_many(bound.rows, 'row')} of a person{where}: if there are "
                "more, this many of them, evenly spaced in their order"
            )
    if person is not None:
        remarks.append(f"rows without {person} are left out")
    remarks += [f"{field.column.name} is clamped to {field.kind}" for field in dict.fromkeys(_clamped(measures))]
    held = dict.fromkeys(_clamped_counts(release, measures))
    remarks += [f"{value} of a person is clamped to {kind}" for value, kind in held]
    remarks += [f"only declared values of {key.name} are answered" for key in group.keys if _listed(key)]
    listed = [m.value for m in measures if isinstance(m, Frequencies) and not isinstance(m.value.kind, Fixed)]
    remarks += [f"only declared values of {value} are counted" for value in listed]
    if release.selection is not None:
        sure = release.selection.interval("0.95")
        who = "rows" if person is None else "people"
        remarks.append(
            f"groups are named privately: one with {sure} {who} is named with probability 95 %, smaller ones less often"
        )
    return remarks


def _many(count: int, what: str) -> str:
    return f"{count} {what}" + ("" if count == 1 else "s")


def _clamped(measures: Sequence[Read]) -> list[Field]:
    values = [measure.value for measure in measures if isinstance(measure, Sum | Distribution | Frequencies)]
    return [field for value in values for field in fields_of(value) if field.column.bounded or field.column.earliest]


def _clamped_counts(release: Release, measures: Sequence[Read]) -> list[tuple[Expression, Kind]]:
    """Counts and sums of one person's rows that have no bounds of their own, and what they are clamped to."""
    values = [measure.value for measure in measures if isinstance(measure, Sum | Distribution | Frequencies)]
    values += [*(key.value for key in release.group.keys), *expressions_of(release.group.source)]
    return [(slot, kind) for value in values for slot, kind in clamped_slots(value)]


def _listed(key: Key) -> bool:
    return key.domain is not None and isinstance(key.value, Field) and key.value.column.values is not None


def _described(release: Release, neighbors: Neighbors, sure: Fraction) -> dict[str, Any]:
    bound, group = release.aggregate.source, release.group
    others = [scan.table.name for scan in scans_of(group.source) if not isinstance(scan, Scan)]
    values = _values(release)
    return {
        "table": " and ".join(table.name for table in private_tables(group.source)),
        **({"public tables": list(dict.fromkeys(others))} if others else {}),
        "protects": str(unit_of(group.source)),
        "neighbors": str(neighbors),
        "filters": [str(condition) for condition in conditions_of(group.source)],
        "groups": {
            "keys": [_key(key) for key in group.keys],
            "answered": group.size,
            "selection": None if release.selection is None else _selection(release),
        },
        "bounds": {"groups": bound.groups, "rows": bound.rows},
        "measures": [
            _measure(measure, noise, relations.sensitivity_of(measure, bound, neighbors), sure)
            | {"noise only": is_bounded(release, [measure])}
            for measure, noise in zip(release.aggregate.measures, release.noises, strict=True)
        ],
        **({"histograms": [_tally(release, tally, sure) for tally in release.tallies]} if release.tallies else {}),
        **({"most frequent": [_top(release, top, sure) for top in release.tops]} if release.tops else {}),
        **({"choices": [_choice(release, choice, sure) for choice in release.choices]} if release.choices else {}),
        "numbers": [
            _number(release, index, sure) | {"noise only": is_bounded(release, parts_of(release, number))}
            for index, number in enumerate(release.derived)
        ],
        "sql": "; ".join([private_sql.write(release.aggregate), *values]),
    }


def _values(release: Release) -> list[str]:
    """The SQL that reads values beside the measures, where there are some."""
    aggregate, person = release.aggregate, unit_of(release.group.source).key is not None
    different = [i for i, measure in enumerate(aggregate.measures) if person and isinstance(measure, Distinct)]
    if not aggregate.distributions and not different:
        return []
    from discreet.sql.release.private_sql import write_distinct, write_values

    ranked = [write_values(aggregate, index) for index in range(len(aggregate.distributions))]
    return [*(write_distinct(aggregate, index) for index in different), *ranked]


def _only(described: dict[str, Any]) -> str:
    return " (noise only)" if described["noise only"] else ""


def _key(key: Key) -> dict[str, Any]:
    return {"name": key.name, "values": key.size}


def _selection(release: Release) -> dict[str, Any]:
    chosen = release.selection
    if chosen is None:
        return {}
    epsilon, delta = printed_up(chosen.epsilon), printed_up(chosen.delta)
    return {"epsilon": epsilon, "delta": delta, "keys": chosen.keys, "named at 95 %": chosen.interval("0.95")}


def _measure(measure: Measure, noise: Noise, size: relations.Sensitivity, sure: Fraction) -> dict[str, Any]:
    step = measure.kind.step if isinstance(measure, Sum) else Fraction(1)
    geometric = isinstance(noise, Geometric)
    return {
        "measure": str(measure),
        "noise": "geometric" if geometric else "Gaussian",
        "scale": float((noise.scale if isinstance(noise, Geometric) else noise.sigma) * step),
        "sensitivity": float(size.l1 * step) if geometric else float(size.l2_squared) ** 0.5 * float(step),
        "norm": "l1" if geometric else "l2",
        "loss": json.loads(losses.to_json(noise.loss)),
        "error": float(noise.interval(sure) * step),
    }


def _tally(release: Release, tally: Tally, sure: Fraction) -> dict[str, Any]:
    return {
        "of": str(release.aggregate.distributions[tally.distribution].value),
        "bins": len(tally.edges) + 1,
        "scale": float(tally.noise.scale),
        "sensitivity": float(tally.noise.sensitivity),
        "loss": json.loads(losses.to_json(tally.noise.loss)),
        "error": float(tally.noise.interval(sure)),
    }


def _choice(release: Release, choice: Choice, sure: Fraction) -> dict[str, Any]:
    mechanism = choice.mechanism
    return {
        "of": str(release.aggregate.distributions[choice.distribution]),
        "probability": float(mechanism.probability),
        "shift": mechanism.shift,
        "sensitivity": float(mechanism.sensitivity),
        "loss": json.loads(losses.to_json(mechanism.loss)),
        "error in ranks": mechanism.interval(sure),
    }


def _top(release: Release, top: Top, sure: Fraction) -> dict[str, Any]:
    mechanism = top.mechanism
    return {
        "of": str(release.aggregate.distributions[top.distribution].value),
        "places": mechanism.places,
        "values": mechanism.points,
        "sensitivity": float(mechanism.sensitivity),
        "loss": json.loads(losses.to_json(mechanism.loss)),
        "epsilon": printed_up(mechanism.epsilon),
        "error": mechanism.interval(sure),
    }


def accuracy_of_names(release: Release, numbers: Sequence[Derived], sure: Fraction) -> list[str]:
    """How much less frequent than the most frequent value the one that is named can be, in words.

    >>> from discreet.mechanisms.selection import GroupedMode
    >>> round(GroupedMode(epsilon=1, points=20, places=1, sensitivity=1).interval("0.95"), 2)
    5.99
    """
    remarks = []
    for index in dict.fromkeys(number.top for number in numbers if isinstance(number, Named)):
        top, where = release.tops[index], " of its group" if release.group.keys else ""
        value, far = release.aggregate.distributions[top.distribution].value, ceil(top.mechanism.interval(sure))
        what = "the value named" if top.mechanism.places == 1 else "the value named at place j"
        due = f"the largest count{where}" if top.mechanism.places == 1 else f"the j-th largest count{where}"
        remarks.append(
            f"{what} for {value} has a count of at least {due} − {far:,}, with probability {100 * float(sure):g} % each"
        )
    return remarks


def _number(release: Release, index: int, sure: Fraction) -> dict[str, Any]:  # noqa: PLR0911 (one return a form)
    """The error that a number will have, as far as it can be told before its groups are counted."""
    derived = release.derived[index]
    if isinstance(derived, Direct):
        error = float(release.noises[derived.measure].interval(sure) * derived.step)
        return {"number": str(release.aggregate.measures[derived.measure]), "error": error}
    if isinstance(derived, Bin):
        value, noise = release.aggregate.distributions[derived.distribution].value, release.tallies[derived.tally].noise
        return {
            "number": f"count {derived.bin} of the histogram of {value}",
            "error": float(noise.interval(sure)),
            "bin": derived.bin,
        }
    if isinstance(derived, Named):
        value = release.aggregate.distributions[derived.distribution].value
        below = release.tops[derived.top].mechanism.interval(sure)
        return {"number": f"most frequent value {derived.place + 1} of {value}", "error": below, "place": derived.place}
    if isinstance(derived, Rank):
        return {"number": _ranked(release, derived), "ranks": _ranks(release, derived, sure)}
    if isinstance(derived, Spread):
        return _spread(release, derived, sure)
    summed = release.aggregate.measures[derived.total].value
    if isinstance(derived, Mean):
        error = float(_error_times_rows(release, derived, sure))
        return {
            "number": f"mean of {summed}",
            "error × rows": error,
            "rows needed": _rows_needed(release, derived, sure),
        }
    wide, far = (release.noises[part].interval(1 - (1 - sure) / 2) for part in (derived.total, derived.count))
    return {"number": f"sum of {summed}", "error": float((wide + abs(derived.offset) * far) * derived.step)}


def _spread(release: Release, spread: Spread, sure: Fraction) -> dict[str, Any]:
    """To first order in 1/n: what noise of each width does to a variance or covariance, at the worst mean."""
    values = _values_of(release, spread)
    name = f"{spread.statistic} of {' and '.join(map(str, values))}"
    if spread.statistic not in ("variance", "covariance"):
        return {"number": name, "error": None}
    x, y = spread.x, spread.y or spread.x
    width = {index: release.noises[index].interval(1 - (1 - sure) / len(spread.indices)) for index in spread.indices}
    second = spread.product if spread.product is not None else x.square
    steps = width[second if second is not None else x.total] + 2 * x.reach * y.reach * width[spread.count]
    steps += x.reach * width[y.total] + y.reach * width[x.total]
    return {"number": name, "error × rows": float(steps * x.kind.step * y.kind.step), "rows needed": 0}


def _epsilon(described: dict[str, Any]) -> str:
    return text_up(Fraction(str(described["loss"]["epsilon"])))


def _lines(release: dict[str, Any]) -> list[str]:
    groups, bounds = release["groups"], release["bounds"]
    beside = f" beside {', '.join(release['public tables'])}" if "public tables" in release else ""
    lines = [f"reads {release['table']}{beside}, protects {release['protects']} ({release['neighbors']})"]
    lines += [f"  where {condition}" for condition in release["filters"]]
    if groups["keys"]:
        keys = ", ".join(f"{key['name']} ({key['values'] or 'from the data'})" for key in groups["keys"])
        answered = "named privately" if groups["answered"] is None else f"{groups['answered']:,} groups, all answered"
        lines.append(f"  grouped by {keys}: {answered}")
    if groups["selection"]:
        chosen = groups["selection"]
        lines.append(
            f"  selection of groups: ε {text_up(chosen['epsilon'])}, δ {text_up(chosen['delta'], 3)}, "
            f"{_many(chosen['keys'], 'key')}"
        )
    lines.append(
        f"  one unit: at most {_many(bounds['groups'], 'group')}, the weight of {_many(bounds['rows'], 'row')} in each"
    )
    for measure in release["measures"]:
        lines.append(
            f"  {measure['measure']}: {measure['noise']} noise, scale {_digits(measure['scale'])}, "
            f"{measure['norm']} sensitivity {_digits(measure['sensitivity'])}, "
            f"within ±{_digits(measure['error'])}{_only(measure)}"
        )
    for counts in release.get("histograms", ()):
        lines.append(
            f"  histogram of {counts['of']}, {counts['bins']} counts: geometric noise, "
            f"scale {_digits(counts['scale'])}, l1 sensitivity {_digits(counts['sensitivity'])}, "
            f"within ±{_digits(counts['error'])}"
        )
    for top in release.get("most frequent", ()):
        many = "most frequent value" if top["places"] == 1 else f"{top['places']} most frequent values"
        lines.append(
            f"  {many} of {top['of']}, of {top['values']:,} declared: chosen with ε {text_up(top['epsilon'])}, l1 "
            f"sensitivity {_digits(top['sensitivity'])}, a count at most {top['error']:.4g} below the one due"
        )
    for choice in release.get("choices", ()):
        aim = (
            f", {abs(choice['shift'])} ranks {'below' if choice['shift'] < 0 else 'above'} it"
            if choice["shift"]
            else ""
        )
        lines.append(
            f"  {choice['of']}: quantile {choice['probability']:g}{aim} chosen with ε {_epsilon(choice)}, rank "
            f"sensitivity {choice['sensitivity']:g}, within ±{choice['error in ranks']:.4g} ranks"
        )
    measured = {measure["measure"] for measure in release["measures"]}
    for number in release["numbers"]:
        if "error × rows" in number:
            few = f"; below {number['rows needed']:,} rows, no more precise than its bounds"
            error = f"within about ±{_digits(number['error × rows'])} ÷ the rows of its group{_only(number)}"
            lines.append(f"  {number['number']}: {error}{few if number['rows needed'] > 1 else ''}")
        elif "bin" in number or "place" in number:
            continue
        elif "ranks" in number:
            lines.append(f"  {number['number']}: within about ±{number['ranks']:.4g} ranks{_only(number)}")
        elif number["error"] is None:
            lines.append(f"  {number['number']}: its error depends on the rows of its group and on their variance")
        elif number["number"] not in measured:
            lines.append(f"  {number['number']}, from the two: within ±{_digits(number['error'])}{_only(number)}")
    return lines


def _digits(value: Number) -> str:
    """Six digits of a number, without an exponent as far as people read it.

    >>> _digits(1487779.6), _digits(599146), _digits(0.25), _digits(1e30)
    ('1,487,780', '599,146', '0.25', '1e+30')
    """
    rounded = float(f"{float(value):.6g}")
    return f"{rounded:,.0f}" if 1e6 <= abs(rounded) < 1e15 else f"{rounded:,.6g}"
