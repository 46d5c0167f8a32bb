"""B16 (mechanism side): counts, histograms, averages, GROUP BY and conditional queries, each with its sensitivity."""

from fractions import Fraction

import numpy as np
import pytest

from discreet.mechanisms import Geometric, Laplace, LaplaceThreshold, OptimalSelection
from discreet.mechanisms.neighbor_graph import sensitivity
from discreet.noise import DeterministicEntropy
from discreet.privacy.unit import Neighbors

pytestmark = pytest.mark.claim("B16")

F = Fraction
ADD, CHANGE = Neighbors.ADD_OR_REMOVE_ONE, Neighbors.CHANGE_ONE
JOBS = ("VP", "clerk", "nurse")
PEOPLE = [
    (age, gender, job) for age, gender, job in zip(
        np.random.default_rng(3).integers(18, 70, 4000).tolist(),
        np.random.default_rng(4).choice(["F", "M"], 4000).tolist(),
        np.random.default_rng(5).choice(JOBS, 4000, p=[0.2, 0.5, 0.3]).tolist(),
        strict=True,
    )
]  # fmt: skip
SMALL = [(age, gender, job) for age in (20, 40) for gender in "FM" for job in ("VP", "clerk")]


def young_women_in_charge(rows) -> int:
    return sum(age < 25 and gender == "F" and job == "VP" for age, gender, job in rows)


def by_job(rows) -> dict[str, int]:
    return {job: sum(r[2] == job for r in rows) for job in JOBS}


def total_age(rows) -> int:
    return sum(min(max(age, 18), 70) for age, _, _ in rows)


@pytest.mark.parametrize(
    ("query", "relation", "expected"),
    [
        (len, ADD, 1),
        (young_women_in_charge, ADD, 1),
        (young_women_in_charge, CHANGE, 1),
        (by_job, ADD, 1),
        (by_job, CHANGE, 2),
        (total_age, ADD, 40),
        (total_age, CHANGE, 20),
    ],
)
def test_what_one_person_can_change(query, relation, expected):
    assert sensitivity(query, domain=SMALL, size=2, neighbors=relation, ordered=False).value == expected


def test_a_conditional_count_and_its_fraction():
    truth, mechanism = young_women_in_charge(PEOPLE), Geometric(epsilon="0.5", sensitivity=1)
    width = mechanism.interval("0.999")
    released = [mechanism.release(truth, entropy=DeterministicEntropy(seed)) for seed in range(300)]
    assert (np.abs(np.array(released) - truth) <= width).mean() >= 0.98
    assert np.abs(np.array(released) - truth).max() > 0
    share = Laplace(epsilon="0.5", sensitivity=f"1/{len(PEOPLE)}", granularity=f"1/{len(PEOPLE)}")  # n is public
    error = share.interval("0.95")
    assert error < 0.002
    assert abs(share.release(truth / len(PEOPLE)) - truth / len(PEOPLE)) < 0.02


def test_a_histogram_over_a_declared_domain_answers_empty_groups_too():
    counts = [by_job(PEOPLE)[job] for job in JOBS] + [0]
    mechanism = Geometric(epsilon=1, sensitivity=1)
    released = mechanism.release(counts, entropy=DeterministicEntropy(1))
    assert released.shape == (4,)
    assert np.abs(released - counts).max() <= 20
    empties = {int(mechanism.release([0], entropy=DeterministicEntropy(seed))[0]) for seed in range(50)}
    assert len(empties) > 1  # an empty group is noisy like any other


def test_an_average_is_a_noisy_sum_over_a_noisy_count():
    total, count = Geometric(epsilon="0.5", sensitivity=70), Geometric(epsilon="0.5", sensitivity=1)
    truth = total_age(PEOPLE) / len(PEOPLE)
    errors = [
        abs(
            total.release(total_age(PEOPLE), entropy=DeterministicEntropy(seed))
            / count.release(len(PEOPLE), entropy=DeterministicEntropy(seed + 1000))
            - truth
        )
        for seed in range(200)
    ]
    assert np.mean(errors) < 0.1
    assert max(errors) < 1


def test_groups_that_come_from_the_data_are_named_only_if_many_share_them():
    counts = [len(PEOPLE) // 3, 40, 2, 1, 1]
    for mechanism in (
        LaplaceThreshold(epsilon=1, delta="1e-6", keys=1),
        OptimalSelection(epsilon=1, delta="1e-6", keys=1),
    ):
        runs = [mechanism.release(counts, entropy=DeterministicEntropy(seed)) for seed in range(200)]
        kept = np.array([run[0] if isinstance(run, tuple) else run for run in runs])
        assert kept[:, :2].all()
        assert not kept[:, 2:].any()  # 600 chances of at most e·1e-6
