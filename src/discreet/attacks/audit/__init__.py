"""Auditing: how much does a mechanism really give away about one person?

- `Audit`: any function, by its outputs on two neighboring inputs: a lower bound on ε with a stated confidence;
- `ChannelAudit`: a finite mechanism given by its probabilities: the exact ε;
- `audit_mechanism`, `audit_curator`: an `Audit` of a mechanism of the library, of a curator's answers;
- `neighbors`, `worst_pair`: inputs that differ by one person, and the `Audit` of those that look worst.
"""

from discreet.attacks.audit.asked import audit_curator, audit_mechanism
from discreet.attacks.audit.audit import Audit
from discreet.attacks.audit.exact import ChannelAudit
from discreet.attacks.audit.finding import Finding
from discreet.attacks.audit.pairs import neighbors, worst_pair

__all__ = ["Audit", "ChannelAudit", "Finding", "audit_curator", "audit_mechanism", "neighbors", "worst_pair"]
