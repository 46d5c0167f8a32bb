"""Anonymity as people practice it today: redaction, coarsening, k-anonymity and its kin, and what they leave open.

None of this is differential privacy: a k-anonymous table promises nothing against what somebody knows beside it. The
reports say so; `discreet.attacks` shows it.
"""

from typing import Any

from discreet.anonymity.classes import Classes
from discreet.anonymity.hierarchy import Hierarchy
from discreet.anonymity.recoding import Coded, Recoding

__all__ = ["Anonymized", "Classes", "Coded", "Hierarchy", "Policy", "Recoding", "anonymize"]


def __getattr__(name: str) -> Any:
    """What builds on the rest, imported when it is first used."""
    if name == "Policy":
        from discreet.anonymity.masking_policy import Policy

        return Policy
    if name in ("Anonymized", "anonymize"):
        from importlib import import_module

        return getattr(import_module("discreet.anonymity.masking"), name)
    raise AttributeError(f"module 'discreet.anonymity' has no attribute {name!r}")
