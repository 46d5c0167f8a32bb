"""Every animal of the zoo is caught; what is private, and differs from it by the fault alone, is not."""

from fractions import Fraction

import numpy as np
import pytest

from discreet.attacks.audit import Audit, zoo
from discreet.attacks.audit.zoo import BROKEN, audit_zoo, bounds, compared, gaussian, laplace, named, stopped, table
from discreet.errors import InvalidParameter

SURE = 1 - Fraction(1, 10**7)


@pytest.fixture(scope="module")
def found():
    return audit_zoo(confidence=0.999, seed=0)


@pytest.mark.slow
def test_every_one_is_caught(found, record_property):
    lines = [f"{a.name:<58} claimed {float(a.epsilon):5.2f}   at least {f.epsilon:6.3f}   {f.event}" for a, f in found]
    print("\n".join(lines))
    record_property("zoo", "\n".join(lines))
    missed = [line for line, (_, one) in zip(lines, found, strict=True) if not one.broken]
    assert not missed, "\n".join(missed)
    assert len(found) == len(BROKEN) >= 20


def test_they_are_caught_for_what_is_wrong_with_them(found):
    """The event that gives it away, by a word of it."""
    events = {animal.name: one.event for animal, one in found}
    for name, word in {
        "Laplace by inversion, in floats": "lowest bit",
        "Laplace as a difference of logarithms": "lowest bit",
        "Laplace of NumPy": "lowest bit",
        "Gaussian by Box and Muller, in floats": "lowest bit",
        "the same seed for every release": "the output is",
        "small counts get more decimals": "decimals",
        "histogram of the cells that are there": "rabies",
        "threshold of keys too low": "rabies",
        "mean with a NaN in it": "nan",
    }.items():
        assert word in events[name]
    for name in set(events) - {"Laplace by inversion, in floats", "Laplace as a difference of logarithms"}:
        if "float" not in name and name not in ("Laplace of NumPy", "Gaussian by Box and Muller, in floats"):
            assert "lowest bit" not in events[name], f"{name}: {events[name]}"


def test_impossible_on_one_side_is_far_beyond_the_claim(found):
    """What has ε = ∞ by its paper is caught far above its claim, also by these few draws."""
    proven = {animal.name: one.epsilon - float(animal.epsilon) for animal, one in found}
    for name in (
        "Laplace by inversion, in floats",
        "sparse vector without noise on the answers",
        "mean with a NaN in it",
    ):
        assert proven[name] > 3


def test_names_papers_and_reasons():
    assert len({animal.name for animal in BROKEN}) == len(BROKEN)
    for animal in BROKEN:
        assert len(animal.why) > 20
        assert animal.paper
        assert animal.epsilon > 0
        assert animal.why[0].islower()
        assert repr(animal.x) != repr(animal.neighbor)
    with pytest.raises(InvalidParameter, match="sum without clamping"):
        named("unicorn")


def test_the_table_and_the_chart(found):
    grid = table(found)
    assert len(grid.rows) == len(BROKEN)
    assert all(len(row) == len(grid.header) for row in grid.rows)
    assert {row[5] for row in grid.rows} == {"broken"}
    assert bounds(found).svg().startswith("<svg")


def test_progress():
    seen = []
    audit_zoo(animals=[named("mean with a NaN in it")] * 2, progress=lambda *now: seen.append(now))
    assert seen == [(1, 2), (2, 2)]


# --- the same without the fault ------------------------------------------------------------------------------------------


def choice(noise):
    return lambda scores, n, rng: np.argmax(np.asarray(scores) + noise((n, len(scores)), rng), axis=1)


def sparse(answers, n, rng, *, positives):
    """Lyu, Su, Li 2017, Algorithm 1, ε₁ = ε₂ = ½: noise Lap(1/ε₁) and Lap(2c/ε₂), stops after c positives."""
    _, above = compared(answers, n, rng, threshold=2.0, query=4.0 * positives)
    return np.where(stopped(above, positives), above, -1)


def kept(cells, n, rng):
    """Threshold 15 at ε = 1: a key of one person passes with probability ½e^−14 < 1e-6."""
    rows = zoo.present_cells.sampler(cells, n, rng)
    return [{key: count for key, count in row.items() if count >= 15} for row in rows]


def mean(values, n, rng):
    """A noisy sum and a noisy count, half of ε each."""
    total = np.clip(np.nan_to_num(values, nan=0.5), 0, 1).sum()
    return np.stack([total + laplace(2.0, n, rng), len(values) + laplace(2.0, n, rng)], axis=1)


REPAIRED = {
    "Laplace by inversion, in floats": lambda value, n, rng: value + laplace(1.0, n, rng),
    "Laplace of NumPy": lambda value, n, rng: value + laplace(10.0, n, rng),
    "Gaussian by Box and Muller, in floats": lambda value, n, rng: value + gaussian(4.85, n, rng),
    "the same seed for every release": lambda value, n, rng: value + laplace(1.0, n, rng, step=1.0),
    "parent and child of a fork": lambda counts, n, rng: counts + laplace(1.0, (n, 2), rng, step=1.0),
    "one noise for all cells": lambda counts, n, rng: counts + laplace(1.0, (n, 4), rng),
    "small counts get more decimals": lambda count, n, rng: np.round(count + laplace(1.0, n, rng), 0),
    "sparse vector that tells the noisy answer": lambda a, n, rng: sparse(a, n, rng, positives=1),
    "sparse vector whose noise forgets the number of positives": lambda a, n, rng: sparse(a, n, rng, positives=6),
    "sparse vector without noise on the answers": lambda a, n, rng: sparse(a, n, rng, positives=1),
    "sparse vector that never stops": lambda a, n, rng: sparse(a, n, rng, positives=3),
    "noisy max that tells the value": choice(lambda size, rng: laplace(2.0, size, rng)),
    "noisy max with half the noise": choice(lambda size, rng: laplace(2.0, size, rng)),
    "exponential mechanism without its two": choice(lambda size, rng: 2 * rng.gumbel(size=size)),
    "sum without clamping": lambda v, n, rng: np.clip(v, 0, 1).sum() + laplace(1.0, n, rng),
    "mean over the true count": mean,
    "eight answers for the price of one": lambda counts, n, rng: counts + laplace(8.0, (n, 8), rng),
    "histogram under the wrong neighbors": lambda counts, n, rng: counts + laplace(2.0, (n, 2), rng),
    "threshold of keys too low": kept,
    "mean with a NaN in it": mean,
}


@pytest.mark.quick_cases(11)
@pytest.mark.parametrize("name", REPAIRED)
def test_what_is_repaired_is_not_accused(name):
    """Seeds are fixed, and the confidence leaves no room for bad luck."""
    animal = named(name)
    repaired = Audit(
        mechanism=REPAIRED[name], x=animal.x, neighbor=animal.neighbor, claimed=(animal.epsilon, animal.delta),
        samples=min(animal.samples, 40_000), confidence=SURE, seed=1,
    ).find()  # fmt: skip
    assert not repaired.broken, repaired.event


def test_the_repairs_are_audited_with_power():
    """Not only silence: the audit of a repaired mechanism finds a good part of the ε that it does have."""
    for name, least in (("Laplace by inversion, in floats", 0.8), ("histogram under the wrong neighbors", 0.6)):
        animal = named(name)
        audit = Audit(mechanism=REPAIRED[name], x=animal.x, neighbor=animal.neighbor, samples=40_000)
        assert audit.find().epsilon > least
