"""discreet: learn from data about people without learning about any one of them.

``discreet.open(policy)`` opens a dataset behind its privacy budget. Below it, the rooms of the house, lowest first:
``discreet.noise`` (exact random numbers), ``discreet.privacy`` (what a release costs, as data), ``discreet.mechanisms``
(how a value is released), ``discreet.curator`` (the gate), and beside one another ``discreet.sql`` (SQL),
``discreet.learning`` (models), ``discreet.local`` (devices), ``discreet.anonymity`` and ``discreet.attacks``.
"""

from typing import Any

__version__ = "0.1.0"
__all__ = ["Dataset", "__version__", "open"]


def __getattr__(name: str) -> Any:
    """`open` and `Dataset`, imported when they are first used."""
    if name not in ("Dataset", "open"):
        raise AttributeError(f"module 'discreet' has no attribute {name!r}")
    from discreet import dataset

    return getattr(dataset, name)
