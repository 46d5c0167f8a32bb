"""Ways to close gaps: before training (reweighing), while training (reduction), after it (thresholds for each group).

All repairs are fitted to the rows given: on other rows a gap is closed up to chance, so measure it there again.
"""

from discreet.fairness.repair.reduction import Mixture, reduction, repaired
from discreet.fairness.repair.thresholds import Rule, Thresholds, equalize, reweigh

__all__ = ["Mixture", "Rule", "Thresholds", "equalize", "reduction", "repaired", "reweigh"]
