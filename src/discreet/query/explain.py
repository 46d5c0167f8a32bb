"""A plan in words: what is read, how it is bounded, which noise is added, what it costs. No row is touched."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from html import escape
from typing import Any

from discreet.exact import Number, printed_up
from discreet.mechanisms.additive import Geometric
from discreet.mechanisms.mechanism import doubt
from discreet.privacy import loss as losses
from discreet.privacy.loss import Loss
from discreet.privacy.unit import Neighbours
from discreet.query import duckdb, sensitivity
from discreet.query.algebra import Count, Key, Measure, Sum, conditions_of, scan_of
from discreet.query.draft import Direct, Mean
from discreet.query.expression import Field, fields_of
from discreet.query.release import Noise, Release


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a plan would do and cost. `budget` is filled in where the budget is known: before, after, affordable.

    `str` prints it for people, `to_json` gives the same facts as data.
    """

    statements: tuple[str, ...]
    epsilon: Fraction
    delta: Fraction
    loss: Loss
    confidence: Fraction
    releases: tuple[dict[str, Any], ...]
    notes: tuple[str, ...]
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
            "notes": list(self.notes),
            "budget": self.budget,
        }

    def __str__(self) -> str:
        lines = [
            f"costs ε {printed_up(self.epsilon):.6g}" + (f", δ {printed_up(self.delta):.3g}" if self.delta else "")
        ]
        if self.budget is not None:
            lines.append(self.budget["words"])
        for release in self.releases:
            lines += _lines(release)
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


def explanation(
    texts: Sequence[str],
    releases: Sequence[Release],
    neighbours: Neighbours,
    *,
    loss: Loss,
    epsilon: Fraction,
    delta: Fraction,
    confidence: Number,
) -> Explanation:
    """Everything that can be said about a plan before it is paid for."""
    sure = 1 - doubt(confidence)
    described = tuple(_described(release, neighbours, sure) for release in releases)
    said = dict.fromkeys(note for release in releases for note in notes(release, release.aggregate.measures))
    return Explanation(tuple(texts), epsilon, delta, loss, sure, described, tuple(said))


def notes(release: Release, measures: Sequence[Measure]) -> list[str]:
    """What is bounded, clipped, dropped or selected for these measures, in words: every answer carries them."""
    bound, group, table = release.aggregate.source, release.group, scan_of(release.group.source).table
    person = table.unit.key if table.unit is not None else None
    said = []
    if person is not None:
        weighs = any(isinstance(measure, Count | Sum) for measure in measures)
        if group.keys and (group.size is None or bound.groups < group.size):
            said.append(f"a person counts in at most {_many(bound.groups, 'group')}; their others are left out")
        if weighs:
            where = " in each group" if group.keys else ""
            said.append(
                f"a person weighs at most as much as {_many(bound.rows, 'row')}{where}: where there are more, each "
                "weighs less, so counts and sums shrink, while averages and shares keep their size"
            )
        said.append(f"rows without {person} are left out")
    said += [f"{one.column.name} is clamped to {one.kind}" for one in dict.fromkeys(_clamped(measures))]
    said += [f"only declared values of {key.name} are answered" for key in group.keys if _listed(key)]
    if release.selection is not None:
        sure = release.selection.interval("0.95")
        who = "rows" if person is None else "people"
        said.append(
            f"groups are named privately: one with {sure} {who} is named with probability 95 %, smaller ones less"
        )
    return said


def _many(count: int, what: str) -> str:
    return f"{count} {what}" + ("" if count == 1 else "s")


def _clamped(measures: Sequence[Measure]) -> list[Field]:
    values = [measure.value for measure in measures if isinstance(measure, Sum)]
    return [one for value in values for one in fields_of(value) if one.column.bounded]


def _listed(key: Key) -> bool:
    return key.domain is not None and isinstance(key.value, Field) and key.value.column.values is not None


