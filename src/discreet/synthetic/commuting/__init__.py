"""The commuting map: where the people of each place of work live, synthetic.

>>> from discreet.synthetic.commuting import Flows, Places, Scheme, synthesize
>>> towns = Places(["a", "b"], [[0.0, 0.0], [3.0, 4.0]])
>>> synthesize(Flows(towns, [0, 1], [0, 0], [900, 100]), Scheme(epsilon=1)).total
1000
"""

from discreet.synthetic.commuting.evaluation import Comparison
from discreet.synthetic.commuting.flows import Acceptance, Flows, Places, Scheme, city
from discreet.synthetic.commuting.synthesis import synthesize
from discreet.synthetic.commuting.urn import approximate_prior, probabilistic_prior, pure_prior

__all__ = [
    "Acceptance",
    "Comparison",
    "Flows",
    "Places",
    "Scheme",
    "approximate_prior",
    "city",
    "probabilistic_prior",
    "pure_prior",
    "synthesize",
]
