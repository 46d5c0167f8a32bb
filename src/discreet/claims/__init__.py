"""Every claim of the field, shown by this product: predicted beside measured, as one report.

>>> from discreet.claims import CLAIMS, Run, results
>>> [claim.id for claim in CLAIMS][:3]
['A1', 'A2', 'A3']
>>> [result.holds for result in results(["A6"], Run(seed=1))]
[True]
"""

from collections.abc import Callable, Sequence

from discreet.claims import (
    anonymization,
    central_model,
    group_fairness,
    local_model,
    private_learning,
    synthetic_data,
    utility,
)
from discreet.claims.claim import Claim, Evidence, Figure, Result, Run
from discreet.errors import InvalidParameter
from discreet.report import Grid, Heading, Page, Part, Tiles

__all__ = ["CLAIMS", "Claim", "Evidence", "Figure", "Result", "Run", "page", "results"]

_GROUPS = {
    "Why anonymization is not enough": anonymization.GROUP,
    "Mechanisms of a trusted curator": central_model.GROUP,
    "Utility and choice": utility.GROUP,
    "The local model": local_model.GROUP,
    "Learning": private_learning.GROUP,
    "Synthetic data": synthetic_data.GROUP,
    "Fairness and security": group_fairness.GROUP,
}

CLAIMS: tuple[Claim, ...] = tuple(
    sorted(
        (claim for group in _GROUPS.values() for claim in group.claims),
        key=lambda claim: (claim.id[0], int(claim.id[1:])),
    )
)
"""All of them, by letter and number."""

Progress = Callable[[int, int, str], None]


def results(ids: Sequence[str] | None, run: Run, *, progress: Progress | None = None) -> list[Result]:
    """Show the claims of these ids (all, where None); `progress(done, of, sentence)` is told before each."""
    chosen = CLAIMS if ids is None else tuple(_claim_of(name) for name in ids)
    shown: list[Result] = []
    for number, claim in enumerate(chosen):
        if progress is not None:
            progress(number, len(chosen), f"{claim.id}: {claim.words}")
        shown.append(claim.result(run))
    return shown


def page(shown: Sequence[Result], run: Run) -> Page:
    """One page: how many hold, a table of all, then each claim with its figures and pictures."""
    holding = sum(result.holds for result in shown)
    seconds = sum(result.seconds for result in shown)
    table = [
        (result.claim.id, result.claim.words, len(result.evidence.figures), "holds" if result.holds else "fails")
        for result in shown
    ]
    parts: list[Part] = [
        Tiles([(f"{holding} of {len(shown)}", "claims hold"), (f"{seconds:.0f} s", "to show them")]),
        Heading("All claims"),
        Grid(("id", "claim", "figures", "verdict"), table),
    ]
    for subject, group in _GROUPS.items():
        members = [result for result in shown if result.claim in group.claims]
        if members:
            parts += [Heading(subject), *(part for result in members for part in result.parts())]
    lead = (
        "What the field says about privacy, computed by this product on generated people: predicted beside measured. "
        f"Seed {run.seed}; {'small' if run.fast else 'full'} sizes."
    )
    return Page("The claims", parts, lead=lead)


def _claim_of(name: str) -> Claim:
    for claim in CLAIMS:
        if claim.id == name.upper():
            return claim
    raise InvalidParameter("claim", name, f"one of {', '.join(claim.id for claim in CLAIMS)}")
