"""The local model: randomizers for devices, and estimators for whoever collects their reports."""

from discreet.local.flat import BinaryResponse, FlatResponse
from discreet.local.frequencies import Frequencies
from discreet.local.hadamard import HadamardResponse
from discreet.local.hashing import BinaryHashing, OptimizedHashing
from discreet.local.oracle import Oracle
from discreet.local.subset import SubsetSelection
from discreet.local.unary import OptimizedUnary, SymmetricUnary

__all__ = [
    "BinaryHashing",
    "BinaryResponse",
    "FlatResponse",
    "Frequencies",
    "HadamardResponse",
    "OptimizedHashing",
    "OptimizedUnary",
    "Oracle",
    "SubsetSelection",
    "SymmetricUnary",
]
