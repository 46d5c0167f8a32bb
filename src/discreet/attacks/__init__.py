"""Attacks: what a release really gives away, measured beside what guessing gives.

Every attack is a value with a `run()` that returns an `AttackReport`.
"""

from discreet.attacks.report import Attack, AttackReport, Share

__all__ = ["Attack", "AttackReport", "Share"]
