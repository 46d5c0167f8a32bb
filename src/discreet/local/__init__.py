"""The local model: randomizers for devices, and estimators for whoever collects their reports."""

from discreet.local.estimation.frequencies import Frequencies
from discreet.local.oracles.hashing import BinaryHashing, OptimizedHashing
from discreet.local.oracles.oracle import Oracle
from discreet.local.oracles.responses import KRR, BinaryResponse, HadamardResponse
from discreet.local.oracles.sets import OptimizedUnary, SubsetSelection, SymmetricUnary

__all__ = [
    "KRR",
    "BinaryHashing",
    "BinaryResponse",
    "Frequencies",
    "HadamardResponse",
    "OptimizedHashing",
    "OptimizedUnary",
    "Oracle",
    "SubsetSelection",
    "SymmetricUnary",
]
