"""Auditing: how much does a mechanism really give away about one person?

- `Audit`: any function, by its outputs on two neighboring inputs: a lower bound on ε with a stated confidence;
- `ChannelAudit`: a finite mechanism given by its probabilities: the exact ε;
- `audit_mechanism`, `audit_curator`: an `Audit` of a mechanism of the library, of a curator's answers;
- `neighbors`, `worst_pair`: inputs that differ by one person, and the `Audit` of those that look worst.
"""

from discreet.attacks.audit.audit import Audit, neighbors, worst_pair
from discreet.attacks.audit.finding import Finding
from discreet.attacks.audit.targets import ChannelAudit, audit_curator, audit_mechanism

__all__ = ["Audit", "ChannelAudit", "Finding", "audit_curator", "audit_mechanism", "neighbors", "worst_pair"]
