"""Attacks against answers at an ε of choice: what a visitor turns, to see when an attack begins to work.

>>> from discreet.gallery.dials import DIALS
>>> [DIALS["guessing"](epsilon, seed=1).verdict for epsilon in ("0.1", "5")]
['holds', 'holds']
"""

from collections.abc import Callable, Mapping
from fractions import Fraction

import numpy as np

from discreet.attacks import AttackReport
from discreet.attacks.answers.accumulation import Accumulation
from discreet.attacks.answers.answerers import Noisy, Raw
from discreet.attacks.answers.averages import Averaging, Differencing, pairs_about
from discreet.attacks.answers.reconstruction import Reconstruction, random_subsets
from discreet.attacks.audit.targets import Guessing
from discreet.gallery.harm import Heights
from discreet.mechanisms.randomized_response import KRR

Dial = Callable[..., AttackReport]

_PEOPLE = 3000  # many, so that there is little doubt where it holds


def _accumulation(epsilon: str, *, seed: int) -> AttackReport:
    return Accumulation(people=200, answers=40, trials=100, seed=seed, total=epsilon).run()


def _averaging(epsilon: str, *, seed: int) -> AttackReport:
    secret = _secret(_PEOPLE, seed)
    answerer = Noisy(Raw(secret), epsilon=epsilon, seed=seed)
    questions = [[[person]] for person in range(_PEOPLE)]
    return Averaging(questions=questions, truth=secret, answerer=answerer, epsilon=epsilon, possible=(0, 1)).run()


def _differencing(epsilon: str, *, seed: int) -> AttackReport:
    secret = _secret(_PEOPLE, seed)
    pairs = pairs_about(range(_PEOPLE), of=_PEOPLE, groups=1, seed=seed)
    answerer = Noisy(Raw(secret), epsilon=Fraction(epsilon) / 2, seed=seed)
    return Differencing(pairs=pairs, truth=secret, answerer=answerer, epsilon=epsilon).run()


def _guessing(epsilon: str, *, seed: int) -> AttackReport:
    response = KRR(epsilon=epsilon, size=2).channel()
    return Guessing(mechanism=response, first=0, second=1, epsilon=epsilon, trials=5000, seed=seed).run()


def _harm(epsilon: str, *, seed: int) -> AttackReport:
    return Heights(people=2000, epsilon=epsilon, seed=seed).run()


def _reconstruction(epsilon: str, *, seed: int) -> AttackReport:
    people = questions = 1500
    secret = _secret(people, seed)
    answerer = Noisy(Raw(secret), epsilon=Fraction(epsilon) / questions, seed=seed)
    subsets = random_subsets(questions, people=people, seed=seed)
    scale, against = questions / float(epsilon), f"ε {epsilon} for all answers"
    return Reconstruction(subsets=subsets, truth=secret, answerer=answerer, scale=scale, against=against).run()


def _secret(people: int, seed: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.random.default_rng(seed).random(people) < 0.3


DIALS: Mapping[str, Dial] = {
    "accumulation": _accumulation,
    "averaging": _averaging,
    "differencing": _differencing,
    "guessing": _guessing,
    "harm": _harm,
    "reconstruction": _reconstruction,
}
"""Exhibits whose answers can be had at an ε of choice, with a seed."""
