"""A plan in words: what is read, how it is bounded, which noise is added, what it costs. No row is touched."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from html import escape
from math import ceil
from typing import Any

from discreet.exact import Number, printed_up, text_up
from discreet.mechanisms.additive import Geometric
from discreet.mechanisms.mechanism import failure_probability
from discreet.privacy import loss as losses
from discreet.privacy.loss import Loss
from discreet.privacy.unit import Neighbors
from discreet.sql.algebra import relations
from discreet.sql.algebra.expression import Call, Expression, Field, fields_of
from discreet.sql.algebra.kinds import Fixed, Kind
from discreet.sql.algebra.relations import Count, Key, Measure, Sum, conditions_of, scan_of
from discreet.sql.algebra.rules import Derived, Direct, Mean
from discreet.sql.release import private_sql
from discreet.sql.release.release import Noise, Release


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a plan would do and cost. `budget` is filled in where the budget is known: before, after, affordable.

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

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


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
    remarks = dict.fromkeys(note for release in releases for note in notes(release, release.aggregate.measures))
    cautions = dict.fromkeys(words for release in releases for words in warnings(release, release.derived, sure))
    return Explanation(tuple(texts), epsilon, delta, loss, sure, described, tuple(remarks), tuple(cautions))


_NOISE_ONLY = "errors are those of the noise only: not what bounding and clamping take"
_MANY_ROWS = 1000
_WIDE = 1000


def warnings(release: Release, numbers: Sequence[Derived], sure: Fraction) -> list[str]:
    """Why some of these numbers may be worth less than their price, as far as that is public."""
    remarks = []
    for number in numbers:
        measure = release.aggregate.measures[number.indices[0]]
        if not isinstance(measure, Sum):
            continue
        loose = _loose(measure)
        if loose is not None:
            remarks.append(
                f"noise is scaled to the range of {measure.value}, {measure.kind}, since nothing narrower is known of "
                f"{loose}: clamp it, LEAST(GREATEST(…, low), high)"
            )
        if isinstance(number, Mean) and (few := _rows_needed(release, number, sure)) >= _MANY_ROWS:
            remarks.append(f"a mean of {measure.value} over fewer than {few:,} rows is known no better than its bounds")
    return remarks


def _loose(measure: Sum) -> Call | None:
    """A part of a value whose range nobody declared, and which is as wide as the whole."""
    for part in _calls(measure.value):
        if part.operation in ("year", "length") and _width(part.kind) >= _WIDE:
            return part if _width(measure.kind) >= _width(part.kind) else None
    return None


def _calls(value: Expression) -> Iterator[Call]:
    if isinstance(value, Call):
        yield value
        for argument in value.arguments:
            yield from _calls(argument)


def _width(kind: Kind) -> Fraction:
    """How far apart the ends of a bounded number are."""
    return ((kind.upper or 0) - (kind.lower or 0)) * kind.step if isinstance(kind, Fixed) else Fraction(0)


def _rows_needed(release: Release, mean: Mean, sure: Fraction) -> int:
    """With fewer rows, the error of a mean is more than the width of its bounds."""
    return ceil(_error_times_rows(release, mean, sure) / _width(mean.kind)) if _width(mean.kind) else 0


def _error_times_rows(release: Release, mean: Mean, sure: Fraction) -> Fraction:
    wide, far = (release.noises[index].interval(1 - (1 - sure) / 2) for index in (mean.total, mean.count))
    return (wide + ((mean.kind.upper or 0) - mean.offset) * far) * mean.kind.step


def is_bounded(release: Release, measures: Sequence[Measure]) -> bool:
    """Whether bounding or clamping can take something from these measures, which no interval then tells."""
    bound, group = release.aggregate.source, release.group
    drops = bool(group.keys) and (group.size is None or bound.groups < group.size)
    weighs = any(isinstance(measure, Count | Sum) for measure in measures)
    return bool(_clamped(measures)) or (scan_of(group.source).unit.key is not None and (drops or weighs))


def notes(release: Release, measures: Sequence[Measure]) -> list[str]:
    """What is bounded, clipped, dropped or selected for these measures, in words: every answer carries them."""
    bound, group, table = release.aggregate.source, release.group, scan_of(release.group.source).table
    person = table.unit.key if table.unit is not None else None
    remarks = []
    if person is not None:
        weighs = any(isinstance(measure, Count | Sum) for measure in measures)
        if group.keys and (group.size is None or bound.groups < group.size):
            remarks.append(f"a person counts in at most {_many(bound.groups, 'group')}; their others are left out")
        if weighs:
            where = " in each group" if group.keys else ""
            remarks.append(
                f"a person weighs at most as much as {_many(bound.rows, 'row')}{where}: where there are more, each "
                "weighs less, so counts and sums shrink, while averages and shares keep their size"
            )
        remarks.append(f"rows without {person} are left out")
    remarks += [f"{field.column.name} is clamped to {field.kind}" for field in dict.fromkeys(_clamped(measures))]
    remarks += [f"only declared values of {key.name} are answered" for key in group.keys if _listed(key)]
    if release.selection is not None:
        sure = release.selection.interval("0.95")
        who = "rows" if person is None else "people"
        remarks.append(
            f"groups are named privately: one with {sure} {who} is named with probability 95 %, smaller ones less"
        )
    return remarks


def _many(count: int, what: str) -> str:
    return f"{count} {what}" + ("" if count == 1 else "s")


def _clamped(measures: Sequence[Measure]) -> list[Field]:
    values = [measure.value for measure in measures if isinstance(measure, Sum)]
    return [field for value in values for field in fields_of(value) if field.column.bounded]


def _listed(key: Key) -> bool:
    return key.domain is not None and isinstance(key.value, Field) and key.value.column.values is not None


def _described(release: Release, neighbors: Neighbors, sure: Fraction) -> dict[str, Any]:
    bound, group = release.aggregate.source, release.group
    scan = scan_of(group.source)
    return {
        "table": scan.table.name,
        "protects": str(scan.unit),
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
        "numbers": [
            _number(release, index, sure) | {"noise only": is_bounded(release, _measures(release, number))}
            for index, number in enumerate(release.derived)
        ],
        "sql": private_sql.write(release.aggregate),
    }


def _measures(release: Release, number: Derived) -> list[Measure]:
    return [release.aggregate.measures[index] for index in number.indices]


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


def _number(release: Release, index: int, sure: Fraction) -> dict[str, Any]:
    """The error that a number will have, as far as it can be told before its groups are counted."""
    derived = release.derived[index]
    if isinstance(derived, Direct):
        error = float(release.noises[derived.measure].interval(sure) * derived.step)
        return {"number": str(release.aggregate.measures[derived.measure]), "error": error}
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


def _lines(release: dict[str, Any]) -> list[str]:
    groups, bounds = release["groups"], release["bounds"]
    lines = [f"reads {release['table']}, protects {release['protects']} ({release['neighbors']})"]
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
            f"  {measure['measure']}: {measure['noise']} noise, scale {measure['scale']:.6g}, "
            f"{measure['norm']} sensitivity {measure['sensitivity']:.6g}, "
            f"within ±{measure['error']:.6g}{_only(measure)}"
        )
    measured = {measure["measure"] for measure in release["measures"]}
    for number in release["numbers"]:
        if "error × rows" in number:
            few = f"; below {number['rows needed']:,} rows, no better known than its bounds"
            error = f"within about ±{number['error × rows']:.6g} ÷ the rows of its group{_only(number)}"
            lines.append(f"  {number['number']}: {error}{few if number['rows needed'] > 1 else ''}")
        elif number["number"] not in measured:
            lines.append(f"  {number['number']}, from the two: within ±{number['error']:.6g}{_only(number)}")
    return lines