def _described(release: Release, neighbours: Neighbours, sure: Fraction) -> dict[str, Any]:
    bound, group = release.aggregate.source, release.group
    scan = scan_of(group.source)
    return {
        "table": scan.table.name,
        "protects": str(scan.unit),
        "neighbours": str(neighbours),
        "filters": [str(condition) for condition in conditions_of(group.source)],
        "groups": {
            "keys": [_key(key) for key in group.keys],
            "answered": group.size,
            "selection": None if release.selection is None else _selection(release),
        },
        "bounds": {"groups": bound.groups, "rows": bound.rows},
        "measures": [
            _measure(measure, noise, sensitivity.of(measure, bound, neighbours), sure)
            for measure, noise in zip(release.aggregate.measures, release.noises, strict=True)
        ],
        "numbers": [_number(release, place, sure) for place in range(len(release.derived))],
        "sql": duckdb.write(release.aggregate),
    }


def _key(key: Key) -> dict[str, Any]:
    return {"name": key.name, "values": key.size}


def _selection(release: Release) -> dict[str, Any]:
    chosen = release.selection
    if chosen is None:
        return {}
    epsilon, delta = printed_up(chosen.epsilon), printed_up(chosen.delta)
    return {"epsilon": epsilon, "delta": delta, "keys": chosen.keys, "named at 95 %": chosen.interval("0.95")}


def _measure(measure: Measure, noise: Noise, size: sensitivity.Sensitivity, sure: Fraction) -> dict[str, Any]:
    step = measure.kind.step if isinstance(measure, Sum) else Fraction(1)
    geometric = isinstance(noise, Geometric)
    return {
        "measure": str(measure),
        "noise": "geometric" if geometric else "discrete Gaussian",
        "scale": float((noise.scale if isinstance(noise, Geometric) else noise.sigma) * step),
        "sensitivity": float(size.l1 * step) if geometric else float(size.l2_squared) ** 0.5 * float(step),
        "norm": "l1" if geometric else "l2",
        "loss": json.loads(losses.to_json(noise.loss)),
        "error": float(noise.interval(sure) * step),
    }


def _number(release: Release, place: int, sure: Fraction) -> dict[str, Any]:
    """The error that a number will have, as far as it can be told before its groups are counted."""
    derived = release.derived[place]
    if isinstance(derived, Direct):
        error = float(release.noises[derived.measure].interval(sure) * derived.step)
        return {"number": str(release.aggregate.measures[derived.measure]), "error": error}
    summed = release.aggregate.measures[derived.total].value
    wide, far = (release.noises[one].interval(1 - (1 - sure) / 2) for one in (derived.total, derived.count))
    if isinstance(derived, Mean):
        half = (derived.kind.upper or 0) - derived.offset
        return {"number": f"mean of {summed}", "error × rows": float((wide + half * far) * derived.kind.step)}
    return {"number": f"sum of {summed}", "error": float((wide + abs(derived.offset) * far) * derived.step)}


def _lines(release: dict[str, Any]) -> list[str]:
    groups, bounds = release["groups"], release["bounds"]
    lines = [f"reads {release['table']}, protects {release['protects']} ({release['neighbours']})"]
    lines += [f"  where {condition}" for condition in release["filters"]]
    if groups["keys"]:
        keys = ", ".join(f"{key['name']} ({key['values'] or 'from the data'})" for key in groups["keys"])
        answered = "named privately" if groups["answered"] is None else f"{groups['answered']:,} groups, all answered"
        lines.append(f"  grouped by {keys}: {answered}")
    if groups["selection"]:
        chosen = groups["selection"]
        lines.append(
            f"  selection of groups: ε {chosen['epsilon']:.6g}, δ {chosen['delta']:.3g}, {_many(chosen['keys'], 'key')}"
        )
    lines.append(
        f"  one unit: at most {_many(bounds['groups'], 'group')}, the weight of {_many(bounds['rows'], 'row')} in each"
    )
    for measure in release["measures"]:
        lines.append(
            f"  {measure['measure']}: {measure['noise']} noise, scale {measure['scale']:.6g}, "
            f"{measure['norm']} sensitivity {measure['sensitivity']:.6g}, within ±{measure['error']:.6g}"
        )
    measured = {measure["measure"] for measure in release["measures"]}
    for number in release["numbers"]:
        if "error × rows" in number:
            lines.append(f"  {number['number']}: within about ±{number['error × rows']:.6g} ÷ the rows of its group")
        elif number["number"] not in measured:
            lines.append(f"  {number['number']}, from the two: within ±{number['error']:.6g}")
    return lines
