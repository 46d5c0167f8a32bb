"""discreet: learn from data about people without learning about any one of them.

The rooms of the house, lowest first: ``discreet.noise`` (exact random numbers), ``discreet.privacy``
(what a release costs, as data) and ``discreet.mechanisms`` (how a value is released).
"""

__version__ = "0.1.0"
