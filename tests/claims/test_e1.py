"""E1: a synthetic table D' is ε-DP and answers a workload as D does: conditional counts and averages are close.

The answers on D get noise, the entries of D' are the variables, gradient descent brings the answers on D' near to them.
"""

import json
from itertools import combinations

import numpy as np
import pytest
from tests.real_data import FOLDER, needs

from discreet.noise import DeterministicEntropy
from discreet.privacy.accounting import guarantee
from discreet.synthetic.fit.relaxed import Settings, fit
from discreet.synthetic.fit.row_sampling import draw
from discreet.synthetic.measure.noisy_marginals import counts, design_for, measure
from discreet.synthetic.quality import area_under_curve, closeness

pytestmark = pytest.mark.claim("E1")

DATA = FOLDER / "adult"

SIZES = (5, 3, 8, 2, 4)
ROWS = 20_000


def people(seed=1):
    """A region, and then an age, a job, an illness and an income that depend on what stands before them."""
    rng = np.random.default_rng(seed)
    region = rng.choice(5, ROWS, p=[0.4, 0.3, 0.15, 0.1, 0.05])
    age = rng.binomial(2, 0.2 + 0.12 * region)
    job = rng.binomial(7, 0.15 + 0.1 * region + 0.1 * (age == 1))
    ill = (rng.random(ROWS) < 0.05 + 0.3 * (age == 2)).astype(int)
    income = np.minimum(3, rng.binomial(3, 0.1 + 0.1 * job) * (1 - ill) + ill)
    return np.column_stack([region, age, job, ill, income])


D = people()


def synthetic(epsilon, seed=1, **settings):
    stream = DeterministicEntropy(seed)
    made = design_for(SIZES, epsilon=epsilon, delta="1e-9", neighbors="add or remove one")
    assert guarantee(made.loss, delta="1e-9").epsilon <= epsilon
    table = fit(SIZES, measure(D, made, entropy=stream), settings=Settings(**settings) if settings else None)
    return draw(table, entropy=stream)


def conditional_counts(codes):
    """How many in a hundred rows have b, and a: for every pair of columns and codes."""
    return np.concatenate([counts(codes, SIZES, each).ravel() / len(codes) for each in combinations(range(5), 2)])


def averages(codes):
    """The mean income of every region, age and job that at least 200 rows have in D."""
    found = []
    for column in range(3):
        for code in range(SIZES[column]):
            if (D[:, column] == code).sum() >= 200:
                found.append(codes[codes[:, column] == code, 4].mean())
    return np.array(found)


def test_conditional_counts_over_it_are_close_for_every_query_of_the_workload():
    gaps = np.abs(conditional_counts(synthetic(1)) - conditional_counts(D))
    independent = np.column_stack([np.random.default_rng(j).permutation(D[:, j]) for j in range(5)])
    without = np.abs(conditional_counts(independent) - conditional_counts(D))
    assert gaps.max() < 0.01
    assert gaps.sum() < 0.2 * without.sum()


def test_averages_over_it_are_close():
    gaps = np.abs(averages(synthetic(1)) - averages(D))
    assert len(gaps) >= 14
    assert gaps.max() < 0.25
    assert gaps.mean() < 0.06


def test_descent_brings_the_answers_nearer():
    start, middle, end = (
        np.abs(conditional_counts(synthetic(1, iterations=steps)) - conditional_counts(D)).sum()
        for steps in (1, 20, 500)
    )
    assert end < middle < start


@pytest.mark.slow
def test_more_budget_brings_them_nearer_still():
    loose, tight = (
        np.mean([np.abs(conditional_counts(synthetic(e, seed)) - conditional_counts(D)).sum() for seed in range(3)])
        for e in (10, 0.3)
    )
    assert loose < 0.5 * tight


@needs("adult/adult_disc_train.csv", "adult/adult_disc_test.csv", "adult/adult_disc_domain.json")
@pytest.mark.parametrize(("epsilon", "pairs", "triples", "area"), [(1, 0.030, 0.070, 0.89), (10, 0.016, 0.045, 0.90)])
@pytest.mark.slow
def test_the_census_extract(epsilon, pairs, triples, area):
    ensemble = pytest.importorskip("sklearn.ensemble")
    sizes = tuple(json.loads((DATA / "adult_disc_domain.json").read_text()).values())
    real, fresh = (
        np.loadtxt(DATA / f"adult_disc_{part}.csv", delimiter=",", skiprows=1, dtype=np.int64)
        for part in ("train", "test")
    )
    stream = DeterministicEntropy(epsilon)
    made = design_for(sizes, epsilon=epsilon, delta="1e-9", neighbors="add or remove one", target=13)
    assert guarantee(made.loss, delta="1e-9").epsilon <= epsilon
    codes = draw(fit(sizes, measure(real, made, entropy=stream)), entropy=stream)
    assert closeness(real, codes, sizes, 2).mean <= pairs
    assert closeness(real, codes, sizes, 3).mean <= triples
    model = ensemble.HistGradientBoostingClassifier(random_state=0).fit(codes[:, :-1], codes[:, -1])
    assert area_under_curve(model.predict_proba(fresh[:, :-1])[:, 1], fresh[:, -1]) >= area
