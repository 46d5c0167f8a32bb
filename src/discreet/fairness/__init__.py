"""Fairness of predictions: parity, conditional parity, equalized odds and their kin, repair, and private audits.

`fairness_report` counts a table of labels, predictions and sensitive attributes and says how far groups are apart, with
limits. `repair` holds ways to close gaps, `tradeoff` what they cost. `audit` asks the same of labels and attributes
behind a curator, through the gate; `private` shows what ε does to each group.
"""

from typing import Any

from discreet.fairness.cells import Cells

__all__ = ["Cells", "FairnessReport", "fairness_report"]


def __getattr__(name: str) -> Any:
    """The report, imported when it is first used."""
    if name in ("FairnessReport", "fairness_report"):
        from importlib import import_module

        return getattr(import_module("discreet.fairness.disparity_report"), name)
    raise AttributeError(f"module 'discreet.fairness' has no attribute {name!r}")
