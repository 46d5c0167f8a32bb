"""discreet: learn from data about people without learning about any one of them.

``discreet.open(policy)`` opens a dataset behind its privacy budget; requests such as ``Question`` say what is wanted
of it. Below it, the rooms of the house, lowest first: ``discreet.noise`` (exact random numbers), ``discreet.privacy``
(what a release costs, as data), ``discreet.mechanisms`` (how a value is released), ``discreet.curator`` (the gate), and
beside one another ``discreet.sql`` (SQL), ``discreet.learning`` (models), ``discreet.local`` (devices),
``discreet.anonymity`` and ``discreet.attacks``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from discreet.curator.answer import Answer
    from discreet.curator.policy import Policy, read_policy
    from discreet.curator.report import BudgetReport
    from discreet.dataset import Dataset, open  # noqa: A004 (discreet.open, as gzip.open)
    from discreet.errors import BudgetExceeded, DiscreetError, InvalidParameter, InvalidQuery
    from discreet.requests import Commute, FairnessAudit, LinkedSynthesis, Question, Synthesis, Training

__version__ = "0.1.0"
_MODULES = {
    "Answer": "curator.answer",
    "BudgetExceeded": "errors",
    "BudgetReport": "curator.report",
    "Commute": "requests",
    "Dataset": "dataset",
    "DiscreetError": "errors",
    "FairnessAudit": "requests",
    "InvalidParameter": "errors",
    "InvalidQuery": "errors",
    "LinkedSynthesis": "requests",
    "Policy": "curator.policy",
    "Question": "requests",
    "Synthesis": "requests",
    "Training": "requests",
    "open": "dataset",
    "read_policy": "curator.policy",
}
__all__ = [
    "Answer", "BudgetExceeded", "BudgetReport", "Commute", "Dataset", "DiscreetError", "FairnessAudit",
    "InvalidParameter", "InvalidQuery", "LinkedSynthesis", "Policy", "Question", "Synthesis", "Training", "__version__",
    "open", "read_policy",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """The public names, imported when they are first used."""
    if name not in _MODULES:
        raise AttributeError(f"module 'discreet' has no attribute {name!r}")
    return getattr(import_module(f"discreet.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
