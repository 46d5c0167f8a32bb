"""Attacks: what a release really gives away, measured beside what guessing gives.

Every attack is a value with a `run()` that returns an `AttackReport`.

>>> from discreet.attacks import Reconstruction
>>> Reconstruction.__module__
'discreet.attacks.answers.reconstruction'
"""

from importlib import import_module
from typing import Any

from discreet.attacks.attack_report import Attack, AttackReport, Share

_ROOMS = {  # imported when they are first used
    "Accumulation": "answers.accumulation",
    "Audit": "audit",
    "Averaging": "answers.averages",
    "CanaryGradients": "membership",
    "ChannelAudit": "audit",
    "Checkpoints": "membership",
    "Composition": "answers.composition",
    "Differencing": "answers.averages",
    "GradientAlignment": "membership",
    "GradientNorm": "membership",
    "GraphMatching": "records.graph",
    "Guessing": "audit.targets",
    "Inference": "tables.inference",
    "Intersection": "answers.intersection",
    "Linkability": "tables.inference",
    "Linkage": "tables.linkage",
    "LinkedSecret": "tables.linkage",
    "Lira": "membership",
    "LossThreshold": "membership",
    "MembershipReport": "membership",
    "Reconstruction": "answers.reconstruction",
    "Rmia": "membership",
    "SinglingOut": "tables.singling_out",
    "SparseMatching": "records.sparse",
    "UpdateLabels": "updates",
    "UpdateRows": "updates",
    "audit_curator": "audit",
    "audit_mechanism": "audit",
}

__all__ = ["Attack", "AttackReport", "Share", *_ROOMS]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    """An attack by its name."""
    if name not in _ROOMS:
        raise AttributeError(f"module 'discreet.attacks' has no attribute {name!r}")
    return getattr(import_module(f"discreet.attacks.{_ROOMS[name]}"), name)
