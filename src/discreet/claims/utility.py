"""Claims about what a mechanism is worth to a user: oblivious mechanisms, expected loss, optimality."""

import math
from itertools import product
from typing import Any

from discreet.claims.claim import Evidence, Figure, Group, Run
from discreet.mechanisms.bayesian import answer_prior, expected_loss, oblivious, remap, spread_priors
from discreet.mechanisms.channel import deterministic
from discreet.mechanisms.neighbor_graph import hamming
from discreet.mechanisms.optimal import geometric_channel, optimum, universal_gap

GROUP = Group()


def _absolute(y: int, z: int) -> int:
    return abs(y - z)


@GROUP.claim(
    "B13", "Of an oblivious mechanism, privacy is between databases and reports, utility between answers and reports."
)
def oblivious_mechanisms(run: Run) -> Evidence:
    """A noisy count over all databases of four bits."""
    databases, noise = list(product([0, 1], repeat=4)), geometric_channel(4, "0.5")
    whole = oblivious(sum, databases, noise)
    over_databases = expected_loss(whole, "uniform", lambda rows, z: abs(sum(rows) - z))
    induced = answer_prior(sum, databases, "uniform", range(5))
    near = whole.ratio(lambda a, b: hamming(a, b) == 1)
    return Evidence(
        [
            Figure.equal("ratio between databases is that between counts", True, near == noise.ratio("line")),
            Figure.equal(
                "loss over databases is that over answers", expected_loss(noise, induced, _absolute), over_databases
            ),
        ]
    )


@GROUP.claim("B14", "Utility is an expected loss, and a user with a prior does best by remapping what is released.")
def remapping(run: Run) -> Evidence:
    """All 27 functions of three outputs, against the remap by Bayes' rule."""
    noise, prior = geometric_channel(2, "0.5"), ["3/4", "1/8", "1/8"]
    served = expected_loss(noise.then(remap(noise, prior=prior, loss=_absolute)), prior, _absolute)
    others = [
        expected_loss(noise.then(deterministic(f.__getitem__, range(3), range(3))), prior, _absolute)
        for f in product(range(3), repeat=3)
    ]
    plain = expected_loss(noise, prior, _absolute)
    return Evidence(
        [
            Figure.equal("loss after the remap is the least of all functions", min(others), served),
            Figure.at_most("loss after the remap, below that of taking the report at its word", plain, served),
        ]
    )


@GROUP.claim(
    "B15", "Geometric noise serves every user of a count; for a sum of values 0, 1, 2 no mechanism serves all."
)
def universal_optimality(run: Run) -> Evidence:
    """Ghosh, Roughgarden, Sundararajan 2009 by linear programs; Brenner, Nissim 2010 by two users."""
    geometric, worst = geometric_channel(6, 1).as_float(), 0.0
    for prior in spread_priors(7, count=run.size(8, 30)):
        for loss in (_absolute, lambda y, z: int(y != z)):
            best = optimum(prior=prior, loss=loss, epsilon=1, neighbors="line").lp_value
            served = expected_loss(geometric.then(remap(geometric, prior=prior, loss=loss)), prior, loss)
            worst = max(worst, abs(float(served) - float(best)))
    users: list[Any] = [(["1/2", 0, 0, "1/2", 0], _absolute), ([0, "1/2", "1/2", 0, 0], _absolute)]
    gap = universal_gap(epsilon=1, neighbors=lambda a, b: abs(a - b) <= 2, users=users, inputs=range(5)).gap
    return Evidence(
        [
            Figure.at_most("loss above the optimum, worst of all users of a count", 1e-7, worst),
            Figure.equal("loss that two users of a sum cannot avoid", 1 / 2 - 1 / (1 + math.e), gap, within=1e-7),
        ]
    )
