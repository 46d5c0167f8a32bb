"""Claims about synthetic tables and commuting maps."""

import itertools
import math
from typing import Any

import numpy as np

from discreet.claims.claim import Evidence, Figure, Group, Run
from discreet.privacy.accounting import guarantee
from discreet.report import Bars, Chart
from discreet.synthetic.commuting import (
    Acceptance,
    Comparison,
    Flows,
    Places,
    Scheme,
    city,
    probabilistic_prior,
    pure_prior,
    synthesize,
)
from discreet.synthetic.fit.relaxed import Settings, fit
from discreet.synthetic.fit.row_sampling import draw
from discreet.synthetic.measure.noisy_marginals import counts, design_for, measure

GROUP = Group()

_SIZES = (5, 3, 8, 2, 4)


def _people(rows: int, seed: int) -> Any:
    """A region, and then an age, a job, an illness and an income that depend on what stands before them."""
    rng = np.random.default_rng(seed)
    region = rng.choice(5, rows, p=[0.4, 0.3, 0.15, 0.1, 0.05])
    age = rng.binomial(2, 0.2 + 0.12 * region)
    job = rng.binomial(7, 0.15 + 0.1 * region + 0.1 * (age == 1))
    ill = (rng.random(rows) < 0.05 + 0.3 * (age == 2)).astype(int)
    income = np.minimum(3, rng.binomial(3, 0.1 + 0.1 * job) * (1 - ill) + ill)
    return np.column_stack([region, age, job, ill, income])


def _pairs(codes: Any) -> Any:
    return np.concatenate(
        [counts(codes, _SIZES, each).ravel() / len(codes) for each in itertools.combinations(range(5), 2)]
    )


@GROUP.claim(
    "E1",
    "A private synthetic table answers conditional counts nearly as the real one; gradient descent improves it.",
)
def synthetic_tables(run: Run) -> Evidence:
    """Five columns that depend on each other, all pairs as the workload, ε 1."""
    table = _people(run.size(10_000, 20_000), run.seed)
    design = design_for(_SIZES, epsilon=1, delta="1e-9", neighbors="add or remove one")
    noisy = measure(table, design, entropy=run.entropy())
    gaps = {}
    for steps in (1, 500):
        codes = draw(fit(_SIZES, noisy, settings=Settings(iterations=steps)), entropy=run.entropy(1))
        gaps[steps] = np.abs(_pairs(codes) - _pairs(table))
    rng = np.random.default_rng(run.seed)
    alone = np.abs(_pairs(np.column_stack([rng.permutation(table[:, j]) for j in range(5)])) - _pairs(table))
    chart = Chart(
        "Total error of conditional counts",
        [
            Bars(
                ["independent columns", "after one step", "after 500 steps"],
                [float(gap.sum()) for gap in (alone, *gaps.values())],
            )
        ],
    )  # fmt: skip
    return Evidence(
        [
            Figure.at_most("ε of the measurements", 1, guarantee(design.loss, delta="1e-9").epsilon),
            Figure.at_most("worst error of a conditional count", 0.02, float(gaps[500].max())),
            Figure.at_most("total error, relative to independent columns", 0.35, float(gaps[500].sum() / alone.sum())),
            Figure.at_least("total error that descent takes off", 0.01, float(gaps[1].sum() - gaps[500].sum())),
        ],
        [chart],
    )


def _state(seed: int) -> Flows:
    """Sixty counties in a square of 500 km, a few of them large; people mostly work nearby."""
    rng = np.random.default_rng(seed)
    points, size = rng.uniform(0, 500, (60, 2)), rng.pareto(1.2, 60) + 0.2
    places = Places([f"county {i}" for i in range(60)], points)
    km = np.array([places.distances(i) for i in range(60)])
    expected = np.exp(-km / 12) * size[:, None] * size[None, :] ** 0.5
    flows = rng.poisson(2_000_000 * expected / expected.sum())
    origin, destination = np.nonzero(flows)
    return Flows(places, origin, destination, flows[origin, destination])


def _compared(flows: Flows, run: Run, **settings: Any) -> Comparison:
    return Comparison(flows, synthesize(flows, Scheme(**settings), entropy=run.entropy(5)))


@GROUP.claim(
    "E2", "A commuting map with a pure guarantee needs absurd noise in every block; a probabilistic one does not."
)
def commuting(run: Run) -> Evidence:
    """The published case: a million blocks at ε 7 need more than 912 people in each."""
    flows, urn = _state(run.seed), {"method": "dirichlet", "epsilon": 1}
    pure = _compared(flows, run, **urn).missed_km
    probable = _compared(flows, run, **urn, promise="probabilistic", delta="1e-6").missed_km
    return Evidence(
        [
            Figure.equal("prior people in each block, pure", 913, math.ceil(pure_prior(10**6, epsilon=7))),
            Figure.at_most(
                "prior people in each block, probabilistic",
                0.1,
                float(probabilistic_prior(10**6, 1000, epsilon=7, delta="1e-6")),
            ),
            Figure.at_most("mean commutes missed, probabilistic over pure", 0.8, probable / pure),
        ]
    )


@GROUP.claim(
    "E3", "Candidates are accepted by closeness without breaking the guarantee; coarser origins reduce sparsity."
)
def acceptance(run: Run) -> Evidence:
    """The cost of accepting, the nearness of what is accepted, and bands of distance in a sparse city."""
    scheme = Scheme(epsilon=4, accept=Acceptance(apart="0.05", stop="1/2"))
    flows = _state(run.seed)
    near = Comparison(flows, synthesize(flows, scheme, entropy=run.entropy())).moved
    blocks = city(blocks=900, workers=20_000)
    plain, banded = (_compared(blocks, run, epsilon=1, **more).missed_km for more in ({}, {"bands": ["0.3", 1, 2, 4]}))
    return Evidence(
        [
            Figure.equal("ε of a map that was accepted", 4, guarantee(scheme.loss, delta=0).epsilon),
            Figure.at_most("people who were moved on the accepted map", 0.05, near),
            Figure.at_most("mean commutes missed with bands, relative to without", 0.8, banded / plain),
        ]
    )


@GROUP.claim(
    "E4", "Long commutes are overestimated; a cap by public knowledge corrects them, and mean commutes are close."
)
def long_commutes(run: Run) -> Evidence:
    """The share of commutes beyond 100 km, true and synthetic; means by destination."""
    flows = _state(run.seed)
    urn = {"method": "dirichlet", "epsilon": 1, "promise": "probabilistic", "delta": "1e-6"}
    free, capped = _compared(flows, run, **urn), _compared(flows, run, **urn, cap=100)
    counted = _compared(flows, run, epsilon="4.6")
    true, synthetic = free.far(100)
    return Evidence(
        [
            Figure.at_least("far commutes, synthetic over true", 3, synthetic / max(true, 1e-9)),
            Figure.equal("far commutes with the cap", 0, capped.far(100)[1]),
            Figure.at_most(
                "mean commutes missed with the cap, relative to without", 1 / 3, capped.missed_km / free.missed_km
            ),
            Figure.at_most("mean commutes missed at ε 4.6, km", 3, counted.missed_km),
        ],
        [counted.chart()],
    )
