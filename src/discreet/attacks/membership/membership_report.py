"""One page for a model before and after differential privacy: the curves, the rates, ε proven and ε claimed.

>>> import numpy as np
>>> from discreet.attacks.membership import LossThreshold, MembershipReport, coins
>>> rng, inside = np.random.default_rng(1), coins(400, seed=2)
>>> overfit = LossThreshold(losses=rng.exponential(np.where(inside, 0.02, 1)), members=inside, design="coins")
>>> private = LossThreshold(losses=rng.exponential(size=400), members=inside, design="coins", claimed=(1, "1e-5"))
>>> report = MembershipReport.of(before=[overfit], after=[private])
>>> report.broken, report.confidence
(False, 0.95)
>>> page = report.page()
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from discreet.attacks.attack_report import AttackReport, on_terminal
from discreet.attacks.membership.attack import RATES, MembershipAttack, MembershipFinding
from discreet.attacks.membership.scores import Roc, roc_chart
from discreet.errors import InvalidData
from discreet.exact import float_up
from discreet.report import Bars, Chart, Grid, Heading, Page, Part, Text, Verdict

_LEAD = "Who sees the model, can they tell whose data it was trained on?"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MembershipReport:
    """What the attacks found on the model before and after. Either may be empty.

    All bounds on ε on the page hold together with `confidence`: each is computed at its share of the doubt (Boole).
    """

    before: tuple[MembershipFinding, ...]
    after: tuple[MembershipFinding, ...]
    confidence: float
    title: str = "Membership inference"

    @classmethod
    def of(
        cls,
        *,
        before: Sequence[MembershipAttack] = (),
        after: Sequence[MembershipAttack] = (),
        title: str = "Membership inference",
    ) -> "MembershipReport":
        """Run the attacks.

        Guarantee: with at least the stated confidence no bound on the page exceeds the true ε of its model. Proof. n
        bounds, each wrong with probability at most α/n.
        """
        result = [[attack.find() for attack in side] for side in (before, after)]
        levels = {finding.confidence for side in result for finding in side}
        if len(levels) != 1:
            raise InvalidData("report: give attacks, all with one confidence")
        level = levels.pop()
        count = sum(finding.bound is not None for side in result for finding in side)
        both = [tuple(_stricter(finding, level, count) for finding in side) for side in result]
        return cls(before=both[0], after=both[1], confidence=float(level), title=title)

    @property
    def broken(self) -> bool:
        """Whether a bound is above its claim."""
        return any(finding.broken for finding in (*self.before, *self.after))

    def reports(self) -> tuple[AttackReport, ...]:
        """Each attack's own report."""
        return tuple(finding.report() for finding in (*self.before, *self.after))

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "title": self.title,
            "confidence": self.confidence,
            "broken": self.broken,
            "before": [finding.report().as_dict() for finding in self.before],
            "after": [finding.report().as_dict() for finding in self.after],
        }

    def json(self) -> str:
        """The report as JSON."""
        return json.dumps(self.as_dict(), ensure_ascii=False, allow_nan=False)

    def text(self) -> str:
        """The table and what it means, as lines."""
        rows = [[on_terminal(cell) for cell in row] for row in (_HEADER, *self._rows())]
        widths = [max(len(row[at]) for row in rows) for at in range(len(_HEADER))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        verdict = self._verdict()
        said = [*self._sentences(), f"{verdict.word}: {verdict.sentence}"]
        return "\n".join([self.title, *lines, *(f"- {sentence}" for sentence in said)])

    def page(self) -> Page:
        """The report as one HTML page; it holds no target's score."""
        parts: list[Part] = [self._verdict(), *[Text(sentence) for sentence in self._sentences()]]
        parts += [Grid(_HEADER, self._rows(), "Every attack"), Heading("Curves"), *self.curves()]
        parts += [Heading("ε proven and ε claimed"), *self._bounds(), Heading("How to read this")]
        parts += [Text(words) for words in _READING]
        for report in self.reports():
            parts += [Heading(f"{report.attack} against {report.against}"), *report.parts()]
        return Page(self.title, parts, lead=_LEAD)

    def _repr_html_(self) -> str:
        return self.page().fragment()

    def _sides(self) -> list[tuple[str, MembershipFinding]]:
        """Every finding with its side; where there is one side only it needs no name."""
        names = ("before", "after") if self.before and self.after else ("", "")
        return [
            (name, finding) for name, side in zip(names, (self.before, self.after), strict=True) for finding in side
        ]

    def _rows(self) -> list[list[Any]]:
        return [
            [
                side,
                result.attack,
                result.against,
                *(str(point.true) for point in result.rates().values()),
                round(result.auc().value, 3),
                None if result.bound is None else round(result.bound.epsilon, 3),
                None if result.claimed is None else float_up(result.claimed),
                float(result.delta),
                result.claim,
            ]
            for side, result in self._sides()
        ]

    def _verdict(self) -> Verdict:
        claimed = [finding for _, finding in self._sides() if finding.claimed is not None and finding.bound is not None]
        sure = f"{100 * self.confidence:g} %"
        if self.broken:
            return Verdict("broken", f"A claim is refuted: a bound on ε lies above it, with {sure} confidence.", False)
        if not claimed:
            return Verdict("no claim tested", "No attack could test a claimed ε.", None)
        said = f"No bound on ε lies above its claim, with {sure} confidence."
        if any(finding.report().verdict in ("falls", "leaks") for finding in claimed):
            return Verdict("not refuted", f"{said} But members are found: the claim itself allows it.", None)
        return Verdict("not refuted", said, True)

    def _sentences(self) -> list[str]:
        """What the strongest attack on each side means, in plain words."""
        made = []
        for name in dict.fromkeys(side for side, _ in self._sides()):
            best = max((finding.report() for side, finding in self._sides() if side == name), key=_gain)
            opening = f"{name.capitalize()}: the" if name else "The"
            outside = best.reference if best.control is None else best.control
            made.append(
                f"{opening} best attack ({best.attack}) names {_of(best.success.value)} people whose data was used, "
                f"while it wrongly names {_of(outside.value)} people outside: {best.verdict}."
            )
        return made

    def curves(self) -> list[Chart]:
        """One chart for each attack, with the curves before and after, on logarithmic axes."""
        names = list(dict.fromkeys(finding.attack for _, finding in self._sides()))
        charts = []
        for name in names:
            curves: dict[str, Roc] = {}
            for side, finding in self._sides():
                if finding.attack == name:
                    label = side or "attack"
                    again = sum(drawn.split(" ")[0] == label for drawn in curves)
                    curves[f"{label} ({again + 1})" if again else label] = finding.roc
            charts.append(roc_chart(f"{name}: ROC", curves, confidence=self.confidence))
        return charts

    def _bounds(self) -> list[Part]:
        bounded = [(side, finding) for side, finding in self._sides() if finding.bound is not None]
        if not bounded:
            return [Text("No attack had members drawn in a way that allows a conclusion about ε.")]
        names = [f"{finding.attack}, {side}" if side else finding.attack for side, finding in bounded]
        claims = [0.0 if finding.claimed is None else float_up(finding.claimed) for _, finding in bounded]
        proven = [finding.bound.epsilon for _, finding in bounded if finding.bound is not None]
        bars = [Bars(names, claims, "ε claimed"), Bars(names, proven, "ε is at least")]
        return [Chart("the proven lower bound on ε, and ε claimed (no bar: nothing claimed)", bars, y="ε")]


_HEADER = [
    "",
    "attack",
    "against",
    *(f"true positives at {100 * rate:g} % false" for rate in RATES),
    "AUC",
    "ε at least",
    "ε claimed",
    "δ",
    "claim",
]
_READING = (
    "True positives: of the people whose data was used, the share that the attacker names. False: of the people whose "
    "data was not used, the share that is named wrongly. On the dashed line an attacker does no better than guessing.",
    "ε at least: no training with a smaller ε gives such results, except with the small probability that the "
    "confidence leaves. It is above the claim only if the claim is wrong, or if that happened.",
    "A bound below the claim proves nothing: a stronger attack may find more.",
)


def _stricter(finding: MembershipFinding, level: Fraction, count: int) -> MembershipFinding:
    return finding if count <= 1 or finding.bound is None else finding.at(1 - (1 - level) / count)


def _gain(report: AttackReport) -> tuple[float, float]:
    return report.risk.low, report.risk.value


def _of(share: float) -> str:
    return f"{round(1000 * share):,} of 1,000"
