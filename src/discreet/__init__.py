"""discreet: learn from data about people without learning about any one of them.

``discreet.open(policy)`` opens a dataset behind its privacy budget, ``discreet.connect(url)`` one behind a server;
requests such as ``Question`` say what is wanted of it. Below them, the rooms of the house, lowest first:
``discreet.noise`` (exact random numbers), ``discreet.privacy`` (what a release costs, as data), ``discreet.mechanisms``
(how a value is released), ``discreet.curator`` (the gate), and beside one another ``discreet.sql`` (SQL),
``discreet.learning`` (models), ``discreet.local`` (devices), ``discreet.anonymity`` and ``discreet.attacks``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from discreet.client.remote import RemoteDataset, connect
    from discreet.curator.answer import Answer
    from discreet.curator.policy import Policy, read_policy
    from discreet.curator.reports.budget_report import BudgetReport
    from discreet.dataset import Dataset, open  # noqa: A004 (discreet.open, as gzip.open)
    from discreet.errors import BudgetExceeded, DiscreetError, InvalidParameter, InvalidQuery
    from discreet.requests import (
        Commute,
        ContributionBounds,
        FairnessAudit,
        LinkedSynthesis,
        Question,
        Synthesis,
        Training,
    )

__version__ = "1.0.0rc1"
_MODULES = {
    "Answer": "curator.answer",
    "BudgetExceeded": "errors",
    "BudgetReport": "curator.reports.budget_report",
    "Commute": "requests",
    "ContributionBounds": "requests",
    "Dataset": "dataset",
    "DiscreetError": "errors",
    "FairnessAudit": "requests",
    "InvalidParameter": "errors",
    "InvalidQuery": "errors",
    "LinkedSynthesis": "requests",
    "Policy": "curator.policy",
    "Question": "requests",
    "RemoteDataset": "client.remote",
    "Synthesis": "requests",
    "Training": "requests",
    "connect": "client.remote",
    "load_ipython_extension": "notebook",
    "open": "dataset",
    "unload_ipython_extension": "notebook",
    "read_policy": "curator.policy",
}
__all__ = [
    "Answer", "BudgetExceeded", "BudgetReport", "Commute", "ContributionBounds", "Dataset", "DiscreetError",
    "FairnessAudit", "InvalidParameter", "InvalidQuery", "LinkedSynthesis", "Policy", "Question", "RemoteDataset",
    "Synthesis", "Training", "__version__", "connect", "open", "read_policy",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """The public names, imported when they are first used."""
    if name not in _MODULES:
        raise AttributeError(f"module 'discreet' has no attribute {name!r}")
    return getattr(import_module(f"discreet.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
