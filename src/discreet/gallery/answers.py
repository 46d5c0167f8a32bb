"""Exhibits on answers: composition, differencing, averaging, reconstruction, and the budget that ends them."""

import numpy as np

from discreet.attacks.accumulation import Accumulation, accumulation_charts
from discreet.attacks.answers import Noisy, Raw, Rounded, Suppressed
from discreet.attacks.averaging import Averaging
from discreet.attacks.composition import two_tables
from discreet.attacks.differencing import Differencing, pairs_about
from discreet.attacks.harm import Heights, Smoking
from discreet.attacks.reconstruction import Reconstruction, random_subsets
from discreet.attacks.recovery import against_budget, against_noise
from discreet.gallery.exhibit import Exhibit, Shown

_PEOPLE = 400
_CROWD = 3000


def _secret(seed: int, people: int = _PEOPLE) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.random.default_rng(seed).random(people) < 0.3


def _composition(seed: int) -> Shown:
    return Shown([two_tables().run(), two_tables(noisy=True).run()])


def _accumulation(seed: int) -> Shown:
    exact = Accumulation(people=200, answers=40, trials=200, seed=seed)
    budgeted = Accumulation(people=200, answers=40, trials=200, seed=seed, total=1)
    charts = accumulation_charts({"exact answers": exact.curves(), "randomized, ε 1 in all": budgeted.curves()})
    return Shown([exact.run(), budgeted.run()], charts)


def _differencing(seed: int) -> Shown:
    ill = _secret(seed)
    people = range(0, _PEOPLE, 2)
    one, many = (pairs_about(people, of=_PEOPLE, groups=groups, seed=seed) for groups in (1, 100))
    asked = ill[::2]
    crowd = _secret(seed, _CROWD)  # many, so that there is no doubt that it holds
    spread = pairs_about(range(_CROWD), of=_CROWD, groups=1, seed=seed)
    paid = Noisy(Raw(crowd), epsilon="0.05", seed=seed)
    return Shown([
        Differencing(pairs=one, truth=asked, answerer=Raw(ill)).run(),
        Differencing(pairs=many, truth=asked, answerer=Rounded(Raw(ill), base=5)).run(),
        Differencing(pairs=spread, truth=crowd, answerer=paid, epsilon="0.1").run(),
    ])  # fmt: skip


def _averaging(seed: int) -> Shown:
    ill = _secret(seed + 1, 100)
    again = [[[person]] * 200 for person in range(100)]
    crowd = _secret(seed + 1, _CROWD)
    once = [[[person]] for person in range(_CROWD)]
    loose = Noisy(Raw(ill), epsilon="0.5", seed=seed)
    paid = Noisy(Raw(crowd), epsilon="0.1", seed=seed)
    return Shown([
        Averaging(questions=again, truth=ill, answerer=loose, possible=(0, 1)).run(),
        Averaging(questions=once, truth=crowd, answerer=paid, epsilon="0.1", possible=(0, 1)).run(),
    ])  # fmt: skip


def _reconstruction(seed: int) -> Shown:
    ill, questions = _secret(seed + 2), 4 * _PEOPLE
    subsets = random_subsets(questions, people=_PEOPLE, seed=seed)
    raw = Raw(ill)
    budget = Noisy(raw, epsilon=f"1/{questions}", seed=seed)
    reports = [
        Reconstruction(subsets=subsets, truth=ill, answerer=raw, against="exact answers").run(),
        Reconstruction(
            subsets=subsets, truth=ill, answerer=Rounded(raw, base=10), scale=5, against="rounded to tens"
        ).run(),
        Reconstruction(
            subsets=subsets, truth=ill, answerer=Suppressed(raw, below=5), missing=(0, 4), against="no counts below 5"
        ).run(),
        Reconstruction(
            subsets=subsets, truth=ill, answerer=budget, scale=questions, against="ε 1 for all answers"
        ).run(),
    ]
    noise = against_noise(people=300, questions=1200, ratios=[0, 0.1, 0.2, 0.5, 1, 2, 5], seed=seed)
    paid = against_budget(people=300, questions=1200, epsilons=["0.1", 1, 10, 100, 1000, 10_000], seed=seed)
    return Shown(reports, [noise.chart(), paid.chart()])


def _harm(seed: int) -> Shown:
    smoking = Smoking(smokers=100, ill=60, others=100, others_ill=10, epsilon="0.5", seed=seed)
    return Shown([Heights(people=2000, epsilon=1, seed=seed).run(), smoking.run()])


EXHIBITS = (
    Exhibit(
        name="composition",
        title="Two harmless answers, one person",
        claims=("A6", "A7"),
        words="The least age and the greatest weight of those with the disease: each fits two people, both fit one",
        show=_composition,
    ),
    Exhibit(
        name="accumulation",
        title="Answers add up",
        claims=("A8",),
        words="Exact answers leave fewer and fewer candidates; randomized ones within a budget do not",
        show=_accumulation,
    ),
    Exhibit(
        name="differencing",
        title="Everybody, and everybody but one",
        claims=("B11",),
        words="The difference of two counts is one person's secret; rounding does not help",
        show=_differencing,
    ),
    Exhibit(
        name="averaging",
        title="The same question again and again",
        claims=("B10", "B11"),
        words="Fresh noise without a ledger averages away; a budget ends it",
        show=_averaging,
    ),
    Exhibit(
        name="reconstruction",
        title="Too many answers give away the database",
        claims=("A9",),
        words="Counts over random subsets are equations; solving them gives every secret bit back, or noise stops it",
        show=_reconstruction,
    ),
    Exhibit(
        name="harm",
        title="What no release can prevent",
        claims=("A10",),
        words="What is learned about everybody is learned about you, in the data or not: taking part hardly changes it",
        show=_harm,
    ),
)
