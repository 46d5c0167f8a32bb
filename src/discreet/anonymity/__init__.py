"""Anonymity as people practise it today: redaction, coarsening, k-anonymity and its kin, and what they leave open.

None of this is differential privacy: a k-anonymous table promises nothing against what somebody knows beside it. The
reports say so; `discreet.attacks` shows it.
"""

from discreet.anonymity.classes import Classes
from discreet.anonymity.coded import Coded, Recoding
from discreet.anonymity.hierarchy import Hierarchy

__all__ = ["Classes", "Coded", "Hierarchy", "Recoding"]
