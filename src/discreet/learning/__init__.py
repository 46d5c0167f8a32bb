"""Learning with privacy: DP-SGD and classical models.

The names below are imported when they are first used, so that importing this package stays quick. For networks of your
own making see `learning.networks` and `learning.sgd`; for functions written in JAX, `learning.networks.jax_model`.

>>> from discreet.learning import DPClassifier, LogisticRegression
>>> DPClassifier.__module__, LogisticRegression.__module__
('discreet.learning.estimators', 'discreet.learning.classical.logistic')
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from discreet.learning.classical import (
        PCA,
        CategoricalNB,
        DecisionTreeClassifier,
        GaussianNB,
        Histogram,
        KernelDensity,
        KMeans,
        LinearRegression,
        LogisticRegression,
        RandomForestClassifier,
        Ridge,
        StandardScaler,
        choose,
    )
    from discreet.learning.estimators import DPClassifier, DPRegressor

__all__ = [
    "PCA",
    "CategoricalNB",
    "DPClassifier",
    "DPRegressor",
    "DecisionTreeClassifier",
    "GaussianNB",
    "Histogram",
    "KMeans",
    "KernelDensity",
    "LinearRegression",
    "LogisticRegression",
    "RandomForestClassifier",
    "Ridge",
    "StandardScaler",
    "choose",
]

_NETWORKS = ("DPClassifier", "DPRegressor")


def __getattr__(name: str) -> Any:
    """An exported name, imported when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module 'discreet.learning' has no attribute {name!r}")
    home = "discreet.learning.estimators" if name in _NETWORKS else "discreet.learning.classical"
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
